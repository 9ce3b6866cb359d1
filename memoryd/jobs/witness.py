"""Find the source of a text in a session: of a text that a tool saves, or of a line of a daily file.

The source of a text is the sentences that it repeats, or the turn that has most of its words.

A text from an agent's own tool counts as the assistant's, unless it repeats whole sentences that the user typed in that
session. Then it counts as the user's. A label before the text changes nothing. The assistant's words may state a fact
of the project or a lesson. A rule or a statement about a person becomes a note of the day, and so does a text with a
token that only outside text has. A text that repeats a page or a tool's result is stored as a report of it.

For a line of a daily file, the run report of the sleep that wrote the line records the cited sentences. Earlier
versions recorded nothing.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import cached_property

from memoryd.jobs.claims import FOREIGN, NOT_USER, OUTSIDE_WORD, Cues
from memoryd.jobs.evidence import gather, is_said
from memoryd.jobs.pieces import LONGEST_QUOTED, Piece, Pieces, piece_of_turn
from memoryd.ledger import steering
from memoryd.ledger.foreign import Foreign
from memoryd.ledger.lane import Lane, may_change
from memoryd.text import normal
from memoryd.text.content import label_of, measure_overlap, strip_label
from memoryd.text.sentences import list_texts, quote_around, split
from memoryd.transcripts.turn import StoredTurn

_REPORT = "Report: "  # the label of text that comes only from a tool or a page
_LEAST = 0.5  # a turn with this share of a text's words counts as its source

Behind = tuple[tuple["Piece", tuple[int, ...]], ...]


def _nearest(text: str, pieces: Iterable[Piece]) -> Piece | None:
    """Return the piece with most of a text's words, the first of equals; None if none has at least half of them."""
    shares = ((measure_overlap(text, piece.text), piece) for piece in pieces)
    share, piece = max(shares, key=lambda one: one[0], default=(0.0, None))
    return piece if share >= _LEAST else None


@dataclass(frozen=True, slots=True)
class WeighedText:
    """Hold the acceptable form of a text, and where it may go.

    Attributes:
        text: the text to write.
        core: True if it may go into `MEMORY.md`; otherwise it may go only into the daily file.
        is_own: True if the user typed it.
        session: the id of the session that holds it; None without one.
        seqs: the numbers of the turns there that support it.
        why: the reason why it is not stored as the tool passed it, without its words; empty if it is.
        changed: the number of its lines that are not stored as passed.
    """

    text: str
    core: bool = False
    is_own: bool = False
    session: str | None = None
    seqs: tuple[int, ...] = ()
    why: str = ""
    changed: int = 0


_Place = tuple[str, tuple[int, ...]]  # a session, and turns of it


@dataclass
class CandidateSession:
    """Hold a session in which the tool may have been called."""

    id: str
    turns: Sequence[StoredTurn]

    @cached_property
    def foreign(self) -> Foreign:
        """Return the tokens that occur only in outside text of the session."""
        return Foreign(self.turns)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """Return the messages of the user and the assistant, the latest first."""
        return tuple(piece_of_turn(turn, turn.text, "") for turn in reversed(self.turns) if is_said(turn))


class Witness:
    """Decide for texts of an agent's tool in which form and where they may be stored."""

    def __init__(self, heard: Sequence[CandidateSession], cues: Cues) -> None:
        """Prepare with the sessions in which the tool may have been called, the most probable one first."""
        self._heard = heard
        self._cues = cues
        self.sessions = tuple(one.id for one in heard)

    def memory(self, text: str, heading: str = "") -> WeighedText:
        """Return the acceptable form of a text that is meant for `MEMORY.md`, below `heading`."""
        own = self._own(text, whole=steering.is_instruction(text) or steering.is_preference(text))
        if own is not None:
            return WeighedText(text, True, True, *own)  # noqa: FBT003 - see the class
        shown = self._remove_foreign(text)
        if shown != text:
            return WeighedText(_strip_labels(shown), why=FOREIGN, changed=1)
        if self._echoes(text):
            return WeighedText(f"{_REPORT}{_strip_labels(text)}", why=OUTSIDE_WORD, changed=1)
        if not may_change(Lane.ASSISTANT, self._cues.kind(text, heading)):
            return WeighedText(_strip_labels(text), why=NOT_USER, changed=1)
        piece = _nearest(text, (piece for heard in self._heard for piece in heard.pieces))
        if piece is None:
            return WeighedText(text, core=True)
        session = next(heard.id for heard in self._heard if piece in heard.pieces)
        return WeighedText(text, core=True, session=session, seqs=(piece.seq,))

    def note(self, text: str) -> WeighedText:
        """Return the acceptable form of a note for the daily file; each line is decided on its own."""
        lines: list[str] = []
        why: dict[str, int] = {}
        for line in text.splitlines():
            mark = "- " if line.startswith("- ") else ""
            said = line.removeprefix(mark)
            kept, reason = said, ""
            if self._own(strip_label(said)) is None:
                shown = self._remove_foreign(said)
                if self._echoes(said):
                    kept, reason = f"{_REPORT}{_strip_labels(shown)}", OUTSIDE_WORD
                elif label_of(said) == "user":
                    kept, reason = _strip_labels(shown), NOT_USER
                else:
                    kept = shown
                reason = FOREIGN if shown != said else reason
            if reason:
                why[reason] = why.get(reason, 0) + 1
            lines.append(f"{mark}{kept}")
        return WeighedText("\n".join(lines), why="; ".join(why), changed=sum(why.values()))

    def _own(self, text: str, *, whole: bool = False) -> _Place | None:
        """Return the turn in which the user typed a text; None if there is none.

        The turn must have the whole sentences of the text in this order, with the sentence that introduces a list. With
        `whole`, as for an order, the text must also have the sentences around them, because these may retract the
        order.
        """
        wanted = [normal.normalize_quotation(one) for one in list_texts(text)]
        for heard in self._heard:
            for piece in heard.pieces if any(wanted) else ():
                if _types(piece, normal.normalize_quotation(text), wanted, whole=whole):
                    return heard.id, (piece.seq,)
        return None

    def _echoes(self, text: str) -> bool:
        """Return True if a text repeats a page or a tool's result of any of the sessions."""
        return any(heard.foreign.echoes(strip_label(text)) for heard in self._heard)

    def _remove_foreign(self, text: str) -> str:
        """Return a text without the foreign tokens of all sessions, because it may come from any of them."""
        for heard in self._heard:
            text = heard.foreign.remove_tokens(text)
        return text


