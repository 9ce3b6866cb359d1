"""Edit the settings of Codex (TOML) and Aider (YAML). All other bytes of the files stay as they are.

The list of MCP servers of Codex, at the end of its `config.toml`:

    # memoryd connect: memoryd
    [mcp_servers.memoryd]
    command = "…"
    args = ["…"]
    startup_timeout_sec = 30
    # end of memoryd connect: memoryd

Codex adds its own tables to a server, such as the permissions of its tools. They stay as long as the server is listed.

Aider's `.aider.conf.yml` lists `MEMORY.md` among the files that it reads at its start.
"""

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memoryd.errors import RefusedError
from memoryd.interfaces.json_settings import Edit
from memoryd.interfaces.mcp_server import NAME, McpServer

MARK = "  # memoryd"
_READ = re.compile(r"^read[ \t]*:[ \t]*(.*)$", re.MULTILINE)
_ITEM = re.compile(r"([ \t]*)- \S")
_KEY = "mcp_servers"
_PATIENCE = {"startup_timeout_sec": 30}  # three times the default: a busy machine takes ten seconds to start Python


@dataclass(frozen=True, slots=True)
class AiderConf(Edit):
    """Add or remove the memory file in Aider's list `read`."""

    memory: Path  # the file to read

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
        return f"{text[: len(text) - len(below)]}{self._entry(item[1])}{end}{below}".encode()

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
    """Add or remove memoryd's table in Codex's list of MCP servers."""

    server: McpServer  # the server that the table starts

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
        """Return the text without the marked block and the empty line above it; unchanged if there is no block.

        Raises:
            RefusedError: The block has lost its last line.
        """
        first, last = _marks(name)
        begin, end = (rf"^[ \t]*{re.escape(mark)}[ \t]*" for mark in (first, last))
        block = rf"(?:(?<=\n)\r?\n)?{begin}\r?\n.*?{end}(?:\r?\n|\Z)"
        left = re.sub(block, "", text, count=1, flags=re.MULTILINE | re.DOTALL)
        if left == text and re.search(rf"{begin}\r?$", text, re.MULTILINE):
            raise RefusedError(f"has lost the line {last!r}", str(self.path), f"put it back, or take out {first!r}")
        return left

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
    # A JSON string is also a YAML and TOML string, except for the control character DEL, which TOML does not allow.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
