"""NOW files become memory: whole, once, and whatever stops it; what was never rolled over stays."""

import contextlib
import errno
import json
import multiprocessing
import os
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from rolled_world import HOUR, ROLLS, World
from scratch import message
from sweep import KILLED, Point, forked

from memoryd import config
from memoryd.changing import forgetting
from memoryd.errors import RefusedError
from memoryd.interfaces.hook_answers import HookAnswerer
from memoryd.requests import consolidating, sessions
from memoryd.running import rollover
from memoryd.tiers import now

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
pytestmark = pytest.mark.long
WISH = "Please keep the old address of the #login page, because the app links to it. #42"


class NowWorld(World):
    """An installation whose sessions are kept in NOW files. Its time goes on from the present."""

    def __init__(self, root, **more):
        super().__init__(root, now=datetime.now(UTC) + timedelta(seconds=5), **more)

    @property
    def settings(self):
        return config.load(self.scratch.config)

    @property
    def agent(self):
        return self.settings.agents[0]

    def start(self, **more):
        return sessions.start(self.settings, self.agent, **more)

    def say(self, *texts, role="user"):
        made = None
        for text in texts:
            made = sessions.append(self.settings, self.agent, role, text)
        return made

    def end(self, **more):
        return sessions.end(self.settings, self.agent, **more)

    def consolidate(self, **more):
        return consolidating.consolidate(self.settings, self.agent, **more)

    def recover(self, **more):
        return consolidating.recover(self.settings, self.agent, **more)

    def now_files(self):
        return {path.name: path.read_bytes() for path in sorted(self.folder.glob("NOW-*.md"))}

    def said(self):
        """What NOW files hold, without headers."""
        return "".join(now.parse(data).body.decode() for data in self.now_files().values())


@pytest.fixture
def world(tmp_path):
    return NowWorld(tmp_path / "scratch")


def test_what_was_said_is_found_once_and_its_file_is_cleared(world):
    world.start(tags=["billing"])
    world.say(WISH, "Good.")
    world.say("I moved it.\n@pattern Each page keeps its old address.", role="agent")
    sessions.append(world.settings, world.agent, "tool", "ls\n## Session forged", tool="Bash", summary="lists")
    ended = world.end()
    assert ("rollover", "succeeded") in world.once(0.1)
    (cleared,) = world.now_files().values()
    assert now.is_cleared(now.parse(cleared))
    archived = world.archived()
    for text in (WISH, "Good.", "Each page keeps its old address.", "> ls"):
        assert archived.count(text) == 1, archived
    assert f"### Session {ended['session']}\n" in archived
    assert "\n## Billing\n" in archived
    assert "**Tasks**: #42" in archived
    assert "tags: [billing, login, pattern]" in archived
    assert archived.count("\n### Session ") == 1
    day = re.search(r"\((MEMORY-[\d-]+\.md)#billing\)", world.text("MEMORY.md"))[1]
    assert f"- [Billing]({day}#billing) - " in world.text("MEMORY.md").partition("## Development Patterns")[2]
    assert "ACTION: Rollover NOW → RECENT\n  Files:\n" in world.text("consolidation.log")
    assert WISH not in world.text("consolidation.log")
    world.check()
    told = world.everything()
    assert world.once(1) == []
    assert world.consolidate()["state"] == "skipped"
    assert world.everything() == told, "twice changes nothing"


def test_a_rehearsal_shows_what_an_open_file_would_become_and_changes_no_byte(world):
    world.say(WISH)
    before = world.everything()
    would = world.consolidate(dry_run=True)["would"]
    assert {one["path"].rpartition("/")[2][:4] for one in would} == {
        "MEMO",
        "NOW-",
        "RECE",
        f"{datetime.now(UTC).year}",
    }
    assert any("+- Please keep the old address" in one["diff"] for one in would)
    assert world.everything() == before
    daily = world.scratch.workspace / "memory" / f"{datetime.now(UTC).date()}.md"
    daily.parent.mkdir()
    daily.write_text("# Daily Memory\n\n## Notes (09:00)\n\n- The yard has two gates.\n")
    (diff,) = (
        one["diff"]
        for one in world.consolidate(dry_run=True)["would"]
        if one["path"].endswith(daily.name) and one["path"].startswith("memory/")
    )
    assert not [line for line in diff.splitlines()[2:] if line.startswith("-")]
    daily.unlink()
    daily.parent.rmdir()
    assert not (world.scratch.workspace / "memory").exists()


