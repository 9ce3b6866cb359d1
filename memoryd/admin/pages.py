"""List the pages, each with a path, a title and a function that returns the data of its template.

All data of an agent comes from `requests` and is filtered by the person's view. A template shows only this data.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from memoryd.admin import charts, settings_edit
from memoryd.config import Agent
from memoryd.errors import MemorydError, NotFoundError, RefusedError
from memoryd.finding.access_grants import PARTS
from memoryd.finding.recall import Narrowing
from memoryd.ledger.category import Category
from memoryd.requests import access, blame, fleet, lists, opening, searching, status
from memoryd.requests.lists import MemoryQuery
from memoryd.requests.views import PersonView
from memoryd.running.kinds import KINDS as RUN_KINDS

KINDS = ("sleep", "dream", "refine", "dedup", "facts", "rollover")
SESSION_KEEPS = ("id", "state", "turns", "last_turn_at", "tokens", "window", "ratio", "gauge", "format")
_RUN_KEEPS = ("run", "state", "finished_at")
_FACT_KEEPS = ("id", "confidence", "created_at", "updated_at", "tokens", "constitutional", "source_count")
_PROFILE_KEEPS = ("id", "bytes", "updated_at")


class Look(NamedTuple):
    """Hold the request for a page: the person's view, the parts of the path and the query."""

    view: PersonView
    place: Mapping[str, str]  # parts of the path
    query: Mapping[str, str]

    @property
    def agent(self) -> Agent:
        return self.view.find_agent(self.place["agent"])

    def number(self, name: str) -> int:
        """Return a number of the query, or 0 if it is missing or no number."""
        text = self.query.get(name, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0

    def text(self, name: str) -> str | None:
        """Return a text of the query, cut to 200 characters, or None if it is empty."""
        return self.query.get(name, "").strip()[:200] or None


class Page(NamedTuple):
    """Declare one page. `make` returns the data of its template."""

    path: str
    title: str
    template: str
    make: Callable[[Look], dict[str, Any]]


def show_overview(look: Look) -> dict[str, Any]:
    """Return the overall state, the alarms with their remedies, and one row per agent."""
    view = look.view
    told = read_status(view)
    spend = lists.count_spent(view.settings)
    for agent in told["agents"]:
        agent["spent"] = spend.get(agent["id"], 0)
    refine = view.settings.refine
    return {"status": told, "target": refine.target_tokens, "trigger": refine.trigger_tokens}


def read_status(view: PersonView, agent_id: str | None = None) -> dict[str, Any]:
    """Return the status as the person may see it, for one agent or all.

    Without the right to see content, names of sessions and reasons are left out.
    """
    told = status.of_agent(lists.read_status(view.settings), agent_id)
    agents = {agent.id: agent for agent in view.settings.agents}
    blind = {agent["id"] for agent in told["agents"] if view.is_blind(agents.get(agent["id"]))}
    for agent in told["agents"]:
        agent["blind"] = agent["id"] in blind
        live = [one["ratio"] for one in agent["sessions"] if one["state"] == "active"]
        agent["fill"] = max(live, default=None)
        ended = [(run["finished_at"] or "~", kind) for kind, run in agent["runs"].items()]
        agent["last_kind"] = max(ended)[1] if ended else None
        agent["due"] = sorted((at, kind) for kind, at in agent["next"].items())
        agent["privacy"] = agents[agent["id"]].privacy
        if agent["blind"]:
            agent["sessions"] = view.hide(agent["sessions"], SESSION_KEEPS)
            agent["runs"] = {kind: view.hide([one], _RUN_KEEPS)[0] for kind, one in agent["runs"].items()}
            agent["proposals"] = view.hide(agent["proposals"], ("run", "kind", "since"))
            agent["held"] = view.hide(agent["held"], ("kind", "mode", "since"))
            agent["not_read_why"] = agent["passed_over"] = {}
    told["alarms"] = [
        view.hide([alarm], ("kind", "agent", "since"))[0] if alarm["agent"] in blind else alarm
        for alarm in told["alarms"]
    ]
    return told


def show_agent(look: Look) -> dict[str, Any]:
    """Return one agent's sessions, tiers, next runs, privacy and protected memories."""
    agent, settings = look.agent, look.view.settings
    told = read_status(look.view, agent.id)
    return {
        "agent": told["agents"][0],
        "alarms": told["alarms"],
        "counts": lists.count_memories(settings, agent),
        "files": lists.measure_files(agent),
        "limits": lists.list_thresholds(settings, agent),
        "sizes": lists.measure_sizes(settings, agent),
    }


def show_memories(look: Look) -> dict[str, Any]:
    """Return current or ended memories of one kind, and the results of a search if there is a question."""
    view, agent = look.view, look.agent
    kind = look.query.get("kind") if look.query.get("kind") in {"core", "fact", "journal"} else "core"
    opening.catch_up(view.settings, agent)
    asked = MemoryQuery(look.query.get("ended") == "1", kind, look.number("start"))
    rows = lists.list_memories(view.settings, agent, asked)
    shown = view.show(agent, f"{kind} memories", rows, lists.MEMORY_KEEPS, str(kind))
    hits: list[Any] | None = None
    if question := look.text("q"):
        hits = searching.search(view.settings, agent, question, Narrowing(), "search")
    return {"agent": agent, "rows": shown, "asked": asked, "page_size": lists.PAGE, "hits": hits, "q": question or "",
            "blind": view.is_blind(agent, str(kind)), "counts": lists.count_memories(view.settings, agent)}  # fmt: skip


def show_memory(look: Look) -> dict[str, Any]:
    """Return one memory with its flags and changes.

    People who may see content also get its text, its sources and the turns behind it.
    """
    view, agent = look.view, look.agent
    row = lists.get_memory(view.settings, agent, look.place["memory"])
    history = row.pop("history")
    (shown,) = view.show(agent, "memory", [row], lists.MEMORY_KEEPS, row["kind"])
    is_blind = view.is_blind(agent, row["kind"])
    turns: list[dict[str, Any]] = []
    if not is_blind:
        with suppress(RefusedError, NotFoundError):  # the grant may not include sessions
            turns = blame.blame(view.settings, agent, row["id"], f"blame {row['id']}").turns
    kept = ("id", "at", "actor", "operation", "run_id", "ended_as", "constitutional", "successors")
    changes = [{name: one.get(name) for name in (*kept, *(() if is_blind else ("content",)))} for one in history]
    return {"agent": agent, "row": shown, "changes": changes, "turns": turns, "blind": is_blind}


def show_runs(look: Look) -> dict[str, Any]:
    """Return the rows of the job table that match the filter."""
    view = look.view
    wanted = {name: look.text(name) for name in ("kind", "state")} | {"agent_id": look.text("agent")}
    start = look.number("start")
    rows = [_show_run(view, row) for row in lists.list_runs(view.settings, start=start, wanted=wanted)]
    return {"rows": rows, "wanted": wanted, "start": start, "page_size": lists.PAGE, "kinds": sorted(RUN_KINDS)}


def _show_run(view: PersonView, row: dict[str, Any]) -> dict[str, Any]:
    """Return a run as the person may see it.

    Its reasons may name files of the agent, so only people who may see content get them.
    """
    if view.is_blind(view.settings.find_agent(row["agent_id"]), "runs", row["id"]):
        return view.hide([row], lists.RUN_KEEPS)[0]
    return row


def show_run(look: Look) -> dict[str, Any]:
    """Return one run: phases, counts, guards, model calls of a refinement, changes and claims."""
    view = look.view
    row = lists.get_run(view.settings, look.place["run"])
    agent = view.settings.find_agent(row["agent_id"])
    changes, claims = row.pop("changes"), row.pop("claims")
    blind = view.is_blind(agent, "runs", row["id"])
    shown = view.show(agent, f"run {row['id']}", changes, ("id", "operation", "memory_id"), "runs", row["id"])
    return {"row": _show_run(view, row), "changes": shown, "claims": [] if blind else claims, "blind": blind}


def show_time(look: Look) -> dict[str, Any]:
    """Return entries of the audit, newest first, and the state of its hash chain if the query asks for it."""
    view = look.view
    names = ("run_id", "actor", "operation", "memory_id", "since", "until")
    wanted = {name: look.text(name) for name in names} | {"agent_id": look.text("agent")}
    found = lists.list_audit(view.settings, look.number("before") or None, wanted)
    rows: list[dict[str, Any]] = []
    agents = {row["agent_id"]: view.settings.find_agent(row["agent_id"]) for row in found}
    texts = look.query.get("texts") == "1"
    for agent_id, agent in agents.items():
        rows += _show_entries(view, agent, [row for row in found if row["agent_id"] == agent_id], texts=texts)
    chains = {}
    if look.query.get("check") == "1":
        chains = {agent.id: lists.check_chain(view.settings, agent) for agent in view.settings.agents}
    rows.sort(key=lambda row: -int(row["id"]))
    kept = {name: value for name, value in look.query.items() if name not in {"before", "check"}}
    return {"rows": rows, "wanted": wanted, "chains": chains, "texts": texts, "page_size": lists.PAGE, "kept": kept,
            "last": found[-1]["id"] if found else 0}  # fmt: skip


def _show_entries(
    view: PersonView, agent: Agent | None, rows: list[dict[str, Any]], *, texts: bool
) -> list[dict[str, Any]]:
    """Return entries of one agent's audit, with texts if the query asks for them and the person may see them."""
    # Without texts, no content is read and no read is audited. People without the right get no ids of the agent's own.
    if texts:
        return view.show(agent, "audit entries", rows, lists.AUDIT_KEEPS, "core")
    if view.is_blind(agent, "core"):
        return view.hide(rows, lists.AUDIT_KEEPS)
    return [{name: row.get(name) for name in lists.AUDIT_KEEPS} for row in rows]


def show_dreams(look: Look) -> dict[str, Any]:
    """Return the nights on a calendar, the used share of the deletion limit, and the diary.

    Only people who may see content get the diary.
    """
    view, agent = look.view, look.agent
    nights = [_show_run(view, row) | {"day": row["day"]} for row in lists.list_dreams(view.settings, agent)]
    day, diary = look.text("day"), None
    canary = {"agent_id": agent.id, "kind": "canary"}
    if day and not view.is_blind(agent, "runs") and day in lists.list_diaries(agent):
        view.require(agent, f"dream diary {day}", "runs")
        diary = lists.read_diary(agent, day)
    today = datetime.now(view.settings.zone).date()
    first = today - timedelta(days=today.weekday() + 28)
    by_day = {one["day"]: one for one in reversed(nights)}  # of several nights on a day, the newest
    weeks = [[first + timedelta(days=7 * week + at) for at in range(7)] for week in range(5)]
    return {"agent": agent, "nights": nights, "weeks": weeks, "by_day": by_day, "today": today, "diary": diary,
            "days": [] if view.is_blind(agent, "runs") else lists.list_diaries(agent)[:60], "day": day,
            "limits": lists.list_thresholds(view.settings, agent), "losses": lists.measure_losses(view.settings, agent),
            "canary": next(iter(lists.list_runs(view.settings, limit=1, wanted=canary)), None),
            "blind": view.is_blind(agent, "runs"), "may_edit": not view.is_blind(agent, "core")}  # fmt: skip


def show_facts(look: Look) -> dict[str, Any]:
    """Return the facts and the profile of the agent's user."""
    view, agent = look.view, look.agent
    facts = lists.list_memories(view.settings, agent, MemoryQuery(kind="fact", start=look.number("start")))
    shown = view.show(agent, "facts", facts, _FACT_KEEPS, "fact")
    profile = view.show(agent, "profile", lists.list_profile(view.settings, agent), _PROFILE_KEEPS, "profile")
    return {"agent": agent, "facts": shown, "profile": profile, "categories": [str(one) for one in Category],
            "start": look.number("start"), "page_size": lists.PAGE,
            "blind": view.is_blind(agent, "fact"), "profile_blind": view.is_blind(agent, "profile")}  # fmt: skip


def show_fleet(look: Look) -> dict[str, Any]:
    """Return one host or all hosts of the fleet, with their runs and the requests to them.

    Raises:
        NotFoundError: no fleet is configured.
    """
    settings, host = look.view.settings, look.text("host")
    if settings.fleet.database is None:
        raise NotFoundError("this host is in no fleet", "fleet.database", "docs/fleet.md says how to join hosts")
    told = fleet.read_status(settings, host, lists.PAGE)
    return {"fleet": told, "host": host, "names": told["names"], "kinds": KINDS}


def show_access(look: Look) -> dict[str, Any]:
    """Return all access requests, each with its reads."""
    view = look.view
    rows = [row for agent in view.settings.agents for row in access.list_grants(view.settings, agent)]
    rows.sort(key=lambda row: row["requested_at"], reverse=True)
    asked = [agent.id for agent in view.settings.agents if view.is_blind(agent)]
    return {"grants": rows, "agents_asked": asked, "parts": PARTS, "agent_id": look.text("agent")}


def show_settings(look: Look) -> dict[str, Any]:
    """Return the configuration in effect, each key with its meaning, and whether it may be changed here."""
    settings = look.view.settings
    return {"keys": settings_edit.list_keys(settings), "source": settings.source,
            "limits": [lists.list_thresholds(settings, agent) for agent in settings.agents],
            "agent_list": settings.agents, "privacy_default": settings.privacy_default}  # fmt: skip


def show_log(look: Look) -> dict[str, Any]:
    """Return the last records of the log."""
    wanted = {name: look.text(name) for name in ("level", "agent", "run")}
    if wanted["level"] not in {None, "debug", "info", "warning", "error"}:
        wanted["level"] = None
    return {"records": show_records(look.view, lists.read_log(look.view.settings, wanted=wanted)), "wanted": wanted}


def show_records(view: PersonView, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return records of the log as the person may see them.

    If they may not see the agent's content, a record keeps only fields that name nothing. A record of no agent keeps
    only those fields if the content of any agent is hidden from them.
    """
    blind = {agent.id: view.is_blind(agent) for agent in view.settings.agents}
    is_blind = any(blind.values())
    told = []
    for one in records:
        shown = view.hide([one], lists.LOG_KEEPS)[0] if blind.get(str(one.get("agent")), is_blind) else one
        more = {name: value for name, value in shown.items() if name not in {"at", "level", "event", "agent", "run"}}
        told.append({name: shown.get(name) for name in ("at", "level", "event", "agent", "run")} | {"more": more})
    return told


def draw(look: Look) -> str:
    """Return a chart of an agent as an SVG image.

    Raises:
        NotFoundError: the chart is unknown.
    """
    agent, settings = look.agent, look.view.settings
    if look.place["chart"] == "sizes":
        sizes = lists.measure_sizes(settings, agent)
        today = datetime.now(settings.zone).date()
        days = [f"{today - timedelta(days=back):%m-%d}" for back in range(lists.DAYS - 1, -1, -1)]
        return charts.draw_sizes(sizes, days)
    if look.place["chart"] == "losses":
        limits = lists.list_thresholds(settings, agent)
        whole = max(1, limits["tokens"])
        shares = [(day[5:], round(100 * lost / whole, 1)) for day, lost in lists.measure_losses(settings, agent)]
        return charts.draw_losses(shares, limits["erosion_percent"])
    raise NotFoundError("there is no such chart", hint="sizes, losses")


PAGES = (
    Page("/", "Overview", "overview.html", show_overview),
    Page("/agent/{agent}", "Agent", "agent.html", show_agent),
    Page("/agent/{agent}/memories", "Memory store", "memories.html", show_memories),
    Page("/agent/{agent}/memory/{memory}", "Memory", "memory.html", show_memory),
    Page("/agent/{agent}/dreams", "Dreams", "dreams.html", show_dreams),
    Page("/agent/{agent}/facts", "Facts and profile", "facts.html", show_facts),
    Page("/runs", "Runs", "runs.html", show_runs),
    Page("/run/{run}", "Run", "run.html", show_run),
    Page("/time", "Time machine", "time.html", show_time),
    Page("/fleet", "Fleet", "fleet.html", show_fleet),
    Page("/access", "Access", "access.html", show_access),
    Page("/settings", "Settings", "settings.html", show_settings),
    Page("/log", "Log", "log.html", show_log),
)


def describe_error(view: PersonView, error: MemorydError) -> str:
    """Return an error for the page, with its text only for people who may see the content of every agent."""
    if not any(view.is_blind(agent) for agent in view.settings.agents):
        return str(error)
    if isinstance(error, RefusedError):
        return "this was refused: it needs access to what the agent remembers, or a guard does not allow it"
    return f"{error.code}: it was not done"
