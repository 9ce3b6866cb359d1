"""Roll an agent's sessions over on request: the open NOW files as well, and those that were left behind."""

import difflib
from datetime import timedelta
from typing import Any

from memoryd.clock import Clock
from memoryd.config import Agent, Settings
from memoryd.daemon.once import read_all
from memoryd.errors import LockedError
from memoryd.files import regular
from memoryd.requests import access, daemon_client, jobs_by_hand, permission, waiting
from memoryd.requests.jobs_by_hand import JobRequest
from memoryd.running import now_files, rollover


def consolidate(
    settings: Settings,
    agent: Agent,
    *,
    scheduled: bool = False,
    dry_run: bool = False,
    by: permission.Caller = "owner",
) -> dict[str, Any]:
    """Roll an agent's sessions over, as far as they are, and wait; return the run and its files, or the diffs.

    Args:
        settings: the configuration.
        agent: the agent of the sessions.
        scheduled: take only due sessions, and NOW files older than `sessions.stale_after`, as at night.
        dry_run: return the changes, as `would`, and change nothing.
        by: the caller.

    Raises:
        RefusedError: this caller may not, the agent is not enabled, or a dry run would show private content.
        MemorydError: the run failed.
    """
    permission.require(settings, agent, "consolidate", by, "consolidate")
    back = settings.sessions.stale_after if scheduled else timedelta()
    asked = JobRequest(before=Clock().text(ahead=-back), scheduled=scheduled)
    if dry_run:
        access.require(settings, agent, "consolidate --dry-run")
        return {"run": None, "state": "dry-run", "why": None, "files": [], "would": _try(settings, agent, asked)}
    return _carry_out(settings, agent, asked)


def recover(settings: Settings, agent: Agent, hours: float = 24, *, consolidate: bool = False) -> dict[str, Any]:
    """List the NOW files that are older than so many hours and were never rolled over; with `consolidate`, do it.

    Raises:
        RefusedError: this caller may not start a rollover.
        MemorydError: the run failed.
    """
    clock = Clock()
    before = clock.now() - timedelta(hours=hours)
    found = [
        {"path": file.path, "began": None if file.began is None else file.began.isoformat(), "ended": file.end}
        for file in now_files.list_stale(settings, agent.id, before)
    ]
    if not (consolidate and found):
        return {"stale": found, "run": None}
    permission.require(settings, agent, "consolidate", "owner", "recover")
    done = _carry_out(settings, agent, JobRequest(before=clock.text(ahead=-timedelta(hours=hours))))
    return {"stale": found, **done}


def _carry_out(settings: Settings, agent: Agent, asked: JobRequest) -> dict[str, Any]:
    row = waiting.require_done(jobs_by_hand.run_job(settings, rollover.KIND, agent.id, asked)[-1])
    files = [
        {"path": file["path"], "removed": file.get("after", "") is None} for file in row["receipt"].get("files", ())
    ]
    return {"run": row["id"], "state": row["state"], "why": row["why"], "files": files}


def _try(settings: Settings, agent: Agent, asked: JobRequest) -> list[dict[str, str]]:
    """Return a unified diff of each file that would change."""
    _read(settings)
    would = []
    for row in jobs_by_hand.run_dry(settings, rollover.KIND, agent, asked):
        for one in row["would"]:
            old = (regular.read_in(agent.workspace, one["where"]) or b"").decode(errors="replace")
            new = f"{old}\n{one['content']}" if one["what"] == "append" else one["content"]
            lines = difflib.unified_diff(
                old.splitlines(), new.splitlines(), f"a/{one['where']}", f"b/{one['where']}", lineterm=""
            )
            would.append({"path": one["where"], "diff": "\n".join(lines)})
    return would


def _read(settings: Settings) -> None:
    """Let the daemon, or this process, read the transcripts so far."""
    from memoryd.app import open_app

    try:
        with open_app(settings) as app:
            read_all(app)
    except LockedError:
        daemon_client.ask(settings.state_dir, "read", path="/")  # all folders
