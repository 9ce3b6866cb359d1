"""Run a sleep: turns that leave an agent's context become lines of its daily file and a few memories of its core.

There are four phases. *Process* chooses the evidence (`evidence`). *Summarize* asks the model, has the claims of its
reply judged (`judging`), which may ask a second reader, and compresses the session (`compress`). *Consolidate* drops
statements that are known already. *Save* returns the edits. The same inputs and the same replies give the same edits,
byte for byte.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, tzinfo
from pathlib import PurePosixPath
from typing import Any

from memoryd.jobs import claims as reasons
from memoryd.jobs import compress, evidence, job, reply
from memoryd.jobs.claims import Claim, ClaimOutcome, JudgedClaim, Judges, count_claims, note_of
from memoryd.jobs.day_lines import CorrectingLines, collect_known, find_corrected, list_day_lines, without_speaker
from memoryd.jobs.duplicates import KnownTexts
from memoryd.jobs.evidence import NOTE, REPORT, SleepEvidence
from memoryd.jobs.judging import Judging, context_of
from memoryd.jobs.pieces import Piece, Pieces
from memoryd.jobs.repair import judge
from memoryd.jobs.witness import digest_of
from memoryd.jobs.work_state import STATE
from memoryd.ledger.foreign import ONLY_A_PAGE, Foreign
from memoryd.ledger.lane import Lane, MemoryClass
from memoryd.text import prose
from memoryd.text.content import EARLIER, label_of, strip_label
from memoryd.text.neutral import neutralize
from memoryd.tiers import daily
from memoryd.tiers.recent import LONGEST
from memoryd.tiers.session_summary import (
    CORRECTED,
    Section,
    SummaryPoint,
    merge_points,
    parse_points,
    render_points,
    shorten_points,
)
from memoryd.transcripts.turn import StoredTurn

CONSUMER = "sleep"
CORE_IMPORTANCE = 0.7  # from this importance on, a memory is meant for the core; the rest stays in the daily file
_FULL_IMPORTANCE = 0.85  # the same limit if the core is full: lasting rules, and what the user asks to remember
# The types that may go into the core, each with its class; for a fact the second reader decides the class.
CORE_CLASSES = {
    job.MemoryType.PREFERENCE: MemoryClass.RULE,
    job.MemoryType.DECISION: MemoryClass.PROJECT,
    job.MemoryType.LEARNING: MemoryClass.LESSON,
    job.MemoryType.FACT: None,
}
# The address of a pull request in the output of the agent's own command. Only a tool names it, but its form is known.
_PULL_REQUEST = re.compile(
    rf"{STATE}Pull request: https://((?:github\.com|gitlab\.com|bitbucket\.org)(?:/[\w.-]{{1,40}}){{2,5}}"
    r"/(?:pull|merge_requests)/\d{1,9})(?: \(merged\))?"
)
# The offline backend's lines of a session are stored with it up to this share of their characters, within these bounds.
_KEPT_SHARE, _FEWEST_KEPT, _MOST_KEPT = 0.4, 2_000, 4_000
_FREE = frozenset({Section.STATE, Section.FILES})  # sections whose characters do not count
# The most points of each section that are stored with the session, for the next sleep and for `RECENT.md`.
_MOST_POINTS = {
    Section.ASKED: 12, Section.DECIDED: 24, Section.FOUND: 18, Section.STATE: 8,
    Section.OPEN: 8, Section.FAILED: 6, Section.FILES: 4,
}  # fmt: skip
_TALK_POINTS = 4  # factor for a conversation, which has only one section for each speaker
# Reasons that refuse a claim without support in the material.
_MADE_UP = frozenset({reasons.EMPTY, reasons.NOTHING_CITED, reasons.NO_WORD, reasons.MISSING})
_FORM = "[MEMORIES]\n- preference 0.90 [t12.1] Always run the tests before a commit."

DAILY_SHARE = 0.25  # the largest share of the spoken words that the daily block may have, with its headings
WORK_SHARE = 0.5  # the largest share in a working session, because few words were spoken about its findings
HEADING_WORDS = 12  # words of the title, the heading and the first line of a daily block
DENSE_WORDS = 900  # up to this many words, a working session may have twice the share
FLOOR_WORDS = 80  # the least limit of words, so that almost all of a short session is kept, with its speakers
FLOOR_OF_WORK = 360  # the least limit for a working session, to hold its decisions and its final state
CEILING_WORDS = 1800  # the most words of a day, so that a person can read even a huge session the next morning
LENGTH_TOLERANCE = 1.05  # a block may be longer by this factor, because no backend counts words exactly
CEILING_TOKENS = 4000  # the most tokens of a day, so that an agent can read it within its start-up budget
RUNNING_SHARE = 0.25  # the largest share of the compressed session's budget that the running summary may take
RUNNING_TOKENS = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInputs:
    """Hold what a sleep and an extraction of facts both know about a session and about the agent's memory."""

    agent_id: str
    session_id: str
    program: str | None = None  # the agent program of the session; None if its transcript does not name it
    folder: str | None  # the session's working folder; paths inside it are shown relative to it
    turns: tuple[StoredTurn, ...]  # the turns past the watermark, whole
    earlier: tuple[StoredTurn, ...] = ()  # the turns before these, for the first use of a word and the last question
    core: tuple[str, ...]  # bullets of the core file
    daily: str  # the text of the daily files of these days, if they exist
    tz: tzinfo
    now: datetime  # an aware datetime; a sleep uses it only if no turn has a time
    instructions: str  # the text of sleep.md or facts.md
    judges: Judges


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepInputs(SessionInputs):
    """Hold a frozen snapshot of everything that one sleep of one session depends on."""

    reason: str  # "Trimmed Context" | "Session Notes" | "Context Overflow Recovery" | "Daily Summary"
    live: tuple[StoredTurn, ...]  # the turns that are still in the agent's context, for the strategies to compress
    previous_summary: str | None
    window: int  # the size of the model's context window, in tokens
    budget: float  # fraction of the window that the compressed session may take
    keep_recent: int
    strategy: str
    count_tokens: compress.CountTokens
    daily_share: float = DAILY_SHARE
    branch: str | None = None  # the last branch in the session's records
    is_full: bool = False  # the core has so many memories that it takes only what the user wants for good
    unscanned: int = 0  # the number of turns that could not be scanned for secrets; their text is empty for now

    @property
    def room(self) -> int:
        """Return the tokens that the compressed session may take."""
        return int(self.window * self.budget)


