"""Read text: sentences, fences and normal forms, one implementation of each; the lowest level, pure.

This package holds prose, words, voice (whose words a part of a message is), neutral text, JSON inside text, and the
readers of lists of words and patterns. It does not know transcripts, memories or files.

Open `sentences.py` first.
"""
