"""What no model is asked about, in one go: an edit of `MEMORY.md` is imported, facts are stored, a sleep is taken back.

For `syscall_sweep.py`. Each part is what a person would ask for again after a kill: what is done already stays done.
"""

import json
import os
from datetime import timedelta

from edited_world import World
from facts_world import store_on
from scratch import STARTED
from swept_sleep import READ_AT, glance, is_state
from swept_sleep import state as all_of_it
from syscall_sweep import Job

from memoryd.changing import ledger_runs
from memoryd.ledger.facts import NewFact

RULE = "never deploy on a Friday"
FACTS = [NewFact("Lives in Graz.", "knowledge", 0.9), NewFact("Drinks tea.", "preference", 0.8), NewFact("Sings.")]


def prepare(root):
    """A sleep that is to be taken back, a protected bullet, facts; then an edit that nobody has seen yet."""
    world = World(root)
    with world.open():
        world.take()
        world.own("protect", world.id_of(RULE))
        (root / "sleep").write_text(world.sleep())
        store_on(world.app.engine, world.scratch.workspace, world.app.clock).create(
            [NewFact("Sings."), NewFact("Reads.")]
        )
    text = world.text().replace(f"- {RULE}\n", "").replace("about tea", "about green tea")
    world.write(text.replace("- an old one\n", "- an old one\n- mine\n\nand this, which is no bullet\n"))
    written = (STARTED + timedelta(minutes=31)).timestamp()
    os.utime(world.path, (written, written))


def run(root, _runs_before):
    world = World.at(root)
    with world.open(now=STARTED + READ_AT + timedelta(minutes=1)):  # always the same, since rows tell when they ended
        world.take()
        store_on(world.app.engine, world.scratch.workspace, world.app.clock, max_facts=4).create(FACTS)
        asked_for = world.scratch.query("SELECT state FROM job_run WHERE kind = ?", ledger_runs.ROLLBACK)
        if not asked_for:
            world.do(ledger_runs.ROLLBACK, run=(root / "sleep").read_text())
        while world.app.runner.run_next() is not None:
            pass


def state(root):
    """All rows and files; what the runs backed up as a list, since each of several has a `MEMORY.md`."""
    found = all_of_it(root)
    backups = root / "workspace" / ".continuum" / "memory" / "backup"
    found["files"] = {name: text for name, text in found["files"].items() if "/backup/" not in name}
    found["files"] |= {"backups": sorted(path.read_text("utf-8") for path in backups.rglob("*.md"))}
    # A rollback tells the journal ahead of the rows, and again where it was stopped in between: the last word counts.
    told = {}
    for line in found["files"]["state/watermarks.jsonl"].splitlines():
        entry = json.loads(line)
        told[entry["record_id"], entry["part"], entry["consumer"]] = entry
    found["files"]["state/watermarks.jsonl"] = str(list(told.values()))
    # The commit that puts something back tells which; the import that came upon it, also what had become of it.
    found["rows"]["alarm"] = [row.replace(" was missing", "") for row in found["rows"]["alarm"]]
    return found


LEDGER = Job(prepare, run, state, glance, is_state)
