"""What forgetting comes to: which memories go, which stay and on what, and what is cut out of texts."""

import re
from dataclasses import asdict
from hashlib import sha256
from itertools import count

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from ledger_world import World, core_memory, source, time_of

from memoryd.ledger import forgetting, text_removal
from memoryd.ledger.forgetting import SectionVersion
from memoryd.ledger.memory import Ending, MemoryKind, hash_of
from memoryd.ledger.operation import Add, Delete, Merge, Update
from memoryd.ledger.text_removal import MARK, AppendedBlock, TextRemoval, cut_of, cut_of_row, lines_of, spare_texts
from memoryd.tiers import core, daily

A, B = source(1, session="a"), source(2, session="b")


def says(word):
    """Whether texts that hold this word are grounded."""
    return lambda text, sources, parents: word in text and bool(sources or parents)


def nothing(text, sources, parents):
    return False


def all_of(*memories):
    return {one.id: one for one in memories}


def became(verdict):
    return verdict.erased, set(verdict.kept), set(verdict.restored)


def test_with_a_memory_goes_what_it_was_and_what_says_the_same():
    was = core_memory(1, "uses the tab key", ended_as=Ending.SUPERSEDED, deleted_at="x", successors=("core_00000002",))
    now = core_memory(2, "indents with tabs everywhere")
    same = core_memory(3, "User: Indents with  TABS everywhere.", kind=MemoryKind.FACT)
    longer = core_memory(4, "Anna never indents with tabs everywhere; the production password rotates on Mondays")
    other = core_memory(5, "tabs are nice")
    held = all_of(was, now, same, longer, other)
    verdict = forgetting.of_memory(held, now.id, {}, nothing)
    assert verdict.erased == {
        now.id: forgetting.NAMED, was.id: forgetting.BECAME, same.id: forgetting.SAYS_IT,
    }  # fmt: skip
    assert forgetting.of_memory(held, other.id, {other.id: ["Uses the tab key"]}, nothing).erased.keys() == {
        other.id,
        was.id,
    }


def test_what_was_merged_from_it_stays_where_the_others_say_it_and_else_they_come_back():
    world = World()
    one, two = (
        world.do("r", Add(MemoryKind.CORE, text, cites=(at,)))[0].after
        for text, at in (("uses tabs", A), ("likes tea", B))
    )
    merged = world.do("m", Merge((one.id, two.id), "a developer who likes tea"))[0].after
    stays = forgetting.of_memory(world.memories, one.id, {}, says("tea"))
    # What it was merged into is not live any more: it became that.
    assert became(stays) == ({one.id: forgetting.NAMED}, {merged.id}, set())
    assert (stays.kept[merged.id].sources, stays.kept[merged.id].derived_from) == ((B,), (two.id,))
    falls = forgetting.of_memory(world.memories, one.id, {}, nothing)
    assert became(falls) == ({one.id: forgetting.NAMED, merged.id: forgetting.UNGROUNDED}, set(), {two.id})
    changes = {one.memory_id: one.after for one in forgetting.changes_of(world.memories, falls, "now", lambda: "s")}
    assert changes[two.id].is_live
    assert (changes[merged.id].content, changes[merged.id].ended_as) == ("", Ending.ERASED)
    assert {one.salt for one in changes.values()} == {"s"}


def test_with_a_merged_one_go_its_parts():
    world = World()
    one, two = (world.do("r", Add(MemoryKind.CORE, text))[0].after for text in ("uses tabs", "likes tea"))
    merged = world.do("m", Merge((one.id, two.id), "tabs and tea"))[0].after
    verdict = forgetting.of_memory(world.memories, merged.id, {}, nothing)
    assert verdict.erased.keys() == {one.id, two.id, merged.id}


