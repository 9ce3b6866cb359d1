"""Measure one sleep as `MEMORY.md` grows: its time must depend on the new text, not on the size of the file.

usage: bench/growing_core.py [--profile]

Each run is complete: memoryd reads two new turns, and the offline backend carries out the sleep, with redaction and
commit. The figure is the fastest of nine runs after two warm-up runs, because a busy machine can only add time. The
limit compares the largest core with the smallest. The script also prints the figure for a day's file of as many lines.
`--profile` prints where the time goes with the largest core.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import random
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from memoryd import app, config
from memoryd.daemon.once import run_once
from memoryd.database import runs
from memoryd.running.core_watch import CoreWatch

BULLETS = (100, 1_000, 5_000)
WARM, REPEATS = 2, 9
RATIO_MAX = 3.0
FILLER = "The report of the nightly build names every module that was compiled. " * 40


def bullet(number: int) -> str:
    """Return a decision in the daemon's form, with unique words."""
    draw = random.Random(number)
    words = " ".join("".join(draw.choices("bdfgklmnprst", k=1)) + draw.choice("aeiou") * 2 + "n" for _ in range(4))
    return f"- User: We decided to store dataset d{number} in bucket {words} b{number} because audits need it.\n"


def write(folder: Path, bullets: int, lines: int) -> config.Settings:
    """Write a workspace with that many bullets and lines in today's file, and a configuration."""
    for name in ("sessions", "memory"):
        (folder / "workspace" / name).mkdir(parents=True)
    text = "".join(bullet(number) for number in range(bullets))
    (folder / "workspace" / "MEMORY.md").write_text(f"# Memory\n\n## Decisions\n\n{text}", encoding="utf-8")
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    text = "".join(bullet(-number) for number in range(1, lines + 1))
    (folder / "workspace" / "memory" / f"{day}.md").write_text(f"# Daily Memory: {day}\n\n{text}", encoding="utf-8")
    path = folder / "memoryd.yaml"
    agent = {
        "id": "demo", "workspace": str(folder / "workspace"), "context_window": 400,
        "transcripts": [{"path": "sessions/*.jsonl", "format": "messages"}],
    }  # fmt: skip
    # A sleep adds less to a full core, so no core counts as full here.
    more = {
        "modes": {"facts": "off"}, "sleep": {"cooldown": "0s"}, "ingest": {"settle": "0s"},
        "dream": {"max_bullets": BULLETS[-1]},
    }  # fmt: skip
    path.write_text(
        json.dumps({"state_dir": str(folder / "state"), "timezone": "UTC", "agents": [agent], **more}), encoding="utf-8"
    )
    return config.load(path)


def say(folder: Path, number: int) -> None:
    """Write one exchange that is worth keeping, as a new session."""
    at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    asked = f"We decided to store archive a{number}x in bucket z{number}y because reviewers need it."
    lines = [
        {"role": "user", "content": asked, "timestamp": at},
        {"role": "assistant", "content": FILLER, "timestamp": at},
    ]
    path = folder / "workspace" / "sessions" / f"s{number}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def measure(bullets: int, lines: int = 0, profile: cProfile.Profile | None = None) -> float:
    """Return the fewest seconds of a run with that many bullets and lines in the day's file."""
    taken = []
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        with app.open_app(write(folder, bullets, lines)) as opened:
            say(folder, 0)
            run_once(opened)
            CoreWatch(opened.runner).take(opened.settings.agents[0])
            for number in range(1, WARM + REPEATS + 1):
                say(folder, number)
                if profile is not None and number > WARM:
                    profile.enable()
                begun = time.perf_counter()
                done = run_once(opened)
                taken.append(time.perf_counter() - begun)
                if profile is not None:
                    profile.disable()
                assert [runs.get_run(opened.engine, one).state for one in done["runs"]] == ["succeeded"], done
        held = (folder / "workspace" / "MEMORY.md").read_text(encoding="utf-8").count("\n- ")
        assert held == bullets + WARM + REPEATS + 1, held
    return min(taken[WARM:])


def main() -> int:
    """Measure each size."""
    least = {}
    for bullets in BULLETS:
        least[bullets] = measure(bullets)
        print(f"growing core: {bullets:5,} bullets, a sleep takes {least[bullets] * 1e3:4.0f} ms", flush=True)
    small, large = BULLETS[0], BULLETS[-1]
    print(f"growing core: {small:5,} and a day of {large:,} lines {measure(small, large) * 1e3:4.0f} ms")
    ratio = least[large] / least[small]
    print(f"growing core: {ratio:.1f} times as long over {large:,} as over {small:,} (at most {RATIO_MAX:g})")
    if sys.argv[1:] == ["--profile"]:
        profile = cProfile.Profile()
        measure(large, profile=profile)
        pstats.Stats(profile).sort_stats("cumulative").print_stats(70)
    return int(ratio > RATIO_MAX)


if __name__ == "__main__":
    sys.exit(main())
