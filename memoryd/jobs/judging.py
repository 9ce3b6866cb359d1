"""Judging: which claims of a reply are true to what was said, decided before anything is changed.

Each claim takes the same steps (DESIGN §7). Its *lane* is the lowest among the sentences that it cites. A new claim for
the core that stands on the user alone is *quoted*: the user's words are copied whole. Every other wording must pass the
*token floor*, and for the core a *second reader*, who sees nothing but the claim and the original sentences. Refused
claims go back to their author once (`repair`). Without a fit reader only quotations and duplicates reach the core.

A `Judging` is a value: `asked` is the same with the reader's answers, and `judged` what became of each claim then.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from memoryd.jobs import claims as reasons
from memoryd.jobs import reader
from memoryd.jobs.claims import REASONS, Claim, Judged, Outcome, Step
from memoryd.jobs.reader import POSITIVE, STANDING, Inquiry, Subject
from memoryd.jobs.weighing import Weigher, brings, class_question, is_newer, is_of_user, is_verbatim
from memoryd.ledger import steering
from memoryd.ledger.lane import Lane, MemoryClass, may_change
from memoryd.text import normal
from memoryd.text.content import overlap, unlabelled
from memoryd.text.neutral import neutral

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from memoryd.jobs.claims import Old
    from memoryd.jobs.job import Ask, Reply
    from memoryd.jobs.reader import Answer, Question
    from memoryd.jobs.weighing import JudgingContext, Weighed

_MOST_SPARE = 40  # lines of the material from which a decoy may get its evidence
_MENDABLE = frozenset({Step.FLOOR, Step.READER, Step.QUOTE})


@dataclass(frozen=True, slots=True)
class Judging:
    """The claims of a reply on their way through the steps.

    Attributes:
        context: what they are judged with.
        claims: those that are judged.
        others: what the reader is asked besides, such as the class of a memory.
        inquiry: what the reader has answered.
        done: what became of claims that are judged already.
    """

    context: JudgingContext
    claims: tuple[Claim, ...]
    others: tuple[Question, ...] = ()
    inquiry: Inquiry = field(default_factory=Inquiry)
    done: tuple[Judged, ...] = ()

    def asked(self) -> Generator[Ask, Reply, Judging]:
        """Ask the second reader all that is open; return this with its answers."""
        if self.context.offline:
            return self
        judges = self.context.judges
        lines = (line for piece in self.context.pieces.by_id.values() for line in piece.lines)
        spare = [line for line in lines if line.lane >= Lane.ASSISTANT][:_MOST_SPARE]
        before = self.inquiry.answers
        inquiry = yield from reader.inquire(self._questions, judges.known, spare, judges.verify, before)
        return replace(self, inquiry=inquiry)

    @property
    def judged(self) -> tuple[Judged, ...]:
        """Return what became of each claim."""
        weigher = Weigher(self.context)
        return (*self.done, *(self._settled(weigher.weigh(one)) for one in self.claims))

    def is_ended(self, newer: Question, scope: Question) -> bool:
        """Return whether the reader finds that words end a memory: a newer state of all of it that is meant to last."""
        answer, lasts = self._answer(newer), self._answer(scope)
        is_newer = answer is not None and answer.verdict == reader.NEWER and not answer.lost
        return is_newer and lasts is not None and lasts.verdict == STANDING

    def kind_of(self, text: str) -> MemoryClass | None:
        """Return the class with which the reader labels the text of a memory; None where it has not."""
        return self._kind(class_question(text))

    def _questions(self, answers: Mapping[str, Answer | None]) -> list[Question]:
        """Return what is to be asked: whether claims are true, then the classes of true ones and of their memories."""
        weighed = [Weigher(self.context).weigh(one) for one in self.claims]
        classes = [one for one in self.others if one.subject is Subject.CLASS]
        asked = [one for one in self.others if one.subject is not Subject.CLASS]
        asked += (question for one in weighed for question in one.questions)
        if opened := {one.key for one in asked} - answers.keys():
            labels = (one for held in weighed for one in held.labels if one.key not in answers)
            free = -len(opened) % (reader.MOST_CLAIMS - 1)  # places that the last batch has besides its decoy
            return [*asked, *[*dict.fromkeys((*classes, *labels))][:free]]
        true = [one for one in weighed if _is_true(one, answers)]
        asked += (*classes, *(question for one in true for question in _labels(one, answers)))
        if any(one.key not in answers for one in asked):
            return asked
        for one in true:
            label = answers[one.kind.key] if one.kind is not None else None
            # An order stays one whatever the reader calls it, as in `_supported`.
            is_order = steering.instructs(unlabelled(one.judged.text))
            is_open = label is not None and label.verdict in {MemoryClass.PROJECT, MemoryClass.LESSON} and not is_order
            if one.support is not None and not is_open and (own := self._own_words(one)):
                asked += own.questions
        return asked

    def _own_words(self, weighed: Weighed) -> Weighed | None:
        """Return the user's words among what a new claim cites, where it cites somebody else as well."""
        claim, cited = weighed.judged.claim, weighed.judged.cited
        own = tuple(one for one in cited if is_of_user([one]))
        is_mixed = claim.core and not claim.olds and 0 < len(own) < len(cited)
        return Weigher(self.context).quoted(claim, neutral(claim.text), own) if is_mixed else None

    # ── repair ───────────────────────────────────────────────────────────────────────────────────────────────────

    def mendable(self) -> tuple[Judged, ...]:
        """Return the refused claims that their author may word anew: those meant for the core, once."""
        if self.context.offline or self.inquiry.unread:
            return ()
        return tuple(filter(_is_mendable, self.judged))

    def reworded(self, claims: Sequence[Claim]) -> Judging:
        """Return the judging of the claims that came back; all others stay as they were judged."""
        back = {one.id for one in claims}
        done = tuple(one for one in self.judged if one.claim.id not in back)
        return replace(self, claims=tuple(replace(one, repaired=True) for one in claims), done=done)

    # ── the reader's word ────────────────────────────────────────────────────────────────────────────────────────

    def _settled(self, weighed: Weighed) -> Judged:
        judged = weighed.judged
        if judged.outcome is Outcome.REFUSED or not judged.claim.core:
            return judged
        scope = weighed.scope
        judged = self._scoped(judged, scope) if scope is not None else self._supported(judged, weighed)
        own = self._own_words(weighed) if judged.why == reasons.NOT_USER and not judged.core else None
        if own is not None:
            return self._settled(own)
        if judged.outcome is Outcome.REFUSED or not judged.core or not judged.claim.ends:
            return judged
        return self._ended(judged, weighed)

    def _answer(self, question: Question | None) -> Answer | None:
        if question is None:
            return None
        return self.inquiry.answers.get(question.key) or self.context.judges.known(question.key)

    def _kind(self, question: Question | None) -> MemoryClass | None:
        answer = self._answer(question)
        if answer is None:
            return None
        return MemoryClass(answer.verdict) if answer.verdict in set(MemoryClass) else MemoryClass.RULE

    def _scoped(self, judged: Judged, asked: Question) -> Judged:
        cues = self.context.judges.cues
        scope = self._answer(asked)
        judged = replace(judged, kind=judged.kind or cues.kind(judged.text))
        if scope is not None:
            if scope.verdict != STANDING:
                why = f"{reasons.NOT_STANDING}: {scope.verdict}"
                return replace(judged, core=False, why=why, step=Step.READER)
            return judged
        # What the offline backend offers, it has chosen by cues already.
        # Of a quotation of several turns each must stand: one cue does not make a memory of all that is cited with it.
        stands = self.context.offline or all(cues.stands(one.quotation()) for one in judged.cited)
        return judged if stands else replace(judged, core=False, why=reasons.NOT_STANDING)

    def _supported(self, judged: Judged, weighed: Weighed) -> Judged:
        answer = self._answer(weighed.support)
        if weighed.support is not None and answer is None:
            return self._unread(judged)
        if answer is not None and answer.verdict not in POSITIVE:
            return _no(judged, REASONS[answer.verdict])
        if answer is not None:
            judged = replace(judged, newer=answer.verdict == reader.NEWER, lost=answer.lost, step=Step.READER)
        changes = []
        for old in judged.claim.olds:
            why = self._may_not_change(judged, old, weighed)
            if why:
                return replace(_no(judged, why), step=Step.READER if why == reasons.LOSES else Step.LANE)
            changes.append(old.id)
        found = self._kind(weighed.kind) or self.context.judges.cues.kind(unlabelled(judged.text))
        if steering.instructs(unlabelled(judged.text)):
            found = MemoryClass.RULE  # evidence can make a reader say otherwise
        is_brought = brings(judged.cited)
        if found is MemoryClass.RULE and not judged.claim.olds and not is_brought and weighed.support is not None:
            return replace(_no(judged, reasons.NOT_USER), step=Step.LANE)  # a part of a rule, in other words
        # The author's own label of a claim that is not the user's counts only together with what the text is.
        is_fit = all(may_change(judged.lane, kind) for kind in (found, judged.kind or found))
        if not is_fit and (is_brought or not changes):
            return replace(judged, core=False, why=reasons.NOT_USER, step=Step.LANE)
        return replace(judged, changes=tuple(changes), kind=judged.kind or found)

    def _may_not_change(self, judged: Judged, old: Old, weighed: Weighed) -> str:
        """Return why a claim may not change a memory; empty where it may.

        A text made of memories alone brings no new word, but may not make the user's what is less than that. A rule
        changes by newer words of the user, or in a merge that loses nothing. What is older may add to others, no more.
        """
        kind = self._class_of(old, weighed)
        is_rule = kind is MemoryClass.RULE
        if not brings(judged.cited):
            lane = next((one.lane for one in judged.cited if one.piece.id == old.id), judged.lane)
            is_lowered = judged.lane < lane and not may_change(judged.lane, kind)
            if is_lowered or (is_rule and not _is_merge(judged)):
                return reasons.NOT_USER
        elif not may_change(judged.lane, kind):
            return reasons.NOT_USER
        elif not is_newer(judged.cited, old) and (is_rule or judged.newer or overlap(old.text, judged.text) < 1):
            return reasons.OLDER
        is_reworded = not brings(judged.cited) and (kind is MemoryClass.PERSON or not _is_merge(judged))
        return reasons.LOSES if judged.lost and (is_rule or is_reworded) else ""

    def _class_of(self, old: Old, weighed: Weighed) -> MemoryClass:
        asked = weighed.kinds.get(old.text, class_question(old.text))
        return old.kind or self._kind(asked) or self.context.judges.cues.kind(old.text)

    def _unread(self, judged: Judged) -> Judged:
        """Return what may stand of a claim that no reader has read: duplicates, and the user's own words."""
        claim = judged.claim
        same = [normal.same(unlabelled(old.text)) == normal.same(unlabelled(judged.text)) for old in claim.olds]
        if claim.olds and is_verbatim(judged.text, judged.cited) and (self.context.offline or all(same)):
            return replace(judged, changes=tuple(old.id for old in claim.olds), step=Step.QUOTE)
        own = tuple(one for one in judged.cited if not one.piece.id.startswith("m"))
        if own and is_of_user(own) and (self.inquiry.unread or self.context.offline):
            weighed = Weigher(self.context).quoted(replace(claim, olds=()), neutral(claim.text), own)
            return replace(self._settled(weighed), claim=claim)
        return _no(judged, reasons.NOT_READ)

    def _ended(self, judged: Judged, weighed: Weighed) -> Judged:
        """Decide which memories that its reply declares superseded a claim ends: those it gives a newer value of."""
        ended, why = [], ""
        for old in judged.claim.ends:
            answer = self._answer(weighed.ends[old.id])
            kind = self._class_of(old, weighed)
            needs_answer = old.guessed or not self.context.offline
            if needs_answer and answer is None:
                why = why or reasons.NOT_READ
            elif needs_answer and answer is not None and answer.verdict != reader.NEWER:
                why = REASONS.get(answer.verdict, reasons.NOT_NEWER)
            elif not may_change(judged.lane, kind):
                why = reasons.NOT_USER
            elif not is_newer(judged.cited, old):
                why = reasons.OLDER
            else:
                ended.append(old.id)
        return replace(judged, changes=(*judged.changes, *ended), ends_why=why)


