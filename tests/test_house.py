"""The house as a test: who may import whom, who may write, what every file and function must be.

Each rule is a small function from a module to its violations, with the reason beside it, and is itself tested with a
snippet that must be refused. An exception is an entry in a table here, with its reason, or it does not exist. Each file
is parsed and walked once for all rules: a rule asks a `Module` for the nodes it needs and never walks the tree itself.
"""

import ast
import gc
import re
import sys
import tomllib
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

import memoryd
from bench.package_counts import (
    MAX_COMPLEXITY,
    MAX_FILE_LINES,
    MAX_PARAMETERS,
    Module,
    called,
    cycles,
    import_graph,
    is_participle,
    length,
    parameters,
    read_folder,
    shared_names,
    total,
)
from memoryd.config import Settings, keys_of

PACKAGE = Path(memoryd.__file__).parent
MAX_FUNCTION_LINES = 70

# Limits that only move one way: whoever makes the package smaller, clearer or simpler writes the better number here.
# `python bench/package_counts.py --list` prints the present ones and what they are made of.
MOST_CODE_LINES = 53_175
LEAST_EXPLAINED = 0.187  # the share of docstrings and comments among the lines that are not blank
MOST_FILES_IN_CYCLES = 0  # files that import each other in a circle, also for types only or inside a function
# Functions and files above a limit since before there was one. A name leaves these lists for good.
MANY_PARAMETERS = {
    "memoryd.changing.commit._make_intent",
    "memoryd.changing.guard_check.judge",
    "memoryd.requests.waiting.request",
}
LONG_FILES = {
    "memoryd.daemon.loop",
    "memoryd.database.reads",
    "memoryd.database.runs",
    "memoryd.reading.ingest",
}
COMPLEX = {
    "memoryd.changing.plan.plan_core",
    "memoryd.changing.forgetting._build_report",
    "memoryd.changing.full_scan._changes",
    "memoryd.changing.learned_facts.carry_out",
    "memoryd.changing.ledger_runs._weigh_operations",
    "memoryd.changing.time_machine._dailies",
    "memoryd.changing.time_machine.revise",
    "memoryd.finding.recall._ask",
    "memoryd.finding.recall._read_known",
    "memoryd.interfaces.connect.connect",
    "memoryd.interfaces.ledger.rollback",
    "memoryd.jobs.condensation.judge_draft",
    "memoryd.jobs.consolidation._operate",
    "memoryd.jobs.consolidation._rows",
    "memoryd.jobs.dream._decide_whole",
    "memoryd.jobs.dream._sections",
    "memoryd.jobs.dream._surplus",
    "memoryd.jobs.dream_reply._memory",
    "memoryd.jobs.facts._end_job",
    "memoryd.jobs.facts._gather_material",
    "memoryd.jobs.facts._learn",
    "memoryd.jobs.judging._apply_support",
    "memoryd.jobs.judging._may_not_change",
    "memoryd.jobs.judging._questions",
    "memoryd.jobs.judging._weigh_wording",
    "memoryd.jobs.judging.weigh",
    "memoryd.jobs.reader._answer",
    "memoryd.jobs.reader.inquire",
    "memoryd.jobs.reader.read",
    "memoryd.jobs.refine._discuss_batch",
    "memoryd.jobs.refine.refine",
    "memoryd.jobs.reports.__init__",
    "memoryd.ledger.accounting.list_unaccounted",
    "memoryd.ledger.foreign._words",
    "memoryd.ledger.guards._drop_dependent",
    "memoryd.ledger.projection.edits_of",
    "memoryd.ledger.rollback._plan",
    "memoryd.llm.openai_chat._of_status",
    "memoryd.offline.backend._facts",
    "memoryd.offline.dreaming.supersede",
    "memoryd.reading.store._iter_unseen",
    "memoryd.recall.chunks._blocks",
    "memoryd.recall.injection._fit_text",
    "memoryd.recall.injection._list_standalone",
    "memoryd.requests.flushing.flush",
    "memoryd.running.answering._ask",
    "memoryd.running.dreaming._of_file",
    "memoryd.running.dreaming.gather",
    "memoryd.running.runner._texts",
    "memoryd.scrub.named._find_told",
    "memoryd.scrub.named._is_told",
    "memoryd.scrub.named.kind_of",
    "memoryd.scrub.plausible.is_password",
    "memoryd.text.sentences._is_end",
    "memoryd.text.sentences._is_short",
    "memoryd.text.sentences._line",
    "memoryd.text.sentences.quote_around",
    "memoryd.text.voice._find_announced",
    "memoryd.tiers.core._classify_lines",
    "memoryd.transcripts.chat._check_message",
    "memoryd.transcripts.chat.drop_orphans",
    "memoryd.transcripts.fate.find_fate",
}

