"""`memoryd connect TOOL`: what an agent's configuration needs so that its sessions get their memory.

Each tool is a function from the place to the edits of its files and to what only a person can do. An edit can be put,
put again without a change, and taken back: to the very bytes that were there, where nothing else has changed since.
"""

from __future__ import annotations

import difflib
import json
import shlex
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from memoryd.errors import ConfigError, RefusedError
from memoryd.files import foreign_config
from memoryd.interfaces import service
from memoryd.interfaces.aider_conf import AiderConf
from memoryd.interfaces.asking import SOCKET
from memoryd.interfaces.hook import COMPACT, END, FILES_TOKENS, START
from memoryd.interfaces.hook_settings import HookSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from memoryd.config import Agent, Settings

KEPT = "connect"  # the folder of the state folder that keeps what was there before
SECONDS = 5


class Edit(Protocol):
    """What a file is to hold."""

    @property
    def path(self) -> Path:
        """The file."""

    def put(self, old: bytes | None) -> bytes:
        """The file with what memoryd needs in it; the same bytes where that is there already."""

    def take(self, old: bytes) -> bytes | None:
        """The file without it, None for no file; the same bytes where it was not there."""


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A file that is memoryd's as a whole."""

    path: Path
    text: str

    def put(self, old: bytes | None) -> bytes:
        """Its text; another version of it is replaced.

        Raises:
            RefusedError: the file is somebody else's.
        """
        if old is not None and b"memoryd connect" not in old:
            raise RefusedError("is there already, and not written by memoryd", str(self.path), "move it away")
        return self.text.encode()

    def take(self, old: bytes) -> bytes | None:
        """No file, unless it is somebody else's."""
        return None if b"memoryd connect" in old else old


@dataclass(frozen=True, slots=True)
class Place:
    """Whose agent is connected, and where its configuration is.

    Attributes:
        settings: memoryd's own.
        agent: whose memory its sessions get.
        home: of the user.
        environ: where the tools' own variables are looked up.
        project: the folder of one project; None for all sessions of this user.
    """

    settings: Settings
    agent: Agent
    home: Path
    environ: Mapping[str, str]
    project: Path | None

    def folder(self, usual: str, variable: str | None = None) -> Path:
        """The tool's folder: of the project, where its variable says, or in the home."""
        if self.project is not None:
            return self.project / Path(usual).name
        named = self.environ.get(variable) if variable else None
        return Path(named).expanduser() if named else self.home / usual

    def options(self) -> list[str]:
        """The options of the hook, so that it need not read the configuration."""
        words = ["--socket", str(self.settings.state_dir / SOCKET), "--workspace", str(self.agent.workspace)]
        if (files := self.settings.injection.files_max_tokens) != FILES_TOKENS:
            words += ["--files", str(files)]
        projects = [source.project for source in self.agent.transcripts]
        for project in dict.fromkeys(projects if None not in projects else ()):
            words += ["--within", str(project)]
        return words

    def command(self, tool: str, event: str) -> str:
        """The hook as a shell's command line."""
        return shlex.join([*service.program(), "hook", tool, event, *self.options()])

    def plugin(self, tool: str, name: str) -> str:
        """The text of a plugin, with the hook's command in it."""
        folder = resources.files("memoryd.interfaces") / "plugins"
        call = (folder / "call.js").read_text("utf-8").rstrip("\n")
        # As ASCII: whatever a path holds, it stays in its string.
        program, options = (json.dumps(words) for words in ([*service.program(), "hook", tool], self.options()))
        call = call.replace('"@PROGRAM@"', program).replace('"@OPTIONS@"', options)
        return (folder / name).read_text("utf-8").replace("@CALL@", call)


@dataclass(frozen=True, slots=True)
class Tool:
    """How one tool is connected."""

    edits: Callable[[Place], Sequence[Edit]]
    next: tuple[str, ...]
    in_project: bool = True


def _claude_code(place: Place) -> Sequence[Edit]:
    # The project's own settings are shared by git; these paths are of this machine.
    name = "settings.json" if place.project is None else "settings.local.json"
    path = place.folder(".claude", "CLAUDE_CONFIG_DIR") / name
    return [_hooks(place, "claude-code", path, {"SessionStart": START, "PreCompact": COMPACT, "SessionEnd": END})]


def _codex(place: Place) -> Sequence[Edit]:
    path = place.folder(".codex", "CODEX_HOME") / "hooks.json"
    # Codex counts four bytes a token, and shows the model no more than 2,500 of them unless it is told otherwise.
    limit = 2 * (place.settings.injection.max_tokens + place.settings.injection.files_max_tokens)
    events = {"SessionStart": START, "PreCompact": COMPACT, "SessionEnd": END}
    return [_hooks(place, "codex", path, events, at_start={"additionalContextLimit": limit})]


def _gemini(place: Place) -> Sequence[Edit]:
    path = place.folder(".gemini") / "settings.json"
    events = {"SessionStart": START, "PreCompress": COMPACT, "SessionEnd": END}
    return [_hooks(place, "gemini", path, events, timeout=SECONDS * 1000)]  # it counts milliseconds


def _hooks(
    place: Place,
    tool: str,
    path: Path,
    events: Mapping[str, str],
    timeout: int = SECONDS,
    at_start: Mapping[str, Any] | None = None,
) -> HookSettings:
    made: dict[str, dict[str, Any]] = {}
    for name, event in events.items():
        made[name] = {"type": "command", "command": place.command(tool, event), "timeout": timeout}
        made[name] |= (at_start or {}) if event == START else {}
    return HookSettings(path, tool, place.agent.workspace, made)


