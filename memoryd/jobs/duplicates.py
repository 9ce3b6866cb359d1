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
        form, bare = _read_forms(text)
        self._forms.add(form)
        self._bare.add(bare)

    def says(self, text: str) -> bool:
        """Return True if `text` equals a known text; a text without words equals none."""
        if not self._forms:
            return False
        form, bare = _read_forms(text)
        # If both texts have dates, the dates must agree. If one has none, its date is unknown and is not compared.
        return bool(form) and (form in self._forms or bare in self._forms or form in self._bare)


def _read_forms(text: str) -> tuple[str, str]:
    """Return the normal form of a text, and that of the text without added dates."""
    form, plain = normal.normalize(text), dates.remove_days(text)
    return form, form if plain == text else normal.normalize(plain)
