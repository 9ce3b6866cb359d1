"""Find texts: the search index `index.db`, by words (FTS5) and by meaning (vectors).

This package holds the tables of the index, the match of a query with its texts, and the vectors in memory. It does not
store the texts, order the hits (`recall`) or keep the index up to date (`finding`).

Open `database.py` first.
"""
