"""Define the commands of the memory store: core, audit, rollback, forget, verify."""

from __future__ import annotations

import sys
from datetime import datetime
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import click

from memoryd import clock
from memoryd.counted import count_noun
from memoryd.database import reads
from memoryd.interfaces.call import Call, agent_option, of_agent, of_settings
from memoryd.interfaces.output import make_visible, one_line, render_table
from memoryd.requests import access

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from memoryd.config import Agent, Settings

_LONGEST_SHOWN = 200  # characters of an erased text that a terminal shows
_FILE = "file:"
_REJECTED = "proposal:"
_EDITED = (
    "the unchanged lines of that run in {} stay, because their block was edited since; a new summary of the session"
    " may come beside them, so delete by hand what should go"
)


@click.group()
def core() -> None:
    """List and protect the bullets of MEMORY.md."""


@core.command("list")
@click.option("--ended", is_flag=True, help="List the memories that have ended, the last first.")
@of_agent
def core_list(call: Call, settings: Settings, agent: Agent, *, ended: bool) -> None:
    """List the bullets of MEMORY.md in order. A * marks a protected bullet."""
    if ended:
        _list_memories(call, settings, agent, "core list --ended", kind="core", ended=True)
        return
    with call.reader(settings, agent) as reader:
        rows = reads.core_memories(reader, agent.id)
    rows = access.show_rows(settings, agent, "core list", rows, "content", "heading", "note", "tags")
    lines = [
        f"{row['id']} {'*' if row['constitutional'] else ' '} {one_line(access.text_of(row['content'], row))}"
        + (f" ({one_line(row['note'])})" if row["note"] else "")
        for row in rows
    ]
    call.output.result(rows, "\n".join(lines) or "no core memories yet")


@core.command("journal")
@of_agent
def core_journal(call: Call, settings: Settings, agent: Agent) -> None:
    """List the reports to the agent about changes of its memory."""
    _list_memories(call, settings, agent, "core journal", kind="journal")


@core.command("limits")
@of_agent
def core_limits(call: Call, settings: Settings, agent: Agent) -> None:
    """Show the limits of refinement and deletion, and their use."""
    from memoryd.requests import lists

    told = lists.list_thresholds(settings, agent)
    call.output.result(told, "\n".join(f"{name:16} {value}" for name, value in told.items()))


def _list_memories(call: Call, settings: Settings, agent: Agent, what: str, *, kind: str, ended: bool = False) -> None:
    from memoryd.requests import lists

    rows = lists.list_memories(settings, agent, lists.MemoryQuery(ended, kind, limit=10_000))
    hidden = ("content", "heading", "note", "tags", "category", "sources")
    rows = access.show_rows(settings, agent, what, rows, *hidden)
    columns = ("id", "created_at", "deleted_at", "ended_as", "content")
    call.output.result(rows, render_table(rows, columns) if rows else "none")


@core.command("history")
@click.argument("memory_id", metavar="ID")
@of_agent
def core_history(call: Call, settings: Settings, agent: Agent, memory_id: str) -> None:
    """Show every change of a memory."""
    with call.reader(settings, agent) as reader:
        rows = reads.read_history(reader, agent.id, memory_id)
    rows = access.show_rows(settings, agent, "core history", rows, "content", "heading", "note")
    call.output.result(rows, render_table(rows, ("id", "at", "actor", "operation", "ended_as", "run_id", "content")))


def _add_owner_command(verb: str, does: str, done: str) -> None:
    """Define a command by which a person protects, unprotects or restores one memory."""

    @core.command(verb, help=does)
    @click.argument("memory_id", metavar="ID")
    @of_agent
    def command(call: Call, settings: Settings, agent: Agent, memory_id: str) -> None:
        from memoryd.requests import memory_changes

        changed, run_id = memory_changes.change_core(settings, agent, verb, memory_id)
        call.output.result({"id": changed, "run": run_id}, f"{changed} {done}")


