"""What a dream without a model keeps, whether it makes anything up, and how long it takes.

    python bench/dream.py EVAL_FOLDER [OUT_FOLDER] [--shares 0.25,0.10,0.05]

Each conversation of LoCoMo is replayed: every session sleeps at its own date into a daily file, and every night that
follows one is dreamt, with a budget that is a share of all words said so far. Evidence kept is the share of questions
(categories 1 to 4) whose evidence turns are all covered by a line of `MEMORY.md`, as `retention.py` of the folder
measures it: 60 % of a turn's content words by inverse frequency; the two differ by how words are stemmed. The weights
were set on the conversations at even places; those at odd places were only measured. A bullet is unsupported where the
turns of its day do not hold what it says (`ledger.grounding`); as a control the same bullets are judged by the turns of
another conversation. The files land in OUT_FOLDER/SHARE/CONVERSATION/.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from offline_memory import _sessions as sessions_of
from offline_memory import _turns as turns_of
from offline_memory import _Workspace as Workspace

from memoryd.jobs import dream_reply
from memoryd.jobs.job import Ask, Quoted, Reply
from memoryd.ledger.grounding import Ground, Source
from memoryd.llm import offline, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import date

COVERED = 0.6
CATEGORIES = range(1, 5)
MANY = 100_000  # bullets: only the words are to bound the core
_EVIDENCE = re.compile(r"D:?\s*(\d+)\s*:\s*0*(\d+)")
DAYS = (91, 182, 365)
LARGE_CORE = 10_000


@dataclass
class Core:
    """The core of one conversation while it is dreamt."""

    bullets: list[tuple[str, str, str]] = field(default_factory=list)  # heading, text, day it stands on
    seconds: float = 0.0

    def dream(self, day: str, entries: Sequence[tuple[str, str]], limit: int) -> None:
        """Dream of one day."""
        earlier = [
            Quoted(f"m{n}", "memory", "user", f"{at}T00:00", text) for n, (_, text, at) in enumerate(self.bullets, 1)
        ]
        daily = [Quoted(f"d{n}", "daily", origin, f"{day}T12:00", text) for n, (origin, text) in enumerate(entries, 1)]
        headings = "\n".join(f"m{n} {heading}" for n, (heading, _, _) in enumerate(self.bullets, 1) if heading)
        given = (("today", day), ("bullets", str(MANY)), ("headings", headings), ("words", str(limit)))
        begun = time.process_time()
        answer = offline.answer(Ask("dream", "", (*earlier, *daily), given))
        self.seconds += time.process_time() - begun
        parsed = dream_reply.parse(answer)
        assert isinstance(parsed, dream_reply.Parsed), parsed
        at = {f"m{n}": held for n, (_, _, held) in enumerate(self.bullets, 1)}
        self.bullets = [
            (section.heading, bullet.text, min(at.get(cite, day) for cite in bullet.cites))
            for section in parsed.sections
            for bullet in section.bullets
        ]

    def text(self) -> str:
        """The file."""
        found: dict[str, list[str]] = defaultdict(list)
        for heading, text, _ in self.bullets:
            found[heading].append(f"- {text}\n")
        return "".join(
            f"## {heading}\n{''.join(lines)}" if heading else "".join(lines) for heading, lines in found.items()
        )


@dataclass
class Figures:
    """What was counted of some conversations."""

    kept: int = 0
    asked: int = 0
    words: int = 0
    said: int = 0
    bullets: int = 0
    unsupported: int = 0
    by_another: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"evidence {self.kept / self.asked:.3f} of {self.asked} questions, {self.words / self.said:.3f} of the words, "
            f"unsupported {self.unsupported} of {self.bullets} bullets (by another talk {self.by_another}), "
            f"{self.seconds:.1f} s of dreams"
        )


def entries_of(daily: str, origins: dict[str, str]) -> list[tuple[str, str]]:
    found = []
    for line in daily.splitlines():
        if line.startswith("- "):
            text = line[2:].strip()
            found.append((origins.get(text.partition(":")[0], "report"), text))
    return found


def replayed(one: dict, share: float) -> tuple[Core, int, dict[str, list[str]]]:
    """Return the core after the last night, the words said, and the turns by day."""
    talk = one["conversation"]
    user = talk["speaker_a"]
    space, core, said, asleep = Workspace(), Core(), 0, 0
    by_day: dict[str, list[str]] = defaultdict(list)
    origins = {user: "user", talk["speaker_b"]: "user"}
    for number, at, rows in sessions_of(talk):
        turns = turns_of(at, rows, user, "text")
        day = f"{at:%Y-%m-%d}"
        by_day[day] += [turn.text for turn in turns]
        said += sum(len(turn.text.split()) for turn in turns)
        held = len(space.core)
        space.sleep(f"{one['sample_id']}-{number}", turns, 0.25)
        core.bullets += [("", text, day) for text in space.core[held:]]
        asleep += 1
        core.dream(day, entries_of(space.daily.get(day, ""), origins), int(share * said))
    return core, said, by_day


def covered(one: dict, text: str) -> tuple[int, int]:
    """Return how many questions keep all their evidence, and how many there are."""
    turns = {}
    for number, _, rows in sessions_of(one["conversation"]):
        for row in rows:
            caption = f" [shares a photo: {row['blip_caption']}]" if row.get("blip_caption") else ""
            turns[row["dia_id"]] = set(words.content(f"{row['speaker']}: {row.get('text', '')}{caption}"))
    holding = Counter(word for own in turns.values() for word in own)
    lines = [set(words.content(line)) for line in text.splitlines()]

    def weight(some: Iterable[str]) -> float:
        return sum(math.log((len(turns) + 1) / (holding[word] + 0.5)) for word in some)

    held = {
        turn: bool(own) and max((weight(own & line) for line in lines), default=0) >= COVERED * weight(own)
        for turn, own in turns.items()
    }
    kept = asked = 0
    for question in one["qa"]:
        named = {f"D{a}:{b}" for e in question.get("evidence", []) for a, b in _EVIDENCE.findall(str(e))} & set(turns)
        if named and question["category"] in CATEGORIES:
            asked += 1
            kept += all(held[turn] for turn in named)
    return kept, asked


def unsupported(core: Core, by_day: dict[str, list[str]]) -> int:
    grounds = {day: Ground([Source(text, _date(day)) for text in texts]) for day, texts in by_day.items()}
    fallback = next(iter(grounds.values()))
    return sum(1 for _, text, day in core.bullets if grounds.get(day, fallback).missing(text) is not None)


def _date(day: str) -> date:
    from datetime import date

    return date.fromisoformat(day)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--shares", default="0.25,0.10,0.05")
    given = parser.parse_args()
    out = given.out or Path(tempfile.mkdtemp(prefix="dream-"))
    data = json.loads((given.folder / "data" / "locomo" / "locomo10.json").read_text(encoding="utf-8"))
    for share in map(float, given.shares.split(",")):
        halves = (Figures(), Figures())
        done = [replayed(one, share) for one in data]
        for place, (one, (core, said, by_day)) in enumerate(zip(data, done, strict=True)):
            half = halves[place % 2]
            text = core.text()
            kept, asked = covered(one, text)
            half.kept, half.asked = half.kept + kept, half.asked + asked
            half.words, half.said = half.words + len(text.split()), half.said + said
            half.bullets += len(core.bullets)
            half.unsupported += unsupported(core, by_day)
            half.by_another += unsupported(core, dict(zip(by_day, done[place - 1][2].values(), strict=False)))
            half.seconds += core.seconds
            folder = out / f"{share:g}" / one["sample_id"]
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "MEMORY.md").write_text(text, encoding="utf-8")
        for name, half in zip(("even", "odd"), halves, strict=True):
            print(f"dream: {share:.0%} {name}: {half}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
