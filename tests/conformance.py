"""The Inspector of the Model Context Protocol at the server; npx fetches it and Node.js.

usage: make conformance
"""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from mcp_world import arguments, world

INSPECTOR = ("npx", "--yes", "-p", "node@22", "-p", "@modelcontextprotocol/inspector@0.17", "mcp-inspector", "--cli")
CALLS = {
    "tools": (("--method", "tools/list"), '"memory_search"'),
    "search": (("--method", "tools/call", "--tool-name", "memory_search", "--tool-arg", "query=a"), '"hits"'),
    "prompts": (("--method", "prompts/list"), '"consolidate"'),
}


def tell(name, command, sign):
    """Run a check, and tell the line by which it shows that it passed, or its error; returns whether there is one."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    found = [line for line in done.stdout.splitlines() if sign in line]
    passed = bool(found) and not done.returncode
    sys.stdout.write(f"{name:34} {found[0].strip()[:80] if passed else (done.stderr or done.stdout).strip()[-200:]}\n")
    sys.stdout.flush()
    return passed


def main():
    with tempfile.TemporaryDirectory() as folder:
        server = Path(folder) / "server"  # the Inspector would take the server's options for its own
        command = shlex.join([sys.executable, *arguments(world(Path(folder) / "scratch"))])
        server.write_text(f"#!/bin/sh\nexec {command}\n")
        server.chmod(0o700)
        passed = [tell(name, [*INSPECTOR, str(server), *asked], sign) for name, (asked, sign) in CALLS.items()]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
