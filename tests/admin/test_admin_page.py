"""The admin page in this process: what each page shows, what each act does, and what neither gives away."""

import contextlib
import html
import http.client
import json
import os
import re
import shutil
import signal
import socket
import sys
import threading
import time
import urllib.parse
from pathlib import Path

import pytest
from admin_world import PLANTED, Client, append_core, audited, consent, make
from scratch import until

from memoryd import config
from memoryd.admin import server as server_module
from memoryd.files.log import get_logger
from memoryd.interfaces import page
from memoryd.requests import access, lists
from memoryd.requests.access import Person, find_user_name


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    made = make(tmp_path_factory.mktemp("admin") / "s")
    shutil.copytree(made.root, made.root.with_name("kept"), symlinks=True)
    return made


@pytest.fixture
def owner(pristine):
    return pristine.copied(pristine.root.with_name("kept"))


@pytest.fixture
def silo(pristine):
    scratch = pristine.copied(pristine.root.with_name("kept"))
    scratch.agents[0]["privacy"] = "silo"
    scratch.write_config()
    return scratch


def ids(scratch, kind="core", *, ended=False):
    sql = "SELECT id FROM memory WHERE kind = ? AND (deleted_at IS NOT NULL) = ? ORDER BY position, id"
    return [row[0] for row in scratch.query(sql, kind, ended)]


def test_an_owner_sees_everything_on_the_pages(owner):
    client = Client(owner)
    paths = client.crawl("/agent/demo/memories?ended=1", "/time?texts=1&check=1", "/agent/demo/dreams?day=2026-03-04")
    shown = {word for word in PLANTED.values() if client.leaks(word)}
    assert shown >= {PLANTED[name] for name in ("core", "heading", "tag", "fact", "profile", "diary", "ended")}
    assert {"/", "/runs", "/time", "/access", "/settings", "/log", "/agent/demo/facts"} <= paths
    assert all(client.get(path).status_code == 200 for path in paths if not path.startswith("/static"))
    assert "whole" in client.get("/time?check=1").text
    assert PLANTED["daily"] in client.get("/agent/demo/memories?q=norvantic").text


def test_each_act_of_an_owner_changes_what_it_says_and_is_audited_by_name(owner):
    client = Client(owner)
    first, second = ids(owner)
    assert client.do("pause", verb="pause")[0] == "ok"
    assert owner.query("SELECT paused FROM agent") == [(1,)]
    client.do("pause", verb="resume")
    assert client.do("memory", verb="protect", id=first)[0] == "ok"
    assert client.do("memory", verb="edit", id=second, text="the third line is new")[0] == "ok"
    assert "- the third line is new" in owner.core
    assert client.do("memory", verb="restore", id=ids(owner, ended=True)[0])[0] == "ok"
    assert PLANTED["ended"] in owner.core
    assert client.do("memory", verb="delete", id=second)[0] == "ok"
    assert "third line" not in owner.core
    run = owner.query("SELECT id FROM job_run WHERE kind = 'edit' ORDER BY created_at DESC LIMIT 1")[0][0]
    assert client.do("rollback", id=run, preview="1")[0] == "ok"
    assert "third line" not in owner.core
    assert client.do("rollback", id=run)[0] == "ok"
    assert "third line" in owner.core
    assert client.do("append", text="a line that was unsure")[0] == "ok"
    assert "a line that was unsure" in owner.core
    assert client.do("feedback", id=first, verdict="good")[0] == "ok"
    assert client.do("fact", verb="add", content="they like tea", category="preference", confidence="0.9")[0] == "ok"
    fact = owner.query("SELECT id FROM memory WHERE content = 'they like tea'")[0][0]
    assert client.do("fact", verb="edit", id=fact, content="they like coffee", category="goal")[0] == "ok"
    assert owner.query("SELECT content, category FROM memory WHERE id = ?", fact) == [("they like coffee", "goal")]
    assert client.do("fact", verb="delete", id=fact)[0] == "ok"
    exported = client.get("/agent/demo/facts.json").text
    assert PLANTED["fact"] in exported
    assert client.do("fact", verb="import", text=exported)[0] == "ok"
    assert client.do("profile", id="personal", text="has a dog")[0] == "ok"
    assert owner.query("SELECT text FROM profile_section WHERE section = 'personal'") == [("has a dog",)]
    assert owner.json("verify")["ok"]
    acts = audited(owner, "admin %")
    assert {operation for operation, _, _ in acts} >= {
        "admin pause pause", "admin memory edit", "admin rollback", "admin fact add", "admin profile", "admin append",
    }  # fmt: skip
    assert {actor for _, actor, _ in acts} == {f"admin:{find_user_name()}"}


