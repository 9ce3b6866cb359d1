"""Check whether this machine and this configuration let memoryd work, and name a remedy for each fault.

The checks only read. They contact no server except the model's own endpoint, which costs nothing. The output holds
names, numbers and paths, but never a key, session content or memory.
"""

import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Any

from rich.text import Text

from memoryd.config import Settings
from memoryd.config_sections import PROVIDER as FLEET
from memoryd.counted import count_noun
from memoryd.database import backups, library, reads
from memoryd.errors import ConfigError, MemorydError
from memoryd.files import mounts, sources, trust
from memoryd.files.locks import Lock
from memoryd.files.log import get_logger
from memoryd.files.open_folder import open_folder
from memoryd.index.database import Index
from memoryd.interfaces import service
from memoryd.interfaces.output import make_list, style, tell_time
from memoryd.llm.endpoint import Endpoint
from memoryd.reading.sources import sources_of
from memoryd.requests import status, status_text
from memoryd.running.answering import OFFLINE, endpoint_of
from memoryd.tiers import proposal
from memoryd.transcripts.format import UNHEARD
from memoryd.transcripts.messages import SPEAKERS
from memoryd.worker import embedder

Look = Callable[[Settings, datetime], Iterator["Check"]]

OK, WARN, FAIL = "ok", "warn", "fail"
_STYLES = {FAIL: "bold red", WARN: "yellow", OK: "green"}  # the order is the order of the output
MIB = 1024 * 1024
LITTLE_SPACE = 1024 * MIB
NO_SPACE = 64 * MIB
FEW_INODES = 1000
SETTLED_SECONDS = 60  # no write takes this long, so an older temporary file is a leftover
YEARS = range(2025, 2100)
AHEAD_SECONDS = 3600
OLD_COPY = timedelta(hours=48)
_KEPT = re.compile(r".*\.conflict-[0-9a-f]{8}", re.DOTALL)
_INOTIFY = Path("/proc/sys/fs/inotify")


@dataclass(frozen=True, slots=True)
class Check:
    """Hold the result of one check: `level` is ok, warn or fail; `hint` is the remedy, which may be empty."""

    name: str
    level: str
    text: str
    hint: str = ""


def doctor(settings: Settings, now: datetime, broken: Sequence[ConfigError] = ()) -> dict[str, Any]:
    """Run all checks. Return `ok` (no check failed) and `checks`. `broken` are the errors of the configuration."""
    checks = [Check("configuration", FAIL, f"{error.where}: {error.what}", error.hint) for error in broken]
    checks += [Check("configuration", WARN, one, "correct this line of the configuration") for one in settings.warnings]
    if broken:
        told = f"no agent is checked; the other checks use defaults and the state folder {settings.state_dir}"
        checks.append(Check("configuration", WARN, told))
    checks += [check for look in _LOOKS for check in _run_look(look, settings, now)]
    return {"ok": all(check.level != FAIL for check in checks), "checks": [asdict(check) for check in checks]}


def list_parts(data: dict[str, Any]) -> list[Any]:
    """Return the summary and the list of checks as parts of the output for people, the worst first."""
    levels = [*_STYLES]
    checks = sorted(data["checks"], key=lambda check: (levels.index(check["level"]), check["name"] != "alarm"))
    failed, warned = (sum(check["level"] == level for check in checks) for level in (FAIL, WARN))
    alarms = sum(check["name"] == "alarm" for check in checks)
    found = ((failed, "failure"), (alarms, "alarm"), (warned - alarms, "warning"))
    told = ", ".join(count_noun(count, noun) for count, noun in found if count) or "every check passed"
    is_well = not (failed or alarms)
    lines: list[tuple[str | Text, ...]] = []
    for one in checks:
        lines.append((style(one["level"], _STYLES[one["level"]]), one["name"], one["text"]))
        lines += [("", "", f"→ {one['hint']}")] if one["hint"] else []
    how = _STYLES[FAIL if not is_well else WARN if warned else OK]
    return [style(f"{'Well' if is_well else 'Not well'}: {told}.", how), make_list(lines)]


