"""Define the commands of the fact store."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from memoryd.database import reads
from memoryd.errors import NotFoundError, RefusedError
from memoryd.interfaces.call import Call, of_agent, text_file, text_of
from memoryd.interfaces.output import one_line
from memoryd.ledger.category import Category
from memoryd.requests import access

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memoryd.changing.facts import FactStore
    from memoryd.config import Agent, Settings
    from memoryd.ledger.facts import Fact

_ERASES = "memoryd forget {} erases the statement wherever it stands word for word"
_category = click.Choice([str(one) for one in Category])


@click.group()
def facts() -> None:
    """List and change the facts about the user."""


@facts.command("list")
@click.option("--query", metavar="WORDS", help="Find facts with any of these words, the best first.")
@click.option("--category", type=_category, help="List one category only.")
@of_agent
def facts_list(call: Call, settings: Settings, agent: Agent, query: str | None, category: str | None) -> None:
    """List the facts, most certain first. Of equally certain facts on one subject, the newer one comes first."""
    from memoryd.database import memories
    from memoryd.ledger.facts import Store, fact_of
    from memoryd.recall.newer import put_newer_first

    with call.reader(settings) as reader:
        held = memories.of_sound_rows(reads.read_live(reader, agent.id, "fact"))
    store, days = Store(map(fact_of, held)), {one.id: one.origin_at or one.created_at for one in held}
    found = store.all() if query is None else store.search(query, sys.maxsize)
    if query is None:  # otherwise the order is by the words of the query
        equals = groupby(found, key=lambda fact: fact.confidence)
        found = [one for _, same in equals for one in put_newer_first(same, lambda fact: (fact.content, days[fact.id]))]
    rows = [as_row(fact) for fact in found if category in {None, fact.category}]
    if query is not None:
        access.require(settings, agent, "facts list --query")  # a query for a word reveals which facts contain it
    rows = access.show_rows(settings, agent, "facts list", rows, "content", "category")
    lines = [
        f"{row['id']} [{row['category']} | {row['confidence']:.2f}] {one_line(access.text_of(row['content'], row))}"
        f" ({days[row['id']][:10]})"
        for row in rows
    ]
    call.output.result(rows, "\n".join(lines) or "no facts yet")


def as_row(fact: Fact) -> dict[str, Any]:
    """Return a fact as a row for programs, with `createdAt` as DeerFlow names it."""
    return {{"created_at": "createdAt"}.get(name, name): value for name, value in asdict(fact).items()}


@facts.command("add")
@click.argument("text")
@click.option("--category", type=_category, default=str(Category.CONTEXT), show_default=True, help="The category.")
@click.option("--confidence", type=float, default=1.0, show_default=True, help="From 0 to 1.")
@of_agent
def facts_add(call: Call, settings: Settings, agent: Agent, text: str, category: str, confidence: float) -> None:
    """Store a fact; an equal fact stays unchanged."""
    from memoryd.ledger.facts import NewFact

    with _store(settings, agent, "facts add") as store:
        created = store.create([NewFact(text, category, confidence)])
    outcome = created.outcomes[0]
    if outcome.fact is None:
        limit = settings.facts.min_confidence
        raise RefusedError(
            f"the fact is not sure enough: {confidence} is less than {limit}", hint="facts.min_confidence"
        )
    (row,) = access.show_rows(settings, agent, "facts add", [as_row(outcome.fact)], "content")
    told = outcome.fact.id if outcome.created else f"{outcome.fact.id} says that already"
    data = {"fact": row, "created": outcome.created, "evicted": [one.id for one in created.evicted]}
    call.output.result(data, "\n".join([told, *(f"{one.id} went for it" for one in created.evicted)]))


@facts.command("edit")
@click.argument("fact_id", metavar="ID")
@click.option("--content", metavar="TEXT", help="The new text.")
@click.option("--category", type=_category, help="The new category.")
@click.option("--confidence", type=float, help="From 0 to 1.")
@of_agent
def facts_edit(call: Call, settings: Settings, agent: Agent, fact_id: str, **change: Any) -> None:
    """Change only the given fields of a fact."""
    if all(one is None for one in change.values()):
        raise click.UsageError("say what to change: --content, --category or --confidence")
    full = str(reads.ask(reads.database_path(settings), reads.find_fact, agent.id, fact_id)["id"])
    with _store(settings, agent, "facts edit") as store:
        fact = store.update(full, **change)
    (row,) = access.show_rows(settings, agent, "facts edit", [as_row(fact)], "content")
    call.output.result(row, f"{fact.id} is changed")


@facts.command("delete")
@click.argument("fact_id", metavar="ID")
@of_agent
def facts_delete(call: Call, settings: Settings, agent: Agent, fact_id: str) -> None:
    """Delete a fact. Lines that say it too stay. A job stores the fact again only if the user repeats it."""
    full = str(reads.ask(reads.database_path(settings), reads.find_fact, agent.id, fact_id)["id"])
    with _store(settings, agent, "facts delete") as store:
        store.delete(full)
    call.output.result({"id": full}, f"{full} is deleted\n{_ERASES.format(full)}")


@facts.command("export")
@click.option("--deerflow", is_flag=True, help="Write the format of DeerFlow's memory.json.")
@of_agent
def facts_export(call: Call, settings: Settings, agent: Agent, *, deerflow: bool) -> None:
    """Print the facts and the profile as JSON, for `facts import`."""
    import json

    access.require(settings, agent, "facts export")
    with _store(settings, agent, None) as store:
        text = store.dump(deerflow=deerflow)
    call.output.result(json.loads(text), text.rstrip("\n"))


@facts.command("import")
@click.argument("file", type=text_file)
@of_agent
def facts_import(call: Call, settings: Settings, agent: Agent, file: Path) -> None:
    """Import an export or DeerFlow's memory.json, all or nothing. Equal facts stay unchanged."""
    text = text_of(file)
    with _store(settings, agent, "facts import") as store:
        brought = store.bring(text, str(file))
    data = {
        "created": sum(one.created for one in brought.outcomes),
        "known": sum(one.why == "duplicate" for one in brought.outcomes),
        "unsure": sum(one.fact is None for one in brought.outcomes),
        "evicted": [one.id for one in brought.evicted],
        "sections": [str(one) for one in brought.sections],
    }
    told = f"{data['created']} facts came in, {data['known']} were known, {data['unsure']} not sure enough"
    if not brought.outcomes and not brought.offered:
        told = "nothing to import: the file holds no facts and no text for the profile"
        data["why"] = told
    call.output.result(data, told)


