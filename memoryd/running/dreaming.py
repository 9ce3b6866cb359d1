"""Decide when an agent dreams, and gather the input of the dream.

The report of a successful dream has its days, and the hash of each daily file. A dream that was rolled back does not
count, so the next dream reads its days again. If the offline backend answered because the model failed, the dream
counts only until the model works again.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as wall_time
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine

from memoryd.changing import authorship, guard_check
from memoryd.changing.core_import import take_over
from memoryd.changing.written_blocks import (
    NOTED,
    SAVED,
    WrittenBlock,
    find_left_lines,
    find_written_blocks,
    read_sentences,
)
from memoryd.clock import Clock, moment_of, text_of
from memoryd.config import Settings
from memoryd.database import memories, query, runs, sqlite, turns
from memoryd.database.runs import Run
from memoryd.files import regular
from memoryd.jobs.dream import JOB
from memoryd.jobs.dream_inputs import UNKNOWN_ORIGIN, DailyEntry, DreamInputs, EarlierMemory
from memoryd.jobs.job import NothingToDo
from memoryd.jobs.sleep import CONSUMER
from memoryd.jobs.witness import Behind
from memoryd.ledger import audit as chain
from memoryd.ledger.accounting import Unmentioned
from memoryd.ledger.guards import Caller
from memoryd.ledger.lane import Lane
from memoryd.ledger.memory import Memory, MemoryKind, Source, draw_id
from memoryd.running import modes, queueing, rejection, sleeping
from memoryd.running.queueing import list_candidates
from memoryd.running.sleeping import GatherContext as Gathered
from memoryd.scrub.hidden import mask_hidden
from memoryd.tiers import core, daily
from memoryd.tiers.session_summary import CORRECTED

KIND = JOB
PAUSED = "the agent is paused"
_LABELS = {"User: ": "user", "Assistant: ": "assistant", "Report: ": "report", "Changed: ": "report"}
_LABELS |= {"Failed: ": "report"}
_HAND, _AGENT, _SAVED = "hand", "agent", "saved"
_BY_HAND = frozenset({_HAND, _SAVED})
_MOST_TRIES = 14  # after this many dreams by the offline backend, the days count as dreamt
_SLEEP = "sleep:"  # marks the origin of a line that a sleep wrote, until its author is known


class PastDream(NamedTuple):
    """Hold a successful dream: its days, and the hashes of their files by path."""

    run_id: str
    first: date
    last: date
    dailies: dict[str, str]
    again: int = 0  # number of earlier dreams of these days that do not count
    is_stopgap: bool = False  # True: the offline backend answered because the model failed

    @property
    def is_pending(self) -> bool:
        """Return True if the model must still dream these days."""
        return self.is_stopgap and self.again < _MOST_TRIES


# --- when -------------------------------------------------------------------------------------------------------------


def flush(engine: Engine, settings: Settings, clock: Clock, agent_id: str, trigger: str, actor: str) -> list[str]:
    """Queue a sleep of each live session of an agent; return the ids of the runs, including those that already wait."""
    if settings.modes.sleep == "off":
        return []
    found = []
    for row in list_candidates(engine, agent_id):
        run_id = sleeping.request(engine, clock, row, reason=sleeping.SUMMARY, trigger=trigger, actor=actor)
        found.append(run_id or queueing.open_run(engine, CONSUMER, row["id"]))
    return [run_id for run_id in found if run_id is not None]


def queue(engine: Engine, settings: Settings, clock: Clock, slot: str, at: datetime, trigger: str, missed: int) -> None:
    """Queue a dream of each agent, once for `slot` and after the sleeps of its live sessions.

    If an agent is paused, or an earlier dream still waits, a skipped run uses the scheduled time and has the reason.
    """
    for agent, name in queueing.agents_of_slot(engine, settings, KIND, slot, at):
        key = queueing.agent_key(KIND, agent.id)
        with sqlite.begin_read(engine) as connection:
            waiting = runs.open_by_key(connection, key)
            is_paused = runs.is_paused(connection, agent.id)
        if is_paused or waiting is not None:
            why = PAUSED if is_paused else f"dream {waiting} of an earlier night still waits"
            sqlite.write(engine, queueing.skip, clock, KIND, agent.id, trigger, why, slot=name)
            continue
        options = {"scheduled": True, "flushed": flush(engine, settings, clock, agent.id, trigger, "memoryd")}
        more: dict[str, Any] = {"slot": name, "options": options | {"missed_slots": missed}}
        more |= {"created_at": clock.text(ahead=timedelta(milliseconds=1))}  # the sleeps come first
        sqlite.write(engine, queueing.queue, clock, KIND, agent.id, key, trigger=trigger, **more)


def last_slot(engine: Engine, agent_ids: Sequence[str]) -> str | None:
    """Return the last scheduled time that a dream has used, as local `YYYY-MM-DDTHH:MM`, or None."""
    sql = (
        "SELECT max(substr(slot, length(kind || ':' || agent_id || ':') + 1)) FROM job_run"
        " WHERE kind = ? AND slot IS NOT NULL AND agent_id IN (SELECT value FROM json_each(?))"
    )
    return sqlite.read(engine, query.fetch_text, sql, KIND, list(agent_ids))


def list_dreams(connection: Connection, agent_id: str) -> list[PastDream]:
    """Return an agent's successful dreams that were not rolled back, in order."""
    sql = (
        "SELECT memory_id FROM audit a WHERE agent_id = ? AND memory_id LIKE 'run:%' AND \"after\" IS NOT NULL"
        " AND id = (SELECT max(id) FROM audit b WHERE b.agent_id = a.agent_id AND b.memory_id = a.memory_id)"
    )
    gone = set(query.fetch_column(connection, sql, agent_id))
    sql = (
        "SELECT id, json_extract(receipt, '$.dream'), json_extract(receipt, '$.accepted_by'),"
        " json_extract(receipt, '$.backend') = 'offline' AND json_extract(receipt, '$.fallback') IS NOT NULL"
        " FROM job_run WHERE agent_id = ? AND kind = ? AND state = 'succeeded'"
        " ORDER BY rowid"  # not by time, because a clock may have been wrong
    )
    found = []
    for run_id, text, accepted_by, is_stopgap in query.fetch_rows(connection, sql, agent_id, KIND):
        told = json.loads(text or "{}")
        if chain.RUN + (accepted_by or run_id) not in gone and "from" in told:
            days = date.fromisoformat(told["from"]), date.fromisoformat(told["to"])
            found.append(PastDream(run_id, *days, told.get("dailies", {}), told.get("again", 0), bool(is_stopgap)))
    return found


