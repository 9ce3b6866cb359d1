"""What waits for an answer is read back as it was decided."""

import json
from datetime import date

import pytest

from memoryd.jobs import stored_edits
from memoryd.jobs.job import AppendDaily, Operate
from memoryd.ledger.guards import Caller, RefinementStart
from memoryd.ledger.memory import Ending, MemoryKind
from memoryd.ledger.operation import Add, Delete, Merge

EDITS = (
    AppendDaily(date(2026, 3, 4), "Note", "09:30", "- told"),
    Operate(
        (
            Add(MemoryKind.CORE, "x", tags=("a", "b")),
            Delete("core_1", Ending.SUPERSEDED, ("core_2",)),
            Merge(("a", "b"), "y"),
        ),
        Caller.REWRITE,
        {"core_1": "as it was", "$": "texts"},
    ),
)


def test_what_was_decided_is_read_back():
    stored = json.loads(json.dumps(stored_edits.dump(EDITS)))
    assert stored_edits.load(stored) == EDITS
    assert stored_edits.compute_digest(stored_edits.load(stored)) == stored_edits.compute_digest(EDITS)


@pytest.mark.parametrize("plain", [[{}], [{"$": "object"}], [{"$": "Operate", "ids": []}]])
def test_what_is_no_edit_is_refused(plain):
    with pytest.raises(ValueError, match="not edits of"):
        stored_edits.load(plain)


def test_what_the_first_version_stored_is_read_and_stored_the_same():
    stored = [
        {
            "$": "Operate",
            "operations": [{"$": "Add", "kind": {"$": "Kind", "value": "core"}, "content": "Use uv."}],
            "door": {"$": "Door", "value": "tool"},
            "seen": {"$": "mapping", "value": []},
            "begun": {"$": "Begun", "tokens": 7, "ids": {"$": "set", "value": ["core_00000001"]}, "mutations": 0},
        }
    ]
    edits = stored_edits.load(stored)
    begun = RefinementStart(7, frozenset({"core_00000001"}))
    assert edits == (Operate((Add(MemoryKind.CORE, "Use uv."),), Caller.TOOL, begun=begun),)
    (again,) = stored_edits.dump(edits)
    assert again.keys() == stored[0].keys()
    assert (again["door"], again["begun"]) == (stored[0]["door"], stored[0]["begun"])
    assert again["operations"][0]["kind"] == stored[0]["operations"][0]["kind"]
