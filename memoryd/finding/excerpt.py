"""Read excerpts of memory in its present state: lines of a file, turns of a session, or a fact.

Only memory can be read: `MEMORY.md`, and Markdown in `memory/` and `.continuum/memory/`. Other files of a workspace may
be source code, keys or settings. Links are not followed: folders are opened one by one, and a file must be regular and
have no second name. Files named `*.private`, old versions in `backup/`, and proposals are never read.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from memoryd.config import Agent
from memoryd.database import reads
from memoryd.errors import ConfigError, NotFoundError, RefusedError
from memoryd.files import regular
from memoryd.finding.indexing import CORE_FILE
from memoryd.ledger.memory import hash_of
from memoryd.recall.ranking import FACT, SESSION
from memoryd.scrub.hidden import mask_hidden
from memoryd.text.private import is_private
from memoryd.tiers import core, proposal
from memoryd.tiers.lines import lines_of

Redact = Callable[[Sequence[str]], list[str]]  # returns texts with their secrets redacted
LONGEST_PATH = 1024
_HINT = "name a memory file: MEMORY.md, memory/2026-03-04.md or another that memory search names, or an id of one"
_MEMORY = re.compile(r"(core|fact)_[0-9a-f]+")
# A place in the form in which hits show it.
_PLACE = re.compile(r"((?:session:|fact:|(?!session:|fact:))[^:]+):(\d{1,9})(?:-(\d{1,9}))?")
_FOLDERS = (PurePosixPath("memory"), PurePosixPath(".continuum/memory"))
# Folders that are never read: old versions and open proposals.
_UNTOLD = frozenset({"backup", PurePosixPath(proposal.FOLDER).name})


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Hold a part of a text with the numbers of its lines."""

    path: str  # relative to the workspace, or `session:ID` or `fact:ID`
    first_line: int  # from 1; in a session, the number of the turn
    last_line: int  # one less than `first_line` if there are no lines
    total_lines: int
    text: str


@dataclass(frozen=True, slots=True)
class LineRange:
    """Select `count` lines from the line `first` on; a count of None selects all."""

    first: int = 1
    count: int | None = None

    def check(self) -> None:
        """Check the numbers.

        Raises:
            ConfigError: a number is below 1.
        """
        if self.first < 1 or (self.count is not None and self.count < 1):
            raise ConfigError("lines are counted from 1, and at least one is wanted", f"{self.first}, {self.count}")

    def get_last(self, total: int) -> int:
        """Return the number of the last selected line of a text with `total` lines."""
        return total if self.count is None else min(total, self.first + self.count - 1)


def get(agent: Agent, path: str, span: LineRange, *, database: Path, redact: Redact) -> Excerpt:
    """Return a part of an agent's memory; the caller must check whether it may be shown.

    The path is relative to the workspace, or is `session:ID`, `fact:ID` or the id of a memory. For a core memory, its
    own lines in `MEMORY.md` are read. A path may have lines at its end, as in a hit: `memory/2026-03-04.md:3-7`.

    Raises:
        RefusedError: the path is not a memory file, or is private.
        NotFoundError: there is no such file or id, or it ends before the first selected line.
        StateError: it is not a regular file with one name, or cannot be read.
        ConfigError: the selection is invalid.
    """
    span.check()
    if span == LineRange() and (place := _PLACE.fullmatch(path)):
        first, last = int(place[2]), int(place[3] or place[2])
        return get(agent, place[1], LineRange(first, last - first + 1), database=database, redact=redact)
    kind, _, name = path.partition(":")
    if kind == SESSION and name:
        return _of_session(agent.id, name, span, database)
    memory = _MEMORY.fullmatch(path)
    if (kind == FACT and name) or (memory and memory[1] == FACT):
        return _of_fact(agent.id, path, name or path, database)
    if memory:
        return _of_core(agent, path, span, database, redact)
    relative = strip_workspace(path)
    data = read_shown(agent, relative)
    if data is None:
        raise NotFoundError("there is no such file", path, _HINT)
    lines = lines_of(data)
    _require(path, span, len(lines))
    return _lines(relative, lines, span.first, span.get_last(len(lines)), redact)


def _lines(path: str, lines: Sequence[bytes], first: int, last: int, redact: Redact) -> Excerpt:
    text = b"".join(lines[first - 1 : last]).decode(errors="replace")
    return Excerpt(path, first, last, len(lines), redact([text])[0] if text else "")


