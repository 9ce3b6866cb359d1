"""Find secrets that a request carries.

These are authorization headers, cookies, `-u user:password` and the user part of a URL.
"""

import re
from collections.abc import Iterator
from functools import cache

from ahocorasick_rs import BytesAhoCorasick, Implementation

from memoryd.scrub.finding import Find, KeywordPlace, SecretSpan
from memoryd.scrub.named import REJECTED, trim, value_at
from memoryd.scrub.plausible import is_drawn, is_mixed, is_password, is_stand_in, is_token, looks_random
from memoryd.text.word_lists import list_bytes

_SCHEMES = (
    rb"(?:Bearer|Basic|Token|Digest|Negotiate|ApiKey|Api-Key|JWT|Key|SSWS|Splunk|GenieKey|OAuth|AWS4-HMAC-SHA256)"
)
_AUTHORIZATION = re.compile(
    rb"(?i)\\{0,7}[\"'`]?\]?[ \t]{0,4}(?:[:=,]|=>)[ \t]{0,4}(?:[fbr](?=[\"']))?(?P<quote>\\{0,7}[\"'`]?)(?:"
    + _SCHEMES
    + rb"[ \t:]+)?(?P<inner>[\"']?)"
)
_BEARER = re.compile(rb"(?i)[ \t]+(?:token[ \t:]+)?(?P<quote>\\{0,7}[\"'`]?)")
_COOKIE = re.compile(
    rb"(?i)(?:[ \t]*\\{0,7}[\"'`])?[ \t]{0,4}[:=][ \t]{0,4}\\{0,7}[\"'`]?(?P<pairs>[^\n\"'`\x00]{8,4096})"
)
_COOKIE_PAIRS = re.compile(rb"[ \t=]{0,4}[\"']?(?P<pairs>[^\n\"'`\x00]{8,4096})")
_COOKIE_HEADER = re.compile(rb"[Cc][Oo][Oo][Kk][Ii][Ee][ \t\"'\\]{0,4}[:=]")
_COOKIE_VALUE = re.compile(rb"[\w.\-]{1,80}=([^;\s,]{12,4096})")
_USER = re.compile(
    rb"(?:er)?(?:=|[ \t]{1,4}|(?<= -u)(?=[\w.@\"']))(?P<quote>[\"']?)(?P<user>\"?[^\s:\"']{0,128}\"?):(?!//)"
    rb"(?P<password>[^\s\"']{1,256}|\"[^\"\n]{1,256}\"|'[^'\n]{1,256}')"
)
_COMMAND_WORDS = (*b"curl wget http xh ftp smbclient mysql mongo psql twine helm docker".split(), b"://")
_COMMAND = re.compile(rb"(?i)\b(?:curl|wget|http|https|xh|ftp|lftp|smbclient|mysql|mongo|psql|twine|helm|docker)\b|://")
_USERINFO = re.compile(rb"(?P<user>[^\s/:@\"'<>`|\\]{0,256}):(?P<password>[^\s/\"'<>`\\]{1,512})@(?=[\w\[%.$-])")
# netrc(5), on one line: `machine NAME login NAME password SECRET`, or `default login …`.
_NETRC = re.compile(
    rb"(?i)(?:machine[ \t]{1,8}[^\s\x00]{1,256}|default)[ \t]{1,8}(?:login[ \t]{1,8}[^\s\x00]{1,256}[ \t]{1,8})?"
    rb"password[ \t]{1,8}(?P<password>[^\s\x00]{4,512})"
)
_NETRC_LONGEST = 1100  # The rule reads this many bytes of such a line.
_ONLY_USER = re.compile(rb"(?P<user>[^\s/:@\"'<>`|\\]{10,512})@(?=[\w\[%-])")
_WELL_KNOWN = frozenset(b"password pass passwd pwd secret user username token x ... port pw".split())

# Functions of many libraries take a name and a password, without saying which argument is which.
_LOGINS = list_bytes("calls that log in")
_PAIR = re.compile(
    rb"[ \t]{0,4}(?:auth=)?\(?[ \t]{0,4}(?P<opening>[\"'])(?P<user>[^\"'\n]{1,128})(?P=opening),[ \t]{0,4}"
    rb"(?P<quote>[\"'])(?P<password>[^\"'\n]{4,256})(?P=quote)"
)


def _pair(place: KeywordPlace, keyword: bytes) -> Iterator[SecretSpan]:
    found = _PAIR.match(place.buffer, place.last, min(place.end, place.last + 600))
    if found is None or not is_userinfo_secret(found["user"], found["password"]):
        return
    if keyword not in _LOGINS or (is_mixed(found["password"]) and is_password(found["password"], quoted=True)):
        yield SecretSpan(found.start("password"), found.end("password"), "basic-auth")


