"""The commands of the ledger as programs call them: shapes, exit codes, with and without a daemon."""

import json
import re
import shlex

import pytest
from scratch import Scratch, filler, message, recent, said, until

from memoryd import config
from memoryd.requests import memory_changes

OLD = "# Notes\n\n- an old one\n\n## Rules\n\n- never deploy on a Friday\n"
MEMORY = {
    *("id", "content", "heading", "tags", "constitutional", "importance", "origin_at", "created_at", "tokens", "note"),
}
ENTRY = {
    *("id", "at", "agent_id", "actor", "run_id", "operation", "memory_id", "before", "after", "prev_hash", "hash"),
    *("by", "trigger"),
}


@pytest.fixture(scope="module")
def slept(tmp_path_factory):
    scratch = Scratch(tmp_path_factory.mktemp("ledger") / "scratch")
    (scratch.workspace / "MEMORY.md").write_text(OLD, encoding="utf-8")
    at = recent()
    scratch.append([*said(at=at), filler(at=at)])
    scratch.json("run", "--once")
    return scratch


def sleep_once(scratch):
    """Let a new session sleep; return the id of the run."""
    at = recent()
    scratch.append([*said(at=at), filler(at=at)])
    scratch.json("run", "--once")
    return next(row["id"] for row in scratch.json("job", "list", "--kind", "sleep") if row["state"] == "succeeded")


def core(scratch):
    return {row["content"]: row for row in scratch.json("core", "list")}


def test_the_core_is_listed_in_the_order_of_the_file_and_agrees_with_status(slept):
    rows = slept.json("core", "list")
    assert [row["content"] for row in rows][:1] == ["an old one"]
    assert all(set(row) == MEMORY for row in rows)
    assert [f"- {row['content']}" for row in rows] == [
        line for line in slept.core.splitlines() if line.startswith("- ")
    ]
    status = slept.json("status")["agents"][0]["core"]
    assert status == {"count": len(rows), "tokens": sum(row["tokens"] for row in rows)}


def test_protect_shows_in_the_list_and_in_the_history_and_not_in_the_file(slept):
    before = slept.core
    rule = core(slept)["never deploy on a Friday"]["id"]
    assert slept.json("core", "protect", rule[:9])["id"] == rule
    assert core(slept)["never deploy on a Friday"]["constitutional"] is True
    assert slept.core == before
    assert f"{rule} * never deploy" in slept.run("core", "list").stdout
    told = slept.json("core", "history", rule)
    assert [(row["actor"], row["operation"], row["constitutional"]) for row in told] == [
        ("human", "add", False),
        ("human", "protect", True),
    ]
    slept.json("core", "unprotect", rule)
    assert core(slept)["never deploy on a Friday"]["constitutional"] is False


def test_what_is_not_there_is_not_found_and_what_makes_no_sense_is_refused(slept):
    assert slept.json("core", "protect", "core_ffffffff", code=3)["code"] == "not_found"
    assert slept.json("core", "history", "", code=3)["code"] == "not_found"
    alive = core(slept)["an old one"]["id"]
    assert slept.json("core", "restore", alive, code=4)["code"] == "refused"
    assert slept.json("rollback", "run-none", code=3)["code"] == "not_found"
    assert slept.json("rollback", "--to", "99999999", code=3)["code"] == "not_found"
    assert slept.json("rollback", code=2)["code"] == "config"
    assert slept.json("audit", "--since", "yesterday", code=2)["code"] == "config"


def test_the_audit_shows_rows_of_a_run_and_since_a_day(slept):
    rows = slept.json("audit")
    assert all(set(row) == ENTRY for row in rows)
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    run_id = slept.json("job", "list", "--kind", "sleep")[0]["id"]
    of_run = slept.json("audit", "--run", run_id)
    assert {row["run_id"] for row in of_run} == {run_id}
    assert {(row["by"], row["trigger"]) for row in of_run} == {("daemon", "threshold")}
    assert {(row["by"], row["trigger"]) for row in rows if row["run_id"] is None} == {("owner", None)}
    assert {"add", "watermark", "append", "write"} == {row["operation"] for row in of_run}
    assert slept.json("audit", "--since", "2999-01-01") == []
    assert slept.json("audit", "--since", "2020-01-01") == slept.json("audit")


