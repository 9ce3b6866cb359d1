"""Delete memoryd's own old data: logs, rows of runs without effect, texts of old turns, databases that were put aside.

Nothing in a workspace is deleted, because its backups are needed to restore files. Runs that changed memory, spent
tokens or used a scheduled time are kept, because reports, token counts and "once a day" depend on their rows.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from sqlalchemy import Engine

from memoryd.clock import Clock, text_of
from memoryd.config import Settings
from memoryd.database import runs, sqlite, turns, vault
from memoryd.files import state_files
from memoryd.files.log import Log


def prune(
    engine: Engine, settings: Settings, clock: Clock, log: Log, drop_indexed: Callable[[str, Sequence[str]], None]
) -> None:
    """Delete what is older than `retention` allows, and compress old turns. Without a limit, nothing is deleted.

    `drop_indexed` removes sessions of an agent from the search index.
    """
    now, wanted = clock.now(), settings.retention
    gone: list[str] = []
    for kept, list_old in ((wanted.logs, state_files.old_logs), (wanted.copies, state_files.old_copies)):
        if kept is not None:
            gone += state_files.remove(list_old(settings.state_dir, now - kept))
    rows = 0 if wanted.runs is None else sqlite.write(engine, runs.prune, text_of(now - wanted.runs))
    sessions = 0
    if wanted.turns is not None:
        found = sqlite.read(engine, vault.find_expired, text_of(now - wanted.turns))
        for agent_id, expired in found.items():
            # The rows are changed last, so that a call that is stopped is repeated for the same sessions.
            drop_indexed(agent_id, expired)
            paths = map(Path, sqlite.read(engine, turns.list_paths, expired))
            gone += state_files.remove([path for path in paths if path.is_relative_to(settings.state_dir)])
            sqlite.write(engine, vault.expire, expired)
            sessions += len(expired)
    if gone or rows or sessions:
        log.info("old state deleted", files=gone, runs=rows, sessions=sessions)
    last: int | None = 0
    while last is not None:
        last = sqlite.write(engine, vault.pack_portion, text_of(now - vault.QUIET), last)
