"""Measure context usage: how full a session's context window is, and whether the session should sleep now.

This package holds the estimate of tokens, the usage figures that an agent recorded, the size of the window, and the
rule for the next sleep. It does not count tokens with a tokenizer (`worker`) or start a sleep (`running`).

Open `live.py` first.
"""
