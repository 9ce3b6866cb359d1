"""What an agent is told at its start, from its real memory; and that nothing of it comes back as memory."""

import json
import os
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from daily import one_in
from facts_world import store_on
from scratch import Scratch, filler, in_process, message, recent, said

import memoryd
from memoryd import config
from memoryd.daemon.once import run_once
from memoryd.database import audit, memories, query, reads, sqlite
from memoryd.errors import ConfigError
from memoryd.interfaces.output import render
from memoryd.interfaces.status_view import list_parts
from memoryd.ledger.audit import AuditStamp
from memoryd.ledger.facts import NewFact
from memoryd.ledger.memory import Source, sources_to_json
from memoryd.ledger.operation import Update, apply
from memoryd.recall.injection import Budget, Part
from memoryd.requests import context, projects, status
from memoryd.transcripts.injected import CLOSE, OPEN
from memoryd.worker.client import Worker

SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"


@pytest.fixture
def scratch(tmp_path):
    made = Scratch(tmp_path / "scratch", ingest={"settle": "0ms"})
    (made.workspace / "memory").mkdir()
    return made


def test_what_stands_in_facts_core_and_day_is_told_once_and_is_no_hit_either(scratch):
    scratch.write_config(facts={"debounce": "0s"}, modes={"facts": "auto"})
    scratch.append([*said(), filler()])
    now = datetime(2026, 3, 4, 9, 45, tzinfo=UTC)
    with in_process(scratch, lambda: now) as app:
        run_once(app)
        remembered = context.gather(app.settings, app.settings.agents[0], now)
    texts = [*remembered.facts, *(part.text for part in remembered.parts)]
    said_ = "My name is Ottilie Brandt and I prefer tabs over spaces in all Makefiles."
    assert [said_ in text for text in texts].count(True) >= 3, texts
    made = context.fit_material(remembered, Budget(2000, 12_000), lambda texts: [len(text) // 4 for text in texts])
    assert made.text.count(said_) == 1
    assert made.text.count("PostgreSQL 16 because the reports need window functions.") == 1
    assert (made.left_out, "left out" in made.text) == ((), False)
    assert "- Noted: orders stay in PostgreSQL 16." in made.text
    hits = (f"User: {said_}", said_.upper(), f"- {said_[:-1]}", f"… {said_[5:]}")
    assert context.list_new_parts([Part("memory/2026-03-04.md, lines 3-4", one) for one in hits], made.text) == []
    # The same words within another statement say something else.
    others = [Part("MEMORY.md, line 3", one) for one in (f"Not: {said_}", said_[5:], said_[:20], "PostgreSQL 16")]
    assert context.list_new_parts(others, made.text) == others
    rule = "Deploy on no Friday."
    thrice = [Part("MEMORY.md, line 3", one) for one in (f"- {rule}", f"- User: {rule}", f"Well: {rule}", rule)]
    assert context.list_new_parts(thrice, made.text) == [thrice[0], thrice[2]]
    cut = [Part("x", "- uses tabs in every file of …")]
    assert context.list_new_parts(cut, "- Never uses tabs in every file of the project.") == cut
    assert context.list_new_parts(cut, "- uses tabs in every file of the project.") == []


@pytest.mark.long
def test_the_library_tells_what_fits_without_secrets_as_the_real_tokenizer_counts(scratch):
    """One start of the worker: tokens, secrets, budgets, what cannot be read."""
    scratch.write_config(scrub={"secrets": "redact"}, injection={"max_tokens": 300, "files_max_tokens": 200})
    with in_process(scratch) as app:
        app.ingest.scan()
        facts = [NewFact(f"Fact number {n} — día {n} 東京 \U0001f41f.", confidence=0.5 + n / 200) for n in range(80)]
        store_on(app.engine, scratch.workspace, app.clock).create(facts)
    (scratch.workspace / "MEMORY.md").write_text(
        f"- The key is {SECRET}.\n- Kumquats are sour.\n" + "- Tabs.\n" * 200, encoding="utf-8"
    )
    day = scratch.workspace / "memory" / "2026-01-05.md"
    day.write_text(f"# Daily Memory: 2026-01-05\n\nThe kumquat key is {SECRET}.\n", encoding="utf-8")
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
    (scratch.workspace / "memory" / f"{yesterday}.md").symlink_to(scratch.config)
    made = memoryd.Memory(scratch.workspace, scratch.config).context(query="kumquats")
    with pytest.raises(ConfigError, match="no -5 tokens"):
        memoryd.Memory(scratch.workspace, scratch.config).context(-5)
    assert SECRET not in made.text
    assert " - The key is [REDACTED:" in made.text
    assert "memory/2026-01-05.md, lines 1-3:\n The kumquat key is [REDACTED:" in made.text
    assert made.text.count("Kumquats are sour") == 1, "what is told already is not told as a hit as well"
    assert "Facts:\n- [context | 0.90] Fact number 79" in made.text
    shown = made.text.count("- [context | ")
    assert made.left_out[0] == f"{80 - shown} of 80 facts"
    assert made.left_out[1].startswith("MEMORY.md, lines ")
    assert "is a symbolic link" in made.left_out[2]
    with Worker(scratch.state) as worker:
        begin = made.text.index("MEMORY.md:")
        sections, files = (
            made.text[:begin] + made.text[made.text.index(CLOSE) :],
            made.text[begin : made.text.index(CLOSE)],
        )
        counted = worker.count([made.text, sections, files])
    assert counted[0] == made.tokens
    assert 250 < counted[1] <= 300
    assert 150 < counted[2] <= 200


def test_the_command(scratch):
    scratch.append(said(at=recent()))
    (scratch.workspace / "MEMORY.md").write_text(
        "- Tabs in all Makefiles.\n" * 50 + "- Likes figs.\n", encoding="utf-8"
    )
    data = scratch.json("context", "--max-tokens", "140", "--query", "figs")
    assert "line 51:\n - Likes figs.\n" in data["text"], "a hit is not crowded out by the files"
    assert set(data) == {"text", "tokens", "left_out"}
    assert 90 < data["tokens"] <= 140
    assert data["text"].startswith(OPEN)
    left = data["left_out"][0]
    assert left.startswith("MEMORY.md, lines ")
    assert "is not in the range" in scratch.run("context", "--max-tokens", "99999999999").stderr
    tiny = scratch.run("context", "--max-tokens", "5")
    assert (tiny.stdout, tiny.stderr.startswith("left out: ")) == ("nothing fits\n", True)
    assert "MEMORY.md" in tiny.stderr
    assert not scratch.run("--quiet", "context", "--max-tokens", "5").stderr


def test_days_are_those_of_the_configured_zone(scratch):
    """Where it is tomorrow already, tomorrow is today."""
    scratch.write_config(timezone="Pacific/Auckland")
    for day in ("2026-03-05", "2026-03-04", "2026-03-03"):
        (scratch.workspace / "memory" / f"{day}.md").write_text(f"{day}\n", encoding="utf-8")
    settings = config.load(scratch.config)
    found = context.gather(settings, settings.agents[0], datetime(2026, 3, 4, 12, tzinfo=UTC))
    assert [(part.name, part.newest_last) for part in found.parts] == [
        ("memory/2026-03-05.md", True), ("memory/2026-03-04.md", True),
    ]  # fmt: skip


CONFIDENT = "SELECT id, content, confidence, importance, updated_at, deleted_at, sources FROM memory ORDER BY id"


@pytest.mark.parametrize("format_", one_in(3, ["claude-code", "messages", "codex"]))
def test_what_is_told_to_an_agent_changes_no_memory_when_it_comes_back_a_hundred_times(scratch, format_):
    """As a prompt hook, a resumed session and a compaction put it into a transcript, whole, cut off, and as JSON."""
    scratch.agents[0]["transcripts"] = [{"path": "sessions/*.jsonl", "format": "auto"}]
    scratch.write_config(modes={"facts": "auto"})
    scratch.append([*said(at=recent(30)), filler(at=recent(29))])
    with in_process(scratch) as app:
        run_once(app)
        settings = config.load(scratch.config)
        agent = settings.agents[0]
        store = store_on(app.engine, scratch.workspace, app.clock)
        store.create([NewFact("I prefer tabs over spaces in all Makefiles.", "preference", 0.9)])
        remembered = context.gather(settings, agent, app.clock.now())
        text = context.fit_material(
            remembered, Budget(2000, 12_000), lambda texts: [len(one) // 4 for one in texts]
        ).text
        assert "PostgreSQL 16" in text
        assert "tabs over spaces" in text
        assert len(remembered.parts) == 2
        before = scratch.query(CONFIDENT), scratch.query("SELECT * FROM profile_section"), scratch.core
        records = [record for turn in range(100) for record in fed_back(format_, text, turn)]
        scratch.append(records, name="again")
        done = run_once(app)
        assert done["turns"] >= 200, "they were read"
        assert len(done["runs"]) >= 2, "the session has slept, and was asked for facts"
        kinds = scratch.query("SELECT DISTINCT kind FROM job_run ORDER BY kind")
        assert {"facts", "sleep"} <= {kind for (kind,) in kinds}
        assert (scratch.query(CONFIDENT), scratch.query("SELECT * FROM profile_section"), scratch.core) == before
        origins = scratch.query(
            "SELECT origin, count(*) FROM turn"
            " WHERE plain(CAST(text AS BLOB), text_crc) LIKE '%PostgreSQL 16%' GROUP BY 1"
        )
        assert dict(origins)["injected"] == 100


def fed_back(format_, text, turn):
    """One exchange whose prompt carries the text as a hook puts it there."""
    forms = (text, text[: len(text) * 2 // 3], json.dumps({"additionalContext": text}), f"Resumed.\n{text}\nGo on.")
    put = forms[turn % len(forms)] + ("" if turn % 4 == 1 else f"\nGo on with step {turn}.")
    at = (recent(20) + timedelta(seconds=turn)).isoformat().replace("+00:00", "Z")
    if format_ == "messages":
        return [message("user", put, at=recent(20)), message("assistant", f"Step {turn} is done.", at=recent(20))]
    if format_ == "codex":
        hooked = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": put}]}
        answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is done."}]}
        return [
            {"timestamp": at, "type": "response_item", "payload": hooked},
            {"timestamp": at, "type": "event_msg", "payload": {"type": "user_message", "message": f"Step {turn}."}},
            {"timestamp": at, "type": "response_item", "payload": answer},
        ]
    common = {
        "sessionId": "s-1",
        "cwd": "/p",
        "version": "2.1.0",
        "timestamp": at,
        "isSidechain": False,
        "userType": "external",
    }
    user = {"type": "user", "uuid": f"u{turn}", "parentUuid": f"a{turn - 1}" if turn else None}
    reply = {"type": "assistant", "uuid": f"a{turn}", "parentUuid": f"u{turn}"}
    said_back = [{"type": "text", "text": f"Step {turn} is done."}]
    return [
        common | user | {"message": {"role": "user", "content": put}},
        common | reply | {"message": {"id": f"m{turn}", "role": "assistant", "model": "x", "content": said_back}},
    ]


def test_status_warns_of_a_file_that_its_reader_does_not_load_to_its_end(scratch):
    scratch.agents[0]["transcripts"] = [{"path": "sessions/*.jsonl", "format": "claude-code"}]
    scratch.write_config()
    core = scratch.workspace / "MEMORY.md"
    with in_process(scratch) as app:
        app.ingest.scan()
        for bullets, warned in ((179, False), (180, True), (400, True)):
            core.write_text("- x\n" * bullets, encoding="utf-8")
            with reads.open_reader(app.database) as reader:
                data = status.status(config.load(scratch.config), reader, everything=False, live={})
            load = {"by": "claude-code", "share": bullets / 200, "cap": "200 lines or 25,000 bytes"}
            assert data["agents"][0]["loads"] == [load]
            assert ("WARNING  MEMORY.md takes" in render(list_parts(data))) == warned


def test_status_says_how_much_of_the_memory_and_of_the_sessions_it_does_not_tell(scratch):
    scratch.write_config(injection={"files_max_tokens": 300})
    for number in range(22):
        (scratch.sessions / f"{number}.jsonl").write_text(json.dumps(message("user", f"Step {number}.")) + "\n")
    with in_process(scratch) as app:

        def shown(bullets=0, *, everything=False):
            text = "".join(f"- The gauge of pier {number} is read at noon.\n\n" for number in range(bullets))
            (scratch.workspace / "MEMORY.md").write_text(text, encoding="utf-8")
            with reads.open_reader(app.database) as reader:
                data = status.status(config.load(scratch.config), reader, everything=everything, live={})
            return data["agents"][0], render(list_parts(data))

        assert shown()[0]["more_sessions"] == 0
        app.ingest.scan()
        agent, text = shown(20)
        assert (len(agent["sessions"]), agent["more_sessions"]) == (20, 2)
        assert text.count("\nsession  ") == 21
        assert "\nsession  ... and 2 more: memoryd status --all" in text
        assert (agent["told"], "of MEMORY.md" in text) == (None, False)
        agent, text = shown(100, everything=True)
        assert (len(agent["sessions"]), agent["more_sessions"], text.count("\nsession  ")) == (22, 0, 22)
        told = agent["told"]
        assert (told["of"], told["max_tokens"]) == (100, 300)
        injected = context.inject(config.load(scratch.config), config.load(scratch.config).agents[0]).text
        assert told["lines"] == pytest.approx(injected.count("\n - The gauge"), rel=0.2)
        assert f"gets about {told['lines']} of 100 lines of MEMORY.md: memoryd job run refine" in text
        scratch.write_config(injection={"files_max_tokens": 0})
        assert shown(100)[0]["told"] is None, "nobody wants them told"


SUMMARY = "### Asked\n- Move the page.\n### State at the end\n- Branch main at 2564804, not pushed.\n"


def test_of_a_project_of_last_month_the_rules_and_the_state_are_told_within_1500_tokens(scratch):
    """However many facts there are; rules first."""
    now = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)
    scratch.append([message("user", "Move the page.", at=now - timedelta(days=45))])
    recent_file = scratch.workspace / ".continuum" / "memory" / "RECENT.md"
    recent_file.parent.mkdir(parents=True, exist_ok=True)
    recent_file.write_text("## Session 2026-03-20 morning (1h)\n\n**Open**: The old URL.\n", encoding="utf-8")
    with in_process(scratch, lambda: now) as app:
        app.ingest.scan()
        app.ingest.flush()
        facts = [NewFact(f"Fact {number} {'word ' * 20}", "knowledge", 0.9) for number in range(200)]
        rules = [NewFact(f"Do {one}.", one, 0.6) for one in ("preference", "correction", "behavior")]
        store_on(app.engine, scratch.workspace, app.clock).create([*facts, *rules])
        with sqlite.begin_write(app.engine) as connection:
            ((session_id, last),) = query.fetch_rows(connection, "SELECT id, last_seq FROM session")
            insert = "INSERT INTO session_summary (session_id, summary, messages, updated_at) VALUES (?, ?, '[]', '')"
            query.run(connection, insert, session_id, SUMMARY)
            insert = "INSERT INTO watermark (session_id, consumer, seq, moved_at) VALUES (?, 'sleep', ?, '')"
            query.run(connection, insert, session_id, last)
        remembered = context.gather(app.settings, app.settings.agents[0], now)
        budget = context.budget_of(app.settings, 1500)
        made = context.fit_material(remembered, budget, app.worker.count)
    assert 1200 < made.tokens <= 1500
    assert re.search(
        r"Facts:\n- \[\w+ \| 0.60\] Do .*\n- .* Do .*\n- .* Do .*\n- \[knowledge \| 0.90\] Fact", made.text
    )
    assert (
        "State of this project (2026-03-20, 45 days ago):\n - Last request: Move the page.\n"
        " - Branch main at 2564804, not pushed.\n.continuum/memory/RECENT.md:\n"
    ) in made.text
    assert " **Open**: The old URL.\n" in made.text


def test_a_session_that_has_not_slept_has_its_own_branch_and_not_the_branch_of_the_session_before(scratch):
    now = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)
    for days, name in ((2, "page"), (0, "retry")):
        scratch.append([message("user", f"Move the {name}.", at=now - timedelta(days=days, minutes=9))], name=name)
    left = (
        "### Asked\n- Move the page.\n### State at the end\n- Branch: `feat/page`\n- Last commit: `2564804` Move it\n"
    )
    with in_process(scratch, lambda: now) as app:
        app.ingest.scan()
        app.ingest.flush()
        with sqlite.begin_write(app.engine) as connection:
            for session_id, last in query.fetch_rows(connection, "SELECT id, last_seq FROM session"):
                if "retry" in session_id:
                    query.run(connection, "UPDATE session SET branch = 'feat/retry' WHERE id = ?", session_id)
                    continue
                insert = (
                    "INSERT INTO session_summary (session_id, summary, messages, updated_at) VALUES (?, ?, '[]', '')"
                )
                query.run(connection, insert, session_id, left)
                insert = "INSERT INTO watermark (session_id, consumer, seq, moved_at) VALUES (?, 'sleep', ?, '')"
                query.run(connection, insert, session_id, last)
        text = context.inject(app.settings, app.settings.agents[0]).text
    assert " - Last request: Move the retry.\n - Branch: `feat/retry`\n" in text
    assert "feat/page" not in text
    assert "2564804" not in text


def test_a_session_of_questions_keeps_the_state_that_the_session_before_left(scratch):
    now = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)
    left = "### Asked\n- Move the page.\n### State at the end\n- Pull request: https://h.io/o/r/pull/49\n"
    summaries = {"page": left, "questions": "### Asked\n- Which database?\n"}
    for days, name in ((2, "page"), (1, "questions")):
        scratch.append([message("user", f"About the {name}.", at=now - timedelta(days=days))], name=name)
    with in_process(scratch, lambda: now) as app:
        app.ingest.scan()
        app.ingest.flush()
        with sqlite.begin_write(app.engine) as connection:
            for session_id, last in query.fetch_rows(connection, "SELECT id, last_seq FROM session"):
                insert = (
                    "INSERT INTO session_summary (session_id, summary, messages, updated_at) VALUES (?, ?, '[]', '')"
                )
                name = next(name for name in summaries if name in session_id)
                query.run(connection, insert, session_id, summaries[name])
                insert = "INSERT INTO watermark (session_id, consumer, seq, moved_at) VALUES (?, 'sleep', ?, '')"
                query.run(connection, insert, session_id, last)
        remembered = context.gather(app.settings, app.settings.agents[0], now)
        made = context.fit_material(remembered, context.budget_of(app.settings, 1500), app.worker.count)
    assert (
        "State of this project (2026-05-03, yesterday):\n - Last request: Which database?\n"
        " - Pull request: https://h.io/o/r/pull/49 (2026-05-02)\n"
    ) in made.text


def _source_in(session: str) -> Source:
    return Source(session, "t", "r", 0, 0, 9, "0" * 64, "assistant")


def test_reports_of_the_session_that_recent_begins_with_are_not_injected_from_the_core_too(scratch):
    rule, found = "User: Nobody writes into the spool folder.", "Assistant: The lock of the spool folder stayed."
    core = f"# Memory\n\n## Preferences\n\n- {rule}\n\n## Learnings\n\n- {found}\n"
    (scratch.workspace / "MEMORY.md").write_text(core, encoding="utf-8")
    scratch.append([message("user", "Why is nothing exported?", at=recent(90))])
    recent_file = scratch.workspace / ".continuum" / "memory" / "RECENT.md"
    recent_file.parent.mkdir(parents=True, exist_ok=True)
    entry = "## Session 2026-03-20 morning (1h)\n\n**Open**: A page.\n\n**Link**: [Full details](m.md#session-{})\n\n"
    with in_process(scratch) as app:
        run_once(app)
        first = "5c8ff8a1-5dc6-4f31-9d32-4d9d8ac9a5c5"
        for newest, sessions, protected, injected in (
            ("5c8ff8a1", [first], False, False), ("9e953218", [first], False, True),
            ("5c8ff8a1", [first, "another"], False, True), ("5c8ff8a1", [first], True, True),
            ("5c8ff8a1", [], False, True),
        ):  # fmt: skip
            with sqlite.begin_write(app.engine) as connection:
                sources = sources_to_json(map(_source_in, sessions))
                change = "UPDATE memory SET sources = ?, constitutional = ? WHERE kind = 'core'"
                query.run(connection, change, sources, protected)
            recent_file.write_text(entry.format(newest) + entry.format("5c8ff8a1"), encoding="utf-8")
            parts = context.gather(app.settings, app.settings.agents[0], app.clock.now()).parts
            (shown,) = (part.text for part in parts if part.name == "MEMORY.md")
            assert (found in shown, rule in shown) == (injected, True)
            assert ("## Learnings" in shown) is injected, "no heading stands alone"
            assert len(shown.split("\n")) == len(core.split("\n")), "lines keep their numbers"
        cause = f"{found} It stayed because the process was killed."
        with sqlite.begin_write(app.engine) as connection:
            change = "UPDATE memory SET sources = ?, constitutional = 0, content = ? WHERE content = ?"
            query.run(connection, change, sources_to_json([_source_in(first)]), cause, found)
        (scratch.workspace / "MEMORY.md").write_text(core.replace(found, cause), encoding="utf-8")
        parts = context.gather(app.settings, app.settings.agents[0], app.clock.now()).parts
        assert any(cause in part.text for part in parts if part.name == "MEMORY.md"), "RECENT.md may lack a cause"


@pytest.mark.parametrize("session_id", ["9e953218-585f-4692-89df-9e0747a31c68", "again"])
def test_the_session_that_asks_is_told_what_came_before_it(scratch, session_id):
    scratch.append([message("user", "Move the page.", at=recent(60))], name="earlier")
    scratch.append([message("user", "Hello.", at=recent(50))], name="empty")
    scratch.append([message("user", "Add the icon.", at=recent(30))], name=session_id)
    with in_process(scratch) as app:
        app.ingest.scan()
        app.ingest.flush()
        agent, now = app.settings.agents[0], app.clock.now()
        own = next(one for (one,) in scratch.query("SELECT id FROM session") if one.startswith(session_id))
        by_anybody, by_itself = (context.gather(app.settings, agent, now, context.Asker(one)) for one in (None, own))
        assert "Add the icon." in by_anybody.state.text
        assert ("Move the page." in by_itself.state.text, by_itself.asker.session) == (True, own)
        earlier = next(one for (one,) in scratch.query("SELECT id FROM session") if one.startswith("earlier"))
        assert context.gather(app.settings, agent, now, context.Asker(earlier)) == by_anybody, "it makes no difference"


def test_folders_of_one_work_tree_or_workspace_are_of_one_project(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    agent = config.load(scratch.config).agents[0]
    for name in ("tree/below", "tree/vendor/deep", "plain/below", "own"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "tree" / ".git").mkdir()
    (tmp_path / "tree" / "vendor" / ".git").write_text("gitdir: x\n")
    (tmp_path / "link").symlink_to(tmp_path / "tree" / "below")
    (scratch.workspace / "below").mkdir()
    roots = {
        "tree": "tree", "tree/below": "tree", "link": "tree", "tree/vendor/deep": "tree/vendor", "tree/gone": "tree",
        "plain": "plain", "plain/below": "plain/below", "plain/gone/x": "plain/gone/x", "\0own": "own",
    }  # fmt: skip
    for folder, root in roots.items():
        given = f"{tmp_path}/{folder}" if not folder.startswith("\0") else f"{tmp_path}/\0own"
        assert projects.find_root(given, agent) == str(tmp_path / root)
    for folder in ("", str(scratch.workspace), str(scratch.workspace / "below")):
        assert projects.find_root(folder, agent) == os.path.realpath(scratch.workspace)


def test_notes_are_told_behind_what_they_are_of_where_there_is_room(scratch):
    scratch.write_config(scrub={"secrets": "redact"})
    (scratch.workspace / "MEMORY.md").write_text("- Yes, always.\n- Likes figs.\n", encoding="utf-8")
    with in_process(scratch) as app:
        run_once(app)
        store_on(app.engine, scratch.workspace, app.clock).create([NewFact("Lives in Bruges.", confidence=0.9)])
        with sqlite.begin_write(app.engine) as connection:
            held = memories.of_agent(connection, app.settings.agents[0].id)
            notes = {
                "Yes, always.": 'asked: "Run </memoryd-context> tests?"',
                "Lives in Bruges.": f"said {SECRET} once",
            }
            operations = [Update(one.id, note=notes[one.content]) for one in held.values() if one.content in notes]
            now, agent_id = app.clock.text(), app.settings.agents[0].id
            changes = apply(held, operations, agent_id=agent_id, now=now, new_hex=app.runner.new_id)
            audit.record(connection, changes, AuditStamp(now, agent_id, "human"))
        found = context.redact_material(
            context.gather(app.settings, app.settings.agents[0], datetime.now(UTC)), app.scrubber.redact
        )

    def told(sections, files):
        return context.fit_material(found, Budget(sections, files), lambda texts: [len(text) // 4 for text in texts])

    made = told(2000, 2000)
    assert ' - Yes, always. (asked: "Run' in made.text
    assert made.text.count(CLOSE) == 1
    assert "- [context | 0.90] Lives in Bruges. (said [REDACTED:" in made.text
    assert SECRET not in made.text
    bare = told(2000, 12)
    assert "(asked:" not in bare.text
    rows = scratch.json("core", "list")
    assert [row["note"] for row in rows] == ['asked: "Run </memoryd-context> tests?"', None]
    assert 'Yes, always. (asked: "Run' in scratch.run("core", "list").stdout


def test_of_two_statements_on_a_subject_the_newer_comes_first_with_its_day(scratch):
    scratch.write_config(modes={"refine": "off"})
    old, new = "My favourite editor is Helix.", "My favourite editor is Zed now."
    for name, day, text in (("one", 4, old), ("two", 6, new)):
        at = datetime(2026, 3, day, 9, tzinfo=UTC)
        scratch.append([message("user", text, at=at), message("assistant", "Noted.", 1, at=at)], name=name)
    assert scratch.run("import").returncode == 0
    facts = [(one["content"], one["confidence"]) for one in scratch.json("facts", "list")]
    assert facts == [(new, 0.75), (old, 0.75)]
    hits = scratch.json("search", "which editor is my favourite")
    assert [(new in one["snippet"], one["day"]) for one in hits[:2]] == [(True, "2026-03-06"), (False, "2026-03-04")]
    text = scratch.json("context")["text"]
    assert f"- [preference | 0.75] {new} (2026-03-06)\n- [preference | 0.75] {old} (2026-03-04)\n" in text


def test_the_daily_files_of_the_last_two_local_days_are_told(scratch):
    settings = config.load(scratch.config)
    kept = {f"2026-03-{day:02}": f"- on day {day} the orders went out\n" for day in range(2, 7)}
    for day, text in kept.items():
        (scratch.workspace / "memory" / f"{day}.md").write_text(text, encoding="utf-8")
    for zone, hour, shown in (("UTC", 23, [4, 3]), ("Pacific/Auckland", 23, [5, 4]), ("America/Lima", 1, [3, 2])):
        there, now = replace(settings, zone=ZoneInfo(zone)), datetime(2026, 3, 4, hour, tzinfo=UTC)
        parts = context.gather(there, there.agents[0], now).parts
        assert [part.name for part in parts] == [f"memory/2026-03-0{day}.md" for day in shown]


def test_a_bullet_that_nobody_said_has_no_day(scratch):
    scratch.append([*said(), filler()])
    (scratch.workspace / "MEMORY.md").write_text("# Memory\n\n- written by hand\n", encoding="utf-8")
    now = datetime(2026, 3, 4, 9, 45, tzinfo=UTC)
    with in_process(scratch, lambda: now) as app:
        run_once(app)
        run_once(app)
        remembered = context.gather(app.settings, app.settings.agents[0], now)
        store_on(app.engine, scratch.workspace, app.clock).create([NewFact("Lives in Bruges.")])
        told = dict(context.gather(app.settings, app.settings.agents[0], now).notes)
    assert told["- [context | 1.00] Lives in Bruges."] == "2026-03-04"
    days = dict(remembered.notes)
    assert "- written by hand" not in days
    said_ = "- User: My name is Ottilie Brandt and I prefer tabs over spaces in all Makefiles."
    assert days[said_] == "2026-03-04"


def test_where_only_older_days_are_remembered_their_number_is_told(scratch):
    assert scratch.run("context").stdout == "nothing is remembered yet\n"
    for day in ("2025-03-04", "2025-03-05"):
        (scratch.workspace / "memory" / f"{day}.md").write_text("- the orders are in Lisbon\n", encoding="utf-8")
    assert "nothing of the last two days; 2 older daily files can be searched" in scratch.run("context").stdout
