"""Ask the second reader about claims and their evidence, in small batches with a decoy, and read its answers.

The reader sees only claims and cited sentences (CONTRACT §7), so nothing in the author's prompt can mislead it. The
decoy is a claim with the evidence of another claim. If the reader supports the decoy, the batch counts as not read. The
answers can only refuse a claim or accept it: the reader writes no text and raises no lane.
"""

import hashlib
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import groupby, permutations
from typing import Any

from memoryd.jobs.job import Ask, Reply
from memoryd.jobs.pieces import CitableSentence
from memoryd.ledger.lane import Lane, MemoryClass
from memoryd.text.content import measure_overlap
from memoryd.text.json_values import find_values

JOB = "verify"
UNREAD = "unread"  # the backend of a reply when there is no reader
BATCHES = 5  # the version of the way in which batches are built; a reader is tested again when it changes
MOST_CLAIMS = 8  # the most questions of one batch, including its decoy
MOST_SPARE = 40  # lines from which the decoy of a batch may get its evidence
MOST_CHARACTERS = 6_000  # the most characters of the questions of one batch
# Replaces the claim's own words in the evidence of a question about class or scope, so that they are paid for only
# once. A question about truth shows them.
SAME = "(the claim)"
_SHORT = 40  # a quotation of up to this many characters is shown again, because a short one ("b") is in many a claim
# The evidence of a decoy if the material has nothing else; no claim has this subject.
_ELSEWHERE = CitableSentence("x1", "The ferry to Hvar leaves at a quarter past six.", Lane.USER, "memory")
FIT = 0.9  # a fit reader judges this share of the true claims and of the false claims of the calibration set correctly


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


