"""Format drift: an agent whose new version memoryd does not understand is reported, and the others are read on."""

from __future__ import annotations

import json
import os
from itertools import count

import pytest
from ingest_world import World, lines
from opencode_world import OpenCode

from memoryd.files.log import get_logger
from memoryd.reading import drift
from memoryd.transcripts.codex import Codex

SESSIONS = count()


@pytest.fixture
def world(tmp_path):
    with World(tmp_path) as made:
        yield made


def record(number, kind, **more):
    """A line of Claude Code 9.1.0; without `usage`, the response gives no token usage."""
    usage = more.pop("usage", {"input_tokens": 900})
    message = {"role": kind, "content": f"text {number}", "id": f"m{number}", "usage": usage}
    return {"type": kind, "uuid": f"{number}", "sessionId": "s", "version": "9.1.0", "message": message} | more


def put(world, records, age=0):
    """A transcript as Claude Code names it, which was last written `age` seconds ago; read by a whole scan."""
    session = next(SESSIONS)
    data = lines(json.dumps({**one, "uuid": f"{session}-{place}"}).encode() for place, one in enumerate(records))
    path = world.write(f"0000000{session % 10}-0000-4000-8000-{session:012}.jsonl", data)
    os.utime(path, (world.clock.now().timestamp() - age,) * 2)
    world.poll()
    return path


def alarms(world):
    drift.review(world.engine, world.settings(), world.clock, get_logger("memoryd.test"))
    return {one["subject"]: one["text"] for one in world.alarms() if one["kind"] == drift.KIND}


def understood(number=8):
    return [record(place, role) for place in range(number) for role in ("user", "assistant")]


def test_unknown_types_above_a_fifth_raise_an_alarm_that_names_them_and_the_version(world) -> None:
    known = [record(90, "file-history-snapshot")] * 16  # known, and passed over on purpose
    put(world, [*understood(), *known, *[record(91, "thought-v2")] * 8])
    assert alarms(world) == {}, "8 of 40 are a fifth, not more"
    put(world, [*understood(), *known, *[record(91, "thought-v2")] * 8, record(92, "plan v3")])
    text = "Claude Code 9.1.0: 9 of 41 records are of unknown types and skipped: thought-v2 8, other 1"
    assert alarms(world) == {"claude-code": text}
    assert len(world.texts()) == 32, "what is known is read"
    world.restart()
    assert alarms(world) == {"claude-code": text}
    for _ in range(drift.NEWEST):
        put(world, understood(), age=-1)
    assert alarms(world) == {}, "newer transcripts are understood"


@pytest.mark.parametrize("change", [{"message": None, "said": {}}, {"message": {"role": "user", "words": "text"}}])
def test_messages_without_content_above_a_fifth_raise_an_alarm(world, change) -> None:
    put(world, [*understood(), *[record(91, "user") | change] * 9])
    told = "9 of 41 records are of unknown types and skipped: user/no-content 9"
    assert alarms(world) == {"claude-code": f"Claude Code 9.1.0: {told.replace('41', '25')}"}


def test_no_usage_in_the_newest_session_raises_an_alarm(world) -> None:
    silent = [record(place, role, usage={}) for place in range(5) for role in ("user", "assistant")]
    put(world, [{**one, "version": None} for one in silent])
    assert alarms(world) == {}, "versions that do not write their number wrote no usage either"
    put(world, silent)
    assert alarms(world)["claude-code"].startswith("Claude Code 9.1.0: no token usage is found in 10 turns")
    put(world, understood(), age=-1)
    assert alarms(world) == {}


def test_another_schema_raises_an_alarm_and_other_sources_continue(tmp_path) -> None:
    database = {"pattern": "sessions/threads.sqlite", "format": "codex", "path": "threads.sqlite"}
    with World(tmp_path, {}, database) as world:
        path = world.write("threads.sqlite", world.database.read_bytes())
        put(world, understood())
        text = f"{path} is skipped: codex: its schema is not known: it is a database, not lines"
        assert alarms(world) == {"": text}
        assert len(world.texts()) == 16
        path.unlink()
        world.poll()
        assert alarms(world) == {}


def test_transcripts_of_no_known_format_raise_an_alarm_if_older_ones_were_read(world) -> None:
    put(world, understood())
    for left in reversed(range(drift.NEWEST)):
        put(world, [{"kind": "turn", "words": "never seen before"}], age=-1)
        assert bool(alarms(world)) == (left == 0)
    assert alarms(world)[""].endswith("in no known format; what was read before is of Claude Code 9.1.0")


def test_unknown_types_in_a_database_raise_an_alarm(tmp_path) -> None:
    with World(tmp_path, {}, {"pattern": "sessions/*.db", "format": "opencode", "path": "x.db"}) as world:
        program = OpenCode(world.path("x.db"))
        session = program.session()
        for number in range(1, 7):
            program.exchange(session, number)
        world.poll()
        assert alarms(world) == {}
        for number in range(17, 27):
            message = program.begin_answer(session, number, "Well.")
            program.part(message, 9, "thought-v2")
            program.end_answer(message, "Well.")
        world.poll()
        text = alarms(world)["opencode"]
        assert text.startswith("OpenCode of an unknown version: 10 of ")
        assert text.endswith(" records are of unknown types and skipped: thought-v2 10")
        program.close()


def test_codex_says_its_version_and_new_kinds_of_events_are_unknown() -> None:
    meta = {"type": "session_meta", "payload": {"id": "x", "cli_version": "0.169.0"}}
    assert Codex().version_of(meta) == "0.169.0"
    assert Codex().version_of({"type": "session_meta", "payload": {"cli_version": "ghp_aB3dE5fG7h"}}) is None
    known = {name: Codex().is_known(name) for name in ("event_msg/agent_message", "event_msg/collab_x", "state")}
    assert set(known.values()) == {True}
    assert not Codex().is_known("event_msg/said")
