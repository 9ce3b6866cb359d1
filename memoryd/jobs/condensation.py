"""Decide whether a new text may replace the memories that it was made from, and which details would be lost.

The token floor and a second reader decide. Without a reader, only the exact text of one of the memories may replace
them. A detail is lost if the new text no longer says it: an exact token that the text lacks, a detail that its author
leaves out on purpose, or a detail that the reader names. A shorter text alone is no loss.
"""

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from memoryd.gauge.estimate import estimate
from memoryd.jobs import claims as reasons
from memoryd.jobs import reader
from memoryd.jobs.claims import LONGEST_CLAIM, REASONS, ClaimOutcome, ClaimStep, Cues, Judges
from memoryd.jobs.job import Ask, Reply
from memoryd.jobs.judging import class_question
from memoryd.jobs.pieces import CitableSentence
from memoryd.jobs.reader import POSITIVE, Question, ReaderAnswer, Subject
from memoryd.ledger.floor import HELD, Material, Token, TokenKind, list_missing
from memoryd.ledger.lane import Lane, MemoryClass
from memoryd.ledger.memory import Memory
from memoryd.ledger.text_removal import MARK
from memoryd.text import normal
from memoryd.text.content import list_stems, measure_overlap
from memoryd.text.portions import group_items

_ROOM = 800  # characters of a batch that are reserved for the evidence of its decoy


@dataclass(frozen=True, slots=True)
class Draft:
    """Hold a new text that is to replace memories.

    Attributes:
        text: the new text in its neutral form.
        parts: the memories that it replaces, each once.
        dropped: details of these memories that its author leaves out on purpose.
    """

    text: str
    parts: tuple[Memory, ...]
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CondensationResult:
    """Hold the verdict on a draft.

    Attributes:
        draft: the draft.
        why: the reason for a refusal, from the closed list; empty if the draft is accepted.
        step: the step that decided.
        token: the exact token that the draft adds or lacks, or the lost detail that it must keep.
        gone: the lost details of each memory, by its id.
        lost: the tokens that each memory loses, by its id; None if no reader has named the losses, so that the caller
            must measure them.
    """

    draft: Draft
    why: str = ""
    step: ClaimStep = ClaimStep.READER
    token: str = ""
    gone: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lost: Mapping[str, int] | None = None

    def row(self) -> dict[str, Any]:
        """Return the verdict as a row of the run report, for people who may see content."""
        return {
            "claim": self.draft.text,
            "cites": [part.id for part in self.draft.parts],
            "verdict": str(ClaimOutcome.REFUSED if self.why else ClaimOutcome.KEPT),
            "why": f"{self.why}: {self.token}" if self.token else self.why,
            "step": str(self.step),
            "repaired": False,
            "dropped": list(dict.fromkeys(one for details in self.gone.values() for one in details)),
        }


