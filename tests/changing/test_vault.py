"""The vault: the texts of old turns stay, compressed, without a transcript, and go when they are to go."""

import dataclasses
import re
import zlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scratch import Scratch, in_process, message

from memoryd.clock import Clock
from memoryd.config import RetentionSettings
from memoryd.database import packing, reads, vault
from memoryd.files.log import get_logger
from memoryd.running import history, retention

LATER = datetime(2026, 6, 1, tzinfo=UTC)
WORDS = "We decided to keep the orders in PostgreSQL 16, because the reports need window functions. "
SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cD1fG3hJ5"  # a token of GitHub by its form


@pytest.fixture
def scratch(tmp_path):
    made = Scratch(tmp_path / "scratch")
    made.append([message("user", f"{WORDS * 2}The key is {SECRET}.", 0), message("assistant", "Noted. " * 30, 1)])
    made.json("run", "--once")
    return made


def prune(scratch, now=LATER, **wanted):
    with in_process(scratch, lambda: now) as app:
        settings = dataclasses.replace(app.settings, retention=RetentionSettings(**wanted))
        drop = app.recall.indexer.drop_sessions
        retention.prune(app.engine, settings, Clock(now=lambda: now), get_logger("memoryd.test"), drop)


def kinds(scratch):
    return [row[0] for row in scratch.query("SELECT typeof(text) FROM turn ORDER BY seq")]


def holders(scratch, words):
    """The files that hold the words, as they are or compressed; the transcripts are the agent's own."""
    found = set()
    for path in (one for one in scratch.root.rglob("*") if one.is_file() and scratch.sessions not in one.parents):
        data = path.read_bytes()
        parts = [data]
        for start in re.finditer(rb"\x78[\x01\x5e\x9c\xda]", data):
            try:
                parts.append(zlib.decompressobj().decompress(data[start.start() :]))
            except zlib.error:
                continue
        if any(words.encode() in part for part in parts):
            found.add(path.name)
    return found


def copies(scratch):
    return {one.name for one in (scratch.state / "backups").glob("*.db")}


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_text_comes_back_as_it_was(text):
    crc = packing.compute_crc(text)
    for known in (crc, None):
        assert packing.unpack(packing.pack(text), known) == packing.unpack(text.encode(), known) == text
    assert packing.unpack(packing.pack(text), crc ^ 1) == packing.unpack(text.encode(), crc ^ 1) == ""


def test_a_new_text_is_compressed_at_once_from_256_characters_on():
    assert packing.pack_new("ä" * 255) == "ä" * 255
    text = WORDS * 3
    stored = packing.pack_new(text)
    assert isinstance(stored, bytes)
    assert len(stored) < len(text) / 2
    assert packing.unpack(stored, packing.compute_crc(text)) == text


def test_old_turns_are_kept_compressed_when_their_transcript_is_deleted(scratch):
    before = scratch.json("session", "messages", "one")
    prune(scratch, LATER - timedelta(days=100))
    assert kinds(scratch) == ["text", "text"]
    prune(scratch)
    assert kinds(scratch) == ["blob", "blob"]
    next(scratch.sessions.glob("*")).unlink()
    scratch.json("run", "--once")
    shown = scratch.json("session", "show", "session:one")
    assert shown["messages"] == before
    assert (shown["texts"], [one["deleted"] for one in shown["transcripts"]]) == ({"kept": 2}, [1])
    assert "(deleted)" in scratch.run("session", "show", "one").stdout
    assert WORDS.strip() in scratch.json("search", "window functions")[0]["snippet"]
    (scratch.state / "index.db").unlink()
    assert WORDS.strip() in scratch.json("search", "window functions")[0]["snippet"]
    sizes = reads.ask(scratch.state / "memoryd.db", vault.measure)
    stored = sum(row[0] for row in scratch.query("SELECT octet_length(text) FROM turn"))
    assert sizes == {"turns": 2, "bytes": stored, "compressed": 2, "without_transcript": 1}
    assert stored < len(WORDS) * 3
    assert scratch.json("job", "run", "sleep", "--force")["state"] == "succeeded"
    assert "PostgreSQL 16" in scratch.core + "".join(scratch.dailies().values())


def test_what_is_forgotten_is_in_no_compressed_byte_either(scratch):
    prune(scratch)
    assert holders(scratch, "window functions") == {"memoryd.db", *copies(scratch)}
    scratch.json("forget", "--yes", "session:on")
    assert holders(scratch, "window functions") == set()
    (listed,) = scratch.json("session", "list")
    assert (listed["turns"], listed["forgotten"]) == (2, 2)
    assert "2 forgotten" in scratch.run("session", "show", "one").stdout


def test_a_secret_that_is_found_late_is_in_no_compressed_byte_either(scratch):
    prune(scratch)
    assert holders(scratch, SECRET) == {"memoryd.db", *copies(scratch)}
    scratch.write_config(scrub={"secrets": "redact"})
    scratch.json("scrub", "--again")
    assert holders(scratch, SECRET) == set()
    assert "[REDACTED:" in scratch.json("session", "messages", "one")[0]["text"]


def test_texts_older_than_the_retention_go_from_rows_and_index(scratch):
    scratch.append([message("user", "The new office is in Malmö.", at=LATER - timedelta(days=1))], "two")
    scratch.json("run", "--once")
    assert scratch.json("search", "window functions")
    scratch.json("job", "run", "sleep", "--force")
    with in_process(scratch) as app:
        importing = history.request(app.engine, app.clock, "demo", {"since": "", "search_only": True})
    prune(scratch, turns=timedelta(days=30))
    assert scratch.query("SELECT count(*) FROM turn WHERE withheld = 'expired'") == [(0,)], "the import needs them"
    scratch.json("job", "cancel", importing)
    prune(scratch, turns=timedelta(days=30))
    assert scratch.query("SELECT withheld, text = '' FROM turn ORDER BY id") == [
        ("expired", 1),
        ("expired", 1),
        (None, 0),
    ]
    assert [hit for hit in scratch.json("search", "window functions") if hit["tier"] == "session"] == []
    assert scratch.json("verify")["ok"]
    # What is read again, because its file was rewritten, does not come back.
    path = scratch.sessions / "one.jsonl"
    path.write_text(path.read_text() + "\n", encoding="utf-8")
    scratch.json("run", "--once")
    assert scratch.json("session", "show", "one")["texts"] == {"expired": 2}
