"""A wall clock that jumps while memoryd runs, or begins in 1970: no run waits for it, and none comes twice."""

from datetime import UTC, datetime, timedelta

import pytest
from scratch import STARTED, Scratch, filler, in_process, message

from memoryd.daemon.once import run_once

JUMPS = [timedelta(days=1), timedelta(days=-1), timedelta(hours=2), timedelta(hours=-2)]
UNSET = datetime(1970, 1, 1, tzinfo=UTC)
LONG = timedelta(minutes=45)


class Wall:
    def __init__(self):
        self.now = STARTED + LONG

    def __call__(self):
        return self.now


@pytest.fixture
def scratch(tmp_path):
    # Otherwise a jump would also end the sessions, or flush them for a dream: right, and not what is asked here.
    return Scratch(tmp_path / "scratch", sessions={"idle_end": "3650d"}, dream={"schedule": None})


def write(scratch, name, topic):
    """A session of its own, which says something that no other one said."""
    told = f"We decided to keep {topic} in the {topic} archive because the {topic} audit needs it."
    answer = filler()
    scratch.append([message("user", told), answer | {"content": f"{name}: {answer['content']}"}], name)


TOPICS = ("invoices", "telemetry", "payroll")


def succeeded(scratch):
    return scratch.query("SELECT count(*) FROM job_run WHERE kind = 'sleep' AND state = 'succeeded'")[0][0]


@pytest.mark.parametrize("jump", JUMPS, ids=str)
def test_each_session_sleeps_once_whatever_the_clock_does(scratch, jump):
    """The day of a daily file is that of what was said, not of the clock."""
    wall = Wall()
    with in_process(scratch, wall) as app:
        for number, to in enumerate((STARTED + LONG, STARTED + LONG + jump, STARTED + LONG)):
            wall.now = to
            write(scratch, f"session-{number}", TOPICS[number])
            run_once(app)
            assert succeeded(scratch) == number + 1
            run_once(app)
            assert succeeded(scratch) == number + 1
    assert list(scratch.dailies()) == ["2026-03-04.md"]
    assert scratch.dailies()["2026-03-04.md"].count("## Trimmed Context") == 3


def test_a_machine_that_boots_in_1970_does_its_work_and_goes_on_in_the_present(scratch):
    wall = Wall()
    wall.now = UNSET
    with in_process(scratch, wall) as app:
        write(scratch, "first", "invoices")
        run_once(app)
    wall.now = STARTED + LONG
    with in_process(scratch, wall) as app:
        write(scratch, "second", "payroll")
        run_once(app)
    assert succeeded(scratch) == 2
    assert list(scratch.dailies()) == ["2026-03-04.md"]


@pytest.mark.parametrize("back", [timedelta(hours=2), timedelta(days=1)], ids=str)
def test_a_run_that_waits_does_not_wait_for_a_clock_that_was_set_back(scratch, back):
    wall = Wall()
    write(scratch, "one", "invoices")
    with in_process(scratch, wall) as app:
        answer = app.worker.answer
        app.worker.answer = lambda *_arguments, **_more: 1 / 0
        run_once(app)
        assert scratch.query("SELECT state, attempt FROM job_run") == [("queued", 1)]
        app.worker.answer = answer
        run_once(app)
        assert succeeded(scratch) == 0  # its time has not come
        wall.now -= back
        run_once(app)
        assert succeeded(scratch) == 1
        assert scratch.query("SELECT count(*) FROM job_run") == [(1,)]


def test_a_run_that_keeps_failing_waits_between_its_attempts_by_a_clock_that_was_set_back(scratch):
    wall = Wall()
    write(scratch, "one", "invoices")
    with in_process(scratch, wall) as app:
        app.worker.answer = lambda *_arguments, **_more: 1 / 0
        run_once(app)
        wall.now -= timedelta(days=1)
        for _ in range(3):
            run_once(app)
        assert scratch.query("SELECT state, attempt FROM job_run") == [("queued", 2)]
        wall.now += timedelta(hours=1)
        run_once(app)
        assert scratch.query("SELECT state, attempt FROM job_run") == [("queued", 3)]
