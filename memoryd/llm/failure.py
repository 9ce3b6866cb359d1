"""What can go wrong between a question and its answer, as a value, by what to do about it.

No text of a server is in it: a server may quote the question, or the key, in its errors.
"""

from dataclasses import dataclass
from enum import StrEnum

from memoryd.errors import MemorydError


class Trouble(StrEnum):
    """What to do about a failure."""

    UNAVAILABLE = "unavailable"  # ask again later: no answer, an answer cut short, an error of the server
    BUSY = "busy"  # ask again when it says: the asking itself is refused for now, which is no failed attempt
    BLOCKED = "blocked"  # a person must act: the key, the model's name, the URL, the account
    OVERFLOW = "overflow"  # question and reply together are too long: ask for a shorter reply, or in smaller parts
    LIMIT = "limit"  # the reply may not be that long: ask for a shorter one
    BAD_REPLY = "bad reply"  # an answer came, and it is none
    EXHAUSTED = "exhausted"  # the tokens of the day or of the run are spent


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no reply, and what the failed call may have cost."""

    trouble: Trouble
    what: str
    retry_after: float | None = None  # seconds the server asked for, as it asked
    tokens_in: int | None = None  # reported by the server
    tokens_out: int | None = None
    billed: bool = False  # whether the question may have been worked on, and so be paid for
    received: int = 0  # characters of an answer that came before it failed
    most: int | None = None  # tokens that the server takes, where it refused a length and says so
    is_told: bool = False  # it is no fault, or an alarm of its own tells of it: the run that waits needs none


class ModelError(MemorydError):
    """The model has not answered; `failure` says why."""

    code = "model"

    def __init__(self, failure: Failure, where: str = "", hint: str = "") -> None:
        super().__init__(failure.what, where, hint)
        self.failure = failure
