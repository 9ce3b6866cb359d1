"""Return the lists of the admin page, which commands and Python programs also use: memories, runs, audit, dreams."""

import json
import re
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from memoryd.changing import guard_check
from memoryd.clock import Clock, moment_of, text_of
from memoryd.config import Agent, Settings
from memoryd.database import audit, reads
from memoryd.files import regular
from memoryd.files.log import log_path
from memoryd.files.log_reader import LogFilter, read
from memoryd.gauge.estimate import estimate
from memoryd.gauge.fill import fill_of
from memoryd.ledger import audit as chain
from memoryd.ledger.facts import ProfileSection
from memoryd.ledger.guards import Guard
from memoryd.requests import daemon_client, opening, status

Wanted = Mapping[str, str | None]  # required value by column; None or a missing column allows any
PAGE = 100  # rows per page
DAYS = 30  # days in a chart
_LIST = ("tags", "derived_from", "sources", "successors")
# Columns that anybody may see. None of them contains a text, heading, tag or category, or a name that an agent chose.
MEMORY_KEEPS = (
    *("id", "kind", "tokens", "confidence", "importance", "constitutional", "origin_at", "created_at", "updated_at"),
    *("deleted_at", "ended_as", "successors", "derived_from", "source_count"),
)
RUN_KEEPS = (
    *("id", "kind", "agent_id", "session_id", "actor", "trigger", "state", "attempt", "created_at", "scheduled_for"),
    *("started_at", "heartbeat_at", "finished_at", "tokens_in", "tokens_out", "guards", "verdicts", "calls", "counts"),
    *("phases", "undone"),
)
AUDIT_KEEPS = ("id", "at", "agent_id", "by", "trigger", "actor", "operation", "memory_id", "run_id")
_OWN_ID = re.compile(r"(core|fact|jrnl)_[0-9a-f]{8}")
LOG_KEEPS = ("at", "level", "logger", "event", "agent", "run", "kind", "state", "tokens", "seconds", "turns", "count")
_VERDICTS = frozenset({"done", "refused", "error", "protected", *map(str, Guard)})


class MemoryQuery(NamedTuple):
    """Select memories: live or ended, of one kind, `limit` rows from row `start` on."""

    ended: bool = False
    kind: str | None = None
    start: int = 0
    limit: int = PAGE


ALL: Wanted = {}


def _ask(settings: Settings, sql: str, *values: object) -> list[dict[str, Any]]:
    """Return rows of the database; an empty list if there is no database yet."""
    return reads.ask_for_list(settings, reads.DatabaseReader.rows, sql, *values)


def _memory(row: dict[str, Any]) -> dict[str, Any]:
    """Return a memory with its tokens and its sources, without the internal columns of the ledger."""
    told = row | {name: json.loads(row[name] or "[]") for name in _LIST}
    return {name: value for name, value in told.items() if name not in {"salt", "content_hash", "sources"}} | {
        "tokens": estimate(row["content"]),
        "source_count": len(told["sources"]),
        "sources": [f"{one['session']}#{one.get('seq') or one['record_id']}" for one in told["sources"]],
        "constitutional": bool(row["constitutional"]),
    }


def list_memories(settings: Settings, agent: Agent, asked: MemoryQuery) -> list[dict[str, Any]]:
    """Return memories of an agent: live ones in the order of the file, ended ones with the newest end first."""
    order = "deleted_at DESC, id" if asked.ended else "kind, position IS NULL, position, created_at, id"
    rows = _ask(
        settings,
        f"SELECT * FROM memory WHERE agent_id = ? AND (deleted_at IS NOT NULL) = ? AND (? IS NULL OR kind = ?)"  # noqa: S608
        f" ORDER BY {order} LIMIT ? OFFSET ?",
        agent.id, asked.ended, asked.kind, asked.kind, asked.limit, asked.start,
    )  # fmt: skip
    return [_memory(row) for row in rows]


