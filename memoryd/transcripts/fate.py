"""Decide how a transcript has changed since it was last read: its fate.

A transcript is identified by device and inode, its head, a marker just before the offset, and the SHA-256 of the whole
consumed prefix. Any weaker combination loses records. ext4 reuses inodes at once, real transcripts have equal heads,
and an edit of equal length changes only the hash of the prefix.

- `new`: a file never seen before
- `unchanged`: size and times are as at the last read
- `unfinished`: as `unchanged`, but the last check did not read the file to its end
- `touched`: the times changed, the consumed bytes are the same, and nothing follows them
- `appended`: bytes were added after the consumed prefix
- `edited`: consumed bytes were changed, the size was not
- `truncated`: the file is shorter than the consumed part
- `regrown`: the file was truncated or rewritten and has grown past the offset again
- `replaced`: another file under the same path, with other bytes
- `rewritten`: another file under the same path that begins with the consumed bytes
- `moved`: the same file under another path
- `returned`: a deleted file exists again and begins with the consumed bytes
- `recreated`: a new file under the path of a deleted one
"""

from dataclasses import dataclass

HEAD_BYTES = 1024
MARKER_BYTES = 256
ALWAYS_VERIFY_BYTES = 1 << 20
VERIFY_SHARE = 8
# After these fates, a file is read from its start. Records that were read before are recognised.
READ_AGAIN = frozenset({"new", "edited", "truncated", "regrown", "replaced", "recreated"})


@dataclass(frozen=True, slots=True)
class FateEvidence:
    """Hold the known facts about an existing file and its cursor at one check.

    `same_prefix` is None if the consumed prefix was not hashed at this check.
    """

    known: bool  # whether a cursor exists for this path or this inode
    was_gone: bool = False  # whether the file was missing at the last check
    same_path: bool = True
    same_inode: bool = True
    size: int = 0
    offset: int = 0
    same_stat: bool = False  # whether size, mtime and ctime are as at the last read
    doubtful: bool = False  # whether size and times may hide a change anyway
    unfinished: bool = False  # whether the last check did not read the file to its end
    same_prefix: bool | None = None


def needs_prefix(evidence: FateEvidence, *, opened: bool, since_verified: int) -> bool:
    """Return True if the consumed prefix must be hashed before the fate can be decided.

    Args:
        evidence: The facts that are known without hashing.
        opened: Whether the cursor was verified since this process opened it.
        since_verified: The bytes consumed since the prefix was last verified.
    """
    if not evidence.known or evidence.offset == 0 or evidence.size < evidence.offset:
        return False
    if not opened:
        return True
    if evidence.was_gone or evidence.doubtful or not (evidence.same_path and evidence.same_inode):
        return True
    if evidence.same_stat:
        return False
    if evidence.size == evidence.offset:
        return True
    # An edit before an append looks like a mere append. So a small prefix is verified whenever the file grows. A large
    # prefix is verified when the file has grown by an eighth: the cost of hashing stays proportional to that of
    # reading.
    return evidence.offset <= ALWAYS_VERIFY_BYTES or since_verified * VERIFY_SHARE >= evidence.offset


def find_fate(seen: FateEvidence) -> str:
    """Return the fate by its name. If `needs_prefix` returns True, `same_prefix` must be set."""
    if not seen.known:
        return "new"
    kept = seen.size >= seen.offset and seen.same_prefix is not False
    if seen.was_gone:
        return ("returned" if seen.same_path else "moved") if kept else "recreated"
    if not seen.same_path and kept:
        return "moved"
    if not seen.same_inode:
        return "rewritten" if kept else "replaced"
    if seen.size < seen.offset:
        return "truncated"
    if not kept:
        return "edited" if seen.size == seen.offset else "regrown"
    if seen.same_stat:
        return "unfinished" if seen.unfinished and seen.size > seen.offset else "unchanged"
    return "appended" if seen.size > seen.offset else "touched"
