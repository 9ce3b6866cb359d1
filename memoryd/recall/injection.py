"""Injection: what an agent is told of its memory at its start, within its budgets.

The profile and the facts come first, then the files, all between the mark by which ingest knows the text again:

    <memoryd-context>
    Kept by memoryd from earlier sessions here. Background to draw on, not a message of the user.
    User Context:
    - Work: …
    Facts:
    - [preference | 0.95] …
    ... 12 less sure facts left out: memoryd search --tier fact WORDS
    Codex, 09:12-09:40, not in a daily file yet:
     - the user asked: …
    MEMORY.md:
    ... 2 lines said above left out: the file has them
     - a line of the file
    ... lines 81-200 left out: the file has them
    </memoryd-context>

What stands in the first column is memoryd's own, but for the text behind a "- " that is one neutral line; each line of
a file begins with a space and is neutral behind its indentation and list mark. So no content closes the block, opens
another, or speaks in a role. Imports only what a hook can afford to load.

What a fact, or an earlier file, says word for word is not told again, so long as that is told itself: of bullets that
stand alone below headings which memoryd writes. Below another, such as "Outdated", beside other lines, such as "No
longer true:", or within a list or code, the same words may say something else.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from memoryd.counted import count_noun
from memoryd.text.fences import open_after
from memoryd.text.neutral import neutralize, split_shape
from memoryd.tiers import core
from memoryd.transcripts.injected import CLOSE, OPEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Count = Callable[[Sequence[str]], Sequence[int]]

LEAD = "Kept by memoryd from earlier sessions here. Background to draw on, not a message of the user."
FACTS = "Facts:"
_DEEPEST = 12  # characters of its indentation that a line keeps
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)", re.DOTALL)
_TOLD_HEADING = re.compile(r" (#{1,6}) ")
_ALONE = re.compile(r"[-*+][ \t]+(.*)")
BY_USER = "user: "  # whose words facts are: a bullet that names the speaker says no more
_ROUNDS = 12
_SHARE = 4  # what other sessions hand over is at most this part of the whole
_MARGIN = 0.97  # of what a round that came out too long may use in the next


class Part(NamedTuple):
    """A file, or an excerpt of one."""

    name: str  # its path in the workspace, with the lines where it is an excerpt
    text: str
    newest_last: bool = False  # where it is cut, its end stays
    whole: str = "the file"  # what has all of it
    plain: frozenset[str] = frozenset()  # headings and other lines below which a bullet means what it says anywhere


class Budget(NamedTuple):
    """How long an injection may be, tokens but for `units`."""

    sections: int  # profile and facts, with the mark around all
    files: int
    whole: int | None = None
    units: int | None = None  # UTF-16 code units of the whole, as a consumer written in JavaScript counts
    others: int = 0  # what other sessions hand over; never more than a quarter of the whole


class Injection(NamedTuple):
    """The text, and what had no place in it."""

    text: str  # empty where nothing is remembered, or nothing fits
    tokens: int
    left_out: tuple[str, ...] = ()


class _PartLine(NamedTuple):
    """A line of a part."""

    number: int  # in the file
    text: str
    size: int  # tokens
    said: str  # normalised; empty of a line that is told wherever it stands


class _PartBlock(NamedTuple):
    """A part as lines."""

    name: str
    lines: Sequence[_PartLine]
    heading: int  # tokens of the line that names it, with the one below, if any
    mark: int  # and of the one that says what is cut
    newest_last: bool
    whole: str
    above: str = ""  # a line that tells of what is said above


class _ChosenText(NamedTuple):
    text: str
    left_out: tuple[str, ...]
    untold: tuple[str, ...] = ()  # what of it the text does not name


def render(
    profile: Sequence[str],
    facts: Sequence[str],
    parts: Sequence[Part],
    budget: Budget,
    count: Count,
    others: Sequence[Part] = (),
    notes: Mapping[str, str] = MappingProxyType({}),
) -> Injection:
    """Write what an agent is told.

    Facts that do not fit go from the last up, then the profile is cut. Files share their room: a short one is told
    whole, long ones are cut to equal lengths, at their ends, or ahead of their newest lines. So do other sessions. What
    is left out is named where it would be; what has no place there, in a last line, where that fits. All lines are
    neutral. The text, as `count` measures it, keeps to the budget; `others` is what other sessions hand over, told
    ahead of the files; `notes` are told behind the lines that they are of.
    """
    sections = _Sections(profile, facts, count, notes)
    blocks, handed = _blocks(parts, count, notes), _choose_sessions(_blocks(others, count, {}), budget, count)
    if not (profile or facts or blocks or handed.text):
        return Injection("", 0, handed.left_out)
    for is_named in (True, False):
        made = _fit_text(sections, blocks, handed, budget, count, is_named=is_named)
        if made is not None:
            return made
    names = tuple(neutralize(part.name) for part in others) if budget.others else ()
    return Injection("", 0, sections.choose_lines(0).left_out + names + _files(blocks, 0, count).left_out)


def _fit_text(
    sections: _Sections,
    blocks: Sequence[_PartBlock],
    handed: _ChosenText,
    budget: Budget,
    count: Count,
    *,
    is_named: bool,
) -> Injection | None:
    """Return what is told within the budget, with a last line for what is left out and not named, if `is_named`."""
    rest_of = _reduce_budget(budget, handed.text, count)
    most = budget.sections if rest_of.whole is None else min(budget.sections, rest_of.whole)
    room, rest = most, budget.files
    names: list[str] = []  # for which the last line keeps room
    for _ in range(_ROUNDS):
        spare = _name_missing(names)
        told = sections.choose_lines(
            room - (count([spare])[0] + 1 if names else 0)
        )  # together they may take a token more
        framed = f"{OPEN}\n{LEAD}\n{told.text}{spare}{CLOSE}\n"
        frame = count([framed])[0]
        # The mark counts with the sections, but with the files where the sections have not even room for it.
        apart = bool(told.text) or frame <= most
        left = rest if apart else rest - frame
        most_files = left if rest_of.whole is None else min(left, rest_of.whole - frame)
        files = _choose_unsaid(blocks, sections.find_said(told.text), most_files, count)
        chosen = (told, handed, files)
        untold = [name for one in chosen for name in one.untold]
        if is_named and not set(untold) <= set(names):
            names = list(dict.fromkeys((*names, *untold)))
            continue
        whole = "".join(one.text for one in chosen)
        last = _name_missing(untold) if is_named else ""
        text = f"{OPEN}\n{LEAD}\n{whole}{last}{CLOSE}\n" if whole else ""
        sizes = count([framed, files.text if apart else f"{OPEN}\n{LEAD}\n{files.text}{last}{CLOSE}\n", text])
        over_sections = max(sizes[0] / max(1, most), _units(framed, rest_of)) if apart else 0.0
        over = max(sizes[1] / max(1, budget.files), _units(text, budget), sizes[2] / max(1, budget.whole or sizes[2]))
        if text and over_sections <= 1 and over <= 1:
            return Injection(text, sizes[2], tuple(name for one in chosen for name in one.left_out))
        if not text:
            break
        if over_sections > 1:
            room = int(room / over_sections * _MARGIN) - 1
        else:
            rest = int(min(rest, sizes[1]) / over * _MARGIN) - 1 if rest > 0 else rest
            room = room if rest > 0 else int(room / over * _MARGIN) - 1
    return None


def _name_missing(names: Sequence[str]) -> str:
    return f"... left out: {', '.join(names)}\n" if names else ""


def _choose_sessions(blocks: Sequence[_PartBlock], budget: Budget, count: Count) -> _ChosenText:
    """Return what other sessions hand over, within its own budget."""
    most = budget.others if budget.whole is None else min(budget.others, budget.whole // _SHARE)
    if not most:
        return _ChosenText("", ())
    room = most
    for _ in range(_ROUNDS):
        chosen = _files(blocks, room, count)
        size = count([chosen.text])[0]
        over = max(size / most, _SHARE * _units(chosen.text, budget))
        if over <= 1:
            return chosen
        room = int(min(room, size) / over * _MARGIN) - 1
    return _files(blocks, 0, count)


def _reduce_budget(budget: Budget, text: str, count: Count) -> Budget:
    """Return the budget that is left beside a text."""
    whole = None if budget.whole is None else budget.whole - count([text])[0]
    units = None if budget.units is None else budget.units - len(text.encode("utf-16-le", "surrogatepass")) // 2
    return budget._replace(whole=whole, units=units)


def _units(text: str, budget: Budget) -> float:
    """Return how much of the consumer's own limit a text takes; beyond 1 it does not fit."""
    return 0.0 if budget.units is None else len(text.encode("utf-16-le", "surrogatepass")) / 2 / max(1, budget.units)


