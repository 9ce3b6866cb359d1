"""Choose the turns of a session that stay when its context must fit a budget; turns are never cut.

Four strategies follow the same rules. The order is kept. System messages always stay. A tool call and its results stay
or go together. The newest `keep_recent` messages are the first to stay. The result exceeds the budget only if the
system messages alone do. The running summary comes first, if there is one and it fits.

- `sliding-window`: the newest turns, as far back as they fit without a gap.
- `progressive-summary`: only the newest messages; the summary replaces all earlier ones.
- `importance-based`: besides the newest messages, those with the most weight for their length, wherever they are.
- `hybrid`: half of the room left by the newest messages by importance, the rest as a window.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from memoryd.jobs.job import CompressedMessage
from memoryd.transcripts.turn import SPOKEN, Origin, Role, StoredTurn, TurnKind

PROGRESSIVE = "progressive-summary"
STRATEGIES = ("sliding-window", PROGRESSIVE, "importance-based", "hybrid")

CountTokens = Callable[[Sequence[str]], list[int]]
_WEIGHTY = re.compile(
    r"\b(?:must|never|always|remember|decided?|because|error|failed|fixed|cause|prefer|deadline|important|todo)\b|`[^`]+`|\d",
    re.IGNORECASE,
)
_SUMMARY_SHARE = 0.5  # the summary may take this share of the room that the system messages leave


@dataclass(frozen=True, slots=True)
class _Group:
    """Hold the positions of turns that stay or go together, with their tokens and their weight."""

    members: tuple[int, ...]
    tokens: int
    weight: float


def compress(
    turns: Sequence[StoredTurn],
    budget_tokens: int,
    strategy: str,
    keep_recent: int,
    summary: str | None,
    count_tokens: CountTokens,
) -> tuple[CompressedMessage, ...]:
    """Return the messages that replace `turns` within `budget_tokens`.

    If the system messages alone exceed the budget, only they are returned, and all of them.

    Raises:
        ValueError: the strategy is not in `STRATEGIES`.
    """
    check_strategy(strategy)
    shown = [turn for turn in turns if turn.text and not turn.sidechain and turn.kind is not TurnKind.COMPACTION]
    tokens = count_tokens([turn.text for turn in shown])
    room = budget_tokens - system_tokens(shown, tokens)
    head, used = summary_head(summary, room, count_tokens)
    kept = choose_staying(shown, tokens, room - used, strategy, keep_recent)
    messages = (CompressedMessage(shown[i].role.value, shown[i].text, tokens[i], (shown[i].seq,)) for i in sorted(kept))
    return (*head, *messages)


def check_strategy(strategy: str) -> None:
    """Raise ValueError for a strategy that is not in `STRATEGIES`."""
    if strategy not in STRATEGIES:
        raise ValueError(f"unknown strategy {strategy!r}; one of {', '.join(STRATEGIES)}")


def system_tokens(turns: Sequence[StoredTurn], tokens: Sequence[int]) -> int:
    """Return the sum of the tokens of the system messages, which always stay."""
    return sum(size for turn, size in zip(turns, tokens, strict=True) if _is_system(turn))


def choose_staying(
    turns: Sequence[StoredTurn], tokens: Sequence[int], room: int, strategy: str, keep_recent: int
) -> set[int]:
    """Return the positions of the turns that stay: the system messages, and the others that fit `room` tokens."""
    kept = {i for i, turn in enumerate(turns) if _is_system(turn)}
    return kept | _choose_groups(_groups(turns, tokens), room, strategy, _choose_newest(turns, keep_recent))


def squeeze(lines: Sequence[str], limit: int, measure: CountTokens) -> list[str]:
    """Return as many lines as fit `limit` tokens: from the start up to a third of the limit, the rest from the end.

    The start of a session states its purpose, and its end the present state.
    """
    sizes = measure(lines) if lines else []
    if sum(sizes) <= limit:
        return list(lines)
    head = bisect_right([*accumulate(sizes)], limit / 3)
    tail = bisect_right([*accumulate(reversed(sizes[head:]))], limit - sum(sizes[:head]))
    return [*lines[:head], *lines[len(lines) - tail :]]


def _is_system(turn: StoredTurn) -> bool:
    return turn.role is Role.SYSTEM and turn.kind is not TurnKind.OVERSIZE


def summary_head(
    summary: str | None, room: int, count_tokens: CountTokens
) -> tuple[tuple[CompressedMessage, ...], int]:
    """Return the running summary as the first message and its tokens; no message and 0 if it does not fit."""
    lines = [line for line in (summary or "").splitlines() if line.strip()]
    limit = int(room * _SUMMARY_SHARE)
    while lines and limit > 0:
        kept = squeeze(lines, limit, count_tokens)
        if not kept:
            break
        text = "\n".join(kept)
        size = count_tokens([text])[0]
        if size <= room * _SUMMARY_SHARE:
            return (CompressedMessage(Role.SYSTEM.value, text, size, ()),), size
        lines, limit = kept, limit - max(1, size - int(room * _SUMMARY_SHARE))
    return (), 0


def _groups(shown: Sequence[StoredTurn], tokens: Sequence[int]) -> list[_Group]:
    members: dict[str, list[int]] = {}
    for i, turn in enumerate(shown):
        if not _is_system(turn):
            paired = turn.kind in {TurnKind.TOOL_CALL, TurnKind.TOOL_RESULT} and turn.tool_call_id
            members.setdefault(f"call {turn.tool_call_id}" if paired else f"turn {i}", []).append(i)
    return [
        _Group(tuple(group), size, sum(_weight(shown[i]) for i in group) / (size + 8) ** 0.5)
        for group in members.values()
        for size in [sum(tokens[i] for i in group)]
    ]


def _weight(turn: StoredTurn) -> float:
    base = {Origin.USER: 4.0, Origin.ASSISTANT: 2.0}.get(turn.origin, 0.5) if turn.kind in SPOKEN else 0.5
    return base + 0.25 * min(8, len(_WEIGHTY.findall(turn.text[:4000])))


def _choose_newest(shown: Sequence[StoredTurn], keep_recent: int) -> frozenset[int]:
    spoken = [i for i, turn in enumerate(shown) if not _is_system(turn)]
    return frozenset(spoken[-keep_recent:] if keep_recent > 0 else ())


def _choose_groups(groups: list[_Group], room: int, strategy: str, newest: frozenset[int]) -> set[int]:
    by_age = sorted(groups, key=lambda group: group.members[-1], reverse=True)
    recent = [group for group in by_age if newest.intersection(group.members)]
    older = [group for group in by_age if not newest.intersection(group.members)]
    kept, room = _fill(recent, room, gaps=True)
    if strategy in {"importance-based", "hybrid"}:
        share = room if strategy == "importance-based" else room // 2
        weighty = sorted(older, key=lambda group: (-group.weight, -group.members[-1]))
        taken, left = _fill(weighty, share, gaps=True)
        kept, room = kept | taken, room - (share - left)
    if strategy in {"sliding-window", "hybrid"}:
        rest = [group for group in older if not kept.intersection(group.members)]
        taken, room = _fill(rest, room, gaps=False)
        kept |= taken
    return kept


def _fill(groups: Sequence[_Group], room: int, *, gaps: bool) -> tuple[set[int], int]:
    taken: set[int] = set()
    for group in groups:
        if group.tokens <= room:
            taken.update(group.members)
            room -= group.tokens
        elif not gaps:
            break
    return taken, room
