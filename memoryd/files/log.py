"""Write the log: one JSON object a line in `state_dir/log/memoryd.jsonl`, and readable lines on standard error.

structlog is the logger, on top of the standard library's logging, so that records of all libraries pass through the
same processors and handlers. If standard error is systemd's journal, each line begins with its priority, `<3>` to
`<7>`, see sd-daemon(3). A value cannot forge a priority.

The log has no content: a value is an id, a count, a duration, a name or a path, but never what somebody said or
remembered. The processors enforce this as far as possible. An object of another type is logged as the name of its type.
Text is cut after 1,024 characters. An exception is logged by its type and its places in the code, because its message
may quote input. A message of an unknown library is logged without its arguments.

A record is always one line. Control characters, line breaks, invisible characters and direction marks in values are
escaped, so that a reader may decode the JSON and print it. Times are UTC with `Z`.

    log/memoryd.jsonl            the newest records, up to 10 MB
    log/memoryd.jsonl.1 … .4     earlier records; .4 has the oldest

No function here raises an error because of a failed write. Lost lines are counted, and the next line reports them.
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

if TYPE_CHECKING:  # a process that does not configure the log need not import structlog
    from structlog.stdlib import BoundLogger

Log: TypeAlias = "BoundLogger"

LEVELS: Mapping[str, int] = MappingProxyType(
    {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
)
_PRIORITIES: Mapping[str, int] = MappingProxyType({"debug": 7, "info": 6, "warning": 4, "error": 3})  # see syslog(3)

_MAX_TEXT = 1024
_MAX_ITEMS = 64
_FRAMES = 12
# C0, DEL and C1 (terminals obey them), separators that JSON allows, zero-width, direction marks, lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_TRUSTED_LIBRARIES = ("apscheduler", "watchdog")  # their messages have only job ids and paths
_FIRST = ("at", "level", "logger", "event")


# --- values ----------------------------------------------------------------------------------------------------------


def clean(text: str) -> str:
    """Return text cut after 1,024 characters, with escapes for characters that break lines or that terminals obey."""
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
    """Return the loggable form of a value inside a list or dictionary.

    Of nested containers, only the size is logged.
    """
    return f"<{len(value)} values>" if isinstance(value, list | tuple | set | frozenset | dict) else _mask_value(value)


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def render_record(record: Mapping[str, Any]) -> str:
    """Return a record as one readable line for people."""
    head = f"{record.get('at') or '-'} {record.get('level') or '-'!s:<7} {record.get('logger') or '-'}"
    rest = " ".join(f"{key}={_show_value(value)}" for key, value in record.items() if key not in _FIRST)
    return _UNSAFE.sub("?", f"{head}: {record.get('event', '')} {rest}".rstrip())


def _show_value(value: object) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return orjson.dumps(text).decode() if isinstance(value, str) and re.search(r'[\s="]', text) else text


# --- the file --------------------------------------------------------------------------------------------------------


class _LogFile(logging.Handler):
    """Append records to the log file, and count those that could not be written."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Exception):  # an unformattable record is a fault of a library, and its caller must not fail
            self._write(f"{self.format(_without_content(record))}\n".encode())

    def _write(self, line: bytes) -> None:
        try:
            if self._lost:
                head = {"at": _utc(datetime.now(UTC)), "level": "error", "logger": __name__}
                note = {**head, "event": "log lines were lost", "count": self._lost}
                log_line.append_line(self._path, orjson.dumps(note) + b"\n")
                self._lost = 0
            log_line.append_line(self._path, line)
        except OSError:
            self._lost += 1


