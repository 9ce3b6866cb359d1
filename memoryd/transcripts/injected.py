"""Mark the text that memoryd injects into a session, so that it is recognised when it comes back in a transcript.

The code that renders an injection puts it between `OPEN` and `CLOSE`. Every reader removes such parts with `strip`. The
agent program may have encoded the text as JSON or HTML, so escaped angle brackets are recognised too.
"""

import re
from collections.abc import Sequence

NAME = "memoryd-context"
OPEN = f"<{NAME}>"
CLOSE = f"</{NAME}>"

_TAG = re.compile(rf"(?:<|&lt;|\\u003c)(/?){NAME}\b[^<>&\\\n]{{0,200}}(?:>|&gt;|\\u003e)", re.IGNORECASE)
_NAMED = re.compile(NAME, re.IGNORECASE)


def strip(text: str) -> tuple[str, Sequence[str]]:
    """Divide a text into the message and the parts that memoryd had injected.

    Returns:
        The text without the marked parts, and the marked parts without their tags, in order. A mark that is never
        closed hides everything to the end: it is worse to remember injected memory again than to lose a sentence. Marks
        inside a mark belong to the outer one. A closing tag alone is dropped.
    """
    if NAME not in text and NAME.upper() not in text:
        return text, ()
    rest: list[str] = []
    parts: list[str] = []
    depth = begin = 0
    for found in _TAG.finditer(text):
        closing = bool(found[1])
        if depth == 0 or (closing and depth == 1):
            (parts if depth else rest).append(text[begin : found.start()])
            begin = found.end()
        depth = max(0, depth - 1) if closing else depth + 1
    (parts if depth else rest).append(text[begin:])
    return "".join(rest), parts


def unmark(text: str) -> str:
    """Return the text with every form of a mark made harmless, so that remembered text cannot close its own block."""
    return _NAMED.sub(NAME.replace("-", " "), text)
