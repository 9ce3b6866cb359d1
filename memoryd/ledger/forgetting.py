"""Decide which memories are erased when a memory or a session is forgotten, and which stay.

Forgetting a memory also erases its successors, and memories with the same text. Other memories may derive from it or
come from the forgotten session. Such a memory stays if its other sources support it. Otherwise it is erased too, and
the memories that were merged into it are restored. Ended memories count like live ones, because their text is stored.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from memoryd.ledger.floor import Material, list_missing
from memoryd.ledger.memory import Ending, Memory, Source, erase, hash_of
from memoryd.ledger.operation import Change, Operation
from memoryd.ledger.text_removal import cut_of
from memoryd.text.content import LABELS, measure_overlap, strip_label
from memoryd.text.sentences import list_texts
from memoryd.tiers.core import normalize

OPERATION = "forget"  # the name of the operation in the audit

NAMED = "you named it"
BECAME = "it became the memory that you named"
SAYS_IT = "it says the same"
ALONE = "nothing else says it"
UNGROUNDED = "its other sources do not say it"
GROUNDED = "its other sources say it"
NOTED = "only its note held it"
MERGED = "it had been merged into an erased memory"

_SAYS = tuple(f"{label}: " for label in LABELS.split("|"))
_ENDS = (".", "!", "?", ";", "…", "。")
_AROUND = f"{''.join(_ENDS)}:,*_`\"'“”„«»‘’ "  # noqa: RUF001

# Takes a text, records, and texts of other memories. Returns True if the records or the other texts support the text.
Grounded = Callable[[str, "Sequence[Source]", Sequence[str]], bool]
Memories = Mapping[str, Memory]  # all memories of one agent, by id


@dataclass(frozen=True, slots=True)
class ForgetVerdict:
    """Hold the outcome of forgetting for each affected memory, by id.

    Attributes:
        erased: memories whose text is erased, each with the reason.
        kept: memories that stay, in their new form without the lost sources.
        restored: memories that are live again.
        protected: memories that would have to be erased but are protected; if there are any, nothing may be done.
    """

    erased: dict[str, str] = field(default_factory=dict)
    kept: dict[str, Memory] = field(default_factory=dict)
    restored: dict[str, Memory] = field(default_factory=dict)
    protected: tuple[str, ...] = ()


def of_memory(
    memories: Memories, memory_id: str, versions: Mapping[str, Collection[str]], grounded: Grounded
) -> ForgetVerdict:
    """Return the outcome for all memories when one is forgotten.

    Args:
        memories: all memories of the agent, by id, live and ended.
        memory_id: the memory to forget.
        versions: earlier texts of memories, by id.
        grounded: returns True if the remaining sources of a text support it.
    """
    gone = {memory_id: NAMED}
    while more := {
        one.id: BECAME
        for one in memories.values()
        if one.id not in gone and one.successors and gone.keys() >= set(one.successors)
    }:
        gone |= more
    cut = cut_of(text for one in gone for text in (memories[one].content, *versions.get(one, ())))
    gone |= {one.id: SAYS_IT for one in memories.values() if one.id not in gone and cut.equals(one.content)}
    return _verdict(memories, gone, frozenset(), grounded)


def of_sessions(memories: Memories, sessions: Collection[str], grounded: Grounded) -> ForgetVerdict:
    """Return the outcome for all memories when sessions are forgotten; see `of_memory`."""
    return _verdict(memories, {}, sessions, grounded)


def _verdict(memories: Memories, gone: dict[str, str], sessions: Collection[str], grounded: Grounded) -> ForgetVerdict:
    while more := _find_falling(memories, gone, sessions, grounded):
        gone |= more
    named = {one: why for one, why in gone.items() if memories[one].ended_as is not Ending.ERASED}
    return ForgetVerdict(
        named,
        {one.id: _strip_sources(memories, one, gone, sessions) for one in _find_touched(memories, gone, sessions)},
        {one.id: one for one in _restore_superseded(memories, gone)},
        tuple(sorted(one for one in named if memories[one].constitutional and memories[one].is_live)),
    )


def _find_touched(memories: Memories, gone: Mapping[str, str], sessions: Collection[str]) -> Iterator[Memory]:
    for one in memories.values():
        learned = any(source.session in sessions for source in one.sources)
        if one.id not in gone and (learned or not gone.keys().isdisjoint(one.derived_from)):
            yield one


def _find_falling(
    memories: Memories, gone: Mapping[str, str], sessions: Collection[str], grounded: Grounded
) -> dict[str, str]:
    """Return the memories that their remaining sources do not support, each with the reason.

    If some memories have no source at all, only these are returned, because others may depend on them.
    """
    ungrounded = {}
    alone = {}
    for one in _find_touched(memories, gone, sessions):
        left = _strip_sources(memories, one, gone, sessions)
        parents = [memories[parent].content for parent in left.derived_from if memories[parent].content]
        if not left.sources and not parents:
            alone[one.id] = ALONE
        elif not alone and not grounded(one.content, left.sources, parents):
            ungrounded[one.id] = UNGROUNDED
    return alone or ungrounded


def _strip_sources(memories: Memories, memory: Memory, gone: Mapping[str, str], sessions: Collection[str]) -> Memory:
    """Return the memory without sources from the sessions, and without sources that only erased memories contribute."""
    parents = [one for one in memory.derived_from if one in memories and one not in gone]
    held = {source for one in parents for source in memories[one].sources}
    lost = {source for one in memory.derived_from if one in gone for source in memories[one].sources} - held
    sources = tuple(one for one in memory.sources if one.session not in sessions and one not in lost)
    return replace(memory, sources=sources, derived_from=tuple(parents), note=None)  # the note may quote forgotten text


def _restore_superseded(memories: Memories, gone: Mapping[str, str]) -> Iterator[Memory]:
    for one in memories.values():
        fell = {why for successor in one.successors if (why := gone.get(successor)) is not None}
        is_merged = one.id not in gone and one.ended_as is Ending.MERGED and bool(one.successors)
        if is_merged and gone.keys() >= set(one.successors) and fell <= {ALONE, UNGROUNDED, SAYS_IT}:
            yield replace(one, deleted_at=None, ended_as=None, successors=(), lost=None)


def without_notes(memories: Memories, verdict: ForgetVerdict, says: Callable[[str], bool]) -> ForgetVerdict:
    """Return the verdict, extended: memories that stay lose a note that contains forgotten text.

    Args:
        memories: the memories for which the verdict was made.
        verdict: the verdict so far.
        says: returns True if a text contains forgotten text.
    """
    others = (one for one in memories.values() if one.id not in verdict.erased.keys() | verdict.restored.keys())
    noted = {one.id: replace(one, note=None) for one in others if one.note and says(one.note)}
    back = {one.id: replace(one, note=None) for one in verdict.restored.values() if one.note and says(one.note)}
    return replace(verdict, kept=noted | verdict.kept, restored=verdict.restored | back)


def why_kept(was: Memory, left: Memory) -> str:
    """Return the reason why a memory stays, for people: only its note was affected, or other sources support it."""
    return NOTED if (was.sources, was.derived_from) == (left.sources, left.derived_from) else GROUNDED


def changes_of(memories: Memories, verdict: ForgetVerdict, now: str, salt: Callable[[], str]) -> tuple[Change, ...]:
    """Return the verdict as changes of the ledger.

    Args:
        memories: the memories for which the verdict was made.
        verdict: a verdict without protected memories.
        now: the time, UTC, ISO 8601 with `Z`.
        salt: returns a new salt. Each memory gets one, because its earlier states are erased.
    """
    after = {one: erase(memories[one], now, salt()) for one in verdict.erased}
    for one, memory in (verdict.kept | verdict.restored).items():
        both = replace(verdict.kept.get(one, memory), deleted_at=memory.deleted_at, ended_as=memory.ended_as)
        after[one] = replace(both, successors=memory.successors, updated_at=now, salt=salt())
    return tuple(Change(OPERATION, one, memories[one], memory) for one, memory in after.items())


class SectionVersion(NamedTuple):
    """Hold one version of a section of the profile, with the records that it cites."""

    text: str
    sources: Sequence[Source]


def section_left(versions: Sequence[SectionVersion], sessions: Collection[str], grounded: Grounded) -> str:
    """Return a section of the profile without the sentences that only the forgotten sessions support.

    Args:
        versions: all versions of the section, oldest first; the last one is the present text.
        sessions: ids of the forgotten sessions.
        grounded: see `of_memory`.
    """
    if not any(source.session in sessions for version in versions for source in version.sources):
        return versions[-1].text
    others = [source for version in versions for source in version.sources if source.session not in sessions]
    return " ".join(
        sentence
        for sentence in list_texts(versions[-1].text)
        if not _came_with(versions, sentence, sessions) or (others and grounded(sentence, others, ()))
    )


def _came_with(versions: Sequence[SectionVersion], sentence: str, sessions: Collection[str]) -> bool:
    first = next(one for one in versions if normalize(sentence) in map(normalize, list_texts(one.text)))
    return any(source.session in sessions for source in first.sources)


def without_marked(text: str, mark: str) -> str:
    """Return the text without the sentences that contain a mark."""
    return " ".join(sentence for sentence in list_texts(text) if mark not in sentence) if mark in text else text


def _hash_likenesses(text: str) -> tuple[str, ...]:
    """Return the hash of a text, followed by the hashes of its variants with other speaker labels and punctuation."""
    said = strip_label(text).strip()
    bare = dict.fromkeys((said, said.rstrip("".join(_ENDS)).rstrip() or said, said.strip(_AROUND) or said))
    forms = (f"{who}{one}{end}" for one in bare for who in ("", *_SAYS) for end in ("", *_ENDS))
    return tuple(dict.fromkeys((hash_of(text), *map(hash_of, forms))))


def forgotten_since(text: str, forgotten: Mapping[str, str]) -> str | None:
    """Return when a text was last forgotten; None if it never was.

    A text with another speaker label or other punctuation counts as the same.

    Args:
        text: the new text.
        forgotten: the time when each deliberately forgotten text was last forgotten, by the hash of the text.
    """
    if not forgotten:
        return None
    return max((forgotten[one] for one in _hash_likenesses(text) if one in forgotten), default=None)


def buried_since(text: str, buried: Mapping[str, str]) -> str | None:
    """Return when a text with the same words, in any order, was last forgotten; None if there is none.

    Args:
        text: the new text.
        buried: the time when each deliberately forgotten text that is still stored was last forgotten, by the text.
    """
    near = (one for one in buried if measure_overlap(text, one) == 1 and not list_missing(text, [_material(one)]))
    return max((buried[one] for one in near), default=None)


@lru_cache(maxsize=1 << 8)
def _material(text: str) -> Material:
    return Material(text, date.min)


def is_said_since(operation: Operation, since: str) -> bool:
    """Return True if the operation cites a record of a person that is newer than `since`."""
    return any(cite.origin == "user" and cite.at and cite.at > since for cite in getattr(operation, "cites", ()))
