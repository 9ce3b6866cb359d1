"""Read sessions of pi (format 1 to 3) and of OpenClaw, which uses pi's format: one JSON entry per line.

Sources: pi's session-manager, OpenClaw's inbound-meta and strip-inbound-meta, and public sessions of 2025 and 2026.
- Since format 2, the entries are a tree. Each has an `id` and a `parentId`, and the conversation is the path from the
  last entry of the file to its root. Entries on an abandoned branch are retracted. They are resumed if an entry is
  added after them. Format 1 has no ids and is a list.
- pi rewrites a file of an older format and gives ids to its entries, and a fork copies entries. So a record is
  identified by its content and its time, not by its id.
- `usage.totalTokens` is the context after the response. It is zero after an aborted or failed response.
- OpenClaw puts metadata about author and time around a message. Each block begins with a line such as `Sender
  (untrusted metadata):`; since mid 2026, it has its own mark. In a group, anybody may have written the message.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

import orjson

from memoryd.transcripts.blocks import block_text
from memoryd.transcripts.fields import mappings, read_mapping, read_time, read_tokens, read_word, type_name
from memoryd.transcripts.format import UNHEARD, UNKNOWN_PARENT, Identity, LineFormat, RecordTurns, Values, first_of
from memoryd.transcripts.lines import Pass, Record, derived_id
from memoryd.transcripts.record_text import Envelope, RecordText, of_blocks, read_message, turns_with_usage_last
from memoryd.transcripts.turn import Origin, Role, TurnKind
from memoryd.transcripts.whole import parse_object

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_ENTRIES = frozenset({
    "message", "compaction", "branch_summary", "custom", "custom_message", "model_change", "thinking_level_change",
    "label", "session_info",
})  # fmt: skip
_KNOWN = _ENTRIES | {"session", "leaf", "link", "reset"}  # the last three are OpenClaw's
_PLACE = ("id", "parentId", "firstKeptEntryId", "firstKeptEntryIndex")  # the position of an entry, not its content
_FAILED = frozenset({"aborted", "error"})
_OWN_PROVIDER = "openclaw"  # marks copies of delivered messages, which OpenClaw itself writes
_HOMES = frozenset({".openclaw", ".clawdbot", ".moltbot"})
_MARK = "⟦openclaw:ctx⟧"

# The program's own words in the user's name.
_PROGRAM = re.compile(
    r"\s*(?:\[(?:Subagent Context|OpenClaw heartbeat poll|System Message|Queued announce messages[^\]\n]{0,80})\]"
    r"|\[cron:|Read HEARTBEAT\.md if it exists|Pre-compaction memory flush"
    r"|A new session was started via /(?:new|reset)\b)"
)
_SUBAGENT = re.compile(r"(?:\[[^\]\n]{0,80}\] *)?\[Subagent Context\]")
# Parts before and after a message: blocks of metadata, notices of the program, the time, media.
_BEFORE = re.compile(
    r"\s*(?:"
    rf"[^\n]{{1,200}}(?:\(untrusted[^\n)]{{0,100}}\):|{_MARK})[ \t]*\n"
    r"(?:```json\n.*?\n```[ \t]*(?:\n|\Z)|(?:[^\n]+\n)+(?=\n|\Z))"
    r"|(?:Context:|Untrusted context \(metadata[^\n]*)[ \t]*\n<active_memory_plugin>.*?"
    r"</active_memory_plugin>[ \t]*(?:\n|\Z)"
    r"|<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>.*?(?:<<<END_OPENCLAW_INTERNAL_CONTEXT>>>|\Z)"
    r"|(?:System: \[[^\]\n]{1,60}\]|System \(untrusted\):)[^\n]*(?:\n|\Z)"
    r"|\[media attached[^\n]*(?:\n|\Z)"
    r"|To send an image back, prefer the message tool[^\n]*(?:\n|\Z)"
    r"|\[(?:iMessage|[A-Z][a-z][A-Za-z]*)(?: [^\[\]\n]{0,200})? \d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}[^\[\]\n]{0,40}\][ \t]*"
    r")",
    re.DOTALL,
)
_BEHIND = re.compile(
    r"\n[ \t]*(?:\[message_id: [^\]\n]{1,200}\]\s*|Untrusted context \(metadata[^\n]*\n.*"
    rf"|Context: {_MARK}[ \t]*\n.*)\Z",
    re.DOTALL,
)
_ATTACHED = '<file name="'  # begins the text of a file that was attached to a message
_FENCED = re.compile(r"```json\n(.*?)\n```", re.DOTALL)
_NAMES = ("name", "label", "username", "sender", "id")


@dataclass(slots=True)
class _Tree:
    """Hold the tree of the entries read so far."""

    # For each entry, by its id: the id of its parent, and the id of its record.
    entries: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    leaf: str | None = None

    def grow(self, value: dict[str, Any], record_id: str | None) -> tuple[list[str], list[str]]:
        """Add an entry.

        Return the ids of the records that leave the path to the leaf, and of those that return to it.
        """
        own, parent = read_word(value.get("id")), value.get("parentId", self.leaf)
        if own is None or own in self.entries:
            return [], []
        if parent is not None and (type(parent) is not str or parent not in self.entries):
            parent = self.leaf  # the parent is missing: continue after the present leaf
        self.entries[own] = parent, record_id
        before, self.leaf = self.leaf, own
        if parent == before:
            return [], []
        left, resumed = list(self._path(before)), list(self._path(parent))
        return self._records(left, resumed), self._records(resumed, left)

    def _path(self, entry: str | None) -> Iterator[str]:
        """Yield an entry and its ancestors, up to the root."""
        while entry is not None:
            yield entry
            entry = self.entries[entry][0]

    def _records(self, entries: list[str], others: list[str]) -> list[str]:
        """Return the record ids of `entries` that are not in `others`. Entries without text have none."""
        known = set(others)
        found = (self.entries[one][1] for one in entries if one not in known)
        return [record_id for record_id in found if record_id is not None]


class Pi(LineFormat):
    """Read the lines. A session is identified by the id in its first line, which is also in its file name."""

    name = "pi"
    program: str | None = "pi"

    def is_own(self, value: dict[str, Any]) -> bool:
        """Return True if a record is the first line of a session, or an entry of its tree."""
        kind = value.get("type")
        if kind == "session":
            return type(value.get("id")) is str and ("version" in value or "cwd" in value)
        return type(kind) is str and kind in _ENTRIES and "parentId" in value and type(value.get("id")) is str

    def identify(self, records: Values, path: PurePosixPath) -> Identity | None:
        """Identify the session by the first line, or by the file name if there is none."""
        head = next((value for value in records if value.get("type") == "session"), {})
        named = _UUID.findall(path.stem)
        session = read_word(head.get("id")) or (named[-1].lower() if named else path.stem)
        came = head.get("parentSession", head.get("branchedFrom"))
        parents = _UUID.findall(PurePosixPath(came).name) if type(came) is str else []
        sidechain = _SUBAGENT.match(next((one for one in map(_user_text, records) if one), "")) is not None
        parent = parents[-1] if parents else UNKNOWN_PARENT if sidechain else None
        return Identity(session, parent, first_of(self.cwd_of, records), sidechain, read_time(head.get("timestamp")))

    def is_known(self, skipped: str) -> bool:
        """Return True if the program is known to write this type of entry."""
        return skipped in _KNOWN

    def turns(self, record: Record, identity: Identity, meetings: Pass) -> RecordTurns:
        """Return the turns of one entry, and the records that it retracts or resumes."""
        value = record.value
        said = _read_entry(value)
        record_id = None if isinstance(said, str) else _record_id(record, meetings)
        retracted, resumed = meetings.recall(_Tree).grow(value, record_id)
        if isinstance(said, str) or record_id is None:
            return RecordTurns((), str(said), retracted, resumed)
        message = read_mapping(value.get("message"))
        model = read_word(message.get("model")) if message.get("provider") != _OWN_PROVIDER else None
        response = read_word(message.get("responseId")) or record_id
        at = read_time(value.get("timestamp")) or read_time(message.get("timestamp"))
        envelope = Envelope(record_id, at, identity.sidechain, response, model)
        return RecordTurns(turns_with_usage_last(said, envelope, _context(message)), None, retracted, resumed)

    def cwd_of(self, value: dict[str, Any]) -> str | None:
        """Return the folder that the first line names."""
        return super().cwd_of(value) if value.get("type") == "session" else None


class OpenClaw(Pi):
    """Read pi's format in OpenClaw's own folder, `agents/<agent>/sessions/`."""

    name = "openclaw"
    program = "OpenClaw"

    def sniff(self, records: Values, path: PurePosixPath) -> bool:
        """Return True if the records have pi's format and the file is in a folder of OpenClaw."""
        folders = path.parts[:-1]
        is_here = bool(_HOMES.intersection(folders)) or (folders[-1:] == ("sessions",) and "agents" in folders[-3:-1])
        return is_here and super().sniff(records, path)


