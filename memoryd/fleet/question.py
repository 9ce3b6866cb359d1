"""Declare a question for the fleet's workers, and the JSON forms of questions and answers."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter

from memoryd.jobs.job import Ask, Reply
from memoryd.llm.failure import Failure

# Questions that a live session waits for come first, and those of nightly jobs last.
PRIORITIES: Mapping[str, int] = {"sleep": 30, "joint": 30, "verify": 20, "facts": 10}


@dataclass(frozen=True, slots=True)
class FleetQuestion:
    """Hold a question for a worker.

    It lacks the address and the key of the model, because only workers have these.
    """

    agent: str  # HOST/AGENT
    model: str
    ask: Ask
    output: int  # the most tokens of the reply
    tokens: int  # the most tokens that it costs
    timeout: float  # seconds

    @property
    def priority(self) -> int:
        """Return the priority among the questions of all hosts. A higher number is answered earlier."""
        return PRIORITIES.get(self.ask.job, 0)


# They convert from and to JSON values, and raise ValueError for an invalid value.
QUESTIONS = TypeAdapter(FleetQuestion)
ANSWERS: TypeAdapter[Reply | Failure] = TypeAdapter(Reply | Failure)
OF_HOST = {"ask": {"about"}}  # these fields never leave the host
