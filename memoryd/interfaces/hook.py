"""Answer a hook: an agent runs `memoryd hook TOOL EVENT` in its session, with JSON on standard input.

A thin client of the daemon's socket. The agent waits for it, so it imports almost nothing, takes at most two seconds,
and exits with 0 and no answer if something fails; the log then has the error. Without a daemon it reads the files of
the workspace itself, so that an agent always has its memory, but without facts, profile, the project's state and search
results. The secret scanner loads too slowly for this, so lines that look like secrets are withheld.

`memoryd connect` writes the whole command:

    memoryd hook TOOL EVENT --socket PATH --config FILE

The folder of the session chooses the agent, so one hook serves all projects, and those that come later. `--config` is
read only without a daemon. Hooks of earlier versions name their agent by `--workspace DIR` instead.
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
from memoryd.files import log_line
from memoryd.requests.daemon_client import ask

if TYPE_CHECKING:
    from memoryd.config import Settings

ALL_SECONDS = 2.0
ASK_SECONDS = 1.5  # of a start: then the files are read here
MOST_BYTES = 8 * 1024 * 1024  # of a payload
MOST_PROMPT = 4_000  # characters of one that are looked at: in JSON they fit a request
CLAUDE_UNITS = 10_000  # longer context is put into a file, and the model is shown its first lines
START, PROMPT, COMPACT, END = EVENTS = ("session-start", "prompt", "pre-compact", "session-end")


class Dialect(NamedTuple):
    """Describe the form of the answer that a tool expects."""

    names: dict[str, str] | None  # the tool's names for events that take context, in JSON; None: plain text
    units: int | None = None  # UTF-16 code units of context that it takes whole
    files: bool = True  # False: it loads the memory files itself
    nothing: str = ""  # the form of an empty answer
    keeps: bool = True  # False: text injected with a prompt is gone at the next one
    tag: str = ""  # of text that hooks injected at the start, if a prompt may begin with it


# Claude Code: code.claude.com/docs/en/hooks. Codex reads the same shape (codex-rs/hooks/src/engine/output_parser.rs),
# its length is set where the hook is configured. Gemini CLI wants JSON on standard output, always
# (docs/hooks/reference.md), and with no terminal puts a start's context ahead of the prompt, with its angles escaped
# (packages/cli/src/gemini.tsx). The others run memoryd's own plugin, which takes text.
DIALECTS = {
    "claude-code": Dialect({START: "SessionStart", PROMPT: "UserPromptSubmit"}, CLAUDE_UNITS),
    "codex": Dialect({START: "SessionStart", PROMPT: "UserPromptSubmit"}),
    "gemini": Dialect({START: "SessionStart", PROMPT: "BeforeAgent"}, nothing="{}\n", tag="hook_context"),
    "opencode": Dialect(None),
    "openclaw": Dialect(None, files=False, keeps=False),
    "pi": Dialect(None),
}


class HookError(Exception):
    """Report the failure of a hook; only the log shows it."""


class Hook(NamedTuple):
    """Hold one call of a hook."""

    tool: str
    event: str
    socket: str
    config: str
    workspace: str = ""  # of the only agent that may answer; empty: the session's folder chooses

    @property
    def dialect(self) -> Dialect:
        return DIALECTS[self.tool]

    @property
    def state_dir(self) -> str:
        return os.path.dirname(self.socket)  # noqa: PTH120 - pathlib is slow to load


def main(arguments: Sequence[str]) -> int:
    """Answer a hook; always return 0."""
    state_dir, nothing = "", ""
    told = {"tool": "", "what": ""}
    try:
        # First of all, so that a later failure can be logged in the right place.
        state_dir = os.path.dirname(_option(arguments, "--socket", ""))  # noqa: PTH120
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
            if sys.stderr is not None:  # else it would go to the agent
                print(f"memoryd hook: {why}", file=sys.stderr, flush=True)
    return 0


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    """Run a function for at most `ALL_SECONDS`, even if a pipe stays open or a disk hangs."""

    def raise_late(_number: int, _frame: FrameType | None) -> NoReturn:
        raise HookError(f"took longer than {ALL_SECONDS:g} s")

    signal.signal(signal.SIGALRM, raise_late)
    signal.setitimer(signal.ITIMER_REAL, ALL_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def parse(arguments: Sequence[str]) -> Hook:
    """Read the command line."""
    if len(arguments) < 2 or arguments[0] not in DIALECTS or arguments[1] not in EVENTS:
        raise HookError(f"memoryd hook {'|'.join(DIALECTS)} {'|'.join(EVENTS)} --socket PATH --config FILE")
    socket, config, workspace = (_option(arguments, name, "") for name in ("--socket", "--config", "--workspace"))
    if not (os.path.isabs(socket) and os.path.isabs(config or workspace)):  # noqa: PTH117
        raise HookError("--socket and --config take absolute paths; memoryd connect writes them")
    return Hook(arguments[0], arguments[1], socket, config, workspace)


def _option(arguments: Sequence[str], name: str, default: str) -> str:
    place = arguments.index(name) + 1 if name in arguments else len(arguments)
    return arguments[place] if place < len(arguments) else default


def _payload() -> dict[str, Any]:
    """Read the agent's description of the event; return nothing if standard input is a terminal."""
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
    """Return the text for the agent; empty if there is none."""
    if os.isatty(1):
        raise HookError("this is for agents: memoryd context shows a person the injected text")
    about: dict[str, Any] = {
        "tool": hook.tool,
        "workspace": hook.workspace or None,
        "cwd": _text(payload, "cwd"),
        "session": _text(payload, "session_id"),
        "transcript": _text(payload, "transcript_path"),
    }
    if hook.event in {START, PROMPT}:
        verb = "context" if hook.event == START else "prompt"
        about |= {"units": hook.dialect.units, "files": hook.dialect.files}
        about["keeps"] = hook.dialect.keeps
        if hook.dialect.names is not None:
            about["source"] = _text(payload, "source")
        about["prompt"] = _extract_prompt(hook.dialect, payload)[:MOST_PROMPT] if hook.event == PROMPT else None
    else:
        verb = "announce"
        about["event"] = hook.event
    answer = ask(hook.state_dir, verb, ASK_SECONDS if hook.event == START else ALL_SECONDS, **about)
    if answer is not None:
        if answer.get("ok"):
            return str(answer["data"].get("text", ""))
        raise HookError(str(answer["error"]["message"]))
    if hook.event != START:
        raise HookError("no daemon answers")
    text = _from_files(hook, about["cwd"])
    log_line.append(hook.state_dir, "warning", "memoryd.hook", "no daemon answers: injected from files", tool=hook.tool)
    return text


