"""Hold the progress of a refinement: its start, its calls, its changes, and its end.

The progress is a value, and each call makes a new one. It works in the same way for a model that is asked and for an
agent that calls the tools itself. The run report shows tools, ids, token counts and verdicts, never a text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memoryd.gauge.estimate import estimate
from memoryd.jobs import condensation, refinement_tools
from memoryd.jobs.claims import LOSES, NOT_READ, STAYS, ClaimOutcome, ClaimStep, Cues
from memoryd.jobs.condensation import CondensationResult
from memoryd.jobs.job import ChangeResult, Operate, ToolCall
from memoryd.jobs.reader import ReaderAnswer
from memoryd.jobs.refinement_tools import CompleteCall, Misuse, RefinementChange, SearchCall
from memoryd.ledger.guards import Caller, Guard, RefinementStart, core_tokens
from memoryd.ledger.memory import Memory
from memoryd.ledger.operation import Delete, Merge, Update
from memoryd.text.neutral import neutralize

MOST_REPEATS = 3  # identical calls in a row that end it, because another one would have the same result
MOST_TOLD = 300  # the most calls that the run report lists one by one
MOST_FOUND = 20
_LONGEST_HEADING = 60  # characters that are shown
COMPLETED = "completed"
CANCELLED = "cancelled by hand"
BREAKER = "breaker"
BREAKERS = frozenset({Guard.RETENTION, Guard.EROSION})
_LATE = "the refinement is over: nothing more is done"
_LEAVE = "leave it, or make another call"
_ALLOWED = {
    LOSES: "keep it too, or leave them as they are; a merge keeps all of a rule, a rewording all names and numbers",
    NOT_READ: "without a second reader, only the exact text of one of these memories may replace them; else leave them",
}
_SAY = "say only what these memories say, of all of them; merge fewer at once"


@dataclass(frozen=True, slots=True)
class RefinementSession:
    """Hold the progress of one refinement.

    Attributes:
        mode: `normal`, `dedup` or `strict`.
        tokens: the tokens of the live core at the beginning.
        ids: the ids of the core memories that were live at the beginning.
        floor: the tokens of these memories that must remain.
        most_mutations: the largest number of operations.
        most_steps: the largest number of steps.
        mutations: the number of operations done.
        steps: the number of calls made and of answers without a call.
        last: the digest of the last call, and how often it came in a row.
        timeline: for each call its tool, ids, tokens before and after, and verdict.
        untold: the number of calls that do not fit into the timeline.
        ended: how it ended: `completed`, `breaker`, or what interrupted it; None while it runs.
        why: for `breaker`, the guard and its numbers.
        summary: the model's own summary; it goes into the journal, not into the run report.
        claims: the verdict on each new text, with the text; not in the run report either.
    """

    mode: str
    tokens: int
    ids: frozenset[str]
    floor: int
    most_mutations: int
    most_steps: int
    mutations: int = 0
    steps: int = 0
    last: tuple[str, int] = ("", 0)
    timeline: tuple[Mapping[str, Any], ...] = ()
    untold: int = 0
    ended: str | None = None
    why: str | None = None
    summary: str | None = None
    claims: tuple[Mapping[str, Any], ...] = ()

    def list_changes(self, calls: Sequence[ToolCall], core: Mapping[str, Memory]) -> tuple[RefinementChange, ...]:
        """Return the changes that calls ask for. A second reader is asked about them before they are carried out."""
        if self.ended is not None or self.mutations >= self.most_mutations:
            return ()
        asked = (refinement_tools.read(call, core, self.mode) for call in calls[: self.most_steps])
        return tuple(one for one in asked if isinstance(one, RefinementChange))

    def call(
        self, call: ToolCall, core: Mapping[str, Memory], answers: Mapping[str, ReaderAnswer | None], cues: Cues
    ) -> tuple[RefinementSession, SearchCall | RefinementChange | str]:
        """Take a call; return the new progress, and a search or a change to carry out or the text of the answer.

        Args:
            call: the call as it was made.
            core: the live core now, by id.
            answers: the answers of a second reader about the texts of calls, by the key of the question.
            cues: decides about a class if no reader does.
        """
        counted = self if self.ended is not None else self.step()
        if counted.ended is not None:
            return counted.note_call(call.name, "late"), _render_answer(error=_LATE)
        digest = hashlib.sha256(f"{call.name} {call.arguments}".encode(errors="replace")).hexdigest()
        repeats = counted.last[1] + 1 if digest == counted.last[0] else 1
        counted = replace(counted, last=(digest, repeats))
        if repeats > MOST_REPEATS:
            ended = counted.end("a loop of identical calls").note_call(call.name, "loop")
            return ended, _render_answer(error="the same call again and again: the refinement is over")
        asked = refinement_tools.read(call, core, self.mode)
        if isinstance(asked, RefinementChange) and self.mutations >= self.most_mutations:
            why = f"{self.most_mutations} changes are all that one refinement may make"
            asked = Misuse(why, f"call {refinement_tools.COMPLETE}", str(Guard.CAP), asked.ids)
        deleted = asked.operation if isinstance(asked, RefinementChange) else None
        if isinstance(deleted, Delete) and condensation.is_rule(core[deleted.id], answers, cues):
            asked = Misuse(STAYS, "leave it; only a person may delete it", str(ClaimStep.GUARD), (deleted.id,))
        if isinstance(asked, Misuse):
            text = _render_answer(error=asked.why, allowed=asked.allowed)
            return counted.note_call(call.name, asked.verdict, asked.ids), text
        if isinstance(asked, CompleteCall):
            done = replace(counted, ended=COMPLETED, summary=asked.summary)
            return done.note_call(call.name, "done"), _render_answer(ok=True)
        if isinstance(asked, RefinementChange) and asked.draft is not None:
            return counted.take_condensation(call.name, asked, condensation.judge_draft(asked.draft, answers, cues))
        return counted, asked

    def take_condensation(
        self, name: str, cut: RefinementChange, found: CondensationResult
    ) -> tuple[RefinementSession, RefinementChange | str]:
        """Take the verdict on a new text; return the progress, and the change with its losses or the answer's text."""
        told = replace(self, claims=(*self.claims, found.row())[-MOST_TOLD:])
        if found.why:
            token = f": {neutralize(found.token)}" if found.token else ""
            say = _SAY if len(cut.ids) > 1 else "say only what this memory says"
            text = _render_answer(error=f"{found.why}{token}", allowed=_ALLOWED.get(found.why, say))
            return told.note_call(name, str(found.step), cut.ids), text
        operation = cut.operation
        if isinstance(operation, Merge):
            operation = replace(operation, lost=found.lost)
        elif isinstance(operation, Update) and found.lost is not None:
            operation = replace(operation, lost=sum(found.lost.values()))
        return told, replace(cut, operation=operation)

    def step(self) -> RefinementSession:
        """Count a call, or an answer without a call; one step too many ends the refinement."""
        counted = replace(self, steps=self.steps + 1)
        return counted.end("out of steps") if counted.steps > self.most_steps else counted

    def end(self, how: str) -> RefinementSession:
        """End the refinement, if it has not ended yet."""
        return self if self.ended is not None else replace(self, ended=how)

    def end_by_guard(self, guard: str, why: str) -> RefinementSession:
        """End the refinement because a guard of the whole run refused a change."""
        return replace(self, ended=BREAKER, why=f"{guard}: {why}")

    def operate(self, cut: RefinementChange, core: Mapping[str, Memory]) -> Operate:
        """Return a change as an edit of the ledger, which is valid only while its memories are as in `core`."""
        seen = {one: core[one].content for one in cut.ids}
        start = RefinementStart(self.tokens, self.ids, self.mutations)
        return Operate((cut.operation,), Caller.REFINEMENT, seen, start)

    def take_result(
        self, name: str, cut: RefinementChange, before: Mapping[str, Memory], done: ChangeResult
    ) -> tuple[RefinementSession, str]:
        """Return the progress after a change was carried out or refused, and the text of the answer.

        A refusal by a guard of the whole run ends the refinement.

        Args:
            name: the name of the tool.
            cut: the change.
            before: the live core before the change, by id.
            done: the result of the change.
        """
        broken = next((one for one in done.refusals if one.guard in BREAKERS), None)
        if broken is not None:
            told = self.end_by_guard(broken.guard, broken.why).bar_text(cut, broken.why)
            error = f"{broken.guard}: {broken.why}. The refinement is over, and all its changes are reversed"
            return told.note_call(name, str(broken.guard), cut.ids), _render_answer(error=error)
        if done.refusals:
            refusal = done.refusals[0]
            ids = tuple(dict.fromkeys((*refusal.memory_ids, *cut.ids)))
            text = _render_answer(error=f"{refusal.guard}: {refusal.why}", ids=list(ids), allowed=_LEAVE)
            return self.bar_text(cut, refusal.why).note_call(name, str(refusal.guard), ids), text
        if not done.changes:
            return self.note_call(name, "error", cut.ids), _render_answer(error="nothing changed", allowed="leave it")
        now = {memory.id: memory for memory in done.core}
        new = [change.memory_id for change in done.changes if change.before is None]
        moved = replace(self, mutations=self.mutations + 1)
        tokens = [sum(estimate(side[one].content) for one in (*cut.ids, *new) if one in side) for side in (before, now)]
        moved = moved.note_call(name, "done", (*cut.ids, *new), tokens)
        left = core_tokens(done.core, estimate)
        shrink, spare, lost = max(0, left - self.floor), moved.most_mutations - moved.mutations, _count_lost(cut)
        text = _render_answer(
            ok=True,
            new_ids=new,
            core_tokens=left,
            may_shrink_by=shrink,
            may_delete=done.may_delete,
            changes_left=spare,
            lost_tokens=lost,
        )
        return moved, text

    def bar_text(self, cut: RefinementChange, why: str) -> RefinementSession:
        """Record that a guard refuses the text that the judging accepted last."""
        if cut.draft is None or not self.claims:
            return self
        row = {**self.claims[-1], "verdict": str(ClaimOutcome.REFUSED), "why": why, "step": str(ClaimStep.GUARD)}
        return replace(self, claims=(*self.claims[:-1], row))

    def take_search(self, name: str, core: Mapping[str, Memory], found: Sequence[str]) -> tuple[RefinementSession, str]:
        """Return the progress after a search, and the text of the answer; `found` are ids, the best match first."""
        return self.note_call(name, "done"), _render_answer(**show_found(core, [one for one in found if one in core]))

    def note_call(
        self, name: str, verdict: str, ids: Sequence[str] = (), tokens: Sequence[int] = ()
    ) -> RefinementSession:
        """Add a call to the timeline, with the tokens of its memories before and after if these changed."""
        if len(self.timeline) >= MOST_TOLD:
            return replace(self, untold=self.untold + 1)
        tool = name if name in refinement_tools.TOOLS else "unknown"
        row: dict[str, Any] = {"tool": tool, "ids": list(ids), "verdict": verdict}
        row |= {"before": tokens[0], "after": tokens[1]} if tokens else {}
        return replace(self, timeline=(*self.timeline, row))

    def row(self) -> dict[str, Any]:
        """Return the refinement as run reports show it, without the summary, which is content."""
        told: dict[str, Any] = {"mode": self.mode, "start": {"tokens": self.tokens, "memories": len(self.ids)}}
        told |= {"mutations": self.mutations, "steps": self.steps, "timeline": list(self.timeline)}
        told |= {"untold": self.untold} if self.untold else {}
        return told | {"ended": self.ended, "why": self.why}


