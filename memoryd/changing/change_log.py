"""Write an entry to `consolidation.log` for each run, with names of files and counts, but without content."""

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from memoryd.changing.time_machine import encode_append
from memoryd.clock import moment_of
from memoryd.database.runs import Run
from memoryd.files import regular
from memoryd.files.open_folder import OpenFolder
from memoryd.tiers.archive import FOLDER
from memoryd.tiers.consolidation_log import NAME, LogEntry, LoggedFile, render_entry

_ACTIONS = {
    "sleep": "Sleep", "dream": "Deep dream", "refine": "Refinement session", "dedup": "Duplicate clean-up",
    "rollover": "Rollover NOW → RECENT", "save": "Note saved", "update": "Memory updated",
    "import": "Edit of MEMORY.md taken over", "rollback": "Rollback", "forget": "Forgetting",
}  # fmt: skip
_SCHEDULED = "Scheduled consolidation"
_ROLLOVER = "rollover"


def plan_entry(workspace: OpenFolder, run: Run, now: str, intent: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the append of a run's log entry, in the form of an intent; None if the run changes no file."""
    files = [_of_rewrite(workspace, item) for item in intent["rewrites"]]
    files += [_of_append(workspace, item) for item in intent["appends"]]
    if not files:
        return None
    is_scheduled = run.kind == _ROLLOVER and (run.trigger == "schedule" or bool(run.options.get("scheduled")))
    action = _SCHEDULED if is_scheduled else _ACTIONS.get(run.kind, run.kind.replace("-", " ").capitalize())
    by = f"{run.options.get('by') or run.actor}, {run.trigger}, {run.id}"
    entry = render_entry(LogEntry(moment_of(now), action, tuple(files), tuple(_list_changes(intent)), by)).decode()
    path = f"{FOLDER}/{NAME}"
    return encode_append(path, regular.read_below(workspace, path), entry, "")


def _list_changes(intent: Mapping[str, Any]) -> Sequence[str]:
    """Return lines for people: how many memories the run changed in each way, and how many sessions it wrote about."""
    counts = Counter(operation for operation, *_ in intent["changes"])
    lines = [f"{name} of memories: {number}" for name, number in sorted(counts.items())]
    told = len(intent["rows"].get("told", ()))
    return [*lines, f"sessions: {told}"] if told else lines


def _of_rewrite(workspace: OpenFolder, item: Mapping[str, Any]) -> LoggedFile:
    after = None if item["bytes"] is None else _count(base64.b64decode(item["bytes"]))
    return LoggedFile(item["path"], _count_now(workspace, item["path"]), after)


def _of_append(workspace: OpenFolder, item: Mapping[str, Any]) -> LoggedFile:
    before = _count_now(workspace, item["path"])
    block = item["block"] if before is not None else item["create"] + item["block"]
    return LoggedFile(item["path"], before, (before or 0) + _count(block.encode()))


def _count_now(workspace: OpenFolder, path: str) -> int | None:
    data = regular.read_below(workspace, path)
    return None if data is None else _count(data)


def _count(data: bytes) -> int:
    return len(data.splitlines())
