"""What lets OpenClaw load memoryd's plugin, and lets it add to prompts, in its `openclaw.json`.

    {"plugins": {"entries": {"memoryd": {"enabled": true, "hooks": {"allowConversationAccess": true}}}}}

Where the file names the plugins that may be loaded (`plugins.allow`), it is one more of them. A file of another shape
is refused with what a person would put into it: it is not ours to lose.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memoryd.errors import RefusedError
from memoryd.interfaces import json_settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NAME = "memoryd"
_BY_HAND = (
    f'put this in by hand: "plugins": {{"entries": {{"{NAME}": {{"enabled": true, "hooks":'
    ' {"allowConversationAccess": true}}}}'
)


@dataclass(frozen=True, slots=True)
class OpenClawPlugins:
    """The entry of one plugin.

    Attributes:
        path: the file.
        before: what was kept of it, the newest first.
    """

    path: Path
    before: Sequence[bytes] = ()

    def put(self, old: bytes | None) -> bytes:
        """The file with the entry in it, what a person added to it kept; the same bytes where it is there already.

        Raises:
            RefusedError: the file is not of the shape it should be.
        """
        document = self._read(old)
        before = json.dumps(document)
        plugins = document.setdefault("plugins", {})
        entry = plugins.setdefault("entries", {}).setdefault(NAME, {})
        entry["enabled"] = True
        entry.setdefault("hooks", {})["allowConversationAccess"] = True
        if NAME not in (allowed := plugins.get("allow", [NAME])):
            allowed.append(NAME)
        if old is not None and json.dumps(document) == before:
            return old
        return json_settings.written(document, old)

    def take(self, old: bytes) -> bytes | None:
        """The file without the entry, None where nothing is left in it; the same bytes where it was not there.

        The plugin stays allowed where it was so before its entry was put in.

        Raises:
            RefusedError: as `put`.
        """
        document = self._read(old)
        plugins = document.get("plugins", {})
        if NAME not in plugins.get("entries", {}):
            return old
        del plugins["entries"][NAME]
        if NAME in (allowed := plugins.get("allow", [])) and not self._was_allowed():
            allowed.remove(NAME)
        json_settings.drop_empty(document, ("plugins", "entries"))
        return json_settings.written(document, old) if document else None

    def doubts(self, old: bytes | None) -> list[str]:
        """What a person looks at once the entry is taken away.

        Raises:
            RefusedError: as `put`.
        """
        plugins = self._read(old).get("plugins", {})
        if NAME not in plugins.get("entries", {}) or NAME not in plugins.get("allow", []):
            return []
        if self._was_allowed() is not None:
            return []
        what = f"plugins.allow of {self.path} names {NAME} no more, and nothing is kept that says"
        return [f"{what} whether it did before it was connected: put it back if so"]

    def _was_allowed(self) -> bool | None:
        """Whether the file allowed the plugin before it had the entry; None where nobody knows."""
        for data in self.before:
            with contextlib.suppress(RefusedError):
                plugins = self._read(data).get("plugins", {})
                if NAME not in plugins.get("entries", {}):
                    return NAME in plugins.get("allow", [])
        return None

    def _read(self, old: bytes | None) -> dict[str, Any]:
        document = json_settings.read(old, self.path, _BY_HAND)
        if not _has_shape(document.get("plugins", {})):
            raise RefusedError('holds something else under "plugins" than plugins', str(self.path), _BY_HAND)
        return document


def _has_shape(plugins: object) -> bool:
    if not isinstance(plugins, dict) or not isinstance(plugins.get("allow", []), list):
        return False
    entries = plugins.get("entries", {})
    entry = entries.get(NAME, {}) if isinstance(entries, dict) else None
    return isinstance(entry, dict) and isinstance(entry.get("hooks", {}), dict)