def _record_id(record: Record, meetings: Pass) -> str:
    """Return an id made of an entry's content and time. Its position and its own id change in a rewritten file."""
    value = record.value
    if read_time(value.get("timestamp")) is None:
        return derived_id(record, meetings, stamped=type(value.get("id")) is str)
    said = {key: one for key, one in value.items() if key not in _PLACE}
    try:
        return f"sha256:{sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()}"
    except orjson.JSONEncodeError:
        return derived_id(record, meetings, stamped=True)


def _user_text(value: dict[str, Any]) -> str:
    """Return the text of a message in the user's name; empty for any other record."""
    message = read_mapping(value.get("message"))
    return block_text(message.get("content")) if message.get("role") == "user" else ""


def _context(message: dict[str, Any]) -> int | None:
    """Return the tokens of the context after a response, or None if unknown."""
    usage = read_mapping(message.get("usage"))
    if message.get("role") != "assistant" or message.get("stopReason") in _FAILED:
        return None
    parts = sum(read_tokens(usage.get(key)) for key in ("input", "output", "cacheRead", "cacheWrite"))
    return read_tokens(usage.get("totalTokens")) or parts or None


def _read_entry(value: dict[str, Any]) -> list[RecordText] | str:
    """Return the texts of an entry, or the name under which it is skipped."""
    match value.get("type"):
        case "message":
            return _read_message(read_mapping(value.get("message")))
        case "compaction":  # the entries that it keeps were read before
            return [RecordText(Role.SYSTEM, Origin.SYSTEM, TurnKind.COMPACTION, ""), _read_summary(value)]
        case "branch_summary":
            return [_read_summary(value)]
        case "custom_message":
            return [_read_injected(value)]
        case other:
            return type_name(other)


