"""Scanning in the worker: the library's formats, and texts that crash, hang or kill the rules."""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from secret_samples import secret

from memoryd.scrub import scan as rules
from memoryd.scrub.finding import Finding, ScrubbedText
from memoryd.scrub.policy import Policy
from memoryd.worker import client
from memoryd.worker.client import Worker, WorkerError
from memoryd.worker.scanner import SecretScanner, cache_folder, rule_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from model_world import Workers

REDACT = Policy()
TOKEN = secret("github", Random(1))

# A child whose rules fail at three words: by an error, by dying, and by never coming back.
BAD_RULES = """
import os, signal, sys
sys.path.insert(0, sys.argv.pop(1))
from memoryd.scrub import scan as rules
from memoryd.worker import scanner
import memoryd.worker.__main__ as child
whole = rules.scan
def scan(texts, policy, find_known):
    for text in texts:
        if "crash" in text:
            raise LookupError(text)
        if "die" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "stop" in text:
            os.kill(os.getpid(), signal.SIGSTOP)
        while "spin" in text:
            pass
    return whole(texts, policy, find_known)
rules.scan = scan
scanner.SECONDS_LEAST = 1.0
child.main()
"""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    with Worker(tmp_path) as made:
        yield made


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a child may take longer to start than a daemon's loop can wait."""
    for name in ("RELOAD_DEADLINE", "SCAN_PATIENCE"):
        monkeypatch.setattr(client, name, timedelta(minutes=1))


def test_it_scans_with_the_library(workers: Workers) -> None:
    texts = ["plain", f"ü {TOKEN} ü", "", "a <private>b</private>"]
    assert workers.scanning.scan(texts, REDACT) == [
        ScrubbedText("plain", ()),
        ScrubbedText("ü [REDACTED:github-pat] ü", (Finding("github-pat", 2, 2 + len(TOKEN)),)),
        ScrubbedText("", ()),
        ScrubbedText("a [REDACTED:private]", (Finding("private", 2, 22),)),
    ]
    assert workers.scanning.scan([f"x {TOKEN}"], Policy("skip")) == [
        ScrubbedText("", (Finding("github-pat", 2, 42),), dropped=True)
    ]


def test_nothing_to_look_for_needs_no_child(worker: Worker) -> None:
    assert worker.scan([TOKEN, "<private>x"], Policy("off")) == [
        ScrubbedText(TOKEN, ()),
        ScrubbedText("[REDACTED:private]", (Finding("private", 0, 10),)),
    ]
    assert worker.pid is None


def test_batches_keep_their_order(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "BATCH_CHARACTERS", 100)
    texts = [f"{number} {TOKEN}" for number in range(9)]
    assert [each.text if each else None for each in workers.scanning.scan(texts, REDACT)] == [
        f"{number} [REDACTED:github-pat]" for number in range(9)
    ]


def test_a_url_of_the_documentation_is_no_secret(workers: Workers) -> None:
    text = "postgres://user:pass@localhost/db"
    assert workers.scanning.scan([text], REDACT) == [ScrubbedText(text, ())]


