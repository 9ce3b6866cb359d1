"""Judge which claims of a reply are true to the sources, before anything is changed.

Each claim takes the same steps (DESIGN §7). Its *lane* is the lowest among the sentences that it cites. A new claim for
the core with only the user's words as sources is *quoted*: these words are copied whole. Every other wording must pass
the *token floor*. For the core it must also pass a *second reader*, who sees only the claim and the original sentences.
Refused claims go back to their author once (`repair`). Without a fit reader, only quotations and duplicates pass.

A `JudgingContext` takes the steps that need no reader and returns the questions for one. A `Judging` asks them.
"""

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from memoryd.jobs import claims as reasons
from memoryd.jobs import reader
from memoryd.jobs.claims import Claim, ClaimOutcome, ClaimStep, JudgedClaim, Judges, Old, has_new_evidence, is_newer
from memoryd.jobs.job import Ask, Reply
from memoryd.jobs.pieces import LONGEST_QUOTED, CitableSentence, Citation, Piece, Pieces, is_of_user, is_verbatim
from memoryd.jobs.reader import POSITIVE, STANDING, Inquiry, Question, ReaderAnswer, Subject
from memoryd.ledger import steering
from memoryd.ledger.floor import Material, list_missing
from memoryd.ledger.foreign import NOTHING_FOREIGN, Foreign
from memoryd.ledger.lane import Lane, MemoryClass, may_change
from memoryd.ledger.text_removal import MARK
from memoryd.text import normal
from memoryd.text.content import label_of, list_stems, measure_overlap, strip_label
from memoryd.text.neutral import neutralize
from memoryd.text.sentences import split

_MENDABLE = frozenset({ClaimStep.FLOOR, ClaimStep.READER, ClaimStep.QUOTE})
_LATER, _MOST_LATER = 6, 2  # the reader sees the user's next two turns among the six pieces after a quotation
_ALIKE = 0.3  # the least share of words that two entries about the same subject have in common
_MOST_AROUND = 1_500  # the most characters of the sentences around a quotation
_MOST_LINES = 100  # the most sentences of a turn that are searched for them; a turn with more is a list or a paste
_MOST_QUOTED = 4_000  # the most characters of the user's words in one memory
_USER = "user"  # the label of the user's words


@dataclass(frozen=True, slots=True)
class WeighedClaim:
    """Hold a claim after the steps that need no reader, with the questions for a reader.

    Attributes:
        judged: the verdict so far.
        scope: asks whether a quotation is meant to last.
        support: asks whether the claim is true to its evidence, and to the memory that it rewrites.
        kind: asks for the class of the memory.
        kinds: ask for the classes of the memories that it would change, by their text.
        ends: ask whether it gives a newer value of each memory that it is to supersede, by the id of the memory.
    """

    judged: JudgedClaim
    scope: Question | None = None
    support: Question | None = None
    kind: Question | None = None
    kinds: Mapping[str, Question] = field(default_factory=dict)
    ends: Mapping[str, Question] = field(default_factory=dict)

    @property
    def questions(self) -> tuple[Question, ...]:
        """Return the questions about the truth of the claim."""
        return (*(one for one in (self.scope, self.support) if one is not None), *self.ends.values())

    @property
    def labels(self) -> tuple[Question, ...]:
        """Return the questions about the classes of the claim and of the memories that it would change."""
        return (*(one for one in (self.kind,) if one is not None), *self.kinds.values())


