"""The ledger at work on a real workspace: imports, protection, duplicates, the time machine, verify."""
