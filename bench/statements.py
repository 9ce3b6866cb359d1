"""Count which statements of users the offline backend keeps for weeks, on messages that were written for this purpose.

usage: bench/statements.py

`bench/statements/` has messages as people send them to an assistant. In each, its writer marked what a careful
assistant would note for weeks (`lasts`), or the words that tempt most and are not worth it. No writer had seen the
signs in `memoryd/offline/lasting_signs.txt`. `persons`, `chats` and `daily_life` were used to choose these signs,
their weights and the limit. `aside` and `aside_mixed` (half of it to a coding agent) were used for nothing. `coding`
shows why the signs are not used with coding agents.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from memoryd.offline import lasting
from memoryd.offline.sentences import split_sentences

FOLDER = Path(__file__).parent / "statements"
SETS = ("persons", "chats", "daily_life", "aside", "aside_mixed", "coding")


class Message(NamedTuple):
    """A message, what of it a person would note or be tempted to note, and whether that lasts."""

    text: str
    key: str
    lasts: bool


def read_messages(name: str) -> list[Message]:
    """Return the messages of a set."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in (FOLDER / f"{name}.jsonl").open(encoding="utf-8")]
    return [Message(row["text"], row["key"], row["lasts"]) for row in rows]


def is_about(sentence: str, key: str) -> bool:
    """Return True if a sentence and the words that a writer marked have a beginning in common."""
    said, marked = (" ".join(text.replace("’", "'").lower().split()).rstrip(".!") for text in (sentence, key))  # noqa: RUF001
    return marked in said or said in marked or marked[:30] in said or said[:30] in marked


def is_kept(message: Message, *, by_signs: bool) -> bool:
    """Return True if the backend keeps what is marked; of a message that does not last, anything."""
    around = message.text if by_signs else ""
    return any(
        lasting.find_cue(one, by_user=True, working=True, message=around) is not None
        and (not message.lasts or is_about(one, message.key))
        for one in split_sentences(message.text)
    )


def count(messages: list[Message], *, by_signs: bool) -> str:
    """Return how many messages are kept, of those that last and of the others."""
    told = []
    for lasts in (True, False):
        chosen = [one for one in messages if one.lasts is lasts]
        told.append(f"{sum(is_kept(one, by_signs=by_signs) for one in chosen):4} of {len(chosen):3}")
    return "  ".join(told)


def main() -> int:
    """Print the counts."""
    print(f"{'':12} {'with signs, as in a chat':28} by cues alone, as with a coding agent")
    for name in SETS:
        messages = read_messages(name)
        print(f"{name:12} {count(messages, by_signs=True):28} {count(messages, by_signs=False)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
