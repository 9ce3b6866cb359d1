"""Change the job table, which has one row for each run. Each change of a run's state has its own function.

The normal states are queued → running → succeeded, skipped or failed. If the process of a running run ends, the run
becomes interrupted and runs again. A run that has failed `attempts` times is dead. A run that needs a person to fix the
cause is blocked, and is retried from time to time.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine

from memoryd.database import query, sqlite

WAITING = ("queued", "interrupted")
OPEN = ("queued", "interrupted", "running", "blocked")
FINAL = ("succeeded", "skipped", "declined", "failed", "dead", "cancelled")
REFUSED_CHARACTERS = 65536
PROPOSED = "proposed"
STATES = (*OPEN, *FINAL, PROPOSED)
REJECTED = "rejected"  # the `why` of a rejected proposal begins with this
ACCEPT, REJECT = "accept", "reject"  # kinds of runs that answer a proposal
ANSWERS = {ACCEPT: "succeeded", REJECT: "declined"}  # the state in which each leaves the proposal
# Waiting runs that may be taken. A run with an intent is completed by the recovery, never restarted, so it is left out.
# If the clock was set back, `scheduled_for` can be far in the future. So a run whose own times are in the future counts
# as due; after its next attempt, it waits as usual.
_TAKEABLE = (
    "job_run r JOIN agent a ON a.id = r.agent_id"
    " WHERE r.state IN ('queued', 'interrupted')"
    " AND (r.scheduled_for <= ?1 OR coalesce(r.started_at, r.created_at) > ?1)"
    " AND r.agent_id IN (SELECT value FROM json_each(?2))"
    " AND (r.actor IN ('human', 'agent-tool') OR (a.paused = 0 AND a.enabled = 1))"
    " AND NOT EXISTS (SELECT 1 FROM intent i WHERE i.run_id = r.id)"
    " AND NOT EXISTS (SELECT 1 FROM job_run b WHERE b.agent_id = r.agent_id AND b.state = 'running')"
)


@dataclass(frozen=True, slots=True)
class Run:
    """Hold the part of a row of `job_run` that the runner needs."""

    id: str
    kind: str
    agent_id: str
    session_id: str | None
    actor: str
    trigger: str
    state: str
    options: dict[str, Any]
    attempt: int
    fence: int
    key: str | None = None
    created_at: str = ""

    @property
    def subject(self) -> str:
        """Return the subject of the run's alarms. The next run with the same subject clears them."""
        return self.key or self.kind


_FIELDS = tuple(one.name for one in fields(Run))
# Defaults of the columns of a new row.
_NEW: dict[str, Any] = {"options": "{}", "receipt": "{}"}
_NEW |= dict.fromkeys(("attempt", "fence", "cancel_requested", "tokens_in", "tokens_out"), 0)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True)


def _change(
    connection: Connection, run: Run, sets: str, *values: object, states: Sequence[str] = ("running",), also: str = ""
) -> bool:
    """Change a run's row; return False if another claim owns the run (stale fence) or its state is not in `states`."""
    which = "id = ? AND fence = ? AND state IN (SELECT value FROM json_each(?))"
    sql = f"UPDATE job_run SET {sets} WHERE {which}{also}"  # noqa: S608
    return query.change_one(connection, sql, *values, run.id, run.fence, tuple(states))


def _run(row: dict[str, Any]) -> Run:
    return Run(**{name: row[name] for name in _FIELDS} | {"options": json.loads(row["options"])})


def _insert(connection: Connection, row: Mapping[str, Any], how: str = "INSERT OR IGNORE") -> bool:
    values = {**_NEW, **row}
    return query.change_one(connection, query.make_insert("job_run", values, how), *values.values())


def new_run_id(now: datetime) -> str:
    """Return a new run id. Ids sort by time, and each is also the name of the run's backup folder."""
    import secrets

    return f"run-{now.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(3)}"


def enqueue(connection: Connection, row: Mapping[str, Any]) -> bool:
    """Insert a queued run; return False if a run with its key is open, or if its scheduled time was used."""
    return _insert(connection, {**row, "state": "queued", "options": _json(row.get("options", {}))})


