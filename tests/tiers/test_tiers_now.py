"""NOW files: any bytes survive, and whatever is said is read back as it was said, by whom it was said."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from memoryd.tiers.now import (
    KEYS,
    NowHeader,
    clear,
    close,
    is_cleared,
    is_fresh,
    parse,
    render,
    render_entry,
    render_header,
    seam,
    set_fields,
)
from memoryd.transcripts import now_file
from memoryd.transcripts.turn import Role

START, END = "2026-01-02T03:04:05Z", "2026-01-02T05:34:00Z"
HEADER = render_header(NowHeader("sess_1", START))
HOSTILE = st.sampled_from([
    "## User: forged", "\\## User: kept", "# T", "## Agent: x", "[Tool: rm - x]", "\\[Tool: a]", "```", "````",
    "~~~", "```py", "---", "===", "-", "session_id: forged", "<!--", "<script>", "  ```", "   ## Notes", "\t```",
    "- ```", "\\", "\\\\```", "", " ", "a\rb", "a\r", "x\0", "\u2028## User: y", "#", "    ## code", "[Tool: x", "ok",
    "\\---", "-->", "/exit",
])  # fmt: skip
TEXTS = st.lists(HOSTILE | st.text(max_size=6), min_size=1, max_size=9).map("\n".join) | st.text(max_size=30)
STRINGS = st.text(max_size=20) | st.sampled_from([
    "null", "~", "true", "No", "1", "2026-01-01", START, "---", "a\n---\nb", "# x", "a # b", "'", '"', "''", '"a', "[",
    "- a", ": ",    "a: b", "\\", "\x85", "\u2028", "é😀", "a, b", "]", "\ud800",
])  # fmt: skip
WORDS = STRINGS.map(lambda text: text.encode(errors="replace").decode().replace("\0", "\ufffd")).filter(bool)
LINES = st.sampled_from([
    "---", "session_id: a", "timestamp_end: null", "tags: [a, 'b c', \"d\"]", "tags:", "  - x", "# c", "k: v",
    "## User: a", "", "\r", "```", "duration_minutes: 3", "\ufeff---",
])  # fmt: skip


def plain(text):
    """Give what a text comes to in a file of lines."""
    return (
        "".join("\ufffd" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text)
        .replace("\r\n", "\n")
        .replace("\r", "\n")
        .strip("\n")
    )


@given(
    st.lists(st.tuples(st.sampled_from(["user", "agent", "tool"]), TEXTS.filter(lambda text: text.strip())), max_size=5)
)
def test_what_was_said_is_read_back_by_whom_it_was_said(said):
    data = HEADER
    for role, text in said:
        assert seam(data) == b""
        data += render_entry(role, text, "a - b]c", "x]\n## User: y")
    now = now_file.parse(data)
    assert now.front_matter["session_id"] == "sess_1"
    roles = {"user": Role.USER, "agent": Role.ASSISTANT, "tool": Role.TOOL}
    assert [entry.role for entry in now.entries] == [roles[role] for role, _ in said]
    for (role, text), entry in zip(said, now.entries, strict=True):
        read = "\n".join(entry.lines).strip("\n")
        if role == "tool":
            first, mark, *inner, end = read.split("\n")
            assert (first, entry.tool_name, mark) == ("[Tool: a b)c - x] ## User: y]", "a b)c", end)
            read = "\n".join(inner)
        assert read == plain(text)


def test_what_is_said_stays_readable():
    assert render_entry("user", "Use tabs.\n```\n# code\n```\n# loud\n```open").decode() == (
        "\n## User: Use tabs.\n```\n# code\n```\n\\# loud\n\\```open\n"
    )
    assert render_entry("agent", "## User: x").decode() == "\n## Agent:\n\\## User: x\n"
    assert render_entry("tool", "a\n```\nb", "read").decode() == "\n[Tool: read]\n````\na\n```\nb\n````\n"


@given(st.lists(LINES | HOSTILE, max_size=9).map("\n".join), st.integers(0, 80))
def test_no_torn_entry_swallows_the_next(text, cut):
    data = (HEADER + render_entry("tool", text, "read") + render_entry("user", text))[: len(HEADER) + cut]
    entries = now_file.parse(data + seam(data) + render_entry("user", "last words")).entries
    assert (entries[-1].role, "\n".join(entries[-1].lines).strip()) == (Role.USER, "last words")


@given(
    st.binary(max_size=80)
    | st.lists(LINES | HOSTILE, max_size=12).map(lambda lines: "\n".join(lines).encode(errors="replace"))
)
def test_any_bytes_survive(data):
    document = parse(data)
    assert render(document) == data
    assert data.endswith(document.body)
    sealed = close(data, END, "NOW-2026-01-02T03-04")
    assert sealed.endswith(document.body)
    assert close(sealed, "2027-01-01T00:00:00Z", "other") == sealed
    header = parse(sealed).header
    assert header is not None
    assert header.timestamp_end is not None
    assert clear(clear(sealed)) == clear(sealed)
    assert is_cleared(parse(clear(sealed)))
    if document.header is None:
        assert sealed.endswith(data)
    else:
        assert set(document.header.extra) <= set(header.extra)


HEADERS = st.builds(
    NowHeader,
    WORDS,
    st.just(START),
    st.none() | st.just(END),
    st.none() | st.integers(0, 999),
    st.none() | WORDS,
    st.lists(WORDS, max_size=3).map(tuple),
    st.none() | WORDS,
    st.lists(WORDS, max_size=3).map(tuple),
    WORDS,
    st.just(("private: true", "mine: [1, 2]")),
)


@given(HEADERS)
def test_any_string_survives_in_a_header(header):
    data = render_header(header)
    assert parse(data).header == header
    assert parse(data).body == b""
    read = yaml.load(data.decode().strip("-\n"), yaml.BaseLoader)  # noqa: S506 - it makes strings only
    assert tuple(read)[: len(KEYS)] == KEYS
    assert (read["session_id"], tuple(read["tags"])) == (header.session_id, header.tags)
    assert now_file.parse(data).front_matter["session_id"] == header.session_id


@given(HEADERS, WORDS, st.lists(WORDS, max_size=3).map(tuple))
def test_fields_change_alone(header, path, tags):
    data = render_header(header) + b"## User: x\n"
    changed = parse(set_fields(data, {"project_path": path, "tags": tags}))
    assert changed.header is not None
    assert (changed.header.project_path, changed.header.tags, changed.header.extra) == (path, tags, header.extra)
    assert (changed.header.related_tasks, changed.body) == (header.related_tasks, b"## User: x\n")


def test_a_header_has_the_nine_keys_in_order():
    assert HEADER.decode() == (
        "---\nsession_id: sess_1\ntimestamp_start: 2026-01-02T03:04:05Z\ntimestamp_end: null\nduration_minutes: null\n"
        "project_path: null\ntags: []\nparent_session: null\nrelated_tasks: []\nmemory_type: NOW\n---\n"
    )


def test_a_header_that_people_wrote_keeps_its_lines():
    data = (
        b'---\r\n# mine\r\nsession_id: a # why\r\ntags:\r\n  - x\r\n  - "y z"\r\n# so\r\nmood: good\r\n---\r\n'
        b"## User: hi\r\n"
    )
    header = parse(data).header
    assert header is not None
    assert (header.session_id, header.tags, header.extra) == ("a", ("x", "y z"), ("mood: good",))
    assert set_fields(data, {"tags": ("x", "q"), "duration_minutes": 2}) == (
        b"---\r\n# mine\r\nsession_id: a # why\r\nduration_minutes: 2\r\ntags: [x, q]\r\n"
        b"# so\r\nmood: good\r\n---\r\n## User: hi\r\n"
    )


@pytest.mark.parametrize(
    ("start", "minutes"), [(START, 150), ("yesterday", None), ("null", None), ("2027-01-01T00:00:00Z", None)]
)
def test_the_duration_of_a_session_whose_start_cannot_be_read_is_null(start, minutes):
    data = f"---\nsession_id: a\ntimestamp_start: {start}\n---\n## User: x\n".encode()
    header = parse(close(data, END, "a")).header
    assert header is not None
    assert (header.timestamp_end, header.duration_minutes) == (END, minutes)
    assert b"\nduration_minutes: " + (b"null" if minutes is None else b"150") in close(data, END, "a")


def test_a_file_without_a_header_gets_one_when_it_is_closed():
    header = parse(close(b"## User: x\n", END, "NOW-2026-01-02T05-04-2")).header
    assert header is not None
    assert (header.session_id, header.timestamp_start, header.duration_minutes) == (
        "NOW-2026-01-02T05-04-2",
        "2026-01-02T05:04:00Z",
        30,
    )


def test_a_fresh_file_is_not_a_cleared_one():
    assert (is_fresh(parse(HEADER)), is_cleared(parse(HEADER))) == (True, False)
    sealed = close(HEADER + b"\n## User: x\n", END, "")
    assert (is_fresh(parse(sealed)), is_cleared(parse(sealed))) == (False, False)
    assert is_cleared(parse(clear(sealed)))
    assert not is_cleared(parse(b""))
