"""Store the profile of an agent's user, in the caller's transaction; each change is audited as `profile:SECTION`."""

from collections.abc import Callable, Iterable, Mapping

from sqlalchemy import Connection

from memoryd.database import audit, query
from memoryd.ledger import audit as chain
from memoryd.ledger.facts import ProfileEntry, ProfileSection
from memoryd.ledger.memory import Source, draw_salt, sources_from_json, sources_to_json

COLUMNS = ("section", "text", "updated_at", "sources", "run_id", "salt")
_WRITE = query.make_upsert("profile_section", ("agent_id", *COLUMNS), "agent_id", "section")


def read(connection: Connection, agent_id: str) -> dict[ProfileSection, ProfileEntry]:
    """Return the sections that have a row, in the order of display."""
    sql = "SELECT section, text, updated_at FROM profile_section WHERE agent_id = ?"
    held = {row[0]: ProfileEntry(row[1], row[2]) for row in query.fetch_rows(connection, sql, agent_id)}
    return {section: held[section.value] for section in ProfileSection if section.value in held}


def write(
    connection: Connection, stamp: chain.AuditStamp, section: ProfileSection, entry: ProfileEntry | None,
    sources: Iterable[Source], new_hex: Callable[[], str],
) -> None:  # fmt: skip
    """Write a section of the profile with a new salt, and audit it. If `entry` is None, delete the section."""
    row = None if entry is None else build_values(section, entry, sources, new_hex, stamp.run_id)
    put(connection, stamp.agent_id, section, row)
    state = None if row is None else chain.dump_state(**row)
    audit.note(connection, [("profile", chain.PROFILE + section, state)], stamp)


def build_values(
    section: ProfileSection, entry: ProfileEntry, sources: Iterable[Source], new_hex: Callable[[], str],
    run_id: str | None = None,
) -> dict[str, str | int | None]:  # fmt: skip
    """Return the values of a section's row, with a new salt."""
    return {
        "section": section.value,
        "text": entry.text,
        "updated_at": entry.updated_at,
        "sources": sources_to_json(sources),
        "run_id": run_id,
        "salt": draw_salt(new_hex),
    }


def read_sources(connection: Connection, agent_id: str, section: ProfileSection) -> tuple[Source, ...]:
    """Return the sources of a section's text; empty if the section has no row."""
    sql = "SELECT sources FROM profile_section WHERE agent_id = ? AND section = ?"
    found = query.fetch_text(connection, sql, agent_id, section.value)
    return () if found is None else sources_from_json(found)


def put(connection: Connection, agent_id: str, section: str, row: Mapping[str, str | int | None] | None) -> None:
    """Set the row of a section to an audited state; None deletes the row."""
    if row is None:
        query.run(connection, "DELETE FROM profile_section WHERE agent_id = ? AND section = ?", agent_id, section)
    else:
        query.run(connection, _WRITE, agent_id, *(row[name] for name in COLUMNS))
