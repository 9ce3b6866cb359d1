"""Redact every text before it is stored, and check it again before it is sent.

The scanner works in a child process (`worker`), because its rules are expensive to load. A text that cannot be scanned
is not stored: `None` replaces it, and the caller must withhold it and try again.
"""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import fields, is_dataclass, replace
from queue import SimpleQueue
from typing import Any, NamedTuple

from memoryd import config
from memoryd.errors import MemorydError, StateError
from memoryd.files.log import Log
from memoryd.scrub.finding import ScrubbedText
from memoryd.scrub.policy import Policy
from memoryd.worker.client import ClosedError, Worker, WorkerError

Progress = Callable[[], None]


KEPT_NAMES = 20_000  # those of a batch and of the files around it; more took 20 MB in an import
KEPT_CLEAN = 30_000  # hashes: 4 MB
LEAST_KNOWN = 128  # characters; nearly all repeated text is longer
# Ids that agents generate, and short words. They are never secrets; otherwise every id would be redacted.
_PLAIN = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|sha256:[0-9a-f]{64}"
    r"|(?:toolu|msg|req|call)_[0-9A-Za-z]{20,32}"
    r"|[A-Za-z_]{1,16}"
)


class SecretError(MemorydError):
    """Report that a text to be sent or written holds a secret. Nothing was sent; the error names only the rules."""

    code = "secret"


class UnscannedError(StateError):
    """Report that a text to be sent or written could not be scanned. Nothing was sent."""


class Scan:
    """Run a scan on its own thread."""

    def __init__(self, work: Callable[[Progress], list[ScrubbedText | None]]) -> None:
        """Take the scan, a function that gets a callback for each part."""
        self._more: SimpleQueue[bool] = SimpleQueue()
        self._outcome: Future[list[ScrubbedText | None]] = Future()
        threading.Thread(target=self._run, args=(work,), name="scan", daemon=True).start()

    def _run(self, work: Callable[[Progress], list[ScrubbedText | None]]) -> None:
        try:
            self._outcome.set_result(work(lambda: self._more.put(item=True)))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            self._outcome.set_exception(error)
        finally:
            self._more.put(item=False)

    def result(self, progress: Progress = lambda: None) -> list[ScrubbedText | None]:
        """Wait for the texts, once; call `progress` on this thread for each finished part."""
        while self._more.get():
            progress()
        return self._outcome.result()


class _CleanTexts(NamedTuple):
    """Cache a policy's results: names in their stored form, and the hashes of texts without a finding.

    `skip` and `redact` share the hashes: a text without a finding under one has none under the other.
    """

    policy: Policy
    names: dict[str, str]
    clean: set[bytes]


