"""The log: one JSON object per line in `state_dir/log/memoryd.jsonl`, and readable lines on standard error.

Where standard error is systemd's journal each of those lines begins with its priority, `<3>` to `<7>`, see
sd-daemon(3); nobody else's words can stand there.

Content-blind by rule: a value in the log is an id, a count, a duration, a name or a path, never what was said or
remembered. The rule is held from here as far as it can be: an object that is none of these is logged as its type, text
is cut at 1,024 characters, an exception is logged by its type and the places it came through (the message of another
library's exception often quotes its input), and a message of an unknown library is logged without its arguments.

One record is one line, whatever a file name holds: control, line-break, invisible and direction characters are escaped
in the value itself, so a reader that decodes the JSON and prints it is safe as well. Times are UTC with `Z`.

    log/memoryd.jsonl      the newest records, up to 10 MB
    log/memoryd.jsonl.1    the ones before … .4 the oldest

Nothing here raises into a caller: a log that cannot be written counts what it lost and says so in its next line.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import stat
import sys
import threading
import traceback
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import orjson

from memoryd.errors import MemorydError
from memoryd.files.folders import make_private_dir
from memoryd.files.open_folder import Descriptor
from memoryd.files.regular import as_state_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TextIO

    from memoryd.files.open_folder import Entry

LEVELS: Mapping[str, int] = MappingProxyType(
    {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
)
_PRIORITIES: Mapping[str, int] = MappingProxyType({"debug": 7, "info": 6, "warning": 4, "error": 3})  # of syslog(3)
KEPT_FILES = 5

_MAX_BYTES = 10_000_000
_MAX_TEXT = 1024
_MAX_ITEMS = 64
_FRAMES = 12
# C0, DEL, C1 (terminals obey them), the separators JSON lets through, zero-width, direction, and lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_TRUSTED_LIBRARIES = ("apscheduler", "watchdog")  # their messages hold job ids and paths only
_FIRST = ("at", "level", "logger", "event")


# --- values ----------------------------------------------------------------------------------------------------------


def clean(text: str) -> str:
    """Text that stays on its line and means the same to a terminal as to a person; cut at 1,024 characters."""
    cut = text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", cut)


def _blind(value: object) -> object:
    match value:
        case None | bool() | float():
            return value
        case int():
            return value if -(1 << 63) <= value < 1 << 63 else clean(str(value)[:40])
        case str() | PurePath():
            return clean(str(value))
        case datetime():
            return _utc(value)
        case timedelta():
            return value.total_seconds()
        case list() | tuple() | set() | frozenset():
            return [_blind_part(part) for part in list(value)[:_MAX_ITEMS]]
        case dict():
            return {clean(str(key)): _blind_part(part) for key, part in list(value.items())[:_MAX_ITEMS]}
        case _:
            return f"<{type(value).__name__}>"


def _blind_part(value: object) -> object:
    """Below the second level only sizes are told."""
    return f"<{len(value)} values>" if isinstance(value, list | tuple | set | frozenset | dict) else _blind(value)


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def readable(record: Mapping[str, Any]) -> str:
    """A record as one line for people."""
    head = f"{record.get('at') or '-'} {record.get('level') or '-'!s:<7} {record.get('logger') or '-'}"
    rest = " ".join(f"{key}={_shown(value)}" for key, value in record.items() if key not in _FIRST)
    return _UNSAFE.sub("?", f"{head}: {record.get('event', '')} {rest}".rstrip())


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return orjson.dumps(text).decode() if isinstance(value, str) and re.search(r'[\s="]', text) else text


# --- the file --------------------------------------------------------------------------------------------------------


class _RotatingFile:
    """Appends whole lines; counts those it could not write."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._lock = threading.RLock()
        self._file: int | None = None
        self.lost = 0

    def write(self, line: bytes) -> bool:
        """Whether the line is in the file now. Never raises."""
        with self._lock:
            try:
                self._append(line)
            except OSError:
                self.lost += 1
                self.close()
                return False
            self.lost = 0
            return True

    def close(self) -> None:
        with self._lock:
            file, self._file = self._file, None
            if file is not None:
                with suppress(OSError):
                    os.close(file)

    def _append(self, line: bytes) -> None:
        if not self._is_current():
            self.close()
        size = os.fstat(self._open()).st_size
        if size and size + len(line) > self._max_bytes:
            self.close()
            with suppress(OSError):  # a folder that cannot be renamed in: a long log is better than none
                self._rotate()
        file = self._held()
        try:
            written = os.write(file, line)
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
        if written < len(line):
            raise OSError(None, "the disk is full")

    def _held(self) -> int:
        """The file that has the name now; it keeps it until the lock on it is let go of, see `at_rest`."""
        while True:
            file = self._open()
            fcntl.flock(file, fcntl.LOCK_SH)
            if self._is_current():
                return file
            self.close()

    def _is_current(self) -> bool:
        """False when someone moved or removed the file: a rotation by another tool, or a person."""
        try:
            return self._file is not None and os.path.samestat(os.fstat(self._file), self._path.stat())
        except OSError:
            return False

    def _open(self) -> int:
        if self._file is None:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            file = os.open(self._path, flags, 0o600)
            self._file = file
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(None, "not a regular file")
            os.fchmod(file, 0o600)
            if status.st_size and os.pread(file, 1, status.st_size - 1) != b"\n":
                os.write(file, b"\n")  # a line was torn by a crash or a full disk: the next one starts clean
        return self._file

    def _rotate(self) -> None:
        for number in range(KEPT_FILES - 1, 1, -1):
            with suppress(FileNotFoundError):
                rotated(self._path, number - 1).replace(rotated(self._path, number))
        self._path.replace(rotated(self._path, 1))


