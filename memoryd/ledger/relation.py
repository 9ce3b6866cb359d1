"""Relation: whether a text joins its words as its sources do: who does what to whom, and which value belongs to what.

A text made only of words of its sources can still say what none of them says: two names, numbers or places swapped, a
role turned round, a value moved to another thing, the subject of one statement with the predicate of another. So each
clause must follow one passage: its words stand there in that order, those that tell a role ("by", "from", "of",
"before", a negation) at the same words, and what is left out on the way is not another clause's beginning. Words may be
left out and others come in, two statements may be joined as two clauses, and "A is B" may be said as "B is A". It errs
to refusing: what reads another way round may be true, but what is refused only stays as it was said.

That is for what stands for memories. A line about what was just said in a talk is worded too freely for it; of such
a one only the plain contrary is refused: that Bob does to Anna what, as its sources say, Anna does to Bob.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

from memoryd.ledger.reversal import REVERSES, negations
from memoryd.text import prose
from memoryd.text.wording import STOP, WORD, plain, stem, units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

_LABEL = re.compile(
    r"^(?:(?:User|Assistant|Agent|Report|Decision|Learned|Changed|Failed|Event|Done|Open):\s+)", re.IGNORECASE
)
_SPEAKER = re.compile(r"([A-Z][\w.'-]*(?: [A-Z][\w.'-]*){0,2}): (?=.)")
_PIECES = re.compile(
    rf"(?P<end>[.!?…]+(?=\s|$)|[。！？])|(?P<hard>[;:](?=\s|$)|[；：]|\s[–—-]+(?=\s))|(?P<soft>,(?=\s|$)|[()，、]"  # noqa: RUF001
    r"|\b[Ss]ince(?=\s+\D))"
    r"|(?P<mark>[^\s,;()\[\]\"']{0,200}\w[@/\\_=:.](?!\d)[^\s,;()\[\]\"']{0,200}\w)"
    rf"|(?P<number>(?<!\w)\d+(?:[.,:/-]\d+)*(?!\w))|(?P<word>{WORD.pattern})"
)
_SOFT_LIST = """
and or but nor while whereas because although though when where if that who which whose whom so then
und oder aber weil während dass wenn wo et ou mais parce que qui où y pero porque ed ma perché maar omdat
и или но а что который которая
"""  # noqa: RUF001
_BE_LIST = """
is are was were be been being am ist sind war waren est sont était es son era è sono são zijn
"""
_IF = frozenset({"if", "unless", "sofern", "если"})  # what is said is so only then
_CONDITIONS = _IF | {"when", "whenever", "wenn", "quando", "когда"}
_REASONS = frozenset(["because", "weil", "porque", "omdat", "perché", "потому"])
_SOFT = frozenset(_SOFT_LIST.split()) | _CONDITIONS
_AND = frozenset({"and", "but", "or", "und", "aber", "oder"})
_BE = frozenset(_BE_LIST.split())
_DETERMINERS_LIST = """
the a an this these those his her its their each every all some any both one
der die das den dem ein eine einen le la les un une el los las il lo gli het een
"""
_DETERMINERS = frozenset(_DETERMINERS_LIST.split())
_EACH = frozenset({"each", "every", "jeden", "jede", "chaque", "cada", "ogni", "elke"})
_PRONOUNS_LIST = """
he she it they er sie es il elle ils elles él ella lui lei hij zij он она они
"""
_PRONOUNS = frozenset(_PRONOUNS_LIST.split())
_I_LIST = """
i i'm i've i'd i'll we we're we've we'd we'll ich wir je nous yo noi io eu ik wij я мы
"""
_I = frozenset(_I_LIST.split())
_MINE_LIST = """
my our mein meine unser unsere mon ma mes notre mi mis mio mia meu minha mijn ons onze мой моя
"""
_MINE = frozenset(_MINE_LIST.split())
_ME_LIST = """
me us myself mine ours mich mir uns moi mich mij мне меня нам нас
"""
_ME = frozenset(_ME_LIST.split())
# Words before a word that tell its part in the statement; without them, or with others, it has another.
_ROLES_LIST = """
by of from before after until over under above below more less fewer than only least most without except since
some several few many outside inside beyond
von durch vor nach bis über unter mehr weniger als par de depuis avant après jusque por desde antes después da dal
"""
_ROLES = frozenset(_ROLES_LIST.split())
_LIMITS = frozenset({"only", "than", "except", "without", "nur", "als", "ohne", "außer"})
_PREPOSITIONS_LIST = """
in on at for with to into onto via through about against during within near between per mit für bei auf zu
"""
_PREPOSITIONS = _ROLES | frozenset(_PREPOSITIONS_LIST.split())
_SELF = _I | _MINE | _ME
_NOT = "not"
_NOBODY = frozenset({"nobody", "none", "nothing", "neither", "nowhere", "niemand", "nichts", "personne", "nadie"})
_SAYS_LIST = """
said says say told tell tells asked ask asks noted notes mentioned mentions decided decides reported think thinks
thought believe believes found noticed know knows learned agreed please
"""
_SAYS = frozenset(map(stem, _SAYS_LIST.split()))
# What somebody else says or thinks need not be so.
_TELLS_LIST = """
said says say tells told claims claimed claim thinks thought think believes believed believe suspects suspected assumes
assumed guesses guessed suggests suggested mentions mentioned sagt sagte meint glaubt dit pense croit dice cree
"""
_TELLS = frozenset(_TELLS_LIST.split())
_TOLD, _ONCE, _IF_SO = "told", "once", "if"
# What leaves open whether, how often or how far something is so; one line for each kind.
_HEDGES_LISTS = """
perhaps maybe possibly probably likely allegedly apparently seem seems seemed appears appeared may might could
should
considers considering considered
nearly almost
mostly partly
whether ob
yet
hopes hoped hope
fears feared fear
expects expected
rejects rejected
sometimes occasionally
vielleicht wahrscheinlich vermutlich könnte
peut-être probablement quizás probablemente forse probabilmente
"""
_HEDGES = {form: line.split()[0] for line in _HEDGES_LISTS.strip().splitlines() for form in line.split()}
_MARKS = frozenset({*_HEDGES.values(), _TOLD, _ONCE, _IF_SO})
_FUTURE = frozenset({"will", "shall", "won't", "i'll", "we'll"})
_MODALS = frozenset({"may", "might", "could", "should", "will", "shall", "won't"})  # ask, where they begin a sentence
_WHO = frozenset({"who", "which", "whose", "whom", "qui"})
_THAT = frozenset({"that", "dass", "que", "che", "dat", "что"})
_PARTICIPLES_LIST = """
paid sent told given taken owed hired known seen made bought sold left built done led held kept met beaten written
"""
_PARTICIPLES = frozenset(_PARTICIPLES_LIST.split())
# Written large at the beginning of a sentence, these are no name.
_ADVERBS_LIST = """
always usually often sometimes recently currently now today remember note immer meist
"""
_ADVERBS = frozenset(_ADVERBS_LIST.split())
_SMALL = _BE | _PREPOSITIONS | _DETERMINERS | _EACH | REVERSES | _NOBODY
_QUALIFIES = _HEDGES.keys() | _TELLS
_GRAMMAR = _SMALL | _SOFT | _PRONOUNS | _SELF
_USER = "\u00a7"
_FARTHEST = 60  # words from one word of a statement to the next
_MOST_STEPS = 50_000  # from a word of a passage to another, for one text
_LONGEST_SUBJECT = 3  # words of a subject that a clause without one may take over
_LONGEST_SENTENCE = 1_000  # characters; a longer one is no prose
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n")  # noqa: RUF001
_NO_USER = re.compile(r"(?:Assistant|Agent|Report|Changed|Failed): ", re.IGNORECASE)  # "I" is not the user there
# What two do to each other is the same from either side.
_MUTUAL_LIST = """
meet meets met meeting marry marries married marrying wed date dates dated dating divorce divorces divorced equal equals
match matches matched matching resemble resembles resembled border borders hug hugs hugged kiss kisses kissed fight
fights fought know knows knew known treffen trifft traf kennt kannte heiratet heiratete
rencontre rencontré épouse épousé vs versus plus alongside gegen neben
"""
_MUTUAL = frozenset(map(stem, _MUTUAL_LIST.split()))
_HIM = frozenset({"him", "her", "them", "it", "ihn", "ihm", "ihr", "ihnen"})
_AHEAD = 3  # words from a pronoun to its verb: "he had just called"
_ASKS = ("?", "？")  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class _Word:
    """A word that says something, with what stands about it."""

    stem: str
    clause: int
    is_anchor: bool = False  # a name, a number or the user
    roles: frozenset[str] = frozenset()
    has_preposition: bool = False
    is_adverb: bool = False  # "each night"
    is_owner: bool = False  # "Anna's"
    is_subject: bool = False  # "I"
    is_passive: bool = False
    is_equal: bool = False  # behind "is": what stands before it and what behind may change places
    is_turned: bool = False  # it begins its clause only since that is turned
    is_reason: bool = False
    is_past: bool = False
    is_present: bool = False
    is_future: bool = False
    is_aim: bool = False  # "to migrate": what is done to it stands before
    is_aside: bool = False  # "Anna, who knows Bob, …": what is said behind it is said of somebody before


@dataclass(slots=True)
class _Text:
    """The words of a text; of each clause whether it is of its own and has a subject of its own, as far as one sees."""

    words: list[_Word] = field(default_factory=list)
    owns: list[bool] = field(default_factory=list)
    conditions: list[bool] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)  # of each, how far from it the one is that holds only if it does
    parts: list[bool] = field(default_factory=list)  # of each clause whether "and" or a comma joins it to the last


class _Held(NamedTuple):
    """The words of a passage, and for each where its clause begins and ends."""

    words: Sequence[_Word]
    begins: Sequence[int]
    ends: Sequence[int]
    is_passive: bool  # turned so that it tells by whom something is done
    alone: frozenset[int]  # clauses that begin a sentence, and whose subject is their own
    places: Mapping[str, Sequence[int]]  # of each stem


class _Clause(NamedTuple):
    """The words of a claim's clause that its sources know."""

    words: list[_Word]
    owns: bool
    is_part: bool
    is_condition: bool = False

    @property
    def is_lone(self) -> bool:
        """Say whether it is only a part of a list, and says nothing by itself; "never pip" does."""
        first = self.words[0]
        is_denied = _NOT in first.roles and not first.has_preposition
        return not is_denied and (len(self.words) == 1 or all(word.is_anchor for word in self.words))


