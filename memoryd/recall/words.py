"""Split text into words like FTS5's `unicode61`, and prepare a text for the index so that all of its words are found.

`unicode61` (https://sqlite.org/fts5.html, §4.3.1) takes letters and digits as words and splits at everything else. A
Chinese sentence would be one word, and so would `getUserName`. So scripts without spaces are indexed character by
character, and the parts of such names are indexed too. Its tables are from Unicode 6.1, and it takes newer characters
as letters. So an emoji or a currency sign is replaced by a space here.
"""

import re
import unicodedata
from collections.abc import Collection

from memoryd.text.word_lists import list_words

# Thai to Lao, Myanmar, Hangul, Khmer, kana, bopomofo, Han with its radicals: scripts that are handled as unspaced.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u318f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Accents that FTS5 ignores within a word (`sqlite3Fts5UnicodeIsdiacritic`). Other marks separate words.
_ACCENTS = "\u0300-\u0304\u0306-\u030c\u030f\u0311\u031b\u0323-\u0328\u032d\u032e\u0330\u0331"
_CHARACTER = re.compile(f"[{_UNSPACED}]")
_APART = re.compile(f"([{_UNSPACED}])|[^\\w\\s\\x00-\\x7f{_ACCENTS}]")
_RUN = re.compile(f"[{_UNSPACED}]+|[^\\W_{_UNSPACED}]+(?:[{_ACCENTS}]+[^\\W_{_UNSPACED}]*)*")
_HUMP = re.compile(r"[A-Z](?:(?<=[a-z0-9][A-Z])|[A-Z][a-z])")
_NAME = re.compile(r"[A-Za-z0-9]{3,64}")
_BETWEEN = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# `C++` and `C#` are not `C`, so such names are also indexed as separate words.
_SIGNED = re.compile(r"(?<![\w+#])([A-Za-z]\w{0,31})(\+\+|#)(?![\w+#])")
_SIGNS = {"++": "plusplus", "#": "sharp"}
STROKES = str.maketrans("ŁłØøĐđĦħŦŧı", "LlOoDdHhTti")  # neither Unicode nor FTS5 treats these strokes as accents
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

# Words that say nothing about the subject of a text: articles, pronouns, prepositions, question words and so on. Those
# that are also other words, in English or as names of programs, count only in a text of their own language.
_LANGUAGES = ("English", "German", "French", "Spanish", "Italian", "Portuguese", "Dutch")
_OWN = [frozenset(list_words(f"{one} function words")) for one in _LANGUAGES]
_AMBIGUOUS = [frozenset(list_words(f"{one} words with other meanings")) for one in _LANGUAGES]
STOP_WORDS = _OWN[0]
FUNCTION_WORDS = STOP_WORDS.union(*_OWN)

# The same for Chinese and Japanese: pairs of characters that only ask, and characters that are no part of a word.
_ASKING_PAIRS = frozenset(list_words("pairs of characters that ask"))
_ASKING = frozenset("吗嗎呢么麼吧啊的了")


def is_stop_word(word: str) -> bool:
    """Return True if a word (or a pair of characters in a script without spaces) says nothing about the subject."""
    known = STOP_WORDS if word[1:].isupper() else FUNCTION_WORDS  # `MIT` is not the German "mit"
    return word.lower() in known or word in _ASKING_PAIRS or (len(word) <= 2 and not _ASKING.isdisjoint(word))


def stop_words(words: Collection[str]) -> set[str]:
    """Return the words of a text that say nothing about its subject in the language of most of them."""
    said = set(map(str.lower, words))
    counts = [len(own & said) and len((own | other) & said) for own, other in zip(_OWN, _AMBIGUOUS, strict=True)]
    ambiguous = _AMBIGUOUS[counts.index(max(counts))]
    return {word for word in words if is_stop_word(word) or (word.lower() in ambiguous and not word[1:].isupper())}


def fold(text: str) -> str:
    """Return the text in NFKC, without strokes through letters and without characters that cannot be stored."""
    if text.isascii():
        return text.replace("\0", " ")
    return unicodedata.normalize("NFKC", _UNSTORABLE.sub(" ", text)).translate(STROKES)


def make_indexable(text: str) -> str:
    """Return the text for the index: each character of a script without spaces is a word, and symbols become spaces."""
    return text.replace("\0", " ") if text.isascii() else _APART.sub(r" \1 ", fold(text))


def list_runs(text: str) -> list[str]:
    """Return the runs of letters and digits in a folded text; scripts with and without spaces are separate runs."""
    return _RUN.findall(text)


def is_unspaced(run: str) -> bool:
    """Return True if a run is in a script without spaces."""
    return bool(run) and _CHARACTER.match(run) is not None


def inner_words(name: str) -> list[str]:
    """Return the words in a name like `getUserName` or `HTTPServer`; for any other name, only the name."""
    return _BETWEEN.split(name)


def signed_names(text: str) -> list[tuple[str, str]]:
    """Return the names in a text that end in `++` or `#`, each as (original form, one word)."""
    if "++" not in text and "#" not in text:
        return []
    return [(name + signs, name + _SIGNS[signs]) for name, signs in _SIGNED.findall(text)]


def names_in(text: str) -> str:
    """Return the words of all names with inner capitals or symbols at the end; each name is one line."""
    names = dict.fromkeys(word for _, word in signed_names(text))
    if _HUMP.search(text) is not None:
        names |= dict.fromkeys(" ".join(inner_words(one)) for one in _NAME.findall(text) if _HUMP.search(one))
    return "\n".join(names)


def simplify(text: str) -> str:
    """Return a text in lower case without accents, to compare spellings outside the index."""
    text = fold(text).lower()
    if text.isascii():
        return text
    return "".join(char for char in unicodedata.normalize("NFD", text) if not unicodedata.combining(char))
