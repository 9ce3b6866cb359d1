"""Search an agent's memory and read parts of it, for a person with access."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import date, datetime

from memoryd.clock import utc_now
from memoryd.config import Agent, Settings
from memoryd.database import reads
from memoryd.database.reads import KeptReader
from memoryd.errors import ConfigError
from memoryd.files.log import get_logger
from memoryd.finding import excerpt
from memoryd.finding.excerpt import Excerpt, LineRange
from memoryd.finding.indexing import Indexer
from memoryd.finding.recall import Hit, Narrowing, Recall
from memoryd.index.database import Index
from memoryd.reading.scrubbing import Scrubber
from memoryd.recall.query import parse
from memoryd.recall.ranking import SESSION
from memoryd.requests import access, meanings, now_sessions
from memoryd.requests.scanner import open_scrubber


def search(settings: Settings, agent: Agent, text: str, narrowing: Narrowing, what: str) -> list[Hit]:
    """Search an agent's memory, most relevant first. `what` names the interface in the audit.

    Raises:
        ConfigError: The query or the days are invalid.
        RefusedError: The person has no access.
    """
    check(text, narrowing)
    access.require(settings, agent, what)
    with open_scrubber(settings) as scrubber, open_recall(settings, scrubber) as recall:
        return search_with(recall, scrubber, agent, text, narrowing)


def check(text: str, narrowing: Narrowing) -> None:
    """Check a query.

    Raises:
        ConfigError: The query contains no word, or the days are invalid.
    """
    if not parse(text).terms:
        raise ConfigError("it contains no word", "query", "give at least one letter or digit")
    require_days(narrowing)


def search_with(recall: Recall, scrubber: Scrubber, agent: Agent, text: str, narrowing: Narrowing) -> list[Hit]:
    """Search with an open recall, without a check of access.

    If tags are given, sessions in NOW files with these tags are also searched, even if they are not indexed yet.
    """
    if not narrowing.tags or narrowing.tier not in {None, SESSION}:
        return recall.search(agent, text, narrowing)
    kept = now_sessions.list_tagged(agent, narrowing.tags)
    beside = {f"{SESSION}:{one.header.session_id}": narrowing.tags for one in kept}
    hits = recall.search(agent, text, replace(narrowing, beside=beside))
    with recall.indexer.database.reading_any() as reader:
        unread = now_sessions.search_unread(kept, text, narrowing, reader, scrubber.redact)
    return [*unread, *hits][: narrowing.limit]


def require_days(narrowing: Narrowing) -> None:
    """Raise a ConfigError unless `after` and `before` are dates in this order. Each may be None."""
    for name, day in (("after", narrowing.after), ("before", narrowing.before)):
        # A datetime is also a date, but its time would be ignored.
        if day is not None and (not isinstance(day, date) or isinstance(day, datetime)):
            raise ConfigError(f"{str(day)!r} is not a day", name, "give a datetime.date, such as date(2026, 3, 4)")
    if narrowing.after is not None and narrowing.before is not None and narrowing.after > narrowing.before:
        what = f"{narrowing.after} is later than {narrowing.before}: no day is in between"
        raise ConfigError(what, "after, before", "give the earlier day as after")


def get(settings: Settings, agent: Agent, path: str, span: LineRange, what: str) -> Excerpt:
    """Read part of an agent's memory. `what` names the interface in the audit.

    Raises:
        RefusedError: The person has no access, or the path leads out of the workspace.
        NotFoundError: There is no such file, id or line.
    """
    access.require(settings, agent, what)
    with open_scrubber(settings) as scrubber:
        return excerpt.get(agent, path, span, database=reads.database_path(settings), redact=scrubber.redact_own)


@contextmanager
def open_recall(settings: Settings, scrubber: Scrubber) -> Iterator[Recall]:
    """Open the search in this process. A daemon may run beside it."""
    log = get_logger(part="index")
    index = Index(settings.state_dir, log)
    reader = KeptReader(reads.database_path(settings))
    made = Indexer(index, reader, settings.zone, scrubber.redact_own, log)
    with closing(made) as indexer, meanings.open_meanings(settings) as meaning:
        yield Recall(indexer, utc_now, meaning)
