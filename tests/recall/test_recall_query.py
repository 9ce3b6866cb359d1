"""The query: any text is one, and finds what it names in a real FTS5 table."""

from itertools import chain

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoryd.database.library import load_library
from memoryd.recall.documents import COLUMNS, IndexTurn, digest_of, of_fact, of_turns
from memoryd.recall.query import LONGEST, MOST_TERMS, MOST_WORDS, TermKind, build_expression, list_beginnings, parse
from memoryd.recall.snippet import LENGTH, find_held, find_passage
from memoryd.recall.words import fold, is_unspaced, list_runs, make_indexable

SYNTAX = st.sampled_from(
    ['"', "'", "*", "AND", "OR", "NOT", "NEAR(", ")", "(", "{", "}", ":", "^", "-", "+", "C++", "what?", "foo-bar",
     "a:b", "don't", "\0", "\ud800", "\u0301", "水", "ひらがな", "ไทย", "한국", "e\u0301",
     "ﬁ", "İ", "\u0661", "😀", "x*",
     '"x"*', "_", "a_b", "\\"]
)  # fmt: skip
TEXTS = st.lists(SYNTAX | st.text(max_size=5), max_size=12).map(" ".join) | st.lists(SYNTAX, max_size=12).map("".join)


@pytest.fixture(scope="module")
def table():
    connection = load_library().connect(":memory:", check_same_thread=False)
    connection.execute(
        f"CREATE VIRTUAL TABLE words USING fts5({', '.join(COLUMNS)}, content='', contentless_delete=1,"
        " tokenize='porter unicode61 remove_diacritics 2')"
    )
    yield connection
    connection.close()


def found(table, text, query):
    """Whether a query finds a text, as the index has it."""
    table.execute("DELETE FROM words WHERE rowid = 1")
    values = of_fact(text, "", None).columns
    table.execute(f"INSERT INTO words (rowid, {', '.join(COLUMNS)}) VALUES (1, ?, ?, ?, ?, ?)", values)  # noqa: S608
    match = build_expression(parse(query).terms)
    return bool(match) and bool(table.execute("SELECT 1 FROM words WHERE words MATCH ?", (match,)).fetchall())


def test_neighbours_and_outputs_of_tools_share_the_column_that_takes_least_room():
    said = [("user", "message", "a kumquat"), ("tool", "tool_result", "an orchard"), ("assistant", "message", "a mill")]
    turns = [IndexTurn(seq, role, role, kind, text, None) for seq, (role, kind, text) in enumerate(said, 1)]
    found = [(one.columns[0].split(), one.is_said) for one in of_turns(turns)]
    assert found == [(["a", "mill"], True), (["an", "orchard"], False), (["a", "kumquat"], True)]


@given(TEXTS)
@example('"')
@example('""""')
@example("NEAR(a b)")
@example("a" * 30_000)
def test_no_text_is_a_syntax_error(table, text):
    terms = parse(text).terms
    assert len(terms) <= MOST_TERMS
    if terms:
        table.execute("SELECT rowid FROM words WHERE words MATCH ?", (build_expression(terms),)).fetchall()
        for term in terms:
            table.execute("SELECT rowid FROM words WHERE words MATCH ?", (f"{{text aside}} : {term.match}",)).fetchall()


@pytest.mark.parametrize(
    "text",
    [
        f'"{"the " * 5000}"',
        " ".join(f'"{"the " * many}"' for many in range(2, 66)),
        "the_" * 5000,
        "getUser" * 2500,
        "北" * LONGEST,
        f'"{"北京" * 9000}"',
        "\ufdfa" * LONGEST,
        " ".join(f"{one}{other}*" for one in "abcdefgh" for other in "abcdefgh"),
    ],
)
def test_what_is_looked_for_has_a_limit(text):
    # Each word of a row, and each beginning, has all documents looked through that hold it.
    terms = parse(text).terms
    assert terms
    assert sum(len(list_runs(term.match)) for term in terms) <= MOST_WORDS == 128
    assert sum(term.kind is TermKind.PREFIX for term in terms) <= 16


