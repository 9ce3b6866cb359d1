"""Where transcripts lie: globs as everybody knows them, on absolute paths, and walks that no folder can trap."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.files import sources

CHARS = st.sampled_from("ab.*?[]!-^\\{(|~&1 ")
parts = st.text(CHARS, min_size=1, max_size=6).filter(lambda part: part not in {".", "..", "**"})
namelike = st.text(st.sampled_from("ab.]![-^\\1 "), min_size=1, max_size=4).filter(lambda name: name not in {".", ".."})


@given(st.lists(parts, min_size=1, max_size=3), st.lists(namelike, min_size=1, max_size=3))
def test_each_part_matches_as_fnmatch_says(wanted: list[str], names: list[str]) -> None:
    expected = len(wanted) == len(names) and all(
        fnmatch.fnmatchcase(name, part) for name, part in zip(names, wanted, strict=True)
    )
    assert sources.make_pattern("/" + "/".join(wanted)).matches("/" + "/".join(names)) == expected


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("/a/*.jsonl", ["/a/b.jsonl", "/a/.jsonl"], ["/a/b/c.jsonl", "/a/b.json", "/ab.jsonl", "/a/b.jsonl.1"]),
        ("/a/**/*.jsonl", ["/a/b.jsonl", "/a/b/c.jsonl", "/a/b/c/d.jsonl"], ["/ab/c.jsonl", "/a/b/c"]),
        ("/a/**", ["/a/b", "/a/b/c"], ["/a", "/ab"]),
        ("/a/*/c", ["/a/b/c"], ["/a/c", "/a/b/b/c"]),
        ("/a/[!b]c", ["/a/xc"], ["/a/bc", "/a//c"]),
        ("/a[!b]c", ["/axc"], ["/a/c"]),
        ("/a/[", ["/a/["], ["/a/b"]),
        ("/a/[[]b]", ["/a/[b]"], ["/a/b"]),
        ("/a/x\ny*", ["/a/x\nyz"], ["/a/xyz"]),
    ],
)
def test_what_a_pattern_means(text: str, yes: list[str], no: list[str]) -> None:
    wanted = sources.make_pattern(text)
    assert [path for path in [*yes, *no] if wanted.matches(path)] == yes


def test_what_is_private_is_never_meant() -> None:
    assert not sources.make_pattern("/a/**").matches("/a/diary.private")


@pytest.mark.parametrize(
    ("text", "root", "deep", "covered"),
    [
        ("/a/s/*.jsonl", "/a/s", False, ["/a/s/x"]),
        ("/a/s/**/*.jsonl", "/a/s", True, ["/a/s/x", "/a/s/b/x", "/a/s/b/c/x"]),
        ("/a/*/x.jsonl", "/a", True, ["/a/s/x", "/a/b/x"]),
        ("/a/s/x.jsonl", "/a/s", False, ["/a/s/x"]),
    ],
)
def test_the_folders_of_a_pattern(text: str, root: str, deep: bool, covered: list[str]) -> None:  # noqa: FBT001
    wanted = sources.make_pattern(text)
    assert (wanted.root, wanted.deep) == (Path(root), deep)
    asked = ["/a/x", "/a/s/x", "/a/b/x", "/a/s/b/x", "/a/s/b/c/x"]
    assert [path for path in asked if wanted.covers(path)] == [path for path in asked if path in covered]


def test_the_folder_a_pattern_is_below_is_taken_by_its_name(tmp_path: Path) -> None:
    odd, other = tmp_path / "we[i]rd *", tmp_path / "weird x"
    for folder in (odd, other):
        (folder / "sub").mkdir(parents=True)
        (folder / "sub" / "a.jsonl").touch()
    for text in ("sub/*.jsonl", "*/a.jsonl", "**/*.jsonl"):
        wanted = sources.make_pattern(text, odd)
        assert wanted.root == (odd / "sub" if text == "sub/*.jsonl" else odd)
        assert sources.walk(wanted).paths == (str(odd / "sub" / "a.jsonl"),)


def test_a_walk_finds_what_is_meant_and_enters_no_tool_folder_and_no_link(tmp_path: Path) -> None:
    for name in ("a.jsonl", "sub/b.jsonl", "sub/deep/c.jsonl", ".git/d.jsonl", "node_modules/e.jsonl", "f.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "a.jsonl")
    (tmp_path / "x.private").touch()
    found = sources.walk(sources.make_pattern(f"{tmp_path}/**/*.jsonl"))
    assert found.paths == tuple(f"{tmp_path}/{name}" for name in ("a.jsonl", "sub/b.jsonl", "sub/deep/c.jsonl"))
    assert [path for path, _ in found.refused] == [f"{tmp_path}/link.jsonl"]
    assert sources.walk(sources.make_pattern(f"{tmp_path}/*/*.jsonl")).paths == (f"{tmp_path}/sub/b.jsonl",)
    assert sources.walk(sources.make_pattern(f"{tmp_path}/none/*.jsonl")).paths == ()


def test_folders_are_counted_as_a_recursive_watch_covers_them(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    assert sources.count_folders(tmp_path) == 4


def test_a_file_is_found_by_its_identity(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    stat = path.stat()
    path.rename(tmp_path / "b")
    (tmp_path / "c").symlink_to("b")
    assert sources.find_inode(str(tmp_path), stat.st_dev, stat.st_ino) == str(tmp_path / "b")
    assert sources.find_inode(str(tmp_path), stat.st_dev + 1, stat.st_ino) is None
    assert sources.find_inode(str(tmp_path / "none"), stat.st_dev, stat.st_ino) is None


def test_a_folder_that_cannot_be_listed_is_reported_and_a_missing_one_is_not(tmp_path: Path) -> None:
    impossible = tmp_path / ("x" * 300)  # longer than any file system's names
    found = sources.walk(sources.make_pattern(f"{impossible}/*.jsonl"))
    assert found.refused == ((str(impossible), "is a folder that cannot be listed: File name too long"),)
    assert sources.walk(sources.make_pattern(f"{tmp_path}/missing/*.jsonl")).refused == ()
