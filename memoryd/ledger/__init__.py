"""Change memories as values: operations by id, the guards that may refuse them, the audit chain and rollback.

This package holds the memory, each operation, each guard, the deletion limit, and the rules on whose words may change
what. It does not store rows (`database`) or rewrite files (`changing`).

Open `operation.py` first.
"""
