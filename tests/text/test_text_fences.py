"""Code fences: where a block of code begins and ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.text import fences


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("a\n```py\nx = 1\n```\nb", [("```py\nx = 1\n```", "py", True)]),
        ("~~~\n```\n~~~", [("~~~\n```\n~~~", "", True)]),
        ("````\n```\n```\n`````  \nb", [("````\n```\n```\n`````", "", True)]),
        ("```\n``` no\n```", [("```\n``` no\n```", "", True)]),
        ("``` a`b\nx", []),
        ("~~~ a`b\nx", [("~~~ a`b\nx", "a`b", False)]),
        ("   ```\nx\n   ```", [("   ```\nx\n   ```", "", True)]),
        ("    ```\nx", []),
        ("```\nx\n    ```\ny", [("```\nx\n    ```\ny", "", False)]),
        ("```\nnever closed", [("```\nnever closed", "", False)]),
        ("- do:\n     ```\n     x\n     ```\nb", [("     ```\n     x\n     ```", "", True)]),
        ("- ```sh\n  x\n  ```\nb", [("- ```sh\n  x\n  ```", "sh", True)]),
        ("- a\n\nb\n      ```", []),
        ("say ``` here\n```\r\nx\r\n```\r\ny", [("```\r\nx\r\n```", "", True)]),
        ("> ```\n> x", []),
    ],
)
def test_blocks(text, blocks):
    assert [(text[one.start : one.end], one.info, one.closed) for one in fences.find_fences(text)] == blocks


def test_what_is_outside_of_blocks():
    assert fences.without_fences("a\n```\nx\n```\nb\n~~~\ny") == "a\n\n\nb\n\n"
    assert fences.without_fences("a ``` b") == "a ``` b"


LINES = st.lists(st.sampled_from(["```", "````", "~~~", "```py", "  ```", "    ```", "- x", "- ```", "x", "", "\t```"]))


@given(LINES.map("\n".join))
def test_blocks_are_apart_in_order_and_hold_whole_lines(text):
    at = 0
    for one in fences.find_fences(text):
        assert at <= one.start < one.end <= len(text)
        assert one.start == 0 or text[one.start - 1] == "\n"
        assert text[one.end : one.end + 1] in {"", "\n"}
        assert one.closed or one.end == len(text)
        at = one.end


@given(LINES.map("\n".join), LINES.map("\n".join))
def test_what_follows_changes_no_block_that_is_closed(text, more):
    closed = [one for one in fences.find_fences(text) if one.closed]
    assert fences.find_fences(f"{text}\n{more}")[: len(closed)] == closed


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("```json\n{}\n```", "{}"),
        ("\n~~~\na\n```\nb\n```\n~~~~\n", "a\n```\nb\n```"),
        ("```\na```", "a"),
        ("```\na", "```\na"),
        ("````\na\n```", "````\na\n```"),
        ("a\n```\nb\n```", "a\n```\nb\n```"),
        ("```", "```"),
    ],
)
def test_the_inside_of_a_fence_around_all(text, inside):
    assert fences.strip_fence(text) == inside
