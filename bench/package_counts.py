"""Count the package: its size, its structure, its names, and its comments.

    python bench/package_counts.py [REVISION …] [--list]

Prints one column for each named git revision, and a last one for the files of this folder. `--list` also names the
shared class names, the participles, the cycles and the functions above a limit. The house test (`tests/test_house.py`)
checks its limits with the same counters.
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
import subprocess
import sys
import tarfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Node = TypeVar("Node", bound=ast.AST)
Function = ast.FunctionDef | ast.AsyncFunctionDef

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "memoryd"
MAX_COMPLEXITY = 15
MAX_PARAMETERS = 7
MAX_FILE_LINES = 600

# A whole string or a comment, so that a "#" in a string starts no comment and a quote in a comment starts no string.
_STRING_OR_COMMENT = re.compile(
    r'"""(?:\\.|[^\\])*?"""'
    r"|'''(?:\\.|[^\\])*?'''"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])*'"
    r"|#[^\n]*",
    re.DOTALL,
)
# Participles and past forms without "-ed". A word that is also a verb's base form ("read", "set", "cut") is not listed.
_IRREGULAR = frozenset(
    """
    begun bitten born bought bound broken brought built burnt caught chosen done drawn dreamt driven dug eaten
    fallen felt forgotten fought found frozen given gone grown heard held hidden kept known laid led left lent
    lost made meant met overrun paid proven ran retold rewritten risen said sent shown slept sold sought spent
    spoken stolen stood struck stuck swept sworn taken taught thought thrown told torn understood undone
    unheard unread unsaid unseen unslept untold was were withheld won worn written
    """.split()  # noqa: SIM905 - a list would be eighty lines
)
_BASE_FORMS_IN_ED = frozenset("bleed breed embed exceed feed heed need proceed seed shed speed succeed".split())  # noqa: SIM905
_WORDS_IN_ING = frozenset("bring embedding encoding heading logging meaning ping ring sing string thing wing".split())  # noqa: SIM905
_BRANCHES: tuple[type[ast.stmt | ast.expr | ast.excepthandler], ...] = (
    ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Assert,
)  # fmt: skip


class Lines(NamedTuple):
    """Hold the number of lines of each kind. A comment behind code counts as a comment and as a line of code."""

    all: int
    code: int
    docstrings: int
    comments: int

    @property
    def explained(self) -> float:
        """Return the share of docstrings and comments among the lines that are not blank."""
        return (self.docstrings + self.comments) / max(1, self.code + self.docstrings + self.comments)


@dataclass(frozen=True)
class Module:
    """Hold a file of the package, which is parsed and walked only once."""

    name: str  # "memoryd.jobs.sleep"
    source: str
    is_package: bool = False

    @property
    def room(self) -> str:
        """Return the folder or file directly under the package; empty for the package itself."""
        return self.name.split(".")[1] if "." in self.name else ""

    @property
    def package(self) -> str:
        """Return the name of the package that relative imports start from."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @cached_property
    def tree(self) -> ast.Module:
        """Parse the source."""
        return ast.parse(self.source)

    @cached_property
    def _by_type(self) -> dict[type[ast.AST], list[ast.AST]]:
        found = defaultdict(list)
        for node in ast.walk(self.tree):
            found[type(node)].append(node)
        return found

    def nodes(self, kind: type[Node]) -> list[Node]:
        """Return all nodes of one type, as `ast.walk` finds them."""
        return self._by_type.get(kind, [])  # type: ignore[return-value]

    @cached_property
    def functions(self) -> list[Function]:
        """List all functions and methods, also those inside others."""
        return [*self.nodes(ast.FunctionDef), *self.nodes(ast.AsyncFunctionDef)]

    @cached_property
    def complexity(self) -> dict[Function, int]:
        """Count the ways through each function: 1, and 1 for each branch, loop, handler, `and`, `or` and case."""
        ways = [(node.lineno, 1) for kind in _BRANCHES for node in self.nodes(kind)]
        ways += [(node.lineno, len(node.values) - 1) for node in self.nodes(ast.BoolOp)]
        ways += [(node.target.lineno, 1 + len(node.ifs)) for node in self.nodes(ast.comprehension)]
        ways += [(node.pattern.lineno, 1) for node in self.nodes(ast.match_case)]
        return {
            one: 1 + sum(number for line, number in ways if one.lineno <= line <= (one.end_lineno or 0))
            for one in self.functions
        }

    @cached_property
    def strings_and_comments(self) -> list[tuple[int, str]]:
        """List each string and comment of the source with the number of its first line."""
        found, line, at = [], 1, 0
        for match in _STRING_OR_COMMENT.finditer(self.source):
            line += self.source.count("\n", at, match.start())
            at = match.start()
            found.append((line, match[0]))
        return found

    @cached_property
    def imports(self) -> list[tuple[str, str | None]]:
        """List (module, name or None) of every import, also inside functions and for type checkers only.

        Where `import_module` is called, every module that a string names counts as imported too.
        """
        found: list[tuple[str, str | None]] = []
        for plain in self.nodes(ast.Import):
            found += ((alias.name, None) for alias in plain.names)
        for node in self.nodes(ast.ImportFrom):
            found += ((self._absolute(node), alias.name) for alias in node.names)
        if any(called(call)[1] == "import_module" for call in self.nodes(ast.Call)):
            texts = (str(node.value) for node in self.nodes(ast.Constant))
            found += ((text, None) for text in texts if re.fullmatch(rf"{PACKAGE}(\.\w+)+", text))
        return found

    def _absolute(self, node: ast.ImportFrom) -> str:
        base = self.package.split(".")[: -(node.level - 1) or None] if node.level else []
        return ".".join([*base, *([node.module] if node.module else [])])

    @cached_property
    def lines(self) -> Lines:
        """Count the lines of each kind."""
        docstrings: set[int] = set()
        for node in [self.tree, *self.nodes(ast.ClassDef), *self.functions]:
            if ast.get_docstring(node, clean=False) is not None:
                docstrings |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
        rows = self.source.splitlines()
        code = {number for number, row in enumerate(rows, 1) if row.strip() and not row.lstrip().startswith("#")}
        comments = 0
        for first, text in self.strings_and_comments:
            comments += text[0] == "#"
            code |= set(range(first, first + text.count("\n") + 1)) if text[0] != "#" else set()
        return Lines(len(rows), len(code - docstrings), len(docstrings), comments)


