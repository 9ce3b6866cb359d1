"""Prose: what of a message was said, and how long it is."""

import pytest

from memoryd.text import prose

LOG = "\n".join(f"CREATE refs/tags/v0.{n} at {n}abc" for n in range(9))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Fix it.\n```python\nx = 1\n```\nThanks", ["Fix it.", "Thanks"]),
        ("open ```\nx = 1\n", ["open ```", "x = 1"]),
        ("~~~\nnever closed\nat all", []),
        ("## Heading\n**Changes:**\n- **one** of [two](http://x/y)\n1. three", ["one of two", "three"]),
        ("| a | b |\n|---|---|\nbelow", ["below"]),
        (f"Why is this so slow?\n{LOG}\nPlease look.", ["Why is this so slow?", "Please look."]),
        ("❯ make test\n$ git push --force\nIt failed.", ["It failed."]),  # noqa: RUF001
        ("time=2026-05-04T19:26 level=INFO msg=x ref=1 n=2", []),
    ],
)
def test_prose_is_what_people_say(text, lines):
    assert prose.list_lines(text) == lines


def test_words_count_wide_scripts_too():
    assert prose.count_words("three plain words") == 3
    assert prose.count_words("我住在上海的老城区里面") == 7
    assert prose.count_words("") == 0
