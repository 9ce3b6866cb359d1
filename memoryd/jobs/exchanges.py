"""Split a session into exchanges: a user turn and everything that answers it, up to the final reply."""

from collections.abc import Sequence
from dataclasses import dataclass

from memoryd.jobs.evidence import is_said
from memoryd.transcripts.turn import Origin, StoredTurn, TurnKind

_SCHEDULED = "[SCHEDULED]"


@dataclass(frozen=True, slots=True)
class Exchange:
    """Hold one exchange. Side chains and the agent program's messages belong to the exchange around them."""

    asked: tuple[StoredTurn, ...]  # what the user typed; several messages if none was answered in between
    answered: tuple[StoredTurn, ...]  # the assistant's answers to it
    last_seq: int  # the number of its last turn, including tool calls and results
    complete: bool  # the assistant has the last word, and no tool call is open


def split_exchanges(turns: Sequence[StoredTurn]) -> list[Exchange]:
    """Return the exchanges of `turns`, in order; turns before the first user turn belong to none."""
    groups: list[list[StoredTurn]] = []
    for turn in turns:
        typed = _is_typed(turn)
        answered = bool(groups) and any(is_said(one) and one.origin is Origin.ASSISTANT for one in groups[-1])
        if typed and (not groups or answered):
            groups.append([])
        if groups:
            groups[-1].append(turn)
    return [_exchange(group) for group in groups]


def _is_typed(turn: StoredTurn) -> bool:
    # An answer in a dialog belongs to the request before it, because the tool waits for it.
    return is_said(turn) and turn.origin is Origin.USER and turn.tool_call_id is None


def is_scheduled(text: str) -> bool:
    """Return True if a scheduler sent this user turn, and not a person."""
    return text.lstrip().startswith(_SCHEDULED)


def set_aside_scheduled(turns: Sequence[StoredTurn], earlier: Sequence[StoredTurn] = ()) -> tuple[StoredTurn, ...]:
    """Return the turns, with scheduled turns and all answers to them marked as injected text, which is no evidence.

    Args:
        turns: the turns in order; their numbers and token counts stay the same.
        earlier: the turns of the session before them, in which such an exchange may begin.
    """
    scheduled, found = False, []
    for turn in (*earlier, *turns):
        scheduled = is_scheduled(turn.text) if _is_typed(turn) else scheduled
        found.append(turn._replace(origin=Origin.INJECTED) if scheduled else turn)
    return tuple(found[len(earlier) :])


def _exchange(group: Sequence[StoredTurn]) -> Exchange:
    said = [turn for turn in group if is_said(turn)]
    main = (turn for turn in group if not turn.sidechain and turn.origin is not Origin.INJECTED)
    spoken = [turn for turn in main if is_said(turn) or turn.kind in _TRAFFIC]
    asked, answered = (tuple(turn for turn in said if turn.origin is who) for who in (Origin.USER, Origin.ASSISTANT))
    is_complete = is_said(spoken[-1]) and spoken[-1].origin is Origin.ASSISTANT
    return Exchange(asked, answered, group[-1].seq, is_complete)


_TRAFFIC = frozenset({TurnKind.TOOL_CALL, TurnKind.TOOL_RESULT})
