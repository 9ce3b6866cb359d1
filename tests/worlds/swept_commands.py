"""What people ask for by commands, one after the other, for `syscall_sweep.py` and `power_loss.py`.

NIGHT: old sessions are imported (read, sleep, facts, rollover, dream), then a refinement. ACTS: facts, protection,
ratings, access, a pause, notes, a rollback, and a session and a memory are forgotten. Each command is given again after
a fault, as a person does, unless what it was to do is done.
"""

import json
import os
import re
from contextlib import closing
from datetime import timedelta
from functools import partial
from unittest.mock import patch

from facts_world import store_on
from scratch import STARTED, Model, Scratch, filler, in_process, message, said
from swept_sleep import files_of, glance, is_state
from syscall_sweep import Job

from memoryd import app
from memoryd.changing import verify
from memoryd.daemon.once import run_once
from memoryd.database import packing
from memoryd.database.library import load_library
from memoryd.database.reads import open_reader
from memoryd.files.journal import Journal
from memoryd.ledger.facts import NewFact

CORE = "# Notes\n\n## Rules\n\n- never deploy on a Friday\n- an old one\n- another old one, about tea\n"
PLANTED = "violet walrus"  # is to be forgotten
ROWS = {
    "memory": (
        "SELECT kind, content, constitutional, deleted_at IS NULL AS live, ended_as, heading FROM memory"
        " ORDER BY kind, content, live"
    ),
    "turn": "SELECT session_id, seq, role, plain(CAST(text AS BLOB), text_crc) FROM turn ORDER BY 1, 2",
    "watermark": "SELECT session_id, consumer, seq FROM watermark ORDER BY 1, 2",
    "grant": 'SELECT agent_id, purpose, state FROM "grant" ORDER BY 1, 2',
    "agent": "SELECT id, paused FROM agent ORDER BY 1",
    "profile": "SELECT section, text FROM profile_section ORDER BY 1",
    "summary": "SELECT session_id FROM session_summary ORDER BY 1",
    "forgotten": "SELECT session_id, count(*) FROM forgotten_text GROUP BY 1 ORDER BY 1",
    "runs": (
        "SELECT DISTINCT kind FROM job_run WHERE state IN ('succeeded', 'skipped') AND kind NOT IN ('canary', 'eval')"
        " ORDER BY 1"
    ),
    "open": "SELECT run_id FROM intent",
}
# Whatever differs from run to run.
_VOLATILE = re.compile(
    r"\b\d{4}-\d\d-\d\d(?:T[\d:.-]+Z?)?|\b\d\d:\d\d(?::\d\d)?\b|\b(?:run|core|fact|jrnl|grant|sess)[-_][\w-]+|\.\d+h"
)

_FILE = re.compile(r"    - \S+\.md$")
_COUNTED = re.compile(r" \((?:new, \d+|\d+ → \d+) lines\)")


def prepare_night(root):
    """Two sessions of long ago, and a core that is worth a refinement."""
    scratch = Scratch(root, modes={"rollover": "auto"}, refine={"target_tokens": 20, "trigger_tokens": 30})
    scratch.agents[0]["context_window"] = 200_000
    scratch.write_config(ingest={"settle": "1ms"})
    (scratch.workspace / "MEMORY.md").write_text(CORE, encoding="utf-8")
    scratch.append([*said(), filler()])
    scratch.append(
        [message("user", "We decided to host the shop in Frankfurt, because its users live there.", 60)], "b"
    )
    _age(scratch)


def prepare_acts(root):
    """A sleep over two sessions, one of which is to be forgotten, and a run that is to be taken back."""
    scratch = Scratch(root, ingest={"settle": "1ms"})
    (root / "quiet").mkdir()
    scratch.agents.append(Scratch.agent("quiet", root / "quiet", privacy="silo"))
    scratch.write_config()
    (scratch.workspace / "MEMORY.md").write_text(CORE, encoding="utf-8")
    told = f"We decided to print a {PLANTED} on each parcel, because the customers like it."
    scratch.append([message("user", told, 1), filler()], "gone")
    scratch.append([*said(2), filler(minute=31)], "one")
    _age(scratch)
    with in_process(scratch, lambda: STARTED + timedelta(minutes=45)) as opened:
        run_once(opened)
        store = store_on(opened.engine, scratch.workspace, opened.clock)
        store.create([NewFact("Sings in a choir.")])
    assert scratch.json("update", "--agent", "demo", "--append", "taken back again")["run"]


def _age(scratch):
    written = (STARTED + timedelta(minutes=70)).timestamp()
    for path in (scratch.workspace / "MEMORY.md", *scratch.sessions.iterdir()):
        os.utime(path, (written, written))


def id_of(words, scratch):
    """The id of the memory with these words."""
    return scratch.query("SELECT id FROM memory WHERE instr(content, ?) ORDER BY id", words)[0][0]


def run_of(_words, scratch):
    """The last run that a person's update made."""
    return scratch.query(
        "SELECT max(run_id) FROM audit WHERE run_id IN (SELECT id FROM job_run WHERE kind = 'update')"
    )[0][0]


