"""Recognise duplicates: texts that were said before, word by word in the same order.

A day that was added beside "yesterday" does not count.
"""

from collections.abc import Iterable

from memoryd.ledger import dates
from memoryd.text import normal


class KnownTexts:
    """Remember texts; `says` reports whether another text equals one of them in normal form."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._forms = set(map(_fold, texts))

    def add(self, text: str) -> None:
        """Remember `text`."""
        self._forms.add(_fold(text))

    def says(self, text: str) -> bool:
        """Return True if `text` equals one of the texts added; a text without words equals none."""
        form = _fold(text)
        return bool(form) and form in self._forms


def _fold(text: str) -> str:
    return normal.normalize(dates.remove_days(text))
