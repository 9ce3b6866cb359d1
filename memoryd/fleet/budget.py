"""Keep the limits of the whole fleet: tokens of a day, requests a minute, and one circuit breaker for each model.

All of it is one transaction under the lock of the model's row, and all times are those of PostgreSQL: workers on many
hosts, with clocks that differ by minutes, keep one limit. What a killed worker has reserved stays counted, as nobody
knows whether it was paid.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from memoryd.fleet.extra import psycopg
from memoryd.jobs.job import Reply
from memoryd.llm import circuit as breaker
from memoryd.llm.circuit import Circuit
from memoryd.llm.failure import Failure, Trouble

if TYPE_CHECKING:
    from memoryd.config_fleet import FleetSettings

ALL = ""  # the row of `fleet_day` that counts all agents
PROBE_GRACE = 30.0  # seconds beyond its timeout after which a probe's worker counts as killed
BUSY_SECONDS = 30.0
_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"
_TAKE = (
    "INSERT INTO fleet_day AS d (day, agent, tokens) SELECT %s, %s, %s WHERE %s <= %s"
    " ON CONFLICT (day, agent) DO UPDATE SET tokens = d.tokens + excluded.tokens"
    " WHERE d.tokens + excluded.tokens <= %s RETURNING 1"
)


@dataclass(frozen=True, slots=True)
class ModelCall:
    """Hold what one call of a model may cost, and whose it is."""

    agent: str
    model: str
    tokens: int
    timeout: float  # seconds


def reserve(connection: Any, call: ModelCall, limits: FleetSettings) -> int | Failure:
    """Reserve a call; return its id, or why it must not be made now. The caller commits."""
    circuit = _lock(connection, call.model)
    (now,) = connection.execute(_NOW).fetchone()  # after the lock: it may have been waited for
    opened, admitted = breaker.admit(circuit, now)
    if not admitted:
        trouble = Trouble.BLOCKED if circuit.blocked else Trouble.BUSY
        what = circuit.blocked or "the model is left alone for a while"
        return Failure(trouble, what, retry_after=breaker.wait(circuit, now))
    sql = (
        "SELECT count(*), extract(epoch FROM min(at))::float8 FROM (SELECT at FROM fleet_spend WHERE model = %s"
        " AND at > clock_timestamp() - interval '60 s' ORDER BY at DESC LIMIT %s) AS newest"
    )
    count, oldest = connection.execute(sql, [call.model, limits.requests_per_minute]).fetchone()
    if count >= limits.requests_per_minute:
        what = f"{call.model} is asked fleet.requests_per_minute, {limits.requests_per_minute} times, already"
        return Failure(Trouble.BUSY, what, retry_after=max(1.0, oldest + 60 - now), is_told=True)
    (day,) = connection.execute("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date").fetchone()
    if (short := _take_tokens(connection, day, call, limits)) is not None:
        return Failure(Trouble.EXHAUSTED, f"the fleet has spent {short} for today")
    if opened != circuit:  # a probe: if its worker is killed, the next one may probe after this time
        _store(connection, call.model, replace(opened, probing=False, open_until=now + call.timeout + PROBE_GRACE))
    sql = (
        "INSERT INTO fleet_spend (day, agent, model, at, reserved)"
        " VALUES (%s, %s, %s, clock_timestamp(), %s) RETURNING id"
    )
    (reservation,) = connection.execute(sql, [day, call.agent, call.model, call.tokens]).fetchone()
    return int(reservation)


def _take_tokens(connection: Any, day: object, call: ModelCall, limits: FleetSettings) -> str | None:
    """Take tokens from the day of an agent and from that of all; take none and return the limit if one is too low."""
    short = None
    with connection.transaction() as part:
        for key, agent, most in (
            ("agent_daily_tokens", call.agent, limits.agent_daily_tokens),
            ("daily_tokens", ALL, limits.daily_tokens),
        ):
            values = [day, agent, call.tokens, call.tokens, most, most]
            if connection.execute(_TAKE, values).fetchone() is None:
                short = f"fleet.{key}, {most},"
                raise psycopg.Rollback(part)
    return short


def settle(connection: Any, reservation: int, tokens_in: int, tokens_out: int) -> None:
    """Put what a call did cost in the place of its reservation; no-op for one that is settled."""
    sql = (
        "UPDATE fleet_spend SET tokens_in = %s, tokens_out = %s WHERE id = %s AND tokens_in IS NULL"
        " RETURNING day, agent, reserved"
    )
    row = connection.execute(sql, [tokens_in, tokens_out, reservation]).fetchone()
    if row is not None:
        day, agent, reserved = row
        sql = "UPDATE fleet_day SET tokens = tokens + %s WHERE day = %s AND agent = %s"
        for one in (agent, ALL):  # in the order of `reserve`, so that two never wait for each other
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


def renew(connection: Any) -> None:
    """Allow the models again that only a person could fix: a worker starts, perhaps with what was missing."""
    connection.execute("DELETE FROM fleet_model WHERE circuit ->> 'blocked' <> ''")


def _lock(connection: Any, model: str) -> Circuit:
    sql = "INSERT INTO fleet_model (model, circuit) VALUES (%s, %s) ON CONFLICT DO NOTHING"
    connection.execute(sql, [model, json.dumps(asdict(Circuit()))])
    sql = "SELECT circuit FROM fleet_model WHERE model = %s FOR UPDATE"
    return Circuit(**connection.execute(sql, [model]).fetchone()[0])


def _store(connection: Any, model: str, circuit: Circuit) -> None:
    sql = "UPDATE fleet_model SET circuit = %s WHERE model = %s"
    connection.execute(sql, [json.dumps(asdict(circuit)), model])
