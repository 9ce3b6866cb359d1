"""Extract short facts from tool traffic for memory.

The facts are the files that an edit changed, the error of a failed command, and the state of the work. Nothing else is
taken from a tool's output, because it is text from outside, and most of it is useless the next day. `reports.txt` has
the names of tools and the wordings of errors.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from memoryd.jobs.check_runs import has_failed, has_passed, shorten
from memoryd.jobs.git_state import BRANCH
from memoryd.jobs.shell import Step, extract_command, list_steps, read_input
from memoryd.jobs.work_state import STATE, TAIL, WorkState, keeps_tasks, list_changes
from memoryd.text.neutral import neutralize
from memoryd.text.word_lists import list_words, read_patterns
from memoryd.transcripts.fields import CUT_MARK, PATCH, PATHS
from memoryd.transcripts.turn import Origin, StoredTurn, TurnKind

CHANGED = "changed "  # begins a fact that names files, each between backticks
FAILED = "failed "  # begins a fact that quotes an error, after the command between backticks if the command is known
MENDED = " (a later run passed)"  # ends a fact whose command or test has passed since then

_PATTERNS = read_patterns(__name__, "reports.txt")
_LONGEST = 220  # characters of a path or an error line
_LONGEST_COMMAND = 120
_MOST_ERRORS = 12
_EDITS = re.compile(_PATTERNS["edits"], re.IGNORECASE)
_SHELL = re.compile(r"bash|shell|exec|terminal|command|run", re.IGNORECASE)
_PATCHED = re.compile(r"\*\*\* (?:Add|Update|Delete) File: ([^\n\\\"]+)")
# Finds a patch in the input of a shell or a script.
_PATCHES = re.compile(rf"{re.escape(PATCH)}(?:\\+n|\s)+\*\*\* (?:Add|Update|Delete) File: ")
_CUT_PATH = re.compile(rf'"(?:{"|".join(PATHS)})"\s*:\s*"([^"\\\n]{{1,400}})"')
_ERROR = re.compile(_PATTERNS["error"])
_DIGITS = re.compile(r"\d+")  # digits are replaced, because a failure with other timings is the same failure
_PASSES = re.compile(_PATTERNS["passes"], re.IGNORECASE | re.MULTILINE)
_FAILS = re.compile(_PATTERNS["fails"], re.IGNORECASE | re.MULTILINE)
_GOES_ON = re.compile(_PATTERNS["goes on"], re.IGNORECASE)
_TEST_ID = re.compile(r"(?<![\w./-])[\w./-]+::[\w:]+")
_CODE_FILE = re.compile(_PATTERNS["code file"], re.IGNORECASE)
_RUNNER = re.compile(_PATTERNS["runner"])
_CHOOSES = re.compile(r"\s(?:-k|-m|-t|-run|--run|--filter|--grep|--testNamePattern)\b")
_COMMAND, _TEST, _FILE, _ALL = "command", "test", "file", "all"
_DECLINED = re.compile(_PATTERNS["declined"], re.IGNORECASE)
_SHOWN_BRANCH = re.compile(r"[^:\[]+")  # excludes a hash and a mark that replaces a secret


class Reports:
    """Extract the facts from a session's turns; each changed file and each error is reported once."""

    def __init__(
        self,
        turns: Sequence[StoredTurn],
        folder: str | None,
        earlier: Sequence[StoredTurn] = (),
        branch: str | None = None,
    ) -> None:
        """Prepare the facts of `turns`.

        Args:
            turns: the turns that are asked for facts.
            folder: the working folder; paths inside it are shown relative to it.
            earlier: the turns of the session before these.
            branch: the last branch in the session's records.
        """
        main = [turn for turn in (*earlier, *turns) if not turn.sidechain]
        calls = {turn.tool_call_id: turn for turn in main if turn.kind is TurnKind.TOOL_CALL and turn.tool_call_id}
        self.edits: list[int] = []  # the `seq` of each call that edited a file successfully
        self._tools = {call: turn.tool_name or "" for call, turn in calls.items()}
        self._declined = {turn.tool_call_id for turn in main if _DECLINED.match(turn.text)} - {None}
        self._folder = folder.rstrip("/\\") if folder else ""
        self._told: set[str] = set()
        self._errors: Counter[str] = Counter()
        self._scripts = {call: command for call, turn in calls.items() if (command := extract_command(turn.text))}
        scripts = self._scripts.items()
        self._ran = {call: "apply_patch" if PATCH in one else " ".join(one.split()) for call, one in scripts}
        self._commands = {call: self._ran.get(call) or " ".join(turn.text.split()) for call, turn in calls.items()}
        self._passed: dict[tuple[str, str], int] = {}  # by command, test or file: the last turn in which it passed
        self._runners: set[str] = set()  # test runners with a run in which all tests passed
        results = [turn for turn in main if turn.kind is TurnKind.TOOL_RESULT]
        self._marks_failures = any(has_failed(turn.text) for turn in results)
        for turn in results:
            if self._is_run(turn):
                passed = dict.fromkeys(_find_passed(self._command_of(turn), turn.text), turn.seq)
                self._passed |= passed
                self._runners |= {name for kind, name in passed if kind == _ALL}
        self._asked = [turn.seq for turn in main if turn.kind is TurnKind.MESSAGE and turn.origin is Origin.USER]
        self._branch = branch
        self._state = self._follow(results, calls, earlier[-1].seq if earlier else 0)

    def fact(self, turn: StoredTurn) -> str | None:
        """Return the new facts of `turn`, one on each line; None if it has no new fact, as most turns.

        The facts begin with `CHANGED`, `FAILED` or `STATE`, in this order.
        """
        if turn.sidechain:
            return None
        told = None
        if turn.kind is TurnKind.TOOL_CALL and turn.origin is Origin.ASSISTANT:
            told = self._report_change(turn)
        if turn.kind is TurnKind.TOOL_RESULT and turn.origin is Origin.TOOL:
            told = self._report_failure(turn)
        return "\n".join(filter(None, (told, *self._state.get(turn.seq, ())))) or None

    def _follow(
        self, results: Sequence[StoredTurn], calls: Mapping[str, StoredTurn], since: int
    ) -> dict[int, list[str]]:
        """Return the facts about the state of the work by turn; only the facts that are new after the turn `since`."""
        edits = (_paths(call.text) for call in calls.values() if _is_edit(call))
        work = WorkState(self._folder, [path for paths in edits for path in paths], self._asked)
        before: dict[str, tuple[int, str]] = {}
        last = since
        for turn in results:
            call = calls.get(turn.tool_call_id or "")
            if call is None or call.tool_call_id in self._declined or call.origin is not Origin.ASSISTANT:
                continue
            if turn.seq > since and last <= since:
                before = work.tell()
            last = turn.seq
            self._pass_on(work, call, turn)
        facts: dict[int, list[str]] = {}
        for seq, fact in list_changes(before, work.tell(), since, last) if last > since else ():
            facts.setdefault(seq, []).append(fact)
        if last > since:
            self._add_branch(facts, last)
        return facts

    def _add_branch(self, facts: dict[int, list[str]], last: int) -> None:
        """Add the branch of the records to the facts of the turn `last`, unless a command showed a branch."""
        label = f"{STATE}{BRANCH}: "
        is_known = any(fact.startswith(label) for found in facts.values() for fact in found)
        if self._branch and _SHOWN_BRANCH.fullmatch(self._branch) and not is_known:
            facts.setdefault(last, []).append(f"{label}`{self._branch}`")

    def _pass_on(self, work: WorkState, call: StoredTurn, result: StoredTurn) -> None:
        """Pass a call and its result to `work`, by the kind of the tool."""
        tool = call.tool_name or ""
        if _is_edit(call):
            if not has_failed(result.text):
                self.edits.append(call.seq)
                work.edit(call.seq, _paths(call.text), call.text)
        elif _SHELL.search(tool):
            work.run(result.seq, call.text, result.text)
        else:
            work.plan(call.seq, tool, call.text, result.text)

    def _report_change(self, turn: StoredTurn) -> str | None:
        if turn.tool_call_id in self._declined or not _is_edit(turn):
            return None
        short = (self._strip_folder(_as_written(path)) for path in _paths(turn.text))
        paths = [path for path in short if path not in self._told and 0 < len(path) <= _LONGEST and "`" not in path]
        self._told.update(paths)
        return CHANGED + " ".join(f"`{path}`" for path in dict.fromkeys(paths)) if paths else None

    def _report_failure(self, turn: StoredTurn) -> str | None:
        if not self._is_run(turn) or all(self._errors[mend] >= _MOST_ERRORS for mend in ("", MENDED)):
            return None
        error = self._find_error(turn)
        if error is None:
            return None
        mend = MENDED if self._passes_later(turn, error) else ""
        shape = _DIGITS.sub("0", error + mend)
        if shape in self._told or self._errors[mend] >= _MOST_ERRORS:
            return None
        self._told.add(shape)
        self._errors[mend] += 1
        ran = _as_written(self._ran.get(turn.tool_call_id or "", "").replace("`", "'"))
        return FAILED + (f"`{shorten(ran, _LONGEST_COMMAND)}`: {error}" if ran else error) + mend

    def _find_error(self, turn: StoredTurn) -> str | None:
        """Return the error of a run; None if there is none.

        If the run only prints text, an error in that text does not count. A failed patch does not count either.
        """
        if PATCH in (self._scripts.get(turn.tool_call_id or "") or self._command_of(turn)):
            return None  # the agent repeats a patch that failed
        steps = list_steps(self._scripts.get(turn.tool_call_id or "", ""))
        if is_only_printing(steps):
            own = [line for line in turn.text[-TAIL:].splitlines() if is_own_error(line, steps)]
            return neutralize(own[-1])[:_LONGEST] if own else None
        is_known = has_passed(turn.text) or (self._marks_failures and not has_failed(turn.text))
        return None if is_known and shows_every_failure(steps) else _error(turn.text)

    def _passes_later(self, turn: StoredTurn, error: str) -> bool:
        """Return True if the run that failed in a turn passed later: its command, its test or file, or all tests."""
        command = self._command_of(turn)
        named = f"{command} {error}"
        keys = [(_COMMAND, command)] if command or _is_of_test(error) else []
        keys += [(_TEST, one) for one in _TEST_ID.findall(named)] + [(_FILE, one) for one in _CODE_FILE.findall(named)]
        keys += [(_ALL, name) for name in self._runners if name in command]
        return any(self._passed.get(key, 0) > turn.seq for key in keys)

    def _command_of(self, turn: StoredTurn) -> str:
        """Return the command of a run; empty if the transcript does not show it."""
        return self._commands.get(turn.tool_call_id or "", "")

    def _is_run(self, turn: StoredTurn) -> bool:
        tool = self._tools.get(turn.tool_call_id or "") or turn.tool_name or ""
        return turn.tool_call_id not in self._declined and _SHELL.search(tool) is not None

    def _strip_folder(self, path: str) -> str:
        inside = self._folder and path.startswith((f"{self._folder}/", f"{self._folder}\\"))
        return path[len(self._folder) + 1 :] if inside else path


