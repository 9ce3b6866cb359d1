"""The power goes out at any moment of a whole sleep: what the disk then holds comes to the same as an undisturbed run.

In `make soak` all the states that `power_loss.py` works out, thousands of starts, also of other jobs; every day some.
"""

import json
import os
import random
import re
from pathlib import Path

import forks
import power_loss
import pytest
from power_loss import Change, Disk

SEED = int(os.environ.get("MEMORYD_SWEEP_SEED") or random.randrange(1_000_000))
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
JOBS = ("swept_ledger:LEDGER", "swept_sleep:SLEEP", "swept_commands:NIGHT", "swept_commands:ACTS")
TORN = re.compile(r"damaged in (?:the journal|watermarks\.jsonl): 1 line;")
WHY_NOT = power_loss.available()


@pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("job", JOBS if SOAK else JOBS[:1])
def test_whatever_of_the_unsynced_is_lost_a_start_comes_to_the_same(tmp_path, record_property, job):
    script = Path(power_loss.__file__)
    words = [script, job, str(tmp_path), "--seed", str(SEED), *([] if SOAK else ["--most", "3"])]
    done = forks.run(words, timeout=None, cwd=script.parent)
    assert done.returncode == 0, done.stderr
    first, *found = map(json.loads, done.stdout.splitlines())
    covered = f"{len(found)} of {first['states']} states after {first['changes']} changes, seed {SEED}"
    record_property("covered", f"power loss, {job}: {covered}")
    assert found if not SOAK else len(found) == first["states"]
    for one in found:
        at = f"cut after change {one['number']}, keeping {one['how']}, seed {SEED}"
        assert one["again"] == 0, f"{at}\n{one['trouble']}"
        assert without_report(one["after"]) == without_report(first["after"]), at


def without_report(after):
    """Leave out what tells of one torn line of a journal, and the tests' own list, which is not fsynced."""
    rows = dict(after["rows"])
    if "alarm" in rows:
        rows["alarm"] = [one for one in rows["alarm"] if not TORN.search(one)]
    wrong = [one for one in after.get("wrong", []) if "damaged: 1 line" not in one]
    return after | {"rows": rows, "asked": 0, "wrong": wrong}


# --- the model of a disk, which must be able to lose ------------------------------------------------------------------


def outcomes(*changes, before=None):
    """Every content a file `a` can have after a cut at the end; None where it is not there."""
    disk = Disk({"": None, **(before or {})})
    for change in changes:
        disk.apply(change)
    return {tree.get("a") for number, _, tree in power_loss.cuts(disk, []) if number == 0}


def test_a_replacement_without_fsync_may_leave_an_empty_or_torn_file():
    steps = [Change("make", "b"), Change("write", "b", data=b"new!"), Change("rename", "b", "a")]
    assert {b"old", b"new!", b"", b"ne\0\0"} <= outcomes(*steps, before={"a": b"old"})


def test_a_replacement_with_fsync_leaves_the_old_or_the_new():
    steps = [Change("make", "b"), Change("write", "b", data=b"new!"), Change("sync", "b"), Change("rename", "b", "a")]
    assert outcomes(*steps, before={"a": b"old"}) == {b"old", b"new!"}
    assert outcomes(*steps, Change("sync", ""), before={"a": b"old"}) == {b"new!"}


def test_a_new_file_is_gone_without_its_folder_and_a_removed_one_may_come_back():
    new = [Change("make", "a"), Change("write", "a", data=b"x"), Change("sync", "a")]
    assert outcomes(*new) == {None, b"x"}
    assert outcomes(*new, Change("sync", "")) == {b"x"}
    assert outcomes(Change("unlink", "a"), before={"a": b"x"}) == {None, b"x"}


def test_an_exchange_is_one_step_and_a_hole_is_filled_with_zeros():
    swapped = outcomes(Change("exchange", "a", "b"), before={"a": b"1", "b": b"2"})
    assert swapped == {b"1", b"2"}
    assert b"\0\0x" in outcomes(Change("write", "a", offset=2, data=b"x"), before={"a": b""})
    assert outcomes(Change("truncate", "a", offset=1), before={"a": b"xyz"}) == {b"xyz", b"x"}


def test_what_is_in_a_folder_moves_with_it():
    steps = [Change("folder", "new"), Change("make", "new/x"), Change("sync", "new"), Change("rename", "new", "a")]
    disk = Disk({"": None})
    for change in steps:
        disk.apply(change)
    trees = [tree for number, _, tree in power_loss.cuts(disk, []) if number == 0]
    assert {"a": None, "a/x": b""} in trees
    assert {} in trees
    assert {"a": None} not in trees
