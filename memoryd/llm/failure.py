"""Classify failures between a question and its answer, by the action that they need.

Failures are values. They contain no text of a server, because a server may quote the question or the key in its errors.
"""

from dataclasses import dataclass
from enum import StrEnum

from memoryd.errors import MemorydError

BUSY_SECONDS = 30.0  # seconds to wait after "too many requests" if the server names no time


class Trouble(StrEnum):
    """Name the kinds of failures by the action that they need."""

    UNAVAILABLE = "unavailable"  # ask again later: no answer, an incomplete answer, or a server error
    BUSY = "busy"  # ask again when the server allows it; this does not count as a failed attempt
    BLOCKED = "blocked"  # a person must act: the key, the model's name, the URL, the account
    OVERFLOW = "overflow"  # question and reply together are too long: ask for a shorter reply, or in parts
    LIMIT = "limit"  # the requested reply is too long: ask for a shorter one
    BAD_REPLY = "bad reply"  # there is an answer, but it is unusable
    EXHAUSTED = "exhausted"  # the tokens of the day or of the run are spent


@dataclass(frozen=True, slots=True)
class Failure:
    """Hold the reason why there is no reply, and what the failed call may have cost."""

    trouble: Trouble
    what: str
    retry_after: float | None = None  # the seconds that the server asks to wait; None if it names no time
    tokens_in: int | None = None  # reported by the server
    tokens_out: int | None = None
    billed: bool = False  # the question may have been processed and so have cost money
    received: int = 0  # the characters of the answer that arrived before the failure
    most: int | None = None  # the server's own limit in tokens, if it refused a length and names it
    is_told: bool = False  # no alarm is needed, because this is no fault or has its own alarm


class ModelError(MemorydError):
    """Report that the model did not answer; `failure` has the reason."""

    code = "model"

    def __init__(self, failure: Failure, where: str = "", hint: str = "") -> None:
        super().__init__(failure.what, where, hint)
        self.failure = failure
