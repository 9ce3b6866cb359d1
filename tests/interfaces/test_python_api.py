"""The Python door, with and without a daemon."""

import subprocess
import sys
from datetime import UTC, date, datetime

import platformdirs
import pytest
from chat_server import ChatServer, good
from scratch import SAID, Scratch, filler, recent, said

import memoryd
from memoryd.errors import ConfigError, NotFoundError, RefusedError
from memoryd.ledger.facts import NewFact


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    made = Scratch(tmp_path_factory.mktemp("door") / "scratch")
    at = recent()
    made.append([*said(at=at), filler(at=at)])
    made.json("run", "--once")
    return made


def door(scratch):
    return memoryd.Memory(scratch.workspace, scratch.config)


def check(scratch, word):
    memory = door(scratch)
    added = memory.facts.add(f"plays the {word}", "behavior", 0.9)
    assert added.created
    assert memory.facts.add(f"Plays the  {word}").fact == added.fact
    fact_id = added.fact.id
    memory.facts.update(fact_id, confidence=0.6)
    assert memory.facts.get(fact_id).confidence == 0.6
    assert [fact.id for fact in memory.facts.search(word)] == [fact_id]
    text = memory.facts.dump()
    memory.facts.delete(fact_id)
    for act in (lambda: memory.facts.get(fact_id), lambda: memory.facts.delete(fact_id)):
        with pytest.raises(KeyError):
            act()
    with pytest.raises(ValueError, match="category"):
        memory.facts.create([NewFact("a"), NewFact("b", "mood")])
    assert [one.created for one in memory.facts.bring(text).outcomes].count(True) == 1
    assert any(fact.content == f"plays the {word}" for fact in memory.facts.all())
    assert [row["content"] for row in memory.core.list()] == [row["content"] for row in scratch.json("core", "list")]


def test_it_works_without_a_daemon(scratch):
    check(scratch, "oboe")


def test_it_works_beside_a_daemon(scratch):
    with scratch.daemon():
        check(scratch, "viola")


def test_what_is_not_configured_is_told(scratch, tmp_path):
    with pytest.raises(NotFoundError, match="no agent works"):
        memoryd.Memory(tmp_path, scratch.config)
    with pytest.raises(ConfigError):
        memoryd.Memory(scratch.workspace, tmp_path / "none.yaml")
    with pytest.raises(AttributeError, match="Remembrance"):
        memoryd.Remembrance  # noqa: B018


@pytest.mark.parametrize(
    ("query", "how", "where"),
    [
        ("", {}, "query"),
        ("--", {}, "query"),
        ("tea", {"after": "x"}, "after"),
        ("tea", {"before": datetime(2026, 3, 4, 23, 59, tzinfo=UTC)}, "before"),
        ("tea", {"after": date(2026, 3, 5), "before": date(2026, 3, 4)}, "after, before"),
        ("tea", {"tier": "attic"}, "tier"),
    ],
)
def test_a_search_that_cannot_be_meant_is_refused(scratch, query, how, where):
    with pytest.raises(ConfigError) as refused:
        door(scratch).search(query, **how)
    assert refused.value.where == where
    assert refused.value.hint


@pytest.mark.parametrize("day", ["2026-11-21T23:59", "2026-W47", "20261121", "soon", ""])
def test_the_command_takes_days_alone(scratch, day):
    for option in ("--after", "--before"):
        done = scratch.run("search", "tea", option, day)
        assert (done.returncode, f"{option}: {day!r} is not a day: write 2026-03-04" in done.stderr) == (2, True)


