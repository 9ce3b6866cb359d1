"""Both sides of the judging over made-up sessions and cores: honest claims that stay, lies that do not.

The claims, and the answers of a second reader, were written by hand; `bench/judgement.py` counts real sessions too.
"""

import importlib.util
import json
import sys
from collections import defaultdict

import pytest
from places import ROOT

pytestmark = pytest.mark.timeout(600)  # on a busy machine
BENCH = ROOT / "bench" / "judgement.py"
# What the judging reaches today. Lies are claims for the core or the facts that are false.
LEAST_HONEST = {"sleep": 0.95, "facts": 0.98, "dream": 0.98, "refine": 0.95, "scope": 1.0}
MOST_LIES = {"sleep": 0.0, "facts": 0.0, "dream": 0.02, "refine": 0.0}
ONE_QUOTATION = {"sleep": 0.04, "facts": 0.0, "dream": 0.0, "refine": 0.0}


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("judgement", BENCH)
    module = sys.modules["judgement"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shares(bench, says=""):
    """The shares accepted by job: of honest claims, and of lies."""
    reading = bench.Reading(bench.load(), says=says, repairs=bench.load_repairs())
    held = bench.plays()[::3] if says else bench.plays()
    rows = [row for play in held for row in bench.judged(play, {}, reading)]
    rows += bench.trap_rows(json.loads((bench.PLAYS / "scope_traps.json").read_text("utf-8")), reading)
    found = defaultdict(list)
    for row in rows:
        if row.honest and not row.outside:
            found[row.job, True].append(row.accepted)
        elif not row.honest and row.core:
            found[row.job, False].append(row.accepted)
    return {key: sum(held) / len(held) for key, held in found.items()}, reading


def test_honest_claims_stay_and_lies_do_not(bench):
    found, reading = shares(bench)
    assert len(reading.open) < 20  # questions without an answer count as unread
    assert {job: found[job, True] for job, least in LEAST_HONEST.items() if found[job, True] < least} == {}
    assert {job: found[job, False] for job, most in MOST_LIES.items() if found[job, False] > most} == {}


@pytest.mark.parametrize("verdict", ["supported", "not-said", pytest.param("rule", marks=pytest.mark.soak)])
def test_a_reader_that_says_one_thing_to_everything_brings_in_no_lie(bench, verdict):
    found, _ = shares(bench, verdict)
    # Unread, cues decide which of the user's words stand; one task's wish in the plays passes them, as it was said.
    assert {job: share for (job, honest), share in found.items() if not honest and share > ONE_QUOTATION[job]} == {}
