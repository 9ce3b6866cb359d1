"""People, jobs and the time machine at real files and a real database, in any order.

Whatever the order: the rows are what the audit leads to, nobody's line goes but by whoever may take it, no protected
memory goes, and a run that is taken back leaves rows and bytes as they were.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import tempfile
from collections import Counter
from contextlib import closing, suppress
from datetime import date, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
from edited_world import World
from facts_world import store_on
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from scratch import STARTED, Scratch, in_process, said

from memoryd.changing import ledger_runs
from memoryd.daemon.once import read_all
from memoryd.database import audit as audits
from memoryd.database import reads, runs, sqlite
from memoryd.errors import RefusedError
from memoryd.jobs.job import (
    AddMemories,
    AppendDaily,
    Done,
    EditFacts,
    LearnedFact,
    LearnedSection,
    MemoryType,
    MoveWatermark,
    NewMemory,
    Operate,
)
from memoryd.ledger import audit as chain
from memoryd.ledger.facts import NewFact
from memoryd.ledger.guards import Caller
from memoryd.ledger.memory import MemoryKind
from memoryd.ledger.operation import Add, Delete, Merge, Update
from memoryd.running import deciding
from memoryd.running.core_watch import CoreWatch
from memoryd.tiers import core

WORDS = st.sampled_from(["tea", "green tea", "Friday", "deploy on Friday", "the parser", "# x", "Anna", "`b`", "水 é"])
LINE = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
HEADINGS = st.sampled_from(["", "H", "Facts"])
NO_BULLET = st.sampled_from(
    ["Words of mine.", "## H", "  - deeper", "```\n- in a fence\n```", "<!-- c -->", "* starred", "1. one", "\t", "---"]
)
HUMAN = st.one_of(LINE.map("- {}".format), NO_BULLET)
BOM = b"\xef\xbb\xbf"
TABLES = {
    "memory": "SELECT * FROM memory ORDER BY id",
    "profile": "SELECT * FROM profile_section ORDER BY section",
    "watermark": "SELECT session_id, consumer, seq FROM watermark ORDER BY 1, 2",
    "turns": "SELECT count(*), max(seq) FROM turn",
}


def scripted(edits):
    """Decide on edits without a question."""
    return Done(edits)
    yield


SCRIPTED = deciding.JobKind(
    gather=lambda _source, run: SCRIPTS[run.id],
    decide=scripted,
    merge=lambda replies: replies[0],
)
PHASES = [phase for phase in Phase if phase is not Phase.explain]  # which traces every line, and there are many
SCRIPTS = {}  # what the runs of a kind decide, by the run's id: the commit and all below it are the real ones


def lines_of(data):
    return Counter(line.removesuffix(b"\r") for line in data.removeprefix(BOM).split(b"\n"))


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    """An installation that has read one session; in memory where that can be, since a disk is waited for."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of a random name is made in it
    folder = memory if os.access(memory, os.W_OK) else tmp_path_factory.mktemp("pristine")
    with tempfile.TemporaryDirectory(dir=folder) as made:
        yield installed(Path(made) / "scratch")


def installed(root):
    scratch = Scratch(root)
    with in_process(scratch, lambda: STARTED + timedelta(minutes=45)) as app:
        scratch.append(said())
        read_all(app)
    shutil.copytree(root, root.with_name("copy"))
    return scratch, root.with_name("copy")


