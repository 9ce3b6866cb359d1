"""Trace a line of memory to the turns that it came from, and list each later change.

A memory has its sources in the memory store. A line of a daily file is traced by the report of the run that wrote it. A
line of `RECENT.md` or of the archive is traced by the reports of all sleeps of its session. If no report names a
sentence, the turn that shares most words with the line counts, as in a dream. Texts come from the database, without
secrets.
"""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from sqlalchemy import Connection

from memoryd.changing.core_import import CORE_FILE
from memoryd.changing.written_blocks import find_written_blocks, read_sentences
from memoryd.config import Agent, Settings
from memoryd.database import memories, query, reads, turns
from memoryd.errors import ConfigError, NotFoundError
from memoryd.finding.excerpt import read_shown, strip_workspace
from memoryd.jobs.witness import Behind, SupportingSentences, digest_of
from memoryd.ledger import audit as chain
from memoryd.ledger.memory import ANY_PREFIX, Memory, MemoryKind, hash_of
from memoryd.requests import access, opening
from memoryd.requests.scanner import open_scrubber
from memoryd.text.content import measure_overlap
from memoryd.text.sentences import list_texts
from memoryd.tiers import archive, core, daily, recent
from memoryd.tiers.lines import lines_of
from memoryd.tiers.session_summary import parse_points

_PLACE = re.compile(r"(?P<path>.+?):(?P<line>\d{1,9})(?:-\d{1,9})?")
_LABEL = re.compile(r"^(?:\*\*[\w ]+\*\*:\s*)?(?:[-*+] (?:\[x\] )?)?")  # a label of RECENT.md, such as `**Open**:`
_HINT = "name a line, such as MEMORY.md:12 or memory/2026-03-04.md:7, or the id of a memory"
_TURN = (
    "SELECT t.session_id AS session, t.seq, t.origin AS speaker, t.at, plain(CAST(t.text AS BLOB), t.text_crc) AS text,"
    " t.withheld, p.path AS transcript, p.fate = 'deleted' AS transcript_deleted"
    " FROM turn t LEFT JOIN transcript p ON p.id = t.transcript_id WHERE t.agent_id = ?"
)
_LEAST = 0.3  # the least share of a memory's words that its source sentence contains
_OTHERS = "no run of memoryd wrote this line as it is now: a person or a program did"


class Traced(NamedTuple):
    """Hold the origin of a line or a memory.

    Attributes:
        what: The id of the memory, or `FILE:LINE`.
        text: The text of the memory or the line.
        by: Who or which run wrote it, for people.
        turns: Its sources: `session`, `seq`, `speaker`, `at`, `text`, `cited` (sentences), `transcript`,
            `transcript_deleted`, and `withheld` (the reason if there is no text).
        changes: The changes in order: `id` of the audit, `at`, `actor`, `operation`, `run_id`, `memory`, `content`.
    """

    what: str
    text: str
    by: str
    turns: list[dict[str, Any]]
    changes: list[dict[str, Any]]


def blame(settings: Settings, agent: Agent, target: str, what: str) -> Traced:
    """Return the turns behind a line or a memory of an agent, and its changes.

    `target` is `FILE:LINE`, as `search` prints it, or the id of a memory or a unique beginning of it. `what` names the
    interface in the audit.

    Raises:
        ConfigError: The target is neither a line nor an id.
        NotFoundError: There is no such file, line or memory.
        RefusedError: The person may not see the agent's memory, or the file is not a memory file.
    """
    access.require(settings, agent, what)
    opening.catch_up(settings, agent)
    name = target.removeprefix("fact:")
    if name.startswith(ANY_PREFIX):
        name = str(reads.ask(reads.database_path(settings), reads.find_memory, agent.id, name)["id"])
        with opening.open_connection(settings) as connection:
            return _of_memory(connection, agent, name)
    place = _PLACE.fullmatch(target)
    if place is None:
        raise ConfigError("this is neither a line nor a memory", target[:80], _HINT)
    path, data = _read(agent, place["path"])
    line = int(place["line"])
    lines = lines_of(data)
    if not 1 <= line <= len(lines) or not lines[line - 1].strip():
        why = "is blank" if 1 <= line <= len(lines) else f"is not there: the file has {len(lines)}"
        raise NotFoundError(f"line {line} {why}", path, _HINT)
    reads.ask(reads.database_path(settings), reads.read_daemon)  # raises an error with a remedy if there is no database
    with open_scrubber(settings) as scrubber:
        (text,) = scrubber.redact_own([_entry_at(path, data, line)])
    with opening.open_connection(settings) as connection:
        if path == CORE_FILE:
            return _of_memory(connection, agent, _find_core(connection, agent, text, line))
        tracer = _LineTracer(settings, connection, agent, path, text)
        found = tracer.trace_summary(data, line) if path.startswith(archive.FOLDER) else tracer.trace_daily(data, line)
    return found._replace(what=f"{path}:{line}")


