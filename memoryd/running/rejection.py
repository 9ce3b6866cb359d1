"""Recognise rejected input: a rejected result is not proposed again from the same input, unless a person asks."""

import hashlib
from collections.abc import Iterable

from memoryd.ledger.memory import Memory


def describe_rejection(run_id: str) -> str:
    """Return, for people, why a run proposes nothing: a person has rejected the result of the same input."""
    return f"the same was rejected as {run_id}; --force proposes it again"


def core_digest(core: Iterable[Memory]) -> str:
    """Return a hex sha256 that is equal for two cores with the same live memories."""
    said = "\n".join(f"{one.id} {one.content_hash} {one.constitutional}" for one in core)
    return hashlib.sha256(said.encode()).hexdigest()
