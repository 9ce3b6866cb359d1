"""Redact every text before it is stored, and check it again before it is sent.

The scanner runs in a child process (`worker`), because its rules take much time and memory to load. If a text cannot be
scanned, the result is None. The caller must not store the text, and must try again later.
"""

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
from memoryd.worker.client import ClosedError, Worker, WorkerError, hash_text

Progress = Callable[[], None]
ScannedNames = dict[str, str | None]  # the stored form of each name; None for a name that could not be scanned
ScanResult = tuple[list[ScrubbedText | None], ScannedNames]

KEPT_NAMES = 20_000  # enough for a batch and its files; without this limit, an import needed 20 MB more
KEPT_CLEAN = 30_000  # number of hashes, which take 4 MB
LEAST_KNOWN = 128  # characters; almost all texts that repeat are longer
# Ids that agent programs generate, short words, and folders that are named with such words. They are no secrets, but
# rules about randomness would find them. Every other name waits for the scan of the texts before it.
_PLAIN = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?:/agent-[0-9a-f]{1,32})?"
    r"|sha256:[0-9a-f]{64}"
    r"|(?:toolu|msg|req|call)_[0-9A-Za-z]{20,32}"
    r"|[A-Za-z_]{1,16}|(?:/[A-Za-z_-]{1,16})+"
)


class SecretError(MemorydError):
    """Report that a text to be sent or written has a secret.

    Nothing was sent or written; the error names only the rules.
    """

    code = "secret"


class UnscannedError(StateError):
    """Report that a text could not be scanned for secrets. Nothing was sent, written or stored."""


class Scan:
    """Run a scan on a thread of its own."""

    def __init__(self, work: Callable[[Progress], ScanResult], turn: threading.Lock) -> None:
        """Start the scan, which waits for its `turn`. `work` does it, and calls its argument after each part."""
        self._more: SimpleQueue[bool] = SimpleQueue()
        self._outcome: Future[ScanResult] = Future()
        threading.Thread(target=self._run, args=(work, turn), name="scan", daemon=True).start()

    def _run(self, work: Callable[[Progress], ScanResult], turn: threading.Lock) -> None:
        try:
            with turn:
                self._outcome.set_result(work(lambda: self._more.put(item=True)))
        except BaseException as error:  # noqa: BLE001 - `result` raises it
            self._outcome.set_exception(error)
        finally:
            self._more.put(item=False)

    def result(self, progress: Progress = lambda: None) -> ScanResult:
        """Wait for the scan and return its texts and its names; call it only once.

        `progress` is called on this thread after each part.
        """
        while self._more.get():
            progress()
        return self._outcome.result()


class _CleanTexts(NamedTuple):
    """Cache the results of a policy: names in their stored form, and hashes of texts without findings.

    A text without a finding under `skip` has none under `redact`, and vice versa. So both share the hashes.
    """

    policy: Policy
    names: dict[str, str]
    clean: set[bytes]


