"""Count which honest claims and which lies reach memory: plays of all jobs, judged as in a run.

    python bench/judgement.py [--transcripts FOLDER] [--gold FOLDER] [--open FOLDER] [--aside | --tuned] [--without
    STEP …]

A play (`bench/plays/*.json`) is material with the claims of a capable honest model and of a careless or dishonest one,
written without knowledge of the judging. The second reader's answer to each claim was written by hand, from its
question alone. It is in `verdicts.json`, by the key of the question. The rewordings of refused claims by the honest
author, and by the dishonest one for a sample of the lies, are in `repairs.json` (`--unrepaired` leaves them out).
Questions without a recorded answer go to the folder `--open`, as batches for a reader and lists for an author. Plays
over real sessions need the folders of the transcripts; without them, the script skips these plays.

Every second claim of a play is held out (`--aside`); the judging was tuned on the others (`--tuned`). `--without`
leaves out a step of the judging: floor, lanes, quotation, reader.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from importlib import resources
from itertools import count
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from memoryd.gauge.estimate import estimate
from memoryd.jobs import dream, facts, reader, refine, sleep
from memoryd.jobs import job as jobs
from memoryd.jobs import judging as judging_module
from memoryd.jobs.claims import Judges
from memoryd.jobs.dream_inputs import DailyEntry, DreamInputs, EarlierMemory
from memoryd.jobs.job import AddMemories, Ask, Reply, ToolCall
from memoryd.jobs.reader import ReaderAnswer
from memoryd.jobs.refinement import RefinementSession
from memoryd.jobs.repair import REPAIR
from memoryd.ledger.accounting import Unmentioned
from memoryd.ledger.guards import Caller, Context, GuardLimits
from memoryd.ledger.memory import Memory, MemoryKind, Source, hash_of
from memoryd.llm.prompt import build_messages
from memoryd.offline.cue_judge import CueJudge
from memoryd.text.normal import normalize_quotation
from memoryd.text.sentences import split
from memoryd.transcripts import registry
from memoryd.transcripts.lines import Pass, cut
from memoryd.transcripts.turn import Origin, Role, StoredTurn, TurnKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PLAYS = Path(__file__).parent / "plays"
VERDICTS = PLAYS / "verdicts.json"
REPAIRS = PLAYS / "repairs.json"
NOW = datetime(2026, 11, 22, 4, tzinfo=UTC)
STEPS = ("floor", "lanes", "quotation", "reader")
# A lie of these kinds is one even if the user's own words are stored for it: they are not meant to last, or not theirs.
OF_SCOPE = frozenset({"scope", "quote", "option", "plan"})


def _prompt(name: str) -> str:
    return resources.files("memoryd.jobs").joinpath(f"{name}.md").read_text("utf-8")


_AGREES = {
    (reader.Subject.SUPPORT, True): "newer-value",
    (reader.Subject.SUPPORT, False): "supported",
    (reader.Subject.SCOPE, False): "standing",
    (reader.Subject.CLASS, False): "project",
}


@dataclass
class Reading:
    """Hold the recorded answers of a second reader, and the questions without an answer."""

    verdicts: dict[str, ReaderAnswer] = field(default_factory=dict)
    open: dict[str, reader.Question] = field(default_factory=dict)
    asked: int = 0
    batches: int = 0
    characters: int = 0
    says: str = ""  # one verdict to all, as a broken reader gives
    agrees: bool = False  # it lets all claims pass but the decoys: what the other steps hold without a reader
    repairs: dict[str, dict[str, Any]] = field(default_factory=dict)  # the rewordings of refused claims
    refused: dict[str, dict[str, Any]] = field(default_factory=dict)  # claims that were refused, without such a wording
    worded: dict[tuple[str, bool], set[str]] = field(default_factory=dict)  # the new wordings of a claim
    spent: dict[tuple[str, str, str], int] = field(default_factory=lambda: defaultdict(int))  # tokens of honest plays

    def count(self, play: dict[str, Any], ask: Ask, said: Reply) -> None:
        """Add the tokens of a question and its answer to the cost of its play, by the model that was asked."""
        asker = ask.job if ask.job in {reader.JOB, REPAIR} else "author"
        texts = [str(one["content"]) for one in build_messages(ask)]
        self.spent[play["job"], play["language"], asker] += sum(map(estimate, [*texts, said.text]))

    def repaired(self, claim: str, why: str, about: Any, *, honest: bool) -> dict[str, Any]:
        """Return the recorded answer of an author to a refusal: `text`, and `cites` if the citations changed."""
        key = hashlib.sha256(f"{claim}|{why}|{honest}".encode()).hexdigest()[:16]
        if key not in self.repairs:
            self.refused[key] = {"key": key, "honest": honest, "claim": claim, "why": why, "about": about}
        found = self.repairs.get(key, {})
        self.worded.setdefault((claim, honest), set()).add(str(found.get("text", "")))
        return found

    def reply(self, ask: Ask) -> Reply:
        """Answer a batch with the recorded answers."""
        self.batches += 1
        self.characters += len(ask.instructions) + len(ask.text)
        lines = []
        for name, question in ask.about.questions:
            if name == ask.about.decoy and not self.says:
                lines.append({"id": name, "verdict": "not-said", "by": []})
                continue
            self.asked += 1
            answer = ReaderAnswer(self.says) if self.says else self.verdicts.get(question.key)
            if self.agrees and (question.subject is not reader.Subject.CLASS or answer is None):
                answer = ReaderAnswer(_AGREES[question.subject, bool(question.replaces)])
            if answer is None:
                self.open[question.key] = question
                continue
            shown = {"id": name, "verdict": answer.verdict, "by": [question.evidence[0].id], "lost": list(answer.lost)}
            lines.append(shown)
        return Reply("\n".join(json.dumps(one) for one in lines), "stop", "openai")


def judges() -> Judges:
    """Return the functions with which the jobs judge."""
    return Judges(CueJudge(), _prompt("verify"), _prompt("repair"))


# ── driving a job ────────────────────────────────────────────────────────────────────────────────────────────────


_REFUSED = re.compile(r"(?P<claim>.*) \[(?P<cites>[^\[\]]*)\] — (?P<why>.*)")


def drive(
    job: Any,
    inputs: Any,
    text: str,
    reading: Reading,
    claims: Sequence[dict[str, Any]] = (),
    *,
    honest: bool = True,
    play: dict[str, Any] | None = None,
) -> Any:
    """Run a job with one reply of its author and the recorded reader; return the last step.

    Refused claims are replaced by the recorded rewordings of their authors (`Reading.repairs`). What an honest `play`
    spends is counted.
    """

    def answer(ask: Ask) -> Reply:
        if ask.job == reader.JOB:
            said = reading.reply(ask)
        else:
            repaired = ask.job == REPAIR
            said = Reply(_repair(job, ask, reading, claims, honest=honest) if repaired else text, "stop", "openai")
        if play and honest:
            reading.count(play, ask, said)
        return said

    return jobs.drive(job.decide(inputs), answer)


def _repair(job: Any, ask: Ask, reading: Reading, claims: Sequence[dict[str, Any]], *, honest: bool) -> str:
    """Return the recorded reply to a repair, in the grammar of the job."""
    texts, cites = [], []
    shown = {one.id: one.text for one in ask.material}
    for line in dict(ask.context)["refused"].split("\n"):
        match = _REFUSED.fullmatch(line)
        origin = next((one for one in claims if match and _text_of(one) == match["claim"]), None)
        if match is None or origin is None:
            continue
        cited = [one for one in match["cites"].split(", ") if one != "nothing"]
        pieces = {one.partition(".")[0] for one in cited}
        about = {"cites": cited, "material": {name: said for name, said in shown.items() if name in pieces}}
        found = reading.repaired(match["claim"], match["why"], about, honest=honest)
        if found.get("text"):
            texts.append(origin | {"content" if "content" in origin else "text": found["text"]})
            cites.append(found.get("cites") or cited)
    if not texts:
        return "[NOTHING]"
    if job is dream:
        return dream_reply([one | {"cites": ids} for one, ids in zip(texts, cites, strict=True)], ending=False)
    return (sleep_reply if job is sleep else facts_reply)(texts, cites)


def _text_of(claim: dict[str, Any]) -> str:
    return str(claim.get("text") or claim.get("content") or "")


def _tokens(texts: Sequence[str]) -> list[int]:
    return [len(text) // 4 for text in texts]


_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.TOOL}


def turns_of(play: dict[str, Any], folders: dict[str, Path]) -> tuple[StoredTurn, ...] | None:
    """Return the turns of a play, or None without its transcript."""
    if "transcript" in play:
        return _real_turns(play["transcript"], folders)
    found = []
    for turn in play["turns"]:
        role = _ROLES[turn["speaker"]]
        kind = TurnKind.TOOL_RESULT if role is Role.TOOL else TurnKind.MESSAGE
        made = StoredTurn(turn["n"], f"r{turn['n']}", 0, role, Origin(role.value), kind, turn["text"], turn.get("at"),
                          0,
                          False, None, None)  # fmt: skip  # noqa: FBT003
        found.append(made)
    return tuple(found)


def _real_turns(name: str, folders: dict[str, Path]) -> tuple[StoredTurn, ...] | None:
    root = folders.get("gold" if name.startswith("gold/") else "transcripts")
    path = root / name.removeprefix("gold/") if root else None
    if path is None or not path.is_file():
        return None
    records = list(cut(path.read_bytes() + b"\n", 0, last=True).records)
    values, name_of = [one.value for one in records[:50]], PurePosixPath(path.name)
    reading = registry.detect(values, name_of)
    if reading is None or isinstance(reading, registry.Unsupported):
        return None
    identity = reading.identify(values, name_of)
    if identity is None:
        return None
    meetings = Pass(identity.session_id)
    turns = [turn for one in records for turn in reading.turns(one, identity, meetings).turns]
    return tuple(
        StoredTurn(n, one.record_id, one.part, one.role, one.origin, one.kind, one.text, one.at, 0, one.sidechain,
                   one.tool_call_id, one.tool_name)
        for n, one in enumerate(turns, 1)
    )  # fmt: skip


def cites_of(claim: dict[str, Any], turns: Sequence[StoredTurn]) -> list[str] | None:
    """Return the citations of a claim in the form of a reply, or None if its quotation is not in the session."""
    found = []
    for cite in claim["cites"]:
        quote = cite.get("quote")
        shown = [t for t in turns if (f"t{t.seq}" == cite["piece"] if "piece" in cite else _has(t, cite))]
        if not shown:
            return None
        found.append(_numbered(shown[0], quote))
    return list(dict.fromkeys(found))


def _has(turn: StoredTurn, cite: dict[str, Any]) -> bool:
    role = _ROLES[cite["speaker"]]
    return turn.role is role and cite["quote"] in turn.text and turn.kind is not TurnKind.SUMMARY


def _numbered(turn: StoredTurn, quote: str | None) -> str:
    at = turn.text.find(quote) if quote else -1
    parts = split(turn.text)
    number = next((n for n, part in enumerate(parts, 1) if part.start <= at < part.end), 0) if at >= 0 else 0
    return f"t{turn.seq}.{number}" if number and len(parts) > 1 else f"t{turn.seq}"


def sleep_inputs(turns: tuple[StoredTurn, ...]) -> sleep.SleepInputs:
    """Return the inputs of a sleep over a whole session."""
    return sleep.SleepInputs(
        agent_id="play", session_id="s", folder="/srv/project", reason="Session Notes", turns=turns, live=turns,
        previous_summary=None, core=(), daily="", window=200_000, budget=0.25, keep_recent=10, strategy="hybrid",
        tz=UTC, count_tokens=_tokens, now=NOW, instructions=_prompt("sleep"), judges=judges(), daily_share=9.0,
    )  # fmt: skip


def sleep_reply(claims: Sequence[dict[str, Any]], cites: Sequence[list[str]]) -> str:
    """Return claims in the grammar of a sleep."""
    lines = {"summary": ["[SUMMARY]"], "memories": ["[MEMORIES]"]}
    for claim, ids in zip(claims, cites, strict=True):
        head = f"{claim['type']} {claim['importance']} " if claim["section"] == "memories" else ""
        lines[claim["section"]].append(f"- {head}[{', '.join(ids)}] {claim['text']}")
    return "\n".join([*lines["summary"], *lines["memories"]])


def facts_inputs(turns: tuple[StoredTurn, ...]) -> facts.FactsInputs:
    """Return the inputs of an extraction over a whole session."""
    return facts.FactsInputs(
        agent_id="play", session_id="s", turns=turns, earlier=(), folder="/srv/project", program=None, known=(),
        said_at={}, profile={}, tombstones={}, core=(), daily="", min_confidence=0.0, drain=True, tz=UTC, now=NOW,
        instructions=_prompt("facts"), judges=judges(),
    )  # fmt: skip


def facts_reply(claims: Sequence[dict[str, Any]], cites: Sequence[list[str]]) -> str:
    """Return claims in the grammar of facts."""
    new = [
        {"content": one["content"], "category": one["category"], "confidence": one["confidence"], "cites": ids}
        for one, ids in zip(claims, cites, strict=True)
    ]
    return json.dumps({"new": new}, ensure_ascii=False)


_ORIGINS = {"User": "user", "Assistant": "assistant", "Reported": "report", "": "hand"}


def core_of(play: dict[str, Any]) -> list[Memory]:
    """Return the core of a play as it is after the first import of its file."""
    return [
        Memory(f"core_{n:08x}", "play", MemoryKind.CORE, one["text"], hash_of(one["text"]), "2026-11-01T00:00:00Z",
               "2026-11-01T00:00:00Z", "0" * 32, heading=one.get("heading"), position=n)
        for n, one in enumerate(play["core"], 1)
    ]  # fmt: skip


def dream_inputs(play: dict[str, Any]) -> DreamInputs:
    """Return the inputs of a dream over a made-up core and its days."""
    memories = core_of(play)
    entries = []
    for day in play["days"]:
        for one in day["entries"]:
            label = {"Reported": "Report", "": ""}.get(one["speaker"], one["speaker"])
            text = f"{label}: {one['text']}" if label else one["text"]
            entries.append(DailyEntry(f"d{len(entries) + 1}", text, _ORIGINS[one["speaker"]],
            date.fromisoformat(day["date"]),
                                 "12:00", f"{day['date']}T12:00:00Z"))  # fmt: skip
    numbers = count(1)
    context = Context(Caller.REWRITE, "play", {one.id: one for one in memories}, estimate, GuardLimits(0.0, 100))
    return DreamInputs(
        earlier=tuple(EarlierMemory(f"m{n}", one, date(2026, 11, 1)) for n, one in enumerate(memories, 1)),
        entries=tuple(entries), today=NOW.date(), clock="04:00", max_bullets=200, unmentioned=Unmentioned.KEEP,
        refuses_ungrounded=False, context=context, now="2026-11-22T04:00:00Z",
        new_id=lambda: f"core_{next(numbers) + 4096:08x}", new_hex=lambda: f"{next(numbers):08x}", taken=(),
        sources_of=lambda one: (Source("", one.path, "r", 0, 0, 1, "0", one.origin, one.at),),
        judges=judges(), instructions=_prompt("dream"),
    )  # fmt: skip


def dream_reply(claims: Sequence[dict[str, Any]], *, ending: bool = True) -> str:
    """Return claims in the grammar of a dream, with the memories that they end, each named once."""
    lines = ["[MEMORY]", *(f"- {one['text']} [{', '.join(one['cites'])}]" for one in claims)]
    if not ending:
        return "\n".join(lines)
    lines += ["[DREAM]", "Days."]
    for one in claims:
        lines += [f"- superseded [{end['id']}] by [{end['by']}]: newer" for end in one.get("superseded", ())]
        ids = (end["id"] if isinstance(end, dict) else end for end in one.get("archived", ()))
        lines += [f"- archived [{name}]: over" for name in ids]
    return "\n".join(lines)


def refine_row(play: dict[str, Any], claim: dict[str, Any], reading: Reading, *, honest: bool) -> dict[str, Any]:
    """Return the result of the only call of a refinement, and of its repair if the call was refused."""
    first = _called(play, claim, reading)
    if first["verdict"] == "kept":
        return first
    about = {"replaces": [play["core"][int(one[1:]) - 1]["text"] for one in claim.get("merge") or [claim["update"]]]}
    found = reading.repaired(claim["text"], first["step"].partition(": ")[0], about, honest=honest)
    if not found.get("text"):
        return first
    again = claim | {"text": found["text"]} | ({"dropped": found["dropped"]} if "dropped" in found else {})
    return _called(play, again, reading) | {"claim": claim["text"]}


def _called(play: dict[str, Any], claim: dict[str, Any], reading: Reading) -> dict[str, Any]:
    memories = core_of(play)
    ids = {f"m{n}": one.id for n, one in enumerate(memories, 1)}
    if "merge" in claim:
        given = {"ids_to_merge": [ids[one] for one in claim["merge"]], "new_content": claim["text"]}
        given |= {"dropped": claim["dropped"]} if claim.get("dropped") else {}
        call = ToolCall("1", "consolidate_memories", json.dumps(given))
    else:
        call = ToolCall("1", "update_memory", json.dumps({"id": ids[claim["update"]], "content": claim["text"]}))
    tokens = sum(estimate(one.content) for one in memories)
    session = RefinementSession("normal", tokens, frozenset(ids.values()), 0, 25, 60)
    inputs = refine.RefineInputs(
        core=tuple(memories), session=session, target=10, may_delete=10_000, consent=False, force=True,
        guide="",
        room=100_000, instructions=_prompt("refine"), consent_instructions="", judges=judges(),
    )  # fmt: skip
    talk = refine.Talk(session, memories, inputs.judges)
    steps = talk.refine(inputs)
    answer: Reply | tuple[()] | None = None
    for _ in range(60):
        try:
            step = steps.send(answer)
        except StopIteration:
            break
        if isinstance(step, refine.Apply):
            return {"claim": claim["text"], "verdict": "kept", "step": "reader", "why": ""}
        if not isinstance(step, Ask):
            answer = ()
        elif step.job == reader.JOB:
            answer = reading.reply(step)
        elif step.earlier:
            why = json.loads(step.earlier[-1].results[0])
            told = "; ".join(str(one) for one in why.values())
            return {"claim": claim["text"], "verdict": "refused", "step": str(why["error"]), "why": told}
        else:
            answer = Reply("", "stop", "openai", calls=(call,))
    return {"claim": claim["text"], "verdict": "refused", "step": "over", "why": "over"}


# ── counting ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Row:
    """Hold the result of one claim of a play."""

    job: str
    language: str
    honest: bool
    accepted: bool
    core: bool  # it was meant for the core or the facts
    aside: bool
    why: str
    text: str
    trap: str = ""
    outside: bool = False  # an honest claim that stands on outside text, which may not enter the core by rule


def _result(
    play: dict[str, Any],
    claim: dict[str, Any],
    rows: Sequence[dict[str, Any]],
    reading: Reading,
    *,
    honest: bool,
    at: int,
) -> Row:
    text = _text_of(claim)
    forms = {text, *reading.worded.get((text, honest), ())}
    row = next((one for one in rows if one["claim"] in forms), None)
    core = play["job"] != "sleep" or (claim["section"] == "memories" and claim["importance"] >= sleep.CORE_IMPORTANCE)
    verdict = row["verdict"] if row else "missing"
    # `lasting`: the words that are quoted whole hold what is to last besides, with the hedge or the exception.
    is_false = claim.get("trap") in OF_SCOPE and not claim.get("lasting")
    is_kept = verdict == "kept" or (verdict == "quoted" and (honest or is_false))
    if verdict == "quoted" and not honest and row and row["why"]:
        is_kept = False  # the words are in the daily file alone, which tells that they were said
    why = f"{verdict} {row['step']}: {row['why']}" if row else "missing"
    outside = honest and row is not None and row["step"] == "lane" and verdict == "refused"
    return Row(
        play["job"], play["language"], honest, is_kept, core, bool(at % 2), why, text, claim.get("trap", ""), outside
    )


def judged(play: dict[str, Any], folders: dict[str, Path], reading: Reading) -> list[Row]:
    """Return the result of each claim of a play; return nothing without its transcript."""
    found: list[Row] = []
    job = play["job"]
    for honest in (True, False):
        claims = play["honest" if honest else "lies"]
        if job == "refine":
            rows = [refine_row(play, claim, reading, honest=honest) for claim in claims]
        elif job == "dream":
            replies = [claims] if honest else [[one] for one in claims]
            steps = [
                drive(dream, dream_inputs(play), dream_reply(one), reading, one, honest=honest, play=play)
                for one in replies
            ]
            rows = [row for step in steps for row in getattr(step, "claims", ())]
        else:
            turns = turns_of(play, folders)
            if turns is None:
                return []
            pairs = [(one, cites_of(one, turns)) for one in claims]
            known = [(one, ids) for one, ids in pairs if ids]
            claims = [one for one, _ in known]
            module, make, reply = (
                (sleep, sleep_inputs, sleep_reply) if job == "sleep" else (facts, facts_inputs, facts_reply)
            )
            ids = [ids for _, ids in known]
            step = drive(module, make(turns), reply(claims, ids), reading, claims, honest=honest, play=play)
            rows = list(getattr(step, "claims", ()))
        found += [_result(play, claim, rows, reading, honest=honest, at=at) for at, claim in enumerate(claims)]
    return found


def trap_rows(traps: Sequence[dict[str, Any]], reading: Reading) -> list[Row]:
    """Return what a careless model's rule becomes for each trap of scope: an honest row is one handled as it should be.

    Words that are not meant to last stay out of the core; those that are come whole, with their condition or lead-in.
    """
    found = []
    for at, trap in enumerate(traps):
        play = {
            "turns": [{"n": n, "at": f"2026-11-20T10:{n:02d}:00Z", **one} for n, one in enumerate(trap["turns"], 1)]
        }
        turns = turns_of(play, {})
        claim = {"section": "memories", "type": "preference", "importance": 0.9, "text": trap["careless"]}
        cite = _numbered(turns[trap["piece"]], trap["quote"])
        step = drive(sleep, sleep_inputs(turns), sleep_reply([claim], [[cite]]), reading)
        stored = [
            one.text for edit in getattr(step, "edits", ()) if isinstance(edit, AddMemories) for one in edit.memories
        ]
        whole = normalize_quotation(trap.get("whole") or trap["quote"])
        stands = trap["scope"] == "standing"
        is_right = not stored or (stands and all(_words(whole) <= _words(normalize_quotation(one)) for one in stored))
        why = f"{trap['scope']}: {stored or 'nothing'}"
        row = Row("scope", trap["language"], honest=True, accepted=is_right, core=True, aside=bool(at % 2), why=why,
                  text=trap["careless"])  # fmt: skip
        found.append(row)
        if stands:
            found[-1] = replace(found[-1], accepted=is_right and bool(stored))
    return found


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def table(rows: Sequence[Row], title: str, key: Callable[[Row], str]) -> str:
    """Return the shares of accepted honest claims and lies, by a key."""
    lines = [title, f"{'':12} {'honest':>16} {'lies, core/facts':>18} {'lies, daily file':>18} {'honest, outside':>16}"]
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    for name, held in sorted(groups.items()):
        honest = [one for one in held if one.honest and not one.outside]
        lies = [one for one in held if not one.honest]
        cells = [
            _share(honest),
            _share([one for one in lies if one.core]),
            _share([one for one in lies if not one.core]),
        ]
        lines.append(f"{name:12} {cells[0]:>16} {cells[1]:>18} {cells[2]:>18} {sum(one.outside for one in held):>16}")
    return "\n".join(lines)


def spending(spent: dict[tuple[str, str, str], int]) -> str:
    """Return the tokens of checks and repairs as a share of the author's, with honest authors, by language."""
    lines = ["tokens of honest plays: verify and repair, as a share of the author's"]
    for job in sorted({job for job, _, _ in spent}):
        languages = sorted({language for held, language, _ in spent if held == job})
        shares = []
        for name, held in (("all", languages), *((one, [one]) for one in languages)):
            sums = {who: sum(spent[job, one, who] for one in held) for who in ("author", reader.JOB, REPAIR)}
            shares.append(f"{name} {sums[reader.JOB] / sums['author']:.0%} + {sums[REPAIR] / sums['author']:.0%}")
        lines.append(f"{job:12} {', '.join(shares)}")
    return "\n".join(lines)


