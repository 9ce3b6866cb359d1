"""Define lanes and memory classes: who is the author of a sentence, and which memories this author may change.

The lane of a sentence comes from the fields of its record, never from the sentence itself (write-time origin binding:
arXiv 2606.24322). A claim has the lowest lane of the sentences that it cites.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from enum import IntEnum, StrEnum

from memoryd.ledger.memory import Memory
from memoryd.text.content import label_of
from memoryd.text.sentences import Sentence
from memoryd.text.voice import Voice, VoiceSpan, find_spans
from memoryd.transcripts.turn import Origin, TurnKind


class Lane(IntEnum):
    """Name the authors of sentences, from the lowest rank to the highest."""

    NONE = 0  # injected by a hook or by memoryd, so it is no evidence
    UNKNOWN = 1  # the author is unknown
    OUTSIDE = 2  # tools, pages, pasted or quoted text, other people and agents
    ASSISTANT = 3
    USER = 4  # typed by the user, chosen in a dialog, or written by the owner of a file


class MemoryClass(StrEnum):
    """Name the kinds of statements that a memory can hold."""

    RULE = "rule"  # an order, a preference or a promise
    PERSON = "person"  # about the user or another person
    PROJECT = "project"  # facts about the project: hosts, versions, state, and decisions about them
    LESSON = "lesson"


_ORIGINS = {Origin.USER: Lane.USER, Origin.ASSISTANT: Lane.ASSISTANT, Origin.INJECTED: Lane.NONE}
# Origins as the sources of a memory name them; `hand` and `saved` are lines of a daily file that its owner wrote.
_SOURCES = {
    "user": Lane.USER, "hand": Lane.USER, "saved": Lane.USER, "assistant": Lane.ASSISTANT, "agent": Lane.ASSISTANT,
}  # fmt: skip
_SOURCES |= {"unknown": Lane.UNKNOWN, "injected": Lane.NONE}
# Earlier versions stored `daily` for a line of a daily file by its owner or by the agent's tools.
_SOURCES |= {"daily": Lane.ASSISTANT}
# A label may lower the lane of a line, but never raise it.
_LABELS = {"assistant": Lane.ASSISTANT, "agent": Lane.ASSISTANT}
_LABELS |= dict.fromkeys(("report", "changed", "failed"), Lane.OUTSIDE)
FROM_ASSISTANT = "from-assistant"  # the tag of a memory whose evidence is the assistant's words
_OPEN = frozenset({MemoryClass.PROJECT, MemoryClass.LESSON})


def lane_of_turn(origin: Origin) -> Lane:
    """Return the lane of a turn with this origin."""
    return _ORIGINS.get(origin, Lane.OUTSIDE)


def lane_of_source(origin: str) -> Lane:
    """Return the lane of an origin as it is stored in sources of memories and in entries of daily files."""
    return _SOURCES.get(origin, Lane.OUTSIDE)


def lane_of_memory(memory: Memory) -> Lane:
    """Return the lane of a memory: the lowest lane of its sources, or `USER` if it has none.

    A tag or a label before the text may lower the lane.
    """
    lane = min((lane_of_source(source.origin) for source in memory.sources), default=Lane.USER)
    lane = min(lane, Lane.ASSISTANT) if FROM_ASSISTANT in memory.tags else lane
    return min(lane, read_label(memory.content))


def read_label(text: str) -> Lane:
    """Return the highest lane that the speaker label before `text` allows."""
    return _LABELS.get(label_of(text), Lane.USER)


def lanes_of_text(
    text: str, sentences: Sequence[Sentence], lane: Lane, kind: TurnKind = TurnKind.MESSAGE
) -> list[Lane]:
    """Return the lane of each sentence of a text from a record of `lane`.

    In the user's text, pasted or quoted sentences are `OUTSIDE`, and sentences that may be pasted are `UNKNOWN`. A
    choice in a dialog is completely the user's.
    """
    if lane is not Lane.USER or kind is TurnKind.CHOICE:
        return [lane] * len(sentences)
    spans = find_spans(text)  # they cover the text in order
    ends = [one.end for one in spans]
    return [
        _get_voice_lane(one, spans[bisect_right(ends, one.start) : bisect_left(ends, one.end) + 1]) for one in sentences
    ]


def _get_voice_lane(sentence: Sentence, spans: Iterable[VoiceSpan]) -> Lane:
    """Return the lane of a sentence according to its larger part, so that one quoted word does not change the lane."""
    shares = dict.fromkeys(Voice, 0)
    for one in spans:
        shares[one.voice] += max(0, min(one.end, sentence.end) - max(one.start, sentence.start))
    if 2 * shares[Voice.OWN] > sentence.end - sentence.start:
        return Lane.USER
    return Lane.OUTSIDE if shares[Voice.PASTED] >= shares[Voice.UNCLEAR] else Lane.UNKNOWN


def may_change(lane: Lane, kind: MemoryClass) -> bool:
    """Return True if a claim of this lane may create or change a memory of this class.

    Only the user's words may change rules and statements about persons. The assistant's words may also change facts
    about the project, and lessons.
    """
    return lane is Lane.USER or (lane is Lane.ASSISTANT and kind in _OPEN)