def _text(payload: dict[str, Any], name: str) -> str | None:
    value = payload.get(name)
    # JavaScript leaves half a character where it cuts a text; no database accepts it.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _extract_prompt(dialect: Dialect, payload: dict[str, Any]) -> str:
    """Return the prompt without text that other hooks put before it, so that the search uses the user's words."""
    prompt = _text(payload, "prompt") or ""
    if dialect.tag and prompt.startswith(f"<{dialect.tag}>"):
        _, closed, typed = prompt.partition(f"</{dialect.tag}>")
        return typed if closed else prompt
    return prompt


def _from_files(hook: Hook, cwd: str | None = None) -> str:
    """Return the memory files of the session's agent, limited in bytes: no tokenizer makes more tokens than bytes.

    `RECENT.md` only where all sessions are of one project: which one an entry is of, only the daemon knows.
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
                        from memoryd.scrub.hidden import mask_hidden  # takes as long to load as all else

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
    """Return the text without lines that look like secrets; at most `most` bytes."""
    from memoryd.scrub.likely import withhold_lines

    if len(text) <= most:
        return withhold_lines(text)[0]
    if end:
        begin = text.rfind("\n", 0, len(text) - most) + 1
        return text[:begin] + withhold_lines(text[begin:])[0]
    stop = text.find("\n", most)
    return withhold_lines(text[:stop])[0] + text[stop:] if stop >= 0 else withhold_lines(text)[0]


def _days() -> list[str]:
    """Return the files of today and yesterday by this machine's zone; the daemon may use another zone."""
    now = time.time()
    return [time.strftime("memory/%Y-%m-%d.md", time.localtime(now - back * 86400)) for back in (0, 1)]


def _render_answer(hook: Hook, text: str) -> str:
    """Return the answer in the tool's form."""
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