def _run_look(look: Look, settings: Settings, now: datetime) -> Iterator[Check]:
    """Run one check. If it raises, yield the error as a failed check."""
    name = look.__name__.strip("_").replace("_", " ")
    try:
        yield from look(settings, now)
    except MemorydError as error:
        yield Check(name, FAIL, str(error))
    except OSError as error:
        yield Check(name, FAIL, f"cannot be checked: {error.strerror}: {error.filename}", "check owner and mode")


# --- the program ------------------------------------------------------------------------------------------------------


def _sqlite(_settings: Settings, _now: datetime) -> Iterator[Check]:
    module = library.load_library()  # raises if every library that is installed has the WAL-reset bug
    yield Check("sqlite", OK, f"{module.sqlite_version} by {module.__name__}, without the WAL-reset bug")
    if others := library.other_libraries():
        yield Check("sqlite", FAIL, f"a second SQLite is loaded: {', '.join(others)}", "report this as a defect")


def _daemon(settings: Settings, _now: datetime) -> Iterator[Check]:
    holder = Lock(settings.state_dir / "memoryd.lock").holder()
    if holder is not None:
        yield Check("daemon", OK, f"process {holder} holds the state folder" if holder else "the state folder is held")
        return
    with _open_database(settings) as reader:
        is_expected = reader is not None and reads.read_daemon(reader) is not None
    told = (FAIL, "is stopped: nothing is read") if is_expected else (WARN, "is not running")
    yield Check("daemon", *told, service.find_start(settings) or "memoryd run, or memoryd service install")


def _open_database(settings: Settings) -> AbstractContextManager[reads.DatabaseReader | None]:
    """Open the state database; the context is None if the daemon has never started."""
    return reads.KeptReader(reads.database_path(settings)).reading_any()


def _database(settings: Settings, now: datetime) -> Iterator[Check]:
    with _open_database(settings) as reader:
        if reader is None:
            yield Check("database", OK, "none yet: the first start creates it")
            return
        watching, last = reads.read_daemon(reader), reader.row("SELECT max(last_turn_at) AS at FROM session")
        size = reads.database_path(settings).stat().st_size
        yield Check("database", OK, f"opens, schema {reads.newest_schema()}, {size / MIB:.1f} MiB")
        for alarm in status.list_alarms(settings, reader):
            whose = f" of {alarm['agent']}" if alarm["agent"] else ""
            since = tell_time(alarm["since"], settings.zone, now)
            yield Check("alarm", WARN, f"{alarm['kind']}{whose} since {since}: {alarm['text']}", alarm["fix"])
    if watching and watching["watching"] == "polling" and settings.ingest.polling != "always":
        why = watching["watching_note"] or "no reason was noted"
        yield Check("watching", WARN, f"by polling: {why}", "nothing is lost, but changes are noticed later")
    if last and last["at"] and (datetime.fromisoformat(last["at"]) - now).total_seconds() > AHEAD_SECONDS:
        hint = "set the clock here, or on the machine that wrote the transcript"
        yield Check("clock", WARN, f"the newest turn is of {last['at']}, which is in the future", hint)


def _copies(settings: Settings, now: datetime) -> Iterator[Check]:
    found, good = backups.list_copies(settings.state_dir), backups.find_good(settings.state_dir)
    hint = "the daemon copies the database each day: memoryd run"
    if good is not None:
        age, bad = now - backups.made_at(good), found.index(good)
        told = f"the last good copy of the database is {age.total_seconds() / 3600:.0f} h old"
        if age > OLD_COPY or bad:
            yield Check("copies", WARN, told + (f"; {bad} newer are damaged" if bad else ""), hint)
        else:
            yield Check("copies", OK, told)
    elif reads.database_path(settings).exists():
        yield Check("copies", WARN, "there is no good copy of the database", hint)


