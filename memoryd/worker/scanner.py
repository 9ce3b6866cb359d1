"""Run the scanner of the child: the library's rules, loaded once, and a limit on the time for any text.

The library (kingfisher) compiles its rules at the first use, which takes seconds, and stores them in a folder. This is
the user's cache folder, so that all state folders share it. If that cannot be written, as in a service without the home
folder, it is the state folder. The library creates the folder with mode 0700, and rejects one of another user.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from functools import cached_property
from typing import TYPE_CHECKING

import platformdirs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import FrameType

    from memoryd.scrub.finding import ScrubbedText
    from memoryd.scrub.policy import Policy

SECONDS_LEAST = 1.5  # well within the time that the parent waits for a batch
# This rule finds every `user:pass@host`. memoryd's own rule judges the password instead.
TOO_BROAD = frozenset({"generic-credential-uri"})
CHARACTERS_PER_SECOND = 1_000_000  # per second of the child's own time: a fortieth of the usual speed
PIECE = 128 * 1024  # bytes that the library gets at once
OVERLAP = 4 * 1024  # bytes that two pieces share: more than the longest key on one line
_RULE_SHAPE = re.compile(r"[^a-z0-9]+")


class LateError(Exception):
    """Report that the rules took too long."""


class SecretScanner:
    """Scan texts for secrets and private parts."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    @cached_property
    def _formats(self) -> KnownFormats:
        return KnownFormats(cache_folder(self._state_dir))

    def scan(self, texts: Sequence[str], policy: Policy) -> tuple[int, dict[int, ScrubbedText]] | None:
        """Return the number of texts, and by its index each with findings, redacted.

        Return None if a text makes a rule fail or take too long. The parent finds out which text it is.
        """
        from memoryd.scrub import scan as rules

        find_known = self._formats.find if policy.secrets != "off" else lambda _: []
        try:
            with _own_time(SECONDS_LEAST + sum(map(len, texts)) / CHARACTERS_PER_SECOND):
                found = rules.scan(texts, policy, find_known)
        except Exception:  # noqa: BLE001 - whatever a rule does, a text is either scanned or not kept
            return None
        return len(found), {at: one for at, one in enumerate(found) if one != (texts[at], (), False)}


class KnownFormats:
    """Find the formats of secrets that the library knows. It never uses the network."""

    def __init__(self, cache: Path) -> None:
        from kingfisher_sdk import Rules
        from kingfisher_sdk import Scanner as Library

        self._library = Library(Rules(cache_dir=cache), base64=False)

    def find(self, buffer: bytes) -> list[tuple[str, int, int]]:
        """Return (rule, first byte, last byte) of each finding in a buffer; the last byte is exclusive.

        For some rules of the library, the time grows with the square of the input, and nothing can stop them. So they
        get pieces, and the time limit can act between two pieces.
        """
        found = []
        for first, last, behind in split_buffer(buffer):
            for finding in self._library.scan(buffer[first:last]):
                rule = rule_name(finding.rule_id)
                place = finding.location
                begin, end = first + place["start_offset"], first + place["end_offset"]
                # A finding at the edge of a piece may be incomplete. The next piece contains all of it.
                is_cut = (begin == first > 0) or (end == last < len(buffer) and begin > behind)
                if finding.visible and rule not in TOO_BROAD and not is_cut:
                    found.append((rule, begin, end))
        return found


def split_buffer(buffer: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield (first byte, last byte, first byte of the next piece) of a buffer's pieces, divided at line ends."""
    last = behind = 0
    while last < len(buffer):
        first, last = behind, _edge(buffer, behind + PIECE)
        behind = _edge(buffer, last - OVERLAP) if last < len(buffer) else last
        yield first, last, behind


def _edge(buffer: bytes, at: int) -> int:
    if at >= len(buffer):
        return len(buffer)
    line = buffer.find(b"\n", at, at + OVERLAP // 2)
    return at if line < 0 else line + 1


def rule_name(rule_id: str) -> str:
    """Return memoryd's name for a rule of the library: short, in kebab-case, without the name of the collection."""
    own = re.split(r"[./]", rule_id.lower(), maxsplit=1)[-1].removeprefix("secrets/")
    words = [word[:14] for word in _RULE_SHAPE.split(own) if word][:4]
    return "-".join(["key", *words[:3]] if not words or not words[0][0].isalpha() else words)


def cache_folder(state_dir: Path) -> Path:
    """Return the folder for the compiled rules."""
    shared = platformdirs.user_cache_path("memoryd") / "secret-rules"
    there = next((folder for folder in (shared, *shared.parents) if folder.exists()), state_dir)
    is_ours = os.access(there, os.W_OK | os.X_OK) and (there != shared or there.stat().st_uid == os.geteuid())
    return shared if is_ours else state_dir / "secret-rules"


@contextlib.contextmanager
def _own_time(seconds: float) -> Iterator[None]:
    # The timer counts only this process's own time, so that a busy machine does not look like a slow rule. `re` checks
    # for signals while it works.
    def raise_late(_number: int, _frame: FrameType | None) -> None:
        raise LateError

    before = signal.signal(signal.SIGVTALRM, raise_late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
