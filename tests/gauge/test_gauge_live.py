"""The gauge: what counts, what does not, what voids it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.gauge.live import Gauge, Live, advance, estimate_live, tokens_per_byte
from memoryd.transcripts.turn import Origin, Role, Turn, TurnKind


def turn(text: str = "", usage: int | None = None, **more: Any) -> Turn:
    values: dict[str, Any] = {"record_id": "r", "kind": TurnKind.MESSAGE, "message_id": "m" if usage else None, **more}
    return Turn(part=0, role=Role.ASSISTANT, origin=Origin.ASSISTANT, text=text, usage=usage, **values)


def gauge_of(*turns: Turn) -> Gauge:
    gauge = Gauge()
    for seq, one in enumerate(turns, start=1):
        gauge = advance(gauge, one, seq)
    return gauge


def test_an_empty_session_holds_nothing() -> None:
    assert estimate_live(Gauge()) == Live(0, "estimated", None, "characters")


def test_usage_is_exact_and_says_which_record_set_it() -> None:
    gauge = gauge_of(turn("a" * 4000), turn(usage=5000, record_id="r2"))
    assert estimate_live(gauge) == Live(5000, "exact", "r2", "usage")
    assert estimate_live(gauge, counted=7) == estimate_live(gauge)


def test_what_came_after_is_estimated_and_begins_with_the_answer_itself() -> None:
    gauge = gauge_of(turn("b" * 400, usage=5000), turn("c" * 800))
    assert estimate_live(gauge) == Live(5300, "exact", "r", "usage")


def test_a_response_counts_once_however_many_lines_it_has() -> None:
    lines = [turn(usage=5000, message_id="m1"), turn("x" * 400, usage=5000, message_id="m1")]
    assert estimate_live(gauge_of(*lines)).tokens == 5100
    between = turn(usage=6000, message_id="m2")
    late = gauge_of(*lines, between, turn("y" * 40, usage=5000, message_id="m1"))
    assert estimate_live(late).record_id == "r"
    assert (late.context, late.usages, late.tail_chars) == (6000, 2, 40)


def test_usages_without_message_id_all_count() -> None:
    gauge = gauge_of(turn(usage=10, message_id=None), turn(usage=20, message_id=None))
    assert (gauge.context, gauge.usages) == (20, 2)


def test_side_chains_and_errors_do_not_count() -> None:
    gauge = gauge_of(turn(usage=5000))
    for other in (
        turn("x" * 99, usage=9000, message_id="m2", sidechain=True),
        turn("error", model="<synthetic>"),
        turn("x", kind=TurnKind.COMPACTION, sidechain=True),
    ):
        assert advance(gauge, other, 2) == gauge


def test_a_compaction_voids_the_number() -> None:
    before = gauge_of(turn("a" * 4000), turn(usage=11_000, message_id="m1"), turn(usage=150_000, message_id="m2"))
    gauge = advance(before, turn("cleared", kind=TurnKind.COMPACTION), 4)
    assert (gauge.compactions, gauge.since_seq, gauge.peak) == (1, 5, 150_000)
    assert estimate_live(gauge) == Live(10_000, "estimated", None, "characters")
    assert estimate_live(gauge, counted=500) == Live(10_500, "estimated", None, "tiktoken")
    gauge = advance(gauge, turn("s" * 4000, kind=TurnKind.SUMMARY), 5)
    assert estimate_live(gauge).tokens == 11_000
    gauge = advance(gauge, turn(usage=31_000, message_id="m3"), 6)
    assert estimate_live(gauge) == Live(31_000, "exact", "r", "usage")
    assert gauge.calibration_bytes == before.calibration_bytes


def test_a_compaction_that_says_what_it_left_is_believed() -> None:
    gauge = gauge_of(
        turn(usage=150_000), turn("cleared", 30_000, kind=TurnKind.COMPACTION, message_id=None, record_id="c")
    )
    assert estimate_live(gauge) == Live(30_000, "estimated", "c", "usage")
    gauge = advance(gauge, turn("s" * 4000, kind=TurnKind.SUMMARY), 3)
    assert estimate_live(gauge).tokens == 30_000
    gauge = advance(gauge, turn("u" * 400), 4)
    assert estimate_live(gauge).tokens == 30_100
    gauge = advance(gauge, turn(usage=30_200, message_id="m9"), 5)
    assert estimate_live(gauge) == Live(30_200, "exact", "r", "usage")
    assert gauge.calibration_tokens == 0


def test_a_session_without_usage_is_counted_or_guessed() -> None:
    gauge = gauge_of(turn("abcde"), turn("ü" * 4))
    assert estimate_live(gauge) == Live(3, "estimated", None, "characters")
    assert estimate_live(gauge, counted=0) == Live(0, "estimated", None, "tiktoken")


def test_the_session_calibrates_its_own_estimate() -> None:
    turns = [turn("d" * 10_000, usage=1000 + 5000 * step, message_id=f"m{step}") for step in range(20)]
    gauge = gauge_of(*turns)
    assert tokens_per_byte(gauge) == pytest.approx(0.5, abs=0.01)
    assert estimate_live(gauge).tokens == pytest.approx(gauge.context + 5000, rel=0.01)


@pytest.mark.parametrize(("step", "bound"), [(1, 0.125), (1_000_000, 0.75)])
def test_the_rate_stays_within_what_text_can_have(step: int, bound: float) -> None:
    turns = [turn("d" * 100_000, usage=1000 + step * number, message_id=f"m{number}") for number in range(1, 9)]
    assert tokens_per_byte(gauge_of(*turns)) == bound


def test_a_shrunken_context_does_not_calibrate() -> None:
    gauge = gauge_of(turn("x" * 400, usage=9000, message_id="a"), turn(usage=5000, message_id="b"))
    assert (gauge.context, gauge.peak, gauge.calibration_bytes) == (5000, 9000, 0)


def test_history_read_elsewhere_is_no_overhead() -> None:
    assert gauge_of(turn(usage=180_000)).overhead == 40_000


TURNS = st.builds(
    turn,
    st.text(max_size=9),
    st.none() | st.integers(1, 10**6),
    message_id=st.none() | st.sampled_from("abcdefghijklmn"),
    kind=st.sampled_from(TurnKind),
    sidechain=st.booleans(),
    model=st.sampled_from([None, "<synthetic>", "claude-x"]),
)


@given(st.lists(TURNS, max_size=12), st.integers(0, 12))
def test_a_gauge_is_stored_and_goes_on_where_it_was(turns: list[Turn], cut: int) -> None:
    gauge = gauge_of(*turns[:cut])
    gauge = Gauge(**json.loads(json.dumps(gauge._asdict())))
    for seq, one in enumerate(turns[cut:], start=len(turns[:cut]) + 1):
        gauge = advance(gauge, one, seq)
    assert gauge == gauge_of(*turns)
    now = estimate_live(gauge)
    assert now.tokens >= gauge.context
    assert (now.exactness == "exact") <= (now.how == "usage")
    last = [one.usage for one in turns if one.usage and not one.sidechain and one.model != "<synthetic>"]
    assert gauge.peak <= max(last, default=0)
