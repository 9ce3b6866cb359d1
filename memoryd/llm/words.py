"""Content words: what a text is about, as keys that can be counted and compared."""

from __future__ import annotations

import re
from functools import lru_cache

from memoryd.text import prose
from memoryd.text.wording import STOP

# What people say to be kind or to keep a talk going. It has content, but seldom any worth keeping.
_CHATTER_LIST = """
absolutely admire adorable agree amazed amazing appreciate awesome awww bad beautiful best bet better bless blessed
bond brave bring brings bye care caring catch chance chat check cheer cheers cherish comfort congrats
congratulations connect cool courage crazy cute dear dedication definitely delicious determination encourage
encouraging energy enjoy enjoyed enjoying epic excited exciting experience experiences fab fabulous fantastic feel
feeling feelings feels forever fun funny glad good gorgeous grateful great growth guess guts guy guys ha haha happen
happens happiness happy hard hear heard hello help helpful helping helps hey hi hope hopeful hopefully hugs idea
impact important impressive incredible inspiration inspire inspired inspires inspiring interested interesting
journey joy keep keeps kind know learn life like little live lol look looking looks lot lots love loved lovely
loving luck lucky magical matter mean meaningful means memories memory mind moment moments motivate motivated
motivation nice passion passionate peaceful people perfect person place positive power powerful precious pretty
proud push reach refreshing relax relaxing remember rewarding right share shared sharing shine smile sometimes soon
sorry sound sounds special spread stay story strength strong stuff stunning success super support supporting
supportive sweet talk tell thank thankful thanks think thinking thinks thought thoughts thrilled time times together
totally touch tough true truly understand understanding update wait way ways welcome wild wish wonderful wonders
work works world worth wow yay yea yeah year yep yes yo yup
"""
CHATTER = frozenset(_CHATTER_LIST.split())
# Marks of Indic and other scripts belong to their word though they are no letters.
_WORD = re.compile(r"[^\W_][^\W_\u0300-\u036f]*(?:[\u0300-\u036f\u0900-\u0963\u0966-\u0dff][^\W_]*)*(?:['’][^\W_]+)?")  # noqa: RUF001
_SUFFIX = re.compile(r"(?:'s|’s|s'|ies|ing|ed|es|s)$")  # noqa: RUF001


def content(text: str) -> list[str]:
    """Return the content words of `text` in order: casefolded, lightly stemmed; character pairs for wide scripts."""
    keys = []
    for word in _WORD.findall(text):
        if word.isascii():
            key = key_of(word)
            if key:
                keys.append(key)
        elif prose.is_wide(word):
            keys += _pairs(word)
        elif word.casefold() not in STOP:
            keys.append(word.casefold())
    return keys


@lru_cache(maxsize=65536)
def key_of(word: str) -> str:
    """Return the key of one word, empty for a word without content."""
    low = word.casefold()
    if low in STOP or low.split("'")[0] in STOP or (len(low) < 2 and not low.isdigit()):
        return ""
    stem = _SUFFIX.sub("", low) if len(low) > 4 and not low.isdigit() else low
    return stem if len(stem) >= 3 else low


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


_WIDE_CHATTER_LIST = """
谢谢你 谢谢您 好的 是的 没问题 太好了 太棒了 真棒 你好 再见 不客气 哈哈哈 不错 加油
ありがとうございます いいですね そうですね すごいですね はい こんにちは おはようございます
よかったですね 了解です お疲れ様です どうも
"""
CHATTER_KEYS = frozenset(
    {key_of(word) for word in CHATTER} - {""} | {pair for run in _WIDE_CHATTER_LIST.split() for pair in _pairs(run)}
)
