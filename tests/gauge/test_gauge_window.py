"""The context window."""

from __future__ import annotations

import pytest

from memoryd.gauge.window import Window, choose_window


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("claude-opus-4-6", 200_000),
        ("claude-opus-4-7[1m]", 1_000_000),
        ("anthropic/claude-sonnet-4-5", 200_000),
        ("us.anthropic.claude-sonnet-4-5-v1:0", 200_000),
        ("claude-instant-1.2", 100_000),
        ("Claude-3-Haiku", 200_000),
        ("gpt-4o-mini", 128_000),
        ("openai/gpt-4.1-nano", 1_047_576),
        ("gpt-5-codex", 400_000),
        ("gpt-5-chat-latest", 128_000),
        ("gpt-5.1-chat-latest", 128_000),
        ("gpt-4", 8_192),
        ("gpt-4-0613", 8_192),
        ("gpt-4-turbo-2024-04-09", 128_000),
        ("o3-mini", 200_000),
        ("o1-preview", 128_000),
        ("gemini-2.5-pro", 1_048_576),
        ("gemini-1.5-pro-002", 2_097_152),
    ],
)
def test_by_model(model: str, tokens: int) -> None:
    assert choose_window(None, model, 0) == Window(tokens, "model")


@pytest.mark.parametrize("model", [None, "", "llama-9", "not-a-claude-at-all-but", "gpt-45"])
def test_by_default(model: str | None) -> None:
    assert choose_window(None, model, 200_000) == Window(200_000, "default")


@pytest.mark.parametrize(
    ("model", "peak", "tokens"),
    [
        ("claude-opus-4-7", 200_001, 1_000_000),
        (None, 625_949, 1_000_000),
        ("gpt-4o", 128_001, 200_000),
        ("claude-opus-4-7[1m]", 1_000_001, 2_097_152),
        (None, 3_000_000, 3_000_000),
    ],
)
def test_learned_where_usage_did_not_fit(model: str | None, peak: int, tokens: int) -> None:
    assert choose_window(None, model, peak) == Window(tokens, "learned")


def test_what_the_agent_itself_writes_is_believed_as_far_as_its_context_fits_in() -> None:
    assert choose_window(None, "gpt-5-codex", 200_000, 258_400) == Window(258_400, "agent")
    assert choose_window(None, None, 300_000, 258_400) == Window(1_000_000, "learned")


def test_the_configuration_always_wins() -> None:
    assert choose_window(1000, "claude-opus-4-7[1m]", 900_000) == Window(1000, "config")
