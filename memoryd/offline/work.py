"""Choose the lines of a session in which an assistant works, and the section of each line.

A line is one or a few whole sentences of one message. Its worth is a sum over features that exist in any such session:
the speaker, the place in the session and in the message, the amount of content, and wording that shows an outcome, a
cause or a wish.

`bench/fit_work.py` fits the weights by logistic regression to lines of 61 sessions that readers graded, and measures
them with whole sessions left out in turn. Features that did not change the ranking were dropped.

Lines are taken greedily. A line is left out if the lines taken before have most of its words.
"""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

from memoryd.jobs import signals
from memoryd.ledger import unfinished
from memoryd.offline import lasting, lasting_model, words, work_lists, work_texts
from memoryd.offline.cues import CUES, WORK_CUES
from memoryd.offline.sentences import NumberedSentence, is_question, split_sentences
from memoryd.offline.statements import REPORTER, ConversationMessage
from memoryd.offline.work_statement import LaterAnswers, WorkStatement, drop_changed, repeats
from memoryd.text import prose
from memoryd.text.word_lists import list_words
from memoryd.tiers.session_summary import Section

_LONGEST = 600  # characters of a line; longer sentences are pasted data
_FEWEST_OF_WISH = 2  # a lasting wish of the user has this many content words
OF_OPEN = 1.5  # weight of an open point in the last answer; a mere offer has no weight
_OF_OFFER = 0.6  # weight of an offer that ends the last answer, because the next session may begin with a yes
_NEAR = 8  # messages; a diagnosis farther away is about another fault, unless `_SAME_FAULT` holds
_SAME_FAULT = 0.3  # two diagnoses of one fault share this part of the first one's words
_BARE = 5  # words; a shorter answer is unclear without its question
_MANY = 10  # content words; a line with this many is clear, even if a word refers to something else
_LONGEST_FAREWELL = 6  # words; a longer sentence also says what comes next
_FEWEST_ASKED = 2  # content words; a user's message with fewer is not a request, unless it has one and …
_FEWEST_WORDS_ASKED = 4  # … at least this many words
_JOINED = 280  # characters up to which sentences of one message are joined into one line
_LONGEST_ASKED = 200  # characters of a question that is shown beside its answer
_FEWEST_CLEAR = 5  # content words; a line of an answer with this many usually names its subject
_FEWEST = 3  # an assistant's sentence needs this many content words
_MOST_OF_MESSAGE = 5  # most lines of one assistant message
_USER_SHARE = 0.6  # the share of the budget that the user's statements may take
_SHORT = 380  # words of a summary; a shorter one has no guesses, and no user's line below `_LEAST_OF_USER`
_LEAST_OF_USER = -2.0  # below are jokes and what a user only thinks about
_OF_REPORT = -0.3  # added to the weight of a subagent's lines, because the assistant usually repeats the important ones

# Weights by feature, fitted as described above, except "jokes", which was set by hand. "behind" is the share of the
# message before the line, and "last" is true for answers that the user did not reply to.
_OF_ANSWER = {
    "": -4.47, "late": 0.46, "length": 0.68, "words": 0.03, "names": 0.16, "cause": 0.39, "final": 0.42, "hedge": -0.5,
    "refuted": -0.34, "behind": -0.44, "thin": -0.58, "last": 0.61,
}  # fmt: skip
_OF_AGREED = 0.7  # added to the weight of a recommendation with which the user agrees
_OF_PASSED = -0.43  # added to the weight of an answer's line that the session may have overtaken
_OF_REQUEST = {"": -2.85, "late": 0.44, "length": 0.41, "words": 0.11, "steers": 1.0, "passed": -0.76, "jokes": -4.0}

