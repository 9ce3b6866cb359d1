"""Adding agents to the text of a configuration: nothing else changes, and it can be taken out again."""

from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from memoryd import config, config_edit
from memoryd.agent_programs import escape
from memoryd.config_edit import NewAgent, NewSource
from memoryd.errors import ConfigError
from memoryd.files import sources

PATHS = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\0/*?[\x7f"), min_size=1, max_size=8)
BEFORE = ["# mine", "", "log: {level: debug}", "scrub:\n  allow: ['x#y']", "hooks:\n  on_alarm: |\n    one\n    two"]
AGENTS = [
    "agents: []",
    "agents: [ ]  # none yet",
    "agents:\n- id: own  # mine\n  workspace: /usr\n  transcripts: []",
    "agents:\n  - {id: own, workspace: /usr, transcripts: []}\n\n  # more?",
    "agents:\n    - workspace: /usr\n      transcripts:\n        - path: a/*.jsonl\n      id: own\n",
]


@given(
    st.lists(st.sampled_from(BEFORE), max_size=3, unique=True),
    st.sampled_from(AGENTS),
    st.lists(st.sampled_from(["sleep: {threshold: 0.5}", "# end"]), max_size=2, unique=True),
    st.booleans(),
    st.lists(PATHS, min_size=1, max_size=3, unique=True),
)
def test_what_is_added_is_read_and_what_was_there_stays(before, agents, after, end, names):
    text = "\n".join([*before, agents, *after]) + ("\n" if end else "")
    old = config.load(Path("/m.yaml"), {}, text.encode())
    fresh = [
        NewAgent(f"n{number}", Path("/"), in_state=True, sources=[source])
        for number, source in enumerate(NewSource(f"/a/{name}/*.jsonl", "codex", Path(f"/p/{name}")) for name in names)
    ]  # fmt: skip
    try:
        new = config_edit.set_discover(config_edit.add_agents(text, fresh), ["codex"])
    except ConfigError as refused:
        raise AssertionError(text) from refused
    read = config._settings(config._ConfigReading(Path("/m.yaml"), {}), new.encode())
    assert read.discover == ("codex",)
    added = read.agents[len(old.agents) :]
    assert [agent.id for agent in added] == [one.id for one in fresh]
    assert [agent.transcripts[0].path for agent in added] == [one.sources[0].path for one in fresh]
    assert [agent.transcripts[0].project for agent in added] == [one.sources[0].project.resolve() for one in fresh]
    assert [line for line in text.splitlines() if line not in new.splitlines()] in ([], [agents])
    left = config_edit.remove_added(new)
    assert config.load(Path("/m.yaml"), {}, left.encode()) == old
    assert config_edit.remove_added(left) == left


def test_a_file_that_only_init_wrote_goes_and_a_list_in_brackets_is_refused():
    text = config_edit.begin(Path("/s"), ["codex"])
    agent = NewAgent("a", Path("/"), in_state=True, sources=[])
    assert config_edit.remove_added(config_edit.add_agents(text, [agent])) is None
    llm = "llm: {provider: openai, model: m}\n"
    assert config_edit.remove_added(config_edit.add_agents(text + llm, [agent])).endswith(f"agents: []\n{llm}")
    mine = "# mine\nagents: []\n"
    assert config_edit.remove_added(config_edit.set_discover(mine, ["codex"])) == mine
    for refused in ("agents: [{id: a, workspace: /}]\n", "log: {}\n"):
        with pytest.raises(ConfigError):
            config_edit.add_agents(refused, [agent])
    with pytest.raises(ConfigError):
        config_edit.add_sources("agents:\n- id: a\n  transcripts: []\n", 0, [])


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1, max_size=6))
@example("a\x85b")
@example("a\u2029 b")
@example("\ufffeb\x7f")
@example("{a,b}")
@example("[x]*?")
@example('"\n- id: evil')
def test_a_folder_of_any_name_is_written_so_that_it_is_read_as_the_same(name):
    assume(name not in {".", ".."})
    folder = Path(f"/p/{name}")
    source = NewSource(f"{escape(folder)}/.aider.chat.history.md", "aider", folder)
    text = config_edit.add_agents(
        config_edit.begin(folder / "state", ()), [NewAgent("n", Path("/"), in_state=True, sources=[source])]
    )
    made = config.load(Path("/m.yaml"), {}, config_edit.add_sources(text, 0, [source]).encode())
    assert made.state_dir == folder / "state"
    for one in made.agents[0].transcripts:
        assert one.project == folder
        assert sources.make_pattern(one.pattern, one.root).matches(f"{folder}/.aider.chat.history.md")
