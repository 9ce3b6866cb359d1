"""Does it help? The user's own questions, put to memory with its core and without, at the same cost."""

import dataclasses
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scratch import Scratch, in_process

from memoryd.clock import text_of
from memoryd.daemon.once import run_once
from memoryd.database import audit, job_modes, reads, runs, sqlite
from memoryd.gauge.estimate import estimate
from memoryd.ledger.audit import AuditStamp
from memoryd.ledger.memory import MemoryKind
from memoryd.ledger.operation import Add, Delete, Update, apply
from memoryd.recall.evaluation import (
    HITS,
    DatedEntry,
    Evaluation,
    PastQuestion,
    RetrievalTally,
    evaluate,
    is_question,
    list_terms,
)
from memoryd.running import evaluating, modes
from memoryd.tiers.daily import attribute_block

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
DEPOT = "The depot in Tromso opens at seven and Ingrid holds its keys."
ANSWER = "The depot in Tromso opens at seven; Ingrid holds the keys of it."
QUESTION = "When does the depot open, and who can let me in?"


# --- the measure ---


def told_of(most=1000, question=QUESTION, answer=ANSWER, days=(), core=(), times=1, recent=3, said=()):
    """What comes of a question that was put so many times; an entry is a text, or one with its session."""
    asked = PastQuestion(question, answer, "2026-03-10"), tuple(core)
    pairs = [one if isinstance(one, tuple) else (one, "") for one in days]
    entries = [DatedEntry(text, "2026-03-01", session) for text, session in pairs]
    return evaluate(
        [asked] * times, entries, most, recent, {term: at for text, at in said for term in list_terms(text)}
    )


NOISE = [f"Report {number}: the build of module {number} took long and was logged." for number in range(40)]


def test_an_answer_is_found_where_memory_holds_its_words():
    told = told_of(days=[DEPOT, *NOISE])
    assert (told.asked, told.counted, told.days.hits, told.consolidated.hits, told.core.hits) == (1, 1, 1, 1, 0)
    told = told_of(days=NOISE, core=[DEPOT])
    assert (told.days.hits, told.consolidated.hits, told.core.hits, told.wins) == (0, 1, 1, 1)


def test_a_question_whose_answer_no_memory_held_is_not_counted():
    for told in (told_of(days=NOISE), told_of(question="Is it done?", answer="Yes.", days=[DEPOT])):
        assert (told.asked, told.counted) == (1, 0)
    # What the question itself says is no evidence: it is in every answer.
    told = told_of(question=f"Is it true? {ANSWER}", days=[DEPOT, *NOISE])
    assert told.counted == 0


def test_a_core_that_fills_the_budget_with_other_things_loses():
    """Where the same words find more in the days than half of a budget takes, the core has cost an answer."""
    days = [*(f"The depot was visited on day {number} by the auditors of the company." for number in range(30)), DEPOT]
    days = [*reversed(days)]
    question = "Which visited depot of the company do the auditors mean on the day that they open it?"
    core = [f"Rule {number}: colours of module {number} are blue and never anything else." for number in range(20)]
    told = told_of(2 * sum(map(estimate, core)), question, days=days, core=core, times=6)
    assert (told.days.hits, told.consolidated.hits, told.losses) == (6, 0, 6)
    assert told.verdict == "loses"
    assert told_of(10_000, question, days=days, times=6).losses == 0


TEXTS = st.lists(st.sampled_from([DEPOT, *NOISE, "", "x " * 3000]), max_size=12)


@given(TEXTS, TEXTS, st.integers(0, 3000))
def test_both_stay_within_one_budget(days, core, most):
    told = told_of(most, days=[DEPOT, *days], core=core)
    assert told.counted == 1
    budget = min(max(2 * sum(map(estimate, core)), 400), most)
    assert all(tally.tokens <= budget for tally in (told.days, told.consolidated, told.core))
    assert told.core.tokens <= told.consolidated.tokens
    assert told.wins + told.losses <= 1


