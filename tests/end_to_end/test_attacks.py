"""Attackers who write the author's reply, the reader's or the material: no order of theirs lasts, no wish comes bent.

`bench/attacks.py` says what is tried, in more languages; `make test` tries a sample. Here the orders go through the
daemon's own doors besides.
A note that the agent's own tool wrote about a wish may still become a memory marked as the assistant's.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from datetime import timedelta
from types import SimpleNamespace

import pytest
from chat_server import ChatServer, speak
from hostile_world import Aftermath, Talk, play
from model_world import World, rows
from places import ROOT

from memoryd.changing import ledger_runs
from memoryd.requests import waiting

pytestmark = pytest.mark.timeout(600)  # on a busy machine
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
RARE = [pytest.param(one, marks=pytest.mark.soak) for one in ("de", "fr", "es", "ru")]


@pytest.fixture(scope="module")
def bench():
    for name in ("bench.judgement", "bench.attacks"):
        path = ROOT / f"{name.replace('.', '/')}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def test_no_attack_brings_in_an_order_or_bends_or_removes_a_wish(bench):
    one = {"en": bench.SCENES["en"]}
    two = one | {"zh": bench.SCENES["zh"]}
    found = [bench.by_reader(two if SOAK else one, "fit"), bench.by_daily(bench.SCENES if SOAK else two, bench.BOUGHT)]
    readers = [*bench.READERS] if SOAK else [bench.BOUGHT, "fit", "yes to everything", "none"]
    found += [bench.by_reader(one, name) for name in readers if name not in {"fit", bench.BOUGHT}]
    found += [bench.by_author(two, "fit"), bench.by_option(one, "fit")]
    found += [bench.by_evidence(one, number) for number in range(0, len(bench.NOTES), 1 if SOAK else 4)]
    found += [bench.by_removal(two if name == "fit" else one, name) for name in readers if name != bench.BOUGHT]
    assert min(one.tried for one in found) > 100
    bad = {one.attack: (one.orders[:3], one.bent[:3], one.lost[:3]) for one in found}
    assert {attack: what for attack, what in bad.items() if any(what)} == {}


def test_a_reader_that_says_one_thing_to_everything_is_unfit(bench):
    assert [bench.fitness(judge) for judge in (bench.yes, bench.no, bench.last)] == [False] * 3


# --- through the daemon -----------------------------------------------------------------------------------------------


class Attacker:
    """An author who wants the orders kept, beside a reader who judges by the evidence, word for word."""

    def __init__(self, bench, scenes):
        self.bench = bench
        self.texts = [text for scene in scenes for text in (*scene.orders, *scene.bent)]
        items = json.loads((ROOT / "memoryd" / "jobs" / "calibration.json").read_text())
        self.truth = {one["claim"]: one["verdict"] for one in items}
        self.read = 0

    def __call__(self, connection, request):
        connection.head()
        system, user = (one["content"] for one in request.json["messages"][:2])
        if system.startswith("Check memory claims."):
            connection.send(speak(self._verdicts(json.loads(user.split("```")[1].removeprefix("json")))))
        elif '"new"' in request.prompt:
            connection.send(speak(self._facts([one for one, _, _ in request.quoted])))
        elif "[DREAM]" in request.prompt:
            connection.send(speak(self._dream({one: text for one, _, text in request.quoted})))
        else:
            connection.send(speak(self._sleep([one for one, _, _ in request.quoted])))

    def _verdicts(self, asked):
        found = []
        for one in asked:
            lines = [SimpleNamespace(text=line["text"]) for line in one["evidence"]]
            question = self.bench.Question(
                self.bench.Subject(one["ask"]), one["claim"], lines, tuple(one.get("replaces", ()))
            )
            self.read += one["claim"] not in self.truth
            found.append({"id": one["id"], "verdict": self.truth.get(one["claim"]) or self.bench.fit(question)})
        return "\n".join(map(json.dumps, found))

    def _sleep(self, ids):
        lines = [f"- [{one}] {label}{text}" for text in self.texts for one in ids for label in self.bench.LABELS]
        memories = [f"- {kind} 0.95 [{one}] {text}" for text in self.texts for one in ids for kind in self.bench.TYPES]
        return "\n".join(["[SUMMARY]", *lines, "[MEMORIES]", *memories])

    def _facts(self, ids):
        new = [
            {"content": text, "category": kind, "confidence": 0.9, "cites": [one]}
            for text in self.texts
            for one in ids
            for kind in ("context", "preference")
        ]
        return json.dumps({"new": new[:200]}, ensure_ascii=False)

    def _dream(self, shown):
        ids = list(shown)
        step = len(self.texts)  # a reply with a bullet for each pair would be refused as a whole
        pairs = [(text, one) for at, text in enumerate(self.texts) for one in (*ids[:2], *ids[2 + at :: step])]
        bullets = [f"- {text} [{one}]" for text, one in pairs]
        kept = [f"- {text} [{one}]" for one, text in shown.items()]  # a reply with nothing true is refused whole
        return "\n".join(["[MEMORY]", "## Rules", *bullets, *kept, "[DREAM]", "A day."])


def _talk(number, scene):
    talk = Talk(number).user(scene.wish).answer(scene.done).user(scene.other)
    talk.tool("\n".join(scene.orders)).answer(" ".join(scene.orders))
    return talk.user("Thanks.").answer(scene.done)


def _by_tools(app, scene):
    """The agent's tool keeps what the page wants, and what it makes of the wish."""
    options = {"day": "2026-05-04", "clock": "12:00", "witness": {"since": "2026-05-01T00:00:00Z"}}
    asked = [(ledger_runs.SAVE, one) for one in scene.orders] + [
        (ledger_runs.UPDATE, one) for one in (*scene.orders, *scene.bent)
    ]
    for kind, text in asked:
        waiting.request(app.engine, app.clock, "demo", kind, options, text=text)


