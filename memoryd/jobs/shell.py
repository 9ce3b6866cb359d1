"""Split the script of a tool call into simple commands, each with the folder in which it runs.

The module reads the scripts that agents write, not the whole grammar of a shell. Commands in loops, functions and
substitutions are read as if they were alone. A call that runs several scripts is not read.
"""

import posixpath
import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

import orjson

from memoryd.text.word_lists import list_words
from memoryd.transcripts.fields import first_text

COMMAND_KEYS = ("command", "cmd", "script")
_FOLDER_KEYS = ("workdir", "cwd", "dir_path", "directory")
_CUT_COMMAND = re.compile(rf'[{{,]\s*"?(?:{"|".join(COMMAND_KEYS)})"?\s*:\s*"((?:[^"\\]|\\.){{1,4000}})')
_CUT_FOLDER = re.compile(rf'[{{,]\s*"?(?:{"|".join(_FOLDER_KEYS)})"?\s*:\s*"([^"\\\n]{{1,400}})"')
# Neither `<<< word` nor the shift in `$((1 << n))` begins a here-document.
_HEREDOC = re.compile(
    r"(?<!<)<<(?!<)-?[ \t]*(['\"]?)(\w+)\1(?![^\n(]*\)\))([^\n]*)\n.*?(?:^[ \t]*\2\b|\Z)", re.DOTALL | re.MULTILINE
)
# The form in which agents write a long message; of its text, the first line is read.
_DOCUMENT = re.compile(r"\"\$\(cat <<-?[ \t]*(['\"]?)(\w+)\1\s*\n([^\n]*).*?^[ \t]*\2\s*\)\"", re.DOTALL | re.MULTILINE)
_TOKEN = re.compile(
    r"(?P<space>(?:[ \t\r]|\\\n)+)|(?P<redirect>(?:\d*|&)>{1,2}&?[ \t]*|\d*<{1,3}&?[ \t]*)"
    r"|(?P<between>&&|\|\||\|&|;;|[;|&\n()])|(?P<word>(?:\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|[^\s'\"\\;|&()<>])+)"
    r"|(?P<open>['\"\\])",
    re.DOTALL,
)
_QUOTED = re.compile(r"'([^']*)'|\"((?:\\.|[^\"\\])*)\"|\\(.)", re.DOTALL)
_ASSIGNED = re.compile(r"[A-Za-z_]\w*\+?=")
_KEYWORDS = frozenset(list_words("keywords of the shell"))
_SHELLS = frozenset(["bash", "sh", "zsh", "dash"])
# Programs that run the command after them: their first words, with their options that take a value.
_WRAPPERS = {
    (name, *rest): frozenset(values.split())
    for (name, *rest), values in (
        (["sudo"], "-u -g"), (["time"], ""), (["nohup"], ""), (["env"], "-u"), (["nice"], "-n"), (["timeout"], "-k -s"),
        (["npx"], "-p --package"), (["bunx"], ""), (["pnpx"], ""), (["xvfb-run"], ""),
        (["uv", "run"], "--with --extra --group --python -p --project --directory --package --env-file"),
        (["poetry", "run"], ""), (["pipenv", "run"], ""), (["pdm", "run"], ""), (["hatch", "run"], ""),
        (["rye", "run"], ""), (["bundle", "exec"], ""), (["pnpm", "exec"], ""), (["pnpm", "dlx"], ""),
        (["npm", "exec"], ""), (["mise", "exec"], ""), (["python", "-m"], ""), (["coverage", "run"], "--source"),
    )
}  # fmt: skip
_PYTHON = re.compile(r"(?:python|py)[\d.]*")


class Step(NamedTuple):
    """Hold one simple command of a script."""

    words: tuple[str, ...]  # the words, without assignments and runners such as `npx` or `uv run`
    text: str  # as written
    folder: str  # absolute, or relative to the start folder of the script; empty for that folder
    joined: str = ""  # the operator before it: `&&`, `||`, `;`, `|` and so on
    is_written: bool = False  # its output is redirected into a file or discarded

    @property
    def name(self) -> str:
        """Return the name of the program, without its folder."""
        return self.words[0] if self.words else ""


def extract_command(call: str) -> str:
    """Return the script of a call as written, even if the input is shortened; empty if it has none or several."""
    given = read_input(call)
    found = next((given[key] for key in COMMAND_KEYS if key in given), None)
    if isinstance(found, list):  # the words of a command, such as `bash -lc SCRIPT`
        words = [word for word in found if isinstance(word, str)]
        is_script = len(words) > 2 and posixpath.basename(words[0]) in _SHELLS and words[1].startswith("-")
        return words[-1] if is_script or len(words) == 1 else " ".join(map(shlex.quote, words))
    if isinstance(found, str):
        return found
    cut = _CUT_COMMAND.findall(call)
    return _unescape(cut[0]) if len(cut) == 1 else ""


