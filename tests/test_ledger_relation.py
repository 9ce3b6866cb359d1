"""Who does what to whom: what is true of each word is not true of every way to join them."""

import random

import condensations
import pytest
from honest_statements import STATEMENTS
from hypothesis import given
from hypothesis import strategies as st

from memoryd.ledger.relation import relates, turns_round

BUILDS = ("The build failed on Linux.", "The build passed on Windows.")
HOMES = ("Anna lives in Oslo.", "Bob lives in Bremen.")
PORTS = ("Staging runs on port 8080 and production on port 9090.",)
TAKES = ("The build takes 42 minutes and the tests take 10 minutes.",)
DEBTS = ("Anna owes Bob 500, Carl owes Dora 300.",)
DATABASE = "The database is Postgres 14 and runs on the host Marvin."
UPSIDE_DOWN = [
    # swapped
    ("Bob owes Anna 500.", ("Anna owes Bob 500.",)),
    ("The meeting moved from Tuesday to Monday.", ("The meeting moved from Monday to Tuesday.",)),
    ("The meeting moved to Monday from Tuesday.", ("The meeting moved from Monday to Tuesday.",)),
    ("The API moved from Go to Rust.", ("The API moved from Rust to Go.",)),
    ("Staging runs on port 9090 and production on port 8080.", PORTS),
    ("Python 3.12 is used in staging, 3.11 in production.", ("Python 3.11 is used in staging, 3.12 in production.",)),
    ("The review is on 2026-05-04, the launch on 2026-06-01.",
     ("The review is on 2026-06-01, the launch on 2026-05-04.",)),
    ("Anna lives in Bremen and Bob in Oslo.", HOMES),
    ("Anna lives in Bremen; Bob lives in Oslo.", HOMES),
    ("I live in Oslo and my sister in Bergen.", ("I live in Bergen.", "My sister lives in Oslo.")),
    ("Anna prefers coffee over tea.", ("Anna prefers tea over coffee.",)),
    ("Backups run after the deploy.", ("Backups run before the deploy.",)),
    ("安娜欠鲍勃500", ("鲍勃欠安娜500",)),
    ("Anna wohnt in Bremen und Bob in Oslo.", ("Anna wohnt in Oslo.", "Bob wohnt in Bremen.")),
    # a role turned round
    ("Anna reports to Ben.", ("Ben reports to Anna.",)),
    ("The server restarts the worker.", ("The worker restarts the server.",)),
    ("Anna was hired by Bob.", ("Anna hired Bob.",)),
    ("Anna hired Bob.", ("Anna was hired by Bob.",)),
    ("Anna was hired.", ("Anna hired Bob.",)),
    ("Anna was hired by Bob.", ("I hired Anna.", "Bob hired Carla.")),
    ("Anna hired in May.", ("I hired Anna in May.",)),
    ("Bob is the mother of Anna.", ("Anna is the mother of Bob.",)),
    ("Bob has 500.", ("Anna owes Bob 500.",)),
    ("Anna smokes.", ("Anna does not smoke.",)),
    ("Anna owes Bob nothing.", ("Anna owes Bob 500.",)),
    ("Anna is in Oslo.", ("Anna does not live in Oslo.",)),
    # a value moved
    ("Staging runs on port 9090.", PORTS),
    ("Staging and production run on 8080.", ("Staging runs on 9090 and production runs on 8080.",)),
    ("Staging runs on port 9090.", ("Staging runs on port 8080. Production runs on port 9090.",)),
    ("The build takes 10 minutes.", TAKES),
    ("Anna owes Bob 300.", DEBTS),
    ("Anna owes Dora 300.", DEBTS),
    ("Redis 14 is the cache and Postgres 7 the database.", ("Redis 7 is the cache.", "Postgres 14 is the database.")),
    ("The timeout is 30 s and the limit is 5.", ("The timeout is 5 s and the limit is 30.",)),
    # fused
    ("The build failed on Windows.", BUILDS),
    ("The build failed on Windows.", ("The build failed on Linux. It passed on Windows.",)),
    ("The build failed on Windows.", ("The build failed on Linux but passed on Windows.",)),
    ("Anna lives in Bremen.", HOMES),
    ("Anna moved to Oslo and works at Foo.", ("Anna moved to Oslo.", "Bob works at Foo.")),
    ("Anna moved to Oslo. She works at Foo.", ("Anna moved to Oslo.", "Bob works at Foo.")),
    ("Anna lives in Oslo, Bob in Rome and Bremen.", ("Anna lives in Oslo and Bremen.", "Bob lives in Rome.")),
    ("The nightly build runs on Marvin.", ("The nightly build is slow.", "The nightly backup runs on Marvin.")),
    ("The database runs on Redis 7.", (DATABASE, "The cache of the shop runs on Redis 7.")),
    ("If CI fails, deploy; if it passes, page Anna.", ("If CI passes, deploy; if it fails, page Anna.",)),
    ("Carla (allergic to cats) and Berta (allergic to nuts) visit.",
     ("Carla (allergic to nuts) and Berta (allergic to cats) visit.",)),
    ("a@example.com belongs to Bob.", ("a@example.com belongs to Ann, bob@example.com to Bob.",)),
    ("marvin: 5433, trillian: 5432", ("marvin: 5432, trillian: 5433",)),
    # somebody else's
    ("Anna lives in Oslo.", ("Anna's sister lives in Oslo.",)),
    ("Anna lives in Oslo.", ("The sister of Anna lives in Oslo.",)),
    ("The user lives in Oslo.", ("My sister Carla lives in Oslo.",)),
    ("Anna lives in Oslo.", ("Anna left and I live in Oslo.",)),
    ("Anna stole 300.", ("Anna said Dora stole 300.",)),
    ("Anna stole 300.", ("Anna owes Bob 500 since Dora stole 300.",)),
    ("Marvin takes 42 minutes.", ("The build on Marvin takes 42 minutes.",)),
]  # fmt: skip
HONEST = [
    # as it is, shorter, in other forms of its words
    ("Anna owes Bob 500.", ("Anna owes Bob 500 since May.",)),
    ("Carl owes Dora 300.", DEBTS),
    ("The tests take 10 minutes.", TAKES),
    ("The nightly build took 42 minutes.", ("The nightly build takes 42 minutes.",)),
    ("Nightly builds need 42 minutes.", ("The nightly build takes 42 minutes.",)),
    ("The database runs on the host Marvin.", (DATABASE,)),
    ("The build runs at 3.", ("The nightly build takes 42 minutes on Marvin, and runs at 3.",)),
    ("The team uses Redis and Postgres.", ("The team uses Redis, Kafka and Postgres.",)),
    ("The CI runs lint, type checks and tests.", ("The CI runs lint, tests and type checks.",)),
    ("Staging runs on port 8080, production on port 9090.", PORTS),
    ("The meeting was moved from Monday to Tuesday.", ("The meeting moved from Monday to Tuesday.",)),
    ("The meeting moved to Tuesday.", ("The meeting was moved from Monday to Tuesday.",)),
    ("The cache is invalidated by the worker.", ("The cache is invalidated by the worker every hour.",)),
    ("The service is owned by Berta and Carl.", ("The service is owned by Carl and Berta.",)),
    ("Always run the linter before you commit.", ("Always run the linter before a commit.",)),
    ("Never deploy on a Friday.", ("Do not deploy on Fridays.",)),
    ("The user's sister Carla lives in Oslo.", ("My sister Carla lives in Oslo.",)),
    ("Carla lives in Oslo.", ("My sister Carla lives in Oslo.",)),
    ("Ben lives in Oslo.", ("Ben: I live in Oslo.",)),
    # turned
    ("Postgres 14 is the database, and runs on the host Marvin.", (DATABASE,)),
    ("Postgres 14, the database, runs on the host Marvin.", (DATABASE,)),
    ("The mother of Bob is Anna.", ("Anna is the mother of Bob.",)),
    ("In 2.3.1 the bug was fixed.", ("The bug was fixed in 2.3.1.",)),
    ("Since 2020 Anna works at Foo.", ("Anna works at Foo since 2020.",)),
    ("Orders are kept in Postgres 16.", ("We keep the orders in Postgres 16 because of the reports.",)),
    ("Each night the backups go to the bucket.", ("The backups go to the bucket each night.",)),
    # joined
    ("Anna lives in Oslo and Bob in Bremen.", HOMES),
    ("Anna lives in Oslo, and Bob lives in Bremen.", HOMES),
    ("Anna lives in Oslo; Bob lives in Bremen.", HOMES),
    ("Anna and Bob live in Oslo.", ("Anna lives in Oslo.", "Bob lives in Oslo.")),
    ("The team uses Redis and Postgres.", ("The team uses Redis.", "The team uses Postgres.")),
    ("Anna moved to Oslo and works at Foo.", ("Anna moved to Oslo.", "Anna works at Foo.")),
    ("Anna lives in Oslo.", ("Anna moved. She lives in Oslo now.",)),
    ("Postgres 14 runs on Marvin; the build takes 42 minutes.", (DATABASE, "The nightly build takes 42 minutes.")),
    ("Always use uv, never pip.", ("Always use uv for Python.", "Never use pip in this project.")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sources"), UPSIDE_DOWN)
def test_true_words_that_are_joined_to_something_else_are_not_what_was_said(text, sources):
    assert not relates(text, sources)


@pytest.mark.parametrize(("text", "sources"), HONEST)
def test_what_says_it_shorter_or_of_two_in_one_is(text, sources):
    assert relates(text, sources)


def test_what_honest_people_say_relates_to_itself_and_most_of_how_a_model_would_note_it():
    assert all(relates(said, [said]) for said, _ in STATEMENTS)
    refused = [noted for said, noted in STATEMENTS if not relates(noted, [f"User: {said}"])]
    assert len(refused) <= len(STATEMENTS) // 10, refused


NAMES = ("Anna", "Bob", "Carla", "Dora", "Emil", "Marvin", "Oslo", "Bremen", "Redis", "Kafka", "Friday", "8080", "42")
FRAMES = (
    "{} owes {} a lamp.", "{} was hired by {}.", "The key of {} lies at {}.", "The team moved from {} to {}.",
    "{} runs before {}.", "{} prefers {} over the rest.", "The host {} holds {} in a box, and sleeps.",
    "Nobody sends {} to {}.",
)  # fmt: skip
STATED = st.tuples(st.sampled_from(FRAMES), st.lists(st.sampled_from(NAMES), min_size=2, max_size=2, unique=True))


@given(st.lists(STATED, min_size=1, max_size=4, unique_by=lambda one: one[0]), st.sampled_from((" ", "\n")))
def test_what_is_said_is_what_was_said_alone_and_joined_to_others(stated, gap):
    texts = [frame.format(*names) for frame, names in stated]
    assert relates(gap.join(texts), texts)
    assert relates("; ".join(texts), texts)
    assert relates("; ".join(reversed(texts)), [gap.join(texts)])


@given(STATED, st.lists(STATED, max_size=3))
def test_two_names_of_a_statement_that_change_places_are_never_what_it_says(stated, others):
    frame, names = stated
    others = [each.format(*some) for each, some in others if each != frame]
    assert not relates(frame.format(*reversed(names)), [frame.format(*names), *others])


@given(STATED, STATED)
def test_a_name_of_another_statement_is_never_taken_for_one_of_this(one, other):
    (frame, names), (_, strange) = one, other
    if not {*names} & {*strange} and one[0] != other[0]:
        texts = [each.format(*some) for each, some in (one, other)]
        assert not relates(frame.format(names[0], strange[1]), texts)


def test_a_long_source_of_the_same_words_is_no_trouble():
    words = "the lamp of Anna is near the lamp of Bob "
    draw = random.Random(1)
    assert relates("The lamp of Anna is near the lamp of Bob", [words * 200])
    assert not relates(" ".join(draw.choices(["lamp", "Bob", "Anna"], k=150)), [words * 200])


PIECE = st.sampled_from(
    [
        *NAMES,
        "and",
        ", ",
        ". ",
        "; ",
        "if",
        "by",
        "of",
        "not",
        "nothing",
        "is",
        "was hired",
        "Anna's",
        "I",
        "(",
        ")",
        "每天",
    ]
)


@given(st.lists(PIECE | st.text(max_size=9), max_size=25).map(" ".join), st.lists(st.text(max_size=40), max_size=2))
def test_any_text_is_what_itself_says(text, others):
    assert relates(text, [*others, text])


def test_what_takes_very_many_steps_to_follow_is_refused():
    names = ", ".join(["Anna Bob"] * 60)
    assert relates(names, [names])
    assert not relates(", ".join(["Anna Bob"] * 120), [" ".join(["Anna Bob"] * 2000)])


CHEATS = (("User", "Yesterday Anna secretly cheated Bob at cards."),)
LENDS = (("User", "Bob lent me 50 euros."), ("Assistant", "I asked Bob for the receipt."))
MOVED_BY = (("Caroline", "So I invited Melanie, and Redis 8 replaced Kafka on the old host."),)


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("Bob cheated Anna.", CHEATS),
        ("User: Bob cheated Anna at cards.", CHEATS),
        ("Report: Bob secretly cheated Anna.", CHEATS),
        ("Anna was cheated by Bob.", CHEATS),
        ("Bob cheated Anna.", (("User", "Bob was cheated by Anna."),)),
        ("The user lent Bob 50 euros.", LENDS),
        ("User: I lent Bob 50 euros.", LENDS),
        ("Melanie invited Caroline.", MOVED_BY),
        ("Kafka replaced Redis on the old host.", (("User", "Redis replaced Kafka."),)),
        ("Anna arrived before Bob.", (("", "Bob arrived before Anna."),)),
        ("Bob überwies Anna 500.", (("User", "Anna überwies Bob 500."),)),
    ],
)
def test_a_line_may_not_turn_round_who_does_what_to_whom(text, sources):
    assert turns_round(text, sources)


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("Anna cheated Bob.", CHEATS),
        ("Bob was cheated by Anna.", CHEATS),
        ("Bob cheated Anna.", (*CHEATS, ("User", "And then Bob cheated Anna, too."))),
        ("Bob lent the user 50 euros.", LENDS),
        ("Assistant: I asked Bob for the receipt.", LENDS),
        ("Assistant: Bob asked me for the receipt.", (("User", "I asked Bob for the receipt."),)),
        ("Bob met Anna.", (("User", "Anna met Bob."),)),
        ("Bob lives with Anna.", (("User", "Anna lives with Bob."),)),
        ("Bob is Anna's friend.", (("User", "Anna is Bob's friend."),)),
        ("Anna quickly paid Bob.", (("User", "Bob quickly called Anna."), ("User", "Anna paid Bob."))),
        ("Bob cheated Anna.", ()),
        ("Bob cheated Anna.", (("Report", "Anna cheated Bob " + "x" * 2000),)),
        ("Bob cheated Carla.", CHEATS),
        ("Bob called the user back.", (("User", "I called Bob and he called me back."),)),
        ("The user emailed Bob.", (("User", "Bob emailed me, and so I emailed him."),)),
        ("Bob sent the user the invoice.", (("User", "I sent Bob the order; then he promptly sent me the invoice."),)),
        ("Bob wrote the user an email.", (("User", "I wrote Bob twice. Bob wrote an email to me."),)),
        ("Anna hired Bob.", (("User", "Did Bob hire Anna?"), ("Assistant", "No, the other way round."))),
        ("Anna hired Bob.", (("User", "Bob did not hire Anna, it was the other way round."),)),
        ("Bob never hired Anna.", (("User", "Anna hired Bob."),)),
        ("Bob later called Anna.", (("User", "Anna later hired Bob, who called her."),)),
        ("Compare Redis vs Kafka.", (("User", "Compare Kafka vs Redis."),)),
        ("Anna knows Bob.", (("User", "Bob knows Anna."),)),
        ("Icons are 20 px 10 px.", (("User", "Icons are 10 px 20 px."),)),
    ],
)
def test_what_only_reads_as_if_it_were_turned_round_is_let_be(text, sources):
    assert not turns_round(text, sources)


@pytest.mark.parametrize(("text", "sources"), [*HONEST, *condensations.HONEST])
def test_what_is_said_honestly_in_other_words_turns_nothing_round(text, sources):
    assert not turns_round(text, (("", one) for one in sources))


def test_what_people_say_of_themselves_is_never_turned_round():
    assert not [noted for said, noted in STATEMENTS if turns_round(noted, [("User", said)])]
