"""What stands behind a name that says it is a secret: in code, JSON, YAML, environments, headers, flags, XML, prose.

A keyword such as `token` is where to look; the whole name around it says what to expect (`max_tokens` is a number,
`cache_key` is no secret, `db_password` may be anything); `plausible` judges the value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from memoryd.scrub.finding import Place, Span
from memoryd.scrub.plausible import is_key, is_mixed, is_password, is_stand_in, is_token, looks_random

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PASSWORD, TOKEN, KEY = "password", "token", "key"

# The words by which a name is a secret's, by what kind. They are looked for in lower case, anywhere in a name.
_KINDS = {
    PASSWORD: (
        "password passwd passwort passphrase passcode pwd kennwort contraseña contrasena senha wachtwoord hasło "
        "пароль пароля ПАРОЛЬ Пароль 密码 密碼 パスワード 비밀번호 lösenord salasana şifre parola motdepasse"
    ),
    TOKEN: "token secret apikey credential creds bearer jwt",
    KEY: "key auth session cookie signature dsn clave chiave schlüssel ключ",
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
_NAME_BEFORE = re.compile(rb"[\w\-\x80-\xff]{0,48}\Z")

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
_TRIM = b",;:.!?"
_PAIRS = {b")": b"(", b"]": b"[", b"}": b"{", b">": b"<"}


class Value(NamedTuple):
    """A value, where it begins, and whether it stood in quotes."""

    text: bytes
    at: int
    quoted: bool


def _kind_by_word() -> dict[bytes, str]:
    return {word.encode(): kind for kind, words in _KINDS.items() for word in words.split()}


KEYWORDS: dict[bytes, str] = _kind_by_word()
_PLAUSIBLE: dict[str, Callable[..., bool]] = {PASSWORD: is_password, TOKEN: is_token, KEY: is_key}


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
    if last in {b"auth", b"authorization", b"session", b"cookie", b"signature", b"dsn", b"secrets", b"keys"}:
        return KEY
    return KEY if last in KEYWORDS else None


def name_before(place: Place) -> bytes:
    """The part of a name that stands before its keyword."""
    before = place.buffer[max(place.begin, place.first - 48) : place.first]
    found = _NAME_BEFORE.search(before)
    return found[0] if found else b""


def find(place: Place, keyword: bytes) -> Iterator[Span]:
    """The value that a name with this keyword has, if it is a secret."""
    found = _AFTER.match(place.buffer, place.last, place.end)
    before = name_before(place)
    is_flag = before.startswith(b"--") or (before.startswith(b"-") and b"-" not in before[1:])
    if found is None and is_flag:
        found = _FLAG.match(place.buffer, place.last, place.end)
    if found is None:
        return
    name = before + place.buffer[place.first : place.last] + found["rest"]
    kind = kind_of(name)
    if kind is None:
        return
    operator = found.groupdict().get("operator", b"=") or b"="
    value = value_at(place, found.end(), found["quote"], to_space=_is_environment(name, operator))
    if value is not None and _PLAUSIBLE[kind](value.text, quoted=value.quoted or _is_environment(name, operator)):
        yield Span(value.at, value.at + len(value.text), f"{kind}-value")


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
        if last in _PAIRS and text.count(last) > text.count(_PAIRS[last]):
            text = text[:-1]
        elif last in {b'"', b"'", b"`", b"*"} or last in [bytes([mark]) for mark in _TRIM]:
            text = text[:-1]
        else:
            break
    return text


# --- prose ---

_LINK = (
    rb"(?:is|was|are|will be|be|equals|reads|to|ist|lautet|war|es|era|est|\xc3\xa9|\xc3\xa8|jest|\xc3\xa4r|on|"
    rb"\xd1\x8d\xd1\x82\xd0\xbe|:|=|->|\xe2\x86\x92|\xe2\x80\x94|-|\xe6\x98\xaf|\xe4\xb8\xba|\xef\xbc\x9a|\xe3\x81\xaf|\xeb\x8a\x94|\xec\x9d\x80)"
)
_SAID = re.compile(
    rb"(?P<rest>" + _NAME_REST + rb")(?P<words>(?:[ \t]+[^\s:=\"'`]{1,40}){0,6}?)"
    rb"(?:[ \t]*(?P<link>"
    + _LINK
    + rb")(?:[ \t]*:)?(?:[ \t]+(?:now|still|currently|set to|just|simply|actually|this|following))?|"
    rb"[ \t]*[(,]?)"
    rb"[ \t]*(?P<quote>(?:" + _QUOTE + rb"|\*{1,2}|\xe2\x80[\x98-\x9f]|\xc2\xab ?)?)(?=[^\s])"
)
_JOINED = re.compile(
    rb"\s*(?:\xe6\x98\xaf|\xe4\xb8\xba|\xef\xbc\x9a|\xe3\x81\xaf|\xeb\x8a\x94|\xec\x9d\x80)\s*(?P<quote>(?:"
    + _QUOTE
    + rb")?)"
)
_NEGATIVE = re.compile(
    rb"(?i)\b(?:public|cache|primary|foreign|sort|partition|idempotency|not|no|wrong|expired|invalid|hash|length|file|path|name|id|"
    rb"type|url|field|header|count|size)\b"
)
_REVERSE = re.compile(
    rb"(?P<value>[^\s\"'`]{6,200})[\"'`]?[ \t]+(?:as|is|for|being|=)[ \t]+(?:my|the|our|a|your|its)(?:[ \t]+[\w-]{1,20}){0,3}[ \t]+\Z"
)
_WORDS_MAX = 400


def find_said(place: Place, keyword: bytes) -> Iterator[Span]:
    """A secret that is told in a sentence: "my password is …", "der Token für X lautet …", "use … as the password"."""
    before = name_before(place)
    kind = KEYWORDS[keyword]
    found = _SAID.match(place.buffer, place.last, min(place.end, place.last + _WORDS_MAX))
    if found is None or (found["rest"] not in {b"", b"s", b"e"} and kind_of(before + keyword + found["rest"]) is None):
        return
    context = place.buffer[max(place.begin, place.first - 24) : place.first] + found["words"]
    for candidate in _said_values(place, found):
        if _is_told(candidate, kind, linked=found["link"] is not None, context=context):
            yield Span(candidate.at, candidate.at + len(candidate.text), f"{kind}-told")
            return


def _said_values(place: Place, found: re.Match[bytes]) -> Iterator[Value]:
    quote = found["quote"]
    first = value_at(place, found.end(), quote if quote[-1:] in {b'"', b"'", b"`"} else b"")
    if first is not None:
        yield first


def _is_told(value: Value, kind: str, *, linked: bool, context: bytes) -> bool:
    text = value.text
    if is_stand_in(text) or b" " in text or _NEGATIVE.search(context):
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


def find_before(place: Place, keyword: bytes) -> Iterator[Span]:
    """A secret that is told before its name: "hunter2 is my password"."""
    start = max(place.begin, place.first - 280)
    found = _REVERSE.search(place.buffer[start : place.first])
    if found:
        text = trimmed(found["value"])
        if is_mixed(text) and (is_password if KEYWORDS[keyword] == PASSWORD else is_token)(text, quoted=False):
            yield Span(start + found.start(), start + found.start() + len(text), f"{KEYWORDS[keyword]}-told")
