"""Run jobs: queue a run when it is due, carry it out step by step, and retry it or raise an alarm when it fails.

This package holds the queue, the runner, one file or more for each kind of run (sleep, facts, dream, refinement,
self-test, evaluation), the answer to a job's question by a model or the offline backend (`answering`), proposals,
retries, hooks and alarms. It does not hold the pure steps and prompts of a job (`jobs`), wait for a scheduled time
(`daemon`) or write files and memories (`changing`).

Open `runner.py` first.
"""
