"""Read sessions of OpenCode: its SQLite database since 1.2, the older tree of JSON files, and its exports.

All three hold sessions, their messages, and the parts of each message. Sources: `packages/opencode/src/session`, and a
database of 1.18.
- Parts change in place while the agent answers. An assistant's message is finished when it has `time.completed` or an
  error. A message that a crash left open is finished when the next answer follows, because the agent answers one prompt
  at a time.
- Text in the user's name may be the program's: `synthetic` parts, and `ignored` parts, which the model does not get.
  The program does not mark text that it made from a command's template; memoryd's plugin does.
- `tokens.total` of an answer is the context after it, without the results of its tools. `tokens.input` leaves out
  cached tokens. The sums in `session` are all tokens ever spent.
- A compaction is a user's message with a part of that type, followed by an answer with `summary: true`. The tokens of
  this answer are those of the context before. The size of the context window is not stored.
- A session with a parent is a subagent's. The person's answers are in the metadata of the tool `question`.
"""

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from memoryd.transcripts import whole
from memoryd.transcripts.blocks import block_text
from memoryd.transcripts.dialogs import read_answers
from memoryd.transcripts.fields import mappings, read_mapping, read_time, read_tokens, read_word, type_name
from memoryd.transcripts.format import Identity, Reader
from memoryd.transcripts.lines import Record, clean
from memoryd.transcripts.record_text import Envelope, RecordText, read_message, turns_of
from memoryd.transcripts.turn import Origin, Role, Turn, TurnKind

NAME = "opencode"
WINDOW = 100  # messages of one reading
LARGEST_DATA = 8 << 20  # the most characters of one row
PROMPT_SECONDS = 60.0  # after this time, a prompt without an answer is complete
ABANDONED_SECONDS = 6 * 3600.0  # no tool runs that long without writing
_ASKS = "question"
_MARK = "memoryd"  # in the metadata of a command's text: memoryd's plugin stores the typed text there
_TREE = re.compile(r"(?:.*/)?storage/session/[^/]+/ses_[^/]+\.json", re.DOTALL)
_SIDE = re.compile(r"(?:.*/)?storage/(?:session/)?(?:message|part)/.*\.json", re.DOTALL)
_EXPORT = re.compile(rb'\s*\{\s*"info"\s*:\s*\{\s*"id"\s*:\s*"ses_')


_PASSED_OVER = frozenset({
    "agent", "file", "patch", "reasoning", "retry", "snapshot", "step-finish", "step-start", "text",
})  # fmt: skip
# `opencode run` puts a prompt of several words in quotes, which the person did not type.
_PROMPT = re.compile(r'"((?:[^"\\]|\\.)*)"\s*', re.DOTALL)


class OpenCode(Reader):
    """Hold what all readers of OpenCode's sessions share."""

    name = NAME
    program = "OpenCode"

    def is_known(self, skipped: str) -> bool:
        """Return True if the program is known to write this type of part."""
        return skipped in _PASSED_OVER


