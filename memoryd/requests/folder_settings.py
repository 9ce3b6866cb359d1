"""Find the settings and the agent of a folder, from the configuration or by default, and create its memory folder."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import platformdirs

from memoryd import config, config_file
from memoryd.config import Agent, Settings
from memoryd.errors import ConfigError, NotFoundError
from memoryd.files import regular
from memoryd.files.workspace import lock_workspace
from memoryd.tiers import consolidation_log
from memoryd.tiers.archive import FOLDER


def load(folder: Path, given: Path | None = None) -> Settings:
    """Return the configuration if it names the folder, otherwise default settings for the folder.

    Args:
        folder: The workspace, as a resolved path.
        given: The configuration to use; it must name the folder.

    Raises:
        ConfigError: The configuration has mistakes, or the folder cannot have defaults.
        NotFoundError: No agent of the given configuration works in this folder.
    """
    settings = _load_configuration(given)
    if settings is not None and any(agent.folder.resolve() == folder for agent in settings.agents):
        return settings
    if settings is not None and _is_named(given):
        raise NotFoundError("no agent works in this folder", str(folder), f"name it in {settings.source}")
    return config.make_default(folder, Path(platformdirs.user_state_dir("memoryd")))


def find_configured(folder: Path) -> Path | None:
    """Return the nearest configured workspace that contains a folder, or None if there is none."""
    settings = _load_configuration(None)
    agents = () if settings is None else settings.agents
    own = [found for agent in agents if folder.resolve().is_relative_to(found := agent.folder.resolve())]
    return max(own, key=lambda one: len(one.parts), default=None)


def find_agent(settings: Settings, folder: Path) -> Agent:
    """Return the agent of a folder, from the settings that `load` returned for it."""
    return next(agent for agent in settings.agents if agent.folder.resolve() == folder)


def make_folder(workspace: Path) -> bool:
    """Create the memory folder of a workspace, which git ignores; return False if it existed already."""
    is_new = not (workspace / FOLDER).is_dir()
    with lock_workspace(workspace):
        return is_new


def read_log(agent: Agent, count: int | None = None) -> dict[str, Any]:
    """Return the last `count` entries of an agent's `consolidation.log`, as `entries` and as `text`; all if None."""
    data = regular.read_in(agent.workspace, f"{FOLDER}/{consolidation_log.NAME}") or b""
    entries = consolidation_log.parse(data)
    kept = entries[-count:] if count else entries
    rows = [asdict(entry) | {"at": entry.at.isoformat().replace("+00:00", "Z")} for entry in kept]
    return {"entries": rows, "text": consolidation_log.last(data, len(kept))}


def _is_named(given: Path | None) -> bool:
    """Return True if somebody has named the configuration to use."""
    return given is not None or bool(os.environ.get("MEMORYD_CONFIG"))


def _load_configuration(given: Path | None) -> Settings | None:
    """Return the configuration; None if it cannot be found and nobody has named one."""
    folder = Path(platformdirs.user_config_dir("memoryd"))
    try:
        return config.load(config_file.find(given, os.environ, Path.cwd(), folder))
    except ConfigError as error:
        if _is_named(given) or isinstance(error, config.SettingsError):
            raise
        return None
