"""Declare the tables of the state database. Times are UTC, ISO 8601 with `Z`; ids of runs and memories are text.

`make schema` writes `schema.sql` from these classes, and a new database is created from that file. So the daemon need
not import SQLModel, which takes half a second and much memory. Migrations bring older databases to the same schema.
Rows are written through SQLAlchemy Core. `memoryd.Memory`, `verify` and the tests read them as objects of these classes
(`reads.DatabaseReader.session`).
"""

import pkgutil
import re
import sys
from enum import StrEnum
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import create_model
from sqlalchemy import Column, Computed, Index, LargeBinary, String, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.orm import declared_attr
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlmodel import Field, SQLModel

from memoryd.database import alarms, changes, grants
from memoryd.ledger import memory as ledger
from memoryd.ledger.audit import AuditEntry


class _Table(SQLModel):
    """Derive the name of a table from its class: `JobRunRow` declares `job_run`."""

    @declared_attr.directive
    def __tablename__(cls) -> str:  # noqa: N805 - SQLAlchemy calls it with the class
        return re.sub("(?<!^)(?=[A-Z])", "_", cls.__name__.removesuffix("Row")).lower()


class AgentRow(_Table, table=True):
    """Store an agent: one separate memory."""

    id: str = Field(primary_key=True)
    workspace: str
    enabled: bool = True
    paused: bool = False
    seen_at: str


class SessionRow(_Table, table=True):
    """Store a session: the turns of one conversation."""

    __table_args__ = (
        Index("session_by_agent", "agent_id", "last_turn_at"),
        Index("session_active", "last_turn_at", sqlite_where=text("state = 'active'")),
    )

    id: str = Field(primary_key=True)
    agent_id: str = Field(foreign_key="agent.id")
    native_id: str
    parent_id: str | None = None
    format: str
    folder: str | None = None
    state: str = "active"
    seen_at: str
    started_at: str | None = None
    last_turn_at: str
    ended_at: str | None = None
    turns: int = 0
    last_seq: int = 0
    model: str | None = None
    gauge: str = "{}"
    counted_tokens: int | None = None
    counted_seq: int = 0
    slept_at: str | None = None
    facts_look: str | None = None  # state of the session at the last check for facts
    branch: str | None = None  # branch of the repository, from the last record that names one


class TranscriptRow(_Table, table=True):
    """Store the cursor of a transcript: a file that an agent appends to, and how far it has been read."""

    __table_args__ = (
        Index("transcript_path", "agent_id", "path"),
        Index("transcript_inode", "device", "inode"),
        Index("transcript_by_session", "session_id"),
    )

    id: int | None = Field(default=None, primary_key=True)
    agent_id: str = Field(foreign_key="agent.id")
    session_id: str | None = Field(default=None, foreign_key="session.id")
    path: str
    format: str | None = None
    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    head_length: int = 0
    head_sha256: str = ""
    offset: int = 0
    marker_sha256: str = ""
    prefix_sha256: str = ""
    generation: int = 1
    fate: str = "new"
    fate_at: str
    skipped: str = "{}"
    note: str | None = None
    records: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    version: str | None = None  # version of the program that last wrote it


# The record id as in the transcript. Searches use `record_key`, which is shorter.
_RECORD_ID = "CASE typeof(record_key) WHEN 'blob' THEN 'sha256:' || lower(hex(record_key)) ELSE record_key END"


class TurnRow(_Table, table=True):
    """Store one message or tool exchange."""

    __table_args__ = (
        Index("turn_identity", "agent_id", "record_key", "part", unique=True),
        Index("turn_in_session", "session_id", "seq", unique=True),
        Index("turn_withheld", "withheld", "session_id", sqlite_where=text("withheld IS NOT NULL")),
    )

    id: int | None = Field(default=None, primary_key=True)
    agent_id: str
    session_id: str = Field(foreign_key="session.id")
    seq: int
    transcript_id: int
    generation: int
    record_key: str  # the id of its record; for an id that is a hash, the bytes of the hash
    part: int
    role: str
    origin: str
    kind: str
    text: str
    at: str | None = None
    tokens: int | None = None
    usage: int | None = None
    sidechain: bool = False
    tool_call_id: str | None = None
    tool_name: str | None = None
    first_byte: int
    last_byte: int
    sha256: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    # Why the text is missing:
    # - unscanned: it could not be scanned for secrets yet
    # - lost: it was gone before it could be scanned
    # - skipped: the policy drops texts with secrets
    # - forgotten: all of it, or a part, was forgotten
    # - damaged: it does not match its checksum; it may be restored in its place
    # - expired: it is older than the retention time
    # - retracted: the agent left its branch of the conversation, or replaced it; it may come back
    # Texts of old sessions are compressed: see `vault`.
    withheld: str | None = None
    text_crc: int | None = None  # of the plain text, see `packing`; None in rows of older versions
    record_id: str | None = Field(default=None, sa_column=Column(String, Computed(_RECORD_ID, persisted=False)))


