"""Collect the status: agents, context usage, runs and alarms. It has numbers, names and times, never content."""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from shlex import quote
from typing import Any

from memoryd.clock import text_of
from memoryd.config import Agent, Settings
from memoryd.config_values import duration_text
from memoryd.database import history, reads, vault
from memoryd.database.reads import DatabaseReader, Row
from memoryd.errors import StateError
from memoryd.files import regular, state_files
from memoryd.files.folders import find_disk_fault
from memoryd.files.locks import Lock
from memoryd.files.log import get_logger
from memoryd.gauge.estimate import estimate
from memoryd.gauge.fill import fill_of
from memoryd.llm.endpoint import has_reader
from memoryd.recall.load_cap import CAPS
from memoryd.requests.status_text import COUNTS, fitness_of
from memoryd.transcripts.format import UNHEARD
from memoryd.worker.embedder import list_missing

NEWEST = 20
# The remedy for each kind of alarm. Names in {braces} are filled in from the alarm and the settings.
_FIXES: dict[str, str] = json.loads(resources.files("memoryd.requests").joinpath("fixes.json").read_text("utf-8"))
_NAMED = {name: re.compile(regex) for name, regex in {
    "run": r"run-\d{8}T\d{6}-[0-9a-f]{6}", "memory": r"core_[0-9a-f]{8}", "command": r"memoryd rollback --to .*",
}.items()}  # fmt: skip