def test_of_a_session_stays_what_others_hold_and_nothing_stands_on_it_any_more():
    alone, both, other = core_memory(1, "x", sources=(A,)), core_memory(2, "y", sources=(A, B)), core_memory(3, "z")
    derived = core_memory(4, "w", derived_from=(alone.id,), sources=(A,))
    ended = core_memory(5, "v", sources=(A,), ended_as=Ending.DELETED, deleted_at="x")
    held = all_of(alone, both, other, derived, ended)
    verdict = forgetting.of_sessions(held, {"a"}, says("y"))
    assert became(verdict) == (dict.fromkeys((alone.id, derived.id, ended.id), forgetting.ALONE), {both.id}, set())
    assert verdict.kept[both.id].sources == (B,)
    assert forgetting.of_sessions(held, {"a"}, nothing).erased[both.id] == forgetting.UNGROUNDED
    assert forgetting.of_sessions(held, {"c"}, nothing) == forgetting.ForgetVerdict()


def test_a_protected_memory_is_named_and_one_erased_before_is_not_erased_again():
    protected = core_memory(1, "x", sources=(A,), constitutional=True)
    gone = core_memory(2, "", ended_as=Ending.ERASED, deleted_at="x", constitutional=True)
    held = all_of(protected, gone)
    assert forgetting.of_sessions(held, {"a"}, nothing).protected == (protected.id,)
    assert forgetting.of_memory(held, gone.id, {}, nothing) == forgetting.ForgetVerdict()


_OPERATIONS = st.lists(st.tuples(st.sampled_from("acumd"), st.integers(0, 20), st.integers(0, 20)), max_size=25)


@given(_OPERATIONS, st.integers(0, 20), st.sampled_from(["a", "b", None]), st.booleans())
def test_whatever_was_done_nothing_that_stays_stands_on_what_went(done, number, session, is_grounded):
    held = played(done)
    assume(held)

    def grounded(text, sources, parents):
        return is_grounded

    if session is None:
        chosen = sorted(held)[number % len(held)]
        verdict = forgetting.of_memory(held, chosen, {}, grounded)
        assert verdict.erased[chosen] == forgetting.NAMED
    else:
        verdict = forgetting.of_sessions(held, {session}, grounded)
    assert not verdict.erased.keys() & (verdict.kept.keys() | verdict.restored.keys())
    changes = forgetting.changes_of(held, verdict, time_of(900), lambda: "s")
    after = held | {one.memory_id: one.after for one in changes}
    assert {one.memory_id for one in changes} == {*verdict.erased, *verdict.kept, *verdict.restored}
    assert all(after[one].is_live for one in verdict.restored)
    for one in after.values():
        if one.ended_as is Ending.ERASED:
            assert (one.content, one.sources, one.content_hash) == ("", (), held[one.id].content_hash)
            continue
        assert one.content == held[one.id].content
        assert all(cite.session != session for cite in one.sources)
        assert all(after[parent].ended_as is not Ending.ERASED for parent in one.derived_from)


def played(done):
    """The memories that operations come to."""
    world, names = World(), count()
    for verb, first, second in done:
        live = [one.id for one in world.memories.values() if one.is_live]
        cites = (source(first, session="ab"[first % 2]),)
        if verb == "a" or len(live) < 2:
            world.do("r", Add(MemoryKind.CORE, f"memory number {next(names)} here", cites=cites))
        elif verb == "c":
            world.do("r", Update(live[first % len(live)], cites=cites))
        elif verb == "u":
            world.do("r", Update(live[first % len(live)], content=f"text number {next(names)} there"))
        elif verb == "m" and live[first % len(live)] != live[second % len(live)]:
            parts = (live[first % len(live)], live[second % len(live)])
            world.do("r", Merge(parts, f"merged number {next(names)} there"))
        else:
            world.do("r", Delete(live[first % len(live)]))
    return world.memories


def test_a_section_loses_the_sentences_that_only_the_session_brought():
    versions = [
        SectionVersion("Works by hand.", ()),
        SectionVersion("Works by hand. Lives in Oslo.", (A,)),
        SectionVersion("Works by hand. Lives in Oslo. Sails.", (B,)),
    ]
    assert forgetting.section_left(versions, {"a"}, nothing) == "Works by hand. Sails."
    assert forgetting.section_left(versions, {"a"}, says("Oslo")) == versions[-1].text
    assert forgetting.section_left(versions, {"c"}, nothing) == versions[-1].text
    assert forgetting.section_left(versions[1:2], {"a"}, nothing) == ""