@dataclass(frozen=True)  # without slots, so that `key` can be cached
class Question:
    """Hold one question about a claim."""

    subject: Subject
    claim: str
    evidence: tuple[CitableSentence, ...]
    replaces: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """Return a hash that identifies the question; the numbering of its evidence does not change it."""
        shown = [[line.speaker, line.text, *self._show_time(line).values()] for line in self.evidence]
        told = json.dumps([self.subject, self.claim, self.replaces, shown])
        return hashlib.sha256(told.encode()).hexdigest()

    def list_cited(self) -> tuple[CitableSentence, ...]:
        """Return the evidence without the sentences that are only context of a quotation."""
        own = tuple(line for line in self.evidence if line.text in self.claim)
        return own if own and self.subject is Subject.SCOPE else self.evidence

    def describe(self, name: str) -> dict[str, Any]:
        """Return the question as the JSON object that the reader gets, with `name` as its id."""
        # Sentences of one day are in their order, and a question about scope depends only on the order.
        is_dated = self.subject is not Subject.SCOPE or len({line.at[:10] for line in self.evidence}) > 1
        ids = {line.text: line.id for line in self.evidence}  # a text that is shown as evidence is not shown again
        return {
            "id": name,
            "ask": str(self.subject),
            "claim": self.claim,
            **({"replaces": [ids.get(one, one) for one in self.replaces]} if self.replaces else {}),
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
        """Return the evidence in its shown form.

        Truth is judged by each sentence, so all are shown. For a class, only their speakers matter. A scope is judged
        by the turns around the quotation.
        """
        if self.subject is Subject.SUPPORT:
            return self.evidence
        if self.subject is Subject.CLASS:
            return [replace(line, text=SAME) for line in self.evidence]
        return _join_sentences(self.evidence, self.claim)

    def _show_time(self, line: CitableSentence) -> dict[str, str]:
        """Return the day of a sentence if it may decide which sentence is newer, or which day "Monday" is."""
        return {"at": line.at[:10]} if line.at and self._is_dated else {}

    @cached_property
    def _is_dated(self) -> bool:
        return bool(self.replaces) or any(map(str.isdigit, self.claim))


def _join_sentences(lines: Sequence[CitableSentence], claim: str) -> list[CitableSentence]:
    """Return the context of a quotation: each turn as one text, in its own order, with `SAME` for the quotation.

    For an entry of a daily file, the context is its original sentences, which may come from several turns.
    """
    joined = []
    shown: set[str] = set()  # shown again if a later turn repeats it, which may retract it
    for _, held in groupby(lines, lambda line: line.id.partition(".")[0] if line.id.startswith("t") else line.id):
        turn = sorted(held, key=_sentence_number)
        own = [line.text for line in turn if line.speaker == "user" and line.text in claim and line.text not in shown]
        is_long = len(" ".join(own)) > _SHORT
        texts = (SAME if is_long and line.text in own else line.text.replace(SAME, "the claim") for line in turn)
        joined.append(replace(turn[0], text=" ".join(text for text, _ in groupby(texts))))
        shown.update(own)
    return joined


def _sentence_number(line: CitableSentence) -> int:
    """Return the position of a sentence in its turn; 0 for the sentence of an entry, which has none."""
    number = line.id.partition(".")[2]
    return int(number) if number.isdecimal() else 0


@dataclass(frozen=True, slots=True)
class ReaderAnswer:
    """Hold the reader's answer to one question; `lost` names details of the replaced text that the claim lacks."""

    verdict: str
    lost: tuple[str, ...] = ()

    @property
    def kind(self) -> MemoryClass:
        """Return the class that the answer gives to a memory; the class of rules in case of doubt."""
        return MemoryClass(self.verdict) if self.verdict in set(MemoryClass) else MemoryClass.RULE


@dataclass(frozen=True, slots=True)
class QuestionBatch:
    """Hold questions that are asked together; `decoy` is the id of one that has another claim's evidence."""

    questions: tuple[tuple[str, Question], ...]
    decoy: str = ""

    def ask(self, instructions: str) -> Ask:
        """Return the batch as a question to the model."""
        items = ",\n".join(_compact(one.describe(name)) for name, one in self.questions)
        items = items.replace("```", "\\u0060\\u0060\\u0060")  # so that no text closes the fence
        # Paragraphs of the instructions about subjects that no question has are left out, to save tokens.
        asked = {str(one.subject) for _, one in self.questions}
        asked |= {"replaces" for _, one in self.questions if one.replaces}
        absent = {*map(str, Subject), "replaces"} - asked
        parts = [one for one in instructions.split("\n\n") if one.partition(":")[0] not in absent]
        return Ask(JOB, "\n\n".join(parts), (), text=f"```json\n[{items}]\n```", about=self)


@dataclass(frozen=True, slots=True)
class BatchReading:
    """Hold the answers to a batch by the key of the question, and the questions without a valid answer."""

    answers: dict[str, ReaderAnswer] = field(default_factory=dict)
    missing: tuple[Question, ...] = ()
    fooled: bool = False  # the reader supported the decoy


def make_batches(questions: Iterable[Question], others: Sequence[CitableSentence] = ()) -> Iterator[QuestionBatch]:
    """Yield the questions in batches, each with a decoy; leave out a question that is too long for any batch.

    Args:
        questions: the questions; a repeated one is asked once.
        others: lines of the material, from which a decoy gets its evidence if the batch has nothing suitable.
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
    """Return a batch with the decoy added; its position depends on its text, so that the reader cannot guess it."""
    decoy = _decoy(questions, others)
    at = int(decoy.key, 16) % (len(questions) + 1)
    order = [*questions[:at], decoy, *questions[at:]]
    return QuestionBatch(tuple((f"c{number}", one) for number, one in enumerate(order, 1)), f"c{at + 1}")


def _decoy(questions: Sequence[Question], others: Sequence[CitableSentence]) -> Question:
    """Return a question that joins a claim with the evidence of another question, with the least words in common.

    Of equally good pairs, the shortest is taken.
    """
    pairs: list[tuple[float, Question, tuple[CitableSentence, ...]]] = []
    for one, other in permutations(questions, 2):
        # A claim may be true to the evidence of its own other questions.
        if one.claim != other.claim and not _texts(one) & _texts(other):
            said = _join_lines(other.list_cited())
            shared = measure_overlap(one.claim, said) + measure_overlap(said, one.claim)
            pairs.append((shared, one, other.list_cited()))
    first, shown = questions[0], _texts(questions[0])
    pairs += [
        (1 + measure_overlap(first.claim, line.text), first, (line,)) for line in others if line.text not in shown
    ]
    pairs = pairs or [(0, first, (_ELSEWHERE,))]
    least = min(shared for shared, _, _ in pairs)
    made = (Question(Subject.SUPPORT, one.claim, evidence) for shared, one, evidence in pairs if shared == least)
    return min(made, key=lambda one: len(_compact(one.describe(""))))


def _texts(question: Question) -> set[str]:
    return {line.text for line in question.evidence}


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _join_lines(lines: Iterable[CitableSentence]) -> str:
    return "\n".join(line.text for line in lines)


def read(batch: QuestionBatch, reply: Reply) -> BatchReading:
    """Return the answers of a reply to a batch; never raises. If the reader supported the decoy, no answer counts."""
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
    """Yield the JSON objects of a reply, also those in arrays and in lists inside an object."""
    for value, _, _ in find_values(text, "{"):
        yield value
        inner = (one for held in value.values() if isinstance(held, list) for one in held)
        yield from (one for one in inner if isinstance(one, dict) and "verdict" not in value)


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Hold the reader's answers.

    Attributes:
        answers: the answers by the key of the question; None if there is no valid answer after two tries.
        unread: True if there is no fit reader.
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
    """Ask a reader in batches until no question is open; ask once more for a missing answer.

    Args:
        questions: returns the questions that the answers so far lead to.
        known: returns the answer that the reader gave in an earlier run, by the key of the question.
        spare: lines of the material, from which a decoy may get its evidence.
        instructions: the instructions of the reader.
        before: earlier answers.
    """
    answers = dict(before or {})
    missed: set[str] = set()
    while opened := {one.key: one for one in questions(answers) if one.key not in answers}:
        found = {key: answer for key in opened if (answer := known(key)) is not None}
        # Questions are sorted by subject, because a batch of one subject needs only the instructions about it.
        order = sorted(opened.values(), key=lambda one: [*Subject].index(one.subject))
        waiting = [] if found else list(make_batches(order, spare))
        # Without known answers and without batches, each question is too long for a batch and gets no answer.
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
    """Hold a reader's result on the calibration set: the correct and the asked claims, true and false ones apart."""

    true_right: int
    true_asked: int
    false_right: int
    false_asked: int

    @property
    def is_fit(self) -> bool:
        """Return True if the reader judged enough of the true claims and of the false claims correctly."""
        pairs = ((self.true_right, self.true_asked), (self.false_right, self.false_asked))
        return all(asked and right >= FIT * asked for right, asked in pairs)


def calibration_batches(items: Sequence[dict[str, Any]]) -> list[tuple[QuestionBatch, dict[str, bool]]]:
    """Return the calibration set in batches, each with the truth of its claims by id.

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
    """Return a reader's result on the calibration set; a question without a valid answer counts as wrong."""
    counts = {(truth, right): 0 for truth in (True, False) for right in (True, False)}
    for batch, truth, reply in replies:
        answers = read(batch, reply).answers
        for name, question in batch.questions:
            answer = answers.get(question.key)
            is_right = answer is not None and (answer.verdict in POSITIVE) is truth[name]
            counts[truth[name], is_right] += 1
    true, false = counts[True, True], counts[False, True]
    return Fitness(true, true + counts[True, False], false, false + counts[False, False])