_add_owner_command(
    "protect", "Protect a memory. No job, tool or edit of the file can change or remove it.", "is protected"
)
_add_owner_command("unprotect", "Remove the protection of a memory.", "is an ordinary one")
_add_owner_command("restore", "Restore a memory that has ended. Adds it to MEMORY.md again.", "is back")


@click.command()
@click.option("--run", "run_id", metavar="RUN", help="Show one run only.")
@click.option("--since", metavar="DATE", help="Show changes since 2026-03-04, or since a time in ISO 8601.")
@agent_option
@of_settings
def audit(call: Call, settings: Settings, run_id: str | None, since: str | None, agent_id: str | None) -> None:
    """Show every change of memory, and every refused request. Shows when, by whom and what, but never content."""
    from memoryd.interfaces import timeline

    chosen = call.agent(settings, agent_id).id if agent_id else None
    start = None if since is None else _parse_since(settings, since)
    with call.reader(settings) as reader:
        run = {} if run_id is None else reads.job_run(reader, run_id)
        rows = reads.audit_rows(reader, agent_id=chosen, run_id=run.get("id"), since=start)
    columns = ("id", "at", "agent_id", "by", "trigger", "actor", "operation", "memory_id", "run_id")
    text = render_table(rows, columns) if rows else "nothing has been changed"
    refined = run.get("receipt", {}).get(timeline.REFINE)
    call.output.result(rows, f"{text}\n{timeline.count_refined(refined)}" if rows and refined else text)


