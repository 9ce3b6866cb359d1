"""Compute how much of `MEMORY.md` the agent programs load that read the file themselves.

The programs do not report what they leave out. The limits are from their documentation. Claude Code loads the first 200
lines or 25 KB of a MEMORY.md (reference on memory). Codex loads 32 KiB of project documents (`project_doc_max_bytes`).
OpenClaw loads 12,000 characters of each bootstrap file (`bootstrapMaxChars`).
"""

from typing import NamedTuple

WARN_AT = 0.9  # people are warned from this share of a limit on


class Cap(NamedTuple):
    """Hold the most that a program loads of one file; None means that there is no such limit."""

    size: int | None = None  # bytes
    lines: int | None = None
    characters: int | None = None

    def share(self, data: bytes) -> float:
        """Return the share of the limit that a file takes; above 1, the end of the file is not loaded."""
        text = data.decode("utf-8", "replace")
        taken = ((len(data), self.size), (len(text.splitlines()), self.lines), (len(text), self.characters))
        return max((amount / most for amount, most in taken if most is not None), default=0.0)

    def __str__(self) -> str:
        units = ((self.lines, "lines"), (self.size, "bytes"), (self.characters, "characters"))
        return " or ".join(f"{most:,} {unit}" for most, unit in units if most is not None)


CAPS = {"claude-code": Cap(size=25_000, lines=200), "codex": Cap(size=32_768), "openclaw": Cap(characters=12_000)}
