"""Store turns, their cursors and their sessions in one transaction."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import PurePath
from typing import Any

from sqlalchemy import Connection, Engine

from memoryd.clock import moment_of, text_of
from memoryd.database import erasure, packing, query, sqlite, turns
from memoryd.database.vault import DAMAGED, EXPIRED
from memoryd.gauge import live
from memoryd.reading import cursor as reading
from memoryd.reading.cursor import Cursor, FoundTurn
from memoryd.reading.scrubbing import Scan, Scrubber
from memoryd.scrub.finding import ScrubbedText
from memoryd.transcripts import cline, dialogs, now_file, opencode
from memoryd.transcripts.aider import Aider
from memoryd.transcripts.claude_code import ClaudeCode, is_session_id
from memoryd.transcripts.codex import Codex
from memoryd.transcripts.format import Identity
from memoryd.transcripts.gemini import Gemini
from memoryd.transcripts.lines import BadSpan, clean
from memoryd.transcripts.pi import OpenClaw, Pi
from memoryd.transcripts.turn import SPOKEN, Origin, Role, Turn, TurnKind

Restore = Callable[[Connection, str, Sequence[FoundTurn], Sequence[int]], None]


FLUSH_TURNS = 2000
FLUSH_BYTES = 1 << 19  # a new record of a live session waits for the scans of at most two batches
UNSCANNED, LOST, SKIPPED = "unscanned", "lost", "skipped"  # why a turn is stored without its text
_BY_ID = frozenset({Codex.name, Pi.name, OpenClaw.name, Gemini.name})  # files of these formats contain the session's id
_OWN_IDS = frozenset({cline.NAME, opencode.NAME, Aider.name})  # these programs never use an id for two sessions
_EMPTY_SESSION = {"turns": 0, "last_seq": 0, "gauge": "{}", "counted_seq": 0, "model": None, "branch": None}
_UPDATE_SESSION = (
    "UPDATE session SET last_seq = ?, turns = ?, gauge = ?, model = ?, branch = ?, last_turn_at = ?6,"
    " state = 'active', started_at = coalesce(started_at, ?6), ended_at = NULL WHERE id = ?"
)
# Fields of a turn, besides its text, that come from a transcript and may have a secret.
_NAMES = ("record_id", "message_id", "model", "tool_call_id", "tool_name", "branch")
_GET_NAMES = attrgetter(*_NAMES)


@dataclass(slots=True)
class IngestBatch:
    """Hold the results of readings until they are stored."""

    found: list[FoundTurn] = field(default_factory=list)
    bad: list[tuple[Cursor, BadSpan]] = field(default_factory=list)
    cursors: dict[int, Cursor] = field(default_factory=dict)  # by id(cursor)
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)  # rows to create, by id
    ended: dict[str, str] = field(default_factory=dict)  # session id → its end, according to its file
    live: dict[tuple[str, str, str], bool] = field(default_factory=dict)  # (agent, session, record) → is not retracted
    size: int = 0
    scans: list[Scan] = field(default_factory=list)
    begun: int = 0  # the number of turns in the scans
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)  # copies of the cursors' rows, from `freeze`

    def is_full(self) -> bool:
        """Return True if the batch should be stored now."""
        return len(self.found) >= FLUSH_TURNS or self.size >= FLUSH_BYTES

    def is_empty(self) -> bool:
        """Return True if there is nothing to store."""
        return not (self.found or self.cursors or self.bad)

    def freeze(self) -> None:
        """Copy the cursors' rows, because the cursors advance while the batch is scanned."""
        for key, cursor in self.cursors.items():
            reading.seal(cursor)
            self.rows[key] = cursor.row()

    def scan(self, scrubber: Scrubber) -> None:
        """Begin to scan the turns that were added since the last call, with their names.

        After `freeze`, the names of skipped records, which come from transcripts too, are scanned with them.
        """
        texts = [found.turn.text for found in self.found[self.begun :]]
        names = self.names(self.begun).union(*(json.loads(row["skipped"]) for row in self.rows.values()))
        self.scans.append(scrubber.begin(texts, names))
        self.begun = len(self.found)

    def names(self, begin: int = 0) -> set[str]:
        """Return the ids and names in the turns, from `begin` on, that come from transcripts."""
        return set().union(*(_GET_NAMES(found.turn) for found in self.found[begin:])) - {None}

    def take_scanned(self, scanned: Sequence[ScrubbedText | None], kept: Mapping[str, str | None]) -> None:
        """Replace texts and names by their redacted forms. A name that could not be scanned stays unchanged.

        Args:
            scanned: the result for each turn's text, in order; None if it could not be scanned.
            kept: the stored form of each name; None if it could not be scanned.
        """
        for row in self.rows.values():
            row["skipped"] = _counts(json.loads(row["skipped"]), kept)
        changed = {name for name, as_kept in kept.items() if as_kept != name}
        for place, (found, scrubbed) in enumerate(zip(self.found, scanned, strict=True)):
            turn = found.turn
            kept_back = UNSCANNED if scrubbed is None else SKIPPED if scrubbed.dropped else None
            text = "" if scrubbed is None else scrubbed.text
            if text == turn.text and not (changed and changed.intersection(turn)):
                continue
            withheld = kept_back if turn.text else None  # an empty text cannot be withheld
            self.found[place] = found._replace(turn=_rename_turn(turn._replace(text=text), kept), withheld=withheld)


