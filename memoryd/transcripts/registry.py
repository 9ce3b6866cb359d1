"""Choose the format of a transcript by its first records: the most specific format first, the generic one last.

How to add a format: docs/add-a-format.md.
"""

import re
from pathlib import PurePosixPath
from typing import Any

from memoryd.errors import ConfigError
from memoryd.transcripts import aider, now_file
from memoryd.transcripts.claude_code import ClaudeCode
from memoryd.transcripts.cline import Cline
from memoryd.transcripts.codex import Codex
from memoryd.transcripts.format import DRIFTED, LineFormat, Unsupported, Values
from memoryd.transcripts.gemini import Gemini
from memoryd.transcripts.gemini_file import GeminiFile
from memoryd.transcripts.messages import Messages
from memoryd.transcripts.openclaw_database import OpenClawDatabase
from memoryd.transcripts.opencode import OpenCodeDatabase, OpenCodeTree
from memoryd.transcripts.pi import OpenClaw, Pi
from memoryd.transcripts.whole import DatabaseFormat, DocumentFormat

_READERS = (Codex(), ClaudeCode(), OpenClaw(), Pi(), Gemini(), aider.Aider(), Messages())
FORMATS: dict[str, LineFormat] = {one.name: one for one in _READERS}
# Formats that are not lines: files that are rewritten as a whole, tried in this order, and databases of other programs.
DOCUMENTS: dict[str, DocumentFormat] = {one.name: one for one in (GeminiFile(), OpenCodeTree(), Cline())}
DATABASES: dict[str, DatabaseFormat] = {one.name: one for one in (OpenCodeDatabase(), OpenClawDatabase())}
WHOLE: dict[str, DocumentFormat | DatabaseFormat] = {**DATABASES, **DOCUMENTS}
# NOW files are read by `now_file`.
NAMES = tuple(dict.fromkeys((*FORMATS, *WHOLE, now_file.NAME)))

_SQLITE = b"SQLite format 3\0"
_NO_TRANSCRIPT = "a side file of the agent, not a transcript"
_COPY = "a copy or a trace that the agent keeps beside its transcript"
# OpenClaw keeps whole copies, such as before a reset or a compaction; Gemini sets aside files that it cannot read.
_COPIES = re.compile(
    r"\.jsonl?\.(?:reset|deleted|bak|unreadable)\b|\.(?:checkpoint\.[^/]+|trajectory|unreadable-\d+)\.jsonl$"
)
HEAD_BYTES = 16 << 10  # of a file; they show which files are not JSON


def by_name(name: str) -> LineFormat:
    """Return the line format of this name.

    Raises:
        ConfigError: the files of this format are not lines, or only a newer version knows it.
    """
    if name in FORMATS:
        return FORMATS[name]
    if name in WHOLE:
        hint = "its sessions are in a database or in JSON files: see docs/agents.md"
        raise ConfigError(f"is not a file of {WHOLE[name].program}", hint=hint)
    raise ConfigError(f"unknown transcript format {name!r}", hint=f"one of {', '.join(FORMATS)}, or auto")


def find_foreign_schema(name: str, head: bytes) -> Unsupported | None:
    """Return why a file with this beginning cannot be in the line format that the configuration names; else None."""
    return Unsupported(name, f"{DRIFTED}: it is a database, not lines") if head.startswith(_SQLITE) else None


def program_of(name: str) -> str | None:
    """Return the common name of the program that writes a format; None if many do, or if there is no such format."""
    reader = FORMATS.get(name) or WHOLE.get(name)
    return reader.program if reader else None


def detect(records: Values, path: PurePosixPath, head: bytes = b"") -> LineFormat | Unsupported | None:
    """Return the format of a file.

    Args:
        records: the objects decoded from its beginning; the first line alone often does not tell.
        path: of the file.
        head: its first bytes, which tell what is not JSON.

    Returns:
        A reader; or the name of what the file is and why it is not read; or None while nothing tells, so that the
        question is asked again when there is more.
    """
    if head.startswith(_SQLITE):
        return Unsupported("sqlite", "a database, not lines")
    if side_file := find_side_file(path):
        return side_file
    if aider.is_history(path, head):
        return FORMATS[aider.Aider.name]
    for value in records:
        if foreign := _foreign(value):
            return foreign
        for reader in FORMATS.values():
            if reader.name != Messages.name and reader.sniff((value,), path):
                return reader
    messages = FORMATS[Messages.name]
    return messages if messages.sniff(records, path) else None


def find_side_file(path: PurePosixPath) -> Unsupported | None:
    """Return the kind of a file beside transcripts, by its name: metadata, a journal, a copy; None for any other."""
    if path.name.endswith(".meta.json") or (path.name == "journal.jsonl" and "subagents" in path.parts):
        return Unsupported("side-file", _NO_TRANSCRIPT)
    return Unsupported("side-file", _COPY) if _COPIES.search(path.name) else None


def _foreign(value: dict[str, Any]) -> Unsupported | None:
    if "traceSchema" in value:
        return Unsupported("trajectory", _NO_TRANSCRIPT)
    if value.get("type") is None and "display" in value and "project" in value:
        return Unsupported("side-file", _NO_TRANSCRIPT)
    return None