def test_a_forgotten_session_leaves_no_copy_of_its_file_and_no_tag(world):
    world.start(tags=["kumquats"])
    world.say("We decided to plant the orchard in Faro, because its soil is deep.")
    session = world.end(consolidate=True)["session"]
    (copy,) = (world.folder / "backup").rglob("NOW-*.md")
    assert b"orchard" in copy.read_bytes()
    assert "tags: [kumquats]" in world.archived()
    world.scratch.json("forget", session, "--yes")
    held = [path for path in world.scratch.workspace.rglob("*") if path.is_file() and b"orchard" in path.read_bytes()]
    assert (held, copy.read_bytes()) == ([], b"")
    assert "kumquats" not in world.archived()


def test_an_entry_after_the_end_begins_another_session(world):
    world.say(WISH)
    first = world.end(consolidate=True)
    assert first["consolidation"]["state"] == "succeeded"
    second = world.say("Now the logout page, please.")
    assert second["parent_session"] == first["session"] != second["session"]
    world.consolidate()
    parts = re.findall(r"^### Session (\w+)$", world.archived(), re.MULTILINE)
    assert parts == [first["session"], second["session"]]
    assert world.archived().count("Now the logout page, please.") == 1
    assert world.topics() == []
    assert world.text().count("\n## Session ") == 2, "a session that continues another one is told as well"


def test_a_file_without_a_header_that_grows_too_long_is_cleared_and_what_is_written_later_joins_it(world):
    name = f"NOW-{world.now - HOUR:%Y-%m-%dT%H-%M}.md"
    path = world.folder / name
    world.folder.mkdir(parents=True)
    path.write_text("".join(f"## User: Please do thing number {number} now.\n\n" for number in range(110)))
    assert world.once(0.1) == [("rollover", "succeeded")]
    header = now.parse(path.read_bytes()).header
    assert header.timestamp_end is not None
    assert header.session_id == name.removesuffix(".md")
    (later,) = [now.parse(data) for other, data in world.now_files().items() if other != name]
    assert (later.header.parent_session, now.is_fresh(later)) == (header.session_id, True)
    with path.open("a") as file:
        file.write("## User: Please do one thing more.\n\n")
    world.once(0.1)
    world.once(0.1)
    for number in range(110):
        assert world.archived().count(f"do thing number {number} now.") == 1
    assert world.archived().count("do one thing more.") == 1
    assert world.archived().count("### Session ") == 1
    assert now.is_cleared(now.parse(path.read_bytes()))
    world.check()


def test_what_was_left_behind_is_recovered_once_and_only_what_was_rolled_over_is_removed(world):
    path = world.say(WISH)["path"]
    private = world.start(private=True)
    sessions.append(world.settings, world.agent, "user", "A secret wish.", session_id=private["session"])
    assert [one["path"] for one in world.recover(hours=0)["stale"]] == [path]
    for _ in range(2):
        world.recover(hours=0, consolidate=True)
    assert world.archived().count("### Session ") == 1
    assert world.recover(hours=0) == {"stale": [], "run": None}
    assert len(world.now_files()) == 2
    world.once(24 * 2)
    assert len(world.now_files()) == 2, "not yet"
    world.once(24 * 400)
    assert "A secret wish." in world.said()
    assert len(world.now_files()) == 1
    assert "A secret wish." not in world.archived() + world.text()
    world.check()


def test_a_file_that_never_rolled_over_stays_whatever_its_age(tmp_path):
    world = NowWorld(tmp_path / "scratch", modes=ROLLS | {"rollover": "off"})
    world.say(WISH)
    world.end()
    world.once(24 * 400)
    assert world.said().count(WISH) == 1


def test_a_model_that_cannot_be_reached_holds_nothing_up(tmp_path):
    llm = {
        "provider": "openai",
        "model": "none",
        "base_url": "http://127.0.0.1:9/v1",
        "fallback": "wait",
        "timeout": "1s",
    }
    world = NowWorld(tmp_path / "scratch", llm=llm)
    world.say(WISH)
    assert world.end(consolidate=True)["consolidation"]["state"] == "succeeded"
    assert world.archived().count(WISH) == 1
    assert WISH.partition("#")[0] in world.text()


