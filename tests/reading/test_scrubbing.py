"""The second scan: what goes to a model, into a file or into a row holds no secret, or nothing goes there."""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any

import pytest
from chat_server import ChatServer, good, sensible, speak
from ingest_world import OwnRules
from model_world import VARIABLE, World, queue, rows, the_run
from planted_secrets import planted

from memoryd.config import ScrubSettings, Settings
from memoryd.files.log import get_logger
from memoryd.jobs import sleep
from memoryd.jobs.job import AddMemories, AppendDaily, Done, KeepSummary
from memoryd.llm.circuit import Circuit
from memoryd.reading.scrubbing import Scrubber, SecretError, UnscannedError, hash_name, strings_of, with_strings
from memoryd.worker.client import WorkerError
from memoryd.worker.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chat_server import Connection, Request

SECRET = next(one for one in planted("second scan") if one.name == "github-classic").secret


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv(VARIABLE, "a-key")
    with ChatServer(good) as running:
        yield running


@pytest.fixture
def world(tmp_path, server, workers):
    return World(tmp_path / "world", server.url, workers=workers)


def opened(world: World) -> Any:
    app = world.open()
    app.runner.scrubber._scanner = app.ingest.scrubber._scanner = OwnRules()
    return app


def check_nothing_happened(world: World, app: Any) -> None:
    run = the_run(app)
    assert run["state"] == "blocked"
    assert "secret" in run["why"]
    assert SECRET not in str(run)
    (alarm,) = rows(app, "SELECT * FROM alarm WHERE cleared_at IS NULL")
    assert (alarm["kind"], alarm["agent_id"]) == ("secret", "demo")
    assert SECRET not in str(alarm)
    assert world.dailies == ""
    assert not (world.workspace / "MEMORY.md").exists()
    assert rows(app, "SELECT * FROM watermark") == rows(app, "SELECT * FROM memory") == []
    assert rows(app, "SELECT * FROM session_summary") == []


# --- what is sent -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["openai", "offline"])
@pytest.mark.parametrize("where", ["material", "context", "instructions"])
def test_a_question_with_a_secret_is_not_asked(world, server, monkeypatch, provider, where):
    real = sleep._question

    def question(*given: Any) -> Any:
        ask = real(*given)
        changed: dict[str, Any] = {
            "material": (*ask.material[:-1], dataclasses.replace(ask.material[-1], text=f"it is {SECRET}")),
            "context": (*ask.context, ("known", f"- it is {SECRET}")),
            "instructions": f"{ask.instructions}\n{SECRET}",
        }
        return dataclasses.replace(ask, **{where: changed[where]})

    monkeypatch.setattr(sleep, "_question", question)
    world.llm["provider"] = provider
    with opened(world) as app:
        queue(app)
        app.runner.run_next()
        check_nothing_happened(world, app)
        assert rows(app, "SELECT * FROM spend") == []
        monkeypatch.setattr(sleep, "_question", real)
        app.runner.answerer.renew()
        assert app.runner.run_next().state == "succeeded"
        assert rows(app, "SELECT * FROM alarm WHERE cleared_at IS NULL") == []
    assert SECRET.encode() not in server.everything
    assert len(server.requests) == (provider == "openai")


def test_what_a_person_keeps_in_a_file_stays_there_and_is_not_sent(world, server):
    core = world.workspace / "MEMORY.md"
    core.write_text(f"# Mine\n\n- the key of the shop is {SECRET}\n")
    with opened(world) as app:
        queue(app)
        assert app.runner.run_next().state == "succeeded"
    assert f"- the key of the shop is {SECRET}\n" in core.read_text()
    assert server.requests
    assert SECRET.encode() not in server.everything


def test_an_end_of_the_process_is_no_failure_of_the_endpoint(world, server):
    with opened(world) as app:
        queue(app)
        closed = Pool(lambda: pytest.fail("a worker is made"))
        closed.close()
        app.runner.answerer.models = closed
        app.runner.run_next()
        assert the_run(app)["state"] == "interrupted"
        assert set(app.runner.answerer.circuits.values()) == {Circuit()}


# --- what is written --------------------------------------------------------------------------------------------------


def spoilt(step: Done, what: str) -> Done:
    """The same decision, with a secret in one of its texts."""
    edits: list[Any] = []
    for edit in step.edits:
        match edit:
            case AppendDaily() if what == "daily":
                edits.append(dataclasses.replace(edit, body=f"{edit.body}\n- {SECRET}"))
            case AddMemories() if what == "core":
                edits.append(AddMemories((dataclasses.replace(edit.memories[0], text=f"It is {SECRET}"),)))
            case KeepSummary() if what == "summary":
                edits.append(dataclasses.replace(edit, summary=f"{edit.summary} {SECRET}"))
            case KeepSummary() if what == "messages":
                last = dataclasses.replace(edit.messages[-1], text=SECRET)
                edits.append(dataclasses.replace(edit, messages=(*edit.messages[:-1], last)))
            case _:
                edits.append(edit)
    receipt = {**step.receipt, "save": {"note": [SECRET]}} if what == "receipt" else step.receipt
    return Done(tuple(edits), receipt)


