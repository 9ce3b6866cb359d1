"""Hold the keys of three sections: the admin page, the model, and a fleet of many hosts that share one PostgreSQL.

Also find missing or forbidden values, and tell whether other machines could reach the admin page without a login.
"""
# ruff: noqa: RUF009 - the calls in the class bodies make dataclass fields

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from memoryd import config_values as values
from memoryd.config_values import make_key, make_list, make_required_key
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


def find_fleet_mistakes(fleet: FleetSettings, provider: str, agents: Sequence[Any]) -> Iterator[tuple[str, str, str]]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings:
    """Configure which model answers a job's questions."""

    provider: str = make_key(values.one_of("offline", "openai", "fleet"), "offline")
    model: str | None = make_key(values.or_null(values.parse_text), None)
    base_url: str | None = make_key(values.or_null(values.base_url), None)
    api_key_env: str = make_key(values.variable_name, "OPENAI_API_KEY")
    timeout: timedelta = make_key(values.make_duration_parser(timedelta(seconds=1)), timedelta(seconds=120))
    daily_tokens: int = make_key(values.make_integer_parser(0), 2_000_000)
    run_tokens: int = make_key(values.make_integer_parser(0), 200_000)
    max_output_tokens: int = make_key(values.make_integer_parser(256), 16_000)
    verify: str = make_key(values.one_of("model", "off"), "model")
    verifier: str | None = make_key(values.or_null(values.parse_text), None)
    fallback: str = make_key(values.one_of("offline", "wait"), "offline")


def find_llm_mistakes(llm: LlmSettings, agents: Sequence[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield key, mistake and hint of each missing model name, and of a verifier that may not read a memory."""
    # There is no default model, because a person must choose which model reads the sessions.
    if llm.provider in {"openai", "fleet"} and llm.model is None and any(agent.model is None for agent in agents):
        yield "llm.model", "is missing", "name the model to ask, here or for each agent"
    for agent in agents if llm.verifier is not None else ():
        if agent.privacy == "silo" and llm.verifier != (agent.model or llm.model):
            what = f"{llm.verifier} would read the memory of {agent.id}, which has privacy: silo and another model"
            hint = f"null, which is the agent's own model, or a configuration without {agent.id}"
            yield "llm.verifier", what, hint


ADMIN_HINT = "127.0.0.1:8765; or admin.users with passphrases and admin.tls_certificate, admin.tls_key; or admin.proxy"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminUser:
    """Configure a person who may use the admin page from another machine."""

    name: str = make_required_key(values.agent_id)
    passphrase: str | None = make_key(values.or_null(values.passphrase_hash), None)
    owner: bool = make_key(values.parse_boolean, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings:
    """Configure the address of the admin page, and who may use it from other machines."""

    listen: str | None = make_key(values.or_null(values.listen_address), None)
    users: tuple[AdminUser, ...] = make_list(AdminUser, ())
    tls_certificate: Path | None = make_key(values.or_null(values.any_path), None)
    tls_key: Path | None = make_key(values.or_null(values.any_path), None)
    proxy: str | None = make_key(values.or_null(values.parse_text), None)
    proxy_header: str = make_key(values.parse_text, "X-Forwarded-User")
    host: str | None = make_key(values.or_null(values.parse_text), None)


def is_open_to_all(admin: AdminSettings) -> bool:
    """Return True if other machines can reach the page without a login.

    TLS with passphrases protects it, and so does a named proxy with users.
    """
    if admin.listen is None or values.is_loopback(admin.listen):
        return False
    has_tls = admin.tls_certificate is not None and admin.tls_key is not None
    has_users = bool(admin.users) and all(user is not None and user.passphrase for user in admin.users)
    return not ((has_tls and has_users) or (admin.proxy is not None and admin.users))
