"""A refinement that changes nothing: what it comes to waits for a person's answer.

The tools work on the core as it would be by then. Each call is judged as any other refinement's, by the same guards, on
what all calls before it come to, inside a transaction of which nothing stays. At the end what passed is one proposal;
what a guard broke, or was cancelled, is none. Accepting it is one commit, on what is there then: a memory that somebody
has changed since is left as it is, with what stands on it, and where too little would be left nothing is done at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from memoryd.database import memories, runs, sqlite
from memoryd.engine import commit as committing
from memoryd.engine import dedup, refining, rejection
from memoryd.gauge.estimate import estimate
from memoryd.jobs import decided, tally
from memoryd.jobs.job import Done, Operate
from memoryd.jobs.refinement import BREAKERS, COMPLETED, retold
from memoryd.ledger import guards
from memoryd.ledger.guards import Begun, Door, Guard, core_tokens
from memoryd.ledger.memory import Kind
from memoryd.ledger.operation import Delete, Merge

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from memoryd.engine.commit import Outcome, Preview
    from memoryd.engine.gate import Passed
    from memoryd.jobs.job import Edit
    from memoryd.jobs.refine import Apply
    from memoryd.jobs.refinement import Session
    from memoryd.jobs.tally import Tally
    from memoryd.ledger.guards import Refusal
    from memoryd.ledger.memory import Memory
    from memoryd.ledger.operation import Change

WAITS = "it waits for a person's answer, and nothing is changed yet"
WHOLE = BREAKERS | {Guard.CAP}
PENDING = "edits"  # the name of what is kept between two calls
# Puts a decision to a person, and a word into the agent's journal; False where nothing of memory would change by it.
Propose = Callable[[Done, "Outcome", Operate], bool]


@dataclass(slots=True)
class Shadow:
    """What a refinement comes to so far: operations that passed, in order, and the changes they are on the core now."""

    edits: tuple[Operate, ...] = ()
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposingRefiner(refining.Refiner):
    """A refiner whose changes wait.

    Attributes:
        propose: puts what it came to to a person.
        shadow: what it has come to.
    """

    propose: Propose
    shadow: Shadow = field(default_factory=Shadow)

    def core(self) -> list[Memory]:
        """The core as it would be, in the order of the file."""
        with sqlite.reading(self.writer.engine) as connection:
            held = {one.id: one for one in memories.live(connection, self.run.agent_id, Kind.CORE)}
        held |= {one.memory_id: one.after for one in self.shadow.changes if one.after.kind is Kind.CORE}
        live = (one for one in held.values() if one.is_live)
        return sorted(live, key=lambda one: (one.position is None, one.position or 0, one.created_at, one.id))

    def unwanted(self) -> str | None:
        """Why nobody wants it: a person has rejected what came of this very core, and does not ask for it again."""
        if self.run.options.get("force"):
            return None
        with sqlite.reading(self.writer.engine) as connection:
            found = runs.rejected_like(connection, self.run.agent_id, self.run.kind, self._made_from())
        return None if found is None else rejection.told(found)

    def _made_from(self, seen: Collection[str] | None = None) -> str:
        """A digest of what it goes by: what comes of the same is not proposed again, once it is rejected.

        Args:
            seen: ids of what it has been about, where more may have come in since; None: all there is.
        """
        mode = refining.mode_of(self.run, self.source.settings.refine)
        core = [one for one in self._held() if seen is None or one.id in seen]
        made_from = (mode, self._guide(), rejection.core_digest(core))
        return hashlib.sha256("\n".join(made_from).encode()).hexdigest()

    def end_duplicates(self) -> None:
        """Count it as the first change that bullets which say the same become one."""
        found = dedup.found(self.writer.engine, self.run.agent_id, (Kind.CORE,))
        self.kept.update(found.receipt)
        for edit in found.edits if isinstance(found, Done) else ():
            if isinstance(edit, Operate):
                self._tried(edit)

    def carried(self, step: Apply) -> tuple[Sequence[Change], Sequence[Refusal]]:
        """Have the guards judge a change, and take what they let pass for done."""
        passed = self._tried(step.operate)
        self.noted(committing.Committed(refused=tuple(guards.rows(passed.refusals))))
        return passed.changes, passed.refusals

    def pending(self) -> dict[str, Any]:
        """What it has come to, for the next call to go on from."""
        return {PENDING: decided.dump(self.shadow.edits)}

    def go_on_from(self, kept: Sequence[Any]) -> None:
        """Go on from what was kept behind an earlier call.

        Raises:
            ValueError: it is of another version.
        """
        self.shadow.edits = tuple(one for one in decided.load(kept) if isinstance(one, Operate))
        self.shadow.changes = committing.preview(self.writer, self.run, self.shadow.edits).changes

    def tally(self) -> Tally:
        """What would be done so far."""
        return tally.of_changes(self.shadow.changes)

    def finish(self, session: Session) -> None:
        """Count what it came to, propose it where it may be, tell the agent, end the run."""
        planned = committing.preview(self.writer, self.run, self.shadow.edits)
        refused = refused_by(self.shadow.edits, planned.passed)
        timeline = retold(session.timeline, refused)
        session = replace(session, timeline=timeline, mutations=session.mutations - sum(map(bool, refused)))
        both = zip(self.shadow.edits, planned.passed, strict=True)
        self.shadow.edits = tuple(edit for edit, passed in both if passed.changes)
        self.shadow.changes = planned.changes
        refining.Refiner.finish(self, session)

    def write(self, session: Session, done: Tally, after: int, receipt: dict[str, Any], *, undo: bool) -> None:
        """Propose it, or tell the agent that nothing came of it, and end the run."""
        undo = undo or session.ended == refining.CANCELLED
        if undo or not self.shadow.changes:
            told = {refining.KIND: receipt[refining.KIND] | ({"rolled_back": True} if undo else {})}
            state, why, how = refining.ending(session, undo=undo, changed=bool(done.changes), conflict=False)
            told[refining.KIND]["end"] = {"tokens": session.tokens}
            self.close([self.note(session, done, after, how)], state, why, told, session.claims)
            return
        _, why, _ = refining.ending(session, undo=False, changed=True, conflict=False)
        cut = "" if session.ended == COMPLETED else f"it was cut short ({session.ended}); "
        note = self.note(session, done, after, f"{cut}{WAITS}")
        seen = session.ids | {one.memory_id for one in self.shadow.changes}
        self._put(why, receipt, note, self.summary(session), seen, session.claims)

    def end(
        self, state: str, why: str, receipt: dict[str, Any] | None = None, claims: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """End the run: nothing was changed; that duplicates would go is proposed all the same."""
        done = self.tally()
        if state == "skipped" and done.duplicates:
            text = tally.journal(self.today().isoformat(), done, self._sizes(), WAITS, None)
            self._put(why, receipt or {}, refining.entry(text, self.writer.now()), None, claims=claims)
            return
        self.kept.pop(refining.DEDUP, None)  # they stay, since nothing is proposed
        refining.Refiner.end(self, state, why, receipt, claims)

    # --- what it comes to ----------------------------------------------------------------------------------------

    def _tried(self, operate: Operate) -> Passed:
        planned = committing.preview(self.writer, self.run, [operate], self.shadow.changes)
        passed = planned.passed[-1]
        if passed.changes:
            self.shadow.edits = (*self.shadow.edits, _with_id(operate, passed.changes))
        self.shadow.changes = planned.changes
        return passed

    def _held(self) -> list[Memory]:
        with sqlite.reading(self.writer.engine) as connection:
            return memories.live(connection, self.run.agent_id, Kind.CORE)

    def _sizes(self) -> tuple[int, int]:
        return core_tokens(self._held(), estimate), core_tokens(self.core(), estimate)

    def _put(
        self,
        why: str | None,
        receipt: dict[str, Any],
        note: Operate,
        summary: str | None,
        seen: Collection[str] | None = None,
        claims: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        done = Done(self.shadow.edits, receipt, why, summary=summary, made_from=self._made_from(seen))
        if not self.propose(done, self.outcome(runs.PROPOSED, why, receipt, claims), note):
            refining.Refiner.end(self, "failed", "what it came to was changed meanwhile", receipt)


def _with_id(operate: Operate, changes: Sequence[Change]) -> Operate:
    """A merge with the id that its memory got, so that later operations can name it whenever it is carried out."""
    made = next((one.memory_id for one in changes if one.before is None), None)
    named = (replace(one, id=made) if isinstance(one, Merge) else one for one in operate.operations)
    return operate if made is None else replace(operate, operations=tuple(named))


def refused_by(edits: Sequence[Edit], passed: Sequence[Passed]) -> list[Guard | None]:
    """For each change of a refinement among edits, in order, the guard that refuses it; None where it passes."""
    both = zip((edit for edit in edits if isinstance(edit, Operate)), passed, strict=False)
    found = [one for edit, one in both if edit.door is Door.REFINEMENT]
    return [one.refusals[0].guard if one.refusals else None for one in found]


# --- the answer -------------------------------------------------------------------------------------------------------


def breaks(refusals: Iterable[Refusal]) -> bool:
    """Whether a guard of the whole refinement refuses some of it: then nothing of it is done."""
    return any(one.guard in WHOLE for one in refusals)


def on(done: Done, core: Sequence[Memory]) -> Done:
    """What was proposed, measured against the core that it is carried out on.

    Args:
        done: what was decided.
        core: live.
    """
    gone = {
        one.id
        for edit in done.edits
        if isinstance(edit, Operate) and edit.door is Door.DEDUP
        for one in edit.operations
        if isinstance(one, Delete)
    }
    start = [one for one in core if one.id not in gone]
    tokens, ids = core_tokens(start, estimate), frozenset(one.id for one in start)
    edits: list[Edit] = []
    done_before = 0
    for edit in done.edits:
        if isinstance(edit, Operate) and edit.door is Door.REFINEMENT:
            edits.append(replace(edit, begun=Begun(tokens, ids, done_before)))
            done_before += 1
        else:
            edits.append(edit)
    told = done.receipt[refining.KIND] | {"start": {"tokens": tokens, "memories": len(start)}}
    return replace(done, edits=tuple(edits), receipt=done.receipt | {refining.KIND: told})


def as_passed(done: Done, planned: Preview, day: str, now: str, how: str) -> Done:
    """What was proposed as the guards let it pass: the receipt tells what comes of it, and the journal the agent.

    Args:
        done: what was decided, see `on`.
        planned: what it comes to.
        day: local, YYYY-MM-DD.
        now: UTC, ISO 8601 with `Z`.
        how: it came to be done.
    """
    told = done.receipt[refining.KIND]
    counts = tally.of_changes(planned.changes)
    refused = refused_by(done.edits, planned.passed)
    sizes = (told["start"]["tokens"], told["start"]["tokens"] - counts.saved)
    told = told | {
        "counted": counts.row(),
        "end": {"tokens": sizes[1]},
        "timeline": list(retold(told["timeline"], refused)),
        "mutations": len(refused) - sum(map(bool, refused)),
    }
    if done.summary:
        told["unfounded"] = ["numbers"] if tally.miscounts(done.summary, counts, sizes) else []
    if left_out := sum(map(bool, refused)):
        how = f"{how}; the guards refused {left_out} of its changes"
    text = tally.journal(day, counts, sizes, how, done.summary)
    edits = (*done.edits, refining.entry(text, now))
    return replace(done, edits=edits, receipt=done.receipt | {refining.KIND: told})


def told_of(done: Done, planned: Preview, day: str) -> str:
    """What a refinement comes to, for a person who decides about it: what is counted, and what the model says."""
    counts, start = tally.of_changes(planned.changes), done.receipt[refining.KIND]["start"]["tokens"]
    return tally.journal(day, counts, (start, start - counts.saved), None, done.summary)
