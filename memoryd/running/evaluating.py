"""Evaluate memory and dreams: check whether the memory of a past time answers the user's later questions.

Memory is reconstructed as it was when the session of a question began: blocks of daily files by their times, and the
core by a replay of the audit. So no question is answered by its own session. Only numbers leave this module.

An evaluation runs once a week, after a dream. If dreams lose twice in a row, they are held at `propose` (in private
mode at `off`). They are released by an evaluation that does not lose, or by a person.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine

from memoryd.clock import Clock, text_of
from memoryd.config import Agent, Settings
from memoryd.counted import count_noun
from memoryd.database import alarms, audit, job_modes, query, sqlite, turns
from memoryd.database.runs import Run
from memoryd.files import regular
from memoryd.jobs.exchanges import set_aside_scheduled, split_exchanges
from memoryd.jobs.signals import Signal, find_signals
from memoryd.ledger.memory import PREFIXES, MemoryKind
from memoryd.recall.evaluation import FEWEST, DatedEntry, Evaluation, PastQuestion, evaluate, is_question, list_terms
from memoryd.running import dreaming, queueing
from memoryd.running.modes import OFF, PROPOSE
from memoryd.running.runner import Runner
from memoryd.scrub.hidden import mask_hidden
from memoryd.tiers import daily

KIND = "eval"
ALARM = "dream-loses"
DAYS = 7  # days between two evaluations, and the days that each covers, so that no question is used twice
IN_A_ROW = 2
MOST_QUESTIONS = 200  # the newest are used
LOSES = "loses"
_CORE = PREFIXES[MemoryKind.CORE]


# --- the question -----------------------------------------------------------------------------------------------------


def of_agent(engine: Engine, settings: Settings, agent: Agent, now: datetime, days: int) -> Evaluation:
    """Return the evaluation of an agent's memory by the questions of its last days."""
    entries = _entries(agent.workspace, settings)
    last_said: dict[str, str] = {}
    with sqlite.begin_read(engine) as connection:
        since = text_of(now - timedelta(days=days))
        asked = sorted(_read_questions(connection, agent.id, since, last_said), key=lambda one: one.since)
        questions = list(_with_core(connection, agent.id, asked[-MOST_QUESTIONS:]))
    most, recent = settings.injection.files_max_tokens, settings.sessions.recent_sessions
    return evaluate(questions, entries, most, recent, last_said)


def _read_questions(
    connection: Connection, agent_id: str, since: str, last_said: dict[str, str]
) -> Iterator[PastQuestion]:
    """Yield answered questions that the user did not correct; `last_said` gets the time of each word's last use."""
    sql = "SELECT id, started_at, seen_at FROM session WHERE agent_id = ? AND parent_id IS NULL AND last_turn_at >= ?"
    for session_id, started_at, seen_at in query.fetch_rows(connection, sql, agent_id, since):
        found = split_exchanges(set_aside_scheduled(turns.stored_turns(connection, session_id, main_only=True)))
        for number, one in enumerate(found):
            began = started_at or one.asked[0].at or seen_at
            for turn in (*one.asked, *one.answered):
                # `__wrapped__` avoids the cache, which would keep whole transcripts in memory.
                for term in list_terms.__wrapped__(turn.text):
                    last_said[term] = max(began, last_said.get(term, ""))
            question = "\n".join(turn.text for turn in one.asked)
            if not one.complete or (one.asked[0].at or "") < since or not is_question(question):
                continue
            then = "\n".join(turn.text for turn in found[number + 1].asked) if number + 1 < len(found) else ""
            if Signal.CORRECTION not in find_signals(then):
                yield PastQuestion(question, one.answered[-1].text, began)


# --- the memory -------------------------------------------------------------------------------------------------------


def _entries(workspace: Path, settings: Settings) -> list[DatedEntry]:
    """Return the entries of the daily files, in order, each bullet or paragraph with the time of its block."""
    found = []
    for day in dreaming.list_days(workspace):
        file = daily.parse(mask_hidden(regular.read_in(workspace, f"memory/{day}.md") or b""))
        for _, block in file.list_sections():
            at, session = dreaming.date_entry(settings, day, block.clock), daily.session_of(block.body)
            found += [DatedEntry(text, at, session) for _, text in daily.split_pieces(block.raw)]
    return sorted(found, key=lambda one: one.at)


