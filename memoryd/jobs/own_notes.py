"""Find an agent's own notes: compaction summaries and memory files, which count as its own words.

A note is evidence only of statements that are missing elsewhere. Statements that the turns of the session already make,
or that an outside text made first, are left out. A compaction summary is read only if the transcript does not hold the
summarized turns, such as in a session that continues another one. A memory file is always read, because an agent may
decide something without saying so.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from memoryd.ledger.foreign import Foreign
from memoryd.text import prose
from memoryd.text.content import list_stems
from memoryd.text.fences import without_fences
from memoryd.text.private import is_private
from memoryd.text.sentences import SentenceKind, split
from memoryd.transcripts.fields import NEW_PARTS, PATCH, PATHS, WHOLE_TEXTS, first_text, mappings, shown_arguments
from memoryd.transcripts.turn import SPOKEN, Origin, Role, StoredTurn, TurnKind

# The beginnings of sentences that the agent program puts around a summary in the agent's name.
_FRAME = re.compile(
    r"^(?:This session is being continued from|The (?:conversation is summarized|summary) below|Another language model"
    r"|Please continue the (?:conversation|session|task)|Continue (?:the conversation )?(?:from|with the last)"
    r"|If you need specific details from before|Read the full transcript|Recent messages are preserved|Resume directly"
    r"|Let me (?:\w+ )?(?:analy[sz]e|summari[sz]e|review|go through)|</?(?:analysis|summary)>)",
    re.IGNORECASE,
)
_SPEAKERS = frozenset({Origin.USER, Origin.ASSISTANT})
_HEARD = _SPEAKERS | {Origin.INJECTED}  # a summary repeats what was injected
_ITEM = r"(?:[-*•]|\d{1,3}[.)])\s+"
_MARK = re.compile(rf"^{_ITEM}")
# A title above a sentence, and the mark of the next list item.
_TITLE = re.compile(rf"^(?:{_ITEM})?[^\n]{{1,60}}:[ \t]*\n\s*|\n\s*(?:\w|\d{{1,2}})[.)]$")
_QUOTED = re.compile(rf"^(?:{_ITEM})?[\"“„«‘']")  # noqa: RUF001
# A quotation goes on up to an empty line without a list item below it. An apostrophe stands between two letters.
_GOES_ON = rf"\n(?:[^\S\n]*\n\s*+(?={_ITEM})|(?![^\S\n]*\n))"
_SINGLE = re.compile(
    rf"(?<![\w\"“„])['\u2018](?=\w)((?:[^\n.'\u2019]|\.(?!\.\s)|\b['\u2019]\b|{_GOES_ON})++)['\u2019](?!\w)"
)
_CLOSES = re.compile(rf"(?:[^\n\"“„”«»]|{_GOES_ON}){{0,2000}}+(?:(?<=\S)[\"”“]|»)(?!\w)")
_QUOTE_MARK, _INCHES = re.compile(r"[\"“„”«»]"), re.compile(r"\d\"")
_NAMES = re.compile(r"`[^`]*`|\*\*[^*]*\*\*")
_LEFT_OUT = frozenset({SentenceKind.CODE, SentenceKind.HEADING, SentenceKind.QUOTE})
_SAID = 0.75  # a turn with this share of a sentence's words already says the sentence
_FEWEST_OWN = 3  # a sentence of a note has at least this many words besides names in code or bold
_FEWEST = 4  # a sentence with fewer words says nothing that could be missing


def find_notes(turns: Sequence[StoredTurn], earlier: Sequence[StoredTurn] = ()) -> dict[int, str]:
    """Return the statements of notes that nothing else makes, by the number of the turn, one sentence to a paragraph.

    Args:
        turns: the turns whose notes are read.
        earlier: the turns of the session before them.
    """
    session = _SessionTalk((*earlier, *turns))
    found = find_written(turns)
    found |= {turn.seq: turn.text for turn in turns if _is_summary(turn) and not session.covers(turn)}
    known: list[frozenset[str]] = []
    told: dict[int, str] = {}
    for seq in sorted(found, reverse=True):  # of two notes with the same statement, the later one is more current
        kept = []
        for text in _list_sentences(found[seq]):
            stems = list_stems(text)
            if len(stems) < _FEWEST or any(_is_within(stems, one) for one in known) or session.says(text, stems):
                continue
            known.append(stems)
            kept.append(text)
        if kept:
            told[seq] = "\n\n".join(kept)
    return told


class _SessionTalk:
    """Hold the messages of a session without its notes."""

    def __init__(self, turns: Sequence[StoredTurn]) -> None:
        self._turns = turns

    def covers(self, summary: StoredTurn) -> bool:
        """Return True if the transcript holds the summarized turns.

        This is so if at least as many words are said before the summary as the summary has.
        """
        words = 0
        for turn in self._turns:
            if turn.seq >= summary.seq:
                break
            if _is_summary(turn):
                words = 0
            elif turn.kind in SPOKEN and turn.origin in _SPEAKERS and not turn.sidechain:
                words += prose.count_words(turn.text)
        return words >= prose.count_words(without_fences(summary.text))

    def says(self, text: str, stems: frozenset[str]) -> bool:
        """Return True if a sentence of a note is not the agent's own.

        It is not its own if a message says nearly the same, or if an outside text has the sentence or one of its names
        first.
        """
        return any(_is_within(stems, said) for said in self._messages) or bool(self._foreign.find_outside(text))

    @cached_property
    def _messages(self) -> list[frozenset[str]]:
        """Return the word stems of each message."""
        said = (turn for turn in self._turns if turn.kind in SPOKEN and turn.origin in _HEARD and not turn.sidechain)
        return [stems for turn in said if (stems := list_stems(turn.text))]

    @cached_property
    def _foreign(self) -> Foreign:
        return Foreign([turn for turn in self._turns if turn.kind is not TurnKind.SUMMARY])


def is_recap(turn: StoredTurn) -> bool:
    """Return True if a turn is the recap that an agent shows to a returning person, and not a compaction summary."""
    return turn.kind is TurnKind.SUMMARY and turn.role is Role.ASSISTANT and not turn.sidechain


def _is_summary(turn: StoredTurn) -> bool:
    return turn.kind is TurnKind.SUMMARY and turn.origin is Origin.ASSISTANT and not (turn.sidechain or is_recap(turn))


def _list_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a note in the agent's own words, without code, quotations and text of the program."""
    is_in = False  # True while a quotation goes on in the next sentence
    double = _SINGLE.sub(r'"\1"', text)
    for one in split(text):
        # A list item or an empty line ends a quotation that nothing closes.
        is_new = _MARK.match(one.text) or text.startswith("\n\n", one.start - 2)
        was_in = is_in and not (is_new and _CLOSES.match(double, one.start) is None)
        marks = _QUOTE_MARK.findall(double, one.start, one.end)
        is_odd = len(marks) % 2 > 0 and (was_in or not _INCHES.search(one.text))
        is_in = was_in ^ is_odd
        bare = _TITLE.sub("", one.text.strip())
        words = _NAMES.sub(" ", bare).split()
        is_other = was_in or is_in or one.kind in _LEFT_OUT or _QUOTED.match(bare) or _FRAME.match(_MARK.sub("", bare))
        tells = prose.is_wide(bare) or sum(any(map(str.isalpha, word)) for word in words) >= _FEWEST_OWN
        if tells and not is_other:
            yield bare


