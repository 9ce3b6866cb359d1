"""Content stays out of what people look after: status, job rows, receipts, the log, alarms and errors carry none."""

import json

import pytest
from scratch import Scratch, filler, in_process, message, recent, until

from memoryd.daemon.once import run_once
from memoryd.files import log
from memoryd.offline import backend as offline

SECRET = "sk-canary" + "Z" * 40
CANARIES = {
    "user": "canaryUserQuagga",
    "assistant": "canaryAssistantOkapi",
    "tool result": "canaryToolAxolotl",
    "file": "canaryFileNarwhal",
    "broken line": "canaryBrokenPangolin",
    "hook output": "canaryHookKakapo",
    "core file": "canaryCoreDugong",
    "secret": SECRET,
}


CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "read", "arguments": json.dumps({"path": f"/w/{CANARIES['file']}"})},
}


def session():
    at = recent()
    return [
        message("user", f"We decided to name the release {CANARIES['user']} because the old name was taken.", at=at),
        message("assistant", f"I renamed the release to {CANARIES['assistant']} in all of the documents.", at=at),
        {"role": "assistant", "content": None, "timestamp": at.isoformat(), "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "timestamp": at.isoformat(), "content": " ".join(CANARIES.values())},
        message("user", f"Please always use the key {SECRET} when you call the service.", at=at),
        filler(at=at),
    ]


@pytest.fixture
def scratch(tmp_path):
    return Scratch(tmp_path / "scratch", ingest={"settle": "20ms"}, log={"level": "debug"}, jobs={"attempts": 1})


def observed(scratch):
    """Everything a person who looks after memoryd gets to see, by what it is; claims are for those who may read."""
    yield "status", scratch.run("--json", "status", "--all").stdout
    yield "status for people", scratch.run("status").stdout
    yield "job list", scratch.run("--json", "job", "list").stdout
    for (run_id,) in scratch.query("SELECT id FROM job_run"):
        yield "job show", scratch.run("job", "show", run_id).stdout
        shown = json.loads(scratch.run("--json", "job", "show", run_id).stdout)
        yield "job show as JSON", json.dumps({**shown["data"], "claims": []})
    columns = [name for (name,) in scratch.query("SELECT name FROM pragma_table_info('job_run')") if name != "claims"]
    for sql in (
        f"SELECT {', '.join(columns)} FROM job_run",  # noqa: S608
        "SELECT * FROM alarm",
        "SELECT * FROM daemon",
        "SELECT * FROM bad_span",
    ):
        yield sql, repr(scratch.query(sql))
    for path in scratch.state.joinpath("log").iterdir():
        yield path.name, path.read_text(encoding="utf-8")
    for name in ("stderr.txt", "errors"):
        if (scratch.root / name).exists():
            yield name, (scratch.root / name).read_text(encoding="utf-8")
    yield "watermarks", (scratch.state / "watermarks.jsonl").read_text(encoding="utf-8")
    yield "session list", scratch.run("--json", "session", "list").stdout
    yield "logs", scratch.run("logs").stdout


def check(scratch):
    seen = dict(observed(scratch))
    assert len(seen["status"]) > 100
    leaks = [(what, name) for what, text in seen.items() for name, canary in CANARIES.items() if canary in text]
    assert leaks == []


def test_no_content_in_what_is_shown_of_good_and_bad_runs(scratch):
    (scratch.root / "hook.sh").write_text(
        f"cat\necho {CANARIES['hook output']}\necho {CANARIES['hook output']} >&2\nexit 3\n"
    )
    scratch.write_config(hooks={"on_summary": f"sh {scratch.root / 'hook.sh'}"})
    (scratch.workspace / "MEMORY.md").write_text(f"- {CANARIES['core file']}\n", encoding="utf-8")
    with scratch.daemon():
        path = scratch.append(session())
        with path.open("ab") as file:
            file.write(f'{{"role": "user", "content": "{CANARIES["broken line"]}\n'.encode())
            file.write(b"\xff\xfe" + CANARIES["broken line"].encode() + b"\n")
        until(lambda: scratch.query("SELECT count(*) FROM job_run WHERE state = 'succeeded'") == [(1,)], why="slept")
        until(
            lambda: (
                scratch.query("SELECT json_extract(receipt, '$.on_summary') FROM job_run") == [("failed: exit code 3",)]
            )
        )
        until(lambda: scratch.query("SELECT count(*) FROM bad_span")[0][0] >= 1, why="the broken line is recorded")
        (scratch.workspace / "memory").rename(scratch.workspace / "elsewhere")
        (scratch.workspace / "memory").write_text(CANARIES["file"])  # no folder: this session's next run fails
        scratch.append(session(), "two")
        until(lambda: scratch.query("SELECT count(*) FROM job_run WHERE error IS NOT NULL")[0][0] >= 1, why="failed")
        errors = [scratch.run("session", "messages", "none").stderr, scratch.run("job", "run", "sleep").stderr]
        (scratch.root / "errors").write_text("\n".join(errors), encoding="utf-8")
    check(scratch)
    texts = [*(scratch.workspace / "elsewhere").glob("*.md"), scratch.workspace / "MEMORY.md"]
    assert any(CANARIES["user"] in one.read_text(encoding="utf-8") for one in texts)  # it was there to be leaked


def test_no_content_when_the_backend_breaks_down_over_it(scratch, monkeypatch):
    def fail(ask):
        raise ValueError(f"cannot parse {ask.material[0].text}")

    scratch.append(session())
    with (scratch.root / "stderr.txt").open("w", encoding="utf-8") as terminal:
        close = log.configure(scratch.state, level="debug", text=True, terminal=terminal).close
        try:
            with in_process(scratch) as app:
                monkeypatch.setattr(offline, "answer", fail)
                run_once(app)
        finally:
            close()
    assert scratch.query("SELECT state FROM job_run") == [("dead",)]
    assert scratch.query("SELECT kind FROM alarm WHERE cleared_at IS NULL") == [("dead",)]
    (scratch.state / "watermarks.jsonl").touch()
    check(scratch)
