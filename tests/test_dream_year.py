"""Nights after nights through the real database and files, with a model that loses a little each night.

What was lost is reckoned here from the audit alone, by marks: each text holds numbers or words that no other has, and
one that stands nowhere in the core any more is lost, with its share of the tokens, from the night on which it went.
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
from scratch import in_process
from test_ledger_runs import World

from memoryd.daemon.once import run_once
from memoryd.engine.core_watch import CoreWatch
from memoryd.jobs.job import Reply
from memoryd.llm import offline
from memoryd.tiers import core

pytestmark = pytest.mark.timeout(3600)  # the whole year, on a busy machine
NIGHTS = 365 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 20
FIRST = datetime(2026, 3, 5, 3, 0, tzinfo=UTC)
DAY, WINDOW = timedelta(days=1), timedelta(days=30)
PERCENT = 25
RULES = [f"Gate {n} of the yard stays shut at night." for n in range(1001, 1006)]
LISTS = [f"Shed {n} keeps {', '.join(f'ware{n}x{item}' for item in range(12))}." for n in range(1101, 1104)]
MARK = re.compile(r"\b(?:\d{4}|ware\w+)\b")
ENDED = {"archived", "superseded", "merged"}


def crate(number, hall):
    return f"Crate {number} stands in hall {hall} beside the ramp."


def marks(text):
    return set(MARK.findall(text))


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
        """Read the entries of one night: what the core held before it, and what went in it."""
        before = self.held()
        for number, _, memory_id, after in rows:
            self.read = number
            if not memory_id.startswith("core_") or after is None:
                continue
            state = json.loads(after)
            if state.get("deleted_at") is None:
                self.live[memory_id] = state["content"]
                for mark in marks(state["content"]):
                    self.weight.setdefault(mark, tokens(state["content"]) / len(marks(state["content"])))
            else:
                self.live.pop(memory_id, None)
        now = self.held()
        for mark in before - now:
            self.gone[mark] = at
        for mark in now:
            self.gone.pop(mark, None)
        return before

    def held(self):
        return {mark for text in self.live.values() for mark in marks(text)}

    def lost(self, after, upto):
        return sum(self.weight[mark] for mark, at in self.gone.items() if after < at <= upto)


class Year(World):
    """An installation that dreams each night, and what its model makes of it."""

    def __init__(self, root, seed):
        super().__init__(root)
        self.chance = random.Random(seed)
        self.now = FIRST - DAY
        self.halls = {2000 + n: n % 7 for n in range(40)}
        self.next = 2040
        self.dropped = []
        self.tried = Counter()
        self.book = Book()
        lines = [*RULES, *LISTS, *(crate(number, hall) for number, hall in self.halls.items())]
        self.write("# Yard\n\n" + "".join(f"- {text}\n" for text in lines))
        self.scratch.write_config(dream={"max_bullets": 55}, scrub={"secrets": "off"})

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
        if self.chance.random() < 0.5:
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

    def reply(self, material):
        """Keep most, and lose a twentieth, each time in another way."""
        lines, told = [], []
        days = [(name, text) for name, text in material if name.startswith("d")]
        known = [(name, text) for name, text in material if name.startswith("m")]
        for at, (name, text) in enumerate(known):
            if self.chance.random() >= 0.05:
                lines.append(f"- {text} [{name}]")
                continue
            how = self.chance.choice(["archive", "forget", "shorten", "cut", "merge", "supersede", "alter"])
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
        accounting = "archive" if number % 5 == 4 else "keep"
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

    def check(self, row):
        """What must hold after each night."""
        before = dict(self.book.live)
        rows = self.entries()
        at = self.now
        start = at - WINDOW
        had = self.book.turn(rows, at)
        base = sum(self.book.weight[mark] for mark in had) + sum(
            self.book.weight[mark] for mark, when in self.book.gone.items() if start < when < at
        )
        lost = self.book.lost(start, at)
        if lost * 100 > PERCENT * base:
            for mark, when in self.book.gone.items():
                print(mark, when, self.scratch.query("SELECT m.content, m.ended_as, m.deleted_at, (SELECT group_concat(x.content) FROM json_each(m.successors) j JOIN memory x ON x.id=j.value) FROM memory m WHERE m.content LIKE '%'||?||'%'", mark))
        assert lost * 100 <= PERCENT * base, (self.now, lost, base)
        self.dropped += [text for one, text in before.items() if one not in self.book.live]
        live = {
            memory_id: text
            for memory_id, text in self.scratch.query(
                "SELECT id, content FROM memory WHERE kind = 'core' AND deleted_at IS NULL"
            )
        }
        assert live == self.book.live
        in_file = [core.unescaped(one.text) for one in core.bullets(core.parse(self.path.read_bytes()))]
        assert sorted(in_file) == sorted(live.values())
        ended = self.scratch.query(
            "SELECT m.id, m.ended_as, (SELECT count(*) FROM audit a WHERE a.memory_id = m.id AND a.run_id IS NOT NULL)"
            " FROM memory m WHERE m.kind = 'core' AND m.deleted_at IS NOT NULL"
        )
        assert before.keys() <= live.keys() | {one for one, _, _ in ended}
        assert all(how in ENDED and count for _, how, count in ended), ended
        assert set(RULES) <= set(in_file)
        return lost / base


@pytest.mark.parametrize("seed", range(1,7) if os.environ.get("TELL") else [7])
def test_nights_after_nights_lose_no_more_than_the_budget_and_nothing_that_is_protected(tmp_path, monkeypatch, seed):
    ids = random.Random(seed)
    monkeypatch.setattr(secrets, "token_hex", lambda count=32: ids.randbytes(count).hex())  # the same nights each day
    year = Year(tmp_path / "scratch", seed)
    with year.open():
        run_once(year.app)
        year.take()
        for text in RULES:
            year.own("protect", year.id_of(text))
        year.book.turn(year.entries(), FIRST - DAY)
        states, worst = Counter(), 0.0
        for number in range(NIGHTS):
            row = year.night(number)
            states[row["state"]] += 1
            if os.environ.get("TELL"):
                print(
                    number,
                    row["state"],
                    row["why"],
                    json.dumps(row["receipt"].get("refused"))[:1500],
                    {
                        k: row["receipt"]["dream"].get(k)
                        for k in ("dispositions", "added", "answerable", "refusals", "over_max_bullets")
                    },
                )
            worst = max(worst, year.check(row))
        assert year.problems() == []
    print(
        NIGHTS,
        states,
        year.tried,
        f"{worst:.3f}",
        len(year.book.live),
        Counter(how for (how,) in year.scratch.query("SELECT ended_as FROM memory WHERE kind = 'core'")),
    )
