"""Answer a hook: an agent runs `memoryd hook TOOL EVENT` in its session, with JSON on standard input.

This is a thin client of the daemon's socket. The agent waits for it, so it imports almost nothing and takes at most two
seconds. If something fails, it exits with 0 and an empty answer, and the log has the error.

Without a daemon, the hook reads the files of the workspace itself. The agent then gets its memory, but no facts, no
profile, no project state and no search results. The secret scanner loads too slowly here, so lines that look like
secrets are withheld.

`memoryd connect` writes the whole command:

    memoryd hook TOOL EVENT --socket PATH --config FILE

The folder of the session decides which agent answers, so one hook serves all projects, including later ones. The file
of `--config` is read only without a daemon. Hooks of earlier versions name their agent by `--workspace DIR` instead.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from memoryd.errors import ConfigError, StateError
from memoryd.files import log_line, socket_file
from memoryd.requests.daemon_client import SOCKET, ask

if TYPE_CHECKING:
    from memoryd.config import Settings

ALL_SECONDS = 2.0
ASK_SECONDS = 1.5  # how long a session start waits for the daemon before it reads the files itself
MOST_BYTES = 8 * 1024 * 1024  # the largest payload on standard input
MOST_PROMPT = 4_000  # characters of a prompt that the search uses; also with JSON escapes, they fit into a request
CLAUDE_UNITS = 10_000  # UTF-16 code units; Claude Code moves longer context to a file and shows the model the start
START, PROMPT, COMPACT, END = EVENTS = ("session-start", "prompt", "pre-compact", "session-end")


class Dialect(NamedTuple):
    """Describe which answer a tool expects, and what it does with injected text."""

    names: dict[str, str] | None  # the tool's names of the events that take context as JSON; None: plain text
    units: int | None = None  # the most UTF-16 code units of context that it takes uncut; None: no limit
    files: bool = True  # False: the tool loads the memory files itself
    nothing: str = ""  # the form of an empty answer
    keeps: bool = True  # False: text injected with one prompt is gone at the next prompt
    tag: str = ""  # the tag around injected text that a prompt may begin with


# Sources of the formats:
# Claude Code: code.claude.com/docs/en/hooks.
# Codex has the same format (codex-rs/hooks/src/engine/output_parser.rs). Its hook configuration sets the length.
# Gemini CLI always needs JSON on standard output (docs/hooks/reference.md). Without a terminal, it puts the context of
# a start before the prompt, with escaped angle brackets (packages/cli/src/gemini.tsx).
# The other tools run a plugin of memoryd, which takes plain text.
DIALECTS = {
    "claude-code": Dialect({START: "SessionStart", PROMPT: "UserPromptSubmit"}, CLAUDE_UNITS),
    "codex": Dialect({START: "SessionStart", PROMPT: "UserPromptSubmit"}),
    "gemini": Dialect({START: "SessionStart", PROMPT: "BeforeAgent"}, nothing="{}\n", tag="hook_context"),
    "opencode": Dialect(None),
    "openclaw": Dialect(None, files=False, keeps=False),
    "pi": Dialect(None),
}


class HookError(Exception):
    """Report why a hook failed. The message goes to the log and to standard error."""


class Hook(NamedTuple):
    """Hold the parsed command line of one hook."""

    tool: str
    event: str
    socket: str
    config: str
    workspace: str = ""  # the workspace of the only agent that may answer; empty: the session's folder decides

    @property
    def dialect(self) -> Dialect:
        return DIALECTS[self.tool]

    @property
    def state_dir(self) -> str:
        return os.path.dirname(self.socket)  # noqa: PTH120 - pathlib is slow to load


def main(arguments: Sequence[str]) -> int:
    """Answer a hook. Always return 0, because an agent must not stop if its memory fails."""
    state_dir, nothing = "", ""
    told = {"tool": "", "what": ""}
    try:
        # First, so that every later failure is logged in the right folder.
        state_dir = os.path.dirname(_option(arguments, "--socket"))  # noqa: PTH120
        nothing = DIALECTS[arguments[0]].nothing if arguments and arguments[0] in DIALECTS else ""
        with _in_time():
            hook = parse(arguments)
            told = {"tool": hook.tool, "what": hook.event}
            _write(_render_answer(hook, _answer(hook, _payload())))
    except Exception as error:  # noqa: BLE001 - an agent must not be stopped by its memory
        with contextlib.suppress(OSError, HookError):
            _write(nothing)
        why = str(error) if isinstance(error, HookError) else type(error).__name__
        log_line.append(state_dir, "error", "memoryd.hook", "hook failed", why=why, **told)
        with contextlib.suppress(OSError):
            if sys.stderr is not None:  # otherwise `print` would write to standard output, which the agent reads
                print(f"memoryd hook: {why}", file=sys.stderr, flush=True)
    return 0


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    """Limit a block to `ALL_SECONDS`, even if a pipe stays open or a disk hangs.

    Raises:
        HookError: The block takes longer.
    """

    def raise_late(_number: int, _frame: FrameType | None) -> NoReturn:
        raise HookError(f"took longer than {ALL_SECONDS:g} s")

    signal.signal(signal.SIGALRM, raise_late)
    signal.setitimer(signal.ITIMER_REAL, ALL_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def parse(arguments: Sequence[str]) -> Hook:
    """Parse the command line of the hook.

    Raises:
        HookError: A word is missing, unknown or not an absolute path.
    """
    if len(arguments) < 2 or arguments[0] not in DIALECTS or arguments[1] not in EVENTS:
        raise HookError(f"memoryd hook {'|'.join(DIALECTS)} {'|'.join(EVENTS)} --socket PATH --config FILE")
    socket, config, workspace = (_option(arguments, name) for name in ("--socket", "--config", "--workspace"))
    if not (os.path.isabs(socket) and os.path.isabs(config or workspace)):  # noqa: PTH117
        raise HookError("--socket and --config take absolute paths; memoryd connect writes them")
    return Hook(arguments[0], arguments[1], socket, config, workspace)


def _option(arguments: Sequence[str], name: str) -> str:
    place = arguments.index(name) + 1 if name in arguments else len(arguments)
    return arguments[place] if place < len(arguments) else ""


def _payload() -> dict[str, Any]:
    """Read the event's JSON object from standard input; return {} if that is a terminal, empty or not an object.

    Raises:
        HookError: The payload is too long or not JSON.
    """
    if os.isatty(0):
        return {}
    data = b""
    while chunk := os.read(0, 65536):
        data += chunk
        if len(data) > MOST_BYTES:
            raise HookError("the payload is too long")
    try:
        payload = json.loads(data) if data.strip() else {}
    except ValueError:
        raise HookError("the payload is not JSON") from None
    return payload if isinstance(payload, dict) else {}


def _answer(hook: Hook, payload: dict[str, Any]) -> str:
    """Return the text for the agent, from the daemon or from the files; empty if there is none.

    Raises:
        HookError: Standard output is a terminal, or the daemon gives no text, and the files do not replace it.
    """
    if os.isatty(1):
        raise HookError("this is for agents: memoryd context shows a person the injected text")
    about: dict[str, Any] = {
        "tool": hook.tool,
        "workspace": hook.workspace or None,
        "cwd": _text(payload, "cwd"),
        "session": _text(payload, "session_id"),
        "transcript": _text(payload, "transcript_path"),
    }
    verb = {START: "context", PROMPT: "prompt"}.get(hook.event, "announce")
    if hook.event in {START, PROMPT}:
        about |= {"units": hook.dialect.units, "files": hook.dialect.files, "keeps": hook.dialect.keeps}
        if hook.dialect.names is not None:
            about["source"] = _text(payload, "source")
        about["prompt"] = _extract_prompt(hook.dialect, payload)[:MOST_PROMPT] if hook.event == PROMPT else None
    else:
        about["event"] = hook.event
    answer = ask(hook.state_dir, verb, ASK_SECONDS if hook.event == START else ALL_SECONDS, **about)
    if answer is not None and answer.get("ok"):
        return str(answer["data"].get("text", ""))
    code, why = (None, "no daemon answers") if answer is None else map(answer["error"].get, ("code", "message"))
    if hook.event != START or code not in {None, "failed", "state"}:  # for other codes, files may tell too much
        raise HookError(str(why))
    text = _from_files(hook, about["cwd"])
    if busy := socket_file.connect(os.path.join(hook.state_dir, SOCKET), 0.1):  # noqa: PTH118
        from memoryd.scrub.likely import INSTEAD

        busy.close()
        text = text.replace(INSTEAD, INSTEAD.replace("no daemon is there", "the daemon is too busy"))
    log_line.append(hook.state_dir, "warning", "memoryd.hook", f"{why}: injected from files", tool=hook.tool)
    return text


def _text(payload: dict[str, Any], name: str) -> str | None:
    value = payload.get(name)
    # JavaScript may cut a text inside a surrogate pair. No database accepts the remaining half.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _extract_prompt(dialect: Dialect, payload: dict[str, Any]) -> str:
    """Return the user's own prompt, without text that other hooks put before it. The search uses these words."""
    prompt = _text(payload, "prompt") or ""
    if dialect.tag and prompt.startswith(f"<{dialect.tag}>"):
        _, closed, typed = prompt.partition(f"</{dialect.tag}>")
        return typed if closed else prompt
    return prompt


