"""The house as a test: who may import whom, who may write, what every file and function must be.

Each rule is a small function from a module to its violations, with the reason beside it, and is itself tested with a
snippet that must be refused. An exception is an entry in a table here, with its reason, or it does not exist.
"""

import ast
import io
import re
import tokenize
import tomllib
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path

import pytest

import memoryd
from memoryd.config import Settings, keys_of

PACKAGE = Path(memoryd.__file__).parent
MAX_FUNCTION_LINES = 70

# A file imports only from a lower level; of rooms on the same level only itself, and what is listed below.
LEVELS = {
    "text": 0, "addresses": 0, "allowed": 0, "counted": 0, "errors": 0, "config": 0, "config_values": 0, "cron": 0,
    "yaml_reader": 0,
    "transcripts": 1, "scrub": 1, "gauge": 1, "tiers": 1, "ledger": 1,
    "jobs": 2, "recall": 2, "offline": 2,
    "clock": 3, "files": 3, "database": 3, "index": 3, "llm": 3, "worker": 3,
    "reading": 4, "changing": 4, "finding": 4, "running": 4,
    "app": 5, "daemon": 5,
    "interfaces": 6,
    "__main__": 7,
}  # fmt: skip
SIDEWAYS = {
    ("config", "config_values"): "the keys and what their values may be are one level, two nouns",
    ("config", "errors"): "a bad configuration is an error",
    ("config", "yaml_reader"): "the text the configuration is read from",
    ("config_values", "addresses"): "which URL may be asked is known when it is read",
    ("config_values", "allowed"): "what may be allowed is known when it is read",
    ("config_values", "cron"): "a schedule is a value",
    ("config_values", "yaml_reader"): "the entries of a list come with their lines",
    ("config_values", "errors"): "a bad cron line is an error",
    ("cron", "errors"): "a bad cron line is an error",
    ("gauge", "transcripts"): "the picture's arrow: the gauge counts turns",
    ("ledger", "transcripts"): "what a memory stands on are turns, and their origin says what they can vouch for",
    ("ledger", "tiers"): "the picture's arrow: what makes two bullets the same, and how one is put back, is the file's",
    ("tiers", "scrub"): "what is private in a file is no piece of it, and is known before it is cut",
    ("scrub", "transcripts"): "the picture's arrow: what is redacted is a turn",
    ("jobs", "recall"): "whether a new memory still answers what the old one did is decided before it is written",
    ("offline", "jobs"): "it answers a job's question in the grammar that the job reads",
    ("worker", "llm"): "model calls live in the child process, so the child loads the backend it is told to",
    ("index", "database"): "which SQLite a process uses is chosen in one place",
    ("index", "files"): "the index lies in the state folder, and is opened under a lock of its own",
    ("changing", "reading"): "what is stored again or forgotten passes the same scanner as what is read",
    ("running", "reading"): "a run's question and its reply pass the scanner, and the self-test reads a transcript",
    ("running", "changing"): "what a run decided is committed, and it decides on what the store holds",
    ("running", "finding"): "the self-test searches for what it has planted",
    ("daemon", "app"): "the loop runs the app it is given; the composition root does not know who runs it",
}
ENTRY_POINTS = {  # and what pyproject names as a script
    "memoryd", "memoryd.worker.__main__", "memoryd.__main__",
}  # fmt: skip

PURE = ("text", "transcripts", "scrub", "gauge", "tiers", "ledger", "jobs", "recall", "offline")
IMPURE_MODULES = {
    "asyncio": "waits", "concurrent": "starts threads", "ctypes": "reaches the platform", "fcntl": "locks files",
    "glob": "reads folders", "http": "network", "io": "files", "logging": "writes", "mmap": "files",
    "multiprocessing": "starts processes", "os": "the platform", "pathlib": "files (PurePath and its kin are values)",
    "platform": "the platform", "queue": "waits", "random": "another answer each time", "requests": "network",
    "sched": "waits", "secrets": "another answer each time", "select": "waits", "selectors": "waits",
    "shutil": "files", "signal": "the process", "socket": "network", "sqlite3": "a database",
    "ssl": "network", "subprocess": "starts processes", "sys": "the process", "tempfile": "files",
    "threading": "starts threads", "time": "a clock", "urllib": "network (urllib.parse is a value)",
    "uuid": "another answer each time", "zoneinfo": "reads the zone files: a zone comes in as an argument",
}  # fmt: skip
PURE_PARTS = {
    "pathlib": {"PurePath", "PurePosixPath", "PureWindowsPath"},
    "urllib": {"parse"},
}
# Bytes to values and back, places of words in bytes, how alike two texts are; every other library does something.
PURE_LIBRARIES = {"ahocorasick_rs", "orjson", "pydantic", "pydantic_core", "rapidfuzz"}
IMPURE_CALLS = {
    "open": "files", "input": "a terminal", "print": "a terminal", "breakpoint": "a terminal",
    "eval": "runs text", "exec": "runs text", "compile": "runs text", "__import__": "hides an import",
}  # fmt: skip
CLOCKS = {"now", "utcnow", "today", "fromtimestamp"}  # the last reads the system's zone; `tz=` makes it a value

