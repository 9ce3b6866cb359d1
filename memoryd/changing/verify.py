"""Verify: whether the audit, the rows, the files and the cursors tell one story.

Everything is computed anew: the chain of hashes, the states it leads to, the rows against those states, the bullets of
`MEMORY.md` against the live core. What is found is told by ids and numbers, never by text.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

from memoryd.database import memories, profile, reads
from memoryd.errors import MemorydError
from memoryd.files import regular
from memoryd.ledger import audit as chain
from memoryd.ledger import forgetting
from memoryd.ledger.audit import Entry, Erased
from memoryd.ledger.memory import PREFIXES, Ending, to_json
from memoryd.tiers import core, daily, diary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memoryd.config import Agent, Settings
    from memoryd.database.reads import Reader

_REDACTED = b"[REDACTED:"
_PLACEHOLDER = "[redacted:"  # as the normalised form of a text has it
MOST = 100  # of one sort are told one by one; a hundred say what a million would

Problem = dict[str, str]


def problems(
    settings: Settings, reader: Reader, check_index: Callable[[Agent], list[Problem]] = lambda _agent: []
) -> list[Problem]:
    """All that does not agree, as the contract's objects; an empty list where everything does."""
    found = [*_database(reader), *_few(_chain(reader)), *_few(_contents(reader))]
    agents = [row[0] for row in reader.stream("SELECT id FROM agent ORDER BY id")]
    for agent_id in agents:
        found += _few(_rows(reader, agent_id))
    for agent in settings.agents:
        if agent.id in agents:
            found += [*_file(reader, agent), *_few(_dailies(reader, agent)), *_few(iter(check_index(agent)))]
    return [*found, *_few(_cursors(reader))]


def _problem(what: str, where: str, hint: str) -> Problem:
    return {"what": what, "where": where, "hint": hint}


def _few(found: Iterator[Problem]) -> list[Problem]:
    told = list(islice(found, MOST))
    more = sum(1 for _ in found)
    return [*told, _problem(f"{more} more like the last", told[-1]["where"], "mend the first")] if more else told


def _database(reader: Reader) -> list[Problem]:
    rows = [row[0] for row in reader.stream("PRAGMA quick_check")]
    return [] if rows == ["ok"] else [_problem(str(row), "memoryd.db", "restore a backup") for row in rows[:MOST]]


def _chain(reader: Reader) -> Iterator[Problem]:
    entries = (Entry(*row) for row in reader.stream(f"SELECT {reads.AUDIT} FROM audit ORDER BY id"))  # noqa: S608
    for one in chain.check(entries):
        hint = "somebody changed the database by hand: restore a backup, or ask who"
        yield _problem(one.what, f"audit {one.entry_id} ({one.memory_id})", hint)


def _contents(reader: Reader) -> Iterator[Problem]:
    for sha256, text in reader.stream("SELECT sha256, text FROM content WHERE text IS NOT NULL"):
        if chain.digest(text) != sha256:
            yield _problem("the kept state is not what was digested", f"content {sha256}", "restore a backup")


def _rows(reader: Reader, agent_id: str) -> Iterator[Problem]:
    """The rows of the ledger against the states that its audit leads to."""
    entries = (
        Entry(*row)
        for row in reader.stream(f"SELECT {reads.AUDIT} FROM audit WHERE agent_id = ? ORDER BY id", agent_id)  # noqa: S608
    )
    kept = "SELECT text FROM content WHERE sha256 = ?"
    states = chain.replay(entries, lambda sha256: next(reader.stream(kept, sha256), (None,))[0]).states
    told = {name: state for name, state in states.items() if name.startswith(tuple(PREFIXES.values()))}
    names = [f'"{name}"' for name in memories.COLUMNS]
    for values in reader.stream(f"SELECT {', '.join(names)} FROM memory WHERE agent_id = ?", agent_id):  # noqa: S608
        row = dict(zip(memories.COLUMNS, values, strict=True))
        where = f"memory {row['id']}"
        if row["id"] not in told:
            yield _problem("the audit knows nothing of this row", where, "restore a backup")
        elif not _is_as_told(row, told.pop(row["id"])):
            yield _problem("the row is not what the audit leads to", where, "restore a backup")
    for memory_id, state in told.items():
        if state is not None:
            yield _problem("the audit knows a memory that has no row", f"memory {memory_id}", "restore a backup")
    sections = {name: state for name, state in states.items() if name.startswith(chain.PROFILE)}
    yield from _profile(reader, agent_id, sections)


def _profile(reader: Reader, agent_id: str, told: dict[str, str | Erased | None]) -> Iterator[Problem]:
    """The sections of the profile against what the audit says of them; the state of a redacted one is gone."""
    names = ", ".join(profile.COLUMNS)
    for values in reader.stream(f"SELECT {names} FROM profile_section WHERE agent_id = ?", agent_id):  # noqa: S608
        row = dict(zip(profile.COLUMNS, values, strict=True))
        state = told.pop(chain.PROFILE + row["section"], None)
        if not isinstance(state, Erased) and state != chain.state(**row):
            yield _problem("the row is not what the audit leads to", f"profile {row['section']}", "restore a backup")
    for name, state in told.items():
        if state is not None:
            yield _problem("the audit knows a section that has no row", name, "restore a backup")


