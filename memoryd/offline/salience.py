"""Choose the statements of a conversation that are worth a line, by their content and their place.

The score is a logistic model over features that exist in any conversation. They are new content words (rare words
matter most: idf mass, Spärck Jones 1972), times, numbers, names, quotations, the first person, small talk, and an
answer after a question. `work` rates the statements of a working session.

The selection is greedy, by gain for length, within a budget. Content that is already taken is discounted (maximal
marginal relevance, Carbonell and Goldstein 1998).
"""

import math
from collections import Counter
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from memoryd.offline import words
from memoryd.offline.cues import CUES
from memoryd.offline.statements import LABEL_WORDS, Statement

# Weights of the logistic model, one for each feature. They were set by hand, starting from a regression on half of
# LoCoMo, so that they do not fit that data too closely.
WEIGHTS = (
    -2.6,  # bias
    0.25,  # logarithm of the length
    1.3,  # new content words, in tens
    0.5,  # content words per word
    0.3,  # first person
    0.9,  # times and numbers
    1.5,  # names, divided by three
    0.6,  # quotations
    0.85,  # answers a question
    -1.4,  # share of small talk
)
_LENGTH_COST = 0.55  # exponent of the length: 0 takes the best first, 1 the best per word
_REPEATED = 0.3  # a statement loses up to this share of its worth if its words are already taken


def choose(candidates: Sequence[Statement], budget: int) -> list[Statement]:
    """Return the statements with the most worth for their length, within `budget` words, in their original order.

    Args:
        candidates: the statements, in order.
        budget: the number of words that all chosen statements may have, including marks and speakers.
    """
    values = [rate_statement(one) / one.cost**_LENGTH_COST for one in candidates]
    heap = [(-value, i) for i, value in enumerate(values)]
    heapify(heap)
    taken: list[int] = []
    turns: Counter[int] = Counter()
    seen: set[str] = set()
    while heap and budget > 0:
        _, i = heappop(heap)
        one = candidates[i]
        cost = one.cost - (LABEL_WORDS if turns[one.turn] else 0)
        if cost > budget:
            continue
        gain = values[i] * (1 - _REPEATED * len(one.told & seen) / len(one.told))
        if heap and -gain > heap[0][0]:
            # The discount made it worth less than the next one. Put it back with its new value, which is an upper
            # bound.
            heappush(heap, (-gain, i))
            continue
        taken.append(i)
        turns[one.turn] += cost
        budget -= cost
        seen |= one.told
    return [candidates[i] for i in sorted(taken)]


def rate_statement(statement: Statement) -> float:
    """Return the probability that a person asks for `statement` later, from 0 to 1."""
    score = sum(weight * value for weight, value in zip(WEIGHTS, _features(statement), strict=True))
    return 1 / (1 + math.exp(-score))


def _features(statement: Statement) -> tuple[float, ...]:
    text = statement.text
    low = text.lower()
    length = max(1, statement.cost - LABEL_WORDS)
    own = statement.told | statement.talk
    names = {name for name in CUES["name"].findall(text) if words.key_of(name) in own}
    return (
        1.0,
        math.log1p(length),
        min(2.0, statement.new / 10),
        len(statement.told) / length,
        float(CUES["self"].search(low) is not None),
        float(CUES["time"].search(low) is not None),
        min(3, len(names)) / 3,
        float(CUES["quote"].search(text) is not None),
        float(statement.answers),
        len(statement.talk) / len(own),
    )
