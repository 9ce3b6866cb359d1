"""Store what models cost, in tokens: reserved before each call, and replaced by the real cost after it.

If the process dies before that, the reservation stays counted, because the call may have been paid.
"""

from dataclasses import astuple, dataclass
from typing import NamedTuple

from sqlalchemy import Connection, Engine

from memoryd.database import query, sqlite

_COUNTED = "coalesce(sum(coalesce(tokens_in + tokens_out, reserved)), 0)"


@dataclass(frozen=True, slots=True)
class Reservation:
    """Hold the largest number of tokens that one call may cost."""

    run_id: str
    agent_id: str
    endpoint: str  # name of the endpoint, for people
    day: str  # YYYY-MM-DD in the configured zone
    at: str
    tokens: int


class SpentTokens(NamedTuple):
    """Hold the sums of tokens of settled calls."""

    tokens_in: int
    tokens_out: int


def reserve(engine: Engine, wanted: Reservation, *, daily: int, per_run: int) -> int | str:
    """Reserve tokens for a call.

    The check and the reservation are one transaction, so that two jobs cannot both take the last tokens.

    Args:
        engine: the state database.
        wanted: the reservation.
        daily: limit of tokens for the day.
        per_run: limit of tokens for the run.

    Returns:
        The id of the reservation, or the name of the setting whose limit would be exceeded.
    """
    with sqlite.begin_write(engine) as connection:
        if of_day(connection, wanted.day) + wanted.tokens > daily:
            return "daily_tokens"
        sql = f"SELECT {_COUNTED} FROM spend WHERE run_id = ?"  # noqa: S608
        if query.fetch_number(connection, sql, wanted.run_id) + wanted.tokens > per_run:
            return "run_tokens"
        columns = "run_id", "agent_id", "endpoint", "day", "at", "reserved", "how"
        sql = f"{query.make_insert('spend', columns)} RETURNING id"
        return query.fetch_number(connection, sql, *astuple(wanted), "reserved")


def settle(connection: Connection, reservation: int, spent: SpentTokens, how: str) -> None:
    """Replace a reservation by the real cost of the call, in the caller's transaction.

    `how` is `usage` if the server reported the tokens, otherwise `estimate`.
    """
    sql = "UPDATE spend SET tokens_in = ?, tokens_out = ?, how = ? WHERE id = ?"
    query.run(connection, sql, *spent, how, reservation)


def of_day(connection: Connection, day: str) -> int:
    """Return the tokens of a day (YYYY-MM-DD), spent and reserved."""
    return query.fetch_number(connection, f"SELECT {_COUNTED} FROM spend WHERE day = ?", day)  # noqa: S608


def spent_by_run(engine: Engine, run_id: str) -> SpentTokens:
    """Return the sums of a run's settled calls, over all its attempts."""
    sql = "SELECT coalesce(sum(tokens_in), 0), coalesce(sum(tokens_out), 0) FROM spend WHERE run_id = ?"
    (row,) = sqlite.read(engine, query.fetch_rows, sql, run_id)
    return SpentTokens(*row)
