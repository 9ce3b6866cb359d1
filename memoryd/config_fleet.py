"""Hold the keys of a fleet: many hosts that share one PostgreSQL."""
# ruff: noqa: RUF009 - the calls in the class bodies make dataclass fields

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from memoryd import config_values as values
from memoryd.config_keys import make_key
from memoryd.errors import ConfigError

PROVIDER = "fleet"  # a value of `llm.provider`


def parse_database(place: values.PathBase, value: object) -> str:
    """Parse the address of the PostgreSQL database.

    A password in it is refused, because it would appear wherever the settings are shown.
    """
    text = place.expand(values.parse_text(place, value))
    try:
        parts = urlsplit(text)
        has_password = bool(parts.password) or "password" in parse_qs(parts.query)
    except ValueError:
        raise ConfigError("this is not a URL", hint="postgresql://user@host:5432/memoryd?sslmode=verify-full") from None
    if parts.scheme not in {"postgresql", "postgres"}:
        raise ConfigError("a PostgreSQL URL is needed", hint="postgresql://user@host:5432/memoryd?sslmode=verify-full")
    if has_password:
        raise ConfigError("a password is in the URL", hint="put it into ~/.pgpass, or set PGPASSFILE or PGPASSWORD")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """Configure the fleet: its database, the name of this host, and the limits that workers keep for all hosts."""

    database: str | None = make_key(values.or_null(parse_database), None)
    host: str | None = make_key(values.or_null(values.agent_id), None)
    key_file: Path | None = make_key(values.or_null(values.any_path), None)
    spread: timedelta = make_key(values.make_duration_parser(), timedelta(hours=2))
    daily_tokens: int = make_key(values.make_integer_parser(0), 50_000_000)
    agent_daily_tokens: int = make_key(values.make_integer_parser(0), 2_000_000)
    requests_per_minute: int = make_key(values.make_integer_parser(1), 500)
    models: tuple[str, ...] = make_key(values.make_list_parser(values.parse_text), ())
    keep: timedelta = make_key(values.make_duration_parser(timedelta(days=1)), timedelta(days=90))
    # True for a copy of this host that may ask questions, but must not lease workspaces or send rows.
    is_trial: bool = False


def list_fixed(fleet: FleetSettings) -> tuple[object, ...]:
    """Return the values that cannot change while the daemon runs."""
    return fleet.database, fleet.host, fleet.key_file


def find_mistakes(fleet: FleetSettings, provider: str, agents: Sequence[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield key, mistake and hint of each key that the fleet needs and that is missing."""
    if fleet.database is not None and fleet.host is None:
        yield "fleet.host", "is missing", "name this host: a name that no other host of the fleet has"
    if provider != PROVIDER:
        return
    if fleet.database is None:
        yield "fleet.database", "is missing", "llm.provider: fleet asks through it"
    silo = next((agent.id for agent in agents if agent.privacy == "silo"), None)
    if silo is not None and fleet.key_file is None:
        what = (
            f"is missing, and {silo} has privacy: silo; without a key, a reader of the database could read its memory"
        )
        yield "fleet.key_file", what, "a file with the key that all hosts and workers of the fleet share"
