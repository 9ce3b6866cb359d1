"""Read the progress of an import of history. Each import of an agent is one row of the job table."""

from dataclasses import dataclass
from datetime import timedelta

from memoryd.database.reads import DatabaseReader

KIND = "history"  # kind of these rows in the job table
READING, WRITING, DREAMING = STEPS = "reading", "writing", "dreaming"
STEP = "coalesce(json_extract(receipt, '$.history.step'), 'reading')"  # SQL for the present step of such a row


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """Hold the progress of the open imports within their present step."""

    step: str  # one of STEPS
    done: int  # number of transcripts, sessions, or dreams
    total: int
    seconds_left: int | None  # for this step; None if there is no estimate yet

    def __str__(self) -> str:
        """Return the progress as text for people, such as `reading 3/120, about 4 min left`."""
        left = self.seconds_left
        told = "" if left is None else f", about {f'{left} s' if left < 100 else f'{left / 60:.0f} min'} left"
        return f"{self.step} {self.done:,}/{self.total:,}{told}"


def read_progress(reader: DatabaseReader, agent_id: str | None = None) -> ImportProgress | None:
    """Return the progress of an agent's open import, or of all agents' together; None if no import is open.

    If the imports are at different steps, only those at the earliest step count.
    """
    rows = reader.rows(
        f"SELECT {STEP} AS step, coalesce(json_extract(receipt, '$.history.done'), 0) AS done,"  # noqa: S608
        " coalesce(json_extract(receipt, '$.history.total'), 0) AS total,"
        " json_extract(receipt, '$.history.seconds_left') AS seconds_left"
        " FROM job_run WHERE kind = ? AND state = 'queued' AND (? IS NULL OR agent_id = ?)",
        KIND, agent_id, agent_id,
    )  # fmt: skip
    for step in STEPS:
        if found := [row for row in rows if row["step"] == step]:
            seconds = [row["seconds_left"] for row in found if row["seconds_left"] is not None]
            done, total = (sum(row[name] for row in found) for name in ("done", "total"))
            return ImportProgress(step, done, total, max(seconds, default=None))
    return None


def count_progress(
    reader: DatabaseReader, agent_id: str, unread: int, idle_end: timedelta, now: str
) -> ImportProgress | None:
    """Return the progress of history that is processed without an import; None if there is nothing to do.

    Args:
        reader: a read transaction of the state database.
        agent_id: the agent.
        unread: number of its transcripts that the daemon has not read yet.
        idle_end: after this time without a turn, a session counts as ended.
        now: UTC, ISO 8601.
    """
    from memoryd.database import reads

    left, sessions = reads.count_history(reader, agent_id, idle_end, now)
    if unread > 1:  # one unread transcript is normally the live session
        known = reads.transcript_counts(reader, agent_id)["transcripts"]
        return ImportProgress(READING, max(0, known - 1), max(0, known - 1) + unread, None)
    # Failed runs do not count: they are retried, or an alarm reports them.
    waiting = reader.number(
        "SELECT count(*) FROM job_run WHERE agent_id = ? AND kind = 'sleep' AND state IN ('queued', 'running')",
        agent_id,
    )
    return ImportProgress(WRITING, sessions - left, sessions, None) if left and waiting else None
