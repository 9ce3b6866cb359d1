"""Weighing: the steps of judging a claim that need no second reader: its lane, the quotation, the token floor.

Each step may refuse a claim. What it lets pass comes with the questions that a second reader is to answer about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from memoryd.jobs import claims as reasons
from memoryd.jobs.claims import LONGEST_CLAIM, Claim, Judged, Outcome, Step
from memoryd.jobs.pieces import LONGEST_QUOTED, Cited, Line
from memoryd.jobs.reader import Question, Subject
from memoryd.ledger.cut import MARK
from memoryd.ledger.floor import Material, missing
from memoryd.ledger.lane import Lane, may_change
from memoryd.text import normal
from memoryd.text.content import label_of, overlap, stems, unlabelled
from memoryd.text.neutral import neutral

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import date

    from memoryd.jobs.claims import Old
    from memoryd.jobs.pieces import Piece, Pieces
    from memoryd.jobs.repair import Judges

_LATER = 6  # pieces behind a quotation among which the next two of the user are shown to the reader
_MOST_LATER = 2
_ALIKE = 0.3  # share of the words of an entry that another must have to be about the same
_MOST_AROUND = 1_500  # characters of the sentences around a quotation
_MOST_QUOTED = 4_000  # characters of the user's words in one memory
_USER = "user"  # the label of the user's words


@dataclass(frozen=True, slots=True)
class JudgingContext:
    """What the claims of one reply are judged with.

    Attributes:
        pieces: the material shown.
        materials: the same, by id, for the token floor.
        judges: of the job.
        offline: the reply is the offline backend's, which quotes and words nothing itself.
        foreign: gives the tokens of a text that only outside text names.
    """

    pieces: Pieces
    materials: Mapping[str, Material]
    judges: Judges
    offline: bool
    foreign: Callable[[str], Sequence[str]]


def context_of(
    pieces: Pieces,
    days: Mapping[str, date],
    judges: Judges,
    *,
    offline: bool,
    foreign: Callable[[str], Sequence[str]] = lambda _text: (),
    about: str = "",
) -> JudgingContext:
    """Return what claims about these pieces are judged with.

    `days` are the local days on which each was said, by id; `about` names the project, which a claim may do as well.
    """
    shown = {
        name: Material("\n".join((piece.text, piece.asked, about, *(line.text for line in piece.evidence))), days[name])
        for name, piece in pieces.by_id.items()
    }
    return JudgingContext(pieces, shown, judges, offline, foreign)


@dataclass(frozen=True, slots=True)
class Weighed:
    """A claim that no step without a reader refuses, or one that is refused; with what the reader is asked about it.

    Attributes:
        judged: as far as it is judged.
        scope: whether a quotation is meant to last.
        support: whether the claim is true to its evidence, and to what it rewrites.
        kind: what kind of memory it is.
        kinds: the same of the memories that it would change, by their text.
        ends: whether it gives a newer value of each memory that it is to supersede, by the id of that.
    """

    judged: Judged
    scope: Question | None = None
    support: Question | None = None
    kind: Question | None = None
    kinds: Mapping[str, Question] = field(default_factory=dict)
    ends: Mapping[str, Question] = field(default_factory=dict)

    @property
    def questions(self) -> tuple[Question, ...]:
        """Return what the reader is asked about its truth."""
        return (*(one for one in (self.scope, self.support) if one is not None), *self.ends.values())

    @property
    def labels(self) -> tuple[Question, ...]:
        """Return what the reader is asked about classes."""
        return (*(one for one in (self.kind,) if one is not None), *self.kinds.values())


def class_question(text: str) -> Question:
    """Return the question what kind of memory a text is; the same for the same text, so that it is asked once."""
    return Question(Subject.CLASS, text, (Line("m1.1", text, Lane.USER, "memory"),))


def end_questions(cited: Sequence[Cited], memory: str) -> tuple[Question, Question]:
    """Return what decides whether what is cited ends a memory: is it a newer state of it, and is it meant to last."""
    lines = tuple(dict.fromkeys(line for one in cited for line in one.evidence))
    said = " ".join(line.text for line in lines)
    return Question(Subject.SUPPORT, said, lines, (memory,)), Question(Subject.SCOPE, said, lines)


class Weigher:
    """Takes claims through the steps that need no reader."""

    def __init__(self, context: JudgingContext) -> None:
        self._context = context

    def weigh(self, claim: Claim) -> Weighed:
        """Return a claim as these steps leave it."""
        text = neutral(claim.text)
        if not any(map(str.isalnum, text)) or len(text) > LONGEST_CLAIM or MARK in text:
            return _refused(claim, (), reasons.EMPTY, Step.FLOOR)
        found, strange = self._context.pieces.cited(claim.cites or self._sources_of(text), text)
        cited = tuple(found)
        if not cited:
            if not strange:
                return _refused(claim, (), reasons.NOTHING_CITED, Step.LANE)
            # A claim in another language shares no word with its source: whose words those are is still known.
            return _refused(claim, self._whole(strange), reasons.NO_WORD, Step.QUOTE)
        lane = min(one.lane for one in cited)
        is_new = not claim.olds and not any(one.piece.id.startswith("m") for one in cited)
        if claim.core and lane is Lane.ASSISTANT and is_new and self._is_for_user(claim):
            # What the user answered or corrected: their part of it has to say it alone.
            cited = tuple(one for one in cited if is_of_user([one])) or cited
            lane = min(one.lane for one in cited)
        fault = self._lane_fault(claim, cited, lane)
        if fault is not None:
            return fault
        own = tuple(one for one in cited if not one.piece.id.startswith("m"))
        is_new = claim.core and not claim.olds and bool(own)
        if is_new and lane is Lane.USER and (claim.verbatim_only or not claim.user_only):
            return self.quoted(claim, text, own)
        if claim.core and claim.verbatim_only:
            return _refused(claim, cited, reasons.NOT_USER, Step.LANE, lane)
        return self._worded(claim, text, cited)

    def _whole(self, names: Sequence[str]) -> tuple[Cited, ...]:
        pieces = [self._context.pieces.by_id[name] for name in names if name in self._context.pieces.by_id]
        whole = [one for one in dict.fromkeys(pieces) if len(one.text) <= LONGEST_CLAIM]
        return tuple(Cited(one, tuple(range(1, len(one.lines) + 1))) for one in whole)

    def _sources_of(self, text: str) -> tuple[str, ...]:
        """Return the sentence that a claim without a citation repeats."""
        wanted = normal.verbatim(unlabelled(text))
        lines = (line for piece in self._context.pieces.by_id.values() for line in piece.lines)
        return tuple(line.id for line in lines if normal.verbatim(line.text) == wanted)[:1]

    def _is_for_user(self, claim: Claim) -> bool:
        """Return whether the assistant cannot say what a claim says."""
        return claim.user_only or (claim.kind is not None and not may_change(Lane.ASSISTANT, claim.kind))

    def _lane_fault(self, claim: Claim, cited: tuple[Cited, ...], lane: Lane) -> Weighed | None:
        why = ""
        if lane is Lane.NONE:
            why = reasons.INJECTED
        elif claim.core and lane <= Lane.OUTSIDE:
            why = reasons.UNSURE if lane is Lane.UNKNOWN else reasons.OUTSIDE_WORD
        elif claim.core and lane is Lane.ASSISTANT:
            if self._is_for_user(claim):
                why = reasons.NOT_USER
            elif self._context.foreign(claim.text):
                why = reasons.FOREIGN
        return _refused(claim, cited, why, Step.LANE, lane) if why else None

    # ── quotation ────────────────────────────────────────────────────────────────────────────────────────────────

    def quoted(self, claim: Claim, text: str, cited: tuple[Cited, ...]) -> Weighed:
        """Put the user's words in the place of a claim; whether they are to last is the reader's to say."""
        words = neutral(" … ".join(dict.fromkeys(whole for one in cited if (whole := one.quotation()))))
        if self._context.foreign(words):
            return _refused(claim, cited, reasons.FOREIGN, Step.LANE, Lane.USER)
        same = normal.verbatim(unlabelled(text)) == normal.verbatim(unlabelled(words))
        if self._context.offline:  # its label says whose words these are
            words = text if same else text.removesuffix(unlabelled(text)) + words
        outcome = Outcome.KEPT if same else Outcome.QUOTED
        is_core = len(words) <= _MOST_QUOTED  # more is whole in the day's file, never cut in the core
        judged = Judged(claim, outcome, words, is_core, cited, Lane.USER, step=Step.QUOTE, kind=claim.kind)
        return Weighed(
            judged,
            scope=Question(Subject.SCOPE, words, self._around(cited)),
            ends=self._ends(words, cited, claim),
        )

    def _around(self, cited: Sequence[Cited]) -> tuple[Line, ...]:
        """Return the sentences of a quotation with the turns around them, so that what is taken back later is seen."""
        lines: dict[str, Line] = {}
        size = 0
        own = [line for one in cited for line in one.evidence]
        near = [line for one in cited for piece in self._near(one.piece) for line in piece.lines]
        for line in (*own, *near):
            is_shown = line.lane >= Lane.ASSISTANT or line in own
            if is_shown and line.id not in lines and (line in own or size + len(line.text) <= _MOST_AROUND):
                lines[line.id] = line
                size += len(line.text)
        order = {name: at for at, name in enumerate(self._context.pieces.by_id)}
        return tuple(sorted(lines.values(), key=lambda line: order.get(line.id.partition(".")[0], len(order))))

    def _near(self, piece: Piece) -> list[Piece]:
        """Return the piece, the one before it, and the next turns of the user, which may take back what was said.

        The entries of a daily file are no talk: of those only what is about the same is near.
        """
        before, behind = self._context.pieces.around(piece)
        if not piece.seq:
            later = [one for one in behind if overlap(piece.text, one.text) >= _ALIKE]
            return [piece, *later[:_MOST_LATER]]
        later = [one for one in behind[:_LATER] if one.lines and one.lines[0].speaker == "user"]
        return [piece, *later[:_MOST_LATER], *before[-1:]]

    # ── wordings of the author's own ─────────────────────────────────────────────────────────────────────────────

    def _worded(self, claim: Claim, text: str, cited: tuple[Cited, ...]) -> Weighed:
        """Judge a wording of the author's own by its tokens; for the core a reader is asked as well."""
        verbatim = is_verbatim(text, cited)
        whole = {cite for cite in claim.cites if "." not in cite}
        completed, lacking = (cited, "") if verbatim else self._completed(text, cited, whole)
        lane = min(one.lane for one in completed)
        if lacking:
            refused = _refused(claim, cited, reasons.MISSING, Step.FLOOR, lane)
            return replace(refused, judged=replace(refused.judged, token=lacking))
        fault = self._lane_fault(claim, completed, lane)
        if fault is not None:
            return fault
        said = unlabelled(text)
        if lane is not Lane.USER and label_of(text) == _USER:
            text = said  # no label makes it the user's word
        judged = Judged(claim, Outcome.KEPT, text, claim.core, completed, lane, step=Step.FLOOR, kind=claim.kind)
        if not claim.core:
            return Weighed(judged)
        asks_support = claim.olds or not verbatim
        replaced = tuple(old.text for old in claim.olds)
        is_brought = brings(completed)
        # The user's newer word may change any memory, so its class matters only where there is none.
        is_open = any(not is_newer(completed, old) for old in claim.olds) if is_brought else len(claim.olds) == 1
        is_derived = not (is_brought or claim.olds)
        return Weighed(
            judged,
            support=Question(Subject.SUPPORT, said, _evidence(completed, replaced), replaced) if asks_support else None,
            # Its place in a reply proves nothing.
            kind=class_question(said) if lane is Lane.ASSISTANT or is_derived else None,
            kinds=_kinds((*claim.olds, *claim.ends)) if lane is Lane.ASSISTANT or is_open else {},
            ends=self._ends(said, completed, claim),
        )

    def _ends(self, text: str, cited: Sequence[Cited], claim: Claim) -> dict[str, Question]:
        return {old.id: Question(Subject.SUPPORT, text, _evidence(cited), (old.text,)) for old in claim.ends}

    def _completed(self, text: str, cited: tuple[Cited, ...], whole: Collection[str]) -> tuple[tuple[Cited, ...], str]:
        """Return the citation with the pieces that alone have a token it lacks, and a token that no piece has."""
        materials = self._context.materials
        cited = _with_neighbours(text, cited, whole)
        more: list[str] = []
        for token in missing(text, [materials[one.piece.id] for one in cited]):
            having = [name for name, material in materials.items() if material.has(token)]
            if not having:
                return cited, token.text
            if len(having) == 1:
                more.append(having[0])
        found, _ = self._context.pieces.cited(tuple(dict.fromkeys(more)), text)
        there = {one.piece.id for one in cited}
        return (*cited, *(one for one in found if one.piece.id not in there)), ""


