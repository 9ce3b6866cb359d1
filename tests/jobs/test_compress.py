"""Compression: the promises that hold for every strategy, and what tells the strategies apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.jobs.compress import STRATEGIES, compress, squeeze
from memoryd.transcripts.turn import Origin, Role, StoredTurn, TurnKind

if TYPE_CHECKING:
    from collections.abc import Sequence


def count(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def turn(
    seq: int,
    text: str,
    role: Role = Role.USER,
    kind: TurnKind = TurnKind.MESSAGE,
    call: str | None = None,
    *,
    sidechain: bool = False,
) -> StoredTurn:
    return StoredTurn(seq, f"r{seq}", 0, role, Origin(role.value), kind, text, None, 0, sidechain, call, None)


@st.composite
def sessions(draw: st.DrawFn) -> tuple[StoredTurn, ...]:
    turns = []
    for seq in range(1, draw(st.integers(0, 25)) + 1):
        text = " ".join(["word"] * draw(st.integers(0, 12)))
        shape = draw(
            st.sampled_from(["user", "assistant", "system", "call", "result", "summary", "compaction", "oversize"])
        )
        call = draw(st.sampled_from(["a", "b", "c"]))
        side = draw(st.sampled_from([False, False, False, True]))
        role, kind, call_id = {
            "user": (Role.USER, TurnKind.MESSAGE, None),
            "assistant": (Role.ASSISTANT, TurnKind.MESSAGE, None),
            "system": (Role.SYSTEM, TurnKind.MESSAGE, None),
            "summary": (Role.SYSTEM, TurnKind.SUMMARY, None),
            "compaction": (Role.SYSTEM, TurnKind.COMPACTION, None),
            "oversize": (Role.SYSTEM, TurnKind.OVERSIZE, None),
            "call": (Role.ASSISTANT, TurnKind.TOOL_CALL, call),
            "result": (Role.TOOL, TurnKind.TOOL_RESULT, call),
        }[shape]
        turns.append(turn(seq, text, role, kind, call_id, sidechain=side))
    return tuple(turns)


SUMMARIES = st.one_of(
    st.none(), st.lists(st.sampled_from(["- one two", "- three", "- a longer line of six words"])).map("\n".join)
)
KWARGS = {
    "turns": sessions(),
    "budget": st.integers(0, 120),
    "strategy": st.sampled_from(STRATEGIES),
    "keep": st.integers(0, 12),
    "summary": SUMMARIES,
}


def system_of(turns: Sequence[StoredTurn]) -> list[StoredTurn]:
    kinds = {TurnKind.MESSAGE, TurnKind.SUMMARY}
    return [one for one in turns if one.role is Role.SYSTEM and one.kind in kinds and one.text and not one.sidechain]


@given(**KWARGS)
def test_order_wholeness_and_budget(turns, budget, strategy, keep, summary):
    messages = compress(turns, budget, strategy, keep, summary, count)
    by_seq = {one.seq: one for one in turns}
    seqs = [message.seqs[0] for message in messages if message.seqs]
    assert seqs == sorted(set(seqs))
    for message in messages:
        assert message.tokens == count([message.text])[0]
        if message.seqs:
            assert message.text == by_seq[message.seqs[0]].text
    system = sum(count([one.text])[0] for one in system_of(turns))
    assert sum(message.tokens for message in messages) <= max(budget, system)
    assert max(0, sum(message.tokens for message in messages) - budget) == max(0, system - budget)


@given(**KWARGS)
def test_system_messages_are_never_dropped(turns, budget, strategy, keep, summary):
    kept = {seq for message in compress(turns, budget, strategy, keep, summary, count) for seq in message.seqs}
    assert {one.seq for one in system_of(turns)} <= kept


@given(**KWARGS)
def test_a_call_and_its_results_are_never_parted(turns, budget, strategy, keep, summary):
    kept = {seq for message in compress(turns, budget, strategy, keep, summary, count) for seq in message.seqs}
    for call in "abc":
        together = {one.seq for one in turns if one.tool_call_id == call and one.text and not one.sidechain}
        assert together <= kept or not together & kept


@given(**KWARGS)
def test_the_newest_stay_where_the_budget_allows(turns, budget, strategy, keep, summary):
    spoken = [
        one
        for one in turns
        if one.kind is TurnKind.MESSAGE and one.role is not Role.SYSTEM and one.text and not one.sidechain
    ]
    alone = tuple(one for one in turns if one in spoken or one in system_of(turns))
    newest = spoken[-keep:] if keep else []
    if sum(count([one.text])[0] for one in [*newest, *system_of(turns)]) <= budget:
        messages = compress(alone, budget, strategy, keep, None, count)
        assert {one.seq for one in newest} <= {seq for message in messages for seq in message.seqs}


@given(**KWARGS)
def test_the_summary_comes_first_and_is_text_of_its_own(turns, budget, strategy, keep, summary):
    messages = compress(turns, budget, strategy, keep, summary, count)
    assert all(message.seqs for message in messages[1:])
    if messages and not messages[0].seqs:
        assert set(messages[0].text.splitlines()) <= set((summary or "").splitlines())


@given(**KWARGS)
def test_the_same_inputs_give_the_same_messages(turns, budget, strategy, keep, summary):
    assert compress(turns, budget, strategy, keep, summary, count) == compress(
        turns, budget, strategy, keep, summary, count
    )


@given(st.lists(st.text("ab ", min_size=1)), st.integers(0, 40))
def test_squeezing_keeps_order_and_limit(lines, limit):
    kept = squeeze(lines, limit, count)
    assert sum(count(kept)) <= limit or kept == []
    remaining = iter(lines)
    assert all(line in remaining for line in kept)


def test_an_unknown_strategy_is_refused():
    with pytest.raises(ValueError, match="unknown strategy"):
        compress((), 10, "newest", 1, None, count)


TALK = tuple(
    turn(seq, f"word {seq} and some more words", Role.USER if seq % 2 else Role.ASSISTANT) for seq in range(1, 11)
)


def seqs(strategy: str, budget: int, keep: int = 2, turns: tuple[StoredTurn, ...] = TALK) -> list[int]:
    return [message.seqs[0] for message in compress(turns, budget, strategy, keep, None, count) if message.seqs]


def test_a_sliding_window_has_no_gaps():
    assert seqs("sliding-window", 31) == [6, 7, 8, 9, 10]


def test_a_progressive_summary_keeps_only_the_newest():
    assert seqs("progressive-summary", 60, keep=3) == [8, 9, 10]


def test_importance_looks_back_past_what_weighs_less():
    early = (turn(1, "never commit before the tests pass, remember 42"), *TALK[1:])
    assert 1 in seqs("importance-based", 26, turns=early)
    assert 1 not in seqs("sliding-window", 26, turns=early)


def test_hybrid_does_both():
    early = (turn(1, "never commit before the tests pass, remember 42"), *TALK[1:])
    kept = seqs("hybrid", 36, turns=early)
    assert 1 in kept
    assert {8, 9, 10} <= set(kept)


def test_the_summary_begins_the_list_where_there_is_one():
    messages = compress(TALK, 60, "hybrid", 2, "- asked for a parser\n- it works", count)
    assert messages[0].text == "- asked for a parser\n- it works"
    assert messages[0].seqs == ()