# --- the cut ---


@pytest.mark.parametrize(
    ("forgotten", "text", "left"),
    [
        ("uses tabs for all", "He USES\n  tabs for all, they say.", f"He {MARK}, they say."),
        ("uses tabs", "He uses tabs, they say.", "He uses tabs, they say."),
        ("uses tabs", "- Uses tabs.\n- and more\n", "- and more\n"),
        ("User: Uses tabs.", "uses tabs\r\nmore\r\n", "more\r\n"),
        ("Uses tabs.", "- User: uses tabs.\n", ""),
        ("Uses tabs.", "- [x] User: uses tabs.\n- [x] more\n", "- [x] more\n"),
        ("Uses tabs.", "- User: Uses tabs. (asked: Tabs (wide) or spaces?)\n- more\n", "- more\n"),
        ("Uses tabs.", "Hello. I see: uses tabs. User: uses tabs. Bye.", f"Hello. I see: uses tabs. {MARK}. Bye."),
        ("she uses tabs here", "she uses tabs here2 and misshe uses tabs here", None),
        ("tea", "- tea\n* Tea.\nteas and tea alone\ntea\n", "teas and tea alone\n"),
        ("a+b (c)? or so", "is a+b (c)? or so", f"is {MARK}"),
        ("用标签", "我用标签缩进", None),
        ("我住在柏林", "你好。我住在柏林。我喜欢绿茶。", f"你好。{MARK}。我喜欢绿茶。"),
        ("我住在柏林", "现在我住在柏林很久了", f"现在{MARK}很久了"),
        ("caf\u00e9 at noon or later", "the cafe\u0301 at noon or later", f"the {MARK}"),
        ("at noon in the cafe", "at noon in the caf\u00e9, at noon in the cafe\u0301", None),
        ("he lives in the stra\u00dfe", "so HE LIVES IN THE STRASSE", f"so {MARK}"),
        ("always writes \u2039article> tags", "I always writes <article> tags", f"I {MARK}"),
        ("it\u2019s not what we do", "no, it's not what we do", f"no, {MARK}"),
    ],
)
def test_a_text_is_found_as_a_whole_and_nothing_else_changes(forgotten, text, left):
    assert cut_of([forgotten]).of_text(text) == (text if left is None else left)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("- User: Run all of the tests.\nrun all of the tests\n", ""),
        ("- [x] Run all of the tests\n**Focus**: run all of the tests\n", f"**Focus**: {MARK}\n"),
        ("Never run all of the tests on the production host.", None),
        ("I am told to: run all of the tests", None),
        ("Run all of the tests. Then rest.", None),
    ],
)
def test_of_lines_nothing_goes_that_only_quotes_them(text, left):
    assert lines_of(["User: Run all of the tests."]).of_text(text) == (text if left is None else left)


LONG = "We keep the orders in PostgreSQL because the reports need it. Nobody asks for another database any more here."


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "- [General](x.md#a) - We keep the orders in PostgreSQL because the reports …\n",
            f"- [General](x.md#a) - {MARK}\n",
        ),
        ("so we keep the orders in PostgreSQL because the rep… and more", f"so {MARK} and more"),
        ("- User: we keep the orders in PostgreSQL because the reports need it. Nobody asks...\nmine\n", "mine\n"),
        ("- We keep the orders in PostgreSQL because the reports need it.\n- mine\n", "- mine\n"),
        ("- We keep the orders in PostgreSQL because the reports need it, he said.\n", f"- {MARK}, he said.\n"),
        ("- We keep the orders in PostgreSQL because the reports, he said.\n", None),
        ("- We keep the orders in PostgreSQL because of speed …\n", None),
        ("- We keep the orders …\n", None),
    ],
)
def test_a_long_text_is_found_where_it_was_shortened(text, left):
    for cut in (
        cut_of([LONG, "We keep the orders in PostgreSQL for a hundred other reasons, most of which I forgot."]),
        cut_of([LONG]),
    ):
        assert cut.of_text(text) == (text if left is None else left)
        assert cut.says(text) == (left is not None)