def _read(agent: Agent, given: str) -> tuple[str, bytes]:
    """Read a memory file; return its path in the workspace and its bytes. `given` may be only the name of the file.

    Raises:
        NotFoundError: There is no such memory file.
    """
    names = [given.removeprefix(f"{agent.workspace}/")]
    if "/" not in given and given != CORE_FILE:
        names = [f"{archive.FOLDER}/{given}", f"memory/{given}"]
    for name in names:
        path = strip_workspace(name)
        data = read_shown(agent, path)
        if data is not None:
            return path, data
    raise NotFoundError("there is no such file", given, _HINT)


def _entry_at(path: str, data: bytes, line: int) -> str:
    """Return the whole bullet or paragraph that contains a line.

    Raises:
        NotFoundError: The line is a heading or other text that is not memory.
    """
    lines = lines_of(data)
    start = sum(map(len, lines[: line - 1]))
    if path == CORE_FILE:
        file = core.parse(data)
        at, bullets = 0, iter(file.bullets)
        for piece in file.pieces:
            bullet = next(bullets) if piece.kind is core.PieceKind.BULLET else None
            if at <= start < at + len(piece.raw):
                if bullet is None:
                    raise NotFoundError(f"line {line} is not a memory, but a heading or text", path, _HINT)
                return core.unescape(bullet.text)
            at += len(piece.raw)
    own = lines[line - 1].decode(errors="replace").strip()
    if own.startswith(("#", "---")) or not _LABEL.sub("", own):
        raise NotFoundError(f"line {line} is a heading", path, "name a line below it")
    if path.startswith(archive.FOLDER):
        return own
    pieces = [text for at, text in daily.split_pieces(data) if at <= start]
    return pieces[-1] if pieces else own


# --- memories ---------------------------------------------------------------------------------------------------------


def _find_core(connection: Connection, agent: Agent, text: str, line: int) -> str:
    sql = (
        "SELECT id FROM memory WHERE agent_id = ? AND kind = ? AND content_hash = ? AND deleted_at IS NULL"
        " ORDER BY position LIMIT 1"
    )
    found = query.fetch_text(connection, sql, agent.id, str(MemoryKind.CORE), hash_of(text))
    if found is None:
        hint = "memoryd imports an edit of the file in a moment; memoryd verify compares both"
        raise NotFoundError(f"line {line} is not in the memory store", CORE_FILE, hint)
    return found


def _of_memory(connection: Connection, agent: Agent, memory_id: str) -> Traced:
    """Trace a memory. The result includes turns and changes of the memories that it was made from."""
    held = memories.of_agent(connection, agent.id)
    family = _list_ancestors(held, memory_id)
    memory = held[memory_id]
    sources = memory.sources or [source for one in family for source in held[one].sources]
    found: list[dict[str, Any]] = []
    for source in dict.fromkeys(sources):
        sql = f"{_TURN} AND t.record_key = key_of(?) AND t.part = ?"
        rows = query.fetch_mappings(connection, sql, agent.id, source.record_id, source.part)
        # A line that a person wrote into a daily file can be a source, but belongs to no turn.
        told = dict(rows[0]) if rows else {"session": None, "seq": None, "speaker": source.origin, "at": source.at}
        cited = _find_nearest(memory.content, str(told.get("text") or ""))
        found.append({"text": None, "withheld": None, "transcript": source.transcript, "cited": cited, **told})
    changes = _read_changes(connection, agent.id, family)
    by = next((_describe_change(one) for one in changes if one["memory"] == memory_id), "unknown")
    return Traced(memory_id, memory.content, by, found, changes)


