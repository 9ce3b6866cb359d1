"""Read Aider's chat history, `.aider.chat.history.md`: one Markdown file that many chats are appended to.

Sources: aider's io.py, and aider's own history of 1,133 chats.
- `# aider chat started at YYYY-MM-DD HH:MM:SS` begins a chat. It is the only time, in local time.
- Text that the person typed has `#### ` before each line. Output of aider and of commands has `> `, and contains the
  answers to aider's questions. All other text is the model's.
- Each line of the first two kinds ends with two spaces. This distinguishes them from headings and quotations of the
  model. An empty line comes before typed text. This distinguishes it from a line that a command has printed.
- Older versions write an output of several lines with `> ` only before its first line, and with two spaces only after
  its last line. It follows typed text or another output without an empty line, before the model speaks or after the
  size of the context.
- A line that begins with `/` is a command. `/ask` and the other switches of mode carry a message of the person.
- `> Tokens: 12,566 sent, 84 received.` gives the size of the context after a response. Newer versions round numbers
  above a thousand (`9.2k`) and print the cost on a line of its own.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from itertools import accumulate
from pathlib import PurePosixPath

from memoryd.transcripts.fields import read_time
from memoryd.transcripts.format import Identity, LineFormat, RecordTurns, Values
from memoryd.transcripts.lines import FileCut, Pass, Record, clean
from memoryd.transcripts.record_text import Envelope, RecordText, read_message, turns_with_usage_last
from memoryd.transcripts.turn import Origin, Role, TurnKind

FILE = ".aider.chat.history.md"
_USER, _PRINTED, _MODEL = "UPM"  # the kinds of records, with H: the head of a chat
# Patterns of letters, one for each line as `_kind` gives it.
_BELOW = re.compile("(?<=([PT]))U+|(?<=[QME])U+")  # a line that looks typed, below a printed line or the model's
_OUTPUTS = re.compile(
    r"(HB*(?=[PT])|U(?=[PQT])|(?=T))((?:[PT]|Q[QMB]*+(?:[EPTU]|\Z))(?:[PTE]|[QM][QMB]*+(?:[EPTU]|\Z))*+)"
)
_QUOTED = re.compile("(?<=MB)U+")  # the model's: aider puts two blank lines between the model's text and a prompt
_SPEAKERS = str.maketrans("TQE", "PMM")
_PARTS = re.compile(r"H|U+|P(?:B*+P)*|M(?:B*+M)*")
_STARTED = re.compile(rb"# aider chat started at (\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2})\s*\Z")
_HEADED = re.compile(rb"(?:\A|\n)# aider chat started at \d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}\s")
_TYPED = re.compile(rb"####(?: .*)?  \r?\Z", re.DOTALL)
_OUTPUT = re.compile(rb">(?: .*)?  \r?\Z|> Tokens: |Cost: \$[\d.]+ \w+, \$[\d.]+ session\.", re.DOTALL)
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_PREFIX = re.compile(r"^(?:####|>) ?", re.MULTILINE)
# Messages that aider itself sends in the person's name after a failed check of the model's changes.
_PROGRAM = re.compile(r"# Fix any (?:linting )?errors below")
# A command that the person typed. Aider's switches of mode carry a message; other commands only control the program.
_COMMAND = re.compile(r"/[a-z][a-z-]*(?=\s|\Z)|!")
_ASKS = re.compile(r"\A/(?:ask|code|architect|context|ok)\s+(?=\S)")
# Aider puts this tag around code if a file of the chat contains backticks (`all_fences` in base_coder.py).
_TAGGED = re.compile(r"^<(/?)source>(?=\w*$)", re.MULTILINE)
_FENCE = "`" * 6
_CLEARS = frozenset({"/clear", "/reset"})  # after these, the chat continues without the earlier messages
_TOKENS = re.compile(r"^Tokens: ([\d.,]+)([kM]?) sent(?:, [^\n]*?)?, ([\d.,]+)([kM]?) received", re.MULTILINE)
_SCALE = {"": 1, "k": 1000, "M": 1_000_000}
_MODEL_NAME = re.compile(r"^(?:Main model|Models?): (\S{1,200}?)⚡? with ", re.MULTILINE)
# The beginnings of aider's own questions. Any other question may be output of a command.
_ANSWERED = re.compile(
    r"((?:Add |Allow |Apply |Attempt to |Create |Edit |Fix |Install |Open |Proceed|Run |Use )[^\n?]{0,200}\?)"
    r"(?: \(Y\)es[^\[\n]{0,80})?(?: \[[^\]\n]{1,10}\]:?)? (y|n|yes|no|a|all|s|skip|d)",
    re.IGNORECASE,
)


class Aider(LineFormat):
    """Read each chat of the file as a session. Its id is made of a hash of the folder and its time.

    The folder of the file is the project.
    """

    name = "aider"
    program = "Aider"
    many_sessions = True

    def sniff(self, records: Values, path: PurePosixPath) -> bool:
        """Return True if the file has the name of a history. Its records do not identify it."""
        return path.name.endswith(FILE)

    def identify(self, records: Values, path: PurePosixPath) -> Identity | None:
        """Return the identity for text before the first chat. It depends only on the path."""
        folder = str(path.parent)
        return Identity(f"aider-{sha256(folder.encode('utf-8', 'replace')).hexdigest()[:8]}", None, folder)

    def cut(self, data: bytes, base: int, *, last: bool) -> FileCut:
        """Divide lines into records that have one speaker each.

        The last record may still grow, so it waits unless `last`.
        """
        lines = _LINE.findall(data)
        starts = list(accumulate(map(len, lines), initial=0))
        kinds = _BELOW.sub(lambda one: ("P" if one[1] else "E") * len(one[0]), "".join(map(_kind, lines)))
        kinds = _OUTPUTS.sub(lambda one: one[1] + "P" * len(one[2]), kinds).translate(_SPEAKERS)
        parts, records = list(_PARTS.finditer(_QUOTED.sub(lambda one: "M" * len(one[0]), kinds))), list[Record]()
        for part in parts:
            first, end = starts[part.start()], starts[part.end() - 1] + len(lines[part.end() - 1].rstrip(b"\r\n"))
            records.append(Record({"kind": part[0][0]}, base + first, base + end, data[first:end]))
        if last or not parts or (parts[-1][0][0] == _USER and parts[-1].end() < len(kinds)):
            return FileCut(records, (), len(data))
        # What is before an output may tell that it is one, so both wait.
        held = parts[-2:] if parts[-1][0][0] == _PRINTED and parts[-2:][0][0][0] != _MODEL else parts[-1:]
        return FileCut(records[: -len(held)], (), starts[held[0].start()])

    def turns(self, record: Record, identity: Identity, meetings: Pass) -> RecordTurns:
        """Return the turns of the text of one speaker. The head of a chat begins a new session."""
        chats = meetings.recall(lambda: _Chats(identity))
        if started := _STARTED.match(record.data):
            chats.begin(identity, started[1].decode())
            return RecordTurns()
        kind = record.value.get("kind")
        text = clean(record.data.decode("utf-8", "replace"))
        usage = model = None
        if kind in (_USER, _PRINTED):
            text = "\n".join(line.rstrip() for line in _PREFIX.sub("", text).split("\n")).strip("\n")
        if kind == _USER:
            typed = _ASKS.sub("", text)
            is_command = typed == text and _COMMAND.match(text) is not None
            said = [read_message(typed, program=is_command or _PROGRAM.match(typed) is not None)]
            if text.strip() in _CLEARS:
                said.append(RecordText(Role.SYSTEM, Origin.SYSTEM, TurnKind.COMPACTION, ""))
        elif kind == _PRINTED:
            said = [RecordText(Role.TOOL, Origin.TOOL, TurnKind.MESSAGE, text), *_choices(text)]
            usage = _context(text)
            model = next((found[1] for found in _MODEL_NAME.finditer(text)), None)
        else:
            tags = _TAGGED.findall(text)
            text = _TAGGED.sub(_FENCE, text) if tags == ["", "/"] * (len(tags) // 2) else text
            said = [RecordText(Role.ASSISTANT, Origin.ASSISTANT, TurnKind.MESSAGE, text)]
        envelope = Envelope(chats.count_next(record), chats.chat.started_at, model=model)
        return RecordTurns(turns_with_usage_last(said, envelope, usage), session=chats.chat)


def is_history(path: PurePosixPath, head: bytes) -> bool:
    """Return True if a file is a chat history of aider, by its name or by the head of a chat."""
    return path.name.endswith(FILE) or (path.suffix == ".md" and _HEADED.search(head) is not None)


@dataclass(slots=True)
class _Chats:
    """Hold the present chat of a file while it is read."""

    chat: Identity
    counts: Counter[bytes] = field(default_factory=Counter)  # by the hash of a text, how often it occurred in the chat
    started: Counter[str] = field(default_factory=Counter)  # by its time, how many chats began in that second

    def begin(self, identity: Identity, at: str) -> None:
        """Begin the chat that started at the local time `at`."""
        self.started[at] += 1
        stamp = at.replace("-", "").replace(" ", "T").replace(":", "")
        again = f"-{self.started[at]}" if self.started[at] > 1 else ""
        self.chat = identity._replace(session_id=f"{identity.session_id}-{stamp}{again}", started_at=_read_local(at))
        self.counts.clear()

    def count_next(self, record: Record) -> str:
        """Return an id for the next record, made of its chat, its text, and how often the text occurred in the chat."""
        digest = sha256(record.data).digest()
        self.counts[digest] += 1
        seed = b"\n".join([self.chat.session_id.encode("utf-8", "replace"), digest, b"%d" % self.counts[digest]])
        return f"sha256:{sha256(seed).hexdigest()}"


def _read_local(at: str) -> str | None:
    """Return a local time as UTC in ISO 8601, or None for any other text."""
    try:
        return read_time(datetime.fromisoformat(at).astimezone().isoformat())
    except (ValueError, OverflowError, OSError):
        return None


def _kind(line: bytes) -> str:
    """Return a letter for a line by its beginning and its end.

    They are H: the head of a chat, U: typed, P: printed, T: the size of the context, B: blank. All others are the
    model's, unless an output of several lines surrounds them. Q begins with `>`, E ends with two spaces, M neither.
    """
    line = line.rstrip(b"\n")
    if not line or line.isspace():
        return "B"
    if line.startswith(b"# ") and _STARTED.match(line):
        return "H"
    if line.startswith(b"####") and _TYPED.match(line):
        return _USER
    if line[:1] in b">C" and _OUTPUT.match(line):
        return "T" if line.startswith(b"> Tokens: ") else _PRINTED
    return "Q" if line.startswith(b">") else "E" if line.rstrip(b"\r") == line.rstrip() + b"  " else _MODEL


def _context(text: str) -> int | None:
    """Return the tokens of the context after the last response in this output; None if the output has no number."""
    found = _TOKENS.findall(text)
    if not found:
        return None
    sent, scale, received, its_scale = (part.replace(",", "") for part in found[-1])
    try:
        return round(float(sent) * _SCALE[scale]) + round(float(received) * _SCALE[its_scale]) or None
    except ValueError:
        return None


def _choices(text: str) -> list[RecordText]:
    """Return the person's answers to questions of aider."""
    found = (_ANSWERED.fullmatch(line) for line in text.split("\n"))
    said = (f'asked "{one[1]}", chose "{one[2]}"' for one in found if one)
    return [RecordText(Role.USER, Origin.USER, TurnKind.CHOICE, one) for one in said]
