"""Parse and render the reply of a dream; every backend answers in this grammar.

    [MEMORY]
    ## Preferences
    - Tabs in all Makefiles. [m1]
    - The database is Postgres 16 on the host Marvin. [m2, d4]
    [DREAM]
    A quiet day; the database moved.
    - archived [m3]: the trip is over
    - superseded [m5] by [d4]: another version
    - dated [m6] by [d4]: another value, and nobody says which holds

Headings are optional. A bullet ends with the ids of the memories and entries that support it, and may continue in
indented lines. `[NOTHING]` alone means that all memories stay as they are. Beside a `[MEMORY]`, it means that all
others stay.

The parser accepts changes of form that models make: other letter case, bold, headings, the sections in another order,
and a fence around the whole or around a section. It rejects a reply that was cut off or refused, is empty, or has no
memory in it. Its time grows linearly with the length of the reply.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from memoryd.jobs.job import RejectedReply, Reply
from memoryd.jobs.parts import find_unusable, merge_replies
from memoryd.text.fences import open_after


@dataclass(frozen=True, slots=True)
class ReplyBullet:
    """Hold one memory of the new core, on one line, with the ids of the material that supports it."""

    text: str
    cites: tuple[str, ...] = ()  # "m3", "d7", "d7.2"


@dataclass(frozen=True, slots=True)
class ReplySection:
    """Hold the bullets under one heading; an empty heading is the part above the first."""

    heading: str
    bullets: tuple[ReplyBullet, ...]


class LetGo(StrEnum):
    """Name the ways in which a reply lets go of an earlier memory."""

    ARCHIVED = "archived"
    SUPERSEDED = "superseded"
    DATED = "dated"  # the memory stays and gets the day it was said; only the offline backend uses this


@dataclass(frozen=True, slots=True)
class Declaration:
    """Hold the statement of a reply that a memory ends, with the entries that replace it and the reason."""

    id: str  # "m3"
    how: LetGo
    by: tuple[str, ...] = ()  # the entries that replace it
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ParsedDreamReply:
    """Hold the parts of a dream's reply."""

    sections: tuple[ReplySection, ...] = ()
    diary: str = ""
    declared: tuple[Declaration, ...] = ()
    unreadable: int = 0  # lines of [MEMORY] in an unknown form, which are left out
    keeps_rest: bool = False  # the reply has [NOTHING], so memories that it does not mention stay


NOTHING = "[NOTHING]"
_LONGEST = 8_000_000  # characters; no memory file is longer
_MARK = re.compile(r"^[\s#>*_]*\[\s*(MEMORY|DREAM|NOTHING)\s*\][\s:*_]*$", re.IGNORECASE)
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(?P<text>.*)$")
_HEADING_END = "# \t\u00a0\u3000"
_LONGEST_BULLET = 4_000  # characters; a longer bullet is no memory, so no further line is added to it
_BULLET = re.compile(r"^\s*(?:[-*•+]|\d{1,4}[.)])\s+(?P<text>\S.*)$")
_ID = r"[md]\d{1,9}(?:\.\d{1,4})?"
_IDS = rf"{_ID}(?:\s*[,;]\s*{_ID})*"
# These patterns match the reversed text, so that the ids at its end are found in linear time.
_ID_BACKWARDS = r"(?:\d{1,4}\.)?+\d{1,9}[md]"
_IDS_BACKWARDS = rf"{_ID_BACKWARDS}(?:\s*+[,;]\s*+{_ID_BACKWARDS})*+"
_CITED = re.compile(rf"[\s.]*+\**+\]\s*+(?P<ids>{_IDS_BACKWARDS})\s*+\[\**+\s*+", re.IGNORECASE)
_DECLARED = re.compile(
    rf"^\s*(?:[-*•+]\s+)?\**(?P<how>archived|superseded|dated)\**:?\s+\[\s*(?P<ids>{_IDS})\s*\]\**"
    rf"(?:\s+by\s+\**\[\s*(?P<by>{_IDS})\s*\]\**)?\s*[:–—-]*\s*(?P<reason>.*)$",  # noqa: RUF001
    re.IGNORECASE,
)