class StoredMessage:
    """Hold one message with its parts, from any of the three sources."""

    __slots__ = ("id", "parts", "raw", "value")

    def __init__(self, message_id: object, value: dict[str, Any], parts: Sequence[dict[str, Any]], raw: bytes) -> None:
        self.raw = raw  # the bytes of the message and its parts
        self.id = read_word(message_id) or f"sha256:{sha256(raw).hexdigest()}"
        self.value = value
        self.parts = parts

    @property
    def answers(self) -> bool:
        """Return True if the assistant wrote the message."""
        return self.value.get("role") == "assistant"

    @property
    def is_finished(self) -> bool:
        """Return True if the program marked the message as complete."""
        return bool(read_mapping(self.value.get("time")).get("completed") or self.value.get("error"))

    def read(self, identity: Identity, records: whole.SessionRecords) -> None:
        """Add the turns of this message: its texts, then the context's size, then the results of its tools."""
        before: list[Turn] = []
        after: list[Turn] = []
        at = read_time(read_mapping(self.value.get("time")).get("created"))
        model = read_word(self.value.get("modelID"))
        for number, part in enumerate(self.parts):
            said = self._read_part(part)
            if isinstance(said, str):
                records.skipped[said] += 1
                continue
            times = read_mapping(part.get("time")) or read_mapping(read_mapping(part.get("state")).get("time"))
            record_id = read_word(part.get("id")) or f"{self.id}/{number}"
            envelope = Envelope(record_id, read_time(times.get("start")) or at, identity.sidechain, self.id, model)
            turns = turns_of(said, envelope)
            calls = next((i for i, turn in enumerate(turns) if turn.kind is TurnKind.TOOL_RESULT), len(turns))
            before += turns[:calls]
            after += turns[calls:]
        usage = None if self.value.get("summary") is True else _context(self.value.get("tokens"))
        if self.answers and usage:
            before += turns_of((), Envelope(self.id, at, identity.sidechain, self.id, model), usage)
        records.add([*before, *after], Record(self.value, 0, 0, self.raw))

    def _read_part(self, part: dict[str, Any]) -> list[RecordText] | str:
        """Return the texts of a part, or the name under which it is skipped."""
        kind, text = part.get("type"), block_text(part.get("text"))
        if kind == "compaction":
            return [RecordText(Role.SYSTEM, Origin.SYSTEM, TurnKind.COMPACTION, "")]
        if kind == "tool":
            return _read_tool(part)
        if kind == "subtask":
            return [read_message(block_text(part.get("prompt")), program=True)]
        if kind == "text" and (part.get("synthetic") is True or part.get("ignored") is True):
            return [read_message(text, program=True)]
        if kind == "text" and self.answers:
            if self.value.get("summary") is True:
                return [RecordText(Role.SYSTEM, Origin.ASSISTANT, TurnKind.SUMMARY, text)]
            return [RecordText(Role.ASSISTANT, Origin.ASSISTANT, TurnKind.MESSAGE, text)]
        if self.value.get("role") == "user" and kind == "text":
            return _read_prompt(part, text)
        if self.value.get("role") == "user" and kind == "file":
            return [read_message(f"[file {block_text(part.get('filename'))}]", program=False)]
        return type_name(kind)


def _read_prompt(part: dict[str, Any], text: str) -> list[RecordText]:
    """Return the text that the person typed; for a command, only the text after its name is theirs."""
    typed = read_mapping(read_mapping(part.get("metadata")).get(_MARK)).get("arguments")
    if type(typed) is not str:
        return [read_message(_unquote(text), program=False)]
    return [read_message(text, program=True), read_message(_unquote(typed), program=False)]


def _unquote(text: str) -> str:
    quoted = _PROMPT.fullmatch(text)
    return quoted[1].replace('\\"', '"') if quoted else text


def _read_tool(part: dict[str, Any]) -> list[RecordText]:
    """Return a tool call, its output, and the person's answers if the tool asked a question."""
    state, call, name = read_mapping(part.get("state")), read_word(part.get("callID")), read_word(part.get("tool"))
    said = [RecordText.of_call(name, state.get("input"), call)]
    given = next((state[key] for key in ("output", "error") if type(state.get(key)) is str), None)
    if given is None:
        return said
    said.append(RecordText.of_result(clean(given), call, name))
    answers = read_mapping(state.get("metadata")).get("answers")
    if name == _ASKS and call is not None and type(answers) is list:
        asked = mappings(read_mapping(state.get("input")).get("questions"))
        by_question = {one.get("question"): answer for one, answer in zip(asked, answers, strict=False)}
        plain = {question: answer for question, answer in by_question.items() if type(question) is str}
        said += read_answers({"questions": asked, "answers": plain}, call, _ASKS)
    return said


def _context(tokens: object) -> int | None:
    counts = read_mapping(tokens)
    cache = read_mapping(counts.get("cache"))
    parts = (counts.get("input"), counts.get("output"), counts.get("reasoning"), cache.get("read"), cache.get("write"))
    return read_tokens(counts.get("total")) or sum(map(read_tokens, parts)) or None


def _order(time: object, message_id: object) -> tuple[float, str]:
    return (float(time) if type(time) is int or type(time) is float else 0.0), str(message_id)


