"""Write a dream offline: consolidate the core by choosing and merging memories, never by rewording them.

Earlier memories with the same words become one. A memory that the user has plainly contradicted is replaced
(`replacement`). If a newer statement gives the same subject another value without saying that it changed, the older
memory gets its date. All other memories stay.

Lasting statements of the daily entries (`promotion`) are added in their original words, most important first. Each
needs free room, or an earlier memory of less importance. The job decides which memories leave, because it knows the
deletion limit. A conversation between people has few decisions, so its most informative statements are added too
(`statements`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from memoryd.jobs import dream_reply
from memoryd.jobs.check_runs import shorten
from memoryd.jobs.consolidation import AS_OF
from memoryd.jobs.dream_reply import Declaration, LetGo, ReplyBullet, ReplySection
from memoryd.jobs.job import HEADINGS, Ask, QuotedPiece
from memoryd.ledger.lane import Lane, may_change, read_label
from memoryd.offline import lasting, promotion, replacement, statements, words
from memoryd.offline.cue_judge import CueJudge
from memoryd.offline.promotion import Offer
from memoryd.offline.sentences import split_sentences
from memoryd.offline.statements import ConversationMessage, list_statements
from memoryd.text import normal
from memoryd.text.content import list_content_words, strip_label

_CORE, _DAILY = "memory", "daily"
_DEFAULT_BULLETS = 50
_BY_HAND = 0.85  # importance of a memory without a record: a person wrote it
_UNKNOWN = 0.6  # importance of any other memory whose importance is unknown
_BETTER = 0.1  # a new memory replaces an earlier one only if it is more important by this much
_MOST_LOOKS = 100_000  # pairs of statements that one dream compares for replacement
_CLOSE = 0.35  # a new memory goes below a heading only if it shares this part of its words with the memories there
_FEWEST_CLOSE = 2  # and at least this many words
_FEWEST_TOLD = 3  # a dream may take at least this many statements of a conversation
_NIGHTS_TO_FILL = 9  # a dream may take one ninth of the free room if that is more, and leaves the rest for later nights
_LONGEST_SHOWN = 100  # characters of a memory in the diary
_SILENT, _REPORTED = "say nothing new that lasts", "were only reported"
_NO_ROOM, _UNFIT = "found no room", "would not pass the guards"
_CITING = re.compile(r"\[\s*[md]\d[^\[\]]*\][\s*.]*$", re.IGNORECASE)
_FIGURE = re.compile(r"importance=(\d(?:\.\d+)?)")


def write_dream(ask: Ask) -> str:
    """Return the reply to the question of a dream. The same question always gets the same bytes."""
    night = _Night(ask)
    night.merge()
    night.supersede()
    night.promote()
    return dream_reply.render(night.sections(), night.diary(), night.gone)


@dataclass(frozen=True, slots=True, eq=False)
class _Saying:
    """Hold one earlier statement: a memory, or a sentence of a daily entry."""

    id: str
    text: str
    at: str
    by_user: bool

    @property
    def is_daily(self) -> bool:
        """Return True if the statement is a sentence of a daily entry, and not a memory."""
        return self.id.startswith("d")


@dataclass(frozen=True, slots=True, eq=False)
class _OfflineMemory(_Saying):
    """Hold one earlier memory of the core."""

    heading: str
    is_protected: bool
    importance: float


class _Night:
    """Build the reply of one dream, step by step."""

    def __init__(self, ask: Ask) -> None:
        given = dict(ask.context)
        self._core = _memories(ask.material, given)
        self._daily = [quoted for quoted in ask.material if quoted.role == _DAILY]
        self._entries = promotion.read_entries(self._daily)
        reported = any(quoted.origin not in promotion.SAID for quoted in self._daily)
        self._working = "work" in given or promotion.is_working(self._entries, reported=reported)
        self._bullets = int(given.get("bullets") or _DEFAULT_BULLETS)
        self._cues = CueJudge()
        # By the id of a memory that stays: the ids of the memories that are merged into it.
        self._parts: dict[str, tuple[str, ...]] = {}
        self._by_id = {entry.id: entry for entry in self._entries}
        self._at = {quoted.id: quoted.at or "" for quoted in self._daily}
        # By the text of a new memory: its offer, and the reason why it was taken.
        self._new: dict[str, tuple[Offer, str]] = {}
        self._ended: set[str] = set()
        self._stale: set[str] = set()  # statements that are no longer true
        self.gone: list[Declaration] = []
        self._left: dict[str, str] = {}  # by the id of an entry: the reason why no statement of it was taken

    # ── memories that leave the core ─────────────────────────────────────────────────────────────────────────────────

    def merge(self) -> None:
        """Merge memories with the same words and the same speaker label."""
        live = [memory for memory in self._core if not memory.is_protected]
        same: dict[tuple[Lane, str], list[_OfflineMemory]] = defaultdict(list)
        for memory in live:
            same[read_label(memory.text), normal.normalize(memory.text)].append(memory)
        for found in same.values():
            newest, *rest = sorted(found, key=lambda one: one.at, reverse=True)
            if rest:
                self._parts[newest.id] = tuple(one.id for one in rest)

    def supersede(self) -> None:
        """End memories that the user has plainly contradicted, and add a date to competing memories."""
        sayings: list[_Saying] = [one for one in self._stays if not one.is_protected]
        sayings += [
            _Saying(f"{entry.id}.{one.number}", entry.tell_words(one.text), self._at[entry.id], by_user=True)
            for entry in self._entries
            for one in (entry.sentences if entry.by_user else ())
        ]
        older = _Older(sayings)
        for saying in sorted((one for one in sayings if one.by_user and one.at), key=lambda one: one.at, reverse=True):
            ended, competing = older.find_older(saying)
            if ended and (not saying.is_daily or self._say(saying, ended)):
                older.over |= set(ended)
                self._stale |= {normal.normalize(one.text) for one in ended}
                self._let_go([one.id for one in ended if not one.is_daily], saying.id)
            self._mark([one.id for one in competing if not one.is_daily and not AS_OF.search(one.text)], saying.id)
        self._looked_enough = older.looks < _MOST_LOOKS

    def _say(self, saying: _Saying, found: Sequence[_Saying]) -> bool:
        """Add to the core a sentence that ends memories; return False if the sentence may not be in the core."""
        if all(one.is_daily for one in found):
            return True
        entry = self._by_id[saying.id.partition(".")[0]]
        said = next(one for one in entry.sentences if saying.id == f"{entry.id}.{one.number}")
        kind = promotion.type_of(entry, saying.text, working=self._working)
        offer = Offer(entry.quote_sentence(said), (saying.id,), kind, lasting.ASKED_FOR, entry.day)
        if not self._may_be(offer):
            return False
        self._new.setdefault(offer.text, (offer, "states the present value"))
        return True

    def _may_be(self, offer: Offer) -> bool:
        """Return True if a new memory may be in the core.

        An agent's words may be there only as a lesson or about the project.
        """
        lane = Lane.USER if all(self._by_id[one].by_user for one in _entries_of(offer)) else Lane.ASSISTANT
        return bool(list_content_words(offer.text)) and may_change(lane, self._cues.kind(strip_label(offer.text)))

    def _mark(self, ids: Sequence[str], by: str) -> None:
        marked = {one.id for one in self.gone}
        reason = "something newer gives another value"
        self.gone += [Declaration(one, LetGo.DATED, (by,), reason) for one in ids if one not in marked]

    def _let_go(self, ids: Sequence[str], by: str) -> None:
        reason = "a newer statement of the user replaces it"
        for one in ids:
            for memory_id in (one, *self._parts.pop(one, ())):
                self.gone = [held for held in self.gone if held.id != memory_id]
                self.gone.append(Declaration(memory_id, LetGo.SUPERSEDED, (by,), reason))
                self._ended.add(memory_id)

    # ── memories that enter the core ─────────────────────────────────────────────────────────────────────────────────

    def promote(self) -> None:
        """Add the best lasting statements of the daily entries to the core."""
        stays = self._stays
        self._may_go = sorted((one.importance for one in stays if not one.is_protected), reverse=True)
        known = {normal.normalize(text) for text in (*(one.text for one in stays), *self._new)} | self._stale
        for memory in stays:
            if not AS_OF.search(memory.text):  # repeating a memory that has a date makes it current again
                known |= {normal.normalize(part) for part in split_sentences(strip_label(memory.text))}
        self._take(promotion.list_offers(self._entries, known, working=self._working))
        if not self._working and promotion.is_talk(self._entries):
            self._take_told(known)

    def _take_told(self, known: AbstractSet[str]) -> None:
        """Add the most informative statements of a conversation, up to a share of the free room."""
        taken = {entry for offer, _ in self._new.values() for entry in _entries_of(offer)}
        said = [ConversationMessage(one.id, one.speaker, one.by_user, one.text, one.sentences) for one in self._entries]
        told = [one for one in list_statements(said, unit_words=1_000_000) if one.id not in taken]
        rated = [(self._by_id[one.id], statements.rate_statement(one)) for one in told]
        new = [offer for entry, rating in rated if (offer := promotion.offer_told(entry, rating, known))]
        most = max(_FEWEST_TOLD, (self._bullets - len(self._stays) - len(self._new)) // _NIGHTS_TO_FILL)
        self._take(sorted(new, key=lambda one: one.importance, reverse=True)[:most])

    def _not_taken(self) -> Counter[str]:
        """Return the number of entries without a statement in the core, for each reason."""
        cited = {entry for offer, _ in self._new.values() for entry in _entries_of(offer)}
        may_last = {entry.id for entry in self._entries}
        return Counter(
            self._left.get(one.id, _SILENT) if one.id in may_last else _REPORTED
            for one in self._daily
            if one.id not in cited
        )

    @property
    def _stays(self) -> list[_OfflineMemory]:
        out = self._ended | {one for rest in self._parts.values() for one in rest}
        return [memory for memory in self._core if memory.id not in out]

    def _take(self, offers: Sequence[Offer]) -> None:
        stays = self._stays
        room = self._bullets - len(stays) - len(self._new)
        for offer in sorted(offers, key=lambda one: (-one.importance, one.cites)):
            goes = room <= 0 and self._may_go and self._may_go[-1] + _BETTER <= offer.importance
            is_full = len(stays) > self._bullets and offer.importance < lasting.ASKED_FOR
            if room <= 0 and (not goes or is_full):
                self._left |= dict.fromkeys(_entries_of(offer), _NO_ROOM)
            elif not self._may_be(offer):
                self._left |= dict.fromkeys(_entries_of(offer), _UNFIT)
            else:
                asked = "asked for, " if offer.importance >= lasting.ASKED_FOR else ""
                self._new[offer.text] = offer, f"{offer.type}, {asked}said on {offer.day}"
                room -= 1
                if goes:
                    self._may_go.pop()

    # ── the reply ────────────────────────────────────────────────────────────────────────────────────────────────

    def sections(self) -> list[ReplySection]:
        """Return the new core: earlier memories in their old places, new ones under the best heading."""
        found: dict[str, list[ReplyBullet]] = {"": []}
        for memory in self._stays:
            if _CITING.search(memory.text):
                continue  # its end looks like a citation, so it is not repeated; the memory stays as it is
            cites = (memory.id, *self._parts.get(memory.id, ()))
            found.setdefault(memory.heading, []).append(ReplyBullet(memory.text, cites))
        themes = _Themes(self._stays)
        for offer, _ in self._new.values():
            heading = themes.find_heading(offer.text) or HEADINGS[offer.type]
            found.setdefault(heading, []).append(ReplyBullet(offer.text, offer.cites))
        return [ReplySection(heading, tuple(bullets)) for heading, bullets in found.items() if bullets]

    def diary(self) -> str:
        """Return the text of the diary: what was read and added, and why the other entries were left out."""
        left = "; ".join(f"{n} {why}" for why, n in self._not_taken().items()) or "none"
        added = [f"Added ({why}): {shorten(text, _LONGEST_SHOWN)}" for text, (_, why) in self._new.items()]
        lines = [
            f"Read {len(self._daily)} entries beside {len(self._core)} memories, by their wording alone.",
            f"Entries left: {left}.",
            *([] if self._looked_enough else ["Too many memories are about one subject, so not all were compared."]),
            *added,
        ]
        return "\n".join(lines)


class _Older:
    """Find, by words, the earlier statements that a statement may end."""

    def __init__(self, sayings: Sequence[_Saying]) -> None:
        self.over: set[_Saying] = set()  # statements that are no longer true
        self.looks = 0
        self._by_word: dict[str, list[_Saying]] = defaultdict(list)
        self._by_order: dict[tuple[str, ...], list[_Saying]] = defaultdict(list)
        self._by_subject: dict[str, list[_Saying]] = defaultdict(list)
        for one in sayings:
            said = replacement.read(one.text)
            self._by_order[said.order].append(one)
            if said.subject:
                self._by_subject[said.subject].append(one)
            for word in said.words:
                self._by_word[word].append(one)

    def find_older(self, newer: _Saying) -> tuple[list[_Saying], list[_Saying]]:
        """Return the earlier statements that `newer` ends, and those that it competes with.

        Both lists are empty if `newer` itself has ended.
        """
        ended: list[_Saying] = []
        competing: list[_Saying] = []
        for one in self._list_near(newer) if newer not in self.over else ():
            if one.at < newer.at and (one.at or not one.is_daily) and one not in self.over and self.looks < _MOST_LOOKS:
                self.looks += 1
                if replacement.is_ended_by(newer.text, one.text):
                    ended.append(one)
                elif replacement.is_competing(newer.text, one.text):
                    competing.append(one)
        return ended, competing

    def _list_near(self, newer: _Saying) -> Iterable[_Saying]:
        said = replacement.read(newer.text)
        near = [*self._by_order[said.order], *(self._by_subject[said.subject] if said.subject else ())]
        for gone in replacement.find_ended(newer.text):
            rarest = min(gone, key=lambda word: len(self._by_word[word]))
            near += self._by_word[rarest]
        return dict.fromkeys(near)


class _Themes:
    """Find a heading of the core for a text, by the words of the memories under each heading."""

    def __init__(self, core: Sequence[_OfflineMemory]) -> None:
        self._under: dict[str, set[str]] = defaultdict(set)
        for memory in core:
            if memory.heading and memory.heading not in HEADINGS.values():
                self._under[memory.heading].update(words.list_content_words(f"{memory.heading} {memory.text}"))
        self._headings = Counter(word for held in self._under.values() for word in held)

    def find_heading(self, text: str) -> str:
        """Return the heading whose memories have the subject of `text`; empty if no heading clearly has it."""
        own = [word for word in set(words.list_content_words(text)) if self._headings[word] < max(2, len(self._under))]
        best, heading = max(
            ((len(held.intersection(own)), name) for name, held in self._under.items()), default=(0, "")
        )
        return heading if best >= max(_FEWEST_CLOSE, _CLOSE * len(own)) else ""


def _memories(material: Iterable[QuotedPiece], given: Mapping[str, str]) -> list[_OfflineMemory]:
    headings = dict(line.partition(" ")[::2] for line in given.get("headings", "").splitlines())
    marks = dict(line.partition(" ")[::2] for line in given.get("marks", "").splitlines())
    found = []
    for one in material:
        if one.role != _DAILY:
            mark = marks.get(one.id, "")
            figure = _FIGURE.search(mark)
            importance = float(figure[1]) if figure else _BY_HAND if one.origin == _CORE else _UNKNOWN
            is_protected, by_user = "constitutional" in mark.split(), one.origin == promotion.USER
            heading = headings.get(one.id, "")
            found.append(_OfflineMemory(one.id, one.text, one.at or "", by_user, heading, is_protected, importance))
    return found


def _entries_of(offer: Offer) -> tuple[str, ...]:
    return tuple(dict.fromkeys(cite.partition(".")[0] for cite in offer.cites))
