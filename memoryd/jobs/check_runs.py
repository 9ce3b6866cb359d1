"""Recognise commands that run tests or a linter, and read the result from their output.

`check_runs.txt` holds the patterns of the outputs that this module can read.
"""

import re

from memoryd.jobs.shell import Step
from memoryd.text.word_lists import list_words, read_patterns

_PATTERNS = {
    name: re.compile(pattern, re.MULTILINE) for name, pattern in read_patterns(__name__, "check_runs.txt").items()
}
_LONGEST_SHOWN = 80
_MOST_NAMED = 3
_TESTERS = frozenset(list_words("test runners"))
# The name of a script or target that runs tests or a linter; it follows its runner, as in `npm run test`.
_RUNS_SCRIPTS = frozenset(list_words("script runners"))
_TEST_SCRIPT = re.compile(r"(?:test|tests|t|verify|check|nextest|spec)(?:[:_.-][\w:.-]+)?|[\w.-]+[:_-]tests?|--test")
_LINT_SCRIPT = re.compile(
    r"(?:[\w.]+[:_-])?(?:lint|type-?check|check-?types|types|clippy|vet|eslint)(?:[:_-][\w:.-]+)?"
)
_LINTERS = frozenset(list_words("linters"))
_QUIET_LINTERS = frozenset(["eslint", "tsc", "vue-tsc", "flake8", "stylelint", "shellcheck", "vet"])
_NO_RUN = re.compile(
    r"--(?:collect-only|co|markers|fixtures|help|version|list\w*|init|showConfig|print-config|dry-run)$|-(?:h|V|list)$"
)
_LINT_ONLY = frozenset(["check", "lint", "ci"])  # the commands of ruff, biome and ty that check something

# If an output has several matches, the last one counts.
_COUNTS = tuple(pattern for name, pattern in _PATTERNS.items() if name.startswith("count "))
_NOTHING = re.compile(r"(?!)")
NOT_RUN = _PATTERNS["not run"]


def has_failed(output: str) -> bool:
    """Return True if the agent program's report says that the command failed."""
    return _PATTERNS["failed"].search(output) is not None


def has_passed(output: str) -> bool:
    """Return True if the agent program's report says that the command did not fail."""
    return _PATTERNS["passed"].search(output) is not None


def strip_head(output: str) -> str:
    """Return the output of a command without the report that the agent program puts before it."""
    head = _PATTERNS["head"].match(output)
    return output[head.end() :] if head else output


def is_empty(output: str) -> bool:
    """Return True if a command printed nothing."""
    return _PATTERNS["empty"].fullmatch(strip_head(output).strip()) is not None


def show_command(step: Step) -> str:
    """Return a command as a fact shows it: on one line, without redirections, shortened if it is long."""
    text = re.sub(r"[ \t]*(?:\d*|&)>{1,2}&?[ \t]*\S*", "", step.text).replace("`", "'")
    return shorten(" ".join(text.split()), _LONGEST_SHOWN)


