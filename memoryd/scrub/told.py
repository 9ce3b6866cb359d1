"""Find secrets that people name in few words, in their own languages: a password, a login of two parts, a wallet.

`named` reads names as programs write them. Here the words of people lead to a value, and since such words mean much
else, the value must look made up: letters with two digits or more in a row, or signs among them.

Measured on 98 such lines and 108 harmless ones that were set aside while the rules were made: 4 secrets are left (70
without this file and its companions in `commands`), 2 harmless lines are changed (4).
"""

import re
from collections.abc import Callable, Iterator

from memoryd.scrub.finding import Find, KeywordPlace, SecretSpan
from memoryd.scrub.named import name_before, owner_before, trim
from memoryd.scrub.plausible import (
    is_made_up,
    is_mixed,
    is_number,
    is_odd_password,
    is_stand_in,
    is_token,
    looks_random,
)
from memoryd.text.word_lists import list_bytes, list_words

# The words of all languages. The short ones mean much else, and lead to a value only with a link behind them.
_SHORT = "pass pw p/w mdp pasword passwrd"
LONG = frozenset(list_bytes("words for passwords"))
# What a person's name for an account, a file or a number follows, and no password.
_NOT_BEFORE = frozenset(list_words("not before passwords"))

_REACH = 200  # bytes behind the words that are looked at; four times as many behind the name of a wallet
_LETTERS = rb"[a-zA-Z\x80-\xff'-]"
_LINK = rb"|".join(list_bytes("links to a secret"))
_VALUE = rb"['\"`*(]{0,2}(?P<value>(?=[^\s\x00]{0,127}[0-9])[^\s'\"`\x00]{6,128})"
_SIGN_LINK = rb"[:=?,]|->|\xe2\x86\x92|\xe2\x80[\x93\x94]|(?<=[ \t])-(?=[ \t])|\xef\xbc\x9a"
_LED = re.compile(
    rb"(?i)" + _LETTERS + rb"{0,4}(?P<words>(?:[ \t]+" + _LETTERS + rb"{1,24}){0,5}?)(?:[ \t]?\([a-z ]{1,20}\))?"
    rb"(?P<link>(?:[ \t]*(?:" + _SIGN_LINK + rb")|(?:[ \t]+|[ \t]*\r?\n[ \t]{0,8})(?:" + _LINK + rb")(?=\s)){0,2})"
    rb"(?:[ \t]+(?:" + rb"|".join(list_bytes("words behind such links")) + rb"))?"
    rb"(?P<apart>[ \t]*(?:\r?\n[ \t]{0,8})?)" + _VALUE
)  # fmt: skip
_PAIR = re.compile(
    rb"(?i)(?:[ \t]+"
    + _LETTERS
    + rb"{2,20}){0,3}?(?:[ \t]*(?:[:=]|->|\xef\xbc\x9a)|[ \t]+(?:"
    + _LINK
    + rb")(?=[ \t]))"
    rb"[ \t]*(?:[\w-]{2,32}(?:@[\w.-]{1,64})?(?:[ \t]?[/:,|][ \t]?|[ \t](?:and|und|et|y)[ \t]))?" + _VALUE
)
_AS_USER = re.compile(
    rb"(?i)[\w.@-]{2,64}(?:[ \t]?[/,][ \t]?|[ \t](?:with|using|and|mit)[ \t])"
    rb"(?:the[ \t])?(?:(?:password|pw|pass)[ \t])?" + _VALUE
)
_BRACKET = re.compile(rb"[ \t]?[/:][ \t]?(?P<value>[^\s'\"`()\x00]{6,128})\)")
_WORDS = re.compile(rb"(?i)[^\n\x00]{0,24}?[:=\s]\s{0,8}[\"'`]?(?P<value>(?:[a-z]{3,8}[ ]){11,23}[a-z]{3,8})(?![a-z])")
_COMMON = frozenset(list_bytes("words of no wallet"))
_WALLET_KEY = re.compile(rb"(?<![\w+/=.-])(?P<value>(?:5[HJK]|[KL][w-z1-5])[1-9A-HJ-NP-Za-km-z]{49,50})(?![\w+/=-])")
_HEX = re.compile(rb"[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?(?P<value>[0-9a-f]{40})(?!\w)")
_CODE = re.compile(
    rb"[ \t>*`|-]{0,8}(?:[0-9]{1,2}[.)][ \t]{1,4})?`?(?P<value>[A-Za-z0-9]{4,10}(?:-[A-Za-z0-9]{4,10}){0,3})`?"
    rb"[ \t,;]{0,4}(?:\r?\n|\Z|(?<=[ ,;\t]))"
)
_MOST_CODES = 32
_DIGITS = re.compile(rb"[0-9]{2}")
_CODES_BEGIN = re.compile(rb"[^\n:]{0,60}:[ \t]*(?:(?:\r?\n){1,2}(?:```\w{0,8}\r?\n)?)?")
# Drawn letters in base32, or in groups of four.
_SEED = re.compile(
    rb"(?:[^\n:=]{0,24}(?:[:=]|is)|(?=[ \t]))[ \t\"'`*]{0,6}"
    rb"(?P<value>(?:[A-Z2-7]{4}[ -]?){4,16}[A-Z2-7]{0,4}|(?:[A-Za-z0-9]{4}[ -]){3,15}[A-Za-z0-9]{2,4})(?![A-Za-z0-9])"
)
# What a lock takes: "the door code is 4471".
_NUMBER = re.compile(
    rb"(?i)(?P<words>(?:[ \t]*" + _LETTERS + rb"{1,16}(?=[ \t:=,])){0,4}?)[ \t]*(?P<link>(?:(?:" + _LINK
    + rb")(?=\s)|" + _SIGN_LINK + rb"|\xe3\x81\xaf|\xe6\x98\xaf)?)[ \t]*(?P<value>[0-9]{4,8}|[0-9]{3}[ -][0-9]{3}|"
    rb"[0-9]{2}(?:-[0-9]{2}){2})(?:[#*]|(?-i:[A-F]|\xd0[\x90-\x9f]))?(?![\w-]|[.,][0-9])"
)  # fmt: skip
_PINS = frozenset(list_bytes("pins"))
_QUOTED = re.compile(
    rb"(?i)[^\n\"'`:=]{0,40}?\b(?:" + _LINK + rb")[ \t]{1,4}(?P<mark>[\"'`])(?P<value>[^\"'`\n\x00]{8,80})(?P=mark)"
)
# A random token has letters of both cases and digits. Names of secrets, hashes and paths have one case, or a word.
_DRAWN = re.compile(
    rb"['\"`: ]{1,3}(?P<value>(?=[^\s\"'`]{0,40}[a-z])(?=[^\s\"'`]{0,40}[A-Z])(?=[^\s\"'`]{0,40}[0-9])"
    rb"(?![/$@&]|[^\s\"'`]{0,64}[a-z]{5})[^\s\"'`()<>/\x00]{10,64})(?![^\s\"'`,.;])"
)
_RUN = re.compile(rb"['\"`: ]{1,3}(?P<value>(?:0x)?[A-Za-z0-9_-]{32,128})(?![\w-])")


