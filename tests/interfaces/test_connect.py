"""Connecting agents: what is written into their configuration, into nothing else, and how it is taken back."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoryd.config import Agent, Settings, TranscriptSource
from memoryd.errors import ConfigError, RefusedError, StateError
from memoryd.files import foreign_config, git_exclude
from memoryd.interfaces import connect as connecting
from memoryd.interfaces import hook as hooks
from memoryd.interfaces.connect import TOOLS, ConnectTarget, as_text, connect
from memoryd.interfaces.json_settings import HookSettings, JsonServers
from memoryd.interfaces.mcp_server import McpServer, words_of
from memoryd.interfaces.text_settings import AiderConf, TomlServers

NOW = "2026-03-04T09:00:00.000Z"
CLAUDE = ".claude/settings.json"


@pytest.fixture
def place(tmp_path):
    (tmp_path / "home").mkdir()
    workspace = tmp_path / "my $HOME's ws"
    workspace.mkdir()
    (tmp_path / "memoryd.yaml").touch()
    elsewhere = TranscriptSource(path="x", root=tmp_path / "elsewhere")
    agents = (Agent(id="demo", workspace=workspace, transcripts=(elsewhere,)),)
    settings = Settings(state_dir=tmp_path / "state", agents=agents, source=tmp_path / "memoryd.yaml")
    return ConnectTarget(settings, settings.agents[0], tmp_path / "home", {}, None)


def bound_to(place, *sources):
    """The place with other sources of its only agent."""
    agent = replace(place.agent, transcripts=sources)
    return replace(place, agent=agent, settings=replace(place.settings, agents=(agent,)))


def written(tool, place, *, remove=False):
    return connect(tool, place, NOW, write=True, remove=remove)


def put(place, name, text):
    path = place.home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


LOOK = {"write": False, "remove": False}


@pytest.mark.parametrize(("tool", "folder"), [("codex", ".codex/sessions"), ("claude-code", ".claude/projects")])
def test_a_tool_whose_sessions_nobody_reads_is_told_with_the_key(tool, folder, place):
    def unread(*sources):
        return connect(tool, bound_to(place, *sources), NOW, **LOOK)["unread"]

    def auto(*parts, format_="auto"):
        return TranscriptSource(path="*.jsonl", format=format_, root=place.home.joinpath(*parts), pattern="*.jsonl")

    key = f'run memoryd init, or add to transcripts of an agent: - path: "{place.home}/{folder}/**/*.jsonl"'
    for sources in ((), (auto("elsewhere"),), (auto(folder, format_="messages"),)):
        assert unread(*sources) == f"sessions of {tool} are not read: {key}"
    for source in (auto(folder), auto(folder, "of", "one"), auto(), auto("elsewhere", format_=tool)):
        assert unread(auto("elsewhere"), source) is None
    shown = connect(tool, place, NOW, **LOOK)
    assert as_text(shown, write=False).splitlines()[-1] == f"WARNING  {shown['unread']}"
    assert connect(tool, place, NOW, write=False, remove=True)["unread"] is None
    assert f'- path: "{place.home}/.aider.chat.history.md"' in connect("aider", place, NOW, **LOOK)["unread"]


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_is_shown_written_once_and_taken_away(tool, place):
    shown = connect(tool, place, NOW, write=False, remove=False)
    assert not list(place.home.iterdir()), "a look changes nothing"
    assert all(one["changed"] and one["backup"] is None for one in shown["files"])
    done = written(tool, place)
    assert [one["diff"] for one in done["files"]] == [one["diff"] for one in shown["files"]]
    assert done["next"] == [*TOOLS[tool].next, *TOOLS[tool].served]
    for one in done["files"]:
        path = Path(one["path"])
        assert one["diff"].startswith(f"--- /dev/null\n+++ {path}\n")
        assert "".join(f"+{line}\n" for line in path.read_text().splitlines()) in one["diff"]
    again = written(tool, place)
    assert (again["written"], again["next"]) == (False, [])
    assert as_text(again, write=True).startswith("nothing to change: ")
    written(tool, place, remove=True)
    assert not [path for path in place.home.rglob("*") if path.is_file()]
    assert not written(tool, place, remove=True)["written"]


SETTINGS = [
    '{\n  "model": "opus",\n  "hooks": {\n    "Stop": [{\n        "hooks": []\n      }\n    ]\n  },\n  "z": 1.50\n}\n',
    '{"model":"opus","permissions":{"allow":["Bash(ls:*)"]}}',
    '{"hooks": {"SessionStart": [{"matcher": "startup", "hooks": [{"type": "command", "command": "echo \'"}]}]}}\n',
    '{\r\n\t"ü": "é\\u0001",\r\n\t"hooks": {}\r\n}\r\n',
    "{}",
    "",
    "  \n",
    "[1]",
]


@pytest.mark.parametrize("text", SETTINGS[:-2])
def test_settings_that_are_there_stay_and_come_back_to_the_byte(text, place):
    path = put(place, CLAUDE, text)
    path.chmod(0o600)
    written("claude-code", place)
    before, after = json.loads(text or "{}"), json.loads(path.read_text())
    assert list(after) == [*before, *([] if "hooks" in before else ["hooks"])], "the order of the keys"
    for name, groups in before.get("hooks", {}).items():
        assert after["hooks"][name][: len(groups)] == groups, "hooks of others stay"
    assert {name: value for name, value in after.items() if name != "hooks"} == {
        name: value for name, value in before.items() if name != "hooks"
    }
    assert ("\r\n" in text) == (b"\r\n" in path.read_bytes())
    assert path.read_bytes().endswith(b"\n") == (text.endswith("\n") or not text)
    kept = next((place.settings.state_dir / "connect").iterdir())
    assert (kept.read_bytes(), kept.stat().st_mode & 0o777) == (text.encode(), 0o600)
    assert path.stat().st_mode & 0o777 == 0o600
    written("claude-code", place, remove=True)
    assert path.read_bytes() == text.encode()


def test_what_changed_since_stays_when_memoryd_goes(place):
    path = put(place, CLAUDE, '{"model":"opus"}')
    written("claude-code", place)
    document = json.loads(path.read_text())
    document["theme"] = "dark"
    document["hooks"]["PreCompact"][0]["hooks"].append({"type": "command", "command": "echo mine"})
    path.write_text(json.dumps(document))
    written("claude-code", place, remove=True)
    left = {"PreCompact": [{"hooks": [{"type": "command", "command": "echo mine"}]}]}
    assert json.loads(path.read_text()) == {"model": "opus", "theme": "dark", "hooks": left}


def test_another_socket_replaces_the_hook_and_so_does_this_version_those_of_each_agent(place, tmp_path):
    path = put(place, CLAUDE, '{"model": "opus"}\n')
    written("claude-code", place)
    moved = replace(place, settings=replace(place.settings, state_dir=tmp_path / "elsewhere"))
    written("claude-code", moved)
    (group,) = json.loads(path.read_text())["hooks"]["SessionStart"]
    assert f"{tmp_path}/elsewhere/memoryd.sock" in group["hooks"][0]["command"]
    other = replace(moved, settings=replace(moved.settings, source=tmp_path / "b.yaml", state_dir=tmp_path / "b"))
    written("claude-code", other)
    assert len(json.loads(path.read_text())["hooks"]["SessionStart"]) == 2, "another configuration has its own"
    written("claude-code", other, remove=True)
    written("claude-code", moved, remove=True)
    assert path.read_text() == '{"model": "opus"}\n', "the copy from before the first hook"
    earlier = [
        f"m hook claude-code session-start --workspace {shlex.quote(str(one))}" for one in (place.agent.workspace, "/o")
    ]
    groups = [{"hooks": [{"command": one}]} for one in (earlier[0], earlier[1], earlier[0])] + [{"hooks": []}]
    path.write_text(json.dumps({"hooks": {"SessionStart": groups}}))
    written("claude-code", place)
    groups = json.loads(path.read_text())["hooks"]["SessionStart"]
    commands = [one["command"] for group in groups for one in group["hooks"]]
    assert (len(groups), commands) == (3, [place.command("claude-code", "session-start"), earlier[1]])


@pytest.mark.parametrize(
    "text",
    [
        '{\n  // mine\n  "model": "opus"\n}',
        '{"a": 1, "a": 2}',
        '{"a": 1,}',
        "[1]",
        '{"x": ' + "[" * 200_000 + "]" * 200_000 + "}",
        '{"hooks": []}',
        '{"hooks": {"SessionStart": {}}}',
        '{"hooks": {"SessionStart": [1]}}',
        '{"hooks": {"SessionStart": [{"hooks": ["x"]}]}}',
        "\ufeff{}",
    ],
)
def test_what_cannot_be_edited_without_loss_is_refused_with_what_to_paste(text, place):
    path = put(place, CLAUDE, text)
    assert not written("claude-code", place, remove=True)["written"], "there is nothing to take out"
    for remove, now in ((False, text), (True, f"{text} // memoryd")):
        path.write_text(now)
        with pytest.raises(RefusedError) as refused:
            written("claude-code", place, remove=remove)
        assert '"SessionStart": [{"hooks": [{"type": "command"' in refused.value.hint
        assert path.read_bytes() == now.encode()


def test_links_and_files_of_others_are_refused(place, tmp_path, monkeypatch):
    target = tmp_path / "dotfiles.json"
    target.write_text("{}")
    (place.home / ".claude").mkdir()
    path = place.home / CLAUDE
    path.symlink_to(target)
    with pytest.raises(StateError, match="symbolic link"):
        written("claude-code", place)
    path.unlink()
    path.hardlink_to(target)
    with pytest.raises(StateError, match="hard link"):
        written("claude-code", place)
    path.unlink()
    path.write_text("{}")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    for tool in ("claude-code", "codex"):
        with pytest.raises(StateError, match="belongs to another user"):
            written(tool, place)
    assert (target.read_text(), path.read_text()) == ("{}", "{}")


@pytest.mark.parametrize("text", ["export const Mine = 1\n", "// mine, see the documentation of memoryd connect\n"])
def test_a_plugin_of_somebody_elses_is_left_alone(place, text):
    for tool, name in (("opencode", ".config/opencode/plugins/memoryd.js"), ("pi", ".pi/agent/extensions/memoryd.ts")):
        path = put(place, name, text)
        with pytest.raises(RefusedError, match="not written by memoryd"):
            written(tool, place)
        assert not written(tool, place, remove=True)["written"]
        assert path.read_text() == text


@pytest.mark.parametrize("other", [None, ".claude/skills/mine/SKILL.md"])
def test_a_removal_leaves_no_empty_folder_but_every_file_of_a_person(place, other):
    kept = put(place, other, "mine") if other else None
    written("claude-code", place)
    assert (place.home / ".claude/skills/memoryd/SKILL.md").is_file()
    written("claude-code", place, remove=True)
    assert (place.home / ".claude/skills").is_dir() is bool(other)
    assert not (place.home / ".claude/skills/memoryd").exists()
    assert kept is None or kept.read_text() == "mine"


def test_half_a_character_in_settings_stays(place):
    text = '{"x": "\\ud800 \\u00e9", "y": 1}'
    path = put(place, CLAUDE, text)
    written("claude-code", place)
    assert json.loads(path.read_bytes())["x"] == "\ud800 é"
    written("claude-code", place, remove=True)
    assert path.read_text() == text


def test_the_places_that_tools_and_projects_name(place, tmp_path):
    environ = {"CLAUDE_CONFIG_DIR": str(tmp_path / "c"), "CODEX_HOME": "~/x", "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    there = replace(place, environ=environ)
    assert paths("claude-code", there) == [
        tmp_path / "c" / name for name in ("settings.json", ".claude.json", "skills/memoryd/SKILL.md")
    ]
    assert paths("codex", there) == [Path.home() / "x" / "hooks.json", Path.home() / "x" / "config.toml"]
    xdg = tmp_path / "xdg/opencode"
    assert paths("opencode", there) == [xdg / "plugins/memoryd.js", xdg / "opencode.json"]
    project = replace(there, project=tmp_path / "p")
    assert {
        tool: [str(path.relative_to(tmp_path / "p")) for path in paths(tool, project)]
        for tool in TOOLS
        if tool != "openclaw"
    } == {
        "claude-code": [".claude/settings.local.json", ".mcp.json", ".claude/skills/memoryd/SKILL.md"],
        "codex": [".codex/hooks.json", ".codex/config.toml"],
        "gemini": [".gemini/settings.json"],
        "opencode": [".opencode/plugins/memoryd.js", "opencode.json"],
        "pi": [".pi/extensions/memoryd.ts"],
        "aider": [".aider.conf.yml"],
    }
    with pytest.raises(RefusedError, match="no configuration of a project"):
        connect("openclaw", project, NOW, write=False, remove=False)
    with pytest.raises(ConfigError, match="does not know 'emacs'"):
        connect("emacs", place, NOW, write=False, remove=False)


def paths(tool, place):
    return [Path(one["path"]) for one in connect(tool, place, NOW, write=False, remove=False)["files"]]


@pytest.mark.parametrize("odd", ["link", "folder", "file"])
def test_if_lines_for_git_cannot_be_changed_nothing_is_written_and_nothing_removed(place, odd):
    project = place.agent.workspace
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    exclude, aider = project / ".git" / "info" / "exclude", project / ".aider.conf.yml"
    there = replace(place, project=project)
    for remove in (False, True):
        if remove:
            written("aider", there)
        kept = exclude.parent.rename(project.parent / "kept")
        if odd == "file":
            exclude.parent.touch()
        else:
            exclude.parent.mkdir()
            exclude.symlink_to(kept / "exclude") if odd == "link" else exclude.mkdir()
        before = aider.read_bytes() if remove else None
        with pytest.raises(StateError, match=r"regular file|Not a directory"):
            written("aider", there, remove=remove)
        assert (aider.read_bytes() if aider.exists() else None) == before
        exclude.parent.unlink() if odd == "file" else shutil.rmtree(exclude.parent)
        kept.rename(exclude.parent)
    written("aider", there, remove=True)
    assert (aider.exists(), "aider" in exclude.read_text()) == (False, False)


@pytest.mark.parametrize("remove", [False, True])
def test_the_line_for_git_is_there_as_long_as_the_file(place, monkeypatch, remove):
    class StoppedError(Exception):
        """The process ends here."""

    def stop(*_, **__):
        raise StoppedError

    project = place.agent.workspace
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    exclude, aider = project / ".git" / "info" / "exclude", project / ".aider.conf.yml"
    there = replace(place, project=project)
    if remove:
        written("aider", there)
    for module, step in ((foreign_config, "write"), (git_exclude, "remove" if remove else "add")):
        with monkeypatch.context() as patched:
            patched.setattr(module, step, stop)
            with pytest.raises(StoppedError):
                written("aider", there, remove=remove)
        assert not aider.exists() or "aider" in exclude.read_text()


def test_the_command_says_all_that_the_hook_needs_whatever_the_paths_hold(place, tmp_path):
    there = replace(place, settings=replace(place.settings, source=tmp_path / "it's $a" / "memoryd.yaml"))
    command = there.command("codex", "pre-compact")
    words = shlex.split(command)
    assert words[:5] == [sys.executable, "-I", "-m", "memoryd", "hook"]
    socket = str(place.settings.state_dir / "memoryd.sock")
    assert hooks.parse(words[5:]) == hooks.Hook("codex", "pre-compact", socket, str(there.settings.source))
    shown = subprocess.run(["sh", "-c", f"printf '%s\\n' {command}"], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines() == words, "a shell reads the same words"


def test_the_shapes_that_the_tools_document(place):
    written("codex", place)
    codex = json.loads((place.home / ".codex/hooks.json").read_text())["hooks"]
    assert {name: list(groups[0]["hooks"][0]) for name, groups in codex.items()} == {
        "SessionStart": ["type", "command", "timeout", "additionalContextLimit"],
        "UserPromptSubmit": ["type", "command", "timeout"],
        "PreCompact": ["type", "command", "timeout"],
        "SessionEnd": ["type", "command", "timeout"],
    }
    assert codex["SessionEnd"][0]["hooks"][0]["timeout"] == 3, "Codex gives it no more, and warns of more"
    written("gemini", place)
    gemini = json.loads((place.home / ".gemini/settings.json").read_text())["hooks"]
    assert {name: groups[0]["hooks"][0]["timeout"] for name, groups in gemini.items()} == {
        "SessionStart": 5000, "BeforeAgent": 5000, "PreCompress": 5000, "SessionEnd": 5000,
    }  # fmt: skip


def test_openclaw_may_load_the_plugin_and_keeps_what_else_it_may(place):
    text = '{"plugins": {"allow": ["own"], "entries": {"own": {"enabled": true}}}, "mcp": {"servers": {}}}'
    path = put(place, ".openclaw/openclaw.json", text)
    written("openclaw", place)
    plugins = json.loads(path.read_text())["plugins"]
    entry = {"enabled": True, "hooks": {"allowConversationAccess": True}}
    assert plugins == {"allow": ["own", "memoryd"], "entries": {"own": {"enabled": True}, "memoryd": entry}}
    folder = place.home / ".openclaw" / "extensions" / "memoryd"
    package, manifest = (json.loads((folder / name).read_text()) for name in ("package.json", "openclaw.plugin.json"))
    assert (folder / package["openclaw"]["extensions"][0]).exists()
    assert (manifest["id"], manifest["configSchema"]["type"]) == ("memoryd", "object")
    document = json.loads(path.read_text()) | {"meta": {"lastTouchedVersion": "2026.9.6"}}
    path.write_text(json.dumps(document))
    written("openclaw", place, remove=True)
    assert json.loads(path.read_text()) == {
        "plugins": {"allow": ["own"], "entries": {"own": {"enabled": True}}}, "meta": document["meta"],
    }  # fmt: skip
    assert not list(folder.glob("*"))
    path.write_text(text)
    written("openclaw", place)
    written("openclaw", place, remove=True)
    assert path.read_text() == text
    for odd in ('{"plugins": []}', '{"plugins": {"allow": "own"}}', '{"plugins": {"entries": {"memoryd": true}}}'):
        path.write_text(odd)
        with pytest.raises(RefusedError) as refused:
            written("openclaw", place)
        assert '"allowConversationAccess": true' in refused.value.hint
        assert path.read_text() == odd


# --- MCP servers ---


def servers(tool, place):
    """What stands in the file that names a tool's MCP servers."""
    path = {"claude-code": ".claude.json", "codex": ".codex/config.toml", "gemini": ".gemini/settings.json"}
    path |= {"opencode": ".config/opencode/opencode.json", "openclaw": ".openclaw/openclaw.json"}
    text = (place.home / path[tool]).read_text(encoding="utf-8")
    if tool == "codex":
        return tomllib.loads(text)["mcp_servers"]
    document = json.loads(text)
    return document["mcp"]["servers"] if tool == "openclaw" else document.get("mcpServers") or document["mcp"]


