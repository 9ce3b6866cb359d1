"""Read the task list of an agent from the calls of its task tools."""

import re
from typing import Any

from memoryd.text.neutral import neutralize
from memoryd.transcripts.fields import first_text, mappings, shown_arguments

_WHOLE = frozenset(["todowrite", "update_plan", "write_todos", "todo_write"])  # each call has the whole task list
_BY_TASK = frozenset(["taskcreate", "taskupdate"])
_CREATED = re.compile(r"Task #(\w+) created")
_TEXTS = ("content", "step", "subject", "title", "task", "description")
_DONE = frozenset(["completed", "done"])
_DROPPED = frozenset(["cancelled", "canceled", "deleted"])
_MOST_SHOWN = 4
_LONGEST = 90


def keeps_tasks(tool: str) -> bool:
    """Return True if the tool with this name maintains a task list."""
    return tool.casefold() in _WHOLE | _BY_TASK


class TaskList:
    """Follow an agent's task list from call to call."""

    def __init__(self) -> None:
        """Begin with an empty list."""
        self._tasks: dict[str, tuple[str, str]] = {}  # by id: the text and the status of the task

    def take(self, tool: str, call: str, result: str) -> bool:
        """Update the list from a call and its result; return True if it was a call that maintains the list."""
        name = tool.casefold()
        if name in _WHOLE:
            return self._replace(call)
        given = shown_arguments(call)
        if name == "taskcreate" and (created := _CREATED.search(result)):
            self._tasks[created[1]] = (first_text(given, _TEXTS), "pending")
            return True
        held = self._tasks.get(str(given.get("taskId"))) if name == "taskupdate" else None
        if held is None:
            return False
        self._tasks[str(given["taskId"])] = (first_text(given, _TEXTS) or held[0], str(given.get("status") or held[1]))
        return True

    def render(self) -> str:
        """Return the list as one line, `5 of 7 done; open: X; Y`; empty if there is no task."""
        left = [(text, status) for text, status in self._tasks.values() if status not in _DROPPED and text]
        waiting = [text for text, status in left if status not in _DONE]
        if not left:
            return ""
        told = f"{len(left) - len(waiting)} of {len(left)} done"
        shown = [neutralize(text)[:_LONGEST].strip() for text in waiting[:_MOST_SHOWN]]
        rest = f" and {len(waiting) - len(shown)} more" if len(waiting) > len(shown) else ""
        return f"{told}; open: {'; '.join(shown)}{rest}" if shown else told

    def _replace(self, call: str) -> bool:
        given = shown_arguments(call)
        found: list[dict[str, Any]] = next(
            (items for key in ("todos", "plan") if (items := mappings(given.get(key)))), []
        )
        if call.rstrip().endswith("characters left out]"):
            found = []  # a shortened call must not look like the whole list
        self._tasks = {str(at): (first_text(one, _TEXTS), str(one.get("status"))) for at, one in enumerate(found)}
        return True