def relates(text: str, sources: Iterable[str]) -> bool:
    """Say whether `text` joins what its sources hold as one of them does, clause by clause.

    Words that no source has are not looked at: those are the matter of grounding. What would take very many steps to
    follow is refused.
    """
    passages = _Passages(one for source in sources for one in _heard(source))
    known = passages.stems
    claim = _read(text)
    clauses: list[_Clause] = []
    for number, (owns, *flags) in enumerate(zip(claim.owns, claim.parts, claim.conditions, strict=True)):
        words = [word for word in claim.words if word.clause == number and word.stem in known]
        if words:
            # "Never push, and never rebase": each is an order.
            is_order = bool(clauses) and _is_order(words[0]) and _is_order(clauses[0].words[0])
            clauses.append(_Clause(words, owns or not clauses or is_order, *flags))
    reach = [True] + [False] * len(clauses)  # how many clauses are accounted for
    for end in range(1, len(clauses) + 1):
        reach[end] = any(reach[start] and _stands(clauses, start, end, passages) for start in reversed(range(end)))
    return reach[-1]


class _Deed(NamedTuple):
    """What one does to another, by the stems of the words."""

    agent: str
    verb: str
    patient: str
    roles: frozenset[str]  # "from", "before" and the like, ahead of the patient


def turns_round(text: str, sources: Iterable[tuple[str, str]]) -> bool:
    """Say whether `text` has two change places in what its sources say that one does to the other.

    Only of names and the user, and of one of these and a number, with nothing but a verb between them, in the active or
    the passive; and not where some source says it as `text` does, or may do so: with a pronoun, as "he called back".

    Args:
        text: one that would be told, with or without its label.
        sources: each as who says it, and what.
    """
    told = _deeds(text)
    if not told:
        return False
    verbs = {one.verb for one in told}
    held: set[_Deed] = set()
    said_so: set[tuple[str, str]] = set()
    for speaker, said in sources:
        for sentence in _SENTENCE_ENDS.split(said):
            folded = sentence.casefold()
            if len(sentence) > _LONGEST_SENTENCE or not any(verb in folded for verb in verbs):
                continue
            verbs -= _of_pronouns(sentence)
            spoken = f"{speaker}: {sentence}" if speaker else sentence
            said_so |= {(one.agent, one.patient) for one in _deeds(spoken, loosely=True) if one in told}
            if not sentence.rstrip("\"')»” ").endswith(_ASKS):
                held |= _deeds(spoken)
    pairs = {(one.agent, one.patient) for one in told} - said_so
    return any(_is_turned(told, held, verbs, *pair) for pair in pairs)