@dataclass(slots=True)
class StoreResult:
    """Hold the result of storing a batch."""

    turns: int = 0
    sessions: set[str] = field(default_factory=set)  # sessions with new turns, or that ended
    bad: list[tuple[Cursor, BadSpan]] = field(default_factory=list)  # damaged spans that were not known before
    resumed: int = 0  # number of turns whose text must be read again


def _counts(skipped: Mapping[str, int], kept: Mapping[str, str | None]) -> str:
    """Return counts by name as JSON. All names with a secret, or not scanned, are counted together as `other`."""
    counts: Counter[str] = Counter()
    for name, count in skipped.items():
        counts[name if kept.get(name) == name else "other"] += count
    return json.dumps(counts, sort_keys=True)


def _rename_turn(turn: Turn, kept: Mapping[str, str | None]) -> Turn:
    """Return a turn with its names in stored form.

    A name that could not be scanned stays. The caller must not store such a turn.
    """
    named = zip(_NAMES, _GET_NAMES(turn), strict=True)
    names: dict[str, Any] = {field: name and (kept[name] or name) for field, name in named}
    return turn._replace(**names)


def store(engine: Engine, batch: IngestBatch, now: str, restored: Restore | None) -> StoreResult:
    """Store a batch in one transaction and return what is new.

    If the database was recreated, `restored` is called in the transaction with an agent's new turns and their numbers.
    """
    result = StoreResult()
    fresh = [cursor for cursor in batch.cursors.values() if cursor.id is None]
    try:
        with sqlite.begin_write(engine) as connection:
            if rows := [*batch.sessions.values()]:  # all rows have the same columns
                sql = query.make_insert("session", rows[0])
                query.change_each(connection, sql, (tuple(row.values()) for row in rows))
            _store_cursors(connection, batch)
            _store_turns(connection, batch, now, result, restored)
            _store_live(connection, batch, result)
            _store_bad(connection, batch, now, result)
            _end_sessions(connection, batch, now, result)
    except BaseException:
        for cursor in fresh:
            cursor.id = None  # its row was rolled back
        raise
    return result


def split_batch(batch: IngestBatch) -> Iterator[IngestBatch]:
    """Split a batch that could not be stored into one batch for each cursor.

    A new session is created with the first of its cursors. If that batch cannot be stored, the caller must return its
    `sessions` to `batch`.
    """
    for key, cursor in batch.cursors.items():
        found = [one for one in batch.found if one.cursor is cursor]
        owned = {cursor.session_id or "", *(one.session_id for one in found if one.session_id)}
        yield IngestBatch(
            found=found,
            bad=[one for one in batch.bad if one[0] is cursor],
            cursors={key: cursor},
            sessions={one: batch.sessions.pop(one) for one in owned & batch.sessions.keys()},
            ended={one: batch.ended[one] for one in owned & batch.ended.keys()},
            live={one: is_live for one, is_live in batch.live.items() if one[0] == cursor.agent_id},
            rows={key: batch.rows[key]},
        )


