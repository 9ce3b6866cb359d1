"""Sleep: the turns that leave an agent's context become lines of its daily file and, few, of its core.

Four phases. *Process* takes what may be evidence (`evidence`). *Summarize* asks the model, has the claims of its reply
judged (`judging`), with further questions where a second reader is needed, and compresses the session (`compress`).
*Consolidate* drops what is known already. *Save* says what to write. The same inputs and the same replies give the same
edits, byte for byte.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from memoryd.jobs import claims as reasons
from memoryd.jobs import compress, evidence, job, reply
from memoryd.jobs.claims import Claim, ClaimOutcome, JudgedClaim, Judges, count_claims, note_of
from memoryd.jobs.duplicates import KnownTexts
from memoryd.jobs.evidence import REPORT, SleepEvidence
from memoryd.jobs.judging import Judging, context_of
from memoryd.jobs.pieces import Pieces
from memoryd.jobs.repair import judge
from memoryd.jobs.witness import digest_of
from memoryd.ledger.foreign import Foreign
from memoryd.ledger.lane import Lane, MemoryClass
from memoryd.text import normal, prose
from memoryd.text.content import label_of, measure_overlap, strip_label
from memoryd.text.neutral import neutralize
from memoryd.tiers import daily

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime, tzinfo

    from memoryd.jobs.pieces import Piece
    from memoryd.transcripts.turn import StoredTurn

CONSUMER = "sleep"
CORE_IMPORTANCE = 0.7  # a memory from this on is meant for the core; the rest stays in the daily file
# The types that may go into the core, and the class that each has; of a fact the second reader says it.
CORE_CLASSES = {
    job.MemoryType.PREFERENCE: MemoryClass.RULE,
    job.MemoryType.DECISION: MemoryClass.PROJECT,
    job.MemoryType.LEARNING: MemoryClass.LESSON,
    job.MemoryType.FACT: None,
}
_ASKED = re.compile(r" \(asked: .*\)$", re.DOTALL)  # ends an answer with the question that it answers
REPORTS = frozenset({"report", "changed", "failed"})  # labels of what nobody in the session said
# Reasons that refuse a claim which nothing in the material supports.
_MADE_UP = frozenset({reasons.EMPTY, reasons.NOTHING_CITED, reasons.NO_WORD, reasons.MISSING})
_FORM = "[MEMORIES]\n- preference 0.90 [t12.1] Always run the tests before a commit."

DAILY_SHARE = 0.25  # of the words said by people and assistant, the daily block may take this much, headings included
HEADING_WORDS = 12  # title, heading and first line of a daily block
FLOOR_WORDS = 80  # a short session may be dense: it is kept nearly as it was said, speakers and all
CEILING_WORDS = 1400  # of a day: a huge session is still read by a person the next morning …
LENGTH_TOLERANCE = 1.05  # no backend counts words to the last
CEILING_TOKENS = 3000  # … and by an agent within its start-up budget
RUNNING_SHARE = 0.25  # of the compressed session's budget, the running summary may take this much
RUNNING_TOKENS = 1500


@dataclass(frozen=True, slots=True)
class SleepInputs:
    """Hold the frozen input of one sleep of one session."""

    agent_id: str
    session_id: str
    folder: str | None  # the session's working folder; paths inside it are shown relative to it
    reason: str  # "Trimmed Context" | "Session Notes" | "Context Overflow Recovery" | "Daily Summary"
    turns: tuple[StoredTurn, ...]  # past the watermark, whole
    live: tuple[StoredTurn, ...]  # still in the agent's context: what the strategies compress
    previous_summary: str | None
    core: tuple[str, ...]  # bullets of the core file
    daily: str  # the daily files of the days covered, as far as they exist
    window: int  # tokens
    budget: float  # fraction of the window that the compressed session may take
    keep_recent: int
    strategy: str
    tz: tzinfo
    count_tokens: compress.CountTokens
    now: datetime  # aware; used only where no covered turn has a time
    instructions: str  # the text of sleep.md
    judges: Judges
    daily_share: float = DAILY_SHARE
    program: str | None = None  # whose session it is, as people call it; None where its transcript does not tell
    earlier: tuple[StoredTurn, ...] = ()  # of the session, before those covered: where a word first occurs
    unscanned: int = 0  # turns among them whose text could not be scanned for secrets, and is empty for now


@dataclass(frozen=True, slots=True)
class _SleepResult:
    """The claims that may be written, with the session compressed."""

    lines: tuple[reply.SummaryLine, ...]
    memories: tuple[job.NewMemory, ...]
    summary: str
    messages: tuple[job.CompressedMessage, ...]
    receipt: dict[str, object]
    claims: tuple[Mapping[str, Any], ...]


def decide(inputs: SleepInputs) -> job.Steps:
    """Return what a sleep comes to, phase by phase."""
    if not inputs.turns:
        return job.NothingToDo("no turns past the watermark")
    yield job.EnterPhase("process")
    gathered = evidence.gather(inputs.turns, inputs.folder, inputs.tz)
    if not any(quoted.origin != REPORT for quoted in gathered.material):
        why = "nothing was said that may be remembered"
        counted = {"unscanned": inputs.unscanned, **gathered.counts}
        return job.NothingToDo(why, (_watermark(inputs),), {"process": counted})
    yield job.EnterPhase("summarize")
    answer: job.Reply = yield _question(inputs, gathered)
    parsed = reply.parse(answer)
    if isinstance(parsed, job.RejectedReply):
        return parsed
    foreign = Foreign((*inputs.earlier, *inputs.turns))
    judging = yield from judge(_begin_judging(inputs, gathered, parsed, answer, foreign), _FORM, _parse_repair)
    judged = judging.results
    if judged and all(one.outcome is ClaimOutcome.REFUSED and one.why in _MADE_UP for one in judged):
        return job.RejectedReply("nothing in the reply stands in the turns it cites")
    dropped = Counter(one.why for one in judged if one.outcome is ClaimOutcome.REFUSED)
    dropped["unreadable"] = parsed.unreadable
    told = _build_result(inputs, gathered, answer, foreign, judged)
    yield job.EnterPhase("consolidate")
    told = _consolidate(inputs, gathered, told, dropped)
    yield job.EnterPhase("save")
    return _save_result(inputs, told, dropped)


def word_limit(said_words: int, share: float, days: int = 1) -> int:
    """Return how many words the daily blocks of a session may hold in which `said_words` were said on `days` days."""
    wanted = max(FLOOR_WORDS, int(share * said_words) - HEADING_WORDS * days)
    return min(CEILING_WORDS * days, wanted)


def _limit(inputs: SleepInputs, gathered: SleepEvidence) -> int:
    return word_limit(gathered.said_words, inputs.daily_share, _days(inputs))


def _days(inputs: SleepInputs) -> int:
    """Return on how many local days something was said: each has a block of its own, for a reader of its own."""
    moments = _moments(inputs)
    return len({moments[turn.seq].date() for turn in inputs.turns if evidence.is_said(turn)}) or 1


def _watermark(inputs: SleepInputs) -> job.MoveWatermark:
    return job.MoveWatermark(inputs.session_id, CONSUMER, inputs.turns[-1].seq)


# Summarize


def _question(inputs: SleepInputs, gathered: SleepEvidence) -> job.Ask:
    context = [("words", str(_limit(inputs, gathered)))]
    if inputs.previous_summary:
        context.append(("summary so far", inputs.previous_summary))
    context += [("the agent's own summary", text) for text in gathered.summaries]
    if inputs.core:
        context.append(("known", "\n".join(f"- {text}" for text in inputs.core)))
    return job.Ask(CONSUMER, inputs.instructions, gathered.material, tuple(context))


def _begin_judging(
    inputs: SleepInputs, gathered: SleepEvidence, parsed: reply.ParsedSleepReply, answer: job.Reply, foreign: Foreign
) -> Judging:
    made = context_of(
        Pieces.collect(_without_echoes(one, foreign) for one in gathered.pieces),
        evidence.map_days(gathered.material, inputs.now.astimezone(inputs.tz).date()),
        inputs.judges,
        offline=answer.backend == job.OFFLINE,
        foreign=foreign.find_outside,
        about=PurePosixPath(inputs.folder).name if inputs.folder else "",
    )
    lines = (_claim(f"s{number}", told, None) for number, told in enumerate(parsed.summary, 1))
    memories = (_claim(f"c{number}", one, one) for number, one in enumerate(parsed.memories, 1))
    return Judging(made, (*lines, *memories))


def _without_echoes(piece: Piece, foreign: Foreign) -> Piece:
    """Return a piece in which what the assistant only repeats from outside is from outside."""
    lines = (
        replace(line, lane=Lane.OUTSIDE) if line.lane is Lane.ASSISTANT and foreign.echoes(line.text) else line
        for line in piece.lines
    )
    return replace(piece, lines=tuple(lines))


def _claim(name: str, told: reply.SummaryLine | job.NewMemory, memory: job.NewMemory | None) -> Claim:
    """Return a line of the reply as a claim; of the memories only the weighty ones are meant for the core."""
    cites = told.cites or tuple(f"t{seq}" for seq in told.sources)
    core = memory is not None and memory.importance >= CORE_IMPORTANCE and memory.type in CORE_CLASSES
    kind = CORE_CLASSES.get(memory.type) if memory is not None else None
    return Claim(name, told.text, cites, core=core, kind=kind, origin=memory)


def _parse_repair(answer: job.Reply) -> list[Claim]:
    parsed = reply.parse(answer)
    if isinstance(parsed, job.RejectedReply):
        return []
    back: list[reply.SummaryLine | job.NewMemory] = [*parsed.memories, *parsed.summary]
    return [Claim("", one.text, one.cites) for one in back]


def _build_result(
    inputs: SleepInputs, gathered: SleepEvidence, answer: job.Reply, foreign: Foreign, judged: Sequence[JudgedClaim]
) -> _SleepResult:
    lines = tuple(line for one in judged if (line := _line(inputs, one, foreign)))
    memories = tuple(memory for one in judged if (memory := _memory(inputs, one)))
    summary = _write_summary(inputs, lines, memories)
    messages = compress.compress(
        inputs.live,
        int(inputs.window * inputs.budget),
        inputs.strategy,
        inputs.keep_recent,
        summary or None,
        inputs.count_tokens,
    )
    receipt = _receipt(inputs, gathered, answer, messages)
    receipt["claims"] = count_claims(judged)
    rows = tuple(one.row() for one in judged)
    return _SleepResult(lines, memories, summary, messages, receipt, rows)


def _memory(inputs: SleepInputs, judged: JudgedClaim) -> job.NewMemory | None:
    """Return what a claim brings into the core; None where that is nothing."""
    memory = judged.claim.origin
    if judged.outcome is ClaimOutcome.REFUSED or not judged.core or not isinstance(memory, job.NewMemory):
        return None
    note = note_of(judged, inputs.folder) if judged.is_quoted else None
    return replace(memory, text=judged.text, sources=judged.seqs, cites=judged.ids, note=note)


def _line(inputs: SleepInputs, judged: JudgedClaim, foreign: Foreign) -> reply.SummaryLine | None:
    """Return what a claim brings into the daily file; None where that is nothing.

    Of a refused claim that was meant for the core the user's own words stay, so that no requirement is lost.
    """
    seqs, ids = judged.seqs, judged.ids
    if judged.outcome is ClaimOutcome.REFUSED:
        words = neutralize(judged.user_words) if judged.claim.core else ""
        return reply.SummaryLine(seqs, f"User: {words}", ids, required=True) if words else None
    if judged.core and isinstance(judged.claim.origin, job.NewMemory):
        return None
    text = judged.text
    if judged.outcome is ClaimOutcome.QUOTED:
        text = f"User: {text}"
    shown = foreign.remove_tokens(_by_speaker(text, judged), inputs.session_id)
    return reply.SummaryLine(seqs, shown, ids)


def _by_speaker(text: str, judged: JudgedClaim) -> str:
    """Return a daily line with the label of who says it: whoever said the sentence that is nearest to it.

    A line that cites the user besides something else is the user's only if their sentences have most of its words. The
    question that an answer quotes in brackets is another speaker's, so it does not count.
    """
    label, said = label_of(text), strip_label(text)
    answer = _ASKED.sub("", said)
    shares = {line: _share_words(answer, line.text) for line in judged.lines}
    nearest = max(judged.lines, key=lambda line: (shares[line], -line.lane))
    theirs = max((share for line, share in shares.items() if line.lane is Lane.USER), default=0.0)
    if answer != said and label_of(judged.claim.text) == "user" and theirs > 0 and theirs >= shares[nearest]:
        return f"User: {said}"  # the judging took the label away, since the question is cited as well
    if label == "user" and theirs > 0 and 2 * theirs >= shares[nearest]:
        return text
    if nearest.lane < Lane.ASSISTANT:
        return text if label in REPORTS else f"Report: {said}"
    return f"Assistant: {said}" if label in {"", "user"} and nearest.lane is Lane.ASSISTANT else text


def _share_words(text: str, line: str) -> float:
    """Return the share, 0..1, of the words of `text` that `line` has; 1 for the same text, whatever its words are."""
    same = normal.normalize_quotation(text) == normal.normalize_quotation(line)
    return 1.0 if same else measure_overlap(text, line)


def _write_summary(inputs: SleepInputs, lines: Sequence[reply.SummaryLine], memories: Sequence[job.NewMemory]) -> str:
    earlier = [line for line in (inputs.previous_summary or "").splitlines() if line.strip()]
    known = KnownTexts(earlier)
    for text in [*(line.text for line in lines), *(memory.text for memory in memories)]:
        if not known.says(text):
            known.add(text)
            earlier.append(f"- {text}")
    limit = min(RUNNING_TOKENS, int(inputs.window * inputs.budget * RUNNING_SHARE))
    return "\n".join(compress.squeeze(earlier, limit, inputs.count_tokens))


def _receipt(
    inputs: SleepInputs, gathered: SleepEvidence, answer: job.Reply, messages: Sequence[job.CompressedMessage]
) -> dict[str, object]:
    limit = int(inputs.window * inputs.budget)
    return {
        "process": {
            "turns": len(inputs.turns),
            "unscanned": inputs.unscanned,
            "said_words": gathered.said_words,
            **gathered.counts,
        },
        "summarize": {
            **answer.counts,
            "strategy": inputs.strategy,
            "live_turns": len(inputs.live),
            "messages": len(messages),
            "tokens": sum(message.tokens for message in messages),
            "budget": limit,
            "over_budget": compress.count_excess(messages, limit),
        },
    }


# Consolidate


def _consolidate(
    inputs: SleepInputs, gathered: SleepEvidence, told: _SleepResult, dropped: Counter[str]
) -> _SleepResult:
    core, chosen = KnownTexts(inputs.core), KnownTexts()
    memories = []
    for memory in sorted(told.memories, key=lambda one: (-one.importance, one.sources, one.text)):
        if core.says(memory.text) or chosen.says(memory.text):
            dropped["duplicate"] += 1
            continue
        chosen.add(memory.text)
        memories.append(memory)
    minor = [memory for memory in told.memories if memory not in memories]
    lines = _fit_budget(inputs, gathered, _news(inputs, told, minor, core, dropped), dropped)
    kept = tuple(sorted(memories, key=lambda one: (one.sources, one.text)))
    return replace(told, lines=lines, memories=kept)


def _news(
    inputs: SleepInputs, told: _SleepResult, minor: Sequence[job.NewMemory], core: KnownTexts, dropped: Counter[str]
) -> list[reply.SummaryLine]:
    """Return the lines for the daily file: the summary's, then minor memories that neither a line nor the core says."""
    known = KnownTexts([*inputs.daily.splitlines(), *(inputs.previous_summary or "").splitlines()])
    lines = []
    for one in (*told.lines, *(reply.SummaryLine(memory.sources, memory.text, memory.cites) for memory in minor)):
        if core.says(one.text) or known.says(one.text):
            dropped["duplicate"] += 1
            continue
        known.add(one.text)
        lines.append(one)
    return lines


