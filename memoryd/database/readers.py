"""Store how second readers performed on the calibration set, and their verdicts on claims."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import NamedTuple

from sqlalchemy import Connection, Engine

from memoryd.database import query, sqlite
from memoryd.jobs.reader import Fitness

_RESULT = ("true_right", "true_asked", "false_right", "false_asked", "tested_at")


class CalibrationResult(NamedTuple):
    """Hold a model's result on the calibration set, and when it was tested (UTC, ISO 8601)."""

    fitness: Fitness
    at: str


def read_result(connection: Connection, endpoint: str, model: str, version: str) -> CalibrationResult | None:
    """Return a model's result for this version of prompt and calibration set; None if it was not tested with it."""
    sql = f"SELECT {', '.join(_RESULT)} FROM reader WHERE endpoint = ? AND model = ? AND version = ?"  # noqa: S608
    rows = query.fetch_rows(connection, sql, endpoint, model, version)
    return CalibrationResult(Fitness(*rows[0][:4]), rows[0][4]) if rows else None


def keep_test(connection: Connection, endpoint: str, model: str, version: str, result: CalibrationResult) -> None:
    """Store a model's result, and delete its earlier results of any version."""
    query.run(connection, "DELETE FROM reader WHERE endpoint = ? AND model = ?", endpoint, model)
    sql = query.make_insert("reader", ("endpoint", "model", "version", *_RESULT))
    query.run(connection, sql, endpoint, model, version, *astuple(result.fitness), result.at)


def share(source: Engine, target: Engine) -> None:
    """Copy all test results to the database of another installation, so that no model is tested twice."""
    for row in sqlite.read(source, query.fetch_mappings, "SELECT * FROM reader"):
        sqlite.write(target, query.run, query.make_insert("reader", row, "INSERT OR REPLACE"), *row.values())


def read_verdicts(connection: Connection, agent_id: str, keys: Sequence[str]) -> dict[str, str]:
    """Return the stored verdicts on an agent's questions, by key; keys without a verdict are left out."""
    sql = 'SELECT "key", verdict FROM verdict WHERE agent_id = ? AND "key" IN (SELECT value FROM json_each(?))'
    return {row[0]: row[1] for row in query.fetch_rows(connection, sql, agent_id, tuple(keys))}


def keep_verdicts(connection: Connection, agent_id: str, found: Mapping[str, str], at: str) -> None:
    """Store verdicts on an agent's questions, by key, in place of earlier ones."""
    sql = 'INSERT OR REPLACE INTO verdict (agent_id, "key", verdict, read_at) VALUES (?, ?, ?, ?)'
    query.change_each(connection, sql, ((agent_id, key, verdict, at) for key, verdict in found.items()))