@dataclass(frozen=True, slots=True)
class _SleepResult:
    """Hold the accepted claims, with the compressed session."""

    lines: tuple[reply.SummaryLine, ...]
    memories: tuple[job.NewMemory, ...]
    summary: str
    messages: tuple[job.CompressedMessage, ...]
    receipt: dict[str, object]
    claims: tuple[Mapping[str, Any], ...]


def decide(
    inputs: SleepInputs, ask: Callable[[job.Ask], Generator[job.Ask, job.Reply, job.Reply]] = job.ask_model
) -> job.Steps:
    """Run a sleep phase by phase: ask about the turns, judge the reply, and return the end of the job.

    It asks nothing if the turns hold nothing that may be remembered. `ask` gets the reply to its question.
    """
    if not inputs.turns:
        return job.NothingToDo("no turns past the watermark")
    yield job.EnterPhase("process")
    gathered = evidence.gather(inputs.turns, inputs.folder, inputs.tz, inputs.earlier, inputs.branch)
    if not any(quoted.origin != REPORT for quoted in gathered.material):
        why = "nothing was said that may be remembered"
        counted = {"unscanned": inputs.unscanned, **gathered.counts}
        return job.NothingToDo(why, (_watermark(inputs),), {"process": counted})
    yield job.EnterPhase("summarize")
    answer = yield from ask(_question(inputs, gathered))
    parsed = reply.parse(answer)
    if isinstance(parsed, job.RejectedReply):
        return parsed
    foreign = Foreign((*inputs.earlier, *inputs.turns), inputs.folder, _list_addresses(gathered))
    judging = yield from judge(_begin_judging(inputs, gathered, parsed, answer, foreign), _FORM, _parse_repair)
    judged = judging.results
    # Only a model can give a better reply when it is asked again.
    if answer.backend != job.OFFLINE and judged and all(one.why in _MADE_UP for one in judged):
        return job.RejectedReply("nothing in the reply is supported by the turns it cites")
    dropped = Counter(one.why for one in judged if one.outcome is ClaimOutcome.REFUSED)
    dropped["unreadable"] = parsed.unreadable
    lines = list_day_lines(judged, foreign)
    corrected = find_corrected(_list_earlier(inputs), judging.context.pieces, parsed.superseded, lines)
    told = _build_result(inputs, gathered, answer, judged, corrected)
    yield job.EnterPhase("consolidate")
    told = _consolidate(inputs, gathered, told, dropped)
    yield job.EnterPhase("save")
    return _save_result(inputs, told, dropped, is_offline=answer.backend == job.OFFLINE)


