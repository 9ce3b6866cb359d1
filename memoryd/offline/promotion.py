"""Choose the statements of daily files that last, with the reason for each.

The signs are explicit. An entry has the wording of a wish, decision, fact or lesson (`lasting`). Or the user says that
something no longer holds (`replacement`), asks to "remember" it, or writes by hand a line with "always" or "never".
Reports of tools and other agents are never chosen. Neither are open tasks, or wishes that an agent's own tools wrote
into the file.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from memoryd.jobs.job import MemoryType, QuotedPiece
from memoryd.ledger import steering, unfinished
from memoryd.offline import lasting, lasting_model, replacement, words, work_texts
from memoryd.offline.cues import CUES
from memoryd.offline.sentences import NumberedSentence, is_question, number_sentences
from memoryd.text import normal
from memoryd.text.content import split_question, strip_label
from memoryd.text.neutral import neutralize
from memoryd.text.sentences import quote_around

USER, HAND, SAVED, ASSISTANT, AGENT = "user", "hand", "saved", "assistant", "agent"
_OWN = frozenset({USER, HAND, SAVED})
SAID = _OWN | {ASSISTANT, AGENT}
LONGEST = 400  # characters; a longer text is not a memory
_SPOKEN = re.compile(r"^([^\W\d_][^\W\d_'’.-]*(?: [^\W\d_][\w'’.-]*){0,2}):\s+(?=\S)")  # noqa: RUF001
_REPORTED = re.compile(r"^(?:Report|Changed|Failed)\b:?", re.IGNORECASE)
_OPEN = re.compile(r"^(?:to-?do|next steps?|open|remaining|pending)\b|\bto-?do lists?\b", re.IGNORECASE)
_OF_STANDING = 0.8
_OF_CHANGE = 0.75
_OF_SAVED = 0.7  # a person who saves a note wants it kept, but rules and changes come first
_LEAST_RATING = 0.3
_UNNAMED = frozenset({"", "User", "Assistant"})
_FEWEST_WORDS = 3  # a statement needs this many content words

_POLITE = frozenset(map(words.key_of, ("please", "kindly", "bitte", "danke", "merci")))

Key = tuple[str, ...]


class OfflineEntry(NamedTuple):
    """Hold one entry of a daily file."""

    id: str  # "d7"
    origin: str
    day: str  # "2026-11-22"
    speaker: str  # "User", a name, or empty
    text: str  # without the speaker
    asked: str  # the question in the brackets " (asked: …)"; empty without one
    sentences: tuple[NumberedSentence, ...]

    @property
    def by_user(self) -> bool:
        """Return True if these are the user's words, from a session, written by hand or saved by command."""
        return self.origin in _OWN

    def tell_words(self, text: str) -> str:
        """Return words of the entry as the text of a memory, with their speaker."""
        return neutralize(f"{self.speaker}: {text}" if self.speaker else text)

    def quote_sentence(self, one: NumberedSentence) -> str:
        """Return a sentence as the text of a memory; a sentence of the user comes with its context, copied whole."""
        words_of = quote_around(self.text, (one.number,)) if self.by_user else one.text
        return self.tell_words(words_of if len(words_of) <= LONGEST else one.text)


class Offer(NamedTuple):
    """Hold a text that could become a memory."""

    text: str
    cites: tuple[str, ...]
    type: MemoryType
    importance: float  # 0..1
    day: str  # the day on which it was said


# Statements that say the same, each with its cue or None.
_Sayings = list[tuple[OfflineEntry, NumberedSentence, "lasting.Cue | None"]]


def read_entries(material: Iterable[QuotedPiece]) -> list[OfflineEntry]:
    """Return the entries that may contain something lasting, without reports and retracted messages."""
    found = []
    for quoted in material:
        is_left_out = _REPORTED.match(quoted.text) or lasting_model.takes_itself_back(quoted.text)
        if quoted.origin in SAID and not is_left_out:
            spoken = _SPOKEN.match(quoted.text)
            text, question = split_question(quoted.text[spoken.end() if spoken else 0 :])
            day = (quoted.at or "")[:10]
            speaker = spoken[1] if spoken else ""
            found.append(
                OfflineEntry(quoted.id, quoted.origin, day, speaker, text, question, tuple(number_sentences(text)))
            )
    return found


def is_open(text: str) -> bool:
    """Return True if `text` is an open task, which belongs to the day and not to the core."""
    return unfinished.is_left(text) or _OPEN.search(text) is not None or CUES["errand"].search(text) is not None


def is_working(given: Sequence[OfflineEntry], *, reported: bool) -> bool:
    """Return True if an assistant works for the user.

    It does if tools reported something (`reported`), or if it says far more than the user.
    """
    own = [one.text for one in given if one.by_user]
    return reported or lasting.is_lecturing(own, [one.text for one in given if one.origin == ASSISTANT])


