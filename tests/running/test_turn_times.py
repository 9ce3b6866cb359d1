"""When a turn was said: by its own time, or by the session's where its agent wrote none beside it."""

from __future__ import annotations

import pytest

from memoryd.running.sleeping import check_times
from memoryd.transcripts.turn import Origin, Role, StoredTurn, TurnKind

BEGIN, SAID = "2025-08-26T20:20:25.523Z", "2025-08-27T15:07:20Z"


def turn(at: str | None) -> StoredTurn:
    kind, who = TurnKind.MESSAGE, Origin.USER
    return StoredTurn(1, "r1", 0, Role.USER, who, kind, "Keep the URL.", at, 0, False, None, None)  # noqa: FBT003


@pytest.mark.parametrize(
    ("at", "program", "told"),
    [
        (None, "codex", BEGIN),
        ("9999-12-31T23:59:59Z", "codex", BEGIN),
        (SAID, "codex", SAID),
        (None, "messages", None),
        (SAID, "messages", SAID),
        ("0001-01-01T00:00:00Z", "claude-code", None),
    ],
)
def test_codex_turns_without_a_time_have_that_of_their_session(at: str | None, program: str, told: str | None) -> None:
    row = {"format": program, "started_at": BEGIN}
    assert [one.at for one in check_times([turn(at)], row)] == [told]
