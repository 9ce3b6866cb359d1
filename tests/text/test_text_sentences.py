"""Sentences: what can be cited of a text, and the words that are copied with what is cited."""

import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoryd.text.sentences import SentenceKind, list_texts, quote_around, split

LOWER_CASE = [
    ("ok. do it tomorrow. not today", ["ok.", "do it tomorrow.", "not today"]),
    ("why? because. no! 3 of them.", ["why?", "because.", "no!", "3 of them."]),
    ("use port 80. not 81.", ["use port 80.", "not 81."]),
    ("in 2024. then stop", ["in 2024.", "then stop"]),
    ("keep that in mind. then go", ["keep that in mind.", "then go"]),
    ("open the mr. then review", ["open the mr.", "then review"]),
    ("wait... what? hm… ok", ["wait... what?", "hm… ok"]),
    ("The end... Yes. And so on… No.", ["The end...", "Yes.", "And so on…", "No."]),
]
WIDE = [
    ("我喜欢茶。不要咖啡！好的吗？ok", ["我喜欢茶。", "不要咖啡！", "好的吗？", "ok"]),  # noqa: RUF001
    ("「はい。」次へ。終わり", ["「はい。」", "次へ。", "終わり"]),
    ("好的!然后 make。", ["好的!", "然后 make。"]),
    ("用 v1.2 的版本。别用 3.5", ["用 v1.2 的版本。", "别用 3.5"]),
]
ABBREVIATIONS = [
    ("Dr. Who met Mr. Smith at 5 p.m. today. Yes.", ["Dr. Who met Mr. Smith at 5 p.m. today.", "Yes."]),
    ("At 5 p.m. Then home.", ["At 5 p.m.", "Then home."]),
    ("Use tabs, e.g. here, i.e. always, etc. and so on.", ["Use tabs, e.g. here, i.e. always, etc. and so on."]),
    ("Left out (incl. the `a.json`), resp. unused.", ["Left out (incl. the `a.json`), resp. unused."]),
    ("Nimm z.B. das, ca. 5 Stück, bzw. mehr. Gut.", ["Nimm z.B. das, ca. 5 Stück, bzw. mehr.", "Gut."]),
    ("Nimm z. B. das, d. h. alles. Gut.", ["Nimm z. B. das, d. h. alles.", "Gut."]),
    ("Usa p.ej. esto, p. ej. aquí. Sí.", ["Usa p.ej. esto, p. ej. aquí.", "Sí."]),
    ("Это т.е. так, т. е. вот. Да.", ["Это т.е. так, т. е. вот.", "Да."]),  # noqa: RUF001
    ("Voir p. ex. ceci. Oui.", ["Voir p. ex. ceci.", "Oui."]),
    ("J. R. R. Tolkien and John F. Kennedy. No.", ["J. R. R. Tolkien and John F. Kennedy.", "No."]),
    ("So do I. Take option b. then c. because", ["So do I.", "Take option b.", "then c.", "because"]),
    ("Am 3. März, am 4. Mai, der 2. Versuch. Gut.", ["Am 3. März, am 4. Mai, der 2. Versuch.", "Gut."]),
    ("Dne 3. 4. 2024 přijedu. Ano.", ["Dne 3. 4. 2024 přijedu.", "Ano."]),
    ("Do 2 things. 1. Build. 2. test.", ["Do 2 things.", "1. Build.", "2. test."]),
    ("Noted. Next: 1. a purge, 2. an alert.", ["Noted.", "Next: 1. a purge, 2. an alert."]),
    ("It is version 2. Then it broke.", ["It is version 2.", "Then it broke."]),
    ("See fig. 3, no. 4 and p. 5. no. not that", ["See fig. 3, no. 4 and p. 5.", "no.", "not that"]),
    ("Lee et al. say so. Ok.", ["Lee et al. say so.", "Ok."]),
]
CODE = [
    ("Use v1.2.3 and 3.5 in src/app.py and .env. Then go.", ["Use v1.2.3 and 3.5 in src/app.py and .env.", "Then go."]),
    ("See https://x.y/z?q=1. ok", ["See https://x.y/z?q=1.", "ok"]),
    ("Run `make. test`. done", ["Run `make. test`.", "done"]),
    ("Run ``a ` b. c``. done", ["Run ``a ` b. c``.", "done"]),
    ("A ` alone. done", ["A ` alone.", "done"]),
    ("git add . && cd .. and ls", ["git add . && cd .. and ls"]),
    ("PATH=. make. done", ["PATH=. make.", "done"]),
    ("It works!Really? Yes.", ["It works!Really?", "Yes."]),
    ("foo != bar. done", ["foo != bar.", "done"]),
]
CLOSED = [
    ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
    ("“Stop!” he said. (see there.) then go.", ["“Stop!” he said.", "(see there.) then go."]),
    ("**Never do that.** then go. *ok.*", ["**Never do that.**", "then go.", "*ok.*"]),
    ("What?! No... (Yes.) 👍", ["What?!", "No...", "(Yes.) 👍"]),
    ("... ok. yes. ...", ["... ok.", "yes. ..."]),
    ("Qué? ¿Sí? नहीं। हाँ।", ["Qué?", "¿Sí?", "नहीं।", "हाँ।"]),
]


