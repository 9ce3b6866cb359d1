"""Keep the fleet's tables small by deleting old rows. Times are those of PostgreSQL."""

from datetime import timedelta

from memoryd.clock import text_of
from memoryd.fleet.connection import Database

# Longer than a host is usually away. A question is deleted as soon as its host has the reply.
QUESTIONS = timedelta(days=7)
SPEND = timedelta(days=7)  # for single calls; the sums of each day stay longer
_AGED = {"fleet_question": ("asked_at", QUESTIONS), "fleet_spend": ("at", SPEND)}
_KEPT = {"fleet_request": "asked_at", "fleet_day": "day", "fleet_lease": "until"}


def prune(database: Database, keep: timedelta) -> int:
    """Delete old rows, and return their number.

    A host that was not seen for the time `keep` loses its rows as well.
    """
    deleted: int = 0
    with database.begin() as connection:
        for table, (column, age) in (_AGED | {table: (column, keep) for table, column in _KEPT.items()}).items():
            sql = f"DELETE FROM {table} WHERE {column} < clock_timestamp() - %s"  # noqa: S608 - names from above
            deleted += connection.execute(sql, [age]).rowcount
        (now,) = connection.execute("SELECT clock_timestamp()").fetchone()
        sql = "DELETE FROM fleet_run WHERE finished_at < %s"
        deleted += connection.execute(sql, [text_of(now - keep)]).rowcount
        gone = connection.execute(
            "DELETE FROM fleet_host WHERE seen_at < clock_timestamp() - %s RETURNING host", [keep]
        ).fetchall()
        deleted += len(gone)
        # Only rows of the hosts deleted here are searched. A search for all rows without a host reads the whole table.
        sql = "DELETE FROM fleet_run WHERE host = ANY(%s)"
        deleted += connection.execute(sql, [[host for (host,) in gone]]).rowcount
    return deleted
