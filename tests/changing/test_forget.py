"""`forget`: a memory, or all that a session said, is in no byte any more but the transcript's."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from edited_world import World
from facts_world import store_on
from ingest_world import SESSION, claude
from scratch import STARTED, Scratch, filler, message, said
from sweep import KILLED, Point, forked

import memoryd
from memoryd.changing import forgetting, ledger_runs
from memoryd.changing.written_blocks import find_written_blocks
from memoryd.daemon.once import read_all, run_once
from memoryd.database import audit, profile, reads, runs, sqlite, texts, turns
from memoryd.errors import StateError
from memoryd.files import regular
from memoryd.ledger import audit as chain
from memoryd.ledger.facts import NewFact, ProfileEntry, ProfileSection
from memoryd.ledger.forgetting import ALONE
from memoryd.ledger.memory import Ending
from memoryd.ledger.operation import Merge, Update, apply
from memoryd.ledger.text_removal import TextRemoval
from memoryd.running import retry
from memoryd.tiers import daily
from memoryd.worker.client import Worker

TABS = "I prefer tabs over spaces in all Makefiles"
POSTGRES = "We decided to keep the orders in PostgreSQL 16"
SUITE = "Please always run the whole test suite before every commit"


ECHO = (
    ("user", "Yes: we decided to keep the orders in PostgreSQL 16, because the reports need window functions."),
    ("assistant", "So it stays."),
)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """An installation that has slept over one session, once for all tests of this module."""
    made = World(tmp_path_factory.mktemp("forget") / "scratch")
    with made.open():
        run_once(made.app)
        made.take()
        made.sleep()
        made.take()
    return made.scratch


def moved(root):
    """The world of a copied installation."""
    made = object.__new__(World)
    made.scratch = Scratch.at(root)
    made.path = made.scratch.workspace / "MEMORY.md"
    return made


@pytest.fixture
def world(tmp_path, template):
    shutil.copytree(template.root, tmp_path / "scratch")
    made = moved(tmp_path / "scratch")
    made.scratch.config.write_text(made.scratch.config.read_text().replace(str(template.root), str(made.scratch.root)))
    with made.open():
        yield made


def holders(world, *words):
    """Files that hold one of these words, in any case; the transcripts are the agent's own."""
    return [
        (str(path.relative_to(world.scratch.root)), word)
        for path in sorted(world.scratch.root.rglob("*"))
        if path.is_file() and "/sessions/" not in str(path)
        for word in words
        if word.lower().encode() in path.read_bytes().lower()
    ]


def forget(world, **target):
    row = world.do(forgetting.KIND, **target)
    assert row["state"] == "succeeded", row
    assert world.problems() == []
    return row["receipt"][forgetting.KIND]


def the_session(world):
    return world.scratch.query("SELECT id FROM session ORDER BY seen_at, id")[0][0]


def saying(world, words):
    return next(memory for memory in world.live() if words in memory.content)


def cite(world, memory, session):
    """Let a memory stand on all turns of another session as well."""
    with sqlite.begin_read(world.app.engine) as connection:
        seqs = [row[0] for row in connection.exec_driver_sql("SELECT seq FROM turn WHERE session_id = ?", (session,))]
        cites = turns.build_sources(connection, session, seqs)
    done(world, Update(memory.id, cites=cites))


def done(world, operation):
    """Carry an operation out in the ledger alone; what it changed."""
    held = {memory.id: memory for memory in world.live()}
    now = world.app.clock.text()
    with sqlite.begin_write(world.app.engine) as connection:
        changes = apply(held, [operation], agent_id="demo", now=now, new_hex=world.app.runner.new_id)
        audit.record(connection, changes, chain.AuditStamp(now, "demo", "human"))
    return changes


# --- a memory ---


@pytest.mark.parametrize("what", ["memory", "session"])
def test_the_dry_run_and_the_run_name_every_file_that_loses_text(world, what):
    def texts():
        found = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.md")}
        return {name: text for name, text in found.items() if "backup/" not in name and "NOW-" not in name}

    folder = world.scratch.workspace
    world.do("rollover")
    target = saying(world, "tabs").id if what == "memory" else the_session(world)
    before = texts()
    world.app.close()
    planned = world.scratch.json("forget", target, "--dry-run")["lost"]
    assert texts() == before
    shown = world.scratch.run("forget", target, "--yes").stdout
    lost = {name: Counter(text.split("\n")) - Counter(texts()[name].split("\n")) for name, text in before.items()}
    lost = {name: sum(1 for line in one.elements() if line) for name, one in lost.items() if one}
    assert lost == planned, "headings that go count too"
    assert set(planned) >= {"MEMORY.md", ".continuum/memory/RECENT.md"}
    counted = [f"{name} lost text in {count} line{'s' * (count > 1)}" for name, count in planned.items()]
    assert sorted(line for line in shown.splitlines() if " lost " in line) == sorted(counted)


def test_a_memory_is_in_no_byte_any_more_and_only_it(world):
    tabs, before = saying(world, "tabs"), world.rows()
    backup = world.scratch.workspace / ".continuum/memory/backup/run-old/MEMORY.md"
    backup.parent.mkdir(parents=True)
    backup.write_text(world.text())
    assert {path for path, _ in holders(world, TABS)} >= {"state/memoryd.db", "workspace/MEMORY.md"}
    told = forget(world, memory=tabs.id)
    assert holders(world, "my name is Ottilie", TABS) == []
    assert told["memories"] == {tabs.id: {"became": "erased", "why": forgetting.forgetting.NAMED}}
    assert (told["copies"]["files"], told["left"]) == (1, [])
    assert told["beside"]["sessions"] == [the_session(world)]
    assert backup.read_text().count("- ") == 5
    dailies = "".join(world.scratch.dailies().values())
    assert all(words in text for words in (POSTGRES, SUITE) for text in (world.text(), dailies))
    assert [row for row in world.rows() if row[0] != tabs.id] == [row for row in before if row[0] != tabs.id]
    assert [(row[2], row[8]) for row in world.rows() if row[0] == tabs.id] == [("", Ending.ERASED)]
    assert world.audited()[-4:].count(("human", "forget", tabs.id)) == 1
    assert {actor for actor, operation, _ in world.audited() if operation == "forget"} == {"human"}


def test_a_heading_of_memoryd_goes_with_its_last_line_and_one_of_a_person_stays(world):
    own, end = "\n## Mine\n\n- I like the moon over the harbour at night best.\n\n## Later\n", "\n## Events\n"
    world.write(world.text() + own + "\n## Learnings\n\n- The kettle in the yard needs ten minutes.\n" + end)
    world.take()
    told = {memory.heading: memory for memory in world.live() if memory.heading in {"Mine", "Learnings", "Decisions"}}
    assert len([memory for memory in world.live() if memory.heading == "Decisions"]) == 1
    for memory in told.values():
        forget(world, memory=memory.id)
    headings = [line for line in world.text().splitlines() if line.startswith("#")]
    assert "## Preferences" in headings
    assert headings[-3:] == ["## Mine", "## Later", "## Events"], "the last one was empty before"
    assert not {"## Decisions", "## Learnings"}.intersection(headings)


