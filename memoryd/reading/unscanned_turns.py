"""Read the transcripts of turns that could not be scanned for secrets again, and repeat the scan.

Such turns are stored without a text. When their record comes again, its text is stored in their place. After each
failure, the interval doubles; after a restart, everything is tried once at once.

A sleep does not wait for such turns, but its run report counts them. A message that a sleep has missed moves to the end
of its session when its text is restored.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, RowMapping

from memoryd.counted import count_noun
from memoryd.database import alarms, sqlite, turns
from memoryd.database.vault import DAMAGED
from memoryd.reading import cursor as reading
from memoryd.reading import store
from memoryd.reading.sources import WholeReading
from memoryd.reading.store import IngestBatch

KIND = "unscanned"
_UNSCANNED = "{turns} could not be scanned for secrets; their text is not stored, it is tried again"
_DAMAGED = "the text of {turns} is damaged; it is read again from its transcript: memoryd verify names them"
FIRST_SECONDS = 60.0
LONGEST_SECONDS = 6 * 3600.0


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
            due = [turn_id for turn_id in waiting if self._due.get(turn_id, (0.0, 0.0))[0] <= now]
            ready = turns.with_places(connection, due)
        self._known = bool(waiting)
        found: dict[tuple[str, str], list[RowMapping]] = {}
        for row in ready:
            wait = min(max(FIRST_SECONDS, 2 * self._due.get(row["id"], (0.0, 0.0))[1]), LONGEST_SECONDS)
            self._due[row["id"]] = now + wait, wait
            found.setdefault((row["agent_id"], row["path"]), []).append(row)
        for key, rows in found.items():
            self._read_anew(key, rows)
        self._tell()

    def _read_anew(self, key: tuple[str, str], rows: Sequence[RowMapping]) -> None:
        """Read a transcript again from its start, so that its turns get their texts; mark missing turns as lost."""
        ingest = self.ingest
        ingest.forget_documents({row["session_id"] for row in rows if row["session_id"]})
        ingest.flush()
        cursor = ingest.cursors.find(*key)
        cursor = None if cursor is None or cursor.is_gone else cursor
        was_read = cursor is not None and not cursor.unfinished and key not in self._failed
        # After a complete reading, a text that is still missing is no longer in the transcript.
        if was_read or cursor is None:
            least = 2 * FIRST_SECONDS if was_read else LONGEST_SECONDS  # the disk may be absent for a while
            lost = [row["id"] for row in rows if self._due[row["id"]][1] >= least]
            sqlite.write(ingest.engine, turns.set_withheld, lost, store.LOST)
        if cursor is not None:
            if not cursor.unfinished:  # a reading that goes on is not begun again
                self._failed.discard(key)
                if rows[0]["last_byte"]:
                    reading.start(cursor)
                cursor.unfinished = True
            ingest.hint(key[1])
            ingest.flush()

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
