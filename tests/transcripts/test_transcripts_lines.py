"""Lines and records: torn, glued, broken and hostile bytes."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.transcripts import lines
from memoryd.transcripts.lines import (
    NOT_AN_OBJECT,
    NOT_JSON,
    NUL_BYTES,
    TOO_DEEP,
    FileCut,
    Pass,
    Record,
    clean,
    decode,
    derived_id,
    is_record,
    oversize_turn,
)
from memoryd.transcripts.turn import Origin, Role, TurnKind

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | FLOATS | st.text(max_size=8)
OBJECTS = st.dictionaries(
    st.text(max_size=6),
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner)),
    min_size=1,
    max_size=4,
)


def cut(data: bytes, base: int, *, last: bool) -> FileCut:
    """Cut the data and use up the records, so that the bad spans are complete."""
    records, bad, consumed = lines.cut(data, base, last=last)
    return FileCut(list(records), bad, consumed)


def values_of(data: bytes) -> list[dict[str, Any]]:
    return [record.value for record in decode(data, 0)[0]]


def reasons_of(data: bytes) -> list[str]:
    return [span.reason for span in decode(data, 0)[1]]


def assert_spans(data: bytes, first: int = 100) -> None:
    """Records and bad spans lie in order, apart, inside the line, hold the bytes they say, and leave out only space."""
    records, bad = decode(data, first)
    spans = [(record.first_byte, record.last_byte, record.sha256()) for record in records]
    spans += [(span.first_byte, span.last_byte, span.sha256) for span in bad]
    at = first
    for begin, end, digest in sorted(spans):
        assert at <= begin < end <= first + len(data)
        assert not data[at - first : begin - first].removeprefix(b"\xef\xbb\xbf").strip()
        assert sha256(data[begin - first : end - first]).hexdigest() == digest
        at = end
    assert not data[at - first :].removeprefix(b"\xef\xbb\xbf").strip()


def test_a_torn_last_line_waits() -> None:
    data = b'{"a":1}\n\n  \r\n{"b":2}\n{"c"'
    for last in (False, True):
        found = cut(data, 10, last=last)
        assert found.records == [Record({"a": 1}, 10, 17, b'{"a":1}'), Record({"b": 2}, 23, 30, b'{"b":2}')]
        assert not found.bad
        assert found.consumed == 21


@given(st.lists(st.binary(max_size=12)), st.integers(0, 1 << 40))
def test_lines_are_where_they_say(pieces: list[bytes], base: int) -> None:
    chunk = b"\n".join(pieces)
    records, bad, consumed = cut(chunk, base, last=False)
    assert consumed == chunk.rfind(b"\n") + 1
    at = base
    for line in chunk.split(b"\n")[:-1]:
        found, broken = decode(line, at) if line.strip() else ((), ())
        assert [one for one in records if at <= one.first_byte <= at + len(line)] == list(found)
        assert [one for one in bad if at <= one.first_byte <= at + len(line)] == list(broken)
        at += len(line) + 1


@pytest.mark.parametrize("separator", ["\u2028", "\u0085", "\x0b", "\x1c"])
def test_only_line_feeds_part_lines(separator: str) -> None:
    data = json.dumps({"text": f"a{separator}b"}, ensure_ascii=False).encode()
    found = cut(data + b"\n", 0, last=False)
    assert [record.value["text"] for record in found.records] == [f"a{separator}b"]


@given(OBJECTS)
def test_one_record_a_line(value: dict[str, Any]) -> None:
    data = json.dumps(value).encode()
    assert values_of(data) == [json.loads(data)]
    assert_spans(data)


@given(st.lists(OBJECTS, min_size=1, max_size=4), st.sampled_from(["", " ", "\r"]))
def test_glued_records_all_count(values: list[dict[str, Any]], glue: str) -> None:
    data = glue.join(map(json.dumps, values)).encode()
    assert values_of(data) == [json.loads(json.dumps(value)) for value in values]
    assert reasons_of(data) == []
    assert_spans(data)


def test_a_half_record_before_a_whole_one() -> None:
    data = b'{"u":1,"te{"u":2}'
    records, bad = decode(data, 50)
    assert [record.value for record in records] == [{"u": 2}]
    assert [(span.first_byte, span.last_byte, span.reason) for span in bad] == [(50, 60, NOT_JSON)]


@given(OBJECTS, OBJECTS, st.data())
def test_a_cut_record_never_hides_the_next(cut: dict[str, Any], whole: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps({"type": "x", "inner": cut}).encode()
    torn = text[: data.draw(st.integers(1, len(text) - 1))]
    line = torn + json.dumps({"type": "y", **whole}).encode()
    assert_spans(line)
    assert values_of(line)[-1] == json.loads(json.dumps({"type": "y", **whole}))


def test_an_object_inside_a_broken_record_is_not_a_record() -> None:
    data = b'{"message":{"role":"user","content":"x"},"broken":'
    assert values_of(data) == []
    assert reasons_of(data) == [NOT_JSON]


def test_a_nul_hole_is_skipped_and_said() -> None:
    data = b"\0" * 1000 + b'{"a":1}'
    assert values_of(data) == [{"a": 1}]
    assert reasons_of(data) == [NUL_BYTES]
    assert_spans(data)


@pytest.mark.parametrize("data", [b"1", b'"text"', b"null", b"[1, 2]", b"NaN", b'"\\ud800"'])
def test_what_is_no_object_is_no_record(data: bytes) -> None:
    assert values_of(data) == []
    assert reasons_of(data) == [NOT_AN_OBJECT]
    assert_spans(data)


def test_broken_utf8_and_a_byte_order_mark_do_not_lose_the_record() -> None:
    data = b'\xef\xbb\xbf{"text":"caf\xe9 \xff"} {"n":1}'
    first, second = values_of(data)
    assert clean(first["text"]) == "caf\ufffd \ufffd"
    assert second == {"n": 1}
    assert_spans(data)


def test_numbers_no_parser_likes() -> None:
    assert values_of(b'{"n":' + b"9" * 5000 + b"}") == [{"n": float("inf")}]
    assert values_of(b'{"n":1e999,"m":18446744073709551617}')[0]["m"] == 18446744073709551617
    assert values_of(b'{"n":NaN}')[0]["n"] != 0


def test_deep_nesting_is_quarantined() -> None:
    data = b'{"a":' * 200_000
    assert reasons_of(data) == [TOO_DEEP]
    assert_spans(data)


@pytest.mark.parametrize("piece", [b'{"a":[{"b":', b"{", b'{"a":{"b":1},', b'{"a":"'])
def test_search_behind_a_broken_record_is_bounded(piece: bytes) -> None:
    data = piece * 200_000 + b"{"
    assert values_of(data) == []
    assert_spans(data)


@given(st.binary(max_size=200) | st.text('{}[]",:0a\0 \\ué', max_size=60).map(str.encode))
def test_decoding_never_raises_and_accounts_for_every_byte(data: bytes) -> None:
    if data.strip():
        assert_spans(data.replace(b"\n", b" "))


@given(st.text(st.characters() | st.sampled_from("\0\ud800\udfff")))
def test_clean_text_is_storable_and_otherwise_untouched(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode()
    assert "\0" not in cleaned
    assert len(cleaned) == len(text)
    assert all(new in (old, "\ufffd") for new, old in zip(cleaned, text, strict=True))


def ids_of(data: bytes, meetings: Pass, *, stamped: bool = False) -> list[str]:
    return [derived_id(record, meetings, stamped=stamped) for record in cut(data, 0, last=False).records]


def test_equal_lines_without_a_stamp_are_two_turns_and_keep_their_ids() -> None:
    data = b'{"role":"user","content":"yes"}\n' * 2
    first = ids_of(data, Pass("s"))
    assert len(set(first)) == 2
    assert ids_of(data, Pass("s")) == first
    assert not set(ids_of(data, Pass("other"))) & set(first)
    meetings = Pass("s")
    stored = Pass("s", dict(meetings.seen))
    assert ids_of(data[:32], meetings) + ids_of(data[32:], meetings) == first
    assert ids_of(data[:32], stored) == first[:1]


def test_equal_lines_with_a_stamp_are_one_record_wherever_they_lie() -> None:
    data = b'{"ts":1767225600,"content":"yes"}\n' * 2
    meetings = Pass("s")
    assert set(ids_of(data, meetings, stamped=True)) == set(ids_of(data, Pass("copy"), stamped=True))
    assert len(set(ids_of(data, Pass("s"), stamped=True))) == 1
    assert meetings.seen == {}


def test_a_last_line_without_line_end_counts_once_it_is_whole() -> None:
    assert cut(b'{"a":1}', 7, last=True) == ([Record({"a": 1}, 7, 14, b'{"a":1}')], [], 7)
    assert cut(b'{"a":1}', 7, last=False) == ([], [], 0)
    for tail in (b'{"a":1', b"", b"1", b'{"a":1}{"b"'):
        assert not is_record(tail)
        assert cut(tail, 0, last=True) == ([], [], 0)


def test_an_oversize_line_is_an_excerpt() -> None:
    """Half a word at a cut may be half a secret, so it is left out."""
    turn = oversize_turn(b'{"text":"\0\xff ghp_1234', b'5678 end"}', 9_000_000, "ab" * 32)
    assert (turn.record_id, turn.role, turn.origin, turn.kind) == (
        "sha256:" + "ab" * 32,
        Role.SYSTEM,
        Origin.UNKNOWN,
        TurnKind.OVERSIZE,
    )
    assert turn.text == '{"text":"\ufffd\ufffd \n… [8,999,982 bytes left out] …\n end"}'


def test_a_record_knows_the_hash_of_its_own_bytes() -> None:
    (first, second), _ = decode(b'{"a":1}{"b":2}', 0)
    assert isinstance(first, Record)
    assert second.sha256() == sha256(b'{"b":2}').hexdigest()


def test_the_bad_places_of_one_line_are_few_however_they_are_scattered() -> None:
    _, holes = decode(b"\0 " * 2000, 0)
    assert len(holes) == 1
    mixed = b'\0{"a":1}' * 1000
    records, bad = decode(mixed, 7)
    assert len(records) == 1000
    assert len(bad) == 20
    assert bad[-1].last_byte == 7 + len(mixed) - 7
