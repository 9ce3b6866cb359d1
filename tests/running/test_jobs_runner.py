"""Jobs: claimed once, one at a time for each agent, retried, given up, recovered; and what a sleep is decided by."""

import dataclasses
import errno
import json
import os
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import forks
import pytest
from scratch import SAID, STARTED, Scratch, filler, in_process, message, said, until
from sweep import forked

from memoryd import errors
from memoryd.changing import commit
from memoryd.clock import text_of
from memoryd.daemon.once import run_once
from memoryd.database import runs, sqlite
from memoryd.errors import AwayError, MemorydError, NotFoundError, StateError, is_disk_trouble
from memoryd.running import hooks, kinds, retry, sleeping

NOW = STARTED + timedelta(minutes=40)
LATER = [
    message("user", "We decided to move the archive to Reykjavik in October because the lease in Malmo ends.", 35),
    message("assistant", "I wrote the plan for the move to Reykjavik and listed what has to be packed first.", 36),
    message("user", "Please never delete the old archive before I have seen the new one with my own eyes.", 37),
]
HOUR = timedelta(hours=1)


class Time:
    """A clock that is moved by hand."""

    def __init__(self, now=NOW):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def scratch(tmp_path):
    return Scratch(tmp_path / "scratch")


@pytest.fixture
def opened(scratch, time):
    scratch.append(said())
    with in_process(scratch, time) as app:
        yield app


def rows(app, columns="kind, state", where="1"):
    with sqlite.begin_read(app.engine) as connection:
        sql = f"SELECT {columns} FROM job_run WHERE {where} ORDER BY created_at, rowid"  # noqa: S608 - a test's own
        return [tuple(row) for row in connection.exec_driver_sql(sql)]


def reasons(scratch):
    return [
        line.removeprefix("## ").rpartition(" (")[0]
        for text in scratch.dailies().values()
        for line in text.splitlines()
        if line.startswith("## ")
    ]


def queue(app, agent="demo", number=0, **more):
    now = app.clock.text()
    row = {"id": f"run-{agent}-{number}", "kind": "sleep", "agent_id": agent, "actor": "memoryd", "trigger": "manual"}
    row |= {"key": f"{agent}-{number}", "created_at": now, "scheduled_for": now} | more
    with sqlite.begin_write(app.engine) as connection:
        return runs.enqueue(connection, row)


def claim(app, owner="a", agents=("demo",), **more):
    return runs.claim_run(app.engine, owner=owner, now=app.clock.text(), agents=agents, **more)


# --- the table ---


CLAIMER = """
import sys
from pathlib import Path
from memoryd.database import runs, sqlite
engine = sqlite.connect(Path(sys.argv[1]))
def claim():
    return runs.claim_run(engine, owner=sys.argv[2], now="2999", agents=["demo"])
def has_more():
    with sqlite.begin_read(engine) as connection:
        return connection.exec_driver_sql("SELECT count(*) FROM job_run WHERE state <> 'succeeded'").scalar_one()
while (run := claim()) is not None or has_more():
    if run is not None:
        print(run.id, flush=True)
        with sqlite.begin_write(engine) as connection:
            assert runs.finish(connection, run, state="succeeded", now="2999", values={})
"""


def test_two_processes_claim_each_run_once_and_never_two_of_an_agent(opened, scratch):
    for number in range(40):
        assert queue(opened, number=number)
    words = ["-c", CLAIMER, scratch.state / "memoryd.db"]
    both = [forks.start([*words, name], stdout=subprocess.PIPE, text=True) for name in ("a", "b")]
    taken = [one.communicate(timeout=60)[0].split() for one in both]
    assert [one.returncode for one in both] == [0, 0]  # the unique index would refuse a second running one
    assert sorted(taken[0] + taken[1]) == sorted(row[0] for row in rows(opened, "id"))


def test_the_same_trigger_twice_is_one_run(opened):
    assert queue(opened) is True
    assert queue(opened, id="run-other") is False


def test_an_agents_runs_follow_each_other_and_agents_do_not_wait_for_each_other(tmp_path, time):
    scratch = Scratch(tmp_path / "scratch")
    other = tmp_path / "other"
    other.mkdir()
    scratch.agents.append(Scratch.agent("other", other))
    scratch.write_config()
    with in_process(scratch, time) as app:
        for agent in ("demo", "demo", "other"):
            queue(app, agent, len(rows(app)))
        both = ("demo", "other")
        assert claim(app, agents=both).agent_id == "demo"
        assert claim(app, agents=both).agent_id == "other"
        assert claim(app, agents=both) is None