@dataclass(frozen=True, slots=True)
class JudgingContext:
    """Hold what is needed to judge the claims of one reply.

    Attributes:
        pieces: the material that was shown.
        materials: the same material, by id, for the token floor.
        judges: holds the cues and instructions of the job.
        offline: True if the offline backend wrote the reply; it only quotes.
        foreign: finds the tokens of a text that only outside text names.
        talk: True if nobody works in the material. There, a message that only asks for something does not last.
    """

    pieces: Pieces
    materials: Mapping[str, Material]
    judges: Judges
    offline: bool
    foreign: Foreign
    talk: bool = False

    def weigh(self, claim: Claim) -> WeighedClaim:
        """Return the verdict on a claim by the steps that need no reader, with the questions for a reader."""
        text = neutralize(claim.text)
        if not any(map(str.isalnum, text)) or len(text) > reasons.LONGEST_CLAIM or MARK in text:
            return _refuse_claim(claim, (), reasons.EMPTY, ClaimStep.FLOOR)
        text = _neutralize_said(text)
        found, strange = self.pieces.find_cited(claim.cites or self._sources_of(text), text)
        cited = tuple(found)
        if not cited:
            if not strange:
                return _refuse_claim(claim, (), reasons.NOTHING_CITED, ClaimStep.LANE)
            # A claim in another language shares no word with its source, but its author is still known.
            return _refuse_claim(claim, self._whole(strange), reasons.NO_WORD, ClaimStep.QUOTE)
        lane = min(one.lane for one in cited)
        is_new = not claim.olds and not any(one.piece.id.startswith("m") for one in cited)
        if claim.core and lane is Lane.ASSISTANT and is_new and self._is_for_user(claim):
            # A part that the user answered or corrected must be supported by the user's words alone.
            cited = tuple(one for one in cited if is_of_user([one])) or cited
            lane = min(one.lane for one in cited)
        if (fault := self._lane_fault(claim, cited, lane)) is not None:
            return fault
        own = tuple(one for one in cited if not one.piece.id.startswith("m"))
        is_new = claim.core and not claim.olds and bool(own)
        if is_new and lane is Lane.USER and (claim.verbatim_only or not claim.user_only):
            return self.quote(claim, text, own)
        if claim.core and claim.verbatim_only:
            return _refuse_claim(claim, cited, reasons.NOT_USER, ClaimStep.LANE, lane)
        return self._weigh_wording(claim, text, cited)

    def _whole(self, names: Sequence[str]) -> tuple[Citation, ...]:
        pieces = [self.pieces.by_id[name] for name in names if name in self.pieces.by_id]
        whole = [one for one in dict.fromkeys(pieces) if len(one.text) <= reasons.LONGEST_CLAIM]
        return tuple(Citation(one, tuple(range(1, len(one.lines) + 1))) for one in whole)

    def _sources_of(self, text: str) -> tuple[str, ...]:
        """Return the id of the sentence that a claim without a citation repeats; empty if there is none."""
        wanted = normal.normalize_quotation(strip_label(text))
        lines = (line for piece in self.pieces.by_id.values() for line in piece.lines)
        return tuple(line.id for line in lines if normal.normalize_quotation(line.text) == wanted)[:1]

    def _is_for_user(self, claim: Claim) -> bool:
        """Return True if only the user, and not the assistant, may say what the claim says."""
        return claim.user_only or (claim.kind is not None and not may_change(Lane.ASSISTANT, claim.kind))

    def _lane_fault(self, claim: Claim, cited: tuple[Citation, ...], lane: Lane) -> WeighedClaim | None:
        why = ""
        if lane is Lane.NONE:
            why = reasons.INJECTED
        elif claim.core and lane <= Lane.OUTSIDE:
            why = reasons.UNSURE if lane is Lane.UNKNOWN else reasons.OUTSIDE_WORD
        elif claim.core and lane is Lane.ASSISTANT:
            if self._is_for_user(claim):
                why = reasons.NOT_USER
            elif self.foreign.find_outside(claim.text):
                why = reasons.FOREIGN
        return _refuse_claim(claim, cited, why, ClaimStep.LANE, lane) if why else None

    # ── quotation ────────────────────────────────────────────────────────────────────────────────────────────────

    def quote(self, claim: Claim, text: str, cited: tuple[Citation, ...]) -> WeighedClaim:
        """Return a claim replaced by the user's words that it cites; the reader decides if they are meant to last."""
        words = neutralize(" … ".join(dict.fromkeys(whole for one in cited if (whole := one.quotation()))))
        if self.foreign.find_outside(words, is_typed=True):
            return _refuse_claim(claim, cited, reasons.FOREIGN, ClaimStep.LANE, Lane.USER)
        same = normal.normalize_quotation(strip_label(text)) == normal.normalize_quotation(strip_label(words))
        if self.offline:  # keep the label, which shows the author
            words = text if same else text.removesuffix(strip_label(text)) + words
        outcome = ClaimOutcome.KEPT if same else ClaimOutcome.QUOTED
        is_core = len(words) <= _MOST_QUOTED  # longer texts stay in the daily file
        judged = JudgedClaim(claim, outcome, words, is_core, cited, Lane.USER, step=ClaimStep.QUOTE, kind=claim.kind)
        scope = Question(Subject.SCOPE, words, self._around(cited))
        return WeighedClaim(judged, scope=scope, ends=_ask_ends(words, cited, claim))

    def _around(self, cited: Sequence[Citation]) -> tuple[CitableSentence, ...]:
        """Return the sentences of a quotation with sentences of the turns around it, which may retract it."""
        lines = {line.id: line for one in cited for line in one.evidence}
        size = sum(len(line.text) for line in lines.values())
        for line in (line for one in cited for piece in self._near(one.piece) for line in piece.lines[:_MOST_LINES]):
            is_shown = line.lane >= Lane.ASSISTANT and line.id not in lines
            if is_shown and size + len(line.text) <= _MOST_AROUND:
                lines[line.id] = line
                size += len(line.text)
        order = {name: at for at, name in enumerate(self.pieces.by_id)}
        return tuple(sorted(lines.values(), key=lambda line: order.get(line.id.partition(".")[0], len(order))))

    def _near(self, piece: Piece) -> list[Piece]:
        """Return the piece, the piece before it, and the user's next turns, which may retract its statement.

        The entries of a daily file are no conversation, so only later entries about the same subject count as near.
        """
        before, behind = self.pieces.list_around(piece)
        if not piece.seq:
            later = [one for one in behind if measure_overlap(piece.text, one.text) >= _ALIKE]
            return [piece, *later[:_MOST_LATER]]
        later = [one for one in behind[:_LATER] if one.lines and one.lines[0].speaker == "user"]
        return [piece, *later[:_MOST_LATER], *before[-1:]]

    # ── the author's own wording ─────────────────────────────────────────────────────────────────────────────────

    def _weigh_wording(self, claim: Claim, text: str, cited: tuple[Citation, ...]) -> WeighedClaim:
        """Judge an author's own wording by its tokens; for the core, a reader is asked as well."""
        verbatim = is_verbatim(text, cited)
        whole = {cite for cite in claim.cites if "." not in cite}
        completed, lacking = cited, ""
        if not verbatim:
            completed, lacking = self._complete_citation(text, cited, whole, is_core=claim.core)
        lane = min(one.lane for one in completed)
        if lacking:
            refused = _refuse_claim(claim, cited, reasons.MISSING, ClaimStep.FLOOR, lane)
            return replace(refused, judged=replace(refused.judged, token=lacking))
        if (fault := self._lane_fault(claim, completed, lane)) is not None:
            return fault
        said = strip_label(text)
        if lane is not Lane.USER and label_of(text) == _USER:
            text = said  # a label does not make it the user's words
        kept, step = ClaimOutcome.KEPT, ClaimStep.FLOOR
        judged = JudgedClaim(claim, kept, text, claim.core, completed, lane, step=step, kind=claim.kind)
        if not claim.core:
            return WeighedClaim(reasons.quote_told(judged) if claim.user_only and not self.offline else judged)
        # Nobody checked the wording when the sleep wrote the entry into a daily file.
        is_checked = verbatim and (self.offline or is_verbatim(text, cited, original=True))
        asks_support = claim.olds or not is_checked
        replaced = tuple(old.text for old in claim.olds)
        is_brought = has_new_evidence(completed)
        # The user's newer words may change any memory, so its class matters only without them.
        is_open = any(not is_newer(completed, old) for old in claim.olds) if is_brought else len(claim.olds) == 1
        is_derived = not (is_brought or claim.olds)
        return WeighedClaim(
            judged,
            support=Question(Subject.SUPPORT, said, _evidence(completed, replaced), replaced) if asks_support else None,
            # The place of a claim in the reply does not prove its class.
            kind=class_question(said) if lane is Lane.ASSISTANT or is_derived else None,
            kinds=_kinds((*claim.olds, *claim.ends)) if lane is Lane.ASSISTANT or is_open else {},
            ends=_ask_ends(said, completed, claim),
        )

    def _complete_citation(
        self, text: str, cited: tuple[Citation, ...], whole: Collection[str], *, is_core: bool
    ) -> tuple[tuple[Citation, ...], str]:
        """Return the citation with pieces added that have a missing token, and a token that no piece has, if any."""
        materials, by_id = self.materials, self.pieces.by_id
        cited = _with_neighbours(text, cited, whole)
        more: list[str] = []
        for token in list_missing(text, [materials[one.piece.id] for one in cited]):
            having = [name for name, material in materials.items() if material.has(token)]
            if not having:
                return cited, token.text
            # If several pieces have it, only a reader may decide for the core. No reader is asked about daily lines.
            usable = [name for name in having if name in by_id and (len(having) == 1 or not is_core)]
            usable.sort(key=lambda name: -by_id[name].lane)
            more.append(next((one for one in usable if self.pieces.find_cited((one,), text)[0]), ""))
        there = {one.piece.id for one in cited}
        found, _ = self.pieces.find_cited([one for one in dict.fromkeys(more) if one not in there], text)
        return (*cited, *found), ""