def test_jobs_and_imports_run_on_while_the_page_answers(owner):
    client = Client(owner)
    for act, form in (("job", {"kind": "dedup"}), ("import", {"days": "3000"})):
        before = set(threading.enumerate())
        assert client.do(act, **form)[0] == "ok"
        for thread in set(threading.enumerate()) - before:
            thread.join(60)
    kinds = {kind for (kind,) in owner.query("SELECT kind FROM job_run WHERE \"trigger\" = 'manual'")}
    assert {"dedup", "history"} <= kinds
    assert "nothing was written" in client.do("job", kind="dream", force="1", dry="1")[1]
    assert "no such job" in client.do("job", kind="canary", dry="1")[1]


def test_nothing_of_a_private_memory_is_in_any_answer_to_an_admin(silo):
    client = Client(silo)
    fact = ids(silo, "fact")[0]
    named = [f"/agent/demo/memory/{one}" for one in (*ids(silo), *ids(silo, ended=True), fact)]
    runs = [f"/run/{row[0]}" for row in silo.query("SELECT id FROM job_run")]
    queries = ["/agent/demo/memories?kind=fact", "/agent/demo/memories?ended=1", "/time?texts=1&check=1"]
    queries += ["/agent/demo/dreams?day=2026-03-04", "/agent/demo/facts.json", "/log?level=debug"]
    asked = [f"/agent/demo/memories?q={word[:-1]}" for word in PLANTED.values()]
    paths = client.crawl(*named, *runs, *queries, *asked)
    assert client.submit_all(paths) >= 10
    for act, form in {
        "memory": {"verb": "edit", "id": ids(silo)[0], "text": "overwritten"},
        "fact": {"verb": "delete", "id": fact},
        "profile": {"id": "work", "text": "overwritten"},
        "append": {"text": "overwritten"},
        "feedback": {"id": ids(silo)[0], "verdict": "bad"},
        "job": {"kind": "dream", "dry": "1"},
    }.items():
        assert client.do(act, **form)[0] == "error"
    assert not client.leaks()
    assert "overwritten" not in silo.core
    log = "".join(map(str, silo.log()))
    assert not [word for word in PLANTED.values() if word in log]
    assert not audited(silo, "read")


def test_a_blind_act_is_audited_as_blind(silo):
    client = Client(silo)
    assert "without seeing" in client.do("memory", verb="protect", id=ids(silo)[0])[1]
    (act,) = audited(silo, "admin memory%")
    assert "(blind)" in act[0]
    assert silo.query("SELECT constitutional FROM memory WHERE id = ?", ids(silo)[0]) == [(1,)]


def test_the_whole_exception_from_the_request_to_the_journal(silo):
    client = Client(silo)
    assert client.do("request", purpose="a wrong address", minutes="30", scope="core")[0] == "ok"
    (notice,) = access.list_notices(client.server.settings, client.server.settings.agents[0])
    assert "a wrong address" in notice[1]
    assert "these parts of this memory (core)" in notice[1]
    assert not client.leaks()
    consent(silo)
    page = client.get("/agent/demo/memories")
    assert PLANTED["core"] in page.text
    assert "min left" in page.text
    assert 0 < int(page.headers["refresh"]) <= 1801
    client.get("/agent/demo/facts")
    assert not client.leaks(PLANTED["fact"], PLANTED["profile"])  # the scope is the core
    (read,) = [row for row in audited(silo, "read") if row[1].startswith("admin:")]
    stored = silo.query(
        "SELECT c.text FROM audit a JOIN content c ON c.sha256 = a.\"after\" WHERE a.operation = 'read'"
    )
    assert "Memory store: core memories" in stored[0][0]
    assert ids(silo)[0] in stored[0][0]
    grant = read[2].removeprefix("grant:")
    assert client.do("revoke", id=grant)[0] == "ok"
    client.seen.clear()
    client.get("/agent/demo/memories")
    assert not client.leaks()
    journal = silo.query("SELECT content FROM memory WHERE kind = 'journal'")
    assert "Access of" in journal[-1][0]
    assert "a wrong address" in journal[-1][0]
    assert ids(silo)[0] in journal[-1][0]
    assert silo.json("verify")["ok"]


