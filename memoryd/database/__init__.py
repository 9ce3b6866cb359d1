"""Store rows: the state database `memoryd.db`, its schema, its migrations and every statement that changes it.

This package holds the tables, one module for each kind of row (turns, memories, audit, runs, grants, spend, alarms),
the choice of the SQLite library, and the reads of the command line. It does not decide what is stored (`reading`,
`changing`) or index texts for search (`index`).

Open `schema.py` first.
"""
