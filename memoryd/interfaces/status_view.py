"""Render the status for people: whether all is well, what needs a person, and one line or all details per agent."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

from memoryd.counted import count_noun
from memoryd.database.history import ImportProgress
from memoryd.interfaces.output import make_list, one_line, style, tell_time
from memoryd.recall.load_cap import WARN_AT
from memoryd.requests.status_text import describe_vault, left_line, passed_over_line, reader_line, unread_reasons

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.table import Table
    from rich.text import Text

    _Tell = Callable[[str | None], str]  # turns a stored time into text for people

_START = "memoryd run, or memoryd service install"  # how to start without an installed service
_WHY = 120  # characters of a run's reason; `job show` has all of it
_MIB = 1024 * 1024
_ALARM, _WAITS, _WELL, _OFF = "bold red", "yellow", "green", "dim"
_NEEDS = (_ALARM, _WAITS, _WELL, _OFF)  # the order of the rows in the table
_DISK = ("database", "index", "log", "copies", "other")  # the kinds of `files.state_files`, which is slow to import
_GOOD = frozenset({"succeeded", "skipped"})
_COLUMNS = ("agent", "state", "context", "last turn", "core", "last run")


def list_parts(data: Mapping[str, Any], *, at_length: bool = False, now: datetime | None = None) -> list[Text | Table]:
    """Return the lines and tables of a status.

    Args:
        data: The status, as in its JSON output.
        at_length: Whether to show all details of each agent instead of one line.
        now: The time for relative times; by default the present time.
    """
    when = partial(tell_time, zone=ZoneInfo(data["timezone"]), now=now or datetime.now(UTC))
    agents = data["agents"]
    parts: list[Text | Table] = [_answer(data, when)]
    for alarm in data["alarms"]:
        whose = f" {alarm['agent']}" if alarm["agent"] else ""
        parts.append(style(f"ALARM{whose}: {alarm['kind']} since {when(alarm['since'])}: {alarm['text']}", _ALARM))
        parts.append(style(f"  → {alarm['fix']}"))
    if len(agents) > 1 and not at_length:
        parts += [style(f"WARNING {one['id']}: {line}", _WAITS) for one in agents for line in _warnings(one)]
    if not at_length:
        parts += [style(_overview(data)), *([_table(data, when)] if agents else [])]
    if at_length or len(agents) == 1:  # one agent has room for all its details
        parts.append(make_list([*_daemon_lines(data, when)]))
        parts += [make_list([("", ""), *_agent_lines(agent, when)]) for agent in agents]
    return parts


def _answer(data: Mapping[str, Any], when: _Tell) -> Text:
    """Return the first line: whether memoryd runs and is well, and the next job."""
    daemon, alarms = data["daemon"], data["alarms"]
    planned = min(((at, kind) for agent in data["agents"] for kind, at in agent["next"].items()), default=None)
    follows = f"; {planned[1]} {when(planned[0])}" if planned else ""
    start = data.get("start")
    if alarms:
        runs = f"memoryd runs{follows}" if daemon else f"memoryd is not running: {start or 'memoryd run'}"
        return style(f"Not well: {count_noun(len(alarms), 'alarm')}; {runs}.", _ALARM)
    if data.get("stopped"):
        return style(f"Not well: the daemon is stopped: {start or _START}.", _ALARM)
    if not daemon:
        return style(f"Not running: {start or f'start {_START}'}.", _WAITS)
    waiting = sum(_need(agent, [])[1] == _WAITS for agent in data["agents"])
    rest = f"check {waiting} of them" if waiting else "none needs attention"
    return style(f"Well: memoryd runs for {count_noun(len(data['agents']), 'agent')}, {rest}{follows}.", _WELL)


def _overview(data: Mapping[str, Any]) -> str:
    """Return one line about all agents: history import, spend and disk."""
    left, spend = sum(agent.get("left_as_history", 0) for agent in data["agents"]), data["spend"]
    imports = ((agent["id"], agent["import"]) for agent in data["agents"] if agent.get("import"))
    parts = [f"import of {name} {ImportProgress(**found)}" for name, found in imports][:1]
    parts += [f"{count_noun(left, 'old session')} not written: memoryd import"] if left else []
    parts += [f"{spend['today_tokens']:,} of {spend['daily_tokens']:,} tokens today"] if spend["today_tokens"] else []
    return "; ".join([*parts, f"{data['disk']['state_bytes'] / _MIB:,.1f} MiB in the state folder"])


# --- one line per agent -----------------------------------------------------------------------------------------------


def _need(agent: Mapping[str, Any], alarms: Sequence[str]) -> tuple[str, str]:
    """Return the state of an agent in one or two words, and a style for its urgency."""
    waits = {
        "not read": agent.get("transcripts") and agent["not_read"] == agent["transcripts"],
        f"held: {', '.join(one['kind'] for one in agent.get('held', ()))}": agent.get("held"),
        count_noun(len(agent.get("proposals", ())), "proposal"): agent.get("proposals"),
        "warning": any(True for _ in _warnings(agent)),
    }
    off = (["paused"] if agent["paused"] else []) if agent["enabled"] else ["disabled"]
    if alarms:
        return ", ".join([f"ALARM {alarms[0]}" + (f" +{len(alarms) - 1}" if alarms[1:] else ""), *off]), _ALARM
    if off:
        return off[0], _OFF
    return next(((word, _WAITS) for word, is_so in waits.items() if is_so), ("well", _WELL))


def _table(data: Mapping[str, Any], when: _Tell) -> Table:
    """Return a table with one row per agent, most urgent first."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in _COLUMNS:
        # On a narrow terminal, the agent's name must stay readable.
        side: Literal["left", "right"] = "right" if name in {"context", "core"} else "left"
        table.add_column(name, justify=side, no_wrap=name not in {"state", "last run"})
    rows = []
    for agent in data["agents"]:
        word, how = _need(agent, [one["kind"] for one in data["alarms"] if one["agent"] == agent["id"]])
        fill = max((one["ratio"] for one in agent["sessions"] if one["state"] == "active"), default=None)
        turn = max((one["last_turn_at"] for one in agent["sessions"]), default=None)
        cells = (
            style(agent["id"], cut=True),
            style(word, how, cut=True),
            "" if fill is None else f"{fill:.0%}",
            when(turn)[:10],  # an older time is a date, without the time of day
            f"{agent['core']['count']:,}",
            style(_last_run(agent["runs"], when), cut=True),
        )
        rows.append((_NEEDS.index(how), -(fill or 0), agent["id"], cells))
    for *_, cells in sorted(rows, key=lambda row: row[:3]):
        table.add_row(*cells)
    return table