def _types(piece: Piece, text: str, wanted: Sequence[str], *, whole: bool) -> bool:
    own = [line.lane is Lane.USER for line in piece.lines]
    if all(own) and text in _quotations(piece):
        return True
    if whole:
        return False
    parts = split(piece.text)
    held = [normal.normalize_quotation(part.text) for part in parts]
    for start in range(len(held) - len(wanted) + 1):
        run = range(start, start + len(wanted))
        leads = {parts[at].lead for at in run} - {None, *run}  # "Never:" above "- push to main"
        if held[start : start + len(wanted)] == wanted and not leads and all(own[at] for at in run):
            return True
    return False


def _quotations(piece: Piece) -> Iterator[str]:
    for number in range(1, len(piece.lines) + 1):
        yield normal.normalize_quotation(quote_around(piece.text, (number,), LONGEST_QUOTED))


def _strip_labels(text: str) -> str:
    """Return a text without the labels before it."""
    while (bare := strip_label(text)) != text:
        text = bare
    return text


# ── lines of a daily file ─────────────────────────────────────────────────────────────────────────────────────────────


def digest_of(line: str) -> str:
    """Return the hash by which the run report of a sleep names a line of a daily file."""
    return hashlib.sha256(" ".join(line.split()).removeprefix("- ").encode()).hexdigest()[:16]


class SupportingSentences:
    """Hold the sentences that may support the lines that one run wrote into daily files."""

    def __init__(
        self,
        turns: Sequence[StoredTurn],
        folder: str | None,
        tz: tzinfo,
        cites: Mapping[str, Sequence[str]],
        earlier: Sequence[StoredTurn] = (),
    ) -> None:
        """Prepare with the turns of the session.

        Args:
            turns: the turns that the blocks were written from.
            folder: the session's working folder.
            tz: the local time zone.
            cites: the citations of each line, by its digest, from the run report.
            earlier: the turns of the session before those.
        """
        self._pieces = Pieces(gather(turns, folder, tz, earlier).pieces)
        self._cites = cites

    def find_support(self, line: str) -> Behind:
        """Return the sentences that support a line, each with its turn; none if nothing is similar to it."""
        recorded = self._cites.get(digest_of(line), ())
        if recorded:
            found, _ = self._pieces.find_cited(recorded, line)
            return tuple((one.piece, one.numbers) for one in found)
        said = strip_label(line)
        if repeated := self._find_repeated(said):
            return repeated
        piece = _nearest(said, self._pieces.by_id.values())
        found, _ = self._pieces.find_cited((piece.id,), said) if piece is not None else ([], ())
        return tuple((one.piece, one.numbers) for one in found)

    def seqs(self, line: str) -> tuple[int, ...]:
        """Return the numbers of the turns that support a line, in order."""
        return tuple(sorted(piece.seq for piece, _ in self.find_support(line)))

    def _find_repeated(self, said: str) -> Behind:
        wanted = {normal.normalize_quotation(one) for one in list_texts(said)}
        found: list[tuple[Piece, tuple[int, ...]]] = []
        left = set(wanted)
        for piece in self._pieces.by_id.values():
            numbers = [n for n, line in enumerate(piece.lines, 1) if normal.normalize_quotation(line.text) in left]
            if numbers:
                left -= {normal.normalize_quotation(piece.lines[n - 1].text) for n in numbers}
                found.append((piece, tuple(numbers)))
        return tuple(found) if wanted and not left else ()