def is_talk(given: Sequence[OfflineEntry]) -> bool:
    """Return True if the entries are a conversation: speakers have names, or the user and somebody else speak."""
    said = [one for one in given if one.origin in {USER, ASSISTANT}]
    return len({one.by_user for one in said}) > 1 or any(one.speaker not in _UNNAMED for one in said)


def type_of(entry: OfflineEntry, text: str, *, working: bool) -> MemoryType:
    """Return the type of a text of the entry by its wording; the default is a fact."""
    cue = _cue_of(entry, text, working=working)
    return cue.type if cue else MemoryType.FACT


def _cue_of(entry: OfflineEntry, text: str, *, working: bool) -> lasting.Cue | None:
    # Speakers without a name talk with an assistant, and then decisions count as in work.
    return lasting.find_cue(text, by_user=entry.by_user, working=working or entry.speaker in _UNNAMED)


def key_of(text: str) -> Key:
    """Return a key that is equal for texts that say the same: their content words in order, without small talk."""
    said = strip_label(text)
    found = tuple(key for key in words.list_content_words(said) if key not in words.CHATTER_KEYS and key not in _POLITE)
    denial = ("not",) if replacement.denies(said) else ()
    return (*denial, *found) if len(found) >= _FEWEST_WORDS else (normal.normalize(text),)


def list_offers(given: Sequence[OfflineEntry], known: AbstractSet[str], *, working: bool) -> list[Offer]:
    """Return the lasting statements of the entries, one offer for all that say the same, in order of first mention.

    Args:
        given: the entries, oldest first.
        known: the sentences that the core already holds, in the normal form of duplicates.
        working: True if an assistant works for the user.
    """
    found: dict[tuple[str, Key], _Sayings] = defaultdict(list)
    for entry in given:
        for one in () if entry.asked else entry.sentences:
            words_of = {normal.normalize(entry.tell_words(one.text)), normal.normalize(entry.quote_sentence(one))}
            if known.isdisjoint(words_of) and _is_told(entry, one.text):
                speaker = entry.speaker if entry.speaker not in _UNNAMED or not entry.by_user else ""
                found[speaker, key_of(one.text)].append((entry, one, _cue_of(entry, one.text, working=working)))
    made: dict[str, Offer] = {}
    for offer in filter(None, map(_offer, found.values())):
        held = made.get(offer.text)
        if held is None or held.importance < offer.importance:
            cites = (*(held.cites if held else ()), *offer.cites)
            made[offer.text] = offer._replace(cites=tuple(dict.fromkeys(cites)))
    return list(made.values())


def offer_told(entry: OfflineEntry, rating: float, known: AbstractSet[str]) -> Offer | None:
    """Return an offer of a whole entry by its rating from 0 to 1, or None if the entry is unfit.

    An entry is unfit if its rating is low, if somebody else than the user wrote it, or if it is long. It is also unfit
    if it is a request, an open task or the answer to a question, or if it contains a question or a sentence in `known`
    (in the normal form of duplicates).
    """
    said = {normal.normalize(text) for one in entry.sentences for text in (one.text, entry.tell_words(one.text))}
    is_asked = is_open(entry.text) or any(is_question(text) for _, text, _ in entry.sentences) or bool(entry.asked)
    is_unfit = rating < _LEAST_RATING or entry.origin != USER or len(entry.text) > LONGEST
    if is_unfit or is_asked or steering.is_instruction(entry.text) or not known.isdisjoint(said):
        return None
    # Half of the rating is less than the importance of every explicit sign.
    return Offer(entry.tell_words(entry.text), (entry.id,), MemoryType.FACT, rating / 2, entry.day)


def _is_told(entry: OfflineEntry, text: str) -> bool:
    is_doubtful = entry.origin == ASSISTANT and work_texts.is_doubtful(text)
    return not (is_doubtful or is_open(text) or is_question(text)) and len(text) <= LONGEST


def _offer(said: _Sayings) -> Offer | None:
    """Return one offer for statements that say the same, in the user's last words.

    Return None if no sign shows that they last.
    """
    entry, one, _ = next((one for one in reversed(said) if one[0].by_user), said[0])
    text = entry.quote_sentence(one)
    cites = tuple(
        dict.fromkeys(f"{held.id}.{other.number}" for held, other, _ in said if held.quote_sentence(other) == text)
    )
    cue = max((cue for _, _, cue in said if cue), key=lambda cue: cue.importance, default=None)
    if cue:
        return Offer(text, cites, cue.type, cue.importance, entry.day)
    if entry.origin == SAVED and len(key_of(one.text)) >= _FEWEST_WORDS:
        return Offer(text, cites, MemoryType.FACT, _OF_SAVED, entry.day)
    if entry.origin == HAND and CUES["standing"].search(one.text.lower()) and len(key_of(one.text)) >= _FEWEST_WORDS:
        return Offer(text, cites, MemoryType.PREFERENCE, _OF_STANDING, entry.day)
    if entry.by_user and replacement.find_ended(one.text):
        return Offer(text, cites, MemoryType.FACT, _OF_CHANGE, entry.day)
    return None
