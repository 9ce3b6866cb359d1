"""What waits for an answer is read back as it was decided."""

import json
from datetime import date

import pytest

from memoryd.jobs import stored_edits
from memoryd.jobs.job import AppendDaily, Operate
from memoryd.ledger.guards import Caller
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
