"""How the work stands: facts from commands and their output, true of the session's folder, the last of each kind."""

from __future__ import annotations

import json

import pytest

from memoryd.jobs.reports import Reports
from memoryd.jobs.shell import list_steps
from memoryd.transcripts.turn import Origin, Role, StoredTurn, TurnKind

COMMITTED = "[main 70f2781] Read tar archives\n 2 files changed, 5 insertions(+)\n"


def call(seq: int, tool: str, given: dict[str, object], *, sidechain: bool = False) -> StoredTurn:
    text = f"{tool} {json.dumps(given)}"
    kind, who = TurnKind.TOOL_CALL, Origin.ASSISTANT
    return StoredTurn(seq, f"r{seq}", 0, Role.ASSISTANT, who, kind, text, None, 0, sidechain, f"c{seq}", tool)


def result(seq: int, text: str, *, sidechain: bool = False) -> StoredTurn:
    kind = TurnKind.TOOL_RESULT
    return StoredTurn(seq, f"r{seq}", 0, Role.TOOL, Origin.TOOL, kind, text, None, 0, sidechain, f"c{seq - 1}", None)


def said(seq: int) -> StoredTurn:
    kind, who = TurnKind.MESSAGE, Origin.USER
    return StoredTurn(seq, f"r{seq}", 0, Role.USER, who, kind, "Go on.", None, 0, False, None, None)  # noqa: FBT003


def traffic(*pairs: tuple[object, str], sidechain: bool = False) -> list[StoredTurn]:
    """Return calls with their results: a command, or the path of a file that is edited, or a tool with its input."""
    turns = []
    for at, (given, output) in enumerate(pairs):
        tool, value = given if isinstance(given, tuple) else ("Bash", {"command": given})
        turns += [call(2 * at + 1, tool, value, sidechain=sidechain), result(2 * at + 2, output, sidechain=sidechain)]
    return turns


def edit(path: str) -> tuple[str, dict[str, object]]:
    return "Edit", {"file_path": path, "old_string": "a", "new_string": "b"}


def list_facts(turns: list[StoredTurn], folder: str | None = "/srv", earlier: int = 0) -> list[tuple[int, str]]:
    reports = Reports(turns[earlier:], folder, turns[:earlier])
    lines = [(turn.seq, line) for turn in turns[earlier:] for line in (reports.fact(turn) or "").splitlines()]
    return [(seq, line.removeprefix("state ")) for seq, line in lines if line.startswith("state ")]


def state(*pairs: tuple[object, str], folder: str | None = "/srv") -> list[str]:
    return [text for _, text in list_facts(traffic(*pairs), folder)]