def test_what_a_memory_said_before_goes_with_it(world):
    tea = world.id_of("another old one, about tea")
    world.write(world.text().replace("about tea", "about green tea from Uji"))
    world.take()
    fact = store_on(world.app.engine, world.scratch.workspace, world.app.clock).create(
        [NewFact("Another old one,  about tea.", "preference", 0.9)]
    )
    told = forget(world, memory=tea)
    assert set(told["memories"]) == {tea, fact.outcomes[0].fact.id}
    assert holders(world, "another old one", "uji") == []


def test_with_a_relative_date_goes_the_day_that_was_added_to_it(world):
    words = "Remember that I moved to Zanzibar yesterday"
    world.scratch.append([message("user", f"{words}.", 40), filler(minute=41)], name="two")
    run_once(world.app)
    moved_to = saying(world, "Zanzibar")
    assert (
        moved_to.content.removeprefix(f"User: {words} (").removesuffix(").") == f"{STARTED.date() - timedelta(days=1)}"
    )
    assert words in world.text()
    forget(world, memory=moved_to.id)
    assert holders(world, "Zanzibar") == []


def test_what_another_memory_said_before_it_was_reworded_goes_with_it(world):
    rule = saying(world, "never deploy").id
    world.write(world.text().replace("never deploy on a Friday", "never deploy on a Monday"))
    world.take()
    assert saying(world, "never deploy").id == rule
    store = store_on(world.app.engine, world.scratch.workspace, world.app.clock)
    forget(world, memory=store.create([NewFact("deploy on a Friday", "behavior", 0.9)]).outcomes[0].fact.id)
    assert holders(world, "Friday") == []
    assert saying(world, "never deploy on a Monday").id == rule


def test_what_was_merged_with_it_comes_back_into_the_file(world):
    old, rule = saying(world, "an old one"), saying(world, "never deploy")
    merged = done(world, Merge((old.id, rule.id), "an ancient thing that Ottilie ships on Saturdays alone"))[0].after
    world.write(world.text().replace(f"- {rule.content}\n", "").replace(old.content, merged.content, 1))
    world.take()
    assert world.problems() == []
    told = forget(world, memory=old.id)
    assert {one: became["became"] for one, became in told["memories"].items()} == {
        old.id: "erased",
        merged.id: "erased",
        rule.id: "restored",
    }
    assert f"- {rule.content}\n" in world.text()
    assert holders(world, "an ancient thing") == []


def test_it_does_not_come_back_unless_it_is_said_anew(world):
    forget(world, memory=saying(world, "tabs").id)
    world.scratch.append([*said(10), filler(minute=41)], name="two")
    run_once(world.app)
    receipts = [json.loads(row[0]) for row in world.scratch.query("SELECT receipt FROM job_run WHERE kind = 'sleep'")]
    assert [one["guard"] for receipt in receipts for one in receipt.get("refused", ())] == ["tombstone"]
    assert TABS not in world.text()
    world.scratch.append([*said(60), filler(minute=70)], name="three")
    clock = world.app.clock
    object.__setattr__(clock, "now", lambda: STARTED + timedelta(minutes=80))
    run_once(world.app)
    assert TABS in world.text()


def test_a_protected_memory_is_let_go_of_first(world):
    rule, before = saying(world, "tabs").id, world.text()
    world.own("protect", rule)
    row = world.do(forgetting.KIND, memory=rule)
    assert row["state"] == "declined"
    assert all(words in row["why"] for words in (rule, "unprotect"))
    assert world.do(forgetting.KIND, session=the_session(world))["state"] == "declined"
    assert world.text() == before
    world.own("unprotect", rule)
    forget(world, memory=rule)


def test_no_way_leads_back(world):
    tabs, sleep = saying(world, "tabs").id, world.scratch.query("SELECT id FROM job_run WHERE kind = 'sleep'")[0][0]
    entry = world.scratch.query("SELECT max(id) FROM audit")[0][0]
    forget(world, memory=tabs)
    mine = world.scratch.query("SELECT id FROM job_run WHERE kind = 'forget'")[0][0]
    for options, why in (({"run": sleep, "memory": tabs}, f"{tabs} erased"), ({"run": mine}, mine)):
        row = world.do(ledger_runs.ROLLBACK, **options)
        assert row["state"] == "declined"
        assert why in row["why"]
        assert "cannot be brought back" in row["why"]
    row = world.do(ledger_runs.ROLLBACK, to=entry)
    assert (row["state"], tabs in row["receipt"]["rollback"]["stayed"]) == ("skipped", True)
    row = world.own("restore", tabs)
    assert row["state"] == "declined"
    assert "erased" in row["why"]
    with reads.open_reader(world.app.database) as reader:
        history = reads.read_history(reader, "demo", tabs)
    assert [(one["operation"], one["content"], one["ended_as"]) for one in history] == [
        ("add", None, None),
        ("forget", "", "erased"),
    ]
    assert holders(world, TABS) == []


def test_a_rollback_takes_back_the_rest_of_a_run_whose_line_was_forgotten(world):
    tabs, sleep = saying(world, "tabs").id, world.scratch.query("SELECT id FROM job_run WHERE kind = 'sleep'")[0][0]
    forget(world, memory=tabs)
    row = world.do(ledger_runs.ROLLBACK, run=sleep)
    assert row["state"] == "succeeded", row["why"]
    assert tabs in row["receipt"]["rollback"]["stayed"]
    assert "PostgreSQL" not in world.text()
    assert "PostgreSQL" not in "".join(world.scratch.dailies().values())
    assert holders(world, TABS) == []


def writers(world):
    """The run behind each entry of the daily files, as a dream knows them; None where it knows none."""
    found = {}
    for name, text in world.scratch.dailies().items():
        data = text.encode()
        with sqlite.begin_read(world.app.engine) as connection:
            written = find_written_blocks(connection, "demo", f"memory/{name}", data)
        for at, entry in daily.split_pieces(data):
            found[entry] = next((one.run_id for one in written if one.first <= at < one.end), None)
    return found


def test_what_stays_of_a_block_keeps_its_author_each_time(world):
    before = writers(world)
    assert len(before) > 5
    assert None not in before.values()
    for words in ("tabs", "PostgreSQL"):
        forget(world, memory=saying(world, words).id)
        after = writers(world)
        assert after == {entry: run for entry, run in before.items() if entry in after}
        assert len(after) < len(before)
        before = after
    assert holders(world, "my name is Ottilie", TABS, POSTGRES) == []
    forget(world, session=the_session(world))
    assert [text.count("## ") for text in world.scratch.dailies().values()] == [0]


