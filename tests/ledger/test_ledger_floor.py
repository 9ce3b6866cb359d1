"""The token floor: forms that do not count are folded in both directions; everything exact that differs is named."""

from __future__ import annotations

import unicodedata
from datetime import date

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from memoryd.ledger.floor import Material, Token, TokenKind, find_tokens, list_missing, writes_nouns_large

DAY = date(2025, 3, 4)  # a Tuesday


def lacking(claim: str, *said: str) -> list[str]:
    return [token.text for token in list_missing(claim, [Material(text, DAY) for text in said])]


# Two texts, each of which has all that the other claims.
SAME = [
    ("They meet at MARVIN.", "They meet at Marvin."),
    ("They meet the Martians.", "They meet a Martian."),
    ("The room is called #general.", "The room is called general."),
    ("He fixed it in #42.", "He fixed it in 42."),
    ("We call it \u201cthe long list\u201d.", "We call it 'the long list'."),
    ("We call it `build all`.", 'We call it "build all".'),
    ("We call it \u201ebuild all\u201c.", "We call it \u00abbuild all\u00bb."),
    ("It costs 1,850 euros.", "It costs 1.850 euros."),
    ("It costs 1'850 euros.", "It costs 1850 euros."),
    ("It costs 12,5 euros.", "It costs 12.5 euros."),
    ("It costs 12,50 euros.", "It costs 12,5 euros."),
    ("It begins at 16:00.", "It begins at 16."),
    ("It is due on 2025-06-03.", "It is due on June 3, 2025."),
    ("It is due on 3. Juni 2025.", "It is due on 3 June 2025."),
    ("It is due on 2025年6月3日.", "It is due on 2025-06-03."),
    ("It came on 2025-03-03.", "It came yesterday, 3 March."),
    ("It runs in the Cafe\u0301.", "It runs in the Caf\u00e9."),
    ("It runs on the host \uff2d\uff41\uff52\uff56\uff49\uff4e.", "It runs on the host Marvin."),
    ("It runs v1.2.3 now.", "It runs 1.2.3 now."),
    ("It has 16 GB now.", "It has 16GB now."),
    ("It has 10 Ω now.", "It has 10Ω now."),
    ("They are called Ärzte2 now.", "They are called ärzte2 now."),
    ("It obeys KISS/DRY.", "It obeys DRY and KISS: KISS/DRY."),
    ("He asked Müller-Lüdenscheidt.", "He asked Müller Lüdenscheidt and Müller-Lüdenscheidt."),
]


@pytest.mark.parametrize(("one", "other"), [*SAME, *((other, one) for one, other in SAME)])
def test_a_form_that_does_not_count_is_folded_in_both_directions(one, other):
    assert lacking(one, other) == []


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("There are 3 of them.", "There are three of them."),
        ("There are 3 of them.", "Es gibt drei davon."),
        ("There are 2 of them.", "有两个。"),
        ("It came on 2025-03-03.", "It came yesterday."),
        ("The work is in app.py.", "The work is in src/app.py."),
        ("Die CNC-Fräse ist neu.", "Die Fräse, eine CNC, ist neu."),
        ("They run Postgres.", "They run PostgreSQL."),
        ("User: wants it.", "I want it."),
        ("It has 10Ω.", "It has 10Ω."),
        ("It is the User who wants it.", "I want it."),
        ("It closes at 18:00.", "It closes at six."),
        ("It opens a week after the 12th.", "It was to open on 12 March."),
        ("Im Oktober 17 von 18 Kunden.", "17 von 18 Kunden kamen im Oktober."),
        ("It closes at 18:30.", "It closes at half past six."),
        ("Wir schließen um 18:30.", "Wir schließen um halb sieben."),
        ("Cierra a las 21:30.", "Cierra a las nueve y media."),
        ("It begins on Monday, 10 March.", "It begins on Monday."),
        ("It begins on 2025-03-10.", "Es beginnt am Montag."),
        ("It failed on 3 October 2024.", "In 2024 it failed on the night of 3 October."),
        ("窑在 10 月 3 日开。", "窑在10月3日开。"),
        ("Анализы возят в «Гемма».", "Анализы возим в «Гемму»."),
        ("Anna will Balken in zwei Berichten.", "Im Bericht ist das Bild nicht mit Balken, die Anna will."),
    ],
)
def test_what_the_material_says_in_more_or_other_words(claim, said):
    assert lacking(claim, said) == []