def claim_run(engine: Engine, *, owner: str, now: str, agents: Sequence[str], only: str | None = None) -> Run | None:
    """Take the next due run; return None if there is none.

    An agent runs only one run at a time. Automatic runs of a paused or disabled agent wait.

    Args:
        engine: the state database.
        owner: identifies this process.
        now: UTC, ISO 8601.
        agents: agents that are configured and whose files can be written.
        only: id of the only run to take; None means any.
    """
    sql = (
        "UPDATE job_run SET state = 'running', owner = ?3, fence = fence + 1, attempt = attempt + 1,"  # noqa: S608
        " started_at = ?1, heartbeat_at = ?1, error = NULL, why = NULL WHERE id = ("
        f" SELECT r.id FROM {_TAKEABLE} AND (?4 IS NULL OR r.id = ?4)"
        # Facts can share the question of a sleep over the same session, so a due sleep goes before due facts.
        " ORDER BY r.scheduled_for, r.kind = 'facts', r.created_at, r.rowid LIMIT 1) RETURNING *"
    )
    return next(map(_run, sqlite.write(engine, query.fetch_mappings, sql, now, tuple(agents), owner, only)), None)


def count_takeable(connection: Connection, now: str, agents: Sequence[str]) -> int:
    """Count the agents that have a run that `claim_run` would take."""
    return query.fetch_number(connection, f"SELECT count(DISTINCT r.agent_id) FROM {_TAKEABLE}", now, tuple(agents))  # noqa: S608


def finish(
    connection: Connection,
    run: Run,
    *,
    state: str,
    now: str,
    values: Mapping[str, Any],
    states: Sequence[str] = ("running",),
) -> bool:
    """End a run in the caller's transaction; return False if another claim owns it (stale fence) or its state differs.

    Args:
        connection: a write transaction.
        run: the run.
        state: the final state.
        now: UTC, ISO 8601.
        values: `why`, `error`, `claims` (JSON), `tokens_in`, `tokens_out` and `receipt` for the row. `kept` stays on
            the row, hidden from people. `made_from` replaces the input hash; `input_hash` is used only if there is none
            yet.
        states: the states in which the run may be.
    """
    sets = (
        "state = ?, finished_at = ?, why = ?, error = ?, reply = ?, claims = ?,"
        " input_hash = coalesce(?, input_hash, ?), tokens_in = ?, tokens_out = ?, receipt = ?, owner = NULL,"
        " refused = CASE ? WHEN 'succeeded' THEN NULL ELSE refused END"
    )
    plain = [values.get(name) for name in ("why", "error", "kept", "claims", "made_from", "input_hash")]
    tokens = values.get("tokens_in", 0), values.get("tokens_out", 0)
    receipt = _json(values.get("receipt", {}))
    return _change(connection, run, sets, state, now, *plain, *tokens, receipt, state, states=states)


def note_receipt(connection: Connection, run: Run, receipt: Mapping[str, Any], *, states: Sequence[str]) -> bool:
    """Store values for a run's report while the run continues; return False like `finish`."""
    return _change(connection, run, "receipt = ?", _json(receipt), states=states)


def read_receipt(connection: Connection, run_id: str) -> dict[str, Any]:
    """Return the report of a run so far; empty if there is none."""
    return query.fetch_object(connection, "SELECT receipt FROM job_run WHERE id = ?", run_id)


def put_back(engine: Engine, run: Run, *, state: str, due: str, error: str, refund: bool) -> bool:
    """Queue a run again after a failure. With `refund`, the attempt does not count. Return False like `finish`."""
    sets = "state = ?, scheduled_for = ?, error = ?, owner = NULL, attempt = attempt - ?"
    return sqlite.write(engine, _change, run, sets, state, due, error, int(refund))


def block(engine: Engine, run: Run, *, due: str, why: str) -> bool:
    """Block a running run until a person has fixed the cause; memoryd retries it at `due`.

    The attempt does not count.
    """
    sets = "state = 'blocked', scheduled_for = ?, why = ?, owner = NULL, attempt = attempt - 1"
    return sqlite.write(engine, _change, run, sets, due, why)


