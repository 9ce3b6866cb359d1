"""Read and write the stored form of a turn's text: UTF-8 or zlib (RFC 1950), with the CRC-32 of the text beside it.

SQL has two functions. `plain(CAST(text AS BLOB), text_crc)` returns the text in either form; a text that is not what
its checksum says reads as empty, so that a damaged row costs only itself. `text_crc(text)` returns the checksum.
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import Any

# A damaged value of any other column must not end a query either; what it was is told by `verify`.
decode_lossily = partial(str, encoding="utf-8", errors="replace")


_LONG = 1024  # bytes from which on a new text is compressed at once: two thirds of all bytes are in such texts
_FAST = 1  # zlib's level, a third faster than the usual one and 5 % larger


def pack(text: str) -> bytes:
    """Return a text as a compressed `turn.text` holds it."""
    return zlib.compress(text.encode())


def pack_new(text: str) -> str | bytes:
    """Return a new text as `turn.text` holds it: compressed only if it is long."""
    if len(text) * 4 < _LONG:
        return text
    data = text.encode()
    return zlib.compress(data, _FAST) if len(data) >= _LONG else text


def compute_crc(text: str | None) -> int | None:
    """Return the checksum of a text as `turn.text_crc` holds it."""
    return None if text is None else zlib.crc32(text.encode("utf-8", "replace"))


def unpack(stored: bytes | None, crc: int | None) -> str | None:
    """Return the text of `turn.text`; empty if it is damaged. A row of before there were checksums has none."""
    if stored is None:
        return None
    for read in (bytes, zlib.decompress):
        try:
            data = read(stored)
            if crc is None or zlib.crc32(data) == crc:
                return data.decode()
        except (zlib.error, UnicodeDecodeError):
            continue
    return ""


def register(connection: Any) -> None:
    """Give a connection of the SQLite library these functions, and let it read damaged text."""
    connection.text_factory = decode_lossily
    connection.create_function("plain", 2, unpack, deterministic=True)
    connection.create_function("text_crc", 1, compute_crc, deterministic=True)
