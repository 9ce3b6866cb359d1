"""Show and search sessions in NOW files that the daemon has not read yet."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import reduce
from typing import Any

from memoryd.changing.now_folder import NowSession
from memoryd.config import Agent, Settings
from memoryd.database import reads
from memoryd.database.reads import DatabaseReader
from memoryd.errors import NotFoundError
from memoryd.finding.recall import Hit, Narrowing
from memoryd.gauge import live
from memoryd.recall.query import parse
from memoryd.recall.ranking import SESSION
from memoryd.recall.snippet import find_passage
from memoryd.requests import scanner, sessions
from memoryd.transcripts import now_file
from memoryd.transcripts.turn import Turn

FORMAT = now_file.NAME


def _list_shown(agents: Sequence[Agent]) -> list[tuple[Agent, NowSession]]:
    return [(agent, one) for agent in agents for one in sessions.list_sessions(agent) if not one.is_private]


def list_rows(agents: Sequence[Agent]) -> dict[str, dict[str, Any]]:
    """Return the sessions by id, each in the form of a database row. Private ones are left out."""
    return {one.header.session_id: build_row(agent, one) for agent, one in _list_shown(agents)}


def build_row(agent: Agent, one: NowSession) -> dict[str, Any]:
    """Return a session of a NOW file in the form of a database row."""
    header = one.header
    at = header.timestamp_end or header.timestamp_start
    turns = list_turns(one)
    gauge = reduce(live.with_text, turns, live.Gauge())
    return {
        "id": header.session_id, "agent_id": agent.id, "parent_id": header.parent_session, "format": FORMAT,
        "transcript": str(agent.workspace / one.path), "state": "ended" if header.timestamp_end else "active",
        "started_at": header.timestamp_start, "ended_at": header.timestamp_end, "last_turn_at": at,
        "turns": len(turns), "forgotten": 0, "gauge": json.dumps(gauge._asdict()), "model": None,
        "counted_tokens": None, "counted_seq": 0, "last_seq": len(turns),
    }  # fmt: skip


def find(agents: Sequence[Agent], session_id: str) -> tuple[Agent, NowSession]:
    """Return the session with this id, or the only one whose id begins with it.

    Raises:
        NotFoundError: No session matches, several do, or it is private.
    """
    found = _list_shown(agents)
    exact = [item for item in found if item[1].header.session_id == session_id]
    chosen = exact or [item for item in found if item[1].header.session_id.startswith(session_id)]
    if len(chosen) != 1:
        what = f"{session_id!r} begins several sessions' ids" if chosen else f"there is no session {session_id!r}"
        raise NotFoundError(what, hint="memoryd session list shows them")
    return chosen[0]


def list_turns(one: NowSession) -> list[Turn]:
    """Return the entries of a NOW file as turns."""
    return now_file.new_turns(now_file.parse(one.data, closed=True).entries, Counter(), one.header.session_id)[0]


def read_turns(settings: Settings, one: NowSession) -> list[dict[str, Any]]:
    """Return a session's turns without secrets, in the form of database rows."""
    turns = list_turns(one)
    texts = scanner.redact(settings, [turn.text for turn in turns])
    return [
        {
            "seq": number, "role": str(turn.role), "origin": str(turn.origin), "kind": str(turn.kind), "text": text,
            "tokens": None, "at": turn.at, "record_id": turn.record_id, "part": turn.part,
            "sidechain": int(turn.sidechain), "tool_name": turn.tool_name,
        }
        for number, (turn, text) in enumerate(zip(turns, texts, strict=True), start=1)
    ]  # fmt: skip


def list_tagged(agent: Agent, tags: Collection[str]) -> list[NowSession]:
    """Return the sessions whose NOW file has all of these tags, with or without `#`."""
    wanted = {tag.lower().lstrip("#@") for tag in tags}
    return [one for _, one in _list_shown([agent]) if wanted <= {tag.lower() for tag in one.header.tags}]


def search_unread(
    kept: Sequence[NowSession],
    text: str,
    narrowing: Narrowing,
    reader: DatabaseReader | None,
    redact: Callable[[Sequence[str]], list[str]],
) -> list[Hit]:
    """Return hits for entries that are not in the database yet and contain a word of the query, newest first."""
    words = {term.text: 1.0 for term in parse(text).terms}
    hits = []
    for one in reversed(kept):
        day = (one.header.timestamp_start or "")[:10]
        after, before = narrowing.after, narrowing.before
        if (after and day < after.isoformat()) or (before and day > before.isoformat()):
            continue
        stored = reads.stored_turns(reader, one.header.session_id) if reader is not None else []
        read = Counter(turn.text for turn in stored)
        unread = [turn for turn in list_turns(one) if turn.text not in read]
        shown = redact([turn.text for turn in unread])
        for turn, clean in reversed([*zip(unread, shown, strict=True)]):
            found = find_passage(clean, words)
            if found.held:
                why = f"{', '.join(sorted(found.held))}; not read by the daemon yet"
                share, origin = round(len(found.held) / len(words), 3), str(turn.origin)
                lines = _find_lines(one.data, turn.text)
                hits.append(Hit(one.path, *lines, found.text, share, SESSION, why, None, day, origin, share))
    return hits


def _find_lines(data: bytes, text: str) -> tuple[int, int]:
    """Return the first and last line of an entry's text. If it is not found, return those of the whole file."""
    lines, begins = data.decode("utf-8", "replace").split("\n"), text.partition("\n")[0]
    first = next((number for number, line in enumerate(lines, start=1) if begins in line), None)
    return (1, data.count(b"\n")) if first is None else (first, min(first + text.count("\n"), len(lines)))
