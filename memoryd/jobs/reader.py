"""Ask the second reader about claims and their evidence, in small batches with a decoy, and read its answers.

The reader sees only claims and cited sentences (CONTRACT §7), so nothing in the author's prompt can mislead it. The
decoy is a claim with the evidence of another one. If the reader supports it, the batch counts as not read. The answers
can only refuse a claim or accept it: the reader writes no text, and raises no lane.
"""

import hashlib
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import groupby
from typing import Any

from memoryd.jobs.job import Ask, Reply
from memoryd.jobs.pieces import CitableSentence
from memoryd.ledger.lane import Lane, MemoryClass
from memoryd.text.content import measure_overlap
from memoryd.text.json_values import find_values

JOB = "verify"
UNREAD = "unread"  # the backend of a reply when there is no reader
BATCHES = 5  # version of the way batches are built: a reader is tested again when it changes
MOST_CLAIMS = 8  # of one batch, with its decoy
MOST_SPARE = 40  # lines from which the decoy of a batch may get its evidence
MOST_CHARACTERS = 6_000  # of the questions of one batch
# Replaces the words of the claim in the evidence of its class or scope, so that they are paid once; never for truth.
SAME = "(the claim)"
_SHORT = 40  # characters of a quotation that are shown again: "b" is in many a claim
# A subject that no claim has: evidence of a decoy if the material has nothing else.
_ELSEWHERE = CitableSentence("x1", "The ferry to Hvar leaves at a quarter past six.", Lane.USER, "memory")
FIT = 0.9  # share of the calibration set, of true and of false claims, that a fit reader judges correctly


class Subject(StrEnum):
    """Name the subject of a question about a claim."""

    SUPPORT = "support"
    SCOPE = "scope"
    CLASS = "class"


SUPPORTED, NEWER = "supported", "newer-value"
STANDING = "standing"
POSITIVE = frozenset({SUPPORTED, NEWER})
_VERDICTS = {
    Subject.SUPPORT: POSITIVE | {"reversed", "other-subject", "condition-dropped", "not-said", "only-planned"},
    Subject.SCOPE: frozenset({STANDING, "task", "question", "quoted", "withdrawn", "unclear"}),
    Subject.CLASS: frozenset({"rule", "person", "project", "lesson", "unclear"}),
}


@dataclass(frozen=True)  # without slots, so that the key is kept
class Question:
    """Hold one question about a claim."""

    subject: Subject
    claim: str
    evidence: tuple[CitableSentence, ...]
    replaces: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """Return a hash of the question that does not depend on the numbering of its evidence."""
        shown = [[line.speaker, line.text, *self._show_time(line).values()] for line in self.evidence]
        told = json.dumps([self.subject, self.claim, self.replaces, shown])
        return hashlib.sha256(told.encode()).hexdigest()

    def list_cited(self) -> tuple[CitableSentence, ...]:
        """Return the evidence without the sentences that are only the context of a quotation."""
        own = tuple(line for line in self.evidence if line.text in self.claim)
        return own if own and self.subject is Subject.SCOPE else self.evidence

    def describe(self, name: str) -> dict[str, Any]:
        """Return it in the form that the reader gets."""
        # What is said on one day is in the order in which it was said, which is all that a scope depends on.
        is_dated = self.subject is not Subject.SCOPE or len({line.at[:10] for line in self.evidence}) > 1
        return {
            "id": name,
            "ask": str(self.subject),
            "claim": self.claim,
            **({"replaces": list(self.replaces)} if self.replaces else {}),
            "evidence": [
                {
                    "id": line.id,
                    "speaker": line.speaker,
                    **(self._show_time(line) if is_dated else {}),
                    "text": line.text,
                }
                for line in self._show_evidence()
            ],
        }

    def _show_evidence(self) -> Sequence[CitableSentence]:
        """Return the evidence as it is shown: truth is judged by each sentence, the rest of a claim by its context."""
        if self.subject is Subject.SUPPORT:
            return self.evidence
        if self.subject is Subject.CLASS:
            return [replace(line, text=SAME) for line in self.evidence]
        return _join_sentences(self.evidence, self.claim)

    def _show_time(self, line: CitableSentence) -> dict[str, str]:
        """Return when a sentence was said, if that may decide which one is newer, or which day "Monday" is."""
        is_dated = self.replaces or any(map(str.isdigit, self.claim))
        return {"at": line.at[:10]} if line.at and is_dated else {}


