"""Refine: an agent condenses its own core by calling tools, in one conversation for each batch of the ledger.

First it is asked whether it wants to. Then a second reader is asked about the new texts of an answer's calls, all at
once, and the calls are carried out one after the other, each through the ledger's guards at once; what came of them
goes back. What cuts the conversation short leaves what was done by then;
whether that stays is not decided here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from memoryd.gauge.estimate import estimate
from memoryd.jobs import consent, knife
from memoryd.jobs.condensation import NOTHING_READ, Reading
from memoryd.jobs.job import (
    Answer,
    Applied,
    Apply,
    Ask,
    Declined,
    Exchange,
    Found,
    NothingToDo,
    Quoted,
    Rejected,
    Reply,
    Search,
    ToolCall,
)
from memoryd.jobs.knife import Cut, Look
from memoryd.jobs.reader import JOB as VERIFY
from memoryd.jobs.refinement import COMPLETED, Session, described, first_said, ledger_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memoryd.jobs.repair import Judges
    from memoryd.ledger.memory import Memory

JOB = "refine"
CONSENT = "consent"
AGENT_DECLINED = "the agent declined"
UNCLEAR = "the answer was unclear"  # it counts as declined
MOST_SILENT = 2  # answers in a row that call nothing
_PIECE = 60  # tokens of the lines around one memory
_USABLE = frozenset({"stop", "length"})
_NUDGE = '{"error": "nothing was called", "allowed": "call a tool; complete_refinement ends the refinement"}'
_NO_ROOM = "the ledger does not fit into the model's context"


@dataclass(frozen=True, slots=True)
class RefineInputs:
    """A frozen snapshot of all that one refinement depends on."""

    core: tuple[Memory, ...]  # live, in the order of the file
    session: Session
    target: int  # tokens
    eroded: int  # tokens of the core that runs have let go within the window already
    erosion_percent: float
    consent: bool  # it is asked for
    force: bool  # also below the target
    guide: str  # the agent's own words on how it refines; may be empty
    judges: Judges  # of new texts
    room: int  # tokens of the ledger that one conversation is shown
    instructions: str
    consent_instructions: str


@dataclass(frozen=True, slots=True)
class Over:
    """The refinement is over, well or not: what was done is in the ledger already."""

    session: Session


@dataclass(frozen=True, slots=True)
class _Talk:
    """The conversation between two steps."""

    session: Session
    core: Mapping[str, Memory]
    shown: tuple[str, ...]  # ids of this batch
    waiting: tuple[tuple[str, ...], ...]  # the batches behind it
    room: int
    material: tuple[Quoted, ...] = ()  # the ledger as it was when this batch was begun
    earlier: tuple[Exchange, ...] = ()
    text: str = ""  # of the answer whose calls are carried out …
    calls: tuple[ToolCall, ...] = ()  # … these
    results: tuple[str, ...] = ()  # of those that were
    reading: Reading = NOTHING_READ  # of the new texts of these calls
    doing: Look | Cut | None = None  # what the step is about
    silent: int = 0
    summaries: tuple[str, ...] = ()  # of the batches that are done


RefineStep = Ask | Search | Apply | Declined | NothingToDo | Over


def begin(inputs: RefineInputs) -> RefineStep:
    """Return the first step."""
    why = _nothing(inputs)
    if why is not None:
        return NothingToDo(why)
    if not inputs.consent:
        return _open(inputs)
    return Ask(CONSENT, _instructions(inputs, inputs.consent_instructions), (), _numbers(inputs, inputs.session))


def resume(inputs: RefineInputs, step: RefineStep, answer: Answer) -> RefineStep:
    """Return the step after `step`. Raises ValueError for a step or an answer that this job never asked for."""
    if isinstance(step, Ask) and isinstance(answer, Reply):
        if step.job == CONSENT:
            said_yes = consent.read(answer.text)
            return _open(inputs) if said_yes else Declined(UNCLEAR if said_yes is None else AGENT_DECLINED)
        talk = _talk_of(step)
        if step.job == VERIFY:
            return _read(inputs, replace(talk, reading=talk.reading.heard(answer)))
        return _heard(inputs, talk, answer)
    talk = _talk_of(step)
    if isinstance(step, Search) and isinstance(answer, Found):
        session, text = talk.session.found(tool_of(step), talk.core, answer)
        return _carry_on(inputs, replace(talk, session=session, results=(*talk.results, text)))
    if isinstance(step, Apply) and isinstance(answer, Applied) and isinstance(talk.doing, Cut):
        session, text = talk.session.applied(tool_of(step), talk.doing, talk.core, answer)
        core = {memory.id: memory for memory in answer.core}
        return _carry_on(inputs, replace(talk, session=session, core=core, results=(*talk.results, text)))
    raise ValueError("not a step of refine")


def merge(replies: Sequence[Reply]) -> Reply | Rejected:
    """Return the one reply, or why it cannot be used; a conversation is not asked in parts."""
    (reply,) = replies
    return reply if reply.finish_reason in _USABLE else Rejected("the reply did not end as it should")


def cut_short(step: RefineStep, why: str) -> Over | None:
    """Return the end of a refinement that cannot go on; None where it has not begun to change anything."""
    state = getattr(step, "state", None)
    if not isinstance(state, _Talk) or not state.session.mutations:
        return None
    return Over(state.session.end(why))


def smaller(inputs: RefineInputs, step: RefineStep) -> RefineStep:
    """Return how to go on where a conversation is longer than the model's context: on half of the ledger, anew."""
    talk = _talk_of(step)
    room = talk.room // 2
    left = [one for batch in (talk.shown, *talk.waiting) for one in batch if one in talk.core]
    if len(talk.shown) < 2 and not talk.earlier:
        return Over(talk.session.end(_NO_ROOM))
    first, *rest = batches([talk.core[one] for one in left], room)
    session = talk.session.step()  # so that a context which is too small for anything comes to an end
    return _batch(inputs, replace(talk, session=session, shown=first, waiting=tuple(rest), room=room))


