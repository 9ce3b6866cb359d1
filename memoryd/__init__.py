"""memoryd: a long-term memory that file-based AI agents can trust."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memoryd.version import __version__

if TYPE_CHECKING:
    from memoryd.interfaces.python_api import Memory

__all__ = ["Memory", "__version__"]


def __getattr__(name: str) -> Any:
    """Import `Memory` when it is asked for: the command line, which does not, starts the quicker."""
    if name == "Memory":
        from memoryd.interfaces.python_api import Memory

        return Memory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