def _span(found: re.Match[bytes], rule: str = "password-told") -> SecretSpan:
    value = trim(found["value"])
    return SecretSpan(found.start("value"), found.start("value") + len(value), rule)


def find_password(place: KeywordPlace, keyword: bytes) -> Iterator[SecretSpan]:
    """Yield the password that a word for it leads to: "pass is …", "sudo password — it's …", "пароль от базы …"."""
    found = _LED.match(place.buffer, place.first + len(keyword.rstrip(b" :?-")), min(place.end, place.last + _REACH))
    if found is None or place.buffer[place.first : place.first + 4] == b"PASS":
        return
    value, words = trim(found["value"]), found["words"].lower().split()
    is_short = keyword.rstrip(b" :?-").decode() in _SHORT.split()
    if (is_short and (not found["link"] or name_before(place))) or not (found["link"] or found["apart"]):
        return
    if b"\n" in found["apart"] and not found["link"].strip().isalpha():  # a sentence goes on in the next line
        return
    is_sure = found["link"] or not keyword.isascii()
    judged = is_made_up(value) if is_sure else is_odd_password(value, quoted=False)
    if judged and not (words and words[-1].decode("utf-8", "replace") in _NOT_BEFORE):
        yield _span(found)


def _find_number(place: KeywordPlace, keyword: bytes) -> Iterator[SecretSpan]:
    """Yield the number that opens a lock: "the pin is 809377", "alarm code: 9912", "le code de la porte est 7204B"."""
    end = min(place.end, place.last + _REACH // 2)
    found = _NUMBER.match(place.buffer, place.last, end) if _DIGITS.search(place.buffer, place.last, end) else None
    before = place.buffer[max(place.begin, place.first - 24) : place.first]
    if found is None or (keyword in _PINS and before[-1:].isalnum()):
        return
    words = (before + b" " + found["words"]).decode("utf-8", "replace").lower().split()
    is_lock = not set(words).isdisjoint(list_words("locks"))
    if (is_lock or (found["link"] and keyword in _PINS)) and is_number(
        re.sub(rb"[ -]", b"", found["value"]), quoted=False
    ):
        yield _span(found, "pin-value")


def _find_codes(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    """Yield the codes of a list that opens an account, on the lines below its name."""
    head = _CODES_BEGIN.match(place.buffer, place.last, place.end)
    codes: list[re.Match[bytes]] = []
    at = head.end() if head else place.end
    while len(codes) < _MOST_CODES and (found := _CODE.match(place.buffer, at, place.end)):
        value = found["value"]
        if not (b"-" in value and _DIGITS.search(value)) and not (is_mixed(value) and looks_random(value)):
            break
        codes.append(found)
        at = found.end()
    if len(codes) > 1 or (codes and b"-" in codes[0]["value"]):
        yield from (_span(found, "recovery-code") for found in codes)


def _find_wallet(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    """Yield the words that open a wallet (BIP 39: twelve to 24 words of at most eight letters)."""
    found = _WORDS.match(place.buffer, place.last, min(place.end, place.last + 4 * _REACH))
    if found is not None and len(_COMMON.intersection(found["value"].lower().split())) < 2:
        yield _span(found, "wallet-words")


def _find_wallet_key(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    """Yield a private key near a word for wallets, as they export it (WIF: 51 or 52 characters of base58)."""
    begin, end = max(place.begin, place.first - _REACH), min(place.end, place.last + _REACH)
    found = _WALLET_KEY.search(place.buffer, begin, end)
    if found is not None and is_token(found["value"], quoted=False):
        yield _span(found, "wallet-key")


def _find_run(place: KeywordPlace, keyword: bytes) -> Iterator[SecretSpan]:
    """Yield a long token right behind its name: "sourcegraph token 3f…", "the private key 0x…"."""
    found = _RUN.match(place.buffer, place.first + len(keyword) - 1, min(place.end, place.last + _REACH))
    if found is None or (keyword == b"key " and not owner_before(place)) or is_stand_in(found["value"]):
        return
    if is_token(found["value"], quoted=False):
        yield _span(found, "token-told")


def _behind(pattern: re.Pattern[bytes], judge: Callable[[bytes], bool], rule: str, back: int = 0) -> Find:
    """Return the search for a value right behind a keyword, or from `back` bytes before its end."""

    def find(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
        found = pattern.match(place.buffer, place.last - back, min(place.end, place.last + _REACH))
        if found is not None and judge(found["value"]):
            yield _span(found, rule)

    return find


# The password of a login in the form "credentials: admin / …", or "(root / …)".
_find_login = _behind(_PAIR, lambda value: is_made_up(trim(value)), "password-told")
_find_account = _behind(_BRACKET, lambda value: is_made_up(trim(value)), "password-told")
# A login as people say it: "log in as admin with …".
_find_as_user = _behind(_AS_USER, lambda value: is_made_up(trim(value)), "password-told")
# The seed of one-time passwords (RFC 4226), as programs show it: in base32.
_find_seed = _behind(_SEED, lambda value: looks_random(value.replace(b" ", b"")), "otp-seed")
# A random token right behind the word "secret": "sign it with the secret Vq7…".
_find_drawn = _behind(_DRAWN, lambda value: looks_random(value) and not is_stand_in(value), "token-told", back=1)


FINDS: dict[bytes, Find] = {
    **{word.encode() + end: find_password for word in _SHORT.split() for end in (b": ", b"? ")},
    **{word.encode() + b" ": find_password for word in _SHORT.split()},
    **dict.fromkeys(list_bytes("words for logins"), _find_login),
    b"basic auth": _find_login,
    **dict.fromkeys((b"log in as ", b"login as ", b"logged in as ", b"sign in as "), _find_as_user),
    **dict.fromkeys(list_bytes("accounts in brackets"), _find_account),
    **dict.fromkeys(list_bytes("wallets"), _find_wallet),
    **dict.fromkeys(list_bytes("words for wallets"), _find_wallet_key),
    **dict.fromkeys((b"key ", b"token "), _find_run),
    b"secret ": _find_drawn,
    **dict.fromkeys((*_PINS, *list_bytes("codes")), _find_number),
    b"passphrase ": _behind(_QUOTED, lambda value: not is_stand_in(value), "password-told"),
    # The token of a service that has no prefix: "sourcegraph: 3f…".
    b"sourcegraph": _behind(_HEX, lambda value: not is_stand_in(value), "token-told"),
    **dict.fromkeys(list_bytes("code lists"), _find_codes),
    **dict.fromkeys(list_bytes("seeds"), _find_seed),
}
