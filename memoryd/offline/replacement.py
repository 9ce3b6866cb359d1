"""Find out whether a person's later statement plainly ends an earlier one, or gives its subject another value.

A later statement ends an earlier one in two cases. First, it says so in plain words ("no longer", "instead of", "from A
to B", "is now") and contains all words of the earlier one, except for nouns that only name the kind of a value. Second,
it has the same words in another order. If two statements give one subject different values without such words, they
compete, and both stay. A question, plan or supposition ends nothing. `replacement.txt` has the wordings.
"""

# ruff: noqa: RUF001 - the cues of other languages

import re
from functools import lru_cache
from typing import NamedTuple

from memoryd.offline.words import list_content_words
from memoryd.text import normal, prose
from memoryd.text.content import strip_label
from memoryd.text.sentences import list_texts
from memoryd.text.word_lists import compile_patterns, list_words
from memoryd.text.wording import STOP, expand, find_stem, fold

# Case matters only in some of these cues; most of the texts are folded.
_CUES = compile_patterns(__name__, "replacement.txt", dict.fromkeys(("marks", "third", "first", "wide generic"), 0))
_STAMP = re.compile(r"\s*\((?:as of )?\d{4}[-\d/]*\)")
_CLAUSE = re.compile(r"[,;:—–、](?=\D)|\s(?:and|but|und|aber|sondern|et|mais|y|pero|sino|e|ma|mas|en|maar|и|а|но)\s")
_CHANGES = tuple(pattern for name, pattern in _CUES.items() if name.startswith("change "))
# Words without content that such statements have besides stop words, one form of each.
_GENERIC = frozenset(find_stem(fold(word)) for word in list_words("generic"))
# Nouns that only name the kind of a value, such as a colour or a city.
_KINDS = frozenset(find_stem(expand(fold(word))) for word in list_words("kinds"))
_PARTICLES = re.compile(r"(?<=[\uac00-\ud7afA-Za-z0-9])(?:에서|으로|로|은|는|이|가|을|를|에|의|도|와|과)(?=\s|$|[.,])")
_TOKEN = re.compile(r"[^\W_]+(?:[.'-][^\W_]+)*")
_PARTS = re.compile(r"[\u4e00-\u9fff\u3005]+|[\u30a0-\u30ff]+|[\u0e00-\u0eff]+|[^\u3040-\u30ff\u4e00-\u9fff\u3005]+")
_DECIDED = frozenset(map(find_stem, list_words("decided")))
_LONGEST = 300  # characters; longer sentences are skipped, because the time grows with the square of the length
_LONGEST_VALUE = 5  # words
_FEWEST_REORDERED = 3
_SAME_SUBJECT = 0.6  # statements about one thing share at least this part of their content words, without numbers
_FEWEST_SHARED = 3
_MOST_BEFORE = 2  # the most words before "instead of" in a sentence that does not say who uses the new thing


class ParsedStatement(NamedTuple):
    """Hold the content of a statement in a form that can be compared with others."""

    words: frozenset[str]  # stems of its content words, with numbers
    order: tuple[str, ...]  # all its words, sorted, so that the order does not matter
    subject: str  # the subject that gets a value; empty without one
    value: str
    shape: tuple[str, ...]  # the form of the value: its stop words, "number" and "name"


@lru_cache(maxsize=1 << 15)
def read(text: str) -> ParsedStatement:
    """Return the parsed content of `text`. A question or a supposition has no value."""
    body = _STAMP.sub("", strip_label(text)).strip()
    said = fold(body)
    order = tuple(sorted(said if prose.is_wide(said) else _TOKEN.findall(normal.normalize(body))))
    return ParsedStatement(_words(said), order, *_parse_value(body))


@lru_cache(maxsize=1 << 12)
def find_ended(text: str) -> tuple[frozenset[str], ...]:
    """Return, for each thing that `text` plainly says has ended, its words; empty for a question or a supposition."""
    said = fold(_CUES["reason"].sub("", _STAMP.sub("", strip_label(text))))
    is_plain = not prose.QUESTION_END.search(said) and not _CUES["supposed"].search(said)
    return tuple(one for one in (_find_ended(said) if is_plain else ()) if one)


def is_ended_by(newer: str, older: str) -> bool:
    """Return True if `newer`, a later statement, plainly says that `older` no longer holds."""
    if len(list_texts(_STAMP.sub("", strip_label(older)))) != 1:
        return False
    # If a decision ends, its reason ends too.
    words = read(_CUES["reason"].sub("", older)).words - _KINDS - _DECIDED
    if _reorders(newer, older) or (words and words <= read(newer).words and _ends(newer, older)):
        return True
    return _CUES["now"].search(fold(newer)) is not None and _is_other_value(newer, older)


