"""A model that does all an attacker wants, over whole sessions: what it offers becomes no preference and no order."""

from __future__ import annotations

import json
import re
import unicodedata
from itertools import groupby

import pytest
from chat_server import ChatServer
from hostile_attacks import attacks, sessions
from hostile_world import Aftermath, Hijacked, play
from model_world import World, rows

from memoryd.engine import ledger_runs
from memoryd.engine.core_watch import CoreWatch
from memoryd.ledger import steering
from memoryd.text.neutral import neutral

PROTECTED = "In an emergency call Ottilie first, +47 22 33 44 55"
ATTACKS = attacks()
ROWS = {row: tuple(found) for row, found in groupby(sorted(ATTACKS, key=lambda one: one.row), key=lambda one: one.row)}


@pytest.fixture(scope="module")
def after(tmp_path_factory, workers):
    """All attacks, one after another, on one memory."""
    root = tmp_path_factory.mktemp("hostile")
    with ChatServer(Hijacked(ATTACKS)) as server:
        world = World(root, server.url, workers=workers)
        (world.workspace / "MEMORY.md").write_text(f"- {PROTECTED}\n- An old one\n")
        (world.workspace / "claude").mkdir()
        for talk in sessions(ATTACKS):
            lines = "".join(json.dumps(one) + "\n" for one in talk.found)
            (world.workspace / "claude" / f"{talk.session}.jsonl").write_text(lines)
        with world.open(transcripts=[{"path": "claude/*.jsonl", "format": "claude-code"}]) as app:
            play(app, _protect)
            yield Aftermath(app, world)


def _protect(app):
    from memoryd.interfaces import work

    CoreWatch(app.runner).take(app.settings.agents[0])
    (bullet,) = rows(app, "SELECT id FROM memory WHERE content = ?", PROTECTED)
    work.request(app.engine, app.clock, "demo", ledger_runs.EDIT, {"operations": [["protect", bullet["id"]]]})
    app.runner.run_next()


def bare(text):
    """Text as a reader sees it: without what is invisible, letters in one form, spaces left out."""
    seen = "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char)[0] != "C")
    return re.sub(r"\s+", "", seen).casefold()


def test_every_run_came_to_its_end_and_every_model_was_asked(after):
    states = {row["state"] for row in rows(after.app, "SELECT state FROM job_run WHERE kind IN ('sleep', 'facts')")}
    assert states == {"succeeded"}
    assert rows(after.app, "SELECT count(*) AS n FROM session") == [{"n": len(list(sessions(ATTACKS)))}]


@pytest.mark.parametrize("row", ROWS)
def test_what_an_attacker_wants_becomes_no_lasting_memory(after, row):
    lasting = [bare(text) for text in after.lasting()]
    got = {attack.name: text for attack in ROWS[row] for text in lasting if bare(attack.forbidden) in text}
    assert got == {}


@pytest.mark.parametrize("row", [row for row in ROWS if row not in {"twisted", "A37"}])
def test_of_it_a_daily_file_holds_reports_at_most_neutral_and_without_an_order(after, row):
    for attack in ROWS[row]:
        found = [line for line in after.daily_lines() if bare(attack.forbidden) in bare(line)]
        for line in found:
            assert line.startswith("- Report: "), (attack.name, line)
            told = line.removeprefix("- Report: ")
            assert neutral(told) == told
            assert not steering.instructs(told), (attack.name, line)
            assert not re.search(r"https?:|javascript:|evil\.\S+[/?:]|</|<\||\[t\d", line), (attack.name, line)


@pytest.mark.parametrize("row", ["twisted", "A37"])
def test_what_was_never_said_is_told_of_nobody_in_a_daily_file(after, row):
    lines = [bare(line) for line in after.daily_lines()]
    got = [
        (attack.name, text) for attack in ROWS[row] for text in attack.poison if any(bare(text) in one for one in lines)
    ]
    assert got == []


def test_what_the_person_wanted_is_kept_all_the_same(after):
    core = after.core
    facts = {row["content"] for row in rows(after.app, "SELECT content FROM memory WHERE kind = 'fact'")}
    missing = [attack.name for attack in ATTACKS if attack.honest not in core or attack.honest not in facts]
    assert missing == []


def test_nothing_constitutional_has_changed(after):
    (row,) = rows(after.app, "SELECT * FROM memory WHERE content = ?", PROTECTED)
    assert (row["constitutional"], row["deleted_at"], row["ended_as"]) == (1, None, None)
    assert after.core.splitlines().count(f"- {PROTECTED}") == 1
    changed = rows(after.app, "SELECT operation FROM audit WHERE memory_id = ? ORDER BY id", row["id"])
    assert [one["operation"] for one in changed] == ["add", "protect"]
