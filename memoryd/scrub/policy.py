"""Hold the configured policy, which says what is removed from texts."""

from dataclasses import dataclass

from memoryd import allowed
from memoryd.errors import ConfigError

WHERE = "scrub.allow"


@dataclass(frozen=True, slots=True)
class Policy:
    """Hold what is searched, and what is left as it is.

    Raises:
        ConfigError: an entry of `allow` is empty, or has slashes but is no regular expression.
    """

    secrets: str = "redact"  # redact | skip (the whole text) | off
    # off | mask, for e-mail addresses and phone, card and account numbers
    pii: str = "off"
    # Found values that are no secrets. Each is the value itself, or a /regular expression/ of the whole value.
    allow: tuple[str, ...] = ()
    # Remove the text between <private> tags as well, which a person writes for the agent alone.
    private: bool = True

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
        """Return True if a found value is left as it is."""
        return any(allowed.compile_allowed(entry).fullmatch(value) for entry in self.allow)
