"""Implement the tools of an agent's memory as plain functions; `server` adds the protocol.

The caller is the agent. So an agent in private mode gets answers without a grant, and each call is logged without
content. The process runs as the owner of the workspace, which protects the memory. A person with that user's rights
could pose as the agent, but could open its files as well.

All returned text is free of secrets and neutralized, and is between marks that ingest recognises. If such text comes
back in a transcript, it is not evidence.
"""

import re
from contextlib import ExitStack
from dataclasses import asdict
from datetime import date
from typing import Any

from memoryd.clock import Clock
from memoryd.config import Agent, Settings
from memoryd.database import reads
from memoryd.errors import MemorydError, NotFoundError, RefusedError, StateError
from memoryd.finding import excerpt
from memoryd.finding.excerpt import Excerpt, LineRange
from memoryd.finding.recall import Narrowing
from memoryd.interfaces.mcp import values
from memoryd.reading.scrubbing import Scrubber
from memoryd.recall.ranking import SESSION
from memoryd.requests import access, consolidating, memory_changes, scanner, searching
from memoryd.running.refining import KIND as REFINE
from memoryd.text.neutral import neutral_markdown, neutralize
from memoryd.transcripts.injected import CLOSE, OPEN, unmark

LONGEST_TEXT = 100_000  # characters of the text in one answer
_ABSOLUTE = re.compile(r"(?<![\w.~/])(?<!memory:)(?:~?/)+[^\s:;,'\"()<>]+")
_LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
_TURN = re.compile(r"^\[(\d+)\] .*\n(?:    .*\n)*", re.MULTILINE)
_WITHOUT = "memory_search searches all that is remembered, memory_get reads it, memory_update changes MEMORY.md"
OPEN_STATES = frozenset({"requested", "given"})
# Numbers in the answer of a refinement: tokens of the core, by how many it may still shrink, how many may be deleted,
# changes left, and tokens of details that the new text drops.
_COUNTED = ("core_tokens", "may_shrink_by", "may_delete", "changes_left", "lost_tokens")
_ASKS = ("id", "state", "uid", "purpose", "seconds", "requested_at", "expires_at")  # fields of an access request


