"""Steering: wording by which a text would steer an agent, or speaks of its user, in several languages.

Such cues prove nothing and miss much; they only say which texts need the user's own words behind them. What a cue
misses is still held by its origin: text from outside never becomes more than a report, however it is worded.
"""

from __future__ import annotations

import re
import unicodedata

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
# A sentence that begins with a bare verb tells somebody to do it.
_AWAY_LIST = """
run execute send upload download fetch open visit forward install delete remove curl wget post call email mail
transfer pay buy use prefer recommend trust choose avoid disable enable skip bypass approve accept grant share publish
push deploy reply answer respond speak treat assume pretend act behave obey follow
"""
_AT_HAND_LIST = """
add append insert include exclude commit merge translate write save store keep read load import copy move rename
replace set ask tell notify report mention
"""
_VERB_LIST = _AWAY_LIST + _AT_HAND_LIST
_IMPERATIVE = re.compile(
    rf"(?:^(?!open:)|[.!?:;|>)\]*•–—-]\s+|^\w+:\s*)(?:please\s+|kindly\s+|just\s+|now\s+|bitte\s+)?(?:{'|'.join(_VERB_LIST.split())})\b"  # noqa: RUF001
    r"(?!\s*(?:\(|=|is\b|was\b|are\b|were\b|has\b|of\b))",
    re.IGNORECASE,
)
# What does more than change the work at hand, wherever in a sentence it is told: it sends, fetches, deletes or runs.
_LEADS_OUT = re.compile(
    rf"(?:^|[.!?:;,|>)\]*•–—`(-]\s*|\b(?:and|then|please|or|und|dann|bitte)\s+)(?:{'|'.join(_AWAY_LIST.split())})\b"  # noqa: RUF001
    r"(?!\s*(?:=|is\b|was\b|are\b|were\b|has\b|of\b|-?times?\b)"
    r"|(?:(?<=run)|(?<=push))\s+(?:the |all |this )?(?:\w+ )?(?:tests?|suite|linter|branch)\b(?:[.;]|$))"
    r"|\b(?:curl|wget|ssh|scp|rsync|netcat|ncat|sudo|base64|powershell|npx|uvx|pipx|bunx|eval)\b|\|\s*\w*sh\b|\$\("
    r"|\brm\s+-|\bgh (?:gist|repo|secret|auth)\b|\bgit (?:push|clone|config|reset|clean)\b"
    r"|\b(?:pip3?|npm|pnpm|yarn|bun|cargo|gem|go|brew|apt|apt-get|uv)\s+(?:install|add|i|get|publish|exec)\b"
    r"|(?<!\w)\.(?:env|ssh|aws|netrc|npmrc|pypirc)\b|\bid_(?:rsa|ed25519)\b|/etc/",
    re.IGNORECASE,
)
_VERBS = rf"(?:{'|'.join(_VERB_LIST.split())})"
_EACH = r"(?:every|each|any|whichever) (?:\w+ )?(?:agent|assistant|session|bot)"
# What holds of all agents is an order to each, however it is told.
_AGENTS = re.compile(
    rf"\b(?:agents|assistants|{_EACH})\b[^.;!?\n]{{0,40}}?\s"
    r"(?:shall|should|will|need|needs|have to|has to|(?:are|is) (?:to|asked|expected))\b"
    rf"|\b{_EACH}\b[^.;!?\n]{{0,40}}?\s{_VERBS}(?:e?s)?\b",
    re.IGNORECASE,
)
_AWAY = """
uploaded sent posted forwarded published shared mailed emailed transferred paid exported executed fetched downloaded
installed run
"""
_BINDS = re.compile(
    rf"\bnext (?:step|thing|task|action)s?\b[^.;!?\n]{{0,20}}\b(?:is|are|would be) (?:to )?{_VERBS}\b"
    rf"|\b(?:agents|assistants)\b[^.;!?\n]{{0,40}}?\s{_VERBS}\b"
    r"|\b(?:agreed|arranged|settled|approved|policy|rule|convention)\b[^.;!?\n]{0,40}"
    r"(?::|\bthat (?:i|we|you|it|every|each|all)\b)"
    r"|\bgets? (?:\w+ )?\w+(?:ed|nt|un|id)\b"
    rf"|\b(?:is|are) (?:\w+ )?(?:{'|'.join(_AWAY.split())})\b[^.;!?\n]{{0,40}}?\b"
    r"(?:to|into|onto|at|on|before|from|first|each|every)\b",
    re.IGNORECASE,
)
_PREFERS = re.compile(
    r"\b(?:prefers?|preferred|favou?rite|likes?|loves?|enjoys?|hates?|dislikes?|wants?|wishes|would rather|allergic|"
    r"bevorzugt?|bevorzuge|mag|möchte|lieber|hasst|préfère|aime|déteste|veut|prefiere|prefiero|le gusta|odia|quiere|"
    r"preferisce|preferisco|vuole|prefere|prefiro|gosta|voorkeur|wil)\b"
    r"|\b(?:предпочита\w+|любит|люблю|хочет|ненавидит)\b|喜欢|喜歡|偏好|讨厌|討厭|好き|嫌い|좋아|선호",
    re.IGNORECASE,
)
_TRIGGER = re.compile(
    r"\b(?:when(?:ever)?|once|as soon as|if|each time|every time|next time|the moment|upon|until)\b[^.;\n]{0,40}?"
    r"\b(?:users?|he|she|they|you|someone|somebody|anyone|person|human|owner|agent|assistant|conversation|session)\b"
    r"[^.;\n]{0,60}?\b(?:says?|said|asks?|asked|types?|repl(?:y|ies)|answers?|mentions?|requests?|confirms?|agrees?|"
    r"thanks?|greets?|starts?|begins?|opens?|logs? in|approves?|sends?)\b"
    r"|\b(?:wenn|sobald|falls)\b[^.;\n]{0,40}\b(?:nutzer\w*|benutzer\w*|user)\b[^.;\n]{0,60}\b(?:sagt|fragt|schreibt)\b"
    r"|\b(?:quand|lorsque|dès que|si)\b[^.;\n]{0,40}\butilisat\w+\b[^.;\n]{0,60}\b(?:dit|demande|répond)\b"
    r"|\b(?:cuando|si|quando|se)\b[^.;\n]{0,40}\b(?:usuario|utente|usuário)\b[^.;\n]{0,60}"
    r"\b(?:dice|diga|pide|diz|pede|chiede)\b"
    r"|(?:когда|если)[^.;\n]{0,40}пользовател\w*[^.;\n]{0,60}(?:скаж|говор|спрос|напиш)"
    r"|(?:当|當|如果|每当|一旦)[^。\n]{0,10}(?:用户|用戶|使用者)[^。\n]{0,20}(?:说|說|问|問|输入|回复|回答)"
    r"|(?:ユーザー|利用者)[^。\n]{0,20}(?:言った|言う|聞いた|聞く|入力)[^。\n]{0,10}(?:とき|時|ら)",
    re.IGNORECASE,
)
_ENDORSES = re.compile(
    r"\b(?:trust(?:ed|worthy)?|recommend\w*|reliable|authoritative|reputable|official|preferred|"
    r"leading (?:source|provider|vendor|platform|company|tool)|best(?![- ]effort)|go-to|"
    r"top[- ](?:choice|rated|source)|first choice|number one|award[- ]winning|safest|only (?:source|vendor|provider)|"
    r"vertrauenswürdig\w*|empfohlen\w*|empfehlens\w*|fiable|recommandé\w*|de confianza|recomendad\w+|affidabil\w+|"
    r"consigliat\w+|confiável|betrouwbar\w*|aanbevolen)\b|\b(?:надёжн\w+|надежн\w+|рекоменд\w+)"
    r"|可信|值得信赖|推荐|推薦|首选|信頼|おすすめ",
    re.IGNORECASE,
)
_OF_USER = re.compile(
    r"\b(?:the )?users?(?:'s|s')?\b(?!\s+(?:table|id|model|class|interface|input|agent|account|accounts|group|space)\b)"
    r"|^(?:i|i'm|i've|my|we|our|mine)\b"
    r"|\b(?:benutzer\w*|nutzer\w*|l'utilisat\w+|utilisateur\w*|usuario|utente|usuário|gebruiker|пользовател\w+)\b"
    r"|用户|用戶|使用者|ユーザー",
    re.IGNORECASE,
)