def test_the_tools_of_memory_are_started_for_the_agent_of_the_folder(place):
    command = [*connecting.service.find_program(), "--config", str(place.settings.source), "mcp"]
    rest = {}
    for tool in ("claude-code", "codex", "gemini", "opencode", "openclaw"):
        written(tool, place)
        ((name, entry),) = servers(tool, place).items()
        named = ["--agent", "demo"] if tool == "openclaw" else []  # its gateway starts it in a folder of its own
        assert (name, words_of(entry)) == ("memoryd", [*command, *named])
        rest[tool] = {key: value for key, value in entry.items() if key not in {"command", "args"}}
    assert rest == {
        "claude-code": {},
        "codex": {"startup_timeout_sec": 30},
        "gemini": {},
        "opencode": {"type": "local", "timeout": 30_000},
        "openclaw": {"connectionTimeoutMs": 30_000},
    }
    assert "hooks" in json.loads((place.home / ".gemini/settings.json").read_text()), "both are in one file"


def test_sessions_of_other_projects_do_not_load_the_memory_and_each_tool_says_what_it_can(place, tmp_path):
    shop = tmp_path / "shop"
    shop.mkdir()
    bound = replace(place, agent=replace(place.agent, transcripts=(TranscriptSource(path="x", project=shop),)))
    for write in (False, True):
        for where in (bound, replace(bound, project=tmp_path)):
            with pytest.raises(RefusedError, match="would be injected into sessions of other projects") as refused:
                connect("aider", where, NOW, write=write, remove=False)
            assert "--project" in refused.value.hint
    assert not list(place.home.iterdir())
    written("aider", place)
    written("aider", bound, remove=True)
    assert not list(place.home.iterdir()), "what was connected once can be taken away"
    made = written("aider", replace(bound, project=shop))
    assert made["written"]
    assert any("leave it out of git" in step for step in made["next"])
    several = replace(place, agent=None)
    with pytest.raises(ConfigError, match="which agent is meant"):
        connect("aider", several, NOW, **LOOK)
    assert connect("codex", several, NOW, **LOOK)["next"]


