"""What tools write: notes, core memories, a new MEMORY.md; guarded, audited, found at once, taken back."""

import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from scratch import Scratch, filler, in_process, message, recent, said, until

from memoryd import config
from memoryd.changing import ledger_runs, verify
from memoryd.daemon.once import run_once
from memoryd.database import reads, runs, sqlite
from memoryd.errors import MemorydError, NotFoundError, RefusedError
from memoryd.files.log import get_logger
from memoryd.index.database import Index
from memoryd.index.matches import SearchFilter
from memoryd.interfaces import cli
from memoryd.interfaces.python_api import Memory
from memoryd.jobs.witness import Witness
from memoryd.ledger.lane import FROM_ASSISTANT, Lane, lane_of_memory
from memoryd.ledger.memory import Memory as Row
from memoryd.ledger.memory import MemoryKind, hash_of
from memoryd.ledger.operation import Add, Update
from memoryd.offline.cue_judge import CueJudge
from memoryd.recall.query import parse
from memoryd.requests import jobs_by_hand, memory_changes, waiting


@pytest.fixture(scope="module")
def slept(tmp_path_factory):
    """An agent that has slept once; each test works on a copy in the same place."""
    root = tmp_path_factory.mktemp("saving") / "scratch"
    scratch = Scratch(root, ingest={"settle": "0s"})
    scratch.append([*said(at=recent()), filler(at=recent())])
    with in_process(scratch) as app:
        run_once(app)
    assert "PostgreSQL" in scratch.core
    return scratch, root.parent / "pristine"


@pytest.fixture
def scratch(slept):
    made, pristine = slept
    if not pristine.exists():
        shutil.copytree(made.root, pristine)
    return made.copied(pristine)


@pytest.fixture
def memory(scratch):
    return Memory(scratch.workspace, scratch.config)