# --- profile and facts ------------------------------------------------------------------------------------------------


class _Sections:
    """The sections, cut to any room."""

    def __init__(self, profile: Sequence[str], facts: Sequence[str], count: Count, notes: Mapping[str, str]) -> None:
        self._profile = [f"{line}\n" for line in profile]
        self._plain = facts
        self._facts = [f"{line}{_note(line, notes)}\n" for line in facts]
        self._count = count
        own = [f"{OPEN}\n{LEAD}\n", f"{CLOSE}\n", f"{FACTS}\n", _describe_fewer(len(facts)), "..."]
        sizes = count([*own, *self._profile, *self._facts])
        self._frame, self._title, self._note, self._dots = sizes[0] + sizes[1], *sizes[2:5]
        self._profile_size = sum(sizes[5 : 5 + len(profile)])
        self._fact_sizes = sizes[5 + len(profile) :]

    def find_said(self, text: str) -> frozenset[str]:
        """Return what those facts say that stand in a text."""
        told = frozenset(text.splitlines(keepends=True))
        facts = (plain for line, plain in zip(self._facts, self._plain, strict=True) if line in told)
        said = frozenset(_normalize(line.partition("] ")[2]) for line in facts)
        return said | {f"{BY_USER}{one}" for one in said}

    def choose_lines(self, room: int) -> _ChosenText:
        """As much as takes no more than `room` tokens, counted line by line."""
        room -= self._frame
        text, total = "".join(self._profile), len(self._facts)
        if self._profile and self._profile_size > room:
            cut = _cut(text, room - self._dots, self._count, end=False).rstrip()
            facts = self._list_left_out(total)
            if cut:
                return _ChosenText(f"{cut}\n...\n", ("part of the profile", *facts), facts)
            return _ChosenText("", ("the profile", *facts), ("the profile", *facts))
        room -= self._profile_size + self._title
        if sum(self._fact_sizes) <= room:
            return _ChosenText(text + (f"{FACTS}\n{''.join(self._facts)}" if total else ""), ())
        room -= self._note
        shown = 0
        while shown < total and room >= self._fact_sizes[shown]:
            room -= self._fact_sizes[shown]
            shown += 1
        told = f"{FACTS}\n{''.join(self._facts[:shown])}" if shown else ""
        left_out = self._list_left_out(total - shown)
        if room < 0:
            return _ChosenText(text, left_out, left_out)
        return _ChosenText(text + told + _describe_fewer(total - shown), left_out)

    def _list_left_out(self, left: int) -> tuple[str, ...]:
        return (f"{left} of {count_noun(len(self._facts), 'fact')}",) if left else ()


