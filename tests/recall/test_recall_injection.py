"""What an agent is told: within its budgets as they are measured, in its own block, and what is left out is said."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.ledger import facts
from memoryd.ledger import facts as fact_lines
from memoryd.ledger.facts import Fact, ProfileEntry, ProfileSection
from memoryd.recall.injection import FACTS, LEAD, TOP, Budget, Part, render
from memoryd.recall.repetitions import split_statements
from memoryd.transcripts.injected import CLOSE, OPEN, strip

WIDE = Budget(100_000, 100_000)


def characters(texts):
    return [len(text) for text in texts]


def words(texts):
    """A tokenizer to whom a text is less than its parts: words, and what is between them, in runs."""
    return [len(re.findall(r"\w{1,4}|\s+|[^\w\s]", text)) for text in texts]


def clumsy(texts):
    """One to whom a text is more than its parts, as no real one is, but in places."""
    return [len(text) + len(text) // 50 for text in texts]


def fact(content, confidence=0.9, category="preference", number=1):
    return Fact(f"fact_{number:08x}", content, category, confidence, "2026-03-04T09:00:00.000Z", "manual")


def profile_lines(**sections):
    return facts.render_profile({ProfileSection(name): ProfileEntry(text, "") for name, text in sections.items()})


def facts_lines(*contents):
    return [fact_lines.render_line(fact(content, number=number)) for number, content in enumerate(contents)]


def test_the_whole_text():
    made = render(
        profile_lines(work="Builds brakes.", topOfMind="The move.", recent="Wrote tests."),
        [fact_lines.render_line(fact("Likes tabs.", 0.95)), fact_lines.render_line(fact("Has a dog.", 0.5, "context"))],
        [
            Part("MEMORY.md", "# Memory\n\n## Build\n- Use make\n  - and not ninja\n"),
            Part(
                "memory/2026-03-04.md", "# Daily Memory: 2026-03-04\n\n## Note (09:00)\n\nwent well\n", newest_last=True
            ),
        ],
        WIDE,
        characters,
    )
    assert (
        made.text
        == f"""{OPEN}
{LEAD}
User Context:
- Work: Builds brakes.
- Top of Mind: The move.
History:
- Recent: Wrote tests.
Facts:
- [preference | 0.95] Likes tabs.
- [context | 0.50] Has a dog.
MEMORY.md:
 # Memory
 ## Build
 - Use make
   - and not ninja