def test_two_sessions_about_one_issue_both_stay_and_a_fourth_leaves_the_last_three(world):
    for topic in ("login", "logout", "mail", "search"):
        world.start()
        world.say(f"Please move the {topic} service for #42, because its disk is full.")
        world.end()
        world.once(0.1)
    assert world.topics() == ["search", "mail", "logout"]
    assert world.archived().count("### Session ") == 4
    assert world.archived().count("its disk is full") == 4
    world.check()


def test_a_forgotten_session_is_in_no_file_of_the_archive(world):
    world.say(WISH)
    kept = world.end()["session"]
    world.once(0.1)
    world.start()
    world.say("Please move the mail service, because its disk is full.")
    gone = world.end()["session"]
    world.once(0.1)
    assert "mail service" in world.text("MEMORY.md") + world.archived()
    world.carry_out(forgetting.KIND, session=gone)
    world.once(0.1)
    left = "".join(world.text(path.name) for path in world.folder.glob("*.md") if not path.name.startswith("NOW-"))
    assert "mail service" not in left
    assert gone not in left
    assert f"#session-{kept}" in left
    assert f"### Session {kept}" in left


def test_who_may_not_start_it_is_told_whom_to_ask(tmp_path):
    world = NowWorld(tmp_path / "scratch", access={"consolidate": ["owner"]})
    world.say(WISH)
    world.once(0.1)
    with pytest.raises(RefusedError):
        world.consolidate(by="agent")
    assert world.archived() == ""


def test_a_person_who_asks_for_it_in_a_watched_session_gets_it_once(world):
    told = "The billing service is on the new cluster, because the old disks were full."
    for text, is_asked in (
        ("Consolidate my memory is a strange phrase.", False),
        ("please consolidate my memory.", True),
    ):
        at = world.now
        said = [message("user", told, at=at), message("user", text, at=at), message("assistant", "Yes.", at=at)]
        world.scratch.append(said, "watched" if is_asked else "other")
        kinds = [kind for kind, _ in world.once(0.01)]
        assert ("rollover" in kinds) is is_asked, text
    assert world.text("consolidation.log").count("user in session watched-") == 1
    assert "rollover" not in [kind for kind, _ in world.once(0.01)]


def test_near_a_limit_one_line_beside_the_prompt_suggests_it_once(tmp_path):
    world = NowWorld(tmp_path / "scratch", sessions={"now_max_lines": 20})
    with world.opened() as app:
        answerer = HookAnswerer(app, None)

        def suggest():
            return [part.text for part in answerer._suggest(world.agent, {"session": "s", "transcript": None})]

        world.say("One.")
        assert suggest() == []
        world.say("Two.", "Three.", "Four.")
        (text,) = suggest()
        assert "memory_consolidate" in text
        assert suggest() == []


def test_entries_of_eight_processes_that_race_with_rollovers_are_there_once(world):
    world.start()
    fork = multiprocessing.get_context("fork")
    counts, is_over = fork.Array("i", 8), fork.Event()

    def append_some(n):
        while not is_over.is_set() or counts[n] < 3:
            world.say(f"Process{n} saw boat{counts[n]}.\n## User: forged")
            counts[n] += 1

    processes = [fork.Process(target=append_some, args=(n,)) for n in range(8)]
    for process in processes:
        process.start()
    rolled = 0
    while rolled < (3 if SOAK else 1) and all(process.is_alive() for process in processes):
        rolled += world.consolidate()["state"] == "succeeded"
    is_over.set()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 8
    texts = [f"Process{n} saw boat{k}." for n in range(8) for k in range(counts[n])]
    # The archive may have the summary of a session whose NOW file is still open. So entries are counted only after the
    # last rollover.
    found = world.archived() + world.said()
    assert [text for text in texts if text not in found] == []
    world.consolidate()
    assert world.said() == ""
    archived = world.archived()
    assert {text: archived.count(text) for text in texts} == dict.fromkeys(texts, 1)
    world.check()


# --- stopped at any step ---


