"""What an agent is told of its memory at its start: gathered here, for the command, the library and the hooks.

It is redacted once more on the way, since it goes to a model: files are people's own, and may hold anything.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from memoryd.app import DATABASE
from memoryd.database import memories, reads
from memoryd.engine.clock import Clock
from memoryd.engine.core_import import CORE_FILE
from memoryd.engine.scrubbing import Scrubber
from memoryd.errors import StateError
from memoryd.files import regular
from memoryd.files.log import Log
from memoryd.ledger import facts, profile
from memoryd.ledger.profile import Entry, Section
from memoryd.recall import injection
from memoryd.worker.client import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from memoryd.config import Agent, Settings
    from memoryd.recall.injection import Injection


class Remembered(NamedTuple):
    """What is told, before it is cut to its budget."""

    profile: tuple[str, ...]
    facts: tuple[str, ...]
    parts: tuple[injection.Part, ...]
    unreadable: tuple[str, ...]  # files that are not told, and why


def gather(settings: Settings, agent: Agent, now: datetime) -> Remembered:
    """Read what an agent remembers. Where there is no database yet, its files are all of it.

    Raises:
        StateError: the database cannot be read.
    """
    sections: list[str] = []
    lines: list[str] = []
    if (path := settings.state_dir / DATABASE).exists():
        with reads.open_reader(path) as reader:
            rows = {row["section"]: row for row in reads.profile_rows(reader, agent.id)}
            known = [facts.fact_of(memories.of_row(row)) for row in reads.fact_rows(reader, agent.id)]
        held = {one: Entry(rows[one]["text"], rows[one]["updated_at"]) for one in Section if one in rows}
        sections, lines = profile.render(held), [facts.line(fact) for fact in facts.Store(known).all()]
    parts, unreadable = _files(agent, now.astimezone(settings.zone))
    return Remembered(tuple(sections), tuple(lines), tuple(parts), tuple(unreadable))


def _files(agent: Agent, now: datetime) -> tuple[list[injection.Part], list[str]]:
    days = [(now - timedelta(days=back)).date() for back in (0, 1)]
    parts, unreadable = [], []
    for name in (CORE_FILE, *(f"memory/{day.isoformat()}.md" for day in days)):
        try:
            data = regular.read_in(agent.workspace, name)
        except StateError as error:
            unreadable.append(str(error))
            continue
        if data:
            parts.append(injection.Part(name, data.decode("utf-8", "replace"), newest_last=name != CORE_FILE))
    return parts, unreadable


def redacted(remembered: Remembered, redact: Callable[[Sequence[str]], Sequence[str]]) -> Remembered:
    """The same without secrets."""
    texts = [*remembered.profile, *remembered.facts, *(part.text for part in remembered.parts)]
    clean = iter(redact(texts))
    return remembered._replace(
        profile=tuple(next(clean) for _ in remembered.profile),
        facts=tuple(next(clean) for _ in remembered.facts),
        parts=tuple(part._replace(text=next(clean)) for part in remembered.parts),
    )


def told(remembered: Remembered, budget: injection.Budget, count: injection.Count) -> Injection:
    """What an agent is told within a budget; files that cannot be read are named among what is left out."""
    made = injection.render(remembered.profile, remembered.facts, remembered.parts, budget, count)
    return made._replace(left_out=made.left_out + remembered.unreadable)


def budget_of(settings: Settings, whole: int | None = None, units: int | None = None) -> injection.Budget:
    """The configured budget, less where the whole is to be."""
    return injection.Budget(settings.injection.max_tokens, settings.injection.files_max_tokens, whole, units)


def inject(settings: Settings, agent: Agent, whole: int | None = None) -> Injection:
    """What an agent is told, worked out in this process, with a daemon or without.

    Raises:
        StateError: the database or the worker cannot be used.
    """
    with _worker(settings) as (count, redact):
        return told(redacted(gather(settings, agent, Clock().now()), redact), budget_of(settings, whole), count)


@contextmanager
def _worker(settings: Settings) -> Iterator[tuple[injection.Count, Callable[[Sequence[str]], list[str]]]]:
    worker = Worker(settings.state_dir)
    scrubber = Scrubber(worker, Log("memoryd").bind(part="scrub"))
    scrubber.configure(settings)
    try:
        yield (lambda texts: worker.count(texts).tokens), scrubber.redact
    finally:
        scrubber.close()