def _days(connection: Connection, source: Gathered, run: Run, before: Sequence[PastDream]) -> tuple[date, date]:
    """Return the first and the last day that a dream reads."""
    options = run.options
    if options.get("from"):  # an earlier attempt has stored them
        return date.fromisoformat(options["from"]), date.fromisoformat(options["to"])
    today = source.clock.now().astimezone(source.settings.zone).date()
    if not options.get("scheduled"):
        days = int(options.get("lookback_days") or source.settings.dream.lookback_days)
        return today - timedelta(days=min(days, today.toordinal()) - 1), today
    yesterday = today - timedelta(days=1)
    return min(yesterday, _frontier(_first_try(connection, run, source) or yesterday, before)), today


def _frontier(frontier: date, before: Sequence[PastDream]) -> date:
    """Return the last day up to which dreams have covered every day since `start`.

    A dream that begins later than that day does not count.
    """
    for one in before:
        if one.first <= frontier:
            frontier = max(frontier, one.last)
    return frontier


def _first_try(connection: Connection, run: Run, source: Gathered) -> date | None:
    """Return the day before an agent's first dream was queued; None if none was.

    That day and all later ones must be dreamt.
    """
    sql = "SELECT min(created_at) FROM job_run WHERE agent_id = ? AND kind = ?"
    at = query.fetch_text(connection, sql, run.agent_id, KIND)
    return None if at is None else moment_of(at).astimezone(source.settings.zone).date() - timedelta(days=1)


