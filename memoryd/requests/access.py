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
KEY = "texts.key"  # in the state folder: the key for hashes of hidden texts


class Person(NamedTuple):
    """Hold the person who asks. By default it is the user of this process, at the command line."""

    name: str = ""
    is_here: bool = True  # logged in on this machine as the user of this process
    owns: bool = True  # may see the memory of an open agent, if the user of this process owns its workspace
    page: str = ""  # the page that they look at

    @property
    def actor(self) -> str:
        """Return the person's name in the audit."""
        return f"admin:{self.name}" if self.name else "human"


def find_user_name() -> str:
    """Return the name of the user of this process."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid-{os.getuid()}"


_PERSON: ContextVar[Person | None] = ContextVar("person", default=None)


@contextmanager
def act_as(person: Person) -> Iterator[None]:
    """Carry out all requests of this thread as this person's, until the context ends."""
    token = _PERSON.set(person)
    try:
        yield
    finally:
        _PERSON.reset(token)


def current_person() -> Person:
    """Return the person whose requests are carried out."""
    return _PERSON.get() or Person()


def may_read(settings: Settings, agent: Agent, what: str, parts: Collection[str] = ()) -> bool:
    """Return True if the person may see content now; audit a read under a grant.

    `what` names the command, or the rows of a page. `parts` are the kinds of memory, or the run, if not everything is
    read.
    """
    page = current_person().page
    return _is_open(settings, agent, lambda silo: silo.may_read(f"{page}: {what}" if page else what, parts))


def may_see(settings: Settings, agent: Agent, parts: Collection[str] = ()) -> bool:
    """Return True if `may_read` would; nothing is shown, so nothing is audited."""
    return _is_open(settings, agent, lambda silo: silo.find_active(parts) is not None)


def _is_open(settings: Settings, agent: Agent, ask: Callable[[AgentGrants], bool]) -> bool:
    """Return True if the agent's owner may see everything; otherwise the answer of the grants, if there are any."""
    from memoryd.files.trust import is_owner

    if agent.privacy == "open" and current_person().owns:
        return is_owner(agent.workspace)
    if agent.id not in _list_asked(settings):
        return False
    with _open_grants(settings, agent) as silo:
        return ask(silo)


def _list_asked(settings: Settings) -> set[str]:
    """Return the agents with an access request that was not refused, or is not reported yet."""
    path = reads.database_path(settings)
    sql = """SELECT DISTINCT agent_id FROM "grant" WHERE state IN ('requested', 'given')"""
    found = reads.ask(path, lambda reader: reader.rows(sql)) if path.exists() else ()
    return {row["agent_id"] for row in found}


def require(settings: Settings, agent: Agent, what: str) -> None:
    """Raise unless the person may see the agent's content."""
    if not may_read(settings, agent, what):
        raise RefusedError("what the agent remembers is its own", agent.id, HINT)


def require_agents_own(agent: Agent) -> None:
    """Raise unless this process runs as the owner of the workspace, which counts as the agent's own program."""
    from memoryd.files.trust import is_owner

    if not is_owner(agent.workspace):
        hint = "its own program runs as the user its workspace belongs to"
        raise RefusedError("what the agent remembers is its own", agent.id, hint)


def show_rows(
    settings: Settings, agent: Agent, what: str, rows: Sequence[dict[str, Any]], *texts: str
) -> list[dict[str, Any]]:
    """Return the rows for this person: without permission, texts are null, with sizes and hashes beside them."""
    if may_read(settings, agent, what):
        return list(rows)
    return [_hide_texts(settings, row, texts) for row in rows]