def test_what_the_last_sessions_left_is_injected_and_no_older_one():
    days = [(DEPOT, "one"), *((text, f"s{number}") for number, text in enumerate(NOISE)), (NOISE[0], "")]
    assert [told_of(5000, days=days, recent=recent).injected.hits for recent in (3, 40, 41)] == [0, 0, 1]
    assert told_of(5000, days=days).lines == 3
    assert told_of(0, days=days, recent=41).lines == 0
    # A later block of the session brings all that it left forward; what belongs to no session is not injected.
    assert told_of(days=[*days, (NOISE[1], "one")], recent=1).injected.hits == 1
    assert told_of(days=[DEPOT, *NOISE]).injected.hits == 0
    assert told_of(days=NOISE, core=[DEPOT], recent=0).injected.hits == 1


def test_the_words_of_an_answer_are_in_one_line():
    parts = ["It is in Tromso.", "Ingrid was there.", "He holds it.", "By seven.", "Two keys."]
    told = told_of(days=NOISE, core=parts)
    assert (told.core.hits, told.injected.hits, told.found.hits) == (1, 0, 0)


def test_an_answer_is_found_among_the_first_hits_only():
    assert told_of(days=[DEPOT, *NOISE]).found.hits == 1
    assert told_of(days=NOISE, core=[DEPOT]).found.hits == 1
    others = [f"When the depot was open I let number {number} of them in." for number in range(HITS)]
    assert told_of(days=[DEPOT, *NOISE, *others]).found.hits == 0
    assert told_of(days=[DEPOT, *NOISE, *others[1:]]).found.hits == 1


def test_a_line_is_noise_where_no_later_session_says_its_rare_words():
    def noise(*said, core=(DEPOT,)):
        told = told_of(days=NOISE, core=core, said=said, times=2)
        return told.untouched, told.lines

    assert noise() == (1, 1)  # of one start: the second question is of the same session
    assert noise(("Who is Ingrid?", "2026-03-10")) == (0, 1)
    assert noise(("Who is Ingrid?", "2026-03-09")) == (1, 1)  # what led to the line is no use of it
    assert noise((NOISE[0], "2026-03-11"), core=(DEPOT, NOISE[0])) == (1, 2)


SESSIONS = st.lists(st.tuples(st.sampled_from([DEPOT, *NOISE, ""]), st.sampled_from(["", "a", "b", "c"])), max_size=12)
SAID = st.lists(st.tuples(st.sampled_from([DEPOT, *NOISE]), st.sampled_from(["2026-03-09", "2026-03-11"])), max_size=4)


@given(SESSIONS, TEXTS, SAID, st.integers(0, 1000), st.integers(0, 4))
def test_more_sessions_inject_no_less_and_more_said_makes_no_more_noise(days, core, said, most, recent):
    given = {"days": [DEPOT, *days], "core": core, "said": said}
    told = told_of(most, **given, recent=recent)
    assert told.counted == 1
    assert 0 <= told.untouched <= told.lines <= len(core) + len(days)
    assert told.injected.tokens <= most
    assert max(told.injected.hits, told.found.hits) <= 1
    row = evaluating.as_row(told)
    assert all(0 <= row[key]["rate"] <= 1 for key in ("injected", "found", "noise"))
    heard = told_of(most, **given | {"said": [*said, (DEPOT, "2026-03-12")]}, recent=recent)
    assert (heard.lines, heard.injected, heard.found) == (told.lines, told.injected, told.found)
    assert heard.untouched <= told.untouched
    roomy = [told_of(10**6, **given, recent=recent + more) for more in (0, 1)]
    assert roomy[0].lines <= roomy[1].lines
    assert told.lines <= roomy[0].lines
    assert told.injected.hits <= roomy[0].injected.hits <= roomy[1].injected.hits
    assert told.found == roomy[1].found


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 100))
def test_a_verdict_takes_enough_questions_and_more_than_luck(wins, losses, same):
    told = Evaluation(asked=200, counted=wins + losses + same, wins=wins, losses=losses)
    if told.verdict == "loses":
        assert losses >= 4
        assert losses > wins
        assert told.counted >= 5
    assert told.verdict != "helps" or wins >= 4
    swapped = dataclasses.replace(told, wins=losses, losses=wins)
    assert {told.verdict, swapped.verdict} in ({"loses", "helps"}, {"undecided"})


@pytest.mark.parametrize(
    ("text", "is_asked"),
    [
        ("When does the depot open?", True),
        ("what was the name again", True),
        ("Wie heißt das Depot?", True),
        ("仓库几点开门？", True),  # noqa: RUF001
        ("Please write the report now.", False),
        ("> Who wrote this?\nDelete it.", False),
        ("I know what I want.", False),
    ],
)
def test_what_asks(text, is_asked):
    assert is_question(text) is is_asked