def _find_passed(command: str, output: str) -> Iterator[tuple[str, str]]:
    """Yield the names of what a run shows as passed, each with its kind.

    If nothing failed, this is the command. If tests passed, it is also the tests or files that the command names, or
    all tests of the runner.
    """
    tail = output[-TAIL:]
    if not tail.strip() or _FAILS.search(tail) or _GOES_ON.search(tail) or _error(tail) is not None:
        return
    passes = _PASSES.search(tail) is not None
    if command or passes:  # a clean output without a known command could be from any command
        yield _COMMAND, command
    if not passes:
        return
    if tests := _TEST_ID.findall(command):
        yield from ((_TEST, one) for one in tests)
    elif files := _CODE_FILE.findall(command):
        yield from ((_FILE, one) for one in files)
    elif (runner := _RUNNER.search(command)) and not _CHOOSES.search(command):
        yield _ALL, runner[0]


def _is_of_test(error: str) -> bool:
    return _TEST_ID.search(error) is not None or "AssertionError" in error or error.startswith(("FAIL", "--- FAIL"))


def _is_edit(call: StoredTurn) -> bool:
    tool = call.tool_name or ""
    # A patch that is only quoted is not applied. In a shortened script, the name of the tool may be missing behind the
    # patch.
    is_applied = any(one in call.text for one in ("apply_patch", "applypatch", CUT_MARK))
    patches = is_applied and _SHELL.search(tool) and _PATCHES.search(call.text)
    return not keeps_tasks(tool) and bool(_EDITS.search(tool) or patches)


