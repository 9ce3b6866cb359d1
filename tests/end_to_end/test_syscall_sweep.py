"""A whole sleep, killed or failed at each system call that touches its files, comes to the same as an undisturbed one.

In `make test` a sample of the points, chosen by a seed that is printed (and can be given: MEMORYD_SWEEP_SEED). In
`make soak` every kind of point, as `syscall_sweep.py` tells them apart, and a sample of the repeats, another each time.
"""

import json
import os
import random
from collections import Counter
from pathlib import Path

import forks
import pytest
import swept_commands
import swept_ledger
import swept_migration
import syscall_sweep
import syscall_watch
from swept_sleep import OLD

from memoryd.database import parts

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
SEED = int(os.environ.get("MEMORYD_SWEEP_SEED") or random.randrange(1_000_000))
# Of thousands of points of commands a day visits a dozen: the same ones, so that a change answers for its own failures.
DAILY_SEED = SEED if SOAK else int(os.environ.get("MEMORYD_SWEEP_SEED") or 5)
OF_REPEATS = 8
JOB = "swept_sleep:SLEEP"
KILLED = -9
WHY_NOT = syscall_watch.available()

pytestmark = [pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or ""), pytest.mark.timeout(7200 if SOAK else 600)]


def often(how):
    """This fault at each so manieth of its points; in `make soak` at each kind of point, and some repeats."""
    return f"{how.partition('/')[0]}%{OF_REPEATS}" if SOAK else how


def sweep(folder, *hows, job=JOB, record_property, seed=SEED):
    script = Path(syscall_sweep.__file__)
    words = [script, job, str(folder), *hows, "--seed", str(seed)]
    done = forks.run(words, timeout=None, cwd=script.parent)
    assert done.returncode == 0, done.stderr
    first, *points = map(json.loads, done.stdout.splitlines())
    assert (first["code"], first["again"]) == (0, 0)
    kinds = first["kinds"]
    swept = Counter(point["how"] for point in points)
    for how, there in first["points"].items():
        different = f" of {kinds[how]} kinds" if how in kinds else ""
        record_property("covered", f"{job} {how}: {swept[how]} of {there} points{different}, seed {seed}")
        assert swept[how]
    return first["after"], points


def told(point):
    return f"{point['how']} at {point['name']} {point['number']} ({point['path']}), index {point['index']}"


def check(point, alone):
    """A plain restart comes to the bytes and rows of a run that was left alone; a stored answer is not asked for."""
    at = told(point)
    assert point["hit"], f"the fault hit another call: {at}"
    assert point["again"] == 0, f"{at}\n{point['trouble']}"
    after, between = point["after"], point["between"]
    assert after["sound"] == [["ok"]], at
    assert after["files"] == alone["files"], at
    assert after["rows"] == alone["rows"], at
    assert after["asked"] == between["asked"] + (0 if between["stored"] else 1), at
    assert after["asked"] <= 2, at


def check_error_was_told(point, alone):
    """What failed is on a row, in an alarm or in the process's end; else nothing that matters failed."""
    between = point["between"]
    is_told = point["code"] != 0 or between["alarms"] or any(error for _, error in between["runs"])
    if not is_told:
        assert between["files"].items() >= _memory(alone["files"]).items(), f"nobody was told: {told(point)}"
        assert [state for state, _ in between["runs"]] == ["succeeded"], f"nobody was told: {told(point)}"


def _memory(files):
    return {name: text for name, text in files.items() if name == "workspace/MEMORY.md" or "/memory/2" in name}


def old_or_new(point, alone):
    """`MEMORY.md` is at every moment what it was or what it will be."""
    core = "workspace/MEMORY.md"
    assert point["between"]["files"][core] in {alone["files"][core], OLD}, told(point)


