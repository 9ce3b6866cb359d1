"""Find the prose of a message, without code, tables and markup, so that only natural language is read and measured."""

import re
from collections import Counter
from collections.abc import Sequence

from memoryd.text.fences import without_fences

ENDS = ".!?…:;)]}\"'”’。！？」』»"  # noqa: RUF001 - full-width marks
QUESTION_END = re.compile(r"[?？؟]\W*$")  # noqa: RUF001
_PICTURE = re.compile(r"!\[([^\]\n]{0,200})\]\([^)\n]{0,500}\)")
_LINK = re.compile(r"\[([^\]\n]{1,200})\]\(([^)\n]{1,500})\)")
# Emphasis, except look-alikes: patterns of files such as `**/*.ts`, and names such as `__init__.py`.
_EMPHASIS = re.compile(
    r"(?<![\w*/])\*{1,3}(?=[^\s*/.,;)\]])([^*\n]{1,400}?)(?<=[^\s/(\[])\*{1,3}(?![\w*/])"
    r"|(?<![\w/.])__(?!\w+__)([^_\n]{1,400}?)__(?![\w.])"
)
_VERBATIM = re.compile(r"`[^`\n]+`|https?://[^\s)>\]]+")  # names and addresses in these forms are kept as written
# The target of a link that is kept: a page of a repository, or a file.
_PLACE = re.compile(
    r"https?://\S+/(?:pulls?|issues|commits?|merge_requests|compare|blob|tree)/\S+|[^\s:#]*\.\w{1,5}(?:#\S*)?"
)
_CODE_LINE = re.compile(
    r"^(?:\s{4,}\S|\s*[❯➜λ]\s|.*\d% \(\d+/|\s*(?:[$%>#]\s?\w+\s.*[-/|]|[{}()\[\];]+\s*$|at\s+\S+\(|\d+[→|:]))"  # noqa: RUF001
)
_MARK = re.compile(r"^[\s>]*(?:#{1,6}\s+|[-*+•]\s+(?:\[[ xX]\]\s+)?|\d{1,3}[.)]\s+|[✅❌✓✗⚠🔧📝]\ufe0f?\s*)*")
_HEADING = re.compile(r"^\s*(?:#{1,6}\s|\*\*[^*]{1,80}(?<![.!?。])\*\*:?\s*$)")
_ODD_WORD = re.compile(r"(?<!\S)[^\s\d=_<>|{}%@\\/~^$]*+[\d=_<>|{}%@\\/~^$]\S*+")
_DIGITS = re.compile(r"(?<!\S)[^\s\d]*+\d\S*+")
_PHONE = re.compile(r"(?<!\S)(?:\+\d{1,3}|\(?0\d+\)?)(?: \d{2,4})+(?!\w)")  # one number, in several groups
_MOST_ODD = 0.45  # a machine wrote a line if this share of its words has digits or signs of code
_REPEATED = 3  # this many lines of one form in a message are a log
_RULE = re.compile(r"^\W*$")
# Thai, Lao, Burmese, Khmer, kana and Han, as the inside of a character class.
WIDE_RANGES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_WIDE = re.compile(f"[{WIDE_RANGES}]")
_WIDE_RUNS = re.compile(f"[{WIDE_RANGES}]+|[^{WIDE_RANGES}]+")
WIDE_WORD = 0.6  # how many words a character of a script without spaces counts


def list_lines(text: str) -> list[str]:
    """Return the lines of prose in `text`, with links and emphasis as plain words.

    Code, tables, headings, rules and list marks are left out. Pasted machine output is left out too: it has many words
    with digits and signs, or lines that differ only in their numbers.
    """
    given = without_fences(text).splitlines()
    kept = []
    for line, is_log in zip(given, mark_log_lines(given), strict=True):
        if not line or line.count("|") > 2 or _CODE_LINE.match(line) or _HEADING.match(line):
            continue
        plain = (line if line[0].isalpha() else _MARK.sub("", line, count=1)).strip()
        if plain and not _RULE.match(plain) and not is_log and not by_machine(plain):
            kept.append(_strip_markup(plain))
    return kept


def read_head(line: str) -> str:
    """Return a heading, or another line that introduces a list, without its marks and its closing colon."""
    return _strip_markup(_MARK.sub("", line.strip(), count=1)).strip(" :\uff1a")


def below_head(head: str, text: str) -> str:
    """Return a text below a heading as one line. A dash is between them, because a colon would mark a speaker."""
    return f"{head} \u2013 {text}"


def mark_log_lines(given: Sequence[str]) -> list[bool]:
    """Return, for each line, True if other lines differ from it only in their numbers, as the lines of a log do."""
    if len(given) < _REPEATED:
        return [False] * len(given)
    shapes = list(map(_shape, given))
    times = Counter(shapes)
    return [bool(shape) and times[shape] >= _REPEATED for shape in shapes]


def _shape(line: str) -> str:
    """Return the form that lines of one log share; empty for a line without numbers."""
    shape = _DIGITS.sub("0", line)
    return shape.strip() if shape != line else ""


def by_machine(line: str) -> bool:
    """Return True if a machine probably wrote the line, because many of its words have digits or signs."""
    line = _PHONE.sub("0", _LINK.sub(r"\1", line) if "](" in line else line)
    odd = len(_ODD_WORD.findall(line))
    return odd > 2 and odd > _MOST_ODD * len(line.split())


def _strip_markup(line: str) -> str:
    line = _LINK.sub(_name_link, _PICTURE.sub(r"\1", line)) if "](" in line else line
    if "*" not in line and "__" not in line:
        return line
    kept = [found.span() for found in _VERBATIM.finditer(line)]

    def strip(found: re.Match[str]) -> str:
        at = found.start()
        return found[0] if any(begin < at < end for begin, end in kept) else found[1] or found[2]

    return _EMPHASIS.sub(strip, line)


def _name_link(found: re.Match[str]) -> str:
    """Return the words of a link, or the whole link if its target is a place that the words do not name."""
    words, target = found[1], found[2]
    name = target.partition("#")[0].rpartition("/")[2]
    return found[0] if _PLACE.fullmatch(target) and name not in words else words


def is_wide(text: str) -> bool:
    """Return True if `text` holds a character of a script that is written without spaces between words."""
    return not text.isascii() and _WIDE.search(text) is not None


def wide_runs(text: str) -> list[str]:
    """Return `text` divided where wide characters begin or end."""
    return _WIDE_RUNS.findall(text)


def count_words(text: str) -> int:
    """Return the length of `text` in words: those between spaces, plus `WIDE_WORD` for each wide character."""
    if text.isascii():
        return len(text.split())
    wide = len(_WIDE.findall(text))
    return len(_WIDE.sub(" ", text).split()) + round(wide * WIDE_WORD) if wide else len(text.split())
