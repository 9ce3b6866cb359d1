"""Write the service file of memoryd: a systemd unit or a launchd property list for one configuration.

`memoryd service` starts and stops nothing. It shows the command, and a person runs it. `memoryd init` runs it itself.
"""

import contextlib
import os
import plistlib
import re
import shlex
import site
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from memoryd.agent_programs import PROGRAMS
from memoryd.clock import Clock
from memoryd.config import Settings
from memoryd.errors import ConfigError, StateError
from memoryd.files import unit
from memoryd.files.folders import make_private_dir
from memoryd.files.trust import find_user

PATIENCE = "30s"  # how long to wait for another daemon; a daemon stops faster
LINGER = "it ends when you log out and starts when you log in; loginctl enable-linger keeps it running"
LABEL = "dev.memoryd.daemon"
SYSTEM_FOLDER = Path("/etc/systemd/system")
SHARED_TEMPORARY = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - named to be recognised, never written to


@dataclass(frozen=True, slots=True)
class Service:
    """Describe a service file: its path, its text, and the shell commands that start and stop the service."""

    path: Path
    text: str
    start: str
    stop: str
    note: str = ""  # a hint for the person who installs it


def plan_service(settings: Settings, *, launchd: bool, system: bool) -> Service:
    """Return the service file for this configuration and this installation.

    Raises:
        ConfigError: Both `launchd` and `system` are given, a path cannot be written into the file, or the workspaces
            have several owners.
    """
    if launchd and system:
        raise ConfigError("there is no launchd service for the whole machine", hint="leave out --system or --launchd")
    if launchd:
        path = Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        target = f"gui/{os.getuid()}"
        stop = f"launchctl bootout {target}/{LABEL}"
        return Service(path, _plist(settings), f"launchctl bootstrap {target} {shlex.quote(str(path))}", stop)
    folder, command = SYSTEM_FOLDER, "systemctl"
    if not system:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"
        command = "systemctl --user"
    start, stop = f"{command} daemon-reload && {command} enable --now memoryd", f"{command} disable --now memoryd"
    note = "" if system else LINGER
    return Service(folder / "memoryd.service", _unit(settings, system=system), start, stop, note)


def install(made: Service, settings: Settings) -> dict[str, Any]:
    """Write the file; return `path`, `changed`, `backup`, `next` (the command that starts it) and `note`."""
    # Root installs the service for the machine, but it runs as the owner of the workspaces.
    owner = _owner_id(settings) if made.path.parent == SYSTEM_FOLDER else -1
    make_private_dir(settings.state_dir, owner)
    make_private_dir(settings.state_dir / "log", owner)
    placed = unit.place_file(made.path, made.text.encode(), Clock().text())
    return _describe_placed(made.path, placed, made.start) | {"note": made.note}


def uninstall(made: Service) -> dict[str, Any]:
    """Remove the file. Return `path`, `changed`, `backup`, and `next`: the command that stops a running service."""
    placed = unit.place_file(made.path, made.text.encode(), Clock().text(), remove=True)
    return _describe_placed(made.path, placed, made.stop)


def _describe_placed(path: Path, placed: unit.PlacedFile, command: str) -> dict[str, Any]:
    backup = None if placed.backup is None else str(placed.backup)
    return {"path": str(path), "changed": placed.changed, "backup": backup, "next": command}


def is_installed(made: Service, settings: Settings) -> bool:
    """Return True if the service file exists and belongs to this configuration."""
    text = made.path.read_text("utf-8", "replace") if made.path.is_file() else ""
    source = str(settings.source)
    return _quote_word(source, command=True) in text or escape(source) in text


def find_start(settings: Settings) -> str:
    """Return the command that starts the installed service of this configuration; empty if none is installed."""
    is_mac = sys.platform == "darwin"
    for system in (False,) if is_mac else (False, True):
        # If this configuration cannot have a service, none is installed.
        with contextlib.suppress(ConfigError, OSError):
            made = plan_service(settings, launchd=is_mac, system=system)
            if is_installed(made, settings):
                return made.start if is_mac else f"{'sudo systemctl' if system else 'systemctl --user'} start memoryd"
    return ""


def has_manager() -> bool:
    """Return True if this user's service manager answers."""
    probe = "launchctl print gui/$(id -u)" if sys.platform == "darwin" else "systemctl --user show --property=Version"
    return subprocess.run(["sh", "-c", probe], capture_output=True, check=False).returncode == 0


def call_manager(command: str) -> None:
    """Run a command of `Service` that starts or stops it.

    Raises:
        StateError: the service manager refuses.
    """
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise StateError("the service manager refuses", command, " ".join(done.stderr.split())[:300])


