"""A file that its owner marked as private is recognized by its name or its front matter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.text.private import is_private


@pytest.mark.parametrize(
    "name", ["diary.private", "a/b/diary.md.private", "notes.PRIVATE", "memory/x.private/2026-01-01.md", "a\\b.private"]
)
def test_a_name_marks_a_file(name: str) -> None:
    assert is_private(name)


@pytest.mark.parametrize(
    "name", ["private", "private.md", "diary.private.md", "diary.privately", "a.private-x/b.md", ""]
)
def test_a_name_that_only_resembles_the_mark_is_none(name: str) -> None:
    assert not is_private(name, b"private: true\n")


@pytest.mark.parametrize(
    "head",
    [
        b"---\nprivate: true\n---\ntext",
        b"\xef\xbb\xbf---\r\ntitle: x\r\nprivate: true\r\n---\r\n",
        b"---  \nprivate: True # for me\n---\n",
        b"---\nprivate: 'true'\n...\n",
        b'---\n"private": "yes"\n---\n',
        b"---\nPRIVATE: on\n---\n",
        b"---\n{private: true}\n---\n",
        b"---\n{\n  private: true\n}\n---\n",
        b'---\n{title: x, "private": yes}\n---\n',
        b"---\nprivate:true\n---\n",
        b"---\nprivate : 1\n---\n",
        b"---\nprivate: false\nprivate: true\n---\n",
        b"---\rprivate: true\r---\r",
        b"---\nprivate: true",  # still being written
        b"---\n" + b"k: v\n" * 500 + b"private: true\n---\n",
    ],
)
def test_front_matter_marks_a_file(head: bytes) -> None:
    assert is_private("NOW-2026-01-01T10-00.md", head)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"---",
        b"private: true\n",
        b"\n---\nprivate: true\n---\n",
        b"# Title\n---\nprivate: true\n---\n",
        b"---\nprivate: false\n---\n",
        b"---\nprivate: no\n---\n",
        b"---\nprivate:\n---\n",
        b"---\nprivate: ~ # not yet\n---\n",
        b"---\ntitle: x\n---\nprivate: true\n",
        b"---\n---\nprivate: true\n",
        b"---\nprivately: true\nnot_private: true\n---\n",
        b"---\ntags:\n  private: true\n---\n",
        b"----\nprivate: true\n---\n",
    ],
)
def test_other_text_marks_nothing(head: bytes) -> None:
    assert not is_private("NOW-2026-01-01T10-00.md", head)


@given(before=st.lists(st.sampled_from(["a: b", "- x", "# c", "", "tags: [x]", "private: false"])), rest=st.binary())
def test_the_mark_counts_wherever_it_is_in_the_front_matter(before: list[str], rest: bytes) -> None:
    front = "".join(f"{line}\n" for line in before).encode()
    assert is_private("x.md", b"---\n" + front + b"private: true\n---\n" + rest)
    assert not is_private("x.md", b"---\n" + front + b"---\n" + rest)