def status(settings: Settings, reader: DatabaseReader, *, everything: bool, live: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status as the object that docs describe. `live` is the daemon's answer to a ping, if there is one."""
    holder = Lock(settings.state_dir / "memoryd.lock").holder()
    known = reads.read_daemon(reader)
    alive = holder is not None and known is not None and holder in {0, known["pid"]}
    agents = reads.read_agents(reader)
    known_texts = count_embedded(settings)
    planned = _plan(settings)
    return {
        "daemon": {key: known[key] for key in ("pid", "version", "started_at")} if known and alive else None,
        "stopped": known is not None and holder is None,  # a daemon has run here before, so one is expected
        "watching": known["watching"] if known and alive else None,
        "watching_note": known["watching_note"] if known and alive else None,
        "agents": [
            _agent(settings, reader, agent, agents.get(agent.id), everything=everything)
            | {"next": planned(agent.id) if agent.enabled else {}, "embedded": known_texts.get(agent.id)}
            | {"is_unknown": alive and agent.id not in agents}  # the daemon has an older configuration
            | _import(settings, reader, agent, live)
            for agent in settings.agents
        ],
        "timezone": settings.zone.key,
        "alarms": list_alarms(settings, reader, waits=live.get("waits_for_disk", False)),
        "spend": {
            "today_tokens": reads.count_spent(reader, datetime.now(settings.zone).date().isoformat()),
            "daily_tokens": settings.llm.daily_tokens,
        },
        "readers": list_readers(settings, reader),
        "disk": _disk(settings) | {"vault": vault.measure(reader)},
    }


def list_readers(settings: Settings, reader: DatabaseReader) -> list[dict[str, Any]]:
    """Return the test result of each model that is a second reader; empty if no second reader is configured."""
    if not has_reader(settings):
        return []
    from memoryd.jobs.reader import JOB
    from memoryd.running.answering import endpoint_of  # slow to import
    from memoryd.running.second_reader import compute_version

    known = reads.read_readers(reader)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for agent in settings.agents:
        endpoint = endpoint_of(settings, agent.id, JOB)
        row = known.get((endpoint.base_url, endpoint.model, compute_version()), {})
        told: dict[str, Any] = {"endpoint": endpoint.base_url, "model": endpoint.model, "fit": None, "agents": []}
        told |= {name: row.get(name) for name in (*COUNTS, "tested_at")}
        told |= {"fit": fitness_of(row).is_fit} if row else {}
        found.setdefault((endpoint.base_url, endpoint.model), told)["agents"].append(agent.id)
    return list(found.values())


def of_agent(data: dict[str, Any], agent_id: str | None) -> dict[str, Any]:
    """Return the status limited to one agent, with the alarms of no agent. For None, return it unchanged."""
    if agent_id is None or not data:
        return data
    agents = [agent for agent in data["agents"] if agent["id"] == agent_id]
    return data | {"agents": agents, "alarms": [one for one in data["alarms"] if one["agent"] in {None, agent_id}]}


def count_embedded(settings: Settings) -> dict[str, dict[str, int]]:
    """Return, for each agent, how many of its texts are embedded (`done`, `of`); empty if search goes by words only."""
    if settings.search.embeddings != "auto" or list_missing():
        return {}
    from memoryd.index.database import Index, RebuiltError  # slow to import

    index = Index(settings.state_dir, get_logger(part="status"))
    if not index.path.exists():
        return {}
    try:
        with closing(index), index.begin_read() as tables:
            found = {agent.id: tables.coverage(agent.id) for agent in settings.agents}
    except (StateError, RebuiltError):
        return {}  # status shows what it can; the next search reports or repairs the index
    return {agent_id: {"done": one.done, "of": one.wanted} for agent_id, one in found.items()}


def list_alarms(settings: Settings, reader: DatabaseReader, *, waits: bool = False) -> list[Row]:
    """Return the open alarms with their remedy. A full disk cannot store its own alarm, so the disk is checked here."""
    workspaces = {agent.id: agent.workspace for agent in settings.agents}
    found = [one for one in reads.list_alarms(reader) if one["agent"] in {None, *workspaces}]
    fault = find_disk_fault(settings.state_dir, is_held_up=waits)
    if fault is not None and all(alarm["kind"] != "disk" for alarm in found):
        text = f"the state folder cannot be written ({fault[0]}); ingest waits" + f"; {fault[1]}" * bool(fault[1])
        since = text_of(datetime.now(UTC))
        found.append({"kind": "disk", "agent": None, "subject": "", "since": since, "text": text})
    return [one | {"fix": _find_fix(one, settings.state_dir, workspaces.get(one["agent"]))} for one in found]


def _find_fix(alarm: Row, state_dir: Path, workspace: Path | None) -> str:
    """Return the command that ends an alarm, or the step that a person must take first."""
    found = {name: regex.search(alarm["text"]) for name, regex in _NAMED.items()}
    is_named = not alarm["subject"].startswith("sha256:")  # a hash: the name could not be scanned for secrets
    return _FIXES.get(alarm["kind"] if is_named else "", "memoryd doctor").format(
        agent=f" --agent {alarm['agent']}" if alarm["agent"] else "",
        subject=quote(alarm["subject"]),
        state=quote(str(state_dir)),
        workspace=quote(str(workspace or "")),
        **{name: match[0] if match else name.upper() for name, match in found.items()},
    )


def _agent(
    settings: Settings, reader: DatabaseReader, agent: Agent, row: Row | None, *, everything: bool
) -> dict[str, Any]:
    rows = reads.list_sessions(reader, agent_id=agent.id, limit=None if everything else NEWEST)
    data = None
    with suppress(StateError):  # the runs that need the file report its faults
        data = regular.read_in(agent.workspace, "MEMORY.md") or b""
    return {
        "id": agent.id,
        "workspace": str(agent.workspace),
        "enabled": agent.enabled,
        "paused": bool(row and row["paused"]),
        **reads.transcript_counts(reader, agent.id),
        "not_read_why": reads.count_unread(reader, agent.id),
        "passed_over": reads.passed_over(reader, agent.id, UNHEARD),
        "left_as_history": left_as_history(settings, reader, agent),
        "sessions": [session_row(row, agent.context_window) for row in rows],
        "more_sessions": max(0, reads.session_count(reader, agent.id) - len(rows)),
        "core": reads.core_counts(reader, agent.id),
        "loads": [] if data is None else _loads(reader, agent, data),
        "told": _count_injected(settings, data or b""),
        "facts": {"count": len(reads.read_live(reader, agent.id, "fact", "id"))},
        "unsure": reads.count_unsure(reader, agent.id),
        "runs": reads.last_runs(reader, agent.id),
        "proposals": reads.list_proposals(reader, agent.id),
        "held": reads.held_jobs(reader, agent.id),
    }


def _import(settings: Settings, reader: DatabaseReader, agent: Agent, live: Mapping[str, Any]) -> dict[str, Any]:
    """Return the progress of an agent's import, including one that only the configuration asked for."""
    found = history.read_progress(reader, agent.id)
    if found is None and live and settings.ingest.history == "flush" and settings.modes.sleep != "off":
        unread, now = live.get("unread", {}).get(agent.id, 0), text_of(datetime.now(UTC))
        found = history.count_progress(reader, agent.id, unread, settings.sessions.idle_end, now)
    return {"import": found and asdict(found)}


def left_as_history(settings: Settings, reader: DatabaseReader, agent: Agent) -> int:
    """Count the sessions that ended before memoryd first saw them and that are not written to memory."""
    if settings.ingest.history != "index" or settings.modes.sleep == "off" or not agent.enabled:
        return 0
    return reads.count_history(reader, agent.id, settings.sessions.idle_end, text_of(datetime.now(UTC)))[0]


def _loads(reader: DatabaseReader, agent: Agent, data: bytes) -> list[dict[str, Any]]:
    """Return what share of each agent program's size limit for `MEMORY.md` the file takes."""
    formats = {*reads.list_formats(reader, agent.id), *(source.format for source in agent.transcripts)}
    shares = {name: round(cap.share(data), 4) for name, cap in CAPS.items() if name in formats}
    return [{"by": name, "share": share, "cap": str(CAPS[name])} for name, share in shares.items()]


def _count_injected(settings: Settings, data: bytes) -> dict[str, int] | None:
    """Estimate how many lines of `MEMORY.md` fit into the injected text; return None if all do."""
    most = settings.injection.files_max_tokens
    if not most or len(data) <= most:  # each token has at least one byte
        return None
    from memoryd.recall import injection

    part = injection.Part("MEMORY.md", data.decode("utf-8", "replace"))

    def lines(files: int) -> int:
        budget = injection.Budget(settings.injection.max_tokens, files)
        made = injection.render((), (), [part], budget, lambda texts: [*map(estimate, texts)])
        return sum(line.startswith(" ") for line in made.text.splitlines())

    shown, every = lines(most), lines(len(data) * 2)  # doubled, because each injected line has a prefix
    return {"lines": shown, "of": every, "max_tokens": most} if shown < every else None


def _plan(settings: Settings) -> Callable[[str], dict[str, str]]:
    """Return a function from an agent's id to the next times of its scheduled jobs, by kind."""
    kinds = ("sleep", "dedup", "dream", "refine")
    on = {kind for kind in kinds if getattr(settings, kind).schedule and getattr(settings.modes, kind) != "off"}
    if not on or not any(agent.enabled for agent in settings.agents):
        return lambda _agent_id: {}
    from memoryd.daemon.schedule import own_times  # slow to import

    times = own_times(settings, datetime.now(UTC))
    return lambda agent_id: {
        kind: at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        for kind, at in times(agent_id).items()
        if kind in on
    }


def session_row(row: Row, configured: int | None) -> dict[str, Any]:
    """Return a session's state and context usage as a row for programs."""
    fill = fill_of(row, configured)
    now, size = fill.live, fill.window
    return {
        **{name: row[name] for name in ("id", "transcript", "format", "state", "turns", "last_turn_at")},
        "tokens": now.tokens,
        "window": size.tokens,
        "window_from": size.how,
        "ratio": round(fill.ratio, 4),
        "gauge": now.exactness,
        "gauge_from": now.how,
        "gauge_record": now.record_id,
    }


def _disk(settings: Settings) -> dict[str, Any]:
    """Return the bytes on disk of the state folder, by kind, and of the backups in the workspaces."""
    uses = state_files.measure_uses(settings.state_dir)
    backups = [agent.workspace / ".continuum" / "memory" / "backup" for agent in settings.agents]
    return {
        "state_bytes": sum(uses.values()),
        **{f"{kind}_bytes": size for kind, size in uses.items()},
        "backup_bytes": sum(map(state_files.disk_use, backups)),
        "retention": {
            name: duration_text(kept) if isinstance(kept, timedelta) else kept
            for name, kept in asdict(settings.retention).items()
        },
    }
