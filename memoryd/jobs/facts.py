"""Turn the user's statements about themselves into facts, and a few of them into sentences of the profile.

Only the user's own words make a fact. The assistant's words are shown for context and prove nothing about the user.

Each item of a reply is a claim (`judging`). Preferences, goals, habits and corrections are the user's words, copied
whole. Another fact may keep the model's wording if a second reader supports it. Words that are not meant to last, and
the words behind a refused claim, go to the daily file, so that no requirement is lost. A known fact ends only if the
user's words end it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date
from typing import Any

from memoryd.jobs import claims as reasons
from memoryd.jobs import evidence, facts_reply, job, signals
from memoryd.jobs.claims import Claim, ClaimOutcome, JudgedClaim, Old, count_claims, is_newer, note_of
from memoryd.jobs.claims import ClaimStep as Judgement
from memoryd.jobs.duplicates import KnownTexts
from memoryd.jobs.exchanges import Exchange, split_exchanges
from memoryd.jobs.facts_reply import FactRemoval, OfferedFact, RewrittenSection
from memoryd.jobs.judging import Judging, context_of
from memoryd.jobs.pieces import Citation, Piece, Pieces, is_verbatim
from memoryd.jobs.repair import judge
from memoryd.jobs.sleep import SessionInputs, block_of
from memoryd.jobs.witness import digest_of
from memoryd.ledger import forgetting
from memoryd.ledger.category import Category
from memoryd.ledger.facts import LONGEST_SECTION, PASSING_SECTIONS, Fact, ProfileEntry, ProfileSection
from memoryd.ledger.floor import Material
from memoryd.ledger.foreign import Foreign
from memoryd.ledger.lane import Lane, MemoryClass
from memoryd.text import normal, prose
from memoryd.text.content import list_stems
from memoryd.text.neutral import neutralize
from memoryd.text.sentences import list_texts
from memoryd.transcripts.turn import Origin, StoredTurn

CONSUMER = "facts"
REASON = "Session Notes"  # the heading of a block in the daily file
MOST_KNOWN = 80  # facts shown to the model: first those that share words with the exchange, then the most certain
LONGEST_FACT = 300  # characters; longer words of the user are a memory of the core
_HALF = 0.5  # the least share of a fact's content words in a correction that ends the fact without a replacement
_QUOTED = frozenset({Category.PREFERENCE, Category.GOAL, Category.CORRECTION, Category.BEHAVIOR})
_TYPES = {
    Category.KNOWLEDGE: job.MemoryType.FACT,
    Category.CONTEXT: job.MemoryType.FACT,
    Category.GOAL: job.MemoryType.FACT,
}
_MADE_UP = frozenset({Judgement.FLOOR, Judgement.QUOTE})  # steps that refuse text without support in the material
_SAID_NO = frozenset({*reasons.REASONS.values(), reasons.OLDER, reasons.LOSES})
_FORM = '{"new": [{"content": "Lives in Oslo.", "category": "context", "confidence": 0.9, "cites": ["t3.2"]}]}'


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsInputs(SessionInputs):
    """Hold a frozen snapshot of everything that one extraction depends on."""

    known: tuple[Fact, ...]  # the live facts, the most certain first
    said_at: Mapping[str, str]  # when each fact was said, or edited by hand, by its id, UTC
    profile: Mapping[ProfileSection, ProfileEntry]
    tombstones: Mapping[str, str]  # when each text was forgotten, by its hash (`hash_of`)
    min_confidence: float
    drain: bool  # the session has ended, or memoryd stops, so that an incomplete exchange counts as well


@dataclass(frozen=True, slots=True)
class _FactsMaterial:
    """Hold the material of the question, with the signals in it and the watermark after it."""

    material: tuple[job.QuotedPiece, ...]
    pieces: Pieces
    signals: Mapping[int, tuple[signals.Signal, ...]]  # by the number of a user's turn
    watermark: job.MoveWatermark
    receipt: dict[str, object]


@dataclass(slots=True)
class _KeptClaims:
    """Collect the accepted parts of a reply, claim by claim."""

    known: KnownTexts  # texts of facts, including those that are learned now
    written: KnownTexts  # lines of the daily files and of the core
    dropped: Counter[str]  # counts of refused claims by reason, and of items that were left out before the judging
    obeyed: set[str] = field(default_factory=set)  # the user's words that ended a fact
    learned: list[job.LearnedFact] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    memories: list[job.NewMemory] = field(default_factory=list)
    sections: dict[ProfileSection, list[JudgedClaim]] = field(default_factory=dict)
    lines: list[tuple[JudgedClaim, str]] = field(default_factory=list)  # for the daily file, with their claims
    rows: list[Mapping[str, Any]] = field(default_factory=list)


def decide(inputs: FactsInputs, said: job.Reply | None = None) -> job.Steps:
    """Run the facts job: ask about the complete exchanges, judge the reply, and return the end of the job.

    It asks nothing if no exchange is complete or nothing in them can be a fact, or if it gets a reply in `said`.
    """
    if not inputs.turns:
        return job.NothingToDo("no turns past the watermark")
    found = split_exchanges(inputs.turns)
    ready = found if inputs.drain else [one for one in found if one.complete or one is not found[-1]]
    if not ready and found:
        return job.NothingToDo("the agent has not answered the last message yet")
    last = ready[-1].last_seq if ready and not inputs.drain else inputs.turns[-1].seq
    gathered = _gather_material(inputs, ready, last)
    if not any(quoted.origin == Origin.USER.value for quoted in gathered.material):
        return job.NothingToDo("nothing was said that could be a fact", (gathered.watermark,), gathered.receipt)
    question = job.Ask(CONSUMER, inputs.instructions, gathered.material, _context(inputs, gathered))
    answer: job.Reply = said or (yield question)
    parsed = facts_reply.parse(answer)
    if isinstance(parsed, job.RejectedReply):
        return parsed
    foreign = Foreign((*inputs.earlier, *inputs.turns), inputs.folder)
    dropped = Counter({"unreadable": parsed.unreadable})
    judging = _begin_judging(inputs, gathered, parsed, foreign, dropped, offline=answer.backend == job.OFFLINE)
    judging = yield from judge(judging, _FORM, _parse_repair)
    kept = _keep_claims(inputs, gathered, foreign, judging.results, dropped)
    return _end_job(inputs, gathered, answer, judging.results, kept)


# Gathering


def _gather_material(inputs: FactsInputs, ready: Sequence[Exchange], last: int) -> _FactsMaterial:
    telling = [one for one in ready if not all(signals.says_nothing(turn.text) for turn in one.asked)]
    asking = next((turn for turn in reversed(inputs.earlier) if evidence.is_said(turn)), None)
    before = asking if asking is not None and asking.origin is Origin.ASSISTANT else None
    pieces: list[tuple[job.QuotedPiece, Piece]] = []
    hints = {}
    for exchange in telling:
        for turn in sorted((*exchange.asked, *exchange.answered), key=lambda one: one.seq):
            by_user = turn.origin is Origin.USER
            text = signals.without_uploads(turn.text) if by_user else turn.text
            if not by_user or not signals.says_nothing(turn.text):
                pieces.append(_show_turn(inputs, turn._replace(text=text), before))
                text = pieces[-1][0].text  # the user's own words of a long message
            if by_user and (found := signals.find_signals(text)):
                hints[turn.seq] = found
            before = None if by_user else turn
    # An answer makes no sense without its question, which may be in the exchange before.
    if pieces and asking is not None and asking.seq < pieces[0][1].seq and pieces[0][1].asked:
        pieces.insert(0, _show_turn(inputs, asking, None))
    receipt: dict[str, object] = {
        "exchanges": len(ready),
        "asked_about": len(telling),
        "hints": dict(sorted(Counter(hint.value for found in hints.values() for hint in found).items())),
    }
    watermark = job.MoveWatermark(inputs.session_id, CONSUMER, last)
    material = tuple(quoted for quoted, _ in pieces)
    return _FactsMaterial(material, Pieces(piece for _, piece in pieces), hints, watermark, receipt)


def _show_turn(inputs: FactsInputs, turn: StoredTurn, before: StoredTurn | None) -> tuple[job.QuotedPiece, Piece]:
    """Return a turn as material and as a piece; a turn without a time counts as said now."""
    quoted = evidence.quote(turn, inputs.tz)
    at = turn.at or inputs.now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return quoted, evidence.piece_of(quoted, turn._replace(at=at), before)


def _context(inputs: FactsInputs, gathered: _FactsMaterial) -> tuple[tuple[str, str], ...]:
    known = "\n".join(
        f"{fact.id} [{fact.category} | {fact.confidence:.2f}] {fact.content}"
        for fact in _find_related(inputs, gathered)
    )
    profile = "\n".join(f"{name.value}: {entry.text}" for name, entry in inputs.profile.items() if entry.text)
    hints = "\n".join(f"t{seq} {' '.join(found)}" for seq, found in gathered.signals.items())
    given = (("agent", inputs.program), ("known facts", known), ("known profile", profile), ("hints", hints))
    return tuple((name, text) for name, text in given if text)


def _find_related(inputs: FactsInputs, gathered: _FactsMaterial) -> list[Fact]:
    said = frozenset().union(*(list_stems(quoted.text) for quoted in gathered.material))
    shared = {fact.id: len(said & list_stems(fact.content)) for fact in inputs.known}
    return sorted(inputs.known, key=lambda fact: -shared[fact.id])[:MOST_KNOWN]


# Claims


def _begin_judging(
    inputs: FactsInputs,
    gathered: _FactsMaterial,
    parsed: facts_reply.ParsedFactsReply,
    foreign: Foreign,
    dropped: Counter[str],
    *,
    offline: bool,
) -> Judging:
    today = inputs.now.astimezone(inputs.tz).date()
    days = evidence.map_days(gathered.material, today)
    made = context_of(gathered.pieces, days, inputs.judges, offline=offline, foreign=foreign)
    # Known facts were shown, so a claim may use their names and numbers, but it cannot cite them.
    named = {fact.id: Material(fact.content, today) for fact in inputs.known}
    found = [
        *_new_claims(inputs, gathered, parsed.offered, dropped, offline=offline),
        *_section_claims(inputs, parsed.sections),
        *_removal_claims(inputs, parsed),
    ]
    return Judging(replace(made, materials={**made.materials, **named}), tuple(found))


def _new_claims(
    inputs: FactsInputs,
    gathered: _FactsMaterial,
    offered: Sequence[OfferedFact],
    dropped: Counter[str],
    *,
    offline: bool,
) -> list[Claim]:
    known = KnownTexts(fact.content for fact in inputs.known)
    rules = {fact.id: _units(fact.content) for fact in inputs.known if fact.category in _QUOTED}
    found: list[Claim] = []
    for one in offered:
        cited, _ = gathered.pieces.find_cited(one.cites, one.content)
        orders = [*_list_orders(cited), _units(one.content)]
        ends = [
            fact
            for fact in inputs.known
            if _is_reordered(rules.get(fact.id, []), orders)
            or (fact.id in one.replaces and (not offline or _gives_way(fact, cited, 0.0)))
        ]
        if known.says(one.content) and not ends:
            dropped["duplicate"] += 1
            continue
        if one.confidence < inputs.min_confidence:
            dropped["below min_confidence"] += 1
            continue
        olds = tuple(_describe_old(inputs, fact) for fact in ends)
        claim = Claim(f"f{len(found) + 1}", one.content, one.cites, user_only=True, ends=olds, origin=one)
        # The user's own words may be a question or a task, so they need the same check as a quotation.
        verbatim = one.category in _QUOTED or is_verbatim(neutralize(one.content), cited)
        found.append(replace(claim, verbatim_only=verbatim, kind=_class_of(one.category)))
    return found


def _section_claims(inputs: FactsInputs, sections: Sequence[RewrittenSection]) -> list[Claim]:
    """Return each sentence of the rewritten sections that is new as a claim."""
    found: list[Claim] = []
    for one in sections:
        said = _said_of(inputs, one.section)
        for sentence in list_texts(one.text):
            if normal.normalize(sentence) not in said:
                name = f"p{len(found) + 1}"
                found.append(Claim(name, sentence, one.cites, user_only=True, kind=MemoryClass.PERSON, origin=one))
    return found


def _removal_claims(inputs: FactsInputs, parsed: facts_reply.ParsedFactsReply) -> list[Claim]:
    """Return each removal as a claim that the fact no longer holds."""
    by_id = {fact.id: fact for fact in inputs.known}
    found: list[Claim] = []
    for one in {one.id: one for one in parsed.removals if one.id in by_id}.values():
        # The class of a person, because the check that protects details of a rule makes no sense for a removal.
        old = replace(_describe_old(inputs, by_id[one.id]), kind=MemoryClass.PERSON)
        claim = Claim(f"r{len(found) + 1}", f"This is no longer so: {old.text}", one.cites, user_only=True, olds=(old,))
        # The wording is not the author's, so the author cannot repair it.
        found.append(replace(claim, kind=old.kind, repaired=True, origin=one))
    return found


def _describe_old(inputs: FactsInputs, fact: Fact) -> Old:
    return Old(fact.id, fact.content, _class_of(fact.category), inputs.said_at.get(fact.id, fact.created_at))


def _class_of(category: str) -> MemoryClass:
    return MemoryClass.RULE if category in _QUOTED else MemoryClass.PERSON


def _said_of(inputs: FactsInputs, section: ProfileSection) -> set[str]:
    """Return the texts that a section may repeat, in normal form: its own sentences and the facts."""
    before = list_texts(inputs.profile[section].text) if section in inputs.profile else []
    return {normal.normalize(one) for one in (*before, *(fact.content for fact in inputs.known))}


# Judging


def _parse_repair(answer: job.Reply) -> list[Claim]:
    parsed = facts_reply.parse(answer)
    if isinstance(parsed, job.RejectedReply):
        return []
    # The author may send a repaired sentence of the profile as a fact, as in the example, or in its section.
    profile = [Claim("", text, one.cites) for one in parsed.sections for text in list_texts(one.text)]
    return [*(Claim("", one.content, one.cites) for one in parsed.offered), *profile]


def _end_job(
    inputs: FactsInputs, gathered: _FactsMaterial, answer: job.Reply, found: Sequence[JudgedClaim], kept: _KeptClaims
) -> job.End:
    sections = _sections(inputs, kept)
    edits: list[job.JobEdit] = []
    if kept.learned or kept.forgotten or sections:
        edits.append(job.EditFacts(inputs.session_id, tuple(kept.learned), tuple(kept.forgotten), tuple(sections)))
    if kept.memories:
        edits.append(job.AddMemories(tuple(kept.memories)))
    edits += _blocks(inputs, kept.lines)
    is_made_up = bool(found) and all(one.outcome is ClaimOutcome.REFUSED and _is_made_up(one) for one in found)
    # Only a model can give a better reply when it is asked again.
    if answer.backend != job.OFFLINE and is_made_up and not edits and not kept.dropped["duplicate"]:
        return job.RejectedReply("nothing in the reply is supported by the turns it cites")
    receipt = {
        **gathered.receipt,
        "reply": answer.counts,
        "facts": dict(sorted(Counter(fact.category for fact in kept.learned).items())),
        "forgotten": len(kept.forgotten),
        "core": len(kept.memories),
        "lines": len(kept.lines),
        "sections": [one.section for one in sections],
        "dropped": dict(sorted((+kept.dropped).items())),
        "claims": count_claims(found),
    }
    rows = tuple(kept.rows)
    if not edits:
        return job.NothingToDo("nothing new about the user", (gathered.watermark,), receipt, rows)
    receipt["cites"] = {digest_of(text): list(one.ids) for one, text in kept.lines}
    return job.Done((*edits, gathered.watermark), receipt, claims=rows)


def _is_made_up(judged: JudgedClaim) -> bool:
    return (judged.step in _MADE_UP or judged.why == reasons.NOTHING_CITED) and not judged.user_words


def _keep_claims(
    inputs: FactsInputs, gathered: _FactsMaterial, foreign: Foreign, found: Sequence[JudgedClaim], dropped: Counter[str]
) -> _KeptClaims:
    facts = KnownTexts(fact.content for fact in inputs.known)
    kept = _KeptClaims(facts, KnownTexts((*inputs.daily.splitlines(), *inputs.core)), dropped)
    for judged in found:
        match judged.claim.origin:
            case OfferedFact():
                _learn(inputs, gathered, judged, kept)
            case RewrittenSection():
                _grow(judged, kept)
            case _:
                _forget(inputs, judged, kept)
    # This comes last, because only now are all texts with the same statement known.
    for judged, row in zip(found, kept.rows, strict=True):
        _note(foreign, judged, str(row["verdict"]), kept)
    return kept


def _learn(inputs: FactsInputs, gathered: _FactsMaterial, judged: JudgedClaim, kept: _KeptClaims) -> None:
    """Keep a new fact, or a core memory if the text is long, and count the reason if neither may be kept."""
    kept.rows.append(judged.row())
    if judged.outcome is ClaimOutcome.REFUSED or not judged.core:
        kept.dropped[judged.why] += 1
        return
    offered, text, sources = judged.claim.origin, judged.text, judged.seqs
    replaces = _find_replaced(inputs, judged)
    forgotten_at = forgetting.forgotten_since(text, inputs.tombstones)
    # Only words that the user said after it was forgotten may come back.
    anew = forgotten_at is not None and any(line.said_at > forgotten_at for line in judged.lines)
    if (kept.known.says(text) and not replaces) or (len(text) > LONGEST_FACT and kept.written.says(text)):
        kept.dropped["duplicate"] += 1
    elif forgotten_at is not None and not anew:
        kept.dropped["tombstone"] += 1
    elif len(text) > LONGEST_FACT:
        kept.written.add(text)
        kind = _TYPES.get(offered.category, job.MemoryType.PREFERENCE)
        note = note_of(judged, inputs.folder)
        kept.memories.append(job.NewMemory(kind, offered.confidence, text, sources, judged.ids, note))
    else:
        kept.known.add(text)
        hints = {hint for seq in sources for hint in gathered.signals.get(seq, ())}
        is_no_correction = offered.category == "correction" and signals.Signal.CORRECTION not in hints
        category = "context" if is_no_correction else offered.category
        note = note_of(judged, inputs.folder)
        kept.learned.append(job.LearnedFact(text, category, offered.confidence, sources, replaces, anew, note))


def _find_replaced(inputs: FactsInputs, judged: JudgedClaim) -> tuple[str, ...]:
    """Return the ids of the facts that a new fact ends: by the reader's answer or, without one, by wording."""
    by_id = {fact.id: fact for fact in inputs.known}
    by_cue = [
        old.id
        for old in judged.claim.ends
        if judged.ends_why == reasons.NOT_READ
        and is_newer(judged.cited, old)
        and _gives_way(by_id[old.id], judged.cited, 0.0)
    ]
    return tuple(dict.fromkeys((*judged.changes, *by_cue)))


