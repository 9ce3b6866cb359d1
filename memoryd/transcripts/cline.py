"""Read tasks of Cline and Roo: JSON files that are rewritten as a whole.

- `api_conversation_history.json` holds the messages for the model in Anthropic's format; since 2026, Roo also uses that
  of the AI SDK. Messages in the user's name hold tool results, the environment and, in tags, typed text.
- `ui_messages.json` beside it holds what the person sees. Only this file names authors: the first entry and each
  `user_feedback` were typed, and `selected` is the person's choice. Its `api_req_started` gives the size of the
  context.
- Both files are read as one transcript. An entry belongs after the message that `conversationHistoryIndex` names.
- Roo keeps condensed messages. The summary has `isSummary`, the messages that it replaces have `condenseParent`, and a
  marker has `isTruncationMarker`. Cline writes `conversationHistoryDeletedRange`. All of these mean a compaction.
- `<session>.messages.json` is written by Cline's SDK since 2026: messages with ids, times and `metrics`, whose
  `inputTokens` includes cached tokens. A compaction rewrites the list and is noted in `metadata` of the first message.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import orjson

from memoryd.transcripts import whole
from memoryd.transcripts.blocks import block_text, is_output, output_text
from memoryd.transcripts.fields import first_word, mappings, read_mapping, read_time, read_tokens, read_word, type_name
from memoryd.transcripts.format import UNHEARD, Identity, first_of
from memoryd.transcripts.lines import Record, clean
from memoryd.transcripts.record_text import Envelope, RecordText, read_message, turns_of
from memoryd.transcripts.turn import Origin, Role, Turn, TurnKind

NAME = "cline"
_API, _UI, _HISTORY = "api_conversation_history.json", "ui_messages.json", "history_item.json"
_TASK = re.compile(r"\d{13}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_SDK = re.compile(rb'\s*\{(?=.{0,4000}"sessionId"\s*:)(?=.{0,4000}"updated_at"\s*:)(?=.{0,4000}"agent"\s*:)', re.DOTALL)
_SHOWN = re.compile(rb'\s*\[\s*\{[^{}\[\]]{0,4000}"type"\s*:\s*"(?:say|ask)"')
_TYPED = re.compile(r"\s*<(task|feedback|user_message|answer)>\n?(.*?)\n?</\1>\s*", re.DOTALL)
# The brackets may contain brackets and line ends: a path such as `app/[id]/page.tsx`, or a command of many lines.
_RESULT = re.compile(r"\s*\[.{1,4000}?\] Result:", re.DOTALL)
_PROGRAM = re.compile(r"\s*(?:<SYSTEM_NOTICE>|<system-reminder>|\[(?:TASK RESUMPTION|ERROR)\])")
_ENVIRONMENT = "<environment_details>"
_FOLDER = re.compile(r"# Current (?:Working|Workspace) Directory \(([^)\n]{1,4096})\)")
_SDK_FOLDER = re.compile(r"Working Directory: ([^\n]{1,4096})")
# A message with many results is divided again at each writing, and each time its id gets longer.
_PARTED = re.compile(r"(_tool_.+?)\1+\Z", re.DOTALL)
_CALLS, _UNSPOKEN = frozenset({"tool_use", "tool-call"}), frozenset({"thinking", "redacted_thinking", "reasoning"})
_IMAGES, _TOOL_NAMES = frozenset({"image", "image_url"}), ("name", "toolName")


class Cline(whole.DocumentFormat):
    """Read tasks and SDK sessions. A task is identified by its folder, an SDK session by the id in its file."""

    name = NAME
    program = "Cline"

    def sniff(self, head: bytes, path: PurePosixPath) -> bool:
        """Return True if the file is a task or an SDK session, by its name or its first members."""
        return path.name.endswith((_API, _UI, ".messages.json")) or bool(_SDK.match(head) or _SHOWN.match(head))

    def list_companions(self, path: PurePosixPath, found: Iterable[str]) -> Sequence[str]:
        """Return the name of the task's other file, and of Roo's entry in its history."""
        return {_API: (_UI, _HISTORY), _UI: (_API,)}.get(path.name, ())

    def read(self, document: whole.DocumentFile) -> whole.SessionRecords | str | None:
        """Return the session of one file, or of the two files of a task.

        The result is a text if the session is read with the other file, and None if the file is not complete.
        """
        if (parsed := whole.parse_document(document.data)) is None:
            return None
        members, records = parsed
        if "sessionId" in members:
            return _read_sdk(members, records, document.age)
        if _is_shown(document.path, records):
            return f"read with {_API}" if _API in document.beside else _Task(document, [], records).read()
        shown = whole.parse_document(document.beside.get(_UI, b""))
        return _Task(document, records, shown[1] if shown else []).read()


def _is_shown(path: PurePosixPath, records: Sequence[Record]) -> bool:
    return path.name.endswith(_UI) or any(one.value.get("type") in ("say", "ask") for one in records[:1])


# --- the files of the SDK ---------------------------------------------------------------------------------------------


def _read_sdk(members: dict[str, Any], records: Sequence[Record], age: float) -> whole.SessionRecords:
    session = read_word(members["sessionId"]) or f"sha256:{sha256(repr(members['sessionId']).encode()).hexdigest()}"
    folder = _SDK_FOLDER.search(block_text(members.get("system_prompt")))
    parent, cwd = read_word(members.get("parentSessionId")), clean(folder[1]).strip() if folder else None
    identity = Identity(session, parent, cwd, "parentSessionId" in members, _find_start(records))
    found = whole.SessionRecords(identity, held=_is_open(records, age))
    for record in records[:-1] if found.held else records:
        message, metadata = record.value, read_mapping(record.value.get("metadata"))
        own = _PARTED.sub(r"\1", block_text(message.get("id")))[:256] or f"sha256:{record.sha256()}"
        envelope = _envelope(message, own, identity)
        said: list[RecordText] | str
        if metadata.get("kind") == "compaction_summary":
            said = RecordText.of_compaction(block_text(metadata.get("summary")))
        else:
            said = _read_message(message)
        if isinstance(said, str):
            found.skipped[said] += 1
            continue
        turns = turns_of(said, envelope)
        if metadata.get("kind") == "compaction":
            # The message itself was read before, so its compaction gets its own id.
            digest = sha256(repr(sorted(metadata.items(), key=str)).encode("utf-8", "replace")).hexdigest()
            turns += turns_of(RecordText.of_compaction(), envelope._replace(record_id=f"sha256:{digest}"))
        turns += _usage(envelope, _sdk_context(message.get("metrics")))
        found.add(turns, record)
    return found


def _find_start(records: Sequence[Record]) -> str | None:
    return first_of(lambda value: read_time(value.get("ts")), [one.value for one in records])


def _is_open(records: Sequence[Record], age: float) -> bool:
    """Return True if the agent may still write the last record."""
    last = records[-1].value if records else {}
    return last.get("role") == "assistant" and "metrics" not in last and age < whole.RESTED_SECONDS


def _envelope(message: dict[str, Any], record_id: str, identity: Identity) -> Envelope:
    model = first_word(message.get("modelInfo"), "id", "modelId")
    return Envelope(record_id, read_time(message.get("ts")), identity.sidechain, record_id, model)


def _usage(envelope: Envelope, usage: int | None) -> list[Turn]:
    """Return an empty turn with the size of the context after the text. Its id does not change if text is added."""
    return turns_of((), envelope._replace(record_id=f"{envelope.record_id}/usage"), usage) if usage else []


def _sdk_context(metrics: object) -> int | None:
    counts = read_mapping(metrics)
    cached = read_tokens(counts.get("cacheReadTokens")) + read_tokens(counts.get("cacheWriteTokens"))
    given = read_tokens(counts.get("inputTokens"))
    return ((given if given >= cached else given + cached) + read_tokens(counts.get("outputTokens"))) or None


# --- what a message says ----------------------------------------------------------------------------------------------


def _read_message(message: dict[str, Any], *, typed: bool = True) -> list[RecordText] | str:
    """Return the texts of a message, or the name under which it is skipped.

    Args:
        message: A message in the format of Anthropic's API or of the AI SDK.
        typed: Whether text in the user's name may be the person's; False if the other file has their words.
    """
    role, content = message.get("role"), message.get("content")
    blocks = [{"type": "text", "text": content}] if type(content) is str else mappings(content)
    if role == "assistant":
        return [one for block in blocks for one in _read_answer(block)]
    if role not in ("user", "tool"):
        return type_name(message.get("type")) if role is None else f"{UNHEARD}{type_name(role)}"
    said: list[RecordText] = []
    for block in blocks:
        text = block_text([block])
        if block.get("type") == "text" and _RESULT.match(text):
            typed = False  # the text that follows is output of a tool
        if not text.lstrip().startswith(_ENVIRONMENT):
            said += _read_given(block, text, typed=typed)
    return said


def _read_given(block: dict[str, Any], text: str, *, typed: bool) -> list[RecordText]:
    """Return the texts of a block in the user's name: typed text, and after it the files that it names."""
    kind = block.get("type")
    if kind == "tool-result" or is_output(kind):
        call = first_word(block, "tool_use_id", "toolCallId")
        return [RecordText.of_result(_result_text(block), call, first_word(block, *_TOOL_NAMES))]
    if kind in _IMAGES or (kind == "text" and typed):
        found = _TYPED.match(text)
        message = read_message(found[2] if found else text, program=bool(_PROGRAM.match(text)))
        behind = text[found.end() :] if found else ""
        return [message, *([RecordText(Role.SYSTEM, Origin.UNKNOWN, TurnKind.MESSAGE, behind)] if behind else [])]
    if kind == "text":
        return [RecordText.of_result(text, None)]
    return [RecordText(Role.SYSTEM, Origin.UNKNOWN, TurnKind.MESSAGE, text)]


