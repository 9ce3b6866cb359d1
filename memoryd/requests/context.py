"""Build the text for the start of a session, for the command, the Python API and the hooks.

The text is redacted again, because it goes to a model and people may have written anything into the files.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from memoryd.changing.core_import import CORE_FILE
from memoryd.clock import Clock, text_of
from memoryd.config import Agent, Settings
from memoryd.database import memories, reads
from memoryd.errors import StateError
from memoryd.files import regular
from memoryd.finding.passages import CALL, PASTED
from memoryd.finding.recall import Hit, Narrowing
from memoryd.jobs.job import HEADINGS, MemoryType
from memoryd.jobs.tally import strip_model_words
from memoryd.ledger import facts
from memoryd.ledger.facts import ProfileEntry, ProfileSection
from memoryd.ledger.memory import Memory
from memoryd.recall import injection, memory_files
from memoryd.recall.injection import RECENT_FILE, Injection
from memoryd.recall.newer import put_newer_first
from memoryd.recall.repetitions import CUT, split_statements
from memoryd.requests import access, projects, scanner, searching
from memoryd.requests.projects import Project
from memoryd.scrub.hidden import mask_hidden
from memoryd.text.content import label_of
from memoryd.text.neutral import neutralize
from memoryd.tiers.archive import name_of
from memoryd.tiers.recent import CAUSE
from memoryd.worker.client import Worker

RULES = frozenset({"preference", "correction", "behavior"})  # categories of facts that come first in the injected text
# A snippet is one line. In it, a bullet or a label shows where a line of the source begins.
_LINE = re.compile(r"\s+(?=[-*+] |\*\*[A-Z][a-z ]+\*\*:)|(?<=\*\*:)\s+")
_EMPTY = re.compile(r"\*\*[A-Z][a-z ]+\*\*:\s*(?=\*\*[A-Z]|$)")  # a label without lines
_FRAME = re.compile(r"^\s*- \[\w+ \| [\d.]+\] | \([^()]*\)$")  # what surrounds the text of an injected line
ASKED = "Requests to read this memory"
JOURNAL = "Journal of what was done to this memory"
JOURNAL_SHOWN = timedelta(days=7)  # how long an entry is injected; it is stored for good
HITS = 5  # the most search results that are injected
_SAID_BY = {
    "user": "said by the user",
    PASTED: "handed on by the user",
    "assistant": "said by the assistant",
    CALL: "called by the assistant",
    "subagent": "said by a subagent",
    "tool": "put out by a tool",
}


class Asker(NamedTuple):
    """Hold the session for which the text is made."""

    session: str | None = None  # the id of the session; None: memoryd has not read it yet
    root: str | None = None  # the root of its project; None: unknown
    is_known: bool = False  # whether to use all projects if `root` has no sessions


class InjectionMaterial(NamedTuple):
    """Hold an agent's memory before it is shortened to a budget."""

    profile: tuple[str, ...]
    facts: tuple[str, ...]
    parts: tuple[injection.Part, ...]
    unreadable: tuple[str, ...]  # messages about files that cannot be injected
    found: tuple[injection.Part, ...] = ()  # results of a search
    state: injection.Part | None = None  # the state of the project
    notes: tuple[tuple[str, str], ...] = ()  # a line of a fact or a bullet, and its note
    asker: Asker = Asker()  # identifies the session, because its project decides what is included


ANYBODY = Asker()


def gather(settings: Settings, agent: Agent, now: datetime, asker: Asker = ANYBODY) -> InjectionMaterial:
    """Read the memory for a session of the agent. Without a database, only files are read."""
    local = now.astimezone(settings.zone)
    if not (path := reads.database_path(settings)).exists():
        parts, unreadable = _files(agent, local, Project(), [])
        return InjectionMaterial((), (), tuple(parts), tuple(unreadable))
    with reads.open_reader(path) as reader:
        rows = {row["section"]: row for row in reads.profile_rows(reader, agent.id)}
        held = memories.of_sound_rows(reads.read_live(reader, agent.id, "fact"))
        core = list(filter(memories.is_sound, reads.read_live(reader, agent.id, "core")))
        project = projects.find_project(reader, agent, asker.root, is_known=asker.is_known)
        state, is_later = projects.read_state(reader, agent, project, asker.session, local)
        journal = [
            f"- {strip_model_words(row['content'])}"
            for row in reads.read_live(reader, agent.id, "journal", since=text_of(now - JOURNAL_SHOWN))
        ]
    entries = {one: ProfileEntry(rows[one]["text"], rows[one]["updated_at"]) for one in ProfileSection if one in rows}
    said = {one.id: one.origin_at or one.created_at for one in held}
    known = sorted(facts.Store(map(facts.fact_of, held)).all(), key=lambda fact: fact.category not in RULES)
    equals = groupby(known, key=lambda fact: (fact.category in RULES, fact.confidence))
    known = [one for _, same in equals for one in put_newer_first(same, lambda fact: (fact.content, said[fact.id]))]
    parts, unreadable = _files(agent, local, project, sorted(core, key=_weigh, reverse=True))
    return InjectionMaterial(
        tuple(facts.render_profile(entries)),
        tuple(map(facts.render_line, known)),
        (
            *make_parts(ASKED, [f"- {line}" for _, line in access.list_notices(settings, agent)]),
            *parts,
            *make_parts(JOURNAL, journal, newest_last=True),
        ),
        tuple(unreadable),
        state=state,
        notes=tuple(_list_notes(held, core)),
        asker=Asker(asker.session if is_later else None, project.root),
    )


