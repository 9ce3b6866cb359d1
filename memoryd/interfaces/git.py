"""Define `git track`, `untrack` and `status`, and `resolve`: memory in a git repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from memoryd.interfaces.call import Call, of_agent
from memoryd.interfaces.output import one_line
from memoryd.text.conflicts import Side

if TYPE_CHECKING:
    from memoryd.config import Agent, Settings

FAILED = 1


@click.group("git")
def git() -> None:
    """Let git see an agent's memory files, or hide them from git."""


@git.command("track")
@of_agent
def track(call: Call, settings: Settings, agent: Agent) -> None:
    """Let git see the memory files. Refuses if a file holds a secret or is private. Commits nothing."""
    from memoryd.requests import git as requests

    with call.output.busy("looking for secrets"):
        told = requests.track(settings, agent)
    call.output.result(told, _describe(told))


@git.command("untrack")
@of_agent
def untrack(call: Call, settings: Settings, agent: Agent) -> None:
    """Hide the memory files from git again."""
    from memoryd.requests import git as requests

    told = requests.untrack(settings, agent)
    call.output.result(told, _describe(told))


@git.command("status")
@of_agent
def show_status(call: Call, settings: Settings, agent: Agent) -> None:
    """Show which memory files git sees. Also shows open merges, and what prevents the files from being tracked."""
    from memoryd.requests import git as requests

    with call.output.busy("looking for secrets"):
        told = requests.describe(settings, agent)
    call.output.result(told, _describe(told))


def _describe(told: dict[str, Any]) -> str:
    if told["repository"] is None and not told["conflicts"]:
        return "the workspace is in no git work tree"
    lines = [f"{what:9} {', '.join(told[what]) or 'nothing'}" for what in ("tracked", "ignored")]
    for one in told["conflicts"]:
        where = ", ".join(map(str, one["lines"]))
        lines.append(f"conflict  {one_line(one['path'])}, line {where}: memoryd resolve {one_line(one['path'])}")
    lines += [f"fault     {one_line(one['path'])}:{one['line']} holds {one['what']}" for one in told["faults"]]
    return "\n".join([*lines, *([f"next      {told['next']}"] if told.get("next") else [])])


@click.command("resolve")
@click.argument("file")
@of_agent
@click.option("--ours", "side", flag_value="ours", help="Keep your own side of each conflict.")
@click.option("--theirs", "side", flag_value="theirs", help="Keep the other side.")
@click.option("--both", "side", flag_value="both", help="Keep both sides; a common line occurs once.")
def resolve(call: Call, settings: Settings, agent: Agent, file: str, side: str | None) -> int:
    """Resolve merge conflicts in a memory file. Without an option, shows both sides."""
    from memoryd.requests import access
    from memoryd.requests import git as requests

    if side is not None:
        told = requests.resolve_file(settings, agent, file, Side(side))
        call.output.result(told, f"resolved {one_line(told['path'])}; the old bytes are in {one_line(told['backup'])}")
        return 0
    access.require(settings, agent, "resolve")
    path, found = requests.show_conflicts(agent, file)
    lines = []
    for one in found:
        lines += [f"{path}, line {one['line']}", "--- ours"]
        lines += [one["ours"].rstrip("\n"), "--- theirs", one["theirs"].rstrip("\n")]
    lines.append(f"memoryd resolve {file} --ours, --theirs or --both")
    call.output.result({"path": path, "conflicts": found}, "\n".join(lines))
    return FAILED
