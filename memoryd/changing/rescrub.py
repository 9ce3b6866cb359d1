"""Redact everything stored again, so that a new rule also applies to old text."""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import Engine

from memoryd.changing import guard_check
from memoryd.changing.full_scan import FullScan
from memoryd.database import sqlite, texts, vault
from memoryd.reading import recording
from memoryd.reading.scrubbing import Scrubber, UnscannedError

KIND = "scrub"


@dataclass(slots=True, kw_only=True)
class Rescrub(FullScan):
    """Remove secrets from what is stored."""

    ACTOR: ClassVar[str] = guard_check.ACTOR
    scrubber: Scrubber
    renamed: Callable[[], None]  # called at once when ids change that somebody may remember

    def run(self) -> dict[str, Any]:
        """Scan everything; return the counts for the run report."""
        self.scan_all()
        texts.rewrite_file(self.engine)
        names = ("rows", "texts", "files", "unscanned")
        return {**{name: self.counts[name] for name in names}, "left": self.left}

    def clean_texts(self, given: Sequence[str], *, in_file: bool = False) -> dict[str, str]:
        """Redact texts, by text; leave and count those that could not be scanned.

        `<private>` tags only affect text that is shown to an agent. In a person's file they are ordinary text.
        """
        found = {}
        for text, scrubbed in zip(given, self.scrubber.scan_redacting(given, private=not in_file), strict=True):
            if scrubbed is None:
                self.counts["unscanned"] += 1
            else:
                found[text] = scrubbed.text
        return found

    def names(self, given: Iterable[str]) -> dict[str, str | None]:
        """Replace names with a secret in them by their hashes."""
        return self.scrubber.names(given)

    def database(self, engine: Engine) -> None:
        """Redact all rows; rename sessions at once, wherever they are referred to."""
        if engine is self.engine:
            sqlite.write(engine, vault.empty_damaged, vault.DAMAGED)  # it is redacted when it is read again
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
        """Reload what the readers of transcripts cache, because it has changed."""
        if columns and (table in {"session", "transcript"} or "record_id" in columns):
            self.renamed()

    def clean_messages(self, path: Path, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Redact a recorded session; leave and count one with a message that could not be scanned."""
        try:
            return recording.redact_messages(messages, self.scrubber)
        except UnscannedError:
            self.counts["unscanned"] += 1
            self.left.append(str(path))
            return messages
