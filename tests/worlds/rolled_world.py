"""An installation whose sessions are rolled over one by one; the time is set."""

import re
from datetime import timedelta

from edited_world import World as EditedWorld
from scratch import STARTED, Scratch, in_process, message

from memoryd.changing import verify
from memoryd.daemon.once import run_once
from memoryd.database import reads

HOUR = timedelta(hours=1)
QUIET = {name: {"schedule": None} for name in ("dream", "refine", "dedup")}
ROLLS = {"facts": "off", "rollover": "auto"}
LINK = re.compile(r"\((MEMORY-[\d-]+\.md)#session-([a-z0-9_-]+)\)")


class World(EditedWorld):
    """The installation."""

    def __init__(self, root, *, now=STARTED, **settings):
        sessions = {"schedule": None} | settings.pop("sessions", {})
        self.scratch = Scratch(root, **QUIET | {"modes": ROLLS, "sessions": sessions} | settings)
        self.scratch.agents = [Scratch.agent("demo", self.scratch.workspace, context_window=200_000)]
        self.scratch.write_config()
        self.now = now
        self.folder = self.scratch.workspace / ".continuum" / "memory"

    def once(self, hours=0, step=None):
        """Read and run what is due so many hours later; the runs, as kind and state."""
        self.now += hours * HOUR
        before = self.scratch.query("SELECT count(*) FROM job_run")[0][0] if self.scratch.state.exists() else 0
        with self.opened(step) as app:
            run_once(app)
        return self.scratch.query("SELECT kind, state FROM job_run ORDER BY rowid LIMIT -1 OFFSET ?", before)

    def opened(self, step=None):
        self.app = in_process(self.scratch, lambda: self.now, step)
        return self.app

    def carry_out(self, kind, **options):
        with self.opened():
            return self.do(kind, **options)

    def speak(self, topic, name):
        """A session about a topic, at the time."""
        asked = f"Please move the {topic} service to the new cluster, because the {topic} disks are full."
        told = f"I moved the {topic} service to the new cluster. The {topic} tests pass."
        said = [message("user", asked, at=self.now), message("assistant", told, at=self.now)]
        return self.scratch.append(said, name)

    def session(self, topic, name=None):
        """One that memoryd saw while it was going on, and that is over now; the runs at its end."""
        self.speak(topic, name or topic)
        self.once(0.1)
        return self.once(3)

    def text(self, name="RECENT.md"):
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def topics(self):
        return re.findall(r"\*\*Focus\*\*: Please move the (\w+)", self.text())

    def parts(self):
        """Whose parts the archive has, in order."""
        return re.findall(r"^### Session (\w+)-\w+$", self.archived(), re.MULTILINE)

    def archived(self):
        """Everything in the archive's files."""
        return "".join(path.read_text(encoding="utf-8") for path in sorted(self.folder.glob("MEMORY-*.md")))

    def everything(self):
        return "".join(path.read_bytes().decode(errors="replace") for path in self.folder.rglob("*") if path.is_file())

    def id_of(self, name):
        return self.scratch.query("SELECT id FROM session WHERE id LIKE ? || '-%'", name)[0][0]

    def runs_of(self, kind):
        return self.scratch.query("SELECT id FROM job_run WHERE kind = ? ORDER BY rowid", kind)

    def check(self):
        """Each link resolves, and all that memoryd holds agrees."""
        links = LINK.findall(self.text())
        assert len(links) == self.text().count("\n## Session ")
        for name, anchor in links:
            assert f"\n### Session {anchor}\n" in self.text(name)
        with reads.open_reader(self.scratch.state / "memoryd.db") as reader, self.opened() as app:
            assert verify.list_problems(app.settings, reader) == []
