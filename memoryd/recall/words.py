"""Split text into words in the way of FTS5's `unicode61`, and prepare a text so that all of its words are found.

`unicode61` (https://sqlite.org/fts5.html, §4.3.1) treats letters and digits as words and splits at everything else. It
treats a Chinese sentence as one word, and `getUserName` as well. So scripts without spaces are indexed character by
character, and the parts of such names are indexed in addition. Its tables are from Unicode 6.1, and it treats all newer
characters as letters. So an emoji or a currency sign separates words here, because it is left out.
"""

import re
import unicodedata

# Thai to Lao, Myanmar, Hangul, Khmer, kana, bopomofo, Han with its radicals: a word is a sequence of such characters.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u318f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
# The accents that FTS5 ignores within a word (`sqlite3Fts5UnicodeIsdiacritic`); any other mark separates words.
_ACCENTS = "\u0300-\u0304\u0306-\u030c\u030f\u0311\u031b\u0323-\u0328\u032d\u032e\u0330\u0331"
_CHARACTER = re.compile(f"[{_UNSPACED}]")
_APART = re.compile(f"([{_UNSPACED}])|[^\\w\\s\\x00-\\x7f{_ACCENTS}]")
_RUN = re.compile(f"[{_UNSPACED}]+|[^\\W_{_UNSPACED}]+(?:[{_ACCENTS}]+[^\\W_{_UNSPACED}]*)*")
_HUMP = re.compile(r"[A-Z](?:(?<=[a-z0-9][A-Z])|[A-Z][a-z])")
_NAME = re.compile(r"[A-Za-z0-9]{3,64}")
_BETWEEN = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# `C++` and `C#` are not `C`: the signs at the end of a name become a separate word.
_SIGNED = re.compile(r"(?<![\w+#])([A-Za-z]\w{0,31})(\+\+|#)(?![\w+#])")
_SIGNS = {"++": "plusplus", "#": "sharp"}
STROKES = str.maketrans("ŁłØøĐđĦħŦŧı", "LlOoDdHhTti")  # these are accents neither in Unicode nor in FTS5
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

# Words that do not show the subject of a text: English words that form questions.
STOP_WORDS = frozenset(
    """a about above after again against all am an and any are as at be because been before being below between both
    but by can could did do does doing down during each few for from further had has have having he her here hers
    herself him himself his how i if in into is it its itself just me more most my myself no nor not now of off on once
    only or other our ours ourselves out over own same she should so some such than that the their theirs them
    themselves then there these they this those through to too under until up very was we were what when where which
    while who whom why will with would you your yours yourself yourselves s t d ll m re ve don didn doesn isn wasn aren
    won""".split()  # noqa: SIM905
)

# The same for Chinese and Japanese: pairs that ask, and characters that belong to the sentence, not to a word.
_ASKING_PAIRS_LIST = (
    "什么 怎么 怎样 怎麼 什麼 为什 為什 哪个 哪些 哪里 应该 應該 是否 可以 需要 是什 なぜ どこ いつ です ます"
)
_ASKING_PAIRS = frozenset(_ASKING_PAIRS_LIST.split())
_ASKING = frozenset("吗嗎呢么麼吧啊的了")


def is_stop_word(word: str) -> bool:
    """Return True if a word, or a pair of characters of an unspaced script, does not show the subject of a text."""
    return word.lower() in STOP_WORDS or word in _ASKING_PAIRS or (len(word) <= 2 and not _ASKING.isdisjoint(word))


def fold(text: str) -> str:
    """Return the text in NFKC, without strokes through letters and without characters that cannot be stored."""
    if text.isascii():
        return text.replace("\0", " ")
    return unicodedata.normalize("NFKC", _UNSTORABLE.sub(" ", text)).translate(STROKES)


def make_indexable(text: str) -> str:
    """Return the text for the index: each character of an unspaced script is a word, signs are spaces."""
    return text.replace("\0", " ") if text.isascii() else _APART.sub(r" \1 ", fold(text))


def list_runs(text: str) -> list[str]:
    """Return the runs of letters and digits in a folded text; scripts without spaces end a run."""
    return _RUN.findall(text)


def is_unspaced(run: str) -> bool:
    """Return True if a run is of a script that is written without spaces."""
    return bool(run) and _CHARACTER.match(run) is not None


def inner_words(name: str) -> list[str]:
    """Return the words in a name like `getUserName` or `HTTPServer`; for any other name the name itself."""
    return _BETWEEN.split(name)


def signed_names(text: str) -> list[tuple[str, str]]:
    """Return the names in a text that end in `++` or `#`, in their original form, each as one word."""
    if "++" not in text and "#" not in text:
        return []
    return [(name + signs, name + _SIGNS[signs]) for name, signs in _SIGNED.findall(text)]


def names_in(text: str) -> str:
    """Return the words of all names with inner capitals or with signs at the end, each name once."""
    names = dict.fromkeys(word for _, word in signed_names(text))
    if _HUMP.search(text) is not None:
        names |= dict.fromkeys(" ".join(inner_words(one)) for one in _NAME.findall(text) if _HUMP.search(one))
    return "\n".join(names)


def simplify(text: str) -> str:
    """Fold a text to lower case without accents, to compare two spellings of a word outside of the index."""
    text = fold(text).lower()
    if text.isascii():
        return text
    return "".join(char for char in unicodedata.normalize("NFD", text) if not unicodedata.combining(char))
