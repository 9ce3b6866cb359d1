"""Load config/memoryd.yaml into frozen settings, or raise one error that names every file, line, key and remedy.

A key exists only if it is declared below, together with its default. `config_values` parses single values. This module
declares the keys, reads the file, and checks keys that depend on each other.
"""
# ruff: noqa: RUF009 - the calls in the class bodies make dataclass fields

import contextlib
import difflib
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from memoryd import config_sections
from memoryd import config_values as values
from memoryd.agent_programs import PROGRAMS, make_slug
from memoryd.config_sections import AdminSettings, FleetSettings, LlmSettings
from memoryd.config_values import keys_of, make_key, make_list, make_required_key, make_section
from memoryd.errors import ConfigError, NotFoundError
from memoryd.yaml_reader import MarkedValue, YamlError
from memoryd.yaml_reader import read as read_yaml

KNOWN_FORMATS = (
    "auto", "claude-code", "codex", "opencode", "pi", "openclaw", "gemini", "cline", "aider", "messages", "now",
)  # fmt: skip
KNOWN_STRATEGIES = ("sliding-window", "progressive-summary", "importance-based", "hybrid")
T = TypeVar("T")


class SettingsError(ConfigError):
    """Report all mistakes of a configuration, found in one pass."""

    def __init__(self, path: Path, problems: Sequence[ConfigError]) -> None:
        if len(problems) == 1:
            super().__init__(problems[0].what, problems[0].where, problems[0].hint)
        else:
            listed = "".join(f"\n  {problem}" for problem in problems)
            super().__init__(f"{len(problems)} problems{listed}", str(path))
        self.problems = tuple(problems)