def test_a_line_that_a_person_adds_to_such_a_block_is_not_taken_for_the_runs(world):
    forget(world, memory=saying(world, "tabs").id)
    ((name, text),) = world.scratch.dailies().items()
    (world.scratch.workspace / "memory" / name).write_text(text + "- a line of a person's\n")
    after = writers(world)
    assert after.pop("a line of a person's") is None
    assert None not in after.values()
    (world.scratch.workspace / "memory" / name).write_text(text.replace(SUITE, "Never run the suite"))
    assert set(writers(world).values()) == {None}


WALRUS = (
    ("user", "Is the walrus-umbrella build in src/walrus.py red today?"),
    ("assistant", "The walrus-umbrella build was red: src/walrus.py line 44 failed, I fixed the parser there."),
)


def slept_apart(world):
    """Another session, of which a sleep leaves nothing but a block; its id and that of the sleep."""
    core, before = world.text(), {row[0] for row in world.scratch.query("SELECT id FROM job_run")}
    world.scratch.append([*(message(role, text, 40) for role, text in WALRUS), filler(minute=41)], name="two")
    run_once(world.app)
    (sleep,) = {row[0] for row in world.scratch.query("SELECT id FROM job_run WHERE kind = 'sleep'")} - before
    assert world.text() == core
    assert "walrus" in "".join(world.scratch.dailies().values())
    return world.scratch.query("SELECT session_id FROM job_run WHERE id = ?", sleep)[0][0], sleep


def rolled_back(world, **target):
    row = world.do(ledger_runs.ROLLBACK, **target)
    assert row["state"] == "succeeded", row
    return row["id"]


def test_no_rollback_of_a_rollback_brings_a_block_back(world):
    session, sleep = slept_apart(world)
    daily = next((world.scratch.workspace / "memory").glob("*.md"))
    conflict = daily.with_name(f"{daily.name}.conflict-deadbeef")
    conflict.write_bytes(daily.read_bytes())
    back = rolled_back(world, run=sleep)
    kept = world.scratch.workspace / ".continuum/memory/backup" / back / daily.name
    whole = kept.read_bytes()
    forget(world, session=session)
    assert POSTGRES in kept.read_text()  # of the same file another session's block stays
    assert POSTGRES in conflict.read_text()
    assert holders(world, "walrus") == []
    kept.write_bytes(whole)  # as somebody has it who puts an old copy of the workspace back
    marks = world.scratch.query("SELECT consumer, seq FROM watermark WHERE session_id = ? ORDER BY 1", session)
    rolled_back(world, run=back)
    assert [name for name, _ in holders(world, "walrus")] == [str(kept.relative_to(world.scratch.root))]
    assert world.scratch.query("SELECT consumer, seq FROM watermark WHERE session_id = ? ORDER BY 1", session) == marks
    assert world.problems() == []


@pytest.mark.parametrize("is_forgotten", [True, False], ids=["forgotten", "edited"])
def test_a_rollback_is_not_reverted_if_its_lines_of_the_day_cannot_come_back(world, is_forgotten):
    tabs = saying(world, "tabs").id
    _, sleep = slept_apart(world)
    back = rolled_back(world, run=sleep)
    daily = next((world.scratch.workspace / "memory").glob("*.md"))
    if is_forgotten:
        forget(world, memory=tabs)
    else:
        daily.write_text(daily.read_text().replace("tabs", "tabulators"))
    before = daily.read_text()
    row = world.do(ledger_runs.ROLLBACK, run=back)
    assert row["state"] == "declined", row
    assert "cannot be put back" in row["why"], row
    assert daily.read_text() == before
    assert world.problems() == [] or not is_forgotten
    run_once(world.app)
    assert "walrus" in daily.read_text(), "the next sleep wrote it again"


def test_behind_an_entry_of_the_audit_all_is_taken_back_but_forgetting(world):
    start = world.scratch.query("SELECT max(id) FROM audit")[0][0]
    session, _ = slept_apart(world)
    tabs = saying(world, "tabs").id
    forget(world, session=session)
    forget(world, memory=tabs)
    world.write(world.text() + "- mine, later\n")
    world.take()
    marks = world.scratch.query("SELECT session_id, consumer, seq FROM watermark ORDER BY 1, 2")
    mine = world.scratch.query("SELECT id FROM job_run WHERE kind = 'forget' AND session_id IS NULL")
    for (run_id,) in mine:
        row = world.do(ledger_runs.ROLLBACK, run=run_id)
        assert (row["state"], "cannot be brought back" in row["why"]) == ("declined", True)
    row = world.do(ledger_runs.ROLLBACK, to=start)
    assert row["state"] == "succeeded", row
    assert tabs in row["receipt"]["rollback"]["stayed"]
    assert "mine, later" not in world.text()
    assert holders(world, "walrus", TABS) == []
    assert world.scratch.query("SELECT session_id, consumer, seq FROM watermark ORDER BY 1, 2") == marks
    assert [row[8] for row in world.rows() if row[0] == tabs] == [Ending.ERASED]
    assert world.problems() == []


def test_what_is_left_of_a_sentence_is_not_remembered_as_one(world):
    world.scratch.append([message("user", "On my boat: I prefer rope over chain, always.", 44)], name="two")
    read_all(world.app)
    store = store_on(world.app.engine, world.scratch.workspace, world.app.clock)
    forget(world, memory=store.create([NewFact("I prefer rope over chain", "preference", 0.9)]).outcomes[0].fact.id)
    assert world.scratch.query("SELECT text FROM turn ORDER BY id DESC LIMIT 1") == [
        ("On my boat: [forgotten], always.",)
    ]
    world.scratch.append([filler(minute=45)], name="two")
    run_once(world.app)
    assert "boat" not in world.text() + "".join(world.scratch.dailies().values())


# --- a session ---


def test_a_session_is_in_no_byte_any_more_and_its_rows_stay(world):
    session = the_session(world)
    columns = "SELECT seq, record_id, role, tokens, first_byte, last_byte, sha256 FROM turn ORDER BY seq"
    rows = world.scratch.query(columns)
    told = forget(world, session=session)
    assert holders(world, "postgresql", "ottilie", "whole test suite", "nightly build") == []
    assert world.scratch.query(columns) == rows
    assert world.scratch.query("SELECT DISTINCT text, withheld FROM turn") == [("", "forgotten")]
    assert (told["counts"]["turns"], told["counts"]["summaries"], told["counts"]["blocks"]) == (7, 1, 1)
    assert {one["became"] for one in told["memories"].values()} == {"erased"}
    assert [memory.content for memory in world.live()] == [
        *("an old one", "another old one, about tea", "never deploy on a Friday"),
    ]
    assert ("human", "forget", f"session:{session}") in world.audited()
    assert world.scratch.query("SELECT DISTINCT consumer, seq FROM watermark ORDER BY 1") == [
        ("facts", 7),
        ("sleep", 7),
    ]
    assert world.scratch.query("PRAGMA freelist_count") == [(0,)]
    row = world.do(ledger_runs.ROLLBACK, run=world.scratch.query("SELECT id FROM job_run WHERE kind = 'sleep'")[0][0])
    assert (row["state"], row["receipt"]["rollback"]["memories"]) == ("succeeded", [])
    assert holders(world, "postgresql") == []


