"""Restore people's and jobs' data after damage, from the newest good copy of the database and the journal.

After each write transaction, its rows go into `journal.jsonl` before the caller continues: `{"of": DATABASE, "seq": N,
"rows": [[TABLE, KEY, ROW or null], …], "from": N}`. `seq` is the number of its last change. Changes up to `from` are
not in the journal, because every copy has them. A database can be behind its journal because it was restored or lost
its write-ahead log. Then it gets the rows of the newest copy, if that is newer, and of all later lines.

Copies and lines can have another history than the database: it was restored from a backup after a loss or from another
machine. Then nothing of them is applied, and the database gets a new identity, so that none of them is used later.
"""

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from memoryd.changing import restore
from memoryd.clock import Clock
from memoryd.config import Settings
from memoryd.counted import count_noun
from memoryd.database import alarms, backups, changes, erasure, memories, query, schema, sqlite, texts, vault
from memoryd.database.changes import Image
from memoryd.database.erasure import Forgotten
from memoryd.database.parts import DAMAGED, find_fault, find_missing, list_lost
from memoryd.database.schema import OpenedDatabase
from memoryd.errors import StateError, describe
from memoryd.files.journal import Entry, Journal
from memoryd.files.log import Log
from memoryd.ledger import forgetting
from memoryd.ledger.memory import Ending

ALARM, UNINSPECTED = alarms.DAMAGE, "inspection"
UNKNOWN = "memoryd wrote here before, but its facts and history are gone: put the old state folder back if you have it"
ERASING = (forgetting.OPERATION, "scrub")  # the kinds of runs that erase text
PARTED = "the old state has another history than the backup, so it is not merged; check that what you forgot is gone"
Erasing = Mapping[str, list[str]]  # the kinds of runs that erased text → memories that only another history forgot
_Prepare = Callable[[Connection, Erasing], None]
_IDENTITY = "PRAGMA application_id"
_MOST_LISTED = 10
# An entry of the audit with the same number but another hash and another time belongs to another history. Damage
# changes only one of them. With a second value of True, so does an entry with an unknown number.
_CONFLICTING = (
    "SELECT j.key FROM json_each(?) j LEFT JOIN audit a ON a.id = json_extract(j.value, '$.id') WHERE"
    " coalesce(a.hash <> json_extract(j.value, '$.hash') AND a.at <> json_extract(j.value, '$.at'), ?)"
)
# Returns the last entries of each agent in the older database that the newer one does not have.
_MISSING = (
    "SELECT a.id FROM {0}.audit a WHERE a.id IN (SELECT max(id) FROM {0}.audit GROUP BY agent_id) AND NOT EXISTS"
    " (SELECT 1 FROM {1}.audit b WHERE b.id = a.id AND (b.hash = a.hash OR b.at = a.at))"
)
# Returns the watermarks whose last change is a rollback, as (session, consumer, seq).
_TAKEN_BACK = (
    "SELECT w.session_id, w.consumer, coalesce(json_extract(c.text, '$.seq'), 0) FROM watermark w"
    " JOIN session s ON s.id = w.session_id JOIN audit a ON a.id = (SELECT max(id) FROM audit"
    " WHERE agent_id = s.agent_id AND memory_id = 'watermark:' || w.session_id || ':' || w.consumer)"
    " LEFT JOIN content c ON c.sha256 = a.\"after\" WHERE a.operation = 'rollback'"
    ' AND (a."after" IS NULL OR c.text IS NOT NULL)'
)
_UNMARKED = "SELECT DISTINCT agent_id FROM turn WHERE withheld IS NULL AND id IN (SELECT value FROM json_each(?))"
_LOWER = "UPDATE watermark SET seq = min(seq, ?) WHERE session_id = ? AND consumer = ?"


