"""Gathering evidence: whatever a session holds, a sleep gets its evidence, and the offline backend answers it."""

import json
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.jobs.evidence import LONGEST_TEXT, REPORT, gather
from memoryd.jobs.job import Ask
from memoryd.ledger.lane import Lane
from memoryd.offline import backend
from memoryd.transcripts.turn import Origin, Role, StoredTurn, TurnKind

# What the readers of commands, patches, files, tests and lists look for, whole, cut off and out of place.
FRAGMENTS = (
    "*** Begin Patch", "*** Update File: CLAUDE.md", "*** Add File: AGENTS.md", "*** End Patch", "+one line",
    "-another", "@@", "cat <<'EOF' > CLAUDE.md", "cat <<EOF >> .claude/memory/a.md", "EOF", "git commit -m 'Fix it'",
    'git commit -m "$(cat <<\'EOF\'', "[main 1a2b3c4] Fix it", "git push", "git checkout -b topic", "git merge", "git",
    "gh pr create", "https://github.com/a/b/pull/1", "pytest -q", "3 passed, 1 failed in 0.1s", "5 passed",
    "ok  \tpkg\t0.1s", "--- FAIL: TestOne (0.00s)", "cargo test", "test result: ok. 3 passed; 0 failed", "ruff check .",
    "All checks passed!", "npm test", "Tests: 1 failed, 2 passed", "cd /work/sub &&", "| tail -5", "; rm -f a.py", "&&",
    "'", '"', "`", "\\", "$(", ")", "\n", "<tool_use_error>", "Error: no", "Traceback (most recent call last):",
    "Switched to a new branch 'topic'", "Wall time: 0.1 seconds", "Process exited with code 1", "1. [x] done", "- a) b",
    "We use Postgres because it is there.", "Should we?", "No, not A but B.", "CLAUDE.md", "memory", "42", ":", "é世",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=8), max_size=8).map(" ".join)
TOOLS = (
    "Bash",
    "exec_command",
    "shell",
    "apply_patch",
    "Write",
    "Edit",
    "TodoWrite",
    "update_plan",
    "TaskCreate",
    "save_memory",
)
KEYS = (
    "command",
    "cmd",
    "input",
    "patch",
    "file_path",
    "content",
    "old_string",
    "new_string",
    "workdir",
    "cwd",
    "fact",
)
VALUES = TEXTS | st.lists(TEXTS, max_size=3) | st.none() | st.integers()
TASKS = st.lists(st.dictionaries(st.sampled_from(("content", "step", "status", "id")), TEXTS, max_size=3), max_size=3)
CALLS = st.tuples(
    st.sampled_from(TOOLS),
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4) | st.fixed_dictionaries({"todos": TASKS, "plan": TASKS}),
)
AT = "2026-05-04T09:00:00Z"


def turn(seq, origin, kind, text, tool=None):
    roles = {Origin.USER: Role.USER, Origin.ASSISTANT: Role.ASSISTANT, Origin.TOOL: Role.TOOL}
    call = f"c{seq // 2}" if tool else None
    return StoredTurn(
        seq, f"r{seq}", 0, roles[origin], origin, kind, text, AT, 0, sidechain=False, tool_call_id=call, tool_name=tool
    )


@st.composite
def sessions(draw):
    found = []
    for _ in range(draw(st.integers(0, 6))):
        seq = 2 * (len(found) + 1)
        if draw(st.booleans()):
            name, arguments = draw(CALLS)
            raw = draw(st.sampled_from((json.dumps(arguments), str(arguments), draw(TEXTS))))
            found.append(turn(seq, Origin.ASSISTANT, TurnKind.TOOL_CALL, f"{name} {raw}", name))
            found.append(turn(seq + 1, Origin.TOOL, TurnKind.TOOL_RESULT, draw(TEXTS), name))
        else:
            origin = draw(st.sampled_from((Origin.USER, Origin.ASSISTANT)))
            found.append(turn(seq, origin, TurnKind.MESSAGE, draw(TEXTS)))
    return found


@given(sessions(), st.integers(0, 3))
def test_every_session_gives_evidence_and_gets_an_answer(turns, earlier):
    gathered = gather(turns[earlier:], "/work", UTC, turns[:earlier])
    context = (("words", "200"), ("summary so far", "- [s1] Decided: We use Postgres."))
    backend.answer(Ask("sleep", "Summarise.", gathered.material, context))


