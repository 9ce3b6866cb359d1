"""A dry run says what a run would ask or write, and changes nothing."""

from __future__ import annotations

import pytest
from scratch import Scratch, filler, in_process, said

from memoryd import config
from memoryd.daemon.once import run_once
from memoryd.files import locked_folder, state_files
from memoryd.requests import jobs_by_hand


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    made = Scratch(tmp_path_factory.mktemp("rehearsal"), modes={"sleep": "off", "facts": "off"})
    (made.workspace / "MEMORY.md").write_text("- the same\n- the same\n")
    made.append([*said(), filler()])
    with in_process(made) as app:
        run_once(app)
    return made


def everything(scratch):
    """Every file of the workspace, and the rows that a run would change."""
    files = {path: path.read_bytes() for path in scratch.workspace.rglob("*") if path.is_file()}
    tables = ("memory", "audit", "job_run", "watermark", "session_summary", "profile_section", "spend")
    left = [path.name for path in scratch.state.iterdir() if path.name.startswith("trial")]
    return files, [scratch.query(f"SELECT * FROM {table}") for table in tables], left  # noqa: S608


def rehearse(scratch, kind):
    settings = config.load(scratch.config)
    (row,) = jobs_by_hand.run_dry(settings, kind, settings.agents[0], jobs_by_hand.JobRequest(force=True))
    return row


def test_what_a_sleep_would_write_is_shown_and_nothing_is_written(scratch):
    before = everything(scratch)
    row = rehearse(scratch, "sleep")
    assert (row["kind"], row["state"], row["asks"]) == ("sleep", "succeeded", None)
    assert {(one["what"], one["where"]) for one in row["would"]} == {
        ("add", "core"),
        ("append", "memory/2026-03-04.md"),
    }
    assert "PostgreSQL 16" in str(row["would"])
    assert everything(scratch) == before


@pytest.mark.long
def test_a_model_is_told_of_and_not_asked(scratch):
    before = everything(scratch)
    scratch.write_config(llm={"provider": "openai", "model": "tiny-1", "base_url": "http://127.0.0.1:1/v1"})
    try:
        for kind in ("sleep", "facts"):
            row = rehearse(scratch, kind)
            assert (row["state"], row["would"]) == ("asks", [])
            assert row["asks"]["tokens"] > 100
            assert "tiny-1" in row["asks"]["model"]
    finally:
        scratch.write_config(llm={})
    assert everything(scratch) == before


def test_the_command_tells_it_and_shows_a_silo_no_content(scratch):
    before = everything(scratch)
    told = scratch.json("job", "run", "dedup", "--dry-run")
    assert told["dry_run"] is True
    assert [one["what"] for one in told["runs"][0]["would"]] == ["delete"]  # of MEMORY.md as it is now
    scratch.agents = [scratch.agent("demo", scratch.workspace, privacy="silo")]
    scratch.write_config()
    done = scratch.run("--json", "job", "run", "sleep", "--force", "--dry-run")
    assert '"add"' in done.stdout
    assert "PostgreSQL" not in done.stdout
    assert everything(scratch)[1:] == before[1:]


@pytest.mark.parametrize("opens", [True, False], ids=["opening", "sweeping"])
def test_what_a_killed_dry_run_left_is_removed_and_one_that_runs_is_not(scratch, opens):
    left = scratch.state / "trial-left"
    (left / "workspace").mkdir(parents=True)
    (left / "workspace" / "MEMORY.md").write_text("- the same\n")
    killed = scratch.state / f"{locked_folder.STAGING}left"  # by a backup
    killed.mkdir(exist_ok=True)  # the tests of this module share a state folder
    (killed / "memoryd.db").write_bytes(b"a copy")
    with locked_folder.make_trial(scratch.state, scratch.workspace) as running:
        assert state_files.measure_uses(scratch.state)["copies"] > 0
        if opens:
            in_process(scratch).close()
            assert not killed.exists()
        else:
            assert locked_folder.remove_left(scratch.state) == [running.state.parent]
        assert [path.parent for path in scratch.state.glob("trial-*/state")] == [running.state.parent]
        assert not left.exists()
    assert list(scratch.state.glob("trial-*")) == []


def test_a_rollover_is_tried_on_the_files_that_there_are(tmp_path):
    made = Scratch(tmp_path / "scratch", modes={"facts": "off"})
    made.append(said())
    made.run("run", "--once")
    (row,) = made.json("job", "run", "rollover", "--dry-run")["runs"]
    assert (row["state"], row["would"]) == ("skipped", [])
    recent = made.workspace / ".continuum" / "memory" / "RECENT.md"
    written = recent.read_text()
    recent.unlink()
    (row,) = made.json("job", "run", "rollover", "--dry-run")["runs"]
    assert [(one["where"], one["content"]) for one in row["would"]] == [(".continuum/memory/RECENT.md", written)]
    made.json("job", "run", "rollover")
    assert recent.read_text() == written