WRITERS = ("files", "database", "index")
WRITES_ELSEWHERE = {
    "memoryd.interfaces.demo": "plays the agent: it writes the transcript that memoryd is shown to read",
}
WRITING_OS = {
    "chmod", "chown", "fchmod", "fchown", "fdatasync", "fsync", "ftruncate", "link", "makedirs", "mkdir", "mkfifo",
    "open", "pwrite", "remove", "removedirs", "rename", "renames", "replace", "rmdir", "sendfile", "symlink",
    "truncate", "unlink", "utime", "write", "writev",
}  # fmt: skip
WRITING_METHODS = {
    "chmod", "hardlink_to", "mkdir", "rmdir", "symlink_to", "touch", "unlink", "write_bytes", "write_text",
}  # fmt: skip
WRITING_MODULES = {"shutil": "copies, moves and deletes", "tempfile": "makes files"}

BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers"}
SQLITES = {"sqlite3", "_sqlite3", "pysqlite3", "apsw"}
SQLITE_CHOOSER = "memoryd.database.library"
DERIVED = {"timezone": "zone", "agents.transcripts.path": "pattern"}  # a key that is read in its worked-out form
CONFIG_MODULES = {
    "config",
    "config_values",
    "interfaces.cli_config",
}  # read every key by name to show it: proves nothing


@dataclass(frozen=True)
class Module:
    name: str  # "memoryd.jobs.sleep"
    source: str
    is_package: bool = False

    @cached_property
    def tree(self):
        return ast.parse(self.source)

    @property
    def room(self):
        return self.name.split(".")[1] if "." in self.name else ""

    @property
    def package(self):
        return self.name if self.is_package else self.name.rpartition(".")[0]


@cache
def modules():
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found.append(Module(name, path.read_text(encoding="utf-8"), is_package))
    return found


def snippet(name, source):
    return Module(name, source)


# --- what a module imports, wherever in it, also where only a type checker looks ---


def imports(module):
    """(module, name or None) of every import; where `import_module` is called, every module named in a string too."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(module, node)
            yield from ((base, alias.name) for alias in node.names)
    if any(called(call)[1] == "import_module" for call in calls(module)):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and re.fullmatch(r"memoryd(\.\w+)+", str(node.value)):
                yield node.value, None


def absolute(module, node):
    if not node.level:
        return node.module
    base = module.package.split(".")
    base = base[: len(base) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def called(call):
    """(what it is an attribute of, its name) of a called function: `os.write(…)` is ("os", "write")."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return (function.value.id if isinstance(function.value, ast.Name) else None), function.attr
    return None, function.id if isinstance(function, ast.Name) else None


def calls(module):
    return [node for node in ast.walk(module.tree) if isinstance(node, ast.Call)]


def rooms_imported(module):
    for base, name in imports(module):
        if base == "memoryd" and name:
            yield name
        elif base.startswith("memoryd."):
            yield base.split(".")[1]


# --- the rules ---


def levels(module):
    """Data flows one way: a room never reaches back."""
    for room in sorted(set(rooms_imported(module)) - {module.room, "__version__"}):
        if module.room not in LEVELS and module.room:
            yield f"{module.room} has no level"
        elif room not in LEVELS:
            yield f"{room} has no level"
        elif module.room and LEVELS[room] >= LEVELS[module.room] and (module.room, room) not in SIDEWAYS:
            yield f"level {LEVELS[module.room]} {module.room} imports level {LEVELS[room]} {room}"


def pure_imports(module):
    """The same bytes give the same memory, on any machine at any time: a PURE room has nothing else to go by."""
    for base, name in imports(module) if module.room in PURE else ():
        top, _, below = base.partition(".")
        part = below or name
        if top in IMPURE_MODULES and part not in PURE_PARTS.get(top, ()):
            yield f"imports {base}: {IMPURE_MODULES[top]}"
        elif top not in PURE_LIBRARIES | {"memoryd"} and not is_stdlib(top):
            yield f"imports {base}: a library does something"