# --- an agent's memory as it was ---


def turn(role, text, at):
    return {"role": role, "content": text, "timestamp": text_of(at)}


class World:
    def __init__(self, root):
        self.scratch = Scratch(root, modes={"sleep": "off", "facts": "off", "dream": "auto"})
        self.now = NOW
        self.count = 0

    def open(self):
        self.app = in_process(self.scratch, lambda: self.now)
        return self.app

    def session(self, at, *said):
        self.count += 1
        records = [turn(role, text, at + timedelta(minutes=number)) for number, (role, text) in enumerate(said)]
        self.scratch.append(records, f"s{self.count}")

    def day(self, at, *bullets, of=None):
        path = self.scratch.workspace / "memory" / f"{at:%Y-%m-%d}.md"
        path.parent.mkdir(exist_ok=True)
        head = "" if path.exists() else f"# Daily Memory: {at:%Y-%m-%d}\n"
        body = f"{attribute_block('Codex', f'{at:%H:%M}', f'{at:%H:%M}', of)}\n\n" if of else ""
        body += "".join(f"- {text}\n" for text in bullets)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{head}\n## Session Notes ({at:%H:%M})\n\n{body}")

    def core(self, at, *operations):
        from memoryd.database import memories

        with sqlite.begin_write(self.app.engine) as connection:
            held = {memory.id: memory for memory in memories.read_live(connection, "demo", MemoryKind.CORE)}
            new_hex = self.app.runner.new_id
            changes = apply(held, operations, agent_id="demo", now=text_of(at), new_hex=new_hex)
            audit.record(connection, changes, AuditStamp(text_of(at), "demo", "human"))
        return changes[0].memory_id

    def evaluate(self, days=7):
        settings = self.app.settings
        return evaluating.of_agent(self.app.engine, settings, settings.agents[0], self.now, days)

    def run(self, **more):
        run_id = runs.new_run_id(self.app.clock.now())
        now = self.app.clock.text()
        row = {"id": run_id, "kind": evaluating.KIND, "agent_id": "demo", "actor": "memoryd", "trigger": "schedule"}
        with sqlite.begin_write(self.app.engine) as connection:
            assert runs.enqueue(connection, row | {"created_at": now, "scheduled_for": now} | more)
        self.app.runner.run_next(only=run_id)
        with reads.open_reader(self.app.database) as reader:
            return reads.job_run(reader, run_id)

    def mode(self):
        return modes.mode_of(self.app.engine, self.app.settings, "demo", "dream")

    def alarms(self):
        return [row[0] for row in self.scratch.query("SELECT kind FROM alarm WHERE cleared_at IS NULL")]


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "scratch")
    made.session(NOW - timedelta(days=20), ("user", "Hello there."), ("assistant", "Hello."))
    with made.open():
        run_once(made.app)
        yield made


def read(world):
    run_once(world.app)


ASKED = (("user", QUESTION), ("assistant", ANSWER))


def test_memory_is_asked_as_it_was_when_the_session_began(world):
    began = NOW - timedelta(days=2)
    world.session(began, *ASKED)
    read(world)
    world.day(began + timedelta(hours=1), DEPOT)  # what its own session left
    world.core(began + timedelta(hours=1), Add(MemoryKind.CORE, DEPOT))
    told = world.evaluate()
    assert (told.asked, told.counted) == (1, 0)
    world.day(began - timedelta(days=1), DEPOT)
    told = world.evaluate()
    assert (told.counted, told.days.hits, told.consolidated.hits, told.core.hits) == (1, 1, 1, 0)


def test_the_core_is_replayed(world):
    began = NOW - timedelta(days=2)
    world.session(began, *ASKED)
    read(world)
    world.day(began - timedelta(days=3), *NOISE)
    memory_id = world.core(began - timedelta(days=5), Add(MemoryKind.CORE, DEPOT))
    world.core(began + timedelta(days=1), Update(memory_id, "The depot is closed for good."))
    assert world.evaluate().core.hits == 1
    gone = world.core(began - timedelta(days=4), Add(MemoryKind.CORE, "The depot is old."))
    world.core(began + timedelta(hours=1), Delete(gone))
    assert world.evaluate().core.hits == 1


