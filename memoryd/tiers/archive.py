"""Parse and render the archive, `.continuum/memory/MEMORY-YYYY-MM-DD.md`: whole summaries of a day's sessions.

Its own format: a front matter, `# Month YYYY Consolidated Memory`, and for each session a part `## Session ID`, which
`RECENT.md` links to. A part is rewritten when its session's summary changes; text that others wrote around it stays.
"""

from __future__ import annotations

import calendar
import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from memoryd.tiers.lines import FRONT_MATTER
from memoryd.tiers.session_summary import SessionSummary, render_points

FOLDER = ".continuum/memory"
NAME = re.compile(r"MEMORY-\d{4}-\d\d-\d\d\.md")
_SECTIONS = re.compile(rb"^(?=## )", re.MULTILINE)
_PART = re.compile(rb"## Session ([a-z0-9_-]+)[ \t]*\r?(?:\n|\Z)")
_COUNTED = (b"consolidation_date:", b"source_sessions:", b"total_sessions:")
_RANDOM_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_PLAIN_ID = re.compile(r"[a-z0-9_-]{1,36}")


@dataclass(frozen=True, slots=True)
class PastSession:
    """Hold one session as the files show it, with local times."""

    id: str
    started: datetime
    ended: datetime
    summary: SessionSummary

    @property
    def name(self) -> str:
        """Return the name of its part."""
        return name_of(self.id)

    @property
    def file(self) -> str:
        """Return the name of the file that holds its part: that of the day on which it began."""
        return f"MEMORY-{self.started:%Y-%m-%d}.md"


def name_of(session_id: str) -> str:
    """Return how a part names its session: by the first eight digits of a random id, by a plain id as it is.

    The beginning of any other id says when it was drawn, which several sessions may share.
    """
    if _RANDOM_ID.fullmatch(session_id):
        return session_id[:8]
    is_plain = _PLAIN_ID.fullmatch(session_id) is not None
    return session_id if is_plain else hashlib.sha256(session_id.encode(errors="replace")).hexdigest()[:12]


def split_sections(data: bytes) -> list[bytes]:
    """Return the text before the first `## ` line, then each section from that line on; joined they are `data`."""
    return _SECTIONS.split(data)


def render_part(session: PastSession) -> bytes:
    """Return the part of a session."""
    last = (
        f"{session.ended:%H:%M}"
        if session.ended.date() == session.started.date()
        else f"{session.ended:%Y-%m-%d %H:%M}"
    )
    times = f"**Date Range**: {session.started:%Y-%m-%d %H:%M} - {last}"
    body = render_points(session.summary.points)
    return f"## Session {session.name}\n\n{times}\n\n{body}\n".encode(errors="replace")


def put_parts(data: bytes | None, day: date, parts: Mapping[str, bytes | None], today: date) -> bytes:
    """Return a file with these parts, by name; None takes a part out. Without a change it stays as it is."""
    head, *sections = split_sections(
        data or f"\n# {calendar.month_name[day.month]} {day.year} Consolidated Memory\n".encode()
    )
    kept: list[bytes] = []
    left = dict(parts)
    for section in sections:
        name = _name(section)
        part = left.pop(name, None) if name in parts else section
        if part is not None:
            same = part.strip() == section.strip()
            kept.append(section if same else part)
    kept += [part for part in left.values() if part is not None]
    if data is not None and kept == sections:
        return data
    pieces = [_write_head(head, [name for one in kept if (name := _name(one))], today), *kept]
    return b"\n".join(piece.strip(b"\n") + b"\n" for piece in pieces)


def drop_parts(data: bytes, names: Collection[str]) -> bytes:
    """Return a file without the parts of these sessions, and without their names."""
    head, *sections = split_sections(data)
    kept = [section for section in sections if _name(section) not in names]
    if kept == sections:
        return data
    return b"".join([_write_head(head, [name for one in kept if (name := _name(one))], None), *kept])


def _name(section: bytes) -> str:
    found = _PART.match(section)
    return found[1].decode() if found else ""


def _write_head(head: bytes, names: Sequence[str], today: date | None) -> bytes:
    """Return the head with a front matter that counts these parts; a line of another key stays."""
    found = FRONT_MATTER.match(head)
    lines = found[0].splitlines()[1:-1] if found else [b"tags: []"]
    dated = [line for line in lines if line.startswith(_COUNTED[0])] if today is None else []
    counted = [] if today is None else [f"consolidation_date: {today.isoformat()}".encode()]
    counted += [f"source_sessions: [{', '.join(names)}]".encode(), f"total_sessions: {len(names)}".encode()]
    rest = [line for line in lines if not line.startswith(_COUNTED)]
    return b"\n".join([b"---", *dated, *counted, *rest, b"---", head[found.end() :] if found else head])
