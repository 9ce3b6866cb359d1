"""Dreams on made-up ledgers, all values: what a reply comes to, and the ledger and the file after it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import count

from memoryd.engine.core_search import searching
from memoryd.gauge.estimate import estimate
from memoryd.jobs import dream
from memoryd.jobs.consolidation import Earlier, Entry
from memoryd.jobs.dream import DreamInputs
from memoryd.jobs.job import Done, Reply, RewriteCore
from memoryd.ledger import erosion
from memoryd.ledger.accounting import Unmentioned
from memoryd.ledger.guards import Context, Door, Limits
from memoryd.ledger.memory import Kind, Memory, Source, hash_of
from memoryd.ledger.operation import apply
from memoryd.tiers import core

TODAY = datetime(2026, 3, 10, 3, 0, tzinfo=UTC)
SOURCE = Source("s", "/t.jsonl", "r", 0, 0, 1, "0" * 64, "user", "2026-03-09T09:00:00.000Z")


def stamp(moment):
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def memory(number, text, days_ago=5, **more):
    at = stamp(TODAY - timedelta(days=days_ago))
    values = {"created_at": at, "updated_at": at, "origin_at": at, "salt": "0" * 32, "position": 1024 * number}
    values |= {"sources": (SOURCE,)} | more
    return Memory(f"core_{number:08x}", "a", Kind.CORE, text, hash_of(text), **values)


def entry(number, text, origin="user", days_ago=1, clock="10:00"):
    moment = TODAY - timedelta(days=days_ago)
    at = f"{moment.date()}T{clock or '23:59'}:00.000Z"
    path = f"memory/{moment.date()}.md"
    return Entry(f"d{number}", text, origin, moment.date(), clock, at, "session", path)


@dataclass
class Ledger:
    """A core, its file, and what becomes of both night after night."""

    memories: dict[str, Memory] = field(default_factory=dict)
    file: bytes = b""
    now: datetime = TODAY
    limits: Limits = field(default_factory=Limits)
    max_bullets: int = 50
    unmentioned: Unmentioned = Unmentioned.KEEP
    refuses_ungrounded: bool = False
    forgotten: dict[str, str] = field(default_factory=dict)
    drops: list[erosion.Drop] = field(default_factory=list)
    made: count = field(default_factory=lambda: count(0x1000))

    @classmethod
    def of(cls, *memories, **more):
        """A ledger, and the file it projects to."""
        ledger = cls({one.id: one for one in memories}, **more)
        headings = dict.fromkeys(one.heading or "" for one in memories)
        parts = []
        for heading in headings:
            lines = [f"- {one.content}\n" for one in memories if (one.heading or "") == heading]
            parts.append((f"## {heading}\n\n" if heading else "") + "".join(lines))
        ledger.file = "\n".join(parts).encode()
        return ledger

    @property
    def live(self):
        found = [one for one in self.memories.values() if one.is_live]
        return sorted(found, key=lambda one: (one.position is None, one.position or 0))

    def hex(self):
        return f"{next(self.made):08x}"

    def inputs(self, *entries):
        live = self.live
        bullets = {core.normal(one.text): one.position for one in core.parse(self.file).bullets}
        assert sorted(bullets) == sorted(core.normal(one.content) for one in live)
        drops = erosion.within(self.drops, stamp(self.now))
        context = Context(Door.REWRITE, "a", {one.id: one for one in live}, estimate, self.limits, drops=drops)
        return DreamInputs(
            earlier=tuple(Earlier(f"m{n}", one, date(2026, 3, 5)) for n, one in enumerate(live, 1)),
            entries=entries,
            today=self.now.date(),
            clock=f"{self.now:%H:%M}",
            max_bullets=self.max_bullets,
            unmentioned=self.unmentioned,
            refuses_ungrounded=self.refuses_ungrounded,
            context=replace(context, tombstones=self.forgotten.keys()),
            forgotten=self.forgotten,
            file=self.file,
            places={one.id: bullets[core.normal(one.content)] for one in live},
            now=stamp(self.now),
            new_id=lambda: f"core_{self.hex()}",
            new_hex=self.hex,
            taken=set(self.memories),
            sources_of=lambda one: (replace(SOURCE, record_id=one.id, at=one.at, origin=one.origin),),
            searching=lambda file, memories: searching(file, memories, {}),
        )

    def dream(self, text, *entries, finish="stop"):
        """What the reply comes to, done to ledger and file."""
        inputs = self.inputs(*entries)
        step = dream.resume(inputs, dream.begin(inputs), Reply(text, finish, "test", tokens_in=7, tokens_out=3))
        if isinstance(step, Done):
            for edit in step.edits:
                if isinstance(edit, RewriteCore):
                    self._rewrite(edit)
        return step

    def _rewrite(self, edit):
        changes = apply(
            self.memories, edit.operations, agent_id="a", now=stamp(self.now), new_hex=self.hex, taken=set()
        )
        for change in changes:
            self.memories[change.memory_id] = change.after
        self.drops += [drop for _, drop in erosion.drops_of(changes, self.memories, stamp(self.now))]
        self.file = edit.new
        held = sorted(core.normal(one.text) for one in core.parse(self.file).bullets)
        assert held == sorted(core.normal(one.content) for one in self.live)

    @property
    def eroded(self):
        """Tokens that were lost within the window."""
        drops = erosion.within(self.drops, stamp(self.now))
        return erosion.lost(drops, [one.content for one in self.live], estimate)

    @property
    def text(self):
        return self.file.decode()

    @property
    def said(self):
        return [one.text for one in core.parse(self.file).bullets]


def ends(ledger):
    """How each memory that has ended did."""
    return {one.id: str(one.ended_as) for one in ledger.memories.values() if not one.is_live}
