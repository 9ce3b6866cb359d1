"""Write lines about the status for people.

It imports little, because the command line also prints the daemon's data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memoryd.counted import count_noun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memoryd.jobs.reader import Fitness

COUNTS = ("true_right", "true_asked", "false_right", "false_asked")  # fields of `jobs.reader.Fitness`


def fitness_of(row: Mapping[str, Any]) -> Fitness:
    """Return the test result of a second reader from its row."""
    from memoryd.jobs.reader import Fitness

    return Fitness(*(row[name] for name in COUNTS))


def reader_line(one: Mapping[str, Any]) -> str:
    """Return a line about the test result of a second reader."""
    from memoryd.running.second_reader import describe_fitness

    if one["fit"] is None:
        return f"{one['model']} not tested yet: the first run that asks it tests it"
    return f"{one['model']} {describe_fitness(fitness_of(one))}"


def left_line(sessions: int, agent: str = "") -> list[str]:
    """Return a line about sessions that are indexed but not in memory, with the command that writes them.

    It is a list of one line; empty for 0 sessions.
    """
    if not sessions:
        return []
    which = f" --agent {agent}" if agent else ""
    told = f"{count_noun(sessions, 'session')} ended before memoryd first saw {'it' if sessions == 1 else 'them'}"
    way = f"memoryd import{which} writes it now, ingest.history: flush always"
    return [f"{told}: indexed, but not written to memory; {way}"]


def unread_reasons(reasons: Mapping[str, int]) -> str:
    """Return the reasons why transcripts are not read, in brackets, or an empty text if there is none."""
    counted = [f"{count} {reason}" for reason, count in reasons.items()]
    told = "; ".join(counted if len(reasons) > 1 else reasons)
    return f" ({' '.join(told.splitlines())})" if told else ""


def passed_over_line(roles: Mapping[str, int]) -> list[str]:
    """Return a line about messages and parts that memoryd skips because of their role or type; or no line."""
    if not roles:
        return []
    named = ", ".join(f"{role} {count}" for role, count in roles.items())
    records = count_noun(sum(roles.values()), "record")
    return [f"messages or parts in {records} are skipped: their role or type is unknown or empty: {named}"]


def describe_vault(sizes: Mapping[str, int] | None) -> list[str]:
    """Return a list of one line about the stored texts; empty if the daemon does not report sizes."""
    if not sizes:
        return []
    without = count_noun(sizes["without_transcript"], "session")
    kept = f"{sizes['bytes'] / 1048576:,.1f} MiB, {sizes['compressed']:,} compressed"
    return [f"of {count_noun(sizes['turns'], 'turn')} ({kept}); {without} without a transcript"]