# --- the keys --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptSource:
    """Locate an agent's transcripts: `pattern` (a glob) below the fixed folder `root`."""

    path: str = make_required_key(values.expand_pattern)  # as configured, with `~` and variables expanded
    format: str = make_key(values.one_of(*KNOWN_FORMATS), "auto")
    project: Path | None = make_key(values.or_null(values.any_path), None)
    root: Path = Path()
    pattern: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """Configure one agent and its separate memory.

    `workspace` holds the memory. With `memory: state`, it is a folder in the state folder instead of the configured
    one.
    """

    id: str = make_required_key(values.agent_id)
    workspace: Path = make_required_key(values.parse_folder)
    memory: str = make_key(values.one_of("workspace", "state"), "workspace")
    share: tuple[Path, ...] = make_key(values.make_list_parser(values.any_path), ())
    transcripts: tuple[TranscriptSource, ...] = make_list(TranscriptSource, ())
    context_window: int | None = make_key(values.or_null(values.make_integer_parser(1)), None)
    model: str | None = make_key(values.or_null(values.parse_text), None)
    base_url: str | None = make_key(values.or_null(values.base_url), None)
    owners: tuple[int, ...] = make_key(values.make_list_parser(values.parse_user), ())
    guide: Path | None = make_key(values.or_null(values.any_path), None)
    privacy: str = make_key(values.one_of("open", "silo"), "open")
    enabled: bool = make_key(values.parse_boolean, default=True)
    works_in: Path | None = None  # the folder that the agent works in, if that is not `workspace`
    held_by: str | None = None  # the host of the fleet that works on the workspace instead of this one

    @property
    def folder(self) -> Path:
        """Return the folder that the agent works in."""
        return self.works_in or self.workspace

    @property
    def is_wanted(self) -> bool:
        """Return True if the agent is enabled, here or on the host that works on its workspace."""
        return self.enabled or self.held_by is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """Configure how transcripts are found and read."""

    rescan: timedelta = make_key(values.make_duration_parser(timedelta(milliseconds=100)), timedelta(seconds=60))
    settle: timedelta = make_key(values.make_duration_parser(), timedelta(milliseconds=200))
    polling: str = make_key(values.one_of("auto", "always", "never"), "auto")
    history: str = make_key(values.one_of("index", "flush"), "index")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubSettings:
    """Configure what is removed from every text before it is stored."""

    secrets: str = make_key(values.one_of("redact", "skip", "off"), "redact")
    pii: str = make_key(values.one_of("off", "mask"), "off")
    allow: tuple[str, ...] = make_key(values.make_list_parser(values.allowed_value), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepSettings:
    """Configure when an agent's context becomes memory, and the size of its compressed form."""

    threshold: float = make_key(values.share(zero=False, one=True), 0.8)
    cooldown: timedelta = make_key(values.make_duration_parser(), timedelta(minutes=5))
    min_messages: int = make_key(values.make_integer_parser(1), 1)
    keep_recent: int = make_key(values.make_integer_parser(0), 10)
    budget: float = make_key(values.share(zero=False, one=False), 0.25)
    rearm: float = make_key(values.share(zero=True, one=True), 0.1)
    strategy: str = make_key(values.one_of(*KNOWN_STRATEGIES), "hybrid")
    schedule: str | None = make_key(values.or_null(values.cron_line), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Configure when a session has ended, the length of a NOW file, and `RECENT.md`."""

    idle_end: timedelta = make_key(values.make_duration_parser(timedelta(seconds=1)), timedelta(hours=2))
    now_max_lines: int = make_key(values.make_integer_parser(20), 200)
    now_max_age: timedelta = make_key(values.make_duration_parser(timedelta(minutes=1)), timedelta(hours=6))
    stale_after: timedelta = make_key(values.make_duration_parser(timedelta(minutes=1)), timedelta(hours=24))
    now_keep: timedelta = make_key(values.make_duration_parser(), timedelta(days=3))
    schedule: str | None = make_key(values.or_null(values.cron_line), "0 2 * * *")
    capture: bool = make_key(values.parse_boolean, default=False)
    recent_sessions: int = make_key(values.make_integer_parser(1), 3)
    recent_max_lines: int = make_key(values.make_integer_parser(10), 500)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefineSettings:
    """Configure when an agent condenses its core, and the limits of one refinement."""

    schedule: str | None = make_key(values.or_null(values.cron_line), "0 4 * * sun")
    trigger_tokens: int = make_key(values.make_integer_parser(1), 8_000)
    target_tokens: int = make_key(values.make_integer_parser(1), 5_000)
    consent: bool = make_key(values.parse_boolean, default=True)
    mode: str = make_key(values.one_of("normal", "dedup", "strict"), "normal")
    max_mutations: int = make_key(values.make_integer_parser(1), 25)
    max_steps: int = make_key(values.make_integer_parser(1), 60)
    max_time: timedelta = make_key(values.make_duration_parser(timedelta(seconds=1)), timedelta(hours=1))
    unfinished: str = make_key(values.one_of("keep", "rollback"), "keep")


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupSettings:
    """Configure when identical memories are merged."""

    schedule: str | None = make_key(values.or_null(values.cron_line), "30 2 * * *")


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamSettings:
    """Configure when the core and the last days are consolidated, and the size of the core."""

    schedule: str | None = make_key(values.or_null(values.cron_line), "0 3 * * *")
    lookback_days: int = make_key(values.make_integer_parser(1), 1)
    max_bullets: int = make_key(values.make_integer_parser(1), 50)
    canary: bool = make_key(values.parse_boolean, default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """Configure the limits of what jobs may do to an agent's core."""

    retention_floor: float = make_key(values.share(zero=True, one=True), 0.5)
    erosion_percent: float = make_key(values.share(zero=True, one=True, whole=100), 25.0)
    grounding: str = make_key(values.one_of("drop", "refuse"), "drop")
    accounting: str = make_key(values.one_of("keep", "archive"), "keep")


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsSettings:
    """Configure the lowest confidence and the highest number of facts, and the quiet time before extraction."""

    min_confidence: float = make_key(values.share(zero=True, one=True), 0.5)
    max_facts: int = make_key(values.make_integer_parser(1), 500)
    debounce: timedelta = make_key(values.make_duration_parser(), timedelta(seconds=30))


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionSettings:
    """Configure how many tokens the text for the start of a session may have."""

    max_tokens: int = make_key(values.make_integer_parser(0), 2_000)
    files_max_tokens: int = make_key(values.make_integer_parser(0), 12_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """Configure what search uses besides words."""

    embeddings: str = make_key(values.one_of("auto", "off"), "auto")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsSettings:
    """Configure the attempts of a job and the number of parallel jobs."""

    attempts: int = make_key(values.make_integer_parser(1), 5)
    workers: int = make_key(values.make_integer_parser(1), 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeSettings:
    """Configure what each kind of job may do by itself."""

    sleep: str = make_key(values.one_of("off", "propose", "auto"), "auto")
    facts: str = make_key(values.one_of("off", "propose", "auto"), "auto")
    rollover: str = make_key(values.one_of("off", "propose", "auto"), "auto")
    dedup: str = make_key(values.one_of("off", "propose", "auto"), "auto")
    dream: str = make_key(values.one_of("off", "propose", "auto"), "auto")
    refine: str = make_key(values.one_of("off", "propose", "auto"), "auto")


@dataclass(frozen=True, slots=True, kw_only=True)
class HooksSettings:
    """Configure the user's own commands."""

    on_summary: str | None = make_key(values.or_null(values.parse_text), None)
    on_alarm: str | None = make_key(values.or_null(values.parse_text), None)


_PARTIES = values.make_list_parser(values.one_of("owner", "agent", "fleet"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """Configure who may ask for changes.

    The owner uses commands and Python, the agent its tools and hooks, and operators of a fleet PostgreSQL.
    """

    consolidate: tuple[str, ...] = make_key(_PARTIES, ("owner", "agent"))
    edit: tuple[str, ...] = make_key(_PARTIES, ("owner", "agent"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """Configure the number of copies of the database, and the maximum age of state files (None keeps them)."""

    logs: timedelta | None = make_key(values.or_null(values.make_duration_parser(timedelta(days=1))), None)
    runs: timedelta | None = make_key(values.or_null(values.make_duration_parser(timedelta(days=1))), None)
    copies: timedelta | None = make_key(values.or_null(values.make_duration_parser(timedelta(days=1))), None)
    turns: timedelta | None = make_key(values.or_null(values.make_duration_parser(timedelta(days=1))), None)
    backups: int = make_key(values.make_integer_parser(1), 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Configure the log level and the format of the log on standard error."""

    level: str = make_key(values.one_of("debug", "info", "warning", "error"), "info")
    format: str = make_key(values.one_of("json", "text"), "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Hold the whole configuration. Equal settings behave equally, whatever their source."""

    state_dir: Path = make_required_key(values.parse_folder, absent="../var")
    timezone: str = make_key(values.zone_name, "local")
    discover: tuple[str, ...] = make_key(values.make_list_parser(values.one_of(*PROGRAMS)), ())
    agents: tuple[Agent, ...] = make_list(Agent)
    ingest: IngestSettings = make_section(IngestSettings())
    scrub: ScrubSettings = make_section(ScrubSettings())
    sleep: SleepSettings = make_section(SleepSettings())
    sessions: SessionSettings = make_section(SessionSettings())
    refine: RefineSettings = make_section(RefineSettings())
    dedup: DedupSettings = make_section(DedupSettings())
    dream: DreamSettings = make_section(DreamSettings())
    guards: GuardSettings = make_section(GuardSettings())
    facts: FactsSettings = make_section(FactsSettings())
    injection: InjectionSettings = make_section(InjectionSettings())
    search: SearchSettings = make_section(SearchSettings())
    jobs: JobsSettings = make_section(JobsSettings())
    llm: LlmSettings = make_section(LlmSettings())
    modes: ModeSettings = make_section(ModeSettings())
    hooks: HooksSettings = make_section(HooksSettings())
    access: AccessSettings = make_section(AccessSettings())
    admin: AdminSettings = make_section(AdminSettings())
    fleet: FleetSettings = make_section(FleetSettings())
    privacy_default: str = make_key(values.one_of("open", "silo"), "open")
    retention: RetentionSettings = make_section(RetentionSettings())
    log: LogSettings = make_section(LogSettings())
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    source: Path = field(default=Path(), compare=False)
    sha256: str = field(default="", compare=False, repr=False)  # SHA-256 of the file's text
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)  # of keys: sleep.budget → 12
    warnings: tuple[str, ...] = field(default=(), compare=False, repr=False)  # about removed keys

    def find_agent(self, agent_id: str) -> Agent | None:
        """Return an agent by its id, or None if it is not configured."""
        return next((agent for agent in self.agents if agent.id == agent_id), None)

    def get_agent(self, agent_id: str) -> Agent:
        """Return an agent by its id; raise a NotFoundError if it is not configured."""
        if (found := self.find_agent(agent_id)) is None:
            raise NotFoundError(f"no agent {agent_id!r} is configured", str(self.source), "memoryd status lists them")
        return found


# --- from a file to settings -----------------------------------------------------------------------------------------


# Keys that an earlier version had. A file may still hold them, and gets a warning with the replacement.
_REMOVED = {"injection.handover_max_tokens": "RECENT.md and the state of the project replace it"}


class _ConfigReading:
    """Read one file in one pass, and collect the mistakes and the line of each key."""

    def __init__(self, source: Path, environ: Mapping[str, str]) -> None:
        self.source = source
        self.place = values.PathBase(source.parent, environ)
        self.lines: dict[str, int] = {}
        self.problems: list[tuple[int, ConfigError]] = []
        self.warnings: list[str] = []

    def refuse(self, line: int, at: str, what: str, hint: str = "") -> None:
        told = f"{at}: {what}" if at else what
        self.problems.append((line, ConfigError(told, f"{self.source}:{line}", hint)))

    def warn(self, line: int, what: str) -> None:
        self.warnings.append(f"{self.source}:{line}: {what}")

    def section(self, model: type, at: str, mark: MarkedValue) -> Any:
        """Return the section, or None if a required key is missing. A refused value becomes None."""
        if not isinstance(mark.value, dict):
            hint = "indented lines of key: value"
            self.refuse(mark.line, at, f"a mapping is needed, not {values.show_value(mark.value)}", hint)
            return None
        keys = keys_of(model)
        for name, child in mark.value.items():
            if why := _REMOVED.get(_join_path(at, name)):
                self.warn(child.line, f"{_join_path(at, name)} was removed and does nothing: {why}")
            elif name not in keys:
                self.refuse(child.line, _join_path(at, name), "unknown key", _suggest_name(at, name, tuple(keys)))
        given = {}
        for name, key in keys.items():
            path = _join_path(at, name)
            if name in mark.value:
                self.lines[path] = mark.value[name].line
                given[name] = self._value(key, path, mark.value[name])
            elif key.metadata.get("absent"):
                given[name] = self._value(key, path, MarkedValue(key.metadata["absent"], mark.line))
            elif key.default is MISSING:
                self.refuse(mark.line, path, "is missing", "it has no default")
        complete = all(name in given or key.default is not MISSING for name, key in keys.items())
        return model(**given) if complete else None

    def _value(self, key: Field[Any], path: str, mark: MarkedValue) -> Any:
        if "section" in key.metadata:
            # A section whose keys are all commented out is null in YAML. Then its defaults are used.
            return key.default if mark.value is None else self.section(key.metadata["section"], path, mark)
        if "list" in key.metadata:
            return self._entries(key.metadata["list"], path, mark)
        try:
            return key.metadata["parse"](self.place, mark.value)
        except ConfigError as refused:
            self.refuse(mark.line, path, refused.what, refused.hint)
            return None

    def _entries(self, model: type, path: str, mark: MarkedValue) -> tuple[Any, ...]:
        if not isinstance(mark.value, list):
            self.refuse(
                mark.line, path, f"a list is needed, not {values.show_value(mark.value)}", "begin each entry with -"
            )
            return ()
        return tuple(self.section(model, f"{path}[{number}]", child) for number, child in enumerate(mark.value))


def _join_path(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _suggest_name(at: str, name: str, siblings: Sequence[str]) -> str:
    wanted = name.lower().replace("-", "_")
    near = difflib.get_close_matches(wanted, siblings, n=1)
    if near:
        return f"did you mean {_join_path(at, near[0])}?"
    elsewhere = {
        key: f"{section}.{key}"
        for section, holder in keys_of(Settings).items()
        if "section" in holder.metadata
        for key in keys_of(holder.metadata["section"])
    }
    near = difflib.get_close_matches(wanted, elsewhere, n=1, cutoff=0.85)
    return f"did you mean {elsewhere[near[0]]}?" if near else f"known here: {', '.join(siblings)}"


def _refuse_twins(reading: _ConfigReading, agents: Sequence[Agent | None]) -> None:
    """Refuse two agents with the same workspace or id, because they would overwrite each other's memory."""
    seen: dict[tuple[str, object], str] = {}
    for number, agent in enumerate(agents):
        for key in ("id", "workspace"):
            value, path = getattr(agent, key, None), f"agents[{number}].{key}"
            if value is None:
                continue
            line = reading.lines[path]
            if (key, value) in seen:
                reading.refuse(line, path, f"the same as {seen[key, value]}", "each agent has its own")
            seen.setdefault((key, value), f"{path} on line {line}")


def _apply_privacy(reading: _ConfigReading, settings: Settings) -> Settings:
    """Return the settings with the default privacy for agents without a privacy key."""
    agents = [
        agent
        if agent is None or f"agents[{number}].privacy" in reading.lines
        else replace(agent, privacy=settings.privacy_default)
        for number, agent in enumerate(settings.agents or ())
    ]
    return settings if settings.privacy_default is None else replace(settings, agents=tuple(agents))


def _refuse_open_page(reading: _ConfigReading, settings: Settings) -> None:
    """Refuse a page that other machines reach without TLS and passphrases, or without a named proxy."""
    if settings.admin is not None and config_sections.is_open_to_all(settings.admin):
        what = "other machines could reach the page without a login"
        reading.refuse(reading.lines["admin.listen"], "admin.listen", what, config_sections.ADMIN_HINT)


def _refuse_mistakes(reading: _ConfigReading, settings: Settings) -> None:
    """Refuse keys of `llm` and `fleet` that lack a required value or have a forbidden one."""
    if None in {settings.llm, settings.fleet}:
        return  # one of these sections was already refused
    agents = [agent for agent in settings.agents or () if agent is not None]
    mistakes = (
        *config_sections.find_llm_mistakes(settings.llm, agents),
        *config_sections.find_fleet_mistakes(settings.fleet, settings.llm.provider, agents),
    )
    for key, what, hint in mistakes:
        lines = [reading.lines[one] for one in (key, "llm.provider", "fleet.database") if one in reading.lines]
        reading.refuse(lines[0], key, what, hint)


def _refuse_state_in_reach(reading: _ConfigReading, state_dir: Path | None, agents: Sequence[Agent | None]) -> None:
    """Refuse a state folder inside a workspace, because that agent could read the state of all agents."""
    for number, agent in enumerate(agents):
        workspace: Path | None = getattr(agent, "workspace", None)
        if agent is None or state_dir is None or workspace is None or agent.memory == "state":
            continue
        if state_dir.resolve().is_relative_to(workspace.resolve()):
            line = reading.lines.get("state_dir") or reading.lines[f"agents[{number}].workspace"]
            hint = "move it out of all workspaces, or set memory: state for this agent"
            reading.refuse(line, "state_dir", f"is in the workspace of {agent.id}", hint)


def _refuse_proposals_of_silos(reading: _ConfigReading, settings: Settings) -> None:
    """Refuse proposals for an agent in private mode, because they would show its memory to people."""
    silos = [agent.id for agent in settings.agents or () if agent is not None and agent.privacy == "silo"]
    for name in keys_of(ModeSettings) if silos and settings.modes is not None else ():
        if getattr(settings.modes, name) == "propose":
            at = f"modes.{name}"
            hint = f"off or auto, or a configuration without {', '.join(silos)}"
            reading.refuse(reading.lines[at], at, f"propose shows a person what {silos[0]} remembers: a silo", hint)


def _check_workspaces(reading: _ConfigReading, settings: Settings) -> None:
    """Refuse a workspace that does not exist.

    With `discover`, only warn. Also warn of a workspace that cannot be written, and of missing `transcripts`.
    """
    for number, agent in enumerate(settings.agents or ()):
        workspace: Path | None = getattr(agent, "workspace", None)
        if agent is None or workspace is None:
            continue
        path = f"agents[{number}].workspace"
        what = f"the folder {workspace} does not exist"
        if workspace.is_dir():
            if not os.access(workspace, os.W_OK | os.X_OK):
                what = f"the folder {workspace} cannot be written: nothing is kept there; check its owner and mode"
                reading.warn(reading.lines[path], f"{path}: {what}")
        elif settings.discover:
            reading.warn(reading.lines[path], f"{path}: {what}: the agent {agent.id} is left out")
        else:
            reading.refuse(reading.lines[path], path, what, "make it, or correct the path")
        if f"agents[{number}].transcripts" not in reading.lines:
            what = (
                f"agents[{number}].transcripts is missing, so memoryd reads no sessions of a program: run memoryd init"
            )
            reading.warn(reading.lines[path], what)


def _locate_agent(agent: Agent, state_dir: Path) -> Agent:
    """Return the agent with the folders of its transcripts, of the agents that share its memory, and of its memory."""
    sources = []
    for source in agent.transcripts:
        root, pattern = values.split_pattern(source.path, agent.workspace)
        sources.append(replace(source, root=root, pattern=pattern))
        if source.project is not None:
            own = f"{make_slug(source.project)}*"
            patterns = {one: pattern.replace(own, f"{make_slug(one)}*") for one in agent.share}
            sources += [replace(source, root=root, pattern=patterns[one], project=one) for one in patterns]
    located = replace(agent, transcripts=tuple(sources), enabled=agent.enabled and agent.workspace.is_dir())
    if agent.memory == "workspace":
        return located
    return replace(located, works_in=agent.workspace, workspace=state_dir / "agents" / agent.id)


def load(path: Path, environ: Mapping[str, str] | None = None, data: bytes | None = None) -> Settings:
    """Read a configuration file. Relative paths in it are relative to its folder.

    With `data`, read this text as if it were the file's content.

    Raises:
        SettingsError: the file has mistakes. It lists all of them, each with its line, key and a hint.
    """
    source = path.absolute()
    reading = _ConfigReading(source, os.environ if environ is None else environ)
    try:
        data = source.read_bytes() if data is None else data
    except OSError as error:
        problem = ConfigError(f"cannot be read: {error.strerror}", str(source), "is it the right path?")
        raise SettingsError(source, [problem]) from None
    settings = _settings(reading, data)
    if reading.problems or settings is None:
        raise SettingsError(source, [error for _, error in sorted(reading.problems, key=lambda each: each[0])])
    agents = tuple(_locate_agent(agent, settings.state_dir) for agent in settings.agents)
    zone = values.parse_zone(settings.timezone)
    settings = replace(settings, lines=reading.lines, warnings=tuple(reading.warnings))
    return replace(settings, agents=agents, zone=zone, source=source, sha256=hashlib.sha256(data).hexdigest())


def _settings(reading: _ConfigReading, data: bytes) -> Settings | None:
    try:
        document = read_yaml(data)
    except YamlError as error:
        reading.refuse(error.line, "", error.what, error.hint)
        return None
    for duplicate in document.problems:
        reading.refuse(duplicate.line, "", duplicate.what, duplicate.hint)
    if document.root.value is None:
        reading.refuse(1, "", "the file is empty", "memoryd config default prints one to begin with")
        return None
    settings: Settings | None = reading.section(Settings, "", document.root)
    if settings is not None:
        settings = _apply_privacy(reading, settings)
        _refuse_twins(reading, settings.agents)
        _check_workspaces(reading, settings)
        _refuse_open_page(reading, settings)
        _refuse_proposals_of_silos(reading, settings)
        _refuse_mistakes(reading, settings)
        _refuse_state_in_reach(reading, settings.state_dir, settings.agents)
    return settings


def state_dir_of(path: Path) -> Path | None:
    """Return the state folder of a configuration that cannot be loaded, or None if it names none.

    If the file is not YAML, only its line that begins with `state_dir` is read.
    """
    source = path.absolute()
    place = values.PathBase(source.parent, os.environ)
    with contextlib.suppress(OSError):
        data = source.read_bytes()
        line = next((one for one in data.splitlines(keepends=True) if one.startswith(b"state_dir")), b"")
        for text in (data, line):
            with contextlib.suppress(YamlError, ConfigError):
                root = read_yaml(text).root.value
                if isinstance(root, dict):
                    mark = root.get("state_dir")
                    folder: Path = values.parse_folder(place, mark.value if mark else "../var")
                    return folder
    return None


def make_default(workspace: Path, state_root: Path) -> Settings:
    """Return the settings for a workspace without a configuration: one agent, and a separate state folder.

    Raises:
        ConfigError: the workspace is no folder, or the state would be inside it.
    """
    if not workspace.is_dir():
        raise ConfigError("the workspace is not a folder", str(workspace), "make it, or correct the path")
    state_dir = state_root / f"workspace-{hashlib.sha256(os.fsencode(workspace)).hexdigest()[:12]}"
    if state_dir.is_relative_to(workspace):
        hint = "write a configuration with a state_dir outside it: memoryd config default"
        raise ConfigError("the state of the agent would be in its own workspace", str(state_dir), hint)
    agent = Agent(id="default", workspace=workspace)
    zone = values.parse_zone("local")
    return Settings(state_dir=state_dir, agents=(agent,), zone=zone, source=state_dir / "memoryd.yaml")
