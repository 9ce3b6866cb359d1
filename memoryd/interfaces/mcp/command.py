"""Define the command `memoryd mcp`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from memoryd.errors import RefusedError
from memoryd.interfaces.call import Call, agent_option

if TYPE_CHECKING:
    from memoryd.config import Agent, Settings


@click.command()
@agent_option
@click.pass_obj
def mcp(call: Call, agent_id: str | None) -> None:
    """Serve an agent's memory over the Model Context Protocol, on standard input and output.

    An agent program starts this command. Without --agent, the current folder chooses the agent; a folder without
    an agent gets no tools. It searches and changes memory with memory_search, memory_get, memory_save
    and memory_update. It refines a large core with search_memories, consolidate_memories, complete_refinement and
    others.
    """
    from pathlib import Path

    from memoryd.agent_choice import choose
    from memoryd.files import log

    if sys.stdin.isatty():
        hint = "write `memoryd mcp` into the agent's configuration as an MCP server"
        raise RefusedError("this command serves agent programs and does not work on a terminal", "mcp", hint)
    settings = call.settings()
    agent = call.agent(settings, agent_id) if agent_id else choose(settings, str(Path.cwd()))
    if agent is None:
        _serve_nothing()
        return
    close = log.configure(settings.state_dir, level=settings.log.level, text=False)
    try:
        is_done = _serve(settings, agent)
    finally:
        close()
    if not is_done:
        os._exit(0)  # a call that hangs would hold the process up; everything is stored


def _serve_nothing() -> None:
    import anyio

    from memoryd.interfaces.mcp import serving
    from memoryd.interfaces.mcp.server import make_empty_server

    anyio.run(serving.over_plain_stdio, make_empty_server())


def _serve(settings: Settings, agent: Agent) -> bool:
    """Serve until the end; return True if all calls have ended."""
    import anyio

    from memoryd.files.log import get_logger
    from memoryd.interfaces.mcp import serving
    from memoryd.interfaces.mcp.calls import Calls
    from memoryd.interfaces.mcp.server import make_server
    from memoryd.interfaces.mcp.tools import MemoryTools

    log = get_logger(part="mcp", agent=agent.id)
    calls = Calls(log)
    with MemoryTools(settings, agent) as memory:
        server = make_server(memory, calls, log)
        log.info("mcp begins")
        anyio.run(serving.over_stdio, server, calls, memory.scrubber, memory.close)
        log.info("mcp ends")
    return calls.is_idle
