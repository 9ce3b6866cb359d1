"""Measure how full a session's context is, by folding over its turns in file order; one plain value per session.

An agent that records the size of its context with its answers gives the exact figure, as of its last response. A later
line of the same response repeats the figure and does not count again. Later text, beginning with the response's own, is
estimated from its length, at the rate that this session's own figures show. A compaction makes the figure invalid.
Until the next response, later text is estimated and added to the size of the session before its first word (system
prompt and tools), which its first figure showed.

The later text is measured in UTF-8 bytes: tokenizers work on bytes, and one rate then fits English, code and Chinese
alike.
"""

from math import ceil
from typing import Literal, NamedTuple

from memoryd.transcripts.turn import Turn, TurnKind

# The usual rule of thumb counts as much as so many bytes of the session's own evidence.
_TOKENS_PER_BYTE = 0.25
_PRIOR_BYTES = 2000
# Prose in one script is near 1/4, dense code and hex near 1/2; values outside are no text (images, shortened results).
_RATE_MIN = 0.125
_RATE_MAX = 0.75
# A larger first figure includes history from elsewhere: the session was resumed or forked.
_OVERHEAD_MAX = 40_000
_RECENT_MAX = 8
_SYNTHETIC = "<synthetic>"


class Gauge(NamedTuple):
    """Hold what is known of a session's context after a turn: numbers and strings, so that it can be stored as JSON."""

    context: int = 0  # tokens that the agent recorded since the last compaction; 0: none
    record_id: str = ""  # of the turn with this figure
    after_compaction: int = 0  # 1: the figure of a compaction, not a response's usage
    tail_chars: int = 0  # text of the main chain since then
    tail_bytes: int = 0
    responses: str = ""  # message ids counted recently, the newest first, one a line
    calibration_tokens: int = 0  # growth from one usage to the next
    calibration_bytes: int = 0  # text between the two
    overhead: int = 0  # tokens before the first word: system prompt and tools
    usages: int = 0  # number of responses that recorded their usage
    peak: int = 0  # largest usage ever
    model: str = ""  # of the last response
    compactions: int = 0
    since_seq: int = 1  # the first turn after the last compaction
    window: int = 0  # tokens of the context window, as the agent itself last recorded; 0: unknown


class Live(NamedTuple):
    """Hold the present size of the context."""

    tokens: int
    exactness: Literal["exact", "estimated"]  # exact: a response's usage, even with an estimated rest
    record_id: str | None  # the record that set the number
    how: Literal["usage", "tiktoken", "characters"]


def advance(gauge: Gauge, turn: Turn, seq: int) -> Gauge:
    """Return the gauge after one more turn, the next one in file order.

    Side chains, and the agent program's text in the model's name, do not count.
    """
    if turn.sidechain or turn.model == _SYNTHETIC:
        return gauge
    if turn.kind is TurnKind.COMPACTION:
        return _start_after_compaction(gauge, turn, seq)
    if turn.usage and (turn.message_id is None or turn.message_id not in gauge.responses.split("\n")):
        gauge = _add_usage(gauge, turn, turn.usage)
    return with_text(gauge, turn)


def with_text(gauge: Gauge, turn: Turn) -> Gauge:
    """Return the gauge with the text of a turn added after its figure."""
    if turn.sidechain or turn.model == _SYNTHETIC or (turn.kind is TurnKind.SUMMARY and gauge.after_compaction):
        return gauge  # the figure of the compaction includes its summary
    text = turn.text
    if not text:
        return gauge
    chars = len(text)
    size = chars if text.isascii() else len(text.encode("utf-8", "replace"))
    return gauge._replace(tail_chars=gauge.tail_chars + chars, tail_bytes=gauge.tail_bytes + size)


def estimate_live(gauge: Gauge, counted: int | None = None) -> Live:
    """Return the size of the context.

    `counted` is a tokenizer's count of all main-chain turns from `since_seq` on, if the agent recorded no usage.
    """
    if gauge.context:
        tokens = gauge.context + ceil(gauge.tail_bytes * tokens_per_byte(gauge))
        return Live(tokens, "estimated" if gauge.after_compaction else "exact", gauge.record_id, "usage")
    if counted is not None:
        return Live(gauge.overhead + counted, "estimated", None, "tiktoken")
    rough = gauge.tail_bytes * tokens_per_byte(gauge) if gauge.usages else gauge.tail_chars / 4
    return Live(gauge.overhead + ceil(rough), "estimated", None, "characters")


def tokens_per_byte(gauge: Gauge) -> float:
    """Return the rate of the session's own text, within possible values; 1/4 without evidence."""
    tokens = gauge.calibration_tokens + _TOKENS_PER_BYTE * _PRIOR_BYTES
    return min(max(tokens / (gauge.calibration_bytes + _PRIOR_BYTES), _RATE_MIN), _RATE_MAX)


def _remember(responses: str, message_id: str | None) -> str:
    recent = responses.split("\n")[: _RECENT_MAX - 1] if responses else []
    return "\n".join([message_id, *recent]) if message_id else responses


def _add_usage(gauge: Gauge, turn: Turn, usage: int) -> Gauge:
    """Return the gauge after a response that recorded its usage: the new figure, and the rate from its growth."""
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
        context=left,
        record_id=turn.record_id if left else "",
        after_compaction=1 if left else 0,
        tail_chars=0,
        tail_bytes=0,
        compactions=gauge.compactions + 1,
        since_seq=seq + 1,
    )
