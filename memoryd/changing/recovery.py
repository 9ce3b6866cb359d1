"""Restore people's and jobs' data after damage, from the newest good copy of the database and the journal.

After each write transaction, its rows go into `journal.jsonl` before the caller continues: `{"of": DATABASE, "seq": N,
"rows": [[TABLE, KEY, ROW or null], …], "from": N}`. `seq` is the number of its last change. Changes up to `from` are
not in the journal, because every copy has them. A database can be behind its journal because it was restored or lost
its write-ahead log. Then it gets the rows of the newest copy, if that is newer, and of all later lines.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine

from memoryd.changing import restore
from memoryd.clock import Clock
from memoryd.config import Settings
from memoryd.counted import count_noun
from memoryd.database import alarms, backups, changes, erasure, query, schema, sqlite, texts, vault
from memoryd.database.changes import Image
from memoryd.database.schema import OpenedDatabase
from memoryd.errors import StateError, describe
from memoryd.files.journal import Entry, Journal
from memoryd.files.log import Log
from memoryd.ledger import forgetting
from memoryd.ledger.memory import Ending

ALARM = "damage"
UNKNOWN = "memoryd wrote here before, but its facts and history are gone: put the old state folder back if you have it"
ERASING = (forgetting.OPERATION, "scrub")  # the kinds of runs that erase text
_IDENTITY = "PRAGMA application_id"
# Returns the watermarks whose last change is a rollback, as (session, consumer, seq).
_TAKEN_BACK = (
    "SELECT w.session_id, w.consumer, coalesce(json_extract(c.text, '$.seq'), 0) FROM watermark w JOIN audit a"
    " ON a.id = (SELECT max(id) FROM audit WHERE memory_id = 'watermark:' || w.session_id || ':' || w.consumer)"
    " LEFT JOIN content c ON c.sha256 = a.\"after\" WHERE a.operation = 'rollback'"
    ' AND (a."after" IS NULL OR c.text IS NOT NULL)'
)
_LOWER = "UPDATE watermark SET seq = min(seq, ?) WHERE session_id = ? AND consumer = ?"


@dataclass(slots=True)
class Keeper:
    """Maintain the journal and the copies of one database, and repair the database from them."""

    state_dir: Path
    log: Log
    journal: Journal = field(init=False)
    found: list[str] = field(default_factory=list)  # damage that was found at the start; the next check reports it
    _seq: int = 0  # number of the last change that the journal has
    _is_behind: bool = False  # True: the database was lost or older than its journal at this start

    def __post_init__(self) -> None:
        self.journal = Journal(self.state_dir / restore.ACTS, sealed=True, is_entry=changes.is_change)

    def tell(self, engine: Engine) -> None:
        """Write committed changes to the journal; if the disk reports an error, they are written with the next ones."""
        if sqlite.read(engine, changes.last_seq) <= self._seq:
            return
        try:
            self.journal.append_after(lambda last: self._entry(engine, last))
        except OSError as error:
            self.log.warning("change not in the journal yet", why=describe(error))

    def _entry(self, engine: Engine, last: Entry | None) -> Entry | None:
        with sqlite.begin_read(engine) as connection:
            of, seq = query.fetch_number(connection, _IDENTITY), changes.last_seq(connection)
            is_ours = last is not None and last["of"] == of
            known = last["seq"] if last is not None and is_ours else changes.first_seq(connection) - 1
            images = changes.read_since(connection, known)
        self._seq = max(known, seq)
        return {"of": of, "seq": seq, "from": 0 if is_ours else known, "rows": images} if seq > known else None

    # --- after a loss ---------------------------------------------------------------------------------------------

    def catch_up(self, engine: Engine, opened: OpenedDatabase) -> "CaughtUp":
        """Apply to a newly opened database the changes that only the journal has; return what was restored."""
        entries, damaged = self.journal.entries(), self.journal.count_damaged()
        if opened.is_new and entries:
            schema.set_identity(engine, entries[-1]["of"])
        with sqlite.begin_read(engine) as connection:
            of, last = query.fetch_number(connection, _IDENTITY), changes.last_seq(connection)
        seq = 0 if opened.is_new else last
        lines = [one for one in entries if one["of"] == of]
        known, later = self._read_newer_copy(engine, of, seq)
        if seq and not lines and not damaged and backups.list_copies(self.state_dir):  # not a new journal
            lost = "what changed after the newest copy is lost" if later else "the database has its content"
            self.found.append(f"the journal was missing; {lost}")
        later += [one for one in lines if one["seq"] > known]
        left_out = _apply_later(engine, later) if later else ""
        is_lost = _was_lost(opened, has_journal=any((entries, damaged)))
        self._is_behind = is_lost or bool(later)
        return CaughtUp(later, known, damaged, left_out, is_lost, opened.restored)

    def _read_newer_copy(self, engine: Engine, of: int, seq: int) -> tuple[int, list[Entry]]:
        """Return the rows that differ in the newest good copy as a line of the journal, and the copy's last change.

        If no copy continues the history of the database after the change `seq`, return `seq` and no line.
        """
        for copy in backups.list_copies(self.state_dir):
            last = backups.read_seq(copy)
            if last <= seq or backups.why_bad(copy) is not None:
                continue
            with sqlite.begin_read(engine, copy) as connection:
                keys = changes.find_differing(connection, "good") if _is_alike(connection) else ()
                rows = [(table, key, changes.read_row(connection, table, key, "good.")) for table, key in keys]
            if rows and not _lacks_history(rows):
                return last, [{"of": of, "seq": last, "rows": rows}]
        return seq, []

    # --- in the background ----------------------------------------------------------------------------------------

    def keep(self, engine: Engine, settings: Settings, clock: Clock) -> None:
        """Check and copy the database once a local day, or at once if there is no copy or no journal.

        Keep the newest `retention.backups` copies, and the part of the journal that is newer than the oldest of these
        copies.
        """
        copies = backups.list_copies(self.state_dir)
        entries = self.journal.entries()
        today = clock.now().astimezone(settings.zone).date()
        is_well = bool(entries) and not self.found and not self.journal.count_damaged()
        if copies and is_well and backups.made_at(copies[0]).astimezone(settings.zone).date() == today:
            return
        found = self.found + self._inspect(engine)
        self.found = []
        watermarks = Journal(self.state_dir / restore.WATERMARKS, sealed=True)
        if damaged := watermarks.count_damaged():
            restore.renew(engine, watermarks)
            found.append(f"damaged in {restore.WATERMARKS}: {count_noun(damaged, 'line')}; the database has them")
        if not copies and any(one.get("from") for one in entries):
            found.append("all copies of the database were gone")
        for one in found:
            self.log.error("damage", what=one)
        sql = "SELECT text FROM alarm WHERE kind = ? AND cleared_at IS NULL AND since > ?"
        fresh = sqlite.read(engine, query.fetch_text, sql, ALARM, clock.text(ahead=timedelta(days=-1)))
        alarms.set_alarm(engine, ALARM, fresh, clock.text())  # end an old alarm, so that a new finding opens a new one
        told = filter(None, [fresh, *filter(lambda one: one not in str(fresh), found)])
        alarms.set_alarm(engine, ALARM, "; ".join(told) or None, clock.text())
        self._copy(engine, clock.now(), settings.retention.backups)

    def renew(self, engine: Engine, now: datetime) -> None:
        """Replace all copies by a new one, and shorten the journal, so that removed text is in neither of them."""
        self._copy(engine, now, 1)

    def _inspect(self, engine: Engine) -> list[str]:
        """Compare the database with its checksums, its newest good copy and the journal, and repair differences.

        Return descriptions of the damage for people, without content.
        """
        found = _mend_indexes(engine)
        self.tell(engine)
        bad = {one: why for one in backups.list_copies(self.state_dir) if (why := backups.why_bad(one)) is not None}
        found += [f"the copy {one.name} {why}, and was removed" for one, why in bad.items()]
        backups.remove(list(bad))
        good = next(iter(backups.list_copies(self.state_dir)), None)
        damaged = self.journal.count_damaged()
        if damaged and not self._is_behind:
            found.append(f"damaged in the journal: {count_noun(damaged, 'line')}; the database has their content")
        last: int | None = 0
        while last is not None:
            last = sqlite.write(engine, vault.seal_portion, last)
        # The first search reads everything, in a read transaction that blocks no writer. Each finding is checked again
        # before it is repaired.
        with sqlite.begin_read(engine, good) as connection:
            damaged_texts = vault.find_damaged(connection)
            is_same = good is not None and _is_alike(connection)
            keys = list(changes.find_differing(connection, "good")) if is_same and not damaged else []
        with sqlite.begin_write(engine, good) as connection:
            vault.mark_damaged(connection, damaged_texts)
            mended = vault.mend(connection, "good", damaged_texts) if is_same else 0
            found += self._mend_rows(connection, keys) if keys else []
        if damaged_texts:
            count = count_noun(len(damaged_texts), "turn")
            found.append(f"the text of {count} was damaged: {_list(damaged_texts)}; a copy had {mended}")
        return found

    def _mend_rows(self, connection: Connection, keys: Iterable[tuple[str, list[Any]]]) -> list[str]:
        """Restore wrong rows from the copy and the journal; return descriptions for people."""
        of = query.fetch_number(connection, _IDENTITY)
        base = query.fetch_number(connection, "SELECT max(seq) FROM good.changed_row")
        lines = [one for one in self.journal.entries() if one["of"] == of]
        images = changes.fit_tables(connection, changes.list_images(one for one in lines if one["seq"] > base))
        images += changes.read_since(connection, lines[-1]["seq"] if lines else 0)  # not in the journal yet
        known = {(table, json.dumps(key)): row for table, key, row in images}
        wrong: dict[str, list[Image]] = {}
        for table, key in keys:
            name = table, json.dumps(key)
            row = known[name] if name in known else changes.read_row(connection, table, key, "good.")
            here = changes.read_row(connection, table, key)
            if here != row and not changes.is_waiting(table, here):
                wrong.setdefault(table, []).append((table, key, row))
        if _lacks_history(wrong.get("audit", ())):
            return []
        for rows in wrong.values():
            changes.apply(connection, rows)
        return [
            f"{count_noun(len(rows), 'row')} of {table} differed from copy and journal, and were repaired: "
            + _list(key[-1] for _, key, _ in rows)
            for table, rows in wrong.items()
        ]

    def _copy(self, engine: Engine, now: datetime, most: int) -> None:
        self.tell(engine)
        backups.make(Path(str(engine.url.database)), now)
        copies = backups.list_copies(self.state_dir)
        backups.remove(copies[most:])
        base = min(map(backups.read_seq, copies[:most]))
        of = sqlite.read(engine, query.fetch_number, _IDENTITY)

        def shorten(entries: list[Entry]) -> list[Entry]:
            old = changes.list_images(one for one in entries if one["seq"] <= base and one["of"] == of)
            last = {(row[0], json.dumps(row[1])): row for row in old}
            first = {"of": of, "seq": base, "from": base, "rows": [row for row in last.values() if _is_erased(*row)]}
            return [first, *(one for one in entries if one["seq"] > base and one["of"] == of)]

        self.journal.rewrite(shorten)
        sqlite.write(engine, changes.drop_told, base)


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Hold what was restored from the journal, and what may be missing."""

    lines: list[Entry]
    seq: int  # number of the last change in the database before, or in the newer copy
    damaged: int  # number of damaged lines in the journal
    left_out: str  # for people: how many rows only a newer version can hold; empty if none
    is_lost: bool  # True: the database was damaged or missing
    copy: Path | None  # the copy that replaced it

    def __str__(self) -> str:
        """Return text for people about the sources from which the state was restored, and what is missing."""
        whence = "the transcripts" if self.copy is None else f"the copy {self.copy.name}"
        told = f"memoryd restored it from the journal and {whence}" if self.is_lost else ""
        lacks = ["later running summaries, and waiting runs"] if self.is_lost else []
        ids = {key[0] for table, key, _ in changes.list_images(self.lines) if table == "memory"}
        if ids and not self.is_lost:
            count = count_noun(len(ids), "memory", "memories")
            told = f"the database was older than its journal, as after a restore; later changes of {count} came back"
        if self.damaged:
            lacks.append(f"the content of {count_noun(self.damaged, 'damaged line')} of the journal")
        if self.left_out:
            lacks.append(self.left_out)
        if any(one.get("from", 0) > self.seq for one in self.lines) or not (self.copy or self.lines):
            lacks.append("memories, facts, flags, access and audit from before the journal begins")
        return f"{told}; not restored: {', '.join(lacks)}" if lacks else told