def test_another_configuration_gets_a_name_of_its_own_and_a_moved_one_the_old_name(place, tmp_path):
    (tmp_path / "second.yaml").touch()
    second = replace(place, settings=replace(place.settings, source=tmp_path / "second.yaml"))
    for tool in ("claude-code", "codex", "opencode"):
        written(tool, place)
        written(tool, second)
        assert list(servers(tool, place)) == ["memoryd", "memoryd-2"]
    place.settings.source.rename(tmp_path / "moved.yaml")
    moved = replace(place, settings=replace(place.settings, source=tmp_path / "moved.yaml"))
    for tool in ("claude-code", "codex", "opencode"):
        written(tool, moved)
        assert words_of(servers(tool, place)["memoryd"])[-2:] == [str(tmp_path / "moved.yaml"), "mcp"]
        written(tool, moved, remove=True)
        assert list(servers(tool, place)) == ["memoryd-2"]


def test_the_servers_that_an_earlier_version_wrote_for_each_agent_go(place):
    written("claude-code", place)
    path = place.home / ".claude.json"
    document = json.loads(path.read_text())
    entry = document["mcpServers"]["memoryd"]
    document["mcpServers"]["memoryd-second"] = entry | {"args": [*entry["args"], "--agent", "second"]}
    path.write_text(json.dumps(document))
    written("claude-code", place, remove=True)
    assert not path.exists() or not json.loads(path.read_text())


