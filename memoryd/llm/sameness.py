"""Sameness: whether two texts say the same, told by a form that keeps every word that could change what is said.

Sketches of word sets such as MinHash (Broder 1997) find texts that are alike, and so does the share of common words by
which `jobs.duplicates` goes; but memories that are most alike often differ in the one word that matters: a colour, a
version, a unit, from and to. What is merged is gone, so here two texts are the same only where their words are equal
and in order after what changes nothing is taken away: sentence marks, emphasis, contractions, politeness, the capital
that begins a sentence, whether a clause of time or reason stands first or last, and whether the user, by name, says "I"
or is called "the user". Equal forms are looked up, so no two texts are compared and ten thousand take one pass.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Form = tuple[str, ...]

_LABEL = re.compile(r"^(?:[-*+]\s+)?(?:(User|Assistant|Agent|Decision|Learned|Event):\s+)?")
_FIRST = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|me|my|mine|we|we're|we've|us|our|ours|you|your|yours)\b", re.IGNORECASE)
_SELF = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|me|my|mine|we|we're|we've|us|our|ours)\b", re.IGNORECASE)
_MEASURED = re.compile(r"\d[\d.,]*['\"]")  # feet, inches, minutes of arc: no end of a quotation
_FRONT = re.compile(
    r"((?:before|after|when|whenever|while|if|unless|until|once|because|since|in|on|at|for|during|with|without)\b"
    r"[^,.;:!?]+), ([^,.;:!?]+)[.!]?",
    re.IGNORECASE,
)
_STARTS, _ENDS = "\"'“”„‘«»(`", "\"'“”‘’«»)`.,;:!…"  # noqa: RUF001
_EMPHASIS = re.compile(r"(?<!\S)(\*{1,3})(?=[^\s*])([^*\n]+?)(?<=[^\s*])\1(?=[\s.,;:!?)]|$)")
_EMPTY = frozenset({"the", "please", "really", "actually", "basically", "simply", "kindly", "also"})
_DASHES = frozenset(["", "-", "–", "—"])  # noqa: RUF001
_I = frozenset({"I", "I'm", "I've", "I'd", "I'll"})
_FULL_LISTS = """
can't cannot: can not
won't: will not
shan't: shall not
i'm: i am
it's: it is
that's: that is
there's: there is
let's: let us
"""
_FULL = {
    short: line.partition(":")[2].split()
    for line in _FULL_LISTS.strip().splitlines()
    for short in line.partition(":")[0].split()
}
_TAILS = {"n't": "not", "'re": "are", "'ve": "have", "'ll": "will"}
# What a model writes of the user in the third person, and how the user says it.
_SAID_LIST = """
prefers:prefer likes:like loves:love hates:hate dislikes:dislike wants:want needs:need uses:use lives:live works:work
has:have is:am does:do
"""
_SAID = dict(pair.split(":") for pair in _SAID_LIST.split())


def form(text: str) -> Form:
    """Return what two texts that say the same have in common; empty for a text without words."""
    plain = " ".join(unicodedata.normalize("NFKC", text).replace("’", "'").split())  # noqa: RUF001
    label = _LABEL.match(plain)
    speaker, body = (label[1] or "", plain[label.end() :]) if label else ("", plain)
    if found := _FRONT.fullmatch(body):
        body = f"{found[2]} {found[1][0].lower()}{found[1][1:]}"
    words = _words(_EMPHASIS.sub(r"\2", body))
    if speaker in {"Assistant", "Agent"} and _FIRST.search(body):
        return ("assistant:", *words)
    if not speaker and _SELF.search(body):
        return ("somebody:", *words)  # of what stands in a core, an agent may have written it of itself
    return tuple(_by_user(words)) if speaker in {"", "User"} else tuple(words)


def groups(texts: Iterable[str]) -> list[list[int]]:
    """Return the places of texts that say the same, each group in order, groups by their first; single ones too."""
    found: dict[Form, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        found[form(text) or ("", str(place))].append(place)
    return list(found.values())


def _words(body: str) -> list[str]:
    tokens = body.split()
    words: list[str] = []
    begins = True
    for at, token in enumerate(tokens):
        bare = token.lstrip(_STARTS).rstrip(_ENDS + "?")
        if measured := _MEASURED.match(token):
            bare = bare if len(bare) > measured.end() else measured[0]
        is_minus = bare in _DASHES and at + 1 < len(tokens) and tokens[at + 1][0].isdigit()
        if bare not in _DASHES or is_minus:
            words += _full(bare, begins=begins)
        words += ["?"] if token.rstrip(_ENDS).endswith("?") else []
        begins = token.rstrip("\"'”’)`")[-1:] in {".", "!", "?", ":", "…"}  # noqa: RUF001
    return words


def _full(word: str, *, begins: bool) -> list[str]:
    """Return the words that `word` is short for, without the capital that begins a sentence; none for an empty one."""
    if (begins and word[1:] == word[1:].casefold()) or word in _I:
        word = word.casefold()
    if word in _EMPTY:
        return []
    if word in _FULL:
        return list(_FULL[word])
    for tail, full in _TAILS.items():
        if word.endswith(tail) and word != tail:
            return [word.removesuffix(tail), full]
    return [word]


def _by_user(words: list[str]) -> list[str]:
    """Return the words as the user says them, where they begin with what the user is, has or does."""
    if words[:1] == ["user's"]:
        return ["my", *words[1:]]
    if words[:1] == ["user"] and len(words) > 1 and words[1] in {*_SAID, "always", "never"}:
        return ["i", *(_SAID.get(word, word) if at == 0 else word for at, word in enumerate(words[1:]))]
    return words
