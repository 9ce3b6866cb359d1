"""Grounding: whether what a text claims stands in the records it cites.

Deterministic and first of all checks. What is exact (`exact`) and every name must occur in the sources as it is; of the
other content words most must, in any of their forms, so that a model may put things in its own words but not tell
another story. For preferences and instructions even that is too free (`quotes`), since those steer what an agent does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from memoryd.ledger import amounts, calendar, dates, relation
from memoryd.ledger.exact import Kind, digits, emails, exact, phones, urls
from memoryd.ledger.restatement import restates
from memoryd.ledger.reversal import distances, reversals
from memoryd.ledger.voice import own
from memoryd.text import prose
from memoryd.text.neutral import neutral
from memoryd.text.wording import STOP, WORD, fold, full, occurs, plain, stem, units

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

# Of the content words of a text, the share that its sources must hold. Measured on the 1,210 observations a model wrote
# about the LoCoMo conversations (Maharana et al. 2024), each with the turn it cites and with a turn of another talk:
# see `bench/grounding.py`.
SUPPORT = 0.4
_CONTRARY = ("un", "in", "im", "il", "ir", "dis", "non", "de")  # "unmarried", "invalid", "deactivated" …
_PAIR = ("en", "dis")  # … and "enabled", "disabled"
_SHORTEST_CONTRARY = 5  # letters
_FEWEST_WORDS = 2  # content words below which a share says nothing
# What a line of memory may begin with: who said it, or what it is. The sources do not say that.
LABELS = "User|Assistant|Agent|Report|Decision|Learned|Changed|Failed|Event|Asked|Done|Open"
_LABEL = re.compile(rf"^(?:{LABELS})\b(?:'s)?:?\s*", re.IGNORECASE)
_STAMP = re.compile(r"\((\d{4}(?:-\d\d(?:-\d\d(?:/\d\d)?)?)?)\)")
_NAME = re.compile(r"(?<![^\W_])[^\W\d_][\w'-]*")
_VERBAL = re.compile(r"^\w+(?:ed|ing|ly|ion|ions|ment|ity)$")
_YEAR = re.compile(r"[12]\d{3}")
_FRAMING_LIST = """
a after agent all also an and any are as ask asked asks assistant at be because been before both but by can
changed could decision did dislikes do does done each event failed for from had has hates have he her his how
i if in is it its just learned like liked likes more most my of on open or our please prefer
prefered preferred prefers report said says she should since so some tells than that the their
then there these they this those to today told use used user users uses using very want wanted wants was we were
what when where which who why will with would yesterday you your
"""
_FRAMING = frozenset(_FRAMING_LIST.split())
_CLAUSE = re.compile(
    r"(?:[,;:]|\s[–—-]+|,?\s(?:but|and|so|aber|und|mais|et|pero|y|но|и))\s+"  # noqa: RUF001
    r"(?=(?:i|i'm|i've|my|we|we're|our|ich|mein\w*|wir|je|mon|ma|yo|mi|io|eu|meu|ik|mijn|я|мой|моя|мы)\b|j')"
    r"|[,;:](?=[我私僕])"
    r"|,\s(?:so|because|since|denn|weil|car|parce\sque|porque|poiché|perché|omdat|потому\sчто)\s"  # noqa: RUF001
)
_TELLS = re.compile(
    r"^(?:the )?user (?:has )?(?:said|says|told|tells|mentioned|mentions|stated|states|asked|asks)\b:?", re.IGNORECASE
)
# What begins with one of these is an order of its own also behind another part of the sentence.
_ORDERS = re.compile(
    r"(?:please|always|never|only|use|don't|do not|bitte|immer|nie\w*|toujours|jamais|siempre|nunca|sempre|mai|altijd|"
    r"nooit|всегда|никогда)\b"
)
_STOPS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class Source:
    """One record a text may stand on."""

    text: str
    said_on: date  # local day
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class Missing:
    """What no source holds. The token is for the model that is asked again; it never goes into a log or a receipt."""

    kind: Kind
    token: str = field(repr=False)


class Ground:
    """The cited records of one claim, prepared for asking what occurs in them."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = sources
        raw = "\n".join(f"{source.speaker}: {source.text}" for source in sources)
        spoken = "\n".join(prose.lines(raw))
        forms = dict.fromkeys(plain(form) for form in (raw, neutral(raw), spoken, neutral(spoken)))
        self._text = "\n".join(forms)
        self._folded = self._text.casefold()

    def missing(self, text: str) -> Missing | None:
        """Return the first thing in `text` that no source holds, or None where all of it is grounded."""
        body = _LABEL.sub("", plain(text), count=1)
        for stamp in _STAMP.findall(body):
            if not self._has_stamp(stamp):
                return Missing(Kind.DATE, stamp)
        claimed = exact(_STAMP.sub(" ", body))
        checks = (
            *((Kind.QUOTE, one, self._says(one)) for one in claimed.quotes),
            *((Kind.URL, one, one in self._urls) for one in claimed.urls),
            *((Kind.EMAIL, one, one in self._emails) for one in claimed.emails),
            *((Kind.DATE, one, self._has_date(one, when.readings)) for one, when in claimed.dates),
            *((Kind.PHONE, one, self._has_phone(one)) for one in claimed.phones),
            *((Kind.PATH, one, self._has_mark(one)) for one in claimed.paths),
            *((Kind.IDENTIFIER, one, self._has_mark(one, ".@")) for one in claimed.identifiers),
        )
        for kind, token, held in checks:
            if not held:
                return Missing(kind, token)
        for token, amount in claimed.amounts:
            if kind_missing := self._lacks_amount(amount):
                return Missing(kind_missing, token)
        for name in _names(claimed.rest):
            if not self._has_name(name):
                return Missing(Kind.NAME, name[0])
        unsupported = self._unsupported(body)
        return Missing(Kind.WORDS, unsupported) if unsupported else None

    def support(self, text: str) -> tuple[int, int]:
        """Return how many content words of `text` the sources hold in some form, and how many it has.

        The unit of a number is none: 18 mo are 18 months, and what differs is missing.
        """
        asked = content(_without_amounts(text))
        return sum(1 for unit in asked if self._has_word(unit)), len(asked)

    def turns_round(self, text: str) -> bool:
        """Say whether `text` has somebody do what, as the sources say, is done to them (`relation`)."""
        return relation.turns_round(text, ((source.speaker, source.text) for source in self.sources))

    def quotes(self, text: str) -> bool:
        """Say whether `text` is what the sources say in their own voice: it restates one passage (`restatement`).

        Of a text of several sentences each may restate a passage of its own: each alone could be remembered.
        """
        body = _STAMP.sub(" ", _TELLS.sub("", _LABEL.sub("", plain(text), count=1), count=1))
        return self._restates(body) or (len(sentences(body)) > 1 and all(map(self._restates, sentences(body))))

    def _restates(self, body: str) -> bool:
        return any(restates(body, passage) for passage in self.passages)

    # What the sources hold, worked out when first asked for.

    @cached_property
    def passages(self) -> list[tuple[str, ...]]:
        """What the sources say in their own voice, sentence by sentence (`passages`)."""
        return [passage for source in self.sources for passage in passages(source.text)]

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(units(self._folded)) | frozenset(WORD.findall(self._folded))

    @cached_property
    def _stems(self) -> frozenset[str]:
        return frozenset(stem(word) for word in self._words)

    @cached_property
    def _small(self) -> frozenset[str]:
        """The stems of words that the sources write small somewhere: those are no names."""
        return frozenset(stem(word) for word in WORD.findall(self._text) if word == word.casefold())

    @cached_property
    def _urls(self) -> frozenset[str]:
        return frozenset(urls(self._text))

    @cached_property
    def _emails(self) -> frozenset[str]:
        return frozenset(emails(self._text))

    @cached_property
    def _phones(self) -> frozenset[str]:
        return frozenset(digits(found) for found in phones(self._text))

    @cached_property
    def _days(self) -> set[calendar.Day]:
        return {day for source in self.sources for day in calendar.said(plain(source.text), source.said_on)}

    @cached_property
    def _amounts(self) -> frozenset[tuple[str, str]]:
        return frozenset((amount.number, amount.unit) for amount in amounts.find(self._text))

    # Whether they hold one thing.

    def _says(self, quotation: str) -> bool:
        return occurs(fold(quotation), self._folded)

    def _has_stamp(self, stamp: str) -> bool:
        first, _, last = stamp.partition("/")
        parts = [int(part) for part in first.split("-")]
        if not last:
            return calendar.among([calendar.Day(*parts, *[None] * (3 - len(parts)))], self._days)
        spans = (found.iso for source in self.sources for found in dates.find(source.text, source.said_on))
        return stamp in spans or occurs(stamp, self._text)

    def _has_date(self, written: str, readings: Sequence[calendar.Day]) -> bool:
        return calendar.among(readings, self._days) or occurs(fold(written), self._folded)

    def _has_phone(self, written: str) -> bool:
        return digits(written) in self._phones or occurs(written, self._text)

    def _has_mark(self, token: str, joints: str = ".@-") -> bool:
        """Say whether a path or identifier stands in the sources and does not go on there: src/a is not src/a.py."""
        start = self._text.find(token)
        while start >= 0:
            before, after = self._text[max(0, start - 2) : start], self._text[start + len(token) :][:2]
            if not _goes_on(before[::-1], token[0], joints) and not _goes_on(after, token[-1], joints):
                return True
            start = self._text.find(token, start + 1)
        return not token

    def _lacks_amount(self, amount: amounts.Amount) -> Kind | None:
        if (amount.number, amount.unit) in self._amounts:
            return None
        with_number = {unit for number, unit in self._amounts if number == amount.number}
        if not amount.unit and (with_number or self._is_year(amount.number)):
            return None
        return Kind.UNIT if with_number else Kind.NUMBER

    def _is_year(self, number: str) -> bool:
        return bool(_YEAR.fullmatch(number)) and any(day.year == int(number) for day in self._days)

    def _has_name(self, found: re.Match[str]) -> bool:
        name = found[0].casefold().removesuffix("'s").strip("-'")
        if not name or full(name) in self._words or name in _FRAMING or occurs(name, self._folded):
            return True
        begins = found.start() == 0 or found.string[: found.start()].rstrip()[-1:] in ".!?:;"
        return begins and (_VERBAL.match(name) is not None or (len(name) >= 4 and stem(name) in self._small))

    def _has_word(self, unit: str) -> bool:
        return unit in self._words or stem(unit) in self._stems

    def _has_contrary(self, unit: str) -> bool:
        """Say whether the sources have a word only with, or without, what turns it round: "invalid" is not "valid"."""
        others = [other + unit.removeprefix(one) for one in _PAIR if unit.startswith(one) for other in _PAIR]
        others += [prefix + unit for prefix in _CONTRARY]
        others += [rest for one in _CONTRARY if len(rest := unit.removeprefix(one)) < len(unit)]
        return any(len(other) >= _SHORTEST_CONTRARY and self._has_word(other) for other in others)

    def _unsupported(self, text: str) -> str:
        asked = content(_without_amounts(text))
        lost = [unit for unit in asked if not self._has_word(unit)]
        if turned := next(filter(self._has_contrary, lost), None):
            return turned
        return lost[0] if len(asked) >= _FEWEST_WORDS and len(asked) - len(lost) < SUPPORT * len(asked) else ""


