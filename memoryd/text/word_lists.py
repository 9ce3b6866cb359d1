"""Read lists of words of many languages from `word_lists.txt`."""

import pkgutil
import re
from functools import cache


def list_words(name: str) -> tuple[str, ...]:
    """Return the entries of a list."""
    return _read_lists()[name]


def list_bytes(name: str) -> tuple[bytes, ...]:
    """Return the entries of a list, in UTF-8."""
    return tuple(word.encode() for word in _read_lists()[name])


@cache
def _read_lists() -> dict[str, tuple[str, ...]]:
    text = (pkgutil.get_data(__name__, "word_lists.txt") or b"").decode()
    parts = re.split(r"^\[(.+)\]$", text, flags=re.MULTILINE)[1:]
    return {
        name: tuple(re.split(r"[|\n]+", body.strip()) if "|" in body else body.split())
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }
