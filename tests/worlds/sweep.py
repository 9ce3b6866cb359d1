"""One sleep, stopped or disturbed at each of its steps: a process that forks one child for each point.

A child that is stopped ends by `os._exit`, as by a kill: nothing of its own code runs afterwards, and the kernel takes
its locks. What each point came to is printed as one line of JSON.

    sweep.py FOLDER MODE…      MODE is WHO[+kill], nobody+twice@STEP or swaps@PART;
                               WHO is nobody | truncates | renames | appends, PART a folder in the workspace or nothing
"""

import contextlib
import gc
import json
import os
import shutil
import sys
import traceback
from datetime import timedelta
from pathlib import Path

from scratch import STARTED, Scratch, filler, in_process, message, said
from steps import APPEND_STEPS

KILLED = 77
STRIDE = 1 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 10  # of the steps
WRITERS = 8
CANARY = "what lies outside the workspace"
OLD = "# Notes\n\n- an old one\n- an older one\n"
DAILY = "memory/2026-03-04.md"


def prepare(folder, *, daily):
    """A template: the session is stored and its sleep is queued."""
    scratch = Scratch(folder, scrub={"secrets": "redact"})
    (scratch.workspace / "MEMORY.md").write_text(OLD, encoding="utf-8")
    if daily:
        (scratch.workspace / "memory").mkdir()
        (scratch.workspace / DAILY).write_text("# Daily Memory: 2026-03-04\n\n## Mine (08:00)\n\nby hand, no newline")
    scratch.append([*said(), filler()])
    return scratch


def sleep(root, step, minutes=45):
    """Read, recover, run until nothing is due."""
    from memoryd.daemon.once import run_once

    with in_process(Scratch.at(root), lambda: STARTED + timedelta(minutes=minutes), step) as app:
        run_once(app)


