"""Facts and profile as a file that is carried from one place to another.

A file with anything malformed is refused as a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from memoryd.errors import MemorydError
from memoryd.ledger.facts import MANUAL, Category, Fact, NewFact, check_fact
from memoryd.ledger.profile import ProfileEntry, ProfileSection

FORMAT = "memoryd-facts"
_VERSION = 1
_FACT_KEYS = {"created_at": "createdAt"}  # the fields of a fact whose name in a file differs
_ID = re.compile(r"fact_[0-9a-f]{8}")
_MOST = 100_000  # facts of one file


class MalformedError(MemorydError):
    """The file is not what it should be; nothing of it was taken."""

    code = "malformed"


@dataclass(frozen=True, slots=True)
class FactFile:
    """What a file holds."""

    facts: tuple[NewFact, ...]
    profile: dict[ProfileSection, ProfileEntry]


def dump(facts: Iterable[Fact], profile: Mapping[ProfileSection, ProfileEntry]) -> str:
    """Return the facts and the profile as text; `load` gives them back."""
    sections = {section.value: _entry(profile[section]) for section in ProfileSection if section in profile}
    return _text({"format": FORMAT, "version": _VERSION, "profile": sections, "facts": [_fact(one) for one in facts]})


def load(text: str, where: str = "") -> FactFile:
    """Return what a file holds; a bare list of facts is taken as well.

    Args:
        text: of the file.
        where: its name, for the error.

    Raises:
        MalformedError: it is no JSON, no such shape, or anything in it is not what it should be.
    """
    try:
        value = json.loads(text.removeprefix("\ufeff"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise MalformedError("the file is not JSON", where, "it must be an export of facts") from error
    held = {"facts": value} if isinstance(value, list) else value
    if not isinstance(held, dict) or not isinstance(held.get("facts"), list):
        raise MalformedError("the file has no list of facts", where, 'it needs a key "facts"')
    if held.get("format", FORMAT) != FORMAT or (held.get("format") and held.get("version") != _VERSION):
        raise MalformedError("the file is of another format or version", where, f"{FORMAT} {_VERSION} is read")
    if len(held["facts"]) > _MOST:
        raise MalformedError(f"the file holds more than {_MOST} facts", where)
    facts = tuple(_parse_fact(one, f"{where} facts[{i}]".strip()) for i, one in enumerate(held["facts"]))
    return FactFile(facts, _profile(held, where))


def _profile(held: dict[str, Any], where: str) -> dict[ProfileSection, ProfileEntry]:
    given = held.get("profile") or {}
    if not isinstance(given, dict):
        raise MalformedError("the profile is not an object", f"{where} profile".strip())
    profile: dict[ProfileSection, ProfileEntry] = {}
    for section in ProfileSection:
        entry = given.get(section.value)
        if entry is None:
            continue
        at = f"{where} profile.{section.value}".strip()
        if not isinstance(entry, dict) or not isinstance(entry.get("summary", ""), str):
            raise MalformedError("a section of the profile has no summary", at, 'it needs {"summary": "…"}')
        summary = entry.get("summary", "").strip()
        if summary:
            profile[section] = ProfileEntry(summary, _time(entry.get("updatedAt"), at) or "")
    return profile


def _parse_fact(value: Any, at: str) -> NewFact:
    if not isinstance(value, dict):
        raise MalformedError("a fact is not an object", at)
    source, fact_id = value.get("source") or MANUAL, value.get("id")
    if not isinstance(source, str):
        raise MalformedError("the source of a fact is not text", at)
    new = NewFact(
        value.get("content", ""),
        value.get("category", Category.CONTEXT),
        value.get("confidence", 1.0),
        source=source,
        created_at=_time(value.get("createdAt"), at),
        id=fact_id if isinstance(fact_id, str) and _ID.fullmatch(fact_id) else None,
    )
    try:
        return check_fact(new)
    except ValueError as error:
        raise MalformedError(str(error), at) from error


def _time(value: Any, at: str) -> str | None:
    """Return a time as UTC with Z; one without a zone is taken as UTC. None where there is none."""
    if value is None or value == "":
        return None
    try:
        moment = datetime.fromisoformat(value)
        utc = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError, OverflowError) as error:
        raise MalformedError("a time is not in ISO 8601", at, "as in 2026-03-01T10:00:00Z") from error
    return utc.isoformat().replace("+00:00", "Z")


def _fact(fact: Fact) -> dict[str, Any]:
    return {_FACT_KEYS.get(name, name): value for name, value in asdict(fact).items()}


def _entry(entry: ProfileEntry) -> dict[str, str]:
    return {"summary": entry.text, "updatedAt": entry.updated_at}


def _text(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