@pytest.mark.parametrize(("opens", "closes"), [("```\n", "\n```"), ("<page>\n", "\n</page>")])
def test_of_a_long_message_what_is_pasted_falls_away_and_the_persons_words_stay(opens, closes):
    rule = "Always run the linter before a commit."
    pasted = "The page says a lot of things.\n" * 300 + "Always use curl.\n" + "It goes on and on.\n" * 300
    said = "I think so, since it was so before. " * 200
    text = f"{said}\n\n{opens}{pasted}{closes}\n\n{rule}\n\n{said}"
    assert len(text) > 2 * LONGEST_TEXT
    found = gather((turn(1, Origin.USER, TurnKind.MESSAGE, text),), None, UTC)
    shown = {line.text: line.lane for line in found.pieces[0].lines}
    assert shown[rule] is Lane.USER
    assert "Always use curl." not in found.material[0].text


def test_the_reports_of_two_subagents_in_a_row_are_both_read():
    said = [
        (Role.USER, Origin.USER, TurnKind.MESSAGE, "Please bring the notes up to date."),
        (Role.USER, Origin.SUBAGENT, TurnKind.MESSAGE, "Examine the packages."),
        (Role.ASSISTANT, Origin.SUBAGENT, TurnKind.MESSAGE, "I'll look at them."),
        (Role.ASSISTANT, Origin.SUBAGENT, TurnKind.TOOL_CALL, "Read {}"),
        (Role.ASSISTANT, Origin.SUBAGENT, TurnKind.MESSAGE, "The script type-check is missing in package.json."),
        (Role.TOOL, Origin.TOOL, TurnKind.TOOL_RESULT, "The script type-check is missing in package.json."),
        (Role.USER, Origin.SUBAGENT, TurnKind.MESSAGE, "Examine the folders."),
        (Role.ASSISTANT, Origin.SUBAGENT, TurnKind.MESSAGE, "The components are in todo-app/src."),
        (Role.ASSISTANT, Origin.ASSISTANT, TurnKind.MESSAGE, "The notes are up to date."),
    ]
    turns = [
        StoredTurn(seq, f"r{seq}", 0, role, origin, kind, text, AT, 9, origin is Origin.SUBAGENT, None, None)
        for seq, (role, origin, kind, text) in enumerate(said, 1)
    ]
    texts = [quoted.text for quoted in gather(turns, None, UTC).material]
    assert texts == [said[at][3] for at in (0, 4, 7, 8)]


def test_what_was_said_before_an_edit_is_known_and_what_the_user_answered_first_is_not():
    said = [
        (Origin.USER, TurnKind.MESSAGE, "Why is the list empty?", None),
        (Origin.ASSISTANT, TurnKind.MESSAGE, "The cache is never emptied.", None),
        (Origin.USER, TurnKind.MESSAGE, "Then empty it.", None),
        (Origin.ASSISTANT, TurnKind.MESSAGE, "The key is wrong, too.", None),
        (Origin.ASSISTANT, TurnKind.TOOL_CALL, 'Edit {"file_path": "/work/cache.py"}', "Edit"),
        (Origin.TOOL, TurnKind.TOOL_RESULT, "The file was updated.", "Edit"),
        (Origin.ASSISTANT, TurnKind.MESSAGE, "The cache is emptied at each start.", None),
        (Origin.ASSISTANT, TurnKind.TOOL_CALL, 'Edit {"file_path": "/work/other.py"}', "Edit"),
        (Origin.TOOL, TurnKind.TOOL_RESULT, "<tool_use_error>File has not been read yet</tool_use_error>", "Edit"),
    ]
    turns = [turn(seq, origin, kind, text, tool) for seq, (origin, kind, text, tool) in enumerate(said, 2)]
    turns = [one._replace(tool_call_id=f"c{(one.seq - 2) // 3}" if one.tool_name else None) for one in turns]
    found = {one.text: one.is_acted_on for one in gather(turns, "/work", UTC).material if one.origin != REPORT}
    assert [text for text, is_acted_on in found.items() if is_acted_on] == ["Then empty it.", "The key is wrong, too."]
    assert len(found) == 5
