"""Settings: defaults, every error in one pass, places, paths; and what `config check|show|default` say."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import MISSING, fields, replace
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memoryd
from memoryd import config, config_file
from memoryd.agent_programs import make_slug
from memoryd.config import Agent, Settings, SettingsError, TranscriptSource, keys_of, load
from memoryd.config_file import default_text, find
from memoryd.config_values import duration_text
from memoryd.errors import ConfigError
from memoryd.interfaces import cli_config
from memoryd.interfaces.cli import main
from memoryd.interfaces.cli_config import render_default
from memoryd.yaml_reader import read

SHIPPED = Path(memoryd.__file__).parent.parent / "config" / "memoryd.yaml"
MINIMAL = "agents: [{id: a, workspace: ., transcripts: []}]\n"


def write(folder, text):
    path = folder / "memoryd.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def settings_of(folder, text, **environ):
    return load(write(folder, text), {"HOME": str(folder), **environ})


def problems_of(folder, text, **environ):
    with pytest.raises(SettingsError) as caught:
        settings_of(folder, text, **environ)
    assert caught.value.exit_code == 2
    assert caught.value.code == "config"
    return [(int(each.where.rpartition(":")[2]), each.what, each.hint) for each in caught.value.problems]


def problem_of(folder, text, **environ):
    (problem,) = problems_of(folder, text, **environ)
    return problem


@pytest.mark.parametrize("inside", ["work", "work/state", "link/state"])
def test_a_state_folder_in_a_workspace_is_refused(tmp_path, inside):
    (tmp_path / "work").mkdir()
    (tmp_path / "link").symlink_to("work")
    line, what, hint = problem_of(tmp_path, f"state_dir: {inside}\nagents: [{{id: a, workspace: work}}]\n")
    assert (line, what, hint) == (
        1,
        "state_dir: is in the workspace of a",
        "move it out of all workspaces, or set memory: state for this agent",
    )


# --- the shipped file ---


def key_paths(model, at=""):
    for name, key in keys_of(model).items():
        path = f"{at}{name}"
        below = key.metadata.get("section") or key.metadata.get("list")
        if key.metadata.get("list") and path == "admin.users":
            yield path  # the shipped file has none
        elif below:
            yield from key_paths(below, f"{path}[0]." if "list" in key.metadata else f"{path}.")
        else:
            yield path


def written_paths(mark, at=""):
    if isinstance(mark.value, dict):
        for name, child in mark.value.items():
            yield from written_paths(child, f"{at}.{name}" if at else name)
    elif isinstance(mark.value, list) and any(isinstance(child.value, dict) for child in mark.value):
        for number, child in enumerate(mark.value):
            yield from written_paths(child, f"{at}[{number}]")
    else:
        yield at


def test_the_shipped_file_holds_every_key_and_no_other():
    assert list(written_paths(read(SHIPPED.read_bytes()).root)) == list(key_paths(Settings))


def test_the_shipped_file_equals_the_defaults_key_by_key(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "var" / "demo").mkdir(parents=True)
    shipped = settings_of(tmp_path / "config", SHIPPED.read_text(encoding="utf-8"))
    bare = "agents: [{id: demo, workspace: ../var/demo, transcripts: [{path: sessions/*.jsonl}]}]"
    defaults = settings_of(tmp_path / "config", bare)
    for key in fields(Settings):
        assert getattr(shipped, key.name) == getattr(defaults, key.name) or not key.compare, key.name
    assert shipped == defaults
    assert shipped.lines["sleep.budget"]
    assert "sleep.budget" not in defaults.lines


def test_the_shipped_file_loads_where_it_lies():
    settings = load(SHIPPED)
    assert settings.state_dir == SHIPPED.parent.parent / "var"
    assert [agent.id for agent in settings.agents] == ["demo"]


def test_every_key_of_the_shipped_file_has_its_reason_beside_it():
    for line in SHIPPED.read_text(encoding="utf-8").splitlines():
        if re.match(r"\s*(- )?[a-z_]+: +[^# ]", line):
            reason = line.partition(" # ")[2]
            assert len(reason.split()) >= 5, line


def test_default_text_is_the_shipped_file():
    assert default_text() == SHIPPED.read_text(encoding="utf-8")


def test_the_default_works_as_it_is_in_a_users_folder(tmp_path):
    made = settings_of(tmp_path, render_default(tmp_path / "it's $state"))
    assert (made.agents, made.state_dir, made.warnings) == ((), tmp_path / "it's $state", ())
    shipped = load(SHIPPED)
    assert replace(made, agents=shipped.agents, state_dir=shipped.state_dir) == shipped, "all else is the same"


def test_default_text_is_read_from_the_package_where_it_was_installed(tmp_path):
    package = tmp_path / "memoryd"
    package.mkdir()
    for module in Path(memoryd.__file__).parent.glob("*.py"):
        (package / module.name).write_bytes(module.read_bytes())
    (package / "memoryd.yaml").write_text("as installed", encoding="utf-8")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    code += "from memoryd.config_file import default_text; print(default_text())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "as installed\n"


def test_the_defaults_are_those_of_the_contract(tmp_path):
    settings = settings_of(tmp_path, MINIMAL)
    assert settings.state_dir == tmp_path.parent / "var"
    assert settings.timezone == "local"
    assert isinstance(settings.zone, ZoneInfo)
    assert settings.ingest == config.IngestSettings(
        rescan=timedelta(minutes=1), settle=timedelta(milliseconds=200), polling="auto", history="index"
    )
    assert settings.scrub == config.ScrubSettings(secrets="redact", pii="off", allow=())
    sleep = settings.sleep
    assert (sleep.threshold, sleep.cooldown, sleep.min_messages) == (0.8, timedelta(minutes=5), 1)
    assert (sleep.keep_recent, sleep.budget, sleep.rearm, sleep.strategy) == (10, 0.25, 0.1, "hybrid")
    assert sleep.schedule is None
    assert settings.sessions.idle_end == timedelta(hours=2)
    assert (settings.jobs.attempts, settings.jobs.workers) == (5, 2)
    assert (settings.llm.provider, settings.modes.sleep, settings.hooks.on_summary) == ("offline", "auto", None)
    assert (settings.log.level, settings.log.format) == ("info", "json")
    assert settings.agents == (Agent(id="a", workspace=tmp_path),)
    assert settings.agents[0].enabled
    assert settings.source == tmp_path / "memoryd.yaml"


# --- errors ---


def test_all_problems_come_in_one_pass_in_the_order_of_the_file(tmp_path):
    problems = problems_of(
        tmp_path,
        "agents:\n"
        "  - id: Demo\n"
        "    workspace: nowhere\n"
        "sleep:\n"
        "  treshold: 0.8\n"
        "  budget: 1\n"
        "  cooldown: 12:30\n"
        "log: {level: info, level: debug}\n"
        "timezone: Europe/Berln\n",
    )
    assert [line for line, _, _ in problems] == [2, 3, 5, 6, 7, 8, 9]
    assert [what.partition(":")[0] for _, what, _ in problems] == [
        "agents[0].id",
        "agents[0].workspace",
        "sleep.treshold",
        "sleep.budget",
        "sleep.cooldown",
        "the key level is there twice",
        "timezone",
    ]
    assert all(hint for _, _, hint in problems)


def test_the_text_of_several_problems_names_file_line_key_and_hint(tmp_path):
    path = write(tmp_path, MINIMAL + "slep: {}\nlog: {levle: info}\n")
    with pytest.raises(SettingsError) as caught:
        load(path)
    assert str(caught.value).splitlines() == [
        f"{path}: 2 problems",
        f"  {path}:2: slep: unknown key (did you mean sleep?)",
        f"  {path}:3: log.levle: unknown key (did you mean log.level?)",
    ]


def test_one_problem_is_told_in_one_line(tmp_path):
    path = write(tmp_path, MINIMAL + "jobs: {workers: 0}\n")
    with pytest.raises(SettingsError) as caught:
        load(path)
    assert str(caught.value) == f"{path}:2: jobs.workers: 0 is out of range (1 or more)"


@pytest.mark.parametrize(
    ("written", "key", "hint"),
    [
        ("slep: {}", "slep", "did you mean sleep?"),
        ("State-Dir: x", "State-Dir", "did you mean state_dir?"),
        ("treshold: 0.8", "treshold", "did you mean sleep.threshold?"),
        ("idle_end: 2h", "idle_end", "did you mean sessions.idle_end?"),
        ("sleep: {keep-recent: 1}", "sleep.keep-recent", "did you mean sleep.keep_recent?"),
        ("naps: {schedule: x}", "naps", "known here: state_dir, timezone, discover, agents"),
        ("hooks: {on_error: x}", "hooks.on_error", "known here: on_summary, on_alarm"),
        ("llm: {budget: 1}", "llm.budget", "did you mean sleep.budget?"),
        ("modes: {naps: auto}", "modes.naps", "known here: sleep, facts"),
        ("zone: x", "zone", "did you mean timezone?"),
        ("source: x", "source", "known here:"),
    ],
)
def test_an_unknown_key_is_told_its_nearest_valid_one(tmp_path, written, key, hint):
    line, what, given_hint = problem_of(tmp_path, MINIMAL + written)
    assert (line, what) == (2, f"{key}: unknown key")
    assert given_hint.startswith(hint)


def test_a_key_that_the_release_removed_only_warns(tmp_path):
    path = write(tmp_path, MINIMAL + "injection: {max_tokens: 7, handover_max_tokens: lots}\n")
    made = load(path)
    why = "RECENT.md and the state of the project replace it"
    assert made.warnings == (f"{path}:2: injection.handover_max_tokens was removed and does nothing: {why}",)
    assert (made.injection.max_tokens, load(write(tmp_path, MINIMAL)).warnings) == (7, ())


def test_an_agent_without_transcripts_only_warns_unless_they_are_none_on_purpose(tmp_path):
    path = write(tmp_path, "agents: [{id: a, workspace: .}]\n")
    why = "is missing, so memoryd reads no sessions of a program: run memoryd init"
    assert load(path).warnings == (f"{path}:1: agents[0].transcripts {why}",)
    for listed in ("[]", "[{path: nothing/there/yet/*.jsonl}]"):
        assert load(write(tmp_path, f"agents: [{{id: a, workspace: ., transcripts: {listed}}}]\n")).warnings == ()


def test_a_project_that_is_gone_leaves_its_agent_out_where_projects_come_and_go(tmp_path):
    agents = "agents: [{id: a, workspace: ., transcripts: []}, {id: b, workspace: gone, transcripts: []}]\n"
    assert problem_of(tmp_path, agents)[1] == f"agents[1].workspace: the folder {tmp_path / 'gone'} does not exist"
    settings = settings_of(tmp_path, f"discover: [codex]\n{agents}")
    assert [agent.enabled for agent in settings.agents] == [True, False]
    assert "the agent b is left out" in settings.warnings[0]
    assert problems_of(tmp_path, f"discover: [emacs]\n{agents}")[0][1].startswith("discover: ")


def test_memory_in_the_state_folder_and_folders_that_share_it(tmp_path):
    text = (
        "state_dir: state\nagents: [{id: a, workspace: ., memory: state, share: [other],"
        " transcripts: [{path: x/*.jsonl, project: .}, {path: y/*.jsonl}]}]\n"
    )
    (agent,) = settings_of(tmp_path, text).agents
    assert (agent.folder, agent.workspace) == (tmp_path, tmp_path / "state" / "agents" / "a")
    found = [(source.root, source.project) for source in agent.transcripts]
    x, y = tmp_path / "x", tmp_path / "y"
    assert found == [(x, tmp_path), (x, tmp_path / "other"), (y, None)]
    text = "agents: [{id: a, workspace: p, share: [q], transcripts: [{path: 'c/SLUG*/**/*.jsonl', project: p}]}]\n"
    (tmp_path / "p").mkdir()
    (agent,) = settings_of(tmp_path, text.replace("SLUG", make_slug(tmp_path / "p"))).agents
    slugs = [f"{make_slug(tmp_path / name)}*/**/*.jsonl" for name in "pq"]
    assert [source.pattern for source in agent.transcripts] == slugs, "Claude Code names a folder after its project"


def test_a_model_may_be_named_for_each_agent_instead_of_for_all(tmp_path):
    text = (
        "agents: [{id: a, workspace: ., model: small, base_url: 'http://localhost:11434/v1/'}]\nllm: {provider: openai}"
    )
    (agent,) = settings_of(tmp_path, text).agents
    assert (agent.model, agent.base_url) == ("small", "http://localhost:11434/v1")


@pytest.mark.parametrize(
    ("written", "told", "hint"),
    [
        ("scrub: {secrets: mask}", '"mask" is not known', "redact, skip, off"),
        ("scrub: {pii: redact}", '"redact" is not known', "off, mask"),
        ("scrub: {allow: no-list}", 'not "no-list"', "after a -"),
        ("scrub: {allow: [7]}", "text is needed, not 7", "quotes"),
        ("scrub: {allow: ['']}", "this is empty", ""),
        ("scrub: {allow: ['/sk-[/']}", "is not a regular expression", "Python's re"),
        ("sleep: {threshold: 0}", "0 is out of range", "above 0"),
        ("sleep: {threshold: 1.01}", "1.01 is out of range", "1 at most"),
        ("sleep: {threshold: 80}", "80 is out of range", "1 at most"),
        ("sleep: {threshold: '0.8'}", 'not "0.8"', "0.8 for 80 %"),
        ("sleep: {threshold: 80%}", 'not "80%"', "0.8 for 80 %"),
        ("sleep: {threshold: .nan}", 'not ".nan"', "0.8"),
        ("sleep: {threshold: 1e999}", "inf is out of range", "1 at most"),
        ("sleep: {threshold: true}", "not true", "0.8"),
        ("sleep: {threshold: }", "not nothing", "0.8"),
        ("sleep: {budget: 1}", "1 is out of range", "below 1"),
        ("sleep: {budget: 0}", "0 is out of range", "above 0"),
        ("sleep: {rearm: -0.1}", "out of range", "0 or more"),
        ("sleep: {min_messages: 0}", "0 is out of range", "1 or more"),
        ("sleep: {min_messages: 1.5}", "not 1.5", "digits only"),
        ("sleep: {keep_recent: 010}", 'not "010"', "octal"),
        ("sleep: {keep_recent: -1}", "-1 is out of range", "0 or more"),
        ("sleep: {cooldown: 5}", "5 has no unit", "5s"),
        ("sleep: {cooldown: 5 minutes}", "not a duration", "5m"),
        ("sleep: {cooldown: -5m}", "not a duration", "5m"),
        ("sleep: {cooldown: 1.5h}", "not a duration", "5m"),
        ("sleep: {cooldown: 999999999999d}", "too long", "3650d at most"),
        ("sleep: {cooldown: 3651d}", "too long", "3650d at most"),
        ("sleep: {cooldown: off}", "not a duration", "5m"),
        ("sleep: {strategy: hybird}", "not known", "did you mean hybrid?"),
        ("sleep: {schedule: 0 3 * *}", "five fields, not 4", "0 3 * * *"),
        ("sleep: {schedule: 03:00}", "five fields", "0 3 * * *"),
        ("sleep: {schedule: 0 0 31 2 *}", "never comes", "29"),
        ("ingest: {rescan: 0s}", "0s is too short", "100ms or more"),
        ("ingest: {polling: yes}", "not known", "one of auto, always, never"),
        ("sessions: {idle_end: 0s}", "too short", "1s or more"),
        ("jobs: {attempts: 0}", "out of range", "1 or more"),
        ("jobs: {workers: two}", 'not "two"', "digits"),
        ("llm: {provider: openai}", "llm.model: is missing", "name the model"),
        ("llm: {provider: opnai}", "not known", "did you mean openai?"),
        ("llm: {base_url: example.org}", "http or https URL", "https://"),
        ("llm: {base_url: 'file:///etc/passwd'}", "http or https URL", "https://"),
        ("llm: {base_url: 'http://169.254.169.254/v1'}", "metadata", ""),
        ("llm: {base_url: 'https://metadata.google.internal/'}", "metadata", ""),
        ("llm: {base_url: 'http://8.8.8.8/v1'}", "in the clear", "use https"),
        ("llm: {base_url: 'https://me:sk-1@example.org'}", '"https://…@example.org" must hold no user', "api_key_env"),
        ("llm: {base_url: 'https://example.org/?key=sk-1'}", '"https://example.org/" must hold no', "api_key_env"),
        ("llm: {api_key_env: sk-proj-abcdef}", "llm.api_key_env: this is not the name of a variable", "set the key"),
        ("llm: {timeout: 100ms}", "too short", "1s or more"),
        ("llm: {daily_tokens: -1}", "out of range", "0 or more"),
        ("llm: {fallback: never}", "not known", "offline, wait"),
        ("modes: {sleep: false}", "false is not known", "off, propose, auto"),
        ("modes: {refine: proposed}", "not known", "did you mean propose?"),
        ("hooks: {on_summary: ['a', 'b']}", "not a list", "quotes"),
        ("hooks: {on_summary: ' '}", "empty", ""),
        ("log: {level: warn}", "not known", "did you mean warning?"),
        ("log: {format: xml}", "not known", "json, text"),
        ("log: info", "a mapping is needed", "key: value"),
        ("timezone: Europe/Berln", "not a time zone", "did you mean Europe/Berlin?"),
        ("timezone: europe/berlin", "not a time zone", "did you mean Europe/Berlin?"),
        ("timezone: America", "not a time zone", ""),
        ("timezone: ../../etc/passwd", "not a time zone", "IANA"),
        ("timezone: 3", "text is needed, not 3", "quotes"),
        ("state_dir: memoryd.yaml", "is not a folder", ""),
        ("state_dir: $UNSET/x", "$UNSET is not set", "$$"),
        ("state_dir: 5 $", "$ without a name", "$$"),
        ("state_dir: ~nobody-of-that-name/x", "no home folder", "whole path"),
        ("state_dir: ''", "empty", ""),
    ],
)
def test_a_bad_value_is_refused_with_a_hint(tmp_path, written, told, hint):
    # A file system that folds case would know europe/berlin as well; then it is no bad value.
    if written == "timezone: europe/berlin" and Path("/USR").exists():
        pytest.skip("case-insensitive file system")
    line, what, given_hint = problem_of(tmp_path, MINIMAL + written)
    assert line == 2
    assert told in what
    assert hint in given_hint


@pytest.mark.parametrize(
    ("agents", "told"),
    [
        ("agents:", "agents: a list is needed, not nothing"),
        ("agents: {id: a}", "agents: a list is needed, not a mapping"),
        ("agents: [a]", "agents[0]: a mapping is needed"),
        ("agents: [{workspace: .}]", "agents[0].id: is missing"),
        ("agents: [{id: a}]", "agents[0].workspace: is missing"),
        ("agents: [{id: -a, workspace: .}]", "agents[0].id: "),
        ("agents: [{id: Ab, workspace: .}]", "cannot be an id"),
        (f"agents: [{{id: {'a' * 65}, workspace: .}}]", "cannot be an id"),
        ("agents: [{id: 1, workspace: .}]", "text is needed, not 1"),
        ("agents: [{id: a, workspace: gone}]", "does not exist"),
        ("agents: [{id: a, workspace: memoryd.yaml}]", "is not a folder"),
        ("agents: [{id: a, workspace: ., context_window: 0}]", "context_window: 0 is out of range"),
        ("agents: [{id: a, workspace: ., context_window: 200k}]", "a whole number is needed"),
        ("agents: [{id: a, workspace: ., enabled: yes}]", 'true or false is needed, not "yes"'),
        ("agents: [{id: a, workspace: ., transcripts: [x.jsonl]}]", "transcripts[0]: a mapping is needed"),
        ("agents: [{id: a, workspace: ., transcripts: [{format: auto}]}]", "transcripts[0].path: is missing"),
        ("agents: [{id: a, workspace: ., transcripts: [{path: x, format: cursor}]}]", 'format: "cursor" is not known'),
        ("agents: [{id: a, workspace: ., transcripts: [{path: '**.jsonl'}]}]", "** must stand alone"),
        ("agents: [{id: a, workspace: ., transcripts: [{path: 'a[b/c'}]}]", "not a pattern"),
        ("agents: [{id: a, workspace: ., transcripts: [{path: 'a.{json,jsonl}'}]}]", "not a pattern"),
        ("agents: [{id: a, workspace: ., transcripts: [{path: '*/../x'}]}]", ".. after a wildcard"),
        ("agents: [{id: a, workspace: ., transcripts: [{path: sessions/}]}]", "names a folder"),
        ("agents: [{id: a, workspace: ., transcripts: [{path: 'sessions/**'}]}]", "names a folder"),
        ("agents: [{id: a, workspace: ., transcripts: [{path: $NOPE/x}]}]", "$NOPE is not set"),
        ("timezone: UTC", "agents: is missing"),
        ("", "the file is empty"),
        ("# nothing here\n", "the file is empty"),
        ("just text", "a mapping is needed"),
        ("- a\n- b", "a mapping is needed"),
    ],
)
def test_a_bad_agent_or_file_is_refused(tmp_path, agents, told):
    _, what, _ = problem_of(tmp_path, agents)
    assert told in what


def test_two_agents_may_share_neither_id_nor_workspace(tmp_path):
    (tmp_path / "w").mkdir()
    (tmp_path / "link").symlink_to("w")
    problems = problems_of(
        tmp_path, "agents:\n- {id: a, workspace: w}\n- {id: a, workspace: .}\n- {id: b, workspace: link}\n"
    )
    assert [(line, what) for line, what, _ in problems] == [
        (3, "agents[1].id: the same as agents[0].id on line 2"),
        (4, "agents[2].workspace: the same as agents[0].workspace on line 2"),
    ]


SILO = "agents: [{id: a, workspace: ., privacy: silo, model: %s}]\nllm:\n  model: tiny-1\n  verifier: %s\n"


def test_what_a_silo_remembers_is_read_by_no_foreign_model(tmp_path):
    line, what, hint = problem_of(tmp_path, SILO % ("null", "reader-7"))
    assert (line, what.partition(":")[0]) == (4, "llm.verifier")
    assert "reader-7 would read the memory of a" in what
    assert "null" in hint
    assert problem_of(tmp_path, SILO % ("own-2", "tiny-1"))[0] == 4
    for own, reader in (("null", "tiny-1"), ("own-2", "own-2"), ("null", "null")):
        settings_of(tmp_path, SILO % (own, reader))
    settings_of(tmp_path, (SILO % ("null", "reader-7")).replace("silo", "open"))


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        load(tmp_path)
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        load(tmp_path / "gone.yaml")


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from([*keys_of(Settings), *keys_of(config.SleepSettings), *keys_of(Agent), "path", "x"]),
        inner, max_size=5,
    ),
    max_leaves=12,
))  # fmt: skip
def test_any_tree_is_settings_or_problems_with_lines(tmp_path_factory, tree):
    folder = tmp_path_factory.getbasetemp()
    path = write(folder, json.dumps(tree, ensure_ascii=False).encode(errors="replace").decode())
    try:
        settings = load(path, {})
    except SettingsError as error:
        problems = error.problems
    else:
        problems = ()
        assert isinstance(settings.state_dir, Path)
    assert all(re.search(r":\d+$", problem.where) for problem in problems)


# --- values as meant ---


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("200ms", timedelta(milliseconds=200)),
        ("90s", timedelta(seconds=90)),
        ("5m", timedelta(minutes=5)),
        ("6h", timedelta(hours=6)),
        ("3d", timedelta(days=3)),
        ("0s", timedelta(0)),
    ],
)
def test_durations(tmp_path, text, span):
    assert settings_of(tmp_path, MINIMAL + f"sleep: {{cooldown: {text}}}").sleep.cooldown == span
    assert duration_text(span) == text


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=3_650)))
def test_a_duration_reads_back(span):
    whole = timedelta(milliseconds=span // timedelta(milliseconds=1))
    parse = keys_of(config.SleepSettings)["cooldown"].metadata["parse"]
    assert parse(None, duration_text(whole)) == whole


def test_off_works_without_quotes_and_an_agent_may_be_called_no(tmp_path):
    settings = settings_of(tmp_path, "agents: [{id: no, workspace: .}]\nmodes: {sleep: off}\n")
    assert (settings.agents[0].id, settings.modes.sleep) == ("no", "off")


def test_the_inclusive_bounds_are_valid(tmp_path):
    text = "sleep: {threshold: 1, rearm: 0, keep_recent: 0, cooldown: 0s}\ningest: {settle: 0s}\n"
    sleep = settings_of(tmp_path, MINIMAL + text).sleep
    assert (sleep.threshold, sleep.rearm, sleep.keep_recent) == (1.0, 0.0, 0)
    assert settings_of(tmp_path, MINIMAL + "sleep: {rearm: 1}\n").sleep.rearm == 1.0


def test_a_section_with_all_keys_commented_out_is_its_defaults(tmp_path):
    assert settings_of(tmp_path, MINIMAL + "sleep:\n  # budget: 0.5\nlog: {}\n").sleep == config.SleepSettings()


def test_no_agents_at_all_may_be_said_explicitly(tmp_path):
    assert settings_of(tmp_path, "agents: []").agents == ()


def test_values_that_are_no_secrets_are_kept_as_written(tmp_path):
    settings = settings_of(tmp_path, MINIMAL + "scrub:\n  secrets: off\n  allow:\n  - '$x'\n  - /sk-test-.*/\n")
    assert settings.scrub == config.ScrubSettings(secrets="off", allow=("$x", "/sk-test-.*/"))


def test_a_schedule_is_kept_as_written(tmp_path):
    assert settings_of(tmp_path, MINIMAL + "sleep: {schedule: 0 3 * * sun}").sleep.schedule == "0 3 * * sun"
    assert settings_of(tmp_path, MINIMAL + "sleep: {schedule: null}").sleep.schedule is None


def test_a_named_zone_is_that_zone(tmp_path):
    settings = settings_of(tmp_path, MINIMAL + "timezone: America/New_York")
    assert (settings.timezone, settings.zone) == ("America/New_York", ZoneInfo("America/New_York"))


def test_local_is_the_zone_of_the_system(tmp_path):
    code = (
        "from pathlib import Path; from memoryd.config import load;"
        f"print(load(Path({str(write(tmp_path, MINIMAL))!r})).zone.key)"
    )
    environ = {**os.environ, "TZ": "Asia/Tokyo", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    assert done.stdout == "Asia/Tokyo\n"


# --- paths ---


def test_relative_paths_are_relative_to_the_file_and_names_expand(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "w").mkdir()
    text = (
        "state_dir: $STATE/s\nagents:\n  - id: a\n    workspace: ../w\n"
        "    transcripts: [{path: '~/x/*.jsonl', project: \"${STATE}/p\"}, {path: $$/a.jsonl}]\n"
    )
    settings = load(write(tmp_path / "c", text), {"STATE": "/state", "HOME": "/home/me"})
    first, second = settings.agents[0].transcripts
    assert settings.state_dir == Path("/state/s")
    assert settings.agents[0].workspace == tmp_path / "w"
    assert (first.path, first.root, first.pattern) == ("/home/me/x/*.jsonl", Path("/home/me/x"), "*.jsonl")
    assert first.project == Path("/state/p")
    assert (second.root, second.pattern) == (tmp_path / "w" / "$", "a.jsonl")


@pytest.mark.parametrize(
    ("pattern", "root", "rest"),
    [
        ("sessions/*.jsonl", "sessions", "*.jsonl"),
        ("*.jsonl", ".", "*.jsonl"),
        ("a/b/**/c/*.jsonl", "a/b", "**/c/*.jsonl"),
        ("./a//b/x.jsonl", "a/b", "x.jsonl"),
        ("../other/[ab]/x?.jsonl", "../other", "[ab]/x?.jsonl"),
        ("a[[]1]/*.jsonl", "a[1]", "*.jsonl"),
        ("$ODD/*.jsonl", "o[d]d*", "*.jsonl"),
        ("~/*.jsonl", "h[o]me?", "*.jsonl"),
    ],
)
def test_a_transcript_path_is_its_fixed_folder_and_a_glob(tmp_path, pattern, root, rest):
    (tmp_path / "w").mkdir()
    text = f"agents: [{{id: a, workspace: w, transcripts: [{{path: '{pattern}'}}]}}]"
    (source,) = settings_of(tmp_path, text, ODD="o[d]d*", HOME="h[o]me?").agents[0].transcripts
    assert (source.root, source.pattern) == ((tmp_path / "w" / root).resolve(), rest)


def test_the_glob_below_the_root_finds_what_the_pattern_means(tmp_path):
    sessions = tmp_path / "w [1]" / "deep" / "sessions"
    sessions.mkdir(parents=True)
    (sessions / "a.jsonl").touch()
    text = "agents: [{id: a, workspace: 'w [1]', transcripts: [{path: 'deep/**/*.jsonl'}]}]"
    (source,) = settings_of(tmp_path, text).agents[0].transcripts
    assert list(source.root.glob(source.pattern)) == [sessions / "a.jsonl"]


# --- where the file is ---


def test_the_places_are_tried_in_order(tmp_path, monkeypatch):
    named, variable = tmp_path / "named.yaml", tmp_path / "variable.yaml"
    here, user, system = tmp_path / "config" / "memoryd.yaml", tmp_path / "u" / "memoryd.yaml", tmp_path / "etc.yaml"
    monkeypatch.setattr(config_file, "_SYSTEM_FILE", system)
    for path in (named, variable, here, user, system):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    environ = {"MEMORYD_CONFIG": str(variable)}
    assert find(Path("named.yaml"), environ, tmp_path, user.parent) == named
    assert find(None, environ, tmp_path, user.parent) == variable
    assert find(None, {"MEMORYD_CONFIG": ""}, tmp_path, user.parent) == here
    here.unlink()
    assert find(None, {}, tmp_path, user.parent) == user
    user.unlink()
    assert find(None, {}, tmp_path, user.parent) == system
    system.unlink()
    with pytest.raises(ConfigError) as caught:
        find(None, {}, tmp_path, user.parent)
    assert str(here) in caught.value.what
    assert "memoryd init" in caught.value.hint
    here.touch()
    with pytest.raises(ConfigError) as caught:
        find(None, {}, None, user.parent)
    assert str(here) not in caught.value.what, "the checkout's, which is asked for by a folder alone"


@pytest.mark.parametrize("environ", [{}, {"MEMORYD_CONFIG": "gone.yaml"}])
def test_a_file_asked_for_by_name_is_never_replaced_by_another(tmp_path, environ):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "memoryd.yaml").touch()
    explicit = None if environ else Path("gone.yaml")
    with pytest.raises(ConfigError) as caught:
        find(explicit, environ, tmp_path, tmp_path)
    assert caught.value.where == str(tmp_path / "gone.yaml")
    assert caught.value.exit_code == 2


# --- what the commands say ---


def test_show_reads_back_to_the_same_settings(tmp_path):
    text = (
        "agents:\n- id: a\n  workspace: .\n  transcripts: [{path: $D/*.jsonl, project: $D}, {path: x.jsonl}]\n"
        "scrub: {secrets: skip, pii: mask, allow: ['$x', '/sk-test-[a-z]+/']}\n"
        "hooks: {on_summary: 'echo \"$HOME\" # ü 😀'}\nsleep: {schedule: '@daily', cooldown: 90s}\n"
    )
    settings = settings_of(tmp_path, text, D="/d$d")
    (tmp_path / "again").mkdir()
    again = settings_of(tmp_path / "again", cli_config.show_text(settings))
    assert replace(again, agents=()) == replace(settings, agents=())
    assert [_located(source) for source in again.agents[0].transcripts] == [
        _located(source) for source in settings.agents[0].transcripts
    ]


def _located(source: TranscriptSource):
    return (source.root, source.pattern, source.format, source.project)


def test_show_says_where_each_value_comes_from(tmp_path):
    shown = cli_config.show_text(settings_of(tmp_path, MINIMAL + "sleep: {budget: 0.5}\n")).splitlines()
    assert shown[0] == f"# {tmp_path / 'memoryd.yaml'}"
    origins = {line.split(":")[0].strip(): line.rpartition("# ")[2] for line in shown[1:] if "# " in line}
    assert (origins["budget"], origins["rearm"], origins["- id"]) == ("line 2", "default", "line 1")


def test_show_data_holds_the_same(tmp_path):
    data = cli_config.show_data(settings_of(tmp_path, MINIMAL + "sleep: {budget: 0.5}\n"))
    assert json.loads(json.dumps(data)) == data
    assert data["settings"]["sleep"]["budget"] == 0.5
    assert data["settings"]["sleep"]["cooldown"] == "5m"
    assert (data["lines"]["sleep.budget"], data["lines"]["sleep.rearm"]) == (2, None)


def test_check_is_one_line_with_the_summary(tmp_path, capsys):
    source = settings_of(tmp_path, MINIMAL + "timezone: UTC\n").source
    with pytest.raises(SystemExit) as ended:
        main(["--config", str(source), "config", "check"])
    assert not ended.value.code
    assert capsys.readouterr().out == f"{source}: ok; agents: a; state in {tmp_path.parent / 'var'}; times in UTC\n"


# --- the model itself ---


def test_equal_settings_are_equal_wherever_they_were_read(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    text = f"state_dir: /s\nagents: [{{id: a, workspace: {tmp_path}}}]\n"
    one, two = settings_of(tmp_path / "one", text), settings_of(tmp_path / "two", "# moved\n" + text)
    assert one == two
    assert hash(one) == hash(two)
    assert one.lines != two.lines


def test_every_field_that_is_no_key_has_a_default():
    for model in (Settings, Agent, TranscriptSource):
        for key in fields(model):
            assert key.metadata or key.default is not MISSING or key.default_factory is not MISSING


def test_importing_the_configuration_loads_nothing_heavy():
    code = "import sys, memoryd.config; print(*sys.modules)"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"pydantic", "sqlalchemy", "structlog", "apscheduler", "asyncio", "tzlocal", "click"}


def test_a_workspace_that_cannot_be_written_warns(tmp_path):
    path = write(tmp_path, "agents: [{id: a, workspace: shut, transcripts: []}]\n")
    (tmp_path / "shut").mkdir(mode=0o555)
    code = f"from pathlib import Path; from memoryd.config import load; print(load(Path({str(path)!r})).warnings)"
    command = [sys.executable, "-c", code]
    if os.geteuid() == 0:  # root writes everywhere but for its capabilities
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv")
        command = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"the folder {tmp_path / 'shut'} cannot be written" in done.stdout
