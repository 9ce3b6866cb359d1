"""What may be made of memories by either door: in a dream, and in a refinement."""

from datetime import date
from itertools import count

import pytest
from condensations import HONEST, HOSTILE, TOO_FAR
from ledger_world import core_memory

from memoryd.jobs.condensation import condensed
from memoryd.jobs.consolidation import Earlier, consolidate
from memoryd.jobs.dream_reply import Bullet, Parsed, Section
from memoryd.ledger.relation import relates
from memoryd.ledger.taint import Place

DAY = date(2026, 3, 4)


def refined(text, sources):
    """Whether a refinement may put the text into the place of the sources."""
    return condensed(text, {f"core_{n}": said for n, said in enumerate(sources)}, DAY).place is not Place.REFUSED


def dreamt(text, sources):
    """Whether a dream lets the text stand, and none of the sources live beside it."""
    earlier = [Earlier(f"m{n}", core_memory(n, said), DAY) for n, said in enumerate(sources)]
    bullet = Bullet(text, tuple(one.id for one in earlier))
    ids = count(100)
    parsed = Parsed((Section("", (bullet,)),))
    done = consolidate(parsed, earlier, [], DAY, lambda: f"core_{next(ids):08x}", lambda _: ())
    return bool(done.operations) and not done.faults


@pytest.mark.parametrize(("text", "sources"), HOSTILE)
def test_what_changes_a_number_a_name_a_hedge_a_time_or_who_says_it_stands_nowhere(text, sources):
    assert not refined(text, sources)
    assert not dreamt(text, sources)


@pytest.mark.parametrize(("text", "sources"), [one for one in HONEST if one[0] not in TOO_FAR])
def test_what_anybody_would_make_of_it_stands(text, sources):
    assert refined(text, sources)
    assert dreamt(text, sources)


@pytest.mark.parametrize(("text", "sources"), [
    ("Anna hired Bob in June.", ("Anna hired Bob. In June Carl left.",)),
    ("Backups failed because the disk was full.", ("Backups failed.", "The disk was full.")),
    ("The disk was full because backups failed.", ("Backups failed because the disk was full.",)),
    ("The database is Postgres 14.", ("The database was Postgres 14.",)),
    ("Page Dora.", ("Page Dora if the build fails.",)),
    ("Anna has the migration.", ("The migration was finished by Anna.",)),
])  # fmt: skip
def test_neither_a_reason_nor_a_time_nor_a_condition_is_made_up(text, sources):
    assert not relates(text, sources)
    assert all(relates(one, sources) for one in sources)