def test_the_branch_of_a_session_goes_with_it(world):
    session = the_session(world)
    world.scratch.change("UPDATE session SET branch = 'fix/ottilie-leaves'")
    forget(world, session=session)
    assert world.scratch.query("SELECT DISTINCT branch FROM session") == [(None,)]
    assert holders(world, "ottilie-leaves") == []


def test_what_somebody_wrote_into_its_block_stays(world):
    path = next((world.scratch.workspace / "memory").glob("*.md"))
    path.write_text(path.read_text().replace("- Noted:", "- mine: call the plumber\n- Noted:"))
    told = forget(world, session=the_session(world))
    assert told["counts"]["blocks"] == 1
    assert [line for line in path.read_text().splitlines() if line.startswith("- ")] == ["- mine: call the plumber"]
    assert holders(world, "postgresql", "ottilie") == []


def test_what_a_person_wrote_stays_where_it_only_quotes_the_session(world):
    path = next((world.scratch.workspace / "memory").glob("*.md"))
    line = next(line for line in path.read_text().splitlines() if POSTGRES in line)
    mine = f"\n## Mine (23:00)\n\nThey told me that {line.partition(': ')[2].rstrip('.')} and I never do.\n"
    path.write_text(path.read_text() + mine)
    tabs = saying(world, "tabs")
    longer = f"Anna thinks that {tabs.content.removeprefix('User: ').rstrip('.')}, and the pager rings on Mondays"
    world.write(world.text() + f"- {longer}\n")
    world.take()
    other = saying(world, "pager").id
    told = forget(world, memory=tabs.id)
    assert f"- {longer}\n" in world.text()
    assert told["beside"]["memories"].count(other) == 1
    forget(world, session=the_session(world))
    assert path.read_text().endswith(mine)
    assert f"- {longer}\n" in world.text()


def test_what_another_session_says_too_stays(world):
    session = the_session(world)
    world.scratch.append([message(role, text, 40) for role, text in ECHO], name="two")
    read_all(world.app)
    postgres, other = saying(world, POSTGRES), world.scratch.query("SELECT id FROM session ORDER BY id DESC")[0][0]
    cite(world, postgres, other)
    told = forget(world, session=session)
    assert told["memories"][postgres.id]["became"] == "kept"
    assert saying(world, POSTGRES).sources[0].session == other
    assert [one.content for one in world.live()] == [
        *("an old one", "another old one, about tea", "never deploy on a Friday", postgres.content),
    ]
    assert world.scratch.query("SELECT count(*) FROM turn WHERE session_id = ? AND text <> ''", other) == [(2,)]
    forget(world, session=other)
    assert holders(world, "postgresql") == []


def test_its_records_are_never_read_again_and_later_ones_are(world):
    session = the_session(world)
    forget(world, session=session)
    path = world.scratch.sessions / "one.jsonl"
    data = path.read_bytes()
    copy = path.with_name("copy.jsonl")
    for act in (
        lambda: path.write_bytes(b""),
        lambda: path.write_bytes(data),
        lambda: path.write_bytes(data.replace(b'": "', b'":  "')),  # the same records in other bytes
        lambda: copy.write_bytes(data),
        lambda: (copy.unlink(), path.rename(copy), copy.rename(path)),
        world.app.runner.recover,
    ):
        act()
        run_once(world.app)
        assert world.scratch.query("SELECT session_id, seq, record_id, at, text FROM turn WHERE text <> ''") == []
    world.scratch.append([message("user", "I prefer rope over chain on my boat.", 44), filler(minute=45)])
    run_once(world.app)
    assert world.scratch.query("SELECT count(*) FROM turn WHERE text <> ''") == [(2,)]
    assert "rope over chain" in world.text()
    assert holders(world, "postgresql") == []
    assert world.problems() == []


def test_a_record_with_an_id_is_known_again_in_other_bytes(world):
    record = message("user", "My boat is called Albatros.", 44, uuid="0b1a9c1e-9d1f-4c51-8f4e-6a3b1c2d3e4f")
    path = world.scratch.append([record], name="two")
    read_all(world.app)
    forget(world, session=world.scratch.query("SELECT session_id FROM turn ORDER BY id DESC")[0][0])
    for text in (json.dumps(record | {"more": 1}), json.dumps(record | {"content": "It is the Albatros."})):
        path.write_text(text + "\n")
        read_all(world.app)
        assert holders(world, "albatros") == []


def test_lines_of_a_now_file_are_never_read_again_and_later_ones_are(world):
    path = world.scratch.workspace / ".continuum/memory/NOW-2026-03-04T08-00.md"
    path.write_text("## User: My boat is called Albatros.\n\n## Agent: A fine name.\n")

    def read():
        os.utime(path, (STARTED.timestamp(), STARTED.timestamp()))
        world.app.ingest.documents.forget({session for (session,) in world.scratch.query("SELECT id FROM session")})
        run_once(world.app)
        sql = "SELECT text FROM turn WHERE text <> '' AND typeof(text) = 'text' AND seq < 9 ORDER BY id"
        return [row[0] for row in world.scratch.query(sql)]

    assert read()[-2:] == ["My boat is called Albatros.", "A fine name."]
    session = world.scratch.query("SELECT session_id FROM turn ORDER BY id DESC")[0][0]
    forget(world, session=session)
    for text in (path.read_text() + "\n", path.read_text().replace("## Agent", "It sails.\n\n## Agent")):
        path.write_text(text)
        assert "Albatros" not in " ".join(read())
    assert read()[-1] == "It sails."
    assert [name for name, _ in holders(world, "albatros")] == [f"workspace/.continuum/memory/{path.name}"]


def test_a_database_that_is_made_anew_has_not_learned_it_again(world):
    forget(world, session=the_session(world))
    world.app.close()
    (world.scratch.state / "memoryd.db").write_bytes(b"damaged" * 99)
    with world.open():
        run_once(world.app)
        assert world.scratch.query("SELECT count(*), min(withheld) FROM turn") == [(7, "forgotten")]
        assert holders(world, "postgresql") == []


def test_nor_the_branch_that_its_records_name(world):
    world.app.close()
    settings = world.scratch.config.read_text()
    source = '{"path": "claude/*.jsonl", "format": "claude-code"}, '
    world.scratch.config.write_text(settings.replace('"transcripts": [', f'"transcripts": [{source}'))
    path = world.scratch.workspace / "claude" / f"{SESSION}.jsonl"
    path.parent.mkdir()
    record = json.loads(claude(1, "The boat is called Albatros.")) | {"gitBranch": "fix/ottilie-leaves"}
    path.write_text(json.dumps(record) + "\n")
    branch = f"SELECT branch FROM session WHERE id LIKE '{SESSION}%'"  # noqa: S608
    with world.open():
        read_all(world.app)
        assert world.scratch.query(branch) == [("fix/ottilie-leaves",)]
        forget(world, session=world.scratch.query(branch.replace("branch", "id"))[0][0])
    shutil.rmtree(world.scratch.state / "backups", ignore_errors=True)  # so that the records are read again
    (world.scratch.state / "memoryd.db").write_bytes(b"damaged" * 99)
    with world.open():
        read_all(world.app)
        assert world.scratch.query(branch) == [(None,)]


