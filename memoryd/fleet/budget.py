"""Keep the limits of the whole fleet: tokens of a day, requests a minute, and one circuit breaker for each model.

A reservation is one transaction under the lock of the model's row, and all times are those of PostgreSQL: workers on
many hosts, with clocks that differ by minutes, keep one limit. What a killed worker has reserved stays counted, as
nobody knows whether it was paid.

All reservations wait for one lock, so nothing waits for the disk under it. `reserve` and `settle` commit lazily;
`confirm` then brings a reservation to the disk, without the lock and before the call. A crash of the server can only
take back a reservation that nobody has acted on, or leave a settled one as it was reserved.
"""

import json
from dataclasses import asdict, replace
from typing import Any

from memoryd.config_fleet import FleetSettings
from memoryd.fleet.connection import Database
from memoryd.fleet.question import FleetQuestion
from memoryd.jobs.job import Reply
from memoryd.llm import circuit as breaker
from memoryd.llm.circuit import Circuit
from memoryd.llm.failure import BUSY_SECONDS, Failure, Trouble

ALL = ""  # the row of `fleet_day` that counts all agents
PROBE_GRACE = 30.0  # seconds beyond its timeout after which a probe's worker counts as killed
_LAZY = "SET LOCAL synchronous_commit = off"
_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"
# In one statement, after the lock, which may have been waited for: now, today, and the calls of the last minute. The
# time to compare with must not be volatile, or no index serves.
_LAST_MINUTE = (
    "SELECT extract(epoch FROM clock_timestamp())::float8, (clock_timestamp() AT TIME ZONE 'UTC')::date, count(*),"
    " extract(epoch FROM min(at))::float8 FROM (SELECT at FROM fleet_spend WHERE model = %s"
    " AND at > statement_timestamp() - interval '60 s' ORDER BY at DESC LIMIT %s) AS newest"
)
# The row of all agents first: whoever locks both locks them in this order.
_TAKE = (
    "INSERT INTO fleet_day AS d (day, agent, tokens)"
    " SELECT %(day)s, agent, %(tokens)s FROM (VALUES (1, '', %(all)s::bigint), (2, %(agent)s, %(each)s::bigint))"
    " AS wanted (place, agent, most) WHERE %(tokens)s <= most ORDER BY place"
    " ON CONFLICT (day, agent) DO UPDATE SET tokens = d.tokens + excluded.tokens"
    " WHERE d.tokens + excluded.tokens <= CASE d.agent WHEN '' THEN %(all)s ELSE %(each)s END RETURNING agent"
)


def reserve(connection: Any, asked: FleetQuestion, limits: FleetSettings) -> int | Failure:
    """Reserve the cost of a question; return its id, or why it must not be made now: then nothing is changed.

    The caller commits, and calls `confirm` before it asks the model.
    """
    circuit = _lock(connection, asked.model)
    now, day, count, oldest = connection.execute(_LAST_MINUTE, [asked.model, limits.requests_per_minute]).fetchone()
    opened, admitted = breaker.admit(circuit, now)
    if not admitted:
        trouble = Trouble.BLOCKED if circuit.blocked else Trouble.BUSY
        what = circuit.blocked or "calls to the model are paused after a failure"
        return Failure(trouble, what, retry_after=breaker.wait(circuit, now))
    if count >= limits.requests_per_minute:
        what = f"{asked.model} has reached fleet.requests_per_minute, {limits.requests_per_minute}"
        return Failure(Trouble.BUSY, what, retry_after=max(1.0, oldest + 60 - now), is_told=True)
    wanted = {"day": day, "tokens": asked.tokens, "agent": asked.agent}
    wanted |= {"all": limits.daily_tokens, "each": limits.agent_daily_tokens}
    taken = {agent for (agent,) in connection.execute(_TAKE, wanted).fetchall()}
    if len(taken) < 2:
        connection.rollback()
        key = "agent_daily_tokens" if ALL in taken else "daily_tokens"
        return Failure(Trouble.EXHAUSTED, f"the fleet has used up fleet.{key}, {getattr(limits, key)}, for today")
    if opened != circuit:  # a probe: if its worker is killed, the next one may probe after this time
        _store(connection, asked.model, replace(opened, probing=False, open_until=now + asked.timeout + PROBE_GRACE))
    sql = (
        "INSERT INTO fleet_spend (day, agent, model, at, reserved)"
        " VALUES (%s, %s, %s, clock_timestamp(), %s) RETURNING id"
    )
    (reservation,) = connection.execute(sql, [day, asked.agent, asked.model, asked.tokens]).fetchone()
    return int(reservation)


