"""Render `RECENT.md`: a short entry for each of the last sessions, newest first, injected at the start of a session.

The format is memoryd's own: `# RECENT - Last N Sessions`, and for each session `## Session YYYY-MM-DD morning (2.5h)`
with fields such as `**Focus**:`. The last field is `**Link**:` to the session's part of the archive, which has the
summary.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memoryd.text.content import EARLIER, label_of, split_question, strip_label
from memoryd.text.neutral import neutralize
from memoryd.text.sentences import split
from memoryd.text.word_lists import list_words
from memoryd.tiers.archive import PastSession, split_sections
from memoryd.tiers.session_summary import Section, SummaryPoint

NAME = "RECENT.md"
NEWEST_CHARACTERS, OLDER_CHARACTERS = 3500, 1100  # the most characters of an entry
_FRAME = 250  # characters for an entry's heading, labels and link
_FILLED = 2300  # characters; a shorter entry gets points beyond the limits of their sections
LONGEST = 240  # characters of a point
_LISTED = 7  # the number of characters for the mark and line end of a point
MOST = {
    Section.ASKED: 3, Section.DECIDED: 5, Section.FOUND: 5, Section.STATE: 5, Section.OPEN: 4, Section.FAILED: 3,
    Section.FILES: 2,
}  # fmt: skip
_LABELS = {
    Section.ASKED: "Focus", Section.DECIDED: "Key decisions", Section.FOUND: "Discoveries", Section.STATE: "State",
    Section.OPEN: "Open", Section.FAILED: "Failed", Section.FILES: "Files",
}  # fmt: skip
_MARKS = {Section.DECIDED: "- [x] ", Section.FOUND: "- "}  # marks of sections that are lists even with one point
_DAY = re.compile(rb"## Session (\d{4}-\d\d-\d\d)")
_LABEL = re.compile(rb"^\*\*([A-Z][a-z ]+)\*\*:", re.MULTILINE)
_LITTLE = {b"Focus", b"Files", b"Link"}
_FEWEST_ASKED = 25  # characters of the question that are worth showing
CAUSE = re.compile("|".join(list_words("causes")), re.IGNORECASE)
# The names of the times of a day, each with the hour at which it ends.
_TIMES = ((5, "night"), (12, "morning"), (18, "afternoon"), (23, "evening"), (24, "night"))
_LINK = re.compile(
    rb"^\*\*Link\*\*: \[Full details\]\((?:archive/)?MEMORY-\d{4}-\d\d-\d\d\.md#session-([a-z0-9_-]+)\)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class RecentEntry:
    """Hold the entry of one session."""

    name: str | None  # the name of its session in the link; None without a link
    raw: bytes


@dataclass(frozen=True, slots=True)
class RecentFile:
    """Hold the file; the head is everything before its first entry."""

    head: bytes
    entries: tuple[RecentEntry, ...]


def parse(data: bytes) -> RecentFile:
    """Parse any bytes into entries; `render` returns the same bytes."""
    head, *raws = split_sections(data)
    links = (_LINK.search(raw) for raw in raws)
    names = (found[1].decode() if found else None for found in links)
    return RecentFile(head, tuple(map(RecentEntry, names, raws)))


def render(file: RecentFile) -> bytes:
    """Return the bytes of a file."""
    return file.head + b"".join(entry.raw for entry in file.entries)


def drop_entries(data: bytes, names: Collection[str]) -> bytes:
    """Return a file without the entries of these sessions."""
    file = parse(data)
    return render(replace(file, entries=tuple(one for one in file.entries if one.name not in names)))


def write_file(
    sessions: Sequence[PastSession],
    count: int,
    most_lines: int,
    old: bytes = b"",
    *,
    known: Collection[str] = (),
    unchanged: Collection[str] = (),
) -> bytes:
    """Return the file for these sessions, newest first; the oldest entries are dropped to fit `most_lines`.

    Args:
        sessions: the last sessions, newest first.
        count: the largest number of entries.
        most_lines: the largest number of lines of the file.
        old: the present bytes of the file.
        known: the names of all sessions of the agent. An entry of any other session stays, in its place by date.
        unchanged: the names of sessions without news, whose entries keep the changes of people.
    """
    there = parse(old).entries
    held = {entry.name: entry for entry in there if entry.name is not None}
    made: list[RecentEntry] = []
    for session in sessions[:count]:
        made.append(_make_entry(session, held.get(session.name), session.name in unchanged, is_newest=not made))
    for entry in there:
        if entry.name is None or entry.name not in known:
            at = next((at for at, one in enumerate(made) if _day_of(one) < _day_of(entry)), len(made))
            made.insert(at, entry)
    kept = made[:count]
    while kept and _join_entries(count, kept).count(b"\n") > most_lines:
        kept.pop()
    return _join_entries(count, kept)


def _join_entries(count: int, entries: Iterable[RecentEntry]) -> bytes:
    """Return the bytes of a file, with a blank line after the title and after each entry except the last."""
    title = f"# RECENT - Last {count} Sessions\n".encode()
    return title + b"".join(b"\n" + entry.raw.strip(b"\n") + b"\n" for entry in entries)


def repair(data: bytes, count: int, places: Mapping[str, str]) -> bytes:
    """Return a repaired file: title, newest entry first, one entry per session, at most `count`, correct links.

    Args:
        data: the bytes of the file.
        count: the largest number of entries.
        places: the archive file of each session that has a part, by the session's name.
    """
    file = parse(data)
    entries: list[RecentEntry] = []
    for entry in sorted(file.entries, key=_day_of, reverse=True):
        if entry.name is None or entry.name not in {one.name for one in entries}:
            entries.append(_relink(entry, places))
    return _join_entries(count, entries[:count])


def _relink(entry: RecentEntry, places: Mapping[str, str]) -> RecentEntry:
    """Return an entry whose link leads to the archive file of its session, if there is one."""
    place = places.get(entry.name or "")
    if place is None:
        return entry
    link = f"**Link**: [Full details]({place}#session-{entry.name})".encode()
    return replace(entry, raw=_LINK.sub(lambda _: link, entry.raw, count=1))


def _make_entry(session: PastSession, old: RecentEntry | None, is_unchanged: bool, *, is_newest: bool) -> RecentEntry:  # noqa: FBT001
    """Return the entry of a session; the old entry stays if a person has edited it, or if it says more."""
    rooms = ((NEWEST_CHARACTERS, True), (OLDER_CHARACTERS, False))
    chosen = (choose_points(session.summary.points, room - _FRAME, is_newest=one) for room, one in rooms)
    newest, older = (_write_entry(session, points).encode(errors="replace") for points in chosen)
    new = RecentEntry(session.name, newest if is_newest else older)
    if old is None:
        return new
    is_edited = is_unchanged and old.raw.strip() not in {newest.strip(), older.strip()}
    return old if is_edited or _is_sparse(new, old) else new


def _is_sparse(new: RecentEntry, old: RecentEntry) -> bool:
    """Return True if the new entry has only requests and changed files, but the old one has more."""
    said, said_before = (set(_LABEL.findall(entry.raw)) - _LITTLE for entry in (new, old))
    return not said and bool(said_before)


def _day_of(entry: RecentEntry) -> bytes:
    """Return the day in an entry's heading, or an empty text if it has no heading."""
    return found[1] if (found := _DAY.match(entry.raw)) else b""