def _from_files(hook: Hook, cwd: str | None = None) -> str:
    """Return the memory files of the session's agent as text; empty if the tool loads them itself or no agent matches.

    The limit in tokens is applied to bytes, because no tokenizer makes more tokens than bytes. `RECENT.md` is included
    only if all sessions belong to one project: only the daemon knows the project of each entry.
    """
    if not hook.dialect.files:
        return ""
    from pathlib import Path

    from memoryd.agent_choice import choose, folders_of
    from memoryd.files.open_folder import open_folder
    from memoryd.files.regular import read_below
    from memoryd.recall.injection import RECENT_FILE, Budget, Part, render
    from memoryd.scrub.likely import may_hide

    settings = _load_settings(hook)
    agent = choose(settings, cwd)
    if agent is None or hook.workspace not in {"", str(agent.workspace)}:
        return ""
    parts = []
    limit = settings.injection.files_max_tokens
    if not agent.workspace.is_dir():
        raise HookError(f"there is no workspace {agent.workspace}")
    with open_folder(agent.workspace) as folder:
        is_one = len(folders_of(agent)) == 1 or (cwd and Path(cwd).resolve().is_relative_to(agent.folder))
        recent = (RECENT_FILE,) if is_one else ()
        for name in (*recent, "MEMORY.md", *_days()):
            with contextlib.suppress(StateError):
                data = read_below(folder, name)
                if data:
                    newest_last = name not in {"MEMORY.md", RECENT_FILE}
                    if may_hide(data):
                        from memoryd.scrub.hidden import mask_hidden  # slow to import, so only if needed

                        data = mask_hidden(data)
                    text = _looked_through(data.decode("utf-8", "replace"), limit, end=newest_last)
                    parts.append(Part(name, text, newest_last=newest_last))
    budget = Budget(limit, limit, limit, hook.dialect.units)
    return render([], [], parts, budget, lambda texts: [len(text.encode("utf-8", "replace")) for text in texts]).text


