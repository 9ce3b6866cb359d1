"""Check the token floor: names, numbers, dates and other exact tokens of a claim must occur in the material.

The check finds altered values. It cannot find a false statement that reuses the tokens of its source. It ignores case,
plural, `#`, quotation marks, the format of numbers and dates, the Unicode form, and how compounds are written.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cached_property
from itertools import pairwise

from memoryd.ledger import calendar
from memoryd.text.content import measure_overlap, strip_label
from memoryd.text.word_lists import list_words
from memoryd.text.wording import STOP, expand, find_stem, fold, normalize


class TokenKind(StrEnum):
    """Name the kinds of tokens."""

    QUOTE = "quotation"
    URL = "address"
    DATE = "date"
    MARK = "identifier"  # paths, identifiers, versions, flags, e-mail addresses
    NUMBER = "number"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Token:
    """Hold one exact token as the claim writes it."""

    kind: TokenKind
    text: str


_QUOTED = re.compile(r"`([^`\n]{1,200})`|[\"“„”«]([^\"“”„«»\n]{2,200})[\"”“»]|「([^」]{2,200})」|『([^』]{2,200})』")
_URL = re.compile(r"(?:\b[a-z][a-z0-9+.-]{1,12}://|\bwww\.)[^\s<>\"“”`|]+", re.IGNORECASE)
_LETTERS = "A-Za-z\u00c0-\u024f\u0370-\u052f"  # letters of scripts that put spaces between words
# A word with a character that prose does not contain: a path, a file, a version, a flag, an address, camelCase, a1.
_MARKED = re.compile(
    r"(?<![\w/.@+~-])(?:--?[a-z][\w-]+|[\w.@+~-]*(?:[/\\@_][\w.@/\\+-]+|\.[\w-]+)+|[#@]\w+"
    rf"|[a-z]+[A-Z]\w*|(?=[{_LETTERS}-]*\d)(?=\d*[{_LETTERS}-]*[{_LETTERS}])[{_LETTERS}\d]+(?:[.-][{_LETTERS}\d]+)*)"
)
# Words of these scripts touch an identifier without a space, and "和/或" is no identifier but two words.
_WIDE = "\u0e00-\u0eff\u3040-\u9fff\uac00-\ud7af\U00010000-\U0010ffff"
_EDGES = re.compile(rf"\A[{_WIDE}]+|[{_WIDE}]+\Z")
_WIDE_WORDS = re.compile(rf"[{_WIDE}]+(?:/[{_WIDE}]+)+")
_TOUCHING = re.compile(rf"(?<=[{_WIDE}])(?=[{_LETTERS}])|(?<=[{_LETTERS}])(?=[{_WIDE}])")
_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,:'’\u202f\u00a0 ]\d+)*(?!\w)|\d+(?:[.,]\d+)*")  # noqa: RUF001
_NAME = re.compile(r"(?<![^\W_])[^\W\d_][\w'’-]*")  # noqa: RUF001
_ENDS = ".!?,;:…。！？`*'\"’”»)"  # noqa: RUF001
_AFTER_END = re.compile(r"[.!?:;…。！？(\[\"“„«'‘–—|•-]\s*$")  # noqa: RUF001
_BEFORE = 16  # characters before a word in which the end of the preceding sentence is searched
_SEPARATORS = re.compile(r"[.,:'’\u202f\u00a0 ]")  # noqa: RUF001
_GROUPED = re.compile(r"\d{1,3}(?:[.,'’\u202f\u00a0 ]\d{3})+")  # noqa: RUF001
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th|er|º|ª)", re.IGNORECASE)
_MEASURE = re.compile(r"(?<!\d)(\d{1,20}(?:[.,]\d{1,20}){0,8})([^\W\d_]+)")
# The angle brackets are here because `neutralize` writes a tag with other brackets.
_QUOTES = str.maketrans(dict.fromkeys("\"'“”„«»‘’‚`´<>‹›", None))  # noqa: RUF001
_GERMAN = re.compile(
    r"\b(?:der|die|das|den|dem|des|und|nicht|ein|eine[mnrs]?|mit|für|ist|sind|wird|im|am|vom|zum|zur|auf"
    r"|zu|von|bei|beim|nach|nur|nie|wenn|dass|darf|hat|werden|wurden?|sich|auch|noch|oder|aber|kein(?:e[mnrs]?)?)\b"
)
_NOT_ONLY_GERMAN = frozenset({"am", "die", "des", "den", "im", "das"})
_FEWEST_GERMAN = 2  # a text with at least this many of these words is German
HELD = 0.6  # a source still supports a text if it has at least this share of its content words
_PART = 4  # shorter words must match exactly; longer ones may have another ending
_FORTNIGHT = 14  # days; a weekday can mean a date that is at most this far away
# English, German, French, Spanish, Italian, Portuguese, Dutch, Russian, Chinese, Japanese, Korean.
_WEEKDAYS = [re.compile("|".join(names.split())) for names in list_words("weekdays")]
_NOON = 12  # o'clock
_HALF_PAST = re.compile(
    r"(?<=half past )\w+|\b\w{1,20}(?=(?: heures?)? (?:y media|e meia|e mezza|et demie?)\b)"
    r"|(?<![一二三四五六七八九十\d])[一二三四五六七八九十\d]{1,4}(?=点半|時半)"
)
_HALF_TO = re.compile(r"\b(?:halb|half) (?!past)(\w+)")
_LONGEST_NAME = 4  # words
_NUMBER_WORDS = {word: number for number, *rest in (one.split(":") for one in list_words("numbers")) for word in rest}
# Words that name the subject of a line; sources do not contain them.
_FRAME = frozenset(list_words("subjects of lines"))


def find_tokens(text: str, *, loosely: bool = False) -> list[Token]:
    """Return the exact tokens of `text`, ordered by kind.

    Each passage counts once. With `loosely`, a name counts only directly before another name.
    """
    rest = normalize(strip_label(text))
    found: list[Token] = []

    def take(kind: TokenKind, pattern: re.Pattern[str]) -> None:
        nonlocal rest
        for match in pattern.finditer(rest):
            inside = next((one for one in match.groups() if one), match[0]) if match.groups() else match[0]
            token = inside.strip().rstrip(_ENDS)
            if token := _trim_mark(token) if kind is TokenKind.MARK else token:
                found.append(Token(kind, token))
        rest = pattern.sub(lambda match: " " * len(match[0]), rest)

    take(TokenKind.QUOTE, _QUOTED)
    take(TokenKind.URL, _URL)
    for written in list(calendar.find(rest)):
        found.append(Token(TokenKind.DATE, rest[written.start : written.end]))
        rest = rest[: written.start] + " " * (written.end - written.start) + rest[written.end :]
    take(TokenKind.MARK, _MARKED)
    take(TokenKind.NUMBER, _NUMBER)
    rest = _TOUCHING.sub(" ", rest)
    names = list(_names(rest))
    if loosely:
        names = [one for one, other in pairwise(names) if rest[one.end() : other.start()] == " "]
    return [*found, *(Token(TokenKind.NAME, match[0]) for match in names)]


def _trim_mark(mark: str) -> str:
    """Return an identifier without the wide characters around it, if it is complete without them; empty for words."""
    bare = _EDGES.sub("", mark)
    is_whole = bare.isascii() and bare[:1].isalnum() and bare[-1:].isalnum() and _MARKED.fullmatch(bare) is not None
    return bare if is_whole else "" if _WIDE_WORDS.fullmatch(mark) else mark


def _names(text: str) -> Iterator[re.Match[str]]:
    """Yield the capitalised words within a sentence."""
    for match in _NAME.finditer(text):
        before = text[max(0, match.start() - _BEFORE) : match.start()]
        begins = not before.strip() or _AFTER_END.search(before) is not None
        if match[0][0].isupper() and not begins and match[0].casefold() not in _FRAME:
            yield match


def writes_nouns_large(text: str) -> bool:
    """Return True if a text is German, a language that capitalises all nouns and not only names."""
    return len(_GERMAN.findall(text)) >= _FEWEST_GERMAN


class Material:
    """Hold one text of the material, prepared for looking up tokens."""

    def __init__(self, text: str, said_on: date) -> None:
        self._text, self._said_on = text, said_on

    def has(self, token: Token) -> bool:
        """Return True if `token` occurs in this text, possibly in another form."""
        return self._has_form(token) or token in self._tokens

    def _has_form(self, token: Token) -> bool:
        text, kind = token.text, token.kind
        if kind is TokenKind.NUMBER:
            said = _readings(text) | _list_spoken_hours(text)
            return not said.isdisjoint(self._numbers) or self._has_half(text)
        if kind is TokenKind.NAME:
            return self._has_name(text)
        if self._occurs(text):
            return True
        if kind is TokenKind.DATE:
            readings = [reading for one in calendar.find(text) for reading in one.readings]
            return calendar.is_among(readings, self._days) or any(map(self._is_meant, readings))
        if kind is TokenKind.MARK:
            return self._has_version(text) or self._has_parts(text) or self._has_value(text)
        return kind is TokenKind.QUOTE and self._has_forms(text)

    def _has_half(self, clock: str) -> bool:
        """Return True if the text states a half hour in words: "half past six" or "halb sieben" for "6:30"."""
        found = re.fullmatch(r"([01]?\d|2[0-4])[:.]30", clock)
        if found is None:
            return False
        hour = int(found[1]) % _NOON or _NOON
        past = (_NUMBER_WORDS.get(one, one) for one in _HALF_PAST.findall(self._folded_text))
        to = (_NUMBER_WORDS.get(one, one) for one in _HALF_TO.findall(self._folded_text))
        return str(hour) in past or str(hour % _NOON + 1) in to

    def _is_meant(self, day: calendar.Day) -> bool:
        """Return True if the text has the weekday of a date that is within two weeks, as in "next Monday"."""
        try:
            meant = date(day.year or self._said_on.year, day.month or 0, day.day or 0)
        except ValueError:
            return False
        is_near = abs((meant - self._said_on).days) <= _FORTNIGHT
        return is_near and _WEEKDAYS[meant.weekday()].search(self._folded_text) is not None

    def _has_forms(self, quoted: str) -> bool:
        """Return True if a quoted name occurs with other endings, as in languages with grammatical cases."""
        words = quoted.split()
        if not 0 < len(words) <= _LONGEST_NAME or not all(_NAME.fullmatch(one) and one[0].isupper() for one in words):
            return False
        wanted = [find_stem(_strip_token(one)) for one in words if len(one) >= _PART]
        held = [find_stem(one) for one in _NAME.findall(self._folded_text)]
        runs = (held[at : at + len(wanted)] for at in range(len(held) - len(wanted) + 1))
        return len(wanted) == len(words) and wanted in runs

    @cached_property
    def writes_nouns_large(self) -> bool:
        """Return True if this text is German; words that other languages also have do not count."""
        return len(set(_GERMAN.findall(self._text)) - _NOT_ONLY_GERMAN) >= _FEWEST_GERMAN

    @cached_property
    def _tokens(self) -> frozenset[Token]:
        return frozenset(find_tokens(self._text))

    @cached_property
    def _folded_text(self) -> str:
        return " ".join(_strip_token(self._text).split())

    @cached_property
    def _words(self) -> frozenset[str]:
        bare = _strip_token(self._text)
        words = {*_NAME.findall(bare), *(unit for _, unit in _MEASURE.findall(bare))}
        return frozenset((*words, *(part for word in words for part in word.split("-"))))

    @cached_property
    def _stems(self) -> frozenset[str]:
        return frozenset(map(find_stem, self._words))

    @cached_property
    def _numbers(self) -> frozenset[str]:
        found = (reading for match in _NUMBER.finditer(normalize(self._text)) for reading in _readings(match[0]))
        words = (_NUMBER_WORDS[word] for word in self._words if word in _NUMBER_WORDS)
        parts = re.findall(r"\d+", self._text)
        wide = (_NUMBER_WORDS[char] for char in self._text if char in _NUMBER_WORDS)
        years = (str(part) for day in self._days for part in (day.year, day.month) if part)
        return frozenset((*found, *words, *parts, *wide, *years))

    @cached_property
    def _days(self) -> set[calendar.Day]:
        return calendar.find_days(normalize(self._text), self._said_on)

    def _occurs(self, text: str) -> bool:
        """Return True if a text occurs as whole words: `a.py` occurs in `src/a.py`, but not in `a.pyc` or `ba.py`."""
        wanted = " ".join(_strip_token(text).split()).strip(_ENDS)
        start = self._folded_text.find(wanted) if wanted else -1
        while start >= 0:
            end = start + len(wanted)
            before, behind = self._folded_text[start - 1 : start], self._folded_text[end : end + 1]
            if not (_goes_on(before, wanted[0]) or _goes_on(behind, wanted[-1])):
                return True
            start = self._folded_text.find(wanted, start + 1)
        return not wanted or (wanted.endswith("s") and len(wanted) > _PART and self._occurs(wanted[:-1]))

    def _has_version(self, text: str) -> bool:
        bare = re.sub(r"^v(?=\d)", "", text.casefold())
        return self._occurs(bare) or self._occurs(f"v{bare}")

    def _has_value(self, text: str) -> bool:
        """Return True if a number occurs in another form: "1850" for "1.850", "16 GB" for "16GB", "12" for "12th"."""
        if ordinal := _ORDINAL.fullmatch(text):
            return ordinal[1] in self._numbers
        if measure := _MEASURE.fullmatch(text):
            return self._occurs(f"{measure[1]} {measure[2]}")
        is_number = re.fullmatch(r"\d+(?:\.\d+)+", text) is not None
        if is_number and _GROUPED.fullmatch(text) and text.replace(".", "") in self._numbers:
            return True
        return is_number and self._occurs(text.replace(".", ","))

    def _has_parts(self, text: str) -> bool:
        """Return True if all words of a compound occur: "die CNC, eine Fräse" for "CNC-Fräse"; dots may be a pause."""
        if not re.fullmatch(r"[^\W_]+(?:(?:[-/]|\.{3,})[^\W_]+)+", text):
            return False
        parts = re.split(r"[-/]|\.{3,}", text)
        return all((part.isdigit() and part in self._numbers) or self._has_name(part) for part in parts)

    def _has_name(self, name: str) -> bool:
        word = re.sub(r"['’]s?$", "", name.casefold())  # noqa: RUF001
        if word in self._words or expand(word) in map(expand, self._words) or find_stem(word) in self._stems:
            return True
        parts = word.split("-")
        return (len(parts) > 1 and all(self._has_name(part) for part in parts if part)) or self._occurs(word)


def _strip_token(text: str) -> str:
    return fold(text).translate(_QUOTES).replace("#", "")


def _goes_on(neighbour: str, edge: str) -> bool:
    is_word = bool(neighbour) and (neighbour.isalnum() or neighbour == "_") and not _is_wide(neighbour)
    return is_word and (edge.isalnum() or edge == "_") and not _is_wide(edge)


def _is_wide(char: str) -> bool:
    return _EDGES.match(char) is not None


def _readings(written: str) -> set[str]:
    """Return the possible values of a written number: "1.850" is 1850 or 1.85, and "16:00" is 16."""
    digits = _SEPARATORS.sub("", written)
    parts = _SEPARATORS.split(written)
    found = {written.replace(",", "."), _trim_number(written.replace(",", "."))}
    if len(parts) == 1 or _GROUPED.fullmatch(written):
        found.add(digits.lstrip("0") or "0")
    if ":" in written and set(parts[1:]) <= {"00"}:
        found.add(parts[0].lstrip("0") or "0")
    return {one for one in found if one}


def _list_spoken_hours(clock: str) -> set[str]:
    """Return the twelve-hour form of a full hour in the afternoon: "6" for "18:00"; empty for any other text."""
    found = re.fullmatch(r"(1[3-9]|2[0-3])[:.]00", clock)
    return {str(int(found[1]) - _NOON)} if found else set()


def _trim_number(number: str) -> str:
    whole, point, rest = number.partition(".")
    rest = rest.rstrip("0")
    return f"{whole.lstrip('0') or '0'}{point if rest else ''}{rest}" if point else number.lstrip("0") or "0"


def list_missing(text: str, materials: Sequence[Material]) -> list[Token]:
    """Return the tokens of `text` that occur in none of the materials.

    In a German text, a capitalised word counts as a name only directly before another capitalised word.
    """
    loosely = writes_nouns_large(text) or any(one.writes_nouns_large for one in materials)
    return [
        one
        for one in find_tokens(text, loosely=loosely)
        if not (one.kind is TokenKind.NAME and one.text.casefold() in STOP) and not any(m.has(one) for m in materials)
    ]


def is_said(text: str, sources: Sequence[tuple[str, date]]) -> bool:
    """Return True if the sources still support `text`: they have its exact tokens and most of its words.

    Args:
        text: the statement.
        sources: each source text with its local day.
    """
    if not sources or list_missing(text, [Material(*source) for source in sources]):
        return False
    return measure_overlap(text, "\n".join(said for said, _ in sources)) >= HELD
