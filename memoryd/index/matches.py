"""Find the documents of one agent that match a question, and their BM25 scores, for as many matches as time allows.

FTS5 ranks all matches of a question, and for that it counts the matches of each word. Words in very many documents cost
more than they tell. If there are such words, documents are ranked by the rare words alone. For the common words, it is
only checked whether these documents hold them, which costs a fraction of that. Documents with two common words are
added. `bench/recall_histories.py` compares this with a ranking of all matches.
"""

import json
import math
from collections.abc import Callable, Iterator, KeysView, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

from memoryd.recall.documents import COLUMNS, WEIGHTS
from memoryd.recall.query import Query, Term, TermKind, build_expression
from memoryd.recall.ranking import SESSION

FEW = 2000  # documents that are ranked in a moment, for any question
BUDGET = 15_000  # matches that one question may rank, at about a microsecond each …
FILTERED_BUDGET = 80_000  # … and if a filter excludes most of them
_SHARE = 25  # … but at least one in so many of all documents
_KEPT = 1500  # best matches of the rare words that are ranked by the common words too
_PAIRED = 3  # the rarest common words; documents with two of them are added
_REACH = 2  # times the budget: the limit of counting, and the largest count of such a word
_HARDLY = 50  # one in so many documents more or less
_REMEMBERED = 10_000  # counts
COMMON = 0.2  # of all documents: FTS5 underrates words in more documents than this …
_LEAST_IDF = 1e-6  # … or takes this value, as in its source
_LEAST_WORTH = 0.1  # of a term that is everywhere
_ITSELF = "- near :"  # in all columns except that of the neighbours
_K1 = 1.2  # of BM25, as in FTS5
# The BM25 score of a word beside a text, as a share of its score in a text of usual length.
_BESIDE = WEIGHTS["near"] * (_K1 + 1) / (WEIGHTS["near"] + _K1)
_SCORE = f"bm25(words_{{n}}, {', '.join(str(WEIGHTS[name]) for name in COLUMNS)})"


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Hold the limits of a search; days are YYYY-MM-DD, both inclusive."""

    tier: str | None = None
    after: str | None = None
    before: str | None = None

    @property
    def is_narrow(self) -> bool:
        return self != SearchFilter()


class _All(NamedTuple):
    """Hold the number of documents, and the ids of the first and the last one."""

    size: int
    first: int
    last: int

    def extrapolate(self, count: int, last: int) -> int:
        """Estimate the total from the number `count` of documents up to the id `last`."""
        return min(self.size, count * (self.last - self.first + 1) // max(1, last - self.first + 1))


class _CountedTerm(NamedTuple):
    """Hold a term with the number of its documents, which is an estimate if they are very many."""

    term: Term
    holding: int

    def worth(self, documents: int) -> float:
        """Return the score that BM25 should give for one occurrence in a document of usual length."""
        return math.log1p((max(0, documents - self.holding) + 0.5) / (self.holding + 0.5))

    def read_idf(self, documents: int) -> float:
        """Return the same as in FTS5: below 0 for a term in more than half of the documents."""
        return math.log((max(0, documents - self.holding) + 0.5) / (self.holding + 0.5))


class Counts:
    """Remember recent counts of the commonest terms, which hold while the number of documents hardly changes."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[int, int]] = {}  # (agent, term) → count, all documents

    def get(self, number: int, match: str, size: int) -> int | None:
        """Return the count of a term of an agent with so many documents; None if it must be counted."""
        holding, before = self._known.get((number, match), (0, 0))
        return holding if abs(size - before) * _HARDLY <= before else None

    def put(self, number: int, match: str, size: int, holding: int) -> None:
        """Remember a count."""
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[number, match] = (holding, size)


