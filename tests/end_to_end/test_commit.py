"""The commit rule: a sleep stopped or disturbed at each of its steps comes to the same as one that was left alone."""

import json
import re
from collections import Counter

import forks
import pytest
from places import WORLDS
from steps import APPEND_STEPS, PLACE_STEPS, REPLACE_STEPS
from sweep import DAILY, KILLED, OLD, WRITERS

pytestmark = pytest.mark.timeout(600)  # on a busy machine
MODES = ("appends+kill",)
MORE_MODES = ("nobody+kill", "truncates+kill", "truncates", "renames", "renames+kill", "appends")
MORE_MODES += tuple(f"nobody+twice@{step}" for step in ("after:swap", "after:intent", "before:rows"))
TRANSACTIONS = ("before:import", "after:import", "before:intent", "after:intent", "before:rows", "after:rows")


def sweep(folder, *modes):
    done = forks.run([WORLDS / "sweep.py", folder, *modes], timeout=590)
    assert done.returncode == 0, done.stderr
    points = [json.loads(line) for line in done.stdout.splitlines()]
    undisturbed = {point["daily"]: point for point in points if point["number"] == 0}
    return undisturbed, [point for point in points if point["number"]]


def told(point):
    how = "killed" if point["kill"] else "disturbed"
    return f"{point['who']}, {how} at {point['number']} ({point['steps'][-1]}), again at {point['again']}"


def check_ended_well(point, alone):
    """Rows once, watermark right, the run succeeded, the model not asked again once its answer was stored."""
    at = told(point)
    assert point["codes"] == [KILLED] * (point["kill"] + bool(point["again"])) + [0], at
    assert [row[0] for row in point["runs"]] == ["succeeded"], at
    assert point["runs"][0][3] is None, f"the kept reply is still there: {at}"
    assert point["memories"] == alone["memories"], at
    assert point["ledger"] == [], at
    assert point["watermark"] == alone["watermark"] == [["sleep", 7]], at
    assert (point["summaries"], point["intents"], point["journal"]) == (1, 0, 1), at
    assert point["strays"] == [], at
    stored = "after:reply" in point["steps"]
    assert point["asked"] == 1 if stored or not point["kill"] else point["asked"] <= 2, at


def bullets(text):
    return Counter(line for line in text.splitlines() if line.startswith("- "))


def ours(alone):
    return bullets(alone["files"]["MEMORY.md"]) - bullets(OLD)


def block(alone):
    text = alone["files"][DAILY]
    return text[text.index("\n## Trimmed Context") :]


def check_modes(tmp_path, *modes):
    undisturbed, points = sweep(tmp_path, *modes)
    assert {f"{point['who']}{'+kill' * point['kill']}" for point in points} == {
        re.sub(r"\+twice@.*", "+kill", mode) for mode in modes
    }
    assert {point["who"] for point in points} == {mode.partition("+")[0] for mode in modes}
    for point in points:
        alone = undisturbed[point["daily"]]
        check_ended_well(point, alone)
        check_files(point, alone)
    return undisturbed, points


def check_files(point, alone):
    at = told(point)
    if point["who"] == "nobody":
        assert point["files"] == alone["files"], at
        assert point["backups"] == [OLD], at
        return
    core, daily = point["files"]["MEMORY.md"], point["files"][DAILY]
    assert bullets(core) & ours(alone) == ours(alone), f"ours is not there once: {at}\n{core}"
    assert daily.count(block(alone).strip()) == 1, f"{at}\n{daily}"
    if point["who"] in {"truncates", "renames"}:
        assert bullets(core)["- a person's line"] == 1, f"{at}\n{core}"
        assert bullets(core)["- an older one, edited"] == 1, f"{at}\n{core}"
        assert bullets(core)["- an older one"] == 0, f"{at}\n{core}"
        assert core.startswith("# Notes\n\n- an old one\n"), f"{at}\n{core}"
        assert daily == alone["files"][DAILY], at
    else:
        for writer in range(WRITERS):
            assert bullets(core)[f"- writer {writer}"] == 1, f"{at}\n{core}"
            assert daily.count(f"- writer {writer}\n") == 1, f"{at}\n{daily}"
    assert sum(bullets(core).values()) == sum(ours(alone).values()) + (
        2 + WRITERS if point["who"] == "appends" else 3
    ), f"{at}\n{core}"


def test_stopped_or_disturbed_at_each_step_it_comes_to_the_same(tmp_path):
    undisturbed, _ = check_modes(tmp_path, *MODES)
    met = Counter(undisturbed[False]["steps"]) | Counter(undisturbed[True]["steps"])
    for name in {*REPLACE_STEPS, *PLACE_STEPS, *APPEND_STEPS, *TRANSACTIONS, "before:answer", "after:reply"}:
        assert met[name] >= 1, name
    head = "# Daily Memory: 2026-03-04\n\n## Mine (08:00)\n\nby hand, no newline\n\n## Trimmed"
    assert undisturbed[True]["files"][DAILY].startswith(head)


@pytest.mark.soak
@pytest.mark.parametrize("mode", MORE_MODES)
def test_stopped_or_disturbed_at_each_step_it_comes_to_the_same_in_the_other_ways(tmp_path, mode):
    check_modes(tmp_path, mode)


@pytest.mark.soak
@pytest.mark.parametrize("part", ["", "memory", ".continuum"])
def test_a_folder_swapped_for_a_link_at_each_step_leads_nowhere(tmp_path, part):
    undisturbed, points = sweep(tmp_path, f"swaps@{part}")
    assert {point["step"] for point in points} >= {*REPLACE_STEPS, *PLACE_STEPS, *APPEND_STEPS, *TRANSACTIONS}
    for point in points:
        at = f"{part or 'the workspace'} swapped at {point['number']} ({point['step']}): {point['between']}"
        alone = undisturbed[point["daily"]]
        assert point["outside"], f"something was written outside: {at}"
        assert point["leaked"] == 0, f"something outside was read: {at}"
        assert point["codes"][1] == 0, at
        assert [row[0] for row in point["runs"]] == ["succeeded"], at
        assert point["files"] == alone["files"], at
        assert point["memories"] == alone["memories"], at
        assert (point["intents"], point["strays"]) == (0, []), at
    # Where the folder is needed after the swap, whoever asks is told why nothing came of it.
    errors = [error for point in points for _, error in point["between"] if error]
    assert any("is a symbolic link, not a folder" in error for error in errors)
