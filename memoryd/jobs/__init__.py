"""Decide what becomes memory: each job asks questions as values and ends with a list of changes.

This package holds sleep, facts, dream and refine with their prompts (`.md`), the grammars of replies, and the judging
of claims. It does not ask a model (`running`), read or write files, or apply changes (`changing`).

Open `job.py` first.
"""
