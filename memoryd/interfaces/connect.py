"""Connect an agent program to its memory: `memoryd connect TOOL`.

For each tool, a function returns the edits of the tool's files. `connect_steps.json` lists the steps for a person. An
edit can be added, added again without a change, and removed. Removal restores the exact old bytes if nothing else
changed in the meantime.
"""

import contextlib
import difflib
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from memoryd.agent_choice import choose, is_within
from memoryd.agent_programs import AIDER_HISTORY, PROGRAMS
from memoryd.config import Agent, Settings
from memoryd.errors import ConfigError, RefusedError
from memoryd.files import foreign_config, git_exclude
from memoryd.interfaces import service
from memoryd.interfaces.hook import COMPACT, END, PROMPT, START
from memoryd.interfaces.json_settings import OPENCLAW, OPENCODE, Edit, HookSettings, JsonServers, OpenClawPlugins
from memoryd.interfaces.mcp_server import NAME, McpServer
from memoryd.interfaces.text_settings import AiderConf, TomlServers
from memoryd.requests.daemon_client import SOCKET
from memoryd.version import __version__

_NOTHING = {"type": "object", "additionalProperties": False}  # JSON schema: the plugin has no settings
SECONDS = 5
_EVENTS = {"SessionStart": START, "UserPromptSubmit": PROMPT, "PreCompact": COMPACT, "SessionEnd": END}
_END_SECONDS = 3  # the most that Codex allows a hook at the end of a session; it warns about a longer timeout
_OURS = re.compile(rb'^(?:// |<!-- |  "description": ")?Written by `memoryd connect ', re.MULTILINE)
_WRITTEN = "Written by `memoryd connect openclaw`"


@dataclass(frozen=True, slots=True)
class OwnFile(Edit):
    """Write or remove a file that belongs to memoryd alone. An older version is replaced. Any other file is refused."""

    content: str

    def put(self, old: bytes | None) -> bytes:
        if old is not None and _OURS.search(old) is None:
            raise RefusedError("is there already, and not written by memoryd", str(self.path), self.by_hand())
        return self.content.encode()

    def take(self, old: bytes) -> bytes | None:
        return old if _OURS.search(old) is None else None

    def by_hand(self) -> str:
        return "move it away"


@dataclass(frozen=True, slots=True)
class ConnectTarget:
    """Hold what a connection needs: the settings, the agent, and where the tool keeps its configuration."""

    settings: Settings
    agent: Agent | None  # the agent whose memory files the tool loads itself; None if there may be several
    home: Path
    environ: Mapping[str, str]  # the environment with the variables of the tools
    project: Path | None  # the project to connect; None: all sessions of this user

    def folder(self, usual: str, variable: str | None = None) -> Path:
        """Return the tool's configuration folder.

        It is in the project if there is one, otherwise where `variable` points, otherwise `usual` in the home folder.
        """
        if self.project is not None:
            return self.project / Path(usual).name
        named = self.environ.get(variable) if variable else None
        return Path(named).expanduser() if named else self.home / usual

    def options(self) -> list[str]:
        """Return the options of the hook command. With them, the hook need not read the configuration first."""
        return ["--socket", str(self.settings.state_dir / SOCKET), "--config", str(self.settings.source.absolute())]

    def marks(self) -> frozenset[tuple[str, str]]:
        """Return the option pairs that identify a hook of this configuration, also if an older version wrote it."""
        agents = [("--workspace", str(agent.workspace)) for agent in self.settings.agents]
        words = self.options()
        return frozenset([*zip(words[::2], words[1::2], strict=True), *agents])

    def command(self, tool: str, event: str) -> str:
        """Return the shell command line of the hook for an event of a tool."""
        return shlex.join([*service.find_program(), "hook", tool, event, *self.options()])

    def server(self, agent: Agent | None = None) -> McpServer:
        """Return the entry of the MCP server.

        Name the agent if the tool does not start the server in the agent's folder.
        """
        return McpServer(service.find_program(), self.settings.source.absolute(), None if agent is None else agent.id)

    def plugin(self, tool: str, name: str) -> str:
        """Return the source text of the plugin `name`, with the hook command of `tool` filled in."""
        folder = resources.files("memoryd.interfaces") / "plugins"
        call = (folder / "call.js").read_text("utf-8").rstrip("\n")
        # JSON in ASCII is a safe JavaScript string, whatever characters a path contains.
        program, options = (json.dumps(words) for words in ([*service.find_program(), "hook", tool], self.options()))
        call = call.replace('"@PROGRAM@"', program).replace('"@OPTIONS@"', options)
        return (folder / name).read_text("utf-8").replace("@CALL@", call)