@contextmanager
def at_rest(entry: Entry) -> Iterator[None]:
    """Hold up who appends to a log, while it is exchanged: their lines go to the file that has its name then."""
    with as_state_error("cannot be opened", entry):
        file = entry.open(os.O_RDONLY | os.O_NONBLOCK)
    with Descriptor(file):
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def rotated(path: Path, number: int) -> Path:
    """The name of the file that was the log `number` rotations ago."""
    return path.with_name(f"{path.name}.{number}")


def log_path(state_dir: Path) -> Path:
    """Where the log of a state folder is."""
    return state_dir / "log" / "memoryd.jsonl"


# --- the stream: what structlog and the libraries' own logging both end in -------------------------------------------


class _Sink:
    """Where a finished record goes; structlog calls the method of its level."""

    def __init__(self, file: _RotatingFile, terminal: TextIO | None, *, journal: bool) -> None:
        self._file = file
        self._terminal = terminal
        self._journal = journal

    def write(self, record: dict[str, Any]) -> None:
        if lost := self._file.lost:
            note = {"at": record["at"], "level": "error", "logger": __name__, "event": "log lines were lost"}
            if not self._file.write(_line({**note, "count": lost})):
                self._file.lost = lost
        self._file.write(_line(record))
        self._show(record)

    debug = info = warning = error = critical = write

    def _show(self, record: dict[str, Any]) -> None:
        if self._terminal is not None:
            with suppress(OSError, ValueError):  # a closed terminal must not stop the daemon
                priority = f"<{_PRIORITIES[record['level']]}>" if self._journal else ""
                self._terminal.write(f"{priority}{readable(record)}\n")
                self._terminal.flush()


def _line(record: dict[str, Any]) -> bytes:
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def _finish(_logger: object, method: str, values: Any) -> tuple[Any, ...]:
    """The last processor: orders, blinds and dates one record."""
    fault = _fault(values.pop("exc_info", None))
    record = dict.fromkeys(_FIRST, "") | {clean(key): _blind(value) for key, value in (values | fault).items()}
    level = "error" if method == "critical" else method
    return (record | {"at": _utc(datetime.now(UTC)), "level": level},), {}


def _fault(given: Any) -> dict[str, Any]:
    """An exception without its message, unless the message is ours or the operating system's."""
    error = given[1] if isinstance(given, tuple) else sys.exception() if given is True else given
    if not isinstance(error, BaseException):
        return {}
    fault: dict[str, Any] = {"error": type(error).__name__, "frames": _frames(error)}
    if isinstance(error, MemorydError):
        fault["reason"] = str(error)
    elif isinstance(error, OSError):
        fault["reason"] = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    cause = error.__cause__ or error.__context__
    return {**fault, "cause": type(cause).__name__} if cause else fault


