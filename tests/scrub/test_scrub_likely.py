"""Lines that look like secrets: none of sixty formats is told, and what people keep in mind is."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from planted_secrets import planted, tells
from scratch import FILLER, SAID
from secret_samples import BY_NAME, CONTEXTS, SHAPES, UNNAMED, secret

from memoryd.scrub.likely import INSTEAD, is_likely, withhold_lines


@pytest.mark.parametrize("where", range(20))
def test_no_secret_is_told(where: int) -> None:
    for one in planted(f"line {where}"):
        told, count = withhold_lines(f"- Tabs.\n{one.line}\n- Figs.")
        assert not [part for part in tells(one.secret) if part in told], one.name
        assert told.startswith("- Tabs.\n")
        assert told.endswith("\n- Figs.")
        assert count == told.count(INSTEAD) > 0


@example("figma", "brackets", 233)
@example("razorpay", "written line feeds", 0)
@given(st.sampled_from([*SHAPES, *UNNAMED]), st.sampled_from(sorted(CONTEXTS)), st.integers(0, 2**32))
def test_no_secret_is_told_whatever_stands_around_it(name: str, context: str, seed: int) -> None:
    made = secret(name, Random(seed))
    if name in SHAPES or context in BY_NAME:
        assert made not in withhold_lines(CONTEXTS[context].format(made))[0]


@pytest.mark.parametrize(
    "line",
    [
        *(text for _, text in SAID),
        FILLER,
        "# Daily Memory: 2026-03-04",
        "From Codex, 09:12-09:40, session:01a1ffd6-c4aa-71c0-884d-641053f2b86a",
        "- Commit 9dc71f13b1d915dcd394f9eaaa03e12f148a73d4 fixed it; see https://github.com/a/b/pull/12#issuecomment-449",
        "- getUserNameFromRequestHeader moved to src/app/user_name_resolver.py",
        "- We keep the token budget at 2,000; authors sign in by e-mail.",
        "**Key decisions**:",
        "- **Key findings**: Figs are sweet.",
        "- The gateway key is in .env, it's SMS_KEY=[REDACTED:stripe-key], just so you know.",
        "- The password is [REDACTED:private]",
        "- Last commit: `f26cf33` Clarify OAuth error fallback handling",
        "- Not committed: `internal/oauth/origin.go`, `internal/oauth/origin_test.go`",
        '- The keyword form "quorum replication" gives the same top-2; @public/tokenizer.css has the rest.',
        "- The key decision: one table per agent.",
        "- The build of 2026-03-04T09:00:00.000Z took 12m30s on aarch64-unknown-linux-gnu.",
        "東京に住んでいる",
        "",
    ],
)
def test_what_people_keep_in_mind_is_told(line: str) -> None:
    assert not is_likely(line)
    assert withhold_lines(f"{line}\n{line}") == (f"{line}\n{line}", 0)


@pytest.mark.parametrize(
    "line",
    [
        "**Password**: hunter2xyz",
        "**Key decisions**: the password is hunter2xyz",
        "SMS_KEY=[REDACTED:stripe-key] DB_PASSWORD=hunter2xyz",
        "- Last commit: `f26cf33` Set the token to x9f26cf33q",
        "tokenizer token=x9f26cf33q",
    ],
)
def test_a_secret_beside_an_own_mark_or_a_harmless_word_is_not_told(line: str) -> None:
    assert withhold_lines(line)[0] == INSTEAD


@given(st.text())
def test_each_line_is_told_or_withheld(text: str) -> None:
    told = withhold_lines(text)[0].split("\n")
    given_ = text.split("\n")
    assert len(told) == len(given_)
    assert all(after in (before, INSTEAD) for before, after in zip(given_, told, strict=True))
