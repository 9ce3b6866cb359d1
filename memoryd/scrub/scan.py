"""Redact texts.

All texts are joined in one buffer. One pass finds every keyword of every rule (Aho and Corasick, "Efficient string
matching", 1975). A rule's pattern runs only at its keyword, over a bounded stretch, so the work is linear in the size
of the texts. Redacted text is scanned again until nothing more is found. So a second scan of the result leaves it as it
is.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import combinations

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from memoryd.scrub import carried, columns, commands, formats, named, near, personal, private, told
from memoryd.scrub.encoded import View, list_views, view_strings, view_stripped
from memoryd.scrub.finding import (
    PLACEHOLDER,
    Find,
    Finding,
    JoinedTexts,
    KeywordPlace,
    ScrubbedText,
    SecretSpan,
    make_placeholder,
    merge_spans,
)
from memoryd.scrub.policy import Policy

# Finds the known formats in a buffer, as (rule, first byte, last byte). The last byte is exclusive.
FindKnown = Callable[[bytes], Iterable[tuple[str, int, int]]]

_FindAll = Callable[[JoinedTexts, bytes], Iterable[SecretSpan]]

ROUNDS_MAX = 8
# Names may be inside each other's values this often. A longer chain costs too much and is redacted as a whole.
LOOKS_MAX = 8
REMEMBERED_MAX = 256  # one scan remembers this many surroundings
_SPACE = re.compile(rb"\s")
UNSETTLED = "unsettled"
_MARK = b"[redacted:"
# The library must not see these, and sees spaces instead. Its rules for PEM and curl take seconds for some texts of a
# megabyte, and memoryd's own rules find the same. A NUL makes it decode the text and return places in its own copy.
_UNSEEN = tuple((seen, b" " * len(seen)) for seen in (b"-----BEGIN ", b"curl", b"\0"))


# A keyword, its offset in the keyword that contains it, and its rules.
_Keyword = tuple[bytes, int, tuple[Find, ...]]


def scan(texts: Sequence[str], policy: Policy, find_known: FindKnown) -> list[ScrubbedText]:
    """Redact what the policy names in each text, and return the texts with their findings."""
    parts = [text.encode("utf-8", "surrogatepass") for text in texts]
    found = _search(parts, policy, find_known)
    settled = {place: _settle(parts[place], spans, policy, find_known) for place, spans in found.items()}
    return [
        _scrub_text(text, parts[place], settled[place], policy) if place in settled else ScrubbedText(text, ())
        for place, text in enumerate(texts)
    ]


def _settle(part: bytes, spans: list[SecretSpan], policy: Policy, find_known: FindKnown) -> list[SecretSpan]:
    """Return the spans, with those that appear only after redaction.

    After `ROUNDS_MAX` rounds, the result is the whole text.
    """
    for _ in range(ROUNDS_MAX):
        redacted = _RedactedText(part, spans)
        more = _search([redacted.data], policy, find_known).get(0)
        if not more:
            return spans
        spans = merge_spans([*spans, *(redacted.origin(span) for span in more)])
    return [SecretSpan(0, len(part), UNSETTLED)]


def _search(parts: Sequence[bytes], policy: Policy, find_known: FindKnown) -> dict[int, list[SecretSpan]]:
    """Return the findings of each text that has some, in order and without overlaps."""
    joined = JoinedTexts(parts)
    low = joined.buffer.lower()
    whole = [*view_stripped(joined)]
    spans: list[SecretSpan] = []
    if policy.private:
        spans += _private_parts(joined, low)
        spans += _in_views(whole, _private_parts)
    if policy.secrets != "off":
        find = partial(_secrets, find_known=find_known)
        spans += find(joined, low)
        spans += _in_views(whole, find)
        spans += _in_layers(joined, list_views, find, layers=2)
        spans += _in_layers(joined, view_strings, find, layers=5)
    if policy.pii == "mask":
        spans += personal.find(joined.buffer)
    by_text: dict[int, list[SecretSpan]] = {}
    for first, last, rule in spans:
        text = joined.find_text(first)
        begin = joined.begins[text]
        own = SecretSpan(max(0, first - begin), min(last - begin, len(parts[text])), rule)
        by_text.setdefault(text, []).append(own)
    return {text: kept for text, found in by_text.items() if (kept := _keep_spans(parts[text], found, policy))}


def _in_views(views: list[View], find: _FindAll) -> Iterator[SecretSpan]:
    """Yield what is found in views, at its place in the original texts."""
    if not views:
        return
    inner = JoinedTexts([view.data for view in views])
    for first, last, rule in find(inner, inner.buffer.lower()):
        text = inner.find_text(first)
        begin = inner.begins[text]
        yield views[text].span(first - begin, last - begin, rule)


def _in_layers(
    joined: JoinedTexts, list_layer: Callable[[JoinedTexts], Iterable[View]], find: _FindAll, *, layers: int
) -> Iterator[SecretSpan]:
    """Yield what is found below each of several layers of the same kind."""

    def find_deeper(inner: JoinedTexts, low: bytes) -> Iterator[SecretSpan]:
        yield from find(inner, low)
        if layers > 1:
            yield from _in_layers(inner, list_layer, find, layers=layers - 1)

    return _in_views([*list_layer(joined)], find_deeper)


def _private_parts(joined: JoinedTexts, low: bytes) -> Iterator[SecretSpan]:
    size = len(private.KEYWORD)
    hits = _hits(_private(), joined, low)
    return private.find(KeywordPlace(joined.buffer, first, first + size, begin, end) for _, first, begin, end in hits)


def _secrets(joined: JoinedTexts, low: bytes, find_known: FindKnown) -> Iterator[SecretSpan]:
    buffer = joined.buffer
    for seen, instead in _UNSEEN:
        buffer = buffer.replace(seen, instead)
    known = [*find_known(buffer)]
    if len(joined.parts) == 1:
        yield from (SecretSpan(first, last, rule) for rule, first, last in known)
        known = []
    for text in {joined.find_text(first) for _, first, _ in known}:
        # Scan each text alone, so that the next text cannot cause the match.
        begin, end = joined.begins[text], joined.ends[text]
        for rule, first, last in find_known(b"\n" + buffer[begin:end]):
            yield SecretSpan(begin + first - 1, begin + last - 1, rule)
    yield from formats.discord_tokens(joined.buffer)
    yield from _ours(joined, low)


def _ours(joined: JoinedTexts, low: bytes) -> Iterator[SecretSpan]:
    automaton, keywords = _rules()
    of_names = make_cached_find()
    # The end of the values so far, the number of names inside the previous value, and the start of that chain.
    looked_to = looks = nest = skip_to = 0
    for index, at, begin, end in _hits(automaton, joined, low):
        if at < skip_to:
            continue
        if at >= looked_to:
            looks, nest = 0, at
        elif looks >= LOOKS_MAX:
            space = _SPACE.search(joined.buffer, at, end)
            skip_to = space.start() if space else end
            yield SecretSpan(nest, skip_to, UNSETTLED)
            continue
        for keyword, offset, finds in keywords[index]:
            first = at + offset
            place = KeywordPlace(joined.buffer, first, first + len(keyword), begin, end)
            for find in finds:
                for span in (of_names if find is named.find else find)(place, keyword):
                    if span.rule != named.REJECTED:
                        yield span
                    if span.rule != columns.RULE:  # a finding in a column is far below its heading
                        looked_to = max(looked_to, span.last)
        looks += 1


def make_cached_find() -> Callable[[KeywordPlace, bytes], list[SecretSpan]]:
    """Return one finder for named secrets, which searches each surrounding once, so that repeated text costs little.

    Use it for one scan only, because it remembers text that is not redacted yet.
    """
    # The key is the keyword, its place in the surrounding and the next bytes. To hash a whole surrounding is slow.
    known: dict[tuple[bytes, int, bytes], tuple[int, int, list[SecretSpan]]] = {}

    def find(place: KeywordPlace, keyword: bytes) -> list[SecretSpan]:
        is_spoken, is_near = keyword in told.LONG, keyword in near.WORDS
        buffer, first, last, begin, end = place
        is_alone = buffer[first - 1 : first] == b" "  # a value may be before it
        if not (is_spoken or is_near or is_alone) and named.is_other_name(place, keyword):
            return []
        begin, end = max(begin, first - named.BEHIND), min(end, first + named.AHEAD)
        key = keyword, first - begin, buffer[first : first + 64]
        since, until, spans = known.get(key, (0, 0, []))
        if until == 0 or buffer[since:until] != buffer[begin:end]:
            inner = KeywordPlace(buffer, first, last, begin, end)
            found = [*named.find(inner, keyword), *(told.find_password(inner, keyword) if is_spoken else ())]
            found += near.find_near(inner, keyword) if is_near else ()
            spans = [SecretSpan(span.first - begin, span.last - begin, span.rule) for span in found]
            if len(known) >= REMEMBERED_MAX:
                known.clear()
            known[key] = begin, end, spans
        return spans and [SecretSpan(span.first + begin, span.last + begin, span.rule) for span in spans]

    return find


def _hits(automaton: BytesAhoCorasick, joined: JoinedTexts, low: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield each keyword of a text as its index, its place, and the begin and end of the text."""
    text, begin, end = -1, 0, 0
    for index, first, last in automaton.find_matches_as_indexes(low):
        if first >= end:
            text = bisect_right(joined.begins, first, max(text, 0)) - 1
            begin, end = joined.begins[text], joined.ends[text]
        if last <= end:
            yield index, first, begin, end