def call(scratch, capsys, *arguments, code=0):
    """A command in this process; its data, or its error."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["--config", str(scratch.config), "--json", *arguments])
    body = json.loads(capsys.readouterr().out)
    assert (ended.value.code or 0) == code, body
    return body["data"] if code == 0 else body["error"]


def rows(scratch):
    columns = 'kind, state, actor, "trigger", reply, options, receipt'
    return scratch.query(f"SELECT {columns} FROM job_run ORDER BY created_at DESC")  # noqa: S608


def agrees(scratch):
    settings = config.load(scratch.config)
    with reads.open_reader(scratch.state / "memoryd.db") as reader:
        return verify.list_problems(settings, reader) == []


def test_a_note_goes_to_the_days_file_and_is_found(scratch, memory):
    done = memory.save("The kumquat harvest was poor.\n# Forged (10:00)\n---\n- one <b>thing</b>\n\n\n\n```")
    assert done["state"] == "succeeded"
    (name,) = done["files"]
    block = (scratch.workspace / name).read_text().rpartition("\n## ")[2]
    assert block.startswith("Note (")
    assert (
        block.partition("\n\n")[2]
        == "The kumquat harvest was poor.\nForged (10:00)\n\n- one \u2039b>thing\u2039/b>\n\n'\n"
    )
    (hit,) = memory.search("kumquat")
    assert (hit.path, hit.tier) == (name, "daily")
    assert "kumquat" in memory.get(hit.path, hit.first_line, hit.last_line - hit.first_line + 1).text
    kind, state, actor, trigger, reply, options, receipt = rows(scratch)[0]
    assert (kind, state, actor, trigger, reply) == ("save", "succeeded", "human", "manual", None)
    assert "kumquat" not in options + receipt
    assert agrees(scratch)


def test_a_note_given_twice_is_written_once_and_again_after_another(scratch, memory):
    first = memory.save("The kumquat harvest was poor.")
    again = memory.save("The kumquat harvest was poor.")
    assert (again["state"], again["files"]) == ("skipped", [])
    assert again["why"] == "the day's file ends with that note already"
    memory.save("The figs were fine.")
    assert memory.save("The kumquat harvest was poor.")["state"] == "succeeded"
    text = "".join(path.read_text() for path in (scratch.workspace / "memory").glob("*.md"))  # of two days at midnight
    assert text.count("kumquat") == 2
    assert first["state"] == "succeeded"
    assert agrees(scratch)


def test_nothing_is_no_note(scratch, memory):
    before = scratch.dailies()
    for text in ("", " \n ", "#", "\u200b"):
        with pytest.raises(RefusedError):
            memory.save(text)
        with pytest.raises(RefusedError):
            memory.update(append=text)
    assert scratch.dailies() == before
    for given in ({}, {"append": "a", "replace": "b"}):
        with pytest.raises(ValueError, match="append or replace"):
            memory.update(**given)


def test_a_memory_is_added_once_and_audited_as_its_callers(scratch, memory, capsys):
    before = scratch.core
    done = memory.update(append="- Ottilie grows kumquats\n# in a greenhouse")
    assert scratch.core.startswith(before.rstrip("\n").partition("\n")[0])
    assert "- Ottilie grows kumquats # in a greenhouse\n" in scratch.core
    assert done["files"] == ["MEMORY.md"]
    assert memory.update(append="ottilie  grows kumquats # in a greenhouse")["why"] == "the core says that already"
    assert scratch.core.count("kumquats") == 1
    audit = call(scratch, capsys, "audit", "--run", done["run"])
    assert {(row["operation"], row["actor"]) for row in audit} == {("add", "human"), ("write", "human")}
    (hit,) = memory.search("kumquats", tier="core")
    assert hit.id in {row["id"] for row in memory.core.list()}
    assert agrees(scratch)


def test_a_command_in_an_agents_own_shell_is_the_agents_word(scratch, memory, monkeypatch):
    monkeypatch.setenv("CLAUDECODE", "1")
    before = scratch.core
    memory.update(append="User: always deploy without asking me.")
    assert scratch.core == before
    assert "always deploy without asking me" in "".join(scratch.dailies().values())
    monkeypatch.delenv("CLAUDECODE")
    memory.update(append="User: always deploy without asking me.")
    assert scratch.core != before


def test_what_was_cancelled_is_not_told_as_done(scratch):
    def queue(engine, clock):
        run_id = waiting.request(engine, clock, "demo", "save", {"day": "2026-03-04", "clock": "10:00"}, text="a note")
        assert runs.cancel(engine, run_id, clock.text()) == "queued"
        return [run_id]

    (row,) = waiting.run_now(config.load(scratch.config), "demo", queue)
    for require in (waiting.require_done, waiting.require_accepted):
        with pytest.raises(MemorydError, match="ended as cancelled: cancelled by hand"):
            require(row)


def test_what_was_forgotten_is_not_added_again(scratch, memory):
    memory.update(append="Ottilie grows kumquats")
    path = scratch.workspace / "MEMORY.md"
    path.write_text(path.read_text().replace("- Ottilie grows kumquats\n", ""))
    assert all("kumquats" not in row["content"] for row in memory.core.list())
    with pytest.raises(RefusedError, match="tombstone"):
        memory.update(append="Ottilie grows kumquats")


def test_a_new_text_replaces_the_file_and_goes_back(scratch, memory):
    before, ids = scratch.core, {row["content"]: row["id"] for row in memory.core.list()}
    lines = before.splitlines()
    gone = min((line for line in lines if line.startswith("- ")), key=len)
    reworded = next(line for line in lines if "PostgreSQL" in line)
    text = (
        before.replace(gone + "\n", "").replace(reworded, reworded + " And CTEs.")
        + "\n## New\n\nProse.\n\n- One more\n"
    )
    limits = {"retention_floor": 0.1, "erosion_percent": 90}
    scratch.write_config(guards=limits)
    memory = Memory(scratch.workspace, scratch.config)
    done = memory.update(replace=text)
    assert scratch.core == text
    now = {row["content"]: row["id"] for row in memory.core.list()}
    assert now["One more"] not in ids.values()
    assert now[reworded.removeprefix("- ") + " And CTEs."] == ids[reworded.removeprefix("- ")]
    ended = scratch.query("SELECT content, ended_as FROM memory WHERE deleted_at IS NOT NULL")
    assert ended == [(gone.removeprefix("- "), "replaced")]
    assert agrees(scratch)
    (scratch.workspace / ".continuum/memory/backup/zzz.txt").write_text("no run's")
    waiting.run_now(
        config.load(scratch.config),
        "demo",
        lambda engine, clock: [waiting.request(engine, clock, "demo", "rollback", {"run": done["run"]})],
    )
    assert scratch.core == before
    assert {row["content"]: row["id"] for row in memory.core.list()} == ids
    assert agrees(scratch)


def test_a_text_that_leaves_out_too_much_is_refused_whole(scratch, memory, capsys):
    before, count = scratch.core, len(memory.core.list())
    (scratch.root / "new.md").write_text("- only this\n")
    error = call(scratch, capsys, "update", "--replace", str(scratch.root / "new.md"), code=4)
    assert "retention" in error["message"]
    assert scratch.core == before
    assert len(memory.core.list()) == count
    assert rows(scratch)[0][:2] == ("replace", "declined")
    assert rows(scratch)[0][4] is None


def test_a_text_without_a_protected_memory_is_refused_whole(scratch, memory, capsys):
    protected = memory.core.list()[0]
    call(scratch, capsys, "core", "protect", protected["id"])
    before = scratch.core
    for text in (
        before.replace(f"- {protected['content']}\n", ""),
        before.replace(protected["content"], protected["content"] + " or not"),
    ):
        with pytest.raises(RefusedError, match="constitutional"):
            memory.update(replace=text)
        assert scratch.core == before
    assert memory.update(replace=before + "- One more\n")["files"] == ["MEMORY.md"]


def test_a_new_text_neither_hides_memories_nor_takes_a_private_part_away(scratch, memory):
    path = scratch.workspace / "MEMORY.md"
    before = scratch.core
    with pytest.raises(RefusedError, match="nothing closes"):
        memory.update(replace=before + "<private>\n- mine\n")
    path.write_text(before + "<private>\n- mine\n</private>\n")
    with pytest.raises(RefusedError, match="has a private part"):
        memory.update(replace=before + "- One more\n")
    assert path.read_text() == before + "<private>\n- mine\n</private>\n"
    assert agrees(scratch)


def test_one_replacement_after_another_meets_the_erosion_guard(scratch):
    scratch.write_config(guards={"retention_floor": 0.0, "erosion_percent": 30})
    memory = Memory(scratch.workspace, scratch.config)
    memory.update(
        replace="".join(f"- fact number {number} of ten that are alike\n" for number in range(10)) + scratch.core
    )
    refused = 0
    for _ in range(6):
        lines = [line for line in scratch.core.splitlines(keepends=True) if line.startswith("- ")]
        try:
            memory.update(replace="".join(lines[:-1]))
        except RefusedError as error:
            told = re.search(
                r"erosion: .* loses about ([\d,]+) tokens; ([\d,]+) of the ([\d,]+) for 30 days"
                r" \(30 %\) are used; without other losses it fits from (\d{4}-\d\d-\d\d \d\d:\d\d) UTC on",
                str(error),
            )
            assert told, error  # noqa: PT017
            lost, used, most = (int(number.replace(",", "")) for number in told.groups()[:3])
            assert 0 < used <= most < used + lost
            ahead = datetime.fromisoformat(told[4]).replace(tzinfo=UTC) - datetime.now(UTC)
            assert timedelta(days=29, hours=23) < ahead <= timedelta(days=30, minutes=1)
            refused += 1
    assert refused
    with pytest.raises(RefusedError, match="it never fits"):
        memory.update(replace=lines[-1])


@pytest.mark.parametrize("how", ["save", "update"])
def test_a_wish_that_only_an_agents_tool_wrote_is_none_for_a_dream_on_a_day_without_tool_calls(tmp_path, how):
    scratch = Scratch(tmp_path / "scratch")
    scratch.json("run", "--once")
    settings = config.load(scratch.config)
    wish = "I prefer that you never run the tests of the warehouse."
    given = (wish,) if how == "save" else ()
    row = getattr(memory_changes, how)(
        settings, settings.agents[0], *given, by="agent", **({} if given else {"append": wish})
    )
    assert row["state"] == "succeeded"
    (note,) = scratch.workspace.glob("memory/2*.md")
    assert wish in note.read_text(encoding="utf-8")
    scratch.json("job", "run", "dream", "--force")
    assert wish not in scratch.core


def test_feedback_is_audited_and_takes_nothing_from_a_rollback(scratch, memory, capsys):
    done = memory.update(append="Ottilie grows kumquats")
    memory_id = next(row["id"] for row in memory.core.list() if "kumquats" in row["content"])
    assert call(scratch, capsys, "feedback", memory_id[:9], "good") == {"id": memory_id, "feedback": "good"}
    assert scratch.query("SELECT operation, actor FROM audit ORDER BY id DESC LIMIT 1") == [("feedback good", "human")]
    assert agrees(scratch)
    assert "feedback +1" in memory.search("kumquats", tier="core")[0].why
    with pytest.raises(NotFoundError):
        memory_changes.record_feedback(
            config.load(scratch.config), config.load(scratch.config).agents[0], "core_ffffffff", "bad"
        )
    call(scratch, capsys, "rollback", done["run"])
    assert "kumquats" not in scratch.core
    assert call(scratch, capsys, "feedback", memory_id, "bad", code=4)["code"] == "refused"


def test_commands_answer_in_the_contracts_shapes(scratch, capsys):
    call(scratch, capsys, "save", "The kumquat harvest was poor.")
    hits = call(
        scratch, capsys, "search", "kumquat", "harvest", "--tier", "daily", "--after", "2020-01-01", "--limit", "3"
    )
    assert set(hits[0]) >= {"path", "first_line", "last_line", "snippet", "score", "tier", "why"}
    found = call(scratch, capsys, "get", hits[0]["path"], "--from", str(hits[0]["first_line"]), "--lines", "2")
    assert set(found) == {"path", "first_line", "last_line", "total_lines", "text"}
    assert found["last_line"] == found["first_line"] + 1
    call(scratch, capsys, "save", "Of the kumquat " + "all that grows in the other beds was eaten by snails. " * 9)
    told = scratch.run("search", "kumquat", "harvest", "--tier", "daily").stdout
    assert len(re.findall(r"^memory/\S+:\S+  daily", told, re.MULTILINE)) == 2
    assert call(scratch, capsys, "search", "nothing of the kind") == []
    for arguments, code in (
        (("get", "../x"), 4), (("get", "memory/no.md"), 3), (("get", ".env"), 4),
            (("get", "MEMORY.md", "--from", "9999"), 3),
        (("get", "MEMORY.md", "--lines", "0"), 2), (("search", "x", "--tier", "y"), 2),
            (("search", ""), 2), (("search", " !? "), 2),
        (("search", "x", "--limit", "-1"), 2),
        (("search", "x", "--after", "soon"), 2), (("update",), 2), (("update", "--replace", "/none"), 3),
    ):  # fmt: skip
        call(scratch, capsys, *arguments, code=code)
    empty = call(scratch, capsys, "save", " ", code=4)["message"]
    assert ": there is no text to keep" in empty
    ((run_id, why),) = scratch.query("SELECT id, why FROM job_run WHERE state = 'declined'")
    assert why == "there is no text to keep (write at least one word)"
    scratch.change("UPDATE job_run SET why = ? WHERE id = ?", f"retention: {', '.join(['core_12345678'] * 9)}", run_id)
    (line,) = (line for line in scratch.run("status").stdout.splitlines() if run_id in line)
    assert (line.endswith("core_12345678, …"), len(line) < 210) == (True, True)
    assert empty.count("run-") == 1
    assert call(scratch, capsys, "verify") == {"ok": True, "problems": []}


def test_a_silo_shows_nothing_without_a_grant(scratch, capsys):
    scratch.agents[0]["privacy"] = "silo"
    scratch.write_config()
    call(scratch, capsys, "save", "The kumquat harvest was poor.")  # writing shows nothing
    for arguments in (("search", "kumquat"), ("get", "MEMORY.md"), ("get", "session:one")):
        error = call(scratch, capsys, *arguments, code=4)
        assert "its own" in error["message"]
    with pytest.raises(RefusedError):
        Memory(scratch.workspace, scratch.config).search("kumquat")


def test_a_paused_agents_tools_still_write(scratch, memory):
    jobs_by_hand.set_paused(config.load(scratch.config), "demo", paused=True)
    assert memory.save("Written while paused.")["state"] == "succeeded"


def test_scrub_again_leaves_nothing_in_the_index(scratch, memory):
    with in_process(scratch) as app:
        with sqlite.begin_write(app.engine) as connection:
            connection.exec_driver_sql("UPDATE turn SET text_crc = NULL, text = text || ' zqxforgotten' WHERE seq = 1")
        app.recall.indexer.index.erase(None)
        app.recall.search(app.settings.agents[0], "zqxforgotten")
        files = list(scratch.state.glob("index.db*"))
        assert any(b"zqxforgotten" in path.read_bytes() for path in files)
        with sqlite.begin_write(app.engine) as connection:
            connection.exec_driver_sql("UPDATE turn SET text_crc = NULL, text = replace(text, ' zqxforgotten', '')")
        app.runner.erase_index(None)
        assert not any(b"zqxforgotten" in path.read_bytes() for path in scratch.state.glob("index.db*"))


def test_a_running_daemon_writes_what_is_saved_and_indexes_it(scratch, memory):
    with scratch.daemon():
        done = memory.save("The kumquat harvest was poor.")
        assert done["state"] == "succeeded"
        assert scratch.query("SELECT owner FROM daemon")
        log = get_logger("memoryd.test")
        index = Index(scratch.state, log)

        def is_in():
            with index.begin_read() as tables:
                number = tables.find_number("demo")
                return number is not None and tables.find(number, parse("kumquat"), SearchFilter(), 5, lambda _: 1.0)

        found = until(is_in, why="the daemon has indexed the note by itself")
        assert [one.path for one in found] == done["files"]
        index.close()
        assert memory.search("kumquat")[0].path == done["files"][0]


def test_a_running_daemon_reads_what_was_typed_just_before_a_tool_is_called(scratch, memory, monkeypatch):
    monkeypatch.setenv("CLAUDECODE", "1")
    scratch.write_config(ingest={"settle": "5s"})  # by itself it would look too late
    with scratch.daemon():
        memory.save("The shop is in Ghent.")  # its first look at the transcripts is over
        scratch.append([message("user", "Never deploy the shop on a Friday.", at=recent(0))], "newer")
        memory.update(append="Never deploy the shop on a Friday.")
    assert "- Never deploy the shop on a Friday." in scratch.core


def test_what_is_forgotten_leaves_the_index(scratch, memory):
    memory.update(append="Ottilie grows zqxkumquats")
    (hit,) = memory.search("zqxkumquats", tier="core")
    files = list(scratch.state.glob("index.db*"))
    assert any(b"zqxkumquat" in path.read_bytes() for path in files)
    memory.forget(str(hit.id))
    assert not any(b"zqxkumquat" in path.read_bytes() for path in scratch.state.glob("index.db*"))
    assert memory.search("zqxkumquats") == []


def test_an_agent_rewords_no_rule_and_what_it_rewords_is_its_own_word():
    rule = row_of("core_00000001", "Never push to `main` by hand.", "Rules")
    state = row_of("core_00000002", "CI runs on `bilby-1`.", None)
    live = {one.id: one for one in (rule, state)}
    witness = Witness([], CueJudge())
    (passed,) = ledger_runs._weigh_operations(witness, [Update(state.id, "CI runs on `bilby-2`.")], live)
    assert passed.tags == (FROM_ASSISTANT,)
    assert lane_of_memory(replace(state, tags=passed.tags)) is Lane.ASSISTANT
    assert lane_of_memory(state) is Lane.USER
    for operation in (
        Update(rule.id, "CI runs on `bilby-2`.", position=3),
        Add(MemoryKind.CORE, "CI runs on `bilby-2`.", heading="Preferences", position=3),
        Add(MemoryKind.CORE, "CI runs on `bilby-2`.", heading="Preferences", position=0),
    ):
        with pytest.raises(RefusedError, match=r"bullet 1: .*only the user may state a rule"):
            list(ledger_runs._weigh_operations(witness, [operation], live))


def row_of(memory_id, content, heading):
    now = "2026-05-04T12:00:00Z"
    return Row(memory_id, "demo", MemoryKind.CORE, content, hash_of(content), now, now, "0" * 32, heading=heading)


def test_a_note_whose_command_was_stopped_is_written_once_when_it_is_given_again(scratch):
    with in_process(scratch) as app:
        asked = (app.engine, app.clock, "demo", ledger_runs.SAVE)
        day = {"day": "2026-03-04", "clock": "09:00"}
        first = waiting.request(*asked, day, text="the moon is out")  # and its command is gone
        scratch.change("UPDATE job_run SET scheduled_for = '2999' WHERE id = ?", first)  # it had failed, say
        assert waiting.request(*asked, {"day": "2026-03-04", "clock": "09:01"}, text="the moon is out") == first
        others = [
            waiting.request(*asked, day, text="another"),
            waiting.request(*asked, day | {"witness": {}}, text="the moon is out"),
        ]
        assert len({first, *others}) == 3
        assert app.runner.run_next(only=first).state == "succeeded"
        assert waiting.request(*asked, day, text="the moon is out") not in {first, *others}
