"""Talk to people and programs: the command line, the MCP server, the Python API, hooks and the control socket.

This package holds one module for each group of commands, the connections to agent programs, and the code that prints
results. It does not decide or change anything itself. It calls the packages below.

Open `cli.py` first.
"""
