"""Define a memory: one row of the ledger, with its identity, text, origin and flags.

A memory can end, but its row stays.

The audit stores a digest of the canonical JSON of a memory: keys sorted, no spaces, characters not escaped. The JSON
contains a random `salt`, so that nobody can guess an erased text and check the guess against the digest.
"""

import hashlib
import json
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any

from memoryd.errors import StateError
from memoryd.tiers.core import normalize

_DRAWS = 1_000  # a source that returns this many taken ids in a row is broken


class MemoryKind(StrEnum):
    """Name the kinds of memories; each kind has its own prefix of ids."""

    FACT = "fact"  # about the user, with a category and a confidence
    CORE = "core"  # a bullet of MEMORY.md
    JOURNAL = "journal"  # a report of changes; not a part of the core


PREFIXES = {MemoryKind.FACT: "fact_", MemoryKind.CORE: "core_", MemoryKind.JOURNAL: "jrnl_"}
ANY_PREFIX = tuple(PREFIXES.values())


class Ending(StrEnum):
    """Name how a memory ended; a job may not add again a text that ended in one of `TOMBSTONES`."""

    DELETED = "deleted"  # deliberately, by a person, a tool or a refinement
    ARCHIVED = "archived"
    SUPERSEDED = "superseded"
    MERGED = "merged"
    EVICTED = "evicted"  # ended because the store was full
    REPLACED = "replaced"  # missing from a text that replaced the whole file
    UNDONE = "undone"  # added by a run that was rolled back
    ERASED = "erased"  # the text is also removed from everywhere else


TOMBSTONES = frozenset({Ending.DELETED, Ending.ERASED})


@dataclass(frozen=True, slots=True)
class Source:
    """Hold a record that supports a memory, with the location of its bytes in a transcript."""

    session: str
    transcript: str
    record_id: str
    part: int
    first_byte: int
    last_byte: int
    sha256: str  # the hash of these bytes, in hex
    origin: str  # the author of the record: user, assistant, tool …
    at: str | None = None  # UTC, ISO 8601
    seq: int | None = None  # the number of the turn in its session


@dataclass(frozen=True, slots=True)
class Memory:
    """Hold one memory; times are UTC, ISO 8601 with `Z`, and confidence and importance are in 0..1."""

    id: str
    agent_id: str
    kind: MemoryKind
    content: str
    content_hash: str  # `hash_of(content)`; it stays when the text is erased
    created_at: str
    updated_at: str
    salt: str  # 32 random hex digits
    category: str | None = None
    confidence: float | None = None
    importance: float | None = None
    tags: tuple[str, ...] = ()
    constitutional: bool = False
    origin_at: str | None = None  # when the content was first said
    deleted_at: str | None = None
    derived_from: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    heading: str | None = None
    position: int | None = None  # a larger number is further down the file; the numbers have gaps
    ended_as: Ending | None = None
    successors: tuple[str, ...] = ()  # the ids of the memories that replace it
    note: str | None = None  # for a quotation: the question that it answers, and when and where it was said
    lost: int | None = None  # tokens that its end or last rewording lost, by a second reader's count; None: measure

    @property
    def is_live(self) -> bool:
        return self.deleted_at is None


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_LISTS = frozenset({"tags", "derived_from", "successors"})
_FIELDS = frozenset(field.name for field in fields(Memory))
_OF_SOURCE = tuple(field.name for field in fields(Source))[:-2]  # without `at` and `seq`, which may be missing
_LATER = ("note", "lost")  # fields that earlier versions do not write, so they are left out if they are None


def hash_of(content: str) -> str:
    """Return the hex sha256 of the normalised text, which ignores case, spacing and Unicode form."""
    return hashlib.sha256(normalize(content).encode()).hexdigest()


def draw_id(kind: MemoryKind, new_hex: Callable[[], str], *taken: Container[str]) -> str:
    """Return a new id of this kind that is not taken.

    Args:
        kind: decides the prefix.
        new_hex: returns eight random hex digits.
        taken: all ids in use, including those of ended memories.

    Raises:
        StateError: `new_hex` returned only taken ids, 1,000 times.
    """
    for _ in range(_DRAWS):
        candidate = PREFIXES[kind] + new_hex()
        if not any(candidate in ids for ids in taken):
            return candidate
    raise StateError(
        f"no free id after {_DRAWS} draws", where=PREFIXES[kind], hint="the source of random ids is broken"
    )


def draw_salt(new_hex: Callable[[], str]) -> str:
    """Return 32 random hex digits; `new_hex` returns eight at a time."""
    return "".join(new_hex() for _ in range(4))


def unite_groups(*groups: Iterable[Any]) -> tuple[Any, ...]:
    """Return the items of all groups, each once, in order of first appearance."""
    return tuple(dict.fromkeys(item for group in groups for item in group))


def reword(memory: Memory, content: str) -> Memory:
    """Return a copy of the memory with another text and its hash, and without `lost`."""
    return replace(memory, content=content, content_hash=hash_of(content), lost=None)


_ERASED: dict[str, Any] = {
    "content": "", "tags": (), "sources": (), "heading": None, "note": None, "constitutional": False,
    "ended_as": Ending.ERASED,
}  # fmt: skip


def erase(memory: Memory, now: str, salt: str) -> Memory:
    """Return an erased copy of the memory: identity, dates, and the hash that prevents the text from coming back.

    The salt is new. With the old salt, a guess of the text could be checked against an old digest.
    """
    return replace(memory, **_ERASED, updated_at=now, deleted_at=memory.deleted_at or now, salt=salt)


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def dump_canonical(value: Any) -> str:
    """Return the canonical JSON of a value: keys sorted, no spaces, characters not escaped."""
    return _ENCODER.encode(value)


def to_json(memory: Memory) -> str:
    """Return the canonical state of a memory, in the form that the audit digests and stores."""
    # Not `dataclasses.asdict`: it copies deeply, and takes four times as long.
    values = {name: getattr(memory, name) for name in _FIELDS}
    for name in _LATER:
        if values[name] is None:
            del values[name]
    return dump_canonical(values | {"sources": [asdict(source) for source in memory.sources]})


def from_json(text: str) -> Memory:
    """Return the memory of a state that `to_json` wrote.

    Raises:
        StateError: the text is not such a state.
    """
    try:
        return Memory(**{name: _value(name, value) for name, value in json.loads(text).items() if name in _FIELDS})
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise StateError(
            "the state of a memory cannot be read", hint="verify the state folder, restore a backup"
        ) from error


def _value(name: str, value: Any) -> Any:
    if name == "kind":
        return MemoryKind(value)
    if name == "ended_as":
        return None if value is None else Ending(value)
    if name == "sources":
        return tuple(source_of(item) for item in value)
    return tuple(value) if name in _LISTS else value


def source_of(state: Mapping[str, Any]) -> Source:
    """Return a source from an item of the `sources` column; unknown keys of later versions are ignored.

    Raises:
        KeyError: a key is missing.
    """
    return Source(**{name: state[name] for name in _OF_SOURCE}, at=state.get("at"), seq=state.get("seq"))


def sources_from_json(text: str) -> tuple[Source, ...]:
    """Return the sources in a row of the memory table.

    Raises:
        StateError: the column does not hold sources.
    """
    try:
        return tuple(source_of(item) for item in json.loads(text))
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise StateError("the sources of a memory cannot be read", hint="restore a backup") from error


def sources_to_json(sources: Iterable[Source]) -> str:
    """Return sources in the form of the `sources` column of the memory table."""
    return dump_canonical([asdict(source) for source in sources])
