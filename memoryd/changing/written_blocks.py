"""Find the blocks of a daily file that memoryd's runs wrote, and the sentences that support their lines."""

import json
from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import NamedTuple

from sqlalchemy import Connection

from memoryd.changing import ledger_runs
from memoryd.database import query, turns
from memoryd.files import regular
from memoryd.jobs.dream_inputs import UNKNOWN_ORIGIN
from memoryd.jobs.exchanges import set_aside_scheduled
from memoryd.jobs.witness import SupportingSentences, digest_of
from memoryd.ledger import audit as chain
from memoryd.tiers import daily
from memoryd.tiers.lines import lines_of

SLEPT = "coalesce(json_extract(r.options, '$.of'), r.kind) IN ('sleep', 'facts') AND r.session_id IS NOT NULL"
# Runs of an agent's tool; a person's runs have no `witness`. An update that may not add to the core becomes a note,
# too.
NOTED = f"r.kind IN ('{ledger_runs.SAVE}', '{ledger_runs.UPDATE}') AND json_extract(r.options, '$.witness') IS NOT NULL"
SAVED = f"r.kind = '{ledger_runs.SAVE}' AND json_extract(r.options, '$.terminal')"  # a person's runs at a terminal
_RECEIPT = "SELECT receipt FROM job_run WHERE id = ?"


class WrittenBlock(NamedTuple):
    """Hold a block that a run appended, or a line that is left of an edited block."""

    first: int
    end: int
    run_id: str
    session_id: str | None  # None if no session supports its lines
    origin: str | None = None  # the origin of its lines, as for `DailyEntry`; None if the sentences behind them decide


def find_written_blocks(
    connection: Connection, agent_id: str, path: str, data: bytes, which: str = SLEPT
) -> list[WrittenBlock]:
    """Return the blocks of a daily file that runs wrote; `which` is the SQL condition that selects the runs."""
    sql = (
        'SELECT r.id, r.session_id, r.receipt, c.text FROM audit a JOIN content c ON c.sha256 = a."after"'  # noqa: S608
        f" JOIN job_run r ON r.id = a.run_id WHERE a.agent_id = ? AND a.memory_id = ? AND a.operation = 'append'"
        f" AND {which} AND c.text IS NOT NULL"
    )
    found = []
    for run_id, session_id, receipt, state in query.fetch_rows(connection, sql, agent_id, chain.FILE + path):
        sha256 = chain.values_of(state).get("appended")
        for item in json.loads(receipt).get("files", ()):
            if item.get("appended") == sha256 and item["path"] == path:
                states = ((item["appended"], item["bytes"]), *item.get("left", ()))
                spans = ((daily.find_block(data, *state), state[1]) for state in states)
                at, size = next((span for span in spans if span[0] is not None), (None, 0))
                if at is not None:
                    found.append(WrittenBlock(at, at + size, run_id, session_id))
    return found


def find_left_lines(
    connection: Connection, agent_id: str, path: str, data: bytes, found: Sequence[WrittenBlock]
) -> list[WrittenBlock]:
    """Return each line of a daily file that a sleep wrote into a block which somebody edited later.

    `found` has the blocks that nobody edited. The author of a line is unknown if its run was rolled back.
    """
    sql = (
        'SELECT r.id, r.session_id, CASE WHEN (SELECT m."after" FROM audit m WHERE m.agent_id = a.agent_id'  # noqa: S608
        " AND m.memory_id = ? || r.id ORDER BY m.id DESC LIMIT 1) IS NOT NULL THEN ? END,"
        " json_extract(r.receipt, '$.cites') FROM audit a JOIN job_run r ON r.id = a.run_id"
        f" WHERE a.agent_id = ? AND a.memory_id = ? AND a.operation = 'append' AND {SLEPT}"
    )
    rows = query.fetch_rows(connection, sql, chain.RUN, UNKNOWN_ORIGIN, agent_id, chain.FILE + path)
    whole = {one.run_id for one in found}
    cited = {digest: by for *by, cites in rows if by[0] not in whole for digest in json.loads(cites or "{}")}
    lines, end = [], 0
    for line in lines_of(data) if cited else ():
        end += len(line)
        if by := cited.get(digest_of(line.decode(errors="replace"))):
            lines.append(WrittenBlock(end - len(line), end, *by))
    return lines


def record_left(
    connection: Connection, agent_id: str, path: str, data: bytes, new: bytes, clean: Callable[[bytes], bytes]
) -> None:
    """Record in the run reports what `clean` leaves of blocks, so that the blocks are still recognised in `new`.

    The caller must call this before it writes the file. If the process ends in between, both forms of a block are
    recognised.
    """
    for block in find_written_blocks(connection, agent_id, path, data, "1"):
        was = data[block.first : block.end]
        left = clean(was)
        if left == was or left not in new:
            continue
        receipt = query.fetch_object(connection, _RECEIPT, block.run_id)
        for item in receipt["files"]:
            states = [[item.get("appended"), item.get("bytes")], *item.get("left", ())]
            state = [regular.compute_digest(left), len(left)]
            if item["path"] == path and [regular.compute_digest(was), len(was)] in states and state not in states:
                item["left"] = [*states[1:], state]
        text = json.dumps(receipt, sort_keys=True)
        query.run(connection, "UPDATE job_run SET receipt = ? WHERE id = ?", text, block.run_id)


def read_sentences(connection: Connection, run_id: str, tz: tzinfo) -> tuple[SupportingSentences, str]:
    """Return the sentences that may support the lines of a sleep, and the id of its session."""
    sql = (
        "SELECT r.session_id, json_extract(r.options, '$.upto') AS upto, s.folder,"
        " json_extract(r.receipt, '$.cites') AS cites,"
        " (SELECT max(json_extract(b.options, '$.upto')) FROM job_run b WHERE b.session_id = r.session_id"
        " AND b.kind = coalesce(json_extract(r.options, '$.of'), r.kind) AND b.state = 'succeeded'"
        " AND json_extract(b.options, '$.upto') < json_extract(r.options, '$.upto')) AS mark"
        " FROM job_run r JOIN session s ON s.id = r.session_id WHERE r.id = ?"
    )
    (row,) = query.fetch_mappings(connection, sql, run_id)
    cites = json.loads(row["cites"] or "{}")
    # A run of facts leaves an unfinished exchange to the next run, which may therefore cite turns before its own mark.
    cited = [int(one.partition(".")[0].removeprefix("t")) for ids in cites.values() for one in ids]
    after = min((row["mark"] or 0, *(seq - 1 for seq in cited)))
    found = turns.stored_turns(connection, row["session_id"], after=after, upto=row["upto"])
    earlier = turns.stored_turns(connection, row["session_id"], upto=after)
    said, before = set_aside_scheduled(found, earlier), set_aside_scheduled(earlier)
    return SupportingSentences(said, row["folder"], tz, cites, before), row["session_id"]
