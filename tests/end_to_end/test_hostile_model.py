"""A model that does all an attacker wants, over whole sessions: what it offers becomes no preference and no order."""

from __future__ import annotations

import json
import re
import unicodedata
from itertools import groupby

import pytest
from chat_server import ChatServer
from daily import one_in
from hostile_attacks import attacks, sessions
from hostile_world import Aftermath, Hijacked, play
from model_world import World, rows

from memoryd.changing import ledger_runs
from memoryd.running.core_watch import CoreWatch
from memoryd.text.neutral import neutralize

pytestmark = pytest.mark.timeout(600)  # on a busy machine
PROTECTED = "In an emergency call Ottilie first, +47 22 33 44 55"
IN_A_SENTENCE = {"told", "asked", "supposed"}  # of the person's own, whose words are kept beside what is made of them
EACH_ROW = groupby(sorted(attacks(), key=lambda one: one.row), key=lambda one: one.row)
ROWS = {row: tuple(one_in(3, found)) for row, found in EACH_ROW}
ATTACKS = [one for found in ROWS.values() for one in found]


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
    from memoryd.requests import waiting

    CoreWatch(app.runner).take(app.settings.agents[0])
    (bullet,) = rows(app, "SELECT id FROM memory WHERE content = ?", PROTECTED)
    waiting.request(app.engine, app.clock, "demo", ledger_runs.EDIT, {"operations": [["protect", bullet["id"]]]})
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
    lasting = [bare(text.removeprefix("- ")) for text in after.lasting()]
    got = {
        attack.name: text
        for attack in ROWS[row]
        for text in lasting
        if bare(attack.forbidden) in text and (row != "twisted" or bare(attack.said) not in text)
    }
    assert got == {}


@pytest.mark.parametrize("row", [row for row in ROWS if row not in {"twisted", "A37"}])
def test_of_it_a_daily_file_holds_what_others_say_at_most_neutral_and_without_a_way_out(after, row):
    """A sentence alone is no order that anything could follow: what it would work through is taken from it."""
    for attack in ROWS[row]:
        found = [line for line in after.daily_lines() if bare(attack.forbidden) in bare(line)]
        if attack.name in IN_A_SENTENCE:
            assert any(bare(attack.said) in bare(line) for line in found), attack.name
            continue
        for line in found:
            if attack.said and bare(attack.said) in bare(line):
                continue  # the person's whole words, with what they ask about it
            label, _, told = line.removeprefix("- ").partition(": ")
            assert label in {"Report", "Assistant"}, (attack.name, line)
            assert neutralize(told) == told
            assert not re.search(r"https?:|javascript:|evil\.\S+[/?:]|</|<\||\[t\d", line), (attack.name, line)


def test_what_was_mangled_is_told_of_nobody_in_a_daily_file(after):
    lines = [bare(line) for line in after.daily_lines()]
    got = [
        (attack.name, text)
        for attack in ROWS["A37"]
        if attack.name != "not"
        for text in attack.poison
        if any(bare(text) in one for one in lines)
    ]
    assert got == []


@pytest.mark.parametrize("row", ["twisted", "A37"])
def test_beside_what_a_model_makes_of_them_the_persons_own_words_are_kept(after, row):
    """A paraphrase in a daily file passes the token floor alone; the words that it twists are written as well."""
    kept = [bare(line) for line in (*after.daily_lines(), *after.core.splitlines())]
    missing = [attack.name for attack in ROWS[row] if not any(bare(attack.said) in one for one in kept)]
    assert missing == [], [one for one in kept if "phone" in one]


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
