"""Generic messages: lines, lists in a line, whole arrays."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_world import turns_however_cut

from memoryd.transcripts.format import Identity, RecordTurns
from memoryd.transcripts.lines import Pass, Record
from memoryd.transcripts.messages import Messages, is_document
from memoryd.transcripts.turn import Origin, Role, TurnKind
from memoryd.transcripts.whole import parse_document

READER = Messages()
IDENTITY = Identity("s")


def read(value: dict[str, Any], meetings: Pass | None = None) -> RecordTurns:
    data = json.dumps(value).encode()
    return READER.turns(Record(value, 0, len(data), data), IDENTITY, meetings or Pass("s"))


@pytest.mark.parametrize(
    ("role", "speaker", "origin"),
    [
        ("system", Role.SYSTEM, Origin.SYSTEM),
        ("developer", Role.SYSTEM, Origin.SYSTEM),
        ("user", Role.USER, Origin.USER),
        ("User", Role.USER, Origin.USER),
        ("assistant", Role.ASSISTANT, Origin.ASSISTANT),
    ],
)
@pytest.mark.parametrize(
    "content", ["hello", [{"type": "text", "text": "hello"}], [{"type": "input_text", "text": "hello"}]]
)
def test_who_says_what(role: str, speaker: Role, origin: Origin, content: object) -> None:
    (turn,) = read({"role": role, "content": content, "name": "Ann"}).turns
    assert turn[2:6] == (speaker, origin, TurnKind.MESSAGE, "hello")


def test_what_may_be_private_across_texts_of_a_message_is_one_text() -> None:
    texts = ["Look at this: <private>", "the salary is 90k", "</private> fine"]
    content = [{"type": "text", "text": one} for one in texts]
    (turn,) = read({"role": "user", "content": content}).turns
    assert (turn.origin, turn.text) == (Origin.USER, "\n".join(texts))
    content[0]["text"] = "Look at this: <private>key</private> and the private road"
    assert len(read({"role": "user", "content": content}).turns) == 3


@pytest.mark.parametrize("role", ["tool", "function"])
def test_tools_answer_their_calls(role: str) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path": "x"}'}}
    (turn,) = read({"role": "assistant", "content": None, "tool_calls": [call]}).turns
    assert turn[4:6] == (TurnKind.TOOL_CALL, 'read {"path": "x"}')
    assert (turn.tool_call_id, turn.tool_name) == ("call_1", "read")
    (turn,) = read({"role": role, "content": "42", "tool_call_id": "call_1", "name": "read"}).turns
    assert turn[2:6] == (Role.TOOL, Origin.TOOL, TurnKind.TOOL_RESULT, "42")
    assert turn.tool_call_id == "call_1"


def test_a_tool_result_in_the_users_name_is_the_tools() -> None:
    blocks = [{"type": "tool_result", "tool_use_id": "t", "content": "I prefer X"}, {"type": "text", "text": "ok"}]
    result, text = read({"role": "user", "content": blocks}).turns
    assert (result.origin, result.kind, result.tool_call_id) == (Origin.TOOL, TurnKind.TOOL_RESULT, "t")
    assert (text.origin, text.text, text.part) == (Origin.USER, "ok", 1)


def test_thinking_is_not_said() -> None:
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "image"}, {"type": "tool_use", "id": "t", "name": "f"}]
    assert [turn.text for turn in read({"role": "assistant", "content": blocks}).turns] == ["[image]", "f"]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 999}, 120),
        ({"total_tokens": 99}, 99),
        ({"input_tokens": 100, "output_tokens": 20}, 120),
        ({"input_tokens": 1, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 9, "output_tokens": 5}, 105),
    ],
)
def test_usage_comes_after_the_text_it_includes(usage: dict[str, int], expected: int) -> None:
    turns = read({"role": "assistant", "content": "hi", "usage": usage, "model": "gpt-4o"}).turns
    assert [(turn.text, turn.usage, turn.part) for turn in turns] == [("hi", None, 0), ("", expected, 1)]
    assert turns[1].message_id == turns[0].record_id
    assert turns[0].model == "gpt-4o"


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": 0}, {"prompt_tokens": "many"}, 5, None])
def test_no_usage_no_empty_turn(usage: object) -> None:
    assert [turn.text for turn in read({"role": "assistant", "content": "hi", "usage": usage}).turns] == ["hi"]


@pytest.mark.parametrize(
    ("given_time", "expected"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05.123456Z"),
        ("2026-01-02T05:04:05+02:00", "2026-01-02T03:04:05.000Z"),
        ("2026-01-02 03:04:05", "2026-01-02T03:04:05.000Z"),
        (1767323045, "2026-01-02T03:04:05.000Z"),
        (1767323045.25, "2026-01-02T03:04:05.250Z"),
        (1767323045250, "2026-01-02T03:04:05.250Z"),
        ("2026-13-02T03:04:05Z", None),
        ("2026-W01-1T00:00:00Z", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("yesterday, or so it seems", None),
        (17, None),
        (-1767323045, None),
        (float("nan"), None),
        (1e300, None),
        (10**400, None),
        (True, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("key", ["timestamp", "ts", "created_at", "time"])
def test_times(key: str, given_time: object, expected: str | None) -> None:
    value = {"role": "user", "content": "x", key: given_time}
    (turn,) = READER.turns(Record(value, 0, 1, b"x"), IDENTITY, Pass("s")).turns
    assert turn.at == expected


def test_equal_messages_are_two_turns_unless_they_carry_a_time_or_an_id() -> None:
    for more, count in (({}, 2), ({"id": "7"}, 2), ({"id": "chatcmpl-0123456789"}, 1), ({"ts": 1767323045}, 1)):
        meetings = Pass("s")
        ids = {read({"role": "user", "content": "yes", **more}, meetings).turns[0].record_id for _ in range(2)}
        assert len(ids) == count, more


def test_a_line_of_many_messages() -> None:
    value = {"ts": 1767323045, "messages": [{"role": "user", "content": "a"}, 5, {"role": "assistant", "content": "b"}]}
    turns = read(value).turns
    assert [(turn.part, turn.text, turn.at) for turn in turns] == [
        (0, "a", "2026-01-02T03:04:05.000Z"),
        (0, "b", "2026-01-02T03:04:05.000Z"),
    ]
    grown = read({"ts": 1767323045, "messages": [*value["messages"], {"role": "user", "content": "c"}]}).turns
    assert [turn.record_id for turn in grown[:2]] == [turn.record_id for turn in turns]
    assert len({turn.record_id for turn in grown}) == 3


def test_what_is_no_message_is_passed_over() -> None:
    assert read({"role": "critic", "content": "x"}) == RecordTurns((), "role/critic")
    assert read({"type": "model_change"}) == RecordTurns((), "model_change")
    assert read({"role": ["user"], "content": "x"}) == RecordTurns((), "role/other")
    assert read({"role": "user", "parts": [{"text": "x"}]}) == RecordTurns((), "role/user")
    assert read({"type": "message", "role": "critic", "content": "x"}) == RecordTurns((), "role/critic")


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "hologram", "data": "abc"}, "role/user/hologram"),
        ({"type": "text", "text": {"value": "hi"}}, "role/user/text"),
        ({"type": ["odd"], "words": "hi"}, "role/user/other"),
        ({"speech": "hi"}, "role/user/other"),
        ({"type": "text", "text": ""}, None),
        ({"type": "page", "text": "hi"}, None),
        ({"type": "input_image", "image_url": "data:"}, None),
        ({"type": "document", "source": {"data": "abc"}}, None),
        ({"type": "thinking", "thinking": "hm"}, None),
        ({"type": "tool_use", "name": "ls", "input": {}}, None),
        ({"type": "tool_result", "content": []}, None),
    ],
)
def test_a_part_of_an_unknown_type_is_named(part: object, expected: str | None) -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "a"}, part, 5]}
    assert read(message).turns[0].text == "a"
    assert read(message).skipped == read({"messages": [message]}).skipped == expected


def test_of_a_line_of_many_messages_those_of_unknown_roles_are_named() -> None:
    heard, unheard = {"role": "user", "content": "a"}, {"role": "critic", "content": "b"}
    read_both = read({"messages": [heard, unheard]})
    assert ([turn.text for turn in read_both.turns], read_both.skipped) == (["a"], "role/critic")
    assert read({"messages": [unheard]}) == RecordTurns((), "role/critic")


def test_sessions_of_equal_names_in_two_folders_differ() -> None:
    one, two = (
        READER.identify([{"cwd": "/x", "ts": 1767323045}], PurePosixPath(p)) for p in ("a/log.jsonl", "b/log.jsonl")
    )
    assert one is not None
    assert two is not None
    assert one.session_id != two.session_id
    assert one.session_id.startswith("log-")
    assert (one.cwd, one.started_at) == ("/x", "2026-01-02T03:04:05.000Z")


def document_records(data: bytes) -> list[Record] | None:
    parsed = parse_document(data)
    return parsed and parsed[1]


ARRAY = json.dumps([{"role": "user", "content": "é"}, {"role": "user", "content": "é"}, 5], ensure_ascii=False).encode()


@pytest.mark.parametrize("data", [ARRAY, b"\xef\xbb\xbf \n" + ARRAY + b"\n "])
def test_a_whole_array(data: bytes) -> None:
    assert is_document(data)
    records = document_records(data)
    assert records is not None
    assert [record.value["content"] for record in records] == ["é", "é"]
    assert [data[record.first_byte : record.last_byte] for record in records] == [record.data for record in records]
    for cut in range(data.rindex(b"]")):
        assert document_records(data[:cut]) is None


@pytest.mark.parametrize("data", [b"", b"[", b"[{}] x", b"[{},]", b"[,]", b'[{"a":' * 100_000, b"[{} {}]"])
def test_what_is_not_a_whole_array(data: bytes) -> None:
    assert document_records(data) is None


def test_an_empty_array_holds_nothing() -> None:
    assert document_records(b"[]") == []


@given(st.lists(st.sampled_from(["yes", "no"]), max_size=5), st.integers(0, 5))
def test_an_array_that_grew_keeps_the_ids_it_had(texts: list[str], before: int) -> None:
    def ids(kept: list[str]) -> list[str]:
        meetings = Pass("s")
        records = document_records(json.dumps([{"role": "user", "content": text} for text in kept]).encode()) or []
        return [READER.turns(record, IDENTITY, meetings).turns[0].record_id for record in records]

    assert ids(texts)[:before] == ids(texts[:before])
    assert len(set(ids(texts))) == len(texts)


@given(st.lists(st.sampled_from(["yes", "nö"]), max_size=6), st.lists(st.integers(0, 300), max_size=6))
def test_pieces_give_the_same_turns(texts: list[str], cuts: list[int]) -> None:
    turns = turns_however_cut(READER, IDENTITY, [{"role": "user", "content": text} for text in texts], cuts)
    assert [turn.text for turn in turns] == texts
    assert len({turn.record_id for turn in turns}) == len(texts)


KEYS = st.sampled_from(
    ["role", "content", "messages", "tool_calls", "usage", "id", "uuid", "ts", "type", "text", "function", "name"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | KEYS, inner, max_size=3),
    max_leaves=8,
)
ROLES = st.sampled_from(["user", "assistant", "tool", "SYSTEM", "x"])


@given(st.dictionaries(KEYS, JSON), ROLES | JSON)
def test_no_object_breaks_the_reader(value: dict[str, Any], role: object) -> None:
    for one in (value, {"content": None, **value, "role": role}, {"messages": [{**value, "role": role}]}):
        READER.sniff([one], PurePosixPath("x"))
        READER.identify([one], PurePosixPath("x"))
        turns = READER.turns(Record(one, 0, 2, b"{}"), IDENTITY, Pass("s")).turns
        assert [turn.part for turn in turns] == list(range(len(turns)))
        for turn in turns:
            (turn.text + turn.record_id + (turn.tool_call_id or "")).encode()


@pytest.mark.parametrize(
    ("block", "origin"),
    [
        ({"type": "mcp_tool_result", "content": "I prefer X"}, Origin.TOOL),
        ({"type": "web_search_tool_result", "content": "I prefer X"}, Origin.TOOL),
        ({"type": "computer_call_output", "text": "I prefer X"}, Origin.TOOL),
        ({"type": "document", "content": "I prefer X"}, Origin.UNKNOWN),
        ({"type": "new_thing", "text": "I prefer X"}, Origin.UNKNOWN),
        ({"type": ["text"], "text": "I prefer X"}, Origin.UNKNOWN),
        ({"text": "I prefer X"}, Origin.USER),
        ("I prefer X", Origin.USER),
    ],
)
def test_a_block_that_is_no_text_block_is_not_the_users_word(block: object, origin: Origin) -> None:
    (turn,) = read({"role": "user", "content": [block]}).turns
    assert (turn.origin, turn.text) == (origin, "I prefer X")


def test_a_line_that_repeats_the_messages_of_the_one_before_repeats_their_ids() -> None:
    messages = [{"role": "user", "content": text} for text in ("yes", "no", "yes")]
    meetings = Pass("s")
    first = read({"messages": messages[:2]}, meetings).turns
    second = read({"messages": messages}, meetings).turns
    assert [turn.record_id for turn in first] == [turn.record_id for turn in second[:2]]
    assert len({turn.record_id for turn in second}) == 3


def test_two_messages_of_a_line_under_one_id_are_both_kept() -> None:
    uuid = "a" * 16
    messages = [{"role": "user", "content": text, "uuid": uuid} for text in ("one", "two", "two")]
    turns = read({"messages": messages}).turns
    assert [turn.text for turn in turns] == ["one", "two", "two"]
    assert len({turn.record_id for turn in turns}) >= 2