PARTS = [
    "The Zebra rollout needs Kafka.", "Oslo hosts the primary broker.", "Bergen hosts the mirror.", "Ok.",
    "Hamar runs the tests.", "Larvik owns the billing!", "Moss owns the mail.",
    "Bod\u00f8 owns the search of all the orders.", "Molde owns the login.", "Narvik owns the archive of letters.",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (" ".join(PARTS[3:]), ""),
        (" ".join([PARTS[0], *PARTS[4:]]), ""),
        ("User: " + "\n".join(PARTS[::2]) + " " + " ".join(PARTS[5:8:2]), ""),
        (" ".join([*PARTS[:3], "\u2026", *PARTS[5:]]), ""),
        (" ".join(PARTS[1:7]) + " Bod\u00f8 owns the \u2026", ""),
        (f"He said: {' '.join(PARTS[2:])} And left.", f"He said: {MARK}. And left."),
        (" ".join(PARTS[:4]), None),
        (" ".join([*PARTS[:4], "This is between.", *PARTS[4:6]]), None),
    ],
)  # fmt: skip
def test_most_sentences_of_a_text_go_with_it(text, left):
    said = " ".join(PARTS)
    for cut in (cut_of([said]), cut_of([f"{said} (asked: Where does each of the many parts of it run today?)"])):
        assert cut.of_text(f"- {text}\n") == (f"- {text if left is None else left}\n" if left != "" else "")
        assert not cut.equals(text)
    line = lines_of([said]).of_text(f"- {text}\n")
    assert line == ("" if left == "" else f"- {text}\n"), "of lines only whole ones go"
    assert cut_of([said]).of_core(f"- {text}\n  - mine\n".encode()).decode().endswith("  - mine\n")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("- **Reason**: the depot sends its lots twice.\n- other\n", "- other\n"),
        ("* Reason: the *depot* sends its lots twice.\nother\n", "other\n"),
        ("It is so. **Reason:** the depot sends its lots twice. More.\n", f"It is so. {MARK}. More.\n"),
    ],
)
def test_a_text_is_found_with_marks_of_bold_and_italic_in_it(text, left):
    assert cut_of(["Reason: the depot sends its lots twice."]).of_text(text) == left
    assert cut_of([text.splitlines()[0].removeprefix("- ")]).of_text("a ** b, *c*\n") == "a ** b, *c*\n"


def test_an_answer_alone_is_no_forgotten_text_but_goes():
    cut = cut_of(["Only the old branch. (asked: Shall I delete the whole branch of Ann?)"])
    assert cut.of_text("- Only the old branch.\n- mine\n") == "- mine\n"
    assert not cut.equals("Only the old branch.")


def test_a_few_words_of_a_text_go_only_as_a_sentence():
    cut = cut_of(["Deploy the shop with make ship. No. Ok."])
    assert cut.of_text("Deploy the shop with make ship. No other tool is ok.") == f"{MARK}. No other tool is ok."
    assert cut.of_text("Deploy the shop with make ship. No. And more.") == f"{MARK}. And more."


def test_the_search_grows_with_the_text_and_not_with_the_choices_of_its_sentences():
    parts = [f"Part number {number} of the long plan runs on the host number {number}." for number in range(2000)]
    cut = cut_of([" ".join(parts)])
    assert cut.of_text(" ".join(parts[:200] + parts[700:])) == ""
    assert sum(map(len, text_removal._build_search(cut).keys)) < 3 * len(cut.texts[0])


BIKE = (
    "My bike is green and has a basket so I will sell it. The whole alarm code of the blue house of my aunt in Graz"
    " at the old river is four seven one one and her dog barks after nine."
)


