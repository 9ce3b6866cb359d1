"""Serve agents over the Model Context Protocol, on standard input and output or on the loopback.

Nothing else of memoryd imports this: the SDK costs half a second and 50 MB.
"""