def _forget(inputs: FactsInputs, judged: JudgedClaim, kept: _KeptClaims) -> None:
    """End a known fact that the user retracted."""
    removal: FactRemoval = judged.claim.origin
    fact = next(one for one in inputs.known if one.id == removal.id)
    goes = removal.id in judged.changes
    if not goes and judged.why not in _SAID_NO:  # no reader has decided, so the wording decides
        goes = is_newer(judged.cited, judged.claim.olds[0]) and _gives_way(fact, judged.cited, _HALF)
    row = judged.row() | {"repaired": False, "verdict": str(ClaimOutcome.KEPT if goes else ClaimOutcome.REFUSED)}
    kept.rows.append(row | {"why": "" if goes else judged.why or reasons.NOT_READ})
    if not goes:
        kept.dropped["removal"] += 1
        return
    kept.obeyed.add(neutralize(judged.user_words))
    if all(fact.id not in one.replaces for one in kept.learned):
        kept.forgotten.append(fact.id)


def _grow(judged: JudgedClaim, kept: _KeptClaims) -> None:
    """Keep a new sentence of the profile, or count the reason why it is refused."""
    kept.rows.append(judged.row())
    if judged.outcome is ClaimOutcome.REFUSED or not judged.core:
        kept.dropped[f"profile: {judged.why}"] += 1
    else:
        kept.sections.setdefault(judged.claim.origin.section, []).append(judged)


