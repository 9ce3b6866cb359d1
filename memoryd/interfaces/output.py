"""Print the output of commands: one JSON object for programs, plain lines for people."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any

from memoryd.clock import moment_of

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from memoryd.errors import MemorydError

_UNITS = (86400, "d"), (3600, "h"), (60, "min")
_RECENT_SECONDS = 7 * 86400
_UNBOUND = 100_000  # columns of a pipe, whose reader needs unbroken lines
# Control characters. A file name or a transcript must not move the cursor or colour the text.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class Output:
    """Print the output of one command, for programs (`json`) or for people."""

    json: bool = False
    quiet: bool = False

    def result(
        self, data: Any, shown: str | Callable[[], Sequence[Any]] = "", error: MemorydError | None = None
    ) -> None:
        """Print a command's result: `data` as JSON for programs, `shown` for people.

        `shown` is a text, or a function that returns lines and tables. An `error` is raised after the output; for
        programs it carries the data.
        """
        if not self.json:
            text = make_visible(shown) if isinstance(shown, str) else render(shown())
            print(text, end="\n" if text else "")
        elif error is None:
            print(dump_json({"ok": True, "data": data}))
        if error is not None:
            error.data = data if isinstance(data, Mapping) else {"rows": data}
            raise error

    def say(self, text: str) -> None:
        """Print a line of progress for people; nothing with `--json` or `--quiet`."""
        if not (self.json or self.quiet):
            print(make_visible(text), flush=True)

    def print_note(self, text: str) -> None:
        """Print a line on standard error for people, so that a program that reads the result does not get it."""
        if not (self.json or self.quiet):
            print(make_visible(one_line(text)), file=sys.stderr)

    @property
    def is_watched(self) -> bool:
        """Return True if a person at a terminal may see progress."""
        return not (self.json or self.quiet) and sys.stderr.isatty()

    def busy(self, doing: str) -> AbstractContextManager[object]:
        """Return a context in which a terminal shows that a long command is at work."""
        if not self.is_watched:
            return nullcontext()
        from rich.console import Console

        return Console(stderr=True).status(f"{doing} …")

    def fail(self, error: MemorydError) -> None:
        """Print an error: on standard output for programs, on standard error for people."""
        if self.json:
            message = f"{error.where}: {error.what}" if error.where else error.what
            body = {"code": error.code, "message": message, "hint": error.hint}
            told = {"data": dict(error.data)} if error.data else {}
            with suppress(OSError):  # if standard output itself has failed, the line on standard error remains
                print(dump_json({"ok": False, "error": body, **told}), flush=True)
                return
        print(make_visible(f"memoryd: {error}"), file=sys.stderr)


def dump_json(value: object) -> str:
    """Return a value as JSON on one line. A lone surrogate is escaped, because UTF-8 cannot hold it."""
    return _SURROGATE.sub(lambda one: f"\\u{ord(one[0]):04x}", json.dumps(value, ensure_ascii=False))


def make_visible(text: str) -> str:
    """Return the text with U+FFFD for each character that could control a terminal."""
    return _UNSAFE.sub("\ufffd", text)


def one_line(value: object) -> str:
    """Return a value as one line, so that foreign text cannot start a line of its own."""
    return " ".join(str(value).splitlines())


def render(parts: Sequence[Any]) -> str:
    """Return lines and tables as text. On a terminal, it is coloured (unless NO_COLOR is set) and fits the width."""
    from rich.console import Console  # slow to import, so only here

    is_terminal = sys.stdout.isatty()
    console = Console(
        color_system="auto" if is_terminal and not os.environ.get("NO_COLOR") else None,
        width=None if is_terminal else _UNBOUND,
        highlight=False,
        markup=False,
        emoji=False,
    )
    with console.capture() as captured:
        for part in parts:
            console.print(make_visible(part) if isinstance(part, str) else part)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def style(value: object, how: str = "", *, cut: bool = False) -> Text:
    """Return a value as one line of text in a style of rich, such as `bold red`.

    With `cut`, an ellipsis ends a long line.
    """
    from rich.text import Text

    return Text(make_visible(one_line(value)), how, no_wrap=cut, overflow="ellipsis" if cut else "fold")


def render_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return rows as aligned columns with a heading. This is faster than rich for many rows."""
    cells = [[column.replace("_", " ") for column in columns]]
    cells += [["" if row.get(column) is None else one_line(row[column]) for column in columns] for row in rows]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )


def make_list(lines: Sequence[tuple[str | Text, ...]]) -> Table:
    """Return a table of labels and texts, in which a long text stays in its column."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    for line in lines:
        table.add_row(*(style(value) if isinstance(value, str) else value for value in line))
    return table


def tell_time(at: str | None, zone: tzinfo, now: datetime | None = None) -> str:
    """Return a time of the database for people: relative within a week, else local; `never` for None."""
    if at is None:
        return "never"
    moment = moment_of(at)
    seconds = round(((now or datetime.now(UTC)) - moment).total_seconds())
    for size, unit in _UNITS:
        if size <= abs(seconds) < _RECENT_SECONDS:
            told = f"{abs(seconds) // size} {unit}"
            return f"{told} ago" if seconds > 0 else f"in {told}"
    return "just now" if abs(seconds) < _RECENT_SECONDS else f"{moment.astimezone(zone):%Y-%m-%d %H:%M}"


def render_run(row: Mapping[str, Any]) -> str:
    """Return a run as one line: id, kind, state, reason or error, and the files that it wrote."""
    files = ", ".join(item["path"] for item in row["receipt"].get("files", ()))
    is_same = row["kind"] == "dream" and row["state"] == "succeeded" and "MEMORY.md" not in files
    why = row["why"] or ("nothing was added to MEMORY.md or changed in it" if is_same else None)
    return f"{row['id']} {row['kind']} {row['state']}" + "".join(
        f": {one_line(part)}" for part in (why, row["error"], files) if part
    )