def test_each_id_that_a_search_prints_can_be_read(scratch):
    memory, file = door(scratch), scratch.workspace / "MEMORY.md"
    old = "" if not file.exists() else file.read_text(encoding="utf-8")
    stands = "- The gauge stands\n  at the old pier.\n\n  ```\n  gauge read\n  ```\n"
    more = f"\n## Tide\n\n{stands}\n## Old\n\n- The gauge rusts.\n"
    file.write_text(f"{old}{more}", encoding="utf-8")
    fact = memory.facts.add("Reads the gauge at noon.").fact
    scratch.json("run", "--once")  # takes the edit over
    hits = {hit.id: hit for hit in memory.search("gauge", limit=50) if hit.id}
    assert fact.id in hits
    assert [hit.tier for hit in hits.values()].count("core") == 2
    for memory_id, hit in hits.items():
        found = memory.get(memory_id)
        assert found.path == hit.path
        assert hit.first_line <= found.first_line <= found.last_line <= hit.last_line, "a hit begins at its heading"
        assert memory.get(found.path, found.first_line, found.last_line + 1 - found.first_line).text == found.text
    memory_id = next(one for one in hits if memory.get(one).text == stands)
    assert memory.get(memory_id, 2, 1).text == "  at the old pier.\n"
    with pytest.raises(NotFoundError, match="it has 6 lines"):
        memory.get(memory_id, 7)
    file.write_text(old + more.replace("- The gauge stands", "- The lamp stands"), encoding="utf-8")
    with pytest.raises(NotFoundError, match=rf"is not in MEMORY.md now \(memoryd core history {memory_id}"):
        memory.get(memory_id)
    for unknown in ("core_ffffffff", "fact_ffffffff"):
        with pytest.raises(NotFoundError):
            memory.get(unknown)
    scratch.json("run", "--once")  # so that no test that comes next meets an edit that is not settled


def test_a_silo_is_a_silo_by_this_door_too(tmp_path):
    made = Scratch(tmp_path / "scratch")
    made.agents[0]["privacy"] = "silo"
    made.write_config()
    made.json("run", "--once")
    memory = door(made)
    fact_id = memory.facts.add("a").fact.id
    for act in (
        memory.facts.all, memory.facts.dump, memory.core.list, lambda: memory.facts.get(fact_id),
        lambda: memory.consolidate(dry_run=True),
    ):  # fmt: skip
        with pytest.raises(RefusedError, match="its own"):
            act()
    memory.facts.delete(fact_id)


