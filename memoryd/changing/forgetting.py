"""Forget for a person: erase a memory or a session from everything that memoryd wrote.

There are three steps:

1. Copies are cleaned: backups, old versions, the log, other rows.
2. One commit erases the texts from the ledger, `MEMORY.md` and the daily files, together with their source rows.
3. The database file is rewritten.

After a crash at any point, the next start repeats or continues the run. The copies come first, because the texts to
remove are known only until the commit. After it, no copy is left to search.

Transcripts belong to the agents. They are not changed, except those that memoryd recorded itself. Their rows stay
without texts, so that no record is read again. Records that a transcript gets later are read as new.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from sqlalchemy import Connection, Engine

from memoryd.changing.core_import import CORE_FILE
from memoryd.changing.full_scan import PARTS, FullScan
from memoryd.changing.guard_check import HUMAN
from memoryd.changing.session_files import drop_sessions, drop_tags
from memoryd.changing.time_machine import Revision
from memoryd.changing.written_blocks import record_left
from memoryd.clock import utc_now
from memoryd.database import audit, erasure, memories, profile, query, sqlite, texts, turns, vault
from memoryd.errors import NotFoundError, RefusedError, StateError
from memoryd.files import regular
from memoryd.files.open_folder import OpenFolder, open_folder
from memoryd.jobs import facts, sleep
from memoryd.jobs.evidence import parse_moment
from memoryd.jobs.job import HEADINGS, MoveWatermark
from memoryd.ledger import audit as chain
from memoryd.ledger import dates, forgetting
from memoryd.ledger.facts import ProfileEntry, ProfileSection
from memoryd.ledger.floor import is_said
from memoryd.ledger.forgetting import OPERATION, ForgetVerdict, Grounded, SectionVersion
from memoryd.ledger.memory import ANY_PREFIX, Memory, Source, draw_salt, sources_from_json
from memoryd.ledger.text_removal import MARK, TextRemoval, cut_of, lines_of, spare_texts
from memoryd.reading import recording
from memoryd.reading.store import LOST
from memoryd.text.content import list_stems, measure_overlap
from memoryd.text.private import is_private
from memoryd.text.tags import find_tags
from memoryd.tiers import archive, core, daily, diary, recent
from memoryd.tiers.session_summary import parse_points

KIND = "forget"
_MOST_OF = 0.5  # a memory counts as derived from removed lines if they have this share of its words
_DAILIES = "memory"
_ALWAYS = "9999-12-31"
_DAILY = re.compile(r"\d{4}-\d\d-\d\d\.md(?=\Z|[.~-])")  # the longer name of a copy also matches
# Files that people read; the copies in `backup/` are cleaned too.
_ARCHIVED = (recent.NAME, "MEMORY*.md", f"{archive.MOVED}/MEMORY*.md")
_FILES = (CORE_FILE, f"{_DAILIES}/*/**/*.md", *(f"{archive.FOLDER}/{one}" for one in _ARCHIVED))  # without daily files
# Tables that may repeat the text of a memory; the commit handles the ledger itself.
_COPIES = ("turn", "session_summary", "job_run", "alarm", "grant")

_BOLD = re.compile(r"\*\*[^*]{1,30}\*\*:?")  # the label of a field, or a speaker

_Rewrite = tuple[str, bytes, bytes]  # path, old bytes, new bytes
_Cleaned = dict[tuple[object, ...], bytes]  # the new bytes of files, by the path and the digest of the old ones


@dataclass(frozen=True, slots=True)
class ForgetTarget:
    """Name what to forget, a memory or a session; the other field is None."""

    memory_id: str | None = None
    session_id: str | None = None


def target_of(options: Mapping[str, Any]) -> ForgetTarget:
    """Return the target in a run's options."""
    return ForgetTarget(options.get("memory"), options.get("session"))


