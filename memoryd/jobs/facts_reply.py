"""Parse a reply of the facts job: one JSON object, whatever text a model puts around it.

    {"new": [{"content": "…", "category": "preference", "confidence": 0.9, "cites": ["t3.2"], "replaces": ["fact_…"]}],
     "remove": [{"id": "fact_…", "cites": ["t3"]}],
     "profile": {"work": {"text": "…", "cites": ["t3"]}}}

Every key may be missing or empty; `facts` is read like `new`. A confidence may also be a text ("0.8"), a percentage
(85, "85 %") or a word ("high"). A text may also be a list of text blocks. The parser skips prose and fences around the
object. It takes the last object that has one of these keys with a value of the right type, because models show examples
before they answer, not after. It drops a value of a wrong type. If the reply removes a fact and a new fact cannot be
read, it refuses the whole reply, because the unreadable fact may replace the removed one.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from memoryd.jobs.job import RejectedReply, Reply
from memoryd.jobs.parts import find_unusable, merge_replies
from memoryd.ledger.category import Category
from memoryd.ledger.facts import ProfileSection
from memoryd.text.json_values import find_values

DEFAULT_CONFIDENCE = 0.5  # the confidence of a fact that states none in a readable form
_CONFIDENCES = {"very high": 0.95, "high": 0.9, "medium": 0.7, "low": 0.4, "very low": 0.2}
_NUMBER = re.compile(r"(\d{1,3}(?:[.,]\d{1,9})?|[.,]\d{1,9})(\s*%)?")
_KEYS = {"new": list, "facts": list, "remove": list, "profile": dict}
_NEW = ("new", "facts")  # keys of new facts
_LONGEST = 400_000  # characters; no answer is longer
MOST_ITEMS = 200
_CITE = re.compile(r"t\d{1,9}(?:\.\d{1,4})?", re.IGNORECASE)
_ID = re.compile(r"fact_[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class OfferedFact:
    """Hold a new fact as the model offers it."""

    content: str
    category: str
    confidence: float
    cites: tuple[str, ...]  # "t3", or a sentence of it: "t3.2"
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FactRemoval:
    """Hold a request of the model to remove a known fact."""

    id: str
    cites: tuple[str, ...]  # "t3", or a sentence of it: "t3.2"


@dataclass(frozen=True, slots=True)
class RewrittenSection:
    """Hold a section of the profile as the model rewrites it."""

    section: ProfileSection
    text: str
    cites: tuple[str, ...]  # "t3", or a sentence of it: "t3.2"


@dataclass(frozen=True, slots=True)
class ParsedFactsReply:
    """Hold the parts of a facts reply."""

    offered: tuple[OfferedFact, ...] = ()
    removals: tuple[FactRemoval, ...] = ()
    sections: tuple[RewrittenSection, ...] = ()
    unreadable: int = 0  # items in an unknown form, which are left out


def parse(reply: Reply) -> ParsedFactsReply | RejectedReply:
    """Return the parts of `reply`, or the reason why it cannot be used; never raises."""
    if rejected := find_unusable(reply, _LONGEST):
        return rejected
    found = _answer(reply.text)
    if found is None:
        return RejectedReply("the reply holds no JSON object with the keys asked for")
    return _parts(found)


def render(offered: Sequence[OfferedFact], removals: Sequence[FactRemoval] = ()) -> str:
    """Return a reply text from which `parse` reads the same facts."""
    new = [{name: value for name, value in asdict(one).items() if value or name != "replaces"} for one in offered]
    remove = {"remove": [asdict(one) for one in removals]} if removals else {}
    return json.dumps({"new": new, **remove}, ensure_ascii=False)


def merge(replies: Sequence[Reply]) -> Reply | RejectedReply:
    """Return one reply from the replies to the parts of a question, in order.

    If several parts rewrite a section of the profile, the last one counts.
    """

    def join(_parts: list[ParsedFactsReply]) -> str:
        found = [one for one in (_answer(reply.text) for reply in replies) if one is not None]
        whole = {
            "new": [item for one in found for key in _NEW for item in _get_typed(one, key, list)],
            "remove": [item for one in found for item in _get_typed(one, "remove", list)],
            "profile": {name: text for one in found for name, text in _get_typed(one, "profile", dict).items()},
        }
        return json.dumps(whole, ensure_ascii=False)

    return merge_replies(replies, parse, join)


def _answer(text: str) -> dict[str, Any] | None:
    """Return the last JSON object of a text that has one of the expected keys; None if there is none."""
    values: list[dict[str, Any]] = [value for value, _, _ in find_values(text, "{")]
    found = [one for one in values if any(isinstance(one.get(key), kind) for key, kind in _KEYS.items())]
    return found[-1] if found else None


def _parts(found: dict[str, Any]) -> ParsedFactsReply | RejectedReply:
    new, facts, remove, profile = (_get_typed(found, key, kind) for key, kind in _KEYS.items())
    new = [*new, *facts]
    if max(len(new), len(remove)) > MOST_ITEMS:
        return RejectedReply("the reply offers more than an exchange can hold")
    offered = [_parse_fact(one) for one in new]
    removals = [_removal(one) for one in remove]
    sections = [_section(name, one) for name, one in profile.items()]
    broken = sum(one is None for one in offered) + sum(not isinstance(found.get(key, []), list) for key in _NEW)
    if broken and (removals or any(one and one.replaces for one in offered)):
        return RejectedReply("the reply removes facts, and a new one cannot be read")
    unreadable = [*offered, *removals, *sections].count(None)
    kept = (tuple(filter(None, offered)), tuple(filter(None, removals)), tuple(filter(None, sections)))
    return ParsedFactsReply(*kept, unreadable)


def _get_typed(found: dict[str, Any], key: str, kind: type) -> Any:
    value = found.get(key)
    return value if isinstance(value, kind) else kind()


def _parse_fact(value: Any) -> OfferedFact | None:
    text = _text(value.get("content")) if isinstance(value, dict) else ""
    if not text:
        return None
    category = value.get("category")
    known = isinstance(category, str) and category.strip().lower() in set(Category)
    kind = str(category).strip().lower() if known else Category.CONTEXT.value
    confidence, cites = _confidence(value.get("confidence")), _cites(value.get("cites"))
    return OfferedFact(text, kind, confidence, cites, _ids(value.get("replaces")))


def _text(value: Any) -> str:
    """Return a text, or the joined texts of a list of blocks; empty for any other value."""
    value = value.get("text") if isinstance(value, dict) else value
    if isinstance(value, list):
        return " ".join(text for one in value if not isinstance(one, list) and (text := _text(one)))
    return value.strip() if isinstance(value, str) else ""


def _confidence(value: Any) -> float:
    """Return a confidence within 0..1; a number above 1 is a percentage. An unreadable value gives the default."""
    is_percentage = False
    if isinstance(value, str):
        word = value.strip().lower()
        match = _NUMBER.fullmatch(word)
        is_percentage = bool(match and match[2])
        value = float(match[1].replace(",", ".")) if match else _CONFIDENCES.get(word)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        return DEFAULT_CONFIDENCE
    return value / 100 if is_percentage or value > 1 else float(value)


def _removal(value: Any) -> FactRemoval | None:
    ids = _ids([value.get("id")] if isinstance(value, dict) else [value])
    return FactRemoval(ids[0], _cites(value.get("cites")) if isinstance(value, dict) else ()) if ids else None


def _section(name: str, value: Any) -> RewrittenSection | None:
    text = value.get("text") if isinstance(value, dict) else None
    if name not in set(ProfileSection) or not isinstance(value, dict) or not isinstance(text, str | list):
        return None
    return RewrittenSection(ProfileSection(name), _text(text), _cites(value.get("cites")))


def _cites(value: Any) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    found = (word for one in given if isinstance(one, str) for word in re.split(r"[\s,\[\]]+", one))
    return tuple(dict.fromkeys(word.casefold() for word in found if _CITE.fullmatch(word)))


def _ids(value: Any) -> tuple[str, ...]:
    given = value if isinstance(value, list) else []
    return tuple(dict.fromkeys(one for one in given if isinstance(one, str) and _ID.fullmatch(one)))