def called(call: ast.Call) -> tuple[str | None, str | None]:
    """Return the owner and the name of a called function: `os.write(…)` is ("os", "write")."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return (function.value.id if isinstance(function.value, ast.Name) else None), function.attr
    return None, function.id if isinstance(function, ast.Name) else None


def module_of(path: str, source: str) -> Module:
    """Return the module of a file; `path` starts with the package's folder."""
    parts = path.removesuffix(".py").split("/")
    is_package = parts[-1] == "__init__"
    return Module(".".join(parts[:-1] if is_package else parts), source, is_package)


def read_folder(root: Path = ROOT) -> list[Module]:
    """Read the package in a folder."""
    paths = sorted((root / PACKAGE).rglob("*.py"))
    return [module_of(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")) for path in paths]


def read_revision(revision: str) -> tuple[list[Module], str]:
    """Read the package and the README from a git revision. Raises CalledProcessError where git knows none."""
    packed = subprocess.check_output(["git", "archive", revision, PACKAGE, "README.md"], cwd=ROOT)
    modules, readme = [], ""
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member) if member.name.endswith((".py", ".md")) else None
            text = file.read().decode() if file else ""
            if member.name == "README.md":
                readme = text
            elif member.name.endswith(".py"):
                modules.append(module_of(member.name, text))
    return modules, readme


# --- of one function ---


def length(function: Function) -> int:
    """Count the lines from `def` to the last statement."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters(function: Function) -> int:
    """Count the parameters, without `self` and `cls`."""
    given = function.args
    plain = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, [given.vararg, given.kwarg])]
    return sum(one.arg not in {"self", "cls"} for one in plain)


def is_participle(name: str) -> bool:
    """Return True if a name is a single participle or past form: `told`, `_checked`, `reading`."""
    if name.startswith("__"):
        return False
    word = name.strip("_").lower()
    regular = word.endswith("ed") and word not in _BASE_FORMS_IN_ED
    present = word.endswith("ing") and word not in _WORDS_IN_ING
    return word in _IRREGULAR or (word.isalpha() and (regular or present))


# --- of all modules together ---


def shared_names(modules: Iterable[Module]) -> dict[str, int]:
    """Return the class names that more than one class has, with the number of those classes, most first."""
    names = Counter(node.name for module in modules for node in module.nodes(ast.ClassDef))
    return {name: number for name, number in names.most_common() if number > 1}


def import_graph(modules: Iterable[Module]) -> dict[str, set[str]]:
    """Return the modules that each module imports, without itself.

    The package's own `__init__` is left out: it holds the version, and loads the Python API only where that is used.
    """
    by_name = {module.name: module for module in modules if module.room}
    graph = {}
    for name, module in by_name.items():
        pairs = ((f"{base}.{part}", base) for base, part in module.imports)
        graph[name] = {target for pair in pairs for target in pair if target in by_name} - {name}
    return graph


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """List the groups of modules that import each other, directly or through others; the largest first."""
    reached = {name: _reached(graph, name) for name in graph}
    groups = {tuple(sorted(other for other in reached[name] if name in reached.get(other, ()))) for name in graph}
    return sorted((list(group) for group in groups if len(group) > 1), key=lambda group: (-len(group), group))


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for target in graph.get(waiting.pop(), set()) - found:
            found.add(target)
            waiting.append(target)
    return found


def total(modules: Iterable[Module]) -> Lines:
    """Add up the lines of all modules."""
    return Lines(*(sum(column) for column in zip(*(module.lines for module in modules), strict=True)))


def sentence_words(text: str) -> float:
    """Return the mean number of words in a sentence of a Markdown page, without code blocks, tables and headings."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^\s*(?:[-*] |\d+\. )", "\n\n", text, flags=re.MULTILINE)
    blocks = [block for block in re.split(r"\n\s*\n", text) if block.strip() and block.lstrip()[0] not in "|#<![ "]
    sentences = [one for block in blocks for one in re.split(r"(?<=[.!?:;])\s+", " ".join(block.split()))]
    words = [len(re.findall(r"\w[\w'.-]*", one)) for one in sentences]
    return statistics.fmean([number for number in words if number] or [0])


