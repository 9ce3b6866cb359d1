r"""Decode one layer of what may hide a secret.

The layers are escapes, percent signs, entities, base64, colour codes and characters without width. What is decoded is a
view, which is scanned. A finding in base64 redacts the whole run. Everything else is decoded in whole lines or texts,
because an escape may be in a name alone, and each finding is mapped back to its exact place.
"""

from __future__ import annotations

import binascii
import html
import re
from bisect import bisect_left, bisect_right
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from memoryd.scrub.finding import SecretSpan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ahocorasick_rs import BytesAhoCorasick

    from memoryd.scrub.finding import JoinedTexts

# bytes; only the beginning of a longer stretch is decoded
LENGTH_MAX = 64 * 1024
_RUN_LEAST = 16

_ENTITY = rb"&(?:#(?:[0-9]{2,3}|[xX]0{0,4}[2-7][0-9a-fA-F])|quot|apos|amp|lt|gt);"
# What makes a line worth decoding. Each branch begins with fixed letters, which `re` finds faster than it runs it.
_ENCODED = re.compile(
    rb"\\(?:u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|x[2-7][0-9a-fA-F]|(?:u\{0{0,4}|U000000)[2-7][0-9a-fA-F]|"
    rb"(?:0[4-7]|1[0-7])[0-7](?=[\w\\-]))|%[2-7C-Fc-f][0-9A-Fa-f]|" + _ENTITY
)
# What is then decoded in it: one view for all kinds, because each view is scanned.
_DECODED = re.compile(
    rb"(?<!\\)\\+(?:u(?P<wide>(?![dD][89a-fA-F])[0-9a-fA-F]{4})|(?:x|U000000|u\{0{0,4})(?P<hex>[0-7][0-9a-fA-F])\}?|"
    rb"(?P<octal>(?:0[4-7]|1[0-7])[0-7])(?=[\w\\-]))|%(?P<byte>[0-9A-Fa-f]{2})|" + _ENTITY
)
_BASE64_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_SHAPE = bytes(65 if byte in _BASE64_LETTERS else 32 for byte in range(256))
_PLAIN_SHAPE = bytes(65 if byte in _BASE64_LETTERS - frozenset(b"+/-_") else 32 for byte in range(256))
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")
_NOT_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
# Each branch begins with one fixed letter, so that `re` searches for those letters first.
_NO_WIDTH = (
    rb"\x1b\[[0-9;:?]{0,40}[A-Za-z]|\xc2\x9b[0-9;:?]{0,40}[A-Za-z]|\x1b\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)|"
    rb"\x1b[()][0-9A-B]|\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf|\xc2\xad|\xcd\x8f|\xe1\xa0\x8e|"
    rb"\xd8\x9c|\xe1\x85[\x9f\xa0]|\xe3\x85\xa4|\xef\xb8[\x80-\x8f](?<=[\w-]...)(?=[\w-])|\xf3\xa0[\x80-\x87][\x80-\xbf]|"
    rb"\r(?<=[\w-].)(?=[\w-])"
)
_WIDTHLESS = re.compile(_NO_WIDTH, re.DOTALL)
_WIDTHLESS_OR_ERASED = re.compile(_NO_WIDTH + rb"|[ -~]\x08", re.DOTALL)
_LONE_RETURN = re.compile(rb"\r(?<=[\w-].)(?=[\w-])", re.DOTALL)
# This is text with two bytes for each letter (UTF-16) that was read with one byte for each.
_TWO_BYTES = re.compile(rb"(?:[^\x00]\x00){8,}+")

# In a view, a byte 1 is removed. In JSON, it stands for the backslash of an escape, and a quotation mark ends a line.
_MARKED = ((rb"\\", b"\1\2"), (rb"\"", b"\1\3"), (rb"\n", b"\1\n"), (rb"\r", b"\1\r"), (rb"\t", b"\1\t"))
_UNMARKED = bytes.maketrans(b'"\2\3', b'\n\\"')

WIDTHLESS_MARKS = (
    *(b"\xc2\x9b", b"\xef\xbb\xbf", b"\xc2\xad", b"\xcd\x8f", b"\xe1\xa0\x8e"),
    *(b"\xd8\x9c", b"\xe1\x85\x9f", b"\xe1\x85\xa0", b"\xe2\x81", b"\xe3\x85\xa4", b"\xef\xb8", b"\xf3\xa0"),
    *(b"\xe2\x80" + bytes([last]) for last in (*range(0x8B, 0x90), *range(0xAA, 0xAF))),
)


class View(NamedTuple):
    """Hold the decoded text of the part of a buffer from `first` to `last`."""

    data: bytes
    first: int
    last: int  # exclusive
    # The places in the view after 0, 1, 2 … removed bytes. Without them, a finding redacts the whole part.
    cuts: Sequence[int] = ()

    def span(self, first: int, last: int, rule: str) -> SecretSpan:
        """Return the part of the buffer that the part `first` to `last` of the view comes from."""
        if not self.cuts:
            return SecretSpan(self.first, self.last, rule)
        # The removed bytes before the first letter belong to it, because an escape ends with its letter.
        begin = self.first + first + max(0, bisect_left(self.cuts, first) - 1)
        return SecretSpan(begin, self.first + last + bisect_right(self.cuts, last - 1) - 1, rule)


