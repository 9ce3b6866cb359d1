"""Decide who may ask for a change of an agent's memory, by `access` of the configuration, and audit each refusal.

The rules apply to requests. The daemon's own jobs always run. An edited file is imported whoever edited it, because the
owner decides by file permissions who may write in the workspace.
"""

import os
from typing import Literal

from memoryd.changing.guard_check import AGENT_TOOL, HUMAN
from memoryd.config import Agent, Settings
from memoryd.errors import RefusedError
from memoryd.requests import opening

Caller = Literal["owner", "agent", "fleet"]  # command line and Python API; MCP tools and hooks; other hosts
Action = Literal["consolidate", "edit", "protect"]

# Variables that agent programs set in their shells: Claude Code, Codex, Gemini CLI, OpenCode, OpenClaw.
_AGENT_SHELLS = ("CLAUDECODE", "CODEX_SANDBOX", "CODEX_CI", "GEMINI_CLI", "OPENCODE", "OPENCLAW_SHELL")
_DOES = {"consolidate": "start a rollover", "edit": "edit the memory", "protect": "protect a memory"}
# Only the user may make these changes, because they store statements as the user's own.
_OF_USER = frozenset({"facts add", "facts edit", "facts import", "profile edit"})
OPERATION = "refused"  # the name of a refusal in the audit


def is_agents_shell() -> bool:
    """Return True if this process runs in the shell of an agent. Its commands are then not a person's."""
    return any(os.environ.get(name) for name in _AGENT_SHELLS)


def is_allowed(settings: Settings, what: Action, by: Caller) -> bool:
    """Return True if the configuration lets this caller ask for this action. The owner may always protect."""
    allowed: tuple[str, ...] = settings.access.consolidate if what == "consolidate" else settings.access.edit
    return by in allowed or (what == "protect" and by == "owner")


def require(settings: Settings, agent: Agent, what: Action, by: Caller, asked: str) -> None:
    """Check that the configuration allows a request of this caller; audit a refusal.

    Args:
        settings: The configuration.
        agent: The agent of the memory.
        what: The action; `protect` also covers unprotecting.
        by: The caller; a command in an agent's shell counts as the agent's.
        asked: The name of the request in the audit, such as `save`; never a text of the memory.

    Raises:
        RefusedError: The request is not allowed; the message says whom to ask or what to set.
    """
    by = "agent" if is_agents_shell() and by != "fleet" else by
    is_users_alone = by == "agent" and asked in _OF_USER
    if is_allowed(settings, what, by) and not is_users_alone:
        return
    actor = AGENT_TOOL if by == "agent" else HUMAN
    opening.note(settings, agent, OPERATION, f"{what}:{asked}", actor, what=what, asked=asked, by=by)
    if is_users_alone:
        raise RefusedError(f"an agent may not ask for `{asked}`", agent.id, "run it in a terminal of your own")
    key = "consolidate" if what == "consolidate" else "edit"
    other: Caller = "owner" if by == "agent" else "agent"
    ask = f"ask the {other} to {_DOES[what]}, or " if by != "fleet" and is_allowed(settings, what, other) else ""
    raise RefusedError(f"the {by} may not {_DOES[what]}", agent.id, f"{ask}set access.{key} in {settings.source}")
