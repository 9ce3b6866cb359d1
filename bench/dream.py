"""Measure what a dream without a model keeps, whether it invents anything, and how long it takes.

    python bench/dream.py EVAL_FOLDER [OUT_FOLDER] [--bullets 50,25]

Quality: the script replays each conversation of LoCoMo. Every session sleeps at its own date into a daily file. In the
night after it, the whole job, with its guards, dreams of this file. The core holds at most `dream.max_bullets` bullets.
Each conversation is replayed twice: as a chat of two people, whose names come before their messages, and as a chat of a
user with an assistant, whose statements count less. "Evidence kept" is the share of questions (categories 1 to 4) whose
evidence turns are all covered by lines of `MEMORY.md`. A line covers a turn if it has 60 % of the turn's content words,
weighted by inverse frequency. `retention.py` of the folder measures the same with other word stems. Weights were set on
the conversations at even places; those at odd places were only measured. A bullet is unsupported if the turns of its
day do not hold each of its sentences. As a control, the same bullets are compared with the days of another
conversation. The files are in OUT_FOLDER/chat-BULLETS/CONVERSATION/, where the folder's own scripts can score them.

Time: dreams of more and more days of daily files, whose cost must grow in proportion, and a dream of a core of 10,000.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offline_memory import JUDGES
from offline_memory import _sessions as sessions_of
from offline_memory import _turns as turns_of
from offline_memory import _Workspace as Workspace

from memoryd.jobs import dream as job
from memoryd.jobs.dream_inputs import DailyEntry, DreamInputs, EarlierMemory
from memoryd.jobs.job import HEADINGS, Ask, Done, Reply, RewriteCore, drive
from memoryd.ledger.accounting import Unmentioned
from memoryd.ledger.guards import Caller, Context
from memoryd.ledger.memory import Memory, MemoryKind, Source
from memoryd.ledger.operation import Add, Change, Operation, apply
from memoryd.ledger.projection import edits_of
from memoryd.offline import backend as offline
from memoryd.offline import words
from memoryd.offline.sentences import split_sentences
from memoryd.text import normal
from memoryd.text.content import strip_label
from memoryd.tiers import core
from memoryd.transcripts.turn import Origin, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


COVERED = 0.6
CATEGORIES = range(1, 5)
MANY = 1_000_000  # bullets, where none is to go
DAILY_SHARE = 0.25  # of the words said, as sleep keeps by default
DAYS = (91, 182, 365)
ENTRIES_A_DAY = 20
LARGE_CORE = 10_000
_WITH_IT = re.compile(r" \((?:asked: [^()]*|\d{4}[-\d/]*|as of [\d-]+)\)|^[A-Z]\w+: ")
_EVIDENCE = re.compile(r"D:?\s*(\d+)\s*:\s*0*(\d+)")


class Core:
    """Hold a ledger and its `MEMORY.md`, without a database."""

    def __init__(self, bullets: int = MANY) -> None:
        self.bullets = bullets
        self.memories: dict[str, Memory] = {}
        self.file = b""
        self.refused: Counter[str] = Counter()
        self.offline = self.whole = 0.0  # seconds
        self._hex = count(1)

    @property
    def live(self) -> list[Memory]:
        return sorted((one for one in self.memories.values() if one.is_live), key=lambda one: one.position or 0)

    def add(self, lines: Iterable[tuple[str, str, str, float]], day: date, origin: str) -> None:
        """Add memories, as (type, heading, text, importance), in the way of a sleep."""
        at = f"{day}T12:00:00Z"
        adds = [
            Add(
                MemoryKind.CORE,
                text,
                cites=(self._source(day, origin, at),),
                category=kind,
                importance=weight,
                heading=heading,
            )
            for kind, heading, text, weight in lines
        ]
        self.file = core.add(core.parse(self.file), [(one.heading or "", one.content) for one in adds])
        self._apply(adds, at)

    def hold(self, text: str, day: date, position: int) -> None:
        """Add a memory that the file already has."""
        at = f"{day}T12:00:00Z"
        self._apply(
            [
                Add(
                    MemoryKind.CORE,
                    text,
                    cites=(self._source(day, "user", at),),
                    category="fact",
                    importance=0.7,
                    position=position,
                )
            ],
            at,
        )

    def __str__(self) -> str:
        times = f"{self.offline:.2f} s offline, {self.whole:.2f} s with the job"
        return f"{times}, {len(self.live)} memories, refused {self.refused.total()}"

    def dream(self, day: date, entries: Sequence[tuple[str, str, date]]) -> None:
        """Dream of entries (origin, text, day)."""
        begun = time.process_time()
        inputs = self._inputs(day, entries)

        def answer(ask: Ask) -> Reply:
            asked = time.process_time()
            reply = offline.answer(ask)
            self.offline += time.process_time() - asked
            return reply

        done = drive(job.decide(inputs), answer)
        assert isinstance(done, Done), done
        self.refused.update(done.receipt["dream"]["refusals"])
        self.refused.update(["run"] if done.declined or done.why else [])
        for edit in done.edits:
            if isinstance(edit, RewriteCore):
                live = self.live
                changes = self._apply(edit.operations, inputs.now)
                file = core.parse(self.file)
                new = core.edit(file, edits_of(live, changes))
                self.file = core.drop_emptied(file, new, frozenset(one.heading or "" for one in live))
        self.whole += time.process_time() - begun

    def _inputs(self, day: date, entries: Sequence[tuple[str, str, date]]) -> DreamInputs:
        live = self.live
        moments = [one.origin_at or one.created_at for one in live]
        earlier = tuple(
            EarlierMemory(f"m{n}", one, date.fromisoformat(at[:10]), at[:16])
            for n, (one, at) in enumerate(zip(live, moments, strict=True), 1)
        )
        given = tuple(
            DailyEntry(f"d{n}", text, origin, at, "12:00", f"{at}T12:00:00Z", "s", f"memory/{at}.md")
            for n, (origin, text, at) in enumerate(entries, 1)
        )
        return DreamInputs(
            earlier=earlier,
            entries=given,
            today=day,
            clock="23:00",
            max_bullets=self.bullets,
            unmentioned=Unmentioned.KEEP,
            refuses_ungrounded=False,
            context=Context(Caller.REWRITE, "bench", dict(self.memories), lambda text: -(-len(text) // 4)),
            now=f"{day}T23:00:00Z",
            new_id=lambda: f"core_{next(self._hex):08x}",
            new_hex=lambda: f"{next(self._hex):08x}",
            taken=self.memories.keys(),
            sources_of=lambda entry: (self._source(entry.day, entry.origin, entry.at),),
            judges=JUDGES,
        )

    def _source(self, day: date, origin: str, at: str) -> Source:
        return Source("s", "bench", f"{day}", 0, 0, 0, "", origin, at)

    def _apply(self, operations: Sequence[Operation], now: str) -> list[Change]:
        new_hex = lambda: f"{next(self._hex):08x}"  # noqa: E731
        changes = apply(self.memories, operations, agent_id="bench", now=now, new_hex=new_hex)
        for change in changes:
            self.memories[change.memory_id] = change.after
        return changes


# ── quality ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Figures:
    """Hold the counts of some conversations."""

    kept: int = 0
    asked: int = 0
    words: int = 0
    said: int = 0
    bullets: int = 0
    unsupported: int = 0
    by_another: int = 0
    refused: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"evidence {self.kept / self.asked:.3f} of {self.asked} questions in {self.words / self.said:.3f} of the "
            f"words; unsupported {self.unsupported} of {self.bullets} bullets (by another talk {self.by_another}), "
            f"refused {self.refused}, {self.seconds:.1f} s"
        )


@dataclass
class Replayed:
    """Hold one conversation after its last night."""

    core: Core
    said: int  # words
    by_day: dict[date, list[str]]  # texts of its turns


def replayed(one: dict[str, Any], bullets: int, *, is_chat: bool) -> Replayed:
    talk = one["conversation"]
    space, kept, said = Workspace(), Core(bullets), 0
    by_day: dict[date, list[str]] = defaultdict(list)
    for number, at, rows in sessions_of(talk):
        turns = turns_of(at, rows, talk["speaker_a"], "text" if is_chat else "none")
        if is_chat:
            turns = tuple(turn._replace(role=Role.USER, origin=Origin.USER) for turn in turns)
        day = at.date()
        by_day[day] += [turn.text for turn in turns]
        said += sum(len(turn.text.split()) + (not is_chat) for turn in turns)
        held = len(space.added)
        space.sleep(f"{one['sample_id']}-{number}", turns, DAILY_SHARE)
        new = [
            (str(memory.type), HEADINGS[memory.type], memory.text, memory.importance) for memory in space.added[held:]
        ]
        kept.add(new, day, "user")
        lines = [line[2:].strip() for line in space.daily.get(str(day), "").splitlines() if line.startswith("- ")]
        entries = [("user" if is_chat or line.startswith("User:") else "assistant", line, day) for line in lines]
        if entries:
            kept.dream(day, entries)
    return Replayed(kept, said, by_day)


def covered(one: dict[str, Any], text: str) -> tuple[int, int]:
    """Return how many questions keep all their evidence, and how many there are."""
    turns = {}
    for _, _, rows in sessions_of(one["conversation"]):
        for row in rows:
            caption = f" [shares a photo: {row['blip_caption']}]" if row.get("blip_caption") else ""
            turns[row["dia_id"]] = set(words.list_content_words(f"{row['speaker']}: {row.get('text', '')}{caption}"))
    holding = Counter(word for own in turns.values() for word in own)
    lines = [set(words.list_content_words(line)) for line in text.splitlines()]

    def weight(some: Iterable[str]) -> float:
        return sum(math.log((len(turns) + 1) / (holding[word] + 0.5)) for word in some)

    held = {
        turn: bool(own) and max((weight(own & line) for line in lines), default=0) >= COVERED * weight(own)
        for turn, own in turns.items()
    }
    named = [
        {f"D{a}:{b}" for e in question.get("evidence", []) for a, b in _EVIDENCE.findall(str(e))} & set(turns)
        for question in one["qa"]
        if question["category"] in CATEGORIES
    ]
    return sum(all(held[turn] for turn in some) for some in named if some), sum(map(bool, named))


def unsupported(kept: Core, by_day: dict[date, list[str]]) -> int:
    """Return the number of bullets that the turns of their days do not support."""
    held = {
        day: [normal.normalize_quotation(line) for text in texts for line in split_sentences(text)]
        for day, texts in by_day.items()
    }
    return sum(
        any(
            not any(normal.normalize_quotation(_WITH_IT.sub("", part)) in line for day in days for line in held[day])
            for part in split_sentences(_WITH_IT.sub("", strip_label(one.content)))
        )
        for one in kept.live
        if (days := {date.fromisoformat(source.record_id) for source in one.sources} & held.keys())
    )


def quality(data: Sequence[dict[str, Any]], out: Path, sizes: Sequence[int]) -> None:
    for name, is_chat in (("chat", True), ("assistant", False)):
        for bullets in sizes:
            halves = {"even": Figures(), "odd": Figures()}
            done = [replayed(one, bullets, is_chat=is_chat) for one in data]
            for place, (one, night) in enumerate(zip(data, done, strict=True)):
                half = halves["odd" if place % 2 else "even"]
                text = night.core.file.decode()
                kept, asked = covered(one, text)
                half.kept, half.asked = half.kept + kept, half.asked + asked
                half.words, half.said = half.words + len(text.split()), half.said + night.said
                half.bullets += len(night.core.live)
                half.unsupported += unsupported(night.core, night.by_day)
                other = done[place - 1].by_day
                half.by_another += unsupported(night.core, dict(zip(night.by_day, other.values(), strict=False)))
                half.refused += night.core.refused.total()
                half.seconds += night.core.whole
                folder = out / f"{name}-{bullets}" / one["sample_id"]
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "MEMORY.md").write_text(text, encoding="utf-8")
            for part, half in halves.items():
                print(f"dream: {name} {bullets} bullets, {part}: {half}", flush=True)


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Babble:
    """Make sentences of made-up words, in the forms that a dream looks for and in others."""

    def __init__(self) -> None:
        self._random = random.Random(7)
        self._words = ["".join(self._syllable() for _ in range(self._random.randint(2, 4))) for _ in range(4000)]

    def _syllable(self) -> str:
        return self._random.choice("bcdfglmnprstv") + self._random.choice("aeiou")

    def line(self) -> tuple[str, str]:
        """Return an origin and a text."""
        draw = self._random.choice
        one, two, three, four = (draw(self._words) for _ in range(4))
        number = self._random.randint(1, 999)
        said = draw(
            (
                f"User: Always run the {one} {two} before you {three} the {four}.",
                f"User: Our {one} {two} is {three.capitalize()} {number}.",
                f"User: We moved the {one} from {two.capitalize()} to {three.capitalize()} because it was {four}.",
                f"User: I prefer {one} over {two} for {three}.",
                f"Assistant: The {one} {two} of the {three}s is {four} and has {number} parts.",
                f"Assistant: The root cause was the {one}, which drops the {two} over {number} KB.",
                f"Report: The {one} {two} failed {number} times in {three.capitalize()}.",
            )
        )
        return said.partition(":")[0].lower(), said


def timed() -> None:
    first = date(2025, 1, 1)
    for days in DAYS:
        babble, kept = Babble(), Core(bullets=50)
        entries = [(*babble.line(), first + timedelta(days=n)) for n in range(days) for _ in range(ENTRIES_A_DAY)]
        kept.dream(first + timedelta(days=days), entries)
        print(
            f"dream: {days} days of {ENTRIES_A_DAY} entries: {kept}, {1000 * kept.whole / days:.2f} ms a day",
            flush=True,
        )
    babble, kept = Babble(), Core(bullets=LARGE_CORE)
    told = [babble.line()[1] for _ in range(LARGE_CORE)]
    kept.file = "".join(f"- {text}\n" for text in told).encode()
    for place, text in enumerate(told):
        kept.hold(text, first + timedelta(days=place // 50), place)
    entries = [(*babble.line(), first + timedelta(days=300)) for _ in range(2 * ENTRIES_A_DAY)]
    kept.dream(first + timedelta(days=301), entries)
    print(f"dream: a core of {LARGE_CORE} memories: {kept}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--bullets", default="50,25")
    given = parser.parse_args()
    timed()
    data = given.folder / "data" / "locomo" / "locomo10.json" if given.folder else None
    if data is None or not data.exists():
        print("dream: quality skipped, no evaluation folder given (the first argument)")
        return 0
    out = given.out or Path(tempfile.mkdtemp(prefix="dream-"))
    quality(json.loads(data.read_text(encoding="utf-8")), out, [int(one) for one in given.bullets.split(",")])
    print(f"dream: files in {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
