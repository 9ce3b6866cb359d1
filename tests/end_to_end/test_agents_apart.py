"""Whatever is asked for by whatever id or name: the door of one agent shows and changes nothing of another's."""

import contextlib
import io
import json
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scratch import SAID, Model, Scratch, until

import memoryd
from memoryd import app
from memoryd.interfaces import cli as commands
from memoryd.interfaces import python_api as doors
from memoryd.ledger.facts import NewFact
from memoryd.requests import opening
from memoryd.worker import client

CANARY = "Koralle77"  # in everything that is the other agent's
THEIRS = [f"Lives in {CANARY} street.", f"Plays the {CANARY}."]
OURS = ["Drinks tea.", "Plays chess."]
STRANGE = [
    "",
    "%",
    "_",
    "core%",
    "fact_%",
    "co_e_%",
    "../other",
    "other",
    "\0",
    "core_\0",
    "*",
    "?",
    "[a-f]*",
    "' OR 1=1 --",
]
STRANGE += [
    "core_\ufb00",
    "\uff43ore_",
    "sess_",
    "run-",
    "-1",
    "1",
    "core_'",
    "\ud800",
    "fact_" + "0" * 400,
    "CORE_",
    " ",
    "\n",
]


class Two:
    """Two agents with like memories: the first is open, the other one's content is nobody's to see."""

    def __init__(self, root):
        self.scratch = Scratch(root)
        self.other = root / "other"
        self.other.mkdir()
        self.scratch.agents.append(self.scratch.agent("other", self.other, privacy="silo"))
        self.scratch.write_config()
        self.doors = [memoryd.Memory(one["workspace"], self.scratch.config) for one in self.scratch.agents]
        for door, facts, name in zip(self.doors, (OURS, THEIRS), ("tea", CANARY), strict=True):
            (door._agent.workspace / "MEMORY.md").write_text(f"- likes {name}\n- a plan for {name}\n")
            door.facts.create([NewFact(text) for text in facts])
            door.flush([{"role": role, "content": f"{text} {name}"} for role, text in SAID])
            until(lambda it=door: self.is_imported(it), why="the file has settled")
        query = self.scratch.query
        found = "SELECT id FROM memory WHERE agent_id = :1 UNION SELECT id FROM session WHERE agent_id = :1 UNION "
        found += (
            "SELECT id FROM job_run WHERE agent_id = :1 UNION SELECT CAST(id AS TEXT) FROM audit WHERE agent_id = :1"
        )
        self.theirs = sorted(row[0] for row in query(found, "other"))
        self.content = self.rows()

    def is_imported(self, door):
        opening.catch_up(door._settings, door._agent)
        found = self.scratch.query(
            "SELECT count(*) FROM memory WHERE content LIKE 'likes %' AND agent_id = ?", door._agent.id
        )
        return found == [(1,)]

    def rows(self):
        """What is the other agent's, row by row."""
        return self.scratch.query("SELECT * FROM memory WHERE agent_id = 'other' ORDER BY id"), (
            self.scratch.query("SELECT count(*), max(seq) FROM turn WHERE agent_id = 'other'")
        )

    def ask(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
            commands.main(["--config", str(self.scratch.config), "--json", *arguments])
        return ended.value.code or 0, out.getvalue() + err.getvalue()


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    root = tmp_path_factory.mktemp("two") / "scratch"

    def model(*_, **__):
        return Model(root / "asked")

    with (
        patch.object(app, "Worker", model),
        patch.object(client, "Worker", model),
        patch.object(doors, "Worker", model),
    ):
        yield Two(root)


def ids(two):
    """Ids of the other's things, whole, cut, and with something before or behind them; and what no id looks like."""
    whole = st.sampled_from(two.theirs)
    cut = st.builds(lambda one, size: one[:size], whole, st.integers(0, 12))
    more = st.builds(
        "{}{}{}".format, st.sampled_from(["", "%", "../other/", "\0"]), whole, st.sampled_from(["", "%", "\0", "/"])
    )
    return whole | cut | more | st.sampled_from(STRANGE) | st.text(max_size=6)


OF_AGENT = (  # commands that ask about one agent, and take an id or a word
    ("core", "history", "{}"), ("facts", "list", "--query", "{}"), ("job", "list", "--kind", "{}"),
    ("audit", "--run", "{}"), ("audit", "--since", "{}"), ("rollback", "{}", "--dry-run"),
    ("rollback", "--to", "{}", "--dry-run"),
    ("core", "list"), ("facts", "list"), ("facts", "export"), ("session", "list"), ("audit",), ("job", "list"),
    ("grant", "list"), ("facts", "delete", "{}"), ("facts", "edit", "{}", "--content", "mine now"),
    ("core", "protect", "{}"), ("core", "restore", "{}"), ("grant", "revoke", "{}"),
)  # fmt: skip
OF_ANY = (  # commands that find out by the id whose it is
    ("session", "messages", "{}"), ("session", "messages", "{}", "--compressed"), ("job", "show", "{}"),
    ("core", "history", "{}", "--agent", "other"), ("facts", "list", "--agent", "other"),
    ("core", "list", "--agent", "other"), ("facts", "list", "--query", "{}", "--agent", "other"),
    ("facts", "export", "--agent", "other"), ("audit", "--agent", "other"), ("status",), ("verify",),
)  # fmt: skip


def filled(command, given, *more):
    if "{}" in command and given.startswith("-"):  # behind `--` it is no option
        return [*(one for one in command if one != "{}"), *more, "--", given]
    return [*(given if one == "{}" else one for one in command), *more]


def test_no_command_about_one_agent_tells_of_the_other(two):
    @given(ids(two), st.sampled_from(OF_AGENT))
    @example("", ("facts", "delete", "{}"))
    def asked(given, command):
        code, told = two.ask(*filled(command, given, "--agent", "demo"))
        assert code in {0, 2, 3, 4}, told
        assert CANARY not in told
        if code == 0:
            assert not [one for one in two.theirs if len(one) > 6 and one in told], (command, told)

    asked()
    assert two.rows() == two.content


def test_no_command_tells_what_is_nobodys_to_see(two):
    @given(ids(two), st.sampled_from(OF_ANY))
    def asked(given, command):
        code, told = two.ask(*filled(command, given))
        assert code in {0, 2, 3, 4}, told
        assert CANARY not in told

    asked()
    assert two.rows() == two.content


def test_no_id_opens_the_memory_of_another(two):
    ours = two.doors[0]
    known = {fact.id for fact in ours.facts.all()}
    assert known
    assert CANARY not in ours.facts.dump()
    assert not [row for row in ours.core.list() if row["id"] in two.theirs or CANARY in row["content"]]

    @given(ids(two))
    def asked(given):
        assert {fact.id for fact in ours.facts.search(given)} <= known
        for act in (ours.facts.get, ours.facts.delete, lambda one: ours.facts.update(one, "mine now")):
            with pytest.raises(KeyError):
                act(given)

    with app.open_app(ours._settings):  # as beside a daemon: nothing is opened and recovered for each of them
        asked()
    assert {fact.id for fact in ours.facts.all()} == known
    assert two.rows() == two.content


def test_a_dump_of_one_carries_no_id_into_the_other(two):
    dumped = json.loads(two.doors[0].facts.dump())
    for fact, theirs in zip(dumped["facts"], two.theirs, strict=False):
        fact["id"] = theirs
    brought = two.doors[0].facts.bring(json.dumps(dumped))
    assert not [one for one in brought.outcomes if one.created]
    assert two.rows() == two.content
