"""Answers put together from the wire: whole, byte by byte, and with what hostile or sloppy servers add."""

import json

import pytest
from chat_server import DONE, chunk, event, speak, usage
from hypothesis import given
from hypothesis import strategies as st

from memoryd.llm.stream import MOST_CHARACTERS, Assembly, BadReplyError, read_events, read_object

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


def told(*chunks: bytes) -> Assembly:
    into = Assembly()
    for _ in read_events(chunks, into):
        pass
    return into


@given(TEXTS, st.lists(st.integers(1, 60)), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_however_it_is_cut_the_text_is_the_same(text, cuts, ending):
    stream = speak(text).replace(b"\n", ending)
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(stream[at : at + cut])
        at += cut
    into = told(*pieces, stream[at:])
    assert ("".join(into.parts), into.finish_reason, into.tokens_in, into.tokens_out) == (text, "stop", 700, 60)


@given(TEXTS)
def test_byte_by_byte(text):
    into = told(*(bytes([byte]) for byte in speak(text).replace(b"\n", b"\r\n")))
    assert "".join(into.parts) == text


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_garbage_is_refused_or_left_out_and_never_raises_anything_else(chunks):
    for stream in (chunks, [b"data: " + one + b"\n\n" for one in chunks]):
        try:
            told(*stream)
        except BadReplyError:
            continue
        raise AssertionError("garbage does not end an answer")


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "choices",
                        "delta",
                        "message",
                        "content",
                        "index",
                        "finish_reason",
                        "usage",
                        "model",
                        "refusal",
                        "prompt_tokens",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=20,
    )
)
def test_any_json_is_an_answer_or_refused(value):
    data = json.dumps(value).encode()
    for read in (
        lambda: told(b"data: " + data + b"\n\n", chunk(None, "stop")),
        lambda: read_object([data], Assembly()),
    ):
        try:
            read()
        except BadReplyError:
            continue


@pytest.mark.parametrize(
    ("end", "meant"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "refusal"),
        ("tool_calls", "error"),
        ("function_call", "error"),
        ("eos", "stop"),
        ("", "error"),
        ("made up", "error"),
    ],
)
def test_ends(end, meant):
    assert told(chunk("x", end)).finish_reason == meant


def test_without_an_end_it_is_no_answer():
    for stream in (b"", DONE, chunk("x"), chunk("x") + DONE, usage() + DONE):
        with pytest.raises(BadReplyError):
            told(stream)


def test_nothing_after_done_is_read():
    assert "".join(told(chunk("a", "stop"), DONE, chunk("b")).parts) == "a"


def test_comments_fields_and_events_over_several_lines():
    said = b'[{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}'
    stream = b': hi\nid: 1\nevent: x\nretry: 5\ndata: {"choices":\ndata:' + said + b"\n\n"
    assert "".join(told(stream).parts) == "a"


def test_the_last_event_counts_without_its_blank_line():
    assert told(chunk("a", "stop").rstrip(b"\n")).finish_reason == "stop"


def test_only_the_first_choice_is_ours():
    other = event({"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]})
    into = told(other, chunk("yes", "stop"), other)
    assert ("".join(into.parts), into.finish_reason) == ("yes", "stop")


def test_a_reply_has_a_largest_size():
    piece = chunk("x" * 1000)
    with pytest.raises(BadReplyError, match="longer than any"):
        told(*[piece] * (MOST_CHARACTERS // 1000 + 1))


@pytest.mark.parametrize(
    "counts", [{}, {"prompt_tokens": -1}, {"prompt_tokens": True}, {"prompt_tokens": "9"}, {"prompt_tokens": 1.5}]
)
def test_counts_that_are_none_are_not_reported(counts):
    assert told(chunk("a", "stop"), event({"choices": [], "usage": counts})).tokens_in is None


def test_a_whole_object():
    into = Assembly()
    read_object([b'{"model": "m", "choices": [{"message": {"content": "a"}, ', b'"finish_reason": "stop"}]}'], into)
    assert ("".join(into.parts), into.model, into.finish_reason) == ("a", "m", "stop")


# --- calls of tools ---


def piece(**call):
    return event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})


def ended(reason="tool_calls"):
    return event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}) + usage() + DONE


ARGUMENTS = ('{"a": 1}', '{"b": 2}')
# However servers number and name the pieces of two calls, in one chunk or in many.
SHAPES = {
    "as the reference says": [
        *(piece(index=n, id=f"c{n}", function={"name": f"f{n}", "arguments": ""}) for n in (0, 1)),
        *(piece(index=n, function={"arguments": one}) for n in (0, 1) for one in ARGUMENTS[n]),
    ],
    "without numbers": [piece(id=f"c{n}", function={"name": f"f{n}", "arguments": ARGUMENTS[n]}) for n in (0, 1)],
    "all numbered 0": [
        piece(index=0, id=f"c{n}", function={"name": f"f{n}", "arguments": ARGUMENTS[n]}) for n in (0, 1)
    ],
    "without numbers, in pieces": [
        one
        for n in (0, 1)
        for one in (
            piece(id=f"c{n}", function={"name": f"f{n}", "arguments": ARGUMENTS[n][:3]}),
            piece(function={"arguments": ARGUMENTS[n][3:]}),
        )
    ],
    "the id in every piece": [
        piece(index=n, id=f"c{n}", function={"name": f"f{n}" if at == 0 else None, "arguments": part})
        for n in (0, 1)
        for at, part in enumerate((ARGUMENTS[n][:3], ARGUMENTS[n][3:]))
    ],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_calls_come_in_pieces_however_a_server_numbers_them(shape):
    into = told(*SHAPES[shape], ended())
    assert [(call.id, call.name, call.arguments) for call in into.calls] == [
        (f"c{n}", f"f{n}", ARGUMENTS[n]) for n in (0, 1)
    ]
    assert into.finish_reason == "stop"


def test_calls_of_one_object_and_arguments_that_are_no_text():
    calls = [
        {"function": {"name": "f", "arguments": {"a": [1]}}},
        {"id": "x", "function": {"name": "f", "arguments": "{"}},
    ]
    message = {"content": None, "tool_calls": calls}
    into = Assembly()
    read_object([json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode()], into)
    assert [(call.id, call.name, call.arguments) for call in into.calls] == [
        ("call_0", "f", '{"a": [1]}'),
        ("x", "f", "{"),
    ]
    assert into.finish_reason == "stop"


@pytest.mark.parametrize(
    "calls", [7, ["f"], [{"function": "f"}], [{"function": {"name": 1}}], [{"id": 7, "function": {}}]]
)
def test_what_is_no_call_is_refused(calls):
    with pytest.raises(BadReplyError):
        told(event({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}), ended())


def test_a_call_that_is_cut_off_or_endless_is_none():
    with pytest.raises(BadReplyError, match="before it was finished"):
        told(piece(index=0, id="c", function={"name": "f", "arguments": "{"}))
    with pytest.raises(BadReplyError, match="longer than any"):
        told(piece(index=0, id="c", function={"name": "f", "arguments": "x" * (MOST_CHARACTERS + 1)}), ended())
    with pytest.raises(BadReplyError, match="more calls"):
        told(*(piece(index=n, id=f"c{n}", function={"name": "f"}) for n in range(2_001)), ended())
    assert told(speak("", end="tool_calls")).finish_reason == "error"
