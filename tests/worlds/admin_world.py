"""The admin page over a scratch installation: in this process, or served by a process of its own for a browser."""

import contextlib
import html
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.parse

import forks
from scratch import Scratch, said, until

from memoryd import config
from memoryd.requests import memory_changes

PLANTED = {
    "core": "quorvexa",
    "heading": "zimbolia",
    "tag": "fendraco",
    "fact": "ploomquat",
    "profile": "wexhurdle",
    "daily": "norvantic",
    "diary": "skibbereth",
    "session": "jallowick",
    "now": "trebbuline",
    "ended": "ossifrane",
}


_FORM = r'<form method="post" action="/act/(\w+)"[^>]*>(.*?)</form>'
_MEMORY = (
    "INSERT INTO memory (id, agent_id, kind, content, content_hash, created_at, updated_at, salt, tags, constitutional,"
    " derived_from, sources, successors) VALUES (?, ?, 'core', ?, ?, ?, ?, '', '[]', 0, '[]', '[]', '[]')"
)
_SESSION = (
    "INSERT INTO session (id, agent_id, native_id, format, state, seen_at, last_turn_at, turns, last_seq, gauge,"
    " counted_seq) VALUES (?, ?, ?, 'messages', 'active', ?, ?, 5, 5, '{}', 0)"
)


