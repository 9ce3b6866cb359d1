"""Build a new core from the old one and the days since the last dream; lose nothing and invent nothing.

`dream_reply` reads the reply. Its bullets are judged as claims (`judging`) and become operations by id
(`consolidation`). All guards of the ledger decide about them. The accepted ones have positions in the order of the
reply. If too much would be lost, only the additions of the reply are kept. The same inputs and the same replies give
the same edits, except for the ids of new memories.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any

from memoryd.jobs import dream_reply, job
from memoryd.jobs.claims import Claim, ClaimOutcome, JudgedClaim, count_claims
from memoryd.jobs.consolidation import DreamConsolidation, DreamPlan, consolidate, material_of, plan
from memoryd.jobs.dream_inputs import UNKNOWN_ORIGIN, DailyEntry, DreamInputs, EarlierMemory
from memoryd.jobs.dream_reply import Declaration
from memoryd.jobs.judging import Judging, class_question, context_of, end_questions
from memoryd.jobs.pieces import Pieces
from memoryd.jobs.reader import Question
from memoryd.jobs.repair import judge
from memoryd.ledger import guards
from memoryd.ledger.accounting import Rewrite, find_dispositions, list_archivals
from memoryd.ledger.guards import Caller, Guard, JudgedOperations, Refusal, RefusedOperation, RefusedRun
from memoryd.ledger.lane import Lane
from memoryd.ledger.memory import Ending, Memory, MemoryKind
from memoryd.ledger.operation import Add, Change, Delete, Disposition, Merge, Operation, Update, apply, ids_of
from memoryd.ledger.projection import assign_places
from memoryd.text.neutral import neutral_lines, neutralize
from memoryd.tiers import core, diary

JOB = "dream"
_FORM = "[MEMORY]\n- The database is Postgres 16 on the host Marvin. [m2, d4.1]"
_LONGEST_CLAIM = 300  # the most characters of a claim in the diary
_LONGEST_DIARY = 8_000  # the most characters of the model's own words in the diary
_MOST_TOLD = 40  # the most refusals, and the most ended memories, that a diary lists one by one
_MOST_IDS = 10  # the most ids that a diary shows for one refusal
_MOST_ROWS = 200  # the most refusals that a run report lists one by one
_TOO_MUCH = "too much of the core would be lost within 30 days"
_SPARE = 200  # a reply may have two bullets for each piece of the material, and this many more
_DEFAULT_IMPORTANCE = 0.5
_BY_HAND = 0.9  # importance of a bullet that a person has written into the file


@dataclass(frozen=True, slots=True)
class _CoreDecision:
    """Hold the operations on the core, the refusals, and the core after the operations."""

    operations: tuple[Operation, ...]
    rewrite: Rewrite
    refusals: tuple[Refusal, ...]
    after: Mapping[str, Memory]  # every memory that is live afterwards
    places: Sequence[tuple[str | None, str]]
    over: int = 0  # bullets above the limit


def decide(inputs: DreamInputs) -> job.Steps:
    """Run a dream: ask about the core and the daily entries, judge the reply, and return the end of the job.

    Without a daily entry, it asks nothing. A reply that cannot be used changes nothing.
    """
    if not inputs.entries:
        return job.NothingToDo("no daily file has content", receipt=_receipt(inputs))
    answer: job.Reply = yield _question(inputs)
    parsed = dream_reply.parse(answer)
    if isinstance(parsed, job.RejectedReply):
        return parsed
    count = sum(len(section.bullets) for section in parsed.sections)
    if count > 2 * (len(inputs.earlier) + len(inputs.entries)) + _SPARE:
        return job.RejectedReply("the reply has far more bullets than the material can support")
    offline = answer.backend == job.OFFLINE
    planned = plan(parsed, inputs.earlier, inputs.entries, offline=offline)
    days = {**{one.id: one.said_on for one in inputs.earlier}, **{one.id: one.day for one in inputs.entries}}
    pieces = Pieces(material_of(inputs))
    context = context_of(pieces, days, inputs.judges, offline=offline)
    context = replace(context, talk=_is_talk(inputs))
    over = {one.id: end for one in planned.archived if (end := _end(inputs, pieces, one))}
    texts = {one.id: one.memory.content for one in inputs.earlier}
    others = (
        *(class_question(texts[one.id]) for one in planned.archived),
        *(asked for pair, _ in over.values() for asked in pair),
    )
    judging = yield from judge(Judging(context, planned.claims, others), _FORM, _parse_repair)
    ended = {name: lane for name, (asked, lane) in over.items() if judging.is_ended(*asked)}
    return _finish(inputs, parsed, answer, planned, judging, ended)


def _question(inputs: DreamInputs) -> job.Ask:
    material = [_quote_memory(one) for one in inputs.earlier]
    material += [
        job.QuotedPiece(one.id, "daily", one.origin, f"{one.day}T{one.clock}" if one.clock else f"{one.day}", one.text)
        for one in inputs.entries
    ]
    headings = _headings(inputs.earlier)
    marks = [f"{one.id} {mark}" for one in inputs.earlier if (mark := _marks(one.memory))]
    given = [("today", inputs.today.isoformat()), ("bullets", str(inputs.max_bullets))]
    given += [("work", "yes")] if not _is_talk(inputs) else []
    given += [("headings", "\n".join(headings))] if headings else []
    given += [("marks", "\n".join(marks))] if marks else []
    return job.Ask(JOB, inputs.instructions, tuple(material), tuple(given))


def _is_talk(inputs: DreamInputs) -> bool:
    return not any(entry.at_work for entry in inputs.entries)


def _headings(earlier: Sequence[EarlierMemory]) -> list[str]:
    """Return the headings in the order of the core, each with the range of its memories, such as "m1-m9 People"."""
    runs = [(heading or "", list(held)) for heading, held in groupby(earlier, key=lambda one: one.memory.heading)]
    ends = [(held[0].id, held[-1].id, heading) for heading, held in runs if heading]
    return [f"{first}-{last} {heading}" if first != last else f"{first} {heading}" for first, last, heading in ends]


def _parse_repair(answer: job.Reply) -> list[Claim]:
    back = dream_reply.parse(answer)
    if isinstance(back, job.RejectedReply):
        return []
    return [Claim("", one.text, one.cites) for section in back.sections for one in section.bullets]


def _end(inputs: DreamInputs, pieces: Pieces, declared: Declaration) -> tuple[tuple[Question, Question], Lane] | None:
    """Return the questions whether newer entries that the reply names end a memory, and the lowest lane of the entries.

    Return None if the reply names no newer entry.
    """
    memory = next(one for one in inputs.earlier if one.id == declared.id)
    found, _ = pieces.find_cited([one for one in declared.by if one.startswith("d")], memory.memory.content)
    cited = [one for one in found if one.said_at > memory.said_at]
    if not cited:
        return None
    return end_questions(cited, memory.memory.content), min(one.lane for one in cited)


def _finish(
    inputs: DreamInputs,
    parsed: dream_reply.ParsedDreamReply,
    answer: job.Reply,
    planned: DreamPlan,
    judging: Judging,
    ended: Mapping[str, Lane],
) -> job.Done | job.RejectedReply:
    # A claim that may not enter the core is already in its daily file, so the dream does not write it.
    found = tuple(one if one.core else replace(one, outcome=ClaimOutcome.REFUSED) for one in judging.results)
    meant = consolidate(planned, found, inputs, judging.kind_of, ended)
    if parsed.sections and not meant.places and meant.faults:
        return job.RejectedReply("nothing in the reply is supported by what it cites")
    done = _Dream(inputs, parsed, meant, answer, found).step()
    return replace(done, decide_again=lambda fresh: _finish(fresh, parsed, answer, planned, judging, ended))


def _quote_memory(one: EarlierMemory) -> job.QuotedPiece:
    ranks = {"user": 3, "assistant": 2}
    origins = [source.origin for source in one.memory.sources]
    lowest = min(origins, key=lambda origin: ranks.get(origin, 0), default="memory")
    return job.QuotedPiece(one.id, "memory", lowest, one.local_at, one.memory.content)


def _marks(memory: Memory) -> str:
    told = ["constitutional"] if memory.constitutional else []
    told += [] if memory.importance is None else [f"importance={memory.importance:.2f}"]
    told += [f"category={memory.category}"] if memory.category else []
    return " ".join(told)


def _receipt(inputs: DreamInputs, **more: Any) -> dict[str, Any]:
    shown = {"entries": len(inputs.entries), "earlier": len(inputs.earlier)}
    return {JOB: {**inputs.told.get(JOB, {}), **shown, **more}, **{k: v for k, v in inputs.told.items() if k != JOB}}


# ── deciding ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Dream:
    """Turn one judged reply into a decision about the core, and report this decision."""

    inputs: DreamInputs
    parsed: dream_reply.ParsedDreamReply
    meant: DreamConsolidation
    reply: job.Reply
    claims: Sequence[JudgedClaim]

    @cached_property
    def core_before(self) -> dict[str, Memory]:
        """Return the live core before the dream, by memory id."""
        known = self.inputs.context.memories.values()
        return {one.id: one for one in known if one.kind is MemoryKind.CORE and one.is_live}

    def step(self) -> job.Done:
        whole = self._decide_whole()
        runs = [one for one in whole.refusals if isinstance(one, RefusedRun)]
        decided = self._additions(whole.refusals) if runs else whole
        refused = self._refused_all(decided)
        if refused:
            decided = _CoreDecision((), decided.rewrite, (*decided.refusals, refused), self.core_before, ())
        return self._finish(decided, runs, refused)

    def _decide_whole(self, spared: Collection[str] = ()) -> _CoreDecision:
        """Decide on the whole reply, without the operations that touch the memories in `spared`.

        If the deletion limit refuses the run, the decision is repeated with the memories that it names spared.
        """
        shown = [one.memory.id for one in self.inputs.earlier if one.memory.id in self.core_before]
        protected = {one for one in shown if self.core_before[one].constitutional}
        mentioned = {*shown} if self.parsed.keeps_rest else self.meant.mentioned | protected
        rewrite = Rewrite(shown, mentioned, self.inputs.unmentioned)
        operations = [*self.meant.operations, *list_archivals(rewrite, self.meant.operations)]
        judged = self._judge(operations, rewrite, spared)
        runs = [one for one in judged.refusals if isinstance(one, RefusedRun)]
        if runs:
            if not spared and all(one.guard is Guard.EROSION for one in runs):
                rest = self._decide_whole({memory_id for one in runs for memory_id in one.memory_ids})
                return rest if rest.operations else replace(rest, refusals=judged.refusals)
            return _CoreDecision((), rewrite, judged.refusals, self.core_before, ())
        surplus, over = self._surplus(judged.accepted)
        rewrite = replace(rewrite, mentioned={*rewrite.mentioned, *(one.id for one in surplus)})
        accepted = (*judged.accepted, *surplus)
        return _CoreDecision(accepted, rewrite, judged.refusals, self._apply(accepted), self.meant.places, over)

    def _additions(self, refusals: Sequence[Refusal]) -> _CoreDecision:
        """Decide only on the reply's additions, which go below the bullets of the present core."""
        rewrite = Rewrite([*self.core_before], set())
        added = [one for one in self.meant.operations if isinstance(one, Add) and one.id in self.meant.additions]
        accepted = self._judge(added, rewrite).accepted
        ids = {one.id for one in accepted if isinstance(one, Add)}
        places = [place for place in self.meant.places if place[1] in ids]
        over = max(0, len(self.core_before) + len(ids) - self.inputs.max_bullets)
        return _CoreDecision(accepted, rewrite, tuple(refusals), self._apply(accepted), places, over)

    def _judge(
        self, operations: Sequence[Operation], rewrite: Rewrite, spared: Collection[str] = ()
    ) -> JudgedOperations:
        def spare(operation: Operation) -> RefusedOperation | None:
            hit = tuple(one for one in ids_of(operation) if one in spared)
            return RefusedOperation(Guard.EROSION, hit, _TOO_MUCH, operation=operation) if hit else None

        return guards.judge(replace(self.inputs.context, rewrite=rewrite), operations, [self.meant.check, spare])

    def _apply(self, operations: Sequence[Operation]) -> dict[str, Memory]:
        after = self.core_before | {change.memory_id: change.after for change in self._changes(operations)}
        return {memory_id: memory for memory_id, memory in after.items() if memory.is_live}

    def _changes(self, operations: Sequence[Operation]) -> list[Change]:
        context = self.inputs.context
        return apply(
            context.memories,
            operations,
            agent_id=context.agent_id,
            now=self.inputs.now,
            new_hex=self.inputs.new_hex,
            taken=self.inputs.taken,
        )

    def _surplus(self, accepted: Sequence[Operation]) -> tuple[list[Delete], int]:
        """Return deletions of the least important surplus memories, and how many surplus memories stay."""
        context = self.inputs.context
        after = self._apply(accepted)
        over = len(after) - self.inputs.max_bullets
        if over <= 0:
            return [], 0
        start = sum(map(context.count_tokens, (one.content for one in self.core_before.values())))
        left = sum(map(context.count_tokens, (one.content for one in after.values())))
        floor = Fraction(str(context.limits.retention_floor)) * start
        replacing = {new for one in accepted if isinstance(one, Delete) for new in one.successors}
        touched = {one.id for one in accepted if isinstance(one, Update)}
        told = guards.erode(context, self._changes(accepted))
        spare = told.budget - told.after
        gone: list[Delete] = []
        for memory in sorted((after[one] for one in self.core_before if one in after), key=_weight):
            if len(gone) == over:
                break
            tokens = context.count_tokens(memory.content)
            is_free = not memory.constitutional and memory.id not in replacing | touched
            if is_free and tokens <= spare and left - tokens >= floor:
                spare, left = spare - tokens, left - tokens
                gone.append(Delete(memory.id, Ending.ARCHIVED))
        return gone, over - len(gone)

    def _refused_all(self, decided: _CoreDecision) -> RefusedRun | None:
        """Return why the whole reply is refused; None if it is not."""
        made_up = [one for one in decided.refusals if one.guard is Guard.GROUNDING]
        if not (self.inputs.refuses_ungrounded and made_up):
            return None
        ids = tuple(dict.fromkeys(memory_id for one in made_up for memory_id in one.memory_ids))
        return RefusedRun(Guard.GROUNDING, ids, "the reply says more than its sources", {"bullets": len(made_up)})

    # --- run report and diary ---------------------------------------------------------------------------------------

    def _finish(self, decided: _CoreDecision, runs: Sequence[RefusedRun], refused: RefusedRun | None) -> job.Done:
        operations = () if refused else tuple(self._place_operations(decided))
        ends = Counter(str(how) for how in find_dispositions(decided.rewrite, decided.operations).values())
        added = sum(isinstance(one, Add) for one in decided.operations)
        told = {
            **dict(self.meant.counts),
            "unreadable": self.parsed.unreadable,
            "dispositions": {**dict.fromkeys(map(str, Disposition), 0), **ends},
            "added": added,
            "refusals": dict(sorted(Counter(str(one.guard) for one in decided.refusals).items())),
            "after": len(decided.after),
            "over_max_bullets": decided.over,
            "claims": count_claims(self.claims),
            "unsure": len(self._list_unsure()),
        }
        edits: list[job.JobEdit] = []
        if operations:
            seen = {one.id: one.content for one in self.core_before.values()}
            edits.append(job.RewriteCore(operations, Caller.REWRITE, seen, rewrite=decided.rewrite))
        edits.append(job.AppendDiary(self.inputs.today, self.inputs.clock, self._diary(told, decided)))
        why = None
        if refused:
            why = f"refused: {refused.guard}: {refused.why}"
        elif runs:
            why = f"the rewrite was refused: {'; '.join(f'{one.guard}: {one.why}' for one in runs)}; {added} added"
        receipt = _receipt(self.inputs, **told)
        if decided.refusals:
            ranked = sorted(decided.refusals, key=lambda one: not isinstance(one, RefusedRun))
            receipt["refused"] = guards.describe_refusals(ranked[:_MOST_ROWS])
        rows = tuple(one.row() for one in self.claims)
        return job.Done(tuple(edits), receipt, why, declined=refused is not None, claims=rows)

    def _list_unsure(self) -> list[DailyEntry]:
        """Return the entries whose author is unknown; they stay in their file until a person confirms them."""
        return [one for one in self.inputs.entries if one.origin == UNKNOWN_ORIGIN]

    def _not_kept(self) -> Iterator[str]:
        """Yield a line with the reason for each claim that is still refused; text only from outside is left out."""
        for one in self.claims:
            if one.claim.core and not one.core and one.outcome is ClaimOutcome.REFUSED:
                text = neutralize(one.claim.text) if one.lane > Lane.OUTSIDE else "(from outside)"
                yield f"- Not kept: {text[:_LONGEST_CLAIM]}: {neutralize(one.why)}."

    def _diary(self, told: Mapping[str, Any], decided: _CoreDecision) -> str:
        """Return the diary entry: memoryd's own counts, then the model's words."""
        seen = self.inputs.told.get(JOB, {}).get("dailies", {})
        unsure = (neutralize(one.text)[:_LONGEST_CLAIM] for one in self._list_unsure())
        lines = [
            _counts(len(self.core_before), told),
            f"- Sources: {len(self.inputs.entries)} entries of {', '.join(seen) or 'no file'}.",
            _describe_refusal(told),
            *_list_first([_told_of(one) for one in decided.refusals]),
            *_list_first(list(self._not_kept())),
            *_list_first([f"- Unsure, nobody knows who wrote it: {text}" for text in unsure]),
            *_list_first([f"- {how}: {memory_id}{reason}" for memory_id, how, reason in self._list_ended(decided)]),
            f"- Tokens: {self.reply.tokens_in} in, {self.reply.tokens_out} out ({self.reply.backend}).",
            *([f"- Bullets over dream.max_bullets: {told['over_max_bullets']}."] if told["over_max_bullets"] else []),
        ]
        prose = neutral_lines(self.parsed.diary[:_LONGEST_DIARY]) or "The model wrote nothing."
        return "\n".join([*lines, "", diary.IMPRESSION, "", prose])

    def _list_ended(self, decided: _CoreDecision) -> Iterator[tuple[str, str, str]]:
        """Yield the id, the ending and the stated reason of each memory that ended."""
        names = {one.id: one.memory.id for one in self.inputs.earlier}
        reasons = {names[one.id]: one.reason for one in self.parsed.declared if one.id in names}
        for one in decided.operations:
            if isinstance(one, Delete):
                successors = f" by {', '.join(one.successors)}" if one.successors else ""
                reason = neutralize(reasons.get(one.id, ""))[:200]
                yield one.id, str(one.ended_as).capitalize(), f"{successors}{f': {reason}' if reason else ''}"
            elif isinstance(one, Merge):
                yield ", ".join(one.ids), "Merged", f" into {one.id}"

    # --- the order --------------------------------------------------------------------------------------------------

    def _sections(self, decided: _CoreDecision) -> list[tuple[str, list[str]]]:
        """Return each heading with the ids of the memories below it.

        Memories that the reply places come in the order of the reply. All others stay behind their predecessor in the
        old file.
        """
        after = decided.after
        found: dict[str, tuple[str, list[str]]] = {}
        home: dict[str, str] = {}
        for heading, memory_id in decided.places:
            memory = after.get(memory_id)
            if memory is not None and memory_id not in home and not memory.constitutional:
                name = (memory.heading or "") if heading is None else heading
                home[memory_id] = core.normalize(name)
                found.setdefault(home[memory_id], (name, []))[1].append(memory_id)
        stays: dict[tuple[str, str | None], list[str]] = defaultdict(list)
        above: dict[str, str] = {}  # heading → the last memory below it that has a place in the reply
        for memory_id, old in self.core_before.items():
            key = core.normalize(old.heading or "")
            if home.get(memory_id) == key:
                above[key] = memory_id
            elif memory_id in after and memory_id not in home:
                found.setdefault(key, (old.heading or "", []))
                stays[key, above.get(key)].append(memory_id)
        return [
            (name, [*stays[key, None], *(one for head in ids for one in (head, *stays[key, head]))])
            for key, (name, ids) in found.items()
        ]

    def _place_operations(self, decided: _CoreDecision) -> Iterator[Operation]:
        """Yield the operations with the heading and position that each memory gets in the file."""
        order, was = self._order(decided), self.core_before
        numbers = assign_places([was[one].position if one in was else None for _, one in order])
        at = {one: (heading, number) for (heading, one), number in zip(order, numbers, strict=True)}
        for operation in decided.operations:
            if isinstance(operation, Add | Merge | Update) and operation.id in at:
                heading, number = at.pop(operation.id)
                yield replace(operation, heading=heading, position=number)
            else:
                yield operation
        for memory_id, (heading, number) in at.items():
            memory = decided.after[memory_id]
            is_moved = (memory.heading or "") != heading or memory.position != number
            if is_moved and not memory.constitutional:
                yield Update(memory_id, heading=heading, position=number)

    def _order(self, decided: _CoreDecision) -> list[tuple[str, str]]:
        """Return the heading and the id of each memory, in the order of the file.

        Headings of the core keep their order, and several of one name keep their own memories. A new heading follows
        the one before it in the sections.
        """
        parts: dict[str, list[tuple[tuple[int, ...], str]]] = {}  # by normal heading: the rank and heading of each part
        home: dict[str, tuple[int, ...]] = {}
        for number, (heading, held) in enumerate(groupby(self.core_before.values(), lambda one: one.heading or "")):
            parts.setdefault(core.normalize(heading), []).append(((number,), heading))
            home |= dict.fromkeys((one.id for one in held), (number,))
        sections = [(core.normalize(name), name, ids) for name, ids in self._sections(decided)]
        found: list[tuple[tuple[int, ...], str, str]] = []
        first = next((parts[key][0][0][0] for key, *_ in sections if key and key in parts), len(home))
        last: tuple[int, ...] = (first - 1, 2)
        for key, name, ids in sections:
            own = parts.setdefault(key, [((*last, 1) if key else (-1,), name)])
            at = 0
            for memory_id in ids:
                at = max(at, *(place for place, (one, _) in enumerate(own) if one == home.get(memory_id)), 0)
                found.append((*own[at], memory_id))
            last = own[at][0]
        return [(heading, memory_id) for _, heading, memory_id in sorted(found, key=itemgetter(0))]


