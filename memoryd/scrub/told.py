"""Find secrets that people name in a few words of their own language: a password, a login, a wallet.

`named` reads names as programs write them. Here, words of people lead to a value. Such words have many other meanings,
so the value must look made up: letters with at least two digits in a row, or with signs among them. A measurement used
98 lines with a secret and 108 harmless ones that did not influence the rules. The scan misses 4 secrets (70 without
this file and related rules in `commands`) and changes 2 harmless lines (4 without them).
"""

import re
from collections.abc import Callable, Iterator

from memoryd.scrub.finding import Find, KeywordPlace, SecretSpan
from memoryd.scrub.named import name_before, owner_before, trim
from memoryd.scrub.plausible import (
    is_coined,
    is_drawn,
    is_made_up,
    is_mixed,
    is_number,
    is_odd_password,
    is_stand_in,
    is_token,
    looks_random,
)
from memoryd.text.word_lists import list_bytes, list_words

# These are words of all languages. The short ones mean much else, and need a link such as "is" after them.
_WIRELESS = list_words("wireless codes")
_SHORT = ("pass", "pw", "p/w", "mdp", "pasword", "passwrd", *_WIRELESS)
LONG = frozenset(list_bytes("words for passwords"))
# After these words comes the name of an account, a file or a number, but no password.
_NOT_BEFORE = frozenset(list_words("not before passwords"))