def _transcripts(settings: Settings, _now: datetime) -> Iterator[Check]:
    for agent in settings.agents:
        given = agent.transcripts if agent.enabled else ()
        patterns = [sources.make_pattern(one.pattern, one.root, without=settings.state_dir) for one in given]
        if given and not any(sources.walk(pattern).paths for pattern in patterns):
            hint = "correct the paths under transcripts, unless the agent has had no session yet"
            told = ", ".join(one.path for one in given)
            yield Check("transcripts", WARN, f"of {agent.id}: no file matches {told} yet", hint)
    with _open_database(settings) as reader:
        if reader is None:
            return
        for agent in settings.agents:
            counts = reads.transcript_counts(reader, agent.id)
            if counts["transcripts"] and counts["not_read"] == counts["transcripts"]:
                why = status_text.unread_reasons(reads.count_unread(reader, agent.id))
                told = f"of {agent.id}: {counts['not_read']} of {counts['transcripts']} not read{why}"
                hint = "compare path, format and project under transcripts with what the agent writes"
                yield Check("transcripts", WARN, told, hint)
            for line in status_text.passed_over_line(reads.passed_over(reader, agent.id, UNHEARD)):
                yield Check("transcripts", WARN, f"of {agent.id}: {line}", f"roles are {', '.join(SPEAKERS)}")


def _index(settings: Settings, _now: datetime) -> Iterator[Check]:
    index = Index(settings.state_dir, get_logger(part="doctor"))
    if not index.path.exists():
        yield Check("index", OK, "none yet: the first search creates it")
        return
    with closing(index):
        why = index.why_damaged()
        with index.begin_read() as tables:
            count = sum(sum(tables.counts(agent.id).values()) for agent in settings.agents)
        size = index.path.stat().st_size
    if why is None:
        yield Check("index", OK, f"is sound, {count:,} texts, {size / MIB:.1f} MiB")
    else:
        yield Check("index", WARN, why, "the next search rebuilds it")


def _meaning(settings: Settings, _now: datetime) -> Iterator[Check]:
    if settings.search.embeddings == "off":
        yield Check("meaning", OK, "search.embeddings is off: search goes by words alone")
        return
    if lacks := embedder.list_missing():
        told = f"search goes by words alone: {', '.join(lacks)} not installed"
        yield Check("meaning", OK, told, f"optional, {embedder.INSTALL}")
        return
    yield Check("meaning", OK, f"search goes by meaning as well: {embedder.MODEL}")
    for agent_id, one in status.count_embedded(settings).items():
        hint = "" if one["done"] == one["of"] else "the daemon embeds the rest; until then, search finds them by words"
        yield Check("meaning", OK, f"of {agent_id} {one['done']:,} of {one['of']:,} texts are embedded", hint)


# --- the machine ------------------------------------------------------------------------------------------------------


def _clock(settings: Settings, now: datetime) -> Iterator[Check]:
    told = f"{now.isoformat(timespec='seconds')}, {settings.zone.key} {now.astimezone(settings.zone):%z}"
    if now.year not in YEARS:
        yield Check("clock", FAIL, f"cannot be right: {told}", "set the clock: daily files and schedules use it")
        return
    newest = datetime.fromtimestamp(max(map(_get_mtime, settings.state_dir.rglob("*")), default=0.0), UTC)
    if (newest - now).total_seconds() > AHEAD_SECONDS:
        told += f", but the state folder was written at {newest.isoformat(timespec='seconds')}"
        yield Check("clock", WARN, told, "set the clock")
    else:
        yield Check("clock", OK, told)
    if settings.timezone == "local" and settings.zone.key in {"UTC", "Etc/UTC"}:
        hint = "if your days do not begin at midnight UTC, set timezone"
        yield Check("time zone", OK, f"the system's time zone is {settings.zone.key}; {hint}")