def start_process(settings: Settings) -> None:
    """Start the daemon as a process that outlives the terminal."""
    nothing = subprocess.DEVNULL
    words = ["sh", "-c", '"$@" &', "sh", *command_line(settings), "--quiet"]
    subprocess.run(words, stdin=nothing, stdout=nothing, stderr=nothing, cwd="/", start_new_session=True, check=True)


def command_line(settings: Settings) -> list[str]:
    """Return the command line of the daemon as words."""
    return [*find_program(), "--config", str(settings.source), "run", "--wait", PATIENCE]


def find_program() -> list[str]:
    """Return the words of the `memoryd` command, with absolute paths.

    The command ignores the environment and the modules in the current folder.

    Raises:
        StateError: Python does not know its own path.
    """
    if not Path(sys.executable or "").is_absolute():
        raise StateError("this interpreter does not say where it is", hint="call memoryd by its absolute path")
    # -I skips the user's site folder. If memoryd is installed there, use the other parts of -I instead.
    is_users = bool(site.ENABLE_USER_SITE) and Path(__file__).is_relative_to(site.getusersitepackages())
    return [sys.executable, *(["-E", "-P"] if is_users else ["-I"]), "-m", "memoryd"]


# --- systemd ----------------------------------------------------------------------------------------------------------


def read_shipped_unit(name: str) -> str:
    """Return the text of a shipped file in `systemd/`. Its comments explain each setting that is not the default."""
    package = Path(__file__).parent.parent
    packaged = package / "systemd" / name
    return (packaged if packaged.is_file() else package.parent / "systemd" / name).read_text("utf-8")


def _unit(settings: Settings, *, system: bool) -> str:
    command = " ".join(_quote_word(word, command=True) for word in command_line(settings))
    lines = {"ExecStart": command}
    if system:
        writable = [settings.state_dir, *(agent.workspace for agent in settings.agents)]
        uid = _owner_id(settings)
        lines["User"] = find_user(uid) or str(uid)
        lines["ReadWritePaths"] = " ".join("-" + _quote_word(str(path)) for path in dict.fromkeys(writable))
        if any(path.is_relative_to(shared) for path in writable for shared in SHARED_TEMPORARY):
            lines["PrivateTmp"] = "no"
    else:
        # The service manager does not know these variables, which tell where agents keep their sessions.
        kept = (f"Environment={_quote_word(f'{name}={value}')}" for name, value in _list_variables().items())
        lines["ExecStart"] = "\n".join([command, *kept])
    text = read_shipped_unit("memoryd.service" if system else "user/memoryd.service")
    return re.sub(rf"(?m)^({'|'.join(lines)})=.*$", lambda line: f"{line[1]}={lines[line[1]]}", text)


def _list_variables() -> dict[str, str]:
    """Return the variables that name folders of agent programs, as absolute paths."""
    names = {one.variable: os.environ.get(one.variable) for one in PROGRAMS.values() if one.variable is not None}
    return {name: str(Path(value).expanduser().absolute()) for name, value in sorted(names.items()) if value}


def _quote_word(word: str, *, command: bool = False) -> str:
    """Quote a word for a unit file, by systemd.syntax(7). `command` also escapes variables, as ExecStart needs it.

    Raises:
        ConfigError: The word has a control character or is not UTF-8.
    """
    if re.search(r"[\x00-\x1f\x7f]", word) or word != word.encode("utf-8", "replace").decode():
        raise ConfigError(f"the path {word!r} cannot be written into a unit", hint="rename the folder")
    safe = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    safe = safe.replace("$", "$$") if command else safe
    return safe if re.fullmatch(r"[\w./%:@=+,~-]+", safe, re.ASCII) else f'"{safe}"'


def _owner_id(settings: Settings) -> int:
    uids = {agent.workspace.stat().st_uid for agent in settings.agents} or {os.getuid()}
    if len(uids) > 1:
        raise ConfigError(
            "the workspaces belong to several users", hint="give each user a configuration and a service of their own"
        )
    return uids.pop()


# --- launchd ----------------------------------------------------------------------------------------------------------


def _plist(settings: Settings) -> str:
    """Return the shipped property list with the command and the state folder of this configuration."""
    described = plistlib.loads(read_shipped_unit(f"launchd/{LABEL}.plist").encode())
    described["ProgramArguments"] = [*command_line(settings), "--quiet"]
    if variables := _list_variables():
        described["EnvironmentVariables"] = variables
    described["StandardErrorPath"] = str(settings.state_dir / "log" / "launchd.err")
    return plistlib.dumps(described).decode()