@dataclass(frozen=True, slots=True)
class ForgetPlan:
    """Hold what a `forget` will erase and change."""

    target: ForgetTarget
    sessions: tuple[str, ...]  # the sessions that lose their texts; empty if a memory is forgotten
    memories: Mapping[str, Memory]
    verdict: ForgetVerdict
    cut: TextRemoval  # the texts to remove from files and rows
    replies: tuple[str, ...]  # sessions whose stored model replies are erased
    states: tuple[str, ...]  # digests of further states to erase
    sections: Mapping[
        ProfileSection, tuple[str, tuple[Source, ...]]
    ]  # sections of the profile that change, each with its new text and its sources
    marks: Mapping[str, int]  # the number of the last turn of each session
    transcripts: frozenset[str]  # paths of the sessions' transcripts
    tags: frozenset[str]  # the tags in the erased texts
    shown: tuple[str, str] | None  # first and last day on which a dream may have seen an erased memory
    rewrites: tuple[_Rewrite, ...]  # the daily files that change
    lines: dict[str, str] = field(default_factory=dict)  # the lines that each file loses, in whole or in part, by path
    left: dict[str, str] = field(default_factory=dict)  # the shortened lines as they will be, by path
    told: dict[str, Any] = field(default_factory=dict)  # values for the run report, without texts

    def check(self) -> None:
        """Check that the plan touches no protected memory.

        Raises:
            RefusedError: the plan would erase protected memories; the error names them.
        """
        if self.verdict.protected:
            hint = "to erase them, run memoryd core unprotect for each first"
            raise RefusedError("are protected, but would have to be erased", ", ".join(self.verdict.protected), hint)

    def clean_file(self, name: str, data: bytes, clean: Callable[[bytes], bytes]) -> bytes:
        """Return the new bytes of a file; `clean` removes the text from a file of unknown format.

        A copy of a daily file is cleaned like the daily file itself. A dream diary also loses the model's words of the
        days on which a dream may have seen the text. Other files lose their parts about the sessions, too.
        """
        day = _DAILY.match(name)
        if day is None:
            return drop_tags(name, clean(drop_sessions(name, data, self.sessions)), self.tags)
        if not diary.is_one(data):
            return self.cut.of_daily(f"{_DAILIES}/{day[0]}", data)
        left = self.cut.of_daily(f"{diary.FOLDER}/{day[0]}", data)
        is_shown = self.shown is not None and self.shown[0] <= day[0].removesuffix(".md") <= self.shown[1]
        return diary.without_impressions(left) if is_shown else left

    def clean_path(self, path: str, data: bytes) -> bytes:
        """Return the new bytes of a file at a path in the workspace."""
        if path != CORE_FILE:
            return self.clean_file(Path(path).name, data, self.cut.of_bytes)
        return core.drop_emptied(core.parse(data), self.cut.of_core(data), frozenset(HEADINGS.values()))

    def edits(self) -> list[MoveWatermark]:
        """Return the edits that mark the sessions as fully processed."""
        consumers = (sleep.CONSUMER, facts.CONSUMER)
        return [MoveWatermark(one, consumer, seq) for one, seq in self.marks.items() if seq for consumer in consumers]


# --- planning ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _AuditedTexts:
    """Hold the texts that the audit of an agent still has."""

    versions: Mapping[str, set[str]]  # all known texts of memories, by id
    sections: Mapping[ProfileSection, list[SectionVersion]]
    states: Mapping[str, str]  # the text of each state of a memory or section, by digest
    lasts: frozenset[str]  # digests of the last states


