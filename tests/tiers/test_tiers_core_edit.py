"""Edits of single bullets: exactly the bullets asked for change, and no byte that is not theirs."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_tiers_core import FILES, LINES, TEXTS

from memoryd.tiers.core import Insert, Move, Remove, Replace, edit, normalize, parse, render, unescape


@st.composite
def edited(draw):
    """(file, edits, the texts its bullets should have then): inserts go ahead of bullets."""
    data = draw(FILES.filter(lambda data: parse(data).bullets))
    texts = [bullet.text for bullet in parse(data).bullets]
    ahead = [[] for _ in texts]
    places = st.integers(0, len(texts) - 1)
    edits = []
    for position in draw(st.lists(places, unique=True, max_size=3)):
        kind = draw(st.sampled_from([Replace, Remove, Move]))
        if kind is Replace:
            edits.append(Replace(position, draw(TEXTS), draw(st.booleans())))
            texts[position] = edits[-1].text
        elif kind is Remove:
            edits.append(Remove(position))
            texts[position] = None
        else:
            edits.append(Move(position, before=draw(places)))
            ahead[edits[-1].before].append(texts[position])
            texts[position] = None
    for text in draw(st.lists(TEXTS, max_size=2)):
        edits.append(Insert(text, before=draw(places)))
        ahead[edits[-1].before].append(text)
    wanted = [text for leads, own in zip(ahead, texts, strict=True) for text in (*leads, own) if text is not None]
    return data, edits, wanted


def normals(texts):
    return [normalize(text) for text in texts]


@given(edited())
def test_the_bullets_are_those_asked_for(drawn):
    data, edits, wanted = drawn
    new = edit(parse(data), edits)
    assert normals(bullet.text for bullet in parse(new).bullets) == normals(wanted)
    assert render(parse(new)) == new


@given(edited())
def test_every_byte_that_is_no_bullets_own_text_stays(drawn):
    data, edits, _ = drawn
    edits = [one for one in edits if not isinstance(one, Move)]
    touched = {one.position for one in edits if not isinstance(one, Insert)}
    new = edit(parse(data), edits)
    place, position = 0, -1
    for piece in parse(data).pieces:
        position += piece.own > 0
        kept = piece.raw[piece.own :] if piece.own and position in touched else piece.raw
        found = new.find(kept, place)
        assert found >= place
        place = found + len(kept)
    if not any(isinstance(one, Insert) for one in edits) and not any(isinstance(one, Remove) for one in edits):
        assert len(new) - len(data) == sum(
            len(after.raw) - len(before.raw)
            for before, after in zip(parse(data).pieces, parse(new).pieces, strict=True)
            if before.own
        )


@given(FILES, LINES | st.text(max_size=6), TEXTS)
@example(b"  ```\n- one\n", "", "0")
@example(b"\n  ```\n- \\# x\n", "", "# Memory")
def test_a_bullet_goes_to_the_end_of_its_section(data, heading, text):
    before = normals(bullet.text for bullet in parse(data).bullets)
    after = normals(bullet.text for bullet in parse(edit(parse(data), [Insert(text, heading)])).bullets)
    assert len(after) == len(before) + 1
    after.remove(normalize(text))
    assert sorted(after) == sorted(before)


def test_a_bullet_that_goes_and_comes_leaves_no_blank_line():
    data = b"# M\n\n## P\n\n- a\n\n## D\n\n- c\n"
    without = edit(parse(data), [Remove(0)])
    assert edit(parse(without), [Insert("a", "P")]) == data
    assert edit(parse(data), [Remove(0), Insert("a", "P")]) == data
    last = edit(parse(edit(parse(data), [Remove(1)])), [Insert("c", "D")])
    assert edit(parse(edit(parse(last), [Remove(1)])), [Insert("c", "D")]) == last


@given(FILES)
def test_no_edit_changes_nothing(data):
    assert edit(parse(data), []) == data


@given(FILES, st.data())
def test_what_is_removed_and_put_back_is_there_again(data, drawn):
    found = parse(data).bullets
    if not found:
        return
    one = drawn.draw(st.sampled_from(found))
    gone = edit(parse(data), [Remove(one.position)])
    back = edit(parse(gone), [Insert(unescape(one.text), one.heading)])
    assert sorted(normals(b.text for b in parse(back).bullets)) == sorted(normals(b.text for b in found))


@pytest.mark.parametrize(
    ("data", "edits", "expected"),
    [
        (b"- a\n- b\n", [Replace(1, "c")], b"- a\n- c\n"),
        (b"* a\r\n  goes on\r\n  - deeper\r\n", [Replace(0, "c")], b"* c\r\n  - deeper\r\n"),
        (b"- a\nmine\n  - deeper\n", [Replace(0, "a", keeps=True)], b"- a\n\nmine\n  - deeper\n"),
        (b"* a\r\n  b c\r\nmine", [Replace(0, "a B c d", keeps=True)], b"* a B c d\r\n\r\nmine"),
        (b"- a\n  b", [Replace(0, "x b", keeps=True)], b"- x b"),
        (b"- a\n  b", [Replace(0, "xb", keeps=True)], b"- xb\n\n  b"),
        (b"\xef\xbb\xbf-  a", [Replace(0, "# c\n- d")], b"\xef\xbb\xbf-  \\# c - d"),
        (b"- a\n  ```\n  x\n  ```\n\nWords.\n- b", [Remove(0)], b"  ```\n  x\n  ```\n\nWords.\n- b"),
        (b"# T\n\n- a\n  - deeper\n- b\n", [Remove(0), Remove(1)], b"# T\n\n  - deeper\n"),
        (b"- a\n---\n- b\n---\n", [Remove(0)], b"\n---\n- b\n---\n"),
        (b"- a\n  ```\n  x\n- b\n", [Remove(0)], b"  ```\n  x\n  ```\n- b\n"),
        (b"- a\n- b\n", [Insert("c", before=1)], b"- a\n- c\n- b\n"),
        (b"- a\r\n- b", [Insert("c", before=1), Insert("d", "H")], b"- a\r\n- c\r\n- b\r\n\r\n## H\r\n\r\n- d\r\n"),
        (b"- a\n  - deeper\n\n- b\n", [Move(0)], b"- b\n- a\n  - deeper\n"),
        (b"- a\n- b\n- c", [Move(2, before=0)], b"- c\n- a\n- b\n"),
        (b"- a\n\n## H\n- b\n", [Move(1, ""), Replace(0, "x")], b"- x\n- b\n\n## H\n"),
        (b"- \\# a\n", [Replace(0, "- b")], b"- \\- b\n"),
    ],
)
def test_where_edits_go(data, edits, expected):
    assert edit(parse(data), edits) == expected


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ([Replace(1, "x")], "no bullet 1"),
        ([Remove(-1)], "no bullet -1"),
        ([Insert("x", before=2)], "no bullet 2"),
        ([Remove(0), Replace(0, "x")], "same bullet"),
        ([Replace(0, " ")], "needs a text"),
        ([Insert("", "H")], "needs a text"),
    ],
)
def test_what_cannot_be_edited_is_refused(edits, why):
    with pytest.raises(ValueError, match=why):
        edit(parse(b"- a\n"), edits)


def test_a_rule_that_becomes_the_first_line_opens_no_front_matter_that_a_moved_rule_ends():
    file = parse(b"- a\n---\n\n## G\n\n- b\n\n---\n\n## H\n\n- c\n")
    edited = parse(edit(file, [Remove(0), Move(1, "H")]))
    assert [(one.heading, one.text) for one in edited.bullets] == [("H", "c"), ("H", "b")]


def test_added_and_moved_lines_have_the_line_ends_of_the_file():
    file = parse(b"# Title\r\n\r\n- a\r\n  hangs\r\n- b\r\n\r\n```\r\ncode\r\n```")
    edited = edit(file, [Insert("new", takes=(0,)), Remove(0), Move(1, "H")])
    assert edited.count(b"\n") == edited.count(b"\r\n")