@dataclass(frozen=True, slots=True)
class ConnectableTool:
    """Describe how to connect one tool: the edits of its files, and the steps that a person takes afterwards."""

    edits: Callable[[ConnectTarget], Sequence[Edit]]
    next: Sequence[str]  # the steps that a person takes in every case
    served: Sequence[str] = ()  # further steps if the tool gets an MCP server; empty if it gets none
    in_project: bool = True  # whether the tool can be connected for one project only
    shared: Sequence[str] = ()  # further steps if a file in the project names paths of this machine
    loads: bool = False  # whether the tool itself loads the memory file, without a hook that checks the project

    def steps(self, place: ConnectTarget) -> list[str]:
        """Return the steps that a person takes after the edits."""
        return [*self.next, *self.served, *(self.shared if place.project is not None else ())]


def _claude_code(place: ConnectTarget) -> Sequence[Edit]:
    # Git usually shares settings.json of a project, but these paths are valid only on this machine.
    name = "settings.json" if place.project is None else "settings.local.json"
    folder = place.folder(".claude", "CLAUDE_CONFIG_DIR")
    hooks = _hooks(place, "claude-code", folder / name, _EVENTS)
    own = Path(place.environ.get("CLAUDE_CONFIG_DIR") or place.home).expanduser() / ".claude.json"
    path = own if place.project is None else place.project / ".mcp.json"
    text = (resources.files("memoryd.interfaces") / "plugins" / "skill.md").read_text("utf-8")
    skill = OwnFile(folder / "skills" / "memoryd" / "SKILL.md", text)
    return [hooks, JsonServers(path, "mcpServers", place.server()), skill]


def _codex(place: ConnectTarget) -> Sequence[Edit]:
    folder = place.folder(".codex", "CODEX_HOME")
    # Codex counts four bytes as a token. Without a limit here, the model sees at most 2,500 tokens of the context.
    limit = 2 * (place.settings.injection.max_tokens + place.settings.injection.files_max_tokens)
    more = {START: {"additionalContextLimit": limit}, END: {"timeout": _END_SECONDS}}
    hooks = _hooks(place, "codex", folder / "hooks.json", _EVENTS, more=more)
    return [hooks, TomlServers(folder / "config.toml", place.server())]


def _gemini(place: ConnectTarget) -> Sequence[Edit]:
    path = place.folder(".gemini") / "settings.json"
    events = {"SessionStart": START, "BeforeAgent": PROMPT, "PreCompress": COMPACT, "SessionEnd": END}
    hooks = _hooks(place, "gemini", path, events, timeout=SECONDS * 1000)  # Gemini counts the timeout in milliseconds
    return [hooks, JsonServers(path, "mcpServers", place.server())]


