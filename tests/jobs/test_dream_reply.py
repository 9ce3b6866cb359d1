"""The grammar of a dream's reply: what is read, with how much patience, and what is refused as a whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.jobs import dream_reply
from memoryd.jobs.dream_reply import Declaration, LetGo, ParsedDreamReply, ReplyBullet, ReplySection
from memoryd.jobs.job import RejectedReply, Reply

WHOLE = """[MEMORY]
- no heading above [m1]
## Habits
- Tabs in all Makefiles. [m2, d4]
- over two
  lines [m3]
[DREAM]
A quiet day.
- archived [m4]: the trip is over
- superseded [m5] by [d4]: another version
"""


def read(text, finish="stop"):
    return dream_reply.parse(Reply(text, finish, "test"))


def said(text):
    found = read(text)
    assert isinstance(found, ParsedDreamReply), found
    return [(section.heading, one.text, one.cites) for section in found.sections for one in section.bullets]


MEANT = [
    ("", "no heading above", ("m1",)),
    ("Habits", "Tabs in all Makefiles.", ("m2", "d4")),
    ("Habits", "over two lines", ("m3",)),
]


def test_a_reply_is_read_in_its_parts():
    found = read(WHOLE)
    assert said(WHOLE) == MEANT
    assert (found.diary, found.unreadable) == ("A quiet day.", 0)
    assert found.declared == (
        Declaration("m4", LetGo.ARCHIVED, (), "the trip is over"),
        Declaration("m5", LetGo.SUPERSEDED, ("d4",), "another version"),
    )


def _reversed():
    memory, dream = WHOLE.split("[DREAM]")
    return f"[DREAM]{dream}\n{memory}"


@pytest.mark.parametrize(
    "text",
    [
        WHOLE.replace("[MEMORY]", "[memory]").replace("[DREAM]", "[Dream]"),
        WHOLE.replace("[MEMORY]", "**[MEMORY]**").replace("[DREAM]", "## [DREAM]:"),
        WHOLE.replace("\n", "\r\n"),
        WHOLE.replace("- ", "* "),
        _reversed(),
        f"```markdown\n{WHOLE}```",
        f"```markdown\n{_reversed()}```\n",
        f"Here it is:\n\n```\n{WHOLE}```\nI hope it helps.",
        WHOLE.replace("[MEMORY]\n", "[MEMORY]\n```\n").replace("[DREAM]", "```\n[DREAM]"),
        WHOLE.replace(" [m2, d4]", " [m2] [d4]"),
        WHOLE.replace(" [m2, d4]", " **[M2; D4]**."),
        f"[MEMORY]\n- an example [m9]\n[DREAM]\nan echo\n{WHOLE}",
        f"{WHOLE}[MEMORY]\n\n[DREAM]\n",
    ],
)
def test_what_models_do_to_a_grammar_changes_nothing(text):
    assert said(text) == MEANT
    assert {(one.id, one.how) for one in read(text).declared} >= {("m4", "archived"), ("m5", "superseded")}


def test_a_mark_inside_a_bullet_or_its_code_does_not_cut_the_memory():
    text = "[MEMORY]\n- the parser looks for [DREAM] and `[MEMORY]` [m1]\n- to build: [m2]\n"
    text += "  ```sh\n  [DREAM]\n  make\n  ```\n- c [m3]\n[DREAM]\nx"
    assert said(text) == [
        ("", "the parser looks for [DREAM] and `[MEMORY]`", ("m1",)),
        ("", "to build: [DREAM] make", ("m2",)),
        ("", "c", ("m3",)),
    ]


@pytest.mark.parametrize(
    ("text", "finish", "why"),
    [
        ("", "stop", "empty"),
        (" \n ", "stop", "empty"),
        ("[DREAM]\nnothing happened", "stop", "no [MEMORY]"),
        ("[MEMORY]\n\n[DREAM]\nx", "stop", "is empty"),
        ("[MEMORY]\nprose without a bullet\n[DREAM]\n", "stop", "is empty"),
        ("I'm sorry, I can't help with that.", "stop", "no [MEMORY]"),
        ("[NOTHING]\n- but this [m1]", "stop", "no [MEMORY]"),
        (WHOLE, "length", "cut off"),
        (WHOLE, "refusal", "refused"),
        (WHOLE, "error", "failed"),
        (WHOLE, "tool_calls", "did not end"),
        ("x" * 8_000_001, "stop", "longer"),
    ],
)
def test_what_cannot_be_used_is_refused_as_a_whole(text, finish, why):
    found = read(text, finish)
    assert isinstance(found, RejectedReply)
    assert why in found.why


def test_nothing_is_an_answer():
    found = read("[NOTHING]\n[DREAM]\nall is well")
    assert (found.sections, found.diary) == ((), "all is well")


def test_a_memory_is_let_go_only_in_so_many_words_at_the_start_of_a_line():
    text = (
        "[MEMORY]\n- a [m1]\n[DREAM]\nI thought it archived [m2]: no\n- archived [m3, m4]: both\n**superseded** [m5]\n"
    )
    assert [(one.id, one.how) for one in read(text).declared] == [
        ("m3", "archived"),
        ("m4", "archived"),
        ("m5", "superseded"),
    ]


WORDS = st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), min_size=1).map(
    lambda text: " ".join(text.split())
)
IDS = st.tuples(st.sampled_from("md"), st.integers(1, 99)).map(lambda one: f"{one[0]}{one[1]}")
TEXTS = WORDS.filter(lambda text: text and not any(mark in text for mark in "[]*#`~-+•>_"))
BULLETS = st.builds(ReplyBullet, TEXTS, st.lists(IDS, min_size=1, max_size=3, unique=True).map(tuple))
SECTIONS = st.lists(
    st.builds(ReplySection, TEXTS, st.lists(BULLETS, min_size=1, max_size=4).map(tuple)), min_size=1, max_size=4
)
DECLARED = st.builds(
    Declaration,
    st.integers(1, 99).map("m{}".format),
    st.just(LetGo.SUPERSEDED),
    st.tuples(IDS),
    TEXTS.filter(lambda t: t[0].isalnum()),
)


@given(SECTIONS, st.lists(DECLARED, max_size=3))
def test_what_is_rendered_is_read_back(sections, declared):
    found = read(dream_reply.render(sections, "A day.", declared))
    assert (found.sections, found.diary, found.declared) == (tuple(sections), "A day.", tuple(declared))


@given(
    st.lists(
        st.sampled_from([*WHOLE.splitlines(), "```", "  ~~~", "[NOTHING]", "- [m1]", "* * *"]) | st.text(), max_size=20
    )
)
def test_any_text_is_read_or_refused_and_never_an_error(lines):
    assert isinstance(read("\n".join(lines)), ParsedDreamReply | RejectedReply)


def test_a_question_in_parts_has_one_answer_and_one_bad_part_spoils_it():
    first = Reply(
        "[MEMORY]\n## A\n- one [m1]\n[DREAM]\nx\n- archived [m3]: r", "stop", "test", tokens_in=1, tokens_out=2
    )
    second = Reply("[MEMORY]\n- two [m2]\n## A\n- three [d1]\n[DREAM]\ny", "stop", "test", tokens_in=3, tokens_out=4)
    merged = dream_reply.merge([first, second])
    assert said(merged.text) == [("", "two", ("m2",)), ("A", "one", ("m1",)), ("A", "three", ("d1",))]
    assert (merged.tokens_in, merged.tokens_out) == (4, 6)
    assert read(merged.text).diary == "x\n\ny"
    assert isinstance(dream_reply.merge([first, Reply("", "stop", "test")]), RejectedReply)
    nothing = Reply("[NOTHING]", "stop", "test")
    assert dream_reply.merge([nothing]) is nothing
    for parts in ([first, nothing], [nothing, first]):
        merged = read(dream_reply.merge(parts).text)
        assert (merged.keeps_rest, merged.diary, merged.declared) == (True, "x", read(first.text).declared)
        assert said(dream_reply.merge(parts).text) == [("A", "one", ("m1",))]
    assert not read(dream_reply.merge([first, second]).text).keeps_rest
    assert read(dream_reply.merge([nothing, nothing]).text).keeps_rest


MUCH = 50_000  # characters or lines; where it took their square, the suite would stand still here


@pytest.mark.parametrize(
    "memory",
    [
        "- a " + "[m1] " * MUCH,
        "- a" + " " * MUCH + "b [m1]",
        "- a " + "*" * MUCH + "b",
        "- a [" + "m1, " * MUCH + "x",
        "- a [m1" + " " * MUCH + "x",
        "- a" + " ." * MUCH + "x",
        "## a" + " #" * MUCH + "x\n- b [m1]",
        "- a\n" + "~" * MUCH + "`",
        "- a\n" + "```x\n" * MUCH,
        "- a\n" + "  ```x\n" * MUCH,
        "- a [m1]\n" + "  b [m1]\n" * MUCH,
        "- archived [" + "m2, " * MUCH + " x",
    ],
    ids=range(12),
)
def test_no_reply_is_long_in_the_reading(memory):
    assert isinstance(read(f"[MEMORY]\n{memory}\n[DREAM]\nA day."), ParsedDreamReply)


def test_citations_are_read_from_the_end_in_their_order():
    assert said("[MEMORY]\n- a [m9] b [m1, M2] **[d3; m1]**. ") == [("", "a [m9] b", ("m1", "m2", "d3"))]
    assert said("[MEMORY]\n## **A** ## #\n- a [m1]\n  b [m2]\n") == [("A", "a b", ("m2", "m1"))]
    long = "word " * 1000
    found = read(f"[MEMORY]\n- {long}[m1]\n  and more\n- b [m2]")
    assert (found.unreadable, len(found.sections[0].bullets)) == (1, 2)
