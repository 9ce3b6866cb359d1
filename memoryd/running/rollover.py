"""Roll sessions over: write `RECENT.md` and the archive with its index, and clear NOW files.

All files are rendered from the summaries of sessions. A session gets its entry when it has ended and its last sleep is
done, and a new entry when its summary changes. Sessions that had ended before memoryd saw them do not sleep. If such a
session is among the last ones, the offline backend summarizes it, and nothing goes into a daily file. The same happens
for a NOW file that cannot wait for a sleep, because it is too long or because somebody asks for a rollover.
"""

import contextlib
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine

from memoryd.changing.guard_check import HUMAN
from memoryd.clock import Clock
from memoryd.config import Settings
from memoryd.database import query, runs, sqlite, summaries, turns
from memoryd.database.runs import Run
from memoryd.errors import StateError
from memoryd.files import regular
from memoryd.jobs import sleep
from memoryd.jobs.evidence import parse_moment
from memoryd.jobs.job import Ask, Done, JobEdit, KeepSummary, NoteTold, NothingToDo, Reply, WriteFile, drive
from memoryd.running import dreaming, modes, now_files, queueing, sleeping
from memoryd.running.answering import OFFLINE, RunQuestion
from memoryd.running.now_files import DueNowFile
from memoryd.running.queueing import agent_key
from memoryd.running.runner import Runner
from memoryd.running.second_reader import keep_whole
from memoryd.text.private import is_private
from memoryd.text.tags import MARKERS, find_tags
from memoryd.tiers import archive, archive_index, recent
from memoryd.tiers.archive import FOLDER, PastSession
from memoryd.tiers.now import NowHeader
from memoryd.tiers.session_summary import Section, SessionSummary, parse_points
from memoryd.transcripts import now_file

KIND = "rollover"
_TASK = re.compile(r"(?<![\w#&/])#\d{1,9}\b")
_MOST_TASKS = 20
# A message that asks for a rollover has only these words.
_ASKS = re.compile(
    r"(?:please )?(?:consolidate (?:my|our|the|your) memor(?:y|ies)|reflect on (?:my |our |the )?recent work)[.!]*",
    re.IGNORECASE,
)
_ASKED_LATELY = timedelta(minutes=10)
_LOOKED_AT = 50  # sessions to check besides those with an entry, because some may be empty
_SUMMED_UP = 4  # sessions that one run may summarize, as a multiple of the entries


# --- when -------------------------------------------------------------------------------------------------------------


def consider(engine: Engine, settings: Settings, clock: Clock, agent_id: str) -> str | None:
    """Queue a rollover if an agent's files do not match its last sessions; return the run's id, or None.

    The same rollover is queued only once. If sessions must be summarized, it starts later, because reading an import
    takes a while.
    """
    if not _may_run(settings, agent_id):
        return None
    with sqlite.begin_read(engine) as connection:
        last = summaries.list_last(connection, agent_id, _LOOKED_AT + settings.sessions.recent_sessions)
        new = [f"{row['id']} {row['summed_up_by']}" for row in summaries.list_changed(connection, agent_id)]
        with contextlib.suppress(StateError):  # if the folder is unreadable, the runs that write there report it
            new += _list_now(connection, settings, clock, agent_id)
    delay = timedelta(0)
    for row in _take_last(settings, clock, last):
        if row["summary"] is None:
            new.append(f"{row['id']} {row['last_seq']}")
            delay = settings.facts.debounce
        elif row["told"] is None and row["state"] == "ended" and _is_asleep(settings, clock, row):
            new.append(f"{row['id']} {row['summed_up_by']}")
    if not new:
        return None
    key = f"{KIND}:{agent_id}:{hashlib.sha256(repr(sorted(new)).encode()).hexdigest()[:16]}"
    with sqlite.begin_write(engine) as connection:
        if runs.was_asked(connection, KIND, agent_id, key, clock.text(ahead=-queueing.ASK_AGAIN)):
            return None
        at = clock.text(ahead=delay)
        return queueing.queue(connection, clock, KIND, agent_id, key, trigger="session-end", scheduled_for=at)


