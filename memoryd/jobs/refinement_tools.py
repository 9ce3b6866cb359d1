"""Define the tools with which an agent refines its own core; each call becomes a request to the ledger.

The reader of a call accepts the usual deviations of models from its form, and checks the call against the present core.
For an impossible call, it returns a `Misuse`, which says what is allowed. After that, the ledger's guards decide.
Another module decides whether a new text may replace memories (`condensation`). `refinement_tools.json` describes the
tools to the model.
"""

import json
import pkgutil
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from memoryd.gauge.estimate import estimate
from memoryd.jobs.condensation import Draft
from memoryd.jobs.job import ModelTool, ToolCall
from memoryd.ledger.guards import Guard
from memoryd.ledger.memory import Memory, hash_of
from memoryd.ledger.operation import Delete, Merge, Operation, Protect, Update
from memoryd.text.json_values import find_values, parse_json
from memoryd.text.neutral import neutralize

SEARCH = "search_memories"
CONSOLIDATE = "consolidate_memories"
UPDATE = "update_memory"
DELETE = "delete_memory"
PROTECT = "protect_memory"
COMPLETE = "complete_refinement"
CUTS = frozenset({CONSOLIDATE, UPDATE, DELETE, PROTECT})
NORMAL, DEDUP, STRICT = "normal", "dedup", "strict"
STRICT_FLOOR = 0.9  # the share of the core's tokens that must remain in a strict refinement
STRICT_MUTATIONS = 10  # the most operations of a strict refinement
_LONGER = 1.5  # a new text may once have this many times the old length, because clearer words may be longer
_LONGEST_SUMMARY = 2_000  # characters
_LONGEST_DETAIL = 200
_MOST_DETAILS = 100
_LONGEST_QUERY = 1_000
_SHOWN_ID = 60

TOOLS = {
    one["name"]: ModelTool(one["name"], one["description"], json.dumps(one["parameters"]))
    for one in json.loads(pkgutil.get_data(__name__, "refinement_tools.json") or b"")
}


def list_tools(mode: str) -> tuple[ModelTool, ...]:
    """Return the tools of a mode; the mode for duplicates has no tool that writes a new text."""
    return tuple(tool for name, tool in TOOLS.items() if mode != DEDUP or name not in {CONSOLIDATE, UPDATE})


@dataclass(frozen=True, slots=True)
class SearchCall:
    """Hold a search for memories; both days are inclusive."""

    query: str
    after: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class RefinementChange:
    """Hold a change: the operation, the ids of its memories, and a new text that must still be judged."""

    operation: Operation
    ids: tuple[str, ...]
    draft: Draft | None = None


@dataclass(frozen=True, slots=True)
class CompleteCall:
    """Hold the end of a refinement with the model's summary."""

    summary: str


@dataclass(frozen=True, slots=True)
class Misuse:
    """Hold the reason why a call is not carried out.

    Attributes:
        why: the reason for the model; it may repeat the model's words.
        allowed: what the model can do instead.
        verdict: for run reports, without content: `error`, or the guard's name.
        ids: the agent's memories that the call named.
    """

    why: str
    allowed: str = ""
    verdict: str = "error"
    ids: tuple[str, ...] = ()


# --- reading ----------------------------------------------------------------------------------------------------------


def read(
    call: ToolCall, core: Mapping[str, Memory], mode: str
) -> SearchCall | RefinementChange | CompleteCall | Misuse:
    """Return the request that a call makes, or a `Misuse` if it cannot be carried out.

    Args:
        call: the call as the model made it.
        core: the live core, by id.
        mode: the mode of the refinement.
    """
    offered = {tool.name for tool in list_tools(mode)}
    if call.name not in offered:
        return Misuse(f"there is no tool {_show_text(call.name)}", f"the tools are {', '.join(sorted(offered))}")
    given = _arguments(call.arguments)
    if given is None:
        return Misuse("the arguments are no JSON object", f"{call.name} takes {TOOLS[call.name].parameters}")
    if call.name == SEARCH:
        return _look(given)
    if call.name == COMPLETE:
        summary = given.get("summary", "")
        return CompleteCall(neutralize(summary if isinstance(summary, str) else "")[:_LONGEST_SUMMARY])
    return _consolidate(given, core) if call.name == CONSOLIDATE else _one(call.name, given, core)


def _arguments(text: str) -> dict[str, Any] | None:
    given = parse_json(text) if text.strip() else {}
    if isinstance(given, str):  # some servers encode the arguments twice
        given = parse_json(given)
    return given if isinstance(given, dict) else None


def _look(given: Mapping[str, Any]) -> SearchCall | Misuse:
    query, after, before = given.get("query") or "", given.get("from") or None, given.get("to") or None
    days = [day for day in (after, before) if day is not None]
    if not isinstance(query, str) or any(not _is_day(day) for day in days):
        return Misuse("a search takes a text and days", "query: words; from and to: YYYY-MM-DD, or leave them out")
    if not query.strip() and not days:
        return Misuse("there is nothing to look for", "give words, or days, or both")
    if after and before and after > before:
        return Misuse("`from` is later than `to`", "from: the first day; to: the last day, both inclusive")
    return SearchCall(query[:_LONGEST_QUERY], after, before)


