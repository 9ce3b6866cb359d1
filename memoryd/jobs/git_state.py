"""Follow the git state of a session: branch, commits and pull request, read from its calls of git and `gh`."""

import re
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

from memoryd.jobs.check_runs import shorten, show_command
from memoryd.jobs.shell import Step, join_folder
from memoryd.jobs.uncommitted import UncommittedFiles
from memoryd.text.neutral import neutralize

BRANCH, COMMIT, PUSHED, PULL_REQUEST = "Branch", "Last commit", "Pushed", "Pull request"
EARLIER = "Earlier commits"
_LONGEST = 160
_LONGEST_LIST = 400  # characters of a list of commits
_SWITCHED = r"(?:Switched to (?:a new branch|branch|and reset branch)|Already on) '([^'\n]+)'"
_SHOWN = r"On branch (\S+)|## (?!HEAD )(?:No commits yet on )?(\S+?)(?:\.\.\.\S+)?(?: \[[^\]\n]*\])?"
_STASHED = r"(?:Saved working directory and index state )?(?:WIP on|On) ([^\s:]+): .*"
_MADE = r"\[(?!detached HEAD)([^\s\]]+)(?: \(root-commit\))? [0-9a-f]{7,40}\] \S.*"
# For each git command, the lines of its output that name the branch.
_BRANCHES = {
    command: re.compile(rf"^(?:{lines})$", re.MULTILINE)
    for commands, lines in (
        ("checkout switch", _SWITCHED), ("status", _SHOWN), ("stash", _STASHED), ("commit cherry-pick revert", _MADE),
        ("branch rev-parse", r"\A(\S+)\s*\Z"),
    )
    for command in commands.split()
}  # fmt: skip
_ASK_BRANCH = {("--show-current",), ("--abbrev-ref", "HEAD")}  # of `git branch` and `git rev-parse`
_NEW_BRANCH = frozenset(["-b", "-B", "-c", "-C", "--create", "--orphan"])
_COMMITTED = re.compile(
    r"^\[[^\n\]]+ (?P<hash>[0-9a-f]{7,40})\] (?P<subject>\S.*)$"
    r"|^HEAD is now at (?P<head>[0-9a-f]{7,40}) ?(?P<title>.*)$",
    re.MULTILINE,
)
_FILES_COMMITTED = re.compile(r"^ ?\d+ files? changed\b", re.MULTILINE)
_LOG_LINE = re.compile(r"^(?P<hash>[0-9a-f]{7,40})(?: \([^)\n]*\))? (?P<subject>\S.*)$", re.MULTILINE)
_LOG_ENTRY = re.compile(r"\Acommit (?P<hash>[0-9a-f]{7,40})(?: \([^)\n]*\))?\n(?:\S.*\n)+\s*\n {4}(?P<subject>\S.*)")
_LOG_OPTION = re.compile(r"HEAD|--oneline|--(?:no-)?decorate|--(?:short)?stat|--name-(?:only|status)|-n?\d+|-n|\d+")
_BEFORE = r"(?:\[[^\n\]]+\]|[0-9a-f]{7,40}(?: \([^)\n]*\))?)"  # what git prints before a message
# A mark that a hook may write before a message: a number of a ticket, a word such as `feat:` or `[core]`, or a sign.
_MARK = r"(?:(?:(?i:ticket|issue) )?(?=\S*\d)\S++|\S*[^\w\s,.;])"
_PUSHED = re.compile(r"(?m)^ *[ +*] (?:\w{7,40}\.{2,3}(?P<hash>[\da-f]{7,40})|\[new branch\]) +(?P<own>\S+) +-> +\S+")
_ADDRESS = r"https://[\w.-]{1,80}(?:/[\w.~-]{1,40}){2,5}/(?:pull|pulls|merge_requests)/\d{1,9}"
# The address must be alone on its line, because text beside it can come from anybody.
_PULL_REQUEST = re.compile(rf"^(?:url:[ \t]*|\{{\"url\":\")?({_ADDRESS})(?:\"\}})?[ \t]*$", re.MULTILINE)
_NAMES_ONE = re.compile(r"#?\d+$|https?://|(?:-R|--repo)")
_MERGED = re.compile(r"^\W*(?:Merged|Squashed and merged|Rebased and merged) pull request", re.MULTILINE)
_IS_MERGED = " (merged)"
_CLEAN_TREE = re.compile(r"\bworking (?:tree|directory) clean\b")
_LISTED = re.compile(
    r"^[ MADRCU?!]{2} \"?(?:.* -> )?(.+?)/?\"?$|^\t(?:[a-z ]+: +)?(?:.* -> )?(.+?)/?(?: \([^)]*\))?$", re.MULTILINE
)
_UP_TO_DATE = re.compile(r"\bYour branch is up to date with\b|^Everything up-to-date", re.MULTILINE)
_UNCHANGED = re.compile(r"(?m)\b(?:(?:Already|is) up to date|CONFLICT|Aborting)\b|^(?:fatal|error):|^\W*failed\W*$")
_COMMIT_VALUES = re.compile(r"-[a-z]*[mFCct]|--(?:message|file|author|date|fixup|trailer)")
_MESSAGE = re.compile(r"-[a-z]*m|--message")
_QUIET = re.compile(r"--quiet$|-[^\WmFCct]*q")
_ALL = re.compile(r"-[a-ln-z]*[aA][a-z]*|--all|-u|--update")
_JOINING = frozenset(["-i", "--interactive", "--autosquash"])
_MODES = frozenset(["--soft", "--mixed", "--hard", "--merge", "--keep"])  # with one, `git reset` takes no files
_OTHER_COMMIT = re.compile(r"(?:\w*HEAD|@)[~^@{]|\w+_HEAD$|[0-9a-f]{7,40}$|(?:origin|upstream)/")


