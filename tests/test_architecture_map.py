"""The map of `docs/architecture.md` is true: the packages and files that it names exist, and none is missing."""

import ast
import re
from pathlib import Path

from test_house import LEVELS, PURE

import memoryd

PACKAGE = Path(memoryd.__file__).parent
MAP = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
TABLE = {
    name: (int(level), pure == "pure")
    for level, name, pure in re.findall(r"^\| (\d) \| `(\w+)(?:/|\.py)` \| (\w*) ?\|", MAP, re.MULTILINE)
}


def packages():
    return {path.parent.name: path for path in PACKAGE.glob("*/__init__.py")}


def heads():
    return {name: ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "" for name, path in packages().items()}


def test_the_map_has_each_package_and_module_at_its_level():
    there = {*packages(), *(path.stem for path in PACKAGE.glob("*.py"))} - {"__init__"}
    assert set(TABLE) == there
    assert {name: (level, name in PURE) for name, level in LEVELS.items()} == TABLE


def test_each_file_that_the_map_names_exists():
    paths = re.findall(r"`((?:[\w-]+/)+(?:[\w.-]+)?)`", MAP)
    missing = [path for path in paths if not ((PACKAGE.parent / path).exists() or (PACKAGE / path).exists())]
    outside = {"backup/"}  # of a workspace
    assert len(paths) > 50
    assert set(missing) <= outside


def test_each_name_that_the_map_gives_to_a_file_is_in_it():
    pairs = re.findall(r"`(\w+)` (?:of|in) `([\w/]+\.py)`", MAP)
    assert len(pairs) >= 4
    assert [(name, path) for name, path in pairs if name not in (PACKAGE.parent / path).read_text("utf-8")] == []


def test_the_picture_names_packages():
    picture = re.search(r"## The picture\n+```\n(.*?)```", MAP, re.DOTALL)[1]
    assert not [name for name in re.findall(r"\((\w+)\)|(\w+)/\w+\.py", picture) if not set(name) & {*TABLE}]


def test_the_head_of_each_package_says_what_it_holds_and_where_to_begin():
    shape = re.compile(r"[A-Z][^\n]*.*\n\n.*\bnot\b.*\n\nOpen `(\w+\.py)` first\.", re.DOTALL)
    found = {name: shape.fullmatch(head) for name, head in heads().items()}
    assert [name for name, match in found.items() if not match] == []
    assert [name for name, match in found.items() if not (PACKAGE / name / match[1]).is_file()] == []
