"""Read NOW-*.md files: a session in Markdown, written by agents, people and memoryd itself.

A file has optional front matter between `---` lines, then entries `## User: …` and `## Agent: …`. A line
`[Tool: name - summary]` has the call and its result in a fence below. Editors rewrite such a file as a whole, so lines
that were read before are recognised by their text, not by an offset. `tiers/now.py` writes the format.
"""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from typing import NamedTuple

from memoryd.text.fences import open_after
from memoryd.transcripts.fields import read_time
from memoryd.transcripts.format import Identity
from memoryd.transcripts.injected import strip
from memoryd.transcripts.lines import clean
from memoryd.transcripts.record_text import Envelope, RecordText, turns_of
from memoryd.transcripts.turn import Origin, Role, Turn, TurnKind

NAME = "now"
CAPTURE = "capture"  # the memory type of a file in which memoryd records a session that it watches
_HEADING = re.compile(r"## (User|Agent|Assistant):[ \t]?(.*)", re.IGNORECASE)
_OTHER_HEADING = re.compile(r"##? ")
TOOL_MARK, TOOL_NAME_MAX = "[Tool: ", 200
# A line of a message that begins like one of these needs a backslash, as in Markdown: an entry, a heading, a fence,
# front matter, or HTML that hides the text after it.
GUARDED = re.compile(
    r"( {0,3})(\\*)(?:#{1,6}(?:[ \t]|$)|\[Tool:|`{3}|~{3}|(?:-+|=+)[ \t]*$|<[!?]"
    r"|<(?:script|pre|style|textarea)(?:\s|>|$))",
    re.IGNORECASE,
)
_FRONT_MATTER = re.compile(r"([A-Za-z_][\w-]{0,63}):(?:[ \t]+(.*))?|[ \t]*(?:#.*)?|[ \t]*- .*|[ \t]+.*")
FRONT_MATTER_LINES_MAX = 100
_DOUBLE_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_SINGLE_QUOTED = re.compile(r"'(?:[^']|'')*'")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_SPEAKERS = {
    "user": (Role.USER, Origin.USER),
    "agent": (Role.ASSISTANT, Origin.ASSISTANT),
    "assistant": (Role.ASSISTANT, Origin.ASSISTANT),
}
EXIT, EXIT_AND_CONSOLIDATE = "/exit", "/exit --consolidate"  # a user's entry with only this text ends the session
_NOBODY = (Role.SYSTEM, Origin.UNKNOWN)


class NowEntry(NamedTuple):
    """Hold the text of one speaker. `lines` begin with the text on the heading's own line, if any."""

    role: Role
    origin: Origin
    lines: tuple[str, ...]
    tool_name: str | None = None


class NowFile(NamedTuple):
    """Hold the content of a NOW file."""

    front_matter: Mapping[str, str]  # values without their quotes; null is empty
    entries: Sequence[NowEntry]


def is_now_path(path: PurePosixPath) -> bool:
    """Return True if the file name is that of a NOW file."""
    return path.name.startswith("NOW-") and path.suffix == ".md"


def identify(now: NowFile, path: PurePosixPath) -> Identity:
    """Identify a session by `session_id` in the front matter, or by the file name if there is none."""
    front = now.front_matter
    parent, cwd = front.get("parent_session") or None, front.get("project_path") or None
    started = read_time(front.get("timestamp_start"))
    return Identity(front.get("session_id") or path.stem, parent, cwd, started_at=started)