def plan(
    connection: Connection, agent_id: str, workspace: OpenFolder, target: ForgetTarget, tz: tzinfo, made: _Cleaned
) -> ForgetPlan:
    """Return the plan to forget a target; `made` keeps cleaned files for the next plan.

    Raises:
        NotFoundError: the agent has no such memory or session.
    """
    held = memories.of_agent(connection, agent_id)
    known = _read_audited(connection, agent_id)
    grounded = _make_grounded(connection, agent_id, tz)
    if target.memory_id is not None:
        if target.memory_id not in held:
            hint = "memoryd core list and memoryd facts list show them"
            raise NotFoundError(f"there is no memory {target.memory_id!r}", hint=hint)
        sessions: tuple[str, ...] = ()
        verdict = forgetting.of_memory(held, target.memory_id, known.versions, grounded)
    else:
        sessions = tuple(erasure.list_family(connection, agent_id, target.session_id or ""))
        if not sessions:
            raise NotFoundError(f"there is no session {target.session_id!r}", hint="memoryd session list shows them")
        verdict = forgetting.of_sessions(held, sessions, grounded)
    cut = _cut(connection, agent_id, workspace, _HeldMemories(held, known, verdict, sessions, tz))
    verdict = forgetting.without_notes(held, verdict, cut.says)
    rewrites = tuple(_clean(_read_dailies(workspace), cut.of_daily, (cut,), made))
    lines = _list_lost(rewrites)
    gone = {source.session for one in verdict.erased for source in held[one].sources if target.memory_id is not None}
    gone_texts = map(attrgetter("content"), map(held.__getitem__, verdict.erased))
    sections = _sections(known, cut, sessions, grounded)
    last = "SELECT id, last_seq FROM session WHERE id IN (SELECT value FROM json_each(?))"
    changed = {digest for digest, text in known.states.items() if digest not in known.lasts and cut.says(text)}
    found = ForgetPlan(
        target=target,
        sessions=sessions,
        memories=held,
        verdict=verdict,
        cut=cut,
        replies=tuple(sorted(gone)),
        states=tuple(sorted(changed)),
        sections=sections,
        marks={row[0]: row[1] for row in query.fetch_rows(connection, last, sessions)},
        transcripts=frozenset(turns.list_paths(connection, sessions)),
        tags=frozenset().union(*map(find_tags, [*_list_said(connection, sessions), *gone_texts])),
        shown=_find_shown_days(held, verdict, lines, tz) if target.memory_id is not None else None,
        rewrites=rewrites,
    )
    others = tuple(_clean(_read_others(workspace), found.clean_path, (cut, found.shown), made))
    found.lines.update(lines | _list_lost(others))
    found.left.update(_list_lost((path, new, old) for path, old, new in (*rewrites, *others)))
    lost = {path: text.count("\n") + 1 for path, text in found.lines.items()}
    found.told.update(_build_report(connection, agent_id, found, lines), lost=lost)
    return found


def _list_said(connection: Connection, sessions: Sequence[str]) -> list[str]:
    return [turn.text or "" for one in sessions for turn in turns.stored_turns(connection, one)]


def _read_audited(connection: Connection, agent_id: str) -> _AuditedTexts:
    versions: dict[str, set[str]] = {}
    sections: dict[ProfileSection, list[SectionVersion]] = {}
    states: dict[str, str] = {}
    lasts: dict[str, str] = {}
    for name, digest, text in audit.kept_states(connection, agent_id):
        if not name.startswith((*ANY_PREFIX, chain.PROFILE)):
            continue
        lasts[name], states[digest] = digest, _said_in(name, text)
        if name.startswith(ANY_PREFIX):
            versions.setdefault(name, set()).add(states[digest])
        else:
            version = SectionVersion(states[digest], sources_from_json(str(chain.values_of(text)["sources"])))
            sections.setdefault(ProfileSection(name.removeprefix(chain.PROFILE)), []).append(version)
    live = profile.read(connection, agent_id)
    for section, entry in live.items():
        # After a redaction, the audit has no stored state, so the present text is added.
        if (had := sections.setdefault(section, [])) == [] or had[-1].text != entry.text:
            had.append(SectionVersion(entry.text, profile.read_sources(connection, agent_id, section)))
    there = {section: had for section, had in sections.items() if section in live}
    return _AuditedTexts(versions, there, states, frozenset(lasts.values()))