def unblock(engine: Engine, now: str, *, due_only: bool) -> None:
    """Queue blocked runs again.

    With `due_only`, only runs whose retry is due; otherwise all, because a person may have fixed the cause.
    """
    which, limit = "state = 'blocked' AND scheduled_for <= ?", now if due_only else "9999"
    if sqlite.read(engine, query.has_row, f"SELECT 1 FROM job_run WHERE {which} LIMIT 1", limit):  # noqa: S608
        sql = f"UPDATE job_run SET state = 'queued', scheduled_for = ? WHERE {which}"  # noqa: S608
        sqlite.write(engine, query.run, sql, now, limit)


def beat(engine: Engine, run_ids: Sequence[str], now: str) -> None:
    """Record that these running runs are still alive."""
    if run_ids:
        sql = "UPDATE job_run SET heartbeat_at = ? WHERE id = ? AND state = 'running'"
        sqlite.write(engine, query.change_each, sql, [(now, run_id) for run_id in run_ids])


def release_lost(engine: Engine, *, owner: str, active: Sequence[str], now: str) -> list[str]:
    """Queue runs again that this process owns in the table but does not run; return their ids."""
    lost = "state = 'running' AND owner = ? AND id NOT IN (SELECT value FROM json_each(?))"
    ids = sqlite.read(engine, query.fetch_column, f"SELECT id FROM job_run WHERE {lost}", owner, active)  # noqa: S608
    if ids:
        sql = (
            "UPDATE job_run SET state = 'interrupted', owner = NULL, scheduled_for = ?, error = ?"
            " WHERE id = ? AND state = 'running' AND owner = ?"
        )
        why = "how it ended could not be recorded"
        sqlite.write(engine, query.change_each, sql, [(now, why, run_id, owner) for run_id in ids])
    return ids


def recover_orphans(engine: Engine, *, alive: Callable[[str], bool], attempts: int, now: str) -> list[Run]:
    """Queue running runs of ended processes again, or end those that have used all attempts; return them all.

    A run that has begun to change files or memory is always queued again, because it must be completed.
    """
    with sqlite.begin_write(engine) as connection:
        rows = query.fetch_mappings(connection, "SELECT * FROM job_run WHERE state = 'running'")
        orphans = [row for row in rows if not alive(row["owner"] or "")]
        for row in orphans:
            is_bound = has_intent(connection, row["id"]) or has_to_end(connection, row["id"])
            dead = row["attempt"] >= attempts and not is_bound
            sql = (
                "UPDATE job_run SET state = ?, owner = NULL, scheduled_for = ?, finished_at = ?, error = ?,"
                " reply = CASE WHEN ? THEN NULL ELSE reply END WHERE id = ?"
            )
            end = ("dead", now, now) if dead else ("interrupted", now, None)
            query.run(connection, sql, *end, "the process that ran it ended before it did", dead, row["id"])
    return [get_run(engine, row["id"]) for row in orphans]


def get_run(engine: Engine, run_id: str) -> Run:
    """Return one run.

    Raises:
        LookupError: there is no run with this id.
    """
    rows = sqlite.read(engine, query.fetch_mappings, "SELECT * FROM job_run WHERE id = ?", run_id)
    if not rows:
        raise LookupError(run_id)
    return _run(rows[0])


def has_intent(connection: Connection, run_id: str) -> bool:
    """Return True if a run has begun to change files. Such a run must be completed."""
    return query.has_row(connection, "SELECT 1 FROM intent WHERE run_id = ?", run_id)


def agent_has_intent(connection: Connection, agent_id: str) -> bool:
    """Return True if any run of this agent has begun to change files and is not completed."""
    return query.has_row(connection, "SELECT 1 FROM intent WHERE agent_id = ?", agent_id)