def _hooks(
    place: ConnectTarget,
    tool: str,
    path: Path,
    events: Mapping[str, str],
    timeout: int = SECONDS,
    more: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> HookSettings:
    made: dict[str, dict[str, Any]] = {}
    for name, event in events.items():
        made[name] = {"type": "command", "command": place.command(tool, event), "timeout": timeout}
        made[name] |= more.get(event, {})
    return HookSettings(path, tool, place.marks(), made)


def _opencode(place: ConnectTarget) -> Sequence[Edit]:
    settings = folder = Path(place.environ.get("XDG_CONFIG_HOME") or place.home / ".config") / "opencode"
    if place.project is not None:
        settings, folder = place.project, place.project / ".opencode"
    plugin = OwnFile(folder / "plugins" / "memoryd.js", place.plugin("opencode", "opencode.js"))
    return [plugin, JsonServers(settings / "opencode.json", OPENCODE, place.server())]


def _pi(place: ConnectTarget) -> Sequence[Edit]:
    folder = place.home / ".pi" / "agent" if place.project is None else place.project / ".pi"
    return [OwnFile(folder / "extensions" / "memoryd.ts", place.plugin("pi", "pi.ts"))]


def _openclaw(place: ConnectTarget) -> Sequence[Edit]:
    state = place.folder(".openclaw", "OPENCLAW_STATE_DIR")
    package = {"name": "memoryd", "description": _WRITTEN, "version": __version__, "type": "module"}
    manifest = {"id": "memoryd", "description": _WRITTEN, "name": "memoryd", "activation": {"onStartup": True}}
    plugin = {
        "package.json": json.dumps(package | {"openclaw": {"extensions": ["./index.js"]}}, indent=2) + "\n",
        "openclaw.plugin.json": json.dumps(manifest | {"configSchema": _NOTHING}, indent=2) + "\n",
        "index.js": place.plugin("openclaw", "openclaw.js"),
    }
    named = place.environ.get("OPENCLAW_CONFIG_PATH")
    path = Path(named).expanduser() if named else state / "openclaw.json"
    # OpenClaw's gateway starts the server in its own folder, so the command must name the agent.
    server = place.server(place.agent or choose(place.settings, str(state / "workspace")))
    return [
        *(OwnFile(state / "extensions" / "memoryd" / name, text) for name, text in plugin.items()),
        *(OpenClawPlugins(path), JsonServers(path, OPENCLAW, server)),
    ]


def _aider(place: ConnectTarget) -> Sequence[Edit]:
    return [AiderConf((place.project or place.home) / ".aider.conf.yml", _owner(place).workspace / "MEMORY.md")]


_EDITS = {
    "claude-code": _claude_code, "codex": _codex, "gemini": _gemini, "opencode": _opencode, "openclaw": _openclaw,
    "pi": _pi, "aider": _aider,
}  # fmt: skip
# The steps that a person takes for each tool, and what is special about it. The keys are fields of `ConnectableTool`.
_STEPS = json.loads(resources.files("memoryd.interfaces").joinpath("connect_steps.json").read_text("utf-8"))
TOOLS = {name: ConnectableTool(edits, **_STEPS[name]) for name, edits in _EDITS.items()}


def tool_of(name: str) -> ConnectableTool:
    """Return the tool with this name, or raise a ConfigError that lists all tools."""
    if name not in TOOLS:
        raise ConfigError(f"memoryd does not know {name!r}", hint=f"one of {', '.join(TOOLS)}")
    return TOOLS[name]


def connect(tool: str, place: ConnectTarget, now: str, *, write: bool, remove: bool) -> dict[str, Any]:
    """Return the changes that connect a tool, and write them if asked.

    Returns:
        `tool`, `written`, `files` (each with `path`, `changed`, `diff`, `backup`), `next` (steps for a person),
        `unread` (why memoryd does not read the tool's sessions; None if it does, or if the connection is removed).
    """
    known = tool_of(tool)
    if place.project is not None and not known.in_project:
        raise RefusedError(f"{tool} has no configuration of a project", hint="leave out --project")
    if known.loads and not remove:
        _require_own(tool, place)
    keep = place.settings.state_dir / foreign_config.KEPT
    by_path: dict[Path, list[Edit]] = {}
    for edit in known.edits(place):
        by_path.setdefault(edit.path, []).append(edit)
    planned: list[tuple[Path, bytes | None, bytes | None]] = []
    for path, edits in by_path.items():
        old = None if remove and _is_without(path) else foreign_config.read(path)
        new = _remove(edits, old, foreign_config.list_kept(path, keep)) if remove else _put(edits, old)
        planned.append((path, old, new))
    files = []
    for path, old, new in planned:
        excluded = place.project if write and known.loads and (old is None) != (new is None) else None
        if excluded:  # The line must be there as long as the file. If git's file cannot be read, nothing changes.
            git_exclude.add(excluded, git_exclude.AIDER)
        kept = foreign_config.write(path, new, old, keep, now) if write and new != old else None
        if excluded and remove:
            git_exclude.remove(excluded, git_exclude.AIDER)
        told = {"path": str(path), "changed": new != old, "diff": _diff(path, old, new)}
        files.append(told | {"backup": None if kept is None else str(kept)})
    changed = any(one["changed"] for one in files)
    ahead = known.steps(place) if changed and not remove else []
    told = {"tool": tool, "written": write and changed, "files": files, "next": ahead}
    return told | {"unread": None if remove else _describe_unread(tool, place)}


def _describe_unread(tool: str, place: ConnectTarget) -> str | None:
    """Return a warning if no agent reads the sessions of a tool, with the remedy, or None if one does."""
    pattern = str((place.project or place.home) / AIDER_HISTORY)
    if known := PROGRAMS.get(tool):
        pattern = known.list_patterns(known.find_root(place.home, place.environ))[0]
    folder = Path(pattern.partition("/*")[0])
    agents = place.settings.agents if place.agent is None else (place.agent,)
    for source in (source for agent in agents for source in agent.transcripts):
        is_there = source.root.is_relative_to(folder) or folder.is_relative_to(source.root)
        if source.format == tool or (source.format == "auto" and is_there):
            return None
    path = json.dumps(pattern, ensure_ascii=False)
    return f"sessions of {tool} are not read: run memoryd init, or add to transcripts of an agent: - path: {path}"


def _require_own(tool: str, place: ConnectTarget) -> None:
    """Raise a RefusedError if sessions of other projects would load the file that gets this agent's memory."""
    if not is_within(_owner(place), None if place.project is None else str(place.project)):
        what = "this agent's memory would be injected into sessions of other projects"
        raise RefusedError(what, tool, "use --project in a folder of this agent's")


def _owner(place: ConnectTarget) -> Agent:
    if place.agent is None:
        hint = "give --agent ID, or --project in its folder; memoryd init --project . gives this folder an agent"
        raise ConfigError("which agent is meant?", hint=hint)
    return place.agent


def _is_without(path: Path) -> bool:
    """Return True if the file does not name memoryd. Removal then skips it, even if its format does not allow edits."""
    try:
        return path.is_file() and NAME.encode() not in path.read_bytes()
    except OSError:
        return False


def _put(edits: Sequence[Edit], data: bytes | None) -> bytes | None:
    for edit in edits:
        data = edit.put(data)
    return data


def _take(edits: Sequence[Edit], data: bytes | None) -> bytes | None:
    for edit in reversed(edits):
        data = None if data is None else edit.take(data)
    return data


def _remove(edits: Sequence[Edit], old: bytes | None, before: Sequence[bytes]) -> bytes | None:
    """Return the bytes of a file without memoryd's edits; None means that the file is to be deleted.

    `before` holds earlier versions of the file. If adding the edits to one of them gives the present file, that exact
    version is returned.
    """
    left = _take(edits, old)
    if left == old:
        return old
    for one in (*before, None):
        with contextlib.suppress(RefusedError):
            if _take(edits, one) == one and _put(edits, one) == old:
                return one
    return left


def _diff(path: Path, old: bytes | None, new: bytes | None) -> str:
    sides = [[] if one is None else one.decode("utf-8", "replace").splitlines(keepends=True) for one in (old, new)]
    names = [str(path) if one is not None else "/dev/null" for one in (old, new)]
    lines = difflib.unified_diff(sides[0], sides[1], names[0], names[1])
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def as_text(data: Mapping[str, Any], *, write: bool) -> str:
    """Return the changes and the next steps as text for people. `write` is True if the changes were written."""
    changed = [one for one in data["files"] if one["changed"]]
    unread = [f"WARNING  {data['unread']}"] if data["unread"] else []
    if not changed:
        return "\n".join(["nothing to change: " + ", ".join(one["path"] for one in data["files"]), *unread])
    lines = [one["diff"].rstrip("\n") for one in changed]
    lines += [f"kept     {one['backup']}" for one in changed if one["backup"]]
    lines += ["written" if write else "nothing is written yet: add --write to change the files"]
    return "\n".join([*lines, *(f"then     {step}" for step in data["next"]), *unread])
