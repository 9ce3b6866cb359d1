"""Search by meaning with the real model, in real processes. Only by `make hybrid`, which installs the extra."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import forks
import pytest
from scratch import Scratch, said, until

from memoryd.errors import StateError
from memoryd.worker import embedder
from memoryd.worker.client import Worker
from memoryd.worker.embedder import EmbeddingModel

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.hybrid
DIMENSIONS = 384
HOSTILE = [
    "a" * 3_000_000, "word " * 500_000, "\ud83d\x00 \udfff", "<|endoftext|> [CLS] [SEP] [MASK]", "北京" * 100_000,
    "\u0301" * 100_000, "{" * 200_000, "🦀" * 50_000, "\x00", "\n\n\n",
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def extra() -> None:
    if lacks := embedder.list_missing():
        pytest.skip(f"not installed: {', '.join(lacks)}")


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with Worker(tmp_path_factory.mktemp("state")) as made:
        yield made


def numbers(vector: bytes | None) -> list[int]:
    assert vector is not None
    assert len(vector) == DIMENSIONS
    return list(memoryview(vector).cast("b"))


def cosine(first: bytes | None, second: bytes | None) -> float:
    a, b = numbers(first), numbers(second)
    product, *lengths = (sum(x * y for x, y in zip(*pair, strict=True)) for pair in ((a, b), (a, a), (b, b)))
    return product / math.sqrt(math.prod(lengths))


def test_what_means_the_same_is_near(worker: Worker) -> None:
    car, automobile, tea = worker.embed(
        ["How do I repair my car?", "Fixing a broken automobile", "She drinks green tea in the morning"]
    )
    assert cosine(car, automobile) > 0.6
    assert cosine(car, tea) < 0.2


def test_a_vector_is_the_same_whatever_is_beside_it(worker: Worker) -> None:
    alone = worker.embed(["the orders are in PostgreSQL"])
    assert worker.embed(["x " * 200, "the orders are in PostgreSQL", ""])[1:] == [*alone, None]


def test_hostile_texts_are_bounded(worker: Worker) -> None:
    begun = time.monotonic()
    vectors = worker.embed(HOSTILE)
    assert time.monotonic() - begun < 60, "each is cut to what the model was taught, whatever its length"
    assert [vector is None for vector in vectors[-2:]] == [True, True]
    assert worker.embed(["still there"])[0] is not None


def test_another_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedder, "MODEL_SHA256", "0" * 64)
    with pytest.raises(StateError, match="not the file"):
        EmbeddingModel().embed(["text"])


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    made = Scratch(tmp_path, search={"embeddings": "auto"})
    made.append(said())
    (made.workspace / "MEMORY.md").write_text("- The physician's surgery moved to Elm Street\n", encoding="utf-8")
    return made


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(one) for one in found if b"embedder" in Path(f"/proc/{one}/cmdline").read_bytes()]


def embedded(scratch: Scratch) -> dict[str, int]:
    return scratch.json("status")["agents"][0]["embedded"] or {"done": 0, "of": 1}


def test_a_daemon_embeds_beside_it_all_and_answers_searches(scratch: Scratch) -> None:
    with scratch.daemon(start=forks.new) as daemon:  # whose children are known by their names
        until(lambda: (found := embedded(scratch))["done"] == found["of"] >= 7, seconds=60)
        (hit, *_) = scratch.json("search", "where does the doctor practise now")
        assert (hit["path"], hit["why"]) == ("MEMORY.md", "by meaning 1")
        assert scratch.json("search", "doctor", "--tier", "core")[0]["path"] == "MEMORY.md"
        texts = [check["text"] for check in scratch.json("doctor")["checks"] if check["name"] == "meaning"]
        assert len(texts) == 2
        assert texts[1].startswith("of demo")
        for child in children(daemon.pid):
            os.kill(child, signal.SIGKILL)
        assert scratch.json("search", "physician")[0]["path"] == "MEMORY.md"
        until(lambda: "by meaning" in scratch.json("search", "physician")[0]["why"])
    assert scratch.json("search", "where does the doctor practise now")[0]["path"] == "MEMORY.md", "without a daemon"
    scratch.write_config(search={"embeddings": "off"})
    assert scratch.json("search", "doctor") == []
    assert scratch.json("search", "physician")[0]["why"] == "physician"


def test_it_asks_no_network(scratch: Scratch) -> None:
    env = os.environ | dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY"), "http://127.0.0.1:9")
    code = (
        "import sys, json, socket\n"
        "def refused(*_): raise SystemExit('asked the network')\n"
        "socket.socket.connect = socket.getaddrinfo = refused\n"
        "from memoryd.worker.embedder import EmbeddingModel\n"
        "print(json.dumps(EmbeddingModel().embed(['a text'])))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]