class VaultSizeRow(_Table, table=True):
    """Store sums over the texts of all turns. Triggers update them, so that `status` need not read the texts."""

    id: int = Field(default=1, primary_key=True)
    turns: int  # number of turns with a text
    bytes: int  # bytes of these texts in their stored form
    compressed: int


class ForgottenTextRow(_Table, table=True):
    """Store the key of a forgotten text: of a turn, or of a line of a NOW file.

    The key may be stored before the turn itself.
    """

    __table_args__ = (Index("forgotten_by_agent", "agent_id"),)

    session_id: str = Field(primary_key=True)
    text_key: str = Field(primary_key=True)
    agent_id: str
    times: int


class BadSpanRow(_Table, table=True):
    """Store where bytes of a transcript are not a readable record. Such bytes are never sent to a model."""

    __table_args__ = (Index("bad_span_identity", "transcript_id", "sha256", "first_byte", unique=True),)

    id: int | None = Field(default=None, primary_key=True)
    transcript_id: int
    first_byte: int
    last_byte: int
    sha256: str
    reason: str
    seen_at: str


class WatermarkRow(_Table, table=True):
    """Store how far a consumer (a kind of job) has processed a session: all turns up to and including `seq`."""

    __table_args__ = (Index("watermark_by_run", "run_id", sqlite_where=text("run_id IS NOT NULL")),)

    session_id: str = Field(primary_key=True, foreign_key="session.id")
    consumer: str = Field(primary_key=True)
    seq: int
    moved_at: str
    run_id: str | None = None


class SessionSummaryRow(_Table, table=True):
    """Store the running summary of a session and its compressed message list (JSON)."""

    session_id: str = Field(primary_key=True, foreign_key="session.id")
    summary: str
    messages: str
    updated_at: str
    run_id: str | None = None
    earlier: str | None = None  # earlier contents of this row as JSON, newest first; see `database/summaries`
    told: str | None = None  # the run whose summary is in the files of the last sessions


def _column(hint: Any, given: Any = ...) -> tuple[Any, Any]:
    """Return (type, default) of the column for a field of this type. Tuples are stored as JSON, enums as their text."""
    if get_origin(hint) is tuple:
        return str, given
    if NoneType in get_args(hint):
        return _column(get_args(hint)[0])[0] | None, None
    return (str if issubclass(hint, StrEnum) else hint), given


def _table_of(value: type, name: str, **special: Any) -> Any:
    """Create the table for a value class, so that the fields are declared only in that class.

    `special` has the columns that need more than a type, by name.
    """
    columns: dict[str, Any] = {one: _column(hint, special.get(one, ...)) for one, hint in get_type_hints(value).items()}
    return create_model(name, __base__=SQLModel, __module__=__name__, __cls_kwargs__={"table": True}, **columns)


# The memories of the ledger, live and ended.
MemoryRow = _table_of(
    ledger.Memory,
    "Memory",
    id=Field(primary_key=True),
    agent_id=Field(foreign_key="agent.id"),
    # Migrations added these two columns to existing rows, so they need a server default.
    successors=Field(sa_column_kwargs={"server_default": "[]"}),
    salt=Field(sa_column_kwargs={"server_default": ""}),
)
Index("memory_by_agent", MemoryRow.agent_id, MemoryRow.kind, MemoryRow.deleted_at)
Index(
    "memory_by_text",
    MemoryRow.agent_id,
    MemoryRow.kind,
    MemoryRow.content_hash,
    sqlite_where=MemoryRow.deleted_at.is_(None),
)

# The changes of objects, each linked to the preceding one. Triggers refuse every update and delete.
AuditRow = _table_of(AuditEntry, "Audit", id=Field(default=None, primary_key=True))
# No two entries follow the same entry, so a chain cannot fork.
Index("audit_order", AuditRow.agent_id, AuditRow.prev_hash, unique=True)
Index("audit_by_agent", AuditRow.agent_id)
Index("audit_by_memory", AuditRow.agent_id, AuditRow.memory_id, AuditRow.id)
Index("audit_by_run", AuditRow.run_id, sqlite_where=AuditRow.run_id.is_not(None))

# Time-limited permissions of persons to see an agent's memory. A migration added two columns to existing rows.
_ADDED = {name: Field(sa_column_kwargs={"server_default": ""}) for name in ("person", "scope")}
GrantRow = _table_of(
    grants.Grant, "Grant", id=Field(primary_key=True), agent_id=Field(foreign_key="agent.id"), **_ADDED
)
Index("grant_by_agent", GrantRow.agent_id, GrantRow.state)


class ContentRow(_Table, table=True):
    """Store the text of each audited state by its digest. An erased state loses its text and keeps its row."""

    sha256: str = Field(primary_key=True)
    text: str | None = None


class CoreFileRow(_Table, table=True):
    """Store the hash of `MEMORY.md` when the ledger and the file last agreed."""

    agent_id: str = Field(primary_key=True, foreign_key="agent.id")
    sha256: str
    agreed_at: str