def word_limit(said_words: int, share: float, days: int = 1, *, is_work: bool = False) -> int:
    """Return the largest number of words for the daily blocks of a session.

    If an agent worked and little was said, the limit is up to twice the share, because more was done than said.

    Args:
        said_words: the number of spoken words.
        share: the share of the spoken words that the blocks may have.
        days: the number of days on which something was said.
        is_work: an agent worked in the session.
    """
    dense = min(DENSE_WORDS, int(2 * share * said_words)) if is_work else 0
    floor = FLOOR_OF_WORK if is_work else FLOOR_WORDS
    return min(CEILING_WORDS * days, max(floor, max(dense, int(share * said_words)) - HEADING_WORDS * days))


def _limit(inputs: SleepInputs, gathered: SleepEvidence) -> int:
    is_work = bool(inputs.program) or any(gathered.counts.get(f"{fate}.tool") for fate in ("taken", "aside"))
    share = max(inputs.daily_share, WORK_SHARE) if is_work else inputs.daily_share
    return word_limit(gathered.said_words, share, _days(inputs), is_work=is_work)


def _days(inputs: SleepInputs) -> int:
    """Return the number of local days on which something was said, at least 1; each day has its own block."""
    moments = _moments(inputs)
    return len({moments[turn.seq].date() for turn in inputs.turns if evidence.is_said(turn)}) or 1


def _watermark(inputs: SleepInputs) -> job.MoveWatermark:
    return job.MoveWatermark(inputs.session_id, CONSUMER, inputs.turns[-1].seq)


# Summarize


def _list_earlier(inputs: SleepInputs) -> tuple[SummaryPoint, ...]:
    """Return the points of the session's earlier sleeps."""
    return parse_points(inputs.previous_summary or "").points


def _question(inputs: SleepInputs, gathered: SleepEvidence) -> job.Ask:
    context = [("words", str(_limit(inputs, gathered)))]
    if inputs.program:
        context.append(("agent", inputs.program))
    if inputs.previous_summary:
        context.append(("summary so far", render_points(_list_earlier(inputs), numbered=True)))
    if inputs.core:
        context.append(("known", "\n".join(f"- {text}" for text in inputs.core)))
    return job.Ask(CONSUMER, inputs.instructions, gathered.material, tuple(context))