def _note(foreign: Foreign, judged: JudgedClaim, verdict: str, kept: _KeptClaims) -> None:
    """Keep the user's words for the daily file if a claim that cites them is refused or is not meant to last."""
    is_refused = verdict == ClaimOutcome.REFUSED
    if not is_refused and (judged.core or isinstance(judged.claim.origin, FactRemoval)):
        return
    words = neutralize(judged.user_words)
    is_removal = isinstance(judged.claim.origin, FactRemoval)
    if not words or (is_removal and (words in kept.obeyed or not signals.is_retraction(words))):
        return
    line = foreign.remove_tokens(f"User: {words}")
    if not kept.known.says(words) and not kept.written.says(line):
        kept.written.add(line)
        kept.lines.append((judged, line))


# Facts that end


def _gives_way(fact: Fact, cited: Sequence[Citation], share: float) -> bool:
    """Return True if the cited words of the user end a fact, by their wording.

    The words retract the fact, state it in another order, or are a correction that shares content words with it: at
    least one word, and at least `share` of the fact's words.
    """
    held = list_stems(fact.content)
    for piece in (one.piece for one in cited):
        said = "\n".join(line.text for line in piece.lines if line.lane is Lane.USER)
        shared = len(list_stems(said) & held) if signals.Signal.CORRECTION in signals.find_signals(said) else 0
        if signals.takes_back(said, fact.content) or shared >= max(1, share * len(held)):
            return True
    return fact.category in _QUOTED and _is_reordered(_units(fact.content), _list_orders(cited))


