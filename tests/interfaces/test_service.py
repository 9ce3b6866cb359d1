"""The service files: what the managers themselves say of them, and what install does to what was there."""

import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT
from scratch import Scratch, called, said

from memoryd import config
from memoryd.errors import ConfigError
from memoryd.interfaces import service as services

SHIPPED = sorted((ROOT / "systemd").rglob("*.service"))
ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")


@pytest.fixture
def scratch(tmp_path):
    return Scratch(tmp_path / "scratch")


def settings_of(scratch):
    return config.load(scratch.config)


def made(scratch, *, launchd=False, system=False):
    return services.plan_service(settings_of(scratch), launchd=launchd, system=system)


def analyze(*arguments):
    return subprocess.run([ANALYZE, *map(str, arguments)], capture_output=True, text=True, check=False)


@needs_systemd
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(path.parents[1])))
def test_systemd_has_nothing_to_say_of_a_shipped_unit(path):
    done = analyze("verify", path)
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
def test_the_system_unit_is_closed():
    done = analyze("security", "--offline=true", "--threshold=20", SHIPPED[0])
    assert done.returncode == 0, done.stdout[-200:]
    assert SHIPPED[0].parent.name == "systemd"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(path.parents[1])))
def test_every_line_of_a_unit_has_its_reason(path):
    """Each directive stands in a block that begins with a comment; the few that explain themselves are named."""
    plain = {"Description", "Documentation", "WantedBy"}
    above = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        name = line.partition("=")[0]
        if not line or line.startswith(("[", "#")):
            above = "#" if line.startswith("#") else ""
        else:
            assert above or name in plain, f"{line} has no reason"


HOSTILE = ["plain", "with space", 'quote"d', "per%cent", "dol$lar", "back\\slash", "ümlaut", "semi;colon #hash"]


def test_the_service_looks_for_agents_where_their_variables_say(scratch, monkeypatch, tmp_path):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "my claude"))
    monkeypatch.setenv("CODEX_HOME", "~/codex")
    line = f'\nEnvironment="CLAUDE_CONFIG_DIR={tmp_path}/my claude"\nEnvironment=CODEX_HOME={Path.home()}/codex\n'
    assert line in made(scratch).text
    assert "CODEX_HOME" not in made(scratch, system=True).text, "that of another user"
    named = {"CLAUDE_CONFIG_DIR": str(tmp_path / "my claude"), "CODEX_HOME": str(Path.home() / "codex")}
    assert plistlib.loads(made(scratch, launchd=True).text.encode())["EnvironmentVariables"] == named


@pytest.mark.long
@needs_systemd
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("system", [True, False], ids=["system", "user"])
def test_any_path_can_stand_in_a_unit(tmp_path, name, system):
    scratch = Scratch(tmp_path / name)
    scratch.config.write_text(scratch.config.read_text(encoding="utf-8").replace("$", "$$"), encoding="utf-8")
    one = made(scratch, system=system)
    path = tmp_path / "memoryd.service"
    path.write_text(one.text, encoding="utf-8")
    done = analyze("verify", path)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = re.findall(r"(?m)^ExecStart=(.*)$", one.text)
    words = shlex.split(line.replace("%%", "%").replace("$$", "$"))
    assert words == [sys.executable, "-I", "-m", "memoryd", "--config", str(scratch.config), "run", "--wait", "30s"]


@pytest.mark.parametrize("system", [True, False])
def test_a_stopped_daemon_is_started_as_its_service_is(scratch, monkeypatch, system):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(scratch.root / "config"))
    monkeypatch.setattr(services, "SYSTEM_FOLDER", scratch.root / "units")
    monkeypatch.setattr(services.sys, "platform", "linux")
    settings = settings_of(scratch)
    assert services.find_start(settings) == ""
    services.install(made(scratch, system=system), settings)
    start = "sudo systemctl start memoryd" if system else "systemctl --user start memoryd"
    assert services.find_start(settings) == start
    scratch.run("run", "--once")
    assert called(["--config", str(scratch.config), "status"]).stdout.startswith(f"Not running: {start}.")
    assert f"→ {start}\n" in called(["--config", str(scratch.config), "doctor"]).stdout


def test_a_path_with_a_line_break_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be written into a unit"):
        made(Scratch(tmp_path / "a\nExecStartPre=x"))


def test_the_system_unit_writes_where_memory_is_and_nowhere_else(scratch, monkeypatch):
    monkeypatch.setattr(services, "SHARED_TEMPORARY", ())
    text = made(scratch, system=True).text
    assert f"\nReadWritePaths=-{scratch.state} -{scratch.workspace}\n" in text
    assert "\nPrivateTmp=yes\n" in text
    monkeypatch.setattr(services, "SHARED_TEMPORARY", (scratch.root,))
    assert "\nPrivateTmp=no\n" in made(scratch, system=True).text


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder away")
def test_the_system_unit_works_as_the_owner_of_the_workspaces(scratch, tmp_path):
    os.chown(scratch.workspace, 1, 1)
    assert "\nUser=daemon\n" in made(scratch, system=True).text
    scratch.agents.append(Scratch.agent("other", Scratch(tmp_path / "other").workspace))
    scratch.write_config()
    with pytest.raises(ConfigError, match="several users"):
        made(scratch, system=True)


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder away")
def test_folders_that_root_makes_for_the_system_unit_are_its_users(scratch, monkeypatch):
    monkeypatch.setattr(services, "SYSTEM_FOLDER", scratch.root / "units")
    scratch.write_config(state_dir=str(scratch.root / "var" / "state"))
    os.chown(scratch.workspace, 1, 1)
    services.install(made(scratch, system=True), settings_of(scratch))
    folders = [scratch.root / "var", scratch.root / "var" / "state", scratch.root / "var" / "state" / "log"]
    assert [(one.stat().st_uid, one.stat().st_mode & 0o777) for one in folders] == [(1, 0o700)] * 3
    assert scratch.root.stat().st_uid == 0, "what was there before keeps its owner"
    os.chown(folders[1], 0, 0)  # as an earlier version left it
    services.install(made(scratch, system=True), settings_of(scratch))
    assert folders[1].stat().st_uid == 1


