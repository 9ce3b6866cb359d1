"""Taint: what a text may become, by who said what it stands on.

Authority is bound to the origin of records, taken from their envelope at ingest, never from what a text says of itself
or from what a model claims (write-time origin binding: arXiv 2606.24322; min-propagation of classes through a model's
reply). A memory has the lowest class of the records it cites, and of all it was shown where it cites none. What steers
an agent, and what is said of the user, needs the user's own words; what only came from outside is at most a report.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import deque
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from memoryd.ledger import steering
from memoryd.ledger.cut import MARK
from memoryd.ledger.exact import urls
from memoryd.ledger.grounding import Ground, Source, content, sentences
from memoryd.ledger.reversal import distances, negations, reversals
from memoryd.ledger.voice import handed_on
from memoryd.text.neutral import neutral, visible
from memoryd.text.wording import fold, plain, stem
from memoryd.transcripts.turn import Origin

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import date

LONGEST = 1200  # characters; a longer text is a dump, not a memory
ECHO = 0.7  # share of a claim's content words within one passage from which on the passage says the same
NEAR = 4  # lines that may say a thing together
VOUCHED = 0.6  # share of its content words that the assistant must have said of what lasts on its word alone
REPORT = "Report: "
UNKNOWN = "unknown source"
TURNED = "the contrary was said"
UNSAID = "not the user's words"
UNGROUNDED = "not in the source"  # ends the reason of a refusal for what was made up
RECALLED = "only a line of memory says that"
_FRAMED = re.compile(r"^(?:Report|Changed|Failed)\b", re.IGNORECASE)
_AS_USER = re.compile(r"^(?:the )?user\b", re.IGNORECASE)
_TAG = "\u2039"  # what `neutral` makes of the beginning of a tag
_SPOKEN = re.compile(r"^(?:user|assistant|agent|report): ", re.IGNORECASE)
_NAMED = re.compile(r"^[^\W\d_][\w.' -]{0,40}: ")
_BULLET = re.compile(r"^[-*+•]\s+")
_LINK_MARK = re.compile(r"\[([^\]]{1,200})\]\(\s*[^)\s]*[^)]*\)")


class Standing(IntEnum):
    """The class of a record or a memory: what it can vouch for."""

    NONE = 0  # injected by a hook or by memoryd: no evidence at all
    OUTSIDE = 1  # a tool, another agent, the agent program, or nobody knows who
    ASSISTANT = 2
    USER = 3


_STANDINGS = {Origin.USER: Standing.USER, Origin.ASSISTANT: Standing.ASSISTANT, Origin.INJECTED: Standing.NONE}


def standing(origin: Origin) -> Standing:
    """Return the class of a record by its origin."""
    return _STANDINGS.get(origin, Standing.OUTSIDE)


_LABELLED = {"User: ": Standing.USER, "Assistant: ": Standing.ASSISTANT, "Agent: ": Standing.ASSISTANT}
_LABELLED |= dict.fromkeys((REPORT, "Changed: ", "Failed: "), Standing.OUTSIDE)
# A daily file is kept by a person and by the agent's own tools, and a line of it does not tell whose it is.
_ORIGINS = {"user": Standing.USER, "assistant": Standing.ASSISTANT, "daily": Standing.ASSISTANT}


def standing_of(text: str, origins: Iterable[str]) -> Standing:
    """Return the class of a memory: by the label before its text, else the lowest of what it stands on.

    Args:
        text: of the memory.
        origins: of its sources; one without any was written by a person.
    """
    label = next((label for label in _LABELLED if text.startswith(label)), None)
    if label is not None:
        return _LABELLED[label]
    return min((_ORIGINS.get(one, Standing.OUTSIDE) for one in origins), default=Standing.USER)


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a session as evidence."""

    id: str
    standing: Standing
    text: str
    said_on: date  # local day
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text that would be remembered."""

    text: str
    cites: tuple[str, ...]  # record ids; none: it stands on all it was shown
    steers: bool = False  # it is offered as a preference, a correction or an instruction
    of_user: bool = False  # it is offered as a fact about the user


class Place(StrEnum):
    """Where a candidate may go."""

    CORE = "core"
    DAILY = "daily report"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a candidate. `why` has no content of it; `missing` is for the model that is asked again."""

    place: Place
    text: str = ""  # neutral, framed as a report where it is one, foreign addresses left out
    cites: tuple[str, ...] = ()  # the records it stands on
    why: str = ""
    missing: str = field(default="", repr=False)


