"""Show the configuration with the reason of each key, and change the keys that are safe to change.

The file keeps its comments and its order. A change is checked by the same code that reads the file, and the old file is
kept.
"""

import io
import os
import re
import signal
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from memoryd import config, config_values
from memoryd.clock import Clock
from memoryd.config import Settings
from memoryd.config_file import default_text
from memoryd.config_values import duration_text
from memoryd.errors import MemorydError, RefusedError
from memoryd.files import foreign_config
from memoryd.files.locks import Lock

# These are numbers, times and schedules. Rights of people and commands to run can be changed only in the file.
SAFE = (
    *("sleep.threshold", "sleep.cooldown", "sleep.keep_recent", "sleep.schedule", "sessions.idle_end"),
    *("dream.schedule", "dream.lookback_days", "dream.max_bullets", "refine.schedule", "refine.trigger_tokens"),
    *("refine.target_tokens", "refine.consent", "refine.mode", "refine.max_mutations", "dedup.schedule"),
    *("facts.min_confidence", "facts.max_facts", "injection.max_tokens", "injection.files_max_tokens"),
    *("llm.daily_tokens", "llm.run_tokens", "log.level"),
)
_OF_AGENT = re.compile(r"agents\[(\d{1,4})\]\.(context_window|enabled)")
_SECRET = re.compile(r"admin\.users|hooks\.|scrub\.allow")
_WORD = re.compile(r"[A-Za-z0-9_ */,.:@+-]{1,200}")


def list_keys(settings: Settings) -> list[dict[str, Any]]:
    """Return each key in effect with `path`, `value`, `reason`, `line` and `safe`.

    `line` is None for a default. `safe` says whether the page may change the key.
    """
    reasons = _read_reasons()
    return [
        {
            "path": one.path,
            "value": "set" if _SECRET.search(one.path) and one.value else _show(one.value),
            "reason": reasons.get(re.sub(r"\[\d+\]", "", one.path), ""),
            "line": settings.lines.get(one.path),
            "safe": is_safe(one.path),
        }
        for one in config_values.walk_keys(settings)
        if one.path
    ]


def is_safe(path: str) -> bool:
    """Return True if the page may change the key."""
    return path in SAFE or _OF_AGENT.fullmatch(path) is not None


def _show(value: Any) -> str:
    """Return a value as a person would write it in the file."""
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _read_reasons() -> dict[str, str]:
    """Return the comment on each key in the configuration file that memoryd ships."""
    reasons: dict[str, str] = {}
    stack: list[tuple[int, str]] = []
    for line in default_text().splitlines():
        found = re.match(r"( *)(- )?([a-z_]+):[^#]*(?:# (.*))?$", line)
        if found is None:
            continue
        depth = len(found[1]) + len(found[2] or "")
        stack = [one for one in stack if one[0] < depth]
        path = ".".join([*(name for _, name in stack), found[3]])
        stack.append((depth, found[3]))
        if found[4]:
            reasons[path] = found[4]
    return reasons


def plan(settings: Settings, path: str, value: str) -> tuple[Path, str, str]:
    """Return the configuration file, its text, and its text with the new value of a key. Write nothing.

    Raises:
        RefusedError: the key is not safe to change here, or the value holds unexpected characters.
        ConfigError: the value is invalid.
        MemorydError: the file cannot be read with its comments.
    """
    if not is_safe(path):
        raise RefusedError("this key is not changed at the page", path, f"change it in {settings.source}")
    if not _WORD.fullmatch(value):
        raise RefusedError("the value holds characters that no value of this key has", path)
    old = settings.source.read_text(encoding="utf-8")
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    try:
        document = yaml.load(old)
    except YAMLError as error:
        raise MemorydError("the file cannot be read with its comments", str(settings.source)) from error
    _set(document, path, YAML(typ="safe").load(value) if not value.startswith(("*", "@")) else value)
    out = io.StringIO()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump(document, out)
    new = _keep_lines(old, out.getvalue())
    config.load(settings.source, data=new.encode())
    return settings.source, old, new


def _set(document: Any, path: str, value: Any) -> None:
    """Set one key, and add the sections above it that the file leaves out."""
    *above, last = re.findall(r"[a-z_]+|\d+", path)
    place = document
    for part in above:
        if not part.isdecimal() and place.get(part) is None:
            place[part] = {}
        place = place[int(part) if part.isdecimal() else part]
    place[last] = value


def _keep_lines(old: str, new: str) -> str:
    """Return the new text with the old line wherever only spaces differ, because people align their comments."""
    known = {re.sub(r"\s+", " ", line).strip(): line for line in old.splitlines()}
    return "\n".join([known.get(re.sub(r"\s+", " ", line).strip(), line) for line in new.splitlines()]) + "\n"


def apply(settings: Settings, old: str, new: str) -> None:
    """Write the file, keep the old one in the state folder, and make a running daemon read it."""
    keep = settings.state_dir / foreign_config.KEPT
    foreign_config.write(settings.source, new.encode(), old.encode(), keep, Clock().text())
    pid = Lock(settings.state_dir / "memoryd.lock").holder()
    if pid:
        with suppress(OSError):
            os.kill(pid, signal.SIGHUP)