class MemoryTools(ExitStack):
    """Give one agent access to its own memory. It is safe to use from several threads.

    `close` ends the scanner and the index.
    """

    def __init__(self, settings: Settings, agent: Agent) -> None:
        """Open the scanner and the index.

        Raises:
            RefusedError: The process does not run as the owner of the workspace.
        """
        super().__init__()
        access.require_agents_own(agent)
        self._settings = settings
        self.agent = agent
        self.scrubber: Scrubber = self.enter_context(scanner.open_scrubber(settings))
        self._recall = self.enter_context(searching.open_recall(settings, self.scrubber))

    def search(self, asked: values.SearchArguments) -> dict[str, Any]:
        """Return the hits of a search, the most relevant first."""
        after, before = (None if day is None else date.fromisoformat(day) for day in (asked.after, asked.before))
        narrowing = Narrowing(asked.tier, frozenset(asked.tags), after, before, asked.limit)
        searching.require_days(narrowing)
        hits = searching.search_with(self._recall, self.scrubber, self.agent, asked.query, narrowing)
        lines = ("path", "snippet", "why")
        return _mark_remembered(
            hits=[asdict(hit) | {name: _one_line(getattr(hit, name)) for name in lines} for hit in hits]
        )

    def get(self, asked: values.GetArguments) -> dict[str, Any]:
        """Return lines of a memory file, turns of a session, or a fact. A long text ends early, with `next_line`."""
        return self._lines(asked.path, LineRange(asked.first_line, asked.lines))

    def save(self, asked: values.SaveArguments) -> dict[str, Any]:
        """Write a note into today's daily file, and return the run."""
        return memory_changes.save(self._settings, self.agent, asked.text, by="agent")

    def update(self, asked: values.UpdateArguments) -> dict[str, Any]:
        """Change `MEMORY.md` if the guards allow it, and return the run."""
        return memory_changes.update(self._settings, self.agent, **asked.list_texts(), by="agent")

    def consolidate(self, _asked: values.RolloverArguments) -> dict[str, Any]:
        """Write all sessions so far to RECENT.md and the archive, and return the run."""
        done = consolidating.consolidate(self._settings, self.agent, by="agent")
        return done | {"files": [file["path"] for file in done["files"]]}

    def refine(self, tool: str, asked: values.Arguments) -> dict[str, Any]:
        """Run one refinement tool for the agent, and return its answer. Only a search works outside a refinement."""
        arguments = asked.model_dump_json(by_alias=True, exclude_none=True)
        row, answer = memory_changes.call_refinement_tool(self._settings, self.agent, tool, arguments)
        answered: dict[str, Any] = answer or {}
        said = {name: answered.get(name) for name in ("error", "allowed", "found", "note", *_COUNTED)}
        told: dict[str, Any] = {name: _one_line(one) if isinstance(one, str) else one for name, one in said.items()}
        told["new_ids"] = answered.get("new_ids", [])
        told["memories"] = [_one_line(line) for line in answered.get("memories", ())]
        if row is None:
            return _mark_remembered(over=False, **told)
        if answer is None and REFINE not in row["receipt"]:
            why = _one_line(row["error"] or row["why"] or row["state"])
            told |= {"error": f"there is no refinement, so {tool} did nothing: {why}", "allowed": _WITHOUT}
        told |= {"run": row["id"], "state": row["state"], "why": _one_line(row["why"] or "") or None}
        return _mark_remembered(over=answer is None, **told)

    def refinement_due(self) -> str:
        """Return a text that offers a refinement to the agent; empty if none is due."""
        tokens = memory_changes.core_size_if_due(self._settings, self.agent)
        if tokens is None:
            return ""
        target = self._settings.refine.target_tokens
        return (
            f" Your core memory has about {tokens:,} tokens, its target is {target:,}. You may refine it, or decline"
            " and do nothing: your first consolidate_memories, update_memory or delete_memory is your consent, and"
            " complete_refinement ends it."
        )

    def consent(self, asked: values.ConsentArguments) -> dict[str, Any]:
        """Return the open access requests and grants, or answer one request.

        Raises:
            RefusedError: The agent is not in private mode, so there is nothing to answer.
        """
        if self.agent.privacy == "open" and not access.list_grants(self._settings, self.agent):
            hint = "people need an access grant only in private mode (privacy: silo)"
            raise RefusedError("this memory is open to its owner: no access request is needed", self.agent.id, hint)
        with access.silo_of(self._settings, self.agent) as silo:
            if asked.request is not None:
                found = [silo.answer(asked.request, consents=asked.answer == "yes")]
            else:
                found = [one for one in silo.all() if one.state in OPEN_STATES]
        rows = [{name: getattr(one, name) for name in _ASKS} | {"purpose": _one_line(one.purpose)} for one in found]
        return _mark_remembered(requests=rows)

    def list_requests(self) -> str:
        """Return a text about people who ask to read this memory; empty if nobody does."""
        return "".join(f"\n{_one_line(line)}" for _, line in access.list_notices(self._settings, self.agent))

    # --- resources ----------------------------------------------------------------------------------------------------

    def resources(self) -> dict[str, str]:
        """Return the paths of the existing files that are offered as resources, by name."""
        today = Clock().now().astimezone(self._settings.zone).date()
        paths = {
            "core": "MEMORY.md",
            "today": f"memory/{today.isoformat()}.md",
            "recent": ".continuum/memory/RECENT.md",
        }
        return {name: path for name, path in paths.items() if self._is_there(path)}

    def read(self, name: str) -> str:
        """Return the text of a resource, between the marks. If it is too long, a last line says how to read the rest.

        Raises:
            NotFoundError: There is no such resource.
        """
        path = self.resources().get(name)
        if path is None:
            raise NotFoundError("there is no such resource now", f"memory://{name[:40]}", "resources/list has them")
        lines = self._lines(path, LineRange(1, values.MOST_LINES))
        rest = lines["next_line"]
        more = "" if rest is None else f"\n... memory_get {path} from line {rest} on has the rest"
        return f"{OPEN}\n{lines['text']}{more}\n{CLOSE}\n"

    def _is_there(self, path: str) -> bool:
        try:
            return excerpt.read_shown(self.agent, path) is not None
        except (RefusedError, StateError):
            return False  # private, not a regular file, or a file with several hard links

    def _lines(self, path: str, span: LineRange) -> dict[str, Any]:
        found = excerpt.get(
            self.agent, path, span, database=reads.database_path(self._settings), redact=self.scrubber.redact_own
        )
        units = _units(found)
        told: list[str] = []
        room = LONGEST_TEXT
        for _, text in units:
            clean = unmark(neutral_markdown(text))
            if told and len(clean) > room:
                break
            told.append(clean[:room])
            room -= len(clean)
        rest = [number for number, _ in units[len(told) :]]
        last = rest[0] - 1 if rest else found.last_line
        return _mark_remembered(
            path=_one_line(found.path),
            first_line=found.first_line,
            last_line=last,
            total_lines=found.total_lines,
            text="".join(told),
            next_line=last + 1 if last < found.total_lines else None,
        )

    # --- errors -------------------------------------------------------------------------------------------------------

    def describe_error(self, error: MemorydError) -> str:
        """Return an error as text for an agent: what, where, and what to do.

        Paths outside the workspace are left out.
        """
        return unmark(neutralize(_ABSOLUTE.sub("(a path)", str(error).replace(f"{self.agent.workspace}/", ""))))


def _units(found: Excerpt) -> list[tuple[int, str]]:
    """Return the lines of an excerpt with their numbers, or the turns if it is of a session."""
    if found.path.startswith(f"{SESSION}:"):
        return [(int(match[1]), match[0]) for match in _TURN.finditer(found.text)]
    return list(enumerate(_LINE.findall(found.text), found.first_line))


def _mark_remembered(**told: Any) -> dict[str, Any]:
    """Build a result of remembered text, with the marks as its first and last value."""
    return {"about": OPEN, **told, "until": CLOSE}


def _one_line(text: str) -> str:
    return unmark(neutralize(text))
