"""Join the daemons of many hosts: one PostgreSQL holds questions, budgets and job tables.

This package holds the access to PostgreSQL, the worker that asks the model for all hosts, and the thread of each host.
It does not hold memory, files or jobs, which stay with each daemon. It is imported only if `fleet.database` is set, and
needs the packages of the extra `fleet`.

Open `link.py` first.
"""
