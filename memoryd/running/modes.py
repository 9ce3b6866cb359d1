"""What each kind of job may do by itself: the configuration's word, unless a job has lost its trust for an agent."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from memoryd.config import ModeSettings
from memoryd.database import job_modes, sqlite

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from memoryd.config import Settings

OFF, PROPOSE, AUTO = "off", "propose", "auto"
KINDS = tuple(key.name for key in fields(ModeSettings))


def mode_of(engine: Engine, settings: Settings, agent_id: str, kind: str) -> str:
    """`off`, `propose` or `auto` for one kind of job of one agent; what was held back is never more than configured."""
    configured = str(getattr(settings.modes, kind))
    held = sqlite.read(engine, job_modes.read_mode, agent_id, kind)
    order = (OFF, PROPOSE, AUTO)
    return configured if held is None else min(configured, held, key=order.index)
