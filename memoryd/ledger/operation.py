"""Define operations: the only ways to change a ledger, each by memory id, and their effects.

No operation removes a row. An ended memory keeps its row, with time and kind of its end, and its successors.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import StrEnum
from typing import Any

from memoryd.errors import MemorydError
from memoryd.ledger.memory import (
    PREFIXES,
    Ending,
    Memory,
    MemoryKind,
    Source,
    draw_id,
    draw_salt,
    erase,
    hash_of,
    reword,
    unite_groups,
)


class Disposition(StrEnum):
    """Name the outcomes of an earlier memory in a rewrite; each earlier memory has exactly one."""

    KEPT = "kept"
    REWORDED = "reworded"
    MERGED = "merged"
    SUPERSEDED = "superseded"
    ARCHIVED = "archived"


class OperationError(MemorydError):
    """Report that an operation cannot be applied to this ledger; no operation of its list was applied.

    `memory_ids` names the memories for which it fails.
    """

    code = "operation"

    def __init__(self, what: str, memory_ids: Sequence[str], hint: str = "") -> None:
        super().__init__(what, where=", ".join(memory_ids), hint=hint)
        self.memory_ids = tuple(memory_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Values:
    """Hold the values, besides the text, that an operation may set; None leaves a value unchanged."""

    cites: tuple[Source, ...] = ()
    category: str | None = None
    confidence: float | None = None
    importance: float | None = None
    tags: tuple[str, ...] | None = None
    heading: str | None = None
    position: int | None = None
    note: str | None = None

    def list_given(self) -> dict[str, Any]:
        """Return the given values by field name, with unstorable characters replaced."""
        values = {name: getattr(self, name) for name in _PLAIN if getattr(self, name) is not None}
        values |= {name: _storable(value) for name, value in values.items() if isinstance(value, str)}
        return values if self.tags is None else values | {"tags": unite_groups(map(_storable, self.tags))}


_PLAIN = ("category", "confidence", "importance", "heading", "position", "note")


@dataclass(frozen=True, slots=True)
class Add(_Values):
    """Add a memory; with `id`, other operations of the list can refer to it."""

    kind: MemoryKind
    content: str
    _: KW_ONLY
    tags: tuple[str, ...] | None = ()
    origin_at: str | None = None  # None: the latest time of its citations
    derived_from: tuple[str, ...] = ()
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Update(_Values):
    """Change values of a live memory; None leaves a value unchanged, and citations are added to its sources.

    A new text replaces the note as well: the memory gets the given note, or none. `lost` is the number of tokens that a
    second reader counts as lost by the new text; None means that the loss is measured.
    """

    id: str
    content: str | None = None
    _: KW_ONLY
    derived_from: tuple[str, ...] = ()  # these ids are added to the existing ones
    origin_at: str | None = None  # when the new text was said
    lost: int | None = None


@dataclass(frozen=True, slots=True)
class Merge(_Values):
    """Merge two or more memories of one kind into a new memory; values that are not given come from the merged ones.

    `lost` has, by id, the tokens that a second reader counts as lost by the end of a memory. The loss of a memory
    without an entry is measured.
    """

    ids: tuple[str, ...]
    content: str
    _: KW_ONLY
    id: str | None = None
    lost: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """End a memory.

    `SUPERSEDED` and `MERGED` need successors. `ERASED` removes the text, also of an ended memory.
    """

    id: str
    ended_as: Ending = Ending.DELETED
    successors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Protect:
    """Make a memory constitutional, so that no job, tool or file edit can change it."""

    id: str


@dataclass(frozen=True, slots=True)
class Unprotect:
    """Make a constitutional memory ordinary again."""

    id: str


@dataclass(frozen=True, slots=True)
class Restore:
    """Make an ended memory live again."""

    id: str


Operation = Add | Update | Merge | Delete | Protect | Unprotect | Restore


@dataclass(frozen=True, slots=True)
class Change:
    """Hold one memory before and after an operation."""

    operation: str  # add | update | merge | delete | protect | unprotect | restore
    memory_id: str
    before: Memory | None  # None if the memory is new
    after: Memory


def ids_of(operation: Operation) -> tuple[str, ...]:
    """Return the ids of the memories that an operation changes, including the id that it gives to a new memory."""
    if isinstance(operation, Merge):
        return unite_groups(operation.ids, (operation.id,) if operation.id else ())
    return (operation.id,) if operation.id is not None else ()


def text_of(operation: Operation) -> str | None:
    """Return the text that an operation adds; None if it adds none."""
    return operation.content if isinstance(operation, Add | Update | Merge) else None


def texts_of(operation: Operation) -> tuple[str, ...]:
    """Return all texts that an operation adds: the content and the note, as far as they are given."""
    if not isinstance(operation, Add | Update | Merge):
        return ()
    return tuple(text for text in (operation.content, operation.note) if text is not None)


def apply(
    memories: Mapping[str, Memory],
    operations: Sequence[Operation],
    *,
    agent_id: str,
    now: str,
    new_hex: Callable[[], str],
    taken: Container[str] = (),
) -> list[Change]:
    """Return the changes that operations make, in order; if one operation fails, none is applied.

    Args:
        memories: all memories that the operations name, by id, live and ended.
        operations: the operations, in order.
        agent_id: the agent whose memories change.
        now: the time, UTC, ISO 8601 with `Z`.
        new_hex: returns eight random hex digits.
        taken: further ids that are in use.

    Raises:
        OperationError: an operation cannot be applied. For example, an id is unknown, ended (for a restore: live) or of
            another agent, a merge has fewer than two memories, a text is blank, or a successor does not exist.
    """
    ledger = _Ledger(dict(memories), agent_id, now, new_hex, taken)
    changes = [change for operation in operations for change in ledger.changes(operation)]
    for operation in operations:
        ledger.check_successors(operation)
    return changes


@dataclass(frozen=True, slots=True)
class _Ledger:
    """Hold the ledger while a list of operations is applied."""

    memories: dict[str, Memory]
    agent_id: str
    now: str
    new_hex: Callable[[], str]
    taken: Container[str]

    def changes(self, operation: Operation) -> Iterator[Change]:
        for name, after in self._results(operation):
            before = self.memories.get(after.id)
            if after != before:
                if before is not None:
                    after = replace(after, updated_at=self.now)  # noqa: PLW2901
                self.memories[after.id] = after
                yield Change(name, after.id, before, after)

    def _results(self, operation: Operation) -> list[tuple[str, Memory]]:
        if isinstance(operation, Add):
            return [("add", self._add(operation))]
        if isinstance(operation, Update):
            return [("update", self._update(operation))]
        if isinstance(operation, Merge):
            return [("merge", memory) for memory in self._merge(operation)]
        if isinstance(operation, Delete):
            return [("delete", self._delete(operation))]
        if isinstance(operation, Restore):
            return [("restore", self._restore(operation))]
        protect = isinstance(operation, Protect)
        return [("protect" if protect else "unprotect", replace(self._get_live(operation.id), constitutional=protect))]

    def _add(self, add: Add) -> Memory:
        return Memory(
            id=self._new_id(add.kind, add.id),
            agent_id=self.agent_id,
            kind=add.kind,
            content=_describe_content(add.content, add.id),
            content_hash=hash_of(add.content),
            created_at=self.now,
            updated_at=self.now,
            salt=draw_salt(self.new_hex),
            origin_at=add.origin_at or max((source.at for source in add.cites if source.at), default=None),
            derived_from=unite_groups(add.derived_from),
            sources=unite_groups(add.cites),
            **add.list_given(),
        )

    def _update(self, update: Update) -> Memory:
        memory = self._get_live(update.id)
        if update.content is not None and update.content != memory.content:
            memory = replace(reword(memory, _describe_content(update.content, update.id)), note=None, lost=update.lost)
        return replace(
            memory,
            sources=unite_groups(memory.sources, update.cites),
            derived_from=unite_groups(memory.derived_from, update.derived_from),
            origin_at=memory.origin_at if update.origin_at is None else update.origin_at,
            **update.list_given(),
        )

    def _merge(self, merge: Merge) -> list[Memory]:
        ids = unite_groups(merge.ids)
        if len(ids) < 2:
            raise OperationError("a merge needs two memories at least", ids, "name each memory once")
        parts = [self._get_live(memory_id) for memory_id in ids]
        first = parts[0]
        if any(part.kind is not first.kind for part in parts):
            raise OperationError("memories of different kinds cannot be merged", ids)
        values = {
            "category": first.category,
            "confidence": _get_highest(part.confidence for part in parts),
            "importance": _get_highest(part.importance for part in parts),
            "tags": unite_groups(*(part.tags for part in parts)),
            "heading": first.heading,
            "position": first.position,
        }
        add = Add(
            first.kind,
            merge.content,
            cites=unite_groups(*(part.sources for part in parts), merge.cites),
            origin_at=min((part.origin_at for part in parts if part.origin_at), default=None),
            derived_from=unite_groups(ids, *(part.derived_from for part in parts)),
            id=merge.id,
            **values | merge.list_given(),
        )
        new, lost = self._add(add), merge.lost or {}
        return [new, *(replace(self._end(part, Ending.MERGED, (new.id,)), lost=lost.get(part.id)) for part in parts)]

    def _delete(self, delete: Delete) -> Memory:
        if delete.ended_as is Ending.ERASED:
            memory = self._get_memory(delete.id)
            if memory.ended_as is Ending.ERASED:
                return memory
            return erase(memory, self.now, draw_salt(self.new_hex))
        if delete.ended_as in {Ending.SUPERSEDED, Ending.MERGED} and not delete.successors:
            raise OperationError(f"a memory that ends as {delete.ended_as} needs a successor", (delete.id,))
        return self._end(self._get_live(delete.id), delete.ended_as, unite_groups(delete.successors))

    def _end(self, memory: Memory, ended_as: Ending, successors: tuple[str, ...]) -> Memory:
        return replace(memory, deleted_at=self.now, ended_as=ended_as, successors=successors, lost=None)

    def _restore(self, restore: Restore) -> Memory:
        memory = self._get_memory(restore.id)
        if memory.is_live:
            raise OperationError("the memory is live, there is nothing to restore", (restore.id,))
        if memory.ended_as is Ending.ERASED:
            raise OperationError("the memory was erased, its text is gone", (restore.id,))
        return replace(memory, deleted_at=None, ended_as=None, successors=(), lost=None)

    def check_successors(self, operation: Operation) -> None:
        """Raise OperationError if a successor is neither live in the end nor replaced by a live memory."""
        if isinstance(operation, Delete) and operation.successors:
            gone = [one for one in operation.successors if not self._lives_on(one, operation.id)]
            if gone:
                raise OperationError(f"a successor of {operation.id} does not exist", gone)

    def _lives_on(self, memory_id: str, ended: str) -> bool:
        passed, waiting = {ended}, [memory_id]
        while waiting:
            one = waiting.pop()
            memory = self.memories.get(one)
            if memory is None or one in passed:
                continue
            if memory.is_live:
                return True
            passed.add(one)
            waiting += memory.successors
        return False

    def _new_id(self, kind: MemoryKind, given: str | None) -> str:
        if given is None:
            return draw_id(kind, self.new_hex, self.memories, self.taken)
        if not given.startswith(PREFIXES[kind]):
            raise OperationError(f"the id of a {kind} begins with {PREFIXES[kind]}", (given,))
        if given in self.memories or given in self.taken:
            raise OperationError("the id is taken", (given,))
        return given

    def _get_memory(self, memory_id: str) -> Memory:
        memory = self.memories.get(memory_id)
        if memory is None or memory.agent_id != self.agent_id:
            raise OperationError("no memory has this id", (memory_id,), "list the memories of this agent")
        return memory

    def _get_live(self, memory_id: str) -> Memory:
        memory = self._get_memory(memory_id)
        if not memory.is_live:
            raise OperationError(f"the memory has ended ({memory.ended_as or 'deleted'})", (memory_id,), "restore it")
        return memory


def _describe_content(content: str, memory_id: str | None) -> str:
    if not content.strip():
        raise OperationError("a memory needs a text", (memory_id,) if memory_id else ())
    return _storable(content) or ""


def _storable(text: str | None) -> str | None:
    # A lone surrogate can be neither stored nor hashed.
    return None if text is None else text.encode(errors="replace").decode()


def _get_highest(values: Iterator[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
