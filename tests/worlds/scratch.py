"""A scratch installation for tests: state folder, workspace, a session that is worth remembering, and its daemon."""

import contextlib
import copy
import io
import json
import os
import shutil
import signal
import subprocess
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import forks

STARTED = datetime(2026, 3, 4, 9, 0, tzinfo=UTC)
SAID = (
    ("user", "Please always run the whole test suite before every commit in this repository."),
    ("assistant", "Understood, I will run the whole test suite before every commit."),
    ("user", "We decided to keep the orders in PostgreSQL 16 because the reports need window functions."),
    ("assistant", "Noted: orders stay in PostgreSQL 16. I changed the settings and restarted the service."),
    ("user", "My name is Ottilie Brandt and I prefer tabs over spaces in all Makefiles."),
    ("assistant", "Thank you Ottilie, tabs in all Makefiles from now on."),
)
FILLER = "The report of the nightly build names every module that was compiled and how long each of them took. "


def message(role, text, minute=0, at=None, **more):
    moment = at or STARTED + timedelta(minutes=minute)
    return {"role": role, "content": text, "timestamp": moment.isoformat().replace("+00:00", "Z"), **more}


def said(start=0, at=None):
    return [message(role, text, start + number, at) for number, (role, text) in enumerate(SAID)]


def filler(words=700, minute=30, at=None):
    """A long answer, which fills a small context window."""
    return message("assistant", FILLER * (words // 18 + 1), minute, at)


def recent(minutes_ago=5):
    return datetime.now(UTC) - timedelta(minutes=minutes_ago)


class Scratch:
    """A configuration with one agent in a folder of its own."""

    def __init__(self, root, **settings):
        self._place(Path(root))
        self.sessions.mkdir(parents=True)
        self.agents = [self.agent("demo", self.workspace)]
        # Loading the scanner, or a model, takes a second of each start; facts and rollovers are runs of their own: a
        # test that is about them asks.
        defaults = {
            "timezone": "UTC",
            "state_dir": str(self.state),
            "scrub": {"secrets": "off"},
            "search": {"embeddings": "off"},
            "modes": {"facts": "off", "rollover": "off"},
        }
        self.settings = defaults | settings
        self.write_config()

    def copied(self, pristine):
        """This one as `pristine`, a copy of its folder, has it; in the same place, since rows and settings name it."""
        shutil.rmtree(self.root)
        shutil.copytree(pristine, self.root)
        fresh = Scratch.at(self.root)
        fresh.agents, fresh.settings = copy.deepcopy(self.agents), copy.deepcopy(self.settings)
        return fresh

    def _place(self, root):
        self.root = root
        self.workspace = root / "workspace"
        self.sessions = self.workspace / "sessions"
        self.state = root / "state"
        self.config = root / "memoryd.yaml"

    @classmethod
    def at(cls, root):
        """One that is there already."""
        scratch = object.__new__(cls)
        scratch._place(Path(root))
        return scratch

    @staticmethod
    def agent(name, workspace, **more):
        source = {"path": "sessions/*.jsonl", "format": "messages"}
        return {"id": name, "workspace": str(workspace), "transcripts": [source], "context_window": 1000} | more

    def write_config(self, **settings):
        self.settings |= settings
        # JSON is YAML, but for what the reader of the configuration is strict about: none of which is used here.
        self.config.write_text(json.dumps(self.settings | {"agents": self.agents}, indent=1), encoding="utf-8")

    def append(self, records, name="one"):
        path = self.sessions / f"{name}.jsonl"
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
        return path

    @property
    def core(self):
        path = self.workspace / "MEMORY.md"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def dailies(self):
        folder = self.workspace / "memory"
        return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}

    # --- the command line ---

    def run(self, *arguments, config=True, **options):
        """What a command answers: in this process, unless it is to have another environment, or is the daemon."""
        given = [*(["--config", str(self.config)] if config else []), *arguments]
        if not options and (arguments[:1] != ("run",) or "--once" in arguments):
            return called(given)
        return forks.run(["-m", "memoryd", *given], **options)

    def json(self, *arguments, code=0):
        """The data of a command, or its error where `code` is not 0."""
        done = self.run("--json", *arguments)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        answer = json.loads(done.stdout)
        assert answer["ok"] is (code == 0)
        return answer["data"] if code == 0 else answer["error"]

    def query(self, sql, *values):
        from memoryd.database import packing
        from memoryd.database.library import load_library

        connection = load_library().connect(f"file:{self.state / 'memoryd.db'}?mode=ro", uri=True, timeout=10)
        packing.register(connection)
        try:
            return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    def change(self, sql, *values):
        from memoryd.database.library import load_library

        connection = load_library().connect(str(self.state / "memoryd.db"), timeout=10)
        try:
            connection.execute(sql, values)
            connection.commit()
        finally:
            connection.close()

    @contextlib.contextmanager
    def daemon(self, stop=signal.SIGTERM, start=forks.start):
        """A daemon that reads; ended at the end, by force where it must be."""
        process = self.start(start)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(stop)
                try:
                    process.wait(25)
                except subprocess.TimeoutExpired:
                    process.kill()
            process.wait()

    def start(self, start=forks.start):
        with (self.root / "stderr.txt").open("ab") as errors:
            words = ["-m", "memoryd", "--config", str(self.config), "run"]
            process = start(words, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True)
        until(lambda: process.poll() is not None or self.is_up(process.pid), why="the daemon has started")
        assert process.poll() is None, (self.root / "stderr.txt").read_text(encoding="utf-8")
        return process

    def is_up(self, pid):
        with contextlib.suppress(Exception):
            return self.query("SELECT pid FROM daemon") == [(pid,)]
        return False

    def log(self):
        path = self.state / "log" / "memoryd.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def called(arguments, main=None):
    """A command line carried out in this process, which spares the second that a new one takes to import it all."""
    from memoryd.interfaces import cli

    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            (main or cli.main)(list(arguments))
        except SystemExit as ended:
            code = ended.code or 0
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def until(condition, seconds=90, why="", every=0.02):
    """Wait for a condition, also on a busy machine, and look at it `every` so many seconds; its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited {seconds} s in vain: {why}"
        time.sleep(every)


def in_process(scratch, now=None, step=None):
    """The app of a scratch installation, in this process, with a model that answers in it and counts characters."""
    from unittest.mock import patch

    from memoryd import app, config
    from memoryd.clock import Clock, utc_now
    from memoryd.running.runner import Runner

    # Put in before the app is built: opening it settles what a stopped process left, step by step.
    built = partial(Runner, step=step or (lambda _name: None))

    def model(*_, **__):
        return Model(scratch.root / "asked")

    with patch.object(app, "Runner", built), patch.object(app, "Worker", model):
        return app.open_app(config.load(scratch.config), Clock(now=now or utc_now))


class Model:
    """Answers as the offline backend does, in this process; each question is a line of a file."""

    def __init__(self, asked):
        self.asked = asked
        self.closed = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def count(self, texts):
        return [len(text) // 4 + 1 for text in texts]

    def answer(self, ask, backend, deadline):
        from memoryd.offline import backend as offline

        with self.asked.open("ab", buffering=0) as file:
            file.write(f"{ask.job} {os.getpid()}\n".encode())
        return offline.answer(ask)

    def scan(self, texts, policy, progress=None):
        from memoryd.scrub.scan import scan

        return scan(texts, policy, lambda _: ())

    def times_asked(self):
        return len(self.asked.read_bytes().splitlines()) if self.asked.exists() else 0

    def tick(self, now):
        pass

    def close(self, grace=None):
        self.closed = True
