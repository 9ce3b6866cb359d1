"""Parse and render the archive, `.continuum/memory/MEMORY-YYYY-MM-DD.md`: the summaries of a day's sessions, by theme.

The format is memoryd's own. Front matter and the title `# Month YYYY Consolidated Memory` come first. Each theme is a
section `## Theme`, whose first lines count its content. Below them, each session has a part `### Session ID`, to which
`RECENT.md` links. A part is rewritten when the summary of its session changes. Text that others wrote around it stays.
"""

import calendar
import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import NamedTuple

from memoryd.counted import count_noun
from memoryd.text.neutral import neutral_markdown, neutralize
from memoryd.text.tags import find_tags
from memoryd.tiers.lines import FRONT_MATTER, anchors_of, one_line
from memoryd.tiers.session_summary import Section, SessionSummary, parse_points, render_points

FOLDER = ".continuum/memory"
NAME = re.compile(r"MEMORY-\d{4}-\d\d-\d\d\.md")
MOVED = "archive"  # the subfolder for files that `memoryd archive` moved
LINK = re.compile(rf"(?:{MOVED}/)?{NAME.pattern}#")
GENERAL = "General"  # the theme of a session without a theme
SAID = "#### Also said"
_PIECES = re.compile(rb"^(?=###? )", re.MULTILINE)
_SECTIONS = re.compile(rb"^(?=## )", re.MULTILINE)
_PART = re.compile(rb"### Session ([a-z0-9_-]+)[ \t]*\r?(?:\n|\Z)")
_FIELD = re.compile(rb"\*\*(?:Date Range|Summary|Related Files|Code|Tasks|Key Points)\*\*:.*")
_RANGE = re.compile(r"^\*\*Date Range\*\*: (\d{4}-\d\d-\d\d)[^-]*(?:- (\d{4}-\d\d-\d\d))?", re.MULTILINE)
_TASK = re.compile(r"^\*\*Tasks\*\*: (.+)$", re.MULTILINE)
_HEADINGS = re.compile(r"^(#{1,6}(?:\s|$))", re.MULTILINE)
_DATED, _SOURCES = b"consolidation_date:", b"source_sessions:"
_TOTALS = (b"total_sessions:", b"total_sessions_consolidated:")
_TAGS = b"tags:"
_RANDOM_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_PLAIN_ID = re.compile(r"[a-z0-9_-]{1,36}")
_NAMES = re.compile(r"[\w./-]+")
_CODE_KEYS = ("Branch", "Last commit", "Pull request")
_TITLE = re.compile(rb"# \w+ \d{4} Consolidated Memory")
# Counts and dates of a file and of a theme, and the lines of the index, which repeat points of the archive.
_FRAME = re.compile(
    rb"^(?:(?:consolidation_date|source_sessions|total_sessions\w*|tags):|\*\*(?:Date Range|Summary|Key Points)\*\*:"
    rb"|- \[[^\]\r\n]*\]\((?:archive/)?MEMORY-\d{4}-\d\d-\d\d\.md#|\*\*Link\*\*: \[Full details\]\()[^\r\n]*",
    re.MULTILINE,
)
_MOST_FILES = 20  # the most files that a theme lists; its parts list all files


class SaidEntry(NamedTuple):
    """Hold one message of a session for the archive, as its speaker and its text."""

    speaker: str  # User, Agent or Tool
    text: str


@dataclass(frozen=True, slots=True)
class PastSession:
    """Hold one session for the memory files, with local times."""

    id: str
    started: datetime
    ended: datetime
    summary: SessionSummary
    theme: str = GENERAL
    tags: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()  # "#42"
    said: tuple[SaidEntry, ...] = ()
    is_moved: bool = False  # its file was moved by `memoryd archive`

    @property
    def name(self) -> str:
        """Return the name of its part in the archive."""
        return name_of(self.id)

    @property
    def file(self) -> str:
        """Return the name of the file that holds its part, which is named by the day on which the session began."""
        return f"{f'{MOVED}/' if self.is_moved else ''}MEMORY-{self.started:%Y-%m-%d}.md"


class ArchiveTheme(NamedTuple):
    """Hold a theme as it is in its file."""

    title: str
    anchor: str
    dates: str
    points: SessionSummary  # points of all its sessions, in order


def name_of(session_id: str) -> str:
    """Return the name of a session in the archive.

    The name is the first eight digits of a random id, a plain id itself, or a hash of any other id. The beginning of
    other ids is often a time, which several sessions may share.
    """
    if _RANDOM_ID.fullmatch(session_id):
        return session_id[:8]
    is_plain = _PLAIN_ID.fullmatch(session_id) is not None
    return session_id if is_plain else hashlib.sha256(session_id.encode(errors="replace")).hexdigest()[:12]


