"""Memory stays out of git by lines that nobody else sees, but what git tracks already stays tracked."""

import subprocess

import pytest

from memoryd.files import git_exclude


def git(folder, *words):
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "it's [a] $repository"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


def remember(folder):
    for name in ("MEMORY.md", "memory/2026-11-21.md", ".continuum/memory/RECENT.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


@pytest.mark.parametrize("below", [".", "packages/a b"])
def test_memory_is_not_offered_for_a_commit_and_the_lines_go_once_it_is_gone(repository, below):
    exclude = repository / ".git/info/exclude"
    workspace = repository / below
    workspace.mkdir(parents=True, exist_ok=True)
    exclude.write_text("*.o")
    git_exclude.add(workspace)
    once = exclude.read_text()
    git_exclude.add(workspace)
    assert exclude.read_text() == once
    remember(workspace)
    assert git(repository, "status", "--short", "--untracked-files=all") == ""
    git_exclude.remove(workspace)
    assert exclude.read_text() == once, "git would offer what is still there"
    (workspace / "MEMORY.md").unlink()
    git_exclude.remove(workspace)
    assert exclude.read_text() == once.replace(f"/{'' if below == '.' else below + '/'}MEMORY.md\n", "")
    subprocess.run(["rm", "-r", workspace / "memory", workspace / ".continuum"], check=True)
    git_exclude.remove(workspace)
    assert exclude.read_text() == "*.o\n"


def test_the_lines_of_two_workspaces_and_of_a_program_go_each_by_itself(repository):
    exclude, below = repository / ".git/info/exclude", repository / "below"
    below.mkdir()
    exclude.write_text("*.o\n")
    git_exclude.add(repository)
    git_exclude.add(below)
    git_exclude.add(repository, git_exclude.AIDER)
    git_exclude.add(repository, git_exclude.AIDER)
    with exclude.open("a") as file:
        file.write("/mine\n")
    assert exclude.read_text().count("/.aider.conf.yml\n") == 1
    git_exclude.remove(repository)
    assert "/MEMORY.md\n" not in exclude.read_text().splitlines(keepends=True)
    assert ["/below/MEMORY.md" in exclude.read_text(), "/.aider.conf.yml" in exclude.read_text()] == [True, True]
    git_exclude.remove(repository, git_exclude.AIDER)
    git_exclude.remove(below)
    assert exclude.read_text() == "*.o\n/mine\n"


def test_what_is_tracked_and_a_folder_outside_of_git_are_left_alone(repository, tmp_path):
    remember(repository)
    git(repository, "add", "MEMORY.md")
    git(repository, "commit", "-qm", "x")
    tree = tmp_path / "tree"
    git(repository, "worktree", "add", "-q", str(tree))
    git_exclude.add(tree)
    assert (repository / ".git/info/exclude").read_text().endswith("init`:\n/memory/\n/.continuum/memory/\n")
    (tmp_path / "plain").mkdir()
    git_exclude.add(tmp_path / "plain")
    git_exclude.remove(tmp_path / "plain")
    assert not list((tmp_path / "plain").iterdir())


@pytest.mark.parametrize("below", ["[x] *", "a\nb", "caf\udce9", "back\\slash"])
def test_memory_is_kept_out_below_a_folder_of_any_name_and_beside_files_of_any_name(repository, below):
    workspace = repository / below
    remember(workspace)
    (workspace / "memory/\udce9.md").write_text("x")
    git(workspace, "add", "memory")
    git_exclude.add(workspace)
    assert git(repository, "ls-files", "-o", "--exclude-standard") == ""


def test_a_file_that_cannot_be_added_to_is_told_before(repository):
    assert git_exclude.find_fault(repository) is None
    exclude = repository / ".git/info/exclude"
    exclude.rename(repository / "mine")
    exclude.symlink_to(repository / "mine")
    assert "symbolic link" in str(git_exclude.find_fault(repository))
