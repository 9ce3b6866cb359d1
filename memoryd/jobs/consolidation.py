"""Consolidation: the bullets of a dream's reply as operations on the ledger, none of which loses or invents anything.

A bullet that says what an earlier memory says keeps it; one in other words rewords it, if it still holds what that one
said (`holds`) and stands in what it cites (`taint`), each thing said of what it is said of there (`relation`); one
that cites several merges them. Where it does not hold what an earlier one said, that one is superseded, by something
newer about the same, or stays as it is. A bullet without a citation that can be read is matched by its words. What no
bullet and no declaration speaks of is kept or archived (`accounting`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from memoryd.jobs.condensation import HELD, condensed, says_no_more
from memoryd.jobs.dream_reply import Bullet, LetGo
from memoryd.jobs.duplicates import Known
from memoryd.ledger import steering
from memoryd.ledger.grounding import Ground, content
from memoryd.ledger.grounding import Source as Said
from memoryd.ledger.guards import Guard, RefusedOperation
from memoryd.ledger.heading import NO_THEME, is_theme
from memoryd.ledger.memory import Ending, Kind, hash_of, united
from memoryd.ledger.operation import Add, Delete, Merge, Update, ids_of
from memoryd.ledger.relation import relates
from memoryd.ledger.replacement import is_replaced
from memoryd.ledger.taint import (
    UNGROUNDED,
    UNKNOWN,
    UNSAID,
    Bench,
    Candidate,
    Place,
    Record,
    Standing,
    Verdict,
    standing_of,
)
from memoryd.text import prose
from memoryd.text.neutral import neutral
from memoryd.text.wording import STOP, stem
from memoryd.tiers.core import normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import date

    from memoryd.jobs.dream_reply import Declared, Parsed
    from memoryd.ledger.memory import Memory, Source
    from memoryd.ledger.operation import Operation

RELATED = 0.5  # share of the content words of a text that another must have to speak of the same
_SHARED = 2  # … and how many at least, where it has so many
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_WE = re.compile(r"(?:we|our)\b", re.IGNORECASE)
_NAME = re.compile(r"(?<=[\w,;)] )[^\W\d_a-z][\w'-]+")  # written large, and not at the beginning of a sentence
_TOKEN = re.compile(r"[^\W_]+")
_LONGEST_SUBJECT = 3  # words
_FOUND = 0.6  # share of the content words of a bullet without citation that what it is matched with has
_MOST_JOINED = 12  # statements in one bullet
_MOST_ENTRIES = 3  # that such a bullet is matched with
_STANDINGS = {
    "user": Standing.USER, "hand": Standing.USER, "assistant": Standing.ASSISTANT, "agent": Standing.ASSISTANT,
}  # fmt: skip
_LABELS = ("User: ", "Assistant: ")
OLDER = "an older source cannot supersede a newer memory"
LOWER = "what supersedes it was said by somebody with less of a say"
RAISED = "it would be told as somebody's with more of a say"
LOSSY = "it would no longer say what it said"
NOWHERE = "nothing that is accepted takes its place"


@dataclass(frozen=True, slots=True)
class Earlier:
    """A live core memory as it was shown to the model."""

    id: str  # "m3"
    memory: Memory
    said_on: date  # local day
    local_at: str | None = None  # YYYY-MM-DDTHH:MM

    @property
    def at(self) -> str:
        """When it was said first, UTC; else when it came into the ledger."""
        return self.memory.origin_at or self.memory.created_at


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a daily file as it was shown to the model.

    Attributes:
        id: "d7".
        text: on however many lines, without its bullet mark.
        origin: user, assistant, report; hand: a person's, in the file they keep; agent: its own tools wrote it there.
        day: of the file.
        clock: HH:MM of its block; None in one that somebody else wrote.
        at: both as a moment, UTC, ISO 8601 with `Z`; without a clock the end of the day.
        session: the session it was told of; None for what was written by hand.
        path: of the file.
    """

    id: str
    text: str
    origin: str
    day: date
    clock: str | None
    at: str
    session: str | None = None
    path: str = ""


