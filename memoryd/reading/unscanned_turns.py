"""Read the texts of turns that could not be scanned for secrets from their transcripts again, and repeat the scan.

Such turns are stored without a text, but with the span of their bytes. If the bytes in the transcript are unchanged,
they are scanned again. Documents have no spans, so they are read again as a whole. After each failure, the interval
doubles; after a restart, everything is tried once at once.

A sleep does not wait for such turns, but its run report counts them. A message that a sleep has missed moves to the end
of its session when its text is restored.
"""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from sqlalchemy import Connection

from memoryd.counted import count_noun
from memoryd.database import alarms, sqlite, turns
from memoryd.database.query import Row
from memoryd.database.vault import DAMAGED
from memoryd.errors import MemorydError, NotFoundError
from memoryd.files.ranges import Handle
from memoryd.reading import cursor as reading
from memoryd.reading import store
from memoryd.reading.cursor import Cursor, FoundTurn
from memoryd.reading.scrubbing import UnscannedError
from memoryd.reading.sources import WholeReading
from memoryd.reading.store import IngestBatch
from memoryd.transcripts import lines as splitting
from memoryd.transcripts import now_file, registry
from memoryd.transcripts.turn import Turn, TurnKind

KIND = "unscanned"
_UNSCANNED = "{turns} could not be scanned for secrets; their text is not stored, it is tried again"
_DAMAGED = "the text of {turns} is damaged; it is read again from its transcript: memoryd verify names them"
FIRST_SECONDS = 60.0
LONGEST_SECONDS = 6 * 3600.0
AT_ONCE = 200