def test_a_finish_with_a_stale_fence_is_refused_and_leaves_the_files_alone(opened, scratch):
    scratch.append([filler()])
    stale = []

    def take_over(name):
        if name == "after:reply":
            with sqlite.begin_write(opened.engine) as connection:
                connection.exec_driver_sql("UPDATE job_run SET fence = fence + 1, owner = 'other'")
            stale.append(name)

    opened.runner.step = take_over
    run_once(opened)
    assert stale
    assert scratch.core == ""
    assert scratch.dailies() == {}
    assert rows(opened, "state, owner") == [("running", "other")]


def test_a_dead_process_gives_its_run_back_and_a_living_one_keeps_it(opened):
    queue(opened)
    claim(opened, owner="gone")
    keep = {"engine": opened.engine, "attempts": 5, "now": opened.clock.text()}
    assert runs.recover_orphans(**keep, alive=lambda _owner: True) == []
    assert [run.state for run in runs.recover_orphans(**keep, alive=lambda _owner: False)] == ["interrupted"]
    assert claim(opened).attempt == 2


@pytest.mark.long
def test_a_run_that_kills_its_process_each_time_is_given_up(scratch, time):
    scratch.append([*said(), filler()])
    scratch.write_config(jobs={"attempts": 3})
    for _ in range(3):
        assert forked(lambda: die(scratch.root)) == 7
    with in_process(scratch, time) as app:
        run_once(app)
        assert rows(app, "state, attempt") == [("dead", 3)]
        assert scratch.query("SELECT kind, agent_id FROM alarm WHERE cleared_at IS NULL") == [("dead", "demo")]


def die(root):
    """What the fork above does: end in the middle of the run."""
    scratch = Scratch.at(root)
    with in_process(scratch, Time(), lambda name: os._exit(7) if name == "before:answer" else None) as app:
        run_once(app)


# --- failures ---


class Failing:
    """A worker whose answers fail a number of times."""

    def __init__(self, model, error, times):
        self.model, self.error, self.left = model, error, times

    def answer(self, ask, backend, deadline):
        if self.left:
            self.left -= 1
            raise self.error
        return self.model.answer(ask, backend, deadline)

    def __getattr__(self, name):
        return getattr(self.model, name)


def failing(app, error, times=99):
    app.runner.answerer.worker = Failing(app.worker, error, times)


def next_attempt(app, time):
    due = rows(app, "scheduled_for", "state = 'queued'")
    time.now = datetime.fromisoformat(due[0][0]) if due else time.now
    return app.runner.run_next()


def _open_alarms(scratch):
    return scratch.query("SELECT kind FROM alarm WHERE cleared_at IS NULL")


def test_a_failed_run_comes_again_later_and_later_and_is_then_dead_with_an_alarm(opened, scratch, time):
    scratch.append([filler()])
    failing(opened, StateError("no"))
    run_once(opened)
    waits = []
    while rows(opened, "state") == [("queued",)]:
        before = time.now
        assert _open_alarms(scratch) == ([("waiting",)] if waits else [])  # the first failure may pass
        next_attempt(opened, time)
        waits.append((time.now - before).total_seconds())
    assert waits == [30, 60, 120, 240]
    assert rows(opened, "state, attempt, error") == [("dead", 5, "no")]
    assert scratch.query("SELECT kind FROM alarm WHERE cleared_at IS NULL") == [("dead",)]
    assert scratch.dailies() == {}
    assert scratch.query("SELECT count(*) FROM watermark") == [(0,)]


def test_what_died_is_asked_again_a_day_later_and_its_alarm_ends(opened, scratch, time):
    scratch.append([filler()])
    failing(opened, StateError("no"), times=5)
    run_once(opened)
    for _ in range(4):
        next_attempt(opened, time)
    session = scratch.query("SELECT id FROM session")[0][0]
    again = sleeping.consider(opened.engine, opened.settings, opened.clock, session).again_at
    time.now = datetime.fromisoformat(again)
    with sqlite.begin_write(opened.engine) as connection:  # it is the session that still lives
        connection.exec_driver_sql("UPDATE session SET last_turn_at = ?", (again,))
    assert sleeping.consider(opened.engine, opened.settings, opened.clock, session).run_id
    assert opened.runner.run_next().state == "succeeded"
    assert scratch.query("SELECT count(*) FROM alarm WHERE cleared_at IS NULL") == [(0,)]


