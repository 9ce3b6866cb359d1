"""Find e-mail addresses and phone, card and account numbers, which are masked only if that is configured."""

import re
from collections.abc import Iterator

from memoryd.scrub.finding import SecretSpan

RULES = frozenset({"email", "phone", "card", "iban"})

_EMAIL = re.compile(
    rb"(?<![A-Za-z0-9._%+\-\x80-\xff])[A-Za-z0-9\x80-\xff](?:[A-Za-z0-9._%+'\-\x80-\xff]{0,63})@"
    rb"(?:[A-Za-z0-9\x80-\xff](?:[A-Za-z0-9\-\x80-\xff]{0,62})\.){1,8}[A-Za-z\x80-\xff]{2,24}(?![A-Za-z0-9])"
)
_AT = re.compile(rb"@[A-Za-z0-9\x80-\xff]")
_IBAN = re.compile(rb"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?(?![A-Za-z0-9])")
_CARD = re.compile(
    rb"(?<![A-Za-z0-9._\-])"
    rb"(?:[2-6][0-9]{3}(?:[ -]?[0-9]{4}){2}[ -]?[0-9]{1,7}|3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5})"
    rb"(?![A-Za-z0-9_]|[.\-][0-9])"
)
_PHONE = re.compile(
    rb"(?<![A-Za-z0-9_.+/\-])(?:"
    rb"\+[1-9](?:[ ./()-]{0,2}[0-9]){6,14}"
    rb"|\([0-9]{2,5}\) ?[0-9](?:[ ./-]?[0-9]){4,9}"
    rb"|[0-9]{3}-[0-9]{3}-[0-9]{4}"
    rb"|(?i:(?<=tel )|(?<=tel: )|(?<=phone )|(?<=phone: )|(?<=mobile: )"
    rb"|(?<=call me at )|(?<=call )|(?<=handy: ))0?[0-9](?:[ ./-]?[0-9]){5,13}"
    rb")(?![0-9A-Za-z_]|[.\-/:][0-9])"
)


def find(buffer: bytes) -> Iterator[SecretSpan]:
    """Yield all personal data in a buffer.

    An e-mail address before a `:` or in a URL also counts.
    """
    behind = 0
    for at in _AT.finditer(buffer):
        found = _EMAIL.search(buffer, max(behind, at.start() - 64), at.start() + 260)
        if found and found.start() < at.start() < found.end():
            behind = found.end()
            yield SecretSpan(found.start(), found.end(), "email")
    for pattern, rule, holds in ((_IBAN, "iban", is_iban), (_CARD, "card", is_card), (_PHONE, "phone", _is_phone)):
        for found in pattern.finditer(buffer):
            if holds(found[0]):
                yield SecretSpan(found.start(), found.end(), rule)


def is_iban(text: bytes) -> bool:
    """Return True if the check digits hold: the rearranged number is 1 modulo 97 (ISO 13616, ISO 7064)."""
    bare = re.sub(rb"[ -]", b"", text)
    if not 15 <= len(bare) <= 34:
        return False
    return int("".join(str(int(chr(char), 36)) for char in bare[4:] + bare[:4])) % 97 == 1


def is_card(text: bytes) -> bool:
    """Return True if the last digit matches the sum of Luhn's formula (ISO/IEC 7812-1)."""
    digits = [char - 48 for char in text if 48 <= char <= 57]
    if not 13 <= len(digits) <= 19 or len(set(digits)) < 2:
        return False
    return (sum(digits[-1::-2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])) % 10 == 0


def _is_phone(text: bytes) -> bool:
    digits = re.sub(rb"[^0-9]", b"", text)
    return 7 <= len(digits) <= 15 and len(set(digits)) > 2
