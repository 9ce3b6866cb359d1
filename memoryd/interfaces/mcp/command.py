"""Define the command `memoryd mcp`."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from memoryd.errors import RefusedError
from memoryd.interfaces.call import Call, agent_option

if TYPE_CHECKING:
    from memoryd.config import Agent, Settings


@click.command()
@agent_option
@click.option(
    "--http", "address", metavar="ADDRESS", help="Serve HTTP on the loopback, such as 127.0.0.1:8765, with a token."
)
@click.pass_obj
def mcp(call: Call, agent_id: str | None, address: str | None) -> None:
    """Serve an agent's memory over the Model Context Protocol. Uses standard input and output.

    An agent program starts this command. Without --agent, the agent is that of the current folder; in a folder without
    an agent there are no tools. The program searches and changes memory with memory_search, memory_get, memory_save and
    memory_update. It condenses a large MEMORY.md with search_memories, consolidate_memories, complete_refinement and
    others.
    """
    from pathlib import Path

    from memoryd.agent_choice import choose
    from memoryd.files import log

    if address is None and sys.stdin.isatty():
        hint = "write `memoryd mcp` into the agent's configuration as an MCP server, or give --http 127.0.0.1:8765"
        raise RefusedError("this command serves agent programs and does not work on a terminal", "mcp", hint)
    settings = call.settings()
    chosen = None if agent_id or address else choose(settings, str(Path.cwd()))
    if chosen is None and agent_id is None and address is None:
        import anyio

        from memoryd.interfaces.mcp import server, serving

        anyio.run(serving.over_plain_stdio, server.make_empty_server())
        return
    agent = chosen or call.agent(settings, agent_id)
    with log.configure(settings.state_dir, level=settings.log.level):
        is_done = _serve(call, settings, agent, address)
    if not is_done:
        os._exit(0)  # a call that hangs would delay the exit; all data is stored


def _serve(call: Call, settings: Settings, agent: Agent, address: str | None) -> bool:
    """Serve until the client closes or a signal comes; return True if all calls have ended."""
    import anyio

    from memoryd.files.log import get_logger
    from memoryd.files.token_file import read_or_make
    from memoryd.interfaces.mcp import loopback, serving
    from memoryd.interfaces.mcp.calls import Calls
    from memoryd.interfaces.mcp.server import make_server
    from memoryd.interfaces.mcp.tools import MemoryTools

    log = get_logger(part="mcp", agent=agent.id)
    calls = Calls(log)
    run: Any
    with MemoryTools(settings, agent) as memory:
        server = make_server(memory, calls, log)
        if address is None:
            run = partial(serving.over_stdio, server, calls, memory.scrubber, memory.close)
        else:
            listener = loopback.listen(address)
            path = settings.state_dir / f"mcp-{agent.id}.token"
            token = read_or_make(path)
            host, port = listener.getsockname()[:2]
            url = f"http://{f'[{host}]' if ':' in host else host}:{port}{loopback.PATH}"
            call.output.result({"url": url, "token_file": str(path)}, f"{url}\nthe token is in {path}")
            sys.stdout.flush()
            run = partial(serving.over_http, server, calls, memory.scrubber, listener, token, log)
        log.info("mcp begins", over="http" if address else "stdio")
        anyio.run(run)
        log.info("mcp ends")
    return calls.is_idle