SUCCEEDED = "SELECT 1 FROM job_run WHERE kind = '{}' AND state IN ('succeeded', 'skipped')"
# What is forgotten is taken out of rows first: an open run has more to do.
FORGOTTEN = "{} EXCEPT SELECT 1 FROM job_run WHERE kind = 'forget' AND finished_at IS NULL"
NIGHT_COMMANDS = (
    (("import",), "SELECT 1 FROM job_run WHERE kind = 'history' AND state = 'succeeded'"),
    (("job", "run", "refine", "--force"), SUCCEEDED.format("refine")),
    (("run", "--once"), "SELECT 1 WHERE FALSE"),
)
ACTS_COMMANDS = (
    (
        ("facts", "add", "--agent", "demo", "Lives in Graz.", "--category", "knowledge"),
        "SELECT 1 FROM memory WHERE content LIKE '%Graz%'",
    ),
    (
        ("facts", "delete", "--agent", "demo", partial(id_of, "choir")),
        "SELECT 1 FROM memory WHERE content LIKE '%choir%' AND deleted_at",
    ),
    (("core", "protect", "--agent", "demo", partial(id_of, "Friday")), "SELECT 1 FROM memory WHERE constitutional"),
    (
        ("feedback", "--agent", "demo", partial(id_of, "an old one"), "bad"),
        "SELECT 1 FROM audit WHERE operation LIKE 'feedback %'",
    ),
    (("pause", "--agent", "demo"), "SELECT 1 FROM agent WHERE paused"),
    (("grant", "request", "--agent", "quiet", "--purpose", "help", "--for", "1h"), 'SELECT 1 FROM "grant"'),
    # A save that was killed in its commit is completed by the next start.
    (
        ("save", "--agent", "demo", "a note of mine"),
        SUCCEEDED.format("save") + " OR kind = 'save' AND state = 'running'",
    ),
    (("rollback", "--agent", "demo", partial(run_of, "")), SUCCEEDED.format("rollback")),
    (("forget", "--agent", "demo", "session:gone", "--yes"), FORGOTTEN.format("SELECT 1 FROM forgotten_text")),
    (
        ("forget", "--agent", "demo", partial(id_of, "about tea"), "--yes"),
        "SELECT 1 WHERE (SELECT sum(content LIKE '%about tea%') FROM memory) = 0",
    ),
    (("run", "--once"), "SELECT 1 WHERE FALSE"),
)


def _run(commands, root, _runs_before):
    scratch = Scratch.at(root)
    with patch.object(app, "Worker", lambda *_, **__: Model(root / "asked")):
        for given, is_done in commands:
            if _is_done(scratch, is_done):
                continue
            if given == ("run", "--once"):
                _end_waiting(scratch)
            done = scratch.run("--json", *(one(scratch) if callable(one) else one for one in given))
            if done.returncode != 0:
                raise SystemExit(done.stdout + done.stderr)


def _end_waiting(scratch):
    """Make due what failed and waits for its next attempt, as some minutes would."""
    with closing(load_library().connect(str(scratch.state / "memoryd.db"), timeout=5)) as connection:
        packing.register(connection)
        connection.execute(
            "UPDATE job_run SET scheduled_for = created_at"
            " WHERE state = 'queued' AND kind <> 'history' AND error IS NOT NULL"
        )
        connection.commit()


def _is_done(scratch, sql):
    try:
        return bool(scratch.query(sql))
    except load_library().OperationalError:  # there is no database yet, or no table in it
        return False


def state(root):
    """Rows and files without what is volatile, and whether all of it agrees."""
    scratch = Scratch.at(root)
    with closing(load_library().connect(str(scratch.state / "memoryd.db"), timeout=5)) as connection:
        packing.register(connection)
        rows = {name: [list(map(str, row)) for row in connection.execute(sql)] for name, sql in ROWS.items()}
        sound = connection.execute("PRAGMA integrity_check").fetchall()
        (last,) = connection.execute("SELECT max(seq) FROM changed_row").fetchone()
    seqs = [entry["seq"] for entry in Journal(scratch.state / "journal.jsonl", sealed=True).entries()]
    assert seqs[-1:] == [last], "the journal has what the database has"
    with in_process(scratch) as opened, open_reader(opened.database) as reader:
        problems = [str(one) for one in verify.list_problems(opened.settings, reader)]
    held = {_VOLATILE.sub("*", name): _VOLATILE.sub("*", text) for name, text in files_of(root).items()}
    files = {name: text for name, text in held.items() if name.startswith("workspace/") and "/backup/" not in name}
    # Lines in any order, without how many a file had: what failed at first is done after other work. The change log
    # may name a file once less, since a forgetting that goes on finds it cut already.
    files = {name: sorted(_COUNTED.sub("", text).splitlines()) for name, text in files.items()}
    files = {
        name: [*(one for one in lines if not _FILE.match(one)), *filter(_FILE.match, dict.fromkeys(lines))]
        for name, lines in files.items()
    }
    return {"sound": sound, "rows": json.loads(_VOLATILE.sub("*", json.dumps(rows))), "files": files, "wrong": problems}


NIGHT = Job(prepare_night, partial(_run, NIGHT_COMMANDS), state, glance, is_state)
ACTS = Job(prepare_acts, partial(_run, ACTS_COMMANDS), state, glance, is_state)
EXPECTED = {  # the kinds of runs
    "NIGHT": {"history", "sleep", "facts", "dream", "rollover", "refine"},
    "ACTS": {"sleep", "update", "edit", "save", "rollback", "forget"},
}