@pytest.mark.parametrize(("text", "parts"), [*LOWER_CASE, *WIDE, *ABBREVIATIONS, *CODE, *CLOSED])
def test_ends_of_sentences(text, parts):
    assert list_texts(text) == parts


WRAPPED = "This paragraph was wrapped by an editor, and this line ends in front of"
LINES = [
    ("use postgres\nAsk before pushing\nno more", ["use postgres", "Ask before pushing\nno more"]),
    ("fix the login\nthen push", ["fix the login\nthen push"]),
    ("Hi Anna,\nPlease look.", ["Hi Anna,\nPlease look."]),
    ("one.\ntwo", ["one.", "two"]),
    (f"{WRAPPED}\nBerlin. Yes.", [f"{WRAPPED}\nBerlin.", "Yes."]),
    ("要用茶\n不要咖啡", ["要用茶", "不要咖啡"]),
    ("a\n\nb", ["a", "b"]),
    ("do this\n- one\n- two", ["do this", "- one", "- two"]),
    ("am\n3. März kommt", ["am\n3. März kommt"]),
    ("do\r\n1. one\r\n2. two\r\n", ["do", "1. one", "2. two"]),
    ("a) one\nb) two", ["a) one", "b) two"]),
    ("-x is no item", ["-x is no item"]),
]


@pytest.mark.parametrize(("text", "parts"), LINES)
def test_lines(text, parts):
    assert list_texts(text) == parts


MIXED = """\
# Rules
Never:
- commit to main. Not even once.
- force-push
  or rebase:
  1. on main
  2. on release

* sign

Some prose. More.
```py
x = 1

# y
```
after
> quoted. words
> of it

| a | b |
|---|---|

    indented
    code

"""


def test_kinds_paragraphs_and_leads():
    assert [(one.text, one.paragraph, one.kind.value, one.lead) for one in split(MIXED)] == [
        ("# Rules", 0, "heading", None),
        ("Never:", 0, "prose", None),
        ("- commit to main.", 0, "item", 1),
        ("Not even once.", 0, "item", 1),
        ("- force-push\n  or rebase:", 0, "item", 1),
        ("1. on main", 0, "item", 4),
        ("2. on release", 0, "item", 4),
        ("* sign", 1, "item", 1),
        ("Some prose.", 2, "prose", None),
        ("More.", 2, "prose", None),
        ("```py\nx = 1\n\n# y\n```", 2, "code", None),
        ("after", 2, "prose", None),
        ("> quoted.", 2, "quote", None),
        ("words\n> of it", 2, "quote", None),
        ("| a | b |\n|---|---|", 3, "code", None),
        ("indented\n    code", 4, "code", None),
    ]


@pytest.mark.parametrize(
    ("text", "lead"),
    [
        ("Never:\n\n- x", "Never:"),
        ("决不：\n- x", "决不："),  # noqa: RUF001
        ("Ok. **Never:**\n- x", "**Never:**"),
        ("## Never\nfoo.\n\n- x", "## Never"),
        ("**Never**\n- x", "**Never**"),
        ("Never:\nfoo.\n- x", None),
        ("Do:\n- a\nNever:\n- x", "Never:"),
        ("do:\n- a\nnever:\n- x", "never:"),
        ("Never:\n1. a\n```\ncode\n```\n2. x", "Never:"),
        ("- Never\n  - x", "- Never"),
        ("Never:\n  - a\n- x", "Never:"),
    ],
)
def test_what_introduces_a_list(text, lead):
    found = split(text)
    last = found[-1]
    assert (last.text.lstrip("-2. "), last.kind) == ("x", SentenceKind.ITEM)
    assert (None if last.lead is None else found[last.lead].text) == lead


PIECES = [
    *(
        "\n",
        "\n\n",
        " ",
        "    ",
        "\t",
        "\r",
        "\u2028",
        ". ",
        "! ",
        "。",
        "...",
        "…",
        "`",
        "``",
        "```",
        "~~~",
        "***",
        "---",
    ),
    *("- ", "1. ", "2. ", "4.", "# ", "> ", "| a |", "**", "(", ")", '"', "Never:", "foo", "Bar", "z. B.", "Dr.", "茶"),
]
TEXT = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=30).map("".join))


@given(TEXT)
def test_every_part_belongs_to_one_sentence(text):
    at, paragraph = 0, 0
    found = split(text)
    for place, one in enumerate(found):
        assert text[one.start : one.end] == one.text == one.text.strip() != ""
        assert not text[at : one.start].strip()
        assert one.paragraph in {paragraph, paragraph + 1} or place == 0
        assert one.lead is None or (one.kind is SentenceKind.ITEM and 0 <= one.lead < place)
        at, paragraph = one.end, one.paragraph
    assert not text[at:].strip()