def digest(line: str) -> str:
    """Return the digest by which a line that memoryd wrote is known again: of its folded text without a bullet mark."""
    return hashlib.sha256(fold(_BULLET.sub("", line.strip())).encode()).hexdigest()


class Bench:
    """Judges candidates by the records that were shown when they were made."""

    def __init__(self, shown: Sequence[Record], unseen: Sequence[Record] = (), own: Collection[str] = ()) -> None:
        """Prepare.

        Args:
            shown: what the model was shown; only these can be cited.
            unseen: other records of the session, from outside; what they say cannot be vouched for by the assistant.
            own: digests of lines that memoryd wrote; seen again they are no evidence, unless the user says them.
        """
        self._shown = {record.id: _without_own(record, own) for record in shown}
        self._whole = {one.id: one for one in shown if self._shown[one.id].text != one.text}  # with memory's own lines
        others = (*self._shown.values(), *unseen)
        self._outside = [_Heard(one.text) for one in others if one.standing < Standing.ASSISTANT]
        self._outside += [_Heard(handed_on(one.text)) for one in shown if one.standing is Standing.USER]
        self._grounds: dict[tuple[str, ...], Ground] = {}
        self._recalled: dict[tuple[str, ...], Ground] = {}

    def judge(self, candidate: Candidate) -> Verdict:
        """Return whether `candidate` may become a lasting memory, only a report of the day, or nothing."""
        text = neutral(candidate.text)
        cited = self._cited(candidate.cites)
        fault = self._fault(text, cited)
        if fault:
            return fault
        typed = tuple(one.id for one in cited if one.standing is Standing.USER)
        by_user = bool(typed) and self._ground(typed).missing(text) is None
        in_user_words = by_user and self._ground(typed).quotes(text)
        if steering.triggers(text) and not in_user_words:
            return Verdict(Place.REFUSED, why="a trigger that the user did not type")
        needs_user = candidate.steers or steering.instructs(text) or steering.prefers(text)
        if needs_user or candidate.of_user or steering.of_user(text):
            if in_user_words:
                return Verdict(Place.CORE, text, typed)
            return Verdict(Place.REFUSED, why=UNSAID)
        if by_user and self._is_turned(text, typed):
            return Verdict(Place.REFUSED, why=TURNED)
        if by_user and (in_user_words or not steering.endorses(text)):
            return Verdict(Place.CORE, text, typed)
        return self._second_hand(text, cited)

    def tell(self, candidate: Candidate) -> Verdict:
        """Return `candidate`, a line that tells what happened, as it may stand in a daily file.

        A line in the user's name stands on what the user and the assistant said, but where it steers, on the user's
        words alone, which must have done so; one from outside is a report, and no order even then.
        """
        text = neutral(candidate.text)
        cited = self._cited(candidate.cites)
        fault = self._fault(text, cited)
        if fault:
            return fault
        if _AS_USER.match(text) or (_kinds(text) and steering.of_user(text)):
            if not any(one.standing is Standing.USER for one in cited):
                return Verdict(Place.REFUSED, why=UNSAID)
            least = Standing.USER if _kinds(text) else Standing.ASSISTANT
            cited = [one for one in cited if one.standing >= least]
            fault = self._fault(text, cited)
            if fault:
                return fault
        cited = self._vouched(text, cited)
        said = min(one.standing for one in cited)
        if steering.triggers(text) and said is not Standing.USER:
            return Verdict(Place.REFUSED, why="a trigger that the user did not type")
        cites = tuple(one.id for one in cited)
        if self._is_turned(text, cites):
            return Verdict(Place.REFUSED, why=TURNED)
        if said >= Standing.ASSISTANT and not self._meant(text, cites):
            return Verdict(Place.REFUSED, why=UNSAID)
        if said <= Standing.OUTSIDE or (said is Standing.ASSISTANT and self._relays(text)):
            return self._report(text, cites)
        return Verdict(Place.DAILY, self._linked(text, cites), cites)

    def report(self, text: str) -> Verdict:
        """Return `text`, for which nothing that was shown is known to stand, as it may be told in a daily file."""
        clean = neutral(text)
        if not any(char.isalnum() for char in clean) or len(clean) > LONGEST:
            return Verdict(Place.REFUSED, why="empty or too long")
        return self._report(clean, ())

    def grounded_by_user(self, text: str, cites: Sequence[str]) -> bool:
        """Say whether what the user typed, of the records cited, holds all of `text`."""
        typed = tuple(one for one in cites if one in self._shown and self._shown[one].standing is Standing.USER)
        return bool(typed) and self._ground(typed).missing(text) is None

    def _meant(self, text: str, cites: tuple[str, ...]) -> bool:
        """Say whether the records mean all by which the sentences of `text` steer."""
        return all(self._means(one, cites) for one in sentences(_NAMED.sub("", text, count=1)))

    def _means(self, text: str, cites: tuple[str, ...]) -> bool:
        """Say whether all by which a sentence steers stands in passages that have half of its other words.

        Where one has all of them, it must say what an order, a like or praise says.
        """
        missing, steers = set(_kinds(text)), steering.instructs(text)
        if not missing and not steers:
            return True
        steers = steers or not missing.isdisjoint(_STEERS)
        asked = {stem(unit) for unit in content(text) if not steering.orders(unit) and not steering.likes(unit)}
        for passage in self._ground(cites).passages:
            said = " ".join(passage)
            held = len(asked.intersection(stem(unit) for unit in content(said)))
            if held == len(asked) and steers:
                return self._ground(cites).quotes(text)
            if 2 * held >= len(asked):
                missing -= _kinds(said)
        return not missing

    def _is_turned(self, text: str, cites: tuple[str, ...]) -> bool:
        """Say whether passages have all words of `text`, and each of them says the contrary."""
        asked = {stem(unit) for unit in content(_NAMED.sub("", text, count=1))}
        turned = bool(negations(text))
        held = [" ".join(one) for one in self._ground(cites).passages] if len(asked) > 1 else []
        same = [one for one in held if asked <= {stem(unit) for unit in content(one)}]
        return bool(same) and all(bool(negations(one)) is not turned for one in same)

    def _cited(self, cites: Sequence[str]) -> list[Record]:
        """Return the records cited, all that was shown where none is; empty where one was never shown."""
        if not cites:
            return list(self._shown.values())
        return [self._shown[one] for one in dict.fromkeys(cites)] if set(cites) <= set(self._shown) else []

    def _vouched(self, text: str, cited: list[Record]) -> list[Record]:
        """Return the records that hold `text` without the help of a lower class, or all where none are enough."""
        for least in (Standing.USER, Standing.ASSISTANT):
            some = [one for one in cited if one.standing >= least]
            if some and self._ground(tuple(one.id for one in some)).missing(text) is None:
                return some
        return cited

    def _fault(self, text: str, cited: Sequence[Record]) -> Verdict | None:
        if not cited:
            return Verdict(Place.REFUSED, why=UNKNOWN)
        if any(one.standing is Standing.NONE for one in cited):
            return Verdict(Place.REFUSED, why="injected text is no evidence")
        if not any(char.isalnum() for char in text) or len(text) > LONGEST:
            return Verdict(Place.REFUSED, why="empty or too long")
        if MARK in text:
            return Verdict(Place.REFUSED, why="the rest of something forgotten")
        ground = self._ground(tuple(one.id for one in cited))
        missing = ground.missing(text)
        if missing is None:
            return Verdict(Place.REFUSED, why=f"relation {UNGROUNDED}") if ground.turns_round(text) else None
        if self._is_recalled(text, cited):
            return Verdict(Place.REFUSED, why=RECALLED)
        return Verdict(Place.REFUSED, why=f"{missing.kind} {UNGROUNDED}", missing=missing.token)

    def _is_recalled(self, text: str, cited: Sequence[Record]) -> bool:
        """Say whether the records hold `text` with the lines of memory that they repeat."""
        if not any(one.id in self._whole for one in cited):
            return False
        ids = tuple(one.id for one in cited)
        if ids not in self._recalled:
            whole = [self._whole.get(one.id, one) for one in cited]
            self._recalled[ids] = Ground([Source(one.text, one.said_on, one.speaker) for one in whole])
        return self._recalled[ids].missing(text) is None

    def _second_hand(self, text: str, cited: list[Record]) -> Verdict:
        cited = self._vouched(text, cited)
        cites = tuple(one.id for one in cited)
        if min(one.standing for one in cited) is Standing.OUTSIDE:
            return self._report(text, cites)
        held, asked = self._ground(cites).support(text)
        if self._echoes(text) or steering.endorses(text) or urls(plain(text)) or held < VOUCHED * asked:
            return self._report(text, cites)
        return Verdict(Place.CORE, text, cites)

    def _report(self, text: str, cites: tuple[str, ...]) -> Verdict:
        if steering.instructs(text.removeprefix(REPORT)) or steering.triggers(text):
            return Verdict(Place.REFUSED, why="an order from outside")
        if steering.of_user(text) and steering.prefers(text):
            return Verdict(Place.REFUSED, why=UNSAID)
        framed = text if _FRAMED.match(text) else REPORT + text
        return Verdict(Place.DAILY, self._linked(framed, cites), cites, "only reported")

    def _linked(self, text: str, cites: Iterable[str]) -> str:
        """Return `text` with no address but those that the user gave: of any other only its host is told."""
        typed = [self._shown[one].text for one in cites if self._shown[one].standing is Standing.USER]
        return without_addresses(text, frozenset(url for one in typed for url in urls(plain(one))))

    def _relays(self, text: str) -> bool:
        """Say whether `text`, on the assistant's word, hands on what steers or leads away and was heard outside."""
        leads = _kinds(text) or urls(plain(text)) or steering.instructs(_SPOKEN.sub("", text, count=1)) or _TAG in text
        return bool(leads) and self._echoes(text)

    def _echoes(self, text: str) -> bool:
        asked = [stem(unit) for unit in content(text)]
        return bool(asked) and any(heard.says(asked) for heard in self._outside)

    def _ground(self, ids: tuple[str, ...]) -> Ground:
        if ids not in self._grounds:
            records = [self._shown[one] for one in ids]
            self._grounds[ids] = Ground([Source(one.text, one.said_on, one.speaker) for one in records])
        return self._grounds[ids]


