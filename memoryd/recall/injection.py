"""Build the memory text that an agent gets when its session starts, within a token budget.

The profile, the facts and the state of the project come first, then the files. Two marks enclose all of it. Ingest
recognizes the text by these marks later, so that memoryd does not read its own text as new:

    <memoryd-context>
    Kept by memoryd from earlier sessions here. Not a message of the user; a fault may be fixed by now.
    User Context:
    - Work: …
    Facts:
    - [preference | 0.95] …
    ... 12 less sure facts left out: memoryd search --tier fact WORDS
    State of this project (2026-03-01, 3 days ago):
     - Last request: …
    MEMORY.md:
     - a line of the file
    ... lines 81-200 left out: the file has them
    </memoryd-context>

No content can close the block, open another one, or look like a message of a user or agent:

- Only memoryd's own text starts in the first column. The exception is a bullet, whose text is one neutralized line.
- Each line of a file starts with a space, and its text after the indentation and list mark is neutralized.

A hook loads this module, so it imports only modules that load fast.

A line is left out if the text above it says the same. A line of the user stays if only another speaker says it, because
that speaker may have added that it is not true. This applies only to plain lines below headings that memoryd
writes. The same words may mean something else below another heading such as "Outdated", next to another line such as
"No longer true:", in a nested list, or in code.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import NamedTuple

from memoryd.counted import count_noun
from memoryd.recall.repetitions import USER, ToldStatements, split_statements
from memoryd.text.fences import open_after
from memoryd.text.neutral import neutralize, split_shape
from memoryd.transcripts.injected import CLOSE, OPEN

Count = Callable[[Sequence[str]], Sequence[int]]


LEAD = "Kept by memoryd from earlier sessions here. Not a message of the user; a fault may be fixed by now."
FACTS = "Facts:"
RECENT_FILE = ".continuum/memory/RECENT.md"
FAILED = "Failed"  # start of the name of a section whose lines list what did not work
TOP = ""  # in `Part.plain`: bullets above the first heading count as plain, and so do those below a bullet with a colon
# Lines below other headings are the user's, unless they have another speaker's label.
_OF_AGENT = ("Key decisions", "Discoveries", "State", "Open", "Tasks", "Decided", "Found out")  # starts of headings
_SPEAKER = re.compile(r"(?:\[x\] )?(?:(User|Asked|Last request)|Assistant|Agent|Report): ")
_SECTION = 3  # heading level of a label such as "**State**:", with its text below or after it
_DEEPEST = 12  # characters of indentation that a line keeps at most
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)", re.DOTALL)
LABEL = re.compile(r"\*\*([A-Z][a-z ]{2,20})\*\*:[ \t]*(.*)", re.DOTALL)
_LEVEL = {"##": 2, "###": 3}  # level of each heading mark that memoryd writes
_ALONE = re.compile(r"[-*+][ \t]+(.*)")
_NAMED = ":\n"
_ROUNDS = 12
_HALF = 2  # files may use at least this fraction (one half) of the whole limit, if they need it
_MARGIN = 0.97  # after a text that came out too long, the next attempt aims at this share of the limit


class Part(NamedTuple):
    """Hold the text of a file, or of an excerpt of one, that may be injected."""

    name: str  # the path in the workspace; for an excerpt, with its line numbers
    text: str
    newest_last: bool = False  # the newest lines are at the end, so shortening keeps the end
    whole: str = "the file"  # what to call the place that has the full text
    plain: frozenset[str] = frozenset()  # headings and other lines that do not change the meaning of lines below them
    first: tuple[str, ...] = ()  # bullets that shortening keeps, the most important first


class Budget(NamedTuple):
    """Hold the size limits of an injection, in tokens except for `units`."""

    sections: int  # limit for the profile, the facts, the state of the project and the marks around everything
    files: int
    whole: int | None = None
    units: int | None = None  # limit of the whole in UTF-16 code units, as a program in JavaScript counts


class Injection(NamedTuple):
    """Hold the injected text, its size in tokens, and the names of texts that did not fit."""

    text: str  # empty if nothing is remembered, or nothing fits
    tokens: int
    left_out: tuple[str, ...] = ()


class _PartLine(NamedTuple):
    """Hold one line of a part, with its size and meaning."""

    number: int  # line number in the file
    text: str
    size: int  # tokens
    said: frozenset[str]  # its statements, to find repetitions; empty for a line that is never left out as a repetition
    level: float  # level of a heading, or of a line that serves as one; 0 for any other line
    rank: int  # 0 for the most important


class _PartBlock(NamedTuple):
    """Hold a part as measured lines."""

    name: str
    lines: Sequence[_PartLine]
    heading: int  # tokens of the line that names the part
    mark: int  # tokens of the line that says which lines are left out
    newest_last: bool
    whole: str
    is_ranked: bool

    @property
    def need(self) -> int:
        """Return how many tokens the whole part takes."""
        return self.heading + sum(line.size for line in self.lines)


class _ChosenText(NamedTuple):
    text: str
    left_out: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()  # those of `left_out` that the text does not mention


def render(
    profile: Sequence[str],
    facts: Sequence[str],
    parts: Sequence[Part],
    budget: Budget,
    count: Count,
    state: Part | None = None,
    notes: Mapping[str, str] = MappingProxyType({}),
) -> Injection:
    """Return the injected text, within the budget as measured by `count`, with all lines neutralized.

    Facts that do not fit are left out, starting from the end. If that is not enough, the profile is shortened. The
    state of the project may take half of the room for all of these.

    Files share their room: short files are injected whole, and long files are shortened to equal lengths. A shortened
    file keeps its most important lines, or else its beginning or its newest lines. A line in place of each omitted text
    names it. A last line names texts that have no such line, if it fits.

    Args:
        profile: the lines of the profile.
        facts: the lines of the facts, the most certain first.
        parts: the files, in order.
        budget: the limits.
        count: returns the tokens of each text.
        state: the state of the project, if there is one.
        notes: maps a line to a remark that is put after it.
    """
    sections = _Sections(profile, facts, state, count, notes)
    blocks = _blocks(parts, count, notes)
    if not (profile or facts or blocks or sections.state):
        return Injection("", 0)
    for is_named in (True, False):
        made = _fit_text(sections, blocks, budget, count, is_named=is_named)
        if made is not None:
            return made
    return Injection("", 0, sections.choose_lines(0).left_out + _files(blocks, 0, count).left_out)


def _fit_text(
    sections: "_Sections", blocks: Sequence[_PartBlock], budget: Budget, count: Count, *, is_named: bool
) -> Injection | None:
    """Return an injection within the budget, or None if none fits; `is_named` adds a last line with omitted texts."""
    left = _leave(budget.whole, sum(block.need for block in blocks))
    most = budget.sections if left is None else min(budget.sections, left)
    most_units = _leave(budget.units, sum(_count_units(line.text) for block in blocks for line in block.lines))
    room, rest = most, budget.files
    names: list[str] = []  # names for which room is reserved in the last line
    for _ in range(_ROUNDS):
        spare = _name_missing(names)
        # Two texts together may take one token more than the sum of both.
        told = sections.choose_lines(room - (count([spare])[0] + 1 if names else 0))
        framed = f"{OPEN}\n{LEAD}\n{told.text}{spare}{CLOSE}\n"
        frame = count([framed])[0]
        # The marks count as part of the sections, or as part of the files if the sections have no room for them.
        apart = bool(told.text) or frame <= most
        left = rest if apart else rest - frame
        most_files = left if budget.whole is None else min(left, budget.whole - frame)
        files = _choose_unsaid(blocks, sections.find_said(told.text), most_files, count)
        chosen = (told, files)
        untold = [name for one in chosen for name in one.untold]
        if is_named and not set(untold) <= set(names):
            names = list(dict.fromkeys((*names, *untold)))
            continue
        whole = told.text + files.text
        last = _name_missing(untold) if is_named else ""
        text = f"{OPEN}\n{LEAD}\n{whole}{last}{CLOSE}\n" if whole else ""
        sizes = count([framed, files.text if apart else f"{OPEN}\n{LEAD}\n{files.text}{last}{CLOSE}\n", text])
        over_sections = max(sizes[0] / max(1, most), _measure(framed, most_units)) if apart else 0.0
        over = max(
            sizes[1] / max(1, budget.files),
            _measure(text, budget.units),
            sizes[2] / max(1, sizes[2] if budget.whole is None else budget.whole),
        )
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


def _leave(limit: int | None, need: int) -> int | None:
    """Return the part of a limit that the sections may use: what the files do not need, but at least half of it."""
    return None if limit is None else max(limit // _HALF, limit - need)


def _count_units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _measure(text: str, units: int | None) -> float:
    """Return the size of a text as a share of a limit in UTF-16 units; above 1 it does not fit."""
    return _count_units(text) / max(1, units) if units is not None else 0.0


# --- profile, facts and the state of the project ----------------------------------------------------------------------


class _Sections:
    """Hold the profile, the facts and the state, and shorten them to a given room."""

    def __init__(
        self, profile: Sequence[str], facts: Sequence[str], state: Part | None, count: Count, notes: Mapping[str, str]
    ) -> None:
        self._profile = [f"{line}\n" for line in profile]
        self._facts = [f"{line}{_note(line, notes)}\n" for line in facts]
        self._says = {f"{line}\n": split_statements(line.partition(": ")[2], USER) for line in profile}
        told = zip(self._facts, facts, strict=True)
        self._says |= {line: split_statements(plain.partition("] ")[2], USER) for line, plain in told}
        self.state = _blocks([state] if state else [], count, {})
        self._says |= {line.text: line.said for block in self.state for line in block.lines}
        self._count = count
        own = [f"{OPEN}\n{LEAD}\n", f"{CLOSE}\n", f"{FACTS}\n", _describe_fewer(len(facts)), "..."]
        sizes = count([*own, *self._profile, *self._facts])
        self._frame, self._title, self._note, self._dots = sizes[0] + sizes[1], *sizes[2:5]
        self._profile_size = sum(sizes[5 : 5 + len(profile)])
        self._fact_sizes = sizes[5 + len(profile) :]

    def find_said(self, text: str) -> dict[str, str]:
        """Return the statements of the given lines that a text contains, each with its line."""
        return {said: line for line in text.splitlines(keepends=True) for said in self._says.get(line, ())}

    def choose_lines(self, room: int) -> _ChosenText:
        """Return the sections shortened to at most `room` tokens, counted line by line."""
        room -= self._frame
        known = self._profile_size + self._title + sum(self._fact_sizes)
        share = min(sum(block.need for block in self.state), max(room // _HALF, room - known))
        told = self._choose_known(room - share)
        state = _choose_unsaid(self.state, self.find_said(told.text), share, self._count)
        return _ChosenText(told.text + state.text, told.left_out + state.left_out, told.untold + state.untold)

    def _choose_known(self, room: int) -> _ChosenText:
        text, total = "".join(self._profile), len(self._facts)
        if self._profile and self._profile_size > room:
            cut = _cut(text, room - self._dots, self._count, end=False).rstrip()
            facts = self._list_left_out(total)
            if cut:
                return _ChosenText(f"{cut}\n...\n", ("part of the profile", *facts), facts)
            return _ChosenText("", ("the profile", *facts), ("the profile", *facts))
        room -= self._profile_size + self._title
        if sum(self._fact_sizes) <= room:
            return _ChosenText(text + (f"{FACTS}\n{''.join(self._facts)}" if total else ""))
        room -= self._note
        shown = _count_fitting(self._fact_sizes, room)
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
    name = f"{neutralize(part.name)}{_NAMED}"
    texts = [f"{line}{_note(line, notes)}\n" for _, line in found]
    highest = found[-1][0] if found else 0
    heading, mark, *sizes = count([name, _gap(highest, highest, part.whole), *texts])
    alone = dict(_list_standalone(part))
    ranks = {f"- {neutralize(text)}": rank for rank, text in enumerate(part.first)}
    lines = [
        _PartLine(
            number,
            text,
            size,
            alone.get(number, frozenset()),
            _level(line.strip(), part.plain),
            ranks.get(line.strip(), len(ranks)),
        )
        for (number, line), text, size in zip(found, texts, sizes, strict=True)
    ]
    return _PartBlock(name, lines, heading, mark, part.newest_last, part.whole, is_ranked=bool(ranks))


def _level(line: str, plain: frozenset[str]) -> float:
    """Return the level of a heading, or of a line of memoryd that serves as a heading; 0 for any other line."""
    if heading := _HEADING.match(line):
        return len(heading[1])
    label = LABEL.fullmatch(line)
    if label and not label[2]:
        return _SECTION
    return 2.5 if line in plain else 0


def _blocks(parts: Sequence[Part], count: Count, notes: Mapping[str, str]) -> list[_PartBlock]:
    return [block for block in (_block(part, count, notes) for part in parts) if block.lines]


def _list_standalone(part: Part) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield the number and statements of each line whose meaning does not depend on the lines around it.

    A section that has anything besides bullets, such as a line "No longer true:", yields none.
    """
    is_plain = is_framed = TOP in part.plain
    is_listed = commented = False
    fence = kind = ""
    bullet: tuple[int, frozenset[str]] | None = None
    section: list[tuple[int, frozenset[str]]] = []
    for number, line in enumerate(part.text.split("\n") if part.plain else [], 1):
        is_one = len(line.splitlines()) == 1
        heading, item = _HEADING.match(line) or (LABEL.match(line) if is_one else None), _ALONE.match(line)
        if bullet is not None and (heading or item):  # any other line may continue the bullet
            section.append(bullet)
        bullet = bullet if not line.strip() else None
        commented = (commented or (not fence and "<!--" in line)) and "-->" not in line.rpartition("<!--")[2]
        before, fence = fence, fence if commented else open_after(fence, line)
        if before or fence or commented:
            is_plain = False
        elif heading:
            yield from section if is_plain else ()
            level = _LEVEL.get(heading[1], 3 if line.startswith("*") else 0)
            name = (heading[1] if line.startswith("*") else heading[2]).strip()
            is_framed = name in part.plain if level == 2 else is_framed and level == 3
            is_plain, is_listed = is_framed and name in part.plain, False
            kind = FAILED if name.startswith(FAILED) else "" if name.startswith(_OF_AGENT) else USER
            section = [(number, split_statements(heading[2], kind))] if line.startswith("*") and heading[2] else []
        elif item and is_one:
            is_listed = True
            is_plain = is_plain and (TOP in part.plain or not line.rstrip().endswith((":", "：")))  # noqa: RUF001
            label = None if kind == FAILED else _SPEAKER.match(item[1])
            bullet = number, split_statements(item[1], USER * (label[1] is not None) if label else kind)
        elif line.strip() and not (is_listed and line[0].isspace()):
            is_plain = is_plain and not is_listed and line.strip() in part.plain
    if is_plain:
        yield from section if bullet is None else (*section, bullet)