@pytest.mark.parametrize(
    ("error", "attempt", "expected"),
    [
        (StateError("x"), 1, retry.RetryAfter(timedelta(seconds=30), refund=False, is_told=True)),  # it may pass
        (ValueError("x"), 2, retry.RetryAfter(timedelta(seconds=60), refund=False)),
        (StateError("x"), 4, retry.RetryAfter(timedelta(seconds=240), refund=False)),
        (StateError("x"), 5, retry.GiveUp()),
        (OSError(errno.ENOSPC, "full"), 5, retry.RetryAfter(timedelta(seconds=480), refund=True)),
        (OSError(errno.EFBIG, "limit"), 1, retry.RetryAfter(timedelta(seconds=30), refund=True)),
        (OSError(errno.EROFS, "ro"), 60, retry.RetryAfter(HOUR, refund=True)),
        (OSError(errno.ENOENT, "gone"), 5, retry.GiveUp()),
        (AwayError("workspace"), 5, retry.RetryAfter(timedelta(seconds=480), refund=True)),
    ],
)
def test_the_table_of_retries(error, attempt, expected):
    assert retry.decide(error, attempt=attempt, attempts=5) == expected


def test_an_error_of_ours_counts_as_the_disks_when_the_disk_caused_it():
    with pytest.raises(StateError) as caught:
        raise StateError("cannot be written") from OSError(errno.ENOSPC, "full")
    assert is_disk_trouble(caught.value)
    assert not is_disk_trouble(StateError("cannot be written"))


def test_a_full_disk_costs_no_attempt_and_nothing_is_lost(opened, scratch, time):
    scratch.append([filler()])
    full = [True]

    def refuse(name):
        if full[0] and name == "before:append":
            raise OSError(errno.ENOSPC, "No space left on device", "daily")

    opened.runner.step = refuse
    run_once(opened)
    assert rows(opened, "state, attempt") == [("queued", 0)]
    assert scratch.query("SELECT count(*) FROM intent") == [(1,)]
    assert scratch.query("SELECT kind FROM alarm WHERE cleared_at IS NULL") == [("waiting",)]
    full[0] = False
    opened.runner.unsettled.clear()
    opened.runner.settle()
    assert rows(opened, "state") == [("succeeded",)]
    assert scratch.query("SELECT count(*) FROM alarm WHERE cleared_at IS NULL") == [(0,)]
    assert reasons(scratch) == ["Trimmed Context"]
    assert scratch.core.count("window functions") == 1
    assert opened.worker.times_asked() == 1


def test_an_agent_whose_files_cannot_be_completed_holds_up_nobody_else(tmp_path, time):
    scratch = Scratch(tmp_path / "scratch")
    other = Scratch(tmp_path / "other")
    scratch.agents.append(Scratch.agent("other", other.workspace))
    scratch.write_config()
    scratch.append([*said(), filler()])
    with in_process(scratch, time) as app:
        app.runner.step = lambda name: (
            (scratch.workspace / "memory" / "2026-03-04.md").mkdir(parents=True) if name == "after:intent" else None
        )
        run_once(app)
        assert rows(app, "state") == [("queued",)]
        app.runner.step = lambda _name: None
        other.append([*said(), filler()])
        run_once(app)
        assert sorted(rows(app, "agent_id, state")) == [("demo", "queued"), ("other", "succeeded")]
        with sqlite.begin_read(app.engine) as connection:
            takeable = runs.count_takeable(connection, "2999", app.runner.takeable_agents())
        assert takeable == 0  # or the loop would turn without a rest
        (scratch.workspace / "memory" / "2026-03-04.md").rmdir()
        app.runner.unsettled = dict.fromkeys(app.runner.unsettled, 0.0)
        assert app.runner.is_unsettled_due()
        app.runner.settle()
        assert sorted(rows(app, "agent_id, state")) == [("demo", "succeeded"), ("other", "succeeded")]


