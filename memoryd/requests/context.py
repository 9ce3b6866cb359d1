"""Build the text for the start of a session, for the command, the Python API and the hooks.

The text is redacted once more, because it goes to a model and files may hold any text of people.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from memoryd.changing.core_import import CORE_FILE
from memoryd.clock import Clock, moment_of, text_of
from memoryd.database import memories, reads
from memoryd.errors import StateError
from memoryd.files import regular
from memoryd.finding.recall import Narrowing
from memoryd.jobs.evidence import parse_moment
from memoryd.jobs.job import HEADINGS
from memoryd.jobs.tally import strip_model_words
from memoryd.ledger import facts, profile
from memoryd.ledger.foreign import Foreign
from memoryd.ledger.profile import ProfileEntry, ProfileSection
from memoryd.recall import injection, recent_sessions
from memoryd.recall.recent_sessions import ASKED, OtherSession, SpokenMessage
from memoryd.requests import scanner, searching
from memoryd.text.neutral import neutralize
from memoryd.tiers import daily
from memoryd.transcripts.registry import program_of
from memoryd.worker.client import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from memoryd.config import Agent, Settings
    from memoryd.database.reads import DatabaseReader
    from memoryd.finding.recall import Hit
    from memoryd.recall.injection import Injection


OTHERS = 4  # sessions that hand over what they were about
_ANSWERS = 5  # of a session, of which the last is told that reports something
_ELLIPSIS = " …"  # where a snippet was cut
# What stands before a statement in what is told, each a label that leaves it what it is.
_LABELS = (
    "user|assistant|agent|decision|learned|event|asked|last answer|reports?"
    "|work|personal|top of mind|recent|earlier|background"
)
_BEGINS = rf"(?:^|[-*\]>.!?] |\b(?:{_LABELS}): )"
JOURNAL = "Journal of what was done to this memory"
JOURNAL_SHOWN = timedelta(days=7)  # an entry is told for so long; it is kept for good
HITS = 5  # of a search that are told
_SAID_BY = {
    "user": "said by the user",
    "assistant": "said by the assistant",
    "subagent": "said by a subagent",
    "tool": "put out by a tool",
}


class InjectionMaterial(NamedTuple):
    """Hold an agent's memory before it is cut to the budget."""

    profile: tuple[str, ...]
    facts: tuple[str, ...]
    parts: tuple[injection.Part, ...]
    unreadable: tuple[str, ...]  # files that are not told, and why
    found: tuple[injection.Part, ...] = ()  # what a question is about
    others: tuple[tuple[str, injection.Part], ...] = ()  # what sessions hand over, by their ids
    notes: tuple[tuple[str, str], ...] = ()  # of facts and bullets, by their lines

    def exclude_session(self, session_id: str | None) -> InjectionMaterial:
        """Return the memory for a session, without that session itself."""
        return self._replace(others=tuple(one for one in self.others if one[0] != session_id))


def gather(settings: Settings, agent: Agent, now: datetime) -> InjectionMaterial:
    """Read an agent's memory. Without a database, this is only its files."""
    sections: list[str] = []
    lines: list[str] = []
    notes: list[tuple[str, str]] = []
    others: list[tuple[str, injection.Part]] = []
    local = now.astimezone(settings.zone)
    journal: list[injection.Part] = []
    if (path := reads.database_path(settings)).exists():
        with reads.open_reader(path) as reader:
            rows = {row["section"]: row for row in reads.profile_rows(reader, agent.id)}
            held = [memories.of_row(row) for row in reads.fact_rows(reader, agent.id)]
            known = [facts.fact_of(one) for one in held]
            notes = [(facts.render_line(facts.fact_of(one)), one.note) for one in held if one.note]
            notes += [(f"- {neutralize(text)}", note) for text, note in reads.noted_core(reader, agent.id).items()]
            if settings.injection.handover_max_tokens:
                others = _read_others(reader, agent, local)
            told = [
                f"- {strip_model_words(row['content'])}"
                for row in reads.read_journal(reader, agent.id, text_of(now - JOURNAL_SHOWN))
            ]
        journal = [injection.Part(JOURNAL, "\n".join(told), newest_last=True)] if told else []
        entries = {
            one: ProfileEntry(rows[one]["text"], rows[one]["updated_at"]) for one in ProfileSection if one in rows
        }
        sections, lines = profile.render(entries), [facts.render_line(fact) for fact in facts.Store(known).all()]
    parts, unreadable = _files(agent, local)
    told_parts = (*parts, *journal)
    return InjectionMaterial(
        tuple(sections), tuple(lines), told_parts, tuple(unreadable), others=tuple(others), notes=tuple(notes)
    )


