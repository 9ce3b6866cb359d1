"""Find content words: the words that show the subject of a text, as keys that can be counted and compared."""

import re
from functools import lru_cache

from memoryd.text.wording import STOP, fold, list_units

# Small talk: polite words that keep a conversation going. They are seldom worth keeping. One form of each.
_CHATTER_LIST = """
absolutely admire adorable agree amazed appreciate awesome awww bad beautiful best bet better bless blessed bond brave
bring bye care caring catch chance chat check cheer cherish comfort congrats congratulations connect cool courage
crazy cute dear dedication definitely delicious determination encourage encouraging energy enjoy epic excited
experience experiences fab fabulous fantastic feel feelings forever fun funny glad good gorgeous grateful great growth
guess guts guy guys ha haha happen happiness happy hard hear heard hello help helpful hey hi hope hopeful hopefully
hugs idea impact important impressive incredible inspiration inspire inspired interested journey joy keep kind know
learn life like little live lol look lot lots love loved lovely luck lucky magical matter mean meaningful memories
memory mind moment motivate motivated motivation nice passion passionate peaceful people perfect person place positive
power powerful precious pretty proud push reach refreshing relax remember rewarding right share shared shine smile
sometimes soon sorry sound special spread stay story strength strong stuff stunning success super support supportive
sweet talk tell thank thankful think thought thrilled time times together totally touch tough true truly understand
update wait way ways welcome wild wish wonderful wonders work world worth wow yay yea yeah year yep yes yup
谢谢你 谢谢您 好的 是的 没问题 太好了 太棒了 真棒 你好 再见 不客气 哈哈哈 不错 加油 ありがとうございます いいですね
そうですね すごいですね はい こんにちは おはようございます よかったですね 了解です お疲れ様です どうも
"""
_SUFFIX = re.compile(r"(?:'s|’s|s'|ies|ing|ed|es|s)$")  # noqa: RUF001


def list_content_words(text: str) -> list[str]:
    """Return the content words of `text` in order: casefolded, lightly stemmed; character pairs for wide scripts."""
    return [key for unit in list_units(fold(text)) if (key := key_of(unit))]


@lru_cache(maxsize=65536)
def key_of(word: str) -> str:
    """Return the key of one word, empty for a word without content."""
    low = word.casefold()
    if not low.isascii():
        return "" if low in STOP else low
    if low in STOP or low.split("'")[0] in STOP or (len(low) < 2 and not low.isdigit()):
        return ""
    stem = _SUFFIX.sub("", low) if len(low) > 4 and not low.isdigit() else low
    return stem if len(stem) >= 3 else low


CHATTER_KEYS = frozenset(list_content_words(_CHATTER_LIST))