def list_erasing(lines: Iterable[Entry]) -> set[str]:
    """Return the kinds of text-erasing runs that these lines of the journal have."""
    rows = [row for table, _, row in changes.list_images(lines) if table == "job_run" and row is not None]
    return {row["kind"] for row in rows if row.get("kind") in ERASING}


def erase_again(engine: Engine, erasing: Collection[str]) -> None:
    """Erase texts again in a database that was restored from a copy older than their removal.

    If `erasing`, the kinds of runs that erased text since then, is not empty, everything derived from texts is erased
    too.
    """
    with sqlite.begin_write(engine) as connection:
        erasure.erase_known(connection)
        if erasing:
            query.run(connection, "UPDATE job_run SET reply = NULL, refused = NULL, claims = NULL")
            for table in ("session_summary", "verdict"):
                query.run(connection, f"DELETE FROM {table}")  # noqa: S608
    texts.rewrite_file(engine)


def _was_lost(opened: OpenedDatabase, *, has_journal: bool) -> bool:
    """Return True if the database was damaged or missing, which a new database beside an old journal shows."""
    return bool(opened.moved_aside or opened.restored or (opened.is_new and has_journal))


def _apply_later(engine: Engine, lines: Sequence[Entry]) -> str:
    """Apply lines of the journal; return text for people about rows that this version cannot store; empty if none."""
    with sqlite.begin_write(engine) as connection:
        images = changes.list_images(lines)
        left_out = changes.apply(connection, images)
        changes.add_missing_agents(connection)
        changes.set_last(connection, lines[-1]["seq"])
        for session_id, consumer, seq in query.fetch_rows(connection, _TAKEN_BACK):  # the session sleeps again
            query.run(connection, _LOWER, seq, session_id, consumer)
        # An intent in the copy can belong to a run that has ended since.
        ended = "SELECT id FROM job_run WHERE finished_at IS NOT NULL"
        query.run(connection, f"DELETE FROM intent WHERE run_id IN ({ended})")  # noqa: S608
    left_out += sum(len(one["rows"]) for one in lines) - len(images)
    return f"{count_noun(left_out, 'row')} that a newer version of memoryd wrote" if left_out else ""