def _read_others(reader: DatabaseReader, agent: Agent, now: datetime) -> list[tuple[str, injection.Part]]:
    """Return sessions of today and yesterday that no sleep has written yet, newest first."""
    since = (now - timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    found = []
    for row in reads.unslept_sessions(reader, agent.id, text_of(since), OTHERS):
        said = [
            (one["seq"], SpokenMessage(origin == "user", one["text"]))
            for origin, most in (("user", ASKED), ("assistant", _ANSWERS))
            for one in reads.read_messages(reader, row["id"], origin, row["mark"], most)
        ]
        last = moment_of(row["last_turn_at"])
        first, last = (one.astimezone(now.tzinfo) for one in (parse_moment(row["first_at"]) or last, last))
        spoken = [one for _, one in sorted(said)]
        foreign = _foreign(reader, row["id"])
        told = recent_sessions.make_part(
            OtherSession(row["id"], program_of(row["format"]), first, last, spoken, foreign), now.date()
        )
        if told is not None:
            found.append((row["id"], told))
    return found


# Of a long session it takes as long to work out as an agent may wait; it changes only with the session.
_KNOWN: OrderedDict[tuple[str, int, int], Foreign] = OrderedDict()
_MOST_KNOWN = 4 * OTHERS


def _foreign(reader: DatabaseReader, session_id: str) -> Foreign:
    key = (session_id, *reads.read_length(reader, session_id))
    found = _KNOWN.pop(key, None) or Foreign(reads.stored_turns(reader, session_id))
    _KNOWN[key] = found
    if len(_KNOWN) > _MOST_KNOWN:
        _KNOWN.popitem(last=False)
    return found


def _files(agent: Agent, now: datetime) -> tuple[list[injection.Part], list[str]]:
    days = [(now - timedelta(days=back)).date() for back in (0, 1)]
    parts, unreadable = [], []
    for name in (CORE_FILE, *(f"memory/{day.isoformat()}.md" for day in days)):
        try:
            data = regular.read_in(agent.workspace, name)
        except StateError as error:
            unreadable.append(str(error))
            continue
        if data:
            is_core, text = name == CORE_FILE, data.decode("utf-8", "replace")
            plain = HEADINGS.values() if is_core else daily.list_framing(daily.parse(data))
            parts.append(injection.Part(name, text, newest_last=not is_core, plain=frozenset(plain)))
    return parts, unreadable


def redact_material(
    remembered: InjectionMaterial, redact: Callable[[Sequence[str]], Sequence[str]]
) -> InjectionMaterial:
    """Return the same memory without secrets."""
    files = (*remembered.parts, *remembered.found, *(part for _, part in remembered.others))
    texts = [*remembered.profile, *remembered.facts, *(part.text for part in files)]
    texts += [note for _, note in remembered.notes]
    clean = iter(redact(texts))
    return remembered._replace(
        profile=tuple(next(clean) for _ in remembered.profile),
        facts=tuple(next(clean) for _ in remembered.facts),
        parts=tuple(part._replace(text=next(clean)) for part in remembered.parts),
        found=tuple(part._replace(text=next(clean)) for part in remembered.found),
        others=tuple((name, part._replace(text=next(clean))) for name, part in remembered.others),
        notes=tuple((line, next(clean)) for line, _ in remembered.notes),
    )


def parts_of(hits: Sequence[Hit]) -> tuple[injection.Part, ...]:
    """Return the memory as parts of an injection."""
    return tuple(
        injection.Part(
            f"{hit.path}, {injection.lines_of(hit.first_line, hit.last_line)}"
            + (f", {_SAID_BY.get(hit.said_by, 'nobody knows by whom')}" if hit.said_by else ""),
            hit.snippet,
        )
        for hit in hits
    )


def list_new_parts(found: Sequence[injection.Part], text: str) -> list[injection.Part]:
    """Return the texts that the agent got neither in another text nor from an earlier part.

    "Never uses tabs" does not count as "uses tabs".
    """
    said, more = _lines_of(text), []
    for part in found:
        if not _statement(part.text).search(said):
            more.append(part)
            said += "\n" + _lines_of(neutralize(part.text))
    return more


def _lines_of(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines()).casefold()


def _statement(snippet: str) -> re.Pattern[str]:
    """Return a pattern for a snippet's statement by any author; a cut snippet also matches inside a statement."""
    words = neutralize(snippet.strip(_ELLIPSIS)).casefold().removeprefix("- ").removeprefix(injection.BY_USER)
    begins = "" if snippet.startswith("…") else _BEGINS
    ends = "" if snippet.endswith("…") else r"(?:(?<=[.!?])|(?=[.!?]|$))"
    return re.compile(begins + re.escape(words).replace(r"\ ", r"\s") + ends, re.MULTILINE)


def fit_material(remembered: InjectionMaterial, budget: injection.Budget, count: injection.Count) -> Injection:
    """Return the injected text within a budget; unreadable files are listed in what is left out.

    Notes come in only if they displace nothing.
    """
    others = [part for _, part in remembered.others]
    made = injection.render(remembered.profile, remembered.facts, remembered.parts, budget, count, others)
    notes: dict[str, str] = {}
    if remembered.notes:
        given = {line: neutralize(note) for line, note in remembered.notes}
        noted = injection.render(remembered.profile, remembered.facts, remembered.parts, budget, count, others, given)
        if noted.left_out == made.left_out:
            made, notes = noted, given
    if more := list_new_parts(remembered.found, made.text):
        parts = [*remembered.parts, *more]
        made = injection.render(remembered.profile, remembered.facts, parts, budget, count, others, notes)
    return made._replace(left_out=made.left_out + remembered.unreadable)


def budget_of(settings: Settings, whole: int | None = None, units: int | None = None) -> injection.Budget:
    """Return the configured budget, limited to `whole` tokens and `units` UTF-16 units."""
    told = settings.injection
    return injection.Budget(told.max_tokens, told.files_max_tokens, whole, units, told.handover_max_tokens)


def inject(settings: Settings, agent: Agent, whole: int | None = None, query: str | None = None) -> Injection:
    """Return the injected text, and the results for a query; works with and without a daemon."""
    worker = Worker(settings.state_dir)  # for both, to count and to scan
    with scanner.open_scrubber(settings, worker) as scrubber:
        remembered = gather(settings, agent, Clock().now())
        if query is not None:
            with searching.open_recall(settings, scrubber) as opened:
                hits = opened.search(agent, query, Narrowing(limit=HITS))
            remembered = remembered._replace(found=parts_of(hits))
        clean = redact_material(remembered, scrubber.redact)
        return fit_material(clean, budget_of(settings, whole), lambda texts: worker.count(texts).tokens)
