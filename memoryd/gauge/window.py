"""Choose the size of a session's context window; few transcripts state it, so the model's name often decides."""

import re
from typing import Literal, NamedTuple

DEFAULT = 200_000


class Window(NamedTuple):
    """Hold the size of a context window in tokens, and where the size comes from."""

    tokens: int
    how: Literal["config", "agent", "model", "learned", "default"]


# The sizes are from the vendors' model pages and API references; the first match counts. A vendor's name may come
# before the model, with a slash or a dot. If a name stands for models with different windows, the default is used.
_MODELS: tuple[tuple[re.Pattern[str], int], ...] = tuple(
    (re.compile(rf"(?:^|[/.:]){pattern}"), tokens)
    for pattern, tokens in (
        (r"claude.*\[1m\]", 1_000_000),
        (r"claude-(?:instant|2\.0|v2:0|v1)", 100_000),
        (r"claude", 200_000),
        (r"gpt-5[\w.-]*-chat", 128_000),
        (r"gpt-5", 400_000),
        (r"gpt-4\.1", 1_047_576),
        (r"(?:chat)?gpt-4o", 128_000),
        (r"gpt-4-(?:turbo|1106|0125)", 128_000),
        (r"gpt-4-32k", 32_768),
        (r"gpt-4(?:-|$)", 8_192),
        (r"gpt-3\.5-turbo", 16_385),
        (r"o1-(?:mini|preview)", 128_000),
        (r"(?:o1|o3|o4-mini)(?:-|$)", 200_000),
        (r"gemini-1\.5-pro", 2_097_152),
        (r"gemini-(?:1\.5-flash|2\.0-flash|2\.5)", 1_048_576),
    )
)
# Sizes to choose from if the usage has exceeded the assumed size.
_LADDER = (200_000, 1_000_000, 2_097_152)


def choose_window(configured: int | None, model: str | None, peak: int, said: int = 0) -> Window:
    """Return the context window of a session.

    Args:
        configured: the configured size in tokens, which always wins; None if there is none.
        model: the name of the model.
        peak: the largest usage so far; a smaller window cannot be right.
        said: the size that the agent itself recorded; 0 if it did not.
    """
    if configured is not None:
        return Window(configured, "config")
    if said >= peak and said:
        return Window(said, "agent")
    known = next((tokens for pattern, tokens in _MODELS if pattern.search((model or "").lower())), None)
    assumed = known or DEFAULT
    if peak > assumed:
        return Window(next((size for size in _LADDER if size >= peak), peak), "learned")
    return Window(assumed, "model" if known else "default")