# The rules read this many bytes after the words, and four times as many after the name of a wallet.
_REACH = 200
_LETTERS = rb"[a-zA-Z\x80-\xff'-]"
_LINK = rb"|".join(list_bytes("links to a secret"))
_VALUE = rb"['\"`*(]{0,2}(?P<value>(?=[^\s\x00]{0,127}[0-9])[^\s'\"`\x00]{6,128})"
_LAST = re.compile(rb"[ \t]" + _VALUE + rb"(?:(?<=[,.;!?])|(?=['\"`)]*[ \t]*(?:[\r\n]|\Z)))")
_SIGN_LINK = rb"[:=?,]|->|\xe2\x86\x92|\xe2\x80[\x93\x94]|(?<=[ \t])-(?=[ \t])|\xef\xbc\x9a"
_LED = re.compile(
    rb"(?i)" + _LETTERS + rb"{0,4}(?P<words>(?:[ \t]+" + _LETTERS + rb"{1,24}){0,5}?)(?:[ \t]?\([a-z ]{1,20}\))?"
    rb"(?P<link>(?:[ \t]*(?:" + _SIGN_LINK + rb")|(?:[ \t]+|[ \t]*\r?\n[ \t]{0,8})(?:" + _LINK + rb")(?=\s)){0,2})"
    rb"(?:[ \t]+(?:" + rb"|".join(list_bytes("words behind such links")) + rb"))?"
    rb"(?P<apart>[ \t]*(?:\r?\n[ \t]{0,8})?)" + _VALUE
)  # fmt: skip
# Names of standards and chips, and numbers of issues, are no codes: `802.11ac`, `RTL8812AU`. A key for Wi-Fi has at
# least 8 characters.
_WIRELESS_NAME = re.compile(
    rb"(?i)802\.|wpa|wep|esp[-0-9]|.{0,7}\Z|[0-9.]{1,4}ghz|.*-(?:only|specific|based)\Z|"
    rb"(?-i:[A-Z]{1,5}-?[0-9]{2,5}[A-Z]{0,2}(?:-[a-z]{4,16})?\Z)"
)
# A random token has letters of both cases and digits. Names of secrets, hashes and paths have one case, or a word.
_IS_DRAWN = (
    rb"(?-i:(?=[^\s\"'`]{0,40}[a-z])(?=[^\s\"'`]{0,40}[A-Z])(?=[^\s\"'`]{0,40}[0-9])"
    rb"(?![/$@&]|[^\s\"'`]{0,64}[a-z]{5}))"
)
# Behind a name in quotes, a user must come first, because `"login": "octocat123"` is the name of an account.
_PAIR = re.compile(
    rb"(?i)(?:[ \t]+" + _LETTERS + rb"{2,20}){0,3}?(?P<quote>[\"'])?"
    rb"(?:[ \t]*(?:[:=]|->|\xef\xbc\x9a|\xe3\x81\xaf)|[ \t]+(?:" + _LINK + rb")(?=[ \t]))[ \t]*[\"']?"
    rb"(?!(?-i:(?:env|header):[A-Z_][A-Z0-9_]*(?![^\s\"'])))"
    rb"(?:[\w-]{2,32}(?:@[\w.-]{1,64})?(?:[ \t]?[/:,|][ \t]?|[ \t](?:and|und|et|y)[ \t]))?(?(quote)(?<=\w:|/[ ]))"
    + _VALUE
)  # fmt: skip
# The same on the next line: "Zugangsdaten:", then "admin / …".
_PAIR_BELOW = re.compile(
    rb"(?i)(?:[ \t]+" + _LETTERS + rb"{2,20}){0,3}[ \t]?:[ \t]*\r?\n[ \t]{0,8}(?:[-*][ \t])?[`\"']?"
    rb"[\w-]{2,32}(?:@[\w.-]{1,64})?(?:[ \t]?[/,|][ \t]?|:(?=\S))"
    + _VALUE + rb"[`\"']?[ \t.]*(?:\r?\n|\Z)"
)  # fmt: skip
# A user and a random password with only a space between them, such as "creds: bob Vq7…".
_SPACED = re.compile(
    rb"(?i)[ \t]?[:=][ \t]*[\w.@-]{2,32}[ \t](?P<value>" + _IS_DRAWN + rb"[^\s\"'`()<>/\x00]{8,64})(?!\S)"
)
_AS_USER = re.compile(
    rb"(?i)[ \t][\w.@-]{2,64}(?:[ \t]?[/,][ \t]?|[ \t](?:with|using|and|mit)[ \t])"
    rb"(?:the[ \t])?(?:(?:password|pw|pass)[ \t])?" + _VALUE
)
_WITH_USER = re.compile(rb"(?i)[ \t][\w.@-]{2,64}[ \t]/[ \t]" + _VALUE)
# After a comma, only a value with a sign counts, because code has pairs such as `(user, Team_12)`.
_BRACKET = re.compile(rb"(?:[ \t]?[/:]|,(?=[^()@]{1,99}[!#$&]))[ \t]?(?P<value>[^\s'\"`()\x00]{6,128})\)")
# After a word that names nothing else, commas, numbers or line ends may separate the words of a wallet.
_GAP = rb"(?(sure),?(?:[ ]|\r?\n[ \t]{0,8})(?:[0-9]{1,2}[.)][ \t]{1,4})?|[ ])"
_WORDS = re.compile(
    rb"(?i)(?P<sure>(?<= phrase)|(?<= words:))?[^\n\x00]{0,24}?[:=\s]\s{0,8}(?:[\"'`]|1[.)] )?"
    rb"(?P<value>(?:[a-z]{3,8}" + _GAP + rb"){11,23}[a-z]{3,8})(?![a-z])"
)
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
# This is random base32, or random letters in groups of four.
_SEED = re.compile(
    rb"(?:[^\n:=]{0,24}(?:[:=]|is)|(?=[ \t]))[ \t\"'`*]{0,6}"
    rb"(?P<value>(?:[A-Z2-7]{4}[ -]?){4,16}[A-Z2-7]{0,4}|(?:[A-Za-z0-9]{4}[ -]){3,15}[A-Za-z0-9]{2,4})(?![A-Za-z0-9])"
)
# This is the code of a lock: "the door code is 4471".
_NUMBER = re.compile(
    rb"(?i)(?P<words>(?:[ \t]*" + _LETTERS + rb"{1,16}(?=[ \t:=,])){0,4}?)[ \t]*(?P<link>(?:(?:" + _LINK
    + rb")(?=\s)|" + _SIGN_LINK + rb"|\xe3\x81\xaf|\xe6\x98\xaf)?)[ \t]*(?P<value>[0-9]{4,8}|[0-9]{3}[ -][0-9]{3}|"
    rb"[0-9]{2}(?:-[0-9]{2}){2})(?:[#*]|(?-i:[A-F]|\xd0[\x90-\x9f]))?(?![\w-]|[.,][0-9])"
)  # fmt: skip
_PINS = frozenset(list_bytes("pins"))
_QUOTED = re.compile(
    rb"(?i)[^\n\"'`:=]{0,40}?\b(?:" + _LINK + rb")[ \t]{1,4}(?P<mark>[\"'`])(?P<value>[^\"'`\n\x00]{8,80})(?P=mark)"
)
_WIRELESS_PHRASE = re.compile(rb"(?=[^\"\n]{0,62}[A-Z0-9 ])(?P<value>[^\"\\\n\x00]{8,63})\"")
_DRAWN = re.compile(rb"['\"`: ]{1,3}(?P<value>" + _IS_DRAWN + rb"[^\s\"'`()<>/\x00]{10,64})(?![^\s\"'`,.;])")
_RUN = re.compile(rb"['\"`: ]{1,3}(?P<value>(?:0x)?[A-Za-z0-9_-]{32,128})(?![\w-])")


