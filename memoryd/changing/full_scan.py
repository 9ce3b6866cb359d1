"""Scan everything that memoryd has stored, to remove something from it.

The scan covers rows, files of workspaces and their backups, the log, the journal, and databases that a restore has put
aside. Each portion of rows is one transaction, and each file is one exchange under the agent's lock. So the scan may be
stopped at any point and repeated; a repeated scan finds nothing. If somebody edits a file meanwhile, it is read again
and never overwritten. Transcripts and NOW files belong to the agents: they are not changed, except transcripts that
memoryd recorded itself.
"""

import codecs
import json
import re
import stat
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import Connection, Engine

from memoryd.changing.core_import import CORE_FILE
from memoryd.changing.written_blocks import record_left
from memoryd.clock import text_of, utc_now
from memoryd.database import audit, sqlite, texts
from memoryd.database.texts import ColumnKind
from memoryd.errors import MemorydError, StateError
from memoryd.files import durable, late_edits, locked_folder, regular
from memoryd.files.journal import Journal
from memoryd.files.log import Log, at_rest
from memoryd.files.open_folder import FolderEntry, Leftover, OpenFolder, follow_folder
from memoryd.files.workspace import WorkspaceFolders, lock_files, open_workspace
from memoryd.reading import recording
from memoryd.reading.scrubbing import strings_of, with_strings
from memoryd.text.private import is_private
from memoryd.tiers import archive

Hold = Callable[[], AbstractContextManager[object]]

AGAIN = 20  # the number of attempts at a file or row that others keep changing
# Splits a person's file into parts that are scanned one by one. No secret spans two parts. In a message, some marks
# hide all text after them. In a file, they may hide only the rest of their part.
PARTS = re.compile(r"^(?=#{1,6} |[-*+] )", re.MULTILINE)
_LINES = re.compile(r"(?<=\n)")
_PROSE = frozenset({ColumnKind.TEXT, ColumnKind.JSON})  # words of people and models; the other kinds are names


