"""Define the commands for operators: service, doctor, backup, restore."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from memoryd.interfaces.call import Call
    from memoryd.interfaces.service import Service

_launchd = click.option("--launchd", is_flag=True, default=sys.platform == "darwin", help="Use launchd (macOS).")
_system = click.option("--system", is_flag=True, help="Use a service of the machine, not of your session.")


@click.group()
def service() -> None:
    """Write or remove the service file of memoryd. Starts nothing by itself."""


def _make_service(call: Call, *, launchd: bool, system: bool) -> Service:
    from memoryd.interfaces import service as services

    return services.plan_service(call.settings(), launchd=launchd, system=system)


@service.command("print")
@_launchd
@_system
@click.pass_obj
def service_print(call: Call, launchd: bool, system: bool) -> None:  # noqa: FBT001
    """Show the service file that `install` would write."""
    made = _make_service(call, launchd=launchd, system=system)
    call.output.result({"path": str(made.path), "text": made.text, "next": made.start}, made.text.rstrip("\n"))


@service.command("install")
@_launchd
@_system
@click.pass_obj
def service_install(call: Call, launchd: bool, system: bool) -> None:  # noqa: FBT001
    """Write the service file; keep a copy of a file that is already there."""
    from memoryd.interfaces import service as services

    settings = call.settings()
    made = services.plan_service(settings, launchd=launchd, system=system)
    data = services.install(made, settings)
    word = "written" if data["changed"] else "there already"
    kept = f"\nkept     {data['backup']}" if data["backup"] else ""
    call.output.result(data, f"{word:8} {data['path']}{kept}\nto start {data['next']}")


@service.command("uninstall")
@_launchd
@_system
@click.pass_obj
def service_uninstall(call: Call, launchd: bool, system: bool) -> None:  # noqa: FBT001
    """Remove the service file; keep a copy if it was edited."""
    from memoryd.interfaces import service as services

    data = services.uninstall(_make_service(call, launchd=launchd, system=system))
    word = "removed" if data["changed"] else "not there"
    kept = f"\nkept     {data['backup']}" if data["backup"] else ""
    call.output.result(data, f"{word:9} {data['path']}{kept}\nto stop   {data['next']}")


@click.command()
@click.pass_obj
def doctor(call: Call) -> int:
    """Check machine, configuration and model server, with a remedy for each fault; exit with 1 if a check fails."""
    from datetime import UTC, datetime

    from memoryd.interfaces import doctor as checks

    settings, broken = call.settings_or_defaults()
    data = checks.doctor(settings, datetime.now(UTC), broken)
    call.output.result(data, checks.as_text(data))
    return 0 if data["ok"] else 1


_file = click.argument("path", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False, resolve_path=False))


@click.command()
@_file
@click.pass_obj
def backup(call: Call, path: Path) -> None:
    """Back up the state folder into a new FILE, also while the daemon runs."""
    from memoryd.interfaces import backup as backups

    data = backups.backup(call.settings(), path.absolute())
    call.output.result(data, f"{data['path']}: {data['bytes']:,} bytes; {', '.join(data['files'])}")


@click.command()
@_file
@click.pass_obj
def restore(call: Call, path: Path) -> None:
    """Restore the state folder from FILE and keep a copy of the current one. Stop the daemon first."""
    from memoryd.interfaces import backup as backups

    data = backups.restore(call.settings(), path.absolute())
    kept = f"; what was there is in {data['kept']}" if data["kept"] else ""
    call.output.result(data, f"restored the state of {data.get('made_at', 'an unknown time')}{kept}")
