"""Keep the limits of the whole fleet: tokens each day, requests each minute, and a circuit breaker for each model.

A reservation is one transaction under the lock of the model's row. All times are those of PostgreSQL, so workers whose
clocks differ by minutes keep the same limit. A reservation of a killed worker stays counted, because nobody knows
whether its call was paid. All reservations wait for one lock, so nothing under it waits for the disk: `reserve` and
`settle` commit lazily. `confirm` then brings a reservation to the disk, without the lock and before the call. So a
crash of the server can only undo a reservation that nobody has used yet, or a settlement.
"""

import json
from dataclasses import asdict, replace
from typing import Any

from memoryd.config_sections import FleetSettings
from memoryd.fleet.connection import Database
from memoryd.fleet.questions import FleetQuestion
from memoryd.jobs.job import Reply
from memoryd.llm import circuit as breaker
from memoryd.llm.circuit import Circuit
from memoryd.llm.failure import Failure, Trouble

ALL = ""  # The row of `fleet_day` with this agent counts all agents.
# A worker that probes a model counts as killed this many seconds after its timeout.
PROBE_GRACE = 30.0
_LAZY = "SET LOCAL synchronous_commit = off"
_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"
# One statement after the wait for the lock returns the time, the day and the calls of the last minute. PostgreSQL uses
# the index only if the compared time is not volatile.
_LAST_MINUTE = (
    "SELECT extract(epoch FROM clock_timestamp())::float8, (clock_timestamp() AT TIME ZONE 'UTC')::date, count(*),"
    " extract(epoch FROM min(at))::float8 FROM (SELECT at FROM fleet_spend WHERE model = %s"
    " AND at > statement_timestamp() - interval '60 s' ORDER BY at DESC LIMIT %s) AS newest"
)
# The row of all agents comes first, so that every transaction locks the two rows in the same order.
_TAKE = (
    "INSERT INTO fleet_day AS d (day, agent, tokens)"
    " SELECT %(day)s, agent, %(tokens)s FROM (VALUES (1, '', %(all)s::bigint), (2, %(agent)s, %(each)s::bigint))"
    " AS wanted (place, agent, most) WHERE %(tokens)s <= most ORDER BY place"
    " ON CONFLICT (day, agent) DO UPDATE SET tokens = d.tokens + excluded.tokens"
    " WHERE d.tokens + excluded.tokens <= CASE d.agent WHEN '' THEN %(all)s ELSE %(each)s END RETURNING agent"
)


def reserve(connection: Any, asked: FleetQuestion, limits: FleetSettings) -> int | Failure:
    """Reserve the cost of a question. Return its id, or the reason why it must not be asked now.

    A failure leaves no reservation. The caller commits, and calls `confirm` before it asks the model.
    """
    circuit = _lock(connection, asked.model)
    now, day, count, oldest = connection.execute(_LAST_MINUTE, [asked.model, limits.requests_per_minute]).fetchone()
    opened, admitted = breaker.admit(circuit, now)
    if not admitted:
        return breaker.refuse(circuit, now, "model")
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
    # This call is a probe. If its worker is killed, the next worker may probe after this time.
    if opened != circuit:
        _store(connection, asked.model, replace(opened, probing=False, open_until=now + asked.timeout + PROBE_GRACE))
    sql = (
        "INSERT INTO fleet_spend (day, agent, model, at, reserved)"
        " VALUES (%s, %s, %s, clock_timestamp(), %s) RETURNING id"
    )
    (reservation,) = connection.execute(sql, [day, asked.agent, asked.model, asked.tokens]).fetchone()
    return int(reservation)


def confirm(connection: Any, reservation: int) -> bool:
    """Write a reservation to the server's disk with the caller's commit.

    Return False if a crash of the server has undone the reservation.
    """
    sql = "UPDATE fleet_spend SET reserved = reserved WHERE id = %s"
    return bool(connection.execute(sql, [reservation]).rowcount)


def settle(connection: Any, reservation: int, tokens_in: int, tokens_out: int) -> None:
    """Replace a reservation by the cost of its call, unless it is settled already. The caller commits."""
    connection.execute(_LAZY)
    sql = (
        "UPDATE fleet_spend SET tokens_in = %s, tokens_out = %s WHERE id = %s AND tokens_in IS NULL"
        " RETURNING day, agent, reserved"
    )
    row = connection.execute(sql, [tokens_in, tokens_out, reservation]).fetchone()
    if row is not None:
        day, agent, reserved = row
        sql = "UPDATE fleet_day SET tokens = tokens + %s WHERE day = %s AND agent = %s"
        for one in (ALL, agent):  # in the order of `reserve`, against a deadlock
            connection.execute(sql, [tokens_in + tokens_out - reserved, day, one])


def note(connection: Any, model: str, result: Reply | Failure) -> None:
    """Record the outcome of a call in the circuit breaker that all workers share."""
    failure = breaker.failure_of(result)
    if failure is None:
        row = connection.execute("SELECT circuit FROM fleet_model WHERE model = %s", [model]).fetchone()
        if row is not None and Circuit(**row[0]) != Circuit():
            _lock(connection, model)
            _store(connection, model, Circuit())
        return
    circuit = _lock(connection, model)
    (now,) = connection.execute(_NOW).fetchone()
    _store(connection, model, breaker.note_result(circuit, now, failure))


def renew(database: Database) -> None:
    """Unblock the models that only a person could fix, because a starting worker may have the missing setting."""
    database.fetch("DELETE FROM fleet_model WHERE circuit ->> 'blocked' <> ''")


def _lock(connection: Any, model: str) -> Circuit:
    """Lock the row of a model and return its circuit.

    One statement also creates the row, because `renew` may delete it at any moment.
    """
    connection.execute(_LAZY)
    sql = (
        "INSERT INTO fleet_model (model, circuit) VALUES (%s, %s)"
        " ON CONFLICT (model) DO UPDATE SET model = excluded.model RETURNING circuit"
    )
    (found,) = connection.execute(sql, [model, json.dumps(asdict(Circuit()))]).fetchone()
    return Circuit(**found)


def _store(connection: Any, model: str, circuit: Circuit) -> None:
    connection.execute("UPDATE fleet_model SET circuit = %s WHERE model = %s", [json.dumps(asdict(circuit)), model])
