"""Turn the bullets of a dream's reply into claims, and the judged claims into operations by id.

A bullet that repeats an earlier memory keeps it. Any other bullet is a claim (`judging`). A claim that cites memories
rewrites them. A claim that cites only daily entries is new. A memory that the reply declares superseded ends only if an
accepted bullet gives a newer value of the same thing. A memory that the reply does not mention is kept or archived
(`accounting`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memoryd.jobs.claims import NOT_USER, Claim, ClaimOutcome, ClaimStep, JudgedClaim, Old, note_of
from memoryd.jobs.dream_inputs import DailyEntry, DreamInputs, EarlierMemory
from memoryd.jobs.dream_reply import Declaration, LetGo, ParsedDreamReply, ReplyBullet
from memoryd.jobs.job import HEADINGS, MemoryType
from memoryd.jobs.pieces import SPEAKERS, Piece, piece_of_text
from memoryd.ledger.guards import Guard, RefusedOperation
from memoryd.ledger.lane import FROM_ASSISTANT, Lane, MemoryClass, lane_of_source, may_change, read_label
from memoryd.ledger.memory import Ending, MemoryKind, hash_of, unite_groups
from memoryd.ledger.operation import Add, Delete, Merge, Operation, Update, ids_of
from memoryd.ledger.steering import NO_THEME, is_theme
from memoryd.text.content import is_label, label_of, measure_overlap, strip_label
from memoryd.text.neutral import neutralize
from memoryd.text.word_lists import list_words
from memoryd.tiers.core import normalize

_FOUND = 0.6  # the least share of a bullet's content words that occur in its source, if it cites none
_MOST_FOUND = 3
_ALIKE = 0.5  # the least share of words that a bullet and a memory about the same subject have in common, both ways
_MOST_ALIKE = 2
_PLACES = {
    MemoryClass.RULE: HEADINGS[MemoryType.PREFERENCE],
    MemoryClass.PERSON: HEADINGS[MemoryType.FACT],
    MemoryClass.PROJECT: HEADINGS[MemoryType.DECISION],
    MemoryClass.LESSON: HEADINGS[MemoryType.LEARNING],
}
_GUARDS = {ClaimStep.LANE: Guard.TAINT}
NOWHERE = "no accepted text replaces it"
AS_OF = re.compile(r"\(as of \d{4}-\d\d-\d\d\)$")
_NAMED = re.compile(r"^([^\W\d_][\w.'’-]{0,30}(?: [^\W\d_][\w.'’-]{0,30}){0,2}) ?[:：]\s+(?=\S)")  # noqa: RUF001
_ASSISTANTS = frozenset(list_words("assistants"))
_HAND = "hand"
_OFTEN = 3  # with this many entries, a name before the text may be the owner's


@dataclass(frozen=True, slots=True)
class ReplyRow:
    """Hold one bullet of the reply: the earlier memory that it keeps, the claim that it makes, or both."""

    heading: str
    kept: EarlierMemory | None = None
    claim: Claim | None = None

    @property
    def cites(self) -> set[str]:
        """Return the shown ids of the memories and entries that the bullet is about."""
        cited = {one.partition(".")[0] for one in self.claim.cites} if self.claim is not None else set()
        return cited | ({self.kept.id} if self.kept is not None else set())

    @property
    def text(self) -> str:
        """Return the text of the kept memory, or of the claim if no memory is kept."""
        return self.kept.memory.content if self.kept is not None else self.claim.text if self.claim is not None else ""

    def end_memories(self, ends: Sequence[Old]) -> "ReplyRow":
        """Return the row as a claim that also ends these memories."""
        if not ends:
            return self
        claim = self.claim if self.claim is not None else Claim(_name_of(self), self.text, tuple(self.cites))
        return replace(self, claim=replace(claim, ends=(*claim.ends, *ends)))


@dataclass(frozen=True, slots=True)
class DreamPlan:
    """Hold a reply as claims for the judging.

    Attributes:
        rows: the bullets of the reply, in order.
        archived: the memories that the reply archives.
        superseded: the memories that it declares superseded without a bullet about the same thing.
        mentioned: the ids of the memories that it mentions.
        bullets: the number of bullets, including those that repeat another.
        dated: the shown ids of memories that get the day they were said.
    """

    rows: tuple[ReplyRow, ...]
    archived: tuple[Declaration, ...] = ()
    superseded: tuple[Declaration, ...] = ()
    mentioned: frozenset[str] = frozenset()
    bullets: int = 0
    dated: tuple[str, ...] = ()

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Return the claims for the judging, in order."""
        return tuple(row.claim for row in self.rows if row.claim is not None)


