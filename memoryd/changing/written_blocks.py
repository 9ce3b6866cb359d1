"""Find the blocks of a daily file that runs of memoryd wrote, and the sentences that their lines stand on."""

from __future__ import annotations

import json
from datetime import tzinfo
from typing import NamedTuple

from sqlalchemy import Connection

from memoryd.changing import saving
from memoryd.database import turns
from memoryd.jobs.exchanges import set_aside_scheduled
from memoryd.jobs.witness import SupportingSentences
from memoryd.ledger import audit as chain
from memoryd.tiers import daily

SLEPT = "coalesce(json_extract(r.options, '$.of'), r.kind) IN ('sleep', 'facts') AND r.session_id IS NOT NULL"
NOTED = f"r.kind = '{saving.SAVE}' AND json_extract(r.options, '$.witness') IS NOT NULL"  # a person's have none


class WrittenBlock(NamedTuple):
    """Hold a block that memoryd appended, if it is still as it was written."""

    first: int
    end: int
    run_id: str
    session_id: str | None  # that it is from; None where an agent's memory tool noted it


def find_written_blocks(
    connection: Connection, agent_id: str, path: str, data: bytes, which: str = SLEPT
) -> list[WrittenBlock]:
    """Return the blocks of a file that runs of a kind wrote, from the audit and the run reports."""
    rows = connection.exec_driver_sql(
        'SELECT r.id, r.session_id, r.receipt, c.text FROM audit a JOIN content c ON c.sha256 = a."after"'  # noqa: S608
        f" JOIN job_run r ON r.id = a.run_id WHERE a.agent_id = ? AND a.memory_id = ? AND a.operation = 'append'"
        f" AND {which} AND c.text IS NOT NULL",
        (agent_id, chain.FILE + path),
    )
    found = []
    for run_id, session_id, receipt, state in rows:
        sha256 = chain.values_of(state).get("appended")
        for item in json.loads(receipt).get("files", ()):
            if item.get("appended") == sha256 and item["path"] == path:
                at = daily.find_block(data, item["appended"], item["bytes"])
                if at is not None:
                    found.append(WrittenBlock(at, at + item["bytes"], run_id, session_id))
    return found


def read_sentences(connection: Connection, run_id: str, tz: tzinfo) -> tuple[SupportingSentences, str]:
    """Return the sentences that may support the lines of a sleep, and their session."""
    row = (
        connection.exec_driver_sql(
            "SELECT r.session_id, json_extract(r.options, '$.upto') AS upto, s.folder,"
            " json_extract(r.receipt, '$.cites') AS cites,"
            " (SELECT max(json_extract(b.options, '$.upto')) FROM job_run b WHERE b.session_id = r.session_id"
            " AND b.kind = coalesce(json_extract(r.options, '$.of'), r.kind) AND b.state = 'succeeded'"
            " AND json_extract(b.options, '$.upto') < json_extract(r.options, '$.upto')) AS mark"
            " FROM job_run r JOIN session s ON s.id = r.session_id WHERE r.id = ?",
            (run_id,),
        )
        .mappings()
        .one()
    )
    cites = json.loads(row["cites"] or "{}")
    # A run of facts leaves an exchange that is not over to the next, whose turns begin before its own mark.
    cited = [int(one.partition(".")[0].removeprefix("t")) for ids in cites.values() for one in ids]
    after = min((row["mark"] or 0, *(seq - 1 for seq in cited)))
    found = turns.stored_turns(connection, row["session_id"], after=after, upto=row["upto"])
    earlier = turns.stored_turns(connection, row["session_id"], upto=after)
    said, before = set_aside_scheduled(found, earlier), set_aside_scheduled(earlier)
    return SupportingSentences(said, row["folder"], tz, cites, before), row["session_id"]