def content(text: str) -> list[str]:
    """Return the content words of `text`, runs of wide characters as pairs; numbers are none."""
    found = (unit for unit in units(fold(text)) if unit not in STOP and unit not in _FRAMING)
    return [unit for unit in found if len(unit) > 1 and not unit.isdigit()]


def _without_amounts(text: str) -> str:
    given = plain(text)
    for amount in sorted((one for one in amounts.find(given) if one.unit), reverse=True):
        given = f"{given[: amount.start]} {given[amount.end :]}"
    return given


def sentences(text: str) -> list[str]:
    """Return the sentences of a line."""
    return [part.strip() for part in _STOPS.split(text) if part.strip()]


def passages(text: str) -> list[tuple[str, ...]]:
    """Return the sentences of what `text` says in its own voice, each two that follow each other, and main clauses.

    A main clause is told by its subject: of "I no longer live in Oslo, I live in Bergen" both halves stand alone, but
    of "never, ever use tabs" none does. What is told of others, asked or supposed does not lose that by being parted.
    """
    said = own(text)
    lines = dict.fromkeys((*said.splitlines(), *prose.lines(said)))
    parts = [part for line in lines for part in sentences(fold(neutral(line)))]
    return [*((part,) for part in parts), *pairwise(parts), *((one,) for part in parts for one in _clauses(part))]


def _clauses(sentence: str) -> list[str]:
    clauses = _CLAUSE.split(sentence)
    if distances(sentence) & {"?"}:
        clauses = [f"{clause}?" for clause in clauses]
    stand = [clause for at, clause in enumerate(clauses) if not any(map(distances, clauses[:at]))]
    head, told, tail = sentence.partition(", ")
    if told and _ORDERS.match(tail) and reversals(head) == (0, frozenset()):
        stand.append(tail)
    return stand if len(stand) > 1 or stand[:1] != [sentence] else []


def _names(text: str) -> Iterator[re.Match[str]]:
    return (found for found in _NAME.finditer(text) if found[0][0].isupper())


def _goes_on(near: str, edge: str, joints: str) -> bool:
    """Say whether a token whose last character is `edge` goes on in `near`, what stands beside it, nearest first."""
    if not near or prose.is_wide(near[0]) or prose.is_wide(edge):
        return False
    if near[0].isalnum() or near[0] == "_":
        return edge.isalnum() or edge in "_-."
    return near[0] in joints and len(near) > 1 and near[1].isalnum() and not prose.is_wide(near[1]) and edge != "/"