def test_what_a_person_or_the_tool_adds_to_the_server_stays(place):
    written("claude-code", place)
    path = place.home / ".claude.json"
    document = json.loads(path.read_text())
    document["mcpServers"]["memoryd"]["timeout"] = 9
    path.write_text(json.dumps(document))
    assert not written("claude-code", place)["written"]
    written("codex", place)
    path = place.home / ".codex/config.toml"
    allowed = '\n[mcp_servers.memoryd.tools.memory_search]\napproval_mode = "approve"\n'
    with path.open("a") as file:
        file.write(allowed)
    assert not written("codex", place)["written"]
    with pytest.raises(RefusedError, match="more of the server 'memoryd'"):
        written("codex", place, remove=True)
    path.write_text(path.read_text().replace("command = ", "command = 'x' # "))
    with pytest.raises(RefusedError, match="has a table"):
        written("codex", place)


SERVER = McpServer(["/usr/bin/python", "-m", "memoryd"], Path("/c/memoryd.yaml"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[mcp_servers.memoryd]\ncommand = "x"\n', "has a server 'memoryd' already"),
        ("mcp_servers = {}\n", "cannot take another table|is not TOML"),
        ("mcp_servers = 1\n", "something else under"),
        ("a = \n", "is not TOML"),
        ("a = '\xff'\n", "not UTF-8"),
        (
            (
                "# memoryd connect: memoryd\n"
                '[mcp_servers.memoryd]\ncommand = "memoryd"\nargs = ["--config", "/gone", "mcp", "--agent", "demo"]\n'
            ),
            "has lost the line",
        ),
    ],
)
def test_what_codex_has_otherwise_is_refused(text, why):
    with pytest.raises(RefusedError, match=why):
        TomlServers(Path("config.toml"), SERVER).put(text.encode("latin-1"))


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": []}',
        '{"mcpServers": {"memoryd": {"command": "npx"}}}',
        '{"mcpServers": {"memoryd": 1}}',
        "// x\n{}",
    ],
)
def test_what_stands_in_the_list_otherwise_is_refused_with_what_to_paste(text):
    with pytest.raises(RefusedError) as refused:
        JsonServers(Path("x"), "mcpServers", SERVER).put(text.encode())
    assert refused.value.hint.startswith('put this in by hand: "mcpServers": {"memoryd": {"command"')


