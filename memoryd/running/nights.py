"""Check whether the dreams of an agent change anything.

A night is one scheduled time of the dream. It had input if a daily file was new, or if a sleep before the dream failed.
It had an outcome if a memory changed, or if a proposal was made. A night without input, or with a paused agent, ends a
row of nights.
"""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from memoryd.database import query, runs, sqlite
from memoryd.ledger.operation import Disposition
from memoryd.running.dreaming import KIND, PAUSED
from memoryd.running.runner import Runner

ALARM = "nights"
MOST = 3  # nights in a row with input and without outcome
_WRITTEN = frozenset({"succeeded", "skipped", "declined", "cancelled", runs.PROPOSED})  # of a sleep before a dream
_CHANGED = frozenset(Disposition) - {Disposition.KEPT}


def list_unchanged(connection: Connection, agent_id: str) -> list[str]:
    """Return the runs of the last nights in a row that had input and no outcome, newest first, at most `MOST`."""
    sql = (
        "SELECT id, state, why, receipt FROM job_run WHERE agent_id = ? AND kind = ? AND slot IS NOT NULL"
        " AND state NOT IN ('queued', 'running', 'interrupted') ORDER BY slot DESC LIMIT ?"
    )
    found: list[str] = []
    for run_id, state, why, receipt in query.fetch_rows(connection, sql, agent_id, KIND, MOST):
        if why == PAUSED or not is_unchanged(state, json.loads(receipt)):
            break
        found.append(run_id)
    return found


def is_unchanged(state: str, receipt: Mapping[str, Any]) -> bool:
    """Return True if a night had input and no outcome, judged by the state and the report of its run."""
    told = receipt.get(KIND, {})
    if state == runs.PROPOSED or "waits_for" in receipt or "proposal" in receipt:
        return False
    if state == "skipped":
        # With a report, the dream found nothing new, so only a failed sleep counts as input. Without one, an earlier
        # dream was still open.
        return not told or any(how not in _WRITTEN for how in told.get("flushed", {}).values())
    if state != "succeeded":
        return state != "cancelled"
    ends = told.get("dispositions", {})
    return not told.get("added") and not any(ends.get(how) for how in _CHANGED)


def review(runner: Runner) -> None:
    """Raise the alarm for each agent whose last nights changed nothing; clear it for the others."""
    for agent in runner.settings.agents:
        found = sqlite.read(runner.engine, list_unchanged, agent.id)
        text = f"{MOST} nights had something to dream of and changed nothing: {', '.join(found)}; see job show"
        runner.set_alarm(ALARM, text if len(found) >= MOST else None, agent.id)
