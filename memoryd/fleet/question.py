"""Declare a question for the fleet's workers, and the JSON forms of questions and answers."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter

from memoryd.jobs.job import Ask, Reply
from memoryd.llm.failure import Failure

# Questions that a live session waits for go first; those of nightly jobs come last.
PRIORITIES: Mapping[str, int] = {"sleep": 30, "joint": 30, "verify": 20, "facts": 10}


@dataclass(frozen=True, slots=True)
class FleetQuestion:
    """Hold a question for a worker, without address and key of the model: only workers have these."""

    agent: str  # HOST/AGENT
    model: str
    ask: Ask
    output: int  # tokens of the reply, at most
    tokens: int  # the most that it costs
    timeout: float  # seconds

    @property
    def priority(self) -> int:
        """Return its rank among the questions of all hosts; the highest goes first."""
        return PRIORITIES.get(self.ask.job, 0)


# They convert to a JSON value, and raise ValueError for a value that is none of theirs.
QUESTIONS = TypeAdapter(FleetQuestion)
ANSWERS: TypeAdapter[Reply | Failure] = TypeAdapter(Reply | Failure)
OF_HOST = {"ask": {"about"}}  # what of a question stays with its host