# --- what -------------------------------------------------------------------------------------------------------------


def gather(source: Gathered, run: Run) -> DreamInputs | NothingToDo:
    """Return the frozen input of one dream, or the reason why there is nothing to dream."""
    with sqlite.begin_read(source.engine) as connection:
        every = list_dreams(connection, run.agent_id)
        before = [one for one in every if not (source.model_is_up and one.is_pending)]
        first, last = _days(connection, source, run, before)
    runs.pin(source.engine, run, {"from": first.isoformat(), "to": last.isoformat()})
    late = _find_late_days(source, before, first) if run.options.get("scheduled") else ()
    files = {**dict(late), **dict(_files(source, first, last))}
    told: dict[str, Any] = {"from": first.isoformat(), "to": last.isoformat()}
    told["dailies"] = {path: regular.compute_digest(data) for path, data in files.items()}
    told["hash"] = hashlib.sha256(json.dumps(told["dailies"], sort_keys=True).encode()).hexdigest()
    if again := [one.again for one in every if one.is_pending and one.first <= last and first <= one.last]:
        told["again"] = max(again) + 1
    if flushed := run.options.get("flushed"):  # the sleeps that were queued before this dream
        told["flushed"] = sqlite.read(source.engine, runs.read_states, run.agent_id, flushed)
    if run.options.get("missed_slots"):
        told["missed_slots"] = run.options["missed_slots"]
    if not files:
        span = f"of {last}" if first == last else f"from {first} to {last}"
        older = "" if run.options.get("scheduled") else _name_newest(source, first)
        return NothingToDo(f"no daily file {span} has content{older}", receipt={KIND: told})
    seen = before[-1] if before else None
    if seen and not run.options.get("force") and told["dailies"].items() <= seen.dailies.items():
        return NothingToDo(f"the daily files say nothing new since dream {seen.run_id}", receipt={KIND: told})
    entries, standing = _entries(source, run, files)
    witnesses = sorted({one.session for one in entries if one.session})
    inputs = _inputs(source, run, entries, standing)
    told["core"] = rejection.core_digest(inputs.context.memories.values())
    if not run.options.get("force") and (rejected := _find_rejection(source, run, told)):
        return NothingToDo(rejection.describe_rejection(rejected), receipt={KIND: told})
    return replace(inputs, told={KIND: told, **({"witnesses": witnesses} if witnesses else {})})


def _find_rejection(source: Gathered, run: Run, told: Mapping[str, Any]) -> str | None:
    """Return the id of a rejected dream with the same core and the same daily files; None if there is none."""
    if modes.mode_of(source.engine, source.settings, run.agent_id, KIND) != modes.PROPOSE:
        return None
    for run_id, receipt in sqlite.read(source.engine, runs.rejected_receipts, run.agent_id, KIND):
        was = receipt.get(KIND, {})
        if was.get("core") == told["core"] and told["dailies"].items() <= was.get("dailies", {}).items():
            return run_id
    return None


def ask_again(source: Gathered, run: Run, inputs: DreamInputs) -> DreamInputs:
    """Return the same input with the present core. Memories keep the names by which the model knows them."""
    fresh = _inputs(source, run, inputs.entries, _EntrySupport(inputs.sources_of, inputs.behind_of))
    context = replace(fresh.context, seen=inputs.context.seen)
    digest = rejection.core_digest(fresh.context.memories.values())
    told = {**inputs.told, KIND: {**inputs.told[KIND], "core": digest}}
    return replace(fresh, earlier=inputs.earlier, context=context, told=told, clock=inputs.clock)