@pytest.mark.parametrize("size", [60, 90, 110])
def test_a_shortened_sentence_counts_with_all_its_words(size):
    line = f"- {BIKE.partition('. ')[2][:size]}\u2026\n- mine\n"
    assert cut_of([BIKE]).of_text(line) == "- mine\n"


def test_sentences_that_stay_are_not_joined_with_forgotten_ones():
    kept = "Anna sold her red car in May."
    cut = spare_texts(cut_of([f"{kept} She lives in Oslo.", "The dog barks at night. I love it."]), [kept])
    assert cut.of_text(f"{kept} The dog barks at night.") == f"{kept} {MARK}."
    cut = cut_of(
        [
            "We meet on Monday mornings in the kitchen. Bring the green cups, plates, spoons, forks, knives and bread.",
            "I moved to Graz with Ana.",
        ]
    )
    text = "- We meet on Monday mornings in the kitchen. I moved to Graz with Ana.\n"
    assert cut.of_text(text) == f"- We meet on Monday mornings in the kitchen. {MARK}.\n"


def test_texts_that_share_a_sentence_are_both_removed():
    cut = cut_of(["The dog barks at night. Anna sold her car.", "Anna sold her car. The cat sleeps all day."])
    assert cut.of_text("- The dog barks at night. Anna sold her car. The cat sleeps all day.\n- mine\n") == "- mine\n"


def test_a_repeated_sentence_goes_as_often_as_it_is_there():
    cut = cut_of(["Anna sold her red car in May. The dog barks at night. I like both of them very much."])
    text = (
        "- Anna sold her red car in May. Anna sold her red car in May. The dog barks at night. The dog barks at night."
    )
    assert cut.of_text(f"{text}\n- mine\n") == "- mine\n"


@pytest.mark.parametrize(
    "own", ["It \u2026 has no pool and my own new words.", "\u2026 has no pool.", "with Ana ... no"]
)
def test_own_words_before_an_ellipsis_stay(own):
    cut = cut_of(["I moved to Graz with Ana. The house has a garden."])
    assert cut.of_text(f"I moved to Graz with Ana. {own}") == f"{MARK}. {own}"


class Counted(str):
    """Count the characters that are copied from a text."""

    __slots__ = ()
    copied = 0

    def __getitem__(self, at):
        found = super().__getitem__(at)
        Counted.copied += len(found)
        return found

    def __hash__(self):
        return super().__hash__()


@pytest.mark.parametrize(
    ("texts", "text"),
    [
        ([f"The boat number {one} is red. Its sail is {one} wide." for one in range(300)], None),
        (["Ok. I use Vim on the old laptop of my brother."], "Ok. " * 5000),
    ],
)
def test_the_search_copies_each_part_of_a_text_a_few_times(texts, text, monkeypatch):
    monkeypatch.setattr(Counted, "copied", 0)
    told = Counted(text or " ".join(texts))
    cut_of(texts).of_text(told)
    assert Counted.copied < 20 * len(told)


@pytest.mark.parametrize("line", ["Done. I have bought {} boats.", "Done. Done. I like the boat number {} more."])
def test_a_sentence_that_many_texts_share_is_not_tried_for_each_of_them(line, monkeypatch):
    tried = []
    monkeypatch.setattr(text_removal, "_find_most", lambda *given: tried.append(given) or ())
    cut = cut_of(f"Done. The boat number {one} is red and has two sails." for one in range(100))
    lines = "".join(f"- {line.format(one)}\n" for one in range(100))
    assert cut.of_text(lines) == lines
    assert not tried
    cut.of_text(f"{lines}- Done. The boat number 7 is red and has two sails. Done.\n")
    assert len(tried) == 1


def test_a_memory_that_says_how_a_forgotten_one_begins_stays():
    kept = "We keep the orders in PostgreSQL because the reports need it."
    cut = spare_texts(cut_of([LONG]), [kept])
    assert cut.of_text(f"- {kept}\n- {LONG}\n- mine\n") == f"- {kept}\n- mine\n"