@pytest.mark.long
@pytest.mark.parametrize("state", ["dead", "cancelled", "interrupted", "queued"])
def test_a_run_that_has_begun_to_change_files_is_completed_whatever_its_row_says(opened, scratch, state):
    scratch.append([filler()])

    def stop(name):
        if name in {"after:swap", "after:place"}:
            raise StateError("stopped here")

    opened.runner.step = stop
    run_once(opened)
    scratch.change("UPDATE job_run SET state = ?, finished_at = '2026'", state)
    opened.runner.step = lambda _name: None
    opened.runner.unsettled.clear()
    opened.runner.settle()
    assert rows(opened, "state") == [("succeeded",)]
    assert scratch.query("SELECT count(*) FROM intent") == [(0,)]


def test_the_workspace_that_went_away_is_waited_for(opened, scratch, time):
    scratch.append([filler()])
    run_once_without_runs(opened)
    away = scratch.workspace.with_name("away")
    scratch.workspace.rename(away)
    assert opened.runner.run_next().state == "queued"
    assert rows(opened, "attempt") == [(0,)]
    away.rename(scratch.workspace)
    assert next_attempt(opened, time).state == "succeeded"


def run_once_without_runs(app):
    app.runner.stopping = True
    run_once(app)
    app.runner.stopping = False


def test_an_agent_that_left_the_configuration_keeps_its_runs_waiting(opened, scratch):
    scratch.append([filler()])
    run_once_without_runs(opened)
    opened.runner.settings = dataclasses.replace(opened.settings, agents=())
    assert opened.runner.run_next() is None
    assert rows(opened, "state, attempt") == [("queued", 0)]


def test_a_stop_in_the_middle_costs_no_attempt(opened, scratch):
    scratch.append([filler()])

    class Stopped(Failing):
        def answer(self, ask, backend, deadline):
            opened.runner.stopping = True
            raise StateError("the worker has been stopped")

    opened.runner.answerer.worker = Stopped(opened.worker, None, 0)
    run_once(opened)
    assert rows(opened, "state, attempt") == [("interrupted", 0)]


def test_a_run_whose_end_could_not_be_written_is_given_back(opened, scratch):
    queue(opened)
    assert claim(opened, owner=opened.runner.owner)
    opened.runner.beat()
    assert rows(opened, "state") == [("interrupted",)]
    claimed = claim(opened, owner=opened.runner.owner)
    opened.runner.active[claimed.id] = claimed
    opened.runner.beat()
    assert rows(opened, "state") == [("running",)]
    assert rows(opened, "heartbeat_at") == [(text_of(NOW),)]


# --- the kept answer ---


def test_a_repeated_attempt_over_a_session_that_grew_covers_what_its_answer_covers(opened, scratch, time):
    """Had the second attempt moved the watermark to the newest turn, the turns in between would never be slept on."""
    scratch.append([filler()])
    stops = [True]
    opened.runner.step = lambda name: stop_once(name, stops)
    run_once(opened)
    assert rows(opened, "state") == [("queued",)]
    scratch.append(LATER)
    opened.ingest.scan()
    assert next_attempt(opened, time).state == "succeeded"
    assert opened.worker.times_asked() == 1
    assert scratch.query("SELECT seq FROM watermark") == [(7,)]
    assert scratch.query("SELECT last_seq FROM session") == [(10,)]
    session = scratch.query("SELECT id FROM session")[0][0]
    scratch.change("UPDATE session SET state = 'ended'")
    assert sleeping.consider(opened.engine, opened.settings, opened.clock, session).run_id
    opened.runner.run_next()
    assert scratch.core.count("never delete the old archive") == 1


def test_the_answer_to_another_question_is_not_taken(opened, scratch, time):
    scratch.append([filler()])
    stops = [True]
    opened.runner.step = lambda name: stop_once(name, stops)
    run_once(opened)
    scratch.change("UPDATE turn SET text_crc = NULL, text = text || '!' WHERE seq = 1")
    assert next_attempt(opened, time).state == "succeeded"
    assert opened.worker.times_asked() == 2
    assert len(rows(opened, "input_hash")[0][0]) == 64


def stop_once(name, stops):
    if name == "before:intent" and stops and stops.pop():
        raise StateError("stopped here")


# --- by hand ---


