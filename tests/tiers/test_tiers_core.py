"""The core file: any bytes survive it, additions touch nothing else and are made once."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoryd.tiers import core
from memoryd.tiers.core import Bullet, add, normalize, parse, render

LINES = st.sampled_from(
    [
        *(
            "",
            " ",
            "# Memory",
            "## A",
            "## A ##",
            "### b",
            "#",
            "- one",
            "* two",
            "+ three",
            " - four",
            "  - deeper",
            "-",
        ),
        *(
            "-",
            "- ",
            "---",
            "- - -",
            "***",
            "===",
            "```",
            "~~~",
            "  ```",
            "- ```",
            "    code",
            "text",
            "  more",
            "\t- t",
        ),
        *(
            "<!--",
            "-->",
            "<!-- c -->",
            "\ufeff",
            "1. x",
            "> q",
            "| t |",
            "- \\# x",
            "- # x",
            "...",
            "\0",
            "- a\r",
            "##\r",
        ),
    ],
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\n", b""])
MARKDOWN = st.lists(st.tuples(LINES.map(str.encode), ENDS), max_size=14).map(
    lambda rows: b"".join(a + b for a, b in rows)
)
FILES = MARKDOWN | MARKDOWN.map(lambda data: b"\xef\xbb\xbf" + data) | st.binary(max_size=60)
TEXTS = (LINES | st.text(max_size=12)).filter(lambda text: text.replace("\x00", "x").strip() != "")
ADDITIONS = st.lists(st.tuples(LINES | st.text(max_size=6), TEXTS), max_size=4)


def common(one: bytes, two: bytes) -> int:
    """How many first bytes are the same."""
    pairs = enumerate(zip(one, two, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(two)))


@given(FILES)
def test_any_bytes_come_back(data: bytes) -> None:
    assert render(parse(data)) == data


@given(FILES, ADDITIONS)
@example(b"```\n- code", [("", "x"), ("A", "y")])
@example(b"- one\n<!--\n", [("", "- -"), ("A", "# x"), ("A #", "```")])
@example(b"---\n- tag\n---", [("", "x")])
def test_adding_twice_is_adding_once(data: bytes, additions: list[tuple[str, str]]) -> None:
    once = add(parse(data), additions)
    assert add(parse(once), additions) == once


@given(FILES, st.tuples(LINES | st.text(max_size=6), TEXTS))
def test_one_addition_is_one_insertion_of_one_bullet(data: bytes, addition: tuple[str, str]) -> None:
    new = add(parse(data), [addition])
    if new == data:
        return
    front = common(data, new)
    back = common(data[::-1], new[::-1])
    assert front + back >= len(data)
    before = sorted(normalize(bullet.text) for bullet in parse(data).bullets)
    after = sorted(normalize(bullet.text) for bullet in parse(new).bullets)
    assert set(before) <= set(after)
    assert len(after) >= len(before) + 1


@given(FILES)
def test_nothing_to_add_changes_nothing(data: bytes) -> None:
    file = parse(data)
    assert add(file, []) == data
    assert add(file, [("elsewhere", bullet.text) for bullet in file.bullets]) == data


def test_bullets_know_their_text_heading_and_place() -> None:
    data = b"""\xef\xbb\xbf---
tags:
- not a bullet
---
# Memory
- top
  goes on
* star
  - deeper
    - deepest

## Work ##
Words.
+ plus `code` \xff
- [ ] task