def is_outdated_by(newer: str, older: str) -> bool:
    """Return True if `newer`, which comes later in the same work, denies `older` or repeats it with another number."""
    held, told = _list_keys(older), _list_keys(newer)
    words = [frozenset(key for key in keys if not key[0].isdigit()) for keys in (held, told)]
    shared, most = len(words[0] & words[1]), max(map(len, words))
    if shared < max(_FEWEST_SHARED, _SAME_SUBJECT * most):
        return False
    is_denied = denies(newer) and not denies(older)
    return is_denied or bool(held - told - words[0] and told - held - words[1]) or is_ended_by(newer, older)


@lru_cache(maxsize=1 << 12)
def _list_keys(text: str) -> frozenset[str]:
    return frozenset(list_content_words(strip_label(text)))


def is_competing(newer: str, older: str) -> bool:
    """Return True if both give the same subject different values, and nothing says which one is true."""
    words = read(older).words
    about = [words - gone for gone in find_ended(newer) if gone <= words]
    is_of_subject = any(rest & read(newer).words for rest in about)
    return _is_other_value(newer, older) or (is_of_subject and _ends(newer, older))


def _reorders(newer: str, older: str) -> bool:
    order = read(newer).order
    is_same = order == read(older).order and len(order) >= _FEWEST_REORDERED and denies(newer) == denies(older)
    return is_same and not prose.QUESTION_END.search(newer) and normal.normalize(newer) != normal.normalize(older)


def _ends(newer: str, older: str) -> bool:
    older = _CUES["reason"].sub("", older)  # what is the reason is not what is so
    words = read(older).words
    # What the older statement has ended itself, even as a wish, does not end it.
    before = _find_ended(fold(older))
    news = [gone for gone in find_ended(newer) if not any(gone <= one for one in before)]
    if denies(older) or not any(gone <= words for gone in news):
        return False
    said = fold(newer)
    is_of_other = _CUES["third"].search(said) and not _CUES["first"].search(said)
    return not (is_of_other and _CUES["first"].search(fold(older)))


def _is_other_value(newer: str, older: str) -> bool:
    new, old = read(newer), read(older)
    is_same = bool(new.subject) and (new.subject, new.shape) == (old.subject, old.shape)
    return is_same and new.value != old.value and not denies(older) and not denies(newer)


def denies(text: str) -> bool:
    """Return True if `text` contains a negation."""
    return _CUES["denies"].search(fold(text)) is not None


def _words(folded: str) -> frozenset[str]:
    if prose.is_wide(folded):
        folded = _CUES["wide generic"].sub(" ", folded)
    folded = _PARTICLES.sub(" ", folded)
    found = set()
    for token in _TOKEN.findall(folded):
        for word in _PARTS.findall(token) if prose.is_wide(token) else (token,):
            bare = re.sub(r"^[ldjnqs]'|'s$", "", word)
            if bare and bare not in STOP and bare not in _GENERIC and find_stem(expand(bare)) not in _GENERIC:
                found.add(find_stem(expand(bare)))
    return frozenset(found)


def _find_ended(said: str) -> list[frozenset[str]]:
    """Return, for each thing that a folded text says has ended, its words."""
    found = []
    for sentence in (one for one in list_texts(said) if len(one) <= _LONGEST):
        for clause in _CLAUSE.split(sentence):
            if _CUES["no longer"].search(clause):
                rest = _CUES["no longer"].sub(lambda so: _CUES["marks"].sub(" ", so[0]), clause)
                found.append(_words(_CUES["now"].sub(" ", rest)))
        if instead := _CUES["instead"].search(sentence):
            old = _words(next(one for one in instead.groups() if one))
            before = _words(sentence[: instead.start()]) - old
            is_mine = _CUES["first"].search(sentence) is not None
            found += [old] if is_mine or len(before) <= _MOST_BEFORE else []
        for pattern in _CHANGES:
            if (change := pattern.search(sentence)) and not _CUES["denies"].search(sentence[: change.end()]):
                found.append(_words(change["old"]) | _words(change["what"]))
                break
    return found


def _parse_value(body: str) -> tuple[str, str, tuple[str, ...]]:
    """Return the subject of a statement, its value, and the value's shape; all empty if it gives no value."""
    plain = " ".join(_CUES["now"].sub(" ", body).split()).rstrip(".!。！").replace("’", "'")
    found = _CUES["frame"].fullmatch(plain) if len(plain) <= _LONGEST else None
    if found is None or _CUES["supposed"].search(fold(body)):
        return "", "", ()
    subject, value = [one.strip() for one in found.groups() if one][:2]
    tokens = _TOKEN.findall(value)
    has_number = any(map(str.isdigit, "".join(tokens)))
    has_name = any(one[:1].isupper() or prose.is_wide(one) for one in tokens)
    if not (has_number or has_name or _CUES["single"].search(subject)) or len(tokens) > _LONGEST_VALUE:
        return "", "", ()
    small = tuple(one.casefold() for one in tokens if one.casefold() in STOP)
    subject = " ".join(fold(subject.replace("—", " ").replace(" - ", " ")).split())
    return subject, fold(value), (*small, "number" * (has_number and not has_name), "name" * has_name)
