"""Roll an agent's sessions over on request, including open NOW files and those of interrupted sessions."""

from datetime import timedelta
from typing import Any

from memoryd.clock import Clock
from memoryd.config import Agent, Settings
from memoryd.daemon.once import read_all
from memoryd.errors import LockedError
from memoryd.files import regular
from memoryd.requests import access, daemon_client, jobs_by_hand, permission, waiting
from memoryd.requests.jobs_by_hand import JobRequest
from memoryd.requests.upkeep import show_diff
from memoryd.running import now_files, rollover


def consolidate(
    settings: Settings, agent: Agent, *, scheduled: bool = False, dry_run: bool = False, by: permission.Caller = "owner"
) -> dict[str, Any]:
    """Roll over an agent's sessions so far, and wait. Return the run and its files, or the diffs of a dry run.

    Args:
        settings: The configuration.
        agent: The agent of the sessions.
        scheduled: Take only due sessions, and NOW files older than `sessions.stale_after`, as the nightly job does.
        dry_run: Return the diffs, as `would`, and change nothing.
        by: The caller.

    Raises:
        RefusedError: This caller has no permission, the agent is not enabled, or a dry run would show private content.
        MemorydError: The run failed.
    """
    permission.require(settings, agent, "consolidate", by, "consolidate")
    back = settings.sessions.stale_after if scheduled else timedelta()
    asked = JobRequest(before=Clock().text(ahead=-back), scheduled=scheduled)
    if dry_run:
        access.require(settings, agent, "consolidate --dry-run")
        return {"run": None, "state": "dry-run", "why": None, "files": [], "would": _try(settings, agent, asked)}
    return _carry_out(settings, agent, asked)


def recover(settings: Settings, agent: Agent, hours: float = 24, *, consolidate: bool = False) -> dict[str, Any]:
    """Return the NOW files older than `hours` that were never rolled over (`stale`). `consolidate` rolls them over.

    Raises:
        RefusedError: This caller may not start a rollover.
        MemorydError: The run failed.
    """
    clock = Clock()
    found = [
        {"path": file.path, "began": None if file.began is None else file.began.isoformat(), "ended": file.end}
        for file in now_files.list_stale(settings, agent.id, clock.now() - timedelta(hours=hours))
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
    """Return the path and a unified diff for each file that would change."""
    _read(settings)
    would = []
    for row in jobs_by_hand.run_dry(settings, rollover.KIND, agent, asked):
        for one in row["would"]:
            old, new = regular.read_in(agent.workspace, one["where"]) or b"", one["content"].encode()
            new = old + b"\n" + new if one["what"] == "append" else new
            would.append({"path": one["where"], "diff": show_diff(old, new, one["where"])})
    return would


def _read(settings: Settings) -> None:
    """Read the transcripts up to their present end, by the daemon or in this process."""
    from memoryd.app import open_app

    try:
        with open_app(settings) as app:
            read_all(app)
    except LockedError:
        daemon_client.ask(settings.state_dir, "read", path="/")  # "/" stands for all folders
