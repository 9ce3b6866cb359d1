"""Split the prose of a message into whole sentences, each with the number by which a reply cites it."""

import re
from typing import NamedTuple

from memoryd.text import prose
from memoryd.text.sentences import SentenceKind, split

_NO_PROSE = frozenset({SentenceKind.CODE, SentenceKind.HEADING})
# A sentence that says nothing worth keeping: a name with its redacted value, or the mark of an image.
_GIVES = r"(?:\w+\s*=|[^:=]{0,60}(?::|\b(?:is|was|lautet|ist|est|es|è|é)\b))"
_TELLS_NOTHING = re.compile(_GIVES + r"[^\w\[]*\[REDACTED:[\w-]+\]\W*|\[Image #\d+\]", re.IGNORECASE)


class NumberedSentence(NamedTuple):
    """Hold one sentence, without list mark and emphasis, and its number."""

    number: int  # from 1, in the order of `text.sentences`
    text: str
    is_item: bool = False  # it is part of a list item


def number_sentences(text: str) -> list[NumberedSentence]:
    """Return the sentences of the prose in `text`, in order, without code, headings, secrets and pasted output."""
    given = text.splitlines()
    logged = {line.strip() for line, is_log in zip(given, prose.mark_log_lines(given), strict=True) if is_log}
    found = []
    for number, part in enumerate(split(text), 1):
        lines = [line.strip() for line in part.text.splitlines() if line.strip()]
        is_left_out = part.kind in _NO_PROSE or logged.issuperset(lines) or _TELLS_NOTHING.fullmatch(part.text)
        said = [] if is_left_out else prose.list_lines(part.text)
        if said and len(said) == len(lines):  # skip a sentence that is partly code, which cannot be quoted whole
            found.append(NumberedSentence(number, " ".join(said), part.kind is SentenceKind.ITEM))
    return found


def split_sentences(text: str) -> list[str]:
    """Return the sentences of the prose in `text`, in order."""
    return [one.text for one in number_sentences(text)]


def is_question(sentence: str) -> bool:
    """Return True if `sentence` ends with a question mark or a Chinese question particle."""
    return sentence.rstrip("\"'”’)] 」』.。").endswith(("?", "？", "؟", "吗", "嗎", "呢"))  # noqa: RUF001 - full-width mark
