"""Recognise duplicates: texts that were said before, word by word in the same order."""

from collections.abc import Iterable

from memoryd.text import normal


class KnownTexts:
    """Remember texts; `says` reports whether another text equals one of them in normal form."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._forms = set(map(normal.normalize, texts))

    def add(self, text: str) -> None:
        """Remember `text`."""
        self._forms.add(normal.normalize(text))

    def says(self, text: str) -> bool:
        """Return True if `text` equals one of the texts added; a text without words equals none."""
        form = normal.normalize(text)
        return bool(form) and form in self._forms
