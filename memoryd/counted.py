"""Write numbers with nouns for people: `1 turn`, `2 turns`, `1,024 bytes`."""


def count_noun(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun. `many` is the plural if that is not `one` with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