def context_of(
    pieces: Pieces,
    days: Mapping[str, date],
    judges: Judges,
    *,
    offline: bool,
    foreign: Foreign = NOTHING_FOREIGN,
    about: str = "",
) -> JudgingContext:
    """Return the context for judging claims about these pieces.

    `days` holds the local day of each piece, by its id. `about` is the name of the project, which a claim may use.
    """
    shown = {
        name: Material("\n".join((piece.text, piece.asked, about, *(line.text for line in piece.evidence))), days[name])
        for name, piece in pieces.by_id.items()
    }
    return JudgingContext(pieces, shown, judges, offline, foreign)


def class_question(text: str) -> Question:
    """Return the question about the class of a text; equal texts give equal questions, so each is asked only once."""
    return Question(Subject.CLASS, text, (CitableSentence("m1.1", text, Lane.USER, "memory"),))


def end_questions(cited: Sequence[Citation], memory: str) -> tuple[Question, Question]:
    """Return two questions about cited words: are they a newer state of the memory, and are they meant to last?"""
    lines = tuple(dict.fromkeys(line for one in cited for line in one.evidence))
    said = " ".join(line.text for line in lines)
    return Question(Subject.SUPPORT, said, lines, (memory,)), Question(Subject.SCOPE, said, lines)


def _with_neighbours(text: str, cited: Sequence[Citation], whole: Collection[str]) -> tuple[Citation, ...]:
    """Return a citation with more sentences of the same pieces: those with words of the claim that the citation lacks.

    If a short piece is cited as a `whole`, all its sentences are added, because the next one may hold a condition. A
    list item comes with the sentence that introduces the list, which may name the subject or say that the item is only
    proposed. A sentence of a lower lane is never added, because it does not support the claim.
    """
    lane = min(one.lane for one in cited)
    lacking = list_stems(strip_label(text)) - list_stems("\n".join(line.text for one in cited for line in one.lines))
    found = []
    for one in cited:
        numbers = set(one.numbers)
        is_whole = one.piece.id in whole and len(one.piece.text) <= LONGEST_QUOTED
        for number, line in enumerate(one.piece.lines, 1):
            if number not in numbers and line.lane >= lane and (is_whole or lacking & list_stems(line.text)):
                numbers.add(number)
                lacking -= list_stems(line.text)
        parts = split(one.piece.text)
        leads = {lead + 1 for number in numbers if (lead := parts[number - 1].lead) is not None}
        numbers |= {number for number in leads if one.piece.lines[number - 1].lane >= lane}
        found.append(replace(one, numbers=tuple(sorted(numbers))))
    return tuple(found)


