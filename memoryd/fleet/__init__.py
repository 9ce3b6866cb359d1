"""Join the daemons of many hosts: one PostgreSQL holds questions, budgets and job tables.

It holds what speaks to PostgreSQL, the worker that asks the model for all hosts, and the host's own thread beside the
loop. It does not hold memory, files or jobs: these stay with the daemon beside them. Nothing of it is imported unless
`fleet.database` is set; its packages come with the extra `fleet`.

Open `link.py` first.
"""