# Letters of other scripts that look like Latin ones, by which a cue is hidden from a program and shown to a reader.
_LOOKALIKES = str.maketrans(
    "аеорсухіјѕһԁԛԝкмтвнԍӏАЕОРСУХІЈЅКМТВНαορυνικτΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
    "aeopcyxijshdqwkmtbhglAEOPCYXIJSKMTBHaopuviktABEZHIKMNOPTYX",
)
_LETTER_BY_LETTER = re.compile(r"(?:\b[^\W\d_][ .·*_-]){4}")
_SPELT_OUT = re.compile(r"(?<=\b\w)[ .·*_-](?=\w\b)")
_LIKES = re.compile(
    r"\b(?:prefer(?:s|red)?|favou?rite|likes?|loves?|enjoys?|bevorzugt?|bevorzuge|mag|préfère|aime|prefier[eo]|gusta|"
    r"preferisc[eo]|prefer[eo]|prefiro|gost[ao])\b|предпочита\w+|любит|люблю|喜欢|喜歡|偏好|好き|좋아|선호",
    re.IGNORECASE,
)


def _seen(text: str) -> tuple[str, ...]:
    """Return `text`, and as a reader sees it: letters that look alike as one, without accents, words not spelt out."""
    plain = unicodedata.normalize("NFKC", text)
    bare = "".join(char for char in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(char))
    return tuple(dict.fromkeys((text, plain, _SPELT_OUT.sub("", bare.translate(_LOOKALIKES)))))