def _list_now(connection: Connection, settings: Settings, clock: Clock, agent_id: str) -> list[str]:
    """Return a key for each NOW file or session that is due. The key changes with the file."""
    waiting = {row["id"] for row in _list_waiting(connection, settings, clock, agent_id)}
    due = [one for one in now_files.list_due(connection, settings, clock, agent_id) if one.session_id not in waiting]
    edits = [edit for one in due for edit in one.writes[:1]] + now_files.list_gone(settings, clock, agent_id)
    unfiled = [row["id"] for row in summaries.list_unfiled(connection, agent_id) if row["id"] not in waiting]
    return [*unfiled, *(f"{edit.path} {regular.compute_digest(edit.old or b'')}" for edit in edits)]


def _list_waiting(connection: Connection, settings: Settings, clock: Clock, agent_id: str) -> list[query.Row]:
    """Return the sessions of NOW files that will still sleep. A sleep summarizes them better than a rollover."""
    unfiled = summaries.list_unfiled(connection, agent_id) if settings.modes.sleep == modes.AUTO else ()
    return [row for row in unfiled if not _is_asleep(settings, clock, row)]


def consider_session(engine: Engine, settings: Settings, clock: Clock, session_id: str) -> str | None:
    """Queue a rollover for the agent of a session that has ended, if needed; return the run's id, or None."""
    row = sqlite.read(engine, turns.session_row, session_id)
    is_over = row is not None and row["state"] == "ended"
    return consider(engine, settings, clock, row["agent_id"]) if row is not None and is_over else None


def consider_asked(engine: Engine, settings: Settings, clock: Clock, session_id: str) -> str | None:
    """Queue a rollover if the last message that a person typed in a session asks for it; return the run's id, or None.

    Each message counts once, and only if it was typed in the last minutes.
    """
    if "owner" not in settings.access.consolidate:
        return None
    sql = (
        "SELECT s.agent_id, t.seq, t.at, plain(CAST(t.text AS BLOB), t.text_crc) AS text"
        " FROM turn t JOIN session s ON s.id = t.session_id"
        " WHERE s.id = ? AND s.state = 'active' AND t.role = 'user' AND t.origin = 'user' ORDER BY t.seq DESC LIMIT 1"
    )
    for row in sqlite.read(engine, query.fetch_mappings, sql, session_id):
        said = parse_moment(row["at"])
        is_new = said is not None and clock.now() - said < _ASKED_LATELY
        if not (is_new and _ASKS.fullmatch(row["text"].strip()) and _may_run(settings, row["agent_id"])):
            return None
        key = f"{KIND}:{row['agent_id']}:{session_id}:{row['seq']}"
        if sqlite.read(engine, query.has_row, 'SELECT 1 FROM job_run WHERE "key" = ?', key):
            return None
        dreaming.flush(engine, settings, clock, row["agent_id"], "manual", HUMAN)
        options = {"before": clock.text(), "by": f"user in session {session_id}"}
        more: dict[str, Any] = {"trigger": "manual", "actor": HUMAN, "options": options}
        return sqlite.write(engine, queueing.queue, clock, KIND, row["agent_id"], key, **more)
    return None


def consider_all(engine: Engine, settings: Settings, clock: Clock) -> None:
    """Queue the rollovers that are needed."""
    for agent in settings.agents:
        consider(engine, settings, clock, agent.id)


def queue(engine: Engine, settings: Settings, clock: Clock, slot: str, at: datetime, trigger: str) -> None:
    """Queue the nightly rollover of each agent, once for this scheduled time.

    It also handles NOW files that began more than `sessions.stale_after` ago and were never rolled over.
    """
    options = {"before": clock.text(ahead=-settings.sessions.stale_after), "scheduled": True}
    for agent, name in queueing.agents_of_slot(engine, settings, KIND, slot, at):
        more: dict[str, Any] = {"key": agent_key(KIND, agent.id), "slot": name, "options": options}
        sqlite.write(engine, queueing.queue, clock, KIND, agent.id, trigger=trigger, **more)