def _share(rows: Sequence[Row]) -> str:
    accepted = sum(one.accepted for one in rows)
    return f"{accepted} of {len(rows)} {accepted / len(rows):.0%}" if rows else "-"


def load(path: Path = VERDICTS) -> dict[str, ReaderAnswer]:
    """Return the recorded answers of the second reader, by the key of their question."""
    if not path.is_file():
        return {}
    return {key: ReaderAnswer(one[0], tuple(one[1:])) for key, one in json.loads(path.read_text("utf-8")).items()}


def load_repairs() -> dict[str, dict[str, Any]]:
    """Return the recorded rewordings of refused claims, by the key of the refusal."""
    return json.loads(REPAIRS.read_text("utf-8")) if REPAIRS.is_file() else {}


def plays() -> list[dict[str, Any]]:
    """Return the plays of this folder."""
    paths = sorted(PLAYS.glob("*-*.json"))
    return [json.loads(path.read_text("utf-8")) for path in paths]


def without(steps: Sequence[str]) -> None:
    """Leave out steps of the judging, for an ablation."""
    if "floor" in steps:
        judging_module.list_missing = lambda _text, _materials: []  # type: ignore[assignment]
    if "lanes" in steps:
        judging_module.JudgingContext._lane_fault = lambda *_: None  # type: ignore[method-assign]  # noqa: SLF001
        judging_module.may_change = lambda _lane, _kind: True
    if "quotation" in steps:
        judging_module.is_of_user = lambda _cited: False


