"""Handle facts, short statements about the user, and the profile: six short sections of prose about the user.

Each fact has a category and a confidence. A `Store` is a snapshot of the live `fact` rows of one agent. Its
methods change nothing in the database. They return ledger operations, and the outcome for the caller.
"""

import math
from bisect import insort
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from memoryd.config import FactsSettings
from memoryd.ledger.category import Category
from memoryd.ledger.memory import Ending, Memory, MemoryKind, Source, draw_id
from memoryd.ledger.operation import Add, Delete, Operation, Update
from memoryd.text.neutral import neutralize
from memoryd.tiers.core import normalize

LONGEST_SHOWN = 300  # the most characters of one fact that an agent gets; a longer fact is cut so that others fit
MANUAL = "manual"  # the source of a fact without a session
_SOURCE_TAG = "source:"  # marks an imported fact; its `origin_at` is the time of its creation in the other program


class ProfileSection(StrEnum):
    """Name the sections of the profile, in the order of display."""

    WORK = "work"
    PERSONAL = "personal"
    TOP_OF_MIND = "topOfMind"
    RECENT = "recent"
    EARLIER = "earlier"
    BACKGROUND = "background"


# Sections about the present time. The other sections hold lasting facts.
PASSING_SECTIONS = frozenset({ProfileSection.TOP_OF_MIND, ProfileSection.RECENT})
LONGEST_SECTION = 1000  # characters of a section; the oldest sentences of a longer section are dropped

_TITLES = {
    "User Context:": dict(zip([*ProfileSection][:3], ("Work", "Personal", "Top of Mind"), strict=True)),
    "History:": dict(zip([*ProfileSection][3:], ("Recent", "Earlier", "Background"), strict=True)),
}


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """Hold the text of one section."""

    text: str
    updated_at: str  # UTC, ISO 8601 with Z


def render_profile(profile: Mapping[ProfileSection, ProfileEntry]) -> list[str]:
    """Return the profile as lines for an agent, without sections and titles that have no text.

    Each text is one line that cannot close the block around it or forge a heading, list or tag.
    """
    lines: list[str] = []
    for title, sections in _TITLES.items():
        told = [(name, neutralize(profile[section].text)) for section, name in sections.items() if section in profile]
        shown = [f"- {name}: {text}" for name, text in told if text]
        lines += [title, *shown] if shown else []
    return lines


@dataclass(frozen=True, slots=True)
class Fact:
    """Hold a fact in the form that people and programs see."""

    id: str
    content: str
    category: str
    confidence: float  # 0..1
    created_at: str  # UTC, ISO 8601 with Z; never changes
    source: str  # the id of its session, `MANUAL`, or the source that the imported file states


@dataclass(frozen=True, slots=True)
class NewFact:
    """Hold the values of a fact to create."""

    content: str
    category: str = Category.CONTEXT
    confidence: float = 1.0
    cites: tuple[Source, ...] = ()
    source: str | None = None  # only for an imported fact
    created_at: str | None = None  # only for an imported fact
    id: str | None = None  # the id of an imported fact; a new id is drawn if it is in use or malformed
    note: str | None = None  # the question that a quotation answers, and when and where it was asked


@dataclass(frozen=True, slots=True)
class FactOutcome:
    """Hold the outcome for one fact of a batch."""

    fact: Fact | None  # the stored fact, or an earlier fact with the same text; None if nothing was stored
    created: bool
    why: str | None = None  # "duplicate" | "below min_confidence"


@dataclass(frozen=True, slots=True)
class FactBatch:
    """Hold the effects of a batch of facts, in order."""

    operations: tuple[Operation, ...]
    outcomes: tuple[FactOutcome, ...]  # one for each fact of the batch
    evicted: tuple[Fact, ...] = ()  # facts that were ended because the store was full
    sections: tuple[ProfileSection, ...] = ()  # sections of the profile that were imported with the facts
    offered: int = 0  # the number of sections in the imported file that have a text