def test_what_stays_keeps_what_it_says():
    longer = "Anna never uses tabs in any file; the password rotates"
    cut = spare_texts(cut_of(["Uses tabs in any file."]), [longer, "other"])
    assert cut.spared == (longer,)
    text = f"- {longer}\n- He uses tabs in any file\n"
    assert cut.of_text(text) == f"- {longer}\n- He {MARK}\n"
    assert cut_of_row(asdict(cut)) == cut
    same = spare_texts(lines_of(["User: likes green tea"]), ["Likes green tea."])
    assert same.of_text("- User: likes green tea\n") == "- User: likes green tea\n"


_WORDS = st.lists(
    st.sampled_from(["tabs", "Tea", "über", "a-b", "x.", "(y)", "9", "我住在柏林"]), min_size=2, max_size=5
).map(" ".join)


@given(st.lists(_WORDS, max_size=3), st.lists(_WORDS, max_size=6))
def test_nothing_is_left_and_a_second_cut_finds_nothing(forgotten, lines):
    cut = cut_of(forgotten)
    text = "\n".join(f"- {line}" for line in lines)
    left = cut.of_text(text)
    assert cut.of_text(left) == left
    assert not cut.says(left)
    assert cut_of_row(asdict(cut)) == cut
    if not cut.says(text):
        assert left == text
    data = cut.of_core(text.encode())
    assert [one.text for one in core.parse(data).bullets] == [
        kept for one in core.parse(text.encode()).bullets if (kept := cut.of_text(one.text))
    ]


def block(body, clock="10:00"):
    data = daily.block("Trimmed Context", clock, body)
    return data, AppendedBlock("memory/x.md", sha256(data).hexdigest(), len(data))


def test_a_block_goes_by_its_hash_and_what_others_wrote_stays():
    ours, ours_block = block("- uses tabs all day\n- and tea")
    theirs, theirs_block = block("- uses tabs all day", "11:00")
    mine = b"\n## Mine (12:00)\n\n\xff caf\xe9 uses tabs all day\n\n## Empty (13:00)\n"
    head = b"# Daily Memory: 2026-03-04\n"
    cut = TextRemoval(("uses tabs all day",), (ours_block,), (theirs_block,))
    data = head + ours + theirs + mine
    assert cut.of_daily("memory/x.md", data) == head + theirs + mine.replace(b"uses tabs all day", MARK.encode())
    assert cut.of_daily("memory/y.md", data) == head + ours.replace(b"- uses tabs all day\n", b"") + mine.replace(
        b"uses tabs all day", MARK.encode()
    )
    of_lines = lines_of(["uses tabs all day", "and tea"], [ours_block], [theirs_block])
    assert of_lines.list_edited_lines("memory/x.md", data) == []
    edited = data.replace(b"- and tea", b"- and green tea")
    assert of_lines.list_edited_lines("memory/x.md", edited) == ["uses tabs all day", "and green tea"]


def test_a_block_with_only_headings_of_sections_goes_and_headings_of_a_person_stay():
    body = (
        "From Claude Code, 10:00-10:10, session:a\n\n### Decided\n\n- uses tabs all day\n\n### Found out\n\n- and tea"
    )
    head, cut = b"# Daily Memory: 2026-03-04\n", lines_of(["uses tabs all day", "and tea"])
    assert cut.of_daily("memory/x.md", head + block(body)[0]).rstrip() == head.rstrip()
    mine = b"\n## Mine (12:00)\n\n### Drinks\n\n- and tea\n"
    assert cut.of_daily("memory/x.md", head + mine) == head + mine.replace(b"- and tea\n", b"")


def test_a_block_that_only_says_whose_session_it_was_goes():
    line = daily.attribute_block("Codex", "09:12", "10:00", "s-1")
    ours, _ = block(f"{line}\n- uses tabs all day")
    both, _ = block(f"{line}\n- uses tabs all day\n- and tea")
    cut, head = TextRemoval(("uses tabs all day",)), b"# Daily Memory: 2026-03-04\n"
    assert cut.of_daily("memory/x.md", head + ours) == head + b"\n"
    assert cut.of_daily("memory/x.md", head + both) == head + both.replace(b"- uses tabs all day\n", b"")


