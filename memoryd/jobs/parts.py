"""Divide a question whose material is too long for a model, and join its replies."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import TypeVar

from memoryd.jobs.compress import CountTokens
from memoryd.jobs.job import Ask, QuotedPiece, RejectedReply, Reply
from memoryd.text.portions import group_items

T = TypeVar("T")
_WHY = {
    "length": "the reply was cut off at its length limit",
    "refusal": "the model refused to answer",
    "error": "the backend failed to answer",
}
TOO_LONG = "the reply is longer than any answer can be"

PIECE_OVERHEAD = 20  # tokens that one piece takes besides its text: its key, escapes, the numbers of its sentences
_SHORTEST = 200  # characters; a shorter piece is not cut
_FEWEST_WORDS = 20


def measure(ask: Ask, count_tokens: CountTokens) -> int:
    """Return the tokens that `ask` takes when it is sent."""
    texts = [ask.instructions, ask.text, *(text for _, text in ask.context), *(piece.text for piece in ask.material)]
    texts += [part for tool in ask.tools for part in (tool.description, tool.parameters)]
    texts += [part for one in ask.earlier for part in (one.text, *one.results)]
    texts += [call.arguments for one in ask.earlier for call in one.calls]
    return sum(count_tokens(texts)) + PIECE_OVERHEAD * len(texts)


def is_divisible(ask: Ask) -> bool:
    """Return True if a question may be asked in parts.

    A conversation, or a question whose text is sent verbatim, must be asked as a whole.
    """
    return bool(ask.material) and not ask.tools and not ask.text


def divide(ask: Ask, room: int, count_tokens: CountTokens) -> tuple[Ask, ...]:
    """Return `ask` as questions of at most `room` tokens each; all material is kept, in order.

    A piece that is too large alone is cut, and each part keeps its id. A question is larger than `room` only if the
    context that all questions share is larger, or if a piece cannot be cut any further. The limit of words for the
    reply is divided among the questions by the size of their material.
    """
    left = max(1, room - measure(replace(ask, material=()), count_tokens))
    pieces = [cut for piece in ask.material for cut in _cut(piece, left, count_tokens)]
    sizes = [size + PIECE_OVERHEAD for size in (count_tokens([piece.text for piece in pieces]) if pieces else [])]
    groups = group_items(range(len(sizes)), sizes, left)
    shares = [sum(sizes[i] for i in group) / sum(sizes) for group in groups]
    return tuple(
        replace(ask, material=tuple(pieces[i] for i in group), context=_share(ask.context, share))
        for group, share in zip(groups, shares, strict=True)
    )


def find_unusable(reply: Reply, most: float = inf) -> RejectedReply | None:
    """Return the reason why a reply cannot be parsed, such as a length above `most` characters; None if it can."""
    if reply.finish_reason != "stop":
        return RejectedReply(_WHY.get(reply.finish_reason, "the reply did not end as it should"))
    if not reply.text.strip():
        return RejectedReply("the reply is empty")
    return RejectedReply(TOO_LONG) if len(reply.text) > most else None


def merge_replies(
    replies: Sequence[Reply], parse: Callable[[Reply], T | RejectedReply], join: Callable[[list[T]], str]
) -> Reply | RejectedReply:
    """Return the reply to a question that was asked in parts.

    If one part is unusable, the whole is unusable, because the material of that part would be skipped.

    Args:
        replies: the replies to the parts, in order.
        parse: reads one reply.
        join: returns one text with the content of all parts.
    """
    parts: list[T] = []
    for reply in replies:
        part = parse(reply)
        if isinstance(part, RejectedReply):
            return part
        parts.append(part)
    if len(replies) == 1:
        return replies[0]
    tokens_in, tokens_out = sum(reply.tokens_in for reply in replies), sum(reply.tokens_out for reply in replies)
    return replace(replies[0], text=join(parts), tokens_in=tokens_in, tokens_out=tokens_out)


def _cut(piece: QuotedPiece, room: int, count_tokens: CountTokens) -> list[QuotedPiece]:
    if len(piece.text) < 2 * _SHORTEST or count_tokens([piece.text])[0] + PIECE_OVERHEAD <= room:
        return [piece]
    middle = _gap(piece.text)
    halves = (replace(piece, text=piece.text[:middle]), replace(piece, text=piece.text[middle:]))
    return [cut for half in halves for cut in _cut(half, room, count_tokens)]


def _gap(text: str) -> int:
    """Return a position near the middle of a text, after the end of a line or of a word if there is one."""
    middle, quarter = len(text) // 2, len(text) // 4
    for mark in ("\n", " "):
        place = text.rfind(mark, middle - quarter, middle + quarter)
        if place >= 0:
            return place + 1
    return middle


def _share(context: tuple[tuple[str, str], ...], share: float) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, str(max(_FEWEST_WORDS, int(int(text) * share))) if name == "words" and text.isdigit() else text)
        for name, text in context
    )