_MENTIONS = re.compile(r"(?:@\S+(?:\s+|$))+")
# An answer chooses if it begins with A to D, or is one digit. "A" may be an article, so more must follow it.
_CHOOSES = re.compile(
    r"(?:[Oo]ption )?(?:[B-D]\b|A(?=\W*$|[.,;:!?)]|\s+(?:but|and|with|or|then|is)\b|\s*[^\x00-\x7f])|\d\W*$)"
)
_NAMES = re.compile(r"`[^`]*`|[!-~]*[/\\][!-~]*|[!-~]+\.[a-z]{1,5}\b")
_FEWEST_LETTERS = 4  # letters besides names of files and code

_OF_LAST = 20.0  # added to the weight of the last request
_OF_MARK = 10.0  # added to the weight of lines that the speaker marked as a decision, a finding or the state
_LEAST_SAID = 80  # words reserved for messages if there are long notes
_WORTH_LASTING = -0.5  # the weight from which on a line of an answer lasts, whatever its wording
_OF_STATES = frozenset(map(words.key_of, list_words("words of states")))


def choose_lines(
    said: Sequence[ConversationMessage],
    own: Mapping[str, Collection[int]],
    noted: Sequence[ConversationMessage],
    budget: int,
) -> tuple[list[WorkStatement], list[WorkStatement]]:
    """Return the best lines within `budget` words: from messages, best first, and from notes, in their order.

    Args:
        said: the messages, in order.
        own: for each message of the user, by its id, the numbers of the sentences that are their own words, not pasted.
        noted: the assistant's own notes, without sentences that memory already holds.
        budget: the words for all lines; notes get a share by their length, and the words that the messages leave.
    """
    reading = WorkReading(said, own)
    words_noted = sum(prose.count_words(one.text) for one in noted)
    share = words_noted / (words_noted + sum(prose.count_words(one.text) for one in said) + 1)
    chosen = _choose_said(reading.list_lines(), max(budget - int(share * budget), min(budget, _LEAST_SAID)))
    left = budget - sum(one.cost for one in chosen)
    told = [one for note in noted for one in reading.read_note(note)]
    taken = choose_work(told, left, chosen, len(told), _USER_SHARE)
    return chosen, [one for one in told if one in taken]


def _choose_said(found: Sequence[WorkStatement], budget: int) -> list[WorkStatement]:
    """Return the lines for messages.

    The good lines come first. While there is room, more of the user's lines follow, then more of all lines, then more
    of the answers.
    """
    found = drop_changed(found)
    worth = [one for one in found if one.weight >= 0]
    chosen = choose_work(worth, budget, (), _MOST_OF_MESSAGE, _USER_SHARE)
    if budget <= _SHORT:
        found = [one for one in found if not one.is_guess and (one.weight >= _LEAST_OF_USER or not one.by_user)]
    for rest, share, most in ((worth, 1.0, 0), (found, _USER_SHARE, _MOST_OF_MESSAGE), (found, 0.0, len(found))):
        left = [one for one in rest if one not in chosen]
        chosen += choose_work(left, budget - sum(one.cost for one in chosen), chosen, most, share)
    return chosen


def choose_work(
    found: Sequence[WorkStatement], budget: int, before: Sequence[WorkStatement], most: int, user_share: float
) -> list[WorkStatement]:
    """Return the best lines within `budget` words, best first, without lines that `before` or a taken line covers.

    At most `most` lines of one assistant message are taken. The user's lines may take `user_share` of the budget.
    """
    taken: list[WorkStatement] = []
    per_turn: Counter[str] = Counter()
    room = {True: int(budget * user_share), False: budget}
    for one in sorted(found, key=lambda one: (-one.weight, one.turn)):
        if one.cost > min(budget, room[one.by_user]) or (not one.by_user and per_turn[one.id] >= most):
            continue
        if any(repeats(one, other) for other in (*before, *taken)):
            continue
        taken.append(one)
        per_turn[one.id] += 1
        budget -= one.cost
        room[one.by_user] -= one.cost
    return taken


