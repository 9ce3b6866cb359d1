"""Read and write the stored form of a turn's text and of its record id, and of the messages of a summary.

A text is UTF-8 or zlib (RFC 1950), a turn's with the CRC-32 of the text beside it. An id that is a hash is stored as
its bytes.
SQL has three functions. `plain(CAST(text AS BLOB), text_crc)` returns the text in either form; a text that is not what
its checksum says reads as empty, so that a damaged row costs only itself. `text_crc(text)` returns the checksum, and
`key_of(record_id)` an id as `turn.record_key` holds it.
"""

import re
import zlib
from functools import partial
from typing import Any

# A damaged value of any other column must not end a query either; `verify` reports it.
decode_lossily = partial(str, encoding="utf-8", errors="replace")


_LONG = 256  # a new text of so many characters is compressed at once; below, the time is worth more than the space
_FAST = 1  # zlib's level, a third faster than the usual one and 5 % larger
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


def pack(text: str) -> bytes:
    """Return a text in the form of a compressed column."""
    return zlib.compress(text.encode())


def pack_new(text: str) -> str | bytes:
    """Return a new text in the form of `turn.text`: compressed unless it is short."""
    return zlib.compress(text.encode(), _FAST) if len(text) >= _LONG else text


def pack_id(record_id: str) -> str | bytes:
    """Return the id of a record in the form of `turn.record_key`."""
    return bytes.fromhex(record_id[7:]) if len(record_id) == 71 and _HASH.fullmatch(record_id) else record_id


def compute_crc(text: str | None) -> int | None:
    """Return the checksum of a text in the form of `turn.text_crc`."""
    return None if text is None else zlib.crc32(text.encode("utf-8", "replace"))


def unpack(stored: bytes | None, crc: int | None) -> str | None:
    """Return the text of `turn.text`; empty if it is damaged. A row from before the checksums has none."""
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
    for name, parameters, function in (("plain", 2, unpack), ("text_crc", 1, compute_crc), ("key_of", 1, pack_id)):
        connection.create_function(name, parameters, function, deterministic=True)
