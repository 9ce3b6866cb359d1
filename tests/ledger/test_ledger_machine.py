"""People and jobs at one file, in any order: no bullet of a person is lost, no protected memory; both sides agree."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from ledger_world import AGENT, World

from memoryd.ledger.guards import Caller, Context, GuardLimits, judge
from memoryd.ledger.matching import match
from memoryd.ledger.memory import MemoryKind, draw_id
from memoryd.ledger.operation import Add, Delete, Merge, Protect, Update
from memoryd.ledger.projection import edits_of
from memoryd.tiers import core

WORDS = st.sampled_from(
    ["tea", "green tea", "Friday", "deploy on Friday", "the parser", "# x", "- y", "Anna", "```", "水"]
)
LINE = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)
HEADINGS = st.sampled_from(["", "H", "I"])
LAYOUT = st.sampled_from(
    [b"\nWords.\n", b"\n## H\n", b"  - deeper\n", b"\n```\n- code\n```\n", b"\n<!-- c -->\n", b"\r\n"]
)


def texts_of(data):
    return [core.normalize(bullet.text) for bullet in core.parse(data).bullets]


class FileAndLedger(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.world = World()
        self.data = b""
        self.persons = set()  # texts a person wrote, that nobody was allowed to change since
        self.runs = 0

    # --- a person ---

    @rule(text=LINE, heading=HEADINGS)
    def writes_a_bullet(self, text, heading):
        self.data = core.edit(core.parse(self.data), [core.Insert(text, heading)])
        self.persons.add(core.normalize(text))

    @rule(layout=LAYOUT)
    def writes_something_else(self, layout):
        if core.parse(self.data).pieces[-1].room == len(core.parse(self.data).pieces[-1].raw):
            self.data += layout

    @rule(data=st.data(), text=LINE)
    def rewords_a_bullet(self, data, text):
        found = core.parse(self.data).bullets
        if found:
            bullet = data.draw(st.sampled_from(found))
            self.data = core.edit(core.parse(self.data), [core.Replace(bullet.position, text)])
            self.persons.discard(core.normalize(bullet.text))
            self.persons.add(core.normalize(text))

    @rule(data=st.data())
    def removes_a_bullet(self, data):
        found = core.parse(self.data).bullets
        if found:
            bullet = data.draw(st.sampled_from(found))
            self.data = core.edit(core.parse(self.data), [core.Remove(bullet.position)])
            self.persons.discard(core.normalize(bullet.text))

    @rule(data=st.data())
    def moves_a_bullet(self, data):
        found = core.parse(self.data).bullets
        if found:
            one, two = data.draw(st.tuples(st.sampled_from(found), st.sampled_from(found)))
            self.data = core.edit(core.parse(self.data), [core.Move(one.position, before=two.position)])

    @rule(data=st.data())
    def protects_a_memory(self, data):
        self.imports()
        if self.order():
            self.run(Caller.OWNER, [Protect(data.draw(st.sampled_from(self.order())).id)])

    # --- a job, which imports first, as every commit does ---

    @rule(data=st.data())
    def a_job_rewrites(self, data):
        self.imports()
        ids = [memory.id for memory in self.order()]
        anyone = st.sampled_from(ids or ["core_ffffffff"])
        add = st.builds(Add, st.just(MemoryKind.CORE), LINE, heading=HEADINGS)
        one = st.one_of(
            add,
            st.builds(Update, anyone, content=LINE),
            st.builds(Update, anyone, heading=HEADINGS),
            st.builds(Merge, st.lists(anyone, min_size=2, max_size=2, unique=True).map(tuple), LINE),
            st.builds(Delete, anyone),
        )
        chosen, named = [], set()
        for operation in data.draw(st.lists(one if len(ids) > 1 else add, max_size=3)):
            ids = set(getattr(operation, "ids", None) or {getattr(operation, "id", None)}) - {None}
            if not ids & named:
                chosen.append(operation)
                named |= ids
        self.run(Caller.REFINEMENT, chosen)

    def imports(self):
        found = match(
            self.order(),
            core.parse(self.data).bullets,
            lambda: draw_id(MemoryKind.CORE, self.world.new_hex, self.world.memories),
        )
        bullets = core.parse(self.data).bullets
        for one in found.put_back:
            if one.was == "changed":
                self.persons.discard(core.normalize(bullets[one.edit.position].text))
        self.data = core.edit(core.parse(self.data), [one.edit for one in found.put_back])
        self.world.do("import", *found.operations)
        if found.put_back:
            self.imports()

    def run(self, caller, operations):
        limits = GuardLimits(retention_floor=0.2, erosion_percent=60)
        judged = judge(Context(caller, AGENT, self.world.memories, len, limits), operations)
        order = self.order()
        before = set(texts_of(self.data))
        self.runs += 1
        changes = self.world.do(f"run_{self.runs}", *judged.accepted)
        touched = {core.normalize(change.before.content) for change in changes if change.before is not None}
        self.data = core.edit(core.parse(self.data), edits_of(order, changes))
        assert before - set(texts_of(self.data)) <= touched
        self.persons -= touched
        self.agree()

    def order(self):
        live = [memory for memory in self.world.live().values() if memory.kind is MemoryKind.CORE]
        return sorted(live, key=lambda memory: (memory.position is None, memory.position or 0))

    def agree(self):
        live = [
            core.normalize(memory.content) for memory in self.world.live().values() if memory.kind is MemoryKind.CORE
        ]
        assert sorted(live) == sorted(texts_of(self.data))
        self.imports()  # gives what a job added its place
        assert sorted(live) == sorted(texts_of(self.data))

    @invariant()
    def no_bullet_of_a_person_is_lost(self):
        assert self.persons <= set(texts_of(self.data))

    @invariant()
    def no_protected_memory_is_lost(self):
        protected = [memory for memory in self.world.memories.values() if memory.constitutional]
        assert all(memory.is_live for memory in protected)

    def teardown(self):
        self.imports()
        self.agree()
        protected = {core.normalize(m.content) for m in self.world.memories.values() if m.constitutional}
        assert protected <= set(texts_of(self.data))


TestFileAndLedger = FileAndLedger.TestCase
TestFileAndLedger.settings = settings(stateful_step_count=12)
