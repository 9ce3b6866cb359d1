"""Name the categories of facts, in a separate module, because the command line lists them and imports little."""

from enum import StrEnum


class Category(StrEnum):
    """Name the subject of a fact."""

    PREFERENCE = "preference"
    KNOWLEDGE = "knowledge"
    CONTEXT = "context"
    BEHAVIOR = "behavior"
    GOAL = "goal"
    CORRECTION = "correction"
