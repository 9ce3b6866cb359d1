"""Recognise duplicates: texts that equal an earlier text in normal form.

A date that memoryd added beside "yesterday" and the like counts only if both texts have one.
"""

from collections.abc import Iterable

from memoryd.ledger import dates
from memoryd.text import normal


class KnownTexts:
    """Hold a set of texts in normal form; `says` reports whether another text equals one of them."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._forms: set[str] = set()
        self._bare: set[str] = set()  # the normal forms without added dates
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Add `text` to the known texts."""
        self._forms.add(normal.normalize(text))
        self._bare.add(normal.normalize(dates.remove_days(text)))

    def says(self, text: str) -> bool:
        """Return True if `text` equals a known text; a text without words equals none."""
        form, bare = normal.normalize(text), normal.normalize(dates.remove_days(text))
        # If both texts have dates, the dates must agree. If one has none, its date is unknown and is not compared.
        return bool(form) and (form in self._forms or bare in self._forms or form in self._bare)
