"""Find private keys, and secrets that a fixed prefix shows wherever they are.

The library (`worker/scanner.py`) also knows many of these formats, but with one length and on one line. Issuers change
lengths more often than prefixes, and terminals break keys over two lines. So a prefix is listed here even if the
library has it. The entries follow the keys that issuers document or show.
"""

import binascii
import pkgutil
import re
from collections.abc import Iterator
from functools import cache, lru_cache

from memoryd.scrub.finding import Find, KeywordPlace, SecretSpan
from memoryd.scrub.plausible import is_hash, is_mixed, is_wordy

# Each prefix has a rule and the pattern of the rest. A keyword is found in any case, but its prefix must match exactly.
_TABLE = {
    prefix: (rule.decode(), rest)
    for line in (pkgutil.get_data(__name__, "formats.txt") or b"").splitlines()
    if line and not line.startswith(b"#")
    for rule, *prefixes, rest in [line.split()]
    for prefix in prefixes
}
_BEFORE = rb"(?<![A-Za-z0-9+])|(?<=\\[nrtfb])|(?<=%[0-9A-F][0-9A-F])|(?<=\\u00[0-9a-f][0-9a-f])|(?<=\x1b\[[0-9]m)"
# The pattern reads this many bytes first. It reads more only if they look random, so repeated prefixes cost little.
_WINDOW = 512
_LINE = 160

_HEAD = re.compile(rb"[A-Za-z0-9_-]{6,120}+(?=[=\r\n\"'`])")
_TAIL = re.compile(
    rb"(?:=?\r?\n|(?P<quote>[\"'`])[ \t]{0,4}[+.&\\]?[ \t]{0,4}(?:\r?\n)?[ \t]{0,40}[+.&]?[ \t]{0,4}(?P=quote))"
    rb"(?P<rest>[A-Za-z0-9_-]{6,120}+)(?![.(:/\\])"
)
_PAIRED = re.compile(
    rb"[\"']?(?:[ \t]{0,4}[,;:|][ \t]{0,4}|[ \t]{1,8}|[ \t]{0,4}[,;]?\s{1,8})[\"']?"
    rb"(?P<secret>[A-Za-z0-9/+]{40})(?![\w/+=-])"
)

