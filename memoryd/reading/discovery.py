"""Find the agent programs of this machine and their projects, before memoryd reads any content.

It reads file names, sizes and times, and the first records of each transcript, which name folder and start of the
session. It stores nothing.
"""

import contextlib
from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeGuard

from memoryd.agent_programs import AIDER_HISTORY, PROGRAMS, AgentProgram
from memoryd.config_values import split_pattern
from memoryd.errors import StateError
from memoryd.files import sources
from memoryd.reading.foreign_database import ForeignDatabase
from memoryd.transcripts.fields import read_time
from memoryd.transcripts.format import Identity, LineFormat, Unsupported, first_of
from memoryd.transcripts.lines import clean, cut
from memoryd.transcripts.registry import detect

_HEADS = (1 << 16, 1 << 20)  # bytes that are tried; Codex has long instructions in its first record
AIDER = "aider"


class SessionStart(NamedTuple):
    """Hold start, end, folder and file of one session."""

    path: str
    folder: str | None  # as recorded; None if the first records do not have it
    size: int  # bytes; an estimate if one file holds several sessions
    first: datetime
    last: datetime


class FoundProject(NamedTuple):
    """Hold the sessions of one program in one project, summed up."""

    program: str
    folder: Path | None  # None: no session names a folder
    sessions: int
    size: int  # bytes
    first: datetime
    last: datetime
    paths: tuple[str, ...]


def find_projects(
    home: Path, environ: Mapping[str, str], programs: Iterable[str] = (*PROGRAMS, AIDER), seen: set[str] | None = None
) -> list[FoundProject]:
    """Return the projects of these programs, the last used first.

    Aider keeps its history in the project itself. So only folders where another program worked, and the current folder,
    are searched for it.

    Args:
        home: the home folder.
        environ: variables that can move a program's folder.
        programs: names of the programs.
        seen: transcripts to skip; those that name their folder are added to it.
    """
    found: dict[tuple[str, Path | None], list[SessionStart]] = {}
    seen = set() if seen is None else seen
    for name in PROGRAMS.keys() & programs:
        for session in find_sessions(PROGRAMS[name], home, environ, seen):
            if session.folder is not None:
                seen.add(session.path)
            folder = None if session.folder is None else find_project_folder(Path(session.folder), home)
            found.setdefault((name, folder), []).append(session)
    folders = {folder for _, folder in found if folder is not None} | {find_project_folder(Path.cwd(), home)}
    for folder in folders if AIDER in programs else ():
        with contextlib.suppress(OSError):
            status = (folder / AIDER_HISTORY).stat()
            last = datetime.fromtimestamp(status.st_mtime, UTC)
            found[AIDER, folder] = [SessionStart(str(folder / AIDER_HISTORY), str(folder), status.st_size, last, last)]
    summed = [_sum_up(program, folder, sessions) for (program, folder), sessions in found.items()]
    return sorted(summed, key=lambda one: one.last, reverse=True)


def find_project_folder(folder: Path, home: Path) -> Path:
    """Return the git repository that contains a folder; without one, return the folder itself.

    A repository that contains the home folder does not count. A second work tree or a submodule inside a repository
    belongs to that repository.
    """
    folder, home = folder.resolve(), home.resolve()
    trees = []
    for above in (folder, *folder.parents):
        if home.is_relative_to(above):
            break
        with contextlib.suppress(OSError):
            if (above / ".git").is_dir():
                return above
            if (above / ".git").is_file():
                trees.append(above)
    return trees[0] if trees else folder


def find_sessions(
    program: AgentProgram, home: Path, environ: Mapping[str, str], seen: Container[str] = ()
) -> Iterator[SessionStart]:
    """Yield the sessions of a program, without those of subagents.

    Files in `seen`, and files that cannot be opened, are skipped.
    """
    for pattern in program.list_patterns(program.find_root(home, environ)):
        root, below = split_pattern(pattern, Path("/"))
        for path in sources.walk(sources.make_pattern(below, root)).paths:
            with contextlib.suppress(OSError):
                if program.rows is not None and not path.endswith(".jsonl"):
                    yield from _read_database(program.rows, Path(path))
                elif path not in seen:
                    yield from _read_start(program, path)


def _sum_up(program: str, folder: Path | None, sessions: list[SessionStart]) -> FoundProject:
    size, paths = sum(one.size for one in sessions), tuple(dict.fromkeys(one.path for one in sessions))
    first, last = min(one.first for one in sessions), max(one.last for one in sessions)
    return FoundProject(program, folder, len(sessions), size, first, last, paths)


def _read_start(program: AgentProgram, path: str) -> Iterator[SessionStart]:
    file = Path(path)
    status = file.stat()
    last = datetime.fromtimestamp(status.st_mtime, UTC)
    begun = None
    for length in _HEADS:
        begun = _read_head(file, length)
        if begun is None:
            return
        if begun.cwd is not None or status.st_size <= length:
            break
    folder = begun.cwd if begun is not None else None
    if folder is None and program.root_file is not None:
        with contextlib.suppress(OSError, ValueError):
            folder = (file.parent / program.root_file).read_text("utf-8").strip()
    folder = folder if _is_folder(folder) else None
    if folder is not None or status.st_size:
        first = last if begun is None or begun.started_at is None else datetime.fromisoformat(begun.started_at)
        yield SessionStart(path, folder, status.st_size, min(first, last), last)


def _read_head(file: Path, length: int) -> Identity | None:
    """Return the session that the first bytes of a transcript name; None for a subagent and for a side file."""
    with file.open("rb") as opened:
        data = opened.read(length)
    whole = data if len(data) == length else data + b"\n"
    values = [record.value for record in cut(whole, 0, last=False).records]
    reader = detect(values, PurePosixPath(file))
    if isinstance(reader, LineFormat):
        identity = reader.identify(values, PurePosixPath(file))
        return identity if identity is None or not identity.sidechain else None
    if isinstance(reader, Unsupported) and reader.name not in PROGRAMS:
        return None
    return Identity("", cwd=first_of(_read_cwd, values))


def _read_cwd(value: Mapping[str, object]) -> str | None:
    cwd = value.get("cwd")
    return cwd if isinstance(cwd, str) and cwd else None


def _read_database(sql: str, path: Path) -> Iterator[SessionStart]:
    status = path.stat()
    try:
        with ForeignDatabase(path) as database:
            rows = database.rows(sql)
            if not database.is_sound():
                return
    except StateError:  # an unknown version, or damaged
        return
    written = datetime.fromtimestamp(status.st_mtime, UTC)
    for folder, *moments in rows:
        first, last = (datetime.fromisoformat(at) if (at := read_time(one)) else written for one in moments)
        size = status.st_size // len(rows)
        yield SessionStart(str(path), folder if _is_folder(folder) else None, size, min(first, last), last)


def _is_folder(told: object) -> TypeGuard[str]:
    """Return True if another program's value is an absolute path without unusual characters."""
    return isinstance(told, str) and told.startswith("/") and told == clean(told)
