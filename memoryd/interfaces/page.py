"""Define the command of the admin page: make a link to the page, and serve the page where nobody does."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING

import click

from memoryd.interfaces.call import Call, passed, start_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memoryd.config import Settings


@click.command()
@click.option("--open", "opens", is_flag=True, help="Open the link in a browser.")
@click.option("--hash", "hashes", is_flag=True, help="Ask for a passphrase and print its hash for admin.users.")
@click.option("--serve", "child", is_flag=True, hidden=True, help="Serve without a link, as the daemon starts it.")
@passed
def admin(call: Call, opens: bool, hashes: bool, child: bool) -> None:  # noqa: FBT001
    """Print a one-time link to the admin page; if nobody serves the page, serve it until interrupted."""
    from memoryd.admin import links
    from memoryd.files import trust
    from memoryd.files.locks import Lock

    if hashes:
        given = click.prompt("Passphrase", hide_input=True, confirmation_prompt=True)
        call.output.result({"hash": (made := links.hash_passphrase(given))}, made)
        return
    settings = call.settings()
    trust.require(settings)
    lock = Lock(settings.state_dir / links.LOCK)
    if lock.holder() is not None and not child:
        _show(call, links.make_link(settings), opens=opens)
        return
    from memoryd.admin import server

    with lock, start_log(settings, quiet=True):
        server.serve(
            settings.source, lambda _address: None if child else _show(call, links.make_link(settings), opens=opens)
        )


def _show(call: Call, link: str, *, opens: bool) -> None:
    call.output.result({"link": link}, f"{link}\nIt opens the page once, within two minutes.")
    sys.stdout.flush()
    if opens:
        import webbrowser

        webbrowser.open_new(link)


@contextlib.contextmanager
def serve_beside(settings: Settings) -> Iterator[None]:
    """Serve the page in a process of its own while the daemon runs, if `admin.listen` is set."""
    if settings.admin.listen is None:
        yield
        return
    command = [sys.executable, "-m", "memoryd", "--config", str(settings.source), "admin", "--serve"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