def cancel(engine: Engine, run_id: str, now: str) -> str | None:
    """Cancel a waiting run at once, or ask a running one to stop. A run that has begun to change files continues.

    Returns the state before the call, or `committing` if the run changes files. None means that there is no such run.
    """
    with sqlite.begin_write(engine) as connection:
        state = query.fetch_text(connection, "SELECT state FROM job_run WHERE id = ?", run_id)
        if state in OPEN and has_intent(connection, run_id):
            return "committing"
        if state in (*WAITING, "blocked") and _ends_itself(connection, run_id, now):
            return state
        if state in WAITING or state == "blocked":
            withdraw(connection, run_id, now, "cancelled by hand")
        elif state == "running":
            query.run(connection, "UPDATE job_run SET cancel_requested = 1 WHERE id = ?", run_id)
    return state


def _ends_itself(connection: Connection, run_id: str, now: str) -> bool:
    """Make a refinement that has begun due at once, and return True; return False for any other run.

    The refinement then ends, and its changes are judged.
    """
    sql = (
        "UPDATE job_run SET state = 'queued', scheduled_for = ?, why = 'cancelled by hand', cancel_requested = 1"
        " WHERE id = ? AND kind = 'refine' AND (json_extract(receipt, '$.refine') IS NOT NULL"
        " OR EXISTS (SELECT 1 FROM audit WHERE run_id = job_run.id))"
    )
    return query.change_one(connection, sql, now, run_id)


def has_to_end(connection: Connection, run_id: str) -> bool:
    """Return True if a run is a refinement that has changed memory. It must end normally to report its changes."""
    changed = "EXISTS (SELECT 1 FROM audit WHERE run_id = job_run.id)"
    sql = f"SELECT 1 FROM job_run WHERE id = ? AND kind = 'refine' AND {changed}"  # noqa: S608
    return query.has_row(connection, sql, run_id)


def withdraw(connection: Connection, run_id: str, now: str, why: str) -> None:
    """Cancel a waiting run in the caller's transaction, and clear its alarms."""
    # The alarms explain why the run waits, which no longer matters.
    sql = (
        "UPDATE alarm SET cleared_at = ? WHERE kind IN ('waiting', 'blocked', 'secret') AND cleared_at IS NULL"
        ' AND (agent_id, subject) IN (SELECT agent_id, coalesce("key", kind) FROM job_run WHERE id = ?)'
    )
    query.run(connection, sql, now, run_id)
    sql = "UPDATE job_run SET state = 'cancelled', finished_at = ?, why = ?, reply = NULL WHERE id = ?"
    query.run(connection, sql, now, why, run_id)


def is_cancelled(engine: Engine, run: Run) -> bool:
    """Return True if a person has asked this running run to stop, or if another claim owns it."""
    sql = "SELECT 1 FROM job_run WHERE id = ? AND fence = ? AND NOT cancel_requested"
    return not sqlite.read(engine, query.has_row, sql, run.id, run.fence)


def gave_up_at(connection: Connection, key: str, since: str) -> str | None:
    """Return when the last run with this key failed for good or was cancelled; None if that was not since `since`.

    Such a run need not be repeated.
    """
    sql = "SELECT max(finished_at) FROM job_run WHERE key = ? AND state IN ('dead', 'cancelled') AND finished_at >= ?"
    return query.fetch_text(connection, sql, key, since)


def ask_anew(connection: Connection, run_id: str, options: Mapping[str, Any]) -> bool:
    """Give a waiting run new options; return False if it runs, or already has a report or an intent."""
    sql = (
        "UPDATE job_run SET options = ? WHERE id = ? AND state IN ('queued', 'interrupted', 'blocked')"
        " AND receipt = '{}' AND NOT EXISTS (SELECT 1 FROM intent WHERE run_id = job_run.id)"
    )
    return query.change_one(connection, sql, _json(options), run_id)


WAITS = "waits for the agent's next call"  # `why` of a refinement that waits between two calls of the agent


def hand_over(connection: Connection, run_id: str, text: str, now: str) -> bool:
    """Pass the agent's next call to the refinement that waits for it; return False if the run waits for none."""
    sql = "UPDATE job_run SET reply = ?, why = NULL, scheduled_for = ? WHERE id = ? AND state = 'queued' AND why = ?"
    return query.change_one(connection, sql, text, now, run_id, WAITS)