@dataclass(slots=True)
class Consolidated:
    """What a reply comes to.

    Attributes:
        operations: in order; those with a fault among them.
        faults: of operations, by `id()`: why each is refused.
        places: (heading, memory id) of each bullet that is to stand, in the reply's order; None for the heading that a
            memory has.
        mentioned: ids of the earlier memories it speaks of.
        additions: ids of new memories that stand on daily entries.
        counts: candidates, duplicates.
    """

    operations: list[Operation] = field(default_factory=list)
    faults: dict[int, RefusedOperation] = field(default_factory=dict)
    places: list[tuple[str | None, str]] = field(default_factory=list)
    mentioned: set[str] = field(default_factory=set)
    additions: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    def check(self, operation: Operation) -> RefusedOperation | None:
        """What is wrong with an operation, as a guard says it."""
        return self.faults.get(id(operation))


def consolidate(
    parsed: Parsed,
    earlier: Sequence[Earlier],
    entries: Sequence[Entry],
    today: date,
    new_id: Callable[[], str],
    sources_of: Callable[[Entry], tuple[Source, ...]],
) -> Consolidated:
    """What a reply comes to.

    Args:
        parsed: the reply.
        earlier: what of the memories that were shown is still there.
        entries: what of the daily files was shown.
        today: the local day.
        new_id: draws a free id of a core memory.
        sources_of: says on which records an entry stands.
    """
    work = _Work(parsed, earlier, entries, today, new_id, sources_of)
    for section in parsed.sections:
        heading = work.heading(section.heading)
        for bullet in section.bullets:
            work.bullet(heading, bullet)
    for one in parsed.declared:
        work.declare(one)
    return work.done


def holds(texts: Sequence[str], said: str, today: date) -> bool:
    """Whether some texts together still say what one said: all that is exact, most of its words, and each of the same.

    What is ordered or liked must be so in them too.
    """
    if not _has_words(texts, said, today):
        return False
    adds_nothing = len(texts) == 1 and Ground([Said(said, today)]).missing(texts[0]) is None
    return relates(said, texts) or (adds_nothing and relates(texts[0], [said]))


def is_needed(text: str, said: str, others: Sequence[str], today: date) -> bool:
    """Whether a text has all words of a memory, and says what without that memory nobody would have said.

    So it holds what it joins to others by a word that it says once: "Anna sold the car and Bob the boat".
    """
    if not _has_words([text], said, today):
        return False
    ground = Ground([Said(other, today) for other in others])
    held, asked = ground.support(said)
    return held < asked or ground.missing(said) is not None or not relates(text, others)


def _has_words(texts: Sequence[str], said: str, today: date) -> bool:
    """Whether some texts together have all that is exact of one, and most of its words, and ask as much."""
    ground = Ground([Said(text, today) for text in texts])
    held, asked = ground.support(said)
    if held < HELD * asked or ground.missing(said) is not None:
        return False
    return all(any(map(steers, texts)) for steers in (steering.instructs, steering.prefers) if steers(said))


def is_related(old: str, new: str) -> bool:
    """Whether a text speaks of the same as an older one, told by the words of that one which it has."""
    asked, given = _stems(old), _stems(new)
    return len(asked & given) >= max(min(_SHARED, len(asked)), RELATED * len(asked), 1)


def replaces(old: str, new: str) -> bool:
    """Whether a newer text may end an older one: it says so, or speaks of the same and has another value for each.

    A number or name of the older that the newer does not have must have another in its place: that the build failed
    is no new value for how long it takes. What has neither is ended by words that say so alone. A number or name that
    tells which thing is meant is no value of it: where crate 7 stands is not where crate 9 does.
    """
    if is_replaced(old, new):
        return True
    pairs = [({*find.findall(old)}, {*find.findall(new)}) for find in (_NUMBER, _NAME)]
    is_other = any(had - has for had, has in pairs) and all(had <= has or has - had for had, has in pairs)
    return is_other and is_related(old, new) and _subject(old) <= {stem(one.casefold()) for one in _TOKEN.findall(new)}