def _ask_ends(text: str, cited: Sequence[Citation], claim: Claim) -> dict[str, Question]:
    return {old.id: Question(Subject.SUPPORT, text, _evidence(cited), (old.text,)) for old in claim.ends}


def _kinds(olds: Sequence[Old]) -> dict[str, Question]:
    return {old.text: class_question(old.text) for old in olds if old.kind is None}


def _evidence(cited: Sequence[Citation], replaced: Sequence[str] = ()) -> tuple[CitableSentence, ...]:
    """Return the cited sentences without memories in `replaced`, which the question shows, unless only these exist."""
    lines = tuple(dict.fromkeys(line for one in cited for line in one.evidence))
    brought = {line.id for one in cited for line in one.evidence if one.piece.text not in replaced}
    return tuple(line for line in lines if line.id in brought) or lines


def _neutralize_said(text: str) -> str:
    """Return a line whose text is neutral also after its labels are removed, so that no label hides markup."""
    while (clean := text.removesuffix(said := strip_label(text)) + neutralize(said)) != text:
        text = clean
    return text


def _refuse_claim(
    claim: Claim, cited: tuple[Citation, ...], why: str, step: ClaimStep, lane: Lane = Lane.NONE
) -> WeighedClaim:
    return WeighedClaim(JudgedClaim(claim, ClaimOutcome.REFUSED, cited=cited, lane=lane, why=why, step=step))


