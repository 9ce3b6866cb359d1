"""Check the memory files of a workspace: their form, their links, and unfinished merges."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from memoryd.text.conflicts import find_conflicts
from memoryd.tiers import archive, archive_index, consolidation_log, now, recent
from memoryd.tiers.archive_index import IndexHeading
from memoryd.tiers.lines import FRONT_MATTER, anchors_of
from memoryd.transcripts.fields import read_time

_NOW = re.compile(r"NOW-.*\.md")
_CONTENT = re.compile(rf"(?:archive/)?{archive.NAME.pattern}")
_KEY = re.compile(r"([A-Za-z_]\w*):[ \t]*(.*?)[ \t]*\r?")
_LINK = re.compile(rf"\]\(((?:archive/|\.\./)?{archive.NAME.pattern})#([^)\s]*)\)")
_TITLE = re.compile(r"# RECENT - Last (\d+) Sessions\s*")
_ENTRY = re.compile(r"## Session (\d{4}-\d\d-\d\d)\b")
_REPAIR = "memoryd repair recent fixes it"


class FileProblem(NamedTuple):
    """Hold a fault in a file, with its place and a hint for people."""

    path: str
    line: int  # from 1
    what: str
    hint: str


def find_problems(files: Mapping[str, bytes]) -> list[FileProblem]:
    """Return the faults in files of `.continuum/memory/`, sorted; `files` holds their bytes by path in that folder."""
    anchors = {path: set(anchors_of(data)) for path, data in files.items() if _CONTENT.fullmatch(path)}
    found: list[FileProblem] = []
    for path, data in files.items():
        lines = data.decode("utf-8", "replace").split("\n")
        for one in find_conflicts(data):
            hint = f"memoryd resolve {path} shows both sides"
            found.append(FileProblem(path, one.line, "a merge conflict that is not resolved", hint))
        found += [FileProblem(path, *one) for one in _check_form(path, data, lines)]
        found += [FileProblem(path, *one) for one in _check_links(path, lines, anchors)]
    return sorted(found)


_Found = Iterator[tuple[int, str, str]]


def _check_form(path: str, data: bytes, lines: Sequence[str]) -> _Found:
    if _NOW.fullmatch(path):
        yield from _check_now(path, data, lines)
    elif path == recent.NAME:
        yield from _check_recent(lines)
    elif _CONTENT.fullmatch(path):
        yield from _check_archive(data, lines)
    elif path == archive_index.NAME:
        yield from _check_index(lines)
    elif path == consolidation_log.NAME:
        yield from _check_log(lines)


def _read_keys(lines: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Return the keys of front matter, each with its line number and its value as written."""
    keys: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines[1:], 2):
        if line.rstrip() == "---":
            break
        if found := _KEY.fullmatch(line):
            keys.setdefault(found[1], (number, found[2]))
    return keys


def _check_now(path: str, data: bytes, lines: Sequence[str]) -> _Found:
    if now.parse(data).header is None:
        if lines and lines[0].rstrip() == "---":
            yield 1, "front matter that is not closed, or holds a line that is no `key: value`", "close it with ---"
        return
    keys = _read_keys(lines)
    missing = [key for key in now.KEYS if key not in keys]
    if missing:
        yield 1, f"no {', '.join(missing)}", f"the keys are {', '.join(now.KEYS)}; null and [] are for none"
    here = [key for key in keys if key in now.KEYS]
    if here != [key for key in now.KEYS if key in here]:
        yield 1, "keys in another order", f"the order is {', '.join(now.KEYS)}"
    forms = {
        "timestamp_start": (_is_time, "is not a time", "such as 2026-11-23T09:00:00Z, or null"),
        "timestamp_end": (_is_time, "is not a time", "such as 2026-11-23T09:00:00Z, or null"),
        "duration_minutes": (str.isdigit, "is not a number", "a whole number, or null"),
        "session_id": (_make_id_check(path), "has another form", "sess_ and more, or the name of the file"),
    }
    yield from _check_values(keys, forms)


