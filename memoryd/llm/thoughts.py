"""What a model says around its answer: its reasoning, and a fence around the whole.

Reasoning is written between marks that differ by model: `<think>` (DeepSeek, Qwen), `[THINK]` (Mistral), `◁think▷`
(Kimi), `<|START_THINKING|>` (Cohere), `<seed:think>` (Seed), and the channels of gpt-oss, in which only the channel
`final` is the answer.
"""

from __future__ import annotations

import re

from memoryd.text.fences import strip_fence

_TAGS = r"(?:seed:)?(?:think|thinking|thoughts?|reasoning|reasoning_content|reflection|analysis|scratchpad)"
_OPENING = re.compile(
    rf"\A\s*(?:<(?P<tag>{_TAGS})>|(?P<square>\[THINK\])|(?P<kimi>◁think▷)|<\|(?P<begin>begin_of_thought)\|>|"
    r"<\|(?P<start>start_thinking)\|>)",
    re.IGNORECASE,
)
_CLOSINGS = {
    "square": r"\[/THINK\]",
    "kimi": r"◁/think▷",
    "begin": r"<\|end_of_thought\|>",
    "start": r"<\|end_thinking\|>",
}
_LEFT_OVER = re.compile(rf"\A[^\[{{]*?(?:</{_TAGS}\s*>|◁/think▷|\[/THINK\])", re.IGNORECASE)
_CHANNELS = re.compile(r"\A\s*(?:<\|start\|>\s*assistant\s*)?<\|channel\|>", re.IGNORECASE)
_CHANNEL = re.compile(r"<\|channel\|>\s*(?P<name>\w+)[^<]*<\|message\|>", re.IGNORECASE)
_END = re.compile(r"<\|(?:end|return|call|start|channel)\|>", re.IGNORECASE)


def answer_of(text: str) -> str:
    """Return the answer in `text`, without reasoning before it and without a fence around it.

    Reasoning that never ends leaves nothing: where the answer would begin cannot be known. A closing mark without its
    opening one, as the chat templates of some models leave it, ends reasoning only before any `[` or `{`, so that one
    that is quoted in an answer ends nothing.
    """
    if _CHANNELS.match(text):
        text = _final(text)
    while opening := _OPENING.match(text):
        kind = opening.lastgroup or "tag"
        closing = _CLOSINGS.get(kind) or rf"</{re.escape(opening['tag'])}\s*>"
        end = re.compile(closing, re.IGNORECASE).search(text, opening.end())
        if end is None:
            return ""
        text = text[end.end() :]
    left_over = _LEFT_OVER.match(text)
    text = text[left_over.end() :] if left_over else text
    return strip_fence(text).strip()


def _final(text: str) -> str:
    """Return what is said in the channel `final`, empty where nothing is."""
    said = ""
    for channel in _CHANNEL.finditer(text):
        if channel["name"].lower() == "final":
            end = _END.search(text, channel.end())
            said = text[channel.end() : end.start() if end else len(text)]
    return said
