"""Find the mode of each kind of job: the configured one, or a more careful one if the job is held."""

from dataclasses import fields

from sqlalchemy import Engine

from memoryd.config import ModeSettings, Settings
from memoryd.database import job_modes, sqlite

OFF, PROPOSE, AUTO = "off", "propose", "auto"
KINDS = tuple(key.name for key in fields(ModeSettings))


def mode_of(engine: Engine, settings: Settings, agent_id: str, kind: str) -> str:
    """Return the mode of an agent's kind of job: `off`, `propose` or `auto`.

    It is never more than the configuration allows.
    """
    configured = str(getattr(settings.modes, kind))
    held = sqlite.read(engine, job_modes.read_mode, agent_id, kind)
    return configured if held is None else min(configured, held, key=(OFF, PROPOSE, AUTO).index)