def wait_for_more(connection: Connection, run: Run, *, text: str, receipt: Mapping[str, Any], due: str) -> bool:
    """Let a refinement wait until `due` for the agent's next call; `text` is the result of the last call.

    The attempt does not count. Return False if a person has asked the run to stop, or like `finish`.
    """
    sets = "state = 'queued', owner = NULL, attempt = attempt - 1, reply = ?, receipt = ?, why = ?, scheduled_for = ?"
    return _change(connection, run, sets, text, _json(receipt), WAITS, due, also=" AND cancel_requested = 0")


def heed_cancel(engine: Engine, run: Run) -> bool:
    """Clear a person's request to stop this run, so that the run can end normally; return False if there is none."""
    return sqlite.write(engine, _change, run, "cancel_requested = 0", also=" AND cancel_requested = 1")


def forget_reply(engine: Engine, run: Run) -> None:
    """Delete an unusable reply, so that the next attempt asks the model again."""
    sqlite.write(engine, _change, run, "reply = NULL")


PINNED = frozenset({"from", "to", "upto", "drain"})  # the options that `pin` stores


def pin(engine: Engine, run: Run, options: Mapping[str, Any]) -> None:
    """Store what a run works on in its options, so that a later attempt asks the same question."""
    sqlite.write(engine, _change, run, "options = ?", _json({**run.options, **options}), states=STATES)


def prune(connection: Connection, before: str) -> int:
    """Delete old runs without effect: they were skipped or cancelled, spent nothing and moved no watermark.

    Refused replies, claims and verdicts from before `before` are deleted too. Return the number of deleted runs.
    """
    old = "coalesce(refused, claims) IS NOT NULL AND finished_at < ?"
    query.run(connection, f"UPDATE job_run SET refused = NULL, claims = NULL WHERE {old}", before)  # noqa: S608
    query.run(connection, "DELETE FROM verdict WHERE read_at < ?", before)
    sql = (
        "DELETE FROM job_run WHERE state IN ('skipped', 'cancelled') AND finished_at < ? AND slot IS NULL AND id"
        " NOT IN (SELECT run_id FROM spend UNION SELECT coalesce(run_id, '') FROM watermark"
        " UNION SELECT run_id FROM intent)"
    )
    return query.run(connection, sql, before)


def keep_refused(engine: Engine, run: Run, text: str) -> None:
    """Store the last refused reply of a run, cut after 64 Ki characters, so that a person can find the cause."""
    storable = text[:REFUSED_CHARACTERS].encode("utf-8", "replace").decode()  # SQLite takes no lone surrogate
    sqlite.write(engine, _change, run, "refused = ?", storable, states=STATES)


def hurry_run(engine: Engine, run_id: str, now: str) -> None:
    """Make a waiting or blocked run due at once, because a person asks for it. The run then counts as the person's."""
    sql = (
        "UPDATE job_run SET actor = 'human', scheduled_for = min(scheduled_for, ?), error = NULL,"
        " state = CASE state WHEN 'blocked' THEN 'queued' ELSE state END"
        " WHERE id = ? AND state IN ('queued', 'interrupted', 'blocked')"
    )
    sqlite.write(engine, query.run, sql, now, run_id)


def put_off(engine: Engine, run_id: str, due: str, *, longest: float) -> None:
    """Postpone a run that waits for a quiet moment until `due`.

    It is never postponed by more than `longest` seconds after it was queued.
    """
    sql = (
        "UPDATE job_run SET scheduled_for = min(?, strftime('%Y-%m-%dT%H:%M:%fZ', created_at, ? || ' seconds'))"
        " WHERE id = ? AND state = 'queued' AND attempt = 0 AND actor <> 'human'"
    )
    sqlite.write(engine, query.run, sql, due, longest, run_id)


def was_asked(connection: Connection, kind: str, agent_id: str, key: str, since: str) -> bool:
    """Return True if a run of this kind need not be queued again for this agent.

    This is so if such a run is open, or if one with this key ended without a result. A run that failed for good or was
    cancelled counts only if it ended since `since`.
    """
    sql = (
        "SELECT 1 FROM job_run WHERE agent_id = ?1 AND kind = ?2"
        " AND (state IN ('queued', 'interrupted', 'running', 'blocked') OR (\"key\" = ?3"
        " AND (state IN ('skipped', 'declined', 'proposed')"
        " OR (state IN ('dead', 'cancelled') AND finished_at >= ?4))))"
    )
    return query.has_row(connection, sql, agent_id, kind, key, since)


