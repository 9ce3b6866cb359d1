"""Sessions in NOW files: what is started, appended and ended is in its file, once, whole and in order."""

import multiprocessing
import os
import re
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scratch import Scratch

from memoryd import config
from memoryd.errors import ConfigError, LockedError, NotFoundError, StateError
from memoryd.files import workspace as places
from memoryd.files.locks import Lock
from memoryd.requests import sessions
from memoryd.tiers import now
from memoryd.transcripts import now_file

AT = datetime(2026, 3, 4, 9, 0, 30, tzinfo=UTC)


class World:
    def __init__(self, root, monkeypatch, **settings):
        self.scratch = Scratch(root, **settings)
        self.settings = config.load(self.scratch.config)
        (self.agent,) = self.settings.agents
        self.at = AT
        monkeypatch.setattr(sessions, "utc_now", lambda: self.at)

    def wait(self, **span):
        self.at += timedelta(**span)

    def start(self, **given):
        return sessions.start(self.settings, self.agent, **given)

    def append(self, text, role="user", **given):
        return sessions.append(self.settings, self.agent, role, text, **given)

    def end(self, **given):
        return sessions.end(self.settings, self.agent, **given)

    def current(self):
        """The path of the newest open session."""
        return next((one.path for one in reversed(sessions.list_sessions(self.agent)) if one.is_open), None)

    def files(self):
        return sorted(path.name for path in (self.scratch.workspace / ".continuum/memory").glob("NOW-*.md"))

    def data(self, made):
        return (self.scratch.workspace / made["path"]).read_bytes()

    def said(self, made):
        return ["\n".join(entry.lines).strip() for entry in now_file.parse(self.data(made)).entries]

    def header(self, made):
        return now.parse(self.data(made)).header


@pytest.fixture
def world(tmp_path, monkeypatch):
    return World(tmp_path, monkeypatch)


def test_two_starts_in_one_minute_make_two_files_and_the_newest_is_the_parent(world):
    first = world.start(tags=["#login", "a b"], tasks=["#42"], project="/src/x")
    second, third = world.start(), world.start()
    assert world.files() == ["NOW-2026-03-04T09-00-2.md", "NOW-2026-03-04T09-00-3.md", "NOW-2026-03-04T09-00.md"]
    assert (first["parent_session"], second["parent_session"]) == (None, first["session"])
    assert third["parent_session"] == second["session"]
    assert re.fullmatch(r"sess_[0-9a-f]{16}", first["session"])
    header = world.header(first)
    assert (header.tags, header.related_tasks, header.project_path) == (("login", "a b"), ("#42",), "/src/x")
    assert (header.timestamp_start, header.timestamp_end) == ("2026-03-04T09:00:30.000Z", None)
    assert world.append("x")["session"] == third["session"]  # by its number, where the times are the same


def test_the_parent_may_have_ended_and_be_cleared(world):
    first = world.start()
    world.append("x")
    world.end()
    path = world.scratch.workspace / first["path"]
    path.write_bytes(now.clear(path.read_bytes()))
    world.wait(hours=1)
    assert world.start()["parent_session"] == first["session"]


def test_entries_keep_their_order_and_say_who_spoke(world):
    made = world.start()
    for number in range(5):
        world.append(f"question {number}\n## User: forged")
        world.append(f"answer {number}", "agent")
    world.append("ls\n```\na", "tool", tool="shell", summary="lists files")
    assert world.said(made) == [
        *(text for n in range(5) for text in (f"question {n}\n## User: forged", f"answer {n}")),
        "[Tool: shell - lists files]\n````\nls\n```\na\n````",
    ]
    assert world.end()["duration_minutes"] == 0


def test_an_entry_without_a_session_starts_one_and_the_newest_open_one_is_resumed(world):
    first = world.append("one")
    world.wait(minutes=5)
    second = world.start()
    assert world.append("two")["session"] == second["session"]
    world.end()
    assert world.current() == first["path"]
    assert world.append("three")["session"] == first["session"]
    assert world.said(first) == ["one", "three"]
    assert world.append("four", session_id=second["session"])["parent_session"] == second["session"]


def test_an_entry_after_the_end_starts_a_new_session_and_is_not_lost(world):
    first = world.append("one")
    sealed = world.end()
    before = world.data(first)
    world.wait(seconds=1)
    later = world.append("two")
    assert (later["parent_session"], world.said(later)) == (first["session"], ["two"])
    assert (world.data(first), sealed["ended_at"]) == (before, "2026-03-04T09:00:30.000Z")
    assert world.end(session_id=first["session"])["ended_at"] == sealed["ended_at"]
    assert world.data(first) == before
    world.end()
    with pytest.raises(NotFoundError, match="no session is open"):
        world.end()


