"""A fleet in this process: a database, hosts that ask, and workers whose model is a function."""

import contextlib
import json
import threading
from pathlib import Path

import pg_world
from scratch import Scratch

from memoryd import config
from memoryd.clock import Clock
from memoryd.files.log import get_logger
from memoryd.jobs.job import Ask, QuotedPiece, Reply

PRIVATE_TEXT = "Ottilie keeps the orders in the blue ledger"
MODEL = "tiny-1"


def make_key(folder):
    from cryptography.fernet import Fernet

    path = Path(folder) / "fleet.key"
    if not path.exists():
        path.write_text(Fernet.generate_key().decode() + "\n")
        path.chmod(0o600)
    return path


def ask(text=PRIVATE_TEXT, job="sleep"):
    return Ask(job, "Summarise.", (QuotedPiece("t1", "user", "user", None, text),), (("summary", "so far"),))


class Models:
    """A pool of models that are one function; it counts what it is asked."""

    def __init__(self, answer=None):
        self.answer = answer or (lambda _endpoint, ask: Reply("the reply", "stop", "openai", MODEL, 60, 20))
        self.asked = []
        self.lock = threading.Lock()

    @contextlib.contextmanager
    def one(self):
        yield self

    def answer_of(self, endpoint, ask):
        with self.lock:
            self.asked.append((endpoint, ask))
        return self.answer(endpoint, ask)

    def close(self):
        pass


class Fleet:
    """One database with its schema, and a key."""

    def __init__(self, root, uri, *, sealed=True, **limits):
        self.root, self.uri = Path(root), uri
        self.fleet = {"database": uri, **limits}
        if sealed:
            self.fleet["key_file"] = str(make_key(root))

    def scratch(self, host, **settings):
        """A host: an installation of its own with one agent, whose questions go to the fleet."""
        llm = {"provider": "fleet", "model": MODEL, "fallback": "wait", "verify": "off", "timeout": "5s"}
        given = {"fleet": self.fleet | {"host": host}, "llm": llm | settings.pop("llm", {})} | settings
        return Scratch(self.root / host, **given)

    def settings(self, host):
        scratch = Scratch.at(self.root / host)
        return config.load((scratch if scratch.config.exists() else self.scratch(host)).config)

    def asker(self, host, monotonic=None):
        from memoryd.fleet.connection import Database
        from memoryd.fleet.questions import FleetAsker
        from memoryd.fleet.sealing import read_seal

        settings = self.settings(host)
        database = Database(settings, is_lazy=True)
        database.open()
        asker = FleetAsker(database, read_seal(settings.fleet.key_file), monotonic or Clock().monotonic)
        asker.start()
        return asker

    def worker(self, models, **limits):
        """A worker whose tasks are handed to it by the test."""
        from memoryd.fleet.connection import Database
        from memoryd.fleet.sealing import read_seal
        from memoryd.fleet.worker import FleetWorker

        llm = {"provider": "openai", "model": MODEL, "base_url": "http://127.0.0.1:1/v1"}
        root = self.root / f"worker-{len(limits)}-{id(models)}"
        scratch = Scratch(root, llm=llm, fleet=self.fleet | {"host": "near-the-model"} | limits)
        settings = config.load(scratch.config)
        database = Database(settings)
        database.open()
        return FleetWorker(
            settings, get_logger(), 4, database, read_seal(settings.fleet.key_file), models, Unscrubbed()
        )

    def fetch(self, sql, *values):
        import psycopg

        with psycopg.connect(self.uri, autocommit=True) as connection:
            cursor = connection.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    def everything_stored(self):
        """All that somebody who reads the database sees, as one text."""
        tables = self.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        found = [self.fetch(f'SELECT to_jsonb(t)::text FROM "{name}" t') for (name,) in sorted(tables)]  # noqa: S608
        return json.dumps(found)


class Unscrubbed:
    """A scrubber of replies that have no secrets."""

    def redact(self, texts):
        return list(texts)


def make(server, root, name, **how):
    from memoryd.fleet.connection import migrate

    uri = pg_world.make_database(server, name)
    migrate(uri)
    return Fleet(root, uri, **how)
