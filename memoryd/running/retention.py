"""Prune memoryd's own files: old logs, rows of runs that changed nothing, and databases that were put aside.

Never anything of a workspace: the backups there are what an earlier file comes back from. Never a run that changed
memory, spent tokens or used a slot of the schedule: receipts, accounts and "once a day" hang on their rows.
"""

from __future__ import annotations

from sqlalchemy import Engine

from memoryd.clock import Clock, text_of
from memoryd.config import Settings
from memoryd.database import runs, sqlite
from memoryd.files import state_files
from memoryd.files.log import Log


def prune(engine: Engine, settings: Settings, clock: Clock, log: Log) -> None:
    """Delete what is older than `retention` allows; keep everything without a limit."""
    now, wanted = clock.now(), settings.retention
    gone: list[str] = []
    if wanted.logs is not None:
        gone += state_files.remove(state_files.old_logs(settings.state_dir, now - wanted.logs))
    if wanted.copies is not None:
        gone += state_files.remove(state_files.old_copies(settings.state_dir, now - wanted.copies))
    rows = 0
    if wanted.runs is not None:
        rows = sqlite.write(engine, runs.prune, text_of(now - wanted.runs))
    if gone or rows:
        log.info("old state deleted", files=gone, runs=rows)
