"""Read session files of the Codex CLI, versions 0.2 to 0.169: one JSON record per line.

The format is internal to the program and changes between versions. So unknown records are counted and skipped. Sources:
codex-rs/protocol, and public rollouts.
- Until 0.33, a line is a bare item of the Responses API, after a first line `{id, timestamp, instructions}`. Since then
  it is `{timestamp, type, payload}`, and the item is the payload of a `response_item`.
- Typed text is in events: `user_message` until 0.145, `item_completed` of a `UserMessage` in 0.169. The item with the
  role `user` repeats it. Other text in that role (AGENTS.md, the environment, notices) is the program's and begins with
  a tag or a title. A `developer` message comes from the program or a hook.
- `token_count` gives the context after the response: `last_token_usage.total_tokens`. After a compaction, this is what
  remains, and its other numbers are zero. `total_token_usage` is the sum of all tokens ever spent.
- The answers to `request_user_input` are in its output, by the ids of the questions. Only the call has the questions.
- A compaction repeats old messages in `replacement_history`. Its summary may be encrypted.
- Forks and subagents begin with lines of the session that they come from, including its `session_meta`. The first
  `session_meta` is the file's own.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import Any

from memoryd.transcripts.blocks import block_text
from memoryd.transcripts.dialogs import read_answers
from memoryd.transcripts.fields import mappings, read_mapping, read_time, read_tokens, read_word, type_name
from memoryd.transcripts.format import UNKNOWN_PARENT, Identity, LineFormat, RecordTurns, Values, first_of
from memoryd.transcripts.injected import strip
from memoryd.transcripts.lines import Pass, Record, clean, derived_id
from memoryd.transcripts.record_text import Envelope, RecordText, of_blocks, read_message, turns_of
from memoryd.transcripts.turn import Origin, Role, TurnKind
from memoryd.transcripts.whole import parse_object

_ENVELOPES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
# Records without new content: the model's reasoning, notices, and copies of other records.
_PASSED_OVER = frozenset({
    *_ENVELOPES, "world_state", "token_usage_record", "inter_agent_communication_metadata", "state", "reasoning",
    *(f"response_item/{name}" for name in ("reasoning", "message/user", "compaction", "ghost_snapshot")),
    *(f"event_msg/{name}" for name in (
        "agent_message", "agent_reasoning", "agent_reasoning_raw_content", "agent_reasoning_section_break",
        "token_count", "task_started", "task_complete", "turn_aborted", "context_compacted", "exec_command_end",
        "patch_apply_end", "mcp_tool_call_end", "web_search_end", "sub_agent_activity", "entered_review_mode",
        "exited_review_mode", "thread_name_updated", "thread_settings_applied", "error", "warning", "plan_update",
    )),
    *(f"item_completed/{name}" for name in (
        "AgentMessage", "CommandExecution", "ContextCompaction", "Reasoning", "FileChange", "McpToolCall", "WebSearch",
        "Plan", "ImageView", "EnteredReviewMode", "ExitedReviewMode",
    )),
})  # fmt: skip
_COLLABORATION = "event_msg/collab_"
_NAME = re.compile(
    r"rollout-.{19}-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.jsonl)?", re.IGNORECASE | re.DOTALL
)
_ENVIRONMENT = re.compile(r"\s*<environment_context>.{0,2000}?<cwd>([^<]{1,4096})</cwd>", re.DOTALL)
# The program's own words in the user's name begin with a tag, or with the title of the file that they come from. Typed
# text may also begin with a tag. So any other tag counts as the program's only if the typed text is in an event.
_PROGRAM = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|turn_aborted|user_shell_command|subagent_notification|skill)\b"
    r"|# AGENTS\.md instructions for )"
)
_TAGGED = re.compile(r"\s*<[a-z][a-z_-]{2,60}(?:\s[^<>]{0,400})?>")
# The editor plug-in puts the open files and the selection before the typed text, which may be missing.
_EDITOR = re.compile(r"\s*# Context from my IDE setup:")
_REQUEST = "## My request for Codex:"
# A plan that the person accepted. The program sends it in their name, but the assistant wrote it.
_PLAN = re.compile(r"\s*(?:PLEASE IMPLEMENT THIS PLAN:|A previous agent produced the plan below\b)")
ASKS = "request_user_input"
_ANSWERS = re.compile(r'\s*\{\s*"answers"')
_NOTE = "user_note: "  # begins text that was typed in addition to the options
# A shorter id, or a word such as `review_rollout_user`, may occur in other records and other sessions.
_OWN_ID = re.compile(r"(?=(?:\D*\d){4}).{16,}", re.DOTALL)


class Codex(LineFormat):
    """Read the lines. A session is identified by the id in its first `session_meta`, which is also in its file name."""

    name = "codex"
    program = "Codex"
    version_key = "cli_version"

    def is_own(self, value: dict[str, Any]) -> bool:
        """Return True if only Codex writes such a record."""
        kind = value.get("type")
        is_item = type(kind) is str and kind in _ENVELOPES and type(value.get("payload")) is dict
        return is_item or is_legacy_head(value)

    def identify(self, records: Values, path: PurePosixPath) -> Identity | None:
        """Identify the session by its first `session_meta`, or by the file name if there is none."""
        meta = next((found for found in map(_meta, records) if found), {})
        named = _NAME.fullmatch(path.name)
        session = read_word(meta.get("id")) or (named[1].lower() if named else path.stem)
        parent, cwd = _parent(meta), first_of(self.cwd_of, records)
        started = read_time(meta.get("timestamp"))
        return Identity(session, parent, cwd, sidechain=parent is not None, started_at=started)

    def is_known(self, skipped: str) -> bool:
        """Return True if this kind of record is known to have no new content."""
        return skipped in _PASSED_OVER or skipped.startswith(_COLLABORATION)

    def version_of(self, value: dict[str, Any]) -> str | None:
        """Return the program's version, which the first line of a session has."""
        return super().version_of(_meta(value) or {})

    def turns(self, record: Record, identity: Identity, meetings: Pass) -> RecordTurns:
        """Return the turns of one record."""
        value = record.value
        payload, bare = _payload(value)
        said = _read_record(value, payload, bare=bare)
        if isinstance(said, str):
            return RecordTurns((), said)
        output = payload.get("output")
        if payload.get("name") == ASKS or (type(output) is str and _ANSWERS.match(output)):
            said = said + _dialog(payload, meetings.recall(dict[str, object]))
        at = read_time(value.get("timestamp"))
        usage, window = _context(payload) if value.get("type") == "event_msg" else (None, None)
        if not said and usage is None:
            return RecordTurns()
        turns = turns_of(said, Envelope(_record_id(record, payload, meetings, at), at, identity.sidechain), usage)
        return RecordTurns([turn._replace(window=window) for turn in turns] if window else turns)

    def cwd_of(self, value: dict[str, Any]) -> str | None:
        """Return the folder that the program works in. Old versions only write it in a message to the model."""
        payload, bare = _payload(value)
        if bare:
            found = _ENVIRONMENT.match(block_text(payload.get("content"))) if payload.get("role") == "user" else None
            return clean(found[1]).strip() or None if found else None
        return super().cwd_of(payload) if value.get("type") in ("session_meta", "turn_context") else None


