"""Files of other programs that are rewritten as a whole: each record once, however often and however they are saved."""

from __future__ import annotations

import json
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from ingest_world import World, message

TASK = "1784094124598"
ENVIRONMENT = "<environment_details>\n# Current Working Directory (/home/ann/shop) Files\na.txt\n</environment_details>"


@pytest.fixture
def world(tmp_path):
    with World(tmp_path, {"pattern": "sessions/**/*.json"}) as made:
        yield made


def save(world: World, name: str, value: Any) -> None:
    """Write the file, and look at it once it has been left alone for a moment."""
    world.write(name, json.dumps(value).encode())
    world.poll()
    world.later(1)
    world.poll()


def rest(world: World) -> None:
    world.later(100)
    world.poll()


def rows(world: World) -> list[tuple[Any, ...]]:
    found = world.query("SELECT origin, kind, text, usage FROM turn ORDER BY session_id, seq")
    return [tuple(row.values()) for row in found]


def said(world: World) -> list[tuple[str, str]]:
    return [(origin, text) for origin, _, text, _ in rows(world) if text]


def block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def shown(ts: int, kind: str, text: Any = "", *, how: str = "say", **more: Any) -> dict[str, Any]:
    return {"ts": ts, "type": how, how: kind, "text": text if isinstance(text, str) else json.dumps(text), **more}


# --- a task of Cline or Roo ---