def session_of(step: RefineStep) -> Session:
    """Return the refinement as it is at a step of its conversation."""
    return _talk_of(step).session


def tool_of(step: RefineStep) -> str:
    """Return the tool whose call a step carries out."""
    talk = _talk_of(step)
    return talk.calls[len(talk.results)].name


def batches(core: Sequence[Memory], room: int) -> tuple[tuple[str, ...], ...]:
    """Return the ids in batches whose ledgers have at most `room` tokens each, but at least one memory."""
    found: list[list[str]] = [[]]
    used = 0
    for memory in core:
        size = estimate(ledger_line(memory)) + _PIECE
        if found[-1] and used + size > room:
            found.append([])
            used = 0
        found[-1].append(memory.id)
        used += size
    return tuple(map(tuple, found))


def _talk_of(step: RefineStep) -> _Talk:
    state = getattr(step, "state", None)
    if not isinstance(state, _Talk):
        raise ValueError("not a step of refine")  # noqa: TRY004 - the job's own state, not an argument's type
    return state


def _nothing(inputs: RefineInputs) -> str | None:
    free = [memory for memory in inputs.core if not memory.constitutional]
    tokens = inputs.session.tokens
    if not free:
        return "every memory of the core is protected" if inputs.core else "the core is empty"
    if inputs.session.mode != knife.DEDUP and tokens <= inputs.target and not inputs.force:
        return f"the core has {tokens:,} tokens, the target is {inputs.target:,}"
    if len(inputs.core) < 2:
        return "one memory cannot be condensed"
    return None


def _instructions(inputs: RefineInputs, text: str) -> str:
    return text if not inputs.guide else f"{text}\n\nYour own guide for this:\n{inputs.guide.strip()}"


def _numbers(inputs: RefineInputs, session: Session) -> tuple[tuple[str, str], ...]:
    tokens = inputs.session.tokens
    protected = sum(memory.constitutional for memory in inputs.core)
    shrink = max(0, tokens - session.floor)
    delete = max(0, int((tokens + inputs.eroded) * inputs.erosion_percent / 100) - inputs.eroded)
    told = [
        f"Current core: {tokens:,} tokens; target: {inputs.target:,}",
        f"memories: {len(inputs.core)}, of them protected: {protected}",
    ]
    limits = {"may shrink by": shrink, "may delete": delete, "changes left": session.most_mutations - session.mutations}
    return (("usage", "\n".join(told)), *((name, str(number)) for name, number in limits.items()))