@dataclass(frozen=True, slots=True)
class Judging:
    """Hold the claims of a reply on their way through the steps.

    Attributes:
        context: the context of the judging.
        claims: the claims to judge.
        others: further questions for the reader, such as the class of a memory.
        inquiry: the reader's answers.
        done: the outcome of claims that are already judged.
        weighed: the weighed claims, kept because weighing is slow and does not depend on the reader's answers.
    """

    context: JudgingContext
    claims: tuple[Claim, ...]
    others: tuple[Question, ...] = ()
    inquiry: Inquiry = field(default_factory=Inquiry)
    done: tuple[JudgedClaim, ...] = ()
    weighed: tuple[WeighedClaim, ...] | None = field(default=None, compare=False, repr=False)

    def ask_reader(self) -> Generator[Ask, Reply, "Judging"]:
        """Ask the second reader every open question; return a copy with the answers."""
        if self.context.offline:
            return self
        if self.weighed is None:
            return (yield from replace(self, weighed=self._weigh_claims()).ask_reader())
        judges = self.context.judges
        lines = (line for piece in self.context.pieces.by_id.values() for line in piece.lines)
        spare = [line for line in lines if line.lane >= Lane.ASSISTANT][: reader.MOST_SPARE]
        inquiry = yield from reader.inquire(self._questions, judges.known, spare, judges.verify, self.inquiry.answers)
        return replace(self, inquiry=inquiry)

    @property
    def results(self) -> tuple[JudgedClaim, ...]:
        """Return the outcome of each claim."""
        return (*self.done, *map(reasons.add_day, map(self._settle_claim, self._weigh_claims())))

    def _weigh_claims(self) -> tuple[WeighedClaim, ...]:
        return tuple(map(self.context.weigh, self.claims)) if self.weighed is None else self.weighed

    def is_ended(self, newer: Question, scope: Question) -> bool:
        """Return True if, by the reader's answers, newer words replace a whole memory and are meant to last."""
        answer, lasts = self._answer(newer), self._answer(scope)
        is_newer = answer is not None and answer.verdict == reader.NEWER and not answer.lost
        return is_newer and lasts is not None and lasts.verdict == STANDING

    def kind_of(self, text: str) -> MemoryClass | None:
        """Return the class with which the reader labels the text of a memory; None without a label."""
        return self._kind(class_question(text))

    def _questions(self, answers: Mapping[str, ReaderAnswer | None]) -> list[Question]:
        """Return the open questions: first about truth, then about the classes of true claims and their memories."""
        weighed = self._weigh_claims()
        classes = [one for one in self.others if one.subject is Subject.CLASS]
        asked = [one for one in self.others if one.subject is not Subject.CLASS]
        asked += (question for one in weighed for question in one.questions)
        if opened := {one.key for one in asked} - answers.keys():
            labels = (one for held in weighed for one in held.labels)
            free = -len(opened) % (reader.MOST_CLAIMS - 1)  # places in the last batch besides its decoy
            return [*asked, *[one for one in dict.fromkeys((*classes, *labels)) if one.key not in answers][:free]]
        true = [one for one in weighed if _is_true(one, answers)]
        asked += (*classes, *(question for one in true for question in _labels(one, answers)))
        if any(one.key not in answers for one in asked):
            return asked
        for one in true:
            label = answers[one.kind.key] if one.kind is not None else None
            # An order stays an order, whatever the reader calls it, as in `_apply_support`.
            is_order = steering.is_order(strip_label(one.judged.text))
            is_open = label is not None and label.verdict in {MemoryClass.PROJECT, MemoryClass.LESSON} and not is_order
            if one.support is not None and not is_open and (own := self._own_words(one)):
                asked += own.questions
        return asked

    def _own_words(self, weighed: WeighedClaim) -> WeighedClaim | None:
        """Return the quotation of the user's words that a new claim cites; None if it cites nobody else."""
        claim, cited = weighed.judged.claim, weighed.judged.cited
        own = tuple(one for one in cited if is_of_user([one]))
        is_mixed = claim.core and not claim.olds and 0 < len(own) < len(cited)
        return self.context.quote(claim, neutralize(claim.text), own) if is_mixed else None

    # ── repair ───────────────────────────────────────────────────────────────────────────────────────────────────

    def fixable(self) -> tuple[JudgedClaim, ...]:
        """Return the refused claims that their author may reword once; only claims for the core are among them."""
        if self.context.offline or self.inquiry.unread:
            return ()
        refused = (one for one in self.results if one.outcome is ClaimOutcome.REFUSED)
        meant = (one for one in refused if one.claim.core and not one.claim.repaired)
        return tuple(one for one in meant if one.step in _MENDABLE and one.why != reasons.EMPTY)

    def replace_claims(self, claims: Sequence[Claim]) -> "Judging":
        """Return the judging of the reworded claims; all other claims keep their verdict."""
        back = {one.id for one in claims}
        done = tuple(one for one in self.results if one.claim.id not in back)
        return replace(self, claims=tuple(replace(one, repaired=True) for one in claims), done=done, weighed=None)

    # ── the reader's answers ─────────────────────────────────────────────────────────────────────────────────────

    def _settle_claim(self, weighed: WeighedClaim) -> JudgedClaim:
        judged = weighed.judged
        if judged.outcome is ClaimOutcome.REFUSED or not judged.claim.core:
            return judged
        scope = weighed.scope
        judged = self._apply_scope(judged, scope) if scope is not None else self._apply_support(judged, weighed)
        own = self._own_words(weighed) if judged.why == reasons.NOT_USER and not judged.core else None
        if own is not None:
            return self._settle_claim(own)
        if judged.outcome is ClaimOutcome.REFUSED or not judged.core or not judged.claim.ends:
            return judged
        return self._decide_ends(judged, weighed)

    def _answer(self, question: Question | None) -> ReaderAnswer | None:
        if question is None:
            return None
        return self.inquiry.answers.get(question.key) or self.context.judges.known(question.key)

    def _kind(self, question: Question | None) -> MemoryClass | None:
        answer = self._answer(question)
        return None if answer is None else answer.kind

    def _apply_scope(self, judged: JudgedClaim, asked: Question) -> JudgedClaim:
        cues = self.context.judges.cues
        scope = self._answer(asked)
        judged = replace(judged, kind=judged.kind or cues.kind(judged.text))
        if scope is not None:
            if scope.verdict != STANDING:
                why = f"{reasons.NOT_STANDING}: {scope.verdict}"
                return replace(judged, core=False, why=why, step=ClaimStep.READER)
            return judged
        # The offline backend has already chosen its offers by cues. With a model, each cited turn must pass the cues.
        said = [one.quotation() for one in judged.cited]
        stands = self.context.offline or all(map(cues.stands, said))
        stands = stands and not (self.context.offline and self.context.talk and any(map(cues.asks, said)))
        return judged if stands else replace(judged, core=False, why=reasons.NOT_STANDING)

    def _apply_support(self, judged: JudgedClaim, weighed: WeighedClaim) -> JudgedClaim:
        answer = self._answer(weighed.support)
        if weighed.support is not None and answer is None:
            return self._judge_unread(judged)
        if answer is not None and answer.verdict not in POSITIVE:
            return _refuse(judged, reasons.REASONS[answer.verdict])
        if answer is not None:
            judged = replace(judged, newer=answer.verdict == reader.NEWER, lost=answer.lost, step=ClaimStep.READER)
        changes = []
        for old in judged.claim.olds:
            why = self._may_not_change(judged, old, weighed)
            if why:
                return replace(_refuse(judged, why), step=ClaimStep.READER if why == reasons.LOSES else ClaimStep.LANE)
            changes.append(old.id)
        is_report = self.context.offline and judged.lane is Lane.ASSISTANT and not judged.claim.olds
        cues = self.context.judges.cues
        found = self._kind(weighed.kind) or cues.kind(strip_label(judged.text), is_report=is_report)
        if steering.is_order(strip_label(judged.text)):
            found = MemoryClass.RULE  # an order is a rule, whatever the reader says
        is_brought = has_new_evidence(judged.cited)
        replaced = {old.id for old in judged.claim.olds}
        is_part = not is_brought and any(one.piece.id not in replaced for one in judged.cited)
        if found is MemoryClass.RULE and is_part and weighed.support is not None and not _is_merge(judged):
            return replace(_refuse(judged, reasons.NOT_USER), step=ClaimStep.LANE)  # the claim rewords a part of a rule
        # The lane must suit both the class that the author gave and the class of the text.
        is_fit = all(may_change(judged.lane, kind) for kind in (found, judged.kind or found))
        if not is_fit and (is_brought or not changes):
            return replace(judged, core=False, why=reasons.NOT_USER, step=ClaimStep.LANE)
        return replace(judged, changes=tuple(changes), kind=judged.kind or found)

    def _may_not_change(self, judged: JudgedClaim, old: Old, weighed: WeighedClaim) -> str:
        """Return why a claim may not change a memory; empty if it may.

        A text that cites only memories adds no new statement, but it may not lower the user's words to another lane. A
        rule changes only by newer words of the user, or in a merge that loses nothing. An older statement may add to
        other memories, but not change them. The statement itself may be reworded if nothing is lost.
        """
        kind = self._class_of(old, weighed)
        is_rule = kind is MemoryClass.RULE
        lacks_words = measure_overlap(old.text, judged.text) < 1
        if _is_elsewhere(old, judged):
            return reasons.NOT_NEWER
        is_brought = has_new_evidence(judged.cited)
        is_new = is_brought and is_newer(judged.cited, old)
        if not is_brought:
            lane = next((one.lane for one in judged.cited if one.piece.id == old.id), judged.lane)
            is_lowered = judged.lane < lane and not may_change(judged.lane, kind)
            if is_lowered or (is_rule and not _is_merge(judged)):
                return reasons.NOT_USER
        elif not may_change(judged.lane, kind):
            return reasons.NOT_USER
        elif not is_new and (is_rule or judged.newer or (lacks_words and reasons.is_older(judged.cited, old))):
            return reasons.OLDER
        is_reworded = not is_new and (kind is MemoryClass.PERSON or not _is_merge(judged))
        return reasons.LOSES if judged.lost and (is_rule or is_reworded) else ""

    def _class_of(self, old: Old, weighed: WeighedClaim) -> MemoryClass:
        asked = weighed.kinds.get(old.text, class_question(old.text))
        return old.kind or self._kind(asked) or self.context.judges.cues.kind(old.text)

    def _judge_unread(self, judged: JudgedClaim) -> JudgedClaim:
        """Return the part of a claim that may be kept without a reader: a duplicate, or the user's own words."""
        claim = judged.claim
        said = normal.normalize(strip_label(judged.text))
        same = [normal.normalize(strip_label(old.text)) == said for old in claim.olds]
        if claim.olds and is_verbatim(judged.text, judged.cited) and (self.context.offline or all(same)):
            return replace(judged, changes=tuple(old.id for old in claim.olds), step=ClaimStep.QUOTE)
        own = tuple(one for one in judged.cited if not one.piece.id.startswith("m"))
        if own and is_of_user(own) and (self.inquiry.unread or self.context.offline):
            weighed = self.context.quote(replace(claim, olds=()), neutralize(claim.text), own)
            return replace(self._settle_claim(weighed), claim=claim)
        return _refuse(judged, reasons.NOT_READ)

    def _decide_ends(self, judged: JudgedClaim, weighed: WeighedClaim) -> JudgedClaim:
        """Decide which of the memories declared superseded a claim ends: those that get a newer value."""
        ended, why = [], ""
        for old in judged.claim.ends:
            answer = self._answer(weighed.ends[old.id])
            kind = self._class_of(old, weighed)
            needs_answer = old.guessed or not self.context.offline
            if needs_answer and answer is None:
                why = why or reasons.NOT_READ
            elif needs_answer and answer is not None and answer.verdict != reader.NEWER:
                why = reasons.REASONS.get(answer.verdict, reasons.NOT_NEWER)
            elif _is_elsewhere(old, judged):
                why = reasons.NOT_NEWER
            elif not may_change(judged.lane, kind):
                why = reasons.NOT_USER
            elif not is_newer(judged.cited, old):
                why = reasons.OLDER
            else:
                ended.append(old.id)
        return replace(judged, changes=(*judged.changes, *ended), ends_why=why)


