"""Parse and render the archive's index, `.continuum/memory/MEMORY.md`: one line for each theme, under four headings.

The format is memoryd's own: `# Long-term Memory Index`, four `## ` headings, and lines `- [Title](MEMORY-….md#anchor) -
one line`. A line is identified by its heading and its target. Every other line belongs to somebody else and stays.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from memoryd.text.content import strip_label
from memoryd.text.neutral import neutralize
from memoryd.tiers import archive
from memoryd.tiers.archive import ArchiveTheme
from memoryd.tiers.lines import anchors_of
from memoryd.tiers.session_summary import Section

NAME = "MEMORY.md"
TITLE = "# Long-term Memory Index"
_PATTERN = re.compile(r"@pattern\b", re.IGNORECASE)
_LONGEST = 160  # characters of a line's text
_LINE = re.compile(rb"- \[(?:[^\]\\]|\\.)*\]\(([^()\s]+)\)")
_HEADING = re.compile(rb"## ([^\r\n]+?)[ \t]*\r?\n?")
_UNLINKED = str.maketrans({"[": "(", "]": ")", "\\": "/"})


class IndexHeading(StrEnum):
    """Name the headings of the index, in order."""

    DECISIONS = "Architecture Decisions"
    DISCOVERIES = "Technical Discoveries"
    PATTERNS = "Development Patterns"
    TIMELINE = "Project Timeline"


class IndexLine(NamedTuple):
    """Hold one line of the index: its subject, the link without its folder, and its text."""

    title: str
    target: str  # "MEMORY-2026-01-05.md#login"
    text: str


class IndexSection(NamedTuple):
    """Hold the lines under one heading; the heading itself is the first line."""

    heading: str  # empty for the text before the first heading
    lines: tuple[bytes, ...]  # each with its line end


def parse(data: bytes) -> tuple[IndexSection, ...]:
    """Parse any bytes into sections; `render` returns the same bytes."""
    sections = [IndexSection("", ())]
    for line in data.splitlines(keepends=True):
        found = _HEADING.fullmatch(line)
        if found:
            sections.append(IndexSection(found[1].decode(errors="replace"), (line,)))
        else:
            sections[-1] = sections[-1]._replace(lines=(*sections[-1].lines, line))
    return tuple(sections)


def render(sections: Sequence[IndexSection]) -> bytes:
    """Return the bytes of an index file with these sections."""
    return b"".join(line for section in sections for line in section.lines)


def target_of(line: bytes) -> str:
    """Return the target of a line's link; empty for a line of another form."""
    found = _LINE.match(line)
    return found[1].decode(errors="replace") if found else ""


def put_lines(data: bytes | None, files: Mapping[str, bytes]) -> bytes:
    """Return an index of these archive files, by name: a line for each theme under each heading that fits.

    A new line replaces the line with the same target, or becomes the last one under its heading. Lines with a broken
    target are dropped.
    """
    there = {f"{name}#{anchor}" for name, text in files.items() for anchor in anchors_of(text)}
    made = f"{TITLE}\n" + "".join(f"\n## {heading}\n" for heading in IndexHeading)
    before = parse(made.encode() if data is None else data)
    sections = [_drop_from(section, lambda line: _is_gone(line, files, there)) for section in before]
    lines = list(_list_lines(files))
    for heading in IndexHeading:
        _put_under(sections, heading, [line for of_heading, line in lines if of_heading is heading])
    return render(sections)


def _is_gone(line: bytes, files: Collection[str], there: Collection[str]) -> bool:
    target = target_of(line)
    return target.partition("#")[0] in files and target not in there


def _list_lines(files: Mapping[str, bytes]) -> Iterator[tuple[IndexHeading, IndexLine]]:
    for name, text in sorted(files.items()):
        for theme in dict.fromkeys(archive.list_themes(text).values()):
            for heading, said in _list_said(theme):
                yield heading, IndexLine(theme.title, f"{name}#{theme.anchor}", said)


def _put_under(sections: list[IndexSection], heading: IndexHeading, given: Sequence[IndexLine]) -> None:
    """Put lines under a heading; create the heading if it is missing."""
    if not given:
        return
    at = next((at for at, one in enumerate(sections) if one.heading == heading), len(sections))
    if at == len(sections):
        sections.append(IndexSection(heading, (f"\n## {heading}\n".encode(),)))
    held = list(sections[at].lines)
    for one in given:
        _put_line(held, one)
    sections[at] = sections[at]._replace(lines=tuple(held))


def drop_lines(data: bytes) -> bytes:
    """Return an index without the lines that link to archive files, because these quote sessions."""
    return render([_drop_from(one, lambda line: archive.LINK.match(target_of(line))) for one in parse(data)])


def _drop_from(section: IndexSection, is_gone: Callable[[bytes], object]) -> IndexSection:
    """Return a section without the lines that `is_gone` chooses; if only its heading stays, one blank line goes too."""
    kept = tuple(line for line in section.lines if not is_gone(line))
    is_emptied = kept != section.lines and not b"".join(kept[1:]).strip()
    return section._replace(lines=(*kept[:1], *kept[2:3]) if is_emptied else kept)


def _list_said(theme: ArchiveTheme) -> Iterator[tuple[IndexHeading, str]]:
    """Yield the last point of a theme for each heading; for the timeline, its days."""
    decided, found = theme.points.texts(Section.DECIDED), theme.points.texts(Section.FOUND)
    patterns = [text for text in (*decided, *found) if _PATTERN.search(text)]
    said = {
        IndexHeading.DECISIONS: [text for text in decided if text not in patterns],
        IndexHeading.DISCOVERIES: [text for text in found if text not in patterns],
        IndexHeading.PATTERNS: patterns,
        IndexHeading.TIMELINE: [theme.dates],
    }
    for heading, texts in said.items():
        if texts:
            yield heading, strip_label(texts[-1])


def _put_line(held: list[bytes], one: IndexLine) -> None:
    text = neutralize(one.text)
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST].rpartition(' ')[0] or text[:_LONGEST]} …"
    title = neutralize(one.title.translate(_UNLINKED)) or "General"
    line = f"- [{title}]({one.target}){f' - {text}' if text else ''}\n".encode(errors="replace")
    places = [at for at, old in enumerate(held) if target_of(old) == one.target]
    if places:
        held[places[0]] = line
        return
    last = max((at for at, old in enumerate(held) if old.strip()), default=-1)
    if last >= 0 and not held[last].endswith(b"\n"):
        held[last] += b"\n"
    if last == 0:  # only the heading
        line = b"\n" + line
    held.insert(last + 1, line)