def _fit_budget(
    inputs: SleepInputs, gathered: SleepEvidence, lines: list[reply.SummaryLine], dropped: Counter[str]
) -> tuple[reply.SummaryLine, ...]:
    limit = int(_limit(inputs, gathered) * LENGTH_TOLERANCE)
    required = {f"- {line.text}" for line in lines if line.required}
    limit -= sum(map(prose.count_words, required))
    texts = [f"- {line.text}" for line in lines]
    fitting = [text for text in texts if text not in required]
    fitting = compress.squeeze(fitting, limit, lambda given: [prose.count_words(text) for text in given])
    fitting = compress.squeeze(fitting, CEILING_TOKENS * _days(inputs), inputs.count_tokens)
    kept = required.union(fitting)
    dropped["over length"] += sum(text not in kept for text in texts)
    return tuple(line for line, text in zip(lines, texts, strict=True) if text in kept)


# Save


def _save_result(inputs: SleepInputs, told: _SleepResult, dropped: Counter[str]) -> job.End:
    types = Counter(memory.type.value for memory in told.memories)
    receipt = {
        **told.receipt,
        "consolidate": {
            "lines": len(told.lines),
            "core": dict(sorted(types.items())),
            "dropped": dict(sorted((+dropped).items())),
        },
    }
    if not told.lines and not told.memories:
        return job.NothingToDo("nothing new worth keeping", (_watermark(inputs),), receipt, told.claims)
    edits: list[job.Edit] = list(_daily(inputs, told.lines))
    receipt["save"] = {"blocks": len(edits), "core": len(told.memories)}
    if told.memories:
        edits.append(job.AddMemories(told.memories))
    edits += [job.KeepSummary(inputs.session_id, told.summary, told.messages), _watermark(inputs)]
    receipt["cites"] = {digest_of(line.text): list(line.cites) for line in told.lines if line.cites}
    return job.Done(tuple(edits), receipt, claims=told.claims)


