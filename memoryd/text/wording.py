"""Return the words of a text in a form in which other forms of the same word are equal.

Scripts without spaces between words (Chinese, Japanese, Thai …) are read as overlapping pairs of characters.
"""

import re
import unicodedata
from functools import lru_cache

from memoryd.text import prose
from memoryd.text.word_lists import list_words

# Marks of Indic and other scripts belong to their word, although they are not letters.
WORD = re.compile(r"[^\W_][^\W_\u0300-\u036f]*(?:[\u0300-\u036f\u0900-\u0963\u0966-\u0dff][^\W_]*)*(?:'[^\W_]+)?")
_STEM = 4  # the least letters of a stem
# Endings of inflected words in the most common languages with spaces, the longest first.
_ENDINGS = tuple(sorted(set(list_words("endings")), key=lambda ending: (-len(ending), ending)))
_SHORT = dict(pair.split(":") for pair in list_words("short forms"))
_LAST = re.compile(r"(?:[yi]|(?<![aeiou]n)t)$")  # not the t of "plant", because it is no form of "plan"


def normalize(text: str) -> str:
    """Return `text` in NFKC, with one kind of apostrophe and single spaces. The case does not change."""
    return " ".join(unicodedata.normalize("NFKC", text).replace("’", "'").split())  # noqa: RUF001


def fold(text: str) -> str:
    """Return the result of `normalize`, casefolded."""
    return normalize(text).casefold()


def list_units(folded: str) -> list[str]:
    """Return the words of a folded text in order; runs of wide characters become overlapping pairs."""
    found: list[str] = []
    for word in WORD.findall(folded):
        if prose.is_wide(word):
            for run in prose.wide_runs(word):
                found += [run[i : i + 2] for i in range(max(1, len(run) - 1))] if prose.is_wide(run) else [run]
        else:
            found.append(expand(word.removesuffix("'s")))
    return found


def expand(word: str) -> str:
    """Return the long form of a short word, such as that of an abbreviation; the word itself if none is known."""
    return _SHORT.get(word, word)


@lru_cache(maxsize=16384)
def find_stem(word: str) -> str:
    """Return `word` without its ending: `commit`, `commits` and `committed` have the same stem.

    If the ending is a plural `s`, the ending before it is removed too, as in `servers`. A last `t` is removed, because
    it ends the third person in German and Dutch. A last `y` or `i` is removed because of `query` and `queries`.
    """
    ending = _strip_ending(word)
    word = word.removesuffix(ending)
    word = word.removesuffix(_strip_ending(word)) if ending == "s" else word
    word = word[:-1] if len(word) >= _STEM and word[-1:] == word[-2:-1] else word
    return _LAST.sub("", word) if len(word) >= _STEM else word


def _strip_ending(word: str) -> str:
    ending = next((one for one in _ENDINGS if word.endswith(one) and len(word) - len(one) >= _STEM - 1), "")
    if ending == "ons" and word.endswith("ions"):  # "sessions" loses only its s
        return "s"
    return "" if ending == "s" and word.endswith("ss") else ending


# The boundaries between clauses.
CLAUSE = re.compile(r"[,;:.!?]\s+|[，；：。！？、]|\s(?:and|but|und|aber|et|mais|y|pero)\s")  # noqa: RUF001
# Words without content of their own: those of English, then the most common of some other languages.
STOP = frozenset(list_words("stop"))
