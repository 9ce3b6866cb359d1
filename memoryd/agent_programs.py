"""List the agent programs that memoryd knows, with the place of their transcripts: one row for each program.

`memoryd init` offers a program if its files exist. `KNOWN_FORMATS` of the configuration lists the formats that this
version reads.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class AgentProgram(NamedTuple):
    """Locate the transcripts of one program."""

    name: str  # the name of the program and of its format
    folder: str  # relative to the home folder
    # An environment variable that names another folder instead, or with `below` the folder above it.
    variable: str | None
    patterns: tuple[str, ...]  # globs of its transcripts, relative to the folder
    below: str = ""  # the program's folder, relative to the variable's
    # A file that holds the path of the project, relative to the folder of a transcript.
    root_file: str | None = None
    # SQL for its databases. It returns the folder and the first and last time of each session, in milliseconds.
    rows: str | None = None
    # Each project has its own folder of transcripts, named after the path of the project.
    is_by_project: bool = False

    def find_root(self, home: Path, environ: Mapping[str, str]) -> Path:
        """Return the absolute path of the program's folder."""
        named = environ.get(self.variable) if self.variable else None
        return home / named.replace("~", str(home), named[0] == "~") / self.below if named else home / self.folder

    def list_patterns(self, root: Path, project: Path | None = None) -> list[str]:
        """Return the absolute globs of the transcripts.

        With a project, they are limited to its transcripts if the program keeps these in a folder of their own.
        """
        patterns = self.patterns
        if project is not None and self.is_by_project:
            # `*` also includes the subfolders of the project. It leaves out those of a home folder, which are projects
            # themselves.
            below = "" if root.is_relative_to(project) else "*"
            patterns = tuple(pattern.replace("/**/", f"/{make_slug(project)}{below}/**/") for pattern in patterns)
        return [f"{escape(root)}/{pattern}" for pattern in patterns]


def make_slug(project: Path) -> str:
    """Return the name of a project's folder of transcripts in Claude Code.

    Claude Code cuts a long name to 200 characters and appends a hash, which this function leaves out.
    """
    return re.sub(r"[^A-Za-z0-9]", "-", str(project))[:200]


def escape(path: Path | str) -> str:
    """Return the glob that matches only this path."""
    return re.sub(r"([*?\[{}])", r"[\1]", str(path))


PROGRAMS = {
    one.name: one
    for one in (
        AgentProgram("claude-code", ".claude", "CLAUDE_CONFIG_DIR", ("projects/**/*.jsonl",), is_by_project=True),
        AgentProgram("codex", ".codex", "CODEX_HOME", ("sessions/**/*.jsonl", "archived_sessions/*.jsonl")),
        AgentProgram(
            "opencode", ".local/share/opencode", "XDG_DATA_HOME", ("opencode.db",), below="opencode",
            rows="SELECT directory, time_created, time_updated FROM session WHERE parent_id IS NULL",
        ),
        AgentProgram("pi", ".pi/agent", "PI_CODING_AGENT_DIR", ("sessions/*/*.jsonl",)),
        AgentProgram(
            "openclaw", ".openclaw", "OPENCLAW_STATE_DIR",
            ("agents/*/agent/openclaw-agent.sqlite", "agents/*/sessions/*.jsonl"),
            # The first event of a session names its folder.
            rows="SELECT max(CASE WHEN seq = 0 AND json_valid(event_json) THEN json_extract(event_json, '$.cwd') END),"
            " min(e.created_at), max(e.created_at) FROM transcript_events e LEFT JOIN session_windows w"
            " ON w.session_id = e.session_id WHERE coalesce(w.session_key, '') NOT LIKE '%:subagent:%'"
            " GROUP BY e.session_id",
        ),
        AgentProgram("gemini", ".gemini", None, ("tmp/*/chats/session-*.json*",), root_file="../.project_root"),
        AgentProgram("cline", ".cline/data", None, ("**/*.messages.json",)),
    )
}  # fmt: skip
# Aider has no folder of its own. Its history is in each project.
AIDER_HISTORY = ".aider.chat.history.md"
