"""Ask one question for a sleep and for the facts of the same turns, so that a conversation is sent only once.

The model adds to the reply of a sleep a part with the JSON object of the facts:

    [SUMMARY]
    …
    [MEMORIES]
    …
    [FACTS]
    {"new": […]}

Each job reads its own part and judges it as it does alone. The edits of both are applied together. If the part of the
facts is missing or unusable, the sleep ends as it does alone. The facts' watermark then stays, and the facts job asks
its own question later.
"""

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from memoryd.jobs import facts, facts_reply, job, sleep
from memoryd.jobs import reply as replies
from memoryd.jobs.facts import FactsInputs
from memoryd.jobs.sleep import SleepInputs
from memoryd.text.fences import strip_fence

_MARK = re.compile(r"^[\s#>*_]*\[\s*(?:(FACTS)|SUMMARY|MEMORIES|NOTHING)\s*\][\s:*_]*(?P<rest>\{.*)?$", re.IGNORECASE)
_OWN = frozenset({"cites", "reply"})  # keys that both run reports have; the facts' part of the report leaves them out


@dataclass(frozen=True, slots=True)
class JointInputs:
    """Hold the frozen inputs of a sleep, and of the facts job on its turns if one question can serve both."""

    sleep: SleepInputs
    facts: FactsInputs | None = None
    instructions: str = ""  # the text of joint.md


def decide(inputs: JointInputs) -> job.Steps:
    """Run a sleep together with the facts job that is due on its turns, and return their joint end."""
    said: job.Reply | None = None

    def ask_both(ask: job.Ask) -> Generator[job.Ask, job.Reply, job.Reply]:
        nonlocal said
        answer, said = split_reply((yield _join_questions(ask, inputs)))
        return answer

    slept = yield from sleep.decide(inputs.sleep, ask_both)
    if inputs.facts is None or said is None or isinstance(slept, job.RejectedReply):
        return slept
    yield job.EnterPhase("facts")
    learned = yield from facts.decide(_with_news(inputs.facts, slept), said)
    return slept if isinstance(learned, job.RejectedReply) else _join_ends(slept, learned)


def merge(answers: Sequence[job.Reply]) -> job.Reply | job.RejectedReply:
    """Return one reply from the replies to the parts of a question; without facts if they are missing in any part."""
    parts = [split_reply(one) for one in answers]
    slept = replies.merge([one for one, _ in parts])
    told = [said for _, said in parts if said is not None]
    if isinstance(slept, job.RejectedReply) or len(answers) == 1:
        return slept if isinstance(slept, job.RejectedReply) else answers[0]
    learned = facts_reply.merge(told) if len(told) == len(parts) else None
    return replace(slept, text=f"{slept.text}\n[FACTS]\n{learned.text}") if isinstance(learned, job.Reply) else slept


def split_reply(answer: job.Reply) -> tuple[job.Reply, job.Reply | None]:
    """Return the sleep's part of a reply, and the facts' part; None as the second if the reply has no facts."""
    lines = strip_fence(answer.text.replace("\r\n", "\n").replace("\r", "\n").strip()).split("\n")
    of_sleep: list[str] = []
    of_facts: list[str] = []
    held = of_sleep
    for line in lines:
        mark = _MARK.match(line)
        if mark and mark[1]:
            held = of_facts = [mark["rest"] or ""]
        elif mark:
            held = of_sleep
        if not (mark and mark[1]):
            held.append(line)
    text = "\n".join(of_facts).strip()
    if not text:
        return answer, None
    return replace(answer, text="\n".join(of_sleep)), replace(answer, text=text, tokens_in=0, tokens_out=0)


def _join_questions(ask: job.Ask, inputs: JointInputs) -> job.Ask:
    """Return one question for the sleep and the facts, or the sleep's question if the two are about different texts."""
    other = None if inputs.facts is None else job.first_of(facts.decide(inputs.facts))
    if not isinstance(other, job.Ask) or not _is_shared(ask.material, other.material):
        return ask
    shown = {one.id for one in ask.material}
    material = (*(one for one in other.material if one.id not in shown), *ask.material)
    own = (one for one in other.context if one not in ask.context)
    context = (("summary from", ask.material[0].id), ("facts from", other.material[0].id))
    return replace(
        ask,
        instructions="\n\n".join(one.strip() for one in (ask.instructions, inputs.instructions, other.instructions)),
        material=material,
        context=(*ask.context, *(one for one in context if one[1] != material[0].id), *own),
    )


def _is_shared(material: Sequence[job.QuotedPiece], other: Sequence[job.QuotedPiece]) -> bool:
    """Return True if the sleep shows most of the facts' material, with the same texts."""
    shown = {one.id: one.text for one in material}
    shared = [one for one in other if one.id in shown]
    added = sum(len(one.text) for one in other) - sum(len(one.text) for one in shared)
    is_same = all(shown[one.id].strip() == one.text.strip() for one in shared)
    return is_same and added <= sum(len(one.text) for one in shared)


def _with_news(inputs: FactsInputs, slept: job.Done | job.NothingToDo) -> FactsInputs:
    """Return the inputs of the facts job, with the texts that the sleep writes counted as known."""
    blocks = [edit.body for edit in slept.edits if isinstance(edit, job.AppendDaily)]
    added = [one.text for edit in slept.edits if isinstance(edit, job.AddMemories) for one in edit.memories]
    return replace(inputs, daily="\n".join([inputs.daily, *blocks]), core=(*inputs.core, *added))


def _join_ends(slept: job.Done | job.NothingToDo, learned: job.Done | job.NothingToDo) -> job.End:
    """Return one end with the edits, the claims and the run reports of both jobs."""
    told = {name: value for name, value in learned.receipt.items() if name not in _OWN}
    receipt = {**slept.receipt, facts.CONSUMER: told}
    cites = {**learned.receipt.get("cites", {}), **slept.receipt.get("cites", {})}
    receipt |= {"cites": cites} if cites else {}
    edits = tuple(_join_edits(slept.edits, learned.edits))
    claims = (*slept.claims, *learned.claims)
    if isinstance(slept, job.NothingToDo) and isinstance(learned, job.NothingToDo):
        return job.NothingToDo(slept.why, edits, receipt, claims)
    return job.Done(edits, receipt, claims=claims)


def _join_edits(slept: Sequence[job.JobEdit], learned: Sequence[job.JobEdit]) -> Iterator[job.JobEdit]:
    """Yield the edits of both jobs; the two blocks of one day become one, with the facts' lines above its sections."""
    notes = {edit.day: edit for edit in learned if isinstance(edit, job.AppendDaily)}
    for edit in slept:
        if isinstance(edit, job.AppendDaily) and edit.day in notes:
            yield replace(edit, body=_put_first(edit.body, notes.pop(edit.day).body))
        else:
            yield edit
    yield from (edit for edit in learned if not isinstance(edit, job.AppendDaily) or edit.day in notes)


def _put_first(body: str, note: str) -> str:
    """Return the body of a block with the bullets of `note` added to its lines above the first section."""
    lines = body.split("\n")
    at = next((number for number, line in enumerate(lines) if line.startswith("### ")), len(lines))
    plain = [line for line in lines[:at] if line] + [line for line in note.split("\n") if line.startswith("- ")]
    return "\n".join([*plain, *([""] if at < len(lines) else []), *lines[at:]])
