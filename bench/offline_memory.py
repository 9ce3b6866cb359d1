"""Replay LoCoMo through the sleep job into memory files, to measure how much the offline backend keeps.

    python bench/offline_memory.py EVAL_FOLDER [OUT_FOLDER] [--share 0.25] [--names text|none]

Each LoCoMo session is one session of turns at its own date, flushed as `Session Notes`. OUT_FOLDER/<conversation>/ gets
the files of a workspace. Score them with the folder's own scripts:

    python EVAL_FOLDER/retention.py --dir OUT_FOLDER
    python EVAL_FOLDER/answer_retention.py --dir OUT_FOLDER
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from memoryd.jobs import sleep
from memoryd.jobs.claims import Judges
from memoryd.jobs.job import AddMemories, AppendDaily, Done, JobEdit, KeepSummary, NewMemory, drive
from memoryd.offline import backend as offline
from memoryd.offline.cue_judge import CueJudge
from memoryd.transcripts.turn import Origin, Role, StoredTurn, TurnKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


JUDGES = Judges(CueJudge())


def _count(texts: Sequence[str]) -> list[int]:
    return [-(-len(text) // 4) for text in texts]


def _sessions(conversation: dict) -> Iterator[tuple[int, datetime, list[dict]]]:
    number = 1
    while f"session_{number}_date_time" in conversation or f"session_{number}" in conversation:
        turns = conversation.get(f"session_{number}") or []
        if turns:
            stamp = conversation[f"session_{number}_date_time"]
            yield number, datetime.strptime(stamp, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC), turns
        number += 1


def _turns(at: datetime, rows: list[dict], user: str, names: str) -> tuple[StoredTurn, ...]:
    turns = []
    for seq, row in enumerate(rows, 1):
        text = row.get("text", "") + (f" [shares a photo: {row['blip_caption']}]" if row.get("blip_caption") else "")
        text = f"{row['speaker']}: {text}" if names == "text" else text
        role = Role.USER if row["speaker"] == user else Role.ASSISTANT
        stamp = (at + timedelta(seconds=30 * seq)).strftime("%Y-%m-%dT%H:%M:%SZ")
        sidechain = False
        turns.append(
            StoredTurn(
                seq, row["dia_id"], 0, role, Origin(role.value), TurnKind.MESSAGE, text, stamp, 0, sidechain, None, None
            )
        )
    return tuple(turns)


@dataclass
class _Workspace:
    """Hold the memory files of one conversation during its replay."""

    daily: dict[str, str] = field(default_factory=dict)
    added: list[NewMemory] = field(default_factory=list)
    summary: str | None = None
    seconds: float = 0.0

    @property
    def core(self) -> list[str]:
        return [memory.text for memory in self.added]

    def sleep(self, name: str, turns: tuple[StoredTurn, ...], share: float) -> None:
        day = self.daily.get((turns[0].at or "")[:10], "")
        inputs = sleep.SleepInputs(
            agent_id="bench", session_id=name, folder=None, reason="Session Notes", turns=turns, live=turns,
            previous_summary=None, core=tuple(self.core), daily=day, window=200_000, budget=0.25, keep_recent=10,
            strategy="hybrid", tz=UTC, count_tokens=_count, now=datetime(2024, 1, 1, tzinfo=UTC),
            instructions=_instructions(), judges=JUDGES, daily_share=share,
        )  # fmt: skip
        begun = time.process_time()
        step = drive(sleep.decide(inputs), offline.answer)
        self.seconds += time.process_time() - begun
        for edit in step.edits if isinstance(step, Done) else ():
            self.apply(edit)

    def apply(self, edit: JobEdit) -> None:
        if isinstance(edit, AppendDaily):
            head = f"# Daily Memory: {edit.day}\n"
            self.daily[str(edit.day)] = (
                self.daily.get(str(edit.day), head) + f"\n## {edit.reason} ({edit.clock})\n\n{edit.body}\n"
            )
        elif isinstance(edit, AddMemories):
            self.added += edit.memories
        elif isinstance(edit, KeepSummary):
            self.summary = edit.summary

    def write(self, folder: Path) -> None:
        (folder / "memory").mkdir(parents=True, exist_ok=True)
        for day, text in self.daily.items():
            (folder / "memory" / f"{day}.md").write_text(text, encoding="utf-8")
        if self.core:
            (folder / "MEMORY.md").write_text("".join(f"- {text}\n" for text in self.core), encoding="utf-8")


def _instructions() -> str:
    return resources.files("memoryd.jobs").joinpath("sleep.md").read_text(encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--share", type=float, default=sleep.DAILY_SHARE)
    parser.add_argument("--names", choices=("text", "none"), default="text")
    given = parser.parse_args()
    data = given.folder / "data" / "locomo" / "locomo10.json" if given.folder else None
    if data is None or not data.exists():
        print("offline_memory: skipped, no evaluation folder given (the first argument)")
        return 0
    out = given.out or Path(tempfile.mkdtemp(prefix="offline-memory-"))
    total = written = seconds = 0.0
    for one in json.loads(data.read_text(encoding="utf-8")):
        space = _Workspace()
        for number, at, rows in _sessions(one["conversation"]):
            turns = _turns(at, rows, one["conversation"]["speaker_a"], given.names)
            space.sleep(f"{one['sample_id']}-{number}", turns, given.share)
            total += sum(
                len(f"{row['speaker']}: {turn.text}".split()) - (given.names == "text")
                for row, turn in zip(rows, turns, strict=True)
            )
        space.write(out / one["sample_id"])
        written += sum(len(text.split()) for text in [*space.daily.values(), *(f"- {text}" for text in space.core)])
        seconds += space.seconds
    print(f"offline_memory: kept {written / total:.3f} of {total:.0f} words in {seconds:.2f} s; files in {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
