"""Read the state in which a session leaves the work, from its commands and their output.

The state is the branch, the last commit, pushed and unpushed commits, the pull request, the last results of tests and
linters, and the agent's task list. Only commands that the agent itself ran in the main conversation count, and only in
the folder in which the session works.
"""

import re
from collections.abc import Iterable, Sequence

from memoryd.jobs import check_runs
from memoryd.jobs.git_state import COMMIT, GitCall, GitState, list_showing
from memoryd.jobs.shell import Step, extract_command, extract_folder, join_folder, list_steps
from memoryd.jobs.uncommitted import UncommittedFiles, WorkFolder
from memoryd.text.neutral import neutralize
from memoryd.transcripts.fields import first_text, mappings, shown_arguments

TAIL = 20_000  # characters from the end of an output that are read
_LONGEST_LINE = 400  # characters of each line that are read: the result is at its beginning, and patterns stay fast
STATE = "state "  # begins a fact about the state of the work, `KEY: text`; the last fact with a key is the current one
NOTHING = "nothing"  # the text of a fact that ends a fact of an earlier sleep with the same key

_MOST_NAMED = 8
_MOST_COMMITS = 3
_MOST_LINTERS = 4
# After this many requests of the user, a finished or an open task list is outdated: it belongs to an earlier request.
_MOST_ASKED_SINCE_DONE, _MOST_ASKED = 3, 6
# Commands whose output cannot be mistaken for the output of another command.
_SILENT = frozenset(["export", "set", "source", ".", "true", "sleep", "mkdir", "touch", "rm", "mv", "cp"])
_FILTERS = frozenset(["head", "tail", "grep"])
_PROSE = re.compile(r"\.(?:md|mdx|rst|txt|adoc)$", re.IGNORECASE)
_MOVES = re.compile(r"\A\s*cd[ \t]+([\w./~-]+)[ \t]*(?:&&|;|\n|\Z)")
_RETURNED = "Shell cwd was reset to"
# The tools that maintain a task list.
_WHOLE = frozenset(["todowrite", "update_plan", "write_todos", "todo_write"])  # each call has the whole task list
_BY_TASK = frozenset(["taskcreate", "taskupdate"])
_CREATED = re.compile(r"Task #(\w+) created")
_TEXTS = ("content", "step", "subject", "title", "task", "description")
_DONE = frozenset(["completed", "done"])
_DROPPED = frozenset(["cancelled", "canceled", "deleted"])
_MOST_SHOWN = 4
_LONGEST = 90