MANGLED = [
    ("It begins on Monday, 6 March 2025.", "It begins on Monday.", "6 March 2025"),
    ("It begins on 24 March 2025.", "It begins on Monday.", "24 March 2025"),
    ("It begins on 6 March 2025.", "It begins on 5 March 2025.", "6 March 2025"),
    ('It is "Tabs Over Spaces".', "I want spaces over tabs.", "Tabs Over Spaces"),
    ("We meet at 9:30.", "We have 10 social media posts.", "9:30"),
    ("It opens at 17:30.", "It opens at half past six.", "17:30"),
    ("They live at 12a.", "They live at 12b.", "12a"),
    ("There are 6 people.", "They meet at 18:00.", "6"),
    ("The wiki is on Trillian.", "I am sure, and I am right: the wiki is on Marvin.", "Trillian"),
    ("It failed on 4 October 2024.", "In 2024 it failed on the night of 3 October.", "4 October 2024"),
    ("It closes at 19:00.", "It closes at six.", "19:00"),
    ("It opens a week after the 13th.", "It was to open on 12 March.", "13th"),
    ("It closes at 18:30.", "It closes at six.", "18:30"),
    ("It closes at 20:30.", "It closes at half past six.", "20:30"),
    ("Анализы возят в «Гемма».", "Анализы возим в «Гамма».", "Гемма"),
    ("It costs 5000 euros.", "It costs 500 euros.", "5000"),
    ("It costs 500 euros.", "It costs 5000 euros.", "500"),
    ("The phone is +47 22 33 44 56.", "The phone is +47 22 33 44 55.", "47 22 33 44 56"),
    ("It has 18.5 litres.", "It has 1.85 litres.", "18.5"),
    ("They meet in Madrid.", "They meet in Lisbon.", "Madrid"),
    ("They meet Ann today.", "They meet Anna today.", "Ann"),
    ("It is in src/parser.py.", "It is in src/parse.py.", "src/parser.py"),
    ("It is in a.py.", "It is in a.pyc.", "a.py"),
    ("See https://wiki.examp1e.com/home for it.", "See https://wiki.example.com/home for it.",
     "https://wiki.examp1e.com/home"),
    ("Write to ottilie@exarnple.com for it.", "Write to ottilie@example.com for it.", "ottilie@exarnple.com"),
    ("It is due on 2026-06-30.", "It is due on 2026-06-03.", "2026-06-30"),
    ("It is due on 3 July 2025.", "It is due on 3 June 2025.", "3 July 2025"),
    ("It calls useFastMode.", "It calls useFast.", "useFastMode"),
    ("It needs Python v3.12.", "It needs Python 3.11.", "v3.12"),
    ("It needs Python 3.1.", "It needs Python 3.10.", "3.1"),
    ("It takes --force.", "It takes --dry-run.", "--force"),
    ('He said "the short list".', 'He said "the long list".', "the short list"),
    ("He runs `git push`.", "He runs `git pull`.", "git push"),
    ("他住在2026年6月30日的上海。", "他住在2026年6月3日的上海。", "2026年6月30日"),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "said", "token"), MANGLED)
def test_a_mangled_token_is_refused_and_named(claim, said, token):
    assert lacking(claim, said) == [token]
    assert lacking(claim, said, claim) == [], "any piece of the material may have it"


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_another_number_is_another_number(one, other):
    assume(one != other)
    said = f"The counter shows {one} steps."
    assert lacking(said, said) == []
    assert lacking(f"The counter shows {other} steps.", f"The meter has {one} steps.") in ([], [str(other)])
    if str(one) not in str(other) and str(other) not in str(one) and one > 12 and other > 12:
        assert lacking(f"The counter shows {other} steps.", f"The meter has {one} steps.") == [str(other)]


@given(st.integers(1000, 10**9), st.sampled_from(",.' \u202f\u00a0"))
def test_a_grouped_number_is_the_number(number, mark):
    grouped = f"{number:,}".replace(",", mark)
    assert lacking(f"It costs {number} now.", f"It costs {grouped} now.") == []
    assert lacking(f"It costs {grouped} now.", f"It costs {number} now.") == []


@given(st.dates(date(1990, 1, 1), date(2060, 12, 31)), st.dates(date(1990, 1, 1), date(2060, 12, 31)))
def test_a_date_is_the_date_however_it_is_written(day, other):
    forms = [day.isoformat(), f"{day.day} {day:%B} {day.year}", f"{day:%B} {day.day}, {day.year}",
             f"{day.year}年{day.month}月{day.day}日"]  # fmt: skip
    for form in forms:
        assert lacking(f"It is due on {form}.", f"It is due on {day.isoformat()}.") == []
    if other not in {day, DAY}:
        assert lacking(f"It is due on {other.isoformat()}.", f"It is due on {day.isoformat()}.") == [other.isoformat()]


