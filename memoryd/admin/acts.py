"""List the acts, each with a name, the function that carries it out, and the rights that the person needs.

An act is a change or export that a person starts with a form. It is audited with the person's name before it is carried
out, with a note if they could not see the content. No act lets a person consent to access, because only the agent
consents.
"""

import difflib
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from memoryd.admin import settings_edit
from memoryd.admin.pages import KINDS, Look
from memoryd.config import Agent
from memoryd.errors import ConfigError, NotFoundError, RefusedError
from memoryd.ledger.facts import NewFact, ProfileSection
from memoryd.requests import access, fleet, history, jobs_by_hand, lists, memory_changes
from memoryd.requests.history import ImportRequest
from memoryd.requests.jobs_by_hand import JobRequest
from memoryd.requests.views import PersonView
from memoryd.requests.waiting import require_done


class Order(NamedTuple):
    """Hold a person's request for an act: the form, its agent, and a place for a result that the next page shows."""

    view: PersonView
    agent: Agent
    form: Mapping[str, str]
    shown: dict[str, Any]

    def text(self, name: str) -> str:
        """Return a field of the form, or an empty string if it is missing."""
        return self.form.get(name, "")

    def number(self, name: str) -> int | None:
        """Return a field of the form as a number, or None if it is missing or no number."""
        text = self.text(name)
        return int(text) if text.isascii() and text.isdecimal() else None


class Act(NamedTuple):
    """Declare one act.

    A person who may not see what the act needs is refused. Other acts can be done without a view of the content, and
    the audit notes this.
    """

    do: Callable[[Order], str]  # returns the message for the person
    # The parts of memory that the person must be allowed to see; None if it needs no view of them.
    sees: tuple[str, ...] | None = None
    is_long: bool = False  # the act continues while the page answers
    is_plain: bool = False  # its errors never contain content of a memory
    names: str = "id"  # the form's field that the audit holds


def _pause(order: Order) -> str:
    """Pause or resume the runs of an agent."""
    paused = order.text("verb") == "pause"
    jobs_by_hand.set_paused(order.view.settings, order.agent.id, paused=paused)
    return f"{order.agent.id} is {'paused' if paused else 'at work again'}"


def _run_job(order: Order) -> str:
    """Start a run by hand, or carry out a dry run and keep its result for the page."""
    kind, mode = order.text("kind"), order.text("mode") or None
    if kind not in KINDS:
        raise NotFoundError("there is no such job", hint=", ".join(KINDS))
    asked = JobRequest(force=order.text("force") == "1", mode=mode)
    if order.text("dry") == "1":
        order.view.require(order.agent, f"dry run of {kind}", "core")
        rows = jobs_by_hand.run_dry(order.view.settings, kind, order.agent, asked)
        order.shown["dry"] = [(one["what"], one["where"], one["content"]) for row in rows for one in row["would"]]
        return f"a dry run of {kind}: nothing was written"
    rows = jobs_by_hand.run_job(order.view.settings, kind, order.agent.id, asked)
    return "; ".join(f"{row['id']} {row['state']}" for row in rows)


def _import(order: Order) -> str:
    """Read the old transcripts of an agent, either all or those of the last days."""
    days = order.number("days")
    since = None if days is None else timedelta(days=min(3650, days))
    rows = history.run_import(order.view.settings, [order.agent.id], ImportRequest(since=since), lambda: None)
    return "; ".join(f"{row['id']} {row['state']}" for row in rows)


def _change(order: Order) -> str:
    """Change one core memory.

    Only `protect` and `unprotect` need no right to see it. Every other change shows or names its text.
    """
    verb, text = order.text("verb"), None
    if verb not in {"protect", "unprotect", "restore", "edit", "delete"}:
        raise NotFoundError("there is no such change")
    if verb not in {"protect", "unprotect"}:
        order.view.require(order.agent, f"{verb} {order.text('id')}", "core")
        text = order.text("text") if verb == "edit" else None
    changed, run_id = memory_changes.change_core(order.view.settings, order.agent, verb, order.text("id"), text)
    return f"{changed}: {verb} done by {run_id}"