def count_memories(settings: Settings, agent: Agent) -> dict[str, int]:
    """Count an agent's live memories by kind, the ended ones as `ended`, and the live protected ones as `protected`."""
    rows = _ask(
        settings,
        "SELECT kind, deleted_at IS NOT NULL AS ended, count(*) AS n, sum(constitutional) AS kept FROM memory"
        " WHERE agent_id = ? GROUP BY 1, 2",
        agent.id,
    )
    told: Counter[str] = Counter()
    for row in rows:
        told["ended" if row["ended"] else row["kind"]] += row["n"]
        told["protected"] += 0 if row["ended"] else int(row["kept"] or 0)
    return dict(told)


def get_memory(settings: Settings, agent: Agent, memory_id: str) -> dict[str, Any]:
    """Return one memory of an agent, with its changes as `history`."""
    with reads.open_reader(reads.database_path(settings)) as reader:
        row = reads.find_memory(reader, agent.id, memory_id)
        return _memory(row) | {"history": reads.read_history(reader, agent.id, row["id"])}


def list_runs(settings: Settings, *, limit: int = PAGE, start: int = 0, wanted: Wanted = ALL) -> list[dict[str, Any]]:
    """Return runs, newest first. `wanted` may have `agent_id`, `kind` and `state`."""
    rows = reads.ask(reads.database_path(settings), reads.job_runs, limit=limit, start=start, **wanted)
    return [_run(row) for row in rows]


def get_run(settings: Settings, run_id: str) -> dict[str, Any]:
    """Return one run with its changes: ids, operations, and the states before and after."""
    with reads.open_reader(reads.database_path(settings)) as reader:
        row = _run(reads.job_run(reader, run_id))
        changes = reads.states_of_run(reader, row["id"])
        claims = reads.read_claims(reader, row["id"])
    changed = [
        one | {name: _content(one[name]) for name in ("before", "after")} | {"id": one["memory_id"]} for one in changes
    ]
    return row | {"changes": changed, "claims": claims, "verdicts": dict(Counter(one["verdict"] for one in claims))}


def _content(state: str | None) -> str | None:
    """Return the text in a stored state, of a memory or a profile section, or None if it has none."""
    values = json.loads(state) if state else {}
    found = values.get("content", values.get("text")) if isinstance(values, dict) else None
    return None if found is None else str(found)


def _run(row: dict[str, Any]) -> dict[str, Any]:
    """Return a run with the values of its report that anybody may see: numbers, guards, calls of a refinement."""
    receipt = row["receipt"]
    refined = receipt.get("refine", {})
    calls = [
        {
            "tool": one["tool"],
            "verdict": one["verdict"] if one["verdict"] in _VERDICTS else "other",
            "before": one.get("before"),
            "after": one.get("after"),
            "ids": [name for name in one["ids"] if _OWN_ID.fullmatch(str(name))],  # a model may invent ids
        }
        for one in refined.get("timeline", ())
    ]
    told = {
        "counts": dict(_counts(receipt)),
        "phases": [{"name": one.get("phase"), "seconds": one.get("seconds")} for one in receipt.get("phases", ())],
        "guards": dict(Counter(str(one["guard"]) for one in receipt.get("refused", ()))),
        "calls": calls,
        "verdicts": {},
        "undone": bool(refined.get("rolled_back") or receipt.get("rolled_back")),
    }
    return row | told


_COUNTED = (  # numbers of a report whose names memoryd itself chose
    *("memories_added", "added", "updated", "superseded", "archived", "dropped", "deleted", "merged", "unsure"),
    *("protected", "facts", "dedup", "counted", "created", "evicted", "start", "end", "core", "fact", "journal"),
    *("dream", "refine", "sections", "memories", "tokens", "kept", "rejected"),
)