def list_views(joined: JoinedTexts) -> Iterator[View]:
    """Yield the views of all encoded stretches of the texts.

    This does not include the views of whole texts from `view_stripped`.
    """
    yield from _view_unescaped(joined)
    yield from _base64(joined)


def _view_unescaped(joined: JoinedTexts) -> Iterator[View]:
    buffer, behind = joined.buffer, 0
    for found in _ENCODED.finditer(buffer):
        if found.start() < behind:
            continue
        begin = max(behind, found.start() - 512)
        first = buffer.rfind(b"\n", begin, found.start()) + 1 or begin
        limit = min(len(buffer), found.end() + LENGTH_MAX)
        line = buffer.find(b"\n", found.end(), limit)
        behind = limit if line < 0 else line
        yield _view_unmarked(_DECODED.sub(_mark_escape, buffer[first:behind]), first)


def _mark_escape(found: re.Match[bytes]) -> bytes:
    kind = found.lastgroup or ""
    if kind == "byte":
        return bytes.fromhex(found[kind].decode()).rjust(3, b"\1")
    letter = chr(int(found[kind], 8 if kind == "octal" else 16)) if kind else html.unescape(found[0].decode())
    return letter.encode().rjust(len(found[0]), b"\1")


def _base64(joined: JoinedTexts) -> Iterator[View]:
    buffer = joined.buffer
    plain, shape = buffer.translate(_PLAIN_SHAPE), buffer.translate(_SHAPE)
    least = b"A" * _RUN_LEAST
    at = plain.find(least)
    while at >= 0:
        head = buffer[at : at + _RUN_LEAST]
        end = shape.find(b" ", at + _RUN_LEAST)
        # Most runs of this form are hexadecimal, which has one case, or names, which have no digits.
        first = shape.rfind(b" ", max(0, at - LENGTH_MAX), at) + 1
        run = buffer[first : min(end, at + 256)]
        if not head.islower() and run.translate(None, b"0123456789") != run:
            data = _decode_base64(buffer[first : min(end, first + LENGTH_MAX)])
            if data is not None:
                padded = end + len(buffer[end : end + 2]) - len(buffer[end : end + 2].lstrip(b"="))
                yield View(data, first, padded)
        at = plain.find(least, end)


def _decode_base64(run: bytes) -> bytes | None:
    if _decode_text(run[:20]) is None:
        return None
    return _decode_text(run[: len(run) // 4 * 4] if len(run) % 4 == 1 else run + b"=" * (-len(run) % 4))


def _decode_text(run: bytes) -> bytes | None:
    """Return the decoded text of a base64 run, or None if it does not encode text."""
    try:
        data = binascii.a2b_base64(run.translate(_TO_STANDARD))
        data.decode("ascii" if len(run) == 20 else "utf-8")
    except (ValueError, binascii.Error):
        return None
    return None if _NOT_TEXT.search(data) else data


@cache
def _marks() -> BytesAhoCorasick:
    from ahocorasick_rs import BytesAhoCorasick  # a hook loads this only for text with such characters

    return BytesAhoCorasick(WIDTHLESS_MARKS)


def view_stripped(joined: JoinedTexts) -> Iterator[View]:
    """Yield a view of each text from which characters without width, or erased characters, were removed."""
    for text, part in enumerate(joined.parts):
        if part.isascii() and not (b"\r" in part or b"\x1b" in part or b"\0" in part or b"\x08" in part):
            continue
        marked = _mark_widthless(part)
        if marked is not None:
            yield _view_unmarked(marked, joined.begins[text])


def view_strings(joined: JoinedTexts) -> Iterator[View]:
    r"""Yield a view of each line of JSON, in which every string is a line, without its escapes.

    memoryd stores a tool call as one line of JSON. Without its escapes, rules that look for quotation marks and line
    ends work on its commands and files.
    """
    behind = 0
    while (at := joined.buffer.find(b'{"', behind)) >= 0:
        begin, behind = joined.buffer.rfind(b"\n", behind, at) + 1 or behind, joined.buffer.find(b"\n", at)
        line = joined.buffer[begin:behind]
        for escaped, marked in _MARKED:
            line = line.replace(escaped, marked)
        yield _view_unmarked(line.translate(_UNMARKED), begin)


def _view_unmarked(marked: bytes, begin: int) -> View:
    pieces = marked.split(b"\1")
    return View(b"".join(pieces), begin, begin + len(marked), [*accumulate(map(len, pieces[:-1]), initial=0)])


def _mark_widthless(part: bytes) -> bytes | None:
    if b"\0" in part:
        marked = _TWO_BYTES.sub(lambda run: run[0].replace(b"\0", b"\1"), part)
        return None if marked == part else marked
    has_any = b"\x1b" in part or b"\x08" in part or (b"\r" in part and _LONE_RETURN.search(part))
    if has_any or (not part.isascii() and _marks().find_matches_as_indexes(part)):
        pattern = _WIDTHLESS_OR_ERASED if b"\x08" in part else _WIDTHLESS
        return pattern.sub(lambda found: b"\1" * len(found[0]), part)
    return None
