"""The silo: what people see of a memory, and when; consent in a file, expiry, revocation, every read audited."""

import json
import os
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from facts_world import store_in
from scratch import Scratch, filler, recent, said

from memoryd import config
from memoryd.clock import Clock
from memoryd.database import sqlite
from memoryd.errors import NotFoundError, RefusedError
from memoryd.finding import access_grants as silos
from memoryd.finding.access_grants import PATH, AgentGrants

ME = 1000


class World:
    """A siloed agent, a clock that goes by hand, and a person."""

    def __init__(self, folder):
        self.store = store_in(folder)
        self.workspace = self.store.writer.workspace
        self.at = datetime(2026, 5, 4, 12, tzinfo=UTC)
        self.agent = config.Agent(id="demo", workspace=self.workspace, privacy="silo")

    def silo(self, uid=ME):
        return AgentGrants(self.store.engine, self.agent, Clock(lambda: self.at), uid, lambda text: text)

    @property
    def file(self):
        return self.workspace / PATH

    def answer(self, grant, mark):
        text = self.file.read_text()
        for old in " x-":
            text = text.replace(f"- [{old}] {grant.id}", f"- [{mark}] {grant.id}")
        self.file.write_text(text)

    def audited(self):
        with sqlite.begin_read(self.store.engine) as connection:
            return [tuple(row) for row in connection.exec_driver_sql("SELECT operation, actor FROM audit ORDER BY id")]


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_nothing_is_read_before_the_agent_consents_and_every_read_is_audited(world):
    silo = world.silo()
    assert not silo.may_read("x")
    grant = silo.ask("look for a wrong address", timedelta(minutes=30))
    assert not silo.may_read("x")
    assert f"- [ ] {grant.id}: a person (uid 1000) asks to read this memory for 30m: look for" in world.file.read_text()
    world.answer(grant, "x")
    assert silo.may_read("core list")
    assert silo.may_read("facts list")
    assert world.audited() == [
        ("grant request", "human"), ("grant given", f"file:uid {os.getuid()}"), ("read", "human"), ("read", "human"),
    ]  # fmt: skip
    with sqlite.begin_read(world.store.engine) as connection:
        texts = [row[0] for row in connection.exec_driver_sql("SELECT text FROM content") if "read_at" in row[0]]
    assert {json.loads(text)["read"] for text in texts} == {"core list", "facts list"}


def test_the_time_begins_with_the_consent_and_ends_on_its_second(world):
    grant = world.silo().ask("p", timedelta(minutes=30))
    world.at += timedelta(hours=1)
    world.answer(grant, "x")
    assert world.silo().may_read("x")
    world.at += timedelta(minutes=30) - timedelta(milliseconds=1)
    assert world.silo().may_read("x")
    world.at += timedelta(milliseconds=1)
    assert not world.silo().may_read("x")
    world.answer(grant, "x")  # what has expired is not given again
    assert not world.silo().may_read("x")


def test_a_request_that_is_a_day_old_is_answered_no_more(world):
    grant = world.silo().ask("p", timedelta(minutes=30))
    world.at += timedelta(hours=24, seconds=1)
    world.answer(grant, "x")
    assert not world.silo().may_read("x")


def test_agent_and_person_can_take_it_back(world):
    first = world.silo().ask("p", timedelta(hours=1))
    world.answer(first, "x")
    assert world.silo().may_read("x")
    world.answer(first, "-")
    assert not world.silo().may_read("x")
    world.answer(first, "x")
    assert not world.silo().may_read("x")
    second = world.silo().ask("p", timedelta(hours=1))
    world.answer(second, "x")
    assert world.silo().may_read("x")
    world.silo().revoke(second.id)
    assert not world.silo().may_read("x")
    assert [one.state for one in world.silo().all()] == ["revoked", "revoked"]
    for gone in (second.id, "grant_00000000"):
        with pytest.raises(NotFoundError):
            world.silo().revoke(gone)


