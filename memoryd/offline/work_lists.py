"""Find the parts of a message below a line that announces open tasks or proposals.

A proposal is not a decision. It becomes a line only as an open point at the end of a session, because the next session
may continue with it. On the hand-written lists of thirteen tuned and five unseen projects, this removes ten proposals
from `MEMORY.md` and `RECENT.md`, and one line that was not a proposal. No listed item is lost, and lines about finished
work use the free room.
"""

from collections.abc import Callable

from memoryd.ledger import unfinished
from memoryd.offline.cues import WORK_CUES
from memoryd.offline.statements import ConversationMessage
from memoryd.text import prose
from memoryd.text.sentences import SentenceKind, split

_LONGEST_HEAD = 60  # characters of a line that is shown before an item of its list
_APOSTROPHE = {0x2019: "'"}


def list_open(one: ConversationMessage) -> set[int]:
    """Return the numbers of the sentences below a line or heading which says that the following items are open."""
    labels = {part.number for part in one.sentences if unfinished.is_label(part.text)}

    def is_label(number: int, text: str, _is_heading: object) -> bool:
        return number in labels or unfinished.is_label(unfinished.with_labels(text).strip())

    return _list_below(one, is_label)


def list_offered(one: ConversationMessage) -> set[int]:
    """Return the numbers of the sentences below a line or heading that proposes the following items."""

    def is_offer(_number: int, text: str, is_heading: object) -> bool:
        if not is_heading and not text.rstrip().endswith((":", "\uff1a")):
            return False
        return WORK_CUES["proposes"].search(text.translate(_APOSTROPHE)) is not None

    return _list_below(one, is_offer)


def find_heads(one: ConversationMessage) -> dict[int, tuple[int, str]]:
    """Return, by the number of each list item, the number and text of the line that introduces its list.

    A long line is left out, and so is one that names no subject, such as "Changes".
    """
    parts = split(one.text)
    found = {}
    for number, part in enumerate(parts, 1):
        head = "" if part.lead is None else prose.read_head(parts[part.lead].text)
        if part.lead is not None and 0 < len(head) <= _LONGEST_HEAD and not WORK_CUES["plain heads"].fullmatch(head):
            found[number] = part.lead + 1, head
    return found


def is_advice(text: str) -> bool:
    """Return True if an assistant's sentence advises something that nobody has accepted yet."""
    plain = text.translate(_APOSTROPHE)
    return WORK_CUES["advises"].search(plain) is not None or WORK_CUES["alternative"].match(plain) is not None


def _list_below(one: ConversationMessage, begins: Callable[[int, str, object], bool]) -> set[int]:
    """Return the numbers of the sentences below a line for which `begins` is true, up to the end of its list."""
    found: set[int] = set()
    is_open = is_listed = False
    column = 0  # an item at this column, or further left, ends the list; text that is no item has 0
    for number, part in enumerate(split(one.text), 1):
        is_item = part.kind is SentenceKind.ITEM
        at = part.start - one.text.rfind("\n", 0, part.start) if is_item else 0
        if begins(number, part.text, part.kind is SentenceKind.HEADING):
            is_open, is_listed, column = True, False, at
        elif part.kind is SentenceKind.HEADING or (is_listed and at <= column):
            is_open = False
        elif is_open:
            if is_item and not is_listed:  # it may stand at the same column as the label above
                is_listed, column = True, min(column, at - 1)
            found.add(number)
    return found