@dataclass(slots=True, kw_only=True)
class FullScan(ABC):
    """Run one scan over everything; a subclass decides what is removed."""

    ACTOR: ClassVar[str]  # the actor in the audit
    engine: Engine
    state_dir: Path
    workspaces: dict[str, Path]  # by agent id; the rows and files of these agents are scanned
    everybody: bool  # also scan rows of agents that are not configured
    journal: Journal
    go_on: Callable[[], None]  # raises an error if the run must stop
    stuck: Callable[[], list[str]]  # completes intents; returns those that cannot be completed
    log: Log
    counts: Counter[str] = field(default_factory=Counter)
    left: list[str] = field(default_factory=list)  # places that could not be scanned, for a person to check

    @abstractmethod
    def clean_texts(self, given: Sequence[str], *, in_file: bool = False) -> dict[str, str]:
        """Return the new text for each text that changes; a text without an entry stays unchanged.

        `in_file` is True if the texts are parts of a person's file.
        """

    def names(self, given: Iterable[str]) -> dict[str, str | None]:
        """Return the new form of each id or name; None for one that could not be scanned."""
        return {name: name for name in given}

    @abstractmethod
    def database(self, engine: Engine) -> None:
        """Scan a database: the present one, or one that was put aside."""

    def was_written(self, connection: Connection, table: str, row: Mapping[str, Any]) -> None:
        """React to the change of a row, inside its transaction; by default, audit a changed memory.

        `row` has the old values.
        """
        if table == "memory" and texts.list_columns(connection, "audit"):
            audit.record_redaction(connection, row["rowid"], at=text_of(utc_now()), actor=self.ACTOR)

    def were_written(self, table: str, columns: AbstractSet[str]) -> None:  # noqa: B027 - not all remember texts
        """React to the changes of a table after they are stored; `columns` are the changed columns, possibly none."""

    @abstractmethod
    def clean_messages(self, path: Path, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the new messages of a session that memoryd recorded itself."""

    def of_file(self, name: str, data: bytes, parting: re.Pattern[str] = PARTS) -> bytes:  # noqa: ARG002 - for others
        """Return the new bytes of a file; `parting` splits it into parts that are scanned one by one."""
        return self.of_bytes(data, parting)

    def is_spared(self, path: Path) -> bool:  # noqa: ARG002 - for those who spare some
        """Return True if a file must not be scanned."""
        return False

    def scan_all(self) -> None:
        """Run the whole scan, and leave the result in `counts` and `left`."""
        stuck = self.stuck()  # comes first, because an intent may still write its texts to a file
        self.database(self.engine)
        self._journal(self.journal)
        for agent_id, workspace in self.workspaces.items():
            if workspace.is_dir():
                self._workspace(workspace)
            else:
                self.log.warning("workspace not scanned: it is gone", agent=agent_id)
                self.left.append(str(workspace))
            for path in recording.list_paths(self.state_dir, agent_id):
                self.go_on()
                self.counts["files"] += recording.change(path, partial(self.clean_messages, path))
        with suppress(FileNotFoundError), follow_folder(self.state_dir / "log") as logs:
            for name in logs.names():
                if fnmatchcase(name, "memoryd.jsonl*"):
                    self._file(logs / name, _LINES, partial(at_rest, logs / name))
        for folder in sorted(self.state_dir.glob("memoryd.replaced-*")):
            self._put_aside(folder)
        self.left += [str(path) for path in sorted(self.state_dir.glob("memoryd.db.damaged-*"))]
        # These folders belong to a dry run, backup or restore that is running, so their copies of the database cannot
        # be scanned.
        self.left += map(str, locked_folder.remove_left(self.state_dir))
        self.left += sorted({*stuck, *self.stuck()})

    # --- rows -----------------------------------------------------------------------------------------------------

    def rows_of(self, engine: Engine, tables: Sequence[str]) -> None:
        """Scan the rows of these tables, for the chosen agents."""
        for table in tables:
            for agent_id in [None] if self.everybody else self.workspaces:
                for rows in texts.read_portions(engine, table, agent_id):
                    self.go_on()
                    self._portion(engine, table, rows)

    def _portion(self, engine: Engine, table: str, rows: Sequence[dict[str, Any]]) -> None:
        for _ in range(AGAIN):
            changes = self._changes(table, rows)
            moved = self._write(engine, table, changes) if changes else []
            if not moved:
                return
            rows = texts.read_rows(engine, table, moved)
        raise StateError("its rows change faster than they can be read", table, "try again later")

    def _changes(self, table: str, rows: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the rows that change, each with its new values by column."""
        kinds = texts.COLUMNS[table]
        looked_at = [
            (row, column, kinds[column]) for row in rows for column, value in row.items() if value and column in kinds
        ]
        found = [
            (kind, text) for row, column, kind in looked_at for text in strings_of(_decode_value(kind, row[column]))
        ]
        kept = self.clean_texts(list(dict.fromkeys(text for kind, text in found if text and kind in _PROSE)))
        kept_names = self.names(
            {name for kind, text in found if kind not in _PROSE for name in text.split("\n") if name}
        )
        self.counts["unscanned"] += sum(new is None for new in kept_names.values())

        def clean_text(text: str) -> str:
            return kept.get(text, text)

        def clean_names(text: str) -> str:
            return "\n".join(kept_names.get(name) or name for name in text.split("\n"))

        changes: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        for row, column, kind in looked_at:
            after = _change_value(kind, row[column], clean_text if kind in _PROSE else clean_names)
            if after != row[column]:
                changes.setdefault(row["rowid"], (row, {}))[1][column] = after
        return list(changes.values())

    def _write(self, engine: Engine, table: str, changes: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> list[int]:
        """Write new values; return the rowids of rows that others have changed meanwhile."""
        moved = []
        columns: set[str] = set()
        now = text_of(utc_now())
        with sqlite.begin_write(engine) as connection:
            for row, new in changes:
                if not texts.change(connection, table, row, new, now):
                    moved.append(row["rowid"])
                    continue
                self.was_written(connection, table, row)
                columns.update(new)
                self.counts["rows"] += 1
                self.counts["texts"] += len(new)
        self.were_written(table, columns)
        return moved

    def _journal(self, journal: Journal) -> None:
        entries = journal.entries()
        kept = self.names(str(entry.get("record_id", "")) for entry in entries)
        renamed = {old: new for old, new in kept.items() if new is not None and new != old}
        if renamed:
            journal.rewrite(
                lambda entries: [
                    one | {"record_id": renamed.get(one.get("record_id", ""), one.get("record_id"))} for one in entries
                ]
            )
            self.counts["files"] += 1

    def _put_aside(self, folder: Path) -> None:
        """Scan a state that a restore has replaced: its database and journals."""
        path = folder / "memoryd.db"
        if path.exists():
            engine = sqlite.connect(path)
            try:
                self.database(engine)
                self.left += [f"{path}: intent of run {run_id}" for run_id in texts.list_intents(engine)]
                texts.rewrite_file(engine)
            except MemorydError:
                raise
            except Exception as error:  # noqa: BLE001 - the database may have been put aside because it is damaged
                self.log.warning("old state not scanned", error_type=type(error).__name__)
                self.left.append(str(path))
            finally:
                engine.dispose()
        for journal in folder.glob("*.jsonl"):
            self._journal(type(self.journal)(journal, sealed=True))

    # --- files ----------------------------------------------------------------------------------------------------

    def _workspace(self, workspace: Path) -> None:
        with open_workspace(workspace) as place:
            # The lock is held for one exchange at a time, so that a long scan does not block commits.
            hold = partial(lock_files, place)
            own = place.continuum
            self._folder(place.workspace, CORE_FILE, hold, deep=False)
            if self._let_go_of_late(place, hold):
                self._folder(place.workspace, CORE_FILE, hold, deep=False)
            for pattern in ("MEMORY*.md", "RECENT.md", "consolidation.log"):
                self._folder(own, pattern, hold, deep=False)
            deep = (place.workspace, "memory", "*.md"), (own, archive.MOVED, "MEMORY*.md"), (own, "backup", "*")
            for folder, name, pattern in deep:
                with suppress(FileNotFoundError), folder.folder(name) as below:
                    self._folder(below, pattern, hold, deep=True)

    def _let_go_of_late(self, place: WorkspaceFolders, hold: Hold) -> bool:
        """Delete kept old versions of a file that contain the text; return True if there were any.

        The file itself must be cleaned first, so that later versions are clean.
        """
        found = False
        for one in late_edits.list_kept(place.continuum):
            data = regular.read(one.entry)
            if data is not None and self.of_file(one.name, data) != data:
                with hold():
                    late_edits.settle(one, place.workspace / one.name, is_over=True)
                found = True
        return found

    def _folder(self, folder: OpenFolder, pattern: str, hold: Hold, *, deep: bool) -> None:
        for left in folder.leftovers():
            if _is_meant(left.target, pattern):
                with hold():
                    self._leftover(folder, left)
        for name in folder.names():
            entry = folder / name
            try:
                mode = entry.lstat().st_mode
            except FileNotFoundError:
                continue
            if deep and stat.S_ISDIR(mode):
                with folder.folder(name) as below:
                    self._folder(below, pattern, hold, deep=True)
            elif stat.S_ISREG(mode) and _is_meant(name, pattern) and not is_private(name):
                if self.is_spared(entry.path):
                    continue
                self.go_on()
                self._file(entry, PARTS, hold)

    def _leftover(self, folder: OpenFolder, left: Leftover) -> None:
        """Clean up the temporary files of a stopped rewrite.

        They have old bytes of a file that is cleaned now, or an edit of somebody.
        """
        entry = folder / left.target
        then, now = regular.read(left.entry), regular.read(entry)
        if then is None or now is None:
            return
        before = regular.compute_digest(then) if self.of_file(left.target, then) == now else regular.compute_digest(now)
        durable.settle(entry, before, regular.compute_digest(now))

    def _file(self, entry: FolderEntry, parting: re.Pattern[str], hold: Hold = nullcontext) -> None:
        for _ in range(AGAIN):
            try:
                old = regular.read(entry)
            except StateError as error:
                self.log.warning("file not scanned", why=str(error))
                self.left.append(str(entry))
                return
            if old is None:
                return
            if _encoding(old) is None:
                self.left.append(str(entry))
                return
            new = self.of_file(entry.name, old, parting)
            if new == old:
                return
            for agent_id, workspace in self.workspaces.items():
                if entry.path.parent == workspace / "memory":
                    path, clean = f"memory/{entry.name}", partial(self.of_file, entry.name, parting=parting)
                    sqlite.write(self.engine, record_left, agent_id, path, old, new, clean)
            with suppress(durable.MovedError), hold():
                durable.replace(entry, new, regular.compute_digest(old))
                self.counts["files"] += 1
                return
        raise StateError("the file changes faster than it can be read", str(entry), "try again later")

    def of_bytes(self, data: bytes, parting: re.Pattern[str]) -> bytes:
        """Return the cleaned bytes of a text file, in its own encoding; other files stay unchanged."""
        encoding = _encoding(data)
        if encoding is None:
            return data
        parts = parting.split(data.decode(encoding))
        kept = self.clean_texts(list(dict.fromkeys(part for part in parts if part.strip())), in_file=True)
        return "".join(kept.get(part, part) for part in parts).encode(encoding)


def _encoding(data: bytes) -> str | None:
    """Return an encoding that writes unchanged text back byte for byte; None if the bytes are not text."""
    encodings = (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"), (b"", "utf-8")
    mark, encoding = next((mark, encoding) for mark, encoding in encodings if data.startswith(mark))
    if not mark and b"\0" in data:
        return None
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return None if mark else "latin-1"  # in Latin-1, each byte is a character
    return encoding


def _is_meant(name: str, pattern: str) -> bool:
    """Return True if the name matches the pattern, or is a conflict copy of such a file."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.conflict-*")


def _decode_value(kind: ColumnKind, value: str) -> Any:
    if kind not in {ColumnKind.TEXT, ColumnKind.NAME}:
        with suppress(ValueError):
            return json.loads(value)
    return value


def _change_value(kind: ColumnKind, value: str, change: Callable[[str], str]) -> str:
    plain = _decode_value(kind, value)
    after = with_strings(plain, change)
    if after == plain:
        return value
    return after if isinstance(after, str) and isinstance(plain, str) else json.dumps(after, ensure_ascii=False)
