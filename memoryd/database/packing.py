"""Compress the text of a turn, and give SQL the function `plain`, which returns the text of a row in either form."""

from __future__ import annotations

import zlib
from typing import Any


def pack(text: str) -> bytes:
    """Return a text as a compressed `turn.text` holds it."""
    return zlib.compress(text.encode())


def unpack(stored: str | bytes | None) -> str | None:
    """Return the text of `turn.text`, which is compressed if it is bytes."""
    return zlib.decompress(stored).decode() if isinstance(stored, bytes) else stored


def register(connection: Any) -> None:
    """Give a connection of the SQLite library the function `plain`."""
    connection.create_function("plain", 1, unpack, deterministic=True)
