"""Write the log: one JSON object per line in `state_dir/log/memoryd.jsonl`, and readable lines on standard error.

structlog is the logger, over the standard library's logging, so that the records of all libraries pass through the same
processors and handlers. Where standard error is systemd's journal, each line begins with its priority, `<3>` to `<7>`,
see sd-daemon(3); a value cannot forge one.

The log is content-blind by rule: a value in it is an id, a count, a duration, a name or a path, never what was said or
remembered. The processors hold the rule as far as they can: an object that is none of these is logged as its type, text
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
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import orjson

from memoryd.errors import MemorydError
from memoryd.files import log_line
from memoryd.files.folders import make_private_dir
from memoryd.files.open_folder import Descriptor, FolderEntry
from memoryd.files.regular import as_state_error

if TYPE_CHECKING:  # not for a process that never configures the log
    from structlog.stdlib import BoundLogger

Log: TypeAlias = "BoundLogger"

LEVELS: Mapping[str, int] = MappingProxyType(
    {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
)
_PRIORITIES: Mapping[str, int] = MappingProxyType({"debug": 7, "info": 6, "warning": 4, "error": 3})  # of syslog(3)

_MAX_TEXT = 1024
_MAX_ITEMS = 64
_FRAMES = 12
# C0, DEL, C1 (terminals obey them), the separators JSON lets through, zero-width, direction, and lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_TRUSTED_LIBRARIES = ("apscheduler", "watchdog")  # their messages hold job ids and paths only
_FIRST = ("at", "level", "logger", "event")


# --- values ----------------------------------------------------------------------------------------------------------


def clean(text: str) -> str:
    """Return text that stays on its line and that no terminal obeys, cut at 1,024 characters."""
    cut = text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", cut)


def _mask_value(value: object) -> object:
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
    """Blind a value of the second level; below it only sizes are logged."""
    return f"<{len(value)} values>" if isinstance(value, list | tuple | set | frozenset | dict) else _mask_value(value)


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def render_record(record: Mapping[str, Any]) -> str:
    """Return a record as one line for people."""
    head = f"{record.get('at') or '-'} {record.get('level') or '-'!s:<7} {record.get('logger') or '-'}"
    rest = " ".join(f"{key}={_show_value(value)}" for key, value in record.items() if key not in _FIRST)
    return _UNSAFE.sub("?", f"{head}: {record.get('event', '')} {rest}".rstrip())


def _show_value(value: object) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return orjson.dumps(text).decode() if isinstance(value, str) and re.search(r'[\s="]', text) else text


# --- the file --------------------------------------------------------------------------------------------------------


class _LogFile(logging.Handler):
    """Append records to the file; count those that could not be written."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        super().__init__()
        self._path = path
        self._max_bytes = max_bytes
        self._lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Exception):  # a record that cannot be formatted is a library's fault, never the caller's
            self._write(f"{self.format(_without_content(record))}\n".encode())

    def _write(self, line: bytes) -> None:
        try:
            if self._lost:
                head = {"at": _utc(datetime.now(UTC)), "level": "error", "logger": __name__}
                note = {**head, "event": "log lines were lost", "count": self._lost}
                log_line.append_line(self._path, orjson.dumps(note) + b"\n", self._max_bytes)
                self._lost = 0
            log_line.append_line(self._path, line, self._max_bytes)
        except OSError:
            self._lost += 1


class _Terminal(logging.StreamHandler[Any]):
    """Show readable lines, each with its priority where the stream is systemd's journal."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._is_journal = is_journal(stream, os.environ)

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(_without_content(record))
        return f"<{_PRIORITIES[_level(record)]}>{line}" if self._is_journal else line

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the standard library's name
        """Ignore the error: a closed terminal must not stop the daemon."""


@contextmanager
def at_rest(entry: FolderEntry) -> Iterator[None]:
    """Block other writers of a log while its file is exchanged, so that their lines go to the new file."""
    with as_state_error("cannot be opened", entry):
        file = entry.open(os.O_RDONLY | os.O_NONBLOCK)
    with Descriptor(file):
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def name_rotated(path: Path, number: int) -> Path:
    """Return the name of the file that was the log `number` rotations ago."""
    return path.with_name(f"{path.name}.{number}")


def log_path(state_dir: Path) -> Path:
    """Return the path of the log of a state folder."""
    return state_dir / "log" / "memoryd.jsonl"


# --- processors ------------------------------------------------------------------------------------------------------


def _level(record: logging.LogRecord) -> str:
    return max((name for name in LEVELS if LEVELS[name] <= record.levelno), key=LEVELS.__getitem__, default="debug")


def _without_content(record: logging.LogRecord) -> logging.LogRecord:
    """Return the record of an unknown library without its arguments and stack, which may hold content."""
    if record.name.partition(".")[0] in {"memoryd", *_TRUSTED_LIBRARIES}:
        return record
    blind = copy(record)
    blind.args, blind.stack_info = (), None
    if not isinstance(record.msg, str):  # an exception, say, whose text quotes its input
        blind.msg = f"<{type(record.msg).__name__}>"
    return blind


def _is_ours_or_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or record.name.partition(".")[0] == "memoryd"


def _finish(_logger: object, _method: str, values: Any) -> dict[str, Any]:
    """Order, blind and date one record."""
    record: logging.LogRecord = values.pop("_record")
    del values["_from_structlog"]
    fault = _fault(values.pop("exc_info", None))
    blind = {clean(key): _mask_value(value) for key, value in (values | fault).items()}
    at = _utc(datetime.fromtimestamp(record.created, UTC))
    return dict.fromkeys(_FIRST, "") | blind | {"at": at, "level": _level(record), "logger": clean(record.name)}


def _json(_logger: object, _method: str, values: Any) -> str:
    return orjson.dumps(values).decode()


def _fault(given: Any) -> dict[str, Any]:
    """Describe an exception without its message, unless the message is ours or the operating system's."""
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


