"""Define the command of the admin page: make a link to the page, and serve the page if no other process does."""

from __future__ import annotations

import contextlib
import select
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import click

from memoryd.errors import MemorydError, describe
from memoryd.files.locks import Lock
from memoryd.interfaces.call import Call, passed, start_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memoryd.config import Settings
    from memoryd.files.log import Log


@click.command()
@click.option("--open", "opens", is_flag=True, help="Open the link in a browser.")
@click.option("--hash", "hashes", is_flag=True, help="Ask for a passphrase and print its hash for admin.users.")
@click.option("--listener", type=(int, float), hidden=True, help="The daemon's open socket, and since when it is open.")
@passed
def admin(call: Call, *, opens: bool, hashes: bool, listener: tuple[int, float] | None) -> None:
    """Print a one-time link to the admin page. If nobody serves the page, serves it until interrupted."""
    from memoryd.admin import links
    from memoryd.files import trust

    if hashes:
        given = click.prompt("Passphrase", hide_input=True, confirmation_prompt=True)
        call.output.result({"hash": (made := links.hash_passphrase(given))}, made)
        return
    settings = call.settings()
    trust.require(settings)
    lock = Lock(settings.state_dir / links.LOCK)
    if listener is None and lock.holder() is not None:
        _show(call, links.make_link(settings), opens=opens)
        return
    from memoryd.admin import server

    def show_link(_address: str) -> None:
        if listener is None:
            _show(call, links.make_link(settings), opens=opens)

    # The log creates the state folder, which the lock needs. A daemon that opened the socket holds the lock itself.
    with start_log(settings, quiet=True), lock if listener is None else contextlib.nullcontext():
        server.serve(settings.source, show_link, listener)


def _show(call: Call, link: str, *, opens: bool) -> None:
    call.output.result({"link": link}, f"{link}\nIt opens the page once, within two minutes.")
    sys.stdout.flush()
    if opens:
        import webbrowser

        webbrowser.open_new(link)


@contextlib.contextmanager
def serve_beside(settings: Settings, log: Log) -> Iterator[None]:
    """Serve the admin page while the daemon runs, if `admin.listen` is set.

    The first connection starts a process for the page. It ends when nobody has used the page for a while, so an unused
    page costs only a socket.
    """
    from memoryd.admin import links

    address = settings.admin.listen
    if address is None:
        yield
        return
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with contextlib.ExitStack() as opened:
        try:
            opened.enter_context(Lock(settings.state_dir / links.LOCK))  # then `memoryd admin` only makes a link
            listener = socket.create_server((host.strip("[]"), int(port)), family=family, backlog=2048)
        except (OSError, MemorydError) as error:
            log.warning("the admin page is not served", address=address, why=describe(error))
        else:
            opened.enter_context(listener)
            stop = threading.Event()
            thread = threading.Thread(target=_start_when_asked, args=(settings, listener, stop, log), name="page")
            thread.start()
            opened.callback(thread.join)
            opened.callback(stop.set)
        yield


def _start_when_asked(settings: Settings, listener: socket.socket, stop: threading.Event, log: Log) -> None:
    """Start the page's process when a connection waits and none runs. End it when `stop` is set."""
    since = time.time()
    listener.settimeout(0)  # the client may be gone before it is accepted
    waiting = select.poll()  # `select` rejects descriptors above 1,023, and a daemon may have more
    waiting.register(listener, select.POLLIN)
    while not stop.wait(0.05):
        if not waiting.poll(500):
            continue
        command = [sys.executable, "-m", "memoryd", "--config", str(settings.source), "admin"]
        command += ["--listener", str(listener.fileno()), str(since)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[listener.fileno()]
        )
        while process.poll() is None and not stop.wait(0.5):
            pass
        if (process.poll() or 0) > 0:  # it failed: drop the waiting clients, or it would be started again and again
            log.warning("the admin page has failed", status=process.returncode)
            with contextlib.suppress(OSError):
                while waiting.poll(0):
                    listener.accept()[0].close()
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        # Links from before this moment are invalid in the next process, because one may have been used already.
        since = time.time()
