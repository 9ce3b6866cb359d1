"""The hooks of Claude Code, Codex and Gemini CLI, in a JSON file that holds other settings as well.

    {"hooks": {"SessionStart": [{"matcher": …, "hooks": [{"type": "command", "command": "…", "timeout": 5}]}]}}

A file of another shape is refused with what a person would put into it: it is not ours to lose.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from memoryd.errors import RefusedError
from memoryd.interfaces import json_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class HookSettings:
    """memoryd's hooks of one tool, for one workspace.

    Attributes:
        path: the file.
        tool: as `memoryd hook` calls it.
        workspace: whose hooks they are; those of another one stay.
        hooks: by the tool's name of the event, each with its `command`.
    """

    path: Path
    tool: str
    workspace: Path
    hooks: Mapping[str, Mapping[str, Any]]

    def put(self, old: bytes | None) -> bytes:
        """The file with the hooks in it; the same bytes where they are there already.

        Raises:
            RefusedError: the file is not of the shape it should be.
        """
        document = self._read(old)
        before = json.dumps(document)
        events = document.setdefault("hooks", {})
        for name, hook in self.hooks.items():
            groups = events.setdefault(name, [])
            own = [(group, place) for group in groups for place, one in enumerate(group["hooks"]) if self._is_ours(one)]
            if own:
                group, place = own[0]
                group["hooks"][place] = dict(hook)
            else:
                groups.append({"hooks": [dict(hook)]})
        return json_settings.written(document, old) if old is None or json.dumps(document) != before else old

    def take(self, old: bytes) -> bytes | None:
        """The file without the hooks, None where nothing is left in it; the same bytes where they were not there.

        Raises:
            RefusedError: as `put`.
        """
        document = self._read(old)
        events = document.get("hooks", {})
        found = False
        for name, groups in list(events.items()):
            for group in list(groups):
                left = [one for one in group["hooks"] if not self._is_ours(one)]
                if len(left) == len(group["hooks"]):
                    continue
                found, group["hooks"] = True, left
                if not left:
                    groups[:] = [one for one in groups if one is not group]
                if not groups:
                    del events[name]
        if not found:
            return old
        if not events:
            del document["hooks"]
        return json_settings.written(document, old) if document else None

    def _is_ours(self, hook: Mapping[str, Any]) -> bool:
        try:
            words = shlex.split(str(hook.get("command", "")))
        except ValueError:
            return False
        pairs = list(pairwise(words))
        return ("hook", self.tool) in pairs and ("--workspace", str(self.workspace)) in pairs

    def _read(self, old: bytes | None) -> dict[str, Any]:
        document = json_settings.read(old, self.path, self._by_hand())
        if not _has_shape(document):
            what = 'holds something else under "hooks" than lists of hooks'
            raise RefusedError(what, str(self.path), self._by_hand())
        return document

    def _by_hand(self) -> str:
        wanted = {name: [{"hooks": [dict(hook)]}] for name, hook in self.hooks.items()}
        return f'put this in by hand: "hooks": {json.dumps(wanted, ensure_ascii=False)}'


def _has_shape(document: Mapping[str, Any]) -> bool:
    events = document.get("hooks", {})
    return isinstance(events, dict) and all(
        isinstance(groups, list)
        and all(
            isinstance(group, dict)
            and isinstance(group.get("hooks"), list)
            and all(isinstance(one, dict) for one in group["hooks"])
            for group in groups
        )
        for groups in events.values()
    )
