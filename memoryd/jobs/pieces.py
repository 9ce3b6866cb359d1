"""Number the material of a question as pieces with sentences that a claim can cite.

A piece is a turn of a session (`t15`), an entry of a daily file (`d4`) or a memory (`m3`). `t15.2` is the second
sentence of `t15`. An entry that only paraphrases turns carries the original sentences with it. These are judged and
quoted instead of the entry.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from memoryd.ledger import steering
from memoryd.ledger.foreign import ONLY_A_PAGE
from memoryd.ledger.lane import Lane, lane_of_turn, lanes_of_text
from memoryd.text import normal, prose
from memoryd.text.content import measure_overlap, strip_label
from memoryd.text.sentences import Sentence, quote_around, split
from memoryd.text.sentences import SentenceKind as Part
from memoryd.transcripts.turn import StoredTurn, TurnKind

LONGEST_QUOTED = 300  # a typed turn of up to this many characters is copied whole
_CITE = re.compile(r"([tdm]\d{1,9})(?:\.(\d{1,4}))?")
_BARE_WORDS = 4  # an answer of up to this many words is quoted together with its question
_BRIEF_WORDS = 12  # a reply of up to this many words is understood only with the message that it answers
_OPTION = re.compile(r"^\W{0,3}(?:option |variante |opción )?([a-z]|\d{1,2})\W{0,3}$", re.IGNORECASE)
_MARKED = re.compile(r"^\W{0,3}([a-z]|\d{1,2})\W{0,2}[).:\]]\W{0,3}\s*(?=\S)", re.IGNORECASE)
_NUMBERED = re.compile(r"^ {0,2}(?:[-*] )?\**(\d{1,2})[.):][ \t*]+(?=\S)", re.MULTILINE)
_FEWEST_ANSWERS = 2
_LONGEST_HEAD = 200  # characters of a question beside its answer
_ASKS = frozenset("?\uff1f")
# A question about all choices of a list, such as "What's your preference?".
_PREFERENCE = re.compile(
    r"\b(?:prefer\w*|which|choose|choice|bevorzug\w*|welche\w*|préf\w+|prefier\w+)\b[^?\uff1f\n]{0,80}[?\uff1f]\W{0,9}\Z",
    re.IGNORECASE,
)
_HEAD = re.compile(r"\*\*|\n|(?<=[?\uff1f]) ")  # the end of a numbered question, or of its title
SPEAKERS = {Lane.USER: "user", Lane.ASSISTANT: "assistant"}


@dataclass(frozen=True, slots=True)
class CitableSentence:
    """Hold one sentence that can be cited.

    Attributes:
        id: the id by which a claim cites it, such as "t15.2".
        text: the sentence as written.
        lane: the lane of its author.
        speaker: `user`, `assistant`, `tool` or `memory`.
        at: when it was said, as the material shows it; empty if unknown.
        said_at: the same time in UTC, ISO 8601, to compare times; empty if undated.
    """

    id: str
    text: str
    lane: Lane
    speaker: str
    at: str = ""
    said_at: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """Hold one piece of the material.

    Attributes:
        id: the id by which a claim cites it, such as "t15".
        text: the whole text.
        lines: its sentences, in order.
        behind: for an entry that paraphrases turns, the pieces of these turns, each with the numbers of the original
            sentences.
        asked: the question of the assistant that the piece answers; empty without one.
        options: the choices that the assistant offered with that question, by letter or number.
        answers: the number of each sentence that answers a numbered question, with that question.
        seq: for a turn, its number in its session.
        is_choice: True if the user chose an answer in a dialog.
    """

    id: str
    text: str
    lines: tuple[CitableSentence, ...]
    behind: tuple[tuple["Piece", tuple[int, ...]], ...] = ()
    asked: str = ""
    options: tuple[tuple[str, str], ...] = ()
    answers: tuple[tuple[int, str], ...] = ()
    seq: int = 0
    is_choice: bool = False

    @property
    def evidence(self) -> tuple[CitableSentence, ...]:
        """Return the sentences that a second reader sees for the whole piece: the original ones, if there are any."""
        found = (piece.lines[number - 1] for piece, numbers in self.behind for number in numbers)
        return tuple(replace(line, id=f"{self.id}.{n}") for n, line in enumerate(found, 1)) or self.lines

    def find_question(self, numbers: Sequence[int]) -> str:
        """Return the question that sentences of the piece answer; empty without one."""
        return dict(self.answers).get(min(numbers, default=0), self.asked)

    @property
    def lane(self) -> Lane:
        """Return the lowest lane among the sentences of the piece and the original sentences."""
        return min((line.lane for line in (*self.lines, *self.evidence)), default=Lane.NONE)


@dataclass(frozen=True, slots=True)
class Citation:
    """Hold the sentences of one piece that a claim cites, by their numbers from 1."""

    piece: Piece
    numbers: tuple[int, ...]

    @property
    def lines(self) -> tuple[CitableSentence, ...]:
        """Return the cited sentences."""
        return tuple(self.piece.lines[number - 1] for number in self.numbers)

    @property
    def evidence(self) -> tuple[CitableSentence, ...]:
        """Return the sentences that a second reader sees for the citation."""
        return self.piece.evidence if self.piece.behind else self.lines

    @property
    def lane(self) -> Lane:
        """Return the lowest lane among the cited sentences and the original ones."""
        return min((line.lane for line in (*self.lines, *self.evidence)), default=Lane.NONE)

    @property
    def said_at(self) -> str:
        """Return when the newest cited sentence was said; for turns without a time, when the entry was written."""
        said = max((line.said_at for line in self.evidence), default="")
        return said or max((line.said_at for line in self.lines), default="")

    def quotation(self) -> str:
        """Return the user's words around the citation, copied whole, or as an answer together with its question.

        Sentences that are not the user's own are left out.
        """
        # Masked text of a daily file stays masked, because the original turn may hold a name that only a page gave.
        if self.piece.behind and ONLY_A_PAGE not in self.piece.text:
            quoted = (Citation(piece, numbers).quotation() for piece, numbers in self.piece.behind)
            return " … ".join(dict.fromkeys(quoted))
        if self.piece.is_choice:
            return " ".join(self.piece.text.split())
        if answer := self.answer():
            return answer

        questions = dict(self.piece.answers)
        answered = {questions.get(number) for number in self.numbers}

        def is_own(number: int) -> bool:
            return self.piece.lines[number - 1].lane is Lane.USER and questions.get(number) in answered

        return quote_around(self.piece.text, filter(is_own, self.numbers), LONGEST_QUOTED, is_own)

    def answer(self) -> str:
        """Return a bare answer together with its question; empty if the piece says more, or answers no question."""
        longest = LONGEST_QUOTED // 5
        is_bare = self.piece.asked and not self.piece.answers
        said = " ".join(self.piece.text.split(maxsplit=longest)) if is_bare else ""
        if not said or len(said) > longest or prose.count_words(said) > _BARE_WORDS:
            return ""
        chosen = _OPTION.match(said)
        offered = dict(self.piece.options).get(chosen[1].casefold(), "") if chosen else ""
        return f'asked "{self.piece.asked}", chose "{offered or said.rstrip(".!")}"'


class Pieces:
    """Hold the material of one question, by id."""

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self.by_id = {piece.id: piece for piece in pieces}

    def find_cited(self, cites: Sequence[str], text: str) -> tuple[list[Citation], list[str]]:
        """Return the citations of a claim, and the ids of cited pieces that share no word with it.

        If a piece is cited without a sentence, its sentences with most words of the claim count. A brief reply of the
        user right behind a cited piece counts as well, because "na, leave it" decides about words that it does not
        repeat. Unknown ids are skipped.

        Args:
            cites: the ids of pieces and sentences.
            text: the text of the claim.
        """
        numbers: dict[str, set[int]] = {}
        whole: list[str] = []
        for cite in cites:
            found = _CITE.fullmatch(cite.strip().casefold())
            piece = self.by_id.get(found[1]) if found else None
            if found is None or piece is None:
                continue
            if found[2] and 0 < int(found[2]) <= len(piece.lines):
                numbers.setdefault(piece.id, set()).add(int(found[2]))
            elif piece.id not in whole:
                whole.append(piece.id)
        strange = []
        for piece_id in whole:
            if piece_id not in numbers:
                best = _find_nearest(self.by_id[piece_id], text)
                if best:
                    numbers[piece_id] = best
                else:
                    strange.append(piece_id)
        for piece_id in [one for one in strange if self._is_brief_reply(one, numbers)]:
            numbers[piece_id] = set(range(1, len(self.by_id[piece_id].lines) + 1))
            strange.remove(piece_id)
        return [Citation(self.by_id[one], tuple(sorted(held))) for one, held in numbers.items()], strange

    def _is_brief_reply(self, piece_id: str, cited: Collection[str]) -> bool:
        """Return True if a piece is a few words of the user right behind a cited piece."""
        piece, order = self.by_id[piece_id], list(self.by_id)
        is_brief = prose.count_words(piece.text) <= _BRIEF_WORDS and piece.lane is Lane.USER
        return is_brief and order[max(0, order.index(piece_id) - 1)] in cited

    def list_around(self, piece: Piece) -> tuple[list[Piece], list[Piece]]:
        """Return the pieces before and the pieces after `piece`, in order; two empty lists if it is unknown."""
        order = list(self.by_id.values())
        at = list(self.by_id).index(piece.id) if piece.id in self.by_id else None
        return ([], []) if at is None else (order[:at], order[at + 1 :])


def _find_nearest(piece: Piece, text: str) -> set[int]:
    said = normal.normalize_quotation(strip_label(text))
    if same := {number for number, line in enumerate(piece.lines, 1) if normal.normalize_quotation(line.text) == said}:
        return same  # this also finds texts without content words
    if len(piece.lines) == 1 or piece.is_choice:
        shares = [max(measure_overlap(text, piece.text), measure_overlap(piece.text, text), _score_match(piece, text))]
        is_bare = bool(piece.asked) and prose.count_words(piece.text) <= _BARE_WORDS
        return set(range(1, len(piece.lines) + 1)) if shares[0] > 0 or is_bare else set()
    shares = [measure_overlap(text, line.text) for line in piece.lines]
    best = max(shares, default=0.0)
    if best == 0:
        return set(range(1, len(piece.lines) + 1)) if _score_match(piece, text) else set()
    return {number for number, share in enumerate(shares, 1) if share == best}


def _score_match(piece: Piece, text: str) -> float:
    return max((measure_overlap(text, line.text) for line in piece.evidence), default=0.0) if piece.behind else 0.0


def piece_of_turn(turn: StoredTurn, text: str, at: str, before: StoredTurn | None = None) -> Piece:
    """Return a turn as a piece.

    Args:
        turn: the turn.
        text: its text as it is shown to the model.
        at: its local time as it is shown; may be empty.
        before: the assistant's turn that it follows, if there is one.
    """
    name = f"t{turn.seq}"
    parts = split(text)
    lane = lane_of_turn(turn.origin)
    lanes = lanes_of_text(text, parts, lane, turn.kind)
    is_choice = turn.kind is TurnKind.CHOICE
    lines = tuple(
        CitableSentence(f"{name}.{number}", part.text, of_part, SPEAKERS.get(lane, "tool"), at, turn.at or "")
        for number, (part, of_part) in enumerate(zip(parts, lanes, strict=True), 1)
    )
    asking = before.text if before is not None and lane is Lane.USER else ""
    (asked, options), answers = _question(asking), tuple(pair_answers(asking, parts).items())
    return Piece(name, text, lines, (), asked, options, answers, turn.seq, is_choice)


def piece_of_text(name: str, text: str, lane: Lane, speaker: str, at: str = "", said_at: str = "") -> Piece:
    """Return a text as a piece; all its sentences have the same lane."""
    lines = tuple(
        CitableSentence(f"{name}.{number}", part.text, lane, speaker, at, said_at)
        for number, part in enumerate(split(text), 1)
    )
    return Piece(name, text, lines)


def pair_answers(asking: str, parts: Sequence[Sentence]) -> dict[int, str]:
    """Return the numbered question that each of the user's sentences answers, by the number of the sentence.

    A paragraph without a number answers none. The result is empty if fewer than two answers match questions of the
    message `asking`, or if a question is unclear or an order.
    """
    answers = _number_sentences(parts)
    numbers = {*answers.values()}
    heads = _read_questions(asking, numbers) if len(numbers) >= _FEWEST_ANSWERS else {}
    return {at: heads[number] for at, number in answers.items()} if heads else {}


def _number_sentences(parts: Sequence[Sentence]) -> dict[int, str]:
    """Return the number of the list item that each sentence belongs to, without questions and text below the list."""
    number, paragraph, found = "", -1, dict[int, str]()
    for at, part in enumerate(parts, 1):
        mark = _NUMBERED.match(part.text)
        if mark and part.lead is not None:  # the list of a sentence of the user's own
            return {}
        number = mark[1] if mark else number if part.paragraph == paragraph else ""
        paragraph = part.paragraph
        if number and not prose.QUESTION_END.search(part.text):
            found[at] = number
    return found


def _read_questions(asking: str, numbers: AbstractSet[str]) -> dict[str, str]:
    """Return the questions of a message with these numbers; empty if it does not ask all of them, or not clearly."""
    found = list(_NUMBERED.finditer(asking))
    ends = [*(one.start() for one in found), len(asking)][1:]
    blocks = {one[1]: asking[one.end() : end] for one, end in zip(found, ends, strict=True)}
    asks = {number for number, block in blocks.items() if not _ASKS.isdisjoint(block)}
    asks_all = numbers == blocks.keys() and _PREFERENCE.search(asking[-LONGEST_QUOTED:])
    if len(found) > len(blocks) or not (asks_all or numbers <= asks):
        return {}
    heads = {number: _HEAD.split(blocks[number], 1)[0].strip(" :") for number in numbers}
    # An order of the assistant, or of a page, does not become the user's by an answer.
    is_clear = all(len(head) <= _LONGEST_HEAD and not steering.is_instruction(head) for head in heads.values())
    return heads if is_clear else {}


def _question(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the last question of a text and the choices that the text offers, by letter or number."""
    parts = split(text)
    asked = next((part.text for part in reversed(parts) if prose.QUESTION_END.search(part.text)), "")
    if not asked:
        return "", ()
    lines = [line for part in parts if part.kind is not Part.CODE for line in part.text.splitlines()]
    raw = [line for line in text.splitlines() if _MARKED.match(line)]
    options: dict[str, str] = {}
    for line in (*raw, *lines):
        if found := _MARKED.match(line):
            options[found[1].casefold()] = " ".join(line[found.end() :].strip("*_ ").split())
    return " ".join(asked.strip("*_ ").split())[:LONGEST_QUOTED], tuple(options.items())


