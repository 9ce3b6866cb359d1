"""Decide who may see an agent's memory, and replace texts that a person may not see."""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from memoryd.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memoryd.config import Agent, Settings
    from memoryd.finding.access_grants import AgentGrants

HINT = 'memoryd grant request --purpose "…" --for 30m'


def may_read(settings: Settings, agent: Agent, what: str) -> bool:
    """Return True if the person at the command line may see content now; audit a read under a grant."""
    from memoryd.files.trust import is_owner

    if agent.privacy == "open":
        return is_owner(agent.workspace)
    with silo_of(settings, agent) as silo:
        return silo.may_read(what)


def require(settings: Settings, agent: Agent, what: str) -> None:
    """Raise unless the person may see the agent's content."""
    if not may_read(settings, agent, what):
        raise RefusedError("what the agent remembers is its own", agent.id, HINT)


def require_agents_own(agent: Agent) -> None:
    """Raise unless this process runs as the owner of the workspace, which counts as the agent's own program."""
    from memoryd.files.trust import is_owner

    if not is_owner(agent.workspace):
        hint = "its own program runs as the user its workspace belongs to"
        raise RefusedError("what the agent remembers is its own", agent.id, hint)


def show_rows(
    settings: Settings, agent: Agent, what: str, rows: Sequence[dict[str, Any]], *texts: str
) -> list[dict[str, Any]]:
    """Return the rows for this person: without permission, texts are null, with sizes and hashes beside them."""
    if may_read(settings, agent, what):
        return list(rows)
    return [_hide_texts(row, texts) for row in rows]


def _hide_texts(row: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    content = str(row.get(texts[0]) or "").encode()
    told = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return row | dict.fromkeys((name for name in texts if name in row), None) | told


def text_of(value: object, row: dict[str, Any]) -> str:
    """Return a text of a row for people, or its replacement if it is hidden."""
    return f"({row['bytes']} bytes, not shown: {HINT})" if value is None and "bytes" in row else str(value)


@contextmanager
def silo_of(settings: Settings, agent: Agent) -> Iterator[AgentGrants]:
    """Return the grants of an agent for the user of this process."""
    from memoryd.clock import Clock
    from memoryd.finding.access_grants import AgentGrants
    from memoryd.requests import opening

    uid = os.getuid() if hasattr(os, "getuid") else 0
    with opening.open_state(settings, agent) as (engine, scrubber):
        yield AgentGrants(engine, agent, Clock(), uid, lambda text: scrubber.redact([text])[0])
