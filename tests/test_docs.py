"""The documentation as a test: what it names exists, what it shows runs, and what is generated is up to date."""

import ast
import importlib.util
import json
import os
import re
import shlex
from functools import cache
from importlib import resources
from pathlib import Path

import click
import forks
import platformdirs
import pytest
from click.testing import CliRunner

import memoryd
from memoryd.interfaces.cli import cli
from memoryd.transcripts.format import Identity
from memoryd.transcripts.lines import Pass, cut
from memoryd.transcripts.messages import Messages

ROOT = Path(memoryd.__file__).parent.parent
README = ROOT / "README.md"
PAGES = (README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))
MOST_README_LINES = 200
MOST_WORDS = 16  # of the mean sentence over README and docs


def generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def text_of(page):
    return page.read_text(encoding="utf-8")


def prose_of(text):
    """Return the text without its code blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)


def blocks_of(text, language):
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def named(page):
    return str(page.relative_to(ROOT))


# --- what is generated, and how long it is ---


def test_generated_pages_are_up_to_date():
    generate = generator()
    assert not [page for page in generate.PAGES if generate.rendered(page) != text_of(ROOT / "docs" / page)], (
        "run: make docs"
    )


def test_each_generated_block_is_on_a_page_that_is_generated():
    generate = generator()
    marked = {page.name for page in PAGES if "<!-- begin generated: " in text_of(page)}
    assert marked - {"contributing.md"} == set(generate.PAGES)


def test_the_command_reference_is_what_help_prints():
    block = re.compile(r"^#+ (memoryd\b[^\n]*)\n\n```text\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
    shown = block.findall(text_of(ROOT / "docs" / "commands.md"))
    assert len(shown) > 50
    for path, text in shown:
        done = CliRunner().invoke(cli, [*path.split()[1:], "--help"], prog_name="memoryd", terminal_width=80)
        assert done.output.rstrip("\n") == text, path


def test_the_key_table_has_each_key_of_the_shipped_file():
    paths = [
        path for path, _, _ in generator()._keys("a:  # top\n  b: 1  # one\n  c: x\n         # two\nd: []  # three\n")
    ]
    assert paths == ["a", "a.b", "a.c", "d"]


def test_the_readme_is_short():
    assert len(text_of(README).splitlines()) <= MOST_README_LINES


def test_the_readme_links_every_page_of_the_documentation():
    assert not [page.name for page in PAGES if page.parent != ROOT and f"(docs/{page.name})" not in text_of(README)]


# --- links ---


def slug(heading):
    """Return the anchor that GitHub gives to a heading."""
    plain = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


@cache
def anchors_of(page):
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", prose_of(text_of(page)), re.MULTILINE)}


def broken_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(text_of(page))):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors_of(there)):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_each_relative_link_and_anchor_resolves(page):
    assert not list(broken_links(page))


# --- names ---


def test_each_test_that_guarantees_names_exists():
    names = set(re.findall(r"`((?:test_|Test)\w+)`", text_of(ROOT / "docs" / "guarantees.md")))
    defined = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            defined |= {getattr(node, "name", "")} | {ast.unparse(one) for one in getattr(node, "targets", ())}
    assert len(names) > 40
    assert names <= defined


def test_each_promise_names_a_test():
    promises = re.search(r"## Promises\n(.*?)\n## ", text_of(ROOT / "docs" / "guarantees.md"), re.DOTALL)[1]
    rows = [row for row in promises.splitlines() if row.startswith("| ")][1:]
    assert [row for row in rows if not re.search(r"`(test_|Test)\w+`", row)] == []


def commands_in(page):
    """Yield the words of each call of `memoryd` in the shell blocks of a page."""
    for block in blocks_of(text_of(page), "sh"):
        for line in block.splitlines():
            shown = re.sub(r"[\[\]]", "", line)  # optional parts are options too
            for call in re.split(r"&&", shown):
                words = shlex.split(call, comments=True)
                if words[:1] == ["memoryd"]:
                    yield words[1:]


def wrong_words(words):
    """Yield the command or the options of a call that memoryd does not have."""
    command = cli
    known = {option for one in cli.params for option in one.opts}
    for word in words:
        if word.startswith("--"):
            if word not in known:
                yield word
        elif isinstance(command, click.Group):
            if word not in command.commands:
                yield word
                return
            command = command.commands[word]
            known |= {option for one in command.params for option in (*one.opts, *one.secondary_opts)}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_each_command_that_is_shown_exists_with_its_options(page):
    assert [(words, wrong) for words in commands_in(page) for wrong in wrong_words(words)] == []


def test_a_command_that_does_not_exist_is_found():
    assert list(wrong_words(["job", "ran"])) == ["ran"]
    assert list(wrong_words(["job", "list", "--colour"])) == ["--colour"]


def test_nothing_advises_to_install_memoryd_by_its_name():
    paths = [*PAGES, *(path for folder in ("memoryd", "bench", "config") for path in (ROOT / folder).rglob("*.*"))]
    advice = re.compile(r"(?<!un)install [^\n`]*(?<=[ '\"])memoryd(?=[\['\"`\s]|$)")
    warned = {ROOT / "docs" / "getting-started.md"}  # quotes the wrong advice of pipx
    assert [path for path in paths if path.suffix in {".md", ".py", ".yaml"} and advice.search(text_of(path))] == [
        *warned
    ]


# --- sentences ---


def sentences_of(text):
    """Yield the sentences of Markdown: code blocks, tables, headings and comments are none."""
    plain = re.sub(r"<!--.*?-->", "", prose_of(text), flags=re.DOTALL)
    plain = re.sub(r"\]\([^)]*\)", "]", plain)
    lines = ["" if re.match(r"\s*(\||#)", line) else line for line in plain.splitlines()]
    for part in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", "\n".join(lines)):
        for sentence in re.split(r"(?<=[.!?])[\"”*)]*\s+", part):
            if words := re.findall(r"\w[^\s·]*", re.sub(r"`[^`]*`", "code", sentence)):
                yield words


def test_the_mean_sentence_is_short():
    counts = [len(words) for page in PAGES if page.name != "CHANGELOG.md" for words in sentences_of(text_of(page))]
    assert len(counts) > 500
    assert sum(counts) / len(counts) <= MOST_WORDS


# --- examples ---


def snippet(page, language, holding):
    (found,) = [block for block in blocks_of(text_of(page), language) if holding in block]
    return found


@pytest.mark.parametrize(
    ("page", "added"),
    [(README, 2), pytest.param(ROOT / "docs" / "python.md", 3, marks=pytest.mark.soak)],
    ids=lambda value: named(value) if isinstance(value, Path) else "",
)
def test_the_python_example_runs_as_it_is_shown(tmp_path, page, added):
    (tmp_path / "work" / "shop").mkdir(parents=True)
    (tmp_path / ".config" / "memoryd").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / ".config" / "memoryd"):
        (folder / "memoryd.yaml").write_text(snippet(README, "yaml", "id: shop"))
    done = forks.run(
        ["-c", snippet(page, "python", "memory.flush")],
        # The scanner's compiled rules are the user's: without them they would be compiled again.
        env={
            **os.environ,
            "HOME": str(tmp_path),
            "XDG_CONFIG_HOME": str(tmp_path / ".config"),
            "XDG_CACHE_HOME": platformdirs.user_cache_dir(),
            "MEMORYD_CONFIG": str(tmp_path / "memoryd.yaml"),
        },
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert f"succeeded {added}\n['Prefers trains to planes.']\n" in done.stdout
    assert done.stdout.startswith("- User: We decided to deploy on Mondays")


def test_the_json_lines_of_the_documentation_are_a_transcript():
    records = cut(snippet(ROOT / "docs" / "agents.md", "json", '"role"').encode(), 0, last=False).records
    turns = [turn for one in records for turn in Messages().turns(one, Identity("s"), Pass("s")).turns]
    assert [(turn.role, turn.text, turn.at) for turn in turns] == [
        ("user", "Never deploy on a Friday.", "2026-11-21T09:30:00Z"),
        ("assistant", "Understood: never on a Friday.", None),
    ]


def test_the_memory_that_the_readme_shows_was_said_in_the_sample_session():
    session = resources.files("memoryd.interfaces").joinpath("demo_session.jsonl").read_text("utf-8")
    said = " ".join(text for line in session.splitlines() for text in strings_of(json.loads(line)))
    shown = snippet(README, "markdown", "# Memory") + snippet(README, "text", "<memoryd-context>")
    label = r"(?:\[.*?\] )?(?:User: |Assistant: |Last request: |Branch: |Last commit: `\w+` )?"
    quoted = re.findall(rf"^ ?- {label}(.*?)(?: \(crumb; .*\))?$", shown, re.MULTILINE)
    parts = [part.strip(" `") for line in quoted for part in line.split("…") if part.strip()]
    assert len(parts) > 8
    assert [part for part in parts if part not in said] == []


def strings_of(value):
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings_of(inner)
