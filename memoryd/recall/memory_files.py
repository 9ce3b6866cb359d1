"""Prepare memory files for injection, without lines that a session does not need.

The removed lines are titles, lists of changed files, links, empty labels, and entries about sessions in other projects.
Each is replaced by an empty line, so that the other lines keep their numbers.
"""

import re
from collections.abc import Callable, Collection, Mapping

from memoryd.recall.injection import LABEL, RECENT_FILE, TOP, Part
from memoryd.recall.newer import put_newer_first
from memoryd.text.normal import normalize
from memoryd.tiers import daily
from memoryd.tiers.session_summary import CORRECTED, Section

_LABELS = frozenset({"Focus", "Key decisions", "Discoveries", "State", "Open", "Failed", "Tasks"})
_UNTOLD = frozenset({"Files", "Link", str(Section.FILES)})
_NOTHING = frozenset({"none", "-", "–"})  # noqa: RUF001
_TITLE = re.compile(r"# (?:RECENT|Daily Memory)\b")
_FORGOTTEN = re.compile(r"- (?:\[x\] )?(?:\w+: )?\[forgotten\]\.?")
_ANCHOR = re.compile(r"^\*\*Link\*\*:.*#session-([^()\s]+)\)$", re.MULTILINE)
_SESSION = re.compile(r"^From [^,\n]+, [\d:-]+, session:(\S+)$", re.MULTILINE)
_HEADED = re.compile(r"### .*|\*\*[^*]+\*\*:\s*")  # a heading of the text below it
_TITLED = re.compile(r"#{1,6}(?:\s|$)")
_ALONE = re.compile(r"(?:^- .*\n(?!\n*[ \t]))+", re.MULTILINE)  # bullets without text below them
_SHORT = 8  # characters of a session's id that identify it


def make_recent(text: str, is_told: Callable[[str], bool]) -> Part:
    """Return `RECENT.md` as a part of an injection.

    `is_told` returns True if the entry of the session with this id must be injected.
    """
    # The mark of a decision would look like that of a finished task.
    shown = _shorten(text, _ANCHOR, is_told).replace("\n- [x] ", "\n- ")
    headings = (line[3:].strip() for line in shown.split("\n") if line.startswith("## "))
    return Part(RECENT_FILE, shown, plain=frozenset((TOP, *_LABELS, *headings)))


def find_newest(text: str, is_injected: Callable[[str], bool]) -> str:
    """Return the session id of the first entry of `RECENT.md` that is injected; empty if none is."""
    return next(filter(is_injected, _ANCHOR.findall(text)), "")


def remove_bullets(text: str, bullets: Collection[str]) -> str:
    """Return `MEMORY.md` without these bullets and without sections left empty; other lines keep their numbers."""
    made = []
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        lines = section.split("\n")
        left = ["" if line.startswith("- ") and line[2:].rstrip("\r") in bullets else line for line in lines]
        made.append(_empty_bare("\n".join(left)) if left != lines else section)
    return _empty_bare("".join(made))


def put_newer_bullets_first(text: str, said_at: Mapping[str, str]) -> str:
    """Return `MEMORY.md` with a newer bullet before an older one beside it on the same subject.

    `said_at` has the time of each bullet that a person said, by text. A bullet with text below it stays in its place.
    """

    def put_newer_line_first(found: re.Match[str]) -> str:
        lines = found[0].splitlines(keepends=True)
        return "".join(put_newer_first(lines, lambda line: (line, said_at.get(line[2:].rstrip("\r\n"), ""))))

    return _ALONE.sub(put_newer_line_first, text)


def make_daily(name: str, text: str, is_told: Callable[[str], bool]) -> Part:
    """Return a daily file as a part of an injection.

    `is_told` returns True if the block of the session with this id must be injected. A block without a session id
    always stays.
    """
    kept = _shorten(_remove_corrected(text), _SESSION, is_told)
    shown = _SESSION.sub(lambda found: found[0].replace(found[1], found[1][:_SHORT]), kept)
    framing = daily.list_framing(daily.parse(shown.encode(errors="replace")))
    return Part(name, shown, newest_last=True, plain=frozenset((*framing, *map(str, Section))))


def _remove_corrected(text: str) -> str:
    """Return a file without corrected lines and without the `Corrected:` lines about them; lines keep their numbers."""
    lines = text.split("\n")
    saying: dict[str, int] = {}
    for place in reversed(range(len(lines) if CORRECTED in text else 0)):
        said = lines[place].removeprefix("- ")
        if said.startswith(CORRECTED):
            saying[normalize(said.removeprefix(CORRECTED))] = place
        elif lines[place].startswith("- ") and normalize(said) in saying:
            lines[place] = lines[saying.pop(normalize(said))] = ""
    return "\n".join(lines)


def _shorten(text: str, session: re.Pattern[str], is_told: Callable[[str], bool]) -> str:
    head, *entries = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    shown = [_shorten_entry(head)]
    for one in entries:
        found = session.search(one)
        shown.append(_shorten_entry(one) if found is None or is_told(found[1]) else "\n" * one.count("\n"))
    return "".join(shown)


def _shorten_entry(entry: str) -> str:
    """Return an entry without its title, headings without text, and sections that are not injected."""
    kept, name = list[str](), ""
    for line in entry.split("\n"):
        label = LABEL.fullmatch(line) if line.startswith("**") else None
        if label or line.startswith("#"):
            name = label[1] if label else line.lstrip("#").strip()
        is_nothing = label is not None and label[2].strip(" .").casefold() in _NOTHING
        kept.append("" if name in _UNTOLD or is_nothing or _TITLE.match(line) or _FORGOTTEN.fullmatch(line) else line)
    return _empty_bare("\n".join(_remove_empty(kept)))


def _empty_bare(entry: str) -> str:
    """Return an entry, or only its line breaks if it has nothing but headings."""
    is_bare = all(_TITLED.match(line) or not line.strip() for line in entry.split("\n"))
    return "\n" * entry.count("\n") if is_bare else entry


def _remove_empty(lines: list[str]) -> list[str]:
    """Return lines in which each heading without text below it is replaced by an empty line."""
    is_empty = True
    for place in reversed(range(len(lines))):
        if _HEADED.fullmatch(lines[place]):
            lines[place] = "" if is_empty else lines[place]
            is_empty = True
        else:
            is_empty = is_empty and not lines[place].strip()
    return lines
