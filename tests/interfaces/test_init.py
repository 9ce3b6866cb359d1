"""`memoryd init` on a machine with agents: what it finds, asks, writes, adds the next time, and takes out again."""

import json
import shlex
import subprocess
from types import SimpleNamespace

import pytest
from fake_home import FakeHome
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT
from scratch import called, until

from memoryd import config
from memoryd.app import open_app
from memoryd.database.library import load_library
from memoryd.interfaces import init
from memoryd.reading import discovery, new_agents
from memoryd.requests import daemon_client

NEVER = "Never deploy the shop on a Friday without asking me first."
CONFIG = ".config/memoryd/memoryd.yaml"


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Two programs in one repository, one in another project and in the home folder, and a project that is gone."""
    made = FakeHome(tmp_path / "home", monkeypatch)
    shop, notes = made.project("work/shop", git=True), made.project("it's $notes [ü]")
    (shop / "src").mkdir()
    made.claude(shop, NEVER, session="shop")
    made.claude(shop / "src", "Use tabs in all files of the shop.", session="src", days=2)
    made.codex(shop, "We decided to use Stripe for all payments.", days=3)
    made.codex(shop, "A subagent.", days=4, source={"subagent": {"thread_spawn": {"parent_thread_id": "c3"}}})
    made.claude(notes, "Always write my notes in British English.", session="notes")
    made.claude(made.home, "On every machine I prefer zsh over bash.", session="home")
    made.codex(made.home, "On every machine I prefer vim over emacs.", days=6)
    made.claude(made.home / "gone", "Nobody works here any more.", session="gone")
    return made


def settings_of(world):
    return config.load(world.home / CONFIG)


def log_of(state):
    return (state / "log" / "memoryd.jsonl").read_text(encoding="utf-8")


def formats(settings, agent_id):
    (agent,) = [agent for agent in settings.agents if agent.id == agent_id]
    return {source.format for source in agent.transcripts}


def run(*words):
    done = called(["--json", "init", *words])
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout)["data"]


def test_everything_is_taken_added_to_and_taken_out_again(world):
    (world.home / ".claude" / "settings.json").write_text('{"model": "opus"}')
    before = world.files()
    data = run("--yes", "--no-service")
    found = {(one["program"], one["folder"]): one for one in data["found"]}
    shop = str(world.home / "work/shop")
    assert (found["claude-code", shop]["sessions"], found["codex", shop]["sessions"]) == (2, 1), "no subagent"
    assert found["claude-code", str(world.home / "gone")]["why_not"].startswith("the folder is gone: create it")
    assert (data["connected"], data["failed"]) == (["claude-code", "codex"], {})
    settings = settings_of(world)
    memory = {agent.id: agent.memory for agent in settings.agents}
    assert memory == {"shop": "workspace", "it-s-notes": "workspace", "home": "state"}
    assert (settings.discover, settings.ingest.history) == (("claude-code", "codex"), "flush")
    assert formats(settings, "shop") == {"claude-code", "codex"}
    exclude = world.home / "work/shop/.git/info/exclude"
    assert exclude.read_text().endswith("init`:\n/MEMORY.md\n/memory/\n/.continuum/memory/\n")
    once = world.files()
    assert run("--yes", "--no-service")["connected"] == []
    assert world.files() == once, "a second run changes nothing"
    world.codex(world.home / "it's $notes [ü]", "A second program in a known project.", days=5)
    world.claude(world.project("work/new", git=True), "A new project.", session="new")
    run("--yes", "--no-service")
    settings = settings_of(world)
    assert {agent.id for agent in settings.agents} == {"shop", "it-s-notes", "home", "new"}
    assert formats(settings, "it-s-notes") == {"claude-code", "codex"}
    assert called(["init", "--remove"]).returncode == 0
    left = world.files()
    assert {path: left[path] for path in before} == before
    assert not [path for path in left.keys() - before.keys() if path.suffix != ".jsonl" and path.name != "exclude"]
    assert called(["init", "--remove"]).returncode == 3


@pytest.mark.long
def test_what_other_programs_recorded_is_no_end_of_init_whatever_it_is(world):
    for number, folder in enumerate(("/a\0b", ".", "../work/shop", f"/{'a' * 200}" * 30, 7)):
        world.claude(folder, "Odd.", session=f"odd{number}", root=world.home / ".claude")
    share = world.home / ".local/share"
    world.opencode(world.home / "work/shop", share)
    with load_library().connect(share / "opencode/opencode.db") as connection:
        for row in (("/x", "text", None), (b"/x", 1, 2), (7, 9e300, -9e300), ("/a\0b", 2**62, 1)):
            connection.execute("INSERT INTO session VALUES (?, ?, ?, NULL)", row)
    connection.close()
    linked = world.project("linked", git=True)
    (linked / ".git/info/exclude").unlink()
    (linked / ".git/info/exclude").symlink_to("/dev/null")
    world.claude(linked, "Odd.", session="linked")
    aider = world.project("{a,b}*")
    (aider / ".aider.chat.history.md").write_text("# aider chat started at 2026-11-20 10:00:00\n")
    world.claude(aider, "Odd.", session="aider")
    data = run("--yes", "--no-service")
    assert "symbolic link" in next(one["why_not"] for one in data["found"] if one["folder"] == str(linked))
    settings = settings_of(world)
    assert [agent.id for agent in settings.agents if agent.id not in {"shop", "it-s-notes", "home"}] == ["a-b"]
    assert formats(settings, "a-b") == {"claude-code", "aider"}
    once = world.files()
    run("--yes", "--no-service")
    assert world.files() == once, "a second run changes nothing"


def test_memory_is_kept_out_of_git_whenever_init_is_killed(world, monkeypatch):
    exclude = world.home / "work/shop/.git/info/exclude"
    state = world.home / "state"
    machine = new_agents.Machine(world.home, {}, state, world.home / CONFIG)
    found = new_agents.judge(discovery.find_projects(world.home, {}), None, world.home)
    fresh = [one for one in found if one.is_new]
    monkeypatch.setattr(new_agents.foreign_config, "write", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        new_agents.write(fresh, machine, "2026-01-01T00:00:00Z", discover=(), memory="workspace")
    assert "/MEMORY.md" in exclude.read_text()


@pytest.mark.long
def test_the_sessions_of_each_project_become_its_memory_and_no_others(world):
    run("--yes", "--no-service")
    assert called(["--quiet", "run", "--once"]).returncode == 0
    said = {}
    for agent in settings_of(world).agents:
        said[agent.id] = "".join(path.read_text() for path in agent.workspace.rglob("*.md"))
    for agent, text in (
        ("shop", "Stripe"),
        ("shop", "tabs in all"),
        ("it-s-notes", "British"),
        ("home", "zsh"),
        ("home", "vim"),
    ):
        assert [name for name in said if text in said[name]] == [agent]
    assert not (world.home / "MEMORY.md").exists()


@pytest.mark.long
def test_from_sessions_to_memory_in_the_next_one_by_the_command_that_was_written(world, monkeypatch):
    monkeypatch.setattr(init.services, "has_manager", lambda: False)
    assert run("--yes")["service"] == "process"
    state = settings_of(world).state_dir
    try:
        core = world.home / "work/shop/MEMORY.md"
        until(lambda: core.exists() and NEVER in core.read_text(), why="the history is read")
        hooks = json.loads((world.home / ".claude/settings.json").read_text())["hooks"]
        command = shlex.split(hooks["SessionStart"][0]["hooks"][0]["command"])
        told = {}
        for folder in ("work/shop/src", "gone", "it's $notes [ü]"):
            event = {"session_id": "n", "cwd": str(world.home / folder), "hook_event_name": "SessionStart"}
            done = subprocess.run(command, input=json.dumps(event).encode(), capture_output=True, check=True)
            told[folder] = done.stdout.decode()
        assert NEVER in told["work/shop/src"]
        assert not any(NEVER in text for folder, text in told.items() if folder != "work/shop/src")
        world.claude(world.project("work/later", git=True), "Never rebase the later project.", session="later")
        command = shlex.split(hooks["SessionEnd"][0]["hooks"][0]["command"])
        (path,) = world.home.glob(".claude/projects/*later/later.jsonl")
        event = {"session_id": "later", "transcript_path": str(path), "hook_event_name": "SessionEnd"}
        event["cwd"] = str(world.home / "work/later")
        subprocess.run(command, input=json.dumps(event).encode(), capture_output=True, check=True)
        # By itself it looks once a minute: the end of a session is a hint that there is a project.
        until(lambda: "later" in [one.id for one in settings_of(world).agents], why="it is discovered")
        until((world.home / "work/later/MEMORY.md").exists, why="the daemon reads it")
        until(lambda: '"event":"announced"' in log_of(state), why="the end is carried out when the session is read")
    finally:
        assert called(["init", "--remove"]).returncode == 0
    until(lambda: not daemon_client.ask_data(state, "ping"), why="the daemon ends")


def test_one_round_says_why_a_later_project_gets_no_agent(world):
    run("--yes", "--no-service")
    config_file = world.home / CONFIG
    config_file.rename(world.home / "real.yaml")
    config_file.symlink_to(world.home / "real.yaml")
    world.claude(world.project("work/later", git=True), f"Remember: {NEVER}", session="later")
    done = called(["run", "--once"])
    assert "ALARM config: new projects got no agent: " in done.stdout
    assert "link" in done.stdout
    config_file.unlink()
    (world.home / "real.yaml").rename(config_file)
    done = called(["run", "--once"])
    assert "added the agent later" in done.stdout
    assert "ALARM config" not in done.stdout


def test_one_round_without_a_daemon_gives_a_later_project_its_agent(world):
    run("--yes", "--no-service")
    world.claude(world.project("work/later", git=True), f"Remember: {NEVER}", session="later")
    with open_app(settings_of(world)):
        assert called(["run", "--once"]).returncode == 5
    assert "later" not in [one.id for one in settings_of(world).agents], "a daemon holds the state folder"
    (world.home / CONFIG).chmod(0o666)
    assert called(["run", "--once"]).returncode == 2
    assert "later" not in (world.home / CONFIG).read_text(), "others could have written the file"
    (world.home / CONFIG).chmod(0o600)
    done = called(["run", "--once"])
    assert done.returncode == 0, done.stderr
    assert "added the agent later for a new project" in done.stdout
    assert "later" in [one.id for one in settings_of(world).agents]
    assert list((world.home / "work/later/memory").glob("*.md")), "it was read in the same round"
    (world.home / CONFIG).write_text((world.home / CONFIG).read_text().replace("discover: [", "discover: []  # ["))
    world.claude(world.project("work/latest", git=True), "Another project.", session="latest")
    assert called(["run", "--once"]).returncode == 0
    assert "latest" not in [one.id for one in settings_of(world).agents]


def test_it_waits_until_a_status_shows_the_daemon(world, monkeypatch):
    run("--yes", "--no-service")
    said, asked = [], iter([{}, {"daemon": None}, {"daemon": {"pid": 7}}])
    monkeypatch.setattr(
        daemon_client, "ask_data", lambda _, verb: next(asked) if verb == "status" else {"pid": 7} if said else {}
    )
    monkeypatch.setattr(init, "_POLL_SECONDS", 0)
    monkeypatch.setattr(init.services, "has_manager", lambda: False)
    monkeypatch.setattr(init.services, "start_process", lambda _: None)
    call = SimpleNamespace(output=SimpleNamespace(say=said.append))
    assert init._start_service(call, settings_of(world)) == "process"
    assert said[0] == "started   the daemon (pid 7)"
    assert next(asked, None) is None


def test_without_a_terminal_it_says_what_to_pass_and_writes_nothing(world):
    before = world.files()
    done = called(["init"])
    assert done.returncode == 2
    assert "~/work/shop" in done.stdout
    assert "--yes" in done.stderr
    assert "--project DIR" in done.stderr
    assert world.files() == before


def test_again_without_a_terminal_it_says_that_nothing_is_new_and_writes_nothing(world):
    run("--yes", "--no-service")
    before = world.files()
    done = called(["init"])
    assert done.returncode == 0, done.stderr
    assert f"Edit {world.home / CONFIG}, or connect again with memoryd init --yes" in done.stdout
    assert run()["agents"] == [agent.id for agent in settings_of(world).agents]
    assert world.files() == before
    world.claude(world.project("work/new", git=True), "A new project.", session="new")
    assert called(["init"]).returncode == 2, "there is something to choose"


def test_one_project_is_taken_by_its_folder_and_later_ones_only_by_another_run(world):
    shop = world.home / "work/shop"
    assert run("--project", str(shop / "src"), "--memory", "state", "--no-service")["agents"] == ["shop"]
    settings = settings_of(world)
    assert settings.discover == ()
    assert settings.agents[0].workspace == settings.state_dir / "agents" / "shop"
    assert "MEMORY.md" not in (shop / ".git/info/exclude").read_text()
    assert called(["init", "--project", str(world.home / "gone"), "--no-service"]).returncode == 3


def test_a_project_without_a_session_gets_its_memory_too(world, monkeypatch):
    bakery = world.project("work/bakery", git=True)
    (bakery / ".aider.chat.history.md").write_text("# aider chat started at 2026-05-04 09:00:00\n\n#### Hello\n")
    assert "claude-code" in run("--project", str(bakery), "--no-service")["connected"]
    (agent,) = [agent for agent in settings_of(world).agents if agent.workspace == bakery]
    assert {source.format for source in agent.transcripts} >= {"claude-code", "codex", "aider"}
    exclude = bakery / ".git/info/exclude"
    assert "/.aider.conf.yml\n" in exclude.read_text()
    shop = world.home / "work/shop"
    for name, text in (
        (".aider.conf.yml", "model: x\n"),
        (".aider.chat.history.md", "# aider chat started at 2026-05-04 09:00:00\n"),
    ):
        (shop / name).write_text(text)
    assert "aider" in run("--project", str(shop), "--no-service")["connected"]
    assert "aider" not in (shop / ".git/info/exclude").read_text(), "a person's file stays as git sees it"
    refused = called(["--json", "init", "--project", str(world.home / "nowhere"), "--no-service"])
    assert "no such folder" in refused.stdout
    (world.home / "config").mkdir()
    (world.home / "config" / "memoryd.yaml").write_text("agents: []\nstate_dir: x\n")
    monkeypatch.chdir(world.home)
    noted = called(["status"])
    assert f"yours is --config {world.home / CONFIG}" in noted.stderr


def test_a_person_chooses_by_numbers_and_says_no_to_the_service(world, monkeypatch):
    answers = iter(["9", "1 , 3"])
    monkeypatch.setattr(init, "_has_terminal", lambda: True)
    monkeypatch.setattr(init.click, "prompt", lambda *_, **__: next(answers))
    monkeypatch.setattr(init.click, "confirm", lambda *_, **__: False)
    done = called(["init"])
    assert done.returncode == 0, done.stderr
    assert "enter all, none, or numbers from 1 to 5" in done.stdout
    assert len(settings_of(world).agents) == 2
    assert "next      memoryd run" in done.stdout


def test_who_takes_no_project_is_asked_no_more_and_nothing_is_written(world, monkeypatch):
    monkeypatch.setattr(init, "_has_terminal", lambda: True)
    monkeypatch.setattr(init.click, "prompt", lambda *_, **__: "none")
    monkeypatch.setattr(init.click, "confirm", lambda *_, **__: pytest.fail("asked about the service"))
    before = sorted(world.home.rglob("*"))
    done = called(["init"])
    assert (done.returncode, "nothing is written" in done.stdout) == (0, True), done.stderr
    assert "ready" not in done.stdout
    assert sorted(world.home.rglob("*")) == before


@given(st.sets(st.integers(1, 40), min_size=1))
def test_numbers_and_ranges_name_each_once(numbers):
    words = " ".join(f"{one}-{one + 1}" if one + 1 in numbers else str(one) for one in sorted(numbers))
    assert init._parse_numbers(words, 40) == sorted(numbers)
    with pytest.raises(ValueError, match=r"."):
        init._parse_numbers(words, max(numbers) - 1)


@pytest.mark.parametrize("answer", ["all", " y", "yes "])
def test_a_yes_takes_all_projects_and_later_ones(world, monkeypatch, answer):
    monkeypatch.setattr(init, "_has_terminal", lambda: True)
    monkeypatch.setattr(init.click, "prompt", lambda *_, **__: answer)
    monkeypatch.setattr(init.click, "confirm", lambda *_, **__: False)
    assert called(["init"]).returncode == 0
    settings = settings_of(world)
    assert (len(settings.agents), bool(settings.discover)) == (3, True)


def test_programs_are_found_where_their_variables_say(tmp_path, monkeypatch):
    world = FakeHome(tmp_path / "home", monkeypatch)
    folder = world.project("p")
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / f"[{name}]"))
    done = called(["--json", "init", "--yes", "--no-service"])
    assert (done.returncode, "[CODEX_HOME]" in done.stdout) == (3, True), "it says where it looked"
    world.claude(folder, "Here.", root=tmp_path / "[CLAUDE_CONFIG_DIR]")
    world.codex(folder, "There.", root=tmp_path / "[CODEX_HOME]")
    world.opencode(folder, tmp_path / "[XDG_DATA_HOME]")
    found = {one["program"]: one for one in run("--yes", "--no-service")["found"]}
    assert {name: one["sessions"] for name, one in found.items()} == {"claude-code": 1, "codex": 1, "opencode": 1}
    assert (tmp_path / "[CLAUDE_CONFIG_DIR]" / "settings.json").exists()
    assert (tmp_path / "[CODEX_HOME]" / "hooks.json").exists()
    roots = [source.root for source in settings_of(world).agents[0].transcripts]
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        assert any(root.is_relative_to(tmp_path / f"[{name}]") for root in roots)


@pytest.mark.long
def test_sessions_in_openclaws_database_are_found_and_read_with_their_projects(world):
    folders = [world.project(name) for name in ("bakery", "garden")]
    world.openclaw(*folders, folders[0])
    found = {one["folder"]: one for one in run("--yes", "--no-service")["found"] if one["program"] == "openclaw"}
    assert {folder: one["sessions"] for folder, one in found.items()} == {str(folders[0]): 2, str(folders[1]): 1}
    assert found[str(folders[1])]["first"] < found[str(folders[1])]["last"]
    once = world.files()
    run("--yes", "--no-service")
    assert world.files() == once, "a second run changes nothing"
    assert called(["--quiet", "run", "--once"]).returncode == 0
    said = ["".join(path.read_text() for path in folder.rglob("*.md")) for folder in folders]
    assert ["tabs in 0" in one and "tabs in 2" in one for one in said] == [True, False]
    assert ["tabs in 1" in one for one in said] == [False, True]


def test_agents_that_another_process_writes_at_the_same_moment_are_kept(world, monkeypatch):
    """This one has read the configuration; before it writes, `init` runs in a second process, and takes one of both."""
    machine = new_agents.Machine(world.home, {}, world.home / ".local/state/memoryd", world.home / CONFIG)
    fresh = [one for one in new_agents.judge(discovery.find_projects(world.home, {}), None, world.home) if one.is_new]
    write = new_agents.foreign_config.write
    moments = iter((("work/shop",), ("it's $notes [ü]",)))

    def write_late(*given):
        for name in next(moments, ()):
            assert called(["init", "--project", str(world.home / name), "--no-service"]).returncode == 0
        return write(*given)

    monkeypatch.setattr(new_agents.foreign_config, "write", write_late)
    made = new_agents.write(fresh, machine, "2026-01-01T00:00:00Z", discover=["codex"], memory="workspace")
    assert settings_of(world) == made
    assert sorted(agent.id for agent in made.agents) == ["home", "it-s-notes", "shop"]
    for agent in made.agents:
        sources = [(source.format, source.path) for source in agent.transcripts]
        assert len(sources) == len(set(sources)), "nothing is read twice"
    assert made.discover == ("codex",)


MINE = """# mine
agents:   # by hand
  - id: shop
    workspace: ../../work/shop
    transcripts:
    - path: ../../.claude/projects/**/*.jsonl   # all
      project: ../../work/shop

    model: null
