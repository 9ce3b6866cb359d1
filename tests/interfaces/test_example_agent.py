"""The example of the README, run: what it saves in one conversation it finds in the next."""

import json
import runpy
import sys
from pathlib import Path

import example_agent
from chat_server import ChatServer
from openai import OpenAI
from scratch import Scratch

import memoryd


def model(connection, request):
    """Saves what it is told to remember, searches for what it is asked, and answers with what it found."""
    last = request.json["messages"][-1]
    message = {"role": "assistant", "content": None}
    if last["role"] == "tool":
        found = json.loads(last["content"])
        message["content"] = found[0]["snippet"] if isinstance(found, list) else f"Kept in {found['files'][0]}."
    else:
        told, _, text = last["content"].partition(": ")
        name, given = ("memory_save", {"text": text}) if told == "Remember" else ("memory_search", {"query": text})
        function = {"name": name, "arguments": json.dumps(given)}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": "stop" if message["content"] else "tool_calls"}
    connection.head(kind="application/json")
    connection.send(json.dumps({"id": "c", "object": "chat.completion", "model": "tiny-1", "choices": [choice]}))


def test_what_it_is_told_in_one_conversation_it_knows_in_the_next(tmp_path, monkeypatch, capsys):
    scratch = Scratch(tmp_path)
    scratch.write_config()
    with ChatServer(model) as server:
        memory = memoryd.Memory(scratch.workspace, scratch.config)
        with OpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
            kept = example_agent.answer(client, "tiny-1", memory, "Remember: The orchard's gate code has a new owner.")
        (day,) = (scratch.workspace / "memory").glob("*.md")
        assert kept == f"Kept in memory/{day.name}."
        assert {one["function"]["name"] for one in server.requests[0].json["tools"]} == {"memory_search", "memory_save"}
        for name, value in (
            ("OPENAI_BASE_URL", server.url),
            ("OPENAI_API_KEY", "none"),
            ("MEMORYD_CONFIG", scratch.config),
        ):
            monkeypatch.setenv(name, str(value))
        monkeypatch.setattr(sys, "argv", ["x", str(scratch.workspace), "tiny-1", "Asked: who owns the gate code"])
        runpy.run_path(example_agent.__file__, run_name="__main__")
    assert capsys.readouterr().out == "The orchard's gate code has a new owner.\n"
    assert len(Path(example_agent.__file__).read_text(encoding="utf-8").splitlines()) <= 40
