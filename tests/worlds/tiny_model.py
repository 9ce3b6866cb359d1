"""A small embedder that works: words of one kind point one way, a text where its words do."""

import hashlib
import re

KINDS = [
    {"car", "automobile", "omnibus", "engine", "garage"},
    {"cat", "kitten", "feline", "purrs"},
    {"doctor", "physician", "clinic", "hospital"},
    {"kumquat", "fruit", "orchard", "harvest"},
]
SIZE = 256
STOP = {"the", "a", "of", "is", "in", "my", "what", "where", "we", "it"}


def direction(word):
    kind = next((min(kind) for kind in KINDS if word in kind), word)
    bits = int.from_bytes(hashlib.sha256(kind.encode()).digest()[: SIZE // 8], "big")
    return [1 if bits >> at & 1 else -1 for at in range(SIZE)]


def vector(text):
    words = [word for word in re.findall(r"\w+", text.lower()) if word not in STOP]
    if not words:
        return None
    total = [sum(part) for part in zip(*map(direction, words), strict=True)]
    most = max(map(abs, total)) or 1
    return bytes(round(127 * one / most) & 0xFF for one in total)


class TinyModel:
    """In the place of a worker; `embed` may be made to fail."""

    def __init__(self):
        self.texts = []
        self.fails = lambda texts: None

    def embed(self, texts):
        self.fails(texts)
        self.texts += texts
        return [vector(text) for text in texts]

    def tick(self, now):
        """Nothing to stop."""

    def close(self):
        """Nothing to close."""


# A child whose model takes a text's length for its meaning, and dies of "die".
TEST_EMBEDDER = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import os
import memoryd.worker.__main__ as child
class EmbeddingModel:
    def embed(self, texts):
        if "die" in texts:
            os._exit(1)
        return [bytes([len(text), 255]) if text else None for text in texts]
child.EmbeddingModel = EmbeddingModel
child.main()
"""
