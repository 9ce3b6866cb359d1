"""Whose a text in a memory file is: the agent's own, where a tool call of its says so, else a person's.

An agent edits the files by its own tools, and its transcript tells. Of `MEMORY.md` only a bullet is the agent's that a
call which names the file holds letter by letter, made since file and ledger last agreed. Daily files are appended to in
more ways, by shells too: there a text is the agent's that any call about memory holds since the day began.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from memoryd.database import turns
from memoryd.engine.scrubbing import strings_of
from memoryd.tiers import core
from memoryd.transcripts import fields

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sqlalchemy import Connection

    from memoryd.ledger.memory import Source

TOOL = "agent-tool"  # as the audit names it
NEWEST = 5000  # turns that are looked through; an edit is imported moments after it was made
_PATHS = ("file_path", "path", "filename", "target_file")
_TEXTS = ("content", "new_string", "new_str", "file_text", "insert_text")
_UNDONE = re.compile(r"^(?:The user doesn't want to|<tool_use_error>)", re.IGNORECASE)

_CALLS = (
    "SELECT t.session_id, t.seq, t.text, s.folder, (SELECT r.text FROM turn r WHERE r.session_id = t.session_id"
    " AND r.kind = 'tool_result' AND r.tool_call_id = t.tool_call_id LIMIT 1) FROM turn t"
    " JOIN session s ON s.id = t.session_id WHERE t.agent_id = ? AND t.kind = 'tool_call' AND t.origin = 'assistant'"
    " AND t.id > (SELECT max(id) FROM turn) - ? AND t.at >= ? AND t.text LIKE '%MEMORY.md%' ORDER BY t.id"
)

_ABOUT_MEMORY = (
    "SELECT text FROM turn WHERE agent_id = ? AND kind = 'tool_call' AND origin = 'assistant' AND at >= ?"
    " AND text LIKE '%memory%'"
)


def own_bullets(connection: Connection, agent_id: str, path: Path) -> dict[str, tuple[Source, ...]]:
    """Return the bullets, in normal form, that the agent's tools wrote since file and ledger agreed.

    Args:
        connection: of the transaction.
        agent_id: whose file it is.
        path: of the file.

    Returns:
        For each the sources that its tool call is.
    """
    since = connection.exec_driver_sql(
        "SELECT agreed_at FROM core_file WHERE agent_id = ?", (agent_id,)
    ).scalar_one_or_none()
    found: dict[str, tuple[Source, ...]] = {}
    if since is None:  # what was there before memoryd came is a person's
        return found
    for session_id, seq, text, folder, result in connection.exec_driver_sql(_CALLS, (agent_id, NEWEST, since)).all():
        if result is not None and _UNDONE.match(result):
            continue
        for new in _written(text, folder or str(path.parent), path):
            for bullet in core.bullets(core.parse(new.encode())):
                found[core.normal(bullet.text)] = turns.sources(connection, session_id, [seq])
    return found


def own_texts(connection: Connection, agent_id: str, since: str, texts: Collection[str]) -> set[str]:
    """Return those of some texts, in normal form, that a tool call of the agent's holds.

    Args:
        connection: of the transaction.
        agent_id: whose daily files they stand in.
        since: when the day began, UTC.
        texts: in normal form.
    """
    found: set[str] = set()
    for (call,) in connection.exec_driver_sql(_ABOUT_MEMORY, (agent_id, since)):
        said = core.normal("\n".join(strings_of(fields.shown_arguments(call))))
        found.update(text for text in texts if text in said)
    return found


def _written(text: str, folder: str, path: Path) -> Iterator[str]:
    """Yield the texts that a tool call writes to the file, as far as they are shown; none where it is about another."""
    given = fields.shown_arguments(text)
    named = next((given[key] for key in _PATHS if isinstance(given.get(key), str)), "")
    if not named or os.path.realpath(Path(folder) / named) != os.path.realpath(path):
        return
    edits = given.get("edits")
    for one in (given, *(edits if isinstance(edits, list) else ())):
        if isinstance(one, dict):
            yield from (one[key] for key in _TEXTS if isinstance(one.get(key), str))
