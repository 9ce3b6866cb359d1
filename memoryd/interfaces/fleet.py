"""Define the commands of a fleet: many hosts that share one PostgreSQL."""

import click

from memoryd.counted import count_noun
from memoryd.interfaces.call import Call, passed, start_log
from memoryd.interfaces.output import render_table

_RUN_COLUMNS = ("host", "id", "kind", "agent", "trigger", "state", "attempt", "finished_at")


@click.group()
def fleet() -> None:
    """Join many hosts through one PostgreSQL.

    Needs fleet.database and fleet.host in the configuration, and the extra `fleet`: in the clone of memoryd,
    pip install '.[fleet]'.
    """


@fleet.command()
@passed
def migrate(call: Call) -> None:
    """Create or update the tables of the fleet. Run it once per fleet before you start a new version."""
    from memoryd.fleet.connection import Database
    from memoryd.fleet.connection import migrate as apply

    database = Database(call.settings())
    done = apply(database.url)
    text = f"applied {count_noun(len(done), 'migration')}" if done else "the schema is up to date"
    call.output.result({"applied": done, "database": database.place}, text)


@fleet.command()
@click.option(
    "--concurrency", default=8, show_default=True, type=click.IntRange(1, 200), help="Questions at the same time."
)
@passed
def worker(call: Call, concurrency: int) -> None:
    """Answer the questions of all hosts until interrupted. Run it near the model, with the model's key.

    The worker asks the server of llm.base_url for llm.model, llm.verifier and fleet.models. It keeps the limits of the
    fleet.
    """
    from memoryd.files.log import get_logger
    from memoryd.fleet import worker as answering

    settings = call.settings()
    with start_log(settings, quiet=call.output.quiet):
        answering.serve(settings, get_logger(part="fleet"), concurrency)


@fleet.command()
@click.option("--host", metavar="NAME", help="Show this host only.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="Maximum number of runs.")
@passed
def status(call: Call, host: str | None, limit: int) -> None:
    """Show all hosts and the newest runs. Shows alarms and context usage of each host."""
    from memoryd.requests import fleet as requests

    told = requests.read_status(call.settings(), host, limit)
    lines = []
    for one in told["hosts"]:
        fullest = max((row["ratio"] for row in one.get("sessions", ())), default=0.0)
        lines.append(
            f"{one['host']}  seen {one['silent_seconds']} s ago  {count_noun(len(one.get('agents', ())), 'agent')}"
            f"  {count_noun(one['open_runs'], 'open run')}  fullest context {fullest:.0%}"
        )
        lines += [f"  alarm {row['kind']} {row['agent'] or ''} since {row['since']}" for row in one.get("alarms", ())]
    waiting = told["waiting"]
    lines.append(
        f"{count_noun(told['workers'], 'worker')}  {count_noun(waiting['questions'], 'question')} waiting, the oldest"
        f" for {waiting['seconds']} s  {told['spend']['today_tokens']} tokens today"
    )
    lines += [f"model {one['model']} is blocked: {one['blocked']}" for one in told["models"] if one["blocked"]]
    lines += ["", render_table(told["runs"], _RUN_COLUMNS)] if told["runs"] else []
    lines += [f"request {one['id']} to {one['host']}: {one['outcome'] or 'waits'}" for one in told["requests"]]
    call.output.result(told, "\n".join(lines))


@fleet.command()
@click.argument("host")
@click.argument("action", type=click.Choice(["run", "pause", "resume", "cancel", "rollback"]))
@click.option("--agent", metavar="ID", help="The agent (run, pause, resume).")
@click.option("--kind", metavar="KIND", help="The job (run).")
@click.option("--run", metavar="RUN", help="The run (cancel, rollback).")
@passed
def ask(call: Call, /, host: str, action: str, **about: str | None) -> None:
    """Send a request to a host. The host's own rules decide; `fleet status` shows the outcome.

    The host's access.consolidate must name `fleet`; for a rollback, its access.edit must.
    """
    from memoryd.requests import fleet as requests

    request_id = requests.ask_host(call.settings(), host, action, **about)
    call.output.result({"request": request_id}, f"asked {host}: request {request_id}")