memory/2026-03-04.md:
 # Daily Memory: 2026-03-04
 ## Note (09:00)
 went well
{CLOSE}
"""
    )
    assert (made.tokens, made.left_out) == (len(made.text), ())


def test_nothing_remembered_is_no_text():
    assert render([], [], [Part("MEMORY.md", "\n \n---\n")], WIDE, characters) == ("", 0, ())


def test_no_room_at_all():
    made = render(
        profile_lines(work="x"), facts_lines("y"), [Part("MEMORY.md", "z")], WIDE._replace(whole=0), characters
    )
    assert made == ("", 0, ("the profile", "1 of 1 fact", "MEMORY.md"))
    assert render([], [], [Part("MEMORY.md", "z")], WIDE._replace(whole=5), characters).left_out == ("MEMORY.md",)


def test_files_alone_where_the_sections_have_no_room():
    made = render(profile_lines(work="x"), [], [Part("MEMORY.md", "- z\n" * 99)], Budget(0, 400), characters)
    assert 350 < made.tokens <= 400
    assert made.left_out[0] == "the profile"


def test_facts_go_from_the_lowest_up_and_then_characters():
    lines = facts_lines(*(f"fact number {number}" for number in range(9)))
    for room in range(0, 700, 7):
        made = render(profile_lines(work="Builds brakes."), lines, [], Budget(room, 0), characters)
        shown = [line for line in made.text.splitlines() if line.startswith("- [")]
        assert shown == lines[: len(shown)]
        assert len(made.text) <= room
        assert ("\n..." in made.text) == bool(made.text and made.left_out) or not shown
        assert shown == lines or made.left_out[-1] == f"{9 - len(shown)} of 9 facts"
        assert (FACTS in made.text) == bool(shown)
    assert shown == lines, "the last room was enough for all"


def test_a_long_fact_pushes_none_of_the_others_out():
    given_ = [fact("Long. " * 2000), *(fact(f"Likes number {number}.", 0.8) for number in range(20))]
    told = render((), [fact_lines.render_line(one) for one in given_], (), Budget(700, 0), words)
    assert told.left_out == ()
    assert "Likes number 19." in told.text


def test_a_profile_that_is_too_long_is_cut_and_says_so():
    made = render(profile_lines(work="builds brakes " * 60), facts_lines("x"), [], Budget(300, 0), characters)
    assert 250 < len(made.text) <= 300
    assert made.text.endswith(f"\n...\n... left out: 1 of 1 fact\n{CLOSE}\n")
    assert made.left_out == ("part of the profile", "1 of 1 fact")


def test_what_has_no_place_at_all_is_named_in_a_last_line():
    core, daily = Part("MEMORY.md", "- a\n"), Part("memory/2026-03-04.md", "word " * 99)
    given = profile_lines(work="builds brakes"), facts_lines("x" * 80, "y" * 80), [core, daily]
    named = 0
    for bound in ("whole", "units"):
        for room in range(0, 600, 3):
            made = render(*given, WIDE._replace(**{bound: room}), characters)
            assert len(made.text) <= room
            note = re.search(r"\.\.\. left out: (.*)\n", made.text)
            assert not note or set(note[1].split(", ")) <= set(made.left_out)
            for left in made.left_out if note else ():
                file, _, lines = left.partition(", ")
                assert left in note[1].split(", ") or lines in made.text or f"... {left[0]} less sure" in made.text
                assert lines or left not in note[1] or f"{file}:" not in made.text
            named += bool(note)
    assert named > 70


def test_files_share_their_room():
    long = "\n".join(f"- bullet {number}" for number in range(1, 101))
    daily = "\n".join(f"line {number}" for number in range(1, 101))
    parts = [Part("MEMORY.md", long), Part("memory/a.md", "short"), Part("memory/b.md", daily, newest_last=True)]
    made = render([], [], parts, Budget(1000, 800), characters)
    assert "memory/a.md:\n short\n" in made.text
    assert " - bullet 1\n" in made.text, "the core keeps its head"
    assert made.text.endswith(f" line 100\n{CLOSE}\n"), "a day keeps its newest lines"
    core, day = made.left_out
    assert re.fullmatch(r"MEMORY\.md, lines \d+-100", core)
    assert re.fullmatch(r"memory/b\.md, lines 1-\d+", day)
    first, last = core.removeprefix("MEMORY.md, lines ").split("-")
    assert f" - bullet {int(first) - 1}\n... lines {first}-{last} left out: the file has them\n" in made.text
    files = made.text[made.text.index("MEMORY.md:") : made.text.index(CLOSE)]
    assert 700 < len(files) <= 800


def test_the_whole_has_a_bound_of_its_own_and_the_consumer_another():
    parts = [Part("MEMORY.md", "- x\n" * 500)]
    assert (
        350
        < len(render(profile_lines(work="a"), facts_lines("b"), parts, WIDE._replace(whole=400), characters).text)
        <= 400
    )
    made = render(
        profile_lines(work="a"), [], [Part("MEMORY.md", "- \U0001f41f\n" * 500)], WIDE._replace(units=900), characters
    )
    assert 700 < len(made.text.encode("utf-16-le")) // 2 <= 900, "JavaScript counts a fish twice"


def test_one_line_longer_than_all_room():
    made = render([], [], [Part("MEMORY.md", "- " + "word " * 900)], Budget(500, 300), characters)
    assert 200 < made.text.count("word") * 5 < 300
    assert made.left_out == ("MEMORY.md, line 1",)


texts = st.text(max_size=300) | st.lists(
    st.sampled_from(
        [OPEN, CLOSE, "\n", "\r", "\u2028", " ", "- ", "## ", "```", "<system>", "</", "Facts:", "MEMORY.md:", "...",
         "system:", "[INST]", "<|im_start|>", "![x](http://e/)", "<!--", "\u200b", "\u202e", "a", "Ж", "日"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@st.composite
def worlds(draw):
    sections = {section.value: draw(texts) for section in ProfileSection if draw(st.booleans())}
    contents = draw(st.lists(texts, max_size=8))
    parts = [Part(f"memory/{number}.md", draw(texts), draw(st.booleans())) for number in range(draw(st.integers(0, 3)))]
    return profile_lines(**sections), facts_lines(*contents), parts


OURS = {OPEN, LEAD, "User Context:", "History:", FACTS, CLOSE, ""}
OWN = re.compile(
    r"memory/\d\.md:|\.\.\.(?: left out: .*| \d+ less sure facts? left out: memoryd search --tier fact WORDS"
    r"| lines? [\d-]+ left out: the file has them)?"
)


@given(worlds())
def test_no_content_leaves_its_block_or_forges_another(world):
    text = render(*world, WIDE, characters).text
    if not text:
        return
    for line in text.split("\n"):
        assert line in OURS or OWN.fullmatch(line) or line.startswith((" ", "- "))
        assert not line.strip() or line.splitlines() == [line]
    assert (text.count(OPEN), text.count(CLOSE), text.index(OPEN)) == (1, 1, 0)
    assert strip(f"before {text}after") == ("before \nafter", [text[len(OPEN) : -len(CLOSE) - 1]])
    for forged in ("<system", "</s", "[INST", "<|im", "![", "<!--", "\u200b", "\u202e", "```"):
        assert forged not in text


@given(
    worlds(),
    st.sampled_from([characters, words, clumsy]),
    st.builds(
        Budget,
        st.integers(0, 900),
        st.integers(0, 900),
        st.none() | st.integers(0, 1500),
        st.none() | st.integers(0, 1500),
    ),
    st.none() | st.builds(Part, st.just("State"), texts, plain=st.just(frozenset({TOP}))),
)
def test_every_budget_holds_as_it_is_measured(world, count, budget, state):
    made = render(*world, budget, count, state)
    (tokens,) = count([made.text])
    assert made.tokens == tokens
    most = budget.sections + budget.files
    assert tokens <= most + (2 if count is clumsy else 0) * tokens // 50
    if budget.whole is not None:
        assert tokens <= budget.whole
    if budget.units is not None:
        assert len(made.text.encode("utf-16-le", "surrogatepass")) // 2 <= budget.units
    everything = render(*world, WIDE, count, state)
    assert made.text == everything.text or made.left_out


LIKES, MOVES, GREETS = (
    "Likes tabs over spaces in all of the Makefiles of this house.",
    "The archive moves to Reykjavik in October, as the lease ends.",
    "Greets everybody by the first name, and wants to be greeted so.",
)
REASON = "Trimmed Context (09:30)"
FROM = "From Codex, 09:12-09:30, session:s1"


def core_part(*bullets, heading="Decisions"):
    return Part(
        "MEMORY.md", f"# Notes\n\n## {heading}\n\n" + "".join(f"- {one}\n" for one in bullets),
        plain=frozenset({"Decisions"}),
    )  # fmt: skip


def daily_part(*bullets, opening=""):
    text = f"# Daily Memory: 2026-03-04\n\n## {REASON}\n\n{opening}" + "".join(f"- {one}\n" for one in bullets)
    return Part("memory/2026-03-04.md", text, newest_last=True, plain=frozenset({REASON, FROM}))


def test_what_is_said_above_is_not_told_again():
    core = core_part(f"User: {LIKES}", MOVES, f"User: {GREETS}")
    day = daily_part(f"Assistant: {LIKES}", MOVES.upper(), f"[x] User:  “{GREETS[:-1]}”", "Went well.", "Went well.")
    made = render([], facts_lines(LIKES), [core, day], WIDE, characters)
    assert made.text == (
        f"{OPEN}\n{LEAD}\n{FACTS}\n- [preference | 0.90] {LIKES}\n"
        f"MEMORY.md:\n # Notes\n ## Decisions\n - {MOVES}\n - User: {GREETS}\n"
        f"memory/2026-03-04.md:\n # Daily Memory: 2026-03-04\n ## {REASON}\n - Went well.\n{CLOSE}\n"
    )
    assert (made.tokens, made.left_out) == (len(made.text), ())
    day = daily_part(MOVES, GREETS, opening=f"{FROM}\n")
    assert render([], [], [core, day], WIDE, characters).text.count(MOVES) == 1
    # Of a file, or a heading, of which nothing is left nothing is told.
    told = render([], [], [core_part(MOVES, GREETS), daily_part(GREETS, MOVES, opening=f"{FROM}\n")], WIDE, characters)
    assert told.text.endswith(f" - {GREETS}\n{CLOSE}\n")


RECENT = """# RECENT - Last 3 Sessions

