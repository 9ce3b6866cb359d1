"""Give a command its context: the global options, the settings and the chosen agent."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from memoryd import config_file
from memoryd.database import reads
from memoryd.errors import ConfigError, MemorydError, NotFoundError, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta

    from memoryd.config import Agent, Settings
    from memoryd.interfaces.output import Output

R = TypeVar("R")
STDIN = Path("-")


class Call:
    """Hold the global options of one call, and load what a command needs: settings, database and agent."""

    def __init__(self, output: Output, config: Path | None) -> None:
        self.output = output
        self.config = config

    def settings(self, *, own: bool = False) -> Settings:
        """Load the configuration. With `own`, ignore `config/memoryd.yaml` in the current folder."""
        from memoryd import config

        return config.load(self.config_path(own=own))

    @contextmanager
    def reader(self, settings: Settings, caught_up: Agent | None = None) -> Iterator[reads.DatabaseReader]:
        """Open the state database for reading.

        First import the last edit of `MEMORY.md` of the agent `caught_up`, if any.
        """
        if caught_up is not None:
            from memoryd.requests import opening

            opening.catch_up(settings, caught_up)
        with reads.open_reader(reads.database_path(settings)) as reader:
            yield reader

    def config_path(self, *, own: bool = False) -> Path:
        """Find the configuration file.

        With `own`, `./config/memoryd.yaml` is ignored, because that is the file of the demo in a checkout. Use `own`
        where the path is written into files of other programs: they also run outside the current folder.
        """
        cwd = Path.cwd()
        try:
            found = config_file.find(self.config, os.environ, None if own else cwd, user_folder("config"))
        except ConfigError as missing:
            if own and self.config is None and (demo := cwd / "config" / config_file.FILE).is_file():
                missing.hint += f". If {demo} is meant, which is the demo's: --config {demo}"
            raise
        theirs = user_folder("config") / config_file.FILE
        if self.config is None and found == cwd / "config" / config_file.FILE and theirs.is_file():
            self.output.print_note(f"this folder's config/{config_file.FILE} is used; yours is --config {theirs}")
        return found

    def settings_or_defaults(self) -> tuple[Settings, Sequence[ConfigError]]:
        """Load the configuration. If it is broken, return default settings with its state folder, and the errors.

        Raises:
            ConfigError: The configuration is broken and names no state folder either.
        """
        from memoryd import config

        path = self.config_path()
        try:
            return config.load(path), ()
        except config.SettingsError as error:
            state_dir = config.state_dir_of(path)
            if state_dir is None:
                raise
            return config.Settings(state_dir=state_dir, agents=(), source=path.absolute()), error.problems

    def state_dir(self, agent_id: str | None) -> tuple[Path, ConfigError | None]:
        """Return the state folder for a command that only reads, and the error if the configuration is broken."""
        from memoryd import config

        settings, problems = self.settings_or_defaults()
        if problems:
            return settings.state_dir, config.SettingsError(settings.source, problems)
        if agent_id is not None:
            self.agent(settings, agent_id)
        return settings.state_dir, None

    def agent(self, settings: Settings, agent_id: str | None) -> Agent:
        """Return the agent `agent_id`; without an id, the only agent or the one of the current folder.

        Raises:
            NotFoundError: There is no agent with this id.
            ConfigError: There is no agent at all, or the folder does not decide between several.
        """
        from memoryd.agent_choice import choose

        known = f"configured: {', '.join(agent.id for agent in settings.agents)}"
        if agent_id is not None:
            if (named := settings.find_agent(agent_id)) is None:
                raise NotFoundError(f"there is no agent {agent_id!r}", hint=known)
            return named
        if not settings.agents:
            raise ConfigError("no agent is configured yet", hint="memoryd init --project . gives this folder one")
        chosen = settings.agents[0] if len(settings.agents) == 1 else choose(settings, str(Path.cwd()))
        if chosen is None:
            own = "memoryd init --project . gives this folder one of its own"
            raise ConfigError("which agent is meant?", hint=f"give --agent ID; {known}; {own}")
        return chosen

    def agent_of_path(self, settings: Settings, agent_id: str | None, given: str) -> tuple[Agent, str]:
        """Choose the agent whose workspace holds the existing file `given`, otherwise as `agent` does.

        Returns the agent and the path: absolute if the file decided, otherwise as given.
        """
        here = Path(given).expanduser().absolute()
        holders = [one for one in settings.agents if here.is_relative_to(one.workspace) and here.is_file()]
        if agent_id is not None or not holders:
            return self.agent(settings, agent_id), given
        return max(holders, key=lambda one: len(one.workspace.parts)), str(here)

    def agents(self, settings: Settings, agent_id: str | None) -> Sequence[Agent]:
        """Return the agent with this id, the agent of the current folder, or else all enabled agents."""
        if agent_id is not None or not settings.agents:
            return [self.agent(settings, agent_id)]
        here = [agent for agent in settings.agents if Path.cwd().is_relative_to(agent.workspace)]
        return here if len(here) == 1 else [agent for agent in settings.agents if agent.enabled]


def user_folder(kind: Literal["config", "state"]) -> Path:
    """Return the user's own folder for the configuration or for the state."""
    import platformdirs

    try:
        config, state = Path(platformdirs.user_config_dir("memoryd")), Path(platformdirs.user_state_dir("memoryd"))
    except RuntimeError:
        return Path("/etc/memoryd")  # a service account may have no home folder
    # macOS uses one folder for both. The state needs its own, which is private and can be deleted as a whole.
    return config if kind == "config" else state / "state" if state == config else state


