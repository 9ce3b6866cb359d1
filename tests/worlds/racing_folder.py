"""The other side of a race: exchanges a folder and a link in one call each, again and again.

    racing_folder.py FOLDER LINK RENAMES

Says `enough` after RENAMES renames, goes on until its standard input ends, and leaves the folder in its place.
"""

import ctypes
import os
import select
import sys

AT_FDCWD, EXCHANGE = -100, 2


def main(folder, link, renames):
    renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    count, here, there = 0, os.fsencode(folder), os.fsencode(link)
    while count < renames or count % 2 or not select.select([sys.stdin], [], [], 0)[0]:
        if renameat2(AT_FDCWD, here, AT_FDCWD, there, EXCHANGE) != 0:
            sys.exit(os.strerror(ctypes.get_errno()))
        count += 1
        if count == renames:
            sys.stdout.write("enough\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
