"""What the tests of several transcript readers share: records, values of any shape, a file that grows."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from memoryd.transcripts.lines import Pass, Record, cut
from memoryd.transcripts.turn import Origin, Role, Turn, TurnKind

if TYPE_CHECKING:
    from memoryd.transcripts.format import Identity, LineFormat, RecordTurns

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def record(value: dict[str, Any]) -> Record:
    data = json.dumps(value).encode()
    return Record(value, 0, len(data), data)


def classes(turns: Any) -> list[tuple[Role, Origin, TurnKind, str]]:
    return [turn[2:6] for turn in turns]


def said(*entries: tuple[Role, Origin, str]) -> list[tuple[Role, Origin, TurnKind, str]]:
    return [(role, origin, TurnKind.MESSAGE, text) for role, origin, text in entries]


def mutate(draw: st.DrawFn, value: Any) -> Any:
    """The value with one node replaced by anything."""
    if isinstance(value, dict) and value and draw(st.integers(0, 3)):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: mutate(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 3)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], mutate(draw, value[at]), *value[at + 1 :]]
    return draw(JSON)


def turns_however_cut(
    reader: LineFormat, identity: Identity, values: list[dict[str, Any]], cuts: list[int]
) -> list[Turn]:
    """The turns of a file of these records, which are the same in whatever pieces it came."""
    data = b"".join(json.dumps(value).encode() + b"\n" for value in values)
    marks = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    turns = _turns_of(reader, identity, [data[begin:end] for begin, end in pairwise(marks)])
    assert turns == _turns_of(reader, identity, [data])
    return turns


def _turns_of(reader: LineFormat, identity: Identity, chunks: list[bytes]) -> list[Turn]:
    """Read a file that grows by these chunks, starting each time where the last complete line ended."""
    turns: list[Turn] = []
    meetings = Pass(identity.session_id)
    data, offset = b"", 0
    for chunk in chunks:
        data += chunk
        records, _, consumed = cut(data[offset:], offset, last=False)
        offset += consumed
        for one in records:
            turns += reader.turns(one, identity, meetings).turns
        meetings = Pass(identity.session_id, json.loads(json.dumps(meetings.seen)))
    return turns


def check_reading(reading: RecordTurns) -> None:
    """What holds of a reading of anything: turns in order that can be stored, and a name without content."""
    assert [turn.part for turn in reading.turns] == list(range(len(reading.turns)))
    for turn in reading.turns:
        assert turn.usage is None or turn.usage > 0
        for text in (turn.text, turn.record_id, turn.tool_call_id, turn.tool_name, turn.message_id, turn.model):
            (text or "").encode()
    for name in filter(None, [reading.skipped]):
        assert len(name) < 80
        assert " " not in name