def _find_nearest(content: str, text: str) -> list[str]:
    """Return the sentence of a turn that shares most words with a memory, or none if it shares too few."""
    share, said = max(((measure_overlap(content, one), one) for one in list_texts(text)), default=(0.0, ""))
    return [said] if share >= _LEAST else []


def _list_ancestors(held: dict[str, Memory], memory_id: str) -> list[str]:
    """Return the ids of a memory, of the memories that it was made from, and of those that ended in it.

    The search continues from each of these memories.
    """
    family = [memory_id]
    for one in family:
        ended = [other.id for other in held.values() if one in other.successors]
        family += [name for name in (*held[one].derived_from, *ended) if name in held and name not in family]
    return family


def _read_changes(connection: Connection, agent_id: str, names: Sequence[str], since: str = "") -> list[dict[str, Any]]:
    """Return the audited changes of memories or files since a time, each with the `content` after it."""
    rows = query.fetch_mappings(
        connection,
        "SELECT a.id, a.at, a.actor, a.operation, a.run_id, r.kind, a.memory_id AS memory, c.text AS content"
        ' FROM audit a LEFT JOIN content c ON c.sha256 = a."after" LEFT JOIN job_run r ON r.id = a.run_id'
        " WHERE a.agent_id = ? AND a.memory_id IN (SELECT value FROM json_each(?)) AND a.at >= ? ORDER BY a.id",
        agent_id,
        list(names),
        since,
    )
    return [dict(row) | {"content": json.loads(row["content"] or "{}").get("content")} for row in rows]


def _describe_change(change: dict[str, Any]) -> str:
    run = f" in the {change['kind']} {change['run_id']}" if change["run_id"] else ""
    return f"{change['operation']} by {change['actor']}{run}, {change['at']}"


# --- lines ------------------------------------------------------------------------------------------------------------


