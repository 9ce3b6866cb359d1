"""Edit the JSON files of tools. Values that are not memoryd's keep their order, and the file keeps its indentation.

The list of MCP servers of Claude Code, Gemini CLI, OpenCode and OpenClaw:

    {"mcpServers": {"memoryd": {"command": "…", "args": […]}}}
    {"mcp": {"memoryd": {"type": "local", "command": […], "timeout": 30000}}}
    {"mcp": {"servers": {"memoryd": {"command": "…", "args": […], "connectionTimeoutMs": 30000}}}}

By default, OpenCode and OpenClaw wait five seconds for a server. A busy machine may take that long to start Python.

The hooks of Claude Code, Codex and Gemini CLI:

    {"hooks": {"SessionStart": [{"matcher": …, "hooks": [{"type": "command", "command": "…", "timeout": 5}]}]}}

The settings that let OpenClaw load memoryd's plugin and let the plugin add text to prompts:

    {"plugins": {"entries": {"memoryd": {"enabled": true, "hooks": {"allowConversationAccess": true}}}}}

If the file has a list of allowed plugins (`plugins.allow`), the plugin is added to it.
"""

import json
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from memoryd.errors import RefusedError
from memoryd.interfaces.mcp_server import NAME, McpServer

OPENCODE = "mcp"
OPENCLAW = "mcp.servers"
_PATIENCE = {OPENCODE: {"timeout": 30_000}, OPENCLAW: {"connectionTimeoutMs": 30_000}}  # milliseconds for its start
_SURROGATE = re.compile("[\ud800-\udfff]")
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Edit(ABC):
    """Change one file of a tool.

    If the file has an unexpected form, raise a RefusedError that says what a person would write there.
    """

    path: Path

    @abstractmethod
    def put(self, old: bytes | None) -> bytes | None:
        """Return the file with memoryd's part, or the same bytes if it is already there. `old` is None for no file.

        Raises:
            RefusedError: The file has an unexpected form.
        """

    @abstractmethod
    def take(self, old: bytes) -> bytes | None:
        """Return the file without memoryd's part, or the same bytes if it has none; None if the file is to be deleted.

        Raises:
            RefusedError: The file has an unexpected form.
        """

    @abstractmethod
    def by_hand(self) -> str:
        """Return an instruction for a person who makes the same change by hand."""

    def text(self, old: bytes | None) -> str:
        """Decode a file; return an empty text for None. A file that is not UTF-8 raises a RefusedError."""
        try:
            return (old or b"").decode()
        except UnicodeDecodeError as error:
            raise RefusedError("is not UTF-8", str(self.path), self.by_hand()) from error


class JsonEdit(Edit):
    """Change a JSON file that also holds values which are not memoryd's."""

    @abstractmethod
    def required_settings(self) -> dict[str, Any]:
        """Return the smallest document that contains memoryd's part."""

    def by_hand(self) -> str:
        return "put this in by hand: " + json.dumps(self.required_settings(), ensure_ascii=False)[1:-1]

    def put_into(self, document: dict[str, Any]) -> None:
        """Add memoryd's part to the parsed document, and keep what a person added to that part."""
        _merge(document, self.required_settings())

    @abstractmethod
    def take_from(self, document: dict[str, Any]) -> bool:
        """Remove memoryd's part and the containers that are then empty; return False if there was none."""

    def put(self, old: bytes | None) -> bytes:
        document = self.read(old)
        before = json.dumps(document)
        with self.expect_shape():
            self.take_from(json.loads(before))  # a test on a copy: a part that cannot be removed must not be added
            self.put_into(document)
        return old if old is not None and json.dumps(document) == before else _write_document(document, old)

    def take(self, old: bytes) -> bytes | None:
        document = self.read(old)
        with self.expect_shape():
            if not self.take_from(document):
                return old
        return _write_document(document, old) if document else None

    @contextmanager
    def expect_shape(self) -> Iterator[None]:
        """Raise a RefusedError if the block fails because the document has another form than memoryd knows."""
        try:
            yield
        except (AttributeError, KeyError, TypeError) as error:
            what = f'holds something else under "{next(iter(self.required_settings()))}" than memoryd knows'
            raise RefusedError(what, str(self.path), self.by_hand()) from error

    def read(self, old: bytes | None) -> dict[str, Any]:
        """Parse the file; None is an empty document.

        Raises:
            RefusedError: The file is not one JSON object, or has comments or a repeated key.
        """
        try:
            document = json.loads((old or b"{}").decode(), object_pairs_hook=_unique)
        except RecursionError as error:
            raise RefusedError("nests too deeply to be read", str(self.path), self.by_hand()) from error
        except ValueError as error:  # not JSON, not UTF-8, or a repeated key
            what = "is not plain JSON (comments, a key twice, a stray comma?)"
            raise RefusedError(what, str(self.path), self.by_hand()) from error
        if not isinstance(document, dict):
            raise RefusedError("is not a JSON object", str(self.path), self.by_hand())
        return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key occurs twice")
    return made


def _write_document(document: dict[str, Any], old: bytes | None) -> bytes:
    """Render the document with the indentation, the line ends and the compactness of the old file."""
    text = (old or b"").decode()
    if "\n" not in text.strip() and text.strip() not in {"", "{}"}:
        compact = (",", ":") if '":' in text and '": ' not in text else (", ", ": ")
        made = json.dumps(document, ensure_ascii=False, separators=compact)
    else:
        found = _INDENT.search(text)
        made = json.dumps(document, ensure_ascii=False, indent=found[1] if found else 2)
    ended = "\n" if not text.strip() or text.endswith("\n") else ""
    made = _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", made)  # UTF-8 cannot encode half a surrogate pair
    return (made + ended).replace("\n", "\r\n" if "\r\n" in text else "\n").encode()


