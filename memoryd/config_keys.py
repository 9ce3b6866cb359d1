"""Declare the keys of the configuration: a field of a section with its parser and its default."""

from dataclasses import MISSING, Field, field, fields
from typing import Any, TypeVar

from memoryd.config_values import Parser

T = TypeVar("T")


def make_key(parse: Parser, default: T) -> T:
    """Declare a key with its parser, and its value if the file leaves it out."""
    made: T = field(default=default, metadata={"parse": parse})
    return made


def make_required_key(parse: Parser, absent: str | None = None) -> Any:
    """Declare a key without a default. A text `absent` is parsed if the file leaves the key out.

    Without `absent`, the file must have the key.
    """
    return field(metadata={"parse": parse, "absent": absent})


def make_section(default: T) -> T:
    """Declare a section of keys. `default` is used if the file leaves the section out."""
    made: T = field(default=default, metadata={"section": type(default)})
    return made


def make_list(model: type, default: Any = MISSING) -> Any:
    """Declare a list of sections, each of the class `model`. Without a default, the file must have the list."""
    return field(default=default, metadata={"list": model})


def keys_of(model: type) -> dict[str, Field[Any]]:
    """Return the keys of a section of the configuration by name, in the order of their declaration."""
    return {key.name: key for key in fields(model) if key.metadata}
