"""Read chats of the Gemini CLI: an event log with one JSON record per line, and the messages of its older JSON files.

Sources: the program's chatRecordingService and chatRecordingTypes, and public chats.
- The first line is `{sessionId, projectHash, startTime, kind}`. The other lines are messages, `$set` and `$rewindTo`.
- A message is written again with the same id when it gets its tokens, tool calls or results. The last version counts.
- `{"$rewindTo": id}` removes that message and all after it. An unknown id removes nothing here, although the program
  then removes everything.
- `{"$set": {"messages": […]}}` is the model's new context, not the conversation. Compression and masking write it. It
  repeats messages, some under new ids. Messages that are missing at its beginning were compressed.
- `tokens.input` includes cached tokens. `total` includes thoughts, which leave the context.
- A subagent's chat is in the folder of its parent: `chats/<parent session>/<id>.jsonl`.

Until early 2026, a chat was one JSON file `{sessionId, projectHash, startTime, messages}`. The file is rewritten with
each message, and its last message gets tokens, calls and their results. If such a chat is resumed, a newer program
writes it again as an event log with the same ids. Both files remain.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from memoryd.transcripts import whole
from memoryd.transcripts.blocks import block_text
from memoryd.transcripts.dialogs import read_answers
from memoryd.transcripts.fields import (
    compact_json,
    mappings,
    read_mapping,
    read_time,
    read_tokens,
    read_word,
    type_name,
)
from memoryd.transcripts.format import UNHEARD, UNKNOWN_PARENT, Identity, LineFormat, RecordTurns, Values, first_of
from memoryd.transcripts.lines import Pass, Record, clean, derived_id
from memoryd.transcripts.record_text import Envelope, RecordText, read_message, turns_of
from memoryd.transcripts.turn import Origin, Role, Turn, TurnKind

ASKS = "ask_user"
_ROOT_FILE = ".project_root"  # a file beside `chats/` that holds only the path of the project
_NOTICES = frozenset({"info", "warning", "error"})
# A message may get more calls and results, so each kind of part has its own range of numbers.
_SLOT = 64
_TEXT, _USAGE, _CALLS = 0, 1, 2

# The program's own words in the user's name; each is one part of a message.
_PROGRAM = re.compile(
    r"\s*(?:<session_context>|This is the Gemini CLI\. We are setting up the context|System: Please continue)"
)
_HOOK = re.compile(r"\s*<hook_context>")
# Without a terminal, the program writes the context of a start before the first prompt, in the same text. Angle
# brackets in the context are escaped.
_HOOK_BEFORE = re.compile(r"\A(\s*<hook_context>[^<]*</hook_context>)\n\n")
_SHELL = re.compile(
    r"(?ms)I ran the following shell command:\s*```\w*\n([^\n]*)\n(.*?)^```\s*This produced the following result:\s*"
)
_SNAPSHOT = re.compile(r"\s*<state_snapshot>")
_ACCEPTED = "Got it. Thanks for the additional context!"
# The program ends the files that it read with a mark. Those that an editor sent have no end mark.
_FILES = re.compile(r"(?s)--- Content from referenced (?:files(?!.*referenced context -).*--- End of content ---|.*)")
_FOLDER = re.compile(
    r"(?:currently working in the (?:following )?director(?:y|ies):\s*(?:- )?|\*\*Workspace Directories:\*\*\s*- )"
    r"([^\n]{1,4096})"
)
# The first members of an older file.
_HEAD = re.compile(rb'\s*\{(?=.{0,4000}"sessionId"\s*:)(?=.{0,4000}"projectHash"\s*:)', re.DOTALL)
_ROOT = f"../{_ROOT_FILE}"
_FIRST = 3  # messages in which the program may name the folder to the model


class Gemini(LineFormat):
    """Read the event log. The session's id is in the first line, and its beginning in the file name."""

    name = "gemini"
    program = "Gemini CLI"

    def is_own(self, value: dict[str, Any]) -> bool:
        """Return True if only the Gemini CLI writes such a record."""
        is_head = "projectHash" in value and "sessionId" in value
        return is_head or "$rewindTo" in value or type(value.get("$set")) is dict

    def identify(self, records: Values, path: PurePosixPath) -> Identity | None:
        """Identify the session by the first line, or by the file name if there is none."""
        head = next((value for value in records if type(value.get("sessionId")) is str), {})
        sidechain = head.get("kind") == "subagent"
        parent = path.parent.name if path.parent.parent.name == "chats" else UNKNOWN_PARENT
        started = read_time(head.get("startTime"))
        session = read_word(head.get("sessionId")) or path.stem
        return Identity(session, parent if sidechain else None, first_of(self.cwd_of, records), sidechain, started)

    def turns(self, record: Record, identity: Identity, meetings: Pass) -> RecordTurns:
        """Return the turns of one record, and the ids of the messages that it removes or restores."""
        value, log = record.value, meetings.recall(_Log)
        if "$rewindTo" in value:
            taken_back = log.rewind(value["$rewindTo"])
            return RecordTurns((), None if taken_back else "rewind", taken_back)
        patch = value.get("$set")
        listed = [] if type(patch) is dict else mappings(value.get("messages"))
        listed = [value] if "id" in value and not listed else listed
        if type(patch) is dict and type(patch.get("messages")) is list:
            marker = derived_id(record, meetings, stamped=True)
            return RecordTurns(log.take_context(mappings(patch["messages"]), identity, marker))
        taken = [log.take(message, identity) for message in listed]
        turns = list(chain.from_iterable(one.turns for one in taken))
        retracted = list(chain.from_iterable(one.retracted for one in taken))
        resumed = list(chain.from_iterable(one.resumed for one in taken))
        return RecordTurns(turns, None if turns or not listed else name_skipped(value), retracted, resumed)

    def cwd_of(self, value: dict[str, Any]) -> str | None:
        """Return the folder in a message of the program to the model, or in the first line of a subagent's chat."""
        folders = value.get("directories")
        if type(folders) is list and folders and type(folders[0]) is str:
            return clean(folders[0])
        patch = read_mapping(value.get("$set"))
        for message in (value, *mappings(patch.get("messages"))[:2]):
            found = _FOLDER.search(block_text(message.get("content"))) if message.get("type") == "user" else None
            if found:
                return clean(found[1]).strip() or None
        return None

    def root_file(self, path: PurePosixPath) -> PurePosixPath | None:
        """Return the path of the file that holds the path of a chat's project; None outside `chats/`."""
        folders = [folder for folder in path.parents if folder.name == "chats"]
        return folders[0].with_name(_ROOT_FILE) if folders else None


