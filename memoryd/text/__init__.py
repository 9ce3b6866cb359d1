"""Read text: sentences, fences and normal forms, one implementation of each; the lowest level, pure.

This package holds prose, words, voice (the author of each part of a message), neutral text, JSON inside text,
portions of limited size, and the readers of lists of words and patterns. It does not know transcripts, memories or
files.

Open `sentences.py` first.
"""
