"""Turn bytes of transcripts into turns: one module for each format, and the choice of the format.

This package holds the readers, the splitting of lines, the outcomes of a check for changes (fates), and the mark around
injected text. It does not open files (`files`), keep cursors (`reading`) or redact (`scrub`).

Open `registry.py` first.
"""