def test_cancel_waiting_running_and_committing(opened, scratch):
    queue(opened)
    assert runs.cancel(opened.engine, "run-demo-0", opened.clock.text()) == "queued"
    assert rows(opened, "state") == [("cancelled",)]
    assert runs.cancel(opened.engine, "run-none", opened.clock.text()) is None
    scratch.append([filler()])
    states = []

    def cancel(name):
        if name in {"after:reply", "after:intent"}:
            run_id = rows(opened, "id", "state = 'running'")[0][0]
            states.append(runs.cancel(opened.engine, run_id, opened.clock.text()))

    opened.runner.step = cancel
    run_once(opened)
    assert states == ["running"]
    assert scratch.dailies() == {}
    assert rows(opened, "state", "id NOT LIKE 'run-demo%'") == [("cancelled",)]


def test_cancel_comes_too_late_once_files_are_written(opened, scratch):
    scratch.append([filler()])
    states = []
    opened.runner.step = lambda name: (
        states.append(runs.cancel(opened.engine, rows(opened, "id")[0][0], opened.clock.text()))
        if name == "after:intent"
        else None
    )
    run_once(opened)
    assert states == ["committing"]
    assert rows(opened, "state") == [("succeeded",)]


def test_a_paused_agent_waits_but_not_for_a_person(opened):
    opened_pause(opened, paused=1)
    queue(opened, number=1)
    assert claim(opened) is None
    with sqlite.begin_read(opened.engine) as connection:
        assert runs.count_takeable(connection, opened.clock.text(), ["demo"]) == 0
    runs.hurry_run(opened.engine, "run-demo-1", opened.clock.text())
    assert claim(opened).actor == "human"


def opened_pause(app, paused):
    with sqlite.begin_write(app.engine) as connection:
        connection.exec_driver_sql("UPDATE agent SET paused = ?", (paused,))


def test_kinds_are_known_by_name_and_unknown_ones_are_not_found():
    for kind in ("sleep", "facts", "rollover", "dedup", "dream", "refine"):
        kinds.check_kind(kind)
    with pytest.raises(NotFoundError):
        kinds.check_kind("slumber")


# --- what becomes a sleep ---


def test_the_same_turns_never_sleep_twice(opened, scratch):
    scratch.append([filler()])
    run_once(opened)
    first = dict(scratch.dailies()), scratch.core
    for _ in range(3):
        opened.ingest.changed.update(row[0] for row in scratch.query("SELECT id FROM session"))
        run_once(opened)
    assert (scratch.dailies(), scratch.core) == first
    assert rows(opened) == [("sleep", "succeeded")]


def test_cooldown_holds_over_a_restart_and_a_failed_sleep_starts_none(scratch, time):
    scratch.append([*said(), filler()])
    with in_process(scratch, time) as app:
        failing(app, StateError("no"), times=1)
        run_once(app)
        assert scratch.query("SELECT slept_at FROM session") == [(None,)]
        assert next_attempt(app, time).state == "succeeded"
    slept = time.now
    more = [message("user", "We decided to rename the service to Halcyon in spring.", 31), filler(minute=32)]
    scratch.append(more)
    time.now = slept + timedelta(minutes=4)
    with in_process(scratch, time) as app:
        run_once(app)
        assert len(rows(app)) == 1
        session = scratch.query("SELECT id FROM session")[0][0]
        again = sleeping.consider(app.engine, app.settings, app.clock, session).again_at
        assert datetime.fromisoformat(again) == slept + timedelta(minutes=5)
        time.now = datetime.fromisoformat(again)
        run_once(app)
        assert rows(app, "state") == [("succeeded",), ("succeeded",)]


def test_a_slept_session_rearms_when_enough_was_added(scratch, time):
    scratch.append([*said(), filler()])
    with in_process(scratch, time) as app:
        run_once(app)
        time.now += timedelta(minutes=10)
        scratch.append([message("user", "Short.", 41)])
        run_once(app)
        assert len(rows(app)) == 1
        scratch.append([message("user", "We decided to keep the orders in Oslo. " + "word " * 500, 42)])
        run_once(app)
        assert len(rows(app)) == 2


CLAUDE = {"sessionId": "s-1", "cwd": "/w", "version": "2.1.0", "isSidechain": False, "userType": "external"}