def split_parts(data: bytes) -> list[bytes]:
    """Return the text before the first heading of a theme or part, then each piece with its heading."""
    return _PIECES.split(data)


def split_sections(data: bytes) -> list[bytes]:
    """Return the text before the first `## ` line, then each section with its heading; joined, they are `data`."""
    return _SECTIONS.split(data)


def render_part(session: PastSession) -> bytes:
    """Return the part of a session: its time, its points by section, and its other messages."""
    form = "%H:%M" if session.ended.date() == session.started.date() else "%Y-%m-%d %H:%M"
    times = f"{session.started:%Y-%m-%d %H:%M} - {session.ended:{form}}"
    pieces = [f"### Session {session.name}", f"**Date Range**: {times}"]
    if session.tasks:
        pieces.append(f"**Tasks**: {', '.join(session.tasks)}")
    points = re.sub("^### ", "#### ", render_points(session.summary.points), flags=re.MULTILINE)
    pieces += [points] if points else []
    texts = [point.text for point in session.summary.points]
    left = [kept for said in session.said if (kept := _leave_out(said, texts)).text.strip()]
    pieces += [f"{SAID}\n\n" + "\n>\n".join(map(_quote, left))] if left else []
    return ("\n\n".join(pieces) + "\n").encode(errors="replace")


def _leave_out(said: SaidEntry, texts: Sequence[str]) -> SaidEntry:
    """Return an entry without lines that a point already contains, so that nothing occurs twice."""
    if any(neutralize(said.text) in text for text in texts):
        return said._replace(text="")
    lines = [line for line in said.text.splitlines() if not _is_held(neutralize(line), texts)]
    return said._replace(text="\n".join(lines))


def _is_held(line: str, texts: Sequence[str]) -> bool:
    return line.rstrip(".") != "" and any(line in text or line.rstrip(".") == text.rstrip(".") for text in texts)


def _quote(said: SaidEntry) -> str:
    """Return an entry as a quotation without headings, because a heading in a quotation has an anchor too."""
    text = _HEADINGS.sub(r"\\\1", neutral_markdown(said.text))
    return "\n".join(f"> {line}".rstrip() for line in f"**{said.speaker}**: {text}".splitlines())


def put_parts(data: bytes | None, day: date, sessions: Iterable[PastSession], today: date) -> bytes:
    """Return a file with the parts of these sessions, each in its theme; without a change, the bytes stay the same.

    A part stays in its present theme. A session without points and entries loses its part. `data` is None for a new
    file.
    """
    title = f"\n# {calendar.month_name[day.month]} {day.year} Consolidated Memory\n"
    head, *pieces = _PIECES.split(data or title.encode())
    tags: list[str] = []
    for one in sessions:
        told = [task for piece in pieces if _name(piece) == one.name for task in _tasks_of(piece)]
        # A cleared NOW file does not name its tasks any more.
        complete = replace(one, tasks=tuple(dict.fromkeys([*told, *one.tasks])))
        part = render_part(complete) if one.summary.points or one.said else None
        _put_part(pieces, one, part)
        tags += one.tags if part is not None else []
    pieces = _count_themes(pieces)
    whole = [_write_head(head, list_names(pieces), tags, today), *pieces]
    made = b"\n".join(piece.strip(b"\n") + b"\n" for piece in whole)
    return data if data is not None and _without_dates(made) == _without_dates(data) else made


def _without_dates(data: bytes) -> bytes:
    """Return a file without blank lines and the day of its writing, which are no change of content."""
    return b"\n".join(line for line in data.splitlines() if line.strip() and not line.startswith(_DATED))


def _put_part(pieces: list[bytes], session: PastSession, part: bytes | None) -> None:
    """Put a part in its place, or remove it if it is None; drop further equal copies of it."""
    places = [at for at, piece in enumerate(pieces) if _name(piece) == session.name]
    for at in reversed(places):
        if part is None or (at != places[0] and pieces[at].strip() == pieces[places[0]].strip()):
            del pieces[at]
    if part is not None and not places:
        _add_part(pieces, session.theme, part)
    elif part is not None and pieces[places[0]].strip() != part.strip():
        pieces[places[0]] = part


def _add_part(pieces: list[bytes], theme: str, part: bytes) -> None:
    """Insert a part as the last one of its theme."""
    title = neutralize(one_line(theme)) or GENERAL
    heading = f"## {title}".encode(errors="replace")
    if _PART.fullmatch(b"#" + heading):  # this heading would have the anchor of a part
        heading = f"## About {title}".encode()
    places = [at for at, piece in enumerate(pieces) if piece.splitlines()[0].rstrip() == heading]
    if not places:
        pieces += [heading + b"\n", part]
        return
    behind = [at for at in range(places[0] + 1, len(pieces)) if pieces[at].startswith(b"## ")]
    pieces.insert(behind[0] if behind else len(pieces), part)