def _make_grounded(connection: Connection, agent_id: str, tz: tzinfo) -> Grounded:
    """Return a function that checks whether stored records or other memories support a text."""
    today = utc_now().astimezone(tz).date()
    sql = (
        "SELECT plain(CAST(text AS BLOB), text_crc) FROM turn"
        " WHERE agent_id = ? AND record_key = key_of(?) AND part = ? AND text <> ''"
    )

    def is_grounded(text: str, sources: Sequence[Source], parents: Sequence[str]) -> bool:
        records = [(parent, today) for parent in parents]
        for source in sources:
            text_of_turn = query.fetch_text(connection, sql, agent_id, source.record_id, source.part)
            at = parse_moment(source.at)
            if text_of_turn is not None:
                records.append((text_of_turn, at.astimezone(tz).date() if at else today))
        return is_said(text, records)

    return is_grounded


class _HeldMemories(NamedTuple):
    memories: Mapping[str, Memory]
    known: _AuditedTexts
    verdict: ForgetVerdict
    sessions: Sequence[str]
    tz: tzinfo  # the time zone of the days of daily files

    def list_removed_texts(self) -> list[str]:
        """Return the present and earlier texts of the erased memories, with and without annotated dates."""
        found = []
        for one in (self.memories[name] for name in self.verdict.erased):
            said_at = parse_moment(one.origin_at or one.created_at)
            for text in (one.content, *self.known.versions.get(one.id, ())):
                found += [text, dates.remove_days(text)]
                found += [dates.annotate(text, said_at.astimezone(self.tz).date())] if said_at else []
        return found

    def list_staying_texts(self) -> list[str]:
        """Return the texts of the memories that stay live."""
        after = {**self.memories, **self.verdict.kept, **self.verdict.restored}
        return [one.content for one in after.values() if one.is_live and one.id not in self.verdict.erased]


def _cut(connection: Connection, agent_id: str, workspace: OpenFolder, held: _HeldMemories) -> TextRemoval:
    """Return the texts to remove, except texts of memories that stay.

    A forgotten session's texts are removed only as whole lines, because no person chose these texts one by one.
    """
    blocks = erasure.read_blocks(connection, agent_id, held.sessions) if held.sessions else ([], [])
    said = held.list_removed_texts()
    said += _list_points(erasure.read_summaries(connection, held.sessions))
    own = lines_of(said, *blocks)
    edited = [line for one in _read_dailies(workspace) for line in own.list_edited_lines(*one)]
    if edited:
        stored = (turn for one in held.sessions for turn in turns.stored_turns(connection, one))
        told = [(turn.text, utc_now().date()) for turn in stored if turn.text]
        said += [line for line in edited if is_said(line, told)]
    staying = held.list_staying_texts()
    staying += _list_points(erasure.read_other_summaries(connection, agent_id, held.sessions))
    return lines_of(said, *blocks, staying) if held.sessions else spare_texts(cut_of(said), staying)


def _list_points(summaries: Iterable[str]) -> list[str]:
    """Return the points of summaries, without the headings, which are the same in all sessions."""
    return [point.text for summary in summaries for point in parse_points(summary).points]


def _sections(
    known: _AuditedTexts, cut: TextRemoval, sessions: Sequence[str], grounded: Grounded
) -> dict[ProfileSection, tuple[str, tuple[Source, ...]]]:
    found = {}
    for section, versions in known.sections.items():
        now = versions[-1]
        if sessions:
            text = forgetting.section_left(versions, sessions, grounded)
        else:
            text = forgetting.without_marked(cut.of_text(now.text), MARK)
        sources = tuple(source for source in now.sources if source.session not in sessions)
        if (text, sources) != (now.text, tuple(now.sources)):
            found[section] = text, sources
    return found


