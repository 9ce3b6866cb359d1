"""Define the commands on sessions: start, append and end, list, messages and show, and the import of old ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memoryd.database import reads
from memoryd.errors import NotFoundError
from memoryd.gauge.fill import fill_of
from memoryd.interfaces import evidence
from memoryd.interfaces.call import Call, agent_option, of_agent, of_settings, parse_span, passed, start_log
from memoryd.interfaces.consolidation import offer_recovery
from memoryd.interfaces.output import one_line, render_run, render_table
from memoryd.requests import access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from memoryd.config import Agent, Settings
    from memoryd.interfaces.output import Output

SESSION = "MEMORYD_SESSION"
_SIGNALED = 128  # a shell adds this to the signal that ended a command
LOOK_SECONDS = 0.5  # between two updates of the progress bar
_OPEN = "not finished: some runs wait for a retry; the daemon, or memoryd import, continues ({id})"


@click.group()
def session() -> None:
    """Keep a session in a NOW file, end a session, and show sessions."""


@session.command("start")
@of_agent
@click.option("--tags", metavar="A,B", default="", help="The session's tags; the first one is its theme.")
@click.option("--task", "tasks", metavar="T", multiple=True, help="A task that the session is about; may be repeated.")
@click.option("--project", type=click.Path(path_type=Path), metavar="DIR", help="The project; default: this folder.")
@click.option("--private", is_flag=True, help="Keep the session from being read, sent or indexed.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def session_start(
    call: Call,
    settings: Settings,
    agent: Agent,
    tags: str,
    project: Path | None,
    command: tuple[str, ...],
    **given: Any,
) -> None:
    """Start a session in a NOW file. With COMMAND after --, run it; the session ends with it."""
    from memoryd.requests import sessions

    offer_recovery(call, settings, agent)
    folder = (project or Path.cwd()).absolute()
    chosen = [tag for tag in tags.split(",") if tag.strip()]
    made = sessions.start(settings, agent, tags=chosen, project=folder, **given)
    if command:
        call.output.print_note(f"session {made['session']} in {made['path']}")
        click.get_current_context().exit(_run_inside(settings, agent, made["session"], command))
    call.output.result(made, f"{made['session']} {one_line(made['path'])}")


class _StoppedError(Exception):
    """Report a signal that asks this process to end."""


def _make_handler(running: list[subprocess.Popen[bytes]], early: list[int]) -> Callable[[int, FrameType | None], None]:
    """Return a handler that passes a signal on to the running command, or keeps it in `early` if none runs yet."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if not running:
            early.append(number)
            return
        if number != signal.SIGINT or not sys.stdin.isatty():  # a terminal sends Ctrl+C to both processes
            running[0].send_signal(number)
        if number != signal.SIGINT:  # the command itself decides whether Ctrl+C ends it
            raise _StoppedError

    return pass_on


def _run_inside(settings: Settings, agent: Agent, session_id: str, command: tuple[str, ...]) -> int:
    """Run a command inside a session, and return its exit code.

    The session ends when the command exits or when a signal asks this process to end.
    """
    from memoryd.requests import sessions

    running: list[subprocess.Popen[bytes]] = []
    early: list[int] = []
    pass_on = _make_handler(running, early)
    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        running.append(subprocess.Popen(command, env={**os.environ, SESSION: session_id}))
        for number in early:
            running[0].send_signal(number)
        code = running[0].wait()
    except _StoppedError:
        code = None
    except OSError as error:
        hint = "give the path of a program and its arguments after --"
        raise NotFoundError(f"cannot be started: {error.strerror}", command[0], hint) from error
    finally:
        for number in before:
            signal.signal(number, signal.SIG_IGN)  # no signal may interrupt the end of the session
        with suppress(NotFoundError):  # the session ended before, and its file was removed
            sessions.end(settings, agent, session_id=session_id)
        for number, handler in before.items():
            signal.signal(number, handler)
    if code is None:
        code = running[0].wait() if running else -signal.SIGTERM
    return code if code >= 0 else _SIGNALED - code


@session.command("append")
@of_agent
@click.option(
    "--session", "session_id", envvar=SESSION, metavar="ID", help="The session; default: the newest open one."
)
@click.option("--tool", metavar="NAME", help="The name of the tool, for an entry of a tool.")
@click.option("--summary", metavar="S", help="What the tool did, on one line.")
@click.argument("role", type=click.Choice(["user", "agent", "tool"]))
@click.argument("text", default="-")
def session_append(call: Call, settings: Settings, agent: Agent, role: str, text: str, **given: Any) -> None:
    """Append an entry to the current session. If TEXT is -, reads standard input.

    Start a session if none is open. The user's text /exit ends the session; /exit --consolidate also writes it to
    memory.
    """
    from memoryd.requests import sessions

    said = sys.stdin.buffer.read().decode("utf-8", "replace") if text == "-" else text
    made = sessions.append(settings, agent, role, said, **given)
    more = f", continued in {made['continued_in']}" if made.get("continued_in") else ""
    call.output.result(made, f"{made['session']} {one_line(made['path'])}{more}")


