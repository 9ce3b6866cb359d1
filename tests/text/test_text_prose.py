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


@pytest.mark.parametrize(
    "line",
    [
        "Add __init__.py and pkg/__main__.py:12 to it.",
        "The branch `feat/__x__` and the glob `**/*.py` stay.",
        "All of **/*.ts and src/*/x go.",
        "See https://x.org/o/r/blob/main/src/__init__.py for it.",
        "Merge [the pull request](https://x.org/o/r/pull/52) first.",
        "Look at [the reader](src/app.py#L3) of it.",
        "Call it with f(*args, **kwargs) only.",
    ],
)
def test_names_addresses_and_places_stay_as_written(line):
    assert prose.list_lines(line) == [line]


def test_links_whose_words_tell_the_place_and_emphasis_become_words():
    told = "**Fix** [#52](https://x.org/o/r/pull/52) in [src/a.py:3](src/a.py#L3) of ours, __not now__, *but* `**so**`."
    assert prose.list_lines(told) == ["Fix #52 in src/a.py:3 of ours, not now, but `**so**`."]


def test_words_count_wide_scripts_too():
    assert prose.count_words("three plain words") == 3
    assert prose.count_words("我住在上海的老城区里面") == 7
    assert prose.count_words("") == 0
