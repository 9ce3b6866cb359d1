"""Real whole files and databases, from the folder that MEMORYD_TRANSCRIPTS names: ingest agrees with the raw records.

Each `expect_…` derives its table from the raw rows of one format, without the readers, as simply as the samples allow.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import zstandard
from ingest_world import World

from memoryd.database.library import load_library

FOLDER = Path(os.environ.get("MEMORYD_TRANSCRIPTS", "/nonexistent"))
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="MEMORYD_TRANSCRIPTS names no folder of transcripts")


def samples(pattern: str) -> list[Path]:
    return sorted(FOLDER.glob(pattern)) if FOLDER.is_dir() else []


def table_of(tmp_path: Path, path: Path) -> dict[str, Any]:
    """What is stored of a copy of the file, counted."""
    with World(tmp_path, {"pattern": "sessions/*"}) as world:
        shutil.copyfile(path, world.path(path.name))
        for _ in range(2):
            world.poll()
            world.later(100)
        world.poll()
        assert world.alarms() == []
        rows = world.query("SELECT origin, kind, text, usage FROM turn WHERE sidechain = 0 ORDER BY seq")
        told = Counter((row["origin"], row["kind"]) for row in rows if row["text"] or row["kind"] != "message")
        (session,) = world.query("SELECT id, folder, parent_id FROM session")
        usages = [row["usage"] for row in rows if row["usage"]]
        return {
            "session": session["id"],
            "folder": session["folder"],
            "typed": told["user", "message"],
            "answers": told["assistant", "message"],
            "calls": told["assistant", "tool_call"],
            "results": told["tool", "tool_result"],
            "compactions": told["system", "compaction"],
            "summaries": told["assistant", "summary"],
            "contexts": usages,
        }


def expect_opencode(
    session: dict[str, Any], messages: list[tuple[dict[str, Any], list[dict[str, Any]]]]
) -> dict[str, Any]:
    parts = [(message, part) for message, own in messages for part in own]
    texts = [(message, part) for message, part in parts if part["type"] == "text"]
    tools = [part for _, part in parts if part["type"] == "tool"]
    answers = [message for message, _ in messages if message["role"] == "assistant"]
    return {
        "session": session["id"],
        "folder": session["directory"],
        "typed": sum(message["role"] == "user" and not part.get("synthetic") for message, part in texts),
        "answers": sum(message["role"] == "assistant" and not message.get("summary") for message, _ in texts),
        "calls": len(tools),
        "results": sum("output" in part["state"] for part in tools),
        "compactions": sum(part["type"] == "compaction" for _, part in parts),
        "summaries": sum(message["role"] == "assistant" and bool(message.get("summary")) for message, _ in texts),
        "contexts": [message["tokens"]["total"] for message in answers if not message.get("summary")],
    }


@pytest.mark.parametrize("path", samples("opencode/**/*.db"), ids=lambda path: path.parent.name)
def test_databases_of_opencode(tmp_path, path):
    shutil.copyfile(path, tmp_path / "raw.db")
    connection = load_library().connect(str(tmp_path / "raw.db"))
    ((session, folder),) = connection.execute("SELECT id, directory FROM session").fetchall()
    messages = [
        (json.loads(data), [json.loads(part) for (part,) in connection.execute(
            "SELECT data FROM part WHERE message_id = ? ORDER BY id", (message,))])
        for message, data in connection.execute("SELECT id, data FROM message ORDER BY id").fetchall()
    ]  # fmt: skip
    connection.close()
    assert table_of(tmp_path, path) == expect_opencode({"id": session, "directory": folder}, messages)


@pytest.mark.parametrize("path", samples("opencode/*export*.json"), ids=lambda path: path.name)
def test_exports_of_opencode(tmp_path, path):
    told = json.loads(path.read_text())
    messages = [(one["info"], one["parts"]) for one in told["messages"]]
    assert table_of(tmp_path, path) == expect_opencode(told["info"], messages)


@pytest.mark.parametrize("path", samples("cline/*.json"), ids=lambda path: path.name[-24:])
def test_sessions_of_cline(tmp_path, path):
    told = json.loads(path.read_text())
    compactions = [one for one in told["messages"] if one.get("metadata", {}).get("kind", "").startswith("compaction")]
    messages = [one for one in told["messages"] if one.get("metadata", {}).get("kind") != "compaction_summary"]
    blocks = [(one["role"], block) for one in messages for block in one["content"]]
    metrics = [one["metrics"] for one in messages if "metrics" in one]
    table = table_of(tmp_path, path)
    assert table.pop("folder") == told["system_prompt"].split("Working Directory: ")[1].split("\n")[0]
    assert table == {
        "session": told["sessionId"],
        "typed": sum(
            role == "user" and block["type"] == "text" and not block["text"].startswith("<SYSTEM_NOTICE>")
            for role, block in blocks
        ),
        "answers": sum(role == "assistant" and block["type"] == "text" for role, block in blocks),
        "calls": sum(block["type"] == "tool_use" for _, block in blocks),
        "results": sum(block["type"] == "tool_result" for _, block in blocks),
        "compactions": len(compactions),
        "summaries": sum("summary" in one["metadata"] for one in compactions),
        "contexts": [one["inputTokens"] + one["outputTokens"] for one in metrics],
    }


@pytest.mark.parametrize("path", samples("gemini/*.json"), ids=lambda path: path.name)
def test_older_files_of_gemini(tmp_path, path):
    told = json.loads(path.read_text())
    answers = [one for one in told["messages"] if one["type"] == "gemini"]
    calls = [call for one in answers for call in one.get("toolCalls", [])]
    used = [one["tokens"] for one in answers if one.get("tokens", {}).get("input")]
    assert table_of(tmp_path, path) == {
        "session": told["sessionId"],
        "folder": None,
        "typed": sum(one["type"] == "user" for one in told["messages"]),
        "answers": sum(bool(one["content"].strip()) for one in answers),
        "calls": len(calls),
        "results": sum(bool(call.get("result")) for call in calls),
        "compactions": 0,
        "summaries": 0,
        "contexts": [one["input"] + one["output"] for one in used],
    }


@pytest.mark.parametrize("path", samples("pi/**/*.jsonl"), ids=lambda path: path.name[-24:])
def test_a_table_of_openclaw_gives_what_the_same_lines_give(tmp_path, path):
    lines = [json.loads(line) for line in path.read_text().splitlines() if line]
    session = lines[0]["id"]
    with World(tmp_path, {"pattern": "sessions/*"}) as world:
        connection = load_library().connect(str(world.path("agent.sqlite")), isolation_level=None)
        connection.execute("CREATE TABLE transcript_events (session_id, seq, event_json, event_zstd)")
        for seq, value in enumerate(lines):
            text = json.dumps(value)
            given = (None, zstandard.compress(text.encode())) if len(text) > 4000 else (text, None)
            connection.execute("INSERT INTO transcript_events VALUES (?, ?, ?, ?)", (session, seq, *given))
        connection.close()
        world.poll()
        before = world.query("SELECT record_id, part, text FROM turn ORDER BY record_id, part")
        shutil.copyfile(path, world.path(f"{session}.jsonl"))
        world.poll()
        assert len(before) > 10
        assert world.query("SELECT record_id, part, text FROM turn ORDER BY record_id, part") == before