def test_a_receipt_with_a_secret_is_not_written(world, monkeypatch):
    real = sleep._save_result
    monkeypatch.setattr(sleep, "_save_result", lambda *given, **more: spoilt(real(*given, **more), "receipt"))
    with opened(world) as app:
        queue(app)
        app.runner.run_next()
        check_nothing_happened(world, app)


@pytest.mark.parametrize("what", ["daily", "core", "summary", "messages"])
def test_a_secret_in_what_a_run_writes_is_redacted_and_the_rest_is_written(world, monkeypatch, what):
    real = sleep._save_result
    monkeypatch.setattr(sleep, "_save_result", lambda *given, **more: spoilt(real(*given, **more), what))
    with opened(world) as app:
        queue(app)
        app.runner.run_next()
        assert the_run(app)["state"] == "succeeded"
        assert rows(app, "SELECT 1 FROM session_summary")
    assert list(world.workspace.glob("memory/2*.md"))
    written = [path.read_bytes() for path in world.root.rglob("*") if path.is_file() and "sessions" not in path.parts]
    assert not any(SECRET.encode() in one for one in written)


def test_a_secret_in_a_reply_is_redacted_before_it_is_kept(world, server):
    def part(connection: Connection, request: Request) -> None:
        said = sensible(request).splitlines()
        connection.head()
        connection.send(speak("\n".join([f"{line} {SECRET}" if line.startswith("- ") else line for line in said])))

    server.part = part
    kept = []
    with opened(world) as app:
        queue(app)
        app.runner.step = lambda name: (
            kept.extend(row["reply"] for row in rows(app, "SELECT reply FROM job_run"))
            if name == "after:reply"
            else None
        )
        app.runner.run_next()
        assert SECRET not in str(rows(app, "SELECT * FROM job_run"))
    assert kept
    assert SECRET not in str(kept)
    assert "[REDACTED:" in str(kept)
    assert SECRET.encode() not in world.everything_written()


# --- the scrubber itself ----------------------------------------------------------------------------------------------


