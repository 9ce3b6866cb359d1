"""Printing: which commands only show what is there, so that an error in their output is a file's and not theirs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memoryd.jobs.shell import Step

_PRINTER_LIST = """
cat bat sed head tail less more rg grep egrep fgrep zgrep ag ack ls find fd tree nl wc awk cut sort uniq tr jq yq echo
printf diff file stat strings xxd od column man which type pwd date env printenv xargs tee curl wget lynx pbpaste read
for
"""
_PRINTERS = frozenset(_PRINTER_LIST.split())
_GIT_LIST = """
diff log show blame grep status ls-files ls-tree cat-file branch reflog remote rev-parse rev-list shortlog describe
whatchanged
"""
# Of programs that do other things as well, what only shows: their first words that are no options.
_SHOWS = {
    "git": frozenset(_GIT_LIST.split()),
    "gh": frozenset(["pr", "issue", "run", "api", "repo", "search", "release"]),
}
_MAKES = frozenset(["create", "merge", "edit", "close", "checkout", "delete", "rerun", "upload", "clone"])
_QUIET = frozenset(["cd", "source", ".", "export", "set", "true", "sleep", "mkdir", "done", "fi"])
_SHELL_ERROR = re.compile(r"\s*(?:/\S*/)?(?:ba|z|da)?sh: ")
_REFUSED = re.compile(
    r"permission denied|could not resolve|unable to access|(?:could not|cannot|can't) (?:connect|read from)"
    r"|timed out|failed to connect|authentication|not logged in|HTTP (?:401|403|5\d\d)|\b403\b"
    r"|command not found|rate limit|disk|corrupt",
    re.IGNORECASE,
)
_MASKS = frozenset(["|", "|&", ";", "||", "&", "\n"])


def is_only_printing(steps: Sequence[Step]) -> bool:
    """Return True if all that a script does is to show something."""
    told = [step for step in steps if step.name not in _QUIET]
    return bool(told) and all(map(_prints, told))


def _prints(step: Step) -> bool:
    if step.name in _SHOWS:
        given = [word for word in step.words[1:] if not word.startswith("-")]
        return bool(given) and given[0] in _SHOWS[step.name] and not _MAKES.intersection(given[1:2])
    return step.name in _PRINTERS


def is_own_error(line: str, steps: Sequence[Step]) -> bool:
    """Return True if one of the commands says in `line` that something kept it from its work.

    That a name is not there or an option not known is no failure: agents find their way by trying.
    """
    bare = line.lstrip()
    names = {step.name for step in steps}
    by_git = "git" in names and bare.startswith(("fatal: ", "error: "))
    is_own = by_git or any(bare.startswith(f"{name}: ") for name in names) or _SHELL_ERROR.match(line) is not None
    return is_own and _REFUSED.search(line) is not None


def shows_every_failure(steps: Sequence[Step]) -> bool:
    """Return True if a script fails as soon as one of its commands does."""
    return bool(steps) and not any(step.joined in _MASKS for step in steps)
