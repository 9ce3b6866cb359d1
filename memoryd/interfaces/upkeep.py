"""Define `validate`, `repair recent` and `archive`: look after the files about sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memoryd.counted import count_noun
from memoryd.interfaces.call import Call, of_agent
from memoryd.interfaces.output import one_line

if TYPE_CHECKING:
    from memoryd.config import Agent, Settings

FAILED = 1


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
