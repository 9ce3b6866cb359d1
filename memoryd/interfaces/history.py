"""Define the command that imports history, with a progress bar on a terminal."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from memoryd.database import reads
from memoryd.interfaces.call import Call, agent_option, parse_span, passed, start_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta

    from memoryd.config import Settings
    from memoryd.interfaces.output import Output

LOOK_SECONDS = 0.5  # between two updates of the progress bar
_OPEN = "not finished: some runs wait for a retry; the daemon, or memoryd import, continues ({id})"


@click.command("import")
@click.option(
    "--since", callback=parse_span, metavar="TIME", help="Only sessions with a message in the last TIME, such as 90d."
)
@click.option("--search-only", is_flag=True, help="Only make the sessions searchable; write nothing into memory.")
@click.option(
    "--tokens",
    type=click.IntRange(1),
    metavar="N",
    help="Tokens that a model may spend on the import of an agent; half of llm.daily_tokens by default.",
)
@agent_option
@passed
def import_command(
    call: Call, *, since: timedelta | None, search_only: bool, tokens: int | None, agent_id: str | None
) -> None:
    """Import the history of your agents. Reads old sessions, the newest first, and writes them to memory.

    Each session goes to the daily file of its own date. At the end, a dream merges these files into MEMORY.md. Live
    sessions have priority. You may stop the import at any time: the daemon continues it, or you run the command again.
    """
    from memoryd.requests import history, waiting

    settings = call.settings()
    agents = [agent.id for agent in call.agents(settings, agent_id)]
    asked = history.ImportRequest(since, search_only, tokens)
    quiet = call.output.quiet or call.output.is_watched  # the progress bar replaces the log lines
    with _show_progress(call.output, settings) as look, start_log(settings, quiet=quiet):
        rows = history.run_import(settings, agents, asked, look)
    lines = [f"{row['agent_id']}: {row['why'] or _OPEN.format(**row)}" for row in rows]
    failed = next((error for row in rows if row["state"] != "queued" and (error := waiting.failure_of(row))), None)
    call.output.result(rows, "\n".join(lines), failed)


@contextmanager
def _show_progress(output: Output, settings: Settings) -> Iterator[Callable[[], None]]:
    """Yield a function that updates a progress bar at most twice a second. Without a terminal, it does nothing."""
    if not output.is_watched:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    from memoryd.database import history

    last = 0.0
    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("finding transcripts", total=None)

        def look() -> None:
            nonlocal last
            if time.monotonic() - last < LOOK_SECONDS:
                return
            with reads.open_reader(reads.database_path(settings)) as reader:
                found = history.read_progress(reader)
            last = time.monotonic()
            if found is not None and found.total:
                bar.update(task, description=str(found), completed=found.done, total=found.total)

        yield look
