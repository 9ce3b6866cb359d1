"""The commands for agents: what one is told at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memoryd.interfaces import grants

if TYPE_CHECKING:
    from memoryd.interfaces.cli import Call

_agent = click.option("--agent", "agent_id", metavar="ID", help="The agent, where it is not clear.")


@click.command()
@click.option("--max-tokens", type=click.IntRange(min=0), metavar="N", help="Of the whole text, its marks among them.")
@_agent
@click.pass_obj
def context(call: Call, max_tokens: int | None, agent_id: str | None) -> None:
    """Show what an agent is told of its memory at its start."""
    from memoryd.interfaces import context as contexts

    settings = call.settings()
    agent = call.agent(settings, agent_id)
    grants.require(settings, agent, "context")
    made = contexts.inject(settings, agent, max_tokens)
    data = {"text": made.text, "tokens": made.tokens, "left_out": list(made.left_out)}
    call.output.result(data, made.text.rstrip("\n") or "nothing is remembered yet, or it does not fit")
