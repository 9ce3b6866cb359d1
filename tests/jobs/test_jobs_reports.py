"""What code reports of tool traffic: the files that were changed, as written, and the command that failed."""

from __future__ import annotations

import json

import pytest

from memoryd.jobs.reports import Reports
from memoryd.transcripts.fields import render_arguments
from memoryd.transcripts.turn import Origin, Role, StoredTurn, TurnKind


def call(seq: int, text: str, tool: str = "Bash") -> StoredTurn:
    kind = TurnKind.TOOL_CALL
    return StoredTurn(seq, f"r{seq}", 0, Role.ASSISTANT, Origin.ASSISTANT, kind, text, None, 0, False, f"c{seq}", tool)  # noqa: FBT003


def result(seq: int, text: str, of: int) -> StoredTurn:
    kind = TurnKind.TOOL_RESULT
    return StoredTurn(seq, f"r{seq}", 0, Role.TOOL, Origin.TOOL, kind, text, None, 0, False, f"c{of}", None)  # noqa: FBT003


def facts(*turns: StoredTurn, folder: str | None = "/srv") -> list[str]:
    reports = Reports(turns, folder)
    return [fact for turn in turns if (fact := reports.fact(turn))]


ERROR = "npm ERR! missing script: levels"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ('Bash {"command": "npm run levels"}', "`npm run levels`: "),
        ('{"command": "npm run levels", "timeout": 120}', "`npm run levels`: "),
        ('shell {"command": ["bash", "-lc", "npm run\\n  levels"]}', "`npm run levels`: "),
        ('exec const r = await exec_command({"cmd":"npm run \\"levels\\""}); text(r)', '`npm run "levels"`: '),
        ('Bash {"command": "npm run levels … [8 characters left out]', "`npm run levels … [8 characters left out]`: "),
        ('Bash {"command": "make `date`"}', "`make 'date'`: "),
        ('shell {"command": ["make", "all fast"]}', "`make 'all fast'`: "),
        ("Bash a call in a form of its own", ""),
    ],
)  # fmt: skip
def test_a_failed_run_is_reported_with_the_command_of_its_call(given: str, told: str) -> None:
    assert facts(call(1, given), result(2, f"{ERROR}\n", 1)) == [f"failed {told}{ERROR}"]


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("cat src/app.py", "class StoreError(Exception):\nError: the file is gone and nobody knows"),
        ("rg -n raise src | head -3", "src/a.py:3:    raise StoreError('x')\nValueError: wrong number of rows"),
        ("git diff HEAD~1", "+fatal: not a tree of ours\nError: in the text of a commit"),
        ("git log -3 && sed -n '1,9p' NEWS", "    Error: a subject that names one\n"),
        ("cd web && gh pr view 7", "TypeError: cannot read the page of it"),
        ("ls missing", "ls: cannot access 'missing': No such file or directory"),
        ("git show v9", "fatal: ambiguous argument 'v9': unknown revision or path"),
        ("apply_patch <<'P'\n*** Begin Patch\n*** End Patch\nP", "error: Failed to find expected lines in a.py:"),
        ("pytest -q", "Chunk ID: 1a\nProcess exited with code 0\nOutput:\nERROR: in a log that a test wrote\n1 passed"),
    ],
)
def test_an_error_in_what_a_command_shows_is_no_failure(command: str, output: str) -> None:
    assert facts(call(1, json.dumps({"command": command})), result(2, output, 1)) == []


@pytest.mark.parametrize(
    ("command", "output", "told"),
    [
        ("curl -s https://x.org", "curl: (6) Could not resolve host: x.org", "curl: (6) Could not resolve host: x.org"),
        ("git log -3", "fatal: unable to access the repository: 403", "fatal: unable to access the repository: 403"),
        ("cat a.py | python -", "ValueError: wrong number of rows", "ValueError: wrong number of rows"),
    ],
)
def test_a_command_that_shows_something_can_fail_itself(command: str, output: str, told: str) -> None:
    assert any(told in fact for fact in facts(call(1, json.dumps({"command": command})), result(2, output, 1)))


def test_where_failures_are_marked_a_run_without_the_mark_has_none() -> None:
    log = "ValueError: in a log line of the run"
    runs = [
        (call(1, '{"command": "make a"}'), result(2, f"Exit code 1\n{log}", 1)),
        (call(3, '{"command": "make b"}'), result(4, "RuntimeError: only in a log of it", 3)),
        (call(5, '{"command": "make c | tail -3"}'), result(6, "KeyError: the pipe hides it", 5)),
    ]
    told = facts(*(turn for run in runs for turn in run))
    assert [fact.split("`")[1] for fact in told] == ["make a", "make c | tail -3"]


def test_a_conflict_that_was_resolved_is_marked_so() -> None:
    found = facts(
        call(1, '{"command": "git rebase main"}'), result(2, "error: could not apply 1a2b3c4... Add it", 1),
        call(3, '{"command": "git rebase --continue"}'),
        result(4, "Successfully rebased and updated refs/heads/x.", 3),
    )  # fmt: skip
    assert found[0].endswith(" (a later run passed)")


def test_a_long_command_is_shortened() -> None:
    (fact,) = facts(call(1, json.dumps({"command": "pytest " + "a" * 400})), result(2, ERROR, 1))
    command = fact.removeprefix("failed `").removesuffix(f"`: {ERROR}")
    assert len(command) == 120
    assert command.endswith("a…")


@pytest.mark.parametrize(
    "name", ["__init__.py", "pkg/__main__.py", "___x.py", "-x.md", "# a.md", "- b.md", "system: c.md"]
)
def test_files_are_reported_by_their_names_as_written(name: str) -> None:
    assert facts(call(1, json.dumps({"file_path": f"/srv/{name}"}), "Write"), folder="/srv") == [f"changed `{name}`"]
    for key in ("file_path", "filePath", "notebook_path"):
        assert facts(call(1, json.dumps({key: name}), "Write")) == [f"changed `{name}`"]


def test_every_file_of_a_long_patch_is_reported_whatever_runs_it() -> None:
    patch = "\n".join(("*** Begin Patch", *(f"*** Add File: /srv/{name}.json\n+{'x' * 3000}" for name in "abc")))
    script = f"const patch = {json.dumps(patch)};\nawait tools.apply_patch(patch);"
    assert facts(call(1, render_arguments("exec", script), "exec")) == ["changed `a.json` `b.json` `c.json`"]


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Task", "Explain this: *** Begin Patch\n*** Update File: path/to/file.py\n apply_patch reads it"),
        ("bash", json.dumps({"command": "grep -rn '*** Begin Patch\n*** Add File: x' docs"})),
        ("bash", json.dumps({"command": "cat > how.md <<'E'\n*** Begin Patch\n*** Add File: x\nE"})),
    ],
)
def test_a_patch_that_is_only_quoted_changes_no_file(tool: str, given: str) -> None:
    assert not any("changed" in one for one in facts(call(1, f"{tool} {given}", tool)))


def test_a_name_where_arguments_are_cut_is_whole_and_no_other_files_are_named() -> None:
    for before in range(3950, 4000):
        patch = f"*** Begin Patch\n*** Add File: /srv/first.py\n+{'x' * before}\n*** Add File: /srv/second.py\n+1\n"
        assert facts(call(1, render_arguments("apply_patch", patch), "apply_patch")) == [
            "changed `first.py` `second.py`"
        ]
    text = f"{'x' * 5000}\n*** Add File: /srv/other.py\n"
    written = render_arguments("Write", {"file_path": "/srv/how.md", "content": text})
    assert facts(call(1, written, "Write")) == ["changed `how.md`"]