class WorkReading:
    """Read a session once, with the rarity of its words and the words that the user used."""

    def __init__(self, said: Sequence[ConversationMessage], own: Mapping[str, Collection[int]]) -> None:
        """Take the messages and the user's own sentences, as for `choose_lines`."""
        self._said = said
        self._own = own
        self._echoed = work_texts.find_echoes(said)
        self._answers = work_texts.pair_all(said)
        self._keys = [_collect_keys(one.sentences) for one in said]
        seen = Counter(chain.from_iterable(self._keys))
        self._rarity = {key: math.log((len(said) + 2) / (n + 0.5)) for key, n in seen.items()}
        asked = {at: _collect_keys(self._told_parts(one)) for at, one in enumerate(said) if one.by_user}
        self._last_spoken = max(asked, default=-1)
        self._announced = find_announced(said)
        self._last = _find_last_answer(said)
        self._later = LaterAnswers(said, self._keys, self._rarity)
        self._turns = self._read_turns()
        self._diagnoses = {
            at: _collect_keys([part for part in one.sentences if WORK_CUES["diagnoses"].search(part.text)])
            for at, one in enumerate(said)
            if one.is_answer and WORK_CUES["diagnoses"].search(one.text)
        }
        telling = (at for at, keys in asked.items() if self._asks_enough(at, keys) or self._is_bare_answer(at))
        self._asking = list(telling) or [-1]

    def _read_turns(self) -> dict[str, tuple[bool, frozenset[str]]]:
        """Return, by the id of each user message, what its first two sentences reject.

        The value is True if they reject the answer before it, together with the content words that they deny.
        """
        first = {one.id: [part.text for part in self._own_parts(one)[:2]] for one in self._said if one.by_user}
        return {name: work_texts.read_answer(texts) for name, texts in first.items()}

    def _own_parts(self, one: ConversationMessage) -> list[NumberedSentence]:
        """Return the user's own sentences of a message, without quotations and the headings of pasted text."""
        allowed = self._own.get(one.id)
        echoed = self._echoed.get(one.id, ())
        parts = [
            part for part in one.sentences if part.number not in echoed and (allowed is None or part.number in allowed)
        ]
        return [part for part in parts if not part.text.rstrip().endswith((":", "："))] or parts  # noqa: RUF001

    def _told_parts(self, one: ConversationMessage) -> list[NumberedSentence]:
        """Return the user's own sentences of a message, without thanks, farewells and bare mentions of files."""
        own = self._own_parts(one)
        return [part for part in own if not (_is_courtesy(part.text) or _MENTIONS.fullmatch(part.text))]

    def list_lines(self) -> list[WorkStatement]:
        """Return all possible lines, in order."""
        return [line for turn in range(len(self._said)) for line in self._read_message(turn)]

    def _read_message(self, turn: int) -> Iterator[WorkStatement]:
        """Yield the possible lines of a message."""
        one = self._said[turn]
        if one.by_user:
            yield from self._read_request(turn, one)
        elif one.is_answer:
            yield from self._read_answer(turn, one)
        else:
            for found in self._read_answer(turn, one):
                yield found._replace(section=Section.FOUND, weight=found.weight + _OF_REPORT)

    def _read_request(self, turn: int, one: ConversationMessage) -> Iterator[WorkStatement]:
        is_bare = turn == self._asking[-1] and self._is_bare_answer(turn)
        parts = self._own_parts(one) if is_bare else self._told_parts(one)
        if signals.says_nothing(" ".join(part.text for part in parts)) and not is_bare:
            return
        answers = self._answers.get(one.id, {})
        units = _join(parts, lambda before, part: answers.get(before.number) == answers.get(part.number))
        for number, unit in enumerate(units):
            question = answers.get(unit[0].number, "")
            if is_bare or question or _requests(_text_of(unit), _keys_of(_text_of(unit))):
                made = self._read_unit(turn, one, unit, question)
                # The next session continues with the last request, so it is always shown.
                is_last = turn == self._asking[-1] and not number
                yield made._replace(section=Section.ASKED, weight=made.weight + _OF_LAST) if is_last else made

    def _read_unit(
        self, turn: int, one: ConversationMessage, unit: Sequence[NumberedSentence], question: str
    ) -> WorkStatement:
        """Return a line made of some sentences of a user's message, which answer a numbered question, if any."""
        text = _text_of(unit)
        whole = f"{question} {text}".strip()
        rules = _rules(one, unit, "" if one.id in self._announced else one.text)
        asked_id, asked, is_choice = self._find_asked(turn, text, question)
        steers = rules or is_choice or work_texts.steers(text)
        # The last request counts as a request in any wording, because no answer shows that it was done.
        is_asked = turn == self._asking[-1] or (not rules and (not steers or is_question(text)))
        section = Section.ASKED if is_asked else Section.DECIDED
        # A fault that the user reported before the last request is probably gone.
        is_passed = section is Section.ASKED and self._asking[0] < turn < self._asking[-1] and _reports_fault(text)
        signs = {"steers": steers, "passed": is_passed, "jokes": work_texts.is_joke(text)}
        weight = _weigh(self._signs(turn, whole, _keys_of(whole)) | signs, _OF_REQUEST)
        if WORK_CUES["postpones"].search(text):
            section, weight, is_passed = Section.OPEN, max(weight, OF_OPEN), False
        made = self._make(turn, one, unit, text, section, weight)
        return made._replace(asked=asked, asked_id=asked_id, is_wish=steers, is_passed=is_passed)

    def _asks_enough(self, turn: int, keys: Collection[str]) -> bool:
        """Return True if a user's message with these content words says what it asks for: "commit it, I will push"."""
        is_long = prose.count_words(self._said[turn].text) >= _FEWEST_WORDS_ASKED
        return len(keys) >= (1 if is_long else _FEWEST_ASKED)

    def _is_bare_answer(self, turn: int) -> bool:
        """Return True if a user's message is short, but answers a question: "let's do 2"."""
        asked = self._find_question(turn)[1]
        # Thanks answer a question that ends the message before, but not an offer with a remark behind it.
        is_last = bool(asked) and self._said[turn - 1].sentences[-1].text == asked
        parts = self._own_parts(self._said[turn]) if is_last else self._told_parts(self._said[turn])
        return bool(asked) and 0 < prose.count_words(" ".join(part.text for part in parts)) <= _BARE

    def _find_asked(self, turn: int, text: str, question: str) -> tuple[str, str, bool]:
        """Return the id of the message that a user's text answers, what it asks, and True if the text chooses."""
        if question:
            return self._said[turn - 1].id, question, True
        asked_id, asked = self._find_choice(turn, text)
        if not asked and prose.count_words(text) <= _BARE:
            return *self._find_question(turn), False
        return asked_id, asked, bool(asked) and _CHOOSES.match(text) is not None

    def _find_question(self, turn: int) -> tuple[str, str]:
        """Return the id of the answer before a message and the question, offer or advice that the message answers.

        A question or offer is at the end of the answer. Advice may be anywhere in it, and the message must agree to it.
        Both texts are empty if there is none.
        """
        before = self._said[turn - 1] if turn else None
        parts = before.sentences if before is not None and before.is_answer else ()
        found = _list_questions(parts[-2:])
        is_bare = len(_collect_keys(found[:1])) < _FEWEST_ASKED  # such as "Agreed?"
        if is_bare and signals.after_assent(self._said[turn].text) is not None:
            found = [one for one in reversed(parts) if WORK_CUES["advises"].search(one.text)] or found
        return (before.id, found[0].text) if before and found and len(found[0].text) <= _LONGEST_ASKED else ("", "")

    def _find_choice(self, turn: int, text: str) -> tuple[str, str]:
        """Return the id of a list and the items that a text chooses from it by number; empty texts without a list."""
        chosen = WORK_CUES["chooses"].search(text)
        names = re.findall(r"\d|[A-D]", chosen[1]) if chosen else []
        for one in reversed(self._said[max(0, turn - _NEAR) : turn] if names else ()):
            items = {found[1]: found[2].strip() for found in WORK_CUES["listed"].finditer(one.text)}
            if one.is_answer and all(name in items for name in names):
                return one.id, "; ".join(items[name] for name in names)
        return "", ""

    def _read_answer(self, turn: int, one: ConversationMessage) -> Iterator[WorkStatement]:
        below, offered = work_lists.list_open(one), work_lists.list_offered(one)
        yield from self._read_agreed(turn, one)
        # A fault that the assistant fixes at once is gone when the session ends.
        acted = {part.number - 1 for part in one.sentences if CUES["process"].match(part.text)}
        parts = []
        for part in one.sentences:
            is_open = part.number in below
            is_offered = part.number in offered or work_lists.is_advice(part.text)
            offer = _OF_OFFER * (part is one.sentences[-1])
            weight = _weigh_open(part.text, offer, is_open=is_open, is_offered=is_offered)
            if weight is not None and turn == self._last:
                if _says_enough(part.text, 1 if weight else _FEWEST):
                    yield self._make(turn, one, [part], part.text, Section.OPEN, weight)
            elif not (is_open or is_offered or self._is_passing(turn, part.text)):
                parts.append(part)
        heads = work_lists.find_heads(one)
        for unit in _join(parts, _leans_on):
            text = _text_of(unit)
            if _says_enough(text, _FEWEST):
                weight = self._rate(turn, one, unit, _keys_of(text))
                made = self._make(turn, one, unit, text, self._section(turn, text), weight)
                is_guess = unit[-1].number in acted or self._is_guess(turn, text, made.keys)
                yield _put_below(made, *heads.get(unit[0].number, (0, "")))._replace(is_guess=is_guess)

    def _read_agreed(self, turn: int, one: ConversationMessage) -> Iterator[WorkStatement]:
        """Yield the only recommendation of an answer if the user's next message just agrees with it."""
        parts = [part for part in one.sentences if work_texts.is_recommended(part.text)]
        after = self._said[turn + 1] if turn + 1 < len(self._said) else None
        if len(parts) == 1 and one.is_answer and after is not None and after.by_user:
            keys = _keys_of(parts[0].text)
            asked = _collect_keys(part for part in one.sentences[-1:] if is_question(part.text))
            # A last question about something else may be what the user answers.
            is_about = len(asked) < _FEWEST_ASKED or not keys.isdisjoint(asked)
            if is_about and work_texts.just_agrees(after.text, keys):
                weight = self._rate(turn, one, parts, keys) + _OF_AGREED
                yield self._make(turn, one, parts, _text_of(parts), Section.DECIDED, weight)._replace(is_wish=True)

    def _is_passing(self, turn: int, text: str) -> bool:
        """Return True if a line holds only for the moment: narration, a label, or a task that a later answer may do."""
        is_bare = _OF_STATES.issuperset(key for key in _keys_of(_NAMES.sub("", text)) if key.isalpha())
        is_state = (is_bare and WORK_CUES["state"].search(text) is not None) or work_texts.is_outdated_test(text)
        is_over = turn != self._last and (is_state or work_texts.is_pending(text))
        return bool(unfinished.find_label(text)) or work_texts.is_idle(text) or is_over

    def read_note(self, one: ConversationMessage) -> Iterator[WorkStatement]:
        """Yield the sentences of a note that may become lines, rated as if they were in the turn before it."""
        turn = max(0, sum(_seq_of(other) < _seq_of(one) for other in self._said) - 1)
        for part in one.sentences if self._said else ():
            text, keys = _text_of([part]), _keys_of(part.text)
            # A sentence that needs its context may have lost it, because sentences of messages are left out of notes.
            is_clear = not (self._is_passing(turn, part.text) or WORK_CUES["leans"].match(text))
            # What was the state at the time of the note is outdated at the end of the session.
            is_clear &= not any(WORK_CUES[cue].search(text) for cue in ("hedges", "state", "tested"))
            if is_clear and len(keys) >= _FEWEST and len(text) <= _LONGEST:
                weight = self._rate(turn, one, [part], keys)
                yield self._make(turn, one, [part], text, self._section(turn, text), weight)

    def _make(
        self,
        turn: int,
        one: ConversationMessage,
        unit: Sequence[NumberedSentence],
        text: str,
        section: Section,
        weight: float,
    ) -> WorkStatement:
        numbers = tuple(part.number for part in unit)
        marked = work_texts.find_mark(text)
        weight += _OF_MARK if marked else 0.0
        keys = _keys_of(text)
        # A report of what was done or changed stays true.
        is_report = section is not Section.FOUND or WORK_CUES["changes"].search(text) is not None
        # The assistant often fixes a fault right after it finds it. Readers graded 88 such lines: 36 % were wrong at
        # the end of the session, and of the other lines 16 %.
        is_passed = not one.by_user and not is_report and (one.is_acted_on or self._later.overtake(turn, keys))
        weight += _OF_PASSED * is_passed
        return WorkStatement(
            turn, one.id, numbers, one.speaker, text, marked or section, keys, weight, is_passed=is_passed
        )

    def _section(self, turn: int, text: str) -> Section:
        """Return the section of a line of an answer; a state that is older than the last answer is outdated."""
        if WORK_CUES["abandoned"].search(text):
            return Section.FAILED
        if WORK_CUES["state"].search(text):
            return Section.STATE if turn == self._last else Section.DECIDED
        if turn == self._last and (WORK_CUES["done"].search(text) or work_texts.is_pending(text)):
            return Section.STATE
        if WORK_CUES["cause"].search(text):
            return Section.FOUND
        return Section.DECIDED if WORK_CUES["done"].search(text) or WORK_CUES["chosen"].search(text) else Section.FOUND

    def _is_guess(self, turn: int, text: str, keys: frozenset[str]) -> bool:
        is_hedged = WORK_CUES["hedges"].search(text) is not None
        return is_hedged or self._is_rejected(turn, keys) or self._is_overtaken(turn, text, keys)

    def _is_rejected(self, turn: int, keys: frozenset[str]) -> bool:
        """Return True if the user's next message rejects the answer, or denies something that a line of it says.

        A "no" after a question may only answer the question, so it does not reject the answer.
        """
        after = self._said[turn + 1] if turn + 1 < len(self._said) else None
        if after is None or not after.by_user:
            return False
        asks = is_question(self._said[turn].sentences[-1].text) if self._said[turn].sentences else False
        own, denied = self._turns[after.id]
        return (own and not asks) or bool(keys & denied)

    def _is_overtaken(self, turn: int, text: str, keys: frozenset[str]) -> bool:
        """Return True if a text diagnoses a fault, and a later answer diagnoses the same fault again."""
        if not WORK_CUES["diagnoses"].search(text):
            return False
        later = (at for at, parts in self._diagnoses.items() if at > turn and (at <= turn + _NEAR or keys & parts))
        return any(at <= turn + _NEAR or len(keys & self._diagnoses[at]) >= _SAME_FAULT * len(keys) for at in later)

    def _rate(
        self, turn: int, one: ConversationMessage, unit: Sequence[NumberedSentence], keys: frozenset[str]
    ) -> float:
        """Return the weight of a line of an answer."""
        text = _text_of(unit)
        signs = self._signs(turn, text, keys) | {
            "names": min(4, len(CUES["identifier"].findall(text))),
            "cause": WORK_CUES["cause"].search(text) is not None,
            "final": turn + 1 == len(self._said) or self._said[turn + 1].by_user,
            "refuted": self._is_rejected(turn, keys) or self._is_overtaken(turn, text, keys),
            "hedge": WORK_CUES["hedges"].search(text) is not None,
            "behind": bisect_left(one.sentences, unit[0].number, key=lambda it: it.number) / max(1, len(one.sentences)),
            "thin": len(keys) < _FEWEST_CLEAR,
            "last": turn > self._last_spoken,
        }
        return _weigh(signs, _OF_ANSWER)

    def _signs(self, turn: int, text: str, keys: frozenset[str]) -> dict[str, float]:
        return {
            "": 1.0,
            "late": turn / len(self._said),
            "length": math.log1p(len(text)),
            "words": min(20, len(keys)),
        }


