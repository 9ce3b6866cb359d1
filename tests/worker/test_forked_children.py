"""Forks answer as the new processes of memoryd do, end as they do, and are as easily lost."""

import gc
import signal
import subprocess
import warnings

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
    assert counts[0] == 0
    assert sum("[REDACTED:" in one.text for one in scanned) > 50
    monkeypatch.setattr(Worker, "_start", forks.new_child)
    assert (counts, scanned) == answers(tmp_path)


@pytest.mark.parametrize("words", [["--help"], ["no-such-command"], ["--config", "none.yaml", "status"]])
def test_a_forked_command_prints_and_ends_as_a_new_one(tmp_path, words):
    words = ["-m", "memoryd", *words]
    forked, new = (forks.run(words, start=start, cwd=tmp_path) for start in (forks.start, forks.new))
    assert (forked.returncode, forked.stdout, forked.stderr) == (new.returncode, new.stdout, new.stderr)


def test_a_fork_has_what_it_is_given_and_ends_by_signals_and_codes(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal, sys\n"
        "print(os.getcwd(), [*os.environ], os.umask(0), sys.argv[1:], sys.stdin.read(), flush=True)\n"
        "signal.pause() if sys.argv[1:] else sys.exit(3)\n"
    )
    with forks.start([script], stdin=subprocess.DEVNULL) as ended:
        assert ended.wait(20) == 3
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    before = forks.os.umask(0o027)
    with forks.start([script, "a"], cwd=tmp_path, env={"ONE": "1"}, start_new_session=True, **pipes) as waiting:
        forks.os.umask(before)
        waiting.stdin.write("given")
        waiting.stdin.close()
        assert waiting.stdout.readline() == f"{tmp_path} ['ONE'] {0o027} ['a'] given\n"
        assert forks.os.getsid(waiting.pid) == waiting.pid
        assert waiting.poll() is None
        waiting.terminate()
        assert waiting.wait(20) == -signal.SIGTERM


def test_a_fork_that_was_collected_with_its_socket_stops_no_later_process():
    lost = forks.start(["-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    lost.itself = lost  # so that the collector takes it and its socket at one time; `subprocess` keeps what still runs
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        del lost
        gc.collect()
    assert forks.run(["-c", "print('later')"]).stdout == "later\n"