def _is_turned(
    told: AbstractSet[_Deed], held: AbstractSet[_Deed], verbs: AbstractSet[str], agent: str, patient: str
) -> bool:
    """Say whether all that stands between two in what is told stands between them the other way round."""
    between = [one for one in told if (one.agent, one.patient) == (agent, patient)]
    return all(one.verb in verbs and one._replace(agent=patient, patient=agent) in held for one in between)


@lru_cache(maxsize=1 << 14)
def _of_pronouns(sentence: str) -> frozenset[str]:
    """The stems of what somebody does who is named by a pronoun only, or what is done to one."""
    words = WORD.findall(sentence)
    found: set[str] = set()
    ahead = 0  # words that a pronoun may still belong to
    for at, word in enumerate(words):
        if ahead > 0 or (at + 1 < len(words) and words[at + 1].casefold() in _HIM):
            found.add(stem(word.casefold()))
        ahead = _AHEAD if word.casefold() in _PRONOUNS else 0 if word[0].isupper() else ahead - 1
    return frozenset(found)


@lru_cache(maxsize=1 << 14)  # each line of a reply is held against the same sentences
def _deeds(text: str, *, loosely: bool = False) -> frozenset[_Deed]:
    found: set[_Deed] = set()
    for _, group in groupby(_read(text).words, key=lambda word: word.clause):
        words = list(group)
        for i, k in pairwise(at for at, word in enumerate(words) if word.is_anchor):
            found.update(_deeds_between(words[i], words[i + 1 : k], words[k], loosely=loosely))
    return frozenset(one for one in found if _USER not in one[:3] or not _NO_USER.match(text))


