"""Private parts: tags in every spelling, nested, unclosed, against a reader that knows only depth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.scrub.policy import Policy
from memoryd.scrub.scan import scan

OFF = Policy(secrets="off")
MARK = "[REDACTED:private]"

OPENINGS = ["<private>", "<PRIVATE>", "< private >", '<private note="x">', "&lt;private&gt;", "\\u003cprivate\\u003e"]
CLOSINGS = ["</private>", "</PRIVATE>", "</private >", "< / private>", "&lt;/private&gt;", "\\u003c/private\\u003e"]
WORDS = ["one", " ", "ü", "\n", "<b>", "private", "</b>"]


def shown(text: str) -> str:
    return scan([text], OFF, lambda _: ())[0].text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a <private>b</private> c", f"a {MARK} c"),
        ("a <private>b", f"a {MARK}"),
        ("a <private>b<private>c</private>d</private> e", f"a {MARK} e"),
        ("a <private>b<private>c</private>d", f"a {MARK}"),
        ("a <Private\nx='1'>b</PRIVATE\n> c", f"a {MARK} c"),
        ("a &#60;private&#x3e;b&#60;/private&gt; c", f"a {MARK} c"),
        ("a %3Cprivate%3Eb%3C/private%3E c", f"a {MARK} c"),
        ("a <private>b</private", f"a {MARK}"),
        ("a <private", f"a {MARK}"),
        ("a </private> b", "a </private> b"),
        ("<privateer> private <b>", "<privateer> private <b>"),
        ('{"text": "<private>b<\\/private> c"}', f'{{"text": "{MARK} c"}}'),
        ("`<private>` hides what it holds", "`<private>` hides what it holds"),
        ("`<private>` and `</private>`, ``<private>``", "`<private>` and `</private>`, ``<private>``"),
        ("`<private>` a</private> b", f"`{MARK} b"),
        ("`<private>` is <private>a</private> b", f"`<private>` is {MARK} b"),
        ("<private>a `</private>` b</private> c", f"{MARK} c"),
        ("<private>a `</private>` b", MARK),
        ("template <private T, class U> x", "template <private T, class U> x"),
        ("a <private a=b c='d e' f=\"g\" />b</private> c", f"a {MARK} c"),
        ("a <pri\u200bvate>b</priv\u00adate> c", f"a {MARK} c"),
        ("a <\x1b[1mprivate\x1b[0m>b</private> c", f"a {MARK} c"),
        ("a <\u00a0private\u3000>b</private\u00a0> c", f"a {MARK} c"),
        ("a &amp;lt;private&amp;gt;b&amp;lt;/private&amp;gt; c", f"a {MARK} c"),
        ("a \uff1cprivate\uff1eb\uff1c\uff0fprivate\uff1e c", f"a {MARK} c"),
    ],
)
def test_what_is_private_is_hidden(text: str, left: str) -> None:
    assert shown(text) == left
    assert shown(left) == left


def test_it_ends_with_its_message() -> None:
    assert [one.text for one in scan(["a <private>b", "c"], OFF, lambda _: ())] == [f"a {MARK}", "c"]


@given(
    st.lists(
        st.one_of(
            st.sampled_from(OPENINGS).map(lambda tag: (1, tag)),
            st.sampled_from(CLOSINGS).map(lambda tag: (-1, tag)),
            st.sampled_from(WORDS).map(lambda word: (0, word)),
        )
    )
)
def test_it_agrees_with_a_reader_that_counts(tokens: list[tuple[int, str]]) -> None:
    left, depth = [], 0
    for step, token in tokens:
        if depth == 0 and step <= 0:
            left.append(token)
        elif depth == 0:
            left.append(MARK)
        depth = max(0, depth + step)
    assert shown(" ".join(token for _, token in tokens)).split() == " ".join(left).split()
