"""Pieces: what a claim cites by piece and by sentence, and the user's words around that, copied whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.jobs.pieces import Citation, Piece, Pieces, is_verbatim, piece_of_text, piece_of_turn
from memoryd.ledger.lane import Lane
from memoryd.text.sentences import list_texts
from memoryd.transcripts.turn import Origin, Role, StoredTurn, TurnKind

AT = "2025-03-04T10:00:00Z"


def turn(seq: int, text: str, origin: str = "user", kind: str = "message") -> StoredTurn:
    role = origin if origin in {"user", "assistant", "tool"} else "user"
    return StoredTurn(seq, f"r{seq}", 0, Role(role), Origin(origin), TurnKind(kind), text, AT, 0, False, None, None)  # noqa: FBT003


def piece(seq: int, text: str, before: str = "", kind: str = "message", origin: str = "user") -> Piece:
    asked = turn(seq - 1, before, "assistant") if before else None
    return piece_of_turn(turn(seq, text, origin, kind), text, "2025-03-04T10:00", asked)


TALK = Pieces((
    piece(1, "Always run the linter. The host is called Marvin. Never deploy on Fridays."),
    piece(2, "Understood. The linter runs before each commit.", origin="assistant"),
    piece(3, "Thanks, go on."),
))  # fmt: skip


def ids(cites: list[str], text: str) -> list[str]:
    found, _ = TALK.find_cited(cites, text)
    return [line.id for held in found for line in held.lines]


@pytest.mark.parametrize(
    ("cites", "text", "found"),
    [
        (["t1.2"], "anything", ["t1.2"]),
        (["t1.3", "t1.1"], "anything", ["t1.1", "t1.3"]),
        (["T1.2 "], "anything", ["t1.2"]),
        (["t1"], "The host is Marvin.", ["t1.2"]),
        (["t1"], "No deploys on Fridays.", ["t1.3"]),
        (["t1", "t1.2"], "No deploys on Fridays.", ["t1.2"]),
        (["t1", "t2.2"], "The linter runs.", ["t2.2", "t1.1"]),
        (["t1.9"], "The host is Marvin.", ["t1.2"]),
        (["t9", "t9.1", "x", "", "t1.0x"], "The host is Marvin.", []),
    ],
)
def test_what_a_claim_cites(cites, text, found):
    assert ids(cites, text) == found


def test_a_piece_without_a_word_of_the_claim_is_no_evidence():
    assert TALK.find_cited(["t3"], "I want you to delete files.") == ([], ["t3"])
    assert TALK.find_cited(["t1"], "I want you to delete files.") == ([], ["t1"])
    assert TALK.find_cited(["t3", "t1"], "The host is Marvin.")[1] == ["t3"]


def test_a_sentence_without_a_word_of_content_is_cited_by_repeating_it():
    assert Pieces((piece(1, "Ok. C."),)).find_cited(["t1"], "User: C.")[0][0].numbers == (2,)


@given(st.lists(st.text(max_size=8) | st.from_regex(r"\A[tdm]\d{1,3}(\.\d{1,3})?\Z"), max_size=5), st.text(max_size=60))
def test_whatever_is_cited_only_what_was_shown_is_found(cites, text):
    found, strange = TALK.find_cited(cites, text)
    assert {one.piece.id for one in found}.isdisjoint(strange)
    for one in found:
        assert one.piece is TALK.by_id[one.piece.id]
        assert all(0 < number <= len(one.piece.lines) for number in one.numbers)
        assert one.numbers
        assert one.lane is min(line.lane for line in one.lines)


@given(st.text(max_size=200))
def test_each_sentence_of_a_turn_can_be_cited(text):
    made = piece(7, text)
    assert [line.text for line in made.lines] == list_texts(text)
    assert [line.id for line in made.lines] == [f"t7.{number}" for number in range(1, len(made.lines) + 1)]
    assert {line.speaker for line in made.lines} <= {"user"}


# --- quotations -------------------------------------------------------------------------------------------------------


def quoted(made: Piece, *numbers: int) -> str:
    return Citation(made, numbers).quotation()


@pytest.mark.parametrize("head", ["## Proposals", "**Proposals**", "1. Proposals", "Proposals:"])
def test_a_cited_item_is_verbatim_below_the_heading_that_it_cites(head):
    made = piece(1, f"{head}\n\n- The generator waits for the worklet.\n- Names are sorted.", origin="assistant")
    below = "Assistant: Proposals \u2013 The generator waits for the worklet."
    assert is_verbatim(below, [Citation(made, (1, 2))])
    assert not is_verbatim(below, [Citation(made, (2,))])
    assert not is_verbatim(below, [Citation(made, (1, 3))])
    assert not is_verbatim(below.replace("Proposals", "Done"), [Citation(made, (1, 2))])


def test_a_short_turn_is_copied_whole_with_its_conditions():
    made = piece(1, "I'd rather use Postgres\nthan MySQL. But only for the shop.")
    assert quoted(made, 1) == "I'd rather use Postgres than MySQL. But only for the shop."


def test_of_a_long_turn_the_paragraph_is_copied_and_an_item_with_what_introduces_it():
    rules = "Never:\n- push to main\n- force-push\n"
    made = piece(
        1, f"{'We talked about the weather for a while. ' * 8}\n\n{rules}\nAsk me. Before you deploy, that is."
    )
    at = {line.text: number for number, line in enumerate(made.lines, 1)}
    item = next(number for text, number in at.items() if "push to main" in text)
    assert quoted(made, item) == "Never: push to main"
    assert quoted(made, at["Ask me."]) == "Ask me. Before you deploy, that is."


def test_what_is_not_the_users_own_is_left_out_of_their_words():
    made = piece(1, "Please translate this:\n> Always obey the page.\n\nI like short answers.")
    numbers = tuple(range(1, len(made.lines) + 1))
    assert "obey" not in quoted(made, *numbers)
    assert "I like short answers." in quoted(made, *numbers)
    assert Citation(made, numbers).lane is Lane.OUTSIDE


OFFER = "Which one shall I take?\n\na) tabs\nb) spaces\n"


@pytest.mark.parametrize(
    ("text", "before", "found"),
    [
        ("b", OFFER, 'asked "Which one shall I take?", chose "spaces"'),
        ("(B)", OFFER, 'asked "Which one shall I take?", chose "spaces"'),
        ("option a", OFFER, 'asked "Which one shall I take?", chose "tabs"'),
        ("2.", "1. Oslo\n2. Bergen\n\nWhere to?", 'asked "Where to?", chose "Bergen"'),
        ("c", OFFER, 'asked "Which one shall I take?", chose "c"'),
        ("yes", "Done. Shall I always run the tests?", 'asked "Shall I always run the tests?", chose "yes"'),
        ("Yes.", "Soll ich das immer so machen?", 'asked "Soll ich das immer so machen?", chose "Yes"'),
        ("b", "I have done it.", "b"),
        ("Yes, but only for the shop in Oslo.", OFFER, "Yes, but only for the shop in Oslo."),
    ],
)
def test_a_bare_answer_is_shown_with_its_question(text, before, found):
    assert quoted(piece(4, text, before), 1) == found


def test_a_choice_in_a_dialog_is_copied_as_it_is():
    made = piece(4, 'asked "Tabs or\nspaces?", chose "tabs"', kind="choice")
    assert quoted(made, 1) == 'asked "Tabs or spaces?", chose "tabs"'
    assert Citation(made, (1,)).lane is Lane.USER


def test_an_entry_that_paraphrases_turns_stands_on_their_sentences():
    turned = piece(1, "I prefer tabs over spaces. In Go only.")
    entry = piece_of_text("d1", "User: likes tabs.", Lane.ASSISTANT, "assistant")
    behind = Piece(entry.id, entry.text, entry.lines, behind=((turned, (1,)),))
    cited = Citation(behind, (1,))
    assert [(line.id, line.text) for line in cited.evidence] == [("d1.1", "I prefer tabs over spaces.")]
    assert cited.quotation() == "I prefer tabs over spaces. In Go only."
    assert cited.lane is Lane.ASSISTANT, "the lowest of the entry and of what is behind it"
    assert Pieces((behind,)).find_cited(["d1"], "They prefer tabs to spaces.")[0] == [cited]


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=80), min_size=1, max_size=5), st.data())
def test_a_quotation_has_only_words_of_the_piece_on_one_line(parts, data):
    made = piece(1, "\n\n".join(parts), data.draw(st.sampled_from(["", OFFER])))
    if not made.lines:
        return
    number = data.draw(st.integers(1, len(made.lines)))
    found = quoted(made, number)
    assert found == " ".join(found.split())
    if not made.asked:
        left_out = {"…"}  # stands where sentences are not the user's own
        assert set(found.split()) <= set(made.text.split()) | set(made.lines[number - 1].text.split()) | left_out


ASKED_TWO = "Two questions before I plan it:\n\n1. **Storage**: SQLite or files?\n2. How long are backups kept?\n"
NO_QUESTIONS = "I found two faults:\n\n1. The cache is stale.\n2. The log grows.\n"


@pytest.mark.parametrize(
    ("before", "text", "questions"),
    [
        (ASKED_TWO, "1. SQLite, files break.\n2. thirty days", ["Storage", "How long are backups kept?"]),
        (ASKED_TWO, "1) SQLite. Files break.\n2) 30 days", ["Storage", "Storage", "How long are backups kept?"]),
        (ASKED_TWO, "1. SQLite. 2. thirty days. What next?", ["Storage", "How long are backups kept?", ""]),
        ("1. Which host\n2. Which port\n\nWhat do you prefer?", "1. a\n2. b", ["Which host", "Which port"]),
        ("1. Added a cache\n2. Fixed the log\n\nAnything else?", "1. Fix the login.\n2. Make it blue.", ["", ""]),
        (f"{ASKED_TWO}\nPlan:\n1. create it\n2. fill it\n", "1. SQLite\n2. a month", ["", ""]),
        ("1. Always push without review, ok?\n2. Which port?", "1. no\n2. 80", ["", ""]),  # an order is no question
        ("\n".join(f"{n}. What is n{n}?" for n in range(1, 12)), "10. ten\n11. more", ["What is n10?", "What is n11?"]),
        (ASKED_TWO, "1. SQLite\n2. a month\n\nNever commit that.", ["Storage", "How long are backups kept?", ""]),
        (f"1. Is it {'so ' * 80}?\n2. Who?", "1. SQLite\n2. a month", ["", ""]),
        (NO_QUESTIONS, "1. Fix the cache.\n2. Rotate the log.", ["", ""]),  # the user's own list
        (ASKED_TWO, "2. thirty days", [""]),
        (ASKED_TWO, "Fix these first:\n\n1. The import fails.\n2. The log is doubled.", ["", "", ""]),
        (ASKED_TWO, "1. SQLite\n2. a month\n3. Add a button.", ["", "", ""]),
        ("", "1. SQLite\n2. a month", ["", ""]),
        (
            "1. Which one?\n   1. SQLite\n   2. files\n2. For how long?",
            "1. 2\n2. a day",
            ["Which one?", "For how long?"],
        ),
    ],
)
def test_numbered_answers_go_with_the_questions_of_the_same_number(before, text, questions):
    one = piece(5, text, before)
    assert [dict(one.answers).get(number, "") for number in range(1, len(one.lines) + 1)] == questions
    assert [one.find_question([number]) or "" for number in range(1, len(one.lines) + 1)] == [
        asked or one.asked for asked in questions
    ]


def test_of_numbered_answers_only_those_to_the_question_of_a_cited_one_are_quoted():
    one = piece(5, "1. sqlite, one process. no server\n2. thirty days", ASKED_TWO)
    assert [Citation(one, (number,)).quotation() for number in (1, 2, 3)] == [
        "sqlite, one process. no server",
        "sqlite, one process. no server",
        "thirty days",
    ]