# A file imports only from a lower level; of rooms on the same level only itself, and what is listed below.
LEVELS = {
    "text": 0, "addresses": 0, "allowed": 0, "counted": 0, "errors": 0, "config": 0, "config_values": 0, "cron": 0,
    "version": 0, "yaml_reader": 0, "agent_choice": 0, "agent_programs": 0, "config_edit": 0, "config_file": 0,
    "config_sections": 0,
    "transcripts": 1, "scrub": 1, "gauge": 1, "tiers": 1, "ledger": 1,
    "jobs": 2, "recall": 2, "offline": 2,
    "clock": 3, "files": 3, "database": 3, "index": 3, "llm": 3, "worker": 3,
    "reading": 4, "changing": 4, "finding": 4, "running": 4, "fleet": 4,
    "app": 5, "daemon": 5,
    "requests": 6,
    "admin": 7,
    "interfaces": 8,
    "__main__": 9,
}  # fmt: skip
SIDEWAYS = {
    ("agent_choice", "config"): "the agents and their projects are settings",
    ("config", "agent_programs"): "which programs may be looked for is a value",
    ("config_file", "errors"): "a file that there is not is an error",
    ("config_edit", "errors"): "a file that cannot be added to is an error",
    ("config", "config_sections"): "the keys of some sections",
    ("config_sections", "config_values"): "what the values of its keys may be",
    ("config_sections", "errors"): "a database that cannot be asked is an error",
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
    ("tiers", "transcripts"): "a NOW file is a transcript too: what writes it shares the form with what reads it",
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
    ("fleet", "reading"): "a worker redacts a reply before it travels",
    ("fleet", "running"): "it answers what the runner asks, under the same names, costs and alarms",
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

# A reader looks a class up by its name alone, so a name belongs to one class of the package, but for these.
SHARED_CLASS_NAMES = {
    "Memory": "`memoryd.Memory` is the Python API of the contract; one row of the ledger is a memory as well",
}
BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers"}
SQLITES = {"sqlite3", "_sqlite3", "pysqlite3", "apsw"}
SQLITE_CHOOSER = "memoryd.database.library"
DERIVED = {"timezone": "zone", "agents.transcripts.path": "pattern"}  # a key that is read in its worked-out form
CONFIG_MODULES = {
    "config",
    "config_values",
    "interfaces.cli_config",
}  # read every key by name to show it: proves nothing


@cache
def modules():
    # All trees stay to the end. Without this the garbage collector walks their half million nodes again and again.
    gc.disable()
    try:
        found = read_folder(PACKAGE.parent)
        for module in found:
            module.nodes(ast.Module)
        gc.freeze()
    finally:
        gc.enable()
    return found


def snippet(name, source):
    return Module(name, source)


# --- the rules about one file ---


def rooms_imported(module):
    for base, name in module.imports:
        if base == "memoryd" and name:
            yield name
        elif base.startswith("memoryd."):
            yield base.split(".")[1]


def levels(module):
    """Data flows one way: a room never reaches back."""
    for room in sorted(set(rooms_imported(module)) - {module.room}):
        if module.room not in LEVELS and module.room:
            yield f"{module.room} has no level"
        elif room not in LEVELS:
            yield f"{room} has no level"
        elif module.room and LEVELS[room] >= LEVELS[module.room] and (module.room, room) not in SIDEWAYS:
            yield f"level {LEVELS[module.room]} {module.room} imports level {LEVELS[room]} {room}"


def pure_imports(module):
    """The same bytes give the same memory, on any machine at any time: a PURE room has nothing else to go by."""
    for base, name in module.imports if module.room in PURE else ():
        top, _, below = base.partition(".")
        part = below or name
        if top in IMPURE_MODULES and part not in PURE_PARTS.get(top, ()):
            yield f"imports {base}: {IMPURE_MODULES[top]}"
        elif top not in PURE_LIBRARIES | {"memoryd"} | sys.stdlib_module_names:
            yield f"imports {base}: a library does something"


def pure_calls(module):
    """Time, files and terminals come in as arguments; so do answers."""
    for call in module.nodes(ast.Call) if module.room in PURE else ():
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
    for base, name in module.imports:
        if base in WRITING_MODULES or (base == "os" and name in WRITING_OS):
            yield f"imports {base} {name or ''}"
    for call in module.nodes(ast.Call):
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
    if any(called(call)[1] in {"import_module", "__import__"} for call in module.nodes(ast.Call)):
        named = {node.value for node in module.nodes(ast.Constant)}
        yield from (f"imports {name}" for name in named if str(name).partition(".")[0] in SQLITES)
    yield from (f"imports {base}" for base, _ in module.imports if base.partition(".")[0] in SQLITES)


def function_length(module):
    """A function that does not fit a page does more than one thing."""
    for function in module.functions:
        if length(function) > MAX_FUNCTION_LINES:
            yield f"{function.name} has {length(function)} lines"


def function_complexity(module):
    """A function with too many ways through it cannot be read, nor tested, as a whole."""
    for function, ways in module.complexity.items():
        if ways > MAX_COMPLEXITY and f"{module.name}.{function.name}" not in COMPLEX:
            yield f"{function.name} has {ways} ways through it, more than {MAX_COMPLEXITY}"


def function_parameters(module):
    """Many parameters that travel together are a value without a name."""
    for function in module.functions:
        if parameters(function) > MAX_PARAMETERS and f"{module.name}.{function.name}" not in MANY_PARAMETERS:
            yield f"{function.name} has {parameters(function)} parameters, more than {MAX_PARAMETERS}"


def file_length(module):
    """A long file holds more than one noun."""
    if module.lines.all > MAX_FILE_LINES and module.name not in LONG_FILES:
        yield f"it has {module.lines.all} lines, more than {MAX_FILE_LINES}"


def names(module):
    """One noun, one module: such a name holds whatever nobody found a place for."""
    yield from (part for part in module.name.split(".") if part.strip("_") in BANNED_NAMES)


def participles(module):
    """A function is named by a verb and its object: `told` says neither who acts nor on what."""
    for function in module.functions:
        if is_participle(function.name):
            yield f"line {function.lineno}: {function.name} is a participle alone"


def no_promises(module):
    """What is not done is an issue, not a comment."""
    if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", module.source):
        for line, text in module.strings_and_comments:
            if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", text):
                yield f"line {line}: {text.strip()[:60]}"


def prints(module):
    """Standard output belongs to commands; everything else logs."""
    if module.room != "interfaces":
        for call in module.nodes(ast.Call):
            if called(call) == (None, "print"):
                yield f"line {call.lineno} prints"


def sleeps(module):
    """Only the daemon's loop waits, so that a stop is never slept through; a request may wait for its run."""
    if module.name not in SLEEPERS and module.room not in {"interfaces", "requests"}:
        for call in module.nodes(ast.Call):
            if called(call) in {("time", "sleep"), (None, "sleep")}:
                yield f"line {call.lineno} sleeps"


SLEEPERS = {
    "memoryd.daemon.loop": "the one place that waits for the next event",
    "memoryd.files.locks": "flock has no timeout: waiting for another process's lock is asking again",
}


def error_words(module):
    """What a library says of an error often quotes its input; `errors.describe` alone decides what of it is told."""
    for handler in module.nodes(ast.ExceptHandler) if module.name not in SAYS_WORDS else ():
        caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if handler.name is None or all(ast.unparse(one).split(".")[-1] in our_errors() for one in caught):
            continue
        for node in ast.walk(handler):
            if any(isinstance(part, ast.Name) and part.id == handler.name for part in worded(node)):
                yield f"line {node.lineno} uses the words of an error of others: call errors.describe"
    for node in (*module.nodes(ast.Attribute), *module.nodes(ast.ImportFrom)):
        if ast.unparse(node).startswith(("traceback.format_", "traceback.print_", "from traceback import")):
            yield f"line {node.lineno} shows a trace with its error's words: call errors.describe"


def worded(node):
    """The values that a node makes words of."""
    if isinstance(node, ast.Call):
        is_text = called(node) in {(None, name) for name in ("str", "repr", "ascii", "format")}
        is_text = is_text or (isinstance(node.func, ast.Attribute) and node.func.attr in {"format", "join"})
        return node.args if is_text else []
    if isinstance(node, ast.BinOp):
        return [node.right, *getattr(node.right, "elts", ())] if isinstance(node.op, ast.Mod) else []
    if isinstance(node, ast.FormattedValue):
        return [node.value]
    says = {"args", "msg", "message", "reason", "doc", "object", "orig", "output", "stderr", "stdout", "cmd"}
    return [node.value] if isinstance(node, ast.Attribute) and node.attr in says else []


@cache
def our_errors():
    """The names of the errors that are written for people, ours by birth."""
    bases = {
        node.name: {ast.unparse(base).split(".")[-1] for base in node.bases}
        for module in modules()
        for node in module.nodes(ast.ClassDef)
    }
    found = {"MemorydError"}
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return found


SAYS_WORDS = {
    "memoryd.errors": "the one place",
    "memoryd.allowed": "a pattern of the configuration, for who wrote it",
    "memoryd.scrub.policy": "the same pattern",
    "memoryd.config_values": "the name of a variable that is not set",
    "memoryd.interfaces.facts": "what a person has just typed, on that person's terminal",
    "memoryd.interfaces.hook": "an error of its own, which says what the hook was given wrong",
    "memoryd.interfaces.text_settings": "the place of a mistake in another program's settings, on a terminal",
    "memoryd.ledger.portable": "what is wrong with a fact: memoryd's own words",
    "memoryd.running.runner": "why an operation is refused: memoryd's own words",
    "memoryd.llm.openai_chat": "what is wrong with a reply: memoryd's own words",
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
    function_complexity,
    function_parameters,
    file_length,
    names,
    participles,
    no_promises,
    prints,
    sleeps,
    error_words,
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
            read |= {node.attr for node in module.nodes(ast.Attribute)}
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
    for base, name in module.imports:
        for target in (base, f"{base}.{name}"):
            if target in by_name:
                parts = target.split(".")
                yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def entry_points():
    with (PACKAGE.parent / "pyproject.toml").open("rb") as file:
        scripts = tomllib.load(file)["project"]["scripts"].values()
    return {*ENTRY_POINTS, *(script.partition(":")[0] for script in scripts)}


def too_much(found, most_code=MOST_CODE_LINES, least_explained=LEAST_EXPLAINED, most_in_cycles=MOST_FILES_IN_CYCLES):
    """The package as a whole may shrink, be explained better and lose cycles; never the other way."""
    lines = total(found)
    in_cycles = [name for group in cycles(import_graph(found)) for name in group]
    if lines.code > most_code:
        yield f"{lines.code} lines of code, more than {most_code}: what else can go?"
    if lines.explained < least_explained:
        yield f"{lines.explained:.3%} of the lines are docstrings and comments, less than {least_explained:.1%}"
    if len(in_cycles) > most_in_cycles:
        yield f"{len(in_cycles)} files import each other, more than {most_in_cycles}: {' '.join(in_cycles)}"


def idle_exceptions(found, many_parameters, long_files, complex_ones):
    """What keeps the rule today needs no exception tomorrow."""
    given = {
        f"{one.name}.{function.name}"
        for one in found
        for function in one.functions
        if parameters(function) > MAX_PARAMETERS
    }
    ways = {
        f"{one.name}.{function.name}"
        for one in found
        for function in one.functions
        if one.complexity[function] > MAX_COMPLEXITY
    }
    yield from sorted(many_parameters - given | complex_ones - ways)
    yield from long_files - {module.name for module in found if module.lines.all > MAX_FILE_LINES}


def test_the_package_as_a_whole_keeps_its_limits():
    assert not list(too_much(modules())), too_much.__doc__


def test_class_names_are_unique_but_for_those_listed():
    assert set(shared_names(modules())) == set(SHARED_CLASS_NAMES)


def test_a_shared_class_name_is_found():
    found = [
        snippet("memoryd.jobs.x", "class Told: ..."),
        snippet("memoryd.jobs.y", "class Told: ...\nclass Other: ..."),
    ]
    assert shared_names(found) == {"Told": 2}


def test_every_exception_to_a_limit_is_still_needed():
    idle = list(idle_exceptions(modules(), MANY_PARAMETERS, LONG_FILES, COMPLEX))
    assert not idle, f"{idle_exceptions.__doc__} Take these names from the lists:\n" + "\n".join(idle)


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


@pytest.mark.parametrize(
    "source",
    [
        "from memoryd.jobs import b",
        "from memoryd.jobs.b import x",
        "import memoryd.jobs.b",
        "if TYPE_CHECKING:\n    from memoryd.jobs.b import X",
        "def f():\n    from memoryd.jobs import b",
        "import importlib\nimportlib.import_module('memoryd.jobs.b')",
    ],
)
def test_a_cycle_of_two_files_is_found_however_one_imports_the_other(source):
    found = [snippet("memoryd.jobs.a", source), snippet("memoryd.jobs.b", "from memoryd.jobs.a import y")]
    assert cycles(import_graph(found)) == [["memoryd.jobs.a", "memoryd.jobs.b"]]


def test_the_sideways_imports_between_rooms_have_no_cycle():
    assert not cycles({room: {to for of, to in SIDEWAYS if of == room} for room, _ in SIDEWAYS})


def test_each_room_that_memory_passes_through_says_what_it_holds():
    rooms = ("reading", "running", "changing", "finding", "offline", "requests")
    heads = {module.room: ast.get_docstring(module.tree) or "" for module in modules() if module.is_package}
    assert not [room for room in rooms if not re.search(r"\bnot\b.*\nOpen `\w+\.py` first\.", heads[room], re.DOTALL)]
    opened = [(room, re.search(r"Open `(\w+)\.py` first", heads[room])[1]) for room in rooms]
    assert not {f"memoryd.{room}.{file}" for room, file in opened} - {module.name for module in modules()}


def test_a_cycle_is_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [["a", "b", "c"]]
    assert not cycles({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}})


# --- the tests and the pages keep up with the code ---


def missing_paths(page, root):
    """A page that names a file which is not there sends its reader astray."""
    named = re.findall(r"[`(]((?:bench|config|docs|memoryd|systemd|tests)/[\w./*-]+)[`)#]", page)
    return sorted({path for path in named if not any(root.glob(path.rstrip("/")))})


def test_every_path_that_a_page_names_exists():
    root = PACKAGE.parent
    pages = [root / "README.md", *root.glob("docs/**/*.md"), root / "tests" / "README.md"]
    missing = {page.name: missing_paths(page.read_text(encoding="utf-8"), root) for page in pages}
    assert not any(missing.values()), f"{missing_paths.__doc__} {missing}"


def test_a_path_that_does_not_exist_is_found():
    page = "`tests/test_house.py`, `bench/*.py`, [x](memoryd/jobs/job.py), `memoryd/attic/x.py`, (tests/attic_*)"
    assert missing_paths(page, PACKAGE.parent) == ["memoryd/attic/x.py", "tests/attic_*"]


def test_tests_are_in_a_folder_named_after_their_room():
    tests = PACKAGE.parent / "tests"
    folders = {path.parent.relative_to(tests).as_posix() for path in tests.rglob("test_*.py")}
    assert folders <= set(LEVELS) | {".", "end_to_end"}
    names = [path.name for path in tests.rglob("*.py")]
    assert len(names) == len(set(names)), "each module of the tests needs a name of its own"


def test_the_page_about_the_tests_names_every_world():
    tests = PACKAGE.parent / "tests"
    page = (tests / "README.md").read_text(encoding="utf-8")
    assert not [path.stem for path in (tests / "worlds").glob("*.py") if f"`{path.stem}`" not in page]


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
        (levels, "memoryd.tiers.x", "from memoryd.ledger import memory"),
        (levels, "memoryd.transcripts.x", "from memoryd.gauge import live"),
        (levels, "memoryd.files.x", "from memoryd.database import tables"),
        (levels, "memoryd.jobs.x", "from memoryd.clock import utc_now"),
        (levels, "memoryd.reading.x", "from memoryd.changing import commit"),
        (levels, "memoryd.finding.x", "from memoryd.reading import scrubbing"),
        (levels, "memoryd.requests.x", "from memoryd.interfaces import call"),
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
        (function_complexity, "memoryd.jobs.x", "def f(a):\n" + "    if a:\n        a = 1\n" * 15),
        (function_complexity, "memoryd.jobs.x", "def f(a):\n    return " + " or ".join("a" * 16)),
        (function_complexity, "memoryd.jobs.x", "def f(a):\n    return " + "1 if a else " * 15 + "2"),
        (function_complexity, "memoryd.jobs.x", "class A:\n    def f(a):\n" + "        [b for b in a if b]\n" * 8),
        (function_parameters, "memoryd.jobs.x", "def f(a, b, c, d, /, e, *f, g, h): ..."),
        (function_parameters, "memoryd.jobs.x", "class A:\n    async def f(self, a, b, c, d, e, f, g, **h): ..."),
        (file_length, "memoryd.jobs.x", "x = 1\n" * 601),
        (names, "memoryd.jobs.utils", ""),
        (names, "memoryd.misc.x", ""),
        (names, "memoryd.files._helpers", ""),
        (participles, "memoryd.jobs.x", "def told(): ..."),
        (participles, "memoryd.jobs.x", "def reading(): ..."),
        (participles, "memoryd.jobs.x", "class A:\n    def _checked(self): ..."),
        (no_promises, "memoryd.jobs.x", "x = 1  # TODO: more"),
        (no_promises, "memoryd.jobs.x", '"""FIXME later."""'),
        (prints, "memoryd.daemon.x", "print('x')"),
        (sleeps, "memoryd.running.x", "import time\ntime.sleep(1)"),
        (sleeps, "memoryd.running.x", "from time import sleep\nsleep(1)"),
        (error_words, "memoryd.jobs.x", "try: f()\nexcept ValueError as error: log(why=str(error))"),
        (error_words, "memoryd.jobs.x", "try: f()\nexcept ValueError as error: log(why=repr(error))"),
        (error_words, "memoryd.jobs.x", "try: f()\nexcept ValueError as error: log(why='%s: %s' % (1, error))"),
        (error_words, "memoryd.jobs.x", "try: f()\nexcept ValueError as error: log(why=error.msg)"),
        (error_words, "memoryd.jobs.x", "try: f()\nexcept ValueError: log(why=traceback.format_exc())"),
        (error_words, "memoryd.jobs.x", "try: f()\nexcept (StateError, KeyError) as error: g(f'no: {error}')"),
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
        (levels, "memoryd.interfaces.x", "from memoryd.version import __version__\nfrom memoryd.app import App"),
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
        (function_complexity, "memoryd.jobs.x", "def f(a):\n" + "    if a:\n        a = 1\n" * 14),
        (function_parameters, "memoryd.jobs.x", "class A:\n    def f(self, a, b, c, d, e, f, g): ..."),
        (file_length, "memoryd.jobs.x", "x = 1\n" * 600),
        (participles, "memoryd.jobs.x", "def check_told(): ...\ndef feed(): ...\ndef heading(): ..."),
        (participles, "memoryd.jobs.x", "class A(dict):\n    def __missing__(self, key): ..."),
        (no_promises, "memoryd.jobs.x", "tools = 'TodoWrite'  # a todo list"),
        (no_promises, "memoryd.jobs.x", "TODO = 1"),
        (prints, "memoryd.interfaces.x", "print('x')"),
        (error_words, "memoryd.jobs.x", "try: f()\nexcept OSError as error: log(why=error.strerror, code=error.errno)"),
        (error_words, "memoryd.jobs.x", "try: f()\nexcept StateError as error: log(why=str(error))"),
        (error_words, "memoryd.jobs.x", "try: f()\nexcept ValueError as error: log(why=describe(error))"),
        (documented, "memoryd.jobs.x", '"""X."""\ndef _f(): ...\nclass _A: ...'),
        (documented, "memoryd.jobs.x", '"""X."""\nclass A(B):\n    """A."""\n    def f(self): ...'),
    ],
)
def test_a_rule_lets_through(rule, name, source):
    assert not list(rule(snippet(name, source)))