@cache
def _private() -> BytesAhoCorasick:
    return BytesAhoCorasick([private.KEYWORD])


@cache
def _rules() -> tuple[BytesAhoCorasick, list[list[_Keyword]]]:
    """Return the automaton of all keywords, and the rules for each keyword and for those it contains."""
    finds: dict[bytes, list[Find]] = {word: [named.find] for word in named.KEYWORDS}
    for module in (formats, columns, carried, commands, told, near):
        for word, find in module.FINDS.items():
            finds.setdefault(word, []).append(find)
    words = sorted(finds)
    contained = [
        sorted(
            (word[first:end], first, tuple(finds[word[first:end]]))
            for first, end in combinations(range(len(word) + 1), 2)
            if word[first:end] in finds and (word, word[first:end]) != (b"authorization", b"auth")
        )
        for word in words
    ]
    return BytesAhoCorasick(words, MatchKind.LeftmostLongest, Implementation.DFA), contained


def _keep_spans(part: bytes, spans: list[SecretSpan], policy: Policy) -> list[SecretSpan]:
    """Return the spans that are not placeholders, allowed or empty. Overlapping spans are merged."""
    marks = [found.span() for found in PLACEHOLDER.finditer(part)] if _MARK in part.lower() else []
    kept = []
    for span in spans:
        first, last, rule = span
        for begin, end in marks:
            if first < end and begin < last:
                first, last = (last, last) if begin <= first and last <= end else (min(first, begin), max(last, end))
        may_stay = policy.allow and rule != private.RULE
        if first < last and not (may_stay and policy.allows(part[first:last].decode("utf-8", "replace"))):
            kept.append(SecretSpan(*_whole_characters(part, first, last), rule))
    return merge_spans(kept)


