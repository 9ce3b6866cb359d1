"""Read words, counts, times and arguments of calls from JSON values of unknown form."""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import orjson

from memoryd.transcripts.lines import clean

ARGUMENTS_MAX = 4000
CUT_MARK = " characters left out]"  # ends arguments that were shortened
_CUT = re.compile(rf"… \[[\d,]+{re.escape(CUT_MARK)}\Z")
PATCH = "*** Begin Patch"  # begins a patch of Codex
_PATCHED = re.compile(r"\*\*\* (?:Add|Update|Delete) File: [^\n\\\"]{1,400}")  # the head of each file in a patch
_MOST_PATCHED = 50
# The arguments of calls that write a file, in all programs: its path, its whole new text, and a new part of its text.
PATHS = ("file_path", "filePath", "notebook_path", "path", "filename", "target_file")
WHOLE_TEXTS = ("content", "file_text")
NEW_PARTS = ("new_string", "new_str", "newString", "newText", "insert_text")
_WORD_MAX = 256
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")
_VERSION = re.compile(r"\d{1,4}(?:\.\d{1,6}){1,3}(?:[-+][A-Za-z0-9.]{1,16})?")
# A number between the bounds counts as seconds since 1970, and a larger one as milliseconds. The upper bound is the
# year 5138 in seconds and 1973 in milliseconds. Below the lower bound, the year 2000, it is a duration or a counter.
_SECONDS_MAX = 100_000_000_000
_SECONDS_MIN = 946_684_800
_TOKENS_MAX = 1_000_000_000


def read_mapping(value: object) -> dict[str, Any]:
    """Return `value` if it is a JSON object; an empty dict for anything else."""
    return value if type(value) is dict else {}


def mappings(value: object) -> list[dict[str, Any]]:
    """Return the JSON objects in `value` if it is a list; an empty list for anything else."""
    return [one for one in value if type(one) is dict] if type(value) is list else []


def first_text(given: Mapping[str, Any], keys: Iterable[str]) -> str:
    """Return the first of these members of a JSON object that is a string of any length; empty if none is."""
    return next((value for key in keys if isinstance(value := given.get(key), str)), "")


def read_word(value: object) -> str | None:
    """Return a string of at most 256 characters, such as an id, or None for anything else or an empty string."""
    if type(value) is str and 0 < len(value) <= _WORD_MAX:
        return value if value.isascii() and "\0" not in value else clean(value)
    return None


def first_word(value: object, *keys: str) -> str | None:
    """Return the first of these members of a JSON object that is a short string, or None if none is."""
    given = read_mapping(value)
    return next((found for key in keys if (found := read_word(given.get(key)))), None)


def type_name(value: object) -> str:
    """Return the type of a record as a name for counters and logs; `other` if it may be content."""
    return value if type(value) is str and _NAME.fullmatch(value) else "other"


def read_version(value: object) -> str | None:
    """Return a program's version, such as `2.1.218` or `0.9.0-beta.2`; None for anything else."""
    return value if type(value) is str and _VERSION.fullmatch(value) else None


def read_tokens(value: object) -> int:
    """Return a number of tokens; 0 for anything that cannot be one."""
    return value if type(value) is int and 0 < value < _TOKENS_MAX else 0


def read_time(value: object) -> str | None:
    """Return a time as UTC in ISO 8601 with Z, or None for anything that is not a time.

    A string that has this form already is returned unchanged.

    Args:
        value: An RFC 3339 string, with or without an offset (without one it is UTC), or seconds or milliseconds
            since 1970.
    """
    try:
        if type(value) is str:
            return _from_text(value)
        return _from_number(value) if type(value) is int or type(value) is float else None
    except (ValueError, OverflowError, OSError):
        return None


def _from_text(text: str) -> str | None:
    if not 19 <= len(text) <= 40 or text[4] != "-" or text[7] != "-":
        return None
    moment = datetime.fromisoformat(text)
    if text[-1] == "Z" and text[10] == "T":
        return text
    return _render(moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC))


def _from_number(number: float) -> str | None:
    seconds = number / 1000 if abs(number) >= _SECONDS_MAX else number
    return _render(datetime.fromtimestamp(seconds, UTC)) if seconds >= _SECONDS_MIN else None


def _render(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def render_arguments(name: object, value: object) -> str:
    """Return a tool call as text: the tool's name and its arguments as compact JSON, shortened if they are long.

    Of a shortened patch, the heads of the omitted files are kept, because they tell which files were changed.
    """
    text = value if type(value) is str else compact_json(value)
    if len(text) > ARGUMENTS_MAX:
        later = [one for one in _PATCHED.finditer(text) if one.end() > ARGUMENTS_MAX] if PATCH in text else []
        heads = list(dict.fromkeys(one[0] for one in later))[:_MOST_PATCHED]
        kept = text[: min([ARGUMENTS_MAX, *(one.start() for one in later)])]  # stops before the first omitted head
        named = "\n".join(("", *heads, "")) if heads else ""
        text = f"{kept}{named}… [{len(text) - len(kept):,}{CUT_MARK}"
    return clean(f"{read_word(name) or 'tool'} {text}".rstrip())


def shown_arguments(text: str) -> dict[str, Any]:
    """Parse the arguments in the output of `render_arguments`; an empty dict if there are none.

    Of a shortened text, only the lines before the last shown one count, because that one may be incomplete.
    """
    given = text[max(0, text.find("{")) :]
    cut = _CUT.search(given)
    try:
        if cut is None:
            found = orjson.loads(given)
        else:
            from pydantic_core import from_json

            found = from_json(given[: given.rfind("\\n", 0, cut.start())], allow_partial="trailing-strings")
    except ValueError:
        return {}
    return found if type(found) is dict else {}


def compact_json(value: object) -> str:
    """Return a value as compact JSON; empty for None, and a mark if it is nested too deeply."""
    if value is None:
        return ""
    with suppress(orjson.JSONEncodeError):
        return orjson.dumps(value).decode()
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, ValueError):
        return "[…]"