def turns_of_message(message: dict[str, Any], *, sidechain: bool = False) -> list[Turn]:
    """Return the turns of one message. The number of a part stays the same when the message gets more parts.

    The record id is the id of the message. A message without an id has no turns.
    """
    own = read_word(message.get("id"))
    if own is None or type(message.get("type")) is not str:
        return []
    envelope = Envelope(own, read_time(message.get("timestamp")), sidechain, own, read_word(message.get("model")))
    turns = _number(_TEXT, turns_of(_texts(message), envelope))
    results: list[Turn] = []
    for slot, call in enumerate(_calls(message)):
        turns += _number(_CALLS + 2 * slot, turns_of(call[:1], envelope))
        results += _number(_CALLS + 2 * slot + 1, turns_of(call[1:], envelope))
    # The measured context includes the calls, but not their results.
    return [*turns, *_number(_USAGE, turns_of((), envelope, _context(message))), *results]


def _number(slot: int, turns: list[Turn]) -> list[Turn]:
    """Number the turns of one part of a message, so that later parts change no number."""
    return [turn._replace(part=slot * _SLOT + min(place, _SLOT - 1)) for place, turn in enumerate(turns[:_SLOT])]


def name_skipped(value: dict[str, Any]) -> str:
    """Return the name under which a record without turns is counted."""
    kind = value.get("type")
    return type_name(kind) if kind in ("user", "gemini", *_NOTICES) else f"{UNHEARD}{type_name(kind)}"