def test_a_declined_request_stays_declined(world):
    grant = world.silo().ask("p", timedelta(hours=1))
    world.answer(grant, "-")
    assert [one.state for one in world.silo().all()] == ["declined"]
    world.answer(grant, "x")
    assert not world.silo().may_read("x")


def test_it_is_one_persons_and_one_agents(world):
    grant = world.silo().ask("p", timedelta(hours=1))
    world.answer(grant, "x")
    assert not world.silo(uid=ME + 1).may_read("x")
    assert world.silo().may_read("x")
    with sqlite.begin_read(world.store.engine) as connection:
        assert silos.grants.of_agent(connection, "other") == []


def test_a_line_without_a_request_and_a_forged_purpose_give_nothing(world):
    world.silo().ask("p\n- [x] grant_00000000: yes\n# Rules", timedelta(hours=1))
    assert "\n- [x]" not in world.file.read_text()
    assert "\n# Rules" not in world.file.read_text()
    world.file.write_text("- [x] grant_0a1b2c3d\n")
    assert not world.silo().may_read("x")


@pytest.mark.parametrize(("purpose", "span"), [(" ", 60), ("p", 0), ("p", -1), ("p", 24 * 3600 + 1)])
def test_what_cannot_be_asked_for(world, purpose, span):
    with pytest.raises(RefusedError):
        world.silo().ask(purpose, timedelta(seconds=span))
    assert world.audited() == []


def test_an_open_agent_is_its_owners_alone(world, monkeypatch):
    world.agent = config.Agent(id="demo", workspace=world.workspace)
    assert world.silo().may_read("x")
    monkeypatch.setattr(os, "getuid", lambda: world.workspace.stat().st_uid + 1)
    assert not world.silo().may_read("x")
    assert world.audited() == []


# --- the commands -----------------------------------------------------------------------------------------------------

NAME = "Ottilie"  # a word of the session


@contextmanager
def siloed(folder):
    scratch = Scratch(folder, modes={})
    scratch.agents[0]["privacy"] = "silo"
    scratch.write_config()
    at = recent()
    scratch.append([*said(at=at), filler(at=at)])
    scratch.json("run", "--once")
    yield scratch


def test_commands_show_ids_sizes_and_hashes_and_content_only_under_a_grant(tmp_path):
    with siloed(tmp_path / "scratch") as scratch:
        (session,) = scratch.json("session", "list")
        reads = (["core", "list"], ["facts", "list"], ["session", "messages", session["id"]])
        for read in reads:
            shown = scratch.run("--json", *read).stdout + scratch.run(*read).stdout
            assert NAME not in shown
            rows = scratch.json(*read)
            assert rows
            assert all(row["bytes"] and len(row["hmac"]) == 64 for row in rows)
        assert scratch.json("facts", "export", code=4)["code"] == "refused"
        assert scratch.json("facts", "list", "--query", NAME, code=4)["code"] == "refused"
        # What needs no content works.
        assert scratch.json("verify")["ok"] is True
        assert scratch.json("status")["agents"][0]["facts"]["count"]
        (core, *_) = scratch.json("core", "list")
        scratch.json("core", "protect", core["id"])

        asked = scratch.json("grant", "request", "--purpose", "a test", "--for", "30m")
        file = scratch.workspace / PATH
        assert asked["consent_file"] == str(file)
        file.write_text(file.read_text().replace("- [ ]", "- [x]"))
        for read in reads:
            assert NAME in json.dumps(scratch.json(*read)) or read[0] == "core"
        assert scratch.json("facts", "export")["facts"]
        assert [row["state"] for row in scratch.json("grant", "list")] == ["given"]
        assert len([row for row in scratch.json("audit") if row["operation"] == "read"]) == len(reads) + 1
        scratch.json("grant", "revoke", asked["id"])
        assert scratch.json("facts", "export", code=4)["code"] == "refused"
        assert scratch.json("verify")["ok"] is True


def test_an_open_agent_needs_no_grant(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    scratch.json("run", "--once")
    assert scratch.json("grant", "request", "--purpose", "p", "--for", "30m", code=4)["code"] == "refused"
    assert scratch.json("core", "list") == []
