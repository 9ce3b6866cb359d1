"""What memoryd makes is for its user alone, or in a workspace for nobody else to write, whatever the umask is."""

import os
import stat

import pytest
from scratch import Scratch, filler, recent, said, until

pytestmark = pytest.mark.long

LOG = "log/memoryd.jsonl"


@pytest.fixture(params=[0o000, pytest.param(0o077, marks=pytest.mark.soak)], ids=["000", "077"])
def umask(request):
    before = os.umask(request.param)
    try:
        yield request.param
    finally:
        os.umask(before)


def modes(folder):
    """The type and mode of all there is, but for what vanishes meanwhile."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        found[str(path.relative_to(folder))] = (stat.S_ISDIR(status.st_mode), stat.S_IMODE(status.st_mode))
    return found


def not_private(folder):
    return {name: oct(mode) for name, (is_dir, mode) in modes(folder).items() if mode != (0o700 if is_dir else 0o600)}


@pytest.mark.parametrize("folder", [0o755, 0o2770, pytest.param(0o700, marks=pytest.mark.soak)])
def test_everything_a_daemon_makes(tmp_path, umask, folder):
    scratch = Scratch(
        tmp_path / "deep" / "scratch", ingest={"settle": "20ms", "rescan": "1s"}, scrub={"secrets": "redact"}
    )
    (scratch.workspace / "MEMORY.md").write_text("- mine\n", encoding="utf-8")
    (scratch.workspace / "MEMORY.md").chmod(0o644)
    given = set(modes(scratch.root))
    # A state folder below folders that are missing too.
    scratch.write_config(state_dir=str(scratch.root / "new" / "state"))
    scratch.state = scratch.root / "new" / "state"
    scratch.root.chmod(0o755)
    scratch.workspace.chmod(folder)
    scratch.sessions.chmod(0o755)
    scratch.config.chmod(0o644)
    (scratch.sessions / "one.jsonl").touch(0o644)  # a transcript that others may write is not read
    with scratch.daemon():
        scratch.append([*said(at=recent()), filler(at=recent())])
        until(lambda: scratch.query("SELECT 1 FROM job_run WHERE state = 'succeeded'"), why="it has slept")
        state = modes(scratch.state)
        assert {"memoryd.db", "memoryd.db-wal", "memoryd.db-shm", "memoryd.sock", "memoryd.lock", LOG} <= set(state)
        assert not_private(scratch.root / "new") == {}
        scratch.json("backup", str(scratch.root / "backup.tar.gz"))
        assert not_private(scratch.root / "new") == {}
    made = {name: mode for name, mode in modes(scratch.workspace).items() if f"workspace/{name}" not in given}
    del made["."]
    assert {"memory", ".continuum", ".continuum/memory", ".continuum/memory/.lock"} <= set(made)
    assert [name for name in made if name.endswith("/MEMORY.md")], "a backup"
    for name, (is_dir, mode) in made.items():
        if name.startswith("sessions/"):
            continue  # the agent's own
        if name.startswith((".continuum/memory/backup", ".continuum/memory/.late-")) or name.endswith(".lock"):
            assert mode & 0o1777 == (0o700 if is_dir else 0o600), name
        else:
            assert mode == (folder if is_dir else folder & 0o666), name
    assert stat.S_IMODE((scratch.root / "backup.tar.gz").stat().st_mode) == 0o600


def test_logs_stay_closed_when_they_are_rotated(tmp_path, umask, monkeypatch):
    from memoryd.files import log, log_line

    state = tmp_path / "missing" / "state"
    monkeypatch.setattr(log_line, "MAX_BYTES", 2_000)
    close = log.configure(state).close
    try:
        for number in range(200):
            log.get_logger("memoryd.test").info("a line", number=number)
    finally:
        close()
    assert {LOG, *(f"{LOG}.{number}" for number in range(1, log_line.KEPT_FILES))} <= set(modes(state))
    assert not_private(tmp_path / "missing") == {}


def test_every_file_is_closed_from_the_moment_it_is_made(tmp_path, umask):
    """Looked at by each step of a sleep: a temporary file has the mode of what it becomes, or a narrower one."""
    from datetime import timedelta

    from scratch import STARTED, in_process

    from memoryd.daemon.once import run_once

    scratch = Scratch(tmp_path / "scratch")
    scratch.root.chmod(0o755)
    scratch.workspace.chmod(0o755)
    scratch.sessions.chmod(0o755)
    scratch.config.chmod(0o644)
    (scratch.sessions / "one.jsonl").touch(0o644)
    scratch.append([*said(), filler()])
    (scratch.workspace / "MEMORY.md").write_text("- mine\n", encoding="utf-8")
    (scratch.workspace / "MEMORY.md").chmod(0o640)
    temporary = set()

    def look(_name):
        assert not_private(scratch.state) == {}
        for name, (_, mode) in modes(scratch.workspace).items():
            if ".memoryd-" in name:
                temporary.add((name.rpartition("-")[2], mode))

    with in_process(scratch, lambda: STARTED + timedelta(minutes=45), look) as app:
        run_once(app)
    assert temporary == {
        ("MEMORY.md.tmp", 0o600),
        ("MEMORY.md.tmp", 0o640),
        ("04.md.tmp", 0o600),
        ("04.md.tmp", 0o644),
        ("consolidation.log.tmp", 0o600),
        ("consolidation.log.tmp", 0o644),
    }
