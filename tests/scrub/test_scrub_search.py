"""A search for texts that are dear to scan: every rule's own trigger, alone and in pairs, over and over.

What is counted are calls, of functions and of the libraries' alike, so that a busy machine changes nothing: twice the
text may cost little more than twice the calls, and each byte only so many.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from itertools import chain, islice, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.scrub import formats, named, near, told
from memoryd.scrub import scan as scanning
from memoryd.scrub.finding import KeywordPlace
from memoryd.scrub.policy import Policy
from memoryd.scrub.scan import scan

BEHIND = ("", " ", "=", ": ", "\n", '"', "=x ", " a:b", " is ", ",", "|x\n", "('a','b1c2d3')")
SIZE = 6_000
CALLS_PER_BYTE = 30
PAIRS = 600
PIECES = ("password", "pwd", "token", "senha", "key", " is ", ": ", "=", " ", "\n", '"', "Xk9#mQ2v", "my ", "hunter2 ",
          "as the ", "use ", "_", "word_null", "api ", "pin=", "x" * 300, "a1B2c3D4" * 200, "{default = ", "senha: ",
          "pwd ")  # fmt: skip


def triggers() -> list[str]:
    words = {max((keyword for keyword, *_ in inner), key=len) for inner in scanning._rules()[1]}
    return sorted({word.decode() for word in words} | {prefix.decode() for prefix in formats._TABLE})


# A few keywords end in these words, which begin longer keywords. Such a pair in one name is no known secret's.
ENDS = {"root", "user", "code", "secret", "seed", "bind", "kode", "key", "passwd", "ena", "api", "crypt", "log", "nic",
        "pass", "ken", "kinit"}  # fmt: skip


def test_no_other_keyword_ends_in_a_word_that_begins_a_longer_one() -> None:
    words = [max((keyword for keyword, *_ in inner), key=len).decode() for inner in scanning._rules()[1]]
    ends = {word[at:] for word in words for at in range(1, len(word) - 2)}
    found = {end for end in ends if end.isalpha() and any(word.startswith(end) and word != end for word in words)}
    assert found == ENDS


def calls(text: str) -> int:
    counted = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event in {"call", "c_call"}

    gc.disable()  # other tests have left garbage and callbacks, and the count is to be the same whenever this runs
    sys.setprofile(count)
    try:
        scan([text], Policy(), lambda _buffer: ())
    finally:
        sys.setprofile(None)
        gc.enable()
    return counted


def too_dear(shape: str) -> str | None:
    size = len(shape.encode())
    calls(shape)  # what is compiled when it is first needed is no part of a scan
    once, twice = (calls(shape * (length // size)) for length in (SIZE, 2 * SIZE))
    if twice > 2.3 * once + 3_000:
        return f"{shape!r} grows: {once} calls, then {twice}"
    if once > CALLS_PER_BYTE * SIZE:
        return f"{shape!r} takes {once / SIZE:.0f} calls for a byte"
    return None


@pytest.mark.parametrize("shape", ["pwd ", "senha: ", "my password is "])
def test_what_repeats_itself_costs_little(shape: str) -> None:
    calls(shape)  # what is compiled when it is first needed is no part of a scan
    size = 12 * SIZE  # of which the end, where each surrounding is another, is a small part
    assert calls(shape * (size // len(shape))) < 5 * size


@given(st.lists(st.sampled_from(PIECES), max_size=60).flatmap(lambda some: st.sampled_from([some, some * 3, some * 9])))
def test_what_is_remembered_is_what_the_rule_says(pieces: list[str]) -> None:
    text = "".join(pieces).encode()
    remembered = scanning.make_cached_find()
    for word in ("password", "pwd", "token", "senha", "key", "pin="):
        keyword = word.encode()
        for found in re.finditer(keyword, text):
            place = KeywordPlace(text, *found.span(), 0, len(text))
            spoken = told.find_password(place, keyword) if keyword in told.LONG else ()
            beside = near.find_near(place, keyword) if keyword in near.WORDS else ()
            assert [*remembered(place, keyword)] == [*named.find(place, keyword), *spoken, *beside]


@pytest.mark.parametrize(
    "shape",
    [
        "pwd",
        "密码",
        "key-",
        " -u a:b",
        "password,password\n",
        "pwd|x\n",
        "insert into a(password",
        "loginX5!ab ",
        "pskX5!ab ",
        "http -a  a:b",
    ],
)
def test_a_text_that_was_dear_is_so_no_more(shape: str) -> None:
    assert too_dear(shape) is None


@pytest.mark.soak
def test_no_trigger_and_no_pair_of_triggers_is_too_dear() -> None:
    words, random = triggers(), Random(1)
    pairs = ("".join((*random.sample(words, 2), random.choice(BEHIND))) for _ in range(PAIRS))
    shapes = chain((word + behind for word in words for behind in BEHIND), pairs)
    assert [found for shape in shapes if (found := too_dear(shape))] == []


# Of what may follow each name; no divisor of their number, so that all of them come up.
STRIDE = 1 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 5
GO_ON = ["", "word", "_is", "null", "s", "_on", "12", "_value", "-", "2", "é", "reads", "to", "Id"]
GAPS = [" ", "=", ": ", '": "', " is ", " 是 ", " .... "]
CASES = [bytes.lower, bytes.capitalize, bytes.upper, lambda name: name[:1].upper() + name[1:2] + name[2:].capitalize()]


@pytest.mark.parametrize("before", ["", "api_", "x is my ", "a1B2c3D4e5 is my "])
def test_what_is_left_out_behind_a_name_that_is_no_secrets_holds_nothing(before, monkeypatch):
    names = sorted({(keyword, case(keyword)) for keyword in named.KEYWORDS for case in CASES})
    first = len(before) + 1
    found = {}
    for _ in range(2):
        for (keyword, name), more, gap in islice(product(names, GO_ON, GAPS), 0, None, STRIDE):
            text = f"\n{before}".encode() + name + f"{more}{gap}Kx9mQ2vL7pRt4Zw8\n".encode()
            spans = list(named.find(KeywordPlace(text, first, first + len(name), 1, len(text)), keyword))
            assert found.setdefault(text, spans) == spans
        monkeypatch.setattr(named, "_WHOLE_REST", re.compile(rb"(?!)"))
