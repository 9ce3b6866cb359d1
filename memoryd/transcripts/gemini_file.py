"""Read chats of Gemini CLI until early 2026: JSON files `{sessionId, projectHash, startTime, messages}`.

The file is rewritten with each message, and its last message gets tokens, calls and their results. If such a chat is
resumed, a newer program writes it again as an event log with the same ids. Both files remain.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from memoryd.transcripts.gemini import ROOT_FILE, Gemini, name_skipped, turns_of_message
from memoryd.transcripts.lines import clean
from memoryd.transcripts.whole import RESTED_SECONDS, DocumentFile, DocumentFormat, SessionRecords, parse_document

_HEAD = re.compile(rb'\s*\{(?=.{0,4000}"sessionId"\s*:)(?=.{0,4000}"projectHash"\s*:)', re.DOTALL)
_LOG = Gemini()
_ROOT = f"../{ROOT_FILE}"
_FIRST = 3  # messages in which the program may name the folder to the model


class GeminiFile(DocumentFormat):
    """Read one such file. Its messages are read as in the event log."""

    name = Gemini.name
    program = "Gemini CLI"

    def sniff(self, head: bytes, path: PurePosixPath) -> bool:
        """Return True if a file begins with the first members of such a chat."""
        del path
        return bool(_HEAD.match(head))

    def list_companions(self, path: PurePosixPath, found: Iterable[str]) -> Sequence[str]:
        """Return the name of the file that holds the path of the project."""
        del found
        return (_ROOT,) if path.parent.name == "chats" else ()

    def read(self, document: DocumentFile) -> SessionRecords | None:
        """Return the chat. Its last answer is included only when it is finished."""
        parsed = parse_document(document.data)
        if parsed is None:
            return None
        members, records = parsed
        identity = _LOG.identify([members, *(one.value for one in records[:_FIRST])], document.path)
        if identity is None:
            return None
        root = clean(document.beside.get(_ROOT, b"").decode("utf-8", "replace")).strip()
        found = SessionRecords(identity if identity.cwd or not root else identity._replace(cwd=root))
        last = records[-1].value if records else {}
        found.held = last.get("type") == "gemini" and document.age < RESTED_SECONDS
        for record in records[:-1] if found.held else records:
            turns = turns_of_message(record.value, sidechain=identity.sidechain)
            found.add(turns, record)
            if not turns:
                found.skipped[name_skipped(record.value)] += 1
        return found
