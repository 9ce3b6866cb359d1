"""Read what agents write: transcripts become stored turns, without their secrets.

This package holds the cursor that continues each transcript, the reading of files that are rewritten as a whole, the
redaction of every text (`scrubbing`), the sessions that a program passes in (`recording`), and the transaction that
stores turns and cursor together (`store`). It does not know the formats (`transcripts`), decide what becomes of a turn
(`running`) or change a memory (`changing`).

Open `ingest.py` first.
"""
