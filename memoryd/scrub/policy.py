"""Hold the policy of the configuration: what is removed from texts."""

from dataclasses import dataclass

from memoryd import allowed
from memoryd.errors import ConfigError

WHERE = "scrub.allow"


@dataclass(frozen=True, slots=True)
class Policy:
    """Hold what is searched, and what is left alone.

    Raises:
        ConfigError: an entry of `allow` is empty, or between slashes and no regular expression.
    """

    secrets: str = "redact"  # redact | skip (the whole text) | off
    pii: str = "off"  # off | mask: e-mail addresses, phone, card and account numbers
    allow: tuple[str, ...] = ()  # found values that are no secrets: themselves, or /a regular expression/ of all of it
    private: bool = True  # also what stands between <private> tags, which are for what is said to an agent

    def __post_init__(self) -> None:
        for entry in self.allow:
            if not entry:
                raise ConfigError("is empty", WHERE, "name a value, or a regular expression as /…/")
            try:
                allowed.compile_allowed(entry)
            except ValueError as error:
                hint = "write it as Python's re reads it, or without the slashes if it is a value"
                raise ConfigError(f"{entry!r} is not a regular expression: {error}", WHERE, hint) from error

    def allows(self, value: str) -> bool:
        """Return True if a value that a rule has found is left alone."""
        return any(allowed.compile_allowed(entry).fullmatch(value) for entry in self.allow)
