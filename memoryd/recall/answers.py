"""Rate, by its form, how well a sentence can answer a question.

A sentence with a decision, a finding or a reason rates higher than one that only asks or announces the next step. These
signs work in any conversation. A sentence without such a sign keeps its rank. If the question asks for a cause, a
number or a place, a sentence that has one rates higher.
"""

import re
from collections.abc import Sequence

from memoryd.recall.documents import Speaker
from memoryd.text.word_lists import list_words
from memoryd.tiers.session_summary import BY_USER, HEADINGS, Section

ASKS = 0.7  # factor for a sentence that asks or orders …
WONDERS = 0.85  # … for a question of the user, because other requests of the user state what the user wants …
ANNOUNCES = 0.6  # … for a sentence that announces the next step …
GUESSES = 0.85  # … for an uncertain one …
TELLS = 1.1  # … for one with a decision or a reason …
FITS = 1.3  # … and for one with the kind of answer that the question asks for
NARRATES = 0.75  # factor for a message that announces its next step, because the result comes later
_NOT_ASKED = 0.25  # factor for texts of others, if users ask about themselves …
_REQUEST_ONLY = 0.5  # … and for the user's words, if the question is about an answer of the agent
_LONG = 600  # characters; a longer answer has words of almost any question …
_LENGTHY = 0.2  # … so its score is reduced by this power of its relative length
_OF_SECTION = {
    Section.ASKED: ASKS, Section.DECIDED: 1.2, Section.FOUND: 1.1, Section.STATE: 1.1, Section.FAILED: 1.0,
    Section.OPEN: 0.9, Section.FILES: 0.8,
}  # fmt: skip
_OPENING = (
    r"^\W*(?:(?:ok(?:ay)?|hey|hi|so|and|now|next|first|also|then|alright|great|good|perfect|yes|right)[,.!]?\s+)*"
)
_END_OF_QUESTION = r"[?\uff1f]\W*$|吗[。.]?$"
QUESTION = re.compile(_END_OF_QUESTION)
_REQUEST = re.compile(
    f"{_END_OF_QUESTION}|"
    + _OPENING
    + r"(?:\w+,\s+)?(?:please|can you|could (?:you|we)|would you|will you|should (?:we|i)|do you|help me|"
    r"i(?:'d| would) like you to|bitte|kannst du|könntest du|peux-tu|puedes|por favor|请|帮我|能不能|可以帮)",
    re.IGNORECASE,
)
_ORDER = re.compile(  # Only the user's order: an assistant's advice has the same words, and may be the answer.
    _OPENING
    + r"(?:make sure|we (?:need|should)|(?:read|check|create|add|fix|implement|investigate|look|find|show|explain"
    r"|write|run|try|continue|review|update|remove|change|use)\b(?! (?:is|are|was|were)\b))",
    re.IGNORECASE,
)
_ANNOUNCEMENT = re.compile(
    r"[:\uff1a]\s*$|" + _OPENING + r"(?:let me\b|let's (?:check|see|look|try|run|test|verify)\b|i'll\b|i will\b|"
    r"i'm going to\b|i need to\b|i'm (?:checking|looking|running|reading)\b|ich werde\b|je vais\b|voy a\b|"
    r"我将|我会|我先|让我|接下来)",
    re.IGNORECASE,
)
_GUESS = re.compile(
    r"\b(?:likely|may(?:be)?|might|perhaps|probably|possibly|not sure|i (?:think|guess|suspect|wonder)|seems?|"
    r"vielleicht|wahrscheinlich|peut-être|quizás?)\b|可能|也许|大概",
    re.IGNORECASE,
)
_CAUSE = re.compile(
    r"\b(?:because|since|due to|so that|caused by|root cause|the reason|otherwise|turns out|that's why|therefore|"
    r"the (?:real |actual )?(?:issue|problem|culprit|trick|bug|cause) (?:is|was)|cannot|can't|doesn't|didn't|never|"
    r"fails? (?:when|if|on)|instead of|weil|damit|sonst|denn|parce que|porque|perché)\b"
    r"|因为|因為|由于|原因|因此|所以|避免|ため|ので",
    re.IGNORECASE,
)
_CHOICE = re.compile(
    r"\b(?:decided|rather than|chose|chosen|agreed|prefer(?:s|red)?|switched (?:to|from)|no longer|replaced|removed|"
    r"must|always|entschieden|stattdessen|décidé|decidido)\b|统一|改为|移除|保留|采用|不再|决定|必须",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d|\b(?:no|none|one|two|three|four|five|six|seven|eight|nine|ten|dozens?|both)\b", re.IGNORECASE)
_PLACE = re.compile(r"\w/\w|\w\.[a-z]{1,5}\b|://|\b(?:in|at|under|below|near|from|inside) (?:the )?[`A-Z]")
_TIME = re.compile(
    r"\b\d{1,2}:\d\d\b|\b\d{4}\b|\b\d{1,2}(?:st|nd|rd|th)?\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b"
    r"|\b(?:yesterday|today|tonight|tomorrow|last|next|ago|week(?:end)?|month|year)\b|昨|今天|明天|去年|[年月日]",
    re.IGNORECASE,
)
_PERSON = re.compile("|".join(list_words("words of the user")), re.IGNORECASE)
# Only the past tense, because in a search for advice the user's words count.
_AGENT = re.compile("|".join(list_words("words of the assistant's answers")), re.IGNORECASE)
# Factors for the call of a tool, its output, and messages of the agent program.
_OF_VOICE = {Speaker.CALL: 0.3, Speaker.OUTPUT: 0.6, Speaker.SYSTEM: 0.7}
_WANTED = tuple(
    (re.compile(asked, re.IGNORECASE), answer)
    for asked, answer in (
        (r"\b(?:why|how come|reason|caused?|warum|wieso|pourquoi|por qué|perché)\b|为什么|为何|原因|なぜ", _CAUSE),
        (r"\bhow (?:many|much|long|often)\b|\bwie ?viele?\b|\bcombien\b|\bcuánt|多少|几个|几次", _NUMBER),
        (r"^\W*(?:where|which (?:file|folder|path)|wo|wohin|où|dónde|dove)\b|哪里|在哪|どこ", _PLACE),
        (r"^\W*(?:when|since when|wann|quand|cuándo|quando)\b|什么时候|何时|いつ", _TIME),
    )
)


def list_wanted(question: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of answers to this kind of question; empty for other kinds."""
    return tuple(answer for asked, answer in _WANTED if asked.search(question))


def weigh_form(sentence: str, wanted: Sequence[re.Pattern[str]] = (), *, by_user: bool = False) -> float:
    """Return the factor of a sentence as an answer, by its form.

    Args:
        sentence: the sentence.
        wanted: the patterns that `list_wanted` returns for the question.
        by_user: the user wrote the sentence; a request of the user states what the user wants, so it can be an answer.
    """
    bare = sentence.strip().removeprefix("- ").removeprefix(BY_USER)
    if _REQUEST.search(bare) or (by_user and _ORDER.search(bare)):
        return (WONDERS if QUESTION.search(bare) else 1.0) if by_user else ASKS
    if _ANNOUNCEMENT.search(bare):
        return ANNOUNCES
    sure = GUESSES if _GUESS.search(bare) else 1.0
    if any(pattern.search(bare) for pattern in wanted):
        return FITS * sure
    return sure * TELLS if _CAUSE.search(bare) or _CHOICE.search(bare) else sure


def find_asked(question: str) -> Speaker | None:
    """Return the speaker whose words a question asks for: the agent or the person; None if it asks for neither."""
    return Speaker.AGENT if _AGENT.search(question) else Speaker.PERSON if _PERSON.search(question) else None


def weigh_end(text: str) -> float:
    """Return the factor of a whole message, which is lower if it ends in a colon and so announces its next step."""
    return NARRATES if text.rstrip()[-1:] in {":", "\uff1a"} else 1.0


def weigh_voice(voice: Speaker, asked: Speaker | None) -> float:
    """Return the factor for the author of a text.

    `asked` is the speaker whose words the question asks for. Texts that were distilled from a conversation (memories,
    facts, files) always count in full.
    """
    weight = _OF_VOICE.get(voice, 1.0)
    if asked is Speaker.PERSON and voice not in {Speaker.PERSON, Speaker.DISTILLED}:
        return weight * _NOT_ASKED
    return _REQUEST_ONLY if asked is Speaker.AGENT and voice is Speaker.PERSON else weight


def weigh_length(text: str, voice: Speaker, asked: Speaker | None) -> float:
    """Return the factor for the length of an agent's answer, because a long one has words of almost any question."""
    if voice is not Speaker.AGENT or asked is Speaker.AGENT or len(text) <= _LONG:
        return 1.0
    return float((_LONG / len(text)) ** _LENGTHY)


def weigh_section(heading: str) -> float:
    """Return the factor of a text below a heading line, such as `### Decided`."""
    section = HEADINGS.get(heading.strip())
    return 1.0 if section is None else _OF_SECTION[section]
