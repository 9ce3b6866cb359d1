"""A small OpenCode: a database with its tables, written as it writes it. Run as a program, it is a second process."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from memoryd.database.library import load_library

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
CREATE TABLE session (id text PRIMARY KEY, project_id text, parent_id text, directory text NOT NULL, title text,
    time_created integer NOT NULL, time_updated integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
    time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
    time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
CREATE INDEX part_message_id_id_idx ON part (message_id, id);
"""


class OpenCode:
    """Writes sessions; each call is one transaction."""

    def __init__(self, path: Path | str, mode: str = "WAL", schema: str = SCHEMA) -> None:
        self.connection = load_library().connect(str(path), isolation_level=None)
        self.connection.execute(f"PRAGMA journal_mode={mode}")
        self.connection.executescript(schema.replace("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ").replace(
            "CREATE INDEX ", "CREATE INDEX IF NOT EXISTS "))  # fmt: skip
        self.time = int(time.time() * 1000)

    def run(self, sql: str, *values: Any) -> None:
        self.connection.execute(sql, values)

    def session(self, name: str = "a", *, parent: str | None = None, folder: str = "/home/ann/shop") -> str:
        self.run(
            "INSERT INTO session VALUES (?, 'p', ?, ?, '', ?, ?)", f"ses_{name}", parent, folder, self.time, self.time
        )
        return f"ses_{name}"

    def message(self, session: str, number: int, role: str, **data: Any) -> str:
        self.time += 1
        told = {"role": role, "time": {"created": self.time}, **data}
        name = f"msg_{session}_{number:06}"
        self.run(
            "INSERT INTO message VALUES (?, ?, ?, ?, ?)", name, session, self.time, self.time, json.dumps(told)
        )  # fmt: skip
        return name

    def part(self, message: str, number: int, kind: str, **data: Any) -> str:
        name = f"prt_{message}_{number:03}"
        told = json.dumps({"type": kind, **data})
        self.run("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?)", name, message, "", self.time, self.time, told)
        return name

    def prompt(self, session: str, number: int, text: str) -> str:
        message = self.message(session, number, "user")
        self.part(message, 0, "text", text=text)
        return message

    def begin_answer(self, session: str, number: int, text: str) -> str:
        message = self.message(session, number, "assistant", modelID="m")
        self.part(message, 0, "text", text=text)
        return message

    def end_answer(self, message: str, text: str, **more: Any) -> None:
        self.part(message, 0, "text", text=text)
        told = {"role": "assistant", "modelID": "m", "time": {"created": self.time, "completed": self.time}, **more}
        self.run("UPDATE message SET data = ? WHERE id = ?", json.dumps(told), message)

    def exchange(self, session: str, number: int) -> None:
        """One prompt and its answer, which is written piece by piece."""
        self.prompt(session, 2 * number, f"prompt {session} {number}")
        answer = self.begin_answer(session, 2 * number + 1, "")
        for piece in ("ans", "answ"):
            self.part(answer, 0, "text", text=piece)
        self.end_answer(answer, f"answer {session} {number}", tokens={"total": 1000 + number, "input": 1})

    def close(self) -> None:
        self.connection.close()


def main() -> None:
    """Write exchanges of two sessions, until all are written; then wait for the word to end."""
    path, count = sys.argv[1:]
    program = OpenCode(path)
    for name in ("x", "y"):
        program.session(name)
    for number in range(int(count)):
        for name in ("x", "y"):
            program.exchange(f"ses_{name}", number)
        if number % 10 == 0:
            print(number, flush=True)  # noqa: T201 - the test reads on
    print("done", flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    main()
