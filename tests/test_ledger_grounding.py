"""Grounding: what its sources do not hold is named, down to one changed character; what they hold passes."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memoryd.ledger import amounts, calendar
from memoryd.ledger.exact import Kind
from memoryd.ledger.grounding import Ground, Source
from memoryd.ledger.reversal import reversals
from memoryd.text import wording

DAY = date(2025, 3, 4)
TEXT = (
    "Call Anna Berg at +47 22 33 44 55 or write to anna.berg@example.org before the 14th of April. The dump needs 5 GB"
    " and 30 % of the disk of build-server2, see https://wiki.example.com/ops/dump?v=2 and src/dump/run.py or"
    " /etc/dump.conf. We pay $1,200 for two machines since last week; useFastMode and --dry-run work in v1.26.2, commit"
    ' 9f3ab21c. She said "never on a Friday". Jean-Luc lives in Zürich.'
)
GROUND = Ground([Source(TEXT, DAY, "User")])


def kind(text: str, ground: Ground = GROUND) -> Kind | None:
    found = ground.missing(text)
    return found.kind if found else None


@pytest.mark.parametrize(
    "text",
    [
        "User: call Anna Berg at +47 22334455.",
        "Anna's address is anna.berg@example.org.",
        "Before April 14 the dump needs 5GB.",
        "Needed before 2025-04-14: 5 GB, 30%.",
        "Needed before 14.04.2025.",
        "Paying 1200 dollars for 2 machines.",
        "See https://wiki.example.com/ops/dump?v=2.",
        "Runs src/dump/run.py on build-server2 with --dry-run.",
        "The folder src/dump holds run.py.",
        'Anna said "never on a Friday".',
        "Since last week (2025-02-24/02) two machines.",
        "JEAN-LUC lives in Zu\u0308rich.",  # another Unicode form, another case
        "Works in v1.26.2, commit 9f3ab21c.",
        "Machines are paid for.",
    ],
)
def test_what_the_source_says_is_grounded_in_any_form(text):
    assert GROUND.missing(text) is None


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("Call +47 22 33 44 56.", Kind.PHONE),
        ("Call +46 22 33 44 55.", Kind.PHONE),
        ("Write to anna.berq@example.org.", Kind.EMAIL),
        ("Write to berg@example.org.", Kind.EMAIL),
        ("Needs 5 MB.", Kind.UNIT),
        ("Needs 6 GB.", Kind.NUMBER),
        ("Needs 30 GB.", Kind.UNIT),
        ("Takes 200.", Kind.NUMBER),  # a part of 1,200
        ("Takes 3 %.", Kind.NUMBER),
        ("See https://wiki.example.com/ops/dump?v=3.", Kind.URL),
        ("See https://wiki.example.com/ops/dump.", Kind.URL),
        ("Runs src/dump/run.pyc.", Kind.PATH),
        ("Runs src/dump/ru.", Kind.PATH),
        ("Runs /etc/Dump.conf.", Kind.PATH),
        ("Runs --dry-ru.", Kind.IDENTIFIER),
        ("Commit 9f3ab21d.", Kind.IDENTIFIER),
        ("Works in v1.26.3.", Kind.IDENTIFIER),
        ("Before April 15.", Kind.DATE),
        ("Before 2026-04-14.", Kind.DATE),
        ("Before 4/15/2025.", Kind.DATE),
        ("Two weeks, three machines.", Kind.UNIT),
        ("Three machines.", Kind.NUMBER),
        ('She said "never on a Monday".', Kind.QUOTE),
        ("Call Ann Berg.", Kind.NAME),
        ("Annas Berg.", Kind.NAME),
        ("Call Jean-Lud.", Kind.NAME),
        ("The choir rehearses every evening beside the harbour.", Kind.WORDS),
    ],
)
def test_what_it_does_not_say_is_named(text, missing):
    assert kind(text) is missing


def test_the_token_is_told_but_never_printed():
    found = GROUND.missing("Call +47 22 33 44 56.")
    assert found.token.endswith("44 56")
    assert "22" not in repr(found)


@pytest.mark.parametrize(
    ("source", "text", "missing"),
    [
        ("我住在上海,养了3只猫,每天跑步30分钟。", "我住在上海", None),
        ("我住在上海,养了3只猫,每天跑步30分钟。", "用户养了3只猫", None),
        ("我住在上海,养了3只猫,每天跑步30分钟。", "养了4只猫", Kind.NUMBER),
        ("我住在上海,养了3只猫,每天跑步30分钟。", "跑步30小时", Kind.UNIT),
        ("我住在上海,养了3只猫,每天跑步30分钟。", "昨晚喝了很多咖啡和红酒", Kind.WORDS),
        ("Built at 2025-03-04T10:15:00Z.", "Built at 2025-03-04T10:15:00Z.", None),
        ("Built at 2025-03-04T10:15:00Z.", "Built at 2025-03-04T10:16:00Z.", Kind.IDENTIFIER),
        ("Im 3à-Trakt.", "Im 3à-Trakt.", None),
        ("ผมชอบกาแฟดำ", "ชอบกาแฟดำ", None),
        ("ผมชอบกาแฟดำ", "รถยนต์สีแดงหาย", Kind.WORDS),
        ("Мой коллега Олег работает в Казани.", "Олег работает в Казани", None),
        ("Мой коллега Олег работает в Казани.", "Ольга работает в Казани", Kind.NAME),
        ("2025年3月14日に東京で会議があります。", "3月14日に東京で会議", None),
        ("2025年3月14日に東京で会議があります。", "3月15日に東京で会議", Kind.DATE),
        ("Das Treffen ist am 3. März in Köln.", "Treffen am 3. März 2025 in Köln", None),
        ("Das Treffen ist am 3. März in Köln.", "Treffen am 5. März in Köln", Kind.DATE),
    ],
)
def test_scripts_and_languages(source, text, missing):
    assert kind(text, Ground([Source(source, DAY, "User")])) is missing


WORDS = st.sampled_from(
    [
        "planning",
        "harvest",
        "storage",
        "committed",
        "garden",
        "window",
        "explains",
        "orange",
        "carried",
        "letters",
        "singing",
    ]
)
NAMES = st.sampled_from(["Anna", "Lisbon", "Nordpost", "Björn"])
EXACT = st.one_of(
    st.builds("{} {}".format, st.integers(2, 9999), st.sampled_from(["GB", "MB", "km", "hours", "%", "kg"])),
    st.builds("+{} {} {}".format, st.integers(30, 49), st.integers(100, 999), st.integers(1000, 9999)),
    st.builds("{}@example.{}".format, st.sampled_from(["anna", "ben.o", "c_d"]), st.sampled_from(["org", "com"])),
    st.builds("https://example.com/{}/{}".format, WORDS, st.integers(1, 999)),
    st.builds("src/{}/{}.py".format, WORDS, WORDS),
    st.builds("{}_{}".format, WORDS, WORDS),
    st.builds("2025-{:02d}-{:02d}".format, st.integers(1, 12), st.integers(1, 28)),
)
SENTENCES = st.builds("The {} of {} {} {} with {}.".format, WORDS, NAMES, WORDS, EXACT, WORDS)
INFLECTED = {
    "harvest": "harvests",
    "committed": "commits",
    "window": "windows",
    "explains": "explained",
    "carried": "carries",
}


@given(st.lists(SENTENCES, min_size=1, max_size=5), st.data())
def test_copied_sentences_with_inflected_words_are_grounded(sentences, data):
    ground = Ground([Source(" ".join(sentences), DAY, "User")])
    copied = data.draw(st.sampled_from(sentences))
    for word, form in INFLECTED.items():
        copied = copied.replace(f" {word} ", f" {form} ")
    assert ground.missing(copied) is None


@given(st.lists(SENTENCES, min_size=1, max_size=3), st.data())
def test_one_changed_character_of_what_is_exact_is_caught(sentences, data):
    text = " ".join(sentences)
    sentence = data.draw(st.sampled_from(sentences))
    words = sentence.rstrip(".").split(" ")
    places = [
        i
        for i, word in enumerate(words)
        if any(c in word for c in "0123456789@/_") or word in {"Anna", "Lisbon", "Nordpost"}
    ]
    at = data.draw(st.sampled_from(places))
    word = words[at]
    i = data.draw(st.integers(0, len(word) - 1))
    assume(word[i].isalnum() and word[i] not in "ef")
    pool = "0123456789" if word[i].isdigit() else "qxzk"
    changed = word[:i] + data.draw(st.sampled_from([c for c in pool if c != word[i].lower()])) + word[i + 1 :]
    changed = changed.capitalize() if word.istitle() and i == 0 else changed
    assume(changed not in text and not (changed[0] == "0" and changed.isdigit()))
    claim = " ".join([*words[:at], changed, *words[at + 1 :]])
    assume(word != "+" and not changed.startswith("0"))
    assert Ground([Source(text, DAY, "User")]).missing(claim) is not None


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("The server is unreachable.", "The server is reachable."),
        ("The key for staging is valid.", "The key for staging is invalid."),
        ("The feature is disabled by default.", "The feature is enabled by default."),
        ("The cache of the shop was deactivated in May.", "The cache of the shop was activated in May."),
    ],
)
def test_a_word_that_only_its_contrary_is_said_of_is_missing(said, text):
    assert kind(text, Ground([Source(said, DAY)])) is Kind.WORDS
    assert kind(text, Ground([Source(f"{said} {text}", DAY)])) is None


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_can_be_asked_of_any_source(source, text):
    ground = Ground([Source(source, DAY, "User")])
    ground.missing(text)
    ground.quotes(text)
    held, asked = ground.support(text)
    assert 0 <= held <= asked


@given(st.text(min_size=1, max_size=60))
def test_words_copied_whole_are_always_supported(text):
    ground = Ground([Source(text, DAY, "")])
    held, asked = ground.support(text)
    assert held == asked


@pytest.mark.parametrize(
    ("piece", "text", "found"),
    [
        ("42", "it is 42", True),
        ("42", "it is 1427", False),
        ("ann", "anna", False),
        ("ann", "anna ann", True),
        ("42", "共42个", True),
        ("上海", "我住在上海市", True),
        ("", "x", False),
    ],
)
def test_whole_words_occur(piece, text, found):
    assert wording.occurs(piece, text) is found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("5GB", [("5", "gb")]),
        ("30 %", [("30", "%")]),
        ("€20 or 20 euros", [("20", "€"), ("20", "€")]),
        ("1,000 tokens", [("1000", "token")]),
        ("5m or 5M", [("5", "m"), ("5", "M")]),
        ("at 10:30", [("10:30", "")]),
        ("2 cats", [("2", "")]),
        ("seven days", [("7", "day")]),
    ],
)
def test_amounts(text, found):
    assert [(one.number, one.unit) for one in amounts.find(text)] == found


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("2025-03-04", [(2025, 3, 4)]),
        ("2025-03", [(2025, 3, None)]),
        ("3/4/2025", [(2025, 4, 3), (2025, 3, 4)]),
        ("03.04.2025", [(2025, 4, 3)]),
        ("March 3rd, 2025", [(2025, 3, 3)]),
        ("3 de marzo de 2025", [(2025, 3, 3)]),
        ("3 марта", [(None, 3, 3)]),
        ("2025年3月", [(2025, 3, None)]),
        ("May 2024", [(2024, 5, None)]),
        ("30 February", []),
        ("1.26.2", []),
        ("2025-13-01", []),
    ],
)
def test_calendar_dates(text, readings):
    assert [tuple(day) for written in calendar.find(text) for day in written.readings] == readings


@given(st.dates())
def test_every_day_is_read_back(day):
    for text in (day.isoformat(), f"{day.day} {day:%B} {day.year}", f"{day:%B} {day.day}, {day.year}"):
        if day.year >= 1000 and day.year < 3000:
            assert [tuple(one) for written in calendar.find(text) for one in written.readings] == [
                (day.year, day.month, day.day)
            ]


def test_what_reverses_a_meaning_is_seen_in_scripts_without_spaces():
    assert reversals("使わないで") != reversals("使って")
    assert reversals("不要用") != reversals("要用")
    assert reversals("Never use it") != reversals("Use it")


@pytest.mark.parametrize(
    ("said", "text", "held"),
    [
        ("No, I no longer live in Oslo, I live in Bergen.", "I live in Bergen.", True),
        ("No, I no longer live in Oslo, I live in Bergen.", "I live in Oslo.", False),
        ("No, I no longer live in Oslo, I live in Bergen.", "I no longer live in Oslo.", True),
        ("Never, ever use tabs.", "use tabs", False),
        ("I like tea but I hate coffee.", "I like coffee", False),
        ("不对,我住在上海。", "我住在上海", True),
        ("I hate tea. I love coffee.", "I love tea", False),
        ("I prefer tabs. It rains. Ann rows. I use Vim.", "I prefer tabs. I use Vim.", True),
        ("I hate tea. It rains. Ann rows. I love coffee.", "I love coffee. I love tea.", False),
        ("I prefer tabs. It rains. My boss prefers Vim.", "I prefer tabs. I prefer Vim.", False),
        ("I prefer tabs. It rains. Ann rows. Should I use Vim?", "I prefer tabs. I use Vim.", False),
    ],
)
def test_a_main_clause_stands_alone_but_never_without_what_turns_it(said, text, held):
    assert Ground([Source(said, DAY, "User")]).quotes(text) is held
