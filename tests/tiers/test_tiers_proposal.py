"""Decided edits as JSON and back, and the file that shows a person what they would change."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.jobs import stored_edits
from memoryd.jobs.job import (
    AddMemories,
    AppendDaily,
    CompressedMessage,
    EditFacts,
    KeepSummary,
    LearnedFact,
    LearnedSection,
    MemoryType,
    MoveWatermark,
    NewMemory,
    Operate,
)
from memoryd.ledger.guards import Caller
from memoryd.ledger.memory import Ending, MemoryKind, Source
from memoryd.ledger.operation import Add, Delete, Merge, Protect, Update
from memoryd.tiers.lines import lines_of, open_fence
from memoryd.tiers.proposal import FileDiff, Proposal, render, render_diff

TEXT = st.text(max_size=40)
SEQS = st.lists(st.integers(1, 99), max_size=3).map(tuple)
SOURCE = st.builds(
    Source, TEXT, TEXT, TEXT, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), TEXT, TEXT, st.none() | TEXT
)
SOURCES = st.lists(SOURCE, max_size=2).map(tuple)
NAMES = st.lists(TEXT, max_size=3).map(tuple)
SHARE = st.none() | st.floats(0, 1)
OPERATION = st.one_of(
    st.builds(Add, st.sampled_from(MemoryKind), TEXT, cites=SOURCES, importance=SHARE, tags=NAMES),
    st.builds(Update, TEXT, TEXT, cites=SOURCES, tags=st.none() | NAMES),
    st.builds(Merge, NAMES, TEXT, cites=SOURCES),
    st.builds(Delete, TEXT, st.sampled_from(Ending), NAMES),
    st.builds(Protect, TEXT),
)
EDIT = st.one_of(
    st.builds(AppendDaily, st.dates(), TEXT, TEXT, TEXT),
    st.builds(
        AddMemories,
        st.lists(st.builds(NewMemory, st.sampled_from(MemoryType), st.floats(0, 1), TEXT, SEQS), max_size=2).map(tuple),
    ),
    st.builds(
        Operate,
        st.lists(OPERATION, max_size=3).map(tuple),
        st.sampled_from(Caller),
        st.dictionaries(TEXT, TEXT, max_size=2),
    ),
    st.builds(
        EditFacts,
        TEXT,
        st.lists(st.builds(LearnedFact, TEXT, TEXT, st.floats(0, 1), SEQS, NAMES, st.booleans()), max_size=2).map(
            tuple
        ),
        NAMES,
        st.lists(st.builds(LearnedSection, TEXT, TEXT, SEQS), max_size=2).map(tuple),
    ),
    st.builds(
        KeepSummary,
        TEXT,
        TEXT,
        st.lists(st.builds(CompressedMessage, TEXT, TEXT, st.integers(0), SEQS), max_size=2).map(tuple),
    ),
    st.builds(MoveWatermark, TEXT, TEXT, st.integers(0)),
)
EDITS = st.lists(EDIT, max_size=4).map(tuple)


@given(EDITS)
def test_what_was_decided_comes_back_as_it_was(edits):
    import json

    stored = json.dumps(stored_edits.dump(edits))
    again = stored_edits.load(json.loads(stored))
    assert again == edits
    assert [type(one) for one in again] == [type(one) for one in edits]
    assert stored_edits.compute_digest(again) == stored_edits.compute_digest(edits)
    for one, other in zip(again, edits, strict=True):
        if isinstance(one, Operate):  # doors are compared by identity
            assert one.caller is other.caller


@pytest.mark.parametrize(
    "stored",
    [
        [{"$": "Popen", "args": "x"}],
        [{"$": "AppendDaily", "day": {"$": "date", "value": "2026-01-01"}}],
        [{"no": "type"}],
        [{"$": "Door", "value": "back"}],
    ],
)
def test_what_is_no_edit_of_this_version_is_refused(stored):
    with pytest.raises(ValueError, match=r"not edits of this version|Door|back"):
        stored_edits.load(stored)


def test_two_decisions_differ_in_their_digest():
    one, other = (MoveWatermark("s", "sleep", seq) for seq in (1, 2))
    assert stored_edits.compute_digest([one]) != stored_edits.compute_digest([other])


def proposal(*files, operations=()):
    return render(
        Proposal("run-1", "sleep", "2026-03-04 09:45", files, operations, [("tombstone", "it was forgotten")])
    )


def test_a_proposal_reads_as_a_diff():
    change = FileDiff("MEMORY.md", "# Notes\n\n- tea\n", "# Notes\n\n- tea\n- water\n")
    assert render_diff(change).splitlines() == [
        "--- a/MEMORY.md", "+++ b/MEMORY.md", "@@ -1,3 +1,4 @@", " # Notes", " ", " - tea", "+- water",
    ]  # fmt: skip
    text = proposal(change, operations=[("add", "core", "water\nand more")]).decode()
    assert text.startswith("# Proposal: sleep run-1 (2026-03-04 09:45)\n")
    assert "memoryd job accept run-1\nmemoryd job reject run-1\n" in text
    assert "add core: water\n  and more\n" in text
    assert "- tombstone: it was forgotten" in text


@given(st.text("~`#- ab\n\r\x85", max_size=60), st.text("~`#- ab\n\r\x85", max_size=60))
def test_no_text_of_a_memory_gets_out_of_its_fence(before, after):
    data = proposal(FileDiff("MEMORY.md", before, after), operations=[("add", "core", after)])
    fence, outside = None, []
    for line in lines_of(data):
        was, fence = fence, open_fence(fence, line)
        if was is None and fence is None:
            outside.append(line)
    assert fence is None
    headings = [line for line in outside if line.startswith(b"#")]
    assert headings[1:] == [b"## MEMORY.md\n", b"## Memories\n", b"## Refused by guards\n"]


def test_the_day_is_a_day_again():
    (one,) = stored_edits.load(stored_edits.dump([AppendDaily(date(2026, 3, 4), "Note", "09:45", "x")]))
    assert one.day == date(2026, 3, 4)
