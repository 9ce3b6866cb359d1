"""Define the command line. Each command imports its modules when it runs, so that `--help` and reads stay fast."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memoryd.counted import count_noun
from memoryd.database import reads
from memoryd.errors import ConfigError, MemorydError, NotFoundError, describe, explain_trouble
from memoryd.interfaces import (
    agents,
    consolidation,
    evidence,
    facts,
    fleet,
    git,
    ledger,
    operation,
    page,
    recall,
    sessions,
)
from memoryd.interfaces.call import Call, agent_option, of_agent, of_settings, parse_span, passed, start_log
from memoryd.interfaces.mcp import command as mcp
from memoryd.interfaces.output import Output, one_line, render_run, render_table
from memoryd.requests import access
from memoryd.requests.status_text import left_line
from memoryd.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memoryd.config import Agent, Settings
    from memoryd.requests.jobs_by_hand import JobRequest

GLOBAL_FLAGS = {"--json", "--quiet", "-q"}
INTERRUPTED = 130
UNWRITTEN = 1  # exit code: the output could not be written
USAGE = 2
# Other words for commands that people try. The error for an unknown command suggests the right one.
_MEANT = {kind: f"job run {kind}" for kind in ("sleep", "rollover", "dedup", "dream", "refine", "canary")} | {
    "undo": "rollback", "revert": "rollback", "remember": "save", "note": "save", "add": "save", "recall": "search",
    "find": "search", "list": "core list", "sessions": "session list", "jobs": "job list", "start": "run",
    "delete": "forget", "remove": "forget", "check": "doctor",
}  # fmt: skip


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="memoryd %(version)s")
@click.option(
    "--config", "config_path", type=click.Path(path_type=Path), metavar="FILE", help="The configuration file."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@click.option("--quiet", "-q", is_flag=True, help="Print only the result.")
@click.pass_context
def cli(context: click.Context, *, config_path: Path | None, as_json: bool, quiet: bool) -> None:
    """Give file-based AI agents a long-term memory they can trust.

    Begin with `memoryd init`. `memoryd status` shows whether all is well.
    """
    context.obj = Call(Output(as_json, quiet), config_path)


# --- the daemon -------------------------------------------------------------------------------------------------------


@cli.command()
@click.option("--once", is_flag=True, help="Read everything, run everything that is due, and end.")
@click.option(
    "--wait", callback=parse_span, metavar="TIME", help="Wait this long, such as 30s, for another daemon to end."
)
@passed
def run(call: Call, *, once: bool, wait: timedelta | None) -> None:
    """Run the daemon in the foreground."""
    from memoryd.interfaces import serving

    settings, patience = call.settings(), wait or timedelta()
    ended = True
    with (
        call.output.busy("reading and running what is due") if once else contextlib.nullcontext(),
        start_log(settings, quiet=call.output.quiet) as relog,
    ):
        if once:
            done = serving.serve_once(settings, patience)
            text = f"read {count_noun(done['turns'], 'new turn')}, carried out {count_noun(len(done['runs']), 'run')}"
            lines = [f"added the agent {one} for a new project" for one in done["new_agents"]]
            lines += [
                f"{one['kind']} of {one['agent_id']} failed: {one['error']} (memoryd job show {one['id']})"
                for one in done["failed"]
            ]
            lines += [f"ALARM {one['agent'] or one['kind']}: {one['text']} (memoryd status)" for one in done["alarms"]]
            for warning in settings.warnings:
                call.output.print_note(warning)
            call.output.result(done, "\n".join([text, *left_line(done["left_as_history"]), *lines]))
        else:
            ended = serving.serve_forever(settings, relog, patience)
    if not ended:
        os._exit(0)  # all data is stored; a thread that hangs in a system call must not delay the exit


@cli.command()
@click.option("--keep", type=click.Path(path_type=Path), metavar="DIR", help="The folder for the scratch workspace.")
@passed
def demo(call: Call, keep: Path | None) -> None:
    """Replay a sample session and show the resulting memory."""
    from memoryd.interfaces import demo as show

    show.run(call.output, keep)


def _add_pause_command(verb: str, does: str) -> None:
    @cli.command(verb, help=does)
    @of_agent
    def command(call: Call, settings: Settings, agent: Agent) -> None:
        from memoryd.requests import jobs_by_hand

        paused = verb == "pause"
        jobs_by_hand.set_paused(settings, agent.id, paused=paused)
        call.output.result({"agent": agent.id, "paused": paused}, f"{agent.id} {verb}d")


_add_pause_command("pause", "Stop the automatic jobs of an agent. Reading continues.")
_add_pause_command("resume", "Resume the automatic jobs of a paused agent.")


# --- jobs -------------------------------------------------------------------------------------------------------------


@cli.group()
def job() -> None:
    """Run jobs and show the job table."""


@job.command("run")
@click.argument("kind")
@agent_option
@click.option("--session", "session_id", metavar="ID", help="Process this session only (sleep, facts).")
@click.option(
    "--force",
    is_flag=True,
    help="Also process ended sessions (sleep); run even if nothing is new (dream), MEMORY.md is small (refine) or the"
    " same input was rejected (dream, refine, dedup).",
)
@click.option(
    "--lookback-days", type=click.IntRange(1, 3650), metavar="N", help="Read the last N days, today included (dream)."
)
@click.option("--mode", type=click.Choice(["normal", "dedup", "strict"]), help="Limit the changes (refine).")
@click.option("--dry-run", is_flag=True, help="Show what the job would ask or write, based on the turns read so far.")
@passed
def job_run(call: Call, /, *, kind: str, agent_id: str | None, dry_run: bool, **how: Any) -> None:
    """Run a job now and wait for it. It runs for the agent of the session or of the current folder, or for all agents.

    Kinds: sleep, facts, rollover, dedup, dream, refine, canary, eval.
    """
    from memoryd.requests import jobs_by_hand, waiting

    settings, asked = call.settings(), jobs_by_hand.JobRequest(**how)
    if agent_id is None and asked.session_id and len(settings.agents) > 1:
        with contextlib.suppress(NotFoundError, reads.NotMadeError):  # a session that has not been read yet
            agent_id = reads.ask(reads.database_path(settings), reads.find_session, asked.session_id)["agent_id"]
    if dry_run:
        _run_dry(call, settings, kind, agent_id, asked)
        return
    agents = [call.agent(settings, agent_id)] if asked.session_id else call.agents(settings, agent_id)
    with call.output.busy(f"running {kind}"), start_log(settings):
        rows = [row for agent in agents for row in jobs_by_hand.run_job(settings, kind, agent.id, asked)]
    told = rows[0] | ({"also": rows[1:]} if rows[1:] else {})
    call.output.result(told, "\n".join(map(render_run, rows)), next(filter(None, map(waiting.failure_of, rows)), None))


@cli.command()
@click.option("--again", is_flag=True, help="Scan everything that is already stored.")
@agent_option
@passed
def scrub(call: Call, *, again: bool, agent_id: str | None) -> None:
    """Redact text that was stored before a rule existed. Redacts rows, memory files, their backups and the log."""
    from memoryd.requests import memory_changes, waiting

    if not again:
        raise click.UsageError("new texts are redacted as they come; --again looks through the old ones")
    settings = call.settings()
    agent = call.agent(settings, agent_id).id if agent_id else None
    with call.output.busy("scanning"), start_log(settings):
        row = waiting.require_done(memory_changes.scrub_again(settings, agent))
    done = row["receipt"]
    texts, rows, files = (count_noun(done[f"{noun}s"], noun) for noun in ("text", "row", "file"))
    text = f"redacted {texts} in {rows}, and {files}"
    if done["unscanned"]:
        text += f"\nnot scanned, and left as it was: {count_noun(done['unscanned'], 'text')}; run it again"
    text += "".join(f"\nlook at it yourself, or delete it: {path}" for path in done["left"])
    call.output.result({"run": row["id"], **done}, text)


def _run_dry(call: Call, settings: Settings, kind: str, agent_id: str | None, asked: JobRequest) -> None:

    from memoryd.requests import jobs_by_hand

    agent = call.agent(settings, agent_id)
    with call.output.busy(f"trying {kind}"):
        rows = jobs_by_hand.run_dry(settings, kind, agent, asked)
    lines = []
    for row in rows:
        row["would"] = access.show_rows(settings, agent, "job run --dry-run", row["would"], "content")
        asks = row["asks"]
        told = f"about {asks['tokens']} tokens would go to {asks['model']}" if asks else row["why"] or row["state"]
        lines.append(f"{' '.join(filter(None, (row['kind'], row['session_id'])))}: {told}")
        lines += [
            f"  {one['what']} {one['where']}: {one_line(access.text_of(one['content'], one))}" for one in row["would"]
        ]
    call.output.result({"dry_run": True, "runs": rows}, "\n".join(lines) or "nothing would be done")


@job.command("list")
@agent_option
@click.option("--kind", metavar="KIND", help="List one job only.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="Maximum number of runs.")
@passed
def job_list(call: Call, agent_id: str | None, kind: str | None, limit: int) -> None:
    """List runs, the newest first."""
    state_dir, broken = call.state_dir(agent_id)
    rows = reads.ask(state_dir / reads.DATABASE, reads.job_runs, agent_id=agent_id, kind=kind, limit=limit + 1)
    columns = ("id", "kind", "agent_id", "trigger", "state", "attempt", "finished_at", "why")
    more = f"\nonly the newest {limit} are shown: --limit N shows more" if len(rows) > limit else ""
    call.output.result(rows[:limit], f"{render_table(rows[:limit], columns)}{more}" if rows else "no runs yet", broken)


@job.command("show")
@click.argument("run_id", metavar="RUN")
@click.option("--content", is_flag=True, help="Also show the texts of memories and claims, if you may see them.")
@of_settings
def job_show(call: Call, settings: Settings, *, run_id: str, content: bool) -> None:
    """Show a run with its report. For a refinement, also show each call with its ids and its verdict.

    With --content, also show the verdict on each claim of the model's reply.
    """
    from memoryd.interfaces import timeline

    texts: list[dict[str, Any]] = []
    with call.reader(settings) as reader:
        row = reads.job_run(reader, run_id)
        if content:
            texts = timeline.read_contents(settings, call.agent(settings, row["agent_id"]), reader, row["id"])
        claims = timeline.read_claims(settings, reader, row, wanted=content or call.output.json)
    lines = [timeline.describe_run(row, settings.zone), ""]
    lines += [f"{name:14} {value}" for name, value in row.items() if name != "receipt" and value not in (None, "", {})]
    receipt = dict(row["receipt"])
    if timeline.REFINE in receipt:
        lines += timeline.render_lines(receipt.pop(timeline.REFINE), texts)
    lines += timeline.claim_lines(claims)
    lines += ["receipt", json.dumps(receipt, indent=2, ensure_ascii=False)]
    call.output.result(row | {"claims": claims} | ({"content": texts} if content else {}), "\n".join(lines))


@job.command("cancel")
@click.argument("run_id", metavar="RUN")
@passed
def job_cancel(call: Call, run_id: str) -> None:
    """Cancel a waiting run, or ask a running run to stop."""
    from memoryd.requests import jobs_by_hand

    row = jobs_by_hand.cancel(call.settings(), run_id)
    call.output.result(row, render_run(row))


def _add_answer_command(verb: str, does: str) -> None:
    @job.command(verb, help=does)
    @click.argument("run_id", metavar="RUN")
    @of_settings
    def command(call: Call, settings: Settings, run_id: str) -> None:
        from memoryd.requests import jobs_by_hand, waiting

        with call.output.busy(f"carrying out the {verb}"), start_log(settings):
            row = jobs_by_hand.answer(settings, run_id, verb)
        waiting.require_done(row)
        refused = row["receipt"].get("refused", ())
        lines = [render_run(row), *(f"refused: {one['guard']}: {one['why']}" for one in refused)]
        call.output.result(row, "\n".join(lines))


_add_answer_command("accept", "Write a proposal into the current files, if the guards allow it.")
_add_answer_command("reject", "Drop a proposal. memoryd does not propose it again without --force.")


@job.command("trust")
@click.argument("kind")
@of_agent
def job_trust(call: Call, settings: Settings, agent: Agent, kind: str) -> None:
    """Let a held job continue as configured. `status` shows which jobs are held."""
    from memoryd.requests import jobs_by_hand

    was_held = jobs_by_hand.trust(settings, agent, kind)
    text = f"{kind} goes on as configured" if was_held else f"{kind} was not held back"
    call.output.result({"agent": agent.id, "kind": kind, "was_held": was_held}, text)


@cli.command("eval")
@of_agent
@click.option("--days", default=7, show_default=True, type=click.IntRange(1, 3650), help="Look back this many days.")
def evaluate(call: Call, settings: Settings, agent: Agent, days: int) -> None:
    """Measure how well memory answers your own later questions. Also measures noise, and whether dreams help."""
    from memoryd.requests import jobs_by_hand
    from memoryd.running import evaluating

    with call.output.busy("measuring"):
        found = jobs_by_hand.evaluate(settings, agent, days)
    call.output.result({"agent": agent.id, "days": days, **found}, evaluating.as_text(found, days))


# --- the log and the configuration ------------------------------------------------------------------------------------


@cli.command()
@click.option("--follow", "-f", is_flag=True, help="Continue while the log grows.")
@click.option("--lines", "-n", "last", type=click.IntRange(0, 10**9), metavar="N", help="Show only the last N records.")
@click.option(
    "--level", default="debug", type=click.Choice(["debug", "info", "warning", "error"]), help="The minimum level."
)
@agent_option
@click.option("--run", "run_id", metavar="RUN", help="Show one run only.")
@passed
def logs(call: Call, *, follow: bool, last: int | None, level: str, agent_id: str | None, run_id: str | None) -> None:
    """Show the log."""
    import time
    from collections import deque

    from memoryd.files.log import log_path, render_record
    from memoryd.files.log_reader import LogFilter, read
    from memoryd.files.log_reader import follow as follows

    def wait() -> bool:
        time.sleep(0.2)
        return True

    state_dir, broken = call.state_dir(agent_id)
    if broken and follow:
        raise broken
    path = log_path(state_dir)
    wanted = LogFilter(level=level, agent=agent_id, run=run_id)
    records = follows(path, wanted, wait, last) if follow else read(path, wanted)
    if run_id is not None and not follow:
        found = list(records)
        if not (found or broken):
            raise NotFoundError(f"the log has nothing of a run {run_id!r}", hint="memoryd job list shows them")
        records = iter(found)
    if last is not None and not follow:
        records = iter(deque(records, last))
    if call.output.json and not follow:
        call.output.result(list(records), "", broken)
    else:
        for record in records:
            print(json.dumps(record, ensure_ascii=False) if call.output.json else render_record(record), flush=True)
    if broken:
        raise broken


@cli.group()
def config() -> None:
    """Check or show the configuration."""


@config.command("check")
@of_settings
def config_check(call: Call, settings: Settings) -> None:
    """Check the configuration file and report every mistake."""
    from memoryd.files import trust
    from memoryd.requests import daemon_client

    trust.require(settings)
    agents = [agent.id for agent in settings.agents]
    where = {"source": str(settings.source), "state_dir": str(settings.state_dir), "warnings": settings.warnings}
    for warning in settings.warnings:
        call.output.print_note(warning)
    pid = daemon_client.ask_data(settings.state_dir, "ping").get("pid")
    if pid and not daemon_client.ask_same(settings, "status"):
        call.output.print_note(f"the daemon has not read it yet: systemctl --user reload memoryd, or kill -HUP {pid}")
    told = f"agents: {', '.join(agents) or 'none'}; state in {settings.state_dir}; times in {settings.zone.key}"
    call.output.result({**where, "agents": agents, "timezone": settings.zone.key}, f"{settings.source}: ok; {told}")


@config.command("show")
@of_settings
def config_show(call: Call, settings: Settings) -> None:
    """Show the settings in effect, each with its source line."""
    from memoryd.interfaces.cli_config import show_data, show_text

    call.output.result(show_data(settings), show_text(settings).rstrip("\n"))


@config.command("default")
@passed
def config_default(call: Call) -> None:
    """Print a configuration file with every key and its meaning."""
    from memoryd.interfaces.call import user_folder
    from memoryd.interfaces.cli_config import render_default

    text = render_default(user_folder("state"))
    call.output.result({"text": text}, text.rstrip("\n"))


for _command in (
    sessions.import_command,
    sessions.session,
    *(operation.status, operation.service, operation.doctor, operation.backup, operation.restore),
    *(agents.init, agents.context, agents.connect, agents.hook),
    *(facts.facts, agents.grant, page.admin, evidence.blame),
    *(ledger.core, ledger.audit, ledger.verify, ledger.rollback, ledger.forget),
    *(recall.search_command, recall.get_command, recall.save_command, recall.update_command, recall.feedback_command),
    *(consolidation.consolidate, consolidation.recover, git.git, git.resolve),
    *(consolidation.validate, consolidation.repair, consolidation.archive),
    *(fleet.fleet, mcp.mcp),
):
    cli.add_command(_command)


# --- the entry point --------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None, group: click.Group = cli, name: str = "memoryd") -> None:
    """Run a command line and end the process with an exit code that `docs/commands.md` lists."""
    code = _main(_globals_first(list(sys.argv[1:] if arguments is None else arguments)), group, name)
    try:
        sys.stdout.flush()
    except OSError:  # the error is already reported; Python would report the unwritten rest again at exit
        _discard_output()
        code = code or UNWRITTEN
    sys.exit(code)


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_unexpected(error: Exception, given: list[str]) -> MemorydError:
    if isinstance(error, UnicodeEncodeError) and any(error.object in word for word in given):
        return ConfigError("a word of the command line is not UTF-8", hint="memoryd --help")
    hint = "run memoryd verify; if it finds no fault of the database, this is a defect of memoryd"
    return explain_trouble(error) or MemorydError(describe(error), hint=hint)


def _globals_first(given: list[str]) -> list[str]:
    """Return the arguments with `--json`, `--quiet` and `--config` first. People also write them after the command."""
    end = given.index("--") if "--" in given else len(given)
    front: list[str] = []
    rest: list[str] = []
    words = iter(given[:end])
    for word in words:
        if word in GLOBAL_FLAGS or word.startswith("--config="):
            front.append(word)
        elif word == "--config":
            front += [word, *([following] if (following := next(words, None)) is not None else [])]
        else:
            rest.append(word)
    return front + rest + given[end:]


def _explain_usage(error: click.UsageError, name: str) -> ConfigError:
    command = error.ctx.command_path if error.ctx else name
    told, hint = error.format_message(), f"{command} --help"
    for word, meant in _MEANT.items() if command == "memoryd" else ():
        if error.message == f"No such command '{word}'.":
            told, hint = error.message, f"{name} {meant}"
    taken = [name for one in (error.ctx.command.params if error.ctx else ()) for name in one.opts]
    if "extra argument" in told and "--agent" in taken and all(name.startswith("-") for name in taken):
        hint = f"an agent is named with --agent ID; {hint}"
    return ConfigError(told, hint=hint)


def _main(given: list[str], group: click.Group, name: str) -> int:
    output = Output(json="--json" in given)
    try:
        code = group.main(given or ["--help"], prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except SystemExit:
        # Click exits this way after a broken pipe. The reader of the pipe stopped early, which is no failure.
        if type(sys.stdout).__name__.endswith("PacifyFlushWrapper"):
            return 0
        raise
    except MemorydError as error:
        output.fail(error)
        return error.exit_code
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.UsageError as error:
        output.fail(_explain_usage(error, name))
        return USAGE
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe stopped early. Without this, Python would report the broken pipe again at exit.
        _discard_output()
        return 0
    except Exception as error:  # noqa: BLE001 - programs get an object and people a line, never a trace with content
        told = _report_unexpected(error, given)
        output.fail(told)
        return told.exit_code
    return code if isinstance(code, int) else 0