def test_a_list_as_opencode_2_has_it_is_added_to():
    old = {"mcp": {"servers": {"other": {"type": "local", "command": ["x"]}}, "timeout": {}}}
    new = json.loads(JsonServers(Path("x"), "mcp", SERVER).put(json.dumps(old).encode()))
    assert new["mcp"]["servers"].pop("memoryd") == {
        "type": "local", "command": SERVER.words, "timeout": 30_000,
    }  # fmt: skip
    assert new == old
    old["mcp"]["servers"]["memoryd"] = {"type": "local", "command": SERVER.words, "timeout": 9}
    text = json.dumps(old).encode()
    assert JsonServers(Path("x"), "mcp", SERVER).put(text) == text, "how long is waited is the person's to say"


TOML = st.lists(
    st.sampled_from(
        [
            "# mine",
            "",
            "a = 1",
            "[t]",
            "[[x]]",
            '[mcp_servers.other]\ncommand = "x"',
            's = """\n# memoryd connect: y\n"""',
            "\r",
        ]
    ),
    max_size=6,
)


@example(lines=[], end="\n", ended=True, strange='\x7f\U0001f41f"\\')
@given(TOML, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.text(max_size=8))
def test_any_settings_of_codex_keep_all_but_ours(lines, end, ended, strange):
    text = end.join(lines) + (end if ended else "")
    edit = TomlServers(
        Path("config.toml"),
        replace(
            SERVER, config=Path("/c") / strange.replace("/", "").replace("\0", "").encode(errors="ignore").decode()
        ),
    )
    try:
        was = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(RefusedError):
            edit.put(text.encode())
        return
    new = edit.put(text.encode())
    assert new.startswith(text.encode())
    assert edit.put(new) == new
    now = tomllib.loads(new.decode())
    assert words_of(now["mcp_servers"].pop("memoryd")) == edit.server.words
    assert now == was | {"mcp_servers": was.get("mcp_servers", {})}
    assert (edit.take(new) or b"").decode().strip() == text.strip()
    assert edit.take(text.encode()) == text.encode()


