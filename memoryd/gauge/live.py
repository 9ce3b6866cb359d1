"""Measure how full a session's context is; turns are processed in file order, and one plain value keeps the state.

If an agent records token usage with its responses, the last usage gives the exact size. Other lines of the same
response repeat the figure and are not counted again. Later text, beginning with the response itself, is estimated from
its length, at the rate that the session's own figures show.

A compaction makes the figure invalid. Until the next response, the size is estimated: the later text, plus the size of
the system prompt and the tools, which the session's first figure showed.

Text is measured in UTF-8 bytes. Tokenizers work on bytes, so one rate fits English, code and Chinese.
"""

from math import ceil
from typing import Literal, NamedTuple

from memoryd.transcripts.turn import Turn, TurnKind

# The default rate has the same weight as this many bytes of the session itself.
_TOKENS_PER_BYTE = 0.25
_PRIOR_BYTES = 2000
# Prose is near 1/4; dense code and hex are near 1/2. Other rates come from images or shortened results.
_RATE_MIN = 0.125
_RATE_MAX = 0.75
# A larger first figure includes earlier history, because the session was resumed or forked.
_OVERHEAD_MAX = 40_000
_RECENT_MAX = 8
_SYNTHETIC = "<synthetic>"


class Gauge(NamedTuple):
    """Hold the state of the measurement after a turn, as numbers and strings, so that it can be stored as JSON."""

    context: int = 0  # the last recorded usage in tokens since the last compaction; 0 if there is none
    record_id: str = ""  # the record of the turn with this usage
    after_compaction: int = 0  # 1 if the figure is from a compaction, and not from a response
    tail_chars: int = 0  # the characters of the main conversation since the figure
    tail_bytes: int = 0
    responses: str = ""  # the ids of the last counted messages, newest first, one a line
    calibration_tokens: int = 0  # the sum of the growth between usages, in tokens
    calibration_bytes: int = 0  # the bytes of text between those usages
    overhead: int = 0  # the tokens before the first word: system prompt and tools
    usages: int = 0  # the number of responses that recorded their usage
    peak: int = 0  # the largest usage so far, in tokens
    model: str = ""  # the model of the last response
    compactions: int = 0
    since_seq: int = 1  # the number of the first turn after the last compaction
    window: int = 0  # the context window in tokens, as the agent last recorded it; 0 if unknown


class Live(NamedTuple):
    """Hold the present size of the context."""

    tokens: int
    exactness: Literal["exact", "estimated"]  # exact: from a recorded usage, although later text is estimated
    record_id: str | None  # the record with the usage; None without one
    how: Literal["usage", "tiktoken", "characters"]


def advance(gauge: Gauge, turn: Turn, seq: int) -> Gauge:
    """Return the gauge after the next turn in file order.

    Turns of subagents do not count, and neither do messages that the agent program wrote in the model's name.
    """
    if turn.sidechain or turn.model == _SYNTHETIC:
        return gauge
    if turn.kind is TurnKind.COMPACTION:
        return _start_after_compaction(gauge, turn, seq)
    if turn.usage and (turn.message_id is None or turn.message_id not in gauge.responses.split("\n")):
        gauge = _add_usage(gauge, turn, turn.usage)
    return with_text(gauge, turn)


def with_text(gauge: Gauge, turn: Turn) -> Gauge:
    """Return the gauge with the text of a turn added to the text since the last figure."""
    if turn.sidechain or turn.model == _SYNTHETIC or (turn.kind is TurnKind.SUMMARY and gauge.after_compaction):
        return gauge  # the figure of a compaction includes its summary
    text = turn.text
    if not text:
        return gauge
    chars = len(text)
    size = chars if text.isascii() else len(text.encode("utf-8", "replace"))
    return gauge._replace(tail_chars=gauge.tail_chars + chars, tail_bytes=gauge.tail_bytes + size)


def estimate_live(gauge: Gauge, counted: int | None = None) -> Live:
    """Return the present size of the context.

    `counted` is a tokenizer's count of the main conversation since `since_seq`, if the agent records no usage.
    """
    if gauge.context:
        tokens = gauge.context + ceil(gauge.tail_bytes * tokens_per_byte(gauge))
        return Live(tokens, "estimated" if gauge.after_compaction else "exact", gauge.record_id, "usage")
    if counted is not None:
        return Live(gauge.overhead + counted, "estimated", None, "tiktoken")
    rough = gauge.tail_bytes * tokens_per_byte(gauge) if gauge.usages else gauge.tail_chars / 4
    return Live(gauge.overhead + ceil(rough), "estimated", None, "characters")


def tokens_per_byte(gauge: Gauge) -> float:
    """Return the session's own rate, within plausible limits; 1/4 if it has no figures."""
    tokens = gauge.calibration_tokens + _TOKENS_PER_BYTE * _PRIOR_BYTES
    return min(max(tokens / (gauge.calibration_bytes + _PRIOR_BYTES), _RATE_MIN), _RATE_MAX)


def _remember(responses: str, message_id: str | None) -> str:
    recent = responses.split("\n")[: _RECENT_MAX - 1] if responses else []
    return "\n".join([message_id, *recent]) if message_id else responses


def _add_usage(gauge: Gauge, turn: Turn, usage: int) -> Gauge:
    """Return the gauge after a response with a recorded usage: the new figure, and the rate that the growth shows."""
    growth = usage - gauge.context
    calibrates = gauge.context and not gauge.after_compaction and growth > 0 and gauge.tail_bytes > 0
    overhead = gauge.overhead
    if gauge.usages == 0 and gauge.compactions == 0:
        overhead = min(max(0, usage - ceil(gauge.tail_bytes * _TOKENS_PER_BYTE)), _OVERHEAD_MAX)
    return gauge._replace(
        context=usage,
        record_id=turn.record_id,
        after_compaction=0,
        tail_chars=0,
        tail_bytes=0,
        responses=_remember(gauge.responses, turn.message_id),
        calibration_tokens=gauge.calibration_tokens + (growth if calibrates else 0),
        calibration_bytes=gauge.calibration_bytes + (gauge.tail_bytes if calibrates else 0),
        overhead=overhead,
        usages=gauge.usages + 1,
        peak=max(gauge.peak, usage),
        model=turn.model or gauge.model,
        window=turn.window or gauge.window,
    )


def _start_after_compaction(gauge: Gauge, turn: Turn, seq: int) -> Gauge:
    left = turn.usage or 0
    return gauge._replace(
        context=left, record_id=turn.record_id if left else "", after_compaction=1 if left else 0,
        tail_chars=0, tail_bytes=0, compactions=gauge.compactions + 1, since_seq=seq + 1,
    )  # fmt: skip