def _files(source: Gathered, first: date, last: date) -> Iterator[tuple[str, bytes]]:
    """Yield (path, bytes) of the daily files with content, in order of their days."""
    for number in range(first.toordinal(), last.toordinal() + 1):
        path = f"memory/{date.fromordinal(number).isoformat()}.md"
        data = regular.read_in(source.workspace, path)
        if data is not None and any(daily.split_pieces(mask_hidden(data))):
            yield path, data


def list_days(workspace: Path) -> list[date]:
    """Return the days for which a workspace has daily files, in order."""
    days = []
    for path in (workspace / "memory").glob("????-??-??.md"):
        with contextlib.suppress(ValueError):  # the file name may not be a real date
            days.append(date.fromisoformat(path.stem))
    return sorted(days)


def _name_newest(source: Gathered, before: date) -> str:
    """Return text about the newest daily file with content before a day, and the option that includes it; or ""."""
    today = source.clock.now().astimezone(source.settings.zone).date()
    for day in reversed(list_days(source.workspace)):
        if day < before and any(_files(source, day, day)):
            return f"; the newest that has is memory/{day}.md: add --lookback-days {(today - day).days + 1}"
    return ""


def _find_late_days(source: Gathered, before: Sequence[PastDream], first: date) -> Iterator[tuple[str, bytes]]:
    """Yield the daily files before `first` that have changed since a dream read them.

    A repeated sleep, an accepted proposal or a late transcript can add to the file of an earlier day.
    """
    seen: dict[str, str] = {}
    for one in before:
        seen |= one.dailies
    for day in list_days(source.workspace):
        if day < first and any(one.first <= day <= one.last for one in before):
            files = _files(source, day, day)
            yield from ((name, data) for name, data in files if seen.get(name) != regular.compute_digest(data))


def _inputs(source: Gathered, run: Run, entries: tuple[DailyEntry, ...], standing: "_EntrySupport") -> DreamInputs:
    settings = source.settings
    take_over(source.writer, run.agent_id)
    now = source.clock.text()
    limits = source.writer.limits
    with sqlite.begin_read(source.engine) as connection:
        live = memories.read_live(connection, run.agent_id, MemoryKind.CORE)
        known = {one.id: one for one in live}
        context = guard_check.context_of(connection, run.agent_id, known, caller=Caller.REWRITE, now=now, limits=limits)
        ids = set(query.fetch_column(connection, "SELECT id FROM memory WHERE kind = 'core'"))
    local = source.clock.now().astimezone(settings.zone)
    earlier = tuple(_earlier(settings, f"m{number}", one) for number, one in enumerate(live, 1))
    return DreamInputs(
        earlier=earlier,
        entries=entries,
        today=date.fromisoformat(run.options.get("to") or local.date().isoformat()),
        clock=f"{local:%H:%M}",
        max_bullets=settings.dream.max_bullets,
        unmentioned=Unmentioned(settings.guards.accounting),
        refuses_ungrounded=settings.guards.grounding == "refuse",
        context=replace(context, seen={one.memory.id: one.memory.content for one in earlier}),
        now=now,
        new_id=lambda: draw_id(MemoryKind.CORE, source.writer.new_id, ids),
        new_hex=source.writer.new_id,
        taken=ids,
        sources_of=standing.sources,
        behind_of=standing.behind,
        judges=sleeping.make_judges(source),
        instructions=sleeping.read_instructions(KIND),
    )


def _earlier(settings: Settings, name: str, memory: Memory) -> EarlierMemory:
    at = moment_of(memory.origin_at or memory.created_at).astimezone(settings.zone)
    return EarlierMemory(name, memory, at.date(), at.isoformat(timespec="minutes")[:16] if memory.origin_at else None)


# --- entries ----------------------------------------------------------------------------------------------------------


class _EntrySupport(NamedTuple):
    """Hold functions that return what supports an entry: source records, and sentences of the session."""

    sources: Callable[[DailyEntry], tuple[Source, ...]]
    behind: Callable[[DailyEntry], Behind]


