"""Which cursor is found for a file, where inodes are used again and what was stored is taken back."""

from memoryd.files.ranges import Stat
from memoryd.reading.cursor import Cursor
from memoryd.reading.cursors import Cursors


def stat_of(inode):
    return Stat(dev=1, ino=inode, size=10, mtime_ns=0, ctime_ns=0)


def test_a_file_that_went_hides_none_that_has_its_inode_by_now():
    cursors = Cursors()
    live = Cursor("ann", "/s/b.jsonl", 1, 5, id=2)
    cursors.place(live, "/s/b.jsonl", stat_of(7))
    stale = Cursor("ann", "/s/a.jsonl", 1, 7, id=1)  # as its row says, since the transaction that knew better failed
    cursors.add(stale)
    assert cursors.of_file("ann", stat_of(7)) is stale
    stale.fate = "deleted"
    assert cursors.of_file("ann", stat_of(7)) is live
    live.fate = "deleted"
    assert cursors.of_file("ann", stat_of(7)) is stale
    assert cursors.of_file("ann", stat_of(8)) is None