def show_found(core: Mapping[str, Memory], hits: Sequence[str]) -> dict[str, Any]:
    """Return the answer to a search: the number of memories found, the best ones, and a note if some are not shown."""
    shown: dict[str, Any] = {"found": len(hits), "memories": [ledger_line(core[one]) for one in hits[:MOST_FOUND]]}
    if len(hits) > MOST_FOUND:
        shown["note"] = f"only the best {MOST_FOUND} are shown; use more words, or days"
    return shown


def rejudge_timeline(
    timeline: Sequence[Mapping[str, Any]], refused: Sequence[Guard | None]
) -> tuple[Mapping[str, Any], ...]:
    """Return a timeline whose changes were judged again: a change that is refused now names its guard.

    Args:
        timeline: the timeline of a refinement, or of its run report.
        refused: for each change that was done, in order, the guard that refuses it now, or None.
    """
    verdicts = iter(refused)
    told = []
    for row in timeline:
        guard = next(verdicts, None) if row["verdict"] == "done" and row["tool"] in refinement_tools.CUTS else None
        told.append(row if guard is None else {"tool": row["tool"], "ids": row["ids"], "verdict": str(guard)})
    return tuple(told)


def restore_session(
    row: Mapping[str, Any], receipt: Mapping[str, Any], session: RefinementSession
) -> RefinementSession:
    """Return a refinement from its run report, including its last change; report and change were written together.

    Args:
        row: the part of the run report about the refinement.
        receipt: the whole run report.
        session: a new refinement of the same mode.
    """
    made = replace(
        session,
        tokens=row.get("start", {}).get("tokens", session.tokens),
        ids=frozenset(row.get("ids", session.ids)),
        last=tuple(row.get("last", session.last)),
        timeline=tuple(row.get("timeline", ())),
        **{name: row[name] for name in ("floor", "mutations", "steps", "untold") if name in row},
    )
    doing = row.get("doing")
    if doing is None:
        return made
    refused = receipt.get("refused", ())
    broken = next((one for one in refused if one["guard"] in BREAKERS), None)
    if broken is not None:
        return made.end_by_guard(broken["guard"], broken["why"]).note_call(doing["tool"], broken["guard"], doing["ids"])
    made = made.note_call(doing["tool"], refused[0]["guard"] if refused else "done", doing["ids"])
    return made if refused else replace(made, mutations=made.mutations + 1)


