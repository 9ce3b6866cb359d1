"""Build the documents of the index from turns, chunks of files and facts, with the columns that FTS5 weighs.

A turn is found by its own words, by those of two turns on each side, and by its day, because an answer often does not
repeat its question. The user's words and those of others are in separate columns, so that each has its own weight. The
output of tools has no neighbours, so its words and those of neighbours share a column.
"""

import hashlib
from collections.abc import Sequence
from datetime import date
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from memoryd.recall.chunks import Chunk
from memoryd.recall.words import make_indexable, names_in
from memoryd.transcripts.turn import SPOKEN, Origin, Role, TurnKind

# Weights for BM25, measured on conversations with known evidence; small changes hardly affect the ranking. For each
# word, FTS5 stores two bytes for its column, except for the first column, so the first one is the column with the most
# words.
WEIGHTS = {"aside": 0.4, "person": 1.0, "text": 1.0, "about": 1.0, "names": 0.5}
COLUMNS = tuple(WEIGHTS)
NEIGHBOURS = 2  # turns on each side
_NEAR = 250  # characters of each neighbour; an answer names its subject at its beginning
PIECE = 8000  # characters; a longer turn becomes several documents
_USER = str(Origin.USER)
_SPOKEN = frozenset(map(str, SPOKEN | {TurnKind.SUMMARY}))
_SPEAKERS = frozenset({str(Role.USER), str(Role.ASSISTANT)})
_SILENT = frozenset({str(Origin.TOOL), str(Origin.SYSTEM), str(Origin.INJECTED)})


class Speaker(IntEnum):
    """Name the author of a document as a number for the index. The weight of a hit depends on it."""

    DISTILLED = 0  # memories, facts and files, written from a conversation
    PERSON = 1
    AGENT = 2
    CALL = 3  # the call of a tool
    OUTPUT = 4
    SYSTEM = 5


_OF_ORIGIN = {_USER: Speaker.PERSON, str(Origin.TOOL): Speaker.OUTPUT, str(Origin.SYSTEM): Speaker.SYSTEM}


class IndexDocument(NamedTuple):
    """Hold one document of the index. It is a NamedTuple for speed, because each turn needs one."""

    first_line: int  # the first line in the file; for a turn, its number in the session
    last_line: int
    digest: bytes  # the digest of its source text, to notice a change
    columns: tuple[str, ...]  # texts in the order of `COLUMNS`
    day: str | None = None  # YYYY-MM-DD; None if it is unknown
    piece: int = 0  # the number of the part of a long turn, from 0
    voice: Speaker = Speaker.DISTILLED
    is_said: bool = True  # it is speech or writing, so that it needs a vector; output of tools is found by words only


class IndexTurn(NamedTuple):
    """Hold a turn with the values that the index needs."""

    seq: int
    role: str
    origin: str
    kind: str
    text: str
    day: date | None
    sidechain: bool = False

    @property
    def voice(self) -> Speaker:
        """Return the author of the turn."""
        return Speaker.CALL if self.kind == TurnKind.TOOL_CALL else _OF_ORIGIN.get(self.origin, Speaker.AGENT)

    @property
    def is_evidence(self) -> bool:
        """Return True if a search may find the turn.

        Text that memoryd injected is left out, because it would be found twice.
        """
        return bool(self.text) and self.origin != Origin.INJECTED

    @property
    def is_conversation(self) -> bool:
        """Return True if the turn gives context to its neighbours."""
        return self.kind in _SPOKEN and self.role in _SPEAKERS and self.origin not in _SILENT and bool(self.text)


def digest_of(text: str) -> bytes:
    """Return the first 16 bytes of a text's sha256."""
    return hashlib.sha256(text.encode(errors="replace")).digest()[:16]


def of_turns(turns: Sequence[IndexTurn]) -> list[IndexDocument]:
    """Return the documents of a session's turns, in order."""
    talk = [turn for turn in turns if turn.is_conversation]
    near = [(turn.sidechain, make_indexable(turn.text[:_NEAR])) for turn in talk]
    place = {turn.seq: at for at, turn in enumerate(talk)}
    found: list[IndexDocument] = []
    for turn in turns:
        if not turn.is_evidence:
            continue
        at = place.get(turn.seq)
        if at is None:
            found += _of_turn(turn, "aside", "")
        else:
            window = near[max(0, at - NEIGHBOURS) : at] + near[at + 1 : at + NEIGHBOURS + 1]
            found += _of_turn(turn, "text", "\n".join([text for side, text in window if side == turn.sidechain]))
    return found


def _of_turn(turn: IndexTurn, column: str, near: str) -> list[IndexDocument]:
    seq, text = turn.seq, turn.text
    digest = digest_of(text)
    about = "" if turn.day is None else day_words(turn.day)
    day = None if turn.day is None else turn.day.isoformat()
    if turn.origin == _USER:
        column = "person"
    pieces = (text[start : start + PIECE] for start in range(0, len(text), PIECE))
    return [
        IndexDocument(
            seq, seq, digest, _columns(own, column, near=near, about=about), day, piece, turn.voice, column != "aside"
        )
        for piece, own in enumerate(pieces)
    ]


def _columns(own: str, column: str, *, near: str = "", about: str = "") -> tuple[str, ...]:
    given = {"aside": near, column: make_indexable(own), "about": about, "names": names_in(own)}
    return tuple(given.get(name, "") for name in COLUMNS)


def of_chunk(chunk: Chunk, shown: str, about: str, day: str | None) -> IndexDocument:
    """Return the document of a chunk. `shown` is its text without secrets; `about` has words of the file's name."""
    words = make_indexable("\n".join((*chunk.heading, about)))
    return IndexDocument(
        chunk.first_line, chunk.last_line, digest_of(chunk.text), _columns(shown, "text", about=words), day
    )


def of_fact(content: str, about: str, day: str | None) -> IndexDocument:
    """Return the document of a fact. `about` has further words by which it is found."""
    return IndexDocument(1, 1, digest_of(content), _columns(content, "text", about=make_indexable(about)), day)


@lru_cache(maxsize=1024)
def day_words(day: date) -> str:
    """Return a day in the forms in which people write it."""
    return f"{day.day} {day:%B} {day.year} {day:%A} {day.isoformat()}"