def _load_settings(hook: Hook) -> Settings:
    from pathlib import Path

    from memoryd import config

    if not hook.config:
        raise HookError("no daemon answers, and this hook is of an earlier version: memoryd connect writes it again")
    try:
        return config.load(Path(hook.config))
    except ConfigError as error:
        raise HookError(str(error)) from None


def _looked_through(text: str, most: int, *, end: bool) -> str:
    """Return the text, but withhold the lines that look like secrets.

    Only the part that can be injected is checked: about `most` characters at the start or, with `end`, at the end.
    """
    from memoryd.scrub.likely import withhold_lines

    begin = text.rfind("\n", 0, max(0, len(text) - most)) + 1 if end else 0
    stop = -1 if end else text.find("\n", most)
    stop = len(text) if stop < 0 else stop
    return text[:begin] + withhold_lines(text[begin:stop])[0] + text[stop:]


def _days() -> list[str]:
    """Return the paths of today's and yesterday's daily file in this machine's time zone.

    The daemon may be set to another time zone.
    """
    now = time.time()
    return [time.strftime("memory/%Y-%m-%d.md", time.localtime(now - back * 86400)) for back in (0, 1)]


def _render_answer(hook: Hook, text: str) -> str:
    """Return the answer in the format that the tool expects."""
    names = hook.dialect.names
    if names is None or not text:
        return text or hook.dialect.nothing
    answer = {"hookEventName": names[hook.event], "additionalContext": text}
    return json.dumps({"hookSpecificOutput": answer}, ensure_ascii=False) + "\n"


def _write(text: str) -> None:
    if sys.stdout is None:
        raise HookError("standard output is closed")
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
