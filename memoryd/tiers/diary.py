"""Read and write the dream diary, `memory/dreams/YYYY-MM-DD.md`: a title, then a block for each dream of the day.

The diary reports to people what a dream did. It is not memory, so it is never searched, used by a dream, or injected.
"""

import re
from datetime import date

from memoryd.tiers import daily

FOLDER = "memory/dreams"
IMPRESSION = "An impression, see the sources:"  # the line before words of the model or of the offline backend
_WORDS = re.compile(rb"^((?:An|The model's) impression, see the sources:\r?\n).*", re.MULTILINE | re.DOTALL)
_REASON = re.compile(
    rb"^(- [A-Z][a-z]+: core_[0-9a-f]{8}(?: by core_[0-9a-f]{8}(?:, core_[0-9a-f]{8})*)?): .*$", re.MULTILINE
)
_FORGOTTEN = rb"\1\nForgotten.\n"
_TITLE = re.compile(rb"(?:\xef\xbb\xbf)?# Dream Diary: (\d{4}-\d\d-\d\d)[ \t]*\r?\n?")


def new_file(day: date) -> bytes:
    """Return the first bytes of a day's diary."""
    return f"# Dream Diary: {day.isoformat()}\n".encode()


def is_one(data: bytes) -> bool:
    """Return True if a file is a diary, by its first line."""
    return _TITLE.match(data) is not None


def has_content(data: bytes) -> bool:
    """Return True if anything is written below the title."""
    return bool(_TITLE.sub(b"", data, count=1).strip())


def without_impressions(data: bytes) -> bytes:
    """Return a diary without the models' own words, also in reasons; memoryd's counts stay."""
    file = daily.parse(data)
    raws = (_WORDS.sub(_FORGOTTEN, _REASON.sub(rb"\1", block.raw)) for block in file.blocks)
    return file.head + b"".join(raws)