def drop_parts(data: bytes, names: Collection[str]) -> bytes:
    """Return the file without the parts and names of these sessions; if no session remains, its tags are emptied."""
    head, *pieces = _PIECES.split(data)
    kept = [piece for piece in pieces if _name(piece) not in names]
    if kept == pieces:
        return data
    kept = _count_themes(kept)
    left = list_names(kept)
    head = head if left else re.sub(rb"^tags: .*$", b"tags: []", head, count=1, flags=re.MULTILINE)
    return b"".join([_write_head(head, left, (), None), *kept])


def name_theme(subject: str) -> str:
    """Return the heading of the theme for a tag or a project."""
    return subject.replace("-", " ").replace("_", " ").strip().capitalize() or GENERAL


def drop_tags(data: bytes, tags: Collection[str]) -> bytes:
    """Return the file without these tags, in its front matter and as themes, unless its text still has them."""
    head, *pieces = _PIECES.split(data)
    gone = set(tags).difference(*(find_tags(piece.decode(errors="replace")) for piece in pieces))
    if not gone:
        return data
    themes = "|".join(re.escape(name_theme(tag)) for tag in gone)
    heading = re.compile(rf"\A## (?:{themes})(?=[ \t\r]*$)".encode(), re.MULTILINE)
    pieces = [heading.sub(f"## {GENERAL}".encode(), piece) for piece in pieces]
    found = FRONT_MATTER.match(head)
    own = found[0] if found else b""
    lines = [_drop_names(line, gone) if line.startswith(_TAGS) else line for line in own.splitlines(keepends=True)]
    return b"".join([*lines, head[len(own) :], *pieces])


def _drop_names(line: bytes, names: Collection[str]) -> bytes:
    """Return a line of tags without these names; all else in it stays."""
    listed = "|".join(re.escape(name) for name in names)
    return re.sub(rf"(?i)(?:(?<=\[)(?:{listed}), |(?:, )?(?<![\w./-])(?:{listed})(?![\w./-]))".encode(), b"", line)


def has_content(data: bytes) -> bool:
    """Return True if a file has text below its title, or front matter that memoryd does not write."""
    found = FRONT_MATTER.match(data)
    lines = found[0].splitlines()[1:-1] if found else []
    own = all(line.startswith((_DATED, _SOURCES, *_TOTALS, b"tags: []")) for line in lines)
    return not own or _TITLE.fullmatch(data[found.end() if found else 0 :].strip()) is None


def mask_frame(data: bytes) -> bytes:
    """Return an archive file, or the index, with spaces for lines that hold only times, counts and links.

    Otherwise a search for the words of a session would find these lines first.
    """
    return _FRAME.sub(lambda found: b" " * len(found[0]), data)


def list_themes(data: bytes) -> dict[str, ArchiveTheme]:
    """Return the theme of each session in a file, by the session's name."""
    head, *pieces = _PIECES.split(data)
    anchors, at_heading, places = [*anchors_of(data), ""], len(anchors_of(head)), []
    for piece in pieces:
        places.append(anchors[min(at_heading, len(anchors) - 1)])
        at_heading += len(anchors_of(piece))
    found: dict[str, ArchiveTheme] = {}
    for at, below in _themes(pieces):
        title = pieces[at].splitlines()[0][3:].decode(errors="replace").strip()
        points = tuple(point for part in below for point in _points_of(part).points)
        theme = ArchiveTheme(title, places[at], _dates_of(below), SessionSummary(points))
        found |= {_name(part): theme for part in below if _name(part)}
    return found


def _themes(pieces: Sequence[bytes]) -> list[tuple[int, list[bytes]]]:
    """Return each theme that has parts of sessions: its index, and the pieces below it."""
    starts = [at for at, piece in enumerate(pieces) if piece.startswith(b"## ")]
    ends = [*starts[1:], len(pieces)][: len(starts)]
    found = [(at, list(pieces[at + 1 : end])) for at, end in zip(starts, ends, strict=True)]
    return [(at, below) for at, below in found if any(map(_name, below))]


def _count_themes(pieces: Sequence[bytes]) -> list[bytes]:
    """Return the pieces with updated counts of each theme, and without empty themes."""
    held = dict(_themes(pieces))
    return [
        _count_theme(piece, held[at]) if at in held else piece
        for at, piece in enumerate(pieces)
        if at in held or not _is_empty_theme(piece, pieces[at + 1 : at + 2])
    ]