class Storage(RuleBasedStateMachine):
    scratch = copy = None  # set by the test

    def __init__(self):
        super().__init__()
        self.minutes = 45
        self.world = object.__new__(World)
        self.world.scratch = type(self).scratch.copied(type(self).copy)
        self.path = self.world.path = self.world.scratch.workspace / "MEMORY.md"
        self.world.app = self.app = in_process(self.world.scratch, lambda: STARTED + timedelta(minutes=self.minutes))
        numbers = itertools.count(1)
        self.app.runner.new_id = lambda: f"{next(numbers):08x}"  # the same choices mean the same ids
        self.world.watch = CoreWatch(self.app.runner)
        ((self.session,),) = self.world.scratch.query("SELECT id FROM session")
        self.last = None  # the newest run and what there was before it, while nothing came since

    # --- what there is ---

    @property
    def data(self):
        return self.path.read_bytes() if self.path.exists() else b""

    def snapshot(self):
        tables = {name: self.world.scratch.query(sql) for name, sql in TABLES.items()}
        files = {name: text.partition("\n")[2].strip("\n") for name, text in self.world.scratch.dailies().items()}
        return tables, self.data, {name: text for name, text in files.items() if text}

    def live(self):
        return self.world.live()

    # --- a person, or a tool of the agent's ---

    def written(self, data, how):
        self.last = None
        if how == "truncates and writes":
            self.path.write_bytes(data)
        else:
            if how == "keeps a backup" and self.path.exists():
                self.path.rename(self.path.with_name("MEMORY.md~"))
            self.path.with_name(".#MEMORY.md").write_bytes(data)
            self.path.with_name(".#MEMORY.md").replace(self.path)

    HOW = st.sampled_from(["truncates and writes", "renames", "keeps a backup"])

    @rule(text=HUMAN, end=st.sampled_from(["\n", "", "\r\n", "\n\n"]))
    def appends(self, text, end):
        self.last = None
        with self.path.open("ab") as file:
            file.write((text + end).encode())

    @rule(data=st.data(), text=HUMAN, how=HOW)
    def writes_a_line_somewhere(self, data, text, how):
        lines = self.data.split(b"\n")
        place = data.draw(st.integers(0, len(lines)))
        self.written(b"\n".join([*lines[:place], text.encode(), *lines[place:]]), how)

    @rule(data=st.data(), how=HOW)
    def removes_a_line(self, data, how):
        lines = self.data.split(b"\n")
        del lines[data.draw(st.integers(0, len(lines) - 1))]
        self.written(b"\n".join(lines), how)

    @rule(how=HOW, what=st.sampled_from(["crlf", "lf", "bom", "no bom", "no end"]))
    def saves_it_otherwise(self, how, what):
        data = self.data
        if what in {"crlf", "lf"}:
            data = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n" if what == "crlf" else b"\n")
        elif what == "no end":
            data = data.rstrip(b"\r\n")
        else:
            data = (BOM if what == "bom" else b"") + data.removeprefix(BOM)
        self.written(data, how)

    # --- what takes it over ---

    @rule()
    def the_file_is_taken_over(self):
        old = self.data
        self.world.take()
        self.last = None
        lost = [line for line in lines_of(old) - lines_of(self.data) if line.strip()]
        protected = self.world.scratch.query("SELECT 1 FROM memory WHERE constitutional AND deleted_at IS NULL")
        assert not lost or protected
        assert all(core.parse(line).bullets for line in lost), lost  # what stood in a protected one's place
        self.everything_agrees()

    # --- jobs ---

    def run(self, kind, *edits, **options):
        before = self.snapshot()
        run_id = runs.new_run_id(self.app.clock.now())
        SCRIPTS[run_id] = edits
        now = self.app.clock.text()
        row = {"id": run_id, "kind": kind, "agent_id": "demo", "actor": "human", "trigger": "manual"}
        row |= {"created_at": now, "scheduled_for": now, "options": options, "session_id": self.session}
        with sqlite.begin_write(self.app.engine) as connection:
            assert runs.enqueue(connection, row)
        self.minutes += 1
        old = self.data
        self.app.runner.run_next(only=run_id)
        self.minutes += 1
        with reads.open_reader(self.app.database) as reader:
            done = reads.job_run(reader, run_id)
        assert done["state"] in {"succeeded", "skipped", "declined"}, done
        if kind != ledger_runs.ROLLBACK:
            assert self.data.startswith(BOM) == old.startswith(BOM)
            self.nobodys_line_is_lost(lines_of(old), run_id)
        # What went back into the file stays there, whatever is taken back.
        self.imported = self.world.scratch.query(
            "SELECT 1 FROM audit WHERE operation IN ('import', 'put back') AND at >= ?", now
        )
        changed = self.world.scratch.query("SELECT 1 FROM audit WHERE run_id = ?", run_id)
        self.last = (run_id, before) if changed and not self.imported and done["state"] == "succeeded" else None
        return done

    def nobodys_line_is_lost(self, lines, run_id):
        """What went of the file are lines of memories that this very run changed."""
        ids = {row[0] for row in self.world.scratch.query("SELECT memory_id FROM audit WHERE run_id = ?", run_id)}
        rows = self.world.scratch.query(
            "SELECT c.text FROM audit a JOIN content c ON c.sha256 = a.before WHERE a.run_id = ?", run_id
        )
        own = {core.normalize(json.loads(text)["content"]) for (text,) in rows if "content" in json.loads(text)}
        for line in lines - lines_of(self.data):
            bullets = core.parse(line).bullets
            assert not line.strip() or any(core.normalize(one.text) in own for one in bullets), (
                line, ids, own,
            )  # fmt: skip

    @rule(texts=st.lists(LINE, max_size=2), told=st.booleans(), sort=st.sampled_from(MemoryType))
    def a_sleep(self, texts, told, sort):
        found = tuple(NewMemory(sort, 0.5, text, (1,)) for text in texts)
        block = [AppendDaily(date(2026, 3, 4), "Trimmed Context", "09:30", "- told")] if told else []
        with sqlite.begin_read(self.app.engine) as connection:
            mark = connection.exec_driver_sql("SELECT coalesce(max(seq), 0) FROM watermark").scalar_one()
        self.run("sleep", *block, AddMemories(found), MoveWatermark(self.session, "sleep", min(mark + 1, 6)))

    @rule(data=st.data(), caller=st.sampled_from([Caller.REFINEMENT, Caller.TOOL, Caller.REWRITE]))
    def a_refinement(self, data, caller):
        ids = [memory.id for memory in self.live()]
        add = st.builds(Add, st.just(MemoryKind.CORE), LINE, heading=HEADINGS)
        anyone = st.sampled_from(ids or ["core_ffffffff"])
        some = (
            st.builds(Update, anyone, content=LINE)
            | st.builds(Update, anyone, heading=HEADINGS)
            | st.builds(Delete, anyone)
        )
        if len(ids) > 1:
            both = st.lists(anyone, min_size=2, max_size=2, unique=True).map(tuple)
            some |= st.builds(Merge, both, LINE)
        chosen, named = [], set()
        for operation in data.draw(st.lists(add | some if ids else add, min_size=1, max_size=3)):
            meant = set(getattr(operation, "ids", None) or {getattr(operation, "id", None)}) - {None}
            if not meant & named:
                chosen.append(operation)
                named |= meant
        seen = {memory.id: memory.content for memory in self.live()}
        self.run("sleep", Operate(tuple(chosen), caller, seen))

    @rule(verb=st.sampled_from(["protect", "protect", "unprotect"]), data=st.data())
    @precondition(lambda self: self.live())
    def the_owner_protects(self, verb, data):
        self.run(ledger_runs.EDIT, operations=[[verb, data.draw(st.sampled_from(self.live())).id]])

    @rule(data=st.data())
    def the_owner_restores(self, data):
        ended = self.world.scratch.query(
            "SELECT id FROM memory WHERE deleted_at IS NOT NULL AND kind = 'core' ORDER BY rowid"
        )
        if ended:
            self.run(ledger_runs.EDIT, operations=[["restore", data.draw(st.sampled_from(ended))[0]]])

    @rule()
    def duplicates_go(self):
        self.run(ledger_runs.DEDUP)

    @rule(texts=st.lists(LINE, min_size=1, max_size=2), section=st.none() | LINE)
    def facts_are_learned(self, texts, section):
        learned = tuple(LearnedFact(text, "knowledge", 0.8, (1,)) for text in texts)
        sections = () if section is None else (LearnedSection("work", section, (1,)),)
        self.run("sleep", EditFacts(self.session, learned, (), sections))

    @rule(data=st.data(), text=LINE, act=st.sampled_from(["create", "update", "delete", "bring"]))
    def the_owner_changes_facts(self, data, text, act):
        self.last = None
        store = store_on(self.app.engine, self.world.scratch.workspace, self.app.clock, max_facts=4)
        ids = [fact.id for fact in store.all()]
        if act == "create" or not ids:
            store.create([NewFact(text)])
        elif act == "bring":
            store.bring(store.dump())
        elif act == "delete":
            store.delete(data.draw(st.sampled_from(ids)))
        else:
            with suppress(ValueError, RefusedError):  # another says it already
                store.update(data.draw(st.sampled_from(ids)), text)
        self.minutes += 1
        self.rows_are_what_the_audit_leads_to()

    # --- the time machine ---

    @rule()
    @precondition(lambda self: self.last is not None)
    def the_last_run_is_taken_back(self):
        run_id, (tables, data, files) = self.last
        done = self.run(ledger_runs.ROLLBACK, run=run_id)
        if done["state"] == "skipped":
            return  # it had changed nothing
        assert done["state"] == "succeeded", done
        if self.imported:
            return  # an edit that nobody had taken over yet
        now, now_data, now_files = self.snapshot()
        there = {row[0] for row in tables["memory"]}
        kept = [row for row in now["memory"] if row[0] in there]
        assert (kept, {**now, "memory": 0}) == (tables["memory"], {**tables, "memory": 0})
        assert (now_data, now_files) == (data, files)
        assert {one.id for one in self.live()} <= there
        again = self.run(ledger_runs.ROLLBACK, run=run_id)
        assert (again["state"], again["why"]) == ("skipped", "it was rolled back before")
        assert self.snapshot() == (now, now_data, now_files)
        self.last = None

    @rule(data=st.data())
    def some_run_is_taken_back(self, data):
        ids = self.world.scratch.query("SELECT DISTINCT run_id FROM audit WHERE run_id IS NOT NULL ORDER BY id")
        if ids:
            before = self.snapshot()
            if self.run(ledger_runs.ROLLBACK, run=data.draw(st.sampled_from(ids))[0])["state"] == "declined":
                self.only_the_import_changed(before)

    @rule(data=st.data())
    def all_since_an_entry_is_taken_back(self, data):
        ((newest,),) = self.world.scratch.query("SELECT coalesce(max(id), 0) FROM audit")
        if newest:
            self.run(ledger_runs.ROLLBACK, to=data.draw(st.integers(max(0, newest - 6), newest)))

    def only_the_import_changed(self, before):
        tables, data, files = self.snapshot()
        assert (data, files, tables["profile"], tables["watermark"]) == (
            before[1], before[2], before[0]["profile"], before[0]["watermark"],
        )  # fmt: skip

    # --- at any time ---

    def rows_are_what_the_audit_leads_to(self):
        with sqlite.begin_read(self.app.engine) as connection:
            entries = audits.read_entries(connection, "demo")
            assert [one.what for one in chain.check(entries)] == []
        found = [one for one in self.world.problems() if "MEMORY.md" not in one["where"]]
        assert found == []

    def everything_agrees(self):
        found = self.world.problems()
        assert found == [], (found, self.data, [one.content for one in self.live()])
        held = {core.normalize(bullet.text) for bullet in core.parse(self.data).bullets}
        rows = self.world.scratch.query("SELECT content, deleted_at FROM memory WHERE constitutional AND kind = 'core'")
        assert [text for text, _ in rows if core.normalize(text) not in held] == []
        assert [text for text, ended in rows if ended is not None] == []

    def teardown(self):
        with closing(self.app):
            self.rows_are_what_the_audit_leads_to()
            self.world.take()
            self.everything_agrees()


