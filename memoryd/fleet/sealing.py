"""Encrypt and sign texts in PostgreSQL.

With a key, a reader of PostgreSQL learns no text, and a writer cannot forge one. Fernet (AES-CBC with HMAC-SHA-256)
does the work. The purpose of a text is encrypted with it, so that nobody can move a reply to another question. Without
a key, texts are readable, as configured for open agents. With a key, a readable text is refused.
"""

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

from memoryd.errors import ConfigError, RefusedError, StateError, describe
from memoryd.fleet.extra import fernet

HINT = "a line of 32 random bytes: openssl rand -base64 32 | tr '+/' '-_'"


class Seal:
    """Seal and open values with the keys of a fleet. The first key seals, and all keys open."""

    def __init__(self, keys: list[str]) -> None:
        self._keys = keys
        self._box = fernet.MultiFernet([fernet.Fernet(key) for key in keys]) if keys else None

    @property
    def has_key(self) -> bool:
        """Return True if texts are encrypted."""
        return self._box is not None

    def wrap(self, purpose: str, value: Any) -> str:
        """Return a value as text for the database, encrypted if there is a key."""
        text = json.dumps({"for": purpose, "value": value}, separators=(",", ":"))
        return text if self._box is None else str(self._box.encrypt(text.encode()).decode())

    def unwrap(self, purpose: str, text: str) -> Any:
        """Return the value of a text from the database.

        Raises:
            RefusedError: the text is not sealed with a key of this fleet, or was made for another purpose.
        """
        try:
            found = json.loads(text if self._box is None else self._box.decrypt(text.encode()))
        except (fernet.InvalidToken, ValueError):
            raise RefusedError("a text of the fleet is not encrypted with its key", purpose, "fleet.key_file") from None
        if not isinstance(found, dict) or found.get("for") != purpose or "value" not in found:
            raise RefusedError("a text of the fleet was made for another purpose", purpose)
        return found["value"]

    def name(self, *parts: str) -> str:
        """Return the same name for the same parts.

        With a key, nobody without it can check which parts a name stands for.
        """
        data = json.dumps(parts).encode()
        return hmac.new(self._keys[0].encode() if self._keys else b"", data, hashlib.sha256).hexdigest()


def read_seal(key_file: Path | None) -> Seal:
    """Read the keys of the fleet, one on each line. Without a file, nothing is sealed.

    Raises:
        StateError: the file cannot be read, or others may read it.
        ConfigError: a line is no key, or the file is empty.
    """
    if key_file is None:
        return Seal([])
    try:
        mode = key_file.stat().st_mode
        lines = key_file.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        raise StateError(f"the key of the fleet cannot be read: {describe(error)}", str(key_file), HINT) from error
    if mode & 0o077:
        raise StateError("others may read the key of the fleet", str(key_file), f"chmod 600 {key_file}")
    try:
        seal = Seal(lines)
    except ValueError:
        raise ConfigError("a line of the file is not a key", str(key_file), HINT) from None
    if not lines:
        raise ConfigError("the file holds no key", str(key_file), HINT)
    return seal
