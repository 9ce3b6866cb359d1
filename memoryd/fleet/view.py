"""Read the state of all hosts of the fleet: alarms, runs, waiting questions, spent tokens."""

from typing import Any

from memoryd.fleet.connection import Database
from memoryd.fleet.extra import psycopg

_HOSTS = (
    "SELECT host, version, seen_at::text, extract(epoch FROM clock_timestamp() - seen_at)::int AS silent_seconds, told,"
    " (SELECT count(*) FROM fleet_run r WHERE r.host = h.host AND r.finished_at IS NULL) AS open_runs"
    " FROM fleet_host h WHERE %(host)s::text IS NULL OR host = %(host)s ORDER BY host"
)
_RUNS = (
    "SELECT host, id, kind, agent, actor, trigger, state, attempt, scheduled_for, started_at, finished_at, tokens_in,"
    " tokens_out FROM fleet_run WHERE %(host)s::text IS NULL OR host = %(host)s ORDER BY id DESC LIMIT %(limit)s"
)
_REQUESTS = (
    "SELECT id, host, asked_at::text, answered_at::text, outcome FROM fleet_request"
    " WHERE %(host)s::text IS NULL OR host = %(host)s ORDER BY asked_at DESC LIMIT 20"
)
_WAITING = (
    "SELECT count(*) AS questions, coalesce(extract(epoch FROM clock_timestamp() - min(asked_at)), 0)::int AS seconds"
    " FROM fleet_question WHERE reply IS NULL"
)
_WORKERS = (
    "SELECT count(*) AS alive FROM procrastinate_workers WHERE last_heartbeat > clock_timestamp() - interval '20 s'"
)
_DAY = (
    "SELECT coalesce(sum(tokens), 0)::bigint AS today_tokens FROM fleet_day"
    " WHERE agent = '' AND day = (clock_timestamp() AT TIME ZONE 'UTC')::date"
)
_MODELS = "SELECT model, circuit ->> 'blocked' AS blocked, circuit ->> 'open_until' AS open_until FROM fleet_model"


def read_status(database: Database, host: str | None = None, limit: int = 20) -> dict[str, Any]:
    """Return the status of the fleet or of one host, with its newest runs."""
    values = {"host": host, "limit": limit}
    with database.begin() as connection, connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:

        def read(sql: str) -> list[dict[str, Any]]:
            return list(cursor.execute(sql, values).fetchall())

        hosts = [row | row.pop("told") for row in read(_HOSTS)]
        return {
            "hosts": hosts,
            "names": [row["host"] for row in read("SELECT host FROM fleet_host ORDER BY host")],
            "runs": read(_RUNS),
            "requests": read(_REQUESTS),
            "workers": read(_WORKERS)[0]["alive"],
            "waiting": read(_WAITING)[0],
            "spend": read(_DAY)[0],
            "models": read(_MODELS),
        }