sleep: {threshold: 0.7}  # last line without an end"""


def test_a_configuration_of_a_person_is_added_to_and_given_back_to_the_byte(world):
    path = world.home / CONFIG
    path.parent.mkdir(parents=True)
    text = MINE.replace("../../.claude", str(world.home / ".claude"))
    path.write_text(text)
    old = config.load(path).agents[0]
    run("--yes", "--no-service")
    settings = config.load(path)
    assert {agent.id for agent in settings.agents} == {"shop", "it-s-notes", "home"}
    assert settings.agents[0].transcripts[:1] == old.transcripts
    assert [source.format for source in settings.agents[0].transcripts[1:]] == ["codex", "codex"]
    assert settings.sleep.threshold == 0.7
    assert called(["init", "--remove"]).returncode == 0
    assert path.read_text() == text


def test_a_connection_that_cannot_be_made_hinders_no_other(world):
    (world.home / ".claude" / "settings.json").write_text('{"model": "opus"} // mine')
    done = called(["--json", "init", "--yes", "--no-service"])
    data = json.loads(done.stdout)["data"]
    assert (done.returncode, data["connected"]) == (1, ["codex"])
    assert len(settings_of(world).agents) == 3
    assert "not plain JSON" in data["failed"]["claude-code"]
    (world.home / ".claude" / "settings.json").write_text('{"a": ' * 100_000 + "1" + "}" * 100_000)
    assert "nests too deeply to be read" in called(["init", "--yes", "--no-service"]).stderr