def session_for(engine: Engine, batches: Sequence[IngestBatch], cursor: Cursor, identity: Identity, now: str) -> str:
    """Return the id of a transcript's session; if there is none, create it in the last batch.

    A copied transcript belongs to the session of its original. If another file already uses the session's id, the new
    session gets a number.
    """
    number = 1
    with sqlite.begin_read(engine) as connection:
        while True:
            candidate = identity.session_id if number == 1 else f"{identity.session_id}~{number}"
            waiting = next((batch.sessions[candidate] for batch in batches if candidate in batch.sessions), None)
            row = waiting or turns.session_row(connection, candidate)
            if row is None:
                break
            same = row["agent_id"] == cursor.agent_id and row["format"] == cursor.format
            free = not waiting and _is_free(connection, batches, candidate)
            if same and (_is_own(cursor, identity) or free):
                return candidate
            number += 1
        known_since = turns.agent_seen_at(connection, cursor.agent_id)
    started = _known_time(identity.started_at, now)
    began = _moment(started, cursor.mtime_ns, now)
    batches[-1].sessions[candidate] = {
        "id": candidate,
        "agent_id": cursor.agent_id,
        "native_id": identity.session_id,
        "parent_id": identity.parent_session_id if identity.sidechain else None,
        "format": cursor.format,
        "folder": identity.cwd and clean(identity.cwd),
        "state": "active",
        # A session that began after memoryd first saw the agent is no history, even if memoryd was stopped then.
        "seen_at": max(known_since, min(now, began)),
        "started_at": started,
        "last_turn_at": began,
        **_EMPTY_SESSION,
    }
    return candidate


def _is_own(cursor: Cursor, identity: Identity) -> bool:
    """Return True if the session's id is from the program.

    Other ids come from a file name, and two files may have the same.
    """
    if cursor.format == now_file.NAME:
        return identity.session_id != PurePath(cursor.path).stem
    if cursor.is_part or cursor.format in _OWN_IDS:
        return True
    if cursor.format in _BY_ID:
        return is_session_id(identity.session_id)
    return cursor.format == ClaudeCode.name and is_session_id(identity.parent_session_id or identity.session_id)


def _is_free(connection: Connection, batches: Sequence[IngestBatch], session_id: str) -> bool:
    if any(cursor.session_id == session_id for batch in batches for cursor in batch.cursors.values()):
        return False
    return not query.has_row(connection, "SELECT 1 FROM transcript WHERE session_id = ?", session_id)


def _store_cursors(connection: Connection, batch: IngestBatch) -> None:
    for key, cursor in batch.cursors.items():
        row = batch.rows[key] | {"id": cursor.id}
        sql = f"{query.make_upsert('transcript', list(row), 'id')} RETURNING id"
        cursor.id = query.fetch_number(connection, sql, *row.values())


def _store_bad(connection: Connection, batch: IngestBatch, now: str, result: StoreResult) -> None:
    columns = "transcript_id", "first_byte", "last_byte", "sha256", "reason", "seen_at"
    sql = query.make_insert("bad_span", columns, "INSERT OR IGNORE")
    for cursor, span in batch.bad:
        if query.change_one(connection, sql, cursor.id, *span, now):
            result.bad.append((cursor, span))


def _store_turns(
    connection: Connection, batch: IngestBatch, now: str, result: StoreResult, restored: Restore | None
) -> None:
    by_agent: dict[str, list[FoundTurn]] = {}
    for found in batch.found:
        at = _known_time(found.turn.at, now)
        known = found if at == found.turn.at else found._replace(turn=found.turn._replace(at=at))
        by_agent.setdefault(found.cursor.agent_id, []).append(known)
    for agent_id, listed in by_agent.items():
        seen = turns.SeenRecords(connection, agent_id, list({found.turn.record_id for found in listed}))
        new = list(_iter_unseen(connection, batch, listed, seen, result))
        seqs = _insert(connection, agent_id, batch, new, now, result)
        if restored is not None and new:
            restored(connection, agent_id, new, seqs)