def _hide_texts(settings: Settings, row: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    content = str(row.get(texts[0]) or "").encode()
    # A short text can be found from its plain hash by trying.
    told = {"bytes": len(content), "hmac": compute_hmac(settings, content)}
    return row | dict.fromkeys((name for name in texts if name in row), None) | told


def compute_hmac(settings: Settings, text: bytes) -> str:
    """Return the HMAC of a hidden text: equal for equal texts, useless without the key of the state folder."""
    return hmac.new(_read_key(settings.state_dir / KEY), text, hashlib.sha256).hexdigest()


@lru_cache(maxsize=8)
def _read_key(path: Path) -> bytes:
    from memoryd.files.token_file import read_or_make

    return read_or_make(path).encode()


def note_act(settings: Settings, agent: Agent, act: str, target: str, *, is_blind: bool) -> None:
    """Audit a person's act on the page: who, what, which id, and whether they could not see the content."""
    from memoryd.requests import opening

    actor, name = current_person().actor, f"admin {act}{' (blind)' if is_blind else ''}"
    opening.note(settings, agent, name, f"act:{target or act}", actor, act=act, of=target, by=actor, blind=is_blind)


def text_of(value: object, row: dict[str, Any]) -> str:
    """Return a text of a row for people, or its replacement if it is hidden."""
    return f"({row['bytes']} bytes, not shown: {HINT})" if value is None and "bytes" in row else str(value)


@contextmanager
def silo_of(settings: Settings, agent: Agent) -> Iterator[AgentGrants]:
    """Return the grants of an agent for the person who asks."""
    from memoryd.requests import opening

    with opening.open_state(settings, agent) as (engine, scrubber):
        yield _grants_of(engine, agent, lambda text: scrubber.redact([text])[0])


@contextmanager
def _open_grants(settings: Settings, agent: Agent) -> Iterator[AgentGrants]:
    """Return the grants of an agent for reading, without the scanner that a new request needs."""
    from memoryd.requests import opening

    with opening.open_beside(settings) as engine:
        yield _grants_of(engine, agent, str)


def _grants_of(engine: Engine, agent: Agent, redact: Callable[[str], str]) -> AgentGrants:
    """Return the grants of an agent; reads under ended grants are reported first."""
    from memoryd.finding.access_grants import AgentGrants

    person = current_person()
    uid = os.getuid() if person.is_here else -1
    silo = AgentGrants(engine, agent, clock.Clock(), uid, redact, person.name, person.owns)
    report_reads(silo)
    return silo


def list_grants(settings: Settings, agent: Agent) -> list[dict[str, Any]]:
    """Return all access requests of an agent, newest first, each with its reads and its seconds left."""
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
    """Return the grants by which the person may read now, of all agents; each with its seconds `left`."""
    asked = _list_asked(settings)
    rows = [row for agent in settings.agents if agent.id in asked for row in list_grants(settings, agent)]
    return [row for row in rows if row["is_mine"] and row["left"]]


def settle_grants(settings: Settings, agent: Agent) -> None:
    """Take the agent's answers from its consent file, and report reads under grants that have ended."""
    if reads.database_path(settings).exists():
        with _open_grants(settings, agent):
            pass


def list_notices(settings: Settings, agent: Agent) -> list[tuple[str, str]]:
    """Return lines for the agent about requests to read its memory, with their ids; empty if nobody asks."""
    from memoryd.database import grants, sqlite
    from memoryd.finding.access_grants import ANSWERED_WITHIN, PATH, describe_request
    from memoryd.requests import opening

    if not reads.database_path(settings).exists():
        return []
    since = clock.text_of(clock.utc_now() - ANSWERED_WITHIN)
    with opening.open_beside(settings) as engine:
        found = sqlite.read(engine, grants.list_open, agent.id, since)
    ways = f"answer with the tool memory_consent, or in {PATH}; you may decline"
    return [(one.id, f"{one.id}: {describe_request(one)} ({ways})") for one in found]


def report_reads(silo: AgentGrants) -> None:
    """Report to the agent in its journal the reads under each grant that has ended since."""
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
    """Return the journal entry about an access that has ended."""
    who = grant.person or f"uid {grant.uid}"
    what = "; ".join(list(dict.fromkeys(one["read"] for one in found))[:_MOST_NAMED])
    told = f"{len(found)} reads: {what}" if found else "nothing was read"
    return f"Access of {who} under {grant.id} has ended ({grant.purpose}). {told}."
