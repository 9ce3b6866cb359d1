"""Decide who may see an agent's memory, and replace texts that a person may not see."""

from __future__ import annotations

import hashlib
import hmac
import os
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from memoryd import clock
from memoryd.database import reads
from memoryd.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from sqlalchemy import Engine

    from memoryd.config import Agent, Settings
    from memoryd.database.grants import Grant
    from memoryd.finding.access_grants import AgentGrants

HINT = 'memoryd grant request --purpose "…" --for 30m'
_MOST_NAMED = 20
KEY = "texts.key"  # file in the state folder with the key for hashes of hidden texts


class Person(NamedTuple):
    """Hold the person who makes the requests. By default it is the user of this process, at the command line."""

    name: str = ""
    is_here: bool = True  # whether this is the user of this process, logged in on this machine
    owns: bool = True  # whether they count as the owner of open agents, if the user of this process owns the workspace
    page: str = ""  # the admin page that they look at; empty elsewhere

    @property
    def actor(self) -> str:
        """Return the person's name in the audit."""
        return f"admin:{self.name}" if self.name else "human"


def find_user_name() -> str:
    """Return the login name of the user of this process, or `uid-N` for a user without a name."""
    from memoryd.files.trust import find_user

    return find_user(os.getuid()) or f"uid-{os.getuid()}"


_PERSON: ContextVar[Person | None] = ContextVar("person", default=None)


@contextmanager
def act_as(person: Person) -> Iterator[None]:
    """Make all requests in this context, in this thread, those of `person`."""
    token = _PERSON.set(person)
    try:
        yield
    finally:
        _PERSON.reset(token)


def current_person() -> Person:
    """Return the person of the present request."""
    return _PERSON.get() or Person()


def may_read(settings: Settings, agent: Agent, what: str, parts: Collection[str] = ()) -> bool:
    """Return True if the person may see the agent's content now. A read under a grant is audited.

    `what` names the command or the rows of a page in the audit. `parts` names the kinds of memory, or the run, if only
    part is read.
    """
    page = current_person().page
    return _is_open(settings, agent, lambda silo: silo.may_read(f"{page}: {what}" if page else what, parts))


def may_see(settings: Settings, agent: Agent, parts: Collection[str] = ()) -> bool:
    """Return True if `may_read` would. This shows nothing, so it is not audited."""
    return _is_open(settings, agent, lambda silo: silo.find_active(parts) is not None)


def _is_open(settings: Settings, agent: Agent, ask: Callable[[AgentGrants], bool]) -> bool:
    """Return True for the owner of an open agent. Otherwise ask the agent's grants; without grants return False."""
    from memoryd.files.trust import is_owner

    if agent.privacy == "open" and current_person().owns:
        return is_owner(agent.workspace)
    if agent.id not in _list_asked(settings):
        return False
    with _open_grants(settings, agent) as silo:
        return ask(silo)


def _list_asked(settings: Settings) -> set[str]:
    """Return the ids of agents with an access request that is open or was granted, including expired grants."""
    sql = """SELECT DISTINCT agent_id FROM "grant" WHERE state IN ('requested', 'given')"""
    return {row["agent_id"] for row in reads.ask_for_list(settings, reads.DatabaseReader.rows, sql)}


def require(settings: Settings, agent: Agent, what: str) -> None:
    """Raise a RefusedError unless the person may see the agent's content. `what` is as in `may_read`."""
    if not may_read(settings, agent, what):
        raise RefusedError("what the agent remembers is its own", agent.id, HINT)


def require_agents_own(agent: Agent) -> None:
    """Raise a RefusedError unless this process runs as the owner of the workspace, as the agent's own program does."""
    from memoryd.files.trust import is_owner

    if not is_owner(agent.workspace):
        hint = "its own program runs as the user its workspace belongs to"
        raise RefusedError("what the agent remembers is its own", agent.id, hint)


def show_rows(
    settings: Settings, agent: Agent, what: str, rows: Sequence[dict[str, Any]], *texts: str
) -> list[dict[str, Any]]:
    """Return the rows as this person may see them.

    Without permission, the values named in `texts` are None. `bytes` and `hmac` then describe the first of them.
    """
    if may_read(settings, agent, what):
        return list(rows)
    return [_hide_texts(settings, row, texts) for row in rows]