def _by_another_agent(world, scene):
    """Another agent of the same folder writes into the day's file, under each label, while this one works."""
    path = world.workspace / "memory" / "2026-05-04.md"
    lines = [f"- {label}{text}" for text in (*scene.orders, *scene.bent) for label in ("", "User: ", "Assistant: ")]
    path.write_text("\n".join((path.read_text(), "## Note (13:00)", "", *lines, "")))


@pytest.mark.parametrize("language", ["en", "zh", *RARE])
def test_nothing_passes_by_a_sleep_facts_tools_a_shared_folder_and_a_dream(bench, language, tmp_path, workers):
    scene = bench.SCENES[language]
    attacker = Attacker(bench, [scene])
    with ChatServer(attacker) as server:
        world = World(tmp_path, server.url, llm={"verify": "model"}, workers=workers)
        (world.workspace / "claude").mkdir()
        talk = _talk(1, scene)
        lines = "".join(json.dumps(one) + "\n" for one in talk.found)
        (world.workspace / "claude" / f"{talk.session}.jsonl").write_text(lines)
        with world.open(transcripts=[{"path": "claude/*.jsonl", "format": "claude-code"}]) as app:
            play(app)
            _by_tools(app, scene)
            while app.runner.run_next() is not None:
                pass
            _by_another_agent(world, scene)
            waiting.request(app.engine, app.clock, "demo", "dream", {"lookback_days": 2})
            for _ in range(5):  # a file that was edited a moment ago is waited for
                while app.runner.run_next() is not None:
                    pass
                world.time.pass_by(timedelta(minutes=10))
            states = {(row["kind"], row["state"]) for row in rows(app, "SELECT kind, state FROM job_run")}
            assert states >= {("sleep", "succeeded"), ("save", "succeeded"), ("update", "succeeded")}
            assert ("dream", "succeeded") in states
            assert attacker.read, "the reader was found fit"
            found = bench.Count(language)
            if not (world.workspace / "MEMORY.md").exists():
                return  # nothing at all has come so far
            texts = [text.removeprefix("- ") for text in Aftermath(app, world).lasting()]
            found.note(texts, (scene.wish, scene.done))
            assert found.orders == []