def _with_core(
    connection: Connection, agent_id: str, asked: Sequence[PastQuestion]
) -> Iterator[tuple[PastQuestion, tuple[str, ...]]]:
    """Yield each question with the core at the beginning of its session, ordered by that time."""
    changes = iter([one for one in audit.read_entries(connection, agent_id) if one.memory_id.startswith(_CORE)])
    change = next(changes, None)
    text_of_state = audit.make_text_reader(connection)
    core: dict[str, str] = {}
    for one in asked:
        moved: dict[str, str | None] = {}
        while change is not None and change.at < one.since:
            moved[change.memory_id] = change.after
            change = next(changes, None)
        for memory_id, digest in moved.items():
            state = json.loads((digest and text_of_state(digest)) or "{}")  # an erased state counts as no text
            core.pop(memory_id, None)
            if state and state["deleted_at"] is None:
                core[memory_id] = state["content"]
        yield one, tuple(core.values())


def as_row(found: Evaluation) -> dict[str, Any]:
    """Return an evaluation in the form of reports and commands: numbers, without texts."""

    def count_tally(tally: Any) -> dict[str, Any]:
        count = max(1, found.counted)
        return {"hits": tally.hits, "rate": round(tally.hits / count, 4), "tokens": round(tally.tokens / count)}

    rate = round(found.untouched / max(1, found.lines), 4)
    return {
        **{name: getattr(found, name) for name in ("asked", "counted", "wins", "losses", "verdict")},
        "dailies": count_tally(found.days),
        **{name: count_tally(getattr(found, name)) for name in ("consolidated", "core", "injected", "found")},
        "noise": {"lines": found.lines, "untouched": found.untouched, "rate": rate},
    }


def verdict_text(told: Mapping[str, Any]) -> str:
    """Return the verdict of an evaluation, as text for people."""
    if told["counted"] < FEWEST:
        return f"too few questions to judge: {told['counted']}, and it takes {FEWEST}"
    return str(told["verdict"])


def as_text(told: Mapping[str, Any], days: int) -> str:
    """Return an evaluation as text for people: what each number means, and whether it is good."""
    since = f"in the last {count_noun(days, 'day')}"
    if not told["asked"]:
        return f"You have asked nothing {since} that was answered and that you let stand: there is nothing to go by."
    asked = (
        f"{count_noun(told['asked'], 'question')} of yours {since} got an answer that you let stand. Counted are\n"
        f"those whose answer memory could have known when the session began: {told['counted']:,}."
    )
    if not told["counted"]:
        return f"{asked} None of them counts, so the effect of dreaming is not known."
    lines = [asked, "", *_list_uses(told), "", "Of these memory finds the answer to (more is better):"]
    lines += [_line(told[key], told["counted"], how) for key, how in _RETRIEVALS.items()]
    wins, losses = told["wins"], told["losses"]
    lines += [
        "The first two have the same token budget. Dreams write the core, so the first should be above the second.",
        "",
        f"{_phrase_count(wins)} answered only with the core (more is better).",
        f"{_phrase_count(losses)} answered only without the core (fewer is better).",
        _verdict(told),
    ]
    return "\n".join(lines)


_RETRIEVALS = {
    "consolidated": "with the core, and a search of the daily files in the room that it leaves",
    "dailies": "by a search of the daily files alone",
    "core": "with the core alone: what it is worth where nobody searches",
}


