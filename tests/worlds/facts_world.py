"""An owner's fact store on a database of its own, or on that of an app."""

from datetime import UTC, datetime

from memoryd.changing.facts import FactStore
from memoryd.clock import Clock
from memoryd.database import schema, sqlite
from memoryd.files.log import get_logger
from memoryd.ledger.facts import FactLimits
from memoryd.ledger.guards import GuardLimits

NOW = "2026-05-04T12:00:00.000Z"


def store_on(engine, workspace, clock, agent_id="demo", **limits):
    return FactStore(
        engine, agent_id, workspace, clock, FactLimits(**limits), GuardLimits(), list, get_logger("memoryd.test")
    )


def store_in(folder, agent_id="demo", **limits):
    folder.mkdir(exist_ok=True)
    (folder / "work").mkdir(exist_ok=True)
    engine = schema.open_database(folder / "memoryd.db", now=NOW).engine
    with sqlite.begin_write(engine) as connection:
        connection.exec_driver_sql(
            "INSERT OR IGNORE INTO agent VALUES (?, ?, 1, 0, ?)", (agent_id, str(folder / "work"), NOW)
        )
    return store_on(engine, folder / "work", Clock(lambda: datetime(2026, 5, 4, 12, tzinfo=UTC)), agent_id, **limits)