def _frames(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    return [f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno} {frame.name}" for frame in frames]


class _Bridge(logging.Handler):
    """The standard library's logging, and so every library's, into the same stream."""

    def __init__(self, bound: Any, level: int) -> None:
        super().__init__()
        self._bound = bound
        self._own_level = level

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Exception):  # a record that cannot be formatted is a library's fault, never the caller's
            library = record.name.partition(".")[0]
            if record.levelno < (self._own_level if library == "memoryd" else logging.WARNING):
                return
            told = library == "memoryd" or library in _TRUSTED_LIBRARIES
            event = record.getMessage() if told else str(record.msg)
            level = max((known for known in LEVELS.values() if known <= record.levelno), default=logging.DEBUG)
            self._bound.bind(logger=record.name, exc_info=record.exc_info).log(level, event)


# --- what others use -------------------------------------------------------------------------------------------------

_bound: Any = None  # structlog's bound logger, once configured


@dataclass(frozen=True, slots=True)
class Log:
    """Logs under one name. Free before `configure`: nothing is imported, nothing is written."""

    name: str
    values: Mapping[str, object] = field(default_factory=dict)

    def bind(self, **values: object) -> Log:
        """A logger whose records all carry these values, such as `agent` and `run`."""
        return replace(self, values={**self.values, **values})

    def debug(self, event: str, **values: object) -> None:
        """For whoever looks for a fault."""
        self._log(logging.DEBUG, event, values)

    def info(self, event: str, **values: object) -> None:
        """What happened, as it should."""
        self._log(logging.INFO, event, values)

    def warning(self, event: str, **values: object) -> None:
        """Something is not as it should be, and memoryd goes on by itself."""
        self._log(logging.WARNING, event, values)

    def error(self, event: str, **values: object) -> None:
        """A person has to act. `exc_info=True` adds the exception being handled."""
        self._log(logging.ERROR, event, values)

    def _log(self, level: int, event: str, values: Mapping[str, object]) -> None:
        if _bound is not None:
            _bound.bind(**{**self.values, **values, "logger": self.name}).log(level, event)


def configure(
    state_dir: Path,
    *,
    level: str = "info",
    text: bool = False,
    terminal: TextIO | None = None,
    max_bytes: int = _MAX_BYTES,
) -> Callable[[], None]:
    """Open the log of a state folder, for this process and the libraries in it.

    `terminal` gets readable lines when it is a terminal or the journal; with `text` always. Returns what closes the log
    and puts the standard library's logging back as it was.
    """
    global _bound  # noqa: PLW0603 - one process has one log
    import structlog

    path = log_path(state_dir)
    with suppress(MemorydError):  # what cannot be made here is counted as lost lines below
        make_private_dir(state_dir)
        make_private_dir(path.parent)
    file = _RotatingFile(path, max_bytes)
    journal = terminal is not None and is_journal(terminal, os.environ)
    shown = terminal if terminal is not None and (text or journal or terminal.isatty()) else None
    wrapper = structlog.make_filtering_bound_logger(LEVELS[level])
    _bound = structlog.wrap_logger(
        _Sink(file, shown, journal=journal), processors=[_finish], wrapper_class=wrapper
    ).bind()
    restore = _bridge(_Bridge(_bound, LEVELS[level]), LEVELS[level])

    def close() -> None:
        global _bound  # noqa: PLW0603 - the counterpart of the one above
        _bound = None
        restore()
        file.close()

    return close


def _bridge(handler: logging.Handler, level: int) -> Callable[[], None]:
    """Route the standard library's logging into `handler`; libraries below a warning never get that far."""
    root, own = logging.getLogger(), logging.getLogger("memoryd")
    before = root.level, own.level
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    own.setLevel(level)

    def restore() -> None:
        root.removeHandler(handler)
        root.setLevel(before[0])
        own.setLevel(before[1])

    return restore


def is_journal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether a stream goes to systemd's journal: `JOURNAL_STREAM` names its device and inode, see systemd.exec(5)."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


class _Listener(logging.Handler):
    def __init__(self, level: int, callback: Callable[[str], None]) -> None:
        super().__init__(level)
        self._callback = callback

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Exception):  # it runs on the library's own thread, which must outlive a fault of ours
            self._callback(record.getMessage())


def on_record(name: str, level: str, callback: Callable[[str], None]) -> Callable[[], None]:
    """Call back with the message of each record a library logs, at `level` or above, whatever the log's own level is.

    Some libraries tell a fault in no other way: watchdog only logs that the kernel's queue overflowed. Returns what
    ends it.
    """
    listener = _Listener(LEVELS[level], callback)
    library = logging.getLogger(name)
    library.addHandler(listener)
    return lambda: library.removeHandler(listener)