def read(
    drafts: Sequence[Draft], others: Iterable[Memory], judges: Judges, deleted: Sequence[Memory] = ()
) -> Generator[Ask, Reply | None, Mapping[str, ReaderAnswer | None]]:
    """Ask the second reader about drafts and deletions; return its answers by the key of their question.

    Args:
        drafts: the drafts.
        others: the memories of the core, from which a decoy gets its evidence.
        judges: holds the instructions of the reader and its known answers.
        deleted: the memories to delete; the reader is asked for their classes.
    """

    def ask_questions(answers: Mapping[str, ReaderAnswer | None]) -> list[Question]:
        classes = [class_question(one.content) for one in deleted]
        asked = [one for draft in drafts for one in list_questions(draft, answers)]
        return [*asked, *(one for one in classes if one.key not in answers)]

    used = {part.id for draft in drafts for part in draft.parts}
    free = [one for one in others if one.id not in used and len(one.content) < _ROOM // 2]
    spare = [_line(f"x{number}", one) for number, one in enumerate(free[: reader.MOST_SPARE], 1)]
    return (yield from reader.inquire(ask_questions, judges.known, spare, judges.verify)).answers


def list_questions(draft: Draft, answers: Mapping[str, ReaderAnswer | None]) -> list[Question]:
    """Return the open questions about a draft: first its support, then the classes of memories that lose something.

    Args:
        draft: the draft.
        answers: the reader's answers so far, by the key of the question.
    """
    if _is_same(draft) or _fault(draft) is not None:
        return []
    asked = [question for question, _ in _supports(draft)]
    if opened := [one for one in asked if one.key not in answers]:
        return opened
    found = [answers[one.key] for one in asked]
    if any(one is None or one.verdict not in POSITIVE for one in found):
        return []
    losing = _list_losing(draft, answers)
    classes = [class_question(part.content) for part in draft.parts if part.id in losing]
    return [one for one in classes if one.key not in answers]


def judge_draft(draft: Draft, answers: Mapping[str, ReaderAnswer | None], cues: Cues) -> CondensationResult:
    """Return the verdict on a draft: may it replace its memories, and which details would be lost?

    Args:
        draft: the text and the memories.
        answers: the answers of the second reader, by the key of the question.
        cues: decides about the class of a memory that the reader has not labelled.
    """
    if _is_same(draft):
        return CondensationResult(draft, step=ClaimStep.QUOTE, lost=dict.fromkeys((part.id for part in draft.parts), 0))
    if (fault := _fault(draft)) is not None:
        return fault
    found = [answers.get(question.key) for question, _ in _supports(draft)]
    bad = next((one.verdict for one in found if one is not None and one.verdict not in POSITIVE), None)
    if bad is not None:
        return CondensationResult(draft, REASONS[bad])
    if None in found:
        is_one = normal.normalize(draft.text) in _forms(draft)
        is_one &= all(measure_overlap(part.content, draft.text) >= HELD for part in draft.parts)
        why, step = ("", ClaimStep.QUOTE) if is_one else (reasons.NOT_READ, ClaimStep.READER)
        return CondensationResult(draft, why, step)
    named = _list_named(draft, answers)
    losing = _list_losing(draft, answers)
    # A rewording of one memory keeps everything it says about a person; a merge of several may keep only the pattern.
    whole = frozenset({MemoryClass.RULE, *([MemoryClass.PERSON] if len(draft.parts) < 2 else [])})
    for part in draft.parts:
        if part.id in losing and _class_of(part, answers, cues) in whole:
            detail = next(iter(named.get(part.id, ())), "") or _list_lacking(part, draft)[0].text
            return CondensationResult(draft, reasons.LOSES, token=detail, gone=named)
    gone = {part.id: _list_gone(part, draft, named.get(part.id, ())) for part in draft.parts}
    lost = {part.id: min(estimate(part.content), sum(map(estimate, gone[part.id]))) for part in draft.parts}
    return CondensationResult(draft, gone=gone, lost=lost)


def is_rule(memory: Memory, answers: Mapping[str, ReaderAnswer | None], cues: Cues) -> bool:
    """Return True if a memory is a rule, a preference or a promise; in case of doubt, too.

    The reader's label decides. Without a reader, the wording and the heading decide.
    """
    # The reader may have been asked about another wording of it, or have given no valid answer.
    is_unlabelled = any(answers.values()) and answers.get(class_question(memory.content).key) is None
    return is_unlabelled or _class_of(memory, answers, cues) is MemoryClass.RULE


# ── checks without a reader ──────────────────────────────────────────────────────────────────────────────────────


def _forms(draft: Draft) -> set[str]:
    return {normal.normalize(part.content) for part in draft.parts}


def _is_same(draft: Draft) -> bool:
    """Return True if all memories already have this text in its normal form."""
    return _forms(draft) == {normal.normalize(draft.text)}


def _fault(draft: Draft) -> CondensationResult | None:
    """Return the refusal of a draft that needs no reader; None if there is none.

    A draft is refused if it is no memory, adds an exact token, or replaces a single memory and lacks a token of it.
    """
    text = draft.text
    if normal.normalize(text) in _forms(draft):
        return None
    if not any(map(str.isalnum, text)) or len(text) > LONGEST_CLAIM or MARK in text:
        return CondensationResult(draft, reasons.EMPTY, ClaimStep.FLOOR)
    if added := list_missing(text, [Material(part.content, _day(part)) for part in draft.parts]):
        return CondensationResult(draft, reasons.MISSING, ClaimStep.FLOOR, added[0].text)
    if len(draft.parts) < 2:
        # A draft may leave out the day of an episode. The day then counts as lost.
        lacking = [one for one in _list_lacking(draft.parts[0], draft) if one.kind is not TokenKind.DATE]
        if lacking:
            return CondensationResult(draft, reasons.LOSES, ClaimStep.FLOOR, lacking[0].text)
    return None


def _list_lacking(part: Memory, draft: Draft) -> list[Token]:
    """Return the exact tokens of a memory that the text lacks."""
    return list_missing(part.content, [Material(draft.text, _day(part))])


def _day(memory: Memory) -> date:
    return date.fromisoformat((memory.origin_at or memory.created_at)[:10])


# ── the reader ───────────────────────────────────────────────────────────────────────────────────────────────────


def _supports(draft: Draft) -> list[tuple[Question, tuple[Memory, ...]]]:
    """Return the questions whether the text is a fair summary, each with as many of the memories as fit in it."""
    most = reader.MOST_CHARACTERS - _ROOM - 2 * len(draft.text)
    sizes = [
        len(json.dumps(part.content, ensure_ascii=False)) + len(json.dumps(_line("m99", part).at)) + 70
        for part in draft.parts
    ]
    return [(_support(draft.text, group), tuple(group)) for group in group_items(draft.parts, sizes, most)]


def _support(text: str, parts: Sequence[Memory]) -> Question:
    evidence = tuple(_line(f"m{number}", part) for number, part in enumerate(parts, 1))
    return Question(Subject.SUPPORT, text, evidence, tuple(part.content for part in parts))


def _line(name: str, memory: Memory) -> CitableSentence:
    return CitableSentence(name, memory.content, Lane.USER, "memory", (memory.origin_at or "")[:10])


def _list_named(draft: Draft, answers: Mapping[str, ReaderAnswer | None]) -> dict[str, tuple[str, ...]]:
    """Return the details that the author leaves out or the reader names as lost, by the id of the likeliest memory."""
    found: dict[str, list[str]] = {}

    def add(details: Iterable[str], parts: Sequence[Memory]) -> None:
        for detail in details:
            held = found.setdefault(max(parts, key=lambda one: measure_overlap(detail, one.content)).id, [])
            said = list_stems(detail)
            if not any(
                said <= list_stems(one) if said else normal.normalize(detail) == normal.normalize(one) for one in held
            ):
                # The author and the reader often name the same loss, one of them in more words. The longer wording
                # stays.
                held[:] = [one for one in held if not said or not list_stems(one) <= said]
                held.append(detail)

    add(draft.dropped, draft.parts)
    for question, parts in _supports(draft):
        answer = answers.get(question.key)
        add(answer.lost if answer is not None else (), parts)
    return {name: tuple(details) for name, details in found.items()}


def _list_losing(draft: Draft, answers: Mapping[str, ReaderAnswer | None]) -> frozenset[str]:
    """Return the ids of the memories that lose more than exact tokens, such as the day of an episode.

    For a single memory every loss counts. A detail that the reader names is lost even if its words occur elsewhere in
    the text. A detail that only the author lists is lost if the text lacks its words.
    """
    named = _list_named(draft, answers)
    if len(draft.parts) < 2:
        (part,) = draft.parts
        return frozenset({part.id} if part.id in named or _list_lacking(part, draft) else ())
    read = {normal.normalize(one) for answer in answers.values() if answer is not None for one in answer.lost}
    found = set()
    for part in draft.parts:
        for detail in named.get(part.id, ()):
            said = "" if normal.normalize(detail) in read else draft.text
            if (list_stems(_without_tokens(detail, part, draft)) - list_stems(said)) & list_stems(part.content):
                found.add(part.id)
    return frozenset(found)


def _without_tokens(detail: str, part: Memory, draft: Draft) -> str:
    for token in _list_lacking(part, draft):
        detail = detail.replace(token.text, " ")
    return detail


def _class_of(part: Memory, answers: Mapping[str, ReaderAnswer | None], cues: Cues) -> MemoryClass:
    answer = answers.get(class_question(part.content).key)
    return cues.kind(part.content, part.heading or "") if answer is None else answer.kind


def _list_gone(part: Memory, draft: Draft, named: tuple[str, ...]) -> tuple[str, ...]:
    """Return the losses of a memory: the named details, and the exact tokens that no named detail contains."""
    said = " ".join(named).casefold()
    return (*named, *(token.text for token in _list_lacking(part, draft) if token.text.casefold() not in said))
