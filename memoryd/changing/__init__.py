"""Change memory: every operation on the memory store and on the files of a workspace happens here.

This package holds the commit of a run, the guard check inside its transaction (`guard_check`), the import of edits of
`MEMORY.md`, the notes and memories that tools save, facts, duplicates, rollback (`time_machine`), the restore after a
lost database, forgetting, redaction of stored text, and the check that all of it agrees (`verify`). It does not decide
what becomes of a model's reply (`jobs`), or when a run starts (`running`).

Open `commit.py` first.
"""