def _find_held(messages: Sequence[StoredMessage], ages: Sequence[float], *, more: bool) -> int:
    """Return how many of the first messages are complete.

    Args:
        messages: The messages of one session, in order.
        ages: Seconds since the last change of each message.
        more: Whether further messages follow.
    """
    for number, message in enumerate(messages):
        following = messages[number + 1 :]
        if message.answers:
            is_whole = message.is_finished or any(one.answers for one in following) or more
            patience = ABANDONED_SECONDS
        else:
            is_whole, patience = bool(following) or more, PROMPT_SECONDS
        if not is_whole and ages[number] < patience:
            return number
    return len(messages)


class OpenCodeDatabase(OpenCode, whole.DatabaseFormat):
    """Read the database of OpenCode 1.2 and later."""

    events = "message"
    tables = {  # noqa: RUF012 - a constant
        "session": frozenset({"id", "parent_id", "directory", "time_created"}),
        "message": frozenset({"id", "session_id", "time_created", "time_updated", "data"}),
        "part": frozenset({"id", "message_id", "time_updated", "data"}),
    }

    def identify(self, rows: whole.Rows, session_id: str) -> Identity:
        """Identify the session by its row, which is written before its first message."""
        found = rows("SELECT parent_id, directory, time_created FROM session WHERE id = ?", session_id)
        parent, folder, created = found[0] if found else (None, None, None)
        return _identity(session_id, parent, folder, created)

    def mark_of(self, rows: whole.Rows, session_id: str, position: int) -> str | None:
        """Return the id of a message, or None if there is no such message."""
        found = rows("SELECT id FROM message WHERE rowid = ? AND session_id = ?", position, session_id)
        return str(found[0][0]) if found else None

    def read(self, rows: whole.Rows, identity: Identity, start: whole.StretchStart) -> whole.SessionStretch:
        """Return the next messages in the order of their times. A migration stored old messages in no order."""
        sql = "SELECT rowid, id, time_created FROM message WHERE session_id = ? AND rowid > ?"
        listed = {row[0]: row for row in rows(sql, start.session_id, start.position)}
        left = [row for row in listed.values() if str(row[1]) not in start.done]
        left.sort(key=lambda row: _order(row[2], row[1]))
        window, more = left[:WINDOW], len(left) > WINDOW
        messages, ages = _load(rows, window, start.now)
        count = _find_held(messages, ages, more=more)
        records = whole.SessionRecords(identity, held=count < len(messages))
        for message in messages[:count]:
            message.read(identity, records)
        done = {*start.done, *(str(row[1]) for row in window[:count])}
        position, mark = whole.end_of(start.position, {number: str(row[1]) for number, row in listed.items()}, done)
        return whole.SessionStretch(records, done, position, mark, more and not records.held)


def _load(rows: whole.Rows, window: Sequence[tuple[Any, ...]], now: float) -> tuple[list[StoredMessage], list[float]]:
    """Return messages with their parts, and the seconds since the last change of each."""
    marks = ", ".join("?" * len(window))
    data = f"CASE WHEN length(data) <= {LARGEST_DATA} THEN data END"
    sql = f"SELECT rowid, {data}, time_updated FROM message WHERE rowid IN ({marks})"  # noqa: S608
    values = {row[0]: row[1:] for row in rows(sql, *(row[0] for row in window))}
    parts: dict[Any, list[tuple[Any, ...]]] = {}
    sql = f"SELECT message_id, id, {data}, time_updated FROM part WHERE message_id IN ({marks})"  # noqa: S608
    for owner, *part in rows(sql, *(row[1] for row in window)):
        parts.setdefault(owner, []).append(tuple(part))
    messages, ages = [], []
    for number, message_id, _ in window:
        text, updated = values.get(number, (None, None))
        own = sorted(parts.get(message_id, ()), key=lambda part: str(part[0]))
        raw = b"\n".join(_as_bytes(one) for one in (text, *(part[1] for part in own)))
        found = [whole.parse_object(_as_bytes(part[1])) | {"id": part[0]} for part in own]
        messages.append(StoredMessage(message_id, whole.parse_object(_as_bytes(text)), found, raw))
        ages.append(now - max(_order(one, "")[0] for one in (updated, *(part[2] for part in own))) / 1000)
    return messages, ages


