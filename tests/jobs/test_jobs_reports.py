"""What code reports of tool traffic: the files that were changed, as written, and the command that failed."""

from __future__ import annotations

import json

import pytest

from memoryd.jobs.reports import Reports
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
        ('Bash {"command": "echo `date`"}', "`echo 'date'`: "),
        ('shell {"command": ["apply_patch", "*** Begin Patch\\n*** End Patch"]}', "`apply_patch`: "),
        ("Bash a call in a form of its own", ""),
    ],
)  # fmt: skip
def test_a_failed_run_is_reported_with_the_command_of_its_call(given: str, told: str) -> None:
    assert facts(call(1, given), result(2, f"{ERROR}\n", 1)) == [f"failed {told}{ERROR}"]


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
    assert facts(call(1, json.dumps({"file_path": name}), "Write")) == [f"changed `{name}`"]