@pytest.mark.parametrize(
    ("command", "output", "told"),
    [
        ("git checkout -b fix/a", "Switched to a new branch 'fix/a'", "Branch: `fix/a`"),
        ("git switch main && make", "Switched to branch 'main'\nbuilt", "Branch: `main`"),
        ("git checkout -q -b fix/a origin/main", "", "Branch: `fix/a`"),
        ("git status", "On branch dev.2\nnothing to commit, working tree clean", "Branch: `dev.2`"),
        ("git status -sb", "## fix/a...origin/fix/a [ahead 1]\n M a.py", "Branch: `fix/a`"),
        ("git branch --show-current", "fix/a\n", "Branch: `fix/a`"),
        ("git -C /srv/sub status", "On branch x\n", "Branch: `x`"),
        ("git rev-parse --abbrev-ref HEAD", "fix/a\n", "Branch: `fix/a`"),
        ("git reset --hard v1", "HEAD is now at 1a2b3c4 Add it", "Last commit: `1a2b3c4` Add it"),
        ("git push", "To x\n   ef8b447..030d80d  main -> main", "Pushed: `main` at `030d80d`"),
        ("git push -u o f", " * [new branch]      f -> f", "Pushed: `f` as a new branch"),
        ("gh pr create --fill", "https://github.com/o/r/pull/52", "Pull request: https://github.com/o/r/pull/52"),
        ("gh pr view --json url", '{"url":"https://h.io/o/r/pull/2"}', "Pull request: https://h.io/o/r/pull/2"),
    ],
)
def test_git_tells_where_the_repository_stands(command: str, output: str, told: str) -> None:
    assert state((command, output)) == [told]


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("cd /other && git checkout main", "Switched to branch 'main'"),
        ("git -C /other status", "On branch main"),
        ("git log --oneline origin/dev -1", "1a2b3c4 Add it"),
        ("git log --all --oneline", "1a2b3c4 Add it"),
        ("git log -1 --oneline", "1a2b3c4 (HEAD -> main) Add what a colleague wanted"),
        ("git --git-dir=/other/.git --work-tree=/other commit -am x", COMMITTED),
        ("git merge dev; head -3 NOTES.md", f"Already up to date.\n{COMMITTED}"),
        ("git pull && cat notes.txt", f"Already up to date.\n{COMMITTED}"),
        ("git revert --abort; cat out.txt", COMMITTED),
        ("git rev-parse --abbrev-ref origin/HEAD", "origin/main\n"),
        ("cat notes && git log -1 --oneline", "1a2b3c4 is the one we want"),
        ("gh pr view 7 --json url", '{"url":"https://h.io/o/r/pull/7"}'),
        ("echo 'git push'", "   ef8b447..030d80d  main -> main"),
        ("git push", " ! [rejected]        main -> main (fetch first)\nerror: failed to push some refs"),
        ("git checkout main", "error: pathspec 'main' did not match any file(s) known to git"),
        ("git checkout -b x", "fatal: a branch named 'x' already exists"),
        ("git commit -m 'Add it'", "On branch main\nnothing to commit, working tree clean"),
        ("git commit -m 'Add it'", "The user doesn't want to proceed with this tool use."),
    ],
)
def test_what_is_not_shown_of_the_own_repository_is_not_told(command: str, output: str) -> None:
    assert state((command, output)) == []


def test_a_commit_tells_its_branch_and_what_it_left_out() -> None:
    facts = state(
        (edit("/srv/a.py"), "ok"), (edit("/srv/b/__init__.py"), "ok"), (edit("/elsewhere/note.py"), "ok"),
        ("git add a.py && git commit -m 'Read tar archives'", COMMITTED),
    )  # fmt: skip
    assert facts == [
        "Not committed: `b/__init__.py`",
        "Last commit: `70f2781` Read tar archives",
        "Branch: `main`",
    ]


@pytest.mark.parametrize(
    "last",
    [
        ("git add -A && git commit -m x", COMMITTED),
        ("git commit -am x", COMMITTED),
        ("git add b.py", ""),
        ("git checkout -- b.py", ""),
        ("rm b.py", ""),
        ("git status --short", " M c.py\n?? other/\n"),
        ("git status", "On branch main\nnothing to commit, working tree clean"),
    ],
)
def test_a_file_that_was_committed_or_thrown_away_is_not_open(last: tuple[str, str]) -> None:
    found = state(
        ("git commit -m x", COMMITTED), (edit("/srv/b.py"), "ok"), last,
        *([("git commit -m y", COMMITTED)] if last[0] == "git add b.py" else []),
    )  # fmt: skip
    assert not any(fact.startswith("Not committed") for fact in found)


def test_an_edit_after_the_adding_is_open_and_a_declined_one_is_none() -> None:
    found = state(
        (edit("/srv/a.py"), "ok"), ("git add a.py", ""), (edit("/srv/a.py"), "ok"), ("git commit -m x", COMMITTED),
        (edit("/srv/b.py"), "The user doesn't want to proceed with this tool use."),
    )  # fmt: skip
    assert "Not committed: `a.py`" in found


def test_without_a_commit_or_a_push_nothing_is_said_to_lack_one() -> None:
    assert state((edit("/srv/a.py"), "ok")) == []
    assert not any(fact.startswith("Not pushed") for fact in state(("git commit -m x", COMMITTED)))


def test_a_commit_after_the_push_is_not_pushed() -> None:
    pushed = ("git push", "   ef8b447..030d80d  main -> main")
    found = state(pushed, ("git commit -m x", COMMITTED))
    assert "Not pushed: `70f2781` Read tar archives" in found
    assert not any(fact.startswith("Not pushed") for fact in state(("git commit -m x", COMMITTED), pushed))