@dataclass(slots=True)
class Keeper:
    """Maintain the journal and the copies of one database, and repair the database from them."""

    state_dir: Path
    log: Log
    journal: Journal = field(init=False)
    found: list[str] = field(default_factory=list)  # damage that is not in an alarm yet
    is_asked: bool = False  # True: the next call of `keep` compares everything, also if today's copy is there
    erase_index: Callable[[str], None] = lambda _agent_id: None  # for an agent; it is rebuilt
    _seq: int = 0  # number of the last change that the journal has
    _is_behind: bool = False  # True: the database was lost or older than its journal at this start, or is a backup

    def __post_init__(self) -> None:
        self.journal = Journal(self.state_dir / restore.ACTS, sealed=True, is_entry=changes.is_change)

    def tell(self, engine: Engine) -> None:
        """Write committed changes to the journal; if that fails, they are written with the next ones."""
        try:
            if sqlite.read(engine, changes.last_seq) > self._seq:
                self.journal.append_after(lambda last: self._entry(engine, last))
        except (OSError, OperationalError) as error:
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

    def catch_up(self, engine: Engine, opened: OpenedDatabase, prepare: _Prepare) -> "CaughtUp":
        """Apply to a newly opened database the changes that only the journal has; return what was restored.

        Then erase again what was erased in the meantime. `prepare` is called in the same transaction.
        """
        entries, damaged = self.journal.read()
        if opened.is_new and entries:
            sqlite.write(engine, schema.set_identity, entries[-1]["of"])
        told = restore.forgotten_in(Journal(self.state_dir / restore.WATERMARKS, sealed=True).entries())
        is_old = sqlite.read(engine, erasure.lacks, told)  # texts were forgotten since, even if no line says so
        # A new database beside an old journal shows that the old one is missing.
        is_lost = bool(opened.moved_aside or opened.restored or (opened.is_new and (entries or damaged)))
        self._is_behind = is_lost or Path(str(engine.url.database)).parent != self.state_dir
        lines, known, later = self._find_later(engine, entries, damaged, is_old=is_old)
        self.found += [PARTED] if later is None else []
        erasing = _find_erasing(later, lines, is_unknown=is_old and not opened.is_new)
        left_out = self._store(engine, later, told, erasing, prepare) if later != [] or is_old else ""
        # The file is rewritten after texts were erased. If that fails or is stopped, the next start does it.
        if sqlite.read(engine, query.fetch_column, "SELECT seq FROM changed_row WHERE name = '' AND pk <> '[]'"):
            texts.rewrite_file(engine)
            sqlite.write(engine, query.run, "UPDATE changed_row SET pk = '[]' WHERE name = ''")
        self._is_behind |= bool(later)
        return CaughtUp(later or [], known, damaged * self._is_behind, left_out, is_lost, opened.restored)

    def _find_later(
        self, engine: Engine, entries: list[Entry], damaged: int, *, is_old: bool
    ) -> tuple[list[Entry], int, list[Entry] | None]:
        """Return the lines of this database, the number of its last change or of a newer copy's, and the later lines.

        The later lines are None if the database has another history than the copies or the journal. The lines of a
        backup are those of the database that it replaces. `is_old` is True if the database does not know all texts that
        were forgotten.
        """
        with sqlite.begin_read(engine) as connection:
            of, seq = query.fetch_number(connection, _IDENTITY), changes.last_seq(connection)
            lines = [one for one in entries if one["of"] == of]
            shown = lines or entries * self._is_behind
            is_parted = self._is_parted(connection, lines, shown)
        is_sure = not damaged and [(one["seq"], one.get("from", 0)) for one in lines[-1:]] == [(seq, 0)]
        known, later = (seq, None) if is_parted else self._read_newer_copy(engine, of, seq, is_sure=is_sure)
        if later is None:
            return shown, known, None
        if seq and not len(entries) + damaged and (is_old or backups.list_copies(self.state_dir)):
            is_poorer = any((later, is_old, self._is_behind))
            lost = "what changed after the newest copy is lost" if is_poorer else "the database has its content"
            self.found.append(f"the journal was missing; {lost}")
        return lines, known, later + [one for one in lines if one["seq"] > known]

    def _is_parted(self, connection: Connection, lines: list[Entry], shown: list[Entry]) -> bool:
        """Return True if the journal shows another history; `shown` are its lines if none is of this database."""
        is_conflicting = query.has_row(connection, _CONFLICTING, json.dumps(_list_rows(shown, "audit")), not lines)
        return is_conflicting or bool(shown and not lines and not backups.list_copies(self.state_dir))

    def _read_newer_copy(self, engine: Engine, of: int, seq: int, *, is_sure: bool) -> tuple[int, list[Entry] | None]:
        """Return the last change of the newest good copy, and the rows that differ in it as a line of the journal.

        If no copy is newer than the change `seq` of the database, return `seq` and no line. If the copy has another
        history than the database, return None for the lines. With `is_sure`, only newer copies are read.
        The database that a backup replaces may be newer than a loss. Then the newest copy has another identity.
        """
        is_newest = True
        for copy in backups.list_copies(self.state_dir):
            last = backups.read_seq(copy)
            if (is_sure and last <= seq) or backups.why_bad(copy) is not None:
                continue
            with sqlite.begin_read(engine, copy) as connection:
                identity = query.fetch_number(connection, "PRAGMA good.application_id")
                is_foreign, is_newest = all((is_newest, self._is_behind, identity != of)), False
                if is_foreign and query.has_row(connection, _MISSING.format("good", "main")):
                    return seq, None
                if not _is_alike(connection):
                    continue
                if query.fetch_column(connection, _MISSING.format(*sorted(("main", "good"), reverse=last > seq))):
                    return seq, None
                keys = list(changes.find_differing(connection)) if last > seq else []
                rows = [(table, key, changes.read_row(connection, table, key, "good.")) for table, key in keys]
            if last <= seq or not _lacks_history(rows):
                return max(last, seq), [{"of": of, "seq": last, "rows": rows}] if last > seq else []
        return seq, []

    def _store(
        self, engine: Engine, later: list[Entry] | None, told: Forgotten, erasing: Erasing, prepare: _Prepare
    ) -> str:
        """Apply later lines, and erase texts again that were removed after the database was copied.

        If runs erased text since then, everything derived from texts is erased too. Without lines (None), the database
        has another history than the journal. Return text for people about what was left out.
        """
        with sqlite.begin_write(engine) as connection:
            query.run(connection, "PRAGMA defer_foreign_keys = ON")
            begin = changes.last_seq(connection)
            left_out = _apply_later(connection, later) if later else ""
            if later and (any(one.get("from", 0) > begin for one in later) or self.journal.count_damaged()):
                query.run(connection, "DELETE FROM core_file")  # memories are missing, so `MEMORY.md` is imported again
            if later is None:
                schema.set_identity(connection, secrets.randbits(30) + 1)
            erasure.copy_forgotten(connection, told)
            erasure.erase_known(connection)
            if erasing:
                query.run(connection, "UPDATE job_run SET reply = NULL, refused = NULL, claims = NULL")
                for table in ("session_summary", "verdict"):
                    query.run(connection, f"DELETE FROM {table}")  # noqa: S608
            prepare(connection, erasing)
            changes.add_missing_agents(connection)
            query.run(connection, "INSERT INTO changed_row (name, pk) VALUES ('', '[\"rewrite\"]')")
        return left_out

    # --- in the background ----------------------------------------------------------------------------------------

    def keep(self, engine: Engine, settings: Settings, clock: Clock) -> None:
        """Check and copy the database once a local day, or at once if there is no copy or no journal.

        If asked, also check it at once, and copy it if it was damaged.
        Keep the newest `retention.backups` copies, and the part of the journal that is newer than the oldest of these
        copies.
        """
        # If a part is lost, other reads fail. The inspection says what to do.
        if sqlite.read(engine, lambda connection: list_lost(connection.exec_driver_sql)):
            self._try(engine, clock.text(), self.inspect)
            return
        copies = backups.list_copies(self.state_dir)
        entries, damaged = self.journal.read()
        today = clock.now().astimezone(settings.zone).date()
        sql = "SELECT text FROM alarm WHERE kind = ? AND cleared_at IS NULL AND since > ?"
        fresh = sqlite.read(engine, query.fetch_text, sql, ALARM, clock.text(ahead=timedelta(days=-1)))
        self._find_unreadable(engine, str(fresh))
        is_copied = any(backups.is_of_day(one, today, settings.zone) for one in copies)
        is_well = is_copied and bool(entries) and not self.found and not damaged
        if is_well and not self.is_asked:
            return
        self.is_asked = False  # before the inspection, so that a request meanwhile is not lost
        is_done = all(self._try(engine, clock.text(), one) for one in (self.inspect, self._inspect_journals))
        if not self.found and (is_well or not is_done):
            return
        are_gone = not copies and any(one.get("from") for one in entries)
        self.found += ["all copies of the database were gone"] * are_gone
        self._tell_found(engine, fresh, clock.text())
        if is_done:
            self.copy(engine, clock.now(), settings.retention.backups)

    def _find_unreadable(self, engine: Engine, known: str) -> None:
        """Add the damaged memories to what was found, unless the text `known` names them."""
        if bad := sqlite.read(engine, memories.list_damaged):
            what = f"{count_noun(len(bad), 'memory', 'memories')} could not be read: {_list(bad)}"
            self.found += [what] * (what not in self.found and what not in known)

    def _tell_found(self, engine: Engine, fresh: str | None, now: str) -> None:
        """Log what was found, and add it to the alarm `fresh` of the last day."""
        for one in self.found:
            self.log.error("damage", what=one)
        alarms.set_alarm(engine, ALARM, fresh, now)  # end an old alarm, so that a new finding opens a new one
        told = filter(None, [fresh, *filter(lambda one: one not in str(fresh), self.found)])
        alarms.set_alarm(engine, ALARM, "; ".join(told) or None, now)
        self.found.clear()

    def _try(self, engine: Engine, now: str, inspect: Callable[[Engine, str], list[str]]) -> bool:
        """Add the findings of an inspection, and return True if it did not fail.

        A failure is logged and raises an alarm, and another inspection is asked for. So work goes on.
        """
        text = None
        try:
            self.found += inspect(engine, now)
        except Exception as error:  # noqa: BLE001 - the alarm names it
            self.is_asked = True
            text = f"the comparison of the database with its copies failed and is tried again: {describe(error)}"
            self.log.error("inspection failed", why=text)  # noqa: TRY400 - the cause is outside
        alarms.set_alarm(engine, UNINSPECTED, text, now)
        return text is None

    def compare(self, engine: Engine, now: str) -> None:
        """Check the journaled rows and their indexes, and call `inspect` if they are damaged.

        Call this before the first write, because a write copies a damaged row into the journal. The texts of turns can
        wait for a full inspection, because their checksums still show damage later.
        """
        self._try(engine, now, lambda engine, now: [] if self._is_sound(engine) else self.inspect(engine, now))

    def _is_sound(self, engine: Engine) -> bool:
        """Return False if the journaled rows or their indexes are damaged, or if the newest copy cannot be read."""
        try:
            with sqlite.begin_read(engine, next(iter(backups.list_copies(self.state_dir)), None)) as connection:
                checks = (f'PRAGMA integrity_check("{table}")' for table in changes.JOURNALED)
                is_sound = all(query.fetch_column(connection, check) == ["ok"] for check in checks)
                return is_sound and not self._is_wrong(connection)
        except Exception as error:  # noqa: BLE001 - the inspection that follows finds out why, and tells people
            self.log.info("the quick comparison failed, so a full inspection follows", why=describe(error))
            return False

    def _is_wrong(self, connection: Connection) -> bool:
        kinds = {kind for kind, _ in find_missing(connection.exec_driver_sql)}
        return "trigger" in kinds or bool(self._find_wrong(connection))

    def _inspect_journals(self, engine: Engine, _now: str) -> list[str]:
        """Renew the journal of watermarks if it was damaged; return descriptions of damaged lines, for people."""
        found = []
        if not self._is_behind and (damaged := self.journal.count_damaged()):
            found.append(f"damaged in the journal: {count_noun(damaged, 'line')}; an up-to-date database has them")
        watermarks = Journal(self.state_dir / restore.WATERMARKS, sealed=True)
        if damaged := watermarks.count_damaged():
            restore.renew(engine, watermarks)
            found.append(f"damaged in {restore.WATERMARKS}: {count_noun(damaged, 'line')}; the database has them")
        return found

    def inspect(self, engine: Engine, now: str) -> list[str]:
        """Compare the database with its checksums, its newest good copy and the journal, and repair differences.

        Return descriptions of the damage for people, without content.
        """
        found = _mend_indexes(engine) + schema.mend(engine, now)
        self.tell(engine)
        bad = {one: why for one in backups.list_copies(self.state_dir) if (why := backups.why_bad(one)) is not None}
        for one, why in bad.items():
            is_spoilt = DAMAGED in why  # otherwise it only lacks a part, and may be the last that has facts
            found.append(f"the copy {one.name} was {'removed' if is_spoilt else 'kept'}: {why}")
            backups.remove([one] * is_spoilt)
        good = next((one for one in backups.list_copies(self.state_dir) if one not in bad), None)
        last: int | None = 0
        while last is not None:
            last = sqlite.write(engine, vault.seal_portion, last)
        # The first search reads everything, in a read transaction that blocks no writer. Each finding is checked again
        # before it is repaired.
        with sqlite.begin_read(engine, good) as connection:
            damaged_texts = vault.find_damaged(connection)
            # Searches may have found the damaged texts, and removed them from the index.
            stale = query.fetch_column(connection, _UNMARKED, damaged_texts)
            is_wrong = self._is_wrong(connection)
        for agent_id in stale:  # before the repair too: after it, nothing would show that the index lacks a text
            self.erase_index(agent_id)
        with sqlite.begin_write(engine, good) as connection:
            vault.mark_damaged(connection, damaged_texts)
            mended = vault.mend(connection, "good", damaged_texts) if _is_alike(connection) else 0
            if is_wrong:
                found += _fix_rows(connection, self._find_wrong(connection), "; ".join(self.found + found))
                if found:
                    alarms.raise_alarm(connection, kind=ALARM, text="; ".join(found), now=now)
        for agent_id in stale:
            self.erase_index(agent_id)
        if damaged_texts:
            count = count_noun(len(damaged_texts), "turn")
            found.append(f"the text of {count} was damaged: {_list(damaged_texts)}; a copy had {mended}")
        return found

    def _find_wrong(self, connection: Connection) -> list[tuple[Image, bool]]:
        """Return the right images of wrong rows, according to the journal and the attached copy, if any.

        The second value of each is False if a damaged line of the journal may have a newer image. Without a copy or
        with damaged lines, the result is empty if the database has no record of some changes since the copy, or since
        the journal begins.
        """
        entries, damaged = self.journal.read()
        of = query.fetch_number(connection, _IDENTITY)
        lines = [one for one in entries if one["of"] == of]
        base = lines[0].get("from", 0) if lines else -1
        if is_alike := _is_alike(connection):
            base = query.fetch_number(connection, "SELECT max(seq) FROM good.changed_row")
        if (damaged or not is_alike) and changes.first_seq(connection) > base + 1:
            return []
        lines = [one for one in lines if one["seq"] > base]
        # Damage may have put a row that the journal changed back to its state in the copy.
        right = _read_right(connection, base, lines, is_alike=is_alike)
        unsure = changes.list_untold(connection, base, lines) if damaged else set()
        wrong: list[tuple[Image, bool]] = []
        for (table, text), row in right.items():
            key = json.loads(text)
            if changes.is_wrong(table, changes.read_row(connection, table, key), row):
                wrong.append(((table, key, row), (table, text) not in unsure))
        return wrong

    def copy(self, engine: Engine, now: datetime, most: int = 1) -> None:
        """Copy a sound database, keep the newest `most` copies, and shorten the journal to what is newer than them.

        With one copy, removed text is in neither of them.
        """
        backups.make(Path(str(engine.url.database)), now)
        self.tell(engine)
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
    damaged: int  # number of damaged lines in the journal, if the database may lack them
    left_out: str  # for people: how many rows only a newer version can hold; empty if none
    is_lost: bool  # True: the database was damaged or missing
    copy: Path | None  # the copy that replaced it

    def __str__(self) -> str:
        """Return text for people about the sources from which the state was restored, and what is missing."""
        whence = "the transcripts" if self.copy is None else f"the copy {self.copy.name}"
        told = f"memoryd restored it from the journal and {whence}" if self.is_lost else ""
        ids = {key[0] for table, key, _ in changes.list_images(self.lines) if table == "memory"}
        if ids and not self.is_lost:
            count = count_noun(len(ids), "memory", "memories")
            told = f"the database was older than its journal, as after a restore; later changes of {count} came back"
        missing = f"not restored: {', '.join(lacks)}" if (lacks := self.list_lacking()) else ""
        return "; ".join(filter(None, (told, missing)))

    def list_lacking(self) -> list[str]:
        """Return what may be missing, for people."""
        lacks = ["later running summaries, and waiting runs"] if self.is_lost else []
        damaged = f"the content of {count_noun(self.damaged, 'damaged line')} of the journal" if self.damaged else ""
        lacks += filter(None, [damaged, self.left_out])
        if any(one.get("from", 0) > self.seq for one in self.lines) or (self.is_lost and not (self.copy or self.lines)):
            lacks.append("memories, facts, flags, access and audit from before the journal begins")
        return lacks