def _with_neighbours(text: str, cited: Sequence[Cited], whole: Collection[str]) -> tuple[Cited, ...]:
    """Return a citation with the sentences of the same pieces that have words of the claim which it lacks.

    Of a short piece that is cited as a `whole`, all sentences are added: the next one may hold a condition. A sentence
    of a lower lane is never added: its words are not what the claim stands on.
    """
    lane = min(one.lane for one in cited)
    lacking = stems(unlabelled(text)) - stems("\n".join(line.text for one in cited for line in one.lines))
    found = []
    for one in cited:
        numbers = set(one.numbers)
        is_whole = one.piece.id in whole and len(one.piece.text) <= LONGEST_QUOTED
        for number, line in enumerate(one.piece.lines, 1):
            if number not in numbers and line.lane >= lane and (is_whole or lacking & stems(line.text)):
                numbers.add(number)
                lacking -= stems(line.text)
        found.append(replace(one, numbers=tuple(sorted(numbers))))
    return tuple(found)


def is_of_user(cited: Sequence[Cited]) -> bool:
    """Return whether all that is cited are the user's words, and none of it is a memory."""
    return all(one.lane is Lane.USER and not one.piece.id.startswith("m") for one in cited)


def is_verbatim(text: str, cited: Sequence[Cited]) -> bool:
    """Return whether a text repeats whole sentences that it cites; case, white space and the last mark do not count."""
    wanted = normal.verbatim(unlabelled(text))
    for one in cited:
        texts = [one.piece.text, one.quotation()]
        for lines in (one.lines, one.piece.lines, one.evidence):
            texts += [*(line.text for line in lines), " ".join(line.text for line in lines)]
        if wanted in map(normal.verbatim, texts) or wanted in (normal.verbatim(unlabelled(said)) for said in texts):
            return True
    return False