def _parse_since(settings: Settings, text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{text!r} is not a date: write 2026-03-04, or a time in ISO 8601") from None
    return clock.text_of(moment if moment.tzinfo else moment.replace(tzinfo=settings.zone))


@click.command()
@of_settings
def verify(call: Call, settings: Settings) -> None:
    """Compare audit, memory store, files, cursors and index. Exits with 0 only if all agree."""
    from memoryd.changing import verify as verifying
    from memoryd.requests import daemon_client, opening, scanner, searching

    for agent in settings.agents:
        opening.catch_up(settings, agent)
    with (
        call.output.busy("comparing"),
        call.reader(settings) as reader,
        scanner.open_scrubber(settings) as scrubber,
        searching.open_recall(settings, scrubber) as recall,
    ):
        found = verifying.list_problems(settings, reader, recall.indexer.problems)
    lines = [f"{one['where']}: {one['what']} ({one['hint']})" for one in found]
    call.output.result({"ok": not found, "problems": found}, "\n".join(lines) or "all agree")
    if found:
        if any(one["hint"] == verifying.REPAIRED for one in found):
            daemon_client.ask(settings.state_dir, "inspect")
        raise click.exceptions.Exit(1)


@click.command()
@click.argument("run_id", metavar="RUN", required=False)
@click.option(
    "--to", "audit_id", type=click.IntRange(1, 2**63 - 1), metavar="AUDIT_ID",
    help="Revert everything after this change; with --agent, only that agent's changes.",
)  # fmt: skip
@click.option("--memory", "memory_id", metavar="ID", help="Revert only the last change of this memory in RUN.")
@click.option("--dry-run", is_flag=True, help="Show what the rollback would change.")
@agent_option
@click.pass_obj
def rollback(
    call: Call, *, run_id: str | None, audit_id: int | None, memory_id: str | None, dry_run: bool, agent_id: str | None
) -> None:
    """Revert a run, one of its changes, or everything after a change.

    The beginning of RUN is enough if no other id begins with it.
    """
    from memoryd.requests import memory_changes

    if (run_id is None) == (audit_id is None):
        raise click.UsageError("name a RUN, or an entry of the audit with --to")
    if memory_id is not None and run_id is None:
        raise click.UsageError("--memory names a memory that a RUN has changed")
    settings = call.settings()
    with call.reader(settings) as reader:
        row = {} if run_id is None else reads.job_run(reader, run_id)
        beside = reads.list_beside(reader, row) if row and memory_id is None else {}
        owner = agent_id or row.get("agent_id") or reads.audit_upto(reader, int(audit_id or 0), None)[1]
    agent = call.agent(settings, owner)
    options = memory_changes.find_rollback(settings, agent, run_id, audit_id, memory_id)
    named_run = row if memory_id is None else {}
    if dry_run:
        plan, planned = memory_changes.preview_rollback(settings, agent, options)
        states = {one.memory_id: (one.before, one.after) for one in plan.steps}
        named = ("memory", "before", "after")
        texts = [dict(zip(named, (one, *map(_text_in, states[one])), strict=True)) for one in planned["memories"]]
        shown = access.show_rows(settings, agent, "rollback --dry-run", texts, *named[1:])
        planned |= {"texts": shown, "beside": beside, "edited": _list_edited(agent, named_run, planned["files"])}
        call.output.result(planned, _plan_text(planned, states, is_tried=True), plan.find_refusal())
        return
    with call.output.busy("reverting"):
        done = memory_changes.rollback(settings, agent, options)
    with call.reader(settings) as reader:
        states = {row["memory_id"]: (row["before"], row["after"]) for row in reads.states_of_run(reader, done["id"])}
        bare = reads.list_unsummarized(reader, done["id"])
    files = [{"path": one["path"], "removed": one["after"] is None} for one in done["receipt"].get("files", ())]
    reverted = done["receipt"].get("rollback", {})
    reverted |= {"files": files, "beside": beside, "edited": _list_edited(agent, named_run, files)}
    undo = f"memoryd rollback {done['id']}"
    told = [f"{done['id']} is the id of this rollback. To revert it: {undo}", _plan_text(reverted, states)]
    told += _list_next_steps(states, bare, undo, f" --agent {agent.id}" * (len(settings.agents) > 1))
    data = done | {"beside": beside, "edited": reverted["edited"]}
    call.output.result(data, f"{done['id']} {done['why']}" if done["why"] else "\n".join(told))


def _list_edited(agent: Agent, row: Mapping[str, Any], files: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the files that a rollback leaves alone, and in which an edited block still has lines of the run `row`."""
    from memoryd.files import regular
    from memoryd.jobs.witness import digest_of
    from memoryd.tiers.daily import find_block

    receipt, changed = row.get("receipt", {}), {one["path"] for one in files}
    blocks = [one for one in receipt.get("files", ()) if "appended" in one and one["path"] not in changed]
    cites, found = receipt.get("cites", {}), {}
    for one in blocks:
        data = regular.read_in(agent.workspace, one["path"]) or b""
        if find_block(data, one["appended"], one["bytes"]) is None:
            found[one["path"]] = data.decode(errors="replace").splitlines()
    return [path for path, lines in found.items() if any(digest_of(line) in cites for line in lines)]


def _list_next_steps(
    states: Mapping[str, tuple[str | None, str | None]], bare: Collection[str], undo: str, chosen: str
) -> list[str]:
    """Return lines for people with commands for what a rollback leaves to do.

    `bare` are the watermarks of sessions without a summary, `undo` is the command that reverts the rollback, and
    `chosen` ends a command for a memory.
    """
    from memoryd.ledger.audit import WATERMARK, values_of
    from memoryd.ledger.memory import ANY_PREFIX
    from memoryd.ledger.rollback import OUT, describe_outcome

    lines = []
    for name, both in states.items():
        session, _, consumer = name.removeprefix(WATERMARK).rpartition(":")
        again = f"memoryd job run {consumer} --session {session}"
        before, after = (0 if one is None else int(values_of(one).get("seq") or 0) for one in both)
        if name.startswith(WATERMARK) and after < before:
            lines += [
                f"session {session} will be processed again and may bring the same lines back",
                f"to process it now (needed if it ended before memoryd first saw the agent): {again}",
                f"to erase the whole session: memoryd forget {session}",
            ]
        elif name in bare:
            lines.append(f"session {session} is not restored in RECENT.md; to write it again: {undo} && {again}")
    gone = [one for one, both in states.items() if one.startswith(ANY_PREFIX) and describe_outcome(*both) == OUT]
    lines += [f"to keep this line, or another above, out: memoryd forget {one}{chosen}" for one in gone[:1] if lines]
    return list(dict.fromkeys(lines))


@click.command()
@click.argument("target", metavar="SESSION|ID")
@click.option("--dry-run", is_flag=True, help="Show what would be erased; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@agent_option
@of_settings
def forget(call: Call, settings: Settings, *, target: str, dry_run: bool, yes: bool, agent_id: str | None) -> None:
    """Erase a memory or a session from everything that memoryd wrote. This cannot be undone.

    The transcripts stay, because they belong to the agent.
    """
    from memoryd.requests import forgetting

    agent, options = forgetting.find_target(settings, target, lambda given: call.agent(settings, agent_id or given))
    if not (dry_run or yes or sys.stdin.isatty()):
        raise click.UsageError("there is no terminal to ask on: --yes forgets without asking, --dry-run shows what")
    with call.output.busy("looking for it"):
        planned, lines = forgetting.planned_forgetting(settings, agent, options, has_lines=any((dry_run, not yes)))
        planned["lines"] = access.show_rows(settings, agent, "forget", lines, "content")
        shown = _read_texts(call, settings, agent, planned["memories"])
    texts = _join_texts(shown)
    if dry_run:
        present = len(planned["memories"])
        planned["texts"] = {row["id"]: row["content"] for row in shown[:present]}
        planned["earlier"] = [{"memory": row["id"], "content": row["content"]} for row in shown[present:]]
        call.output.result(planned, _forgotten_text(planned, texts, is_tried=True))
        return
    if not yes:
        click.echo(make_visible(_forgotten_text(planned, texts, is_tried=True)), err=True)
        click.confirm("This cannot be undone. Forget it?", abort=True, err=True)
    with call.output.busy("erasing"):
        told = forgetting.forget(settings, agent, options)
    # A file, or the transcript of an agent, would keep the texts.
    short = {one: f"\n    {shorten(text, _LONGEST_SHOWN)}" for one, text in texts.items()}
    call.output.result(told, _forgotten_text(told, short if sys.stdout.isatty() else {}))


def _join_texts(rows: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the lines for people about the texts of each memory, by its id."""
    texts: dict[str, str] = {}
    for row in rows:
        lead = f"{texts[row['id']]}\n    earlier: " if row["id"] in texts else "\n    "
        texts[row["id"]] = lead + one_line(access.text_of(row["content"], row))
    return texts


def _read_texts(call: Call, settings: Settings, agent: Agent, became: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the present text of each memory, then the earlier ones of erased memories, as the caller may see them."""
    with call.reader(settings, agent) as reader:
        rows = [reads.find_memory(reader, agent.id, one) for one in became]
        for row in [row for row in rows if became[row["id"]]["became"] == "erased"]:
            history = reads.read_history(reader, agent.id, row["id"])
            earlier = dict.fromkeys(one["content"] for one in reversed(history) if one["content"])
            rows += [{"id": row["id"], "content": text} for text in earlier if text != row["content"]]
    return access.show_rows(settings, agent, "forget", rows, "content") if rows else []


def _forgotten_text(told: dict[str, Any], texts: Mapping[str, str], *, is_tried: bool = False) -> str:
    counted = {"turns": "turns", "summaries": "summaries", "replies": "stored replies", "blocks": "daily blocks"}
    be, lose, beside = "would be " * is_tried, "would lose" if is_tried else "lost", told["beside"]
    lines = [
        f"{one} {be}{became['became']}: {became['why']}{texts.get(one, '')}" for one, became in told["memories"].items()
    ]
    erased = ", ".join(f"{told['counts'][name]} {word}" for name, word in counted.items() if told["counts"][name])
    lines += [f"{erased} {be}erased" if erased else ""]
    lines += [_name_nothing(told)] * (not any((*lines, told["lost"])))
    lines += [f"protected, so nothing is forgotten: {one}" for one in told["protected"]]
    lines += [f"says it too, or is from the same records, and stays: {one}" for one in beside["memories"]]
    lines += [f"{path} {lose} text in {count_noun(count, 'line')}" for path, count in told.get("lost", {}).items()]
    lines += _list_lines_beside(told.get("lines", ()))
    lines += [f"may be of it or of another session, and stays: the note of {one}" for one in beside.get("notes", ())]
    if sessions := ", ".join(told["sessions"] or beside["sessions"]):
        lines.append(f"the transcripts of {sessions} are the agent's own, and stay")
    lines += [f"look at it yourself, or delete it: {path}" for path in told.get("left", ())]
    lines.append("archives that `memoryd backup` made are where you put them, and stay")
    return "\n".join(line for line in lines if line)


def _name_nothing(told: Mapping[str, Any]) -> str:
    """Return a line for people about a `forget` that has nothing to erase."""
    session = f"nothing of session {told['session']} is left to erase"
    return f"{told['memory']} was forgotten already" if told["memory"] else session


def _list_lines_beside(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of files that go and may be a person's as lines for people."""
    head = "these lines go too, but they have words that the session did not say. Copy what is yours first:"
    return [head] * bool(rows) + [f"    {row['path']} {one_line(access.text_of(row['content'], row))}" for row in rows]


def _text_in(state: str | None) -> str | None:
    """Return the text of a memory in a stored state, or None if the memory has ended in it."""
    from memoryd.ledger.memory import from_json

    memory = None if state is None else from_json(state)
    return memory.content if memory is not None and memory.is_live else None


def _text_lines(row: dict[str, Any]) -> list[str]:
    """Return the text of a memory before and after a rollback as lines that begin with -, + or a space."""
    if "bytes" in row:
        return [f"  {access.text_of(None, row)}"]
    shown = {"-": row["before"], "+": row["after"]} if row["before"] != row["after"] else {" ": row["after"]}
    return [f"  {mark} {one_line(text)}" for mark, text in shown.items() if text is not None]


def _describe_file(row: dict[str, Any]) -> str:
    """Return what a rollback does to a file."""
    own = "; backup/ keeps the old file, also lines of yours in an entry that goes"
    return "removed" if row["removed"] else "rewritten" + own * row["path"].startswith(".continuum/")


def _plan_text(
    planned: dict[str, Any], states: Mapping[str, tuple[str | None, str | None]], *, is_tried: bool = False
) -> str:
    from memoryd.ledger.rollback import AS_BEFORE, describe_outcome, name_conflict, name_copy, name_object

    if planned.get("already"):
        return "it was rolled back before"
    be, goes = "would be " * is_tried, ("goes", "would go")[is_tried]
    texts = {row["memory"]: _text_lines(row) for row in planned.get("texts", ())}
    lines = []
    for one in planned.get("memories", ()):
        lines += [f"{one} {be}{describe_outcome(*states.get(one, (None, None)))}", *texts.get(one, ())]
    # Entries `run:` only mark the reverted runs, which the caller knows.
    lines += [
        f"what {one.removeprefix(_REJECTED)} proposed may be proposed again"
        if one.startswith(_REJECTED)
        else f"{name_object(one)} {be}{AS_BEFORE}"
        for one in planned.get("others", ())
        if not one.startswith(("run:", _FILE))
    ]
    lines += [f"{one['path']} {be}{_describe_file(one)}" for one in planned.get("files", ())]
    lines += [name_copy(*one) for one in planned.get("there", ())]
    back = f"{('nothing', 'only what is named here')[bool(lines)]} {goes} back in it"
    lines += [
        f"{one.removeprefix(_FILE)} was changed since: {back}" if one.startswith(_FILE)
        else f"{name_object(one)} stays as it is, because it was changed or forgotten since"
        for one in planned.get("stayed", ())
    ]  # fmt: skip
    lines += map(_EDITED.format, planned.get("edited", ()))
    clashes = planned.get("conflicts", ())
    lines += ["nothing would change, because later changes are in conflict:"] * bool(clashes)
    lines += [name_conflict(one["memory"], one["why"], one["later"]) for one in clashes]
    stays = "stays, because another run wrote it for the same session:"
    for run, ids in planned.get("beside", {}).items():
        lines.append(f"{stays} {', '.join(ids)}; to revert that run: memoryd rollback {run}")
    return "\n".join(lines) or "nothing to take back"