def _is_true(weighed: WeighedClaim, answers: Mapping[str, ReaderAnswer | None]) -> bool:
    """Return True if the reader supports a claim, or if no question about its truth is needed."""
    answer = answers[weighed.support.key] if weighed.support is not None else None
    return weighed.support is None or (answer is not None and answer.verdict in POSITIVE)


def _labels(weighed: WeighedClaim, answers: Mapping[str, ReaderAnswer | None]) -> Iterator[Question]:
    """Yield the questions about the classes of a true claim and its memories, also of a memory that loses something."""
    yield from weighed.labels
    answer = answers[weighed.support.key] if weighed.support is not None else None
    if answer is not None and answer.lost:
        yield from (class_question(old.text) for old in weighed.judged.claim.olds if old.kind is None)


def _is_elsewhere(old: Old, judged: JudgedClaim) -> bool:
    """Return True if neither the claim nor its other citations share a word with a memory.

    New words of the user may share none: "We use Postgres now." replaces "The database is MySQL."
    """
    new = [line.text for one in judged.cited if not one.piece.id.startswith("m") for line in one.evidence]
    if judged.lane is Lane.USER and measure_overlap(judged.text, "\n".join(new)):
        return False
    others = (line.text for one in judged.cited for line in one.evidence if one.piece.text != old.text)
    return bool(list_stems(old.text)) and not measure_overlap(old.text, "\n".join((judged.text, *others)))


def _is_merge(judged: JudgedClaim) -> bool:
    """Return True if a claim merges several memories, or equals another memory that stays."""
    olds = {old.id for old in judged.claim.olds}
    others = (one.piece for one in judged.cited if one.piece.id not in olds)
    return len(olds) > 1 or any(normal.normalize(one.text) == normal.normalize(judged.text) for one in others)


def _refuse(judged: JudgedClaim, why: str) -> JudgedClaim:
    return replace(judged, outcome=ClaimOutcome.REFUSED, text="", core=False, why=why, step=ClaimStep.READER)
