"""Read OpenClaw's SQLite database of one agent, since mid 2026: `agents/<agent>/agent/openclaw-agent.sqlite`.

Source: OpenClaw's schema of 2026.9. Each row of `transcript_events` holds one entry in pi's format, in the order of
`seq` within a session. Since 2026.9.6, large entries are compressed. `session_windows` gives the key of a session. A
subagent's key contains `subagent`, and `spawned_by` is the key of the session that started it.
"""

from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from memoryd.transcripts import whole
from memoryd.transcripts.fields import read_word
from memoryd.transcripts.format import UNKNOWN_PARENT, Identity
from memoryd.transcripts.lines import Record
from memoryd.transcripts.pi import OpenClaw

WINDOW = 500  # the most events of one reading
_PORTION = 4  # events of one query
_LARGEST = 16 << 20  # characters after which a reading starts no further query
_FIRST = 10
_EVENTS = OpenClaw()
_SUBAGENT = ":subagent:"


class OpenClawDatabase(whole.DatabaseFormat):
    """Read the database. Its events are read as in OpenClaw's files."""

    name = OpenClaw.name
    program = "OpenClaw"
    events = "transcript_events"
    tables = {"transcript_events": frozenset({"session_id", "seq", "event_json"})}  # noqa: RUF012 - a constant

    def identify(self, rows: whole.Rows, session_id: str) -> Identity:
        """Identify the session by its first events and by its row in `session_windows`, if there is one."""
        sql = f"SELECT {_text_of(rows)} FROM transcript_events WHERE session_id = ? ORDER BY seq LIMIT {_FIRST}"  # noqa: S608
        values = [whole.parse_object(data) for (data,) in rows(sql, session_id) if type(data) is str]
        own = read_word(session_id) or f"sha256:{sha256(session_id.encode('utf-8', 'replace')).hexdigest()}"
        found = _EVENTS.identify(values, PurePosixPath("session")) or Identity(own)
        parent, is_child = _find_parent(rows, session_id)
        sidechain = found.sidechain or is_child
        if sidechain:
            known = found.parent_session_id if found.parent_session_id != UNKNOWN_PARENT else None
            found = found._replace(parent_session_id=parent or known or UNKNOWN_PARENT)
        return found._replace(session_id=own, sidechain=sidechain)

    def mark_of(self, rows: whole.Rows, session_id: str, position: int) -> str | None:
        """Return the hash of an event, or None if there is no such event."""
        sql = f"SELECT {_text_of(rows)} FROM transcript_events WHERE rowid = ? AND session_id = ?"  # noqa: S608
        found = rows(sql, position, session_id)
        return _hash(found[0][0]) if found else None

    def read(self, rows: whole.Rows, identity: Identity, start: whole.StretchStart) -> whole.SessionStretch:
        """Return the next events. The earlier ones are read again to know which of them are on an abandoned branch."""
        records = whole.SessionRecords(identity)
        columns = f"SELECT rowid, seq, {_text_of(rows)} FROM transcript_events"  # noqa: S608 - of this program
        span = "WHERE session_id = ? AND rowid > ? AND rowid <= ? ORDER BY rowid LIMIT ?"
        counted = start.counted
        while counted < start.position:
            before, _ = _read_window(rows, f"{columns} {span}", start.session_id, counted, start.position)
            if not before:
                break
            for record in _in_order(before):
                _EVENTS.turns(record, identity, start.meetings)
            counted = before[-1][0]
        window, more = _read_window(rows, f"{columns} {span}", start.session_id, start.position, _LAST)
        for record in _in_order(window):
            turns, skipped, retracted, resumed, _ = _EVENTS.turns(record, identity, start.meetings)
            records.add(turns, record)
            if skipped:
                records.skipped[skipped] += 1
            records.live |= dict.fromkeys(retracted, False) | dict.fromkeys(resumed, True)
        position, mark = (window[-1][0], _hash(window[-1][2])) if window else (start.position, "")
        return whole.SessionStretch(records, frozenset(), position, mark, more)


_LAST = 2**63 - 1


def _text_of(rows: whole.Rows) -> str:
    """Return the SQL expression for an event's text: NULL if it is longer than 8 MiB."""
    packed = rows("SELECT 1 FROM pragma_table_info('transcript_events') WHERE name = 'event_zstd'")
    text = f"coalesce(event_json, {whole.UNPACK}(event_zstd))" if packed else "event_json"
    return f"CASE WHEN length({text}) <= 8388608 THEN {text} END"


def _read_window(
    rows: whole.Rows, sql: str, session_id: str, after: int, last: int
) -> tuple[list[tuple[Any, ...]], bool]:
    """Return the next events, and whether more may follow.

    A few compressed bytes may become megabytes, so the size of the text is limited.
    """
    window: list[tuple[Any, ...]] = []
    size = 0
    while len(window) < WINDOW and size < _LARGEST:
        found = rows(sql, session_id, after, last, _PORTION)
        window += found
        if len(found) < _PORTION:
            return window, False
        after = found[-1][0]
        size += sum(len(data) for _, _, data in found if type(data) is str)
    return window, True


def _in_order(window: list[tuple[Any, ...]]) -> list[Record]:
    """Return the records of some rows, in the order of the session."""
    order = sorted(window, key=lambda row: row[1] if type(row[1]) is int else 0)
    texts = (data if type(data) is str else "" for _, _, data in order)
    return [Record(whole.parse_object(text), 0, 0, text.encode("utf-8", "replace")) for text in texts]


def _find_parent(rows: whole.Rows, session_id: str) -> tuple[str | None, bool]:
    """Return the session that started this one (None if unknown), and whether this is a subagent's session."""
    columns = {name for (name,) in rows("SELECT name FROM pragma_table_info('session_windows')")}
    if not {"session_id", "session_key"} <= columns:
        return None, False
    spawned = "spawned_by" if "spawned_by" in columns else "NULL"
    sql = f"SELECT session_key, {spawned} FROM session_windows WHERE session_id = ?"  # noqa: S608
    key, by = next(iter(rows(sql, session_id)), (None, None))
    is_child = (type(key) is str and _SUBAGENT in key) or type(by) is str
    nodes = {name for (name,) in rows("SELECT name FROM pragma_table_info('session_nodes')")}
    if not is_child or type(by) is not str or not {"session_key", "current_session_id"} <= nodes:
        return None, is_child
    found = rows("SELECT current_session_id FROM session_nodes WHERE session_key = ?", by)
    return (read_word(found[0][0]) if found else None), True


def _hash(data: object) -> str:
    return sha256(data.encode("utf-8", "replace") if type(data) is str else b"").hexdigest()
