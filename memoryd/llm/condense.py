"""The offline backend's refinement: of memories that say the same, or a part of what another says, the fullest stays.

It writes nothing of its own: the text that stays is one of the agent's sentences, word for word. What it is not sure
of it leaves: two memories go together only where every word that tells apart stands in both, or the one restates a
passage of the other (`restatement`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import date
from typing import TYPE_CHECKING

from memoryd.gauge.estimate import estimate
from memoryd.jobs import knife
from memoryd.jobs.duplicates import Known, fold
from memoryd.jobs.job import Reply, ToolCall
from memoryd.jobs.refine import CONSENT, JOB
from memoryd.jobs.refinement import PROTECTED
from memoryd.ledger.grounding import Ground, Source, content
from memoryd.ledger.reversal import negations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memoryd.jobs.job import Ask, Quoted

JOBS = (CONSENT, JOB)
BACKEND = "offline"
_TOGETHER = "I put together what said the same, in my own words."
_FORGOTTEN = "I deleted what another memory says as well."
_NOTHING = "Nothing is safe to condense: no memory says what another says."
_ANY_DAY = date(2000, 1, 1)  # nothing here is reckoned from a day


def answer(ask: Ask) -> Reply:
    """Return the reply to a question of a refinement; the same question gets the same bytes."""
    if ask.job == CONSENT:
        return Reply("yes", "stop", BACKEND)
    calls = [] if ask.earlier else _calls(ask)
    summary = _NOTHING
    if calls:
        summary = _TOGETHER if calls[0][0] == knife.CONSOLIDATE else _FORGOTTEN
    numbered = enumerate([*calls, (knife.COMPLETE, {"summary": summary})])
    return Reply(
        "",
        "stop",
        BACKEND,
        calls=tuple(ToolCall(f"call_{number}", name, json.dumps(given)) for number, (name, given) in numbered),
    )


def _calls(ask: Ask) -> list[tuple[str, dict[str, object]]]:
    given = dict(ask.context)
    left, shrink, delete = (int(given[name]) for name in ("changes left", "may shrink by", "may delete"))
    merging = any(tool.name == knife.CONSOLIDATE for tool in ask.tools)
    free = [one for one in ask.material if not one.role.startswith(PROTECTED)]
    room = shrink if merging else min(shrink, delete)
    found: list[tuple[str, dict[str, object]]] = []
    for kept, others in _groups(free, near_only=not merging):
        told: list[str] = []
        for one in others:
            size = estimate(one.text)
            if size <= room and (merging or len(found) + len(told) < left):
                room -= size
                told.append(one.id)
        if merging and told and len(found) < left:
            found.append((knife.CONSOLIDATE, {"ids_to_merge": [kept.id, *told], "new_content": kept.text}))
        elif not merging:
            found += [(knife.DELETE, {"id": one}) for one in told]
    return found


def _groups(material: Sequence[Quoted], *, near_only: bool) -> list[tuple[Quoted, list[Quoted]]]:
    """Each memory that stays with those it says all of; the fullest first, of equals the oldest, then the first."""
    order = sorted(material, key=lambda one: (-len(content(one.text)), one.at or ""))
    keepers: list[Quoted] = []
    held: dict[str, list[int]] = defaultdict(list)  # word → the keepers that have it
    groups: list[list[Quoted]] = []
    for one in order:
        words = {fold(word) for word in content(one.text)}
        places = min((held[word] for word in words), key=len, default=[])
        into = next((place for place in places if _says(keepers[place].text, one.text, near_only=near_only)), None)
        if into is not None:
            groups[into].append(one)
            continue
        for word in words:
            held[word].append(len(keepers))
        keepers.append(one)
        groups.append([])
    return [(kept, others) for kept, others in zip(keepers, groups, strict=True) if others]


def _says(text: str, other: str, *, near_only: bool) -> bool:
    """Whether a text says all that the other says."""
    if Known([text]).says(other):
        return True
    if near_only or bool(negations(text)) != bool(negations(other)):
        return False
    ground = Ground([Source(text, _ANY_DAY)])
    asked = {fold(word) for word in content(other)}
    has_all = asked <= {fold(word) for word in content(text)}
    return len(asked) > 1 and has_all and ground.quotes(other) and ground.missing(other) is None
