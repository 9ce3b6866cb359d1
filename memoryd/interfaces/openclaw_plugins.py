"""What lets OpenClaw load memoryd's plugin, and lets it add to prompts, in its `openclaw.json`.

    {"plugins": {"entries": {"memoryd": {"enabled": true, "hooks": {"allowConversationAccess": true}}}}}

Where the file names the plugins that may be loaded (`plugins.allow`), it is one more of them. A file of another shape
is refused with what a person would put into it: it is not ours to lose.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memoryd.errors import RefusedError
from memoryd.interfaces import json_settings

if TYPE_CHECKING:
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
    """

    path: Path

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

        Raises:
            RefusedError: as `put`.
        """
        document = self._read(old)
        plugins = document.get("plugins", {})
        if NAME not in plugins.get("entries", {}):
            return old
        del plugins["entries"][NAME]
        if NAME in (allowed := plugins.get("allow", [])):
            allowed.remove(NAME)
        json_settings.drop_empty(document, ("plugins", "entries"))
        return json_settings.written(document, old) if document else None

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