# --- the report ---


def counts(modules: Sequence[Module], readme: str) -> dict[str, str]:
    """Return every count, by its title, in the order of the report."""
    lines = total(modules)
    functions = [(module, function) for module in modules for function in module.functions]
    shared = shared_names(modules)
    groups = cycles(import_graph(modules))
    many = sum(parameters(one) > MAX_PARAMETERS for _, one in functions)
    complex_ones = sum(module.complexity[one] > MAX_COMPLEXITY for module, one in functions)
    long, large = max(length(one) for _, one in functions), max(module.lines.all for module in modules)
    figures = {
        "lines": f"{lines.all:,}",
        "lines of code (no blanks, comments, docstrings)": f"{lines.code:,}",
        "docstring lines": f"{lines.docstrings:,}",
        "comments": f"{lines.comments:,}",
        "share of docstrings and comments": f"{lines.explained:.2%}",
        "files": f"{len(modules):,}",
        "functions": f"{len(functions):,}",
        "classes": f"{sum(len(module.nodes(ast.ClassDef)) for module in modules):,}",
        "classes that share a name / such names": f"{sum(shared.values())} / {len(shared)}",
        "functions named by a participle alone": f"{sum(is_participle(one.name) for _, one in functions)}",
        "import cycles / files in them": f"{len(groups)} / {sum(len(group) for group in groups)}",
        "longest function (lines)": f"{long}",
        "longest file (lines)": f"{large}",
        f"files above {MAX_FILE_LINES} lines": f"{sum(one.lines.all > MAX_FILE_LINES for one in modules)}",
        f"functions of complexity above {MAX_COMPLEXITY}": f"{complex_ones}",
        f"functions of more than {MAX_PARAMETERS} parameters": f"{many}",
        "README lines": f"{len(readme.splitlines()):,}",
        "README words in a sentence (mean)": f"{sentence_words(readme):.1f}",
    }
    for room in sorted({module.room for module in modules}):
        inside = [module for module in modules if module.room == room]
        number = sum(len(module.functions) for module in inside)
        figures[f"{PACKAGE}/{room}: files / functions / code"] = f"{len(inside)} / {number} / {total(inside).code:,}"
    return figures


def listed(modules: Sequence[Module]) -> Iterator[str]:
    """Yield one line for each name that the counts are about."""
    for name, number in shared_names(modules).items():
        yield f"class {name}: {number} times"
    for group in cycles(import_graph(modules)):
        yield f"cycle of {len(group)}: {' '.join(group)}"
    for module in modules:
        for function in module.functions:
            at = f"{module.name}:{function.lineno} {function.name}"
            if is_participle(function.name):
                yield f"participle {at}"
            if module.complexity[function] > MAX_COMPLEXITY:
                yield f"complexity {module.complexity[function]} {at}"
            if parameters(function) > MAX_PARAMETERS:
                yield f"parameters {parameters(function)} {at}"


def main() -> int:
    """Print the counts of each revision named and of this folder."""
    parser = argparse.ArgumentParser(prog="package_counts", description="Count the package.")
    parser.add_argument("revisions", nargs="*", help="git revisions to count as well")
    parser.add_argument("--list", action="store_true", help="also list the counted names of this folder")
    asked = parser.parse_args()
    here = read_folder()
    columns = [(revision, counts(*read_revision(revision))) for revision in asked.revisions]
    columns.append(("this folder", counts(here, (ROOT / "README.md").read_text(encoding="utf-8"))))
    titles = list(dict.fromkeys(title for _, figures in reversed(columns) for title in figures))
    width = max(map(len, titles))
    print(" " * width, *(f"{name[:20]:>20}" for name, _ in columns))
    for title in titles:
        print(f"{title:{width}}", *(f"{figures.get(title, '-'):>20}" for _, figures in columns))
    if asked.list:
        print("", *listed(here), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
