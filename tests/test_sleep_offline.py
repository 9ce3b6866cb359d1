"""Sleep with the built-in backend, as most people have it: what is said briefly is not lost for being brief."""

from datetime import UTC, datetime

import pytest

from memoryd.jobs import sleep
from memoryd.jobs.job import AddMemories, AppendDaily, Ask, Done
from memoryd.llm import offline
from memoryd.transcripts.turn import Kind, Origin, Role, StoredTurn


def slept(*said: str):
    turns = tuple(
        StoredTurn(
            seq=seq,
            record_id=f"r{seq}",
            part=0,
            role=Role.USER,
            origin=Origin.USER,
            kind=Kind.MESSAGE,
            text=text,
            at="2026-11-20T10:00:00Z",
            tokens=9,
            sidechain=False,
            tool_call_id=None,
            tool_name=None,
        )
        for seq, text in enumerate(said, 1)
    )
    inputs = sleep.SleepInputs(
        agent_id="a",
        session_id="s",
        folder=None,
        reason="Session Notes",
        turns=turns,
        live=turns,
        previous_summary=None,
        core=(),
        daily="",
        window=200_000,
        budget=0.25,
        keep_recent=10,
        strategy="hybrid",
        tz=UTC,
        count_tokens=lambda texts: [len(text) // 4 + 1 for text in texts],
        now=datetime(2026, 11, 20, tzinfo=UTC),
        instructions="",
    )
    step = sleep.begin(inputs)
    for _ in range(sleep.MAX_STEPS):
        answer = offline.answer(step) if isinstance(step, Ask) else None
        step = sleep.resume(inputs, step, answer)
        if isinstance(step, Done):
            return step
    raise AssertionError(step)


def written(step: Done) -> str:
    daily = [edit.body for edit in step.edits if isinstance(edit, AppendDaily)]
    core = [memory.text for edit in step.edits if isinstance(edit, AddMemories) for memory in edit.memories]
    return "\n".join([*daily, *core])


@pytest.mark.parametrize(
    "text",
    [
        "We decided to move the archive to Reykjavik in October.",
        "I prefer pytest over unittest.",
        "We must ship the Oslo release before 2026-12-15 because the contract with Nordpost ends then.",
    ],
)
def test_a_single_message_is_kept(text):
    assert text.rstrip(".") in written(slept(text))


def test_every_sentence_of_a_short_message_is_kept():
    text = written(slept("Our deadline is 2026-12-15. The customer is Nordpost. Do not touch the billing module."))
    assert all(part in text for part in ("2026-12-15", "Nordpost", "billing module"))
