"""What a refinement may make of memories, with a second reader whose verdicts were given by hand, and with none."""

from __future__ import annotations

import json

import pytest
from condensations import HONEST, HOSTILE
from hypothesis import given
from hypothesis import strategies as st
from ledger_world import core_memory

from memoryd.gauge.estimate import estimate
from memoryd.jobs import claims, condensation, reader
from memoryd.jobs.claims import ClaimStep, Judges
from memoryd.jobs.condensation import Draft, judge_draft, list_questions
from memoryd.jobs.job import Reply, drive, first_of
from memoryd.jobs.reader import ReaderAnswer, Subject
from memoryd.offline.cue_judge import CueJudge

CUES = CueJudge()
OTHERS = tuple(core_memory(90 + n, text) for n, text in enumerate(("The wheelbarrow is green.", "Plums ripen late.")))


def drafted(text, sources, dropped=()):
    return Draft(text, tuple(core_memory(n, said) for n, said in enumerate(sources)), dropped)


def read(draft, say, most=99):
    """Ask about a draft until nothing is open; `say` answers a question as the reader does, by verdict and losses."""
    asked = []

    def answer(ask):
        batch = ask.about
        asked.append(batch)
        assert len(asked) <= most
        answers = []
        for name, question in batch.questions:
            verdict, lost = say(question, name == batch.decoy)
            answers.append({"id": name, "verdict": verdict, "by": [question.evidence[0].id], "lost": lost})
        return Reply("\n".join(map(json.dumps, answers)), "stop", "model")

    return judge_draft(
        draft, drive(condensation.read([draft], (*draft.parts, *OTHERS), Judges(CUES)), answer), CUES
    ), asked


def says(verdict, *lost, kind="project"):
    def say(question, is_decoy):
        if question.subject is Subject.CLASS:
            return kind, []
        return ("not-said", []) if is_decoy else (verdict, list(lost) if question.replaces else [])

    return say


def unread(draft):
    asked = condensation.read([draft], draft.parts, Judges(CUES))
    return judge_draft(draft, drive(asked, lambda _ask: Reply("", "stop", reader.UNREAD)), CUES)


@pytest.mark.parametrize(("text", "sources", "verdict"), HOSTILE)
def test_what_changes_a_number_a_name_a_hedge_a_time_or_who_says_it_stands_nowhere(text, sources, verdict):
    draft = drafted(text, sources)
    assert read(draft, says(verdict))[0].why
    assert unread(draft).why


@pytest.mark.parametrize(("text", "sources"), HONEST)
def test_what_anybody_would_make_of_it_stands_where_a_second_reader_agrees(text, sources):
    draft = drafted(text, sources)
    found, _ = read(draft, says("supported"))
    assert (found.why, found.token) == ("", "")
    assert found.lost is not None
    assert unread(draft).why == claims.NOT_READ


EPISODES = (
    "On 3 March the deploy of the shop failed, and nobody had read the log before it was started again",
    "On 9 April Ben restarted the shop three times; all the while the log named the wrong port",
    "In May the shop did not come up. Reading the log first showed a missing key at once",
    "When the shop went down in June, Anna read the log before all else and had it running in minutes",
)
LAW = "When the shop does not come up, read its log before restarting it: that finds the cause fast, restarts do not."


def test_a_fair_law_counts_what_it_drops_and_not_what_it_is_shorter_by():
    draft = drafted(LAW, EPISODES, ("restarted three times",))
    size = sum(map(estimate, EPISODES))
    found, _ = read(draft, says("supported", "the port was wrong", "restarted three times"))
    assert (found.why, size, estimate(LAW)) == ("", 93, 28)
    gone = {place: set(found.gone[part.id]) for place, part in enumerate(draft.parts)}
    assert gone[0] == {"3 March"}
    assert gone[1] == {"restarted three times", "the port was wrong", "9 April", "Ben"}
    assert {"Anna", "June"} >= gone[3] >= {"Anna"}
    assert found.lost[draft.parts[1].id] == 6 + 5 + 2 + 1
    assert sum(found.lost.values()) < size / 4
    assert "3 March" in found.row()["dropped"]


@pytest.mark.parametrize("kind", ["person", "rule", "unclear"])
def test_a_rewording_loses_nothing_of_a_person_or_a_rule(kind):
    tomas = ("Tomas speaks Basque and plays the txistu",)
    found, _ = read(drafted("Tomas", tomas), says("supported", kind=kind))
    assert (found.why, found.step, found.token) == (claims.LOSES, ClaimStep.FLOOR, "Basque")
    found, asked = read(drafted("Tomas speaks Basque", tomas), says("supported", "plays the txistu", kind=kind))
    assert (found.why, found.step, len(asked)) == (claims.LOSES, ClaimStep.READER, 2)
    found, _ = read(drafted("Tomas speaks Basque, plays the txistu", tomas), says("supported"))
    assert (found.why, found.lost) == ("", {"core_00000000": 0})