def test_a_note_that_a_tool_wrote_in_it_goes_with_it(world):
    session, words = the_session(world), "We decided to keep the orders in PostgreSQL 16."
    witness = {"since": "2026"}

    def save(text, **more):
        run_id = runs.new_run_id(world.app.clock.now())
        options = {"day": "2026-03-04", "clock": "09:45", **more}
        row = {"id": run_id, "kind": ledger_runs.SAVE, "agent_id": "demo", "actor": "agent-tool", "trigger": "agent"}
        row |= {"created_at": world.app.clock.text(), "scheduled_for": world.app.clock.text(), "options": options}
        with sqlite.begin_write(world.app.engine) as connection:
            runs.enqueue(connection, row)
            runs.give_text(connection, run_id, text)
        world.app.runner.run_next(only=run_id)
        return run_id

    save(words, witness=witness)
    world.scratch.append([message("user", "What about lunch?", 44)], name="two")
    read_all(world.app)
    unsure = save("The kitchen was painted blue.", witness=witness)
    save("A person writes of PostgreSQL.")
    told = forget(world, session=session)
    text = "".join(world.scratch.dailies().values())
    assert [words in text, "kitchen" in text, "A person writes" in text] == [False, True, True]
    assert told["beside"]["notes"] == [unsure]
    assert told["counts"]["blocks"] == 2


def test_records_without_a_time_are_known_again_as_often_as_they_were_said(world):
    said_twice = {"role": "user", "content": "My boat is called Albatros."}
    path = world.scratch.append([said_twice, said_twice], name="two")
    read_all(world.app)
    session = world.scratch.query("SELECT session_id FROM turn ORDER BY id DESC")[0][0]
    forget(world, session=session)

    def albatros():
        return world.scratch.query("SELECT count(*), sum(text <> '') FROM turn WHERE session_id = ?", session)

    assert albatros() == [(2, 0)]
    world.app.close()
    (world.scratch.state / "memoryd.db").write_bytes(b"damaged" * 99)
    with world.open():
        run_once(world.app)
        assert albatros() == [(2, 0)]
        assert holders(world, "albatros") == []
        with path.open("a") as file:
            file.write(json.dumps(said_twice) + "\n")
        read_all(world.app)
        assert albatros() == [(3, 1)]


# --- wherever it is ---


def test_copies_that_others_keep_lose_it_as_well(world, tmp_path):
    """A state that a restore has put aside, a version somebody has open, a reply that was paid for, what waits."""
    tabs, session = saying(world, "tabs"), the_session(world)
    own = world.scratch.workspace / ".continuum/memory"
    late = (
        own
        / f".late-{regular.compute_digest(world.path.read_bytes())}-{world.path.stat().st_size}-{'0' * 16}-MEMORY.md"
    )
    late.write_bytes(world.path.read_bytes() + b"- somebody wrote this late\n")
    aside = world.scratch.state / "memoryd.replaced-20260304T080000"
    aside.mkdir()
    world.scratch.query("SELECT 1")
    sqlite.empty_log(world.app.engine)
    shutil.copy(world.scratch.state / "memoryd.db", aside / "memoryd.db")
    for kind, state in (("facts", "queued"), ("sleep", "dead")):
        world.scratch.change(
            "INSERT INTO job_run (id, kind, agent_id, session_id, actor, trigger, state, created_at, scheduled_for,"
            " attempt, fence, cancel_requested, tokens_in, tokens_out, reply, refused, receipt, options)"
            " VALUES (?, ?, 'demo', ?, 'memoryd', 'manual', ?, 'x', '2999', 0, 0, 0, 0, 0, ?, ?, '{}', '{}')",
            f"run-{kind}", kind, session, state, json.dumps({"text": f"- {TABS}"}), f"refused: {TABS}",
        )  # fmt: skip
    forget(world, memory=tabs.id)
    assert holders(world, "my name is Ottilie", TABS) == []
    assert "- somebody wrote this late" in world.text()
    assert world.scratch.query("SELECT state FROM job_run WHERE id = 'run-facts'") == [("queued",)]
    engine = sqlite.connect(aside / "memoryd.db")
    with sqlite.begin_read(engine) as connection:
        assert list(chain.check(audit.read_entries(connection, "demo"))) == []
        assert connection.exec_driver_sql("SELECT count(*) FROM turn WHERE text <> ''").scalar_one() == 6
    world.scratch.change(
        "INSERT INTO alarm (kind, agent_id, subject, since, text) VALUES ('waiting', 'demo', 'facts', 'x', 'x')"
    )
    forget(world, session=session)
    assert holders(world, "postgresql", "ottilie") == []
    assert world.scratch.query("SELECT state FROM job_run WHERE id = 'run-facts'") == [("cancelled",)]
    assert world.scratch.query("SELECT count(*) FROM alarm WHERE cleared_at IS NULL") == [(0,)]
    engine.dispose()


def test_another_agent_keeps_what_it_has(world):
    scratch = world.scratch
    with sqlite.begin_write(world.app.engine) as connection:
        connection.exec_driver_sql(
            "INSERT INTO agent VALUES ('other', ?, 1, 0, '2026')", (str(scratch.root / "other"),)
        )
        connection.exec_driver_sql(
            "INSERT INTO session (id, agent_id, native_id, format, state, seen_at, last_turn_at, turns, last_seq,"
            " gauge, counted_seq) VALUES ('s', 'other', 's', 'messages', 'ended', '2026', '2026', 0, 0, '{}', 0)"
        )
        connection.exec_driver_sql(
            "INSERT INTO session_summary VALUES ('s', ?, '[]', '2026', NULL, NULL, NULL)",
            (f"- {saying(world, 'tabs').content}",),
        )
    forget(world, memory=saying(world, "tabs").id)
    assert TABS in scratch.query("SELECT summary FROM session_summary WHERE session_id = 's'")[0][0]


def test_a_section_of_the_profile_loses_what_only_the_session_said(world):
    session = the_session(world)
    read_all(world.app)
    seqs = [row[0] for row in world.scratch.query("SELECT seq FROM turn WHERE session_id = ?", session)]
    texts = ("Works by hand.", "Works by hand. The orders are in PostgreSQL 16.")
    with sqlite.begin_write(world.app.engine) as connection:
        for text, cites in zip(texts, ((), turns.build_sources(connection, session, seqs)), strict=True):
            stamp, entry = chain.AuditStamp("2026", "demo", "memoryd"), ProfileEntry(text, "2026")
            profile.write(connection, stamp, ProfileSection.WORK, entry, cites, world.app.runner.new_id)
    told = forget(world, session=session)
    assert told["counts"]["sections"] == 1
    assert world.scratch.query("SELECT text FROM profile_section") == [("Works by hand.",)]
    assert holders(world, "postgresql") == []
    with sqlite.begin_write(world.app.engine) as connection:
        fact = store_on(world.app.engine, world.scratch.workspace, world.app.clock)
    one = fact.create([NewFact("Works by hand", "knowledge", 0.9)]).outcomes[0].fact.id
    forget(world, memory=one)
    assert world.scratch.query("SELECT text FROM profile_section") == []
    assert holders(world, "works by hand") == []