def _subject(text: str) -> set[str]:
    """What a statement is about, as far as its beginning tells: its first word, and what tells which one it is.

    It errs to more: what is taken for a part of the subject only keeps the older statement. Scripts without spaces
    have no word that could be told from the next.
    """
    found: list[str] = []
    for word in _TOKEN.findall(text.removeprefix(_label(text))):
        if found and (word.casefold() in STOP or (word.islower() and word.endswith(("s", "ed")))):
            break  # its verb, most likely
        if word.casefold() not in STOP:
            found.append(word)
        if len(found) == _LONGEST_SUBJECT:
            break
    if found and prose.is_wide(found[0]):
        return set()
    return {stem(one.casefold()) for one in found if one is found[0] or not one.islower()}


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(unit) for unit in content(text))


class _Work:
    def __init__(
        self,
        parsed: Parsed,
        earlier: Sequence[Earlier],
        entries: Sequence[Entry],
        today: date,
        new_id: Callable[[], str],
        sources_of: Callable[[Entry], tuple[Source, ...]],
    ) -> None:
        self.done = Consolidated()
        self._today, self._new_id, self._sources_of = today, new_id, sources_of
        self._earlier = {one.id: one for one in earlier}
        self._entries = {one.id: one for one in entries}
        self._by_hash: dict[str, list[Earlier]] = defaultdict(list)
        for one in earlier:
            self._by_hash[one.memory.content_hash].append(one)
        self._headings = {normal(one.memory.heading) for one in earlier if one.memory.heading}
        self._claimed: set[str] = set()
        self._reworded: set[str] = set()
        self._taken: set[Bullet] = set()
        self._became: dict[str, str] = {}  # id of a memory that was shown → of what says it now
        self._said_by: dict[str, list[tuple[str, str]]] = defaultdict(list)  # entry → (memory, text) that cite it
        self._citing: dict[str, list[Bullet]] = defaultdict(list)  # memory → what cites it
        self._words: dict[str, set[str]] | None = None
        changed: set[str] = set()
        for bullet in (bullet for section in parsed.sections for bullet in section.bullets):
            for cited in bullet.cites:
                self._citing[cited].append(bullet)
            if hash_of(bullet.text) not in self._by_hash:
                changed.update(bullet.cites)
        # What is only kept is no evidence for anything, and there may be thousands of it.
        shown = earlier if not all(map(self._cites, _all(parsed))) else [one for one in earlier if one.id in changed]
        self._bench = Bench([*map(_record_of, entries), *map(_record, shown)])
        self._known = Known(one.memory.content for one in earlier)

    def _cites(self, bullet: Bullet) -> bool:
        return any(one in self._earlier or one in self._entries for one in bullet.cites)

    # --- bullets ---------------------------------------------------------------------------------------------------

    def heading(self, heading: str) -> str:
        """A heading of the reply as it may stand in the file; empty where each memory is to stay below its own."""
        if not heading or normal(heading) in self._headings or is_theme(heading):
            return heading
        self._refuse(Add(Kind.CORE, "", heading=heading), Guard.TAINT, NO_THEME)
        return ""

    def bullet(self, heading: str, bullet: Bullet) -> None:
        """Take one bullet in."""
        self.done.counts["bullets"] += 1
        said = hash_of(bullet.text)
        is_kept = said in self._by_hash and all(one.memory.id in self._claimed for one in self._by_hash[said])
        if is_kept or bullet in self._taken:
            self.done.counts["duplicates"] += 1
            return
        self._taken.add(bullet)
        twin, cited, entries = self._resolved(bullet)
        self.done.mentioned |= {one.memory.id for one in cited}
        if twin is not None:
            self._keep(heading, twin, [one for one in cited if one is not twin], entries)
            return
        text = neutral(bullet.text)
        for one in cited:
            if one.memory.constitutional and holds([text], one.memory.content, self._today):  # the guard says no
                self.done.operations.append(Update(one.memory.id, content=text))
                return
        ids = (*(one.id for one in cited), *(one.id for one in entries))
        self._write(heading, self._judged(replace(bullet, cites=ids)), text, cited, entries)

    def _resolved(self, bullet: Bullet) -> tuple[Earlier | None, list[Earlier], list[Entry]]:
        """The earlier memory that says the same letter by letter, and all that the bullet stands on."""
        cited = [self._earlier[one] for one in bullet.cites if one in self._earlier]
        entries = [self._entries[one] for one in bullet.cites if one in self._entries]
        same = [one for one in self._by_hash.get(hash_of(bullet.text), ()) if one.memory.id not in self._claimed]
        twin = next((one for one in same if one in cited), same[0] if same else None)
        if twin is not None:
            return twin, [*cited, *([] if twin in cited else [twin])], entries
        if not cited and not entries:
            cited, entries = self._matched(bullet.text)
        return None, cited, entries

    def _matched(self, text: str) -> tuple[list[Earlier], list[Entry]]:
        """What a bullet without a citation is about, told by its words."""
        if self._words is None:
            pool = [*((one.id, one.memory.content) for one in self._earlier.values())]
            pool += [(one.id, one.text) for one in self._entries.values()]
            self._words = {key: {stem(unit) for unit in content(said)} for key, said in pool}
        asked = {stem(unit) for unit in content(text)}
        shares = sorted(
            ((len(asked & words) / len(asked), key) for key, words in self._words.items() if asked & words),
            key=lambda one: -one[0],
        )
        near = [key for share, key in shares if share >= _FOUND]
        matched = [self._earlier[key] for key in near if key in self._earlier][:1]
        return matched, [self._entries[key] for key in near if key in self._entries][:_MOST_ENTRIES]

    def _keep(self, heading: str, twin: Earlier, others: list[Earlier], entries: list[Entry]) -> None:
        self._claimed.add(twin.memory.id)
        self._stands(heading, twin.memory.id, [twin], entries, twin.memory.content)
        for one in others:
            if one.memory.id in self._claimed:
                continue
            is_heard = _standing(twin.memory) >= _least(one.memory)
            if is_heard and holds([twin.memory.content], one.memory.content, self._today):
                self._end(one, Ending.MERGED, twin.memory.id)
            else:
                self._supersede(one, twin.memory.id, twin.memory.content, [twin], entries)

    def _write(self, heading: str, verdict: Verdict, text: str, cited: list[Earlier], entries: list[Entry]) -> None:
        """Take in a bullet that says what no memory says letter by letter."""
        if verdict.place is Place.CORE and not content(verdict.text):
            verdict = replace(verdict, place=Place.REFUSED, why=f"too few words to be found {UNGROUNDED}")
        if verdict.place is not Place.CORE:
            is_made_up = verdict.why.endswith(UNGROUNDED) or verdict.why == UNKNOWN
            guard = Guard.GROUNDING if is_made_up else Guard.TAINT
            self._refuse(Add(Kind.CORE, text or UNKNOWN), guard, verdict.why, cited)
            return
        free = [one for one in cited if not one.memory.constitutional and one.memory.id not in self._claimed]
        held = [one for one in free if self._holds(text, one) or self._joins(text, one, cited, entries)]
        if not held and entries and not any(one.id in verdict.cites for one in entries):
            # Its words are those of memories that it does not hold: what it adds must stand in the days alone.
            verdict = self._judged(Bullet(text, tuple(one.id for one in entries)))
        if free and not held and (not entries or verdict.place is not Place.CORE):
            self._refuse(Update(free[0].memory.id, verdict.text), Guard.ACCOUNTING, LOSSY)
            return
        parts = {one.memory.id for one in cited} & self._reworded  # what was split says the rest elsewhere
        if not held and (self._known.says(verdict.text) or not (entries or parts)):
            self.done.counts["duplicates"] += 1
            return
        fault = self._unfit(verdict, held, entries) if held else None
        if fault is not None:
            self._refuse(Update(held[0].memory.id, verdict.text), *fault, held)
            return
        new = self._operate(verdict, held, cited, entries)
        for one in held:
            self._claimed.add(one.memory.id)
        self._reworded |= {new} if len(held) == 1 else set()
        self._stands(heading, new, held, entries, verdict.text)
        for one in cited:
            if one.memory.id not in self._claimed:
                self._supersede(one, new, verdict.text, held, entries)

    def _unfit(self, verdict: Verdict, held: Sequence[Earlier], entries: Sequence[Entry]) -> tuple[Guard, str] | None:
        """Why a text may not stand for what it still holds, if it may not."""
        said = [record.standing for _, record in _spoken_by(held, entries) if record.id in verdict.cites]
        footing = [*(one.memory.sources for one in held), *(self._sources_of(one) for one in entries)]
        origins = [source.origin for sources in footing for source in sources]
        if standing_of(verdict.text, origins) > min(said, default=Standing.NONE):
            return Guard.TAINT, RAISED
        # What it says beside what they say must be said by somebody who may change them.
        least = max(_least(one.memory) for one in held)
        heard = [record for _, record in _spoken_by(held, entries) if record.standing >= least]
        heard += [_record(one) for one in held if _standing(one.memory) < least]
        if not says_no_more(verdict.text, Ground([Said(one.text, one.said_on) for one in heard])):
            return Guard.GROUNDING, f"part of it is {UNGROUNDED}"
        return None

    def _operate(self, verdict: Verdict, held: list[Earlier], cited: list[Earlier], entries: list[Entry]) -> str:
        """Reword the memory that a bullet still holds, merge several, or add a new one; the id of what says it."""
        footing = [self._sources_of(one) for one in entries if one.id in verdict.cites]
        sources = united(*footing)
        if len(held) == 1:
            new = held[0].memory.id
            self.done.operations.append(Update(new, verdict.text, sources))
            return new
        new = self._new_id()
        if held:
            ids = tuple(one.memory.id for one in held)
            self.done.operations.append(Merge(ids, verdict.text, sources, id=new))
            return new
        parents = tuple(one.memory.id for one in cited)
        self.done.operations.append(Add(Kind.CORE, verdict.text, sources, derived_from=parents, id=new))
        self.done.additions |= {new} if entries else set()
        self._known.add(verdict.text)
        return new

    def _holds(self, text: str, one: Earlier) -> bool:
        """Whether a text, or all that cite a memory together, as where it was split, hold what it said."""
        said = one.memory.content
        if holds([text], said, self._today):
            return True
        if len(self._citing[one.id]) < 2 or not is_related(said, text):
            return False
        stand = [bullet.text for bullet in self._citing[one.id] if self._judged(bullet).place is Place.CORE]
        return holds([text, *stand], said, self._today)

    def _joins(self, text: str, one: Earlier, cited: Sequence[Earlier], entries: Sequence[Entry]) -> bool:
        """Whether a text, made of a few statements, holds what a memory said in words that it shares with others."""
        others = [other.memory.content for other in cited if other is not one]
        others += [entry.text for entry in entries]
        return 0 < len(others) < _MOST_JOINED and is_needed(text, one.memory.content, others, self._today)

    def _judged(self, bullet: Bullet) -> Verdict:
        cites = tuple(one for one in bullet.cites if one in self._earlier or one in self._entries)
        verdict = self._bench.judge(Candidate(bullet.text, cites or ("nothing",)))
        texts = [
            self._entries[one].text if one in self._entries else self._earlier[one].memory.content for one in cites
        ]
        if verdict.place is not Place.REFUSED and not relates(bullet.text, texts):
            return Verdict(Place.REFUSED, why=f"relation {UNGROUNDED}")
        own = [self._earlier[one].memory for one in cites if one in self._earlier]
        if verdict.why == UNSAID and len(own) == len(cites) and all(_standing(one) is Standing.USER for one in own):
            again = condensed(bullet.text, {one.id: one.content for one in own}, self._today)
            return replace(again, place=Place.CORE, cites=cites) if again.place is not Place.REFUSED else verdict
        notes = [one for one in cites if one in self._entries and self._entries[one].origin == "agent"]
        if verdict.place is Place.CORE or not notes or not _WE.match(bullet.text):
            return verdict
        # What an agent notes by its own tools speaks for its team: "we" is not the user's voice there.
        told = _WE.sub(lambda one: "The team's" if one[0].lower() == "our" else "The team", bullet.text, count=1)
        shared = self._bench.judge(Candidate(told, tuple(notes)))
        return replace(shared, text=neutral(bullet.text)) if shared.place is Place.CORE else verdict

    def _stands(
        self, heading: str, memory_id: str, cited: Iterable[Earlier], entries: Iterable[Entry], text: str
    ) -> None:
        has_own = not heading and any(one.memory.heading for one in cited)
        self.done.places.append((None if has_own else heading, memory_id))
        for one in cited:
            self._became[one.id] = memory_id
        for entry in entries:
            self._said_by[entry.id].append((memory_id, text))

    # --- ends ------------------------------------------------------------------------------------------------------

    def declare(self, declared: Declared) -> None:
        """Take in that a memory is let go."""
        one = self._earlier.get(declared.id)
        if one is None or one.memory.id in self._claimed or one.memory.id in self.done.mentioned:
            self.done.counts["idle declarations"] += 1
            return
        self.done.mentioned.add(one.memory.id)
        if declared.how is LetGo.ARCHIVED:
            self._end(one, Ending.ARCHIVED)
            return
        found: list[tuple[str, str, list[Earlier], list[Entry]]] = []
        for by in declared.by:
            if by in self._became:
                other = self._earlier[by]
                found.append((self._became[by], other.memory.content, [other], []))
            found += [(memory_id, text, [], [self._entries[by]]) for memory_id, text in self._said_by.get(by, ())]
        about = [candidate for candidate in found if replaces(one.memory.content, candidate[1])]
        if not about:
            self._refuse(Delete(one.memory.id, Ending.SUPERSEDED), Guard.ACCOUNTING, NOWHERE)
            return
        new, text, held, entries = about[0]
        self._supersede(one, new, text, held, entries)

    def _supersede(self, one: Earlier, new: str, text: str, held: Sequence[Earlier], entries: Sequence[Entry]) -> None:
        """End a memory for a newer one about the same; what is about something else is not touched."""
        if not replaces(one.memory.content, text):
            return
        delete = Delete(one.memory.id, Ending.SUPERSEDED, (new,))
        newer = [record for other, record in _spoken_by(held, entries) if other.at > one.at]
        strong = [record for record in newer if record.standing >= _least(one.memory)]
        if not newer:
            self._refuse(delete, Guard.ACCOUNTING, OLDER)
        elif not strong or Ground([Said(record.text, record.said_on) for record in strong]).missing(text):
            self._refuse(delete, Guard.TAINT, LOWER)
        else:
            self._end(one, Ending.SUPERSEDED, new)

    def _end(self, one: Earlier, ending: Ending, *successors: str) -> None:
        self._claimed.add(one.memory.id)
        self.done.operations.append(Delete(one.memory.id, ending, successors))

    def _refuse(self, operation: Operation, guard: Guard, why: str, about: Sequence[Earlier] = ()) -> None:
        ids = tuple(one.memory.id for one in about) or (() if isinstance(operation, Add) else ids_of(operation))
        self.done.operations.append(operation)
        self.done.faults[id(operation)] = RefusedOperation(guard, ids, why, operation=operation)


