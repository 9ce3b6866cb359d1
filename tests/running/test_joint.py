"""One question for a sleep and the facts of its turns, over HTTP: what is sent, written, counted and taken back."""

from __future__ import annotations

import dataclasses
import json

import pytest
from chat_server import ChatServer, refuse, speak
from model_world import World, rows
from second_reader_world import TRUTH, shown, sound, told

from memoryd.changing import ledger_runs, verify
from memoryd.daemon.once import read_all, run_once
from memoryd.database import memories, reads, sqlite
from memoryd.ledger.memory import MemoryKind
from memoryd.requests import jobs_by_hand, waiting
from memoryd.running import dreaming, extraction, queueing, sleeping

pytestmark = pytest.mark.long

SAID = (
    ("user", "I prefer tea over coffee. My manager Ben lives in Bergen."),
    ("assistant", "Noted. The parser now raises ValueError on empty input, because callers rely on it."),
    ("user", "Rename the runner to nightly today, please."),
    ("assistant", "The runner is called nightly now; 31 tests of the runner pass."),
)
LATER = (
    ("user", "Actually call the runner hourly, not nightly."),
    ("assistant", "The runner is called hourly now."),
)
SUMMARY = """[SUMMARY]
### Asked
- [t3.1] Rename the runner to nightly.
### Decided
- [t2.2] The parser raises `ValueError` on empty input, because callers rely on it.
[MEMORIES]
- preference 0.90 [t1.1] I prefer tea over coffee."""
LEARNED = {
    "new": [{"content": "Prefers tea over coffee.", "category": "preference", "confidence": 0.9, "cites": ["t1.1"]}],
    "profile": {"work": {"text": "Manager Ben lives in Bergen.", "cites": ["t1.2"]}},
}


def is_sleep(request):
    return "[MEMORIES]" in request.json["messages"][0]["content"]


def serve(summary=SUMMARY, learned=LEARNED, *, joint=True, read=None):
    """A part that answers a sleep, with the facts where they are asked for, the facts alone, and a second reader."""

    def part(connection, request):
        asked = shown(request)
        text = json.dumps(learned)
        if asked is not None:
            text = "\n".join(json.dumps({"id": one["id"], "verdict": read(one)}) for one in asked)
        elif is_sleep(request):
            is_both = joint and "[FACTS]" in request.json["messages"][0]["content"]
            text = f"{summary}\n[FACTS]\n{text}" if is_both else summary
        connection.head()
        connection.send(speak(text))

    return part


@pytest.fixture
def world(tmp_path, workers):
    with ChatServer(serve()) as server:
        yield World(tmp_path, server.url, SAID, workers=workers), server


def end_session(app):
    """Read the session, end it, and queue what is due; return its id."""
    read_all(app)
    with sqlite.begin_write(app.engine) as connection:
        connection.exec_driver_sql("UPDATE session SET state = 'ended', ended_at = last_turn_at")
    (session,) = rows(app, "SELECT id FROM session WHERE parent_id IS NULL")
    sleeping.consider(app.engine, app.settings, app.clock, session["id"])
    extraction.consider(app.engine, app.settings, app.clock, session["id"])
    return session["id"]


def carry_out(app):
    """Carry out what is due; return kind, state and reason of each run in order."""
    while app.runner.run_next() is not None:
        pass
    return [tuple(row.values()) for row in rows(app, "SELECT kind, state, why FROM job_run ORDER BY kind DESC")]


def marks(app):
    return {row["consumer"]: row["seq"] for row in rows(app, "SELECT consumer, seq FROM watermark")}


def contents(app, kind):
    with sqlite.begin_read(app.engine) as connection:
        return [one.content for one in memories.read_live(connection, "demo", kind)]


def problems(app, world):
    with reads.open_reader(world.root / "state" / "memoryd.db") as reader:
        return verify.list_problems(app.settings, reader)


SERVED = [("sleep", "succeeded", None), ("facts", "skipped", "the sleep has extracted them")]