def material_of(inputs: DreamInputs) -> list[Piece]:
    """Return the earlier memories and daily entries of a dream as pieces that claims can cite."""
    owner = _owner(inputs.entries)
    pieces = [
        piece_of_text(one.id, one.memory.content, one.lane, "memory", (one.local_at or "")[:10], one.said_at)
        for one in inputs.earlier
    ]
    for one in inputs.entries:
        text, lane = _split_speaker(one, owner)
        piece = piece_of_text(one.id, text, lane, SPEAKERS.get(lane, "tool"), str(one.day), one.at)
        pieces.append(replace(piece, behind=inputs.behind_of(one)))
    return pieces


def _owner(entries: Sequence[DailyEntry]) -> str:
    """Return the name with which the owner labels their own entries, in lower case; empty if no name is frequent."""
    names = Counter(found[1].casefold() for one in entries if one.origin == _HAND and (found := _NAMED.match(one.text)))
    people = [(count, name) for name, count in names.items() if name not in _ASSISTANTS and not is_label(name)]
    count, name = max(people, default=(0, ""))
    return name if count >= _OFTEN and 2 * count > sum(names.values()) else ""


def _split_speaker(entry: DailyEntry, owner: str) -> tuple[str, Lane]:
    """Return the words of an entry and their lane; a name before them lowers the lane, unless it is the owner's."""
    lane = min(lane_of_source(entry.origin), read_label(entry.text))
    text = strip_label(entry.text)
    named = _NAMED.match(text) if entry.origin == _HAND and text == entry.text else None
    if named is None:
        return text, lane
    name = named[1].casefold()
    if name == owner:
        return text, lane  # the whole text, because the apparent name may be a part of it
    return (text[named.end() :], min(lane, Lane.ASSISTANT)) if name in _ASSISTANTS else (text, min(lane, Lane.OUTSIDE))


def plan(
    parsed: ParsedDreamReply, earlier: Sequence[EarlierMemory], entries: Sequence[DailyEntry], *, offline: bool = False
) -> DreamPlan:
    """Return a reply as claims about the shown material; only the offline backend may date memories."""
    planned = _Planner(parsed, earlier, entries).plan(is_read=not offline)
    dated = tuple(one.id for one in parsed.declared if one.how is LetGo.DATED) if offline else ()
    return replace(planned, dated=dated)


def _hash_said(text: str) -> str:
    """Return a hash of the text that ignores a leading "User:" label."""
    return hash_of(strip_label(text) if label_of(text) == "user" else text)