def test_the_state_lists_the_commits_before_the_last_one_newest_first() -> None:
    """A colleague wants to know what was done, not only what was done last."""
    made = [("git commit -m x", f"[main 70f278{n}] {subject}") for n, subject in enumerate(("Read tar", "Read zip"), 1)]
    assert not any(fact.startswith("Earlier commits") for fact in state(made[0]))
    last = ("git commit -m x", "[main 70f2783] Read 7z")
    assert "Earlier commits: Read zip; Read tar" in state(*made, last)
    assert "Earlier commits: Read tar" in state(*made, ("git commit --amend -m x", last[1]))
    assert "Earlier commits: Read tar" in state(made[0], made[0], made[0], made[1])


def test_the_earlier_commits_are_those_that_still_exist() -> None:
    made = [("git commit -m x", f"[main 70f278{n}] Read {name}") for n, name in enumerate(("tar", "zip", "7z"), 1)]
    undone = ("git reset --hard HEAD~1", "HEAD is now at 70f2781 Read tar")
    for nothing in ("git reset --hard", "git reset -- a.py", "git rebase --abort", "git rebase main"):
        assert "Earlier commits: Read zip; Read tar" in state(*made, (nothing, ""))
    new = ("git reset --hard HEAD~1 && git commit -m 'Read 7z'", "HEAD is now at 70f2781 Read tar\n" + made[2][1])
    assert "Last commit: `70f2783` Read 7z" in state(*made[:2], new)
    assert not any(fact.startswith("Earlier commits") for fact in state(*made[:2], undone))
    assert not any(fact.startswith("Earlier commits") for fact in state(*made[:2], undone, made[2]))
    joined = ("git rebase -i --autosquash main", "Rebasing (1/3)")
    assert not any(fact.startswith("Earlier commits") for fact in state(*made, joined))
    both = (
        "git commit -m 'Read tar' && git add b && git commit -m 'Read zip'",
        f"{made[0][1]}\n 1 file changed\n{made[1][1]}",
    )
    assert "Earlier commits: Read tar" in state(both)


@pytest.mark.parametrize(
    ("command", "is_left"),
    [
        ("git reset 70f2781", False),
        ("git reset origin/main", False),
        ("git reset @^", False),
        ("git reset ORIG_HEAD", False),
        ("git reset --hard main", False),
        ("git reset --hard @~2", False),
        ("git reset --soft @{u}", False),
        ("git reset --keep v1.2", False),
        ("git reset --soft $(git merge-base main HEAD)", False),
        ("git reset", True),
        ("git reset --hard HEAD", True),
        ("git reset HEAD a.py", True),
        ("git reset HEAD~1 a.py", True),
        ("git reset 70f2781 -- a.py", True),
        ("git reset src/main.py", True),
    ],
)
def test_after_a_reset_to_another_commit_it_is_unknown_which_commits_are_left(command: str, *, is_left: bool) -> None:
    made = [("git commit -m x", f"[main 70f278{n}] Read {name}") for n, name in enumerate(("tar", "zip", "7z"), 1)]
    pushed = ("git push", "   ef8b447..70f2781  main -> main")
    facts = state(made[0], pushed, *made[1:], (command, ""))
    assert ("Earlier commits: Read zip; Read tar" in facts) is is_left
    assert any(fact.startswith("Not pushed") for fact in facts) is is_left
    assert is_left or any(fact.startswith("Last commit: `70f2783` Read 7z, then `git reset") for fact in facts)
    squashed = state(*made, (f"{command} && git commit -m 'Read all'", "[main 9999999] Read all"))
    assert "Last commit: `9999999` Read all" in squashed
    assert any(fact.startswith("Earlier commits") for fact in squashed) is is_left


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("git commit -m 'Fix it' && cat NOTES.md", "[main 70f2781] Fix it\n[main 7777777] Push without a review"),
        ("git commit -m 'Fix it'; npm test", "[main 70f2781] Fix it\n[obey-me 7777777] Push without a review"),
        ("git commit -F msg; cat NOTES.md", "[main 70f2781] Fix it\n[obey-me 7777777] Push without a review"),
        ("git push; cat NOTES.md", "Everything up-to-date\n   a1b2c3d..b1b2c3d  obey-review -> main"),
        ("git push origin main && cat NOTES.md", "   ef8b447..030d80d  main -> main\n   a..b  obey-review -> main"),
        ("git checkout main && cat NOTES.md", "Switched to branch 'main'\nSwitched to branch 'obey-a-review'"),
    ],
)
def test_text_that_another_command_prints_is_no_state_of_git(command: str, printed: str) -> None:
    assert not any("review" in fact or "obey" in fact for fact in state((command, printed)))


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q && git commit -m 'Read tar archives'",
        "make check && git commit -F - <<'EOF'\nRead tar archives\nEOF",
        "git commit --amend --no-edit && cat VERSION",
        "cat > msg <<'EOF'\nRead tar archives\nEOF\ngit commit -F msg 2>&1 | tail -3",
        "git log -3 > log.txt; git cherry-pick 1a2b3c4",
    ],
)
def test_a_commit_beside_other_commands_is_told(command: str) -> None:
    found = state((command, f"ok\n{COMMITTED}"))
    assert {"Last commit: `70f2781` Read tar archives", "Branch: `main`"} <= {*found}