def _as_bytes(data: object) -> bytes:
    return data if type(data) is bytes else data.encode("utf-8", "replace") if type(data) is str else b""


def _identity(session_id: object, parent: object, folder: object, created: object) -> Identity:
    parent = read_word(parent)
    cwd = clean(folder) if type(folder) is str and folder else None
    own = read_word(session_id) or f"sha256:{sha256(str(session_id).encode('utf-8', 'replace')).hexdigest()}"
    return Identity(own, parent, cwd, sidechain=parent is not None, started_at=read_time(created))


def _read_messages(info: dict[str, Any], messages: list[StoredMessage], age: float) -> whole.SessionRecords:
    messages.sort(key=lambda one: _order(read_mapping(one.value.get("time")).get("created"), one.id))
    count = _find_held(messages, [age] * len(messages), more=False)
    created = read_mapping(info.get("time")).get("created")
    identity = _identity(info.get("id"), info.get("parentID"), info.get("directory"), created)
    records = whole.SessionRecords(identity, held=count < len(messages))
    for message in messages[:count]:
        message.read(identity, records)
    return records


class OpenCodeTree(OpenCode, whole.DocumentFormat):
    """Read an export, or the JSON tree before 1.2: `storage/session/PROJECT/SESSION.json`, its messages and parts."""

    def sniff(self, head: bytes, path: PurePosixPath) -> bool:
        """Return True for a file with a path of the tree, or with the first member of an export."""
        return bool(_TREE.fullmatch(str(path)) or _SIDE.fullmatch(str(path)) or _EXPORT.match(head))

    def list_companions(self, path: PurePosixPath, found: Iterable[str]) -> Sequence[str]:
        """Return the folder of the session's messages first, and then the folders of their parts."""
        if not _TREE.fullmatch(str(path)):
            return ()
        messages, parts = _folders(path)
        names = [name.rpartition("/")[2].removesuffix(".json") for name in found]
        return [f"{parts}{name}/" for name in names] or [messages]

    def read(self, document: whole.DocumentFile) -> whole.SessionRecords | str | None:
        """Return the session of a tree or of an export.

        The result is a text for a file that is read with its session, and None if the file is not complete.
        """
        path = str(document.path)
        if _SIDE.fullmatch(path):
            return "a part of a session, read with the file of its session"
        if not _TREE.fullmatch(path):
            return _read_export(document)
        info = whole.parse_object(document.data)
        if not info:
            return None
        files: dict[str, list[tuple[str, bytes]]] = {}
        for name, data in sorted(document.beside.items()):
            folder, _, file = name.rpartition("/")
            files.setdefault(folder, []).append((file.removesuffix(".json"), data))
        messages = []
        messages_folder, parts_folder = _folders(document.path)
        for message_id, data in files.get(messages_folder[:-1], ()):
            own = files.get(f"{parts_folder}{message_id}", [])
            parts = [{"id": part_id} | whole.parse_object(part) for part_id, part in own]
            raw = b"\n".join((data, *(part for _, part in own)))
            messages.append(StoredMessage(message_id, whole.parse_object(data), parts, raw))
        return _read_messages({"id": document.path.stem} | info, messages, document.age)


def _folders(path: PurePosixPath) -> tuple[str, str]:
    """Return the folder of a session's messages and that of their parts. Their places changed in 2025."""
    if path.parent.name == "info":
        return f"../message/{path.stem}/", f"../part/{path.stem}/"
    return f"../../message/{path.stem}/", "../../part/"


def _read_export(document: whole.DocumentFile) -> whole.SessionRecords | None:
    if (parsed := whole.parse_document(document.data)) is None:
        return None
    messages = []
    for record in parsed[1]:
        info = read_mapping(record.value.get("info"))
        messages.append(StoredMessage(info.get("id"), info, mappings(record.value.get("parts")), record.data))
    return _read_messages(read_mapping(parsed[0].get("info")), messages, document.age)