def read_shown(agent: Agent, relative: str) -> bytes | None:
    """Return a memory file with its hidden parts blanked; None if there is no file.

    Raises:
        RefusedError: the file is marked private.
    """
    data = regular.read_in(agent.workspace, relative)
    if data is not None and is_private(relative, data):
        raise _refuse_private(relative)
    return None if data is None else mask_hidden(data)


def _refuse_private(path: str) -> RefusedError:
    return RefusedError("the file is marked private, so it is not read", path, _HINT)


def strip_workspace(path: str) -> str:
    """Return the path in normal form, relative to the workspace.

    Raises:
        RefusedError: the path is not that of a memory file, or the file is private.
    """
    if not path or "\0" in path or len(path) > LONGEST_PATH:
        raise RefusedError("this is not a path", path[:80].replace("\0", "\ufffd"), _HINT)
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise RefusedError("the path leads out of the workspace", path, _HINT)
    if is_private(path):
        raise _refuse_private(path)
    if not _is_memory(pure):
        raise RefusedError("this is not a memory file", path, _HINT)
    return str(pure)


def _is_memory(pure: PurePosixPath) -> bool:
    if str(pure) == CORE_FILE:
        return True
    below = next((pure.relative_to(folder).parts for folder in _FOLDERS if pure.is_relative_to(folder)), ())
    is_shown = bool(below) and below[0].casefold() not in _UNTOLD and not any(part.startswith(".") for part in below)
    return is_shown and pure.suffix == ".md"


def _require(path: str, span: LineRange, total: int) -> None:
    if span.first > max(1, total):
        raise NotFoundError(f"it ends before line {span.first}", path, f"it has {total} lines")


def _of_session(agent_id: str, session_id: str, span: LineRange, database: Path) -> Excerpt:
    with reads.open_reader(database) as reader:
        row = reads.find_session(reader, session_id)
        if row["agent_id"] != agent_id:
            raise NotFoundError(f"there is no session {session_id!r}", hint="memoryd session list shows them")
        total = int(row["last_seq"])
        _require(f"{SESSION}:{session_id}", span, total)
        last = span.get_last(total)
        turns = reads.read_turns(reader, row["id"], after=span.first - 1, upto=last)
    # Further lines of a turn are indented, so that its text cannot imitate the next turn.
    texts = (turn["text"].replace("\n", "\n    ") for turn in turns)
    text = "".join(f"[{turn['seq']}] {turn['role']}: {said}\n" for turn, said in zip(turns, texts, strict=True))
    return Excerpt(f"{SESSION}:{row['id']}", span.first, last, total, text)


def _of_fact(agent_id: str, path: str, fact_id: str, database: Path) -> Excerpt:
    found = reads.ask(database, reads.find_memory, agent_id, fact_id)
    if found["kind"] != FACT or found["deleted_at"] is not None:
        raise NotFoundError("there is no such fact", path, "memoryd facts list shows them")
    return Excerpt(f"{FACT}:{found['id']}", 1, 1, 1, str(found["content"]))


def _of_core(agent: Agent, memory_id: str, span: LineRange, database: Path, redact: Redact) -> Excerpt:
    """Return the present lines of a memory in `MEMORY.md`; `span` counts from the memory's first line."""
    found = reads.ask(database, reads.find_memory, agent.id, memory_id)
    data = regular.read_in(agent.workspace, CORE_FILE) or b""
    place = None if found["deleted_at"] is not None else _place(data, found["content_hash"], found["heading"] or "")
    if place is None:
        history = f"memoryd core history {found['id']} shows what became of it"
        raise NotFoundError("this memory is not in MEMORY.md now", memory_id, history)
    first, count = place
    _require(memory_id, span, count)
    return _lines(
        CORE_FILE, lines_of(mask_hidden(data)), first + span.first - 1, first + span.get_last(count) - 1, redact
    )


def _place(data: bytes, said: str, heading: str) -> tuple[int, int] | None:
    """Return (first line, number of lines) of the bullet whose text has the hash `said`; None if there is none.

    If several bullets have it, one below the heading `heading` comes first.
    """
    file = core.parse(data)
    known = iter(file.bullets)
    line, found = 1, []
    for piece in file.pieces:
        if piece.kind is core.PieceKind.BULLET:
            bullet = next(known)
            if hash_of(core.unescape(bullet.text)) == said:
                found.append((bullet.heading != heading, line, len(lines_of(piece.raw.rstrip()))))
        line += piece.raw.count(b"\n")
    return min(found)[1:] if found else None
