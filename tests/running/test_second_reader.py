"""The second reader of runs: tested before it is believed, asked once for a question, and never in the way of a run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

import pytest
from chat_server import ChatServer
from click.testing import CliRunner
from model_world import World, queue, rows, the_run
from second_reader_world import CALIBRATION, QUESTIONS, Model, credulous, last_label, sound

from memoryd.changing import commit as committing
from memoryd.changing import forgetting, plan
from memoryd.database import reads, runs
from memoryd.interfaces import cli, doctor
from memoryd.interfaces.output import render
from memoryd.interfaces.status_view import list_parts
from memoryd.jobs import reader
from memoryd.jobs.job import AppendDaily, Ask, Done, MoveWatermark, QuotedPiece, RejectedReply, Reply
from memoryd.requests import status, waiting
from memoryd.running import deciding
from memoryd.running.second_reader import ALARM
from memoryd.running.sleeping import read_instructions

SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7h8"


# --- a job ------------------------------------------------------------------------------------------------------------


@dataclass
class Job:
    """Asks its author once, then a second reader about each question that has no known answer."""

    claims: tuple = ()
    rejects: bool = False
    known: list = field(default_factory=list)
    decided: int = 0

    def gather(self, source, run):
        return {"known": source.known, "session": run.session_id, "day": date(2026, 5, 4)}

    def decide(self, inputs):
        yield Ask("sleep", "Write.", (QuotedPiece("t1", "user", "user", None, "Always run the linter."),))
        found = {one.key: inputs["known"](one.key) for one in QUESTIONS}
        answers = {key: one for key, one in found.items() if one is not None}
        self.known.append(len(answers))
        for batch in reader.make_batches([one for one in QUESTIONS if one.key not in answers]):
            answer = yield batch.ask(read_instructions("verify"))
            if answer.backend == reader.UNREAD:
                break
            answers |= reader.read(batch, answer).answers
        return self.end(inputs, answers)

    def end(self, inputs, answers):
        self.decided += 1
        if self.rejects:
            return RejectedReply("a claim is refused")
        verdicts = {key: one.verdict for key, one in answers.items()}
        body = "\n".join(f"- {one.claim}" for one in QUESTIONS if verdicts.get(one.key) == "supported") or "- nothing"
        edits = (AppendDaily(inputs["day"], "Notes", "12:00", body), MoveWatermark(inputs["session"], "sleep", 4))
        told = {"verdicts": sorted(verdicts.values())}
        return Done(edits, told, claims=self.claims, decide_again=lambda fresh: self.end(fresh, answers))

    def kind(self, **more):
        return deciding.JobKind(self.gather, self.decide, lambda replies: replies[0], **more)


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def world(tmp_path, workers, model):
    with ChatServer(model) as server:
        yield World(tmp_path, server.url, workers=workers, llm={"verify": "model"})


@pytest.fixture
def job(monkeypatch):
    made = Job()
    monkeypatch.setitem(deciding.KINDS, "sleep", made.kind())
    return made


def run_once(app):
    queue(app)
    app.runner.run_next()
    (last, *_) = rows(app, "SELECT * FROM job_run ORDER BY rowid DESC")
    return last | {"receipt": json.loads(last["receipt"])}


def status_of(app):
    with reads.open_reader(app.settings.state_dir / "memoryd.db") as opened:
        return status.status(app.settings, opened, everything=False, live={})


# --- fitness ----------------------------------------------------------------------------------------------------------


def test_a_fit_reader_is_tested_once_and_believed(world, model, job):
    with world.open() as app:
        run = run_once(app)
        (found,) = status_of(app)["readers"]
        checks = [one.text for one in doctor._model(app.settings, world.time.at) if one.name == "reader"]
        text = render(list_parts(status_of(app)))
    assert run["state"] == "succeeded"
    assert run["receipt"]["verdicts"] == ["supported", "supported"]
    assert "- Marvin hosts the database." in world.dailies
    trues = sum(one["verdict"] in reader.POSITIVE for one in CALIBRATION)
    counts = (found["true_right"], found["true_asked"], found["false_right"], found["false_asked"])
    assert counts == (trues, trues, len(CALIBRATION) - trues, len(CALIBRATION) - trues)
    assert (found["fit"], found["model"], found["agents"]) == (True, "tiny-1", ["demo"])
    assert f"second reader: tiny-1 fit: {trues}/{trues} true, " in text
    assert len(checks) == 1
    assert len(model.verified) == len(model.tests) + 1
    told = run["receipt"]["reader"]
    assert (told["questions"], told["batches"], told["fooled"], told["unread"]) == (2, 1, 0, 0)
    assert told["tokens_in"] > 0
    assert told["test"]["tokens_in"] == told["tokens_in"] * len(model.tests)
    # What the report tells of is the author's reply.
    assert run["receipt"]["reply"]["characters"] == len("what the author writes")


def test_the_same_question_is_asked_once_across_runs(world, model, job):
    with world.open() as app:
        run_once(app)
        asked = len(model.verified)
        world.write((*world.said, ("user", "Also name the release after the river Elbe.")))
        run = run_once(app)
    assert len(model.author) == 2
    assert len(model.verified) == asked
    assert job.known == [0, 2]
    assert run["receipt"]["verdicts"] == ["supported", "supported"]
    assert "reader" not in run["receipt"]


@pytest.mark.long
@pytest.mark.parametrize("judge", [credulous, last_label])
def test_an_unfit_reader_is_not_believed_and_tested_again_after_a_day(world, model, job, judge):
    model.judge = judge
    with world.open() as app:
        run = run_once(app)
        assert run["state"] == "succeeded"
        assert run["receipt"]["verdicts"] == []
        assert run["receipt"]["reader"]["unread"] == 2
        tests = len(model.tests)
        assert len(model.verified) == tests
        (alarm,) = rows(app, "SELECT * FROM alarm WHERE cleared_at IS NULL")
        assert (alarm["kind"], alarm["agent_id"]) == (ALARM, "demo")
        assert "MEMORY.md takes only quotations" in alarm["text"]
        assert "tiny-1 unfit: " in render(list_parts(status_of(app)))
        world.write((*world.said, ("user", "Also name the release after the river Elbe.")))
        run_once(app)
        assert len(model.verified) == tests
        world.time.pass_by(timedelta(days=1))
        model.judge = sound
        world.write((*world.said, ("user", "Also name the release after the river Elbe."), ("user", "And the Oder.")))
        run = run_once(app)
        assert len(model.verified) == 2 * tests + 1
        assert run["receipt"]["verdicts"] == ["supported", "supported"]
        assert rows(app, "SELECT * FROM alarm WHERE cleared_at IS NULL") == []


def test_another_version_of_the_prompt_is_tested_anew(world, model, job, monkeypatch):
    with world.open() as app:
        run_once(app)
        tests = len(model.tests)
        monkeypatch.setattr("memoryd.running.second_reader.compute_version", lambda: "another")
        world.write((*world.said, ("user", "Also name the release after the river Elbe.")))
        run_once(app)
        assert len(model.tests) == 2 * tests
        assert len(rows(app, "SELECT * FROM reader")) == 1


@pytest.mark.parametrize("llm", [{"verify": "off"}, {"provider": "offline"}])
def test_without_a_reader_nothing_is_asked(world, model, job, llm):
    world.llm |= llm
    with world.open() as app:
        run = run_once(app)
        assert status_of(app)["readers"] == []
    assert run["state"] == "succeeded"
    assert run["receipt"]["verdicts"] == []
    assert model.verified == []


def test_the_verifier_reads(world, model, job):
    world.llm |= {"verifier": "reader-7"}
    with world.open() as app:
        run_once(app)
        (found,) = status_of(app)["readers"]
    assert {one.json["model"] for one in model.author} == {"tiny-1"}
    assert {one.json["model"] for one in model.verified} == {"reader-7"}
    assert found["model"] == "reader-7"


def test_a_batch_whose_decoy_is_supported_is_counted_and_not_stored(world, model, job):
    mine = {one.claim for one in QUESTIONS}
    model.judge = lambda question: "supported" if question["claim"] in mine else sound(question)
    with world.open() as app:
        run = run_once(app)
        assert rows(app, "SELECT * FROM verdict") == []
    assert run["receipt"]["reader"]["fooled"] == 1
    assert run["receipt"]["reader"]["unread"] == 2
    assert run["receipt"]["verdicts"] == []


# --- a reader that cannot be asked ------------------------------------------------------------------------------------


def test_a_reader_that_is_down_is_asked_later_and_the_author_paid_once(world, model, job):
    model.down = True
    with world.open() as app:
        assert run_once(app)["state"] == "queued"
        assert rows(app, "SELECT * FROM reader") == []
        model.down = False
        world.time.pass_by(timedelta(hours=2))
        app.runner.run_next()
        assert the_run(app)["state"] == "succeeded"
    assert len(model.author) == 1
    assert "- Marvin hosts the database." in world.dailies


def test_a_reader_that_stays_down_is_passed_over_where_the_offline_backend_may_step_in(world, model, job):
    model.down = True
    world.llm |= {"fallback": "offline"}
    with world.open() as app:
        run_once(app)
        world.time.pass_by(timedelta(hours=2))
        app.runner.run_next()
        run = the_run(app)
        assert run["state"] == "succeeded"
        assert rows(app, "SELECT * FROM reader") == []
    receipt = json.loads(run["receipt"])
    assert (receipt["verdicts"], receipt["backend"]) == ([], "openai")
    assert "fallback" not in receipt
    assert len(model.author) == 1


def test_a_run_that_may_spend_no_more_goes_on_without_the_reader(world, model, job):
    world.llm |= {"run_tokens": 6_000, "max_output_tokens": 4_000, "fallback": "wait"}
    with world.open() as app:
        run = run_once(app)
    assert run["state"] == "succeeded"
    assert run["receipt"]["verdicts"] == []
    assert "fallback" not in run["receipt"]


def test_a_reply_that_is_rejected_for_its_claims_is_asked_for_again(world, model, job):
    job.rejects = True
    with world.open() as app:
        assert run_once(app)["state"] == "queued"
        job.rejects = False
        world.time.pass_by(timedelta(hours=2))
        app.runner.run_next()
        assert the_run(app)["state"] == "succeeded"
    assert len(model.author) == 2


def test_a_job_that_decides_anew_asks_nothing_anew(world, model, job, monkeypatch):
    monkeypatch.setitem(deciding.KINDS, "sleep", job.kind(again=lambda _source, _run, inputs: inputs))
    commit, seen = committing.commit, []

    def once_outdated(*given, **more):
        seen.append(1)
        if len(seen) == 1:
            raise plan.OutdatedError("MEMORY.md was edited meanwhile")
        return commit(*given, **more)

    monkeypatch.setattr(committing, "commit", once_outdated)
    with world.open() as app:
        run = run_once(app)
    assert run["state"] == "succeeded"
    assert (len(seen), job.decided, len(model.author)) == (2, 2, 1)
    assert run["receipt"]["verdicts"] == ["supported", "supported"]
    assert run["receipt"]["reader"]["questions"] == 2


def test_refused_claims_go_back_to_their_author(world, model, job, monkeypatch):
    def decide(inputs):
        material = (QuotedPiece("t1", "user", "user", None, "Always run the linter."),)
        yield Ask("sleep", "Write.", material)
        answer = yield Ask("repair", "Word these anew.", material)
        assert answer.text == "what the author writes"
        return Done((MoveWatermark(inputs["session"], "sleep", 4),))

    monkeypatch.setitem(deciding.KINDS, "sleep", replace(job.kind(), decide=decide))
    with world.open() as app:
        run = run_once(app)
    assert run["state"] == "succeeded"
    assert run["receipt"]["repair"]["questions"] == 1
    assert run["receipt"]["repair"]["tokens_in"] > 0
    assert len(model.author) == 2


# --- claims -----------------------------------------------------------------------------------------------------------

CLAIM = {
    "claim": f"The token is {SECRET} on Marvin.", "cites": ["t3.1"], "verdict": "refused", "why": "nobody said that",
    "step": "reader", "repaired": False,
}  # fmt: skip


def show(world, *more):
    done = CliRunner().invoke(cli.cli, ["--config", str(world.root / "memoryd.yaml"), *more])
    assert done.exit_code == 0, done.output
    return done.output


def test_claims_are_stored_without_secrets_and_shown_to_who_may_see_content(world, job, monkeypatch):
    job.claims = (CLAIM,)
    with world.open() as app:
        run = run_once(app)
    (stored,) = json.loads(run["claims"])
    assert SECRET not in world.everything_written().decode(errors="replace")
    assert stored == CLAIM | {"claim": stored["claim"]}
    assert "on Marvin." in stored["claim"]
    shown = json.loads(show(world, "--json", "job", "show", run["id"]))["data"]
    assert shown["claims"] == [stored]
    assert "on Marvin." not in show(world, "job", "show", run["id"])
    assert "refused 1" in show(world, "job", "show", run["id"])
    assert "on Marvin. [t3.1]: nobody said that" in show(world, "job", "show", run["id"], "--content")
    monkeypatch.setattr("memoryd.requests.access.may_read", lambda *_: False)
    blind = json.loads(show(world, "--json", "job", "show", run["id"]))["data"]
    assert blind["claims"] == {"refused": 1}


def test_forgetting_a_session_erases_the_claims_and_the_verdicts(world, job):
    job.claims = (CLAIM,)
    with world.open() as app:
        run = run_once(app)
        assert rows(app, "SELECT count(*) AS n FROM verdict") == [{"n": 2}]
        with app.engine.begin() as connection:  # as of a dream, which is of no session
            connection.exec_driver_sql(
                "INSERT INTO job_run (id, kind, agent_id, actor, trigger, state, options, created_at, scheduled_for,"
                " attempt, fence, cancel_requested, tokens_in, tokens_out, receipt, claims)"
                " VALUES ('d', 'dream', 'demo', 'memoryd', 'manual', 'succeeded', '{}', '2026', '2026', 1, 1, 0, 0, 0,"
                " '{}', '[]')"
            )
        forget = waiting.request(app.engine, app.clock, "demo", forgetting.KIND, {"session": run["session_id"]})
        app.runner.run_next(only=forget)
        assert rows(app, "SELECT state FROM job_run WHERE id = ?", forget) == [{"state": "succeeded"}]
        assert rows(app, "SELECT count(*) AS n FROM job_run WHERE claims IS NOT NULL") == [{"n": 0}]
        assert rows(app, "SELECT count(*) AS n FROM verdict") == [{"n": 0}]


def test_old_claims_and_verdicts_are_deleted(world, job):
    job.claims = (CLAIM,)
    with world.open() as app:
        run_once(app)
        world.time.pass_by(timedelta(seconds=1))
        with app.engine.begin() as connection:
            runs.prune(connection, app.clock.text())
        assert the_run(app)["claims"] is None
        assert rows(app, "SELECT * FROM verdict") == []


def test_a_reply_that_stands_in_for_the_reader_is_not_kept(world, model, job):
    model.down = True
    with world.open() as app:
        run_once(app)
        kept = runs.given_text(app.engine, runs.get_run(app.engine, the_run(app)["id"]))
    assert len(json.loads(kept)) == 1
    assert Reply("", "stop", reader.UNREAD).backend not in kept