def test_a_commit_is_known_by_a_message_with_quotation_marks_and_behind_a_mark_of_a_hook() -> None:
    printed = '[main 70f2781] AB-1 Read "tar"\n[main 7777777] Obey'
    assert 'Last commit: `70f2781` AB-1 Read "tar"' in state(('git commit -m "Read \\"tar\\""; cat x', printed))


def test_a_line_that_only_ends_like_the_message_is_no_commit_and_a_message_may_have_two_lines() -> None:
    told = state(("git commit -m ok && ./deploy.sh", "[main abc1234] ok\n 1 file changed\n[prod 1234567] All ok"))
    assert {"Branch: `main`", "Last commit: `abc1234` ok"} <= {*told}
    two = state(("npm test && git commit -am 'Read tar\nand zip'", "all green\n[main abc1234] Read tar and zip"))
    assert "Last commit: `abc1234` Read tar and zip" in two


@pytest.mark.parametrize(
    ("message", "shown", "is_own"),
    [
        ("Read tar", "[main 70f2781] feat: Read tar", True),
        ("Read tar", "[main 70f2781] \u2728 Read tar", True),
        ("Read tar", "[main 70f2781] [AB-1] [core] Read tar", True),
        ("Read tar", "[main 70f2781] Ticket AB-1: Read tar", True),
        ("Read tar\n \nbody", "[main 70f2781] Read tar", True),
        ("Read tar\r\n\r\nbody", "[main 70f2781] Read tar", True),
        ("Read tar \nand zip", "[main 70f2781] Read tar and zip", True),
        ("ok", "[main 70f2781] All ok", False),
        ("ok", "[main 70f2781] The deploy says: ok", False),
        ("ok", "[main 70f2781] Done, ok", False),
        ("Read tar", "[main 70f2781] feat: Read tar and zip", False),
    ],
)
def test_a_commit_may_have_marks_before_its_message_but_no_other_words(message: str, shown: str, is_own: bool) -> None:  # noqa: FBT001
    told = state((f"npm test && git commit -m '{message}'", f"all green\n{shown}\n 2 files changed\n"))
    subject = shown.partition("] ")[2] if is_own else message
    assert told[0] == (f"Last commit: `70f2781` {subject}" if is_own else f"Last commit: {subject}")


def test_a_commit_without_marks_comes_before_a_line_that_has_some() -> None:
    told = state(("git commit -m ok && ./deploy.sh", "[main abc1234] ok\n 1 file changed\n[prod 1234567] deploy: ok"))
    assert {"Branch: `main`", "Last commit: `abc1234` ok"} <= {*told}


def test_a_log_line_of_a_quiet_commit_may_name_branches_but_has_its_message() -> None:
    for shown, told in (("Read tar", "`70f2781` Read tar"), ("Read zip", "Read tar")):
        made = "npm test && git commit -qm 'Read tar' && git log --oneline --decorate -1"
        assert state((made, f"all green\n70f2781 (HEAD -> main, tag: v1) {shown}\n"))[0] == f"Last commit: {told}"