def list_lines_beside(connection: Connection, found: ForgetPlan) -> list[dict[str, Any]]:
    """Return lines that go with a session but hold words that it did not say, as `content` with their `path`.

    A person may have written them below a line of the session. No rule can distinguish them from a line of the session
    that an editor has wrapped, so they go too. Lines of `MEMORY.md` are left out, because they are shown as texts of
    memories. A line that is only shortened is left out if the words that the session did not say stay in it.
    """
    said = _list_said(connection, found.sessions)
    held = list_stems("\n".join((*said, *erasure.read_summaries(connection, found.sessions))))
    return [
        {"path": path, "content": line.strip()}
        for path, text in found.lines.items()
        for line in text.splitlines()
        if found.sessions and path != CORE_FILE and not line.startswith("#") and not daily.says_nothing(line)
        if (own := _list_own_stems(line)) - held
        if not any(own - held <= _list_own_stems(one) <= own for one in found.left.get(path, "").splitlines())
    ]


def _list_own_stems(line: str) -> frozenset[str]:
    """Return the stems of a line of a memory file, without what memoryd itself writes around a text."""
    return list_stems(_BOLD.sub("", archive.mask_frame(line.replace(MARK, "").encode()).decode()))


def _clean(
    files: Iterable[tuple[str, bytes]], clean: Callable[[str, bytes], bytes], cut: tuple[object, ...], made: _Cleaned
) -> Iterator[_Rewrite]:
    """Yield the files that change; `made` has the new bytes of those that were cleaned before."""
    for path, data in files:
        key = (*cut, path, regular.compute_digest(data))
        if key not in made:
            made[key] = clean(path, data)
        if made[key] != data:
            yield path, data, made[key]


def _list_lost(rewrites: Iterable[_Rewrite]) -> dict[str, str]:
    """Return the lines that each file loses, in whole or in part, by path; blank lines do not count."""
    lost = {path: Counter(old.splitlines()) - Counter(new.splitlines()) for path, old, new in rewrites}
    lines = {path: [line for line in one.elements() if line.strip()] for path, one in lost.items()}
    return {path: b"\n".join(those).decode(errors="replace") for path, those in lines.items() if those}


def _read_others(workspace: OpenFolder) -> Iterator[tuple[str, bytes]]:
    """Yield (path, bytes) of the other files that people read."""
    for path in [path for pattern in _FILES for path in sorted(workspace.path.glob(pattern))]:
        name = path.relative_to(workspace.path).as_posix()
        with suppress(StateError):  # a link or another thing that memoryd leaves alone
            yield name, b"" if is_private(name) else regular.read_below(workspace, name) or b""


def _find_shown_days(
    held: Mapping[str, Memory], verdict: ForgetVerdict, lines: Mapping[str, str], tz: tzinfo
) -> tuple[str, str]:
    """Return the first and the last day whose dreams may have seen an erased text, as YYYY-MM-DD."""
    gone = [held[one] for one in verdict.erased]
    first = [found for one in gone if (found := parse_moment(one.created_at))]
    last = [parse_moment(one.deleted_at) for one in gone]
    days = [f"{at.astimezone(tz):%Y-%m-%d}" for at in first] + [path[-13:-3] for path in lines]
    ends = [_ALWAYS if at is None else f"{at.astimezone(tz):%Y-%m-%d}" for at in last] + [_ALWAYS for _ in lines]
    return min(days, default=_ALWAYS), max(ends, default="")