class _LineTracer:
    """Trace one line of a file that jobs write, such as a daily file."""

    def __init__(self, settings: Settings, connection: Connection, agent: Agent, path: str, text: str) -> None:
        self._zone = settings.zone
        self._connection = connection
        self._agent = agent
        self._path = path
        self._text = text

    def trace_daily(self, data: bytes, line: int) -> Traced:
        """Trace a line of a daily file by the run that appended its block."""
        start = sum(map(len, lines_of(data)[: line - 1]))
        written = find_written_blocks(self._connection, self._agent.id, self._path, data, "1")
        run_id = next((one.run_id for one in written if one.first <= start < one.end), None) or self._find_citing_run()
        if run_id is None:
            return Traced("", self._text, _OTHERS, [], self._changes(""))
        sql = "SELECT id AS run_id, kind, session_id, receipt, started_at, finished_at AS at FROM job_run WHERE id = ?"
        (run,) = query.fetch_mappings(self._connection, sql, run_id)
        if run["session_id"] is not None:
            found = self._turns_of(*read_sentences(self._connection, run_id, self._zone))
        else:  # a note by the agent's own tool: search the sessions that may have called it
            sessions = json.loads(run["receipt"]).get("witnesses", ())
            found = next(filter(None, (self._turns_of(self._sentences(one, {}), one) for one in sessions)), [])
        by = f"by the {run['kind']} {run_id}, {run['at']}"
        return Traced("", self._text, by, found, self._changes(run["started_at"], run_id))

    def trace_summary(self, data: bytes, line: int) -> Traced:
        """Trace a line of RECENT.md or the archive by all sleeps of the session that its section is about.

        Raises:
            NotFoundError: memoryd does not know the session of the section.
        """
        start = sum(map(len, lines_of(data)[: line - 1]))
        split = archive.split_sections if self._path.endswith(recent.NAME) else archive.split_parts
        sections = split(data)
        ends = accumulate(map(len, sections))
        section = next((one for one, end in zip(sections, ends, strict=True) if start < end), sections[-1])
        session_id = self._find_session(section)
        if session_id is None:
            raise NotFoundError(f"line {line} is about no session that memoryd knows", self._path, _HINT)
        sql = (
            "SELECT id AS run_id, kind, actor, finished_at AS at, receipt FROM job_run WHERE session_id = ?"
            " AND kind = 'sleep' AND state = 'succeeded' ORDER BY finished_at"
        )
        runs = query.fetch_mappings(self._connection, sql, session_id)
        cites = {key: ids for run in runs for key, ids in json.loads(run["receipt"]).get("cites", {}).items()}
        self._text = self._find_point(session_id)
        found = self._turns_of(self._sentences(session_id, cites), session_id)
        slept = [
            {name: run[name] for name in ("at", "actor", "run_id", "kind")}
            | {"id": None, "operation": "summed up", "memory": chain.SESSION + session_id, "content": None}
            for run in runs
        ]
        by = f"by the sleep {slept[-1]['run_id']}, {slept[-1]['at']}" if slept else "without a sleep, by a rollover"
        changes = sorted((*slept, *self._changes(runs[0]["at"] if runs else "")), key=lambda one: str(one["at"]))
        return Traced("", self._text, f"{by}; session {session_id}", found, changes)

    def _find_session(self, section: bytes) -> str | None:
        sql = "SELECT s.id FROM session s JOIN session_summary t ON t.session_id = s.id WHERE s.agent_id = ?"
        ids = query.fetch_column(self._connection, sql, self._agent.id)
        return next((one for one in ids if _is_about(section, archive.name_of(one))), None)

    def _find_point(self, session_id: str) -> str:
        """Return the full entry of the session's summary that the line shortens; without one, the line's own text."""
        said = _LABEL.sub("", self._text).removesuffix(" …")
        points = parse_points(turns.running_summary(self._connection, session_id) or "").points
        return next((point.text for point in points if said and said in point.text), said)

    def _find_citing_run(self) -> str | None:
        """Return the run whose report cites sentences for this line, even if its block was edited later; else None."""
        sql = (
            "SELECT r.id FROM audit a JOIN job_run r ON r.id = a.run_id WHERE a.agent_id = ? AND a.memory_id = ?"
            " AND json_extract(r.receipt, ?) IS NOT NULL ORDER BY a.id DESC LIMIT 1"
        )
        digest = f'$.cites."{digest_of(self._text)}"'
        return query.fetch_text(self._connection, sql, self._agent.id, chain.FILE + self._path, digest)

    def _sentences(self, session_id: str, cites: dict[str, Sequence[str]]) -> SupportingSentences:
        row = turns.session_row(self._connection, session_id)
        said = turns.stored_turns(self._connection, session_id)
        return SupportingSentences(said, None if row is None else row["folder"], self._zone, cites)

    def _turns_of(self, sentences: SupportingSentences, session_id: str) -> list[dict[str, Any]]:
        return list(self._read_turns(session_id, sentences.find_support(self._text)))

    def _read_turns(self, session_id: str, behind: Behind) -> Iterable[dict[str, Any]]:
        for piece, numbers in behind:
            sql = f"{_TURN} AND t.session_id = ? AND t.seq = ?"
            for row in query.fetch_mappings(self._connection, sql, self._agent.id, session_id, piece.seq):
                yield dict(row) | {"cited": [piece.lines[number - 1].text for number in numbers]}

    def _changes(self, since: str, run_id: str | None = None) -> list[dict[str, Any]]:
        """Return the later changes of the file, without blocks that other runs appended."""
        found = _read_changes(self._connection, self._agent.id, [chain.FILE + self._path], since)
        return [one for one in found if one["operation"] != "append" or one["run_id"] == run_id]


def _is_about(section: bytes, name: str) -> bool:
    """Return True if a section is about a session, by a link in RECENT.md or by a heading in the archive."""
    return f"#session-{name})".encode() in section or section.startswith(f"### Session {name}\n".encode())