def _as_written(name: str) -> str:
    """Return a name as one neutral line that keeps its first signs, which a sentence would lose."""
    return neutralize(f"`{name}")[1:].strip()


def _paths(text: str) -> list[str]:
    """Return the files that a tool call names, even if its input is shortened and no longer valid JSON."""
    given = read_input(text)
    named = [value for key in PATHS if isinstance(value := given.get(key), str)] if given else []
    return [*(named or _CUT_PATH.findall(text)[:1]), *_PATCHED.findall(text)]


def _error(text: str) -> str | None:
    """Return the last line of `text` that names an error, except a line that only says that there was one."""
    for line in reversed(text[-TAIL:].splitlines()):
        if len(line) <= 2 * _LONGEST and len(line.split()) > 2 and _ERROR.search(line):
            return neutralize(line)[:_LONGEST].strip() or None
    return None


# ── commands that only print text, so that an error in their output is something that they found ─────────────────────


_PRINTERS = frozenset(list_words("commands that print"))
# For programs that also do other things, the subcommands that only print text.
_SHOWS = {
    "git": frozenset(list_words("commands of git that print")),
    "gh": frozenset(["pr", "issue", "run", "api", "repo", "search", "release"]),
}
_MAKES = frozenset(["create", "merge", "edit", "close", "checkout", "delete", "rerun", "upload", "clone"])
_QUIET = frozenset(["cd", "source", ".", "export", "set", "true", "sleep", "mkdir", "done", "fi"])
_SHELL_ERROR = re.compile(r"\s*(?:/\S*/)?(?:ba|z|da)?sh: ")
_REFUSED = re.compile(_PATTERNS["refused"], re.IGNORECASE)
_MASKS = frozenset(["|", "|&", ";", "||", "&", "\n"])


def is_only_printing(steps: Sequence[Step]) -> bool:
    """Return True if all commands of a script only print text."""
    told = [step for step in steps if step.name not in _QUIET]
    return bool(told) and all(map(_prints, told))


def _prints(step: Step) -> bool:
    if step.name in _SHOWS:
        given = [word for word in step.words[1:] if not word.startswith("-")]
        return bool(given) and given[0] in _SHOWS[step.name] and not _MAKES.intersection(given[1:2])
    return step.name in _PRINTERS


def is_own_error(line: str, steps: Sequence[Step]) -> bool:
    """Return True if `line` says that one of the commands could not do its work.

    A missing name or an unknown option is no failure, because agents find their way by trying.
    """
    bare = line.lstrip()
    names = {step.name for step in steps}
    by_git = "git" in names and bare.startswith(("fatal: ", "error: "))
    is_own = by_git or any(bare.startswith(f"{name}: ") for name in names) or _SHELL_ERROR.match(line) is not None
    return is_own and _REFUSED.search(line) is not None


def shows_every_failure(steps: Sequence[Step]) -> bool:
    """Return True if a script fails as soon as one of its commands does."""
    return bool(steps) and not any(step.joined in _MASKS for step in steps)