# --- what others use -------------------------------------------------------------------------------------------------

logging.getLogger("memoryd").addHandler(logging.NullHandler())  # nothing is shown before `configure`


class _Silent:
    """Log nothing, for a process that never configures the log and so need not import structlog."""

    def bind(self, **_values: object) -> _Silent:
        return self

    def _ignore(self, _event: str, **_values: object) -> None:
        pass

    debug = info = warning = error = _ignore


def get_logger(name: str = "memoryd", **values: object) -> Log:
    """Return structlog's logger of this name, whose records all carry these values.

    Use `debug` for details that help to find a fault, `info` for normal events, `warning` if memoryd continues by
    itself, `error` if a person must act. `exc_info=True` adds the exception being handled.
    """
    if "structlog" not in sys.modules:
        return _Silent()  # type: ignore[return-value] # it has the methods that are used
    import structlog

    if not structlog.is_configured():
        processors = [structlog.stdlib.filter_by_level, structlog.contextvars.merge_contextvars]
        structlog.configure(
            processors=[*processors, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
            wrapper_class=structlog.stdlib.BoundLogger,
            logger_factory=structlog.stdlib.LoggerFactory(),
        )
    found: Log = structlog.stdlib.get_logger(name, **values)
    return found


@contextmanager
def bind_values(**values: object) -> Iterator[None]:
    """Add these values, such as `agent` and `run`, to all records of this thread meanwhile."""
    if "structlog" not in sys.modules:
        yield
        return
    from structlog.contextvars import bound_contextvars

    with bound_contextvars(**values):
        yield


def configure(
    state_dir: Path,
    *,
    level: str = "info",
    text: bool = False,
    terminal: TextIO | None = None,
    max_bytes: int = log_line.MAX_BYTES,
) -> ExitStack:
    """Open the log of a state folder, for this process and the libraries in it.

    `terminal` gets readable lines when it is a terminal or the journal; with `text` always. The end of the returned
    context closes the log and restores the standard library's logging.
    """
    from structlog.contextvars import merge_contextvars
    from structlog.stdlib import ProcessorFormatter

    path = log_path(state_dir)
    with suppress(MemorydError):  # a failure here counts as lost lines below
        make_private_dir(state_dir)
        make_private_dir(path.parent)
    handlers: list[tuple[logging.Handler, Any]] = [(_LogFile(path, max_bytes), _json)]
    if terminal is not None and (text or is_journal(terminal, os.environ) or terminal.isatty()):
        handlers.append((_Terminal(terminal), lambda _logger, _method, values: render_record(values)))
    root, own = logging.getLogger(), logging.getLogger("memoryd")
    opened = ExitStack()
    opened.callback(root.setLevel, root.level)
    opened.callback(own.setLevel, own.level)
    root.setLevel(logging.WARNING)  # of the libraries; one with a level of its own is limited to this level as well
    own.setLevel(LEVELS[level])
    for handler, render in handlers:
        handler.addFilter(_is_ours_or_warning)
        handler.setFormatter(ProcessorFormatter(processors=[_finish, render], foreign_pre_chain=[merge_contextvars]))
        root.addHandler(handler)
        opened.callback(handler.close)
        opened.callback(root.removeHandler, handler)
    return opened


def is_journal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return True if a stream is systemd's journal: `JOURNAL_STREAM` names its device and inode, systemd.exec(5)."""
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
    """Call back with the message of each record that a library logs at `level` or above, at any level of the log.

    Some libraries tell a fault in no other way: watchdog only logs that the kernel's queue overflowed. Returns what
    ends it.
    """
    listener = _Listener(LEVELS[level], callback)
    library = logging.getLogger(name)
    library.addHandler(listener)
    return lambda: library.removeHandler(listener)