def _find_erasing(later: list[Entry] | None, lines: list[Entry], *, is_unknown: bool) -> Erasing:
    """Return which kinds of runs erased text since; all kinds if it is only known that some did.

    Without later lines (None), all lines are of another history, which may have forgotten more memories.
    """
    parted = lines if later is None else []
    kinds = {str(one.get("kind")) for one in _list_rows(later or parted, "job_run")}.intersection(ERASING)
    erased = [one["id"] for one in _list_rows(parted, "memory") if one.get("ended_as") == Ending.ERASED]
    return dict.fromkeys(kinds or (ERASING if is_unknown else ()), erased)


def _list_rows(lines: Iterable[Entry], table: str) -> list[dict[str, Any]]:
    return [row for name, _, row in changes.list_images(lines) if name == table and row is not None]


def _apply_later(connection: Connection, lines: Sequence[Entry]) -> str:
    """Apply lines of the journal; return text for people about rows that this version cannot store; empty if none."""
    images = changes.list_images(lines)
    left_out = changes.apply(connection, images)
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


def _read_right(
    connection: Connection, base: int, lines: list[Entry], *, is_alike: bool
) -> dict[tuple[str, str], dict[str, Any] | None]:
    """Return the rows that changed after `base` or differ from the attached copy, by table and JSON of the key."""
    images = changes.fit_tables(connection, changes.list_images(lines))
    images += changes.read_since(connection, lines[-1]["seq"] if lines else base)  # not in the journal yet
    right = {(table, json.dumps(key)): row for table, key, row in images}
    for table, key in changes.find_differing(connection) if is_alike else ():
        right.setdefault((table, json.dumps(key)), changes.read_row(connection, table, key, "good."))
    return right


