"""What lets OpenClaw load memoryd's plugin, and lets it add to prompts, in its `openclaw.json`.

    {"plugins": {"entries": {"memoryd": {"enabled": true, "hooks": {"allowConversationAccess": true}}}}}

Where the file names the plugins that may be loaded (`plugins.allow`), it is one more of them.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memoryd.errors import RefusedError
from memoryd.interfaces import json_settings
from memoryd.interfaces.json_settings import JsonEdit

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "memoryd"
_BY_HAND = (
    f'put this in by hand: "plugins": {{"entries": {{"{NAME}": {{"enabled": true, "hooks":'
    ' {"allowConversationAccess": true}}}}'
)


@dataclass(frozen=True, slots=True)
class OpenClawPlugins(JsonEdit):
    """The entry of one plugin."""

    before: Sequence[bytes] = ()  # what was kept of it, the newest first

    def put_into(self, document: dict[str, Any]) -> None:
        plugins = document.setdefault("plugins", {})
        entry = plugins.setdefault("entries", {}).setdefault(NAME, {})
        entry["enabled"] = True
        entry.setdefault("hooks", {})["allowConversationAccess"] = True
        if NAME not in (allowed := plugins.get("allow", [NAME])):
            allowed.append(NAME)

    def take_from(self, document: dict[str, Any]) -> bool:
        """Take the entry out; the plugin stays allowed where it was so before its entry was put in."""
        plugins = document.get("plugins", {})
        if NAME not in plugins.get("entries", {}):
            return False
        del plugins["entries"][NAME]
        if NAME in (allowed := plugins.get("allow", [])) and not self._was_allowed():
            allowed.remove(NAME)
        json_settings.drop_empty(document, ("plugins", "entries"))
        return True

    def usual(self) -> str:
        return 'plugins under "plugins"'

    def by_hand(self) -> str:
        return _BY_HAND

    def doubts(self, old: bytes | None) -> list[str]:
        """What a person looks at once the entry is taken away."""
        with self.expected():
            plugins = self.read(old).get("plugins", {})
            both = NAME in plugins.get("entries", {}) and NAME in plugins.get("allow", [])
        if not both or self._was_allowed() is not None:
            return []
        what = f"plugins.allow of {self.path} names {NAME} no more, and nothing is kept that says"
        return [f"{what} whether it did before it was connected: put it back if so"]

    def _was_allowed(self) -> bool | None:
        """Whether the file allowed the plugin before it had the entry; None where nobody knows."""
        for data in self.before:
            with contextlib.suppress(RefusedError), self.expected():
                plugins = self.read(data).get("plugins", {})
                if NAME not in plugins.get("entries", {}):
                    return NAME in plugins.get("allow", [])
        return None
