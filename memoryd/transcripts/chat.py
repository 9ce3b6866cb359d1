"""Check a list of messages of a chat API: its form, messages that belong together, and messages that are new.

The forms are those of OpenAI's Chat Completions and of Anthropic's Messages, as `messages` reads them from files.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from memoryd.transcripts.blocks import has_words, is_output, output_text
from memoryd.transcripts.fields import first_word, read_word
from memoryd.transcripts.messages import CALLS, COUNTS, SPEAKERS, time_of
from memoryd.transcripts.turn import Role

Message = Mapping[str, Any]

_DATA_HEAD = 80  # characters of a `data:` URL that include its type
FORGOTTEN = "forgotten"  # the key of the digest that a stored message had before part of it was forgotten
_STAMPS = ("uuid", "timestamp")  # keys that are added when a message is stored
_KEYS = ("tool_call_id", "tool_use_id", "call_id", "id", "name", "tool_name")
_NAMES = frozenset({*_KEYS, "role", "type", "model", *_STAMPS, FORGOTTEN})


class WholeMessages(NamedTuple):
    """Hold a list in the form that a chat API accepts, with the messages that belong together."""

    messages: list[dict[str, Any]]
    group: list[int]  # for each message, the position of the first message of its group
    calls: frozenset[int]  # positions of the messages that make tool calls


def check(messages: object) -> list[dict[str, Any]]:
    """Return copies of the messages as plain JSON values.

    Raises:
        ValueError: This is not a list of messages. The error names the wrong message and the reason, never its text.
    """
    if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence):
        raise ValueError("messages: expected a list of {role, content} mappings")  # noqa: TRY004 - one error for all
    return [_check_message(f"messages[{place}]", message) for place, message in enumerate(messages)]


def role_of(message: Message) -> Role:
    """Return the speaker of a message as the role of its turns."""
    return SPEAKERS[message["role"].lower()][0]


def text_of(message: Message) -> str:
    """Return all text of a message that a model gets, for counting: texts, names, and arguments of calls."""
    return "\n".join(_texts(message))


def count_pictures(message: Message) -> int:
    """Count the parts that are not text: images, sounds and files."""
    return sum(isinstance(part, dict) and not _is_worded(part) for part in _parts(message))


def drop_orphans(messages: Sequence[dict[str, Any]]) -> WholeMessages:
    """Remove results without their call, and calls without their results. Calls at the end of the list may stay open.

    A result answers the last open call with its id, because some servers restart their ids with each message. Without
    ids, it answers the last open call with its name. Without names, it answers the last open call.
    """
    kept = list(messages)
    owner: list[int | None] = list(range(len(kept)))
    waiting: list[tuple[str, int]] = []
    left: list[tuple[str, int]] = []
    begins: set[int] = set()
    for place, message in enumerate(kept):
        owners: list[int] = []
        orphans: list[str] = []
        answered = _list_answers(message)
        if not answered:  # another speaker: open calls stay unanswered
            left += waiting
            waiting = []
        for key in answered:
            found = next((one for one in reversed(waiting) if not key or one[0] == key), None)
            if found is None:
                orphans.append(key)
            else:
                waiting.remove(found)
                owners += [one for one in [owner[found[1]]] if one is not None]
        if orphans:
            rest = _remove_orphans(message, orphans)
            kept[place] = message if rest is None else rest
            owner[place] = None if rest is None else place
        if owners and owner[place] is not None:
            first = min(owners)
            owner = [first if one in owners else one for one in owner]
            owner[place] = first
        made = _list_calls(message)
        waiting += [(key, place) for key in made]
        begins |= {place} if made else set()
    last = next((place for place in reversed(range(len(kept))) if owner[place] is not None), -1)
    unanswered = {owner[place] for _, place in waiting} - {owner[last] if last >= 0 else None}
    unanswered |= {owner[place] for _, place in left}
    places = [place for place, one in enumerate(owner) if one is not None and one not in unanswered]
    number = {place: index for index, place in enumerate(places)}
    group = [number[one] for place in places if (one := owner[place]) is not None]
    begun = frozenset(number[place] for place in begins if place in number)
    return WholeMessages([kept[place] for place in places], group, begun)


def select_recorded(message: Message) -> dict[str, Any]:
    """Return the part of a message that is stored: everything that `messages` reads, with each text as one string.

    Arguments become one text, because the names of their values may be content too. Of an image, only the type is kept.
    """
    kept: dict[str, Any] = {"role": message["role"].lower()}
    content = message.get("content")
    kept["content"] = list(map(_recorded_part, content)) if isinstance(content, list) else content
    calls = [*(message.get("tool_calls") or ()), *filter(None, [message.get("function_call")])]
    if calls:
        kept["tool_calls"] = [_recorded_call(call) for call in calls if isinstance(call, Mapping)]
    kept |= {name: found for name in (*_KEYS, "model") if (found := read_word(message.get(name)))}
    usage = message.get("usage")
    if isinstance(usage, Mapping):
        kept["usage"] = {name: usage[name] for name in COUNTS if type(usage.get(name)) is int}
    at = time_of(dict(message))
    return kept | ({"timestamp": at} if at else {})


def with_texts(value: Any, change: Callable[[str, bool], str], key: str = "") -> Any:
    """Return a stored message with its strings changed. `change` also gets whether a string is an id or a name."""
    if isinstance(value, str):
        return change(value, key in _NAMES)
    if isinstance(value, Mapping):
        return {name: with_texts(part, change, name) for name, part in value.items()}
    return [with_texts(part, change) for part in value] if isinstance(value, list) else value


def compute_digest(message: Message) -> str:
    """Return the digest that recognises a message when it comes again."""
    if FORGOTTEN in message:
        return str(message[FORGOTTEN])
    plain = {key: value for key, value in message.items() if key not in _STAMPS}
    return sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def known_until(recorded: Sequence[str], given: Sequence[str]) -> int | None:
    """Return how many of the first given messages are stored already, or None if this is another conversation.

    It is the same conversation if it continues after the last stored message, even if a compression removed messages in
    between. It is also the same if all given messages are the beginning of the stored ones.

    Args:
        recorded: The digests of a session's messages. System messages are left out, because programs change them.
        given: The digests of the given messages.
    """
    count = 0
    for one in recorded:
        if count < len(given) and one == given[count]:
            count += 1
    if count and given[count - 1] == recorded[-1]:
        return count
    return len(given) if given and list(given) == list(recorded[: len(given)]) else None


def _check_message(where: str, message: object) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise ValueError(f"{where}: expected a mapping with role and content; of an object take .model_dump()")  # noqa: TRY004
    role = message.get("role")
    if not isinstance(role, str) or role.lower() not in SPEAKERS:
        raise ValueError(f"{where}: its role is none of {', '.join(SPEAKERS)}")
    content = message.get("content")
    if not (content is None or isinstance(content, str | list)):
        raise ValueError(f"{where}: its content is neither a string nor a list of parts")
    if isinstance(content, list) and not all(isinstance(part, str | Mapping) for part in content):
        raise ValueError(f"{where}: a part of its content is neither a string nor a mapping")
    calls = message.get("tool_calls")
    if not (calls is None or (isinstance(calls, list) and all(isinstance(call, Mapping) for call in calls))):
        raise ValueError(f"{where}: its tool_calls are not a list of mappings")
    if content is None and not calls and not message.get("function_call"):
        raise ValueError(f"{where}: it has neither content nor calls")
    try:
        plain = json.loads(json.dumps(dict(message)))
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"{where}: contains a value that is not JSON") from None
    return dict(plain)


def _recorded_part(part: Any) -> dict[str, Any]:
    kind = _kind(part)
    if not isinstance(part, Mapping):
        return {"type": "text", "text": str(part)}
    kept: dict[str, Any] = {"type": kind} | {name: found for name in _KEYS if (found := read_word(part.get(name)))}
    if kind in CALLS:
        return kept | {"input": _argument_text(part.get("input", part.get("arguments")))}
    if is_output(kind):
        return kept | {"content": output_text(dict(part))}
    text = next((text for name in ("text", "content") if isinstance(text := part.get(name), str)), None)
    return kept if text is None else kept | {"text": text}


def _recorded_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    named = function if isinstance(function, Mapping) else call
    told = {"name": read_word(named.get("name")) or "", "arguments": _argument_text(named.get("arguments"))}
    key = first_word(call, "id", "call_id")
    return ({"id": key} if key else {}) | {"type": "function", "function": told}


def _argument_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _parts(message: Message) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _kind(part: object) -> str:
    return str(part.get("type") or "other") if isinstance(part, dict) else ""


def _is_worded(part: dict[str, Any]) -> bool:
    kind = _kind(part)
    return kind in CALLS or is_output(kind) or has_words(part) or "thinking" in kind or kind == "refusal"


def _texts(value: Any, key: str = "") -> list[str]:
    if isinstance(value, str):
        return [] if key in _NAMES and key != "name" else [value[:_DATA_HEAD] if value.startswith("data:") else value]
    if isinstance(value, Mapping):
        return [text for name, part in value.items() for text in _texts(part, name)]
    if isinstance(value, list):
        return [text for part in value for text in _texts(part)]
    return [] if value is None else [str(value)]


def _list_calls(message: Message) -> list[str]:
    """Return the keys of the calls that a message makes: the ids, or the names of calls without an id."""
    if role_of(message) is not Role.ASSISTANT:
        return []
    calls = [*(message.get("tool_calls") or ()), *(part for part in _parts(message) if _kind(part) in CALLS)]
    if isinstance(message.get("function_call"), dict):
        calls.append(message["function_call"])
    return [_key(call) or _key(call.get("function") or {}) for call in calls]


def _list_answers(message: Message) -> list[str]:
    if role_of(message) is Role.TOOL:
        return [_key(message)]
    return [_key(part) for part in _parts(message) if is_output(_kind(part))]


def _key(value: Any) -> str:
    return first_word(value, *_KEYS) or ""


def _remove_orphans(message: dict[str, Any], orphans: Sequence[str]) -> dict[str, Any] | None:
    """Return the message without results that answer no call, or None if nothing remains."""
    if role_of(message) is Role.TOOL:
        return None
    rest = [part for part in _parts(message) if not (is_output(_kind(part)) and _key(part) in orphans)]
    return message | {"content": rest} if rest else None