def make_due(connection: Connection, kind: str, now: str, but: Sequence[str] = ()) -> list[str]:
    """Make the runs of a kind due that wait for their first attempt; return their ids. Failed runs still wait.

    The runs in `but` wait too, for example because the model was busy.
    """
    sql = (
        "UPDATE job_run SET scheduled_for = min(scheduled_for, ?)"
        " WHERE kind = ? AND state = 'queued' AND attempt = 0 AND error IS NULL"
        " AND id NOT IN (SELECT value FROM json_each(?)) RETURNING id"
    )
    return query.fetch_column(connection, sql, now, kind, json.dumps(but))


def keep_reply(connection: Connection, run: Run, reply: str, input_hash: str | None) -> None:
    """Store a reply before it is applied, so that it is not paid for again after a crash.

    `input_hash` is the hash of the question. It is None for a secondary question; then the stored hash stays.
    """
    _change(connection, run, "reply = ?, input_hash = coalesce(?, input_hash)", reply, input_hash)


def give_text(connection: Connection, run_id: str, text: str) -> None:
    """Store the text that a queued run will write. It is hidden like a reply, and deleted when the run ends."""
    query.run(connection, "UPDATE job_run SET reply = ? WHERE id = ? AND state = 'queued'", text, run_id)


def hurry_same(connection: Connection, agent_id: str, kind: str, actor: str, text: str, now: str) -> str | None:
    """Make a waiting run with the same text due at once and return its id; None if there is none.

    So a repeated command continues the run that was stopped or failed.
    """
    sql = (
        "UPDATE job_run SET scheduled_for = min(scheduled_for, ?) WHERE agent_id = ? AND kind = ? AND actor = ?"
        " AND reply = ? AND state IN ('queued', 'interrupted') RETURNING id"
    )
    return query.fetch_text(connection, sql, now, agent_id, kind, actor, text)


def given_text(engine: Engine, run: Run) -> str | None:
    """Return the stored reply of a run: the text to write, or the replies of any attempt; None if there is none."""
    return sqlite.read(engine, query.fetch_text, "SELECT reply FROM job_run WHERE id = ?", run.id)


def list_unannounced(connection: Connection, limit: int) -> list[tuple[str, str, str | None, list[dict[str, Any]]]]:
    """List succeeded runs whose hook has not run yet, oldest first, as (run, agent, session, files of the report)."""
    sql = (
        "SELECT id, agent_id, session_id, json_extract(receipt, '$.files') FROM job_run"
        " WHERE state = 'succeeded' AND json_extract(receipt, '$.on_summary') = 'pending'"
        " ORDER BY finished_at, id LIMIT ?"
    )
    return [(row[0], row[1], row[2], json.loads(row[3] or "[]")) for row in query.fetch_rows(connection, sql, limit)]


def note_hook(engine: Engine, run_id: str, outcome: str) -> None:
    """Add the outcome of the hook `on_summary` to the report of a finished run."""
    sql = "UPDATE job_run SET receipt = json_set(receipt, '$.on_summary', ?) WHERE id = ?"
    sqlite.write(engine, query.run, sql, outcome, run_id)


def slot_is_used(connection: Connection, slot: str) -> bool:
    """Return True if a scheduled time has already had its run."""
    return query.has_row(connection, "SELECT 1 FROM job_run WHERE slot = ?", slot)


def skip(connection: Connection, row: Mapping[str, Any], now: str) -> None:
    """Insert a run that had nothing to do, with the reason in `row`; a `slot` in `row` counts as used."""
    times = dict.fromkeys(("created_at", "scheduled_for", "finished_at"), now)
    _insert(connection, {**row, **times, "state": "skipped"})


