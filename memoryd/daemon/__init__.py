"""Decide when work happens: wait for hints, timers and finished runs, and start what is due.

This package holds the loop (the one place that waits), the schedules of the cron lines, the watching of folders, one
round of everything (`once`), and the messages to the service manager. It does not carry out runs (`running`) or read
transcripts itself (`reading`).

Open `loop.py` first.
"""