def _whole_characters(part: bytes, first: int, last: int) -> tuple[int, int]:
    while first > 0 and part[first] & 0xC0 == 0x80:
        first -= 1
    while last < len(part) and part[last] & 0xC0 == 0x80:
        last += 1
    return first, last


class _RedactedText:
    """Hold a redacted text, and map its positions to those of the original."""

    def __init__(self, part: bytes, spans: list[SecretSpan]) -> None:
        pieces: list[bytes] = []
        # A step is a place here, its place in the original, and 1 if a placeholder begins there.
        self._steps: list[tuple[int, int, int]] = []
        size = at = 0
        for first, last, rule in spans:
            mark = make_placeholder(rule).encode()
            self._steps += [(size, at, 0), (size + first - at, first, 1)]
            pieces += [part[at:first], mark]
            size += first - at + len(mark)
            at = last
        self._steps.append((size, at, 0))
        self.data = b"".join([*pieces, part[at:]])

    def origin(self, span: SecretSpan) -> SecretSpan:
        """Return the span of the original text that a span of the redacted text comes from."""
        first = bisect_right(self._steps, (span.first, 1 << 62, 1)) - 1
        last = bisect_right(self._steps, (span.last - 1, 1 << 62, 1)) - 1
        place, given, is_mark = self._steps[first]
        begin = given if is_mark else given + span.first - place
        place, given, is_mark = self._steps[last]
        end = self._steps[last + 1][1] if is_mark else given + span.last - place
        return SecretSpan(begin, end, span.rule)


def _scrub_text(text: str, part: bytes, spans: list[SecretSpan], policy: Policy) -> ScrubbedText:
    findings: list[Finding] = []
    pieces: list[str] = []
    at = characters = 0
    for first, last, rule in spans:
        before = part[at:first].decode("utf-8", "surrogatepass")
        begin = characters + len(before)
        characters = begin + len(part[first:last].decode("utf-8", "surrogatepass"))
        at = last
        pieces += [before, make_placeholder(rule)]
        findings.append(Finding(rule, begin, characters))
    secrets = any(finding.rule not in personal.RULES and finding.rule != private.RULE for finding in findings)
    if policy.secrets == "skip" and secrets:
        return ScrubbedText("", tuple(findings), dropped=True)
    return ScrubbedText("".join([*pieces, text[characters:]]), tuple(findings))
