"""The commands of recall: search, get, save, update, feedback."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import click

from memoryd.errors import ConfigError
from memoryd.interfaces import grants
from memoryd.interfaces.call import Call, of_agent, text_file, text_of
from memoryd.interfaces.output import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memoryd.config import Agent, Settings
    from memoryd.finding.excerpt import Excerpt, Span
    from memoryd.finding.recall import Hit, Narrowing, Recall
    from memoryd.reading.scrubbing import Scrubber
    from memoryd.worker.client import Worker

DATABASE = "memoryd.db"


def search(settings: Settings, agent: Agent, text: str, narrowing: Narrowing, what: str) -> list[Hit]:
    """Search what an agent remembers, for whoever may see it; `what` names the door in the audit."""
    from memoryd.recall.query import parse

    if not parse(text).terms:
        raise ConfigError("there is no word in it", "query", "give at least one letter or digit")
    require_days(narrowing)
    grants.require(settings, agent, what)
    with scrubbing(settings) as scrubber, opened(settings, scrubber) as recall:
        return recall.search(agent, text, narrowing)


def require_days(narrowing: Narrowing) -> None:
    """Make sure that a search is narrowed to days, in their order."""
    for name, day in (("after", narrowing.after), ("before", narrowing.before)):
        # A datetime is a date, too, and its time would count for nothing.
        if day is not None and (not isinstance(day, date) or isinstance(day, datetime)):
            raise ConfigError(f"{str(day)!r} is no day", name, "give a datetime.date, such as date(2026, 3, 4)")
    if narrowing.after is not None and narrowing.before is not None and narrowing.after > narrowing.before:
        what = f"{narrowing.after} is later than {narrowing.before}: no day is in between"
        raise ConfigError(what, "after, before", "give the earlier day as after")


def get(settings: Settings, agent: Agent, path: str, span: Span, what: str) -> Excerpt:
    """Read part of what an agent remembers, for whoever may see it; `what` names the door in the audit."""
    from memoryd.finding import excerpt

    grants.require(settings, agent, what)
    with scrubbing(settings) as scrubber:
        return excerpt.get(agent, path, span, database=settings.state_dir / DATABASE, redact=scrubber.redact_own)


@contextmanager
def opened(settings: Settings, scrubber: Scrubber) -> Iterator[Recall]:
    """What searches, in this process, beside a running daemon or without one."""
    from memoryd.clock import utc_now
    from memoryd.database.reads import KeptReader
    from memoryd.files.log import get_logger
    from memoryd.finding.indexing import Indexer
    from memoryd.finding.recall import Recall
    from memoryd.index.database import Index
    from memoryd.interfaces import meanings

    log = get_logger(part="index")
    index = Index(settings.state_dir, log)
    database = KeptReader(settings.state_dir / DATABASE)
    indexer = Indexer(index, database, settings.zone, scrubber.redact_own, log)
    try:
        with meanings.asked(settings) as meaning:
            yield Recall(indexer, utc_now, meaning)
    finally:
        indexer.close()


@contextmanager
def scrubbing(settings: Settings, worker: Worker | None = None) -> Iterator[Scrubber]:
    """What redacts, by this worker if one is given; its child process starts when there is something to redact."""
    from memoryd.files.log import get_logger
    from memoryd.reading.scrubbing import Scrubber
    from memoryd.worker.client import Worker

    scrubber = Scrubber(worker or Worker(settings.state_dir, name="scanner"), get_logger(part="scrub"))
    try:
        scrubber.configure(settings)
        yield scrubber
    finally:
        scrubber.close()


def _day(_context: click.Context, option: click.Parameter, text: str | None) -> date | None:
    if text is None:
        return None
    with suppress(ValueError):
        day = date.fromisoformat(text)
        if day.isoformat() == text:  # not a week, nor the digits alone
            return day
    raise click.BadParameter(f"{text!r} is no day: write 2026-03-04", param_hint=option.opts[0])


@click.command("search")
@click.argument("query", nargs=-1, required=True)
@of_agent
@click.option("--tier", metavar="T", help="Only: core, daily, recent, archive, fact, session.")
@click.option(
    "--tags",
    metavar="A,B",
    default="",
    help="Only what has all of these tags: of a memory, of a file's front matter (tags: [a]), or #a in its text.",
)
@click.option("--after", callback=_day, metavar="DAY", help="Not older than this day, such as 2026-03-04.")
@click.option("--before", callback=_day, metavar="DAY", help="Not younger than this day.")
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 200))
def search_command(
    call: Call, settings: Settings, agent: Agent, query: tuple[str, ...], tags: str, **narrowed: Any
) -> None:
    """Find what is remembered: words, "phrases", prefix*, names such as snake_case or src/app.py.

    What follows -- is a query whatever it begins with. Behind each place stands how relevant it is, in per cent of
    the most relevant one.
    """
    from memoryd.finding.recall import Narrowing

    wanted = frozenset(tag.strip() for tag in tags.split(",") if tag.strip())
    hits = search(settings, agent, " ".join(query), Narrowing(tags=wanted, **narrowed), "search")
    most = max((hit.score for hit in hits), default=0.0)
    lines = [line for hit in hits for line in _lines(hit, most)]
    call.output.result([asdict(hit) for hit in hits], "\n".join(lines) or "nothing found")


def _lines(hit: Hit, most: float) -> list[str]:
    span = str(hit.first_line) if hit.first_line == hit.last_line else f"{hit.first_line}-{hit.last_line}"
    about = " ".join(part for part in (hit.day, hit.id, hit.said_by and f"by {hit.said_by}") if part)
    share = f"{hit.score / most:.0%}" if most and hit.score >= most / 100 else "<1%"
    head = f"{one_line(hit.path)}:{span}  {share}  {hit.tier}{'  ' + about if about else ''}"
    return [head, f"    {hit.snippet}", f"    ({one_line(hit.why)})"]


@click.command("get")
@click.argument("path")
@of_agent
@click.option("--from", "first", default=1, show_default=True, type=click.IntRange(1), help="The first line.")
@click.option("--lines", "count", type=click.IntRange(1), help="How many lines; all by default.")
def get_command(call: Call, settings: Settings, agent: Agent, path: str, first: int, count: int | None) -> None:
    """Show lines of a memory file, turns of session:ID, fact:ID, or what an id stands for that search shows."""
    from memoryd.finding.excerpt import Span

    found = get(settings, agent, path, Span(first, count), "get")
    call.output.result(asdict(found), found.text.rstrip("\n"))


@click.command("save")
@click.argument("text")
@of_agent
def save_command(call: Call, settings: Settings, agent: Agent, text: str) -> None:
    """Write a note into the day's file."""
    from memoryd.interfaces import work

    data = written(work.save(settings, agent, text))
    call.output.result(data, f"{data['run']} {', '.join(data['files'])}")


