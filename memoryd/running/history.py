"""Import history: read all of it, write old sessions to memory, newest first, and dream of their days.

An import of an agent is a row of the job table, of kind `history`, which the runner never takes. The daemon or the
command calls `Importer.tend` repeatedly. Each call queues the next run if the last one has ended. So live sessions wait
for at most one run, and an import continues after a crash. Its runs have its id as the option `import`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from sqlalchemy import Engine

from memoryd.changing.guard_check import HUMAN
from memoryd.clock import Clock, moment_of
from memoryd.counted import count_noun
from memoryd.database import query, runs, spend, sqlite
from memoryd.database.history import DREAMING, KIND, READING, STEP, WRITING
from memoryd.database.runs import Run
from memoryd.errors import AwayError
from memoryd.files import regular
from memoryd.jobs.sleep import CONSUMER
from memoryd.reading.ingest import Ingest
from memoryd.running import dreaming, modes, queueing, sleeping
from memoryd.running.answering import BUDGET_SPENT, OFFLINE
from memoryd.running.runner import Runner

NEVER = "9999-12-31T00:00:00.000Z"  # the due time of an import's row
DREAM_BYTES = 64 << 10  # bytes of daily files for one dream; a longer day is not divided
DREAM_SHARE = 10  # percent of the token budget that is reserved for dreams
NOTED_SECONDS = 1.0  # seconds between two records of the progress
MOST_RETRYING = 2  # with this many runs waiting for another attempt, the import waits too
_OF_IMPORT = "json_extract(r.options, '$.import') = ?"
_UNDONE = ("dead", "failed", "blocked", "cancelled")
# Ended sessions with turns after the watermark of a kind. An import tries each of them once.
_LEFT = (
    " FROM session s JOIN json_each(?) k LEFT JOIN watermark w ON w.session_id = s.id AND w.consumer = k.value"
    " WHERE s.agent_id = ? AND s.parent_id IS NULL AND s.state = 'ended' AND s.last_turn_at >= ?"
    " AND s.last_seq > coalesce(w.seq, 0) AND s.id || ' ' || k.value NOT IN (SELECT r.session_id || ' ' || r.kind"
    " FROM job_run r WHERE r.agent_id = s.agent_id AND r.session_id IS NOT NULL"
    " AND (r.created_at >= ? OR r.state IN ('queued', 'interrupted', 'running', 'blocked', 'proposed')))"
)


class _Pace(NamedTuple):
    """Hold when this process first saw a step, and how much was left at that time."""

    step: str
    at: float  # monotonic
    left: float


def request(engine: Engine, clock: Clock, agent_id: str, options: dict[str, Any]) -> str:
    """Queue an import of an agent's history and return its id; if one is open, return that one.

    `options` has `since` (UTC, or empty), `search_only` (bool) and `tokens` (the budget, or None).
    """
    key = queueing.agent_key(KIND, agent_id)
    with sqlite.begin_write(engine) as connection:
        more: dict[str, Any] = {"trigger": "manual", "actor": HUMAN, "options": options, "scheduled_for": NEVER}
        run_id = queueing.queue(connection, clock, KIND, agent_id, key, **more)
        return run_id or runs.open_by_key(connection, key) or ""


def wait(runner: Runner, run: Run) -> None:
    """Return the row of an import to the queue. The runner takes such a row only if a clock was set back."""
    runs.put_back(runner.engine, run, state="queued", due=NEVER, error="", refund=True)


class Importer:
    """Advance the open imports step by step, in the thread that reads the transcripts."""

    def __init__(self, runner: Runner, ingest: Ingest) -> None:
        self._runner = runner
        self._ingest = ingest
        self._paces: dict[str, _Pace] = {}  # by import
        self._noted: dict[str, tuple[float, int]] = {}  # import → (time of the last record, last logged tenth)

    def tend(self) -> bool:
        """Check each open import once; return True if one made progress."""
        rows = sqlite.read(
            self._runner.engine,
            query.fetch_mappings,
            "SELECT * FROM job_run WHERE state = 'queued' AND kind = ?"
            " AND agent_id IN (SELECT value FROM json_each(?))",
            KIND,
            tuple(agent.id for agent in self._runner.settings.agents if agent.enabled),
        )
        steps = [self._advance(_OpenImport(self._runner, row)) for row in rows]
        return any(steps)

    def reads_since(self) -> float | None:
        """Return the time since which open imports want changed transcripts, in seconds since 1970.

        It is None if no import is reading.
        """
        sql = f"SELECT json_extract(options, '$.since') FROM job_run WHERE state = 'queued' AND kind = ? AND {STEP} = ?"  # noqa: S608
        found = sqlite.read(self._runner.engine, query.fetch_column, sql, KIND, READING)
        return min(map(_seconds_of, found), default=None)

    def _advance(self, one: _OpenImport) -> bool:
        step = {READING: self._read, WRITING: self._write, DREAMING: self._dream}[one.step]
        try:
            moved = step(one)
        except AwayError as error:  # the workspace is gone
            self._runner.set_alarm("waiting", f"the import waits: {error}", one.agent_id, one.run.subject)
            return False
        self._runner.set_alarm("waiting", None, one.agent_id, one.run.subject)
        return moved

    def _read(self, one: _OpenImport) -> bool:
        unread = {
            waiting: size
            for waiting, size in self._ingest.list_unread().items()
            if waiting.agent_id == one.agent_id and waiting.changed_at >= _seconds_of(one.since)
        }
        self._note(one, len(unread), sum(unread.values()))
        if unread:
            return False
        if self._ingest.unreadable.count(one.agent_id) and "reread" not in one.told:
            one.note(reread=True)
            self._ingest.find()  # a second attempt, because the errors may have been temporary
            return True
        self._ingest.flush()
        self._ingest.changed.update(sleeping.end_idle(self._runner.engine, self._runner.settings, self._runner.clock))
        if one.options.get("search_only"):
            one.finish(self._ingest.unreadable.count(one.agent_id))
        else:
            one.enter(WRITING)
        return True

    def _write(self, one: _OpenImport) -> bool:
        open_runs, retrying = one.count_open()
        left = one.count_left()
        self._note(one, left + (open_runs > 0), left + (open_runs > 0))
        if open_runs or retrying >= MOST_RETRYING:
            return False
        if (why := one.find_spent()) is None and one.queue_next():
            return True
        if retrying and why is None:
            return False
        one.enter(DREAMING, stopped=why, days=one.list_days())
        return True

    def _dream(self, one: _OpenImport) -> bool:
        open_runs, retrying = one.count_open()
        days = one.told.get("days", [])
        dreamt = one.told.get("dreamt", 0)
        self._note(one, len(days) - dreamt + (open_runs > 0), len(days) - dreamt + (open_runs > 0))
        if open_runs:
            return False
        if dreamt < len(days):
            return not retrying and one.queue_dream(days[dreamt])
        one.finish(self._ingest.unreadable.count(one.agent_id))
        return True

    def _note(self, one: _OpenImport, left: int, amount: float) -> None:
        """Record how much of a step is left, at most once a second, and log each tenth of it.

        `left` is the number of remaining items. `amount` is in the unit that decides the remaining time, such as bytes.
        """
        now = self._runner.clock.monotonic()
        pace = self._paces.get(one.run.id)
        if pace is None or pace.step != one.step or amount > pace.left:
            pace = self._paces[one.run.id] = _Pace(one.step, now, amount)
            self._noted.pop(one.run.id, None)
        is_new = one.told.get("of") != one.step
        total = max(left, 0 if is_new else one.told.get("total", 0))
        done = total - left
        tenth = 10 * done // total if total else 0
        noted_at, logged = self._noted.get(one.run.id, (-NOTED_SECONDS, tenth if left else 0))
        if tenth > logged:
            told = {"step": one.step, "done": done, "of": total, "percent": 10 * tenth}
            self._runner.log.info("import", agent=one.agent_id, **told)
        elif now - noted_at < NOTED_SECONDS and not is_new:
            return
        seconds = round((now - pace.at) * amount / (pace.left - amount)) if amount < pace.left else None
        one.note(of=one.step, done=done, total=total, seconds_left=seconds)
        self._noted[one.run.id] = now, tenth


class _OpenImport:
    """Hold one open import with the values of its row."""

    def __init__(self, runner: Runner, row: dict[str, Any]) -> None:
        self.runner = runner
        self.run = runs.get_run(runner.engine, row["id"])
        self.agent_id = self.run.agent_id
        self.options = self.run.options
        self.told: dict[str, Any] = json.loads(row["receipt"]).get(KIND, {})
        self.step: str = self.told.get("step", READING)
        self.since: str = self.options.get("since") or ""

    def note(self, **values: Any) -> None:
        """Store values in the report on its row."""
        self.told |= values
        sqlite.write(self.runner.engine, runs.note_receipt, self.run, {KIND: self.told}, states=("queued",))

    def enter(self, step: str, **values: Any) -> None:
        """Begin the next step, and store values with it."""
        self.step = step
        self.note(step=step, **values)

    # --- writing --------------------------------------------------------------------------------------------------

    def count_open(self) -> tuple[int, int]:
        """Return (open, waiting): how many of its runs are running or due, and how many wait for a retry."""
        sql = (
            "SELECT count(*), coalesce(sum(r.state = 'queued' AND r.error IS NOT NULL), 0) FROM job_run r"  # noqa: S608
            f" WHERE {_OF_IMPORT} AND r.state IN ('queued', 'interrupted', 'running')"
        )
        ((every, later),) = self._rows(sql, self.run.id)
        return every - later, later

    def count_left(self) -> int:
        """Return the number of sessions that the import has not yet tried to write to memory."""
        return int(self._rows(f"SELECT count(DISTINCT s.id){_LEFT}", *self._which())[0][0])

    def _which(self) -> tuple[object, ...]:
        wanted = [kind for kind in queueing.OF_TURNS if self._mode(kind) != modes.OFF]
        return json.dumps(wanted), self.agent_id, self.since, self.run.created_at

    def _mode(self, kind: str) -> str:
        return modes.mode_of(self.runner.engine, self.runner.settings, self.agent_id, kind)

    def queue_next(self) -> bool:
        """Queue the next sleep or question about facts, for the newest session that needs one.

        Returns False if no session needs one.
        """
        sql = f"SELECT s.*, k.value AS wanted{_LEFT} ORDER BY s.last_turn_at DESC, s.id, k.key LIMIT 1"
        rows = sqlite.read(self.runner.engine, query.fetch_mappings, sql, *self._which())
        if not rows:
            return False
        kind = rows[0]["wanted"]
        options = {"import": self.run.id, **self._grant_tokens(DREAM_SHARE)}
        if kind == CONSUMER:
            options |= {"reason": sleeping.NOTES, "upto": None}
        queueing.request(self.runner.engine, self.runner.clock, kind, rows[0], "manual", actor=HUMAN, options=options)
        return True

    # --- money ----------------------------------------------------------------------------------------------------

    def _grant_tokens(self, reserved: int = 0) -> dict[str, int]:
        """Return the tokens that the next run of the import may spend, as an option of the run; empty without a budget.

        `reserved` is the percentage of the budget that must remain.
        """
        budget = self.options.get("tokens")
        if self.runner.settings.llm.provider == OFFLINE or budget is None:
            return {}
        sql = (
            "SELECT coalesce(sum(coalesce(p.tokens_in + p.tokens_out, p.reserved)), 0) FROM spend p"  # noqa: S608
            f" WHERE p.run_id IN (SELECT r.id FROM job_run r WHERE {_OF_IMPORT})"
        )
        return {"tokens": max(0, budget * (100 - reserved) // 100 - int(self._rows(sql, self.run.id)[0][0]))}

    def find_spent(self) -> str | None:
        """Return why no more tokens may be spent, as text for people; None if they may."""
        llm = self.runner.settings.llm
        # With fewer tokens than a reply may need, the offline backend would answer all remaining questions.
        sql = f"SELECT 1 FROM job_run r WHERE {_OF_IMPORT} AND r.receipt ->> '$.fallback' LIKE ? LIMIT 1"  # noqa: S608
        is_refused = self._rows(sql, self.run.id, f"%{BUDGET_SPENT}%")
        if is_refused or self._grant_tokens(DREAM_SHARE).get("tokens", llm.max_output_tokens) < llm.max_output_tokens:
            return f"too little of the token budget of {self.options['tokens']:,} is left (--tokens)"
        if llm.provider == OFFLINE:
            return None
        day = self.runner.clock.now().astimezone(self.runner.settings.zone).date().isoformat()
        if sqlite.read(self.runner.engine, spend.of_day, day) >= llm.daily_tokens:
            return f"today's llm.daily_tokens ({llm.daily_tokens:,}) are used up"
        return None

    # --- dreaming -------------------------------------------------------------------------------------------------

    def list_days(self) -> list[tuple[str, str]]:
        """Return (first, last) day of each dream: the days that the import wrote to, in parts of suitable size."""
        if self._mode(dreaming.KIND) == modes.OFF:
            return []
        sql = (
            "SELECT DISTINCT json_extract(f.value, '$.path') FROM job_run r, json_each(r.receipt, '$.files') f"  # noqa: S608
            f" WHERE {_OF_IMPORT} AND r.kind IN ('sleep', 'facts') AND r.state = 'succeeded'"
        )
        paths = [PurePath(path) for (path,) in self._rows(sql, self.run.id)]
        workspace = self.runner.workspace_of(self.run)
        spans: list[tuple[str, str]] = []
        size = 0
        for day in sorted({path.stem for path in paths if path.parent.name == "memory"}):
            data = len(regular.read_in(workspace, f"memory/{day}.md") or b"")
            if not spans or size + data > DREAM_BYTES:
                spans.append((day, day))
                size = 0
            spans[-1] = spans[-1][0], day
            size += data
        return spans

    def queue_dream(self, days: Sequence[str]) -> bool:
        """Queue the dream of some days; return False if another dream of the agent is open."""
        options = {"import": self.run.id, "from": days[0], "to": days[1], "force": True, **self._grant_tokens()}
        key = queueing.agent_key(dreaming.KIND, self.agent_id)
        more: dict[str, Any] = {"trigger": "manual", "actor": HUMAN, "options": options}
        told = self.told | {"dreamt": self.told.get("dreamt", 0) + 1}
        with sqlite.begin_write(self.runner.engine) as connection:
            if queueing.queue(connection, self.runner.clock, dreaming.KIND, self.agent_id, key, **more) is None:
                return False
            # In the same transaction, so that an import that is stopped does not repeat the dream.
            runs.note_receipt(connection, self.run, {KIND: told}, states=("queued",))
        self.told = told
        return True

    # --- the result -----------------------------------------------------------------------------------------------

    def finish(self, unreadable: int) -> None:
        """End the import and store its result; `unreadable` is the number of transcripts that could not be read."""
        result = self._count_result() | {"unreadable": unreadable}
        why = describe(result)
        self.note(result=result)
        with sqlite.begin_write(self.runner.engine) as connection:
            values = {"why": why, "receipt": {KIND: self.told}}
            runs.finish(
                connection, self.run, state="succeeded", now=self.runner.clock.text(), values=values, states=("queued",)
            )
        self.runner.log_end(self.run, "succeeded", why)

    def _count_result(self) -> dict[str, Any]:
        sql = (
            "SELECT count(*) FROM session WHERE agent_id = ? AND parent_id IS NULL AND turns > 0 AND last_turn_at >= ?"
        )
        result: dict[str, Any] = {"sessions": int(self._rows(sql, self.agent_id, self.since)[0][0])}
        if self.options.get("search_only"):
            return result
        result |= self._count_written() | {"left": self.count_left(), "left_why": self.told.get("stopped")}
        return result | {"dream": self._describe_dreams()}

    def _count_written(self) -> dict[str, int]:
        """Return the numbers of new memories by kind, and of sessions by their result.

        For example, `daily_only` counts sessions that are in daily files but led to no memory.
        """
        added = self._rows(
            "SELECT m.kind, m.sources FROM memory m WHERE m.agent_id = ? AND m.deleted_at IS NULL"  # noqa: S608
            " AND m.kind IN ('core', 'fact') AND m.id IN (SELECT a.memory_id FROM audit a JOIN job_run r"
            f" ON r.id = a.run_id WHERE a.operation = 'add' AND {_OF_IMPORT})",
            self.agent_id,
            self.run.id,
        )
        remembered = {one.get("session") for _, sources in added for one in json.loads(sources or "[]")}
        rows = self._rows(
            "SELECT r.session_id, r.state, json_array_length(r.receipt, '$.files') FROM job_run r"  # noqa: S608
            f" WHERE {_OF_IMPORT} AND r.kind = 'sleep'",
            self.run.id,
        )
        kept = {session for session, state, files in rows if state == "succeeded" and files}
        undone = {session for session, state, _ in rows if state in _UNDONE or state in runs.WAITING}
        return {
            "core": sum(kind == "core" for kind, _ in added),
            "facts": sum(kind == "fact" for kind, _ in added),
            "daily_only": len(kept - remembered),
            "empty": len({session for session, *_ in rows} - kept - undone),
            "undone": len(undone),
            "tried": len({session for session, *_ in rows}),
        }

    def _describe_dreams(self) -> str:
        """Return why the other daily files did not lead to changes of `MEMORY.md`, as text for people."""
        if self._mode(dreaming.KIND) == modes.OFF:
            return "modes.dream is off"
        sql = f"SELECT r.id, r.state FROM job_run r WHERE {_OF_IMPORT} AND r.kind = ?"  # noqa: S608
        for run_id, state in self._rows(sql, self.run.id, dreaming.KIND):
            if state == runs.PROPOSED:
                return f"changes of MEMORY.md wait for an answer (memoryd job accept {run_id})"
            if state in _UNDONE or state in runs.WAITING:
                return f"a dream has not succeeded (memoryd job show {run_id})"
        return "no lasting rule, decision or lesson was found in them"

    def _rows(self, sql: str, *values: object) -> Sequence[Any]:
        return sqlite.read(self.runner.engine, query.fetch_rows, sql, *values)


def _seconds_of(since: str) -> float:
    """Return a time in seconds since 1970; minus infinity for an empty text."""
    return moment_of(since).timestamp() if since else -math.inf


def describe(result: dict[str, Any]) -> str:
    """Return the result of an import as one line for people: numbers and reasons, without content."""
    parts = [f"{count_noun(result['sessions'], 'session')} read"]
    if result["unreadable"]:
        parts.append(f"{count_noun(result['unreadable'], 'transcript')} could not be read: memoryd status says why")
    if "core" not in result:
        return "; ".join([*parts, "search finds them"])
    written = result["core"] + result["facts"]
    parts.append(
        f"{count_noun(written, 'memory', 'memories')} written ({result['core']:,} in MEMORY.md,"
        f" {count_noun(result['facts'], 'fact')})"
    )
    if result["daily_only"]:
        parts.append(f"{count_noun(result['daily_only'], 'session')} in daily files only: {result['dream']}")
    if result["empty"]:
        parts.append(f"{count_noun(result['empty'], 'session')} with nothing to keep")
    if result["undone"]:
        parts.append(f"{count_noun(result['undone'], 'session')} not written, see memoryd job list")
    if (before := result["sessions"] - result["tried"] - result["left"]) > 0:
        parts.append(f"{count_noun(before, 'session')} done already")
    if result["left"]:
        why = result["left_why"] or "the import ended before them"
        parts.append(f"{count_noun(result['left'], 'session')} left for the next memoryd import: {why}")
    return "; ".join(parts)
