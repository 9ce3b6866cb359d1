"""Answer the second reader's questions by cues: do a person's words last, and which class has a memory?

In doubt, words do not last, and a memory counts as a rule, which only the user's words may change.
"""

import re

from memoryd.jobs.sleep import CORE_CLASSES
from memoryd.ledger import steering
from memoryd.ledger.floor import TokenKind, find_tokens
from memoryd.ledger.lane import MemoryClass
from memoryd.offline import lasting, lasting_model, words
from memoryd.offline.cues import CUES, WORK_CUES
from memoryd.offline.sentences import is_question, split_sentences
from memoryd.text.content import strip_label
from memoryd.text.word_lists import list_words

# Beginnings of words in headings, for each class; the first class that matches counts.
_OF_HEADING = {
    kind: re.compile("|".join(list_words(f"headings of {kind}")), re.IGNORECASE)
    for kind in (MemoryClass.RULE, MemoryClass.PERSON, MemoryClass.LESSON, MemoryClass.PROJECT)
}
_NAMED = re.compile(r"[^\W\d_][\w'.-]*(?: [A-Z]\w+)?:\s")  # the name before a message in a conversation between people
_FEWEST_OF_LESSON = 5  # content words
_THINGS = frozenset({TokenKind.MARK, TokenKind.URL, TokenKind.QUOTE})
_SELF = re.compile(r"\b(?:i|i'm|my|me|ich|mein\w*|je|mon|ma|yo|mi)\b|[我私僕]|\b(?:я|мой|моя)\b", re.IGNORECASE)


class CueJudge:
    """Answer, by wording alone, the questions that a second reader would answer."""

    def stands(self, text: str) -> bool:
        """Return True if a cue shows that a person's words should apply in later sessions."""
        said = strip_label(text)
        lasts = any(lasting.find_cue(one, by_user=True, working=True) for one in split_sentences(said))
        return lasts and not lasting_model.takes_itself_back(said)

    def asks(self, text: str) -> bool:
        """Return True if a user's words ask an assistant for something and none of them lasts."""
        said = strip_label(text)
        parts = [] if _NAMED.match(said) else split_sentences(said)
        asked = sum(is_question(one) or CUES["order"].search(one) is not None for one in parts)
        lasts = any(lasting.find_cue(one, by_user=True, working=True, message=said) for one in parts)
        return asked > 0 and not lasts

    def kind(self, text: str, heading: str = "", *, is_report: bool = False) -> MemoryClass:
        """Return the class of a text: by an order, by its heading, or by its wording; a rule by default.

        In the assistant's report of its work (`is_report`), "never" usually says how things are. So it makes no rule
        there, unless the text also orders, obliges or permits something.
        """
        said = strip_label(text)
        is_told = steering.is_order(said) or CUES["obliges"].search(said) is not None
        if (is_told if is_report else steering.is_instruction(said)) or steering.is_preference(said):
            return MemoryClass.RULE
        if found := self.kind_below(heading):
            return found
        cue = lasting.find_cue(said, by_user=False, working=True)
        if cue is not None:
            return CORE_CLASSES.get(cue.type) or MemoryClass.RULE
        return _read_kind(said, is_report=is_report)

    def kind_below(self, heading: str) -> MemoryClass | None:
        """Return the class of the bullets below a heading, or None if the heading does not name one."""
        return next((kind for kind, cue in _OF_HEADING.items() if heading and cue.search(heading)), None)


def _read_kind(said: str, *, is_report: bool) -> MemoryClass:
    """Return the class of a statement without other cues, by the people and things that it names."""
    names_thing = any(one.kind in _THINGS for one in find_tokens(said))
    # In a report that names things of the project, "the user" and "your" are of the software.
    people = CUES["persons"] if is_report and names_thing else CUES["people"]
    if people.search(said):
        return MemoryClass.PERSON
    if names_thing:
        return MemoryClass.PROJECT
    if _SELF.search(said):
        return MemoryClass.PERSON
    tells = CUES["why"].search(said) or (is_report and not CUES["persons"].search(said) and _declares(said))
    return MemoryClass.LESSON if tells else MemoryClass.RULE


def _declares(said: str) -> bool:
    """Return True if a statement of some length says what was done, or how a thing is or was."""
    is_long = len(words.list_content_words(said)) >= _FEWEST_OF_LESSON
    return is_long and any(cue.search(said) for cue in (WORK_CUES["done"], CUES["declares"]))