class Scrubber:
    """Scan texts by the policy in force. Safe to use from several threads."""

    def __init__(self, scanner: Worker, log: Log) -> None:
        self._scanner = scanner
        self._log = log
        # With the findings under it: an answer that comes after a change belongs to the old policy.
        self._known = _CleanTexts(Policy(), {}, set())

    @property
    def policy(self) -> Policy:
        """Return the policy in force."""
        return self._known.policy

    def configure(self, settings: config.Settings) -> bool:
        """Take the policy of the configuration; return True if it differs."""
        given = settings.scrub
        policy = Policy(given.secrets, given.pii, given.allow)
        if policy == self.policy:
            return False
        self._known = _CleanTexts(policy, {}, set())
        return True

    def tick(self, now_monotonic: float) -> None:
        """Let the scanner's child process end when it has been idle."""
        self._scanner.tick(now_monotonic)

    def close(self) -> None:
        """Stop the scanner for good."""
        self._scanner.close()

    # --- what comes in --------------------------------------------------------------------------------------------

    def scan(self, texts: Sequence[str], progress: Progress = lambda: None) -> list[ScrubbedText | None]:
        """Return each text in its stored form; None if it could not be scanned. `progress`: between parts.

        A clean text of at least `LEAST_KNOWN` characters is not scanned again, because a resumed session repeats the
        session it comes from. `require_clean` always scans.
        """
        return self._scan_new(texts, self._known, progress, LEAST_KNOWN)

    def scan_redacting(self, texts: Sequence[str], *, private: bool = True) -> list[ScrubbedText | None]:
        """Return each text without its secrets, even if the policy is to skip such texts.

        `private`: also without text between `<private>` tags.
        """
        return self._scan(texts, _make_redacting(self.policy, private=private))

    def begin(self, texts: Sequence[str]) -> Scan:
        """Start a scan on another thread, so that the caller can continue."""
        return Scan(lambda progress: self.scan(texts, progress))

    def _scan_new(
        self, texts: Sequence[str], known: _CleanTexts, progress: Progress = lambda: None, least: int = 0
    ) -> list[ScrubbedText | None]:
        clean = known.clean
        hashes = {text: _hash_of(text) for text in texts if len(text) >= least}
        asked = [text for text in dict.fromkeys(texts) if hashes.get(text) not in clean]
        found = dict(zip(asked, self._scan(asked, known.policy, progress), strict=True))
        if len(clean) > KEPT_CLEAN:
            clean.clear()
        clean.update(hashes[one] for one, scrubbed in found.items() if one in hashes and scrubbed == (one, (), False))
        return [found[text] if text in found else ScrubbedText(text, ()) for text in texts]

    def _scan(
        self, texts: Sequence[str], policy: Policy, progress: Progress = lambda: None
    ) -> list[ScrubbedText | None]:
        if not texts:
            return []
        try:
            return self._scanner.scan(texts, policy, progress)
        except ClosedError:
            raise  # the texts are not at fault: they are read and scanned at the next start
        except WorkerError as error:
            self._log.warning("texts not scanned", texts=len(texts), why=str(error))
            return [None] * len(texts)

    def names(self, given: Iterable[str], progress: Progress = lambda: None) -> dict[str, str | None]:
        """Return ids and other short names in their stored form; None for one that could not be scanned.

        A name with a secret is replaced by its own hash. So it still distinguishes things, in the same way at any time
        and beside any other names.
        """
        asked = set(given)
        policy, cache, _ = self._known
        found: dict[str, str | None] = {}
        unknown = []
        for name in asked:
            known = name if _PLAIN.fullmatch(name) else cache.get(name)
            if known is None:
                unknown.append(name)
            else:
                found[name] = known
        for name, scrubbed in zip(unknown, self._scan(unknown, _make_redacting(policy), progress), strict=True):
            found[name] = None if scrubbed is None else hash_name(name) if scrubbed.findings else name
        if len(cache) > KEPT_NAMES:
            cache.clear()
        cache.update((name, kept) for name in unknown if (kept := found[name]) is not None)
        return found

    def name(self, given: str) -> str:
        """Return a name, or its hash if the name holds a secret."""
        kept = self.names([given])[given]
        if kept is None:
            raise _make_unscanned_error("a name")
        return kept

    def redact(self, texts: Sequence[str]) -> list[str]:
        """Return texts without their secrets, even if the policy is to skip such texts.

        Clean texts are not scanned again, because each run passes the same memory files.
        """
        known = self._known
        redacting = known._replace(policy=_make_redacting(known.policy))
        return _texts_of(self._scan_new(texts, redacting))

    def redact_value(self, value: Any) -> Any:
        """Return a plain value or a dataclass without secrets in its strings."""
        found = list(dict.fromkeys(strings_of(value)))
        clean = dict(zip(found, self.redact(found), strict=True))
        return with_strings(value, clean.__getitem__)

    def redact_own(self, texts: Sequence[str]) -> list[str]:
        """Return the texts of a person's own files without secrets; there, `<private>` tags are ordinary text."""
        if self.policy.secrets == self.policy.pii == "off":
            return list(texts)  # without starting the scanner, which has nothing to do
        return _texts_of(self.scan_redacting(texts, private=False))

    def redact_path(self, path: str) -> str:
        """Return a path with its secrets masked."""
        return path if self.name(path) == path else self.redact([path])[0]

    # --- what goes out --------------------------------------------------------------------------------------------

    def require_clean(self, texts: Sequence[str], where: str) -> None:
        """Raise if a text to be sent or written holds a secret: an assertion, not a filter.

        Raises:
            SecretError: one does; with the rules that say so, and `where`.
            UnscannedError: one could not be scanned.
        """
        rules: set[str] = set()
        for scrubbed in self.scan_redacting([text for text in texts if text]):
            if scrubbed is None:
                raise _make_unscanned_error(where)
            rules.update(finding.rule for finding in scrubbed.findings)
        if rules:
            raise SecretError(
                f"would hold a secret ({', '.join(sorted(rules))}); nothing was sent or written",
                where,
                "memoryd scrub --again redacts what was stored before the rule was there",
            )


def hash_name(name: str) -> str:
    """Return the replacement of an id that must not be stored."""
    return f"sha256:{_hash_of(name).hex()}"


def strings_of(value: Any) -> list[str]:
    """List the strings in a plain value or a dataclass, keys included."""
    if isinstance(value, str):
        return [str(value)]  # also the name of an enumeration
    if is_dataclass(value):
        return [text for one in fields(value) for text in strings_of(getattr(value, one.name))]
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in strings_of(part)]
    if isinstance(value, list | tuple):
        return [text for part in value for text in strings_of(part)]
    return []


def with_strings(value: Any, change: Callable[[str], str]) -> Any:
    """Return a plain value or a dataclass with each string changed, keys included; of equal keys, one gets a mark."""
    if isinstance(value, str):
        return value if (kept := change(value)) == value else kept  # a name of an enumeration stays one
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{one.name: with_strings(getattr(value, one.name), change) for one in fields(value)})
    if isinstance(value, dict):
        changed: dict[Any, Any] = {}
        for given, part in value.items():
            key = with_strings(given, change)
            while key in changed:
                key = f"{key}~"
            changed[key] = with_strings(part, change)
        return changed
    if isinstance(value, list | tuple):
        parts = [with_strings(part, change) for part in value]
        return value._make(parts) if hasattr(value, "_make") else type(value)(parts)
    return value


def _make_redacting(policy: Policy, *, private: bool = True) -> Policy:
    return replace(policy, secrets="redact" if policy.secrets == "skip" else policy.secrets, private=private)


def _texts_of(found: Sequence[ScrubbedText | None]) -> list[str]:
    texts = [scrubbed.text for scrubbed in found if scrubbed is not None]
    if len(texts) < len(found):
        raise _make_unscanned_error("a text")
    return texts


def _hash_of(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _make_unscanned_error(where: str) -> UnscannedError:
    return UnscannedError("could not be scanned for secrets", where, "it is tried again; see the log")


def redacted_json(scrubber: Scrubber, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows of plain values as JSON without secrets."""
    return json.dumps(scrubber.redact_value([dict(one) for one in rows]), ensure_ascii=False)