def test_people_jobs_and_the_time_machine_in_any_order(pristine):
    Storage.scratch, Storage.copy = pristine
    with patch.dict(deciding.KINDS, sleep=SCRIPTED):
        run_state_machine_as_test(Storage, settings=settings(stateful_step_count=6, phases=PHASES))


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_what_a_person_has_changed_since_a_job_decided_is_left_alone(pristine, copies):
    Storage.scratch, Storage.copy = pristine
    with patch.dict(deciding.KINDS, sleep=SCRIPTED):
        machine = Storage()
        with closing(machine.app):
            machine.path.write_bytes(b"- tea\n" * copies + b"- Friday\n")
            machine.world.take()
            rows = machine.live()
            seen = {memory.id: memory.content for memory in rows}
            machine.path.write_bytes(b"- tea\n" * copies + b"  of mine\n- Friday\n")
            changed = tuple(Update(memory.id, content=f"{memory.content} {at}") for at, memory in enumerate(rows))
            done = machine.run("sleep", Operate(changed, Caller.REFINEMENT, seen))
            mine = rows[copies - 1].id
            (refused,) = done["receipt"]["refused"]
            assert (refused["guard"], refused["memories"]) == ("edited", [mine])
            assert machine.data.endswith(b"- tea\n  of mine\n- Friday %d\n" % copies)
            machine.everything_agrees()


def test_moved_memories_have_the_positions_of_their_places_in_the_file(pristine):
    """Also below a heading that no memory stood below, where the operation cannot know its place."""
    Storage.scratch, Storage.copy = pristine
    with patch.dict(deciding.KINDS, sleep=SCRIPTED):
        machine = Storage()
        with closing(machine.app):
            machine.path.write_bytes(b"- tea\n- Friday\n\n## H\n\n## Facts\n\n- the parser\n")
            machine.world.take()
            first, second, third = machine.live()
            seen = {memory.id: memory.content for memory in machine.live()}
            beyond = third.position + 1
            moves = (
                Update(first.id, heading="H", position=beyond),
                Update(second.id, heading="Facts", position=beyond),
            )
            machine.run("sleep", Operate(moves, Caller.REFINEMENT, seen))
            assert machine.data == b"## H\n\n- tea\n\n## Facts\n\n- the parser\n- Friday\n"
            assert [one.id for one in machine.live()] == [first.id, third.id, second.id]
            machine.everything_agrees()