def _describe_fewer(left: int) -> str:
    return f"... {count_noun(left, 'less sure fact')} left out: memoryd search --tier fact WORDS\n"


# --- files ------------------------------------------------------------------------------------------------------------


def _note(line: str, notes: Mapping[str, str]) -> str:
    note = notes.get(line.strip())
    return f" ({note})" if note else ""


def _block(part: Part, count: Count, notes: Mapping[str, str]) -> _PartBlock:
    found = list(_contain_lines(part.text))
    name = f"{neutralize(part.name)}:\n"
    texts = [f"{line}{_note(line, notes)}\n" for _, line in found]
    highest = found[-1][0] if found else 0
    heading, mark, *sizes = count([name, _gap(highest, highest, part.whole), *texts])
    alone = dict(_list_standalone(part))
    given = zip(found, texts, sizes, strict=True)
    lines = [_PartLine(number, text, size, alone.get(number, "")) for (number, _), text, size in given]
    return _PartBlock(name, lines, heading, mark, part.newest_last, part.whole)


def _blocks(parts: Sequence[Part], count: Count, notes: Mapping[str, str]) -> list[_PartBlock]:
    return [block for block in (_block(part, count, notes) for part in parts) if block.lines]


def _list_standalone(part: Part) -> Iterator[tuple[int, str]]:
    """Yield the bullets that mean the same wherever they stand, by the numbers of their lines.

    None of a section with anything beside its bullets, such as "No longer true:".
    """
    is_plain = is_listed = commented = False
    fence = ""
    bullet: tuple[int, str] | None = None
    section: list[tuple[int, str]] = []
    for number, line in enumerate(part.text.split("\n") if part.plain else [], 1):
        heading, item = _HEADING.match(line), _ALONE.match(line)
        if bullet is not None and (heading or item):  # any other line may go on with it
            section.append(bullet)
        bullet = bullet if not line.strip() else None
        commented = (commented or (not fence and "<!--" in line)) and "-->" not in line.rpartition("<!--")[2]
        before, fence = fence, fence if commented else open_after(fence, line)
        if before or fence or commented:
            is_plain = False
        elif heading:
            yield from section if is_plain else ()
            section, is_listed = [], False
            is_plain = heading[1] == "##" and heading[2].strip() in part.plain
        elif item and len(line.splitlines()) == 1:
            is_listed = True
            is_plain = is_plain and not line.rstrip().endswith((":", "："))  # noqa: RUF001
            bullet = number, _normalize(item[1])
        elif line.strip() and not (is_listed and line[0].isspace()):
            is_plain = is_plain and not is_listed and line.strip() in part.plain
    if is_plain:
        yield from section if bullet is None else (*section, bullet)


def _normalize(text: str) -> str:
    """Return what a text says, equal for texts that are the same to a duplicate's finder."""
    return core.normalize(neutralize(text))