def claude(number, role, text, minute, **more):
    at = (STARTED + timedelta(minutes=minute)).isoformat().replace("+00:00", "Z")
    content = text if role == "user" else [{"type": "text", "text": text}]
    inner = {"role": role, "content": content}
    if role == "assistant":
        inner |= {"id": f"msg_{number}", "model": "claude-sonnet-4", "usage": {"input_tokens": 100, "output_tokens": 5}}
    record = {"type": role, "uuid": f"u{number}", "parentUuid": None, "timestamp": at, "message": inner}
    return CLAUDE | record | more


def test_a_compaction_before_the_sleep_is_recovered(tmp_path, time):
    scratch = Scratch(tmp_path / "scratch")
    scratch.agents[0]["transcripts"][0]["format"] = "claude-code"
    scratch.write_config()
    turns = [claude(number, role, text, number) for number, (role, text) in enumerate(SAID)]
    marker = CLAUDE | {
        "type": "system", "subtype": "compact_boundary", "uuid": "u90", "parentUuid": None,
        "content": "Conversation compacted",
        "timestamp": "2026-03-04T09:20:00Z", "compactMetadata": {"trigger": "auto", "preTokens": 900},
    }  # fmt: skip
    scratch.append([*turns, marker])
    with in_process(scratch, time) as app:
        run_once(app)
        assert rows(app, '"trigger", state') == [("recovery", "succeeded")]
    assert reasons(scratch) == ["Context Overflow Recovery"]


def test_a_session_that_is_quiet_ends_with_session_notes(opened, scratch, time):
    run_once(opened)
    assert rows(opened) == []
    time.now = STARTED + timedelta(minutes=5, hours=2)
    run_once(opened)
    assert rows(opened, '"trigger", state') == [("session-end", "succeeded")]
    assert reasons(scratch) == ["Session Notes"]
    assert scratch.query("SELECT state FROM session") == [("ended",)]


def test_history_is_read_but_starts_no_job_unless_it_is_to_be_flushed(scratch, time):
    time.now = STARTED + timedelta(days=9)
    scratch.append(said())
    scratch.append(said(at=STARTED + timedelta(days=1)), "two")
    with in_process(scratch, time) as app:
        run_once(app)
        assert rows(app) == []
        assert scratch.query("SELECT count(*) FROM turn") == [(12,)]
    scratch.write_config(ingest={"history": "flush"})
    with in_process(scratch, time) as app:
        run_once(app)
        assert {row[0] for row in rows(app, "state")} <= {"succeeded", "skipped"}
    assert sorted(scratch.dailies()) == ["2026-03-04.md", "2026-03-05.md"]
    assert set(reasons(scratch)) == {"Session Notes"}


def test_what_was_said_while_the_daemon_was_stopped_is_no_history(scratch, time):
    chats = scratch.sessions / ".aider.chat.history.md"
    scratch.agents[0]["transcripts"] += [{"path": str(chats), "format": "aider"}]
    scratch.write_config()
    keep = "We decided to keep the {} in the vault because the audit needs them."
    for day, things in ((0, ("orders", "salaries", "invoices")), (5, ("drawings", "letters", "contracts"))):
        at = STARTED + timedelta(days=day)
        with chats.open("a", encoding="utf-8") as file:
            said_to_aider = f"#### {keep.format(things[0])}  \n\nNoted.\n"
            file.write(f"\n# aider chat started at {at:%Y-%m-%d %H:%M:%S}\n\n{said_to_aider}")
        scratch.append([message("user", keep.format(things[1]), at=at)], f"from-{day}")
        scratch.append([message("user", keep.format(things[2]), at=at)], "known")
        for path in scratch.sessions.iterdir():
            os.utime(path, (at.timestamp(), at.timestamp()))
        time.now = at + timedelta(days=3)
        with in_process(scratch, time) as app:
            run_once(app)
    text = "".join(scratch.dailies().values())
    told = [thing for thing in ("drawings", "letters", "contracts", "orders", "salaries") if thing in text]
    assert told == ["drawings", "letters", "contracts"], "only what was there at first is history"
    left = "SELECT count(*) FROM session WHERE julianday(last_turn_at) < julianday(seen_at) - 1"
    assert scratch.query(left) == [(2,)]


