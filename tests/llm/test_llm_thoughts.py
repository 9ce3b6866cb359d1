"""Thinking aloud and fences around an answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.llm.openai_chat import answer_of

ANSWER = "[SUMMARY]\n- [t1] User: a `</think>` mark.\n[MEMORIES]"


@pytest.mark.parametrize(
    "text",
    [
        ANSWER,
        f"  \n{ANSWER}\n",
        f"<think>hm</think>{ANSWER}",
        f"<THINK>hm</think >\n\n{ANSWER}",
        f"<thinking>a</thinking><think>b</think>{ANSWER}",
        f"hm\n</think>\n{ANSWER}",
        f"```\n{ANSWER}\n```",
        f"~~~text\n{ANSWER}\n~~~\n",
        f"[THINK]hm[/THINK]{ANSWER}",
        f"◁think▷hm◁/think▷{ANSWER}",
        f"<seed:think>hm</seed:think>{ANSWER}",
        f"<|START_THINKING|>hm<|END_THINKING|>{ANSWER}",
        f"<|begin_of_thought|>hm<|end_of_thought|>{ANSWER}",
        f"<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>{ANSWER}<|return|>",
        f"<|channel|>final<|message|>{ANSWER}",
        f"<think>```\n[SUMMARY]\n```</think>\n```markdown\n{ANSWER}\n```",
    ],
)
def test_the_answer_is_left(text):
    assert answer_of(text) == ANSWER


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<think>",
        f"<think>{ANSWER.replace('</think>', '')}",
        "<think>a</thinking>",
        "<think></think>",
        f"[THINK]{ANSWER}",
        "<|channel|>analysis<|message|>hm",
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant",
    ],
)
def test_nothing_is_left_where_no_answer_begins(text):
    assert not answer_of(text)


@given(st.text(max_size=300))
def test_it_adds_nothing_and_is_done_at_once(text):
    left = answer_of(text)
    assert left in text
    assert answer_of(f"<think>{text.replace('<', '')}</think>{ANSWER}") == ANSWER


def test_long_texts_are_no_trouble():
    for text in (
        "<think>" * 50_000,
        "`" * 200_000,
        "</think" * 50_000,
        "a" * 500_000 + "</think>",
        "```\n" * 100_000,
        "<|channel|>a" * 40_000,
        "<|channel|>final<|message|>" * 20_000,
    ):
        assert answer_of(text) is not None
