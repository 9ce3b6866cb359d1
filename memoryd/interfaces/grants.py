"""The commands of the silo, and what other commands show of a memory to whom."""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from memoryd.errors import RefusedError
from memoryd.interfaces.call import Call, of_agent, span
from memoryd.interfaces.output import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

    from memoryd.config import Agent, Settings
    from memoryd.database.grants import Grant
    from memoryd.finding.silo import Silo

HINT = 'memoryd grant request --purpose "…" --for 30m'


def may_read(settings: Settings, agent: Agent, what: str) -> bool:
    """Say whether the person at the command line may see an agent's content now; a read under a grant is audited."""
    from memoryd.files.trust import is_owner

    if agent.privacy == "open":
        return is_owner(agent.workspace)
    with silo_of(settings, agent) as silo:
        return silo.may_read(what)


def require(settings: Settings, agent: Agent, what: str) -> None:
    """Let only those pass who may see an agent's content."""
    if not may_read(settings, agent, what):
        raise RefusedError("what the agent remembers is its own", agent.id, HINT)


def require_agents_own(agent: Agent) -> None:
    """Let only the agent's own program pass, as which counts what runs as the user its workspace belongs to."""
    from memoryd.files.trust import is_owner

    if not is_owner(agent.workspace):
        hint = "its own program runs as the user its workspace belongs to"
        raise RefusedError("what the agent remembers is its own", agent.id, hint)


def shown(
    settings: Settings, agent: Agent, what: str, rows: Sequence[dict[str, Any]], *texts: str
) -> list[dict[str, Any]]:
    """The rows as the person may see them: without leave the texts are null, their sizes and hashes are beside them."""
    if may_read(settings, agent, what):
        return list(rows)
    return [_blind(row, texts) for row in rows]


def _blind(row: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    content = str(row.get(texts[0]) or "").encode()
    told = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return row | dict.fromkeys((name for name in texts if name in row), None) | told


def text_of(value: object, row: dict[str, Any]) -> str:
    """A text of a row for people; what stands in its place where it is not shown."""
    return f"({row['bytes']} bytes, not shown: {HINT})" if value is None and "bytes" in row else str(value)


@click.group()
def grant() -> None:
    """See what a siloed agent remembers, for a purpose, for a time, with the agent's consent."""


@grant.command("request")
@click.option("--purpose", required=True, metavar="TEXT", help="What for; the agent reads it.")
@click.option(
    "--for", "how_long", required=True, callback=span, metavar="TIME", help="How long, such as 30m; 24h at most."
)
@of_agent
def grant_request(call: Call, settings: Settings, agent: Agent, purpose: str, how_long: timedelta) -> None:
    """Ask the agent, in the consent file of its workspace. Nothing can be read before it consents."""
    from memoryd.finding.silo import PATH

    if agent.privacy == "open":
        raise RefusedError("the agent is no silo: its owner sees what it remembers", agent.id)
    with silo_of(settings, agent) as silo:
        asked = silo.ask(purpose, how_long)
    data = row_of(asked) | {"consent_file": str(agent.workspace / PATH)}
    call.output.result(data, f"{asked.id} asks for consent in {agent.workspace / PATH}")


@grant.command("list")
@of_agent
def grant_list(call: Call, settings: Settings, agent: Agent) -> None:
    """List requests and grants, the newest first."""
    with silo_of(settings, agent) as silo:
        rows = [row_of(one) for one in silo.all()]
    columns = ("id", "state", "uid", "requested_at", "expires_at", "purpose")
    call.output.result(rows, table(rows, columns) if rows else "nobody has asked")


@grant.command("revoke")
@click.argument("grant_id", metavar="ID")
@of_agent
def grant_revoke(call: Call, settings: Settings, agent: Agent, grant_id: str) -> None:
    """End a grant at once, or take a request back."""
    with silo_of(settings, agent) as silo:
        revoked = silo.revoke(grant_id)
    call.output.result(row_of(revoked), f"{revoked.id} is revoked")


def row_of(one: Grant) -> dict[str, Any]:
    """A grant as programs are shown it."""
    return {{"agent_id": "agent"}.get(name, name): value for name, value in asdict(one).items()}


@contextmanager
def silo_of(settings: Settings, agent: Agent) -> Iterator[Silo]:
    """The grants of an agent, for whoever runs this process."""
    from memoryd.clock import Clock
    from memoryd.finding.silo import Silo
    from memoryd.interfaces import work

    uid = os.getuid() if hasattr(os, "getuid") else 0
    with work.state(settings, agent) as (engine, scrubber):
        yield Silo(engine, agent, Clock(), uid, lambda text: scrubber.redact([text])[0])