def _list_notes(held: Sequence[Memory], core: Sequence[reads.Row]) -> Iterator[tuple[str, str]]:
    """Yield the line of each fact and bullet with its note. Without a note, use the day on which a person said it."""
    for one in held:
        yield facts.render_line(facts.fact_of(one)), one.note or (one.origin_at or one.created_at)[:10]
    for row in core:
        if note := row["note"] or (row["origin_at"] and _tell_said(row)[:10]):
            yield f"- {neutralize(row['content'])}", note


def make_parts(name: str, lines: Sequence[str], *, newest_last: bool = False) -> list[injection.Part]:
    """Return one part with these lines; an empty list without lines."""
    return [injection.Part(name, "\n".join(lines), newest_last=newest_last)] if lines else []


def _weigh(row: reads.Row) -> tuple[bool, bool, float, str]:
    """Return a sort key for bullets of `MEMORY.md` by importance. A bullet that a person wrote counts as a rule."""
    is_rule = row["heading"] == HEADINGS[MemoryType.PREFERENCE] or row["importance"] is None
    return row["constitutional"], is_rule, row["importance"] or 0.0, row["origin_at"] or row["created_at"]


def _files(
    agent: Agent, now: datetime, project: Project, core: Sequence[reads.Row]
) -> tuple[list[injection.Part], list[str]]:
    days = [(now - timedelta(days=back)).date() for back in (0, 1)]
    parts, unreadable, newest = [], [], ""
    for name in (RECENT_FILE, CORE_FILE, *(f"memory/{day.isoformat()}.md" for day in days)):
        try:
            text = mask_hidden(regular.read_in(agent.workspace, name) or b"").decode("utf-8", "replace")
        except StateError as error:
            unreadable.append(str(error))
            continue
        if name == RECENT_FILE:
            part = memory_files.make_recent(text, project.has_session)
            newest = memory_files.find_newest(text, project.has_session)
        elif name == CORE_FILE:
            reports = {row["content"] for row in core if _is_report_of(row, newest)}
            said_at = {row["content"]: _tell_said(row) for row in core}
            shown = memory_files.put_newer_bullets_first(memory_files.remove_bullets(text, reports), said_at)
            first = tuple(row["content"] for row in core)
            part = injection.Part(name, shown, plain=frozenset(HEADINGS.values()), first=first)
        else:
            part = memory_files.make_daily(name, text, project.has_session)
        parts += [part] if part.text.strip() else []
    return parts, unreadable


def _tell_said(row: reads.Row) -> str:
    """Return the time at which the user said a bullet; empty for a bullet of another author."""
    is_own = row["importance"] is None or label_of(row["content"]) == "user"
    return str(row["origin_at"] or row["created_at"]) if is_own else ""


def _is_report_of(row: reads.Row, session: str) -> bool:
    """Return True for an unprotected statement of the assistant whose only source is the session with this name.

    `RECENT.md` has the main findings of this session, but maybe not each cause, so a cause is no report here.
    """
    if row["constitutional"] or not row["content"].startswith("Assistant: ") or CAUSE.search(row["content"]):
        return False
    return {name_of(one.get("session", "")) for one in json.loads(row["sources"])} == {session}


def redact_material(
    remembered: InjectionMaterial, redact: Callable[[Sequence[str]], Sequence[str]]
) -> InjectionMaterial:
    """Return the material with all texts redacted."""
    state = [remembered.state] if remembered.state else []
    files = (*remembered.parts, *remembered.found, *state)
    texts = [*remembered.profile, *remembered.facts, *(part.text for part in files)]
    texts += [note for _, note in remembered.notes]
    clean = iter(redact(texts))
    return remembered._replace(
        profile=tuple(next(clean) for _ in remembered.profile),
        facts=tuple(next(clean) for _ in remembered.facts),
        parts=tuple(part._replace(text=next(clean)) for part in remembered.parts),
        found=tuple(part._replace(text=next(clean)) for part in remembered.found),
        state=state[0]._replace(text=next(clean)) if state else None,
        notes=tuple((line, next(clean)) for line, _ in remembered.notes),
    )


def parts_of(hits: Sequence[Hit]) -> tuple[injection.Part, ...]:
    """Return search hits as parts of the injected text."""
    return tuple(
        injection.Part(
            f"{hit.path}, {injection.lines_of(hit.first_line, hit.last_line)}"
            + (f", {_SAID_BY.get(hit.said_by, 'nobody knows by whom')}" if hit.said_by else ""),
            hit.snippet,
        )
        for hit in hits
    )


def list_new_parts(found: Sequence[injection.Part], text: str) -> list[injection.Part]:
    """Return the parts that say something new, without the lines whose sentences are in `text` or an earlier part.

    A sentence counts as a whole: "Never uses tabs" does not contain "uses tabs".
    """
    more, said = [], _list_said(text) if found else set()
    for part in found:
        lines = (line for line in _LINE.split(part.text) if line.endswith("**:") or _is_new(line, said))
        if new := _EMPTY.sub("", " ".join(lines)).strip():
            more.append(part._replace(text=new))
            said |= _list_said(part.text)
    return more


def _list_said(text: str) -> set[str]:
    """Return the sentences of an injected text, also without the category of a fact and the note that ends a line."""
    lines = [line for whole in text.splitlines() for line in _LINE.split(whole)]
    return {one for line in (*lines, *(_FRAME.sub("", line) for line in lines)) for one in split_statements(line)}


def _is_new(line: str, said: set[str]) -> bool:
    """Return True if a line has a new sentence. A part of a known sentence in a line that is cut is not new."""
    first, last = "\n" * (not line.startswith(CUT)), "\n" * (not line.endswith(CUT))
    told = "\n".join(("", *said, ""))
    return any(f"{first}{one.removesuffix(CUT)}{last}" not in told for one in split_statements(line))


def fit_material(remembered: InjectionMaterial, budget: injection.Budget, count: injection.Count) -> Injection:
    """Return the injected text within a budget. Unreadable files are added to `left_out`."""
    sections, state = (remembered.profile, remembered.facts), remembered.state
    notes = {line: neutralize(note) for line, note in remembered.notes}
    made = injection.render(*sections, remembered.parts, budget, count, state, notes)
    if more := list_new_parts(remembered.found, made.text):
        made = injection.render(*sections, [*remembered.parts, *more], budget, count, state, notes)
    return made._replace(left_out=made.left_out + remembered.unreadable)


def budget_of(settings: Settings, whole: int | None = None, units: int | None = None) -> injection.Budget:
    """Return the configured budget, limited to `whole` tokens and `units` UTF-16 code units; None is no limit."""
    told = settings.injection
    return injection.Budget(told.max_tokens, told.files_max_tokens, whole, units)


def inject(
    settings: Settings, agent: Agent, whole: int | None = None, query: str | None = None, folder: str | None = None
) -> Injection:
    """Return the injected text with the results for a query. A daemon is not needed.

    If `folder` is in a project of the agent, the text is that of a session there. `whole` limits its tokens.
    """
    worker = Worker(settings.state_dir)  # one worker both scans and counts tokens
    with scanner.open_scrubber(settings, worker) as scrubber:
        found: Sequence[Hit] = ()
        if query is not None:
            with searching.open_recall(settings, scrubber) as opened:
                found = opened.search(agent, query, Narrowing(limit=HITS))
        clean = redact_material(gather_for_folder(settings, agent, folder, found), scrubber.redact)
        return fit_material(clean, budget_of(settings, whole), worker.count)


def gather_for_folder(settings: Settings, agent: Agent, folder: str | None, found: Sequence[Hit]) -> InjectionMaterial:
    """Return the material for a session that starts in `folder`, with the search hits `found`."""
    root = projects.find_root(folder, agent) if folder else None
    return gather(settings, agent, Clock().now(), Asker(root=root, is_known=True))._replace(found=parts_of(found))
