"""The conformance suite of the Model Context Protocol against the door on the loopback; npx fetches it and its Node.js.

usage: make conformance

Scenarios that ask for the suite's own tools, prompts and resources say nothing of a server that has others: they are
not run. The suite knows no token, so it comes by a proxy that adds it and leaves all else as it is.
"""

import contextlib
import http.client
import http.server
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from test_mcp_http import Served

RUN = ("npx", "--yes", "-p", "node@22", "-p", "@modelcontextprotocol/conformance@0.1.16")
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


def main():
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        served = Served(Path(folder) / "scratch")
        proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Ours", (Proxy,), {"served": served}))
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{proxy.server_address[1]}/mcp"
        try:
            for scenario in SCENARIOS:
                command = [*RUN, "conformance", "server", "--url", url, "--scenario", scenario]
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
                last = [line for line in done.stdout.splitlines() if line.startswith("Passed:")]
                sys.stdout.write(f"{scenario:26} {last[0] if last else done.stderr.strip()[-200:]}\n")
                sys.stdout.flush()
                if done.returncode or not last:
                    failed.append(scenario)
        finally:
            proxy.shutdown()
            served.process.terminate()
            served.process.wait(20)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