# --- aider ---

MEMORY = Path("/w x/MEMORY.md")
ENTRY = '- "/w x/MEMORY.md"  # memoryd\n'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, f"read:  # memoryd\n  {ENTRY}"),
        ("# mine\nmodel: x", f"# mine\nmodel: x\nread:  # memoryd\n  {ENTRY}"),
        ("read:\n  - a.md\nmodel: x\n", f"read:\n  {ENTRY}  - a.md\nmodel: x\n"),
        ("read:   # what I like\n- a.md\n", f"read:   # what I like\n{ENTRY}- a.md\n"),
        ("model: x\r\n", f"model: x\r\nread:  # memoryd\r\n  {ENTRY}".replace("memoryd\n", "memoryd\r\n")),
    ],
)
def test_aider_reads_the_memory_too(old, new):
    conf = AiderConf(Path("conf"), MEMORY)
    data = None if old is None else old.encode()
    assert conf.put(data) == new.encode()
    assert conf.put(new.encode()) == new.encode()
    taken = conf.take(new.encode())
    assert (taken or b"").rstrip() == (data or b"").rstrip()
    if old is not None:
        assert conf.take(data) == data


@pytest.mark.parametrize(
    "text", ["read: a.md\n", "read: [a.md, b.md]\n", "read:\nmodel: x\n", "read:\n- a\nread:\n- b\n", "\xff"]
)
def test_another_read_of_aiders_is_refused(text):
    with pytest.raises(RefusedError, match="by hand"):
        AiderConf(Path("conf"), MEMORY).put(text.encode("latin-1"))


