"""Find passwords on the line of a word for one, if they look unlike any word, name or number of a text.

Such values are rare elsewhere, so the rule needs no syntax between the word and the value. It covers a sentence of any
language, arguments of a call or a command, fields of an object, and settings.
"""

import re
from collections.abc import Iterator

from memoryd.scrub.finding import Find, KeywordPlace, SecretSpan
from memoryd.scrub.named import KEYWORDS, kind_of
from memoryd.scrub.plausible import is_drawn, is_made_up, is_outstanding, is_stand_in
from memoryd.text.word_lists import list_bytes

# The rule reads this many bytes of the line before and after the word.
_BACK, _AHEAD = 64, 120
_SURE = frozenset(list_bytes("password words"))
_VAGUE = frozenset(list_bytes("words of accounts"))
WORDS = _SURE.union(list_bytes("login words"), _VAGUE)
_DIGIT = re.compile(rb"[0-9]")
_SIGN = re.compile(rb"\w[!#$%^&?*@]\w")
# A random password mixes capital and small letters, digits and signs: `kX9#mP2v`. Escapes, e-mail addresses, places in
# files and formulas of short names (`3*X1+2*Yz4`) do not count.
_SHORT_RUNS = rb"(?=.{8})(?!.*(?:[a-z]{4}|[A-Z]{4}|\d{4}|&#|#L\d|%[0-9A-F]{2}|@.*\.)|(?:\w{1,4}[*+^-])+\w{1,4}\Z)"
_JUMBLED = re.compile(_SHORT_RUNS + rb"(?=.*[A-Z])(?=.*[a-z])(?=.*\d).+[!#$%^&?*@].+")
_LINE_ENDS = (b"\n", b"\\n")
# Words with a number, such as `Users_2`, are passwords only right behind the word and a link.
_LINK = re.compile(
    rb"(?i)[\s:=>\"'`(|,-]*(?:(?:'s|is|are|was|be|now|ist|lautet|war|est|es|era|jest|to|as|with|\xc3\xa8|\xc3\xa4r|er|"
    rb"\xe6\x98\xaf|\xe4\xb8\xba|\xec\x9d\x80|\xeb\x8a\x94|\xe3\x81\xaf)[\s:=>\"'`(-]*)?"
)
# Before a value in quotes: an argument, or the content of a field.
_GIVEN = re.compile(
    rb"(?i)(?:[(,][ ]?|(?:pass(?:word)?|psk|pwd)[ ]{1,9}|(?:text|value|content)[\"']?[ ]?[:=][ ]?)[\"']\Z"
)
_TOKEN = re.compile(
    rb"(?<![\w/.@\\$%+])(?<!\w::)(?<![^:]-)(?!-)(?=[^\s0-9]{0,63}[0-9])(?:[\w!@#$%^&*?+~.-]|[\xc3-\xd4][\x80-\xbf]){6,64}"
    rb"(?![\w(\[/=]|@(?!tcp)|\\[^rn])"
)


def find_near(place: KeywordPlace, keyword: bytes) -> Iterator[SecretSpan]:
    """Yield each value on the keyword's line that looks like a password.

    In a call or a field, a quoted value after the word may also be plainer.
    """
    buffer = place.buffer
    begin, end = max(place.begin, place.first - _BACK), min(place.end, place.last + _AHEAD)
    # The search ends where the same word occurs again, so that no byte is read many times.
    begin, again = max(begin, buffer.rfind(keyword, begin, place.first)), buffer.find(keyword, place.last, end)
    end = end if again < 0 else again
    if not (_SIGN if keyword in _VAGUE else _DIGIT).search(buffer, begin, end):
        return
    first = max(begin, *(buffer.rfind(mark, begin, place.first) + len(mark) for mark in _LINE_ENDS))
    ends = [buffer.find(mark, place.last, end) for mark in _LINE_ENDS]
    for found in _TOKEN.finditer(buffer, first, min(one for one in (*ends, end) if one >= 0)):
        value = found[0].rstrip(b".?")
        is_cut = found.end() in {again, place.last + _AHEAD}
        if not is_cut and _is_password(place, keyword, found, value) and kind_of(value) is None:
            yield SecretSpan(found.start(), found.start() + len(value), "password-told")


def _is_password(place: KeywordPlace, keyword: bytes, found: re.Match[bytes], value: bytes) -> bool:
    if keyword in _VAGUE or _JUMBLED.fullmatch(value):
        return bool(_JUMBLED.fullmatch(value)) and not is_stand_in(value)
    is_sure = keyword in _SURE
    is_linked = place.last <= found.start() and bool(_LINK.fullmatch(place.buffer, place.last, found.start()))
    if (is_sure and is_drawn(value)) or is_outstanding(value, is_sure=is_sure and is_linked):
        return True
    before = max(place.begin, found.start() - 16)
    is_given = is_sure and place.last < found.start() and _GIVEN.search(place.buffer, before, found.start())
    return bool(is_given) and is_made_up(value, quoted=True)


# Words that are also keywords of `named` are searched together with it.
FINDS: dict[bytes, Find] = dict.fromkeys(WORDS.difference(KEYWORDS), find_near)
