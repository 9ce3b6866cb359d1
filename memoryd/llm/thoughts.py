"""What a model says around its answer: its thinking aloud, and a fence around the whole."""

from __future__ import annotations

import re

_OPENING = re.compile(r"\A\s*<(?P<tag>think|thinking|thought|reasoning)>", re.IGNORECASE)
_CLOSING = r"</{tag}\s*>"
_FENCED = re.compile(r"\A\s*(?P<marks>`{3,}|~{3,})[^\n`]*\n(?P<inside>.*?)\n?(?P=marks)\s*\Z", re.DOTALL)
_LEFT_OVER = re.compile(r"\A[^\[{]*?</(?:think|thinking|thought|reasoning)\s*>", re.IGNORECASE)


def answer_of(text: str) -> str:
    """Return the answer in `text`, without thoughts before it and without a fence around it.

    Thoughts that never end leave nothing: where the answer would begin cannot be known. A closing mark without its
    opening one, as the chat templates of some models leave it, ends thoughts only before any `[` or `{`, so that one
    that is quoted in an answer ends nothing.
    """
    while opening := _OPENING.match(text):
        closing = re.compile(_CLOSING.format(tag=opening["tag"]), re.IGNORECASE).search(text, opening.end())
        if closing is None:
            return ""
        text = text[closing.end() :]
    left_over = _LEFT_OVER.match(text)
    text = text[left_over.end() :] if left_over else text
    fenced = _FENCED.match(text)
    return (fenced["inside"] if fenced else text).strip()