def test_a_package_that_grows_or_explains_less_is_refused():
    shown = [snippet("memoryd.jobs.x", '"""X."""\n\nx = 1  # why\ny = """\n\n# text\n"""\n')]
    assert total(shown) == (7, 5, 1, 1)
    kept = {"most_code": 5, "least_explained": 2 / 7, "most_in_cycles": 0}
    assert not list(too_much(shown, **kept))
    assert list(too_much(shown, **kept | {"most_code": 4}))
    assert list(too_much(shown, **kept | {"least_explained": 0.29}))


@pytest.mark.parametrize(
    "back",
    [
        "from memoryd.jobs import x",
        "from memoryd.jobs.x import a",
        "import memoryd.jobs.x",
        "if TYPE_CHECKING:\n    from memoryd.jobs.x import A",
        "def f():\n    from memoryd.jobs.x import a",
        "importlib.import_module('memoryd.jobs.x')",
        "from . import z",
    ],
)
def test_files_that_import_each_other_are_refused(back):
    there = [snippet("memoryd.jobs.x", "from . import y"), snippet("memoryd.jobs.z", "from memoryd.jobs import x")]
    kept = {"most_code": 9, "least_explained": 0.0, "most_in_cycles": 0}
    assert not list(too_much([*there, snippet("memoryd.jobs.y", "import orjson")], **kept))
    assert list(too_much([*there, snippet("memoryd.jobs.y", back)], **kept))


def test_an_exception_without_need_is_found():
    many = snippet("memoryd.jobs.x", "def f(a, b, c, d, e, f, g, h): ...\ndef g(a): ...")
    assert list(idle_exceptions([many], {"memoryd.jobs.x.f", "memoryd.jobs.x.g"}, set(), set())) == ["memoryd.jobs.x.g"]
    assert list(idle_exceptions([many], set(), {"memoryd.jobs.x"}, {"memoryd.jobs.x.f"})) == [
        "memoryd.jobs.x.f",
        "memoryd.jobs.x",
    ]


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
    assert {key.name for key in fields(Settings)} - set(keys_of(Settings)) == {
        "zone",
        "source",
        "lines",
        "warnings",
        "sha256",
    }