@facts.command("profile")
@click.argument("section", required=False)
@click.argument("text", required=False)
@of_agent
def facts_profile(call: Call, settings: Settings, agent: Agent, section: str | None, text: str | None) -> None:
    """Show the user's profile, or write one of its sections. An empty TEXT removes the section."""
    from memoryd.ledger.facts import ProfileSection
    from memoryd.requests import lists

    if section is not None and text is not None:
        known = next((one for one in ProfileSection if one.value == section), None)
        if known is None:
            raise click.UsageError(f"the sections are {', '.join(one.value for one in ProfileSection)}")
        with _store(settings, agent, "profile edit") as store:
            store.write_section(known, text)
    rows = [row for row in lists.list_profile(settings, agent) if section in {None, row["id"]}]
    rows = access.show_rows(settings, agent, "facts profile", rows, "text")
    call.output.result(rows, "\n".join(f"{row['id']}: {one_line(access.text_of(row['text'], row))}" for row in rows))


@contextmanager
def _store(settings: Settings, agent: Agent, asked: str | None) -> Iterator[FactStore]:
    """Open the fact store for one command, and turn its ValueError and KeyError into errors of the command line."""
    from memoryd.files import log
    from memoryd.requests import memory_changes

    written = log.configure(settings.state_dir, level=settings.log.level)
    try:
        with written, memory_changes.fact_store(settings, agent, asked) as store:
            yield store
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except KeyError as error:
        raise NotFoundError(f"there is no fact {error.args[0]!r}", hint="memoryd facts list") from None