def extract_folder(call: str) -> str:
    """Return the folder that a call names as its working folder; empty if it names none."""
    given = read_input(call)
    found = first_text(given, _FOLDER_KEYS)
    cut = None if given else _CUT_FOLDER.search(call)
    return found or (cut[1] if cut else "")


def read_input(call: str) -> dict[str, object]:
    """Return the arguments of a call if they are a complete JSON object; an empty dictionary otherwise."""
    start = call.find("{")
    try:
        value = orjson.loads(call[start:]) if start >= 0 else None
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def list_steps(script: str, folder: str = "") -> list[Step]:
    """Return the simple commands of a script that starts in `folder`, in order."""
    steps: list[Step] = []
    script = _DOCUMENT.sub(lambda found: shlex.quote(found[3]), script)
    for tokens, text, joined, is_written in _split(_HEREDOC.sub(r" \3\n", script)):
        words = _unwrap(tokens)
        if not words:
            continue
        if words[0] == "cd":
            folder = join_folder(folder, words[1]) if len(words) > 1 else folder
            continue
        if words[0] in _SHELLS and len(words) > 2 and words[1].startswith("-") and "c" in words[1]:
            steps += list_steps(words[2], folder)
            continue
        place = folder
        if words[0] == "git":
            words, place = _strip_global(words, folder)
        steps.append(Step(tuple(words), text, place, joined, is_written))
    return steps


def join_folder(folder: str, path: str) -> str:
    """Return the folder to which `path` leads from `folder`."""
    joined = posixpath.normpath(posixpath.join(folder, path))
    return "" if joined == "." else joined


def _split(script: str) -> Iterator[tuple[list[str], str, str, bool]]:
    """Yield each simple command: its words, its text, the operator before it, and True if a file takes its output."""
    words: list[str] = []
    joined, start, end, into = "", 0, 0, ""
    is_written = False
    for found in _TOKEN.finditer(script):
        if found["between"]:
            if words:
                yield words, script[start:end], joined, is_written
                joined = ""
            joined = found["between"] if found["between"] not in "()" else joined
            words, into, is_written = [], "", False
        elif found["redirect"]:
            into = found["redirect"].strip()
            end = found.end()
        elif found["word"]:
            if into:  # the word after a redirection is a file, or the number of a stream
                is_written |= into in {">", ">>", "1>", "&>"}
            else:
                start = start if words else found.start()
                words.append(_QUOTED.sub(_read_quoted, found["word"]))
            into, end = "", found.end()
        elif found["open"]:
            break  # an unclosed quotation, as in a shortened call: the rest is unknown
    if words:
        yield words, script[start:end], joined, is_written


def _read_quoted(found: re.Match[str]) -> str:
    return found[1] or re.sub(r'\\(["$`\\])', r"\1", found[2] or "") or found[3] or ""


def _unwrap(tokens: list[str]) -> list[str]:
    """Return a command without keywords, assignments and runners."""
    words = list(tokens)
    while words:
        words[0] = posixpath.basename(words[0]) or words[0]
        if words[0] in _KEYWORDS or _ASSIGNED.match(tokens[len(tokens) - len(words)]):
            words = words[1:]
            continue
        first = "python" if _PYTHON.fullmatch(words[0]) else words[0]
        key = next((one for one in ((first, *words[1:2]), (first,)) if one in _WRAPPERS), None)
        if key is None:
            return words
        words = _skip_options(words[len(key) :], _WRAPPERS[key])
        if key == ("timeout",):
            words = words[1:]
    return words


def _skip_options(words: list[str], with_value: frozenset[str]) -> list[str]:
    at = 0
    while at < len(words) and (words[at].startswith("-") or _ASSIGNED.match(words[at])):
        at += 2 if words[at] in with_value else 1
    return words[at:]


def _strip_global(words: list[str], folder: str) -> tuple[list[str], str]:
    """Return a call of git without the options before its subcommand, and the folder in which it runs."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at].startswith(("-C", "--git-dir", "--work-tree")) and at + 1 < len(words):
            folder = join_folder(folder, words[at].partition("=")[2] or words[at + 1])
        at += 2 if words[at] in {"-C", "-c", "--git-dir", "--work-tree"} else 1
    return ["git", *words[at:]], folder


def _unescape(text: str) -> str:
    try:
        return str(orjson.loads(f'"{text}"'))
    except orjson.JSONDecodeError:
        return text
