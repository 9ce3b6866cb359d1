"""Parse and render NOW files, `.continuum/memory/NOW-YYYY-MM-DDTHH-MM.md`: the present session.

A file has a header as front matter, then the entries. The header changes line by line, so lines of other programs stay.
Entries are only appended. `transcripts/now_file.py` reads them back in their original form.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from memoryd.text import fences
from memoryd.tiers.lines import BOM, one_line
from memoryd.transcripts import now_file
from memoryd.transcripts.fields import read_time
from memoryd.transcripts.lines import clean

SESSION = "NOW"
KEYS = (
    *("session_id", "timestamp_start", "timestamp_end", "duration_minutes", "project_path", "tags", "parent_session"),
    *("related_tasks", "memory_type"),
)
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*|\d{4}-\d\d-\d\dT[\d:.]+Z")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})  # YAML does not read these as text
_UNSEEN = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_ITEM = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,\]]+)\s*,?""")
_STEM = re.compile(r"NOW-(\d{4}-\d\d-\d\dT\d\d)-(\d\d)(?:-(\d{1,9}))?")
_COUNT = re.compile("[0-9]{1,9}")
_SAID_BY = {"user": "User", "agent": "Agent"}
_LINE_END = re.compile("\r\n?")

_Value = str | int | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class NowHeader:
    """Hold the front matter of a NOW file; times are UTC in ISO 8601 with Z, or None if they cannot be read."""

    session_id: str
    timestamp_start: str | None
    timestamp_end: str | None = None
    duration_minutes: int | None = None
    project_path: str | None = None
    tags: tuple[str, ...] = ()
    parent_session: str | None = None
    related_tasks: tuple[str, ...] = ()
    memory_type: str = SESSION
    extra: tuple[str, ...] = ()  # the lines of other keys, as written


class NowDocument(NamedTuple):
    """Hold a NOW file as its header and its bytes; joined, `head` and `body` are the file."""

    header: NowHeader | None  # None without front matter
    head: bytes
    body: bytes


def parse(data: bytes) -> NowDocument:
    """Parse a NOW file; never raises."""
    lines, fields = _read_head(data)
    head = b"".join(lines)
    return NowDocument(_header(lines, fields) if lines else None, head, data[len(head) :])


def render(document: NowDocument) -> bytes:
    """Return the bytes of a document: `render(parse(x)) == x`."""
    return document.head + document.body


def render_header(header: NowHeader) -> bytes:
    """Return the bytes of the front matter: the nine keys in order, then the other lines."""
    lines = [_render_field(key, getattr(header, key)) for key in KEYS]
    return "\n".join(["---", *lines, *header.extra, "---", ""]).encode(errors="replace")


def render_entry(role: str, text: str, tool: str | None = None, summary: str | None = None) -> bytes:
    """Return an entry to append after `seam`; any text is read back as exactly this entry.

    Args:
        role: `user`, `agent` or `tool`.
        text: the message; for a tool, its call and its result.
        tool: the tool's name.
        summary: for a tool, what it did, on one line.
    """
    text = _LINE_END.sub("\n", clean(text)).strip("\n")
    if role == "tool":
        name = one_line(tool or "").replace("]", ")").replace(" - ", " ")[: now_file.TOOL_NAME_MAX].strip(" -")
        about = one_line(summary or "")
        mark = "`" * max([3, *(len(run) + 1 for run in re.findall("`{3,}", text))])
        said = f"{now_file.TOOL_MARK}{name or 'tool'}{' - ' if about else ''}{about}]\n{mark}\n{text}\n{mark}"
    else:
        first, _, rest = text.partition("\n")
        if now_file.GUARDED.match(first):
            first, rest = "", text
        said = f"## {_SAID_BY[role]}:{first and f' {first}'}" + (f"\n{_guard(rest)}" if rest else "")
    return f"\n{said}\n".encode(errors="replace")


def seam(data: bytes) -> bytes:
    """Return the bytes that end an unfinished last line and an open fence before the next entry; usually none."""
    mark = now_file.find_open_fence(data)
    return (b"" if data.endswith(b"\n") or not data else b"\n") + (f"{mark}\n".encode() if mark else b"")


def close(data: bytes, ended_at: str, session_id: str) -> bytes:
    """Return the file with its session ended; if the session has ended already, the bytes stay the same.

    A file without a header gets one, so that its session keeps its id.
    """
    header = parse(data).header
    if header is not None and header.timestamp_end:
        return data
    started = header.timestamp_start if header is not None else read_name(session_id)[0]
    length = _minutes(started, ended_at)
    if header is None:
        return render_header(NowHeader(session_id, started, ended_at, length)) + data
    ending: dict[str, _Value] = {"timestamp_end": ended_at, "duration_minutes": length}
    return set_fields(data, ending if header.session_id else {"session_id": session_id, **ending})


def clear(data: bytes) -> bytes:
    """Return only the header of a file, without its entries."""
    return parse(data).head


def is_fresh(document: NowDocument) -> bool:
    """Return True if the session has begun, but has no entry yet."""
    return _is_bare(document) and not (document.header and document.header.timestamp_end)