def test_an_upgrade_killed_at_a_call_comes_to_the_same_schema_and_rows(tmp_path, record_property):
    how = often("kill/7")
    alone, points = sweep(tmp_path, how, job="swept_migration:UPGRADE", record_property=record_property)
    assert (alone["sound"], alone["number"], alone["files"]) == (
        [["ok"]],
        len(parts.read_migrations()),
        ["memoryd.db"],
    )
    # Tables of later schemas; the rows are no memories to audit.
    later = {
        "spend",
        "audit",
        "content",
        "core_file",
        "profile_section",
        "grant",
        "forgotten_text",
        "job_mode",
        "reader",
        "verdict",
        "changed_row",
        "vault_size",
    }
    assert {len(rows) for table, rows in alone["rows"].items() if table not in later} == {swept_migration.ROWS}
    for point in points:
        assert (point["code"], point["again"]) == (KILLED, 0), f"{told(point)}\n{point['trouble']}"
        assert point["hit"], told(point)
        assert point["after"] == alone, told(point)


def test_an_import_facts_and_a_rollback_killed_at_a_call_come_to_the_same(tmp_path, record_property):
    how = often("kill/15")
    alone, points = sweep(tmp_path, how, job="swept_ledger:LEDGER", record_property=record_property)
    core = alone["files"]["workspace/MEMORY.md"]
    assert [core.count(text) for text in ("- mine\n\nand this", swept_ledger.RULE, "about green tea")] == [1, 1, 1]
    assert "Ottilie" not in core
    assert len(alone["rows"]["intent"]) == 0
    for point in points:
        assert (point["code"], point["again"]) == (KILLED, 0), f"{told(point)}\n{point['trouble']}"
        assert point["hit"], told(point)
        for what in ("sound", "files", "rows"):
            assert point["after"][what] == alone[what], f"{what}: {told(point)}"


# What one process sweeps: of each fault one point in so many; in `make soak` each fault in a process of its own.
COMMANDS = {"NIGHT": ("kill/300", "EIO+/500"), "ACTS": ("kill/500", "ENOSPC+/600")}
ALL = ("kill", "EIO", "EIO+", "ENOSPC", "ENOSPC+")


@pytest.mark.parametrize(
    ("name", "hows"),
    [(name, (how,)) for name in COMMANDS for how in ALL] if SOAK else COMMANDS.items(),
    ids=lambda given: given if isinstance(given, str) else " ".join(given),
)
def test_commands_killed_or_failed_at_a_call_lose_and_double_nothing(tmp_path, record_property, name, hows):
    """Import, sleep, facts, dream, rollover and refinement; facts, flags, access, notes, rollback and forgetting."""
    alone, points = sweep(
        tmp_path, *map(often, hows), job=f"swept_commands:{name}", record_property=record_property, seed=DAILY_SEED
    )
    assert (alone["wrong"], alone["rows"]["open"]) == ([], [])
    assert swept_commands.EXPECTED[name] <= {kind for (kind,) in alone["rows"]["runs"]}
    for point in points:
        at = told(point)
        assert point["hit"], f"the fault hit another call: {at}"
        assert point["again"] == 0, f"{at}\n{point['trouble']}"
        assert point["code"] == KILLED if point["how"] == "kill" else point["code"] in {0, 1}, f"{at} {point['said']}"
        assert point["after"] == alone, at


def test_killed_at_a_call_it_comes_to_the_same(tmp_path, record_property):
    alone, points = sweep(tmp_path, often("kill/20"), record_property=record_property)
    for point in points:
        assert point["code"] == KILLED, told(point)
        old_or_new(point, alone)
        check(point, alone)


# Those of one line are swept in one process: half of what a fault takes is the undisturbed run.
FAULTS = (
    ("EIO", "EIO+", "EROFS+", "short"),
    ("ENOSPC", "ENOSPC+", "EDQUOT", "EDQUOT+", "lie"),
)


@pytest.mark.parametrize("hows", [(how,) for hows in FAULTS for how in hows] if SOAK else FAULTS, ids=" ".join)
def test_failed_at_a_call_it_tells_and_comes_to_the_same_later(tmp_path, record_property, hows):
    several = (often(f"{how}/{8 if how in {'short', 'lie'} else 128}") for how in hows)
    alone, points = sweep(tmp_path, *several, record_property=record_property)
    for point in points:
        assert point["code"] in {0, 1}, f"{told(point)} {point['said']}"
        old_or_new(point, alone)
        check_error_was_told(point, alone)
        check(point, alone)
