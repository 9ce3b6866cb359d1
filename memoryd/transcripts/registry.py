"""Choose the format of a transcript by its first records: the most specific format first, the generic one last.

docs/add-a-format.md describes how to add a format.
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
from memoryd.transcripts.gemini import Gemini, GeminiFile
from memoryd.transcripts.messages import Messages
from memoryd.transcripts.openclaw_database import OpenClawDatabase
from memoryd.transcripts.opencode import OpenCodeDatabase, OpenCodeTree
from memoryd.transcripts.pi import OpenClaw, Pi
from memoryd.transcripts.whole import DatabaseFormat, DocumentFormat

_READERS = (Codex(), ClaudeCode(), OpenClaw(), Pi(), Gemini(), aider.Aider(), Messages())
FORMATS: dict[str, LineFormat] = {one.name: one for one in _READERS}
# Formats that are not appended lines: files that are rewritten as a whole, tried in this order, and databases.
DOCUMENTS: dict[str, DocumentFormat] = {one.name: one for one in (GeminiFile(), OpenCodeTree(), Cline())}
DATABASES: dict[str, DatabaseFormat] = {one.name: one for one in (OpenCodeDatabase(), OpenClawDatabase())}
WHOLE: dict[str, DocumentFormat | DatabaseFormat] = {**DATABASES, **DOCUMENTS}
# `now_file` reads NOW files.
NAMES = tuple(dict.fromkeys((*FORMATS, *WHOLE, now_file.NAME)))

_SQLITE = b"SQLite format 3\0"
_NO_TRANSCRIPT = "a side file of the agent, not a transcript"
_COPY = "a copy or a trace that the agent keeps beside its transcript"
# OpenClaw keeps whole copies, for example before a reset or a compaction. Gemini renames files that it cannot read.
_COPIES = re.compile(
    r"\.jsonl?\.(?:reset|deleted|bak|unreadable)\b|\.(?:checkpoint\.[^/]+|trajectory|unreadable-\d+)\.jsonl$"
)
HEAD_BYTES = 16 << 10  # the beginning of a file, which shows formats other than JSON


def by_name(name: str) -> LineFormat:
    """Return the reader of the line format with this name.

    Raises:
        ConfigError: There is no such format, or its files are not lines.
    """
    if name in FORMATS:
        return FORMATS[name]
    if name in WHOLE:
        hint = "its sessions are in a database or in JSON files: see docs/agents.md"
        raise ConfigError(f"is not a file of {WHOLE[name].program}", hint=hint)
    raise ConfigError(f"unknown transcript format {name!r}", hint=f"one of {', '.join(FORMATS)}, or auto")


def find_foreign_schema(name: str, head: bytes) -> Unsupported | None:
    """Return why a file with this beginning cannot have the line format that the configuration names; else None."""
    return Unsupported(name, f"{DRIFTED}: it is a database, not lines") if head.startswith(_SQLITE) else None


def program_of(name: str) -> str | None:
    """Return the common name of the program that writes a format, or None if many do, or if there is no such format."""
    reader = FORMATS.get(name) or WHOLE.get(name)
    return reader.program if reader else None


def detect(records: Values, path: PurePosixPath, head: bytes = b"") -> LineFormat | Unsupported | None:
    """Return the format of a file.

    Args:
        records: The objects decoded from its beginning. The first line alone is often not enough.
        path: The path of the file.
        head: The first bytes of the file, for formats other than JSON.

    Returns:
        A reader; or what the file is and why it is not read; or None if the records do not tell yet, so that the caller
        asks again when there are more.
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
    """Return the kind of a file beside transcripts by its name, such as metadata or a copy; None for any other file."""
    if path.name.endswith(".meta.json") or (path.name == "journal.jsonl" and "subagents" in path.parts):
        return Unsupported("side-file", _NO_TRANSCRIPT)
    return Unsupported("side-file", _COPY) if _COPIES.search(path.name) else None


def _foreign(value: dict[str, Any]) -> Unsupported | None:
    if "traceSchema" in value:
        return Unsupported("trajectory", _NO_TRANSCRIPT)
    if value.get("type") is None and "display" in value and "project" in value:
        return Unsupported("side-file", _NO_TRANSCRIPT)
    return None
