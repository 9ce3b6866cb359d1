"""Read JSON of others: a whole text, or values anywhere in a text, such as a model's answer."""

import json
import re
from collections.abc import Iterator
from typing import Any

_MOST_TRIES = 2_000  # the most positions at which a value is tried


def find_values(text: str, begins: str = "[{") -> Iterator[tuple[Any, int, int]]:
    """Yield the JSON values of `text` that begin with a character of `begins`, each with its start and end offset."""
    decoder = json.JSONDecoder(parse_constant=refuse_constant)
    start = re.compile(f"[{re.escape(begins)}]")
    at = 0
    for _ in range(_MOST_TRIES):
        found = start.search(text, at)
        if found is None:
            return
        try:
            value, at = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            at = found.end()
        else:
            yield value, found.start(), at


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; None if the text is not valid JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def refuse_constant(name: str) -> Any:
    """Raise a ValueError for `NaN` and infinities, which Python reads but JSON does not have."""
    raise ValueError(f"{name} is not JSON")
