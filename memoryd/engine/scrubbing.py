"""No secret is stored or sent: every text passes the scanner first, and what goes out passes it once more.

The scanner works in a child process (`worker`), since its rules are dear to load. Whatever cannot be scanned is not
kept: `None` takes the place of its text, and it is for the caller to withhold it and to come back.
"""

from __future__ import annotations

import hashlib
import re
import threading
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from memoryd.errors import MemorydError, StateError
from memoryd.scrub.policy import Policy
from memoryd.worker.client import ClosedError, WorkerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from memoryd import config
    from memoryd.files.log import Log
    from memoryd.scrub.finding import Scrubbed

KEPT_NAMES = 100_000
# What agents make as ids, and short words: no secret has this shape, or every id would be one.
_PLAIN = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|sha256:[0-9a-f]{64}"
    r"|(?:toolu|msg|req|call)_[0-9A-Za-z]{20,32}"
    r"|[A-Za-z_]{1,16}"
)


class Scanner(Protocol):
    """What scans texts: the worker, as far as it is asked here."""

    def scan(self, texts: Sequence[str], policy: Policy) -> list[Scrubbed | None]:
        """Each text as it may be kept; None for one that could not be scanned."""
        ...

    def tick(self, now_monotonic: float) -> None:
        """Let an idle child end."""
        ...

    def close(self) -> None:
        """Stop the child for good."""
        ...


class SecretError(MemorydError):
    """A text that was to be sent or written holds a secret. Nothing of it was; the error names only the rules."""

    code = "secret"


class UnscannedError(StateError):
    """A text that was to be sent or written could not be scanned, so it was not."""


class Scrubber:
    """Scans by the policy in force. Safe to use from several threads."""

    def __init__(self, scanner: Scanner, log: Log) -> None:
        self._scanner = scanner
        self._log = log
        self._names: dict[str, str] = {}
        self.policy = Policy()

    def configure(self, settings: config.Settings) -> None:
        """Take the policy of the configuration.

        Raises:
            ConfigError: an entry of `scrub.allow` cannot be meant.
        """
        given = settings.scrub
        policy = Policy(given.secrets, given.pii, given.allow)
        if policy != self.policy:
            self.policy = policy
            self._names = {}

    def tick(self, now_monotonic: float) -> None:
        """Let the scanner's child end when it has been idle."""
        self._scanner.tick(now_monotonic)

    def close(self) -> None:
        """Stop the scanner for good."""
        self._scanner.close()

    # --- what comes in --------------------------------------------------------------------------------------------

    def scan(self, texts: Sequence[str]) -> list[Scrubbed | None]:
        """Return each text as it may be kept; None for one that could not be scanned."""
        return self._scan(texts, self.policy)

    def scan_redacting(self, texts: Sequence[str], *, private: bool = True) -> list[Scrubbed | None]:
        """Return each text without its secrets, also where the policy is to skip such texts.

        Args:
            texts: what is to be kept.
            private: also without what stands between `<private>` tags.
        """
        return self._scan(texts, replace(_redacting(self.policy), private=private))

    def begin(self, texts: Sequence[str]) -> Future[list[Scrubbed | None]]:
        """Scan on another thread, while the caller does something else."""
        result: Future[list[Scrubbed | None]] = Future()

        def work() -> None:
            try:
                result.set_result(self.scan(texts))
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
                result.set_exception(error)

        threading.Thread(target=work, name="scan", daemon=True).start()
        return result

    def _scan(self, texts: Sequence[str], policy: Policy) -> list[Scrubbed | None]:
        if not texts:
            return []
        try:
            return self._scanner.scan(texts, policy)
        except ClosedError:
            raise  # nothing is wrong with the texts: they are read and scanned at the next start
        except WorkerError as error:
            self._log.warning("texts not scanned", texts=len(texts), why=str(error))
            return [None] * len(texts)

    def names(self, given: Iterable[str]) -> dict[str, str | None]:
        """Return ids and other short names as they may be kept; None for one that could not be scanned.

        One with a secret in it is replaced by its own hash, so that it still tells things apart, and the same way
        whenever and beside whatever else it is met.
        """
        # Taken before the policy: another one has names of its own, and never gets what an older one has said.
        known_names = self._names
        asked = set(given)
        found: dict[str, str | None] = {}
        unknown = []
        for name in asked:
            known = name if _PLAIN.fullmatch(name) else known_names.get(name)
            if known is None:
                unknown.append(name)
            else:
                found[name] = known
        for name, scrubbed in zip(unknown, self.scan_redacting(unknown), strict=True):
            found[name] = None if scrubbed is None else hashed(name) if scrubbed.findings else name
        if len(known_names) > KEPT_NAMES:
            known_names.clear()
        known_names.update((name, kept) for name in unknown if (kept := found[name]) is not None)
        return found

    def name(self, given: str) -> str:
        """Return one name as it may be kept.

        Raises:
            UnscannedError: it could not be scanned.
        """
        kept = self.names([given])[given]
        if kept is None:
            raise _unscanned("a name")
        return kept

    def redact(self, texts: Sequence[str]) -> list[str]:
        """Return texts without their secrets, also where the policy is to skip such texts.

        Raises:
            UnscannedError: one could not be scanned.
        """
        found = []
        for scrubbed in self.scan_redacting(texts):
            if scrubbed is None:
                raise _unscanned("a text")
            found.append(scrubbed.text)
        return found

    def redact_path(self, path: str) -> str:
        """Return a path, with what is a secret in it masked.

        Raises:
            UnscannedError: it could not be scanned.
        """
        return path if self.name(path) == path else self.redact([path])[0]

    # --- what goes out --------------------------------------------------------------------------------------------

    def require_clean(self, texts: Sequence[str], where: str) -> None:
        """Make sure that texts which are about to be sent or written hold no secret: an assertion, not a filter.

        Raises:
            SecretError: one does; with the rules that say so, and `where`.
            UnscannedError: one could not be scanned.
        """
        rules: set[str] = set()
        for scrubbed in self.scan_redacting([text for text in texts if text]):
            if scrubbed is None:
                raise _unscanned(where)
            rules.update(finding.rule for finding in scrubbed.findings)
        if rules:
            raise SecretError(
                f"would hold a secret ({', '.join(sorted(rules))}); nothing was sent or written",
                where,
                "memoryd scrub --again redacts what was stored before the rule was there",
            )


def hashed(name: str) -> str:
    """Return what stands in place of an id that must not be kept."""
    return f"sha256:{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def strings_of(value: Any) -> list[str]:
    """List the strings in a plain value, keys included."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in strings_of(part)]
    if isinstance(value, list | tuple):
        return [text for part in value for text in strings_of(part)]
    return []


def with_strings(value: Any, change: Callable[[str], str]) -> Any:
    """Return a plain value with each string changed that is no key."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: with_strings(part, change) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [with_strings(part, change) for part in value]
    return value


def named(kept: Mapping[str, str | None], name: str | None) -> str | None:
    """Return a name as `names` found it; by its hash where it could not be scanned."""
    return None if name is None else kept[name] or hashed(name)


def _redacting(policy: Policy) -> Policy:
    return replace(policy, secrets="redact") if policy.secrets == "skip" else policy


def _unscanned(where: str) -> UnscannedError:
    return UnscannedError("could not be scanned for secrets", where, "it is tried again; see the log")
