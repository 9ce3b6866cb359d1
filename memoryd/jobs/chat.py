"""Compression of a chat API's list of messages: the strategies of `compress`, on whole messages."""

from __future__ import annotations

from typing import Any

from memoryd.jobs.compress import CountTokens, check_strategy, choose_staying, summary_head, system_tokens
from memoryd.transcripts import chat
from memoryd.transcripts.turn import Origin, Role, StoredTurn, TurnKind

# What frames a message, at most: cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken_for_chat_completions
MESSAGE_TOKENS = 4
PICTURE_TOKENS = 1105  # of the largest image, in the words of OpenAI's guide to vision; other media are taken for one


def compress(
    messages: object,
    budget_tokens: int,
    strategy: str,
    keep_recent: int,
    summary: str | None,
    count_tokens: CountTokens,
) -> list[dict[str, Any]]:
    """Return the messages that stand for a list within `budget_tokens`, in their order, as a chat API takes them.

    System messages stay; a call and its results stay or go together; results without their call go. The summary, where
    there is room for it, comes first, as a message of the system's.

    Raises:
        ValueError: the messages, the budget, which must fit the system's and one more, or the strategy is none.
    """
    if isinstance(budget_tokens, bool) or not isinstance(budget_tokens, int) or budget_tokens <= 0:
        raise ValueError("budget: expected a whole number of tokens above 0")
    check_strategy(strategy)
    given = chat.drop_orphans(chat.check(messages))
    tokens = [
        size + MESSAGE_TOKENS + PICTURE_TOKENS * chat.count_pictures(message)
        for message, size in zip(given.messages, count_tokens(list(map(chat.text_of, given.messages))), strict=True)
    ]
    turns = [_turn(given, place) for place in range(len(given.messages))]
    room = budget_tokens - system_tokens(turns, tokens)
    if room < 0:
        raise ValueError(f"budget: the system messages alone take {budget_tokens - room} tokens of {budget_tokens}")
    head, used = summary_head(summary, room - MESSAGE_TOKENS, count_tokens)
    room -= used + MESSAGE_TOKENS if head else 0
    kept = choose_staying(turns, tokens, room, strategy, keep_recent)
    spoken = [tokens[place] for place, turn in enumerate(turns) if turn.role is not Role.SYSTEM]
    if spoken and min(spoken) > room:
        raise ValueError(f"budget: of {budget_tokens} tokens {room} are left, in which no message has room")
    told = [{"role": message.role, "content": message.text} for message in head]
    return told + [message for place, message in enumerate(given.messages) if place in kept]


def _turn(given: chat.WholeMessages, place: int) -> StoredTurn:
    """Return a message as the turn that the strategies choose from."""
    message, group = given.messages[place], given.group[place]
    role = chat.role_of(message)
    is_call = group in given.calls
    kind = (TurnKind.TOOL_CALL if place == group else TurnKind.TOOL_RESULT) if is_call else TurnKind.MESSAGE
    call = str(group) if is_call else None
    return StoredTurn(
        seq=place + 1,
        record_id="",
        part=0,
        role=role,
        origin=Origin(role),
        kind=kind,
        text=chat.text_of(message),
        at=None,
        tokens=0,
        sidechain=False,
        tool_call_id=call,
        tool_name=None,
    )