class _Planner:
    def __init__(
        self, parsed: ParsedDreamReply, earlier: Sequence[EarlierMemory], entries: Sequence[DailyEntry]
    ) -> None:
        self._parsed = parsed
        self._earlier = {one.id: one for one in earlier}
        self._entries = {one.id: one for one in entries}
        self._by_hash: dict[str, list[EarlierMemory]] = defaultdict(list)
        for one in earlier:
            self._by_hash[one.memory.content_hash].append(one)
        self._taken: set[str] = set()  # ids of memories that a bullet keeps or rewrites
        self._rewritten: set[str] = set()  # ids of memories that a bullet rewrites or supersedes
        self._ends: dict[str, list[Old]] = defaultdict(list)  # by bullet: the memories that it supersedes
        self._mentioned: set[str] = set()

    def plan(self, *, is_read: bool) -> DreamPlan:
        rows: list[ReplyRow] = []
        seen: set[tuple[str, tuple[str, ...]]] = set()
        bullets = [(section.heading, one) for section in self._parsed.sections for one in section.bullets]
        kept = [self._find_kept(one) for _, one in bullets]
        for number, ((heading, bullet), twin) in enumerate(zip(bullets, kept, strict=True), 1):
            key = (hash_of(bullet.text), bullet.cites)
            if key not in seen:
                seen.add(key)
                rows += self._rows(f"b{number}", heading, bullet, twin)
        supersedes, left = self._read_declarations(rows)
        rows = [row.end_memories(supersedes.get(_name_of(row), ())) for row in rows]
        if is_read:  # a reader says whether two memories contradict each other
            rows = [row.end_memories(self._find_contradicted(row)) for row in rows]
        archived = tuple(one for one in self._parsed.declared if one.how is LetGo.ARCHIVED and self._is_free(one))
        self._mentioned |= {self._earlier[one.id].memory.id for one in (*archived, *left)}
        return DreamPlan(tuple(rows), archived, tuple(left), frozenset(self._mentioned), len(bullets))

    def _find_kept(self, bullet: ReplyBullet) -> EarlierMemory | None:
        """Return the earlier memory that a bullet repeats letter by letter; None if there is none.

        Each memory is returned only once. A memory that the bullet cites comes first.
        """
        same = [one for one in self._by_hash.get(hash_of(bullet.text), ()) if one.id not in self._taken]
        twin = next((one for one in same if one.id in bullet.cites), same[0] if same else None)
        if twin is not None:
            self._taken.add(twin.id)
        return twin

    def _rows(self, name: str, heading: str, bullet: ReplyBullet, twin: EarlierMemory | None) -> Iterator[ReplyRow]:
        cites = tuple(one for one in bullet.cites if one.partition(".")[0] in {*self._earlier, *self._entries})
        cites = cites or (() if twin is not None else self._match_memories(bullet.text))
        named = [
            self._earlier[one] for one in dict.fromkeys(c.partition(".")[0] for c in cites) if one in self._earlier
        ]
        self._mentioned |= {one.memory.id for one in named}
        if twin is not None:
            self._mentioned.add(twin.memory.id)
            others = [one for one in named if one is not twin and self._may_rewrite(one)]
            merged = Claim(name, bullet.text, (twin.id, *(one.id for one in others)), olds=self._olds(others))
            yield ReplyRow(heading, twin, merged if others else None)
            return
        if hash_of(bullet.text) in self._by_hash:
            return  # an earlier bullet keeps this memory
        olds = [one for one in named if self._may_rewrite(one)]
        yield ReplyRow(heading, claim=Claim(name, bullet.text, cites, olds=self._olds(olds)))

    def _may_rewrite(self, one: EarlierMemory) -> bool:
        return not one.memory.constitutional and one.id not in self._taken

    def _olds(self, found: Sequence[EarlierMemory]) -> tuple[Old, ...]:
        self._taken |= {one.id for one in found}
        self._rewritten |= {one.id for one in found}
        return tuple(map(_describe_old, found))

    def _match_memories(self, text: str) -> tuple[str, ...]:
        """Return sources for a bullet without a citation: the memory and the entries with most of its words."""
        pool = [(one.id, one.memory.content) for one in self._earlier.values()]
        pool += [(one.id, one.text) for one in self._entries.values()]
        shares = sorted(((measure_overlap(text, said), name) for name, said in pool), key=lambda one: -one[0])
        near = [name for share, name in shares if share >= _FOUND]
        memories = [name for name in near if name in self._earlier][:1]
        return (*memories, *[name for name in near if name in self._entries][:_MOST_FOUND])

    def _is_free(self, one: Declaration) -> bool:
        return one.id in self._earlier and one.id not in self._taken

    def _read_declarations(self, rows: Sequence[ReplyRow]) -> tuple[dict[str, list[Old]], list[Declaration]]:
        """Return the memories that each bullet supersedes, by the bullet's name, and declarations without a bullet."""
        found: dict[str, list[Old]] = defaultdict(list)
        left: list[Declaration] = []
        for one in self._parsed.declared:
            if one.how is not LetGo.SUPERSEDED or not self._is_free(one):
                continue
            memory = self._earlier[one.id]
            row = next((row for row in rows if row.cites.intersection(by.partition(".")[0] for by in one.by)), None)
            if row is None or memory.memory.constitutional:
                left.append(one)
                continue
            self._taken.add(one.id)
            self._rewritten.add(one.id)
            self._mentioned.add(memory.memory.id)
            found[_name_of(row)].append(_describe_old(memory))
        return found, left

    def _find_contradicted(self, row: ReplyRow) -> list[Old]:
        """Return older memories on the subject of a bullet; the reader says whether the bullet contradicts them."""
        cites, text = row.cites, row.text
        said_at = row.kept.said_at if row.kept is not None else max(map(self._said_at, cites), default="")
        ended = {old.id for old in (row.claim.ends if row.claim is not None else ())}
        decided = cites | ended | self._rewritten
        others = (
            one
            for one in self._earlier.values()
            if one.id not in decided and not one.memory.constitutional and one.said_at < said_at
        )
        near = [
            (min(measure_overlap(text, one.memory.content), measure_overlap(one.memory.content, text)), one)
            for one in others
        ]
        ranked = sorted((pair for pair in near if pair[0] >= _ALIKE), key=lambda pair: -pair[0])
        return [replace(_describe_old(one), guessed=True) for _, one in ranked[:_MOST_ALIKE]]

    def _said_at(self, name: str) -> str:
        if name in self._entries:
            return self._entries[name].at
        return self._earlier[name].said_at if name in self._earlier else ""