def _deeds_between(first: _Word, between: Sequence[_Word], other: _Word, *, loosely: bool) -> Iterator[_Deed]:
    """What one of two does to the other by the words between them.

    Args:
        first: who is named first.
        between: the words.
        other: who is named next.
        loosely: also where it is done "to" or "for" somebody, as in other words for the same.
    """
    roles = other.roles & _ROLES
    is_passive = any(word.is_passive for word in between)
    if first.has_preposition or first.is_owner or other.is_owner or first.stem == other.stem:
        return
    if any(_NOT in word.roles for word in (*between, other)) or (first.stem[0].isdigit() and other.stem[0].isdigit()):
        return
    if any(word.is_equal for word in between):
        return
    if not loosely and (any(word.has_preposition for word in between) or other.has_preposition > bool(roles)):
        return
    for word in between:
        if word.stem in _MUTUAL:
            continue
        if not is_passive:
            yield _Deed(first.stem, word.stem, other.stem, roles)
        elif roles == {"by"}:
            yield _Deed(other.stem, word.stem, first.stem, frozenset())


def _is_order(word: _Word) -> bool:
    return _NOT in word.roles and not (word.is_anchor or word.has_preposition)


def _stands(clauses: Sequence[_Clause], start: int, end: int, passages: _Passages) -> bool:
    """Say whether some clauses together follow one passage, with the subject of those before where they have none."""
    if any(_belongs(clauses, at) for at in (start, end)):
        return False
    first = clauses[start]
    words = [word for clause in clauses[start:end] for word in clause.words]
    if first.is_lone and len(clauses) > 1 and (end - start == 1 or (first.is_part and start > 0)):
        shared = _shared(clauses, start) if end - start == 1 else ()
        return any(map(passages.hold, shared))
    if first.owns or (len(words) == 1 and not first.is_lone):
        return passages.hold(words)
    owning = [clause for clause in clauses[:start] if clause.owns]
    subject = next((one.words for one in reversed(owning) if len(one.words) > 1), owning[-1].words)
    heads = (subject[:length] for length in range(1, min(_LONGEST_SUBJECT, len(subject)) + 1))
    return any(passages.hold([*head, *words], len(head)) for head in heads)


def _belongs(clauses: Sequence[_Clause], at: int) -> bool:
    """Say whether a clause is one with that before it: what is so if something else is, is not so by itself."""
    is_between = 0 < at < len(clauses) and clauses[at].is_part
    return is_between and (clauses[at].is_condition or clauses[at - 1].is_condition)


def _shared(clauses: Sequence[_Clause], at: int) -> Iterator[list[_Word]]:
    """What a part of a list says with the words that it shares with the clause before or after it."""
    part = clauses[at].words
    before = next((one.words for one in reversed(clauses[:at]) if one.owns and len(one.words) > 1), None)
    if before is not None:
        if sum(word.is_anchor for word in before) == len(part):  # "Anna lives in Oslo and Bob in Bremen"
            names = iter(part)
            yield [next(names) if word.is_anchor else word for word in before]
        kept = next((i for i in range(len(before), 0, -1) if not before[i - 1].is_anchor), len(before))
        yield [*before[: min(kept, len(before) - 1)], *part]  # "uses Redis and Postgres"
    after = next((clause.words for clause in clauses[at + 1 :] if not clause.is_lone), None)
    if after is not None:
        first = next((i for i, word in enumerate(after) if not word.is_anchor), 1)
        yield [*part, *after[max(first, 1) :]]  # "Anna and Bob live in Oslo"


# --- following --------------------------------------------------------------------------------------------------------