class WorkState:
    """Follow the state of the work through a session's tool calls and their results."""

    def __init__(self, folder: str, edited: Iterable[str], asked: Sequence[int] = ()) -> None:
        """Prepare for a session in `folder` whose tools edited the files `edited`.

        `asked` holds the numbers of the turns with the user's requests.
        """
        self._work = WorkFolder(folder, edited)
        self._asked = asked
        self._place = ""  # the current folder of the agent's shell, if the shell keeps it from call to call
        self._files = UncommittedFiles(self._work)
        self._git = GitState(self._files)
        self._tests: tuple[int, str] | None = None
        self._lints: dict[str, tuple[int, str]] = {}
        self._tasks = TaskList()
        self._planned: tuple[int, str] | None = None
        self._edited = self._edited_code = 0  # numbers of the turns with the last edit, and with the last edit of code

    def edit(self, seq: int, paths: Iterable[str], call: str) -> None:
        """Record that a tool edited the files `paths`."""
        for path in paths:
            place = self._work.locate(extract_folder(call), path)
            self._files.edit(place)
            self._edited = seq
            self._edited_code = self._edited_code if _PROSE.search(place) else seq

    def plan(self, seq: int, tool: str, call: str, result: str) -> None:
        """Record a call that changes the agent's task list."""
        if self._tasks.take(tool, call, result):
            text = self._tasks.render()
            self._planned = (seq, text) if text else None

    def run(self, seq: int, call: str, output: str) -> None:
        """Record the commands in the script of a call, and the results that the end of its output shows."""
        output = "\n".join(line.rstrip()[:_LONGEST_LINE] for line in output[-TAIL:].splitlines())
        script, own = extract_command(call), extract_folder(call)
        steps = list_steps(script, own or self._place)
        if not own and call.startswith("Bash "):  # Claude Code's shell keeps its folder until it is reset
            moved = _MOVES.match(script)
            self._place = "" if _RETURNED in output else join_folder(self._place, moved[1]) if moved else self._place
        home = [step for step in steps if self._work.holds(step.folder)]
        self._run_git(seq, [one for one in steps if not (one.is_written or one.name in _SILENT)], home, output)
        self._run_others(seq, home, "" if check_runs.has_failed(output) else check_runs.strip_head(output), steps)
        self._check(seq, home, output)

    def _run_git(self, seq: int, loud: Sequence[Step], home: Sequence[Step], output: str) -> None:
        text = check_runs.strip_head(output)
        git = [step for step in home if step.name == "git" and len(step.words) > 1]
        others = [one for one in loud if one not in git]
        plain = all(one.name in _FILTERS and one.joined in {"|", "|&"} for one in others)
        telling = [one for one in git if one.words[1] not in {"add", "rm", "fetch"}]
        alone = plain and len(telling) == 1 and all(one.name == "head" for one in others)
        if git:
            failed, shown = check_runs.has_failed(output), list_showing(git)
            self._git.run([GitCall(seq, *one, text, failed, plain, alone) for one in zip(git, shown, strict=True)])

    def _run_others(self, seq: int, home: Sequence[Step], text: str, steps: Sequence[Step]) -> None:
        telling = [one for one in steps if one.name not in _SILENT | _FILTERS | {"git"}]
        for step in home:
            if step.name in {"gh", "glab"} and step is telling[-1]:
                # After other output, only the last line is surely of this command.
                last = "".join(text.splitlines()[-1:]) if "create" in step.words[2:3] else ""
                self._git.read_pull_request(seq, step, text if telling == [step] else last)
            elif step.name == "rm":
                self._files.drop(step.folder, [word for word in step.words[1:] if not word.startswith("-")])

    def _check(self, seq: int, steps: Sequence[Step], output: str) -> None:
        tests = [step for step in steps if check_runs.is_test_run(step)]
        told = check_runs.read_tests(output) if tests else None
        if told:
            self._tests = (seq, f"{told} (`{check_runs.show_command(tests[-1])}`)")
        elif tests and not check_runs.NOT_RUN.search(output):
            self._tests = None  # a run without a result makes the earlier result unknown
        for step in filter(check_runs.is_lint_run, steps):
            alone = all(one is step or one.name in _SILENT | _FILTERS for one in steps)
            found = check_runs.read_lint(step, output, is_alone=alone)
            self._lints.pop(check_runs.name_linter(step), None)
            if found:
                self._lints[check_runs.name_linter(step)] = (seq, found)

    def tell(self) -> dict[str, tuple[int, str]]:
        """Return the present state: for each key, the number of the turn that shows it, and the text."""
        told = dict(self._git.told)
        if self._tests:
            told["Tests"] = self._with_age(*self._tests)
        if self._lints:
            told["Lint"] = self._with_age(*self._tell_lints())
        if self._planned and not self._is_list_old(*self._planned):
            told["Tasks"] = self._planned
        if self._git.has_committed and (left := self._files.list_paths()):
            names = [f"`{path}`" for path in left[:_MOST_NAMED] if "`" not in path]
            told["Not committed"] = (self._edited, _with_rest(names, len(left), ", "))
        if self._git.has_pushed and (commits := self._git.unpushed):
            told["Not pushed"] = (told[COMMIT][0], _with_rest(commits[-_MOST_COMMITS:], len(commits), "; "))
        return told

    def _is_list_old(self, planned: int, text: str) -> bool:
        asked = sum(seq > planned for seq in self._asked)
        return asked > (_MOST_ASKED if "; open: " in text else _MOST_ASKED_SINCE_DONE)

    def _tell_lints(self) -> tuple[int, str]:
        """Return the last results of linters; those from before the last edits are left out if there are newer ones."""
        newest = max(seq for seq, _ in self._lints.values())
        fresh = [one for one in self._lints.items() if one[1][0] > min(newest - 1, self._edited_code)]
        last = sorted(fresh, key=lambda one: one[1][0])[-_MOST_LINTERS:]
        return newest, "; ".join(f"`{linter}` {said}" for linter, (_, said) in last)

    def _with_age(self, seq: int, text: str) -> tuple[int, str]:
        return (seq, text) if seq > self._edited_code else (self._edited_code, f"{text}, before the last edits")


