"""Aider's chat history, one small sample per oddity, written for these tests."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.text.fences import without_fences
from memoryd.transcripts import registry
from memoryd.transcripts.aider import Aider
from memoryd.transcripts.lines import Pass
from memoryd.transcripts.turn import Origin, Role, Turn, TurnKind

READER = Aider()
PATH = PurePosixPath("/home/ann/shop/.aider.chat.history.md")
HEAD = b"\n# aider chat started at 2026-05-01 10:00:00\n\n"


def read(data: bytes) -> list[tuple[str, Turn]]:
    """The turns of a whole file, each with the beginning of its chat."""
    identity = READER.identify((), PATH)
    assert identity is not None
    meetings = Pass("")
    found = [READER.turns(one, identity, meetings) for one in READER.cut(data, 0, last=True).records]
    return [((one.session or identity).started_at or "", turn) for one in found for turn in one.turns]


def kinds(data: bytes) -> list[tuple[Role, str]]:
    return [(turn.role, turn.text) for _, turn in read(data) if turn.text]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"#### one  \n#### two  \n", [(Role.USER, "one\ntwo")]),
        (b"> it prints\n#### no request  \n\n\n#### one  \n",
         [(Role.ASSISTANT, "> it prints\n#### no request  "), (Role.USER, "one")]),
        (b"> it prints  \n#### no request  \n", [(Role.TOOL, "it prints\nno request")]),
        (b"#### /run x  \n> begin\n    \n\n> a b\n#### no request\nend  \nmore\n> Run it?\n[Y/n] why  \n\nText.\n",
         [(Role.SYSTEM, "/run x"),
          (Role.TOOL, "begin\n\n\na b\nno request\nend\nmore\nRun it?\n[Y/n] why"), (Role.ASSISTANT, "Text.")]),
        (b"#### one  \n> never ended\n" + HEAD + b"> Aider v0\n", [(Role.USER, "one"),
         (Role.ASSISTANT, "> never ended"), (Role.ASSISTANT, "> Aider v0")]),
        (b"Text.\n\n> Tokens: 1 sent, 2 received.\n> Commit 1 feat: x\n\nbody  \n\n> quoted\n\nText.\n",
         [(Role.ASSISTANT, "Text."), (Role.TOOL, "Tokens: 1 sent, 2 received.\nCommit 1 feat: x\n\nbody"),
          (Role.ASSISTANT, "> quoted\n\nText.")]),
        (b"Text.\n\n> one  \n> two\n\nText.\n",
         [(Role.ASSISTANT, "Text."), (Role.TOOL, "one"), (Role.ASSISTANT, "> two\n\nText.")]),
        (b"#### one  \n\n#### two  \n", [(Role.USER, "one"), (Role.USER, "two")]),
        (b"#### one  \n####   \n#### two  \n", [(Role.USER, "one\n\ntwo")]),
        (b"text\n\n#### A heading  \n\nmore\n", [(Role.ASSISTANT, "text\n\n#### A heading  \n\nmore")]),
        (b"#### A heading\n\ntext\n", [(Role.ASSISTANT, "#### A heading\n\ntext")]),
        (b"# A title\n> a quotation\n", [(Role.ASSISTANT, "# A title\n> a quotation")]),
        (b"> Applied edit to a.py  \n", [(Role.TOOL, "Applied edit to a.py")]),
        (b"> Tokens: 9.2k sent, 40 received.\nCost: $0.01 message, $0.02 session. Use x.  \n",
         [(Role.TOOL, "Tokens: 9.2k sent, 40 received.\nCost: $0.01 message, $0.02 session. Use x.")]),
        (b"#### # Fix any errors below, if possible.  \n", [(Role.SYSTEM, "# Fix any errors below, if possible.")]),
        (b"text \xff\x00\r\n", [(Role.ASSISTANT, "text \ufffd\ufffd")]),
        (b"# aider chat started at noon\n", [(Role.ASSISTANT, "# aider chat started at noon")]),
    ],
)  # fmt: skip
def test_who_wrote_a_line(data: bytes, expected: list[tuple[Role, str]]) -> None:
    assert kinds(HEAD + data) == expected


@pytest.mark.parametrize(
    ("line", "context"),
    [
        ("Tokens: 12,566 sent, 84 received. Cost: $0.04 message, $0.05 session.", 12_650),
        ("Tokens: 9.2k sent, 3.1k cache write, 84 received.", 9284),
        ("Tokens: 999 sent, 1k received.", 1999),
        ("Tokens: .. sent, 84 received.", None),
        ("Tokens: many sent", None),
    ],
)
def test_the_context_is_what_was_sent_and_received(line: str, context: int | None) -> None:
    (_, turn), *after = read(HEAD + f"> {line}  \n".encode())
    assert turn.usage is None
    assert [one.usage for _, one in after] == ([context] if context else [])


@pytest.mark.parametrize(
    ("line", "choice"),
    [
        ("Add a.py to the chat? (Y)es/(N)o/(D)on't ask again [Yes]: y", 'asked "Add a.py to the chat?", chose "y"'),
        ("Run shell command? [Y/n] n", 'asked "Run shell command?", chose "n"'),
        ("Attempt to fix lint errors? y", 'asked "Attempt to fix lint errors?", chose "y"'),
        ("Do you always deploy on Fridays? y", None),
        ("Did you mean one of these?", None),
    ],
)
def test_an_answer_to_a_question_of_aider_is_the_persons(line: str, choice: str | None) -> None:
    found = [turn for _, turn in read(HEAD + f"> {line}  \n".encode()) if turn.origin is Origin.USER]
    assert [(turn.kind, turn.text) for turn in found] == ([(TurnKind.CHOICE, choice)] if choice else [])


def test_a_command_that_clears_the_chat_leaves_a_mark() -> None:
    found = [turn.kind for _, turn in read(HEAD + b"#### /clear  \n\n#### /clear it  \n")]
    assert found == [TurnKind.MESSAGE, TurnKind.COMPACTION, TurnKind.MESSAGE]


@pytest.mark.parametrize(
    ("typed", "role", "text"),
    [
        ("/ask why is it slow?", Role.USER, "why is it slow?"),
        ("/code use a set here", Role.USER, "use a set here"),
        ("/add src/main.py", Role.SYSTEM, "/add src/main.py"),
        ("/ok but keep the tests", Role.USER, "but keep the tests"),
        ("/ask /health returns 500", Role.USER, "/health returns 500"),
        ("/drop", Role.SYSTEM, "/drop"),
        ("/ask", Role.SYSTEM, "/ask"),
        ("!ls -l", Role.SYSTEM, "!ls -l"),
        ("/srv/app/main.py is slow", Role.USER, "/srv/app/main.py is slow"),
    ],
)
def test_a_command_is_not_what_the_person_says_but_its_message_is(typed: str, role: Role, text: str) -> None:
    found = [(turn.role, turn.text) for _, turn in read(HEAD + b"#### " + typed.encode() + b"  \n")]
    assert found == [(role, text)]


def test_the_tags_of_aider_around_code_are_fences() -> None:
    model = b"Done. See `<source>`.\n\nsrc/a.py\n<source>python\nx = '```'\n</source>\n\nIt is faster now.\n"
    (found,) = [turn.text for _, turn in read(HEAD + model)]
    assert without_fences(found).split() == ["Done.", "See", "`<source>`.", "src/a.py", "It", "is", "faster", "now."]


def test_a_tag_without_its_partner_is_the_models_own_text() -> None:
    model = b"Use it:\n\n```html\n<source>\n```\n\nWe use HTML5 from now on.\n"
    assert [turn.text for _, turn in read(HEAD + model)] == [model.decode().strip()]


def test_each_chat_is_a_session_and_repetitions_are_told_apart() -> None:
    twice = b"#### yes  \n\nok\n\n\n#### yes  \n"
    found = read(b"before\n" + HEAD + twice + HEAD + twice + HEAD.replace(b"10:00", b"11:00") + twice)
    ten, eleven = (datetime(2026, 5, 1, hour).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z") for hour in (10, 11))
    assert [at for at, _ in found] == [""] + [ten] * 6 + [eleven] * 3
    assert len({turn.record_id for _, turn in found}) == len(found)


def test_the_last_part_waits_until_it_is_complete() -> None:
    data = HEAD + b"#### go  \n\nSome text.\n"
    assert READER.cut(data, 7, last=False).consumed == data.index(b"Some")
    assert READER.cut(data, 7, last=True).consumed == len(data)
    assert [one.first_byte - 7 for one in READER.cut(data, 7, last=True).records] == [
        data.index(b"# aider"), data.index(b"####"), data.index(b"Some"),
    ]  # fmt: skip


def test_a_history_is_told_by_its_name_or_its_first_chat() -> None:
    assert registry.detect([], PATH, b"") is registry.FORMATS["aider"]
    assert registry.detect([], PurePosixPath("old.md"), b"x" + HEAD) is registry.FORMATS["aider"]
    assert registry.detect([], PurePosixPath("README.md"), b"# aider chat") is None


LINES = st.sampled_from(
    [
        b"#### typed  ",
        b"> printed  ",
        b"> begun",
        b"ended  ",
        b"> Tokens: 1 sent",
        b"model",
        b"",
        b"# aider chat started at 2026-05-01 10:00:00",
    ]
)


@given(
    st.lists(LINES | st.binary(max_size=12).map(lambda one: one.replace(b"\n", b"")), max_size=12), st.integers(0, 200)
)
def test_any_bytes_are_cut_into_the_same_records_in_two_steps(lines: list[bytes], at: int) -> None:
    data = b"".join(line + b"\n" for line in lines)
    whole = READER.cut(data, 0, last=True)
    assert whole.consumed == len(data)
    read(data)
    begin = data[: data.rfind(b"\n", 0, at) + 1]
    first = READER.cut(begin, 0, last=False)
    rest = READER.cut(data[first.consumed :], first.consumed, last=True)
    assert [*first.records, *rest.records] == [*whole.records]
    for one in whole.records:
        assert data[one.first_byte : one.last_byte] == one.data
