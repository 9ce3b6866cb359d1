"""memoryd: a long-term memory that file-based AI agents can trust."""

__version__ = "0.1.0"
