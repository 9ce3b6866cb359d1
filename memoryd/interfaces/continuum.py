"""Define `continuum memory …`: commands of memoryd under the names of the original command line.

They work on the workspace that holds the current folder, and need no configuration.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memoryd.database import reads
from memoryd.errors import ConfigError, NotFoundError
from memoryd.interfaces import cli, consolidation, git, operation, recall, sessions
from memoryd.interfaces.call import Call, of_agent, passed
from memoryd.interfaces.output import Output
from memoryd.tiers.archive import FOLDER
from memoryd.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memoryd.config import Agent, Settings

NAME = "continuum"
_MARKS = (".continuum", ".git")


class FolderCall(Call):
    """Choose the agent by the workspace of the current folder. Without a configuration, use the default settings."""

    def settings(self, *, own: bool = False) -> Settings:
        """Load the given configuration file, or the settings of the workspace that holds the current folder.

        Raises:
            NotFoundError: The current folder is in no workspace.
        """
        from memoryd.requests import folder_settings

        return folder_settings.load(_find_here()) if self.config is None else super().settings(own=own)

    @contextmanager
    def reader(self, settings: Settings, caught_up: Agent | None = None) -> Iterator[reads.DatabaseReader]:
        """Open the state database for reading, as `Call.reader` does.

        Raises:
            NotFoundError: The folder has no configuration, and nothing is stored for it yet.
        """
        path = settings.state_dir / "memoryd.db"
        if self.config is None and not path.exists() and not settings.source.is_file():
            hint = "continuum memory append keeps a message; memoryd init --project . gives the folder an agent"
            raise NotFoundError("nothing is kept for this folder yet", str(settings.agents[0].workspace), hint)
        with super().reader(settings, caught_up) as reader:
            yield reader

    def settings_or_defaults(self) -> tuple[Settings, Sequence[ConfigError]]:
        """Load the settings as `settings` does; the sequence of errors is always empty."""
        return self.settings(), ()

    def agent(self, settings: Settings, agent_id: str | None) -> Agent:
        """Return the agent with this id; without an id, the agent of the workspace."""
        from memoryd.requests import folder_settings

        if agent_id is not None or self.config is not None:
            return super().agent(settings, agent_id)
        return folder_settings.find_agent(settings, _find_here())


def find_workspace(folder: Path) -> Path | None:
    """Return the nearest folder, from this one upwards, that holds `.continuum` or `.git`; None if there is none."""
    places = (place for place in (folder, *folder.parents) if any((place / mark).exists() for mark in _MARKS))
    return next((place.resolve() for place in places), None)


def _find_here() -> Path:
    """Return the nearest workspace that holds the current folder: a marked folder, or one that the configuration names.

    Raises:
        NotFoundError: No workspace holds the current folder.
    """
    from memoryd.requests import folder_settings

    found = [find(Path.cwd()) for find in (folder_settings.find_configured, find_workspace)]
    if not any(found):
        hint = "continuum memory init makes one here"
        raise NotFoundError("no workspace here: no folder upwards holds .continuum or .git", str(Path.cwd()), hint)
    return max(filter(None, found), key=lambda one: len(one.parts))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="continuum %(version)s")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="The configuration file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@click.option("--quiet", "-q", is_flag=True, help="Print only the result.")
@click.pass_context
def continuum(context: click.Context, config: Path | None, *, as_json: bool, quiet: bool) -> None:
    """Keep an agent's memory in the folder that it works in."""
    context.obj = FolderCall(Output(as_json, quiet), config)


@continuum.group()
def memory() -> None:
    """Record sessions, and search what earlier ones said. `memoryd` has the same commands."""


@memory.command("init")
@passed
def init(call: Call) -> None:
    """Create the memory folder here, or in the repository around this folder; a second call changes nothing."""
    from memoryd.requests import folder_settings

    workspace = find_workspace(Path.cwd()) or Path.cwd().resolve()
    is_new = folder_settings.make_folder(workspace)
    text = f"{'made' if is_new else 'there already:'} {workspace / FOLDER}"
    note = "memoryd init connects the agent programs on this machine to their memory"
    call.output.result({"workspace": str(workspace), "made": is_new, "next": note}, f"{text}\n{note}")


@memory.command("log")
@of_agent
@click.option("--tail", "count", type=click.IntRange(1, 10**9), metavar="N", help="Show the last N entries.")
def show_log(call: Call, settings: Settings, agent: Agent, count: int | None) -> None:  # noqa: ARG001
    """Show what runs changed in the memory files. `memoryd logs` is the daemon's log."""
    from memoryd.requests import folder_settings

    told = folder_settings.read_log(agent, count)
    call.output.result(told["entries"], told["text"].rstrip("\n") or "nothing has changed yet")


for _name, _command in {
    "session": sessions.session,
    "append": sessions.session_append,
    "list": sessions.session_list,
    "consolidate": consolidation.consolidate,
    "recover": consolidation.recover,
    "search": recall.search_command,
    "git": git.git,
    "validate": consolidation.validate,
    "repair": consolidation.repair,
    "status": operation.status,
}.items():
    memory.add_command(_command, _name)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with the exit codes of memoryd."""
    cli.main(arguments, continuum, NAME)