@given(TEXT, TEXT)
def test_what_follows_in_another_paragraph_changes_nothing(text, more):
    if "```" in text or "~~~" in text:  # a fence may be open
        text = text.replace("`", "").replace("~", "")
    found = split(text)
    assert split(f"{text}\n\n{more}")[: len(found)] == found


@example("-", [1], 0)
@given(TEXT, st.lists(st.integers(-2, 12)), st.integers(0, 60))
def test_a_quotation_is_copied(text, numbers, longest):
    said = quote_around(text, numbers, longest)
    cited = [one for number, one in enumerate(split(text), 1) if number in numbers]
    assert bool(said) is bool(cited)
    assert "\n" not in said
    assert set(said) <= {*text, " ", ":"}
    assert all(
        " ".join(one.text.split()) in said for one in cited if one.kind not in {SentenceKind.ITEM, SentenceKind.HEADING}
    )


LONG = "It is long. " * 30


@pytest.mark.parametrize(
    ("text", "numbers", "said"),
    [
        ("ok. do it\ntomorrow. not today", [2], "ok. do it tomorrow. not today"),
        ("Never:\n- commit to main.", [2], "Never: commit to main."),
        ("Never:\n- commit to main.\n- push.", [2], "Never: - commit to main. - push."),
        (f"Never:\n- commit to main. Ever.\n- push.\n\n{LONG}", [2], "Never: commit to main. Ever."),
        (f"Never:\n- commit to main. Ever.\n- push.\n\n{LONG}", [3], "Never: commit to main. Ever."),
        (f"Never:\n- commit.\n- push.\n- rebase.\n\n{LONG}", [2, 4], "Never: - commit. - rebase."),
        (f"## Never\n\n1. commit.\n2. push.\n\n{LONG}", [3], "Never: push."),
        (f"Never:\n- on main:\n  - commit.\n  - push.\n\n{LONG}", [4], "Never: on main: push."),
        (f"Use tabs. Not spaces.\nOnly here.\n\n{LONG}", [2], "Use tabs. Not spaces. Only here."),
        (f"In tests:\n\nUse tabs.\n\n{LONG}", [2], "In tests: Use tabs."),
        (f"用茶。不用咖啡。\n\n{LONG}", [1], "用茶。不用咖啡。"),
        (f"One. Two.\n\n{LONG}\n\nThree. Four.", [1, 34], "One. Two. … Three. Four."),
        ("ok", [0, 7], ""),
        ("", [1], ""),
    ],
)
def test_quotations(text, numbers, said):
    assert quote_around(text, numbers) == said


ADVERSARIAL = [
    *("a. ", "! ", ".", ". ", '"', '".', "…", "`", "`a``", "*", "_", "** **", "(", "茶。", "Dr. ", "z. B. ", " ", "\t"),
    *(
        "- ",
        "-\n",
        "x\n",
        "X\n",
        "1. ",
        "1. x\n",
        "  - x\n",
        "> x\n",
        "```\n",
        "|a|\n",
        "    x\n",
        "\n",
        "a:\n- b\n",
        "茶\n",
    ),
]


@pytest.mark.parametrize("piece", ADVERSARIAL)
def test_the_work_grows_with_the_text_and_not_faster(piece):
    once, twice = (_calls(lambda text=piece * count: split(text)) for count in (500, 1000))
    assert twice <= 2.2 * once + 100


@pytest.mark.parametrize(
    "piece", ["I prefer tabs. ", "Use tabs.\n\n", "- Use tabs.\n", "Use tabs.\n- Use pnpm. No npm.\n"]
)
@pytest.mark.parametrize("before", ["", "- ", "Rules:\n"])
def test_the_work_of_quoting_a_sentence_does_not_grow_with_its_neighbours(before, piece):
    text = before + piece * 1000
    numbers = range(1, len(split(text)) + 1)
    assert _calls(lambda: quote_around(text, numbers)) <= 25 * len(numbers) + 3 * len(text)


def _calls(act):
    """Count the function calls, and the characters of those that copy or search a part of the text."""
    work = 0

    def count(frame, event, arg):
        nonlocal work
        if event in {"call", "c_call"}:
            work += 1
        elif event == "return" and isinstance(arg, str | list | tuple):
            work += len(arg)

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return work


def test_signs_of_success_and_warning_mark_items():
    found = split("Done:\n\n\u2705 Vite serves the page\n\u26a0\ufe0f no tests yet\n")
    assert [(one.kind, one.text.split()[-1]) for one in found[1:]] == [
        (SentenceKind.ITEM, "page"),
        (SentenceKind.ITEM, "yet"),
    ]


@pytest.mark.parametrize(
    ("own", "said"),
    [([1, 3], "Use tabs. … Never push."), ([1, 2], "Use tabs. He said no."), ([2, 3], "He said no. Never push.")],
)
def test_a_gap_in_a_quotation_is_marked(own, said):
    assert quote_around("Use tabs. He said no. Never push.", own[:1], 300, own.__contains__) == said
