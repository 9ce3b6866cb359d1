"""The door by which agents come in: the Model Context Protocol, over standard input and output or on the loopback.

Nothing else of memoryd imports this: the SDK costs half a second and 50 MB.
"""
