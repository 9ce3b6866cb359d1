"""Ingest of transcripts that take something back, or hold many sessions: pi, OpenClaw, Gemini CLI, Aider."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from ingest_world import World

from memoryd.database import reads
from memoryd.database.turns import RETRACTED
from memoryd.errors import StateError

ID = "019e44d4-6ecf-7c1d-96ab-582effc13411"
HEAD = {"type": "session", "version": 3, "id": ID, "timestamp": "2026-05-20T10:00:33.231Z", "cwd": "/p"}
PATH = f"2026-05-20T10-00-33-231Z_{ID}.jsonl"


@pytest.fixture
def world(tmp_path):
    with World(tmp_path) as made:
        yield made


def entry(own: str, parent: str | None, text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    said = {"role": role, "content": [{"type": "text", "text": text}], "timestamp": 1, **more}
    at = f"2026-05-20T10:01:{int(own, 16) % 60:02}.000Z"
    return {"type": "message", "id": own, "parentId": parent, "timestamp": at, "message": said}


def lines(*values: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def states(world: World) -> list[tuple[str, str | None]]:
    return [(row["text"], row["withheld"]) for row in world.query("SELECT text, withheld FROM turn ORDER BY seq")]


ROOT, LEFT, LEFT_2, TAKEN = (
    entry("0a", None, "root"), entry("0b", "0a", "left"), entry("0c", "0b", "left too"), entry("0d", "0a", "taken"),
)  # fmt: skip


@pytest.mark.parametrize("restart", [False, True])
def test_a_branch_that_was_left_is_no_longer_said_and_comes_back_when_it_is_taken_up_again(world, restart):
    world.write(PATH, lines(HEAD, ROOT, LEFT, LEFT_2))
    world.poll()
    assert world.texts() == ["root", "left", "left too"]
    if restart:
        world.restart()
    world.append(PATH, lines(TAKEN))
    world.poll()
    assert states(world) == [("root", None), ("", RETRACTED), ("", RETRACTED), ("taken", None)]
    assert world.query("SELECT turns FROM session") == [{"turns": 2}]
    if restart:
        world.restart()
    world.append(PATH, lines(entry("0e", "0b", "back")))
    world.poll()
    world.poll()
    assert states(world) == [("root", None), ("left", None), ("", RETRACTED), ("", RETRACTED), ("back", None)]
    assert world.query("SELECT turns FROM session") == [{"turns": 3}]
    assert not world.alarms()
    world.check_spans()


def test_a_session_that_began_as_a_copy_takes_back_nothing_of_the_first(world):
    world.write(PATH, lines(HEAD, ROOT, LEFT))
    world.poll()
    other = ID.replace("019e", "029e")
    world.write(PATH.replace(ID, other), lines({**HEAD, "id": other, "parentSession": PATH}, ROOT, LEFT, TAKEN))
    world.poll()
    assert world.texts() == ["root", "left", "taken"]
    assert len(world.query("SELECT id FROM session")) == 2


def test_turns_without_a_text_are_not_taken_from_the_count_when_their_branch_is_left(world, monkeypatch):
    scan = world.scanner.scan

    def fail(texts, *more):
        return [None if text.startswith("left") else one for text, one in zip(texts, scan(texts, *more), strict=True)]

    monkeypatch.setattr(world.scanner, "scan", fail)
    world.write(PATH, lines(HEAD, ROOT, LEFT))
    world.poll()
    assert states(world) == [("root", None), ("", "unscanned")]
    world.append(PATH, lines(TAKEN))
    world.poll()
    assert states(world) == [("root", None), ("", RETRACTED), ("taken", None)]
    assert world.query("SELECT turns FROM session") == [{"turns": 2}]


def test_all_at_once_and_in_pieces_give_the_same(tmp_path):
    data = lines(HEAD, ROOT, LEFT, LEFT_2, TAKEN, entry("0e", "0d", "after"), entry("0f", None, "anew"))
    found = []
    for cuts in ([], [300, 700, 1100]):
        folder = tmp_path / str(len(cuts))
        folder.mkdir()
        with World(folder) as world:
            world.write(PATH, b"")
            for begin, end in pairwise([0, *cuts, len(data)]):
                world.append(PATH, data[begin:end])
                world.poll()
                world.restart()
            found.append(states(world))
    assert found[0] == found[1]
    assert [text for text, _ in found[0] if text] == ["anew"]


def test_a_file_of_format_1_that_is_rewritten_with_ids_says_nothing_new(world):
    first = {key: one for key, one in ROOT.items() if key not in ("id", "parentId")}
    second = {key: one for key, one in LEFT.items() if key not in ("id", "parentId")}
    old_head = {key: one for key, one in HEAD.items() if key != "version"}
    world.write(PATH, lines(old_head, first, second))
    world.poll()
    world.write(PATH, lines(HEAD, ROOT, LEFT, entry("10", "0b", "new")))
    world.poll()
    assert world.texts() == ["root", "left", "new"]


@pytest.mark.parametrize(
    "name", [f"{ID}.jsonl.reset.1", f"{ID}.checkpoint.{ID}.jsonl", f"{ID}.trajectory.jsonl", f"{ID}.jsonl.deleted.1"]
)
@pytest.mark.parametrize("format_", ["auto", "openclaw"])
def test_side_copies_of_openclaw_are_not_read(tmp_path, name, format_):
    with World(tmp_path, {"pattern": "sessions/**/*", "format": format_}) as world:
        world.write(f"agents/main/sessions/{name}", lines(HEAD, ROOT))
        world.write(f"agents/main/sessions/{ID}.jsonl", lines(HEAD, LEFT))
        world.poll()
        assert world.texts() == ["left"]
        assert {row["format"] for row in world.transcripts().values()} == {None, "openclaw"}


def gemini(own: str, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": own, "timestamp": "2026-05-01T10:00:00.000Z", "type": kind, "content": content, **more}


CHAT = {"sessionId": ID, "projectHash": "h", "startTime": "2026-05-01T09:59:00.000Z", "kind": "main"}


def test_gemini_takes_back_replaces_and_finds_its_project(tmp_path):
    with World(tmp_path, {"pattern": "sessions/**/*.jsonl"}) as world:
        call = {"id": "c1", "name": "ls", "args": {}, "status": "executing"}
        done = {
            **call,
            "status": "success",
            "result": [{"functionResponse": {"id": "c1", "response": {"output": "a"}}}],
        }
        world.write("shop/.project_root", b"/home/ann/shop\n")
        name = f"shop/chats/session-2026-05-01T09-59-{ID[:8]}.jsonl"
        world.write(name, lines(CHAT, gemini("u1", "user", "one"), gemini("g1", "gemini", "hm", toolCalls=[call])))
        world.poll()
        world.restart()
        tokens = {"input": 100, "output": 20, "total": 150}
        world.append(name, lines(gemini("g1", "gemini", "hm", toolCalls=[done], tokens=tokens)))
        world.poll()
        assert world.texts() == ["one", "hm", "ls {}", "a"]
        world.append(name, lines(gemini("u2", "user", "two"), gemini("g2", "gemini", "no"), {"$rewindTo": "u2"}))
        world.restart()
        world.poll()
        world.append(name, lines(gemini("g1", "gemini", "hm, better", toolCalls=[done], tokens=tokens)))
        world.poll()
        assert world.texts() == ["one", "hm, better", "ls {}", "a"]
        (session,) = world.query("SELECT id, folder, gauge FROM session")
        assert session["id"] == ID
        assert session["folder"] == "/home/ann/shop"
        assert json.loads(session["gauge"])["context"] == 120


AIDER = """
# aider chat started at 2026-05-01 10:00:00