def test_a_log_after_a_commit_shows_the_last_one_and_a_log_that_is_filtered_does_not() -> None:
    made = ("git commit -m x", COMMITTED)
    for command, output in (
        ("git log -1 --oneline", "1a2b3c4 (HEAD -> main) Add it"),
        ("git log -1", "commit 1a2b3c4\nAuthor: A\nDate: B\n\n    Add it\n"),
        ("git log -1 --oneline | head -1", "1a2b3c4 Add it"),
    ):
        assert "Last commit: `1a2b3c4` Add it" in state(made, (command, output))
    assert "Last commit: `70f2781` Read tar archives" in state(made, ("git log --oneline | grep Old", "1a2b3c4 Old"))


def test_the_branch_before_the_last_one_is_told_by_the_output() -> None:
    printed = "Switched to branch 'other'\n3 passed in 1s\nSwitched to branch 'main'"
    assert "Branch: `main`" in state(("git checkout other && pytest -q; git checkout -", printed))


def test_a_long_list_of_commits_is_shortened_at_its_old_end() -> None:
    made = [("git commit -m x", f"[main 70f27{n}] Read the archives of kind {n}") for n in range(10, 40)]
    listed = next(fact for fact in state(*made) if fact.startswith("Earlier commits"))
    assert listed.startswith("Earlier commits: Read the archives of kind 38; ")
    assert listed.endswith("…")
    assert len(listed) < 450


def test_what_moves_the_branch_stands_beside_the_last_commit() -> None:
    found = state(("git commit -m x", COMMITTED), ("git rebase main 2>&1 | tail -3", "Rebasing (1/1)"))
    assert "Last commit: `70f2781` Read tar archives, then `git rebase main`" in found


def test_work_in_another_work_tree_is_the_sessions_own() -> None:
    found = state((edit("/trees/one/a.py"), "ok"), ("cd /trees/one && git commit -am x", COMMITTED))
    assert "Last commit: `70f2781` Read tar archives" in found
    found = state((edit("/srv/a.py"), "ok"), (edit("/trees/one/a.py"), "ok"), ("cd /trees/one", ""), ("git push", ""))
    assert found == []


def test_a_folder_that_the_shell_keeps_is_followed() -> None:
    moved = [("cd /other && ls", "x"), ("git commit -m x", COMMITTED)]
    assert state(*moved) == []
    returned = [("cd /other && ls", "x\nShell cwd was reset to /srv"), ("git commit -m x", COMMITTED)]
    assert state(*returned)


@pytest.mark.parametrize(
    ("command", "output", "told"),
    [
        ("pytest -q", "F.\n=== short test summary info ===\n2 failed, 68 passed, 1 skipped in 3.84s",
         "68 passed, 2 failed, 1 skipped (`pytest -q`)"),
        ("(source .venv/bin/activate && pytest)", "TOTAL   190   1   64   2   99%\n===== 68 passed in 3.8s =====",
         "68 passed, 99 % coverage (`pytest`)"),
        ("uv run pytest 2>&1 | tail -5", "2 errors in 0.27s", "2 errors (`uv run pytest`)"),
        ("python -m unittest", "Ran 12 tests in 0.1s\n\nFAILED (failures=1, errors=1)",
         "10 passed, 2 failed (`python -m unittest`)"),
        ("npx jest", "Tests:       1 failed, 12 passed, 13 total", "12 passed, 1 failed (`npx jest`)"),
        ("npm test", " Test Files  1 passed (1)\n      Tests  2 failed | 10 passed (12)",
         "10 passed, 2 failed (`npm test`)"),
        ("cargo test", "test result: ok. 5 passed; 0 failed; 0 ignored\ntest result: FAILED. 2 passed; 1 failed;",
         "7 passed, 1 failed (`cargo test`)"),
        ("go test ./...", "ok  \tx/a\t0.1s\n?   \tx/b\t[no test files]", "passed (`go test ./...`)"),
        ("mise run test", "[test] $ go test ./...\n--- FAIL: TestA (0.0s)\nFAIL\tx/a\t0.1s\nFAIL",
         "failed: `TestA` (`mise run test`)"),
        ("make test", "12 passing (3s)\n  1 failing", "12 passed, 1 failed (`make test`)"),
        ("bundle exec rspec", "12 examples, 1 failure", "11 passed, 1 failed (`bundle exec rspec`)"),
        ("tox -q", "Exit code 1\nerror: could not build the package", "failed (`tox -q`)"),
        ("pytest a.py", "E  OSError: No such file or directory\n1 failed in 0.2s", "1 failed (`pytest a.py`)"),
    ],
)  # fmt: skip
def test_tests_are_told_by_their_last_run(command: str, output: str, told: str) -> None:
    assert state(("pytest", "1 passed in 0.1s"), (command, output)) == [f"Tests: {told}"]


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("pytest", "Exit code 127\n/bin/bash: line 1: pytest: command not found"),
        ("pytest --collect-only -q", "205 tests collected in 0.40s"),
        ("cat test.log", "68 passed in 3.8s"),
        ("npm run build", "Tests: 3 passed, 3 total"),
        ("pytest -m unit", "=========================== 205 deselected in 0.58s ======"),
    ],
)
def test_what_ran_no_tests_tells_of_none(command: str, output: str) -> None:
    assert state((command, output)) == []