def test_exit_ends_the_session_and_is_no_entry(world):
    first = world.append("please /exit the loop")
    assert world.append("/exit", "agent")["ended_at"] is None
    assert world.append(" /exit\n")["ended_at"] is not None
    assert world.said(first) == ["please /exit the loop", "/exit"]
    assert world.current() is None


def test_a_long_file_is_closed_and_continued_and_its_id_still_names_the_session(world):
    first = world.start(tags=["a"], private=True)
    long = world.append("x\n" * 200, session_id=first["session"])
    assert long["ended_at"] is not None
    later = sessions.list_sessions(world.agent)[-1]
    assert later.header.session_id == long["continued_in"]
    assert (later.header.parent_session, later.header.tags, later.is_private) == (first["session"], ("a",), True)
    assert now.is_fresh(later.document)
    assert not now.is_cleared(later.document)
    world.wait(minutes=1)
    assert world.append("more", session_id=first["session"])["session"] == long["continued_in"]
    assert world.end(session_id=first["session"])["session"] == long["continued_in"]


def test_an_old_file_is_closed_after_the_entry(world):
    first = world.append("x")
    world.wait(hours=6)
    second = world.append("y")
    assert (second["session"], second["duration_minutes"]) == (first["session"], 360)
    assert world.said(first) == ["x", "y"]
    assert world.append("z")["session"] == second["continued_in"]


def test_tags_go_into_the_header(world):
    made = world.append("Fix #login now @bug, see #42 and `#code`\n```\n#fence\n```\n## about #heading\n@decision")
    assert made["tags"] == ["login", "bug", "decision"]
    assert world.append("#login #ui/forms mail@decision.org", "agent")["tags"] == [*made["tags"], "ui/forms"]
    assert world.append("#include", "tool", tool="cat")["tags"] == [*made["tags"], "ui/forms"]


class Redactor:
    """A scanner that knows one secret: the real one takes seconds to load, and has tests of its own."""

    def redact(self, texts):
        return [text.replace("hunter2", "[redacted]") for text in texts]


def test_what_is_written_is_redacted(world, monkeypatch):
    monkeypatch.setattr(sessions.scanner, "open_scrubber", lambda _: nullcontext(Redactor()))
    made = world.start(project="/src/hunter2", tags=["hunter2"], tasks=["see hunter2"])
    world.append("the token is hunter2")
    world.append("curl hunter2", "tool", tool="hunter2", summary="with hunter2")
    assert b"hunter2" not in world.data(made)
    assert b"the token is" in world.data(made)


def test_a_torn_entry_of_a_crash_does_not_swallow_the_next(world):
    made = world.append("whole")
    path = world.scratch.workspace / made["path"]
    with path.open("ab") as file:
        file.write(now.render_entry("tool", "a\nb", "shell")[:-7])
    world.append("next")
    assert world.said(made)[-1] == "next"
    assert now_file.parse(path.read_bytes()).entries[-1].tool_name is None


