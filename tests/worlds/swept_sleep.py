"""A whole sleep, from an empty state folder: read a transcript, ask, commit. For `syscall_sweep.py`."""

import contextlib
import json
import os
import re
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

from scratch import STARTED, Scratch, filler, in_process, said
from syscall_sweep import Job

from memoryd.files.journal import Journal

OLD = "# Notes\n\n- an old one\n- an older one\n"
READ_AT = timedelta(minutes=45)
AGAIN_AFTER = timedelta(minutes=10)  # a run that failed is due again by then
RANDOM = re.compile(r"run-\d{8}T\d{6}-[0-9a-f]{6}|core_[0-9a-f]{8}")
# What differs from run to run though the job came to the same.
VOLATILE = {
    "agent": {"seen_at"},
    "transcript": {"id", "device", "inode", "ctime_ns", "fate", "fate_at"},
    "session": {"seen_at", "slept_at"},
    "turn": {"id"},
    "watermark": {"moved_at", "run_id"},
    "session_summary": {"updated_at", "run_id"},
    "memory": {"id", "created_at", "updated_at", "salt"},
    "audit": {"at", "run_id", "memory_id", "before", "after", "prev_hash", "hash"},
    "content": {"sha256", "text"},
    "core_file": {"agreed_at"},
    "job_run": {
        *("id", "created_at", "scheduled_for", "started_at", "heartbeat_at", "finished_at", "attempt", "fence"),
        *("owner", "receipt"),
    },
    "alarm": {"id", "since"},
}


def prepare(root):
    scratch = Scratch(root, scrub={"secrets": "redact"})
    (scratch.workspace / "MEMORY.md").write_text(OLD, encoding="utf-8")
    path = scratch.append([*said(), filler()])
    # Otherwise whether the file has rested would hang on today's date.
    written = (STARTED + timedelta(minutes=31)).timestamp()
    os.utime(path, (written, written))


def run(root, runs_before):
    from memoryd.daemon.once import run_once

    now = STARTED + READ_AT + runs_before * AGAIN_AFTER
    with in_process(Scratch.at(root), lambda: now) as app:
        run_once(app)


def is_state(path):
    return not re.search(r"/workspace/sessions|/asked|/memoryd\.yaml", path)


def files_of(root):
    """Every file and folder but the database's own, its copies and its journal, by name without random parts."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = RANDOM.sub("*", str(path.relative_to(root)))
        if path.is_dir():
            found[name + "/"] = ""
        elif not re.search(
            r"^asked$|^memoryd\.yaml$|/memoryd\.db(-|$)|\.lock$|/\.late-|/backups/."
            r"|/(\.memoryd-new-\w+-)?journal\.jsonl(\.tmp)?$",  # the next rewrite removes what was left
            name,
        ):
            text = path.read_text(encoding="utf-8", errors="replace")
            if path.name == "consolidation.log":  # tells when and by which run
                text = re.sub(r"^\[.*? UTC\]", "", RANDOM.sub("*", text), flags=re.MULTILINE)
            found[name] = _entries(text) if path.name == "watermarks.jsonl" else text
    return found


def _entries(text):
    """The journal passes over what is damaged."""
    found = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            found.append(json.dumps(json.loads(line), sort_keys=True))
    return "\n".join(found)


def asked(root):
    path = root / "asked"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def state(root):
    """All rows, less what is volatile, and all files."""
    from memoryd.database.library import load_library

    with contextlib.closing(load_library().connect(root / "state" / "memoryd.db", timeout=5)) as connection:
        sound = connection.execute("PRAGMA integrity_check").fetchall()
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {name: _rows(connection, name) for name in sorted(tables) if not name.startswith("sqlite_")}
        (last,) = connection.execute("SELECT max(seq) FROM changed_row").fetchone()
    del rows["changed_row"]  # how often a row was changed until it came to the same
    seqs = [entry["seq"] for entry in Journal(root / "state" / "journal.jsonl", sealed=True).entries()]
    assert seqs[-1:] == [last], "the journal has what the database has"
    return {"sound": sound, "rows": rows, "files": files_of(root), "asked": asked(root)}


def _rows(connection, table):
    where = " WHERE cleared_at IS NULL" if table == "alarm" else ""
    found = connection.execute(f"SELECT * FROM {table}{where}")  # noqa: S608 - a name of our own schema
    names = [column[0] for column in found.description]
    left_out = VOLATILE.get(table, set())
    return sorted(
        json.dumps(
            {name: str(value) for name, value in zip(names, row, strict=True) if name not in left_out}, sort_keys=True
        ).replace("True", "1")
        for row in found.fetchall()
    )


def glance(root):
    """What a disturbed run left: looked at in a copy, since opening a database may recover it."""
    left = {"files": files_of(root), "asked": asked(root), "runs": [], "alarms": [], "stored": False}
    if not (root / "state" / "memoryd.db").exists():
        return left
    with tempfile.TemporaryDirectory(dir=root.parent) as folder:
        copy = shutil.copytree(root / "state", Path(folder) / "state")
        left |= _look_into(copy / "memoryd.db")
    return left


def _look_into(path):
    from memoryd.database.library import load_library

    with contextlib.closing(load_library().connect(path, timeout=5)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'job_run'").fetchall():
            return {}
        runs = connection.execute("SELECT state, error FROM job_run").fetchall()
        stored = connection.execute("SELECT count(*) FROM job_run WHERE reply IS NOT NULL OR state = 'succeeded'")
        alarms = connection.execute("SELECT kind, text FROM alarm WHERE cleared_at IS NULL").fetchall()
        return {"runs": runs, "stored": stored.fetchone()[0] > 0, "alarms": alarms}


SLEEP = Job(prepare, run, state, glance, is_state)
