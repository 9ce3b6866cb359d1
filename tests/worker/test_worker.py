"""The worker process: there when needed, gone when not, restarted once, and never chatty."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_model import TEST_EMBEDDER

import memoryd
from memoryd.errors import MemorydError, RefusedError, StateError
from memoryd.jobs.job import Ask, ModelExchange, ModelTool, QuotedPiece, Reply, ToolCall
from memoryd.llm.failure import Failure, Trouble
from memoryd.scrub.finding import Finding, ScrubbedText
from memoryd.worker import client, embedder
from memoryd.worker.__main__ import list_operations, serve
from memoryd.worker.client import LostError, Worker, WorkerError

if TYPE_CHECKING:
    from collections.abc import Iterator

CANARY = "canary-7f3a"
MINUTE = timedelta(minutes=1)
ASK = Ask(
    "sleep", "summarise", (QuotedPiece("t1", "user", "user", None, "words"),), (("summary", "old"),), text="whole"
)

# A child in which two backends exist that no release has: one that prints everywhere, one that quotes what it got.
TEST_BACKENDS = """
import sys, types
sys.path.insert(0, sys.argv.pop(1))
from memoryd.jobs.job import Reply
import memoryd.worker.__main__ as child
def noisy(ask):
    print("printed"); print("printed", file=sys.stderr); sys.__stdout__.flush()
    return Reply(text=ask.material[0].text, finish_reason="stop", backend=ask.job + str(sys.stdin.read()))
def failing(ask):
    raise LookupError(ask.material[0].text)
def unsendable(ask):
    return lambda: ask
for name, answer in (("noisy", noisy), ("failing", failing), ("unsendable", unsendable)):
    sys.modules[name] = types.SimpleNamespace(answer=answer)
    child.BACKENDS[name] = name
child.main()
"""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    with Worker(tmp_path) as made:
        yield made


@pytest.mark.usefixtures("new_children")
def test_it_counts_in_order_and_stays_for_the_next_request(worker: Worker) -> None:
    assert worker.pid is None
    assert worker.count([]) == []
    assert worker.count(["hello world", "", "\ud83d", "<|endoftext|>"]) == [2, 0, 1, 7]
    first = worker.pid
    assert worker.count([" " * 1_000_001])[0] > 0
    assert worker.pid == first


def test_large_requests_go_in_batches(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "BATCH_CHARACTERS", 10)
    texts = ["hello world"] * 3 + ["a"] * 11 + [""]
    assert worker.count(texts) == [2] * 3 + [1] * 11 + [0]


def test_threads_take_turns(worker: Worker) -> None:
    results: dict[int, list[int]] = {}

    def work(number: int) -> None:
        results[number] = worker.count(["a"] * number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: [1] * number for number in range(1, 9)}


@pytest.mark.usefixtures("new_children")
def test_a_killed_child_is_replaced(worker: Worker) -> None:
    worker.count(["a"])
    first = worker.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert worker.count(["hello world"]) == [2]
    assert worker.pid != first


def test_a_child_that_dies_again_is_an_error(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_BOOT", "import os; os.read(0, 1); os._exit(3)")
    with pytest.raises(WorkerError, match="died twice") as caught:
        worker.count([CANARY])
    assert isinstance(caught.value, StateError)
    monkeypatch.undo()
    assert worker.count(["a"]) == [1]


@pytest.mark.parametrize("answer", [b"no", b"length", b"\0\0\0\5bytes", b"\0\0\0\4N."])
def test_what_is_no_answer_is_none(worker: Worker, monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    monkeypatch.setattr(client, "_BOOT", f"import os; os.read(0, 1); os.write(0, {answer!r})")
    with pytest.raises(WorkerError, match="died twice"):
        worker.count(["a"])


def test_a_deadline_ends_a_child_that_hangs(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_BOOT", "import sys; sys.stdin.read()")
    with pytest.raises(WorkerError, match=r"not answered after 0\.2 s"):
        worker.answer(ASK, "offline", timedelta(seconds=0.2))
    assert worker.pid is None


def test_an_idle_child_is_stopped_and_a_busy_one_is_not(tmp_path: Path) -> None:
    with Worker(tmp_path, idle=MINUTE) as worker:
        worker.count(["a"])
        worker.tick(time.monotonic() + 50)
        assert worker.pid is not None
        with worker._turn:
            worker.tick(time.monotonic() + 3600)
        assert worker.pid is not None
        worker.tick(time.monotonic() + 61)
        assert worker.pid is None
        assert worker.count(["a"]) == [1]


def test_a_child_that_may_not_give_way_works_all_the_same(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under a service manager that forbids to set priorities."""
    refuse = "import os\ndef refuse(_): raise PermissionError\nos.nice = refuse\n"
    monkeypatch.setattr(client, "_BOOT", refuse + client._BOOT)
    assert worker.count(["a"]) == [1]