def choose_points(points: Sequence[SummaryPoint], room: int, *, is_newest: bool = True) -> tuple[SummaryPoint, ...]:
    """Return the points for an entry, in order and shortened.

    Each section has a limit, and all points together have `room` characters. The first points of each section are
    preferred, and faults that are probably gone are dropped first. In the newest entry, the last request always stays.
    In an older one, changed files are dropped first, and decisions and causes last.
    """
    told = _drop_answered(dict.fromkeys(replace(one, text=_shorten(one)) for one in points))
    ranks = _rank_points(told, is_newest=is_newest)
    kept = [
        point for section, most in MOST.items() for point in _of(section, sorted(told, key=ranks.__getitem__))[:most]
    ]
    sizes = {section: sum(len(point.text) + _LISTED for point in _of(section, kept)) for section in Section}
    while sum(sizes.values()) > room and len(kept) > 1:
        # A point is dropped from the section that takes most room, so that every section keeps something.
        gone = max(kept, key=lambda point: (ranks[point][:2], sizes[point.section], ranks[point]))
        kept.remove(gone)
        sizes[gone.section] -= len(gone.text) + _LISTED
    for point in sorted(told, key=ranks.__getitem__):
        if point not in kept and sum(sizes.values()) + len(point.text) + _LISTED <= min(room, _FILLED):
            kept.append(point)
            sizes[point.section] += len(point.text) + _LISTED
    return tuple(point for point in told if point in kept)


