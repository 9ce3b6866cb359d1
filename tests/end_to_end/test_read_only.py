"""A real disk that turns read-only under a daemon: nothing is lost, `status` says so, and no start is repeated for it.

An ext4 file system in a file, mounted in a namespace of its own. A memory folder is remounted read-only and back while
the daemon runs. A state folder cannot be: the kernel refuses while a database is open for writing. There it happens by
itself, after an error of the disk, and that state is brought about by the file system's own switch for tests; nothing
but a repair ends it, so the daemon goes on as soon as it is started on the repaired disk.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from scratch import recent, said, until
from test_disk_full import TOPICS, Daemon, Disk, check_well_again, read_on

SETUP = "mount -o loop,errors=remount-ro {image} {place}"


class Ext4(Disk):
    """A small ext4 file system instead of a tmpfs."""

    def __init__(self, place: Path) -> None:
        self.image = place.with_name("image")
        with self.image.open("wb") as file:
            file.truncate(48 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", self.image], check=True)
        super().__init__(place, SETUP.format(image=self.image, place=place))

    def shell(self, script: str) -> int:
        return subprocess.run(
            [*self.enter(), "sh", "-c", script], capture_output=True, stdin=subprocess.DEVNULL, check=False
        ).returncode

    def break_down(self) -> bool:
        """Let the kernel believe that the disk has failed: all writing ends, as after a real error."""
        switch = f"/sys/fs/ext4/$(basename $(findmnt -n -o SOURCE {self.place}))/trigger_fs_error"
        return self.shell(f"echo 1 > {switch} && ! touch {self.place}/x") == 0

    def repair(self) -> None:
        assert self.shell(f"umount {self.place}") == 0
        subprocess.run(["e2fsck", "-fy", self.image], capture_output=True, check=False)
        assert self.shell(SETUP.format(image=self.image, place=self.place)) == 0

    def close(self) -> None:
        self.shell(f"umount {self.place}")
        super().close()


@pytest.fixture
def disk(tmp_path):
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "mkfs.ext4", "e2fsck", "findmnt"))):
        pytest.skip("only root, with the tools of ext4, may make and mount a file system")
    made = Ext4(tmp_path / "disk")
    try:
        if not made.mounted:
            pytest.skip("mounting is not allowed here")
        yield made
    finally:
        made.close()


def up(daemon):
    until(lambda: daemon.process.poll() is not None or daemon.rows("SELECT pid FROM daemon"), why="it is up")
    assert daemon.process.poll() is None, daemon.said.read_text()
    daemon.scratch.append(said(at=recent()), "first")
    until(lambda: daemon.turns() == len(said()), why="the first turns are stored")


@pytest.mark.soak  # it waits for the attempts of its run
def test_a_memory_folder_remounted_read_only_is_waited_for(tmp_path, disk):
    daemon = Daemon(tmp_path / "scratch", disk, state=tmp_path / "state")
    try:
        up(daemon)
        assert disk.shell(f"mount -o remount,ro {disk.place}") == 0
        turns = read_on(daemon)
        until(lambda: daemon.turns() == turns, why="reading goes on")
        until(lambda: "waiting" in daemon.alarms(), why="status says so", seconds=60, every=1)
        assert daemon.process.poll() is None
        assert not (daemon.workspace / "MEMORY.md").exists()
        assert disk.shell(f"mount -o remount,rw {disk.place}") == 0
        check_well_again(daemon, turns)
    finally:
        daemon.stop()


def test_a_state_folder_whose_disk_failed_is_told_of_and_survives(tmp_path, disk):
    daemon = Daemon(tmp_path / "scratch", disk)
    try:
        up(daemon)
        if not disk.break_down():
            pytest.skip("this kernel has no switch for a file system's failure")
        turns = read_on(daemon)
        until(lambda: "disk" in daemon.alarms(), why="status says so", seconds=60, every=1)
        pid = daemon.status()["daemon"]["pid"]
        assert daemon.process.poll() is None
        assert daemon.turns() == len(said())
        daemon.stop()
        assert daemon.process.returncode == 0, daemon.said.read_text()
        assert (pid, daemon.status()["daemon"]) == (pid, None)
        disk.repair()
        daemon.start()
        check_well_again(daemon, turns)
        assert daemon.turns() == len(said()) + 2 * len(TOPICS)
    finally:
        daemon.stop()
