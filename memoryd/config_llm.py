"""Hold the keys of the model that answers, and find missing or forbidden values."""
# ruff: noqa: RUF009 - the calls in the class bodies make dataclass fields

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from memoryd import config_values as values
from memoryd.config_keys import make_key


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings:
    """Configure which model answers a job's questions."""

    provider: str = make_key(values.one_of("offline", "openai", "fleet"), "offline")
    model: str | None = make_key(values.or_null(values.parse_text), None)
    base_url: str | None = make_key(values.or_null(values.base_url), None)
    api_key_env: str = make_key(values.variable_name, "OPENAI_API_KEY")
    timeout: timedelta = make_key(values.make_duration_parser(timedelta(seconds=1)), timedelta(seconds=120))
    daily_tokens: int = make_key(values.make_integer_parser(0), 2_000_000)
    run_tokens: int = make_key(values.make_integer_parser(0), 200_000)
    max_output_tokens: int = make_key(values.make_integer_parser(256), 16_000)
    verify: str = make_key(values.one_of("model", "off"), "model")
    verifier: str | None = make_key(values.or_null(values.parse_text), None)
    fallback: str = make_key(values.one_of("offline", "wait"), "offline")


def find_mistakes(llm: LlmSettings, agents: Sequence[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield key, mistake and hint of each missing model name, and of a verifier that may not read a memory."""
    # There is no default model, because a person must choose which model reads the sessions.
    if llm.provider in {"openai", "fleet"} and llm.model is None and any(agent.model is None for agent in agents):
        yield "llm.model", "is missing", "name the model to ask, here or for each agent"
    for agent in agents if llm.verifier is not None else ():
        if agent.privacy == "silo" and llm.verifier != (agent.model or llm.model):
            what = f"{llm.verifier} would read the memory of {agent.id}, which has privacy: silo and another model"
            hint = f"null, which is the agent's own model, or a configuration without {agent.id}"
            yield "llm.verifier", what, hint