_PEM = re.compile(rb"-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
# This separates two lines of a key, also where they are strings in code.
_PEM_GAP = rb"(?:\\+[nrt]|[\s\"',+\\])"
_PEM_BODY = re.compile(
    rb"(?:" + _PEM_GAP + rb"{1,24}(?:(?:Proc-Type|DEK-Info|Version|Comment):[^\n\\]{0,100}|[A-Za-z0-9+/=]{16,}+))*+"
    rb"(?:" + _PEM_GAP + rb"{1,24}[A-Za-z0-9+/=]{1,15}(?=" + _PEM_GAP + rb"{0,24}-----END))?"
)
_PEM_END = re.compile(_PEM_GAP + rb"{0,24}-----END (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_PEM_MAX = 20_000
_PEM_ENDING = re.compile(rb"-----END (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_PEM_RUN = re.compile(rb"[A-Za-z0-9+/=]{16,}")
# A line of base64 may follow what a program or a person writes first: a number, a file, a quotation mark or a name.
_PEM_LINE = re.compile(
    rb"(?P<before>[^\n]{0,80}?)(?P<run>[A-Za-z0-9+/]{16,}={0,2})(?:\\+[nr])*[\"'`,+\\ \t\r|]*(?:\n|\Z)"
)
_PEM_SHORT = re.compile(rb"[^\n]{0,80}?(?P<run>[A-Za-z0-9+/=]{2,76})(?:\\+[nr])*[\"'`,+\\ \t\r]*\Z")
_PEM_DIGITS = re.compile(rb"[0-9]+")
_PEM_MARKS = re.compile(rb"[ \t]*(?:(?:[-+>#*|;]|//|[0-9]{1,6}(?:[:|.)\t-]|\xe2\x86\x92)?)[ \t]*){0,3}")
_PEM_RUN_END = re.compile(rb"[A-Za-z0-9+/=]{1,100}\Z")
_PEM_FULL = 60  # characters of every line except the last
# This is "-----BEGIN " in base64, as files hold it over several lines.
_PEM_BASE64 = re.compile(rb"LS0tLS1CRUdJTi[A-Za-z0-9+/]{16,}")
_PPK = re.compile(rb"Private-Lines: [0-9]{1,3}(?:[^\n]{0,8}\n|(?:\\+[nr])+)")

# These secrets are known by their middle. A row holds the rule, the pattern, the bytes to read before and after the
# middle, and the part that must look random. They are a client secret of Microsoft Entra, a Telegram bot's token, and a
# key of Mailchimp. The bot's token is its number and 35 characters that begin with AA. Mailchimp's data centres are us1
# to us99, and nothing else puts them after so many hexadecimal digits.
_MAILCHIMP = re.compile(rb"(?<![0-9A-Za-z])[0-9a-f]{32}-us[0-9]{1,2}(?![0-9A-Za-z])")
_MIDDLES: dict[bytes, tuple[str, re.Pattern[bytes], int, int, slice]] = {
    b"q~": ("azure-secret", re.compile(rb"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"), 4, 36, slice(None)),
    b":aa": (
        "telegram-token", re.compile(rb"(?<![0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"), 10, 48,
        slice(-33, None),
    ),
    **{b"-us%d" % digit: ("mailchimp-key", _MAILCHIMP, 32, 8, slice(32)) for digit in range(1, 10)},
}  # fmt: skip

_DISCORD = re.compile(rb"\.[\w-]{6}\.(?P<drawn>[\w-]{27,38})(?![\w.-])")
# The token begins with a number in base64. Its digits allow only a few letters at every fourth place.
_DISCORD_HEAD = re.compile(rb"(?<![\w.-])[MNO][TjzDgkQUwAE][A-Za-z0-9]{22,26}\Z")


@cache
def _patterns(keyword: bytes) -> list[tuple[str, re.Pattern[bytes]]]:
    # Each pattern is compiled at the first use of its prefix. Few are ever used, and compiling all is slow.
    return [
        (rule, re.compile(rb"(?:" + _BEFORE + rb")" + re.escape(own) + rb"(?:" + body + rb")"))
        for own, (rule, body) in _TABLE.items()
        if own.lower() == keyword
    ]


def _find_prefixed(place: KeywordPlace, keyword: bytes) -> Iterator[SecretSpan]:
    """Yield the secret that begins at a keyword, if there is one."""
    for rule, pattern in _patterns(keyword):
        found = pattern.match(place.buffer, place.first, min(place.end, place.first + _WINDOW))
        if found is None:
            yield from _find_broken(place, keyword, rule, pattern)
            continue
        if not _is_drawn(found[0][len(keyword) :]):
            continue
        if found.end() == place.first + _WINDOW:
            found = pattern.match(place.buffer, place.first, place.end) or found
        yield SecretSpan(found.start(), found.end(), rule)
        if rule == "aws-access-key":
            yield from _find_paired(place, found.end())


def _find_broken(place: KeywordPlace, keyword: bytes, rule: str, pattern: re.Pattern[bytes]) -> Iterator[SecretSpan]:
    """Yield a secret that continues on the next line, or in the next of two joined strings."""
    head = _HEAD.match(place.buffer, place.last, min(place.end, place.last + _LINE))
    if head is None:
        return
    tail = _TAIL.match(place.buffer, head.end(), min(place.end, head.end() + _LINE))
    if tail is None or not (is_mixed(head[0][:-1]) and is_mixed(tail["rest"])):
        return
    whole = place.buffer[place.first : head.end()] + tail["rest"]
    before = place.buffer[max(place.begin, place.first - 1) : place.first]
    found = pattern.match(before + whole, len(before))
    # The pattern must need both parts, or the second part may be something else.
    if found and found.end() == len(before + whole) and _is_drawn(whole[len(keyword) :]):
        yield SecretSpan(place.first, head.end(), rule)
        yield SecretSpan(tail.start("rest"), tail.end("rest"), rule)


def _find_paired(place: KeywordPlace, at: int) -> Iterator[SecretSpan]:
    """Yield the AWS secret that follows the id of an access key, in a table or on the next line."""
    found = _PAIRED.match(place.buffer, at, min(place.end, at + 200))
    if found and not is_hash(found["secret"]) and is_mixed(found["secret"]) and _is_drawn(found["secret"]):
        yield SecretSpan(found.start("secret"), found.end("secret"), "aws-secret-key")


@lru_cache(maxsize=1024)
def _is_drawn_by(head: bytes, tail: bytes) -> bool:
    return len(set(tail.lower())) > 5 and not is_wordy(head)


def _is_drawn(body: bytes) -> bool:
    return _is_drawn_by(body[:_WINDOW], body[-24:])


def _find_middle(place: KeywordPlace, keyword: bytes) -> Iterator[SecretSpan]:
    """Yield the secret around a keyword from `_MIDDLES`, if there is one."""
    rule, pattern, back, ahead, drawn = _MIDDLES[keyword]
    found = pattern.search(place.buffer, max(place.begin, place.first - back), min(place.end, place.first + ahead))
    if found and _is_drawn(found[0][drawn]):
        yield SecretSpan(found.start(), found.end(), rule)


def discord_tokens(buffer: bytes) -> Iterator[SecretSpan]:
    """Yield the tokens of Discord bots.

    A token is the bot's number in base64, a time and random characters, joined by dots.
    """
    for found in _DISCORD.finditer(buffer):
        head = _DISCORD_HEAD.search(buffer, max(0, found.start() - 30), found.start())
        if head and _is_drawn(found["drawn"]):
            yield SecretSpan(head.start(), found.end(), "discord-token")


def find_pem(place: KeywordPlace, _keyword: bytes = b"") -> Iterator[SecretSpan]:
    r"""Yield a private key in PEM (RFC 7468), also on one line with `\n` as text, or without its end.

    Numbered, quoted or logged text has other characters before each line. Then everything up to the end of the key is
    redacted, if most of it is base64. Without an end, the lines that begin like the first one are redacted.
    """
    begin = _PEM.match(place.buffer, place.first, place.end)
    if begin is None:
        return
    limit = min(place.end, begin.end() + _PEM_MAX)
    body = _PEM_BODY.match(place.buffer, begin.end(), limit)
    behind = body.end() if body else begin.end()
    end = _PEM_END.match(place.buffer, behind, place.end)
    if end is None:
        following = place.buffer.find(b"-----BEGIN ", begin.end(), limit)
        end = _PEM_ENDING.search(place.buffer, behind, limit if following < 0 else following)
        stretch = b"" if end is None else place.buffer[begin.end() : end.start()]
        if sum(map(len, _PEM_RUN.findall(stretch))) * 2 < len(stretch):
            end = None
    if end is None:
        line = place.buffer.find(b"\n", begin.end(), limit) + 1
        if line:
            behind = max(behind, _lines_end(place, line, limit, _before_on_line(place, begin.start())))
    yield SecretSpan(begin.start(), end.end() if end else behind, "private-key")


def find_pem_end(place: KeywordPlace, _keyword: bytes = b"") -> Iterator[SecretSpan]:
    """Yield the last lines of a private key whose first lines are missing."""
    end = _PEM_ENDING.match(place.buffer, place.first, place.end)
    if end is None:
        return
    least = max(place.begin, place.first - _PEM_MAX)
    first = _begin_escaped_lines(place.buffer, least, place.first)
    if first < place.first:
        yield SecretSpan(first, end.end(), "private-key")
        return
    before = _before_on_line(place, place.first)
    at = first = place.first - len(before)
    while at > least:
        line = place.buffer.rfind(b"\n", least, at - 1) + 1 or least
        text = place.buffer[line : at - 1]
        found = _PEM_LINE.fullmatch(text) if len(text) < _LINE else None
        is_last = at == place.first - len(before)
        if found is None or len(found["run"]) < _PEM_FULL or not _begins_alike(found["before"], before):
            if not is_last or len(text) > _LINE or not _PEM_SHORT.fullmatch(text):
                break
        else:
            first = line + len(found["before"])
        at = line
    if first < place.first - len(before):
        yield SecretSpan(first, end.end(), "private-key")


def _begin_escaped_lines(buffer: bytes, least: int, end: int) -> int:
    """Return the start of the base64 lines before `end` whose line feeds are escaped, as in JSON.

    Without such lines, return `end`. All lines but the last one are long. The first one may be cut.
    """
    begin = end
    while buffer[begin - 2 : begin] == b"\\n":
        low = max(least, begin - _LINE)
        at = buffer.rfind(b"\\n", low, begin - 2)
        found = _PEM_RUN_END.search(buffer[low if at < 0 else at + 2 : begin - 2].rstrip(b"\\r"))
        if found is None or (at >= 0 and found.start()) or (begin < end and at >= 0 and len(found[0]) < _PEM_FULL):
            break
        begin = (low if at < 0 else at + 2) + found.start()
    return begin if end - begin >= _PEM_FULL else end


def _find_wrapped(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    """Yield a private key in PEM that is encoded in base64 again, over several lines."""
    found = _PEM_BASE64.match(place.buffer, place.first, min(place.end, place.first + _LINE))
    if found is None or b"PRIVATE" not in binascii.a2b_base64(found[0][: len(found[0]) // 4 * 4]):
        return
    limit = min(place.end, place.first + _PEM_MAX)
    line = place.buffer.find(b"\n", place.first, limit) + 1
    last = _lines_end(place, line, limit, _before_on_line(place, place.first)) if line else 0
    yield SecretSpan(place.first, max(found.end(), last), "private-key")


def _find_ppk(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    """Yield the private lines of a PuTTY key file."""
    found = _PPK.match(place.buffer, place.first, place.end)
    if found is not None:
        limit = min(place.end, found.end() + _PEM_MAX)
        last = _lines_end(place, found.end(), limit, _before_on_line(place, place.first))
        if last > found.end():
            yield SecretSpan(found.end(), last, "private-key")


def _before_on_line(place: KeywordPlace, at: int) -> bytes:
    line = place.buffer.rfind(b"\n", max(place.begin, at - 80), at) + 1
    return place.buffer[line or max(place.begin, at - 80) : at]


def _begins_alike(before: bytes, first: bytes) -> bool:
    """Return True if a line begins like the first line of a key, except for its number."""
    if _PEM_MARKS.fullmatch(before):
        return True
    plain, other = (_PEM_DIGITS.sub(b"", text).translate(None, b" \t:-") for text in (before, first))
    return plain == other


def _lines_end(place: KeywordPlace, at: int, limit: int, first: bytes) -> int:
    """Return the end of the lines of base64 that begin at a place, or 0 if there are none."""
    end = 0
    while at < limit:
        found = _PEM_LINE.match(place.buffer, at, limit)
        if found is None or not _begins_alike(found["before"], first):
            break
        end, at = found.end("run"), found.end()
    return end


FINDS: dict[bytes, Find] = {
    **{prefix.lower(): _find_prefixed for prefix in _TABLE},
    b"-----begin ": find_pem,
    b"-----end ": find_pem_end,
    b"ls0tls1crudjti": _find_wrapped,
    b"private-lines: ": _find_ppk,
    **dict.fromkeys(_MIDDLES, _find_middle),
}
