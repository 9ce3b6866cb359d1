"""What `config show` says: text for people, plain data for programs."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memoryd.config import keys_of
from memoryd.config_values import duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memoryd.config import Settings

_COMMENT_COLUMN = 48


def show_text(settings: Settings) -> str:
    """The settings in effect, as YAML that reads back to the same settings; each key with the line it comes from."""
    return "\n".join([f"# {settings.source}", *_section(settings, settings, "", "")]) + "\n"


def show_data(settings: Settings) -> dict[str, Any]:
    """The settings in effect and, by key path, the line each comes from (null: the default)."""
    origins = {path: settings.lines.get(path) for path in _paths(settings, "")}
    return {"source": str(settings.source), "settings": _plain(settings), "lines": origins}


def _is_section(value: object) -> bool:
    return bool(getattr(value, "__dataclass_fields__", None))


def _section(settings: Settings, section: Any, at: str, indent: str) -> Iterator[str]:
    for name in keys_of(type(section)):
        value, path = getattr(section, name), f"{at}.{name}" if at else name
        if _is_section(value):
            yield f"{indent}{name}:"
            yield from _section(settings, value, path, indent + "  ")
        elif isinstance(value, tuple) and value and _is_section(value[0]):
            yield f"{indent}{name}:"
            for number, entry in enumerate(value):
                lines = list(_section(settings, entry, f"{path}[{number}]", indent + "    "))
                yield f"{indent}  - {lines[0].lstrip()}"
                yield from lines[1:]
        else:
            line = settings.lines.get(path)
            origin = f"line {line}" if line else "default"
            yield f"{f'{indent}{name}: {_yaml(name, value)}':<{_COMMENT_COLUMN}} # {origin}"


def _paths(section: Any, at: str) -> Iterator[str]:
    for name in keys_of(type(section)):
        value, path = getattr(section, name), f"{at}.{name}" if at else name
        if _is_section(value):
            yield from _paths(value, path)
        elif isinstance(value, tuple) and value and _is_section(value[0]):
            for number, entry in enumerate(value):
                yield from _paths(entry, f"{path}[{number}]")
        else:
            yield path


def _plain(value: Any) -> Any:
    match value:
        case tuple():
            return [_plain(entry) for entry in value]
        case timedelta():
            return duration_text(value)
        case Path():
            return str(value)
        case _ if _is_section(value):
            return {name: _plain(getattr(value, name)) for name in keys_of(type(value))}
        case _:
            return value


def _yaml(name: str, value: object) -> str:
    plain = _plain(value)
    if isinstance(value, Path) or name == "path":
        plain = plain.replace("$", "$$")  # expanded already: reading it back must not expand it again
    # JSON is YAML, so quoting needs no rules of its own; a name that is no UTF-8 stays visible.
    return json.dumps(plain, ensure_ascii=False).encode(errors="backslashreplace").decode()
