"""Describe the findings in a text and the redacted text. Neither holds the secret itself."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

# The names of rules are short and have few words, so that no secret looks like one.
PLACEHOLDER = re.compile(rb"\[REDACTED:[a-z][a-z0-9]{0,19}(?:-[a-z0-9]{1,14}){0,3}\]")


class Finding(NamedTuple):
    """Hold the rule that found a secret, and its place in the original text."""

    rule: str
    first: int
    last: int  # exclusive, in characters


class ScrubbedText(NamedTuple):
    """Hold a text as it is stored, and its findings in order of place."""

    text: str
    findings: tuple[Finding, ...]
    # The text is empty, because it held a secret and the policy skips such texts.
    dropped: bool = False


class SecretSpan(NamedTuple):
    """Hold the place of a rule's finding in a buffer of UTF-8."""

    first: int
    last: int  # exclusive, in bytes
    rule: str


class KeywordPlace(NamedTuple):
    """Hold the place of a keyword in a buffer, and the bounds of its text.

    `first` and `last` bound the keyword, `begin` and `end` the text. No rule may search beyond the text.
    """

    buffer: bytes
    first: int
    last: int
    begin: int
    end: int


# A rule yields what it finds at one of its keywords.
Find = Callable[[KeywordPlace, bytes], Iterator[SecretSpan]]


def make_placeholder(rule: str) -> str:
    """Return the text that replaces a secret.

    `PLACEHOLDER` recognises it, so a second scan leaves it as it is.
    """
    return f"[REDACTED:{rule}]"


def merge_spans(spans: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Return the spans in order, with one span for those that overlap. It has the rule that says the most."""
    merged: list[SecretSpan] = []
    for span in sorted(spans, key=lambda span: (span.first, -span.last)):
        if merged and span.first < merged[-1].last:
            before = merged[-1]
            rule = min((before, span), key=lambda one: (_rank(one.rule), one.first - one.last)).rule
            merged[-1] = SecretSpan(before.first, max(before.last, span.last), rule)
        else:
            merged.append(span)
    return merged


def _rank(rule: str) -> int:
    if rule in {"private", "private-key"}:
        return 0
    return 2 if rule.endswith(("-value", "-told")) or rule in {"bearer-token", "authorization", "cookie"} else 1


# ── many texts as one buffer, and the way back ────────────────────────────────────────────────────────────────────────


# No rule's pattern crosses a line end and then a control character. A buffer begins with these bytes too, and no
# decoder takes them for a byte order mark.
BETWEEN = b"\n\x1e\n"


class JoinedTexts:
    """Hold several texts in one buffer. `begins` and `ends` hold the bounds of each in bytes."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        self.parts = parts
        self.buffer = BETWEEN + BETWEEN.join(parts) + BETWEEN
        self.ends = list(accumulate(len(part) + len(BETWEEN) for part in parts))
        self.begins = [end - len(part) for end, part in zip(self.ends, parts, strict=True)]

    def find_text(self, place: int) -> int:
        """Return the index of the text that a byte of the buffer belongs to."""
        return bisect_right(self.begins, place) - 1