# --- any settings at all ---

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3),
    max_leaves=12,
)
others = st.fixed_dictionaries({"type": st.just("command"), "command": st.text(max_size=12)})
groups = st.lists(
    st.fixed_dictionaries({"hooks": st.lists(others, max_size=2)}, optional={"matcher": st.text(max_size=3)}),
    max_size=2,
)
documents = st.builds(
    lambda rest, hooks: {**rest, **({} if hooks is None else {"hooks": hooks})},
    st.dictionaries(st.text(max_size=5).filter(lambda name: name != "hooks"), values, max_size=4),
    st.none() | st.dictionaries(st.sampled_from(["SessionStart", "Stop"]), groups, max_size=2),
)
OURS = HookSettings(
    Path("x"),
    "codex",
    frozenset([("--config", "/c")]),
    {"SessionStart": {"type": "command", "command": "m hook codex session-start --config /c"}},
)


@given(documents, st.sampled_from([None, 1, 2, 4, "\t"]), st.booleans())
def test_any_settings_keep_all_but_ours(document, indent, end):
    old = (json.dumps(document, indent=indent, ensure_ascii=False) + ("\n" if end else "")).encode(errors="replace")
    document = json.loads(old)
    new = OURS.put(old)
    assert OURS.put(new) == new
    now = json.loads(new)
    assert now["hooks"]["SessionStart"][:-1] == document.get("hooks", {}).get("SessionStart", [])
    now["hooks"]["SessionStart"].pop()
    assert now | {"hooks": 0} == document | {"hooks": 0}
    taken = OURS.take(new)
    left = json.loads(taken or b"{}")
    hooks = {name: was for name, was in document.get("hooks", {}).items() if was or name != "SessionStart"}
    rest = {name: value for name, value in document.items() if name != "hooks"}
    assert left == rest | ({"hooks": hooks} if hooks else {})
    assert OURS.take(old) == old


