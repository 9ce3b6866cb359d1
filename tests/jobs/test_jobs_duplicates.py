"""Duplicates: a text is known if it was said before in the same words, in the same order."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reversals import REVERSED
from test_jobs_facts import contents, new, truthful
from test_jobs_facts import inputs as of_facts
from test_jobs_facts import run as learn
from test_jobs_facts import turn as exchanged
from test_jobs_sleep import core, daily
from test_jobs_sleep import inputs as of_sleep
from test_jobs_sleep import run as sleep
from test_jobs_sleep import turn as spoken

from memoryd.jobs import dream_reply
from memoryd.jobs.duplicates import KnownTexts
from memoryd.jobs.job import Ask, NothingToDo, QuotedPiece
from memoryd.ledger.facts import Fact
from memoryd.offline import backend as offline
from memoryd.text import normal


@given(st.lists(st.text()), st.text())
def test_a_text_is_known_if_its_form_is(texts, text):
    assert not KnownTexts().says(text)
    known = KnownTexts(texts)
    assert all(known.says(one) for one in texts if normal.normalize(one))
    assert known.says(text) is (bool(normal.normalize(text)) and normal.normalize(text) in map(normal.normalize, texts))
    known.add(text)
    assert known.says(text) is bool(normal.normalize(text))


@pytest.mark.parametrize(("one", "other"), REVERSED)
def test_a_reversal_is_no_duplicate_in_sleep(one, other):
    reply = f"[SUMMARY]\n- [t1] User: {other}\n[MEMORIES]\n- preference 0.90 [t1] {other}"
    step, _ = sleep(of_sleep((spoken(1, other),), core=(f"User: {one}",), daily=f"- User: {one}\n"), reply)
    assert other in [*core(step), daily(step).removeprefix("- User: ")]
    again, _ = sleep(of_sleep((spoken(1, other),), core=(f"User: {other}",)), reply)
    assert isinstance(again, NothingToDo)


@pytest.mark.parametrize(("one", "other"), REVERSED)
def test_a_reversal_is_no_duplicate_in_facts(one, other):
    talk = (exchanged(1, other), exchanged(2, "Noted.", "assistant"))
    held = Fact("fact_00000001", one, "preference", 0.9, "2024-01-01T00:00:00Z", "sess_0")
    reply = {"new": [new(other, "t1")]}
    assert contents(learn(of_facts(talk, known=(held,)), reply, reader=truthful)) == [other]
    step = learn(of_facts(talk, known=(replace(held, content=other),)), reply, reader=truthful)
    assert step.receipt["dropped"] == {"duplicate": 1}


@pytest.mark.parametrize(("one", "other"), REVERSED)
def test_a_reversal_is_no_duplicate_in_a_dream(one, other):
    material = [QuotedPiece(f"m{n}", "memory", "user", None, text) for n, text in enumerate((one, other, one), 1)]
    parsed = dream_reply.parse(offline.answer(Ask("dream", "", tuple(material), (("today", "2026-11-22"),))))
    assert isinstance(parsed, dream_reply.ParsedDreamReply)
    cites = {bullet.cites for section in parsed.sections for bullet in section.bullets}
    assert cites == {("m1", "m3"), ("m2",)}


@pytest.mark.parametrize(
    ("known", "text", "says"),
    [
        ("I was ill yesterday (2026-11-22).", "I was ill yesterday.", True),
        ("I was ill yesterday.", "I was ill yesterday (2026-11-22).", True),
        ("I was ill yesterday (2026-11-22).", "I was ill yesterday (2026-11-22).", True),
        ("I was ill yesterday (2026-11-22).", "I was ill yesterday (2026-12-22).", False),
        ("I went to Rome last year (2019).", "I went to Rome last year (2018).", False),
    ],
)
def test_an_added_day_counts_only_where_both_texts_have_one(known, text, says):
    assert KnownTexts([known]).says(text) is says
