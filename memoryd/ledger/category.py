"""Name the categories of facts; the command line lists them, so this module imports almost nothing."""

from enum import StrEnum


class Category(StrEnum):
    """Name the subject of a fact."""

    PREFERENCE = "preference"
    KNOWLEDGE = "knowledge"
    CONTEXT = "context"
    BEHAVIOR = "behavior"
    GOAL = "goal"
    CORRECTION = "correction"
