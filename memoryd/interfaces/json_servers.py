"""The list of MCP servers of Claude Code, Gemini CLI, OpenCode and OpenClaw, in a JSON file that holds more than that.

{"mcpServers": {"memoryd": {"command": "…", "args": […]}}}
{"mcp": {"memoryd": {"type": "local", "command": […], "timeout": 30000}}}
{"mcp": {"servers": {"memoryd": {"command": "…", "args": […], "connectionTimeoutMs": 30000}}}}

OpenCode and OpenClaw wait five seconds for a server if nothing is said, which a busy machine takes to start Python.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memoryd.errors import RefusedError
from memoryd.interfaces import json_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from memoryd.interfaces.mcp_server import McpServer

OPENCODE = "mcp"
OPENCLAW = "mcp.servers"
_PATIENCE = {OPENCODE: {"timeout": 30_000}, OPENCLAW: {"connectionTimeoutMs": 30_000}}  # milliseconds


@dataclass(frozen=True, slots=True)
class JsonServers:
    """One entry of the list.

    Attributes:
        path: the file.
        key: what the list is called, with dots where it lies in others.
        server: what the entry starts.
    """

    path: Path
    key: str
    server: McpServer

    def put(self, old: bytes | None) -> bytes:
        """The file with the entry in it, what a person added to it kept; the same bytes where it is there already.

        Raises:
            RefusedError: the file is not of the shape it should be, or something else has the name.
        """
        document = self._read(old)
        before = json.dumps(document)
        servers = self._servers(document)
        name = self.server.name_among(servers, self.path, self._by_hand())
        entry = servers.setdefault(name, {})
        entry |= self._entry()
        for key, value in _PATIENCE.get(self.key, {}).items():
            entry.setdefault(key, value)
        if old is not None and json.dumps(document) == before:
            return old
        return json_settings.written(document, old)

    def take(self, old: bytes) -> bytes | None:
        """The file without the entry, None where nothing is left in it; the same bytes where it was not there.

        Raises:
            RefusedError: the file is not of the shape it should be.
        """
        document = self._read(old)
        servers = self._servers(document)
        name = self.server.find(servers)
        if name is None:
            return old
        del servers[name]
        json_settings.drop_empty(document, self.key.split("."))
        return json_settings.written(document, old) if document else None

    def _entry(self) -> dict[str, Any]:
        words = self.server.words
        if self.key == OPENCODE:
            return {"type": "local", "command": words}
        return {"command": words[0], "args": words[1:]}

    def _read(self, old: bytes | None) -> dict[str, Any]:
        document = inner = json_settings.read(old, self.path, self._by_hand())
        for key in self.key.split("."):
            inner = inner.get(key, {})
            if not isinstance(inner, dict):
                what = f'holds something else under "{key}" than servers'
                raise RefusedError(what, str(self.path), self._by_hand())
        return document

    def _servers(self, document: dict[str, Any]) -> dict[str, Any]:
        servers = document
        for key in self.key.split("."):
            servers = servers.setdefault(key, {})
        if self.key == OPENCODE and _is_list(servers.get("servers")):
            servers = servers["servers"]  # as OpenCode 2 has them; it reads those of OpenCode 1 as well
        return servers

    def _by_hand(self) -> str:
        entry = json.dumps({"memoryd": self._entry()}, ensure_ascii=False)
        return f'put this in by hand: "{self.key}": {entry}'


def _is_list(value: Mapping[str, Any] | None) -> bool:
    return isinstance(value, dict) and "type" not in value