class GitCall(NamedTuple):
    """Hold one git command with the output of the whole call that ran it."""

    seq: int
    step: Step
    shown: bool  # this or a later command of the call shows the last commit, and no earlier one does
    text: str
    failed: bool
    plain: bool  # only commands of git printed anything in the call
    alone: bool  # one command of git printed the whole output

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the words after the subcommand, such as those after `git commit`."""
        return self.step.words[2:]

    @property
    def is_quiet(self) -> bool:
        """Return True if the command has a quiet option and shows no failure."""
        return any(map(_QUIET.match, self.arguments)) and not (self.failed or _UNCHANGED.search(self.text))

    def prefer(self, found: list[re.Match[str]], known: Collection[str] = ()) -> list[re.Match[str]]:
        """Return the matches that surely come from git.

        Text that another command of the call prints can look like the output of git. So the matches must name the
        message of the command or one of the `known` words. If none does, all count if only git can have printed them.
        """
        message = _first_message(self.arguments)
        own = re.compile(rf"{_BEFORE}((?: {_MARK}){{0,3}}) {re.escape(message)}$")
        named = [one for one in found if (own.match(one[0]) if message else {*known} & {*one.groups()})]
        exact = [one for one in named if message and own.sub(r"\1", one[0]) == ""]
        is_only = self.step.words[1] == "commit" and not message and len(found) == 1
        return exact or named or (found if self.plain or is_only or self.arguments[:1] == ("-",) else [])


class GitState:
    """Follow the branch, the commits, the pushes and the pull request of a session."""

    def __init__(self, files: UncommittedFiles) -> None:
        """Begin with an empty state; `files` gets the files that git commits or restores."""
        self.told: dict[str, tuple[int, str]] = {}  # by key: the number of the turn that shows it, and the text
        self.unpushed: list[str] = []
        self.subjects: list[str] = []  # the first lines of the messages of the commits
        self.has_committed = self.has_pushed = False
        self._files = files
        self._read: dict[str, Callable[[GitCall], None]] = {
            "add": self._add, "commit": self._commit, "push": self._push, "status": self._status, "log": self._log,
            "checkout": self._restore, "restore": self._restore, "rm": self._restore, "reset": self._reset,
            "pull": self._move, "merge": self._move, "rebase": self._move, "cherry-pick": self._move,
            "revert": self._move, "am": self._move,
        }  # fmt: skip

    def run(self, calls: Sequence[GitCall]) -> None:
        """Update the state from the git commands of one call, in order."""
        for call in calls:
            if read := self._read.get(call.step.words[1]):
                read(call)
        found = [match for call in calls for match in _list_branches(call)]
        branches = [next(filter(None, match.groups())) for match in sorted(found, key=lambda match: match.start())]
        branches = branches or [name for call in calls for name in _new_branches(call)]
        if branches and branches[-1] != "HEAD":
            self._say(calls[0].seq, BRANCH, f"`{branches[-1]}`")

    def read_pull_request(self, seq: int, step: Step, text: str) -> None:
        """Update the pull request from a command of `gh` or `glab`.

        Args:
            seq: the number of the turn.
            step: the command.
            text: its output.
        """
        command = step.words[2] if step.words[1:2] in {("pr",), ("mr",)} and len(step.words) > 2 else ""
        found = _PULL_REQUEST.findall(text)
        is_own = command == "create" or not any(map(_NAMES_ONE.match, step.words[3:]))
        if found and is_own and command in {"create", "edit", "ready", "view"}:
            self._say(seq, PULL_REQUEST, found[0] if command == "view" else found[-1])
        own = self.told.get(PULL_REQUEST, (0, ""))[1].removesuffix(_IS_MERGED)
        named = [word.rpartition("/")[2].lstrip("#") for word in step.words[3:] if _NAMES_ONE.match(word)]
        is_other = bool(named) and own.rpartition("/")[2] not in named
        if command == "merge" and _MERGED.search(text) and own and not is_other:
            self._say(seq, PULL_REQUEST, own + _IS_MERGED)

    def _add(self, call: GitCall) -> None:
        paths = [word for word in call.arguments if not word.startswith("-")]
        if not call.failed:
            self._files.add(call.step.folder, paths, everything=not paths and any(map(_ALL.fullmatch, call.arguments)))

    def _commit(self, call: GitCall) -> None:
        is_listed = call.is_quiet and call.shown
        found = list(_LOG_LINE.finditer(call.text))[:1] if is_listed else list(_COMMITTED.finditer(call.text))
        if not (found or call.is_quiet or _FILES_COMMITTED.search(call.text)) or "--dry-run" in call.arguments:
            return
        behind = zip(("", *call.arguments), call.arguments, strict=False)
        paths = [word for before, word in behind if not (word.startswith("-") or _COMMIT_VALUES.fullmatch(before))]
        self._files.commit(call.step.folder, paths, everything=any(map(_ALL.fullmatch, call.arguments)))
        self.has_committed = True
        message = _first_message(call.arguments)
        found = call.prefer(found)
        subject = (found[-1]["subject"] if found else message) or ""
        commit = _show_commit(found[-1]) if found else subject or "its name was not shown"
        if "--amend" in call.arguments:
            del self.unpushed[-1:], self.subjects[-1:]
        self.unpushed.append(commit)
        self.subjects.append(subject)
        self._say(call.seq, COMMIT, commit)
        self._list_earlier(call.seq)

    def _list_earlier(self, seq: int) -> None:
        """Record the first lines of the commits before the last one, the newest first."""
        self.told.pop(EARLIER, None)
        if earlier := [one for one in dict.fromkeys(reversed(self.subjects)) if one not in {"", *self.subjects[-1:]}]:
            self._say(seq, EARLIER, "; ".join(map(neutralize, earlier)), _LONGEST_LIST)

    def _push(self, call: GitCall) -> None:
        if {"-n", "--dry-run"} & {*call.arguments}:
            return
        known = {*call.arguments, self.told.get(BRANCH, (0, ""))[1].strip("`")}
        found = call.prefer(list(_PUSHED.finditer(call.text)), known)
        if found:
            at = f" at `{found[-1]['hash']}`" if found[-1]["hash"] else " as a new branch"
            self._say(call.seq, PUSHED, f"`{found[-1]['own']}`{at}")
        if found or call.is_quiet or _UP_TO_DATE.search(call.text):
            self.has_pushed = True
            self.unpushed.clear()

    def _status(self, call: GitCall) -> None:
        if not call.alone:
            return
        if _CLEAN_TREE.search(call.text) and not [word for word in call.arguments if not word.startswith("-")]:
            self._files.keep_shown(())
        elif all(word.startswith("-") for word in call.arguments) and not call.shown:
            names = (name for names in _LISTED.findall(call.text) for name in names if name)
            self._files.keep_shown(join_folder("", name) for name in names)
        if _UP_TO_DATE.search(call.text):
            self.unpushed.clear()

    def _log(self, call: GitCall) -> None:
        found = _LOG_ENTRY.match(call.text) or _LOG_LINE.match(call.text)
        if found and call.alone and COMMIT in self.told and all(map(_LOG_OPTION.fullmatch, call.arguments)):
            self._say(call.seq, COMMIT, _show_commit(found))

    def _restore(self, call: GitCall) -> None:
        if not call.failed:
            self._files.drop(call.step.folder, [word for word in call.arguments if not word.startswith("-")])

    def _reset(self, call: GitCall) -> None:
        if "--hard" in call.arguments and not call.failed:
            self._files.drop("", (), everything=True)
        names = [word for word in call.arguments if word == "--" or not word.startswith("-")]
        name = names[0] if len(names) == 1 else "HEAD"  # with more words, it resets files
        goes_back = name not in {"HEAD", "@"} and bool({*call.arguments} & _MODES or _OTHER_COMMIT.match(name))
        if goes_back or "--hard" in call.arguments:
            self._move(call, goes_back=goes_back)

    def _move(self, call: GitCall, *, goes_back: bool = False) -> None:
        """Update the last commit after the branch moved; if the output does not show it, name the command."""
        joins = not _JOINING.isdisjoint(call.arguments)
        if (joins or goes_back) and not call.failed and not _UNCHANGED.search(call.text):
            self.subjects, self.unpushed = [], []  # it is unknown which of the commits are left
            self._list_earlier(call.seq)
        # A commit in the middle of a rebase is not the last one.
        found = [one for one in _COMMITTED.finditer(call.text) if not one[0].startswith("[detached HEAD")]
        if call.plain and found:
            self._say(call.seq, COMMIT, _show_commit(found[-1]))
        elif COMMIT in self.told and not call.failed and not _UNCHANGED.search(call.text):
            before = self.told[COMMIT][1].partition(", then `")[0]
            self._say(call.seq, COMMIT, f"{before}, then `{show_command(call.step)}`")

    def _say(self, seq: int, key: str, text: str, most: int = _LONGEST) -> None:
        self.told[key] = (seq, shorten(neutralize(f"{key}: {text}").removeprefix(f"{key}:").strip(), most))


def list_showing(steps: Sequence[Step]) -> list[bool]:
    """Return, for each git command of a call, if it or a later one shows the last commit, and no earlier one does."""
    shows = [one.words[1] in {"log", "show"} for one in steps]
    return [any(shows[at:]) and not any(shows[:at]) for at in range(len(steps))]


def _list_branches(call: GitCall) -> list[re.Match[str]]:
    """Return the matches in the output of a call that name the branch."""
    command = call.step.words[1]
    is_asked = command not in {"branch", "rev-parse"} or call.arguments in _ASK_BRANCH
    if command in {"status", "stash", "branch", "rev-parse"} and not (call.alone and is_asked):
        return []
    found = list(_BRANCHES[command].finditer(call.text)) if command in _BRANCHES else []
    return call.prefer(found, call.arguments)


def _new_branches(call: GitCall) -> list[str]:
    """Return the branches that a command created without printing them."""
    if call.step.words[1] not in {"checkout", "switch"} or call.failed or _UNCHANGED.search(call.text):
        return []
    return [word for before, word in pairwise(call.arguments) if before in _NEW_BRANCH]


def _show_commit(found: re.Match[str]) -> str:
    groups = found.groupdict()
    name, subject = groups["hash"] or groups["head"], groups["subject"] or groups.get("title") or ""
    return f"`{name[:10]}` {subject}".rstrip()


def _first_message(given: Sequence[str]) -> str:
    """Return the first paragraph of the commit message on one line, as git shows it; empty without one."""
    messages = (word for before, word in pairwise(given) if _MESSAGE.fullmatch(before))
    first = next((re.split(r"\n\s*\n", word.strip())[0] for word in messages if word[:1] != "$"), "")
    return re.sub(r"[ \t\r]*\n", " ", first.rstrip())