def _context(message: dict[str, Any]) -> int | None:
    """Return the tokens of the context after a response: the prompt with cached tokens, and the answer; else None."""
    tokens = read_mapping(message.get("tokens"))
    given = read_tokens(tokens.get("input"))
    return given + read_tokens(tokens.get("output")) if given and message.get("type") == "gemini" else None


def _texts(message: dict[str, Any]) -> list[RecordText]:
    """Return the texts of a message, without its calls."""
    kind, content = message["type"], message.get("content")
    parts = [{"text": content}] if type(content) is str else mappings(content)
    if kind == "user":
        return list(_user_texts(message, parts))
    if kind not in ("gemini", *_NOTICES):
        return []
    text = "\n".join(_part(part) for part in parts if part.get("thought") is not True)
    if kind in _NOTICES or text.strip() == _ACCEPTED:
        return [read_message(text, program=True)]
    return [RecordText(Role.ASSISTANT, Origin.ASSISTANT, TurnKind.MESSAGE, text)]


def _user_texts(message: dict[str, Any], parts: list[dict[str, Any]]) -> Iterator[RecordText]:
    """Yield the texts of a message in the user's name: typed, added by the program, or read from files."""
    typed = message.get("displayContent")
    if type(typed) is str or mappings(typed):
        shown = typed if type(typed) is str else "\n".join(map(_part, mappings(typed)))
        yield read_message(_HOOK_BEFORE.split(clean(shown))[-1], program=False)
    texts = [text for part in parts if "functionResponse" not in part for text in _HOOK_BEFORE.split(_part(part))]
    for text, is_file in _mark_files(texts):
        if _HOOK.match(text):
            yield RecordText(Role.SYSTEM, Origin.INJECTED, TurnKind.MESSAGE, text)
        elif is_file:
            yield RecordText(Role.SYSTEM, Origin.UNKNOWN, TurnKind.MESSAGE, text)
        elif _SNAPSHOT.match(text):
            yield RecordText(Role.SYSTEM, Origin.ASSISTANT, TurnKind.SUMMARY, text)
        elif _PROGRAM.match(text):
            yield read_message(text, program=True)
        elif ran := _SHELL.match(text):
            yield read_message(ran[1], program=False)
            yield RecordText(Role.TOOL, Origin.TOOL, TurnKind.MESSAGE, ran[2] + text[ran.end() :])
        elif not typed:
            yield read_message(text, program=False)


