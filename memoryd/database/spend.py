"""Store the cost of models in tokens: reserved before each call, settled after it.

A reservation that is never settled, because the process died, stays counted: nobody knows whether it was paid.
"""

from dataclasses import astuple, dataclass
from typing import NamedTuple

from sqlalchemy import Connection, Engine

from memoryd.database import query, sqlite

_COUNTED = "coalesce(sum(coalesce(tokens_in + tokens_out, reserved)), 0)"


@dataclass(frozen=True, slots=True)
class Reservation:
    """Hold the most that one call may cost."""

    run_id: str
    agent_id: str
    endpoint: str  # its name, for people
    day: str  # YYYY-MM-DD in the configured zone
    at: str
    tokens: int


class SpentTokens(NamedTuple):
    """Hold the tokens of settled calls."""

    tokens_in: int
    tokens_out: int


def reserve(engine: Engine, wanted: Reservation, *, daily: int, per_run: int) -> int | str:
    """Reserve tokens; return the reservation's id, or the key of the setting with too little left.

    Checked and taken in one transaction, so that two jobs cannot both take the last tokens.
    """
    with sqlite.begin_write(engine) as connection:
        if of_day(connection, wanted.day) + wanted.tokens > daily:
            return "daily_tokens"
        sql = f"SELECT {_COUNTED} FROM spend WHERE run_id = ?"  # noqa: S608
        if query.fetch_number(connection, sql, wanted.run_id) + wanted.tokens > per_run:
            return "run_tokens"
        result = query.run(
            connection,
            "INSERT INTO spend (run_id, agent_id, endpoint, day, at, reserved, how)"
            " VALUES (?, ?, ?, ?, ?, ?, 'reserved')",
            *astuple(wanted),
        )
        return int(result.lastrowid)


def settle(connection: Connection, reservation: int, spent: SpentTokens, how: str) -> None:
    """Put what a call did cost in the place of its reservation, in the caller's transaction.

    `how` is `usage` where the server reported them, else `estimate`.
    """
    sql = "UPDATE spend SET tokens_in = ?, tokens_out = ?, how = ? WHERE id = ?"
    query.run(connection, sql, *spent, how, reservation)


def of_day(connection: Connection, day: str) -> int:
    """Count the tokens of a day: what was spent, and what is reserved."""
    return query.fetch_number(connection, f"SELECT {_COUNTED} FROM spend WHERE day = ?", day)  # noqa: S608


def spent_by_run(engine: Engine, run_id: str) -> SpentTokens:
    """Sum the settled calls of a run, of all of its attempts."""
    sql = "SELECT coalesce(sum(tokens_in), 0), coalesce(sum(tokens_out), 0) FROM spend WHERE run_id = ?"
    (row,) = sqlite.read(engine, query.fetch_rows, sql, run_id)
    return SpentTokens(*row)