def test_what_a_rewording_drops_of_a_lesson_counts_as_lost():
    source = "Copy recordings the same day; on 30 January, when the disk died, that copy saved an interview"
    draft = drafted("Copy recordings the same day; that copy saved an interview", (source,))
    found, _ = read(draft, says("supported", "the disk died", kind="lesson"))
    assert (found.why, sorted(found.gone["core_00000000"])) == ("", ["30 January", "the disk died"])
    assert found.lost["core_00000000"] > 0


def test_a_detail_that_the_new_text_has_too_is_not_lost_of_a_rule():
    sources = ("No job starts before the glossary of the client is there", "In March the client Blaablad was late")
    draft = drafted("No job starts before the client has sent the glossary", sources, ("names of the clients",))
    assert read(draft, says("supported", kind="rule"))[0].why == ""


@pytest.mark.parametrize(("kind", "why"), [("rule", claims.LOSES), ("unclear", claims.LOSES), ("project", "")])
def test_of_a_rule_nothing_is_left_out(kind, why):
    sources = ("Never deploy the shop on a Friday before a holiday", "The shop is deployed with Nomad")
    text = "The shop is deployed with Nomad, never on a Friday"
    draft = drafted(text, sources)
    found, asked = read(draft, says("supported", "before a holiday", kind=kind))
    assert found.why == why
    assert [question.claim for _, question in asked[1].questions if question.subject is Subject.CLASS] == [sources[0]]
    assert read(drafted(text, sources, ("before a holiday",)), says("supported", kind=kind))[0].why == why
    assert read(draft, says("supported"))[0].why == ""


def test_without_a_label_the_cues_say_what_a_rule_is():
    sources = ("Never deploy on a Friday before a holiday", "The config is in etc/app.yaml since v2")

    for lost, why in (("before a holiday", claims.LOSES), ("since v2", "")):
        say = says("supported", lost, kind="nonsense")
        found, asked = read(drafted("Never deploy on a Friday; the config is in etc/app.yaml", sources), say)
        assert found.why == why
        assert len(asked) == (3 if why else 1)  # the class of what loses more than tokens is asked, and once more


def test_the_words_of_one_of_them_stand_without_a_reader_and_are_measured():
    sources = ("The well is old", "The well is old, and deep", "the well is  old.")
    found = unread(drafted(sources[1], sources))
    assert (found.why, found.lost) == ("", None)
    found = unread(drafted("The well is old.", (sources[0], sources[2])))
    assert (found.why, set(found.lost.values())) == ("", {0})
    assert unread(drafted("The well is deep", sources)).why == claims.NOT_READ
    other = ("The well is old", "Never push to main without a review.")
    assert unread(drafted(other[0], other)).why == claims.NOT_READ, "it does not take the place of another statement"


def test_a_large_merge_is_asked_about_in_parts_each_in_small_batches_with_a_decoy():
    sources = [
        f"Episode {n}: " + f"the pump of garden {n} stood still after the storm and was cleaned. " * 9
        for n in range(30)
    ]
    text = "After a storm the pumps of the gardens stand still until they are cleaned."
    draft = drafted(text, sources)
    found, asked = read(draft, says("supported"))
    assert found.why == ""
    assert len(asked) > 3
    shown = [
        line.text for batch in asked for name, one in batch.questions if name != batch.decoy for line in one.evidence
    ]
    assert sorted(shown) == sorted(sources)
    for batch in asked:
        assert len(batch.ask("").text) <= reader.MOST_CHARACTERS
        assert batch.decoy
        assert not {line.text for line in dict(batch.questions)[batch.decoy].evidence} & set(sources)

    def doubts(question, is_decoy):
        return ("not-said" if is_decoy or "Episode 29" in question.replaces[-1] else "supported"), []

    assert read(draft, doubts)[0].why == claims.REASONS["not-said"]


@pytest.mark.parametrize("verdict", ["supported", "newer-value", "standing", "not-said"])
def test_a_reader_that_says_the_same_to_all_lets_nothing_pass(verdict):
    draft = drafted(LAW, EPISODES)
    assert read(draft, lambda _question, _is_decoy: (verdict, []))[0].why


def test_what_is_known_is_not_asked_again():
    draft = drafted(LAW, EPISODES)
    answers = first_of(condensation.read([draft], OTHERS, Judges(CUES, known=lambda _key: ReaderAnswer("supported"))))
    assert judge_draft(draft, answers, CUES).why == ""
    assert list_questions(draft, answers) == []


TEXT = st.sampled_from([LAW, *EPISODES, "the log", "Ben", "x" * 3000, "", "Ben read 7 logs"])


@given(TEXT, st.lists(TEXT.filter(bool), min_size=1, max_size=4), st.data())
def test_whatever_a_reader_says_it_ends_and_no_memory_loses_more_than_it_has(text, sources, data):
    draft = drafted(text, sources, data.draw(st.just(()) | st.tuples(TEXT)))
    verdicts = st.sampled_from(["supported", "newer-value", "not-said", "rule", "lesson", "?"])
    lost = st.lists(st.sampled_from(["the log", "Ben", "9 April", "other"]), max_size=3)
    found, _ = read(draft, lambda _question, _is_decoy: (data.draw(verdicts), data.draw(lost)))
    for part in draft.parts if found.lost else ():
        assert 0 <= found.lost[part.id] <= estimate(part.content)
    assert not found.why or found.lost is None
