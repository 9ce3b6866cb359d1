"""What stands behind a name that says it is a secret: in code, JSON, YAML, environments, headers, flags, XML, prose.

A keyword such as `token` is where to look; the whole name around it says what to expect (`max_tokens` is a number,
`cache_key` is no secret, `db_password` may be anything); `plausible` judges the value.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from memoryd.scrub.finding import Place, Span
from memoryd.scrub.plausible import is_key, is_mixed, is_password, is_stand_in, is_token, looks_random

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PASSWORD, TOKEN, KEY = "password", "token", "key"
REJECTED = ""  # the rule of a value that was judged to be no secret; it tells how far has been looked

# The words by which a name is a secret's, by what kind. They are looked for in lower case, anywhere in a name.
_KINDS = {
    PASSWORD: (
        "password passwd passwort passphrase passcode pwd kennwort contraseña contrasena senha wachtwoord hasło "
        "пароль пароля ПАРОЛЬ Пароль 密码 密碼 パスワード 비밀번호 lösenord salasana şifre parola motdepasse"
    ),
    TOKEN: "token secret apikey credential creds bearer jwt",
    KEY: "key auth signature dsn clave chiave schlüssel ключ",
}
_TOKEN_ENDS = (b"token", b"secret", b"apikey", b"credential", b"credentials", b"creds", b"bearer", b"jwt", b"pat",
               b"authkey", b"accesskey", b"secretkey", b"privatekey", b"signingkey", b"encryptionkey")  # fmt: skip
_SHORT_PASSWORDS = (b"pass", b"pw", b"pin", b"mot de passe", b"passe")
_KEY_OWNERS = frozenset(
    b"api access secret private auth encryption encrypt signing sign master service account shared client app "
    b"application admin license licence webhook hmac deploy subscription consumer storage bot write read ingest live "
    b"prod production personal integration developer dev project server user root decryption aes jwt".split()
)
_HARMLESS_OWNERS = frozenset(
    b"public pub cache primary foreign sort partition idempotency i18n translation locale unique composite map dict "
    b"object hash row index lookup group routing message query registry storage_ property attribute event ref".split()
)
_TRAILING = frozenset(
    b"value val env prod production dev development staging stage test live string text str plain plaintext raw "
    b"default base64 b64 old new current primary secondary backup main override here for".split()
)
_NAME_WORD = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z\x80-\xff]+|[0-9]+")
_NAME_LETTERS = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-" + bytes(range(0x80, 0x100))
)

_NAME_REST = rb"[\w\-\x80-\xff]{0,40}"
_QUOTE = rb"\\{0,3}[\"'`]"
_AFTER = re.compile(
    rb"(?P<rest>" + _NAME_REST + rb")"
    rb"(?P<closing>(?:" + _QUOTE + rb"|\*\*|\]|\\?\"\])?)"
    rb"(?P<operator>"
    rb",?\s{1,40}(?:" + _QUOTE + rb")?(?:value|Value)(?:" + _QUOTE + rb")?[ \t]{0,4}[:=]|"  # {name: X, value: …}
    rb"[ \t]{0,4}:[ \t]{0,4}[A-Za-z_][\w.\[\]|<> ]{0,40}=(?!=)|"  # a declaration with a type
    rb"[ \t]{0,8}(?::=|=>|->|={1,3}|!=|:{1,2})|"
    rb"[ \t]{0,4}(?:,|\()(?=[ \t]{0,4}[fbrFBRu]?" + _QUOTE + rb")|"
    rb"\\{0,3}>|[ \t]{1,8}\|)"
    rb"[ \t]{0,8}(?:\*\*[ \t]?)?"
    rb"(?:[|>][+-]?\s{1,40}|![a-z]+ |Buffer\.from\(|[fbrFBRu]{1,2}(?=" + _QUOTE + rb"))?"
    rb"(?P<quote>(?:" + _QUOTE + rb"{1,3})?)"
)
_FLAG = re.compile(rb"(?P<rest>" + _NAME_REST + rb")(?:=|[ \t]{1,4})(?P<quote>(?:" + _QUOTE + rb")?)")
_IN_QUOTES = re.compile(rb"(?:[^\"'`\\\n]|\\.|[\"'`])*?(?=\\{0,3}[\"'`])")
_BARE = re.compile(rb"[^\s\x00]{1,4096}")
_LONG = 4096
_CUT = re.compile(
    rb"\\+[nrt](?![A-Za-z0-9]{0,3}[^\w\s\\])|\\+u00|[&;,](?=[\w.\-\[\]]{1,40}=)|[\"'`](?=[\s,;:)}\]>]|$)|\\+[\"']|</|"
    rb"[,;]\s|\x1b|[\"'],"
)
_TRIM = frozenset(bytes([mark]) for mark in b",;:.!?\"'`*")
_PAIRS = {b")": b"(", b"]": b"[", b"}": b"{", b">": b"<"}


class Value(NamedTuple):
    """A value, where it begins, and whether it stood in quotes."""

    text: bytes
    at: int
    quoted: bool


def _kind_by_word() -> dict[bytes, str]:
    return {word.encode(): kind for kind, words in _KINDS.items() for word in words.split()}


KEYWORDS: dict[bytes, str] = {**_kind_by_word(), b"mot de passe": PASSWORD}
_PLAUSIBLE: dict[str, Callable[..., bool]] = {PASSWORD: is_password, TOKEN: is_token, KEY: is_key}


@lru_cache(maxsize=4096)
def kind_of(name: bytes) -> str | None:
    """What a name says its value is: a password, a token, perhaps a key, or nothing of the sort."""
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    while len(words) > 1 and (words[-1] in _TRAILING or words[-1].isdigit()):
        words.pop()
    if not words:
        return None
    last, owners = words[-1], words[:-1]
    if owners and owners[-1] in _HARMLESS_OWNERS:
        return None
    if last in _SHORT_PASSWORDS or any(last.endswith(word) for word, kind in KEYWORDS.items() if kind == PASSWORD):
        return PASSWORD
    if last.endswith(_TOKEN_ENDS):
        return TOKEN
    if last in {b"key", b"id"} and len(owners) > 1 and last == b"id":
        return TOKEN if owners[-2:] == [b"access", b"key"] else None
    if last.endswith(b"key"):
        return TOKEN if owners and owners[-1] in _KEY_OWNERS else KEY
    if last in {b"auth", b"signature", b"dsn", b"secrets", b"keys"}:
        return KEY
    return KEY if last in KEYWORDS else None


def name_before(place: Place) -> bytes:
    """The part of a name that stands before its keyword."""
    buffer, at = place.buffer, place.first
    least = max(place.begin, at - 48)
    while at > least and buffer[at - 1] in _NAME_LETTERS:
        at -= 1
    return buffer[at : place.first]


def find(place: Place, keyword: bytes) -> Iterator[Span]:
    """The value that a name with this keyword has, or is said to have, if it is a secret."""
    before = name_before(place)
    found = _AFTER.match(place.buffer, place.last, place.end)
    if found is None and before.startswith(b"-"):
        found = _FLAG.match(place.buffer, place.last, place.end)
    if found is not None:
        yield from _assigned(place, before + place.buffer[place.first : place.last] + found["rest"], found)
    if keyword not in _NEVER_SAID and (found is None or _is_sentence(before, found)):
        yield from _said(place, keyword, before)
    if not before and place.buffer[place.first - 1 : place.first] == b" ":
        yield from _said_before(place, keyword)


def _is_sentence(before: bytes, found: re.Match[bytes]) -> bool:
    return not before and found.groupdict().get("operator") == b":"


def _assigned(place: Place, name: bytes, found: re.Match[bytes]) -> Iterator[Span]:
    kind = kind_of(name)
    if kind is None:
        return
    operator = found.groupdict().get("operator", b"=") or b"="
    is_environment = _is_environment(name, operator)
    value = value_at(place, found.end(), found["quote"], to_space=is_environment)
    if value is not None:
        # One string behind another may be the next of a list as well as the value of the first.
        quoted = (value.quoted and b"," not in operator) or is_environment
        plausible = _PLAUSIBLE[kind](value.text, quoted=quoted)
        yield Span(value.at, value.at + len(value.text), f"{kind}-value" if plausible else REJECTED)


def _is_environment(name: bytes, operator: bytes) -> bool:
    return operator == b"=" and name.upper() == name and bool(re.search(rb"[A-Z]", name))


def value_at(place: Place, at: int, quote: bytes, *, to_space: bool = False) -> Value | None:
    """The value that begins somewhere: to the closing quote where it has one, else to where a value would end."""
    buffer, end = place.buffer, min(place.end, at + _LONG)
    if quote:
        close = _closing(buffer, at, end, quote)
        if close is not None:
            text = buffer[at:close]
            return Value(text, at, quoted=True) if text else None
    found = _BARE.match(buffer, at, end)
    if found is None:
        return None
    text = found[0]
    cut = _CUT.search(text)
    if cut and not (to_space and cut[0][:1] in b",;"):
        text = text[: cut.start()]
    text = trimmed(text)
    return Value(text, at, quoted=False) if text else None


def _closing(buffer: bytes, at: int, end: int, quote: bytes) -> int | None:
    line = buffer.find(b"\n", at, end)
    limit = end if line < 0 else line
    close = buffer.find(quote, at, limit)
    while quote in {b'"', b"'", b"`"} and close > at and buffer[close - 1 : close] == b"\\":
        close = buffer.find(quote, close + 1, limit)
    return close if close >= at else None


def trimmed(text: bytes) -> bytes:
    """A value without the marks of the sentence or the brackets it stood in."""
    while text:
        last = text[-1:]
        if last not in _TRIM and not (last in _PAIRS and text.count(last) > text.count(_PAIRS[last])):
            break
        text = text[:-1]
    return text


# --- prose ---

# The words and signs between a name and what it is, in the languages whose words for it are above.
_LINK = (
    "(?:(?:is|was|are|will be|be|equals|reads|to|ist|lautet|war|es|era|est|é|è|jest|är|on|это)(?![\\w'\u2019-])"
    "|:|=|->|→|—|(?<=[ \\t])-(?=[ \\t])|是|为|\uff1a|は|는|은)"
).encode()
_ADVERB = rb"(?:[ \t]+(?:now|still|currently|set to|just|simply|actually|this|following))?"
_OPENING = rb"[ \t]*(?P<quote>(?:" + _QUOTE + rb"|\*{1,2}|\xe2\x80[\x98-\x9f]|\xc2\xab ?)?)(?=[^\s])"
_LINKED = re.compile(
    rb"(?P<rest>" + _NAME_REST + rb"?)(?P<words>(?:[ \t]+[^\s:=\"'`]{1,40}){0,6}?)"
    rb"[ \t]*(?P<link>" + _LINK + rb")(?:[ \t]*:)?" + _ADVERB + _OPENING
)
_BARE_NAME = re.compile(rb"(?P<rest>" + _NAME_REST + rb")(?P<words>)(?P<link>\x00)?[ \t]*[(,]?" + _OPENING)
_NEGATIVE = re.compile(
    rb"(?i)\b(?:public|cache|primary|foreign|sort|partition|idempotency|hash|length|file|path|name|id|"
    rb"type|url|field|header|count|size)\b"
)
_DENIED = re.compile(rb"(?i)\b(?:not|no|wrong|expired|invalid)\b")  # says little of what was clearly drawn by lot
_BEFORE_LINKS = frozenset({b"as", b"is", b"for", b"being", b"="})
_BEFORE_OWNERS = frozenset({b"my", b"the", b"our", b"a", b"your", b"its"})
_NEVER_SAID = frozenset({b"auth", b"signature", b"dsn"})  # nobody's sentence tells one of these
_WORDS_MAX = 400


def _said(place: Place, keyword: bytes, before: bytes) -> Iterator[Span]:
    """A secret that is told in a sentence: "my password is …", "der Token für X lautet …"."""
    kind = KEYWORDS[keyword]
    end = min(place.end, place.last + _WORDS_MAX)
    found = _LINKED.match(place.buffer, place.last, end) or _BARE_NAME.match(place.buffer, place.last, end)
    if found is None or (found["rest"] not in {b"", b"s", b"e"} and kind_of(before + keyword + found["rest"]) is None):
        return
    quote = found["quote"]
    if found["link"] is None and quote[-1:] not in {b'"', b"'", b"`"}:
        return
    value = value_at(place, found.end(), quote if quote[-1:] in {b'"', b"'", b"`"} else b"")
    if value is None or len(value.text) < 5:
        return
    context = place.buffer[max(place.begin, place.first - 24) : place.first] + found["words"]
    told = _is_told(value, kind, linked=found["link"] is not None, context=context)
    yield Span(value.at, value.at + len(value.text), f"{kind}-told" if told else REJECTED)


def _is_told(value: Value, kind: str, *, linked: bool, context: bytes) -> bool:
    text = value.text
    if is_stand_in(text) or b" " in text or _NEGATIVE.search(context):
        return False
    if _DENIED.search(context) and not (is_mixed(text) and looks_random(text)):
        return False
    if kind == PASSWORD and linked:
        if value.quoted:
            return is_password(text, quoted=True)
        return (
            len(text) >= 5
            and (is_mixed(text) or looks_random(text) or bool(re.search(rb"[a-z][!@#$%^&*?+]", text)))
            and is_password(text, quoted=False)
        )
    if not linked:
        return len(text) >= 12 and is_mixed(text) and is_token(text, quoted=value.quoted) and value.quoted
    return is_token(text, quoted=value.quoted)


def _said_before(place: Place, keyword: bytes) -> Iterator[Span]:
    """A secret that is told before its name: "hunter2 is my password"."""
    start = max(place.begin, place.first - 280)
    before = place.buffer[start : place.first]
    words = before[before.rfind(b"\n") + 1 :].split()[-6:]
    for at in range(len(words) - 2):
        value = trimmed(words[at].lstrip(b"\"'`(*"))
        if words[at + 1] not in _BEFORE_LINKS or words[at + 2] not in _BEFORE_OWNERS or len(value) < 6:
            continue
        judge = is_password if KEYWORDS[keyword] == PASSWORD else is_token
        if is_mixed(value) and judge(value, quoted=False):
            first = start + before.rfind(value)
            yield Span(first, first + len(value), f"{KEYWORDS[keyword]}-told")