def test_of_a_long_text_both_ends_are_looked_for_in_whole_words(table):
    trace = " ".join(f"frame{number}" for number in range(90)) + " E23505 duplicate"
    assert {"frame0", "E23505", "duplicate"} < {term.text for term in parse(trace).terms}
    assert found(table, "it was E23505", trace)
    assert [term.text for term in parse("database " * 5000).terms] == ["database"]
    assert {term.text for term in parse("first " + "x" * LONGEST + " last").terms} >= {"first", "last"}


def test_a_long_quotation_is_found_by_all_of_its_parts(table):
    verse = " ".join(f"word{number}" for number in range(50))
    assert found(table, f"He said: {verse}, and left.", f'"{verse}"')
    phrases = parse(f'"{verse}"').phrases
    assert " ".join(term.text for term in phrases) == verse
    assert all(found(table, term.text, f'"{term.text}"') for term in phrases)


@given(TEXTS)
def test_a_text_finds_itself(table, text):
    # Words in Python's sense that FTS5's older tables know as well.
    if any(run.isascii() for run in list_runs(text)):
        assert found(table, text, text)


def test_what_parts_words_in_a_query_parts_them_in_the_index(table):
    # Each character where most and the newest signs are, between two words; surrogates are no characters.
    several = (chr(code) for code in chain(range(1, 0xA000), range(0xE000, 0x10000), range(0x1E000, 0x20000)))
    between = {ord(char): fold(f"ab{char}ba") for char in several if not is_unspaced(char)}
    table.execute("DELETE FROM words")
    rows = ((number, make_indexable(text)) for number, text in between.items())
    table.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", rows)
    table.execute("CREATE VIRTUAL TABLE temp.seen USING fts5vocab(main, words, instance)")
    parted = {number for (number,) in table.execute("SELECT doc FROM seen WHERE term = 'ab'")}
    otherwise = [
        chr(number) for number, text in between.items() if (list_runs(text)[0] == "ab") is not (number in parted)
    ]
    # Some letters that FTS5's tables do not have, though they are older than these.
    assert len(otherwise) < 30
    assert all(map(str.isalpha, otherwise))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("we keep Tests for it", "test"),
        ("Der Café in Málaga", "cafe malaga"),
        ("a cafe in Malaga", "Café"),
        ("call getUserName() first", "getUserName"),
        ("call getUserName() first", "user name"),
        ("call getUserName() first", "get_user_name"),
        ("call get_user_name() first", "getUserName"),
        ("the HTTPServer died", "server"),
        ("set MAX_RETRY_COUNT", "max_retry"),
        ("open src/app/main.py now", "src/app/main.py"),
        ("open src/app/main.py now", "main.py"),
        ("it failed with E1234", "E1234"),
        ("it failed with ENOENT", "enoent"),
        ("version 3.51.2 is bad", "3.51.2"),
        ("refactoring the parser", "refact*"),
        ("she said: the early bird sings", '"early bird"'),
        ("Anna's brother", "anna"),
        ("don't panic", "don't panic"),
        ("foo-bar it is", "foo-bar"),
        ("我住在北京市", "北京"),
        ("我住在北京市", "京"),
        ("昨日は東京タワーに行きました", "東京タワー"),
        ("昨日は東京タワーに行きました", "東京はどこ"),
        ("도서관에서 만나자", "도서관"),
        ("\uff46\uff55\uff4c\uff4c width", "full"),
        ("ภาษาไทย", "ไทย"),
        ("agreed🤝🏽then", "agreed"),
        ("it costs ₺40", "40"),
        ("nach Kołobrzeg und Tromsø", "kolobrzeg"),
        ("nach Kolobrzeg und Tromso", "Tromsø"),
        ("rewritten in C++ last year", "c++"),
        ("a C#, no, an F# program", "F#?"),
        ("opened with notepad++", "notepad"),
        ("NOT\u0301OR*", "NOT\u0301OR*"),
        ("0\U00040000", "0\U00040000"),
    ],
)
def test_it_finds(table, text, query):
    assert found(table, text, query)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("early in the day, a bird", '"early bird"'),
        ("我住在北京市", "东京"),
        ("a test", "rest"),
        ("rewritten in C last year", "C++"),
        ("rewritten in C++ last year", "C#"),
        ("anything", "+++ ?!"),
    ],
)
def test_it_does_not_find(table, text, query):
    assert not found(table, text, query)


