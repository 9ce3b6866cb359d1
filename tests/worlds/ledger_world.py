"""A ledger in memory for tests: rows, the states they had, the audit; and random operations on it."""

from __future__ import annotations

from itertools import count

from hypothesis import strategies as st

from memoryd.ledger import audit, rollback
from memoryd.ledger.audit import AuditStamp
from memoryd.ledger.memory import Ending, Memory, MemoryKind, Source, from_json, hash_of, to_json
from memoryd.ledger.operation import (
    Add,
    Delete,
    Merge,
    OperationError,
    Protect,
    Restore,
    Unprotect,
    Update,
    apply,
)

AGENT = "demo"


def time_of(number):
    return f"2026-01-{number // 1440 + 1:02}T{number // 60 % 24:02}:{number % 60:02}:00Z"


def source(number=0, origin="user", **values):
    fields = {
        "session": "sess_1",
        "transcript": "a.jsonl",
        "record_id": f"r{number}",
        "part": 0,
        "first_byte": 10 * number,
        "last_byte": 10 * number + 9,
        "sha256": f"{number:064x}",
        "origin": origin,
        "at": time_of(number),
        "seq": number,
    }
    return Source(**(fields | values))


def core_memory(number, content, **values):
    fields = {
        "id": f"core_{number:08x}",
        "agent_id": AGENT,
        "kind": MemoryKind.CORE,
        "content": content,
        "content_hash": hash_of(content),
        "created_at": time_of(number),
        "updated_at": time_of(number),
        "salt": f"{number:032x}",
        "heading": "",
        "position": number,
    }
    return Memory(**(fields | values))


class World:
    """One agent's ledger. A run is a list of operations, done or refused as a whole."""

    def __init__(self):
        self.memories = {}
        self.other = {}  # states of watermarks, files and runs
        self.entries = []
        self.texts = {}
        self.hexes = count(1)
        self.minutes = count(1)

    def new_hex(self):
        return f"{next(self.hexes):08x}"

    def do(self, run_id, *operations):
        now = time_of(next(self.minutes))
        changes = apply(self.memories, operations, agent_id=AGENT, now=now, new_hex=self.new_hex)
        events, texts = audit.events_of(changes, AuditStamp(now, AGENT, "job", run_id))
        self.texts |= texts
        self._write(events)
        self.memories |= {change.memory_id: change.after for change in changes}
        return changes

    def move(self, run_id, memory_id, text):
        """Another state of something that is no memory."""
        self._step(run_id, rollback.RollbackStep(memory_id, self.other.get(memory_id), text), "move")

    def plan(self, run_id):
        return rollback.plan(self.entries, self.texts.get, run_id=run_id, now=time_of(next(self.minutes)))

    def plan_to(self, audit_id):
        return rollback.plan_to(self.entries, self.texts.get, audit_id=audit_id, now=time_of(next(self.minutes)))

    def carry_out(self, plan, run_id):
        plan.check()
        for step in plan.steps:
            assert step.before == self.state(step.memory_id)
            self._step(run_id, step, rollback.OPERATION)

    def _step(self, run_id, step, operation):
        states = [step.before, step.after]
        sides = [None if one is None else audit.compute_digest(one) for one in states]
        self.texts |= {audit.compute_digest(one): one for one in states if one is not None}
        at = time_of(next(self.minutes))
        event = audit.AuditEvent(at, AGENT, "job", run_id, operation, step.memory_id, *sides)
        self._write([event])
        if ":" in step.memory_id:
            self.other[step.memory_id] = step.after
        else:
            self.memories[step.memory_id] = from_json(step.after)

    def _write(self, events):
        last = self.entries[-1].hash if self.entries else None
        self.entries += audit.link_events(events, last_hash=last, first_id=len(self.entries) + 1)

    def state(self, memory_id):
        if ":" in memory_id:
            return self.other.get(memory_id)
        memory = self.memories.get(memory_id)
        return None if memory is None else to_json(memory)

    def live(self):
        return {memory_id: memory for memory_id, memory in self.memories.items() if memory.is_live}

    def snapshot(self):
        return dict(self.memories), {key: text for key, text in self.other.items() if not key.startswith("run:")}


# --- random operations ---

TEXTS = st.sampled_from(["tea", "Tea ", "# coffee", "uses uv", "naïve", "水を飲む", "a b", "\ud800"]) | st.text(
    min_size=1, max_size=8
).filter(str.strip)
SOURCES = st.lists(st.integers(0, 5).map(source), max_size=2).map(tuple)
SHARES = st.none() | st.floats(0, 1)


@st.composite
def operations(draw, memories, max_size=4):
    """Operations that name memories there are, live or ended, and now and then one there is not."""
    ids = sorted(memories)
    anyone = st.sampled_from(ids) if ids else st.just("core_ffffffff")
    one = st.one_of(
        st.builds(
            Add,
            st.sampled_from(MemoryKind),
            TEXTS,
            cites=SOURCES,
            confidence=SHARES,
            tags=st.just(("a", "a")),
            heading=st.just("H"),
        ),
        st.builds(Update, anyone, content=TEXTS, cites=SOURCES, importance=SHARES),
        st.builds(Update, anyone, heading=TEXTS, position=st.integers(-5, 5), tags=st.just(("b",))),
        st.builds(Merge, st.lists(anyone, min_size=1, max_size=3).map(tuple), TEXTS, cites=SOURCES),
        st.builds(Delete, anyone, st.sampled_from(Ending), st.lists(anyone, max_size=1).map(tuple)),
        st.builds(Delete, anyone),
        st.builds(Protect, anyone),
        st.builds(Unprotect, anyone),
        st.builds(Restore, anyone),
    )
    return draw(st.lists(one, min_size=1, max_size=max_size))


@st.composite
def worlds(draw, max_runs=6):
    """A world in which some runs have changed memories and watermarks; its runs, those refused left out."""
    world = World()
    runs = []
    for number in range(draw(st.integers(1, max_runs))):
        run_id = f"run_{number}"
        try:
            changed = world.do(run_id, *draw(operations(world.memories)))
        except OperationError:
            changed = []
        if draw(st.booleans()):
            mark = audit.name_watermark("sess_1", draw(st.sampled_from(["sleep", "facts"])))
            world.move(run_id, mark, audit.dump_state(seq=number))
            changed.append(None)
        if changed:
            runs.append(run_id)
    return world, runs