def _check_values(
    keys: Mapping[str, tuple[int, str]], forms: Mapping[str, tuple[Callable[[str], bool], str, str]]
) -> _Found:
    """Yield the values that are not null and have a wrong form."""
    for key, (is_good, what, hint) in forms.items():
        number, value = keys.get(key, (1, ""))
        if value not in {"", "null"} and not is_good(value.strip("\"'")):
            yield number, f"{key} {what}", hint


def _is_time(text: str) -> bool:
    return read_time(text) is not None


def _make_id_check(path: str) -> Callable[[str], bool]:
    return lambda text: text.startswith("sess_") or text == path.removesuffix(".md")


def _check_recent(lines: Sequence[str]) -> _Found:
    title = _TITLE.fullmatch(lines[0])
    if title is None:
        yield 1, "no title", f"`# RECENT - Last 3 Sessions`; {_REPAIR}"
    days: list[str] = []
    entry = 0  # the line of an entry that still needs its link; 0 for none
    for number, line in enumerate(lines, 1):
        found = _ENTRY.match(line)
        if line.startswith("**Link**: "):
            entry = 0
        if line.startswith("## "):
            yield from _miss_link(entry)
            entry = number if found else 0
        if found and days and found[1] > days[-1]:
            yield number, "a session that is newer than the one above it", _REPAIR
        days += [found[1]] if found else []
    yield from _miss_link(entry)
    if title is not None and len(days) > int(title[1]):
        yield 1, f"{len(days)} sessions", _REPAIR


def _miss_link(entry: int) -> _Found:
    if entry:
        yield entry, "an entry without **Link**", "link it to its part of the archive"


def _check_archive(data: bytes, lines: Sequence[str]) -> _Found:
    keys = _read_keys(lines) if FRONT_MATTER.match(data) else {}
    total = next((key for key in ("total_sessions", "total_sessions_consolidated") if key in keys), "total_sessions")
    for key in ("consolidation_date", "source_sessions", total, "tags"):
        if key not in keys:
            yield 1, f"no {key} in the front matter", "the next rollover of this day writes it"
    number = (str.isdigit, "is not a number", "the number of sessions in the file")
    yield from _check_values(keys, {"consolidation_date": (_is_date, "is not a date", "YYYY-MM-DD"), total: number})
    names = Counter(line.rstrip() for line in lines if re.fullmatch(r"### Session [a-z0-9_-]+\s*", line))
    for name in (name for name, times in names.items() if times > 1):
        at = max(number for number, line in enumerate(lines, 1) if line.rstrip() == name)
        yield at, "a second part of one session", "join it with the first"


def _is_date(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False


def _check_index(lines: Sequence[str]) -> _Found:
    if lines[0].rstrip() != archive_index.TITLE:
        yield 1, "no title", f"`{archive_index.TITLE}`"
    there = [line.rstrip() for line in lines]
    for heading in IndexHeading:
        if f"## {heading}" not in there:
            yield 1, f"no heading `## {heading}`", "the next rollover writes it when it needs it"
    for number, line in enumerate(lines, 1):
        if line.startswith("- [") and not archive_index.target_of(line.encode()):
            yield number, "a line of another form", "`- [Title](MEMORY-YYYY-MM-DD.md#anchor) - one line`"


def _check_log(lines: Sequence[str]) -> _Found:
    for number, line in enumerate(lines, 1):
        if line and not line.startswith("  ") and not consolidation_log.parse(f"{line}\n".encode()):
            yield number, "a line of another form", "`[YYYY-MM-DD HH:MM:SS UTC] ACTION: …`, with indented lists"


def _check_links(path: str, lines: Sequence[str], anchors: Mapping[str, set[str]]) -> _Found:
    folder = "archive/" if path.startswith("archive/") else ""
    hint = _REPAIR if path == recent.NAME else "point it to a heading that exists"
    for number, line in enumerate(lines, 1):
        for found in _LINK.finditer("" if line.startswith("> ") else line):
            target = f"{folder}{found[1]}".replace("archive/../", "")
            if target not in anchors:
                yield number, f"a link to {found[1]}, which does not exist", hint
            elif found[2] not in anchors[target]:
                yield number, f"a link to #{found[2]}, which {found[1]} does not have", hint
