"""An installation whose agent has read, slept and been edited: imports, rollbacks, erasure; time stands still."""

from datetime import timedelta
from unittest.mock import patch

from scratch import STARTED, Scratch, filler, in_process, said

from memoryd.changing import ledger_runs, verify
from memoryd.daemon import once
from memoryd.daemon.once import run_once
from memoryd.database import memories, reads, runs, sqlite
from memoryd.ledger.memory import MemoryKind
from memoryd.running.core_watch import CoreWatch

NOW = STARTED + timedelta(minutes=45)
OLD = "# Notes\n\n- an old one\n- another old one, about tea\n\n## Rules\n\n- never deploy on a Friday\n"


class World:
    """The installation; `open` starts its app in this process."""

    def __init__(self, root):
        self.scratch = Scratch(root, scrub={"secrets": "redact"})
        self.path = self.scratch.workspace / "MEMORY.md"
        self.path.write_bytes(OLD.encode())
        self.app = None

    @classmethod
    def at(cls, root):
        """One that is there already."""
        world = object.__new__(cls)
        world.scratch = Scratch.at(root)
        world.path = world.scratch.workspace / "MEMORY.md"
        return world

    def open(self, step=None, now=NOW):
        self.app = in_process(self.scratch, lambda: now, step)
        self.watch = CoreWatch(self.app.runner)
        return self.app

    def sleep(self):
        self.scratch.append([*said(), filler()])
        return through(self.app)[0]

    def write(self, text):
        """Another inode each time, as an editor that renames."""
        beside = self.path.with_name("MEMORY.md~")
        beside.write_bytes(text.encode())
        beside.replace(self.path)

    def text(self):
        return self.path.read_bytes().decode()

    def take(self):
        """Import, and carry out what has to go back."""
        self.watch.take(self.agent)
        while self.app.runner.run_next() is not None:
            pass

    @property
    def agent(self):
        return self.app.settings.agents[0]

    def do(self, kind, **options):
        run_id = runs.new_run_id(self.app.clock.now())
        now = self.app.clock.text()
        row = {"id": run_id, "kind": kind, "agent_id": "demo", "actor": "human", "trigger": "manual"}
        row |= {"created_at": now, "scheduled_for": now, "options": options}
        with sqlite.begin_write(self.app.engine) as connection:
            assert runs.enqueue(connection, row)
        self.app.runner.run_next(only=run_id)
        with reads.open_reader(self.app.database) as reader:
            return reads.job_run(reader, run_id)

    def own(self, verb, memory_id):
        return self.do(ledger_runs.EDIT, operations=[[verb, memory_id]])

    def live(self):
        with sqlite.begin_read(self.app.engine) as connection:
            return memories.read_live(connection, "demo", MemoryKind.CORE)

    def id_of(self, text):
        return next(memory.id for memory in self.live() if memory.content == text)

    def rows(self):
        """Every row of the ledger, whole, but for when it was changed last."""
        return self.scratch.query(
            "SELECT id, kind, content, content_hash, constitutional, origin_at, created_at, deleted_at, ended_as,"
            " successors, heading, position, tags, sources FROM memory ORDER BY id"
        )

    def problems(self):
        with reads.open_reader(self.app.database) as reader:
            return verify.list_problems(self.app.settings, reader)

    def audited(self):
        return self.scratch.query("SELECT actor, operation, memory_id FROM audit ORDER BY id")

    def alarms(self):
        return [row[0] for row in self.scratch.query("SELECT kind FROM alarm WHERE cleared_at IS NULL")]


def through(app):
    """The runs that a daemon would carry out while it has not looked at MEMORY.md itself."""
    with patch.object(once, "await_settled"):
        return run_once(app)["runs"]
