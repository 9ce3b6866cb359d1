"""Recognise a text of a working session by its wording: narration, an offer, a wish, a quotation."""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise

from memoryd.jobs import signals
from memoryd.jobs.pieces import pair_answers
from memoryd.ledger import steering, unfinished
from memoryd.offline import lasting, lasting_model, replacement, words
from memoryd.offline.cues import CUES, WORK_CUES
from memoryd.offline.sentences import is_question, split_sentences
from memoryd.offline.statements import ConversationMessage
from memoryd.text.sentences import split
from memoryd.tiers.session_summary import Section

_LONGEST_ANSWER = 600  # characters; a longer sentence is not an answer to the message before
_FEWEST_TURNED = 3  # a changed wish has at least this many content words
# As the readers of transcripts write it.
_CHOICE = re.compile(r'asked "([^"]*[?\uff1f])", chose "(.+)"', re.DOTALL)
_FEWEST_CONFIRMED = 6  # a question that is answered by "yes" says what is decided if it has this many content words
_FEWEST_QUOTED = 4  # two people do not write the same sentence by chance if it has this many content words


def is_doubtful(text: str) -> bool:
    """Return True if an assistant's text is a guess, an exclamation, or an account of its current step."""
    return any(cue.search(text) for cue in (WORK_CUES["hedges"], WORK_CUES["exclaims"])) or is_progress(text)


def is_progress(text: str) -> bool:
    """Return True if an assistant's sentence is about its current step."""
    return WORK_CUES["progress"].match(text.lower().replace("’", "'")) is not None  # noqa: RUF001


def is_idle(text: str) -> bool:
    """Return True if an assistant's sentence is about its own activity: narration, offer, question or list heading."""
    return (
        is_offered(text)
        or text.rstrip().endswith((":", "："))  # noqa: RUF001
        or narrates(text)
        or WORK_CUES["plans"].match(text) is not None
    )


def narrates(text: str) -> bool:
    """Return True if an assistant's sentence acknowledges something or tells a step, but no cause and no open point."""
    rest = (signals.after_assent(text) or "").strip()
    is_step = any(cue.match(one) for cue in (CUES["process"], CUES["steps"]) for one in (text, rest))
    is_step = is_step or is_progress(rest) or signals.says_nothing(text)
    return is_step and not (is_question(text) or WORK_CUES["cause"].search(text) or unfinished.is_open(text))


def is_offered(text: str) -> bool:
    """Return True if an assistant's text asks or offers something; at the end of a session, nobody has answered it."""
    return is_question(text) or WORK_CUES["offers"].search(text) is not None


def is_recommended(text: str) -> bool:
    """Return True if an assistant's sentence recommends something; a line that only introduces a list does not."""
    return WORK_CUES["advises"].search(text) is not None and not text.rstrip().endswith((":", "："))  # noqa: RUF001


def is_choice(text: str) -> bool:
    """Return True if a user's message is a choice in a dialog, whose question is no order of the assistant.

    A program's own confirmations, such as "Create new file?", are none.
    """
    found = _CHOICE.fullmatch(text.strip())
    if found is None or steering.is_instruction(found[1]):
        return False
    chosen = set(words.list_content_words(found[2])) - words.CHATTER_KEYS
    return bool(chosen) or len(words.list_content_words(found[1])) >= _FEWEST_CONFIRMED


def just_agrees(text: str, keys: AbstractSet[str]) -> bool:
    """Return True if a user's message agrees, and adds no content words besides `keys`."""
    rest = signals.after_assent(text)
    if rest is None or is_question(text) or WORK_CUES["limits"].search(rest) or WORK_CUES["thanks"].match(text):
        return False
    said = frozenset(words.list_content_words(rest)) - words.CHATTER_KEYS
    return said <= keys if said else not rest.strip(" .!")


def is_pending(text: str) -> bool:
    """Return True if an assistant's text announces something, or says that a task is still to be done."""
    return WORK_CUES["pending"].search(text.replace("’", "'")) is not None  # noqa: RUF001


def is_outdated_test(text: str) -> bool:
    """Return True if a text reports the result of tests without a cause."""
    return WORK_CUES["tested"].search(text) is not None and WORK_CUES["cause"].search(text) is None


def steers(text: str) -> bool:
    """Return True if a user's text says what they want; a mere question does not."""
    if turns_mind(text):
        return not is_question(text) and len(words.list_content_words(text)) >= _FEWEST_TURNED
    told = (WORK_CUES["inquires"].split(one)[0] for one in split_sentences(text))
    return any(
        WORK_CUES["steers"].search(one)
        and not WORK_CUES["muses"].search(one)
        and not (is_question(one) and WORK_CUES["wonders"].search(one))
        for one in told
    )


def read_answer(said: Sequence[str]) -> tuple[bool, frozenset[str]]:
    """Return True if a user's first sentences reject the preceding message, and the content words that they deny."""
    first = [text for text in said if len(text) <= _LONGEST_ANSWER]
    if any(map(WORK_CUES["settles"].search, first)):
        return False, frozenset()
    denied = (text for text in first if replacement.denies(text) and not WORK_CUES["forbids"].match(text))
    return turns_mind(" ".join(first)), frozenset(words.list_content_words(" ".join(denied))) - words.CHATTER_KEYS


def is_joke(text: str) -> bool:
    """Return True if a user's text is a joke; a text that also contains a rule is not a joke."""
    plain = WORK_CUES["jokes"].sub("", text).lstrip(" ,;:.!")
    is_rule = any(lasting.find_cue(one, by_user=True, working=True) for one in split_sentences(plain))
    return lasting_model.takes_itself_back(text) or (plain != text and not is_rule)


def turns_mind(text: str) -> bool:
    """Return True if a user's text begins by rejecting the preceding message, or by changing an earlier wish."""
    turns = WORK_CUES["rejects"].match(text) or WORK_CUES["retracts"].match(text)
    return turns is not None and not WORK_CUES["settles"].search(text)


def find_mark(text: str) -> Section | None:
    """Return the section that a mark such as `@decision` names, or None if `text` has no such mark."""
    if WORK_CUES["decision mark"].search(text):
        return Section.DECIDED
    if WORK_CUES["finding mark"].search(text):
        return Section.FOUND
    return Section.STATE if WORK_CUES["goal mark"].search(text) else None


def find_echoes(said: Sequence[ConversationMessage]) -> dict[str, set[int]]:
    """Return, by message id, the numbers of the user's sentences that quote an earlier message of the assistant."""
    told: set[tuple[str, ...]] = set()
    found: dict[str, set[int]] = {}
    for one in said:
        keys = {part.number: tuple(words.list_content_words(part.text)) for part in one.sentences}
        if one.by_user:
            found[one.id] = {number for number, own in keys.items() if len(own) >= _FEWEST_QUOTED and own in told}
        else:
            told |= set(keys.values())
    return found


def pair_all(said: Sequence[ConversationMessage]) -> dict[str, dict[int, str]]:
    """Return the numbered questions that each message of the user answers, by its id and the number of a sentence."""
    pairs = ((before, one) for before, one in pairwise(said) if one.by_user and before.is_answer)
    return {one.id: pair_answers(before.text, split(one.text)) for before, one in pairs}
