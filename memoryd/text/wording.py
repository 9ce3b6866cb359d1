"""Wording: the words of a text in a form in which other forms of the same word are known again.

Scripts without spaces between words (Chinese, Japanese, Thai …) are read as overlapping pairs of characters.
"""

import re
import unicodedata
from functools import lru_cache

from memoryd.text import prose

# Marks of Indic and other scripts belong to their word though they are no letters.
WORD = re.compile(r"[^\W_][^\W_\u0300-\u036f]*(?:[\u0300-\u036f\u0900-\u0963\u0966-\u0dff][^\W_]*)*(?:'[^\W_]+)?")
# A letter or digit of a script with spaces: what may not stand directly before or after a whole word.
_STEM = 4  # letters from which a word is compared by its stem
# What inflection puts at the end of a word, in the commonest languages with spaces; the longest goes first.
_ENDING_LIST = """
ings ing ers ed es er ly s e en em
ons ez ait aient ais ée ées és
o as amos an aba ando ado ada ido ida os ar ir
iamo ano ando ato ata ito ita are ire i
а я ы и у ю е о ой ей ом ем ам ям ами ями ах ях ого его ому ему ые ие ый ий ая яя ую юю ть ет ит ут ют ал ала али ил ила
"""  # noqa: RUF001
_ENDINGS = tuple(sorted(set(_ENDING_LIST.split()), key=lambda ending: (-len(ending), ending)))

_SHORT_LIST = """
postgres:postgresql db:database dbs:databases repo:repository repos:repositories config:configuration
configs:configurations docs:documentation prod:production env:environment envs:environments deps:dependencies
kb:kilobytes mb:megabytes gb:gigabytes tb:terabytes
"""
_SHORT = dict(pair.split(":") for pair in _SHORT_LIST.split())
_LAST = re.compile(r"(?:[yi]|(?<![aeiou]n)t)$")  # not of "plant", which is no form of "plan"


def normalize(text: str) -> str:
    """Return `text` in one Unicode form (NFKC), with one kind of apostrophe and single spaces, letters as they are."""
    return " ".join(unicodedata.normalize("NFKC", text).replace("’", "'").split())  # noqa: RUF001


def fold(text: str) -> str:
    """Return `normalize` text without difference of case."""
    return normalize(text).casefold()


def list_units(folded: str) -> list[str]:
    """Return the words of a folded text in order, runs of wide characters as overlapping pairs."""
    found: list[str] = []
    for word in WORD.findall(folded):
        if prose.is_wide(word):
            for run in prose.wide_runs(word):
                found += [run[i : i + 2] for i in range(max(1, len(run) - 1))] if prose.is_wide(run) else [run]
        else:
            found.append(expand(word.removesuffix("'s")))
    return found


def expand(word: str) -> str:
    """Return the word that a folded one is short for; itself where it is short for none, or for more than one."""
    return _SHORT.get(word, word)


@lru_cache(maxsize=16384)
def find_stem(word: str) -> str:
    """Return how `word` begins, without its ending: `commit`, `commits` and `committed` give the same.

    Before the `s` of a plural stands the ending of the singular, as in `servers`. A last `t` goes from all forms
    alike, since it ends the third person in German and Dutch, as `y` and `i` do for `query` and `queries`.
    """
    ending = _strip_ending(word)
    word = word.removesuffix(ending)
    if ending == "s":
        word = word.removesuffix(_strip_ending(word))
    if len(word) >= _STEM and word[-1:] == word[-2:-1]:
        word = word[:-1]
    return _LAST.sub("", word) if len(word) >= _STEM else word


def _strip_ending(word: str) -> str:
    found = (one for one in _ENDINGS if word.endswith(one) and len(word) - len(one) >= _STEM - 1)
    ending = next(found, "")
    if ending == "ons" and word.endswith("ions"):  # "sessions"
        return "s"
    return "" if ending == "s" and word.endswith("ss") else ending


# Words that carry no content of their own: English first, then the commonest of some other languages.
_STOP_LIST = """
a aber about above after again against al all als also am an and any are aren as at au auch auf aus aux avec be
because been before bei being below between both but by can cannot ce ces cette che com con could couldn d da dans
das dass dat de del dem den der des di did didn die do does doesn doing don dos down du during e each een ein eine
einem einen einer either el ela ele ella elle elles else em en er es est et eu even ever every few for from further
für get gets getting give gli go goes going gonna got gotta had hadn has hasn have haven having he her here hers
herself het hij him himself his how i ich if ihr ik il ils im in into is isn ist it its itself je just kinda la las
le les let ll lo los m ma maar mais make makes many mas may maybe me mes met mi might mis mit mon more most much
must my myself nach ne need needs nicht niet no noch non nor nosotros not nous now nur não o oder of off oh ok okay
on once one only onto op or os other others ou our ours ourselves out over own para pas per pero por pour que qui
quite rather re really s same say says se see seem seems seu shall she should shouldn si sie since sind so some
something son sono sont still su sua such sur sure sus são t take te than that the their theirs them themselves then
there these they thing things this those though through till to too try tu tú um uma un una und under une uno until
up upon us use used very via von voor vous want wants war was wasn we well wenn were weren what when where whether
which while who whom whose why wie wij will wir with within without won would wouldn y yet yo you your yours
yourself yourselves zij zijn zu è é él
"""
# Where one clause of a text ends and the next begins.
CLAUSE = re.compile(r"[,;:.!?]\s+|[，；：。！？、]|\s(?:and|but|und|aber|et|mais|y|pero)\s")  # noqa: RUF001
STOP = frozenset(_STOP_LIST.split())
