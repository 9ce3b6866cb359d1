"""Find secrets after a name for one, in code, JSON, YAML, environments, headers, flags, XML and prose.

A keyword such as `token` shows where to look, and the whole name around it shows what to expect. `max_tokens` is a
number, `cache_key` is no secret, and `db_password` may be anything. `plausible` judges the value.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from memoryd.scrub.finding import KeywordPlace, SecretSpan
from memoryd.scrub.plausible import (
    is_chosen,
    is_key,
    is_made_up,
    is_mixed,
    is_number,
    is_odd_password,
    is_password,
    is_path,
    is_stand_in,
    is_token,
    is_word,
    is_written,
    looks_random,
)
from memoryd.text.word_lists import list_bytes, list_words

PASSWORD, TOKEN, KEY = "password", "token", "key"
# These short words have many meanings, so the value after them must look like a secret.
PASS, PIN = "pass", "pin"
# This rule marks a value that was judged to be no secret, so that it is not judged again.
REJECTED = ""

# These words make a name a secret's name, by kind. They are found in any case, anywhere in a name.
_KINDS = {
    PASSWORD: " ".join(list_words("names of passwords")),
    TOKEN: "token secret apikey credential creds bearer jwt",
    KEY: "key auth signature dsn clave chiave clé schlüssel ключ",
}
_TOKEN_ENDS = list_bytes("ends of names of tokens")
_SHORT = {b"pass": PASS, b"pw": PASS, b"pin": PIN, b"psk": PASSWORD, b"mdp": PASSWORD}
# A short word is the name of a value only before one of these.
_SHORT_ENDS = (b"=", b" =", b":", b" :", b'"', b"'", b"`", b">", b"->", b" ->", b'\\"', b"**")
_PASS_OWNERS = frozenset(list_bytes("owners of passwords"))
_DIRECTORIES = frozenset({b"pwd", b"oldpwd", b"owd"})
_SIGNING = frozenset({b"secret", b"secretkey", b"signingkey"})
_KEY_OWNERS = frozenset(list_bytes("owners of keys"))
_SURE_OWNERS = _KEY_OWNERS.difference(b"project server user app application client read write bot storage".split())
_SECOND_WORDS = frozenset({b"key", b"token"})  # in names that people write as two words, such as "API key"
_HARMLESS_OWNERS = frozenset(list_bytes("owners of harmless keys"))
_TRAILING = frozenset(list_bytes("trailing words of names"))
_NAME_WORD = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z\x80-\xff]+|[0-9]+")
_NAME_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-" + bytes(range(0x80, 0x100))

_NAME_REST = rb"[\w\-\x80-\xff]{0,40}+"
# `_AFTER` can match only after these characters: no letter, except in `or` and `value`. This check is much faster, so
# that a text of nothing but names costs little. The same is true of the check for a name that is too long.
_MAY_BE_GIVEN = re.compile(rb"[\w\-\x80-\xff]{0,40}+(?:\s{0,40}+[^\w\s\x80-\xff-]|\s{0,40}+->|\s{1,40}+[ovV\xe2])")
_TOO_LONG = re.compile(rb"[\w\-]{41}")
# The rest of a name that does not end with a link such as `is`. If the whole name is no secret's, such as
# `keyword_null`, nothing behind it is the keyword's value.
_WHOLE_REST = re.compile(
    rb"(?:_?[A-Za-z0-9]){2,40}+(?![\w\-'\x80-\xff])"
    rb"(?<!is|be|to|es|on)(?<!was|are|ist|war|era|est)(?<!reads)(?<!equals)(?<!lautet)"
)
_QUOTE = rb"\\{0,31}[\"'`]"
_VALUE_KEY = _QUOTE + rb"value" + _QUOTE + rb"[ \t]{0,4}:[ \t]{0,4}"
_AFTER = re.compile(
    rb"(?P<rest>" + _NAME_REST + rb")"
    rb"(?P<closing>(?:" + _QUOTE + rb"\]?|\*\*|\])?)"
    rb"(?P<operator>"
    rb"\)?[ \t]{1,4}(?:or|\|\||\?\?|\?:)(?=[ \t]{1,4}[fbrFBRu]?" + _QUOTE + rb")|"  # a default after an empty value
    rb"[ \t]{0,4}\{[^{}]{0,200}?\bdefault[ \t]{0,12}=|"  # a variable of Terraform
    # the next field of an object
    rb"(?:,\s{0,40}|\s{1,40})(?:" + _QUOTE + rb")?(?:value|Value)(?:" + _QUOTE + rb")?[ \t]{0,4}[:=]|"
    rb"[ \t]{0,4}:[ \t]{0,4}(?:\[\s{0,40}|\{\s{0,40}" + _VALUE_KEY + rb")(?=" + _QUOTE + rb")|"  # in a list or object
    rb"[ \t]{0,4}(?:/?>|</\w{1,10}>)\s{0,40}<(?:value|td|dd|string)>|"  # the next element
    rb"[ \t]{0,4}:[ \t]{0,4}[&*]?[A-Za-z_][\w.\[\]|<> ]{0,40}=(?!=)|"  # a declaration with a type
    rb"[ \t]{0,8}(?::=|=>|->|={1,3}|!=|:-|:{1,2})|"
    rb"[ \t]{0,4}(?:,|\()(?=[ \t]{0,4}[fbrFBRu]?" + _QUOTE + rb")|"
    rb"\\{0,3}>|[ \t]{1,8}(?:\||\xe2[\x94\x95][\x80-\xbf])|"
    rb"[ \t][^<>\n]{0,80}?\bvalue=(?=" + _QUOTE + rb"))"  # the value of a form field
    rb"[ \t]{0,8}(?:\*\*[ \t]?){0,2}"
    rb"(?:[|>][+-]?\s{1,40}|![a-z]+ |\{\{ ?(?=" + _QUOTE + rb")|Buffer\.from\(|[fbrFBRuN]{1,2}(?=" + _QUOTE + rb"))?"
    rb"(?P<quote>(?:" + _QUOTE + rb"{1,3})?)"
)
_FLAG = re.compile(rb"(?P<rest>" + _NAME_REST + rb")(?:=|[ \t]{1,4})(?P<quote>(?:" + _QUOTE + rb")?)")
_BARE = re.compile(rb"[^\s\x00]{1,4096}")
_LONG = 4096
# The rules for a name read at most this far: back to a value before its name, and ahead to a value after a sentence.
BEHIND, AHEAD = 320, 400 + _LONG + 400
_CUT = re.compile(
    rb"\\+n(?=[0-9]{1,2}\.(?:\s|\Z))|\\+[nrt](?![A-Za-z0-9]{0,3}[^\w\s\\])|\\+u00|[&;,](?=[\w.\-\[\]]{1,40}=)|[\"'`](?=[\s,;:)}\]>]|$)|\\+[\"']|</|"
    rb"[,;]\s|\x1b|[\"'],|\xe2\x80[\x98-\x9f]|\xc2\xbb|\xef\xbc[\x89\x8c\x9b]|\xe3\x80[\x80-\x82\x8d]"
)
# This may come between the beginning of a line and the word for a secret.
_IS_SETTING = re.compile(rb"[ \t]*(?:[-*>#] |export |ENV |set )?[\"'*`]{0,3}[\w.\-: \x80-\xff]{0,40}")
_IS_FLAG = re.compile(
    rb"(?:(?<![\w-])--?(?:[A-Za-z][\w.-]{0,40}(?:[ =][\w.-]{0,40})?)?|[?&][\w-]{0,30}|\bkv put \S{1,80} [\w-]{0,20})\Z"
)
# Two sides share such a secret. A person chose it, perhaps as words.
_SHARED = re.compile(
    rb"(?i)(?:client|jwt|session|cookie|app|auth|hmac|signing|webhook|shared|consumer|api|token)[_.-]?secret(?:[_.-]?key)?\Z"
    rb"|secret[_-]?key(?:[_-]?base)?\Z"
)
_LEAST_SHARED = 10
# A value with such a word is the name of a secret.
_NAMED_SO = re.compile(rb"(?i)secret|client|key|session|jwt|app|config|setting|token|prod|stag|test")
_FIELD = re.compile(rb";[ ]?[A-Za-z][A-Za-z ]{1,30}=[^=\s]")
_FALLBACKS = frozenset({b"||", b"or", b"??", b"?:"})
_ASKS = re.compile(rb"(?i)(?:get|fetch|read|find|lookup|load|delete|remove|has|check|verify|prompt|ask)[_A-Z]")
# After the name of an account, a short word such as `pass` means a password.
_USER_BEFORE = re.compile(
    (
        "(?i)(?:user(?:name)?|login|account|e-?mail|usuario|benutzer(?:name)?|utilisateur|identifiant|utente|логин|"
        "пользователь|用户名|账号)[\"'*`]{0,3}[ \\t]{0,4}[:=\uff1a][ \\t]{0,4}"
        "[\"'*`]{0,3}[^\"'\\s]{1,64}[\"'*`]{0,3},?\\s{0,16}(?:[-*>][ ])?[\"'*`]{0,3}\\Z"
    ).encode()
)
_GOES_ON = re.compile(rb"[ \t]{1,4}(?:if|else|and|or|for|is|in|not|==|!=|\+)(?!\w)")
_TRIM = frozenset(bytes([mark]) for mark in b",;:.!?\"'`*")
_PAIRS = {b")": b"(", b"]": b"[", b"}": b"{", b">": b"<"}


class Value(NamedTuple):
    """Hold a value, its start, and whether it was in quotes."""

    text: bytes
    at: int
    quoted: bool


_LONG_WORDS: dict[bytes, str] = {
    **{word.encode(): kind for kind, words in _KINDS.items() for word in words.split()},
    b"mot de passe": PASSWORD,
}
_SHORT_WORDS = {word + end: word for word in _SHORT for end in _SHORT_ENDS}
KEYWORDS: dict[bytes, str] = {**_LONG_WORDS, **{key: _SHORT[word] for key, word in _SHORT_WORDS.items()}}
PLAUSIBLE: dict[str, Callable[..., bool]] = {
    PASSWORD: is_password,
    TOKEN: is_token,
    KEY: is_key,
    PASS: is_made_up,
    PIN: is_number,
}


@lru_cache(maxsize=4096)
def kind_of(name: bytes) -> str | None:
    """Return the kind of value that a name announces: one of the constants above, or None."""
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    while len(words) > 1 and (words[-1] in _TRAILING or words[-1].isdigit()):
        words.pop()
    if not words:
        return None
    last, owners = words[-1], words[:-1]
    if owners and owners[-1] in _HARMLESS_OWNERS:
        return None
    short = _short_kind(last, owners, shouted=name.upper() == name)
    if short:
        return short
    ends = tuple(word for word, kind in _LONG_WORDS.items() if kind == PASSWORD)
    if last == b"passe" or last.removesuffix(b"s").endswith(ends):
        return PASSWORD
    if last.endswith(_TOKEN_ENDS):
        return TOKEN
    if last in {b"key", b"id"} and len(owners) > 1 and last == b"id":
        return TOKEN if owners[-2:] == [b"access", b"key"] else None
    if last.endswith(b"key"):
        return TOKEN if owners and owners[-1] in _KEY_OWNERS else KEY
    if last in {b"auth", b"signature", b"dsn", b"secrets", b"keys"}:
        return KEY
    return KEY if last in _LONG_WORDS else None


def _short_kind(last: bytes, owners: list[bytes], *, shouted: bool) -> str | None:
    if last == b"pin":
        return PIN
    is_wireless = last in {b"key", "schlüssel".encode()} and not {b"wpa", b"wifi", b"wlan"}.isdisjoint(owners)
    if is_wireless or last in {b"psk", b"mdp"} or (last.endswith(b"pass") and last[:-4] in _PASS_OWNERS):
        return PASSWORD
    if last not in {b"pass", b"pw"}:
        return None
    return PASSWORD if owners and (shouted or owners[-1] in _PASS_OWNERS) else PASS


def name_before(place: KeywordPlace) -> bytes:
    """Return the part of a name that comes before its keyword."""
    before = place.buffer[max(place.begin, place.first - 48) : place.first]
    return before[len(before.rstrip(_NAME_LETTERS)) :]


def owner_before(place: KeywordPlace) -> bytes:
    """Return the word before the keyword of a name in two words, with `_`: "api_" for "API key".

    It is empty if the word does not own a key.
    """
    owner = place.buffer[max(place.begin, place.first - 24) : place.first - 1].rsplit(None, 1)[-1:]
    return owner[0] + b"_" if owner and owner[0].lower() in _SURE_OWNERS else b""


def _find_before(place: KeywordPlace, keyword: bytes) -> bytes:
    """Return the part of a name before its keyword, also if the name is two words."""
    before = name_before(place)
    is_second = not before and keyword in _SECOND_WORDS and place.buffer[place.first - 1] in b" -"
    return owner_before(place) if is_second else before


def find(place: KeywordPlace, keyword: bytes) -> Iterator[SecretSpan]:
    """Yield the value that an assignment or a sentence gives to a name, if it is a secret.

    A value that was judged to be no secret is yielded with the rule `REJECTED`.
    """
    if keyword in _SHORT_WORDS:
        place = place._replace(last=place.first + len(_SHORT_WORDS[keyword]))
    if not is_other_name(place, keyword):
        yield from _find_behind(place, keyword, _find_before(place, keyword))
    if keyword not in _SHORT_WORDS and place.buffer[place.first - 1 : place.first] == b" ":
        yield from _said_before(place, keyword)


def is_other_name(place: KeywordPlace, keyword: bytes) -> bool:
    """Return True if a keyword is part of a longer name that is not the name of a secret. Then no secret follows it."""
    buffer, first, _, _, end = place
    last = first + len(_SHORT_WORDS.get(keyword, keyword))
    rest = _WHOLE_REST.match(buffer, last, end)
    if rest is None:
        return False
    before, written = _find_before(place, keyword), buffer[first:last]
    # Some patterns see the name as it is written, and others its keyword in lower case.
    return kind_of(before + written + rest[0]) is None and kind_of(before + keyword + rest[0]) is None


def _find_behind(place: KeywordPlace, keyword: bytes, before: bytes) -> Iterator[SecretSpan]:
    buffer, last, end = place.buffer, place.last, place.end
    found = _AFTER.match(buffer, last, end) if _MAY_BE_GIVEN.match(buffer, last, end) else None
    if found is None and before.startswith(b"-"):
        found = _FLAG.match(buffer, last, end)
    if found is not None:
        yield from _find_assigned(place, before + buffer[place.first : last] + found["rest"], found)
    if keyword == b"pw:":
        yield from _set_apart(place, before)
    if keyword not in _SHORT_WORDS and not _TOO_LONG.match(buffer, last, end):
        operator = b":" if found is None else found.groupdict().get("operator", b"")
        if operator.strip() == b":":
            yield from _set_apart(place, before)
        if keyword not in _NEVER_SAID and (found is None or (not before and operator == b":")):
            yield from _find_told(place, keyword, before)


def _is_no_value(kind: str, name: bytes, operator: bytes) -> bool:
    # After a call that asks for a password, the next argument is the name of the requested value.
    return (kind in {PASS, PIN} and operator.startswith(b",")) or (operator == b"(" and bool(_ASKS.match(name)))


def _is_shared(name: bytes, operator: bytes, value: Value) -> bool:
    """Return True if a value made of words is a secret that two sides share.

    Without quotes, such a value is more often the name of a secret.
    """
    is_setting = name.upper() == name
    is_meant = (operator in _FALLBACKS and is_setting) or _SHARED.search(name) is not None
    is_value = (value.quoted or is_setting) and len(value.text) >= _LEAST_SHARED and not _NAMED_SO.search(value.text)
    return is_meant and is_value and is_written(value.text)


class _GivenValue(NamedTuple):
    """Hold a value with the name and the sign before it.

    Attributes:
        name: the whole name.
        operator: what comes between name and value, such as `=` or `||`.
        value: what is judged.
        quoted: the value cannot be a variable, and is not the next string of a list.
        meant: the value is set for a program, as in an environment.
    """

    name: bytes
    operator: bytes
    value: Value
    quoted: bool
    meant: bool


def _is_secret(place: KeywordPlace, kind: str, given: _GivenValue) -> bool:
    name, operator, value = given.name, given.operator, given.value
    start = place.first - len(name_before(place))
    before = place.buffer[max(place.begin, start - 120) : start]
    if kind in {PASS, KEY} and is_mixed(value.text) and _USER_BEFORE.search(before):
        kind = PASSWORD
    if _is_plausible(kind, name, value.text, quoted=given.quoted, meant=given.meant):
        return True
    if (not value.quoted and not _is_literal(place, value)) or _is_harmless(kind, name.lower(), value.text):
        return False
    if kind == PASSWORD:
        # A text that has a kind is a variable's name.
        return (is_made_up if value.quoted else is_written)(value.text) and kind_of(value.text) is None
    return kind == TOKEN and _is_shared(name, operator, value)


def _find_assigned(place: KeywordPlace, name: bytes, found: re.Match[bytes]) -> Iterator[SecretSpan]:
    kind = kind_of(name)
    operator = found.groupdict().get("operator", b"=") or b"="
    if kind is None or _is_no_value(kind, name, operator.strip()) or _is_empty_string(place, found):
        return
    is_environment = operator == b"=" and name.upper() == name and bool(re.search(rb"[A-Z]", name))
    value = value_at(place, found.end(), found["quote"], to_space=is_environment)
    if value is not None:
        # A string after a comma may be the value of the string before it, or the next string of a list.
        quoted = (value.quoted and operator.strip() != b",") or is_environment or _is_field(place, value)
        given = _GivenValue(name, operator.strip(), value, quoted=quoted, meant=is_environment)
        plausible = _is_secret(place, kind, given) and not (not quoted and _is_variable(place, value))
        yield SecretSpan(value.at, value.at + len(value.text), f"{kind}-value" if plausible else REJECTED)


def _is_field(place: KeywordPlace, value: Value) -> bool:
    """Return True if a value is a field of a connection string, which holds no variables."""
    return not value.quoted and bool(_FIELD.match(place.buffer, value.at + len(value.text), place.end))


def _is_literal(place: KeywordPlace, value: Value) -> bool:
    """Return True if a program reads a value without quotes literally, in a setting, a flag or an XML element."""
    behind = value.at + len(value.text)
    least = max(place.begin, place.first - 120)
    before = place.buffer[max(least, place.buffer.rfind(b"\n", least, place.first) + 1) : place.first]
    after = place.buffer[behind : min(place.end, behind + 2)]
    if _IS_FLAG.search(before) or after == b"</":
        return True
    return bool(_IS_SETTING.fullmatch(before)) and (not after or after[:1] in b"\r\n" or after == b"**")


def _is_empty_string(place: KeywordPlace, found: re.Match[bytes]) -> bool:
    # CSV doubles the quotes around a value. An empty string also has two quotes, but other code follows it.
    quote = found["quote"]
    behind = place.buffer[found.end() : found.end() + 1]
    return len(quote) == 2 and quote[:1] == quote[1:] and (not behind or behind in b" \t\r\n,;:)]}>+")


def _is_variable(place: KeywordPlace, value: Value) -> bool:
    """Return True if a value is a variable such as `password2` in an expression that continues."""
    stem = value.text.rstrip(b"0123456789_").lower()
    return stem in _LONG_WORDS and bool(_GOES_ON.match(place.buffer, value.at + len(value.text), place.end))


def _is_harmless(kind: str, name: bytes, value: bytes) -> bool:
    """Return True for a folder, for the public signature of an XML document, and for a name."""
    if (name in _DIRECTORIES and is_path(value)) or name.endswith(b"signaturevalue"):
        return True
    if value.endswith((b"PrivateKey", b"SecretKey", b"PublicKey")):  # the name of a type
        return True
    return kind == TOKEN and b"_" in value and value.replace(b"_", b"").isalpha() and kind_of(value) is not None


def _is_plausible(kind: str, name: bytes, value: bytes, *, quoted: bool, meant: bool) -> bool:
    low = name.lower()
    if _is_harmless(kind, low, value):
        return False
    if low.endswith(b"dsn"):
        return b"@" in value and is_key(value, quoted=quoted)
    if kind == PASSWORD:
        return is_password(value, quoted=quoted, meant=meant)
    if kind == TOKEN and quoted and name.upper() == name and low.replace(b"_", b"").endswith(tuple(_SIGNING)):
        return is_token(value, quoted=True) or is_chosen(value)
    return PLAUSIBLE[kind](value, quoted=quoted)


def value_at(place: KeywordPlace, at: int, quote: bytes, *, to_space: bool = False) -> Value | None:
    """Return the value that begins at `at`, up to its closing quote or to the end of a bare value.

    It is None if there is no value.
    """
    buffer, end = place.buffer, min(place.end, at + _LONG)
    close = _find_closing(buffer, at, end, quote) if quote else None
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
    text = trim(text)
    return Value(text, at, quoted=False) if text else None


def _find_closing(buffer: bytes, at: int, end: int, quote: bytes) -> int | None:
    line = buffer.find(b"\n", at, end)
    limit = end if line < 0 else line
    # In code in JSON, another line follows this.
    line = buffer.find(b"\\n ", at, limit)
    limit = limit if line < 0 else line
    close = buffer.find(quote, at, limit)
    while quote in {b'"', b"'", b"`"} and close > at and buffer[close - 1 : close] == b"\\":
        close = buffer.find(quote, close + 1, limit)
    return close if close >= at else None


def trim(text: bytes) -> bytes:
    """Return a value without the punctuation or the brackets around it."""
    while text:
        last = text[-1:]
        if last not in _TRIM and not (last in _PAIRS and text.count(last) > text.count(_PAIRS[last])):
            break
        text = text[:-1]
    return text


# --- set apart ---

# The value is alone on the line below the name, or in the second column of a two-column table.
_APART_VALUE = rb"(?P<quote>[`\"']?)(?P<value>[^\s`\"']{6,256})(?P=quote)[ \t]{0,8}(?=\r?\n|\Z)"
_APART = (
    rb"(?P<below>(?:\r?\n[ \t]{0,16}){1,2}(?:```\w{0,12}\r?\n[ \t]{0,16})?)"
    rb"(?:[>*-][ \t]{1,4})?(?P<sure>\*{0,2}\w{1,8}:\*{0,2}[ \t]{1,4}|<[\w-]{1,16}>[ \t]|it's[ \t])?" + _APART_VALUE
)
_BELOW = re.compile(
    rb"(?P<rest>[\w-]{0,40})[\"'`*]{0,2}(?:(?:[ \t][^\s:?]{1,24}){0,7}[:?.)]|(?:[ \t]below)?[ \t]{0,4}(?:[:?]|\xef"
    rb"\xbc\x9a)?)[\"'`*]{0,2}[ \t]{0,4}" + _APART
)
_BESIDE = re.compile(
    rb"(?P<rest>[\w-]{0,40}(?:[ ](?:key|token|code))?)[\"'`*]{0,2}(?P<below>\x00)?"
    rb"(?:[ ]{2,40}|\t|[ \t]{0,4}(?P<sure>(?:\.{3,80}|_{3,80}|-{3,80}):?)[ \t]{1,4})" + _APART_VALUE
)


def _set_apart(place: KeywordPlace, before: bytes) -> Iterator[SecretSpan]:
    """Yield a secret on the next line below its name, or in a column beside it."""
    end = min(place.end, place.last + _WORDS_MAX)
    line = place.buffer.find(b"\n", place.last, end)
    is_below = line > 0 and (line - place.last < 44 or place.buffer[line - 1] in b":?.)*`\r")
    found = (is_below and _BELOW.match(place.buffer, place.last, end)) or _BESIDE.match(place.buffer, place.last, end)
    if found is None:
        return
    if found["below"] is None and not found["sure"]:
        start = place.first - len(before)
        text = place.buffer[max(place.begin, start - 40) : start]
        if text[text.rfind(b"\n") + 1 :].strip(b" \t|*-\x1e"):
            return
    kind = kind_of(before + place.buffer[place.first : place.last] + found["rest"])
    value = found["value"]
    label = place.buffer[place.last : found.start("below")] if found["below"] else b""
    is_sure = bool(found["sure"]) or label.rstrip(b" \t*`\"'").endswith((b":", b"?", b"\xef\xbc\x9a"))
    if _is_apart(kind, value, is_sure=is_sure) and not value.endswith((b":", b",", b"{", b"(", b"~#", b"~$")):
        yield SecretSpan(found.start("value"), found.end("value"), f"{kind}-told")


def _is_apart(kind: str | None, value: bytes, *, is_sure: bool) -> bool:
    """Return True if a value that is apart from its name is a secret.

    `is_sure` says that words, dots, a colon or a question mark lead from the name to the value. Then a password may be
    plainer.
    """
    if kind in {PASSWORD, PASS}:
        return is_odd_password(value, quoted=False) or (is_sure and (is_made_up(value) or is_word(value)))
    is_long = len(value) >= (12 if is_sure else 16)
    return kind == TOKEN and is_long and is_mixed(value) and is_token(value, quoted=False)


# --- prose ---

# These words and signs connect a name and its value, in the languages of the words for secrets above.
_LINK = (
    "(?:(?:is|was|are|will be|be|equals|reads|to|ist|lautet|war|es|era|est|c'est|é|è|jest|är|on|это)(?![\\w'\u2019-])"
    "|[.?][ \\t]{1,4}(?:[Ii]t's|[Ii]t is|[Ee]s ist|[Cc]'est)(?=[ \\t])"
    "|(?:'|\u2019)s(?=[ \\t])|:|=|->|→|—|(?<=[ \\t])-(?=[ \\t])|改为|改成|换成|是|为|\uff1a|は|는|은)"
).encode()
_ADVERB = rb"(?:[ \t]+(?:now|still|currently|set to|just|simply|actually|this|following))?"
_OPENING = rb"[ \t]*(?P<quote>(?:" + _QUOTE + rb"|\*{1,2}|\xe2\x80[\x98-\x9f]|\xc2\xab ?)?)(?=[^\s])"
_LINKED = re.compile(
    rb"(?P<rest>[\w\-]{0,40}?[\x80-\xff]{0,9}?)(?P<words>(?:[ \t]+[^\s:=\"'`]{1,40}){0,6}?)"
    rb"[ \t]*(?P<link>" + _LINK + rb")(?:[ \t]*:)?" + _ADVERB + _OPENING
)
_BARE_NAME = re.compile(rb"(?P<rest>" + _NAME_REST + rb")(?P<words>)(?P<link>\x00)?[ \t]*[(,]?" + _OPENING)
_NEGATIVE = re.compile(
    rb"(?i)\b(?:public|cache|primary|foreign|sort|partition|idempotency|hash|length|file|path|name|id|"
    rb"type|url|field|header|count|size)\b"
)
# Such a word says little about a value that is clearly random.
_DENIED = re.compile(rb"(?i)\b(?:not|no|wrong|expired|invalid)\b")
_BEFORE_LINKS = frozenset({b"as", b"is", b"for", b"being", b"=", b"als", b"comme", b"como", "как".encode()})
_AS = frozenset({b"as", b"als", b"comme", b"como"})
_OWNED = [[word] for word in b"my the our a your its mein mon mi".split()]
# Sentences do not name a secret with one of these words.
_NEVER_SAID = frozenset({b"auth", b"signature", b"dsn"})
_INTRODUCTION = re.compile(
    rb"(?i)\b(?:with|use|using|try|and|enter|type)[ \t]{1,4}(?:(?:the|this|his|her|my|our|a|new|old|temp|temporary|"
    rb"default|admin|root)[ \t]{1,4}){0,2}\Z"
    rb"|(?<![\w'])(?:admin|root|vpn|wifi|wlan|ssh|ftp|db|database|router|server)[ \t]{1,4}\Z"
)
_SIGN = re.compile(rb"[a-z][!@#$%^&*?+]")
_WORDS_MAX = 400


def _find_told(place: KeywordPlace, keyword: bytes, before: bytes) -> Iterator[SecretSpan]:
    """Yield a secret that a sentence gives: "my password is …", "der Token für X lautet …"."""
    kind = KEYWORDS[keyword]
    end = min(place.end, place.last + _WORDS_MAX)
    bare = _BARE_NAME.match(place.buffer, place.last, end)
    introduced = kind == PASSWORD and bare is not None and _is_introduced(place, bare)
    found = (bare if introduced else _LINKED.match(place.buffer, place.last, end)) or bare
    if found is None or (found["rest"] not in {b"", b"s", b"e"} and kind_of(before + keyword + found["rest"]) is None):
        return
    quote = found["quote"]
    if found["link"] is None and keyword.isascii() and found.start("quote") == found.end("rest"):
        return  # the quote closes the string around the name
    if found["link"] is None and quote[-1:] not in {b'"', b"'", b"`"} and not introduced:
        return
    value = value_at(place, found.end(), quote if quote[-1:] in {b'"', b"'", b"`"} else b"")
    if value is None or len(value.text) < 5 or ((before + keyword).lower() in _DIRECTORIES and is_path(value.text)):
        return
    context = place.buffer[max(place.begin, place.first - 24) : place.first] + found["words"]
    told = (
        (introduced and is_made_up(value.text, quoted=value.quoted))
        or _is_told(value, kind, linked=found["link"] is not None, context=context)
        or (kind == PASSWORD and found["link"] in {b"is", b"was"} and is_word(value.text) and _ends(place, value))
    )
    yield SecretSpan(value.at, value.at + len(value.text), f"{kind}-told" if told else REJECTED)


def _is_introduced(place: KeywordPlace, found: re.Match[bytes]) -> bool:
    # This covers "use password X" and "log in with the password X".
    if place.buffer[found.end("rest") : found.start("quote")].strip() or found["rest"]:
        return False
    if re.match(rb"(?:s|is|was|are|to|[:=-])(?![\w'])", place.buffer[found.end() : found.end() + 5]):
        return False
    return bool(_INTRODUCTION.search(place.buffer[max(place.begin, place.first - 40) : place.first]))


def _ends(place: KeywordPlace, value: Value) -> bool:
    behind = place.buffer[value.at + len(value.text) : min(place.end, value.at + len(value.text) + 2)]
    return not behind.strip(b" .!\"'\r") or behind[:1] in b"\n,;" or behind[:2] == b".\n"


def _is_told(value: Value, kind: str, *, linked: bool, context: bytes) -> bool:
    text = value.text
    if is_stand_in(text) or b" " in text or _NEGATIVE.search(context):
        return False
    if _DENIED.search(context) and not (is_mixed(text) and looks_random(text)):
        return False
    if kind == PASSWORD and linked:
        if value.quoted:
            return is_password(text, quoted=True)
        is_odd = is_mixed(text) or (len(text) >= 6 and text.isdigit()) or looks_random(text) or _SIGN.search(text)
        is_one = is_password(text, quoted=False) or is_made_up(text) or (len(text) >= 8 and is_written(text))
        return len(text) >= 5 and bool(is_odd) and is_one
    if not linked:
        return len(text) >= 12 and is_mixed(text) and is_token(text, quoted=value.quoted) and value.quoted
    return is_token(text, quoted=value.quoted)


def _said_before(place: KeywordPlace, keyword: bytes) -> Iterator[SecretSpan]:
    """Yield a secret that comes before its name: "hunter2 is my password"."""
    start = max(place.begin, place.first - 280)
    before = place.buffer[start : place.first]
    words = before[before.rfind(b"\n") + 1 :].rsplit(None, 6)[-6:]
    for at in range(len(words) - 1):
        is_last = at + 2 == len(words) and words[at + 1] in _AS and is_made_up(trim(words[at]))
        if words[at + 1] not in _BEFORE_LINKS or not (is_last or words[at + 2 :][:1] in _OWNED):
            continue
        value = trim(words[at].lstrip(b"\"'`(*"))
        for_password = KEYWORDS[keyword] == PASSWORD
        judge = is_password if for_password else is_token
        if len(value) > 5 and is_mixed(value) and (judge(value, quoted=False) or (for_password and is_made_up(value))):
            first = start + before.rfind(value)
            yield SecretSpan(first, first + len(value), f"{KEYWORDS[keyword]}-told")