def test_what_it_took_out_stays_told_however_often_the_rest_fails(world, monkeypatch):
    def fails(engine):
        raise StateError("cannot be rewritten")

    tabs = saying(world, "tabs").id
    with monkeypatch.context() as patch:
        patch.setattr(texts, "rewrite_file", fails)
        patch.setattr(retry, "decide", lambda *_, **__: retry.GiveUp())
        row = world.do(forgetting.KIND, memory=tabs)
    assert row["state"] == "dead"
    assert row["receipt"][forgetting.KIND]["memory"] == tabs


# --- stopped ---

EVERY = 1 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 16


@pytest.mark.parametrize("what", ["memory", "session"])
def test_stopped_at_any_step_the_next_start_completes_it(tmp_path, world, what):
    target = {what: saying(world, "tabs").id if what == "memory" else the_session(world)}
    words = ("my name is Ottilie", TABS) if what == "memory" else ("postgresql", "ottilie", "nightly build")
    backup = world.scratch.workspace / ".continuum/memory/backup/run-old/MEMORY.md"
    backup.parent.mkdir(parents=True)
    backup.write_text(world.text())
    world.app.close()
    template = world.scratch.root

    def one(number):
        root = tmp_path / f"point-{number}"
        shutil.copytree(template, root)
        (root / "memoryd.yaml").write_text((root / "memoryd.yaml").read_text().replace(str(template), str(root)))
        point = Point(number, lambda: (root / "names").write_text(json.dumps(point.names)), kill=True)

        def act():
            opened = moved(root)
            with opened.open(point):
                opened.do(forgetting.KIND, **target)
            (root / "names").write_text(json.dumps(point.names))

        code = forked(act)
        return root, code, json.loads((root / "names").read_text())

    _, code, steps = one(0)
    assert code == 0
    assert {"before:intent", "after:intent", "before:swap", "after:rows", "before:vacuum", "after:vacuum"} <= set(steps)
    chosen = {steps.index(name) + 1 for name in ("after:intent", "after:rows", "after:vacuum")}
    for number in sorted({*range(1, len(steps) + 1, EVERY), *chosen}):
        root, code, names = one(number)
        assert code == KILLED
        is_edited = number % 2 == 1 or names[-1] == "after:intent"
        assert moved(root).scratch.query("SELECT state FROM job_run WHERE kind = 'forget'") == [("running",)]
        after = moved(root)
        if is_edited:  # by somebody, before the next start
            after.path.write_text(after.text() + "- a line of mine\n")
        with after.open():
            run_once(after.app)
            after.take()
            assert ("- a line of mine\n" in after.text()) is is_edited
            assert holders(after, *words) == [], names[-1]
            assert after.problems() == []
            assert after.scratch.query("SELECT state FROM job_run WHERE kind = 'forget'") == [("succeeded",)]
            assert after.scratch.query("SELECT count(*) FROM audit WHERE operation = 'forget'")[0][0] > 0
        shutil.rmtree(root)


# --- by the doors ---


def test_the_commands_tell_no_content_and_what_stays(world):
    world.app.close()
    scratch = world.scratch
    text = scratch.config.read_text().replace('"redact"', '"off"')  # a daemon takes a second to load the rules
    ingest = '"ingest": {"polling": "always", "rescan": "60s"}'  # so that it sees no line before it is told to look
    text = text.replace('"scrub"', f'{ingest}, "scrub"')
    scratch.config.write_text(text.replace('"context_window"', '"privacy": "silo", "context_window"'))
    tabs, session = saying(world, "tabs").id, the_session(world)
    planned = scratch.json("forget", tabs[:9], "--dry-run")
    assert list(planned["memories"]) == [tabs]
    assert planned["texts"] == {tabs: None}
    assert "bytes, not shown: " in scratch.run("forget", tabs[:9], "--dry-run").stdout
    assert TABS in scratch.core
    for target in ("core_ffffffff", "no-such-session"):
        assert scratch.json("forget", target, code=3)["code"] == "not_found"
    scratch.json("core", "protect", tabs)
    assert scratch.json("forget", tabs, "--yes", code=4)["code"] == "refused"
    scratch.json("core", "unprotect", tabs)
    scratch.append([message("user", "My boat is called Albatros.", 44)], name="two")
    with scratch.daemon():
        assert scratch.json("forget", tabs, code=2)["message"].startswith("there is no terminal to ask on")
        done = scratch.run("forget", tabs, "--yes")
        assert done.returncode == 0, done.stderr
        assert all(words in done.stdout for words in ("erased", "transcripts", "backup"))
        assert "Ottilie" not in done.stdout
        assert scratch.json("core", "restore", tabs, code=4)["code"] == "refused"
        memory = memoryd.Memory(scratch.workspace, scratch.config)
        told = memory.forget(session)
        assert (told["session"], told["counts"]["turns"]) == (session, 6)
        path = scratch.append([message("user", "And there is no other.", 45)], name="two")
        with path.open("a") as file:
            file.write('{"role": "user", "content": "a line that is not whole')
        other = scratch.query("SELECT session_id FROM turn WHERE text LIKE '%Albatros%'")[0][0]
        assert memory.forget(other)["counts"]["turns"] == 2
        assert scratch.json("session", "messages", session) == []
        assert scratch.json("verify")["ok"] is True
    assert holders(world, "ottilie", "albatros") == []


def test_a_dated_copy_has_the_local_day_of_the_forgotten_statement(world):
    zone = "Pacific/Kiritimati" if datetime.now(UTC).hour >= 11 else "Etc/GMT+12"  # there it is another day now
    world.app.close()
    config, scratch = world.scratch.config, world.scratch
    config.write_text(config.read_text().replace('"timezone": "UTC"', f'"timezone": "{zone}"'))
    fact = scratch.json("facts", "add", "The kiln was moved yesterday.")["fact"]["id"]
    yesterday = datetime.now(ZoneInfo(zone)).date() - timedelta(days=1)
    line = f"- The kiln was moved yesterday ({yesterday}).\n"
    path = scratch.workspace / "memory" / "2026-03-02.md"
    path.write_text(f"# Daily Memory: 2026-03-02\n\n{line}- The kiln is hot.\n")
    scratch.json("forget", fact, "--yes")
    assert path.read_text().endswith("\n\n- The kiln is hot.\n")


def test_what_says_something_similar_in_other_words_stays(world):
    other = "- In Makefiles tabs are better than spaces, Ottilie says.\n"
    world.write(world.text() + other)
    world.take()
    world.app.close()
    world.scratch.json("forget", saying(world, "I prefer tabs").id, "--yes")
    assert other in world.text()


