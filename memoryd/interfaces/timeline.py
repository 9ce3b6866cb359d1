"""A refinement as people read it: each call with its ids, tokens and verdict; what memories say only by leave."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from memoryd.interfaces import grants
from memoryd.interfaces.output import one_line
from memoryd.ledger.memory import PREFIXES, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memoryd.config import Agent, Settings
    from memoryd.database.reads import Reader

REFINE = "refine"
_CORE = PREFIXES[Kind.CORE]


def contents(settings: Settings, agent: Agent, reader: Reader, run_id: str) -> list[dict[str, Any]]:
    """What the memories that a run has changed said before and after, as far as the person may see it."""
    rows = reader.rows(
        'SELECT a.memory_id AS id, b.text AS was, n.text AS "is" FROM audit a'
        ' LEFT JOIN content b ON b.sha256 = a."before" LEFT JOIN content n ON n.sha256 = a."after"'
        " WHERE a.run_id = ? AND a.agent_id = ? AND substr(a.memory_id, 1, ?) = ? AND a.operation <> 'rollback'"
        " ORDER BY a.id",
        run_id,
        agent.id,
        len(_CORE),
        _CORE,
    )
    told = [{"id": row["id"], "content": _said(row["is"]), "was": _said(row["was"])} for row in rows]
    return grants.shown(settings, agent, "job show --content", told, "content", "was")


def _said(state: object) -> str | None:
    return None if state is None else str(json.loads(str(state))["content"])


def lines(refined: Mapping[str, Any], texts: Sequence[Mapping[str, Any]] = ()) -> Iterator[str]:
    """A refinement's part of a receipt, a line for each call, below it what was said, where that is given."""
    start, end = refined["start"], refined.get("end")
    size = (
        f"{start['memories']} memories, {start['tokens']:,}{' → ' + format(end['tokens'], ',') if end else ''} tokens"
    )
    how = refined.get("ended") or "under way"
    why = f": {refined['why']}" if refined.get("why") else ""
    undone = "; taken back" if refined.get("rolled_back") else ""
    yield f"refinement     {refined['mode']}, {size}, {how}{why}{undone}"
    counted = ", ".join(f"{name} {number}" for name, number in refined.get("counted", {}).items() if number)
    yield f"counted        {counted or 'nothing'}"
    if refined.get("unfounded"):
        yield f"unfounded      {', '.join(refined['unfounded'])}: the summary claims otherwise"
    said = {row["id"]: row for row in texts}
    for number, call in enumerate(refined["timeline"], 1):
        tokens = f" {call['before']} → {call['after']} tokens" if "before" in call else ""
        yield f"  {number:3} {call['tool']:20} {call['verdict']}{tokens} {' '.join(call['ids'])}".rstrip()
        for one in call["ids"] if call["verdict"] == "done" else ():
            row = said.pop(one, None)
            if row is not None:
                yield f"      {one}: {one_line(grants.text_of(row['content'], dict(row)))}"
    if refined.get("untold"):
        yield f"  and {refined['untold']} more calls"
