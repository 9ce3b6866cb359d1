"""Find the lasting statements of a conversation: the few that belong into the core.

Users of memory systems complain most about junk in the core. So a statement that only might matter stays in the daily
file. Preferences and facts come from text that the user typed, by an explicit cue or by many signs together
(`lasting_model`). Decisions and lessons also come from the assistant, by cues only.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from memoryd.jobs.job import MemoryType
from memoryd.offline import lasting_model, words
from memoryd.offline.sentences import is_question


class Cue(NamedTuple):
    """Declare one way to say that something lasts."""

    type: MemoryType
    importance: float
    by_user_only: bool
    at_work_only: bool  # among friends such words tell a story, not a decision or lesson
    pattern: re.Pattern[str]


def _cue(
    kind: MemoryType, importance: float, *wordings: str, by_user_only: bool = True, at_work_only: bool = False
) -> Cue:
    return Cue(kind, importance, by_user_only, at_work_only, re.compile("|".join(wordings), re.IGNORECASE))


_DO = (
    r"(?:use|run|write|commit|push|pull|add|put|format|test|deploy|ask|check|delete|touch|edit|change|include|reply|"
    r"answer|respond|send|start|keep|make|mock|merge|rebase|skip|assume|generate|create|log|print|import|install|leave|"
    r"remove|mention|show|translate|speak|schedule|book|order|call|sign|prefix|document|squash|amend|hard-?code|"
    r"refactor|update|read|do)"
)
_HABIT = r"(?:use|run|write|commit|take|drink|eat|wear|buy|read|deploy|test|sign|fly|sleep)"
_KIN = (
    r"(?:wife|husband|partner|fianc\w+|boyfriend|girlfriend|son|daughter|dog|cat|puppy|kitten|mother|mom|father|dad|"
    r"sister|brother|boss|manager|team lead|company|pet)"
)
_DATUM = (
    r"(?:birthday|e-?mail|phone number|address|editor|timezone|time zone|job title|username|native language|pronouns)"
)
_OURS = (
    r"(?:stack|repo(?:sitory)?|api|database|db|ci|server|production|staging|app|backend|frontend|build|cluster|deadline"
    r"|convention|style guide|default branch)"
)
_WHY = r"^(?=.*\b(?:because|since|so that|due to|to avoid|as (?:it|we|they|that)|otherwise)\b)"
_HAVE = r"\bi(?:'ve| have)? (?:just |finally |recently |already )?"
_AMOUNT = r"(?:\d|up\b|over\b|about\b|around\b|almost\b|nearly\b|more\b|less\b|too\b|only\b)"
_CHOOSE = rf"(?:use|using(?! {_AMOUNT})|adopt|(?:go|going|stick|sticking|stay|staying) with|(?:switch|move|migrate) to)"
_NO_TRADE = "bit|big|lot|part|member of|huge|little|fan|mess|total|great|good|real|bad|true"
_OPENING = r"^(?:(?:please|also|and|ok(?:ay)?|so|oh|no|but|yes|fine|alright|by the way|btw)[,.!]? +)*"
_RULE = rf"(?:always|never|(?:don't|do not) ever)\s+(?:ever )?{_DO}\b"
_JOINED = r"(?:[,;]\s*(?:and |but )?|\s(?:and|but) )"
_SUBJECT = r"\b(?:i|we|he|she|they|it|you|people|everyone|who|that|which|my|our|his|her|their|your)\b"
# Begins a statement that reports, and does not ask: "The tests always pass here but never run there".
_TELLS = r"(?:the|an?|this|these|those|some|all|every|each|no|most|many|there)\b"
_ASKING_FIRST = r"without (?:asking|telling|checking with|consulting|my|permission|approval|confirmation)\b"
_NOT_A_NAME = (
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august|september|october|"
    r"november|december|christmas|easter|i\b|asap"
)

CUES = (
    _cue(
        MemoryType.PREFERENCE,
        0.95,
        rf"{_OPENING}remember(?:\b that\b|\b to\b|:|,| (?:my|i|we|our|the|never|always)\b)",
        rf"{_OPENING}(?:do(?:n't| not) forget (?:that|to always)|keep in mind that|for the record|from now on)\b",
        rf"{_OPENING}(?:in (?:the )?future|going forward)[, ]",
        r"\bfrom now on[.!]*$|\b(?:ab jetzt|von nun an|désormais|de ahora en adelante|d'ora in poi|voortaan)[.!]*$",
        r"^(?:merk dir|ab jetzt|recuerda que|souviens-toi|rappelle-toi)\b",
        r"记住|記住|记得|記得|覚えて(?:おいて|ください|くれ)|今後は|以后(?:请|都|不)|기억해",
    ),
    _cue(
        MemoryType.PREFERENCE,
        0.9,
        rf"{_OPENING}(?:always|never)\s+(?:ever )?{_DO}\b",
        r"\b(?:you should|you must|make sure (?:to|you)|i want you to|we should|we must)\s+(?:always|never)\b",
        rf"{_OPENING}(?:don't|do not)\s+(?:ever\s+\w|(?:use|commit|push|add|mock|install)\b)",
        rf"{_OPENING}(?:don't|do not|never)\s+\w.*\b{_ASKING_FIRST}",
        r"\b(?:ohne (?:mich|uns) (?:vorher )?zu fragen|sans (?:me|nous) (?:le )?demander|sin (?:preguntarme|avisarme)|"
        r"senza chieder(?:me|mi)\w*|sem me (?:perguntar|avisar)|zonder (?:het )?(?:mij|me) (?:eerst )?te vragen)\b",
        rf"^(?!{_TELLS}|.*{_SUBJECT}.*\b(?:always|never|ever)\b).+?{_JOINED}{_RULE}",
        rf"{_OPENING}stop\s+(?:using|committing|pushing|adding|mocking|installing)\b",
        r"^(?:bitte )?(?:niemals|immer)\s+\w+",
        r"总是|總是|永远|必ず|絶対に|決して|不要使用|不要用|使わないで",
    ),
    _cue(
        MemoryType.PREFERENCE,
        0.85,
        r"\bi(?:'d| would)?\s+(?:also |really |much |strongly |generally |usually )?(?:prefer\b|rather (?:have|get)\b)",
        rf"\bi\s+(?:always|never|usually|only)\s+{_HABIT}\b",
        rf"{_OPENING}(?:just )?call me (?!{_NOT_A_NAME})(?-i:[A-ZÀ-Þ])",
        r"^(?:bitte )?nenn(?:en sie)? mich \w|^appelle[sz]?-moi \w|^llámame (?-i:[A-ZÀ-Þ])|^chiamami (?-i:[A-ZÀ-Þ])",
        r"\bkeep your (?:answers?|repl(?:y|ies)|responses?|explanations?|messages?|summar(?:y|ies)) "
        r"|\b(?:please|you can) call me\b|\bi(?:'m| am) allergic\b|\bi can't stand\b",
        r"\b(?:ich bevorzuge|je préfère|prefiero|preferisco|prefiro)\b",
        r"我(?:更|比较|比較)(?:喜欢|喜歡)|我(?:讨厌|討厭)|の方が好き|が苦手",
    ),
    _cue(
        MemoryType.PREFERENCE,
        0.75,
        r"\bmy (?:all-time |absolute )?favou?rite\s+(?!one|part|thing)\w+(?: \w+)?\s+(?:is|are)\b",
        r"\bi (?:really )?(?:hate|dislike|(?:don't|do not) like)\s+(?!it\b|that\b|this\b|you\b)\w+",
        r"\b(?:ich hasse|ich mag kein\w*|je déteste|je n'aime pas|odio|no me gustan?|non mi piac\w+|não gosto)\s+\w+",
    ),
    _cue(
        MemoryType.FACT,
        0.8,
        r"\bmy name is\b|\bi live (?:in|at|near|with)\b|\bi work (?:at|as|for)\b|\bi was born (?:in|on)\b",
        r"\bi(?:'m| am) (?:from|based in|married to|(?:a )?vegan|(?:a )?vegetarian|colou?r[- ]?blind|dyslexic"
        r"|left-handed|diabetic|bilingual)\b",
        rf"\bmy {_KIN}(?:'s name)?(?: is|'s)(?: called| named)? (?-i:[A-Z])|\bmy {_DATUM}(?: is|'s| are)\b",
        r"我叫|我住在|我是一名|私の名前は|に住んで",
        r"\b(?:ich heiße|ich wohne in|ich arbeite (?:bei|als)|je m'appelle|me llamo|vivo en)\b",
    ),
    _cue(
        MemoryType.FACT,
        0.75,
        r"\b(?:we|i) (?:use|run on|deploy (?:to|on|with)|host\w* on)\s+(?-i:[A-Z`])",
        rf"\bour {_OURS}\s+(?:is|are|uses|runs|lives)\b",
        rf"\bi (?:have|'ve got|own) (?:a|an|two|three|four|\d+) (?:\w+ )?{_KIN}s? ?(?:named|called)\b",
    ),
    _cue(
        MemoryType.FACT,
        0.7,
        rf"{_HAVE}(?:got (?:married|engaged|divorced|promoted|hired|laid off)|moved (?:to|from|in with)|adopted)\b",
        rf"{_HAVE}(?:(?:started|opened|launched|own|run|sold|closed) (?:my|our) own|quit my job|lost my job)\b",
        rf"{_HAVE}(?:started (?:a new job|working (?:at|for|as)|college|university)|graduated|retired|was diagnosed)\b",
        r"\bi(?:'ve| have) (?:been|had|lived|known|worked|played)\b.{3,80}\b(?:for|since) (?:\d+|two|three|four|five|"
        r"six|seven|eight|nine|ten|many|over|about|almost)\b",
        rf"\bi(?:'m| am) (?:a|an) (?!{_NO_TRADE})[\w-]+(?: [\w-]+)?(?: (?:at|in|for|by|from|who|and)\b|[.!]?$)",
    ),
    _cue(
        MemoryType.PREFERENCE,
        0.9,
        rf"{_OPENING}(?:always|never)\s+(?!\w+(?:ed|ing)\b|(?:been|had|saw|say|give|here|mind|up|good|happy)\b)\w",
        at_work_only=True,
    ),
    _cue(
        MemoryType.PREFERENCE,
        0.8,
        rf"{_OPENING}we (?:always|never) (?!had|did|saw|went|got|came|knew|made|said|thought|met|found|\w+ed\b)\w",
        r"^wir \w+ (?:\S+ )?(?:immer|nie|niemals)\b|^(?:nous|on) \S+ (?:toujours|jamais)\b|^(?:siempre|nunca) \w+mos\b",
        at_work_only=True,
    ),
    _cue(
        MemoryType.DECISION,
        0.8,
        rf"{_WHY}.*\b(?:decided (?:to|on|that|against)|we chose|settled on|agreed (?:to|on|that))\b",
        rf"{_WHY}.*\b(?:let's|we'll|we will|we're) {_CHOOSE}\b",
        rf"{_WHY}.*\b(?:switched|moved|migrated) from .{{1,40}} to\b",
        by_user_only=False,
        at_work_only=True,
    ),
    _cue(
        MemoryType.DECISION,
        0.7,
        rf"{_OPENING}(?:(?:let's|let us|we'll|we will|we're) {_CHOOSE}|go with|(?:we|i)(?:'ve| have)? decided)\b",
        rf"{_WHY}{_OPENING}(?:let's|let us|we'll|we will) \w+ \S.*\b(?:instead of|rather than)\b",
        r"^decision: .{8,}|(?:决定|決定)(?:使用|采用|用|する|した)|我们(?:就)?用",
        at_work_only=True,
    ),
    _cue(
        MemoryType.LEARNING,
        0.75,
        r"\b(?:root cause|real (?:cause|problem|issue|culprit))\b.{0,40}\b(?:is|was)\b",
        r"^root cause: (?!why|what|how).{20,}",
        r"\bthe (?:cause|culprit|bug|trick) (?:is|was|turned out)\b.{20,}",
        r"(?:^|[,;:] |\bit )turn(?:s|ed) out (?:that |to be |the |it ).{15,}",
        r"\b(?:i|we) (?:learned|learnt|realized|realised|found out) that\b|\b(?:is|was) caused by\b",
        r"原因(?:是|は)|根本原因",
        by_user_only=False,
        at_work_only=True,
    ),
)
# For a statement that matches no cue but shows enough other signs.
_NOTED = Cue(MemoryType.FACT, 0.7, by_user_only=True, at_work_only=False, pattern=re.compile(""))
# The cues by who speaks and whether work is done.
_APPLYING = {
    (by_user, working): tuple(
        cue for cue in CUES if (by_user or not cue.by_user_only) and (working or not cue.at_work_only)
    )
    for by_user in (True, False)
    for working in (True, False)
}
_PASSING = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|right now|this (?:week|morning|evening|afternoon|time)|for now|"
    r"at the moment|currently|just now)\b"
    r"|\b(?:maybe|perhaps|might|not sure|i guess|i wonder|if|what if|let me|would you|could you|can you|do you)\b",
    re.IGNORECASE,
)
_OF_USER = frozenset({MemoryType.PREFERENCE, MemoryType.FACT})
_ORDER = 0.9  # importance of what is asked for in so many words
_LECTURES = 2.5  # times the length of the user's messages
_SHORTEST = 3  # a statement with fewer content words says too little to last …
_SHORTEST_OF_SELF = 2  # … the limit for what users are, like, want or have decided: "I prefer tea."
_OF_SELF = 0.75  # importance of such a statement
_LONGEST = 320  # characters; a longer text is not a single statement
# "Remember the rule on that page" says where the rule is, not what it is.
_ELSEWHERE = re.compile(
    r"^(?!.*\b(?:is|are|was|were|must|should|needs?)\b)[^:,;]*\bremember (?:the|my|our)\b[^:,;]*\b"
    r"(?:above|below|(?:on|in|from|at|behind|under) (?:that|this|the (?:linked|next|same))(?: web)? ?"
    r"(?:page|site|link|url|file|document|doc|article|post|thread|issue|message|image|screenshot))\W*$",
    re.IGNORECASE,
)
_NAMES = re.compile(r"\s[A-Z][\w+#.-]+|\w\d|\d\w|\w_\w")  # the object of a decision: "Let's use Redis."


def find_cue(sentence: str, *, by_user: bool, working: bool, message: str = "") -> Cue | None:
    """Return the cue that shows that `sentence` lasts; None for most sentences.

    `message` is the whole message of a user to a chat assistant. With it, a sentence without a cue lasts if enough
    other signs show it.
    """
    cues = _APPLYING[by_user, working]
    if not cues or not _is_statement(sentence):
        return None
    plain = sentence.replace("’", "'")  # noqa: RUF001
    own = lasting_model.drop_quotations(plain) if by_user else plain
    found = next((cue for cue in cues if cue.pattern.search(own) and _stands(plain, cue)), None)
    if found is None:
        return _NOTED if by_user and message and lasting_model.lasts(plain, message) else None
    may_pass = found.type in _OF_USER and found.importance < _ORDER
    return None if may_pass and lasting_model.is_at_hand(plain) else found


def _is_statement(sentence: str) -> bool:
    is_whole = len(sentence) <= _LONGEST and not sentence.endswith(":")
    return is_whole and not is_question(sentence) and not _ELSEWHERE.search(sentence)


def _stands(sentence: str, cue: Cue) -> bool:
    told = sum(1 for key in words.list_content_words(sentence) if key not in words.CHATTER_KEYS)
    if cue.importance >= _ORDER:
        return told >= _SHORTEST_OF_SELF
    is_plain = cue.by_user_only and (cue.importance >= _OF_SELF or cue.type is MemoryType.DECISION)
    least = _SHORTEST_OF_SELF if is_plain else _SHORTEST
    if is_plain and cue.type is MemoryType.DECISION and _NAMES.search(sentence):
        least = 1
    return told >= least and not _PASSING.search(sentence)


def is_lecturing(own: Iterable[str], other: Iterable[str]) -> bool:
    """Return True if an assistant's messages are so much longer than the user's that it works for them or teaches.

    In a conversation of equals, statements are stories, not decisions or lessons, and both speakers weigh the same.
    """
    user, assistant = [len(text) for text in own] or [1], [len(text) for text in other] or [0]
    return sum(assistant) / len(assistant) > _LECTURES * sum(user) / len(user)