def text_of(path: Path) -> str:
    """Read the text file that an argument names; `-` is standard input.

    Raises:
        NotFoundError: There is no such file.
        MemorydError: The file cannot be read or is not UTF-8.
    """
    try:
        return (sys.stdin.buffer.read() if path == STDIN else path.read_bytes()).decode()
    except FileNotFoundError:
        raise NotFoundError("there is no such file", str(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise MemorydError(
            f"the file cannot be read: {describe(error)}", str(path), "name a text file in UTF-8"
        ) from error


passed = click.make_pass_decorator(Call)
text_file = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
agent_option = click.option("--agent", "agent_id", metavar="ID", help="The agent, if several are configured.")


def of_settings(command: Callable[..., R]) -> Callable[..., R]:
    """Pass a command the call and the settings."""

    @click.pass_obj
    @wraps(command)
    def load_settings(call: Call, /, **options: Any) -> R:
        return command(call, call.settings(), **options)

    return load_settings


def of_agent(command: Callable[..., R]) -> Callable[..., R]:
    """Add the option `--agent` to a command, and pass it the call, the settings and the chosen agent."""

    @agent_option
    @of_settings
    @wraps(command)
    def choose_agent(call: Call, settings: Settings, /, agent_id: str | None, **options: Any) -> R:
        return command(call, settings, call.agent(settings, agent_id), **options)

    return choose_agent


def parse_span(_context: click.Context, option: click.Parameter, text: str | None) -> timedelta | None:
    """Parse an option that is a duration, such as `30s`; None stays None."""
    from memoryd import config_values

    if text is None:
        return None
    try:
        found: timedelta = config_values.make_duration_parser()(config_values.PathBase(Path(), {}), text)
    except ConfigError as refused:
        raise click.BadParameter(f"{refused.what}; {refused.hint}", param_hint=option.opts[0]) from None
    return found


@contextmanager
def start_log(settings: Settings, *, quiet: bool = False) -> Iterator[Callable[[Settings], None]]:
    """Write log records to the log file and, unless `quiet`, to standard error.

    Yields a function that restarts the log with other settings, for a reload of the configuration.
    """
    from memoryd.files import log

    stream = None if quiet else sys.stderr
    with ExitStack() as written:

        def relog(fresh: Settings) -> None:
            written.close()  # has no effect at the start
            is_text = fresh.log.format == "text"
            written.enter_context(log.configure(fresh.state_dir, level=fresh.log.level, text=is_text, terminal=stream))

        relog(settings)
        yield relog