def kinds(text):
    return [(str(term.kind), term.text) for term in parse(text).terms]


def test_stop_words_fall_where_others_are_left():
    assert kinds("What is the name of the dog") == [("word", "name"), ("word", "dog")]
    assert kinds("to be or not to be") == [("word", "to"), ("word", "be"), ("word", "or"), ("word", "not")]


@pytest.mark.parametrize(
    ("question", "left"),
    [
        ("Was war die Ursache des Incidents mit den doppelten Abbuchungen?", "Ursache Incidents doppelten Abbuchungen"),
        ("wer muss reviewen", "reviewen"),
        ("Wann ist mein Zahnarzttermin?", "Zahnarzttermin"),
        ("Comment est-ce que nous lançons les tests pour l'API ?", "lançons tests API"),
        ("¿Quién tiene que revisar los cambios sin tests?", "revisar cambios tests"),
        ("come si fa il deploy della pagina?", "fa deploy pagina"),
        ("quem pode aprovar a migração em produção?", "aprovar migração produção"),
        ("wat moet er met de database gebeuren?", "database gebeuren"),
        ("Wo liegt die MIT Lizenz?", "liegt MIT Lizenz"),
        ("die in the war room", "die war room"),
        ("the comment in the door test", "comment door test"),
        ("a hat, a man and a den", "hat man den"),
        # Short names of programs and protocols are words of other languages as well.
        ("es cluster upgrade", "es cluster upgrade"),
        ("why is the sui wallet locked", "sui wallet locked"),
        ("ha proxy", "ha proxy"),
        ("chez scheme", "chez scheme"),
        ("drop na values", "drop na values"),
        ("wie geht es dem Server", "geht Server"),
        ("ha funzionato il deploy", "funzionato deploy"),
    ],
)
def test_function_words_of_the_language_of_a_query_are_not_looked_for(question, left):
    assert [text for kind, text in kinds(question) if kind == "word"] == left.split()


def test_what_is_looked_for_is_told_apart():
    assert kinds('"early bird" snake_case refac*') == [
        ("phrase", "early bird"), ("name", "snake_case"), ("word", "snake"), ("word", "case"), ("prefix", "refac*"),
    ]  # fmt: skip
    assert parse('the "early bird"').phrases[0].kind is TermKind.PHRASE
    assert parse("").terms == parse(" \0 ").terms == ()


@given(st.text(max_size=600), st.lists(st.text(max_size=8), max_size=4))
def test_a_snippet_is_one_line_of_the_text_and_not_longer_than_it_may_be(text, words):
    line = find_passage(text, dict.fromkeys(words, 1.0)).text
    assert len(line.splitlines()) <= 1
    assert len(line) <= LENGTH + 4
    assert line.removeprefix("… ").removesuffix(" …") in " ".join(text.split())


def test_a_snippet_shows_where_most_of_the_words_stand():
    text = "filler words here " * 40 + "the Kumquat HARVEST was réussie " + "more filler " * 40
    line = find_passage("kumquat once. " + text, {"kumquat": 1.0, "harvests": 1.0, "reussie": 1.0}).text
    assert "Kumquat HARVEST was réussie" in line
    assert find_held(text, ["harvests", "reussie", "absent"]) == ["harvests", "reussie"]


def test_texts_that_differ_have_other_digests():
    assert digest_of("a") != digest_of("b")
    assert digest_of("\ud800")


def test_a_word_has_few_other_forms_and_a_name_is_no_part_of_a_compound():
    assert len(list(list_beginnings("ACGT" * 1_000))) < 30
    assert {term.text for term in list_beginnings("Christina")}.isdisjoint({"Chris"})
    assert "Zahnarzt" in {term.text for term in list_beginnings("Zahnarzttermin")}