def _build_report(connection: Connection, agent_id: str, found: ForgetPlan, lines: Mapping[str, str]) -> dict[str, Any]:
    verdict, held = found.verdict, found.memories
    sql = "SELECT memory_id FROM audit WHERE agent_id = ? AND actor = ? AND operation = 'update'"
    edited = dict.fromkeys(query.fetch_column(connection, sql, agent_id, HUMAN), "; a person had edited it")
    became = {one: {"became": "erased", "why": why + edited.get(one, "")} for one, why in verdict.erased.items()}
    became |= {
        one: {"became": "kept", "why": forgetting.why_kept(held[one], left)} for one, left in verdict.kept.items()
    }
    became |= {one: {"became": "restored", "why": forgetting.MERGED} for one in verdict.restored}
    named = found.target.memory_id
    records = {(s.record_id, s.part) for one in verdict.erased for s in held[one].sources} if named else set()
    said = replace(found.cut, spared=())
    others = [one for one in held.values() if one.id not in became]
    near = {one.id for one in others if not records.isdisjoint((s.record_id, s.part) for s in one.sources)}
    near |= {one.id for one in others if _is_of(one, lines)}
    beside = [one.id for one in others if (named and said.says(one.content)) or (one.is_live and one.id in near)]
    counts = Counter(str(one["became"]) for one in became.values())
    return {
        "memory": named,
        "session": found.target.session_id,
        "sessions": list(found.sessions),
        "memories": dict(sorted(became.items())),
        "protected": list(verdict.protected),
        # Sessions, memories and notes to suggest to the person: they contain the forgotten text or have the same
        # records.
        "beside": {
            "sessions": list(found.replies),
            "memories": beside,
            "notes": erasure.find_shared_runs(connection, agent_id, found.sessions),
        },
        "counts": {
            **{name: counts[name] for name in ("erased", "kept", "restored")},
            "sections": len(found.sections),
            "blocks": len(found.cut.blocks) if lines else 0,
            **erasure.count_erased(connection, found.sessions),
        },
    }


def _is_of(memory: Memory, lines: Mapping[str, str]) -> bool:
    """Return True if a dream derived the memory from a daily file, and most of its words are in removed lines."""
    lost = [lines[one.transcript] for one in memory.sources if one.transcript in lines]
    return bool(lost) and measure_overlap(memory.content, "\n".join(lost)) >= _MOST_OF


# --- carrying out -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Forgetter:
    """Prepare the commit of a `forget`."""

    agent_id: str
    target: ForgetTarget
    tz: tzinfo
    now: Callable[[], str]
    new_hex: Callable[[], str]
    made: _Cleaned = field(default_factory=dict)  # files that were cleaned before the transaction

    def plan(self, engine: Engine, workspace: Path) -> ForgetPlan:
        """Return the plan for the current state.

        Raises:
            NotFoundError: the agent has no such memory or session.
            RefusedError: a protected memory would have to be erased.
        """
        with open_folder(workspace) as folder, sqlite.begin_read(engine) as connection:
            found = plan(connection, self.agent_id, folder, self.target, self.tz, self.made)
        found.check()
        return found

    def revise(self, connection: Connection, folders: tuple[OpenFolder, OpenFolder], _brought: object) -> Revision:
        """Return the new rows and files for the commit.

        The plan is rebuilt, because an edit may just have been imported.
        """
        found = plan(connection, self.agent_id, folders[0], self.target, self.tz, self.made)
        found.check()
        now = self.now()
        changes = forgetting.changes_of(found.memories, found.verdict, now, lambda: draw_salt(self.new_hex))
        sections = [
            (section, profile.build_values(section, ProfileEntry(text, now), sources, self.new_hex) if text else None)
            for section, (text, sources) in found.sections.items()
        ]
        states = [
            (chain.PROFILE + section, None if row is None else chain.dump_state(**row)) for section, row in sections
        ]
        states += [(chain.SESSION + one, chain.dump_state(session=one, forgotten_at=now)) for one in found.sessions]
        for path, old, new in found.rewrites:
            record_left(connection, self.agent_id, path, old, new, partial(found.cut.of_part, path))
        names = [change.memory_id for change in changes] + [chain.PROFILE + section for section, _ in sections]
        return Revision(
            changes=changes,
            sections=tuple((str(section), row) for section, row in sections),
            notes=tuple((OPERATION, name, state) for name, state in states),
            rewrites=found.rewrites,
            cut=found.cut,
            erasure={
                "sessions": list(found.sessions),
                "replies": list(found.replies),
                "names": names,
                "states": list(found.states),
            },
        )


