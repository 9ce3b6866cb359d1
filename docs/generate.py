"""Write the generated parts of the documentation: `make docs`, or `python docs/generate.py`.

A page holds hand-written text and blocks between `<!-- begin generated: NAME -->` and `<!-- end generated: NAME -->`.
The blocks come from the program: the keys from `config/memoryd.yaml`, the commands from `--help`, the packages from
their docstrings and from the levels of `tests/test_house.py`. `tests/test_docs.py` fails if a page is out of date.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memoryd.config_file import default_text
from memoryd.interfaces.cli import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("architecture.md", "commands.md", "configuration.md")
HELP_WIDTH = 80

_KEY = re.compile(r"(?P<indent> *)(?P<dash>- )?(?P<name>\w+):(?: +(?P<value>[^#\s].*?))? *(?:# (?P<why>.*))?")
_BLOCK = re.compile(r"(<!-- begin generated: (\w+) -->\n).*?(<!-- end generated: \2 -->)", re.DOTALL)


def rendered(page: str) -> str:
    """Return the text of a page of `docs/` with each generated block rebuilt."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return _BLOCK.sub(lambda match: f"{match[1]}\n{BLOCKS[match[2]]()}\n{match[3]}", text)


# --- the keys of the configuration ------------------------------------------------------------------------------------


def keys() -> str:
    """Return a table of keys, defaults and reasons for each section of the shipped configuration."""
    sections: dict[str, list[tuple[str, str, str]]] = {"": []}
    abouts: dict[str, str] = {}
    for path, value, why in _keys(default_text()):
        section = path.rpartition(".")[0]
        if value is None:
            sections[path], abouts[path] = [], why
        else:
            sections[section].append((path.rpartition(".")[2], value, why))
    return "\n".join(_section(name, abouts.get(name, ""), rows) for name, rows in sections.items())


def _section(name: str, about: str, rows: list[tuple[str, str, str]]) -> str:
    lines = [f"### `{name}`" if name else "### Top level", ""]
    lines += [f"{about[:1].upper()}{about[1:]}.", ""] if about else []
    lines += ["| key | default | meaning |", "|---|---|---|"]
    lines += [f"| `{key}` | `{value}` | {why.replace('*', chr(92) + '*')} |" for key, value, why in rows]
    return "\n".join([*lines, ""])


def _keys(text: str) -> Iterator[tuple[str, str | None, str]]:
    """Yield path, default and comment of each key in order; the default is None where the key begins a section."""
    found: list[list[Any]] = []
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        if line.lstrip().startswith("#") and line.startswith(" "):
            found[-1][2] += " " + line.strip(" #")
        elif (match := _KEY.fullmatch(line)) and not line.startswith("#"):
            indent = len(match["indent"]) + len(match["dash"] or "")
            above = [(at, name) for at, name in above if at < indent]
            path = ".".join([*(name for _, name in above), match["name"]])
            is_list = match["value"] is None and match["name"] in {"agents", "transcripts"}
            above.append((indent, match["name"] + ("[]" if is_list else "")))
            found.append([path + ("[]" if is_list else ""), match["value"], match["why"] or ""])
    yield from (tuple(one) for one in found)


# --- the commands -----------------------------------------------------------------------------------------------------


def commands() -> str:
    """Return the `--help` of each command, each in a fenced block below a heading of its own."""
    context = click.Context(cli, info_name="memoryd", terminal_width=HELP_WIDTH, **cli.context_settings)
    return "\n".join(_helps(cli, context, "##"))


def _helps(command: click.Command, context: click.Context, mark: str) -> Iterator[str]:
    yield f"{mark} {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.commands[name]
            if not below.hidden:
                yield from _helps(below, click.Context(below, info_name=name, parent=context), "###")


# --- the packages -----------------------------------------------------------------------------------------------------


def packages() -> str:
    """Return a table of the packages and top modules of `memoryd/`, the highest level first."""
    levels, pure = house()
    rows = ["| level | package | | holds |", "|---|---|---|---|"]
    for name, level in sorted(levels.items(), key=lambda item: (-item[1], item[0])):
        folder = ROOT / "memoryd" / name
        path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        about = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        shown = f"`{name}/`" if folder.is_dir() else f"`{name}.py`"
        text = " ".join(about.partition("\n\n")[0].split()).replace("|", r"\|")
        rows.append(f"| {level} | {shown} | {'pure' if name in pure else ''} | {text} |")
    return "\n".join([*rows, ""])


def house() -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the level of each package and the pure packages, as the house test declares them."""
    tree = ast.parse(next((ROOT / "tests").rglob("test_house.py")).read_text(encoding="utf-8"))
    declared = {
        ast.unparse(node.targets[0]): node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    return ast.literal_eval(declared["LEVELS"]), ast.literal_eval(declared["PURE"])


BLOCKS = {"keys": keys, "commands": commands, "packages": packages}

if __name__ == "__main__":
    for page in PAGES:
        (ROOT / "docs" / page).write_text(rendered(page), encoding="utf-8")