def test_access_that_is_over_or_another_persons_shows_nothing(silo):
    asking = Client(silo)
    asking.do("request", purpose="look", minutes="15")
    consent(silo)
    assert PLANTED["core"] in asking.get("/agent/demo/memories").text
    other = Client(silo, Person("mallory", is_here=False, owns=False))
    other.crawl()
    assert not other.leaks()
    silo.change("UPDATE \"grant\" SET expires_at = '2026-01-01T00:00:00.000Z'")
    late = Client(silo)
    late.crawl("/time?texts=1")
    journal = silo.query("SELECT content FROM memory WHERE kind = 'journal'")
    assert not late.leaks()
    assert "has ended" in journal[-1][0]


def test_access_to_one_agent_shows_nothing_of_another(silo):
    place = silo.root / "other"
    place.mkdir()
    (place / "MEMORY.md").write_text("- the brindlewick is theirs\n", encoding="utf-8")
    silo.agents.append(silo.agent("other", place, privacy="silo"))
    silo.write_config()
    silo.run("run", "--once")
    client = Client(silo)
    client.do("request", agent="other", purpose="look", minutes="15")
    consent(silo, workspace=place)
    paths = client.crawl("/time?texts=1&check=1", *(f"/agent/other/memory/{one}" for one in ids(silo)))
    client.submit_all(paths)
    assert client.leaks("brindlewick")
    assert not client.leaks()


def test_nobody_consents_at_the_page(silo):
    client = Client(silo)
    client.do("request", purpose="look", minutes="15")
    grant = silo.query('SELECT id FROM "grant"')[0][0]
    for act in ("consent", "grant", "approve", "memory_consent"):
        assert client.post(act, id=grant, answer="yes").status_code == 404
    assert silo.query('SELECT state FROM "grant"') == [("requested",)]
    consent(silo, "-")
    assert "declined" in client.get("/access").text


def test_a_named_user_without_ownership_sees_no_open_agent(owner):
    other = Client(owner, Person("alice", is_here=False, owns=False))
    other.crawl("/time?texts=1", "/agent/demo/facts.json", *(f"/agent/demo/memory/{one}" for one in ids(owner)))
    assert not other.leaks()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example:80"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_another_host_or_origin_gets_nothing(owner, headers, status):
    client = Client(owner)
    assert client.get("/agent/demo/memories", **headers).status_code == status
    assert not client.leaks()


