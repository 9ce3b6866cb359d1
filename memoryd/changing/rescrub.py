"""Scan and redact everything that is stored once more, so that a new rule applies to old text too."""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import Engine

from memoryd.changing import guard_check
from memoryd.changing.full_scan import FullScan
from memoryd.database import erasure, sqlite, texts, vault
from memoryd.reading import recording
from memoryd.reading.scrubbing import Scrubber, UnscannedError

KIND = "scrub"


@dataclass(slots=True, kw_only=True)
class Rescrub(FullScan):
    """Redact secrets in stored text."""

    ACTOR: ClassVar[str] = guard_check.ACTOR
    scrubber: Scrubber
    renamed: Callable[[], None]  # is called at once when ids change that other code may have cached

    def run(self, *, is_restored: bool = False) -> dict[str, Any]:
        """Redact everything; return the counts for the run report.

        In a restored database, a text may have been forgotten in its redacted form. It is erased too.
        """
        self.scan_all()
        if is_restored:
            sqlite.write(self.engine, erasure.erase_known)
        texts.rewrite_file(self.engine)
        return {**{name: self.counts[name] for name in ("rows", "texts", "files", "unscanned")}, "left": self.left}

    def clean_texts(self, given: Sequence[str], *, in_file: bool = False) -> dict[str, str]:
        """Return the redacted texts, by old text; a text that could not be scanned is counted and left out.

        In a person's file, `<private>` tags are ordinary text.
        """
        found = {}
        for text, scrubbed in zip(given, self.scrubber.scan_redacting(given, private=not in_file), strict=True):
            if scrubbed is None:
                self.counts["unscanned"] += 1
            else:
                found[text] = scrubbed.text
        return found

    def names(self, given: Iterable[str]) -> dict[str, str | None]:
        """Return the redacted form of each name, by old name; a name with a secret becomes its hash."""
        return self.scrubber.names(given)

    def database(self, engine: Engine) -> None:
        """Redact all rows of a database; in all tables, rename sessions whose id has a secret."""
        if engine is self.engine:
            sqlite.write(engine, vault.empty_damaged, vault.DAMAGED)  # to be redacted when they are read again
        ids = texts.session_ids(engine, None if self.everybody else list(self.workspaces))
        for old, new in self.scrubber.names(ids).items():
            if new is None:
                self.counts["unscanned"] += 1
            elif new != old:
                texts.rename_session(engine, old, new)
                self.renamed()
                self.counts["rows"] += 1
                self.counts["texts"] += 1
        self.rows_of(engine, texts.list_tables(engine))

    def were_written(self, table: str, columns: AbstractSet[str]) -> None:
        """Tell the readers of transcripts to reload their caches if these may have changed."""
        if columns and (table in {"session", "transcript"} or "record_id" in columns):
            self.renamed()

    def clean_messages(self, path: Path, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the redacted messages of a recorded session; if one could not be scanned, all stay unchanged."""
        try:
            return recording.redact_messages(messages, self.scrubber)
        except UnscannedError:
            self.counts["unscanned"] += 1
            self.left.append(str(path))
            return messages
