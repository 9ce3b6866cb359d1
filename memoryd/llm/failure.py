"""Classify failures between a question and its answer, as values, by the action that they need.

They hold no text of a server, because a server may quote the question, or the key, in its errors.
"""

from dataclasses import dataclass
from enum import StrEnum

from memoryd.errors import MemorydError

BUSY_SECONDS = 30.0  # pause if a server says "too many" and not until when


class Trouble(StrEnum):
    """Name the action after a failure."""

    UNAVAILABLE = "unavailable"  # ask again later: no answer, an answer cut short, an error of the server
    BUSY = "busy"  # ask again when it says; this is no failed attempt
    BLOCKED = "blocked"  # a person must act: the key, the model's name, the URL, the account
    OVERFLOW = "overflow"  # question and reply together are too long: ask for a shorter reply, or in smaller parts
    LIMIT = "limit"  # the reply may not be that long: ask for a shorter one
    BAD_REPLY = "bad reply"  # the answer that came is unusable
    EXHAUSTED = "exhausted"  # the tokens of the day or of the run are spent


@dataclass(frozen=True, slots=True)
class Failure:
    """Hold why there is no reply, and the possible cost of the failed call."""

    trouble: Trouble
    what: str
    retry_after: float | None = None  # seconds that the server asked for
    tokens_in: int | None = None  # reported by the server
    tokens_out: int | None = None
    billed: bool = False  # the question may have been processed, and so cost money
    received: int = 0  # characters of an answer that came before it failed
    most: int | None = None  # tokens that the server accepts, if it refused a length and names its limit
    is_told: bool = False  # it is no fault, or a separate alarm reports it: the waiting run needs none


class ModelError(MemorydError):
    """Report that the model has not answered; `failure` says why."""

    code = "model"

    def __init__(self, failure: Failure, where: str = "", hint: str = "") -> None:
        super().__init__(failure.what, where, hint)
        self.failure = failure