def _store_live(connection: Connection, batch: IngestBatch, result: StoreResult) -> None:
    """Erase the turns that the agent has retracted, and restore those that it has resumed."""
    for (agent_id, session_id, record_id), is_live in batch.live.items():
        if is_live:
            result.resumed += turns.resume_record(connection, agent_id, record_id)
        elif turns.retract_record(connection, agent_id, session_id, record_id):
            result.sessions.add(session_id)


def _insert(
    connection: Connection, agent_id: str, batch: IngestBatch, new: Sequence[FoundTurn], now: str, result: StoreResult
) -> list[int]:
    states: dict[str, _SessionState] = {}
    calls: dict[tuple[str, str], str | None] = {}  # calls of this batch, by (session, call)
    rows: list[tuple[Any, ...]] = []
    seqs: list[int] = []
    for found in new:
        cursor, turn = found.cursor, found.turn
        read_as = batch.rows[id(cursor)]
        session_id = found.session_id or read_as["session_id"] or ""
        state = states.get(session_id)
        if state is None:
            own = batch.sessions.get(session_id)  # a row that this transaction has just inserted
            state = states[session_id] = _SessionState(own or turns.session_row(connection, session_id))
        if turn.role is Role.USER and turn.kind in SPOKEN and turn.tool_call_id is not None:
            turn = _confirm_origin(connection, session_id, turn, calls)
        elif turn.kind is TurnKind.TOOL_CALL and turn.tool_call_id is not None:
            calls[session_id, turn.tool_call_id] = turn.tool_name
        seq = state.take(turn, read_as["mtime_ns"])
        seqs.append(seq)
        rows.append((
            agent_id, session_id, seq, cursor.id, read_as["generation"], packing.pack_id(turn.record_id), turn.part,
            str(turn.role), str(turn.origin), str(turn.kind), packing.pack_new(turn.text), turn.at, turn.usage,
            int(turn.sidechain), turn.tool_call_id, turn.tool_name, found.first_byte, found.last_byte, found.sha256,
            found.withheld, packing.compute_crc(turn.text),
        ))  # fmt: skip
    if rows:
        query.change_each(connection, turns.INSERT_TURNS, rows)
        query.change_each(connection, _UPDATE_SESSION, (state.values(now) for state in states.values()))
        result.turns += len(rows)
        result.sessions.update(states)
    return seqs


def _confirm_origin(
    connection: Connection, session_id: str, turn: Turn, calls: Mapping[tuple[str, str], str | None]
) -> Turn:
    """Return an answer of a dialog with its origin checked.

    It stays the user's answer only if it belongs to a dialog call of the session. Otherwise its origin becomes unknown.
    """
    call = turn.tool_call_id or ""
    name = calls.get((session_id, call)) or turns.tool_of(connection, session_id, call)
    if dialogs.is_confirmed(name, turn.tool_name):
        return turn._replace(tool_name=name)
    return turn._replace(role=Role.SYSTEM, origin=Origin.UNKNOWN, kind=TurnKind.MESSAGE, tool_name=None)


def _end_sessions(connection: Connection, batch: IngestBatch, now: str, result: StoreResult) -> None:
    sql = "UPDATE session SET state = 'ended', ended_at = ?1 WHERE id = ?2 AND (state <> 'ended' OR ended_at <> ?1)"
    for session_id, ended_at in batch.ended.items():
        if query.change_one(connection, sql, _known_time(ended_at, now) or now, session_id):
            result.sessions.add(session_id)