def as_passed(step: job.Done, changes: Sequence[Change], refusals: Sequence[Refusal], day: str) -> job.Done:
    """Return a proposed dream whose report and diary give the number of changed memories and the refusals.

    In the diary, these lines are above those of the proposal.

    Args:
        step: the decision.
        changes: the accepted changes.
        refusals: the refused changes.
        day: the local day, YYYY-MM-DD.
    """
    changed = len({one.memory_id for one in changes})
    told = {"changed": changed, "refusals": dict(sorted(Counter(str(one.guard) for one in refusals).items()))}
    above = [f"- Accepted on {day}. The memory had changed since. Memories added, changed or ended: {changed}."]
    above += [_describe_refusal(told), *_list_first([_told_of(one) for one in refusals]), "- The proposal was:"]
    edits = (
        replace(one, body="\n".join([*above, one.body])) if isinstance(one, job.AppendDiary) else one
        for one in step.edits
    )
    return replace(step, edits=tuple(edits), receipt={**step.receipt, JOB: told})


def _counts(before: int, told: Mapping[str, Any]) -> str:
    ends = ", ".join(f"{count} {how}" for how, count in told["dispositions"].items())
    return f"- Memories: {before} before, {told['after']} after; {ends}, {told['added']} added."


def _describe_refusal(told: Mapping[str, Any]) -> str:
    return f"- Refused: {', '.join(f'{count} by {guard}' for guard, count in told['refusals'].items()) or 'nothing'}."


def _told_of(refusal: Refusal) -> str:
    ids = ", ".join(refusal.memory_ids[:_MOST_IDS]) or "a new bullet"
    return f"- Refused by {refusal.guard}: {ids}: {neutralize(refusal.why)}."


def _list_first(lines: list[str]) -> list[str]:
    """Return the first `_MOST_TOLD` lines, followed by a line with the number of the others."""
    more = len(lines) - _MOST_TOLD
    return lines if more <= 0 else [*lines[:_MOST_TOLD], f"- … and {more} more; the run report counts them."]


def _weight(memory: Memory) -> tuple[float, str, str]:
    """Return the sort key of a memory, by importance and then by age; the least important memory comes first."""
    by_hand = not memory.sources
    importance = memory.importance if memory.importance is not None else _BY_HAND if by_hand else _DEFAULT_IMPORTANCE
    return importance, memory.origin_at or memory.created_at, memory.id