def request(engine: Engine, settings: Settings, clock: Clock, agent_id: str) -> None:
    """Queue a rollover after a `forget`, which renews the index and fills a free entry of `RECENT.md`."""
    if _may_run(settings, agent_id):
        sqlite.write(engine, queueing.queue, clock, KIND, agent_id, agent_key(KIND, agent_id), trigger="recovery")


def _may_run(settings: Settings, agent_id: str) -> bool:
    is_on = any(agent.id == agent_id and agent.enabled for agent in settings.agents)
    return is_on and settings.modes.rollover != modes.OFF


def _take_last(settings: Settings, clock: Clock, rows: Iterable[query.Row]) -> list[query.Row]:
    """Return the sessions that may get an entry: those whose summary has content, or whose summary is still missing."""
    found: list[query.Row] = []
    for row in rows:
        if len(found) < settings.sessions.recent_sessions and (
            _is_left(settings, clock, row) if row["summary"] is None else _says_something(parse_points(row["summary"]))
        ):
            found.append(row)
    return found


def _says_something(summary: SessionSummary) -> bool:
    """Return True if the summary has a request, a decision or a changed file. Other sessions get no entry."""
    return any(point.section in {Section.ASKED, Section.DECIDED, Section.FILES} for point in summary.points)


def _is_asleep(settings: Settings, clock: Clock, row: query.Row) -> bool:
    """Return True if no sleep of the session will follow."""
    is_history = sleeping.is_history(row, settings.sessions.idle_end, clock.now())
    return row["slept_upto"] >= row["last_seq"] or (is_history and settings.ingest.history == "index")


def _is_left(settings: Settings, clock: Clock, row: query.Row) -> bool:
    """Return True if a session had ended before memoryd saw it, and no sleep will summarize it."""
    is_history = sleeping.is_history(row, settings.sessions.idle_end, clock.now())
    return is_history and settings.modes.sleep != modes.OFF and _is_asleep(settings, clock, row)


# --- what -------------------------------------------------------------------------------------------------------------


def carry_out(runner: Runner, run: Run) -> None:
    """Write the files of the last sessions; decide again if somebody edits one meanwhile.

    Raises:
        AwayError: the files changed before each commit.
    """
    workspace = runner.workspace_of(run)
    writer = runner.writer(workspace)
    runner.decide_anew(run, "the files change", lambda: runner.commit(run, _decide(runner, run, workspace), writer))


class _LastSessions(NamedTuple):
    """Hold what a rollover must write."""

    last: Sequence[PastSession]
    changed: Sequence[PastSession]  # other sessions, with an outdated part in the archive
    built: Sequence[KeepSummary]
    told: Sequence[NoteTold]
    unchanged: Collection[str]  # names of sessions whose present summary is already in the files
    private: Collection[str]  # archive files that are private
    files: Sequence[WriteFile]  # writes of NOW files


class _Candidates(NamedTuple):
    """Hold the sessions of an agent that a rollover considers."""

    rows: Sequence[query.Row]  # newest first
    changed: Mapping[str, query.Row]  # by id, including those whose NOW file is due
    due: Mapping[str, DueNowFile]  # by session id


def _decide(runner: Runner, run: Run, workspace: Path) -> Done | NothingToDo:
    found = _gather(runner, run, workspace)
    writes = [*_list_writes(runner, run, workspace, found), *found.files]
    rows: tuple[JobEdit, ...] = (*found.built, *found.told)
    counts = {"sessions": len(found.last), "offline": len(found.built), "files": len(writes)}
    if writes:
        return Done((*writes, *rows), {KIND: counts})
    why = "the files are up to date" if found.last else "in no session anything was asked, decided or changed yet"
    return NothingToDo(why, rows, {KIND: counts})


