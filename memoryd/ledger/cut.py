"""A cut: what is taken out of texts when something is forgotten, so that nothing else of them changes.

A forgotten text is found however its words are cased and spaced, where it stands alone or in the middle of a longer
one, but not inside a word. What is too short to mean one thing only (`tea`) is found only where it is a whole line or
bullet. Who said it (`User: …`) makes no difference. A line with nothing left goes; in the middle of a longer one
`[forgotten]` says that something was there.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from memoryd.ledger.grounding import LABELS
from memoryd.tiers import core, daily

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MARK = "[forgotten]"
_SHORT = 8  # characters below which one word alone is not looked for inside longer texts
_LABEL = rf"(?:\b(?:{LABELS}):\s+)"
_LABELLED = re.compile(rf"{_LABEL}(?=\S)", re.IGNORECASE)
_EMPTY = re.compile(r"^[ \t]*(?:[-*+][ \t]+)?(?:\[forgotten\][ \t.,;:!?]*)+(?:\r?\n|\Z)", re.MULTILINE)


class Block(NamedTuple):
    """What a run appended to a daily file, by its hash."""

    path: str  # relative to the workspace
    sha256: str
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """What is forgotten.

    Attributes:
        texts: as they were kept, none of them blank.
        blocks: of daily files, as a whole.
        others: blocks that say what they say for another reason: in them no text is looked for.
    """

    texts: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()
    others: tuple[Block, ...] = ()

    def says(self, text: str) -> bool:
        """Whether a text says one of the forgotten ones."""
        found = _pattern(self.texts)
        return found is not None and found.search(text) is not None

    def of_text(self, text: str) -> str:
        """The text without what is forgotten."""
        found = _pattern(self.texts)
        if found is None:
            return text
        cut, count = found.subn(MARK, text)
        return _EMPTY.sub("", cut) if count else text

    def of_core(self, data: bytes) -> bytes:
        """The bytes of `MEMORY.md` without it: bullets that say it go, what hangs below them stays as it is."""
        file = core.parse(data)
        going = [core.Remove(bullet.position) for bullet in core.bullets(file) if self.says(bullet.text)]
        return self._of_bytes(core.edit(file, going) if going else data)

    def of_daily(self, path: str, data: bytes) -> bytes:
        """The bytes of a daily file without it; a block of which nothing is left goes with its heading."""
        new = data
        for block in self.blocks:
            at = daily.find_block(new, block.sha256, block.size) if block.path == path else None
            if at is not None:
                new = new[:at] + new[at + block.size :]
        if self._of_bytes(new) == new:
            return new
        kept: list[bytes] = []
        end = 0
        for first, last in self._spans(path, new):
            kept += [self._of_bytes(new[end:first]), new[first:last]]
            end = last
        return _without_empty(new, b"".join((*kept, self._of_bytes(new[end:]))))

    def edited(self, path: str, data: bytes) -> list[str]:
        """The lines of a daily file that may be what is left of `blocks` which are not there as they were written."""
        found = (daily.find_block(data, one.sha256, one.size) is None for one in self.blocks if one.path == path)
        if not any(found):
            return []
        lines: list[str] = []
        spans = self._spans(path, data)
        file = daily.parse(data)
        begin = len(file.head)
        for block in file.blocks:
            is_others = any(first <= begin < last for first, last in spans)
            if block.clock is not None and not is_others:
                lines += [line.removeprefix("- ").strip() for line in block.body.splitlines() if line.strip()]
            begin += len(block.raw)
        return lines

    def _spans(self, path: str, data: bytes) -> list[tuple[int, int]]:
        """Where the others' blocks are, in order; blocks never overlap."""
        found = ((daily.find_block(data, one.sha256, one.size), one) for one in self.others if one.path == path)
        return sorted({(at, at + one.size) for at, one in found if at is not None})

    def _of_bytes(self, data: bytes) -> bytes:
        text = data.decode("utf-8", "surrogateescape")
        return self.of_text(text).encode("utf-8", "surrogateescape")

    def row(self) -> dict[str, Any]:
        """As an intent holds it."""
        return {
            "texts": list(self.texts),
            "blocks": [list(one) for one in self.blocks],
            "others": [list(one) for one in self.others],
        }


def cut_of_row(row: Mapping[str, Any]) -> Cut:
    """What `Cut.row` was made from."""
    return Cut(
        tuple(row["texts"]), tuple(Block(*one) for one in row["blocks"]), tuple(Block(*one) for one in row["others"])
    )


def cut_of(texts: Iterable[str], blocks: Iterable[Block] = (), others: Iterable[Block] = ()) -> Cut:
    """A cut of these texts; blank ones and those said twice are left out."""
    said = {core.normal(text): " ".join(text.split()) for text in texts if text.strip()}
    return Cut(tuple(sorted(said.values(), key=lambda one: (-len(one), one))), tuple(blocks), tuple(others))


@lru_cache(maxsize=8)
def _pattern(texts: tuple[str, ...]) -> re.Pattern[str] | None:
    forms = dict.fromkeys(form for text in texts for form in _forms(text))
    return re.compile("|".join(forms), re.IGNORECASE | re.MULTILINE) if forms else None


def _forms(text: str) -> list[str]:
    label = _LABELLED.match(text.strip())
    told = text.strip()[label.end() if label else 0 :]
    bare = told.rstrip(".!?").rstrip() or told
    found = []
    for form in dict.fromkeys(unicodedata.normalize(name, bare) for name in ("NFC", "NFD")):
        words = [re.escape(word) for word in form.split()]
        pattern = r"\s+".join(words)
        if len(words) < 2 and len(form) < _SHORT:
            found.append(rf"(?:^|(?<=^- )|(?<=^\* )|(?<=^\+ )){_LABEL}?{pattern}(?=[.!?]*[ \t]*\r?$)")
        else:
            found.append(rf"{_LABEL}?(?<!\w){pattern}(?!\w)")
    return found


def _without_empty(old: bytes, new: bytes) -> bytes:
    """The daily file without the blocks that lost all they said; sections that were empty before stay."""
    were = Counter(block.raw for block in daily.parse(old).blocks if not block.body)
    file = daily.parse(new)
    kept = []
    for block in file.blocks:
        if block.body or block.clock is None:
            kept.append(block)
        elif were[block.raw]:
            were[block.raw] -= 1
            kept.append(block)
    return daily.render(daily.DailyFile(file.title, file.head, tuple(kept)))
