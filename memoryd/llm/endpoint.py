"""Describe an endpoint: the model, its server, and the deadlines of an answer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memoryd.addresses import AddressError, BaseUrl, parse_base_url
from memoryd.llm.failure import Failure, Trouble

if TYPE_CHECKING:
    from memoryd.config import Settings

OPENAI_URL = "https://api.openai.com/v1"
FLEET_URL = "fleet:"  # no address: only the workers of the fleet know it
_CONNECT_SECONDS = 10.0  # more than three tries of a TCP handshake
_IDLE_SECONDS = 60.0  # servers that think without output send a comment or a space more often than that


def has_reader(settings: Settings) -> bool:
    """Return True if a second reader may be asked: a model is configured, and `llm.verify` is on."""
    return settings.llm.provider != "offline" and settings.llm.verify != "off"


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Hold the deadlines of a call, in seconds."""

    connect: float
    first_byte: float
    idle: float  # between two bytes of an answer
    whole: float


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Hold one model at one server, with the name of the variable of the key, never the key."""

    base_url: str
    model: str
    api_key_env: str
    timeout: float  # seconds, for the whole call
    output: int  # tokens of a reply, at most

    @property
    def url(self) -> BaseUrl:
        """Return the base URL in its parts.

        Raises:
            AddressError: a model may not be asked there.
        """
        return parse_base_url(self.base_url)

    @property
    def name(self) -> str:
        """Return the name of the endpoint in rows, logs and alarms."""
        return f"{self.model} in the fleet" if self.is_fleet else f"{self.model} at {self.url.host}:{self.url.port}"

    @property
    def is_fleet(self) -> bool:
        """Return True if the workers of the fleet ask the model."""
        return self.base_url == FLEET_URL

    @property
    def deadlines(self) -> Deadlines:
        """Return the parts of `timeout`; a server that needs nearly all of it for its first byte would not finish."""
        whole = self.timeout
        return Deadlines(min(_CONNECT_SECONDS, whole / 4), whole * 3 / 4, min(_IDLE_SECONDS, whole / 2), whole)


# ── the key of an endpoint: read at the moment of a call and kept nowhere ─────────────────────────────────────────────


_NONE = "none"  # the value for a server without keys; the header must not be empty


def key_of(endpoint: Endpoint) -> str | Failure:
    """Return the key to send, or why the endpoint cannot be asked. A failure never holds a part of a key."""
    try:
        url = endpoint.url
    except AddressError as error:
        return Failure(Trouble.BLOCKED, f"the endpoint {error.what}")
    key = os.environ.get(endpoint.api_key_env, "").strip() or (_NONE if url.is_local else "")
    if not key:
        return Failure(Trouble.BLOCKED, f"the variable {endpoint.api_key_env}, for the key, is not set")
    if not key.isascii() or not key.isprintable():
        return Failure(Trouble.BLOCKED, f"the variable {endpoint.api_key_env} holds what cannot be a key")
    return key