def test_a_deleted_fact_names_the_command_that_erases_what_says_it_too(world):
    world.app.close()
    fact = world.scratch.json("facts", "add", "I prefer tabs over spaces in all Makefiles.")["fact"]["id"]
    told = world.scratch.run("facts", "delete", fact[:-1]).stdout
    assert f"memoryd forget {fact} erases the statement wherever" in told


def test_forget_shows_the_earlier_wording_of_a_memory_before_it_goes(world):
    tabs = saying(world, "tabs")
    world.write(world.text().replace(tabs.content, "User: I prefer tabs in Makefiles."))
    world.take()
    assert saying(world, "tabs").id == tabs.id
    world.app.close()
    planned = world.scratch.json("forget", tabs.id, "--dry-run")
    assert planned["texts"][tabs.id] == "User: I prefer tabs in Makefiles."
    assert planned["earlier"] == [{"memory": tabs.id, "content": tabs.content}]
    assert f"\n    earlier: {tabs.content}\n" in world.scratch.run("forget", tabs.id, "--dry-run").stdout
    world.scratch.json("forget", tabs.id, "--yes")
    assert holders(world, TABS) == []


def test_lines_with_most_sentences_of_a_forgotten_statement_go_too(world):
    told = "Sounds great. I only eat gold leaf anyway, haha. No, just kidding."
    line = "I only eat gold leaf anyway, haha. No, just kidding."
    day = world.scratch.workspace / "memory" / "2026-03-02.md"
    day.write_text(f"# Daily Memory: 2026-03-02\n\n- User: {line}\n- Sounds great.\n")
    own = world.scratch.workspace / ".continuum/memory"
    own.mkdir(parents=True, exist_ok=True)
    recent = (own / "RECENT.md").read_text() if (own / "RECENT.md").exists() else ""
    (own / "RECENT.md").write_text(f"{recent}\n- {line}\n")
    (own / "MEMORY-2026-03-02.md").write_text(f"# 2026-03-02\n\n- The oven is hot.\n- {line}\n")
    (own / "archive").mkdir()
    (own / "archive/MEMORY-2026-01-05.md").write_text(f"# 2026-01-05\n\n- {line}\n")  # `memoryd archive` moved it
    world.app.close()
    fact = world.scratch.json("facts", "add", told)["fact"]["id"]
    planned = world.scratch.json("forget", fact, "--dry-run")
    own_files = {f".continuum/memory/{name}": 1 for name in ("RECENT.md", "MEMORY-2026-03-02.md")}
    own_files[".continuum/memory/archive/MEMORY-2026-01-05.md"] = 1
    assert planned["lost"] == {"memory/2026-03-02.md": 1, **own_files}, "also lines with some sentences are announced"
    world.scratch.json("forget", fact, "--yes")
    assert holders(world, "gold leaf", "kidding") == []
    assert day.read_text().endswith("- Sounds great.\n"), "a small part of the statement stays"
    assert (own / "MEMORY-2026-03-02.md").read_text() == "# 2026-03-02\n\n- The oven is hot.\n"


def test_on_a_terminal_it_asks(world, monkeypatch):
    world.app.close()
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    done = world.scratch.run("forget", saying(world, "tabs").id)
    assert (done.returncode, done.stdout) == (130, "")
    assert "you named it" in done.stderr
    assert TABS in world.text()
    tabs, orders = saying(world, "tabs").id, saying(world, "PostgreSQL").id
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    shown = world.scratch.run("forget", orders).stdout
    assert "orders" not in shown, "the result goes to a file"
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    monkeypatch.setattr("io.StringIO", Terminal)
    shown = world.scratch.run("forget", tabs).stdout
    assert re.search(f"^{tabs} erased: .*\n    User: My name .* {TABS[2:]}", shown, re.MULTILINE), shown


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_note_that_says_what_is_forgotten_goes_with_it(world):
    tabs = saying(world, "tabs")
    other = next(one for one in world.live() if one.id != tabs.id and one.kind is tabs.kind)
    done(world, Update(other.id, note=f'asked: "{tabs.content}"'))
    told = forget(world, memory=tabs.id)
    assert holders(world, "my name is Ottilie", TABS) == []
    assert told["memories"][other.id] == {"became": "kept", "why": forgetting.forgetting.NOTED}
    assert [one.note for one in world.live() if one.id == other.id] == [None]


def test_forgetting_and_rollback_work_after_the_text_was_scrubbed_again(world):
    world.app.close()
    scratch, tabs = world.scratch, saying(world, "I prefer tabs")
    scratch.run("scrub", "--again")
    scratch.run("forget", tabs.id, "--dry-run")
    scratch.run("forget", tabs.id, "--yes")
    assert TABS not in world.text()
    added = scratch.json("update", "--append", "The wind arrow turns.")["run"]
    scratch.run("rollback", added)
    assert "wind arrow" not in "".join(path.read_text() for path in scratch.workspace.glob("memory/*.md"))


def test_forget_says_which_memory_a_person_had_edited_and_which_file_loses_text(world):
    world.path.write_text(world.text().replace(TABS, f"{TABS} and scripts"))
    world.take()
    tabs, orders, session = saying(world, "tabs"), saying(world, "PostgreSQL"), the_session(world)
    world.app.close()
    (name,) = world.scratch.dailies()
    planned = world.scratch.json("forget", session, "--dry-run")["memories"]
    assert planned[tabs.id]["why"] == f"{ALONE}; a person had edited it"
    assert planned[orders.id]["why"] == ALONE
    assert f"\nmemory/{name} would lose text in 1 line\n" in world.scratch.run("forget", orders.id, "--dry-run").stdout
    assert f"\nmemory/{name} lost text in 1 line\n" in world.scratch.run("forget", orders.id, "--yes").stdout
    assert f"{tabs.id} erased: {ALONE}; a person had edited it" in world.scratch.run("forget", session, "--yes").stdout


def test_each_daily_file_is_cleaned_once(world, monkeypatch):
    (name,) = world.scratch.dailies()
    cleaned, clean = Counter(), TextRemoval.of_daily
    monkeypatch.setattr(
        TextRemoval, "of_daily", lambda cut, path, data: cleaned.update([(path, data)]) or clean(cut, path, data)
    )
    forget(world, session=the_session(world))
    assert {path: count for (path, _), count in cleaned.items()} == {f"memory/{name}": 1}


def test_the_dry_run_knows_an_edit_that_nobody_has_imported_yet(world):
    (name,) = world.scratch.dailies()
    day, mine = world.scratch.workspace / "memory" / name, "and a remark about bicycles"
    line = next(line for line in day.read_text().splitlines() if TABS in line)
    day.write_text(day.read_text().replace(f"{line}\n", f"{line}\n{mine}\n"))
    world.write(world.text().replace("in all Makefiles.\n", f"in all Makefiles.\n{mine}\n"))
    long_ago = STARTED.timestamp()
    os.utime(world.path, (long_ago, long_ago))
    world.app.close()
    first, second = (world.scratch.json("forget", the_session(world), "--dry-run") for _ in range(2))
    assert first["lost"] == second["lost"]
    assert mine in [row["content"] for row in first["lines"]]


