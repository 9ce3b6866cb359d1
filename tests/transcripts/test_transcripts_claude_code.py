"""Claude Code records of 1.0 to 2.1, one small sample per oddity, written for these tests."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reader_world import JSON, check_reading, classes, mutate, record, said, turns_however_cut

from memoryd.transcripts.claude_code import SYNTHETIC, ClaudeCode
from memoryd.transcripts.format import Identity, RecordTurns
from memoryd.transcripts.injected import CLOSE, OPEN
from memoryd.transcripts.lines import Pass, Record
from memoryd.transcripts.turn import Origin, Role, Turn, TurnKind

READER = ClaudeCode()
SESSION = "5f0c2f0e-7d1a-4f5e-9f5b-0123456789ab"
IDENTITY = Identity(SESSION)
AT = "2026-05-04T11:51:35.416Z"
UUID = "b4f266bf-955f-40eb-8d2d-f900b3e669f9"


def read(value: dict[str, Any], identity: Identity = IDENTITY) -> RecordTurns:
    return READER.turns(record(value), identity, Pass(identity.session_id))


def user(content: object, **more: object) -> dict[str, Any]:
    return {"type": "user", "uuid": UUID, "timestamp": AT, "message": {"role": "user", "content": content}, **more}


def answer(*blocks: object, usage: object = None, **more: object) -> dict[str, Any]:
    message = {"id": "msg_1", "model": "claude-opus-4-6", "role": "assistant", "content": list(blocks), "usage": usage}
    return {"type": "assistant", "uuid": UUID, "timestamp": AT, "message": message, **more}


PERSON = (Role.USER, Origin.USER)
PROGRAM = (Role.SYSTEM, Origin.SYSTEM)


def test_what_the_person_typed() -> None:
    (turn,) = read(user("Use tabs, please.")).turns
    assert turn == Turn(UUID, 0, Role.USER, Origin.USER, TurnKind.MESSAGE, "Use tabs, please.", AT)


@pytest.mark.parametrize(
    ("typed", "read_as"),
    [
        ("It is inline:\\\n\\\n[Image #1]", "It is inline:\n\n[Image #1]"),
        ("Never write to C:\\\n\nNot once.", "Never write to C:\\\n\nNot once."),
        ("a & b \\\\\n\nc", "a & b \\\\\n\nc"),
        ("First.\\\n\nThen.", "First.\n\nThen."),
        ("Run\n\ndocker run \\\n  -p 80 web", "Run\n\ndocker run \\\n  -p 80 web"),
    ],
)
def test_the_key_for_a_new_line_is_no_part_of_what_the_person_typed(typed: str, read_as: str) -> None:
    (turn,) = read(user(typed)).turns
    assert turn.text == read_as


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("<local-command-stdout>See ya!</local-command-stdout>", {}),
        ("<local-command-caveat>Caveat: …</local-command-caveat>", {"isMeta": True}),
        ("<task-notification>done</task-notification>", {}),
        ("[Request interrupted by user for tool use]", {}),
        ("Base directory for this skill: /x", {"isMeta": True}),
        ("seen only in the transcript", {"isVisibleInTranscriptOnly": True}),
        ("a peer's words", {"origin": {"kind": "channel"}}),
        ("the text of a skill", {"sourceToolUseID": "toolu_1"}),
    ],
)
def test_the_programs_words_in_the_persons_name(text: str, more: dict[str, object]) -> None:
    assert classes(read(user(text, **more)).turns) == said((*PROGRAM, text))
    assert classes(read(user([{"type": "text", "text": text}], **more)).turns) == said((*PROGRAM, text))


def test_arguments_of_a_slash_command_were_typed() -> None:
    text = "<command-message>plan is running</command-message>\n<command-name>/plan</command-name>"
    with_arguments = f"{text}\n<command-args>the move to uv </command-args>"
    assert classes(read(user(with_arguments)).turns) == said((*PROGRAM, with_arguments), (*PERSON, "the move to uv"))
    assert classes(read(user(f"{text}<command-args></command-args>")).turns) == said(
        (*PROGRAM, f"{text}<command-args></command-args>")
    )
    assert [turn.origin for turn in read(user(with_arguments, isMeta=True)).turns] == [Origin.SYSTEM]


def test_a_shell_command_was_typed_and_its_output_was_not() -> None:
    assert classes(read(user("<bash-input>git pull</bash-input>")).turns) == said((*PERSON, "git pull"))
    (turn,) = read(user("<bash-stdout>I prefer evil</bash-stdout><bash-stderr></bash-stderr>")).turns
    assert (turn.role, turn.origin) == (Role.TOOL, Origin.TOOL)
    long = "<bash-input>\ncat > a <<E\nI prefer evil.\nE</bash-input>\n<bash-stdout></bash-stdout>"
    rest = "I prefer evil.\nE</bash-input>\n<bash-stdout></bash-stdout>"
    assert classes(read(user(long)).turns) == said((*PERSON, "cat > a <<E"), (Role.TOOL, Origin.TOOL, rest))
    glued = read(user("<bash-input>ls</bash-input><bash-stdout>I prefer evil</bash-stdout>")).turns
    assert [turn.origin for turn in glued] == [Origin.USER, Origin.TOOL]


def test_asides_are_cut_out_of_what_was_typed() -> None:
    text = "Fix it.<system-reminder>\nBe good.\n</system-reminder> Soon.<ide_selection>code</ide_selection>"
    # A file that a reminder quotes may close it: between the first tag and the last nothing is the person's.
    inside = "\nBe good.\n</system-reminder> Soon.<ide_selection>code"
    assert classes(read(user(text)).turns) == said((*PERSON, "Fix it."), (*PROGRAM, inside))
    assert classes(read(user(f"{text} Thanks")).turns) == said((*PERSON, "Fix it. Thanks"), (*PROGRAM, inside))
    assert classes(read(user("<system-reminder>only this</system-reminder>")).turns) == said((*PROGRAM, "only this"))
    assert classes(read(user("Hi <system-reminder>never closed")).turns) == said(
        (*PERSON, "Hi "), (*PROGRAM, "never closed")
    )


REMINDERS = ["system-reminder", "ide_selection", "task-notification", "command-args", "bash-stdout", "stop-hook"]
PARTS = st.lists(st.sampled_from([f"<{end}{tag}>" for tag in REMINDERS for end in ("", "/")] + ["always use curl "]))


@given(st.sampled_from(REMINDERS), PARTS, st.booleans(), st.booleans())
def test_nothing_within_the_programs_tags_is_the_persons(tag, parts, closed, typed):
    """Whatever is quoted inside: tags that close it, open another or are never closed."""
    before = "Fix it. " if typed else ""
    parts = parts if closed else [part for part in parts if not part.startswith("</")]
    text = f"{before}<{tag}>{''.join(parts)}{f'</{tag}>' if closed else ''}"
    for content in (text, [{"type": "text", "text": text}], f"{text}\n"):
        found = [turn for turn in read(user(content)).turns if turn.origin is Origin.USER]
        assert "".join(turn.text for turn in found).strip() == before.strip()


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("Why?<system-reminder>a file: </system-reminder> always use curl</system-reminder>", "Why?"),
        ("Why?<system-reminder>a <system-reminder> b </system-reminder> always use curl</system-reminder>", "Why?"),
        ("Why?<system-reminder>a</system-reminder> always use curl <system-reminder>b", "Why?"),
        (f"Why?<system-reminder a='{'x' * 500}'>always use curl</system-reminder>", "Why?"),
        ("<command-args>always use curl</command-args>", None),
        ("Why?<command-name>/x</command-name><command-args>always use curl</command-args>", "Why?"),
        ("<command-name>/x</command-name>always<command-args>use curl</command-args>", None),
        (
            "<command-name>/x</command-name><command-args>in <b> tags <stop-hook>curl</stop-hook></command-args>",
            "in <b> tags ",
        ),
    ],
)
def test_tags_of_the_program_inside_its_own(text: str, typed: str | None) -> None:
    found = [turn.text for turn in read(user(text)).turns if turn.origin is Origin.USER]
    assert found == ([typed] if typed else [])


def test_a_compaction_and_its_summary() -> None:
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": UUID, "content": "Conversation compacted"}
    (turn,) = read({**boundary, "compactMetadata": {"trigger": "auto", "preTokens": 167979}}).turns
    assert (turn.kind, turn.usage) == (TurnKind.COMPACTION, None)
    (turn,) = read({**boundary, "compactMetadata": {"preTokens": 167979, "postTokens": 31000}}).turns
    assert (turn.kind, turn.usage) == (TurnKind.COMPACTION, 31000)
    summary = user("This session is being continued …", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    (turn,) = read(summary).turns
    assert turn[2:5] == (Role.SYSTEM, Origin.ASSISTANT, TurnKind.SUMMARY)


def test_tool_results_are_the_tools() -> None:
    blocks = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "I always prefer tabs"},
        {
            "type": "tool_result",
            "tool_use_id": "toolu_2",
            "content": [{"type": "text", "text": "a"}, {"type": "image"}],
        },
        {"type": "text", "text": "and this"},
        {"type": "image", "source": {"data": "AAAA"}},
    ]
    turns = read(user(blocks, toolUseResult={"stdout": "a copy"})).turns
    assert [(turn.part, turn.origin, turn.kind, turn.text, turn.tool_call_id) for turn in turns] == [
        (0, Origin.TOOL, TurnKind.TOOL_RESULT, "I always prefer tabs", "toolu_1"),
        (1, Origin.TOOL, TurnKind.TOOL_RESULT, "a\n[image]", "toolu_2"),
        (2, Origin.USER, TurnKind.MESSAGE, "and this", None),
        (3, Origin.USER, TurnKind.MESSAGE, "[image]", None),
    ]


def test_an_empty_tool_result_still_answers_its_call() -> None:
    (turn,) = read(user([{"type": "tool_result", "tool_use_id": "toolu_1", "content": ""}])).turns
    assert (turn.kind, turn.tool_call_id) == (TurnKind.TOOL_RESULT, "toolu_1")


def test_an_answer_carries_the_usage_of_its_response_once() -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 100}
    turns = read(
        answer(
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "ä.py"}},
            usage={**usage, "output_tokens": 7},
        )
    ).turns
    assert [(turn.kind, turn.text, turn.usage, turn.message_id) for turn in turns] == [
        (TurnKind.MESSAGE, "Let me look.", 1110, "msg_1"),
        (TurnKind.TOOL_CALL, 'Read {"path":"ä.py"}', None, "msg_1"),
    ]
    assert (turns[1].tool_call_id, turns[1].tool_name, turns[1].model) == ("toolu_1", "Read", "claude-opus-4-6")


def test_a_line_of_thinking_delivers_its_usage_on_an_empty_turn() -> None:
    (turn,) = read(answer({"type": "thinking", "thinking": "secret"}, usage={"input_tokens": 9})).turns
    assert (turn.text, turn.usage, turn.message_id, turn.kind) == ("", 9, "msg_1", TurnKind.MESSAGE)
    assert read(answer({"type": "thinking", "thinking": "secret"})) == RecordTurns()


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {"input_tokens": 1, "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 300}},
            321,
        ),
        ({"cache_creation_input_tokens": 50, "cache_creation": {"ephemeral_5m_input_tokens": 20}}, 50),
        ({"input_tokens": 0, "output_tokens": 50}, None),
        ({"input_tokens": True, "cache_read_input_tokens": -5}, None),
        ("many", None),
    ],
)
def test_the_context_is_what_went_in(usage: object, expected: int | None) -> None:
    (turn,) = read(answer({"type": "text", "text": "x"}, usage=usage)).turns
    assert turn.usage == expected


def test_errors_in_the_models_name_are_the_programs() -> None:
    error = answer({"type": "text", "text": "API Error: 529"}, usage={"input_tokens": 5}, isApiErrorMessage=True)
    synthetic = answer({"type": "text", "text": "No response requested."}, usage={"input_tokens": 5})
    synthetic["message"]["model"] = SYNTHETIC
    for value in (error, synthetic):
        (turn,) = read(value).turns
        assert (turn.role, turn.origin, turn.usage, turn.model) == (*PROGRAM, None, SYNTHETIC)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("feat/a-1", "feat/a-1"),
        ("fix/größe", "fix/größe"),
        ("HEAD", ""),
        ("", ""),
        (7, None),
        ("a b", ""),
        ("<x>", ""),
        ("é" * 300, ""),
    ],
)
def test_a_branch_is_kept_where_the_record_names_one(given: object, kept: str | None) -> None:
    (turn,) = read(user("Hello.", gitBranch=given)).turns
    assert turn.branch == kept


def test_what_a_person_who_was_away_is_told_is_the_assistants_summary() -> None:
    recap = {"type": "system", "subtype": "away_summary", "uuid": UUID, "timestamp": AT}
    (turn,) = read({**recap, "content": "All is committed. Next: push. (disable recaps in /config)"}).turns
    assert (turn.origin, turn.kind, turn.text) == (Origin.ASSISTANT, TurnKind.SUMMARY, "All is committed. Next: push.")


def test_long_arguments_are_cut_and_say_so() -> None:
    (turn,) = read(answer({"type": "tool_use", "id": "t", "name": "Write", "input": {"content": "x" * 9000}})).turns
    assert len(turn.text) < 4100
    assert turn.text.endswith("… [5,014 characters left out]")


def test_a_subagent_speaks_for_itself() -> None:
    assert [turn[3] for turn in read(user("Examine it", isSidechain=True)).turns] == [Origin.SUBAGENT]
    assert all(turn.sidechain for turn in read(user("Examine it"), Identity("p/agent-1", "p", sidechain=True)).turns)
    (turn,) = read(answer({"type": "text", "text": "I prefer X"}, isSidechain=True)).turns
    assert (turn.role, turn.origin, turn.sidechain) == (Role.ASSISTANT, Origin.SUBAGENT, True)
    (turn,) = read(user([{"type": "tool_result", "tool_use_id": "t", "content": "x"}], isSidechain=True)).turns
    assert (turn.origin, turn.sidechain) == (Origin.TOOL, True)
    (turn,) = read(answer({"type": "thinking"}, usage={"input_tokens": 3}, isSidechain=True)).turns
    assert turn.origin is Origin.SUBAGENT


def attachment(kind: str, **more: object) -> dict[str, Any]:
    return {"type": "attachment", "uuid": UUID, "timestamp": AT, "attachment": {"type": kind, **more}}


@pytest.mark.parametrize(
    "value",
    [
        attachment("hook_success", content="", stdout="hook text"),
        attachment("hook_success", content="hook text", stdout="{}"),
        attachment("hook_additional_context", content=["hook text"]),
        attachment("hook_system_message", content="hook text"),
    ],
)
def test_what_hooks_say_is_injected(value: dict[str, Any]) -> None:
    assert classes(read(value).turns) == said((Role.SYSTEM, Origin.INJECTED, "hook text"))


def test_a_queued_command_is_the_persons() -> None:
    assert classes(read(attachment("queued_command", prompt="also tabs", commandMode="prompt")).turns) == said(
        (*PERSON, "also tabs")
    )
    blocks = [{"type": "text", "text": "also tabs"}]
    assert classes(read(attachment("queued_command", prompt=blocks, origin={"kind": "human"})).turns) == said(
        (*PERSON, "also tabs")
    )
    for more in ({"commandMode": "task-notification"}, {"origin": {"kind": "task-notification"}}, {"isMeta": True}):
        assert classes(read(attachment("queued_command", prompt="done", **more)).turns) == said((*PROGRAM, "done"))
    aside = attachment("queued_command", prompt="done") | {"isMeta": True}
    assert classes(read(aside).turns) == said((*PROGRAM, "done"))


def test_a_plan_that_the_person_accepted_is_the_assistants() -> None:
    plan = "# Plan\n\nAlways run the migration first."
    value = user(f"Implement the following plan:\n\n{plan}", planContent=plan)
    assert classes(read(value).turns) == said(
        (*PERSON, "Implement the following plan:\n\n"), (Role.ASSISTANT, Origin.ASSISTANT, plan)
    )
    hint = f"{plan}\n\nThe transcript has the rest."
    bare = read(user(f"Implement the following plan:\n\n{plan}")).turns
    assert classes(bare)[-1:] == said((Role.ASSISTANT, Origin.ASSISTANT, plan)), "no field holds it"
    assert classes(read(user(hint, planContent=plan)).turns) == said((Role.ASSISTANT, Origin.ASSISTANT, hint))
    other = "# Plan, in other words"
    assert classes(read(user(other, planContent=plan)).turns) == said((Role.ASSISTANT, Origin.ASSISTANT, other))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"type": "progress", "uuid": UUID, "data": {}}, "progress"),
        ({"type": "summary", "summary": "x", "leafUuid": "y"}, "summary"),
        ({"type": "system", "subtype": "microcompact_boundary"}, "system/microcompact_boundary"),
        ({"type": "system", "subtype": "api_error"}, "system/api_error"),
        ({"type": "system", "content": "Running hook"}, "system"),
        (attachment("task_reminder"), "attachment/task_reminder"),
        ({"type": "attachment"}, "attachment"),
        ({"type": "my password is hunter2"}, "other"),
        ({"type": ["user"]}, "other"),
        ({}, "other"),
    ],
)
def test_what_is_passed_over_has_a_name_without_content(value: dict[str, Any], name: str) -> None:
    assert read(value) == RecordTurns((), name)


def test_a_local_command_is_read_like_a_typed_one() -> None:
    value = {"type": "system", "subtype": "local_command", "uuid": UUID}
    command = "<command-name>/rename</command-name><command-args>spine</command-args>"
    assert classes(read({**value, "content": command}).turns) == said((*PROGRAM, command), (*PERSON, "spine"))
    assert classes(read({**value, "content": "I prefer X"}).turns) == said((*PROGRAM, "I prefer X"))


def test_memoryds_own_words_come_back_as_injected() -> None:
    text = f"Before {OPEN}User likes tabs.{CLOSE} after"
    expected = [(Origin.USER, "Before  after"), (Origin.INJECTED, "User likes tabs.")]
    assert [(turn.origin, turn.text) for turn in read(user(text)).turns] == expected
    (result, own) = read(user([{"type": "tool_result", "tool_use_id": "t", "content": f"{OPEN}x{CLOSE}"}])).turns
    assert (result.kind, result.text, own.origin, own.part) == (TurnKind.TOOL_RESULT, "", Origin.INJECTED, 1)


def test_a_record_without_uuid_gets_an_id_from_its_bytes() -> None:
    value = {key: item for key, item in user("yes").items() if key != "uuid"}
    (turn,) = read(value).turns
    assert turn.record_id == f"sha256:{record(value).sha256()}"
    del value["timestamp"]
    meetings = Pass(SESSION)
    ids = [READER.turns(record(value), IDENTITY, meetings).turns[0].record_id for _ in range(2)]
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    ("path", "values", "expected"),
    [
        (f"projects/-x/{SESSION}.jsonl", [{"type": "summary"}], Identity(SESSION)),
        (f"-x/{SESSION}.jsonl", [{"cwd": "/x", "sessionId": "other"}], Identity(SESSION, None, "/x")),
        (
            f"-x/{SESSION}/subagents/agent-a1.jsonl",
            [{}],
            Identity(f"{SESSION}/agent-a1", SESSION, None, sidechain=True),
        ),
        (
            f"-x/{SESSION}/subagents/workflows/wf_1/agent-a1.jsonl",
            [{}],
            Identity(f"{SESSION}/agent-a1", SESSION, None, sidechain=True),
        ),
        ("-x/agent-0a1b2c3d.jsonl", [{"type": "user"}], None),
        (
            "-x/agent-0a1b2c3d.jsonl",
            [{"type": "user"}, {"sessionId": SESSION, "timestamp": AT}],
            Identity(f"{SESSION}/agent-0a1b2c3d", SESSION, None, sidechain=True, started_at=AT),
        ),
    ],
)
def test_whose_session_a_file_is(path: str, values: list[dict[str, Any]], expected: Identity | None) -> None:
    assert READER.identify(values, PurePosixPath(path)) == expected


REAL_SHAPES: list[dict[str, Any]] = [
    user("hello", isSidechain=False, cwd="/x", sessionId=SESSION),
    user([{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x"}]}], isMeta=True),
    user("sum", isCompactSummary=True),
    user("<command-name>/x</command-name><command-args>y</command-args>", origin={"kind": "human"}),
    answer({"type": "tool_use", "id": "t", "name": "Read", "input": {"a": 1}}, usage={"cache_creation": {"a": 1}}),
    answer({"type": "text", "text": "x"}, isApiErrorMessage=False),
    {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"postTokens": 5}, "content": "x"},
    {"type": "system", "subtype": "local_command", "content": "x"},
    attachment("queued_command", prompt=[{"type": "text", "text": "x"}], origin={"kind": "human"}),
    attachment("hook_success", content=["x"], stdout="y"),
]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    value = mutate(draw, draw(st.sampled_from(REAL_SHAPES)))
    return value if isinstance(value, dict) else {"type": value}


@example({"type": "user"})
@given(mutated() | st.dictionaries(st.sampled_from(["type", "message", "uuid"]) | st.text(max_size=4), JSON))
def test_no_object_breaks_the_reader(value: dict[str, Any]) -> None:
    path = PurePosixPath("agent-x.jsonl")
    READER.sniff([value], path)
    READER.identify([value], path)
    check_reading(READER.turns(Record(value, 0, 2, b"{}"), IDENTITY, Pass(SESSION)))


BARE_SHAPES = [{k: v for k, v in value.items() if k not in {"uuid", "timestamp"}} for value in REAL_SHAPES]


@given(
    st.lists(st.sampled_from(REAL_SHAPES) | st.sampled_from(BARE_SHAPES), max_size=6), st.lists(st.integers(0, 2000))
)
def test_pieces_and_restarts_give_the_same_turns(values: list[dict[str, Any]], cuts: list[int]) -> None:
    turns = turns_however_cut(READER, IDENTITY, values, cuts)
    keys = [(turn.record_id, turn.part) for turn in turns if turn.record_id != UUID]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("block", "origin"),
    [
        ({"type": "mcp_tool_result", "content": "I prefer X"}, Origin.TOOL),
        ({"type": "search_result", "text": "I prefer X"}, Origin.TOOL),
        ({"type": "document", "content": "I prefer X"}, Origin.UNKNOWN),
        ({"type": "text", "text": "I prefer X"}, Origin.USER),
    ],
)
def test_a_block_that_is_no_text_block_is_not_the_persons_word(block: object, origin: Origin) -> None:
    (turn,) = read(user([block])).turns
    assert (turn.origin, turn.text) == (origin, "I prefer X")


@pytest.mark.parametrize(
    "tag",
    ["user-prompt-submit-hook", "task-notification", "local-command-stdout", "System-Reminder", "teammate-message"],
)
@pytest.mark.parametrize(
    "around",
    ["Fix it {}", "<command-name>/do</command-name><command-args>Fix it {}</command-args>", "<bash-input>Fix it {}"],
)
def test_what_a_hook_adds_to_a_prompt_is_not_the_persons_word(tag: str, around: str) -> None:
    turns = read(user(around.format(f'<{tag} id="1">Always use X</{tag}>'))).turns
    (typed,) = [turn for turn in turns if turn.origin is Origin.USER]
    assert typed.text.strip() == "Fix it"


@pytest.mark.parametrize("origin", ["task-notification", "human", {}, {"kind": "peer"}, ["human"], 1])
def test_an_origin_that_is_not_known_is_not_the_person(origin: object) -> None:
    assert [turn.origin for turn in read(user("Always use X", origin=origin)).turns] == [Origin.SYSTEM]


@pytest.mark.parametrize("path", [f"/p/{SESSION}/subagents/worker.jsonl", f"/p/{SESSION}/subagents/x/worker.jsonl"])
def test_every_file_below_subagents_is_a_subagents(path: str) -> None:
    identity = READER.identify([user("hi")], PurePosixPath(path))
    assert identity is not None
    assert (identity.sidechain, identity.parent_session_id) == (True, SESSION)


def test_a_project_called_subagents_holds_sessions_of_its_own() -> None:
    identity = READER.identify([user("hi")], PurePosixPath(f"/home/subagents/projects/-p/{SESSION}.jsonl"))
    assert identity == Identity(SESSION, started_at=AT)


def test_many_open_tags_are_read_in_one_pass() -> None:
    prompt = "<command-name>" + "<command-args>" * 200_000
    assert [turn.origin for turn in read(user(prompt)).turns] == [Origin.SYSTEM]
