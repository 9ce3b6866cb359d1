"""Decide the fate of a transcript since it was last read: all fates in one table.

Identity of a transcript is device and inode, its head, a marker just before the offset, and the SHA-256 of the whole
consumed prefix. Any weaker set loses records: inodes are reused at once on ext4, heads are constant in real
transcripts, and a same-length edit leaves everything but the prefix hash as it was.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

HEAD_BYTES = 1024
MARKER_BYTES = 256
ALWAYS_VERIFY_BYTES = 1 << 20
VERIFY_SHARE = 8


class Action(StrEnum):
    """What ingest does about a fate."""

    NOTHING = "nothing"
    READ_ON = "read-on"  # from the offset
    READ_AGAIN = "read-again"  # from the start; records seen before are not new
    KEEP = "keep"  # the file is gone; its turns stay


@dataclass(frozen=True, slots=True)
class FateEvidence:
    """Hold the knowledge of a path and its cursor at one check.

    `same_prefix` is None while the consumed prefix has not been hashed at this look.
    """

    exists: bool
    known: bool  # a cursor exists for this path or this inode
    was_gone: bool = False  # the file was away at the last look
    same_path: bool = True
    same_inode: bool = True
    size: int = 0
    offset: int = 0
    same_stat: bool = False  # size, mtime and ctime as at the last read
    doubtful: bool = False  # all the same they may hide a change
    unfinished: bool = False  # the last look did not read it to its end
    same_prefix: bool | None = None


class Fate(NamedTuple):
    """What happened to a transcript and what to do."""

    name: str
    action: Action


FATES = {
    "new": Action.READ_AGAIN,  # a file never seen before
    "unchanged": Action.NOTHING,  # size and times are as at the last read
    "unfinished": Action.READ_ON,  # as at the last look, which did not read it to its end
    "touched": Action.NOTHING,  # the times moved, the consumed bytes are the same and nothing follows
    "appended": Action.READ_ON,  # bytes were added after the consumed prefix
    "edited": Action.READ_AGAIN,  # consumed bytes were changed, the size not
    "truncated": Action.READ_AGAIN,  # the file is shorter than the consumed part
    "regrown": Action.READ_AGAIN,  # the file was cut or rewritten and has grown past the offset again
    "replaced": Action.READ_AGAIN,  # another file under the same path, with other bytes
    "rewritten": Action.READ_ON,  # another file under the same path that begins with the consumed bytes
    "moved": Action.READ_ON,  # the same file under another path
    "deleted": Action.KEEP,  # the file is gone
    "still-gone": Action.KEEP,  # the file was gone at the last look already
    "returned": Action.READ_ON,  # a deleted file is back and begins with the consumed bytes
    "recreated": Action.READ_AGAIN,  # a new file under the path of a deleted one
}


def needs_prefix(evidence: FateEvidence, *, opened: bool, since_verified: int) -> bool:
    """Return True if the consumed prefix must be hashed before a fate can be decided.

    Args:
        evidence: the facts that are known without hashing.
        opened: the cursor was verified since this process opened it.
        since_verified: bytes consumed since the prefix was last verified.
    """
    if not evidence.exists or not evidence.known or evidence.offset == 0 or evidence.size < evidence.offset:
        return False
    if not opened:
        return True
    if evidence.was_gone or evidence.doubtful or not (evidence.same_path and evidence.same_inode):
        return True
    if evidence.same_stat:
        return False
    if evidence.size == evidence.offset:
        return True
    # An edit before an append looks like an append; so small prefixes are verified at every growth, and large ones
    # each time the file has grown by an eighth, which keeps the hashing within a constant factor of the reading.
    return evidence.offset <= ALWAYS_VERIFY_BYTES or since_verified * VERIFY_SHARE >= evidence.offset


def find_fate(evidence: FateEvidence) -> Fate:
    """Tell the fate; `same_prefix` must be set where `needs_prefix` says so."""
    name = _name(evidence)
    return Fate(name, FATES[name])


def _name(seen: FateEvidence) -> str:
    if not seen.known:
        return "new"
    if not seen.exists:
        return "still-gone" if seen.was_gone else "deleted"
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
