"""Check whether the dreams of an agent come to something.

A night is one scheduled time of the dream. It had input if a daily file was new, or if a sleep before the dream failed.
It came to nothing if the dream did not finish, or if it changed nothing and something of its reply was refused. If all
is in memory already, there is nothing to change. A night without input, a night with a paused agent and a dream by hand
that succeeded end a row of nights.
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
MOST = 3  # nights in a row that came to nothing
_WRITTEN = frozenset({"succeeded", "skipped", "declined", "cancelled", runs.PROPOSED})  # of a sleep before a dream
_CHANGED = frozenset(Disposition) - {Disposition.KEPT}


def list_unchanged(connection: Connection, agent_id: str) -> list[str]:
    """Return the runs of the last nights in a row that came to nothing, newest first, at most `MOST`."""
    sql = (
        "SELECT id, state, why, receipt FROM job_run WHERE agent_id = ? AND kind = ?"
        " AND (slot IS NOT NULL OR state = 'succeeded')"
        " AND state NOT IN ('queued', 'running', 'interrupted') ORDER BY id DESC LIMIT ?"
    )
    found: list[str] = []
    for run_id, state, why, receipt in query.fetch_rows(connection, sql, agent_id, KIND, MOST):
        if why == PAUSED or not is_unchanged(state, json.loads(receipt)):
            break
        found.append(run_id)
    return found


def is_unchanged(state: str, receipt: Mapping[str, Any]) -> bool:
    """Return True if a night came to nothing, judged by the state and the report of its run."""
    told = receipt.get(KIND, {})
    if state == runs.PROPOSED or "waits_for" in receipt or "proposal" in receipt:
        return False
    if state == "skipped":
        # With a report, the dream found nothing new, so only a failed sleep counts as input. Without one, an earlier
        # dream was still open.
        return not told or any(how not in _WRITTEN for how in told.get("flushed", {}).values())
    if state != "succeeded":
        return state != "cancelled"
    ends, claims = told.get("dispositions", {}), told.get("claims", {})
    is_refused = told.get("refusals") or told.get("unreadable") or any(how.startswith("refused") for how in claims)
    return bool(is_refused) and not (told.get("added") or any(ends.get(how) for how in _CHANGED))


def review(runner: Runner) -> None:
    """Raise the alarm for each agent whose last nights came to nothing; clear it for the others."""
    for agent in runner.settings.agents:
        found = sqlite.read(runner.engine, list_unchanged, agent.id)
        text = f"on {MOST} nights, the dream failed or all that it wanted was refused: {', '.join(found)}"
        runner.set_alarm(ALARM, text if len(found) >= MOST else None, agent.id)