def is_stdlib(name):
    import sys

    return name in sys.stdlib_module_names


def pure_calls(module):
    """Time, files and terminals come in as arguments; so do answers."""
    for call in calls(module) if module.room in PURE else ():
        owner, name = called(call)
        if owner is None and isinstance(call.func, ast.Name) and name in IMPURE_CALLS:
            yield f"line {call.lineno} calls {name}: {IMPURE_CALLS[name]}"
        elif isinstance(call.func, ast.Attribute) and name in CLOCKS and not is_with_zone(call, name):
            yield f"line {call.lineno} calls {name}: a clock"


def is_with_zone(call, name):
    return name == "fromtimestamp" and (len(call.args) > 1 or any(key.arg == "tz" for key in call.keywords))


def writes(module):
    """Only files, database and index write: there are the fsyncs, the locks and the tests that pull the plug."""
    if module.room in WRITERS or module.name in WRITES_ELSEWHERE:
        return
    for base, name in imports(module):
        if base in WRITING_MODULES or (base == "os" and name in WRITING_OS):
            yield f"imports {base} {name or ''}"
    for call in calls(module):
        owner, name = called(call)
        if is_write(call, owner, name):
            yield f"line {call.lineno} calls {owner + '.' if owner else ''}{name}"


def is_write(call, owner, name):
    if owner == "os":
        return name in WRITING_OS and not (name == "open" and only_reads(call))
    if name == "open":
        return opens_for_writing(call)
    if not isinstance(call.func, ast.Attribute):
        return False
    # One argument and no keyword is Path.replace or Path.rename; str.replace has two, a dataclass's has keywords.
    moves = name in {"replace", "rename"} and len(call.args) == 1 and not call.keywords
    return moves or name in WRITING_METHODS


def only_reads(call):
    """`os.open` whose flags are all spelled out, and all of reading; or of the null device."""
    if call.args and ast.unparse(call.args[0]) == "os.devnull":
        return True
    flags = re.split(r"\s*\|\s*", ast.unparse(call.args[1])) if len(call.args) > 1 else [""]
    return set(flags) <= {"os.O_RDONLY", "os.O_CLOEXEC", "os.O_NOFOLLOW", "os.O_NONBLOCK", "os.O_DIRECTORY"}


def opens_for_writing(call):
    position = 1 if isinstance(call.func, ast.Name) else 0
    modes = [*call.args[position : position + 1], *(key.value for key in call.keywords if key.arg == "mode")]
    return any(not isinstance(mode, ast.Constant) or set(str(mode.value)) & set("wax+") for mode in modes)


def one_sqlite(module):
    """Two copies of SQLite in one process drop each other's locks on close (sqlite.org/howtocorrupt.html, 2.2)."""
    if module.name == SQLITE_CHOOSER:
        return
    named = {node.value for node in ast.walk(module.tree) if isinstance(node, ast.Constant)}
    if any(called(call)[1] in {"import_module", "__import__"} for call in calls(module)):
        yield from (f"imports {name}" for name in named if str(name).partition(".")[0] in SQLITES)
    yield from (f"imports {base}" for base, _ in imports(module) if base.partition(".")[0] in SQLITES)


def function_length(module):
    """A function that does not fit a page does more than one thing."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{node.name} has {lines} lines"


def names(module):
    """One noun, one module: such a name holds whatever nobody found a place for."""
    yield from (part for part in module.name.split(".") if part.strip("_") in BANNED_NAMES)


def no_promises(module):
    """What is not done is an issue, not a comment."""
    for token in tokenize.generate_tokens(io.StringIO(module.source).readline):
        if token.type in {tokenize.COMMENT, tokenize.STRING} and re.search(r"\b(TODO|FIXME|XXX|HACK)\b", token.string):
            yield f"line {token.start[0]}: {token.string.strip()[:60]}"


def prints(module):
    """Standard output belongs to commands; everything else logs."""
    if module.room != "interfaces":
        for call in calls(module):
            if called(call) == (None, "print"):
                yield f"line {call.lineno} prints"


def sleeps(module):
    """Only the daemon's loop waits, so that a stop is never slept through; a command may wait for its person."""
    if module.name != "memoryd.daemon.loop" and module.room != "interfaces" and module.name not in SLEEPERS:
        for call in calls(module):
            if called(call) in {("time", "sleep"), (None, "sleep")}:
                yield f"line {call.lineno} sleeps"