@click.command("update")
@of_agent
@click.option("--append", metavar="TEXT", help="Add one memory to MEMORY.md.")
@click.option(
    "--replace",
    type=text_file,
    metavar="FILE",
    help="Make MEMORY.md what FILE holds (- is standard input); what it leaves out ends, guards permitting.",
)
def update_command(call: Call, settings: Settings, agent: Agent, append: str | None, replace: Path | None) -> None:
    """Change MEMORY.md through the guards; `memoryd rollback RUN` brings back what was there."""
    from memoryd.interfaces import work

    if (append is None) == (replace is None):
        raise click.UsageError("give --append TEXT or --replace FILE")
    row = work.update(settings, agent, append=append, replace=None if replace is None else text_of(replace))
    data = written(row)
    call.output.result(data, f"{data['run']} {data['why'] or ', '.join(data['files'])}")


def written(row: dict[str, Any]) -> dict[str, Any]:
    """What a run that wrote has done, for programs."""
    files = [item["path"] for item in row["receipt"].get("files", ())]
    lacks = row["receipt"].get("unsupported")
    told = {"run": row["id"], "state": row["state"], "why": row["why"], "files": files}
    return told | ({"unsupported": lacks} if lacks else {})


@click.command("feedback")
@click.argument("memory_id", metavar="ID")
@click.argument("verdict", type=click.Choice(["good", "bad"]))
@of_agent
def feedback_command(call: Call, settings: Settings, agent: Agent, memory_id: str, verdict: str) -> None:
    """Say that a memory was good or bad to have; it weighs in what search shows first."""
    from memoryd.interfaces import work

    full = work.feedback(settings, agent, memory_id, verdict)
    call.output.result({"id": full, "feedback": verdict}, f"{full} {verdict}")