def test_a_folder_that_the_found_configuration_does_not_name_has_defaults_too(scratch, tmp_path, monkeypatch):
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "XDG_CONFIG_HOME" / "memoryd").mkdir(parents=True)
    (tmp_path / "XDG_CONFIG_HOME" / "memoryd" / "memoryd.yaml").write_bytes(scratch.config.read_bytes())
    monkeypatch.delenv("MEMORYD_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    assert memoryd.Memory(tmp_path / "other").facts.all() == []


def test_a_folder_without_any_configuration_has_defaults_and_begins_empty(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", platformdirs.user_cache_dir())
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("MEMORYD_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    workspace = tmp_path / "work"
    with pytest.raises(ConfigError, match="not a folder"):
        memoryd.Memory(workspace)
    workspace.mkdir()
    memory = memoryd.Memory(workspace)
    assert [memory.facts.all(), memory.facts.search("tea"), memory.core.list(), memory.search("tea")] == [
        [],
        [],
        [],
        [],
    ]
    assert memory.context().text == ""
    assert list(workspace.iterdir()) == []
    memory.update(append="The tea is in the left drawer.")
    memory.facts.add("Drinks tea.")
    again = memoryd.Memory(workspace)
    assert [row["content"] for row in again.core.list()] == ["The tea is in the left drawer."]
    assert [fact.content for fact in again.facts.all()] == ["Drinks tea."]
    assert list((tmp_path / "XDG_STATE_HOME/memoryd").glob("workspace-*/memoryd.db"))
    assert again.flush([{"role": role, "content": text} for role, text in SAID]).state == "succeeded"
    assert "PostgreSQL 16" in again.context().text
    other = tmp_path / "other"
    other.mkdir()
    assert memoryd.Memory(other).core.list() == []
    with pytest.raises(ConfigError, match="in its own workspace"):
        memoryd.Memory(tmp_path)
    with pytest.raises(ConfigError, match="no such file"):
        memoryd.Memory(workspace, tmp_path / "none.yaml")


def test_a_context_is_due_for_a_sleep_at_the_threshold(scratch):
    memory = door(scratch)
    assert [memory.sleep_due(tokens, 1000) for tokens in (0, 799, 800, 5000)] == [False, False, True, True]
    for tokens, window in ((-1, 10), (1, 0)):
        with pytest.raises(ValueError, match="of 1 or more"):
            memory.sleep_due(tokens, window)


def test_the_core_is_protected_restored_and_rolled_back(tmp_path):
    made = Scratch(tmp_path / "scratch")
    made.json("run", "--once")
    memory = door(made)
    memory.update(append="The lift is out of order.")
    (row,) = memory.core.list()
    assert memory.core.protect(row["id"][:9]) == row["id"]
    assert memory.core.list()[0]["constitutional"]
    with pytest.raises(RefusedError):
        memory.core.restore(row["id"])
    assert memory.core.unprotect(row["id"]) == row["id"]
    run = memory.update(append="The stairs are narrow.")["run"]
    planned = memory.rollback(run, dry_run=True)
    assert len(memory.core.list()) == 2
    done = memory.rollback(run)
    assert done["receipt"]["rollback"]["memories"] == planned["memories"]
    assert [one["content"] for one in memory.core.list()] == [row["content"]]
    memory.core.restore(planned["memories"][0])
    assert len(memory.core.list()) == 2
    operations = [one["operation"] for one in memory.core.history(row["id"])]
    assert operations[:3] == ["add", "protect", "unprotect"]
    memory.rollback(to=int(memory.core.history(row["id"])[0]["id"]))
    assert [one["content"] for one in memory.core.list()] == [row["content"]]
    assert memory.refine().state == "skipped"
    for wrong in ({}, {"run": run, "to": 1}, {"to": 1, "memory": row["id"]}):
        with pytest.raises(ValueError, match="give run"):
            memory.rollback(**wrong)
    with pytest.raises(ValueError, match="unknown mode"):
        memory.refine("wild")


def test_a_progressive_summary_is_made_by_the_backend_and_stored_nowhere(tmp_path):
    made = Scratch(tmp_path / "scratch")
    made.json("run", "--once")
    before = sorted(made.state.iterdir())
    memory, messages = door(made), [*({"role": role, "content": text} for role, text in SAID), *filled(8)]
    told = memory.compress(messages, 600, "progressive-summary")
    assert told[0]["role"] == "system"
    assert "PostgreSQL 16" in told[0]["content"]
    assert told[-1] == messages[-1]
    assert sorted(made.state.iterdir()) == before
    assert made.json("session", "list") == []
    with pytest.raises(ValueError, match=r"the newest message .* too few"):
        memory.compress(messages, 9, "progressive-summary")
    assert memory.compress(messages, 600, "progressive-summary", summary="")[0] == messages[-10]


@pytest.mark.long
def test_a_model_that_makes_a_progressive_summary_spends_the_tokens_of_the_day(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with ChatServer(good) as server:
        llm = {"provider": "openai", "model": "m", "base_url": server.url, "verify": "off"}
        made = Scratch(tmp_path / "scratch", llm=llm)
        messages = [*({"role": role, "content": text} for role, text in SAID), *filled(8)]
        told = door(made).compress(messages, 600, "progressive-summary")
        assert "PostgreSQL 16" in server.requests[0].prompt
        assert told[0]["role"] == "system"
        spent = made.query("SELECT tokens_in, tokens_out FROM spend")
        assert spent == [(700 * len(server.requests), 60 * len(server.requests))]
        made.write_config(llm=llm | {"daily_tokens": 1000})
        with pytest.raises(RefusedError, match="are left today"):
            door(made).compress(messages, 600, "progressive-summary")


def filled(count):
    return [{"role": "assistant", "content": f"Step {number} of the build is done."} for number in range(count)]


def test_importing_memoryd_imports_nothing_of_it():
    code = "import memoryd, sys; print(sorted(m for m in sys.modules if m.startswith(('memoryd', 'sqlalchemy'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['memoryd', 'memoryd.version']"