def _count_theme(piece: bytes, below: Sequence[bytes]) -> bytes:
    """Return the heading of a theme, with people's own text and the counted fields below it."""
    heading, *lines = piece.splitlines()
    own = b"\n".join(line for line in lines if not _FIELD.fullmatch(line.rstrip())).strip(b"\n")
    fields = _fields_of([part for part in below if _name(part)]).encode(errors="replace")
    return b"\n\n".join(one for one in (heading, own, fields) if one) + b"\n"


def _is_empty_theme(piece: bytes, following: Sequence[bytes]) -> bool:
    """Return True if a theme has only the fields of parts that were removed."""
    lines = [line.rstrip() for line in piece.splitlines()[1:] if line.strip()]
    is_bare = bool(lines) and all(map(_FIELD.fullmatch, lines))
    return is_bare and piece.startswith(b"## ") and not any(one.startswith(b"### ") for one in following)


def _fields_of(parts: Sequence[bytes]) -> str:
    """Return the fields of a theme about its parts; they count the parts and repeat none of their sentences."""
    points = [point for part in parts for point in _points_of(part).points]
    texts = {section: [point.text for point in points if point.section is section] for section in Section}
    files = dict.fromkeys(name for text in texts[Section.FILES] for name in text.split(", "))
    state = {text.partition(": ")[0]: text for text in texts[Section.STATE]}
    fields = {
        "Date Range": _dates_of(parts),
        "Summary": _count_points(len(parts), texts),
        "Related Files": ", ".join(list(files)[:_MOST_FILES]),
        "Code": "; ".join(state[key] for key in _CODE_KEYS if key in state),
        "Tasks": ", ".join(dict.fromkeys(task for part in parts for task in _tasks_of(part))),
    }
    return "\n\n".join([*(f"**{name}**: {text}" for name, text in fields.items() if text), "**Key Points**:"])


def _tasks_of(part: bytes) -> list[str]:
    """Return the tasks in a part's own line of tasks, not those in quotations."""
    return [task for found in _TASK.findall(_text(part)) for task in found.strip().split(", ")]


def _count_points(sessions: int, texts: Mapping[Section, Sequence[str]]) -> str:
    counts = (
        count_noun(sessions, "session"),
        count_noun(len(texts[Section.DECIDED]), "decision"),
        count_noun(len(texts[Section.FOUND]), "discovery", "discoveries"),
        count_noun(len(texts[Section.FAILED]), "failure"),
    )
    return ", ".join(one for one in counts if not one.startswith("0 "))


def _dates_of(parts: Iterable[bytes]) -> str:
    days = [day for part in parts for found in _RANGE.findall(_text(part))[:1] for day in found if day]
    return "" if not days else min(days) if min(days) == max(days) else f"{min(days)} - {max(days)}"


def _points_of(part: bytes) -> SessionSummary:
    _, mark, points = _text(part).partition(f"\n{SAID}\n")[0].partition("\n#### ")
    return parse_points(re.sub("^#### ", "### ", f"#### {points}", flags=re.MULTILINE) if mark else "")


def _text(piece: bytes) -> str:
    return piece.decode(errors="replace")


def list_names(pieces: Iterable[bytes]) -> list[str]:
    """Return the names of the sessions that have one of these pieces, see `split_parts`."""
    return list(dict.fromkeys(name for piece in pieces if (name := _name(piece))))


def _name(piece: bytes) -> str:
    found = _PART.match(piece)
    return found[1].decode() if found else ""


def _write_head(head: bytes, names: Sequence[str], tags: Sequence[str], today: date | None) -> bytes:
    """Return the head with front matter that counts these sessions; lines with other keys stay."""
    found = FRONT_MATTER.match(head)
    lines = found[0].splitlines()[1:-1] if found else []
    # Other tools use the second key for the number, so a file that has it keeps it.
    total = _TOTALS[1] if any(line.startswith(_TOTALS[1]) for line in lines) else _TOTALS[0]
    dated = [line for line in lines if line.startswith(_DATED)] if today is None else []
    counted = [] if today is None else [_DATED + f" {today.isoformat()}".encode()]
    counted += [_SOURCES + f" [{', '.join(names)}]".encode(), total + f" {len(names)}".encode()]
    held = _add_tags(next((line for line in lines if line.startswith(_TAGS)), b"tags: []"), tags)
    rest = [line for line in lines if not line.startswith((_DATED, _SOURCES, *_TOTALS, _TAGS))]
    return b"\n".join([b"---", *dated, *counted, held, *rest, b"---", head[found.end() :] if found else head])


def _add_tags(line: bytes, tags: Sequence[str]) -> bytes:
    """Return the line of the tags with the new ones added; unchanged if it has all of them."""
    known = _NAMES.findall(line.removeprefix(_TAGS).decode(errors="replace"))
    new = [tag for tag in dict.fromkeys(tags) if tag not in known and _NAMES.fullmatch(tag)]
    return f"tags: [{', '.join([*known, *new])}]".encode() if new else line