@pytest.mark.parametrize("is_link", [True, False])
def test_what_could_not_be_connected_hinders_no_removal(world, is_link):
    path, kept = world.home / ".claude" / "settings.json", world.home / "dotfiles.json"
    kept.write_text('{"model": "opus"} // mine')
    path.symlink_to(kept) if is_link else kept.rename(path)
    assert called(["init", "--yes", "--no-service"]).returncode == 1
    done = called(["init", "--remove"])
    assert done.returncode == 0, done.stderr
    assert not (world.home / CONFIG).exists()
    assert path.read_text() == '{"model": "opus"} // mine'


def test_what_is_written_into_other_programs_never_names_the_demos_configuration(world, monkeypatch):
    monkeypatch.chdir(ROOT)
    before = world.files()
    for words in (["connect", "codex", "--write"], ["service", "install"]):
        done = called(["--json", *words])
        assert done.returncode == 2
        hint = json.loads(done.stdout)["error"]["hint"]
        assert "memoryd init" in hint
        assert f"--config {ROOT / 'config' / 'memoryd.yaml'}" in hint
    assert world.files() == before
    run("--yes", "--no-service")
    assert called(["config", "check"]).stdout.startswith(str(ROOT / "config")), "other commands take it as before"
    assert str(world.home / CONFIG) in (world.home / ".claude/settings.json").read_text()


