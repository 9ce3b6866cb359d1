"""A file that its owner marks as private is not read: its words are in no row, index, question or answer."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from types import SimpleNamespace
from unittest.mock import patch

import mcp_world
import pytest
from scratch import Model, Scratch, message, recent, said

import memoryd
from memoryd import app
from memoryd.errors import RefusedError
from memoryd.interfaces import hook
from memoryd.interfaces import python_api as doors
from memoryd.jobs.own_notes import find_written
from memoryd.transcripts.turn import Origin, Role, StoredTurn, TurnKind
from memoryd.worker import client

WORD = "quaggafoal"
TEXT = f"We decided to name the {WORD} release after the river, because the user prefers it."
FRONT = "---\ntitle: mine\nprivate: true\n---\n\n"
TODAY = datetime.now(UTC).date().isoformat()
CONTINUUM = ".continuum/memory/"
# Each file that memoryd would read, with the bytes that mark it.
MARKED = {
    f"memory/{TODAY}.md": f"{FRONT}# Daily Memory: {TODAY}\n\n## Note (09:00)\n\n{TEXT}\n",
    "memory/2026-01-02.md": f"{FRONT}# Daily Memory: 2026-01-02\n\n- {TEXT}\n",
    f"{CONTINUUM}RECENT.md": f"{FRONT}# RECENT - Last 3 Sessions\n\n## Session 2026-01-02\n\n**Focus**: {TEXT}\n",
    f"{CONTINUUM}MEMORY-2026-01-02.md": f"{FRONT}# January 2026 Consolidated Memory\n\n## River\n\n- {TEXT}\n",
    f"{CONTINUUM}NOW-2026-01-02T09-00.md": f"---\nsession_id: sess_1\nprivate: true\n---\n## User: {TEXT}\n",
    f"{CONTINUUM}NOW-2026-01-02T10-00.md": f"---\nprivate: 'yes'\n---\n## User: {TEXT}\n",
}
NAMED = {
    "MEMORY.md.private": f"- {TEXT}\n",
    "memory/2026-01-03.md.private": f"# Daily Memory: 2026-01-03\n\n{TEXT}\n",
    "memory/diary.private/2026-01-04.md": f"{TEXT}\n",
    f"{CONTINUUM}NOW-2026-01-02T11-00.md.private": f"## User: {TEXT}\n",
    "sessions/two.jsonl.private": '{"role": "user", "content": "' + TEXT + '"}\n',
    "sessions/mine.PRIVATE/three.jsonl": '{"role": "user", "content": "' + TEXT + '"}\n',
}
SPANS = {
    "memory/2026-01-05.md": f"# Daily Memory: 2026-01-05\n\n<private>\n{TEXT}\n</private>\n\nThe staging host moved.\n"
}


class Asked(Model):
    """Keeps the questions that a model would get."""

    questions: list[str] = []  # noqa: RUF012 - one for all

    def answer(self, ask, backend, deadline):
        self.questions.append(str(ask))
        return super().answer(ask, backend, deadline)


@pytest.fixture
def scratch(tmp_path):
    made = Scratch(tmp_path / "scratch", modes={"facts": "auto", "rollover": "auto"}, facts={"debounce": "0s"})
    made.agents[0]["transcripts"][0]["path"] = "sessions/**/*"
    made.write_config()

    def model(*_, **__):
        return Asked(made.root / "asked")

    Asked.questions.clear()
    with (
        patch.object(app, "Worker", model),
        patch.object(client, "Worker", model),
        patch.object(doors, "Worker", model),
    ):
        yield made


def plant(scratch, files):
    for name, text in files.items():
        path = scratch.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        os.utime(path, (1_700_000_000, 1_700_000_000))


def files_with(folder, word):
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and word.encode() in path.read_bytes()
    )


def test_what_is_private_reaches_nothing(scratch):
    plant(scratch, MARKED | NAMED | SPANS)
    (scratch.workspace / "MEMORY.md").write_text(f"- Uses tabs.\n<private>\n- {TEXT}\n</private>\n", encoding="utf-8")
    at = recent()
    scratch.append([*said(at=at), message("user", "We ship on Monday, because the build failed.", at=at)])
    scratch.json("run", "--once")
    for kind in ("sleep", "facts", "rollover", "dream"):
        days = ("--lookback-days", "400") if kind == "dream" else ()
        scratch.run("job", "run", kind, *days, "--force")
    assert Asked.questions
    assert not [one for one in Asked.questions if WORD in one]
    assert scratch.json("search", WORD) == []
    assert scratch.json("search", "staging host")
    memory = memoryd.Memory(scratch.workspace, scratch.config)
    for name in MARKED:
        with pytest.raises(RefusedError, match="the file is marked private, so it is not read"):
            memory.get(name)
        assert scratch.json("blame", f"{name}:1", code=4)["code"] == "refused"
    for name in NAMED:
        with pytest.raises(RefusedError, match="private"):
            memory.get(name)
    assert WORD not in memory.get("memory/2026-01-05.md").text
    assert WORD not in memory.context(query=f"{WORD} release").text
    with mcp_world.door(scratch) as served:
        agent = mcp_world.Agent(served)
        assert WORD not in str(agent("memory_search", query=f"{WORD} river"))
        assert "private" in agent("memory_get", path=f"memory/{TODAY}.md")
        assert agent.is_refused
    dialect = SimpleNamespace(files=True, units=None)
    call = SimpleNamespace(dialect=dialect, config=str(scratch.config), workspace="")
    assert WORD not in hook._from_files(call, str(scratch.workspace))
    # The state folder and all other files, byte by byte.
    assert files_with(scratch.state, WORD) == []
    planted = {*MARKED, *NAMED, *SPANS, "MEMORY.md"}
    assert {one for one in files_with(scratch.workspace, WORD) if "/backup/" not in one} == planted
    for name, text in (MARKED | NAMED).items():
        assert (scratch.workspace / name).read_text("utf-8").startswith(text)


def test_a_file_that_becomes_private_leaves_the_index_and_returns_with_the_mark_gone(scratch):
    path = scratch.workspace / "memory" / "2026-01-02.md"
    plant(scratch, {"memory/2026-01-02.md": f"{TEXT}\n"})
    scratch.json("run", "--once")
    assert [hit["path"] for hit in scratch.json("search", WORD)] == ["memory/2026-01-02.md"]
    path.write_text(f"{FRONT}{TEXT}\n", encoding="utf-8")
    assert scratch.json("search", WORD) == []
    assert scratch.json("verify") == {"ok": True, "problems": []}
    path.write_text(f"---\nprivate: false\n---\n{TEXT}\n", encoding="utf-8")
    assert [hit["path"] for hit in scratch.json("search", WORD)] == ["memory/2026-01-02.md"]


def test_a_now_file_that_becomes_private_is_read_no_further(scratch):
    path = scratch.workspace / CONTINUUM / "NOW-2026-01-02T09-00.md"
    said_before = "## User: The harbour opens at nine.\n"
    plant(scratch, {f"{CONTINUUM}{path.name}": said_before})
    scratch.json("run", "--once")
    plant(scratch, {f"{CONTINUUM}{path.name}": f"{FRONT}{said_before}{TEXT}\n"})
    scratch.json("run", "--once")
    texts = [row[0] for row in scratch.query("SELECT text FROM turn ORDER BY id")]
    assert texts == ["The harbour opens at nine."]
    assert scratch.query("SELECT note FROM transcript WHERE path LIKE '%NOW-%'") == [("marked private",)]
    (session,) = scratch.json("session", "list")
    scratch.json("forget", session["id"], "--yes")
    assert scratch.query("SELECT text FROM turn WHERE text <> ''") == []
    assert WORD in path.read_text("utf-8")


def test_what_only_a_private_daily_file_holds_is_not_known_yet(scratch):
    plant(scratch, {f"memory/{TODAY}.md": f"{FRONT}# Daily Memory: {TODAY}\n\n- {TEXT}\n"})
    scratch.append([message("user", TEXT, at=recent()), message("assistant", "Noted.", at=recent())])
    scratch.json("run", "--once")
    scratch.run("job", "run", "sleep", "--force")
    assert TEXT in scratch.core


def test_a_transcript_in_markdown_that_is_private_is_not_read(scratch):
    scratch.agents[0]["transcripts"].append({"path": ".aider.chat.history.md", "format": "aider"})
    scratch.write_config()
    told = f"# aider chat started at 2026-01-02 09:00:00\n\n#### {TEXT}  \n\nNoted.\n"
    for head, turns in ((FRONT, []), ("", [TEXT, "Noted."])):
        plant(scratch, {".aider.chat.history.md": head + told})
        scratch.json("run", "--once")
        assert [row[0] for row in scratch.query("SELECT text FROM turn ORDER BY id")] == turns


def test_a_core_file_that_is_private_is_neither_read_nor_written(scratch):
    path = scratch.workspace / "MEMORY.md"
    text = f"{FRONT}- {TEXT}\n"
    path.write_text(text, encoding="utf-8")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    scratch.append(said(at=recent()))
    scratch.run("run", "--once")
    assert path.read_text("utf-8") == text
    assert files_with(scratch.state, WORD) == []
    assert WORD not in scratch.run("core", "list").stdout
    (alarm,) = [one for one in scratch.json("status")["alarms"] if one["kind"] == "conflict"]
    assert "is marked private" in alarm["text"]
    path.write_text(f"- {TEXT}\n", encoding="utf-8")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    scratch.json("run", "--once")
    assert WORD in str(scratch.json("core", "list"))


def test_what_an_agent_writes_into_a_private_file_is_no_note_of_its_own():
    def write(text):
        given = json.dumps({"file_path": "/home/ann/CLAUDE.md", "content": f"{text}\n"})
        origin, kind = Origin.ASSISTANT, TurnKind.TOOL_CALL
        return StoredTurn(1, "r1", 0, Role.ASSISTANT, origin, kind, given, None, 1, *(False, "c", "Write"))

    assert find_written([write(TEXT)]) == {1: TEXT}
    assert find_written([write(f"{FRONT}{TEXT}")]) == {1: ""}
