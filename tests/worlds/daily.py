"""Which cases of a table `make test` tries; `make soak` tries all of them."""

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from itertools import product

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"


def one_in(many, cases: Iterable, kind: Callable[..., Hashable] = lambda _: None):
    """Return every case in a soak, otherwise of each kind the first of each so many: always the same ones."""
    met, chosen = Counter(), []
    for case in cases:
        if SOAK or met[kind(case)] % many == 0:
            chosen.append(case)
        met[kind(case)] += 1
    return chosen


def one_each(cases: Iterable, others: Iterable):
    """Return every pair in a soak, otherwise one pair with each case, in which the others take turns."""
    cases, others = list(cases), list(others)
    return list(product(cases, others)) if SOAK else [(one, others[at % len(others)]) for at, one in enumerate(cases)]