class UnscannedTurns:
    """Retry the unscanned and damaged turns for `Ingest`."""

    def __init__(self, ingest: WholeReading) -> None:
        self.ingest = ingest
        self._due: dict[int, tuple[float, float]] = {}  # turn → (next attempt, pause before it), in monotonic seconds
        self._known = True  # True: there may be such turns, also from an earlier process
        self._failed: set[tuple[str, str]] = set()  # (agent, path) of transcripts with such turns

    def note(self, batch: IngestBatch) -> None:
        """Record the turns of a batch that were stored without their text, and raise the alarm."""
        failed = [found.cursor for found in batch.found if found.withheld == store.UNSCANNED]
        self._failed.update((cursor.agent_id, cursor.path) for cursor in failed)
        if failed:
            self._known = True
            self._tell()

    def expect(self) -> None:
        """Record that other code has marked turns to be read again."""
        self._known = True

    def retry(self) -> None:
        """Retry the turns whose next attempt is due."""
        if not self._known:
            return
        now = self.ingest.clock.monotonic()
        with sqlite.begin_read(self.ingest.engine) as connection:
            waiting = _find(connection)
            self._due = {turn_id: due for turn_id, due in self._due.items() if turn_id in waiting}
            due = [turn_id for turn_id in sorted(waiting) if self._due.get(turn_id, (0.0, 0.0))[0] <= now]
            ready = turns.with_places(connection, due[:AT_ONCE])
        self._known = bool(waiting)
        if ready:
            self._try(ready, now)
        self._tell()

    def _try(self, ready: Sequence[Row], now: float) -> None:
        found: dict[int, FoundTurn | None] = {}
        documents: dict[str, list[Row]] = {}
        for row in ready:
            wait = min(max(FIRST_SECONDS, 2 * self._due.get(row["id"], (0.0, 0.0))[1]), LONGEST_SECONDS)
            self._due[row["id"]] = now + wait, wait
            if row["format"] == now_file.NAME or _is_whole(row):
                documents.setdefault(row["path"], []).append(row)
                continue
            try:
                found[row["id"]] = self._read(row)
            except UnscannedError:
                continue
            except NotFoundError:
                if wait == LONGEST_SECONDS:  # the disk of the transcript may be absent for a while
                    found[row["id"]] = None
            except MemorydError as error:
                self.ingest.log.warning("unscanned turn not read", turn=row["id"], why=str(error))
        self._store({row["id"]: row for row in ready}, found)
        for path, rows in documents.items():
            self._read_anew(path, rows)

    # --- records ---------------------------------------------------------------------------------------------------

    def _read(self, row: Row) -> FoundTurn | None:
        """Return a turn, read again from its span; None if its bytes have changed or are gone."""
        with self.ingest.files.borrow(Path(row["path"])) as handle:
            if handle.sha256_range(row["first_byte"], row["last_byte"] - row["first_byte"]) != row["sha256"].hex():
                return None
            turn = self._turn(row, handle)
        if turn is None:
            return None
        # This cursor only carries the place of one turn; it is never stored.
        nobody = Cursor(row["agent_id"], row["path"], 0, 0, id=row["transcript_id"], session_id=row["session_id"])
        return FoundTurn(nobody, turn, row["first_byte"], row["last_byte"], row["sha256"])

    def _turn(self, row: Row, handle: Handle) -> Turn | None:
        first, last = row["first_byte"], row["last_byte"]
        if row["kind"] == TurnKind.OVERSIZE:
            begin = handle.read(first, reading.EXCERPT_BYTES)
            end = handle.read(last - reading.EXCERPT_BYTES, reading.EXCERPT_BYTES)
            return splitting.oversize_turn(begin, end, last - first, row["sha256"].hex())
        reader = registry.by_name(row["format"])
        head = reading.head_records(handle, handle.observe().size, reading.HEAD_READ)
        identity = reader.identify(head.whole + head.salvaged, PurePosixPath(row["path"]))
        record = next(iter(reader.cut(handle.read(first, last - first), first, last=True).records), None)
        if identity is None or record is None:
            return None
        found = reader.turns(record, identity, splitting.Pass(row["session_id"] or "")).turns
        same = [turn for turn in found if turn.part == row["part"]]
        return next((turn for turn in same if turn.record_id == row["record_id"]), same[0] if same else None)

    def _store(self, rows: dict[int, Row], found: dict[int, FoundTurn | None]) -> None:
        """Store the texts that could be scanned now, and mark turns whose bytes are gone (None) as lost."""
        ingest = self.ingest
        there = {turn_id: one for turn_id, one in found.items() if one is not None}
        batch = store.IngestBatch(found=list(there.values()))
        names = {name: name for name in batch.names()}  # the rows already have their names in stored form
        texts = [one.turn.text for one in batch.found]
        batch.take_scanned(ingest.scrubber.scan(texts, ingest.progress), names)
        lost = [turn_id for turn_id, one in found.items() if one is None]
        skipped = [i for i, one in zip(there, batch.found, strict=True) if one.withheld == store.SKIPPED]
        with sqlite.begin_write(ingest.engine) as connection:
            for turn_id, one in zip(there, batch.found, strict=True):
                row = rows[turn_id]
                ingest.changed |= store.reveal(connection, row["agent_id"], row["record_id"], one)
            turns.set_withheld(connection, lost, store.LOST)
            turns.set_withheld(connection, skipped, store.SKIPPED)
        if lost:
            ingest.log.warning("texts lost before they could be scanned", turns=len(lost))

    # --- documents ------------------------------------------------------------------------------------------------

    def _read_anew(self, path: str, rows: Sequence[Row]) -> None:
        """Read a document again from its start, so that its turns get their texts; mark missing turns as lost."""
        ingest = self.ingest
        key = rows[0]["agent_id"], path
        ingest.forget_documents({row["session_id"] for row in rows if row["session_id"]})
        cursor = ingest.cursors.find(*key)
        there = cursor is not None and not cursor.is_gone
        if cursor is not None and there:
            cursor.unfinished = True
            self._failed.discard(key)
            ingest.hint(path)
            ingest.flush()
            cursor = ingest.cursors.find(*key)
        was_read = cursor is not None and not (cursor.is_gone or cursor.unfinished) and key not in self._failed
        least = 2 * FIRST_SECONDS if was_read else LONGEST_SECONDS  # the disk may be absent for a while
        with sqlite.begin_write(ingest.engine) as connection:
            left = _find(connection) & {row["id"] for row in rows}
            long = {row["id"] for row in rows if self._due.get(row["id"], (0.0, 0.0))[1] >= least}
            # After a second complete reading, a text that is still missing is no longer in the document.
            if was_read or not there:
                turns.set_withheld(connection, left & long, store.LOST)

    # --- the alarm ------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        ingest = self.ingest
        for kind, what in ((KIND, _UNSCANNED), (DAMAGED, _DAMAGED)):
            count = len(sqlite.read(ingest.engine, turns.find_withheld, kind))
            text = what.format(turns=count_noun(count, "turn")) if count else None
            if alarms.set_alarm(ingest.engine, kind, text, ingest.clock.text()):
                ingest.log.error("alarm", kind=kind, turns=count)


def _find(connection: Connection) -> set[int]:
    return turns.find_withheld(connection, store.UNSCANNED) | turns.find_withheld(connection, DAMAGED)


def _is_whole(row: Row) -> bool:
    """Return True if the turn has no span, or is in a file that is rewritten as a whole."""
    return not row["last_byte"] or (row["format"] in registry.DOCUMENTS and row["path"].endswith(".json"))