SLEEPERS = {
    "memoryd.files.locks": "flock has no timeout: waiting for another process's lock is asking again",
}


def documented(module):
    """Public surfaces are documented, privates by name; a method of a subclass is documented by what it overrides."""
    if not ast.get_docstring(module.tree) and module.source.strip():
        yield "the module says nothing about itself"
    for node in module.tree.body:
        if not is_public(node):
            continue
        if not ast.get_docstring(node):
            yield f"{node.name} is not documented"
        if isinstance(node, ast.ClassDef) and not node.bases:
            for inner in node.body:
                if is_public(inner) and not is_property(inner) and not ast.get_docstring(inner):
                    yield f"{node.name}.{inner.name} is not documented"


def is_public(node):
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return isinstance(node, kinds) and not node.name.startswith("_")


def is_property(node):
    return any("property" in ast.unparse(decorator) for decorator in getattr(node, "decorator_list", ()))


RULES = (
    levels,
    pure_imports,
    pure_calls,
    writes,
    one_sqlite,
    function_length,
    names,
    no_promises,
    prints,
    sleeps,
    documented,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_the_rule(rule):
    found = [f"{module.name}: {violation}" for module in modules() for violation in rule(module)]
    assert not found, f"{rule.__doc__}\n" + "\n".join(found)


# --- rules about all modules at once ---


def unread_keys(found):
    """A key nothing reads is a promise nothing keeps."""
    read = set()
    for module in found:
        if module.name.removeprefix("memoryd.") not in CONFIG_MODULES:
            read |= {node.attr for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)}
    return [path for path, name in config_keys(Settings) if name not in read and DERIVED.get(path) not in read]


def config_keys(model, at=""):
    for name, key in keys_of(model).items():
        yield f"{at}{name}", name
        below = key.metadata.get("section") or key.metadata.get("list")
        if below:
            yield from config_keys(below, f"{at}{name}.")


def unreachable(found, entries):
    """What no entry point leads to is dead, however well it is tested."""
    by_name = {module.name: module for module in found}
    waiting = [name for name in entries if name in by_name]
    reached = set(waiting)
    while waiting:
        for name in reached_from(by_name[waiting.pop()], by_name):
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return sorted(set(by_name) - reached)


def reached_from(module, by_name):
    for base, name in imports(module):
        for target in (base, f"{base}.{name}"):
            if target in by_name:
                parts = target.split(".")
                yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def entry_points():
    with (PACKAGE.parent / "pyproject.toml").open("rb") as file:
        scripts = tomllib.load(file)["project"]["scripts"].values()
    return {*ENTRY_POINTS, *(script.partition(":")[0] for script in scripts)}


def test_every_key_of_the_configuration_is_read_by_the_program():
    found = unread_keys(modules())
    assert not found, f"{unread_keys.__doc__}\n" + "\n".join(found)


def test_every_module_is_reached_from_an_entry_point():
    found = unreachable(modules(), entry_points())
    assert not found, f"{unreachable.__doc__}\n" + "\n".join(found)


def test_the_entry_points_exist():
    present = {module.name for module in modules()}
    assert entry_points() <= present


def test_every_room_has_a_level_and_every_exception_is_of_a_room():
    rooms = {module.room for module in modules()} - {"", "__main__"}
    assert rooms <= set(LEVELS)
    assert {room for pair in SIDEWAYS for room in pair} <= set(LEVELS)
    assert set(PURE) | set(WRITERS) <= set(LEVELS)


def cycles(graph):
    """Return the groups of nodes that lead back to themselves, each sorted."""
    found, order, lowest, path = [], {}, {}, []

    def visit(node):
        order[node] = lowest[node] = len(order)
        path.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in order:
                visit(other)
            if other in path:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == order[node]:
            group = path[path.index(node) :]
            del path[path.index(node) :]
            if len(group) > 1 or node in graph.get(node, ()):
                found.append(sorted(group))

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return found


def test_the_sideways_imports_between_rooms_have_no_cycle():
    assert not cycles({room: {to for of, to in SIDEWAYS if of == room} for room, _ in SIDEWAYS})


def test_each_room_that_memory_passes_through_says_what_it_holds():
    rooms = ("reading", "running", "changing", "finding", "offline")
    heads = {module.room: ast.get_docstring(module.tree) or "" for module in modules() if module.is_package}
    assert not [room for room in rooms if not re.search(r"\bnot\b.*\nOpen `\w+\.py` first\.", heads[room], re.DOTALL)]
    opened = [(room, re.search(r"Open `(\w+)\.py` first", heads[room])[1]) for room in rooms]
    assert not {f"memoryd.{room}.{file}" for room, file in opened} - {module.name for module in modules()}