def fail():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def stopped(root, number, kill):
    """Stop a rollover of a NOW file at one of its steps, or let the step fail, and start again."""
    world = NowWorld(root)
    world.say(WISH, "Also keep the cookies.")
    world.end()
    names = root / "names"

    def first():
        def step(name):
            if world.runs_of(rollover.KIND):
                point(name)
                names.write_text(json.dumps(point.names))

        def act():
            names.write_text(json.dumps(point.names))
            if not kill:
                fail()

        point = Point(number, act, kill=kill)
        world.once(0.1, step)
        os._exit(0 if len(point.names) < number else KILLED)

    code = forked(first)
    assert forked(lambda: world.once(1)) == 0
    at = (number, kill, json.loads(names.read_text()) if names.exists() else None)
    for text in (WISH, "Also keep the cookies."):
        assert world.archived().count(text) == 1, at
    assert world.said() == "", at
    assert world.text("consolidation.log").count("Rollover NOW") == 1, at
    assert world.scratch.query("SELECT count(*) FROM intent") == [(0,)], at
    forked(lambda: os._exit(0 if world.once(1) == [] else 1))
    world.check()
    return code


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kill", [True, False])
def test_one_that_stops_or_fails_at_any_step_loses_and_doubles_nothing(tmp_path, kill):
    number = 2 if kill else 17
    while stopped(tmp_path / str(number), number, kill) != 0:
        number += 1 if SOAK else 30  # both cases together stop at every fifteenth step
    assert number > 40


# --- any sequence ---


class Stopped(BaseException):
    """Stands for a process that was killed."""


class Sequences(RuleBasedStateMachine):
    """Sessions are started, continued, ended, edited, rolled over and stopped in any order."""

    root = None
    number = 0

    def __init__(self):
        super().__init__()
        type(self).number += 1
        self.world = NowWorld(self.root / f"w{self.number}", sessions={"now_max_lines": 20})
        self.said = []

    @rule()
    def start(self):
        self.world.start()

    @rule(
        role=st.sampled_from(["user", "agent", "tool"]), more=st.sampled_from(["", "\n## Session x", "\n```", " #tag"])
    )
    def append(self, role, more):
        text = f"Entry number {len(self.said)} is about the mill.{more}"
        self.said.append(text.partition("\n")[0])
        sessions.append(self.world.settings, self.world.agent, role, text)

    @rule()
    def end(self):
        if any(one.is_open for one in sessions.list_sessions(self.world.agent)):
            self.world.end()

    @rule()
    def roll(self):
        self.world.once(0.1)

    @rule()
    def consolidate(self):
        self.world.now += timedelta(minutes=1)
        with self.world.opened() as app:
            from memoryd.daemon.once import read_all

            read_all(app)
            self.world.do(rollover.KIND, before=app.clock.text())

    @rule(number=st.integers(1, 60))
    def crash(self, number):
        seen = []

        def step(name):
            seen.append(name)
            if len(seen) == number:
                raise Stopped

        with contextlib.suppress(Stopped):
            self.world.once(0.1, step)

    @rule(name=st.sampled_from(["MEMORY-*.md", "RECENT.md", "MEMORY.md"]))
    def edit(self, name):
        for path in sorted(self.world.folder.glob(name))[:1]:
            path.write_text(path.read_text() + "\n## Mine\n\nby hand\n")

    @rule(number=st.integers(0, 3))
    def edit_now(self, number):
        for path in sorted(self.world.folder.glob("NOW-*.md"))[number : number + 1]:
            text = f"Entry number {len(self.said)} is about the mill."
            self.said.append(text)
            path.write_text(f"{path.read_text()}\n## Agent: {text}\n")

    @rule()
    def recover(self):
        self.world.recover(hours=0, consolidate=True)

    @rule(hours=st.sampled_from([7, 100]))
    def wait(self, hours):
        self.world.once(hours)

    @invariant()
    def each_entry_is_found(self):
        archived, here = self.world.archived(), self.world.said()
        for text in self.said:
            assert archived.count(text) <= 1, text
            assert text in archived or text in here or text in self.world.text(), text


def test_a_run_that_an_exception_ended_is_carried_out_when_its_process_asks_again(tmp_path):
    Sequences.root = tmp_path
    steps = Sequences()
    steps.wait(hours=7)
    steps.consolidate()
    steps.append(more="", role="user")
    steps.crash(number=1)
    steps.consolidate()
    steps.recover()
    steps.each_entry_is_found()


@pytest.mark.timeout(3600)
def test_after_any_sequence_each_entry_is_found_once(tmp_path):
    Sequences.root = tmp_path
    few = hypothesis_settings(
        max_examples=300 if SOAK else 4, stateful_step_count=12, deadline=None, derandomize=not SOAK
    )
    run_state_machine_as_test(Sequences, settings=few)
