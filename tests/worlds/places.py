"""Where a process that a test starts finds the shared worlds, and the repository."""

from pathlib import Path

import memoryd

WORLDS = Path(__file__).parent
ROOT = Path(memoryd.__file__).parent.parent