def _find_candidates(runner: Runner, run: Run) -> _Candidates:
    settings, clock, agent_id = runner.settings, runner.clock, run.agent_id
    asked = run.options.get("before")
    with sqlite.begin_read(runner.engine) as connection:
        due = now_files.list_due(connection, settings, clock, agent_id, parse_moment(asked) if asked else None)
        slept = set() if asked else {row["id"] for row in _list_waiting(connection, settings, clock, agent_id)}
        held = {one.session_id: one for one in due if one.session_id not in slept}
        unfiled = [row for row in summaries.list_unfiled(connection, agent_id) if row["id"] not in slept]
        now_rows = [*unfiled, *summaries.list_some(connection, agent_id, held)]
        last = summaries.list_last(connection, agent_id, _LOOKED_AT + settings.sessions.recent_sessions)
        changed = [*summaries.list_changed(connection, agent_id), *now_rows]
    rows = {row["id"]: row for row in (*last, *now_rows) if row["id"] not in slept}
    newest = sorted(rows.values(), key=lambda row: (row["last_turn_at"], row["id"]), reverse=True)
    return _Candidates(newest, {row["id"]: row for row in changed}, held)


def _find_summary(
    runner: Runner, run: Run, found: _Candidates, built: dict[str, KeepSummary], row: query.Row, *, is_needed: bool
) -> tuple[PastSession, NoteTold]:
    """Return a session with its stored summary, or with one that the offline backend writes now into `built`.

    Also return a note about the run that wrote the summary. `is_needed` means that a missing summary must be written.
    """
    text, by = row["summary"], row["summed_up_by"]
    is_behind = row["id"] in found.due and row["slept_upto"] < row["last_seq"]
    if (is_behind or (text is None and is_needed)) and row["turns"]:
        if row["id"] not in built:
            runner.go_on(run)
            built[row["id"]] = _sum_up(runner, run, row)
        text, by = built[row["id"]].summary, None
    return _past(row, parse_points(text or ""), runner, found.due.get(row["id"])), NoteTold(row["id"], by)


def _gather(runner: Runner, run: Run, workspace: Path) -> _LastSessions:
    settings = runner.settings
    found = _find_candidates(runner, run)
    changed = dict(found.changed)
    built: dict[str, KeepSummary] = {}
    take = partial(_find_summary, runner, run, found, built)
    last: list[PastSession] = []
    told: list[NoteTold] = []
    unchanged = []
    for row in found.rows:
        if len(last) == settings.sessions.recent_sessions:
            break
        is_left = len(built) < _SUMMED_UP * settings.sessions.recent_sessions
        is_left = is_left and _is_left(settings, runner.clock, row)
        past, note = take(row, is_needed=is_left or row["id"] in changed)
        if _says_something(past.summary):
            last.append(past)
            told.append(note)
            if changed.pop(row["id"], None) is None and row["told"] is not None:
                unchanged.append(past.name)
    others = [take(row, is_needed=True) for row in changed.values()]
    every = [*last, *(past for past, _ in others)]
    private = {one.file for one in every if _is_private(workspace, one.file)}
    files = _list_cleared(found.due, {one.id for one in every if one.file in private})
    files += now_files.list_gone(settings, runner.clock, run.agent_id)
    told += [note for _, note in others]
    return _LastSessions(last, every[len(last) :], list(built.values()), told, unchanged, private, files)


def _list_cleared(due: Mapping[str, DueNowFile], kept: Collection[str]) -> list[WriteFile]:
    """Return the writes of due NOW files, except for sessions whose archive file is private and cannot be written."""
    return [edit for one in due.values() if one.session_id not in kept for edit in one.writes]


def _past(row: query.Row, summary: SessionSummary, runner: Runner, due: DueNowFile | None) -> PastSession:
    zone = runner.settings.zone
    ended = (parse_moment(row["last_turn_at"]) or runner.clock.now()).astimezone(zone)
    started = (parse_moment(row["started_at"]) or ended).astimezone(zone)
    is_whole = row["format"] == now_file.NAME and (row["state"] == "ended" or due is not None)
    said = sqlite.read(runner.engine, now_files.read_said, row["id"]) if is_whole else ()
    texts = [one.text for one in said if one.speaker != "Tool"]
    text = "\n\n".join(texts or [point.text for point in summary.points if point.by_user])
    header = (due.header if due else None) or NowHeader("", None)
    tags = tuple(dict.fromkeys([*header.tags, *find_tags(text)]))
    tasks = dict.fromkeys([*header.related_tasks, *_TASK.findall(text)])
    theme = _name_theme(tags, row["folder"])
    past = PastSession(row["id"], min(started, ended), ended, summary, theme, tags, tuple(tasks)[:_MOST_TASKS], said)
    return replace(past, is_moved=_is_moved(runner.settings, row["agent_id"], past.file))