def _cookie_flag(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    before = place.buffer[max(place.begin, place.first - 300) : place.first]
    if b"curl" in before and place.buffer.find(b"=", place.last, min(place.end, place.last + 80)) > 0:
        found = _COOKIE_PAIRS.match(place.buffer, place.last, place.end)
        if found:
            yield from _cookie_pairs(place, found.start("pairs"), found.end("pairs"))


def _header(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    found = _AUTHORIZATION.match(place.buffer, place.last, place.end)
    if found is None:
        return
    around = place.buffer[max(place.begin, place.first - 1) : place.first]
    outer = around if around in {b'"', b"'"} and not found["quote"] else b""
    value = value_at(place, found.end(), found["inner"] or found["quote"] or outer)
    if value is not None:
        rule = "authorization" if _is_carried(value.text) else REJECTED
        yield SecretSpan(value.at, value.at + len(value.text), rule)


def _is_carried(text: bytes) -> bool:
    if text.isdigit():
        return len(text) >= 12 and not is_stand_in(text)
    return ((is_mixed(text) and b"(" not in text) or looks_random(text)) and len(text) >= 8 and not is_stand_in(text)


def _bearer(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    found = _BEARER.match(place.buffer, place.last, place.end)
    if found is None:
        return
    value = value_at(place, found.end(), found["quote"])
    if value is not None and len(value.text) >= 12 and is_mixed(value.text) and is_token(value.text, quoted=False):
        yield SecretSpan(value.at, value.at + len(value.text), "bearer-token")


def _cookies(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    pattern = _COOKIE_PAIRS if place.buffer[place.first - 2 : place.first] == b"--" else _COOKIE
    found = pattern.match(place.buffer, place.last, place.end)
    if found is None:
        return
    # A second header in the pairs is found by its own keyword.
    again = _COOKIE_HEADER.search(place.buffer, found.start("pairs"), found.end("pairs"))
    yield from _cookie_pairs(place, found.start("pairs"), again.start() if again else found.end("pairs"))


def _cookie_pairs(place: KeywordPlace, first: int, last: int) -> Iterator[SecretSpan]:
    for pair in _COOKIE_VALUE.finditer(place.buffer, first, last):
        if len(pair[1]) >= 16 and is_token(pair[1], quoted=True):
            yield SecretSpan(pair.start(1), pair.end(1), "cookie")


def _netrc(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    found = _NETRC.match(place.buffer, place.first, min(place.end, place.first + _NETRC_LONGEST))
    if found is not None and not is_stand_in(found["password"]):
        yield SecretSpan(found.start("password"), found.end("password"), "netrc-password")


def _user_flag(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    if place.first > place.begin and place.buffer[place.first - 1] not in b" \t\n\"'":
        return
    found = _USER.match(place.buffer, place.last, place.end)
    if found is None:
        return
    glued = found.start("user") == place.last
    around = place.buffer[_line(place) : place.first if glued else min(place.end, found.end() + 200)]
    # The search for words is fast, so the slow pattern runs only where it may match.
    is_read = b"curl" in around or (not glued and _command_words().find_matches_as_indexes(around.lower()))
    if not is_read or not _COMMAND.search(around):
        return
    password = trim(found["password"].strip(b"\"'"))
    user = found["user"].strip(b'"')
    at = found.start("password") + found["password"].find(password)
    if not password and len(user) >= 8 and looks_random(user):
        yield SecretSpan(found.start("user"), found.end("user"), "basic-auth")
    elif password and is_userinfo_secret(user, password):
        yield SecretSpan(at, at + len(password), "basic-auth")


@cache
def _command_words() -> BytesAhoCorasick:
    return BytesAhoCorasick(_COMMAND_WORDS, implementation=Implementation.DFA)


def _line(place: KeywordPlace) -> int:
    """Return the start of the command that a flag belongs to.

    A backslash at the end of a line continues the command on the next line.
    """
    least = max(place.begin, place.first - 400)
    line = place.buffer.rfind(b"\n", least, place.first)
    while line > least and place.buffer[line - 1 : line] == b"\\":
        line = place.buffer.rfind(b"\n", least, line)
    return max(least, line)


def is_userinfo_secret(user: bytes, password: bytes) -> bool:
    """Return True if the text after a user's name and a colon is a password."""
    low = password.lower()
    if low in _WELL_KNOWN or is_stand_in(password) or low == user.lower() or len(password) < 4:
        return False
    return not (password.isdigit() and len(password) < 6) and not low.startswith((b"your", b"my-", b"my_", b"some"))


def _userinfo(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    end = min(place.end, place.last + 800)
    found = _USERINFO.match(place.buffer, place.last, end)
    if found and is_userinfo_secret(found["user"], found["password"]):
        yield SecretSpan(found.start("password"), found.end("password"), "url-password")
    alone = None if found else _ONLY_USER.match(place.buffer, place.last, end)
    if alone and (is_drawn(alone[1]) or (len(alone[1]) >= 16 and is_token(alone[1], quoted=True))):
        yield SecretSpan(alone.start("user"), alone.end("user"), "url-password")


FINDS: dict[bytes, Find] = {
    b"authorization": _header,
    b"bearer": _bearer,
    b"cookie": _cookies,
    b" -b ": _cookie_flag,
    b"://": _userinfo,
    **dict.fromkeys((b"machine ", b"default login "), _netrc),
    **dict.fromkeys((b"-u", b"--us", b"--proxy-us"), _user_flag),
    **dict.fromkeys((b"auth=(", b"httpbasicauth(", b"httpdigestauth(", *_LOGINS), _pair),
}