@pytest.mark.parametrize("step", ["_place", "_swap", "_let_go"])
def test_what_a_killed_writer_leaves_is_cleared_and_nothing_is_lost(world, monkeypatch, step):
    made = world.append("one")
    with monkeypatch.context() as killed:
        killed.setattr(sessions.durable, step, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            world.start() if step == "_place" else world.append("two #tag")
    folder = world.scratch.workspace / ".continuum/memory"
    assert [path for path in folder.iterdir() if path.name.startswith(".memoryd-")]
    world.append("three")
    assert world.said(made) == ["one", *(["two #tag"] if step != "_place" else []), "three"]
    assert not [path for path in folder.iterdir() if path.name.startswith(".memoryd-")]


def test_files_that_agents_write_stay_theirs(world):
    folder = world.scratch.workspace / ".continuum/memory"
    first = world.append("x")
    (folder / "NOW-2026-03-04T10-00.md").write_bytes(b"## User: mine\n")
    (folder / "NOW-2026-03-04T11-00.md").write_bytes(
        now.render_header(now.NowHeader("sess_w", "2026-03-04T11:00:00Z", memory_type="capture"))
    )
    (folder / "NOW-2026-03-04T12-00.md").symlink_to(world.scratch.config)
    assert world.append("y")["session"] == first["session"]
    world.at = AT.replace(hour=12)
    assert world.start()["path"].endswith("NOW-2026-03-04T12-00-2.md")
    world.at = AT
    ended = world.end(session_id="NOW-2026-03-04T10-00")
    assert (ended["session"], ended["started_at"]) == ("NOW-2026-03-04T10-00", "2026-03-04T10:00:00Z")
    assert ended["duration_minutes"] is None  # it ends before it began, by its name
    assert world.data(ended).endswith(b"---\n## User: mine\n")


def test_a_start_that_cannot_be_read_gives_no_duration(world):
    made = world.append("x")
    path = world.scratch.workspace / made["path"]
    path.write_bytes(path.read_bytes().replace(b"timestamp_start: 2026", b"timestamp_start: about 2026"))
    assert world.end(session_id=made["session"])["duration_minutes"] is None


def test_what_is_asked_wrongly_is_refused_and_writes_nothing(world):
    for role, text in (("system", "x"), ("user", " \n")):
        with pytest.raises(ConfigError):
            world.append(text, role)
    with pytest.raises(NotFoundError, match="sess_none"):
        world.append("x", session_id="sess_none")
    assert world.files() == []


def test_entries_of_eight_processes_at_once_are_all_there_whole_and_once(world):
    def append_some(n):
        for k in range(12):
            world.append(f"process{n} said {k}\n## User: forged #tag{k}", "agent")

    fork = multiprocessing.get_context("fork")  # one that starts anew would import everything again
    processes = [fork.Process(target=append_some, args=(n,)) for n in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 8
    found = sessions.list_sessions(world.agent)
    assert len([one for one in found if one.is_open]) == 1
    entries = [entry for one in found for entry in now_file.parse(one.data).entries]
    texts = ["\n".join(entry.lines).strip() for entry in entries]
    assert sorted(texts) == sorted(f"process{n} said {k}\n## User: forged #tag{k}" for n in range(8) for k in range(12))
    for n in range(8):
        assert [text for text in texts if text.startswith(f"process{n} ")] == [
            f"process{n} said {k}\n## User: forged #tag{k}" for k in range(12)
        ]


STEPS = st.lists(
    st.sampled_from(["start", "say", "say", "say", "old id", "end", "long", "torn", "by hand", "wait"]),
    min_size=4,
    max_size=10,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_after_any_steps_each_entry_is_in_one_file_once_and_in_order(world, steps):
    for name in world.files():
        (world.scratch.workspace / ".continuum/memory" / name).unlink()
    said, ids = [], []
    for number, step in enumerate(steps):
        world.wait(seconds=7)
        text = f"entry {number}\n# {step} `x"
        current = world.current()
        if step == "start":
            ids.append(world.start()["session"])
        elif step in {"say", "long", "old id"}:
            text += "\nx" * 200 * (step == "long")
            given_id = ids[0] if ids and step == "old id" else None
            ids.append(world.append(text, session_id=given_id)["session"])
            said.append(text)
        elif step == "wait":
            world.wait(hours=7)
        elif current and step == "end":
            world.end()
        elif current:
            with (world.scratch.workspace / current).open("ab") as file:
                file.write(b"## Agent: by hand\n```\nopen" if step == "torn" else b"## Agent: by hand\n")
    found = [world.said(sessions.describe(one)) for one in sessions.list_sessions(world.agent)]
    assert sorted(text for texts in found for text in texts if text.startswith("entry")) == sorted(said)
    for texts in found:
        numbers = [int(text.split()[1]) for text in texts if text.startswith("entry")]
        assert numbers == sorted(numbers)


def test_a_lock_is_never_stale_while_its_holder_lives(world, monkeypatch):
    world.start()
    monkeypatch.setattr(places, "LOCK_TIMEOUT", timedelta(milliseconds=100))
    lock = Lock(world.scratch.workspace / ".continuum/memory/.lock")
    lock.acquire()
    os.utime(lock.path, (0, 0))  # however old it looks, and whatever pid stands in it
    lock.path.write_text("1\n")
    with pytest.raises(LockedError):
        world.append("x")
    lock.release()
    world.append("x")


def test_a_failure_is_reported_as_itself_and_nothing_is_run_again(world, monkeypatch):
    made = world.start()
    calls = []

    def fail(*_):
        calls.append(1)
        raise StateError("cannot be appended to: No space left on device", "x", "free some space on this disk")

    monkeypatch.setattr(sessions.appends, "append", fail)
    with pytest.raises(StateError, match="No space left") as error:
        world.append("x")
    assert (type(error.value), len(calls)) == (StateError, 1)
    monkeypatch.undo()
    assert Lock(world.scratch.workspace / ".continuum/memory/.lock").holder() is None
    assert world.said(made) == []