def test_a_cycle_is_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [["a", "b", "c"]]
    assert not cycles({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}})


# --- each rule refuses what it is there to refuse ---


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (levels, "memoryd.jobs.x", "from memoryd.files import durable"),
        (levels, "memoryd.jobs.x", "from memoryd import running"),
        (levels, "memoryd.jobs.x", "import memoryd.database.tables"),
        (levels, "memoryd.jobs.x", "def f():\n    from memoryd.llm import network"),
        (levels, "memoryd.jobs.x", "if TYPE_CHECKING:\n    from memoryd.daemon.loop import Loop"),
        (levels, "memoryd.jobs.x", "import importlib\nimportlib.import_module('memoryd.changing.commit')"),
        (levels, "memoryd.jobs.x", "table = {1: 'memoryd.changing.commit'}\nimportlib.import_module(table[1])"),
        (levels, "memoryd.jobs.x", "from ..files.durable import replace"),
        (levels, "memoryd.tiers.x", "from memoryd.transcripts import turn"),
        (levels, "memoryd.transcripts.x", "from memoryd.gauge import live"),
        (levels, "memoryd.files.x", "from memoryd.database import tables"),
        (levels, "memoryd.jobs.x", "from memoryd.clock import utc_now"),
        (levels, "memoryd.reading.x", "from memoryd.changing import commit"),
        (levels, "memoryd.finding.x", "from memoryd.reading import scrubbing"),
        (levels, "memoryd.errors", "from memoryd.config import load"),
        (levels, "memoryd.attic.x", "from memoryd.errors import MemorydError"),
        (levels, "memoryd.jobs.x", "from memoryd.attic import y"),
        (pure_imports, "memoryd.jobs.x", "import os"),
        (pure_imports, "memoryd.jobs.x", "import os.path"),
        (pure_imports, "memoryd.jobs.x", "from time import monotonic"),
        (pure_imports, "memoryd.tiers.x", "from pathlib import Path"),
        (pure_imports, "memoryd.tiers.x", "import pathlib"),
        (pure_imports, "memoryd.gauge.x", "import random"),
        (pure_imports, "memoryd.gauge.x", "from urllib.request import urlopen"),
        (pure_imports, "memoryd.gauge.x", "import tiktoken"),
        (pure_imports, "memoryd.scrub.x", "def f():\n    import subprocess"),
        (pure_calls, "memoryd.jobs.x", "from datetime import datetime\nx = datetime.now(UTC)"),
        (pure_calls, "memoryd.jobs.x", "import datetime\nx = datetime.date.today()"),
        (pure_calls, "memoryd.jobs.x", "x = datetime.fromtimestamp(0)"),
        (pure_calls, "memoryd.jobs.x", "open('x')"),
        (pure_calls, "memoryd.jobs.x", "eval('1')"),
        (writes, "memoryd.running.x", "open('x', 'w')"),
        (writes, "memoryd.running.x", "open('x', mode='ab')"),
        (writes, "memoryd.running.x", "open('x', mode)"),
        (writes, "memoryd.running.x", "path.open('r+')"),
        (writes, "memoryd.running.x", "os.open(path, flags)"),
        (writes, "memoryd.running.x", "os.open(path, os.O_RDONLY | os.O_CREAT)"),
        (writes, "memoryd.running.x", "os.replace(a, b)"),
        (writes, "memoryd.running.x", "from os import unlink"),
        (writes, "memoryd.running.x", "path.write_text('x')"),
        (writes, "memoryd.running.x", "(a / b).rename(c)"),
        (writes, "memoryd.running.x", "path.replace(other)"),
        (writes, "memoryd.running.x", "path.parent.mkdir(parents=True)"),
        (writes, "memoryd.interfaces.x", "import shutil"),
        (writes, "memoryd.daemon.x", "def f():\n    from tempfile import mkdtemp"),
        (one_sqlite, "memoryd.running.x", "import sqlite3"),
        (one_sqlite, "memoryd.database.tables", "from sqlite3 import Row"),
        (one_sqlite, "memoryd.index.x", "import pysqlite3.dbapi2"),
        (one_sqlite, "memoryd.running.x", "importlib.import_module('sqlite3')"),
        (function_length, "memoryd.jobs.x", "def f():\n" + "    x = 1\n" * 70),
        (function_length, "memoryd.jobs.x", "class A:\n    async def f(self):\n" + "        x = 1\n" * 70),
        (names, "memoryd.jobs.utils", ""),
        (names, "memoryd.misc.x", ""),
        (names, "memoryd.files._helpers", ""),
        (no_promises, "memoryd.jobs.x", "x = 1  # TODO: more"),
        (no_promises, "memoryd.jobs.x", '"""FIXME later."""'),
        (prints, "memoryd.daemon.x", "print('x')"),
        (sleeps, "memoryd.running.x", "import time\ntime.sleep(1)"),
        (sleeps, "memoryd.running.x", "from time import sleep\nsleep(1)"),
        (documented, "memoryd.jobs.x", "x = 1"),
        (documented, "memoryd.jobs.x", '"""X."""\ndef f(): ...'),
        (documented, "memoryd.jobs.x", '"""X."""\nclass A: ...'),
        (documented, "memoryd.jobs.x", '"""X."""\nclass A:\n    """A."""\n    def f(self): ...'),
    ],
)
def test_a_rule_refuses(rule, name, source):
    assert list(rule(snippet(name, source)))


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (levels, "memoryd.jobs.x", "from memoryd.tiers import daily\nfrom memoryd.jobs.job import Ask"),
        (levels, "memoryd.gauge.x", "from memoryd.transcripts.turn import Turn"),
        (levels, "memoryd.interfaces.x", "from memoryd import __version__\nfrom memoryd.app import App"),
        (levels, "memoryd.jobs.x", "from . import job\nfrom .job import Ask"),
        (pure_imports, "memoryd.jobs.x", "from pathlib import PurePosixPath\nimport json, orjson, urllib.parse"),
        (pure_imports, "memoryd.jobs.x", "from urllib.parse import quote"),
        (pure_imports, "memoryd.running.x", "import os"),
        (pure_calls, "memoryd.jobs.x", "f(inputs.now)\ndatetime.fromtimestamp(0, UTC)\nre.compile('x')"),
        (writes, "memoryd.files.x", "os.replace(a, b)"),
        (writes, "memoryd.running.x", "open('x')\nopen('x', 'rb')\npath.open('rb')\npath.open()\na.replace('b', 'c')"),
        (writes, "memoryd.running.x", "dataclasses.replace(a, b=1)\nwhen.replace(tzinfo=UTC)\nos.path.exists(a)"),
        (writes, "memoryd.worker.x", "os.open(path, os.O_RDONLY | os.O_CLOEXEC)"),
        (writes, "memoryd.interfaces.x", "os.open(os.devnull, os.O_WRONLY)"),
        (one_sqlite, "memoryd.database.library", "import sqlite3"),
        (function_length, "memoryd.jobs.x", "def f():\n" + "    x = 1\n" * 69),
        (no_promises, "memoryd.jobs.x", "tools = 'TodoWrite'  # a todo list"),
        (prints, "memoryd.interfaces.x", "print('x')"),
        (documented, "memoryd.jobs.x", '"""X."""\ndef _f(): ...\nclass _A: ...'),
        (documented, "memoryd.jobs.x", '"""X."""\nclass A(B):\n    """A."""\n    def f(self): ...'),
    ],
)
def test_a_rule_lets_through(rule, name, source):
    assert not list(rule(snippet(name, source)))


def test_an_unread_key_is_found():
    everything = "\n".join(f"x.{name}" for _, name in config_keys(Settings) if name != "rearm")
    assert unread_keys([snippet("memoryd.running.x", everything)]) == ["sleep.rearm"]
    assert "sleep.rearm" in unread_keys([snippet("memoryd.config", everything + "\nx.rearm")])


def test_an_unreachable_module_is_found():
    found = [
        Module("memoryd", "", is_package=True),
        Module("memoryd.jobs", "", is_package=True),
        snippet("memoryd.cli", "from memoryd.jobs.sleep import begin"),
        snippet("memoryd.jobs.sleep", "from . import job"),
        snippet("memoryd.jobs.job", ""),
        snippet("memoryd.jobs.dead", "from memoryd.jobs import alsodead"),
        snippet("memoryd.jobs.alsodead", ""),
    ]
    assert unreachable(found, {"memoryd.cli"}) == ["memoryd.jobs.alsodead", "memoryd.jobs.dead"]


def test_the_settings_hold_nothing_that_is_neither_key_nor_derived():
    assert {key.name for key in fields(Settings)} - set(keys_of(Settings)) == {"zone", "source", "lines"}
