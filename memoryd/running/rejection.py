"""Rejections: what a person said no to is not proposed again while it would be made of the same, unless asked for."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memoryd.ledger.memory import Memory


def describe_rejection(run_id: str) -> str:
    """Why a run proposes nothing: a person has rejected what came of the same."""
    return f"the same was rejected as {run_id}; --force proposes it again"


def core_digest(core: Iterable[Memory]) -> str:
    """Hex sha256 that is the same for equal live cores."""
    said = "\n".join(f"{one.id} {one.content_hash} {one.constitutional}" for one in core)
    return hashlib.sha256(said.encode()).hexdigest()