class Scrubber:
    """Scan texts for secrets by the configured policy. Safe to use from several threads."""

    def __init__(self, scanner: Worker, log: Log) -> None:
        self._scanner = scanner
        self._log = log
        self._scanning = threading.Lock()
        # One object holds policy and results, so that a result that arrives after a change stays with the old policy.
        self._known = _CleanTexts(Policy(), {}, set())

    @property
    def policy(self) -> Policy:
        """Return the present policy."""
        return self._known.policy

    def configure(self, settings: config.Settings) -> bool:
        """Apply the policy of the configuration; return True if it has changed."""
        given = settings.scrub
        policy = Policy(given.secrets, given.pii, given.allow)
        if policy == self.policy:
            return False
        self._known = _CleanTexts(policy, {}, set())
        return True

    def tick(self, now_monotonic: float) -> None:
        """Let the scanner's child process end if it has been idle for long enough."""
        self._scanner.tick(now_monotonic)

    def close(self) -> None:
        """Stop the scanner for good."""
        self._scanner.close()

    # --- texts from outside ---------------------------------------------------------------------------------------

    def scan(self, texts: Sequence[str], progress: Progress = lambda: None) -> list[ScrubbedText | None]:
        """Return each text in its stored form; None for a text that could not be scanned.

        A text of at least `LEAST_KNOWN` characters that had no finding before is not scanned again, because a resumed
        session repeats its texts. `require_clean` always scans. `progress` is called after each part.
        """
        return self._scan_new(texts, self._known, progress, LEAST_KNOWN)

    def scan_redacting(self, texts: Sequence[str], *, private: bool = True) -> list[ScrubbedText | None]:
        """Return each text with its secrets redacted, even if the policy drops texts with secrets; None if not scanned.

        With `private`, text between `<private>` tags is removed too.
        """
        return self._scan(texts, _make_redacting(self.policy, private=private))

    def begin(self, texts: Sequence[str], names: Iterable[str] = ()) -> Scan:
        """Start a scan on another thread and return it at once. It waits for earlier scans to end."""
        return Scan(lambda progress: (self.scan(texts, progress), self.names(names, progress)), self._scanning)

    def _scan_new(
        self, texts: Sequence[str], known: _CleanTexts, progress: Progress = lambda: None, least: int = 0
    ) -> list[ScrubbedText | None]:
        clean = known.clean
        hashes = {text: hash_text(text) for text in texts if len(text) >= least}
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
            raise  # the process is ending, so the texts will be scanned after the next start
        except WorkerError as error:
            self._log.warning("texts not scanned", texts=len(texts), why=str(error))
            return [None] * len(texts)

    def names(self, given: Iterable[str], progress: Progress = lambda: None) -> ScannedNames:
        """Return ids and other short names in their stored form, by name; None for a name that could not be scanned.

        A name with a secret becomes its hash, which does not depend on time or other names. So it still identifies
        things.
        """
        policy, cache, _ = self._known
        found = {name: name if _PLAIN.fullmatch(name) else cache.get(name) for name in set(given)}
        unknown = [name for name, known in found.items() if known is None]
        for name, scrubbed in zip(unknown, self._scan(unknown, _make_redacting(policy), progress), strict=True):
            found[name] = None if scrubbed is None else hash_name(name) if scrubbed.findings else name
        if len(cache) > KEPT_NAMES:
            cache.clear()
        cache.update((name, kept) for name in unknown if (kept := found[name]) is not None)
        return found

    def name(self, given: str) -> str:
        """Return a name, or its hash if it has a secret.

        Raises:
            UnscannedError: the name could not be scanned.
        """
        kept = self.names([given])[given]
        if kept is None:
            raise _make_unscanned_error("a name")
        return kept

    def redact(self, texts: Sequence[str]) -> list[str]:
        """Return texts with their secrets redacted, even if the policy drops texts with secrets.

        Texts without findings are not scanned again, because each run passes the same memory files.

        Raises:
            UnscannedError: a text could not be scanned.
        """
        known = self._known
        return _texts_of(self._scan_new(texts, known._replace(policy=_make_redacting(known.policy))))

    def redact_value(self, value: Any) -> Any:
        """Return a plain value or a dataclass with the secrets in its strings redacted."""
        found = list(dict.fromkeys(strings_of(value)))
        return with_strings(value, dict(zip(found, self.redact(found), strict=True)).__getitem__)

    def redact_own(self, texts: Sequence[str]) -> list[str]:
        """Return the texts of a person's own files with secrets redacted. `<private>` tags are ordinary text there."""
        if self.policy.secrets == self.policy.pii == "off":
            return list(texts)  # the scanner need not start
        return _texts_of(self.scan_redacting(texts, private=False))

    def redact_path(self, path: str) -> str:
        """Return a path with its secrets redacted."""
        return path if self.name(path) == path else self.redact([path])[0]

    # --- texts to be sent -----------------------------------------------------------------------------------------

    def require_clean(self, texts: Sequence[str], where: str) -> None:
        """Raise an error if a text to be sent or written has a secret. The texts are not changed.

        Raises:
            SecretError: a text has a secret; the error names the rules and `where`.
            UnscannedError: a text could not be scanned.
        """
        rules: set[str] = set()
        for scrubbed in self.scan_redacting([text for text in texts if text]):
            if scrubbed is None:
                raise _make_unscanned_error(where)
            rules.update(finding.rule for finding in scrubbed.findings)
        if rules:
            what = f"would hold a secret ({', '.join(sorted(rules))}); nothing was sent or written"
            raise SecretError(what, where, "memoryd scrub --again redacts what was stored before the rule was there")


def hash_name(name: str) -> str:
    """Return the hash that replaces an id with a secret."""
    return f"sha256:{hash_text(name).hex()}"


def strings_of(value: Any) -> list[str]:
    """List the strings in a plain value or a dataclass, including keys of dictionaries."""
    if isinstance(value, str):
        return [str(value)]  # a string enum becomes a plain string
    if is_dataclass(value):
        return [text for one in fields(value) for text in strings_of(getattr(value, one.name))]
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in strings_of(part)]
    return [text for part in value for text in strings_of(part)] if isinstance(value, list | tuple) else []


def with_strings(value: Any, change: Callable[[str], str]) -> Any:
    """Return a plain value or a dataclass with `change` applied to each string, including keys of dictionaries.

    If two keys become equal, one gets a `~` at its end.
    """
    if isinstance(value, str):
        return value if (kept := change(value)) == value else kept  # an unchanged enum stays an enum
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


def _make_unscanned_error(where: str) -> UnscannedError:
    return UnscannedError("could not be scanned for secrets", where, "it is tried again; see the log")


def redacted_json(scrubber: Scrubber, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows of plain values as JSON, with secrets redacted."""
    return json.dumps(scrubber.redact_value([dict(one) for one in rows]), ensure_ascii=False)
