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
FLEET_URL = "fleet:"  # not an address, because only the workers of the fleet know the server
_CONNECT_SECONDS = 10.0  # long enough for three attempts of a TCP handshake
_IDLE_SECONDS = 60.0  # a server that computes without output sends a comment or a space more often


def has_reader(settings: Settings) -> bool:
    """Return True if a second reader may be asked: a model is configured, and `llm.verify` is on."""
    return settings.llm.provider != "offline" and settings.llm.verify != "off"


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Hold the deadlines of a call, in seconds."""

    connect: float
    first_byte: float
    idle: float  # the longest time between two bytes of an answer
    whole: float


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Hold one model at one server, and the name of the environment variable with the key, which is not stored."""

    base_url: str
    model: str
    api_key_env: str
    timeout: float  # seconds, for the whole call
    output: int  # the most tokens of a reply

    @property
    def url(self) -> BaseUrl:
        """Return the parts of the base URL.

        Raises:
            AddressError: no model may be asked at this URL.
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
        """Return the deadlines within `timeout`.

        The first byte must come within three quarters of it, because a later answer would not be complete in time.
        """
        whole = self.timeout
        return Deadlines(min(_CONNECT_SECONDS, whole / 4), whole * 3 / 4, min(_IDLE_SECONDS, whole / 2), whole)


# ── the key of an endpoint is read when a call begins, and is stored nowhere ──────────────────────────────────────────


_NONE = "none"  # the value for a server without keys, because the header must not be empty


def key_of(endpoint: Endpoint) -> str | Failure:
    """Return the key to send, or the failure that prevents the call, which never contains a part of a key."""
    try:
        url = endpoint.url
    except AddressError as error:
        return Failure(Trouble.BLOCKED, f"the endpoint {error.what}")
    key = os.environ.get(endpoint.api_key_env, "").strip() or (_NONE if url.is_local else "")
    if not key:
        return Failure(Trouble.BLOCKED, f"the variable {endpoint.api_key_env}, for the key, is not set")
    if not key.isascii() or not key.isprintable():
        return Failure(Trouble.BLOCKED, f"the variable {endpoint.api_key_env} does not hold a valid key")
    return key