def _all(parsed: Parsed) -> Iterable[Bullet]:
    return (bullet for section in parsed.sections for bullet in section.bullets)


def _spoken_by(held: Iterable[Earlier], entries: Iterable[Entry]) -> list[tuple[Earlier | Entry, Record]]:
    return [*((one, _record(one)) for one in held), *((entry, _record_of(entry)) for entry in entries)]


def _standing(memory: Memory) -> Standing:
    return standing_of(memory.content, (source.origin for source in memory.sources))


def _least(memory: Memory) -> Standing:
    """The standing it takes to change what a memory says: the user's, where it is in their name, of them, or a rule.

    What else is so may be known better by the assistant, whoever said it before.
    """
    text = memory.content
    is_of_user = steering.of_user(text) or steering.instructs(text) or steering.prefers(text)
    return _standing(memory) if is_of_user else min(_standing(memory), Standing.ASSISTANT)


def _record(one: Earlier) -> Record:
    return Record(one.id, _standing(one.memory), *_spoken(one.memory.content, one.said_on))


def _record_of(entry: Entry) -> Record:
    return Record(entry.id, _STANDINGS.get(entry.origin, Standing.OUTSIDE), *_spoken(entry.text, entry.day))


def _spoken(text: str, day: date) -> tuple[str, date, str]:
    """The text of a record, its day, and who speaks in it."""
    label = _label(text)
    return text.removeprefix(label), day, label.rstrip(": ")


def _label(text: str) -> str:
    return next((label for label in _LABELS if text.startswith(label)), "")
