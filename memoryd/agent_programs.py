"""List the agent programs that memoryd knows, with the place of their transcripts: one row for each program.

A program is offered by `memoryd init` if its files are there. `KNOWN_FORMATS` of the configuration says whether this
version reads them.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class AgentProgram(NamedTuple):
    """Locate the transcripts of one program."""

    name: str  # of the program and of its format
    folder: str  # below the home folder
    variable: str | None  # names another folder in its place, or that above it
    patterns: tuple[str, ...]  # globs of its transcripts below the folder
    below: str = ""  # the program's folder in that of the variable
    root_file: str | None = None  # a file that holds the path of the project, seen from the transcript's folder
    rows: str | None = None  # SQL for its databases: folder, first and last time in milliseconds, of each session
    is_by_project: bool = False  # whether each project has its own folder of transcripts, named after its path

    def find_root(self, home: Path, environ: Mapping[str, str]) -> Path:
        """Return the absolute path of the program's folder."""
        named = environ.get(self.variable) if self.variable else None
        return home / named.replace("~", str(home), named[0] == "~") / self.below if named else home / self.folder

    def list_patterns(self, root: Path, project: Path | None = None) -> list[str]:
        """Return the absolute globs of the transcripts, of one project where its path names their folder."""
        patterns = self.patterns
        if project is not None and self.is_by_project:
            # `*` takes the project's subfolders in as well, but not those of a home folder: each is its own project.
            below = "" if root.is_relative_to(project) else "*"
            patterns = tuple(pattern.replace("/**/", f"/{make_slug(project)}{below}/**/") for pattern in patterns)
        return [f"{escape(root)}/{pattern}" for pattern in patterns]


def make_slug(project: Path) -> str:
    """Return the name that Claude Code gives to a project's folder of transcripts; a shortened name ends in a hash."""
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
# Aider has no folder of its own: its history is in each project.
AIDER_HISTORY = ".aider.chat.history.md"
