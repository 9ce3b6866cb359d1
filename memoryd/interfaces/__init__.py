"""Talk to people and programs: the command line, the MCP server, the Python API, hooks and the control socket.

This package holds one module for each group of commands, the connections to agent programs, and what each caller is
shown. It does not decide or change anything itself; it asks the packages below.

Open `cli.py` first.
"""
