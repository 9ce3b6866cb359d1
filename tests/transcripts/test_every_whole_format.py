"""What holds of every reader of whole files and of databases, whatever these hold."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_every_format import MANY, VALUES

from memoryd.database.library import load_library
from memoryd.transcripts.lines import Pass
from memoryd.transcripts.registry import DATABASES, DOCUMENTS
from memoryd.transcripts.whole import UNPACK, DocumentFile, SessionRecords, StretchStart

if TYPE_CHECKING:
    from memoryd.transcripts.turn import Turn

PATHS = {
    "gemini": ["/h/tmp/x/chats/session-1.json"],
    "opencode": ["/h/storage/session/p/ses_1.json", "/h/storage/session/info/ses_1.json", "/h/export.json"],
    "cline": ["/h/t/api_conversation_history.json", "/h/t/ui_messages.json", "/h/s.messages.json"],
}
HEADS = [{"sessionId": "s", "projectHash": "h"}, {"sessionId": "s", "updated_at": 1}, {"info": {"id": "ses_1"}}, {}]
CELLS = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.sampled_from(["ses_a", '{"role":"assistant","time":5}']),
    VALUES.map(json.dumps),
)
ROWS = st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), max_size=4)


def check(turns: list[Turn]) -> None:
    for turn in turns:
        assert turn.usage is None or turn.usage > 0
        for text in (turn.text, turn.record_id, turn.tool_call_id, turn.tool_name, turn.message_id, turn.model):
            (text or "").encode()


@pytest.mark.parametrize(("name", "path"), [(name, path) for name in DOCUMENTS for path in PATHS[name]])
@MANY
@given(
    head=st.sampled_from(HEADS),
    listed=st.lists(VALUES, max_size=4),
    raw=st.none() | st.binary(max_size=60),
    beside=st.lists(VALUES.map(lambda one: json.dumps(one).encode()) | st.binary(max_size=20), min_size=3, max_size=3),
    age=st.sampled_from([0.0, 1e6]),
)
def test_any_whole_file_is_read_without_an_error(name, path, head, listed, raw, beside, age):
    reader, place = DOCUMENTS[name], PurePosixPath(path)
    told = json.dumps({**head, "messages": listed} if head else listed).encode()
    data = told if raw is None else told[: len(told) // 2] + raw
    names = [f"{one}msg_1.json" if one.endswith("/") else one for one in reader.list_companions(place, ())]
    names += [f"{one}prt_1.json" for one in reader.list_companions(place, names) if one.endswith("/")]
    document = DocumentFile(data, place, dict(zip(names, beside, strict=False)), age)
    assert reader.sniff(data, place) in {True, False}
    found = reader.read(document)
    if isinstance(found, SessionRecords):
        for one in found.found:
            assert 0 <= one.first_byte <= one.last_byte <= len(data)
            check(one.turns)
        again = reader.read(document)
        assert isinstance(again, SessionRecords)
        assert [one.turns for one in again.found] == [one.turns for one in found.found]
    else:
        assert found is None or " " in found


@pytest.mark.parametrize("name", DATABASES)
@MANY
@given(first=ROWS, second=ROWS, third=ROWS)
def test_any_rows_are_read_to_their_end_without_an_error(name, first, second, third):
    reader = DATABASES[name]
    connection = load_library().connect(":memory:", isolation_level=None)
    connection.create_function(UNPACK, 1, lambda _data: None)
    connection.executescript(
        "CREATE TABLE transcript_events (session_id, seq, event_json, event_zstd);"
        "CREATE TABLE session (id, parent_id, directory, time_created);"
        "CREATE TABLE message (id, session_id, time_created, time_updated, data);"
        "CREATE TABLE part (id, message_id, time_updated, data)"
    )
    connection.executemany("INSERT INTO transcript_events VALUES ('ses_a', ?, ?, ?)", [row[1:] for row in first])
    connection.executemany("INSERT INTO message VALUES (?, 'ses_a', ?, ?, ?)", first)
    connection.executemany("INSERT INTO part VALUES (?, ?, ?, ?)", second)
    connection.executemany("INSERT INTO session VALUES (?, ?, ?, ?)", third)
    position, done = 0, frozenset()
    for _ in range(3):
        identity = reader.identify(rows_of(connection), "ses_a")
        start = StretchStart("ses_a", position, done, 2e9, Pass(identity.session_id))
        stretch = reader.read(rows_of(connection), identity, start)
        for one in stretch.records.found:
            check(one.turns)
        assert stretch.position >= position
        position, done = stretch.position, stretch.done
        reader.mark_of(rows_of(connection), "ses_a", position)
    assert not stretch.records.found  # each row is read once
    connection.close()


def rows_of(connection):
    return lambda sql, *values: connection.execute(sql, values).fetchall()