def _is_within(stems: frozenset[str], said: frozenset[str]) -> bool:
    return len(stems & said) >= _SAID * len(stems)


# ── memory files that the agent writes ────────────────────────────────────────────────────────────────────────────────


_TOOLS = "claude|codex|gemini|qwen|pi|opencode|cursor|windsurf|cline|roo|copilot|kiro|factory|serena"
# memoryd's own `MEMORY.md` and daily files are in no folder of a tool; edits of them are imported elsewhere.
_MEMORY_FILE = re.compile(
    r"(?:^|[/\\])(?:(?:CLAUDE|AGENTS|GEMINI|QWEN)(?:\.local|\.override)?\.md"
    rf"|\.(?:{_TOOLS})[/\\](?:.*[/\\])?(?:memor(?:y|ies)[/\\].*\.md|MEMORY\.md))$"
)
_HINT = re.compile(r"CLAUDE|AGENTS|GEMINI|QWEN|memor", re.IGNORECASE)  # each call about such a file contains this
_TAKEN = ("old_string", "old_str", "oldString", "oldText")
_FACT = "save_memory"  # the tool of Gemini that adds one line to its memory file
_UNDONE = re.compile(r"^(?:The user doesn't want to|<tool_use_error>|Error\b)", re.IGNORECASE)
_PATCHED = re.compile(r"^\*\*\* (?P<what>Add|Update|Delete|End)\b(?: File: (?P<path>.+))?", re.MULTILINE)
_HEREDOC = re.compile(
    r"^(?P<line>[^\n]{0,1000}<<-?[ \t]*['\"]?(?P<end>\w+)\b['\"]?[^\n]*)\n(?P<text>.*?)\n[ \t]*(?P=end)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_TARGET = re.compile(r"(?:>>?|\btee(?:[ \t]+-a)?)[ \t]*['\"]?(?P<path>[^\s'\"<>|;&]+)")
_COMMANDS = ("command", "cmd", "script", "input", "patch")


class _FileChange(NamedTuple):
    """Describe how a call changes a memory file."""

    path: str
    added: str
    taken: frozenset[str] = frozenset()  # the removed lines
    is_whole: bool = False  # it replaces the whole content of the file


class _LaterChanges:
    """Hold the changes that later calls make to a file, because calls are read from the last to the first."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._whole: set[str] | None = None  # the lines of the file after a later call has rewritten it

    def take(self, change: _FileChange) -> str:
        """Return the lines that a call adds and that later calls leave in place, and record the call's own changes."""
        lines = {line.strip() for line in change.added.splitlines()}
        stay = (lines if self._whole is None else lines & self._whole) - change.taken - self._taken
        self._taken |= change.taken - lines
        if change.is_whole and self._whole is None:
            self._whole = lines - self._taken
        return "\n".join(line for line in change.added.splitlines() if line.strip() in stay)


def find_written(turns: Sequence[StoredTurn]) -> dict[int, str]:
    """Return the lines that calls write to memory files and that stay there, by the number of the turn."""
    undone = {turn.tool_call_id for turn in turns if turn.tool_call_id and _UNDONE.match(turn.text)}
    calls = [turn for turn in turns if _is_own_call(turn) and turn.tool_call_id not in undone]
    changes = {turn.seq: [*_list_changes(turn)] for turn in calls if _HINT.search(turn.text)}
    private = {one.path for one in chain(*changes.values()) if is_private(one.path, one.added.encode())}
    written: dict[int, str] = {}
    files: dict[str, _LaterChanges] = {}
    for seq, made in reversed(changes.items()):
        told = (one for one in made if one.path not in private)
        written[seq] = "\n".join(files.setdefault(one.path, _LaterChanges()).take(one) for one in told)
    return written


def _is_own_call(turn: StoredTurn) -> bool:
    """Return True if a turn is a tool call of the assistant in the main conversation."""
    return turn.kind is TurnKind.TOOL_CALL and turn.origin is Origin.ASSISTANT and not turn.sidechain


def _list_changes(turn: StoredTurn) -> Iterator[_FileChange]:
    """Yield the changes that a call makes to memory files."""
    given = shown_arguments(turn.text)
    if turn.tool_name == _FACT:
        yield _FileChange("GEMINI.md", first_text(given, ("fact",)))
    path = first_text(given, PATHS)
    if _MEMORY_FILE.search(path):
        for one in (given, *mappings(given.get("edits"))):
            old = frozenset(line.strip() for line in first_text(one, _TAKEN).splitlines())
            whole = first_text(one, WHOLE_TEXTS)
            yield _FileChange(path, whole or first_text(one, NEW_PARTS), old, is_whole=bool(whole))
    command = _find_command(given) or turn.text
    if PATCH in command:
        yield from _list_patched(command)
    elif "<<" in command:
        yield from _list_piped(command)


def _find_command(given: Mapping[str, Any]) -> str:
    """Return the command or patch of a call: its text, or the last word of the list with which a shell is started."""
    found = next((given[key] for key in _COMMANDS if key in given), "")
    found = (found or [""])[-1] if isinstance(found, list) else found
    return found if isinstance(found, str) else ""


def _list_patched(patch: str) -> Iterator[_FileChange]:
    marks = list(_PATCHED.finditer(patch))
    ends = [*(one.start() for one in marks[1:]), len(patch)]
    for mark, end in zip(marks, ends, strict=False):  # words that only mention a patch have no marks
        path = (mark["path"] or "").strip()
        if _MEMORY_FILE.search(path):
            lines = patch[mark.end() : end].splitlines()
            added = "\n".join(line[1:] for line in lines if line.startswith("+"))
            taken = frozenset(line[1:].strip() for line in lines if line.startswith("-"))
            yield _FileChange(path, added, taken, is_whole=mark["what"] == "Add")


def _list_piped(command: str) -> Iterator[_FileChange]:
    for found in _HEREDOC.finditer(command):
        target = _TARGET.search(found["line"])
        if target is not None and _MEMORY_FILE.search(target["path"]):
            is_whole = not target[0].startswith(">>") and " -a" not in target[0]
            yield _FileChange(target["path"], found["text"], is_whole=is_whole)