def _kinds(text: str) -> frozenset[str]:
    """Return by what `text` steers: an order, a like, praise, and the words that turn one round."""
    found = {name for name, cue in _STEERS.items() if cue(text)}
    return frozenset(found | (reversals(text)[1] - distances(text)))


_STEERS = {"order": steering.orders, "like": steering.likes, "praise": steering.endorses}


class _Heard:
    """What one record from outside says, line by line; it may be megabytes, so words are only looked for as letters."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines: list[str] | None = None

    def says(self, asked: Sequence[str]) -> bool:
        if self._lines is None:
            text = unicodedata.normalize("NFKC", self._text).casefold()
            self._lines = [visible(line) for line in text.splitlines() if line]
        near: deque[set[int]] = deque(maxlen=NEAR)
        for line in self._lines:
            near.append({i for i, one in enumerate(asked) if one in line})
            if len(set().union(*near)) >= ECHO * len(asked):
                return True
        return False


def without_addresses(text: str, allowed: Collection[str] = ()) -> str:
    """Return `text` with each address that is not `allowed` reduced to its host, and no Markdown link around one."""
    found = urls(plain(text))
    if any(url not in text for url in found):
        text = plain(text)
    text = _LINK_MARK.sub(lambda link: link[0] if any(one in link[0] for one in allowed) else link[1], text)
    for url in sorted(set(found), key=len, reverse=True):
        if url not in allowed:
            text = text.replace(url, _host(url))
    return text


def _host(url: str) -> str:
    try:
        host = urlsplit(url if "://" in url else f"//{url}").hostname or ""
    except ValueError:
        host = ""
    # Data can be hidden in the name of a host as well; a long one is not told.
    return f"(a page of {host.removeprefix('www.')})" if 0 < len(host) <= 40 else "(a page)"


def _without_own(record: Record, own: Collection[str]) -> Record:
    if not own or record.standing is Standing.USER:
        return record
    kept = [_rest_of(line, own) for line in record.text.splitlines() if digest(line) not in own]
    return replace(record, text="\n".join(kept))


def _rest_of(line: str, own: Collection[str]) -> str:
    """A line without the sentences of it that are lines of memory."""
    parts = sentences(line)
    kept = [part for part in parts if digest(part) not in own]
    return line if len(kept) == len(parts) else " ".join(kept)