class Scanner(OwnRules):
    """The real rules; what holds a word cannot be scanned."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.meanwhile: Callable[[], object] = lambda: None
        self.gone = False

    def scan(self, texts: Sequence[str], policy: Any, progress: Any = lambda: None) -> list[Any]:
        self.calls.append(list(texts))
        self.meanwhile()
        if self.gone:
            raise WorkerError("cannot be started")
        found = super().scan(texts, policy, progress)
        return [None if "unscannable" in text else one for text, one in zip(texts, found, strict=True)]


@pytest.fixture
def scanner():
    return Scanner()


@pytest.fixture
def scrubber(scanner):
    return Scrubber(scanner, get_logger("memoryd.test"))


def policy(tmp_path: Any, **scrub: Any) -> Settings:
    return Settings(state_dir=tmp_path, agents=(), scrub=ScrubSettings(**scrub))


def test_a_clean_text_passes_and_a_redacted_one_too(scrubber):
    (redacted,) = scrubber.redact([f"use {SECRET}"])
    scrubber.require_clean(["all is well", "", redacted], "a test")


def test_the_error_names_rule_and_place_and_not_the_secret(scrubber):
    with pytest.raises(SecretError) as caught:
        scrubber.require_clean(["fine", f"use {SECRET}"], "the question of run r")
    assert caught.value.where == "the question of run r"
    assert "git" in caught.value.what
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("gone", [True, False])
def test_what_cannot_be_scanned_is_not_let_through(scrubber, scanner, gone):
    scanner.gone = gone
    with pytest.raises(UnscannedError):
        scrubber.require_clean(["unscannable"], "a test")
    with pytest.raises(UnscannedError):
        scrubber.redact(["unscannable"])
    with pytest.raises(UnscannedError):
        scrubber.name("unscannable-name-1")
    assert scrubber.scan(["unscannable"]) == [None]
    assert scrubber.begin(["unscannable"]).result() == ([None], {})


def test_names_that_were_scanned_beside_texts_are_known(scrubber, scanner):
    _, names = scrubber.begin(["a"], ["/srv/shop.2", f"id-{SECRET}"]).result()
    assert names == {"/srv/shop.2": "/srv/shop.2", f"id-{SECRET}": hash_name(f"id-{SECRET}")}
    asked = len(scanner.calls)
    assert scrubber.names(names) == names
    assert len(scanner.calls) == asked


def test_a_name_is_asked_for_once_and_an_ordinary_id_never(scrubber, scanner):
    names = [
        "0b5c0a1e-0000-4000-8000-000000000001",
        "0b5c0a1e-0000-4000-8000-000000000001/agent-a0b1c2d3e4f506172",
        "toolu_01AbCdEfGhIjKlMnOpQrSt",
        "Bash",
        "/srv/shop/front-end",
        f"id-{SECRET}",
        f"/srv/{SECRET}",
        "/srv/abcd-efgh-ijkl-mnop",
    ]
    first = scrubber.names(names)
    assert first == {name: hash_name(name) if SECRET in name else name for name in names}
    assert sorted(scanner.calls[0]) == sorted(names[5:])
    assert scrubber.names(names) == first
    assert len(scanner.calls) == 1


def test_a_text_is_redacted_once_and_its_secret_each_time(scrubber, scanner, tmp_path):
    texts = ["a bullet", f"use {SECRET}", "a bullet", "another"]
    first = scrubber.redact(texts)
    assert [SECRET in text for text in first] == [False] * 4
    assert first[0] == first[2] == "a bullet"
    assert scrubber.redact([*texts, "a new one"]) == [*first, "a new one"]
    assert scanner.calls == [["a bullet", f"use {SECRET}", "another"], [f"use {SECRET}", "a new one"]]
    scrubber.require_clean(["a bullet"], "a test")
    assert scanner.calls[2:] == [["a bullet"]], "an assertion goes by no word of before"


def test_a_long_clean_text_is_scanned_once_and_short_or_secret_texts_each_time(scrubber, scanner, tmp_path):
    long, short, secret = "a line of a log " * 20, "yes", f"use {SECRET} " + "and go on " * 20
    first = scrubber.scan([long, short, secret, long])
    assert [text is not None and SECRET in text.text for text in first] == [False] * 4
    assert first[0] == first[3]
    assert scrubber.scan([long, short, secret]) == first[:3]
    assert scanner.calls == [[long, short, secret], [short, secret]]
    scrubber.configure(policy(tmp_path, pii="mask"))
    scrubber.scan([long])
    assert scanner.calls[2:] == [[long]]


def test_what_was_clean_by_the_old_policy_is_scanned_by_the_new_one(scrubber, scanner, tmp_path):
    scrubber.configure(policy(tmp_path, secrets="off"))
    scanner.meanwhile = lambda: scrubber.configure(policy(tmp_path))
    assert scrubber.redact([SECRET]) == [SECRET]
    assert SECRET not in scrubber.redact([SECRET])[0]


def test_a_new_policy_asks_again(scrubber, scanner, tmp_path):
    scrubber.configure(policy(tmp_path, secrets="off"))
    assert scrubber.name(f"id-{SECRET}") == f"id-{SECRET}"
    scrubber.configure(policy(tmp_path))
    assert scrubber.name(f"id-{SECRET}") == hash_name(f"id-{SECRET}")


def test_an_answer_by_the_old_policy_does_not_outlive_it(scrubber, scanner, tmp_path):
    scrubber.configure(policy(tmp_path, secrets="off"))
    scanner.meanwhile = lambda: scrubber.configure(policy(tmp_path))
    assert scrubber.name(f"id-{SECRET}") == f"id-{SECRET}"
    assert scrubber.name(f"id-{SECRET}") == hash_name(f"id-{SECRET}")


def test_who_waits_for_a_scan_is_told_of_its_parts_on_his_own_thread(scrubber, scanner):
    threads = []
    found, _ = scrubber.begin(["a"]).result(lambda: threads.append(threading.current_thread()))
    assert [one.text for one in found] == ["a"]
    assert threads == [threading.current_thread()]
    scanner.meanwhile = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        scrubber.begin(["a"]).result()


def test_with_the_policy_to_skip_what_goes_out_is_still_asserted(scrubber, tmp_path):
    scrubber.configure(policy(tmp_path, secrets="skip"))
    (dropped,) = scrubber.scan([f"use {SECRET}"])
    assert (dropped.text, dropped.dropped) == ("", True)
    assert scrubber.redact([f"use {SECRET}"])[0].startswith("use [REDACTED:")
    with pytest.raises(SecretError):
        scrubber.require_clean([SECRET], "a test")


def test_a_path_is_masked_where_the_secret_is(scrubber):
    assert scrubber.redact_path("/srv/shop/a.jsonl") == "/srv/shop/a.jsonl"
    masked = scrubber.redact_path(f"/srv/{SECRET}/a.jsonl")
    assert masked.startswith("/srv/[REDACTED:")
    assert masked.endswith("]/a.jsonl")


def test_strings_of_a_value():
    value = {"a": ["x", {"b": "y"}], "n": 1, "z": None}
    assert strings_of(value) == ["a", "x", "b", "y", "n", "z"]
    assert with_strings(value, str.upper) == {"A": ["X", {"B": "Y"}], "N": 1, "Z": None}
    assert with_strings({"a": 1, "b": 2}, lambda _: "x") == {"x": 1, "x~": 2}


def test_what_an_older_policy_has_said_of_a_name_is_not_kept(tmp_path):
    off, redact = (
        Settings(state_dir=tmp_path, agents=(), scrub=ScrubSettings(secrets=how)) for how in ("off", "redact")
    )

    class Slow(OwnRules):
        """The policy is changed while it scans."""

        def scan(self, texts: Sequence[str], policy: Any, progress: Any = None) -> list[Any]:
            found = super().scan(texts, policy, progress)
            scrubber.configure(redact)
            return found

    scrubber = Scrubber(Slow(), get_logger("memoryd.test"))
    scrubber.configure(off)
    assert scrubber.name(f"id {SECRET}") == f"id {SECRET}"
    assert scrubber.name(f"id {SECRET}") == hash_name(f"id {SECRET}")
