"""Mark the text that memoryd injects into a session, so that it is recognised when it comes back in a transcript.

Whoever renders an injection puts it between `OPEN` and `CLOSE`; every reader cuts such parts out with `strip`. The
agent program may have passed the text through JSON or HTML, so the angle brackets are also known in their escaped
forms.
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
        The rest without the marked parts, and the marked parts without their tags, in order. A mark that is never
        closed hides everything to the end: memory that feeds on itself is worse than a sentence not remembered.
        Marks inside a mark belong to the outer one; a closing tag alone is dropped.
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
    """Return `text` so that nothing in it is a mark, in whatever form: what is remembered cannot close its block."""
    return _NAMED.sub(NAME.replace("-", " "), text)
