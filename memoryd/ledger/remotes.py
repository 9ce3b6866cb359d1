"""Remotes: which repository a session works on, as the agent's own `git` and `gh` calls show it."""

from __future__ import annotations

import re

_TEXTS = re.compile(
    r"\$\(cat <<.*?\n\s*\)|<<-?\s*\\*['\"]?(\w+)\b.*?\n\s*\1\b|\$?'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL
)
_PARTS = re.compile(r"&&|\|\||[;|\n]")
# Calls that print no text of other people. Any other program in the same call could print one.
_PLAIN = re.compile(
    r"(?:(?:cd|rm|mkdir|sleep|true)\b|(?:head|tail|sort)(?:\s+-\w+)*(?:\s+\d?>\S+)*$|git(?:\s+-C\s+\S+)?\s+(?:remote|push"
    r"|fetch|pull|clone|add|commit|status|branch|checkout|switch|rev-parse|submodule|log\s+--oneline)\b"
    r"|gh\s+pr\s+create\b|\d?>|$)"
)
_TASK = re.compile(r"\b(?:remote|push|fetch|pull|create)\b")
_SHOWN = re.compile(
    r"^(?:(?![0-9a-f]{7,})[\w./-]+\s+(\S+)\s+\((?:fetch|push)\)|(?:To|From)\s+(\S+[:/]\S+/\S+)"
    r"|(?:remote:\s+)?(https://[\w.-]+(?:/[\w.-]+){2})/pull/(?:\d+|new/\S+)/?|(?:remote:\s+)?((?:https?://|git@|ssh://)\S+))\s*$",
    re.MULTILINE,
)
_COMMAND = re.compile(r"\"(?:command|cmd|script)\"\s*:\s*(?:\[.*?)?\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
_CREATES = re.compile(r"\"(?:command|cmd)\"\s*:\s*\"(?:cd [\w./~-]+ && )?gh pr create\b")


def find_remotes(call: str, output: str) -> set[str]:
    """Return the remotes, as `host/account/name`, in the output of `call`; none where that may hold others' texts."""
    given = _COMMAND.search(call) if "git " in call or "gh " in call else None
    if given is not None:
        bare = _TEXTS.sub(" ", given[1].replace("\\n", "\n").replace('\\"', '"'))
        is_plain = _TASK.search(bare) is not None and all(_PLAIN.match(part.strip()) for part in _PARTS.split(bare))
    else:  # it may have been cut: then only an output that is a single line tells whose it is
        is_plain = "\n" not in output.strip() and _CREATES.search(call) is not None
    found = _SHOWN.findall(output.strip()) if is_plain else []
    return {_place(next(filter(None, one))) for one in found}


def _place(remote: str) -> str:
    place = re.sub(r"^[\w.+-]+://(?:[^@/]*@)?|^[\w.-]+@", "", remote)
    return place.replace(":", "/", 1).removesuffix(".git").lower()
