"""Promotion: which entries of the daily files say something that lasts, and why.

Signs are explicit: a wish, decision, fact or lesson by its wording (`lasting`), what the user says to be so from now on
(`replacement`), what a person writes by hand to be so always or never, a dated milestone, a statement that the user
made on more than one day, or the user's own "remember". What a tool or another agent reported, what somebody still has
to do, and what an agent's own tools wrote into the file as if it were the user's wish, is never offered.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from memoryd.jobs.job import MemoryType
from memoryd.ledger import steering, unfinished
from memoryd.ledger.replacement import claims
from memoryd.ledger.reversal import negations
from memoryd.llm import cues, lasting, words
from memoryd.llm.sameness import Form, form
from memoryd.llm.sentences import alone, is_question, sentences
from memoryd.llm.statements import Said
from memoryd.text.neutral import neutral

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from memoryd.jobs.job import Quoted

USER, HAND, ASSISTANT, AGENT = "user", "hand", "assistant", "agent"
EXPLICIT = 0.9  # importance from which on the user asked in so many words that it be kept
LONGEST = 400  # characters; more is a text, not a memory
_SPOKEN = re.compile(r"^([^\W\d_][^\W\d_'’.-]*(?: [^\W\d_][\w'’.-]*){0,2}):\s+(?=\S)")  # noqa: RUF001
_REPORTED = re.compile(r"^(?:Report|Changed|Failed)\b:?", re.IGNORECASE)
_ASKED = re.compile(r" \(asked: [^()]*\)$")
_OPEN = re.compile(r"^(?:to-?do|next steps?|open|remaining|pending)\b|\bto-?do lists?\b", re.IGNORECASE)
_ERRAND = re.compile(
    r"\b(?:remember|forget) to\b(?!.*\b(?:always|never|every|each)\b).*\b(?:today|tonight|tomorrow|later|soon|this|"
    r"next|monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b",
    re.IGNORECASE,
)
_MILESTONE = re.compile(
    r"\b(?:released|launched|shipped|went live|cut over|rolled out|founded|merged|signed|deployed|published|graduated|"
    r"married|born|died|hired|promoted|bought|sold|won)\b",
    re.IGNORECASE,
)
_DATED = re.compile(r"\(\d{4}[-\d/]*\)|\b\d{4}-\d\d-\d\d\b|\bv?\d+\.\d+(?:\.\d+)*\b")
_OF_STANDING = 0.8
_OF_MILESTONE = 0.7
_OF_CHANGE = 0.75
_OF_REPEATED = 0.7
_FOR_A_DAY = 0.05  # more for each further day on which it was said …
_MOST_FOR_DAYS = 0.1  # … up to this
_UNNAMED = frozenset({"", "User", "Assistant"})
_FEWEST_WORDS = 3  # content words below which a statement that was only repeated says too little
_ALIKE = 0.6  # share of their content words that two wordings of one wish have in common


class Entry(NamedTuple):
    """One entry of a daily file."""

    id: str  # "d7"
    origin: str
    day: str  # "2026-11-22"
    speaker: str  # "User", a name, or empty
    text: str  # without the speaker
    asked: str  # the question that it answers, as the entry tells it: " (asked: …)"

    @property
    def by_user(self) -> bool:
        """Whether the user said it."""
        return self.origin in {USER, HAND}

    def told(self, text: str) -> str:
        """Return a sentence of the entry as a memory: with who said it."""
        return neutral(f"{self.speaker}: {text}" if self.speaker else text)

    @property
    def said(self) -> Said:
        """The entry as one message of a talk."""
        return Said(self.id, self.speaker, self.by_user, self.text, tuple(sentences(self.text)))


class Offer(NamedTuple):
    """A text that could become a memory."""

    text: str
    cites: tuple[str, ...]
    type: MemoryType
    importance: float  # 0..1
    days: tuple[str, ...]  # on which it was said


_Sayings = list[tuple[Entry, str, "lasting.Cue | None"]]  # by whom, as a memory, and by which cue it lasts


def entries(material: Iterable[Quoted]) -> list[Entry]:
    """Return the entries that may say something lasting: none that were only reported."""
    found = []
    for quoted in material:
        if quoted.origin in {USER, HAND, ASSISTANT, AGENT} and not _REPORTED.match(quoted.text):
            body = " ".join(quoted.text.split())
            spoken = _SPOKEN.match(body)
            asked = _ASKED.search(body)
            text = body[spoken.end() if spoken else 0 : asked.start() if asked else len(body)]
            day = (quoted.at or "")[:10]
            found.append(
                Entry(quoted.id, quoted.origin, day, spoken[1] if spoken else "", text, asked[0] if asked else "")
            )
    return found


def is_open(text: str) -> bool:
    """Say whether `text` tells what somebody still has to do, which is of the day and not of the core."""
    return unfinished.is_left(text) or _OPEN.search(text) is not None or _ERRAND.search(text) is not None


def is_working(given: Sequence[Entry], *, reported: bool) -> bool:
    """Say whether an assistant works for the user: tools reported, or it says far more than the user."""
    own = [len(one.text) for one in given if one.by_user]
    return reported or lasting.lectures(own, [len(one.text) for one in given if one.origin == ASSISTANT])


def type_of(entry: Entry, text: str, *, working: bool) -> MemoryType:
    """Return of which type a text of the entry is; by wording alone, so a fact unless it shows another."""
    cue = _cue_of(entry, text, working=working)
    if cue:
        return cue.type
    is_event = _DATED.search(text) and cues.ACT.search(text.lower())
    return MemoryType.EVENT if is_event else MemoryType.FACT


def _cue_of(entry: Entry, text: str, *, working: bool) -> lasting.Cue | None:
    # People who talk among themselves have names; who talks with an assistant decides.
    return lasting.lasting(text, by_user=entry.by_user, working=working or entry.speaker in _UNNAMED)


def offers(given: Sequence[Entry], known: AbstractSet[Form], *, working: bool) -> list[Offer]:
    """Return what lasts of the entries, one offer for all that say the same, in the order it was first said.

    Args:
        given: in order of time.
        known: forms of what the core says already.
        working: an assistant works for the user.
    """
    found: dict[Form, _Sayings] = defaultdict(list)
    for entry in given:
        for sentence in [] if entry.asked else sentences(entry.text):
            text = entry.told(alone(sentence))
            key = form(text)
            if (
                key
                and known.isdisjoint((key, form(entry.told(sentence))))
                and len(text) <= LONGEST
                and not is_open(sentence)
                and not is_question(sentence)
            ):
                found[key].append((entry, text, _cue_of(entry, sentence, working=working)))
    again = _said_again(found)
    made = (_offer(said, again.get(key, ())) for key, said in found.items())
    return [offer for offer in made if offer]


def _offer(said: _Sayings, others: Sequence[_Sayings]) -> Offer | None:
    """Return what is offered of sayings of the same; `others` say it in other words."""
    entry, text, _ = next((one for one in said if one[0].by_user), said[0])
    days = tuple(sorted({one.day for some in (said, *others) for one, _, _ in some}))
    cites = tuple(dict.fromkeys(one.id for one, _, _ in said))
    more = min(_MOST_FOR_DAYS, _FOR_A_DAY * (len(days) - 1))
    cue = max((cue for _, _, cue in said if cue), key=lambda cue: cue.importance, default=None)
    if cue:
        return Offer(text, cites, cue.type, min(1.0, cue.importance + more), days)
    if entry.origin == HAND and cues.STANDING.search(text.lower()) and _says_enough(text):
        return Offer(text, cites, MemoryType.PREFERENCE, _OF_STANDING + more, days)
    if entry.by_user and any(claim.ends for claim in claims(text)):
        return Offer(text, cites, MemoryType.FACT, _OF_CHANGE + more, days)
    if entry.origin != AGENT and _is_milestone(text):
        return Offer(text, cites, MemoryType.EVENT, _OF_MILESTONE + more, days)
    is_latest = all(some[-1][0].day <= said[-1][0].day for some in others)
    if entry.by_user and len(days) > 1 and is_latest and _says_enough(text):
        kind = MemoryType.PREFERENCE if _is_standing(text) else MemoryType.FACT
        return Offer(text, cites, kind, _OF_REPEATED + more - _FOR_A_DAY, days)
    return None


def _said_again(found: dict[Form, _Sayings]) -> dict[Form, list[_Sayings]]:
    """Return, for the user's wishes, what says the same in other words, as far as shared words can tell.

    What two that are alike must share is one of the rarest words of either: the prefix filter of similarity joins
    (Chaudhuri, Ganti and Kaushik 2006).
    """
    wishes = {
        key: frozenset(words.content(said[0][1]))
        for key, said in found.items()
        if said[0][0].by_user and _is_standing(said[0][1])
    }
    holding: dict[str, list[Form]] = defaultdict(list)
    for key, keys in wishes.items():
        for word in keys:
            holding[word].append(key)
    again = {}
    for key, keys in wishes.items():
        rare = sorted(keys, key=lambda word: (len(holding[word]), word))[: int(len(keys) * (1 - _ALIKE)) + 1]
        near = dict.fromkeys(one for word in rare for one in holding[word] if one != key)
        again[key] = [found[one] for one in near if _is_alike(key, keys, one, wishes[one])]
    return again


def _is_alike(key: Form, keys: frozenset[str], other: Form, others: frozenset[str]) -> bool:
    if len(keys & others) < _ALIKE * len(keys | others) or any(
        char.isdigit() for word in keys ^ others for char in word
    ):
        return False
    return negations(" ".join(key)) == negations(" ".join(other))


def _is_standing(text: str) -> bool:
    return steering.instructs(text) or steering.prefers(text)


def _is_milestone(text: str) -> bool:
    return _MILESTONE.search(text) is not None and _DATED.search(text) is not None and _says_enough(text)


def _says_enough(text: str) -> bool:
    told = [key for key in words.content(text) if key not in words.CHATTER_KEYS]
    return len(told) >= _FEWEST_WORDS