def _fix_rows(connection: Connection, wrong: Sequence[tuple[Image, bool]], rebuilt: str) -> list[str]:
    """Replace wrong rows by their correct images, and rebuild missing triggers; return descriptions for people.

    Rows stay if a damaged line of the journal, or a change without a trigger, may have made them. They go into the
    journal as they are. `rebuilt` names the triggers that were rebuilt before.
    """
    found = schema.mend_parts(connection, "trigger")
    lacked = "; ".join([rebuilt, *found])
    unrecorded = {table for table in changes.JOURNALED if f"trigger '{table}_" in lacked}
    right, kept = list[Image](), list[Image]()
    for image, is_sure in wrong:
        (right if is_sure and not changes.is_unrecorded(connection, image, unrecorded) else kept).append(image)
    changes.record(connection, kept)
    found += _tell_rows(kept, " may be newer than the journal; not repaired")
    if _lacks_history(right):
        why = "differed from a copy that lacks some history, and were not repaired; see memoryd verify"
        return [*found, f"{count_noun(len(right), 'row')} {why}"]
    changes.apply(connection, right)
    changes.add_missing_agents(connection)  # the row of an agent may be one that was not repaired
    for name in changes.JOURNALED:
        rows = [one for one in right if one[0] == name]
        found += _tell_rows(rows, f" of {name} differed from copy and journal, and were repaired")
    return found


