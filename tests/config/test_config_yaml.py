"""YAML as a person means it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.yaml_reader import MarkedValue, YamlError, read


def plain(mark):
    match mark.value:
        case dict():
            return {name: plain(child) for name, child in mark.value.items()}
        case list():
            return [plain(child) for child in mark.value]
        case _:
            return mark.value


def loaded(text):
    document = read(text.encode())
    assert document.problems == ()
    return plain(document.root)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("12:30", "12:30"),
        ("22:30:00", "22:30:00"),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("Off", "Off"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("010", "010"),
        ("0o10", "0o10"),
        ("0x10", "0x10"),
        ("10", 10),
        ("-3", -3),
        ("0", 0),
        ("200_000", 200_000),
        ("0.25", 0.25),
        (".5", 0.5),
        ("1e3", 1000.0),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z"),
        ("~", None),
        ("null", None),
        ("", None),
        ('"10"', "10"),
        ("'true'", "true"),
        ("~/x", "~/x"),
        ("!!str 10", "10"),
        ("1.2.3", "1.2.3"),
        ("=", "="),
    ],
)
def test_a_plain_scalar_is_read_as_meant(written, meant):
    value = loaded(f"key: {written}\n")["key"]
    assert value == meant
    assert type(value) is type(meant)


def test_each_key_and_each_entry_knows_its_line():
    root = read(b"# head\na: 1\nb:\n  c: [x,\n      y]\n  'd': |\n    text\n").root
    assert root.value["a"] == MarkedValue(1, 2)
    assert root.value["b"].line == 3
    assert root.value["b"].value["c"].value == [MarkedValue("x", 4), MarkedValue("y", 5)]
    assert root.value["b"].value["d"] == MarkedValue("text\n", 6)


def test_merge_keys_and_anchors_work_and_the_own_key_wins():
    text = "base: &b {x: 1, y: 2}\nother: &o {y: 3, z: 4}\none: {<<: *b, x: 9}\ntwo: {<<: [*b, *o]}\nthree: *b\n"
    assert loaded(text) == {
        "base": {"x": 1, "y": 2},
        "other": {"y": 3, "z": 4},
        "one": {"x": 9, "y": 2},
        "two": {"x": 1, "y": 2, "z": 4},
        "three": {"x": 1, "y": 2},
    }


def test_tabs_between_tokens_and_a_byte_order_mark_are_fine():
    assert loaded("﻿a:\t1\t# one\n") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (b"a: 1\nb: 2\na: 3\n", 3, "a is there twice"),
        (b"a: 1\n1: 2\n", 2, "key must be text"),
        (b"true: 2\n", 1, "key must be text"),
        (b"? [x]\n: 2\n", 1, "key must be text"),
    ],
)
def test_a_bad_key_is_a_problem_and_the_rest_is_read(text, line, told):
    (problem,) = read(text).problems
    assert (problem.line, told in problem.what) == (line, True)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"a: 1\n\tb: 2\n", 2),
        (b"a: [1\nb: 2\n", 1),
        (b"a: b: c\n", 1),
        (b"a: 1\nb: \xff\n", 2),
        (b"a: 1\nb: \x07\n", 2),
        (b"a: !!python/name:os.system x\n", 1),
        (b"a: !!binary aGk=\n", 1),
        (b"a: !!int x\n", 1),
        (b"a: !mine x\n", 1),
        (b"a: 1\n---\nb: 2\n", 2),
        (b"a: *nowhere\n", 1),
        (b"a: &a\n  b: *a\n", 2),
        (b"a: {<<: 1}\n", 1),
        (b"[" * 1_000, 1),
        (b"#" * (1 << 20) + b"\n", 1),
    ],
)
def test_what_cannot_be_read_names_its_line(data, line):
    with pytest.raises(YamlError) as caught:
        read(data)
    assert caught.value.line == line
    assert caught.value.what


def test_a_tab_as_indentation_says_so():
    with pytest.raises(YamlError) as caught:
        read(b"a:\n\tb: 2\n")
    assert "spaces" in caught.value.hint


@pytest.mark.parametrize(
    "data",
    [
        b"agents:\n  - id: me\n    transcripts:\n      - path: x\n       format: auto\n",
        b"a:\n  b: 1\n c: 2\n",
        b"  a: 1\nb: 2\n",
        b"- a\nb: 1\n",
        b"a: 1\n  b: 2\n",
    ],
)
def test_a_line_indented_as_no_other_says_so(data):
    with pytest.raises(YamlError) as caught:
        read(data)
    assert "indent" in caught.value.hint


def test_aliases_of_aliases_cost_no_memory():
    text = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40))
    root = read(text.encode()).root
    first, second = root.value["a39"].value[:2]
    assert first.value is second.value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    line = 1
    try:
        read(data)
    except YamlError as error:
        line = error.line
    assert line >= 1


@given(st.text(alphabet="ab:- \n\t[]{}&*!|>'\"#%@`,?<=~.0123456789eE_", max_size=60))
def test_any_text_is_read_or_refused(text):
    line = 1
    try:
        read(text.encode())
    except YamlError as error:
        line = error.line
    assert 1 <= line <= text.count("\n") + 2