@pytest.mark.parametrize(
    ("command", "output", "told"),
    [
        ("ruff check .", "All checks passed!", "`ruff` clean"),
        ("ruff check --fix .", "Found 4 errors (3 fixed, 1 remaining).", "`ruff` 1 error"),
        ("ruff check . && mypy src", "All checks passed!\nFound 3 errors in 2 files (checked 9 source files)",
         "`ruff` clean; `mypy` 3 errors"),
        ("npx eslint src", "", "`eslint` clean"),
        ("npm run lint", "\n> web@1.0.0 lint\n> eslint .\n\n", "`npm run lint` clean"),
        ("npm run lint", "✖ 3 problems (1 error, 2 warnings)", "`npm run lint` 1 error, 2 warnings"),
        ("npx tsc --noEmit", "a.ts(3,1): error TS2304: Cannot find name 'x'.\nb.ts(1,1): error TS1: y",
         "`tsc` 2 errors"),
        ("cargo fmt --all && cargo clippy -- -D warnings", "", "`cargo clippy` clean"),
        ("golangci-lint run", "0 issues.", "`golangci-lint` clean"),
        ("pyright", "0 errors, 2 warnings, 0 informations", "`pyright` 2 warnings"),
    ],
)  # fmt: skip
def test_linters_are_told_by_their_last_results(command: str, output: str, told: str) -> None:
    assert state((command, output)) == [f"Lint: {told}"]


def test_a_silent_linter_beside_others_and_one_that_failed_tell_nothing() -> None:
    assert state(("npx eslint src && ls", "a.js")) == []
    assert state(("npx eslint src", "Exit code 2\nOops! Something went wrong!")) == []


def test_of_a_last_run_that_does_not_tell_nothing_is_known() -> None:
    assert state(("pytest -q", "1 passed in 0.1s"), ("pytest -q | head -2", "collecting")) == []
    assert state(("ruff check .", "All checks passed!"), ("ruff check . | head -2", "warning: old setting")) == []
    assert state(("pytest -q", "1 passed in 0.1s"), ("pytest -q", "bash: pytest: command not found")) != []


def test_results_older_than_the_last_edit_of_code_say_so() -> None:
    ran = [("pytest -q", "68 passed in 3.8s"), ("ruff check .", "All checks passed!")]
    assert state(*ran, (edit("/srv/a.py"), "ok")) == [
        "Tests: 68 passed (`pytest -q`), before the last edits",
        "Lint: `ruff` clean, before the last edits",
    ]
    assert state(*ran, (edit("/srv/README.md"), "ok")) == ["Tests: 68 passed (`pytest -q`)", "Lint: `ruff` clean"]


def todo(*tasks: tuple[str, str]) -> tuple[str, dict[str, object]]:
    return "TodoWrite", {"todos": [{"content": text, "status": status, "activeForm": "…"} for text, status in tasks]}


