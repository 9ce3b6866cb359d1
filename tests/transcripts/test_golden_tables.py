"""Real transcripts, from the folder that MEMORYD_TRANSCRIPTS names: the readers agree with a table made without them.

Each `expect_…` derives its table from the raw records of one format in the simplest way that is right for the samples.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pytest

from memoryd.gauge import live
from memoryd.transcripts import registry
from memoryd.transcripts.format import Identity, LineFormat
from memoryd.transcripts.lines import Pass
from memoryd.transcripts.turn import Origin, Turn, TurnKind

FOLDER = Path(os.environ.get("MEMORYD_TRANSCRIPTS", "/nonexistent"))
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="MEMORYD_TRANSCRIPTS names no folder of transcripts")


class Table(NamedTuple):
    """What a transcript holds, counted."""

    typed: int | None  # by the person; None where only the reader can tell them from the program's own words
    answers: int  # texts of the main model
    calls: int
    results: int
    compactions: int
    sessions: int
    context: int | None  # the last the agent wrote


def samples(folder: str, suffix: str = "jsonl") -> list[Path]:
    found = sorted((FOLDER / folder).rglob(f"*.{suffix}")) if FOLDER.is_dir() else []
    return [path for path in found if path.stat().st_size]


def read(path: Path, data: bytes | None = None) -> tuple[list[Turn], set[str], LineFormat, list[tuple[Any, int]]]:
    """All turns that are still said, the sessions, the reader; and after each record the size of the context."""
    data = path.read_bytes() if data is None else data
    place = PurePosixPath(path)
    values = [json.loads(line) for line in data.split(b"\n")[:60] if line.startswith(b"{")]
    reader = registry.detect(values, place, data[: registry.HEAD_BYTES])
    assert isinstance(reader, LineFormat)
    identity = reader.identify(values, place) or Identity(path.stem)
    meetings, gauge = Pass(identity.session_id), live.Gauge()
    turns: list[Turn] = []
    seen: set[tuple[str, int]] = set()
    gone: set[str] = set()
    sessions = set() if reader.many_sessions else {identity.session_id}
    sizes: list[tuple[Any, int]] = []
    for record in reader.cut(data, 0, last=True).records:
        found = reader.turns(record, identity, meetings)
        gone = (gone | set(found.retracted)) - set(found.resumed)
        fresh = [turn for turn in found.turns if (turn.record_id, turn.part) not in seen]
        seen.update((turn.record_id, turn.part) for turn in fresh)
        for turn in fresh:
            sessions.add((found.session or identity).session_id)
            gauge = live.advance(gauge, turn, len(turns))
            turns.append(turn)
        sizes.append((record.value, live.estimate_live(gauge).tokens))
    return [turn for turn in turns if turn.record_id not in gone], sessions, reader, sizes


def table_of(path: Path, data: bytes | None = None) -> Table:
    turns, sessions, _, _ = read(path, data)
    kinds = Counter(turn.kind for turn in turns)
    usages = [turn.usage for turn in turns if turn.usage and not turn.sidechain]
    messages = [turn for turn in turns if turn.kind is TurnKind.MESSAGE and turn.text]
    return Table(
        sum(turn.origin is Origin.USER for turn in messages),
        sum(turn.origin is Origin.ASSISTANT for turn in messages),
        kinds[TurnKind.TOOL_CALL],
        kinds[TurnKind.TOOL_RESULT],
        kinds[TurnKind.COMPACTION],
        len(sessions),
        usages[-1] if usages else None,
    )


def records(path: Path) -> list[dict[str, Any]]:
    """The records of a file, each once, of a line with several all of them."""
    found: list[dict[str, Any]] = []
    decoder = json.JSONDecoder()
    for line in path.read_text(errors="surrogateescape").split("\n"):
        at = 0
        while at < len(line):
            value, at = decoder.raw_decode(line, at)
            found.append(value)
    return found


def blocks(message: dict[str, Any], *kinds: str) -> list[dict[str, Any]]:
    content = message.get("content")
    return [one for one in content if one.get("type") in kinds] if isinstance(content, list) else []


def texts(found: list[dict[str, Any]]) -> int:
    return sum(bool(str(one.get("text", "")).strip()) for one in found)


def expect_pi(path: Path) -> Table:
    rows = records(path)
    by_id = {row["id"]: row for row in rows if "parentId" in row}
    if by_id:
        path_up: list[dict[str, Any]] = []
        row = rows[-1]
        while row is not None:
            path_up.append(row)
            row = by_id.get(row["parentId"]) if row["parentId"] else None
        rows = path_up[::-1]
    messages = [row["message"] for row in rows if row["type"] == "message"]
    assistants = [one for one in messages if one["role"] == "assistant"]
    used = [one["usage"] for one in assistants if one["stopReason"] not in ("aborted", "error")]
    sums = [
        one.get("totalTokens") or sum(one[k] for k in ("input", "output", "cacheRead", "cacheWrite")) for one in used
    ]
    return Table(
        sum(texts(blocks(one, "text")) for one in messages if one["role"] == "user"),
        sum(texts(blocks(one, "text")) for one in assistants),
        sum(len(blocks(one, "toolCall")) for one in assistants),
        sum(one["role"] == "toolResult" for one in messages),
        sum(row["type"] == "compaction" for row in rows),
        1,
        sums[-1],
    )


def expect_codex(path: Path) -> Table:
    rows = records(path)
    bare = "payload" not in rows[0]
    items = rows if bare else [row["payload"] for row in rows if row["type"] == "response_item"]
    events = [row["payload"] for row in rows if row.get("type") == "event_msg"]
    said = [one for one in items if one.get("type") == "message"]
    typed = sum(one["type"] == "user_message" and bool(one["message"].strip()) for one in events)
    typed += sum(one.get("item", {}).get("type") == "UserMessage" for one in events)
    if bare:
        mine = [text for one in said if one["role"] == "user" for text in blocks(one, "input_text")]
        typed = sum(not re.match(r"\s*<(environment_context|user_instructions)>", one["text"]) for one in mine)
    kinds = Counter(one.get("type") for one in items)
    counts = [one["info"] for one in events if one["type"] == "token_count" and one.get("info")]
    return Table(
        typed,
        sum(any(texts([block]) for block in one["content"]) for one in said if one["role"] == "assistant"),
        sum(kinds[kind] for kind in ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")),
        kinds["function_call_output"] + kinds["custom_tool_call_output"],
        sum(row.get("type") == "compacted" for row in rows),
        1,
        counts[-1]["last_token_usage"]["total_tokens"] if counts else None,
    )


def expect_claude(path: Path) -> Table:
    unique = {row.get("uuid", number): row for number, row in enumerate(records(path))}
    rows = list(unique.values())
    real = [
        row
        for row in rows
        if row.get("type") == "assistant" and row["message"].get("model") != "<synthetic>"
        and not row.get("isApiErrorMessage")
    ]  # fmt: skip
    is_main = not path.stem.startswith("agent-")
    main = [row for row in real if is_main and not row.get("isSidechain")]
    keys = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    used = [sum(row["message"]["usage"].get(key) or 0 for key in keys) for row in main if row["message"].get("usage")]
    used = [one for one in used if one]
    people = [row["message"] for row in rows if row.get("type") == "user"]
    return Table(
        None,
        sum(texts(blocks(row["message"], "text")) for row in main),
        sum(len(blocks(row["message"], "tool_use")) for row in real),
        sum(len(blocks(one, "tool_result")) for one in people),
        sum(row.get("subtype") == "compact_boundary" for row in rows),
        1,
        used[-1] if used else None,
    )


def expect_aider(path: Path) -> Table:
    lines = [*path.read_text(errors="replace").split("\n"), "# aider chat started at "]
    typed = answers = sessions = 0
    context, before, chat, before_head = None, "", False, False  # a chat in which nothing was said is no session
    inside = False  # within an output: only its first line has a mark, and only its last line ends with two spaces
    for line in lines:
        user = line.startswith("####") and line.endswith("  ")
        printed = (line.startswith(">") and line.endswith("  ")) or line.startswith(("> Tokens: ", "Cost: $"))
        head = line.startswith("# aider chat started at ")
        kind = "head" if head else "user" if user else "printed" if printed else "model" if line.strip() else "blank"
        inside = not head and (inside or (kind == "model" and (before == "printed" or before + line[:1] == "user>")))
        if inside:
            kind, inside = "printed", not re.search(r"\S  $", line)
        found = re.match(r"> Tokens: ([\d.,]+)(k?) sent.* ([\d.,]+)(k?) received", line)
        if found:
            pairs = [(found[1], found[2]), (found[3], found[4])]
            context = sum(round(float(n.replace(",", "")) * (1000 if k else 1)) for n, k in pairs)
        if kind == "user" and before != "user":
            command = re.match(
                r"#### (?:# Fix any (?:linting )?errors below|!|/(?!(?:ask|code|architect) +\S)[a-z-]+ )", line
            )
            typed += not command
        if kind == "model" and not chat:
            answers += 1
        chat = kind == "model" if kind != "blank" else chat
        sessions += head and before_head
        before_head = not head if kind != "blank" else before_head
        before = kind
    cleared = sum(line.strip() in ("#### /clear", "#### /reset") for line in lines)
    return Table(typed, answers, 0, 0, cleared, sessions, context)


@pytest.mark.parametrize("path", samples("pi"), ids=lambda path: path.name[-40:])
def test_pi(path: Path) -> None:
    assert table_of(path) == expect_pi(path)


@pytest.mark.parametrize("path", samples("codex"), ids=lambda path: path.name[-40:])
def test_codex(path: Path) -> None:
    assert table_of(path) == expect_codex(path)


@pytest.mark.parametrize("path", samples("codex"), ids=lambda path: path.name[-40:])
def test_codex_context_is_the_agents_own_after_every_count(path: Path) -> None:
    for value, size in read(path)[3]:
        payload = value.get("payload", {})
        if payload.get("type") == "token_count" and payload.get("info"):
            assert size == payload["info"]["last_token_usage"]["total_tokens"]


@pytest.mark.parametrize("path", samples("claude-code"), ids=lambda path: path.name[-40:])
def test_claude_code(path: Path) -> None:
    assert table_of(path)._replace(typed=None) == expect_claude(path)


@pytest.mark.parametrize("path", samples("aider", "md"), ids=lambda path: path.name[-40:])
def test_aider(path: Path) -> None:
    assert table_of(path) == expect_aider(path)


@pytest.mark.parametrize("path", samples("gemini", "json"), ids=lambda path: path.name[-40:])
def test_gemini_messages_as_an_event_log(path: Path) -> None:
    whole = json.loads(path.read_text())
    messages = whole.pop("messages")
    without = [{key: one for key, one in m.items() if key not in ("toolCalls", "tokens")} for m in messages]
    lines = [whole, *(one for pair in zip(without, messages, strict=True) for one in pair)]
    calls = [call for message in messages for call in message.get("toolCalls", [])]
    tokens = [message["tokens"] for message in messages if message.get("tokens")]
    expected = Table(
        sum(message["type"] == "user" for message in messages),
        sum(message["type"] == "gemini" and bool(message["content"]) for message in messages),
        len(calls),
        sum(bool(call.get("result")) for call in calls),
        0,
        1,
        tokens[-1]["input"] + tokens[-1]["output"],
    )
    assert table_of(Path("log.jsonl"), b"".join(json.dumps(one).encode() + b"\n" for one in lines)) == expected
