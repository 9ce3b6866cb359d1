"""A tool's settings in JSON: all that is not memoryd's keeps its value, its order and the file's indentation."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from memoryd.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_DEEPEST = 200  # what no settings are; the interpreter's own end is not far behind
_SURROGATE = re.compile("[\ud800-\udfff]")
_TOO_DEEP = "is nested more deeply than any settings are"
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)


def read(old: bytes | None, path: Path, by_hand: str) -> dict[str, Any]:
    """Read a file, empty where there is none; `by_hand` is what a person would put into it.

    Raises:
        RefusedError: it has comments, a key twice, is nested too deeply, or is no object: it is not ours to lose.
    """
    try:
        document = json.loads(old.decode() or "{}", object_pairs_hook=_unique) if old is not None else {}
    except ValueError as error:  # no JSON, no UTF-8, or a key twice
        raise RefusedError("is no plain JSON (comments, a key twice, a stray comma?)", str(path), by_hand) from error
    except RecursionError as error:
        raise RefusedError(_TOO_DEEP, str(path), by_hand) from error
    if not isinstance(document, dict):
        raise RefusedError("is no JSON object", str(path), by_hand)
    if _is_deep(document):
        raise RefusedError(_TOO_DEEP, str(path), by_hand)
    return document


def _is_deep(document: dict[str, Any]) -> bool:
    level: list[Any] = [document]
    for _ in range(_DEEPEST):
        level = [
            part
            for one in level
            if isinstance(one, dict | list)
            for part in (one.values() if isinstance(one, dict) else one)
        ]
    return bool(level)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key stands twice")
    return made


def written(document: dict[str, Any], old: bytes | None) -> bytes:
    """The document as the old file was written."""
    text = (old or b"").decode()
    if "\n" not in text.strip() and text.strip() not in {"", "{}"}:
        compact = (",", ":") if '":' in text and '": ' not in text else (", ", ": ")
        made = json.dumps(document, ensure_ascii=False, separators=compact)
    else:
        found = _INDENT.search(text)
        made = json.dumps(document, ensure_ascii=False, indent=found[1] if found else 2)
    ended = "\n" if not text.strip() or text.endswith("\n") else ""
    made = _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", made)  # half of a pair, which UTF-8 cannot say
    return (made + ended).replace("\n", "\r\n" if "\r\n" in text else "\n").encode()


def drop_empty(document: dict[str, Any], keys: Sequence[str]) -> None:
    """Take out what lies at the end of a way of keys where it is empty, and what is empty without it."""
    if not keys:
        return
    inner = document[keys[0]]
    drop_empty(inner, keys[1:])
    if not inner:
        del document[keys[0]]