def _is_erased(table: str, _key: list[Any], row: dict[str, Any] | None) -> bool:
    """Return True if a row must stay in the journal, because an older copy still has the erased text of the row."""
    if row is None:
        return table == "profile_section"
    return (
        (table == "content" and row.get("text", "") is None)
        or (table == "memory" and row.get("ended_as") == Ending.ERASED)
        or (table == "job_run" and row.get("kind") in ERASING)
    )


def _is_alike(connection: Connection) -> bool:
    """Return True if the attached copy is of this database, with the same schema."""
    asked = ("application_id", "user_version")
    here, there = (
        [query.fetch_number(connection, f"PRAGMA {side}.{one}") for one in asked] for side in ("main", "good")
    )
    return here == there


def _lacks_history(rows: Iterable[Image]) -> bool:
    """Return True if rows of a copy leave out entries of the audit. Then the copy was made after a loss of history."""
    return any(table == "audit" and row is None for table, _, row in rows)


def _mend_indexes(engine: Engine) -> list[str]:
    if sqlite.read(engine, query.fetch_column, "PRAGMA integrity_check") == ["ok"]:
        return []
    sqlite.write(engine, query.run, "REINDEX")
    left = sqlite.read(engine, query.fetch_column, "PRAGMA integrity_check")
    if left != ["ok"]:
        raise StateError("the database is damaged", str(engine.url.database), "restart memoryd, which restores it")
    return ["the indexes of the database were damaged and were rebuilt"]


def _list(ids: Iterable[Any], most: int = 10) -> str:
    given = list(map(str, ids))
    return ", ".join(given[:most]) + (f" and {len(given) - most} more" if len(given) > most else "")
