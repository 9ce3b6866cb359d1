"""`sessions.capture`: a NOW file of each watched session, which is never read back; sessions that continue."""

import pytest
from rolled_world import World

from memoryd.tiers import now

pytestmark = pytest.mark.long


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "scratch", sessions={"capture": True})


def captured(world):
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(world.folder.glob("NOW-*.md"))}


def test_a_watched_session_has_a_file_until_it_is_rolled_over_and_is_read_once(world):
    world.speak("billing", "one")
    world.once(0.1)
    ((name, text),) = captured(world).items()
    assert text.count("move the billing service") == 1
    assert now.parse(text.encode()).header.memory_type == "capture"
    world.speak("billing again", "one")
    world.once(0.1)
    assert captured(world)[name].startswith(text.partition("---\n\n")[0])
    assert captured(world)[name].count("## User: ") == 2
    assert world.scratch.query("SELECT count(*) FROM session") == [(1,)], "it is not read back"
    world.once(3)
    assert now.is_cleared(now.parse(captured(world)[name].encode()))
    assert world.archived().count("### Session ") == 1
    world.once(24 * 9)
    assert captured(world) == {}


def test_a_file_that_somebody_edited_is_left_alone(world):
    world.speak("billing", "one")
    world.once(0.1)
    ((name, text),) = captured(world).items()
    edited = text.replace("move the billing", "never move the billing")
    (world.folder / name).write_text(edited, encoding="utf-8")
    world.speak("mail", "one")
    world.once(0.1)
    world.once(3)
    assert captured(world)[name] == edited


def test_a_session_that_ended_by_idleness_goes_on_and_replaces_its_entry(world):
    world.session("billing", "one")
    world.session("search", "two")
    assert world.topics() == ["search", "billing"]
    world.speak("mail", "one")
    world.once(0.1)
    (state,) = world.scratch.query("SELECT state FROM session WHERE id LIKE 'one-%'")
    assert state == ("active",)
    world.once(3)
    assert world.topics() == ["mail", "search"] or world.text().count("\n## Session ") == 2
    assert "mail service" in world.text().partition("search service")[0], "it is the newest now"
    world.check()


def test_what_comes_after_an_explicit_end_is_told_at_the_next_end(world):
    world.speak("billing", "one")
    world.once(0.1)
    assert world.scratch.run("session", "end", world.id_of("one")).returncode == 0
    world.once(0.1)
    assert "billing service" in world.text()
    world.speak("mail", "one")
    world.once(0.1)
    assert "mail service" not in world.text()
    world.once(3)
    assert "mail service" in world.text()
    assert world.text().count("\n## Session ") == 1
