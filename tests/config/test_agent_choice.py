"""Whose session a folder is: that of the nearest project, and of no agent where several may be meant."""

from pathlib import Path

from memoryd.agent_choice import choose, is_nearer_to_another, is_within
from memoryd.config import Agent, Settings, TranscriptSource


def agent(name, *projects, **more):
    sources = tuple(TranscriptSource(path="x", project=None if one is None else Path(one)) for one in projects)
    return Agent(id=name, workspace=Path("/w") / name, transcripts=sources, **more)


def chosen(agents, *folders):
    settings = Settings(state_dir=Path("/s"), agents=tuple(agents))
    found = [choose(settings, folder) for folder in folders]
    return [None if one is None else one.id for one in found]


def test_the_nearest_project_has_a_session_and_a_disabled_agent_keeps_its_own():
    agents = [agent("home", "/h"), agent("shop", "/h/shop", "/h/shop-2"), agent("off", "/h/off", enabled=False)]
    folders = ["/h", "/h/x", "/h/shop", "/h/shop/src", "/h/shop-2", "/h/shop-3", "/h/off/x", "/x", "", None]
    assert chosen(agents, *folders) == ["home", "home", "shop", "shop", "shop", "home", None, None, None, None]
    settings = Settings(state_dir=Path("/s"), agents=tuple(agents))
    for folder, nearer in (("/h/x", False), ("/h/shop/src", True), ("/h/off", True), ("/x", False)):
        assert is_nearer_to_another(settings, agents[0], folder) == nearer


def test_an_agent_of_all_sessions_has_those_that_no_project_has_if_it_is_the_only_one():
    every, other = agent("every", None), agent("other", None)
    assert chosen([every, agent("shop", "/shop")], "/shop/a", "/x", "") == ["shop", "every", "every"]
    assert chosen([every, other], "/x", "/w/other/a") == [None, "other"]
    assert chosen([every, agent("python")], "/x", "/w/python") == ["every", "python"]
    assert chosen([agent("silo", None, privacy="silo")], "/x", "/w/silo") == [None, "silo"]


def test_an_agent_that_reads_transcripts_only_in_its_workspace_has_no_sessions_of_other_folders():
    chat = TranscriptSource(path="/w/chat/sessions/*.jsonl", root=Path("/w/chat/sessions"))
    agents = [Agent(id="chat", workspace=Path("/w/chat"), transcripts=(chat,)), agent("shop", "/shop")]
    assert chosen(agents, "/x", "/w/chat/a", "/shop/b") == [None, "chat", "shop"]
    assert chosen([agent("alone")], "/x", "/w/alone") == [None, "alone"], "nor one that reads no transcripts"
    shared = Agent(id="chat", workspace=Path("/w/chat"), transcripts=(chat,), share=(Path("/y"),))
    assert chosen([shared], "/x", "/y/z") == [None, "chat"]


def test_a_folder_that_is_not_absolute_is_in_no_project(tmp_path, monkeypatch):
    (tmp_path / "x").mkdir()
    monkeypatch.chdir(tmp_path)
    folders = [".", "x", "\0", "..", f"\0{tmp_path}"]
    assert chosen([agent("a", tmp_path), agent("b", tmp_path / "x")], *folders) == [None] * len(folders)
    assert not any(is_within(agent("a", tmp_path), folder) for folder in folders)
    assert chosen([agent("a", tmp_path)], f"{tmp_path}/x\0") == ["a"]


def test_a_link_to_a_project_is_the_project(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert chosen([agent("a", tmp_path / "real")], str(tmp_path / "link" / "below")) == ["a"]