def test_the_conversation_goes_out_once_and_both_jobs_are_done(world):
    world, server = world
    with world.open() as app:
        end_session(app)
        assert carry_out(app) == SERVED
        assert len(server.requests) == 1
        for _, text in SAID:
            assert server.requests[0].prompt.count(text.partition(".")[0]) == 1
        assert contents(app, MemoryKind.FACT) == [SAID[0][1]]
        assert contents(app, MemoryKind.CORE) == [SAID[0][1]]
        assert [row["text"] for row in rows(app, "SELECT text FROM profile_section")] == [SAID[0][1]]
        assert marks(app) == {"sleep": 4, "facts": 4}
        assert "\n- The parser raises `ValueError` on empty input, because callers rely on it." in world.dailies
        (run,) = rows(app, "SELECT * FROM job_run WHERE kind = 'sleep'")
        receipt = json.loads(run["receipt"])
        assert (receipt["facts"]["facts"], receipt["memories_added"]) == ({"preference": 1}, 2)
        assert [one["verdict"] for one in json.loads(run["claims"])] == ["quoted", "kept", "quoted", "quoted", "quoted"]
        assert (run["tokens_in"], run["tokens_out"]) == (700, 60)
        assert rows(app, "SELECT run_id, tokens_in FROM spend") == [{"run_id": run["id"], "tokens_in": 700}]
        assert problems(app, world) == []
        assert extraction.ask_now(app.engine, app.clock, "demo", None) == []


def test_two_questions_send_more_than_one(world):
    world, server = world
    server.part = serve(joint=False)
    with world.open() as app:
        end_session(app)
        assert carry_out(app) == [("sleep", "succeeded", None), ("facts", "succeeded", None)]
        assert len(server.requests) == 2
        assert [one.prompt.count("My manager Ben") for one in server.requests] == [1, 1]
        assert marks(app) == {"sleep": 4, "facts": 4}
        assert contents(app, MemoryKind.FACT) == [SAID[0][1]]


def test_facts_that_were_asked_for_before_are_not_asked_for_again(world):
    world, server = world
    with world.open() as app:
        read_all(app)
        (run_id,) = extraction.ask_now(app.engine, app.clock, "demo", None)
        assert app.runner.run_next(only=run_id).state == "succeeded"
        end_session(app)
        carry_out(app)
        assert [is_sleep(one) for one in server.requests] == [False, True]
        assert "[FACTS]" not in server.requests[1].prompt


@pytest.mark.parametrize("modes", [{"facts": "propose"}, {"sleep": "propose"}, {"facts": "off"}])
def test_a_job_that_proposes_or_is_off_is_kept_apart(world, modes):
    world, server = world
    with world.open() as app:
        app.settings = app.runner.settings = dataclasses.replace(
            app.settings, modes=dataclasses.replace(app.settings.modes, **modes)
        )
        end_session(app)
        states = [state for _, state, _ in carry_out(app)]
        assert "skipped" not in states
        assert states.count("proposed") == sum(mode == "propose" for mode in modes.values())
        assert not any("[FACTS]" in one.prompt for one in server.requests)


def test_a_rollback_takes_back_what_both_wrote(world):
    world, _ = world
    with world.open() as app:
        end_session(app)
        carry_out(app)
        (run,) = rows(app, "SELECT id FROM job_run WHERE kind = 'sleep'")
        undo = waiting.request(app.engine, app.clock, "demo", ledger_runs.ROLLBACK, {"run": run["id"]})
        assert app.runner.run_next(only=undo).state == "succeeded"
        assert contents(app, MemoryKind.FACT) == contents(app, MemoryKind.CORE) == []
        assert marks(app) == {}
        assert rows(app, "SELECT * FROM profile_section") == []
        assert "parser" not in world.dailies
        assert problems(app, world) == []


@pytest.mark.parametrize("name", ["after:reply", "after:intent", "after:append", "before:rows", "after:rows"])
def test_a_crash_leaves_all_of_both_or_nothing_and_is_not_paid_for_twice(world, name):
    world, server = world

    class Stop(BaseException):
        pass

    def stop(step):
        if step == name:
            raise Stop

    with world.open() as app:
        end_session(app)
        app.runner.step = stop
        with pytest.raises(Stop):
            carry_out(app)
        with sqlite.begin_write(app.engine) as connection:
            connection.exec_driver_sql("UPDATE job_run SET owner = 'gone' WHERE state = 'running'")
    with world.open() as app:
        run_once(app)
        assert len(server.requests) == 1
        assert (marks(app), contents(app, MemoryKind.FACT)) == ({"sleep": 4, "facts": 4}, [SAID[0][1]])
        assert world.dailies.count("### Decided") == 1
        assert problems(app, world) == []


def test_facts_that_cannot_be_read_are_asked_for_by_their_own_job(world):
    world, server = world
    server.part = serve(learned="nothing of the kind")
    with world.open() as app:
        end_session(app)
        assert app.runner.run_next().state == "succeeded"
        assert marks(app) == {"sleep": 4}
        server.part = serve()
        assert app.runner.run_next().state == "succeeded"
        assert [is_sleep(one) for one in server.requests] == [True, False]