@session.command("list")
@agent_option
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1, 1_000_000), help="Maximum number of sessions."
)
@of_settings
def session_list(call: Call, settings: Settings, agent_id: str | None, limit: int) -> None:
    """List sessions, the newest first."""
    windows = {agent.id: agent.context_window for agent in settings.agents}
    rows = evidence.list_sessions(call, settings, agent_id, limit + 1)
    more = f"\nonly the newest {limit} are shown: --limit N shows more" if len(rows) > limit else ""
    same = ("format", "transcript", "state", "started_at", "ended_at", "turns", "forgotten", "last_turn_at")
    listed = [
        {"id": row["id"], "agent": row["agent_id"], "parent": row["parent_id"], **{name: row[name] for name in same}}
        | {"tokens": fill_of(row, windows.get(row["agent_id"])).live.tokens}
        for row in rows[:limit]
    ]
    columns = ("id", "agent", "format", "state", "turns", "forgotten", "tokens", "last_turn_at")
    call.output.result(listed, f"{render_table(listed, columns)}{more}" if listed else "no sessions yet")


@session.command("messages")
@click.argument("session_id", metavar="ID")
@click.option("--compressed", is_flag=True, help="Show the turns as the last sleep compressed them, summary first.")
@agent_option
@passed
def session_messages(call: Call, *, session_id: str, compressed: bool, agent_id: str | None) -> None:
    """Show the turns of a session."""
    settings = call.settings()
    row, _, rows = evidence.read_session(call, settings, session_id, agent_id, compressed=compressed)
    rows = access.show_rows(settings, call.agent(settings, str(row["agent_id"])), "session messages", rows, "text")
    call.output.result(rows, "\n".join(evidence.message_line(row) for row in rows))


@session.command("end")
@click.argument("session_id", metavar="[ID]", required=False, envvar=SESSION)
@click.option("--consolidate", is_flag=True, help="Then write the ended sessions to RECENT.md and the archive.")
@agent_option
@passed
def session_end(call: Call, session_id: str | None, agent_id: str | None, *, consolidate: bool) -> None:
    """End a session, by default the current one.

    For a session in a NOW file, write its end into the file. For a session that memoryd reads from a transcript, write
    the turns since its last sleep to the daily file.
    """
    from memoryd.requests import consolidating, jobs_by_hand, now_sessions, sessions, waiting

    settings = call.settings()
    made: dict[str, Any] = {}
    if session_id is None:
        agent = call.agent(settings, agent_id)
        made = sessions.end(settings, agent)
    else:
        with suppress(NotFoundError):
            agent, found = now_sessions.find(evidence.agents_of(call, settings, agent_id), session_id)
            made = sessions.end(settings, agent, session_id=found.header.session_id)
            session_id = str(made["session"])
    text, failure = f"the session {made.get('session')} is over: {one_line(made.get('path'))}", None
    read = None
    if session_id is not None:  # a session that is in a NOW file need not have been read
        with suppress(*([reads.NotMadeError, NotFoundError] if made else [])), call.reader(settings) as reader:
            read = evidence.session_of(call, settings, reader, session_id, agent_id)
    if read is not None:
        with call.output.busy("ending the session"), start_log(settings):
            row = jobs_by_hand.end_session(settings, read["id"])
        made |= row
        text, failure = _ended_text(row), waiting.failure_of(row) if row else None
        agent = call.agent(settings, read["agent_id"])
    if consolidate:
        made["consolidation"] = consolidating.consolidate(settings, agent)
    call.output.result(made, text, failure)


def _ended_text(row: dict[str, Any]) -> str:
    if row and row["state"] == "succeeded":
        files = ", ".join(one_line(item["path"]) for item in row["receipt"].get("files", ()))
        written = f"what it said since its last sleep is in {files}" if files else "nothing it said had to be kept"
        return f"the session is over; {written} (memoryd job show {row['id']})"
    if not row or row["state"] == "skipped":
        return "the session is over; it said nothing since its last sleep, so nothing was written"
    return f"the session is over\n{render_run(row)}"


session.add_command(evidence.session_show)


@click.command("import")
@click.option(
    "--since", callback=parse_span, metavar="TIME", help="Only sessions with a message in the last TIME, such as 90d."
)
@click.option("--search-only", is_flag=True, help="Only make the sessions searchable; write nothing into memory.")
@click.option(
    "--tokens",
    type=click.IntRange(1, 10**9),
    metavar="N",
    help="Tokens that a model may spend on the import of an agent; half of llm.daily_tokens by default.",
)
@agent_option
@of_settings
def import_command(call: Call, settings: Settings, agent_id: str | None, **asked: Any) -> None:
    """Import the history of your agents. Reads old sessions, the newest first, and writes them to memory.

    Each session goes to the daily file of its own date. At the end, a dream merges these files into MEMORY.md. Live
    sessions have priority. You may stop the import at any time: the daemon continues it, or you run the command again.
    """
    from memoryd.requests import history, waiting

    agents = [agent.id for agent in call.agents(settings, agent_id)]
    quiet = call.output.quiet or call.output.is_watched  # the progress bar replaces the log lines
    with _show_progress(call.output, settings) as look, start_log(settings, quiet=quiet):
        rows = history.run_import(settings, agents, history.ImportRequest(**asked), look)
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