# --- the plugins, run by the runtime of the tools that load them ---


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_the_plugins_give_the_text_and_announce(place, tmp_path):
    """Under Node.js, with the events as each tool documents them; the hook's program is one that notes its calls."""
    program = tmp_path / "program"
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        f"open({str(tmp_path / 'calls')!r}, 'a').write(json.dumps([sys.argv[1:4], json.load(sys.stdin)]) + '\\n')\n"
        "print('MEMORY of', sys.argv[2], end='')\n"
    )
    program.chmod(0o755)
    drive = {
        "opencode.js": """
            const made = await plugin.Memoryd({ directory: "/p" })
            const output = { system: ["base"] }
            for (let times = 0; times < 2; times++) {
              output.system.length = 1
              await made["experimental.chat.system.transform"]({ sessionID: "s1" }, output)
            }
            const command = { type: "text", text: "Look through all the notes." }
            const typed = { command: "look", sessionID: "s1", arguments: '"Where is it?"' }
            await made["command.execute.before"](typed, { parts: [{ type: "file" }, command] })
            const prompt = { id: "prt_1", sessionID: "s1", messageID: "m1", ...command }
            const parts = [prompt, { ...prompt, id: "prt_2", synthetic: true, text: "a file" }]
            await made["chat.message"]({ sessionID: "s1" }, { message: {}, parts })
            await made["chat.message"]({ sessionID: "s1" }, { message: {}, parts: [{ id: "prt_3", type: "file" }] })
            await made["experimental.session.compacting"]({ sessionID: "s1" }, { context: [] })
            await made.event({ event: { type: "session.deleted", properties: { info: { id: "s1" } } } })
            said = [...output.system, ...parts.slice(2)]""",
        "pi.ts": """
            const handlers = {}
            plugin.default({ on: (name, handler) => (handlers[name] = handler) })
            const ctx = { cwd: "/p", sessionManager: { getSessionId: () => "s1", getSessionFile: () => "/t" } }
            await handlers.session_start({}, ctx)
            said = [await handlers.before_agent_start({ systemPrompt: "base", prompt: "Where is it?" }, ctx)]
            await handlers.session_before_compact({}, ctx)
            await handlers.session_shutdown({}, ctx)""",
        "openclaw.js": """
            const handlers = {}
            plugin.default.register({ on: (name, handler) => (handlers[name] = handler) })
            const ctx = { workspaceDir: "/p", sessionId: "s1", trigger: "user" }
            said = [await handlers.before_prompt_build({ prompt: "Where is it?", messages: [] }, ctx)]
            said.push(await handlers.before_prompt_build({ prompt: "Tick." }, { ...ctx, trigger: "cron" }))
            const group = { ...ctx, sessionId: "s2", sessionKey: "agent:main:telegram:group:-100123" }
            said.push(await handlers.before_prompt_build({ prompt: "What is her address?" }, group))
            const child = { ...group, sessionKey: "agent:main:subagent:2f6a" }
            const calls = async (ctx, toolName) => !(await handlers.before_tool_call({ toolName }, ctx))?.block
            const tool = "memoryd-demo__memory_search"
            const may = [await calls(group, tool), await calls(group, "exec"), await calls(child, tool)]
            const parent = async (requesterSessionKey) => {
              await handlers.subagent_spawned({ childSessionKey: child.sessionKey }, { requesterSessionKey })
              may.push(await calls(child, tool))
            }
            await parent(group.sessionKey)
            said.push(await handlers.before_prompt_build({ prompt: "What is her address?" }, child))
            await parent(child.sessionKey)
            await parent("agent:main:main")
            said.push([...may, await calls(ctx, tool)])
            const own = { ...ctx, sessionKey: "agent:main:main" }
            said.push(await handlers.before_prompt_build({ messages: [] }, own))
            await handlers.before_compaction({ sessionFile: "/t" }, ctx)
            await handlers.session_end({ reason: "compaction", sessionFile: "/t" }, ctx)
            await handlers.before_prompt_build({ messages: [] }, ctx)
            await handlers.session_end({ reason: "new", sessionFile: "/t" }, { sessionId: "s1" })""",
    }
    tools = {"opencode.js": "opencode", "pi.ts": "pi", "openclaw.js": "openclaw"}
    lines = ["let said, plugin; const all = []"]
    for name, steps in drive.items():
        text = place.plugin(tools[name], name)
        old = json.dumps([*connecting.service.find_program(), "hook", tools[name]])
        assert old in text
        (tmp_path / f"{name}.mjs").write_text(text.replace(old, json.dumps([str(program), tools[name]])))
        lines += [f"plugin = await import({str(tmp_path / f'{name}.mjs')!r})", f"{{{steps}\n}}", "all.push(said)"]
    text = place.plugin("opencode", "opencode.js").replace(json.dumps(sys.executable), '"/no/such/program"')
    (tmp_path / "broken.mjs").write_text(text)
    lines += [
        f"plugin = await import({str(tmp_path / 'broken.mjs')!r})",
        'said = ["base"]; await (await plugin.Memoryd({}))["experimental.chat.system.transform"]({}, { system: said })',
        "all.push(said); console.log(JSON.stringify(all))",
    ]
    (tmp_path / "drive.mjs").write_text("\n".join(lines))
    done = subprocess.run(
        ["node", str(tmp_path / "drive.mjs")], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    # In the order of their ids, as OpenCode keeps its parts; pi keeps the message, and shows it to the model alone.
    part = {"id": "prt_20", "sessionID": "s1", "messageID": "m1", "type": "text", "text": "MEMORY of prompt",
            "synthetic": True}  # fmt: skip
    found = {"customType": "memoryd", "content": "MEMORY of prompt", "display": False}
    start = {"appendSystemContext": "MEMORY of session-start"}
    assert json.loads(done.stdout) == [
        ["base", "MEMORY of session-start", part],
        [{"systemPrompt": "base\n\nMEMORY of session-start", "message": found}],
        # To a group nothing, nor to what was spawned there or by nobody knows whom; no tool answers it.
        [
            start | {"prependContext": "MEMORY of prompt"},
            start,
            {},
            {},
            [False, True, False, False, False, True, True],
            start,
        ],
        ["base"],
    ]
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    events = ("session-start", "prompt", "pre-compact", "session-end")
    told = [[tool, event] for tool in tools.values() for event in events]
    told.insert(-1, ["openclaw", "session-start"])  # anew behind the compaction, which is no end
    assert [call[0][:2] for call in calls] == told
    assert [call[1]["prompt"] for call in calls if call[0][1] == "prompt"] == ["Where is it?"] * 3
    assert all(call[1]["session_id"] == "s1" and call[1]["cwd"] == "/p" for call in calls)
    assert all(call[1].get("transcript_path") == "/t" for call in calls if call[0][0] == "pi")