def _file_systems(settings: Settings, _now: datetime) -> Iterator[Check]:
    mounted = mounts.read_mounts()
    kind = mounts.file_system(settings.state_dir, mounted)
    if mounts.is_no_place_for_wal(kind):
        yield Check("file system", FAIL, f"{settings.state_dir} is on {kind}", "put state_dir on a local disk")
    elif kind == "overlay" or mounts.is_remote(kind):
        hint = "put state_dir on a local disk or volume that outlives the container"
        yield Check("file system", WARN, f"{settings.state_dir} is on {kind}", hint)
    else:
        yield Check("file system", OK, f"{settings.state_dir} is on {kind or 'an unknown file system'}")
    for agent in settings.agents:
        kind = mounts.file_system(agent.workspace, mounted)
        if mounts.is_remote(kind):
            hint = "memoryd polls there and writes memory; another machine may see a rename late"
            yield Check("file system", WARN, f"the workspace of {agent.id} is on {kind}", hint)


def _watches(settings: Settings, _now: datetime) -> Iterator[Check]:
    if settings.ingest.polling == "always":
        yield Check("watches", OK, "none needed: ingest.polling is always")
    elif not sys.platform.startswith("linux"):
        yield Check("watches", OK, "by events of the system")
    else:
        roots = {source.pattern.root: source.pattern.deep for source in sources_of(settings)}
        needed = sum(sources.count_folders(root) if deep else 1 for root, deep in roots.items())
        allowed = int((_INOTIFY / "max_user_watches").read_text("ascii"))
        level, hint = OK, ""
        if needed > allowed // 2:
            level = FAIL if needed > allowed and settings.ingest.polling == "never" else WARN
            hint = f"sysctl fs.inotify.max_user_watches={max(needed * 4, 524_288)}; without, memoryd polls"
        yield Check("watches", level, f"{needed} folders to watch, {allowed} allowed for all programs of a user", hint)


def _space(settings: Settings, _now: datetime) -> Iterator[Check]:
    state_dir = settings.state_dir
    places = {"the state folder": next(one for one in (state_dir, *state_dir.parents) if one.exists())}
    places |= {f"the workspace of {agent.id}": agent.workspace for agent in settings.agents}
    for name, path in places.items():
        disk = os.statvfs(path)
        free, inodes = disk.f_bavail * disk.f_frsize, disk.f_favail
        scarce = bool(disk.f_files) and inodes < FEW_INODES  # some file systems count no inodes and report 0
        level = FAIL if free < NO_SPACE else WARN if free < LITTLE_SPACE or scarce else OK
        hint = "" if level == OK else "free some space: on a full disk memoryd waits, and then continues by itself"
        counted = f", {inodes} files" if disk.f_files else ""
        yield Check("space", level, f"{free // MIB:,} MiB{counted} free for {name}", hint)


# --- permissions, model, fleet and leftovers --------------------------------------------------------------------------


def _permissions(settings: Settings, _now: datetime) -> Iterator[Check]:
    problems = trust.list_violations(settings)
    yield from (Check("permissions", FAIL, f"{one.where} {one.what}", one.hint) for one in problems)
    loose = list(_find_loose_files(settings.state_dir))
    if loose:
        more = f" and {len(loose) - 1} more" if len(loose) > 1 else ""
        hint = f"chown -R {os.geteuid()} {settings.state_dir}; chmod -R go= {settings.state_dir}"
        yield Check("permissions", FAIL, f"others may read or own {loose[0]}{more}", hint)
    for agent in settings.agents:
        if not os.access(agent.workspace, os.R_OK | os.W_OK | os.X_OK):
            yield Check("permissions", FAIL, f"{agent.workspace} cannot be written", "check its owner and mode")
    if not problems and not loose:
        yield Check("permissions", OK, "only you can write configuration and workspaces, and read the state")


def _find_loose_files(state_dir: Path) -> Iterator[Path]:
    for path in (state_dir, *sorted(state_dir.rglob("*"))):
        with suppress(FileNotFoundError):
            status = path.lstat()
            if status.st_uid != os.geteuid() or (not stat.S_ISLNK(status.st_mode) and status.st_mode & 0o077):
                yield path