def forked(action):
    """Carry an action out in a process of its own; its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            action()
            code = 0
        except BaseException:  # noqa: BLE001 - the child must never return into its parent's code
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Point:
    """Counts steps; acts at the chosen one."""

    def __init__(self, number, act, *, kill):
        self.number, self.act, self.kill = number, act, kill
        self.names = []

    def __call__(self, name):
        self.names.append(name)
        if len(self.names) == self.number:
            self.act()
            if self.kill:
                os._exit(KILLED)


def nobody(workspace):
    pass


def truncates(workspace):
    path = workspace / "MEMORY.md"
    text = path.read_text(encoding="utf-8").replace("- an older one", "- an older one, edited")
    path.write_text(text + "- a person's line\n", encoding="utf-8")


def renames(workspace):
    path = workspace / "MEMORY.md"
    text = path.read_text(encoding="utf-8").replace("- an older one", "- an older one, edited")
    beside = workspace / "MEMORY.md~"
    beside.write_text(text + "- a person's line\n", encoding="utf-8")
    beside.replace(path)


def appends(workspace):
    (workspace / "memory").mkdir(exist_ok=True)
    for name in ("MEMORY.md", DAILY):
        for writer in range(WRITERS):
            with (workspace / name).open("ab", buffering=0) as file:
                file.write(f"- writer {writer}\n".encode())


def bait(root):
    """A folder outside with all that a workspace has, for whoever is led there; what is in it then."""
    outside = root / "outside"
    for name in ("MEMORY.md", DAILY, ".continuum/memory/NOW-2026-03-04T08-00.md", ".continuum/memory/backup/old"):
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text(f"## User:\n\n- {CANARY}\n", encoding="utf-8")
    (outside / "sessions").mkdir()
    (outside / "sessions" / "one.jsonl").write_text(json.dumps(message("user", CANARY)) + "\n", encoding="utf-8")
    return looked_at(outside)


def looked_at(folder):
    return [
        (str(path), path.lstat().st_mode, path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    ]


def swap(root, part):
    """Put a link to the bait in the place of a folder of the workspace, or of all of it."""
    folder = root / "workspace" / part
    with contextlib.suppress(FileNotFoundError):
        folder.rename(root / "aside")
    folder.symlink_to(root / "outside" / part)


def swap_back(root, part):
    folder = root / "workspace" / part
    if folder.is_symlink():
        folder.unlink()
        if (root / "aside").exists():
            (root / "aside").rename(folder)


def swapped(template, root, part, number):
    """One sleep in which a folder is swapped for a link at one step, and one later with the folder in its place."""
    shutil.copytree(template, root)
    config = (root / "memoryd.yaml").read_text(encoding="utf-8").replace(str(template), str(root))
    (root / "memoryd.yaml").write_text(config, encoding="utf-8")
    before = bait(root)
    point = Point(number, lambda: swap(root, part), kill=False)
    codes = [forked(lambda: sleep(root, point))]
    runs = Scratch.at(root).query("SELECT state, error FROM job_run")
    is_same = looked_at(root / "outside") == before
    swap_back(root, part)
    codes.append(forked(lambda: sleep(root, lambda _name: None, 55)))
    found = state_of(root)
    leaked = Scratch.at(root).query(
        "SELECT count(*) FROM turn WHERE plain(CAST(text AS BLOB), text_crc) LIKE ?", f"%{CANARY}%"
    )[0][0]
    leaked += sum(CANARY in path.read_text("utf-8") for path in (root / "workspace").rglob("*.md"))
    shutil.rmtree(root)
    told = {"part": part, "number": number, "codes": codes, "between": runs, "outside": is_same, "leaked": leaked}
    return {**told, **found}


ACTS = {act.__name__: act for act in (nobody, truncates, renames, appends)}


def ledger_problems(scratch):
    """Where the audit is broken, or does not come to the rows."""
    from memoryd.database import audit, memories, sqlite
    from memoryd.ledger import audit as chain
    from memoryd.ledger.memory import to_json

    engine = sqlite.connect(scratch.state / "memoryd.db")
    with sqlite.begin_read(engine) as connection:
        problems = [one.what for one in chain.check(audit.read_entries(connection, "demo"))]
        states = chain.replay(audit.read_entries(connection, "demo"), audit.make_text_reader(connection))
        told = {name: state for name, state in states.items() if name.startswith("core_")}
        rows = connection.exec_driver_sql("SELECT * FROM memory").mappings()
        held = {row["id"]: to_json(memories.of_row(row)) for row in rows}
        problems += sorted(name for name in {*told, *held} if told.get(name) != held.get(name))
        marks = connection.exec_driver_sql("SELECT session_id, consumer FROM watermark").all()
        problems += [mark for mark in marks if chain.name_watermark(*mark) not in states]
    engine.dispose()
    return problems


def state_of(root):
    """What the point came to."""
    scratch = Scratch.at(root)
    workspace = scratch.workspace
    run = scratch.query("SELECT state, error, attempt, reply, json_extract(receipt, '$.settled') FROM job_run")
    files = {name: (workspace / name).read_text(encoding="utf-8") for name in ("MEMORY.md", DAILY)}
    strays = [str(path.relative_to(workspace)) for path in workspace.rglob("*") if ".memoryd-" in path.name]
    strays += [str(path) for path in workspace.rglob("*.conflict-*")]
    asked = root / "asked"
    return {
        "files": files,
        "runs": run,
        "memories": [row[0] for row in scratch.query("SELECT content FROM memory WHERE sources <> '[]' ORDER BY 1")],
        "ledger": ledger_problems(scratch),
        "watermark": scratch.query("SELECT consumer, seq FROM watermark"),
        "summaries": scratch.query("SELECT count(*) FROM session_summary")[0][0],
        "intents": scratch.query("SELECT count(*) FROM intent")[0][0],
        "journal": (root / "state" / "watermarks.jsonl").read_text(encoding="utf-8").count("\n"),
        "asked": asked.read_bytes().count(b"\n") if asked.exists() else 0,
        "strays": strays,
        "backups": sorted(
            path.read_text(encoding="utf-8") for path in workspace.glob(".continuum/memory/backup/*/MEMORY.md*")
        ),
    }


def one(template, root, who, number, *, kill, again=0):
    """Copy the template, stop or disturb it at one point, restart it; the name of the point and what came of it."""
    shutil.copytree(template, root)
    config = (root / "memoryd.yaml").read_text(encoding="utf-8").replace(str(template), str(root))
    (root / "memoryd.yaml").write_text(config, encoding="utf-8")
    point = Point(number, lambda: ACTS[who](root / "workspace"), kill=kill)

    def first():
        try:
            sleep(root, point)
        finally:
            (root / "names").write_text(json.dumps(point.names))

    before = point.act
    point.act = lambda: ((root / "names").write_text(json.dumps(point.names)), before())
    codes = [forked(first)]
    if again:
        codes.append(forked(lambda: sleep(root, Point(again, lambda: None, kill=True))))
    if kill:
        codes.append(forked(lambda: sleep(root, lambda _name: None)))
    names = json.loads((root / "names").read_text())
    found = state_of(root)
    shutil.rmtree(root)
    return {"who": who, "kill": kill, "number": number, "again": again, "steps": names, "codes": codes, **found}


def tell(daily, point):
    sys.stdout.write(json.dumps({"daily": daily, **point}) + "\n")
    sys.stdout.flush()


def stopped_twice(folder, template, steps, name):
    """Stopped at a step, and stopped once more at each step of the recovery."""
    number, again = steps.index(name) + 1, 1
    while True:
        found = one(template, folder / f"{name}-{again}", "nobody", number, kill=True, again=again)
        if found["codes"][1] == 0:
            break  # the recovery has no more steps
        tell(False, found)  # noqa: FBT003 - as everywhere: is there a daily file
        again += 1


def main(folder, modes):
    # One sleep in this process, closed again: all that is imported and compiled then need not be by each child.
    sleep(prepare(folder / "warm", daily=False).root, lambda _name: None)
    gc.freeze()
    for daily in (False, True):
        template = folder / f"template-{daily}"
        prepare(template, daily=daily)
        undisturbed = one(template, folder / "undisturbed", "nobody", 0, kill=False)
        tell(daily, undisturbed)
        for mode in modes:
            if mode.startswith("swaps@"):
                for number, name in enumerate(undisturbed["steps"], 1):
                    if daily and name not in APPEND_STEPS:
                        continue
                    found = swapped(template, folder / f"swap-{number}", mode.removeprefix("swaps@"), number)
                    tell(daily, {"step": name, **found})
                continue
            who, _, kill = mode.partition("+")
            if kill.startswith("twice@"):
                if not daily:
                    stopped_twice(folder, template, undisturbed["steps"], kill.removeprefix("twice@"))
                continue
            for number, name in enumerate(undisturbed["steps"], 1):
                # Only at appends it makes a difference whether there is a daily file.
                if (daily and name not in APPEND_STEPS) or (not daily and number % STRIDE):
                    continue
                found = one(template, folder / f"{mode}-{number}", who, number, kill=bool(kill))
                tell(daily, found)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main(Path(sys.argv[1]), sys.argv[2:])
