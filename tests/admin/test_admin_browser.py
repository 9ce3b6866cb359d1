"""The admin page in a real Chromium: with many agents, by keyboard, on a phone, checked by axe, and under attack."""

import contextlib
import http.server
import shutil
import socket
import threading
import time
import urllib.parse

import pytest
from admin_world import PLANTED, append_core, consent, fill, make, served
from scratch import until

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP evil.example 127.0.0.1"),
]
PAGES = (
    *("/", "/agent/demo", "/agent/demo/memories", "/agent/demo/dreams", "/agent/demo/facts", "/runs", "/time?texts=1"),
    *("/access", "/settings", "/log", "/agent/a1", "/agent/a1/memories"),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    scratch = make(tmp_path_factory.mktemp("browser") / "s")
    fill(scratch)
    with served(scratch) as link:
        yield scratch, link


@pytest.fixture(scope="module")
def chromium():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(world, chromium):
    """A tab that is logged in; it fails on every message of the console and every dialog."""
    _, link = world
    context = chromium.new_context()
    tab, told = context.new_page(), []
    tab.on("console", lambda message: told.append(message.text))
    tab.on("pageerror", lambda error: told.append(str(error)))
    tab.on("dialog", lambda dialog: told.append(f"dialog {dialog.message}"))
    address = link()
    tab.goto(address)
    tab.wait_for_url(address.partition("/enter")[0] + "/")
    tab.base = address.partition("/enter")[0]
    yield tab
    context.close()
    assert not told


@pytest.fixture
def silo(world):
    scratch, _ = world
    scratch.agents[0]["privacy"] = "silo"
    scratch.write_config()
    yield scratch
    scratch.agents[0].pop("privacy")
    scratch.write_config()


@pytest.mark.browser
def test_each_page_with_many_agents_fits_a_phone_and_loads_nothing_from_elsewhere(page):
    asked = []
    page.on("request", lambda request: asked.append(urllib.parse.urlsplit(request.url).netloc))
    page.set_viewport_size({"width": 360, "height": 740})
    for path in PAGES:
        answer = page.goto(page.base + path)
        assert answer.status == 200, path
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
    assert set(asked) == {urllib.parse.urlsplit(page.base).netloc}
    page.goto(page.base + "/")
    assert page.locator("tbody tr").count() == 20


@pytest.mark.browser
@pytest.mark.timeout(600)
def test_no_page_has_a_serious_fault_of_accessibility(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for path in PAGES:
            page.goto(page.base + path)
            # What runs in the page besides its own script is put in by the debugger, past the policy.
            found = axe.run(page).response["violations"]
            bad = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in {"serious", "critical"}]
            assert not bad, (scheme, path, bad)


@pytest.mark.browser
def test_an_agent_is_paused_and_a_memory_protected_by_keyboard_alone(page, world):
    scratch, _ = world
    page.goto(page.base + "/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    _tab_to(page, "Pause demo")
    page.keyboard.press("Enter")
    page.wait_for_selector(".told.ok")
    assert scratch.query("SELECT paused FROM agent WHERE id = 'demo'") == [(1,)]
    _tab_to(page, "Resume demo")
    page.keyboard.press("Space")
    page.wait_for_selector("button[aria-label='Pause demo']")
    memory = scratch.query("SELECT id FROM memory WHERE agent_id = 'demo' AND content LIKE '%quorvexa%'")[0][0]
    page.goto(f"{page.base}/agent/demo/memory/{memory}")
    _tab_to(page, "protect")
    page.keyboard.press("Enter")
    page.wait_for_selector(".told.ok")
    assert scratch.query("SELECT constitutional FROM memory WHERE id = ?", memory) == [(1,)]


def _tab_to(page, name):
    """Press Tab until the control with this name has the focus."""
    for _ in range(200):
        page.keyboard.press("Tab")
        one = "document.activeElement"
        if page.evaluate(f"{one}.getAttribute('aria-label') || {one}.textContent").strip() == name:
            return
    raise AssertionError(name)


def test_the_exception_from_the_request_to_the_page_that_closes_itself(page, silo):
    page.goto(page.base + "/agent/demo/memories")
    assert PLANTED["core"] not in page.content()
    page.goto(page.base + "/access")
    page.get_by_label("Agent").select_option("demo")
    page.get_by_label("Purpose").fill("a wrong address")
    page.get_by_label("core").check()
    page.get_by_role("button", name="Request").click()
    page.wait_for_selector(".told.ok")
    consent(silo)
    page.wait_for_selector(".banner")  # the open page shows by itself that the agent agreed
    page.goto(page.base + "/agent/demo/memories")
    assert PLANTED["core"] in page.content()
    # The page ends by itself when the agent takes its consent back.
    consent(silo, "-")
    page.wait_for_selector(".banner", state="detached")
    assert PLANTED["core"] not in page.content()
    told = "SELECT 1 FROM memory WHERE kind = 'journal' AND agent_id = 'demo' AND content LIKE '%a wrong address%'"
    until(lambda: silo.query(told), why="the journal of the agent tells of it")


def test_markup_of_a_memory_neither_runs_nor_loads(page, world):
    scratch, _ = world
    bad = '- <script>alert(1)</script><img src="//evil.example/x" onerror=alert(2)>[a](javascript:alert(3))\n'
    append_core(scratch, bad)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page.base + "/agent/demo/memories")
    assert "<script>alert(1)" in page.locator("tbody").inner_text()
    page.goto(page.base + "/time?texts=1&agent=demo")
    assert page.locator("main img[src*='evil'], main script").count() == 0
    assert not [url for url in asked if "evil" in url]


def test_a_page_of_another_site_reaches_nothing(world, chromium, page):
    scratch, link = world
    port = urllib.parse.urlsplit(page.base).port
    form = (
        f'<form method=post action="{page.base}/act/pause"><input name=agent value=demo><input name=verb value=pause>'
    )
    stranger = _serve(f"<body>{form}</form><script>document.forms[0].submit()</script>")
    before = scratch.query("SELECT paused FROM agent WHERE id = 'demo'")
    tab = page.context.new_page()
    answer = tab.goto(f"http://evil.example:{port}/")  # rebound to the loopback
    assert answer.status == 421
    tab.goto(f"http://localhost:{stranger.server_port}/")
    tab.wait_for_url("**/act/pause")
    assert "not answered" in tab.content()
    assert scratch.query("SELECT paused FROM agent WHERE id = 'demo'") == before
    stranger.shutdown()
    stranger.server_close()
    other = chromium.new_context().new_page()
    once = link()
    assert other.goto(once).status == 200
    thief = chromium.new_context().new_page()
    assert thief.goto(once).status == 403
    assert thief.goto(page.base + "/").status == 401
    tab.close()


def _serve(text):
    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.mark.browser
def test_slow_connections_stop_neither_the_page_nor_the_agent(world, page):
    scratch, _ = world
    address = urllib.parse.urlsplit(page.base)
    with contextlib.ExitStack() as opened:
        for _ in range(300):
            one = opened.enter_context(socket.create_connection((address.hostname, address.port), 5))
            one.sendall(b"GET / HTTP/1.1\r\nHost: ")
        assert page.goto(page.base + "/").status == 200
        assert "quorvexa" in scratch.json("context", "--agent", "demo")["text"]


@pytest.mark.browser
def test_the_log_arrives_by_itself(page, world):
    scratch, _ = world
    page.goto(page.base + "/log")
    rows = page.locator("#records tr")
    page.wait_for_timeout(100)
    before = rows.count()
    path = scratch.state / "log" / "memoryd.jsonl"

    def grown():
        with path.open("a", encoding="utf-8") as file:
            at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() % 1000:03}Z"
            file.write(f'{{"at": "{at}", "level": "info", "logger": "x", "event": "a new record"}}\n')
        return rows.count() > before

    def waited():
        page.wait_for_timeout(300)
        return grown()

    until(waited, why="the log arrives")