def is_legacy_head(value: dict[str, Any]) -> bool:
    """Return True if a record is the first line of the oldest kind of session file."""
    return "type" not in value and {"id", "timestamp", "instructions"} <= value.keys()


def _payload(value: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the item of a line, and whether it is a bare item of an old version."""
    payload = value.get("payload")
    return (payload, False) if type(payload) is dict else (value, "payload" not in value)


def _meta(value: dict[str, Any]) -> dict[str, Any] | None:
    if is_legacy_head(value):
        return value
    payload = value.get("payload")
    return payload if value.get("type") == "session_meta" and type(payload) is dict else None


def _parent(meta: dict[str, Any]) -> str | None:
    """Return the parent session of a subagent, or None for a person's own session or fork."""
    kind = read_mapping(meta.get("source")).get("subagent")
    if not kind and meta.get("thread_source") != "subagent":
        return None
    started = read_mapping(read_mapping(kind).get("thread_spawn")).get("parent_thread_id")
    named = map(read_word, (started, meta.get("parent_thread_id"), meta.get("forked_from_id")))
    return next((one for one in named if one), UNKNOWN_PARENT)


def _record_id(record: Record, payload: dict[str, Any], meetings: Pass, at: str | None) -> str:
    item = payload.get("item")
    own = read_word((item if type(item) is dict else payload).get("id"))
    return own if own and _OWN_ID.fullmatch(own) else derived_id(record, meetings, stamped=at is not None)


def _read_record(value: dict[str, Any], payload: dict[str, Any], *, bare: bool) -> list[RecordText] | str:
    """Return the texts of a record, or the name under which it is skipped."""
    kind, inner = value.get("type"), payload.get("type")
    if bare:
        return _item(value, typed=True) if kind else "state"
    if kind == "response_item":
        said = _item(payload, typed=False)
        return f"response_item/{said}" if isinstance(said, str) else said
    if kind == "compacted":
        return RecordText.of_compaction(block_text(payload.get("message")))
    if kind != "event_msg":
        return type_name(kind)
    return [] if inner == "token_count" and _context(payload)[0] else _event(payload, inner)


def _event(payload: dict[str, Any], kind: object) -> list[RecordText] | str:
    if kind == "user_message":
        text = block_text(payload.get("message"))
        return _split_authors(text) if payload.get("kind", "plain") == "plain" else [read_message(text, program=True)]
    item = payload.get("item")
    if kind == "item_completed" and type(item) is dict:
        if item.get("type") == "UserMessage":
            return of_blocks(item.get("content"), _split_authors)
        return f"item_completed/{type_name(item.get('type'))}"
    return f"event_msg/{type_name(kind)}"


def _split_authors(text: str) -> list[RecordText]:
    if _PROGRAM.match(text) or (_EDITOR.match(text) and _REQUEST not in text):
        return [read_message(text, program=True)]
    if _PLAN.match(text):
        return [RecordText(Role.ASSISTANT, Origin.ASSISTANT, TurnKind.MESSAGE, text)]
    if _EDITOR.match(text):
        # An open file may contain the marker too, so the typed text is after the last marker.
        before, _, text = text.rpartition(_REQUEST)
        return [read_message(before, program=True), *_split_authors(text.strip())]
    return [read_message(text, program=False)]


def _item(item: dict[str, Any], *, typed: bool) -> list[RecordText] | str:
    """Return the texts of one item of the Responses API. With `typed`, the user's messages are the person's."""
    kind = item.get("type")
    read = _READERS.get(kind) if type(kind) is str else None
    if read is not None:
        return read(item)
    if kind != "message":
        return type_name(kind)
    role, content = item.get("role"), item.get("content")
    if role == "assistant":
        return [RecordText(Role.ASSISTANT, Origin.ASSISTANT, TurnKind.MESSAGE, block_text(content))]
    if role in ("developer", "system"):
        return [RecordText(Role.SYSTEM, Origin.INJECTED, TurnKind.MESSAGE, block_text(content))]
    if role != "user":
        return f"message/{type_name(role)}"
    if typed:
        return [one for text in _texts(content) for one in _split_authors(text)]
    # The typed text is also in an event. Here it cannot be distinguished from similar text of the program.
    program = [text for text in _texts(content) if _PROGRAM.match(text) or _TAGGED.match(strip(text)[0])]
    return [read_message(text, program=True) for text in program] or "message/user"


def _texts(content: object) -> Iterable[str]:
    return map(block_text, ([block] for block in content)) if type(content) is list else [block_text(content)]


def _call(item: dict[str, Any]) -> list[RecordText]:
    kind = item["type"]
    given = next((item[key] for key in ("arguments", "input", "action") if key in item), None)
    return [
        RecordText.of_call(
            read_word(item.get("name")) or kind.removesuffix("_call"), given, read_word(item.get("call_id"))
        )
    ]


def _result(item: dict[str, Any]) -> list[RecordText]:
    output = item.get("output")
    output = output.get("content") if type(output) is dict else output
    text = _unwrap_output(output) if type(output) is str else block_text(output)
    return [RecordText.of_result(text, read_word(item.get("call_id")))]


def _dialog(payload: dict[str, Any], asked: dict[str, object]) -> list[RecordText]:
    """Store the questions of a call in `asked`, or return the person's answers to the questions of an earlier call."""
    call = read_word(payload.get("call_id"))
    if call is None:
        return []
    if payload.get("name") == ASKS:
        asked[call] = parse_object(payload.get("arguments")).get("questions")
        return []
    questions = mappings(asked.get(call))
    names = {
        one["id"]: one["question"] for one in questions if {type(one.get("id")), type(one.get("question"))} == {str}
    }
    answers: dict[str, list[str]] = {}
    notes: dict[str, dict[str, str]] = {}
    for own, answer in read_mapping(parse_object(payload.get("output")).get("answers")).items():
        given = read_mapping(answer).get("answers")
        texts = [one for one in given if type(one) is str] if type(given) is list else []
        answers[names.get(own, own)] = [one for one in texts if not one.startswith(_NOTE)]
        notes[names.get(own, own)] = {"notes": "\n".join(one[len(_NOTE) :] for one in texts if one.startswith(_NOTE))}
    return list(read_answers({"questions": questions, "answers": answers, "annotations": notes}, call, ASKS))


def _unwrap_output(output: str) -> str:
    """Return the text of a tool result that is the JSON `{"output": …, "metadata": …}`; other text stays as it is.

    Only the metadata show that the command failed. Its exit code becomes the first line, as in other programs.
    """
    if output.startswith('{"output":'):
        value = parse_object(output)
        if type(value.get("output")) is str and value.keys() <= {"output", "metadata"}:
            code = read_mapping(value.get("metadata")).get("exit_code")
            return clean(f"Exit code {code}\n{value['output']}" if type(code) is int and code else value["output"])
    return clean(output)


_READERS: dict[str, Callable[[dict[str, Any]], list[RecordText]]] = {
    **dict.fromkeys(("function_call", "custom_tool_call", "local_shell_call", "web_search_call"), _call),
    **dict.fromkeys(("function_call_output", "custom_tool_call_output"), _result),
}


def _context(payload: dict[str, Any]) -> tuple[int | None, int | None]:
    """Return the tokens of the context and of its window from a `token_count`, or None for each that is missing.

    The record may repeat, which changes nothing.
    """
    info = payload.get("info") if payload.get("type") == "token_count" else None
    if type(info) is not dict:
        return None, None
    last = read_tokens(read_mapping(info.get("last_token_usage")).get("total_tokens"))
    return last or None, read_tokens(info.get("model_context_window")) or None