def shorten(text: str, most: int) -> str:
    """Return a text of at most this many characters: a longer one ends in an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def is_test_run(step: Step) -> bool:
    """Return True if a command runs tests."""
    is_tester = step.name in _TESTERS or _has_script(step, _TEST_SCRIPT)
    return is_tester and not any(map(_NO_RUN.match, step.words))


def is_lint_run(step: Step) -> bool:
    """Return True if a command runs a linter or a type checker."""
    if any(map(_NO_RUN.match, step.words)):
        return False
    if step.name in {"ruff", "biome", "ty"}:
        return len(step.words) > 1 and step.words[1] in _LINT_ONLY
    return step.name in _LINTERS or _has_script(step, _LINT_SCRIPT)


def _has_script(step: Step, pattern: re.Pattern[str]) -> bool:
    """Return True if the command names a script that matches the pattern; options before the name are ignored."""
    named = _script_of(step)
    return bool(named) and pattern.fullmatch(named[-1].rpartition("/")[2]) is not None


def _script_of(step: Step) -> tuple[str, ...]:
    """Return the words after a script runner that name the script: `run`, if it is there, and the name."""
    if step.name not in _RUNS_SCRIPTS:
        return ()
    named = tuple(word for word in step.words[1:] if not word.startswith("-") or word == "--test")
    return named[:2] if named[:1] in {("run",), ("run-script",), ("r",)} else named[:1]


def name_linter(step: Step) -> str:
    """Return the name of a linter for a fact, such as `ruff` or `npm run lint`."""
    return " ".join((step.name, *_script_of(step))).replace("`", "'")


def read_tests(output: str) -> str | None:
    """Return the result of a test run from its output, such as `68 passed, 2 failed`; None if it shows none."""
    text = strip_head(output)
    told = _count_tests(text) or _read_go(text)
    if told is None and has_failed(output) and not NOT_RUN.search(text):
        told = "failed"
    covered = [found["total"] or found["all"] for found in _PATTERNS["coverage"].finditer(text)] if told else []
    return f"{told}, {covered[-1]} % coverage" if covered else told


def _count_tests(text: str) -> str | None:
    if sums := list(_PATTERNS["cargo"].finditer(text)):
        return _render({name: sum(int(one[name]) for one in sums) for name in ("passed", "failed")})
    if runs := list(_PATTERNS["unittest"].finditer(text)):
        broken = sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", runs[-1]["how"] or "")))
        return _render({"passed": int(runs[-1]["total"]) - broken, "failed": broken})
    last: tuple[int, dict[str, int]] | None = None
    for pattern in _COUNTS:
        for found in pattern.finditer(text):
            counts = {name: int(value) for name, value in found.groupdict().items() if value is not None}
            if sum(counts.values()) and (last is None or found.start() >= last[0]):
                last = (found.start(), counts)
    if last is None:
        return None
    counts = last[1]
    total = counts.pop("total", None)
    if total is not None:
        counts["passed"] = total - sum(counts.values())
    return _render(counts)


def _render(counts: dict[str, int]) -> str | None:
    shown = [f"{counts.get(name, 0)} {name}" for name in ("passed", "failed", "skipped") if counts.get(name)]
    errors = counts.get("errors", 0)
    return ", ".join([*shown, *([_plural(errors, "error")] if errors else [])]) or None


def _read_go(text: str) -> str | None:
    if built := list(_PATTERNS["built"].finditer(text)):
        return "passed" if built[-1]["how"] == "SUCCESS" else "failed"
    if not _PATTERNS["go line"].search(text):
        return None
    if not (failed := list(_PATTERNS["go failed"].finditer(text))):
        return "passed" if re.search(r"^(?:\[[\w:.-]+\] )?(?:ok\s|PASS$)", text, re.MULTILINE) else None
    names = list(dict.fromkeys(found["test"] for found in failed if found["test"]))
    return f"failed: {', '.join(f'`{name}`' for name in names[:_MOST_NAMED])}" if names else "failed"


def read_lint(step: Step, output: str, *, is_alone: bool) -> str | None:
    """Return the result of a linter from its output, such as `clean` or `3 errors`; None if it shows no result.

    Empty output counts as `clean` for a linter that prints only errors. If `is_alone` is False, other commands wrote to
    the same output, so only lines in the linter's own form count.
    """
    text = strip_head(output)
    if not is_alone and step.name not in _RUNS_SCRIPTS:
        text = "\n".join(found[0] for found in _PATTERNS.get(f"own {step.name}", _NOTHING).finditer(text))
    found = list(_PATTERNS["found"].finditer(text))
    if found:
        return _count_findings(found[-1]) if is_alone or len(found) == 1 else None
    if _PATTERNS["clean"].search(text):
        return "clean"
    places = len(_PATTERNS["place"].findall(text)) if is_alone else 0
    if places:
        return _plural(places, "error")
    may_be_quiet = not step.is_written and step.name in _QUIET_LINTERS | _RUNS_SCRIPTS
    return "clean" if may_be_quiet and not has_failed(output) and is_empty(output) else None


def _count_findings(found: re.Match[str]) -> str:
    counts = {name: int(value) for name, value in found.groupdict().items() if value is not None}
    left = counts.pop("left", None)
    counts = counts if left is None else {"errors": left}
    return ", ".join(_plural(n, name.removesuffix("s")) for name, n in counts.items() if n) or "clean"


def _plural(n: int, name: str) -> str:
    return f"{n} {name}{'s' * (n != 1)}"