def _hide_texts(settings: Settings, row: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    content = str(row.get(texts[0]) or "").encode()
    # The plain hash of a short text could be reversed by trying texts.
    told = {"bytes": len(content), "hmac": compute_hmac(settings, content)}
    return row | dict.fromkeys((name for name in texts if name in row), None) | told


def compute_hmac(settings: Settings, text: bytes) -> str:
    """Return the HMAC of a hidden text as hex digits.

    Equal texts have equal values; the key stays in the state folder.
    """
    return hmac.new(_read_key(settings.state_dir / KEY), text, hashlib.sha256).hexdigest()


@lru_cache(maxsize=8)
def _read_key(path: Path) -> bytes:
    from memoryd.files.token_file import read_or_make

    return read_or_make(path).encode()


def note_act(settings: Settings, agent: Agent, act: str, target: str, *, is_blind: bool) -> None:
    """Audit a person's act on the admin page: who, what, on which id, and whether they could not see the content."""
    from memoryd.requests import opening

    actor, name = current_person().actor, f"admin {act}{' (blind)' if is_blind else ''}"
    opening.note(settings, agent, name, f"act:{target or act}", actor, act=act, of=target, by=actor, blind=is_blind)


def text_of(value: object, row: dict[str, Any]) -> str:
    """Return a text of a row from `show_rows` for people. If it is hidden, return a note with its size."""
    return f"({row['bytes']} bytes, not shown: {HINT})" if value is None and "bytes" in row else str(value)


@contextmanager
def silo_of(settings: Settings, agent: Agent) -> Iterator[AgentGrants]:
    """Open the grants of an agent for a change by the person who asks, with the scanner for the purpose's text."""
    from memoryd.requests import opening

    with opening.open_state(settings, agent) as (engine, scrubber):
        yield _grants_of(engine, agent, lambda text: scrubber.redact([text])[0])


@contextmanager
def _open_grants(settings: Settings, agent: Agent) -> Iterator[AgentGrants]:
    """Open the grants of an agent for reading. This needs no scanner."""
    from memoryd.requests import opening

    with opening.open_beside(settings) as engine:
        yield _grants_of(engine, agent, str)


def _grants_of(engine: Engine, agent: Agent, redact: Callable[[str], str]) -> AgentGrants:
    """Return the grants of an agent. First, report to the agent what was read under grants that have ended."""
    from memoryd.finding.access_grants import AgentGrants

    person = current_person()
    uid = os.getuid() if person.is_here else -1
    silo = AgentGrants(engine, agent, clock.Clock(), uid, redact, person.name, person.owns)
    report_reads(silo)
    return silo


def list_grants(settings: Settings, agent: Agent) -> list[dict[str, Any]]:
    """Return all access requests of an agent, newest first, each with its `reads` and its seconds `left`."""
    from dataclasses import asdict

    from memoryd.database import grants, sqlite

    if not reads.database_path(settings).exists():
        return []
    now = clock.utc_now()
    with _open_grants(settings, agent) as silo:
        found = silo.all()
        read = {one.id: sqlite.read(silo.engine, grants.list_reads, one) for one in found}
    rows = []
    for one in found:
        ends = None if one.expires_at is None or one.state != "given" else clock.moment_of(one.expires_at)
        left = max(0, int((ends - now).total_seconds())) if ends else 0
        state = "expired" if ends and not left else one.state
        is_mine = one.uid == silo.uid and one.person in {"", silo.person}
        rows.append(asdict(one) | {"state": state, "left": left, "reads": read[one.id], "is_mine": is_mine})
    return rows


def list_active(settings: Settings) -> list[dict[str, Any]]:
    """Return the grants of all agents that let the person read now, each with its seconds `left`."""
    asked = _list_asked(settings)
    rows = [row for agent in settings.agents if agent.id in asked for row in list_grants(settings, agent)]
    return [row for row in rows if row["is_mine"] and row["left"]]


def settle_grants(settings: Settings, agent: Agent) -> None:
    """Import the agent's answers from its consent file, and report reads under grants that have ended."""
    if reads.database_path(settings).exists():
        with _open_grants(settings, agent):
            pass


def list_notices(settings: Settings, agent: Agent) -> list[tuple[str, str]]:
    """Return the id of each open access request with a line that tells the agent about it; empty if there is none."""
    from memoryd.database import grants, sqlite
    from memoryd.finding.access_grants import ANSWERED_WITHIN, PATH, describe_request
    from memoryd.requests import opening

    if not reads.database_path(settings).exists():
        return []
    with opening.open_beside(settings) as engine:
        found = sqlite.read(engine, grants.list_open, agent.id, clock.text_of(clock.utc_now() - ANSWERED_WITHIN))
    ways = f"answer with the tool memory_consent, or in {PATH}; you may decline"
    return [(one.id, f"{one.id}: {describe_request(one)} ({ways})") for one in found]


def report_reads(silo: AgentGrants) -> None:
    """Write into the agent's journal what was read under each grant that has ended and is not reported yet."""
    from dataclasses import replace
    from secrets import token_hex

    from memoryd.changing import commit
    from memoryd.changing.writer import Writer
    from memoryd.database import grants, sqlite
    from memoryd.jobs.job import Operate
    from memoryd.ledger.guards import Caller
    from memoryd.ledger.memory import MemoryKind
    from memoryd.ledger.operation import Add

    now = silo.clock.text()
    ended = [one for one in silo.all() if one.is_over(now) and one.reported_at is None]
    if not ended:
        return
    writer = Writer(silo.engine, silo.agent.workspace, silo.clock.text, lambda: token_hex(4))
    with sqlite.begin_write(silo.engine) as connection:
        for one in grants.of_agent(connection, silo.agent.id):
            if one.id in {each.id for each in ended} and one.reported_at is None:
                text = _describe_reads(one, grants.list_reads(connection, one))
                entry = Operate((Add(MemoryKind.JOURNAL, text, tags=("access",), origin_at=now),), Caller.JOURNAL)
                commit.enter(connection, writer, silo.agent.id, entry, None)
                grants.write(connection, replace(one, reported_at=now), "grant reported", "memoryd", now)


def _describe_reads(grant: Grant, found: Sequence[dict[str, str]]) -> str:
    """Return the journal entry about a grant that has ended."""
    who = grant.person or f"uid {grant.uid}"
    what = "; ".join(list(dict.fromkeys(one["read"] for one in found))[:_MOST_NAMED])
    told = f"{len(found)} reads: {what}" if found else "nothing was read"
    return f"Access of {who} under {grant.id} has ended ({grant.purpose}). {told}."
