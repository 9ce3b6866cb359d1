"""Parse YAML into plain values that know their line, without the traps of YAML 1.1.

Plain scalars follow the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema). It is narrowed where a
person would expect text: `12:30`, `no`, `off`, `2026-01-01`, `010`, `.inf` and `.nan` are text. Only `true` and `false`
are booleans. Duplicate keys are refused. Merge keys (`<<`) and anchors work.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

Scalar: TypeAlias = str | int | float | bool | None

# A thousand times the size of a long configuration. So a wrong file cannot use up the memory.
_MAX_CHARACTERS = 1 << 20
_PREFIX = "tag:yaml.org,2002:"
_BOOLEANS = {"true": True, "false": False}
_SCALARS: dict[str, Callable[[str], Scalar]] = {
    "str": str, "null": lambda _: None, "bool": lambda text: _BOOLEANS[text.lower()], "int": int, "float": float,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MarkedValue:
    """Hold a value and its line, counted from 1. In a mapping, it is the line of the key."""

    value: Scalar | dict[str, "MarkedValue"] | list["MarkedValue"]
    line: int


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """Hold the parsed values, and a problem for each key that was left out."""

    root: MarkedValue
    problems: tuple["YamlError", ...]


class YamlError(Exception):
    """Report that the text is not YAML, or can be read in more than one way.

    Args:
        what: what is wrong.
        line: the line, counted from 1.
        hint: what to do about it, or empty.
    """

    def __init__(self, what: str, line: int, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.line = line
        self.hint = hint


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's own class attribute, replaced and not shared

    def scan_to_next_token(self) -> None:
        """Treat a tab between two tokens of a line as a space. PyYAML refuses it like a tab that indents."""
        super().scan_to_next_token()
        while self.peek() == "\t" and self.prefix_of_line().strip():
            self.forward()
            super().scan_to_next_token()

    def prefix_of_line(self) -> str:
        """Return the part of the current line before the current character."""
        return str(self.buffer[self.pointer - self.column : self.pointer])


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*)", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9_]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(_PREFIX + _tag, re.compile(rf"(?:{_pattern})\Z"), list(_first))


def read(data: bytes) -> YamlDocument:
    """Parse one YAML document. `problems` lists duplicate keys and keys that are not text.

    Raises:
        YamlError: the data is not UTF-8 or not YAML, or has an unknown tag or an alias to itself.
    """
    text = _decode(data)
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return YamlDocument(MarkedValue(None, 1), ())
        builder = _Builder()
        return YamlDocument(builder.build(node, _line(node)), tuple(builder.problems))
    except yaml.MarkedYAMLError as error:
        raise (loader and _explain_unclosed(text, loader, error)) or _explain(error) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError("a control character in the text", line, "remove it, or write it escaped in quotes") from None
    except RecursionError:
        raise YamlError("nested too deeply", 1) from None


def _decode(data: bytes) -> str:
    if len(data) > _MAX_CHARACTERS:
        raise YamlError("longer than 1 MiB", 1, "is this the right file?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise YamlError("not UTF-8 text", data.count(b"\n", 0, error.start) + 1, "save it as UTF-8") from None


def _explain_unclosed(text: str, loader: _Loader, error: yaml.MarkedYAMLError) -> YamlError | None:
    """Return an error for the open bracket that makes a later line invalid, or None.

    PyYAML names only the later line.
    """
    mark = error.problem_mark
    if not (loader.flow_level and loader.marks and mark):
        return None
    opened = loader.marks[-1]
    closing = {"[": "]", "{": "}"}.get(text[opened.index : opened.index + 1])
    if closing is None:
        return None
    what = f"the {text[opened.index]} is never closed"
    if mark.index >= len(text.rstrip()):
        return YamlError(what, opened.line + 1, f"close it with {closing}")
    if mark.line <= opened.line:
        return None
    line = mark.line + 1
    hint = f"close it with {closing} before line {line}"
    return YamlError(f"{what}, or line {line} is not part of it", opened.line + 1, hint)


def _explain(error: yaml.MarkedYAMLError) -> YamlError:
    mark = error.problem_mark or error.context_mark
    what = " ".join(part for part in (error.context, error.problem) if part)
    quoting = "put text that holds : # { [ & * ! | > ' \" % @ ` in quotes"
    hint = "indent with spaces, not tabs" if "'\\t'" in what else quoting
    # The problem is a whole line, because a line of another level is expected.
    if re.search(r"but found '(?:<block [a-z ]+>|\?|-)'$", what):
        hint = "indent the line like the others of its list or mapping, with the same number of spaces"
    elif what == "mapping values are not allowed here":
        hint = f"{quoting}; if the line is a key, indent it like the others of its mapping"
    return YamlError(what, mark.line + 1 if mark else 1, hint)


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


class _Builder:
    """Build the tree of one document. Each node is built once, so nested aliases cost nothing."""

    def __init__(self) -> None:
        self._built: dict[int, Scalar | dict[str, MarkedValue] | list[MarkedValue]] = {}
        self._open: set[int] = set()
        self.problems: list[YamlError] = []

    def build(self, node: Node, line: int) -> MarkedValue:
        if id(node) in self._open:
            raise YamlError("an alias to a value that holds it", line)
        if id(node) not in self._built:
            self._open.add(id(node))
            self._built[id(node)] = self._value(node, node.tag.removeprefix(_PREFIX))
            self._open.discard(id(node))
        return MarkedValue(self._built[id(node)], line)

    def _value(self, node: Node, kind: str) -> Scalar | dict[str, MarkedValue] | list[MarkedValue]:
        if isinstance(node, MappingNode) and kind == "map":
            return self._build_mapping(node)
        if isinstance(node, SequenceNode) and kind == "seq":
            return [self.build(child, _line(child)) for child in node.value]
        if isinstance(node, ScalarNode) and kind in _SCALARS:
            try:
                node.value.encode()  # a lone surrogate, such as "\\ud83d", is no UTF-8
                return _SCALARS[kind](node.value)
            except (KeyError, ValueError):
                what = f"{node.value[:40]} is no {kind.replace('str', 'text')} that can be read"
                raise YamlError(what, _line(node)) from None
        raise YamlError(f"the tag {kind} is not read here", _line(node), "remove the tag")

    def _build_mapping(self, node: MappingNode) -> dict[str, MarkedValue]:
        merged: dict[str, MarkedValue] = {}
        own: dict[str, MarkedValue] = {}
        for key, value in node.value:
            name, line = str(key.value), _line(key)
            if key.tag == _PREFIX + "merge":
                for one in value.value if isinstance(value, SequenceNode) else [value]:
                    base = self.build(one, _line(one)).value
                    if not isinstance(base, dict):
                        raise YamlError("<< needs a mapping, or a list of mappings", _line(one))
                    merged = base | merged
            elif key.tag != _PREFIX + "str" or not isinstance(key, ScalarNode):
                self.problems.append(YamlError("a key must be text", line, "put it in quotes"))
            elif name in own:
                hint = f"the first one is on line {own[name].line}"
                self.problems.append(YamlError(f"the key {name} is there twice", line, hint))
            else:
                own[name] = self.build(value, line)
        return merged | own