def _span(found: re.Match[bytes], rule: str = "password-told") -> SecretSpan:
    return SecretSpan(found.start("value"), found.start("value") + len(trim(found["value"])), rule)


def find_password(place: KeywordPlace, keyword: bytes) -> Iterator[SecretSpan]:
    """Yield the password that a word for it leads to: "pass is …", "пароль от базы …"."""
    found = _LED.match(place.buffer, place.first + len(keyword.rstrip(b" :?-")), min(place.end, place.last + _REACH))
    if found is None or place.buffer[place.first : place.first + 4] == b"PASS":
        return
    value, words = trim(found["value"]), found["words"].lower().split()
    word = keyword.rstrip(b" :?-").decode()
    if (word in _SHORT and (not found["link"] or name_before(place))) or not (found["link"] or found["apart"]):
        return
    if b"\n" in found["apart"] and not found["link"].strip().isalpha():  # a sentence continues on the next line
        return
    is_sure = bool(found["link"]) or not keyword.isascii()
    if _is_led_to(word, value, is_sure=is_sure) and not (words and words[-1].decode("utf-8", "replace") in _NOT_BEFORE):
        yield _span(found)


def _is_led_to(word: str, value: bytes, *, is_sure: bool) -> bool:
    """Return True if a value after a word for passwords is one."""
    if word in _WIRELESS and (value.isdigit() or _WIRELESS_NAME.match(value)):
        return len(value) >= 8 and value.isdigit() and not is_stand_in(value)
    return is_made_up(value) if is_sure else is_odd_password(value, quoted=False)