def _read_dailies(workspace: OpenFolder) -> Iterator[tuple[str, bytes]]:
    """Yield (path, bytes) of the daily files, without anything that is not a regular file."""
    try:
        folder = workspace.folder(_DAILIES)
    except FileNotFoundError:
        return
    with folder:
        for name in folder.names():
            with suppress(StateError):
                data = regular.read(folder / name) if name.endswith(".md") else None
                if data is not None:
                    yield f"{_DAILIES}/{name}", data


@dataclass(slots=True, kw_only=True)
class Copies(FullScan):
    """Remove forgotten text from all copies of it."""

    ACTOR: ClassVar[str] = HUMAN
    plan: ForgetPlan

    def clean_texts(self, given: Sequence[str], *, in_file: bool = False) -> dict[str, str]:  # noqa: ARG002 - alike
        """Return a mapping from each text to the same text without forgotten text."""
        return {text: self.plan.cut.of_text(text) for text in given}

    def database(self, engine: Engine) -> None:
        """Remove the text from a database.

        In the present database, the commit cleans the memory store itself. In a database that was put aside, everything
        is cleaned here.
        """
        if engine is self.engine:
            sqlite.write(engine, vault.empty_damaged, LOST)  # a damaged text may contain the forgotten one
            self.rows_of(engine, () if self.plan.sessions else _COPIES)
            return
        there = texts.list_tables(engine)
        copies = ("job_run",) if self.plan.sessions else _COPIES
        self.rows_of(engine, [table for table in ("memory", "profile_section", *copies) if table in there])
        with sqlite.begin_write(engine) as connection:
            erasure.erase_sessions(connection, self.plan.sessions)
            erasure.erase_replies(connection, self.plan.sessions)
            for agent_id in self.workspaces:
                if "audit" in there:
                    _erase_said(connection, agent_id, self.plan.cut)
                erasure.erase_judgements(connection, agent_id)

    def was_written(self, connection: Connection, table: str, row: Mapping[str, Any]) -> None:
        """Record that a turn's text was changed, so that it is not read again, and audit a changed memory."""
        if table == "turn":
            erasure.turn_was_cut(connection, row["rowid"], row["text"])
        FullScan.was_written(self, connection, table, row)

    def clean_messages(self, path: Path, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the messages without the text.

        Each message keeps its id, and a digest by which the copy of its program is recognised.
        """
        cut = (lambda _: "") if str(path) in self.plan.transcripts else self.plan.cut.of_text
        return [recording.remove_text(message, cut) for message in messages]

    def of_file(self, name: str, data: bytes, parting: re.Pattern[str] = PARTS) -> bytes:
        """Return the new bytes of a file; see `ForgetPlan.clean_file`."""
        return self.plan.clean_file(name, data, partial(self.of_bytes, parting=parting))

    def is_spared(self, path: Path) -> bool:
        """Return True if the commit itself rewrites the file."""
        workspaces = self.workspaces.values()
        is_core = path.name == CORE_FILE and path.parent in workspaces
        return is_core or (path.suffix == ".md" and path.parent in [one / _DAILIES for one in workspaces])


def _erase_said(connection: Connection, agent_id: str, cut: TextRemoval) -> None:
    kept = audit.kept_states(connection, agent_id)
    says = (digest for name, digest, text in kept if any(map(cut.says, (_said_in(name, text), _note_in(name, text)))))
    audit.erase(connection, list(says))


def _note_in(name: str, state: str) -> str:
    """Return the note in an audited state of a memory; empty if there is none."""
    return str(json.loads(state).get("note") or "") if name.startswith(ANY_PREFIX) else ""


def _said_in(name: str, state: str) -> str:
    """Return the text in an audited state; empty if it has none."""
    if name.startswith(ANY_PREFIX):
        return str(json.loads(state)["content"])  # not `from_json`, because the state may be in an old format
    return str(chain.values_of(state)["text"]) if name.startswith(chain.PROFILE) else ""
