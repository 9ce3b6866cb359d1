"""How much of MEMORY.md its readers load."""

import pytest

from memoryd.recall.load_cap import CAPS


@pytest.mark.parametrize(
    ("consumer", "data", "share"),
    [
        ("claude-code", b"", 0),
        ("claude-code", b"- x\n" * 180, 0.9),
        ("claude-code", b"- x\n" * 250, 1.25),
        ("claude-code", b"x" * 25_000, 1.0),
        ("codex", b"x" * 16_384, 0.5),
        ("openclaw", "ü".encode() * 6_000, 0.5),
        ("openclaw", b"\xff" * 6_000, 0.5),
    ],
)
def test_shares(consumer, data, share):
    assert CAPS[consumer].share(data) == pytest.approx(share)


def test_caps_as_they_are_told():
    assert [str(cap) for cap in CAPS.values()] == ["200 lines or 25,000 bytes", "32,768 bytes", "12,000 characters"]