def _join_sentences(lines: Sequence[CitableSentence], claim: str) -> list[CitableSentence]:
    """Return the context of a quotation, each turn in one text and in its own order; `SAME` stands for the quotation.

    For an entry of a daily file these are the original sentences, which may come from anywhere.
    """
    joined = []
    shown: set[str] = set()  # a later turn that repeats a sentence of the quotation may take it back
    for _, held in groupby(lines, lambda line: line.id.partition(".")[0] if line.id.startswith("t") else line.id):
        turn = sorted(held, key=_sentence_number)
        own = [line.text for line in turn if line.speaker == "user" and line.text in claim and line.text not in shown]
        is_long = len(" ".join(own)) > _SHORT
        texts = (SAME if is_long and line.text in own else line.text.replace(SAME, "the claim") for line in turn)
        joined.append(replace(turn[0], text=" ".join(text for text, _ in groupby(texts))))
        shown.update(own)
    return joined


def _sentence_number(line: CitableSentence) -> int:
    """Return the place of a sentence in its turn; 0 for the sentence of an entry, which has no such place."""
    number = line.id.partition(".")[2]
    return int(number) if number.isdecimal() else 0


@dataclass(frozen=True, slots=True)
class ReaderAnswer:
    """Hold the reader's answer to one question; `lost` are facts of the replaced text that the claim lacks."""

    verdict: str
    lost: tuple[str, ...] = ()

    @property
    def kind(self) -> MemoryClass:
        """Return the class that the answer gives to a memory; in doubt it is a rule."""
        return MemoryClass(self.verdict) if self.verdict in set(MemoryClass) else MemoryClass.RULE


@dataclass(frozen=True, slots=True)
class QuestionBatch:
    """Hold questions that are asked together; one of them, `decoy`, has a claim with the evidence of another."""

    questions: tuple[tuple[str, Question], ...]
    decoy: str = ""

    def ask(self, instructions: str) -> Ask:
        """Return the question to the model."""
        items = ",\n".join(_compact(one.describe(name)) for name, one in self.questions)
        items = items.replace("```", "\\u0060\\u0060\\u0060")  # no text closes the fence
        # A paragraph about a subject that no question has is left out.
        asked = {str(one.subject) for _, one in self.questions}
        asked |= {"replaces" for _, one in self.questions if one.replaces}
        absent = {*map(str, Subject), "replaces"} - asked
        parts = [one for one in instructions.split("\n\n") if one.partition(":")[0] not in absent]
        return Ask(JOB, "\n\n".join(parts), (), text=f"```json\n[{items}]\n```", about=self)


@dataclass(frozen=True, slots=True)
class BatchReading:
    """Hold the result of a batch: answers by the key of their question, and the questions without a valid answer."""

    answers: dict[str, ReaderAnswer] = field(default_factory=dict)
    missing: tuple[Question, ...] = ()
    fooled: bool = False  # it supported the decoy


def make_batches(questions: Iterable[Question], others: Sequence[CitableSentence] = ()) -> Iterator[QuestionBatch]:
    """Yield the questions in batches, each with a decoy; leave out a question that is too long for any batch.

    Args:
        questions: each once.
        others: lines of the material, from which a decoy gets its evidence where a batch has nothing else.
    """
    held: list[Question] = []
    for one in dict.fromkeys(questions):
        if held and not _fits(_with_decoy([*held, one], others)):
            yield _with_decoy(held, others)
            held = []
        if held or _fits(_with_decoy([one], others)):
            held.append(one)
    if held:
        yield _with_decoy(held, others)


def _fits(batch: QuestionBatch) -> bool:
    return len(batch.questions) <= MOST_CLAIMS and len(batch.ask("").text) <= MOST_CHARACTERS


