"""The weights of the lines of a working session are those that the shipped grades give."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from memoryd.offline import work

BENCH: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "bench" / "fit_work.py"))
IN_USE = {"assistant": work._OF_ANSWER | {"passed": work._OF_PASSED}, "user": work._OF_REQUEST}


@pytest.mark.long
@pytest.mark.parametrize("speaker", ["assistant", "user"])
def test_the_weights_in_use_are_fitted_to_the_shipped_grades(speaker):
    fitted = BENCH["fit"]([line for line in BENCH["read_lines"]() if line.speaker == speaker])
    named = dict(zip(("", *BENCH["COLUMNS"][speaker]), fitted, strict=True))
    assert {name: IN_USE[speaker][name] for name in named} == pytest.approx(named, abs=0.006)
    assert IN_USE[speaker].keys() - named.keys() <= {"jokes"}
