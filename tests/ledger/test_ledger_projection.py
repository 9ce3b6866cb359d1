"""The core file after changes of the ledger: bullets are as the memories say, and all other text is unchanged."""

from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.ledger.memory import Ending, Memory, MemoryKind, hash_of
from memoryd.ledger.operation import Change
from memoryd.ledger.projection import STEP, assign_places, edits_of
from memoryd.tiers import core


class Slot(NamedTuple):
    """One bullet of the new file."""

    position: int | None = None  # in the old file; None: a new one
    text: str | None = None  # None: its own
    takes: tuple[int, ...] = ()  # what was merged into it


def arrange(file, sections):
    """The file with exactly these bullets under these headings, which are given in the order of the file."""
    made = {"agent_id": "a", "kind": MemoryKind.CORE, "created_at": "x", "updated_at": "x", "salt": ""}
    old = [
        Memory(f"c{one.position}", content=one.text, content_hash=hash_of(one.text), heading=one.heading,
               position=STEP * (one.position + 1), **made)
        for one in file.bullets
    ]  # fmt: skip
    slots = [(heading, slot) for heading, named in sections for slot in named]
    numbers = assign_places([None if one.position is None else old[one.position].position for _, one in slots])
    after, into = {}, {}
    for place, ((heading, slot), number) in enumerate(zip(slots, numbers, strict=True)):
        text = slot.text or ("" if slot.position is None else old[slot.position].content)
        new = Memory(f"new{place}", content_hash="", content=text, **made)
        base = new if slot.position is None else old[slot.position]
        after[base.id] = replace(base, content=text, heading=heading, position=number)
        into |= {f"c{one}": base.id for one in slot.takes}
    for one in old:
        end = Ending.MERGED if one.id in into else Ending.ARCHIVED
        gone = replace(one, deleted_at="y", ended_as=end, successors=tuple(filter(None, [into.get(one.id)])))
        after.setdefault(one.id, gone)
    known = {one.id: one for one in old}
    changes = [Change("x", one, known.get(one), memory) for one, memory in after.items() if memory != known.get(one)]
    new = core.edit(file, edits_of(old, changes))
    return core.drop_emptied(file, new, frozenset(one.heading for one in old))


FILE = """# Notes

what this is

- a
- b

  ```sh
  make
  ```

## Rules

a rule of thumb

- c
- d

## Empty

## Old

- e
"""


def bullets(data):
    return [(one.heading, one.text) for one in core.parse(data).bullets]


def arranged(text, *sections):
    return arrange(core.parse(text.encode()), sections).decode()


AS_IT_IS = (("", [Slot(0), Slot(1)]), ("Rules", [Slot(2), Slot(3)]), ("Old", [Slot(4)]))


@pytest.mark.parametrize("text", [FILE, FILE.replace("\n", "\r\n"), FILE.rstrip("\n"), f"---\nx: 1\n---\n{FILE}"])
def test_what_is_as_it_was_stays_byte_for_byte(text):
    assert arranged(text, *AS_IT_IS) == text


def test_bullets_go_where_they_are_told_and_take_along_what_hangs_below_them():
    new = arranged(
        FILE, ("", [Slot(1, "B"), Slot(None, "new")]), ("Rules", [Slot(4), Slot(3), Slot(2)]), ("Old", [Slot(0)])
    )
    assert new == FILE.replace("- a\n- b\n", "- B\n").replace("  ```\n\n", "  ```\n- new\n\n").replace(
        "- c\n- d\n", "- e\n- d\n- c\n"
    ).replace("## Old\n\n- e\n", "## Old\n\n- a\n")


def test_what_hung_below_a_bullet_that_is_gone_stays_in_its_place_or_with_what_took_it_in():
    gone = arranged(FILE, ("", [Slot(0)]), *AS_IT_IS[1:])
    assert "- a\n\n  ```sh\n  make\n  ```\n\n## Rules" in gone
    taken = arranged(FILE, ("", []), ("Rules", [Slot(2), Slot(None, "a and b", takes=(0, 1)), Slot(3)]), *AS_IT_IS[2:])
    assert "what this is\n\n## Rules" in taken
    assert "- a and b\n\n  ```sh\n  make\n  ```\n- d\n" in taken


