"""Undo disguises: replace characters that hide a name from a program while a person can still read the name.

Escapes, percent-encoding, HTML entities and punycode are decoded. Accents and look-alike letters become plain letters.
"[.]", "(at)" and " dot " become the characters that they stand for. Use the result only for comparison, not for
display.
"""

import html
import re
import unicodedata
from urllib.parse import unquote

# Letters of other scripts that look like Latin ones.
_LOOKALIKES = str.maketrans("аеорсухіјѕһԁԛԝкмтвнԍӏαορυνικτıɡɑℓ。｡", "aeopcyxijshdqwkmtbhglaopuviktigal..")
_UNSEEN = re.compile(
    "[\u00ad\u0300-\u036f\u061c\u115f\u1160\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]+"
)
_WIDE = re.compile(r"[^\x00-\x7f]+")
# Each alternative begins with a fixed character, so that a search skips other text quickly.
_HIDDEN = re.compile(
    r"%[0-9a-f]{2}(?:%[0-9a-f]{2})*|&#?\w{1,8};|\\(?:u00|x)[0-9a-f]{2}|xn--[a-z0-9-]{1,59}"
    r"|[\[({]\s?(?:[.:@/]|dot|punkt|at)\s?[\])}]"
)
_SIGNS = {"dot": ".", "punkt": ".", "at": "@"}
_NAMED_DOT = re.compile(r"(?<=\w) (?:dot|punkt) (?=\w)")
_EACH = re.compile(f"{_HIDDEN.pattern}|[^\\x00-\\x7f]|{_NAMED_DOT.pattern}")
_SPELT = re.compile(r"(?<![^\W_])[^\W_](?:\s?[ .@:/_·-]\s?[^\W_](?![^\W_])){3,}")
_BLANKS = ("\\n", "\\r", "\\t", "\\\n")
_SIGNS_OF_ASCII = bytes(range(48)) + bytes(range(58, 97)) + bytes(range(123, 128))


def fold(text: str) -> str:
    """Return `text` in lower case with its disguises undone, except spelt-out letters ("e v i l").

    The time is linear in the length of the text.
    """
    text = _lower_text(text)
    narrow = text if text.isascii() else _WIDE.sub(lambda found: _narrow_letter(found[0]), text)
    text = _HIDDEN.sub(_show_escape, narrow)
    return _NAMED_DOT.sub(".", text) if " dot " in text or " punkt " in text else text


def squeeze(text: str) -> str:
    """Return a folded text without ASCII punctuation and white space."""
    return text.encode("utf-8", "ignore").translate(None, _SIGNS_OF_ASCII).decode()


def fold_with_places(text: str) -> tuple[str, list[int]]:
    """Return a short text folded, with spelt-out letters joined, and the offsets of its characters.

    The list holds, for each character of the result, its offset in `text`; its last item is the length of `text`.
    """
    lower, parts, at, last = _lower_text(text), [], list[int](), 0
    for found in _EACH.finditer(lower):
        shown = "." if found[0][0] == " " else _show_escape(found) if found[0].isascii() else _narrow_letter(found[0])
        parts += [lower[last : found.start()], shown]
        at += [*range(last, found.start()), *[found.start()] * len(shown)]
        last = found.end()
    whole = "".join((*parts, lower[last:]))
    at += range(last, len(text))
    for found in reversed([*_SPELT.finditer(whole)]):
        kept = [place for place in range(*found.span()) if not whole[place].isspace()]
        if len(kept) == len(found[0]) and len({*re.findall(r"[\W_]", found[0])}) == 1:
            kept = [place for place in kept if whole[place].isalnum()]
        at[found.start() : found.end()] = [at[place] for place in kept]
        whole = whole[: found.start()] + "".join(whole[place] for place in kept) + whole[found.end() :]
    return whole, [*at, len(text)]


def _lower_text(text: str) -> str:
    """Return `text` in lower case, with spaces for escaped white space; its length stays the same."""
    lower = text.lower()
    if len(lower) != len(text):  # the lower case of "İ" has two characters
        lower = "".join(char if len(char.lower()) > 1 else char.lower() for char in text)
    for escape in _BLANKS if "\\" in lower else ():
        lower = lower.replace(escape, "  ")
    return lower


def _narrow_letter(wide: str) -> str:
    return _UNSEEN.sub("", unicodedata.normalize("NFKD", wide).casefold()).translate(_LOOKALIKES)


def _show_escape(found: re.Match[str]) -> str:
    hidden = found[0]
    if hidden[0] in "%&":
        return unquote(unquote(html.unescape(hidden))).lower()
    if hidden[0] == "\\":
        return chr(int(hidden[-2:], 16)).lower()
    if hidden[0] != "x":
        return _SIGNS.get(inner := hidden[1:-1].strip(), inner)
    try:
        return _narrow_letter(hidden[4:].encode("ascii").decode("punycode"))
    except (UnicodeError, OverflowError):
        return hidden
