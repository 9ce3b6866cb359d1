"""A value that is no secret, as a person writes it down: itself, or a regular expression between slashes."""

from __future__ import annotations

import functools
import re


@functools.lru_cache(maxsize=1024)
def compile_allowed(entry: str) -> re.Pattern[str]:
    """Return what all of a found value must match to be left alone.

    Raises:
        ValueError: what stands between the slashes is no regular expression; with the reason.
    """
    is_expression = len(entry) > 2 and entry.startswith("/") and entry.endswith("/")
    try:
        return re.compile(entry[1:-1] if is_expression else re.escape(entry), re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from error
