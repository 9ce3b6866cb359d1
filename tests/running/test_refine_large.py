"""A core that has grown too large comes under its target in one honest refinement, and what that costs is counted."""

from __future__ import annotations

import json

import pytest
from chat_server import ChatServer
from refine_world import World, call, done, id_in, is_verify, plays

from memoryd.gauge.estimate import estimate
from memoryd.ledger.memory import MemoryKind

TOPICS = {
    "deploy": "A deploy of the shop that fails is explained by its log, which is read before anything is restarted",
    "pump": "The pump of the garden stands still after a storm until its filter is cleaned, whatever its panel shows",
    "piano": "A piano that is moved in winter is out of tune for two weeks, so it is tuned only when it has rested",
}
LAWS = tuple(TOPICS.values())
PROMISES = tuple(
    f"I promised {name} to keep what was said about {what} between us, and I stand by that whoever asks me about it"
    for name, what in (
        ("Anna", "the loan"),
        ("Ben", "his health"),
        ("Carla", "a house"),
        ("Dora", "work"),
        ("Emil", "A"),
    )
)
SIZE = 7_983


def episode(number):
    topic = ("deploy", "pump", "piano")[number % 3]
    text = f"On 2025-{1 + number % 12:02}-{1 + number % 28:02} the {topic} gave trouble for the {number + 2}nd time. "
    return (
        text
        + {
            "deploy": "The shop did not come up, it was restarted by hand, and nobody had looked at what it wrote; "
            "after a while somebody read the log from the beginning, and there the reason stood in plain words. ",
            "pump": "There had been a storm in the night, the beds were dry by now, and the panel showed no fault; "
            "in the end the filter was taken out, leaves and sand were washed off, and the water came back. ",
            "piano": "It had been carried over the yard in the cold before, and in the hall it sounded sour to all; "
            "it was left alone in the warm room for two weeks, then it was tuned and has held ever since. ",
        }[topic]
    )


def episodes():
    """45 of them, as long as it takes for the core to have its size."""
    texts = [episode(number) for number in range(45)]
    left = SIZE - sum(map(estimate, PROMISES))
    filler = "It was talked about at the table afterwards, and all agreed on how it had gone and what was to be done. "
    made = []
    for number, text in enumerate(texts):
        share = (left - sum(map(estimate, made))) // (45 - number)
        made.append((text + filler * 9)[: 4 * share - 1] + ".")
    return made


def reads(question):
    """A careful reader: it knows which law is about what, and names one thing that each episode told besides."""
    if question["ask"] == "class":
        return "lesson", []
    topic = next((one for one, law in TOPICS.items() if law == question["claim"]), "")
    about = [f"the {topic} gave trouble" in one["text"] for one in question["evidence"]]
    return "supported" if topic and all(about) else "not-said", ["all agreed at the table"] if question.get(
        "replaces"
    ) else []


def refines(request):
    made = {topic: [] for topic in TOPICS}
    for text in TEXTS[:20]:
        made[next(topic for topic in TOPICS if f"the {topic} gave" in text)].append(id_in(request, text))
    protects = [call("protect_memory", id=id_in(request, text)) for text in PROMISES]
    merges = [
        call("consolidate_memories", ids_to_merge=made[topic], new_content=law, dropped=["how often it happened"])
        for topic, law in TOPICS.items()
    ]
    return [*protects, *merges]


TEXTS = episodes()


@pytest.mark.long
def test_a_core_of_fifty_memories_reaches_its_target_in_one_honest_refinement(tmp_path):
    summary = "I made 3 laws of 20 episodes and protected my 5 promises."
    with ChatServer(plays(refines, [done(summary)], reads=reads)) as server:
        world = World.made(tmp_path / "scratch", (*TEXTS, *PROMISES), protected=())
        world.url = server.url
        world.configure(target_tokens=5_000, trigger_tokens=8_000)
        with world.open():
            before = world.all()
            assert (len(before), world.tokens()) == (50, SIZE)
            row = world.refine()
            assert (row["state"], row["why"]) == ("succeeded", None), row
            world.check(before, row)
            assert SIZE / 2 <= world.tokens() <= 5_000
            saved = SIZE - world.tokens()
            assert saved == row["receipt"]["refine"]["counted"]["saved"]
            (entry,) = [one.content for one in world.live(MemoryKind.JOURNAL)]
            counted = f"Compressed 20 → 3; saved ~{saved} tokens; protected 5 constitutional memories"
            assert entry == f'Refinement of 2026-04-03: {counted}. It said: "{summary}"'
            assert counted in world.scratch.run("audit", "--run", row["id"]).stdout
            assert counted in world.scratch.run("job", "show", row["id"]).stdout
            # Each episode drops its date and number, and what was named: less than what the texts are shorter by.
            merged = [one for one in world.all().values() if one.ended_as == "merged"]
            assert sum(one.lost for one in merged) == world.eroded()
            assert 20 * 5 < world.eroded() < saved / 4
            assert row["receipt"]["reader"]["fooled"] == 0
    asked = [one.json["messages"][1]["content"] for one in server.requests if is_verify(one)]
    assert max(map(len, asked)) <= 6_000
    claims = world.scratch.json("job", "show", row["id"], "--content")["claims"]
    assert [(one["claim"], one["verdict"], one["step"]) for one in claims] == [(law, "kept", "reader") for law in LAWS]
    assert all("how often it happened" in one["dropped"] for one in claims)
    assert not any(text[:40] in json.dumps(row["receipt"]) for text in (*TEXTS, *LAWS))