def parse(reply: Reply) -> ParsedDreamReply | RejectedReply:
    """Return the parts of `reply`, or the reason why it cannot be used; never raises."""
    if rejected := find_unusable(reply, _LONGEST):
        return rejected
    parts = _parts(reply.text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    is_nothing = "NOTHING" in parts and not _says(parts["NOTHING"])
    if "MEMORY" not in parts:
        told, _ = _diary(parts.get("DREAM", []))
        rejected = RejectedReply("the reply has no [MEMORY]")
        return ParsedDreamReply(diary=told, keeps_rest=True) if is_nothing else rejected
    sections, unreadable = _memory(_unfence(parts["MEMORY"]))
    if not sections:
        return RejectedReply("the [MEMORY] of the reply is empty")
    diary, declared = _diary(_unfence(parts.get("DREAM", [])))
    return ParsedDreamReply(tuple(sections), diary, tuple(declared), unreadable, is_nothing)


def render(
    sections: Iterable[ReplySection], diary: str, declared: Iterable[Declaration] = (), *, keeps_rest: bool = False
) -> str:
    """Return a reply text from which `parse` reads the same parts; each bullet's text must be a single line."""
    lines: list[str] = []
    for section in sections:
        lines += [f"## {section.heading}"] if section.heading else []
        lines += [f"- {one.text} [{', '.join(one.cites)}]" if one.cites else f"- {one.text}" for one in section.bullets]
    told = [diary] if diary else []
    for one in declared:
        by = f" by [{', '.join(one.by)}]" if one.by else ""
        told.append(f"- {one.how} [{one.id}]{by}: {one.reason}")
    memory = ["[MEMORY]", *lines] if lines else []
    return "\n".join([*memory, *([NOTHING] if keeps_rest or not lines else []), "[DREAM]", *told])


def merge(replies: Sequence[Reply]) -> Reply | RejectedReply:
    """Return one reply from the replies to the parts of a question: all sections, diaries and declarations in order.

    If one part has [NOTHING], the merged reply has it too, so that no memory ends only because it is not mentioned.
    """
    return merge_replies(replies, parse, _join_replies)


def _join_replies(parts: Sequence[ParsedDreamReply]) -> str:
    bullets: dict[str, list[ReplyBullet]] = {}
    for section in (section for part in parts for section in part.sections):
        bullets.setdefault(section.heading, []).extend(section.bullets)
    sections = [ReplySection(heading, tuple(bullets[heading])) for heading in sorted(bullets, key=bool)]
    diary = "\n\n".join(part.diary for part in parts if part.diary)
    declared = [one for part in parts for one in part.declared]
    return render(sections, diary, declared, keeps_rest=any(part.keeps_rest for part in parts))


# ── sections ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _parts(lines: list[str]) -> dict[str, list[str]]:
    """Return the lines of each section, by its name.

    If a section is repeated, as in an echo of the question, the last one with text counts.
    """
    found: dict[str, list[list[str]]] = {}
    for line, is_code in _with_code(lines):
        mark = None if is_code else _MARK.match(line)
        if mark:
            held: list[str] = []
            found.setdefault(mark[1].upper(), []).append(held)
        elif found:
            held.append(line)
    return {name: next((one for one in reversed(all_) if _says(one)), all_[-1]) for name, all_ in found.items()}


def _says(lines: Sequence[str]) -> bool:
    return any(line.strip() for line in lines)


def _with_code(lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield each line, and True if the line is code inside a bullet, where a section mark does not count.

    A fence counts only after a bullet of [MEMORY], and only if another fence closes it, because models put fences
    around anything.
    """
    until = -1
    section, in_bullet = "", False
    unclosed: set[tuple[str, bool]] = set()  # fences without an end, found while an earlier line was read
    for at, line in enumerate(lines):
        if at <= until:
            yield line, True
            continue
        mark = _MARK.match(line)
        if mark:
            section, in_bullet = mark[1].upper(), False
            unclosed = {one for one in unclosed if one[1]}
        elif section == "MEMORY" and in_bullet and _fence(line):
            fence = _fence(line), line[:1].isspace()
            end = None if fence in unclosed else _find_closing(lines, at)
            until = -1 if end is None else end
            unclosed |= {fence} if end is None else set()
        elif section == "MEMORY":
            in_bullet = in_bullet or _BULLET.match(line) is not None
        yield line, at <= until


def _fence(line: str) -> str:
    """Return the fence that a line opens, at any indentation; empty if it opens none."""
    return open_after("", line.strip())


def _find_closing(lines: Sequence[str], at: int) -> int | None:
    """Return the index of the line that closes a fence; None if nothing closes it before the next section."""
    fence = _fence(lines[at])
    for end in range(at + 1, len(lines)):
        if _MARK.match(lines[end]) and not lines[at][:1].isspace():
            return None
        if not open_after(fence, lines[end].strip()):
            return end
    return None


def _unfence(lines: list[str]) -> list[str]:
    """Return the lines of a section; if one fence encloses all of them, without this fence."""
    told = [at for at, line in enumerate(lines) if line.strip()]
    if told and _fence(lines[told[0]]):
        closing = _find_closing(lines, told[0])
        if closing in {None, told[-1]}:
            return [line for at, line in enumerate(lines) if at not in {told[0], closing}]
    return lines


# ── bullets ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _memory(lines: list[str]) -> tuple[list[ReplySection], int]:
    sections: list[tuple[str, list[str]]] = [("", [])]
    unreadable = 0
    after_blank = True
    for line, is_code in _with_code(["[MEMORY]", *lines]):
        if _MARK.match(line) and not is_code:
            continue
        bullets = sections[-1][1]
        heading = None if is_code else _HEADING.match(line)
        bullet = None if is_code else _BULLET.match(line)
        if _fence(line) or not line.strip():
            after_blank = True
            continue
        if heading:
            sections.append((heading["text"].rstrip(_HEADING_END).strip().strip("*_").strip(), []))
        elif bullet:
            bullets.append(bullet["text"].strip())
        elif bullets and len(bullets[-1]) > _LONGEST_BULLET:
            unreadable += 1
        elif bullets and (is_code or line[:1].isspace() or not (after_blank or _CITED.match(bullets[-1][::-1]))):
            cited = _CITED.match(bullets[-1][::-1])  # text after the ids still belongs to the bullet
            end = len(bullets[-1]) - (0 if cited is None else cited.end())
            bullets[-1] = f"{bullets[-1][:end]} {line.strip()}{bullets[-1][end:]}"
        else:
            unreadable += 1
        after_blank = False
    read = [ReplySection(heading, tuple(filter(None, map(_bullet, bullets)))) for heading, bullets in sections]
    return [section for section in read if section.bullets], unreadable


def _bullet(line: str) -> ReplyBullet | None:
    cites: list[str] = []  # the last id first
    backwards, at = line[::-1], 0
    while found := _CITED.match(backwards, at):
        cites += reversed(_ids(found["ids"][::-1]))
        at = found.end()
    text = line[: len(line) - at].strip()
    return ReplyBullet(text, tuple(dict.fromkeys(reversed(cites)))) if text else None


def _ids(text: str) -> list[str]:
    return [one.strip().lower() for one in re.split(r"[,;]", text)]


# ── the diary ────────────────────────────────────────────────────────────────────────────────────────────────────


def _diary(lines: list[str]) -> tuple[str, list[Declaration]]:
    prose: list[str] = []
    declared: list[Declaration] = []
    for line in lines:
        found = _DECLARED.match(line)
        named = [one for one in _ids(found["ids"]) if one.startswith("m")] if found else []
        if found and named:
            by = tuple(_ids(found["by"])) if found["by"] else ()
            how = LetGo(found["how"].lower())
            declared += [Declaration(one, how, by, found["reason"].strip()) for one in named]
        else:
            prose.append(line)
    return "\n".join(prose).strip(), declared
