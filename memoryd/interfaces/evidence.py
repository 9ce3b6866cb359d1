"""Define the commands that show the evidence of memory: blame, and session show."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from memoryd.database import reads, vault
from memoryd.errors import NotFoundError
from memoryd.interfaces.call import Call, agent_option, of_settings
from memoryd.interfaces.output import make_visible, one_line
from memoryd.requests import access

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memoryd.config import Agent, Settings
    from memoryd.database.reads import DatabaseReader, Row

_LONGEST = 1_200  # characters of a turn that `blame` prints; the result of a tool may have a million
_WITHHELD = {
    "forgotten": "forgotten",
    "expired": "older than retention.turns",
    "skipped": "left out by scrub.secrets: skip",
    "lost": "never scanned for secrets",
    "unscanned": "not scanned for secrets yet",
}


@click.command()
@click.argument("target", metavar="FILE:LINE|ID")
@agent_option
@of_settings
def blame(call: Call, settings: Settings, target: str, agent_id: str | None) -> None:
    """Show the source of a line of memory, and each later change.

    Takes a line as `search` prints it (MEMORY.md:12, memory/2026-03-04.md:7, RECENT.md:9) or the id of a memory. A file
    in the workspace of another agent selects that agent.
    """
    from memoryd.requests import blame as tracing

    path, colon, line = target.rpartition(":")
    agent, path = call.agent_of_path(settings, agent_id, path)
    target = f"{path}{colon}{line}"
    found = tracing.blame(settings, agent, target, "blame")
    lines = [f"{found.what}  {one_line(found.text)}", f"written: {found.by}", ""]
    lines += ["came from:" if found.turns else "came from: no turn is recorded for it"]
    lines += [line for turn in found.turns for line in _turn_lines(turn)]
    lines += ["", "changes:" if found.changes else "changes: none"]
    for one in found.changes:
        by = f"{one['operation']} by {one['actor']}" + (f", {one['kind']} {one['run_id']}" if one["run_id"] else "")
        lines.append(f"  {one['at']}  {one['memory']}  {by}")
        lines += [f"      {one_line(one['content'])}"] if one["content"] else []
    call.output.result(found._asdict(), "\n".join(lines))


def _turn_lines(turn: dict[str, Any]) -> Iterator[str]:
    if turn["session"] is None:
        yield f"  {turn['transcript']}, a line that was written there by hand, {turn['at']}"
        return
    gone = "; its transcript is deleted" if turn["transcript_deleted"] else ""
    yield f"  [{turn['seq']}] {turn['speaker']}, {turn['at'] or 'time unknown'}, session {turn['session']}{gone}"
    text = make_visible(turn["text"] or "")
    if turn["withheld"]:
        yield f"      ({_WITHHELD.get(turn['withheld'], turn['withheld'])})"
    yield from (f"    > {one_line(said)}" for said in turn["cited"])
    yield from (f"      {line}" for line in text[:_LONGEST].splitlines())
    if len(text) > _LONGEST:
        yield f"      ... {len(text) - _LONGEST:,} more characters: memoryd session show {turn['session']}"


@click.command("show")
@click.argument("session_id", metavar="ID")
@agent_option
@of_settings
def session_show(call: Call, settings: Settings, session_id: str, agent_id: str | None) -> None:
    """Show the stored turns of a session. Works also after its transcript was deleted."""
    row, told, turns = read_session(call, settings, session_id, agent_id)
    turns = access.show_rows(settings, call.agent(settings, str(row["agent_id"])), "session show", turns, "text")
    shown = ("id", "agent_id", "format", "state", "started_at", "ended_at", "last_turn_at", "turns")
    data = {"session": {name: row[name] for name in shown}, **told, "messages": turns}
    lines = [f"session {row['id']}, {row['format']}, {row['state']}, {row['started_at']} to {row['last_turn_at']}"]
    lines += [f"transcript {one_line(one['path'])}{' (deleted)' * one['deleted']}" for one in told["transcripts"]]
    texts = dict(told["texts"])
    kept = texts.pop("kept", 0)
    others = "".join(f", {count} {_WITHHELD.get(why, why)}" for why, count in texts.items())
    lines += [f"texts of {kept} turns kept{others}", "", *map(message_line, turns)]
    call.output.result(data, "\n".join(lines))


def agents_of(call: Call, settings: Settings, agent_id: str | None) -> Sequence[Agent]:
    """Return the named agent in a list, or all agents if none is named."""
    return [call.agent(settings, agent_id)] if agent_id else settings.agents


def list_sessions(call: Call, settings: Settings, agent_id: str | None, limit: int) -> list[Row]:
    """Return the last sessions, newest first, including those in NOW files that memoryd has not read yet.

    Raises:
        NotMadeError: There is no database yet, and no NOW file either.
    """
    from memoryd.requests import now_sessions

    agents = agents_of(call, settings, agent_id)
    kept = now_sessions.list_rows(agents)
    read, known = list[reads.Row](), set[str]()
    with suppress(*([reads.NotMadeError] if kept else [])), call.reader(settings) as reader:
        read = reads.list_sessions(reader, agent_id=agents[0].id if agent_id else None, limit=limit)
        known = reads.list_session_ids(reader)
    rows = [row | {"parent_id": kept.get(row["id"], row)["parent_id"]} for row in read]
    rows += [row for session_id, row in kept.items() if session_id not in known]
    return sorted(rows, key=lambda row: row["last_turn_at"] or "", reverse=True)[:limit]


def read_session(
    call: Call, settings: Settings, session_id: str, agent_id: str | None, *, compressed: bool = False
) -> tuple[Row, dict[str, Any], list[Row]]:
    """Return the row of a session, its evidence (transcripts and counts of texts) and its turns.

    With `compressed`, the turns are the messages of the compressed list. A session that memoryd has not read yet comes
    from its NOW file.

    Raises:
        NotFoundError: There is no such session, or no compressed list of it yet.
    """
    from memoryd.requests import now_sessions

    try:
        with call.reader(settings) as reader:
            row = session_of(call, settings, reader, session_id, agent_id)
            turns = reads.read_compressed(reader, row["id"]) if compressed else reads.read_turns(reader, row["id"])
            return row, vault.read_evidence(reader, row["id"]), turns
    except (reads.NotMadeError, NotFoundError) as missing:
        try:
            agent, found = now_sessions.find(agents_of(call, settings, agent_id), session_id)
        except NotFoundError:
            raise missing from None
        if compressed:
            raise NotFoundError("this session has not slept yet", session_id) from None
        turns = now_sessions.read_turns(settings, found)
        row = now_sessions.build_row(agent, found)
        told = {"transcripts": [{"path": row["transcript"], "deleted": False}], "texts": {"kept": len(turns)}}
        return row, told, turns


def session_of(call: Call, settings: Settings, reader: DatabaseReader, session_id: str, agent_id: str | None) -> Row:
    """Return the row of a session. If an agent is named, the session must belong to it.

    Raises:
        NotFoundError: There is no such session, or it belongs to another agent.
    """
    row = reads.find_session(reader, session_id.removeprefix("session:"))
    if agent_id and (named := call.agent(settings, agent_id).id) != row["agent_id"]:
        raise NotFoundError(f"this is not the agent {named!r}'s", where=session_id, hint="memoryd session list")
    return row


def message_line(row: dict[str, Any]) -> str:
    """Return a turn, or a message of a compressed list, as one line of text for people."""
    seqs = [row["seq"]] if "seq" in row else row["seqs"]
    number = "summary" if not seqs else str(seqs[0]) if len(seqs) == 1 else f"{seqs[0]}-{seqs[-1]}"
    return " ".join(
        part for part in (f"[{number}]", row.get("at"), f"{row['role']}: {access.text_of(row['text'], row)}") if part
    )
