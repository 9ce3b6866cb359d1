"""An agent with files, turns and facts on a real database and index, and a clock that stands still."""

from datetime import UTC, datetime

from facts_world import store_on

from memoryd.clock import Clock
from memoryd.config import Agent
from memoryd.database import schema, sqlite
from memoryd.database.reads import KeptReader
from memoryd.files.log import get_logger
from memoryd.finding.indexing import Indexer
from memoryd.finding.recall import Narrowing, Recall
from memoryd.index.database import Index

NOW = "2026-05-04T12:00:00.000Z"
AT = datetime(2026, 5, 4, 12, tzinfo=UTC)


class World:
    def __init__(self, root, *agents, redact=list):
        self.state = root / "state"
        self.state.mkdir(parents=True)
        self.database = self.state / "memoryd.db"
        self.engine = schema.open_database(self.database, now=NOW).engine
        self.agents = {}
        for name in agents or ("demo",):
            workspace = root / f"workspace-{name}"
            (workspace / "memory").mkdir(parents=True)
            self.agents[name] = Agent(id=name, workspace=workspace)
            with sqlite.begin_write(self.engine) as connection:
                connection.exec_driver_sql("INSERT INTO agent VALUES (?, ?, 1, 0, ?)", (name, str(workspace), NOW))
        self.redact = redact
        self.log = get_logger("memoryd.test")
        self.recall = self.opened()
        self.seqs = {}

    def opened(self):
        """Another process's view: an index of its own on the same file."""
        index = Index(self.state, self.log)
        return Recall(Indexer(index, KeptReader(self.database), UTC, self.redact, self.log), lambda: AT)

    @property
    def index(self):
        return self.recall.indexer.index

    @property
    def agent(self):
        return next(iter(self.agents.values()))

    @property
    def workspace(self):
        return self.agent.workspace

    def write(self, name, text, agent=None):
        path = (self.agents[agent] if agent else self.agent).workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def turn(
        self,
        text,
        session="s1",
        role="user",
        origin=None,
        kind="message",
        at=NOW,
        agent="demo",
        withheld=None,
        tool=None,
    ):
        seq = self.seqs[session] = self.seqs.get(session, 0) + 1
        with sqlite.begin_write(self.engine) as connection:
            connection.exec_driver_sql(
                "INSERT OR IGNORE INTO session (id, agent_id, native_id, format, state, seen_at, last_turn_at, turns,"
                " last_seq, gauge, counted_seq) VALUES (?, ?, ?, 'messages', 'active', ?, ?, 0, 0, '{}', 0)",
                (session, agent, session, NOW, NOW),
            )
            connection.exec_driver_sql("UPDATE session SET last_seq = ? WHERE id = ?", (seq, session))
            connection.exec_driver_sql(
                "INSERT INTO turn (agent_id, session_id, seq, transcript_id, generation, record_key, part, role,"
                " origin, kind, text, at, sidechain, first_byte, last_byte, sha256, withheld, tool_name)"
                " VALUES (?, ?, ?, 1, 1, ?, 0, ?, ?, ?, ?, ?, 0, 0, 0, x'', ?, ?)",
                (agent, session, seq, f"{session}-{seq}", role, origin or role, kind, text, at, withheld, tool),
            )
        return seq

    def sql(self, statement, *values):
        with sqlite.begin_write(self.engine) as connection:
            connection.exec_driver_sql(statement, values)

    def facts(self, agent="demo"):
        return store_on(self.engine, self.agents[agent].workspace, Clock(lambda: AT), agent)

    def search(self, query, agent=None, recall=None, **narrowing):
        chosen = self.agents[agent] if agent else self.agent
        return (recall or self.recall).search(chosen, query, Narrowing(**narrowing))

    def places(self, query, **more):
        """Where a query's hits are: path and first line."""
        return [(hit.path, hit.first_line) for hit in self.search(query, **more)]

    def paths(self, query, **more):
        return {hit.path for hit in self.search(query, **more)}

    def close(self):
        self.index.close()
        self.engine.dispose()
