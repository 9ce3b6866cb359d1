"""Convert between plain and stored forms of texts: of turns, of record ids, and of the messages of a summary.

A stored text is UTF-8 or zlib (RFC 1950). A turn's text also has the CRC-32 of the plain text. A record id that is a
hash is stored as its bytes.

SQL has three functions. `plain(CAST(text AS BLOB), text_crc)` returns the plain text of either form. If the text does
not match its checksum, the result is empty, so that a damaged row does not break a query. `text_crc(text)` returns the
checksum. `key_of(record_id)` returns an id in the form of `turn.record_key`.
"""

import re
import zlib
from contextlib import suppress
from functools import partial
from typing import Any

# Damaged text in any other column must not break a query either; `verify` reports the damage.
decode_lossily = partial(str, encoding="utf-8", errors="replace")


_LONG = 256  # characters; a shorter new text stays plain, because compressing it would take more time than it is worth
_FAST = 1  # zlib's level: a third faster than the default, and 5 % larger
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


def pack(text: str) -> bytes:
    """Return a text in compressed form."""
    return zlib.compress(text.encode())


def pack_new(text: str) -> str | bytes:
    """Return a new text in the form of `turn.text`: compressed if it has at least `_LONG` characters."""
    return zlib.compress(text.encode(), _FAST) if len(text) >= _LONG else text


def pack_id(record_id: str) -> str | bytes:
    """Return the id of a record in the form of `turn.record_key`."""
    return bytes.fromhex(record_id[7:]) if len(record_id) == 71 and _HASH.fullmatch(record_id) else record_id


def compute_crc(text: str | None) -> int | None:
    """Return the checksum of a text in the form of `turn.text_crc`; None for None."""
    return None if text is None else zlib.crc32(text.encode("utf-8", "replace"))


def unpack(stored: bytes | None, crc: int | None) -> str | None:
    """Return the plain text of `turn.text`; an empty string if it is damaged.

    `crc` is None in rows of versions without checksums; then the text is not checked.
    """
    if stored is None:
        return None
    for read in (bytes, zlib.decompress):
        with suppress(zlib.error, UnicodeDecodeError):
            data = read(stored)
            if crc is None or zlib.crc32(data) == crc:
                return data.decode()
    return ""


def register(connection: Any) -> None:
    """Add the SQL functions to a connection, and let it read damaged text."""
    connection.text_factory = decode_lossily
    for name, parameters, function in (("plain", 2, unpack), ("text_crc", 1, compute_crc), ("key_of", 1, pack_id)):
        connection.create_function(name, parameters, function, deterministic=True)