API = [
    {"role": "user", "content": [block("<task>\nfix it\n</task>"), block(ENVIRONMENT)]},
    {
        "role": "assistant",
        "content": [block("I look."), {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a"}}],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [block("<feedback>never test</feedback>")]},
            block("<feedback>\nkeep it short\n</feedback>"),
            block(ENVIRONMENT),
        ],
    },
    {"role": "assistant", "content": [block("Done.")]},
]
UI = [
    shown(1_784_094_124_598, "task", "fix it", conversationHistoryIndex=-1),
    shown(
        1_784_094_124_599,
        "api_req_started",
        {"tokensIn": 10, "tokensOut": 5, "cacheReads": 1000},
        conversationHistoryIndex=-1,
    ),
    shown(1_784_094_124_700, "text", "I look.", conversationHistoryIndex=0),
    shown(
        1_784_094_124_800,
        "followup",
        {"question": "Which?", "options": ["A", "B"], "selected": "B"},
        how="ask",
        conversationHistoryIndex=1,
    ),
    shown(1_784_094_124_801, "user_feedback", "keep it short", conversationHistoryIndex=1),
    shown(
        1_784_094_124_900,
        "api_req_started",
        {"tokensIn": 20, "tokensOut": 5, "cacheReads": 1000},
        conversationHistoryIndex=2,
    ),
]
BOTH = [
    ("user", "message", "fix it", None),
    ("assistant", "message", "I look.", None),
    ("assistant", "tool_call", 'read_file {"path":"a"}', None),
    ("assistant", "message", "", 1015),
    ("user", "choice", 'asked "Which?", chose "B"', None),
    ("user", "message", "keep it short", None),
    ("tool", "tool_result", "<feedback>never test</feedback>", None),
    ("assistant", "message", "Done.", None),
    ("assistant", "message", "", 1025),
]


def test_the_two_files_of_a_task_are_one_transcript_however_they_grow(world):
    for count in (1, 2, 4):
        world.write(f"{TASK}/ui_messages.json", json.dumps(UI[: 2 * count]).encode())
        save(world, f"{TASK}/api_conversation_history.json", API[:count])
        if count == 2:
            world.restart()
    rest(world)
    assert rows(world) == BOTH
    (session,) = world.query("SELECT id, folder, format FROM session")
    assert session == {"id": TASK, "folder": "/home/ann/shop", "format": "cline"}
    assert world.query("SELECT text FROM turn WHERE at IS NULL") == []
    assert "read with" in world.transcript(f"{TASK}/ui_messages.json")["note"]
    assert world.alarms() == []


def test_a_change_of_the_second_file_alone_is_noticed(world):
    save(world, f"{TASK}/ui_messages.json", UI[:-2])
    save(world, f"{TASK}/api_conversation_history.json", API[:2])
    rest(world)
    assert ("user", "keep it short") not in said(world)
    save(world, f"{TASK}/ui_messages.json", UI)
    assert ("user", "keep it short") in said(world)


def test_each_file_alone_is_read_and_a_tool_speaks_for_nobody(world):
    texts = [block("[read_file for 'a'] Result:"), block("<feedback>\nnever test\n</feedback>")]
    save(world, "a/api_conversation_history.json", [*API, {"role": "user", "content": texts}])
    save(
        world,
        "b/ui_messages.json",
        [*UI, shown(9, "completion_result", "Done."), shown(10, "text", "half", partial=True)],
    )
    rest(world)
    by_session = [[text for origin, text in said(world) if origin == who] for who in ("user", "assistant", "tool")]
    assert by_session == [
        ["fix it", "keep it short", "fix it", 'asked "Which?", chose "B"', "keep it short"],
        ["I look.", 'read_file {"path":"a"}', "Done.", "I look.", "Which?", "Done."],
        ["<feedback>never test</feedback>", "[read_file for 'a'] Result:", "<feedback>\nnever test\n</feedback>"],
    ]
    assert len({row["id"] for row in world.query("SELECT id FROM session")}) == 2


def test_a_bracket_in_a_path_and_a_file_behind_the_words_make_nobodys_words_the_persons(world):
    says = "Always deploy with --force."
    task = block(f"<task>\nlook at 'a.md'\n</task>\n\n<file_content path=\"a.md\">\n{says}\n</file_content>")
    results = [block("[read_file for 'app/[id]/page.tsx'] Result:"), block(says)]
    more = [block(f"[execute_command for 'if [ -f a ]\nthen b'] Result:\n{says}")]
    messages = [{"role": "user", "content": one} for one in ([task], results, more)]
    save(world, "a/api_conversation_history.json", messages)
    rest(world)
    assert [text for origin, text in said(world) if origin == "user"] == ["look at 'a.md'"]


def test_what_roo_condenses_is_marked_and_stays(world):
    stamped = [{**one, "ts": 1_784_094_124_000 + number} for number, one in enumerate(API)]
    save(world, f"{TASK}/api_conversation_history.json", stamped)
    rest(world)
    before = said(world)
    condensed = [{**one, "condenseParent": "c1"} for one in stamped]
    summary = {
        "role": "user",
        "content": [block("what was done")],
        "isSummary": True,
        "condenseId": "c1",
        "ts": 1_784_094_125_000,
    }
    marker = {
        "role": "user",
        "content": "removed",
        "isTruncationMarker": True,
        "truncationId": "x",
        "ts": 1_784_094_126_000,
    }
    save(
        world,
        f"{TASK}/ui_messages.json",
        [
            *UI,
            shown(
                11,
                "condense_context",
                contextCondense={"condenseId": "c1", "newContextTokens": 700, "summary": "what was done"},
            ),
        ],
    )
    save(world, f"{TASK}/api_conversation_history.json", [*condensed, summary, marker])
    rest(world)
    assert [row for row in rows(world) if row[1] in {"compaction", "summary"}] == [
        ("system", "compaction", "", 700),
        ("assistant", "summary", "what was done", None),
        ("system", "compaction", "", None),
    ]
    assert set(before) - set(said(world)) == set()


def test_what_cline_removes_is_marked_once_for_each_range(world):
    entries = [{**one, "conversationHistoryDeletedRange": [2, 2 + number // 4]} for number, one in enumerate(UI)]
    save(world, f"{TASK}/ui_messages.json", entries)
    save(world, f"{TASK}/api_conversation_history.json", API)
    rest(world)
    assert [kind for _, kind, _, _ in rows(world)].count("compaction") == 2


# --- Cline's SDK ---


def sdk(*messages: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": 1,
        "updated_at": "2026-07-15T05:42:04.818Z",
        "agent": "lead",
        "sessionId": "1784094124598_rruoq",
        "messages": messages,
        "system_prompt": "Environment:\n4. Working Directory: /home/ann/shop\n",
    }


def test_a_session_of_the_sdk_and_its_compaction(world):
    first = {"id": "msg_1", "role": "user", "content": [block("fix it")], "ts": 1_784_094_124_598}
    answer = {
        "id": "msg_2",
        "role": "assistant",
        "ts": 1_784_094_124_599,
        "content": [{"type": "tool_use", "id": "t1", "name": "run", "input": {}}],
    }
    metrics = {"inputTokens": 1000, "cacheReadTokens": 900, "cacheWriteTokens": 0, "outputTokens": 10}
    result = {
        "id": "msg_3_tool_t1",
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"query": "q", "result": "ok"}]}],
    }
    save(world, "x.messages.json", sdk(first, answer))
    assert [text for _, text in said(world)] == ["fix it"]
    save(world, "x.messages.json", sdk(first, answer | {"metrics": metrics}, result))
    save(world, "x.messages.json", sdk(first, answer | {"metrics": metrics}, result | {"id": "msg_3_tool_t1_tool_t1"}))
    mark = {"kind": "compaction_summary", "summary": "what was done", "tokensBefore": 1010}
    save(world, "x.messages.json", sdk({"id": "s", "role": "user", "content": [block("…")], "metadata": mark}))
    notice = {"content": [block("fix it"), block("<SYSTEM_NOTICE>\nless")], "metadata": {"kind": "compaction", "n": 1}}
    save(world, "x.messages.json", sdk(first | notice))
    assert rows(world) == [
        ("user", "message", "fix it", None),
        ("assistant", "tool_call", "run {}", None),
        ("assistant", "message", "", 1010),
        ("tool", "tool_result", "ok", None),
        ("system", "compaction", "", None),
        ("assistant", "summary", "what was done", None),
        ("system", "message", "<SYSTEM_NOTICE>\nless", None),
        ("system", "compaction", "", None),
    ]
    assert world.query("SELECT id, folder FROM session") == [{"id": "1784094124598_rruoq", "folder": "/home/ann/shop"}]


