"""An owner's fact store on a database of its own, or on that of an app."""

from datetime import UTC, datetime
from secrets import token_hex

from memoryd.changing.facts import FactStore
from memoryd.changing.writer import Writer
from memoryd.clock import Clock
from memoryd.config import FactsSettings
from memoryd.database import memories, profile, schema, sqlite
from memoryd.files.log import get_logger
from memoryd.ledger.facts import Store, fact_of
from memoryd.ledger.memory import MemoryKind

NOW = "2026-05-04T12:00:00.000Z"


class ReadableStore(FactStore):
    """A fact store that a test can also read."""

    @property
    def engine(self):
        return self.writer.engine

    def _store(self):
        rows = sqlite.read(self.engine, memories.read_live, self.agent_id, MemoryKind.FACT)
        return Store(map(fact_of, rows))

    def all(self):
        return self._store().all()

    def get(self, fact_id):
        return self._store().get(fact_id)

    def search(self, query, limit=20):
        return self._store().search(query, limit)

    def profile(self):
        return sqlite.read(self.engine, profile.read, self.agent_id)


def store_on(engine, workspace, clock, agent_id="demo", **limits):
    writer = Writer(engine, workspace, clock.text, lambda: token_hex(4), facts=FactsSettings(**limits))
    return ReadableStore(writer, agent_id, get_logger("memoryd.test"))


def store_in(folder, agent_id="demo", **limits):
    folder.mkdir(exist_ok=True)
    (folder / "work").mkdir(exist_ok=True)
    engine = schema.open_database(folder / "memoryd.db", now=NOW).engine
    with sqlite.begin_write(engine) as connection:
        connection.exec_driver_sql(
            "INSERT OR IGNORE INTO agent VALUES (?, ?, 1, 0, ?)", (agent_id, str(folder / "work"), NOW)
        )
    return store_on(engine, folder / "work", Clock(lambda: datetime(2026, 5, 4, 12, tzinfo=UTC)), agent_id, **limits)
