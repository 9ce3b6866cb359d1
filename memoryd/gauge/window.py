"""Choose the size of a session's context window; few transcripts state it, so the model's name often decides."""

from typing import Literal, NamedTuple

from memoryd.text.word_lists import compile_patterns

DEFAULT = 200_000


class Window(NamedTuple):
    """Hold the size of a context window in tokens, and where the size comes from."""

    tokens: int
    how: Literal["config", "agent", "model", "learned", "default"]


_MODELS = compile_patterns(__name__, "windows.txt")
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
    known = next((int(name.split()[0]) for name, one in _MODELS.items() if one.search(model or "")), None)
    assumed = known or DEFAULT
    if peak > assumed:
        return Window(next((size for size in _LADDER if size >= peak), peak), "learned")
    return Window(assumed, "model" if known else "default")