# --- Gemini ---

CALL = {
    "id": "c",
    "name": "ls",
    "args": {},
    "status": "success",
    "result": [{"functionResponse": {"response": {"output": "a.txt"}}}],
}


def gemini(*messages: dict[str, Any]) -> dict[str, Any]:
    return {
        "sessionId": "faff42ab-6ea5-4f78-b8c4-f7dd6272af08",
        "projectHash": "7e89",
        "startTime": "2026-01-10T02:08:26.108Z",
        "lastUpdated": "2026-01-10T02:09:27.575Z",
        "messages": messages,
    }


def test_an_answer_of_gemini_is_taken_once_it_is_finished_with_all_it_gained(world):
    name = "shop/chats/session-1.json"
    (world.sessions / "shop/chats").mkdir(parents=True)
    (world.sessions / "shop/.project_root").write_text("/home/ann/shop\n")
    prompt = {"id": "m1", "timestamp": "2026-01-10T02:08:26.108Z", "type": "user", "content": "list"}
    answer = {"id": "m2", "timestamp": "2026-01-10T02:08:35.661Z", "type": "gemini", "content": "I lis"}
    save(world, name, gemini(prompt, answer))
    assert said(world) == [("user", "list")]
    answer |= {"content": "I list.", "tokens": {"input": 100, "output": 5}, "toolCalls": [CALL]}
    save(world, name, gemini(prompt, answer))
    world.restart()
    rest(world)
    assert rows(world) == [
        ("user", "message", "list", None),
        ("assistant", "message", "I list.", None),
        ("assistant", "tool_call", "ls {}", None),
        ("assistant", "message", "", 105),
        ("tool", "tool_result", "a.txt", None),
    ]
    assert world.query("SELECT folder FROM session") == [{"folder": "/home/ann/shop"}]
    world.check_spans()


# --- compressed files of Codex ---


def test_a_rollout_that_codex_compressed_is_the_one_that_was_read(tmp_path):
    with World(tmp_path, {"pattern": "sessions/**/*.jsonl*"}) as world:
        session = "019e44d4-6ecf-7c1d-96ab-582effc13411"
        head = {
            "timestamp": "2026-01-02T03:04:05.000Z",
            "type": "session_meta",
            "payload": {"id": session, "cwd": "/x"},
        }
        typed = [
            {
                "timestamp": f"2026-01-02T03:04:0{at}.000Z",
                "type": "event_msg",
                "payload": {"type": "user_message", "message": text},
            }
            for at, text in ((6, "one"), (7, "two"))
        ]
        lines = [json.dumps(one).encode() + b"\n" for one in (head, *typed)]
        plain = world.write(f"rollout-2026-01-02T03-04-05-{session}.jsonl", b"".join(lines[:2]))
        world.poll()
        plain.unlink()
        world.write(f"{plain.name}.zst", zstandard.compress(b"".join(lines)))
        world.write("broken.jsonl.zst", b"no frame")
        rest(world)
        world.restart()
        rest(world)
        assert world.texts() == ["one", "two"]
        assert world.query("SELECT id, format FROM session") == [{"id": session, "format": "codex"}]
        assert world.transcript("broken.jsonl.zst")["note"] is not None
        assert world.alarms() == []


# --- OpenCode's tree ---


def tree(world: World, kind: str, folder: str, name: str, **value: Any) -> None:
    world.write(f"storage/{kind}/{folder}/{name}.json", json.dumps({"id": name, **value}).encode())


