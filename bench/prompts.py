"""Measure how often the lines that memoryd adds to a prompt help, and how often they are noise.

    python bench/prompts.py --transcripts DIR [--gold DIR] [--half tuning|aside] [--places DIR] [--show]

`bench/prompts.json` holds prompts that a person types days after the sessions of a project: some that memory helps to
answer (`helps`), work for which it has nothing (`work`), and small talk or questions about other things (`foreign`).
The hits were graded by hand. The patterns `helps` and `misleads` keep the grades: they match hits that help, and hits
that were outdated at the end of the session. Any other hit is off the topic. For most prompts, no hit is best. memoryd
reads, sleeps and dreams without a model, and each prompt is the first of a session that got its memory at its start.
The rules were tuned on one half of the projects only.

--places keeps the memories of the projects in a folder and reuses them; --show prints each hit with its grade.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from memoryd import config
from memoryd.app import open_app
from memoryd.daemon.loop import Loop
from memoryd.interfaces.hook_answers import HookAnswerer
from memoryd.recall.injection import LEAD

DATA = Path(__file__).with_suffix(".json")
AGE = timedelta(days=3)  # between the end of the last session and the prompts
_STAMP = re.compile(r'("timestamp"\s*:\s*")(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)')
_HIT = re.compile(r"^(\S.*):\n((?: .*\n)+)", re.MULTILINE)


def move(source: Path, target: Path, end: datetime) -> None:
    """Copy a transcript so that it ends at a given time."""
    text = source.read_text(encoding="utf-8", errors="surrogateescape")
    shift = end.replace(tzinfo=None) - max(datetime.fromisoformat(one[2]) for one in _STAMP.finditer(text))
    text = _STAMP.sub(lambda one: f"{one[1]}{(datetime.fromisoformat(one[2]) + shift).isoformat()[:19]}", text)
    target.write_text(text, encoding="utf-8", errors="surrogateescape")
    os.utime(target, (end.timestamp(),) * 2)


def remember(place: Path, sources: list[Path]) -> None:
    """Let memoryd read the sessions of a project, sleep and dream."""
    (place / "ws").mkdir(parents=True)
    (place / "tr").mkdir()
    end = datetime.now(UTC).replace(hour=16, minute=0, second=0, microsecond=0) - AGE
    for number, source in enumerate(reversed(sources)):
        move(source, place / "tr" / source.name, end - timedelta(days=number))
    agent = {"id": "a", "workspace": "ws", "transcripts": [{"path": str(place / "tr/*.jsonl")}]}
    told = {"state_dir": "state", "timezone": "UTC", "ingest": {"history": "flush"}, "agents": [agent]}
    (place / "memoryd.yaml").write_text(json.dumps(told), encoding="utf-8")
    place.chmod(0o700)
    for words in ("run --once", "job run sleep --agent a --force", "job run dream --agent a --lookback-days 14"):
        command = [sys.executable, "-m", "memoryd", "--config", str(place / "memoryd.yaml"), *words.split()]
        subprocess.run(command, cwd=place, capture_output=True, check=False)


def ask(place: Path, prompts: list[dict[str, Any]]) -> list[list[tuple[str, str]]]:
    """Return the hits added to each prompt: the place and the text of each hit."""
    added = []
    with open_app(config.load(place / "memoryd.yaml")) as app:
        answerer = HookAnswerer(app, Loop(app, lambda _settings: None))
        for one in prompts:
            about = {"workspace": str((place / "ws").resolve()), "session": str(uuid4()), "tool": "claude-code"}
            start = answerer.context(about | {"units": 10_000, "source": "startup"})["text"]
            one["known"] = any(grade(line, one) == "helps" for line in start.splitlines())
            text = answerer.prompt(about | {"units": 10_000, "prompt": one["prompt"]})["text"]
            added.append(_HIT.findall(text.partition(f"{LEAD}\n")[2]))
    return added


def grade(hit: str, prompt: dict[str, Any]) -> str:
    """Return the grade of a hit: `helps`, `misleads` or `noise`."""
    told = (one for one in ("helps", "misleads") if re.search(prompt.get(one, r"\Z\A."), hit, re.IGNORECASE))
    return next(told, "noise")


def tell(name: str, answered: list[tuple[dict[str, Any], list[tuple[str, str]]]]) -> None:
    """Print the figures of one half."""
    for kind in ("helps", "work", "foreign"):
        rows = [(prompt, hits) for prompt, hits in answered if prompt["kind"] == kind]
        grades = [[grade(text, prompt) for _, text in hits] for prompt, hits in rows]
        places = Counter(one.index("helps") + 1 for one in grades if "helps" in one)
        of = Counter(verdict for one in grades for verdict in one)
        new = ["helps" in one for (prompt, _), one in zip(rows, grades, strict=True) if not prompt["known"]]
        size = sum(len(text) for _, hits in rows for _, text in hits) / max(1, len(rows))
        print(
            f"{name:7} {kind:7} {len(rows):3} prompts: {sum(map(bool, grades)):3} got something,"
            f" {places.total():3} helped (in place 1/2/3: {places[1]}/{places[2]}/{places[3]}; of {len(new)}"
            f" without a helping line at the start: {sum(new)});"
            f" hits: {of['helps']:3} help, {of['noise']:3} off the topic, {of['misleads']:2} mislead;"
            f" {size:4.0f} characters a prompt"
        )


def main() -> int:
    """Print the figures of both halves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transcripts", type=Path)
    parser.add_argument("--gold", type=Path)
    parser.add_argument("--half", choices=("tuning", "aside"))
    parser.add_argument("--places", type=Path)
    parser.add_argument("--show", action="store_true")
    given, _ = parser.parse_known_args()  # `python -m bench` also gives folders of other benchmarks
    answered: dict[str, list[tuple[dict[str, Any], list[tuple[str, str]]]]] = {"tuning": [], "aside": []}
    with tempfile.TemporaryDirectory() as folder:
        for project in json.loads(DATA.read_text(encoding="utf-8")):
            folders = [one for one in (given.transcripts, given.gold) if one is not None]
            found = [path for name in project["transcripts"] for one in folders if (path := one / name).exists()]
            if not found or given.half not in {None, project["half"]}:
                continue
            place = (given.places or Path(folder)).resolve() / project["project"]
            if not place.exists():
                remember(place, found)
            rows = list(zip(project["prompts"], ask(place, project["prompts"]), strict=True))
            answered[project["half"]] += rows
            for prompt, hits in rows if given.show else ():
                print(f"{project['project']}: {prompt['kind']}: {prompt['prompt']}")
                for path, text in hits:
                    print(f"    {grade(text, prompt)}: {path}: {text.strip()}")
    for half, rows in answered.items():
        if rows:
            tell(half, rows)
    if not any(answered.values()):
        print("prompts: skipped, no transcripts given")
    return 0


if __name__ == "__main__":
    sys.exit(main())
