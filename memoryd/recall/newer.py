"""Put a person's later statement before an earlier one on the same subject.

Nothing decides whether the later statement replaces the earlier one: both are shown with their days.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from memoryd.text.content import list_stems

_SAME_SUBJECT = 0.3  # share of the content words of the shorter statement that the other one has as well

_Shown = TypeVar("_Shown")


def put_newer_first(
    ranked: Iterable[_Shown],
    read: Callable[[_Shown], tuple[str, str]],
    may_pass: Callable[[_Shown, _Shown], bool] = lambda _newer, _older: True,
) -> list[_Shown]:
    """Return things in their order, but a later statement before each earlier one that it may be about.

    `read` returns the text of a thing and when a person said it, in ISO 8601; empty for what nobody said. `may_pass`
    can keep a later thing behind an earlier one.
    """
    made: list[tuple[_Shown, frozenset[str], str]] = []
    for one in ranked:
        text, said_at = read(one)
        words = list_stems(text)
        before = (
            place
            for place, (other, others, earlier) in enumerate(made)
            if earlier and earlier < said_at and _is_alike(words, others) and may_pass(one, other)
        )
        made.insert(next(before, len(made)), (one, words, said_at))
    return [one for one, _, _ in made]


def _is_alike(words: frozenset[str], others: frozenset[str]) -> bool:
    shared = len(words & others)
    return shared > 0 and shared >= _SAME_SUBJECT * min(len(words), len(others))
