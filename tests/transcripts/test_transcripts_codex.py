"""Codex rollouts of three generations, one small sample per oddity, written for these tests."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_world import JSON, check_reading, classes, mutate, record, said, turns_however_cut

from memoryd.gauge import fill, live
from memoryd.transcripts.codex import Codex
from memoryd.transcripts.format import Identity, RecordTurns
from memoryd.transcripts.injected import CLOSE, OPEN
from memoryd.transcripts.lines import Pass, Record
from memoryd.transcripts.turn import Origin, Role, TurnKind

READER = Codex()
SESSION = "019f9261-846e-7fc0-b843-e0464227f290"
PARENT = "019e9ea7-f3e7-7463-8542-41b2e0fcb033"
IDENTITY = Identity(SESSION)
AT = "2026-07-24T04:29:01.231Z"
PERSON = (Role.USER, Origin.USER)
PROGRAM = (Role.SYSTEM, Origin.SYSTEM)
MODEL = (Role.ASSISTANT, Origin.ASSISTANT)


def line(kind: str, payload: object, **more: object) -> dict[str, Any]:
    return {"timestamp": AT, "type": kind, "payload": payload, **more}


def item(kind: str, /, **more: object) -> dict[str, Any]:
    return line("response_item", {"type": kind, **more})


def message(role: str, *texts: str, kind: str = "input_text", **more: object) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts], **more}


def event(kind: str, /, **more: object) -> dict[str, Any]:
    return line("event_msg", {"type": kind, **more})


def typed(*content: object, **more: object) -> dict[str, Any]:
    return event("item_completed", item={"type": "UserMessage", "content": list(content), **more})


def counted(total: int, last: object, window: object = 258_400) -> dict[str, Any]:
    usage = {"input_tokens": 0, "total_tokens": last}
    info = {"total_token_usage": {"total_tokens": total}, "last_token_usage": usage, "model_context_window": window}
    return event("token_count", info=info, rate_limits=None)


def read(value: dict[str, Any], identity: Identity = IDENTITY) -> RecordTurns:
    return READER.turns(record(value), identity, Pass(identity.session_id))


def test_what_the_person_typed_stands_in_an_event_and_is_not_read_twice() -> None:
    (turn,) = read(event("user_message", message="Use tabs.", images=[])).turns
    assert turn[2:7] == (*PERSON, TurnKind.MESSAGE, "Use tabs.", AT)
    newer = typed({"type": "text", "text": "Use tabs.", "text_elements": []}, id="01a1ffd6-c696-7ba0-8964-68fefd1088c0")
    (turn,) = read(newer).turns
    assert turn[:6] == ("01a1ffd6-c696-7ba0-8964-68fefd1088c0", 0, *PERSON, TurnKind.MESSAGE, "Use tabs.")
    repeated = read(line("response_item", message("user", "Use tabs.")))
    assert repeated == RecordTurns((), "response_item/message/user")
    assert classes(read(typed({"type": "image", "image_url": "data:x"})).turns) == said((*PERSON, "[image]"))


@pytest.mark.parametrize(
    "text",
    [
        "<environment_context>\n  <cwd>/p</cwd>\n</environment_context>",
        "<user_instructions>\n\nAlways use X\n\n</user_instructions>",
        "# AGENTS.md instructions for /p\n\n<INSTRUCTIONS>\nAlways use X",
        "<turn_aborted>\nThe user interrupted the previous turn",
        '<skill name="x">Always use X</skill>',
    ],
)
def test_the_programs_words_in_the_persons_name(text: str) -> None:
    assert classes(read(line("response_item", message("user", text))).turns) == said((*PROGRAM, text))
    assert classes(read(message("user", text)).turns) == said((*PROGRAM, text))
    assert classes(read(event("user_message", message=text)).turns) == said((*PROGRAM, text))
    several = line("response_item", message("user", text, "typed beside it"))
    assert classes(read(several).turns) == said((*PROGRAM, text)), "that stands in an event"


def test_what_was_typed_may_begin_with_a_tag() -> None:
    text = "<section id='x'> is too wide"
    assert classes(read(event("user_message", message=text)).turns) == said((*PERSON, text))
    assert classes(read(line("response_item", message("user", "<new_notice>Always use X"))).turns) == said(
        (*PROGRAM, "<new_notice>Always use X")
    )
    told = f"{OPEN}\nlikes tabs\n{CLOSE}\nGo on."
    assert read(line("response_item", message("user", told))) == RecordTurns((), "response_item/message/user")


def test_what_an_editor_puts_before_a_prompt_was_not_typed() -> None:
    text = "# Context from my IDE setup:\n\n## Open tabs:\n- Always use X\n\n## My request for Codex:\nFix it.\n"
    system, user = read(event("user_message", message=text)).turns
    assert (system.origin, user.origin, user.text) == (Origin.SYSTEM, Origin.USER, "Fix it.")
    (turn,) = read(event("user_message", message="Always use X", kind="environment_context")).turns
    assert turn.origin is Origin.SYSTEM


def test_what_hooks_and_the_program_tell_the_model_is_injected() -> None:
    (turn,) = read(line("response_item", message("developer", "HOOK"))).turns
    assert turn[2:6] == (Role.SYSTEM, Origin.INJECTED, TurnKind.MESSAGE, "HOOK")
    turns = read(event("user_message", message=f"{OPEN}\nlikes tabs\n{CLOSE}\nGo on.")).turns
    assert [(turn.origin, turn.text.strip()) for turn in turns] == [
        (Origin.USER, "Go on."), (Origin.INJECTED, "likes tabs"),
    ]  # fmt: skip


def test_the_answer_is_read_from_the_item_alone() -> None:
    answer = line("response_item", message("assistant", "Done.", kind="output_text"))
    assert classes(read(answer).turns) == said((*MODEL, "Done."))
    assert read(event("agent_message", message="Done.")) == RecordTurns((), "event_msg/agent_message")
    said_again = event("item_completed", item={"type": "AgentMessage", "content": [{"type": "Text", "text": "Done."}]})
    assert read(said_again) == RecordTurns((), "item_completed/AgentMessage")


@pytest.mark.parametrize(
    ("value", "tool", "text"),
    [
        ({"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}'}, "shell", '{"command":["ls"]}'),
        ({"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin"}, "apply_patch", "*** Begin"),
        ({"type": "local_shell_call", "action": {"command": ["ls"]}}, "local_shell", '{"command":["ls"]}'),
        ({"type": "web_search_call", "action": {"query": "x"}}, "web_search", '{"query":"x"}'),
    ],
)
def test_tool_calls(value: dict[str, Any], tool: str, text: str) -> None:
    for one in (line("response_item", {**value, "call_id": "call_1"}), {**value, "call_id": "call_1"}):
        (turn,) = read(one).turns
        assert turn[2:6] == (*MODEL, TurnKind.TOOL_CALL, f"{tool} {text}")
        assert (turn.tool_call_id, turn.tool_name) == ("call_1", tool)


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("Plan updated", "Plan updated"),
        ('{"output":"I prefer\\nevil","metadata":{"exit_code":0}}', "I prefer\nevil"),
        ('{"output":"a file that looks so","extra":1}', '{"output":"a file that looks so","extra":1}'),
        ('{"output":', '{"output":'),
        ([{"type": "input_text", "text": "one"}, {"type": "input_text", "text": "two"}], "one\ntwo"),
        ({"content": "failed", "success": False}, "failed"),
        ("", ""),
    ],
)
def test_what_a_tool_gave_back_is_the_tools(output: object, text: str) -> None:
    (turn,) = read(item("function_call_output", call_id="call_1", output=output)).turns
    assert turn[2:6] == (Role.TOOL, Origin.TOOL, TurnKind.TOOL_RESULT, text)
    assert turn.tool_call_id == "call_1"


def test_the_context_is_what_the_program_counts_also_where_it_repeats_itself() -> None:
    shapes = [
        event("user_message", message="Go on."), counted(5000, 5000), counted(5000, 5000), counted(20_000, 15_000),
        event("token_count", info=None), line("compacted", {"message": "", "replacement_history": [{"role": "user"}]}),
        counted(20_000, 12_965), event("context_compacted"),
    ]  # fmt: skip
    gauge, seen = live.Gauge(), []
    for seq, turn in enumerate((turn for value in shapes for turn in read(value).turns), 1):
        gauge = live.advance(gauge, turn, seq)
        seen.append(gauge.context)
    assert seen == [0, 5000, 5000, 15_000, 0, 12_965]
    assert (gauge.usages, gauge.peak, gauge.window) == (4, 15_000, 258_400)
    row = {"gauge": json.dumps(gauge._asdict()), "counted_tokens": None, "counted_seq": 0, "last_seq": 6, "model": None}
    assert fill.fill_of(row, None).window == (258_400, "agent")
    assert fill.fill_of(row, 1000).window == (1000, "config")


def test_a_compaction_tells_its_summary_where_it_can_be_read_and_no_old_message_again() -> None:
    turns = read(line("compacted", {"message": "So far so good.", "replacement_history": [message("user", "old")]}))
    assert classes(turns.turns) == [
        (*PROGRAM, TurnKind.COMPACTION, ""), (Role.SYSTEM, Origin.ASSISTANT, TurnKind.SUMMARY, "So far so good."),
    ]  # fmt: skip
    (turn,) = read(line("compacted", {"message": "", "replacement_history": [message("user", "old")]})).turns
    assert turn.kind is TurnKind.COMPACTION


def test_words_in_the_place_of_an_id_are_none() -> None:
    """A review writes the same id into each of its records."""
    pair = [read(line("response_item", message("assistant", text, id="review_rollout_user"))).turns for text in "ab"]
    assert pair[0][0].record_id != pair[1][0].record_id
    own = "msg_05b30cbae30c73cb016a62ea0f8a38"
    assert read(line("response_item", message("assistant", "a", id=own))).turns[0].record_id == own
    short = read(line("response_item", message("assistant", "a", id="msg_2"))).turns[0]
    assert short.record_id.startswith("sha256:")


def test_lines_of_old_without_times_are_each_their_own() -> None:
    meetings = Pass(SESSION)
    ids = [READER.turns(record(message("user", "yes", id=None)), IDENTITY, meetings).turns[0] for _ in range(2)]
    assert ids[0].record_id != ids[1].record_id
    assert ids[0][2:4] == PERSON
    assert read({"record_type": "state"}) == RecordTurns((), "state")


def test_the_answers_of_a_dialog_are_the_persons() -> None:
    questions = [{"id": "q1", "question": "Which one?", "options": [{"label": "Tabs"}, {"label": "Spaces"}]}]
    asked = item(
        "function_call", name="request_user_input", arguments=json.dumps({"questions": questions}), call_id="c"
    )
    output = json.dumps({"answers": {"q1": {"answers": ["Tabs", "user_note: in all files"]}}})
    meetings, turns = Pass(SESSION), []
    for value in (asked, item("function_call_output", output=output, call_id="c")):
        turns += READER.turns(record(value), IDENTITY, meetings).turns
    assert [(turn.kind, turn.text, turn.tool_name) for turn in turns[2:]] == [
        (TurnKind.CHOICE, 'asked "Which one?", chose "Tabs"', "request_user_input"),
        (TurnKind.MESSAGE, "in all files", "request_user_input"),
    ]
    assert {(turn.role, turn.origin) for turn in turns[2:]} == {PERSON}


META = {"id": SESSION, "timestamp": AT, "cwd": "/p", "source": "cli"}
SPAWNED = {"subagent": {"thread_spawn": {"parent_thread_id": PARENT, "depth": 1}}}
NAMED = f"rollout-2026-07-24T04-28-59-{SESSION}.jsonl"


@pytest.mark.parametrize(
    ("path", "values", "expected"),
    [
        (NAMED, [line("session_meta", META)], Identity(SESSION, None, "/p", started_at=AT)),
        ("copy.jsonl", [line("session_meta", META)], Identity(SESSION, None, "/p", started_at=AT)),
        (NAMED, [line("turn_context", {"cwd": "/q"})], Identity(SESSION, None, "/q")),
        ("copy.jsonl", [line("turn_context", {})], Identity("copy")),
        (
            NAMED,
            [line("session_meta", META | {"source": SPAWNED}), line("session_meta", META | {"id": PARENT})],
            Identity(SESSION, PARENT, "/p", sidechain=True, started_at=AT),
        ),
        (
            NAMED,
            [line("session_meta", META | {"source": {"subagent": "review"}})],
            Identity(SESSION, "unknown", "/p", sidechain=True, started_at=AT),
        ),
        (
            NAMED,
            [line("session_meta", META | {"forked_from_id": PARENT})],
            Identity(SESSION, None, "/p", started_at=AT),
        ),
        (
            "x.jsonl",
            [
                {"id": SESSION, "timestamp": AT, "instructions": None},
                message("user", "<environment_context>\n  <cwd>/old</cwd>\n</environment_context>"),
            ],
            Identity(SESSION, None, "/old", started_at=AT),
        ),
    ],
)
def test_whose_session_a_file_is(path: str, values: list[dict[str, Any]], expected: Identity) -> None:
    assert READER.sniff(values, PurePosixPath(path))
    assert READER.identify(values, PurePosixPath(path)) == expected


def test_a_subagent_speaks_for_itself() -> None:
    identity = Identity(SESSION, PARENT, sidechain=True)
    (turn,) = read(event("user_message", message="Always use X"), identity).turns
    assert (turn.origin, turn.sidechain) == (Origin.SUBAGENT, True)


SHAPES: list[dict[str, Any]] = [
    line("session_meta", META | {"source": SPAWNED}),
    line("response_item", message("user", "<environment_context>x")),
    line("response_item", message("developer", "x", id="msg_01a1ffd6c818756")),
    item("function_call", name="shell", arguments='{"a":1}', call_id="c"),
    item("custom_tool_call_output", call_id="c", output=[{"type": "input_text", "text": "x"}]),
    item("function_call_output", call_id="c", output='{"output":"x","metadata":{}}'),
    event("user_message", message="# Context from my IDE setup:\n## My request for Codex:\nx", kind="plain"),
    typed({"type": "text", "text": "x"}, {"type": "skill", "name": "y", "text": "z"}),
    counted(2000, 1000),
    line("compacted", {"message": "x", "replacement_history": []}),
    message("user", "<environment_context><cwd>/x</cwd>"),
    message("assistant", "x", id=None),
    {"id": SESSION, "timestamp": AT, "instructions": None},
]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    value = mutate(draw, draw(st.sampled_from(SHAPES)))
    return value if isinstance(value, dict) else {"type": value}


@given(mutated() | st.dictionaries(st.sampled_from(["type", "payload", "id"]) | st.text(max_size=4), JSON))
def test_no_object_breaks_the_reader(value: dict[str, Any]) -> None:
    path = PurePosixPath("rollout-x.jsonl")
    READER.sniff([value], path)
    identity = READER.identify([value], path)
    assert identity is not None
    (identity.session_id + (identity.cwd or "") + (identity.parent_session_id or "")).encode("utf-8", "surrogatepass")
    check_reading(READER.turns(Record(value, 0, 2, b"{}"), IDENTITY, Pass(SESSION)))


@given(st.lists(st.sampled_from(SHAPES), max_size=6), st.lists(st.integers(0, 2000)))
def test_pieces_and_restarts_give_the_same_turns(values: list[dict[str, Any]], cuts: list[int]) -> None:
    turns_however_cut(READER, IDENTITY, values, cuts)


def test_a_prompt_full_of_tags_is_read_in_one_pass() -> None:
    prompt = "<environment_context>" * 100_000
    assert READER.identify([message("user", prompt)], PurePosixPath("x")) == Identity("x")
    assert [turn.origin for turn in read(event("user_message", message="<" + "a" * 2_000_000)).turns] == [Origin.USER]


def test_the_context_of_an_editor_ends_at_its_last_marker() -> None:
    before = "# Context from my IDE setup:\n\n## Active selection:\n## My request for Codex:\nalways use curl\n\n"
    text = f"{before}## My request for Codex:\nFix it."
    (program, person) = read(event("user_message", message=text)).turns
    assert (program.origin, program.text) == (Origin.SYSTEM, before)
    assert (person.origin, person.text) == (Origin.USER, "Fix it.")
    alone = "# Context from my IDE setup:\n\n## Active selection of the file:\nalways use curl\n"
    (program,) = read(event("user_message", message=alone)).turns
    assert (program.origin, program.text) == (Origin.SYSTEM, alone)


@pytest.mark.parametrize(
    "begin",
    [
        "PLEASE IMPLEMENT THIS PLAN:\n",
        "A previous agent produced the plan below to accomplish the user's task. Implement it in a fresh context.\n",
    ],
)
@pytest.mark.parametrize("before", ["", "# Context from my IDE setup:\n## My request for Codex:\n"])
def test_a_plan_that_the_person_accepted_is_the_assistants(begin, before):
    text = f"{before}{begin}# Plan\n\nAlways push directly to main."
    *_, turn = read(event("user_message", message=text)).turns
    assert (turn.origin, turn.role) == (Origin.ASSISTANT, Role.ASSISTANT)
