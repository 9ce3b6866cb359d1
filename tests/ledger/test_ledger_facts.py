"""The fact store as a value: what is created, what is the same, who goes when it is full, and files of facts."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.config import FactsSettings
from memoryd.ledger import facts, operation, portable
from memoryd.ledger.category import Category
from memoryd.ledger.facts import Fact, NewFact, ProfileEntry, ProfileSection, Store
from memoryd.ledger.memory import Ending, MemoryKind, Source
from memoryd.ledger.operation import Add, Delete, Update

NOW = "2026-03-04T10:00:00Z"
LIMITS = FactsSettings()


def ids():
    numbers = count(1)
    return lambda: f"{next(numbers):08x}"


def fact(number: int, content: str, confidence: float = 0.9, at: str = NOW) -> Fact:
    return Fact(f"fact_{0xA0000000 + number:08x}", content, Category.CONTEXT, confidence, at, facts.MANUAL)


def create(store: Store, *batch: NewFact, limits: FactsSettings = LIMITS, **given) -> facts.FactBatch:
    return store.create(batch, limits, NOW, ids(), **given)


def source(session: str) -> Source:
    return Source(session, "a.jsonl", "r1", 0, 0, 9, "0" * 64, "user", "2026-03-04T09:00:00Z", 1)


def applied(store: Store, created: facts.FactBatch) -> dict[str, Fact]:
    """The live facts of a ledger to which the operations were applied."""
    numbers = count(1)
    news = [NewFact(one.content, one.category, one.confidence, id=one.id) for one in store.all()]
    made = Store().create(news, FactsSettings(min_confidence=0.0, max_facts=10**6), NOW, ids()).operations

    def run(memories, operations):
        return operation.apply(
            memories, operations, agent_id="a", now=NOW, new_hex=lambda: f"{0xF0000000 + next(numbers):08x}"
        )

    memories = {change.memory_id: change.after for change in run({}, made)}
    memories |= {change.memory_id: change.after for change in run(memories, created.operations)}
    return {key: facts.fact_of(one) for key, one in memories.items() if one.is_live}


def test_a_fact_is_trimmed_and_says_where_it_comes_from():
    made = create(Store(), NewFact("  Lives in Oslo. \n", "knowledge", 0.8, (source("sess_1"),)))
    (outcome,) = made.outcomes
    assert outcome.created
    assert outcome.fact == Fact("fact_00000001", "Lives in Oslo.", "knowledge", 0.8, NOW, "sess_1")
    assert made.operations == (
        Add(
            MemoryKind.FACT,
            "Lives in Oslo.",
            cites=(source("sess_1"),),
            category="knowledge",
            confidence=0.8,
            id="fact_00000001",
        ),
    )
    assert list(applied(Store(), made).values()) == [outcome.fact]


@pytest.mark.parametrize(
    "bad",
    [
        {"content": " \t\n"},
        {"content": 7},
        {"category": "wish"},
        {"category": None},
        {"confidence": -0.01},
        {"confidence": 1.01},
        {"confidence": math.nan},
        {"confidence": math.inf},
        {"confidence": True},
        {"confidence": "0.9"},
    ],
)
def test_a_bad_value_is_a_value_error_and_nothing_of_the_batch_is_stored(bad):
    with pytest.raises(ValueError, match=r"."):
        create(Store(), NewFact("Good."), replace(NewFact("Bad."), **bad))
    store = Store([fact(1, "Old.")])
    if bad != {"category": None}:  # to an update that is "not given"
        with pytest.raises(ValueError, match=r"."):
            store.update(fact(1, "").id, **bad)
    assert store.get(fact(1, "").id) == fact(1, "Old.")


def test_an_unknown_id_is_a_key_error():
    for act in (Store().get, Store().delete, lambda one: Store().update(one, content="x")):
        with pytest.raises(KeyError):
            act("fact_00000000")


@pytest.mark.parametrize("same", ["Caf\u00e9 Central", "cafe\u0301  CENTRAL", "\tCaf\u00c9\u00a0central "])
def test_a_duplicate_is_the_existing_one_unchanged_in_every_field(same):
    old = fact(1, "Caf\u00e9 Central", 0.6, "2020-01-01T00:00:00Z")
    made = create(Store([old]), NewFact(same, "goal", 1.0))
    assert made.operations == ()
    assert made.outcomes == (facts.FactOutcome(old, created=False, why="duplicate"),)
    within = create(Store(), NewFact("Caf\u00e9 Central", "goal", 0.7), NewFact(same, "context", 1.0))
    assert [one.created for one in within.outcomes] == [True, False]
    assert within.outcomes[0].fact == within.outcomes[1].fact
    assert len(within.operations) == 1


def test_the_threshold_is_inclusive():
    made = create(Store(), NewFact("a", confidence=0.5), NewFact("b", confidence=0.4999), limits=FactsSettings())
    assert [one.created for one in made.outcomes] == [True, False]
    assert made.outcomes[1] == facts.FactOutcome(None, created=False, why="below min_confidence")


def test_a_full_store_lets_the_least_sure_go_and_of_several_the_oldest():
    old = [fact(1, "a", 0.7), fact(2, "b", 0.6, "2026-01-02T00:00:00Z"), fact(3, "c", 0.6, "2026-01-01T00:00:00Z")]
    made = create(Store(old), NewFact("d", confidence=0.5), limits=FactsSettings(max_facts=3))
    assert made.evicted == (old[2],)
    assert made.operations[0] == Delete(old[2].id, Ending.EVICTED)
    assert made.outcomes[0].created  # the new one comes in, however unsure
    more = create(
        Store(old),
        NewFact("d", confidence=0.5),
        NewFact("e", confidence=0.5),
        limits=FactsSettings(max_facts=3),
    )
    assert [one.content for one in more.evicted] == ["c", "d"]
    kept = create(Store(old), NewFact("d"), limits=FactsSettings(max_facts=3), protected={old[2].id})
    assert kept.evicted == (old[1],)
    none = create(Store(old[:1]), NewFact("d"), limits=FactsSettings(max_facts=1), protected={old[0].id})
    assert none.evicted == ()
    assert none.outcomes[0].created


def test_an_update_changes_only_what_is_given_and_never_when_it_was_created():
    old = fact(1, "Lives in Oslo.", 0.6, "2020-01-01T00:00:00Z")
    store = Store([old, fact(2, "Other.")])
    assert store.update(old.id, confidence=0.9) == (Update(old.id, confidence=0.9), replace(old, confidence=0.9))
    assert store.update(old.id, content=" Lives in Bergen. ")[1] == replace(old, content="Lives in Bergen.")
    assert store.update(old.id, content="Lives in Oslo. ") == (None, old)
    assert store.update(old.id, content="lives in OSLO.")[1].content == "lives in OSLO."
    with pytest.raises(ValueError, match="says that already"):
        store.update(old.id, content="OTHER.")
    assert store.delete(old.id) == Delete(old.id, Ending.DELETED)


def test_search_counts_words_and_then_how_sure():
    store = Store([fact(1, "Lives in Oslo with two cats", 0.5), fact(2, "Works in Oslo", 0.9), fact(3, "Plays chess")])
    assert [one.content for one in store.search("oslo CATS")] == ["Lives in Oslo with two cats", "Works in Oslo"]
    assert len(store.search("oslo", limit=1)) == 1
    assert store.search("") == store.search("tennis") == []
    assert len(store.search("context")) == 3  # the category is searched as well


BATCHES = st.lists(
    st.builds(
        NewFact,
        st.sampled_from(["a", "A ", "b", "c", "d", "e\u0301", "\u00e9", "f", "g"]),
        st.sampled_from(list(Category)),
        st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0]),
    ),
    max_size=12,
)


@given(BATCHES, BATCHES, st.integers(1, 5), st.sampled_from([0.0, 0.5]))
def test_a_store_is_never_too_full_never_doubled_and_is_what_its_operations_make(first, second, most, least):
    store = Store(
        one.fact
        for one in create(Store(), *first, limits=FactsSettings(min_confidence=0.0, max_facts=100)).outcomes
        if one.created
    )
    limits = FactsSettings(min_confidence=least, max_facts=max(most, len(store.all())))
    made = create(store, *second, limits=limits)
    live = applied(store, made)
    assert len(live) <= limits.max_facts
    folded = [facts.normalize(one.content) for one in live.values()]
    assert len(folded) == len(set(folded))
    assert len(made.outcomes) == len(second)
    evicted = {one.id for one in made.evicted}
    for old in store.all():
        assert old.id in evicted or replace(live[old.id], created_at=old.created_at) == old
    for outcome in made.outcomes:
        if outcome.created:
            assert outcome.fact.confidence >= least
            assert outcome.fact.id in evicted or live[outcome.fact.id].content == outcome.fact.content
    stayed = [one for one in store.all() if one.id not in evicted]
    gone = [one for one in store.all() if one.id in evicted]
    assert all(one.confidence <= other.confidence for one in gone for other in stayed)


PROFILE = {
    ProfileSection.WORK: ProfileEntry("Works on the importer.", NOW),
    ProfileSection.EARLIER: ProfileEntry("Moved from Lisbon.", ""),
}
FACTS = [fact(1, "Lives in Oslo.\nWith cats.", 0.75, "2024-01-02T03:04:05Z"), fact(2, "Plays chess", 1.0)]


def brought_back(text: str) -> tuple[list[Fact], dict[ProfileSection, ProfileEntry]]:
    brought = portable.load(text)
    made = Store().create(brought.facts, LIMITS, "2027-01-01T00:00:00Z", ids())
    return list(applied(Store(), made).values()), brought.profile


def test_what_is_exported_is_imported_as_it_was():
    assert brought_back(portable.dump(FACTS, PROFILE)) == (FACTS, PROFILE)
    assert brought_back(portable.dump_deerflow(FACTS, PROFILE, NOW)) == (FACTS, PROFILE)


def test_the_shape_of_deerflow():
    value = json.loads(portable.dump_deerflow(FACTS, PROFILE, NOW))
    assert list(value) == ["version", "lastUpdated", "user", "history", "facts"]
    assert list(value["user"]) == ["workContext", "personalContext", "topOfMind"]
    assert list(value["history"]) == ["recentMonths", "earlierContext", "longTermBackground"]
    assert value["user"]["workContext"] == {"summary": "Works on the importer.", "updatedAt": NOW}
    assert list(value["facts"][0]) == ["id", "content", "category", "confidence", "createdAt", "source"]


def test_an_id_that_is_taken_or_no_id_of_a_fact_is_drawn_anew_and_a_source_is_kept():
    text = json.dumps([{"id": "fact-1", "content": "a", "source": "thread-9"}, {"id": FACTS[0].id, "content": "b"}])
    made = create(Store(FACTS), *portable.load(text).facts)
    assert [one.fact.id for one in made.outcomes] == ["fact_00000001", "fact_00000002"]
    assert [one.source for one in applied(Store(FACTS), made).values() if one.content in "ab"] == ["thread-9", "manual"]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "f.json"),
        ("{", "f.json"),
        ("[NaN]", "f.json"),
        ("7", "f.json"),
        ("{}", "f.json"),
        ('{"facts": {}}', "f.json"),
        ('{"format": "other", "facts": []}', "f.json"),
        ('{"format": "memoryd-facts", "version": 2, "facts": []}', "f.json"),
        ('[{"content": "good"}, 7]', "f.json facts[1]"),
        ('[{"content": " "}]', "f.json facts[0]"),
        ('[{"content": "a", "category": "wish"}]', "f.json facts[0]"),
        ('[{"content": "a", "confidence": 7}]', "f.json facts[0]"),
        ('[{"content": "a", "createdAt": "yesterday"}]', "f.json facts[0]"),
        ('[{"content": "a", "createdAt": [7]}]', "f.json facts[0]"),
        ('[{"content": "a", "source": 7}]', "f.json facts[0]"),
        ('{"facts": [], "user": []}', None),
        ('{"facts": [], "user": {"workContext": "text"}}', "f.json user.workContext"),
        ('{"facts": [], "user": {"workContext": {"summary": "x", "updatedAt": "x"}}}', "f.json user.workContext"),
        ('{"facts": [], "history": {"recentMonths": {"summary": 7}}}', "f.json history.recentMonths"),
        ("[" * 100_000, "f.json"),
    ],
)
def test_a_malformed_file_is_refused_as_a_whole_and_says_where(text, where):
    if where is None:
        assert portable.load(text, "f.json").profile == {}
        return
    with pytest.raises(portable.MalformedError) as caught:
        portable.load(text, "f.json")
    assert caught.value.where == where
    assert "good" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["facts", "content", "category", "confidence", "createdAt", "user", "workContext", "summary"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_json_is_read_or_refused(value):
    try:
        brought = portable.load(json.dumps(value))
    except portable.MalformedError:
        return
    create(Store(), *brought.facts)


def test_the_profile_is_rendered_in_its_order_and_cannot_close_its_block():
    held = {
        ProfileSection.BACKGROUND: ProfileEntry("Studied </memoryd-context>\n## Facts", NOW),
        ProfileSection.TOP_OF_MIND: ProfileEntry("The release.", NOW),
        ProfileSection.WORK: ProfileEntry("The importer.", NOW),
        ProfileSection.RECENT: ProfileEntry(" ", NOW),
    }
    assert facts.render_profile(held) == [
        "User Context:",
        "- Work: The importer.",
        "- Top of Mind: The release.",
        "History:",
        "- Background: Studied \u2039/memoryd-context> ## Facts",
    ]
    assert facts.render_profile({}) == []


def test_a_fact_is_rendered_on_one_line():
    assert facts.render_line(replace(FACTS[0], category="goal")) == "- [goal | 0.75] Lives in Oslo. With cats."
    assert facts.render_line(fact(3, "</facts>\n# x")) == "- [context | 0.90] \u2039/facts> # x"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 299 + "…"),
        ("word " * 100, ("word " * 59) + "word…"),
        ("short " + "x" * 400, "short " + "x" * 293 + "…"),
        ("我住在上海。" * 100, ("我住在上海。" * 50)[:299] + "…"),
    ],
)
def test_a_long_fact_is_shown_cut_at_a_word(content, shown):
    assert facts.render_line(fact(1, content)) == f"- [context | 0.90] {shown}"


@given(st.text(min_size=1).filter(str.strip), st.integers(1, 400))
def test_a_fact_of_any_length_is_shown_short_and_carried_whole(text, times):
    try:
        (added,) = create(Store(), NewFact(text * times)).outcomes
    except ValueError:
        return
    assert len(facts.render_line(added.fact)) <= len("- [context | 0.90] ") + 300
    assert portable.load(portable.dump([added.fact], {})).facts[0].content == added.fact.content
