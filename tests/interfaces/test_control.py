"""The control socket: what it answers, whom it turns away, and that nobody can keep it from the others."""

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scratch import Scratch, said, until

from memoryd.errors import NotFoundError
from memoryd.files.log import get_logger
from memoryd.interfaces import control
from memoryd.requests import daemon_client


def lost(_request):
    raise NotFoundError("there is no such session", hint="look again")


def broken(_request):
    raise RuntimeError("secret words")


VERBS = {"ping": lambda _request: {"pid": 1}, "lost": lost, "broken": broken, "long": lambda _request: "x" * 1_100_000}


@pytest.fixture(scope="module")
def state():
    """A folder with a short path and a server that loses patience after a second."""
    folder = Path(tempfile.mkdtemp(prefix="memoryd-control-"))
    patience, control.SLOW_SECONDS = control.SLOW_SECONDS, 1.0
    with control.Control(folder / daemon_client.SOCKET, VERBS, time.monotonic, get_logger("memoryd.test")):
        yield folder
    control.SLOW_SECONDS = patience
    assert not (folder / daemon_client.SOCKET).exists()
    shutil.rmtree(folder)


def connected(state):
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(20)
    try:
        line.connect(str(state / daemon_client.SOCKET))
    except BlockingIOError:
        line.close()
        raise
    return line


def answer(state, data):
    """All that comes back for some bytes; empty where the other end hung up."""
    with connected(state) as line:
        try:
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: line.recv(65536), b""))
        except OSError:  # hung up, in one of the ways a system says it
            return b""


def is_served(state):
    return daemon_client.ask(state, "ping") == {"ok": True, "data": {"pid": 1}}


def test_it_answers_and_says_what_is_wrong(state):
    assert is_served(state)
    assert daemon_client.ask(state, "lost")["error"] == {
        "code": "not_found", "message": "there is no such session (look again)", "hint": "look again",
    }  # fmt: skip
    assert daemon_client.ask(state, "broken")["error"]["message"] == "RuntimeError", (
        "the words of an exception are not told"
    )
    assert daemon_client.ask(state, "long")["error"]["code"] == "too_long"
    for wrong in (b"{}\n", b"[]\n", b"null\n", b'{"verb": 1}\n', b'{"verb": "x"}\n', b"\xff\n", b"[" * 60_000 + b"\n"):
        assert json.loads(answer(state, wrong))["ok"] is False


def test_nobody_listening_is_no_error(tmp_path):
    assert daemon_client.ask(tmp_path, "ping") is None
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / daemon_client.SOCKET))
    assert daemon_client.ask(tmp_path, "ping") is None
    with control.Control(tmp_path / daemon_client.SOCKET, VERBS, time.monotonic, get_logger("memoryd.test")):
        assert is_served(tmp_path), "a dead process's socket is replaced"


def test_who_waits_when_it_stops_is_told_at_once_and_whose_turn_it_is_gets_the_answer(tmp_path):
    before = set(threading.enumerate())
    begun, goes_on, done = threading.Event(), threading.Event(), []

    def slow(_request):
        begun.set()
        return goes_on.wait(30)

    server = control.Control(
        tmp_path / daemon_client.SOCKET, {"slow": slow, "note": done.append}, time.monotonic, get_logger("memoryd.test")
    )
    with server:
        busy, waiting, half = (connected(tmp_path) for _ in range(3))
        busy.sendall(b'{"verb": "slow"}\n')
        assert begun.wait(30)
        waiting.sendall(b'{"verb": "note"}\n')
        half.sendall(b'{"verb"')
        until(lambda: len(server._waiting) == 2, why="both wait")
        stopping = threading.Thread(target=server.__exit__, args=(None, None, None))
        stopping.start()
        with waiting, half:
            assert (waiting.recv(1), half.recv(1)) == (b"", b"")
        assert not goes_on.is_set()
        goes_on.set()
        stopping.join()
        with busy:
            assert json.loads(busy.recv(1000)) == {"ok": True, "data": True}
        until(lambda: not any(one.name == "control" for one in {*threading.enumerate()} - before), why="none is left")
        server._server = None  # it is out already
    assert done == []


def test_a_hook_does_not_wait_for_what_a_person_asked_for(tmp_path):
    begun, goes_on = threading.Event(), threading.Event()

    def slow(_request):
        begun.set()
        return goes_on.wait(30)

    hooks = {"context": lambda _request: {"text": "known"}}
    path = tmp_path / daemon_client.SOCKET
    with (
        control.Control(path, {"slow": slow}, time.monotonic, get_logger("memoryd.test"), hooks),
        connected(tmp_path) as busy,
    ):
        busy.sendall(b'{"verb": "slow"}\n')
        assert begun.wait(30)
        try:
            assert daemon_client.ask(tmp_path, "context") == {"ok": True, "data": {"text": "known"}}
        finally:
            goes_on.set()
        assert json.loads(busy.recv(1000)) == {"ok": True, "data": True}