def _list_orders(cited: Sequence[Citation]) -> list[list[str]]:
    """Return the words of each cited sentence of the user, in their order."""
    return [_units(line.text) for one in cited for line in one.lines if line.lane is Lane.USER]


def _is_reordered(rule: list[str], orders: Sequence[list[str]]) -> bool:
    """Return True if the user now states a rule in another order: "tabs over spaces" after "spaces over tabs"."""
    return any(len(rule) > 1 and one != rule and sorted(one) == sorted(rule) for one in orders)


def _units(text: str) -> list[str]:
    form = normal.normalize(text)
    words = "".join(char if char.isalnum() else " " for char in form).split()
    return [char for char in form if char.isalnum()] if prose.is_wide(form) else words


# Edits


def _sections(inputs: FactsInputs, kept: _KeptClaims) -> list[job.LearnedSection]:
    """Return the changed sections of the profile with their new sentences.

    Old sentences stay. Only in sections about temporary things may the model remove a sentence, by not repeating it.
    """
    found = []
    for section, judged in kept.sections.items():
        before = list_texts(inputs.profile[section].text) if section in inputs.profile else []
        repeated = {normal.normalize(one) for one in list_texts(judged[0].claim.origin.text)}
        new = dict.fromkeys(one.text for one in judged)
        parts = [*(one for one in before if section not in PASSING_SECTIONS or normal.normalize(one) in repeated), *new]
        while len(parts) > 1 and len(" ".join(parts)) > LONGEST_SECTION:
            parts.pop(0)
        sources = tuple(sorted({seq for one in judged for seq in one.seqs}))
        found.append(job.LearnedSection(section.value, " ".join(parts)[:LONGEST_SECTION], sources))
    return found


def _blocks(inputs: FactsInputs, lines: Sequence[tuple[JudgedClaim, str]]) -> list[job.AppendDaily]:
    """Return the blocks for the daily files, each for the day on which its lines were said."""
    by_day: dict[date, list[tuple[str, str]]] = {}
    for judged, text in lines:
        at = max((line.at for line in judged.lines), default="")
        at = at or inputs.now.astimezone(inputs.tz).isoformat(timespec="minutes")
        by_day.setdefault(date.fromisoformat(at[:10]), []).append((at[11:16], text))
    blocks = []
    for day, said in sorted(by_day.items()):
        clocks = min(said)[0], max(said)[0]
        body = "\n".join(f"- {text}" for _, text in said)
        blocks.append(block_of(day, REASON, body, clocks, inputs.program, inputs.session_id))
    return blocks
