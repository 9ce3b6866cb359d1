"""Store a job's decision as JSON and load it again, for edits that wait until a person has answered.

Each value carries the name of its type. Only the types of edits are known, so stored text cannot become anything else.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from enum import Enum
from typing import Any

from memoryd.jobs import job
from memoryd.jobs.job import JobEdit
from memoryd.ledger import accounting, guards, memory, operation

_TYPE = "$"
_VALUE = "value"
_DATE, _TEXT, _BYTES, _MAPPING, _SET = "date", "text", "bytes", "mapping", "set"
# Stored edits keep the names that the first version used, so that another version can load them if the fields agree.
_STORED_TYPES = {"Caller": "Door", "MemoryKind": "Kind", "RefinementStart": "Begun"}
_STORED_FIELDS = {"caller": "door"}
_CURRENT_FIELDS = {stored: current for current, stored in _STORED_FIELDS.items()}
_TYPES: dict[str, type] = {
    _STORED_TYPES.get(name, name): found
    for module in (accounting, guards, memory, operation, job)
    for name, found in vars(module).items()
    if isinstance(found, type) and (dataclasses.is_dataclass(found) or issubclass(found, Enum))
}


def dump(edits: Sequence[JobEdit]) -> list[Any]:
    """Return edits as plain JSON values."""
    return [_dump_value(edit) for edit in edits]


def load(plain: Sequence[Any]) -> tuple[JobEdit, ...]:
    """Return the edits that were passed to `dump`.

    Raises:
        ValueError: the value does not come from `dump`.
    """
    try:
        return tuple(_parse_value(one) for one in plain)
    except (KeyError, TypeError) as error:
        raise ValueError("these are not edits of this version") from error


def compute_digest(edits: Sequence[JobEdit]) -> str:
    """Return a hex sha256 that is the same for equal edits."""
    return hashlib.sha256(json.dumps(dump(edits), sort_keys=True).encode()).hexdigest()


def _dump_value(value: Any) -> Any:
    if isinstance(value, Enum):
        return {_TYPE: _name_stored(value), _VALUE: value.value}
    if isinstance(value, date):
        return {_TYPE: _DATE, _VALUE: value.isoformat()}
    if dataclasses.is_dataclass(value):
        return {_TYPE: _name_stored(value)} | {
            _STORED_FIELDS.get(field.name, field.name): _dump_value(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
    if isinstance(value, bytes):
        # Bytes are stored as characters, so that a person who searches the stored text can read them.
        try:
            return {_TYPE: _TEXT, _VALUE: value.decode()}
        except UnicodeDecodeError:
            return {_TYPE: _BYTES, _VALUE: value.decode("latin-1")}
    if isinstance(value, Mapping):
        return {_TYPE: _MAPPING, _VALUE: [[_dump_value(key), _dump_value(one)] for key, one in value.items()]}
    if isinstance(value, set | frozenset):
        return {_TYPE: _SET, _VALUE: [_dump_value(one) for one in sorted(value)]}
    if isinstance(value, tuple | list):
        return [_dump_value(one) for one in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"no edit holds a {type(value).__name__}")


def _parse_value(plain: Any) -> Any:
    if isinstance(plain, list):
        return tuple(_parse_value(one) for one in plain)
    if not isinstance(plain, dict):
        return plain
    name, value = plain[_TYPE], plain.get(_VALUE)
    if name in _PLAIN:
        return _PLAIN[name](value)
    kind = _TYPES[name]
    if issubclass(kind, Enum):
        return kind(value)
    return kind(**{str(_CURRENT_FIELDS.get(key, key)): _parse_value(one) for key, one in plain.items() if key != _TYPE})


def _name_stored(value: object) -> str:
    name = type(value).__name__
    return _STORED_TYPES.get(name, name)


_PLAIN: dict[str, Callable[[Any], Any]] = {
    _DATE: date.fromisoformat,
    _TEXT: str.encode,
    _BYTES: lambda text: text.encode("latin-1"),
    _MAPPING: lambda pairs: {_parse_value(key): _parse_value(one) for key, one in pairs},
    _SET: lambda ones: frozenset(map(_parse_value, ones)),
}
