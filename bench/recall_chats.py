"""Measure search in chats of a person with an assistant, compared with FTS5 and bm25s.

usage: bench/recall_chats.py --transcripts DIR --gold DIR [--eval DIR] [--tuning]

416 questions were written from the sessions of two folders of real transcripts of coding agents, each with the records
that answer it (`bench/chat_questions.json`), without a look at search results. memoryd reads the folders as any
transcripts. With --eval, the script also uses chats made of LoCoMo: one speaker is the user; the answers of the other
become long and repeat words of the user and of the whole chat. These questions are in the first person, and as many
more ask for all messages about a thing. Weights were chosen on the even questions and on LoCoMo's first three
conversations. The script asks these with --tuning only, and the others without it.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench._retrieval import (
    History,
    Question,
    Said,
    Session,
    Tally,
    ask_memoryd,
    ask_others,
    list_locomo_evidence,
    list_locomo_sessions,
    open_recall,
    search_turns,
    show_turn,
    store,
)
from memoryd.config import Agent
from memoryd.database.reads import KeptReader

HERE = Path(__file__).parent
FORMATS = {
    "claude-code": "claude-code/**/*.jsonl", "codex": "codex/**/*.jsonl", "pi": "pi/**/*.jsonl",
    "gemini": "gemini/*.json", "cline": "cline/*.json", "aider": "aider/*.md",
}  # fmt: skip
TUNED = 3  # of LoCoMo's conversations: the first
WORD = re.compile(r"[A-Za-z']{4,}")
GENERIC = WORD.findall(
    "consider planning approach steps practice routine track progress schedule goals regularly review adjust strategy"
    " focus improve manage resources helpful important ensure balance clear identify break tasks create time support"
    " include options based maintain simple start small build habits take notes share feedback explore ways"
)
ASKED_OF_USER = (
    "Can you list the order in which I brought up different aspects of my {x} throughout our conversations?",
    "Can you give me a summary of how my {x} has progressed across our conversations, including {y}?",
    "How many different {x} have I mentioned across my sessions?",
)
ASKED_OF_AGENT = "What did you suggest about {x} when I asked about {y}?"


def read_transcripts(folder: Path, sources: list[Path]) -> None:
    """Have memoryd read all transcripts, and run no job."""
    found = [
        {"path": str(source / pattern), "format": name}
        for source in sources
        for name, pattern in FORMATS.items()
        if any(source.glob(pattern))
    ]
    modes = dict.fromkeys(("sleep", "facts", "rollover", "dream", "refine", "dedup"), "off")
    agents = [{"id": "chats", "workspace": "workspace", "transcripts": found}]
    (folder / "workspace").mkdir()
    config = folder / "memoryd.yaml"
    config.write_text(json.dumps({"state_dir": "state", "timezone": "UTC", "modes": modes, "agents": agents}))
    folder.chmod(0o700)
    subprocess.run([sys.executable, "-m", "memoryd", "--config", config, "--quiet", "run", "--once"], check=True)


def take_history(database: Path, rows: list[dict[str, Any]]) -> tuple[History, dict[tuple[str, int], str]]:
    """Return the messages that memoryd has read, with the questions about them, and the names of the turns."""
    sessions: dict[str, Session] = {}
    names: dict[tuple[str, int], str] = {}
    with KeptReader(database).begin_read() as reader:
        for key, seq, record, part, role, kind, text, at in reader.stream(
            "SELECT session_id, seq, record_id, part, origin, kind, plain(CAST(text AS BLOB), text_crc), at FROM turn"
            " ORDER BY session_id, seq"
        ):
            names[key, seq] = f"{record}#{part}"
            if kind in {"message", "choice"} and role in {"user", "assistant"}:
                day = datetime.fromisoformat(at) if at else datetime(2025, 1, 1, tzinfo=UTC)
                sessions.setdefault(key, Session(key, day, [])).turns.append(Said(names[key, seq], role, text))
    known = set(names.values())
    asked = [Question(row["question"], frozenset(row["evidence"])) for row in rows]
    questions = [one for one in asked if one.evidence <= known]
    if len(questions) < len(asked):
        print(f"{len(asked) - len(questions)} questions left out: their transcripts are not there")
    return History("chats", list(sessions.values()), questions), names


def reframe(one: dict[str, Any], *, is_second: bool) -> History:
    """Return one of LoCoMo's conversations as the chat of a speaker with a verbose assistant."""
    conversation, chance = one["conversation"], random.Random(f"{one['sample_id']} {is_second}")
    speakers = [conversation["speaker_a"], conversation["speaker_b"]]
    user, other = reversed(speakers) if is_second else speakers
    sessions, merged, heard = [], dict[str, str](), list[str]()
    for number, at, rows in list_locomo_sessions(conversation):
        turns: list[Said] = []
        end = 0
        while end < len(rows):
            start, end = end, end + chance.randint(2, 7)
            part = rows[start:end]
            for role, said in (("user", [r for r in part if r["speaker"] == user]),
                               ("assistant", [r for r in part if r["speaker"] != user])):  # fmt: skip
                text = " ".join(map(show_turn, said))
                key = said[0]["dia_id"] if said else f"{number}-{len(turns)}"
                merged |= {row["dia_id"]: key for row in said}
                if role == "user":
                    own = WORD.findall(text) or ["that"]
                    heard += own
                else:
                    text += "".join(f"\n{point}" for point in list_points(chance, own, heard))
                if text:
                    turns.append(Said(key, role, text))
        sessions.append(Session(str(number), at, turns))
    roles = {said.id: said.role for session in sessions for said in session.turns}
    questions: dict[str, list[Question]] = {"user": [], "assistant": []}
    for text, evidence in list_locomo_evidence(one):
        found = frozenset(merged[key] for key in evidence if key in merged)
        if found and len({roles[key] for key in found}) == 1:
            questions[roles[next(iter(found))]].append(Question(turn_round(text, user, other), found))
    chance.shuffle(questions["assistant"])
    asked = questions["user"] + questions["assistant"][: len(questions["user"]) * 3 // 10]
    return History(f"{one['sample_id']}-{is_second}".lower(), sessions, asked + list_wide_questions(chance, sessions))


def list_points(chance: random.Random, own: list[str], heard: list[str]) -> list[str]:
    """Return the points of an answer: words of the message, of the whole chat, and of general advice."""
    points = []
    for number in range(1, chance.randint(11, 18)):
        words = chance.choices(own, k=8) + chance.choices(heard[-40:], k=3) + chance.choices(heard, k=24)
        words += chance.choices(GENERIC, k=13)
        chance.shuffle(words)
        points.append(f"{number}. **{words[0].title()}**: {' '.join(words[1:])}.")
    return points


def turn_round(text: str, user: str, other: str) -> str:
    """Return a question about two people in the form in which the user asks it."""
    verbs = {"does": "do", "has": "have", "is": "am"}
    auxiliary = rf"\b(did|does|do|has|have|is|was|will|would|could|can|might|should|were) {user}\b(?!')"
    text = re.sub(auxiliary, lambda found: f"{verbs.get(found[1].lower(), found[1])} I", text, flags=re.IGNORECASE)
    for name, mine, me in ((user, "my", "I"), (other, "your", "you")):
        text = re.sub(rf"\b{name}\b", me, re.sub(rf"\b{name}'s\b", mine, text))
    return text


def list_wide_questions(chance: random.Random, sessions: list[Session]) -> list[Question]:
    """Return questions for all messages of the user that name a thing, and for the answer to one of them."""
    order = [said for session in sessions for said in session.turns]
    places: dict[str, list[int]] = defaultdict(list)
    for at, said in enumerate(order):
        if said.role == "user":
            for word in sorted({word.lower() for word in WORD.findall(said.text)} - set(GENERIC)):
                places[word].append(at)
    several = [word for word, held in places.items() if 2 <= len(held) <= 7 and len(word) > 4]
    once = [word for word, held in places.items() if len(held) == 1 and len(word) > 4]
    chance.shuffle(several)
    chance.shuffle(once)
    asked = [
        Question(template.format(x=word, y=other), frozenset(order[at].id for at in places[word]))
        for template in ASKED_OF_USER
        for word, other in zip(several[:8], several[8:16], strict=False)
    ]
    for word, other in zip(once[:7], once[7:14], strict=False):
        at = places[word][0] + 1
        if at < len(order) and order[at].role == "assistant":
            asked.append(Question(ASKED_OF_AGENT.format(x=word, y=other), frozenset({order[at].id})))
    return asked


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="bench/recall_chats.py")
    for name in ("transcripts", "gold", "eval"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--tuning", action="store_true")
    given = parser.parse_args()
    half = 0 if given.tuning else 1
    sources = [one for one in (given.transcripts, given.gold) if one is not None]
    if not sources:
        print("recall_chats: skipped, no folders given (--transcripts and --gold)")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        read_transcripts(Path(folder), sources)
        rows = json.loads((HERE / "chat_questions.json").read_text(encoding="utf-8"))[half::2]
        history, names = take_history(Path(folder) / "state" / "memoryd.db", rows)
        tally = Tally("memoryd")
        with open_recall(Path(folder) / "state") as recall:
            agent = Agent(id="chats", workspace=Path(folder) / "workspace")
            recall.indexer.refresh(agent)
            tally.ask(partial(search_turns, recall, agent, names), history.questions)
        print("chats with coding agents")
        for one in (tally, *ask_others([history])):
            print(one.tell(), flush=True)
    if given.eval is not None:
        data = json.loads((given.eval / "data" / "locomo" / "locomo10.json").read_text(encoding="utf-8"))
        part = data[:TUNED] if given.tuning else data[TUNED:]
        made = [reframe(one, is_second=second) for one in part for second in (False, True)]
        print("chats made of LoCoMo, with a verbose assistant")
        with tempfile.TemporaryDirectory() as folder:
            print(ask_memoryd(Path(folder), made, store(Path(folder), made)).tell(), flush=True)
        for one in ask_others(made):
            print(one.tell(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