def _name_of(row: ReplyRow) -> str:
    return row.claim.id if row.claim is not None else f"k{row.kept.id}" if row.kept is not None else ""


def _describe_old(one: EarlierMemory) -> Old:
    return Old(one.id, one.memory.content, said_at=one.said_at)


# ── operations ───────────────────────────────────────────────────────────────────────────────────────────────────


def consolidate(
    planned: DreamPlan,
    judged: Sequence[JudgedClaim],
    inputs: DreamInputs,
    kind_of: Callable[[str], MemoryClass | None],
    over: Mapping[str, Lane],
) -> "DreamConsolidation":
    """Return the operations of a judged reply.

    Args:
        planned: the reply as claims.
        judged: the judged claims of the reply.
        inputs: the inputs of the dream.
        kind_of: returns the class with which a reader has labelled a text; None without a label.
        over: the lane of the entries that end a memory, by the memory's shown id, if the reader agrees.
    """
    work = DreamConsolidation(inputs, planned)
    by_id = {one.claim.id: one for one in judged}
    guessed = {old.id for one in judged for old in one.claim.ends if old.guessed and old.id in one.changes}
    for row in planned.rows:
        if row.kept is not None and row.kept.id in guessed:
            continue  # the reply keeps a memory that another of its bullets contradicts
        work.row(row, by_id.get(row.claim.id) if row.claim is not None else None)
    for one in planned.archived:
        work.archive(one.id, kind_of, over.get(one.id, Lane.ASSISTANT))
    for name in planned.dated:
        work.date(name)
    for one in planned.superseded:
        work.refuse(Delete(work.id_of(one.id), Ending.SUPERSEDED), Guard.ACCOUNTING, NOWHERE)
    return work


