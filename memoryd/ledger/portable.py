"""Read and write files that carry facts and profile from one place to another.

There are two formats: memoryd's own, and DeerFlow's `memory.json`. The latter follows the types of DeerFlow's frontend
and the documentation of its gateway (github.com/bytedance/deer-flow, `frontend/src/core/memory/types.ts`, "Get Memory
Data"):

    {"version": "1.0", "lastUpdated": TIME,
     "user": {"workContext": {"summary", "updatedAt"}, "personalContext": …, "topOfMind": …},
     "history": {"recentMonths": …, "earlierContext": …, "longTermBackground": …},
     "facts": [{"id", "content", "category", "confidence", "createdAt", "source"}]}

A file with any malformed part is refused as a whole.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from memoryd.errors import MemorydError
from memoryd.ledger.category import Category
from memoryd.ledger.facts import MANUAL, Fact, NewFact, ProfileEntry, ProfileSection, check_fact
from memoryd.text.json_values import refuse_constant

FORMAT = "memoryd-facts"
_VERSION = 1
_DEERFLOW = {
    "user": dict(zip(("workContext", "personalContext", "topOfMind"), [*ProfileSection][:3], strict=True)),
    "history": dict(zip(("recentMonths", "earlierContext", "longTermBackground"), [*ProfileSection][3:], strict=True)),
}
_FACT_KEYS = {"created_at": "createdAt"}  # fields of a fact that have another name in a file
_ID = re.compile(r"fact_[0-9a-f]{8}")
_MOST = 100_000  # the most facts of one file


class MalformedError(MemorydError):
    """Report that the file is malformed; nothing of it was imported."""

    code = "malformed"


@dataclass(frozen=True, slots=True)
class FactFile:
    """Hold the facts and the profile of a file."""

    facts: tuple[NewFact, ...]
    profile: dict[ProfileSection, ProfileEntry]


def dump(facts: Iterable[Fact], profile: Mapping[ProfileSection, ProfileEntry]) -> str:
    """Return the facts and the profile in memoryd's own format; `load` reads it."""
    sections = {section.value: _entry(profile[section]) for section in ProfileSection if section in profile}
    return _text({"format": FORMAT, "version": _VERSION, "profile": sections, "facts": [_fact(one) for one in facts]})


def dump_deerflow(facts: Iterable[Fact], profile: Mapping[ProfileSection, ProfileEntry], now: str) -> str:
    """Return the facts and the profile as a `memory.json` of DeerFlow; missing sections are written as empty."""
    empty = ProfileEntry("", "")
    groups = {
        group: {name: _entry(profile.get(section, empty)) for name, section in names.items()}
        for group, names in _DEERFLOW.items()
    }
    return _text({"version": "1.0", "lastUpdated": now, **groups, "facts": [_fact(one) for one in facts]})


def load(text: str, where: str = "") -> FactFile:
    """Return the content of a file in either format, or of a plain list of facts.

    Args:
        text: the text of the file.
        where: the name of the file, for errors.

    Raises:
        MalformedError: the text is not JSON, has another format or version, or holds an invalid value.
    """
    try:
        value = json.loads(text.removeprefix("\ufeff"), parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise MalformedError(
            "the file is not JSON", where, "it must be an export of facts, or a memory.json"
        ) from error
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
    own = {"profile": {section.value: section for section in ProfileSection}}
    profile: dict[ProfileSection, ProfileEntry] = {}
    for group, names in (own | _DEERFLOW).items():
        given = held.get(group) or {}
        if not isinstance(given, dict):
            raise MalformedError("the profile is not an object", f"{where} {group}".strip())
        for name, section in names.items():
            entry = given.get(name)
            if entry is None:
                continue
            at = f"{where} {group}.{name}".strip()
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
    told = (value.get("content", ""), value.get("category", Category.CONTEXT), value.get("confidence", 1.0))
    own = fact_id if isinstance(fact_id, str) and _ID.fullmatch(fact_id) else None
    new = NewFact(*told, source=source, created_at=_time(value.get("createdAt"), at), id=own)
    try:
        return check_fact(new)
    except ValueError as error:
        raise MalformedError(str(error), at) from error


def _time(value: Any, at: str) -> str | None:
    """Return a time as UTC with Z, or None if there is none; a time without a zone counts as UTC."""
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
