"""The folders memoryd makes: private ones, and one git never sees."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from memoryd.errors import StateError
from memoryd.files import folders
from memoryd.files.folders import make_private_dir
from memoryd.files.open_folder import open_folder

if TYPE_CHECKING:
    from pathlib import Path


def continuum_folder(workspace: Path) -> Path:
    with open_folder(workspace) as opened, folders.continuum_folder(opened) as folder:
        return folder.path


def backup(path: Path, run_id: str, name: str, data: bytes) -> Path:
    with open_folder(path) as folder:
        return folders.backup(folder, run_id, name, data)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_private_folder_is_made_or_made_private(tmp_path: Path) -> None:
    loose = tmp_path / "loose"
    loose.mkdir(mode=0o755)
    assert mode(make_private_dir(loose)) == 0o700
    assert mode(make_private_dir(tmp_path / "a" / "b")) == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(StateError):
        make_private_dir(tmp_path / "file")


def test_a_folder_that_an_agent_made_is_ignored_unless_git_tracks_it(tmp_path: Path) -> None:
    agents, tracked = tmp_path / "agents", tmp_path / "tracked"
    for workspace in (agents, tracked):
        folder = workspace / ".continuum" / "memory"
        folder.mkdir(parents=True)
        (folder / "NOW-2026-11-24T10-00.md").write_text("**User**: hello\n", encoding="utf-8")
        subprocess.run(["git", "init", "--quiet", workspace], check=True)
    subprocess.run(["git", "-C", tracked, "add", "--all"], check=True)
    for workspace in (agents, tracked):
        continuum_folder(workspace)
    assert (agents / ".continuum" / "memory" / ".gitignore").read_bytes() == b"*\n"
    assert not (tracked / ".continuum" / "memory" / ".gitignore").exists()


def test_the_folder_appears_ignored_and_twice_is_once(tmp_path: Path) -> None:
    folder = continuum_folder(tmp_path)
    assert folder == tmp_path / ".continuum" / "memory"
    assert names(folder) == [".gitignore"]
    assert (folder / ".gitignore").read_bytes() == b"*\n"
    (folder / ".gitignore").write_bytes(b"# tracked on purpose\n")
    continuum_folder(tmp_path)
    assert (folder / ".gitignore").read_bytes() == b"# tracked on purpose\n"
    assert names(tmp_path / ".continuum") == ["memory"]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_sees_nothing_of_it(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, timeout=30)
    (continuum_folder(tmp_path) / "RECENT.md").write_text("private")
    seen = subprocess.run(
        ["git", "-C", str(tmp_path), "status", "--porcelain", "-uall"], check=True, timeout=30, capture_output=True
    )
    assert seen.stdout == b""


def test_many_at_once_make_one_folder(tmp_path: Path) -> None:
    failed: list[BaseException] = []
    gate = threading.Barrier(6)

    def make() -> None:
        gate.wait()
        try:
            assert (continuum_folder(tmp_path) / ".gitignore").read_bytes() == b"*\n"
        except BaseException as error:  # noqa: BLE001 - carried to the test's own thread
            failed.append(error)

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert names(tmp_path / ".continuum") == ["memory"]


def test_a_folder_that_vanishes_while_it_is_made_gives_way_to_the_one_that_was_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.mkdir

    def mkdir(name: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        real(name, mode, dir_fd=dir_fd)
        if str(name).startswith(".memoryd-new-"):
            monkeypatch.setattr(os, "mkdir", real)
            continuum_folder(tmp_path)  # another process, which removes the folder just made

    monkeypatch.setattr(os, "mkdir", mkdir)
    assert (continuum_folder(tmp_path) / ".gitignore").read_bytes() == b"*\n"
    assert names(tmp_path / ".continuum") == ["memory"]


@pytest.mark.parametrize("part", [".continuum", ".continuum/memory"])
def test_links_out_of_the_workspace_are_not_followed(tmp_path: Path, part: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    workspace = tmp_path / "workspace"
    (workspace / part).parent.mkdir(parents=True)
    (workspace / part).symlink_to(outside)
    with pytest.raises(StateError, match="not a folder"):
        continuum_folder(workspace)
    assert names(outside) == []


def test_a_backup_keeps_every_version_a_run_rewrote(tmp_path: Path) -> None:
    first = backup(tmp_path, "run_1", "MEMORY.md", b"one")
    assert first == tmp_path / "backup" / "run_1" / "MEMORY.md"
    assert backup(tmp_path, "run_1", "MEMORY.md", b"one") == first
    second = backup(tmp_path, "run_1", "MEMORY.md", b"two")
    assert (first.read_bytes(), second.read_bytes()) == (b"one", b"two")
    assert second.name == "MEMORY.md.2"
    assert mode(first) == 0o600
    assert mode(first.parent) == 0o700
    for run, name in [("..", "a"), ("a", "../b"), ("", "a"), ("a", ""), ("a", "b\0")]:
        with pytest.raises(ValueError, match="plain file name"):
            backup(tmp_path, run, name, b"")


def test_what_a_stopped_maker_left_is_cleared_and_nothing_else(tmp_path: Path) -> None:
    left = tmp_path / ".continuum" / ".memoryd-new-0123456789abcdef-memory.tmp"
    left.mkdir(parents=True)
    (left / ".memoryd-new-0123456789abcdef-.gitignore.tmp").write_bytes(b"")
    mine = tmp_path / ".continuum" / "mine.tmp"
    mine.write_bytes(b"mine")
    folder = continuum_folder(tmp_path)
    assert sorted(path.name for path in (tmp_path / ".continuum").iterdir()) == ["memory", "mine.tmp"]
    place = folder / "backup" / "run-1"
    place.mkdir(parents=True)
    (place / ".memoryd-new-0123456789abcdef-MEMORY.md.tmp").write_bytes(b"half")
    backup(folder, "run-1", "MEMORY.md", b"whole")
    assert [(path.name, path.read_bytes()) for path in place.iterdir()] == [("MEMORY.md", b"whole")]
