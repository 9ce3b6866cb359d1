"""Memory in a git repository: real repositories, real merges."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_secrets import planted
from scratch import Scratch, said

from memoryd.text.conflicts import Side, find_conflicts, is_conflicted, resolve
from memoryd.tiers.archive import FOLDER

SECRET = next(one for one in planted("told long ago") if one.name == "github-classic").secret
CONFLICT = b"<<<<<<< HEAD\n- tea\n- ours\n=======\n- tea\n- theirs\n>>>>>>> other\n"


@pytest.fixture
def made(tmp_path):
    scratch = Scratch(tmp_path / "scratch", modes={"facts": "off"})
    git(scratch, "init", "-q", "-b", "main")
    for name, value in (("user.name", "A"), ("user.email", "a@example.org"), ("commit.gpgsign", "false")):
        git(scratch, "config", name, value)
    return scratch


def git(scratch, *words, code=0):
    done = subprocess.run(
        ["git", "-C", str(scratch.workspace), *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == code, done
    return done.stdout


@pytest.mark.long
def test_memory_is_tracked_on_wish_and_kept_out_again(made):
    made.append(said())
    made.run("run", "--once")
    (made.workspace / FOLDER / ".workspace-id").write_text("of this folder on this host, not of its clones\n")
    assert ".continuum/memory/" not in git(made, "status", "--porcelain", "-uall")
    told = made.json("git", "track")
    assert told["next"].startswith("git add ")
    git(made, "add", *told["next"].split(" && ")[0].split()[2:])
    tracked = git(made, "ls-files").splitlines()
    assert f"{FOLDER}/RECENT.md" in tracked
    assert not [path for path in tracked if "backup/" in path or path.endswith((".lock", "-id"))]
    git(made, "commit", "-qm", "Track memory")
    assert ".continuum/memory/" in made.json("git", "status")["tracked"]
    told = made.json("git", "untrack")
    assert ".continuum/memory/" in told["next"]
    git(made, "rm", "-rq", "--cached", *told["next"].split()[4:])
    git(made, "commit", "-qm", "Untrack memory")
    assert git(made, "status", "--porcelain", "-uall", "--", ".continuum", "MEMORY.md", "memory") == ""
    assert ".continuum/memory/" in made.json("git", "status")["ignored"]


def test_what_is_secret_or_private_is_not_tracked_and_not_told(made):
    made.write_config(scrub={"secrets": "redact"})
    folder = made.workspace / FOLDER
    folder.mkdir(parents=True)
    (folder / "RECENT.md").write_text(f"# RECENT\n\nThe token is {SECRET}\n", encoding="utf-8")
    (folder / "NOW-2026-01-01T00-00.md").write_text("---\nprivate: true\n---\n\n## User: hidden\n", encoding="utf-8")
    (made.workspace / "MEMORY.md").write_text("- a\n\n<private>\nx\n</private>\n", encoding="utf-8")
    faults = {one["path"]: (one["line"], one["what"]) for one in made.json("git", "status")["faults"]}
    assert faults == {
        f"{FOLDER}/RECENT.md": (3, "a secret"),
        f"{FOLDER}/NOW-2026-01-01T00-00.md": (1, "a private mark"),
        "MEMORY.md": (3, "a private part"),
    }
    done = made.run("git", "track")
    assert done.returncode == 4
    assert "RECENT.md:3" in done.stderr
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("name", ["MEMORY.md", f"{FOLDER}/RECENT.md"])
def test_a_merge_is_shown_with_both_sides_and_no_job_writes_before_it_is_resolved(made, name):
    (made.workspace / "MEMORY.md").write_text("- Deploys happen on Mondays.\n", encoding="utf-8")
    made.append(said())
    made.run("run", "--once")
    path = made.workspace / name
    base = path.read_bytes()
    git(made, "add", "-f", name)
    git(made, "commit", "-qm", "Base")
    for branch, line in (("other", b"- theirs of it\n"), ("main", b"- ours of it\n")):
        git(made, "switch", "-q", *(["-c"] if branch == "other" else []), branch)
        path.write_bytes(base + line)
        git(made, "commit", "-qam", branch)
    git(made, "merge", "other", code=1)
    assert is_conflicted(path.read_bytes())
    merged = path.read_bytes()
    (one,) = made.json("git", "status")["conflicts"]
    assert one["path"] == name
    made.append(said(20), name="later")
    made.run("run", "--once")
    assert path.read_bytes() == merged
    assert "ours of it" not in made.run("context").stdout
    waits = [row for row in made.json("job", "list") if row["state"] == "queued"]
    assert waits or name == "MEMORY.md"
    shown = made.run("resolve", name).stdout
    assert "- ours of it" in shown
    assert "- theirs of it" in shown
    done = made.json("resolve", name, "--both")
    assert path.read_bytes() == base + b"- ours of it\n- theirs of it\n"
    assert Path(done["backup"]).read_bytes() == merged
    assert made.json("git", "status")["conflicts"] == []
    assert made.run("resolve", name, "--ours").returncode == 3


@pytest.mark.parametrize(
    ("side", "left"),
    [
        (Side.OURS, b"- a\n- tea\n- ours\n- z"),
        (Side.THEIRS, b"- a\n- tea\n- theirs\n- z"),
        (Side.BOTH, b"- a\n- tea\n- ours\n- theirs\n- z"),
    ],
)
def test_a_side_is_taken_and_all_else_stays(side, left):
    assert resolve(b"- a\n" + CONFLICT + b"- z", side) == left


def test_a_common_ancestor_is_no_side():
    data = CONFLICT.replace(b"=======\n", b"||||||| base\n- old\n=======\n")
    (one,) = find_conflicts(data)
    assert (one.line, one.ours, one.theirs) == (1, b"- tea\n- ours\n", b"- tea\n- theirs\n")


PIECES = st.sampled_from(
    [CONFLICT, b"- a\n", b"=======\n", b"<<<<<<< x\n", b">>>>>>> y\n", b"```\n", b"||||||| b\n", b"z"]
)


@given(st.lists(PIECES, max_size=8), st.sampled_from(Side))
def test_what_is_outside_of_conflicts_stays_byte_for_byte(pieces, side):
    data = b"".join(pieces)
    found = find_conflicts(data)
    left = resolve(data, side)
    if not found:
        assert left == data
    at = 0
    for one in found:
        assert data[at : one.first] in left
        at = one.last
    assert left.endswith(data[at:])
