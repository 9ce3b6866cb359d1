"""Work of the benchmarks in a child process: its result comes back whatever its size, and its death is no wait."""

import subprocess
import sys

from places import ROOT

WORK = """
import os
from bench._retrieval import run_apart
print(len(run_apart(lambda: "x" * 1_000_000)), run_apart(lambda: os._exit(1)))
"""


def test_a_large_result_comes_back_and_a_child_that_dies_gives_none():
    # A process of its own has no threads that a fork would lose.
    done = subprocess.run(
        [sys.executable, "-c", WORK], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["1000000", "None"]