def test_in_a_folder_that_is_added_only_what_ended_before_the_agent_was_known_is_history(scratch, time):
    with in_process(scratch, time) as app:
        run_once(app)
    added = scratch.sessions.parent / "added"
    added.mkdir()
    scratch.agents[0]["transcripts"].append({"path": f"{added}/*.jsonl", "format": "messages"})
    scratch.write_config()
    keep = "We decided to keep the {} in the vault because the audit needs them."
    for thing, days in (("orders", -5), ("letters", 5)):
        at = STARTED + timedelta(days=days)
        path = added / f"{thing}.jsonl"
        path.write_text(json.dumps(message("user", keep.format(thing), at=at)) + "\n", encoding="utf-8")
        os.utime(path, (at.timestamp(), at.timestamp()))
    time.now = STARTED + timedelta(days=9)
    with in_process(scratch, time) as app:
        run_once(app)
    text = "".join(scratch.dailies().values())
    assert [thing for thing in ("orders", "letters") if thing in text] == ["letters"]


def test_nothing_worth_saying_makes_no_file_and_says_why(scratch, time):
    scratch.append([message("user", "ok", 0), message("assistant", "ok", 1)])
    time.now = STARTED + timedelta(minutes=10)
    with in_process(scratch, time) as app:
        run_once(app)
        time.now += timedelta(hours=3)
        run_once(app)
        assert [state for (state,) in rows(app, "state")] == ["skipped"]
        assert rows(app, "why")[0][0]
    assert scratch.dailies() == {}
    assert scratch.core == ""
    assert not (scratch.workspace / "memory").exists()


@pytest.mark.parametrize(
    "at", ["9999-12-31T23:59:59Z", "2999-01-01T00:00:00Z", "1970-01-01T00:00:05Z", "0001-01-01T00:00:00Z"]
)
def test_a_wrong_clock_in_a_transcript_stops_nothing_and_keeps_no_session_alive(scratch, time, at):
    scratch.append([*said(), message("user", "We decided to move the archive to Reykjavik.", 9) | {"timestamp": at}])
    with in_process(scratch, time) as app:
        run_once(app)
        time.now += timedelta(hours=3)
        run_once(app)
        time.now += timedelta(minutes=5)
        run_once(app)
        assert scratch.query("SELECT state FROM session") == [("ended",)]
        assert {state for (state,) in rows(app, "state")} == {"succeeded"}
        assert len(rows(app)) == 1


def test_turns_out_of_order_sleep_once(opened, scratch, time):
    scratch.append([message("user", "We decided to move the archive to Reykjavik.", 3), filler(minute=2)])
    run_once(opened)
    assert rows(opened, "state") == [("succeeded",)]
    run_once(opened)
    assert rows(opened, "state") == [("succeeded",)]


def test_off_and_disabled_agents_do_not_sleep(scratch, time):
    scratch.append([*said(), filler()])
    scratch.write_config(modes={"sleep": "off", "facts": "off"})
    with in_process(scratch, time) as app:
        run_once(app)
        assert rows(app) == []


# --- the hook ---


@pytest.fixture
def hooked(scratch, time):
    out = scratch.root / "hook"
    command = f'{{ echo "$MEMORYD_AGENT/$MEMORYD_SESSION"; cat; }} >> {out}'
    scratch.write_config(hooks={"on_summary": command})
    scratch.append([*said(), filler()])
    with in_process(scratch, time) as app:
        yield app, out


def test_the_hook_gets_the_text_and_the_names(hooked, scratch):
    app, out = hooked
    run_once(app)
    told = out.read_text(encoding="utf-8")
    session = scratch.query("SELECT id FROM session")[0][0]
    assert told.startswith(f"demo/{session}\n### ")
    body = next(iter(scratch.dailies().values())).partition("(09:30)\n\n")[2]
    assert told.partition("\n")[2].strip() == body.strip()
    assert rows(app, "json_extract(receipt, '$.on_summary')") == [("ok",)]


def test_a_failing_hook_fails_nothing(hooked, scratch):
    app, _out = hooked
    app.runner.settings = dataclasses.replace(
        app.settings, hooks=dataclasses.replace(app.settings.hooks, on_summary="exit 3")
    )
    run_once(app)
    assert rows(app, "state, json_extract(receipt, '$.on_summary')") == [("succeeded", "failed: exit code 3")]