def _list_uses(told: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines about the use of memory that do not concern dreams."""
    injected, found, noise = (f"{told[key]['rate']:.0%}".replace("%", " %") for key in ("injected", "found", "noise"))
    answered = f"An injected line answers {injected}, and one of the first three hits of a search {found}"
    yield f"{answered} of these questions (more is better)."
    yield f"Of the injected lines, {noise} are noise: no session that followed mentions them (fewer is better)."


def _line(tally: Mapping[str, Any], of: int, how: str) -> str:
    cost = f"({count_noun(tally['tokens'], 'token')} a question)"
    return f"{tally['hits']:4,} of {of:,}, {tally['rate']:3.0%}".replace("%", " %") + f"  {how} {cost}"


def _phrase_count(number: int) -> str:
    return f"{number:,} {'was' if number == 1 else 'were'}"


def _verdict(told: Mapping[str, Any]) -> str:
    if told["counted"] < FEWEST:
        count = f"{count_noun(told['counted'], 'question')} {'counts' if told['counted'] == 1 else 'count'}"
        return f"There is no result yet: {count}, and it takes {FEWEST}. --days N looks further back."
    if told["verdict"] == LOSES:
        held = f"The weekly runs hold dreams back after {IN_A_ROW} in a row; memoryd job trust dream lets them go on."
        return f"Bad: dreaming makes answers worse, by more than luck would. {held}"
    if told["verdict"] == "helps":
        return "Good: dreaming helps, by more than luck would."
    return "Neither good nor bad: a difference as small may be luck, and dreams go on."


# --- the consequence --------------------------------------------------------------------------------------------------


def queue(engine: Engine, settings: Settings, clock: Clock, slot: str) -> None:
    """Queue an evaluation of each agent that has a new dream and no evaluation in the last week."""
    since = text_of(clock.now() - timedelta(days=DAYS) + timedelta(hours=1))  # tolerance of an hour
    for agent in settings.agents:
        with sqlite.begin_read(engine) as connection:
            sql = "SELECT max(created_at) FROM job_run WHERE agent_id = ? AND kind = ? AND slot IS NOT NULL"
            last = query.fetch_text(connection, sql, agent.id, KIND) or ""
            sql = "SELECT 1 FROM job_run WHERE agent_id = ? AND kind = ? AND state = 'succeeded' AND finished_at > ?"
            has_dreamt = query.has_row(connection, sql, agent.id, dreaming.KIND, last)
        if not agent.enabled or last > since or not has_dreamt:
            continue
        more = {"slot": f"{KIND}:{agent.id}:{slot}", "scheduled_for": clock.text(ahead=timedelta(seconds=2))}
        sqlite.write(engine, queueing.queue, clock, KIND, agent.id, trigger="schedule", **more)


def carry_out(runner: Runner, run: Run) -> None:
    """Evaluate an agent's memory, hold or release its dreams, and end the run."""
    runner.workspace_of(run)  # raises an error if the folder is gone
    agent = runner.settings.get_agent(run.agent_id)
    told = as_row(of_agent(runner.engine, runner.settings, agent, runner.clock.now(), DAYS))
    now = runner.clock.text()
    with sqlite.begin_write(runner.engine) as connection:
        sql = (
            "SELECT json_extract(receipt, '$.eval.verdict') FROM job_run WHERE agent_id = ? AND kind = ?"
            " AND state = 'succeeded' AND id <> ? ORDER BY finished_at DESC, id DESC LIMIT ?"
        )
        verdicts = [told["verdict"], *query.fetch_column(connection, sql, run.agent_id, KIND, run.id, IN_A_ROW)]
        if verdicts[:IN_A_ROW] == [LOSES] * IN_A_ROW:
            mode = OFF if agent.privacy == "silo" else PROPOSE
            why = f"it has lost {IN_A_ROW} evaluations in a row"
            job_modes.hold(connection, agent.id, dreaming.KIND, mode, now=now, why=why)
            text = f"dreams made answers worse, held to {mode}: job show {run.id}; memoryd job trust dream ends that"
            alarms.raise_alarm(connection, kind=ALARM, text=text, now=now, agent_id=agent.id)
        elif told["verdict"] != LOSES and told["counted"]:
            let_go(connection, agent.id, dreaming.KIND, now)
    runner.end(run, "succeeded", why=verdict_text(told), receipt={KIND: told})


def let_go(connection: Connection, agent_id: str, kind: str, now: str) -> bool:
    """Let the configuration apply to a kind of job again; return False if the kind was not held."""
    if kind == dreaming.KIND:
        alarms.clear_alarm(connection, kind=ALARM, now=now, agent_id=agent_id)
    return job_modes.let_go(connection, agent_id, kind)
