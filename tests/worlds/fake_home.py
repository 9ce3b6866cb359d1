"""A home folder with agent programs, their sessions and the projects they worked in, and the way back to its bytes."""

import json
import os
import re
import subprocess
from datetime import UTC, datetime, timedelta

from memoryd.database.library import load_library

VARIABLES = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "OPENCLAW_STATE_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "MEMORYD_CONFIG",
)
NOW = datetime.now(UTC).replace(microsecond=0)


class FakeHome:
    """`home` is what $HOME names; all files are made as the programs make them."""

    def __init__(self, home, monkeypatch):
        self.home = home
        home.mkdir()
        monkeypatch.setenv("HOME", str(home))
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.chdir(home.parent)

    def project(self, name, *, git=False):
        folder = self.home / name
        folder.mkdir(parents=True)
        if git:
            subprocess.run(["git", "init", "-q", str(folder)], check=True)
        return folder

    def claude(self, folder, text, *, days=1, session="a", root=None):
        path = (
            (root or self.home / ".claude")
            / "projects"
            / re.sub("[^A-Za-z0-9]", "-", str(folder))[:200]
            / f"{session}.jsonl"
        )
        common = {"sessionId": session, "cwd": folder if isinstance(folder, int) else str(folder), "version": "2.1.100"}
        answer = {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "Understood."}]}
        said = [
            {"type": "user", "message": {"role": "user", "content": text}},
            {"type": "assistant", "message": answer},
        ]
        records = [{"type": "summary", "summary": "of another session", "leafUuid": "u"}]
        for number, one in enumerate(said):
            records.append(one | common | {"uuid": f"{session}{number}", "timestamp": at(days)})
        return self._write(path, records, days)

    def codex(self, folder, text, *, days=1, root=None, **meta):
        name = f"rollout-2026-11-21T20-40-27-01a1ffd6-c4aa-71c0-884d-{days:012}.jsonl"
        message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        meta |= {"id": f"c{days}", "cwd": str(folder), "instructions": "x" * 70_000}
        answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Understood."}]}
        records = [
            {"type": "session_meta", "payload": meta},
            {"type": "response_item", "payload": message},
            {"type": "event_msg", "payload": {"type": "user_message", "message": text}},
            {"type": "response_item", "payload": answer},
        ]
        path = (root or self.home / ".codex") / "sessions" / "2026" / "11" / "21" / name
        return self._write(path, [one | {"timestamp": at(days)} for one in records], days)

    def opencode(self, folder, root):
        path = root / "opencode" / "opencode.db"
        path.parent.mkdir(parents=True)
        with load_library().connect(path) as connection:
            connection.execute("CREATE TABLE session (directory, time_created, time_updated, parent_id)")
            row = (str(folder), NOW.timestamp() * 1000 - 1e6, NOW.timestamp() * 1000)
            connection.execute("INSERT INTO session VALUES (?, ?, ?, NULL), (?, ?, ?, 'x')", row * 2)
        connection.close()

    def openclaw(self, *folders, root=None):
        """A database with a session in each folder, and with one of a subagent."""
        path = (root or self.home / ".openclaw") / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
        path.parent.mkdir(parents=True)
        with load_library().connect(path) as connection:
            connection.execute("CREATE TABLE session_windows (session_id TEXT PRIMARY KEY, session_key TEXT)")
            connection.execute("CREATE TABLE transcript_events (session_id, seq, event_json, created_at)")
            for number, folder in enumerate((*folders, "/elsewhere")):
                key = "agent:main:subagent:x" if folder == "/elsewhere" else "agent:main:main"
                connection.execute("INSERT INTO session_windows VALUES (?, ?)", (f"s{number}", key))
                head = {"type": "session", "version": 4, "id": f"s{number}", "timestamp": at(2), "cwd": str(folder)}
                said = {"role": "user", "content": [{"type": "text", "text": f"Never use tabs in {number}."}]}
                message = {"type": "message", "id": f"m{number}", "parentId": None, "timestamp": at(1), "message": said}
                for seq, event in enumerate((head, message)):
                    moment = int(NOW.timestamp() * 1000) - 86_400_000 * (2 - seq)
                    row = (f"s{number}", seq, json.dumps(event), moment)
                    connection.execute("INSERT INTO transcript_events VALUES (?, ?, ?, ?)", row)
        connection.close()

    def _write(self, path, records, days):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(one) + "\n" for one in records))
        moment = (NOW - timedelta(days=days)).timestamp()
        os.utime(path, (moment, moment))
        return path

    def files(self):
        """All files but memoryd's state and git's own, by their content."""
        state = self.home / ".local" / "state"
        found = [path for path in self.home.rglob("*") if path.is_file() and not path.is_relative_to(state)]
        return {path: path.read_bytes() for path in found if ".git" not in path.parts or path.name == "exclude"}


def at(days):
    return (NOW - timedelta(days=days)).isoformat().replace("+00:00", "Z")
