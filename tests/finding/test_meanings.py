"""What a question means beside the daemon: by its model, or by one of one's own."""

import time
from dataclasses import replace
from datetime import timedelta

import pytest
from scratch import Scratch, until
from tiny_model import TEST_EMBEDDER

from memoryd import config
from memoryd.files.log import get_logger
from memoryd.finding import embedding
from memoryd.finding.recall import Meaning
from memoryd.interfaces import control
from memoryd.requests import daemon_client, meanings
from memoryd.worker import client


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "list_missing", list)
    monkeypatch.setattr(client, "_BOOT", TEST_EMBEDDER)
    made = Scratch(tmp_path, search={"embeddings": "auto"})
    made.state.mkdir(mode=0o700)
    return config.load(made.config)


def test_a_meaning_crosses_the_control_socket():
    for one in (Meaning(b"\x00\xff", "m"), Meaning(why="late", is_late=True), Meaning()):
        assert meanings.from_json(meanings.as_json(one)) == one
    for bad in (None, {}, [], {"vector": 5, "model": "", "why": "", "late": 0}, "x"):
        assert meanings.from_json(bad).vector is None


def test_switched_off_or_without_the_packages_nobody_is_asked(settings, monkeypatch):
    with meanings.open_meanings(replace(settings, search=replace(settings.search, embeddings="off"))) as ask:
        assert ask is None
    monkeypatch.setattr(embedding, "list_missing", lambda: ["onnxruntime"])
    with meanings.open_meanings(settings) as ask:
        assert ask is None


def test_the_daemon_is_asked_until_it_has_loaded_its_model(settings):
    answers = [Meaning(why="loading", is_late=True), Meaning(why="loading", is_late=True), Meaning(b"\x01", "m")]
    seen = []

    def embed(request):
        seen.append(request["text"])
        return meanings.as_json(answers[len(seen) - 1])

    path = settings.state_dir / daemon_client.SOCKET
    with (
        control.Control(path, {"embed": embed}, time.monotonic, get_logger("memoryd.test")),
        meanings.open_meanings(settings) as ask,
    ):
        waits = ask("a question")
        assert waits() == waits() == Meaning(b"\x01", "m")
    assert seen == ["a question"] * 3


def test_without_a_daemon_there_is_a_model_of_ones_own_for_a_while(settings, monkeypatch):
    monkeypatch.setattr(meanings, "OWN_IDLE", timedelta(milliseconds=10))
    with meanings.open_meanings(settings) as ask:
        assert ask("four")().vector == b"\x04\xff"
        assert ask("")().why == "the model knows no word of it"
        worker = ask.__closure__[0].cell_contents._embedder.questions
        until(lambda: worker.pid is None)
        assert ask("once more")().vector == b"\x09\xff"
