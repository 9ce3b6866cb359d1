"""Parse and render the memory files: one module for each format, and render(parse(x)) equals x.

This package holds the core file, the daily files, the files about sessions, the dream diary and the proposal. It does
not read or write files (`files`) or decide what is in them (`jobs`).

Open `core.py` first.
"""