def parse(data: bytes, *, closed: bool = False) -> NowFile:
    """Read a NOW file. Never raises.

    Args:
        data: The present content of the whole file.
        closed: Whether a last line without a line end counts. It may still be being written, so this should be True
            only if the file has not changed for a while.
    """
    lines = clean(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")).split("\n")
    last = lines.pop()
    if closed and last:
        lines.append(last)
    lines = [line.removesuffix("\r") for line in lines]
    fields, begin = front_matter(lines)
    return NowFile({field[0]: unquote(field[1]) for field in fields}, _entries(lines[begin:]))


def find_open_fence(data: bytes) -> str:
    """Return the mark of the fence that is open at the end of a file; empty if none is."""
    lines = clean(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")).split("\n")
    speech = _Speech()
    for line in lines[front_matter(lines)[1] :]:
        speech.feed(line.removesuffix("\r"))
    return speech.fence


def is_exited(entries: Sequence[NowEntry]) -> bool:
    """Return True if the last entry is the user's command to end the session."""
    if not entries or entries[-1].origin is not Origin.USER:
        return False
    return "\n".join(entries[-1].lines).strip() in {EXIT, EXIT_AND_CONSOLIDATE}


def new_turns(entries: Iterable[NowEntry], seen: Counter[str], session_id: str) -> tuple[list[Turn], Counter[str]]:
    """Return the new lines as turns with the role of their entry.

    Args:
        entries: The present entries of the file.
        seen: How often each line was read before, by its key. Keys are hashes, because lines may hold secrets.
        session_id: The session's own id.

    Returns:
        One turn for each entry with new lines, in order, and the updated count. A line that was deleted and returns is
        not new; a second copy of a line is.
    """
    met: Counter[str] = Counter()
    turns: list[Turn] = []
    for entry in (part for whole in entries for part in _parts(whole)):
        fresh, digest = _fresh_lines(entry, met, seen, session_id)
        text = "\n".join(fresh).strip("\n")
        if text:
            kind = TurnKind.TOOL_RESULT if entry.role is Role.TOOL else TurnKind.MESSAGE
            said = RecordText(entry.role, entry.origin, kind, text, None, entry.tool_name)
            turns += turns_of((said,), Envelope(f"sha256:{digest}", None))
    return turns, seen | met


def _parts(entry: NowEntry) -> list[NowEntry]:
    """Return the speaker's text and the parts that memoryd injected, because lines are counted in their stored form."""
    rest, injected = strip("\n".join(entry.lines))
    if not injected:
        return [entry]
    put_in = (NowEntry(Role.SYSTEM, Origin.INJECTED, tuple(part.split("\n"))) for part in injected)
    return [entry._replace(lines=tuple(rest.split("\n"))), *put_in]


def line_key(role: Role, line: str) -> str:
    """Return the key that recognises a line: a hash of its speaker and its text."""
    return sha256(f"{role}\n{line}".encode()).hexdigest()[:16]


def _fresh_lines(entry: NowEntry, met: Counter[str], seen: Counter[str], session_id: str) -> tuple[list[str], str]:
    """Return the new lines of an entry, with a digest of them. All lines of the entry are counted in `met`.

    A blank line is kept only between two new lines, and is not counted.
    """
    digest = sha256(session_id.encode("utf-8", "replace"))
    fresh: list[str] = []
    for line in entry.lines:
        if not line.strip():
            if fresh and fresh[-1]:
                fresh.append("")
            continue
        key = line_key(entry.role, line)
        met[key] += 1
        if met[key] > seen[key]:
            digest.update(f"\n{key} {met[key]}".encode())
            fresh.append(line)
    return fresh, digest.hexdigest()


class FrontMatterField(NamedTuple):
    """Hold a key of the front matter, with its value."""

    key: str
    value: str  # the text after the key on its own line
    lines: tuple[int, ...]  # numbers of its lines, beginning with the key's line


def front_matter(lines: Sequence[str]) -> tuple[list[FrontMatterField], int]:
    """Return the fields of the front matter, and the number of its lines.

    Unclosed front matter hides the rest of the file until a line cannot be front matter.
    """
    if not lines or lines[0].rstrip() != "---":
        return [], 0
    fields: list[FrontMatterField] = []
    for number, line in enumerate(lines[1:FRONT_MATTER_LINES_MAX], start=1):
        if line.rstrip() == "---":
            return fields, number + 1
        found = _FRONT_MATTER.fullmatch(line.rstrip("\r"))
        if found is None or line.startswith("## "):
            return [], 0
        if found[1]:
            fields.append(FrontMatterField(found[1], (found[2] or "").strip(), (number,)))
        elif fields and line.strip() and not line.lstrip().startswith("#"):
            fields[-1] = fields[-1]._replace(lines=(*fields[-1].lines, number))
    return ([], len(lines)) if len(lines) < FRONT_MATTER_LINES_MAX else ([], 0)


def unquote(value: str) -> str:
    """Return the text of a YAML scalar in front matter; null is empty."""
    if quoted := _DOUBLE_QUOTED.match(value):
        with contextlib.suppress(ValueError):
            return clean(str(json.loads(quoted[0], strict=False)))
    elif quoted := _SINGLE_QUOTED.match(value):
        return quoted[0][1:-1].replace("''", "'")
    value = _COMMENT.sub("", value).strip()
    return "" if value in {"null", "~"} else value.strip("\"'")


def _tool_of(line: str) -> str | None:
    """Return the tool's name in a line `[Tool: name - summary]`, or None for any other line."""
    line = line.rstrip()
    if not (line.startswith(TOOL_MARK) and line.endswith("]")):
        return None
    name = line[len(TOOL_MARK) : -1].partition(" - ")[0]
    return name if 0 < len(name) <= TOOL_NAME_MAX and "]" not in name else None


class _Speech:
    """Assign lines to speakers, one line at a time. So text that is appended never changes earlier entries."""

    def __init__(self) -> None:
        self.entries: list[NowEntry] = []
        self._speaker: tuple[Role, Origin] = _NOBODY
        self._tool: str | None = None  # the tool of the open call, whose fence follows or is being read
        self.fence = ""  # the mark of the open fence; empty if none is open
        self._lines: list[str] = []

    def feed(self, line: str) -> None:
        before, self.fence = self.fence, open_after(self.fence, line)
        if before and not self.fence and self._tool and len(line.strip()) != len(before):
            self.fence = before  # the output of a tool may contain longer fences
        if before or self.fence:
            self._lines.append(line)
            if self._tool and not self.fence:
                self.flush()
        elif not line.strip():
            self._lines.append(line)
        elif tool := _tool_of(line):
            self.flush()
            self._tool = tool
            self._lines.append(line)
        else:
            self._take_outside(line)

    def flush(self) -> None:
        role, origin = (Role.TOOL, Origin.TOOL) if self._tool else self._speaker
        if any(line.strip() for line in self._lines):
            self.entries.append(NowEntry(role, origin, tuple(self._lines), self._tool))
        self._lines = []
        self._tool = None

    def _take_outside(self, line: str) -> None:
        if self._tool:
            self.flush()
        if heading := _HEADING.match(line):
            self.flush()
            self._speaker = _SPEAKERS[heading[1].lower()]
            line = heading[2]
        elif _OTHER_HEADING.match(line) and self._speaker[0] is Role.USER:
            # A heading inside a user's entry may be foreign text, so what follows is not the user's. Agents do write
            # headings.
            self.flush()
            self._speaker = _NOBODY
        elif (found := GUARDED.match(line)) and found[2]:
            line = found[1] + line[found.end(1) + 1 :]
        self._lines.append(line)


def _entries(lines: Iterable[str]) -> list[NowEntry]:
    speech = _Speech()
    for line in lines:
        speech.feed(line)
    speech.flush()
    return speech.entries