def test_of_lines_only_what_is_left_of_a_block_loses_them_inside_a_line():
    ours, ours_block = block("- User: Run all of the tests.\n- uses tabs all day\n- Uses Vim.")
    mine = b"\n## Mine (12:00)\n\nnever run all of the tests on the production host\n- Uses Vim.\n"
    cut = lines_of(["User: Run all of the tests.", "uses tabs all day", "Uses Vim."], [ours_block])
    head = b"# Daily Memory: 2026-03-04\n"
    edited = ours.replace(b"- uses tabs all day", b"- she uses tabs all day and never uses Vim, mine")
    rest = b"\n## Trimmed Context (10:00)\n\n- she [forgotten] and never uses Vim, mine\n"
    kept = mine.replace(b"- Uses Vim.\n", b"")
    assert cut.of_daily("memory/x.md", head + mine + edited) == head + kept + rest
    assert cut.of_daily("memory/x.md", head + ours + mine) == head + kept


def test_thousands_of_texts_with_one_beginning_are_found_at_once():
    texts = [f"we agreed on the plan number {number}" for number in range(3000)]
    text = "".join(f"- so {one}, he said\n" for one in texts)
    assert cut_of(texts).of_text(text) == f"- so {MARK}, he said\n" * 3000


def test_a_rollback_takes_no_grant_and_no_forgotten_session_for_a_memory():
    world = World()
    world.do("one", Add(MemoryKind.CORE, "a"))
    for name in ("grant:g", "session:s"):
        world.move("later", name, "{}")
    assert [re.sub("[_:].*", "", step.memory_id) for step in world.plan("one").steps] == ["core", "run"]


# --- what comes back ---


@given(
    st.sampled_from(["", "User: ", "Assistant: ", "REPORT: "]), st.sampled_from(["", ".", "!", "。"]),
    st.sampled_from(["", "User: ", "Agent: "]), st.sampled_from(["", ".", "…", " ?"]), st.sampled_from(["", "**", '"']),
)  # fmt: skip
def test_a_forgotten_text_is_known_under_any_label_and_with_any_mark(label, end, other, mark, around):
    graves = {hash_of(f"{label}Redis 7 runs the cache{end}"): "2026-01-02"}
    again = f"{other}{around}Redis 7 runs the cache{mark}{around}"
    assert forgetting.forgotten_since(again, graves) == "2026-01-02"
    assert forgetting.forgotten_since(again.replace("7", "8"), graves) is None


def test_what_a_forgotten_text_holds_is_known_in_any_order():
    buried = {"The cache of the shop runs on Redis 7.": "2026-01-02", "The cache of the shop is cold.": "2026-01-03"}
    assert forgetting.buried_since("Redis 7 runs the cache of the shop.", buried) == "2026-01-02"
    assert forgetting.buried_since("The cache of the shop.", buried) == "2026-01-03"
    for other in ("Redis 8 runs the cache of the shop.", "The cache of the blog runs on Redis 7.", ""):
        assert forgetting.buried_since(other, buried) is None


def test_a_note_goes_with_what_it_may_be_of():
    other, source_b = (
        core_memory(1, "uses tabs", sources=(A, B), note="asked: tabs?"),
        core_memory(2, "tea", note="of B"),
    )
    held = all_of(other, source_b)
    verdict = forgetting.of_sessions(held, ["b"], says("tabs"))
    assert verdict.kept[other.id].note is None
    assert forgetting.why_kept(other, verdict.kept[other.id]) == forgetting.GROUNDED
    noted = forgetting.without_notes(held, verdict, lambda text: "of B" in text)
    assert noted.kept[source_b.id].note is None
    assert forgetting.why_kept(source_b, noted.kept[source_b.id]) == forgetting.NOTED
    assert forgetting.without_notes(held, verdict, lambda _: False) == verdict
