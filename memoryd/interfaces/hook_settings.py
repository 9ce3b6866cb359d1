"""The hooks of Claude Code, Codex and Gemini CLI, in a JSON file that holds other settings as well.

{"hooks": {"SessionStart": [{"matcher": …, "hooks": [{"type": "command", "command": "…", "timeout": 5}]}]}}
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from memoryd.interfaces.json_settings import JsonEdit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class HookSettings(JsonEdit):
    """memoryd's hooks of one tool, for one workspace."""

    tool: str  # as `memoryd hook` calls it
    workspace: Path  # whose hooks they are; those of another one stay
    hooks: Mapping[str, Mapping[str, Any]]  # by the tool's name of the event, each with its `command`

    def put_into(self, document: dict[str, Any]) -> None:
        events = document.setdefault("hooks", {})
        for name, hook in self.hooks.items():
            groups = events.setdefault(name, [])
            own = [(group, place) for group in groups for place, one in enumerate(group["hooks"]) if self._is_ours(one)]
            if own:
                group, place = own[0]
                group["hooks"][place] = dict(hook)
            else:
                groups.append({"hooks": [dict(hook)]})

    def take_from(self, document: dict[str, Any]) -> bool:
        events = document.get("hooks", {})
        found = False
        for name, groups in list(events.items()):
            for group in groups[:]:
                left = [one for one in group["hooks"] if not self._is_ours(one)]
                if len(left) == len(group["hooks"]):
                    continue
                found, group["hooks"] = True, left
                if not left:
                    groups[:] = [one for one in groups if one is not group]
                if not groups:
                    del events[name]
        if found and not events:
            del document["hooks"]
        return found

    def usual(self) -> str:
        return 'lists of hooks under "hooks"'

    def _is_ours(self, hook: Mapping[str, Any]) -> bool:
        try:
            words = shlex.split(str(hook.get("command", "")))
        except ValueError:
            return False
        pairs = list(pairwise(words))
        return ("hook", self.tool) in pairs and ("--workspace", str(self.workspace)) in pairs

    def by_hand(self) -> str:
        wanted = {name: [{"hooks": [dict(hook)]}] for name, hook in self.hooks.items()}
        return f'put this in by hand: "hooks": {json.dumps(wanted, ensure_ascii=False)}'