def fact_of(memory: Memory) -> Fact:
    """Return the fact that a memory of kind `fact` holds."""
    told = next((tag.removeprefix(_SOURCE_TAG) for tag in memory.tags if tag.startswith(_SOURCE_TAG)), None)
    source = told if told is not None else next((one.session for one in memory.sources), MANUAL)
    created_at = memory.origin_at if told is not None and memory.origin_at else memory.created_at
    confidence = memory.confidence if memory.confidence is not None else 1.0
    return Fact(memory.id, memory.content, memory.category or Category.CONTEXT, confidence, created_at, source)


class Store:
    """Hold a snapshot of the live facts of one agent."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        """Take the facts; those with equal times must be in the order of their creation."""
        self._facts = {fact.id: fact for fact in facts}
        self._ids = {normalize(fact.content): fact.id for fact in reversed(self._facts.values())}

    def all(self) -> list[Fact]:
        """Return the facts, by falling confidence; with equal confidence, the oldest first."""
        return sorted(self._facts.values(), key=lambda fact: (-fact.confidence, fact.created_at, fact.id))

    def get(self, fact_id: str) -> Fact:
        """Return the fact with this id.

        Raises:
            KeyError: the store has no fact with this id.
        """
        return self._facts[fact_id]

    def find_same(self, content: str) -> Fact | None:
        """Return the fact with the same text, ignoring case, spacing and Unicode form; None if there is none."""
        found = self._ids.get(normalize(content))
        return self._facts[found] if found is not None else None

    def search(self, query: str, limit: int = 20) -> list[Fact]:
        """Return the facts that contain any word of `query` in content or category.

        Facts with more of the words come first, then facts of higher confidence.
        """
        words = list(dict.fromkeys(normalize(query).split()))
        said = ((f"{normalize(fact.content)} {fact.category}", fact) for fact in self.all())
        scored = ((sum(word in text for word in words), fact) for text, fact in said)
        found = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
        return [fact for _, fact in found[: max(0, limit)]]

    def create(
        self,
        batch: Sequence[NewFact],
        limits: FactsSettings,
        now: str,
        new_hex: Callable[[], str],
        taken: Container[str] = (),
        protected: Container[str] = (),
    ) -> FactBatch:
        """Return the operations that store a batch of facts.

        If the text of a fact is already stored or in the batch, the outcome is that fact, unchanged. In a full store,
        the fact with the lowest confidence ends to make room; of several, the oldest.

        Args:
            batch: the facts, in order.
            limits: the configured limits.
            now: the time, UTC, ISO 8601 with Z.
            new_hex: returns random digits for a new id.
            taken: all ids in use, including those of ended facts.
            protected: the ids of constitutional facts, which a full store does not end.

        Raises:
            ValueError: a content is blank, a category unknown or a confidence outside 0..1; nothing is stored.
        """
        news = [check_fact(new) for new in batch]
        store = _Growing(self, limits.max_facts, protected)
        outcomes = []
        for new in news:
            same = store.find_same(new.content)
            if same is not None:
                outcomes.append(FactOutcome(same, created=False, why="duplicate"))
            elif new.confidence < limits.min_confidence:
                outcomes.append(FactOutcome(None, created=False, why="below min_confidence"))
            else:
                outcomes.append(FactOutcome(store.add(new, now, new_hex, taken), created=True))
        return FactBatch(tuple(store.operations), tuple(outcomes), tuple(store.evicted))

    def update(
        self, fact_id: str, content: str | None = None, category: str | None = None, confidence: float | None = None
    ) -> tuple[Update | None, Fact]:
        """Return the operation that changes the fields that are not None, and the fact after it.

        The operation is None if no field changes.

        Raises:
            KeyError: there is no such fact.
            ValueError: a value is invalid, or another fact already has the new content.
        """
        before = self.get(fact_id)
        after = replace(
            before,
            content=before.content if content is None else _content(content),
            category=before.category if category is None else _category(category),
            confidence=before.confidence if confidence is None else _confidence(confidence),
        )
        same = self.find_same(after.content)
        if content is not None and same is not None and same.id != fact_id:
            raise ValueError(f"{same.id} says that already")
        names = ("content", "category", "confidence")
        changed = {name: value for name in names if (value := getattr(after, name)) != getattr(before, name)}
        return Update(fact_id, **changed) if changed else None, after

    def delete(self, fact_id: str) -> Delete:
        """Return the operation that deletes a fact.

        Raises:
            KeyError: the store has no fact with this id.
        """
        return Delete(self.get(fact_id).id, Ending.DELETED)


class _Growing(Store):
    """Extend a store while a batch is added, and collect the operations."""

    def __init__(self, store: Store, max_facts: int, protected: Container[str]) -> None:
        super().__init__(store.all())
        self._used = set(self._facts)  # ids in use, also those of evicted facts
        self._max = max(1, max_facts)
        free = (fact for fact in self._facts.values() if fact.id not in protected)
        self._least = sorted(self._rank(fact, 0) for fact in free)
        self.operations: list[Operation] = []
        self.evicted: list[Fact] = []

    def add(self, new: NewFact, now: str, new_hex: Callable[[], str], taken: Container[str]) -> Fact:
        is_free = new.id and new.id not in self._used and new.id not in taken
        fact_id = new.id if is_free and new.id else draw_id(MemoryKind.FACT, new_hex, self._used, taken)
        while len(self._facts) >= self._max and self._evict():
            pass
        tags = (_SOURCE_TAG + new.source,) if new.source is not None else ()
        added = Add(
            MemoryKind.FACT, new.content, cites=new.cites, category=new.category, confidence=new.confidence, tags=tags,
            origin_at=new.created_at, id=fact_id, note=new.note,
        )  # fmt: skip
        self.operations.append(added)
        source = new.source if new.source is not None else next((one.session for one in new.cites), MANUAL)
        fact = Fact(fact_id, new.content, new.category, new.confidence, new.created_at or now, source)
        self._facts[fact_id] = fact
        self._used.add(fact_id)
        self._ids[normalize(fact.content)] = fact_id
        insort(self._least, self._rank(fact, len(self.operations)))
        return fact

    def _evict(self) -> bool:
        """End the fact with the lowest confidence; return False if all facts are protected."""
        if not self._least:
            return False
        fact = self._facts.pop(self._least.pop(0)[-1])
        self._ids.pop(normalize(fact.content), None)
        self.operations.append(Delete(fact.id, Ending.EVICTED))
        self.evicted.append(fact)
        return True

    @staticmethod
    def _rank(fact: Fact, order: int) -> tuple[float, str, int, str]:
        return fact.confidence, fact.created_at, order, fact.id


def render_line(fact: Fact) -> str:
    """Return a fact as one line for an agent, cut at a word after `LONGEST_SHOWN` characters.

    The line cannot close the block that contains it.
    """
    text = neutralize(fact.content)
    if len(text) > LONGEST_SHOWN:
        head, _, _ = text[:LONGEST_SHOWN].rpartition(" ")
        # A text without spaces is cut at the limit.
        text = f"{head if len(head) > LONGEST_SHOWN // 2 else text[: LONGEST_SHOWN - 1]}…"
    return f"- [{fact.category} | {fact.confidence:.2f}] {text}"


def check_fact(new: NewFact) -> NewFact:
    """Return the fact with its content trimmed.

    Raises:
        ValueError: the content, the category or the confidence is invalid.
    """
    content, category, confidence = _content(new.content), _category(new.category), _confidence(new.confidence)
    return replace(new, content=content, category=category, confidence=confidence)


def _content(content: object) -> str:
    text = content.encode(errors="replace").decode().replace("\0", "\ufffd").strip() if isinstance(content, str) else ""
    if not text:
        raise ValueError("the content of a fact is a text that is not blank")
    return text


def _category(category: object) -> str:
    if not isinstance(category, str) or category not in set(Category):
        raise ValueError(f"{category!r} is not a category of facts: one of {', '.join(Category)}")
    return Category(category).value


def _confidence(confidence: object) -> float:
    if isinstance(confidence, bool) or not isinstance(confidence, int | float):
        raise ValueError("the confidence of a fact is a number")  # noqa: TRY004 - the contract says ValueError
    if not math.isfinite(confidence) or not 0 <= confidence <= 1:
        raise ValueError(f"the confidence of a fact is between 0 and 1, not {confidence}")
    return float(confidence)
