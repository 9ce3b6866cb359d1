"""`consolidation.log`: what is written is read back, and other lines are passed over."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from memoryd.tiers import consolidation_log
from memoryd.tiers.consolidation_log import LogEntry, LoggedFile

AT = datetime(2026, 11, 23, 19, 30, 5, tzinfo=UTC)
ENTRY = LogEntry(
    AT, "Rollover NOW → RECENT",
    (LoggedFile("RECENT.md", 12, 20), LoggedFile("MEMORY.md", None, 9), LoggedFile("NOW-a.md", None, None)),
    ("sessions: 1",), "memoryd, schedule, run-1",
)  # fmt: skip
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def test_an_entry_is_written_for_people():
    assert consolidation_log.render_entry(ENTRY).decode() == (
        "[2026-11-23 19:30:05 UTC] ACTION: Rollover NOW → RECENT\n  Files:\n    - RECENT.md (12 → 20 lines)\n"
        "    - MEMORY.md (new, 9 lines)\n    - NOW-a.md (removed)\n  Changes:\n    - sessions: 1\n"
        "  By:\n    - memoryd, schedule, run-1\n"
    )


@given(st.binary(max_size=60), WORDS, WORDS, st.integers(0, 3))
def test_what_is_written_is_read_back_whatever_stands_around_it(other, action, change, count):
    entry = LogEntry(AT, " ".join(action.split()), ENTRY.files, (" ".join(change.split()),), "me")
    data = other + b"\n" + consolidation_log.render_entry(entry) * count + b"junk\n"
    found = consolidation_log.parse(data)[-count:] if count else ()
    assert [one.files for one in found] == [ENTRY.files] * count
    assert [one.at for one in found] == [AT] * count
    assert consolidation_log.last(data, count).count("ACTION: ") >= count