def _begin_judging(
    inputs: SleepInputs, gathered: SleepEvidence, parsed: reply.ParsedSleepReply, answer: job.Reply, foreign: Foreign
) -> Judging:
    # A note has no text from outside, and the check for echoes would take its own words for an echo of itself.
    notes = {quoted.id for quoted in gathered.material if quoted.origin == NOTE}
    made = context_of(
        Pieces(one if one.id in notes else _without_echoes(one, foreign) for one in gathered.pieces),
        evidence.map_days(gathered.material, inputs.now.astimezone(inputs.tz).date()),
        inputs.judges,
        offline=answer.backend == job.OFFLINE,
        foreign=foreign,
        about=PurePosixPath(inputs.folder).name if inputs.folder else "",
    )
    lines = (_claim(f"s{number}", told, notes) for number, told in enumerate(parsed.summary, 1))
    least = _FULL_IMPORTANCE if inputs.is_full else CORE_IMPORTANCE
    memories = (_claim(f"c{number}", told, notes, least) for number, told in enumerate(parsed.memories, 1))
    return Judging(made, (*lines, *memories))


def _list_addresses(gathered: SleepEvidence) -> list[str]:
    """Return the addresses of pull requests that the agent's own commands show, without their scheme."""
    told = (_PULL_REQUEST.match(quoted.text) for quoted in gathered.material if quoted.origin == REPORT)
    return [found[1].lower() for found in told if found]


def _without_echoes(piece: Piece, foreign: Foreign) -> Piece:
    """Return a piece in which sentences of the assistant that only repeat outside text count as outside."""
    lines = (
        replace(line, lane=Lane.OUTSIDE) if line.lane is Lane.ASSISTANT and foreign.echoes(line.text) else line
        for line in piece.lines
    )
    return replace(piece, lines=tuple(lines))


def _claim(
    name: str, told: reply.SummaryLine | job.NewMemory, notes: Collection[str], least: float = CORE_IMPORTANCE
) -> Claim:
    """Return a line of the reply as a claim; a memory is for the core only if its importance is at least `least`.

    A statement that only notes make is not. It comes to the core later, when a dream finds it in the daily file.
    """
    cites = told.cites or tuple(f"t{seq}" for seq in told.sources)
    said = tuple(cite for cite in cites if cite.partition(".")[0] not in notes)
    memory = told if isinstance(told, job.NewMemory) else None
    is_weighty = memory is not None and memory.importance >= least and memory.type in CORE_CLASSES
    core = is_weighty and (bool(said) or not cites)
    kind = CORE_CLASSES.get(memory.type) if memory is not None else None
    of_user = not core and (getattr(told, "section", None) is Section.ASKED or label_of(told.text) == "user")
    return Claim(name, told.text, said if core else cites, core=core, user_only=of_user, kind=kind, origin=told)


def _parse_repair(answer: job.Reply) -> list[Claim]:
    parsed = reply.parse(answer)
    if isinstance(parsed, job.RejectedReply):
        return []
    back: list[reply.SummaryLine | job.NewMemory] = [*parsed.memories, *parsed.summary]
    return [Claim("", one.text, one.cites) for one in back]


def _build_result(
    inputs: SleepInputs,
    gathered: SleepEvidence,
    answer: job.Reply,
    judged: Sequence[JudgedClaim],
    told: CorrectingLines,
) -> _SleepResult:
    memories = tuple(memory for one in judged if (memory := _memory(inputs, one)))
    summary = _write_summary(inputs, told, answer)
    strategy, recent = inputs.strategy, inputs.keep_recent
    messages = compress.compress(inputs.live, inputs.room, strategy, recent, summary or None, inputs.count_tokens)
    receipt = _receipt(inputs, gathered, answer, messages)
    receipt["claims"] = count_claims(judged)
    rows = tuple(one.row() for one in judged)
    return _SleepResult(tuple(told.for_day()), memories, summary, messages, receipt, rows)


def _memory(inputs: SleepInputs, judged: JudgedClaim) -> job.NewMemory | None:
    """Return the memory that a claim adds to the core; None if it adds none."""
    memory = judged.claim.origin
    if judged.outcome is ClaimOutcome.REFUSED or not judged.core or not isinstance(memory, job.NewMemory):
        return None
    note = note_of(judged, inputs.folder) if judged.is_quoted else None
    return replace(memory, text=judged.text, sources=judged.seqs, cites=judged.ids, note=note)


