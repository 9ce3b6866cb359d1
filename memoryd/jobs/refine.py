"""Run a refinement: an agent condenses its own core by calling tools, in one conversation for each part of the core.

First the agent is asked for its consent. For each of its answers, a second reader is asked about the new texts of all
calls at once. Then the calls are carried out one after the other, each through the ledger's guards, and their results
go back to the agent. If something ends the conversation early, the caller decides whether the changes so far stay.
"""

import re
import unicodedata
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from memoryd.gauge.estimate import estimate
from memoryd.jobs import refinement_tools
from memoryd.jobs.claims import Judges
from memoryd.jobs.condensation import read
from memoryd.jobs.job import Ask, ChangeResult, ModelExchange, Operate, QuotedPiece, RejectedReply, Reply, ToolCall
from memoryd.jobs.refinement import COMPLETED, RefinementSession, describe_memory, first_said, ledger_line
from memoryd.jobs.refinement_tools import RefinementChange, SearchCall
from memoryd.ledger.memory import Memory
from memoryd.ledger.operation import Delete
from memoryd.text.portions import group_items
from memoryd.text.word_lists import list_words

JOB = "refine"
CONSENT = "consent"
AGENT_DECLINED = "the agent declined"
UNCLEAR = "the answer was unclear"  # an unclear answer counts as declined
MOST_SILENT = 2  # this many answers in a row without a call end the refinement
_PIECE = 60  # tokens of the lines around one memory
_USABLE = frozenset({"stop", "length"})
_NUDGE = '{"error": "nothing was called", "allowed": "call a tool; complete_refinement ends the refinement"}'
_NO_ROOM = "the ledger does not fit into the model's context"


@dataclass(frozen=True, slots=True)
class RefineInputs:
    """Hold a frozen snapshot of everything that one refinement depends on."""

    core: tuple[Memory, ...]  # the live core, in the order of the file
    session: RefinementSession
    target: int  # tokens
    may_delete: int  # tokens that the deletion limit still allows
    consent: bool  # the agent must consent
    force: bool  # refine even if the core is below the target
    guide: str  # the agent's own description of how it wants to refine; may be empty
    judges: Judges  # judge the new texts
    room: int  # tokens of the ledger that one conversation shows
    instructions: str
    consent_instructions: str


class Apply(NamedTuple):
    """Change the ledger now, if the guards allow it: only a refinement edits while it runs."""

    operate: Operate
    session: RefinementSession  # the refinement so far
    tool: str  # of the call


T = TypeVar("T")
# The generator gets a `Reply` or None for an `Ask`, ids for a `SearchCall`, and a `ChangeResult` for an `Apply`.
Steps = Generator[Ask | SearchCall | Apply, Any, T]


class Talk:
    """Hold a running refinement.

    Attributes:
        session: the progress of the refinement. If the caller that carries out the steps ends it, no further step is
            taken.
        core: the live core, by id.
    """

    def __init__(self, session: RefinementSession, core: Sequence[Memory], judges: Judges) -> None:
        self.session = session
        self.core = {memory.id: memory for memory in core}
        self._judges = judges

    def refine(self, inputs: RefineInputs) -> Steps[str | None]:
        """Yield questions, searches and changes, and take their results, until the refinement has ended.

        Return the reason if the agent declines the refinement; None otherwise.
        """
        if inputs.consent:
            instructions = _instructions(inputs, inputs.consent_instructions)
            reply: Reply = yield Ask(CONSENT, instructions, (), _numbers(inputs))
            said_yes = read_consent(reply.text)
            if not said_yes:
                return UNCLEAR if said_yes is None else AGENT_DECLINED
        room, summaries = inputs.room, list[str]()
        waiting = make_batches(inputs.core, room)
        while True:
            shown, *rest = waiting
            yield from self._discuss_batch(inputs, shown, is_part=bool(rest or summaries))
            if self.session.ended is None:  # too long for the model's context: retry with half of the room
                room //= 2
                left = [self.core[one] for batch in waiting for one in batch if one in self.core]
                waiting = make_batches(left, room)
            elif self.session.ended == COMPLETED and rest:
                summaries.append(self.session.summary or "")
                self.session = replace(self.session, ended=None, summary=None)
                waiting = tuple(rest)
            else:
                told = [one for one in (*summaries, self.session.summary) if one]
                self.session = replace(self.session, summary=" ".join(told) or None)
                return None

    def _discuss_batch(self, inputs: RefineInputs, shown: Sequence[str], *, is_part: bool) -> Steps[None]:
        """Hold the conversation about a part of the core, until the refinement ends or the model's context is full."""
        there = [self.core[one] for one in shown if one in self.core]
        material = tuple(
            QuotedPiece(one.id, describe_memory(one), "ledger", first_said(one), one.content) for one in there
        )
        earlier: tuple[ModelExchange, ...] = ()
        silent = 0
        while self.session.ended is None:
            context = _numbers(inputs)
            if is_part and len(material) < len(self.core):
                more = f"{len(material)} of the {len(self.core)} memories are shown; complete_refinement ends this part"
                context = (*context, ("part", more))
            instructions = _instructions(inputs, inputs.instructions)
            tools = refinement_tools.list_tools(self.session.mode)
            reply: Reply | None = yield Ask(JOB, instructions, material, context, tools=tools, earlier=earlier)
            if reply is None:
                # Each attempt counts as a step. If even one memory does not fit into the context, the refinement ends.
                is_least = len(shown) < 2 and not earlier
                self.session = self.session.end(_NO_ROOM) if is_least else self.session.step()
                return
            known = [self.core[one].content for one in shown if one in self.core]
            # If the server supports tool calls, JSON in the text only talks about a call.
            calls = reply.calls or (refinement_tools.calls_in(reply.text, known) if reply.in_text else ())
            if calls:
                silent = 0
                results = yield from self.take(calls)
                # A call that the model wrote into its text is not sent back as text.
                earlier = (*earlier, ModelExchange(reply.text if reply.calls else "", calls, results))
                continue
            silent += 1
            self.session = self.session.step()
            if silent >= MOST_SILENT:
                self.session = self.session.end("the model calls no tool")
            earlier = (*earlier, ModelExchange(reply.text, (), (_NUDGE,)))

    def take(self, calls: Sequence[ToolCall]) -> Steps[tuple[str, ...]]:
        """Ask the second reader about new texts and deletions, carry out the calls, and return the result of each."""
        changes = self.session.list_changes(calls, self.core)
        drafts = [one.draft for one in changes if one.draft is not None]
        deleted = [self.core[one.operation.id] for one in changes if isinstance(one.operation, Delete)]
        answers = yield from read(drafts, self.core.values(), self._judges, deleted)
        results = []
        for call in calls:
            self.session, asked = self.session.call(call, self.core, answers, self._judges.cues)
            if isinstance(asked, SearchCall):
                found: Sequence[str] = yield asked
                self.session, asked = self.session.take_search(call.name, self.core, found)
            elif isinstance(asked, RefinementChange):
                done: ChangeResult = yield Apply(self.session.operate(asked, self.core), self.session, call.name)
                self.session, text = self.session.take_result(call.name, asked, self.core, done)
                self.core, asked = {memory.id: memory for memory in done.core}, text
            results.append(asked)
        return tuple(results)


