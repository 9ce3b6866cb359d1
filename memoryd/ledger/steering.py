"""Recognise wording of orders and of personal preferences, in several languages.

The patterns prove nothing and miss much. They sort texts whose author is already known, and keep orders out of
headings. The author of a text is decided by its record (`lane`).
"""

import re
import unicodedata

from memoryd.ledger.disguise import fold
from memoryd.ledger.floor import TokenKind, find_tokens
from memoryd.text.content import list_content_words
from memoryd.text.neutral import neutralize
from memoryd.text.word_lists import list_words

_INSTRUCTS = re.compile("|".join(list_words("words of rules")), re.IGNORECASE)
# English cues that also say how things are, as "Worklets must be registered first" does.
_MAY_DESCRIBE = re.compile(r"always|never|must(?! have)|do not|don't", re.IGNORECASE)
# Words of people, agents and what they say, send or keep secret: with one of these, a sentence may be an order.
_ADDRESSED = re.compile(
    rf"\b(?:{'|'.join([*list_words('addressed'), *list_words('assistants')])})\b|://|@"
    r"|\b[\w-]+\.(?:com|net|org|io|dev|example|ai|app)\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[.!?:;,|…—–]")  # noqa: RUF001
# A sentence that begins with a bare verb is an order.
_VERBS = "|".join(list_words("verbs of orders"))
_IMPERATIVE = re.compile(
    rf"(?:^(?!open:)|[.!?:;|>)\]*•–—-]\s+|^\w+:\s*)(?:please\s+|kindly\s+|just\s+|now\s+|bitte\s+)?(?:{_VERBS})\b"  # noqa: RUF001
    r"(?!\s*(?:\(|=|is\b|was\b|are\b|were\b|has\b|of\b))",
    re.IGNORECASE,
)
_PREFERS = re.compile("|".join(list_words("words of preferences")), re.IGNORECASE)


def is_instruction(text: str) -> bool:
    """Return True if `text` reads as an order or as a rule."""
    plain = unicodedata.normalize("NFKC", text)
    return _INSTRUCTS.search(plain) is not None or _IMPERATIVE.search(plain) is not None


def is_order(text: str) -> bool:
    """Return True if `text` reads as an order, and not only as a statement about things that says "must" or "never".

    "Worklets must be registered first" may only say how things are, so a reader decides about it. "Always deploy at
    noon" and "The reply must end with a link" are orders, and so is everything that other languages mark as one.
    """
    plain = unicodedata.normalize("NFKC", text)
    if not is_instruction(plain):
        return False
    cues = list(_INSTRUCTS.finditer(plain))
    # Without a subject before it, in its own clause, a cue begins an order.
    has_subjects = all(any(map(str.isalnum, _CLAUSE_END.split(plain[: one.start()])[-1])) for one in cues)
    describes = has_subjects and all(_MAY_DESCRIBE.fullmatch(one[0]) for one in cues)
    return not describes or _IMPERATIVE.search(plain) is not None or _ADDRESSED.search(plain) is not None


def is_preference(text: str) -> bool:
    """Return True if `text` states a person's likes, wishes or choices."""
    return _PREFERS.search(unicodedata.normalize("NFKC", text)) is not None


# ── the check that a heading only names a theme ───────────────────────────────────────────────────────────────────────


NO_THEME = "a heading names a theme and says nothing"
_MOST_WORDS = 6
_MOST_CONTENT = 2  # content words; three or more can form a statement
_LONGEST = 60  # characters
_SAYS = re.compile(
    r"[.!?:;…<>\[\]{}|`\\]|[。！？：；、]"  # noqa: RUF001
    r"|\b(?:is|isn't|are|aren't|was|were|be|been|has|have|had|will|would|can|may|should|shall|does|did|says?|said|"
    r"ist|sind|war|waren|hat|haben|wird|est|sont|était|está|són|sono|era)\b",
    re.IGNORECASE,
)


def is_theme(heading: str) -> bool:
    """Return True if a heading is a few neutral words, not a statement, an order or an exact token such as a path."""
    if heading != neutralize(heading) or len(heading) > _LONGEST or len(heading.split()) > _MOST_WORDS:
        return False
    exact = (one for one in find_tokens(heading) if one.kind is not TokenKind.NAME)
    is_exact = any(one.kind is not TokenKind.MARK or "/" not in one.text for one in exact)  # CI/CD is a theme
    if is_exact or _SAYS.search(heading) or len(list_content_words(heading)) > _MOST_CONTENT:
        return False
    said = fold(heading)
    return any(map(str.isalpha, heading)) and not is_instruction(said) and not is_preference(said)