def _entries(source: Gathered, run: Run, files: Mapping[str, bytes]) -> tuple[tuple[DailyEntry, ...], _EntrySupport]:
    """Return the entries of the files, in order, and the functions that return their sources."""
    found: list[tuple[DailyEntry, str | None, Source]] = []
    with sqlite.begin_read(source.engine) as connection:
        for path, data in files.items():
            written = find_written_blocks(connection, run.agent_id, path, data)
            written += find_left_lines(connection, run.agent_id, path, data, written)
            for which, origin in ((NOTED, _AGENT), (SAVED, _SAVED)):
                notes = find_written_blocks(connection, run.agent_id, path, data, which)
                written += [one._replace(origin=origin) for one in notes]
            found += _of_file(source.settings, path, data, written, source.clock.text())
        found = _list_current(list(_by_agent(connection, source.settings, run.agent_id, found)))
    texts = source.scrubber.redact([one.text for one, _, _ in found])
    grounds = _Grounds(source)
    for at, (one, run_id, span) in enumerate(found):
        if run_id is not None and one.origin.startswith(_SLEEP):
            origin = grounds.origin(run_id, one, one.origin.removeprefix(_SLEEP) or None)
            found[at] = replace(one, origin=origin), run_id, span
    entries = tuple(
        replace(one, id=f"d{number}", text=text)
        for number, ((one, _, _), text) in enumerate(zip(found, texts, strict=True), 1)
        if text.strip()
    )
    by_id = {f"d{number}": (run_id, span) for number, (_, run_id, span) in enumerate(found, 1)}

    def sources_of(entry: DailyEntry) -> tuple[Source, ...]:
        run_id, span = by_id[entry.id]
        return (run_id is not None and grounds.sources(run_id, entry)) or (replace(span, origin=entry.origin),)

    def behind_of(entry: DailyEntry) -> Behind:
        run_id, _ = by_id[entry.id]
        return grounds.find_support(run_id, entry) if run_id is not None else ()

    return entries, _EntrySupport(sources_of, behind_of)


def _list_current(found: Sequence["_Found"]) -> list["_Found"]:
    """Return the entries without corrected ones, and without the lines that only report a correction."""
    current: list[_Found] = []
    gone: set[tuple[str | None, str]] = set()
    for one, run_id, span in reversed(found):
        key = one.session, core.normalize(one.text.removeprefix(CORRECTED))
        if run_id is not None and one.text.startswith(CORRECTED):
            gone.add(key)
        elif key in gone:
            gone.remove(key)
        else:
            current.append((one, run_id, span))
    return current[::-1]


_Found = tuple[DailyEntry, str | None, Source]


def _by_agent(connection: Connection, settings: Settings, agent_id: str, found: Sequence[_Found]) -> Iterator[_Found]:
    """Yield the entries, with an author for those that no run wrote.

    If a tool call contains the text, it is the agent's. On a day with tool calls, the author of other entries is
    unknown, because a program that the agent started may have written them. What was saved with the command is the
    owner's, unless a tool call of that day names the command. All remaining entries are the owner's, too.
    """
    start = partial(date_entry, settings, clock="00:00")
    hands = [entry for entry, _, _ in found if entry.origin in _BY_HAND]
    own: set[str] = set()
    if hands:
        texts = {core.normalize(entry.text) for entry in hands}
        own = authorship.own_texts(connection, agent_id, start(min(entry.day for entry in hands)), texts)

    @cache
    def is_busy(origin: str, day: date) -> bool:
        may_have_written = authorship.was_saving if origin == _SAVED else authorship.was_working
        return may_have_written(connection, agent_id, start(day), start(day + timedelta(days=1)))

    for entry, run_id, span in found:
        origin = entry.origin
        if origin in _BY_HAND and core.normalize(entry.text) in own:
            origin = _AGENT
        elif origin in _BY_HAND and is_busy(origin, entry.day):
            origin = UNKNOWN_ORIGIN
        yield (replace(entry, origin=origin) if origin != entry.origin else entry), run_id, span


