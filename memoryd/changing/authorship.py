"""Decide who wrote a text in a memory file: the agent if one of its tool calls shows it, otherwise a person.

An agent edits files with its own tools, and the calls are in its transcript. Some calls name the file and contain its
new text. Others contain a command or a patch; if such a call names the file, its text counts as the agent's. For
`MEMORY.md`, only calls after the last agreement of file and memory store count. For daily files, all calls about memory
since the beginning of the day count.

A transcript does not show every edit: a script may write the file, and long calls are shortened. So a line that no call
explains may still be the agent's if the agent was working at that time (`was_working`).
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from sqlalchemy import Connection

from memoryd.database import query, turns
from memoryd.ledger.memory import Source
from memoryd.reading.scrubbing import strings_of
from memoryd.tiers import core
from memoryd.transcripts import fields

TOOL = "agent-tool"  # the actor of an agent's edits in the audit
NEWEST = 5000  # this many of the newest turns are searched; an edit is imported soon after it was made
_UNDONE = re.compile(r"^(?:The user doesn't want to|<tool_use_error>)", re.IGNORECASE)
_ESCAPED = re.compile(r"\\[nrt]")  # an escaped line feed, as in a command or in shortened JSON
_SIGNS = re.compile(r"[\\\"'`]")  # characters that quoting in a shell adds or removes

_CALLS = (
    "SELECT t.session_id, t.seq, plain(CAST(t.text AS BLOB), t.text_crc), s.folder,"
    " (SELECT plain(CAST(r.text AS BLOB), r.text_crc) FROM turn r"
    " WHERE r.session_id = t.session_id AND r.kind = 'tool_result' AND r.tool_call_id = t.tool_call_id LIMIT 1)"
    " FROM turn t"
    " JOIN session s ON s.id = t.session_id WHERE t.agent_id = ? AND t.kind = 'tool_call'"
    " AND t.origin IN ('assistant', 'subagent')"
    " AND t.id > (SELECT max(id) FROM turn) - ? AND t.at >= ?"
    " AND plain(CAST(t.text AS BLOB), t.text_crc) LIKE '%MEMORY.md%' ORDER BY t.id"
)

_ABOUT_MEMORY = (
    "SELECT plain(CAST(text AS BLOB), text_crc) FROM turn WHERE agent_id = ? AND kind = 'tool_call'"
    " AND origin IN ('assistant', 'subagent')"
    " AND at >= ? AND plain(CAST(text AS BLOB), text_crc) LIKE '%memory%'"
)

# Some formats have no times for turns. Then only the first and last reading of the session are known.
_OF_TIME = (
    "FROM session s JOIN turn t ON t.session_id = s.id WHERE s.agent_id = ?"
    " AND s.last_turn_at >= ? AND t.kind = 'tool_call'"
    " AND (t.at BETWEEN ? AND ? OR (t.at IS NULL AND s.seen_at <= ?))"
)
_WORKING = f"SELECT 1 {_OF_TIME} LIMIT 1"
_SAVING = (
    f"SELECT plain(CAST(t.text AS BLOB), t.text_crc) {_OF_TIME}"
    " AND plain(CAST(t.text AS BLOB), t.text_crc) LIKE '%memoryd%save%'"
)
_SAVES = re.compile(r"memoryd['\"]?(?:[ \t]+-\S+(?:[ \t]+[^-\s]\S*)?)*[ \t]+save\b")  # the command, with any options


def own_bullets(
    connection: Connection, agent_id: str, path: Path, texts: Collection[str]
) -> dict[str, tuple[Source, ...]]:
    """Return the bullets that the agent's tools wrote since file and ledger last agreed, each with its sources.

    `texts` are the bullets to look for, in normal form.
    """
    since = query.fetch_text(connection, "SELECT agreed_at FROM core_file WHERE agent_id = ?", agent_id)
    found: dict[str, tuple[Source, ...]] = {}
    if since is None:  # the content before memoryd's first start counts as a person's
        return found
    for session_id, seq, text, folder, result in query.fetch_rows(connection, _CALLS, agent_id, NEWEST, since):
        if result is not None and _UNDONE.match(result):
            continue
        for bullet in _find_written(text, texts, folder or str(path.parent), path):
            found[bullet] = turns.build_sources(connection, session_id, [seq])
    return found


def own_texts(connection: Connection, agent_id: str, since: str, texts: Collection[str]) -> set[str]:
    """Return those of `texts` (in normal form) that a tool call of the agent contains, from the time `since` on."""
    calls = query.iterate(connection, _ABOUT_MEMORY, agent_id, since)  # read one by one, because a busy day has many
    return {text for (call,) in calls for text in _holds(_extract_input(call), texts)}


def was_saving(connection: Connection, agent_id: str, since: str, until: str) -> bool:
    """Return True if a tool call of the agent names `memoryd save` between two times (UTC, ISO 8601)."""
    calls = query.iterate(connection, _SAVING, agent_id, since, since, until, until)
    return any(_SAVES.search(_ESCAPED.sub(" ", call)) for (call,) in calls)


def was_working(connection: Connection, agent_id: str, since: str, until: str) -> bool:
    """Return True if a session of the agent or of a subagent called tools between two times (UTC, ISO 8601)."""
    return query.has_row(connection, _WORKING, agent_id, since, since, until, until)


def _find_written(call: str, texts: Collection[str], folder: str, path: Path) -> Iterable[str]:
    """Return those of `texts` that a call writes to the file at `path`; none if the call names another file."""
    given = fields.shown_arguments(call)
    named = next((given[key] for key in fields.PATHS if isinstance(given.get(key), str)), None)
    if named is None:
        return _holds(_extract_input(call), texts)
    if not named or os.path.realpath(Path(folder) / named) != os.path.realpath(path):
        return ()
    edits = given.get("edits")
    parts = (given, *(edits if isinstance(edits, list) else ()))
    keys = (*fields.WHOLE_TEXTS, *fields.NEW_PARTS)
    written = (one[key] for one in parts if isinstance(one, dict) for key in keys if isinstance(one.get(key), str))
    bullets = {core.normalize(bullet.text) for new in written for bullet in core.parse(new.encode()).bullets}
    return bullets.intersection(texts)


def _extract_input(call: str) -> str:
    """Return the command or patch in a call, without the lines that the patch removes or keeps."""
    text = "\n".join(strings_of(fields.shown_arguments(call))) or call
    if fields.PATCH in text:
        lines = _ESCAPED.sub("\n", text).splitlines()
        text = "\n".join(line.removeprefix("+") for line in lines if not line.startswith(("-", " ")))
    return text


def _holds(given: str, texts: Collection[str]) -> Iterator[str]:
    """Yield those of `texts` that `given` contains as whole words, ignoring quoting."""
    said = f" {_strip_escapes(_ESCAPED.sub(' ', given))} "
    for text in texts:
        plain = _strip_escapes(text)
        if plain and re.search(rf"(?<!\w){re.escape(plain)}(?!\w)", said):
            yield text


def _strip_escapes(text: str) -> str:
    return core.normalize(_SIGNS.sub("", text))