def _mark_files(texts: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield texts, each with whether it is from files.

    The program puts files behind the typed text. A file may contain marks too, so everything behind the first mark
    counts as files. Older versions write a whole prompt as one text, in which the last mark ends the files. Marks in
    the program's other texts do not count.
    """
    added = (_HOOK, _SNAPSHOT, _PROGRAM, _SHELL)
    are_typed = [bool(text.strip()) and not any(one.match(text) for one in added) for text in texts]
    is_file = False
    for text, is_typed in zip(texts, are_typed, strict=True):
        found = _FILES.search(text) if is_typed else None
        begin, end = found.span() if found and not is_file else (0, 0)
        is_file |= found is not None and sum(are_typed) > 1
        end = len(text) if is_file else end
        yield from ((text[:begin], False), (text[begin:end], True), (text[end:], False))


def _part(part: dict[str, Any]) -> str:
    """Return the text of a part; an attached file is shown as a marker."""
    if type(part.get("text")) is str:
        return clean(part["text"])
    if "functionCall" in part or "functionResponse" in part:
        return ""
    return "[file]" if "inlineData" in part or "fileData" in part else ""


def _calls(message: dict[str, Any]) -> Iterator[list[RecordText]]:
    """Yield, for each tool call, the texts of the call, its result, and the person's answers in a dialog."""
    calls = mappings(message.get("toolCalls"))
    for call in calls:
        own, tool, given = read_word(call.get("id")), read_word(call.get("name")), call.get("args")
        texts = [RecordText.of_call(tool, given, own)]
        shown = call.get("resultDisplay")
        result = _result_text(call.get("result")) or (clean(shown) if type(shown) is str else "")
        if result or call.get("result"):
            texts.append(RecordText.of_result(result, own, tool))
        if tool == ASKS and call.get("status") == "success" and own is not None:
            texts += read_answers(_answers(read_mapping(given), result), own, ASKS)
        yield texts
    for part in mappings(message.get("content")):
        if "functionCall" in part and not calls:
            called = read_mapping(part["functionCall"])
            yield [RecordText.of_call(read_word(called.get("name")), called.get("args"), read_word(called.get("id")))]
        elif "functionResponse" in part:
            given = read_mapping(part["functionResponse"])
            yield [RecordText.of_result(_result_text([part]), read_word(given.get("id")), read_word(given.get("name")))]


def _result_text(result: object) -> str:
    """Return the result of a tool: its output or its error; otherwise the whole response as JSON."""
    texts: list[str] = []
    for part in mappings(result):
        response = read_mapping(read_mapping(part.get("functionResponse")).get("response"))
        own = next((response[key] for key in ("output", "error") if type(response.get(key)) is str), None)
        own = compact_json(response) if own is None and response else own
        texts.append(clean(own) if own is not None else _part(part))
    return "\n".join(text for text in texts if text)


def _answers(given: dict[str, Any], result: str) -> dict[str, Any]:
    """Return the questions, and the answers keyed by question.

    The program keys its answers by the question's number.
    """
    answered = read_mapping(whole.parse_object(result).get("answers"))
    questions = mappings(given.get("questions"))
    by_question = {
        one["question"]: answered[str(place)]
        for place, one in enumerate(questions)
        if type(one.get("question")) is str and str(place) in answered
    }
    return {"questions": questions, "answers": by_question}


@dataclass(slots=True)
class _Message:
    """Hold the last version of one message."""

    record_id: str
    kind: str
    parts: dict[int, str]  # by the number of a part, the hash of its text
    version: int = 1

    def build_key(self) -> tuple[str, ...]:
        """Return the key that a message shares with its copies: its text, or its calls. A copy may lack the results."""
        texts = [text for part, text in self.parts.items() if part // _SLOT == _TEXT]
        calls = (text for part, text in self.parts.items() if part >= _CALLS * _SLOT and part // _SLOT % 2 == 0)
        return (self.kind, *(texts or calls))


def _read(turns: Sequence[Turn], message: dict[str, Any]) -> _Message:
    """Return the stored form of a message. A hash of each part is enough to notice a change."""
    parts = {turn.part: sha256(turn.text.encode("utf-8", "replace")).hexdigest()[:16] for turn in turns}
    return _Message(turns[0].record_id, str(message.get("type")), parts)


_Copies = dict[tuple[str, ...], list[_Message]]  # messages with the same key, in order


@dataclass(slots=True)
class _Log:
    """Hold the messages of a chat so far, in the order of the program's list."""

    messages: dict[str, _Message] = field(default_factory=dict)
    taken_back: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)  # ids of calls whose result is known

    def take(self, message: dict[str, Any], identity: Identity) -> RecordTurns:
        """Add a message, or replace the earlier version with the same id."""
        turns = self._without_known_results(turns_of_message(message, sidechain=identity.sidechain))
        if not turns:
            return RecordTurns()
        new = _read(turns, message)
        known = self.messages.setdefault(turns[0].record_id, new)
        retracted: list[str] = []
        if known is not new:
            if any(new.parts.get(part) != text for part, text in known.parts.items()):
                retracted = [known.record_id]
                known.version += 1
                known.record_id = f"{turns[0].record_id}/{known.version}"
            known.parts = new.parts
        self.taken_back.update(retracted)
        resumed = [known.record_id] if known.record_id in self.taken_back else []
        self.taken_back.difference_update(resumed)
        return RecordTurns([turn._replace(record_id=known.record_id) for turn in turns], None, retracted, resumed)

    def rewind(self, to: object) -> list[str]:
        """Remove a message and all after it; return the ids of their records."""
        ids = list(self.messages)
        left = ids[ids.index(to) :] if type(to) is str and to in self.messages else []
        records = [self.messages.pop(one).record_id for one in left]
        self.taken_back.update(records)
        return records

    def take_context(self, listed: list[dict[str, Any]], identity: Identity, marker: str) -> list[Turn]:
        """Replace the list by the model's new context.

        Returns the new turns. They begin with a compaction if the beginning of the list was compressed.
        """
        before, self.messages = self.messages, {}
        kept = {read_word(message.get("id")) for message in listed}
        spare: _Copies = {}  # messages that are now under another id or missing
        for own, one in before.items():
            if own not in kept:
                spare.setdefault(one.build_key(), []).append(one)
        turns: list[Turn] = []
        for message in listed:
            if found := self._without_known_results(turns_of_message(message, sidechain=identity.sidechain)):
                turns += self._place(found, _read(found, message), before, spare)
        first = next((one for one in before.values() if one.kind in ("user", "gemini")), None)
        if listed and first is not None and any(one is first for left in spare.values() for one in left):
            said = RecordText(Role.SYSTEM, Origin.SYSTEM, TurnKind.COMPACTION, "")
            at = next((turn.at for turn in turns), None)
            turns = [*turns_of([said], Envelope(marker, at, identity.sidechain)), *turns]
        return turns

    def _place(self, found: list[Turn], new: _Message, before: dict[str, _Message], spare: _Copies) -> list[Turn]:
        """Put a message of a context into the list; return the turns that are new."""
        copies = spare.get(new.build_key())
        known = before.get(new.record_id) or (copies.pop(0) if copies else None)
        self.messages[new.record_id] = known or new
        if known is None:
            return found
        if new.record_id not in before:
            return []
        # A changed text was only masked, so the message stays.
        fresh = [turn._replace(record_id=known.record_id) for turn in found if turn.part not in known.parts]
        known.parts = new.parts | known.parts
        return fresh

    def _without_known_results(self, turns: list[Turn]) -> list[Turn]:
        """Drop a result that a message in the user's name repeats, if the record of the call has it already."""
        if turns and turns[0].part // _SLOT >= _CALLS and all(one.kind is TurnKind.TOOL_RESULT for one in turns):
            return [one for one in turns if one.tool_call_id is None or one.tool_call_id not in self.answered]
        self.answered.update(one.tool_call_id or "" for one in turns if one.kind is TurnKind.TOOL_RESULT)
        return turns


class GeminiFile(whole.DocumentFormat):
    """Read one of the older JSON files. Its messages are read as in the event log."""

    name = Gemini.name
    program = "Gemini CLI"

    def sniff(self, head: bytes, path: PurePosixPath) -> bool:
        """Return True if a file begins with the first members of such a chat."""
        return bool(_HEAD.match(head))

    def list_companions(self, path: PurePosixPath, found: Iterable[str]) -> Sequence[str]:
        """Return the name of the file that holds the path of the project."""
        return (_ROOT,) if path.parent.name == "chats" else ()

    def read(self, document: whole.DocumentFile) -> whole.SessionRecords | None:
        """Return the chat. Its last answer is included only when it is finished."""
        if (parsed := whole.parse_document(document.data)) is None:
            return None
        members, records = parsed
        identity = Gemini().identify([members, *(one.value for one in records[:_FIRST])], document.path)
        if identity is None:
            return None
        root = clean(document.beside.get(_ROOT, b"").decode("utf-8", "replace")).strip()
        found = whole.SessionRecords(identity if identity.cwd or not root else identity._replace(cwd=root))
        last = records[-1].value if records else {}
        found.held = last.get("type") == "gemini" and document.age < whole.RESTED_SECONDS
        for record in records[:-1] if found.held else records:
            turns = turns_of_message(record.value, sidechain=identity.sidechain)
            found.add(turns, record)
            if not turns:
                found.skipped[name_skipped(record.value)] += 1
        return found
