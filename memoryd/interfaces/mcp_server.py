"""Describe `memoryd mcp` as an entry in a tool's list of MCP servers: its command and its name.

The name is `memoryd`, or `memoryd-2` if another configuration has that name. An entry belongs to this server if it
names the same configuration, or one that does not exist.
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
    """Describe the MCP server of one configuration. The folder in which a program starts it decides the agent."""

    program: Sequence[str]  # the words of the `memoryd` command
    config: Path  # the absolute path of the configuration
    agent: str | None = None  # the agent, if the program starts the server in another folder

    @property
    def words(self) -> list[str]:
        """Return the command line of the server as words."""
        named = [] if self.agent is None else ["--agent", self.agent]
        return [*self.program, "--config", str(self.config), "mcp", *named]

    def is_started_by(self, entry: object) -> bool:
        """Return True if an entry of a tool's list starts this server, or one whose configuration does not exist."""
        config = _parse_config(words_of(entry))
        return config is not None and (config == self.config or not config.exists())

    def find(self, servers: Mapping[str, Any]) -> str | None:
        """Return the name under which a tool's list has this server, or None if it does not have it."""
        return next((name for name, entry in servers.items() if self.is_started_by(entry)), None)

    def name_among(self, servers: Mapping[str, Any], path: Path, by_hand: str) -> str:
        """Return the name of this server in a tool's list, or a free name for it.

        Raises:
            RefusedError: Both names belong to other servers. `path` and `by_hand` complete the message.
        """
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
    """Return the path of the configuration in a command line of `memoryd mcp`, or None for any other command."""
    if "mcp" not in words or not any(Path(word).name == NAME for word in words):
        return None
    return next((Path(value) for name, value in pairwise(words) if name == "--config"), None)
