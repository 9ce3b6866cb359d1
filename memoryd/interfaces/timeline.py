"""Render a run for people: a sentence about it, and the calls of a refinement. Texts need permission."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

from memoryd.config import Agent, Settings
from memoryd.counted import count_noun
from memoryd.database import reads
from memoryd.database.reads import DatabaseReader
from memoryd.interfaces.output import one_line, tell_time
from memoryd.jobs.tally import RefinementTally
from memoryd.ledger.memory import PREFIXES, MemoryKind
from memoryd.requests import access

REFINE = "refine"
_CORE = PREFIXES[MemoryKind.CORE]
# Phrases of `describe_run` for the states of a run.
_STATES = {
    "queued": "waits for its turn since {at}",
    "running": "runs since {at}",
    "interrupted": "was interrupted {at} and runs again by itself",
    "blocked": "waits since {at} for something that only you can fix",
    "proposed": "waits since {at} for your answer (memoryd job accept {id}, or reject)",
    "skipped": "had nothing to do {at}",
    "dead": "failed {at}, after {attempts}, and is not retried",
    "declined": "was declined {at}",
    "cancelled": "was cancelled {at}",
}


def describe_run(run: Mapping[str, Any], zone: tzinfo, now: datetime | None = None) -> str:
    """Return one sentence about a run: its agent, its state and time, and its result or the reason."""
    at = tell_time(run["finished_at"] or run["started_at"] or run["created_at"], zone, now or datetime.now(UTC))
    state = _STATES.get(run["state"], f"{run['state']} {{at}}").format(
        at=f"on {at}" if "-" in at else at, id=run["id"], attempts=count_noun(run["attempt"], "attempt")
    )
    files = " and ".join(item["path"] for item in run["receipt"].get("files", ()))
    # The calls of a refinement write MEMORY.md themselves, so the run report lists no files.
    refined = run["receipt"].get("refine", {})
    changed = count_refined(refined) if refined.get("mutations") else "it wrote no file"
    wrote = f"it wrote {files}" if files else changed
    why = run["error"] or run["why"] or (wrote if run["state"] == "succeeded" else "")
    return one_line(f"The {run['kind']} run for agent {run['agent_id']} {state}{': ' if why else ''}{why}.")


def read_contents(settings: Settings, agent: Agent, reader: DatabaseReader, run_id: str) -> list[dict[str, Any]]:
    """Return the texts of the memories that a run changed, before and after, without texts the person may not see."""
    told = [
        {"id": row["memory_id"], "content": _read_content(row["after"]), "was": _read_content(row["before"])}
        for row in reads.states_of_run(reader, run_id)
        if row["memory_id"].startswith(_CORE) and row["operation"] != "rollback"
    ]
    return access.show_rows(settings, agent, "job show --content", told, "content", "was")


def read_claims(
    settings: Settings, reader: DatabaseReader, run: Mapping[str, Any], *, wanted: bool
) -> list[Any] | dict[str, int]:
    """Return the verdict on each claim of a run's reply.

    If `wanted` is False or the person may not see texts, return the number of claims by verdict instead.
    """
    found = reads.read_claims(reader, run["id"])
    agent = settings.find_agent(run["agent_id"])
    if not found or (wanted and agent is not None and access.may_read(settings, agent, "job show")):
        return found
    return dict(Counter(one["verdict"] for one in found))


def claim_lines(found: list[Any] | dict[str, int]) -> list[str]:
    """Render claims for people, a line each, or their counts on one line."""
    if isinstance(found, dict):
        return [f"claims         {', '.join(f'{verdict} {count}' for verdict, count in found.items())}"]
    return [
        f"  {one['verdict']:8} at step {one['step']:7} {one_line(one['claim'])} [{', '.join(one['cites'])}]"
        + (f": {one_line(one['why'])}" if one["why"] else "")
        + (" (after one repair)" if one["repaired"] else "")
        for one in found
    ]


def _read_content(state: object) -> str | None:
    return None if state is None else str(json.loads(str(state))["content"])


def count_refined(refined: Mapping[str, Any]) -> str:
    """Return the counts of a refinement in words."""
    return RefinementTally(**refined.get("counted", {})).describe()


def render_lines(refined: Mapping[str, Any], texts: Sequence[Mapping[str, Any]] = ()) -> Iterator[str]:
    """Yield the lines that describe a refinement: one for each call, with the texts of its memories if given."""
    start, end = refined["start"], refined.get("end")
    ended = f" → {end['tokens']:,}" if end else ""
    size = f"{start['memories']} memories, {start['tokens']:,}{ended} tokens"
    how = refined.get("ended") or "under way"
    why = f": {refined['why']}" if refined.get("why") else ""
    undone = "; reverted" if refined.get("rolled_back") else ""
    yield f"refinement     {refined['mode']}, {size}, {how}{why}{undone}"
    yield f"counted        {count_refined(refined)}"
    if refined.get("unfounded"):
        yield f"unfounded      {', '.join(refined['unfounded'])}: the summary claims otherwise"
    said = {row["id"]: row for row in texts}
    for number, call in enumerate(refined["timeline"], 1):
        tokens = f" {call['before']} → {call['after']} tokens" if "before" in call else ""
        yield f"  {number:3} {call['tool']:20} {call['verdict']}{tokens} {' '.join(call['ids'])}".rstrip()
        for one in call["ids"] if call["verdict"] == "done" else ():
            row = said.pop(one, None)
            if row is not None:
                yield f"      {one}: {one_line(access.text_of(row['content'], dict(row)))}"
    if refined.get("untold"):
        yield f"  and {refined['untold']} more calls"