def _is_as_told(row: dict[str, Any], state: str | Erased | None) -> bool:
    try:
        memory = memories.of_row(row)
    except (MemorydError, ValueError):
        return False
    if isinstance(state, Erased):
        return memory.ended_as is Ending.ERASED and not memory.content
    return to_json(memory) == state


def _file(reader: Reader, agent: Agent) -> list[Problem]:
    """The bullets of the file against the live core memories."""
    where = str(agent.workspace / "MEMORY.md")
    try:
        data = regular.read_in(agent.workspace, "MEMORY.md")
    except MemorydError as error:
        return [_problem(error.what, where, error.hint)]
    held = Counter(core.normal(bullet.text) for bullet in core.bullets(core.parse(data or b"")))
    rows = reader.stream(
        "SELECT content FROM memory WHERE agent_id = ? AND kind = 'core' AND deleted_at IS NULL", agent.id
    )
    known = Counter(core.normal(row[0]) for row in rows)
    left, unknown = known - held, (held - known).total()
    # A bullet with a secret is a person's; the ledger holds it redacted.
    redacted = min(unknown, sum(count for text, count in left.items() if _PLACEHOLDER in text))
    missing, unknown = left.total() - redacted, unknown - redacted
    if not missing and not unknown:
        return []
    what = f"{missing} memories are not in the file, {unknown} bullets of it are not in the ledger"
    return [_problem(what, where, "the daemon imports it when it has settled; solve what alarms say of it")]


def _dailies(reader: Reader, agent: Agent) -> Iterator[Problem]:
    """The blocks that runs appended against the files they are in; one that was taken back is not looked for.

    Earlier bytes of a daily file are nobody's to change but a person's: what they changed is told, since from here it
    looks the same as damage. A file in which something was redacted is not looked at: that changes blocks, too.
    """
    hint = "a person's edit? then nothing is to be done; else the run's receipt and a backup tell what stood there"
    for path, blocks in _appended(reader, agent.id).items():
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


def _appended(reader: Reader, agent_id: str) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """What runs appended to which file, with the run; without what went, and what something was forgotten of since."""
    gone = _taken_back(reader, agent_id)
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    owner: dict[str, str | None] = {}
    rows = reader.stream(
        "SELECT r.id, r.kind, r.session_id, json_extract(r.receipt, '$.files'),"
        " json_extract(r.receipt, '$.forget.sessions') FROM job_run r JOIN audit a ON a.run_id = r.id"
        " WHERE r.agent_id = ? AND r.state IN ('succeeded', 'declined')"
        " AND (r.kind = ? OR json_extract(r.receipt, '$.files') <> '[]')"
        " GROUP BY r.id ORDER BY max(a.id)",
        agent_id, forgetting.OPERATION,
    )  # fmt: skip
    for run_id, kind, session_id, files, sessions in rows:
        forgotten = json.loads(sessions or "[]")
        for path, blocks in found.items():
            found[path] = [one for one in blocks if owner[one[0]] not in forgotten]
        owner[run_id] = session_id
        if kind == forgetting.OPERATION:  # it looks through diaries as through any copy, and tells of none
            found = {path: blocks for path, blocks in found.items() if not path.startswith(f"{diary.FOLDER}/")}
        for item in json.loads(files):
            if kind == forgetting.OPERATION:
                found.pop(item["path"], None)
                continue
            state = chain.state(path=item["path"], appended=item.get("appended"), run_id=run_id)
            if "appended" in item and run_id not in gone and chain.digest(state) not in gone:
                found.setdefault(item["path"], []).append((run_id, item))
    return found


def _taken_back(reader: Reader, agent_id: str) -> set[str]:
    """The runs that were rolled back, and the digests of the appends that went with everything behind an entry."""
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


def _cursors(reader: Reader) -> Iterator[Problem]:
    for session_id, consumer, seq, last in reader.stream(
        "SELECT w.session_id, w.consumer, w.seq, s.last_seq FROM watermark w JOIN session s ON s.id = w.session_id"
        " WHERE w.seq > s.last_seq OR w.seq < 0"
    ):
        what = f"{consumer} has consumed up to turn {seq} of {last}"
        yield _problem(what, f"session {session_id}", "restore a backup")
    for transcript_id, path, offset, size in reader.stream(
        'SELECT id, path, "offset", size FROM transcript WHERE "offset" < 0 OR "offset" > size'
    ):
        what = f"the cursor stands at byte {offset} of {size}"
        yield _problem(what, f"transcript {transcript_id} ({path})", "start the daemon, which reads it anew")