def describe_end(
    session: RefinementSession, *, undo: bool, changed: bool, conflict: bool
) -> tuple[str, str | None, str | None]:
    """Return the state of the run, the reason for it, and the words for the journal.

    Args:
        session: the refinement that has ended.
        undo: the changes were reversed.
        changed: the refinement changed the core.
        conflict: the changes could not be reversed.
    """
    if session.ended == COMPLETED:
        return "succeeded", (None if changed else "nothing was changed, even if the summary says so"), None
    broke = session.ended == BREAKER
    what = f"the guard stopped it ({session.why})" if broke else f"it was cut short ({session.ended})"
    became = "all of its changes were reversed" if undo else "its changes were kept"
    if conflict:
        became = "its changes could not be reversed, because a memory has changed since then"
    ended = "failed" if undo or conflict or broke else "succeeded"
    state = "cancelled" if session.ended == CANCELLED else ended
    return state, f"{what}; {became}", f"{what}; {became}"


PROTECTED = "memory [CONSTITUTIONAL]"


def ledger_line(memory: Memory) -> str:
    """Return a memory as one line for the model: id, day, description and content."""
    return f"{memory.id} {first_said(memory)} {describe_memory(memory)}: {memory.content}"


def describe_memory(memory: Memory) -> str:
    """Return what the prompt shows beside a memory: whether it is protected, its heading, its tokens and its tags."""
    below = f" below {neutralize(memory.heading)[:_LONGEST_HEADING]}" if memory.heading else ""
    tags = "".join(f", #{neutralize(tag)}" for tag in memory.tags)
    return f"{PROTECTED if memory.constitutional else 'memory'}{below}, {estimate(memory.content)} tokens{tags}"


def first_said(memory: Memory) -> str:
    """Return the day on which a memory was first said, YYYY-MM-DD, in UTC."""
    return (memory.origin_at or memory.created_at)[:10]


def _count_lost(cut: RefinementChange) -> int | None:
    """Return the tokens that a change counts as lost; None if they must be measured."""
    lost = cut.operation.lost if isinstance(cut.operation, Merge | Update) else None
    return lost if lost is None or isinstance(lost, int) else sum(lost.values())


def _render_answer(**values: object) -> str:
    given = {name: value for name, value in values.items() if value not in ("", [], None)}
    return json.dumps(given, ensure_ascii=False)
