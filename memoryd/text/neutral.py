"""Make text neutral: one line that can follow "- " in Markdown and means nothing to any parser.

A transcript must not be able to forge a heading, front matter, a section marker, an HTML comment, a tag, or a role
token of a chat template. It must not hide text by zero-width and bidirectional controls either. These attacks on memory
files of agents are published: forged XML tags in the input of a summary, chat-template tokens in memory, invisible
instructions.
"""

import re
import unicodedata
from functools import lru_cache

_JOINERS = "\u200c\u200d"  # zero-width joiners, which Persian, Indic scripts and emoji need between their own letters
# Letters without a visible form: Hangul fillers, variation selectors except those of emoji, the Braille blank.
_BLANK = re.compile("[\u034f\u115f\u1160\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]")
_OPENS = re.compile(r"<(?=[A-Za-z/!?|\uff5c<\[])")  # the wide bar occurs in the role tokens of DeepSeek
# A match begins only at the first dash, because a long line of dashes would be slow otherwise.
_CLOSES_COMMENT = re.compile(r"(?<!-)--+!?>")
_FENCE = re.compile(r"`{3,}|~{3,}")
_PICTURE = re.compile(r"!\[")
_TEMPLATE = re.compile(
    r"\[(?=\s*/?\s*(?:INST|SYS|SYSTEM_PROMPT|MODEL_SETTINGS|TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CONTENT)\b)",
    re.IGNORECASE,
)
_MARKER = re.compile(r"\[(?=\s*(?:SUMMARY|MEMORIES|NOTHING|Tool:|t\d+\b))", re.IGNORECASE)
_BULLET = re.compile(r"\s*[-*+]\s")
_SHAPE = re.compile(r"([ \t]*)((?:[-*+]|\d{1,9}[.)]|#{1,6}|>)[ \t]+)?(.*)", re.DOTALL)
_FENCE_LINE = re.compile(r"[ \t]*(?:`{3,}|~{3,})[\w+#.-]{0,40}")
_LEADING = re.compile(
    r"^(?:\s|[>|]|#{1,6}(?=\s|$)|[-*+](?=\s|$)|[-*_=]{3,}|%%+|:::+|\d{1,9}[.)](?=\s+[^\s(])"
    r"|(?:system|developer|tool|function|ipython)\s*:)+",
    re.IGNORECASE,
)


@lru_cache(maxsize=1024)  # cached, because a job asks for the same sentences at each step
def neutralize(text: str) -> str:
    """Return `text` as one line without anything that a reader of Markdown, tags or prompts would act on.

    The result may be empty. Neutral text stays unchanged: `neutralize(neutralize(x)) == neutralize(x)`.
    """
    line = make_visible(" ".join(text.split()))
    line = _OPENS.sub("\u2039", line)
    line = _CLOSES_COMMENT.sub("--\u203a", line)
    line = _FENCE.sub("'", line)
    line = _PICTURE.sub("[", line)
    line = _MARKER.sub("(", _TEMPLATE.sub("(", line))
    return _LEADING.sub("", " ".join(line.split())).strip()


def neutral_lines(text: str) -> str:
    """Return `text` with each line made neutral; bullets stay bullets, and blank lines still separate paragraphs.

    The result may be empty.
    """
    lines = []
    for line in text.splitlines():
        match = _BULLET.match(line)
        clean = neutralize(line)
        lines.append(f"- {clean}" if match and clean else clean)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def neutral_markdown(text: str) -> str:
    """Return `text` with each line made neutral after its indentation and its heading, list or quote mark.

    The lines keep their numbers, and code keeps its fences. The result is for showing a file, not for writing one.
    `neutral_markdown(neutral_markdown(x)) == neutral_markdown(x)`.
    """
    return "\n".join(map(_shape_line, text.split("\n")))


def _shape_line(line: str) -> str:
    if _FENCE_LINE.fullmatch(line.rstrip()):
        return line.rstrip()
    indent, mark, clean = split_shape(line)
    return f"{indent}{mark}{clean}" if clean else ""


def split_shape(line: str) -> tuple[str, str, str]:
    """Return the indentation of `line`, its heading, list or quote mark with the space, and the neutral rest."""
    indent, mark, rest = _SHAPE.fullmatch(line).groups("")  # type: ignore[union-attr]  # it matches any text
    return indent, mark, neutralize(rest)


def make_visible(text: str) -> str:
    """Return `text` without invisible characters; those that end a line or control a screen become spaces."""
    if text.isprintable() and not _BLANK.search(text):
        return text
    out = []
    for i, char in enumerate(text):
        category = unicodedata.category(char)
        if char.isspace() or category in {"Zl", "Zp", "Cc"}:
            out.append(" ")
        elif category in {"Cf", "Cs", "Co", "Cn"}:
            out.append(char if char in _JOINERS and _between_letters(text, i) else "")
        elif not _BLANK.match(char):
            out.append(char)
    return "".join(out)


def _between_letters(text: str, i: int) -> bool:
    before, after = text[i - 1 : i], text[i + 1 : i + 2]
    return all(char and not char.isascii() and unicodedata.category(char)[0] in "LMS" for char in (before, after))