def list_changes(
    before: dict[str, tuple[int, str]], now: dict[str, tuple[int, str]], since: int, last: int
) -> list[tuple[int, str]]:
    """Return the facts that changed since `before`, each with the number of its turn.

    Args:
        before: the state up to the turn `since`.
        now: the present state.
        since: the number of the last turn that an earlier sleep has read.
        last: the number of the turn to which facts without a later turn belong.
    """
    changed = [(key, seq, text) for key, (seq, text) in now.items() if before.get(key, (0, ""))[1] != text]
    gone = [(key, last, NOTHING) for key in before if key not in now]
    return [(seq if seq > since else last, f"{STATE}{key}: {text}") for key, seq, text in (*changed, *gone)]


def _with_rest(names: Sequence[str], total: int, between: str) -> str:
    rest = total - len(names)
    return between.join(names) + (f" and {rest} more" if rest else "")


def keeps_tasks(tool: str) -> bool:
    """Return True if the tool with this name maintains a task list."""
    return tool.casefold() in _WHOLE | _BY_TASK


class TaskList:
    """Follow an agent's task list from call to call."""

    def __init__(self) -> None:
        """Begin with an empty list."""
        self._tasks: dict[str, tuple[str, str]] = {}  # by id: the text and the status of the task

    def take(self, tool: str, call: str, result: str) -> bool:
        """Update the list from a call and its result; return True if it was a call that maintains the list."""
        name = tool.casefold()
        if name in _WHOLE:
            return self._replace(call)
        given = shown_arguments(call)
        if name == "taskcreate" and (created := _CREATED.search(result)):
            self._tasks[created[1]] = (first_text(given, _TEXTS), "pending")
            return True
        held = self._tasks.get(str(given.get("taskId"))) if name == "taskupdate" else None
        if held is None:
            return False
        self._tasks[str(given["taskId"])] = (first_text(given, _TEXTS) or held[0], str(given.get("status") or held[1]))
        return True

    def render(self) -> str:
        """Return the list as one line, `5 of 7 done; open: X; Y`; empty if there is no task."""
        left = [(text, status) for text, status in self._tasks.values() if status not in _DROPPED and text]
        waiting = [text for text, status in left if status not in _DONE]
        if not left:
            return ""
        told = f"{len(left) - len(waiting)} of {len(left)} done"
        shown = [neutralize(text)[:_LONGEST].strip() for text in waiting[:_MOST_SHOWN]]
        rest = f" and {len(waiting) - len(shown)} more" if len(waiting) > len(shown) else ""
        return f"{told}; open: {'; '.join(shown)}{rest}" if shown else told

    def _replace(self, call: str) -> bool:
        given = shown_arguments(call)
        found = mappings(given.get("todos")) or mappings(given.get("plan"))
        if call.rstrip().endswith("characters left out]"):
            found = []  # a shortened call must not look like the whole list
        self._tasks = {str(at): (first_text(one, _TEXTS), str(one.get("status"))) for at, one in enumerate(found)}
        return True