def _contain_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line of a text that is not blank, with its number; the line is neutralized."""
    for number, raw in enumerate(text.split("\n"), 1):
        for line in raw.splitlines():
            indent, mark, said = split_shape(line)
            if said:
                yield number, f" {indent[:_DEEPEST]}{mark}{said}"


def lines_of(first: int, last: int) -> str:
    """Return a description of a range of lines, such as `lines 3-8`."""
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _gap(first: int, last: int, whole: str) -> str:
    return f"... {lines_of(first, last)} left out: {neutralize(whole)} has them\n"


def _choose_unsaid(blocks: Sequence[_PartBlock], said: Mapping[str, str], room: int, count: Count) -> _ChosenText:
    """Return the text of the blocks within `room` tokens, without repetitions.

    A line is left out if an earlier line says the same, or if a longer line below has all of it. If that other line
    itself does not fit, this one stays. `said` maps each statement that is already injected to its line.
    """
    untold: set[str] = set()
    longer = [line.said for block in blocks if not block.newest_last for line in block.lines]
    for _ in range(_ROUNDS):
        told, again = ToldStatements(said, untold, longer), set[str]()
        fewer = []
        for block in blocks:
            lines = []
            for line in block.lines:
                if found := told.find_all(line.said):
                    again |= found - said.keys()
                else:
                    lines.append(line)
                    told.add(line.said, line.text)
            fewer.append(_remove_empty(block, lines))
        chosen = _files([block for block in fewer if block.lines], room, count)
        shown = f"\n{chosen.text}"
        missing = {one for one in again if f"\n{told.lines.get(one, one)}" not in shown}
        if not missing:
            return chosen
        untold |= set() if longer else missing
        longer = []
    return _files(blocks, room, count)


def _remove_empty(block: _PartBlock, lines: Sequence[_PartLine]) -> _PartBlock:
    """Return a block with only these lines, without headings that have no line left below them."""
    left = {line.number for line in lines}
    kept: list[_PartLine] = []
    is_gone, below = len(lines) < len(block.lines), 1.0  # the end of the file ends a section, as a title does
    for line in reversed(block.lines):
        if line.number in left and not (is_gone and 0 < below <= line.level):
            kept.append(line)
            is_gone, below = False, line.level or _SECTION * bool(LABEL.fullmatch(line.text.strip()))
        else:
            is_gone = True
    return block._replace(lines=kept[::-1])


def _files(blocks: Sequence[_PartBlock], room: int, count: Count) -> _ChosenText:
    """Return the text of the blocks within `room` tokens, counted line by line.

    Room that short blocks do not need goes to longer ones. Daily files, whose newest lines are last, share their room
    differently: the first one is injected whole before the next one gets any room.
    """
    shares = [0] * len(blocks)
    waiting = len(blocks)
    for place in sorted(range(len(blocks)), key=lambda at: blocks[at].need):
        shares[place] = min(blocks[place].need, max(0, room) // waiting)
        room -= shares[place]
        waiting -= 1
    days = [place for place, block in enumerate(blocks) if block.newest_last]
    together = sum(shares[place] for place in days)
    for place in days:
        shares[place] = min(blocks[place].need, together)
        together -= shares[place]
    chosen = [_part_of(block, share, count) for block, share in zip(blocks, shares, strict=True)]
    return _ChosenText(
        "".join(one.text for one in chosen),
        tuple(left for one in chosen for left in one.left_out),
        tuple(left for one in chosen for left in one.untold),
    )


def _part_of(block: _PartBlock, share: int, count: Count) -> _ChosenText:
    name = block.name.removesuffix(_NAMED)
    if share >= block.need:
        return _ChosenText(block.name + "".join(line.text for line in block.lines))
    share -= block.heading + block.mark
    if block.is_ranked and (chosen := _choose_important(block, share)):
        return chosen
    lines = block.lines[::-1] if block.newest_last else block.lines
    fitting = _count_fitting([line.size for line in lines], share)
    kept = [line.text for line in lines[:fitting]]
    left = [line.number for line in lines[fitting:]]
    if not kept and lines:
        cut = _cut(lines[0].text.rstrip("\n"), share - 1, count, end=block.newest_last)
        kept = [f" {bare}\n"] if (bare := neutralize(cut)) else []
    if not kept:
        return _ChosenText("", (name,), (name,))
    first, last = min(left), max(left)
    told, gap = (f"{name}, {lines_of(first, last)}",), _gap(first, last, block.whole)
    if block.newest_last:
        return _ChosenText(block.name + gap + "".join(reversed(kept)), told)
    return _ChosenText(block.name + "".join(kept) + gap, told)


def _choose_important(block: _PartBlock, share: int) -> _ChosenText | None:
    """Return the most important lines of a block, in their original order with headings; None if none fits."""
    kept = set()
    for unit in sorted(_list_units(block), key=lambda unit: (unit[0].level == 0, unit[0].rank)):
        size = sum(line.size for line in unit)
        if size <= share:
            share -= size
            kept |= {line.number for line in unit}
    fewer = _remove_empty(block, [line for line in block.lines if line.number in kept])
    if all(line.level for line in fewer.lines):
        return None
    missing = sum(not line.level and line.number not in kept for line in block.lines)
    left = count_noun(missing, "less important line")
    gap = f"... {left} left out: {neutralize(block.whole)} has them\n"
    told = (f"{block.name.removesuffix(_NAMED)}, {left}",)
    return _ChosenText(block.name + "".join(line.text for line in fewer.lines) + gap, told)


def _list_units(block: _PartBlock) -> list[list[_PartLine]]:
    """Return the lines of a block in groups: each line together with the lines that continue it."""
    units: list[list[_PartLine]] = []
    for line in block.lines:
        if units and not line.level and line.text.startswith("  "):
            units[-1].append(line)
        else:
            units.append([line])
    return units


def _count_fitting(sizes: Iterable[int], room: int) -> int:
    """Return how many of the first sizes together take at most `room`."""
    return bisect_right(list(accumulate(sizes)), room)


def _cut(text: str, room: int, count: Count, *, end: bool) -> str:
    """Return the longest beginning of a text, or its longest end, that takes at most `room` tokens."""

    def drop(size: int) -> str:
        return text[size:] if end else text[: len(text) - size]

    return drop(bisect_left(range(len(text)), x=True, key=lambda size: count([drop(size)])[0] <= room))
