"""Hold the keys of the admin page, and tell whether other machines could reach it without a login."""
# ruff: noqa: RUF009 - the calls in the class bodies make dataclass fields

from dataclasses import dataclass
from pathlib import Path

from memoryd import config_values as values
from memoryd.config_keys import make_key, make_list, make_required_key

HINT = "127.0.0.1:8765; or admin.users with passphrases and admin.tls_certificate, admin.tls_key; or admin.proxy"


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