class DreamConsolidation:
    """Collect the operations of a reply.

    Attributes:
        operations: all operations in order, also the faulty ones.
        faults: the reasons for refusals, by the `id()` of the operation.
        places: (heading, memory id) of each bullet of the new core, in the reply's order; the heading is None if the
            memory keeps its own.
        mentioned: the ids of the earlier memories that the reply mentions.
        additions: the ids of new memories that cite daily entries.
        counts: the numbers of bullets and duplicates.
    """

    def __init__(self, inputs: DreamInputs, planned: DreamPlan) -> None:
        self.operations: list[Operation] = []
        self.faults: dict[int, RefusedOperation] = {}
        self.places: list[tuple[str | None, str]] = []
        self.mentioned = set(planned.mentioned)
        self.additions: set[str] = set()
        self.counts = Counter({"bullets": planned.bullets})
        # The shown memories that still exist.
        self._earlier = {one.id: one for one in inputs.earlier if one.memory.id in inputs.context.memories}
        self._entries = {one.id: one for one in inputs.entries}
        self._inputs, self._cues = inputs, inputs.judges.cues
        self._headings = {normalize(one.memory.heading) for one in self._earlier.values() if one.memory.heading}
        self._no_themes: set[str] = set()
        self._claimed: set[str] = set()
        self._there = {_hash_said(one.memory.content) for one in self._earlier.values()}

    def check(self, operation: Operation) -> RefusedOperation | None:
        """Return the refusal of an operation that was found faulty, as the guards expect it; None if there is none."""
        return self.faults.get(id(operation))

    def id_of(self, name: str) -> str:
        """Return the ledger's id of a shown memory, or `name` itself if no memory was shown under it."""
        return self._earlier[name].memory.id if name in self._earlier else name

    def row(self, row: ReplyRow, judged: JudgedClaim | None) -> None:
        """Add the operations of one bullet."""
        heading = self._heading(row.heading)
        if row.kept is not None and row.kept.id in self._earlier:
            self._claimed.add(row.kept.id)
            self._place(heading, row.kept.memory.id, row.kept.memory.heading)
            if judged is not None:
                self._replace(judged, row.kept.memory.id, is_kept=True)
        elif judged is not None and (judged.outcome is ClaimOutcome.REFUSED or not judged.core):
            self._refuse_claim(judged)
        elif judged is not None:
            self._write(heading, judged)

    def _heading(self, heading: str) -> str:
        """Return the heading of a bullet if it is allowed; empty if the memory keeps its own heading."""
        if not heading or normalize(heading) in self._headings or is_theme(heading):
            return heading
        if normalize(heading) not in self._no_themes:
            self._no_themes.add(normalize(heading))  # one refusal is enough
            self.refuse(Add(MemoryKind.CORE, "", heading=heading), Guard.TAINT, NO_THEME)
        return ""

    def _write(self, heading: str, judged: JudgedClaim) -> None:
        named = [self._earlier[one.piece.id] for one in judged.cited if one.piece.id in self._earlier]
        protected = [one for one in named if one.memory.constitutional]
        if protected:
            self.operations.append(Update(protected[0].memory.id, content=judged.text))  # the guard refuses it
            return
        held = [self._earlier[one] for one in judged.changes if self._is_free(one) and not self._ends(judged, one)]
        if not held and _hash_said(judged.text) in self._there:
            self.counts["duplicates"] += 1
            return
        self._there.add(_hash_said(judged.text))
        new = self._operate(judged, held, named)
        self._claimed |= {one.id for one in held}
        own = next((one.memory.heading for one in held if one.memory.heading), None)
        self._place(self._choose_heading(heading, judged), new, own)
        self._replace(judged, new)

    def _operate(self, judged: JudgedClaim, held: Sequence[EarlierMemory], named: Sequence[EarlierMemory]) -> str:
        """Reword, replace or merge the memories that a claim rewrites, or add a memory; return the resulting id.

        A memory that a newer value replaces is ended instead of reworded, so that it is reported and can be restored.
        """
        entries = [self._entries[one.piece.id] for one in judged.cited if one.piece.id in self._entries]
        sources = unite_groups(*map(self._inputs.sources_of, entries))
        mark = (FROM_ASSISTANT,) if judged.lane is Lane.ASSISTANT else ()
        tags = unite_groups(*(one.memory.tags for one in held), mark)
        is_newer = judged.newer and bool(sources)
        if len(held) == 1 and not is_newer:
            memory = held[0].memory
            self.operations.append(Update(memory.id, judged.text, cites=sources, tags=tags if mark else None))
            return memory.id
        new = self._inputs.new_id()
        if held and not is_newer:
            ids = tuple(one.memory.id for one in held)
            self.operations.append(Merge(ids, judged.text, cites=sources, tags=tags, id=new))
            return new
        add = Add(
            MemoryKind.CORE,
            judged.text,
            cites=sources,
            category=held[0].memory.category if held else None,
            importance=max((one.memory.importance for one in held if one.memory.importance is not None), default=None),
            tags=tags,
            origin_at=max((one.said_at for one in judged.cited), default="") or None,
            derived_from=tuple(one.memory.id for one in named),
            note=note_of(judged) if judged.is_quoted else None,
            id=new,
        )
        self.operations.append(add)
        self.additions |= {new} if sources and not held else set()
        for one in held:
            self._end(one.id, Ending.SUPERSEDED, new)
        return new

    def _replace(self, judged: JudgedClaim, new: str, *, is_kept: bool = False) -> None:
        """End the memories that an accepted claim replaces, either by a newer value or because it says the same."""
        if is_kept and judged.outcome is not ClaimOutcome.REFUSED:
            for name in judged.changes:
                if self._is_free(name) and not self._ends(judged, name):
                    self._end(name, Ending.MERGED, new)
        for old in judged.claim.ends:
            if old.id in judged.changes and self._is_free(old.id):
                self._end(old.id, Ending.SUPERSEDED, new)
            elif old.id in self._earlier and not old.guessed:
                # The deletion names no successor, because the guards would refuse both together.
                self.refuse(Delete(self.id_of(old.id), Ending.SUPERSEDED), _guard(judged), judged.ends_why or NOWHERE)

    def _ends(self, judged: JudgedClaim, name: str) -> bool:
        return any(old.id == name for old in judged.claim.ends)

    def _is_free(self, name: str) -> bool:
        return name in self._earlier and name not in self._claimed

    def _choose_heading(self, heading: str, judged: JudgedClaim) -> str:
        """Return the heading for a claim; the assistant's claims never go below a heading for rules or persons."""
        kind = judged.kind or self._cues.kind(judged.text, heading)
        wants = heading or _PLACES[kind]
        is_personal = self._cues.kind_below(wants) in {MemoryClass.RULE, MemoryClass.PERSON}
        if judged.lane is Lane.ASSISTANT and is_personal:
            return _PLACES[kind if kind in {MemoryClass.PROJECT, MemoryClass.LESSON} else MemoryClass.PROJECT]
        return heading if heading or judged.changes else _PLACES[kind]

    def _place(self, heading: str, memory_id: str, own: str | None) -> None:
        self.places.append((None if not heading and own else heading, memory_id))

    def archive(self, name: str, kind_of: Callable[[str], MemoryClass | None], lane: Lane) -> None:
        """Archive a memory as the reply says, or refuse if `lane` may not change a memory of its class.

        Args:
            name: the shown id of the memory.
            kind_of: returns the class with which a reader has labelled a text; None without a label.
            lane: the lane of the words that end it.
        """
        if not self._is_free(name):
            return
        memory = self._earlier[name].memory
        self.mentioned.add(memory.id)
        kind = kind_of(memory.content) or self._cues.kind(memory.content, memory.heading or "")
        if not may_change(max(lane, Lane.ASSISTANT), kind) and not memory.constitutional:
            self.refuse(Delete(memory.id, Ending.ARCHIVED), Guard.TAINT, NOT_USER)
        else:
            self._end(name, Ending.ARCHIVED)

    def date(self, name: str) -> None:
        """Add to a memory the day it was said, because something newer gives another value; do so only once."""
        one = self._earlier.get(name)
        changed = {memory_id for operation in self.operations for memory_id in ids_of(operation)}
        if one is None or one.memory.constitutional or one.memory.id in changed:
            return
        if not AS_OF.search(one.memory.content):
            self.operations.append(Update(one.memory.id, f"{one.memory.content} (as of {one.said_on})"))

    def _end(self, name: str, ending: Ending, *successors: str) -> None:
        self._claimed.add(name)
        self.mentioned.add(self.id_of(name))
        self.operations.append(Delete(self.id_of(name), ending, successors))

    def _refuse_claim(self, judged: JudgedClaim) -> None:
        about = tuple(self.id_of(old.id) for old in judged.claim.olds if old.id in self._earlier)
        text = neutralize(judged.claim.text) or "-"
        operation: Operation = Update(about[0], text) if about else Add(MemoryKind.CORE, text)
        self.refuse(operation, _guard(judged), judged.why, about)
        for old in judged.claim.ends:
            if old.id in self._earlier and not old.guessed:
                self.refuse(Delete(self.id_of(old.id), Ending.SUPERSEDED), Guard.ACCOUNTING, NOWHERE)

    def refuse(self, operation: Operation, guard: Guard, why: str, about: Sequence[str] = ()) -> None:
        """Record an operation as refused by a guard, with the reason and the ids of the memories concerned."""
        ids = tuple(about) or (() if isinstance(operation, Add) else ids_of(operation))
        self.operations.append(operation)
        self.faults[id(operation)] = RefusedOperation(guard, ids, why, operation=operation)


def _guard(judged: JudgedClaim) -> Guard:
    return _GUARDS.get(judged.step, Guard.GROUNDING)
