"""Find the documents of one agent that match a search, with BM25 scores, within a limit of time.

FTS5 ranks all matches of a search, and counts the matches of each word for that. Words that are in very many documents
cost more time than they are worth. If there are such words, documents are ranked by the rare words only. For the common
words, those documents are only checked, which takes a fraction of the time. Documents with two common words are added.
`bench/recall_histories.py` compares this with a ranking of all matches.
"""

import json
import math
from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

from memoryd.recall.documents import COLUMNS, WEIGHTS
from memoryd.recall.query import Query, Term, TermKind, build_expression, list_beginnings
from memoryd.recall.ranking import SESSION

FEW = 2000  # this many documents can be ranked quickly for any search
BUDGET = 15_000  # the matches that one search may rank, at about a microsecond each …
FILTERED_BUDGET = 80_000  # … and the same if a filter excludes most of them
_SHARE = 25  # … but at least this fraction (1/25) of all documents
_KEPT = 1500  # this many of the best matches of the rare words are also scored by the common words
_PAIRED = 3  # this many of the rarest common words are searched in pairs
_REACH = 2  # matches are counted up to this multiple of the budget
_FORMS = 16  # only this many terms of a query are searched in other forms
_HARDLY = 50  # a count stays valid if the number of documents changed by less than 1/50
_REMEMBERED = 10_000  # the largest number of counts in memory
COMMON = 0.2  # words in more than this share of all documents get too little weight from FTS5 …
_LEAST_IDF = 1e-6  # … down to this weight, which is the least one in its source code
_OF_SYNONYM = 0.5  # the share of a synonym's score that counts
_LEAST_WORTH = 0.1  # the weight of a term that is in all documents
_ITSELF = "- aside :"  # searches all columns except the one with the neighbours' texts and the output of tools
_K1 = 1.2  # the parameter k1 of BM25, as in FTS5
# The BM25 score of a word in a neighbour, as a share of its score in a text of average length.
_BESIDE = WEIGHTS["aside"] * (_K1 + 1) / (WEIGHTS["aside"] + _K1)
_SCORE = f"bm25(words_{{n}}, {', '.join(str(WEIGHTS[name]) for name in COLUMNS)})"


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Hold the limits of a search; days are YYYY-MM-DD and inclusive, and None means no limit."""

    tier: str | None = None
    after: str | None = None
    before: str | None = None

    @property
    def is_narrow(self) -> bool:
        return self != SearchFilter()


class _All(NamedTuple):
    """Hold the number of an agent's documents, and their first and last id."""

    size: int
    first: int
    last: int

    def extrapolate(self, count: int, last: int) -> int:
        """Estimate how many documents match, from the `count` of matches up to the id `last`."""
        return min(self.size, count * (self.last - self.first + 1) // max(1, last - self.first + 1))


class _CountedTerm(NamedTuple):
    """Hold a term with the number of documents that contain it; a large number is an estimate."""

    term: Term
    holding: int

    def worth(self, documents: int) -> float:
        """Return the BM25 score of one occurrence in a document of average length, never below 0."""
        return math.log1p((max(0, documents - self.holding) + 0.5) / (self.holding + 0.5))

    def read_idf(self, documents: int) -> float:
        """Return the same score as FTS5 computes it: below 0 if more than half of the documents contain the term."""
        return math.log((max(0, documents - self.holding) + 0.5) / (self.holding + 0.5))


class Counts:
    """Remember counts of the most common terms, while the number of documents hardly changes."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[int, int]] = {}  # by (agent, term): count, number of all documents

    def get(self, number: int, match: str, size: int) -> int | None:
        """Return the remembered count of a term for an agent with `size` documents; None if it must be counted."""
        holding, before = self._known.get((number, match), (0, 0))
        return holding if abs(size - before) * _HARDLY <= before else None

    def put(self, number: int, match: str, size: int, holding: int) -> None:
        """Remember the count of a term for an agent with `size` documents."""
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[number, match] = (holding, size)


class Matches:
    """Find matches among the documents of one agent, in one transaction."""

    def __init__(self, rows: Callable[..., list[Any]], number: int, counts: Counts) -> None:
        """Use the tables with this number; `rows` runs a query and returns its rows."""
        self._rows = rows
        self._number = number
        self._counts = counts
        self._words = f"words_{number}"
        self._counted: dict[str, int] = {}  # by term in FTS5's form: the number of its documents
        self._few: set[str] = set()  # terms with few documents, in FTS5's form

    def is_small(self) -> bool:
        """Return True if the agent has few documents."""
        return self._all().size <= FEW

    def rank(self, query: Query, where: SearchFilter, limit: int) -> list[tuple[int, float]]:
        """Return (id, score) of the best matching documents, best first; a higher score is better.

        If all words are very common, only the newest documents, and files and facts, are ranked.
        """
        every = self._all()
        if every.size <= FEW:
            scores = dict(self._rank_few(query.terms, where, limit, every))
            for identity, score in self._rank_few(query.synonyms, where, limit, every):
                scores[identity] = scores.get(identity, 0.0) + _OF_SYNONYM * score
            return _list_best(scores, limit)
        budget = max(FILTERED_BUDGET if where.is_narrow else BUDGET, every.size // _SHARE)
        rare, common = self._split_terms(query.terms, budget, every)
        if not common:
            return self._rank_any(rare, where, limit) if rare else []
        # more documents than needed, because common words can raise a low one
        scores = dict(self._rank_any(rare, where, max(limit, _KEPT))) if rare else {}
        if not scores:  # there are no rare words, or no match passes the filter
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
        return _list_best(scores, limit)

    def _rank_few(
        self, terms: tuple[Term, ...], where: SearchFilter, limit: int, every: _All
    ) -> list[tuple[int, float]]:
        """Return the best of few documents, with a fair weight for a term that most of them contain.

        In one project, most documents contain its subject, and FTS5 would give that word no weight.
        """
        if not terms:
            return []
        counted = [self._count_term(term, BUDGET, every) for term in terms]
        common = [one for one in counted if one.holding > COMMON * every.size]
        scores = dict(self._rank_any(terms, where, FEW if common else limit))
        for one in common:
            lacking = one.worth(every.size) / max(_LEAST_IDF, one.read_idf(every.size)) - 1
            for identity, score in self._rank_any((one.term,), where, FEW):
                scores[identity] += score * lacking
        return _list_best(scores, limit)

    def _find_common(
        self,
        rare: tuple[Term, ...],
        common: Sequence[_CountedTerm],
        found: KeysView[int],
        where: SearchFilter,
        budget: int,
    ) -> dict[_CountedTerm, tuple[set[int], set[int]]]:
        """Return, for each common term, two sets of documents.

        The first set contains the term anywhere, the second in its own text. Only documents that the rare terms have
        found count, and documents with two common terms.
        """
        there = {one: (set[int](), set[int]()) for one in common}
        for one, other, ids in self._pairs(common, where, budget):
            own = self._ids(f"{_ITSELF} ({one.term.match} AND {other.term.match})", where)
            for term in (one, other):
                there[term][0].update(ids)
                there[term][1].update(own)
        if not rare:
            for ids in there[common[0]]:  # this term alone has already found and ranked them
                ids.difference_update(found)
            return there
        for one in common:
            also = f"{one.term.match} AND ({build_expression(rare)})"
            there[one][0].update(found & self._ids(also))
            there[one][1].update(found & self._ids(f"{_ITSELF} {also}"))
        return there

    def find_forms(self, terms: Sequence[Term]) -> Iterator[Term]:
        """Yield the terms; a word that no document contains is replaced by another form that one contains, if any.

        Parts of names and words with digits are not replaced. Only the first terms of a long query are, because each
        form costs as much time as a prefix.
        """
        every = self._all()
        names = " ".join(term.text for term in terms if term.kind is not TermKind.WORD)
        for at, term in enumerate(terms):
            forms = list_beginnings(term.text) if at < _FORMS and term.text.isalpha() and term.text not in names else ()
            yield next((one for one in (term, *forms) if self._count_term(one, BUDGET, every).holding), term)

    def weigh_terms(self, terms: Sequence[Term]) -> dict[str, float]:
        """Return the weight of each term by its text; rare terms weigh more, and no weight is 0."""
        every = self._all()
        counted = [self._count_term(term, BUDGET, every) for term in terms]
        return {one.term.text: one.worth(every.size) + _LEAST_WORTH for one in counted}

    def find_holding(self, terms: Sequence[Term], ids: Sequence[int]) -> set[int]:
        """Return those of these documents that contain all terms."""
        # Finding one document by id costs as much as skipping a thousand matches. A prefix always costs all matches.
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
        """Return the terms whose matches are all ranked, in the query's order, and the common terms, rarest first."""
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
        """Yield pairs of common terms with the documents that contain both, as long as these are not too many."""
        left = budget
        for one, other in combinations(_pick_pair(common), 2):
            ids = self._ids(f"{one.term.match} AND {other.term.match}", where, left + 1)
            if ids and len(ids) <= left:
                left -= len(ids)
                yield one, other, ids

    def _rank_newest(
        self, common: list[_CountedTerm], where: SearchFilter, limit: int, most: int
    ) -> tuple[list[_CountedTerm], dict[int, float]]:
        """Return the best of the newest documents with one common term, and the terms with this term first."""
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
        """Return the best documents that contain any of the terms; `written_down` selects files and facts only."""
        sql, values = self._build_filter(f"{_SCORE.format(n=self._number)} AS score", where)
        if written_down:
            # The + makes SQLite filter the matches. Finding each document by id would cost more.
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


def _list_best(scores: Mapping[int, float], limit: int) -> list[tuple[int, float]]:
    """Return the best documents with their scores, best first."""
    return sorted(scores.items(), key=lambda one: (-one[1], one[0]))[:limit]


def _pick_pair(common: Sequence[_CountedTerm]) -> list[_CountedTerm]:
    """Return the rarest of the common terms, without those that are too common."""
    return [one for one in common[:_PAIRED] if one.holding <= _REACH * BUDGET]
