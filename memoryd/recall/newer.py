"""Put a person's newer statement before an older one on the same subject.

The module does not decide whether the newer statement replaces the older one: both are shown with their days.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from memoryd.text.content import list_stems

_SHARED = 0.3  # two statements on one subject have more than this share of the shorter one's content words in common
_NEAR = 0.8  # a newer statement passes an older one if it has at least this share of its score

_Shown = TypeVar("_Shown")


def put_newer_first(
    ranked: Iterable[_Shown], read: Callable[[_Shown], tuple[str, str]], rate: Callable[[_Shown], float] = lambda _: 0.0
) -> list[_Shown]:
    """Return items in their order, but with a newer statement before the first older one on the same subject.

    Args:
        ranked: the items, the best first.
        read: returns the text of an item, and when a person said it (ISO 8601); an empty time if nobody said it.
        rate: returns the score of an item; it passes only items with nearly the same score.
    """
    made: list[tuple[_Shown, frozenset[str], str]] = []
    for one in ranked:
        text, said_at = read(one)
        words = list_stems(text)
        for place, (other, others, earlier) in enumerate(made if said_at else ()):
            # Words come last, because a long file has millions of pairs and an agent waits.
            is_newer = "" < earlier < said_at and rate(one) <= rate(other)
            is_alike = is_newer and len(words & others) > _SHARED * min(len(words), len(others))
            if is_alike and all(_NEAR * rate(passed) <= rate(one) for passed, _, _ in made[place:]):
                made.insert(place, (one, words, said_at))
                break
        else:
            made.append((one, words, said_at))
    return [one for one, _, _ in made]
