"""What is written to a version that has lost its name reaches the file that has the name now, once."""

import fcntl

import pytest
from edited_world import World

from memoryd.daemon.once import run_once
from memoryd.files import durable, late_edits
from memoryd.files.open_folder import open_folder
from memoryd.files.regular import compute_digest
from memoryd.running import core_watch

OLD, NEW = b"- old\n", b"- old\n- new\n"


@pytest.fixture
def place(tmp_path):
    (tmp_path / "hidden").mkdir()
    (tmp_path / "file.md").write_bytes(OLD)
    with open_folder(tmp_path) as folder, folder.folder("hidden") as hidden:
        yield folder, hidden


def replaced(folder, hidden):
    entry = folder / "file.md"
    durable.replace(
        entry, NEW, compute_digest(OLD), keep=lambda version, data: late_edits.keep(version, hidden, data, entry.name)
    )
    return entry


def test_what_is_appended_late_is_moved_over_each_time_once(place):
    folder, hidden = place
    with (folder.path / "file.md").open("ab", buffering=0) as writer:
        entry = replaced(folder, hidden)
        for line in (b"- late\n", b"- later\n"):
            writer.write(line)
            for _ in range(2):
                (one,) = late_edits.list_kept(hidden)
                assert late_edits.settle(one, entry, is_over=False) is None
        assert entry.path.read_bytes() == NEW + b"- late\n- later\n"
        writer.write(b"- last\n")
    (one,) = late_edits.list_kept(hidden)
    assert late_edits.settle(one, entry, is_over=True) is None
    assert entry.path.read_bytes() == NEW + b"- late\n- later\n- last\n"
    assert late_edits.list_kept(hidden) == []


@pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="only Linux tells who has a file open")
def test_a_version_that_nobody_can_write_to_is_not_kept(place):
    folder, hidden = place
    with (folder.path / "file.md").open("rb"):
        entry = replaced(folder, hidden)
    assert (late_edits.list_kept(hidden), entry.path.read_bytes()) == ([], NEW)
    assert [path.name for path in folder.path.iterdir() if path.is_file()] == ["file.md"]


def test_stopped_between_append_and_name_it_is_not_appended_again(place):
    folder, hidden = place
    with (folder.path / "file.md").open("ab", buffering=0) as writer:
        entry = replaced(folder, hidden)
        writer.write(b"- late\n")
    entry.path.write_bytes(NEW + b"- late\n")  # as a look left it that was stopped
    (one,) = late_edits.list_kept(hidden)
    late_edits.settle(one, entry, is_over=True)
    assert entry.path.read_bytes() == NEW + b"- late\n"


def test_what_is_written_over_is_kept_for_a_person(place):
    folder, hidden = place
    with (folder.path / "file.md").open("r+b", buffering=0) as writer:
        entry = replaced(folder, hidden)
        writer.write(b"- OLD\n- and more\n")
    (one,) = late_edits.list_kept(hidden)
    conflict = late_edits.settle(one, entry, is_over=False)
    assert conflict.path.read_bytes() == b"- OLD\n- and more\n"
    assert conflict.path.parent == folder.path
    assert (entry.path.read_bytes(), late_edits.list_kept(hidden)) == (NEW, [])


def test_a_late_edit_of_the_core_is_found_and_imported_and_the_version_let_go_of(tmp_path):
    world = World(tmp_path / "scratch")
    with world.open():
        run_once(world.app)
        with world.path.open("ab", buffering=0) as editor:
            world.sleep()
            editor.write(b"- said late\n")
            world.watch.look_late()
        assert world.text().endswith("- said late\n")
        world.take()
        assert "said late" in {one.content for one in world.live()}
        assert world.problems() == []
        assert list(world.scratch.workspace.glob(f"{core_watch.CONTINUUM}/.late-*")) == []


def test_a_version_is_kept_for_a_while_and_an_edit_in_place_is_an_alarm(tmp_path):
    from datetime import UTC, datetime, timedelta

    world = World(tmp_path / "scratch")
    with world.open():
        run_once(world.app)
        with world.path.open("r+b", buffering=0) as editor:
            world.sleep()
            (kept,) = world.scratch.workspace.glob(f"{core_watch.CONTINUUM}/.late-*")
            changed = datetime.fromtimestamp(kept.stat().st_ctime, UTC)
            ahead = [timedelta(seconds=1)]
            object.__setattr__(world.app.clock, "now", lambda: changed + ahead[0])
            world.watch.look_late()
            assert kept.exists()
            editor.write(b"# Other")
        world.watch.look_late()
        assert world.alarms() == ["late-edit"]
        assert [path.read_bytes()[:7] for path in world.scratch.workspace.glob("MEMORY.md.conflict-*")] == [b"# Other"]