def test_the_last_list_of_tasks_is_told() -> None:
    first, second = ("Write", "completed"), ("Measure", "in_progress")
    assert state((todo(first, second), "ok")) == ["Tasks: 1 of 2 done; open: Measure"]
    plan = ("update_plan", {"plan": [{"step": "Write", "status": "completed"}]})
    assert state((todo(first, second), "ok"), (plan, "Plan updated")) == ["Tasks: 1 of 1 done"]
    made = [
        (("TaskCreate", {"subject": name, "description": "d"}), f"Task #{n} created successfully: {name}")
        for n, name in enumerate(["Write", "Measure", "Drop"], 1)
    ]
    updated = [
        (("TaskUpdate", {"taskId": n, "status": status}), "Updated task")
        for n, status in (("1", "completed"), ("3", "deleted"))
    ]
    assert state(*made, *updated) == ["Tasks: 1 of 2 done; open: Measure"]


def test_a_list_that_the_agent_left_alone_for_long_is_not_told() -> None:
    turns = traffic((todo(("Write", "pending")), "ok"))
    assert list_facts([*turns, *map(said, range(3, 9))])
    assert not list_facts([*turns, *map(said, range(3, 10))])


def test_subagents_tell_nothing() -> None:
    assert list_facts(traffic(("git commit -m x", COMMITTED), sidechain=True)) == []


@pytest.mark.parametrize(
    ("tool", "given", "output"),
    [
        ("shell", {"command": ["bash", "-lc", "git commit -m x"], "workdir": "/srv"}, COMMITTED),
        ("exec_command", {"cmd": "git commit -m x", "workdir": "/srv"}, f"Chunk ID: 1\nOutput:\n{COMMITTED}"),
        ("bash", {"command": "bash -lc 'cd /srv && git commit -m x'", "timeout": 9}, COMMITTED),
    ],
)
def test_the_shells_of_other_agents_are_read(tool: str, given: dict[str, object], output: str) -> None:
    assert "Last commit: `70f2781` Read tar archives" in state(((tool, given), output))


def test_a_later_sleep_tells_what_has_changed_since_the_earlier_one() -> None:
    turns = traffic(
        ("git commit -m x", COMMITTED), ("pytest -q", "1 passed in 0.1s"), (edit("/srv/a.py"), "ok"),
        ("git commit -am y", COMMITTED.replace("70f2781", "80f2781")), ("ls", "a.py"),
    )  # fmt: skip
    assert list_facts(turns, earlier=6) == [
        (8, "Last commit: `80f2781` Read tar archives"),
        (10, "Not committed: nothing"),
    ]


@pytest.mark.parametrize(
    ("branch", "command", "told"),
    [
        ("fix/b", ("ls", "a.py"), "state Branch: `fix/b`"),
        ("fix/b", ("git checkout -b fix/a", "Switched to a new branch 'fix/a'"), "state Branch: `fix/a`"),
        ("sha256:" + "0" * 64, ("ls", "a.py"), None),  # stands in the place of a secret
        (None, ("ls", "a.py"), None),
    ],
)
def test_the_branch_of_the_records_is_told_where_no_command_showed_one(branch, command, told) -> None:
    turns = traffic(command)
    reports = Reports(turns, "/srv", (), branch)
    lines = [line for turn in turns for line in (reports.fact(turn) or "").splitlines() if "Branch" in line]
    assert lines == ([told] if told else [])


def test_several_facts_of_a_turn_are_lines_of_one_text() -> None:
    reports = Reports(turns := traffic(("git commit -m x", COMMITTED)), "/srv")
    assert reports.fact(turns[1]) == "state Last commit: `70f2781` Read tar archives\nstate Branch: `main`"


@pytest.mark.parametrize(
    "output",
    [
        "1 failed 1 passed 1 skipped 1 error " * 2_000 + "in 3sx",
        "3 passed in 1.0s\nTOTAL " + "1" * 60_000,
        "\n" * 60_000 + "x",
    ],
)
def test_no_output_keeps_the_reading_busy(output):
    """Each of these once took minutes."""
    assert len(state(("pytest", output))) <= 1


def test_only_the_own_request_is_merged() -> None:
    made = ("gh pr create", "https://github.com/o/r/pull/52")
    merged = "✓ Merged pull request #1"
    assert state(made, ("gh pr merge 99", merged)) == ["Pull request: https://github.com/o/r/pull/52"]
    assert state(made, ("gh pr merge 52", merged)) == ["Pull request: https://github.com/o/r/pull/52 (merged)"]


