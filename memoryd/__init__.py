"""Give file-based AI agents a long-term memory they can trust."""

from typing import TYPE_CHECKING, Any

from memoryd.version import __version__

if TYPE_CHECKING:
    from memoryd.interfaces.python_api import Memory

__all__ = ["Memory", "__version__"]


def __getattr__(name: str) -> Any:
    """Import `Memory` at its first use, so that the command line, which does not need it, starts faster."""
    if name == "Memory":
        from memoryd.interfaces.python_api import Memory

        return Memory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