class _Passages:
    """What the sources say, and how much may still be looked at in it."""

    def __init__(self, heard: Iterable[_Held]) -> None:
        self._heard = list(heard)
        self._holding: dict[str, set[int]] = defaultdict(set)
        for number, one in enumerate(self._heard):
            for each in one.places:
                self._holding[each].add(number)
        self._left = _MOST_STEPS

    @property
    def stems(self) -> AbstractSet[str]:
        """Of all their words."""
        return self._holding.keys()

    def hold(self, words: Sequence[_Word], head: int = 0) -> bool:
        """Say whether words stand in a passage in their order; the first `head` of them, and the next, side by side."""
        holding = sorted((self._holding.get(one, set()) for one in {word.stem for word in words}), key=len)
        numbers = sorted(set.intersection(*holding)) if holding and self._spend(1) else []
        return any(self._follows(words, self._heard[number], head) for number in numbers)

    def _follows(self, words: Sequence[_Word], held: _Held, head: int) -> bool:
        if held.is_passive and not any(word.is_passive for word in words):
            return False
        found = [j for j in _places(words[0], held) if self._begins(words[0], held, j)]
        for i in range(1, len(words)):
            if not found:
                return False
            found = [j for j in _places(words[i], held) if self._comes(words, i, held, found, j, head)]
        return any(words[-1].is_owner or not held.words[j].is_owner for j in found)  # "Anna" is not "Anna's"

    def _begins(self, word: _Word, held: _Held, j: int) -> bool:
        skipped = held.words[held.begins[j] : j]
        return self._spend(1 + len(skipped) // _FARTHEST) and _may_begin(word, skipped, held.words[j])

    def _comes(self, words: Sequence[_Word], i: int, held: _Held, found: Sequence[int], j: int, head: int) -> bool:
        """Say whether a word may stand at `j` where the one before it stands at one of the places found."""
        near = found[bisect_left(found, j - (1 if i <= head else _FARTHEST)) : bisect_left(found, j)]
        return any(self._spend(1) and (i <= head or _may_skip(words, i, held, at, j)) for at in reversed(near))

    def _spend(self, steps: int) -> bool:
        self._left -= steps
        return self._left >= 0


def _places(word: _Word, held: _Held) -> list[int]:
    return [j for j in held.places.get(word.stem, ()) if _is_same(word, held.words[j])]


def _is_same(word: _Word, held: _Word) -> bool:
    same = word.roles == held.roles
    same = same and (word.is_passive or not (held.is_passive and held.is_turned))
    same = same and (held.is_reason or not word.is_reason)
    same = same and not (held.is_past and (word.is_present or word.is_future))
    same = same and not (held.is_future and word.is_past)
    return same and (word.is_owner == held.is_owner or not held.is_anchor)


def _may_begin(word: _Word, skipped: Sequence[_Word], held: _Word) -> bool:
    """Say whether a clause may begin with a word of a passage before which some were left out."""
    if held.has_preposition and not word.has_preposition:
        return False
    subjects = [i for i, one in enumerate(skipped) if one.is_subject]
    if subjects and any(one.stem not in _SAYS for one in skipped[subjects[0] + 1 :]):
        return False
    rest = list(skipped)
    while rest and held.is_anchor and rest[-1].is_anchor and not rest[-1].is_subject:
        rest.pop()  # of a name of several words
    return not any(one.is_anchor and not one.is_owner and not one.is_subject for one in rest)


def _may_skip(words: Sequence[_Word], i: int, held: _Held, at: int, j: int) -> bool:
    """Say whether from the word at `at` of a passage on to that at `j` what lies between may be left out.

    Args:
        words: of the claim.
        i: which of them stands at `j`; the one before it at `at`.
        held: the passage.
        at: a place in it.
        j: a later one.
    """
    last, one, other = words[i - 1], held.words[at], held.words[j]
    if one.is_owner and j != at + 1 and not last.is_owner:
        return False
    if j != at + 1 and other.is_aim and not words[i].is_aim:  # "plans to move" is not "moves"
        return False
    joins = last.clause != words[i].clause
    is_lone = joins and _Clause([word for word in words if word.clause == last.clause], owns=True, is_part=True).is_lone
    if any(word.roles & _LIMITS for word in held.words[at + 1 : j]):
        return False  # "only the old logs" are not "the logs"
    if one.clause == other.clause:
        skipped = held.words[at + 1 : j]
        is_whole = not skipped or not (is_lone or _turns_subject(skipped, other) or any(map(_is_done, skipped)))
        return is_whole and _same_voice(words[i], held, j)
    behind = held.words[held.begins[j] : j]
    is_over = at == held.ends[at]  # nothing of the clause is left out behind
    if joins:
        return (is_over or not is_lone) and not any(word.is_anchor for word in behind)
    if one.is_aside > other.is_aside or any(number in held.alone for number in range(one.clause + 1, other.clause + 1)):
        return False
    if other.has_preposition and not words[i].has_preposition:
        return False
    items = held.words[held.begins[j] : held.ends[j] + 1]
    return not (behind or other.is_turned) and (is_over or not other.is_anchor or all(word.is_anchor for word in items))


def _is_done(word: _Word) -> bool:
    """Say whether without this word of a turned clause it would not be told what is done to whom."""
    return word.is_turned and not word.is_passive


def _turns_subject(skipped: Sequence[_Word], after: _Word) -> bool:
    """Say whether with what is left out somebody else's doing becomes the subject's: "Anna said Dora stole"."""
    names = len(skipped) > 1 and skipped[-1].is_anchor and not skipped[-1].stem.isdigit()
    return names and not any(word.has_preposition for word in skipped) and not after.is_anchor


def _same_voice(word: _Word, held: _Held, j: int) -> bool:
    """Say whether who acts and who is acted on are the same: "was hired" is not "hired Bob"."""
    if word.is_passive == held.words[j].is_passive or j == held.ends[j]:
        return True
    object_ = held.words[j + 1]
    return object_.has_preposition and "by" not in object_.roles


# --- reading ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _heard(source: str) -> tuple[_Held, ...]:
    """A source as it is said, and as its clauses may be turned.

    "B is A", "in May" in front or behind, "is kept" for "I keep", "is kept by Ann" for "Ann keeps" and back, and what
    is so if, when or because something else is before or behind that.
    """
    text = _read(source)
    clauses = [list(group) for _, group in groupby(text.words, key=lambda word: word.clause)]
    copulas = [next((i for i, word in enumerate(some) if word.is_equal), 0) for some in clauses]
    copulas = [at * all(_NOT not in word.roles for word in some) for some, at in zip(clauses, copulas, strict=True)]
    lasts = [max((i for i, word in enumerate(some) if _is_free(word)), default=0) for some in clauses]
    forms = [clauses]
    forms += [
        [_turned(some, at) if at else some for some, at in zip(clauses, turns, strict=True)]
        for turns in (copulas, lasts, map(_lead, clauses))
    ]
    forms += [[turn(some) for some in clauses] for turn in (_passive, _active)]
    forms += [[_by(some, verb) for some in clauses] for verb in range(1, _LONGEST_SUBJECT + 1)]
    forms.append(_exchanged(clauses, text))
    alone = frozenset(
        at for at, (owns, is_part) in enumerate(zip(text.owns, text.parts, strict=True)) if owns > is_part
    )
    others = (form for form in forms[1:] if not all(map(operator.is_, form, clauses)))
    return tuple(_held(form, alone) for form in (clauses, *others))


def _held(clauses: Iterable[Sequence[_Word]], alone: frozenset[int]) -> _Held:
    words: list[_Word] = []
    begins: list[int] = []
    ends: list[int] = []
    for some in clauses:
        begins += [len(words)] * len(some)
        words += some
        ends += [len(words) - 1] * len(some)
    is_passive = any(one.is_passive and one.is_turned and "by" in other.roles for one, other in pairwise(words))
    places: dict[str, list[int]] = defaultdict(list)
    for j, word in enumerate(words):
        places[word.stem].append(j)
    return _Held(words, begins, ends, is_passive, alone, places)


def _lead(words: Sequence[_Word]) -> int:
    """How many words there are before the subject: "every Monday at 10:00 the team", "in the summer Anna"."""
    end = 0
    while end < len(words) and _is_free(words[end]) and (words[end].is_anchor or words[end].is_adverb):
        end += 1
    return end or 2 * _is_free(words[0])


def _exchanged(clauses: Sequence[list[_Word]], text: _Text) -> list[list[_Word]]:
    """The clauses, each that says when, why or on what condition another is so on the other side of that."""
    found = list(clauses)
    at = 0
    while at + 1 < len(found):
        first, other = found[at][0], found[at + 1][0]
        leads = not text.parts[first.clause] and (first.has_preposition or _is_side(first, text))
        if text.parts[other.clause] and (leads or _is_side(other, text)):
            found[at : at + 2] = found[at + 1], found[at]
            at += 1
        at += 1
    return found


def _is_side(word: _Word, text: _Text) -> bool:
    return word.is_reason or text.conditions[word.clause]


def _is_free(word: _Word) -> bool:
    """Say whether a word begins what may stand at either end of a clause."""
    return word.has_preposition or word.is_adverb


def _turned(words: Sequence[_Word], at: int) -> list[_Word]:
    first, *rest = [*words[at:], *words[:at]]
    return [replace(first, is_turned=True), *rest]


def _passive(words: list[_Word]) -> list[_Word]:
    """What the speaker does, as what is done: "we keep the orders in a file" as "the orders are kept in a file"."""
    if len(words) < 3 or not words[0].is_subject or words[1].is_anchor or words[1].has_preposition:
        return words
    end = next((i for i in range(2, len(words)) if _is_free(words[i])), len(words))
    if end == 2 or words[1].is_passive:
        return words
    first, *rest = words[2:end]
    return [
        replace(first, is_turned=True),
        *rest,
        replace(words[1], is_passive=True, is_turned=True),
        *words[end:],
        words[0],
    ]


def _by(words: list[_Word], verb: int) -> list[_Word]:
    """What the word at `verb` may tell that somebody does, as what is done by them."""
    end = next((i for i in range(verb + 1, len(words)) if _is_free(words[i])), len(words))
    if end < verb + 2 or words[0].is_subject or any(word.roles or word.is_passive for word in words[:end]):
        return words
    if words[verb].is_anchor or any(_is_free(word) for word in words[: verb + 1]):
        return words
    agent = replace(words[0], roles=frozenset({"by"}), has_preposition=True)
    first, *rest = words[verb + 1 : end]
    done = replace(words[verb], is_passive=True, is_turned=True)
    return [replace(first, is_turned=True), *rest, done, agent, *words[1:verb], *words[end:]]


def _active(words: list[_Word]) -> list[_Word]:
    """What is done by somebody, as what they do."""
    verb = next((i for i, word in enumerate(words) if word.is_passive), 0)
    by = next((i for i in range(verb + 1, len(words)) if words[i].roles == {"by"}), 0)
    if not verb or not by or any(word.roles for word in words[:by]):
        return words
    end = next((i for i in range(by + 1, len(words)) if _is_free(words[i])), len(words))
    agent = replace(words[by], roles=frozenset(), has_preposition=False, is_turned=True)
    done = replace(words[verb], is_passive=False, is_turned=True)
    return [agent, *words[by + 1 : end], done, *words[:verb], *words[verb + 1 : by], *words[end:]]


@lru_cache(maxsize=512)
def _read(text: str) -> _Text:
    found = _Text()
    body = _LABEL.sub("", plain(text), count=1)
    speaker = _SPEAKER.match(body)
    reader = _Reader(found, speaker[1] if speaker else "")
    for piece in _PIECES.finditer(body):
        reader.take(piece.lastgroup or "", piece[0])
    found.words = _limited(found)
    found.words = list(_with_shared_roles(found))
    return found


def _limited(text: _Text) -> list[_Word]:
    """The words of a text, those of what is so only if something else is marked by that."""
    limited = {number + way for number, way in enumerate(text.limits) if way}
    aims = {one.clause: at for at, one in enumerate(text.words) if one.is_aim}  # "is willing to help if …" is willing
    return [
        replace(one, roles=one.roles | {_IF_SO}) if one.clause in limited and at >= aims.get(one.clause, 0) else one
        for at, one in enumerate(text.words)
    ]


def _with_shared_roles(text: _Text) -> Iterator[_Word]:
    """The words of a text, those of a list with the part that its first one has: "by Ann and Ben"."""
    last: _Word | None = None
    for number, group in groupby(text.words, key=lambda word: word.clause):
        words = list(group)
        is_item = text.parts[number] and _Clause(words, owns=False, is_part=True).is_lone
        if last is not None and is_item and words[0].is_anchor and not words[0].has_preposition:
            words[0] = replace(
                words[0], roles=words[0].roles | (last.roles - _MARKS), has_preposition=last.has_preposition
            )
        last = words[0] if is_item else words[-1]
        yield from words


class _Reader:
    """Takes the pieces of a text in order."""

    def __init__(self, text: _Text, speaker: str) -> None:
        """Prepare for a text that somebody says, whose name it begins with; without one the user says it."""
        self._text = text
        self._speaker = [word.casefold() for word in WORD.findall(speaker)]
        self._tells = False
        self._last = ""
        self._begin(owns=True)
        self._starts_sentence = True

    def _begin(self, *, owns: bool, tells: bool = False) -> None:
        """Begin a clause; one that tells what somebody else says is not said by itself."""
        text = self._text
        if not text.owns or (text.words and text.words[-1].clause == len(text.owns) - 1):
            text.owns.append(owns)
            text.parts.append(not owns)
            text.conditions.append(False)
            text.limits.append(0)
        elif owns:
            text.owns[-1], text.parts[-1] = True, False
        self._has_pronoun = self._is_future = self._is_reason = self._is_aside = self._tells = False
        self._polarity: frozenset[str] = frozenset({_TOLD} if tells else ())
        self._last = ""
        self._next()
        self._is_first = True

    def _next(self) -> None:
        self._roles: frozenset[str] = frozenset()
        self._preposition = self._be = self._was = self._determined = self._adverb = False

    def take(self, kind: str, piece: str) -> None:
        """Take one piece."""
        if piece == ":" and self._is_key():
            return  # whose number, say, is told behind it
        if kind in {"end", "hard", "soft"}:
            self._begin(owns=kind != "soft", tells=self._tells and piece == ":")
            self._starts_sentence = self._starts_sentence or kind == "end"
        elif kind in {"number", "mark"}:
            self._add(piece.casefold(), is_anchor=True)
            self._starts_sentence = False
        else:
            self._word(piece)
            self._starts_sentence = False

    def _is_key(self) -> bool:
        """Say whether there is nothing in a clause yet but a name: "Anna: 030-111, Bob: 030-222"."""
        here = [word for word in self._text.words if word.clause == len(self._text.owns) - 1]
        return not self._tells and bool(here) and all(word.is_anchor for word in here)

    def _word(self, piece: str) -> None:
        word = piece.casefold()
        bare = word.removesuffix("'s")
        is_large = piece[0].isupper() and not (self._starts_sentence and (word in _ADVERBS or word.endswith("ly")))
        if is_large and not self._starts_sentence and word in STOP and word not in _GRAMMAR:
            self._add(word, is_anchor=True)
        elif word in _SOFT:
            ahead = not self._text.words or self._last in _AND
            turned = self._polarity if word in _THAT else frozenset[str]()  # "it is false that …", "denied that …"
            self._begin(owns=False, tells=self._tells and word in _THAT)
            self._polarity |= turned
            self._text.conditions[-1] = word in _CONDITIONS
            self._text.limits[-1] = (1 if ahead or self._starts_sentence else -1) if word in _IF else 0
            self._is_reason, self._is_aside = word in _REASONS, word in _WHO
        elif word in _SELF or bare == "user":
            is_subject, is_owner = word in _I or word == "user", word in _MINE or word == "user's"
            for name in [_USER] if bare == "user" else self._speaker or [_USER]:
                self._add(name, is_anchor=True, is_subject=is_subject, is_owner=is_owner)
        elif not self._is_small(word) and bare not in STOP:
            for unit in units(word):
                if len(unit) > 1 or prose.is_wide(unit) or is_large:
                    self._add(unit, is_anchor=is_large, is_owner=word.endswith("'s"), ending=word)
        self._last = word

    def _is_small(self, word: str) -> bool:
        """Note what a word that says nothing by itself tells of those that follow; say whether it is one."""
        if word in _PRONOUNS:
            if self._is_first:
                self._has_pronoun, self._text.owns[-1] = True, False
            self._polarity -= {_TOLD}  # "Dora says that she …"
            return True
        if word in _NOBODY and _NOT not in self._polarity:  # "owes nothing" denies what stands before it, too
            words, here = self._text.words, len(self._text.owns) - 1
            words[:] = [replace(one, roles=one.roles | {_NOT}) if one.clause == here else one for one in words]
        if negations(word) or word in _NOBODY:
            self._polarity |= {_NOT}
        elif word in REVERSES:
            self._polarity |= {stem(word)}
        self._qualify(word)
        self._be = self._be or word.removesuffix("n't") in _BE
        self._was = self._was or word in {"was", "were"}
        self._roles |= {word} & _ROLES
        self._preposition = self._preposition or word in _PREPOSITIONS
        self._determined = self._determined or word in _DETERMINERS
        self._adverb = self._adverb or word in _EACH
        return word in STOP or word in _SMALL or word in _QUALIFIES

    def _qualify(self, word: str) -> None:
        """Note by what a clause is only perhaps so, not yet or no more, or only somebody's word."""
        here = self._text.words[-1:] if not self._is_first else []
        if self._is_first and not self._has_pronoun and word in _MODALS:
            return
        if word in _HEDGES:
            self._polarity |= {_HEDGES[word]}
        elif word in _TELLS and here and not here[0].is_subject:
            self._tells = True
            self._polarity |= {_TOLD}
        elif word == "to" and self._last == "used" and not self._be:
            self._polarity |= {_ONCE}
        self._is_future = self._is_future or word in _FUTURE

    def _add(
        self,
        unit: str,
        *,
        is_anchor: bool,
        is_subject: bool = False,
        is_owner: bool = False,
        ending: str = "",
    ) -> None:
        text = self._text
        if self._is_first and (is_anchor or self._determined) and not (self._has_pronoun or self._preposition):
            text.owns[-1] = True
        is_passive = self._be and (ending.endswith(("ed", "en")) or ending in _PARTICIPLES)
        # "is in Oslo" and "is failing" do not say what something is.
        is_equal = self._be and not (self._is_first or self._preposition or is_passive or ending.endswith("ing"))
        text.words.append(
            _Word(
                unit if is_anchor and unit == _USER else stem(unit),
                len(text.owns) - 1,
                is_anchor,
                self._roles | self._polarity,
                self._preposition,
                self._adverb,
                is_owner,
                is_subject,
                is_passive,
                is_equal,
                is_reason=self._is_reason,
                is_past=self._was or (ending.endswith("ed") and not is_passive),
                is_present=not (is_passive or self._was or self._determined) and (self._be or ending.endswith("s")),
                is_future=self._is_future and not ending.endswith("ed"),
                is_aim=self._last == "to" and not is_anchor,
                is_aside=self._is_aside,
            )
        )
        roles, preposition = self._roles, self._preposition
        self._next()
        if is_subject:  # "before you commit", "before we commit" and "before a commit"
            self._roles, self._preposition = roles, preposition
        self._is_first = False