def merge(replies: Sequence[Reply]) -> Reply | RejectedReply:
    """Return the single reply, or the reason why it cannot be used; a conversation is never asked in parts."""
    (reply,) = replies
    return reply if reply.finish_reason in _USABLE else RejectedReply("the reply did not end as it should")


def make_batches(core: Sequence[Memory], room: int) -> tuple[tuple[str, ...], ...]:
    """Return the ids of memories in batches of at most `room` tokens each; a batch has at least one memory."""
    sizes = [estimate(ledger_line(memory)) + _PIECE for memory in core]
    return tuple(map(tuple, group_items([memory.id for memory in core], sizes, room))) or ((),)


def explain_nothing(inputs: RefineInputs) -> str | None:
    """Return the reason why there is nothing to refine; None if there is something."""
    free = [memory for memory in inputs.core if not memory.constitutional]
    tokens = inputs.session.tokens
    if not free:
        return "every memory of the core is protected" if inputs.core else "the core is empty"
    if inputs.session.mode != refinement_tools.DEDUP and tokens <= inputs.target and not inputs.force:
        return f"the core has {tokens:,} tokens, the target is {inputs.target:,}"
    return "one memory cannot be condensed" if len(inputs.core) < 2 else None


def _instructions(inputs: RefineInputs, text: str) -> str:
    return text if not inputs.guide else f"{text}\n\nYour own guide for this:\n{inputs.guide.strip()}"


def _numbers(inputs: RefineInputs) -> tuple[tuple[str, str], ...]:
    session, tokens = inputs.session, inputs.session.tokens
    protected = sum(memory.constitutional for memory in inputs.core)
    shrink = max(0, tokens - session.floor)
    is_small = "; the core is small enough: merge only repeated or outdated memories" * (tokens <= inputs.target)
    told = [
        f"Current core: {tokens:,} tokens; target: {inputs.target:,}{is_small}",
        f"memories: {len(inputs.core)}, of them protected: {protected}",
    ]
    left = session.most_mutations - session.mutations
    limits = {"may shrink by": shrink, "may delete": inputs.may_delete, "changes left": left}
    return (("usage", "\n".join(told)), *((name, str(number)) for name, number in limits.items()))


# ── consent: did an agent that was asked for one word say yes? ────────────────────────────────────────────────────────


# The lists leave out words that also begin other sentences, such as "si" (if), "ya" (already) and "da" (since).
_YES = frozenset(list_words("yes"))
_NO = frozenset(list_words("no"))
_LABEL = re.compile(
    r"\A[\W_]*(?:(?:my|final|the|meine|ma|mi|la) )?"
    r"(?:answer|consent|decision|reply|response|antwort|réponse|respuesta|risposta|resposta|antwoord|odpowiedź|ответ|答案|"
    r"回答|答え|답변|대답)[^\w:=\n]*[:=\n]"
)
_WORD = re.compile(r"[\W_]*([^\W_](?:[^\W_]|[\u0300-\u036f\u0900-\u0963\u0e30-\u0e4e'])*)\s*(\?)?")


def read_consent(text: str) -> bool | None:
    """Return True if the first word of an answer is a yes, and False if it is a no; None if it is neither.

    Marks of Markdown and JSON, and a label such as "Answer:", may be before that word.
    """
    found = _WORD.match(_LABEL.sub("", unicodedata.normalize("NFKC", text).casefold(), count=1))
    word = found[1] if found and not found[2] else ""
    return True if word in _YES else False if word in _NO else None
