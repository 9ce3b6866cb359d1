"""Which cases of a table `make test` tries; `make soak` tries all of them."""

import os
from collections.abc import Iterable
from itertools import islice

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"


def one_in(many, cases: Iterable):
    """Return every case in a soak, otherwise the first of each so many: always the same ones."""
    return list(cases) if SOAK else list(islice(cases, 0, None, many))
