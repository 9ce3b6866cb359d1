"""Verify that the audit, the rows, the files and the cursors agree.

Everything is computed again. The chain of hashes is checked, rows are compared with the states that the audit leads to,
and the bullets of `MEMORY.md` with the live core. Problems are reported by ids and numbers, without texts. Rows are
read as objects of the declared tables; only the audit is read as plain SQL, because it is large.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from sqlmodel import Session, col, or_, select

from memoryd.changing.restore import ACTS, JOURNALS
from memoryd.config import Agent, Settings
from memoryd.counted import count_noun
from memoryd.database import backups, memories, parts, reads, vault
from memoryd.database.reads import DatabaseReader
from memoryd.database.tables import ContentRow, MemoryRow, ProfileSectionRow, TranscriptRow, WatermarkRow
from memoryd.database.tables import SessionRow as StoredSession
from memoryd.errors import MemorydError, StateError
from memoryd.files import regular
from memoryd.files.journal import Journal
from memoryd.ledger import audit as chain
from memoryd.ledger import forgetting
from memoryd.ledger.audit import AuditEntry, ErasedState
from memoryd.ledger.memory import ANY_PREFIX, Ending, to_json
from memoryd.tiers import core, daily, diary

_REDACTED = b"[REDACTED:"
_PLACEHOLDER = "[redacted:"  # the placeholder in normal form
_AUDITED = "SELECT DISTINCT agent_id FROM audit"  # the row of an agent may be gone
_BATCH = 1_000  # the number of rows in memory at one time
REPAIRED = "the daemon repairs it now, or at its next start; if it stays, somebody changed the row: restore a backup"
MOST = 100  # problems of one check that are listed; the others are only counted

Problem = dict[str, str]


def list_problems(
    settings: Settings, reader: DatabaseReader, check_index: Callable[[Agent], list[Problem]] = lambda _agent: []
) -> list[Problem]:
    """Return all problems, each as a dictionary with `what`, `where` and `hint`; empty if everything agrees.

    Args:
        settings: the configuration.
        reader: a read transaction.
        check_index: returns the problems of an agent's search index.
    """
    with reader.session() as session:
        found = list(_database(reader))
        if parts.list_lost(reader.stream):  # the other checks would fail
            return found
        agents = sorted({*reads.read_agents(reader), *(one for (one,) in reader.stream(_AUDITED))})
        checks = [iter(found), _texts(reader), _chain(reader), _contents(session)]
        checks += (_rows(reader, session, agent_id) for agent_id in agents)
        for agent in settings.agents:
            if agent.id in agents:
                checks += [_file(reader, agent), _dailies(reader, agent), iter(check_index(agent))]
        checks += [_cursors(session), _copies(settings)]
        return [problem for check in checks for problem in _limit_problems(check)]


def _problem(what: str, where: str, hint: str) -> Problem:
    return {"what": what, "where": where, "hint": hint}


def _limit_problems(found: Iterator[Problem]) -> list[Problem]:
    told = list(islice(found, MOST))
    more = sum(1 for _ in found)
    return [*told, _problem(f"{more} more of this kind", told[-1]["where"], "fix the first")] if more else told


def _database(reader: DatabaseReader) -> Iterator[Problem]:
    for (what,) in reader.stream("PRAGMA quick_check"):
        if what != "ok":
            yield _problem(str(what), "memoryd.db", "restore a backup")
    if foreign := parts.find_foreign(reader.stream):
        what = f"has parts that differ from memoryd's schema: {', '.join(parts.name_parts(foreign))}"
        hint = "restart memoryd, which repairs triggers and its own indexes; remove foreign parts, or restore a backup"
        yield _problem(what, "memoryd.db", hint)
    is_altered = any(kind not in {"index", "trigger", "view"} for kind, _ in foreign)  # then SQLite may refuse to check
    orphans = Counter(() if is_altered else (one[::2] for one in reader.stream("PRAGMA foreign_key_check")))
    for (table, parent), number in orphans.items():
        what = f"{count_noun(number, 'row')} of table {table!r} with a deleted row of {parent!r}"
        yield _problem(what, "memoryd.db", "somebody changed the database by hand: restore a backup")
    if missing := {part: sql for part, sql in parts.find_missing(reader.stream).items() if part not in foreign}:
        what = f"lacks parts of memoryd's schema: {', '.join(parts.name_parts(missing))}"
        yield _problem(what, "memoryd.db", "restart memoryd, which restores them: memoryd run --once")


def _copies(settings: Settings) -> Iterator[Problem]:
    """Check the copies and journals, and that the database is not older than its journal.

    The database is read again after the journal, because a daemon may have written to both.
    """
    entries = Journal(settings.state_dir / ACTS, sealed=True).entries()
    asked = ("PRAGMA application_id", "SELECT max(seq) FROM changed_row")
    of, seq = reads.ask(reads.database_path(settings), lambda reader: [reader.number(sql) for sql in asked])
    if any(one["of"] == of and one["seq"] > seq for one in entries[-1:]):
        yield _problem("the database is older than its journal", "memoryd.db", "the next memoryd run restores the rest")
    try:
        backups.require_folder(settings.state_dir)
    except StateError as error:
        yield _problem(error.what, error.where, error.hint)
    hint = "the daemon makes a new copy"
    for copy in backups.list_copies(settings.state_dir):
        if (why := backups.why_bad(copy)) is not None:
            yield _problem(why, str(copy), hint)
    for path in (settings.state_dir / name for name in JOURNALS):
        if damaged := Journal(path).count_damaged():
            yield _problem(f"damaged: {count_noun(damaged, 'line')}", str(path), hint)


def _texts(reader: DatabaseReader) -> Iterator[Problem]:
    rows = reader.stream(
        f"SELECT id, session_id, seq FROM turn WHERE {vault.IS_DAMAGED} OR withheld = ? ORDER BY id",  # noqa: S608
        vault.DAMAGED,
    )
    for turn_id, session_id, seq in rows:
        where = f"turn {turn_id} ({seq} of session {session_id})"
        yield _problem("the text does not match its checksum", where, REPAIRED)


def _chain(reader: DatabaseReader) -> Iterator[Problem]:
    entries = (AuditEntry(*row) for row in reader.stream(f"SELECT {reads.AUDIT} FROM audit ORDER BY id"))  # noqa: S608
    for one in chain.check(entries):
        hint = "if no alarm reported a loss, somebody changed the database by hand: restore a backup, or ask who"
        yield _problem(one.what, f"audit {one.entry_id} ({one.memory_id})", hint)


def _contents(session: Session) -> Iterator[Problem]:
    for one in session.exec(select(ContentRow).where(col(ContentRow.text).is_not(None))).yield_per(_BATCH):
        if chain.compute_digest(one.text or "") != one.sha256:
            yield _problem("the stored state does not match its digest", f"content {one.sha256}", REPAIRED)


def _rows(reader: DatabaseReader, session: Session, agent_id: str) -> Iterator[Problem]:
    """Compare the memories and the profile with the states that the audit leads to."""
    entries = (
        AuditEntry(*row)
        for row in reader.stream(f"SELECT {reads.AUDIT} FROM audit WHERE agent_id = ? ORDER BY id", agent_id)  # noqa: S608
    )
    kept = "SELECT text FROM content WHERE sha256 = ?"
    states = chain.replay(entries, lambda sha256: next(reader.stream(kept, sha256), (None,))[0])
    told = {name: state for name, state in states.items() if name.startswith(ANY_PREFIX)}
    for one in session.exec(select(MemoryRow).where(MemoryRow.agent_id == agent_id)).yield_per(_BATCH):
        row = one.model_dump()
        where = f"memory {row['id']}"
        if row["id"] not in told:
            yield _problem("this row is not in the audit", where, REPAIRED)
        elif not _is_as_told(row, told.pop(row["id"])):
            yield _problem("the row does not match the audit", where, REPAIRED)
    for memory_id, state in told.items():
        if state is not None:
            yield _problem("a memory of the audit has no row", f"memory {memory_id}", REPAIRED)
    sections = {name: state for name, state in states.items() if name.startswith(chain.PROFILE)}
    yield from _profile(session, agent_id, sections)
    yield from _grants(reader, agent_id, states)


def _grants(reader: DatabaseReader, agent_id: str, states: dict[str, str | ErasedState | None]) -> Iterator[Problem]:
    for row in reader.rows('SELECT * FROM "grant" WHERE agent_id = ?', agent_id):
        state = states.get(chain.GRANT + row["id"], "{}")
        known = chain.values_of(state) if isinstance(state, str) else row
        if any((known.get(name) or None) != (value or None) for name, value in row.items()):  # old states lack columns
            hint = f"somebody changed the database: run memoryd grant revoke {row['id']}, or restore a backup"
            yield _problem("the grant does not match the audit", f"grant {row['id']}", hint)


def _profile(session: Session, agent_id: str, told: dict[str, str | ErasedState | None]) -> Iterator[Problem]:
    """Compare the sections of the profile with the audit.

    The state of a redacted section is erased, so it is skipped.
    """
    for one in session.exec(select(ProfileSectionRow).where(ProfileSectionRow.agent_id == agent_id)):
        state = told.pop(chain.PROFILE + one.section, None)
        if not isinstance(state, ErasedState) and state != chain.dump_state(**one.model_dump(exclude={"agent_id"})):
            yield _problem("the row does not match the audit", f"profile {one.section}", REPAIRED)
    for name, state in told.items():
        if state is not None:
            yield _problem("a section of the audit has no row", name, REPAIRED)


def _is_as_told(row: dict[str, Any], state: str | ErasedState | None) -> bool:
    if isinstance(state, ErasedState):
        return memories.is_sound(row) and row["ended_as"] == Ending.ERASED and not row["content"]
    return memories.is_sound(row) and to_json(memories.of_row(row)) == state


def _file(reader: DatabaseReader, agent: Agent) -> Iterator[Problem]:
    """Compare the bullets of `MEMORY.md` with the live core memories."""
    where = str(agent.workspace / "MEMORY.md")
    try:
        data = regular.read_in(agent.workspace, "MEMORY.md")
    except MemorydError as error:
        yield _problem(error.what, where, error.hint)
        return
    held = Counter(core.normalize(bullet.text) for bullet in core.parse(data or b"").bullets)
    rows = reader.stream(
        "SELECT content FROM memory WHERE agent_id = ? AND kind = 'core' AND deleted_at IS NULL", agent.id
    )
    known = Counter(core.normalize(row[0]) for row in rows)
    left, unknown = known - held, (held - known).total()
    # A person's bullet with a secret is redacted in the memory store, so the texts differ.
    redacted = min(unknown, sum(count for text, count in left.items() if _PLACEHOLDER in text))
    missing, unknown = left.total() - redacted, unknown - redacted
    if missing or unknown:
        what = f"{missing} memories are not in the file, {unknown} bullets of it are not in the memory store"
        yield _problem(what, where, "the daemon imports it when the file stops changing; resolve its alarms first")


def _dailies(reader: DatabaseReader, agent: Agent) -> Iterator[Problem]:
    """Check that each block that a run appended is in its file, unless it was rolled back.

    Only a person may change a block later. Such a change is reported, because it looks like damage. A file with a
    redaction is skipped, because redaction changes blocks.
    """
    hint = "if a person edited it, do nothing; else compare the run report and a backup"
    for path, blocks in _read_appended(reader, agent.id).items():
        try:
            data = regular.read_in(agent.workspace, path)
        except MemorydError as error:
            yield _problem(error.what, str(agent.workspace / path), error.hint)
            continue
        for run_id, item in blocks:
            where = f"{agent.workspace / path} (run {run_id})"
            if data is None:
                yield _problem("the file is gone, with a block that a run appended", where, hint)
            elif _REDACTED not in data and daily.find_block(data, item["appended"], item["bytes"]) is None:
                yield _problem("a block is not in the file as the run appended it", where, hint)


def _read_appended(reader: DatabaseReader, agent_id: str) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Return the blocks that runs appended, by file, without those that were rolled back or lost forgotten text."""
    gone = _taken_back(reader, agent_id)
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    owner: dict[str, str | None] = {}
    rows = reader.stream(
        "SELECT r.id, r.kind, r.session_id, json_extract(r.receipt, '$.files'),"
        " json_extract(r.receipt, '$.forget.sessions') FROM job_run r JOIN audit a ON a.run_id = r.id"
        " WHERE r.agent_id = ? AND r.state IN ('succeeded', 'declined')"
        " AND (r.kind = ? OR json_array_length(r.receipt, '$.files') > 0)"
        " GROUP BY r.id ORDER BY max(a.id)",
        agent_id, forgetting.OPERATION,
    )  # fmt: skip
    for run_id, kind, session_id, files, sessions in rows:
        forgotten = json.loads(sessions or "[]")
        for path, blocks in found.items():
            found[path] = [one for one in blocks if owner[one[0]] not in forgotten]
        owner[run_id] = session_id
        if kind == forgetting.OPERATION:  # forgetting scans diaries but does not list them as written
            found = {path: blocks for path, blocks in found.items() if not path.startswith(f"{diary.FOLDER}/")}
        for item in json.loads(files):
            if kind == forgetting.OPERATION:
                found.pop(item["path"], None)
                continue
            state = chain.dump_state(path=item["path"], appended=item.get("appended"), run_id=run_id)
            if "appended" in item and run_id not in gone and chain.compute_digest(state) not in gone:
                found.setdefault(item["path"], []).append((run_id, item))
    return found