def _read_answer(block: dict[str, Any]) -> Iterator[RecordText]:
    kind = block.get("type")
    if kind in _CALLS:
        name, call = first_word(block, *_TOOL_NAMES), first_word(block, "id", "toolCallId")
        yield RecordText.of_call(name, block.get("input"), call)
    elif kind not in _UNSPOKEN:
        yield RecordText(Role.ASSISTANT, Origin.ASSISTANT, TurnKind.MESSAGE, block_text([block]))


def _result_text(block: dict[str, Any]) -> str:
    """Return the text of a tool result. In SDK files, results are objects with a query and its result."""
    content = block.get("content", block.get("output"))
    if type(content) is dict:
        return block_text(content.get("value")) or block_text([content])
    given = [one["result"] for one in mappings(content) if type(one.get("result")) is str]
    return "\n".join(map(clean, given)) if given else output_text(block)


# --- a task -----------------------------------------------------------------------------------------------------------


class _Placed(NamedTuple):
    """Hold a record and the position of the message that it belongs after."""

    after: int
    order: int  # the order after the same message: its own turns first, then the others as they were found
    found: whole.FoundRecord


class _Task:
    """Read the two files of a task as one session."""

    def __init__(self, document: whole.DocumentFile, messages: Sequence[Record], shown: Sequence[Record]) -> None:
        self.messages = messages
        self.shown = [one for one in shown if one.value.get("partial") is not True]
        self.records = whole.SessionRecords(self._identify(document), held=_is_open(messages, document.age))
        if self.records.held:
            self.messages = messages[:-1]
        self.answers = [place for place, one in enumerate(self.messages) if one.value.get("role") == "assistant"]
        self.placed: list[_Placed] = []
        self.left: dict[str, int] = {}  # by the id of a compaction, the tokens that it left
        self.times: dict[int, str | None] = {}  # by the position of a message, its time in the other file

    def _identify(self, document: whole.DocumentFile) -> Identity:
        folder = document.path.parent
        own = folder.name
        if not _TASK.fullmatch(own):
            own = f"{own}-{sha256(str(folder).encode('utf-8', 'replace')).hexdigest()[:8]}"
        item = whole.parse_object(document.beside.get(_HISTORY))
        cwd = block_text(item.get("workspace")) or block_text(item.get("cwdOnTaskInitialization"))
        first = self.messages[0].value if self.messages else {}
        folders = _FOLDER.findall(block_text(first.get("content")))
        parent, started = read_word(item.get("parentTaskId")), _find_start([*self.shown, *self.messages])
        return Identity(own, parent, cwd or (clean(folders[-1]) if folders else None), parent is not None, started)

    def read(self) -> whole.SessionRecords:
        """Return the session: the messages for the model, with the messages that only the other file has in between."""
        condensed = {block_text(one.value.get("condenseId")) for one in self.messages if one.value.get("isSummary")}
        self._find_left()
        if self.shown:
            self._read_shown(condensed)
        seen: dict[str, int] = {}
        for place, record in enumerate(self.messages):
            self._read_message(place, record, seen)
        self.records.found = [one.found for one in sorted(self.placed, key=lambda one: one[:2])]
        return self.records

    def _add(self, after: int, turns: list[Turn], record: Record, *, first: bool = False) -> None:
        if turns:
            # Byte positions in the other file mean nothing in this one.
            place = (record.first_byte, record.last_byte) if first else (0, 0)
            found = whole.FoundRecord(turns, *place, sha256(record.data).digest())
            self.placed.append(_Placed(after, 0 if first else len(self.placed) + 1, found))

    def _read_message(self, place: int, record: Record, seen: dict[str, int]) -> None:
        message = record.value
        digest = sha256(_canonical(message)).hexdigest()
        seen[digest] = seen.get(digest, 0) + 1
        envelope = _envelope(message, _record_id(self.records.identity, digest, seen[digest]), self.records.identity)
        envelope = envelope._replace(at=envelope.at or self.times.get(place))
        is_summary = message.get("isSummary") is True
        if is_summary or message.get("isTruncationMarker") is True:
            own = block_text(message.get("condenseId" if is_summary else "truncationId"))
            text = block_text(message.get("content")) if is_summary else ""
            self._add(place, self._read_compaction(own, text, envelope), record, first=True)
            return
        said = _read_message(message, typed=not self.shown)
        if isinstance(said, str):
            self.records.skipped[said] += 1
            return
        if self.shown and message.get("role") == "user":
            said = [one for one in said if one.tool_call_id is not None or not _is_typed(one.text)]
        turns = turns_of(said, envelope)
        if not self.shown:
            turns += _usage(envelope, _sdk_context(message.get("metrics")))
        self._add(place, turns, record, first=True)

    def _read_compaction(self, own: str, summary: str, envelope: Envelope) -> list[Turn]:
        """Return the turns of a compaction with the tokens that it left. Its id is the same from either file."""
        if own:
            envelope = envelope._replace(record_id=_record_id(self.records.identity, own, 0))
        turns = turns_of(RecordText.of_compaction(summary), envelope)
        return [turns[0]._replace(usage=self.left.get(own)), *turns[1:]]

    # --- what the person sees ---

    def _find_left(self) -> None:
        for one in self.shown:
            for key, own in (("contextCondense", "condenseId"), ("contextTruncation", "truncationId")):
                told = read_mapping(one.value.get(key))
                if left := read_tokens(told.get("newContextTokens")):
                    self.left[block_text(told.get(own))] = left

    def _read_shown(self, condensed: set[str]) -> None:
        after, requests, removed = -1, 0, None
        for number, record in enumerate(self.shown):
            entry = record.value
            given = entry.get("conversationHistoryIndex")
            after = self._place(given, after, requests)
            kind = block_text(entry.get("say") or entry.get("ask"))
            if kind == "api_req_started":
                requests += 1
                self._read_request(record, after, requests, by_index=type(given) is int)
                continue
            deleted = entry.get("conversationHistoryDeletedRange")
            if type(deleted) is list and deleted != removed:
                removed = deleted
                self._add_shown(after, RecordText.of_compaction(), record, f"deleted {deleted}"[:80])
            told = read_mapping(entry.get("contextCondense"))
            if told and not condensed & {"", block_text(told.get("condenseId"))}:
                own, summary = block_text(told.get("condenseId")), block_text(told.get("summary"))
                self._add(after, self._read_compaction(own, summary, self._envelope(record, kind)), record)
                continue
            said = self._read_entry(entry, kind, first=number == 0)
            if isinstance(said, str):
                self.records.skipped[said] += 1
            elif said and not (kind == "followup" and number == len(self.shown) - 1):
                self._add_shown(after, said, record, kind)

    def _place(self, given: object, after: int, requests: int) -> int:
        """Return the position of the message that an entry belongs after.

        The entry itself may name it; otherwise it is the answer to the last request.
        """
        if type(given) is int and given >= -1:
            return given
        return self.answers[min(requests, len(self.answers)) - 1] if requests and self.answers else after

    def _envelope(self, record: Record, kind: str) -> Envelope:
        at, session = record.value.get("ts"), self.records.identity.session_id
        digest = sha256(f"{session}\n{at}\n{kind}".encode("utf-8", "replace")).hexdigest()
        return Envelope(f"sha256:{digest}", read_time(at), self.records.identity.sidechain)

    def _add_shown(self, after: int, said: list[RecordText], record: Record, kind: str) -> None:
        self._add(after, turns_of(said, self._envelope(record, kind)), record)

    def _read_request(self, record: Record, after: int, number: int, *, by_index: bool) -> None:
        """Add the size of the context after the answer to a request. If there is no answer yet, add nothing."""
        told = whole.parse_object(block_text(record.value.get("text")).encode())
        openai = record.value.get("apiProtocol") == "openai"
        cached = 0 if openai else read_tokens(told.get("cacheWrites")) + read_tokens(told.get("cacheReads"))
        given = read_tokens(told.get("tokensIn")) + cached
        usage = given + read_tokens(told.get("tokensOut")) if given else 0
        if by_index:
            place = next((one for one in self.answers if one > after), None)
        else:
            place = self.answers[number - 1] if number <= len(self.answers) else None
        if not self.messages:
            place = after  # the other file does not exist
        answer = len(self.messages) if place is None else place
        at = read_time(record.value.get("ts"))
        self.times |= {answer: at, answer - 1: at}  # for the answer, and for the message that it answers
        if usage and place is not None:
            envelope = self._envelope(record, "api_req_started")
            self._add(place, turns_of((), envelope._replace(message_id=envelope.record_id), usage), record)

    def _read_entry(self, entry: dict[str, Any], kind: str, *, first: bool) -> list[RecordText] | str:
        """Return the texts that only this file has, or all texts if it is the only file.

        An entry without texts to add returns the name under which it is skipped.
        """
        text = block_text(entry.get("text"))
        if kind in ("task", "user_feedback") or (first and kind == "text"):
            return [read_message(text, program=False)]
        if kind in ("followup", "plan_mode_respond"):
            asked = whole.parse_object(text.encode())
            question = block_text(asked.get("question") or asked.get("response"))
            said = [] if self.messages else [_assistant(question or text)]
            chosen = asked.get("selected")
            if type(chosen) is str and chosen:
                choice = clean(f'asked "{question}", chose "{chosen}"')
                said.append(RecordText(Role.USER, Origin.USER, TurnKind.CHOICE, choice))
            return said
        if self.messages:
            return type_name(kind)
        if kind in ("text", "completion_result"):
            return [_assistant(text)]
        if kind in ("tool", "command", "use_mcp_server", "browser_action"):
            return [RecordText.of_call(read_word(whole.parse_object(text.encode()).get("tool")) or kind, text, None)]
        if kind in ("command_output", "mcp_server_response", "browser_action_result"):
            return [RecordText.of_result(text, None)]
        return type_name(kind)


def _assistant(text: str) -> RecordText:
    return RecordText(Role.ASSISTANT, Origin.ASSISTANT, TurnKind.MESSAGE, text)


def _is_typed(text: str) -> bool:
    """Return True if a text for the model was typed, so that the other file has it too."""
    return bool(_TYPED.match(text)) or text.lstrip().startswith("<task>")


def _canonical(message: dict[str, Any]) -> bytes:
    """Return the bytes that identify a message: role, time, id and content."""
    told = [message.get("role"), message.get("ts"), message.get("id"), message.get("content")]
    try:
        return orjson.dumps(told)
    except orjson.JSONEncodeError:
        return repr(told).encode("utf-8", "replace")


def _record_id(identity: Identity, digest: str, count: int) -> str:
    seed = f"{identity.session_id}\n{digest}\n{count}"
    return f"sha256:{sha256(seed.encode('utf-8', 'replace')).hexdigest()}"
