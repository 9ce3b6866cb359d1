"""Ask a host to run, pause, resume, cancel or roll back something. The host decides by its own rules.

A request is encrypted with the fleet's key, names the host, and is valid for a day. So a person who can only write to
PostgreSQL cannot make a request, move one to another host, or repeat one.
"""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from memoryd.clock import moment_of
from memoryd.errors import NotFoundError, RefusedError
from memoryd.fleet.connection import Database
from memoryd.fleet.sealing import Seal

ACTIONS = ("run", "pause", "resume", "cancel", "rollback")
HOLDS = timedelta(days=1)  # far more than clocks differ


@dataclass(frozen=True, slots=True)
class HostRequest:
    """Hold a request to a host."""

    id: str
    action: str
    by: str  # the person, and the host they ask from
    at: str
    agent: str | None = None
    run: str | None = None  # for cancel and rollback
    kind: str | None = None  # for run: the kind of job


def post(database: Database, seal: Seal, host: str, asked: HostRequest) -> None:
    """Store a request for a host.

    Raises:
        RefusedError: the fleet has no key, or the action is unknown or lacks its agent, kind or run.
        NotFoundError: the fleet does not know the host.
    """
    if not seal.has_key:
        raise RefusedError("this fleet has no key to sign requests with", "fleet.key_file", "docs/fleet.md")
    needs = {"run": (asked.agent, asked.kind), "cancel": (asked.run,), "rollback": (asked.run,)}
    if asked.action not in ACTIONS or not all(needs.get(asked.action, (asked.agent,))):
        hint = "run needs an agent and a kind, pause and resume an agent, cancel and rollback a run"
        raise RefusedError(f"the request {asked.action!r} is not complete", host, hint)
    if not database.fetch("SELECT 1 FROM fleet_host WHERE host = %s", host):
        raise NotFoundError(f"the fleet knows no host {host!r}", database.place, "memoryd fleet status lists them")
    body = seal.wrap(f"request {host}", asdict(asked))
    database.fetch("INSERT INTO fleet_request (id, host, body) VALUES (%s, %s, %s)", asked.id, host, body)


def list_waiting(database: Database) -> list[tuple[Any, ...]]:
    """Return the id and the sealed body of each open request to this host, oldest first and at most 20."""
    sql = "SELECT id, body FROM fleet_request WHERE host = %s AND answered_at IS NULL ORDER BY asked_at LIMIT 20"
    return database.fetch(sql, database.host)


def open_request(seal: Seal, host: str, body: str, now: datetime) -> HostRequest:
    """Return the request in a sealed body.

    Raises:
        RefusedError: this host has no key, or the request was not made for it with the fleet's key, or is too old.
    """
    if not seal.has_key:
        raise RefusedError("this host has no key to check requests with", "fleet.key_file")
    value: Any = seal.unwrap(f"request {host}", body)
    try:
        asked = HostRequest(**value)
        age = abs(now - moment_of(asked.at))
    except (TypeError, ValueError):
        raise RefusedError("the request cannot be read", host) from None
    if age > HOLDS:
        raise RefusedError(f"the request is dated {asked.at}, and requests are valid for one day", host)
    return asked


def answer(database: Database, row_id: str, outcome: str) -> None:
    """Store the outcome of a request."""
    sql = "UPDATE fleet_request SET answered_at = clock_timestamp(), outcome = %s WHERE id = %s"
    database.fetch(sql, outcome[:500], row_id)
