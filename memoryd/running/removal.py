"""Run the jobs that erase text permanently: `forget`, and `scrub --again` for secrets that are found late."""

from functools import partial
from pathlib import Path
from typing import Any

from memoryd.changing import commit as committing
from memoryd.changing import forgetting, rescrub, restore
from memoryd.database import alarms, runs, sqlite, texts
from memoryd.database.runs import Run
from memoryd.running import called_refining, proposing, rollover
from memoryd.running.runner import Runner


def forget(runner: Runner, run: Run) -> None:
    """Erase the text that a person wants forgotten from files, rows, copies and the search index."""
    workspace = runner.workspace_of(run)
    receipt = sqlite.read(runner.engine, runs.read_receipt, run.id)
    if forgetting.KIND not in receipt:  # otherwise an earlier attempt has already committed
        receipt = _take_out(runner, run, workspace)
    runner.erase_index(run.agent_id)
    restore.tell_forgotten(runner.engine, runner.journal)
    runner.step("before:vacuum")
    texts.rewrite_file(runner.engine)
    runner.renew_copies()
    runner.step("after:vacuum")
    runner.end(run, "succeeded", receipt=receipt)
    runner.clear_alarms_of(run)
    sqlite.write(runner.engine, alarms.clear_of_sessions, receipt[forgetting.KIND]["sessions"], runner.clock.text())
    if receipt[forgetting.KIND]["sessions"]:
        rollover.request(runner.engine, runner.settings, runner.clock, run.agent_id)


def _take_out(runner: Runner, run: Run, workspace: Path) -> dict[str, Any]:
    writer = runner.writer(workspace)
    proposing.take_back(writer, run.agent_id, proposing.FORGOTTEN)
    called_refining.give_up(runner.engine, run.agent_id, runner.clock.text(), proposing.FORGOTTEN)
    target = forgetting.target_of(run.options)
    forgetter = forgetting.Forgetter(run.agent_id, target, runner.settings.zone, writer.now, writer.new_id)
    planned = forgetter.plan(runner.engine, workspace)
    copies = forgetting.Copies(
        engine=runner.engine,
        state_dir=runner.settings.state_dir,
        workspaces={run.agent_id: workspace},
        everybody=False,
        journal=runner.journal,
        go_on=partial(runner.go_on, run),
        stuck=partial(runner.list_stuck, [run.agent_id]),
        log=runner.log,
        plan=planned,
    )
    copies.scan_all()
    forgetter.prepare(workspace, planned.cut)
    swept = {name: copies.counts[name] for name in ("rows", "files")}
    told = planned.told | {"copies": swept, "left": copies.left}
    outcome = committing.RunOutcome(committing.RUNNING, receipt={forgetting.KIND: told})
    done = committing.commit(writer, run, planned.edits(), outcome, revise=forgetter.revise)
    runner.record_watermarks(run)
    runner.log.info("forgotten", run=run.id, agent=run.agent_id, files=list(done.files), counts=told["counts"])
    return sqlite.read(runner.engine, runs.read_receipt, run.id)


def scrub_again(runner: Runner, run: Run) -> None:
    """Redact what the present rules find in the stored texts of some agents, or of all; then continue blocked runs."""
    wanted = run.options.get("agents")
    agents = runner.settings.agents
    work = rescrub.Rescrub(
        engine=runner.engine,
        state_dir=runner.settings.state_dir,
        scrubber=runner.scrubber,
        workspaces={agent.id: agent.workspace for agent in agents if wanted is None or agent.id in wanted},
        everybody=wanted is None,
        journal=runner.journal,
        go_on=partial(runner.go_on, run),
        stuck=partial(runner.list_stuck, wanted),
        renamed=runner.renamed,
        log=runner.log,
    )
    try:
        counts = work.run(is_restored=run.trigger == "restore")
    finally:
        runner.erase_index(None)
    runner.renew_copies()
    # Runs that were blocked by a secret can continue.
    runs.unblock(runner.engine, runner.clock.text(), due_only=False)
    runner.end(run, "succeeded", receipt=counts)
