"""Compute how full a session's context window is, from the stored values of the session."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memoryd.gauge import live, window


@dataclass(frozen=True, slots=True)
class Fill:
    """Hold the present context of a session and the size of its window."""

    live: live.Live
    window: window.Window

    @property
    def ratio(self) -> float:
        """Return the tokens of the context as a share of the window."""
        return self.live.tokens / self.window.tokens


def fill_of(session: Mapping[Any, Any], configured: int | None) -> Fill:
    """Return how full the context of a session is.

    Args:
        session: the columns `gauge`, `counted_tokens`, `counted_seq`, `last_seq` and `model`.
        configured: the configured window in tokens; None if there is none.
    """
    state = live.Gauge(**json.loads(session["gauge"]))
    counted = session["counted_tokens"] if session["counted_seq"] >= session["last_seq"] else None
    size = window.choose_window(configured, session["model"] or state.model or None, state.peak, state.window)
    return Fill(live.estimate_live(state, counted), size)
