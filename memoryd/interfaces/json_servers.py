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

from memoryd.interfaces import json_settings
from memoryd.interfaces.json_settings import JsonEdit

if TYPE_CHECKING:
    from memoryd.interfaces.mcp_server import McpServer

OPENCODE = "mcp"
OPENCLAW = "mcp.servers"
_PATIENCE = {OPENCODE: {"timeout": 30_000}, OPENCLAW: {"connectionTimeoutMs": 30_000}}  # milliseconds


@dataclass(frozen=True, slots=True)
class JsonServers(JsonEdit):
    """One entry of the list."""

    key: str  # what the list is called, with dots where it lies in others
    server: McpServer  # what the entry starts

    def put_into(self, document: dict[str, Any]) -> None:
        servers = self._servers(document)
        entry = servers.setdefault(self.server.name_among(servers, self.path, self.by_hand()), {})
        entry |= self._entry()
        for key, value in _PATIENCE.get(self.key, {}).items():
            entry.setdefault(key, value)

    def take_from(self, document: dict[str, Any]) -> bool:
        servers = self._servers(document)
        name = self.server.find(servers)
        if name is None:
            return False
        del servers[name]
        json_settings.drop_empty(document, self.key.split("."))
        return True

    def usual(self) -> str:
        return f'servers under "{self.key}"'

    def _entry(self) -> dict[str, Any]:
        words = self.server.words
        if self.key == OPENCODE:
            return {"type": "local", "command": words}
        return {"command": words[0], "args": words[1:]}

    def _servers(self, document: dict[str, Any]) -> dict[str, Any]:
        servers = document
        for key in self.key.split("."):
            servers = servers.setdefault(key, {})
        listed = servers.get("servers")
        if self.key == OPENCODE and isinstance(listed, dict) and "type" not in listed:
            servers = listed  # as OpenCode 2 has them; it reads those of OpenCode 1 as well
        return servers

    def by_hand(self) -> str:
        entry = json.dumps({"memoryd": self._entry()}, ensure_ascii=False)
        return f'put this in by hand: "{self.key}": {entry}'