def _rate(order: Order) -> str:
    """Rate a memory as good or bad. The rating changes its rank in a search."""
    if order.text("verdict") not in {"good", "bad"}:
        raise NotFoundError("there is no such verdict", hint="good, bad")
    full = memory_changes.record_feedback(order.view.settings, order.agent, order.text("id"), order.text("verdict"))
    return f"{full} is rated {order.text('verdict')}"


def _append(order: Order) -> str:
    """Add a line of a daily file to the core, as a person would. memoryd itself was not sure of that line."""
    done = memory_changes.update(order.view.settings, order.agent, append=order.text("text"))
    return f"added by {done['run']}"


def _cancel(order: Order) -> str:
    """Cancel a run that waits or runs."""
    row = jobs_by_hand.cancel(order.view.settings, order.text("id"))
    return f"{row['id']} is {row['state']}"


def _answer(order: Order) -> str:
    """Accept or reject the proposal of a run."""
    verb = "accept" if order.text("verb") == "accept" else "reject"
    row = require_done(jobs_by_hand.answer(order.view.settings, order.text("id"), verb))
    return f"{row['id']}: {verb}ed"


def _roll_back(order: Order) -> str:
    """Revert a run, one of its changes, or all changes since an audit entry.

    With `preview` in the form, only show what would change.
    """
    entry, settings = order.number("to"), order.view.settings
    if entry is None and not order.text("id"):
        raise RefusedError("name a run, or an entry of the audit")
    run_id = order.text("id") if entry is None else None
    options = memory_changes.find_rollback(settings, order.agent, run_id, entry, order.text("memory") or None)
    if order.text("preview") == "1":
        order.shown["plan"] = memory_changes.preview_rollback(settings, order.agent, options)[1]
        order.shown["order"] = {name: order.text(name) for name in ("agent", "id", "to", "memory")}
        return "a preview: nothing was changed"
    row = memory_changes.rollback(settings, order.agent, options)
    return f"rolled back by {row['id']}" if not row["why"] else f"{row['id']}: {row['why']}"


def _change_fact(order: Order) -> str:
    """Add, edit, delete or import facts."""
    verb, settings = order.text("verb"), order.view.settings
    with memory_changes.fact_store(settings, order.agent, f"facts {verb}") as store:
        if verb == "delete":
            store.delete(order.text("id"))
        elif verb == "edit":
            store.update(order.text("id"), order.text("content"), order.text("category"), _confidence(order))
        elif verb == "import":
            return f"{sum(one.created for one in store.bring(order.text('text')).outcomes)} facts came in"
        else:
            batch = [NewFact(order.text("content"), order.text("category"), _confidence(order))]
            made = store.create(batch).outcomes[0]
            return "the fact is there" if made.fact is None else f"{made.fact.id} is stored"
    return f"the fact: {verb} done"


def _confidence(order: Order) -> float:
    """Return the confidence in the form, or 1 if the field is empty."""
    try:
        return float(order.text("confidence") or "1")
    except ValueError:
        raise ConfigError("the confidence is not a number", hint="0 to 1") from None


def _write_profile(order: Order) -> str:
    """Replace the text of one section of the profile."""
    section = next((one for one in ProfileSection if one.value == order.text("id")), None)
    if section is None:
        raise NotFoundError("there is no such section")
    with memory_changes.fact_store(order.view.settings, order.agent, "profile edit") as store:
        store.write_section(section, order.text("text"))
    return f"the section {section.value} is written"


def _request_access(order: Order) -> str:
    """Ask the agent for access. The store refuses a request without a purpose, or for too long a time."""
    span = timedelta(minutes=order.number("minutes") or 0)
    scope = [*order.text("scope").split(), *order.text("runs").split()]
    with access.silo_of(order.view.settings, order.agent) as silo:
        asked = silo.ask(order.text("purpose"), span, scope)
    return f"{asked.id} is requested: the agent gets the request at its next prompt or session"


