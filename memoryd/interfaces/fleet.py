"""Define the commands of a fleet: many hosts that share one PostgreSQL."""

from __future__ import annotations

import click

from memoryd.counted import count_noun
from memoryd.interfaces.call import Call, passed, start_log


@click.group()
def fleet() -> None:
    """Join many hosts through one PostgreSQL: questions, budgets and one job table.

    Needs fleet.database and fleet.host in the configuration, and the extra `fleet`: in the clone of memoryd,
    pip install '.[fleet]'.
    """


@fleet.command()
@passed
def migrate(call: Call) -> None:
    """Create or update the tables of the fleet; run it once for the fleet before each new version starts."""
    from memoryd.fleet.connection import Database
    from memoryd.fleet.migrate import migrate as apply

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
    """Answer the questions of all hosts until interrupted: run it near the model, with the model's key.

    It asks the server of llm.base_url for llm.model, llm.verifier and fleet.models, and keeps the limits of the fleet.
    """
    from memoryd.files.log import get_logger
    from memoryd.fleet import worker as answering

    settings = call.settings()
    with start_log(settings, quiet=call.output.quiet):
        answering.serve(settings, get_logger(part="fleet"), concurrency)