def _write_summary(inputs: SleepInputs, told: CorrectingLines, answer: job.Reply) -> str:
    """Return the running summary of the session as text: the points of earlier sleeps, updated by the new lines."""
    in_sections = any(line.section for line in told.lines)
    # The offline backend gives the most important lines of work first. The rest stays in the daily file only.
    is_offline = in_sections and answer.backend == job.OFFLINE
    share = int(_KEPT_SHARE * sum(len(line.text) for line in told.lines))
    room = max(_FEWEST_KEPT, min(_MOST_KEPT, share)) if is_offline else math.inf
    # The offline backend's open points describe the end of the session and replace earlier ones. A model itself says
    # which earlier points are done.
    is_over = is_offline and any(line.section is Section.OPEN for line in told.lines)
    known = told.keep_others(_list_earlier(inputs))
    earlier = [point for point in known if not is_over or point.section is not Section.OPEN]
    points = _merge_earlier(earlier, filter(_is_whole, map(_point, told.lines)), room)
    limit = min(RUNNING_TOKENS, int(inputs.window * inputs.budget * RUNNING_SHARE))
    text = ""
    fullest = 10 if in_sections else 10 * _TALK_POINTS
    for share in range(fullest, 0, -1):
        most = {section: max(1, room * share // 10) for section, room in _MOST_POINTS.items()}
        text = render_points(shorten_points(points, most))
        if inputs.count_tokens([text])[0] <= limit:
            break
    return text


def _is_whole(point: SummaryPoint) -> bool:
    """Return False for a point with replaced tokens; it stays only in the daily file, unless it is a request."""
    return ONLY_A_PAGE not in point.text or point.section is Section.ASKED


def _merge_earlier(
    earlier: Sequence[SummaryPoint], later: Iterable[SummaryPoint], room: float
) -> tuple[SummaryPoint, ...]:
    """Return the points of a session without repetitions; the new points have at most `room` characters.

    The last request is always kept and comes last, even if it was made before.
    """
    found = list(later)
    last = [point for point in found if point.section is Section.ASKED][-1:]
    asked = collect_known(point.text for point in last)
    held = [point for point in earlier if point.section is not Section.ASKED or not asked.says(strip_label(point.text))]
    said = collect_known(point.text for point in held if point.section not in {Section.STATE, Section.OPEN})
    new: list[SummaryPoint] = []
    for point in found:
        text = strip_label(point.text)
        size = 0 if point in last or point.section in _FREE else min(len(text), LONGEST)
        if not said.says(text) and size <= room:
            room -= size
            said.add(text)
            new.append(point)
    return merge_points(held, new)


def _point(line: reply.SummaryLine) -> SummaryPoint:
    section = line.section or (Section.ASKED if label_of(line.text) == "user" else Section.FOUND)
    return SummaryPoint(section, f"{EARLIER * line.is_earlier}{without_speaker(line.text, section)}")


def _receipt(
    inputs: SleepInputs, gathered: SleepEvidence, answer: job.Reply, messages: Sequence[job.CompressedMessage]
) -> dict[str, object]:
    tokens = sum(message.tokens for message in messages)
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
            "tokens": tokens,
            "budget": inputs.room,
            "over_budget": max(0, tokens - inputs.room),  # above 0 only if the system messages alone exceed the budget
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
    lines = _fit_budget(inputs, gathered, _news(inputs, told, core, dropped), dropped)
    return replace(told, lines=lines, memories=tuple(sorted(memories, key=lambda one: (one.sources, one.text))))


def _news(inputs: SleepInputs, told: _SleepResult, core: KnownTexts, dropped: Counter[str]) -> list[reply.SummaryLine]:
    """Return the lines for the daily file that neither the day nor the core has already."""
    known = collect_known([*inputs.daily.splitlines(), *(inputs.previous_summary or "").splitlines()])
    lines = []
    for one in told.lines:
        text = strip_label(one.text)
        if not one.text.startswith(CORRECTED) and (core.says(text) or known.says(text)):
            dropped["duplicate"] += 1
            continue
        known.add(text)
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


def _save_result(inputs: SleepInputs, told: _SleepResult, dropped: Counter[str], *, is_offline: bool) -> job.End:
    receipt = {
        **told.receipt,
        "consolidate": {
            "lines": len(told.lines),
            "core": dict(sorted(Counter(memory.type.value for memory in told.memories).items())),
            "dropped": dict(sorted((+dropped).items())),
        },
    }
    if not told.lines and not told.memories:
        kept = [job.KeepSummary(inputs.session_id, told.summary, told.messages)] if told.summary else []
        return job.NothingToDo("nothing new worth keeping", (*kept, _watermark(inputs)), receipt, told.claims)
    edits: list[job.JobEdit] = list(_daily(inputs, told.lines, is_offline=is_offline))
    receipt["save"] = {"blocks": len(edits), "core": len(told.memories)}
    if told.memories:
        edits.append(job.AddMemories(told.memories))
    edits += [job.KeepSummary(inputs.session_id, told.summary, told.messages), _watermark(inputs)]
    receipt["cites"] = {digest_of(line.text): list(line.cites) for line in told.lines if line.cites}
    return job.Done(tuple(edits), receipt, claims=told.claims)


def _daily(inputs: SleepInputs, lines: Sequence[reply.SummaryLine], *, is_offline: bool) -> list[job.AppendDaily]:
    """Return the blocks of the daily files, in the order of the conversation.

    A model has already put the lines of its sections in order, so these lines keep their order.
    """
    moments = _moments(inputs)
    clocks: dict[date, list[str]] = {}
    for turn in inputs.turns:
        clocks.setdefault(moments[turn.seq].date(), []).append(moments[turn.seq].strftime("%H:%M"))
    by_day: dict[date, list[reply.SummaryLine]] = {}
    for line in sorted(lines, key=lambda one: max(one.sources) if is_offline or one.section is None else 0):
        by_day.setdefault(moments[max(line.sources)].date(), []).append(line)
    return [
        block_of(day, inputs.reason, _body(said), (clocks[day][0], clocks[day][-1]), inputs.program, inputs.session_id)
        for day, said in sorted(by_day.items())
    ]


def _body(lines: Sequence[reply.SummaryLine]) -> str:
    """Return the body of a day's block: the lines without a section first, then the sections."""
    plain = [f"- {line.text}" for line in lines if line.section is None]
    points = [SummaryPoint(line.section, line.text) for line in lines if line.section is not None]
    return "\n".join((*plain, *filter(None, [render_points(points)]))).replace("\n### ", "\n\n### ")


def block_of(
    day: date, reason: str, body: str, clocks: tuple[str, str], program: str | None, session_id: str
) -> job.AppendDaily:
    """Return a session's lines of a day as a block for the daily file; `clocks` are the first and last time, HH:MM."""
    if program is not None:
        attribution = daily.attribute_block(program, *clocks, neutralize(session_id))
        body = f"{attribution}\n" + ("\n" if body.startswith("#") else "") + body
    return job.AppendDaily(day, reason, clocks[-1], body)


def _moments(inputs: SleepInputs) -> dict[int, datetime]:
    """Return the local time of each turn, by its number; a turn without a time takes that of the turn before it."""
    known = [evidence.parse_moment(turn.at) for turn in inputs.turns]
    held = next((at for at in known if at), inputs.now)
    moments = {}
    for turn, at in zip(inputs.turns, known, strict=True):
        held = at or held
        moments[turn.seq] = held.astimezone(inputs.tz)
    return moments