def test_a_question_in_parts_asks_for_the_facts_of_each(world):
    world, server = world
    whole = serve()
    rest = '[NOTHING]\n[FACTS]\n{"new": []}'

    def part(connection, request):
        if len(request.quoted) > 2:
            refuse("400 Bad Request", "maximum context length is 3000 tokens, you requested 9000")(connection, request)
        elif any(one == "t1" for one, _, _ in request.quoted):
            whole(connection, request)
        else:
            connection.head()
            connection.send(speak(rest))

    world.write(tuple((role, text + " And so on." * 10) for role, text in SAID))
    server.part = part
    with world.open() as app:
        end_session(app)
        assert carry_out(app) == SERVED
        pieces = [name for one in server.requests for name, _, _ in one.quoted if len(one.quoted) <= 2]
        assert sorted(set(pieces)) == ["t1", "t2", "t3", "t4"]
        assert marks(app) == {"sleep": 4, "facts": 4}
        assert len(contents(app, MemoryKind.FACT)) == 1


def test_a_second_reader_judges_the_facts_of_the_one_reply(world):
    world, server = world
    claim = "The user works under Ben of Bergen."
    learned = {"new": [{"content": claim, "category": "context", "confidence": 0.9, "cites": ["t1.2"]}]}

    def read(question):
        if question["claim"] == claim and told(question) not in TRUTH:
            is_own = any("Ben" in one["text"] for one in question["evidence"])
            return "supported" if is_own else "not-said"
        return sound(question)

    world.llm = {"verify": "model"}
    server.part = serve(learned=learned, read=read)
    with world.open() as app:
        end_session(app)
        assert carry_out(app) == SERVED
        assert contents(app, MemoryKind.FACT) == [claim]
        assert [is_sleep(one) for one in server.requests if shown(one) is None] == [True]
        (run,) = rows(app, "SELECT receipt FROM job_run WHERE kind = 'sleep'")
        assert json.loads(run["receipt"])["reader"]["questions"] >= 1


def test_a_dry_run_tells_the_size_of_the_one_question_and_asks_nothing(world):
    world, server = world
    with world.open() as app:
        read_all(app)
        settings = app.settings
    (row,) = jobs_by_hand.run_dry(settings, "sleep", settings.agents[0], jobs_by_hand.JobRequest(force=True))
    sent = sleeping.read_instructions("sleep") + sleeping.read_instructions("facts")
    assert row["state"] == "asks"
    assert row["asks"]["tokens"] > len(sent) // 5
    assert server.requests == []


def test_where_the_model_gave_no_usable_reply_the_offline_backend_answers_each(world):
    world, server = world
    world.llm = {"fallback": "offline"}
    server.part = serve(summary="no", learned="no")
    with world.open() as app:
        end_session(app)
        for _ in range(8):
            carry_out(app)
            world.time.pass_by(sleeping.timedelta(hours=2))
        assert {row[:2] for row in carry_out(app)} == {("sleep", "succeeded"), ("facts", "succeeded")}
        assert marks(app) == {"sleep": 4, "facts": 4}


def test_a_later_sleep_corrects_the_summary_and_the_days_file_and_no_dream_sees_the_old_line(world):
    world, server = world
    with world.open() as app:
        session = end_session(app)
        carry_out(app)
        world.write((*SAID, *LATER))
        server.part = serve(
            "[SUMMARY]\n### Asked\n- [t5.1] Call the runner hourly, not nightly.\n- superseded [s1] by [t5.1]: renamed",
            {"new": []},
        )
        end_session(app)
        carry_out(app)
        renamed, called = SAID[2][1], LATER[0][1]  # requests are told in the user's words
        assert f"[s1] {renamed}" in server.requests[-1].prompt
        (kept,) = rows(app, "SELECT summary FROM session_summary")
        assert "Rename the runner" not in kept["summary"]
        assert f"- {called}" in kept["summary"]
        assert f"### Asked\n- Corrected: {renamed}\n- {called}" in world.dailies
        assert world.dailies.count(f"- {renamed}") == 1  # what was written stays
        assert marks(app) == {"sleep": 6, "facts": 6}
        dream = waiting.request(app.engine, app.clock, "demo", dreaming.KIND, {})
        run = next(one for one in rows(app, "SELECT * FROM job_run") if one["id"] == dream)
        assert run["kind"] == dreaming.KIND
        app.runner.run_next(only=dream)
        seen = [text for _, _, text in server.requests[-1].quoted]
        assert any("hourly" in text for text in seen)
        assert not any("Corrected" in text or "to nightly" in text for text in seen)
        assert session
        assert queueing.list_candidates(app.engine, "demo", ended=True) == []
