"""Define the commands of private mode: request, list and revoke access."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from memoryd.errors import RefusedError
from memoryd.interfaces.call import Call, of_agent, parse_span
from memoryd.interfaces.output import render_table
from memoryd.requests import access

if TYPE_CHECKING:
    from datetime import timedelta

    from memoryd.config import Agent, Settings
    from memoryd.database.grants import Grant


@click.group()
def grant() -> None:
    """Ask to read the memory of an agent in private mode."""


@grant.command("request")
@click.option("--purpose", required=True, metavar="TEXT", help="The reason; the agent reads it.")
@click.option(
    "--for",
    "how_long",
    required=True,
    callback=parse_span,
    metavar="TIME",
    help="The duration, such as 30m; at most 24h.",
)
@of_agent
def grant_request(call: Call, settings: Settings, agent: Agent, purpose: str, how_long: timedelta) -> None:
    """Ask the agent in the consent file of its workspace. You can read nothing before it agrees."""
    from memoryd.finding.access_grants import PATH

    if agent.privacy == "open":
        raise RefusedError("the agent is not in private mode: its owner sees what it remembers", agent.id)
    with access.silo_of(settings, agent) as silo:
        asked = silo.ask(purpose, how_long)
    data = row_of(asked) | {"consent_file": str(agent.workspace / PATH)}
    call.output.result(data, f"{asked.id} asks for consent in {agent.workspace / PATH}")


@grant.command("list")
@of_agent
def grant_list(call: Call, settings: Settings, agent: Agent) -> None:
    """List access requests and grants, newest first."""
    with access.silo_of(settings, agent) as silo:
        rows = [row_of(one) for one in silo.all()]
    columns = ("id", "state", "uid", "requested_at", "expires_at", "purpose")
    call.output.result(rows, render_table(rows, columns) if rows else "there is no access request")


@grant.command("revoke")
@click.argument("grant_id", metavar="ID")
@of_agent
def grant_revoke(call: Call, settings: Settings, agent: Agent, grant_id: str) -> None:
    """End a grant or a request at once."""
    with access.silo_of(settings, agent) as silo:
        revoked = silo.revoke(grant_id)
    call.output.result(row_of(revoked), f"{revoked.id} is revoked")


def row_of(one: Grant) -> dict[str, Any]:
    """Return a grant as a row for programs, with `agent` in place of `agent_id`."""
    return {{"agent_id": "agent"}.get(name, name): value for name, value in asdict(one).items()}
