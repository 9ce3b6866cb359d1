"""Answer a job's question without a model: choose and quote sentences of the material, and add none.

This package holds the built-in backend. It divides a conversation into statements, judges them by their wording, and
replies in the same grammar as a model. It is pure. It does not talk to a model server (`llm`), or decide what a reply
changes (`jobs`).

Open `backend.py` first.
"""
