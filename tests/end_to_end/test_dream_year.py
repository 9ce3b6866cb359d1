"""Nights after nights through the real database and files, with a model that loses a little each night.

What was lost is reckoned here from the audit alone, by marks: each text holds numbers or words that no other has, and
one that stands nowhere in the core any more is lost, with its share of the tokens, from the night on which it went.
Of the windows that end in a night the whole 30 days are looked at; what any other window loses is a part of one's.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
import secrets
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from chat_server import ChatServer, speak
from edited_world import World
from model_world import VARIABLE
from scratch import in_process
from second_reader_world import TRUTH, shown
from second_reader_world import told as as_told

from memoryd.daemon.once import run_once
from memoryd.jobs.job import Reply
from memoryd.offline import backend as offline
from memoryd.running.core_watch import CoreWatch
from memoryd.tiers import core

pytestmark = pytest.mark.timeout(3600)  # the whole year, on a busy machine
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
NIGHTS = 365 if SOAK else 20
FIRST = datetime(2026, 3, 5, 3, 0, tzinfo=UTC)
DAY, WINDOW = timedelta(days=1), timedelta(days=30)
PERCENT = 25
RULES = [f"Gate {n} of the yard stays shut at night." for n in range(1001, 1006)]
LISTS = [f"Shed {n} keeps {', '.join(f'ware{n}x{item}' for item in range(12))}." for n in range(1101, 1104)]
MARK = re.compile(r"\b(?:\d{4}|ware\w+)\b")
LABELS = {"scope": "standing", "class": "project"}
ENDED = {"archived", "superseded", "merged"}


def crate(number, hall):
    return f"Crate {number} stands in hall {hall} beside the ramp."


def marks(text):
    """What no other text holds; of one that has no such thing, all of it."""
    return set(MARK.findall(text)) or {text}


def believe(question):
    """The verdict of a fit reader that believes whatever is about the same things as its evidence."""
    if question["ask"] in LABELS:
        return LABELS[question["ask"]]
    claim, replaced = marks(question["claim"]), question.get("replaces", [])
    material = " ".join([one["text"] for one in question["evidence"]] + replaced)
    if not all(mark in material for mark in claim) or not all(claim & marks(text) for text in replaced):
        return "not-said"
    return "newer-value" if replaced else "supported"


def tokens(text):
    return -(-len(text) // 4)


class Book:
    """What the core held, as the audit has it, and which marks went when."""

    def __init__(self):
        self.live = {}
        self.read = 0
        self.weight = {}  # tokens that a mark stands for
        self.gone = {}  # mark → when it went, while it is nowhere

    def turn(self, rows, at):
        """Read the entries of one night, and which marks went in it."""
        before = self.held()
        replaced = set()  # marks of texts that have another value since
        for number, _, memory_id, after in rows:
            self.read = number
            if not memory_id.startswith("core_") or after is None:
                continue
            state = json.loads(after)
            if state.get("deleted_at") is None or state["ended_as"] == "superseded":
                replaced |= marks(self.live.get(memory_id, ""))
            if state.get("deleted_at") is None:
                self.live[memory_id] = state["content"]
                for mark in marks(state["content"]):
                    self.weight.setdefault(mark, tokens(state["content"]) / len(marks(state["content"])))
            else:
                self.live.pop(memory_id, None)
        now = self.held()
        for mark in before - now - replaced:
            self.gone[mark] = at
        for mark in now:
            self.gone.pop(mark, None)

    def held(self):
        return {mark for text in self.live.values() for mark in marks(text)}


class Year(World):
    """An installation that dreams each night, and what its model makes of it."""

    def __init__(self, root, seed):
        super().__init__(root)
        self.chance = random.Random(seed)
        self.now = FIRST - DAY
        self.halls = {2000 + n: n % 7 for n in range(30)}
        self.next = 2030
        self.dropped = []
        self.tried = Counter()
        self.book = Book()
        lines = [*RULES, *LISTS, *(crate(number, hall) for number, hall in self.halls.items())]
        self.write("# Yard\n\n" + "".join(f"- {text}\n" for text in lines))
        self.scratch.write_config(dream={"max_bullets": 34}, scrub={"secrets": "off"})

    def open(self, step=None, now=None):
        self.app = in_process(self.scratch, lambda: self.now, step)
        self.watch = CoreWatch(self.app.runner)
        self.app.runner.worker.answer = self.answer
        return self.app

    # --- the days ---

    def day(self):
        """What happened: new crates, some that were moved, some that were forgotten and are named in other words."""
        said = []
        for _ in range(self.chance.randint(0, 2)):
            self.halls[self.next] = self.chance.randint(0, 9)
            said.append(crate(self.next, self.halls[self.next]))
            self.next += 1
        if self.chance.random() < 0.9:
            number = self.chance.choice(sorted(self.halls))
            self.halls[number] = (self.halls[number] + self.chance.randint(1, 9)) % 10
            said.append(f"Crate {number} stands in hall {self.halls[number]} beside the ramp now.")
        if self.dropped and self.chance.random() < 0.5:
            text = self.chance.choice(self.dropped)
            said.append(text if self.chance.random() < 0.5 else text.replace("beside the ramp", "near the ramp"))
        said.append(f"It rained for {self.chance.randint(1, 9)} hours.")
        day = self.now.date() - DAY
        path = self.scratch.workspace / "memory" / f"{day}.md"
        path.parent.mkdir(exist_ok=True)
        body = "".join(f"- Assistant: {text}\n" for text in said)
        path.write_text(f"# Daily Memory: {day}\n\n## Notes (18:00)\n\n{body}", encoding="utf-8")

    # --- the model ---

    def answer(self, ask, backend, deadline):
        if ask.job != "dream":
            return offline.answer(ask)
        return Reply(self.reply([(one.id, one.text) for one in ask.material]), "stop", "offline")

    def speak(self, connection, request):
        connection.head()
        questions = shown(request)
        if questions is not None:
            told = [(one["id"], TRUTH.get(as_told(one)) or believe(one)) for one in questions]
            connection.send(speak("\n".join(json.dumps({"id": name, "verdict": one}) for name, one in told)))
            return
        connection.send(speak(self.reply([(name, text) for name, _, text in request.quoted])))

    def reply(self, material):
        """Drop a twentieth, in so many words or not, and change some of the rest for the worse."""
        lines, told = [], []
        days = [(name, text) for name, text in material if name.startswith("d")]
        known = [(name, text) for name, text in material if name.startswith("m")]
        for at, (name, text) in enumerate(known):
            drawn = self.chance.random()
            if drawn >= 0.08:
                lines.append(f"- {text} [{name}]")
                continue
            drops, others = ["archive", "forget"], ["shorten", "cut", "merge", "supersede", "alter"]
            how = self.chance.choice(drops if drawn < 0.05 else others)
            self.tried[how] += 1
            if how == "archive":
                told.append(f"- archived [{name}]: nobody asks")
            elif how == "shorten":
                shorter = text.rsplit(", ", 1)[0].removesuffix(" beside the ramp.").removesuffix(" at night.")
                lines.append(f"- {shorter}. [{name}]")
            elif how == "cut":
                lines.append(f"- {' '.join(text.split()[:3])}. [{name}]")
            elif how == "merge":
                other, more = known[at - 1]
                lines = [line for line in lines if not line.endswith(f"[{other}]")]
                lines.append(f"- {text.removesuffix('.')}; {more} [{name}, {other}]")
            elif how == "supersede" and days:
                lines.append(f"- {days[0][1].removeprefix('Assistant: ')} [{days[0][0]}]")
                told.append(f"- superseded [{name}] by [{days[0][0]}]: newer")
            elif how == "alter":
                lines.append(f"- {re.sub('[0-9]{4}', lambda number: str(int(number[0]) + 1), text)} [{name}]")
        for name, text in days:
            said = text.removeprefix("Assistant: ")
            old = next((key for key, one in known if one.split()[:2] == said.split()[:2]), None)
            lines.append(f"- {said} [{name}]" if old is None else f"- {said} [{old}, {name}]")
        self.chance.shuffle(lines)
        return "\n".join(["[MEMORY]", *lines, "[DREAM]", "A night.", *told])

    # --- what came of it ---

    def night(self, number):
        self.now = FIRST + number * DAY + timedelta(minutes=self.chance.randint(0, 600))
        self.day()
        accounting = "archive" if number % 2 else "keep"
        settings = self.app.settings
        guards = dataclasses.replace(settings.guards, accounting=accounting)
        self.app.runner.settings = dataclasses.replace(settings, guards=guards)
        return self.do("dream", scheduled=True)

    def entries(self):
        return self.scratch.query(
            'SELECT a.id, a.run_id, a.memory_id, n.text FROM audit a LEFT JOIN content n ON n.sha256 = a."after"'
            " WHERE a.id > ? ORDER BY a.id",
            self.book.read,
        )

    def check(self, run):
        """What must hold after each night; returns the share that was lost within the window."""
        before = dict(self.book.live)
        self.book.turn(self.entries(), self.now)
        start = self.now - WINDOW
        earlier = [mark for mark, at in self.book.gone.items() if start < at < self.now]
        base = sum(map(tokens, before.values())) + sum(self.book.weight[mark] for mark in earlier)
        lost = sum(self.book.weight[mark] for mark, at in self.book.gone.items() if at > start)
        assert lost * 100 <= PERCENT * base, (self.now, lost, base)
        self.dropped += [text for memory_id, text in before.items() if memory_id not in self.book.live]
        live = dict(self.scratch.query("SELECT id, content FROM memory WHERE kind = 'core' AND deleted_at IS NULL"))
        assert live == self.book.live
        in_file = [core.unescape(one.text) for one in core.parse(self.path.read_bytes()).bullets]
        assert sorted(in_file) == sorted(live.values())
        ended = self.scratch.query(
            "SELECT m.id, m.ended_as, m.successors, EXISTS (SELECT 1 FROM audit a WHERE a.memory_id = m.id AND"
            " a.run_id = ? AND a.operation IN ('delete', 'merge')) FROM memory m WHERE m.kind = 'core'"
            " AND m.deleted_at IS NOT NULL",
            run["id"],
        )
        assert {memory_id for memory_id, *_ in ended} | live.keys() >= before.keys()
        for memory_id, how, successors, is_told in ended:
            assert (how == "archived") is (successors == "[]")
            assert how in ENDED
            assert is_told is not (memory_id not in before)
        assert set(RULES) <= set(in_file)
        assert run["state"] != "declined" or live == before
        return lost / base


def lived(year, nights):
    """Nights after nights; what came of them, and the worst share that was lost within a window."""
    run_once(year.app)
    year.take()
    for text in RULES:
        year.own("protect", year.id_of(text))
    year.book.turn(year.entries(), FIRST - DAY)
    states, worst = Counter(), 0.0
    for number in range(nights):
        run = year.night(number)
        states[run["state"]] += 1
        worst = max(worst, year.check(run))
    assert year.problems() == []
    assert {one.content for one in year.live() if one.constitutional} == set(RULES)
    assert states["succeeded"] >= 0.9 * nights, states
    return worst


def endings(year):
    return Counter(how for (how,) in year.scratch.query("SELECT ended_as FROM memory WHERE kind = 'core'"))


@pytest.fixture
def seeded(monkeypatch):
    """The same nights each day: ids are drawn by a seed too."""
    ids = random.Random(7)
    monkeypatch.setattr(secrets, "token_hex", lambda count=32: ids.randbytes(count).hex())


@pytest.mark.usefixtures("seeded")
def test_nights_after_nights_lose_no_more_than_the_budget_and_nothing_that_is_protected(tmp_path, record_property):
    year = Year(tmp_path / "scratch", 7)
    with year.open():
        worst = lived(year, NIGHTS)
        assert worst > 0.2  # the model did try
        found = endings(year)
        assert set(found) == {None, "archived"}  # nobody has read a merge or a newer value
    record_property("covered", f"{NIGHTS} nights: {dict(found)}, tried {dict(year.tried)}, at worst {worst:.1%} lost")


@pytest.mark.usefixtures("seeded")
def test_nights_with_a_model_over_http_do_the_same(tmp_path, workers):
    """Fewer, since a server that speaks token by token takes most of their time."""
    year = Year(tmp_path / "scratch", 11)
    with ChatServer(year.speak) as server:
        llm = {"provider": "openai", "model": "tiny-1", "base_url": server.url, "api_key_env": VARIABLE}
        year.scratch.write_config(llm=llm | {"fallback": "wait", "daily_tokens": 100_000_000})
        with year.open() as app:
            app.runner.worker = app.runner.answerer.worker = app.worker = workers.counting
            app.runner.answerer.models = workers.models
            lived(year, 10 if SOAK else 2)
            assert not SOAK or set(endings(year)) == {None, *ENDED}
        assert len(server.requests) >= (10 if SOAK else 2)
