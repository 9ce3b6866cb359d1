"""The offline backend's refinement: of memories that say the same, one stays; a sentence of another goes into it.

It writes nothing of its own: the text that stays is one of the agent's memories, word for word.
"""

import json
from collections.abc import Sequence

from memoryd.gauge.estimate import estimate
from memoryd.jobs import refinement_tools
from memoryd.jobs.job import Ask, QuotedPiece, Reply, ToolCall
from memoryd.jobs.refine import CONSENT, JOB
from memoryd.jobs.refinement import PROTECTED
from memoryd.text import normal, sentences

JOBS = (CONSENT, JOB)
BACKEND = "offline"
_TOGETHER = "I put together what said the same, word for word."
_FORGOTTEN = "I deleted what another memory says as well."
_NOTHING = "Nothing is safe to condense: no memory says what another says."


def answer(ask: Ask) -> Reply:
    """Return the reply to a question of a refinement; the same question gets the same bytes."""
    if ask.job == CONSENT:
        return Reply("yes", "stop", BACKEND)
    calls = [] if ask.earlier else _calls(ask)
    summary = _NOTHING
    if calls:
        summary = _TOGETHER if calls[0][0] == refinement_tools.CONSOLIDATE else _FORGOTTEN
    numbered = enumerate([*calls, (refinement_tools.COMPLETE, {"summary": summary})])
    return Reply(
        "",
        "stop",
        BACKEND,
        calls=tuple(ToolCall(f"call_{number}", name, json.dumps(given)) for number, (name, given) in numbered),
    )


def _calls(ask: Ask) -> list[tuple[str, dict[str, object]]]:
    given = dict(ask.context)
    left, shrink, delete = (int(given[name]) for name in ("changes left", "may shrink by", "may delete"))
    merging = any(tool.name == refinement_tools.CONSOLIDATE for tool in ask.tools)
    free = [one for one in ask.material if not one.role.startswith(PROTECTED)]
    room = shrink if merging else min(shrink, delete)
    found: list[tuple[str, dict[str, object]]] = []
    for kept, others in _groups(free, whole_only=not merging):
        told: list[str] = []
        for one in others:
            size = estimate(one.text)
            if size <= room and (merging or len(found) + len(told) < left):
                room -= size
                told.append(one.id)
        if merging and told and len(found) < left:
            found.append((refinement_tools.CONSOLIDATE, {"ids_to_merge": [kept.id, *told], "new_content": kept.text}))
        elif not merging:
            found += [(refinement_tools.DELETE, {"id": one}) for one in told]
    return found


def _groups(material: Sequence[QuotedPiece], *, whole_only: bool) -> list[tuple[QuotedPiece, list[QuotedPiece]]]:
    """Return each memory that stays with those it says all of; the longest first, of equals the oldest."""
    order = sorted(material, key=lambda one: (-len(normal.normalize(one.text)), one.at or ""))
    holder: dict[str, int] = {}  # the normal form of a text, or of a sentence of one that stays → its place
    groups: list[tuple[QuotedPiece, list[QuotedPiece]]] = []
    for one in order:
        form = normal.normalize(one.text)
        if form in holder:
            groups[holder[form]][1].append(one)
            continue
        forms = [form] if whole_only else [form, *map(normal.normalize, sentences.list_texts(one.text))]
        for held in forms:
            holder.setdefault(held, len(groups))
        groups.append((one, []))
    return [(kept, others) for kept, others in groups if others]
