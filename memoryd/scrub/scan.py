"""Texts in, redacted texts out: all rules in one pass over all texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from memoryd.scrub.finding import Finding, Scrubbed, placeholder

if TYPE_CHECKING:
    from memoryd.scrub.policy import Policy

# Finds the known formats in a buffer: (rule, first byte, last byte), the last exclusive.
FindKnown = Callable[[bytes], Iterable[tuple[str, int, int]]]

_BETWEEN = b"\n\0\n"


def scan(texts: Sequence[str], policy: Policy, find_known: FindKnown) -> list[Scrubbed]:
    """Take out of each text what the policy names, and say what and where it was."""
    if policy.secrets == "off":
        return [Scrubbed(text, ()) for text in texts]
    parts = [text.encode("utf-8", "surrogatepass") for text in texts]
    buffer = _BETWEEN.join(parts)
    spans = sorted(find_known(buffer), key=lambda span: span[1])
    results, at, start = [], 0, 0
    for text, part in zip(texts, parts, strict=True):
        findings: list[Finding] = []
        while at < len(spans) and spans[at][1] < start + len(part):
            rule, first, last = spans[at]
            before = part[: first - start].decode("utf-8", "surrogatepass")
            inside = part[first - start : last - start].decode("utf-8", "surrogatepass")
            if not findings or len(before) >= findings[-1].last:
                findings.append(Finding(rule, len(before), len(before) + len(inside)))
            at += 1
        results.append(_scrubbed(text, tuple(findings), policy))
        start += len(part) + len(_BETWEEN)
    return results


def _scrubbed(text: str, findings: tuple[Finding, ...], policy: Policy) -> Scrubbed:
    if findings and policy.secrets == "skip":
        return Scrubbed("", findings, dropped=True)
    pieces, at = [], 0
    for rule, first, last in findings:
        pieces += [text[at:first], placeholder(rule)]
        at = last
    return Scrubbed("".join([*pieces, text[at:]]), findings)
