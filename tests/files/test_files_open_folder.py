"""What lies in a workspace is reached by open folders: no link, no race and no second name leads out of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import WORLDS
from steps import PLACE_STEPS, REPLACE_STEPS

from memoryd.errors import StateError
from memoryd.files import durable
from memoryd.files.appends import append
from memoryd.files.durable import replace
from memoryd.files.folders import backup, continuum_folder, made_way
from memoryd.files.locks import Lock
from memoryd.files.open_folder import open_folder, require_plain
from memoryd.files.ranges import Handle
from memoryd.files.regular import as_state_error, compute_digest, read, read_below, read_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CANARY = b"what lies outside\n"
OLD = b"# Memory\n\n- one\n"
DAILY = "memory/2026-01-02.md"
RENAMES = 10_000
ROUNDS = 1_000  # at most, once there were that many renames


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    fill(made, OLD)
    return made


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """The same names as in the workspace, for whoever is led here."""
    made = tmp_path / "outside"
    fill(made, CANARY)
    return made


def fill(folder: Path, text: bytes) -> None:
    for name in ("MEMORY.md", DAILY, ".continuum/memory/NOW-2026-01-02T03-04.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text)


def picture(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything in a folder: names, modes, times of change and bytes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        found[str(path)] = (status.st_mode, status.st_ctime_ns, path.read_bytes() if path.is_file() else b"")
    return found


def one_round(workspace: Path, number: int) -> None:
    """All that a commit does to files."""
    line = b"- ours %d\n" % number
    with as_state_error("cannot be opened", workspace):
        opened = open_folder(workspace)
    with opened as place, continuum_folder(place) as continuum:
        lock = Lock(continuum / ".lock")
        with lock, made_way(place, DAILY) as daily:
            entry = place / "MEMORY.md"
            old = read(entry)
            assert old is not None
            backup(continuum, f"run-{number}", "MEMORY.md", old)
            replace(entry, old + line, compute_digest(old))
            append(daily, line, b"# title\n")
    assert read_in(workspace, "MEMORY.md") is not None


# ── links and names ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("part", ["", "memory", ".continuum", ".continuum/memory", ".continuum/memory/backup"])
def test_no_folder_is_reached_through_a_link(workspace: Path, outside: Path, part: str) -> None:
    (outside / ".continuum" / "memory" / "backup").mkdir()
    swapped, bait = workspace / part, outside / part
    shutil.rmtree(swapped, ignore_errors=True)
    swapped.symlink_to(bait)
    before = picture(outside)
    with pytest.raises(StateError, match="is a symbolic link, not a folder"):
        one_round(workspace, 1)
    assert picture(outside) == before


@pytest.mark.parametrize("part", [".", "..", "", "a/b", "/etc", "a\0b"])
def test_a_name_that_leads_elsewhere_is_none(workspace: Path, part: str) -> None:
    with open_folder(workspace) as folder, pytest.raises(ValueError, match="plain file name"):
        folder / part
    with open_folder(workspace) as folder, pytest.raises(ValueError, match="plain file name"):
        folder.folder(part)


@given(st.text(alphabet=st.sampled_from("a./\0é "), max_size=4))
def test_a_plain_name_is_one_that_stays_where_it_is(name: str) -> None:
    try:
        require_plain(name)
    except ValueError:
        assert "\0" in name or os.path.normpath(f"/x/{name}").rpartition("/")[::2] != ("/x", name)
    else:
        assert os.path.normpath(f"/x/{name}") == f"/x/{name}"


def test_a_link_above_the_workspace_counts_as_much(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "linked").symlink_to(outside)
    with pytest.raises(StateError, match=r"linked: is a symbolic link"):
        open_folder(tmp_path / "linked" / "memory")
    with pytest.raises(StateError, match=r"MEMORY\.md: is not a folder"):
        open_folder(outside / "MEMORY.md" / "memory")
    with pytest.raises(FileNotFoundError):
        open_folder(tmp_path / "missing")
    assert read_in(tmp_path / "missing", "MEMORY.md") is None
    with open_folder(Path("/")) as root:
        assert root.names() == sorted(path.name for path in Path("/").iterdir())


def test_an_open_folder_stays_the_one_that_was_opened(workspace: Path, outside: Path) -> None:
    before = picture(outside)
    with open_folder(workspace) as place:
        workspace.rename(workspace.with_name("moved"))
        workspace.symlink_to(outside)
        replace(place / "MEMORY.md", b"new", compute_digest(OLD))
        with made_way(place, DAILY) as daily:
            append(daily, b"more")
    assert picture(outside) == before
    assert (workspace.with_name("moved") / "MEMORY.md").read_bytes() == b"new"
    assert (workspace.with_name("moved") / DAILY).read_bytes() == OLD + b"more"


@pytest.mark.parametrize("step", [*REPLACE_STEPS])
def test_a_folder_swapped_at_any_step_of_a_rewrite_leads_nowhere(workspace: Path, outside: Path, step: str) -> None:
    before = picture(outside)

    def swap(name: str) -> None:
        if name == step:
            workspace.rename(workspace.with_name("moved"))
            workspace.symlink_to(outside)

    with open_folder(workspace) as place:
        replace(place / "MEMORY.md", b"new", compute_digest(OLD), swap)
    assert picture(outside) == before
    assert sorted(path.name for path in workspace.with_name("moved").iterdir()) == [".continuum", "MEMORY.md", "memory"]


def test_a_transcript_is_not_read_through_a_folder_that_became_a_link(workspace: Path, outside: Path) -> None:
    now = workspace / ".continuum" / "memory" / "NOW-2026-01-02T03-04.md"
    with Handle(now) as handle:
        assert handle.read(0, 100) == OLD
    shutil.rmtree(workspace / ".continuum")
    (workspace / ".continuum").symlink_to(outside / ".continuum")
    with pytest.raises(StateError, match=r"\.continuum: is a symbolic link"):
        Handle(now)


# ── what may lie under a name ────────────────────────────────────────────────────────────────────────────────────


def hard_link(path: Path) -> None:
    other = path.with_name("somebody-elses")
    other.write_bytes(CANARY)
    path.hardlink_to(other)


def link_out(path: Path) -> None:
    other = path.with_name("somebody-elses")
    other.write_bytes(CANARY)
    path.symlink_to(other)


def device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("only root may make a device")


@pytest.mark.parametrize("name", ["MEMORY.md", DAILY, ".continuum/memory/.lock"])
@pytest.mark.parametrize("make", [hard_link, link_out, os.mkfifo, Path.mkdir, device])
def test_only_a_regular_file_of_one_name_is_read_and_written(
    workspace: Path, name: str, make: Callable[[Path], None]
) -> None:
    path = workspace / name
    path.unlink(missing_ok=True)
    make(path)
    before = path.lstat()
    with pytest.raises(StateError, match=r"regular file|hard link|Is a directory|symbolic links"):
        one_round(workspace, 1)
    assert path.lstat().st_mode == before.st_mode
    assert path.lstat().st_ctime_ns == before.st_ctime_ns
    if make in {hard_link, link_out}:
        assert path.with_name("somebody-elses").read_bytes() == CANARY


def test_a_second_name_given_at_any_step_is_never_written_through(workspace: Path) -> None:
    for step in REPLACE_STEPS:
        second = workspace / f"second-{step}"

        def link(name: str, step: str = step, second: Path = second) -> None:
            if name == step:
                second.hardlink_to(workspace / "MEMORY.md")

        old = (workspace / "MEMORY.md").read_bytes()
        with open_folder(workspace) as place, contextlib.suppress(durable.MovedError):
            replace(place / "MEMORY.md", old + b"- more\n", compute_digest(old), link)
        linked = second.read_bytes()
        assert linked in {old, old + b"- more\n"}, step
        with contextlib.suppress(StateError), open_folder(workspace) as place:
            append(place / "MEMORY.md", b"- appended\n")
        assert second.read_bytes() == linked, step
        now = (workspace / "MEMORY.md").read_bytes()
        (workspace / "MEMORY.md").unlink()
        (workspace / "MEMORY.md").write_bytes(now)


def test_the_second_name_a_stopped_writer_left_is_known(workspace: Path) -> None:
    path = workspace / "MEMORY.md"
    (workspace / ".memoryd-swap-0123456789abcdef-MEMORY.md.tmp").hardlink_to(path)
    assert read_in(workspace, "MEMORY.md") == OLD
    (workspace / "another").hardlink_to(path)
    with pytest.raises(StateError, match="hard link"):
        read_in(workspace, "MEMORY.md")


def test_names_of_temporary_files_cannot_be_taken_beforehand(
    workspace: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = iter(["0" * 16, "1" * 16, "2" * 16, "3" * 16])
    monkeypatch.setattr("secrets.token_hex", lambda _bytes: next(known))
    before = picture(outside)
    (workspace / f".memoryd-new-{'0' * 16}-MEMORY.md.tmp").symlink_to(outside / "MEMORY.md")
    (workspace / f".memoryd-new-{'1' * 16}-MEMORY.md.tmp").symlink_to(outside / "not-there")
    for _ in range(2):
        with open_folder(workspace) as place, pytest.raises(StateError, match="File exists"):
            replace(place / "MEMORY.md", b"new", compute_digest(OLD))
    assert (workspace / "MEMORY.md").read_bytes() == OLD
    # Known or not, a swap name that is taken is replaced by the rename, which follows no link.
    (workspace / f".memoryd-swap-{'3' * 16}-MEMORY.md.tmp").symlink_to(outside / "MEMORY.md")
    with open_folder(workspace) as place:
        replace(place / "MEMORY.md", b"new", compute_digest(OLD))
    assert picture(outside) == before
    assert (workspace / "MEMORY.md").read_bytes() == b"new"


def test_names_of_temporary_files_differ_and_are_new(workspace: Path) -> None:
    seen: list[str] = []

    def look(name: str) -> None:
        if name in {"after:create", "after:mark"}:
            for path in workspace.glob(".memoryd-*"):
                seen.append(path.name)
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
                assert path.stat().st_nlink == 1

    (workspace / "MEMORY.md").chmod(0o600)
    for number in range(20):
        old = (workspace / "MEMORY.md").read_bytes()
        with open_folder(workspace) as place:
            replace(place / "MEMORY.md", b"%d" % number, compute_digest(old), look)
    assert len(seen) == len(set(seen)) == 40


# ── races ────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def racing(folder: Path, bait: Path) -> Iterator[Callable[[], bool]]:
    """Another process exchanges the folder and a link to the bait; yields whether it has done so often enough."""
    link = folder.with_name(f"{folder.name}.link")
    link.symlink_to(bait)
    script = WORLDS / "racing_folder.py"
    command = [sys.executable, str(script), str(folder), str(link), str(RENAMES)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as racer:
        assert racer.stdout is not None
        pipe = racer.stdout
        yield lambda: bool(wait([pipe], 0))
        out, _ = racer.communicate()
    assert (racer.returncode, out) == (0, b"enough\n")
    assert link.is_symlink()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs renameat2")
@pytest.mark.parametrize("part", ["", "memory", ".continuum"])
def test_whoever_races_leads_no_write_out_and_no_reading_in(workspace: Path, outside: Path, part: str) -> None:
    before = picture(outside)
    done: list[int] = []
    refused = number = 0
    with racing(workspace / part if part else workspace, outside / part) as is_enough:
        while not is_enough() or (number < ROUNDS and not (done and refused)):
            number += 1
            try:
                one_round(workspace, number)
                done.append(number)
            except (StateError, AssertionError):
                refused += 1
    assert done
    assert refused
    assert picture(outside) == before
    everything = b"".join(path.read_bytes() for path in workspace.rglob("*") if path.is_file())
    assert CANARY.strip() not in everything
    core = (workspace / "MEMORY.md").read_bytes()
    daily = (workspace / DAILY).read_bytes()
    for one in done:
        assert core.count(b"- ours %d\n" % one) == daily.count(b"- ours %d\n" % one) == 1
    assert not list(workspace.rglob(".memoryd-*"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs renameat2")
def test_whoever_races_is_not_read_as_a_transcript(workspace: Path, outside: Path) -> None:
    now = workspace / ".continuum" / "memory" / "NOW-2026-01-02T03-04.md"
    seen: set[bytes | None] = set()
    with racing(workspace / ".continuum", outside / ".continuum") as is_enough:
        rounds = 0
        while not is_enough() or (rounds < ROUNDS and len(seen) < 2):
            rounds += 1
            try:
                with Handle(now) as handle:
                    seen.add(handle.read(0, 100))
                with open_folder(workspace) as place:
                    seen.add(read_below(place, ".continuum/memory/NOW-2026-01-02T03-04.md"))
            except StateError:
                seen.add(None)
    assert seen == {OLD, None}


# ── other users, which takes root to make ────────────────────────────────────────────────────────────────────────

NOBODY = 65_534
as_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root, whom permissions do not stop, and setpriv"
)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that other users can reach."""
    folder = Path(tempfile.mkdtemp(prefix="memoryd-handles-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


DROP = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", sys.executable, "-c"]


@cache
def nobody_reaches_python() -> bool:
    command = [*DROP, "import memoryd, hypothesis"]
    return subprocess.run(command, capture_output=True, check=False, cwd="/").returncode == 0


def as_nobody(workspace: Path) -> dict[str, object]:
    script = """
import json, sys
from pathlib import Path
from memoryd.errors import MemorydError
sys.path[:0] = sys.argv[2:]
from test_files_open_folder import one_round
try:
    one_round(Path(sys.argv[1]), 1)
    print(json.dumps({"error": None}))
except MemorydError as error:
    print(json.dumps({"error": str(error)}))
"""
    if not nobody_reaches_python():
        pytest.skip("this interpreter is out of other users' reach")
    command = [*DROP, script, str(workspace), str(Path(__file__).parent), str(WORLDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert done.stdout, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


@as_root
def test_folders_above_need_only_be_enterable(shared: Path) -> None:
    workspace = shared / "closed" / "workspace"
    fill(workspace, OLD)
    for path in (workspace, *workspace.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    (shared / "closed").chmod(0o711)
    assert as_nobody(workspace) == {"error": None}
    assert b"- ours 1\n" in (workspace / "MEMORY.md").read_bytes()
    (shared / "closed").chmod(0o700)
    assert "Permission denied" in str(as_nobody(workspace)["error"])


@as_root
@pytest.mark.parametrize("closed", [".", "memory", "MEMORY.md", DAILY, ".continuum", ".continuum/memory"])
def test_what_may_not_be_written_is_told(shared: Path, closed: str) -> None:
    workspace = shared / "workspace"
    fill(workspace, OLD)
    for path in (workspace, *workspace.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    os.chown(workspace / closed, 0, 0)
    (workspace / closed).chmod(0o700)
    before = picture(workspace)
    error = str(as_nobody(workspace)["error"])
    assert "Permission denied" in error
    assert "check owner and mode" in error
    if closed in {".", "MEMORY.md"}:
        assert {path: seen[2] for path, seen in before.items() if path.endswith(".md")} == {
            path: seen[2] for path, seen in picture(workspace).items() if path.endswith(".md") and "backup" not in path
        }


@as_root
def test_what_root_makes_in_a_users_workspace_is_that_users(shared: Path) -> None:
    workspace = shared / "workspace"
    workspace.mkdir()
    (workspace / "MEMORY.md").write_bytes(OLD)
    for path in (workspace, workspace / "MEMORY.md"):
        os.chown(path, NOBODY, NOBODY)
    one_round(workspace, 1)
    owners = {str(path.relative_to(workspace)): path.stat().st_uid for path in workspace.rglob("*")}
    assert set(owners.values()) == {NOBODY}, owners


@pytest.mark.parametrize("steps", [PLACE_STEPS])
def test_a_folder_swapped_while_a_new_file_is_made_leads_nowhere(
    workspace: Path, outside: Path, steps: tuple[str, ...]
) -> None:
    before = picture(outside)
    for step in steps:
        moved = workspace / f"moved-{step}"

        def swap(name: str, step: str = step, moved: Path = moved) -> None:
            if name == step:
                (workspace / "memory").rename(moved)
                (workspace / "memory").symlink_to(outside / "memory")

        with open_folder(workspace) as place, made_way(place, f"memory/{step[-6:]}.md") as entry:
            append(entry, b"block", b"title", swap)
            assert (moved / entry.name).read_bytes() == b"titleblock"
        (workspace / "memory").unlink()
        (workspace / "memory").mkdir()
    assert picture(outside) == before
