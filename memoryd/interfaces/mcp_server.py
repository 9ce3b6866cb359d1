"""`memoryd mcp` as an entry of a tool's MCP servers: the command that starts it, and the name it stands under.

It is `memoryd`; where that name is taken by the memory of another agent, `memoryd-ID`. An entry is known again by its
agent and its configuration; one whose configuration is no longer there is taken for a former self.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memoryd.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAME = "memoryd"


@dataclass(frozen=True, slots=True)
class McpServer:
    """The server of one agent's memory."""

    program: Sequence[str]  # the `memoryd` command
    config: Path  # the configuration, by its absolute path
    agent: str

    @property
    def words(self) -> list[str]:
        """The command line."""
        return [*self.program, "--config", str(self.config), "mcp", "--agent", self.agent]

    def is_started_by(self, entry: object) -> bool:
        """Whether an entry of a tool starts this server."""
        config, agent = _parse_target(words_of(entry))
        return agent == self.agent and config is not None and (config == self.config or not config.exists())

    def find(self, servers: Mapping[str, Any]) -> str | None:
        """The name it has among a tool's servers, None where it is not among them."""
        return next((name for name, entry in servers.items() if self.is_started_by(entry)), None)

    def name_among(self, servers: Mapping[str, Any], path: Path, by_hand: str) -> str:
        """The name it has, or is to have, among a tool's servers."""
        if (name := self.find(servers)) is not None:
            return name
        for name in (NAME, f"{NAME}-{self.agent}"):
            if name not in servers:
                return name
            if _parse_target(words_of(servers[name])) == (None, None):
                break
        raise RefusedError(f"has a server {name!r} already, which connect did not write", str(path), by_hand)


def words_of(entry: object) -> list[str]:
    """The command line of an entry, be it `command` and `args` or one list; empty where it is no such entry."""
    if not isinstance(entry, dict):
        return []
    command, arguments = entry.get("command"), entry.get("args", [])
    words = command if isinstance(command, list) else [command, *(arguments if isinstance(arguments, list) else [])]
    return [word for word in words if isinstance(word, str)]


def _parse_target(words: Sequence[str]) -> tuple[Path | None, str | None]:
    """The configuration and the agent that a command line of `memoryd mcp` names."""
    pairs = list(pairwise(words))
    if "mcp" not in words or not any(Path(word).name == NAME for word in words):
        return None, None
    named = {name: value for name, value in pairs if name in {"--config", "--agent"}}
    return Path(named["--config"]) if "--config" in named else None, named.get("--agent")
