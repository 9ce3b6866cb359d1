"""Choose what an agent sees: read a query, rank hits, and build the text that is injected into a session.

This package holds the query grammar, chunks, ranking, snippets, the injection with its budgets, the state of a project,
and the evaluation. It does not open the index (`finding`) or gather files and facts (`requests`).

Open `injection.py` first.
"""
