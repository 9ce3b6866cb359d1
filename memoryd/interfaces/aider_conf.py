"""Aider's `.aider.conf.yml`: `MEMORY.md` among the files that it reads at its start, all else left as it is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memoryd.errors import RefusedError
from memoryd.interfaces.json_settings import Edit

if TYPE_CHECKING:
    from pathlib import Path

MARK = "  # memoryd"
_READ = re.compile(r"^read[ \t]*:[ \t]*(.*)$", re.MULTILINE)
_ITEM = re.compile(r"([ \t]*)- \S")


@dataclass(frozen=True, slots=True)
class AiderConf(Edit):
    """One entry of the list `read`."""

    memory: Path  # what is to be read

    def put(self, old: bytes | None) -> bytes:
        text = self.text(old)
        if self._entry("") in [line.strip() for line in text.splitlines()]:
            return old or b""
        found = list(_READ.finditer(text))
        end = "\r\n" if "\r\n" in text else "\n"
        if not found:
            lead = end if text and not text.endswith("\n") else ""
            return f"{text}{lead}read:{MARK}{end}{self._entry('  ')}{end}".encode()
        below = text[found[0].end() :].lstrip("\r\n")
        item = _ITEM.match(below)
        value = found[0][1].partition("#")[0].strip()
        if len(found) > 1 or value or item is None:
            raise RefusedError('holds a "read" that is no list of lines', str(self.path), self.by_hand())
        place = len(text) - len(below)
        return f"{text[:place]}{self._entry(item[1])}{end}{below}".encode()

    def take(self, old: bytes) -> bytes | None:
        lines = self.text(old).splitlines(keepends=True)
        left = [line for line in lines if line.strip() != self._entry("")]
        if len(left) == len(lines):
            return old
        for place, line in enumerate(left):
            is_last = place + 1 == len(left) or not _ITEM.match(left[place + 1])
            if line.rstrip() == f"read:{MARK}" and is_last:
                del left[place]
                break
        return "".join(left).encode() or None

    def _entry(self, indent: str) -> str:
        return f"{indent}- {self._quoted()}{MARK}"

    def _quoted(self) -> str:
        # A JSON string is a YAML one, whatever the path holds.
        return json.dumps(str(self.memory), ensure_ascii=False)

    def by_hand(self) -> str:
        return f"add {self._quoted()} to read: by hand"
