"""Which format a file is in."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.config import KNOWN_FORMATS
from memoryd.errors import ConfigError
from memoryd.transcripts import registry
from memoryd.transcripts.format import Unsupported, Values
from memoryd.transcripts.messages import Messages
from memoryd.transcripts.registry import FORMATS, NAMES, by_name, detect

PATH = PurePosixPath("x/session.jsonl")


def name_of(records: list[dict[str, Any]], path: PurePosixPath = PATH, head: bytes = b"") -> str | None:
    found = detect(records, path, head)
    return None if found is None else found.name


@pytest.mark.parametrize(
    ("records", "name"),
    [
        ([], None),
        ([{}], None),
        ([{"type": "unheard-of"}], None),
        ([{"foo": 1}, {"type": "user", "sessionId": "s", "message": {}}], "claude-code"),
        ([{"type": "summary", "leafUuid": "u", "summary": "t"}], "claude-code"),
        ([{"type": "file-history-snapshot", "messageId": "m"}], "claude-code"),
        ([{"type": "queue-operation", "sessionId": "s"}], "claude-code"),
        ([{"type": "assistant", "role": "assistant", "content": "x", "message": {"content": []}}], "claude-code"),
        ([{"role": "user", "content": "x"}], "messages"),
        ([{"type": "message", "role": "user", "content": "x"}], "messages"),
        ([{"messages": [{"role": "user", "content": "x"}]}], "messages"),
        ([{"messages": []}], None),
        ([{"type": "session", "version": 3, "id": "x"}, {"role": "user", "content": "x"}], "pi"),
        ([{"type": "session", "id": "x", "cwd": "/p"}], "pi"),
        ([{"type": "message", "id": "x", "parentId": None, "message": {"role": "user", "content": "x"}}], "pi"),
        ([{"traceSchema": "t", "type": "x"}], "trajectory"),
        ([{"type": "session_meta", "payload": {}}], "codex"),
        ([{"type": "response_item", "payload": {"role": "user"}}], "codex"),
        ([{"type": "session_meta", "payload": None}, {"role": "user", "content": "x"}], "messages"),
        ([{"id": "x", "timestamp": "t", "instructions": None}, {"role": "user", "content": "x"}], "codex"),
        ([{"sessionId": "s", "projectHash": "h", "messages": [{"role": "user", "content": "x"}]}], "gemini"),
        ([{"id": "u", "type": "user", "content": "x"}, {"$set": {"lastUpdated": "t"}}], "gemini"),
        ([{"$rewindTo": "u"}], "gemini"),
        ([{"display": "hi", "project": "/x", "timestamp": 1}], "side-file"),
    ],
)
def test_by_the_first_records(records: list[dict[str, Any]], name: str | None) -> None:
    assert name_of(records) == name


def test_by_what_is_not_json() -> None:
    found = detect([], PurePosixPath("x.db"), b"SQLite format 3\0...")
    assert isinstance(found, Unsupported)
    assert found.name == "sqlite"


@pytest.mark.parametrize(
    "path",
    [
        "p/agent-a1.meta.json", "s/subagents/workflows/wf_1/journal.jsonl", "s/a.jsonl.reset.1", "s/a.jsonl.deleted.1",
        "s/a.jsonl.bak-1-2", "s/a.checkpoint.b.jsonl", "s/a.trajectory.jsonl", "s/a.unreadable-12.jsonl",
    ],
)  # fmt: skip
def test_side_files_are_no_transcripts(path: str) -> None:
    assert name_of([{"role": "user", "content": "x"}], PurePosixPath(path)) == "side-file"
    assert name_of([{"role": "user", "content": "x"}], PurePosixPath("my/journal.jsonl")) == "messages"


def test_every_format_is_a_value_of_the_configuration() -> None:
    assert set(KNOWN_FORMATS) == {"auto", *NAMES}


def test_a_format_that_is_listed_is_found_by_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    class Listed(Messages):
        name = "listed"

        def sniff(self, records: Values, path: PurePosixPath) -> bool:
            return "told" in records[0]

    listed = Listed()
    monkeypatch.setattr(registry, "FORMATS", {**FORMATS, listed.name: listed})
    assert detect([{"told": "hello"}], PurePosixPath("a.jsonl")) is listed


def test_by_name() -> None:
    assert by_name("claude-code") is FORMATS["claude-code"]
    assert {"claude-code", "codex", "pi", "openclaw", "gemini", "aider", "messages", "now"} <= set(NAMES)
    with pytest.raises(ConfigError, match="is not a file of Cline"):
        by_name("cline")


KEYS = st.sampled_from(["type", "role", "content", "messages", "sessionId", "payload", "version", "message"])
VALUES = (
    st.none() | st.integers() | st.sampled_from(["user", "session", "summary"]) | st.lists(st.integers(), max_size=1)
)


@given(st.lists(st.dictionaries(KEYS, VALUES), max_size=3))
def test_no_objects_break_detection(records: list[dict[str, Any]]) -> None:
    detect(records, PATH)
