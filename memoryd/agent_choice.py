"""Choose the agent of a folder: the one whose project is the closest folder around it."""

from pathlib import Path

from memoryd.config import Agent, Settings


def folders_of(agent: Agent) -> tuple[Path, ...]:
    """Return the folders whose sessions belong to the agent: its projects and shared folders.

    It is empty if the agent takes sessions of any folder. Only an agent without projects does so, if it reads
    transcripts outside its workspace, as coding agents write them. The memory of any other agent, such as a chat
    assistant, or of one in private mode, is not for all sessions of a user.
    """
    projects = dict.fromkeys(source.project for source in agent.transcripts)
    if projects and None not in projects:
        return tuple(project for project in projects if project is not None)
    is_everywhere = any(not source.root.is_relative_to(agent.folder) for source in agent.transcripts)
    return () if is_everywhere and agent.privacy != "silo" else (agent.folder, *agent.share)


def is_within(agent: Agent, cwd: object) -> bool:
    """Return True if a session in this folder belongs to the agent, without regard to other agents."""
    folders = folders_of(agent)
    return not folders or _depth(folders, cwd) > 0


def choose(settings: Settings, cwd: object) -> Agent | None:
    """Return the agent for a session in this folder.

    It is None if the session belongs to no agent, to a disabled one, or to several equally. A project inside another
    project is separate. The only agent without projects takes the remaining folders.
    """
    nearest = max(settings.agents, key=lambda agent: _nearness(agent, cwd), default=None)
    if nearest is not None and _nearness(nearest, cwd) > 0:
        return nearest if nearest.enabled else None
    left = [agent for agent in settings.agents if agent.enabled and not folders_of(agent)]
    left = [agent for agent in left if agent.transcripts] or left
    return left[0] if len(left) == 1 else None


def is_nearer_to_another(settings: Settings, agent: Agent, cwd: str) -> bool:
    """Return True if another agent has a closer project around the folder."""
    own = _nearness(agent, cwd)
    return any(_depth(folders_of(one), cwd) > own for one in settings.agents if one.id != agent.id)


def _nearness(agent: Agent, cwd: object) -> int:
    return _depth(folders_of(agent) or (agent.folder,), cwd)


def _depth(folders: tuple[Path, ...], cwd: object) -> int:
    """Return the number of parts of the longest of these folders that contains `cwd`, or 0 if none does."""
    if not isinstance(cwd, str) or not cwd.startswith("/"):  # a relative one would lead from this process's folder
        return 0
    here = Path(cwd.replace("\0", "")).resolve()
    return max((len(one.parts) for one in folders if here.is_relative_to(one.resolve())), default=0)
