"""What holds of every reader of lines, whatever the file holds."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_world import JSON

from memoryd.transcripts.format import Identity
from memoryd.transcripts.lines import Pass
from memoryd.transcripts.registry import FORMATS

PATH = PurePosixPath("/home/ann/sessions/019e44d4-6ecf-7c1d-96ab-582effc13411.jsonl")
KEYS = st.sampled_from([
    "type", "id", "parentId", "message", "role", "content", "payload", "sessionId", "timestamp", "usage", "$set",
    "$rewindTo", "messages", "toolCalls", "tokens", "text", "kind",
])  # fmt: skip
WORDS = st.sampled_from([
    "message", "user", "assistant", "gemini", "response_item", "event_msg", "compaction", "text",
    "2026-01-02T03:04:05Z",
])  # fmt: skip
VALUES = st.recursive(
    JSON | WORDS,
    lambda inner: st.dictionaries(KEYS, inner, max_size=5) | st.lists(inner, max_size=3),
    max_leaves=12,
)
PIECES = st.binary(max_size=20) | st.dictionaries(KEYS, VALUES, max_size=6).map(lambda one: json.dumps(one).encode())


USUAL = settings().max_examples
MANY = settings(max_examples=10_000 if USUAL >= 1_000 else USUAL)  # a soak reads 10,000 for each format


@pytest.mark.parametrize("name", FORMATS)
@MANY
@given(pieces=st.lists(PIECES, max_size=5), ends=st.integers(0, 1))
def test_any_bytes_are_read_to_their_end_without_an_error(name: str, pieces: list[bytes], ends: int) -> None:
    reader, data = FORMATS[name], b"\n".join(pieces) + b"\n" * ends
    cut = reader.cut(data, 100, last=True)
    assert data.rfind(b"\n") + 1 <= cut.consumed <= len(data)
    records = list(cut.records)
    for one in records:
        assert data[one.first_byte - 100 : one.last_byte - 100] == one.data
    values = [one.value for one in records]
    reader.sniff(values, PATH)
    identity = reader.identify(values, PATH) or Identity("s")
    meetings = Pass(identity.session_id)
    for one in records:
        found = reader.turns(one, identity, meetings)
        for turn in found.turns:
            assert turn.usage is None or turn.usage > 0
            for text in (turn.text, turn.record_id, turn.tool_call_id, turn.tool_name, turn.message_id, turn.model):
                (text or "").encode()
        assert " " not in (found.skipped or "")
        assert len(found.skipped or "") < 80