def _taken_back(reader: DatabaseReader, agent_id: str) -> set[str]:
    """Return the ids of reverted runs, and the digests of appends that a rollback to an audit entry removed."""
    gone: set[str] = set()
    standing: dict[str, list[str]] = {}
    rows = reader.stream(
        'SELECT memory_id, operation, "after" FROM audit WHERE agent_id = ?'
        " AND (memory_id LIKE 'run:%' OR memory_id LIKE 'file:memory/%') ORDER BY id",
        agent_id,
    )
    for name, operation, after in rows:
        if name.startswith("run:"):
            gone |= {name.removeprefix("run:")} if after is not None else set()
            continue
        appended = standing.setdefault(name, [])
        if operation == "append":
            appended.append(after)
        else:
            while appended and appended[-1] != after:
                gone.add(appended.pop())
    return gone


def _cursors(session: Session) -> Iterator[Problem]:
    at_end = (
        select(WatermarkRow, StoredSession.last_seq)
        .join(StoredSession)
        .where(or_(col(WatermarkRow.seq) > StoredSession.last_seq, col(WatermarkRow.seq) < 0))
    )
    for mark, last in session.exec(at_end):
        what = f"{mark.consumer} has consumed up to turn {mark.seq} of {last}"
        yield _problem(what, f"session {mark.session_id}", "restore a backup")
    beyond = or_(col(TranscriptRow.offset) < 0, col(TranscriptRow.offset) > TranscriptRow.size)
    for one in session.exec(select(TranscriptRow).where(beyond)):
        what = f"the cursor is at byte {one.offset} of {one.size}"
        yield _problem(what, f"transcript {one.id} ({one.path})", "start the daemon, which reads the file again")
