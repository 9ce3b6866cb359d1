"""Restatement: whether a claim says again what a passage says, and nothing else.

The words of the claim stand in the passage in their order; nothing that turns a statement round is on one side only;
the subject is the same; and what is liked is what was said to be liked. A model may leave words out and add only such
as frame a sentence. The checks are for the ways in which true words are made to say something else: another's wish
taken for the user's ("my boss prefers A"), the other thing ("A rather than B"), a like that was never spoken of ("open
the page of A").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from memoryd.ledger.reversal import REVERSES, reversals
from memoryd.text import prose
from memoryd.text.wording import STOP, fold, is_form, units

if TYPE_CHECKING:
    from collections.abc import Sequence

# What a claim may add: words that frame a sentence. Those of liking, wanting and using say something of their own.
_FRAMING_LIST = """
a after agent all also an and any are as ask asked asks assistant at be because been before both but by can
could decision did do does done each event for from had has have he her him his how i i'd i'm i've
if in is it its just learned me mine more most my myself of on open or our ours please report said says she should since
so some tells than that the their them then there these they this those to today told us user users very was we we're
we've were what when where which who why will with would yesterday you your
"""
_FRAMING = frozenset(_FRAMING_LIST.split())
_LIKES_LIST = """
prefer prefers preferred prefered preference preferences like likes liked love loves loved enjoy enjoys enjoyed
favourite favorite favourites favorites favours favors fond bevorzuge bevorzugt bevorzugen mag mögen liebe liebt lieber
préfère préfères préférons aime aimes adore adorons prefiero prefiere preferimos gusta gustan encanta preferisco
preferisce piace piacciono adoro prefiro prefere gosto gosta voorkeur verkies люблю любит любим предпочитаю предпочитает
нравится
"""
_LIKES = frozenset(_LIKES_LIST.split())
_WANTS_LIST = """
want wants wanted wish wishes möchte möchten will wollen wünsche veux veut voudrais voulons quiero quiere queremos
voglio vuole vorrei quero quer queremos wil willen хочу хочет хотим
"""
_WANTS = frozenset(_WANTS_LIST.split()) - {"will"}
_USES = frozenset({"use", "uses", "used", "using"})
_FIRST_LIST = """
i i'm i've i'd i'll my mine me myself we we're we've we'd our ours us let's
ich mich mir mein meine meinen meinem meiner meines wir uns unser unsere unseren unserem
je j'ai moi mon ma mes nous notre nos yo mi mis nosotros nuestro nuestra nuestros io mio mia miei noi nostro
eu meu minha nós nosso nossa ik mijn wij ons onze я мне меня мой моя моё мои мы нам наш наша
"""
_FIRST = frozenset(_FIRST_LIST.split())
_OTHERS_LIST = (
    "he she it they him her them his their er sie es ihr ihm il elle ils elles él ella ellos lui lei он она они"
)
_OTHERS = frozenset(_OTHERS_LIST.split())
_COMPARES_LIST = """
over than to instead versus vs als denn au aux que à a da do чем nor not
"""
_COMPARES = frozenset(_COMPARES_LIST.split())
_LEADS_UP_LIST = """
bitte ab jetzt künftig fortan also übrigens désormais dorénavant dès merci favor ahora adelante ora prego doravante
agora voortaan graag пожалуйста теперь now onwards generally usually normally general future
"""
_LEADS_UP = frozenset(_LEADS_UP_LIST.split())
_WIDE_FREE = (
    "我",
    "我们",
    "我們",
    "咱",
    "私",
    "私は",
    "私も",
    "僕は",
    "俺は",
    "请",
    "請",
    "也",
    "都",
    "很",
    "真的",
    "一直",
    "后",
    "後",
    "记住",
    "記住",
    "注意",
)
_LIKE, _WANT, _END = "♥", "→", "."


@dataclass(frozen=True, slots=True)
class _Word:
    """One word of a passage; `_END` stands between two sentences."""

    text: str
    is_content: bool


def restates(claim: str, sentences: Sequence[str]) -> bool:
    """Say whether `claim`, a text without its label, is what these sentences, one or two, say.

    Args:
        claim: in any form.
        sentences: folded, in the order they were said.
    """
    claimed = _tokens(fold(claim))
    asked = [word for word in claimed if word in {_LIKE, _WANT} or word not in _FRAMING]
    if not any(word not in REVERSES and word not in {_LIKE, _WANT} for word in asked):
        return False
    held, turned = _heard(tuple(sentences))
    if turned != reversals(claim):
        return False
    found = _aligned(asked, held)
    if found is None:
        return False
    return _same_subject(held, found, claimed) and not _skips_a_sentence(held, found) and not _other_thing(held, found)


def _tokens(folded: str) -> list[str]:
    """Return the words of a folded text, those of liking and wanting as one sign each, contracted nots as `not`."""
    found: list[str] = []
    for word in units(folded):
        if word.endswith("n't"):
            found.append("not")
        elif word in {"like", "love"} and found[-1:] in (["would"], ["i'd"], ["we'd"]):
            found.append(_WANT)
        elif word in _LIKES or word in _WANTS:
            found.append(_LIKE if word in _LIKES else _WANT)
        else:
            found.append(word)
    return found


@lru_cache(maxsize=4096)
def _heard(sentences: tuple[str, ...]) -> tuple[list[_Word], tuple[int, frozenset[str]]]:
    """Return the words of a passage, and all that turns one of its sentences round."""
    turned = [reversals(sentence) for sentence in sentences]
    marks = frozenset(mark for _, some in turned for mark in some)
    return _words(sentences), (sum(count for count, _ in turned), marks)


def _words(sentences: Sequence[str]) -> list[_Word]:
    found: list[_Word] = []
    for sentence in sentences:
        found += [_Word(_END, is_content=False)] if found else []
        found += [_Word(word, _is_content(word)) for word in _tokens(sentence)]
    return found


def _is_content(word: str) -> bool:
    if word in {_LIKE, _WANT} or word in _USES:
        return True
    framing = word in _FRAMING or word in STOP or word in _LEADS_UP or word.endswith("ly")
    return not framing and word not in REVERSES


def _aligned(asked: Sequence[str], held: Sequence[_Word]) -> list[int] | None:
    """Return where in the passage each word asked for stands, in order; None where one does not."""
    found: list[int] = []
    at = -1
    for word in asked:
        at = next((i for i in range(at + 1, len(held)) if is_form(word, (held[i].text,))), -1)
        if at < 0:
            return None
        found.append(at)
    return found


def _same_subject(held: Sequence[_Word], found: Sequence[int], claimed: Sequence[str]) -> bool:
    """Say whether nothing was left out before the first word but what leads up to the speaker's I."""
    first = found[0]
    start = max((i + 1 for i in range(first) if held[i].text == _END), default=0)
    before = held[start:first]
    if prose.is_wide(held[first].text):
        pairs = [word.text for word in before if prose.is_wide(word.text)]
        said = "".join(pair[0] for pair in pairs)
        if pairs and pairs[-1][-1] != held[first].text[0]:  # another run of characters: its last one began no pair
            said += pairs[-1][1:]
        return not said or said.endswith(_WIDE_FREE)
    last_first = max((i for i, word in enumerate(before) if word.text in _FIRST), default=-1)
    left_out = [word for word in before[last_first + 1 :] if word.text not in claimed]
    return not any(word.is_content or word.text in _OTHERS for word in left_out)


def _skips_a_sentence(held: Sequence[_Word], found: Sequence[int]) -> bool:
    """Say whether the claim goes from one sentence to the next and leaves out content between."""
    for one, two in pairwise(found):
        between = held[one + 1 : two]
        if any(word.text == _END for word in between) and any(word.is_content for word in between):
            return True
    return False


def _other_thing(held: Sequence[_Word], found: Sequence[int]) -> bool:
    """Say whether what the claim names as liked or wanted is what the passage compares it with."""
    for one, two in pairwise(found):
        if held[one].text not in {_LIKE, _WANT}:
            continue
        between = held[one + 1 : two]
        dropped = next((i for i, word in enumerate(between) if word.is_content), None)
        if dropped is not None and any(word.text in _COMPARES for word in between[dropped:]):
            return True
    return False