def _revoke(order: Order) -> str:
    """End an access at once, and report its reads to the agent."""
    with access.silo_of(order.view.settings, order.agent) as silo:
        revoked = silo.revoke(order.text("id"))
        access.report_reads(silo)
    return f"{revoked.id} is revoked"


def _change_setting(order: Order) -> str:
    """Show the effect of a change of the configuration, or write it, with the comments of the file kept."""
    settings = order.view.settings
    path, old, new = settings_edit.plan(settings, order.text("key"), order.text("value"))
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), str(path), str(path), n=2, lineterm="")
    order.shown["diff"] = "\n".join(lines)
    order.shown["key"], order.shown["value"] = order.text("key"), order.text("value")
    if order.text("apply") != "1":
        return "a preview: nothing was written"
    settings_edit.apply(settings, old, new)
    order.shown.clear()
    return f"{order.text('key')} is changed in {path}"


def _ask_host(order: Order) -> str:
    """Ask another host of the fleet to do something. That host decides by its own rules."""
    verb, about = order.text("verb"), order.text("about")
    name = "run" if verb in {"cancel", "rollback"} else "agent"
    kind = {"kind": order.text("kind")} if verb == "run" else {}
    fleet.ask_host(order.view.settings, order.text("host"), verb, **{name: about}, **kind)
    return f"{order.text('host')} is asked to {verb} {about}; the list below shows its answer"


ACTS = {
    "pause": Act(_pause, names="verb", is_plain=True),
    "job": Act(_run_job, is_long=True, names="kind"),
    "import": Act(_import, is_long=True, names="agent"),
    "memory": Act(_change),
    "feedback": Act(_rate, sees=("core",)),
    "append": Act(_append, sees=("core",), names="agent"),
    "cancel": Act(_cancel, is_plain=True),
    "answer": Act(_answer, sees=("runs",)),
    "rollback": Act(_roll_back),
    "fleet": Act(_ask_host, is_plain=True, names="host"),
    "fact": Act(_change_fact, sees=("fact",)),
    "profile": Act(_write_profile, sees=("profile",)),
    "request": Act(_request_access, is_plain=True, names="agent"),
    "revoke": Act(_revoke, is_plain=True),
    "setting": Act(_change_setting, is_plain=True, names="key"),
}


def carry_out(name: str, order: Order) -> str:
    """Audit an act, carry it out, and return the message for the person.

    Raises:
        MemorydError: the act was refused or failed.
        ValueError: a value of the form is invalid.
        KeyError: an id of the form does not exist.
    """
    act = ACTS[name]
    if act.sees is not None:
        order.view.require(order.agent, f"{name} {order.text('id')}".strip(), *act.sees)
    blind = order.view.is_blind(order.agent, "core")
    detail = " ".join(filter(None, (name, order.text("verb"), order.text("kind"))))
    target = order.text(act.names)
    access.note_act(order.view.settings, order.agent, detail, target, is_blind=blind)
    return act.do(order) + (" (you did this without seeing the content)" if blind and name == "memory" else "")


def export_facts(look: Look) -> str:
    """Return the facts and the profile as a JSON file.

    Raises:
        MemorydError: the person may not see both.
    """
    view, agent = look.view, look.agent
    view.require(agent, "facts export")
    access.note_act(view.settings, agent, "export facts", agent.id, is_blind=False)
    with memory_changes.fact_store(view.settings, agent, None) as store:
        return store.dump()


def find_owner(view: PersonView, name: str, form: Mapping[str, str]) -> Agent:
    """Return the agent that a form is about.

    It is the named agent, or else the agent of the named run. The first agent's audit records acts that concern no
    agent.
    """
    if name in {"setting", "fleet"}:
        if not view.settings.agents:
            hint = "edit the file, or ask a host by the command: memoryd fleet ask"
            raise RefusedError("without an agent there is no audit that could hold it", str(view.settings.source), hint)
        return view.settings.agents[0]
    if form.get("agent"):
        return view.find_agent(form["agent"])
    return view.find_agent(str(lists.get_run(view.settings, form.get("id", ""))["agent_id"]))
