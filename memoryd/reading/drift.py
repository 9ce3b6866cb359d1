"""Find agents whose newest transcripts memoryd no longer understands after an update of their program.

A transcript with unknown record types, without token usage, or with another schema is still read as far as possible.
The alarm ends when newer transcripts are understood, for example after an update of memoryd. Skipped records are
counted by name, so this check reads no transcript.
"""

import json
from collections.abc import Sequence

from sqlalchemy import Engine

from memoryd.clock import Clock
from memoryd.config import Settings
from memoryd.database import alarms, query, sqlite
from memoryd.files.log import Log
from memoryd.transcripts.format import DRIFTED, Reader
from memoryd.transcripts.registry import FORMATS, WHOLE

KIND = "drift"
MOST_UNKNOWN = 0.2  # share of a transcript's records
LEAST = 10  # records or turns; fewer do not show that a format has changed
NEWEST = 5  # transcripts of each format; older ones may be from an older version
NAMED = 5  # types that are listed by name
_READERS: dict[str, Reader] = {**WHOLE, **FORMATS}
NOT_KNOWN = "its format, session or folder is not known yet"  # the note of a transcript that is not read

_NEWEST = (
    "SELECT * FROM (SELECT t.*, s.turns, s.gauge, row_number() OVER (PARTITION BY t.format, t.note ORDER BY"
    " t.mtime_ns DESC) AS place FROM transcript t LEFT JOIN session s ON s.id = t.session_id AND s.parent_id IS NULL"
    " WHERE t.agent_id = ? AND t.fate <> 'deleted') WHERE place <= ? ORDER BY mtime_ns DESC"
)


def review(engine: Engine, settings: Settings, clock: Clock, log: Log) -> None:
    """Raise an alarm for each agent and format that has changed; clear it if the newest transcripts are understood."""
    for agent in settings.agents:
        rows = sqlite.read(engine, query.fetch_mappings, _NEWEST, agent.id, NEWEST)
        found = {
            name: _describe(reader, [row for row in rows if row["format"] == name]) for name, reader in _READERS.items()
        }
        is_open = {one[1:4] for one in sqlite.read(engine, alarms.list_open)}
        for subject, text in {**found, "": _describe_unread(rows)}.items():
            about = KIND, agent.id, subject
            if (text or about in is_open) and alarms.set_alarm(engine, KIND, text, clock.text(), agent.id, subject):
                log.error("alarm", kind=KIND, agent=agent.id, subject=subject, text=text)


def _describe(reader: Reader, rows: Sequence[query.Row]) -> str | None:
    """Return what is not understood in the newest transcripts of a format, as text for people.

    It is None if everything is understood.
    """
    for row in rows:
        skipped = json.loads(row["skipped"])
        unknown = {name: count for name, count in skipped.items() if not reader.is_known(name)}
        count, records = sum(unknown.values()), row["records"]
        # Earlier versions of memoryd did not count the records that they read.
        if records >= max(LEAST, sum(skipped.values())) and count > MOST_UNKNOWN * records:
            named = sorted(unknown, key=lambda name: (-unknown[name], name))
            told = ", ".join(f"{name} {unknown[name]}" for name in named[:NAMED])
            more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
            return f"{_name(reader, row)}: {count} of {records} records are of unknown types and skipped: {told}{more}"
    main = next((row for row in rows if (row["turns"] or 0) >= LEAST), None)
    # Usage is expected only from one program's own format, and from versions that write a version number.
    if main is None or reader.program is None or not main["version"] or json.loads(main["gauge"]).get("usages"):
        return None
    return f"{_name(reader, main)}: no token usage is found in {main['turns']} turns, so the context usage is estimated"


def _describe_unread(rows: Sequence[query.Row]) -> str | None:
    """Return why the newest transcripts are not read, as text for people; None if all are read."""
    for row in rows:
        if DRIFTED in (row["note"] or ""):
            return f"{row['path']} is skipped: {row['note']}"
    known = next((row for row in rows if row["format"] is not None), None)
    lost = [
        row for row in rows if row["note"] == NOT_KNOWN and known is not None and row["mtime_ns"] > known["mtime_ns"]
    ]
    if known is None or len(lost) < NEWEST:
        return None
    last = _name(_READERS[known["format"]], known) if known["format"] in _READERS else known["format"]
    return f"the {len(lost)} newest transcripts are skipped, in no known format; what was read before is of {last}"


def _name(reader: Reader, row: query.Row) -> str:
    return f"{reader.program or reader.name} {row['version'] or 'of an unknown version'}"