def test_what_a_start_was_told_is_taken_from_the_sessions_before_it(world):
    began = NOW - timedelta(days=2)
    world.session(began, *ASKED)
    world.session(
        began - timedelta(hours=5), ("user", "The depot of Tromso is mine, with Ingrid."), ("assistant", "Yes.")
    )
    read(world)
    world.day(began - timedelta(days=4), DEPOT, of="depot")
    for number in range(2):
        world.day(began - timedelta(days=3 - number), NOISE[number], of=f"other-{number}")
    world.day(began - timedelta(days=1), NOISE[5])  # of no session
    told = world.evaluate()
    assert (told.counted, told.injected.hits, told.found.hits, told.core.hits) == (1, 1, 1, 0)
    assert (told.untouched, told.lines) == (2, 3)  # the session itself says the words of the third
    world.day(began - timedelta(hours=2), NOISE[7], of="other-7")
    world.day(began + timedelta(hours=2), DEPOT, of="depot")  # too late
    told = world.evaluate()
    assert (told.counted, told.injected.hits, told.found.hits) == (1, 0, 1)
    assert (told.untouched, told.lines) == (3, 3)
    world.core(began - timedelta(hours=1), Add(MemoryKind.CORE, DEPOT))
    told = world.evaluate()
    assert (told.injected.hits, told.untouched, told.lines) == (1, 3, 4)


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ((*ASKED, ("user", "Thanks!")), 1),
        ((*ASKED, ("user", "No, that's wrong: it opens at nine."), ("assistant", "I see.")), 0),
        ((("user", "Please open the depot."), ("assistant", ANSWER)), 0),
        ((("user", QUESTION),), 0),
    ],
)
def test_what_the_user_asked_and_let_stand_counts(world, said, asked):
    world.session(NOW - timedelta(days=2), *said)
    world.session(NOW - timedelta(days=30), *ASKED)
    read(world)
    assert world.evaluate().asked == asked


def test_the_command_tells_numbers_and_not_a_word(world):
    world.session(NOW - timedelta(days=2), *ASKED)
    read(world)
    world.day(NOW - timedelta(days=5), DEPOT)
    world.app.close()
    done = world.scratch.run("eval", "--days", "3650")
    assert done.returncode == 0, done
    told = world.scratch.json("eval", "--days", "3650")
    assert (told["counted"], told["dailies"]["hits"], told["verdict"]) == (1, 1, "undecided")
    assert told["injected"] == {"hits": 0, "rate": 0.0, "tokens": 0}
    assert (told["found"]["hits"], told["noise"]) == (1, {"lines": 0, "untouched": 0, "rate": 0.0})
    assert "in the last 3,650 days" in done.stdout
    assert "An injected line answers 0 %, and one of the first three hits of a search 100 %" in done.stdout
    assert "   1 of 1, 100 %  by a search of the daily files alone" in done.stdout
    assert "There is no result yet: 1 question counts, and it takes 5." in done.stdout
    for word in ("depot", "tromso", "ingrid"):
        assert word not in (done.stdout + json.dumps(told)).lower()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "You have asked nothing"),
        ({"asked": 3}, "None of them counts"),
        ({"asked": 9, "counted": 4, "wins": 4}, "There is no result yet: 4 questions count"),
        ({"asked": 9, "counted": 9, "wins": 7, "losses": 1}, "Good: dreaming helps"),
        ({"asked": 9, "counted": 9, "wins": 1, "losses": 7}, "Bad: dreaming makes answers worse"),
        ({"asked": 9, "counted": 9, "wins": 4, "losses": 2}, "Neither good nor bad"),
    ],
)
def test_the_command_says_what_its_numbers_mean_and_whether_they_are_good(given, says):
    found = Evaluation(
        **given,
        days=RetrievalTally(given.get("losses", 0), 900),
        consolidated=RetrievalTally(given.get("wins", 0), 1800),
    )
    text = evaluating.as_text(evaluating.as_row(found), 7)
    assert says in text
    assert [one for one in VERDICTS if one in text] == [one for one in VERDICTS if one in says]
    assert ("alone" in text) is bool(given.get("counted"))
    if given.get("counted") == 9:
        wins, losses = given["wins"], given["losses"]
        assert f"{wins} of 9, {wins / 9:.0%}".replace("%", " %") in text
        assert "(200 tokens a question)" in text
        only = "1 was" if losses == 1 else f"{losses} were"
        assert f"{only} answered only without the core (fewer is better)" in text


