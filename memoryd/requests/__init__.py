"""Answer what people and programs ask of memoryd: the requests that all interfaces share.

The command line, the MCP server, the Python API and the control socket all call this package. A request works beside a
running daemon, or takes its lock and does the work in this process. This package does not parse options, print, or know
a protocol (`interfaces`), and it does not decide what a run does (`running`).

Open `waiting.py` first.
"""
