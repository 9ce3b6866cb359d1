"""Edits of a tool's files that are not JSON: a block between marks, or a line of a list; all else stays as it is.

The list of MCP servers of Codex, in its `config.toml`, at the file's end:

    # memoryd connect: memoryd
    [mcp_servers.memoryd]
    command = "…"
    args = ["…"]
    startup_timeout_sec = 30
    # end of memoryd connect: memoryd

Codex adds tables of its own to a server, such as what a person has allowed its tools; they stay as long as it is there.

The file of instructions that a tool loads by itself, CLAUDE.md, GEMINI.md or AGENTS.md, with the memory named in it:

    <!-- memoryd connect: claude-code demo -->
    @MEMORY.md
    <!-- end of memoryd connect: claude-code demo -->

Claude Code and Gemini CLI load what stands behind an `@`, and follow the `@` of that file as well; Gemini CLI within
the project alone. Codex, OpenCode and pi know no imports: they are told where the memory lies.

Aider's `.aider.conf.yml` lists `MEMORY.md` among the files that it reads at its start.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memoryd.errors import RefusedError
from memoryd.interfaces.json_settings import Edit
from memoryd.interfaces.mcp_server import NAME, McpServer

SAID = "What earlier sessions found out is in MEMORY.md"
_ANOTHER = re.compile(r"\r?\n(?=<!-- memoryd connect: )")
_WRITTEN = re.compile(rf"(?:@\S*MEMORY\.md|{re.escape(SAID)}[^\r\n]*)?(?:\r?\n)?")
MARK = "  # memoryd"
_READ = re.compile(r"^read[ \t]*:[ \t]*(.*)$", re.MULTILINE)
_ITEM = re.compile(r"([ \t]*)- \S")
_KEY = "mcp_servers"
_PATIENCE = {"startup_timeout_sec": 30}  # three times what it is else: a busy machine takes ten to start Python


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
        """Return whether the block is there, or at least its beginning."""
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
            raise RefusedError('holds a "read" that is not a list of lines', str(self.path), self.by_hand())
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
        return f"{indent}- {_quote(str(self.memory))}{MARK}"

    def by_hand(self) -> str:
        return f"add {_quote(str(self.memory))} to read: by hand"


@dataclass(frozen=True, slots=True)
class TomlServers(Edit):
    """Add or remove one table of the list."""

    server: McpServer  # what the table starts

    def put(self, old: bytes | None) -> bytes:
        text = self.text(old)
        was = self._read(text)
        words = self.server.words
        wanted = {"command": words[0], "args": words[1:]}
        name = self.server.name_among(was.get(_KEY, {}), self.path, self.by_hand())
        there = was.get(_KEY, {}).get(name)
        if there is not None and {**there, **wanted} == there:
            return old or b""
        rest = self._remove_block(text, name)
        if _KEY in (kept := self._read(rest)) and name in kept[_KEY]:
            raise RefusedError(f"has a table [{_KEY}.{name}] already", str(self.path), self.by_hand())
        end = "\r\n" if "\r\n" in text else "\n"
        lead = "" if not rest else end if rest.endswith("\n") else 2 * end
        new = f"{rest}{lead}{end.join(self._lines(name))}{end}"
        if self._read(new) != kept | {_KEY: kept.get(_KEY, {}) | {name: wanted | _PATIENCE}}:
            raise RefusedError(f"cannot take another table at its end: {_KEY}", str(self.path), self.by_hand())
        return new.encode()

    def take(self, old: bytes) -> bytes | None:
        text = self.text(old)
        name = self.server.find(self._read(text).get(_KEY, {}))
        if name is None:
            return old
        rest = self._remove_block(text, name)
        if rest == text:
            return old
        if name in self._read(rest).get(_KEY, {}):
            hint = f"take out all tables [{_KEY}.{name}…] by hand"
            raise RefusedError(f"has more of the server {name!r} than connect wrote", str(self.path), hint)
        return rest.encode() if rest.strip() else None

    def _lines(self, name: str) -> list[str]:
        words = [_quote(word) for word in self.server.words]
        args = ", ".join(words[1:])
        begin, end = _marks(name)
        patience = [f"{key} = {value}" for key, value in _PATIENCE.items()]
        return [begin, f"[{_KEY}.{name}]", f"command = {words[0]}", f"args = [{args}]", *patience, end]

    def _remove_block(self, text: str, name: str) -> str:
        """Return the text without the block; unchanged if it has none."""
        found = self.block(text, *_marks(name))
        return text if found is None else text[: found.start()] + text[found.end() :]

    def _read(self, text: str) -> dict[str, Any]:
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise RefusedError(f"is not TOML: {error}", str(self.path), self.by_hand()) from error
        if not isinstance(document.get(_KEY, {}), dict):
            raise RefusedError(f"holds something else under {_KEY} than tables", str(self.path), self.by_hand())
        return document

    def by_hand(self) -> str:
        return "put this in by hand: " + "; ".join(self._lines(NAME)[1:-1])


def _marks(name: str) -> tuple[str, str]:
    return f"# memoryd connect: {name}", f"# end of memoryd connect: {name}"


def _quote(text: str) -> str:
    # A JSON string is a YAML one, and a TOML one but for the one control character that JSON lets stand.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
