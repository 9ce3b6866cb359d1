"""Render a proposal, `memory/proposals/RUN.md`: the changes of a run, for a person to read and answer.

A proposal is not memory. The format is memoryd's own: a title, how to answer, a unified diff for each file ("Detailed
Description of Unified Format" in the manual of GNU diffutils), then the operations on the memory store. Quoted text is
in fences (CommonMark 0.31, section 4.5) that are longer than any run of tildes in it, so no text of a memory can end
its fence or forge a heading.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from memoryd.tiers.lines import LINE_ENDS

FOLDER = "memory/proposals"
_TILDES = re.compile("~{3,}")


@dataclass(frozen=True, slots=True)
class FileDiff:
    """Hold a file before and after the change; None if it does not exist."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Proposal:
    """Hold the changes that a run would make."""

    run_id: str
    kind: str
    made_at: str
    files: Sequence[FileDiff]
    operations: Sequence[tuple[str, str, str]]  # (operation, place, text) of each change
    refused: Sequence[tuple[str, str]] = ()  # (guard, reason) of each refusal, never a text of a memory
    told: str = ""  # a report with counts and words of the model; may be empty


def path_of(run_id: str) -> str:
    """Return the path of a run's proposal in the workspace."""
    return f"{FOLDER}/{run_id}.md"


def render(proposal: Proposal) -> bytes:
    """Return the bytes of the proposal's file."""
    parts = [
        f"# Proposal: {proposal.kind} {proposal.run_id} ({proposal.made_at})",
        "These changes are not written yet. To write or discard them:",
        _fence("sh", f"memoryd job accept {proposal.run_id}\nmemoryd job reject {proposal.run_id}"),
    ]
    if proposal.told:
        parts.append(f"## Summary\n\n{_fence('', _make_visible(proposal.told))}")
    parts += [f"## {one.path}\n\n{_fence('diff', render_diff(one))}" for one in proposal.files]
    if proposal.operations:
        lines = "\n".join(_item(*one) for one in proposal.operations)
        parts.append(f"## Memories\n\n{_fence('', lines)}")
    if proposal.refused:
        lines = "\n".join(f"- {guard}: {why}" for guard, why in proposal.refused)
        parts.append(f"## Refused by guards\n\n{lines}")
    return ("\n\n".join(parts) + "\n").encode(errors="replace")


def render_diff(change: FileDiff) -> str:
    """Return a unified diff of one file."""
    old = "/dev/null" if change.before is None else f"a/{change.path}"
    new = "/dev/null" if change.after is None else f"b/{change.path}"
    return "\n".join(difflib.unified_diff(_lines(change.before), _lines(change.after), old, new, lineterm=""))


def _lines(text: str | None) -> list[str]:
    return [] if text is None else _make_visible(text).removesuffix("\n").split("\n")


def _item(what: str, where: str, text: str) -> str:
    head, *rest = _make_visible(text).split("\n")
    return "\n".join([f"{what} {where}: {head}", *(f"  {line}" for line in rest)])


def _make_visible(text: str) -> str:
    return LINE_ENDS.sub("\n", text)


def _fence(language: str, text: str) -> str:
    fence = "~" * max([3, *(len(run) + 1 for run in _TILDES.findall(text))])
    return f"{fence}{language}\n{text}\n{fence}"
