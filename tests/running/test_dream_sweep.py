"""One dream, stopped or failing at each of its steps: the next start makes of it what it would have been, once."""

import errno
import json
import os
import shutil
from datetime import timedelta

import pytest
from edited_world import NOW
from sweep import KILLED, Point, forked, ledger_problems
from test_dreaming import REDIS, TODAY, Dreamer

from memoryd.daemon.once import run_once

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # on a busy machine
EVERY = 1 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 19
REPLY = f"[MEMORY]\n## Infra\n- {REDIS} [d1]\n- an old one [m1]\n[DREAM]\nA day.\n- archived [m2]: nobody asks\n"
ROWS = (
    "SELECT content, origin_at, deleted_at IS NULL, ended_as, heading, position, sources FROM memory ORDER BY content"
)


def opened(root, step=None, minutes=0):
    world = Dreamer.at(root)
    world.reply = REPLY
    world.open(step, NOW + timedelta(minutes=minutes))
    return world


def prepare(root):
    world = Dreamer(root)
    world.scratch.write_config(guards={"erosion_percent": 60})
    with world.open():
        run_once(world.app)
        world.take()
        world.day()


def dream(root, step):
    world = opened(root, step)
    try:
        world.dream()
    finally:
        world.app.__exit__(None, None, None)


def go_on(root):
    world = opened(root, minutes=90)
    try:
        world.take()
    finally:
        world.app.__exit__(None, None, None)


def state_of(root):
    world = Dreamer.at(root)
    scratch = world.scratch
    diary = (world.diary() or "").replace("(11:15)", "(09:45)")  # a run that begins anew writes its own time
    for new in scratch.query("SELECT id FROM memory"):
        diary = diary.replace(new[0], "an id")
    return {
        "core": scratch.core,
        "diary": diary,
        "rows": scratch.query(ROWS),
        "intents": scratch.query("SELECT count(*) FROM intent"),
        "runs": scratch.query("SELECT state FROM job_run WHERE kind = 'dream'"),
        "ledger": ledger_problems(scratch),
        "strays": [path.name for path in scratch.workspace.rglob("*") if ".memoryd-" in path.name],
        "backups": sorted({path.read_text() for path in scratch.workspace.glob(".continuum/memory/backup/*/*")}),
    }


def fails(number):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"at step {number}")


def test_stopped_or_failing_at_each_step_a_dream_is_dreamt_once_and_whole(tmp_path, record_property):
    template = tmp_path / "template"
    prepare(template)

    def one(name, number, *, kill):
        root = tmp_path / name
        shutil.copytree(template, root)
        config = (root / "memoryd.yaml").read_text().replace(str(template), str(root))
        (root / "memoryd.yaml").write_text(config)

        def act():
            (root / "names").write_text(json.dumps(point.names))
            if number and not kill:
                fails(number)

        point = Point(number, act, kill=kill)
        code = forked(lambda: (dream(root, point), (root / "names").write_text(json.dumps(point.names))))
        return root, code, json.loads((root / "names").read_text())

    root, code, steps = one("alone", 0, kill=True)
    assert code == 0
    alone = state_of(root)
    assert (alone["ledger"], alone["intents"], alone["runs"]) == ([], [(0,)], [("succeeded",)])
    assert REDIS in alone["core"]
    assert alone["diary"].startswith(f"# Dream Diary: {TODAY}")
    assert {"before:intent", "after:rows", "after:swap"} <= set(steps)
    for number in range(1, len(steps) + 1, EVERY):
        for kill in (True, False):
            root, code, names = one(f"point-{number}-{kill}", number, kill=kill)
            assert (code == KILLED) is kill, names[-1]
            assert forked(lambda root=root: go_on(root)) == 0, names[-1]
            assert state_of(root) == alone, f"{number} {names[-1]} {'kill' if kill else 'error'}"
            shutil.rmtree(root)
    record_property(
        "covered", f"a kill and an error at each of {len(range(1, len(steps) + 1, EVERY))} of {len(steps)} steps"
    )
