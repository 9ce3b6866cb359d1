"""Search an agent's memory; each hit shows the present state of its file or row.

The index only says where to look. The text is read again before it is shown. If the text has changed or is gone, the
index is updated and the search is repeated.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import lru_cache, partial
from typing import Any, NamedTuple, Self

from memoryd.config import Agent
from memoryd.database import reads
from memoryd.database.reads import DatabaseReader
from memoryd.errors import ConfigError
from memoryd.finding.indexing import AGAIN, CORE, TIERS, Indexer
from memoryd.finding.passages import Passages, SourceTexts
from memoryd.index.database import RebuiltError
from memoryd.index.matches import SearchFilter
from memoryd.index.tables import Tables
from memoryd.ledger.memory import hash_of
from memoryd.recall import ranking
from memoryd.recall.answers import weigh_voice
from memoryd.recall.newer import put_newer_first
from memoryd.recall.query import Query, parse
from memoryd.recall.ranking import FACT, Candidate, KnownMemory, RankedCandidate, fuse
from memoryd.recall.snippet import find_held
from memoryd.recall.synonyms import list_synonyms
from memoryd.text.content import label_of
from memoryd.text.tags import tags_in
from memoryd.tiers import core

LIMIT = 10
MOST = 200  # the most hits of one search
_DEPTH = 2  # this many candidates are read for each wanted hit, because their texts change the order …
LEAST = 40  # … with this minimum …
_NEAREST = 200  # at least this many nearest texts are read, so that most hits by words have a cosine
_TAGGED = 200  # … which is larger for tags, because these are searched in the texts


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Hold the limits of a search: tier, tags, days and number of hits."""

    tier: str | None = None  # one of `TIERS`
    # A hit must have all of these tags: as tags of a memory or of front matter, or as `#tag` in its text.
    tags: frozenset[str] = frozenset()
    after: date | None = None  # the earliest day; a text without a day is left out
    before: date | None = None  # the latest day
    limit: int = LIMIT
    beside: Mapping[str, frozenset[str]] = field(default_factory=dict)  # tags of sessions by path, from NOW files

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Return the limits in a request to the control socket; all keys except `beside` are required."""
        after, before = (given[name] and date.fromisoformat(given[name]) for name in ("after", "before"))
        return cls(given["tier"], frozenset(given["tags"]), after, before, given["limit"])

    def check(self) -> None:
        """Check the limits.

        Raises:
            ConfigError: the tier or the number of hits is invalid.
        """
        if self.tier is not None and self.tier not in TIERS:
            raise ConfigError(f"there is no tier {self.tier!r}", "tier", f"one of {', '.join(TIERS)}")
        if not 1 <= self.limit <= MOST:
            raise ConfigError(f"a search gives 1 to {MOST} hits, not {self.limit}", "limit", "narrow the question")


@dataclass(frozen=True, slots=True)
class Hit:
    """Hold one search result."""

    path: str  # relative to the workspace, or `session:ID` or `fact:ID`
    first_line: int  # in a session, the number of the turn
    last_line: int
    snippet: str  # one line
    score: float  # only comparable within one search
    tier: str
    why: str  # for people: the words in the text, and other reasons for its score
    id: str | None = None  # the id of the memory, for `feedback`
    day: str | None = None  # YYYY-MM-DD
    said_by: str | None = None  # the author of the passage: a value of `Origin`, `PASTED` or `CALL`
    relevance: float = 0.0  # 0..1: the share of the question in the text, or the similarity of meaning


class Meaning(NamedTuple):
    """Hold the vector of a question, or the reason why there is none."""

    vector: bytes | None = None
    model: str = ""  # name and version; only vectors of one model can be compared
    why: str = ""  # why there is no vector, for people
    is_late: bool = False  # the vector may come a little later


@dataclass(frozen=True, slots=True)
class Recall:
    """Search the memory of agents."""

    indexer: Indexer
    now: Callable[[], datetime]
    # Starts to embed a question, and returns a function that waits for the result; None for a search by words only.
    meaning: Callable[[str], Callable[[], Meaning]] | None = None

    def search(
        self, agent: Agent, text: str, narrowing: Narrowing | None = None, go_on: Callable[[], bool] = lambda: True
    ) -> list[Hit]:
        """Return the hits, best first; the caller must check whether they may be shown.

        The question consists of words, `"phrases"`, `prefix*` and names. If `go_on` returns False while the index is
        updated, the newest texts may be missing.

        Raises:
            ConfigError: the narrowing is invalid.
            StateError: the index or the database cannot be used.
        """
        narrowing = narrowing or Narrowing()
        narrowing.check()
        query = parse(text)
        if not query.terms:
            return []
        meaning: Callable[[], Meaning] | None = None
        hits: list[Hit] = []
        for attempt in range(AGAIN):
            try:
                meaning = meaning or self._ask_meaning(agent.id, text)
                self.indexer.refresh(agent, go_on=go_on)
                hits, stale = self._ask(agent, query, text, meaning, narrowing)
                if not stale:
                    break
                self.indexer.fix_stale(agent.id, [(one.path, one.tier, one.first_line) for one in stale])
            except RebuiltError:
                if attempt == AGAIN - 1:
                    raise
        return hits

    def _ask_meaning(self, agent_id: str, text: str) -> Callable[[], Meaning]:
        """Start to embed a question, unless the agent has no vectors to compare it with."""
        if self.meaning is None:
            return Meaning
        with self.indexer.index.begin_read() as tables:
            number = tables.find_number(agent_id)
            has_vectors = number is not None and tables.newest_vector(number)
        return self.meaning(text) if has_vectors else partial(Meaning, why="no text is embedded yet")

    def _ask(
        self, agent: Agent, query: Query, text: str, asked: Callable[[], Meaning], narrowing: Narrowing
    ) -> tuple[list[Hit], list[Candidate]]:
        """Return the hits of a search, and candidates whose indexed state is outdated."""
        days = (day.isoformat() if day else None for day in (narrowing.after, narrowing.before))
        where = SearchFilter(narrowing.tier, *days)
        depth = max(_TAGGED if narrowing.tags else LEAST, _DEPTH * narrowing.limit)
        with ExitStack() as opened:
            tables = opened.enter_context(self.indexer.index.begin_read())
            number = tables.find_number(agent.id)
            if number is None:
                return [], []
            matches = tables.matches(number)
            terms = tuple(dict.fromkeys(matches.find_forms(query.terms)))
            # In a large memory, synonyms would find too much else.
            query = Query(terms, list_synonyms(terms) if matches.is_small() else ())
            reader = opened.enter_context(self.indexer.database.reading_any())
            sources = SourceTexts(agent, reader)
            weights, synonyms = matches.weigh_terms(query.terms), matches.weigh_terms(query.synonyms)
            passages = Passages(sources, weights, synonyms, text)
            weigh = partial(weigh_voice, asked=passages.asked)
            by_words = tables.find(number, query, where, depth, weigh)
            sources.read_ahead(by_words)  # while the model is working
            by_meaning: list[Candidate] = []
            meaning = asked()
            if meaning.vector is not None and tables.model(number) == meaning.model:
                nearest = self.indexer.index.find_nearest(tables, number, meaning.vector, where, max(depth, _NEAREST))
                passages.near = {one.id: one.score for one in nearest}
                wanted_ids = {one.id for one in (*by_words, *nearest[:depth])}
                by_meaning = [
                    replace(one, score=one.score * weigh(one.voice)) for one in nearest if one.id in wanted_ids
                ]
                sources.read_ahead(by_meaning)
            candidates = {one.id: one for one in (*by_meaning, *by_words)}
            stale = {one.id: one for one in candidates.values() if one.tier == CORE and sources.text(one) is None}
            known = _read_known(agent.id, reader, [one for one in candidates.values() if one.id not in stale], sources)
            wanted = {
                one.id
                for one in candidates.values()
                if one.id not in stale and _is_wanted(one, known.get(one.id), sources, narrowing, where)
            }
            phrases = query.phrases
            quoting = frozenset(matches.find_holding(phrases, sorted(wanted)) if phrases else ())
            today = self.now().astimezone(self.indexer.zone).date()

            def order_candidates(found: list[Candidate], weigh: Callable[[Candidate], float]) -> list[RankedCandidate]:
                left = [one for one in found if one.id in wanted]
                return _each_once(ranking.rank(left, lambda one: known.get(one.id), today, quoting, weigh))

            ranked = order_candidates(by_words, passages.weigh)
            best: list[RankedCandidate] = []
            nearest_first = order_candidates(by_meaning, passages.weigh_kind)
            fused = fuse(ranked, nearest_first, passages.near, quoting) if by_meaning else ranked
            head = 0 if quoting else _DEPTH * narrowing.limit
            near = put_newer_first(fused[:head], partial(_tell_said, passages=passages), lambda one: one.score)
            fused = [*near, *fused[head:]]
            for one in ranking.iterate_copies_last(fused, lambda one: passages.get(one)[:2], text):
                if len(best) == narrowing.limit:
                    break
                if sources.text(one.candidate) is None:
                    stale[one.candidate.id] = one.candidate
                else:
                    best.append(one)
            note = meaning.why or (
                "not all texts are embedded yet" if by_meaning and tables.list_lacking_vectors(number, 1) else ""
            )
            return _hits(tables, number, query, best, passages, note), list(stale.values())


def _read_known(
    agent_id: str, reader: DatabaseReader | None, candidates: Sequence[Candidate], sources: SourceTexts
) -> dict[int, KnownMemory]:
    """Return what the memory store has about the candidates that are memories, by candidate id."""
    if reader is None:
        return {}
    hashes = {one.id: said for one in candidates if one.tier == CORE and (said := said_hash(sources.text(one) or ""))}
    rows = reads.core_by_hash(reader, agent_id, list(hashes.values())) if hashes else {}
    ids = {at: str(rows[said]["id"]) for at, said in hashes.items() if said in rows}
    facts = {one.id: one.path.partition(":")[2] for one in candidates if one.tier == FACT}
    votes = reads.count_votes(reader, agent_id, [*ids.values(), *facts.values()]) if ids or facts else {}
    found = {at: KnownMemory(memory_id, votes=votes.get(memory_id, 0)) for at, memory_id in facts.items()}
    for at, memory_id in ids.items():
        row = rows[hashes[at]]
        tags = frozenset(str(tag).lower() for tag in json.loads(row["tags"]))
        day = str(row["origin_at"] or row["created_at"])[:10]
        found[at] = KnownMemory(memory_id, row["importance"], votes.get(memory_id, 0), tags, day)
    return found


@lru_cache(maxsize=4096)  # most of a core stays the same for a long time
def said_hash(text: str) -> str | None:
    """Return the content hash of the bullet in a chunk; None if the chunk has no bullet."""
    bullets = core.parse(text.encode(errors="replace")).bullets
    return hash_of(core.unescape(bullets[0].text)) if bullets else None


def _is_wanted(
    candidate: Candidate, known: KnownMemory | None, sources: SourceTexts, narrowing: Narrowing, where: SearchFilter
) -> bool:
    """Return True if a candidate has the tags and a day within the limits of the search."""
    if narrowing.tags:
        tags = candidate.tags | (known.tags if known is not None else frozenset())
        tags |= tags_in(sources.text(candidate) or "") | narrowing.beside.get(candidate.path, frozenset())
        if not {tag.lower().lstrip("#") for tag in narrowing.tags} <= tags:
            return False
    if where.after is None and where.before is None:
        return True
    day = candidate.day or (known.day if known is not None else None)
    return day is not None and (where.after or "") <= day <= (where.before or "~")


def _tell_said(one: RankedCandidate, passages: Passages) -> tuple[str, str]:
    """Return the words of a hit, and the day on which the user said them; an empty day if they are not the user's."""
    words, known = passages.get(one.candidate).text, one.known
    by_user = known is not None and (known.importance is None or label_of(words) == "user")
    return words, (one.candidate.day or (known.day if known else None) or "") if by_user else ""