def _get_mtime(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return 0.0


def _model(settings: Settings, _now: datetime) -> Iterator[Check]:
    if settings.llm.provider == OFFLINE:
        yield Check("model", OK, "llm.provider is offline: no model, no endpoint and no key is needed")
        return
    if settings.llm.provider == FLEET:
        yield Check("model", OK, "llm.provider is fleet: the fleet's workers have the model and its key")
        return
    from memoryd.llm.probe import probe  # its HTTP library is slow to import

    # The level and the remedy for each `llm.probe.Answer`, by its name.
    hints = json.loads(resources.files("memoryd.interfaces").joinpath("model_hints.json").read_text("utf-8"))
    asked: dict[Endpoint, list[str]] = {}
    for agent in settings.agents:
        asked.setdefault(endpoint_of(settings, agent.id), []).append(agent.id)
    for endpoint, agents in asked.items():
        found = probe(endpoint)
        level, hint = hints[found.answer.name]
        told = f"{endpoint.model} at {endpoint.base_url} for {', '.join(agents)} {found.answer}"
        told += f" ({found.detail})" if found.detail else ""
        yield Check("model", level, told, hint.format(key=endpoint.api_key_env))
    with _open_database(settings) as reader:
        for one in status.list_readers(settings, reader) if reader is not None else ():
            hint = "set llm.verifier to another model at the same server" if one["fit"] is False else ""
            yield Check("reader", WARN if hint else OK, f"second reader: {status_text.reader_line(one)}", hint)


def _fleet(settings: Settings, _now: datetime) -> Iterator[Check]:
    if settings.fleet.database is None:
        return
    try:
        from memoryd.fleet.connection import Database
        from memoryd.fleet.sealing import read_seal

        seal = read_seal(settings.fleet.key_file)
        with closing(Database(settings).open()) as database:
            database.fetch("SELECT 1")
    except MemorydError as error:
        yield Check("fleet", FAIL, f"{error.what}: {error.where}", error.hint)
        return
    told = f"{settings.fleet.host} reaches {database.place}; its schema has this version"
    yield Check("fleet", OK, told if seal.has_key else f"{told}; without fleet.key_file, questions are not encrypted")


def _leftovers(settings: Settings, now: datetime) -> Iterator[Check]:
    damaged = [path for kind in ("damaged", "replaced") for path in settings.state_dir.rglob(f"*.{kind}-*")]
    hint = "copy what you need from it, then delete it"
    for path in sorted(one for one in damaged if not one.name.endswith(("-wal", "-shm"))):
        yield Check("leftovers", WARN, f"{path} was replaced by another file, and is kept", hint)
    for agent in settings.agents:
        for folder in (".", "memory", ".continuum/memory"):
            yield from _left_in(agent.workspace / folder, now)
    if not damaged:
        yield Check("leftovers", OK, "none")


def _left_in(folder: Path, now: datetime) -> Iterator[Check]:
    with suppress(FileNotFoundError), open_folder(folder) as opened:
        for name in opened.names():
            if _KEPT.fullmatch(name):
                hint = "merge it by hand, then remove it"
                yield Check("leftovers", WARN, f"{folder / name} is one of two simultaneous edits", hint)
        for left in opened.leftovers():
            if now.timestamp() - _get_mtime(left.entry.path) > SETTLED_SECONDS:
                hint = "the next job of this agent removes it"
                yield Check("leftovers", WARN, f"{left.entry.path} remains from an interrupted write", hint)


def _proposals(settings: Settings, _now: datetime) -> Iterator[Check]:
    """Warn about proposals that nobody can answer, because their runs are not in the database, as after a restore."""
    with _open_database(settings) as reader:
        if reader is None:
            return
        for agent in settings.agents:
            for file in sorted((agent.workspace / proposal.FOLDER).glob("run-*.md")):
                if reader.row("SELECT 1 FROM job_run WHERE id = ?", file.stem) is None:
                    hint = "delete the file: you cannot answer it; memoryd proposes what still applies again"
                    yield Check("proposals", WARN, f"{file} is of a run that is not in the database", hint)


_LOOKS: tuple[Look, ...] = (
    _sqlite, _daemon, _database, _copies, _transcripts, _index, _meaning, _clock, _file_systems, _watches, _space,
    _permissions, _model, _fleet, _leftovers, _proposals,
)  # fmt: skip
