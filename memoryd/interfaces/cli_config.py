"""What `config check|show|default` and `logs` say: text for people, plain data for programs."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memoryd.config import default_text, keys_of
from memoryd.config_values import duration_text
from memoryd.files.log import readable
from memoryd.files.log_reader import Wanted, follow, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memoryd.config import Settings

__all__ = ["check_data", "check_text", "default_text", "log_lines", "log_records", "show_data", "show_text"]

_COMMENT_COLUMN = 48


def check_text(settings: Settings) -> str:
    """One line that says the configuration is sound, and what it sets up."""
    agents = ", ".join(agent.id for agent in settings.agents) or "none"
    return f"{settings.source}: ok; agents: {agents}; state in {settings.state_dir}; times in {settings.zone.key}"


def check_data(settings: Settings) -> dict[str, Any]:
    """The same as data: `source`, `agents`, `state_dir`, `timezone`."""
    agents = [agent.id for agent in settings.agents]
    where = {"source": str(settings.source), "state_dir": str(settings.state_dir)}
    return {**where, "agents": agents, "timezone": settings.zone.key}


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


def log_records(
    path: Path, *, level: str, agent: str | None, run: str | None, wait: Callable[[], bool] | None
) -> Iterator[dict[str, Any]]:
    """The records of a log: those there are, or with `wait` the last ones and each new one until it returns False."""
    wanted = Wanted(level=level, agent=agent, run=run)
    return follow(path, wanted, wait) if wait else read(path, wanted)


def log_lines(records: Iterator[dict[str, Any]]) -> Iterator[str]:
    """Records as lines for people."""
    return map(readable, records)
