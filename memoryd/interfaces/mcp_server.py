"""Describe `memoryd mcp` as an entry in a tool's list of MCP servers: its command and its name.

The name is `memoryd`, or `memoryd-2` if another configuration has that name. An entry belongs to this server if it has
the same configuration. An entry whose configuration no longer exists counts as an old entry of this server.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from memoryd.errors import RefusedError

NAME = "memoryd"


@dataclass(frozen=True, slots=True)
class McpServer:
    """Describe the server of one configuration; the folder in which a program starts it chooses the agent."""

    program: Sequence[str]  # the `memoryd` command
    config: Path  # the configuration, by its absolute path
    agent: str | None = None  # the only agent, for a program that starts it elsewhere

    @property
    def words(self) -> list[str]:
        """Return the command line."""
        named = [] if self.agent is None else ["--agent", self.agent]
        return [*self.program, "--config", str(self.config), "mcp", *named]

    def is_started_by(self, entry: object) -> bool:
        """Return True if an entry of a tool starts this server."""
        config = _parse_config(words_of(entry))
        return config is not None and (config == self.config or not config.exists())

    def find(self, servers: Mapping[str, Any]) -> str | None:
        """Return this server's name in a tool's list; None if it is not in it."""
        return next((name for name, entry in servers.items() if self.is_started_by(entry)), None)

    def name_among(self, servers: Mapping[str, Any], path: Path, by_hand: str) -> str:
        """Return the name that this server has, or would get, in a tool's list."""
        if (name := self.find(servers)) is not None:
            return name
        for name in (NAME, f"{NAME}-2"):
            if name not in servers:
                return name
            if _parse_config(words_of(servers[name])) is None:
                break
        raise RefusedError(f"has a server {name!r} already, which connect did not write", str(path), by_hand)


def words_of(entry: object) -> list[str]:
    """Return the command line of an entry (`command` and `args`, or one list); empty if it is not such an entry."""
    if not isinstance(entry, dict):
        return []
    command, arguments = entry.get("command"), entry.get("args", [])
    words = command if isinstance(command, list) else [command, *(arguments if isinstance(arguments, list) else [])]
    return [word for word in words if isinstance(word, str)]


def _parse_config(words: Sequence[str]) -> Path | None:
    """Return the configuration in a command line of `memoryd mcp`; None for any other command."""
    if "mcp" not in words or not any(Path(word).name == NAME for word in words):
        return None
    return next((Path(value) for name, value in pairwise(words) if name == "--config"), None)