def test_a_project_is_not_connected_from_a_folder_of_no_agent(world, monkeypatch):
    run("--project", str(world.home / "work/shop"), "--no-service")
    monkeypatch.chdir(world.home)
    for more in ([], ["--agent", "shop"]):
        assert called(["connect", "claude-code", "--project", "--write", *more]).returncode == 4
    assert not (world.home / ".mcp.json").exists()
    monkeypatch.chdir(world.home / "work/shop/src")
    assert called(["connect", "claude-code", "--project", "--write"]).returncode == 0


def test_the_service_is_installed_started_and_taken_out(world, monkeypatch):
    asked = []
    monkeypatch.setattr(init.sys, "platform", "linux")
    monkeypatch.setattr(init.services, "has_manager", lambda: True)
    monkeypatch.setattr(init.services, "call_manager", asked.append)
    monkeypatch.setattr(init, "_UP_SECONDS", 0.0)
    done = called(["init", "--yes"])
    assert (done.returncode, "the daemon does not answer" in done.stderr) == (1, True), "nobody started it"
    assert "loginctl enable-linger" in done.stdout
    unit = world.home / ".config/systemd/user/memoryd.service"
    assert str(world.home / CONFIG) in unit.read_text()
    (world.home / "other.yaml").write_text("state_dir: other\nagents: []\n")
    assert called(["--config", str(world.home / "other.yaml"), "init", "--remove"]).returncode == 0
    assert unit.exists(), "that of another configuration"
    assert called(["init", "--remove"]).returncode == 0
    assert not unit.exists()
    assert asked == [
        "systemctl --user daemon-reload && systemctl --user enable --now memoryd",
        "systemctl --user disable --now memoryd",
    ]
