"""Decide whether a hit is worth injecting after a prompt; most of a prompt is conversation, not a query."""

from memoryd.recall.answers import QUESTION
from memoryd.recall.query import Query, TermKind
from memoryd.recall.snippet import find_held
from memoryd.text.word_lists import list_words
from memoryd.text.wording import STOP, find_stem, fold, list_units

_TELLING = frozenset({TermKind.NAME, TermKind.PHRASE})
# Words of prompts about anything: "ok, go on". Others begin an order about anything, but not a question.
_SMALL_TALK = STOP.union(list_units(fold(" ".join(list_words("acknowledgements")))))
_ORDERS = _SMALL_TALK.union(list_words("orders of work"))


def is_about(text: str, prompt: Query, asked: str) -> bool:
    """Return True if a text has two words of a prompt, or one name or quoted phrase of it.

    Stop words and small talk do not count, and in an order neither do words such as "write" and "add". In a script
    without spaces, every two characters count as a word, but not as a name. `asked` is the prompt as typed.
    """
    empty = _SMALL_TALK if QUESTION.search(asked) else _ORDERS
    units = {term.text: [one for one in list_units(fold(term.text)) if one not in empty] for term in prompt.terms}
    own = set(find_held(text, [word for word in units if units[word]]))
    names = {term.text for term in prompt.terms if term.kind in _TELLING and term.text.isascii()}
    return not names.isdisjoint(own) or len({find_stem(one) for word in own for one in units[word] if one[1:]}) >= 2
