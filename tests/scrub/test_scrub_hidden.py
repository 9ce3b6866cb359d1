"""What is hidden in a whole file: over lines and bullets, and everything else where it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.scrub.hidden import find_hidden, mask_hidden
from memoryd.scrub.likely import may_hide
from memoryd.tiers import core

BLOCK = "<private>\n\nAt home.\n\n- Zelda lives in room 441.\n\n## Rooms\n\n- 442 is empty.\n</private>\n"
BASE64 = "MIICXAIBAAKBgQC8kGa1pSjbSYZVebtTRBLxBz5H4i2p/llLCrEeQhta5kaQu1Rz"
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123456789ABCDEF\n\n"
    f"{BASE64}\n\n{BASE64[::-1]}\n-----END RSA PRIVATE KEY-----\n"
)
MARK = "[REDACTED:private]"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"- a\n{BLOCK}- b\n", ["- a", "- b"]),
        (f"- a\n\n{PEM}\n- b\n", ["- a", "[REDACTED:private-key]", "- b"]),
        ("- a\n- <private>x</private> and b\n", ["- a", f"- {MARK}   and b"]),
        ("- a\n- <private>\n- x\n- y\n", ["- a", "-"]),
        ("- ü\n- <pri\u200bvate>\n- x</private>\n- `<private>` is a tag\n", ["- ü", "-", "- `<private>` is a tag"]),
    ],
)
def test_every_line_stays_where_it_was_and_what_is_hidden_goes(text: str, left: list[str]) -> None:
    data = text.encode()
    shown = mask_hidden(data)
    assert [line.strip() for line in shown.decode().splitlines() if line.strip()] == left
    assert len(shown) == len(data)
    assert [at for at, byte in enumerate(shown) if byte == 10] == [at for at, byte in enumerate(data) if byte == 10]
    assert mask_hidden(shown) == shown


def test_what_is_hidden_in_the_core_is_no_memory() -> None:
    data = f"# Ours\n\n- a\n{BLOCK}- b <private>c</private>\n- d\n  more\n{PEM}- e\n- `<private>` is f\n".encode()
    file = core.parse(data)
    assert [one.text for one in file.bullets] == ["a", "d more", "e", "`<private>` is f"]
    assert {one.heading for one in file.bullets} == {""}
    assert core.render(file) == data


def test_what_is_new_is_never_hidden() -> None:
    data = b"- a\n- b\n<private>\n- c\n<private>\n"
    file = core.parse(core.add(core.parse(data), [("", "d"), ("Plans", "e")]))
    assert [one.text for one in file.bullets][:3] == ["a", "b", "d"]
    moved = core.parse(core.edit(core.parse(data), [core.Move(1, before=0)]))
    assert [one.text for one in moved.bullets] == ["b", "a"]


_LINES = st.sampled_from([
    "- a one", "- b two", "- c <private>x</private>", "<private>", "</private>", "- d", "", "## H", "text", "  - e",
    "```", "<!--", "-->", *PEM.splitlines(),
])  # fmt: skip


def _hidden_texts(data: bytes) -> list[bytes]:
    return [data[first:last].strip() for first, last, _ in find_hidden(data)]


_PIECES = st.sampled_from([
    "pri", "vate", "private", "<", "</", ">", "-----BEGIN ", "-----", "KEY", " ",
    "\n", "\r", "\0", "\x1b[1m", "\u200b", "\b",
])  # fmt: skip


@given(st.lists(_PIECES | _LINES, max_size=16))
def test_what_may_hide_nothing_hides_nothing(pieces: list[str]) -> None:
    data = "".join(pieces).encode()
    assert may_hide(data) or not find_hidden(data)


@given(st.lists(_LINES, max_size=14), st.data())
def test_no_change_of_the_core_touches_a_byte_of_what_is_hidden(lines: list[str], draw: st.DataObject) -> None:
    data = "\n".join(lines).encode()
    file = core.parse(data)
    count = len(file.bullets)
    assert core.render(file) == data
    assert not any("<private>x" in one.text for one in file.bullets)
    order = draw.draw(st.permutations(range(count)))
    kept = order[: draw.draw(st.integers(0, count))]
    moves = [core.Move(one, text=f"word {one}" if draw.draw(st.booleans()) else None) for one in kept]
    gone = [core.Remove(one) for one in order if one not in kept]
    new = core.edit(file, [*gone, *moves, core.Insert("brand new")])
    for before in _hidden_texts(data):
        assert before.rstrip() in new
    assert "brand new" in [one.text for one in core.parse(new).bullets]
