"""Erosion: what a text loses by its end, a merge or a rewording, to the token, and the days for which that counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_world import AGENT, core_memory

from memoryd.ledger import erosion as real
from memoryd.ledger.erosion import Drop
from memoryd.ledger.memory import Ending, MemoryKind
from memoryd.ledger.operation import Change, Delete, Merge, Update, apply

CARLA = "My sister Carla is allergic to peanuts"
BACKUPS = (
    "Backups of the shop go to the bucket of Frankfurt each night",
    "Each night the backups of the shop are copied to the bucket",
    "The shop's backup goes to the Frankfurt bucket nightly, each night",
)
LIST = "Never serve: milk, butter, bacon, shrimp, lobster, oysters, honey and beef"


def count_words(text):
    return len(text.split())


def gone(erosion, said, *successors, live=()):
    """Words that are lost of a text, where each counts one token."""
    return erosion.count_lost([erosion.Drop("", said, successors)], [*successors, *live], count_words)


LOST = (
    (CARLA, "Carla is allergic to peanuts, my sister is", 0),
    (CARLA, "Carla", 7),
    (CARLA, "My brother Carlo is allergic to peanuts", 7),
    # Names and numbers are all that tells many memories apart.
    (
        "Shelf number 7 of the store holds 49 boxes of screws",
        "Shelf number 6 of the store holds 42 boxes of screws",
        11,
    ),
    ("Anna lives in Bremen", "Anna lives in Oslo", 4),
    ("the user likes tea", "the user likes coffee", 4),
    # Other words count one by one, up to a quarter of the clause.
    ("old tall grey stone", "old tall grey", 1),
    ("old tall grey stone", "old tall", 4),
    (LIST, "Never serve: milk, butter, bacon, shrimp, lobster, oysters and honey", 2),
    (LIST, "Never serve: milk, butter", 7),
    ("the of it", "and so on", 3),
    ("the of it", "It: the sum of", 0),
    ("👍", "👍", 0),
    ("👍", "👎", 1),
    ("昨日は東京で寿司を食べた", "昨日は東京で寿司を食べた。", 0),
    ("昨日は東京で寿司を食べた", "東京", 1),
)


# Every function takes the module, so that mutants of it can be judged by the same.


def rewording(erosion):
    for said, successor, lost in LOST:
        assert gone(erosion, said, said) == 0
        assert gone(erosion, said) == len(said.split())
        assert gone(erosion, said, successor) == lost, (said, successor)


def condensing(erosion):
    law = BACKUPS[0]
    drops = [Drop("", said, (law,)) for said in BACKUPS]
    assert erosion.count_lost(drops, [law], count_words) <= 4


def elsewhere(erosion):
    more = "The shop runs on Postgres 16 in Frankfurt"
    said = "The shop runs on Postgres 16"
    assert gone(erosion, said, live=[more]) == 0
    assert gone(erosion, "tea", live=["tea"]) == 0
    assert gone(erosion, said, live=["The shop runs on Postgres 15 in Frankfurt"]) == 6
    assert (
        gone(erosion, "Anna, who is from Lisbon", live=["A garden in Lisbon"]) == 5
    )  # shares a word, and is about another
    assert gone(erosion, "Anna, who is from Lisbon", live=["Anna saw Lisbon"]) == 0
    assert erosion.count_lost([Drop("", said), Drop("", more)], [], count_words) == 8
    assert erosion.count_lost([Drop("", said), Drop("", said)], [], count_words) == 6
    assert (
        erosion.count_lost([Drop("", more), Drop("", said)], [], count_words) == 14
    )  # nobody said it when the second was let go


def superseding(erosion):
    said = "The store of Marvin has 7 old crates, and a lamp"
    for successor, lost in (
        ("The store of Trillian has 9 old crates, and a lamp", 0),
        ("The store of Trillian has 9 crates", 4),  # 11 words, 6 of them with content, of which 2 are gone
        ("Trillian has 9 crows", 8),
    ):
        assert (
            erosion.count_lost([erosion.Drop("", said, (successor,), is_superseded=True)], [successor], count_words)
            == lost
        )
    assert gone(erosion, said, "The store of Trillian has 9 old crates, and a lamp") > 4


def window(erosion):
    drops = [Drop("2026-01-01T00:00:00Z", "a"), Drop("2026-01-01T00:00:00.5Z", "b")]
    assert erosion.select_window(drops, "2026-01-31T00:00:00Z") == drops[1:]
    assert erosion.select_window(drops, "2026-01-30T23:59:59Z") == drops
    assert erosion.select_window(drops, "2026-02-01T00:00:00Z") == []


def no_loss(erosion):
    memory, other = core_memory(0, "tea"), core_memory(1, "coffee")
    over = replace(memory, deleted_at="then", ended_as=Ending.DELETED)
    assert erosion.find_drop("t", memory, over, []) == Drop("t", "tea")
    assert erosion.find_drop("t", memory, replace(over, ended_as=Ending.MERGED), [other]) == Drop(
        "t", "tea", ("coffee",)
    )
    for before, after, successors in (
        (memory, replace(memory, heading="H"), [memory]),
        (over, memory, [memory]),
        (over, replace(over, content="x", content_hash="x"), []),
        (replace(memory, kind=MemoryKind.JOURNAL), replace(over, kind=MemoryKind.JOURNAL), []),
        (memory, replace(over, ended_as=Ending.UNDONE), []),
        (memory, replace(over, ended_as=Ending.ERASED), []),
    ):
        assert erosion.find_drop("t", before, after, successors) is None
    superseded = replace(over, ended_as=Ending.SUPERSEDED)
    assert erosion.find_drop("t", memory, superseded, [other]) == Drop("t", "tea", ("coffee",), is_superseded=True)
    editor, news = replace(memory, content="My editor is vim"), replace(other, content="My editor is now helix")
    assert gone(erosion, "My editor is vim", "My editor is now helix") == 4
    drop = erosion.find_drop("t", editor, superseded, [news])
    assert erosion.count_lost([drop], [news.content], count_words) == 2
    assert erosion.find_drop("t", memory, replace(over, ended_as=Ending.SUPERSEDED), []) == Drop("t", "tea")


def successors(erosion):
    a, b, c, d = (core_memory(number, f"text {number}") for number in range(4))
    states = {one.id: one for one in (a, b, c, d)}
    assert erosion.list_successors(a.id, states.get) == [a]
    states[a.id] = replace(a, deleted_at="then", successors=(b.id, "core_unknown", d.id))
    states[b.id] = replace(b, deleted_at="then", successors=(a.id, c.id))
    assert erosion.list_successors(a.id, states.get) == [d, c]
    states[d.id] = replace(d, kind=MemoryKind.JOURNAL)
    assert erosion.list_successors(a.id, states.get) == [c]
    states[c.id] = replace(c, deleted_at="then")
    assert erosion.list_successors(a.id, states.get) == []


def lists(erosion):
    a, b, c = (core_memory(number, text) for number, text in enumerate(("tea", "coffee", "milk")))
    changes = [
        Change("update", a.id, a, replace(a, content="tea cup", content_hash="1")),
        Change("update", a.id, replace(a, content="tea cup", content_hash="1"), replace(a, content="x")),
        Change("delete", b.id, b, replace(b, deleted_at="t", ended_as=Ending.MERGED, successors=(a.id, c.id))),
        Change("update", a.id, replace(a, content="x"), replace(a, content="y", content_hash="2")),
        Change("add", c.id, None, c),
    ]
    after = {change.memory_id: change.after for change in changes}
    assert erosion.drops_of(changes, after, "t") == [
        (a.id, Drop("t", "tea", ("tea cup",))),
        (a.id, Drop("t", "tea cup", ("x",))),
        (b.id, Drop("t", "coffee", ("x", "milk"))),
        (a.id, Drop("t", "x", ("y",))),
    ]


def mending(erosion):
    memory = core_memory(0, "The nightly backup runs at 02:30")
    for text, lost in (
        ("The nightly backup runs at 03:30", 0),
        ("The nightly backup runs", 6),
        ("At 03:30", 4),
        ("The nightly backup runs in Oslo", 6),  # no time in the place of the time
    ):
        drop = erosion.find_drop("t", memory, replace(memory, content=text, content_hash="x"), [core_memory(1, text)])
        assert erosion.count_lost([drop], [text], count_words) == lost, text


def reading(erosion):
    """Where a second reader has said what is lost, that counts, as long as something stands for the memory."""
    memory, law = core_memory(0, "On 3 May Ben read the log"), core_memory(1, "Read the log")
    merged = replace(memory, deleted_at="then", ended_as=Ending.MERGED, lost=3)
    assert erosion.count_lost([erosion.find_drop("t", memory, merged, [law])], [law.content], count_words) == 3
    assert erosion.count_lost([erosion.find_drop("t", memory, merged, [])], [], count_words) == 7
    shorter = replace(memory, content="Ben read it", content_hash="x", lost=0)
    assert erosion.count_lost([erosion.find_drop("t", memory, shorter, [shorter])], ["Ben read it"], count_words) == 0
    measured = replace(shorter, lost=None)
    assert erosion.count_lost([erosion.find_drop("t", memory, measured, [measured])], ["Ben read it"], count_words) == 7
    assert erosion.find_drop("t", shorter, replace(shorter, heading="H"), [shorter]) is None


TABLE = (reading, mending, lists, rewording, superseding, condensing, elsewhere, window, no_loss, successors)


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.__name__)
def test_what_is_lost_is_counted_and_nothing_else(case):
    case(real)


WORDS = st.lists(
    st.sampled_from(["tea", "cup", "pot", "jug", "urn", "7", "Oslo", "and,", "the"]), min_size=1, max_size=8
)
SAID = WORDS.map(" ".join)


@given(st.lists(SAID, min_size=2, max_size=5), st.data())
def test_step_by_step_nothing_goes_unseen(texts, data):
    """However a core comes from one state to another: a word of the first that is nowhere in the last is counted."""
    memories = {one.id: one for one in (core_memory(number, text) for number, text in enumerate(texts))}
    drops = []
    for number in range(data.draw(st.integers(1, 5))):
        live = [one for one in memories.values() if one.is_live]
        if not live:
            break
        one = data.draw(st.sampled_from(live))
        choices = [Update(one.id, data.draw(SAID)), Delete(one.id), Delete(one.id, Ending.ARCHIVED)]
        choices += [Merge((live[0].id, live[-1].id), data.draw(SAID))] if len(live) > 1 else []
        operation = data.draw(st.sampled_from(choices))
        hexes = iter(range(100 * (number + 1), 1000))
        changes = apply(memories, [operation], agent_id=AGENT, now="t", new_hex=lambda i=hexes: f"{next(i):08x}")
        memories |= {change.memory_id: change.after for change in changes}
        drops += [drop for _, drop in real.drops_of(changes, memories, "t")]
    left = [one.content for one in memories.values() if one.is_live]
    lost = real.count_lost(drops, left, count_words)
    kept = {word for text in left for word in text.split()}
    away = {word for text in texts for word in text.split()} - kept - {"and,", "the"}
    assert lost >= bool(away)
    assert lost <= sum(len(drop.said.split()) for drop in drops)
    assert real.count_lost([], left, len) == 0


@given(st.lists(st.one_of(st.none(), st.integers(0, 60)), min_size=2, max_size=6), st.text("abc ", min_size=1))
def test_of_a_merge_that_a_reader_has_found_complete_what_it_names_counts_and_no_more(numbers, law):
    """Exactly its tokens, whatever the words say; of the others what is measured."""
    held = {one.id: one for one in (core_memory(at, f"hall {at} holds {at + 7} cranes") for at in range(len(numbers)))}
    lost = {one: number for one, number in zip(held, numbers, strict=True) if number is not None}
    changes = apply(
        held, [Merge(tuple(held), f"Law: {law}", lost=lost)], agent_id=AGENT, now="2026-02-01T00:00:00Z",
        new_hex=lambda: "ffffffff",
    )  # fmt: skip
    drops = [drop for _, drop in real.drops_of(changes, held | {one.memory_id: one.after for one in changes}, "")]
    assert [drop.counted for drop in drops] == numbers
    live = [changes[0].after.content]
    measured = [drop._replace(counted=None) for drop in drops]
    beside = [one for one, number in zip(measured, numbers, strict=True) if number is None]
    assert real.count_lost(drops, live, count_words) == sum(lost.values()) + real.count_lost(beside, live, count_words)


def test_fifty_episodes_become_a_law_and_the_limit_counts_what_the_reader_names():
    episodes = {
        one.id: one for one in (core_memory(at, f"On day {at} the crane of hall {at} stood") for at in range(50))
    }
    changes = apply(
        episodes, [Merge(tuple(episodes), "Cranes stand often.", lost=dict.fromkeys(episodes, 1))], agent_id=AGENT,
        now="2026-02-01T00:00:00Z", new_hex=lambda: "ffffffff",
    )  # fmt: skip
    drops = [drop for _, drop in real.drops_of(changes, episodes | {one.memory_id: one.after for one in changes}, "")]
    live = ["Cranes stand often."]
    assert real.count_lost(drops, live, count_words) == 50
    assert real.count_lost([drop._replace(counted=None) for drop in drops], live, count_words) > 300
