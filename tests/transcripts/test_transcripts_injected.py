"""memoryd's own mark in texts that come back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.transcripts.injected import CLOSE, NAME, OPEN, strip


@pytest.mark.parametrize(
    ("text", "rest", "parts"),
    [
        ("plain", "plain", []),
        (f"a{OPEN}b{CLOSE}c{OPEN}d{CLOSE}", "ac", ["b", "d"]),
        (f"a{OPEN}b", "a", ["b"]),
        (f"a{CLOSE}b", "ab", []),
        (f"a{OPEN}b{OPEN}c{CLOSE}d{CLOSE}e", "ae", [f"b{OPEN}c{CLOSE}d"]),
        (f"a<{NAME} agent='x'>b{CLOSE}c", "ac", ["b"]),
        (f"a{OPEN.upper()}b{CLOSE.upper()}c", "ac", ["b"]),
        (f'{{"x":"\\u003c{NAME}\\u003eb\\u003c/{NAME}\\u003e"}}', '{"x":""}', ["b"]),
        (f"a&lt;{NAME}&gt;b&lt;/{NAME}&gt;c", "ac", ["b"]),
        (f"a {NAME} b", f"a {NAME} b", []),
    ],
)
def test_marked_parts(text: str, rest: str, parts: list[str]) -> None:
    found, cut = strip(text)
    assert (found, list(cut)) == (rest, parts)


@given(st.lists(st.sampled_from([OPEN, CLOSE, "a", "b", "<"])).map("".join))
def test_nothing_is_lost_and_nothing_marked_stays(text: str) -> None:
    rest, parts = strip(text)
    assert OPEN not in rest
    assert strip(rest)[0] == rest
    for letter in "ab":
        assert text.count(letter) - text.count(NAME) * NAME.count(letter) == sum(
            part.count(letter) - part.count(NAME) * NAME.count(letter) for part in [rest, *parts]
        )
