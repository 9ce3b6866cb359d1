"""Define the commands for operators: status, service, doctor, backup, restore."""

from __future__ import annotations

import contextlib
import sys
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memoryd.errors import ConfigError
from memoryd.interfaces import status_view as view
from memoryd.requests import daemon_client

if TYPE_CHECKING:
    from collections.abc import Callable

    from memoryd.config import Settings
    from memoryd.interfaces.call import Call
    from memoryd.interfaces.service import Service

_check = click.option("--check", is_flag=True, help="Exit with 1 if there is an alarm, or the daemon is stopped.")


@click.command()
@click.option(
    "--all", "everything", is_flag=True, help="Show all details of each agent, and all sessions, not only 20."
)
@click.option("--agent", "agent_id", metavar="ID", help="Show all details of this agent, but no alarms of others.")
@_check
@click.pass_obj
def status(call: Call, *, everything: bool, agent_id: str | None, check: bool) -> int:
    """Show whether all is well, each alarm, and one line per agent."""
    from memoryd import config
    from memoryd.requests import status as shown

    at_length = everything or agent_id is not None
    try:
        settings = call.settings()
    except ConfigError as error:
        # A daemon may still run with its old settings while this file is broken.
        state_dir = config.state_dir_of(call.config_path())
        told = {} if state_dir is None else daemon_client.ask_data(state_dir, "status")
        error.data = data = shown.of_agent(told, agent_id)
        if data and not call.output.json:
            with contextlib.suppress(KeyError, TypeError, AttributeError):  # another version may answer in another form
                call.output.result(data, lambda: view.list_parts(data, at_length=at_length))
        raise
    if agent_id is not None:
        call.agent(settings, agent_id)
    data = daemon_client.ask_same(settings, "status", everything=everything)
    if not data:  # no daemon answers, or it has other settings
        live = daemon_client.ask_data(settings.state_dir, "ping")
        with call.reader(settings) as reader:
            data = shown.status(settings, reader, everything=everything, live=live)
    data = shown.of_agent(data, agent_id)
    if not data["daemon"]:
        from memoryd.interfaces import service as services

        data["start"] = services.find_start(settings)
    call.output.result(data, lambda: view.list_parts(data, at_length=at_length))
    return int(check and bool(data["alarms"] or data["stopped"]))


@click.group()
def service() -> None:
    """Write or remove the service file of memoryd. Does not start the service."""


def _of_service(command: Callable[[Call, Settings, Service], None]) -> Callable[..., None]:
    """Add the options that choose a service to a command, and pass it the call, the settings and the service."""

    @click.option("--launchd", is_flag=True, default=sys.platform == "darwin", help="Use launchd (macOS).")
    @click.option("--system", is_flag=True, help="Use a service for the whole machine, not for your user.")
    @click.pass_obj
    @wraps(command)
    def choose_service(call: Call, *, launchd: bool, system: bool) -> None:
        from memoryd.interfaces import service as services

        settings = call.settings(own=True)
        command(call, settings, services.plan_service(settings, launchd=launchd, system=system))

    return choose_service


@service.command("print")
@_of_service
def service_print(call: Call, _settings: Settings, made: Service) -> None:
    """Show the service file that `install` would write."""
    call.output.result({"path": str(made.path), "text": made.text, "next": made.start}, made.text.rstrip("\n"))


@service.command("install")
@_of_service
def service_install(call: Call, settings: Settings, made: Service) -> None:
    """Write the service file. Keeps a copy of an existing file."""
    from memoryd.interfaces import service as services

    data = services.install(made, settings)
    word = "written" if data["changed"] else "there already"
    kept = f"\nkept     {data['backup']}" if data["backup"] else ""
    note = f"\nnote     {data['note']}" if data["note"] else ""
    call.output.result(data, f"{word:8} {data['path']}{kept}\nto start {data['next']}{note}")


@service.command("uninstall")
@_of_service
def service_uninstall(call: Call, _settings: Settings, made: Service) -> None:
    """Remove the service file; keep a copy if it was edited."""
    from memoryd.interfaces import service as services

    data = services.uninstall(made)
    word = "removed" if data["changed"] else "not there"
    kept = f"\nkept     {data['backup']}" if data["backup"] else ""
    call.output.result(data, f"{word:9} {data['path']}{kept}\nto stop   {data['next']}")


@click.command()
@_check
@click.pass_obj
def doctor(call: Call, *, check: bool) -> int:
    """Check machine, configuration and model server. Names a remedy for each fault. Exits with 1 if a check fails."""
    from datetime import UTC, datetime

    from memoryd.interfaces import doctor as checks

    settings, broken = call.settings_or_defaults()
    with call.output.busy("checking"):
        data = checks.doctor(settings, datetime.now(UTC), broken)
    call.output.result(data, lambda: checks.list_parts(data))
    return int(not data["ok"] or (check and any(one["name"] == "alarm" for one in data["checks"])))


_file = click.argument("path", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False, resolve_path=False))


@click.command()
@_file
@click.pass_obj
def backup(call: Call, path: Path) -> None:
    """Back up the state folder into a new FILE. The daemon may run."""
    from memoryd.interfaces import backup as backups

    with call.output.busy("copying"):
        data = backups.backup(call.settings(), path.absolute())
    call.output.result(data, f"{data['path']}: {data['bytes']:,} bytes; {', '.join(data['files'])}")


@click.command()
@_file
@click.pass_obj
def restore(call: Call, path: Path) -> None:
    """Restore the state folder from FILE. Keeps a copy of the current one. Stop the daemon first."""
    from memoryd.interfaces import backup as backups

    with call.output.busy("restoring"):
        data = backups.restore(call.settings(), path.absolute())
    kept = f"; what was there is in {data['kept']}" if data["kept"] else ""
    told = [f"restored the state of {data.get('made_at', 'an unknown time')}{kept}", *data["told"]]
    call.output.result(data, "\n".join(told))
