"""Render the output of `config show`: text for people, plain data for programs."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memoryd.config_file import default_text
from memoryd.config_values import duration_text, is_section, keys_of, walk_keys

if TYPE_CHECKING:
    from memoryd.config import Settings

_COMMENT_COLUMN = 48


def show_text(settings: Settings) -> str:
    """Return the settings in effect as YAML, each key with its source line.

    Loading the YAML gives the same settings.
    """
    shown = [f"# {settings.source}"]
    for one in walk_keys(settings):
        line = settings.lines.get(one.path)
        text = f"{one.lead}: {_yaml(one.lead.split()[-1], one.value)}" if one.path else f"{one.lead}:"
        shown.append(f"{text:<{_COMMENT_COLUMN}} # {f'line {line}' if line else 'default'}" if one.path else text)
    return "\n".join(shown) + "\n"


def show_data(settings: Settings) -> dict[str, Any]:
    """Return `source`, `settings` and `lines`: the source line of each key path, None if the value is the default."""
    origins = {one.path: settings.lines.get(one.path) for one in walk_keys(settings) if one.path}
    return {"source": str(settings.source), "settings": _simplify(settings), "lines": origins}


def render_default(state_dir: Path) -> str:
    """Return the shipped configuration file, adapted for a user's own folder.

    The shipped file belongs to the demo of the checkout. Here it gets the user's `state_dir`, and the demo's agent
    becomes a comment that serves as an example.
    """
    text = default_text().replace("state_dir: ../var ", f"state_dir: {_yaml('path', str(state_dir))} ")
    return re.sub(r"(?m)^agents: *(#.*)\n((?: +.*\n)+)", _comment_agents, text, count=1)


def _comment_agents(found: re.Match[str]) -> str:
    example = re.sub(r"(?m)^", "#", found[2].rstrip("\n"))
    return f"agents: []                 {found[1]}; memoryd init fills it, or you:\n{example}\n"


def _simplify(value: Any) -> Any:
    match value:
        case tuple():
            return [_simplify(entry) for entry in value]
        case timedelta():
            return duration_text(value)
        case Path():
            return str(value)
        case _ if is_section(value):
            return {name: _simplify(getattr(value, name)) for name in keys_of(type(value))}
        case _:
            return value


def _yaml(name: str, value: object) -> str:
    plain = _simplify(value)
    if isinstance(value, Path) or name == "path":
        plain = plain.replace("$", "$$")  # variables are expanded already; the next load must not expand a `$` again
    # JSON is valid YAML, so the quoting needs no rules of its own. A file name that is not UTF-8 stays readable.
    return json.dumps(plain, ensure_ascii=False).encode(errors="backslashreplace").decode()
