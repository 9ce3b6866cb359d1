"""Serve agents over the Model Context Protocol, on standard input and output.

Nothing else of memoryd imports this: the SDK costs half a second and 50 MB.
"""