def fill(scratch, agents=20, memories=10_000, sessions=1_000):
    """Add agents, memories and sessions as rows: as many as a page must show, without the time to make them."""
    from memoryd.database.library import load_library

    for number in range(1, agents):
        place = scratch.root / f"w{number}"
        (place / "sessions").mkdir(parents=True)
        scratch.agents.append(scratch.agent(f"a{number}", place))
    scratch.write_config()
    scratch.run("run", "--once")
    names = [agent["id"] for agent in scratch.agents[1:]]  # of the first, the file holds all that the rows do
    at = "2026-03-04T09:00:00.000Z"
    rows = [
        (
            f"core_{number:08x}",
            names[number % len(names)],
            f"memory {number} tells of a thing",
            f"{number:064x}",
            at,
            at,
        )
        for number in range(memories)
    ]
    begun = [(f"sess_{number}", names[number % len(names)], str(number), at, at) for number in range(sessions)]
    connection = load_library().connect(str(scratch.state / "memoryd.db"), timeout=10)
    try:
        connection.executemany(_MEMORY, rows)
        connection.executemany(_SESSION, begun)
        connection.commit()
    finally:
        connection.close()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def plant(scratch, agent="demo", workspace=None):
    """Give an agent a memory in which each kind of text has a word of its own."""
    place = workspace or scratch.workspace
    core = f"# Memory\n\n## About {PLANTED['heading']}\n- the {PLANTED['core']} is green #{PLANTED['tag']}\n"
    (place / "MEMORY.md").write_text(core + f"- the {PLANTED['ended']} was red\n- plain third line\n", encoding="utf-8")
    (place / "memory" / "dreams").mkdir(parents=True, exist_ok=True)
    daily = f"# Daily Memory: 2026-03-04\n\n## Note (09:00)\n\n- {PLANTED['daily']} was seen\n"
    (place / "memory" / "2026-03-04.md").write_text(daily, encoding="utf-8")
    (place / "memory" / "dreams" / "2026-03-04.md").write_text(
        f"# Dream Diary: 2026-03-04\n\n{PLANTED['diary']}\n", encoding="utf-8"
    )
    text = f"Please remember the {PLANTED['session']} for ever."
    (place / "sessions").mkdir(exist_ok=True)
    with (place / "sessions" / "one.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(one | {"content": f"{one['content']} {text}"}) + "\n" for one in said())
    scratch.run("run", "--once")
    scratch.json("facts", "add", f"the user owns a {PLANTED['fact']}", "--agent", agent)
    scratch.json("facts", "profile", "work", f"works with {PLANTED['profile']}", "--agent", agent)
    scratch.json("session", "start", "--tags", PLANTED["now"], "--agent", agent)
    ended = next(row for row in scratch.json("core", "list", "--agent", agent) if PLANTED["ended"] in row["content"])
    settings = config.load(scratch.config)
    (chosen,) = (one for one in settings.agents if one.id == agent)
    memory_changes.change_core(settings, chosen, "delete", ended["id"])
    return ended["id"]


def make(root, **agent):
    """An installation with one agent and the page on a free port; returns it."""
    scratch = Scratch(root)
    scratch.write_config(admin={"listen": f"127.0.0.1:{free_port()}"})
    plant(scratch)
    scratch.agents[0] |= agent
    scratch.write_config()
    return scratch


class Client:
    """A browser without a screen: follows links and forms of the page in this process."""

    def __init__(self, scratch, person=None, **options):
        from starlette.testclient import TestClient

        from memoryd.admin.links import make_link
        from memoryd.admin.server import Server

        self.scratch = scratch
        self.server = Server(scratch.config)
        self.listen = self.server.settings.admin.listen
        self.http = TestClient(self.server.build(), base_url=f"http://{self.listen}", follow_redirects=False, **options)
        self.seen = []
        if person is not None:
            self.http.cookies.set(self.server._cookie, self.server.sessions.begin(person))
        else:
            answer = self.get("/" + make_link(self.server.settings).split("/", 3)[3])
            assert answer.status_code == 200, answer.text

    def get(self, path, **headers):
        answer = self.http.get(path, headers=headers)
        self.seen.append((path, answer.text + str(answer.headers.raw)))
        return answer

    def csrf(self):
        return re.search(r'name="csrf" value="([^"]+)"', self.get("/").text)[1]

    def post(self, act, **form):
        data = {"csrf": self.csrf(), "agent": "demo", "back": "/"} | form
        answer = self.http.post(f"/act/{act}", data=data, headers={"origin": f"http://{self.listen}"})
        self.seen.append((act, answer.text + str(answer.headers.raw)))
        return answer

    def do(self, act, **form):
        """Carry an act out; what the person is told."""
        assert self.post(act, **form).status_code == 303
        text = self.get("/").text
        told = re.search(r'class="told (\w+)" role="\w+">(.*?)</div>', text, re.DOTALL)
        return (told[1], html.unescape(told[2])) if told else None

    def crawl(self, *more):
        """Load every page that a link leads to, and whatever is asked for besides; their paths."""
        left, known = ["/", *more], set()
        while left:
            path = left.pop()
            if path in known:
                continue
            known.add(path)
            text = self.get(path).text
            found = re.findall(r'(?:href|src)="(/[^"]*)"', text)
            left += [html.unescape(one) for one in found if not one.startswith("/enter")]
        return known

    def submit_all(self, paths):
        """Submit every form of these pages as it is, with some text in each field that is empty."""
        done: set[tuple[str, ...]] = set()
        token = self.csrf()
        for path in sorted(paths):
            if path.startswith(("/static", "/chart")):
                continue
            for form in re.findall(_FORM, self.get(path).text, re.DOTALL):
                fields = dict(re.findall(r'<input[^>]*name="(\w+)"[^>]*value="([^"]*)"', form[1]))
                fields |= dict.fromkeys(re.findall(r'<textarea[^>]*name="(\w+)"', form[1]), "1")
                required = re.findall(r'<input type="text"[^>]*name="(\w+)"[^>]*required', form[1])
                fields |= dict.fromkeys(required, "a look")
                named = re.findall(r'<select name="(\w+)">.*?<option[^>]*?(?: value="([^"]*)")?[^>]*>([^<]*)', form[1])
                fields |= {name: value or text for name, value, text in named}
                like = (form[0], fields.get("verb", ""), fields.get("preview", ""), *sorted(fields))
                if form[0] in {"job", "import", "revoke"} or like in done:
                    continue
                done.add(like)
                data = {name: html.unescape(value) for name, value in fields.items()} | {"csrf": token}
                answer = self.http.post(f"/act/{form[0]}", data=data, headers={"origin": f"http://{self.listen}"})
                self.seen.append((form[0], answer.text + str(answer.headers.raw)))
        return len(done)

    def leaks(self, *words):
        """The answers that hold a planted word."""
        wanted = words or tuple(PLANTED.values())
        return [(path, word) for path, text in self.seen for word in wanted if word in text]


def consent(scratch, answer="x", workspace=None):
    """Answer all requests in the consent file, as the agent does."""
    path = (workspace or scratch.workspace) / ".continuum" / "memory" / "CONSENT.md"
    path.write_text(re.sub(r"^- \[.\] grant_", f"- [{answer}] grant_", path.read_text(), flags=re.MULTILINE))


def append_core(scratch, line):
    """Edit `MEMORY.md`, a while ago: a file that was just written is not read yet."""
    path = scratch.workspace / "MEMORY.md"
    path.write_text(scratch.core + line, encoding="utf-8")
    os.utime(path, (time.time() - 60,) * 2)


def audited(scratch, like="%"):
    """What the audit says: operation, actor and name."""
    return scratch.query("SELECT operation, actor, memory_id FROM audit WHERE operation LIKE ? ORDER BY id", like)


@contextlib.contextmanager
def served(scratch):
    """The page in a process of its own; a function that makes a link."""
    words = ["-m", "memoryd", "--config", str(scratch.config), "admin"]
    process = forks.start(words, stdout=subprocess.DEVNULL)
    address = urllib.parse.urlsplit("//" + scratch.settings["admin"]["listen"])

    def is_up():
        with contextlib.suppress(OSError), socket.create_connection((address.hostname, address.port), 1):
            return True
        assert process.poll() is None, "the page ended"
        return False

    try:
        until(is_up, why="the page is served")
        yield lambda: scratch.json("admin")["link"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)