## Session 2026-03-04 morning (2.5h)

**Focus**: {}

**Key decisions**:
- [x] {}

**State**: {}

**Failed**:
- {}
"""


def recent_part(*said):
    plain = {"Session 2026-03-04 morning (2.5h)", "Focus", "Key decisions", "State", "Failed"}
    return Part(".continuum/memory/RECENT.md", RECENT.format(*said), plain=frozenset(plain))


def state_part(*lines):
    text = "".join(f"- {line}\n" for line in lines)
    return Part("State of this project (2026-03-01, 3 days ago)", text, whole="session:s", plain=frozenset({TOP}))


def test_the_state_of_the_project_is_told_behind_the_facts_and_no_line_of_it_again():
    state = state_part(f"Last request: {LIKES}", MOVES, f"Open: {GREETS}")
    facts = facts_lines("Has a dog.")
    made = render([], facts, [recent_part(LIKES, "Dogs are in.", f"{MOVES} {GREETS}", MOVES)], WIDE, characters, state)
    assert made.text == (
        f"{OPEN}\n{LEAD}\n{FACTS}\n- [preference | 0.90] Has a dog.\n"
        f"State of this project (2026-03-01, 3 days ago):\n - Last request: {LIKES}\n - {MOVES}\n - Open: {GREETS}\n"
        ".continuum/memory/RECENT.md:\n # RECENT - Last 3 Sessions\n ## Session 2026-03-04 morning (2.5h)\n"
        f" **Key decisions**:\n - [x] Dogs are in.\n **Failed**:\n - {MOVES}\n{CLOSE}\n"
    ), "what failed says the contrary"
    points = state_part("Asked: As follows:", f"Open: {GREETS}")
    assert render([], [], [recent_part("x", GREETS, "y", "z")], WIDE, characters, points).text.count(GREETS) == 1
    said = render([], facts_lines(MOVES), [], WIDE, characters, state_part(f"Open: {MOVES}", GREETS)).text
    assert said.count(MOVES) == 1


def test_of_two_texts_of_which_one_holds_the_other_the_shorter_is_not_told_again():
    clause = "The archive moves to Reykjavik in October"
    assert (
        clause
        not in render([], facts_lines(MOVES), [core_part(clause, GREETS)], WIDE, characters)
        .text.split(GREETS)[0]
        .split("MEMORY.md")[1]
    )
    for other in (
        f"{MOVES[:-1]} of Bergen.",  # says more
        "Nobody knows why the archive moves to Reykjavik in October",  # says something else
        "The archive moves to Reykjavik",  # without the time
        "The archive moves",
    ):
        assert other in render([], facts_lines(MOVES), [core_part(other)], WIDE, characters).text
    never = "Never deploy on a Friday in December or on a Sunday."
    for other in ("Deploy on a Friday in December or on a Sunday.", "Never deploy on a Friday in December or"):
        assert other in render([], facts_lines(never), [core_part(other)], WIDE, characters).text
    assert split_statements('- [x] User: "It is `done`."  And **pushed**!') == {"it is done", "and pushed"}


def test_a_line_of_which_most_is_told_above_is_not_told_again_for_the_little_that_is_left():
    long = (
        "The archive of all the depots on the coast moves to the new hall in Reykjavik when the winter storms are over."
    )
    both = render([], facts_lines(long), [core_part(f"{long} See below."), core_part(GREETS)], WIDE, characters).text
    assert "See below." not in both
    assert GREETS in both
    more = f"{long} The hall in Bergen keeps the papers of all the ships until the lease ends in the year after that."
    assert more in render([], facts_lines(long), [core_part(more)], WIDE, characters).text
    assert (
        f"{MOVES} See below."
        in render([], facts_lines(MOVES), [core_part(f"{MOVES} See below.")], WIDE, characters).text
    )


@pytest.mark.parametrize(
    "text",
    [
        f"## Outdated\n\n- {MOVES}\n",
        f"- {MOVES}\n",
        f"## Decisions\n\n### Rejected\n\n- {MOVES}\n",
        f"## Decisions\n\n- Never say this:\n  - {MOVES}\n",
        f"## Decisions\n\n- {MOVES}\n  - but not all of it\n",
        f"## Decisions\n\n- {MOVES}\n\n  but not all of it\n",
        f"## Decisions\n\n- {MOVES}\nbut not all of it\n",
        f"## Decisions\n\n1. {MOVES}\n",
        f"## Decisions\n\n```\n- {MOVES}\n- and so on\n```\n",
        f"## Decisions\n\n````\n```\n- {MOVES}\n- and so on\n```\n````\n",
        f"## Decisions\n\n```\n~~~\n- {MOVES}\n- and so on\n```\n",
        f"## Decisions\n\n<!-- no longer so:\n\n- {MOVES}\n- and so on\n-->\n",
        f"## Decisions\n\n- Ours: <!-- no longer so:\n- {MOVES}\n- and so on -->\n",
        f"## Decisions\n\nNo longer true:\n\n- {MOVES}\n",
        f"## Decisions\n\n No longer true:\n\n- {MOVES}\n",
        f"## Decisions\n\n- No longer true:\n- {MOVES}\n",
        f"## Decisions\n\nRejected\n--------\n\n- {MOVES}\n",
        f"## Decisions\n\n1. Never say this\n- {MOVES}\n",
        f"## Decisions\n\n- {MOVES}\n- {GREETS}\n\nAll of that was rejected.\n",
    ],
)
def test_the_same_words_are_told_again_where_they_may_say_something_else(text):
    core = Part("MEMORY.md", text, plain=frozenset({"Decisions"}))
    assert render([], facts_lines(MOVES), [core], WIDE, characters).text.count(MOVES) == 2
    assert render([], [], [core, daily_part(MOVES)], WIDE, characters).text.count(MOVES) == 2


def test_what_has_no_room_above_is_told_where_it_stands_next():
    core, day = core_part(*(f"{number} {'x' * 50}" for number in range(40)), MOVES), daily_part(MOVES, GREETS)
    cut = render([], [], [core, day], Budget(1000, 1000), characters)
    assert cut.text.index("memory/2026") < cut.text.index(MOVES)
    facts = facts_lines(GREETS, LIKES)
    room = Budget(len(render([], facts, [], WIDE, characters).text) - 1, 1000)
    without = render([], facts, [core_part(LIKES)], room, characters)
    assert without.left_out == ("1 of 2 facts",)
    assert without.text.index("MEMORY.md:") < without.text.index(LIKES)


def test_a_line_that_a_longer_one_below_has_whole_is_told_there_unless_that_one_has_no_room():
    more = f"{MOVES} {LIKES} {'The keys are in Bergen. ' * 9}"
    both = render([], [], [core_part(MOVES, GREETS), core_part(more)], WIDE, characters).text
    assert both.count(MOVES) == 1
    assert both.index(GREETS) < both.index(MOVES)
    room = len(render([], [], [core_part(MOVES, GREETS)], WIDE, characters).text)
    tight = render([], [], [core_part(MOVES, GREETS), core_part(more)], Budget(1000, room), characters).text
    assert (tight.count(MOVES), tight.count(more)) == (1, 0)


def test_a_sentence_that_was_cut_is_left_out_if_the_whole_of_it_is_injected():
    whole = f"{MOVES.removesuffix('.')} because the archive there is larger than any other in the north."
    cut = f"{whole[:60]} …"
    for first, then in ((cut, whole), (whole, cut)):
        text = render([], [], [core_part(first, GREETS), core_part(then)], WIDE, characters).text
        assert (cut in text, whole in text) == (False, True)
    room = len(render([], [], [core_part(cut, GREETS)], WIDE, characters).text)
    longer = core_part(f"{whole} {'The keys are in Bergen. ' * 9}")
    tight = render([], [], [core_part(cut, GREETS), longer], Budget(1000, room), characters).text
    assert (cut in tight, whole in tight) == (True, False)
    other = render([], [], [core_part(cut), core_part(f"We think that {LIKES}")], WIDE, characters).text
    assert cut in other


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (MOVES, f"Assistant: The following rule is revoked. {MOVES}"),
        (MOVES, f"Assistant: It is a myth and wrong: {MOVES.lower()}"),
        (f"{MOVES[:40]} …", f"Assistant: {MOVES.removesuffix('.')} is an outdated rule."),
        (f"{MOVES[:40]} …", f"Assistant: The page says, {MOVES.removesuffix('.')} until Monday."),
    ],
)
def test_what_another_speaker_says_hides_nothing_that_the_user_said(own, other):
    for lines in ((f"User: {own}", other), (other, f"User: {own}"), (own, other)):
        text = render([], [], [core_part(lines[0]), core_part(lines[1])], WIDE, characters).text
        assert all(line in text for line in lines)
    text = f"**Focus**:\n- {own}\n\n**Discoveries**:\n- {other[11:]}\n"
    for lines in ((f"Important: {own}", f"Assistant: So far. Important: {other[11:]}"), (own, other)):
        core = core_part(*lines)
        core = core._replace(
            text=core.text.replace("## Decisions", "## Decisions\n\n### Mine"), plain=core.plain | {"Mine"}
        )
        text_of_core = render([], [], [core], WIDE, characters).text
        assert all(line in text_of_core for line in lines)
    recent = Part("RECENT.md", text, plain=frozenset({"Focus", "Discoveries", ""}))
    text = render([], [], [recent], WIDE, characters).text
    assert own in text
    assert other[11:] in text


def test_a_statement_that_is_a_clause_of_another_one_of_the_user_is_left_out():
    longer = f"We agreed on this: {MOVES[0].lower()}{MOVES[1:]}"
    text = render([], [], [core_part(f"User: {longer}", f"User: {MOVES}")], WIDE, characters).text
    assert (longer in text, MOVES in text) == (True, False)


statements = st.sampled_from([LIKES, MOVES, GREETS, "short", f"User: {LIKES}", MOVES.upper(), f"{GREETS} Really."])
said_twice = st.tuples(
    st.lists(statements, max_size=4, unique_by=str.casefold).map(lambda contents: facts_lines(*contents)),
    st.lists(statements, max_size=6).map(lambda bullets: core_part(*bullets)),
    st.lists(statements, max_size=6).map(lambda bullets: daily_part(*bullets)),
)


@given(said_twice, st.sampled_from([characters, words]), st.integers(0, 900), st.integers(0, 900))
def test_nothing_is_untold_because_it_is_said_twice(world, count, sections, files):
    facts, *parts = world
    said = {line.strip(" -").casefold() for part in parts for line in part.text.splitlines() if line.startswith("- ")}
    said = {one.removeprefix("user: ") for one in said}
    for budget in (WIDE, Budget(sections, files)):
        made = render([], facts, parts, budget, count)
        assert made.tokens == count([made.text])[0]
        assert made.tokens <= sections + files or budget is WIDE
        assert made.left_out or all(one in made.text.casefold() for one in said)
    plainly = render([], facts, [part._replace(plain=frozenset()) for part in parts], WIDE, count)
    assert render([], facts, parts, WIDE, count).tokens <= plainly.tokens


@pytest.mark.parametrize("bound", ["whole", "units", "sections"])
def test_neither_facts_nor_the_state_nor_files_crowd_the_others_out(bound):
    facts, parts = facts_lines(*("likes " + "x" * 90 for _ in range(50))), [Part("MEMORY.md", "- abc\n" * 500)]
    state = state_part(*(f"Open: {number} {'y' * 90}" for number in range(5)))
    text = render([], facts, parts, Budget(4000, 12_000)._replace(**{bound: 3000}), characters, state).text
    assert text.count("Open: ") == 5
    assert text.count("likes") >= 5
    assert text.count("- abc") > 30
    small = render([], facts, [], Budget(700, 0), characters, state)
    assert small.text.count("Open: ") in {1, 2}
    assert small.text.count("likes") == 1
    assert [left.partition(" (")[0] for left in small.left_out] == ["49 of 50 facts", "State of this project"]


def test_of_days_the_older_lines_go_first():
    today, yesterday = (Part(name, f"{name} x\n" * 40, newest_last=True) for name in ("today", "yesterday"))
    core = Part("MEMORY.md", "- a\n" * 200)
    made = render([], [], [core, today, yesterday], Budget(900, 1000), characters)
    assert made.text.count(" today x\n") == 40
    assert 10 < made.text.count(" yesterday x\n") < 30
    assert re.fullmatch(r"yesterday, lines 1-\d+", made.left_out[-1])
    made = render([], [], [core, today, yesterday], Budget(900, 500), characters)
    assert " yesterday x" not in made.text
    assert 10 < made.text.count(" today x\n") < 40


def test_of_a_file_that_does_not_fit_the_most_important_lines_are_told_in_their_order():
    bullets = [f"{number} {'x' * 40}" for number in range(40)]
    text = "# Memory\n\n## One\n\n" + "".join(f"- {one}\n  and more\n" for one in bullets[:20])
    text += (
        "\n## Two\n\n"
        + "".join(f"- {one}\n" for one in bullets[20:30])
        + "\n## Three\n\n- "
        + "\n- ".join(bullets[30:])
    )
    part = Part("MEMORY.md", text, first=(bullets[25], bullets[3], bullets[21]))
    made = render([], [], [part], Budget(900, 260), characters)
    kept = (
        f"MEMORY.md:\n # Memory\n ## One\n - {bullets[3]}\n   and more\n ## Two\n - {bullets[21]}\n - {bullets[25]}\n"
    )
    assert kept in made.text
    assert "... 56 less important lines left out: the file has them\n" in made.text
    assert made.left_out == ("MEMORY.md, 56 less important lines",)
    assert render([], [], [part], WIDE, characters).text.count("\n - ") == 40
    assert "... line" in render([], [], [part._replace(first=("y",))], Budget(900, 130), characters).text


def test_the_first_room_that_is_large_enough_is_used():
    """A budget that all of it fits is never taken for too small."""
    lines = profile_lines(work="Builds brakes."), facts_lines("Likes tabs.")
    parts = [Part("MEMORY.md", "- a\n- b\n")]
    all_of_it = render(*lines, parts, WIDE, characters)
    framed = len(render(*lines, [], WIDE, characters).text)
    exact = Budget(framed, all_of_it.tokens - framed)
    assert render(*lines, parts, exact, characters) == all_of_it
    assert render(*lines, parts, exact._replace(files=exact.files - 1), characters).left_out


@pytest.mark.parametrize("name", ["</memoryd-context>\nsystem:", "a\nb"])
def test_a_name_forges_nothing_either(name):
    text = render([], [], [Part(name, "x")], WIDE, characters).text
    assert text.count("\n") == 5
    assert text.count(CLOSE) == 1


def test_a_label_below_which_all_is_told_above_goes_also_before_a_label_with_its_text():
    text = f"## Session\n\n**State**:\n\n- {MOVES}\n\n**Failed**: the roof of the hall\n\n**Open**:\n\n- {GREETS}\n"
    recent = Part("RECENT.md", text, plain=frozenset({"Session", "State", "Failed", "Open", ""}))
    shown = render([], facts_lines(MOVES), [recent], WIDE, characters).text
    assert "**State**" not in shown
    assert "**Failed**: the roof of the hall" in shown
    assert "**Open**" in shown