@pytest.mark.long
def test_the_command_of_the_unit_and_its_children_load_nothing_from_the_current_folder_or_environment(scratch):
    marks = scratch.root / "marks"
    for name in ("memoryd", "click", "sqlite3", "pysqlite3", "orjson", "tiktoken", "sitecustomize", "usercustomize"):
        (scratch.workspace / f"{name}.py").write_text(f"open({str(marks)!r}, 'a').write({name!r} + chr(10))\n")
    (scratch.workspace / "shadow.pth").write_text(f"import os; open({str(marks)!r}, 'a').write('pth')\n")
    scratch.write_config(scrub={"secrets": "redact"})
    scratch.append(said())
    command = [*services.command_line(settings_of(scratch)), "--once"]
    environment = os.environ | {"PYTHONPATH": str(scratch.workspace), "PYTHONUSERBASE": str(scratch.workspace)}
    done = subprocess.run(command, cwd=scratch.workspace, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.startswith("read 6 new turns")) == (0, True), done.stderr
    assert not marks.exists(), marks.read_text()


def test_the_property_list_reads_back(scratch):
    one = made(scratch, launchd=True)
    read = plistlib.loads(one.text.encode())
    assert read["ProgramArguments"][:4] == [sys.executable, "-I", "-m", "memoryd"]
    assert read["ProgramArguments"][-4:] == ["run", "--wait", services.PATIENCE, "--quiet"]
    assert (read["KeepAlive"], read["Umask"], read["RunAtLoad"]) == ({"SuccessfulExit": False}, 0o077, True)
    assert one.path.name == f"{read['Label']}.plist"
    assert all(Path(read[key]).is_absolute() for key in ("StandardOutPath", "StandardErrorPath"))


def test_the_property_list_is_the_shipped_one_but_for_the_command_and_the_log(scratch):
    replaced = {"ProgramArguments", "StandardErrorPath"}
    rendered = plistlib.loads(made(scratch, launchd=True).text.encode())
    shipped = plistlib.loads((SHIPPED[0].parent / "launchd" / f"{services.LABEL}.plist").read_bytes())
    assert {key for key in rendered | shipped if rendered.get(key) != shipped.get(key)} == replaced
    assert list(map(type, rendered.values())) == list(map(type, shipped.values()))


@pytest.mark.parametrize("system", [True, False], ids=["system", "user"])
def test_a_unit_is_the_shipped_one_but_for_the_lines_of_this_installation(scratch, system):
    shipped = next(path for path in SHIPPED if (path.parent.name == "systemd") is system).read_text(encoding="utf-8")
    rendered = made(scratch, system=system).text
    lines = zip(rendered.splitlines(), shipped.splitlines(), strict=True)
    changed = {line.partition("=")[0] for line, other in lines if line != other}
    assert {"ExecStart"} <= changed <= {"ExecStart", "User", "ReadWritePaths", "PrivateTmp"}
    assert system or changed == {"ExecStart"}


def test_the_whole_machine_has_no_launchd_service(scratch):
    with pytest.raises(ConfigError):
        made(scratch, launchd=True, system=True)


def test_install_says_what_to_do_twice_and_keeps_what_was_there(scratch, tmp_path):
    environment = os.environ | {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}

    def call(verb):
        return Scratch.json(scratch_in(scratch, environment), "service", verb)

    path = tmp_path / "xdg" / "systemd" / "user" / "memoryd.service"
    path.parent.mkdir(parents=True)
    path.write_text("[Service]\nExecStart=/mine\n", encoding="utf-8")
    first = call("install")
    assert (first["path"], first["changed"]) == (str(path), True)
    assert "systemctl --user enable --now memoryd" in first["next"]
    assert Path(first["backup"]).read_text(encoding="utf-8") == "[Service]\nExecStart=/mine\n"
    assert not first["backup"].endswith(".service")
    second = call("install")
    assert (second["changed"], second["backup"]) == (False, None)
    assert path.read_text(encoding="utf-8") == call("print")["text"]
    assert call("uninstall")["backup"] is None
    assert not path.exists()
    assert call("uninstall")["changed"] is False
    call("install")
    path.write_text("edited", encoding="utf-8")
    assert Path(call("uninstall")["backup"]).read_text(encoding="utf-8") == "edited"


def scratch_in(scratch, environment):
    """The same installation, whose commands run in another environment."""

    class Other(Scratch):
        def run(self, *arguments, **options):
            return super().run(*arguments, env=environment, **options)

    return Other.at(scratch.root)


def test_install_does_not_write_through_a_link(scratch, tmp_path):
    target = tmp_path / "profile"
    target.write_text("mine", encoding="utf-8")
    path = tmp_path / "systemd" / "user" / "memoryd.service"
    path.parent.mkdir(parents=True)
    path.symlink_to(target)
    other = scratch_in(scratch, os.environ | {"XDG_CONFIG_HOME": str(tmp_path)})
    assert other.json("service", "install", code=1)["code"] == "state"
    assert target.read_text(encoding="utf-8") == "mine"
