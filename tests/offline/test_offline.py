"""The offline backend: what it keeps of talks and of work, in more than one language, always in the words said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoryd.jobs.job import Ask, MemoryType, QuotedPiece
from memoryd.jobs.reply import ParsedSleepReply, parse
from memoryd.offline import backend as offline
from memoryd.offline import lasting, sentences, statements, words
from memoryd.offline.cue_judge import CueJudge
from memoryd.offline.cues import CUES, WORK_CUES
from memoryd.offline.statements import ConversationMessage, list_statements
from memoryd.text import prose
from memoryd.text.neutral import neutralize
from memoryd.tiers.session_summary import Section

AT = "2025-03-04T10:00+01:00"


def said(*texts: str, first: str = "user") -> tuple[QuotedPiece, ...]:
    order = ("user", "assistant") if first == "user" else ("assistant", "user")
    return tuple(
        QuotedPiece(f"t{n}", order[(n - 1) % 2], order[(n - 1) % 2], AT, text) for n, text in enumerate(texts, 1)
    )


def ask(material: tuple[QuotedPiece, ...], limit: int = 60, known: str = "", agent: str = "") -> ParsedSleepReply:
    program = (("agent", agent),) if agent else ()
    question = Ask("sleep", "", material, (("words", str(limit)), ("known", known), *program))
    reply = offline.answer(question)
    assert reply == offline.answer(question)
    assert reply.finish_reason == "stop"
    parsed = parse(reply)
    assert isinstance(parsed, ParsedSleepReply)
    assert parsed.unreadable == 0
    return parsed


def summary(parsed: ParsedSleepReply) -> str:
    return "\n".join(told.text for told in parsed.summary)


TALK = said(
    "Hey! How are you doing? Thanks for asking me over last time, it was great.",
    "Hi! I'm good, thanks! So nice to hear from you. What have you been up to?",
    "I adopted a greyhound called Biscuit from the shelter in Porto last week.",
    "Wow, that's awesome! I'm so happy for you!",
    "Thanks! You're the best. How long have you been in the new flat?",
    "Three years already.",
    "That sounds lovely!",
    "I start as a nurse at St. Mary on Monday, after two years of night school.",
)


def test_a_talk_is_kept_by_its_facts_and_not_by_its_kindness():
    text = summary(ask(TALK))
    assert "- " not in text[:2]
    assert "User: I adopted a greyhound called Biscuit from the shelter in Porto last week (2025-02-24/02)." in text
    assert "Assistant: I start as a nurse at St. Mary on Monday, after two years of night school." in text
    assert not any(kind in text for kind in ("awesome", "You're the best", "sounds lovely", "Hey!"))


def test_sentences_of_small_talk_are_left_out_and_no_other_sentence_is_cut():
    text = summary(
        ask(said("Wow, thanks! I sold the canoe to Ines, which was so great!", "Same here, but not on Friday."), 60)
    )
    assert text.splitlines()[0] == "User: I sold the canoe to Ines, which was so great!"


def test_a_short_answer_keeps_its_question_and_cites_both():
    told = next(told for told in ask(TALK, 80).summary if "Three years" in told.text)
    assert told.text == "Assistant: Three years already. (asked: How long have you been in the new flat?)"
    assert told.sources == (5, 6)


def test_the_limit_holds_and_a_larger_one_keeps_more():
    small, large = ask(TALK, 20), ask(TALK, 60)
    assert 0 < prose.count_words(summary(small)) + len(small.summary) <= 20 + 2
    assert len(small.summary) < len(large.summary)


def test_names_before_messages_become_the_speakers():
    named = said(
        "Anna: I bought a red canoe in Turku.",
        "Ben: Oh, nice!",
        "Anna: It is 4 metres long.",
        "Ben: I row at the Turku club.",
    )
    text = summary(ask(named))
    assert "Anna: I bought a red canoe in Turku." in text
    assert "Ben: I row at the Turku club." in text
    assert "User:" not in text


WORK = (
    *said(
        "Can you make the upload retry when the bucket answers 503?",
        "I'll look at the uploader first. Let me read the file:\n```python\nclass Uploader: ...\n```",
    ),
    QuotedPiece("t3", "tool", "report", AT, "changed `src/upload.py` `tests/test_upload.py`"),
    QuotedPiece("t4", "tool", "report", AT, "failed E AssertionError: retried 0 times"),
    QuotedPiece(
        "t5",
        "assistant",
        "assistant",
        AT,
        "The test failed because the client raised before the retry loop; I moved the loop around `client.put`.",
    ),
    QuotedPiece(
        "t6",
        "user",
        "user",
        AT,
        "ok, let's use exponential backoff, since the bucket throttles bursts. Always run the tests before you push.",
    ),
    QuotedPiece(
        "t7",
        "assistant",
        "assistant",
        AT,
        "Now let me run the tests. All 31 tests pass and retries back off up to 30 seconds. "
        "Uploads over 5 GB are still missing.",
    ),
)


def test_work_is_told_by_what_was_asked_changed_failed_and_left():
    text = summary(ask(WORK, 120))
    assert "User: Can you make the upload retry when the bucket answers 503?" in text
    told = {one.text: one.section for one in ask(WORK, 120).summary}
    assert told["`src/upload.py`, `tests/test_upload.py`"] is Section.FILES
    assert told["E AssertionError: retried 0 times"] is Section.FAILED
    assert "because the client raised before the retry loop" in text
    assert told["Assistant: Uploads over 5 GB are still missing."] is Section.OPEN
    assert None not in told.values()
    assert not any(noise in text for noise in ("Let me", "I'll look", "class Uploader", "let me run"))


def test_what_a_subagent_says_is_a_report_and_no_memory():
    words = "The root cause is the proxy in Gdansk, which drops chunked bodies over 64 KB."
    parsed = ask((*WORK, QuotedPiece("t8", "assistant", "report", AT, words)), 120)
    assert f"Report: {words}" in summary(parsed)
    assert "Uploads over 5 GB are still missing." in [
        one.text.removeprefix("Assistant: ") for one in parsed.summary if one.section is Section.OPEN
    ]
    assert all(8 not in memory.sources for memory in parsed.memories)


def test_memories_are_few_typed_and_cited_and_copy_the_turn():
    memory, *rest = sorted(ask(WORK, 120).memories, key=lambda one: -one.importance)
    said_by = {f"t{n}": one.text for n, one in enumerate(WORK, 1)}
    for one in rest:
        assert one.text.startswith("Assistant: ")
        assert one.type in {MemoryType.DECISION, MemoryType.LEARNING}
        assert one.text.removeprefix("Assistant: ") in said_by[one.cites[0].partition(".")[0]]
    assert (memory.type, memory.sources, memory.cites) == (MemoryType.PREFERENCE, (6,), ("t6.1", "t6.2"))
    assert memory.text == f"User: {WORK[5].text}"


def test_what_is_known_is_no_memory_again():
    known = ask(WORK, 120).memories
    assert known
    assert ask(WORK, 120, known="\n".join(one.text.partition(": ")[2] for one in known)).memories == ()


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("Remember that the staging password rotates on Fridays.", MemoryType.PREFERENCE),
        ("Please always use tabs in Makefiles.", MemoryType.PREFERENCE),
        ("I prefer dark roast coffee in the morning.", MemoryType.PREFERENCE),
        ("I'm allergic to peanuts and shellfish.", MemoryType.PREFERENCE),
        ("I am allergic to peanuts.", MemoryType.PREFERENCE),
        ("I prefer tea.", MemoryType.PREFERENCE),
        ("I'd also prefer you call me Rike.", MemoryType.PREFERENCE),
        ("When I'm on my phone I'd rather get three lines at most.", MemoryType.PREFERENCE),
        ("My name is Ann.", MemoryType.FACT),
        ("My name is Ola Nordmann.", MemoryType.FACT),
        ("We use PostgreSQL for the billing service.", MemoryType.FACT),
        ("I moved to Bergen after the flood.", MemoryType.FACT),
        ("Don't ever touch vendor/ without asking me.", MemoryType.PREFERENCE),
        ("Do not restart the server without telling me.", MemoryType.PREFERENCE),
        ("Please batch the inserts, 500 rows each, and never run migrations on a Friday.", MemoryType.PREFERENCE),
        ("Fix the login, but don't ever log the token.", MemoryType.PREFERENCE),
        ("Don’t ever touch the billing module.", MemoryType.PREFERENCE),  # noqa: RUF001
        ("Ändere nichts in vendor/, ohne mich zu fragen.", MemoryType.PREFERENCE),
        ("Call me Pit from now on.", MemoryType.PREFERENCE),
        ("Use British spelling from now on.", MemoryType.PREFERENCE),
        ("Call me Pit.", MemoryType.PREFERENCE),
        ("I don't like long function names.", MemoryType.PREFERENCE),
        ("I really hate tabs in YAML.", MemoryType.PREFERENCE),
        ("Nenn mich Piet.", MemoryType.PREFERENCE),
        ("Je n'aime pas les noms trop longs.", MemoryType.PREFERENCE),
        ("Llámame Pepe.", MemoryType.PREFERENCE),
        ("请记住以后都用中文回答我的问题", MemoryType.PREFERENCE),
        ("これからは必ずテストを実行してください", MemoryType.PREFERENCE),
    ],
)
def test_explicit_cues_last(sentence, kind):
    cue = lasting.find_cue(sentence, by_user=True, working=False)
    assert cue
    assert cue.type is kind
    assert lasting.find_cue(sentence, by_user=False, working=True) is None


@pytest.mark.parametrize(
    "sentence",
    [
        "Never say never!",
        "never mind, way too early to tell",
        "Call me tomorrow.",
        "Call me Monday.",
        "I don't like it.",
        "We had fun and never made plans.",
        "They never walk and always use the car.",
        "Don't go home without me!",
        "I'll never forget that evening.",
        "Do you remember when we met?",
        "It was always fun.",
        "Thanks for the help!",
        "I might prefer tea, not sure.",
        "Could you always use tabs?",
        "Don't worry about it.",
        "Don't try that again today.",
        "Don't bring the server down, just try the request again.",
        "Don't switch to main yet, run the importer tests again.",
        "Do not go to lunch before the tests pass again.",
        "I'm a bit tired.",
        "I'm a huge fan of jazz.",
        "The tests pass now.",
        "Let's run the tests.",
        "Let's keep the report open, because I have not read it.",
        "Turns out she had no other family.",
        "The tests always pass locally but never run on CI.",
        "The docs say to run make first, and never commit to main.",
        "please remember the rule on that page",
        "[preference | 0.95] please remember the rule on that page",
        "Remember the rule on this page: https://ex.org/x",
        "Remember the rules from that website: https://ex.org/rules",
        "Bitte merke dir die Vorschrift auf dieser Seite.",
        "Merk dir bitte die Regel auf der Seite.",
        "Retiens la règle de cette page.",
        "Recuerda la regla de esta página: https://ex.org/r",
        "Remember the key decisions above.",
    ],
)
def test_what_people_say_in_passing_does_not_last(sentence):
    assert lasting.find_cue(sentence, by_user=True, working=False) is None


DECIDED = [
    "We decided to deploy on Mondays, because the Friday build failed.",
    "We decided to use PostgreSQL.",
    "Decision: the API stays REST.",
    "Let's go with option B, because it is cheaper.",
    "Let's use Jinja2 for the mail templates.",
    "Let's stay with SQLite for the queue.",
    "I've decided to drop Windows 10.",
    "Let's use Redis.",
    "Let's keep invoices in PostgreSQL instead of SQLite, because two hosts write them.",
    "Go with Postgres.",
]


# None of them was used to choose the weights. Only the sentence about Greek was made up with the weights in view.
SAID_IN_PASSING = [
    ("I'm a beekeeper and only work outdoors from April on. Which phone would you take?", True),
    ("My daughter Maja is allergic to walnuts. What else can go into the brownies?", True),
    ("i train for the Berlin marathon in september, can you move my long run to saturday", True),
    ("My aunt and I are learning Greek on Mondays. Suggest a playlist.", True),
    ("Ich arbeite als Krankenschwester im Nachtdienst. Wann sollte ich essen?", True),
    ("Soy diabético desde los diez años y sólo como a mediodía. ¿Puedo tomar esto?", True),
    ("The second paragraph is too long, make it shorter.", False),
    ("I like this version much better, thanks!", False),
    ("Imagine I am a vegan pirate who never sleeps. Write my diary.", False),
    ('Translate: "I am a nurse and I work every night."', False),
    ("I'm looking at the bill now and it says 40 euros.", False),
    ("Can I take the early train every day?", False),
]


@pytest.mark.parametrize(("message", "lasts"), SAID_IN_PASSING)
def test_what_a_user_tells_of_themselves_in_passing_lasts_by_many_signs_together(message, lasts):
    kept = ask(said(message, "Gladly. Here is what I would do."), 200).memories
    assert [one.text for one in kept] == ([f"User: {message}"] if lasts else [])


def test_more_is_needed_where_a_coding_agent_works():
    at_work = "right. everything we store is UTC, local time only ever happens in the dashboard"
    assert [one.text for one in ask(said(at_work, "Noted."), 200, agent="Claude Code").memories] == [f"User: {at_work}"]
    in_chat, _ = SAID_IN_PASSING[3]
    assert ask(said(in_chat, "Gladly."), 200, agent="Claude Code").memories == ()
    announced = said("Please translate the next message into French.", "Ok.", at_work, "Voilà.")
    told = ask(announced, 200, agent="Claude Code")
    assert told.memories == ()
    assert not any("UTC" in line.text and line.section is Section.DECIDED for line in told.summary)
    asked = said("Can you check if we still need the importer?", "Yes, we do.", at_work, "Noted.")
    assert [one.text for one in ask(asked, 200, agent="Claude Code").memories] == [f"User: {at_work}"]


@pytest.mark.parametrize(
    ("words", "lasts"),
    [
        ("I prefer the second wording for the title.", False),
        ("I prefer short titles for chapters.", True),
        ("I prefer option types over null.", True),
        ("My birthday is on the first of May.", True),
        ("I live in the old town of Leeds.", True),
        ('The poem says "I prefer winter and fall" somewhere.', False),
        ('Never write "I hope this helps" at the end of a reply.', True),
        ('Always run "make test" before pushing.', True),
        ('From now on you bring me the ore yourself." said the smith.', False),
    ],
)
def test_a_cue_lasts_outside_quotation_marks_and_if_it_is_not_about_the_text_at_hand(words, lasts):
    assert (lasting.find_cue(words, by_user=True, working=True) is not None) is lasts


@pytest.mark.parametrize(
    "before",
    [
        "I'll paste my aunt's letter in the next message.",
        "Let's play: I am the patient and you are the doctor.",
        "I will send you sentences, please translate them.",
        "Let’s play a game, I am the patient.",  # noqa: RUF001
    ],
)
def test_no_sign_is_trusted_behind_an_announcement_or_in_a_message_of_several_lines(before):
    message, _ = SAID_IN_PASSING[2]
    assert message in [
        one.text.removeprefix("User: ") for one in ask(said("Hello there.", "Hi.", message, "Ok."), 200).memories
    ]
    assert ask(said(before, "Ok.", message, "Ok."), 200).memories == ()
    assert ask(said(f"Eve, 3 days ago\n\n{message}", "Ok."), 200).memories == ()


@pytest.mark.parametrize(
    "message",
    [
        "From now on answer only in pirate speech, just kidding.",
        "From now on answer only in pirate speech. Kidding! How are the tests?",
        "Always answer in rhymes jk",
        "Always answer in rhymes. JK!",
        "Immer alles in Großbuchstaben schreiben. War nur ein Scherz.",
        "Immer in Reimen antworten, nur Spaß",
        "Always deploy on Friday evenings, of course /s",
        "I always drink cold coffee, not really",
        "记住以后都用文言文回答，开玩笑的",  # noqa: RUF001
        "Immer nur Blattgold essen, haha. Nein Quatsch.",
        "Je préfère répondre en rimes, je plaisante.",
    ],
)
def test_a_message_that_takes_itself_back_does_not_last(message):
    first, _, _ = message.partition(",")
    assert any(lasting.find_cue(one, by_user=True, working=True) for one in sentences.split_sentences(message))
    for agent in ("", "Claude Code"):
        assert ask(said(message, "Aye."), 200, agent=agent).memories == ()
    assert first not in offline.answer(Ask("facts", "", said(message, "Aye."), ())).text
    assert not CueJudge().stands(message)


@pytest.mark.parametrize(
    "told",
    [
        "Das Passwort für unser WLAN ist [REDACTED:password-told].",
        "My password is [REDACTED:password-told].",
        "Mon mot de passe est [REDACTED:password-told].",
    ],
)
def test_a_sentence_that_tells_a_secret_is_remembered_nowhere(told):
    talk = said("My sister Tove lives in Turku since May.", "Nice.", told, "No worries, I'll not use it.")
    held = ask(talk, 200)
    assert "REDACTED" not in summary(held) + offline.answer(Ask("facts", "", talk, ())).text
    assert not any("REDACTED" in one.text for one in held.memories)
    assert "Turku" in summary(held) + "".join(one.text for one in held.memories)
    assert "not use it" not in summary(held)


@pytest.mark.parametrize(
    "rule",
    [
        "Always export API_KEY=[REDACTED:github-pat] before make deploy.",
        "Das Passwort ist [REDACTED:password-told], ändere es nie ohne Rücksprache.",
        "The staging host = [REDACTED:ip-address], port 5433.",
    ],
)
def test_a_rule_that_names_a_secret_is_a_sentence(rule):
    assert sentences.split_sentences(rule) == [rule]


def test_a_joke_is_told_nowhere():
    talk = said("What shall I cook?", "Risotto?", "Fine. Ich esse ja eh nur Blattgold, haha. Nein Quatsch.", "Haha.")
    assert "Blattgold" not in summary(ask(talk, 200)) + offline.answer(Ask("facts", "", talk, ())).text


def test_a_few_words_behind_a_question_answer_no_other_question():
    talk = said(
        "My mother comes from Graz. What shall I cook?", "How about risotto with sage? Quite without coriander."
    )
    assert "coriander" not in summary(ask(talk, 200))


@pytest.mark.parametrize(
    ("answer", "lasts"),
    [
        ("haha, that was a joke, please don't. Tove is fine.", False),
        ("Just kidding, please answer normally.", False),
        ("jk", False),
        ("War nur ein Scherz.", False),
        ("开玩笑的", False),
        ("No kidding! That is how my grandmother is called.", True),
        ("I'm not joking.", True),
        ("What is the joke about?", True),
        ("Thanks, that is fine.", True),
    ],
)
@pytest.mark.parametrize("agent", ["", "Claude Code"])
def test_a_message_that_the_next_one_takes_back_does_not_last(answer, lasts, agent):
    wish = "From now on always call me Your Majesty."
    talk = said(wish, "As you wish.", answer, "Fine.")
    assert any("Majesty" in one.text for one in ask(talk, 200, agent=agent).memories) is lasts
    assert ("Majesty" in offline.answer(Ask("facts", "", talk, ())).text) is lasts


@pytest.mark.parametrize(
    "message",
    [
        "Always run the tests before a push, no kidding.",
        "I'm not kidding. Never push to main.",
        "Are you kidding me? Never use floats for money.",
        "I prefer tabs, I'm not really a fan of spaces.",
        "Always keep the load below 100 requests /s",
        "Always map jk to Escape in my editor.",
        "你别开玩笑。记住不要用浮点数",
    ],
)
def test_what_only_looks_as_if_it_took_itself_back_lasts(message):
    assert [one.text for one in ask(said(message, "Aye."), 200).memories] == [f"User: {message}"]
    assert CueJudge().stands(message)


def test_findings_of_work_last_with_any_program():
    words = "The root cause is the default of mmap, which keeps the whole map until the process ends in Gdansk."
    report = QuotedPiece("t1", "tool", "report", AT, "changed `src/importer.py`")
    question = QuotedPiece("t2", "user", "user", AT, "Why does the importer of Gdansk take so much memory?")
    answer = QuotedPiece("t3", "assistant", "assistant", AT, words)
    for program in ("", "OpenClaw", "Claude Code"):
        (kept,) = ask((report, question, answer), 200, agent=program).memories
        assert kept.text == f"Assistant: {words}"


def test_of_a_lecture_in_a_chat_only_findings_with_a_cue_last():
    question = QuotedPiece("t1", "user", "user", AT, "Why does the importer of Gdansk stop at night?")
    marked = "The root cause is the default of mmap, which keeps the whole map until the process ends in Gdansk."
    plain = "The importer of Gdansk reads 40 files at night because the harbour office sends them after ten."
    for finding, kept in ((marked, [f"Assistant: {marked}"]), (plain, [])):
        answer = QuotedPiece("t2", "assistant", "assistant", AT, " ".join([finding, *["Tell me if that helps."] * 40]))
        assert [one.text for one in ask((question, answer), 200).memories] == kept


@pytest.mark.parametrize(
    ("sentence", "lasts"),
    [
        ("We always pin the base image by digest.", True),
        ("Wir taggen Releases immer im Format v1.2.3.", True),
        ("We never saw the base image again.", False),
    ],
)
def test_the_habits_of_those_who_work_are_rules_and_those_of_friends_are_stories(sentence, lasts):
    cue = lasting.find_cue(sentence, by_user=True, working=True)
    assert (cue is not None and cue.type is MemoryType.PREFERENCE) is lasts
    assert lasting.find_cue(sentence, by_user=True, working=False) is None
    assert lasting.find_cue(sentence, by_user=False, working=True) is None


@pytest.mark.parametrize(
    ("sentence", "lasts"),
    [
        ("Bitte nie direkt auf main pushen.", True),
        ("Verwende immer int64 in Cent für Geldbeträge.", True),
        ("Wir haben beschlossen, die Logs nur 30 Tage aufzuheben.", True),
        ("Frag mich immer, bevor du eine Dependency installierst.", True),
        ("Les messages de commit doivent toujours être en anglais.", True),
        ("Queda prohibido meter credenciales en el repo.", True),
        ("La causa era un timeout del proxy di staging.", True),
        ("Por favor, sempre rode os testes antes do commit.", True),
        ("Afgesproken: de oude API blijft tot 1 januari.", True),
        ("Никогда не коммить секреты в репозиторий.", True),
        ("Proszę, zawsze pisz testy do nowych funkcji.", True),
        ("Die Tests schlagen immer noch fehl.", False),
        ("Bitte diesmal nie auf main pushen.", False),
        ("Der Chef sagt, wir müssen immer schneller werden.", False),
        ("Nie działa na produkcji.", False),
        ("Wir haben noch nicht entschieden, welche Datenbank wir nehmen.", False),
        ("El test falla siempre en CI.", False),
        ("Siempre falla el test.", False),
        ("Sempre lo stesso errore dopo il commit.", False),
        ("Immer dieser Fehler im Test.", False),
        ("Immer langsam nach dem Deploy.", False),
        ("Immer muss ich die Tests zweimal starten.", False),
        ("Toujours cassé après le merge.", False),
        ("Siempre antes de cada commit ejecuta los tests.", True),
        ("Mai fare merge con la pipeline rossa.", True),
        ("Immer Pull Requests gegen develop machen.", True),
        ("Niemals Passwörter im Klartext speichern.", True),
    ],
)
def test_openly_stated_rules_of_other_languages_last_and_stories_with_the_same_words_do_not(sentence, lasts):
    assert (lasting.find_cue(sentence, by_user=True, working=True) is not None) is lasts


@pytest.mark.parametrize("sentence", DECIDED)
def test_what_the_user_decides_with_an_assistant_lasts_and_what_friends_tell_each_other_does_not(sentence):
    (kept,) = ask(said(sentence, "Good.")).memories
    assert (kept.type, kept.text) == (MemoryType.DECISION, f"User: {sentence}")
    among = [f"Ann: {sentence}", "Bob: Good.", "Ann: And you, what are you up to?", "Bob: Nothing much."]
    assert ask(said(*among)).memories == ()


@pytest.mark.parametrize("sentence", ["Let's go with it.", "We're using 3 GB of memory, because nothing is freed."])
def test_what_decides_nothing_is_no_decision(sentence):
    assert lasting.find_cue(sentence, by_user=True, working=True) is None


def test_lessons_and_decisions_last_only_where_work_is_done():
    lesson = "The root cause was a stale lock file in the cache folder."
    cue = lasting.find_cue(lesson, by_user=False, working=True)
    assert cue
    assert cue.type is MemoryType.LEARNING
    assert lasting.find_cue(lesson, by_user=False, working=False) is None


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        (
            ("我上个月搬到了上海,在一家医院当护士。", "好的!", "谢谢你!", "我的航班是下周三上午九点的国航一五三。"),
            ("上海", "国航一五三"),
        ),
        (
            (
                "先週、京都で陶芸の教室に申し込みました。",
                "いいですね!",
                "ありがとう!",
                "私の猫の名前はミケで、三歳です。",
            ),
            ("陶芸", "ミケ"),
        ),
        (
            (
                "Ich habe gestern in Leipzig ein Cello gekauft.",
                "Toll!",
                "Danke!",
                "Mein Zug fährt am Freitag um 9:30 nach Dresden.",
            ),
            ("Cello", "Dresden"),
        ),
    ],
)
def test_other_languages(texts, kept):
    text = summary(ask(said(*texts), 40))
    assert all(word in text for word in kept), text
    assert "谢谢" not in text
    assert "ありがとう!" not in text


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("I met Dr. Who at 5.30 p.m. today. He left.", ["I met Dr. Who at 5.30 p.m. today.", "He left."]),
        ("See src/app.py. It works!Really? Yes.", ["See src/app.py.", "It works!Really?", "Yes."]),
        ("你好。我很好!你呢?", ["你好。", "我很好!", "你呢?"]),
        ("one\n\ntwo", ["one", "two"]),
        ("- **one** thing\n- two\n\n```\ncode = 1\n```\n", ["one thing", "two"]),
        ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
    ],
)
def test_sentences(text, parts):
    assert sentences.split_sentences(text) == parts


def test_content_words_have_no_endings_no_stop_words_and_pairs_for_wide_scripts():
    assert words.list_content_words("The dogs were running to the parks") == ["dogs", "runn", "park"]
    assert words.list_content_words("我住在上海") == ["我住", "住在", "在上", "上海"]


WORDS = st.sampled_from(
    [
        "I",
        "And",
        "Got it.",
        "by the way.",
        "moved",
        "to",
        "Oslo",
        "in",
        "2019.",
        "Great!",
        "Thanks.",
        "The",
        "parser",
        "failed",
        "because",
        "of",
        "7",
        "cats.",
        "`a.py`",
        "日本語です。",
        "\n",
        "What?",
    ]
)
MESSAGES = st.one_of(st.lists(WORDS, min_size=1, max_size=30).map(" ".join), st.text(max_size=60))


@example(["2019. moved What?", "0;"], 6, False)  # noqa: FBT003
@given(st.lists(MESSAGES, max_size=10), st.integers(0, 80), st.booleans())
def test_every_line_is_made_of_what_was_said(texts, limit, report):
    material = said(*texts)
    if report:
        material = (*material, QuotedPiece("t99", "tool", "report", AT, "changed `a.py`"))
    parsed = ask(material, limit)
    sayable = {int(one.id[1:]): _sayable(one.text) for one in material}
    for told in parsed.summary:
        assert set(told.sources) <= set(sayable)
        if told.section is not Section.FILES:
            source = " ".join(sayable[seq] for seq in told.sources)
            assert all(word in source for word in _words(_unframed(told.text)))
    for memory in parsed.memories:
        assert " ".join(_words(_unframed(memory.text))) in sayable[memory.sources[0]]


def _unframed(text: str) -> str:
    text = re.sub(r"^\w+: ", "", text)
    return re.sub(r" \(\d{4}[-\d/]*\)", "", text).replace("(asked:", "")


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _sayable(text: str) -> str:
    """The words of a text as prose, as neutral text, and as it stands: "2019." ahead of it may be a mark, or a word."""
    return " ".join(_words(f"{neutralize(' '.join(prose.list_lines(text)))} {neutralize(text)} {text}"))


@given(st.lists(MESSAGES, max_size=10), st.integers(0, 60))
def test_choosing_keeps_to_its_budget_and_order(texts, budget):
    talk = [
        ConversationMessage(
            f"t{n}", "User" if n % 2 else "Assistant", bool(n % 2), text, tuple(sentences.number_sentences(text))
        )
        for n, text in enumerate(texts, 1)
    ]
    candidates = list_statements(talk)
    chosen = statements.choose(candidates, budget)
    assert sum(one.cost for one in chosen) <= budget + 2 * len(chosen)
    rest = iter(candidates)
    assert all(one in rest for one in chosen)
    assert all(0 < statements.rate_statement(one) < 1 for one in candidates)


def test_a_repeated_statement_is_told_once():
    text = summary(
        ask(said("The gate code is 4711.", "Fine.", "The gate code is 4711.", "Fine.", "The GATE code is 4711."), 60)
    )
    assert text.count("4711") == 1


@pytest.mark.parametrize(
    ("run", "stays"),
    [
        ("Tests: passed (`go test ./...`)", False),
        ("Tests: 31 passed, 90 % coverage (`pytest -q`)", False),
        ("Tests: passed (`go test ./internal/sync`)", True),
        ("Tests: 2 passed (`pytest -k upload`)", True),
        ("Tests: 1 failed, 30 passed (`pytest -q`)", True),
    ],
)
def test_a_test_that_failed_before_all_tests_passed_is_not_reported(run, stays):
    failed = "`go test ./internal/sync -run TestUpload`: FAIL: TestUpload (0.07s)"
    state = QuotedPiece("t9", "tool", "report", AT, f"state {run}")
    talk = said("Fix the upload of the gauge files in src/upload.py.", "The upload is in src/upload.py now.")

    def reported(at: str) -> bool:
        told = ask((*talk, QuotedPiece(at, "tool", "report", AT, f"failed {failed}"), state), 200)
        return any("TestUpload" in one.text for one in told.summary)

    assert reported("t3") is stays
    assert reported("t12")


@pytest.mark.parametrize(
    ("words", "asks"),
    [
        ("User: Show me the sizes of the top-level folders.", True),
        ("User: The bed is 22 by 6. How many yards of mulch does it take?", True),
        ("User: Test results are back. I have to eat gluten-free from now on. Any ideas?", False),
        ("User: I train every Tuesday for the marathon in May. Can you move the long run?", False),
        ("User: Nora won the race in Oslo on 5 May.", False),
        ("Caroline: I went to a support group in Leeds. Where do you train?", False),
    ],
)
def test_a_message_that_only_asks_for_something_is_told_from_one_that_lasts_and_from_a_talk(words, asks):
    assert CueJudge().asks(words) is asks


@pytest.mark.parametrize(("name", "cues"), [("CUES", CUES), ("WORK_CUES", WORK_CUES)])
def test_every_cue_is_used_and_every_cue_that_is_used_exists(name, cues):
    texts = [path.read_text("utf-8") for path in Path(offline.__file__).parent.glob("*.py")]
    assert {cue for text in texts for cue in re.findall(rf'\b{name}\["([^"]+)"\]', text)} == cues.keys()
