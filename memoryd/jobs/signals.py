"""Read signals from the wording of a user's message, in the commonest languages.

A correction says that a known or recent statement is wrong. Reinforcement says that something should stay as it is.
Both hint at a new fact. An acknowledgement only keeps the conversation going, and an upload only sends a file.
`signals.txt` has the wordings.
"""

import re
from enum import StrEnum

from memoryd.text.content import list_stems
from memoryd.text.sentences import list_texts
from memoryd.text.word_lists import compile_patterns, list_words
from memoryd.text.wording import find_stem, fold, normalize

_PATTERNS = compile_patterns(__name__, "signals.txt", {"uploads": re.IGNORECASE | re.DOTALL})
_LONGEST_ACK = 60  # characters
_ACKS = frozenset({"", *map(fold, list_words("acknowledgements"))})  # signs alone are an acknowledgement, too
_SIGNS = re.compile(r"[\s.,!?;:…~。！？、，👍👌🙏✅🎉😀😊❤️\ufe0f]+")  # noqa: RUF001
_PARTS = re.compile(r"[.,!?;…。！？、，]+")  # noqa: RUF001
_END = re.compile(r"[.!?;。\n]")
# Words of a retraction that do not occur in the retracted statement.
_ENDING = frozenset(map(find_stem, map(fold, list_words("ended"))))


class Signal(StrEnum):
    """Name the hints that a message can give."""

    CORRECTION = "correction"
    REINFORCEMENT = "reinforcement"


def without_uploads(text: str) -> str:
    """Return `text` without the blocks and marks by which agents show an uploaded file."""
    return _PATTERNS["uploads"].sub(" ", text).strip() if "[" in text or "<" in text else text.strip()


def says_nothing(text: str) -> bool:
    """Return True if `text`, without uploads, only sends a file or acknowledges a statement."""
    bare = without_uploads(text)
    if not bare or _PATTERNS["handed"].match(bare):
        return True
    return len(bare) <= _LONGEST_ACK and all(_SIGNS.sub(" ", one).strip() in _ACKS for one in _PARTS.split(fold(bare)))


def after_assent(text: str) -> str | None:
    """Return the text behind an acknowledgement that begins `text`, such as "Ann." of "OK, Ann."; None without one."""
    first, *rest = _PARTS.split(text, maxsplit=1)
    return "".join(rest) if _SIGNS.sub(" ", fold(first)).strip() in _ACKS else None


def find_signals(text: str) -> tuple[Signal, ...]:
    """Return the hints in `text`, a message of the user."""
    bare = without_uploads(text)
    corrects = _PATTERNS["corrects"].search(bare) or is_retraction(bare)
    found = ((Signal.CORRECTION, corrects), (Signal.REINFORCEMENT, _PATTERNS["reinforces"].search(bare)))
    return tuple(signal for signal, is_given in found if is_given)


def is_retraction(text: str) -> bool:
    """Return True if `text`, a message of the user, plainly retracts a statement or ends a state.

    Examples are "please forget that I …", "I don't work at … anymore", "my dog died" and "in Bruges now, not in Ghent".
    A question or a condition ends nothing.
    """
    lines = map(normalize, without_uploads(text).splitlines())
    return any(_PATTERNS["forget"].search(line) is not None or _tells_an_end(line) for line in lines)


def takes_back(text: str, known: str) -> bool:
    """Return True if a sentence of `text` plainly retracts or ends the statement `known`.

    The sentence must have half of the content words of the statement, or no other content words than these.
    """
    held = list_stems(known)
    for sentence in list_texts(without_uploads(text)):
        said = list_stems(sentence) - _ENDING if is_retraction(sentence) else frozenset()
        shared = said & held
        if shared and (2 * len(shared) >= len(held) or said <= held):
            return True
    return False


def _tells_an_end(line: str) -> bool:
    return any(_states(line, _PATTERNS[name]) for name in ("ended", "died", "moved"))


def _states(line: str, pattern: re.Pattern[str]) -> bool:
    """Return True if `pattern` matches outside a question, and not after "if" or a similar word in its sentence."""
    judged = 0  # the end of the last judged sentence; later matches in it need no check
    for match in pattern.finditer(line):
        if match.start() >= judged:
            begin = max(line.rfind(mark, judged, match.start()) for mark in ".!?;。\n") + 1
            mark = _END.search(line, match.end())
            is_asked = mark is not None and mark[0] == "?"
            if not (is_asked or _PATTERNS["supposed"].search(line[max(begin, judged) : match.start()])):
                return True
            after = _END.search(line, match.start())
            judged = after.end() if after else len(line)
    return False
