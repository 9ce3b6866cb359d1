"""What a job has decided, as JSON and back: for edits that wait until a person has answered.

Each value of ours carries the name of its type; only types that edits are made of are known, so that what was stored
can become nothing else.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from datetime import date
from enum import Enum
from typing import TYPE_CHECKING, Any

from memoryd.jobs import job
from memoryd.ledger import guards, memory, operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memoryd.jobs.job import Edit

_TYPE = "$"
_DATE = "date"
_TEXTS = "texts"
_VALUE = "value"
_TYPES: dict[str, type] = {
    name: found
    for module in (guards, memory, operation, job)
    for name, found in vars(module).items()
    if isinstance(found, type) and (dataclasses.is_dataclass(found) or issubclass(found, Enum))
}


def dump(edits: Sequence[Edit]) -> list[Any]:
    """Edits as plain JSON."""
    return [_plain(edit) for edit in edits]


def load(plain: Sequence[Any]) -> tuple[Edit, ...]:
    """The edits that `dump` was given.

    Raises:
        ValueError: it is none of its results.
    """
    try:
        return tuple(_typed(one) for one in plain)
    except (KeyError, TypeError) as error:
        raise ValueError("these are no edits of this version") from error


def digest(edits: Sequence[Edit]) -> str:
    """Hex sha256 that is the same for equal edits."""
    return hashlib.sha256(json.dumps(dump(edits), sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return {_TYPE: type(value).__name__, _VALUE: value.value}
    if isinstance(value, date):
        return {_TYPE: _DATE, _VALUE: value.isoformat()}
    if dataclasses.is_dataclass(value):
        return {_TYPE: type(value).__name__} | {
            field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, dict):
        return {_TYPE: _TEXTS, _VALUE: dict(value)}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"no edit holds a {type(value).__name__}")


def _typed(plain: Any) -> Any:
    if isinstance(plain, list):
        return tuple(_typed(one) for one in plain)
    if not isinstance(plain, dict):
        return plain
    name = plain[_TYPE]
    if name == _DATE:
        return date.fromisoformat(plain[_VALUE])
    if name == _TEXTS:
        return dict(plain[_VALUE])
    kind = _TYPES[name]
    if issubclass(kind, Enum):
        return kind(plain[_VALUE])
    return kind(**{key: _typed(value) for key, value in plain.items() if key != _TYPE})
