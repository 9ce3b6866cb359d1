"""Serve agents over the Model Context Protocol, on standard input and output or on the loopback.

Only `memoryd mcp` imports this package, because the protocol's SDK costs half a second and 50 MB.
"""
