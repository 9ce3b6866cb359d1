"""Reversal: what turns a statement round, so that "never use tabs" is never taken for "use tabs".

And what hands it to somebody else or leaves it open: who only tells what a page says, asks, supposes, or tells of what
was, has not said it.
"""

from __future__ import annotations

import re

from memoryd.text.wording import WORD, fold

_NOT = re.compile(
    r"^(?:not|no|never|none|without|cannot|nicht|kein\w*|nie|niemals|ohne|ne|pas|jamais|sans|nunca|jamás|sin|non|mai|"
    r"senza|não|sem|niet|geen|nooit|zonder|не|ни|никогда|без|inte|ikke|aldrig|aldri|utan|uten|uden|ei|eivät|nigdy|není|"
    r"nem|nu|değil|yok|δεν|μην|tidak|bukan|jangan|không|chưa|لا|لم|لن|ليس|ليست|غير|بدون|לא|אין|नहीं|मत|बिना)$"
    r"|n't$|m[ıiuü]yor"  # noqa: RUF001
)
# Scripts without spaces negate inside a run: "不要用", "使わないで".
_WIDE_NOT = re.compile(r"不|没|沒|別|别|勿|ない|なかった|ません|ず(?:に)?$")
# One line for each: its forms.
_REVERSES_LISTS = """
avoid avoids avoided avoiding
stop stops stopped stopping quit quits
except
unless
without
instead
rather
hate hates hated hating
dislike dislikes disliked
refuse refuses refused
never
not
no
against
wrong false untrue incorrect rumour rumor rumours rumors
doubt doubts doubted
deny denies denied denying
lack lacks lacked lacking
hardly barely rarely seldom
former formerly ex
hasse hasst
statt anstatt anstelle
außer
vermeide vermeidet vermeiden
évite évitez éviter
déteste détestes détester
sauf
odio odia
evita evitar evito
salvo excepto
invece
tranne
behalve
haat
вместо
кроме
ненавижу ненавидит
"""
_REVERSES = {form: line.split()[0] for line in _REVERSES_LISTS.strip().splitlines() for form in line.split()}
REVERSES = frozenset(_REVERSES)
_DISTANCES_LIST = """
if whether suppose supposing imagine pretend maybe perhaps might possibly allegedly supposedly reportedly according
say says said claims claimed states stated suggests suggested recommends recommended writes wrote tell tells told
advises advised thinks believes read reads asked asks formerly joke joking
wenn falls sofern angenommen vielleicht womöglich angeblich laut sagt sagte meint meinte behauptet schreibt schrieb
empfiehlt rät früher
si selon dit disait écrit recommande conseille affirme supposons
quizás quizá según dice dijo recomienda aconseja supongamos
se forse secondo disse consiglia
talvez segundo diz recomenda
misschien volgens zegt
если возможно согласно говорит сказал сказала советует рекомендует якобы
"""
_DISTANCES = frozenset(_DISTANCES_LIST.split())
_WIDE_DISTANCE = re.compile(
    r"如果|假如|要是|也许|也許|据说|據說|[他她它页頁件上里]说|[他她它页頁件上裡]說|写道|寫道|建议|建議|根据|根據"
    r"|もし|かもしれ|らしい|と言っ|と書い|によると"
)
_ONCE = re.compile(r"\bused to\b|\bpeut-être\b|\bmay be\b")
# What the speaker says that they say is theirs.
_OWN_SAYING = re.compile(
    r"\b(?:as )?(?:i|we)(?: have|'ve)?(?: just| already)? (?:said|say|told|tell|mentioned|wrote|asked|ask)\b(?: you)?"
    r"|\b(?:wie )?ich (?:schon |bereits )?(?:sagte|meinte|schrieb)\b|\b(?:comme )?je (?:l'ai )?dis\b|\btell me\b"
)
_QUESTION = re.compile(r"(?:.*\w)?+\W*?[?？؟]", re.DOTALL)  # noqa: RUF001
_REQUEST = re.compile(
    r"^\W*(?:(?:please|ok|okay|and|so|also|hey|bitte|por favor)\W+)*(?:"
    r"(?:can|could|would|will|won't|can't) (?:you|we)\b|would you\b|(?:kannst|könntest|könnten|würdest|würden|können) "
    r"(?:du|sie|wir)\b|(?:peux|pourrais|pouvez|pourriez|veux|voudrais)[- ](?:tu|vous)\b|(?:tu peux|vous pouvez)\b|"
    r"(?:puedes|podrías|puede|podría|podemos)\b|(?:puoi|potresti|può|potrebbe)\b|(?:pode|poderia|você pode)\b|"
    r"(?:kun|kan|zou|wil) (?:je|u|jij)\b|(?:можешь|можете|мог бы|могли бы|не мог)\b)"
    r"|能不能|可不可以|可否|能否|可以.{0,40}[吗嗎]|(?:くれ|もらえ|いただけ)(?:ます|ません|る|ない)"
)


def negations(text: str) -> int:
    """Return how many words of `text` negate."""
    folded = fold(text)
    return sum(1 for word in WORD.findall(folded) if _NOT.search(word)) + len(_WIDE_NOT.findall(folded))


def reversals(text: str) -> tuple[int, frozenset[str]]:
    """Return what must be the same in two texts that mean the same: how often they negate, and what else turns them."""
    folded = fold(text)
    marks = {_REVERSES[word] for word in WORD.findall(folded) if word in _REVERSES and not _NOT.search(word)}
    return negations(folded), frozenset(marks) | distances(folded)


def distances(text: str) -> frozenset[str]:
    """Return the words by which `text` is not simply said: told of others, asked, supposed, or of the past."""
    folded = _OWN_SAYING.sub(" ", fold(text))
    marks = _DISTANCES.intersection(WORD.findall(folded))
    marks |= {*_WIDE_DISTANCE.findall(folded), *_ONCE.findall(folded)}
    is_asked = _QUESTION.match(folded) and not _REQUEST.search(folded)
    return frozenset(marks | ({"?"} if is_asked else set()))
