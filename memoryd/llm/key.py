"""The key of an endpoint, read from its variable at the moment of a call and kept nowhere."""

from __future__ import annotations

import os

from memoryd.addresses import AddressError
from memoryd.llm.endpoint import Endpoint
from memoryd.llm.failure import Failure, Trouble

_NONE = "none"  # what a server of one's own is sent; it is a header that must not be empty


def key_of(endpoint: Endpoint) -> str | Failure:
    """Return the key to send, or why the endpoint cannot be asked. No failure holds anything of a key."""
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
