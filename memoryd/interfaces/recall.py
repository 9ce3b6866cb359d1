"""Define the commands search, get, save, update and feedback."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING, Any

import click

from memoryd.interfaces.call import Call, of_agent, text_file, text_of
from memoryd.interfaces.output import one_line
from memoryd.requests import daemon_client

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from memoryd.config import Agent, Settings


_WEAK = 0.25  # the least relevance of a good best hit, as a share of the query


def _day(_context: click.Context, option: click.Parameter, text: str | None) -> date | None:
    if text is None:
        return None
    with suppress(ValueError):
        day = date.fromisoformat(text)
        if day.isoformat() == text:  # refuses other ISO forms: a week, or digits without dashes
            return day
    raise click.BadParameter(f"{text!r} is not a day: write 2026-03-04", param_hint=option.opts[0])


@click.command("search")
@click.argument("query", nargs=-1, required=True)
@of_agent
@click.option("--tier", metavar="T", help="Search one tier: core, daily, recent, archive, fact or session.")
@click.option(
    "--tags",
    metavar="A,B",
    default="",
    help="Find texts with all of these tags: of a memory, of a file's front matter (tags: [a]), or #a in the text.",
)
@click.option("--after", callback=_day, metavar="DAY", help="Find texts of this day and later, such as 2026-03-04.")
@click.option("--before", callback=_day, metavar="DAY", help="Find texts of this day and earlier.")
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 200), help="Maximum number of hits.")
def search_command(
    call: Call, settings: Settings, agent: Agent, query: tuple[str, ...], tags: str, **narrowed: Any
) -> None:
    """Search the memory. QUERY: words, "phrases", prefix*, or names such as snake_case or src/app.py.

    Put -- before a query that begins with a dash. The best hit comes first.
    """
    text, wanted = " ".join(query), sorted({tag.strip() for tag in tags.split(",")} - {""})
    hits = _ask_daemon(settings, agent, text, {"tags": wanted, **narrowed})
    if hits is None:
        from memoryd.finding.recall import Narrowing
        from memoryd.requests import searching

        narrowing = Narrowing(tags=frozenset(wanted), **narrowed)
        hits = [asdict(hit) for hit in searching.search(settings, agent, text, narrowing, "search")]
    best = max((hit["relevance"] for hit in hits), default=1.0)
    lines = ["no text holds much of the query; the nearest:"] if best < _WEAK else []
    lines += [line for hit in hits for line in _lines(hit)]
    call.output.result(hits, "\n".join(lines) or "nothing found")


def _ask_daemon(
    settings: Settings, agent: Agent, text: str, narrowing: Mapping[str, Any]
) -> list[dict[str, Any]] | None:
    """Return the hits of a running daemon, whose index and scanner are loaded; None if none runs, or it refuses."""
    if agent.privacy != "open":  # in private mode, this process checks the grant and audits who asks
        return None
    days = {name: narrowing[name] and narrowing[name].isoformat() for name in ("after", "before")}
    told = daemon_client.ask_same(settings, "search", agent=agent.id, text=text, narrowing={**narrowing, **days})
    return told.get("hits")


def _lines(hit: Mapping[str, Any]) -> list[str]:
    first, last = hit["first_line"], hit["last_line"]
    about = " ".join(part for part in (hit["day"], hit["id"], hit["said_by"] and f"by {hit['said_by']}") if part)
    span = str(first) if first == last else f"{first}-{last}"
    head = f"{one_line(hit['path'])}:{span}  {hit['tier']}{'  ' + about if about else ''}"
    return [head, f"    {hit['snippet']}", f"    ({one_line(hit['why'])})"]


@click.command("get")
@click.argument("path")
@of_agent
@click.option("--from", "first", default=1, show_default=True, type=click.IntRange(1, 10**9), help="The first line.")
@click.option("--lines", "count", type=click.IntRange(1, 10**9), help="The number of lines; all by default.")
def get_command(call: Call, settings: Settings, agent: Agent, path: str, first: int, count: int | None) -> None:
    """Show lines of a memory file, turns, or a fact. PATH is a file, session:ID, fact:ID, or what `search` prints."""
    from memoryd.finding.excerpt import LineRange
    from memoryd.requests import searching

    found = searching.get(settings, agent, path, LineRange(first, count), "get")
    call.output.result(asdict(found), found.text.rstrip("\n"))


@click.command("save")
@click.argument("text")
@of_agent
def save_command(call: Call, settings: Settings, agent: Agent, text: str) -> None:
    """Write a note into the day's file."""
    from memoryd.requests import memory_changes

    data = memory_changes.save(settings, agent, text)
    _print_written(call, data, [str(agent.workspace / one) for one in data["files"]])


@click.command("update")
@of_agent
@click.option("--append", metavar="TEXT", help="Add one memory to MEMORY.md.")
@click.option(
    "--replace",
    type=text_file,
    metavar="FILE",
    help="Replace MEMORY.md with FILE (- is standard input). Memories that FILE lacks end, if the guards allow it.",
)
def update_command(call: Call, settings: Settings, agent: Agent, append: str | None, replace: Path | None) -> None:
    """Change MEMORY.md, if the guards allow it. `memoryd rollback RUN` restores the old text."""
    from memoryd.requests import memory_changes

    if (append is None) == (replace is None):
        raise click.UsageError("give --append TEXT or --replace FILE")
    data = memory_changes.update(settings, agent, append=append, replace=None if replace is None else text_of(replace))
    _print_written(call, data, data["files"])


def _print_written(call: Call, data: Mapping[str, Any], files: Sequence[str]) -> None:
    redacted = "; written without what looks like a secret" if data.get("redacted") else ""
    unowned = "; written without a terminal, so nobody knows whose words it has" if data.get("unowned") else ""
    call.output.result(data, f"{data['run']} {data['why'] or ', '.join(files)}{redacted}{unowned}")


@click.command("feedback")
@click.argument("memory_id", metavar="ID")
@click.argument("verdict", type=click.Choice(["good", "bad"]))
@of_agent
def feedback_command(call: Call, settings: Settings, agent: Agent, memory_id: str, verdict: str) -> None:
    """Rate a memory as good or bad. The rating changes its rank in searches."""
    from memoryd.requests import memory_changes

    full = memory_changes.record_feedback(settings, agent, memory_id, verdict)
    call.output.result({"id": full, "feedback": verdict}, f"{full} {verdict}")
