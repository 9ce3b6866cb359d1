"""Convert a question and its answer to JSON values, and back."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from memoryd.jobs.job import Ask, ModelExchange, ModelTool, QuotedPiece, Reply, ToolCall
from memoryd.llm.failure import Failure, Trouble

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


def as_value(question: FleetQuestion) -> dict[str, Any]:
    """Return a question as a JSON value."""
    return asdict(replace(question, ask=replace(question.ask, about=None)))


def question_of(value: Mapping[str, Any]) -> FleetQuestion:
    """Return the question of such a value.

    Raises:
        KeyError, TypeError: it is none.
    """
    ask = value["ask"]
    earlier = [
        ModelExchange(one["text"], tuple(ToolCall(**call) for call in one["calls"]), tuple(one["results"]))
        for one in ask["earlier"]
    ]
    told = ask | {
        "material": tuple(QuotedPiece(**one) for one in ask["material"]),
        "context": tuple((name, text) for name, text in ask["context"]),
        "tools": tuple(ModelTool(**one) for one in ask["tools"]),
        "earlier": tuple(earlier),
    }
    return FleetQuestion(**{**value, "ask": Ask(**told)})


def answer_as_value(answer: Reply | Failure) -> dict[str, Any]:
    """Return an answer as a JSON value."""
    return {"reply" if isinstance(answer, Reply) else "failure": asdict(answer)}


def answer_of(value: Mapping[str, Any]) -> Reply | Failure:
    """Return the answer of such a value.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    if "failure" in value:
        found = value["failure"]
        return Failure(**{**found, "trouble": Trouble(found["trouble"])})
    found = value["reply"]
    return Reply(**{**found, "calls": tuple(ToolCall(**call) for call in found["calls"])})
