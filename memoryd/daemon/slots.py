"""Slots: what is queued when the time of a schedule has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoryd.engine import ledger_runs, sleeping

if TYPE_CHECKING:
    from memoryd.app import App
    from memoryd.daemon.schedule import Due


def queue(app: App, slot: Due, trigger: str) -> int:
    """Queue what a slot asks for, once for ever; returns how many runs were queued."""
    ask = ledger_runs.queue_dedup if slot.kind == ledger_runs.DEDUP else sleeping.flush_live
    return ask(app.engine, app.settings, app.clock, slot.slot, slot.at, trigger)
