"""Read and write files so that no byte of anyone is lost, and no path leads out of its folder.

This package holds durable rewrites and appends, locks, folders that are held open, range reads, the log, backups and
configuration files of other programs. It does not know what is in the files: their formats are in `tiers` and
`transcripts`.

Open `durable.py` first.
"""
