"""Decide who may see the memory of an agent in private mode.

The memory of an `open` agent is visible to its owner, the user to whom the workspace belongs. The memory of a `silo`
agent is visible only under a grant. A person asks for a grant with a purpose and a duration. The agent consents in a
file of its workspace. Each read is audited.

The consent file, `.continuum/memory/CONSENT.md`, gets a line for each request. The agent answers in its brackets:

    - [ ] grant_0a1b2c3d: a person (uid 1000) asks to read this memory for 30m: look for a wrong address

`[x]` consents, and the duration begins when memoryd reads the answer. `[-]` declines, or revokes an earlier consent.
After a day, a request can no longer be answered. The brackets express the agent's will, but are no protection: a person
who may write to the workspace can read its files without memoryd. The agent can also answer by its tool, without the
file.
"""

import re
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from sqlalchemy import Connection, Engine

from memoryd.clock import Clock, moment_of
from memoryd.config import Agent
from memoryd.config_values import duration_text
from memoryd.database import grants, sqlite
from memoryd.database.grants import Grant
from memoryd.errors import NotFoundError, RefusedError
from memoryd.files import appends, regular
from memoryd.files.trust import is_owner
from memoryd.files.workspace import lock_workspace
from memoryd.text.neutral import neutralize

CONSENT_FILE = "CONSENT.md"
PATH = f".continuum/memory/{CONSENT_FILE}"
LONGEST = timedelta(hours=24)
ANSWERED_WITHIN = timedelta(hours=24)
_TITLE = "# Consent\n\nAnswer in the brackets: [x] lets the person read what you remember, [-] does not.\n\n"
PARTS = ("core", "fact", "profile", "journal", "runs", "session", "settings")  # parts that a request may name
_RUN = re.compile(r"run-\d{8}T\d{6}-[0-9a-f]{6}")
_LINE = re.compile(r"^- \[([xX-])\] (grant_[0-9a-f]{8})\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class AgentGrants:
    """Manage the grants of one agent, on behalf of one person."""

    engine: Engine
    agent: Agent
    clock: Clock
    uid: int  # the user id of the person at the command line, or of the process of the admin page
    redact: Callable[[str], str]
    person: str = ""  # the login name of the person on the admin page
    owns: bool = True  # the user of this process counts as the owner if the workspace is theirs

    def ask(self, purpose: str, span: timedelta, scope: Sequence[str] = ()) -> Grant:
        """Ask the agent for a grant and return the request.

        Args:
            purpose: the reason why the person wants to read the memory.
            span: the duration of the grant, at most 24 hours.
            scope: names in `PARTS` or ids of runs; empty means the whole memory.

        Raises:
            RefusedError: the purpose is empty, or the duration or the scope is invalid.
        """
        clean = neutralize(self.redact(purpose))
        if not clean:
            raise RefusedError("the purpose is empty", hint='say what for: --purpose "…"')
        if not timedelta(0) < span <= LONGEST:
            raise RefusedError("an access grant lasts longer than 0 and at most 24h", hint="--for 30m")
        if unknown := [one for one in scope if one not in PARTS and not _RUN.fullmatch(one)]:
            raise RefusedError(
                f"{unknown[0]!r} is not a part of a memory", hint=f"{', '.join(PARTS)}, or the id of a run"
            )
        seconds = max(1, int(span.total_seconds()))
        grant = Grant(f"grant_{secrets.token_hex(4)}", self.agent.id, self.uid, clean, seconds, self.clock.text())
        grant = replace(grant, person=self.person, scope=" ".join(scope))
        line = f"- [ ] {grant.id}: {describe_request(grant)}\n"
        with lock_workspace(self.agent.workspace) as place:
            sqlite.write(self.engine, grants.write, grant, "grant request", self.actor, grant.requested_at)
            entry = place.continuum / CONSENT_FILE
            old = regular.read(entry) or b""
            lead = "\n" if old and not old.endswith(b"\n") else ""
            appends.append(entry, (lead + line).encode(), _TITLE.encode())
        return grant

    @property
    def actor(self) -> str:
        """Return the person's name for the audit; on the admin page, it has the login name."""
        return f"admin:{self.person}" if self.person else "human"

    def all(self) -> list[Grant]:
        """Return the agent's grants and requests, newest first, after new answers in the consent file are applied."""
        found = sqlite.read(self.engine, grants.of_agent, self.agent.id)
        data = (regular.read_in(self.agent.workspace, PATH) or b"") if found else b""
        answers = {match[2]: match[1].lower() for match in _LINE.finditer(data.decode("utf-8", "replace"))}
        if any(self._state(grant, answers) != grant.state for grant in found):
            # The owner of the file, who may be a person, counts as the author of the answer.
            writer = (self.agent.workspace / PATH).stat().st_uid
            found = sqlite.write(self.engine, self._take, answers, f"file:uid {writer}")
        return found

    def revoke(self, grant_id: str) -> Grant:
        """End a grant, or withdraw a request.

        Raises:
            NotFoundError: there is no such active grant or open request.
        """
        with sqlite.begin_write(self.engine) as connection:
            found = [one for one in grants.of_agent(connection, self.agent.id) if one.id == grant_id]
            if not found or found[0].state not in {"requested", "given"}:
                raise NotFoundError(f"there is no grant {grant_id!r} to revoke", hint="memoryd grant list")
            now = self.clock.text()
            revoked = replace(found[0], state="revoked", decided_at=now)
            grants.write(connection, revoked, "grant revoked", self.actor, now)
        return revoked

    def answer(self, grant_id: str, *, consents: bool) -> Grant:
        """Answer a request on behalf of the agent, which called its tool; a refusal also ends an active grant.

        Raises:
            NotFoundError: there is no such request, or the answer would change nothing.
        """
        found = next((one for one in self.all() if one.id == grant_id), None)
        state = None if found is None else self._state(found, {grant_id: "x" if consents else "-"})
        if found is None or state == found.state:
            raise NotFoundError(f"there is no open request {grant_id!r}", hint="without an id, the tool lists them")
        answered = sqlite.write(self.engine, self._take, {grant_id: "x" if consents else "-"}, "agent")
        return next(one for one in answered if one.id == grant_id)

    def find_active(self, parts: Collection[str] = ()) -> Grant | None:
        """Return a grant under which the person may read these parts now; None if there is none."""
        now = self.clock.text()
        mine = (grant for grant in self.all() if grant.is_active(self.uid, now, self.person))
        return next((grant for grant in mine if grant.covers(parts)), None)

    def may_read(self, what: str, parts: Collection[str] = ()) -> bool:
        """Return True if the person may see content now; a read under a grant is audited as `what`."""
        if self.agent.privacy == "open" and self.owns:
            return is_owner(self.agent.workspace)
        active = self.find_active(parts)
        if active is None:
            return False
        sqlite.write(self.engine, grants.note_read, active, what, self.clock.text(), self.actor)
        return True

    def _take(self, connection: Connection, answers: dict[str, str], actor: str) -> list[Grant]:
        """Apply the agent's answers; return the grants in their new state."""
        now = self.clock.text()
        for grant in grants.of_agent(connection, self.agent.id):
            state = self._state(grant, answers)
            if state != grant.state:
                ends = self.clock.text(ahead=timedelta(seconds=grant.seconds)) if state == "given" else grant.expires_at
                answered = replace(grant, state=state, decided_at=now, expires_at=ends)
                grants.write(connection, answered, f"grant {state}", actor, now)
        return grants.of_agent(connection, self.agent.id)

    def _state(self, grant: Grant, answers: dict[str, str]) -> str:
        """Return the state of a grant after an answer; an active grant can only be revoked."""
        answer = answers.get(grant.id)
        in_time = self.clock.now() - moment_of(grant.requested_at) <= ANSWERED_WITHIN
        if grant.state == "requested" and answer == "x" and in_time:
            return "given"
        if answer == "-":
            return {"requested": "declined", "given": "revoked"}.get(grant.state, grant.state)
        return grant.state


def describe_request(grant: Grant) -> str:
    """Return one line for the agent: who asks for what, for how long, and why."""
    who = f"{grant.person}, a person" if grant.person else "a person"
    what = f"these parts of this memory ({grant.scope})" if grant.scope else "this memory"
    told = duration_text(timedelta(seconds=grant.seconds))
    known = f" (uid {grant.uid})" if grant.uid >= 0 else ""  # the id of a person on another machine is unknown
    return f"{who}{known} asks to read {what} for {told}: {grant.purpose}"