```
- in a fence
## neither
```
~~~
- still
```
~~~
<!--
- commented out
-->
### Sub
 - indented once
  - deeper
- - -
## Empty
# Another title
- last"""
    assert list(parse(data).bullets) == [
        Bullet("top goes on", "", 0),
        Bullet("star", "", 1),
        Bullet("plus `code` \ufffd", "Work", 2),
        Bullet("[ ] task", "Work", 3),
        Bullet("indented once", "Sub", 4),
        Bullet("last", "", 5),
    ]
    assert render(parse(data)) == data


def test_a_fence_of_a_bullet_ends_with_the_bullet() -> None:
    data = b"- one\n  ```\n  - code\n- two\n\npara\n\n  ```\n- code of its own\n"
    assert [bullet.text for bullet in parse(data).bullets] == ["one", "two"]


@pytest.mark.parametrize(
    ("data", "additions", "expected"),
    [
        (b"", [("", "a")], b"# Memory\n\n- a\n"),
        (b"", [("H", "a"), ("H", "b"), ("", "c")], b"# Memory\n\n- c\n\n## H\n\n- a\n- b\n"),
        (b"- a\n", [("", "b")], b"- a\n- b\n"),
        (b"- a", [("", "b")], b"- a\n- b\n"),
        (b"- a\r\n", [("H", "b")], b"- a\r\n\r\n## H\r\n\r\n- b\r\n"),
        (b"## H\n- a\n## I\n- b\n", [("h", "c")], b"## H\n- a\n- c\n## I\n- b\n"),
        (b"## H\n\n- a\n  - deeper\n\n\n## I\n", [("H", "c")], b"## H\n\n- a\n  - deeper\n- c\n\n\n## I\n"),
        (b"## H\n\nWords.\n", [("H", "c")], b"## H\n\nWords.\n\n- c\n"),
        (b"# My notes\n\n## H\n- a\n", [("", "c")], b"# My notes\n\n- c\n\n## H\n- a\n"),
        (b"- a\n\n```\ncode", [("", "b")], b"- a\n- b\n\n```\ncode"),
        (b"```\ncode", [("", "b")], b"- b\n```\ncode"),
        (b"- A  b\n", [("H", "a B"), ("H", "* x"), ("", "* X")], b"- A  b\n\n## H\n\n- \\* x\n"),
        (b"- caf\xc3\xa9\n", [("", "cafe\u0301")], b"- caf\xc3\xa9\n"),
        (b"", [("", "## no\nheading\r\nhere")], b"# Memory\n\n- \\## no heading here\n"),
        (b"", [("a\n## b", "-- flag --x")], b"# Memory\n\n## a ## b\n\n- -- flag --x\n"),
    ],
)
def test_where_additions_go(data: bytes, additions: list[tuple[str, str]], expected: bytes) -> None:
    assert add(parse(data), additions) == expected


def test_many_additions_are_read_once_for_each_heading(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    parsing = core.parse
    monkeypatch.setattr(core, "parse", lambda data: read.append(data) or parsing(data))
    one_by_one = parse(b"- old\n\n## Two\n")
    additions = [(heading, f"text {number} of it") for number in range(50) for heading in ("one", "Two", "ONE")]
    added = add(one_by_one, additions)
    assert len(read) <= 4
    for addition in additions:
        one_by_one = parse(add(one_by_one, [addition]))
    assert render(one_by_one) == added


def test_a_text_that_hides_what_is_behind_it_hides_no_other_addition() -> None:
    file = parse(add(parse(b"- old\n"), [("one", "<private> z"), ("two", "seen"), ("one", "seen too")]))
    assert [bullet.text for bullet in file.bullets] == ["old", "seen", "seen too"]


def test_a_blank_text_is_refused() -> None:
    with pytest.raises(ValueError, match="text"):
        add(parse(b""), [("", " \n ")])


def test_long_hostile_lines_take_linear_work() -> None:
    n = 200_000
    for line in (
        b"# a" + b" " * n + b"b",
        b"# " + b"# " * n + b"x",
        b"-" * n + b"x",
        b"- " * n + b"x",
        b"`" * n + b"x`",
    ):
        assert render(parse(line)) == line
    assert add(parse(b"- a\n"), [("# " * n + "x", "- " * n + "x")]).startswith(b"- a\n")


@given(st.lists(LINES))
def test_a_plain_bullet_is_read_as_any_other_line_is(lines):
    data = "\n".join(lines).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "_PLAIN", re.compile(rb"(?!)"))
        slow = core.parse.__wrapped__(data)
    assert core.parse.__wrapped__(data) == slow