def _iter_unseen(
    connection: Connection, batch: IngestBatch, listed: list[FoundTurn], seen: turns.SeenRecords, result: StoreResult
) -> Iterable[FoundTurn]:
    """Yield the turns that are not stored yet; a record whose text has changed is yielded under a new id, `id~hash`."""
    confirmed: list[tuple[int, int, int, bytes, str, str, int]] = []
    waiting: dict[tuple[str, int], list[FoundTurn]] = {}  # already yielded from this batch, by record id and part
    forgotten = _ForgottenTexts(connection, listed[0].cursor.agent_id)
    for found in listed:
        generation = batch.rows[id(found.cursor)]["generation"]
        key = found.turn.record_id, found.turn.part
        known, earlier = seen.rows.get(key), waiting.get(key, [])
        if known is None and not earlier:
            waiting[key] = [found]
            yield forgotten.as_kept(found, found.session_id or batch.rows[id(found.cursor)]["session_id"] or "")
            continue
        if any(_says_the_same(one, one.turn.text, found) for one in earlier):
            continue
        if known is not None and known.sha256 == found.sha256 and not _is_later(known, found, generation):
            if known.withheld is not None:
                result.sessions |= reveal(connection, found.cursor.agent_id, found.turn.record_id, found)
            continue
        same = None if known is None else _same_version(connection, found)
        if same is None:
            waiting[key] = [*earlier, found]
            changed = f"{found.turn.record_id}~{found.sha256.hex()[:12]}"
            yield found._replace(turn=found.turn._replace(record_id=changed))
            continue
        if same.withheld is not None:
            result.sessions |= reveal(connection, found.cursor.agent_id, same.record_id, found)
        if _is_later(same, found, generation):
            confirmed.append((
                found.first_byte, found.last_byte, generation, found.sha256,
                found.cursor.agent_id, same.record_id, found.turn.part,
            ))  # fmt: skip
            if same.record_id == found.turn.record_id:
                seen.rows[key] = turns.KnownTurn(same.transcript_id, generation, found.sha256, None)
    turns.confirm_spans(connection, confirmed)


class _ForgottenTexts:
    """Hold the keys of an agent's forgotten texts while a batch is checked."""

    def __init__(self, connection: Connection, agent_id: str) -> None:
        self.connection = connection
        self.keys = erasure.forgotten_by(connection, agent_id)
        self.left: dict[tuple[str, str], int] = {}  # how often a text without a time is dropped, by (session, key)

    def as_kept(self, found: FoundTurn, session_id: str) -> FoundTurn:
        """Return a turn; its text is dropped if it was forgotten.

        The key of a turn without a time is not unique. So such a text is dropped only as often as it was forgotten.
        """
        turn = found.turn
        key = erasure.text_key(turn.role, turn.at, turn.text) if self.keys else ""
        if key not in self.keys or not (turn.at or self._is_left(found, session_id, key)):
            return found
        return found._replace(turn=turn._replace(text="", branch=None), withheld=turns.FORGOTTEN)

    def _is_left(self, found: FoundTurn, session_id: str, key: str) -> bool:
        left = self.left.get((session_id, key))
        if left is None:
            again = turns.forgotten_again(self.connection, session_id, found.sha256, found.turn.part)
            left = erasure.forgotten_of(self.connection, session_id)[key] - again
        self.left[session_id, key] = left - 1
        return left > 0


def _says_the_same(one: FoundTurn | turns.TurnVersion, text: str, found: FoundTurn) -> bool:
    return one.sha256 == found.sha256 or (not (one.withheld or found.withheld) and text == found.turn.text)


def _is_later(known: turns.KnownTurn | turns.TurnVersion, found: FoundTurn, generation: int) -> bool:
    return known.transcript_id == found.cursor.id and known.generation < generation


def _same_version(connection: Connection, found: FoundTurn) -> turns.TurnVersion | None:
    """Return the stored version with the same text; otherwise a version whose text is missing; None without either."""
    versions = turns.versions_of(connection, found.cursor.agent_id, found.turn.record_id, found.turn.part)
    exact = (one for one in versions if _says_the_same(one, one.text, found))
    missing = (one for one in versions if one.withheld in {UNSCANNED, LOST, DAMAGED, turns.FORGOTTEN, EXPIRED})
    return next(exact, None) or next(missing, None)


