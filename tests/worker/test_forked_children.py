"""The forks that tests use as a worker's children answer as the new processes of memoryd do, and are as easily lost."""

import signal

import forks
import pytest
from planted_secrets import planted

from memoryd.scrub.policy import Policy
from memoryd.worker.client import Worker


def answers(folder):
    texts = ["", "naïve café 記憶", *(one.line for one in planted("a fork"))]
    with Worker(folder) as worker, Worker(folder, name="scanner") as scanner:
        return worker.count(texts), scanner.scan(texts, Policy(secrets="redact"))


def test_a_forked_child_answers_as_a_new_one(tmp_path, monkeypatch):
    assert Worker._start is forks.fork_child
    counts, scanned = answers(tmp_path)
    assert (counts.how, counts.tokens[0]) == ("tiktoken", 0)
    assert sum("[REDACTED:" in one.text for one in scanned) > 50
    monkeypatch.setattr(Worker, "_start", forks.new_child)
    assert (counts, scanned) == answers(tmp_path)


def test_a_fork_ends_by_signals_and_codes_as_a_process_does():
    def leave():
        raise SystemExit(3)

    assert forks.Fork(leave).wait(20) == 3
    assert forks.Fork(lambda: None).wait(20) == 0
    assert forks.Fork(lambda: 1 / 0).wait(20) == 1
    waiting = forks.Fork(signal.pause)
    assert waiting.poll() is None
    waiting.terminate()
    assert waiting.wait(20) == -signal.SIGTERM
    with pytest.raises(ChildProcessError):
        forks.os.waitpid(waiting.pid, 0)
