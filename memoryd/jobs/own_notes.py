"""Own notes: what an agent wrote down for itself, as its own word: compaction summaries and memory files.

A note is evidence only of what is missing: what the turns of its session say already, or an outside text said first, is
left out of it. A compaction summary is read where the transcript does not hold what it is of, such as in a session that
goes on from another; a memory file wherever the agent decided something without saying so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from memoryd.jobs.memory_files import find_written
from memoryd.ledger.foreign import Foreign
from memoryd.text import prose
from memoryd.text.content import list_stems
from memoryd.text.fences import without_fences
from memoryd.text.sentences import SentenceKind, split
from memoryd.transcripts.turn import SPOKEN, Origin, StoredTurn, TurnKind

# What the program puts around a summary in the agent's name.
_FRAME = re.compile(
    r"^(?:This session is being continued from|The (?:conversation is summarized|summary) below|Another language model"
    r"|Please continue the (?:conversation|session|task)|Continue (?:the conversation )?(?:from|with the last)"
    r"|If you need specific details from before|Read the full transcript|Recent messages are preserved|Resume directly"
    r"|Let me (?:\w+ )?(?:analy[sz]e|summari[sz]e|review|go through)|</?(?:analysis|summary)>)",
    re.IGNORECASE,
)
_SPEAKERS = frozenset({Origin.USER, Origin.ASSISTANT})
_HEARD = _SPEAKERS | {Origin.INJECTED}  # a summary repeats what was injected
_ITEM = r"(?:[-*•]|\d{1,3}[.)])\s+"
_MARK = re.compile(rf"^{_ITEM}")
# A title above a sentence, and the mark of the next item behind it.
_TITLE = re.compile(rf"^(?:{_ITEM})?[^\n]{{1,60}}:[ \t]*\n\s*|\n\s*(?:\w|\d{{1,2}})[.)]$")
_QUOTED = re.compile(rf"^(?:{_ITEM})?[\"“„«‘']")  # noqa: RUF001
_NAMES = re.compile(r"`[^`]*`|\*\*[^*]*\*\*")
_LEFT_OUT = frozenset({SentenceKind.CODE, SentenceKind.HEADING, SentenceKind.QUOTE})
_SAID = 0.75  # share of a sentence's words that one turn has which says it already
_FEWEST_OWN = 3  # words beside names in code or bold
_FEWEST = 4  # words of a sentence below which it says nothing that could be missing


def find_notes(turns: Sequence[StoredTurn], earlier: Sequence[StoredTurn] = ()) -> dict[int, str]:
    """Return what notes add to what is said otherwise, by the number of the turn, a sentence to a paragraph.

    Args:
        turns: those whose notes are read.
        earlier: the turns of the session before them.
    """
    session = _SessionTalk((*earlier, *turns))
    found = find_written(turns)
    found |= {turn.seq: turn.text for turn in turns if _is_summary(turn) and not session.covers(turn)}
    known: list[frozenset[str]] = []
    told: dict[int, str] = {}
    for seq in sorted(found, reverse=True):  # of two notes that say the same, the later one is of the newer state
        kept = []
        for text in _list_sentences(found[seq]):
            stems = list_stems(text)
            if len(stems) < _FEWEST or any(_is_within(stems, one) for one in known) or session.says(text, stems):
                continue
            known.append(stems)
            kept.append(text)
        if kept:
            told[seq] = "\n\n".join(kept)
    return told


class _SessionTalk:
    """What is said in a session beside its notes."""

    def __init__(self, turns: Sequence[StoredTurn]) -> None:
        self._turns = turns

    def covers(self, summary: StoredTurn) -> bool:
        """Return True if the transcript holds what a summary is of: more is said before it than in it."""
        words = 0
        for turn in self._turns:
            if turn.seq >= summary.seq:
                break
            if _is_summary(turn):
                words = 0
            elif turn.kind in SPOKEN and turn.origin in _SPEAKERS and not turn.sidechain:
                words += prose.count_words(turn.text)
        return words >= prose.count_words(without_fences(summary.text))

    def says(self, text: str, stems: frozenset[str]) -> bool:
        """Return True if a turn says a text nearly, or an outside text says it first, or names alone what it names."""
        return any(_is_within(stems, said) for said in self._messages) or bool(self._foreign.find_outside(text))

    @cached_property
    def _messages(self) -> list[frozenset[str]]:
        """Return the words of each message."""
        said = (turn for turn in self._turns if turn.kind in SPOKEN and turn.origin in _HEARD and not turn.sidechain)
        return [stems for turn in said if (stems := list_stems(turn.text))]

    @cached_property
    def _foreign(self) -> Foreign:
        return Foreign([turn for turn in self._turns if turn.kind is not TurnKind.SUMMARY])


def _is_summary(turn: StoredTurn) -> bool:
    return turn.kind is TurnKind.SUMMARY and turn.origin is Origin.ASSISTANT and not turn.sidechain


def _list_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a note that the agent words itself: no code, no quotation, no frame of the program."""
    for one in split(text):
        bare = _TITLE.sub("", one.text.strip())
        words = _NAMES.sub(" ", bare).split()
        is_own = one.kind not in _LEFT_OUT and not _QUOTED.match(bare) and not _FRAME.match(_MARK.sub("", bare))
        tells = prose.is_wide(bare) or sum(any(map(str.isalpha, word)) for word in words) >= _FEWEST_OWN
        if is_own and tells:
            yield bare


def _is_within(stems: frozenset[str], said: frozenset[str]) -> bool:
    return len(stems & said) >= _SAID * len(stems)
