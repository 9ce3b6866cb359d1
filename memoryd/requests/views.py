"""Decide in one place what a person at the admin page may see. Every list goes through a `PersonView`.

`show` returns a whole row, or only the named values that reveal nothing about the content of memory. A value that
nobody named is hidden. So a new column of a table stays hidden until somebody names it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memoryd.config import Agent, Settings
from memoryd.errors import NotFoundError, RefusedError
from memoryd.requests import access
from memoryd.requests.access import Person

_MOST_NAMED = 200  # the most rows that one audit entry names
# Ids that memoryd itself generates. Other ids, such as those of sessions, come from agents' files.
_OWN_ID = re.compile(
    r"(profile:)?(work|personal|topOfMind|recent|earlier|background)|(core|fact|jrnl|grant)_[0-9a-f]{8}"
    r"|((access|proposal|run|grant):[a-z_: -]*)?(run-\d{8}T\d{6}-[0-9a-f]{6}|(core|fact|jrnl|grant)_[0-9a-f]{8})?"
)
_SHORT = 12  # hex digits of the hash that replaces another id


@dataclass(frozen=True, slots=True)
class PersonView:
    """Hold the person and the settings. Everything that a page shows about an agent passes through it."""

    settings: Settings
    person: Person

    def find_agent(self, agent_id: str) -> Agent:
        """Return an agent of the configuration; raise a NotFoundError if there is none."""
        found = self.settings.find_agent(agent_id)
        if found is None:
            raise NotFoundError("there is no such agent", hint="the overview lists them")
        return found

    def is_blind(self, agent: Agent | None, *parts: str) -> bool:
        """Return True if the person may not see these parts now. This reads nothing, so nothing is audited.

        Nobody may see an agent that is not in the configuration (None).
        """
        return agent is None or not access.may_see(self.settings, agent, parts)

    def reads(self, agent: Agent, what: str, *parts: str) -> bool:
        """Return True if the person may see the content now. A read under a grant is audited."""
        return access.may_read(self.settings, agent, what, parts)

    def require(self, agent: Agent, what: str, *parts: str) -> None:
        """Raise an error unless the person may see the content that an act needs. A read under a grant is audited.

        Raises:
            RefusedError: The person may not see the content.
        """
        if not self.reads(agent, what, *parts):
            raise RefusedError("this shows or changes what the agent remembers", agent.id, "request access first")

    def show(
        self, agent: Agent | None, what: str, rows: Sequence[Mapping[str, Any]], keep: Iterable[str], *parts: str
    ) -> list[dict[str, Any]]:
        """Return rows as this person may see them: whole, or only with the values in `keep`.

        Args:
            agent: The agent of the rows; None hides them.
            what: The kind of rows, for the audit, which names each row.
            rows: The rows, each with an `id`.
            keep: Names of values that anybody may see: memoryd's own ids, sizes, times, flags, counts, verdicts.
            parts: The kinds of memory, or the run, that the rows belong to.
        """
        named = " ".join(str(row["id"]) for row in rows[:_MOST_NAMED] if row.get("id"))
        if agent is not None and rows and self.reads(agent, f"{what} {named}".strip(), *parts):
            return [dict(row) for row in rows]
        return self.hide(rows, keep)

    def hide(self, rows: Sequence[Mapping[str, Any]], keep: Iterable[str]) -> list[dict[str, Any]]:
        """Return rows with only the values in `keep`."""
        names = frozenset(keep)
        return [{name: self.mask(name, value) for name, value in row.items() if name in names} for row in rows]

    def mask(self, name: str, value: Any) -> Any:
        """Return a value for a person without access. An id that memoryd did not generate is replaced by a hash."""
        if name in {"id", "memory_id", "session_id"} and isinstance(value, str) and not _OWN_ID.fullmatch(value):
            kind = value.partition(":")[0] if value.startswith(("file:", "watermark:", "session:")) else "id"
            return f"{kind}:{access.compute_hmac(self.settings, value.encode())[:_SHORT]}"
        return value