def test_a_change_without_origin_or_token_is_refused(owner):
    client = Client(owner)
    token = client.csrf()
    own = f"http://{client.listen}"
    form = {"agent": "demo", "verb": "pause", "csrf": token}
    assert client.http.post("/act/pause", data=form).status_code == 403
    assert client.http.post("/act/pause", data=form, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert client.http.post("/act/pause", data=form | {"csrf": "x"}, headers={"origin": own}).status_code == 403
    assert client.http.post("/act/pause", data=form, headers={"origin": "http://localhost:1"}).status_code == 403
    assert owner.query("SELECT paused FROM agent") == [(0,)]
    answer = client.http.post("/act/pause", data=form | {"back": "//evil.example"}, headers={"origin": own})
    assert answer.headers["location"] == "/"


def test_a_link_opens_one_session_with_a_name_of_the_servers_choice(owner):
    from memoryd.admin.links import make_link

    client = Client(owner)
    path = "/" + make_link(client.server.settings).split("/", 3)[3]
    client.http.cookies.clear()
    client.http.cookies.set(client.server._cookie, "chosen-by-an-attacker")
    answer = client.get(path)
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "chosen-by-an-attacker" not in cookie
    assert client.get(path).status_code == 403
    until, nonce, sign = path.rpartition("/")[2].split(".")
    for forged in (f"{int(until) + 60}.{nonce}.{sign}", f"{until}.{nonce}x.{sign}", "x", "1.2.3", f"{until}.{nonce}."):
        client.http.cookies.clear()
        assert client.get(f"/enter/{forged}").status_code in {403, 429}
        assert client.get("/").status_code == 401


def pages_of(pid):
    """The processes of the page that a process has started, from whichever thread."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread or a process has just ended
            found += [
                one for one in path.read_text().split() if "--listener" in Path(f"/proc/{one}/cmdline").read_text()
            ]
    return [int(one) for one in found]


def fetch(link):
    address = urllib.parse.urlsplit(link)
    with contextlib.closing(http.client.HTTPConnection(address.hostname, address.port, timeout=30)) as connection:
        connection.request("GET", address.path)
        return connection.getresponse().status


def test_a_page_that_cannot_be_served_lets_its_visitors_go(owner):
    """Else the one that waits would have it started again and again."""
    settings = config.load(owner.config)
    owner.config.write_text(owner.config.read_text() + "\nnonsense: 1\n")
    host, _, port = settings.admin.listen.rpartition(":")
    with page.serve_beside(settings, get_logger()), socket.create_connection((host, int(port)), timeout=60) as visit:
        assert visit.recv(1) == b""


@pytest.mark.skipif(sys.platform != "linux", reason="needs the list of a process's children")
def test_a_daemon_starts_the_page_for_its_first_visitor(owner):
    with owner.daemon() as process:
        assert pages_of(process.pid) == []
        link = owner.json("admin")["link"]
        assert [fetch(link), fetch(link)] == [200, 403]
        (page,) = pages_of(process.pid)
        os.kill(page, signal.SIGTERM)  # as when it is unused: the next visitor starts another, which knows no old link
        until(lambda: pages_of(process.pid) == [], why="the page ends")
        assert [fetch(link), fetch(owner.json("admin")["link"])] == [403, 200]
    assert process.returncode == 0
    with pytest.raises(OSError, match="refused"):
        fetch(link)


def test_the_page_is_unused_when_nobody_has_been_logged_in_for_a_while(owner):
    client = Client(owner)
    server, later = client.server, server_module.UNUSED_SECONDS + 1
    now = time.monotonic()
    assert not server.is_unused(now + later)
    client.http.post("/logout", data={"csrf": client.csrf()}, headers={"origin": f"http://{client.listen}"})
    assert not server.is_unused(now + later + 1)
    assert server.is_unused(now + 2 * later)


def test_every_answer_forbids_scripts_frames_and_keeping(owner):
    client = Client(owner)
    for path in ("/", "/agent/demo/memories", "/access", "/nowhere", "/static/page.css"):
        headers = client.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert headers["x-frame-options"] == "DENY"
    image = client.get("/chart/demo/sizes.svg")
    assert "sandbox" in image.headers["content-security-policy"]
    assert not re.search(r"<script|javascript:|on\w+=|href=\"(?!#)", image.text)


def test_earlier_entries_of_the_audit_are_filtered_like_the_first(owner, monkeypatch):
    monkeypatch.setattr(lists, "PAGE", 2)
    text = Client(owner).get("/time?agent=demo&operation=add&texts=1&actor=human").text
    link = html.unescape(re.search(r'rel="next" href="([^"]*)"', text)[1])
    assert {"operation=add", "actor=human", "texts=1", "agent=demo"} <= set(link.partition("?")[2].split("&"))


def test_markup_in_a_memory_is_shown_as_text(owner):
    bad = '<script>alert(1)</script> <img src=x onerror=alert(2)> [a](javascript:alert(3)) "><svg onload=alert(4)>'
    append_core(owner, f"- {bad}\n")
    client = Client(owner)
    text = client.get("/agent/demo/memories").text + client.get("/time?texts=1").text
    assert "&lt;script&gt;alert(1)" in text
    assert not re.search(r"<script>alert|<img src=x|<svg onload", text)


def test_a_setting_is_shown_as_a_diff_then_written_with_its_comments(owner):
    settings = json.loads(owner.config.read_text())
    lines = ["# my own words\n", "refine:\n", "  trigger_tokens: 8000   # when it is due\n"]
    lines += [f"{name}: {json.dumps(value)}\n" for name, value in settings.items()]
    owner.config.write_text("".join(lines))
    client = Client(owner)
    before = owner.config.read_text()
    assert client.post("setting", key="refine.trigger_tokens", value="9000").status_code == 303
    page = client.get("/settings").text
    assert "+  trigger_tokens: 9000" in page
    assert owner.config.read_text() == before
    assert client.do("setting", key="refine.trigger_tokens", value="9000", apply="1")[0] == "ok"
    after = owner.config.read_text()
    assert "trigger_tokens: 9000" in after
    assert "# my own words" in after
    assert "# when it is due" in after
    assert [line for line in before.splitlines() if line not in after.splitlines()] == [
        "  trigger_tokens: 8000   # when it is due"
    ]
    assert "9,000" in client.get("/settings").text
    for key, value in (
        ("refine.trigger_tokens", "-5"),
        ("agents[0].privacy", "open"),
        ("hooks.on_alarm", "rm"),
        ("admin.listen", "0.0.0.0:1"),
        ("refine.mode", "normal\nhooks: {on_alarm: x}"),
    ):
        assert client.do("setting", key=key, value=value, apply="1")[0] == "error"
    assert owner.config.read_text() == after
    assert {row[0] for row in audited(owner, "admin setting%")} == {"admin setting"}


def test_a_page_without_an_agent_says_why_it_changes_nothing(owner):
    owner.agents = []
    owner.write_config(agents=[])
    before = owner.config.read_text()
    kind, text = Client(owner).do("setting", key="refine.trigger_tokens", value="9000", apply="1")
    assert (kind, "without an agent there is no audit" in text) == ("error", True)
    assert owner.config.read_text() == before


def test_wrong_passphrases_are_limited_and_the_right_one_still_works_later(owner, monkeypatch):
    from memoryd.admin import links

    hashed = links.hash_passphrase("a long passphrase")
    owner.write_config(admin=owner.settings["admin"] | {"users": [{"name": "alice", "passphrase": hashed}]})
    client = Client(owner)
    client.http.cookies.clear()
    own = {"origin": f"http://{client.listen}"}
    tried = []
    monkeypatch.setattr(links.Sessions, "log_in", lambda *given: tried.append(given))
    codes = [
        client.http.post("/login", data={"name": "alice", "passphrase": f"no{n}"}, headers=own).status_code
        for n in range(200)
    ]
    assert set(codes) <= {403, 429}
    assert codes.count(403) <= 30
    assert len(tried) <= 30
    monkeypatch.undo()
    client.server.sessions._wrong = links.Bucket(10, 1)
    client.server.build()
    fresh = Client(owner)
    fresh.http.cookies.clear()
    assert fresh.http.post("/login", data={"name": "alice", "passphrase": "wrong"}, headers=own).status_code == 403
    assert fresh.http.post("/login", data={"name": "bob", "passphrase": "wrong"}, headers=own).status_code == 403
    right = {"name": "alice", "passphrase": "a long passphrase"}
    assert fresh.http.post("/login", data=right, headers=own).status_code == 303
    fresh.crawl()
    assert not fresh.leaks()


def test_a_proxy_is_believed_from_its_own_address_alone(owner):
    users = [{"name": "alice", "owner": True}]
    owner.write_config(admin=owner.settings["admin"] | {"users": users, "proxy": "10.0.0.2"})
    proxied = Client(owner, client=("10.0.0.2", 5000))
    proxied.http.cookies.clear()
    assert proxied.get("/", **{"x-forwarded-user": "alice"}).status_code == 200
    proxied.http.cookies.clear()
    assert proxied.get("/", **{"x-forwarded-user": "bob"}).status_code == 401
    direct = Client(owner, client=("10.0.0.3", 5000))
    direct.http.cookies.clear()
    assert direct.get("/", **{"x-forwarded-user": "alice"}).status_code == 401


def test_other_machines_reach_no_page_that_says_nobody_may_use_it(owner):
    for admin in (
        {"listen": "0.0.0.0:8765"},
        {"listen": "0.0.0.0:8765", "users": [{"name": "a", "passphrase": "$argon2id$x"}]},
        {"listen": "0.0.0.0:8765", "proxy": "10.0.0.2"},
    ):
        owner.write_config(admin=admin)
        assert "admin.listen" in owner.json("config", "check", code=2)["message"]