@pytest.mark.long
@pytest.mark.parametrize("name", ["after:intent", "after:append", "before:rows", "after:rows"])
def test_the_hook_is_told_after_a_stop_between_commit_and_hook(hooked, scratch, time, name):
    app, out = hooked

    class Stop(BaseException):
        pass

    def stop(step):
        if step == name:
            raise Stop

    app.runner.step = stop
    with pytest.raises(Stop):
        run_once(app)
    assert not out.exists()
    scratch.change("UPDATE job_run SET owner = 'gone'")
    app.close()
    daily = scratch.workspace / "memory" / "2026-03-04.md"
    if name == "after:rows":
        daily.write_bytes(daily.read_bytes() + b"- of another writer\n")
    with in_process(scratch, time) as again:
        run_once(again)
    assert out.read_text(encoding="utf-8").count("My name is Ottilie") == 1
    assert "of another writer" not in out.read_text(encoding="utf-8")
    assert rows(app, "json_extract(receipt, '$.on_summary')") == [("ok",)]


def test_a_hook_that_takes_too_long_is_killed_with_all_it_started(tmp_path, monkeypatch):
    monkeypatch.setattr(hooks, "TIMEOUT_SECONDS", 0.5)
    pids = tmp_path / "pids"
    command = f"sleep 60 & echo $! > {pids}; wait"
    result = hooks.run_hook(command, "text", {"MEMORYD_AGENT": "a"})
    assert result == hooks.HookResult(ok=False, why="took longer than 0.5 s")
    pid = int(pids.read_text())
    until(lambda: not alive(pid), why="what the hook started is gone")


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_a_hook_is_cut_short_by_a_stop():
    result = hooks.run_hook("sleep 60", "x" * 300_000, {"MEMORYD_AGENT": "a"}, is_stopping=lambda: True)
    assert result.stopped


def test_a_hook_that_does_not_read_is_fine():
    result = hooks.run_hook("exit 0", "x" * 3_000_000, {"MEMORYD_AGENT": "a"})
    assert result.ok


# --- the receipt ---


def test_the_receipt_says_what_was_done(opened, scratch):
    scratch.append([filler()])
    run_once(opened)
    receipt = json.loads(rows(opened, "receipt")[0][0])
    assert [phase["phase"] for phase in receipt["phases"]] == ["process", "summarize", "consolidate", "save"]
    assert all(phase["seconds"] >= 0 for phase in receipt["phases"])
    core, daily = receipt["files"]
    assert (core["path"], core["before"]) == ("MEMORY.md", None)
    assert daily["path"] == "memory/2026-03-04.md"
    data = (scratch.workspace / daily["path"]).read_bytes()
    assert daily["bytes"] == len(data) - len(b"# Daily Memory: 2026-03-04\n")
    assert receipt["memories_added"] == scratch.query("SELECT count(*) FROM memory")[0][0] == 3
    text = json.dumps(receipt)
    assert not any(word in text for word in ("Ottilie", "PostgreSQL", "Makefiles"))


def test_a_foreign_error_is_told_by_its_type_and_place_only():
    with pytest.raises(ValueError, match="Expecting value") as caught:
        json.loads("the secret words")
    assert errors.describe(caught.value).startswith("JSONDecodeError at json.decoder:")
    assert "secret" not in errors.describe(KeyError("secret"))
    assert errors.describe(MemorydError("what", "where", "hint")) == "where: what (hint)"


def test_several_threads_take_runs_without_getting_in_each_others_way(tmp_path, time):
    scratch = Scratch(tmp_path / "scratch")
    for number in range(4):
        other = Scratch(tmp_path / f"other{number}")
        other.append([*said(), filler()])
        scratch.agents.append(Scratch.agent(f"other{number}", other.workspace))
    scratch.write_config()
    with in_process(scratch, time) as app:
        run_once_without_runs(app)
        threads = [threading.Thread(target=app.runner.run_next) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        while app.runner.run_next() is not None:
            pass
        assert rows(app, "state") == [("succeeded",)] * 4
        assert app.worker.times_asked() == 4
    assert commit.open_intents(app.engine) == []


def test_times_are_told_in_utc():
    assert text_of(datetime(2026, 3, 4, 10, 0, tzinfo=UTC)) == "2026-03-04T10:00:00.000Z"
