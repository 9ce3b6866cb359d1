"""Find what an agent remembers: keep the index up to date, search it, and read what it names.

This package holds the upkeep of the index, embeddings, the search itself, excerpts of files and sessions, and the
decision whether a person may see an agent's memory (`access_grants`). It does not write the index's tables (`index`),
rank hits (`recall`) or change a memory.

Open `recall.py` first.
"""
