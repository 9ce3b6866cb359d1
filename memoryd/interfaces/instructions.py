"""The file of instructions that a tool loads by itself, CLAUDE.md, GEMINI.md or AGENTS.md, with the memory named in it.

    <!-- memoryd connect: claude-code demo -->
    @MEMORY.md
    <!-- end of memoryd connect: claude-code demo -->

Claude Code and Gemini CLI load what stands behind an `@`, and follow the `@` of that file as well; Gemini CLI within
the project alone. Codex, OpenCode and pi know no imports: they are told where the memory lies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memoryd.errors import RefusedError
from memoryd.interfaces.json_settings import Edit

SAID = "What earlier sessions found out is in MEMORY.md"
_ANOTHER = re.compile(r"\r?\n(?=<!-- memoryd connect: )")
_WRITTEN = re.compile(rf"(?:@\S*MEMORY\.md|{re.escape(SAID)}[^\r\n]*)?(?:\r?\n)?")


@dataclass(frozen=True, slots=True)
class Instructions(Edit):
    """One block of such a file."""

    name: str  # of the block: the tool and the agent
    line: str  # what the block says
    loads: bool  # whether the tool loads `MEMORY.md` for it, so that nobody else need tell it

    def put(self, old: bytes | None) -> bytes:
        text = self.text(old)
        end = "\r\n" if "\r\n" in text else "\n"
        first, last = self._marks()
        block = f"{first}{end}{self.line}{end}{last}{end}"
        if (found := self._find(text)) is not None:
            return (text[: found.start("block")] + block + text[found.end() :]).encode()
        if not text:
            return block.encode()
        return (text + (end if text.endswith("\n") else end * 2) + block).encode()

    def take(self, old: bytes) -> bytes | None:
        text = self.text(old)
        found = self._find(text)
        if found is None:
            return old
        above, below = text[: found.start()], text[found.end() :]
        if not above and (line := _ANOTHER.match(below)):
            below = below[line.end() :]  # it parted the two blocks: nobody else wrote it
        return (above + below).encode() or None

    def is_in(self, old: bytes | None) -> bool:
        """Whether the block is there, or at least its beginning."""
        return self._marks()[0].encode() in (old or b"")

    def _marks(self) -> tuple[str, str]:
        return f"<!-- memoryd connect: {self.name} -->", f"<!-- end of memoryd connect: {self.name} -->"

    def _find(self, text: str) -> re.Match[str] | None:
        found = self.block(text, *self._marks())
        if found is not None and not _WRITTEN.fullmatch(found["said"]):
            what = f"holds something else than memoryd's line behind {self._marks()[0]}"
            raise RefusedError(what, str(self.path), "move it out of the block")
        return found

    def by_hand(self) -> str:
        return f"put this in by hand: {self.line}"