def _contain_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text with their numbers, each neutral; blank ones are left out."""
    for number, raw in enumerate(text.split("\n"), 1):
        for line in raw.splitlines():
            indent, mark, said = split_shape(line)
            if said:
                yield number, f" {indent[:_DEEPEST]}{mark}{said}"


def lines_of(first: int, last: int) -> str:
    """Return how the lines of an excerpt are named."""
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _gap(first: int, last: int, whole: str) -> str:
    return f"... {lines_of(first, last)} left out: {neutralize(whole)} has them\n"


def _choose_unsaid(blocks: Sequence[_PartBlock], said: frozenset[str], room: int, count: Count) -> _ChosenText:
    """Return the blocks within `room`, without repetitions; a line that does not fit is kept where it is repeated."""
    untold: set[str] = set()
    for _ in range(_ROUNDS):
        first: dict[str, str] = {}  # of what earlier blocks say, the line
        fewer, dropped = [], set[str]()
        for block in blocks:
            told = said | (first.keys() - untold)
            again = [bool(one.said) and one.said in told for one in block.lines]
            new = {one.said: one.text for one in block.lines if one.said and one.said not in said}
            first = new | first
            gone = {one.said for one, is_again in zip(block.lines, again, strict=True) if is_again}
            dropped |= gone - said
            fewer.append(_remove_repeated(block, again, count) if any(again) else block)
        chosen = _files(fewer, room, count)
        shown = f"\n{chosen.text}"
        missing = {one for one in dropped if f"\n{first[one]}" not in shown}
        if not missing:
            return chosen
        untold |= missing
    return _files(blocks, room, count)


def _remove_repeated(block: _PartBlock, again: Sequence[bool], count: Count) -> _PartBlock:
    """Return a block without repeated lines and without headings left empty; the whole block if that is shorter."""
    gone = {place for place, is_again in enumerate(again) if is_again}
    left, below = len(gone), 1  # below the last line the file ends as at a title
    for place in reversed(range(len(block.lines))):
        if place in gone:
            continue
        heading = _TOLD_HEADING.match(block.lines[place].text)
        level = len(heading[1]) if heading else 0
        if 0 < below <= level and place + 1 in gone:
            gone.add(place)
        else:
            below = level
    above = f"... {count_noun(left, 'line')} said above left out: {neutralize(block.whole)} has them\n"
    size = count([above])[0]
    if size >= sum(block.lines[place].size for place in gone):
        return block
    kept = [line for place, line in enumerate(block.lines) if place not in gone]
    return block._replace(lines=kept, heading=block.heading + size, above=above)


def _files(blocks: Sequence[_PartBlock], room: int, count: Count) -> _ChosenText:
    """Return the blocks within `room` tokens, counted line by line; each has a share that shorter ones left larger."""
    needs = [block.heading + sum(line.size for line in block.lines) for block in blocks]
    shares = [0] * len(blocks)
    waiting = len(blocks)
    for place in sorted(range(len(blocks)), key=needs.__getitem__):
        shares[place] = min(needs[place], max(0, room) // waiting)
        room -= shares[place]
        waiting -= 1
    chosen = [_part_of(block, share, need, count) for block, share, need in zip(blocks, shares, needs, strict=True)]
    left_out = tuple(left for one in chosen for left in one.left_out)
    return _ChosenText(
        "".join(one.text for one in chosen), left_out, tuple(left for one in chosen for left in one.untold)
    )


def _part_of(block: _PartBlock, share: int, need: int, count: Count) -> _ChosenText:
    name = block.name.removesuffix(":\n")
    if share >= need:
        return _ChosenText(block.name + block.above + "".join(line.text for line in block.lines), ())
    share -= block.heading + block.mark
    lines = list(reversed(block.lines)) if block.newest_last else block.lines
    kept: list[str] = []
    left: list[int] = []
    for line in lines:
        if share >= line.size and not left:
            share -= line.size
            kept.append(line.text)
        else:
            left.append(line.number)
    if not kept and lines:
        cut = _cut(lines[0].text.rstrip("\n"), share - 1, count, end=block.newest_last)
        kept = [f" {bare}\n"] if (bare := neutralize(cut)) else []
    if not kept:
        return _ChosenText("", (name,), (name,))
    first, last = min(left), max(left)
    told, gap = (f"{name}, {lines_of(first, last)}",), _gap(first, last, block.whole)
    if block.newest_last:
        return _ChosenText(block.name + block.above + gap + "".join(reversed(kept)), told)
    return _ChosenText(block.name + block.above + "".join(kept) + gap, told)


def _cut(text: str, room: int, count: Count, *, end: bool) -> str:
    """Return the longest beginning, or end, of a text that takes no more than `room` tokens."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if count([text[-middle:] if end else text[:middle]])[0] <= room:
            low = middle
        else:
            high = middle - 1
    return (text[-low:] if end else text[:low]) if low else ""