class ProfileSectionRow(_Table, table=True):
    """Store one section of an agent's profile of its user."""

    agent_id: str = Field(primary_key=True, foreign_key="agent.id")
    section: str = Field(primary_key=True)
    text: str
    updated_at: str
    sources: str  # JSON, like the sources of a memory
    run_id: str | None = None
    salt: str  # so that nobody can guess an erased state from its digest


class JobRunRow(_Table, table=True):
    """Store one execution of a job."""

    __table_args__ = (
        Index("job_run_waiting", "state", "scheduled_for"),
        Index("job_run_recent", "agent_id", "kind", "finished_at"),
        # Only one run with the same key (kind and turns) can be open …
        Index(
            "job_run_key",
            "key",
            unique=True,
            sqlite_where=text("state IN ('queued', 'running', 'interrupted', 'blocked')"),
        ),
        # … and only one run can use a scheduled time.
        Index("job_run_slot", "slot", unique=True, sqlite_where=text("slot IS NOT NULL")),
        Index("job_run_one_per_agent", "agent_id", unique=True, sqlite_where=text("state = 'running'")),
    )

    id: str = Field(primary_key=True)
    kind: str
    agent_id: str = Field(foreign_key="agent.id")
    session_id: str | None = None
    actor: str
    trigger: str
    state: str
    key: str | None = None
    slot: str | None = None
    options: str = "{}"
    created_at: str
    scheduled_for: str
    started_at: str | None = None
    heartbeat_at: str | None = None
    finished_at: str | None = None
    attempt: int = 0
    fence: int = 0
    owner: str | None = None
    cancel_requested: bool = False
    input_hash: str | None = None
    why: str | None = None
    error: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    receipt: str = "{}"
    reply: str | None = None
    refused: str | None = None
    claims: str | None = None  # the outcome of each claim of the reply (JSON)


class ReaderRow(_Table, table=True):
    """Store a model's result on the calibration set of the second reader."""

    endpoint: str = Field(primary_key=True)
    model: str = Field(primary_key=True)
    version: str = Field(primary_key=True)  # digest of the prompt and the calibration set
    true_right: int
    true_asked: int
    false_right: int
    false_asked: int
    tested_at: str


class VerdictRow(_Table, table=True):
    """Store a second reader's verdict by a hash of question and reader. The row has no content."""

    agent_id: str = Field(primary_key=True, foreign_key="agent.id")
    key: str = Field(primary_key=True)
    verdict: str
    read_at: str


class SpendRow(_Table, table=True):
    """Store one call of a model: its reservation, and its real cost once that is known."""

    __table_args__ = (Index("spend_by_day", "day"), Index("spend_by_run", "run_id"))

    id: int | None = Field(default=None, primary_key=True)
    run_id: str
    agent_id: str
    endpoint: str
    day: str
    at: str
    reserved: int
    tokens_in: int | None = None
    tokens_out: int | None = None
    how: str = "reserved"


class IntentRow(_Table, table=True):
    """Store the file changes that a run has planned. The row is on disk before the first file changes."""

    run_id: str = Field(primary_key=True)
    agent_id: str
    made_at: str
    plan: str


AlarmRow = _table_of(alarms.Alarm, "Alarm", id=Field(default=None, primary_key=True))
_open = AlarmRow.cleared_at.is_(None)
Index("alarm_open", AlarmRow.kind, AlarmRow.agent_id, AlarmRow.subject, unique=True, sqlite_where=_open)


class JobModeRow(_Table, table=True):
    """Store a kind of job that an agent may run only in a more careful mode than the configuration allows."""

    agent_id: str = Field(primary_key=True, foreign_key="agent.id")
    kind: str = Field(primary_key=True)
    mode: str
    since: str
    why: str


class ChangedRow(_Table, table=True):
    """Store the key of a changed row that belongs in the journal beside the database, see `changes`."""

    __tablename__ = "changed_row"

    seq: int | None = Field(default=None, primary_key=True)
    name: str
    pk: str  # primary key as JSON


class DaemonRow(_Table, table=True):
    """Store the daemon that runs or ran last. Its lock shows whether it still runs."""

    id: int = Field(default=1, primary_key=True)
    pid: int
    owner: str
    version: str
    started_at: str
    watching: str
    watching_note: str | None = None


def schema_sql() -> str:
    """Return the SQL that creates all tables, indexes and triggers: the content of `schema.sql`."""
    dialect = sqlite.dialect()
    parts: list[CreateTable | CreateIndex] = []
    for table in SQLModel.metadata.sorted_tables:
        parts.append(CreateTable(table))
        parts += (CreateIndex(one) for one in sorted(table.indexes, key=lambda one: str(one.name)))
    texts = (str(part.compile(dialect=dialect)).strip().replace("\t", "  ").replace(" \n", "\n") for part in parts)
    # SQLAlchemy cannot declare triggers. Two of them keep the audit as it is, because one that can be changed proves
    # nothing; the others maintain the one row of `vault_size`.
    own = (pkgutil.get_data(__name__, "triggers.sql") or b"").decode()
    return "\n".join([*(f"{statement};\n" for statement in (*texts, *changes.TRIGGERS)), own])


if __name__ == "__main__":
    sys.stdout.write(schema_sql())