def _is_moved(settings: Settings, agent_id: str, name: str) -> bool:
    """Return True if `memoryd archive` has moved this archive file."""
    folder = settings.get_agent(agent_id).workspace / FOLDER
    return (folder / archive.MOVED / name).exists() and not (folder / name).exists()


def _name_theme(tags: Sequence[str], folder: str | None) -> str:
    """Return the theme of a session: its first tag, or else the name of its project."""
    subject = next((tag for tag in tags if tag not in MARKERS), "") or Path(folder or "").name
    return archive.name_theme(subject)


def _sum_up(runner: Runner, run: Run, row: query.Row) -> KeepSummary:
    """Return the offline backend's summary of a session that has not slept; empty if it has no content."""
    source = runner.source(runner.workspace_of(run))
    said = sqlite.read(runner.engine, turns.stored_turns, row["id"])
    offline = replace(runner.settings, llm=replace(runner.settings.llm, provider=OFFLINE))

    def answer(ask: Ask) -> Reply:
        if ask.job != sleep.CONSUMER:
            return Reply("", "stop", OFFLINE)  # the offline backend only quotes, so no second reader is needed
        return runner.answerer.answer(RunQuestion(run, ask, offline, keep_whole, runner.step))

    end = drive(sleep.decide(sleeping.make_inputs(source, run, row, said, ("", ()))), answer)
    edits = end.edits if isinstance(end, Done) else ()
    return next((edit for edit in edits if isinstance(edit, KeepSummary)), None) or KeepSummary(row["id"], "", ())


def _list_writes(runner: Runner, run: Run, workspace: Path, found: _LastSessions) -> Iterable[WriteFile]:
    """Yield the writes of the archive files, the index and `RECENT.md` that change."""
    parts: dict[tuple[str, date], list[PastSession]] = {}
    for one in (*found.last, *found.changed):
        parts.setdefault((one.file, one.started.date()), []).append(one)
    today = runner.clock.now().astimezone(runner.settings.zone).date()
    files = dict(_read_archive(workspace))
    for (name, day), held in sorted(parts.items()):
        old = files.get(name)
        if name not in found.private and (old is not None or any(one.summary.points or one.said for one in held)):
            files[name] = archive.put_parts(old, day, held, today)
            yield from _write(f"{FOLDER}/{name}", old, files[name])
    old = regular.read_in(workspace, f"{FOLDER}/{archive_index.NAME}")
    if files:
        yield from _write(f"{FOLDER}/{archive_index.NAME}", old, archive_index.put_lines(old, files))
    path = f"{FOLDER}/{recent.NAME}"
    old = regular.read_in(workspace, path)
    if old is not None or found.last:
        most = runner.settings.sessions
        known = {archive.name_of(one) for one in sqlite.read(runner.engine, turns.list_ids, run.agent_id)}
        new = recent.write_file(
            found.last, most.recent_sessions, most.recent_max_lines, old or b"", known=known, unchanged=found.unchanged
        )
        yield from _write(path, old, new)


def _is_private(workspace: Path, name: str) -> bool:
    return is_private(name, regular.read_in(workspace, f"{FOLDER}/{name}") or b"")


def _read_archive(workspace: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (name, bytes) of the archive's content files that are not private."""
    folder = workspace / FOLDER
    places = [*folder.glob("MEMORY-*.md"), *(folder / archive.MOVED).glob("MEMORY-*.md")]
    for name in sorted(str(path.relative_to(folder)) for path in places):
        if archive.NAME.fullmatch(name.removeprefix(f"{archive.MOVED}/")):
            data = regular.read_in(workspace, f"{FOLDER}/{name}")
            if data is not None and not is_private(name, data):
                yield name, data


def _write(path: str, old: bytes | None, new: bytes) -> Iterable[WriteFile]:
    if new != old and not is_private(path, old or b""):  # a private file belongs to a person
        yield WriteFile(path, old, new)