def _last_run(runs: Mapping[str, Any], when: _Tell) -> str:
    if not runs:
        return ""
    kind, run = max(runs.items(), key=lambda one: one[1]["finished_at"] or "~")
    ended = "" if run["state"] in _GOOD else f" {run['state']}"
    return f"{kind}{ended} {when(run['finished_at'])[:10] if run['finished_at'] else 'now'}"


# --- at length --------------------------------------------------------------------------------------------------------


def _daemon_lines(data: Mapping[str, Any], when: _Tell) -> Iterator[tuple[str, ...]]:
    if daemon := data["daemon"]:
        yield "daemon", f"pid {daemon['pid']}, version {daemon['version']}, since {when(daemon['started_at'])}"
        yield "watching", data["watching"] + (f" ({data['watching_note']})" if data["watching_note"] else "")
    disk = data["disk"]
    parts = ", ".join(f"{kind} {disk[f'{kind}_bytes'] / _MIB:,.1f}" for kind in _DISK)
    kept = ", ".join(f"{name} {span}" for name, span in disk["retention"].items() if span) or "all"
    told = (
        f"{disk['state_bytes'] / _MIB:,.1f} MiB in the state folder: {parts};"
        f" backups in workspaces {disk['backup_bytes'] / _MIB:,.1f} MiB; kept: {kept}"
    )
    yield "disk", told
    yield from (("texts", line) for line in describe_vault(disk.get("vault")))
    for one in data.get("readers", ()):
        yield "reader", f"second reader: {reader_line(one)}"
    if data["spend"]["today_tokens"]:
        yield "spend", f"{data['spend']['today_tokens']:,} of {data['spend']['daily_tokens']:,} tokens today"


