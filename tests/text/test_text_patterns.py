"""Patterns from a text file: comments, lists, lines that are continued, and patterns of the caller."""

import pkgutil

import pytest

from memoryd.text.word_lists import read_patterns

FILE = r"""
# A comment of the file.

# A comment of a list.
list month:
    march|april

later: a time that is far away
    \bin {month}
    \bat the end of (?:the )?(?:year
     |month)\b

with space:
    then[ ]

of caller:
    {names}: \w|{later}
"""


@pytest.fixture
def patterns(monkeypatch):
    monkeypatch.setattr(pkgutil, "get_data", lambda _module, _file: FILE.encode())
    return read_patterns("memoryd.text", "any.txt", names="eve|ann")


def test_alternatives_lines_and_lists_become_one_pattern(patterns):
    assert patterns["later"] == r"\bin march|april|\bat the end of (?:the )?(?:year|month)\b"
    assert patterns["with space"] == "then[ ]"


def test_an_entry_uses_patterns_of_the_caller_and_earlier_entries(patterns):
    assert patterns["of caller"] == rf"eve|ann: \w|{patterns['later']}"


def test_lists_are_only_for_other_entries(patterns):
    assert list(patterns) == ["later", "with space", "of caller"]