class _Terminal(logging.StreamHandler[Any]):
    """Show readable lines; if the stream is systemd's journal, each begins with its priority."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._is_journal = is_journal(stream, os.environ)

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(_without_content(record))
        return f"<{_PRIORITIES[_level(record)]}>{line}" if self._is_journal else line

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the standard library's name
        """Ignore errors, because a closed terminal must not stop the daemon."""


@contextmanager
def at_rest(entry: FolderEntry) -> Iterator[None]:
    """Block other writers of a log while its file is replaced, so that their lines go to the new file."""
    with as_state_error("cannot be opened", entry):
        file = entry.open(os.O_RDONLY | os.O_NONBLOCK)
    with Descriptor(file):
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def name_rotated(path: Path, number: int) -> Path:
    """Return the path of the log file from `number` rotations ago."""
    return path.with_name(f"{path.name}.{number}")


def log_path(state_dir: Path) -> Path:
    """Return the path of the log in a state folder."""
    return state_dir / "log" / "memoryd.jsonl"


# --- processors ------------------------------------------------------------------------------------------------------


def _level(record: logging.LogRecord) -> str:
    return max((name for name in LEVELS if LEVELS[name] <= record.levelno), key=LEVELS.__getitem__, default="debug")


def _without_content(record: logging.LogRecord) -> logging.LogRecord:
    """Return the record of an unknown library without arguments and stack, because these may have content."""
    if record.name.partition(".")[0] in {"memoryd", *_TRUSTED_LIBRARIES}:
        return record
    blind = copy(record)
    blind.args, blind.stack_info = (), None
    if not isinstance(record.msg, str):  # for example an exception, whose text may quote input
        blind.msg = f"<{type(record.msg).__name__}>"
    return blind


def _is_ours_or_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or record.name.partition(".")[0] == "memoryd"


def _finish(_logger: object, _method: str, values: Any) -> dict[str, Any]:
    """Return a record in its final form: without content, with time and level, in a fixed order of keys."""
    record: logging.LogRecord = values.pop("_record")
    del values["_from_structlog"]
    fault = _fault(values.pop("exc_info", None))
    blind = {clean(key): _mask_value(value) for key, value in (values | fault).items()}
    at = _utc(datetime.fromtimestamp(record.created, UTC))
    return dict.fromkeys(_FIRST, "") | blind | {"at": at, "level": _level(record), "logger": clean(record.name)}


def _json(_logger: object, _method: str, values: Any) -> str:
    return orjson.dumps(values).decode()


def _fault(given: Any) -> dict[str, Any]:
    """Describe an exception. Its message is included only if memoryd or the operating system wrote it."""
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

logging.getLogger("memoryd").addHandler(logging.NullHandler())  # without `configure`, nothing is shown


class _Silent:
    """Log nothing, in a process that does not configure the log and so need not import structlog."""

    def bind(self, **_values: object) -> _Silent:
        return self

    def _ignore(self, _event: str, **_values: object) -> None:
        pass

    debug = info = warning = error = _ignore


def get_logger(name: str = "memoryd", **values: object) -> Log:
    """Return a logger with this name. All its records have these values.

    Levels: `debug` helps to find a fault; `info` is a normal event; `warning` means that memoryd continues by itself;
    `error` means that a person must act. `exc_info=True` adds the exception that is being handled.
    """
    if "structlog" not in sys.modules:
        return _Silent()  # type: ignore[return-value]  # it has all methods that are used
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
    """Add values, such as `agent` and `run`, to all records of this thread inside the `with` block."""
    if "structlog" not in sys.modules:
        yield
        return
    from structlog.contextvars import bound_contextvars

    with bound_contextvars(**values):
        yield


def configure(state_dir: Path, *, level: str = "info", text: bool = False, terminal: TextIO | None = None) -> ExitStack:
    """Open the log of a state folder, for memoryd and the libraries in this process.

    Args:
        state_dir: the state folder.
        level: lowest level of memoryd's records.
        text: write readable lines to `terminal` in any case.
        terminal: gets readable lines if it is a terminal or systemd's journal.

    Returns:
        A context whose end closes the log and restores the standard library's logging.
    """
    # structlog needs rich only for tracebacks in color, and rich takes 4 MB. None makes its import fail.
    is_barred = sys.modules.setdefault("rich", None) is None  # type: ignore[arg-type]
    try:
        from structlog.contextvars import merge_contextvars
        from structlog.stdlib import ProcessorFormatter
    finally:
        if is_barred:
            del sys.modules["rich"]

    path = log_path(state_dir)
    with suppress(MemorydError):  # a failure here leads to lost lines, which are counted
        make_private_dir(state_dir)
        make_private_dir(path.parent)
    handlers: list[tuple[logging.Handler, Any]] = [(_LogFile(path), _json)]
    if terminal is not None and (text or is_journal(terminal, os.environ) or terminal.isatty()):
        handlers.append((_Terminal(terminal), lambda _logger, _method, values: render_record(values)))
    root, own = logging.getLogger(), logging.getLogger("memoryd")
    opened = ExitStack()
    opened.callback(root.setLevel, root.level)
    opened.callback(own.setLevel, own.level)
    root.setLevel(logging.WARNING)  # for libraries; the filter below covers those with their own level
    own.setLevel(LEVELS[level])
    for handler, render in handlers:
        handler.addFilter(_is_ours_or_warning)
        handler.setFormatter(ProcessorFormatter(processors=[_finish, render], foreign_pre_chain=[merge_contextvars]))
        root.addHandler(handler)
        opened.callback(handler.close)
        opened.callback(root.removeHandler, handler)
    return opened


def is_journal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return True if a stream is systemd's journal. `JOURNAL_STREAM` has its device and inode, see systemd.exec(5)."""
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
        with suppress(Exception):  # the library's thread must survive an error here
            self._callback(record.getMessage())


def on_record(name: str, level: str, callback: Callable[[str], None]) -> Callable[[], None]:
    """Call `callback` with the message of each record that a library logs at `level` or above.

    Some libraries report a fault only in this way: watchdog logs that the kernel's queue has overflowed. The result is
    a function that ends the calls.
    """
    listener = _Listener(LEVELS[level], callback)
    library = logging.getLogger(name)
    library.addHandler(listener)
    return lambda: library.removeHandler(listener)