def _with_decoy(questions: Sequence[Question], others: Sequence[CitableSentence]) -> QuestionBatch:
    """Return a batch with the decoy added, at a place that depends on its text."""
    decoy = _decoy(questions, others)
    at = int(decoy.key, 16) % (len(questions) + 1)
    order = [*questions[:at], decoy, *questions[at:]]
    return QuestionBatch(tuple((f"c{number}", one) for number, one in enumerate(order, 1)), f"c{at + 1}")


def _decoy(questions: Sequence[Question], others: Sequence[CitableSentence]) -> Question:
    """Return the claim and the evidence of two questions with the least in common, the shortest of these."""
    pairs = [
        (
            measure_overlap(one.claim, _join_lines(other.list_cited()))
            + measure_overlap(_join_lines(other.list_cited()), one.claim),
            one,
            other.list_cited(),
        )
        for one in questions
        for other in questions
        if one.claim != other.claim  # a claim may be true to several pieces of evidence
        and not {line.text for line in one.evidence} & {line.text for line in other.evidence}
    ]
    pairs += [
        (1 + measure_overlap(one.claim, line.text), one, (line,))
        for one in questions[:1]
        for line in others
        if line.text not in {held.text for held in one.evidence}
    ]
    pairs = pairs or [(0, questions[0], (_ELSEWHERE,))]
    least = min(shared for shared, _, _ in pairs)
    made = (Question(Subject.SUPPORT, one.claim, evidence) for shared, one, evidence in pairs if shared == least)
    return min(made, key=lambda one: len(_compact(one.describe(""))))


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _join_lines(lines: Iterable[CitableSentence]) -> str:
    return "\n".join(line.text for line in lines)


def read(batch: QuestionBatch, reply: Reply) -> BatchReading:
    """Return the answers in a reply to a batch; never raises. If the decoy is supported, no answer counts."""
    if reply.finish_reason != "stop":
        return BatchReading(missing=tuple(one for name, one in batch.questions if name != batch.decoy))
    given: dict[str, ReaderAnswer] = {}
    asked = dict(batch.questions)
    refused: set[str] = set()
    for value in _objects(reply.text):
        name = value.get("id")
        if not isinstance(name, str) or name not in asked:
            continue
        answer = _answer(value, asked[name])
        if answer is None or given.get(name, answer) != answer:
            refused.add(name)  # a reader that contradicts itself gives no answer
        else:
            given[name] = answer
    valid = {name: one for name, one in given.items() if name not in refused}
    if batch.decoy and (batch.decoy not in valid or valid[batch.decoy].verdict in POSITIVE):
        return BatchReading(fooled=batch.decoy in valid, missing=() if batch.decoy in valid else _list_questions(batch))
    answers = {asked[name].key: one for name, one in valid.items() if name != batch.decoy}
    return BatchReading(answers, tuple(one for one in _list_questions(batch) if one.key not in answers))


def _list_questions(batch: QuestionBatch) -> tuple[Question, ...]:
    return tuple(one for name, one in batch.questions if name != batch.decoy)


def _answer(value: dict[str, Any], question: Question) -> ReaderAnswer | None:
    verdict, by, lost = value.get("verdict"), value.get("by", []), value.get("lost", [])
    if not isinstance(verdict, str) or verdict not in _VERDICTS[question.subject]:
        return None
    shown = {line.id for line in question.evidence}
    by = [by] if isinstance(by, str) else by
    if not isinstance(by, list) or any(one not in shown for one in by if isinstance(one, str)):
        return None
    lost = [lost] if isinstance(lost, str) else lost or []
    if not isinstance(lost, list) or not all(isinstance(one, str) for one in lost):
        return None
    return ReaderAnswer(verdict, tuple(one for one in lost if one.strip()))


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a reply, of arrays and of lists inside an object too."""
    for value, _, _ in find_values(text, "{"):
        yield value
        inner = (one for held in value.values() if isinstance(held, list) for one in held)
        yield from (one for one in inner if isinstance(one, dict) and "verdict" not in value)


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Hold the reader's answers.

    Attributes:
        answers: by the key of the question; None without a valid answer after two tries.
        unread: there is no fit reader.
    """

    answers: Mapping[str, ReaderAnswer | None] = field(default_factory=dict)
    unread: bool = False