def _is_true(weighed: Weighed, answers: Mapping[str, Answer | None]) -> bool:
    """Return whether the reader supports a claim, or need not be asked that."""
    answer = answers[weighed.support.key] if weighed.support is not None else None
    return weighed.support is None or (answer is not None and answer.verdict in POSITIVE)


def _labels(weighed: Weighed, answers: Mapping[str, Answer | None]) -> Iterator[Question]:
    """Yield what class a true claim and its memories have; one of which something is lost may be a rule."""
    yield from weighed.labels
    answer = answers[weighed.support.key] if weighed.support is not None else None
    if answer is not None and answer.lost:
        yield from (class_question(old.text) for old in weighed.judged.claim.olds if old.kind is None)


def _is_merge(judged: Judged) -> bool:
    """Return whether a claim makes one of several memories, or is the whole text of another that stays."""
    olds = {old.id for old in judged.claim.olds}
    others = (one.piece for one in judged.cited if one.piece.id not in olds)
    return len(olds) > 1 or any(normal.same(one.text) == normal.same(judged.text) for one in others)


def _is_mendable(judged: Judged) -> bool:
    is_refused = judged.outcome is Outcome.REFUSED and judged.claim.core and not judged.claim.repaired
    return is_refused and judged.step in _MENDABLE and judged.why != reasons.EMPTY


def _no(judged: Judged, why: str) -> Judged:
    return replace(judged, outcome=Outcome.REFUSED, text="", core=False, why=why, step=Step.READER)