def note_done(
    connection: Connection, run_id: str, kind: str, agent_id: str, *, actor: str, now: str, receipt: Mapping[str, Any]
) -> None:
    """Record a run that the caller has carried out in this same transaction."""
    row = {"id": run_id, "kind": kind, "agent_id": agent_id, "actor": actor, "trigger": "manual", "attempt": 1}
    times = dict.fromkeys(("created_at", "scheduled_for", "started_at", "finished_at"), now)
    _insert(connection, {**row, **times, "state": "succeeded", "receipt": _json(receipt)}, "INSERT")


def interrupt(engine: Engine, run: Run, now: str) -> bool:
    """Queue a running run again because its process is stopping.

    The attempt does not count. Return False like `finish`.
    """
    return put_back(engine, run, state="interrupted", due=now, error="memoryd was stopped", refund=True)


def open_by_key(connection: Connection, key: str) -> str | None:
    """Return the open run or open proposal with this key; None if there is none."""
    sql = (
        "SELECT id FROM job_run WHERE key = ? AND state IN ('queued', 'running', 'interrupted', 'blocked', 'proposed')"
        " ORDER BY state = 'proposed' LIMIT 1"
    )
    return query.fetch_text(connection, sql, key)


# --- proposals --------------------------------------------------------------------------------------------------------


class OpenProposal(NamedTuple):
    """Hold a run whose edits wait for a person's answer."""

    id: str
    kind: str
    agent_id: str
    session_id: str | None
    kept: str | None  # edits as JSON; None if they were erased


def list_proposals(connection: Connection, agent_id: str | None = None) -> list[OpenProposal]:
    """List the open proposals of an agent, or of all agents, oldest first."""
    sql = (
        "SELECT id, kind, agent_id, session_id, reply FROM job_run WHERE state = 'proposed'"
        " AND (?1 IS NULL OR agent_id = ?1) ORDER BY finished_at, id"
    )
    return [OpenProposal(*row) for row in query.fetch_rows(connection, sql, agent_id)]


def find_proposal(connection: Connection, run_id: str) -> OpenProposal | None:
    """Return an open proposal by its run; None if the run has none, or if it was answered."""
    return next((one for one in list_proposals(connection) if one.id == run_id), None)


def proposal_of(connection: Connection, agent_id: str, kind: str) -> str | None:
    """Return the run of an agent's open proposal of a kind; None if there is none."""
    return next((one.id for one in list_proposals(connection, agent_id) if one.kind == kind), None)


def answer(connection: Connection, run_id: str, *, state: str, by: str, carried_out: bool = False) -> bool:
    """End a proposal as accepted or rejected by the run `by`; return False if it was already answered.

    With `carried_out`, the files have changed. Then the answer counts even if the proposal was withdrawn meanwhile.
    """
    word = "accepted" if state == ANSWERS[ACCEPT] else REJECTED
    sql = (
        "UPDATE job_run SET state = ?, why = ?, reply = NULL, receipt = json_set(receipt, '$.' || ?, ?)"  # noqa: S608
        f" WHERE id = ? AND (state = 'proposed' OR (? AND state = 'declined' AND {_ANSWER} IS NULL))"
    )
    return query.change_one(connection, sql, state, f"{word}: {by}", f"{word}_by", by, run_id, carried_out)


def being_answered(connection: Connection, agent_id: str) -> set[str]:
    """Return the proposals of an agent whose answer has begun to change files. These answers will be completed."""
    sql = (
        "SELECT json_extract(r.options, '$.run') FROM intent i JOIN job_run r ON r.id = i.run_id"
        " WHERE i.agent_id = ? AND r.kind IN (?, ?)"
    )
    return set(query.fetch_column(connection, sql, agent_id, *ANSWERS))


def take_proposal_back(connection: Connection, run_id: str, why: str) -> bool:
    """Withdraw a proposal that can no longer be answered. Its subject may be proposed again."""
    sql = "UPDATE job_run SET state = 'declined', why = ?, reply = NULL WHERE id = ? AND state = 'proposed'"
    return query.change_one(connection, sql, why, run_id)


def answered_by(connection: Connection, run_id: str) -> str | None:
    """Return the run that answered this run's proposal; None if there is no proposal or no answer."""
    return query.fetch_text(connection, f"SELECT {_ANSWER} FROM job_run WHERE id = ?", run_id)  # noqa: S608