def _counts(receipt: dict[str, Any], at: str = "") -> list[tuple[str, int | float]]:
    """Return the numbers of a report, each with its path of names."""
    found: list[tuple[str, int | float]] = []
    for name, value in receipt.items():
        if name not in _COUNTED and not at.startswith("counted"):
            continue
        if isinstance(value, dict):
            found += _counts(value, f"{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.append((f"{at}{name}", value))
    return found


def list_audit(settings: Settings, before: int | None, wanted: Wanted) -> list[Any]:
    """Return entries of the audit, newest first, each with its texts before and after; at most `PAGE` entries.

    Only entries with an id below `before` are included. `wanted` may have `agent_id`, `run_id`, `actor`, `operation`,
    `memory_id`, and the times `since` and `until`.
    """
    tests = {name: f"a.{name} = ?" for name in ("agent_id", "run_id", "actor", "operation", "memory_id")}
    tests |= {"since": "a.at >= ?", "until": "a.at <= ?"}
    filters = [(test, wanted[name]) for name, test in tests.items() if wanted.get(name)]
    clauses = "".join(f" AND {clause}" for clause, _ in filters)
    rows = _ask(
        settings,
        'SELECT a.id, a.at, a.agent_id, a.actor, a.operation, a.memory_id, a.run_id, r.kind, r."trigger",'  # noqa: S608
        ' b.text AS "before", c.text AS "after" FROM audit a LEFT JOIN job_run r ON r.id = a.run_id'
        ' LEFT JOIN content b ON b.sha256 = a."before" LEFT JOIN content c ON c.sha256 = a."after"'
        f" WHERE a.id < ?{clauses} ORDER BY a.id DESC LIMIT ?",
        2**62 if before is None else before, *(value for _, value in filters), PAGE,
    )  # fmt: skip
    return [row | {name: _content(row[name]) for name in ("before", "after")} for row in rows]


def check_chain(settings: Settings, agent: Agent) -> list[str]:
    """Return the faults in the hash chain of an agent's audit; empty if no entry was changed, dropped or moved."""
    with opening.open_connection(settings) as connection:
        return [f"entry {one.entry_id}: {one.what}" for one in chain.check(audit.read_entries(connection, agent.id))]


def list_profile(settings: Settings, agent: Agent) -> list[dict[str, Any]]:
    """Return the six sections of the user's profile: `id`, `text` (may be empty), `updated_at` and `bytes`."""
    held = {row["section"]: row for row in reads.ask_for_list(settings, reads.profile_rows, agent.id)}
    told = []
    for section in ProfileSection:
        row = held.get(section.value, {"text": "", "updated_at": None})
        size = len(row["text"].encode())
        told.append({"id": section.value, "text": row["text"], "updated_at": row["updated_at"], "bytes": size})
    return told


def list_dreams(settings: Settings, agent: Agent, days: int = 60) -> list[dict[str, Any]]:
    """Return the runs of dreams in the last `days`, newest first, each with its local date as `day`."""
    since = text_of(Clock().now() - timedelta(days=days))
    rows = list_runs(settings, limit=days * 4, wanted={"agent_id": agent.id, "kind": "dream"})
    ended = [row for row in rows if (row["finished_at"] or "") >= since]
    return [row | {"day": str(moment_of(row["finished_at"]).astimezone(settings.zone).date())} for row in ended]


def measure_sizes(settings: Settings, agent: Agent) -> dict[str, list[int]]:
    """Return the tokens of core, facts and journal at the end of each of the last 30 days, oldest first, by kind."""
    rows = _ask(settings, "SELECT kind, content, created_at, deleted_at FROM memory WHERE agent_id = ?", agent.id)
    today = Clock().now()
    ends = [text_of(today - timedelta(days=back)) for back in range(DAYS - 1, -1, -1)]
    sizes = {kind: [0] * DAYS for kind in ("core", "fact", "journal")}
    for row in rows:
        tokens, gone = estimate(row["content"]), row["deleted_at"] or "~"
        for at in range(bisect_left(ends, row["created_at"]), bisect_left(ends, gone)):
            sizes[row["kind"]][at] += tokens
    return sizes


def measure_files(agent: Agent) -> list[dict[str, Any]]:
    """Return the number and the bytes of an agent's memory files, for each tier."""
    tiers = {
        "core": "MEMORY.md",
        "daily files": "memory/*.md",
        "dream diary": "memory/dreams/*.md",
        "recent sessions": ".continuum/memory/RECENT.md",
        "archive": ".continuum/memory/MEMORY*.md",
        "open sessions": ".continuum/memory/NOW-*.md",
    }
    told = []
    for tier, pattern in tiers.items():
        sizes = [path.lstat().st_size for path in agent.workspace.glob(pattern) if path.is_file()]
        told.append({"tier": tier, "files": len(sizes), "bytes": sum(sizes)})
    return told


def list_thresholds(settings: Settings, agent: Agent) -> dict[str, Any]:
    """Return when an agent's core is refined, and how much of its deletion limit is used, in tokens and percent."""
    refine, path = settings.refine, reads.database_path(settings)
    tokens = lost = 0
    if path.exists():
        tokens = reads.ask(path, reads.core_counts, agent.id)["tokens"]
        with opening.open_connection(settings) as connection:
            lost = guard_check.count_eroded(connection, agent.id, Clock().text())
    named = ("trigger_tokens", "target_tokens", "mode", "consent", "max_mutations")
    told = {"agent": agent.id, "tokens": tokens, "lost_tokens": lost} | {name: getattr(refine, name) for name in named}
    percent = round(100 * lost / max(1, tokens + lost), 1)
    return told | {"lost_percent": percent, "erosion_percent": settings.guards.erosion_percent}


def measure_losses(settings: Settings, agent: Agent) -> list[tuple[str, int]]:
    """Return the tokens of core memories that ended on each of the last 30 days, except by a person; oldest first."""
    since = text_of(Clock().now() - timedelta(days=DAYS))
    rows = _ask(
        settings,
        "SELECT substr(a.at, 1, 10) AS day, json_extract(c.text, '$.content') AS said FROM audit a"
        ' JOIN content c ON c.sha256 = a."after" WHERE a.agent_id = ? AND a.at >= ?'
        " AND substr(a.memory_id, 1, 5) = 'core_' AND a.actor <> 'human' AND a.operation <> 'rollback'"
        " AND json_extract(c.text, '$.deleted_at') IS NOT NULL",
        agent.id, since,
    )  # fmt: skip
    told: Counter[str] = Counter()
    for row in rows:
        told[row["day"]] += estimate(row["said"] or "")
    return sorted(told.items())


def list_diaries(agent: Agent) -> list[str]:
    """Return the days of an agent's dream diary, newest first, such as `2026-03-04`."""
    return sorted((path.stem for path in agent.workspace.glob("memory/dreams/*.md")), reverse=True)


def read_log(settings: Settings, *, limit: int = 200, wanted: Wanted = ALL) -> list[dict[str, Any]]:
    """Return the last `limit` records of the log, newest first. `wanted` may have `level`, `agent` and `run`."""
    chosen = LogFilter(wanted.get("level") or "info", wanted.get("agent"), wanted.get("run"))
    return list(deque(read(log_path(settings.state_dir), chosen), maxlen=limit))[::-1]


def read_diary(agent: Agent, day: str) -> str:
    """Return the dream diary of a day; empty if there is none."""
    return (regular.read_in(agent.workspace, f"memory/dreams/{day}.md") or b"").decode("utf-8", "replace")


def read_status(settings: Settings) -> dict[str, Any]:
    """Return the status of all agents, as `memoryd status --json` does."""
    live = daemon_client.ask_data(settings.state_dir, "ping")
    with reads.open_reader(reads.database_path(settings)) as reader:
        return status.status(settings, reader, everything=False, live=live)


def count_spent(settings: Settings) -> dict[str, int]:
    """Return the tokens that models have used today, by agent; a running question counts with its reserved tokens."""
    day = Clock().now().astimezone(settings.zone).date().isoformat()
    sql = "SELECT agent_id, sum(coalesce(tokens_in + tokens_out, reserved)) AS n FROM spend WHERE day = ? GROUP BY 1"
    return {row["agent_id"]: row["n"] for row in _ask(settings, sql, day)}


def read_fills(settings: Settings) -> dict[str, float | None]:
    """Return the context usage of the fullest active session of each agent, or None for an agent without one."""
    windows = {agent.id: agent.context_window for agent in settings.agents}
    found: dict[str, float | None] = dict.fromkeys(windows)
    for row in _ask(settings, "SELECT * FROM session WHERE state = 'active' ORDER BY last_turn_at DESC LIMIT 200"):
        ratio = fill_of(row, windows.get(row["agent_id"])).ratio
        found[row["agent_id"]] = max(ratio, found.get(row["agent_id"]) or 0.0)
    return found