def is_of_user(cited: Sequence[Citation]) -> bool:
    """Return True if all cited words are the user's and no citation is a memory."""
    return all(one.lane is Lane.USER and not one.piece.id.startswith("m") for one in cited)


def is_verbatim(text: str, cited: Sequence[Citation], *, original: bool = False) -> bool:
    """Return True if a text repeats whole sentences that it cites.

    Case, white space, list marks, emphasis and the mark that ends a sentence do not matter. The first cited line may be
    a heading; the text then begins with it and a dash. With `original`, an entry that paraphrases turns does not count,
    but its original sentences do.
    """
    wanted = normal.normalize_quotation(strip_label(text))
    for one in cited:
        is_retold = original and bool(one.piece.behind)
        texts = [one.quotation()] if is_retold else [one.piece.text, one.quotation()]
        for lines in (one.evidence,) if is_retold else (one.lines, one.piece.lines, one.evidence):
            plain = [" ".join(prose.list_lines(line.text)) for line in lines]
            ended = [text if text[-1:] in prose.ENDS else f"{text}." for text in plain]
            texts += [*(line.text for line in lines), " ".join(line.text for line in lines), *plain, " ".join(ended)]
            texts += [prose.below_head(prose.read_head(lines[0].text), " ".join(ended[1:]))] if lines[1:] else []
        if wanted in map(normal.normalize_quotation, (*texts, *map(strip_label, texts))):
            return True
    return False
