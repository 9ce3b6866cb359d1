"""A rollback and a putting back, stopped at each of their steps: the next start makes of it what it would have been."""

import json
import os
import shutil

import pytest
from edited_world import OLD, World
from scratch import Scratch, filler, said
from sweep import KILLED, Point, forked, ledger_problems

from memoryd.changing import ledger_runs
from memoryd.daemon.once import run_once

pytestmark = pytest.mark.timeout(600)  # on a busy machine
EVERY = 1 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 5
ROWS = (
    "SELECT id, content, constitutional, origin_at, created_at, deleted_at IS NULL, ended_as, heading, position, tags,"
    " sources FROM memory ORDER BY id"
)


def prepare_rollback(root):
    """A sleep that is to be taken back."""
    world = World(root)
    with world.open():
        world.take()
        run_id = world.sleep()
    (root / "run").write_text(run_id)


def roll_back(root, step):
    world = World.at(root)
    with world.open(step):
        world.do(ledger_runs.ROLLBACK, run=(root / "run").read_text())


def prepare_putting_back(root):
    """An edit that took a protected bullet away, reworded one and added one; and something to sleep over."""
    world = World(root)
    with world.open():
        run_once(world.app)
        world.take()
        world.own("protect", world.id_of("never deploy on a Friday"))
    text = OLD.replace("- never deploy on a Friday\n", "").replace("about tea", "about green tea")
    world.write(text.replace("- an old one\n", "- an old one\n- mine\n"))
    world.scratch.append([*said(), filler()])


def put_back(root, step):
    world = World.at(root)
    with world.open(step):
        world.take()


def go_on(root):
    """The next start: what was stopped is completed, what waits is carried out."""
    world = World.at(root)
    with world.open():
        world.take()


def state_of(root):
    scratch = Scratch.at(root)
    rows = scratch.query(ROWS)
    return {
        "core": scratch.core,
        "dailies": scratch.dailies(),
        "live": sorted(row[1] for row in rows if row[5]),
        "protected": sorted(row[1] for row in rows if row[2]),
        "watermark": scratch.query("SELECT consumer, seq FROM watermark"),
        "intents": scratch.query("SELECT count(*) FROM intent"),
        "open": scratch.query("SELECT count(*) FROM job_run WHERE state IN ('queued', 'running', 'interrupted')"),
        "ledger": ledger_problems(scratch),
    }


@pytest.mark.parametrize(
    ("prepare", "act"), [(prepare_rollback, roll_back), (prepare_putting_back, put_back)], ids=["rollback", "put back"]
)
def test_stopped_at_each_step_it_is_completed_by_the_next_start(tmp_path, prepare, act):
    template = tmp_path / "template"
    prepare(template)

    def one(name, number):
        root = tmp_path / name
        shutil.copytree(template, root)
        config = (root / "memoryd.yaml").read_text().replace(str(template), str(root))
        (root / "memoryd.yaml").write_text(config)
        point = Point(number, lambda: (root / "names").write_text(json.dumps(point.names)), kill=True)
        code = forked(lambda: (act(root, point), (root / "names").write_text(json.dumps(point.names))))
        return root, code, json.loads((root / "names").read_text())

    root, code, steps = one("alone", 0)
    assert code == 0
    alone = state_of(root)
    assert (alone["ledger"], alone["intents"], alone["open"]) == ([], [(0,)], [(0,)])
    assert {"before:intent", "after:rows", "after:swap"} <= set(steps)
    for number in range(1, len(steps) + 1, EVERY):
        root, code, names = one(f"point-{number}", number)
        assert code == KILLED
        assert forked(lambda root=root: go_on(root)) == 0, names[-1]
        if act is roll_back and state_of(root)["live"] != alone["live"]:
            # Stopped ahead of its intent it was not begun: a run of a person that waits for the person's next call.
            roll_back(root, lambda _name: None)
        assert state_of(root) == alone, f"{number} {names[-1]}"
        shutil.rmtree(root)
