"""Facts: what the user says about themselves in an exchange becomes facts, and few sentences of the profile.

Only the user's own words make a fact, whatever its category: what the assistant or a tool said is shown for context and
can vouch for nothing about the user. A fact that is known changes nothing. One that is taken back or replaced goes only
where the user's words speak of it, and only if all that the reply offers in its place is kept.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from memoryd.jobs import evidence, facts_reply, signals
from memoryd.jobs.duplicates import Known
from memoryd.jobs.exchanges import Exchange, exchanges
from memoryd.jobs.job import (
    Ask,
    Done,
    Edit,
    EditFacts,
    LearnedFact,
    LearnedSection,
    MoveWatermark,
    NothingToDo,
    Quoted,
    Rejected,
    Reply,
    Step,
)
from memoryd.ledger import forgetting, taint
from memoryd.ledger.grounding import content
from memoryd.ledger.profile import LONGEST, PASSING, Entry, Section
from memoryd.ledger.taint import UNGROUNDED, UNKNOWN, Bench, Candidate, Place, Record
from memoryd.text.wording import fold, stem
from memoryd.transcripts.turn import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, tzinfo

    from memoryd.ledger.facts import Fact
    from memoryd.transcripts.turn import StoredTurn

CONSUMER = "facts"
MAX_STEPS = 2
MOST_KNOWN = 80  # facts shown to the model: those that share words with the exchange first, then the surest
LONGEST_FACT = 300  # characters
_HALF = 0.5  # of the content words of a fact that goes without a successor
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class FactsInputs:
    """A frozen snapshot of all that one extraction depends on."""

    agent_id: str
    session_id: str
    turns: tuple[StoredTurn, ...]  # past the watermark, whole
    known: tuple[Fact, ...]  # the live facts, the surest first
    profile: Mapping[Section, Entry]
    tombstones: Mapping[str, str]  # hash of each forgotten text (`hash_of`), and when it was forgotten
    core: tuple[str, ...]  # bullets of the core file: memoryd's own words, no evidence when they are seen again
    min_confidence: float
    drain: bool  # the session is over, or memoryd ends: an exchange that is not complete counts as well
    tz: tzinfo
    now: datetime  # aware
    instructions: str  # the text of facts.md


@dataclass(frozen=True, slots=True)
class _Gathered:
    """What is asked about."""

    exchanges: tuple[Exchange, ...]
    material: tuple[Quoted, ...]
    signals: Mapping[int, tuple[signals.Signal, ...]]  # by the seq of a user's turn
    watermark: MoveWatermark
    receipt: dict[str, object]


@dataclass(slots=True)
class _Kept:
    """What of a reply is kept, while it is gone through."""

    learned: list[LearnedFact] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    sections: list[LearnedSection] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


def begin(inputs: FactsInputs) -> Step:
    """Return the first step of an extraction."""
    if not inputs.turns:
        return NothingToDo("no turns past the watermark")
    found = exchanges(inputs.turns)
    ready = found if inputs.drain else [one for one in found if one.complete or one is not found[-1]]
    if not ready and found:
        return NothingToDo("no exchange is complete")
    last = ready[-1].last_seq if ready and not inputs.drain else inputs.turns[-1].seq
    gathered = _gathered(inputs, ready, last)
    if not any(quoted.origin == Origin.USER.value for quoted in gathered.material):
        why = "nothing was said that could be a fact"
        return NothingToDo(why, (gathered.watermark,), gathered.receipt)
    return Ask(CONSUMER, inputs.instructions, gathered.material, _context(inputs, gathered), state=gathered)


def resume(inputs: FactsInputs, step: Step, answer: Reply | None) -> Step:
    """Return the step after `step`, with the reply to its question.

    Raises ValueError for a step or an answer that this job never asked for.
    """
    if not isinstance(step, Ask) or answer is None or not isinstance(step.state, _Gathered):
        raise ValueError("not a step of facts")
    gathered = step.state
    parsed = facts_reply.parse(answer)
    if isinstance(parsed, Rejected):
        return parsed
    kept = _judged(inputs, gathered, parsed)
    made_up = any(why == UNKNOWN or why.endswith(UNGROUNDED) for why in kept.dropped)
    if made_up and not kept.learned and not kept.dropped["duplicate"] and not kept.sections:
        return Rejected("nothing in the reply stands in the turns it cites")
    receipt = {
        **gathered.receipt,
        "reply": {
            "backend": answer.backend,
            "model": answer.model,
            "tokens_in": answer.tokens_in,
            "tokens_out": answer.tokens_out,
        },
        "facts": dict(sorted(Counter(fact.category for fact in kept.learned).items())),
        "forgotten": len(kept.forgotten),
        "sections": [one.section for one in kept.sections],
        "dropped": dict(sorted((+kept.dropped).items())),
    }
    if not kept.learned and not kept.forgotten and not kept.sections:
        return NothingToDo("nothing new about the user", (gathered.watermark,), receipt)
    edit = EditFacts(inputs.session_id, tuple(kept.learned), tuple(kept.forgotten), tuple(kept.sections))
    edits: tuple[Edit, ...] = (edit, gathered.watermark)
    return Done(edits, receipt)


# Gathering


def _gathered(inputs: FactsInputs, ready: Sequence[Exchange], last: int) -> _Gathered:
    telling = [one for one in ready if not all(signals.says_nothing(turn.text) for turn in one.asked)]
    material: list[Quoted] = []
    hints = {}
    for exchange in telling:
        for turn in sorted((*exchange.asked, *exchange.answered), key=lambda one: one.seq):
            by_user = turn.origin is Origin.USER
            if by_user and signals.says_nothing(turn.text):
                continue
            text = signals.without_uploads(turn.text) if by_user else turn.text
            material.append(evidence.quote(turn._replace(text=text), inputs.tz))
            if by_user and (found := signals.signals(text)):
                hints[turn.seq] = found
    receipt: dict[str, object] = {
        "exchanges": len(ready),
        "asked_about": len(telling),
        "hints": dict(sorted(Counter(hint.value for found in hints.values() for hint in found).items())),
    }
    watermark = MoveWatermark(inputs.session_id, CONSUMER, last)
    return _Gathered(tuple(telling), tuple(material), hints, watermark, receipt)


def _context(inputs: FactsInputs, gathered: _Gathered) -> tuple[tuple[str, str], ...]:
    known = "\n".join(
        f"{fact.id} [{fact.category} | {fact.confidence:.2f}] {fact.content}" for fact in _related(inputs, gathered)
    )
    profile = "\n".join(f"{name.value}: {entry.text}" for name, entry in inputs.profile.items() if entry.text)
    hints = "\n".join(f"t{seq} {' '.join(found)}" for seq, found in gathered.signals.items())
    given = (("known facts", known), ("known profile", profile), ("hints", hints))
    return tuple((name, text) for name, text in given if text)


def _related(inputs: FactsInputs, gathered: _Gathered) -> list[Fact]:
    said = {stem(word) for quoted in gathered.material for word in content(quoted.text)}
    shared = {fact.id: len(said.intersection(map(stem, content(fact.content)))) for fact in inputs.known}
    return sorted(inputs.known, key=lambda fact: -shared[fact.id])[:MOST_KNOWN]


# Judging


def _judged(inputs: FactsInputs, gathered: _Gathered, parsed: facts_reply.Parsed) -> _Kept:
    bench = _bench(inputs, gathered)
    kept = _Kept()
    kept.dropped["unreadable"] = parsed.unreadable
    known = Known(fact.content for fact in inputs.known)
    pairs = [(fact_id, offered.cites) for offered in parsed.offered for fact_id in offered.replaces]
    removable = _removable(inputs, gathered, pairs, 0.0)
    for offered in parsed.offered:
        _learn(inputs, gathered, bench, offered, known, removable, kept)
    # What was refused may be what should have taken the place of a fact: then no fact goes without a successor.
    whole = len(parsed.offered) == len(kept.learned) + kept.dropped["duplicate"]
    replaced = {fact_id for fact in kept.learned for fact_id in fact.replaces}
    asked = list(dict.fromkeys(one.id for one in parsed.removals if one.id not in replaced))
    taken_back = _removable(inputs, gathered, [(one.id, one.cites) for one in parsed.removals], _HALF)
    kept.forgotten = [one for one in asked if whole and one in taken_back]
    kept.dropped["removal"] += len(asked) - len(kept.forgotten)
    kept.sections = [one for offered in parsed.sections if (one := _section(inputs, bench, offered, kept))]
    return kept


def _bench(inputs: FactsInputs, gathered: _Gathered) -> Bench:
    today = inputs.now.astimezone(inputs.tz).date()
    shown = []
    for quoted in gathered.material:
        at = evidence.moment(quoted.at)
        said_on = at.date() if at else today  # in local time already
        standing = taint.standing(Origin(quoted.origin))
        shown.append(Record(quoted.id, standing, quoted.text, said_on, quoted.role.capitalize()))
    own = (*inputs.core, *(fact.content for fact in inputs.known), *(one.text for one in inputs.profile.values()))
    return Bench(shown, evidence.outside(inputs.turns), frozenset(taint.digest(text) for text in own))


def _learn(
    inputs: FactsInputs,
    gathered: _Gathered,
    bench: Bench,
    offered: facts_reply.Offered,
    known: Known,
    removable: frozenset[str],
    kept: _Kept,
) -> None:
    verdict = bench.judge(Candidate(offered.content, tuple(f"t{seq}" for seq in offered.cites), of_user=True))
    text = verdict.text
    sources = tuple(int(one[1:]) for one in verdict.cites)
    forgotten_at = forgetting.forgotten_since(text, inputs.tombstones) if text else None
    anew = forgotten_at is not None and _is_after(gathered, sources, forgotten_at)
    if verdict.place is not Place.CORE:
        kept.dropped[verdict.why] += 1
    elif len(text) > LONGEST_FACT:
        kept.dropped["empty or too long"] += 1
    elif known.says(text):
        kept.dropped["duplicate"] += 1
    elif offered.confidence < inputs.min_confidence:
        kept.dropped["below min_confidence"] += 1
    elif forgotten_at is not None and not anew:
        kept.dropped["tombstone"] += 1
    else:
        known.add(text)
        category = _category(offered.category, [hint for seq in sources for hint in gathered.signals.get(seq, ())])
        replaces = tuple(one for one in offered.replaces if one in removable)
        kept.learned.append(LearnedFact(text, category, offered.confidence, sources, replaces, anew))


def _category(category: str, hints: Sequence[signals.Signal]) -> str:
    """Return the category; a correction needs words that correct."""
    return "context" if category == "correction" and signals.Signal.CORRECTION not in hints else category


def _is_after(gathered: _Gathered, sources: Iterable[int], forgotten_at: str) -> bool:
    """Say whether the user said it after it was forgotten: only then it may come back."""
    times = {int(quoted.id[1:]): evidence.moment(quoted.at) for quoted in gathered.material}
    end = evidence.moment(forgotten_at)
    return end is not None and any((at := times[seq]) is not None and at > end for seq in sources)


def _removable(
    inputs: FactsInputs, gathered: _Gathered, wanted: Iterable[tuple[str, tuple[int, ...]]], share: float
) -> frozenset[str]:
    """Return the ids of known facts that may go, of those wanted each with the turns cited for it.

    One may where a turn that the user typed corrects something and holds content words of the fact: at least one, and
    this share of them.
    """
    typed = {
        int(quoted.id[1:]): {stem(word) for word in content(quoted.text)}
        for quoted in gathered.material
        if quoted.origin == Origin.USER.value
    }
    known = {fact.id: {stem(word) for word in content(fact.content)} for fact in inputs.known}
    return frozenset(
        fact_id
        for fact_id, cites in wanted
        for seq in cites
        if fact_id in known
        and signals.Signal.CORRECTION in gathered.signals.get(seq, ())
        and len(known[fact_id] & typed.get(seq, set())) >= max(1, share * len(known[fact_id]))
    )


def _section(inputs: FactsInputs, bench: Bench, offered: facts_reply.Rewritten, kept: _Kept) -> LearnedSection | None:
    """Return a section with the new sentences that the user's words hold; None where it stays as it is.

    What it said stays, but for the sections on what passes, where a sentence the model leaves out may go.
    """
    before = (
        [one for one in _SENTENCE.split(inputs.profile[offered.section].text) if one]
        if (offered.section in inputs.profile)
        else []
    )
    said = {fold(one) for one in before} | {fold(fact.content) for fact in inputs.known}
    repeated: list[str] = []
    new: list[str] = []
    sources: set[int] = set()
    for sentence in _SENTENCE.split(offered.text):
        if fold(sentence) in said:
            repeated.append(fold(sentence))
            continue
        verdict = bench.judge(Candidate(sentence, tuple(f"t{seq}" for seq in offered.cites), of_user=True))
        if verdict.place is Place.CORE:
            new.append(verdict.text)
            sources.update(int(one[1:]) for one in verdict.cites)
        elif sentence.strip():
            kept.dropped[f"profile: {verdict.why}"] += 1
    if not new:
        return None
    passing = offered.section in PASSING
    texts = [*(one for one in before if not passing or fold(one) in repeated), *new]
    while len(texts) > 1 and len(" ".join(texts)) > LONGEST:
        texts.pop(0)
    return LearnedSection(offered.section.value, " ".join(texts)[:LONGEST], tuple(sorted(sources)))
