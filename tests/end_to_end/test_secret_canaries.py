"""Secrets of sixty formats go through a whole daemon, and none is found in any byte that it kept, said or sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from chat_server import ChatServer, sensible, speak
from planted_secrets import Planted, planted, tells
from scratch import Scratch, message, recent, until
from second_reader_world import shown, sound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from chat_server import Connection, Request

TRACE = """Traceback (most recent call last):
  File "/srv/shop/deploy.py", line 41, in main
    client.connect({line!r})
ConnectionError: could not log in with {line}
"""


def call(name: str, arguments: object, **more: object) -> dict:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return message("assistant", None, tool_calls=[{"id": "c1", "type": "function", "function": function}], **more)


# Where a secret may be said, and how: what is told of it, as a record of the transcript.
PLACES: dict[str, Callable[[Planted], dict]] = {
    "user": lambda one: message("user", f"Please remember for the deployment:\n{one.line}\nand use it there."),
    "assistant": lambda one: message("assistant", f"I have put this into the settings:\n{one.line}\nIt works now."),
    "arguments": lambda one: call("bash", {"command": f"run.sh\n{one.line}"}),
    "result": lambda one: message("tool", f"$ cat settings\n{one.line}\ndone", tool_call_id="c1"),
    "trace": lambda one: message("tool", TRACE.format(line=one.line), tool_call_id="c1"),
    "file name": lambda one: call("read", {"path": f"/srv/shop/{one.secret}/notes.txt"}),
    "url": lambda one: message("user", f"It is at https://shop.example/login?token={quote(one.secret)} I think."),
}
ONLY_BY_ITSELF = {"file name", "url"}


def told() -> Iterator[tuple[str, Planted, dict]]:
    at = recent()
    for place, tell in PLACES.items():
        for one in planted(place):
            if place not in ONLY_BY_ITSELF or (one.known_by_itself and fits_in_a_name(one.secret)):
                record = tell(one)
                record["timestamp"] = at.isoformat()
                yield place, one, record


def fits_in_a_name(secret: str) -> bool:
    return "\n" not in secret and "/" not in secret


def leaks(secrets: list[tuple[str, str]], data: bytes) -> list[str]:
    return [name for name, secret in secrets if any(part.encode() in data for part in tells(secret))]


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def scratch(tmp_path):
    return Scratch(
        tmp_path / "scratch",
        ingest={"settle": "20ms"},
        log={"level": "debug"},
        jobs={"attempts": 2},
        scrub={"secrets": "redact"},
    )


def decoding(secret: str) -> Callable[[Connection, Request], None]:
    """A model that was told to decode what was redacted, and says some secret."""

    def part(connection: Connection, request: Request) -> None:
        if request.line.startswith("GET"):  # doctor asks for the models
            connection.error("404 Not Found")
            return
        connection.head()
        if questions := shown(request):  # a second reader that is fit, and says it too
            answers = [{"id": one["id"], "verdict": sound(one), "lost": [secret], "why": secret} for one in questions]
            connection.send(speak("\n".join(map(json.dumps, answers))))
            return
        lines = sensible(request).splitlines()
        if lines == ["[NOTHING]"]:
            connection.send(speak(f"[MEMORIES]\n- preference 0.90 [t1] User: it was {secret}"))
            return
        first = next(line for line in lines if line.startswith("- ["))
        said = [lines[0], f"{first} {secret}", f"{first[:8]} User: it was {secret}", *lines[1:]]
        connection.send(speak("\n".join(said)))

    return part


def test_no_secret_is_kept_said_or_sent(scratch, tmp_path, monkeypatch):
    monkeypatch.setenv("A_KEY", "none-of-these")
    records = list(told())
    secrets = [(f"{one.name} in {place}", one.secret) for place, one, _ in records]
    in_name = next(one for one in planted("name of a transcript") if one.name == "github-classic").secret
    decoded = next(one for one in planted("reply") if one.name == "gitlab").secret
    secrets += [("name of a transcript", in_name), ("a model's reply", decoded)]
    assert len({one.name for _, one, _ in records}) >= 60
    said = []
    with ChatServer(decoding(decoded)) as server:
        scratch.write_config(
            llm={"provider": "openai", "model": "tiny-1", "base_url": server.url, "api_key_env": "A_KEY"},
            hooks={"on_summary": f"cat > {scratch.root}/told"},
        )
        with scratch.daemon():
            scratch.append([message("user", f"The deploy key of shop number {n} is kept by Ann.") for n in range(3)])
            scratch.append([record for _, _, record in records])
            scratch.append([message("user", "hello", at=recent())], f"notes-{in_name}")
            until(
                lambda: scratch.query("SELECT count(*) FROM job_run WHERE state = 'succeeded'")[0][0], 60, why="slept"
            )
            until(lambda: scratch.query("SELECT 1 FROM alarm WHERE kind = 'unreadable'"), why="the name is reported")
            commands = (
                ("job", "run", "sleep", "--force"), ("doctor",), ("status",), ("status", "--all", "--json"),
                ("backup", str(tmp_path / "state.tar")), ("job", "list", "--json"), ("session", "list"), ("logs",),
                ("config", "show"),
            )  # fmt: skip
            said.extend(scratch.run(*command) for command in commands)
        (session,) = {row[0] for row in scratch.query("SELECT session_id FROM turn")}
        said.append(scratch.run("session", "messages", session))
        assert server.requests
        sent = server.everything
    assert leaks(secrets, sent) == []
    for done in said:
        assert leaks(secrets, (done.stdout + done.stderr).encode()) == [], done.args
    found = everything(scratch.state) | {
        path: data for path, data in everything(scratch.workspace).items() if "/sessions/" not in path
    }
    found |= {str(path): path.read_bytes() for path in (tmp_path / "state.tar", scratch.root / "stderr.txt")}
    found[str(scratch.root / "told")] = (scratch.root / "told").read_bytes()
    assert any(path.endswith("memoryd.db") for path in found)
    assert any("/memory/2" in path for path in found)
    assert {path: leaks(secrets, data) for path, data in found.items() if leaks(secrets, data)} == {}
    assert b"[REDACTED:" in b"".join(found.values())
    texts = [row[0] for row in scratch.query("SELECT text FROM turn WHERE role = 'user' ORDER BY seq")]
    assert sum("Please remember for the deployment" in text for text in texts) >= 60, "the text around it is kept"