def write_open(reading: Reading, folder: Path) -> None:
    """Write the questions without an answer as batches that a person can answer by hand."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, batch in enumerate(reader.make_batches(reading.open.values()), 1):
        ask = batch.ask(_prompt("verify"))
        (folder / f"batch-{number:03d}.txt").write_text(ask.text, "utf-8")
        keys = {name: one.key for name, one in batch.questions if name != batch.decoy}
        (folder / f"batch-{number:03d}.keys").write_text(json.dumps({"keys": keys, "decoy": batch.decoy}), "utf-8")


def write_refused(reading: Reading, folder: Path) -> None:
    """Write the refused claims, one JSON object a line, that have no recorded rewording."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, honest in (("honest", True), ("sly", False)):
        lines = [json.dumps(one, ensure_ascii=False) for one in reading.refused.values() if one["honest"] is honest]
        (folder / f"refused-{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def record(folder: Path) -> tuple[int, int]:
    """Record answers (`batch-NNN.reply`); return their number, and the number of batches that supported a decoy."""
    known = json.loads(VERDICTS.read_text("utf-8")) if VERDICTS.is_file() else {}
    fooled = 0
    for path in sorted(folder.glob("*.reply")):
        meta = json.loads(path.with_suffix(".keys").read_text("utf-8"))
        values = {one["id"]: one for one in reader._objects(path.read_text("utf-8")) if "id" in one}  # noqa: SLF001
        fooled += values.get(meta["decoy"], {}).get("verdict") in reader.POSITIVE
        for name, key in meta["keys"].items():
            if name in values:
                known[key] = [values[name]["verdict"], *values[name].get("lost", [])]
    VERDICTS.write_text(json.dumps(dict(sorted(known.items())), ensure_ascii=False, indent=0) + "\n", "utf-8")
    return len(known), fooled


def main() -> int:
    """Judge all plays and print the tables."""
    parser = argparse.ArgumentParser(description="Count the honest claims and the lies that reach memory.")
    parser.add_argument("--transcripts", type=Path)
    parser.add_argument("--gold", type=Path)
    parser.add_argument("--open", type=Path, help="write questions without a recorded answer to this folder")
    parser.add_argument("--record", type=Path, help="record the answered batches of this folder")
    parser.add_argument("--aside", action="store_true", help="use only the held-out claims")
    parser.add_argument("--tuned", action="store_true", help="use only the claims that the judging was tuned on")
    parser.add_argument("--without", nargs="*", choices=STEPS, default=[], help="leave out these steps of the judging")
    parser.add_argument("--says", default="", help="use a reader that gives this answer to everything")
    parser.add_argument("--unrepaired", action="store_true", help="do not let the authors reword refused claims")
    parser.add_argument("--list", action="store_true", help="list each refused honest claim and each accepted lie")
    given = parser.parse_args()
    if given.record:
        print(record(given.record))
    without(given.without)
    folders = {name: path for name, path in (("transcripts", given.transcripts), ("gold", given.gold)) if path}
    repairs = {} if given.unrepaired else load_repairs()
    reading = Reading(load(), says=given.says, agrees="reader" in given.without, repairs=repairs)
    rows = [row for play in plays() for row in judged(play, folders, reading)]
    rows += trap_rows(json.loads((PLAYS / "scope_traps.json").read_text("utf-8")), reading)
    if given.aside or given.tuned:
        rows = [row for row in rows if row.aside is given.aside]
    print(table(rows, "by job", lambda row: row.job))
    print(table(rows, "by language", lambda row: row.language))
    print(spending(reading.spent))
    print(f"{reading.asked} questions in {reading.batches} batches; {len(reading.open)} without a recorded answer")
    if given.list:
        for row in rows:
            if row.accepted is not row.honest and not (row.outside and row.honest):
                kind = "refused honest" if row.honest else f"accepted lie ({row.trap}{'' if row.core else ', daily'})"
                print(f"{row.job} {row.language} {kind}: {row.text} | {row.why}")
        print(Counter(row.why for row in rows if row.honest and not row.accepted).most_common(12))
    if given.open:
        write_open(reading, given.open)
        write_refused(reading, given.open)
    return 0


if __name__ == "__main__":
    sys.exit(main())