def _put_below(one: WorkStatement, number: int, head: str) -> WorkStatement:
    """Return a line with the heading of its list before it, unless the line has all words of the heading."""
    if one.keys.issuperset(_keys_of(head)):
        return one
    return one._replace(text=prose.below_head(head, one.text), numbers=(number, *one.numbers))


def _weigh(signs: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the sum of the weighted features: the log-odds that a person wants to know the line."""
    return sum(weight * signs[sign] for sign, weight in weights.items())


def _collect_keys(parts: Iterable[NumberedSentence]) -> frozenset[str]:
    """Return the content words of sentences."""
    return frozenset(key for part in parts for key in _keys_of(part.text))


def _find_last_answer(said: Sequence[ConversationMessage]) -> int:
    """Return the index of the assistant's last message with content; -1 without one."""
    answers = ((at, one.sentences) for at, one in enumerate(said) if one.is_answer)
    return max((at for at, parts in answers if not all(work_texts.narrates(part.text) for part in parts)), default=-1)


def _says_enough(text: str, fewest: int) -> bool:
    """Return True if an assistant's text can be a line: it has content words, and is no pasted data or list heading."""
    is_head = text.rstrip().endswith((":", "："))  # noqa: RUF001
    is_bare = sum(map(str.isalpha, _NAMES.sub("", text))) < _FEWEST_LETTERS  # only names, with no statement about them
    return not is_head and not is_bare and len(text) <= _LONGEST and len(_keys_of(text)) >= fewest


def _list_questions(last: Sequence[NumberedSentence]) -> list[NumberedSentence]:
    """Return the questions in the last sentences of an answer, the last first. Before the end, only offers count."""
    questions = [one for one in reversed(last) if is_question(one.text)]
    return [one for one in questions if one is last[-1] or WORK_CUES["offers"].search(one.text)]


def _seq_of(one: ConversationMessage) -> int:
    """Return the number of a message in its session."""
    return int(one.id[1:])


def _keys_of(text: str) -> frozenset[str]:
    """Return the content words of a text, without those of small talk."""
    return frozenset(words.list_content_words(text)) - words.CHATTER_KEYS


def asks_something(one: WorkStatement) -> bool:
    """Return True if a user's line can be a request: it has enough content words, or answers a question."""
    return len(one.keys) >= _FEWEST_ASKED or bool(one.asked)


def may_last(one: WorkStatement) -> bool:
    """Return True if a line matters beyond the day, and a person who was not there can understand it.

    Of an assistant's lines, only causes and lines with a high weight last, but no state of the work.
    """
    if one.speaker == REPORTER or WORK_CUES["leans"].match(one.text):
        return False
    if one.by_user and one.text.endswith((":.", ":", "：")):  # noqa: RUF001
        return False
    asks = is_question(one.text) or WORK_CUES["inquires"].search(one.text) is not None
    if (asks and not work_texts.steers(one.text)) or (one.by_user and work_texts.is_joke(one.text)):
        return False
    fewest = _FEWEST_OF_WISH if one.by_user else _FEWEST
    is_clear = len(one.keys) >= _MANY or (len(one.keys) >= fewest and WORK_CUES["refers"].search(one.text) is None)
    return is_clear and (one.by_user or _tells_result(one))


def _tells_result(one: WorkStatement) -> bool:
    """Return True if an assistant's line gives a cause or has a high weight.

    A guess and the current step are no results. A remaining task and an instruction to the user are results only with
    a cause.
    """
    tells_cause = WORK_CUES["cause"].search(one.text) is not None
    is_left = unfinished.is_left(one.text) or work_texts.is_pending(one.text)
    is_passing = is_left or WORK_CUES["instructs"].match(one.text)
    is_overtaken = one.is_passed and lasting.find_cue(one.text, by_user=False, working=True) is None
    if one.is_guess or is_overtaken or work_texts.is_progress(one.text) or (is_passing and not tells_cause):
        return False
    return one.weight >= _WORTH_LASTING or tells_cause


def _reports_fault(text: str) -> bool:
    """Return True if a user's words only report a fault, and ask for nothing else."""
    asks = work_texts.steers(text) or any(CUES["order"].search(one) for one in split_sentences(text))
    return WORK_CUES["faults"].search(text) is not None and not (asks or WORK_CUES["requests"].search(text))


def find_announced(said: Sequence[ConversationMessage]) -> set[str]:
    """Return the ids of the user's messages before which the user announced another person's words or a game."""
    spoken = pairwise(one for one in said if one.by_user)
    return {later.id for one, later in spoken if lasting_model.announces(one.text)}


def _rules(one: ConversationMessage, unit: Sequence[NumberedSentence], message: str) -> bool:
    """Return True if a user's words are a choice in a dialog, or last by a cue or by their words in `message`."""
    return work_texts.is_choice(one.text) or any(
        lasting.find_cue(part.text, by_user=True, working=True, message=message) for part in unit
    )


def _requests(text: str, keys: frozenset[str]) -> bool:
    """Return True if a user's text may be a request, and not pasted data, a farewell or thanks."""
    thanks = len(keys) < _FEWEST and not is_question(text) and WORK_CUES["thanks"].search(text) is not None
    return len(keys) > 0 and len(text) <= 2 * _LONGEST and not (thanks or CUES["halts"].search(text.lower()))


def _is_courtesy(text: str) -> bool:
    """Return True if a user's sentence is a farewell, or nothing but thanks."""
    is_bare = signals.says_nothing(text) or not _keys_of(WORK_CUES["thanks"].sub("", text))
    is_thanks = is_bare and WORK_CUES["thanks"].match(text) is not None and not is_question(text)
    return is_thanks or (
        prose.count_words(text) <= _LONGEST_FAREWELL and CUES["halts"].search(text.lower()) is not None
    )


def _leans_on(one: NumberedSentence, part: NumberedSentence) -> bool:
    """Return True if a sentence is clear only with the sentence before it, which is not the last name of a list."""
    is_said = one.is_item <= part.is_item or one.text[-1:] in prose.ENDS
    return is_said and one.number + 1 == part.number and WORK_CUES["leans"].match(part.text) is not None


def _weigh_open(text: str, offer: float, *, is_open: bool, is_offered: bool) -> float | None:
    """Return the weight of a sentence of the last answer as an open point, or None if it is not open.

    A mere offer of the assistant has the weight `offer`.
    """
    if unfinished.is_label(text) or WORK_CUES["nothing open"].search(text):
        return None
    if is_open or unfinished.is_open(text):
        return OF_OPEN
    return offer if is_offered or work_texts.is_offered(text) else None


def _text_of(unit: Sequence[NumberedSentence]) -> str:
    """Return sentences as one line; a sentence without an end mark gets one."""
    return " ".join(part.text if part.text[-1:] in prose.ENDS else f"{part.text}{_end(part.text)}" for part in unit)


def _end(text: str) -> str:
    """Return the end mark for a sentence; without a question mark, a Chinese question has only its particle."""
    return "\uff1f" if is_question(text) else "."


def _join(
    parts: Sequence[NumberedSentence], leans: Callable[[NumberedSentence, NumberedSentence], bool]
) -> list[list[NumberedSentence]]:
    """Return the sentences grouped into lines.

    A sentence that needs the preceding one, as `leans` decides, is joined to it, up to `_JOINED` characters. A mark
    such as `@decision` begins a new line.
    """
    units: list[list[NumberedSentence]] = []
    for part in parts:
        goes_on = bool(units) and not work_texts.find_mark(part.text) and leans(units[-1][-1], part)
        if goes_on and len(_text_of([*units[-1], part])) <= _JOINED:
            units[-1].append(part)
        else:
            units.append([part])
    return units