def _read_message(message: dict[str, Any]) -> list[RecordText] | str:
    """Return the texts of a message by its role, or the name under which an unknown role is skipped."""
    content = message.get("content")
    match message.get("role"):
        case "user":
            return _split_authors(block_text(content)) if type(content) is str else of_blocks(content, _split_authors)
        case "assistant":
            return _read_response(content)
        case "toolResult":
            call, tool = read_word(message.get("toolCallId")), read_word(message.get("toolName"))
            return [RecordText.of_result(block_text(content), call, tool)]
        case "bashExecution":  # a command that the person ran, and its output
            output = RecordText(Role.TOOL, Origin.TOOL, TurnKind.MESSAGE, block_text(message.get("output")))
            return [read_message(block_text(message.get("command")), program=False), output]
        case "custom" | "hookMessage":
            return [_read_injected(message)]
        case "branchSummary" | "compactionSummary":
            return [_read_summary(message)]
        case other:
            return f"{UNHEARD}{type_name(other)}"


def _split_authors(text: str) -> list[RecordText]:
    """Divide a text in the user's name into the message and the parts that OpenClaw put around it."""
    start = 0
    while found := _BEFORE.match(text, start):
        start = found.end()
    behind = _BEHIND.search(text, start)
    end = behind.start() if behind else len(text)
    wrapper = [text[:start].strip(), text[end:].strip()]
    said, about = text[start:end].strip() if start or behind else text, _metadata(text[:start])
    said, opening, attached = said.partition(_ATTACHED)
    said = said.rstrip() if opening else said
    if _PROGRAM.match(said):
        return [read_message(text, program=True)]
    if about.get("is_group_chat") is True:
        name = next((one for key in _NAMES if (one := read_word(about.get(key)))), "somebody")
        message = RecordText(Role.USER, Origin.UNKNOWN, TurnKind.MESSAGE, f"{name}: {said}")
    else:
        message = read_message(said, program=False)
    files = RecordText(Role.SYSTEM, Origin.UNKNOWN, TurnKind.MESSAGE, opening + attached)
    return [*(read_message(one, program=True) for one in wrapper if one), message, files]


def _metadata(wrapper: str) -> dict[str, Any]:
    """Return the metadata in the blocks before a message. If several name a sender, the last one counts."""
    about: dict[str, Any] = {}
    for block in _FENCED.findall(wrapper):
        given = parse_object(block)
        # The author may begin a message with a block of their own. It must not hide that the message is from a group.
        about |= given | {"is_group_chat": True in (about.get("is_group_chat"), given.get("is_group_chat"))}
    return about


def _read_response(content: object) -> list[RecordText]:
    """Return the texts and tool calls of a response, without its thinking."""
    blocks = [{"type": "text", "text": content}] if type(content) is str else mappings(content)
    said: list[RecordText] = []
    for block in blocks:
        kind = block.get("type")
        if kind == "text":
            said.append(RecordText(Role.ASSISTANT, Origin.ASSISTANT, TurnKind.MESSAGE, block_text([block])))
        elif kind == "toolCall":
            said.append(RecordText.of_call(block.get("name"), block.get("arguments"), read_word(block.get("id"))))
    return said


def _read_injected(value: dict[str, Any]) -> RecordText:
    """Return the text that an extension put into the context."""
    return RecordText(Role.SYSTEM, Origin.INJECTED, TurnKind.MESSAGE, block_text(value.get("content")))


def _read_summary(value: dict[str, Any]) -> RecordText:
    """Return the agent's summary of a branch or of cleared text."""
    return RecordText(Role.SYSTEM, Origin.ASSISTANT, TurnKind.SUMMARY, block_text(value.get("summary")))