def test_verify_is_0_only_where_all_agree(tmp_path, slept):
    assert slept.json("verify") == {"ok": True, "problems": []}
    row = core(slept)["an old one"]["id"]
    slept.change("UPDATE memory SET importance = 0.5 WHERE id = ?", row)
    done = slept.run("--json", "verify")
    slept.change("UPDATE memory SET importance = NULL WHERE id = ?", row)
    assert done.returncode == 1
    assert row in done.stdout
    assert "an old one" not in done.stdout


def test_an_edit_is_seen_by_the_next_command(slept):
    path = slept.workspace / "MEMORY.md"
    known = core(slept)["an old one"]["id"]
    path.write_text(slept.core.replace("- an old one\n", "- an old one, edited\n"), encoding="utf-8")
    until(lambda: "an old one, edited" in core(slept), why="the file has rested")
    assert core(slept)["an old one, edited"]["id"] == known
    path.write_text(slept.core.replace("- an old one, edited\n", "- an old one\n"), encoding="utf-8")
    until(lambda: "an old one" in core(slept), why="the file has rested")


@pytest.mark.long
def test_a_daemon_imports_puts_back_and_rolls_back(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    path = scratch.workspace / "MEMORY.md"
    path.write_text(OLD, encoding="utf-8")
    with scratch.daemon():
        until(lambda: len(scratch.json("core", "list")) == 2, why="the file is imported")
        rule = core(scratch)["an old one"]["id"]
        scratch.json("core", "protect", rule)
        path.write_text(OLD.replace("- an old one\n", ""), encoding="utf-8")
        until(lambda: "- an old one\n" in scratch.core, why="the protected bullet is back")
        until(lambda: scratch.json("status")["alarms"], why="it is reported")
        assert [alarm["kind"] for alarm in scratch.json("status")["alarms"]] == ["constitutional"]
        at = recent()
        scratch.append([*said(at=at), filler(at=at)])
        run_id = until(
            lambda: [
                row["id"] for row in scratch.json("job", "list", "--kind", "sleep") if row["state"] == "succeeded"
            ],
            why="it slept",
        )[0]
        planned = scratch.json("rollback", run_id, "--dry-run")
        assert planned["memories"]
        assert planned["conflicts"] == []
        done = scratch.json("rollback", run_id)
        assert (done["kind"], done["state"]) == ("rollback", "succeeded")
        assert sorted(core(scratch)) == ["an old one", "never deploy on a Friday"]
        assert scratch.json("job", "run", "dedup")["state"] == "skipped"
        assert scratch.json("verify")["ok"] is True


def test_a_rollback_of_a_sleep_says_that_the_session_is_slept_over_again_and_how_to_forget_it(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    at = recent()
    scratch.append([*said(at=at), filler(at=at)])
    scratch.json("run", "--once")
    row = next(row for row in scratch.json("job", "list", "--kind", "sleep") if row["state"] == "succeeded")
    rules = core(scratch)
    tried = scratch.run("rollback", row["id"], "--dry-run").stdout
    assert all(f"{one['id']} would be taken out\n  - {rule}" in tried for rule, one in rules.items())
    scratch.agents[0]["privacy"] = "silo"
    scratch.write_config()
    tried = scratch.run("rollback", row["id"], "--dry-run")
    rule = next(iter(rules))
    assert rule not in tried.stdout + scratch.run("--json", "rollback", row["id"], "--dry-run").stdout
    assert "bytes, not shown" in tried.stdout
    del scratch.agents[0]["privacy"]
    scratch.write_config()
    told = scratch.run("rollback", row["id"]).stdout
    assert f"session {row['session_id']} will be processed again and may bring the same lines back" in told
    assert f"to erase the whole session: memoryd forget {row['session_id']}\n" in told
    assert f": memoryd job run sleep --session {row['session_id']}\n" in told
    kept, *others = rules
    ids = "|".join(one["id"] for one in rules.values())
    assert re.search(rf"to keep this line, or another above, out: memoryd forget ({ids})\n", told)
    for rule in others:
        scratch.json("forget", rules[rule]["id"], "--yes")
    scratch.json("run", "--once")
    assert set(core(scratch)) == {kept}, "what was forgotten stays away"


def test_a_rollback_is_not_reverted_after_the_session_was_processed_again(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    first = sleep_once(scratch)
    scratch.json("consolidate")
    folder = scratch.workspace

    def texts():
        files = [*folder.glob("*.md"), *folder.glob("memory/*.md"), *folder.glob(".continuum/memory/*.md")]
        return {path.name: path.read_text() for path in files}

    def sleeps():
        rows = scratch.json("job", "list", "--kind", "sleep")
        return [row["id"] for row in rows if row["state"] == "succeeded"]

    lines = sorted(core(scratch))
    undone = scratch.json("rollback", first)["id"]
    scratch.json("run", "--once")
    scratch.json("consolidate")
    again, _ = sleeps()
    before = texts()
    tried = scratch.run("rollback", undone, "--dry-run")
    assert tried.returncode == 4
    assert f"was repeated by {again}" in tried.stdout
    refused = scratch.run("rollback", undone)
    assert refused.returncode == 4
    assert "nothing is missing" in refused.stderr
    assert texts() == before
    assert sorted(core(scratch)) == lines
    scratch.json("rollback", again)
    scratch.json("rollback", undone)
    assert sorted(core(scratch)) == lines
    assert scratch.json("verify")["ok"] is True


def test_a_second_forget_says_that_nothing_is_left(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    sleep_once(scratch)
    one, *_ = [row["id"] for row in core(scratch).values()]
    session = scratch.json("session", "list")[0]["id"]
    for name, told in (
        (one, f"{one} was forgotten already\n"),
        (session, f"nothing of session {session} is left to erase\n"),
    ):
        assert told not in scratch.run("forget", name, "--dry-run").stdout
        assert told not in scratch.run("forget", name, "--yes").stdout
        for again in ("--dry-run", "--yes"):
            done = scratch.run("forget", name, again)
            assert (done.returncode, done.stdout.partition("\n")[0]) == (0, told.strip())


def commands_in(told):
    return [shlex.split(one) for one in re.findall(r"memoryd ((?:rollback|job run)[^&\n]*)", told)]


@pytest.mark.parametrize("sleeps", [1, 2])
def test_the_entry_of_a_session_comes_back_although_it_slept_again_and_that_was_reverted(tmp_path, sleeps):
    scratch = Scratch(tmp_path / "scratch")
    folder = scratch.workspace / ".continuum" / "memory"

    def texts():
        found = {path.name: path.read_text() for path in folder.glob("*.md")}
        return found, scratch.core, scratch.dailies()

    first = sleep_once(scratch)
    scratch.json("consolidate")
    before = texts()
    told = scratch.run("rollback", first).stdout
    revert, again, *_ = commands_in(told)
    left = texts()[0]
    assert set(left) == {"RECENT.md", "MEMORY.md"}, "an archive file without a session is removed"
    for _ in range(sleeps):
        scratch.json(*again)
        scratch.json("consolidate")
        assert texts()[0] == before[0]
        scratch.json("rollback", scratch.json("job", "list", "--kind", "sleep")[0]["id"])
        assert texts()[0] == left, "also no blank line is added"
    scratch.json(*revert)
    scratch.json("consolidate")
    assert texts() == before
    undone = scratch.json("rollback", first)["id"]
    assert "## Session" not in texts()[0]["RECENT.md"]
    scratch.json("rollback", undone)
    scratch.json("consolidate")
    assert texts() == before


def test_a_summary_that_version_0_1_0_stored_comes_back_too(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    first = sleep_once(scratch)
    ((before,),) = scratch.query("SELECT summary FROM session_summary")
    undone = scratch.json("rollback", first)["id"]
    ((stored,),) = scratch.query("SELECT plain(CAST(earlier AS BLOB), NULL) FROM session_summary")
    (only,) = json.loads(stored)
    scratch.change("UPDATE session_summary SET earlier = ?", json.dumps(only))
    scratch.json("rollback", undone)
    assert scratch.query("SELECT summary FROM session_summary") == [(before,)]


def test_back_to_an_entry_brings_the_lines_of_the_day_back_that_a_rollback_had_removed(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    first = sleep_once(scratch)
    last = scratch.json("audit")[-1]["id"]
    before = sorted(core(scratch)), scratch.dailies()
    scratch.json("rollback", first)
    assert scratch.dailies() == {}
    scratch.json("run", "--once")
    scratch.json("rollback", "--to", str(last))
    assert (sorted(core(scratch)), scratch.dailies()) == before
    assert scratch.json("verify")["ok"] is True


def test_a_run_that_a_rollback_to_an_entry_reverted_is_not_rolled_back_again(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    (scratch.workspace / "MEMORY.md").write_text("# Notes\n\n- tea at four\n", encoding="utf-8")
    scratch.json("run", "--once")
    last = scratch.json("audit")[-1]["id"]
    first = sleep_once(scratch)
    undone = scratch.json("rollback", "--to", str(last))["id"]
    scratch.json("run", "--once")  # sleeps again and writes the same lines
    before = sorted(core(scratch)), scratch.dailies()
    assert before[1]
    assert scratch.json("rollback", first)["receipt"]["rollback"]["already"] is True
    assert (sorted(core(scratch)), scratch.dailies()) == before
    assert scratch.json("verify")["ok"] is True
    second = next(row["id"] for row in scratch.json("job", "list") if row["kind"] == "sleep" and row["id"] != first)
    scratch.json("rollback", second)
    scratch.json("rollback", undone)  # takes the mark away
    scratch.json("rollback", first)
    assert scratch.dailies() == {}
    assert scratch.json("verify")["ok"] is True


def test_after_a_forget_a_reverted_rollback_brings_all_back_but_the_entry_and_says_what_writes_that(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    (tmp_path / "other").mkdir()
    scratch.agents.append(scratch.agent("other", tmp_path / "other"))
    scratch.write_config()
    (scratch.workspace / "MEMORY.md").write_text("# Notes\n\n- tea at four\n", encoding="utf-8")
    first = sleep_once(scratch)
    scratch.json("consolidate", "--agent", "demo")
    recent_file = scratch.workspace / ".continuum" / "memory" / "RECENT.md"

    def texts():
        return scratch.dailies(), sorted({row["content"] for row in scratch.json("core", "list", "--agent", "demo")})

    before, entry = texts(), recent_file.read_text()
    undone = scratch.json("rollback", first)["id"]
    old = next(row for row in scratch.json("core", "list", "--agent", "demo") if row["content"] == "tea at four")
    scratch.json("forget", old["id"], "--yes", "--agent", "demo")
    told = scratch.run("rollback", undone).stdout
    before[1].remove("tea at four")
    assert texts() == before
    scratch.json("consolidate", "--agent", "demo")
    assert "## Session" not in recent_file.read_text()
    for command in commands_in(told.partition("is not restored in RECENT.md; to write it again: ")[2]):
        scratch.json(*command)
    scratch.json("consolidate", "--agent", "demo")
    assert recent_file.read_text() == entry
    assert texts() == before


def test_a_second_rollback_of_a_restored_run_removes_its_summary_too(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    sleep = sleep_once(scratch)
    scratch.json("consolidate")
    folder = scratch.workspace / ".continuum" / "memory"
    before = scratch.core
    for _ in range(2):
        undone = scratch.json("rollback", sleep)["id"]
        assert "\n## Session " not in (folder / "RECENT.md").read_text()
        assert not any("### Session" in path.read_text() for path in folder.glob("MEMORY-*.md"))
        assert core(scratch) == {}
        scratch.json("rollback", undone)
        scratch.json("consolidate")
        assert (folder / "RECENT.md").read_text().count("\n## Session ") == 1
        assert scratch.core == before


def test_a_rollback_names_the_daily_file_whose_lines_stay_because_a_person_changed_them(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    at = recent()
    scratch.append([*said(at=at), filler(at=at)])
    scratch.json("run", "--once")
    run_id = next(row["id"] for row in scratch.json("job", "list", "--kind", "sleep") if row["state"] == "succeeded")
    (daily,) = (scratch.workspace / "memory").glob("*.md")
    path = f"memory/{daily.name}"
    assert scratch.json("rollback", run_id, "--dry-run")["edited"] == []
    edited = daily.read_text(encoding="utf-8").replace("\n- ", "\n- (checked) ", 1)
    daily.write_text(edited, encoding="utf-8")
    tried = scratch.json("rollback", run_id, "--dry-run")
    assert tried["edited"] == [path]
    assert path not in [one["path"] for one in tried["files"]]
    told = scratch.run("rollback", run_id).stdout
    assert f"the unchanged lines of that run in {path} stay, because their block was edited since" in told
    assert daily.read_text(encoding="utf-8") == edited


def test_a_dry_run_does_not_say_that_an_unchanged_block_was_edited(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    run_id = sleep_once(scratch)
    file = scratch.workspace / "MEMORY.md"
    file.write_text(file.read_text(encoding="utf-8").replace("\n- ", "\n- By the way: ", 1), encoding="utf-8")
    scratch.json("run", "--once")
    tried = scratch.run("--json", "rollback", run_id, "--dry-run")
    data = json.loads(tried.stdout)["data"]
    assert (bool(data["conflicts"]), data["edited"]) == (True, [])


def test_a_rollback_and_its_dry_run_name_all_files_that_change_and_the_facts_that_stay(tmp_path):
    def texts():
        found = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.md")}
        return {name: text for name, text in found.items() if "/backup/" not in name}

    scratch = Scratch(tmp_path / "scratch")
    folder = scratch.workspace
    (folder / "MEMORY.md").write_text("# Notes\n\n- an old one\n", encoding="utf-8")
    scratch.json("run", "--once")
    at = recent()
    scratch.append([*said(at=at), filler(at=at)])
    scratch.json("run", "--once")
    scratch.json("job", "run", "facts")
    scratch.json("consolidate")
    runs = {row["kind"]: row["id"] for row in scratch.json("job", "list") if row["state"] == "succeeded"}
    facts = [row["id"] for row in scratch.json("facts", "list")]
    assert facts
    assert "## Decisions" in scratch.core
    before = texts()
    tried = scratch.json("rollback", runs["sleep"], "--dry-run")
    assert texts() == before
    assert set(tried["beside"][runs["facts"]]) == set(facts), "the facts are of another run"
    told = scratch.run("rollback", runs["sleep"]).stdout
    changed = {name: text for name, text in before.items() if texts().get(name) != text}
    assert {one["path"]: one["removed"] for one in tried["files"]} == {name: name not in texts() for name in changed}
    assert {"MEMORY.md", ".continuum/memory/RECENT.md"} <= set(changed)
    assert all(f"\n{name} {'rewritten' if name in texts() else 'removed'}" in told for name in changed)
    assert "as before" not in "".join(line for line in told.splitlines() if ".md" in line)
    assert f"; to revert that run: memoryd rollback {runs['facts']}\n" in told
    assert all(one in told for one in facts)
    assert scratch.core == "# Notes\n\n- an old one\n"
    told = scratch.run("rollback", runs["facts"]).stdout
    assert "of the same session" not in told
    assert "will be processed again" in told
    assert scratch.json("facts", "list") == []


def test_a_rollback_removes_own_headings_that_it_empties_but_no_others(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    sleep = sleep_once(scratch)
    assert "## Decisions" in scratch.core
    path = scratch.workspace / "MEMORY.md"
    path.write_text(f"{scratch.core}\n## Later\n\n## Mine\n\n- tea at four\n", encoding="utf-8")
    scratch.json("rollback", sleep)
    assert scratch.core == "# Memory\n\n## Later\n\n## Mine\n\n- tea at four\n"


def test_a_rollback_keeps_headings_of_a_person_and_says_what_happens_to_their_lines(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    path = scratch.workspace / "MEMORY.md"
    path.write_text("# Notes\n\n## Decisions\n\n## Mine\n\n- tea at four\n", encoding="utf-8")
    sleep = sleep_once(scratch)
    scratch.json("consolidate")
    assert "## Decisions\n\n- " in scratch.core
    path.write_text(f"{scratch.core}- and a walk\n", encoding="utf-8")
    last = scratch.workspace / ".continuum" / "memory" / "RECENT.md"
    last.write_text(f"{last.read_text()}- a line of mine\n")
    told = scratch.run("rollback", sleep).stdout
    assert "## Decisions\n" in scratch.core
    assert "- and a walk\n" in scratch.core
    assert "RECENT.md rewritten; backup/ keeps the old file, also lines of yours in an entry that goes" in told
    assert any("- a line of mine\n" in kept.read_text() for kept in last.parent.glob("backup/*/RECENT.md"))


def test_a_rollback_of_several_runs_removes_the_headings_that_the_first_of_them_made(tmp_path, monkeypatch):
    scratch = Scratch(tmp_path / "scratch")
    at = recent()
    scratch.append([*said(at=at), filler(at=at)])
    scratch.json("job", "run", "facts")
    last = scratch.json("audit")[-1]["id"]
    scratch.json("run", "--once")
    assert "## Decisions" in scratch.core
    told = "We decided to keep the invoices in Oslo because the office there pays them."
    scratch.append([message("user", told, at=at), filler(at=at)], "two")
    scratch.json("consolidate")
    assert told[:-1] in scratch.core
    (scratch.workspace / "MEMORY.md").write_text(f"{scratch.core}\n## Mine\n\n- tea\n", encoding="utf-8")
    # An edit that was imported before would be reverted too.
    monkeypatch.setattr("memoryd.changing.core_import._is_fresh", lambda *_: True)
    scratch.json("rollback", "--to", str(last))
    assert scratch.core == "# Memory\n\n## Mine\n\n- tea\n"


def test_a_rollback_of_one_memory_keeps_the_heading_of_a_person(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    path = scratch.workspace / "MEMORY.md"
    path.write_text("# Notes\n\n## Decisions\n\n## Mine\n\n- tea at four\n", encoding="utf-8")
    sleep = sleep_once(scratch)
    (only,) = [row["id"] for row in scratch.json("core", "list") if row["heading"] == "Decisions"]
    before = scratch.core
    scratch.json("rollback", sleep, "--memory", only)
    assert scratch.core != before
    assert "## Decisions\n" in scratch.core


def test_a_dream_that_changes_nothing_says_so(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    (scratch.workspace / "memory").mkdir()
    today = recent().date().isoformat()
    note = scratch.workspace / "memory" / f"{today}.md"
    note.write_text(f"# Daily Memory: {today}\n\n## Notes (00:00)\n\n- Report: it rained.\n", encoding="utf-8")
    told = scratch.run("job", "run", "dream", "--lookback-days", "2").stdout
    assert "dream succeeded: nothing was added to MEMORY.md or changed in it: memory/dreams/" in told
    assert scratch.core == ""


def test_a_refused_rollback_names_the_commands_that_revert_what_came_later(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    first = sleep_once(scratch)
    before = scratch.core
    settings = config.load(scratch.config)
    ids = [row["id"] for row in core(scratch).values()]
    for verb, one, text in (("edit", ids[0], "tea"), ("edit", ids[0], "tea at five"), ("delete", ids[1], None)):
        memory_changes.change_core(settings, settings.agents[0], verb, one, text)
    changed = scratch.core
    for more in ((), ("--dry-run",)):
        refused = scratch.run("rollback", first, *more)
        assert refused.returncode == 4
        assert scratch.core == changed
    tried = json.loads(scratch.run("--json", "rollback", first, "--dry-run").stdout)
    assert {one["memory"] for one in tried["data"]["conflicts"]} == set(ids[:2])
    for command in commands_in(tried["error"]["hint"]):
        scratch.json(*command)
    assert scratch.core == before
    scratch.json("rollback", first)
    assert core(scratch) == {}


def test_a_rollback_of_what_changed_nothing_is_refused_and_so_is_its_dry_run(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    sleep = sleep_once(scratch)
    scratch.json("import")
    imported = scratch.json("job", "list", "--kind", "history")[0]["id"]
    saved = scratch.json("update", "--append", "Tea at four.")["run"]
    other = core(scratch)["Tea at four."]["id"]
    for of in ((imported,), (sleep, "--memory", other)):
        for more in ((), ("--dry-run",)):
            refused = scratch.run("rollback", *of, *more)
            assert (refused.returncode, "has " in refused.stderr) == (4, True)
    assert scratch.json("rollback", saved, "--memory", other, "--dry-run")["memories"] == [other]


def test_a_memory_that_a_later_sleep_wrote_again_does_not_come_back_beside_it(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    first = sleep_once(scratch)
    old = {one: row["id"] for one, row in core(scratch).items()}
    undone = scratch.json("rollback", first)["id"]
    scratch.json("run", "--once")
    new, before = {one: row["id"] for one, row in core(scratch).items()}, scratch.core
    assert set(new) == set(old)
    (rule, *_) = old
    told = f"{old[rule]} is not brought back, because {new[rule]} has the same text"
    assert told in scratch.json("core", "restore", old[rule], code=4)["message"]
    assert scratch.run("rollback", undone, "--memory", old[rule], "--dry-run").stdout == f"{told}\n"
    assert told in scratch.run("rollback", undone, "--memory", old[rule]).stdout
    assert scratch.core == before
    # If the new one gets another text, the old one can come back.
    settings = config.load(scratch.config)
    changed = memory_changes.change_core(settings, settings.agents[0], "edit", new[rule], "tea at four")[1]
    scratch.json("core", "restore", old[rule])
    # A live memory never ends because of a copy. The nightly job removes one of the two.
    assert scratch.json("rollback", changed)["receipt"]["rollback"]["there"] == []
    assert scratch.core.count(rule) == 2
    scratch.json("job", "run", "dedup")
    assert scratch.core.count(rule) == 1
    assert scratch.json("verify")["ok"] is True


def test_a_dream_that_ran_again_after_its_rollback_does_not_come_back_beside_itself(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    (scratch.workspace / "memory").mkdir()
    today = recent().date().isoformat()
    rule = "Always write migrations by hand."
    note = f"# Daily Memory: {today}\n\n## Notes (00:00)\n\n- {rule}\n"
    (scratch.workspace / "memory" / f"{today}.md").write_text(note, encoding="utf-8")
    dream = ("job", "run", "dream", "--lookback-days", "2", "--force")
    scratch.json(*dream)
    undone = scratch.json("rollback", scratch.json("job", "list", "--kind", "dream")[0]["id"])["id"]
    assert rule not in scratch.core
    scratch.json(*dream)
    assert "has the same text" in scratch.run("rollback", undone).stdout
    assert scratch.core.count(rule) == 1
    assert scratch.json("verify")["ok"] is True


TWICE = """# Notes

## Frontend

- run make test before each commit
- use pnpm

## Backend

- run make test before each commit
- use uv
"""


@pytest.fixture
def twice(tmp_path):
    """A memory that has the same line below two headings."""
    scratch = Scratch(tmp_path / "scratch")
    (scratch.workspace / "MEMORY.md").write_text(TWICE, encoding="utf-8")
    scratch.json("run", "--once")
    return scratch


def test_the_rollback_of_an_edit_brings_a_line_back_that_was_also_below_another_heading(twice):
    path = twice.workspace / "MEMORY.md"
    last = twice.json("audit")[-1]["id"]
    path.write_text(TWICE.replace("run make", "run pnpm", 1), encoding="utf-8")
    twice.json("run", "--once")
    assert twice.json("rollback", "--to", str(last))["receipt"]["rollback"]["there"] == []
    assert twice.core == TWICE
    settings, first = config.load(twice.config), twice.json("core", "list")[0]["id"]
    run = memory_changes.change_core(settings, settings.agents[0], "edit", first, "run pnpm test")[1]
    twice.json("rollback", run)
    assert twice.core == TWICE


@pytest.mark.parametrize("lost", [1, 2])
def test_a_rollback_brings_both_of_two_equal_lines_back(twice, lost):
    path = twice.workspace / "MEMORY.md"
    last = twice.json("audit")[-1]["id"]
    path.write_text(TWICE.replace("- run make test before each commit\n", "", lost), encoding="utf-8")
    twice.json("run", "--once")
    twice.json("rollback", "--to", str(last))
    assert twice.core == TWICE


def test_a_removal_of_duplicates_can_be_undone_as_a_whole_or_line_by_line(twice):
    ids = {row["id"] for row in twice.json("core", "list")}
    twice.json("job", "run", "dedup")
    (gone,) = ids - {row["id"] for row in twice.json("core", "list")}
    twice.json("core", "restore", gone)
    assert {row["id"] for row in twice.json("core", "list")} == ids
    run = twice.json("job", "run", "dedup")["id"]
    twice.json("rollback", run)
    assert twice.core == TWICE
    assert twice.json("verify")["ok"] is True


def test_a_job_finds_the_agent_by_the_session(tmp_path, monkeypatch):
    scratch = Scratch(tmp_path / "scratch")
    (tmp_path / "other").mkdir()
    scratch.agents.append(scratch.agent("other", tmp_path / "other"))
    scratch.write_config()
    monkeypatch.chdir(tmp_path)
    sleep = sleep_once(scratch)
    told = scratch.run("rollback", sleep).stdout
    again = next(one for one in commands_in(told) if one[:3] == ["job", "run", "sleep"])
    assert "--agent" not in again
    assert scratch.json(*again, "--dry-run")["runs"]
    assert scratch.json(*again)["state"] == "succeeded"
