"""Describe the findings in a text and the resulting text. Neither holds the secret itself."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

# Short and of few words, so that no secret passes for the name of a rule.
PLACEHOLDER = re.compile(rb"\[REDACTED:[a-z][a-z0-9]{0,19}(?:-[a-z0-9]{1,14}){0,3}\]")


class Finding(NamedTuple):
    """One redacted part of a text, by the rule that knew it and its place in the text as it was given."""

    rule: str
    first: int
    last: int  # exclusive, in characters


class ScrubbedText(NamedTuple):
    """Hold a text in its stored form, and its findings, in order."""

    text: str
    findings: tuple[Finding, ...]
    dropped: bool = False  # there was a secret and the policy is to skip such texts: the text is empty


class SecretSpan(NamedTuple):
    """Hold the place of a rule's finding in a buffer of UTF-8."""

    first: int
    last: int  # exclusive, in bytes
    rule: str


class KeywordPlace(NamedTuple):
    """Hold the place of a keyword in a buffer, and the bounds of its text: no rule may search beyond them."""

    buffer: bytes
    first: int
    last: int
    begin: int
    end: int


# What a rule finds at one of its keywords.
Find = Callable[[KeywordPlace, bytes], Iterator[SecretSpan]]


def make_placeholder(rule: str) -> str:
    """Return the replacement of a secret. It is recognised by `PLACEHOLDER`, and left alone."""
    return f"[REDACTED:{rule}]"


# ── many texts as one buffer, and the way back ────────────────────────────────────────────────────────────────────────


# No rule's pattern goes over a line end and a control character, and no decoder takes the first bytes for a mark.
BETWEEN = b"\n\x1e\n"


class JoinedTexts:
    """Hold texts in one buffer; `begins` and `ends` say where each is."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        self.parts = parts
        self.buffer = BETWEEN + BETWEEN.join(parts) + BETWEEN
        gap = len(BETWEEN)
        self.ends = list(accumulate(len(part) + gap for part in parts))
        self.begins = [end - len(part) for end, part in zip(self.ends, parts, strict=True)]

    def find_text(self, place: int) -> int:
        """Return which text a byte of the buffer belongs to."""
        return bisect_right(self.begins, place) - 1
