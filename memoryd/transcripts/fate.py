"""Decide the fate of a transcript since it was last read.

Identity of a transcript is device and inode, its head, a marker just before the offset, and the SHA-256 of the whole
consumed prefix. Any weaker set loses records: inodes are reused at once on ext4, heads are constant in real
transcripts, and a same-length edit leaves everything but the prefix hash as it was.

- `new`: a file never seen before
- `unchanged`: size and times are as at the last read
- `unfinished`: so they are, and the last look did not read it to its end
- `touched`: the times moved, the consumed bytes are the same and nothing follows
- `appended`: bytes were added after the consumed prefix
- `edited`: consumed bytes were changed, the size not
- `truncated`: the file is shorter than the consumed part
- `regrown`: the file was cut or rewritten and has grown past the offset again
- `replaced`: another file under the same path, with other bytes
- `rewritten`: another file under the same path that begins with the consumed bytes
- `moved`: the same file under another path
- `returned`: a deleted file is back and begins with the consumed bytes
- `recreated`: a new file under the path of a deleted one
"""

from dataclasses import dataclass

HEAD_BYTES = 1024
MARKER_BYTES = 256
ALWAYS_VERIFY_BYTES = 1 << 20
VERIFY_SHARE = 8
# The fates after which a file is read from its start; records seen before are not new.
READ_AGAIN = frozenset({"new", "edited", "truncated", "regrown", "replaced", "recreated"})


@dataclass(frozen=True, slots=True)
class FateEvidence:
    """Hold the knowledge of an existing file and its cursor at one check.

    `same_prefix` is None while the consumed prefix has not been hashed at this look.
    """

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


def needs_prefix(evidence: FateEvidence, *, opened: bool, since_verified: int) -> bool:
    """Return True if the consumed prefix must be hashed before a fate can be decided.

    Args:
        evidence: the facts that are known without hashing.
        opened: the cursor was verified since this process opened it.
        since_verified: bytes consumed since the prefix was last verified.
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
    # An edit before an append looks like an append; so small prefixes are verified at every growth, and large ones
    # each time the file has grown by an eighth, which keeps the hashing within a constant factor of the reading.
    return evidence.offset <= ALWAYS_VERIFY_BYTES or since_verified * VERIFY_SHARE >= evidence.offset


def find_fate(seen: FateEvidence) -> str:
    """Tell the fate; `same_prefix` must be set where `needs_prefix` says so."""
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
