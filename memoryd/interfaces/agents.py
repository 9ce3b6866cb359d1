"""Define the commands for agents: `init`, `context`, `connect` and `hook`, and for access to a private one: `grant`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memoryd.clock import Clock
from memoryd.counted import count_noun
from memoryd.errors import RefusedError
from memoryd.interfaces.call import Call, agent_option, of_agent, parse_span
from memoryd.interfaces.output import render_table
from memoryd.requests import access, daemon_client

if TYPE_CHECKING:
    from datetime import timedelta

    from memoryd.config import Agent, Settings
    from memoryd.database.grants import Grant


@click.command()
@click.option("--max-tokens", type=click.IntRange(0, 10_000_000), metavar="N", help="Limit the text to N tokens.")
@click.option("--query", metavar="TEXT", help="Add the best search results for this query.")
@of_agent
def context(call: Call, settings: Settings, agent: Agent, max_tokens: int | None, query: str | None) -> None:
    """Show the text that memoryd injects at the start of a session."""
    asked = {"max_tokens": max_tokens, "query": query, "folder": str(Path.cwd())}
    data = daemon_client.ask_same(settings, "inject", agent=agent.id, **asked) if agent.privacy == "open" else {}
    if "text" not in data:
        from memoryd.requests import context as contexts

        access.require(settings, agent, "context")
        data = contexts.inject(settings, agent, max_tokens, query, str(Path.cwd()))._asdict()
    nothing = "nothing fits" if data["left_out"] else _describe_nothing(agent)
    call.output.result(data, data["text"].rstrip("\n") or nothing)
    if data["left_out"]:
        call.output.print_note(f"left out: {', '.join(data['left_out'])}")


def _describe_nothing(agent: Agent) -> str:
    """Return the text for an agent without memories to inject.

    It counts the older daily files, which search still finds.
    """
    older = sum(1 for _ in (agent.workspace / "memory").glob("????-??-??.md"))
    if not older:
        return "nothing is remembered yet"
    return f"nothing of the last two days; {count_noun(older, 'older daily file')} can be searched: memoryd search TEXT"


@click.command()
@click.argument("tool", metavar="TOOL")
@click.option("--write", is_flag=True, help="Change the files; without it, only show the changes.")
@click.option("--project", is_flag=True, help="Connect only the sessions in the current folder.")
@click.option("--remove", is_flag=True, help="Remove the connection.")
@agent_option
@click.pass_obj
def connect(call: Call, /, *, tool: str, project: bool, agent_id: str | None, **how: bool) -> None:
    """Connect an agent program. TOOL: claude-code, codex, gemini, opencode, openclaw, pi or aider.

    The connection serves all agents of the configuration. The folder of a session decides which agent it belongs to.
    """
    import os

    from memoryd.agent_choice import choose, is_within
    from memoryd.interfaces import connect as connecting

    connecting.tool_of(tool)  # before the agent is chosen, so that an unknown tool is the first error
    settings, folder = call.settings(own=True), Path.cwd()
    agent = settings.agents[0] if len(settings.agents) == 1 else None
    if agent_id is not None:
        agent = call.agent(settings, agent_id)
    elif project:
        agent = choose(settings, str(folder))
    if project and not how["remove"] and (agent is None or not is_within(agent, str(folder))):
        raise RefusedError("no agent works in this folder", str(folder), "run memoryd init, or go to another folder")
    place = connecting.ConnectTarget(settings, agent, Path.home(), os.environ, folder if project else None)
    data = connecting.connect(tool, place, Clock().text(), **how)
    call.output.result(data, connecting.as_text(data, write=how["write"]))


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="TOOL EVENT --socket PATH --config FILE")
def hook(arguments: tuple[str, ...]) -> int:
    """Answer a hook that `connect` wrote. EVENT: session-start, prompt, pre-compact or session-end."""
    from memoryd.interfaces import hook as hooks

    return hooks.main(arguments)


@click.command()
@click.option("--yes", "-y", "is_yes", is_flag=True, help="Use all agents and projects that are found, without asking.")
@click.option("--project", "projects", multiple=True, metavar="DIR", help="Use only this project; can be repeated.")
@click.option(
    "--memory", type=click.Choice(["workspace", "state"]), default="workspace", show_default=True,
    help="Keep the memory in each project, or in the state folder.",
)  # fmt: skip
@click.option("--service/--no-service", default=None, help="Start the daemon in the background, or do not.")
@click.option("--remove", is_flag=True, help="Remove configuration, connections and service; your memory stays.")
@click.pass_obj
def init(call: Call, /, *, remove: bool, **answers: Any) -> None:
    """Find the agents here, and give each project its memory. A second run adds new agents and projects.

    Shows the projects first and asks which ones to use. Then writes the configuration, connects the agents, and starts
    the daemon. Until you agree, it reads only the first records of each session, to find its folder.
    """
    from memoryd.interfaces import init as setup

    if remove:
        setup.remove(call)
    else:
        setup.init(call, setup.InitAnswers(**answers))


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
    data = _row_of(asked) | {"consent_file": str(agent.workspace / PATH)}
    call.output.result(data, f"{asked.id} asks for consent in {agent.workspace / PATH}")


@grant.command("list")
@of_agent
def grant_list(call: Call, settings: Settings, agent: Agent) -> None:
    """List access requests and grants, newest first."""
    with access.silo_of(settings, agent) as silo:
        rows = [_row_of(one) for one in silo.all()]
    columns = ("id", "state", "uid", "requested_at", "expires_at", "purpose")
    call.output.result(rows, render_table(rows, columns) if rows else "there is no access request")


@grant.command("revoke")
@click.argument("grant_id", metavar="ID")
@of_agent
def grant_revoke(call: Call, settings: Settings, agent: Agent, grant_id: str) -> None:
    """End a grant or a request at once."""
    with access.silo_of(settings, agent) as silo:
        revoked = silo.revoke(grant_id)
    call.output.result(_row_of(revoked), f"{revoked.id} is revoked")


def _row_of(one: Grant) -> dict[str, Any]:
    """Return a grant as a row for programs, with `agent` in place of `agent_id`."""
    return {{"agent_id": "agent"}.get(name, name): value for name, value in asdict(one).items()}
