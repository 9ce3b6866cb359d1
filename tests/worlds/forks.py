"""Processes of memoryd as forks of one that has imported it: commands, daemons, and the children of workers.

A new interpreter needs one to two seconds to import memoryd, and a worker's child another to load the vocabulary, or
the rules of the scanner. The server of forks has all of that: one process without threads for all tests, which opens
no database. A fork has files, signals, environment, folder and session of its own. At its end it waits for its threads
and does what was registered for then, but does not take the interpreter apart.

What is to be shown of a start itself, of imports, or of who is whose parent takes new processes: by `subprocess`, by
`start=new` of `Scratch.daemon`, and by the fixture `new_children` for the workers of this process.
"""

import atexit
import contextlib
import gc
import inspect
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from functools import cache, partial
from multiprocessing.connection import wait
from pathlib import Path
from types import FunctionType, SimpleNamespace

from memoryd.worker.client import Worker

new_child = Worker._start
VARIABLE = "MEMORYD_TEST_FORKS"
SERVER = os.environ.get(VARIABLE)  # its socket; a fork may get an environment that does not name it


class Fork(subprocess.Popen):
    """The process of a command line of Python, with the options of `subprocess.Popen` for its files, environment,
    folder and session; those of Python itself, but `-c` and `-m`, mean nothing.
    """

    def _execute_child(self, *given):
        asked = inspect.signature(super()._execute_child).bind(*given).arguments
        order = {
            "words": [os.fspath(word) for word in asked["args"][1:]],
            "folder": os.fspath(asked["cwd"] or Path.cwd()),
            "environ": dict(os.environ if asked["env"] is None else asked["env"]),
            "has_session": asked["start_new_session"],
            "umask": _umask(),
        }
        files = [asked[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(SERVER)
        socket.send_fds(self._server, [b"{"], [number if file == -1 else file for number, file in enumerate(files)])
        self._server.sendall(json.dumps(order).encode()[1:])
        self._server.shutdown(socket.SHUT_WR)
        self.pid = self._read()
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(asked[name] for name in pipes))

    def _read(self, how=0):
        data = self._server.recv(4, how)
        assert data, "the server of forks has ended"
        return int.from_bytes(data, "little")

    def _internal_poll(self, *_, **__):
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode

    def _try_wait(self, wait_flags):
        if self._server.fileno() == -1:  # the collector closed it before it came to this one, which `subprocess` keeps
            return self.pid, 0
        try:
            status = self._read(socket.MSG_DONTWAIT if wait_flags else 0)
        except BlockingIOError:
            return 0, 0
        self._server.close()
        return self.pid, status


def _umask():
    os.umask(umask := os.umask(0o077))
    return umask


def start(words, **options):
    """Start `python WORDS` as a fork; as a new process in a script that no server serves."""
    return new(words, **options) if SERVER is None else Fork([sys.executable, *words], **options)


def new(words, **options):
    """Start `python WORDS` as a new process."""
    return subprocess.Popen([sys.executable, *words], **options)


def run(words, timeout=60, start=start, input=None, **options):  # noqa: A002 - as `subprocess.run`
    """Carry `python WORDS` out to its end; its output, as text, and its code."""
    pipes = ("stdout", "stderr", *(() if input is None else ("stdin",)))
    options = dict.fromkeys(pipes, subprocess.PIPE) | {"text": True} | options
    with start(words, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def fork_child(worker):
    """Start a worker's child as a fork: in the place of `Worker._start`."""
    if SERVER is None:
        return new_child(worker)
    # A copy of the function that uses `Fork` for `Popen`: a patched module would change it for other threads as well.
    names = new_child.__globals__ | {"subprocess": SimpleNamespace(**vars(subprocess) | {"Popen": Fork})}
    return FunctionType(new_child.__code__, names)(worker)


def install():
    """Let workers of this process fork their children."""
    Worker._start = fork_child


# --- the server -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def server():
    """Let the processes that this one starts have their forks; nothing is imported before the first is wanted."""
    global SERVER  # noqa: PLW0603
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        SERVER = os.environ[VARIABLE] = f"{folder}/forks"
        listener.bind(SERVER)
        listener.listen(64)
        with subprocess.Popen(
            [sys.executable, __file__, str(listener.fileno())], stdin=subprocess.PIPE, pass_fds=[listener.fileno()]
        ):
            yield


def serve(listener):
    """Fork for each order, and report the pid and later how it ended; return an order only in its fork."""
    woken, wake = socket.socketpair()
    for one in (woken, wake):
        one.setblocking(False)  # noqa: FBT003
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of Ctrl-C it learns by the end of the tests
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno())
    askers = {}
    is_ready = False
    while True:
        waiting = wait([0, listener, woken])
        if 0 in waiting:  # the tests have ended
            return None
        if woken in waiting:
            woken.recv(4096)
            _report_ends(askers)
        if listener in waiting:
            if not is_ready:
                prepare()
                is_ready = True
            asker, _ = listener.accept()
            data, files, _, _ = socket.recv_fds(asker, 65536, 3)
            order = json.loads(data + b"".join(iter(partial(asker.recv, 65536), b"")))
            pid = os.fork()
            if pid == 0:
                return order, files
            for file in files:
                os.close(file)
            askers[pid] = asker
            _send(asker, pid)


def _report_ends(askers):
    while askers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with askers.pop(pid) as asker:
            _send(asker, status)


def _send(asker, number):
    with contextlib.suppress(OSError):  # who is gone need not know
        asker.send(number.to_bytes(4, "little"))


def prepare():
    """Load what commands, daemons and children need."""
    from memoryd.admin import server as _page  # noqa: F401
    from memoryd.interfaces import serving  # noqa: F401
    from memoryd.interfaces.mcp import server as _mcp  # noqa: F401
    from memoryd.llm import openai_chat  # noqa: F401
    from memoryd.offline import backend  # noqa: F401
    from memoryd.scrub import scan
    from memoryd.scrub.policy import Policy
    from memoryd.worker import __main__ as _child  # noqa: F401
    from memoryd.worker import scanner, tokens

    install()
    counter = tokens.TokenCounter()
    counter.count(["once"])
    tokens.TokenCounter = lambda: counter
    scanner.KnownFormats = cache(scanner.KnownFormats)
    formats = scanner.KnownFormats(scanner.cache_folder(Path.home()))
    scan.scan(["once"], Policy(secrets="redact"), formats.find)
    gc.freeze()


def carry_out(order, files):
    """Become the process that was ordered."""
    if order["has_session"]:
        os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, 65_536)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace")  # noqa: SIM115
    os.umask(order["umask"])
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environ"])
    time.tzset()
    code = 0
    try:
        _run(order["words"])
    except SystemExit as ended:
        code = ended.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)  # noqa: T201
            code = 1
    except BaseException:  # noqa: BLE001 - what an interpreter does with it
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(code)  # taking the interpreter apart copies what all forks share, which takes two tenths of a second


def _run(words):
    while words[0] in {"-B", "-P", "-u"}:
        del words[0]
    how = words.pop(0) if words[0] in {"-c", "-m"} else ""
    what = words[0]
    sys.argv[:] = words
    sys.path[0] = str(Path(what).parent) if how == "" else ""
    if how == "-c":
        sys.argv[0] = how
        exec(what, {"__name__": "__main__"})  # noqa: S102
    elif how == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(what, run_name="__main__")


if __name__ == "__main__":
    ordered = serve(socket.socket(fileno=int(sys.argv[1])))
    if ordered is not None:
        carry_out(*ordered)