def _merge(document: dict[str, Any], wanted: Mapping[str, Any]) -> None:
    """Set each value of `wanted` at its key path in the document, and keep all other values."""
    for key, value in wanted.items():
        if isinstance(value, dict):
            _merge(document.setdefault(key, {}), value)
        else:
            document[key] = value


def _drop_empty(document: dict[str, Any], keys: Sequence[str]) -> None:
    """Remove the value at a key path if it is empty, and each parent that is then empty."""
    if not keys:
        return
    inner = document[keys[0]]
    _drop_empty(inner, keys[1:])
    if not inner:
        del document[keys[0]]


@dataclass(frozen=True, slots=True)
class JsonServers(JsonEdit):
    """Add or remove memoryd's entry in a tool's list of MCP servers."""

    key: str  # the key path of the list, with dots
    server: McpServer  # the server that the entry starts

    def put_into(self, document: dict[str, Any]) -> None:
        servers = self._servers(document)
        entry = servers.setdefault(self.server.name_among(servers, self.path, self.by_hand()), {})
        entry |= self._entry() | {name: entry[name] for name in _PATIENCE.get(self.key, ()) if name in entry}

    def take_from(self, document: dict[str, Any]) -> bool:
        servers, found = self._servers(document), False
        while (name := self.server.find(servers)) is not None:  # earlier versions wrote an entry for each agent
            del servers[name]
            found = True
        if found:
            _drop_empty(document, self.key.split("."))
        return found

    def required_settings(self) -> dict[str, Any]:
        wanted = {NAME: self._entry()}
        for key in reversed(self.key.split(".")):
            wanted = {key: wanted}
        return wanted

    def _entry(self) -> dict[str, Any]:
        words = self.server.words
        if self.key == OPENCODE:
            return {"type": "local", "command": words} | _PATIENCE[OPENCODE]
        return {"command": words[0], "args": words[1:]} | _PATIENCE.get(self.key, {})

    def _servers(self, document: dict[str, Any]) -> dict[str, Any]:
        servers = document
        for key in self.key.split("."):
            servers = servers.setdefault(key, {})
        listed = servers.get("servers")
        if self.key == OPENCODE and isinstance(listed, dict) and "type" not in listed:
            servers = listed  # the form of OpenCode 2, which also reads that of OpenCode 1
        return servers


@dataclass(frozen=True, slots=True)
class HookSettings(JsonEdit):
    """Add or remove memoryd's hooks in a tool's settings, for one configuration."""

    tool: str  # the tool's name in `memoryd hook`
    marks: frozenset[tuple[str, str]]  # options that identify a hook of this configuration
    hooks: Mapping[str, Mapping[str, Any]]  # by the tool's name of the event; each has a `command`

    def put_into(self, document: dict[str, Any]) -> None:
        events = document.setdefault("hooks", {})
        for name, hook in self.hooks.items():
            groups = events.setdefault(name, [])
            own = [(group, one) for group in groups for one in group["hooks"] if self._is_ours(one)]
            if not own:
                groups.append({"hooks": [dict(hook)]})
                continue
            group, first = own[0]
            group["hooks"][group["hooks"].index(first)] = dict(hook)
            for group, one in own[1:]:  # earlier versions wrote a hook for each agent
                group["hooks"].remove(one)
            groups[:] = [group for group in groups if group["hooks"] or all(group is not left for left, _ in own)]

    def take_from(self, document: dict[str, Any]) -> bool:
        events = document.get("hooks", {})
        found = False
        for name, groups in list(events.items()):
            for group in groups[:]:
                left = [one for one in group["hooks"] if not self._is_ours(one)]
                if len(left) == len(group["hooks"]):
                    continue
                found, group["hooks"] = True, left
                if not left:
                    groups[:] = [one for one in groups if one is not group]
                _drop_empty(document, ("hooks", name))
        return found

    def required_settings(self) -> dict[str, Any]:
        return {"hooks": {name: [{"hooks": [dict(hook)]}] for name, hook in self.hooks.items()}}

    def _is_ours(self, hook: Mapping[str, Any]) -> bool:
        try:
            words = shlex.split(str(hook.get("command", "")))
        except ValueError:
            return False
        pairs = set(pairwise(words))
        return ("hook", self.tool) in pairs and not pairs.isdisjoint(self.marks)


@dataclass(frozen=True, slots=True)
class OpenClawPlugins(JsonEdit):
    """Add or remove the entry of memoryd's plugin in OpenClaw's settings."""

    def required_settings(self) -> dict[str, Any]:
        return {"plugins": {"entries": {NAME: {"enabled": True, "hooks": {"allowConversationAccess": True}}}}}

    def put_into(self, document: dict[str, Any]) -> None:
        _merge(document, self.required_settings())
        if NAME not in (allowed := document["plugins"].get("allow", [NAME])):
            allowed.append(NAME)

    def take_from(self, document: dict[str, Any]) -> bool:
        plugins = document.get("plugins", {})
        if NAME not in plugins.get("entries", {}):
            return False
        del plugins["entries"][NAME]
        if NAME in (allowed := plugins.get("allow", [])):
            allowed.remove(NAME)
        _drop_empty(document, ("plugins", "entries"))
        return True