def brings(cited: Sequence[Cited]) -> bool:
    """Return whether something is cited besides memories."""
    return any(not one.piece.id.startswith("m") for one in cited)


def is_newer(cited: Sequence[Cited], old: Old) -> bool:
    """Return whether something that is cited was said after a memory; undated ones are older than all."""
    others = [one for one in cited if one.piece.id != old.id]
    # Another memory beside an entry makes that entry no newer.
    entries = [one for one in others if not one.piece.id.startswith("m")]
    return any(one.said_at > old.said_at for one in entries or others)


def _kinds(olds: Sequence[Old]) -> dict[str, Question]:
    return {old.text: class_question(old.text) for old in olds if old.kind is None}


def _evidence(cited: Sequence[Cited], replaced: Sequence[str] = ()) -> tuple[Line, ...]:
    """Return the sentences cited; the memories that are shown as replaced are not shown twice, if anything is left."""
    lines = tuple(dict.fromkeys(line for one in cited for line in one.evidence))
    brought = {line.id for one in cited for line in one.evidence if one.piece.text not in replaced}
    return tuple(line for line in lines if line.id in brought) or lines


def _refused(claim: Claim, cited: tuple[Cited, ...], why: str, step: Step, lane: Lane = Lane.NONE) -> Weighed:
    return Weighed(Judged(claim, Outcome.REFUSED, cited=cited, lane=lane, why=why, step=step))