def test_it_is_private_under_any_umask_and_a_long_path_will_do(tmp_path):
    folder = tmp_path / ("long" * 40)
    folder.mkdir(mode=0o700)
    old = os.umask(0)
    try:
        with control.Control(folder / daemon_client.SOCKET, VERBS, time.monotonic, get_logger("memoryd.test")):
            assert stat.S_IMODE((folder / daemon_client.SOCKET).stat().st_mode) == 0o600
            if sys.platform == "linux":
                assert is_served(folder)
    finally:
        os.umask(old)


def test_something_else_under_the_name_is_left_alone(tmp_path):
    (tmp_path / daemon_client.SOCKET).write_text("mine", encoding="utf-8")
    with control.Control(tmp_path / daemon_client.SOCKET, VERBS, time.monotonic, get_logger("memoryd.test")):
        assert daemon_client.ask(tmp_path, "ping") is None
    assert (tmp_path / daemon_client.SOCKET).read_text(encoding="utf-8") == "mine"


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_leave_it_serving(state, data):
    answer(state, data)
    until(lambda: is_served(state), why="others are served")


def test_a_frame_without_end_is_cut_off(state):
    assert answer(state, b"x" * (daemon_client.MAX_FRAME + 100_000) + b"\n") == b""
    assert answer(state, b"1" * 1_000_000_000) == b""
    assert is_served(state)


@pytest.mark.parametrize("of_peer", [control.MAX_OF_PEER, 1_000], ids=["of one process", "of many"])
def test_who_does_not_finish_a_line_keeps_nobody_out_and_is_dropped(state, monkeypatch, of_peer):
    monkeypatch.setattr(control, "MAX_OF_PEER", of_peer)
    slow = [connected(state) for _ in range(50)]
    for line in slow:
        with suppress(OSError):  # the oldest have gone already
            line.send(b'{"verb"')
    for _ in range(5):
        assert is_served(state), "fifty are half open"
    for line in slow:
        with suppress(OSError):
            assert line.recv(1) == b""
        line.close()


def test_a_line_must_be_whole_a_while_after_it_was_accepted_however_it_comes(state):
    with connected(state) as line, suppress(OSError):
        while True:  # a byte now and then does not make the time longer
            line.send(b"x")
            line.settimeout(0.05)
            with suppress(TimeoutError):
                assert line.recv(1) == b""
                break
    assert is_served(state)


def test_a_thousand_connections_are_survived(state):
    lines = []
    for _ in range(1_000):
        try:
            lines.append(connected(state))
        except BlockingIOError:  # the queue of those who wait is full: turned away
            continue
        if len(lines) > 100:
            lines.pop(0).close()
    for line in lines:
        line.close()
    until(lambda: is_served(state), why="others are served")


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("setpriv") is None, reason="needs root, and setpriv")
def test_another_user_is_turned_away(state):
    """Though here, unlike in a state folder, the way to the socket is open to all."""
    state.chmod(0o755)
    (state / daemon_client.SOCKET).chmod(0o666)
    script = f"import socket; s = socket.socket(1); s.connect({str(state / daemon_client.SOCKET)!r})\n"
    script += "try:\n s.send(b'{\"verb\": \"ping\"}\\n'); print(s.recv(100))\nexcept OSError: print(b'')"
    drop = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"]
    done = subprocess.run([*drop, sys.executable, "-c", script], capture_output=True, text=True, check=False)
    if any(word in done.stderr for word in ("Permission", "No module", "loading shared libraries")):
        pytest.skip("this interpreter is out of other users' reach")
    assert (done.stdout, done.stderr) == ("b''\n", "")
    assert is_served(state)


@pytest.mark.long
def test_a_daemon_listens_and_an_ended_session_is_written_at_once(tmp_path):
    scratch = Scratch(tmp_path / "scratch", ingest={"settle": "20ms"})
    scratch.append(said())
    with scratch.daemon() as process:
        until(lambda: daemon_client.ask(scratch.state, "ping"), why="it listens")
        assert daemon_client.ask(scratch.state, "ping")["data"]["pid"] == process.pid
        until(lambda: scratch.query("SELECT count(*) FROM turn") == [(6,)], why="the turns are stored")
        shown = daemon_client.ask(scratch.state, "status")["data"]
        assert shown["daemon"]["pid"] == process.pid
        session = shown["agents"][0]["sessions"][0]["id"]
        assert daemon_client.ask(scratch.state, "wake") == {"ok": True, "data": {}}
        assert daemon_client.ask(scratch.state, "session_end", id="nobody")["error"]["code"] == "not_found"
        assert daemon_client.ask(scratch.state, "session_end", id=session)["data"] == {"session": session}
        until(lambda: scratch.query("SELECT state FROM session") == [("ended",)], why="it is over")
        assert scratch.json("session", "end", session)["state"] in {"succeeded", "skipped"}
    assert not (scratch.state / daemon_client.SOCKET).exists()
