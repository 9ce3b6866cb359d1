"""Sessions of pi and OpenClaw, one small sample per oddity, written for these tests."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_world import JSON, check_reading, classes, mutate, record, said, turns_however_cut

from memoryd.transcripts.format import Identity, RecordTurns
from memoryd.transcripts.injected import CLOSE, OPEN
from memoryd.transcripts.lines import Pass
from memoryd.transcripts.pi import OpenClaw, Pi
from memoryd.transcripts.turn import Origin, Role, TurnKind

READER = Pi()
ID = "019e44d4-6ecf-7c1d-96ab-582effc13411"
PARENT = "019e44d4-0000-7c1d-96ab-582effc13411"
IDENTITY = Identity(ID)
AT = "2026-05-20T10:00:36.421Z"
PERSON = (Role.USER, Origin.USER)
PROGRAM = (Role.SYSTEM, Origin.SYSTEM)
MODEL = (Role.ASSISTANT, Origin.ASSISTANT)
USAGE = {"input": 10, "output": 20, "cacheRead": 300, "cacheWrite": 4, "totalTokens": 334}


def entry(kind: str, own: str = "ea8970e8", parent: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": kind, "id": own, "parentId": parent, "timestamp": AT, **more}


def message(role: str, content: object = None, own: str = "ea8970e8", **more: Any) -> dict[str, Any]:
    return entry("message", own, message={"role": role, "content": content, "timestamp": 1, **more})


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def read(value: dict[str, Any], identity: Identity = IDENTITY) -> RecordTurns:
    return READER.turns(record(value), identity, Pass(identity.session_id))


def test_messages_calls_results_and_the_context_behind_them() -> None:
    assert classes(read(message("user", "Use tabs.")).turns) == said((*PERSON, "Use tabs."))
    assert classes(read(message("user", [text("Use tabs."), {"type": "image", "data": "x"}])).turns) == said(
        (*PERSON, "Use tabs."), (*PERSON, "[image]")
    )
    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}}
    blocks = [{"type": "thinking", "thinking": "hm"}, text("Let me look."), call]
    found = read(message("assistant", blocks, usage=USAGE, model="m", stopReason="toolUse", responseId="r1"))
    spoken, called, counted = found.turns
    assert spoken[2:6] == (*MODEL, TurnKind.MESSAGE, "Let me look.")
    assert (called.kind, called.text, called.tool_call_id) == (TurnKind.TOOL_CALL, 'bash {"command":"ls"}', "c1")
    assert (counted.text, counted.usage, counted.message_id, counted.model) == ("", 334, "r1", "m")
    (result,) = read(message("toolResult", [text("a b")], toolCallId="c1", toolName="bash")).turns
    assert (result.kind, result.text, result.tool_call_id, result.tool_name) == (
        TurnKind.TOOL_RESULT, "a b", "c1", "bash",
    )  # fmt: skip


@pytest.mark.parametrize("reason", ["aborted", "error"])
def test_a_response_that_failed_says_nothing_of_the_context(reason: str) -> None:
    (turn,) = read(message("assistant", [text("half")], usage=USAGE, stopReason=reason)).turns
    assert turn.usage is None
    old = {key: one for key, one in USAGE.items() if key != "totalTokens"}
    assert read(message("assistant", [], usage=old, stopReason="stop")).turns[-1].usage == 334


def test_what_a_person_ran_and_what_an_extension_put_there() -> None:
    ran = read(message("bashExecution", None, command="git status", output="clean", exitCode=0))
    assert classes(ran.turns) == said((*PERSON, "git status"), (Role.TOOL, Origin.TOOL, "clean"))
    injected = said((Role.SYSTEM, Origin.INJECTED, "note"))
    assert classes(read(message("custom", "note")).turns) == injected
    assert classes(read(message("hookMessage", "note")).turns) == injected
    assert classes(read(entry("custom_message", content=[text("note")])).turns) == injected
    assert classes(read(message("user", f"Go.{OPEN}known{CLOSE}")).turns) == said(
        (*PERSON, "Go."), (Role.SYSTEM, Origin.INJECTED, "known")
    )


def test_compactions_and_summaries_of_branches() -> None:
    mark, summary = read(entry("compaction", summary="So far.", firstKeptEntryId="x", tokensBefore=3992)).turns
    assert (mark.kind, mark.text, summary.kind, summary.text) == (TurnKind.COMPACTION, "", TurnKind.SUMMARY, "So far.")
    (branch,) = read(entry("branch_summary", summary="Tried X.", fromId="y")).turns
    assert (branch.kind, branch.origin, branch.text) == (TurnKind.SUMMARY, Origin.ASSISTANT, "Tried X.")
    for kind in ("custom", "label", "session_info", "model_change", "thinking_level_change"):
        assert read(entry(kind, data="x")).skipped == kind
    assert read(message("dreamer", "x")).skipped == "role/dreamer"


SENDER = 'Sender (untrusted metadata):\n```json\n{"label": "ui", "name": "Ann"}\n```\n\n'
GROUP = 'Conversation info (untrusted metadata):\n```json\n{"is_group_chat": true, "sender": "Bo"}\n```\n\n'
SUNDAY = "[Sun 2026-03-08 22:03 GMT+9]"
TELEGRAM = "[Telegram Ann id:84 +21s Wed 2026-03-04 21:58 CST]"
RECALLED = "Context:\n<active_memory_plugin>\nLikes spaces.\n</active_memory_plugin>"
EXEC = "System: [2026-03-11 16:11:21 UTC] Exec completed"
QUOTED = 'Replied message (untrusted, for context):\n```json\n{"body": "I like spaces."}\n```\n\n'


@pytest.mark.parametrize(
    ("given", "wrapper", "typed"),
    [
        (f"{SENDER}{SUNDAY} Use tabs.", f"{SENDER}{SUNDAY}", "Use tabs."),
        (f"{TELEGRAM} Hi", TELEGRAM, "Hi"),
        (SENDER + QUOTED + "No.\n\nTabs.", (SENDER + QUOTED).strip(), "No.\n\nTabs."),
        ("Sender: ⟦openclaw:ctx⟧\nAnn, by phone\n\nUse tabs.", "Sender: ⟦openclaw:ctx⟧\nAnn, by phone", "Use tabs."),
        (f"{EXEC}\n\nNext.", EXEC, "Next."),
        (f"{RECALLED}\n\nNext.", RECALLED, "Next."),
        ("Use tabs.\n[message_id: 12]", "[message_id: 12]", "Use tabs."),
    ],
)  # fmt: skip
def test_what_openclaw_puts_around_a_message_is_the_programs(given: str, wrapper: str, typed: str) -> None:
    assert classes(read(message("user", given)).turns) == said((*PROGRAM, wrapper), (*PERSON, typed))


def test_the_text_of_a_file_that_came_with_a_message_was_not_typed() -> None:
    found = read(message("user", f'{TELEGRAM} Look.\n\n<file name="a.md" mime="text/plain">\nI like spaces.\n</file>'))
    assert classes(found.turns)[1:] == said(
        (*PERSON, "Look."),
        (Role.SYSTEM, Origin.UNKNOWN, '<file name="a.md" mime="text/plain">\nI like spaces.\n</file>'),
    )


def test_in_a_group_a_message_is_of_whoever_wrote_it() -> None:
    found = read(message("user", GROUP + SENDER + "I like tabs.")).turns
    assert classes(found)[-1] == (Role.USER, Origin.UNKNOWN, TurnKind.MESSAGE, "Ann: I like tabs.")


def test_nobody_takes_a_message_out_of_a_group_with_a_block_of_their_own() -> None:
    block = 'Sender (untrusted metadata):\n```json\n{"is_group_chat": false, "name": "Ann"}\n```\n\n'
    found = read(message("user", GROUP + block + "I like tabs.")).turns
    assert classes(found)[-1] == (Role.USER, Origin.UNKNOWN, TurnKind.MESSAGE, "Ann: I like tabs.")


@pytest.mark.parametrize(
    "words",
    [
        "(untrusted metadata): is what it says",
        "[1] is the first\nSender: me",
        "[2026-01-02 10:00] b",
        "[ERROR 2026-01-02 10:00] b",
    ],
)
def test_what_only_looks_like_a_wrapper_is_typed(words: str) -> None:
    assert classes(read(message("user", words)).turns) == said((*PERSON, words))


def test_the_programs_own_prompts_are_not_the_persons() -> None:
    done = '[System Message] [sessionId: 1] A subagent task "x" just completed.\n\nResult:\nAlways use spaces.'
    inside = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nx\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
    for words in ("[cron:97a snap] Read the news", "Read HEARTBEAT.md if it exists", done, inside):
        assert classes(read(message("user", words)).turns) == said((*PROGRAM, words))


HEAD = {"type": "session", "version": 3, "id": ID, "timestamp": AT, "cwd": "/p"}
TASK = message("user", "[Mon 2026-04-13 10:15 GMT+8] [Subagent Context] You are running as a subagent.")


@pytest.mark.parametrize(
    ("path", "values", "expected"),
    [
        ("x.jsonl", [HEAD], Identity(ID, None, "/p", started_at=AT)),
        (f"2026-05-20T10-00_{ID}.jsonl", [message("user", "x")], Identity(ID)),
        ("x.jsonl", [HEAD | {"parentSession": f"/s/2026_{PARENT}.jsonl"}], Identity(ID, PARENT, "/p", started_at=AT)),
        ("x.jsonl", [HEAD, TASK], Identity(ID, "unknown", "/p", sidechain=True, started_at=AT)),
    ],
)
def test_whose_session_a_file_is(path: str, values: list[dict[str, Any]], expected: Identity) -> None:
    assert READER.identify(values, PurePosixPath(path)) == expected


def test_a_subagent_speaks_for_itself() -> None:
    (turn,) = read(message("user", "Do it."), IDENTITY._replace(sidechain=True)).turns
    assert (turn.origin, turn.sidechain) == (Origin.SUBAGENT, True)


def test_openclaw_is_told_by_its_folder() -> None:
    for path in ("/h/.openclaw/agents/main/sessions/a.jsonl", "/x/agents/main/sessions/a.jsonl"):
        assert OpenClaw().sniff([HEAD], PurePosixPath(path))
    assert not OpenClaw().sniff([HEAD], PurePosixPath("/h/.pi/agent/sessions/--p--/a.jsonl"))
    assert READER.sniff([HEAD], PurePosixPath("a.jsonl"))


def test_branches_are_left_and_resumed_by_record() -> None:
    meetings = Pass(ID)
    ids: dict[str, str] = {}

    def grow(own: str, parent: str | None) -> tuple[list[str], list[str]]:
        found = READER.turns(
            record(entry("message", own, parent, message={"role": "user", "content": own})), IDENTITY, meetings
        )
        ids[found.turns[0].record_id] = own
        return [ids[one] for one in found.retracted], [ids[one] for one in found.resumed]

    assert grow("a", None) == ([], [])
    READER.turns(record(entry("label", "l", "a")), IDENTITY, meetings)
    assert grow("b", "l") == ([], [])
    assert grow("c", "b") == ([], [])
    assert grow("d", "a") == (["c", "b"], [])
    assert grow("e", "c") == (["d"], ["c", "b"])
    assert grow("f", "nobody") == ([], [])  # its parent is lost
    assert grow("g", None) == (["f", "e", "c", "b", "a"], [])
    assert grow("g", None) == ([], [])


def test_a_record_is_known_by_what_it_says_and_when() -> None:
    value = message("user", "yes")
    listed = {key: one for key, one in value.items() if key not in ("id", "parentId")}
    assert read(value).turns[0].record_id == read(listed).turns[0].record_id
    assert read(value | {"timestamp": "2026-05-20T11:00:36.421Z"}).turns[0].record_id != read(value).turns[0].record_id


SHAPES = [
    HEAD, message("user", SENDER + "x"), message("assistant", [text("y")], usage=USAGE), message("toolResult", "r"),
    entry("compaction", summary="s"), entry("label"), message("bashExecution", command="c", output="o"),
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    value = mutate(draw, draw(st.sampled_from(SHAPES)))
    return value if isinstance(value, dict) else {"type": value}


@given(mutated() | st.dictionaries(st.sampled_from(["type", "message", "id"]) | st.text(max_size=4), JSON))
def test_no_object_breaks_the_reader(value: dict[str, Any]) -> None:
    READER.sniff([value], PurePosixPath("x.jsonl"))
    READER.identify([value], PurePosixPath("x.jsonl"))
    check_reading(read(value))


@given(st.lists(st.sampled_from(SHAPES[1:]), max_size=6), st.lists(st.integers(0, 2000)))
def test_pieces_and_restarts_give_the_same_turns(values: list[dict[str, Any]], cuts: list[int]) -> None:
    turns_however_cut(READER, IDENTITY, values, cuts)


def test_long_texts_are_read_in_one_pass() -> None:
    for words in ("\n" * 200_000, "[" * 200_000, "x (untrusted\n" * 20_000, "```json\n" * 20_000, SENDER * 2000):
        assert read(message("user", words + "end")).turns