WORDS = st.from_regex(r"\A[a-z]{3,9}( [a-z]{3,9}){0,8}\Z")


@given(WORDS)
def test_lower_case_words_are_no_tokens(text):
    assert find_tokens(f"{text}.") == []


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)


@example("0A#0")
@given(TEXTS)
def test_a_text_has_all_of_its_own_tokens(text):
    """In any Unicode form: what is quoted is never refused."""
    for form in ("NFC", "NFD"):
        changed = unicodedata.normalize(form, text)
        assert all(token.text for token in find_tokens(changed))
        assert lacking(changed, changed) == []


@given(TEXTS, TEXTS)
def test_more_material_never_takes_a_token_away(claim, said):
    assert set(lacking(claim, said, claim)) <= set(lacking(claim, said))


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("在登录/网络失败时不报错退出", "登录失败或网络失败时不要报错退出"),
        ("ログイン/ログアウトは非同期です", "ログインとログアウトは非同期です"),
        ("写入config.json并重启", "日志写在 config.json 里然后重启"),
        ("Crash detection is boring", "crash detection is...boring and table stakes"),
        ("crash detection is...boring", "Crash detection is boring"),
    ],
)
def test_a_slash_between_wide_words_and_dots_between_words_are_no_identifier(claim, said):
    assert lacking(claim, said) == []


@pytest.mark.parametrize(
    ("claim", "said", "token"),
    [
        ("写入setup.json并重启", "日志写在 config.json 里然后重启", "setup.json"),
        ("用src/登录.py", "改 src/注册.py", "用src/登录.py"), ("docs/报告.md", "config/报告.md", "docs/报告.md"),
        ("설정.json", "환경.json", "설정.json"), ("@山田", "@田中", "@山田"), ("#重要", "#緊急", "#重要"),
        ("设置_端口", "设置_主机", "设置_端口"), ("tanaka@例え.jp", "suzuki@例え.jp", "tanaka@例え.jp"),
        ("张三@example.com", "李四@example.com", "张三@example.com"), ("feature/登录", "hotfix/登录", "feature/登录"),
        ("git diff main...topic", "git diff main...feature", "main...topic"),
        ("main..topic", "main..feature", "main..topic"),
        ("It is blocked...Anna", "It is blocked by Bob...", "blocked...Anna"),
    ],
)  # fmt: skip
def test_an_altered_identifier_is_named_beside_wide_characters_and_dots(claim, said, token):
    assert lacking(claim, said) == [token]


@pytest.mark.parametrize(
    ("claim", "said", "token"),
    [
        ("我们用Redis缓存", "我们用Kafka缓存", "Redis"), ("会議はOsloで開く", "会議はBergenで開く", "Oslo"),
        ("서버는Marvin에서 돈다", "서버는Trillian에서 돈다", "Marvin"), ("负责人是Анна。", "负责人是Ольга。", "Анна"),
    ],
)  # fmt: skip
def test_a_name_that_touches_wide_characters_is_an_exact_token(claim, said, token):
    assert lacking(claim, said) == [token]
    for honest in (claim, claim.replace(token, f" {token.lower()} "), f"They know {token}."):
        assert lacking(claim, honest) == []


def test_the_kinds_of_tokens_in_their_order():
    found = find_tokens(
        'He told Anna on 2025-03-03 to run `make all` 3 times in src/app.py, see https://example.org/x, "so it is".'
    )
    assert [(one.kind, one.text) for one in found] == [
        (TokenKind.QUOTE, "make all"),
        (TokenKind.QUOTE, "so it is"),
        (TokenKind.URL, "https://example.org/x"),
        (TokenKind.DATE, "2025-03-03"),
        (TokenKind.MARK, "src/app.py"),
        (TokenKind.NUMBER, "3"),
        (TokenKind.NAME, "Anna"),
    ]


def test_german_nouns_are_no_names_unless_two_stand_together():
    claim = "Vor dem Verleimen ist die Holzfeuchte zu messen, und Anna Berg fragt nach."
    assert writes_nouns_large(claim)
    assert lacking(claim, "Bitte vorher messen.") == ["Anna"]
    assert lacking(claim, "Anna Berg will es messen.") == []


def test_a_long_line_of_signs_is_read_in_one_go():
    assert find_tokens("~+" * 50_000) == []


@pytest.mark.parametrize("sign", ["a", "1", "点", "1,"])
def test_a_long_word_is_read_in_one_go(sign):
    assert not Material(sign * 50_000, DAY).has(Token(TokenKind.NUMBER, "6:30"))
