"""The dream diary, `memory/dreams/YYYY-MM-DD.md`: a title, then a block for each dream of the day, as in a daily file.

It tells people what a dream did. It is no memory: nothing is searched for in it, dreamt of it or told from it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date

FOLDER = "memory/dreams"
_TITLE = re.compile(rb"(?:\xef\xbb\xbf)?# Dream Diary: (\d{4}-\d\d-\d\d)[ \t]*\r?\n?")


def new_file(day: date) -> bytes:
    """The first bytes of a day's diary."""
    return f"# Dream Diary: {day.isoformat()}\n".encode()


def is_one(data: bytes) -> bool:
    """Whether a file is a diary, told by its first line."""
    return _TITLE.match(data) is not None


def has_content(data: bytes) -> bool:
    """Whether anything was written below the title."""
    return bool(_TITLE.sub(b"", data, count=1).strip())
