"""Define commands for the files about sessions: `consolidate`, `recover`, `validate`, `repair recent` and `archive`.

`consolidate` and `recover` roll sessions over by hand, from cron, and after an interruption.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from memoryd.counted import count_noun
from memoryd.interfaces.call import Call, of_agent, start_log
from memoryd.interfaces.output import one_line

if TYPE_CHECKING:
    from memoryd.config import Agent, Settings

FAILED = 1


@click.command("consolidate")
@of_agent
@click.option("--scheduled", is_flag=True, help="For cron: roll over only due sessions; print nothing if none is due.")
@click.option("--dry-run", is_flag=True, help="Show what would change as diffs, and write nothing.")
def consolidate(call: Call, settings: Settings, agent: Agent, *, scheduled: bool, dry_run: bool) -> None:
    """Write all sessions so far to RECENT.md and the archive. Includes open NOW files, and clears them."""
    from memoryd.requests import consolidating

    with call.output.busy("consolidating"), start_log(settings):
        made = consolidating.consolidate(settings, agent, scheduled=scheduled, dry_run=dry_run)
    diffs = "\n".join(one["diff"] for one in made.get("would", ())) or "nothing would change"
    if not scheduled or made["state"] != "skipped" or call.output.json:
        call.output.result(made, diffs if dry_run else _describe(made))


@click.command("recover")
@of_agent
@click.option(
    "--hours", default=24.0, show_default=True, type=click.FloatRange(0, 87_600), help="The minimum age of a file."
)
@click.option("--consolidate", is_flag=True, help="Roll them over.")
def recover(call: Call, settings: Settings, agent: Agent, *, hours: float, consolidate: bool) -> None:
    """List old NOW files that were never rolled over."""
    from memoryd.requests import consolidating

    with call.output.busy("looking"), start_log(settings):
        made = consolidating.recover(settings, agent, hours, consolidate=consolidate)
    lines = [f"{one_line(one['path'])}, begun {one['began'] or 'at an unknown time'}" for one in made["stale"]]
    if made["run"] is not None:
        lines.append(_describe(made))
    elif lines:
        lines.append("memoryd recover --consolidate rolls them over")
    call.output.result(made, "\n".join(lines) or "no NOW file was left behind")


def offer_recovery(call: Call, settings: Settings, agent: Agent) -> None:
    """On a terminal, offer to roll over the NOW files that were left behind."""
    from memoryd.requests import consolidating

    if call.output.json or call.output.quiet or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    hours = settings.sessions.stale_after.total_seconds() / 3600
    stale = consolidating.recover(settings, agent, hours)["stale"]
    if not stale:
        return
    of_them = f"{count_noun(len(stale), 'NOW file')} of earlier sessions never became memory. Roll over now?"
    if click.confirm(of_them, default=True, err=True):
        with call.output.busy("consolidating"), start_log(settings):
            call.output.print_note(_describe(consolidating.recover(settings, agent, hours, consolidate=True)))


def _describe(made: dict[str, Any]) -> str:
    files = ", ".join(one_line(one["path"].rpartition("/")[2]) for one in made["files"])
    told = f": {files}" if files else f": {made['why']}" if made["why"] else ""
    return f"{made['run']} rollover {made['state']}{told}"


@click.command("validate")
@of_agent
def validate(call: Call, settings: Settings, agent: Agent) -> int:
    """Check the files about sessions: NOW files, RECENT.md, archive.

    Checks form, links and open merges, also of the archive's index and of the log.
    """
    from memoryd.requests import access, upkeep

    access.require(settings, agent, "validate")
    found = upkeep.validate(agent)
    lines = [f"{one_line(one.path)}:{one.line}: {one_line(one.what)}\n  {one_line(one.hint)}" for one in found]
    text = "\n".join([*lines, count_noun(len(found), "problem")]) if found else "all is well"
    call.output.result({"ok": not found, "problems": [one._asdict() for one in found]}, text)
    return FAILED if found else 0


@click.group("repair")
def repair() -> None:
    """Repair a memory file."""


@repair.command("recent")
@of_agent
@click.option("--dry-run", is_flag=True, help="Show the diff, and write nothing.")
def repair_recent(call: Call, settings: Settings, agent: Agent, *, dry_run: bool) -> None:
    """Repair RECENT.md. Repairs title, order, number of sessions, repeated sessions, and links."""
    from memoryd.requests import access, upkeep

    access.require(settings, agent, "repair recent")
    told = upkeep.repair_recent(settings, agent, dry_run=dry_run)
    call.output.result(told, told["diff"] or "nothing to repair")


@click.command("archive")
@click.argument("file")
@of_agent
def archive(call: Call, settings: Settings, agent: Agent, file: str) -> None:
    """Move a MEMORY-YYYY-MM-DD.md into archive/. Rewrites the links to it."""
    from memoryd.requests import upkeep

    told = upkeep.move_to_archive(settings, agent, file)
    call.output.result(told, f"{'moved to' if told['moved'] else 'there already:'} {one_line(told['path'])}")