def _opencode(place: Place) -> Sequence[Edit]:
    if place.project is not None:
        folder = place.project / ".opencode"
    else:
        folder = Path(place.environ.get("XDG_CONFIG_HOME") or place.home / ".config") / "opencode"
    return [OwnFile(folder / "plugins" / "memoryd.js", place.plugin("opencode", "opencode.js"))]


def _pi(place: Place) -> Sequence[Edit]:
    folder = place.home / ".pi" / "agent" if place.project is None else place.project / ".pi"
    return [OwnFile(folder / "extensions" / "memoryd.ts", place.plugin("pi", "pi.ts"))]


def _openclaw(place: Place) -> Sequence[Edit]:
    folder = place.folder(".openclaw", "OPENCLAW_STATE_DIR") / "hooks" / "memoryd"
    about = (resources.files("memoryd.interfaces") / "plugins" / "openclaw.md").read_text("utf-8")
    return [
        OwnFile(folder / "HOOK.md", about),
        OwnFile(folder / "handler.ts", place.plugin("openclaw", "openclaw.ts")),
    ]


def _aider(place: Place) -> Sequence[Edit]:
    return [AiderConf((place.project or place.home) / ".aider.conf.yml", place.agent.workspace / "MEMORY.md")]


_ANEW = "start {} anew: it reads its configuration at its start"
TOOLS = {
    "claude-code": Tool(_claude_code, (_ANEW.format("Claude Code"), "/hooks shows what it runs")),
    "codex": Tool(
        _codex,
        (
            "start Codex anew and trust the hooks in /hooks: without a word it leaves out those not trusted",
            "trust them again whenever they have changed; those of a project need a trusted project",
        ),
    ),
    "gemini": Tool(_gemini, (_ANEW.format("Gemini CLI"), "/hooks panel shows what it runs")),
    "opencode": Tool(_opencode, (_ANEW.format("OpenCode"),)),
    "openclaw": Tool(
        _openclaw,
        ("openclaw hooks enable memoryd", "start the gateway anew: openclaw gateway restart"),
        in_project=False,
    ),
    "pi": Tool(_pi, ("start pi anew, or /reload in it",)),
    "aider": Tool(
        _aider, (_ANEW.format("Aider"), "it has no hooks: it reads MEMORY.md at its start, and no more than that")
    ),
}


def connect(tool: str, place: Place, now: str, *, write: bool, remove: bool) -> dict[str, Any]:
    """Work out what changes, and change it where that is asked for.

    Args:
        tool: its name.
        place: whose agent, where.
        now: the time, for the names of what is kept.
        write: whether the files are changed.
        remove: take the connection away.

    Returns:
        `tool`, `written`, `files` (each with `path`, `changed`, `diff`, `backup`), `next` (what a person must do).

    Raises:
        ConfigError: there is no such tool.
        RefusedError: a file is of a shape that cannot be edited without loss; nothing is written.
        StateError: a file cannot be read or written.
    """
    if tool not in TOOLS:
        raise ConfigError(f"memoryd does not know {tool!r}", hint=f"one of {', '.join(TOOLS)}")
    known = TOOLS[tool]
    if place.project is not None and not known.in_project:
        raise RefusedError(f"{tool} has no configuration of a project", hint="leave out --project")
    keep = place.settings.state_dir / KEPT
    planned = []
    for edit in known.edits(place):
        old = foreign_config.read(edit.path)
        new = _without(edit, old, foreign_config.kept(edit.path, keep)) if remove else edit.put(old)
        planned.append((edit.path, old, new))
    files = []
    for path, old, new in planned:
        kept = foreign_config.write(path, new, old, keep, now) if write and new != old else None
        told = {"path": str(path), "changed": new != old, "diff": _diff(path, old, new)}
        files.append(told | {"backup": None if kept is None else str(kept)})
    changed = any(one["changed"] for one in files)
    ahead = list(known.next) if changed and not remove else []
    return {"tool": tool, "written": write and changed, "files": files, "next": ahead}


def _without(edit: Edit, old: bytes | None, before: Sequence[bytes]) -> bytes | None:
    """The file without memoryd: the very bytes of before, where putting it in makes them what is there now."""
    if old is None or edit.take(old) == old:
        return old
    for one in (*before, None):
        was_without = one is None or edit.take(one) == one
        if was_without and _is_put(edit, one) == old:
            return one
    return edit.take(old)


def _is_put(edit: Edit, old: bytes | None) -> bytes | None:
    try:
        return edit.put(old)
    except RefusedError:
        return None


def _diff(path: Path, old: bytes | None, new: bytes | None) -> str:
    sides = [[] if one is None else one.decode("utf-8", "replace").splitlines(keepends=True) for one in (old, new)]
    names = [str(path) if one is not None else "/dev/null" for one in (old, new)]
    lines = difflib.unified_diff(sides[0], sides[1], names[0], names[1])
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def as_text(data: Mapping[str, Any], *, write: bool) -> str:
    """Write for people what changes, or has changed, and what they must do."""
    changed = [one for one in data["files"] if one["changed"]]
    if not changed:
        return "nothing to change: " + ", ".join(one["path"] for one in data["files"])
    lines = [one["diff"].rstrip("\n") for one in changed]
    lines += [f"kept     {one['backup']}" for one in changed if one["backup"]]
    lines += ["written" if write else "nothing is written yet: --write does it"]
    return "\n".join([*lines, *(f"then     {step}" for step in data["next"])])
