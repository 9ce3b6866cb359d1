"""The conformance suite of the Model Context Protocol, and its Inspector, at the doors; npx fetches them and Node.js.

usage: make conformance

Scenarios that ask for the suite's own tools, prompts and resources say nothing of a server that has others: they are
not run. The suite knows no token, so it comes by a proxy that adds it and leaves all else as it is.
"""

import contextlib
import http.client
import http.server
import shlex
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from mcp_world import Served, arguments

NPX = ("npx", "--yes", "-p", "node@22")
SUITE = (*NPX, "-p", "@modelcontextprotocol/conformance@0.1.16", "conformance", "server")
INSPECTOR = (*NPX, "-p", "@modelcontextprotocol/inspector@0.17", "mcp-inspector", "--cli")
SCENARIOS = (
    "server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection",
)  # fmt: skip


class Proxy(http.server.BaseHTTPRequestHandler):
    """Passes requests on, with the token, and with the door's port where its own stands."""

    served: Served

    def pass_on(self):
        port = str(self.server.server_address[1])
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        line = http.client.HTTPConnection("127.0.0.1", self.served.port, timeout=20)
        line.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            swapped = value.replace(f":{port}", f":{self.served.port}") if name.lower() in {"host", "origin"} else value
            line.putheader(name, swapped)
        line.putheader("Authorization", f"Bearer {self.served.token}")
        line.endheaders(body)
        answer = line.getresponse()
        try:
            data = answer.read()
        except http.client.IncompleteRead as error:  # a stream that was open when the door was shut
            data = error.partial
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers.get("content-type", "text/plain"))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):  # the suite has heard enough of a stream
            self.wfile.write(data)

    do_GET = do_POST = do_DELETE = pass_on  # noqa: N815 - so the library calls them

    def log_message(self, *_):
        pass


def tell(name, command, sign):
    """Run a check, and tell the line by which it shows that it passed, or its error; returns whether there is one."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    found = [line for line in done.stdout.splitlines() if sign in line]
    passed = bool(found) and not done.returncode
    sys.stdout.write(f"{name:34} {found[0].strip()[:80] if passed else (done.stderr or done.stdout).strip()[-200:]}\n")
    sys.stdout.flush()
    return passed


def main():
    passed = []
    with tempfile.TemporaryDirectory() as folder:
        served = Served(Path(folder) / "scratch")
        proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Ours", (Proxy,), {"served": served}))
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{proxy.server_address[1]}/mcp"
        stdio = Path(folder) / "server"  # the Inspector would take the server's options for its own
        command = shlex.join([sys.executable, *arguments(served.scratch)])
        stdio.write_text(f"#!/bin/sh\nexec {command}\n")
        stdio.chmod(0o700)
        token = ("--header", f"Authorization: Bearer {served.token}")
        doors = {"stdio": ((str(stdio),), ()), "http": ((served.url, "--transport", "http"), token)}
        calls = {
            "tools": (("--method", "tools/list"), '"memory_search"'),
            "search": (("--method", "tools/call", "--tool-name", "memory_search", "--tool-arg", "query=a"), '"hits"'),
            "resources": (("--method", "resources/list"), '"memory://core"'),
        }
        try:
            passed += [tell(one, [*SUITE, "--url", url, "--scenario", one], "Passed:") for one in SCENARIOS]
            for door, (target, options) in doors.items():
                for call, (asked, sign) in calls.items():
                    passed.append(tell(f"inspector {door} {call}", [*INSPECTOR, *target, *asked, *options], sign))
        finally:
            proxy.shutdown()
            served.process.terminate()
            served.process.wait(20)
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
