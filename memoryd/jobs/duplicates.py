"""Recognise duplicates: texts that were said before, word by word in the same order.

A day that was added beside "yesterday" counts only if both texts have one.
"""

from collections.abc import Iterable

from memoryd.ledger import dates
from memoryd.text import normal


class KnownTexts:
    """Remember texts; `says` reports whether another text equals one of them in normal form."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._forms: set[str] = set()
        self._bare: set[str] = set()  # without added days
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Remember `text`."""
        self._forms.add(normal.normalize(text))
        self._bare.add(normal.normalize(dates.remove_days(text)))

    def says(self, text: str) -> bool:
        """Return True if `text` equals one of the texts added; a text without words equals none."""
        form, bare = normal.normalize(text), normal.normalize(dates.remove_days(text))
        # Of two texts with a day each, the days count. The day of a text without one is not known.
        return bool(form) and (form in self._forms or bare in self._forms or form in self._bare)