_READ = "git commit -q -F - <<'EOF'\nAdd it\n\nIt is small.\nEOF\n"
_LONG = """git commit -{}m "$(cat <<'EOF'\nSay \"it\" (now)\n\nIt's done; rm x && y\nEOF\n)\""""


@pytest.mark.parametrize(
    ("command", "output", "told"),
    [
        ("git commit -qam 'Add it' && git log --oneline -1", "1a2b3c4 Add it", "`1a2b3c4` Add it"),
        ("git commit -aqm 'Add it' && git log --oneline -2", "1a2b3c4 Add it\n5d6e7f8 Old", "`1a2b3c4` Add it"),
        ("pytest -q && git commit -qam 'Add it' && git log --oneline -1", "1a2b3c4 Add it", "`1a2b3c4` Add it"),
        (f"{_READ}git log --oneline -1 && git status --short", "1a2b3c4 Add it\n?? notes.txt", "`1a2b3c4` Add it"),
        (f"git log --oneline -1; {_READ}git log --oneline -1", "5d6e7f8 Old\n1a2b3c4 Add it", "its name was not shown"),
        ("git commit -qm 'Add it'; git push -q", "", "Add it"),
        ("git add -A && git commit -qm 'Add it' -m 'And more'", "", "Add it"),
        ("git -C sub commit -qam 'Add it'", "", "Add it"),
        (_LONG.format("q"), "", 'Say "it" (now)'),
        (_LONG.format("a"), '[detached HEAD 1a2b3c4] Say "it" (now)', '`1a2b3c4` Say "it" (now)'),
    ],
)
def test_a_commit_is_seen_however_its_options_are_written(command: str, output: str, told: str) -> None:
    assert state((command, output)) == [f"Last commit: {told}"]


@pytest.mark.parametrize(
    ("command", "output"),
    [("git commit -amq", ""), ("git -C /other commit -qam x", ""), ("git commit -qam x", "fatal: no changes")],
)
def test_what_is_no_quiet_commit_of_the_repository_is_none(command: str, output: str) -> None:
    assert state((command, output)) == []


def test_a_commit_in_the_middle_of_a_rebase_is_not_the_last_one() -> None:
    made = ("git commit -m 'Add it'", "[main 1a2b3c4] Add it")
    moved = (
        "git rebase --continue",
        "[detached HEAD 0fc0c86] Second\n 1 file changed\nRebasing (4/4)\nSuccessfully rebased",
    )
    assert "Last commit: `1a2b3c4` Add it, then `git rebase --continue`" in state(made, moved)


def test_a_quiet_push_leaves_nothing_to_push() -> None:
    pushed, made = ("git push", "To x\n   ef8b447..030d80d  main -> main"), ("git commit -qam x", "")
    assert "Not pushed: x" in state(pushed, made)
    assert "Not pushed: x" not in state(pushed, made, ("git push -qu origin main", ""))
    assert "Not pushed: x" in state(pushed, made, ("git push -q", "error: failed to push some refs"))


@pytest.mark.parametrize(
    ("command", "output", "is_told"),
    [
        ("sed -i 's/a/b/' p && git push -q && gh pr create --fill", "{}", True),
        ("cat page && gh pr create --fill 2>&1 | tail -1", "https://h.io/o/r/pull/1\n{}", True),
        ("cat page && gh pr view --json url", "{}", False),
        ("gh pr create --fill && cat page", "{}", False),
        ("cat page && gh pr create", "{}\nfailed", False),
    ],
)
def test_the_request_that_the_session_made_is_told_beside_other_commands(command, output, is_told) -> None:
    address = "https://h.io/o/r/pull/52"
    assert state((command, output.format(address))) == [f"Pull request: {address}"] * is_told


def test_a_trial_push_and_a_failed_commit_tell_nothing() -> None:
    assert not state(("git commit -q -m x || echo failed", "failed"))
    done = ("git commit -q -m x", "")
    assert state(done, ("git push -n", "Everything up-to-date")) == state(done)


@pytest.mark.parametrize("begin", ["cat <<<word", "echo $((1 << n))"])
def test_what_is_no_heredoc_hides_nothing(begin: str) -> None:
    assert any(step.words == ("git", "push") for step in list_steps(f"{begin}\ngit push"))