def date_entry(settings: Settings, day: date, clock: str | None) -> str:
    """Return the time of an entry of a daily file, as UTC text; without a clock, it is the end of the day."""
    time = wall_time.fromisoformat(clock) if clock else wall_time(23, 59)
    return text_of(datetime.combine(day, time, settings.zone).astimezone(UTC))


def _of_file(
    settings: Settings, path: str, data: bytes, written: Sequence[WrittenBlock], now: str
) -> Iterator[tuple[DailyEntry, str | None, Source]]:
    """Yield the entries of a file (bullets and paragraphs), each with the id of its run and its place."""
    day = date.fromisoformat(path[-13:-3])
    shown = mask_hidden(data)
    for start, block in daily.parse(data).list_sections():
        raw, stamp = block.raw, min(date_entry(settings, day, block.clock), now)
        pieces = list(daily.split_pieces(shown[start : start + len(raw)]))
        ends = [*(first for first, _ in pieces), len(raw)][1:]
        for (first, text), end in zip(pieces, ends, strict=True):
            place = slice(start + first, start + end)
            by = next((one for one in written if _covers(one, data, place)), None)
            if by is not None and daily.is_passing(raw, first):
                continue
            label = next((origin for label, origin in _LABELS.items() if text.startswith(label)), None)
            own = _HAND if by is None else by.origin
            if own is None:
                origin = f"{_SLEEP}{label or ''}"
            else:
                origin = own if label in {None, "user"} or own == UNKNOWN_ORIGIN else label
            session_id = None if by is None or by.origin else by.session_id
            at_work = session_id is not None and b"\n### " in raw
            entry = DailyEntry("", text, origin or "", day, block.clock, stamp, session_id, path, at_work)
            source = Source(
                session=session_id or "", transcript=path, record_id=f"{day}", part=0, first_byte=start,
                last_byte=start + len(raw), sha256=hashlib.sha256(raw).hexdigest(), origin="daily", at=stamp,
            )  # fmt: skip
            yield entry, None if session_id is None or by is None else by.run_id, source


def _covers(block: WrittenBlock, data: bytes, place: slice) -> bool:
    """Return True if a piece of a file begins inside a block and does not go on below it."""
    below = data[block.end : place.stop].partition(b"\n")[0].strip()  # only the next line can continue the last one
    return block.first <= place.start < block.end and (not below or below.startswith(b"#"))


class _Grounds:
    """Find what supports the lines of sleep runs. The turns of a run are read when its first line is looked up."""

    def __init__(self, source: Gathered) -> None:
        self._source = source
        self._ground = cache(lambda run_id: sqlite.read(source.engine, read_sentences, run_id, source.settings.zone))

    def find_support(self, run_id: str, entry: DailyEntry) -> Behind:
        """Return the sentences, with their turns, that support a line of a run's block."""
        return self._ground(run_id)[0].find_support(entry.text)

    def origin(self, run_id: str, entry: DailyEntry, label: str | None) -> str:
        """Return the author of a line (`user`, `assistant`, `report`): the least trusted one of its source sentences.

        Without sources, the label decides, but it never makes the line the user's.
        """
        lanes = [
            piece.lines[number - 1].lane for piece, numbers in self.find_support(run_id, entry) for number in numbers
        ]
        lane = min(lanes, default=Lane.ASSISTANT if label in {None, "user", "assistant"} else Lane.OUTSIDE)
        return {Lane.USER: "user", Lane.ASSISTANT: "assistant"}.get(lane, "report")

    def sources(self, run_id: str, entry: DailyEntry) -> tuple[Source, ...]:
        """Return the records that support a line of a run's block."""
        footing, session_id = self._ground(run_id)
        return sqlite.read(self._source.engine, turns.build_sources, session_id, footing.seqs(entry.text))