def _find_number(place: KeywordPlace, keyword: bytes) -> Iterator[SecretSpan]:
    """Yield the code of a lock: "the pin is 809377", "le code de la porte est 7204B"."""
    end = min(place.end, place.last + _REACH // 2)
    found = _NUMBER.match(place.buffer, place.last, end) if _DIGITS.search(place.buffer, place.last, end) else None
    before = place.buffer[max(place.begin, place.first - 24) : place.first]
    if found is None or (keyword in _PINS and before[-1:].isalnum()):
        return
    words = (before + b" " + found["words"]).decode("utf-8", "replace").lower().split()
    is_lock = not set(words).isdisjoint(list_words("locks"))
    number = re.sub(rb"[ -]", b"", found["value"])
    if (is_lock or (found["link"] and keyword in _PINS)) and is_number(number, quoted=False):
        yield _span(found, "pin-value")


def _find_codes(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    """Yield the recovery codes of an account, on the lines below the name of the list."""
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


def _find_wallet_key(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    """Yield a wallet's private key near a word for wallets (WIF: 51 or 52 characters of base58)."""
    begin, end = max(place.begin, place.first - _REACH), min(place.end, place.last + _REACH)
    found = _WALLET_KEY.search(place.buffer, begin, end)
    if found is not None and is_token(found["value"], quoted=False):
        yield _span(found, "wallet-key")


def _find_run(place: KeywordPlace, keyword: bytes) -> Iterator[SecretSpan]:
    """Yield a long token directly after its name: "sourcegraph token 3f…", "the private key 0x…"."""
    found = _RUN.match(place.buffer, place.first + len(keyword) - 1, min(place.end, place.last + _REACH))
    if found is None or (keyword == b"key " and not owner_before(place)) or is_stand_in(found["value"]):
        return
    if is_token(found["value"], quoted=False):
        yield _span(found, "token-told")


def _behind(
    pattern: re.Pattern[bytes], judge: Callable[[bytes], bool], rule: str, back: int = 0, reach: int = _REACH
) -> Find:
    """Return a search for a value directly after a keyword, or from `back` bytes before its end."""

    def find(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
        found = pattern.match(place.buffer, place.last - back, min(place.end, place.last + reach))
        if found is not None and judge(found["value"]):
            yield _span(found, rule)

    return find


# These find the password of a login such as "credentials: admin / …" or "(root / …)".
_find_pair = _behind(_PAIR, lambda value: is_made_up(trim(value)), "password-told")
_find_below = _behind(_PAIR_BELOW, lambda value: is_made_up(trim(value)), "password-told")
_find_basic = _behind(_PAIR, lambda value: is_made_up(trim(value)), "password-told", back=1)
_find_spaced = _behind(_SPACED, lambda value: looks_random(value) and not is_stand_in(value), "password-told")
_find_account = _behind(_BRACKET, lambda value: is_made_up(trim(value)), "password-told")
# This finds "his pass's …" at the end of a clause. The passes of a program have names with numbers, too.
_find_owned = _behind(_LAST, lambda value: is_made_up(trim(value)), "password-told")
# This finds a login as people say it: "log in as admin with …".
_find_as_user = _behind(_AS_USER, lambda value: is_made_up(trim(value)), "password-told")
_find_with_user = _behind(_WITH_USER, lambda value: is_coined(trim(value)), "password-told")
# This finds the words that open a wallet (BIP 39: 12 to 24 words of at most eight letters).
_find_wallet = _behind(
    _WORDS, lambda value: len(_COMMON.intersection(value.lower().split())) < 2, "wallet-words", reach=4 * _REACH
)
# This finds the phrase of a network, also one of plain words, as files of settings hold it.
_find_phrase = _behind(_WIRELESS_PHRASE, lambda value: not is_stand_in(value), "password-told")
# This finds the base32 seed of one-time passwords (RFC 4226), as programs show it.
_find_seed = _behind(_SEED, lambda value: looks_random(value.replace(b" ", b"")), "otp-seed")
# This finds a random token directly after the word "secret": "sign it with the secret Vq7…".
_find_drawn = _behind(_DRAWN, lambda value: looks_random(value) and not is_stand_in(value), "token-told", back=1)


def _first(*finds: Find) -> Find:
    """Return a search that yields what the first successful one of these searches finds."""
    return lambda place, keyword: next((iter(found) for find in finds if (found := [*find(place, keyword)])), iter(()))


FINDS: dict[bytes, Find] = {
    **{word.encode() + end: find_password for word in _SHORT for end in (b": ", b"? ")},
    **{word.encode() + b" ": find_password for word in _SHORT},
    b"pw ": _first(find_password, _find_drawn),
    **dict.fromkeys(list_bytes("words for logins"), _first(_find_pair, _find_below, _find_spaced)),
    # Not `_find_spaced`, because logs have lines with "login:".
    b"login": _first(
        _find_pair, _find_below, _behind(_WITH_USER, lambda value: is_drawn(trim(value)), "password-told")
    ),
    # Each ends in a sign or a space. Otherwise they would hide longer keywords, such as `authorization`.
    **dict.fromkeys(list_bytes("names of basic auth"), _find_basic),
    **dict.fromkeys(list_bytes("logins as a user"), _find_as_user),
    **dict.fromkeys(list_bytes("logins with a user"), _find_with_user),
    **dict.fromkeys(list_bytes("accounts in brackets"), _find_account),
    **dict.fromkeys((b"\npass's", b", pass's", *list_bytes("owned passwords")), _find_owned),
    **dict.fromkeys(list_bytes("wallets"), _find_wallet),
    **dict.fromkeys(list_bytes("words for wallets"), _find_wallet_key),
    **dict.fromkeys((b"key ", b"token "), _find_run),
    b"secret ": _find_drawn,
    **dict.fromkeys((*_PINS, *list_bytes("codes")), _find_number),
    **dict.fromkeys((b'psk="', b'wpa-psk "'), _find_phrase),
    b"passphrase ": _behind(_QUOTED, lambda value: not is_stand_in(value), "password-told"),
    # This service's token has no prefix: "sourcegraph: 3f…".
    b"sourcegraph": _behind(_HEX, lambda value: not is_stand_in(value), "token-told"),
    **dict.fromkeys(list_bytes("code lists"), _find_codes),
    **dict.fromkeys(list_bytes("seeds"), _find_seed),
}
