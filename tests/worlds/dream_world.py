"""Dreams on made-up ledgers, all values: what a reply comes to, and the ledger and the file after it.

A second reader is a function that gives its verdict on a question, or the verdict and what is lost; no decoy fools it
unless a test says so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import count

from memoryd.gauge.estimate import estimate
from memoryd.jobs import dream, reader
from memoryd.jobs.claims import Judges
from memoryd.jobs.dream_inputs import DailyEntry, DreamInputs, EarlierMemory
from memoryd.jobs.job import Ask, Done, Reply, RewriteCore, drive
from memoryd.jobs.reader import Subject
from memoryd.jobs.repair import REPAIR
from memoryd.ledger import erosion, steering
from memoryd.ledger.accounting import Unmentioned
from memoryd.ledger.guards import Caller, Context, GuardLimits
from memoryd.ledger.memory import Memory, MemoryKind, Source, hash_of
from memoryd.ledger.operation import apply
from memoryd.ledger.projection import edits_of
from memoryd.offline.cue_judge import CueJudge
from memoryd.text.content import strip_label
from memoryd.tiers import core

TODAY = datetime(2026, 3, 10, 3, 0, tzinfo=UTC)
PEOPLE = {"Ottilie", "Anna", "Bob"}
SOURCE = Source("s", "/t.jsonl", "r", 0, 0, 1, "0" * 64, "user", "2026-03-09T09:00:00.000Z")


def stamp(moment):
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def memory(number, text, days_ago=5, **more):
    at = stamp(TODAY - timedelta(days=days_ago))
    values = {"created_at": at, "updated_at": at, "origin_at": at, "salt": "0" * 32, "position": 1024 * number}
    values |= {"sources": (SOURCE,)} | more
    return Memory(f"core_{number:08x}", "a", MemoryKind.CORE, text, hash_of(text), **values)


def entry(number, text, origin="user", days_ago=1, clock="10:00"):
    moment = TODAY - timedelta(days=days_ago)
    at = f"{moment.date()}T{clock or '23:59'}:00.000Z"
    path = f"memory/{moment.date()}.md"
    return DailyEntry(f"d{number}", text, origin, moment.date(), clock, at, "session", path)


# --- second readers ---


def kind_of(text):
    """The class of one of the memories of these worlds."""
    if steering.is_instruction(strip_label(text)) or steering.is_preference(strip_label(text)):
        return "rule"
    return "person" if PEOPLE & set(text.split()) else "project"


def agreeing(question):
    """The verdict of a reader that believes every claim."""
    match question.subject:
        case Subject.SUPPORT:
            return "newer-value" if question.replaces else "supported"
        case Subject.SCOPE:
            return "standing"
        case _:
            return kind_of(question.claim)


def believing(*claims, other="not-said"):
    """A reader that supports these claims and no other."""

    def judge(question):
        is_true = question.subject is not Subject.SUPPORT or question.claim in claims
        return agreeing(question) if is_true else other

    return judge


def labelling(kind, judge=agreeing):
    """A reader that labels every memory as of one class."""
    return lambda question: kind if question.subject is Subject.CLASS else judge(question)


def told(ask, judge, decoy="not-said"):
    """What a reader replies to a batch of questions."""
    lines = []
    for name, question in ask.about.questions:
        verdict = decoy if name == ask.about.decoy else judge(question)
        verdict, lost = verdict if isinstance(verdict, tuple) else (verdict, [])
        lines.append(json.dumps({"id": name, "verdict": verdict, "lost": lost}))
    return "\n".join(lines)


@dataclass
class Ledger:
    """A core, its file, and what becomes of both night after night."""

    memories: dict[str, Memory] = field(default_factory=dict)
    file: bytes = b""
    now: datetime = TODAY
    limits: GuardLimits = field(default_factory=GuardLimits)
    max_bullets: int = 50
    unmentioned: Unmentioned = Unmentioned.KEEP
    refuses_ungrounded: bool = False
    reader: object = staticmethod(agreeing)  # None: there is no fit one
    decoy: str = "not-said"  # what it says to a decoy
    repaired: str = ""  # what the author replies to a repair
    backend: str = "test"
    asked: list[Ask] = field(default_factory=list)  # besides the dream itself
    forgotten: dict[str, str] = field(default_factory=dict)
    behind: dict[str, tuple] = field(default_factory=dict)  # the sentences of a session that an entry stands on
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
        bullets = {core.normalize(one.text): one.position for one in core.parse(self.file).bullets}
        assert sorted(bullets) == sorted(core.normalize(one.content) for one in live)
        drops = erosion.select_window(self.drops, stamp(self.now))
        context = Context(Caller.REWRITE, "a", {one.id: one for one in live}, estimate, self.limits, drops=drops)
        return DreamInputs(
            earlier=tuple(
                EarlierMemory(f"m{n}", one, date(2026, 3, 5), one.origin_at and one.origin_at[:16])
                for n, one in enumerate(live, 1)
            ),
            entries=entries,
            today=self.now.date(),
            clock=f"{self.now:%H:%M}",
            max_bullets=self.max_bullets,
            unmentioned=self.unmentioned,
            refuses_ungrounded=self.refuses_ungrounded,
            context=replace(context, tombstones=self.forgotten),
            now=stamp(self.now),
            new_id=lambda: f"core_{self.hex()}",
            new_hex=self.hex,
            taken=set(self.memories),
            sources_of=lambda one: (replace(SOURCE, record_id=one.id, at=one.at, origin=one.origin),),
            judges=Judges(CueJudge(), "Check memory claims.", "Again."),
            behind_of=lambda one: self.behind.get(one.id, ()),
        )

    def dream(self, text, *entries, finish="stop"):
        """What the reply comes to, done to ledger and file."""
        inputs = self.inputs(*entries)
        step = self.finished(inputs, Reply(text, finish, self.backend, tokens_in=7, tokens_out=3))
        if isinstance(step, Done):
            for edit in step.edits:
                if isinstance(edit, RewriteCore):
                    self.carry_out(edit)
        return step

    def finished(self, inputs, reply):
        """What a reply comes to when all questions about it are answered."""
        self.asked = []

        def answer(step):
            if step.job == dream.JOB:
                return reply
            self.asked.append(step)
            if step.job == REPAIR:
                return Reply(self.repaired, "stop", self.backend)
            if self.reader is None:
                return Reply("", "stop", reader.UNREAD)
            return Reply(told(step, self.reader, self.decoy), "stop", "reader")

        return drive(dream.decide(inputs), answer)

    @property
    def questions(self):
        """What the second reader was asked, without decoys."""
        batches = [one.about for one in self.asked if one.job == reader.JOB]
        return [one for batch in batches for name, one in batch.questions if name != batch.decoy]

    @property
    def repairs(self):
        """The questions that sent refused claims back to their author."""
        return [one for one in self.asked if one.job == REPAIR]

    def carry_out(self, edit):
        """The edit of a dream, done to ledger and file."""
        changes = apply(
            self.memories, edit.operations, agent_id="a", now=stamp(self.now), new_hex=self.hex, taken=set()
        )
        file, live = core.parse(self.file), self.live
        new = core.edit(file, edits_of(live, changes))
        self.file = core.drop_emptied(file, new, frozenset(one.heading or "" for one in live))
        for change in changes:
            self.memories[change.memory_id] = change.after
        self.drops += [drop for _, drop in erosion.drops_of(changes, self.memories, stamp(self.now))]
        held = sorted(core.normalize(one.text) for one in core.parse(self.file).bullets)
        assert held == sorted(core.normalize(one.content) for one in self.live)

    @property
    def eroded(self):
        """Tokens that were lost within the window."""
        drops = erosion.select_window(self.drops, stamp(self.now))
        return erosion.count_lost(drops, [one.content for one in self.live], estimate)

    @property
    def text(self):
        return self.file.decode()

    @property
    def said(self):
        return [one.text for one in core.parse(self.file).bullets]


def ends(ledger):
    """How each memory that has ended did."""
    return {one.id: str(one.ended_as) for one in ledger.memories.values() if not one.is_live}
