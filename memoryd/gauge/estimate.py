"""Estimate tokens roughly, if a tokenizer is not worth its start: with the same result everywhere, at any time."""

CHARACTERS_PER_TOKEN = 4


def estimate(text: str) -> int:
    """Return the tokens of a text, roughly: a quarter of its characters, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)