def test_a_heading_goes_with_its_last_bullet_but_not_one_that_says_more_or_never_had_any_and_no_title():
    new = arranged(FILE, ("New", [Slot(0), Slot(4)]))
    assert bullets(new.encode()) == [("New", "a"), ("New", "e")]
    assert "## Old" not in new
    assert all(
        kept in new
        for kept in ("# Notes\n", "what this is\n", "  make\n", "## Rules\n\na rule of thumb\n", "## Empty\n")
    )


def test_a_new_heading_comes_before_the_one_that_follows_it():
    new = arranged(
        FILE, ("Rules", [Slot(2)]), ("First", [Slot(None, "x")]), ("Old", [Slot(4)]), ("Last", [Slot(None, "z")])
    )
    headings = [line for line in new.splitlines() if line.startswith("## ")]
    assert headings == ["## Rules", "## Empty", "## First", "## Old", "## Last"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", "# Memory\n\n- x\n\n## H\n\n- y\n"),
        ("\ufeff", "\ufeff# Memory\n\n- x\n\n## H\n\n- y\n"),
        ("# Title\n", "# Title\n\n- x\n\n## H\n\n- y\n"),
        ("prose\n", "prose\n\n- x\n\n## H\n\n- y\n"),
    ],
)
def test_a_file_without_bullets_gets_exactly_the_text(text, want):
    assert arranged(text, ("", [Slot(None, "x")]), ("H", [Slot(None, "y")])) == want


def test_a_text_that_would_be_something_else_is_escaped_and_a_blank_one_refused():
    assert arranged("", ("", [Slot(None, "# no heading")])) == "# Memory\n\n- \\# no heading\n"
    with pytest.raises(ValueError, match="text"):
        arranged("", ("", [Slot(None, " ")]))


def test_a_fence_that_nothing_closes_swallows_no_bullet():
    text = "- a\n- b\n\n```\nopen\n"
    new = arranged(text, ("", [Slot(1), Slot(0), Slot(None, "c")]))
    assert sorted(one for _, one in bullets(new.encode())) == ["a", "b", "c"]
    assert "open\n" in new


LINES = st.sampled_from([
    "- a", "- b", "- c", "* d", "## H", "## I", "# T", "### J", "prose", "", "  deeper", "  - sub", "```", "~~~",
    "<!--", "-->", "---", "    code", "- ", "1. one", "\\# x", "> quote", "===",
])  # fmt: skip


@given(st.lists(LINES, max_size=16), st.randoms(use_true_random=False), st.booleans())
def test_no_line_that_is_no_bullet_is_lost_and_the_bullets_are_those_told(lines, random, crlf):
    newline = "\r\n" if crlf else "\n"
    file = core.parse(newline.join(lines).encode())
    held = list(range(len(file.bullets)))
    random.shuffle(held)
    kept = held[: random.randint(0, len(held))]
    slots = [Slot(one, random.choice([None, f"other {one}"])) for one in kept] + [Slot(None, "new one")]
    sections = [("", slots[:2]), ("H", slots[2:4]), ("Z", slots[4:])]
    data = arrange(file, [(name, given) for name, given in sections if given])
    texts = sorted(one.text or file.bullets[one.position].text for one in slots)
    assert sorted(one.text for one in core.parse(data).bullets) == texts
    new = data.decode().split("\n")
    for piece in file.pieces:
        below = piece.raw[piece.own :] if piece.kind is core.PieceKind.BULLET else piece.raw
        if piece.kind is core.PieceKind.HEADING and piece.level > 1:
            below = below.partition(b"\n")[2]  # the heading itself may have lost all of its bullets
        for line in below.decode().split("\n"):
            assert not line.strip() or any(line.rstrip("\r") == one.rstrip("\r") for one in new), line