> Aider v0.86.0  
> Main model: gpt-4o with diff edit format  

#### use tabs  

Fine.

    code

# a heading
> Tokens: 1,200 sent, 34 received. Cost: $0.01 message, $0.01 session.  
> Add shop.py to the chat? (Y)es/(N)o/(D)on't ask again [Yes]: y  

# aider chat started at 2026-05-01 11:00:00

#### and  
#### spaces?  
#### no  
"""  # noqa: W291


@pytest.mark.parametrize("step", [1, 37, 10_000])
def test_chats_of_aider_are_sessions_however_the_file_grows(tmp_path, step):
    with World(tmp_path, {"pattern": "sessions/*/.aider.chat.history.md"}) as world:
        name, data = "shop/.aider.chat.history.md", AIDER.encode()
        world.write(name, b"")
        for at in range(0, len(data), step):
            world.append(name, data[at : at + step])
            if step > 1 or at % 50 == 0:
                world.poll()
            if at % 3 == 0 and step > 1:
                world.restart()
        world.later(3600)
        world.poll()
        world.check_spans()
        rows = world.query("SELECT session_id, role, origin, kind, text FROM turn WHERE text <> '' ORDER BY id")
        first, second = world.query("SELECT id, folder, gauge, model, turns, last_turn_at FROM session ORDER BY id")
        assert second["last_turn_at"][:10] == datetime.now(UTC).date().isoformat()  # the file's
        assert [(row["role"], row["kind"], row["text"].split("\n")[0]) for row in rows] == [
            ("tool", "message", "Aider v0.86.0"),
            ("user", "message", "use tabs"),
            ("assistant", "message", "Fine."),
            ("tool", "message", "Tokens: 1,200 sent, 34 received. Cost: $0.01 message, $0.01 session."),
            ("user", "choice", 'asked "Add shop.py to the chat?", chose "y"'),
            ("user", "message", "and"),
        ]
        assert rows[2]["text"] == "Fine.\n\n    code\n\n# a heading"
        assert rows[-1]["session_id"] == second["id"] != first["id"]
        assert rows[-1]["text"] == "and\nspaces?\nno"
        assert first["folder"] == str(world.path("shop"))
        with reads.open_reader(world.database) as reader:
            assert {row["transcript"] for row in reads.list_sessions(reader)} == {str(world.path(name))}
        assert (first["model"], json.loads(first["gauge"])["context"]) == ("gpt-4o", 1234)
        assert json.loads(second["gauge"]) == {"tail_bytes": 14, "tail_chars": 14}  # without what is as it began


def test_turns_are_read_later_if_finding_their_session_fails(tmp_path, monkeypatch):
    with World(tmp_path, {"pattern": "sessions/*/.aider.chat.history.md"}) as world:
        real, ingest = type(world.ingest).session_for, world.ingest

        def fail(*_told):
            raise StateError("the disk is busy")

        monkeypatch.setattr(type(ingest), "session_for", fail)
        world.write("shop/.aider.chat.history.md", AIDER.encode())
        world.later(3600)
        world.poll()
        assert world.texts() == []
        assert set(ingest.again) == {str(world.path("shop/.aider.chat.history.md"))}
        monkeypatch.setattr(type(ingest), "session_for", real)
        world.poll()
        assert len(world.texts()) == 6
