"""The offline backend's refinement: it leaves the memories as they are, since to condense them takes a model's words.

What is there twice goes in the dreams and in the clean-up, which compare by normal form.
"""

import json

from memoryd.jobs import refinement_tools
from memoryd.jobs.job import Ask, Reply, ToolCall
from memoryd.jobs.refine import CONSENT, JOB

JOBS = (CONSENT, JOB)
BACKEND = "offline"
_NOTHING = "Nothing is safe to condense without a model."


def answer(ask: Ask) -> Reply:
    """Return the reply to a question of a refinement: consent, and an end at once."""
    if ask.job == CONSENT:
        return Reply("yes", "stop", BACKEND)
    end = ToolCall("call_1", refinement_tools.COMPLETE, json.dumps({"summary": _NOTHING}))
    return Reply("", "stop", BACKEND, calls=(end,))