class Matches:
    """Find the matches of questions in one transaction, among the documents of one agent."""

    def __init__(self, rows: Callable[..., list[Any]], number: int, counts: Counts) -> None:
        """Use the tables of a number, through a function that asks the database."""
        self._rows = rows
        self._number = number
        self._counts = counts
        self._words = f"words_{number}"
        self._counted: dict[str, int] = {}  # a term in FTS5's form, and the number of its documents
        self._few: set[str] = set()  # terms with few documents, in FTS5's form

    def rank(self, query: Query, where: SearchFilter, limit: int) -> list[tuple[int, float]]:
        """Return the ids and scores of the documents that match best, the best first; a higher score is better.

        For words that are nearly everywhere, only the newest documents are ranked, and files and facts, which are few.
        """
        every = self._all()
        if every.size <= FEW:
            return self._rank_few(query.terms, where, limit, every)
        budget = max(FILTERED_BUDGET if where.is_narrow else BUDGET, every.size // _SHARE)
        rare, common = self._split_terms(query.terms, budget, every)
        if not common:
            return self._rank_any(rare, where, limit) if rare else []
        # More than wanted, because common words can raise a document that the rare ones rank low.
        scores = dict(self._rank_any(rare, where, max(limit, _KEPT))) if rare else {}
        if not scores:  # or none that passes the filter
            rare = ()
            common, scores = self._rank_newest(common, where, limit, budget)
        for one, (anywhere, own) in self._find_common(rare, common, scores.keys(), where, budget).items():
            worth = one.worth(every.size)
            for ids, share in ((anywhere, _BESIDE), (own, 1 - _BESIDE)):
                for identity in ids:
                    scores[identity] = scores.get(identity, 0.0) + worth * share
        if not rare:
            terms = dict.fromkeys([common[0], *_pick_pair(common)])
            for identity, score in self._rank_any([one.term for one in terms], where, limit, written_down=True):
                scores[identity] = max(score, scores.get(identity, score))
        return sorted(scores.items(), key=lambda one: (-one[1], one[0]))[:limit]

    def _rank_few(
        self, terms: tuple[Term, ...], where: SearchFilter, limit: int, every: _All
    ) -> list[tuple[int, float]]:
        """Return the best of few documents; a term that most of them hold counts by its real weight.

        In one project most documents hold its subject, and FTS5 would give that no weight.
        """
        counted = [self._count_term(term, BUDGET, every) for term in terms]
        common = [one for one in counted if one.holding > COMMON * every.size]
        scores = dict(self._rank_any(terms, where, FEW if common else limit))
        for one in common:
            lacking = one.worth(every.size) / max(_LEAST_IDF, one.read_idf(every.size)) - 1
            for identity, score in self._rank_any((one.term,), where, FEW):
                scores[identity] += score * lacking
        return sorted(scores.items(), key=lambda one: (-one[1], one[0]))[:limit]

    def _find_common(
        self,
        rare: tuple[Term, ...],
        common: Sequence[_CountedTerm],
        found: KeysView[int],
        where: SearchFilter,
        budget: int,
    ) -> dict[_CountedTerm, tuple[set[int], set[int]]]:
        """Return the documents that hold common terms anywhere, and those that hold them in the text itself.

        Only documents found by the rare terms count, and those with two common terms, which are added.
        """
        there = {one: (set[int](), set[int]()) for one in common}
        for one, other, ids in self._pairs(common, where, budget):
            own = self._ids(f"{_ITSELF} ({one.term.match} AND {other.term.match})", where)
            for term in (one, other):
                there[term][0].update(ids)
                there[term][1].update(own)
        if not rare:
            for ids in there[common[0]]:  # they were found and ranked by this term alone
                ids.difference_update(found)
            return there
        for one in common:
            also = f"{one.term.match} AND ({build_expression(rare)})"
            there[one][0].update(found & self._ids(also))
            there[one][1].update(found & self._ids(f"{_ITSELF} {also}"))
        return there

    def weigh_terms(self, terms: Sequence[Term]) -> dict[str, float]:
        """Return the weight of each term, by its text: rare terms weigh more, and none weighs nothing."""
        every = self._all()
        counted = [self._count_term(term, BUDGET, every) for term in terms]
        return {one.term.text: one.worth(every.size) + _LEAST_WORTH for one in counted}

    def find_holding(self, terms: Sequence[Term], ids: Sequence[int]) -> set[int]:
        """Return which of these documents hold all of the terms."""
        # Looking for one document costs as much as skipping a thousand; a prefix costs as much as finding all its
        # words.
        is_passed = any(term.match in self._few or term.kind is TermKind.PREFIX for term in terms)
        rowid = "+rowid" if is_passed else "rowid"
        rows = self._rows(
            f"SELECT rowid FROM {self._words} WHERE {self._words} MATCH :match"  # noqa: S608
            f" AND {rowid} IN (SELECT value FROM json_each(:ids))",
            {"match": " AND ".join(term.match for term in terms), "ids": json.dumps(list(ids))},
        )
        return {int(row[0]) for row in rows}

    def _all(self) -> _All:
        sizes = f"{self._words}_docsize"
        ends = f"SELECT min(id) FROM {sizes}), (SELECT max(id) FROM {sizes}"  # noqa: S608
        sql = f"SELECT CAST(live AS INTEGER), ({ends}) FROM agent WHERE number = :number"  # noqa: S608
        size, first, last = self._rows(sql, {"number": self._number})[0]
        return _All(size or 0, first or 0, last or 0)

    def _split_terms(
        self, terms: Sequence[Term], budget: int, every: _All
    ) -> tuple[tuple[Term, ...], list[_CountedTerm]]:
        """Return the terms whose matches are all ranked, in the query's order, and the others, the rarest first."""
        counted = [self._count_term(term, budget, every) for term in terms]
        rare, common = set(), []
        for one in sorted(counted, key=lambda one: one.holding):
            if one.holding > budget:
                common.append(one)
            elif one.holding:
                rare.add(one.term)
                budget -= one.holding
        return tuple(term for term in terms if term in rare), common

    def _count_term(self, term: Term, budget: int, every: _All) -> _CountedTerm:
        known = self._counts.get(self._number, term.match, every.size)
        known = self._counted.get(term.match) if known is None else known
        if known is not None:
            return _CountedTerm(term, known)
        most = max(budget, _REACH * BUDGET)
        matches = f"SELECT rowid FROM {self._words} WHERE {self._words} MATCH :match LIMIT :most"  # noqa: S608
        sql = f"SELECT count(*), max(rowid) FROM ({matches})"  # noqa: S608
        count, last = self._rows(sql, {"match": term.match, "most": most + 1})[0]
        if count <= BUDGET:
            self._few.add(term.match)
        found = _CountedTerm(term, count if count <= most else every.extrapolate(count, last))
        self._counted[term.match] = found.holding
        if count > BUDGET:
            self._counts.put(self._number, term.match, every.size, found.holding)
        return found

    def _pairs(
        self, common: Sequence[_CountedTerm], where: SearchFilter, budget: int
    ) -> Iterator[tuple[_CountedTerm, _CountedTerm, set[int]]]:
        """Return pairs of terms, with the documents that hold both, if these are not too many in all."""
        left = budget
        for one, other in combinations(_pick_pair(common), 2):
            ids = self._ids(f"{one.term.match} AND {other.term.match}", where, left + 1)
            if ids and len(ids) <= left:
                left -= len(ids)
                yield one, other, ids

    def _rank_newest(
        self, common: list[_CountedTerm], where: SearchFilter, limit: int, most: int
    ) -> tuple[list[_CountedTerm], dict[int, float]]:
        """Return the best of the newest documents with a common term, the rarest one found; it is put first."""
        sql, values = self._build_filter("1", where)
        sql += " ORDER BY w.rowid DESC LIMIT 1 OFFSET :most"
        for one in common[:_PAIRED]:
            since = self._rows(sql, {"match": one.term.match, "most": most, **values})
            found = self._rank_any((one.term,), where, limit, int(since[0][0]) if since else 0)
            if found:
                return [one, *(other for other in common if other is not one)], dict(found)
        return common, {}

    def _rank_any(
        self, terms: Sequence[Term], where: SearchFilter, limit: int, since: int = 0, *, written_down: bool = False
    ) -> list[tuple[int, float]]:
        """Return the best of the documents that hold any of the terms.

        `written_down` means files and facts.
        """
        sql, values = self._build_filter(f"{_SCORE.format(n=self._number)} AS score", where)
        if written_down:
            # The + makes SQLite filter the matches, because looking for each document costs more.
            sql += (
                " AND +w.rowid IN (SELECT e.id FROM source f JOIN document e ON e.source = f.id"
                " WHERE f.agent = :number AND f.tier <> :session ORDER BY e.id DESC LIMIT :most)"
            )
            values |= {"number": self._number, "session": SESSION, "most": _REACH * BUDGET}
        rows = self._rows(
            f"{sql} AND w.rowid >= :since ORDER BY score, w.rowid LIMIT :limit",
            {"match": build_expression(tuple(terms)), "since": since, "limit": limit, **values},
        )
        return [(int(identity), -float(score)) for identity, score in rows]

    def _ids(self, match: str, where: SearchFilter = SearchFilter(), limit: int = -1) -> set[int]:
        sql, values = self._build_filter("1", where)
        return {int(row[0]) for row in self._rows(f"{sql} LIMIT :limit", {"match": match, "limit": limit, **values})}

    def _build_filter(self, column: str, where: SearchFilter) -> tuple[str, dict[str, object]]:
        sql = f"SELECT w.rowid, {column} FROM {self._words} w"  # noqa: S608
        if where.is_narrow:
            sql += " JOIN document d ON d.id = w.rowid JOIN source s ON s.id = d.source"
        sql += f" WHERE {self._words} MATCH :match"
        if where.tier is not None:
            sql += " AND s.tier = :tier"
        if where.after is not None or where.before is not None:
            sql += " AND (d.day IS NULL OR d.day BETWEEN coalesce(:after, '') AND coalesce(:before, '~'))"
        return sql, {"tier": where.tier, "after": where.after, "before": where.before}


def _pick_pair(common: Sequence[_CountedTerm]) -> list[_CountedTerm]:
    """Return the rarest of the common terms, if these are not too common."""
    return [one for one in common[:_PAIRED] if one.holding <= _REACH * BUDGET]
