"""Count pasted sentences that count as the person's own words, and own sentences that count as pasted.

    python bench/pastes.py [--aside | --tuned] [--list]

The first 240 messages in six languages (`bench/plays/pastes.jsonl`) were written by a reader who had not seen the
rules. 130 hold pasted material of many forms, most of them difficult. 110 are the person's own words but look like a
paste. The next 120 (60 and 60) were written later, by somebody who knew the rules of that time: heads of chats, mails
and posts, and labels such as "Eve's reply:" or "fwd:". 25 more are own words that the rules took for pasted.
The last 80 (40 and 40) were written by a reader who had not seen the rules. They are text below heads such as "Contents
of notes.md:", and own words below similar heads. Every second message is held out (`--aside`), apart from the 25. The
rules were tuned on the others (`--tuned`).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from memoryd.text.voice import Voice, find_spans

MESSAGES = Path(__file__).parent / "plays" / "pastes.jsonl"


def find_voices(text: str, part: str) -> set[Voice]:
    """Return the author that the rules give to a part of a message."""
    start = text.index(part)
    end = start + len(part)
    spans = (one for one in find_spans(text) if one.start < end and one.end > start)
    return {one.voice for one in spans if text[max(one.start, start) : min(one.end, end)].strip()}


def list_faults(message: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the sentences of a message with a wrong author."""
    text = message["text"]
    taken = [("pasted, taken for own", one) for one in message["pasted"] if Voice.OWN in find_voices(text, one)]
    return taken + [("own, lost", one) for one in message["own"] if find_voices(text, one) != {Voice.OWN}]


def main() -> None:
    """Print the counts of both kinds."""
    parser = argparse.ArgumentParser(description="Count pasted sentences that count as own words, and the reverse.")
    parser.add_argument("--aside", action="store_true", help="use only the held-out messages")
    parser.add_argument("--tuned", action="store_true", help="use only the messages that the rules were tuned on")
    parser.add_argument("--list", action="store_true", help="list each sentence whose author is wrong")
    given = parser.parse_args()
    messages = [json.loads(line) for line in MESSAGES.read_text("utf-8").splitlines()]
    if given.aside or given.tuned:
        messages = [one for one in messages if (int(one["id"]) % 2 == 0) is given.aside]
    for title, held in (
        ("with pasted material", [one for one in messages if one["pasted"]]),
        ("the person's own", [one for one in messages if not one["pasted"]]),
    ):
        faults = {one["id"]: list_faults(one) for one in held}
        counts = {what: sum(kind == what for found in faults.values() for kind, _ in found) for what in
                  ("pasted, taken for own", "own, lost")}  # fmt: skip
        pasted, own = (sum(len(one[key]) for one in held) for key in ("pasted", "own"))
        print(f"{len(held)} messages {title}: {counts['pasted, taken for own']} of {pasted} pasted sentences taken for"
              f" own, {counts['own, lost']} of {own} own ones lost")  # fmt: skip
        for one in held if given.list else ():
            for kind, sentence in faults[one["id"]]:
                print(f"  {one['id']} {one['lang']} {one['kind']} {kind}: {sentence}")


if __name__ == "__main__":
    main()
