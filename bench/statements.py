"""Count which statements of users the offline backend keeps for weeks, on messages that were written for this purpose.

usage: bench/statements.py

`bench/statements/` has messages such as people send to an assistant. In each message, its writer marked the words that
a careful assistant would note for weeks (`lasts`), or other words that are tempting but not worth a note. No writer had
seen the program. The sets `HELD_OUT` were never used for a weight. They were used for cues only once: some were
repaired after it was seen what they wrongly kept of the first three sets. `bench/fit_lasting.py` fits the weights to
the other sets.

`changes` has pairs of an earlier and a later message, and is held out. In half of the pairs, the later message replaces
the earlier one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fit_lasting import FITTED, is_about

from memoryd.offline import lasting, replacement, work
from memoryd.offline.sentences import number_sentences, split_sentences
from memoryd.offline.statements import ConversationMessage
from memoryd.tiers.session_summary import Section

FOLDER = Path(__file__).parent / "statements"
HELD_OUT = ("aside", "aside_mixed", "languages_aside", "passing", "aside_natural")


class Message(NamedTuple):
    """Hold a message, the words that a person would or might note, and whether they last."""

    text: str
    key: str
    lasts: bool


def read_messages(name: str) -> list[Message]:
    """Return the messages of a set."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in (FOLDER / f"{name}.jsonl").open(encoding="utf-8")]
    return [Message(row["text"], row["key"], row["lasts"]) for row in rows]


def is_kept(message: Message, *, chatting: bool) -> bool:
    """Return True if the backend keeps the marked words, or anything of a message that does not last."""
    return any(
        lasting.find_cue(one, by_user=True, working=True, message=message.text, chatting=chatting) is not None
        and (not message.lasts or is_about(one, message.key))
        for one in split_sentences(message.text)
    )


def count(messages: list[Message], *, chatting: bool) -> str:
    """Return the numbers of kept messages: of those that last, and of the others."""
    told = []
    for lasts in (True, False):
        chosen = [one for one in messages if one.lasts is lasts]
        told.append(f"{sum(is_kept(one, chatting=chatting) for one in chosen):4} of {len(chosen):3}")
    return "  ".join(told)


# A session of work around the third message.
AROUND = (
    "Please look at the parser in src/parse.py, it drops the last line of a file.",
    "I found the cause: the loop in `parse.py` stops one line early.",
    "",
    "Done: I changed the loop in `parse.py` and the tests pass.",
    "Now commit the change to the branch fix-parser.",
    "Committed as 3f2a1bc on fix-parser.",
)


def is_decided(text: str) -> bool:
    """Return True if a message in a working session becomes a lasting decision."""
    said = [
        ConversationMessage(
            f"t{n}", "Assistant" if n % 2 else "User", n % 2 == 0, one or text, tuple(number_sentences(one or text))
        )
        for n, one in enumerate(AROUND)
    ]
    own = {one.id: {part.number for part in one.sentences} for one in said if one.by_user}
    lines = [one for one in work.WorkReading(said, own).list_lines() if one.id == "t2"]
    return any((one.is_wish or one.section is Section.DECIDED) and work.may_last(one) for one in lines)


def count_changes() -> str:
    """Return the number of pairs in which the backend recognises that the later message ends the earlier one."""
    rows = [json.loads(line) for line in (FOLDER / "changes.jsonl").open(encoding="utf-8")]
    told = []
    for replaces in (True, False):
        pairs = [
            (split_sentences(one["later"]), split_sentences(one["earlier"]))
            for one in rows
            if one["replaces"] is replaces
        ]
        ended = sum(
            any(replacement.is_ended_by(new, old) for new in later for old in earlier) for later, earlier in pairs
        )
        told.append(f"{ended:4} of {len(pairs):3}")
    return "  ".join(told)


def main() -> int:
    """Print the counts."""
    print(f"{'':15} {'in a chat':28} with a coding agent")
    for name in (*HELD_OUT, *FITTED):
        messages = read_messages(name)
        print(f"{name:15} {count(messages, chatting=True):28} {count(messages, chatting=False)}")
    for name in ("momentary", "coding", "languages", "languages_aside"):
        decided = [(one.lasts, is_decided(one.text)) for one in read_messages(name)]
        told = (
            f"{decided.count((lasts, True)):4} of {sum(one is lasts for one, _ in decided):3}"
            for lasts in (True, False)
        )
        print(f"{name:15} {'  '.join(told):28} as a decision, in the midst of work")
    print(f"{'changes':15} {count_changes():28} recognised")
    return 0


if __name__ == "__main__":
    sys.exit(main())