def _tell_rows(rows: Sequence[Image], what: str) -> list[str]:
    return [f"{count_noun(len(rows), 'row')}{what}: {_list(key[-1] for _, key, _ in rows)}"] * bool(rows)


def _is_alike(connection: Connection) -> bool:
    """Return True if a copy of this database is attached, with the same schema."""
    if not query.has_row(connection, "SELECT 1 FROM pragma_database_list WHERE name = 'good'"):
        return False
    asked = ("application_id", "user_version")
    sides = [[query.fetch_number(connection, f"PRAGMA {side}.{one}") for one in asked] for side in ("main", "good")]
    return sides[0] == sides[1]


def _lacks_history(rows: Iterable[Image]) -> bool:
    """Return True if rows of a copy leave out entries of the audit. Then the copy was made after a loss of history."""
    return any(table == "audit" and row is None for table, _, row in rows)


def _mend_indexes(engine: Engine) -> list[str]:
    found = []
    if sqlite.read(engine, query.fetch_column, "PRAGMA integrity_check") != ["ok"]:
        sqlite.write(engine, query.run, "REINDEX")
        found.append("the indexes of the database were damaged and were rebuilt")
    if fault := sqlite.read(engine, lambda connection: find_fault(connection.exec_driver_sql)):
        raise StateError(f"the database {fault}", str(engine.url.database), "restart memoryd, which restores it")
    return found


def _list(ids: Iterable[Any]) -> str:
    given = list(map(str, ids))
    return ", ".join(given[:_MOST_LISTED]) + (f" and {len(given) - _MOST_LISTED} more" if given[_MOST_LISTED:] else "")
