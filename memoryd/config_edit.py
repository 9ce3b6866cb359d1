"""Add agents to the text of a configuration file and remove them again; all other bytes stay the same.

Each addition begins on a line that ends with a mark, which finds it again:

    discover: ["claude-code"]  # memoryd init
    agents:
      - id: shop  # memoryd init
        workspace: "/home/mara/shop"
        transcripts:
          - {path: "/home/mara/.claude/projects/**/*.jsonl", format: claude-code, project: "/home/mara/shop"}
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from memoryd.errors import ConfigError

_HISTORY = "ingest: {history: flush}  # sessions from before memoryd become memory as well\n"
HEAD = "# Written by `memoryd init`, and yours to edit: memoryd config default prints every key with its reason.\n"
MARK = "  # memoryd init"
# These are the lines of a new configuration.
_BEGUN = re.compile(rf"state_dir:|agents:|{re.escape(_HISTORY.rstrip())}|\s*$")
# JSON may hold these characters unescaped, but YAML may not.
_UNWRITTEN = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class NewSource(NamedTuple):
    """Describe one source of transcripts: a glob, its format, and the project of its sessions."""

    path: str
    format: str
    project: Path


class NewAgent(NamedTuple):
    """Describe one agent to add."""

    id: str
    workspace: Path
    in_state: bool  # its memory is kept in the state folder
    sources: Sequence[NewSource]


def begin(state_dir: Path, discover: Sequence[str]) -> str:
    """Return the text of a configuration without agents."""
    return f"{HEAD}state_dir: {_quote(state_dir)}\n{_HISTORY}{_discover_line(discover)}agents: []\n"


def add_agents(text: str, agents: Sequence[NewAgent]) -> str:
    """Return the text with more agents after the existing ones.

    Raises:
        ConfigError: `agents` is missing, or is a list in brackets that is not empty.
    """
    lines = text.splitlines(keepends=True)
    key, node = _find(text, "agents")
    blocks = [_agent_lines(agent) for agent in agents]
    if isinstance(node, SequenceNode) and node.value and not node.flow_style:
        indent, at = node.start_mark.column, _last_line(node) + 1
        _end_line(lines, at)
    elif isinstance(node, SequenceNode | ScalarNode) and not node.value:
        indent, at = 2, key.end_mark.line + 1
        comment = lines[at - 1].partition("#")
        lines[at - 1] = f"agents:{f'  #{comment[2].rstrip()}' if comment[1] else ''}\n"
    else:
        raise ConfigError("agents is a list in brackets", hint="write each agent on lines of its own, after a dash")
    lines[at:at] = [f"{' ' * indent}{line}\n" for block in blocks for line in block]
    return "".join(lines)


def add_sources(text: str, agent: int, sources: Sequence[NewSource]) -> str:
    """Return the text with more transcripts for one agent, counted from 0.

    Raises:
        ConfigError: its transcripts are a list in brackets, or it has none.
    """
    _, agents = _find(text, "agents")
    node = agents.value[agent] if isinstance(agents, SequenceNode) else None
    found = next((value for name, value in node.value if name.value == "transcripts"), None) if node else None
    if not isinstance(found, SequenceNode) or found.flow_style or not found.value:
        hint = "write each of them on a line of its own, after a dash"
        raise ConfigError(f"agents[{agent}].transcripts is not a list of lines", hint=hint)
    lines = text.splitlines(keepends=True)
    at = _last_line(found) + 1
    _end_line(lines, at)
    lines[at:at] = [f"{' ' * found.start_mark.column}{_source_line(one)}{MARK}\n" for one in sources]
    return "".join(lines)


def set_discover(text: str, programs: Sequence[str]) -> str:
    """Return the text with `programs` as `discover`, whose new projects are added.

    If a person has set the key, the text is unchanged.
    """
    lines = text.splitlines(keepends=True)
    found = [number for number, line in enumerate(lines) if line.startswith("discover:")]
    if not found:
        key, _ = _find(text, "agents")
        lines.insert(key.start_mark.line, _discover_line(programs))
    elif lines[found[0]].rstrip().endswith(MARK):
        lines[found[0]] = _discover_line(programs)
    return "".join(lines)


def remove_added(text: str) -> str | None:
    """Return the text without all additions, or None if they were the whole file."""
    _, node = _find(text, "agents")
    lines = text.splitlines(keepends=True)
    spans = [(number, number) for number, line in enumerate(lines) if line.rstrip().endswith(MARK)]
    left = 0
    for agent in node.value if isinstance(node, SequenceNode) else ():
        first = agent.start_mark.line
        if lines[first].rstrip().endswith(MARK):
            spans.append((first, _last_line(agent)))
        else:
            left += 1
    gone = {number for first, last in spans for number in range(first, last + 1)}
    kept = "".join(line for number, line in enumerate(lines) if number not in gone)
    if not left and text.startswith(HEAD) and all(map(_BEGUN.match, kept.removeprefix(HEAD).splitlines())):
        return None
    return kept if left or not gone else re.sub(r"(?m)^agents:(?=[ \t]*(?:#|$))", "agents: []", kept, count=1)


def _find(text: str, key: str) -> tuple[Node, Node]:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    for name, value in root.value if isinstance(root, MappingNode) else ():
        if name.value == key:
            return name, value
    raise ConfigError(f"{key} is missing", hint=f"add the line {key}: []")


def _last_line(node: Node) -> int:
    """Return the number of the last line of a node, counted from 0."""
    if isinstance(node, MappingNode) and node.value and not node.flow_style:
        return _last_line(node.value[-1][1])
    if isinstance(node, SequenceNode) and node.value and not node.flow_style:
        return _last_line(node.value[-1])
    # YAML puts the end of a text over several lines at the beginning of the next line.
    end: int = node.end_mark.line
    return end - 1 if node.end_mark.column == 0 and end > node.start_mark.line else end


def _end_line(lines: list[str], at: int) -> None:
    if not lines[at - 1].endswith("\n"):
        lines[at - 1] += "\n"


def _discover_line(programs: Sequence[str]) -> str:
    return f"discover: {json.dumps(list(programs))}{MARK}\n"


def _agent_lines(agent: NewAgent) -> list[str]:
    lines = [f"- id: {json.dumps(agent.id)}{MARK}", f"  workspace: {_quote(agent.workspace)}"]
    lines += ["  memory: state"] if agent.in_state else []
    return [*lines, "  transcripts:", *(f"    {_source_line(one)}" for one in agent.sources)]


def _source_line(one: NewSource) -> str:
    return f"- {{path: {_quote(one.path)}, format: {one.format}, project: {_quote(one.project)}}}"


def _quote(value: object) -> str:
    # A JSON string is also a YAML string. The path is absolute, so a dollar sign in it is not a variable.
    text = json.dumps(str(value).replace("$", "$$"), ensure_ascii=False)
    return _UNWRITTEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
