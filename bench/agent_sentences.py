"""Count the sentences of coding agents that the offline backend may keep for good, by kind and language.

    python bench/agent_sentences.py [--aside | --tuned] [--list]

`bench/plays/agent_sentences.jsonl` has 640 sentences such as agents write during and at the end of a session: 60 in
each of eight languages, and 160 in English. Their author had not seen the program. Findings, reports of finished work
and states should stay. Steps, offers, guesses and instructions to the user should go. Every second sentence is held out
(`--aside`). The cues were chosen with the others in view (`--tuned`). Some English findings are hard on purpose.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

from memoryd.offline import words, work, work_texts
from memoryd.offline.cues import WORK_CUES
from memoryd.offline.work_statement import WorkStatement
from memoryd.tiers.session_summary import Section

SENTENCES = Path(__file__).parent / "plays" / "agent_sentences.jsonl"
GO = {"step", "offer", "instruction", "guess"}
_WEIGHT = 0.5  # a high weight, so that only the wording decides


def lasts(text: str) -> bool:
    """Return True if a sentence of the assistant may become a memory by its wording."""
    keys = frozenset(words.list_content_words(text)) - words.CHATTER_KEYS
    is_guess = WORK_CUES["hedges"].search(text) is not None
    one = WorkStatement(0, "t1", (1,), "Assistant", text, Section.FOUND, keys, _WEIGHT, is_guess=is_guess)
    return not work_texts.is_idle(text) and work.may_last(one)


def main() -> None:
    """Print the counts for English and for the other languages."""
    parser = argparse.ArgumentParser(description="Count which sentences of agents may last.")
    parser.add_argument("--aside", action="store_true", help="use only the held-out sentences")
    parser.add_argument("--tuned", action="store_true", help="use only the sentences that the cues were tuned on")
    parser.add_argument("--list", action="store_true", help="list each sentence that wrongly stays or goes")
    given = parser.parse_args()
    counts: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for number, line in enumerate(SENTENCES.read_text("utf-8").splitlines()):
        if (given.aside and number % 2 == 0) or (given.tuned and number % 2):
            continue
        row = json.loads(line)
        kept = lasts(row["text"])
        language = "English" if row["language"] == "en" else "eight other languages"
        counts[language, row["kind"]].append(kept)
        if given.list and kept is (row["kind"] in GO):
            print(f"{row['language']} {row['kind']}: {row['text']}")
    for (language, kind), found in sorted(counts.items()):
        print(f"{language:22} {kind:12} {sum(found):3} of {len(found):3} may stay")


if __name__ == "__main__":
    main()
