"""Compress a chat API's list of messages: the strategies of `compress`, applied to whole messages."""

from collections.abc import Callable, Sequence
from typing import Any

from memoryd.jobs.compress import PROGRESSIVE, CountTokens, check_strategy, choose_staying, summary_head, system_tokens
from memoryd.transcripts import chat
from memoryd.transcripts.turn import Origin, Role, StoredTurn, TurnKind

# The most tokens that the frame of one message takes:
# cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken_for_chat_completions
MESSAGE_TOKENS = 4
PICTURE_TOKENS = 1105  # for the largest image, by OpenAI's guide to vision; other media count the same


def compress(
    messages: object,
    budget_tokens: int,
    strategy: str,
    keep_recent: int,
    summary: str | None,
    count_tokens: CountTokens,
    summarize: Callable[[list[dict[str, Any]]], str] = lambda _: "",
) -> list[dict[str, Any]]:
    """Return the messages that replace a list within `budget_tokens`, in their order, in the form of a chat API.

    System messages and the newest other message always stay. A call and its results stay or go together. Results
    without their call are dropped. If there is room, the summary comes first, as a system message. If `summary` is
    None, the strategy `progressive-summary` calls `summarize` with the messages that it leaves out.

    Raises:
        ValueError: the messages or the strategy are invalid, or the budget does not fit the system messages and the
            newest one.
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
    room, newest = _find_room(given, turns, tokens, budget_tokens)
    keep_recent = max(1, keep_recent)
    if summary is None and strategy == PROGRESSIVE:
        kept = choose_staying(turns, tokens, room, strategy, keep_recent)
        left = [message for place, message in enumerate(given.messages) if place not in kept]
        summary = summarize(left) if left else None
    # The summary takes at most half of the room that the system messages leave, and none of the newest message's room.
    free = min(room - MESSAGE_TOKENS, 2 * (room - newest - MESSAGE_TOKENS))
    head, used = summary_head(summary, free, count_tokens)
    room -= used + MESSAGE_TOKENS if head else 0
    kept = choose_staying(turns, tokens, room, strategy, keep_recent)
    told = [{"role": message.role, "content": message.text} for message in head]
    return told + [message for place, message in enumerate(given.messages) if place in kept]


def _find_room(
    given: chat.WholeMessages, turns: Sequence[StoredTurn], tokens: Sequence[int], budget: int
) -> tuple[int, int]:
    """Return the tokens that the system messages leave, and the tokens of the newest other message with its calls."""
    room = budget - system_tokens(turns, tokens)
    if room < 0:
        raise ValueError(f"budget: the system messages alone take {budget - room} tokens of {budget}")
    spoken = [place for place, turn in enumerate(turns) if turn.role is not Role.SYSTEM]
    last = {given.group[place] for place in spoken[-1:]}
    newest = sum(size for size, group in zip(tokens, given.group, strict=True) if group in last)
    if newest > room:
        what = f"the newest message and what goes with it take {newest} tokens, {room} of {budget} are left"
        raise ValueError(f"budget: {what}: {newest - room} too few")
    return room, newest


def _turn(given: chat.WholeMessages, place: int) -> StoredTurn:
    """Return a message as a turn, from which the strategies choose."""
    message, group = given.messages[place], given.group[place]
    role = chat.role_of(message)
    is_call = group in given.calls
    kind = (TurnKind.TOOL_CALL if place == group else TurnKind.TOOL_RESULT) if is_call else TurnKind.MESSAGE
    call = str(group) if is_call else None
    return StoredTurn(place + 1, "", 0, role, Origin(role), kind, chat.text_of(message), tool_call_id=call)