def inquire(
    questions: Callable[[Mapping[str, ReaderAnswer | None]], Iterable[Question]],
    known: Callable[[str], ReaderAnswer | None],
    spare: Sequence[CitableSentence],
    instructions: str,
    before: Mapping[str, ReaderAnswer | None] | None = None,
) -> Generator[Ask, Reply | None, Inquiry]:
    """Ask a reader in batches until nothing is open; missing answers are asked for once more.

    Args:
        questions: returns the questions that are known from the answers so far.
        known: returns the reader's answer of an earlier run to a question by its key.
        spare: lines of the material, from which a decoy may get its evidence.
        instructions: of the reader.
        before: earlier answers.
    """
    answers = dict(before or {})
    missed: set[str] = set()
    while opened := {one.key: one for one in questions(answers) if one.key not in answers}:
        found = {key: answer for key in opened if (answer := known(key)) is not None}
        # A batch of one subject needs only the paragraph on that.
        order = sorted(opened.values(), key=lambda one: [*Subject].index(one.subject))
        waiting = [] if found else list(make_batches(order, spare))
        # If there is neither, each question is too long for a batch.
        answers |= found if found or waiting else dict.fromkeys(opened)
        while waiting:
            batch = waiting.pop(0)
            reply = yield batch.ask(instructions)
            if reply is None or reply.backend == UNREAD:
                return Inquiry(answers, unread=True)
            said = read(batch, reply)
            again = {one.key: one for one in said.missing if one.key not in missed}
            missed |= again.keys()
            answers |= dict.fromkeys(one.key for one in _list_questions(batch) if one.key not in again)
            answers |= said.answers
            waiting += make_batches(again.values(), spare)
    return Inquiry(answers)


# ── calibration ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Fitness:
    """Hold a reader's result on the calibration set: correct and asked claims, true and false ones apart."""

    true_right: int
    true_asked: int
    false_right: int
    false_asked: int

    @property
    def is_fit(self) -> bool:
        """Return True if it is fit to read."""
        pairs = ((self.true_right, self.true_asked), (self.false_right, self.false_asked))
        return all(asked and right >= FIT * asked for right, asked in pairs)


def calibration_batches(items: Sequence[dict[str, Any]]) -> list[tuple[QuestionBatch, dict[str, bool]]]:
    """Return the calibration set in batches, each with the truth of the claims by id.

    The set holds enough false claims, so its batches need no decoy.
    """
    found: list[tuple[QuestionBatch, dict[str, bool]]] = []
    held: list[tuple[str, Question]] = []
    truth: dict[str, bool] = {}
    size = 0
    for item in items:
        evidence = tuple(
            CitableSentence(one["id"], one["text"], Lane.NONE, one["speaker"], one.get("at", ""))
            for one in item["evidence"]
        )
        question = Question(Subject(item["ask"]), item["claim"], evidence, tuple(item.get("replaces", ())))
        length = len(_compact(question.describe(item["id"])))
        if held and (len(held) == MOST_CLAIMS or size + length > MOST_CHARACTERS):
            found.append((QuestionBatch(tuple(held)), truth))
            held, truth, size = [], {}, 0
        held.append((item["id"], question))
        truth[item["id"]] = item["verdict"] in POSITIVE
        size += length
    return [*found, (QuestionBatch(tuple(held)), truth)] if held else found


def measure_fitness(replies: Iterable[tuple[QuestionBatch, dict[str, bool], Reply]]) -> Fitness:
    """Return a reader's result; a question without a valid answer counts as answered wrong."""
    counts = {(truth, right): 0 for truth in (True, False) for right in (True, False)}
    for batch, truth, reply in replies:
        answers = read(batch, reply).answers
        for name, question in batch.questions:
            answer = answers.get(question.key)
            is_right = answer is not None and (answer.verdict in POSITIVE) is truth[name]
            counts[truth[name], is_right] += 1
    true, false = counts[True, True], counts[False, True]
    return Fitness(true, true + counts[True, False], false, false + counts[False, False])