_ANSWER = "coalesce(json_extract(receipt, '$.accepted_by'), json_extract(receipt, '$.rejected_by'))"
# True unless a rollback has reversed the rejection of the proposal, according to the audit.
_STANDS = (
    "(SELECT \"after\" IS NULL FROM audit WHERE agent_id = job_run.agent_id AND memory_id = 'proposal:' || job_run.id"
    " ORDER BY id DESC LIMIT 1) IS NOT 1"
)


def rejected_like(connection: Connection, agent_id: str, kind: str, input_hash: str) -> str | None:
    """Return the newest answered proposal with this input hash if a person rejected it; otherwise None."""
    sql = (
        f"SELECT iif(json_extract(receipt, '$.rejected_by') IS NULL, NULL, id) FROM job_run WHERE agent_id = ?"  # noqa: S608
        f" AND kind = ? AND input_hash = ? AND {_ANSWER} IS NOT NULL AND {_STANDS}"
        " ORDER BY finished_at DESC, rowid DESC LIMIT 1"
    )
    return query.fetch_text(connection, sql, agent_id, kind, input_hash)


def rejected_receipts(connection: Connection, agent_id: str, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """List the proposals of a kind that a person rejected, newest first, as (run, report)."""
    sql = (
        "SELECT id, receipt FROM job_run WHERE agent_id = ? AND kind = ? AND state = 'declined'"  # noqa: S608
        f" AND json_extract(receipt, '$.rejected_by') IS NOT NULL AND {_STANDS} ORDER BY finished_at DESC, rowid DESC"
    )
    return [(str(row[0]), json.loads(row[1])) for row in query.fetch_rows(connection, sql, agent_id, kind)]


def knows_agent(connection: Connection, agent_id: str) -> bool:
    """Return True if this agent has a row, which a daemon adds when it first loads the agent."""
    return query.has_row(connection, "SELECT 1 FROM agent WHERE id = ?", agent_id)


def set_paused(connection: Connection, agent_id: str, *, paused: bool) -> bool:
    """Pause or resume an agent's automatic runs; return False if there is no such agent."""
    return query.change_one(connection, "UPDATE agent SET paused = ? WHERE id = ?", paused, agent_id)


def read_states(connection: Connection, agent_id: str, run_ids: Sequence[str]) -> dict[str, str]:
    """Return the states of an agent's runs among `run_ids`, by id."""
    sql = "SELECT id, state FROM job_run WHERE agent_id = ? AND id IN (SELECT value FROM json_each(?))"
    return {row[0]: row[1] for row in query.fetch_rows(connection, sql, agent_id, run_ids)}


def is_paused(connection: Connection, agent_id: str) -> bool:
    """Return True if a person has paused this agent."""
    return query.has_row(connection, "SELECT 1 FROM agent WHERE id = ? AND paused = 1", agent_id)


_UNASKED = "('skipped', 'cancelled')"  # states of runs without a result


def last_of_kind(connection: Connection, agent_id: str, kind: str) -> tuple[str, str, str] | None:
    """Return (state, creation time, reason) of an agent's newest run of a kind; None if there is none.

    Runs without a result do not count, nor does a rejected proposal whose rejection was rolled back.
    """
    sql = (
        "SELECT state, created_at, coalesce(why, '') FROM job_run WHERE agent_id = ? AND kind = ?"  # noqa: S608
        f" AND state NOT IN {_UNASKED} AND {_STANDS} ORDER BY created_at DESC, rowid DESC LIMIT 1"
    )
    found = query.fetch_rows(connection, sql, agent_id, kind)
    return (found[0][0], found[0][1], found[0][2]) if found else None


def asked_since(connection: Connection, agent_id: str, kind: str, since: str) -> bool:
    """Return True if a run of a kind was queued since `since` and has a result or was triggered by a threshold."""
    sql = (
        "SELECT 1 FROM job_run WHERE agent_id = ? AND kind = ? AND created_at >= ?"  # noqa: S608
        f" AND (\"trigger\" = 'threshold' OR state NOT IN {_UNASKED}) LIMIT 1"
    )
    return query.has_row(connection, sql, agent_id, kind, since)