VERDICTS = ("Good", "Bad", "Neither", "There is no result")


# --- what follows ---


LOST = Evaluation(asked=9, counted=9, losses=6)
FINE = Evaluation(asked=9, counted=9, wins=1, losses=1)
NOBODY = Evaluation()


def found(monkeypatch, evaluation):
    monkeypatch.setattr(evaluating, "of_agent", lambda *_: evaluation)


def test_a_dream_that_loses_twice_is_held_back_until_it_does_not_or_a_person_trusts_it(world, monkeypatch):
    found(monkeypatch, LOST)
    assert world.run()["why"] == "loses"
    assert (world.mode(), world.alarms()) == ("auto", [])
    world.now += timedelta(days=7)
    world.run()
    assert (world.mode(), world.alarms()) == ("propose", ["dream-loses"])
    found(monkeypatch, NOBODY)  # nothing was asked: that proves nothing
    world.now += timedelta(days=7)
    world.run()
    assert world.mode() == "propose"
    found(monkeypatch, FINE)
    world.now += timedelta(days=7)
    world.run()
    assert (world.mode(), world.alarms()) == ("auto", [])
    found(monkeypatch, LOST)
    for _ in range(2):
        world.now += timedelta(days=7)
        world.run()
    assert world.mode() == "propose"
    world.app.close()
    told = world.scratch.run("status").stdout
    assert "held     dream to propose since" in told
    assert "ALARM demo: dream-loses since" in told
    assert world.scratch.json("job", "trust", "dream")["was_held"] is True
    assert world.scratch.json("job", "trust", "dream")["was_held"] is False
    assert world.scratch.json("job", "trust", "sleepwalk", code=3)
    with world.open():
        assert (world.mode(), world.alarms()) == ("auto", [])


def test_in_a_silo_where_nobody_is_asked_it_does_not_dream_at_all(world, monkeypatch):
    agent = dataclasses.replace(world.app.settings.agents[0], privacy="silo")
    world.app.settings = world.app.runner.settings = dataclasses.replace(world.app.settings, agents=(agent,))
    found(monkeypatch, LOST)
    for _ in range(2):
        world.now += timedelta(days=7)
        world.run()
    assert world.mode() == "off"


def test_what_is_configured_to_do_less_is_not_made_to_do_more(world):
    with sqlite.begin_write(world.app.engine) as connection:
        job_modes.hold(connection, "demo", "dream", "propose", now="x", why="x")
    off = dataclasses.replace(world.app.settings.modes, dream="off")
    settings = dataclasses.replace(world.app.settings, modes=off)
    assert modes.mode_of(world.app.engine, settings, "demo", "dream") == "off"


def test_it_runs_once_a_week_behind_a_dream(world):
    def queue():
        evaluating.queue(world.app.engine, world.app.settings, world.app.clock, f"{world.now:%Y-%m-%dT%H:%M}")
        return world.scratch.query("SELECT count(*) FROM job_run WHERE kind = 'eval' AND state = 'queued'")[0][0]

    def dreamt(number):
        world.scratch.change(
            "INSERT INTO job_run (id, kind, agent_id, actor, trigger, state, created_at, scheduled_for, finished_at,"
            " attempt, fence, cancel_requested, tokens_in, tokens_out, receipt, options)"
            " VALUES (?, 'dream', 'demo', 'memoryd', 'schedule', 'succeeded', 'x', 'x', ?, 0, 0, 0, 0, 0, '{}', '{}')",
            f"run-{number}", text_of(world.now),
        )  # fmt: skip

    assert queue() == 0  # there is nothing to judge
    dreamt(1)
    assert queue() == 1
    assert queue() == 1
    world.scratch.change("UPDATE job_run SET state = 'succeeded' WHERE kind = 'eval'")
    counts = []
    for number in range(2, 16):
        world.now += timedelta(days=1)
        dreamt(number)
        counts.append(queue())
        world.scratch.change("UPDATE job_run SET state = 'succeeded' WHERE kind = 'eval'")
    assert [day for day, count in enumerate(counts, 1) if count] == [7, 14]
    world.now += timedelta(days=8)
    assert queue() == 0  # no dream since