def _is_day(text: object) -> bool:
    try:
        return isinstance(text, str) and date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _consolidate(given: Mapping[str, Any], core: Mapping[str, Memory]) -> RefinementChange | Misuse:
    ids = _ids(given.get("ids_to_merge"))
    content = given.get("new_content")
    if ids is None or not isinstance(content, str):
        return Misuse("a consolidation needs ids and a text", "ids_to_merge: a list of ids; new_content: one line")
    known = tuple(one for one in ids if one in core)
    if misuse := _unknown(ids, core) or _refuse_protected(known, core):
        return misuse
    if len(ids) < 2:
        return Misuse("a consolidation needs two memories at least", "name two or more different ids", ids=known)
    parts = tuple(core[one] for one in ids)
    text = neutralize(content)
    if estimate(text) > sum(estimate(part.content) for part in parts):
        return Misuse("the new text is longer than what it replaces", "say it shorter", ids=known)
    return RefinementChange(Merge(ids, text), ids, Draft(text, parts, _details(given.get("dropped"))))


def _details(given: object) -> tuple[str, ...]:
    """Return the details that a call names; a text counts as one detail, unless it is a JSON list."""
    if isinstance(given, str):
        listed = parse_json(given)
        given = listed if listed and isinstance(listed, list) else [given]
    listed = given if isinstance(given, list) else []
    named = (neutralize(one)[:_LONGEST_DETAIL] for one in listed[:_MOST_DETAILS] if isinstance(one, str))
    return tuple(dict.fromkeys(one for one in named if one))


def _one(name: str, given: Mapping[str, Any], core: Mapping[str, Memory]) -> RefinementChange | Misuse:
    ids = _ids(given.get("id"))
    if ids is None or len(ids) != 1:
        return Misuse(f"{name} needs one id", "id: one id of the ledger")
    if misuse := _unknown(ids, core) or (_refuse_protected(ids, core) if name != PROTECT else None):
        return misuse
    memory = core[ids[0]]
    if name == PROTECT:
        if memory.constitutional:
            return Misuse("the memory is protected already", "nothing is to be done", ids=ids)
        return RefinementChange(Protect(memory.id), ids)
    return RefinementChange(Delete(memory.id), ids) if name == DELETE else _update(memory, given.get("content"))


def _update(memory: Memory, content: object) -> RefinementChange | Misuse:
    if not isinstance(content, str):
        return Misuse("an update needs a text", "content: one line", ids=(memory.id,))
    text = neutralize(content)
    if hash_of(text) == memory.content_hash:
        return Misuse("the memory says that already", "change it, or leave it", ids=(memory.id,))
    # A text that a reader has accepted as a replacement must not grow again, or it would grow a little each night.
    most = 1 if memory.lost is not None or memory.derived_from else _LONGER
    if estimate(text) > most * estimate(memory.content):
        return Misuse("the new text is longer than it may be", "say it shorter", ids=(memory.id,))
    return RefinementChange(Update(memory.id, content=text), (memory.id,), Draft(text, (memory,)))


def _ids(given: object) -> tuple[str, ...] | None:
    """Return the ids, each once, also from a list in text form; None if the value holds no readable ids."""
    if isinstance(given, str):
        listed = parse_json(given)
        given = listed if isinstance(listed, list) else [part.strip() for part in given.split(",")]
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        return None
    return tuple(dict.fromkeys(one.strip().strip("[]") for one in given if one.strip()))


def _unknown(ids: Sequence[str], core: Mapping[str, Memory]) -> Misuse | None:
    unknown = [one for one in ids if one not in core]
    if not unknown:
        return None
    named = ", ".join(_show_text(one) for one in unknown[:20])
    known = tuple(one for one in ids if one in core)
    return Misuse(f"not in the live core: {named}", "use ids of the ledger that are live; search finds them", ids=known)


def _refuse_protected(ids: Sequence[str], core: Mapping[str, Memory]) -> Misuse | None:
    protected = tuple(one for one in ids if core[one].constitutional)
    if not protected:
        return None
    allowed = "leave it as it is; nothing of this call was done"
    return Misuse(f"protected: {', '.join(protected)}", allowed, str(Guard.CONSTITUTIONAL), protected)


def _show_text(text: str) -> str:
    return neutralize(text)[:_SHOWN_ID] or "(nothing)"


# --- calls in text ----------------------------------------------------------------------------------------------------

# Marks that may be on a line beside a call: marks of a list or of code, and the tags that some models add.
_BEFORE = re.compile(r"\s*(?:[-*>]\s+|\d+[.)]\s+)?(?:`{1,3}(?:json)?\s*)?(?:<\|?\w+\|?>\s*)?")
_BEHIND = re.compile(r"\s*(?:<[|/]{0,2}\w+\|?>\s*)?`{0,3}[,;.]?\s*")
_NAMES = ("tool", "name", "function", "action")
_ARGUMENTS = ("arguments", "args", "parameters", "input")


def calls_in(text: str, shown: Iterable[str]) -> tuple[ToolCall, ...]:
    """Return the calls that a model wrote into its text: JSON objects, each on its own lines.

    Args:
        text: the model's text.
        shown: the memories that the model was shown; a repetition of one of them is no call, in any form.
    """
    known = [value for one in shown for value, _, _ in find_values(one)]
    found: list[ToolCall] = []
    for value, start, end in find_values(text):
        before, behind = text[text.rfind("\n", 0, start) + 1 : start], text[end:].partition("\n")[0]
        if not (_BEFORE.fullmatch(before) and _BEHIND.fullmatch(behind)):
            continue
        for one in value if isinstance(value, list) else [value]:
            if one not in known:
                found += _action(one, len(found))
    return tuple(found)


def _action(value: object, number: int) -> list[ToolCall]:
    if not isinstance(value, dict):
        return []
    function = value.get("function")
    if isinstance(function, dict):
        return _action(function, number)
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    if name is None:
        return []
    inner = next((value[key] for key in _ARGUMENTS if key in value), None)
    if inner is None:
        inner = {key: one for key, one in value.items() if key not in _NAMES}
    return [ToolCall(f"text_{number}", name, inner if isinstance(inner, str) else json.dumps(inner))]