def test_the_dry_run_shows_lines_of_a_person_that_go_with_a_session(world):
    world.do("rollover")
    folder, session = world.scratch.workspace, the_session(world)
    mine = "  A remark about bicycles, with the password Kestrel-Lantern-42."
    for path in (folder / ".continuum/memory").rglob("*.md"):
        line = next((line for line in path.read_text().splitlines() if TABS in line), None)
        if line and "MEMORY_INDEX" not in path.name:
            path.write_text(path.read_text().replace(f"{line}\n", f"{line}\n{mine}\n"))
    world.app.close()
    planned = world.scratch.json("forget", session, "--dry-run")["lines"]
    assert {row["path"].partition("-")[0] for row in planned} == {
        f".continuum/memory/{name}" for name in ("MEMORY", "RECENT.md")
    }
    assert {row["content"][:24] for row in planned} == {"A remark about bicycles,"}
    assert "Kestrel" not in str(planned)
    assert (
        "Copy what is yours first:\n    .continuum/memory/" in world.scratch.run("forget", session, "--dry-run").stdout
    )
    assert "bicycles" not in world.scratch.run("forget", session, "--yes").stdout


def test_the_dry_run_shows_no_line_of_which_the_words_of_a_person_stay(world):
    (name,) = world.scratch.dailies()
    day, session = world.scratch.workspace / "memory" / name, the_session(world)
    stays, goes = "I also bought a red bicycle in Utrecht.", "and a red bicycle"
    text = day.read_text()
    tabs, orders = (next(line for line in text.splitlines() if words in line) for words in (TABS, POSTGRES))
    day.write_text(text.replace(tabs, f"{tabs} {stays}").replace(f"{orders}\n", f"{orders}\n{goes}\n"))
    world.write(world.text().replace(f"{orders}\n", f"{orders}\n{goes}\n"))  # so this line is part of a memory
    world.take()
    world.app.close()
    planned = world.scratch.json("forget", session, "--dry-run")
    assert planned["lines"] == [{"path": f"memory/{name}", "content": goes}]
    world.scratch.run("forget", session, "--yes")
    assert stays in day.read_text()
    assert goes not in day.read_text()


def test_forget_shows_unscanned_lines_without_their_text_and_scans_none_that_it_does_not_show(world, monkeypatch):
    def scan(_worker, texts, *_):
        asked.extend(texts)
        return [None] * len(texts)

    world.do("rollover")
    folder, session, asked = world.scratch.workspace, the_session(world), []
    last = folder / ".continuum" / "memory" / "RECENT.md"
    line = next(line for line in last.read_text().splitlines() if TABS in line)
    last.write_text(last.read_text().replace(f"{line}\n", f"{line}\n  A remark about bicycles.\n"))
    world.app.close()
    config = world.scratch.config
    config.write_text(config.read_text().replace('"secrets": "off"', '"secrets": "redact"'))
    monkeypatch.setattr(Worker, "scan", scan)
    planned = world.scratch.json("forget", session, "--dry-run")
    assert [row["content"] for row in planned["lines"]] == ["(not scanned)"]
    assert asked == ["A remark about bicycles."]
    done = world.scratch.run("forget", session, "--yes")
    assert "the run ended as queued: a text: could not be scanned" in done.stderr
    assert asked.count("A remark about bicycles.") == 1


@pytest.mark.parametrize("what", ["session", "memory"])
def test_a_tag_of_what_is_forgotten_goes_as_long_as_no_other_session_has_it(tmp_path, what):
    scratch = Scratch(tmp_path / "scratch", ingest={"history": "flush"})
    now = datetime.now(UTC) - timedelta(days=1, hours=1)
    fenced = message("assistant", "It prints:\n```\nnever closed", at=now)
    scratch.append([fenced, message("user", "Never push to main of the pump. #zorbtag #pumps", at=now)], "one")
    scratch.append([message("user", "I prefer tea over coffee, always. #pumps", at=now)], "two")
    scratch.run("run", "--once")
    scratch.run("consolidate")
    held = scratch.query("SELECT id FROM memory WHERE content LIKE '%zorbtag%'")[0][0]
    assert {"tags: [pumps, zorbtag]", "## Zorbtag"} <= set(_archived(scratch))
    scratch.json("forget", "--yes", "one" if what == "session" else held)
    scratch.run("consolidate")
    assert "tags: [pumps]" in _archived(scratch)
    assert [path for path in scratch.root.rglob("*") if path.is_file() and b"orbtag" in path.read_bytes()] == [
        scratch.sessions / "one.jsonl"
    ]


@pytest.mark.parametrize("what", ["session", "memory"])
def test_after_something_was_forgotten_the_index_has_the_other_themes_again(tmp_path, what):
    scratch = Scratch(tmp_path / "scratch", ingest={"history": "flush"}, modes={"facts": "off"})
    now = datetime.now(UTC) - timedelta(days=1, hours=1)
    scratch.append([message("user", "Never push to main of the pump. #zorbtag", at=now)], "one")
    scratch.append([message("user", "I prefer tea over coffee, always. #kettles", at=now)], "two")
    scratch.run("run", "--once")
    held = scratch.query("SELECT id FROM memory WHERE content LIKE '%zorbtag%'")[0][0]
    index = scratch.workspace / ".continuum/memory/MEMORY.md"
    assert {"Kettles", "Zorbtag"} <= set(re.findall(r"\[(.+?)\]", index.read_text()))
    scratch.json("forget", "--yes", "one" if what == "session" else held)
    scratch.run("run", "--once")
    assert "Kettles" in re.findall(r"\[(.+?)\]", index.read_text())


def _archived(scratch):
    (path,) = (scratch.workspace / ".continuum/memory").glob("MEMORY-*.md")
    return path.read_text().splitlines()


def test_the_names_and_ids_of_a_sessions_tools_go_with_it(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    scratch.agents[0]["transcripts"][0]["format"] = "claude-code"
    scratch.write_config()
    call = {"type": "tool_use", "id": "toolu_zorbcall", "name": "zorbtool", "input": {}}
    record = {"type": "assistant", "uuid": "a1", "sessionId": "one", "timestamp": "2026-11-01T10:00:00.000Z"}
    scratch.append([record | {"message": {"role": "assistant", "content": [call]}}])
    scratch.run("run", "--once")
    assert scratch.query("SELECT tool_name, tool_call_id FROM turn") == [("zorbtool", "toolu_zorbcall")]
    scratch.json("backup", str(tmp_path / "b"))
    scratch.json("forget", "--yes", "one")
    scratch.json("restore", str(tmp_path / "b"))
    assert scratch.query("SELECT tool_name, tool_call_id FROM turn") == [(None, None)]
    kept = [path for path in scratch.state.rglob("*") if path.is_file() and b"zorb" in path.read_bytes()]
    assert kept == []
