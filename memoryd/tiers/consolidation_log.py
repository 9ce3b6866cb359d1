"""Parse and render `.continuum/memory/consolidation.log`: what each run changed in the memory files, for people.

The format is memoryd's own: `[YYYY-MM-DD HH:MM:SS UTC] ACTION: …`, then the indented lists `Files:`, `Changes:` and
`By:`. The log names files and counts, and quotes nothing of a memory.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from memoryd.tiers.lines import one_line

NAME = "consolidation.log"
_FIRST = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\] ACTION: (.*)")
_FILE = re.compile(r"    - (.*) \((?:new, )?(\d+ → )?(\d+) lines\)|    - (.*) \(removed\)")
_LISTS = ("Files", "Changes", "By")


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """Hold a file of an entry, with its number of lines before and after; None if it did not exist."""

    path: str
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class LogEntry:
    """Hold one entry of the log."""

    at: datetime  # UTC
    action: str
    files: tuple[LoggedFile, ...] = ()
    changes: tuple[str, ...] = ()
    by: str = ""


def render_entry(entry: LogEntry) -> bytes:
    """Return the bytes of an entry, for an append."""
    lines = [f"[{entry.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC] ACTION: {one_line(entry.action)}"]
    by = [entry.by] if entry.by else []
    for name, values in zip(_LISTS, (list(map(_describe, entry.files)), entry.changes, by), strict=True):
        lines += [f"  {name}:", *(f"    - {one_line(value)}" for value in values)] if values else []
    return ("\n".join(lines) + "\n").encode(errors="replace")


def _describe(file: LoggedFile) -> str:
    if file.after is None:
        return f"{file.path} (removed)"
    return f"{file.path} ({'new, ' if file.before is None else f'{file.before} → '}{file.after} lines)"


def parse(data: bytes) -> tuple[LogEntry, ...]:
    """Return the entries of a log; lines of another form are skipped."""
    return tuple(_parse_entry(lines) for lines in _split(data.decode(errors="replace")))


def last(data: bytes, count: int) -> str:
    """Return the text of the last `count` entries of a log."""
    entries = _split(data.decode(errors="replace"))
    return "".join(f"{line}\n" for lines in (entries[-count:] if count else []) for line in lines)


def _split(text: str) -> list[list[str]]:
    entries: list[list[str]] = []
    for line in text.splitlines():
        if _time_of(line) is not None:
            entries.append([line])
        elif entries and line.startswith("  "):
            entries[-1].append(line)
    return entries


def _time_of(line: str) -> datetime | None:
    """Return the time of an entry's first line, or None for any other line."""
    found = _FIRST.fullmatch(line)
    try:
        return datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC) if found else None
    except ValueError:
        return None


def _parse_entry(lines: Sequence[str]) -> LogEntry:
    at, action = _time_of(lines[0]) or datetime.min.replace(tzinfo=UTC), lines[0].partition(" ACTION: ")[2]
    held: dict[str, list[str]] = {name: [] for name in _LISTS}
    name = ""
    for line in lines[1:]:
        if line.startswith("    - ") and name:
            held[name].append(line)
        else:
            name = line.strip().removesuffix(":") if line.strip().removesuffix(":") in held else ""
    files = tuple(_parse_file(found) for line in held["Files"] if (found := _FILE.fullmatch(line)))
    texts = {name: tuple(line.removeprefix("    - ") for line in held[name]) for name in ("Changes", "By")}
    return LogEntry(at, action, files, texts["Changes"], " ".join(texts["By"]))


def _parse_file(found: re.Match[str]) -> LoggedFile:
    if found[4] is not None:
        return LoggedFile(found[4], None, None)
    before = int(found[2].removesuffix(" → ")) if found[2] else None
    return LoggedFile(found[1], before, int(found[3]))
