"""Print the output of commands: one JSON object for programs, plain lines for people."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memoryd.errors import MemorydError

# A file name or a transcript's own words must not move the cursor, colour the text or reorder it.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


@dataclass(slots=True)
class Output:
    """Print the answer of one call."""

    json: bool = False
    quiet: bool = False

    def result(self, data: Any, text: str = "") -> None:
        """Print a command's result: the data for programs, the text for people."""
        if self.json:
            print(json.dumps({"ok": True, "data": data}, ensure_ascii=False))
        elif text:
            print(make_visible(text))

    def show(
        self, data: Mapping[str, Any] | Sequence[Mapping[str, Any]], text: str, error: MemorydError | None
    ) -> None:
        """Print a result as `result` does; if it raises, the error carries the data."""
        if error is None or not self.json:
            self.result(data, text)
        if error is not None:
            error.data = data if isinstance(data, Mapping) else {"rows": data}
            raise error

    def say(self, text: str) -> None:
        """Print a line of progress for people."""
        if not (self.json or self.quiet):
            print(make_visible(text), flush=True)

    def print_note(self, text: str) -> None:
        """Print a line for people on standard error, beside a result that continues to a program."""
        if not (self.json or self.quiet):
            print(make_visible(one_line(text)), file=sys.stderr)

    def fail(self, error: MemorydError) -> None:
        """Print an error: on standard output for programs, on standard error for people."""
        if self.json:
            message = f"{error.where}: {error.what}" if error.where else error.what
            body = {"code": error.code, "message": message, "hint": error.hint}
            told = {"data": dict(error.data)} if error.data else {}
            print(json.dumps({"ok": False, "error": body, **told}, ensure_ascii=False))
        else:
            print(make_visible(f"memoryd: {error}"), file=sys.stderr)


def make_visible(text: str) -> str:
    """Return the text with replacements for characters that control a terminal."""
    return _UNSAFE.sub("\ufffd", text)


def one_line(value: object) -> str:
    """Return a value for a line of output: a foreign text must not start a line of its own."""
    return " ".join(str(value).splitlines())


def render_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return rows as aligned columns with a heading."""
    cells = [[column.replace("_", " ") for column in columns]]
    cells += [["" if row.get(column) is None else one_line(row[column]) for column in columns] for row in rows]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )
