"""Who may ask for a change of memory: each entry point, by each caller, under each setting; refusals are audited."""

from __future__ import annotations

import importlib
import json
from unittest.mock import patch

import mcp_world
import pytest
from scratch import Model, Scratch, filler, message, recent, said

import memoryd
from memoryd import app, config
from memoryd.errors import ConfigError, RefusedError
from memoryd.ledger.facts import NewFact
from memoryd.requests import jobs_by_hand, permission
from memoryd.worker import client

BOTH, OWNER, AGENT, NOBODY = ["owner", "agent"], ["owner"], ["agent"], []
RULE = "- Never deploy on a Friday.\n"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    made = Scratch(tmp_path_factory.mktemp("permission") / "scratch", facts={"debounce": "0s"})

    def model(*_, **__):
        return Model(made.root / "asked")

    importlib.import_module("memoryd.interfaces.hook_answers")  # its annotations need the real class
    with patch.object(app, "Worker", model), patch.object(client, "Worker", model):
        (made.workspace / "MEMORY.md").write_text(RULE, encoding="utf-8")
        at = recent()
        made.append([*said(at=at), filler(at=at)])
        made.json("run", "--once")
        made.fact = made.json("facts", "add", "Plays the oboe.")["fact"]["id"]
        made.memory = made.json("core", "list")[0]["id"]
        made.run_id = made.json("job", "list", "--kind", "sleep")[0]["id"]
        made.session = made.json("job", "show", made.run_id)["session_id"]
        yield made


@pytest.fixture(autouse=True)
def _everybody(scratch):
    set_access(scratch, consolidate=BOTH, edit=BOTH)


def set_access(scratch, **access):
    scratch.write_config(access=access)


def door(scratch):
    return memoryd.Memory(scratch.workspace, scratch.config)


# What is asked, as the audit names it; how the owner asks: by a command, or in Python.
COMMANDS = {
    "save": ("save", "a note"),
    "update": ("update", "--append", "The build runs at night."),
    "facts add": ("facts", "add", "Lives in Bergen."),
    "facts edit": ("facts", "edit", "{fact}", "--confidence", "0.7"),
    "facts delete": ("facts", "delete", "{fact}"),
    "core restore": ("core", "restore", "{memory}"),
    "rollback": ("rollback", "{run_id}"),
    "forget": ("forget", "{session}", "--yes"),
    "feedback good": ("feedback", "{memory}", "good"),
}
PYTHON = {
    "save": lambda memory, _: memory.save("a note"),
    "update": lambda memory, _: memory.update(append="The build runs at night."),
    "facts add": lambda memory, _: memory.facts.create([NewFact("Lives in Bergen.")]),
    "facts edit": lambda memory, made: memory.facts.update(made.fact, confidence=0.7),
    "facts delete": lambda memory, made: memory.facts.delete(made.fact),
    "facts import": lambda memory, _: memory.facts.bring('{"facts": []}'),
    "core restore": lambda memory, made: memory.core.restore(made.memory),
    "rollback": lambda memory, made: memory.rollback(made.run_id),
    "forget": lambda memory, made: memory.forget(made.session),
}
TOOLS = {
    "save": ("memory_save", {"text": "a note"}),
    "update": ("memory_update", {"append": "The build runs at night."}),
    "consolidate_memories": ("consolidate_memories", {"ids_to_merge": ["core_1", "core_2"], "new_content": "x"}),
    "update_memory": ("update_memory", {"id": "core_1", "content": "x"}),
    "delete_memory": ("delete_memory", {"id": "core_1"}),
    "protect_memory": ("protect_memory", {"id": "core_1"}),
}


def last_refusal(scratch):
    rows = [row for row in scratch.json("audit") if row["operation"] == "refused"]
    return (rows[-1]["memory_id"], rows[-1]["by"], rows[-1]["actor"]) if rows else None


def memory_of(scratch):
    return scratch.core, scratch.dailies(), scratch.json("facts", "list"), scratch.json("core", "list")


@pytest.mark.parametrize("asked", COMMANDS)
def test_a_command_of_the_owner_is_refused_where_only_the_agent_may_edit(scratch, asked):
    set_access(scratch, edit=AGENT)
    before = memory_of(scratch)
    error = scratch.json(*(part.format(**vars(scratch)) for part in COMMANDS[asked]), code=4)
    assert "the owner may not edit the memory" in error["message"]
    assert error["hint"] == f"ask the agent to edit the memory, or set access.edit in {scratch.config}"
    assert last_refusal(scratch) == (f"access:edit:{asked}", "owner", "human")
    assert memory_of(scratch) == before


@pytest.mark.parametrize("asked", PYTHON)
def test_a_program_of_the_owner_is_refused_where_only_the_agent_may_edit(scratch, asked):
    set_access(scratch, edit=NOBODY)
    before = memory_of(scratch)
    with pytest.raises(RefusedError, match="the owner may not edit"):
        PYTHON[asked](door(scratch), scratch)
    assert last_refusal(scratch) == (f"access:edit:{asked}", "owner", "human")
    assert memory_of(scratch) == before


@pytest.mark.parametrize("asked", TOOLS)
def test_a_tool_of_the_agent_is_refused_where_only_the_owner_may_edit(scratch, asked):
    set_access(scratch, edit=OWNER)
    before = memory_of(scratch)
    tool, given = TOOLS[asked]
    with mcp_world.door(scratch) as served:
        agent = mcp_world.Agent(served)
        told = agent(tool, **given)
    assert agent.is_refused
    does = "protect a memory" if asked == "protect_memory" else "edit the memory"
    assert f"the agent may not {does}" in told
    assert f"ask the owner to {does}, or set access.edit in (a path)" in told
    kind = "protect" if asked == "protect_memory" else "edit"
    assert last_refusal(scratch) == (f"access:{kind}:{asked}", "agent", "agent-tool")
    assert memory_of(scratch) == before


def test_who_may_edit_is_not_refused_and_reading_never_is(scratch):
    refused = last_refusal(scratch)
    set_access(scratch, edit=AGENT)
    with mcp_world.door(scratch) as served:
        agent = mcp_world.Agent(served)
        assert agent("memory_save", text="The agent noted this.")["state"] == "succeeded"
    set_access(scratch, edit=OWNER)
    assert scratch.json("save", "The owner noted this.")["state"] == "succeeded"
    assert door(scratch).facts.add("Likes ice hockey.").created
    with mcp_world.door(scratch) as served:
        agent = mcp_world.Agent(served)
        assert agent("memory_search", query="noted this")["hits"]
        assert agent("search_memories", query="Friday")["memories"]
    set_access(scratch, edit=NOBODY)
    assert json.loads(door(scratch).facts.dump())
    planned = scratch.json("forget", scratch.session, "--dry-run")
    assert planned["memories"].keys() == planned["texts"].keys()
    assert planned["texts"]
    told = scratch.run("forget", scratch.session, "--dry-run").stdout
    assert all(text in scratch.core and text in told for text in planned["texts"].values())
    assert scratch.json("rollback", scratch.run_id, "--dry-run")
    assert last_refusal(scratch) == refused
    assert scratch.json("verify") == {"ok": True, "problems": []}


def test_the_owner_may_always_protect(scratch):
    set_access(scratch, edit=NOBODY, consolidate=NOBODY)
    assert scratch.json("core", "protect", scratch.memory)["id"] == scratch.memory
    assert door(scratch).core.unprotect(scratch.memory) == scratch.memory


@pytest.mark.parametrize(("allowed", "code"), [(AGENT, 4), (NOBODY, 4), (OWNER, 0), (BOTH, 0)])
def test_a_rollover_by_hand_needs_the_right_to_consolidate(scratch, allowed, code):
    set_access(scratch, consolidate=allowed, edit=NOBODY)
    answer = scratch.json("job", "run", "rollover", code=code)
    if code:
        assert "the owner may not start a rollover" in answer["message"]
        ask = "ask the agent to start a rollover, or " if allowed else ""
        assert answer["hint"] == f"{ask}set access.consolidate in {scratch.config}"
        assert last_refusal(scratch) == ("access:consolidate:job run rollover", "owner", "human")


def test_the_daemon_does_its_own_work_whoever_may_ask_for_it(scratch):
    set_access(scratch, consolidate=NOBODY, edit=NOBODY)
    at = recent()
    decided = message("user", "We decided to ship the parser on Monday, because the Friday build failed.", at=at)
    scratch.append([decided, message("assistant", "Agreed.", at=at), filler(at=at)], name="two")
    before = len(scratch.json("job", "list", "--kind", "sleep"))
    scratch.json("run", "--once")
    runs = scratch.json("job", "list", "--kind", "sleep")
    assert len(runs) > before
    assert runs[0]["state"] == "succeeded"


def test_a_command_in_an_agents_shell_is_the_agents(scratch, monkeypatch):
    monkeypatch.setenv("CLAUDECODE", "1")
    set_access(scratch, edit=OWNER)
    assert "the agent may not edit" in scratch.json("save", "a note", code=4)["message"]
    assert last_refusal(scratch) == ("access:edit:save", "agent", "agent-tool")
    assert "the agent may not protect" in scratch.json("core", "protect", scratch.memory, code=4)["message"]


def test_in_an_agents_shell_no_fact_is_stored_as_the_users(scratch, monkeypatch):
    scratch.json("facts", "add", "Likes tea.", "--category", "preference")
    before = scratch.json("facts", "list")
    monkeypatch.setenv("CLAUDECODE", "1")
    told = scratch.json("facts", "add", "Likes evil.", "--category", "preference", code=4)
    assert "an agent may not" in told["message"]
    assert last_refusal(scratch) == ("access:edit:facts add", "agent", "agent-tool")
    assert scratch.json("facts", "edit", before[0]["id"], "--content", "Likes evil.", code=4)["code"] == "refused"
    assert scratch.json("facts", "list") == before


def test_a_proposal_is_answered_only_by_who_may_edit(scratch):
    settings = config.load(scratch.config)
    row = {"id": "run-x", "state": "proposed", "agent_id": "demo"}
    set_access(scratch, edit=AGENT)
    settings = config.load(scratch.config)
    with (
        patch.object(jobs_by_hand.waiting, "rows_of", return_value=[row]),
        pytest.raises(RefusedError, match="the owner may not edit"),
    ):
        jobs_by_hand.answer(settings, "run-x", "accept")
    assert last_refusal(scratch) == ("access:edit:job accept", "owner", "human")


def test_a_refusal_holds_no_content_and_cannot_be_rolled_back(scratch):
    set_access(scratch, edit=NOBODY)
    start = scratch.json("audit")[-1]["id"]
    scratch.json("save", "xylophone", code=4)
    states = scratch.query("SELECT text FROM content WHERE text LIKE '%refused%' OR text LIKE '%\"asked\"%'")
    assert states
    assert not any("xylophone" in state for (state,) in states)
    assert {tuple(sorted(json.loads(state))) for (state,) in states} == {("asked", "at", "by", "what")}
    set_access(scratch, edit=BOTH)
    undone = scratch.json("rollback", "--to", str(start))
    assert "access:edit:save" not in str(undone)
    assert last_refusal(scratch)[0] == "access:edit:save"
    assert scratch.json("verify") == {"ok": True, "problems": []}


@pytest.mark.parametrize("caller", ["owner", "agent"])
@pytest.mark.parametrize("allowed", [BOTH, OWNER, AGENT, NOBODY])
def test_the_table_of_rights(scratch, caller, allowed):
    set_access(scratch, consolidate=allowed, edit=NOBODY)
    settings = config.load(scratch.config)
    assert permission.is_allowed(settings, "consolidate", caller) == (caller in allowed)
    assert not permission.is_allowed(settings, "edit", caller)
    assert permission.is_allowed(settings, "protect", caller) == (caller == "owner")
    set_access(scratch, edit=allowed, consolidate=NOBODY)
    settings = config.load(scratch.config)
    assert permission.is_allowed(settings, "edit", caller) == (caller in allowed)
    assert permission.is_allowed(settings, "protect", caller) == (caller == "owner" or caller in allowed)


@pytest.mark.parametrize("wrong", ["owner", ["person"], [["owner"]], None])
def test_who_is_named_must_be_known(scratch, wrong):
    set_access(scratch, edit=wrong)
    with pytest.raises(ConfigError, match=r"access\.edit"):
        config.load(scratch.config)