def _open(inputs: RefineInputs) -> RefineStep:
    first, *rest = batches(inputs.core, inputs.room)
    core = {memory.id: memory for memory in inputs.core}
    return _batch(inputs, _Talk(inputs.session, core, first, tuple(rest), inputs.room))


def _batch(inputs: RefineInputs, talk: _Talk) -> Ask | Over:
    """Begin the conversation about a batch."""
    shown = [talk.core[one] for one in talk.shown if one in talk.core]
    material = tuple(Quoted(one.id, described(one), "ledger", first_said(one), one.content) for one in shown)
    return _ask(inputs, replace(talk, material=material, earlier=(), silent=0))


def _ask(inputs: RefineInputs, talk: _Talk) -> Ask | Over:
    if talk.session.ended is not None:
        told = [one for one in (*talk.summaries, talk.session.summary) if one]
        return Over(replace(talk.session, summary=" ".join(told) or None))
    context = _numbers(inputs, inputs.session)
    if len(talk.material) < len(talk.core) and (talk.waiting or talk.summaries):
        more = f"{len(talk.material)} of the {len(talk.core)} memories are shown; complete_refinement ends this part"
        context = (*context, ("part", more))
    return Ask(
        JOB,
        _instructions(inputs, inputs.instructions),
        talk.material,
        context,
        tools=knife.tools(talk.session.mode),
        earlier=talk.earlier,
        state=talk,
    )


def _heard(inputs: RefineInputs, talk: _Talk, answer: Reply) -> RefineStep:
    shown = [talk.core[one].content for one in talk.shown if one in talk.core]
    # Where a server has calls of its own, JSON in prose is talk about a call.
    calls = answer.calls or (knife.calls_in(answer.text, shown) if answer.in_text else ())
    # What was called in text is not said twice when the conversation is told.
    talk = replace(talk, text=answer.text if answer.calls or not calls else "", calls=calls, results=())
    if calls:
        reading = Reading(talk.session.drafts(calls, talk.core), tuple(talk.core.values()))
        return _read(inputs, replace(talk, silent=0, reading=reading))
    session = talk.session.step()
    if talk.silent + 1 >= MOST_SILENT:
        session = session.end("the model calls no tool")
    said = Exchange(answer.text, (), (_NUDGE,))
    return _ask(inputs, replace(talk, session=session, silent=talk.silent + 1, earlier=(*talk.earlier, said)))


def _read(inputs: RefineInputs, talk: _Talk) -> RefineStep:
    """Ask the second reader about the new texts of an answer's calls, then carry the calls out."""
    reading = talk.reading.prepared(inputs.judges.known)
    talk = replace(talk, reading=reading)
    return reading.waiting[0].ask(inputs.judges.verify, talk) if reading.waiting else _carry_on(inputs, talk)


def _carry_on(inputs: RefineInputs, talk: _Talk) -> RefineStep:
    """Take the calls of an answer one after the other, then go back to the model with what came of them."""
    while len(talk.results) < len(talk.calls):
        call = talk.calls[len(talk.results)]
        session, asked = talk.session.call(call, talk.core, talk.reading, inputs.judges.cues)
        talk = replace(talk, session=session)
        if isinstance(asked, Look):
            return Search(asked.query, asked.after, asked.before, replace(talk, doing=asked))
        if isinstance(asked, Cut):
            return Apply(session.operate(asked, talk.core), replace(talk, doing=asked))
        talk = replace(talk, results=(*talk.results, asked))
    said = Exchange(talk.text, talk.calls, talk.results)
    talk = replace(talk, earlier=(*talk.earlier, said), text="", calls=(), results=(), doing=None, reading=NOTHING_READ)
    if talk.session.ended == COMPLETED and talk.waiting:
        summaries = (*talk.summaries, talk.session.summary or "")
        session = replace(talk.session, ended=None, summary=None)
        first, *rest = talk.waiting
        return _batch(inputs, replace(talk, session=session, shown=first, waiting=tuple(rest), summaries=summaries))
    return _ask(inputs, talk)