def is_cleared(document: NowDocument) -> bool:
    """Return True if the session has ended and its entries were removed from the file."""
    return _is_bare(document) and not is_fresh(document)


def read_name(stem: str) -> tuple[str | None, int]:
    """Return the start time in the name of a NOW file, and the file's number within that minute."""
    named = _STEM.fullmatch(stem)
    return (read_time(f"{named[1]}:{named[2]}:00Z"), int(named[3] or 1)) if named else (None, 1)


def set_fields(data: bytes, values: Mapping[str, _Value]) -> bytes:
    """Return a file with these values in its header; every other line stays."""
    lines, fields = _read_head(data)
    end = b"\r\n" if lines[0].endswith(b"\r\n") else b"\n"
    body = data[sum(map(len, lines)) :]
    known = {field.key: field for field in fields}
    after: dict[int, list[bytes]] = {}
    for key, value in values.items():
        line = _render_field(key, value).encode(errors="replace") + end
        if key in known:
            first, *more = known[key].lines
            lines[first] = line
            for number in more:
                lines[number] = b""
        else:
            before = [known[name].lines[-1] for name in KEYS[: KEYS.index(key)] if name in known]
            after.setdefault(max(before, default=0), []).append(line)
    return b"".join(piece for number, line in enumerate(lines) for piece in (line, *after.get(number, ()))) + body


def _is_bare(document: NowDocument) -> bool:
    return document.header is not None and not document.body.strip()


def _read_head(data: bytes) -> tuple[list[bytes], list[now_file.FrontMatterField]]:
    """Return the lines of the front matter, each with its line end, and the fields in them."""
    lines = data.split(b"\n")
    texts = [line.decode("utf-8", "replace") for line in lines[: now_file.FRONT_MATTER_LINES_MAX]]
    texts[0] = texts[0].removeprefix(BOM.decode())
    fields, count = now_file.front_matter([clean(text) for text in texts])
    if count < 2 or texts[count - 1].rstrip() != "---":
        return [], []
    whole = [line + b"\n" for line in lines[:count]]
    if count == len(lines):
        whole[-1] = lines[count - 1]
    return whole, fields


def _header(lines: Sequence[bytes], fields: Sequence[now_file.FrontMatterField]) -> NowHeader:
    texts = [line.decode("utf-8", "replace").rstrip("\r\n") for line in lines]
    found = {field.key: field for field in fields}
    values = {key: now_file.unquote(found[key].value) if key in found else "" for key in KEYS}
    lists = {key: _items(found.get(key), texts) for key in ("tags", "related_tasks")}
    other = [number for field in fields if field.key not in KEYS for number in field.lines]
    return NowHeader(
        session_id=values["session_id"],
        timestamp_start=read_time(values["timestamp_start"]),
        timestamp_end=read_time(values["timestamp_end"]),
        duration_minutes=int(values["duration_minutes"]) if _COUNT.fullmatch(values["duration_minutes"]) else None,
        project_path=values["project_path"] or None,
        tags=lists["tags"],
        parent_session=values["parent_session"] or None,
        related_tasks=lists["related_tasks"],
        memory_type=values["memory_type"] or SESSION,
        extra=tuple(texts[number] for number in other),
    )


def _items(field: now_file.FrontMatterField | None, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the items of a list: `[a, "b"]`, `- a` on separate lines, or one word."""
    if field is None:
        return ()
    rows = [texts[number].strip() for number in field.lines[1:]]
    written = [field.value, *(row[1:] for row in rows if row.startswith("- "))]
    if field.value.startswith("["):
        written, at = [], 1
        while found := _ITEM.match(field.value, at):
            written.append(found[1])
            at = found.end()
    return tuple(item for one in written if (item := now_file.unquote(one.strip())))


def _render_field(key: str, value: _Value) -> str:
    if value is None or type(value) is int:
        return f"{key}: {'null' if value is None else value}"
    return f"{key}: {_quote(value)}" if type(value) is str else f"{key}: [{', '.join(map(_quote, value))}]"  # type: ignore[arg-type]  # mypy does not narrow by `type(…) is`


def _quote(text: str) -> str:
    """Return a YAML scalar on one line that every YAML parser reads as this text."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(clean(text), ensure_ascii=False))


def _guard(text: str) -> str:
    """Return `text` with a backslash before lines that would end the entry or hide the next one.

    Lines in closed fences stay unchanged.
    """
    lines = text.split("\n")
    closed, mark = 0, ""  # the number of lines up to the end of the last closed fence
    for number, line in enumerate(lines):
        before, mark = mark, fences.open_after(mark, line)
        closed = number + 1 if before and not mark else closed
    mark = ""
    for number, line in enumerate(lines):
        before, mark = mark, fences.open_after(mark, line) if number < closed else ""
        found = now_file.GUARDED.match(line)
        if not before and not mark and found:
            lines[number] = f"{found[1]}\\{line[found.end(1) :]}"
    return "\n".join(lines)


def _minutes(started: str | None, ended: str) -> int | None:
    try:
        length = datetime.fromisoformat(ended) - datetime.fromisoformat(started or "")
        return round(length.total_seconds() / 60) if length.total_seconds() >= 0 else None
    except (ValueError, TypeError):
        return None