def confirm(connection: Any, reservation: int) -> bool:
    """Bring a reservation to the server's disk by the caller's commit; return False if a crash took it back."""
    sql = "UPDATE fleet_spend SET reserved = reserved WHERE id = %s"
    return bool(connection.execute(sql, [reservation]).rowcount)


def settle(connection: Any, reservation: int, tokens_in: int, tokens_out: int) -> None:
    """Replace a reservation by the cost of its call; no-op if it is settled already. The caller commits."""
    connection.execute(_LAZY)
    sql = (
        "UPDATE fleet_spend SET tokens_in = %s, tokens_out = %s WHERE id = %s AND tokens_in IS NULL"
        " RETURNING day, agent, reserved"
    )
    row = connection.execute(sql, [tokens_in, tokens_out, reservation]).fetchone()
    if row is not None:
        day, agent, reserved = row
        sql = "UPDATE fleet_day SET tokens = tokens + %s WHERE day = %s AND agent = %s"
        for one in (ALL, agent):  # in the order of `reserve`, so that two never wait for each other
            connection.execute(sql, [tokens_in + tokens_out - reserved, day, one])


def note(connection: Any, model: str, result: Reply | Failure) -> None:
    """Record the outcome of a call in the circuit that all workers share."""
    trouble = result.trouble if isinstance(result, Failure) else None
    if not isinstance(result, Failure) or trouble in {Trouble.BAD_REPLY, Trouble.OVERFLOW, Trouble.LIMIT}:
        row = connection.execute("SELECT circuit FROM fleet_model WHERE model = %s", [model]).fetchone()
        if row is not None and Circuit(**row[0]) != Circuit():
            _lock(connection, model)
            _store(connection, model, Circuit())
        return
    circuit = _lock(connection, model)
    (now,) = connection.execute(_NOW).fetchone()
    if trouble is Trouble.BLOCKED:
        _store(connection, model, breaker.note_refusal(circuit, now, result.what))
        return
    if trouble is Trouble.UNAVAILABLE:
        circuit = breaker.note_failure(circuit, now)
    seconds = result.retry_after if trouble is Trouble.UNAVAILABLE else result.retry_after or BUSY_SECONDS
    _store(connection, model, breaker.told_to_wait(circuit, now, seconds) if seconds else circuit)


def renew(database: Database) -> None:
    """Unblock models that only a person could fix: a worker starts, perhaps with the missing setting."""
    database.fetch("DELETE FROM fleet_model WHERE circuit ->> 'blocked' <> ''")


def _lock(connection: Any, model: str) -> Circuit:
    """Lock the row of a model; make it in the same statement, because `renew` may delete it at any moment."""
    connection.execute(_LAZY)
    sql = (
        "INSERT INTO fleet_model (model, circuit) VALUES (%s, %s)"
        " ON CONFLICT (model) DO UPDATE SET model = excluded.model RETURNING circuit"
    )
    (found,) = connection.execute(sql, [model, json.dumps(asdict(Circuit()))]).fetchone()
    return Circuit(**found)


def _store(connection: Any, model: str, circuit: Circuit) -> None:
    sql = "UPDATE fleet_model SET circuit = %s WHERE model = %s"
    connection.execute(sql, [json.dumps(asdict(circuit)), model])