def _found(cue: re.Pattern[str], text: str) -> bool:
    return any(cue.search(form) for form in _seen(text))


def instructs(text: str) -> bool:
    """Say whether `text` reads as an order or a rule for somebody."""
    return orders(text) or _found(_IMPERATIVE, text) or _found(_AGENTS, text)


def leads_out(text: str) -> bool:
    """Say whether `text`, told as work that is left, is an order to more than change the work at hand.

    To add, write, rename or tell somebody something is what is left of most work; to run, send, fetch or delete
    something, and any rule, may have been planted. So may have been words for all agents,
    or what is to be done with the user.
    """
    of_work = _found(_LEADS_OUT, text) or _found(_AGENTS, text) or (of_user(text) and _found(_IMPERATIVE, text))
    return of_work or orders(text)


def orders(text: str) -> bool:
    """Say whether `text` has the words of a rule in it (always, must, do not), or words it hides letter by letter."""
    return _found(_INSTRUCTS, text) or _LETTER_BY_LETTER.search(text) is not None


def binds(text: str) -> bool:
    """Say whether `text` tells what is to happen next, or as agreed or usual, though it orders nobody to do it."""
    return _found(_BINDS, text)


def prefers(text: str) -> bool:
    """Say whether `text` tells of somebody's likes, wishes or choices."""
    return _found(_PREFERS, text)


def likes(text: str) -> bool:
    """Say whether `text` tells of what somebody likes; a wish is not meant."""
    return _found(_LIKES, text)


def triggers(text: str) -> bool:
    """Say whether `text` waits for something the user will say or do, as a planted order does (Rehberger 2025)."""
    return _found(_TRIGGER, text)


def endorses(text: str) -> bool:
    """Say whether `text` praises somebody or something as to be trusted or chosen, as planted advertising does."""
    return _found(_ENDORSES, text)


def of_user(text: str) -> bool:
    """Say whether `text` claims something of the user, or in the user's voice."""
    return _found(_OF_USER, text)