def _warnings(agent: Mapping[str, Any]) -> Iterator[str]:
    if agent.get("is_unknown"):
        yield "the running daemon does not know it yet: systemctl --user reload memoryd, or kill -HUP its process"
    yield from passed_over_line(agent.get("passed_over", {}))
    for one in agent.get("loads", ()):
        if one["share"] >= WARN_AT:
            yield f"MEMORY.md takes {one['share']:.0%} of what {one['by']} loads of it, {one['cap']}"
    if told := agent.get("told"):
        yield (
            f"a session gets about {told['lines']:,} of {told['of']:,} lines of MEMORY.md:"
            f" memoryd job run refine, or raise injection.files_max_tokens ({told['max_tokens']:,})"
        )


def _agent_lines(agent: Mapping[str, Any], when: _Tell) -> Iterator[tuple[str | Text, ...]]:
    flags = "".join(f", {flag}" for flag, on in (("paused", agent["paused"]), ("disabled", not agent["enabled"])) if on)
    yield style("agent", "bold"), style(f"{agent['id']}{flags}: {agent['workspace']}", "bold")
    told = (
        f"{count_noun(agent['core']['count'], 'memory', 'memories')}, {count_noun(agent['core']['tokens'], 'token')};"
        f" {count_noun(agent.get('transcripts', 0), 'transcript')}, {agent.get('not_read', 0)} not read"
        f"{unread_reasons(agent.get('not_read_why', {}))}, {count_noun(agent.get('bad_spans', 0), 'unreadable span')}"
    )
    yield "core", told
    yield from ((style("WARNING", _WAITS), line) for line in _warnings(agent))
    if unsure := agent.get("unsure"):
        told = (
            f"{count_noun(unsure, 'line')} of the daily files: unknown author, so not in MEMORY.md;"
            " the dream diary lists them; copy the true ones into MEMORY.md"
        )
        yield "unsure", told
    if agent.get("import"):
        yield "import", str(ImportProgress(**agent["import"]))
    if embedded := agent.get("embedded"):
        yield "meaning", f"search knows the meaning of {embedded['done']:,} of {embedded['of']:,} texts"
    yield from (("history", line) for line in left_line(agent.get("left_as_history", 0), agent["id"]))
    yield from (("session", line) for line in _session_lines(agent, when))
    for kind, run in sorted(agent["runs"].items()):
        why = f": {shorten(one_line(run['why']), _WHY, placeholder=' …')}" if run["why"] else ""
        yield kind, f"{run['state']} {when(run['finished_at']) if run['finished_at'] else 'now'} {run['run']}{why}"
    for one in agent.get("proposals", ()):
        yield "proposal", f"{one['kind']} {one['run']} since {when(one['since'])}: {one['path']}"
    for one in agent.get("held", ()):
        yield "held", f"{one['kind']} to {one['mode']} since {when(one['since'])}: {one['why']}"
    yield from (("next", f"{kind} {when(at)}") for kind, at in sorted(agent["next"].items(), key=lambda one: one[1]))


def _session_lines(agent: Mapping[str, Any], when: _Tell) -> Iterator[str]:
    for one in agent["sessions"]:
        yield (
            f"{one_line(one['id'])[:60]} {one['state']}, {count_noun(one['turns'], 'turn')}, the last"
            f" {when(one['last_turn_at'])}; {one['tokens']:,} / {one['window']:,} tokens {one['ratio']:.1%}"
            f" {one['gauge']} ({one['gauge_from']}), window by {one['window_from']}"
        )
    if more := agent.get("more_sessions"):
        yield f"... and {more:,} more: memoryd status --all"