def _daily(inputs: SleepInputs, lines: Sequence[reply.SummaryLine]) -> list[job.AppendDaily]:
    moments = _moments(inputs)
    clocks: dict[date, list[str]] = {}
    for turn in inputs.turns:
        clocks.setdefault(moments[turn.seq].date(), []).append(moments[turn.seq].strftime("%H:%M"))
    by_day: dict[date, list[str]] = {}
    for line in lines:
        by_day.setdefault(moments[max(line.sources)].date(), []).append(line.text)
    return [
        block_of(day, inputs.reason, said, (clocks[day][0], clocks[day][-1]), inputs.program, inputs.session_id)
        for day, said in sorted(by_day.items())
    ]


def block_of(
    day: date, reason: str, lines: Sequence[str], clocks: tuple[str, str], program: str | None, session_id: str
) -> job.AppendDaily:
    """Return lines of a session as a block for the file of a day; `clocks` say when they begin and end."""
    body = [f"- {line}" for line in lines]
    if program is not None:
        body.insert(0, daily.attribute_block(program, *clocks, neutralize(session_id)))
    return job.AppendDaily(day, reason, clocks[-1], "\n".join(body))


def _moments(inputs: SleepInputs) -> dict[int, datetime]:
    """Return the local time of each covered turn; one without a time takes that of the turn before it."""
    known = [evidence.parse_moment(turn.at) for turn in inputs.turns]
    held = next((at for at in known if at), inputs.now)
    moments = {}
    for turn, at in zip(inputs.turns, known, strict=True):
        held = at or held
        moments[turn.seq] = held.astimezone(inputs.tz)
    return moments
