"""Decide whether a hit is worth injecting after a prompt; most of a prompt is conversation, not a query."""

from collections.abc import Collection, Mapping

from memoryd.recall.answers import QUESTION
from memoryd.recall.query import Query, TermKind
from memoryd.recall.snippet import find_held
from memoryd.recall.words import FUNCTION_WORDS, is_unspaced, names_in
from memoryd.text.word_lists import list_words
from memoryd.text.wording import STOP, find_stem, fold, list_units

_TELLING = frozenset({TermKind.NAME, TermKind.PHRASE})
_WORDS = 2
_EDGE = 60  # characters at the start and the end of a prompt that show whether it asks
_LONG = 5  # letters; a word with so many is also found inside a compound, such as "Backupstrategie"
# Words of prompts about anything: "ok, go on". Others begin an order about anything, but not a question.
_SMALL_TALK = STOP.union(list_units(fold(" ".join((*list_words("acknowledgements"), *FUNCTION_WORDS)))))
_ORDERS = _SMALL_TALK.union(list_words("orders of work"))
_ASKING = frozenset(list_words("question words"))


def is_about(text: str, prompt: Query, asked: str) -> bool:
    """Return True if a text has two words of a prompt, or one name or quoted phrase of it.

    Stop words and small talk do not count, and in an order neither do words such as "write" and "add". In a script
    without spaces, every two characters count as a word, but not as a name. `asked` is the prompt as typed. A long
    prompt may be cut.
    """
    empty = _SMALL_TALK if _asks(asked) else _ORDERS
    units = {term.text: [one for one in list_units(fold(term.text)) if one not in empty] for term in prompt.terms}
    names = {term.text for term in prompt.terms if term.kind in _TELLING and not is_unspaced(term.text)}
    words = {f"{word}*" if len(word) >= _LONG else word: word for word in units if units[word] or "_" in word}
    own = {words[found] for found in find_held(f"{text}\n{names_in(text)}", words)}
    return not names.isdisjoint(own) or _count_words(own, units) >= _WORDS


def _count_words(own: Collection[str], units: Mapping[str, Collection[str]]) -> int:
    return len({find_stem(one) for word in own for one in units[word] if one[1:]})


def _asks(prompt: str) -> bool:
    return bool(QUESTION.search(prompt[-_EDGE:])) or not _ASKING.isdisjoint(list_units(fold(prompt[:_EDGE]))[:1])