def test_closing_ends_what_it_was_at_work_on(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import os; os.read(0, 1); print('ready', flush=True); os.read(0, 1 << 20); os.read(0, 1)"
    monkeypatch.setattr(client, "_BOOT", script)
    ready = threading.Event()

    def drain(child: subprocess.Popen[bytes]) -> None:
        assert child.stdout is not None
        with child.stdout as pipe:
            pipe.readline()
            ready.set()
            pipe.read()

    monkeypatch.setattr(client, "_drain", drain)
    failed: list[Exception] = []

    def ask() -> None:
        try:
            worker.answer(ASK, "offline", MINUTE)
        except WorkerError as error:
            failed.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert ready.wait(30)
    worker.close()
    thread.join()
    assert "has been stopped" in str(failed[0])
    with pytest.raises(WorkerError, match="has been stopped"):
        worker.count(["a"])


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs a way to wait for a process that is no child")
def test_the_child_goes_when_its_parent_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from memoryd.worker.client import Worker\n"
        "worker = Worker(Path(sys.argv[2])); worker.count(['a']); print(worker.pid, flush=True); sys.stdin.read()"
    )
    root = str(Path(memoryd.__file__).parent.parent)
    command = [sys.executable, "-c", script, root, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        try:
            assert not wait([child], 0)
            parent.kill()
            assert wait([child], 60) == [child]
        finally:
            os.close(child)


def test_its_own_output_never_mixes_with_the_answers(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client, "_BOOT", TEST_BACKENDS)
    others = {*threading.enumerate()}
    with caplog.at_level(logging.DEBUG):
        assert worker.answer(ASK, "noisy", MINUTE) == Reply("words", "stop", "sleep")
        assert worker.count(["hello world"]) == [2]
        child = worker._child
        worker.close()
        assert child is not None
        for thread in {*threading.enumerate()} - others:
            if thread.name == "worker-output":
                thread.join()
    assert "worker wrote 16 bytes to its output" in caplog.text
    assert "printed" not in caplog.text


def test_an_error_tells_its_kind_and_place_and_no_content(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_BOOT", TEST_BACKENDS)
    ask = Ask("sleep", "", (QuotedPiece("t1", "user", "user", None, CANARY),))
    with pytest.raises(MemorydError, match="LookupError in <string> line") as caught:
        worker.answer(ask, "failing", MINUTE)
    assert CANARY not in str(caught.value)
    pid = worker.pid
    with pytest.raises(RefusedError, match="no backend named"):
        worker.answer(ASK, "nobody", MINUTE)
    assert worker.pid == pid


def test_an_answer_that_cannot_be_sent_is_an_error_and_ends_nothing(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_BOOT", TEST_BACKENDS)
    worker.count(["a"])
    pid = worker.pid
    with pytest.raises(MemorydError, match=r"Error in reduction\.py line") as caught:
        worker.answer(ASK, "unsendable", MINUTE)
    assert not isinstance(caught.value, WorkerError)
    assert (worker.count(["hello world"]), worker.pid) == ([2], pid)


def test_a_mistake_of_the_parent_is_not_taken_for_a_dead_child(worker: Worker) -> None:
    worker.count(["a"])
    pid = worker.pid
    with pytest.raises((AttributeError, pickle.PicklingError)):
        worker._ask(("count", lambda: None), MINUTE)
    assert (worker.count(["hello world"]), worker.pid) == ([2], pid)


def test_a_process_without_descriptors_left_gets_the_error_of_a_worker(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(multiprocessing, "Pipe", full)
    with pytest.raises(WorkerError, match="cannot be started: Too many open files"):
        worker.count(["a"])
    monkeypatch.undo()
    assert worker.count(["a"]) == [1]


class Harmful:
    """What runs a command where it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.path}",)


class ByName:
    """What is sent as some releases of Python send an enum."""

    def __init__(self, *named: object) -> None:
        self.named = named

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return getattr, self.named


def test_an_answer_names_no_class_but_those_of_answers(tmp_path: Path) -> None:
    failure = Failure(Trouble.BUSY, "the endpoint answered 429", 2.5, None, 0, billed=True, received=7)
    reply = Reply("text", "stop", "openai", calls=(ToolCall("1", "search", "{}"),))
    scrubbed = [None, ScrubbedText("a [REDACTED:key]", (Finding("key", 2, 9),))]
    ours, theirs = Pipe()
    with ours, theirs:
        for answer in (failure, reply, scrubbed, [b"\x04\xff", None], [1, 2]):
            theirs.send(answer)
            assert client._receive(ours) == answer
        theirs.send(RefusedError("no", "here", "do this"))
        error = client._receive(ours)
        assert (type(error), str(error)) == (RefusedError, "here: no (do this)")
        theirs.send(ByName(Trouble, "BUSY"))
        assert client._receive(ours) is Trouble.BUSY
        for wrong in (
            Harmful(tmp_path / "taken"),
            ByName(Reply, "__init__"),
            Path("x"),
            ASK,
        ):
            theirs.send(wrong)
            with pytest.raises(pickle.UnpicklingError):
                client._receive(ours)
    assert not (tmp_path / "taken").exists()


def test_the_offline_backend_answers(worker: Worker) -> None:
    reply = worker.answer(ASK, "offline", MINUTE)
    assert (reply.backend, reply.finish_reason) == ("offline", "stop")


@pytest.mark.usefixtures("new_children")
def test_nothing_is_imported_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("memoryd", "tiktoken", "json", "regex"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken over')")
    monkeypatch.chdir(tmp_path)
    with Worker(tmp_path / "state") as worker:
        assert worker.count(["hello world"]) == [2]


def test_unknown_operations_and_half_requests_end_nothing(tmp_path: Path) -> None:
    ours, theirs = Pipe()
    table = list_operations(tmp_path)
    table["count"] = lambda texts: [len(text) for text in texts]
    for request in (("fly",), ("count",), ("count", ["four"])):
        ours.send(request)
    os.write(ours.fileno(), b"\0\0\1\0half")
    answers = threading.Thread(target=serve, args=(theirs, table))
    answers.start()
    assert [type(ours.recv()) for _ in range(2)] == [MemorydError, MemorydError]
    assert ours.recv() == [4]
    ours.close()
    answers.join()
    theirs.close()


WORDS = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=20)
QUOTED = st.builds(QuotedPiece, WORDS, WORDS, WORDS, st.none() | WORDS, WORDS)
CALLS = st.lists(st.builds(ToolCall, WORDS, WORDS, WORDS), max_size=2).map(tuple)
ASKS = st.builds(
    Ask,
    WORDS,
    WORDS,
    st.lists(QUOTED, max_size=3).map(tuple),
    st.lists(st.tuples(WORDS, WORDS), max_size=3).map(tuple),
    st.lists(st.builds(ModelTool, WORDS, WORDS, WORDS), max_size=2).map(tuple),
    st.lists(st.builds(ModelExchange, WORDS, CALLS, st.lists(WORDS, max_size=2).map(tuple)), max_size=2).map(tuple),
    WORDS,
)


@given(
    ASKS, st.builds(Reply, WORDS, WORDS, WORDS, st.none() | WORDS, st.integers(0, 9), st.integers(0, 9), calls=CALLS)
)
def test_questions_and_answers_pass_unharmed(ask: Ask, reply: Reply) -> None:
    failure = Failure(Trouble.BUSY, "the endpoint answered 429", 2.5, None, 0, billed=True, received=7)
    ours, theirs = Pipe()
    with ours, theirs:
        for message in (ask, reply, failure):
            ours.send(message)
            assert theirs.recv() == message


def test_vectors_come_back_as_bytes_and_a_text_that_kills_is_asked_once(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_BOOT", TEST_EMBEDDER)
    assert worker.embed(["four", "", "\ud83d"]) == [b"\x04\xff", None, b"\x01\xff"]
    with pytest.raises(LostError):
        worker.embed(["a", "die"])
    assert worker.embed(["a"]) == [b"\x01\xff"]


@pytest.mark.skipif(not embedder.list_missing(), reason="the extra is installed")
def test_without_the_extra_a_model_is_an_error(worker: Worker) -> None:
    with pytest.raises(MemorydError, match="ModuleNotFoundError"):
        worker.embed(["a text"])


def test_the_vocabulary_of_the_model_is_the_one_it_was_taught() -> None:
    words = embedder._vocabulary().split("\n")
    assert (len(words), words[101], words[102], words[30521]) == (30523, "[CLS]", "[SEP]", "##～")  # noqa: RUF001