def test_a_lone_surrogate_passes(workers: Workers) -> None:
    assert workers.scanning.scan([f"\ud83d {TOKEN}"], REDACT)[0] == ScrubbedText(
        "\ud83d [REDACTED:github-pat]", (Finding("github-pat", 2, 42),)
    )


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("bad", ["crash", "die", "spin"])
def test_a_text_that_cannot_be_scanned_harms_no_other(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    monkeypatch.setattr(client, "_BOOT", BAD_RULES)
    results = worker.scan([f"a {TOKEN}", f"b {bad}", "c"], REDACT)
    assert [result is None for result in results] == [False, True, False]
    assert results[0] is not None
    assert results[0].text == "a [REDACTED:github-pat]"


@pytest.mark.usefixtures("patient")
def test_a_child_that_hangs_is_killed_and_only_its_text_is_lost(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_BOOT", BAD_RULES)
    monkeypatch.setattr(client, "SCAN_DEADLINE", timedelta(seconds=2))
    assert worker.scan(["a", "stop"], REDACT)[1] is None
    monkeypatch.setattr(client, "SCAN_DEADLINE", timedelta(seconds=60))
    assert worker.scan(["a"], REDACT) == [ScrubbedText("a", ())]


def test_rules_that_cannot_be_loaded_are_asked_for_once_and_no_text_is_blamed(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_BOOT", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    asked: list[int] = []
    whole = worker._ask_once

    def counting(request: Any, deadline: timedelta) -> Any:
        asked.append(len(request[1]))
        return whole(request, deadline)

    monkeypatch.setattr(worker, "_ask_once", counting)
    with pytest.raises(WorkerError, match="cannot be loaded"):
        worker.scan([f"text {number}" for number in range(8)], REDACT)
    assert asked == [0, 0]


class Slow:
    """Stands for a child that never comes back from texts with a word, on a clock of its own."""

    def __init__(self, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.asked: list[list[str]] = []
        self.told: list[float] = []
        monkeypatch.setattr(client.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(worker, "_ask", self.ask)
        self.worker = worker

    def ask(self, request: Any, deadline: timedelta, *, again: bool = True) -> Any:
        del again
        texts = request[1]
        self.asked.append(texts)
        if any("hang" in text for text in texts):
            self.now += deadline.total_seconds()
            raise client.LostError("late")
        return len(texts), {}

    def scan(self, texts: list[str]) -> list[bool]:
        return [one is None for one in self.worker.scan(texts, REDACT, lambda: self.told.append(self.now))]


def test_one_text_that_hangs_is_found_within_the_patience_of_one_call(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(worker, monkeypatch)
    texts = [f"text {number}" for number in range(4000)]
    texts[1234] = "hang"
    assert [place for place, lost in enumerate(slow.scan(texts)) if lost] == [1234]
    assert slow.now <= client.SCAN_PATIENCE.total_seconds()


def test_texts_that_hang_hold_their_caller_for_a_bounded_time_and_the_others_get_through(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(worker, monkeypatch)
    texts = [f"{'hang' if number % 300 == 5 else 'text'} {number}" for number in range(2000)]
    bad = sum("hang" in text for text in texts)
    most = (client.SCAN_PATIENCE + client.SCAN_DEADLINE + client.SCAN_DEADLINE_PER_MB).total_seconds()
    waiting, calls = texts, 0
    while len(waiting) > bad:
        slow.told, begun = [slow.now], slow.now
        waiting = [text for text, lost in zip(waiting, slow.scan(waiting), strict=True) if lost]
        gaps = [later - earlier for earlier, later in pairwise(slow.told)]
        assert max(gaps) <= (client.SCAN_DEADLINE + client.SCAN_DEADLINE_PER_MB).total_seconds()
        assert slow.now - begun <= most
        calls += 1
        assert calls <= bad, len(waiting)
    assert all("hang" in text for text in waiting)
    slow.asked.clear()
    found = dict(zip(["new", *waiting, "newer"], slow.scan(["new", *waiting, "newer"]), strict=True))
    assert (found["new"], found["newer"]) == (False, False)
    assert ["new", "newer"] in slow.asked
    monkeypatch.setattr(worker, "_ask", lambda request, *_, **__: (len(request[1]), {}))
    worker.scan(waiting, REDACT)
    assert worker._sizes == {}


@pytest.mark.usefixtures("patient")
@pytest.mark.usefixtures("new_children")
def test_a_child_killed_from_outside_costs_nothing(worker: Worker) -> None:
    worker.scan(["a"], REDACT)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    assert worker.scan(["b", TOKEN], REDACT)[0] == ScrubbedText("b", ())


@pytest.mark.usefixtures("new_children")
def test_a_worker_that_cannot_be_started_is_an_error_of_all(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(WorkerError):
        worker.scan(["a"], REDACT)


def test_rules_that_fail_are_caught_in_the_process_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rules.scan

    def failing(texts: list[str], policy: Policy, known: rules.FindKnown) -> list[ScrubbedText]:
        if "crash" in texts:
            raise LookupError
        return whole(texts, policy, known)

    monkeypatch.setattr(rules, "scan", failing)
    scanner = SecretScanner(tmp_path)
    assert scanner.scan(["a", "crash", "b"], Policy("off", pii="mask")) is None
    assert scanner.scan(["a", "b"], Policy("off", pii="mask")) == (2, {})


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("betterleaks.github-pat", "github-pat"),
        ("veles.secrets/gcpsak", "gcpsak"),
        ("betterleaks.1password-secret-key", "key-1password-secret-key"),
        ("kingfisher.aws.2", "aws-2"),
        ("", "key"),
    ],
)
def test_the_librarys_rules_have_short_names(theirs: str, ours: str) -> None:
    assert rule_name(theirs) == ours


def test_compiled_rules_are_shared_where_the_users_cache_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache_folder(tmp_path / "state") == tmp_path / "cache" / "memoryd" / "secret-rules"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert cache_folder(tmp_path / "state") == tmp_path / "state" / "secret-rules"