def _rank_points(told: Sequence[SummaryPoint], *, is_newest: bool) -> dict[SummaryPoint, tuple[bool, bool, int]]:
    """Return the rank of each point; the points of the least rank are kept longest."""
    lasting = [one for one in told if one.section is Section.DECIDED or CAUSE.search(one.text)]
    first = _of(Section.ASKED, told)[-1:] if is_newest else lasting
    less = [one for one in told if one.text.startswith(EARLIER)] + ([] if is_newest else _of(Section.FILES, told))
    return {one: (one not in first, one in less, at) for at, one in enumerate(told)}


def _drop_answered(points: Iterable[SummaryPoint]) -> list[SummaryPoint]:
    """Return the points with text, without questions before the last request, because these have been answered."""
    told = [point for point in points if point.text]
    last = _of(Section.ASKED, told)[-1:]
    return [one for one in told if one in last or one.section is not Section.ASKED or one.text[-1] not in "?\uff1f"]


def _of(section: Section, points: Sequence[SummaryPoint]) -> list[SummaryPoint]:
    return [point for point in points if point.section is section]


def _shorten(point: SummaryPoint) -> str:
    """Return a point's text without a label that its section implies; a long text is cut after a sentence."""
    is_told = point.section is Section.ASKED and label_of(point.text) == "user"  # another speaker's label must stay
    text = neutralize(strip_label(point.text)) if is_told else point.text
    if len(text) <= LONGEST:
        return text
    if point.section is Section.FILES:
        return text[:LONGEST].rpartition(", ")[0] or text
    text, asked = split_question(text)
    if len(text) > LONGEST:
        end = max((at for one in split(text) if (at := one.start + len(one.text)) <= LONGEST), default=0)
        text = text[:end] if end > LONGEST // 2 else f"{text[:LONGEST].rpartition(' ')[0] or text[:LONGEST]} …"
    room = LONGEST - len(text)
    asked = asked if len(asked) <= room else f"{asked[: room - 2]}…)"
    return text + asked if room >= _FEWEST_ASKED else text


def _write_entry(session: PastSession, points: Sequence[SummaryPoint]) -> str:
    hours = max(0.1, (session.ended - session.started).total_seconds() / 3600)
    time_of_day = next(name for until, name in _TIMES if session.started.hour < until)
    parts = [f"## Session {session.started:%Y-%m-%d} {time_of_day} ({hours:.1f}h)"]
    for section, label in _LABELS.items():
        texts = [point.text for point in _of(section, points)]
        if section is Section.FILES:
            names = dict.fromkeys(name for text in texts for name in text.split(", "))
            texts = [", ".join(names)] if names else []
        if texts and (len(texts) > 1 or section in _MARKS):
            parts.append("\n".join([f"**{label}**:", *(_MARKS.get(section, "- ") + text for text in texts)]))
        elif texts:
            parts.append(f"**{label}**: {texts[0]}")
    parts.append(f"**Link**: [Full details]({session.file}#session-{session.name})")
    return "\n\n".join(parts) + "\n"