def test_the_tree_of_opencode_is_read_as_it_grows(tmp_path):
    with World(tmp_path, {"pattern": "sessions/storage/session/*/*.json"}) as world:
        tree(world, "message", "ses_1", "msg_1", role="user", time={"created": 1_784_094_124_598})
        tree(world, "part", "msg_1", "prt_1", type="text", text="fix it")
        tree(world, "session", "p", "ses_1", directory="/home/ann/shop", parentID="ses_0")
        tree(world, "message", "ses_1", "msg_2", role="assistant", time={"created": 1_784_094_124_600})
        tree(world, "part", "msg_2", "prt_2", type="text", text="do")
        world.poll()
        world.later(1)
        world.poll()
        assert [text for _, text in said(world)] == ["fix it"]
        tree(world, "part", "msg_2", "prt_2", type="text", text="done")
        tree(world, "message", "ses_1", "msg_2", role="assistant", time={"created": 1_784_094_124_600, "completed": 1})
        world.restart()
        rest(world)
        assert said(world) == [("subagent", "fix it"), ("subagent", "done")]
        tree(world, "message", "ses_1", "msg_3", role="user", time={"created": 1_784_094_124_700})
        tree(world, "part", "msg_3", "prt_3", type="text", text="more")
        rest(world)
        assert [text for _, text in said(world)] == ["fix it", "done", "more"]
        assert world.query("SELECT id, parent_id, folder FROM session") == [
            {"id": "ses_1", "parent_id": "ses_0", "folder": "/home/ann/shop"}
        ]


def test_the_first_tree_of_opencode_is_read(tmp_path):
    with World(tmp_path, {"pattern": "sessions/storage/session/**/*.json"}) as world:
        tree(world, "session", "info", "ses_1", directory="/home/ann/shop")
        tree(world, "session/message", "ses_1", "msg_1", role="user", time={"created": 1_784_094_124_598})
        tree(world, "session/part/ses_1", "msg_1", "prt_1", type="text", text="fix it")
        rest(world)
        assert said(world) == [("user", "fix it")]
        assert len(world.query("SELECT id FROM session")) == 1


# --- anything ---

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(
        ["user", "assistant", "gemini", "say", "text", "tool_result", "task", "compaction_summary", "\ud800"]
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "type",
                    "say",
                    "ask",
                    "text",
                    "id",
                    "ts",
                    "metadata",
                    "kind",
                    "metrics",
                    "tokens",
                    "toolCalls",
                    "result",
                    "parts",
                    "info",
                    "time",
                    "name",
                    "input",
                    "isSummary",
                    "condenseId",
                    "contextCondense",
                    "conversationHistoryIndex",
                    "conversationHistoryDeletedRange",
                    "messages",
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=30,
)
NAMES = [
    "t/api_conversation_history.json",
    "t/ui_messages.json",
    "x.messages.json",
    "chats/s.json",
    "storage/session/p/ses_1.json",
    "storage/message/ses_1/msg_1.json",
    "storage/part/msg_1/prt_1.json",
]
HEADS = [
    {"sessionId": "s", "projectHash": "h"},
    {"sessionId": "s", "updated_at": 1, "agent": 2},
    {"info": {"id": "ses_1"}},
    {},
]


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(HEADS), values), min_size=1, max_size=4))
def test_arbitrary_json_raises_nothing_and_is_read_once(tmp_path_factory, files):
    with World(tmp_path_factory.mktemp("json"), {"pattern": "sessions/**/*"}) as world:
        world.write("chat.jsonl", message("read") + b"\n")
        for name, head, value in files:
            listed = value if isinstance(value, list) else [value]
            told = {**head, "messages": listed} if head else listed if name.startswith("t/") else value
            world.write(name, json.dumps(told).encode())
        rest(world)
        rest(world)
        assert world.alarms() == []
        before = world.texts()
        assert "read" in before
        world.restart()
        rest(world)
        assert world.texts() == before


@settings(max_examples=40)
@given(st.sampled_from(NAMES), st.binary(max_size=300) | values.map(lambda one: json.dumps(one).encode()[:-1]))
def test_arbitrary_bytes_raise_nothing(tmp_path_factory, name, data):
    with World(tmp_path_factory.mktemp("bytes"), {"pattern": "sessions/**/*"}) as world:
        world.write(name, data)
        world.write("chat.jsonl", message("read") + b"\n")
        rest(world)
        assert world.alarms() == []
        assert "read" in world.texts()