def reveal(connection: Connection, agent_id: str, record_id: str, found: FoundTurn) -> set[str]:
    """Store the missing text of a turn, and update its session.

    If a job has already processed this place, or an open run will, a message moves to the end of its session. So it is
    processed late, but not skipped. Other turns stay in their place, because they have no meaning elsewhere.

    Returns:
        The id of the session, if its turns changed; otherwise an empty set.
    """
    row = turns.withheld_turn(connection, agent_id, record_id, found.turn.part)
    if row is None or found.withheld is not None or not found.turn.text:
        return set()
    session_id, seq = row["session_id"], row["seq"]
    if row["withheld"] == DAMAGED:  # a damaged turn was already counted and processed in its place
        turns.give_text(connection, row["id"], seq, found.turn.text)
        return set()
    state = _SessionState(turns.session_row(connection, session_id))
    passed = turns.read_consumed(connection, session_id)
    new_seq = state.seq + 1 if seq <= passed and found.turn.kind in SPOKEN else seq
    turns.give_text(connection, row["id"], new_seq, found.turn.text)
    state.reveal(found.turn, seq, new_seq, turns.seq_of_record(connection, session_id, state.gauge.record_id))
    query.run(connection, _UPDATE_SESSION, *state.values())
    sql = "UPDATE session SET counted_seq = min(counted_seq, ?) WHERE id = ?"
    query.run(connection, sql, new_seq - 1, session_id)
    return {session_id}


class _SessionState:
    """Hold a session's row while a batch is added to it."""

    def __init__(self, row: dict[str, Any] | None) -> None:
        assert row is not None  # noqa: S101 - the session is created before its first turn
        self.id, self.seq, self.turns = row["id"], row["last_seq"], row["turns"]
        self.gauge = live.Gauge(**json.loads(row["gauge"]))
        self.model, self.branch = row["model"], row["branch"]
        self.file_time: int | None = None  # file time of the last added turn
        self.latest, self.moment = "", row["last_turn_at"] if row["turns"] else ""

    def take(self, turn: Turn, mtime_ns: int) -> int:
        """Add one turn; return its number in the session."""
        self.seq += 1
        self.turns += bool(turn.text)  # an empty turn only carries token usage
        self.gauge = live.advance(self.gauge, turn, self.seq)
        if turn.model and not turn.sidechain and not turn.model.startswith("<"):
            self.model = turn.model
        if turn.branch is not None and not turn.sidechain:
            self.branch = turn.branch or None
        # The file time counts only if no turn has a time. Otherwise an old session with an undated first line would
        # seem new.
        self.latest, self.file_time = max(self.latest, turn.at or ""), mtime_ns
        return int(self.seq)

    def reveal(self, turn: Turn, seq: int, new_seq: int, measured_at: int) -> None:
        """Add the text of a turn that was stored without it; `measured_at` is the turn of the last measured usage."""
        self.seq = max(self.seq, new_seq)
        self.turns += 1
        if seq >= measured_at and seq >= self.gauge.since_seq:
            self.gauge = live.with_text(self.gauge, turn)

    def values(self, now: str = "") -> tuple[Any, ...]:
        """Return the values for `_UPDATE_SESSION`, which makes the session active again."""
        gauge = dict(self.gauge._asdict().items() - live.Gauge()._asdict().items())  # without default values
        last = self.moment if self.file_time is None else max(self.moment, _moment(self.latest, self.file_time, now))
        return self.seq, self.turns, json.dumps(gauge, sort_keys=True), self.model, self.branch, last, self.id


def _known_time(at: str | None, now: str) -> str | None:
    """Return a transcript's time; None if it is more than a day after now, because then a clock was wrong.

    A machine without a clock of its own starts in 1970, so a year before 2020 is no measure.
    """
    is_ahead = at is not None and at > now > "2020" and at > text_of(moment_of(now) + timedelta(days=1))
    return None if is_ahead else at


def _moment(text: str | None, mtime_ns: int, now: str) -> str:
    """Return a transcript's time as UTC text; if it is missing or invalid, return the file time, but at most now."""
    try:
        return text_of(moment_of(text or ""))
    except (ValueError, OverflowError):
        return min(now, text_of(datetime.fromtimestamp(mtime_ns / 1e9, UTC)))