def _each_once(ranked: Sequence[RankedCandidate]) -> list[RankedCandidate]:
    """Return only the best document of each turn, because a long turn has several."""
    found: dict[tuple[str, int], RankedCandidate] = {}
    for one in ranked:
        found.setdefault((one.candidate.path, one.candidate.first_line), one)
    return list(found.values())


def _hits(
    tables: Tables, number: int, query: Query, ranked: Sequence[RankedCandidate], passages: Passages, note: str
) -> list[Hit]:
    matched = tables.match_terms(number, query.terms, [one.candidate.id for one in ranked])
    words, synonyms = ([term.text for term in terms] for terms in (query.terms, query.synonyms))
    return [
        Hit(
            one.candidate.path,
            one.candidate.first_line,
            one.candidate.last_line,
            passages.get(one.candidate).text,
            float(f"{one.score:.4g}"),
            one.candidate.tier,
            _explain_hit(passages.read(one.candidate), [word for word in words if word in held], synonyms, one, note),
            None if one.known is None else one.known.memory_id,
            one.candidate.day or (one.known.day if one.known is not None else None),
            passages.find_speaker(one.candidate),
            round(passages.measure_relevance(one.candidate, held), 3),
        )
        for one, held in ((one, matched[one.candidate.id]) for one in ranked)
    ]


def _explain_hit(text: str, words: Sequence[str], synonyms: Sequence[str], one: RankedCandidate, note: str) -> str:
    """Return the reasons for a hit: the words in it and beside it, its places in the two orders, and other reasons."""
    own = find_held(text, words)
    beside = [word for word in words if word not in own]
    places = (("by words", one.by_words), ("by meaning", one.by_meaning))
    order = [f"{how} {place}" for how, place in places if place is not None]
    similar = ("synonyms: ", find_held(text, synonyms))
    told = (("", own), ("beside it: ", beside), similar, ("", order), ("", one.boosts), ("", [note] if note else []))
    return "; ".join(label + ", ".join(dict.fromkeys(part)) for label, part in told if part)
