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

_INSTRUCTS = re.compile(
    r"\b(?:always|never|must(?! have)|from now on|in (?:the )?future|do not|don't|make sure|ignore|disregard|forget "
    r"(?:all|every|what)|remember to|be sure to|you (?:should|need to|have to|may not|are to|will now)|keep in mind|"
    r"without asking|at all times|no matter what|mandatory|obligatory|compulsory|"
    r"(?:is|are) (?:required|to be (?:used|sent|paid|run)))\b"
    r"|\b(?:immer|niemals?|stets|ab jetzt|von nun an|muss|müssen|darf nicht|toujours|jamais|désormais|il faut|ne pas|"
    r"siempre|nunca|jamás|a partir de ahora|debes?|no debes|sempre|mai|d'ora in poi|devi|non devi|doravante|"
    r"deves?|altijd|nooit|voortaan|moet(?:en)?)\b"
    r"|\b(?:всегда|никогда|обязательно|отныне|нельзя|должен|должна|должны)\b"
    r"|必ず|常に|絶対に|決して|今後は|しないで|してください"
    r"|总是|總是|永远|永遠|始终|务必|務必|不要|必须|必須|从现在起|以后都|항상|절대|반드시",
    re.IGNORECASE,
)
# Words of `_INSTRUCTS` that always address somebody.
_ORDERS = re.compile(
    r"\b(?:from now on|in (?:the )?future|make sure|ignore|disregard|forget (?:all|every|what)|remember to|be sure to|"
    r"you (?:should|need to|have to|may not|are to|will now)|keep in mind|without asking|no matter what|ab jetzt|"
    r"von nun an|désormais|a partir de ahora|debes|no debes|d'ora in poi|devi|non devi|doravante|deves|voortaan|"
    r"отныне)\b"
    r"|今後は|しないで|してください|务必|務必|不要|从现在起|以后都",
    re.IGNORECASE,
)
_PEOPLE = re.compile(
    r"\b(?:please|kindly|bitte|por favor|prego|per favore|пожалуйста|you|we|they|everyone|everybody|anyone|nobody|"
    r"agents?|assistants?|models?|ai|claude|codex|copilot|people|users?|team|developers?|contributors?|reviewers?|man|"
    r"wir|du|sie|ihr|alle|niemand|nous|vous|tu|on|nosotros|vosotros|ustedes|noi|voi|nós|vocês|мы|вы|ты|все|никто)\b"
    r"|请|我们|你|您|大家|私たち|あなた|皆",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[.!?:;,|…。！？：；、，—–]")  # noqa: RUF001
# A sentence that begins with the bare form of such a verb is an order.
_VERBS = "|".join(list_words("verbs of orders"))
_IMPERATIVE = re.compile(
    rf"(?:^(?!open:)|[.!?:;|>)\]*•–—-]\s+|^\w+:\s*)(?:please\s+|kindly\s+|just\s+|now\s+|bitte\s+)?(?:{_VERBS})\b"  # noqa: RUF001
    r"(?!\s*(?:\(|=|is\b|was\b|are\b|were\b|has\b|of\b))",
    re.IGNORECASE,
)
_PREFERS = re.compile(
    r"\b(?:prefers?|preferred|favou?rite|likes?|loves?|enjoys?|hates?|dislikes?|wants?|wishes|would rather|allergic|"
    r"bevorzugt?|bevorzuge|mag|möchte|lieber|hasst|préfère|aime|déteste|veut|prefiere|prefiero|le gusta|odia|quiere|"
    r"preferisce|preferisco|vuole|prefere|prefiro|gosta|voorkeur|wil)\b"
    r"|\b(?:предпочита\w+|любит|люблю|хочет|ненавидит)\b|喜欢|喜歡|偏好|讨厌|討厭|好き|嫌い|좋아|선호",
    re.IGNORECASE,
)


def is_instruction(text: str) -> bool:
    """Return True if `text` reads as an order or as a rule."""
    plain = unicodedata.normalize("NFKC", text)
    return _INSTRUCTS.search(plain) is not None or _IMPERATIVE.search(plain) is not None


def is_order(text: str) -> bool:
    """Return True if `text` is an order to somebody, not only a statement with "must", "never" or "always".

    "Always deploy at noon" and "You must deploy at noon" are orders. "Worklets must be registered first" may be a
    description, so this function returns False and leaves the decision to a reader.
    """
    plain = unicodedata.normalize("NFKC", text)
    if _IMPERATIVE.search(plain) or _ORDERS.search(plain):
        return True
    # If its clause has no subject, or people as the subject, such a word makes an order.
    starts = [_CLAUSE_END.split(plain[: found.start()])[-1] for found in _INSTRUCTS.finditer(plain)]
    return any(not any(map(str.isalnum, start)) or _PEOPLE.search(start) for start in starts)


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
